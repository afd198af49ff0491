// Locks that are held until standard input ends, and threads that wait for them: two for a mutex, one to write under a
// reader-writer lock that is read under, one for a spin lock. What is so now can be looked at from outside.

#include "stress.h"

pthread_mutex_t held_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t held_rwlock = PTHREAD_RWLOCK_INITIALIZER;
pthread_spinlock_t held_spin;

static void *take_mutex(void *unused) {
    (void)unused;
    MUST(pthread_mutex_lock(&held_mutex));
    MUST(pthread_mutex_unlock(&held_mutex));
    return NULL;
}

static void *write_under_rwlock(void *unused) {
    (void)unused;
    MUST(pthread_rwlock_wrlock(&held_rwlock));
    MUST(pthread_rwlock_unlock(&held_rwlock));
    return NULL;
}

static void *take_spin(void *unused) {
    (void)unused;
    MUST(pthread_spin_lock(&held_spin));
    MUST(pthread_spin_unlock(&held_spin));
    return NULL;
}

int main(void) {
    static void *(*const waits[])(void *) = {take_mutex, take_mutex, write_under_rwlock, take_spin};
    pthread_t threads[COUNT(waits)];
    watch();
    MUST(pthread_spin_init(&held_spin, PTHREAD_PROCESS_PRIVATE));
    MUST(pthread_mutex_lock(&held_mutex));
    MUST(pthread_rwlock_rdlock(&held_rwlock));
    MUST(pthread_spin_lock(&held_spin));
    for (size_t i = 0; i < COUNT(waits); i++) MUST(pthread_create(&threads[i], NULL, waits[i], NULL));
    while (getchar() != EOF) {}
    MUST(pthread_mutex_unlock(&held_mutex));
    MUST(pthread_rwlock_unlock(&held_rwlock));
    MUST(pthread_spin_unlock(&held_spin));
    for (size_t i = 0; i < COUNT(waits); i++) MUST(pthread_join(threads[i], NULL));
    return 0;
}
