// Whom a reader-writer lock lets in while others wait, for each kind, as glibc does; and read locks that one thread takes and
// another gives up. Arguments: threads (4), rounds of each mix of calls (200); `writers` if they go first whatever the kind is.

#include "stress.h"

static pthread_rwlock_t lock;
static const long SOON = 20, LATE = 20000; // ms

static int read_lock(void *object) { return pthread_rwlock_rdlock(object); }
static int write_lock(void *object) { return pthread_rwlock_wrlock(object); }
static int unlock(void *object) { return pthread_rwlock_unlock(object); }
static int destroy(void *object) { return pthread_rwlock_destroy(object); }

static int write_lock_soon(void *object) {
    struct timespec soon = from_now(CLOCK_MONOTONIC, SOON * 10 * MS);
    return pthread_rwlock_clockwrlock(object, CLOCK_MONOTONIC, &soon);
}

static int write_lock_late(void *object) {
    struct timespec late = from_now(CLOCK_MONOTONIC, LATE * MS);
    return pthread_rwlock_clockwrlock(object, CLOCK_MONOTONIC, &late);
}

static int read_lock_soon(void *object) {
    struct timespec soon = from_now(CLOCK_MONOTONIC, SOON * MS);
    return pthread_rwlock_clockrdlock(object, CLOCK_MONOTONIC, &soon);
}

static int write_shortly(void *object) { return write_lock(object) ?: unlock(object); }

static int write_shortly_late(void *object) { return write_lock_late(object) ?: unlock(object); }

static _Atomic int met;

static int read_and_meet(void *object) {
    // By trying first: who gets in that way has to let the others know, too.
    if (pthread_rwlock_tryrdlock(object) != 0) MUST(pthread_rwlock_rdlock(object));
    for (met++; met < 3;) sleep_ns(MS);
    return unlock(object);
}

static void make(int kind) {
    pthread_rwlockattr_t attribute;
    MUST(pthread_rwlockattr_init(&attribute));
    MUST(pthread_rwlockattr_setkind_np(&attribute, kind));
    MUST(pthread_rwlock_init(&lock, &attribute));
}

static void begin(struct actor *actor, deed call) {
    CHECK(start(actor, call, &lock));
}

static int now(struct actor *actor, deed call) {
    send_to(actor, call, &lock);
    return collect(actor);
}

// A reader that waits for another reader would wait for ever if that one waited for a writer.
static void readers_go_first(struct actor actors[5]) {
    deed writes[] = {write_lock, write_lock_late};
    for (size_t w = 0; w < COUNT(writes); w++) {
        // A reads, W waits, B reads.
        MUST(now(&actors[0], read_lock));
        begin(&actors[1], writes[w]);
        MUST(now(&actors[2], read_lock));
        MUST(pthread_rwlock_tryrdlock(&lock));
        MUST(pthread_rwlock_unlock(&lock));
        MUST(now(&actors[2], unlock));
        MUST(now(&actors[0], unlock));
        MUST(collect(&actors[1]));
        MUST(now(&actors[1], unlock));

        // V writes; W, B and C wait; A comes as V leaves. A, B and C wait for each other inside, so that B and C must not be
        // left behind W.
        met = 0;
        MUST(now(&actors[3], write_lock));
        begin(&actors[1], w == 0 ? write_shortly : write_shortly_late);
        begin(&actors[2], read_and_meet);
        begin(&actors[4], read_and_meet);
        send_to(&actors[3], unlock, &lock);
        send_to(&actors[0], read_and_meet, &lock);
        for (int i = 0; i < 5; i++) MUST(collect(&actors[i]));
    }
}

// Where the kind asks for it, no reader passes a writer that waits, however that one waits, and every reader gets in once
// the writer has given up.
static void writers_go_first(struct actor actors[5]) {
    deed writes[] = {write_lock, write_lock_late};
    for (size_t w = 0; w < COUNT(writes); w++) {
        MUST(now(&actors[0], read_lock));
        begin(&actors[1], writes[w]);
        CHECK(pthread_rwlock_tryrdlock(&lock) == EBUSY);
        CHECK(now(&actors[2], read_lock_soon) == ETIMEDOUT);
        begin(&actors[2], read_lock);
        MUST(now(&actors[0], unlock));
        MUST(collect(&actors[1]));
        CHECK(pthread_rwlock_tryrdlock(&lock) == EBUSY);
        MUST(now(&actors[1], unlock));
        MUST(collect(&actors[2]));
        MUST(now(&actors[2], unlock));
    }
    MUST(now(&actors[0], read_lock));
    begin(&actors[1], write_lock_soon);
    begin(&actors[2], read_lock);
    CHECK(collect(&actors[1]) == ETIMEDOUT);
    MUST(collect(&actors[2]));
    MUST(pthread_rwlock_tryrdlock(&lock));
    MUST(pthread_rwlock_unlock(&lock));
    MUST(now(&actors[2], unlock));
    MUST(now(&actors[0], unlock));
}

// Where that is not the kind's doing but the choice's, a reader may read again past the writer.
static void readers_read_again(struct actor actors[5]) {
    MUST(now(&actors[0], read_lock));
    begin(&actors[1], write_lock);
    CHECK(pthread_rwlock_tryrdlock(&lock) == EBUSY);
    MUST(now(&actors[0], read_lock));
    MUST(now(&actors[0], unlock));
    MUST(now(&actors[0], unlock));
    MUST(collect(&actors[1]));
    MUST(now(&actors[1], unlock));
}

// A read lock that A took and B gave up is no thread's: A may write, wait for a reader to do so, and read and write again. So
// with another lock at the same address.
static void handed_over(struct actor actors[5], int kind) {
    for (int times = 0; times < 3; times++) {
        MUST(now(&actors[0], read_lock));
        MUST(now(&actors[1], unlock));
        if (times == 2) {
            MUST(now(&actors[1], destroy));
            make(kind);
        }
        MUST(now(&actors[2], read_lock));
        begin(&actors[0], write_lock);
        MUST(now(&actors[2], unlock));
        MUST(collect(&actors[0]));
        CHECK(pthread_rwlock_tryrdlock(&lock) == EBUSY);
        MUST(now(&actors[0], unlock));
    }
}

// Every mix of waiting, trying and timed calls: no thread is left behind.
static long rounds;
static int mix;
static _Atomic long inside_reading, inside_writing;

static bool enter(bool write, int way) {
    int error;
    struct timespec time = from_now(CLOCK_REALTIME, way == 3 ? 200000 : LATE * MS);
    switch (way) {
    case 0: error = write ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock); break;
    case 1: error = write ? pthread_rwlock_trywrlock(&lock) : pthread_rwlock_tryrdlock(&lock); break;
    default: error = write ? pthread_rwlock_timedwrlock(&lock, &time) : pthread_rwlock_timedrdlock(&lock, &time);
    }
    if (error != 0 && !(way == 1 && error == EBUSY) && !(way == 3 && error == ETIMEDOUT))
        fail("%s, way %d: %s", write ? "write" : "read", way, error_name(error));
    return error == 0;
}

static void *mixed(void *number) {
    uint32_t random = 7 + 31 * (uint32_t)(long)number;
    for (long i = 0; i < rounds; i++) {
        uint32_t drawn = next_random(&random);
        bool write = drawn % 4 == 0;
        // Which of the two sides uses tries and short times is the mix; the other one waits.
        bool plain = write ? (mix & 1) == 0 : (mix & 2) == 0;
        if (!enter(write, plain ? (int)(drawn >> 8) % 2 * 2 : 1 + (int)(drawn >> 8) % 3)) continue;
        if (write) {
            CHECK(inside_writing++ == 0 && inside_reading == 0);
            if (drawn % 16 == 0) sched_yield();
            inside_writing--;
        } else {
            inside_reading++;
            CHECK(inside_writing == 0);
            if (drawn % 16 == 1) sched_yield();
            inside_reading--;
        }
        MUST(pthread_rwlock_unlock(&lock));
    }
    return NULL;
}

int main(int argc, char **argv) {
    watch();
    long threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 200);
    bool writers = argc > 3 && strcmp(argv[3], "writers") == 0;
    static const int kinds[] = {PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_RWLOCK_PREFER_WRITER_NP,
                                PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP};
    struct actor actors[5];
    for (int i = 0; i < 5; i++) hire(&actors[i]);
    for (size_t k = 0; k < COUNT(kinds); k++) {
        make(kinds[k]);
        bool recursive = kinds[k] != PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
        if (writers || !recursive) {
            writers_go_first(actors);
            if (recursive) readers_read_again(actors);
        } else {
            readers_go_first(actors);
        }
        handed_over(actors, kinds[k]);
        for (mix = 0; mix < 4; mix++) disperse(assemble(threads, mixed));
        MUST(pthread_rwlock_destroy(&lock));
    }
    for (int i = 0; i < 5; i++) dismiss(&actors[i]);
    printf("ok %ld threads\n", threads);
    return 0;
}
