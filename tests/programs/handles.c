// Lock functions that are got by a library's handle, as foreign function interfaces do, and those of a plug-in that binds its
// own names first, beside those that the program imports: all of them mean the same lock.
//
// Usage: handles PLUGIN

#include "case.h"
#include <dlfcn.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

typedef int (*try_mutex)(pthread_mutex_t *);
typedef int (*try_rwlock)(pthread_rwlock_t *);

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL) fail("%s", dlerror());
    return found;
}

int main(int argc, char **argv) {
    watch();
    CHECK(argc == 2);
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
    if (plugin == NULL) fail("%s", dlerror());
    const char *const libraries[] = {"libpthread.so.0", "libc.so.6"};
    MUST(pthread_mutex_lock(&mutex));
    MUST(pthread_rwlock_wrlock(&rwlock));
    for (size_t i = 0; i < COUNT(libraries); i++) {
        void *library = dlopen(libraries[i], RTLD_NOW);
        if (library == NULL) fail("%s", dlerror());
        CHECK(((try_mutex)function(library, "pthread_mutex_trylock"))(&mutex) == EBUSY);
        CHECK(((try_rwlock)function(library, "pthread_rwlock_tryrdlock"))(&rwlock) == EBUSY);
        CHECK(function(library, "pthread_cond_wait") == (void *)pthread_cond_wait);
        CHECK(dlsym(library, "no_such_function") == NULL && dlerror() != NULL);
        CHECK(function(library, "getpid") == (void *)getpid);
    }
    CHECK(((try_mutex)function(plugin, "plugin_trylock"))(&mutex) == EBUSY);
    CHECK(((try_mutex)function(RTLD_DEFAULT, "pthread_mutex_trylock"))(&mutex) == EBUSY);
    MUST(pthread_rwlock_unlock(&rwlock));
    MUST(pthread_mutex_unlock(&mutex));
    CHECK(((try_mutex)function(plugin, "plugin_trylock"))(&mutex) == 0);
    MUST(pthread_mutex_unlock(&mutex));
    puts("ok handles");
    return 0;
}
