// pthread_mutex_{timedlock,clocklock}: every kind, state, clock and shape of deadline.

#include "case.h"

struct kind {
    const char *name;
    int type;
};

static const struct kind kinds[] = {
    {"normal", PTHREAD_MUTEX_NORMAL},         {"default", PTHREAD_MUTEX_DEFAULT},
    {"recursive", PTHREAD_MUTEX_RECURSIVE},   {"errorcheck", PTHREAD_MUTEX_ERRORCHECK},
    {"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP},
};

enum call { TIMEDLOCK, CLOCKLOCK_REALTIME, CLOCKLOCK_MONOTONIC };
static const char *const call_names[] = {"pthread_mutex_timedlock", "pthread_mutex_clocklock(REALTIME)",
                                         "pthread_mutex_clocklock(MONOTONIC)"};

struct request {
    pthread_mutex_t *mutex;
    enum call call;
    struct timespec deadline;
};

static clockid_t clock_of(enum call call) {
    return call == CLOCKLOCK_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

static int timed(void *argument) {
    struct request *request = argument;
    if (request->call == TIMEDLOCK) return pthread_mutex_timedlock(request->mutex, &request->deadline);
    return pthread_mutex_clocklock(request->mutex, clock_of(request->call), &request->deadline);
}

static int lock(void *mutex) { return pthread_mutex_lock(mutex); }
static int trylock(void *mutex) { return pthread_mutex_trylock(mutex); }
static int unlock(void *mutex) { return pthread_mutex_unlock(mutex); }

static struct actor other;

struct shape {
    const char *name;
    int64_t delta_ns;
    long nsec; // replaces the nanoseconds when it is not 0
    long sec;  // replaces the seconds when it is not 0
};

static const struct shape shapes[] = {
    {"a second ago", -1000000000, 0, 0},      {"just now", 0, 0, 0},
    {"in 10 ms", 10000000, 0, 0},             {"nsec 1000000000", 1000000000, 1000000000, 0},
    {"nsec -1", 1000000000, -1, 0},           {"before the epoch", 0, 0, -1},
};

// Makes the call with each deadline; gives back what it took, and says when it came back too early.
static void each_shape(pthread_mutex_t *mutex, const char *kind, const char *state, enum call call) {
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const struct shape *shape = &shapes[i];
        int64_t before = now_ns(CLOCK_MONOTONIC); // first: the thread may lose its core between the two
        struct request request = {mutex, call, from_now(clock_of(call), shape->delta_ns)};
        if (shape->nsec != 0) request.deadline.tv_nsec = shape->nsec;
        if (shape->sec != 0) request.deadline.tv_sec = shape->sec;
        int error = timed(&request);
        int64_t waited = now_ns(CLOCK_MONOTONIC) - before;
        printf("%s, %s | %s | %s -> %s%s\n", call_names[call], shape->name, kind, state, error_name(error),
               error == ETIMEDOUT && waited < shape->delta_ns - MS ? ", too early" : "");
        if (error == 0) MUST(unlock(mutex));
    }
}

static void each_call(const struct kind *kind) {
    pthread_mutexattr_t attribute;
    MUST(pthread_mutexattr_init(&attribute));
    MUST(pthread_mutexattr_settype(&attribute, kind->type));
    pthread_mutex_t mutex;
    MUST(pthread_mutex_init(&mutex, &attribute));
    MUST(pthread_mutexattr_destroy(&attribute));

    for (enum call call = TIMEDLOCK; call <= CLOCKLOCK_MONOTONIC; call++) {
        each_shape(&mutex, kind->name, "unlocked", call);
        MUST(lock(&mutex));
        each_shape(&mutex, kind->name, "held-by-self", call);
        MUST(unlock(&mutex));
        MUST(ask(&other, lock, &mutex));
        each_shape(&mutex, kind->name, "held-by-other", call);
        MUST(ask(&other, unlock, &mutex));
        report("pthread_mutex_trylock", kind->name, "after the timeouts", trylock(&mutex));
        MUST(unlock(&mutex));

        // A waiter with time to spare gets the mutex when it is released.
        struct request request = {&mutex, call, from_now(clock_of(call), 20000 * MS)};
        MUST(lock(&mutex));
        bool waits = start(&other, timed, &request);
        printf("%s, in 20 s | %s | held-by-other -> %s\n", call_names[call], kind->name, waits ? "blocks" : "returns");
        MUST(unlock(&mutex));
        report(call_names[call], kind->name, "released while waiting", collect(&other));
        report("pthread_mutex_trylock", kind->name, "held by the former waiter", trylock(&mutex));
        MUST(ask(&other, unlock, &mutex));

        // A waiter that gives up leaves the queue: those behind it still get the mutex.
        struct actor impatient;
        hire(&impatient);
        MUST(lock(&mutex));
        struct request soon = {&mutex, call, from_now(clock_of(call), 10 * MS)};
        start(&impatient, timed, &soon);
        request.deadline = from_now(clock_of(call), 20000 * MS);
        start(&other, timed, &request);
        report(call_names[call], kind->name, "gives up at the head of the queue", collect(&impatient));
        MUST(unlock(&mutex));
        report(call_names[call], kind->name, "behind one that gave up", collect(&other));
        MUST(ask(&other, unlock, &mutex));
        dismiss(&impatient);
    }

    static const clockid_t bad_clocks[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, 1234, -1};
    struct timespec late = from_now(CLOCK_REALTIME, 20000 * MS);
    for (size_t i = 0; i < COUNT(bad_clocks); i++) {
        char function[64];
        snprintf(function, sizeof function, "pthread_mutex_clocklock(clock %d)", (int)bad_clocks[i]);
        report(function, kind->name, "unlocked", pthread_mutex_clocklock(&mutex, bad_clocks[i], &late));
        MUST(ask(&other, lock, &mutex));
        report(function, kind->name, "held-by-other", pthread_mutex_clocklock(&mutex, bad_clocks[i], &late));
        MUST(ask(&other, unlock, &mutex));
    }

    const struct timespec *volatile no_time = NULL; // which glibc looks at only when it has to wait
    report("pthread_mutex_timedlock(NULL)", kind->name, "unlocked", pthread_mutex_timedlock(&mutex, no_time));
    MUST(unlock(&mutex));
    report("pthread_mutex_clocklock(NULL)", kind->name, "unlocked",
           pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, no_time));
    MUST(unlock(&mutex));

    if (kind->type == PTHREAD_MUTEX_RECURSIVE) {
        struct request request = {&mutex, TIMEDLOCK, from_now(CLOCK_REALTIME, -MS)};
        MUST(lock(&mutex));
        report("pthread_mutex_timedlock", kind->name, "held once, deadline past", timed(&request));
        request.call = CLOCKLOCK_MONOTONIC;
        report("pthread_mutex_clocklock", kind->name, "held twice, deadline past", timed(&request));
        report("pthread_mutex_trylock", kind->name, "held three times", trylock(&mutex));
        for (int held = 4; held > 0; held--) {
            report("pthread_mutex_trylock, by another", kind->name, "still held", ask(&other, trylock, &mutex));
            report("pthread_mutex_unlock", kind->name, "held", unlock(&mutex));
        }
        report("pthread_mutex_unlock", kind->name, "free", unlock(&mutex));
    }
    report("pthread_mutex_destroy", kind->name, "unlocked", pthread_mutex_destroy(&mutex));
}

int main(void) {
    watch();
    hire(&other);
    for (size_t i = 0; i < COUNT(kinds); i++) each_call(&kinds[i]);
    dismiss(&other);
    puts("end");
    return 0;
}
