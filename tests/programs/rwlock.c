// pthread_rwlock_*: both preferences, private and shared, every call in every state.
//
// What a fresh reader meets while a writer waits is the lock's policy and no case here; that a thread
// which already reads may read again is, for every kind but NONRECURSIVE.

#include "case.h"
#include <sys/mman.h>
#include <sys/wait.h>

enum mode { READ, WRITE };
enum flavour { PLAIN, TRY, TIMED, CLOCK_REAL, CLOCK_MONO };

static const char *const names[2][5] = {
    {"pthread_rwlock_rdlock", "pthread_rwlock_tryrdlock", "pthread_rwlock_timedrdlock",
     "pthread_rwlock_clockrdlock(REALTIME)", "pthread_rwlock_clockrdlock(MONOTONIC)"},
    {"pthread_rwlock_wrlock", "pthread_rwlock_trywrlock", "pthread_rwlock_timedwrlock",
     "pthread_rwlock_clockwrlock(REALTIME)", "pthread_rwlock_clockwrlock(MONOTONIC)"},
};

struct request {
    pthread_rwlock_t *lock;
    enum mode mode;
    enum flavour flavour;
    struct timespec deadline;
};

static clockid_t clock_of(enum flavour flavour) {
    return flavour == CLOCK_MONO ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

static struct request within(pthread_rwlock_t *lock, enum mode mode, enum flavour flavour, int64_t delta_ns) {
    return (struct request){lock, mode, flavour, from_now(clock_of(flavour), delta_ns)};
}

static int acquire(void *argument) {
    struct request *request = argument;
    pthread_rwlock_t *lock = request->lock;
    bool write = request->mode == WRITE;
    switch (request->flavour) {
    case PLAIN: return write ? pthread_rwlock_wrlock(lock) : pthread_rwlock_rdlock(lock);
    case TRY: return write ? pthread_rwlock_trywrlock(lock) : pthread_rwlock_tryrdlock(lock);
    case TIMED:
        return write ? pthread_rwlock_timedwrlock(lock, &request->deadline)
                     : pthread_rwlock_timedrdlock(lock, &request->deadline);
    default: {
        clockid_t clock = clock_of(request->flavour);
        return write ? pthread_rwlock_clockwrlock(lock, clock, &request->deadline)
                     : pthread_rwlock_clockrdlock(lock, clock, &request->deadline);
    }
    }
}

static int rdlock(void *lock) { return pthread_rwlock_rdlock(lock); }
static int wrlock(void *lock) { return pthread_rwlock_wrlock(lock); }
static int tryrdlock(void *lock) { return pthread_rwlock_tryrdlock(lock); }
static int trywrlock(void *lock) { return pthread_rwlock_trywrlock(lock); }
static int unlock(void *lock) { return pthread_rwlock_unlock(lock); }

static struct actor other, third;

struct kind {
    const char *name;
    int preference; // -1: no attribute; -2, -3: static initialisers
    int shared;
};

static const struct kind kinds[] = {
    {"static", -2, 0},
    {"static nonrecursive", -3, 0},
    {"no attribute", -1, 0},
    {"prefer reader", PTHREAD_RWLOCK_PREFER_READER_NP, 0},
    {"prefer writer", PTHREAD_RWLOCK_PREFER_WRITER_NP, 0},
    {"nonrecursive", PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, 0},
    {"shared", PTHREAD_RWLOCK_DEFAULT_NP, 1},
    {"shared nonrecursive", PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, 1},
};

static int make(pthread_rwlock_t *lock, const struct kind *kind) {
    static const pthread_rwlock_t plain = PTHREAD_RWLOCK_INITIALIZER;
    static const pthread_rwlock_t writers = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    if (kind->preference <= -2) {
        *lock = kind->preference == -2 ? plain : writers;
        return 0;
    }
    memset(lock, 0xA5, sizeof *lock); // init may not trust what was there
    if (kind->preference == -1) return pthread_rwlock_init(lock, NULL);
    pthread_rwlockattr_t attribute;
    MUST(pthread_rwlockattr_init(&attribute));
    MUST(pthread_rwlockattr_setkind_np(&attribute, kind->preference));
    if (kind->shared) MUST(pthread_rwlockattr_setpshared(&attribute, PTHREAD_PROCESS_SHARED));
    int error = pthread_rwlock_init(lock, &attribute);
    MUST(pthread_rwlockattr_destroy(&attribute));
    return error;
}

// Every call but those that would wait for good: these are made with a deadline of 5 ms.
static void all_calls(pthread_rwlock_t *lock, const char *kind, const char *state, bool plain_reads, bool plain_writes) {
    bool own_read = strcmp(state, "read-held by self") == 0;
    for (enum mode mode = READ; mode <= WRITE; mode++)
        for (enum flavour flavour = PLAIN; flavour <= CLOCK_MONO; flavour++) {
            if (flavour == PLAIN && !(mode == READ ? plain_reads : plain_writes)) continue;
            int64_t before = now_ns(CLOCK_MONOTONIC); // first: the thread may lose its core between the two
            struct request request = within(lock, mode, flavour, 5 * MS);
            int error = acquire(&request);
            bool early = error == ETIMEDOUT && !own_read && now_ns(CLOCK_MONOTONIC) - before < 4 * MS;
            printf("%s | %s | %s -> %s%s\n", names[mode][flavour], kind, state, error_name(error),
                   early ? ", too early" : "");
            if (error == 0) report("pthread_rwlock_unlock", kind, state, unlock(lock));
        }
}

static void deadlines(pthread_rwlock_t *lock, const char *kind, const char *state) {
    static const struct {
        const char *name;
        time_t sec;
        long nsec;
    } shapes[] = {{"before the epoch", -1, 0}, {"the epoch", 0, 0}, {"nsec 1000000000", 1, 1000000000}, {"nsec -1", 1, -1}};
    for (enum mode mode = READ; mode <= WRITE; mode++)
        for (enum flavour flavour = TIMED; flavour <= CLOCK_MONO; flavour++)
            for (size_t i = 0; i < COUNT(shapes); i++) {
                struct request request = {lock, mode, flavour, {.tv_sec = shapes[i].sec, .tv_nsec = shapes[i].nsec}};
                int error = acquire(&request);
                printf("%s, %s | %s | %s -> %s\n", names[mode][flavour], shapes[i].name, kind, state, error_name(error));
                if (error == 0) MUST(unlock(lock));
            }
    struct timespec late = from_now(CLOCK_REALTIME, 20000 * MS);
    static const clockid_t bad_clocks[] = {CLOCK_PROCESS_CPUTIME_ID, 1234, -1};
    for (size_t i = 0; i < COUNT(bad_clocks); i++) {
        char function[64];
        snprintf(function, sizeof function, "pthread_rwlock_clockrdlock(clock %d)", (int)bad_clocks[i]);
        report(function, kind, state, pthread_rwlock_clockrdlock(lock, bad_clocks[i], &late));
        snprintf(function, sizeof function, "pthread_rwlock_clockwrlock(clock %d)", (int)bad_clocks[i]);
        report(function, kind, state, pthread_rwlock_clockwrlock(lock, bad_clocks[i], &late));
    }
}

// Without a time the call waits for ever.
static void no_time(pthread_rwlock_t *lock, const char *kind) {
    const struct timespec *volatile none = NULL;
    report("pthread_rwlock_timedrdlock(NULL)", kind, "free", pthread_rwlock_timedrdlock(lock, none));
    report("pthread_rwlock_clockrdlock(NULL)", kind, "read-held by self",
           pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, none));
    for (int held = 2; held > 0; held--) MUST(unlock(lock));
    report("pthread_rwlock_timedwrlock(NULL)", kind, "free", pthread_rwlock_timedwrlock(lock, none));
    MUST(unlock(lock));
    report("pthread_rwlock_clockwrlock(NULL)", kind, "free", pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, none));
    MUST(unlock(lock));
}

static void readers_count(pthread_rwlock_t *lock, const char *kind) {
    for (int i = 0; i < 3; i++) report("pthread_rwlock_rdlock", kind, "read-held by self", rdlock(lock));
    report("pthread_rwlock_rdlock, by another", kind, "read-held", ask(&other, rdlock, lock));
    for (int i = 0; i < 3; i++) {
        report("pthread_rwlock_trywrlock, by a third", kind, "readers left", ask(&third, trywrlock, lock));
        report("pthread_rwlock_unlock", kind, "read-held", unlock(lock));
    }
    report("pthread_rwlock_trywrlock", kind, "read-held by other", trywrlock(lock));
    report("pthread_rwlock_unlock, by another", kind, "read-held", ask(&other, unlock, lock));
    report("pthread_rwlock_trywrlock", kind, "no reader left", trywrlock(lock));
    report("pthread_rwlock_tryrdlock, by another", kind, "write-held", ask(&other, tryrdlock, lock));
    report("pthread_rwlock_unlock", kind, "write-held", unlock(lock));
}

// A waiter of each mode and flavour, behind a holder of each mode, gets the lock on release.
static void waiters(pthread_rwlock_t *lock, const char *kind) {
    for (enum mode held = READ; held <= WRITE; held++)
        for (enum mode mode = held == READ ? WRITE : READ; mode <= WRITE; mode++)
            for (enum flavour flavour = PLAIN; flavour <= CLOCK_MONO; flavour++) {
                if (flavour == TRY) continue;
                const char *state = held == READ ? "read-held by other" : "write-held by other";
                MUST(held == READ ? rdlock(lock) : wrlock(lock));
                struct request request = within(lock, mode, flavour, 20000 * MS);
                bool waits = start(&other, acquire, &request);
                printf("%s | %s | %s -> %s\n", names[mode][flavour], kind, state, waits ? "blocks" : "returns");
                report("pthread_rwlock_unlock", kind, "with a waiter", unlock(lock));
                report(names[mode][flavour], kind, "after waiting", collect(&other));
                report("pthread_rwlock_trywrlock", kind, "held by the former waiter", trywrlock(lock));
                MUST(ask(&other, unlock, lock));
            }
}

// Two readers wait behind a writer, and enter together.
static void two_readers(pthread_rwlock_t *lock, const char *kind) {
    MUST(wrlock(lock));
    start(&other, rdlock, lock);
    start(&third, rdlock, lock);
    MUST(unlock(lock));
    report("pthread_rwlock_rdlock", kind, "first of two readers", collect(&other));
    report("pthread_rwlock_rdlock", kind, "second of two readers", collect(&third));
    report("pthread_rwlock_trywrlock", kind, "both read", trywrlock(lock));
    MUST(ask(&other, unlock, lock));
    report("pthread_rwlock_trywrlock", kind, "one reads", trywrlock(lock));
    MUST(ask(&third, unlock, lock));
    report("pthread_rwlock_trywrlock", kind, "none reads", trywrlock(lock));
    MUST(unlock(lock));
}

// A thread that reads may read again, in any way, while a writer waits.
static void read_again(pthread_rwlock_t *lock, const char *kind) {
    for (enum flavour flavour = PLAIN; flavour <= CLOCK_MONO; flavour++) {
        MUST(rdlock(lock));
        bool waits = start(&other, wrlock, lock);
        printf("pthread_rwlock_wrlock | %s | read-held by other -> %s\n", kind, waits ? "blocks" : "returns");
        struct request again = within(lock, READ, flavour, 20000 * MS);
        report(names[READ][flavour], kind, "read-held by self, writer waiting", acquire(&again));
        report(names[READ][flavour], kind, "read-held twice by self, writer waiting", acquire(&again));
        for (int i = 0; i < 3; i++) {
            report("pthread_rwlock_trywrlock", kind, "read-held by self, writer waiting", trywrlock(lock));
            report("pthread_rwlock_unlock", kind, "read-held by self, writer waiting", unlock(lock));
        }
        report("pthread_rwlock_wrlock", kind, "after the readers", collect(&other));
        MUST(ask(&other, unlock, lock));
    }
}

// A writer that gives up lets the readers behind it go on.
static void writer_gives_up(pthread_rwlock_t *lock, const char *kind) {
    for (enum flavour flavour = TIMED; flavour <= CLOCK_MONO; flavour++) {
        MUST(rdlock(lock));
        struct request soon = within(lock, WRITE, flavour, 10 * MS);
        start(&other, acquire, &soon);
        report(names[WRITE][flavour], kind, "read-held by other", collect(&other));
        report("pthread_rwlock_rdlock", kind, "the writer gave up", ask(&other, rdlock, lock));
        MUST(ask(&other, unlock, lock));
        MUST(unlock(lock));
        report("pthread_rwlock_trywrlock", kind, "after all", trywrlock(lock));
        MUST(unlock(lock));

        MUST(wrlock(lock));
        struct request read = within(lock, READ, flavour, 10 * MS);
        start(&other, acquire, &read);
        report(names[READ][flavour], kind, "write-held by other", collect(&other));
        MUST(unlock(lock));
        report("pthread_rwlock_trywrlock", kind, "the reader gave up", trywrlock(lock));
        MUST(unlock(lock));
    }
}

static void between_processes(const struct kind *kind) {
    struct {
        pthread_rwlock_t lock;
        int cell;
    } *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    MUST(make(&page->lock, kind));
    MUST(rdlock(&page->lock));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int error = trywrlock(&page->lock);
        if (error == EBUSY) error = rdlock(&page->lock);
        if (error == 0) error = unlock(&page->lock);
        if (error == 0) error = wrlock(&page->lock); // until the parent lets go
        page->cell = 1;
        _exit(error != 0 ? error : unlock(&page->lock));
    }
    sleep_ns(20 * MS);
    CHECK(page->cell == 0);
    MUST(unlock(&page->lock));
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    report("write lock in another process", kind->name, "read-held by the parent", WEXITSTATUS(status));
    report("pthread_rwlock_wrlock", kind->name, "after the child", wrlock(&page->lock));
    CHECK(page->cell == 1);
    MUST(unlock(&page->lock));
    MUST(pthread_rwlock_destroy(&page->lock));
    munmap(page, 4096);
}

int main(void) {
    watch();
    hire(&other);
    hire(&third);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        const struct kind *kind = &kinds[i];
        pthread_rwlock_t lock;
        report("pthread_rwlock_init", kind->name, "new", make(&lock, kind));
        report("pthread_rwlock_destroy", kind->name, "never used", pthread_rwlock_destroy(&lock));
        MUST(make(&lock, kind));
        all_calls(&lock, kind->name, "free", true, true);
        deadlines(&lock, kind->name, "free");

        MUST(rdlock(&lock));
        all_calls(&lock, kind->name, "read-held by self", true, false);
        MUST(unlock(&lock));
        MUST(wrlock(&lock));
        all_calls(&lock, kind->name, "write-held by self", true, true);
        deadlines(&lock, kind->name, "write-held by self");
        MUST(unlock(&lock));
        MUST(ask(&other, rdlock, &lock));
        all_calls(&lock, kind->name, "read-held by other", true, false);
        deadlines(&lock, kind->name, "read-held by other");
        MUST(ask(&other, unlock, &lock));
        MUST(ask(&other, wrlock, &lock));
        all_calls(&lock, kind->name, "write-held by other", false, false);
        deadlines(&lock, kind->name, "write-held by other");
        MUST(ask(&other, unlock, &lock));

        no_time(&lock, kind->name);
        readers_count(&lock, kind->name);
        waiters(&lock, kind->name);
        two_readers(&lock, kind->name);
        if (strstr(kind->name, "nonrecursive") == NULL) read_again(&lock, kind->name);
        writer_gives_up(&lock, kind->name);
        all_calls(&lock, kind->name, "free in the end", true, true);
        report("pthread_rwlock_destroy", kind->name, "free", pthread_rwlock_destroy(&lock));
        report("pthread_rwlock_init", kind->name, "destroyed", make(&lock, kind));
        all_calls(&lock, kind->name, "made again", true, true);
        MUST(pthread_rwlock_destroy(&lock));
        if (kind->shared) between_processes(kind);
    }
    dismiss(&other);
    dismiss(&third);
    puts("end");
    return 0;
}
