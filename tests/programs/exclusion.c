// Mutual exclusion: threads add to plain counters under one lock, and nothing is lost.
// Arguments: kind of lock (or "all"), threads (4), acquisitions per thread (20000).
//
// Two counters in two lines are to agree at every acquisition. errno is the caller's own: no lock call of glibc
// touches it, and programs log it after taking a lock.

#include "stress.h"
#include <threads.h>

static long acquisitions, gather;
static struct {
    _Alignas(64) long first;
    _Alignas(64) long second;
} shared;

static pthread_mutex_t mutex;
static pthread_rwlock_t rwlock;
static pthread_spinlock_t spin;
static mtx_t c11;

static void step(void) {
    if (shared.first != shared.second) fail("two counters differ: %ld and %ld", shared.first, shared.second);
    shared.first++;
    if (shared.first % gather == 0) sched_yield(); // waiters queue even where one core serves all threads
    shared.second++;
}

static void *by_lock(void *argument) {
    for (long i = 0; i < acquisitions; i++) {
        errno = 4321;
        MUST(pthread_mutex_lock(&mutex));
        step();
        MUST(pthread_mutex_unlock(&mutex));
        CHECK(errno == 4321);
    }
    return argument;
}

static void *by_recursion(void *argument) {
    for (long i = 0; i < acquisitions; i++) {
        int depth = 1 + (int)(i % 3);
        for (int d = 0; d < depth; d++) MUST(pthread_mutex_lock(&mutex));
        step();
        for (int d = 0; d < depth; d++) MUST(pthread_mutex_unlock(&mutex));
    }
    return argument;
}

static void *by_trylock(void *argument) {
    for (long i = 0; i < acquisitions; i++) {
        int error;
        while ((error = pthread_mutex_trylock(&mutex)) == EBUSY) sched_yield();
        MUST(error);
        step();
        MUST(pthread_mutex_unlock(&mutex));
    }
    return argument;
}

// Plain, timed and try acquisitions of one lock at once: waiters that give up leave no trace.
static void *by_all_ways(void *argument) {
    for (long i = 0; i < acquisitions; i++) {
        struct timespec soon = from_now(CLOCK_MONOTONIC, 20000);
        errno = 4321;
        int error;
        switch ((i + (long)argument) % 3) {
        case 0: error = pthread_mutex_lock(&mutex); break;
        case 1: error = pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &soon); break;
        default: error = pthread_mutex_trylock(&mutex); break;
        }
        CHECK(errno == 4321);
        if (error == EBUSY || error == ETIMEDOUT) {
            i--;
            sched_yield();
            argument = (void *)((long)argument + 1);
            continue;
        }
        MUST(error);
        step();
        MUST(pthread_mutex_unlock(&mutex));
    }
    return NULL;
}

static _Atomic int readers, most_readers;

static void *by_rwlock(void *argument) {
    for (long i = 0; i < acquisitions; i++) {
        errno = 4321;
        if ((i + (long)argument) % 4 == 0) {
            MUST(pthread_rwlock_wrlock(&rwlock));
            if (readers != 0) fail("a writer beside %d readers", readers);
            step();
            MUST(pthread_rwlock_unlock(&rwlock));
        } else {
            MUST(pthread_rwlock_rdlock(&rwlock));
            int now = ++readers;
            if (now > most_readers) most_readers = now;
            if (shared.first != shared.second) fail("a reader beside a writer");
            readers--;
            MUST(pthread_rwlock_unlock(&rwlock));
        }
        CHECK(errno == 4321);
    }
    return argument;
}

static void *by_spin(void *argument) {
    for (long i = 0; i < acquisitions; i++) {
        errno = 4321;
        MUST(pthread_spin_lock(&spin));
        step();
        MUST(pthread_spin_unlock(&spin));
        CHECK(errno == 4321);
    }
    return argument;
}

static void *by_c11(void *argument) {
    for (long i = 0; i < acquisitions; i++) {
        CHECK(mtx_lock(&c11) == thrd_success);
        step();
        CHECK(mtx_unlock(&c11) == thrd_success);
    }
    return argument;
}

static void make_mutex(int type) {
    pthread_mutexattr_t attribute;
    MUST(pthread_mutexattr_init(&attribute));
    MUST(pthread_mutexattr_settype(&attribute, type));
    MUST(pthread_mutex_init(&mutex, &attribute));
}

static const struct kind {
    const char *name;
    void *(*work)(void *);
    int type;  // of the mutex
    int share; // one in so many acquisitions adds
} kinds[] = {
    {"normal", by_lock, PTHREAD_MUTEX_NORMAL, 1},
    {"recursive", by_recursion, PTHREAD_MUTEX_RECURSIVE, 1},
    {"errorcheck", by_lock, PTHREAD_MUTEX_ERRORCHECK, 1},
    {"adaptive", by_lock, PTHREAD_MUTEX_ADAPTIVE_NP, 1},
    {"try", by_trylock, PTHREAD_MUTEX_NORMAL, 1},
    {"mixed", by_all_ways, PTHREAD_MUTEX_NORMAL, 1},
    {"rwlock", by_rwlock, PTHREAD_MUTEX_NORMAL, 4},
    {"spin", by_spin, PTHREAD_MUTEX_NORMAL, 1},
    {"c11", by_c11, PTHREAD_MUTEX_NORMAL, 1},
};

int main(int argc, char **argv) {
    watch();
    const char *wanted = argc > 1 ? argv[1] : "all";
    long threads = number(argc, argv, 2, 4);
    acquisitions = number(argc, argv, 3, 20000) / 4 * 4;
    bool known = false;
    MUST(pthread_rwlock_init(&rwlock, NULL));
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    CHECK(mtx_init(&c11, mtx_plain) == thrd_success);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (strcmp(wanted, "all") != 0 && strcmp(wanted, kinds[i].name) != 0) continue;
        known = true;
        shared.first = shared.second = 0;
        gather = kinds[i].work == by_spin ? 4096 : 256; // glibc's spinners burn a time slice each
        make_mutex(kinds[i].type);
        struct team *team = assemble(threads, kinds[i].work);
        disperse(team);
        MUST(pthread_mutex_destroy(&mutex));
        if (shared.first != threads * acquisitions / kinds[i].share || shared.first != shared.second)
            fail("%s: %ld and %ld, not %ld", kinds[i].name, shared.first, shared.second,
                 threads * acquisitions / kinds[i].share);
    }
    if (!known) fail("no kind of lock is called '%s'", wanted);
    MUST(pthread_rwlock_destroy(&rwlock));
    MUST(pthread_spin_destroy(&spin));
    mtx_destroy(&c11);
    printf("ok %s, %ld threads\n", wanted, threads);
    return 0;
}
