// Threads that wait for something held cost nothing, however many they are, and all of them get it in the end.
// Arguments: threads (100), milliseconds that they wait (400), kind of object or `all`.
//
// The CPU time of the process while they wait is held against the time that passed. The bound is wide: a waiter that wakes
// every few milliseconds is far above it, and one that falls asleep once, on however slow a machine, below.

#include "stress.h"

#include <sys/resource.h>

enum object { MUTEX, TIMED, READ, WRITE, CONDITION, SPIN };
static const char *const names[] = {"mutex", "timed", "read", "write", "condition", "spin"};

static enum object object;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static _Atomic long arrived, served;
static bool open_gate;

static int64_t cpu_ns(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000ll +
           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000ll;
}

static void take(enum object which) {
    struct timespec late = from_now(CLOCK_REALTIME, 250000 * MS);
    switch (which) {
    case MUTEX: MUST(pthread_mutex_lock(&mutex)); break;
    case TIMED: MUST(pthread_mutex_timedlock(&mutex, &late)); break;
    case READ: MUST(pthread_rwlock_rdlock(&rwlock)); break;
    case WRITE: MUST(pthread_rwlock_wrlock(&rwlock)); break;
    case SPIN: MUST(pthread_spin_lock(&spin)); break;
    case CONDITION:
        MUST(pthread_mutex_lock(&mutex));
        while (!open_gate) MUST(pthread_cond_wait(&condition, &mutex));
        break;
    }
}

static void give(enum object which) {
    switch (which) {
    case READ:
    case WRITE: MUST(pthread_rwlock_unlock(&rwlock)); break;
    case SPIN: MUST(pthread_spin_unlock(&spin)); break;
    default: MUST(pthread_mutex_unlock(&mutex)); break;
    }
}

static void *wait_once(void *number) {
    (void)number;
    arrived++;
    take(object);
    served++;
    give(object);
    return NULL;
}

static void test(long threads, int64_t wait_ns) {
    arrived = served = 0;
    open_gate = false;
    if (object != CONDITION) take(object == READ ? WRITE : object);
    struct team *team = assemble(threads, wait_once);
    while (arrived < threads) sleep_ns(MS);
    // Until they are asleep: where a machine is busy that takes seconds, and is no part of the measurement. Waiters that wake
    // again and again never pass, however often they are measured.
    int64_t begun, used, give_up = now_ns(CLOCK_MONOTONIC) + 20000 * MS;
    for (;;) {
        begun = now_ns(CLOCK_MONOTONIC);
        used = cpu_ns();
        sleep_ns(wait_ns);
        begun = now_ns(CLOCK_MONOTONIC) - begun;
        used = cpu_ns() - used;
        if (used * 20 < begun) break;
        if (now_ns(CLOCK_MONOTONIC) > give_up)
            fail("%s: %ld threads that wait used %ld ms of CPU in %ld ms", names[object], threads, (long)(used / MS),
                 (long)(begun / MS));
    }
    CHECK(served == 0);
    if (object == CONDITION) {
        MUST(pthread_mutex_lock(&mutex));
        open_gate = true;
        MUST(pthread_cond_broadcast(&condition));
    }
    give(object == READ ? WRITE : object);
    disperse(team);
    CHECK(served == threads);
}

int main(int argc, char **argv) {
    watch();
    long threads = number(argc, argv, 1, 100);
    int64_t wait_ns = number(argc, argv, 2, 400) * MS;
    const char *which = argc > 3 ? argv[3] : "all";
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    for (object = MUTEX; object <= SPIN; object++) {
        bool asked = strcmp(which, names[object]) == 0;
        if (asked || (strcmp(which, "all") == 0 && object != SPIN)) test(threads, wait_ns); // glibc's spin
    }
    printf("ok %ld threads\n", threads);
    return 0;
}
