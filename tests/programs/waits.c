// Condition waits: a signal does not end one, and a mutex that one is about to take back is busy. Arguments: threads (4),
// signals (200).

#include "stress.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static _Atomic long waiting, returned, handled;
static bool leave;

static void on_signal(int signal_number) {
    (void)signal_number;
    handled++;
}

static void *wait_long(void *index) {
    long number = (long)index;
    struct timespec late = from_now(CLOCK_REALTIME, 250000 * MS);
    MUST(pthread_mutex_lock(&mutex));
    waiting++;
    while (!leave) {
        MUST(number % 2 == 0 ? pthread_cond_wait(&condition, &mutex) : pthread_cond_timedwait(&condition, &mutex, &late));
        returned++;
    }
    MUST(pthread_mutex_unlock(&mutex));
    return NULL;
}

static void signals_go_by(long threads, long signals) {
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    struct team *team = assemble(threads, wait_long);
    while (waiting < threads) sleep_ns(MS);
    MUST(pthread_mutex_lock(&mutex)); // all of them wait now
    MUST(pthread_mutex_unlock(&mutex));
    for (long i = 0; i < signals; i++) {
        long before = handled;
        MUST(pthread_kill(team->members[i % threads].thread, SIGUSR1));
        while (handled == before) sched_yield();
    }
    sleep_ns(20 * MS);
    if (returned != 0) fail("%ld waits returned after %ld signals", (long)returned, signals);
    MUST(pthread_mutex_lock(&mutex));
    leave = true;
    MUST(pthread_cond_broadcast(&condition));
    MUST(pthread_mutex_unlock(&mutex));
    disperse(team);
    CHECK(returned == threads);
}

static void mutexes_are_busy(void) {
    static const int kinds[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                                PTHREAD_MUTEX_ADAPTIVE_NP};
    for (size_t k = 0; k < COUNT(kinds); k++) {
        pthread_mutexattr_t attribute;
        MUST(pthread_mutexattr_init(&attribute));
        MUST(pthread_mutexattr_settype(&attribute, kinds[k]));
        MUST(pthread_mutex_init(&mutex, &attribute));
        leave = false;
        waiting = 0;
        struct team *team = assemble(2, wait_long);
        while (waiting < 2) sleep_ns(MS);
        MUST(pthread_mutex_lock(&mutex));
        CHECK(pthread_mutex_destroy(&mutex) == EBUSY); // held, too
        MUST(pthread_mutex_unlock(&mutex));
        CHECK(pthread_mutex_destroy(&mutex) == EBUSY);
        MUST(pthread_mutex_lock(&mutex));
        leave = true;
        MUST(pthread_cond_broadcast(&condition));
        MUST(pthread_mutex_unlock(&mutex));
        disperse(team);
        MUST(pthread_mutex_destroy(&mutex));
    }
}

int main(int argc, char **argv) {
    watch();
    long threads = number(argc, argv, 1, 4), signals = number(argc, argv, 2, 200);
    signals_go_by(threads, signals);
    mutexes_are_busy();
    printf("ok %ld threads\n", threads);
    return 0;
}
