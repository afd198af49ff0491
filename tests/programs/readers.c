// Readers that read again while writers wait, many locks deep: a lock that is fair to writers and makes such a reader
// queue behind them hangs here (and is killed after 20 s). Arguments: threads (4), rounds (300).

#include "stress.h"

#define LOCKS 96 // more than a thread can be expected to remember the read locks of

static pthread_rwlock_t locks[LOCKS];
static long rounds;
static _Atomic long writes, reads;

static void read_recursively(int from, int depth) {
    if (depth == 0) {
        reads++;
        return;
    }
    pthread_rwlock_t *lock = &locks[from % LOCKS];
    struct timespec late = from_now(CLOCK_MONOTONIC, 15000 * MS);
    switch (depth % 3) {
    case 0: MUST(pthread_rwlock_rdlock(lock)); break;
    case 1: MUST(pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &late)); break;
    default:
        while (pthread_rwlock_tryrdlock(lock) != 0) sched_yield(); // a fresh one may be refused
    }
    MUST(pthread_rwlock_rdlock(lock));
    MUST(pthread_rwlock_tryrdlock(lock)); // this thread reads already: never refused
    MUST(pthread_rwlock_unlock(lock));
    if (depth == 2) sched_yield(); // time for a writer to queue
    MUST(pthread_rwlock_rdlock(lock));
    // Deeper locks come in ascending order, so the writers, which hold one at a time, close no circle.
    read_recursively(from + 1, depth - 1);
    MUST(pthread_rwlock_rdlock(lock));
    for (int i = 0; i < 4; i++) MUST(pthread_rwlock_unlock(lock));
}

static void *work(void *number) {
    for (long i = 0; i < rounds; i++) {
        if ((i + (long)number) % 3 == 0) {
            MUST(pthread_rwlock_wrlock(&locks[i % 4]));
            writes++;
            if (i % 8 == 0) sched_yield();
            MUST(pthread_rwlock_unlock(&locks[i % 4]));
        } else {
            read_recursively((int)(i % 2), 3);
        }
    }
    return NULL;
}

// One writer waits at each of many locks that one thread reads: it reads all of them again.
static _Atomic int arrived;

static void *write_one(void *number) {
    arrived++;
    MUST(pthread_rwlock_wrlock(&locks[(long)number]));
    writes++;
    MUST(pthread_rwlock_unlock(&locks[(long)number]));
    return NULL;
}

static void read_all_again(void) {
    for (int i = 0; i < LOCKS; i++) MUST(pthread_rwlock_rdlock(&locks[i]));
    arrived = 0;
    struct team *team = assemble(LOCKS, write_one);
    while (arrived < LOCKS) sleep_ns(MS);
    sleep_ns(10 * MS);
    for (int i = 0; i < LOCKS; i++) MUST(pthread_rwlock_rdlock(&locks[i]));
    for (int i = LOCKS - 1; i >= 0; i--) MUST(pthread_rwlock_tryrdlock(&locks[i]));
    for (int times = 0; times < 3; times++)
        for (int i = 0; i < LOCKS; i++) MUST(pthread_rwlock_unlock(&locks[i]));
    disperse(team);
}

int main(int argc, char **argv) {
    watch();
    long threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 300);
    // All kinds but NONRECURSIVE promise this.
    static const int kinds[] = {PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_RWLOCK_PREFER_WRITER_NP};
    for (size_t k = 0; k < COUNT(kinds); k++) {
        pthread_rwlockattr_t attribute;
        MUST(pthread_rwlockattr_init(&attribute));
        MUST(pthread_rwlockattr_setkind_np(&attribute, kinds[k]));
        for (int i = 0; i < LOCKS; i++) MUST(pthread_rwlock_init(&locks[i], &attribute));
        writes = reads = 0;
        struct team *team = assemble(threads, work);
        disperse(team);
        if (writes + reads != threads * rounds) fail("%ld writes and %ld reads", (long)writes, (long)reads);
        read_all_again();
        for (int i = 0; i < LOCKS; i++) MUST(pthread_rwlock_destroy(&locks[i]));
    }
    printf("ok %ld threads\n", threads);
    return 0;
}
