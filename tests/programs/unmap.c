// Destroyed and unmapped right after the unlock: objects with a reference count under their own lock, each in a
// page of its own. The thread that drops the last reference destroys the lock and unmaps the page, while another may
// still be leaving its unlock. A lock that touches the object after the next owner can see it free ends in SIGSEGV.
//
// Arguments: lock (mutex, errorcheck, rwlock, spin, cond or all), threads (2), objects (50000).

#include "stress.h"
#include <sys/mman.h>

#define BATCH 128
#define PAGE 4096

enum lock_kind { MUTEX, ERRORCHECK, RWLOCK, SPIN, COND, KINDS };
static const char *const names[] = {"mutex", "errorcheck", "rwlock", "spin", "cond"};

struct object {
    union {
        pthread_mutex_t mutex;
        pthread_rwlock_t rwlock;
        pthread_spinlock_t spin;
        struct {
            pthread_mutex_t mutex;
            pthread_cond_t cond;
        } all_here;
    };
    long references;
};

static enum lock_kind kind;
static long threads, rounds;
static struct object *batch[BATCH];
static _Atomic long arrived[BATCH];
static pthread_barrier_t ready, over;
static _Atomic long unmapped;

static void make(struct object *object) {
    pthread_mutexattr_t attribute;
    switch (kind) {
    case MUTEX: MUST(pthread_mutex_init(&object->mutex, NULL)); break;
    case ERRORCHECK:
        MUST(pthread_mutexattr_init(&attribute));
        MUST(pthread_mutexattr_settype(&attribute, PTHREAD_MUTEX_ERRORCHECK));
        MUST(pthread_mutex_init(&object->mutex, &attribute));
        break;
    case RWLOCK: MUST(pthread_rwlock_init(&object->rwlock, NULL)); break;
    case SPIN: MUST(pthread_spin_init(&object->spin, PTHREAD_PROCESS_PRIVATE)); break;
    default:
        MUST(pthread_mutex_init(&object->all_here.mutex, NULL));
        MUST(pthread_cond_init(&object->all_here.cond, NULL));
    }
    object->references = threads;
}

// Holds an object until all others are on their way to it, so that its unlock has waiters; not for ever, as one on
// its way may not have got far.
static void gather(int index) {
    for (int i = 0; i < 50 && arrived[index] < threads; i++) sched_yield();
}

// Drops one reference; the last one out takes the object with it.
static void drop(int index) {
    struct object *object = batch[index];
    bool last, first = ++arrived[index] == 1 && index % 4 == 0;
    if (kind == SPIN && threads > 2) first = false; // glibc's spinners would burn a time slice each
    switch (kind) {
    case MUTEX:
    case ERRORCHECK:
        MUST(pthread_mutex_lock(&object->mutex));
        if (first) gather(index);
        last = --object->references == 0;
        MUST(pthread_mutex_unlock(&object->mutex));
        if (last) MUST(pthread_mutex_destroy(&object->mutex));
        break;
    case RWLOCK:
        MUST(pthread_rwlock_rdlock(&object->rwlock));
        CHECK(object->references > 0);
        MUST(pthread_rwlock_unlock(&object->rwlock));
        MUST(pthread_rwlock_wrlock(&object->rwlock));
        if (first) gather(index);
        last = --object->references == 0;
        MUST(pthread_rwlock_unlock(&object->rwlock));
        if (last) MUST(pthread_rwlock_destroy(&object->rwlock));
        break;
    case SPIN:
        MUST(pthread_spin_lock(&object->spin));
        if (first) gather(index);
        last = --object->references == 0;
        MUST(pthread_spin_unlock(&object->spin));
        if (last) MUST(pthread_spin_destroy(&object->spin));
        break;
    default:
        // The last to arrive wakes the others. One of them, woken, destroys both: the rest have left by then
        // but for the tail of their waits, which pthread_cond_destroy sits out.
        MUST(pthread_mutex_lock(&object->all_here.mutex));
        if (first) gather(index);
        if (--object->references == 0) MUST(pthread_cond_broadcast(&object->all_here.cond));
        while (object->references > 0) MUST(pthread_cond_wait(&object->all_here.cond, &object->all_here.mutex));
        last = --object->references == -threads;
        MUST(pthread_mutex_unlock(&object->all_here.mutex));
        if (last) {
            MUST(pthread_cond_destroy(&object->all_here.cond));
            MUST(pthread_mutex_destroy(&object->all_here.mutex));
        }
    }
    if (last) {
        if (munmap(object, PAGE) != 0) fail("munmap: %s", strerror(errno));
        unmapped++;
    }
}

static void *walk(void *argument) {
    for (long round = 0; round < rounds; round++) {
        pthread_barrier_wait(&ready);
        for (int i = 0; i < BATCH; i++) drop(i);
        pthread_barrier_wait(&over);
    }
    return argument;
}

static void run(void) {
    unmapped = 0;
    struct team *team = assemble(threads, walk);
    for (long round = 0; round < rounds; round++) {
        char *pages = mmap(NULL, BATCH * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(pages != MAP_FAILED);
        for (int i = 0; i < BATCH; i++) {
            batch[i] = (struct object *)(pages + i * PAGE);
            make(batch[i]);
            arrived[i] = 0;
        }
        pthread_barrier_wait(&ready);
        pthread_barrier_wait(&over);
    }
    disperse(team);
    if (unmapped != rounds * BATCH) fail("%s: %ld of %ld unmapped", names[kind], unmapped, rounds * BATCH);
}

int main(int argc, char **argv) {
    watch();
    const char *wanted = argc > 1 ? argv[1] : "all";
    threads = number(argc, argv, 2, 2);
    rounds = (number(argc, argv, 3, 50000) + BATCH - 1) / BATCH;
    MUST(pthread_barrier_init(&ready, NULL, (unsigned)threads + 1));
    MUST(pthread_barrier_init(&over, NULL, (unsigned)threads + 1));
    bool known = false;
    for (kind = MUTEX; kind < KINDS; kind++)
        if (strcmp(wanted, "all") == 0 || strcmp(wanted, names[kind]) == 0) {
            known = true;
            run();
        }
    if (!known) fail("no lock is called '%s'", wanted);
    printf("ok %s, %ld threads, %ld objects each\n", wanted, threads, rounds * BATCH);
    return 0;
}
