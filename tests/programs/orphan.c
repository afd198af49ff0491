// Threads that end holding locks: the lock stays held for others (try, timed and reader-writer calls say so), its
// memory can be made a lock again, and nothing of the dead thread is touched by those who come after, although new
// threads live in its stack and thread-local storage. Robust mutexes are handed on with EOWNERDEAD.
// Argument: rounds (20).

#include "stress.h"

#define HELD 8

static pthread_mutex_t mutexes[HELD];
static pthread_rwlock_t rwlock;
static pthread_spinlock_t spin;
static pthread_mutex_t robust[2];

static void *die_holding(void *unused) {
    for (int i = 0; i < HELD; i++) MUST(pthread_mutex_lock(&mutexes[i]));
    MUST(pthread_rwlock_wrlock(&rwlock));
    MUST(pthread_spin_lock(&spin));
    for (int i = 0; i < 2; i++) MUST(pthread_mutex_lock(&robust[i]));
    return unused;
}

static _Atomic int timed_out;

static void *find_them_held(void *unused) {
    struct timespec soon = from_now(CLOCK_MONOTONIC, 2 * MS);
    char scribble[4096]; // where the dead thread's stack was
    memset(scribble, 0xEE, sizeof scribble);
    __asm__ volatile("" : : "r"(scribble) : "memory");
    for (int i = 0; i < HELD; i++) {
        if (pthread_mutex_trylock(&mutexes[i]) != EBUSY) fail("trylock of mutex %d, whose owner died", i);
        if (pthread_mutex_clocklock(&mutexes[i], CLOCK_MONOTONIC, &soon) == ETIMEDOUT) timed_out++;
    }
    if (pthread_rwlock_tryrdlock(&rwlock) != EBUSY || pthread_rwlock_trywrlock(&rwlock) != EBUSY) fail("rwlock of a dead writer");
    if (pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &soon) == ETIMEDOUT) timed_out++;
    if (pthread_spin_trylock(&spin) != EBUSY) fail("spin lock of a dead thread");
    return unused;
}

static long handed_on[2];

static void *take_over(void *number) {
    int which = (int)((long)number % 2);
    int error = pthread_mutex_lock(&robust[which]);
    if (error == EOWNERDEAD) {
        MUST(pthread_mutex_consistent(&robust[which]));
        handed_on[which]++;
    } else {
        MUST(error);
    }
    MUST(pthread_mutex_unlock(&robust[which]));
    return NULL;
}

static void *use(void *unused) {
    for (int turn = 0; turn < 50; turn++) {
        for (int i = 0; i < HELD; i++) MUST(pthread_mutex_lock(&mutexes[i]));
        for (int i = 0; i < HELD; i++) MUST(pthread_mutex_unlock(&mutexes[i]));
        MUST(pthread_rwlock_rdlock(&rwlock));
        MUST(pthread_rwlock_unlock(&rwlock));
        MUST(pthread_spin_lock(&spin));
        MUST(pthread_spin_unlock(&spin));
    }
    return unused;
}

int main(int argc, char **argv) {
    watch();
    long rounds = number(argc, argv, 1, 20);
    pthread_mutexattr_t attribute;
    MUST(pthread_mutexattr_init(&attribute));
    MUST(pthread_mutexattr_setrobust(&attribute, PTHREAD_MUTEX_ROBUST));
    for (long round = 0; round < rounds; round++) {
        for (int i = 0; i < HELD; i++) MUST(pthread_mutex_init(&mutexes[i], NULL));
        MUST(pthread_rwlock_init(&rwlock, NULL));
        MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
        for (int i = 0; i < 2; i++) MUST(pthread_mutex_init(&robust[i], &attribute));

        struct team *team = assemble(1, die_holding);
        disperse(team);
        timed_out = 0;
        team = assemble(4, find_them_held);
        disperse(team);
        if (timed_out != 4 * (HELD + 1)) fail("round %ld: %d of %d timed out", round, timed_out, 4 * (HELD + 1));
        handed_on[0] = handed_on[1] = 0;
        team = assemble(4, take_over);
        disperse(team);
        if (handed_on[0] != 1 || handed_on[1] != 1) fail("robust mutexes handed on %ld and %ld times", handed_on[0], handed_on[1]);

        // No thread can release them any more. Made anew in the same memory they are free.
        for (int i = 0; i < HELD; i++) MUST(pthread_mutex_init(&mutexes[i], NULL));
        MUST(pthread_rwlock_init(&rwlock, NULL));
        MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
        team = assemble(4, use);
        disperse(team);
        for (int i = 0; i < 2; i++) MUST(pthread_mutex_destroy(&robust[i]));
    }
    printf("ok %ld dead owners\n", rounds);
    return 0;
}
