// A library whose constructor waits for a thread that locks: the thread runs while the loader's own lock is held, so a lock
// function that asks the loader for anything waits for ever.
//
// Usage: constructor LIBRARY

#include "case.h"
#include <dlfcn.h>

static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

int main(int argc, char **argv) {
    watch();
    CHECK(argc == 2);
    MUST(pthread_mutex_lock(&own));
    MUST(pthread_mutex_unlock(&own));
    for (int round = 0; round < 3; round++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (library == NULL) fail("%s", dlerror());
        long (*count)(void) = (long (*)(void))dlsym(library, "constructed");
        CHECK(count != NULL && count() == 3);
        CHECK(dlclose(library) == 0);
    }
    puts("ok constructor");
    return 0;
}
