// A plug-in of `reloaded.c`; `LOCK` is what its lock is called.

#include <pthread.h>

static pthread_mutex_t LOCK = PTHREAD_MUTEX_INITIALIZER;

void *plugin_use(int times) {
    for (int i = 0; i < times; i++) {
        pthread_mutex_lock(&LOCK);
        pthread_mutex_unlock(&LOCK);
    }
    return &LOCK;
}
