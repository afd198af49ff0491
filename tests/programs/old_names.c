// The names and versions that older objects bind, in one program with today's: an object linked before
// glibc 2.34 asks for __pthread_mutex_lock@GLIBC_2.2.5, pthread_mutex_trylock@GLIBC_2.2.5 and so on, and must meet
// the same lock as one linked since.

#include "case.h"
#include <threads.h>

#if defined(__x86_64__)
#define OLD(version, result, name, arguments)                                                                \
    extern result old_##name arguments;                                                                      \
    __asm__(".symver old_" #name "," #name "@GLIBC_" version)

OLD("2.2.5", int, __pthread_mutex_init, (pthread_mutex_t *, const pthread_mutexattr_t *));
OLD("2.2.5", int, __pthread_mutex_destroy, (pthread_mutex_t *));
OLD("2.2.5", int, __pthread_mutex_lock, (pthread_mutex_t *));
OLD("2.2.5", int, __pthread_mutex_trylock, (pthread_mutex_t *));
OLD("2.2.5", int, __pthread_mutex_unlock, (pthread_mutex_t *));
OLD("2.2.5", int, pthread_mutex_trylock, (pthread_mutex_t *));
OLD("2.2.5", int, pthread_mutex_timedlock, (pthread_mutex_t *, const struct timespec *));
OLD("2.30", int, pthread_mutex_clocklock, (pthread_mutex_t *, clockid_t, const struct timespec *));
OLD("2.2.5", int, __pthread_rwlock_init, (pthread_rwlock_t *, const pthread_rwlockattr_t *));
OLD("2.2.5", int, __pthread_rwlock_destroy, (pthread_rwlock_t *));
OLD("2.2.5", int, __pthread_rwlock_rdlock, (pthread_rwlock_t *));
OLD("2.2.5", int, __pthread_rwlock_wrlock, (pthread_rwlock_t *));
OLD("2.2.5", int, __pthread_rwlock_tryrdlock, (pthread_rwlock_t *));
OLD("2.2.5", int, __pthread_rwlock_trywrlock, (pthread_rwlock_t *));
OLD("2.2.5", int, __pthread_rwlock_unlock, (pthread_rwlock_t *));
OLD("2.2.5", int, pthread_rwlock_rdlock, (pthread_rwlock_t *));
OLD("2.2.5", int, pthread_rwlock_wrlock, (pthread_rwlock_t *));
OLD("2.2.5", int, pthread_rwlock_unlock, (pthread_rwlock_t *));
OLD("2.2.5", int, pthread_rwlock_timedwrlock, (pthread_rwlock_t *, const struct timespec *));
OLD("2.2.5", int, pthread_spin_init, (pthread_spinlock_t *, int));
OLD("2.2.5", int, pthread_spin_lock, (pthread_spinlock_t *));
OLD("2.2.5", int, pthread_spin_trylock, (pthread_spinlock_t *));
OLD("2.2.5", int, pthread_spin_unlock, (pthread_spinlock_t *));
OLD("2.2.5", int, pthread_cond_init, (pthread_cond_t *, const pthread_condattr_t *));
OLD("2.2.5", int, pthread_cond_destroy, (pthread_cond_t *));
OLD("2.2.5", int, pthread_cond_wait, (pthread_cond_t *, pthread_mutex_t *));
OLD("2.2.5", int, pthread_cond_timedwait, (pthread_cond_t *, pthread_mutex_t *, const struct timespec *));
OLD("2.2.5", int, pthread_cond_signal, (pthread_cond_t *));
OLD("2.2.5", int, pthread_cond_broadcast, (pthread_cond_t *));
OLD("2.28", int, mtx_lock, (mtx_t *));
OLD("2.28", int, mtx_trylock, (mtx_t *));
OLD("2.28", int, mtx_unlock, (mtx_t *));

static struct actor other;

// Every way to lock with every way to unlock, and what the other ways say in between.
static void mutexes(void) {
    typedef int (*call)(pthread_mutex_t *);
    static const struct {
        const char *name;
        call lock, trylock, unlock;
    } ways[] = {
        {"today's", pthread_mutex_lock, pthread_mutex_trylock, pthread_mutex_unlock},
        {"old", old___pthread_mutex_lock, old___pthread_mutex_trylock, old___pthread_mutex_unlock},
        {"old trylock", old_pthread_mutex_trylock, old_pthread_mutex_trylock, pthread_mutex_unlock},
    };
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    char state[64];
    for (int life = 0; life < 2; life++) {
        for (size_t i = 0; i < COUNT(ways); i++)
            for (size_t j = 0; j < COUNT(ways); j++) {
                snprintf(state, sizeof state, "%s against %s", ways[i].name, ways[j].name);
                report("lock", state, "unlocked", ways[i].lock(&mutex));
                report("trylock", state, "held-by-self", ways[j].trylock(&mutex));
                report("unlock", state, "held-by-self", ways[j].unlock(&mutex));
                report("trylock", state, "unlocked", ways[j].trylock(&mutex));
                report("unlock", state, "held-by-self", ways[i].unlock(&mutex));
            }
        struct timespec past = {.tv_sec = 1};
        MUST(old___pthread_mutex_lock(&mutex));
        report("pthread_mutex_timedlock", "old", "held", old_pthread_mutex_timedlock(&mutex, &past));
        report("pthread_mutex_clocklock", "old", "held", old_pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &past));
        MUST(pthread_mutex_unlock(&mutex));
        report("__pthread_mutex_destroy", "old", "unlocked", old___pthread_mutex_destroy(&mutex));
        report("__pthread_mutex_init", "old", "destroyed", old___pthread_mutex_init(&mutex, NULL));
    }
    mtx_t c11;
    CHECK(mtx_init(&c11, mtx_plain) == thrd_success);
    printf("mtx_lock | old | unlocked -> %d\n", old_mtx_lock(&c11));
    printf("mtx_trylock | old | held-by-self -> %d\n", mtx_trylock(&c11) == thrd_busy);
    printf("mtx_unlock | old | held-by-self -> %d\n", mtx_unlock(&c11));
    printf("mtx_trylock | old | unlocked -> %d\n", old_mtx_trylock(&c11));
    printf("mtx_unlock | old | held-by-self -> %d\n", old_mtx_unlock(&c11));
}

static int write_at_once(void *lock) {
    struct timespec past = {.tv_sec = 1};
    return old_pthread_rwlock_timedwrlock(lock, &past);
}

static void rwlocks(void) {
    typedef int (*call)(pthread_rwlock_t *);
    static const struct {
        const char *name;
        call rdlock, wrlock, tryrdlock, trywrlock, unlock;
    } ways[] = {
        {"today's", pthread_rwlock_rdlock, pthread_rwlock_wrlock, pthread_rwlock_tryrdlock, pthread_rwlock_trywrlock,
         pthread_rwlock_unlock},
        {"old", old___pthread_rwlock_rdlock, old___pthread_rwlock_wrlock, old___pthread_rwlock_tryrdlock,
         old___pthread_rwlock_trywrlock, old___pthread_rwlock_unlock},
        {"old public", old_pthread_rwlock_rdlock, old_pthread_rwlock_wrlock, pthread_rwlock_tryrdlock,
         pthread_rwlock_trywrlock, old_pthread_rwlock_unlock},
    };
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    char state[64];
    for (int life = 0; life < 2; life++) {
        for (size_t i = 0; i < COUNT(ways); i++)
            for (size_t j = 0; j < COUNT(ways); j++) {
                snprintf(state, sizeof state, "%s against %s", ways[i].name, ways[j].name);
                report("rdlock", state, "free", ways[i].rdlock(&lock));
                report("tryrdlock", state, "read-held", ways[j].tryrdlock(&lock));
                report("trywrlock", state, "read-held", ways[j].trywrlock(&lock));
                report("unlock", state, "read-held", ways[i].unlock(&lock));
                report("unlock", state, "read-held", ways[j].unlock(&lock));
                report("wrlock", state, "free", ways[i].wrlock(&lock));
                report("tryrdlock", state, "write-held", ways[j].tryrdlock(&lock));
                report("rdlock", state, "write-held by self", ways[j].rdlock(&lock));
                report("unlock", state, "write-held", ways[j].unlock(&lock));
                report("trywrlock", state, "free", ways[j].trywrlock(&lock));
                report("unlock", state, "write-held", ways[i].unlock(&lock));
            }
        MUST(old___pthread_rwlock_rdlock(&lock));
        report("pthread_rwlock_timedwrlock", "old", "read-held by other", ask(&other, write_at_once, &lock));
        MUST(pthread_rwlock_unlock(&lock));
        report("__pthread_rwlock_destroy", "old", "free", old___pthread_rwlock_destroy(&lock));
        report("__pthread_rwlock_init", "old", "destroyed", old___pthread_rwlock_init(&lock, NULL));
    }
}

static void spins(void) {
    pthread_spinlock_t spin;
    report("pthread_spin_init", "old", "new", old_pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    report("pthread_spin_lock", "old", "free", old_pthread_spin_lock(&spin));
    report("pthread_spin_trylock", "today's", "held", pthread_spin_trylock(&spin));
    report("pthread_spin_unlock", "today's", "held", pthread_spin_unlock(&spin));
    report("pthread_spin_lock", "today's", "free", pthread_spin_lock(&spin));
    report("pthread_spin_trylock", "old", "held", old_pthread_spin_trylock(&spin));
    report("pthread_spin_unlock", "old", "held", old_pthread_spin_unlock(&spin));
}

// The condition variable of before 2.3.2 has another layout, so an object uses one set of names or the other.
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int tokens;
} room = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static int take_token(void *unused) {
    (void)unused;
    MUST(old___pthread_mutex_lock(&room.mutex));
    int error = 0;
    while (room.tokens == 0 && error == 0) error = old_pthread_cond_wait(&room.cond, &room.mutex);
    room.tokens--;
    MUST(pthread_mutex_unlock(&room.mutex));
    return error;
}

static void conditions(void) {
    for (int life = 0; life < 2; life++) {
        for (int broadcast = 0; broadcast < 2; broadcast++) {
            start(&other, take_token, NULL);
            MUST(pthread_mutex_lock(&room.mutex));
            room.tokens = 1;
            report(broadcast ? "pthread_cond_broadcast" : "pthread_cond_signal", "old", "one waits",
                   broadcast ? old_pthread_cond_broadcast(&room.cond) : old_pthread_cond_signal(&room.cond));
            MUST(old___pthread_mutex_unlock(&room.mutex));
            report("pthread_cond_wait", "old", "woken", collect(&other));
        }
        struct timespec soon = from_now(CLOCK_REALTIME, 10 * MS);
        MUST(pthread_mutex_lock(&room.mutex));
        report("pthread_cond_timedwait", "old", "nobody signals", old_pthread_cond_timedwait(&room.cond, &room.mutex, &soon));
        MUST(pthread_mutex_unlock(&room.mutex));
        report("pthread_cond_destroy", "old", "nobody waits", old_pthread_cond_destroy(&room.cond));
        report("pthread_cond_init", "old", "destroyed", old_pthread_cond_init(&room.cond, NULL));
    }
}

int main(void) {
    watch();
    hire(&other);
    mutexes();
    rwlocks();
    spins();
    conditions();
    dismiss(&other);
    puts("end");
    return 0;
}
#else
int main(void) { // other architectures came later and have one version of each name
    watch();
    puts("end");
    return 0;
}
#endif
