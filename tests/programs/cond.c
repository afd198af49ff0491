// pthread_cond_*: waits on each clock and with each kind of mutex, deadlines, who is woken, and destroy.

#include "case.h"
#include <sys/mman.h>

enum wait { WAIT, TIMEDWAIT, CLOCKWAIT_REALTIME, CLOCKWAIT_MONOTONIC };
static const char *const names[] = {"pthread_cond_wait", "pthread_cond_timedwait",
                                    "pthread_cond_clockwait(REALTIME)", "pthread_cond_clockwait(MONOTONIC)"};

struct room {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    clockid_t attribute; // the clock of timedwait
    enum wait how;
    int64_t patience_ns;
    // Under the mutex:
    int waiting, tokens, woken;
};

static clockid_t clock_of(const struct room *room) {
    if (room->how == TIMEDWAIT) return room->attribute;
    return room->how == CLOCKWAIT_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

static int wait_until(struct room *room, const struct timespec *deadline) {
    switch (room->how) {
    case WAIT: return pthread_cond_wait(&room->cond, &room->mutex);
    case TIMEDWAIT: return pthread_cond_timedwait(&room->cond, &room->mutex, deadline);
    default: return pthread_cond_clockwait(&room->cond, &room->mutex, clock_of(room), deadline);
    }
}

// Takes a token, waiting for one as long as the room's patience allows.
static int take_token(void *argument) {
    struct room *room = argument;
    struct timespec deadline = from_now(clock_of(room), room->patience_ns);
    MUST(pthread_mutex_lock(&room->mutex));
    room->waiting++;
    int error = 0;
    while (room->tokens == 0 && error == 0) error = wait_until(room, &deadline);
    room->waiting--;
    if (error == 0) {
        room->tokens--;
        room->woken++;
    }
    MUST(pthread_mutex_unlock(&room->mutex));
    return error;
}

static void open_room(struct room *room, int type, int clock, bool attribute) {
    memset(room, 0, sizeof *room);
    pthread_mutexattr_t mutex_attribute;
    MUST(pthread_mutexattr_init(&mutex_attribute));
    MUST(pthread_mutexattr_settype(&mutex_attribute, type));
    MUST(pthread_mutex_init(&room->mutex, &mutex_attribute));
    room->attribute = clock;
    room->patience_ns = 20000 * MS;
    memset(&room->cond, 0xA5, sizeof room->cond); // init may not trust what was there
    if (attribute) {
        pthread_condattr_t cond_attribute;
        MUST(pthread_condattr_init(&cond_attribute));
        MUST(pthread_condattr_setclock(&cond_attribute, clock));
        MUST(pthread_cond_init(&room->cond, &cond_attribute));
    } else {
        MUST(pthread_cond_init(&room->cond, NULL));
    }
}

static void close_room(struct room *room, const char *kind) {
    report("pthread_cond_destroy", kind, "nobody waits", pthread_cond_destroy(&room->cond));
    report("pthread_mutex_destroy", kind, "after its waits", pthread_mutex_destroy(&room->mutex));
}

static void await_waiting(struct room *room, int waiting) {
    for (;;) {
        MUST(pthread_mutex_lock(&room->mutex));
        int now = room->waiting;
        MUST(pthread_mutex_unlock(&room->mutex));
        if (now == waiting) return; // under the mutex they are counted, so they wait or have not let go of it
        sched_yield();
    }
}

static int woken(struct room *room) {
    MUST(pthread_mutex_lock(&room->mutex));
    int now = room->woken;
    MUST(pthread_mutex_unlock(&room->mutex));
    return now;
}

static int trylock(void *mutex) { return pthread_mutex_trylock(mutex); }
static int lock(void *mutex) { return pthread_mutex_lock(mutex); }
static int unlock(void *mutex) { return pthread_mutex_unlock(mutex); }

static struct actor waiters[4];
#define WAITERS 4

static void give(struct room *room, int tokens, bool broadcast, const char *kind) {
    MUST(pthread_mutex_lock(&room->mutex));
    room->tokens += tokens;
    if (broadcast) report("pthread_cond_broadcast", kind, "some wait", pthread_cond_broadcast(&room->cond));
    else
        for (int i = 0; i < tokens; i++) report("pthread_cond_signal", kind, "some wait", pthread_cond_signal(&room->cond));
    MUST(pthread_mutex_unlock(&room->mutex));
}

// Signals wake one waiter each, a broadcast wakes all; with no waiter both are forgotten.
static void wakes(struct room *room, const char *kind) {
    room->woken = 0;
    report("pthread_cond_signal", kind, "nobody waits", pthread_cond_signal(&room->cond));
    report("pthread_cond_broadcast", kind, "nobody waits", pthread_cond_broadcast(&room->cond));
    for (int i = 0; i < WAITERS; i++) start(&waiters[i], take_token, room);
    await_waiting(room, WAITERS);
    printf("%s | %s | woken before any signal -> %d\n", names[room->how], kind, woken(room));
    report("pthread_mutex_destroy", kind, "some wait to take it back", pthread_mutex_destroy(&room->mutex));
    give(room, 1, false, kind);
    await_waiting(room, WAITERS - 1);
    printf("%s | %s | woken by one signal -> %d\n", names[room->how], kind, woken(room));
    give(room, 2, false, kind);
    await_waiting(room, WAITERS - 3);
    printf("%s | %s | woken by three signals -> %d\n", names[room->how], kind, woken(room));
    give(room, 1, true, kind);
    await_waiting(room, 0);
    printf("%s | %s | woken in all -> %d\n", names[room->how], kind, woken(room));
    for (int i = 0; i < WAITERS; i++) report(names[room->how], kind, "signalled", collect(&waiters[i]));

    room->woken = 0;
    for (int i = 0; i < WAITERS; i++) start(&waiters[i], take_token, room);
    await_waiting(room, WAITERS);
    give(room, WAITERS, true, kind);
    for (int i = 0; i < WAITERS; i++) report(names[room->how], kind, "broadcast", collect(&waiters[i]));
    printf("%s | %s | woken by a broadcast -> %d\n", names[room->how], kind, woken(room));

    // Signalled with the mutex free: POSIX allows it, and programs do.
    start(&waiters[0], take_token, room);
    await_waiting(room, 1);
    MUST(pthread_mutex_lock(&room->mutex));
    room->tokens = 1;
    MUST(pthread_mutex_unlock(&room->mutex));
    report("pthread_cond_signal", kind, "mutex free", pthread_cond_signal(&room->cond));
    report(names[room->how], kind, "signalled with the mutex free", collect(&waiters[0]));
}

static void expires(struct room *room, const char *kind) {
    static const struct {
        const char *name;
        int64_t delta_ns;
        long nsec;
    } shapes[] = {{"a second ago", -1000000000, 0}, {"just now", 0, 0}, {"in 10 ms", 10000000, 0},
                  {"nsec 1000000000", 1000000000, 1000000000}, {"nsec -1", 1000000000, -1}};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        int64_t before = now_ns(CLOCK_MONOTONIC); // first: the thread may lose its core between the two
        struct timespec deadline = from_now(clock_of(room), shapes[i].delta_ns);
        if (shapes[i].nsec != 0) deadline.tv_nsec = shapes[i].nsec;
        MUST(pthread_mutex_lock(&room->mutex));
        int error;
        do error = wait_until(room, &deadline); // spurious wake-ups may be
        while (error == 0);
        int64_t waited = now_ns(CLOCK_MONOTONIC) - before;
        printf("%s, %s | %s | nobody signals -> %s%s\n", names[room->how], shapes[i].name, kind, error_name(error),
               error == ETIMEDOUT && waited < shapes[i].delta_ns - MS ? ", too early" : "");
        report("pthread_mutex_trylock, by another", kind, "re-acquired", ask(&waiters[0], trylock, &room->mutex));
        report("pthread_mutex_unlock", kind, "re-acquired", pthread_mutex_unlock(&room->mutex));
    }
    // The mutex is re-acquired on a timeout too, however long that takes. A waiter that has expired before
    // the mutex is taken from it shows nothing: once more, with more patience.
    bool early = true;
    for (int64_t patience_ns = 10 * MS; early; patience_ns *= 2) {
        room->patience_ns = patience_ns;
        start(&waiters[0], take_token, room);
        MUST(pthread_mutex_lock(&room->mutex));
        early = room->waiting == 0;
        if (!early) {
            sleep_ns(patience_ns + 10 * MS);
            printf("%s | %s | expired while the mutex is held -> %s\n", names[room->how], kind,
                   waiters[0].calling ? "waits for the mutex" : "returned without it");
        }
        MUST(pthread_mutex_unlock(&room->mutex));
        int error = collect(&waiters[0]);
        if (!early) report(names[room->how], kind, "expired while the mutex was held", error);
    }
    room->patience_ns = 20000 * MS;
}

static void not_owner(struct room *room, const char *kind) {
    struct timespec deadline = from_now(clock_of(room), 20000 * MS);
    report(names[room->how], kind, "mutex not held", wait_until(room, &deadline));
    MUST(ask(&waiters[0], lock, &room->mutex));
    report(names[room->how], kind, "mutex held by other", wait_until(room, &deadline));
    MUST(ask(&waiters[0], unlock, &room->mutex));
}

struct tryer {
    struct room *room;
    int depth;
    _Atomic int tried, over;
};

// Tries the mutex while the main thread waits, then wakes it until it is seen to be awake.
static int try_during_wait(void *argument) {
    struct tryer *tryer = argument;
    int error = EBUSY;
    for (int i = 0; error == EBUSY && (tryer->depth == 1 || i < 20); i++) {
        sleep_ns(MS / 2);
        error = trylock(&tryer->room->mutex);
    }
    if (error == 0) MUST(unlock(&tryer->room->mutex));
    for (tryer->tried = 1; !tryer->over; sleep_ns(MS / 2)) MUST(pthread_cond_signal(&tryer->room->cond));
    return error;
}

// A wait undoes one level of a recursive mutex and no more: held twice, it stays held during the wait.
static void recursive(void) {
    struct room room;
    const char *kind = "recursive";
    open_room(&room, PTHREAD_MUTEX_RECURSIVE, CLOCK_REALTIME, false);
    for (room.how = WAIT; room.how <= CLOCKWAIT_MONOTONIC; room.how++)
        for (int depth = 1; depth <= 3; depth++) {
            char state[32];
            snprintf(state, sizeof state, "held %d times", depth);
            for (int i = 0; i < depth; i++) MUST(lock(&room.mutex));
            struct tryer tryer = {.room = &room, .depth = depth};
            send_to(&waiters[0], try_during_wait, &tryer);
            struct timespec deadline = from_now(clock_of(&room), 20000 * MS);
            int error = 0;
            while (!tryer.tried && error == 0) error = wait_until(&room, &deadline);
            tryer.over = 1;
            report(names[room.how], kind, state, error);
            report("pthread_mutex_trylock, by another, in the wait", kind, state, collect(&waiters[0]));
            for (int i = 0; i < depth; i++) {
                report("pthread_mutex_trylock, by another", kind, state, ask(&waiters[0], trylock, &room.mutex));
                report("pthread_mutex_unlock", kind, state, unlock(&room.mutex));
            }
            report("pthread_mutex_unlock", kind, "all undone", unlock(&room.mutex));
        }
    close_room(&room, kind);
}

struct page {
    pthread_cond_t cond;
    struct room *room;
};

static int wait_in_page(void *argument) {
    struct page *page = argument;
    struct room *room = page->room;
    MUST(pthread_mutex_lock(&room->mutex));
    room->waiting++;
    // Once woken the page may be gone: look at the token first.
    while (room->tokens == 0) MUST(pthread_cond_wait(&page->cond, &room->mutex));
    room->waiting--;
    return pthread_mutex_unlock(&room->mutex);
}

// What leaves the last trace in a condition variable is its destroy: woken waiters are gone by then, and
// the memory may go at once.
static void destroy_after_broadcast(void) {
    int refused = 0, rounds = 200;
    struct room room;
    open_room(&room, PTHREAD_MUTEX_NORMAL, CLOCK_REALTIME, false);
    MUST(pthread_cond_destroy(&room.cond));
    for (int i = 0; i < rounds; i++) {
        struct page *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(page != MAP_FAILED);
        MUST(pthread_cond_init(&page->cond, NULL));
        page->room = &room;
        for (int w = 0; w < WAITERS; w++) send_to(&waiters[w], wait_in_page, page);
        await_waiting(&room, WAITERS);
        MUST(pthread_mutex_lock(&room.mutex));
        room.tokens = 1;
        MUST(pthread_cond_broadcast(&page->cond));
        MUST(pthread_mutex_unlock(&room.mutex));
        refused += pthread_cond_destroy(&page->cond) != 0;
        munmap(page, 4096);
        for (int w = 0; w < WAITERS; w++) MUST(collect(&waiters[w]));
        room.tokens = 0;
    }
    printf("pthread_cond_destroy | default | %d times after a broadcast -> %d refused\n", rounds, refused);
    MUST(pthread_mutex_destroy(&room.mutex));
}

// Zeroed memory is a condition variable, and so is one whose previous life is over.
// The caller has forgotten to lock the mutex: the wait takes it all the same.
static void never_locked(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    struct timespec deadline = from_now(CLOCK_REALTIME, MS);
    report("pthread_cond_timedwait", "never locked", "deadline passes", pthread_cond_timedwait(&cond, &mutex, &deadline));
    report("pthread_mutex_trylock", "never locked", "by other, after the wait", ask(&waiters[0], trylock, &mutex));
    report("pthread_mutex_unlock", "never locked", "after the wait", unlock(&mutex));
    report("pthread_mutex_trylock", "never locked", "by other, after that", ask(&waiters[0], trylock, &mutex));
    MUST(ask(&waiters[0], unlock, &mutex));
}

static void fresh(void) {
    static struct room room = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    room.patience_ns = 20000 * MS;
    room.attribute = CLOCK_REALTIME;
    for (room.how = WAIT; room.how <= CLOCKWAIT_MONOTONIC; room.how++) {
        wakes(&room, "static");
        if (room.how != WAIT) expires(&room, "static");
        report("pthread_cond_destroy", "static", "nobody waits", pthread_cond_destroy(&room.cond));
        room.cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    }
}

int main(void) {
    watch();
    for (int i = 0; i < WAITERS; i++) hire(&waiters[i]);
    static const struct {
        const char *name;
        int type;
        clockid_t clock;
        bool attribute;
    } kinds[] = {
        {"default", PTHREAD_MUTEX_DEFAULT, CLOCK_REALTIME, false},
        {"realtime", PTHREAD_MUTEX_NORMAL, CLOCK_REALTIME, true},
        {"monotonic", PTHREAD_MUTEX_NORMAL, CLOCK_MONOTONIC, true},
        {"errorcheck", PTHREAD_MUTEX_ERRORCHECK, CLOCK_REALTIME, false},
        {"errorcheck monotonic", PTHREAD_MUTEX_ERRORCHECK, CLOCK_MONOTONIC, true},
        {"recursive", PTHREAD_MUTEX_RECURSIVE, CLOCK_REALTIME, false},
        {"adaptive monotonic", PTHREAD_MUTEX_ADAPTIVE_NP, CLOCK_MONOTONIC, true},
    };
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct room room;
        open_room(&room, kinds[i].type, kinds[i].clock, kinds[i].attribute);
        for (room.how = WAIT; room.how <= CLOCKWAIT_MONOTONIC; room.how++) {
            wakes(&room, kinds[i].name);
            if (room.how != WAIT) expires(&room, kinds[i].name);
            bool checks = kinds[i].type == PTHREAD_MUTEX_ERRORCHECK || kinds[i].type == PTHREAD_MUTEX_RECURSIVE;
            if (checks) not_owner(&room, kinds[i].name);
        }
        struct timespec deadline = from_now(CLOCK_REALTIME, 20000 * MS);
        static const clockid_t bad_clocks[] = {CLOCK_PROCESS_CPUTIME_ID, 1234, -1};
        for (size_t c = 0; c < COUNT(bad_clocks); c++) {
            char function[64];
            snprintf(function, sizeof function, "pthread_cond_clockwait(clock %d)", (int)bad_clocks[c]);
            MUST(lock(&room.mutex));
            report(function, kinds[i].name, "nobody signals",
                   pthread_cond_clockwait(&room.cond, &room.mutex, bad_clocks[c], &deadline));
            report("pthread_mutex_unlock", kinds[i].name, "after a refused wait", unlock(&room.mutex));
        }
        close_room(&room, kinds[i].name);
    }
    fresh();
    never_locked();
    recursive();
    destroy_after_broadcast();
    for (int i = 0; i < WAITERS; i++) dismiss(&waiters[i]);
    puts("end");
    return 0;
}
