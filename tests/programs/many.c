// Very many locks, and many held at once: 100,000 mutexes and 20,000 reader-writer locks touched by each thread;
// hundreds held by one thread and released in order, against it and across; hand over hand along a chain; arrays
// of static initialisers. Arguments: threads (4), mutexes (100000).

#include "stress.h"

#define NESTED 512
#define CHAIN 64

static long mutex_count, rwlock_count;
static pthread_mutex_t *mutexes;
static pthread_rwlock_t *rwlocks;
static long *counters, *rwlock_counters;

static pthread_mutex_t chain[CHAIN] = {[0 ... CHAIN - 1] = PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t recursive_chain[CHAIN] = {[0 ... CHAIN - 1] = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};
static pthread_rwlock_t rw_chain[CHAIN] = {[0 ... CHAIN - 1] = PTHREAD_RWLOCK_INITIALIZER};
static long chain_counters[CHAIN];

static void *touch_all(void *number) {
    // Each thread starts elsewhere, and they meet.
    long offset = (long)number * (mutex_count / 8);
    for (long i = 0; i < mutex_count; i++) {
        long at = (offset + i) % mutex_count;
        MUST(pthread_mutex_lock(&mutexes[at]));
        counters[at]++;
        MUST(pthread_mutex_unlock(&mutexes[at]));
    }
    for (long i = 0; i < rwlock_count; i++) {
        long at = (offset + i) % rwlock_count;
        MUST(pthread_rwlock_rdlock(&rwlocks[at]));
        MUST(pthread_rwlock_unlock(&rwlocks[at]));
        MUST(pthread_rwlock_wrlock(&rwlocks[at]));
        rwlock_counters[at]++;
        MUST(pthread_rwlock_unlock(&rwlocks[at]));
    }
    return NULL;
}

// Many at once. All threads take them in the same order, so this is no deadlock.
static void *hold_many(void *number) {
    uint32_t random = 2463534242 + (uint32_t)(long)number;
    for (int way = 0; way < 3; way++) {
        int order[NESTED];
        for (int i = 0; i < NESTED; i++) {
            MUST(pthread_mutex_lock(&mutexes[i]));
            MUST(i % 2 == 0 ? pthread_rwlock_rdlock(&rwlocks[i]) : pthread_rwlock_wrlock(&rwlocks[i]));
            order[i] = way == 0 ? i : NESTED - 1 - i;
        }
        for (int i = NESTED - 1; way == 2 && i > 0; i--) { // shuffled
            int other = (int)(next_random(&random) % (uint32_t)(i + 1)), swap = order[i];
            order[i] = order[other];
            order[other] = swap;
        }
        for (int i = 0; i < NESTED; i++) {
            if (pthread_mutex_trylock(&mutexes[order[i]]) != EBUSY) fail("mutex %d of %d held is free", order[i], NESTED);
            MUST(pthread_rwlock_unlock(&rwlocks[order[i]]));
            MUST(pthread_mutex_unlock(&mutexes[order[i]]));
        }
    }
    return NULL;
}

static void *hand_over_hand(void *unused) {
    for (int turn = 0; turn < 50; turn++) {
        MUST(pthread_mutex_lock(&chain[0]));
        for (int i = 0; i < CHAIN; i++) {
            chain_counters[i]++;
            if (i + 1 < CHAIN) MUST(pthread_mutex_lock(&chain[i + 1]));
            MUST(pthread_mutex_lock(&recursive_chain[i]));
            MUST(pthread_mutex_lock(&recursive_chain[i]));
            MUST(pthread_rwlock_wrlock(&rw_chain[i]));
            MUST(pthread_mutex_unlock(&chain[i])); // not the one taken last
            MUST(pthread_mutex_unlock(&recursive_chain[i]));
            MUST(pthread_rwlock_unlock(&rw_chain[i]));
            MUST(pthread_mutex_unlock(&recursive_chain[i]));
        }
    }
    return unused;
}

int main(int argc, char **argv) {
    watch();
    long threads = number(argc, argv, 1, 4);
    mutex_count = number(argc, argv, 2, 100000);
    if (mutex_count < 8 * NESTED) fail("at least %d mutexes", 8 * NESTED);
    rwlock_count = mutex_count / 5;
    // calloc's zeros are the static initialisers.
    mutexes = calloc((size_t)mutex_count, sizeof *mutexes);
    rwlocks = calloc((size_t)rwlock_count, sizeof *rwlocks);
    counters = calloc((size_t)mutex_count, sizeof *counters);
    rwlock_counters = calloc((size_t)rwlock_count, sizeof *rwlock_counters);
    CHECK(mutexes != NULL && rwlocks != NULL && counters != NULL && rwlock_counters != NULL);
    struct team *team = assemble(threads, touch_all);
    disperse(team);
    for (long i = 0; i < mutex_count; i++)
        if (counters[i] != threads) fail("mutex %ld: %ld of %ld", i, counters[i], threads);
    for (long i = 0; i < rwlock_count; i++)
        if (rwlock_counters[i] != threads) fail("rwlock %ld: %ld of %ld", i, rwlock_counters[i], threads);
    team = assemble(threads, hold_many);
    disperse(team);
    team = assemble(threads, hand_over_hand);
    disperse(team);
    for (int i = 0; i < CHAIN; i++) CHECK(chain_counters[i] == threads * 50);
    for (long i = 0; i < mutex_count; i++) MUST(pthread_mutex_destroy(&mutexes[i]));
    for (long i = 0; i < rwlock_count; i++) MUST(pthread_rwlock_destroy(&rwlocks[i]));
    printf("ok %ld mutexes, %ld threads\n", mutex_count, threads);
    return 0;
}
