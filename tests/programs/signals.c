// A storm of signals: no lock call answers EINTR, no timed one gives up early, no wait loses a wake-up, and a
// handler may try a lock, that of the thread it interrupts included, be it that lock's first
// use. Arguments: threads (4), milliseconds (200).

#include "stress.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, in_handler = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static long counter, expected, handler_counter;
static _Atomic long handled, locked_in_handler, added;
static _Atomic bool over;
static _Thread_local pthread_mutex_t fresh;
static _Thread_local volatile sig_atomic_t fresh_exists;

static void handler(int signal) {
    (void)signal;
    int before = errno;
    handled++;
    if (pthread_mutex_trylock(&in_handler) == 0) {
        handler_counter++;
        locked_in_handler++;
        if (pthread_mutex_unlock(&in_handler) != 0) abort();
    }
    if (pthread_mutex_trylock(&mutex) == 0) { // perhaps in the middle of this thread's own lock or unlock of it
        counter++;
        added++;
        if (pthread_mutex_unlock(&mutex) != 0) abort();
    }
    if (fresh_exists && pthread_mutex_trylock(&fresh) == 0) { // perhaps in the middle of its first use
        if (pthread_mutex_unlock(&fresh) != 0) abort();
    }
    errno = before;
}

static void use_fresh_mutex(void) {
    MUST(pthread_mutex_init(&fresh, NULL));
    fresh_exists = true;
    MUST(pthread_mutex_lock(&fresh));
    MUST(pthread_mutex_unlock(&fresh));
    fresh_exists = false;
    MUST(pthread_mutex_destroy(&fresh));
}

static void *suffer(void *number) {
    for (long i = (long)number; !over; i++) {
        MUST(pthread_mutex_lock(&mutex));
        counter++;
        added++;
        MUST(pthread_mutex_unlock(&mutex));
        MUST(pthread_mutex_lock(&recursive));
        MUST(pthread_mutex_lock(&recursive));
        MUST(pthread_mutex_unlock(&recursive));
        MUST(pthread_mutex_unlock(&recursive));
        MUST(i % 3 == 0 ? pthread_rwlock_wrlock(&rwlock) : pthread_rwlock_rdlock(&rwlock));
        MUST(pthread_rwlock_unlock(&rwlock));
        MUST(pthread_spin_lock(&spin));
        MUST(pthread_spin_unlock(&spin));
        use_fresh_mutex();
    }
    return NULL;
}

// Times out at its deadline and not before, however often it is interrupted.
static void *wait_until_deadline(void *unused) {
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    while (!over) {
        int64_t begun = now_ns(CLOCK_MONOTONIC); // first: the thread may lose its core between the two
        struct timespec deadline = from_now(CLOCK_MONOTONIC, 10 * MS);
        MUST(pthread_mutex_lock(&own));
        int error;
        while ((error = pthread_cond_clockwait(&never, &own, CLOCK_MONOTONIC, &deadline)) == 0) {} // spurious ones may be
        MUST(pthread_mutex_unlock(&own));
        if (error != ETIMEDOUT) fail("a condition wait under signals -> %s", error_name(error));
        if (now_ns(CLOCK_MONOTONIC) - begun < 9 * MS) fail("a condition wait gave up early");
    }
    return unused;
}

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t written = PTHREAD_RWLOCK_INITIALIZER;

static void *time_out(void *unused) {
    while (!over) {
        int64_t begun = now_ns(CLOCK_MONOTONIC);
        struct timespec deadline = from_now(CLOCK_MONOTONIC, 10 * MS), real = from_now(CLOCK_REALTIME, 10 * MS);
        int error = pthread_mutex_clocklock(&held, CLOCK_MONOTONIC, &deadline);
        if (error != ETIMEDOUT) fail("pthread_mutex_clocklock under signals -> %s", error_name(error));
        if (now_ns(CLOCK_MONOTONIC) - begun < 9 * MS) fail("pthread_mutex_clocklock gave up early");
        error = pthread_mutex_timedlock(&held, &real);
        if (error != ETIMEDOUT) fail("pthread_mutex_timedlock under signals -> %s", error_name(error));
        begun = now_ns(CLOCK_MONOTONIC);
        deadline = from_now(CLOCK_MONOTONIC, 10 * MS);
        error = pthread_rwlock_clockrdlock(&written, CLOCK_MONOTONIC, &deadline);
        if (error != ETIMEDOUT) fail("pthread_rwlock_clockrdlock under signals -> %s", error_name(error));
        if (now_ns(CLOCK_MONOTONIC) - begun < 9 * MS) fail("pthread_rwlock_clockrdlock gave up early");
    }
    return unused;
}

static long turn;

static void *take_turns(void *number) {
    for (;;) {
        MUST(pthread_mutex_lock(&in_handler)); // a mutex that handlers try, in a condition wait
        while (turn % 2 != (long)number && !over) MUST(pthread_cond_wait(&cond, &in_handler));
        turn++;
        MUST(pthread_cond_signal(&cond));
        int ends = over; // after the release the other thread may have begun to wait for a turn that this one would not take
        MUST(pthread_mutex_unlock(&in_handler));
        if (ends) return NULL;
    }
}

int main(int argc, char **argv) {
    watch();
    long threads = number(argc, argv, 1, 4), duration_ms = number(argc, argv, 2, 200);
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    struct sigaction action = {.sa_handler = handler}; // no SA_RESTART: a call that can be interrupted, is
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    MUST(pthread_mutex_lock(&held));
    MUST(pthread_rwlock_wrlock(&written));
    struct team *suffering = assemble(threads, suffer), *waiting = assemble(2, wait_until_deadline);
    struct team *timing = assemble(2, time_out), *turning = assemble(2, take_turns);
    struct team *all[] = {suffering, waiting, timing, turning};
    int64_t end = now_ns(CLOCK_MONOTONIC) + duration_ms * MS;
    while (now_ns(CLOCK_MONOTONIC) < end) {
        for (size_t t = 0; t < COUNT(all); t++)
            for (long i = 0; i < all[t]->size; i++) MUST(pthread_kill(all[t]->members[i].thread, SIGUSR1));
        sleep_ns(MS / 5);
    }
    over = true;
    MUST(pthread_cond_broadcast(&cond));
    disperse(suffering);
    disperse(waiting);
    disperse(timing);
    disperse(turning);
    expected = added;
    if (counter != expected) fail("%ld additions under the mutex, %ld made", counter, expected);
    if (handler_counter != locked_in_handler) fail("%ld additions in handlers, %ld made", handler_counter, (long)locked_in_handler);
    CHECK(handled > 0);
    printf("ok %ld threads under signals\n", threads);
    return 0;
}
