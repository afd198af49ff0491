// A write lock asked for by a thread that reads: it can never come, and a lock that remembers its readers says EDEADLK after a while.
// glibc does not remember and waits for ever, so this program is for its stand-ins. A read lock that another thread is to give up
// is no deadlock.

#include "case.h"

static void *give_up_later(void *lock) {
    usleep(50000);
    MUST(pthread_rwlock_unlock(lock));
    return NULL;
}

int main(void) {
    watch();
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    struct timespec late = from_now(CLOCK_REALTIME, 5000 * MS);
    MUST(pthread_rwlock_rdlock(&lock));
    report("pthread_rwlock_wrlock", "default", "read-held by self", pthread_rwlock_wrlock(&lock));
    report("pthread_rwlock_timedwrlock", "default", "read-held by self", pthread_rwlock_timedwrlock(&lock, &late));
    report("pthread_rwlock_clockwrlock", "default", "read-held by self",
           pthread_rwlock_clockwrlock(&lock, CLOCK_REALTIME, &late));
    report("pthread_rwlock_trywrlock", "default", "read-held by self", pthread_rwlock_trywrlock(&lock));
    MUST(pthread_rwlock_unlock(&lock));
    report("pthread_rwlock_wrlock", "default", "free", pthread_rwlock_wrlock(&lock));
    MUST(pthread_rwlock_unlock(&lock));
    pthread_t other;
    MUST(pthread_rwlock_rdlock(&lock));
    MUST(pthread_create(&other, NULL, give_up_later, &lock));
    report("pthread_rwlock_wrlock", "default", "read-held and handed on", pthread_rwlock_wrlock(&lock));
    MUST(pthread_join(other, NULL));
    MUST(pthread_rwlock_unlock(&lock));
    puts("end");
    return 0;
}
