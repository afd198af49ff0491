// A write lock asked for by a thread that reads: it can never come, and a lock that remembers its readers says EDEADLK.
// glibc does not remember and waits for ever, so this program is for its stand-ins.

#include "case.h"

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
    puts("end");
    return 0;
}
