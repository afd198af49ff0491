// Cancellation in condition waits: before, during and racing the signal, in every wait, also with a robust mutex or
// a process-shared condition variable, which stay glibc's; the cleanup handler finds the mutex held by its thread, and no wake-up is lost. Waiting for a lock is
// no cancellation point. Argument: rounds of the race (default 100; 3000 to hunt).
//
// Compiled without optimisation, with it, and with -fexceptions, where the handlers run by unwinding.

#include "case.h"

enum wait { WAIT, TIMEDWAIT, CLOCKWAIT, LAST_CALL, WAITS };
static const char *const names[] = {"pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait",
                                    "pthread_cond_wait as the last call"};

enum variant { PLAIN, ROBUST_MUTEX, SHARED_COND, VARIANTS };
static const char *const variant_names[] = {"", " with a robust mutex", " on a shared condition"};
static enum variant variant;

struct room {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int how;
    // Under the mutex:
    int tokens, taken, handlers;
    _Atomic int inside, tid, checked;
};

static int wait_once(struct room *room) {
    struct timespec real = from_now(CLOCK_REALTIME, 20000 * MS), mono = from_now(CLOCK_MONOTONIC, 20000 * MS);
    switch (room->how) {
    case WAIT: return pthread_cond_wait(&room->cond, &room->mutex);
    case TIMEDWAIT: return pthread_cond_timedwait(&room->cond, &room->mutex, &real);
    default: return pthread_cond_clockwait(&room->cond, &room->mutex, CLOCK_MONOTONIC, &mono);
    }
}

// An error-checking mutex knows its owner: a second lock answers EDEADLK only to the thread that holds it.
static void must_own(void *argument) {
    struct room *room = (struct room *)argument;
    room->handlers++;
    int again = pthread_mutex_lock(&room->mutex), busy = pthread_mutex_trylock(&room->mutex);
    int unlocked = pthread_mutex_unlock(&room->mutex);
    int expected = variant == ROBUST_MUTEX ? EDEADLK : EBUSY; // glibc's robust mutexes tell their owner so
    if (again != EDEADLK || busy != expected || unlocked != 0)
        fail("in the cleanup handler: lock -> %s, trylock -> %s, unlock -> %s", error_name(again), error_name(busy),
             error_name(unlocked));
    room->checked = 1;
}

// The wait is the last call of its function, so that the compiler may make it a jump.
__attribute__((noinline)) static int last_call(struct room *room) {
    return pthread_cond_wait(&room->cond, &room->mutex);
}

static void *wait_for_token(void *argument) {
    struct room *room = (struct room *)argument;
    room->tid = gettid();
    MUST(pthread_mutex_lock(&room->mutex));
    pthread_cleanup_push(must_own, room);
    room->inside = 1;
    while (room->tokens == 0) {
        int error = room->how == LAST_CALL ? last_call(room) : wait_once(room);
        if (error == ETIMEDOUT) fail("%s timed out with %d tokens there", names[room->how], room->tokens);
        MUST(error);
        if (room->tokens == 0) pthread_testcancel();
    }
    room->tokens--;
    room->taken++;
    pthread_cleanup_pop(0);
    MUST(pthread_mutex_unlock(&room->mutex));
    return NULL;
}

static void open_room(struct room *room, int how) {
    memset(room, 0, sizeof *room);
    room->how = how;
    pthread_mutexattr_t attribute;
    MUST(pthread_mutexattr_init(&attribute));
    MUST(pthread_mutexattr_settype(&attribute, PTHREAD_MUTEX_ERRORCHECK));
    if (variant == ROBUST_MUTEX) MUST(pthread_mutexattr_setrobust(&attribute, PTHREAD_MUTEX_ROBUST));
    MUST(pthread_mutex_init(&room->mutex, &attribute));
    pthread_condattr_t cond_attribute;
    MUST(pthread_condattr_init(&cond_attribute));
    if (variant == SHARED_COND) MUST(pthread_condattr_setpshared(&cond_attribute, PTHREAD_PROCESS_SHARED));
    MUST(pthread_cond_init(&room->cond, &cond_attribute));
}

static void close_room(struct room *room) {
    MUST(pthread_cond_destroy(&room->cond));
    MUST(pthread_mutex_destroy(&room->mutex));
}

static bool join_cancelled(pthread_t thread) {
    void *result;
    MUST(pthread_join(thread, &result));
    return result == PTHREAD_CANCELED;
}

static void say(const char *function, const char *when, bool cancelled, const struct room *room) {
    printf("%s | %s | -> %s, %d handler\n", function, when, cancelled ? "cancelled" : "returned", room->handlers);
}

static void await_inside(struct room *room) {
    while (!room->inside) sched_yield();
    MUST(pthread_mutex_lock(&room->mutex)); // free again only once the waiter waits
    MUST(pthread_mutex_unlock(&room->mutex));
}

static void *cancelled_before(void *argument) {
    MUST(pthread_cancel(pthread_self())); // pending: the wait is the first cancellation point
    return wait_for_token(argument);
}

// Disabled, a cancellation stays pending through a whole wait.
static void *disabled(void *argument) {
    struct room *room = (struct room *)argument;
    int before;
    MUST(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before));
    wait_for_token(argument);
    if (room->taken != 1) fail("a disabled cancellation ended the wait");
    MUST(pthread_setcancelstate(before, NULL));
    pthread_testcancel();
    fail("the cancellation is no longer pending");
}

static void plain_cases(int how, const char *name) {
    struct room room;
    pthread_t thread;

    open_room(&room, how);
    MUST(pthread_create(&thread, NULL, cancelled_before, &room));
    bool cancelled = join_cancelled(thread);
    say(name, "cancelled before the wait", cancelled, &room);
    close_room(&room);

    open_room(&room, how);
    room.tokens = 1; // nothing to wait for: a cancellation point that is not reached
    MUST(pthread_create(&thread, NULL, cancelled_before, &room));
    cancelled = join_cancelled(thread);
    say(name, "cancelled before, no wait needed", cancelled, &room);
    close_room(&room);

    open_room(&room, how);
    MUST(pthread_create(&thread, NULL, wait_for_token, &room));
    await_inside(&room);
    MUST(pthread_cancel(thread));
    cancelled = join_cancelled(thread);
    say(name, "cancelled in the wait", cancelled, &room);
    close_room(&room);

    // Cancelled in the wait while the mutex is held: the handler has to wait for it.
    open_room(&room, how);
    MUST(pthread_create(&thread, NULL, wait_for_token, &room));
    await_inside(&room);
    MUST(pthread_mutex_lock(&room.mutex));
    MUST(pthread_cancel(thread));
    sleep_ns(20 * MS);
    printf("%s | cancelled while the mutex is held | -> %s\n", name, room.checked ? "handler without it" : "handler waits");
    MUST(pthread_mutex_unlock(&room.mutex));
    cancelled = join_cancelled(thread);
    say(name, "cancelled while the mutex was held", cancelled, &room);
    close_room(&room);

    open_room(&room, how);
    MUST(pthread_create(&thread, NULL, disabled, &room));
    await_inside(&room);
    MUST(pthread_cancel(thread));
    sleep_ns(5 * MS);
    MUST(pthread_mutex_lock(&room.mutex));
    room.tokens = 1;
    MUST(pthread_cond_signal(&room.cond));
    MUST(pthread_mutex_unlock(&room.mutex));
    cancelled = join_cancelled(thread);
    say(name, "cancelled while disabled", cancelled, &room);
    close_room(&room);
}

// Joins a thread that is to take a token or was cancelled.
//
// glibc 2.36 can lose the signal of a cancellation, though not the cancellation, when it races a change of the
// cancellation type, as each wait makes one: in pthread_cancel, `continue` leads to the exchange in the loop's
// condition. So a thread that sleeps on with no token there is woken to look. One that sleeps on beside a
// token is what this program is after.
static bool join_after_race(pthread_t thread, struct room *room) {
    void *result;
    struct timespec soon = from_now(CLOCK_REALTIME, 3000 * MS);
    while (pthread_timedjoin_np(thread, &result, &soon) == ETIMEDOUT) {
        MUST(pthread_mutex_lock(&room->mutex));
        if (room->tokens > 0) fail("a wake-up was lost: a waiter sleeps beside a token");
        MUST(pthread_cond_broadcast(&room->cond));
        MUST(pthread_mutex_unlock(&room->mutex));
        soon = from_now(CLOCK_REALTIME, 3000 * MS);
    }
    return result == PTHREAD_CANCELED;
}

// Two wait, one is signalled and one cancelled, at the same moment. Whichever way it goes, a waiter that was not
// cancelled gets the token: had the cancelled one swallowed the signal, the other would wait for ever.
static void race(int how, const char *name, long rounds) {
    for (long i = 0; i < rounds; i++) {
        struct room room;
        pthread_t first, second;
        open_room(&room, how);
        MUST(pthread_create(&first, NULL, wait_for_token, &room));
        await_inside(&room);
        room.inside = 0;
        MUST(pthread_create(&second, NULL, wait_for_token, &room));
        await_inside(&room);
        bool held = i % 4 >= 2, cancel_first = i % 2 == 0;
        MUST(pthread_mutex_lock(&room.mutex));
        room.tokens = 1;
        if (!held) MUST(pthread_mutex_unlock(&room.mutex));
        if (cancel_first) MUST(pthread_cancel(first));
        MUST(pthread_cond_signal(&room.cond));
        if (!cancel_first) MUST(pthread_cancel(first));
        if (held) MUST(pthread_mutex_unlock(&room.mutex));
        bool cancelled = join_after_race(first, &room);
        if (!cancelled) { // it took the token: the other gets one too
            MUST(pthread_mutex_lock(&room.mutex));
            if (room.taken != 1) fail("round %ld: one token, %d takers", i, room.taken);
            room.tokens++;
            MUST(pthread_cond_signal(&room.cond));
            MUST(pthread_mutex_unlock(&room.mutex));
        }
        if (join_after_race(second, &room)) fail("round %ld: the other waiter was cancelled", i);
        if (room.taken != 2 - cancelled || room.tokens != 0 || room.handlers != cancelled)
            fail("round %ld: %d taken, %d left, %d handlers", i, room.taken, room.tokens, room.handlers);
        close_room(&room);
    }
    printf("%s | cancelled racing the signal | -> no wake-up lost\n", name);
}

// ---- waiting for a lock is no cancellation point

struct blocked_in {
    const char *name;
    int (*call)(void);
    int (*lock)(void);
    int (*unlock)(void);
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;

static struct timespec late(clockid_t clock) { return from_now(clock, 20000 * MS); }
static int mutex_lock(void) { return pthread_mutex_lock(&mutex); }
static int mutex_timedlock(void) {
    struct timespec deadline = late(CLOCK_REALTIME);
    return pthread_mutex_timedlock(&mutex, &deadline);
}
static int mutex_clocklock(void) {
    struct timespec deadline = late(CLOCK_MONOTONIC);
    return pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &deadline);
}
static int mutex_unlock(void) { return pthread_mutex_unlock(&mutex); }
static int rdlock(void) { return pthread_rwlock_rdlock(&rwlock); }
static int wrlock(void) { return pthread_rwlock_wrlock(&rwlock); }
static int timedrdlock(void) {
    struct timespec deadline = late(CLOCK_REALTIME);
    return pthread_rwlock_timedrdlock(&rwlock, &deadline);
}
static int timedwrlock(void) {
    struct timespec deadline = late(CLOCK_REALTIME);
    return pthread_rwlock_timedwrlock(&rwlock, &deadline);
}
static int rwlock_unlock(void) { return pthread_rwlock_unlock(&rwlock); }
static int spin_lock(void) { return pthread_spin_lock(&spin); }
static int spin_unlock(void) { return pthread_spin_unlock(&spin); }

static _Atomic int calling, got_lock;
static _Atomic pid_t caller_tid;

static void *call_and_release(void *argument) {
    const struct blocked_in *where = (const struct blocked_in *)argument;
    caller_tid = gettid();
    calling = 1;
    int error = where->call();
    got_lock = error == 0;
    if (error == 0) MUST(where->unlock());
    pthread_testcancel();
    return NULL;
}

static void locks_are_no_points(void) {
    static const struct blocked_in all[] = {
        {"pthread_mutex_lock", mutex_lock, mutex_lock, mutex_unlock},
        {"pthread_mutex_timedlock", mutex_timedlock, mutex_lock, mutex_unlock},
        {"pthread_mutex_clocklock", mutex_clocklock, mutex_lock, mutex_unlock},
        {"pthread_rwlock_rdlock", rdlock, wrlock, rwlock_unlock},
        {"pthread_rwlock_wrlock", wrlock, wrlock, rwlock_unlock},
        {"pthread_rwlock_timedrdlock", timedrdlock, wrlock, rwlock_unlock},
        {"pthread_rwlock_timedwrlock", timedwrlock, wrlock, rwlock_unlock},
        {"pthread_spin_lock", spin_lock, spin_lock, spin_unlock},
    };
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    for (size_t i = 0; i < COUNT(all); i++) {
        pthread_t thread;
        calling = got_lock = 0;
        MUST(all[i].lock());
        MUST(pthread_create(&thread, NULL, call_and_release, (void *)&all[i]));
        while (!calling) sched_yield();
        blocked(&calling, caller_tid);
        MUST(pthread_cancel(thread));
        sleep_ns(10 * MS);
        MUST(all[i].unlock());
        bool cancelled = join_cancelled(thread);
        printf("%s | cancelled while it waits | -> %s, then %s\n", all[i].name, got_lock ? "got the lock" : "gave up",
               cancelled ? "cancelled" : "returned");
    }
}

int main(int argc, char **argv) {
    watch();
    long rounds = number(argc, argv, 1, 100);
    for (variant = PLAIN; variant < VARIANTS; variant++)
        for (int how = WAIT; how < WAITS; how++) {
            char name[80];
            snprintf(name, sizeof name, "%s%s", names[how], variant_names[variant]);
            plain_cases(how, name);
            race(how, name, variant == PLAIN ? rounds : rounds / 4 + 1);
        }
    locks_are_no_points();
    puts("end");
    return 0;
}
