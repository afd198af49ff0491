// fork with waiters queued. The lock is held across the fork by the forking thread, other threads wait for it, and
// both sides release it: by atfork handlers, or plainly after fork. The waiters do not exist in the child, so a
// hand-over to one of them leaves the child stuck. Argument: children per case (20).
//
// Also: threads that hold and wait for locks the forking thread has nothing to do with, whose own locks must go on
// working in the child, with new threads; waiters in condition waits; and read locks that another thread has given up.

#include "stress.h"
#include <sys/mman.h>
#include <sys/wait.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spin;

struct lock {
    const char *name;
    int (*acquire)(void), (*release)(void), (*try)(void);
};

static int mutex_lock(void) { return pthread_mutex_lock(&mutex); }
static int mutex_unlock(void) { return pthread_mutex_unlock(&mutex); }
static int mutex_try(void) { return pthread_mutex_trylock(&mutex); }
static int spin_lock(void) { return pthread_spin_lock(&spin); }
static int spin_unlock(void) { return pthread_spin_unlock(&spin); }
static int spin_try(void) { return pthread_spin_trylock(&spin); }

static const struct lock locks[] = {
    {"mutex", mutex_lock, mutex_unlock, mutex_try},
    {"spin", spin_lock, spin_unlock, spin_try},
};

static const struct lock *across; // what the atfork handlers take; NULL: nothing
#define WAITERS 3
static struct waiter {
    _Atomic int calling;
    _Atomic pid_t tid;
} waiters[WAITERS];
static const struct lock *waited_for;
static bool idly; // waiters are of the idle class

static void *wait_for_lock(void *number) {
    struct waiter *self = &waiters[(long)number];
    if (idly) MUST(pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0}));
    self->tid = gettid();
    self->calling = 1;
    MUST(waited_for->acquire());
    MUST(waited_for->release());
    self->calling = 0;
    return NULL;
}

static struct team *queue_up(const struct lock *lock) {
    waited_for = lock;
    for (int i = 0; i < WAITERS; i++) waiters[i].calling = 0;
    struct team *team = assemble(WAITERS, wait_for_lock);
    for (int i = 0; i < WAITERS; i++) {
        while (waiters[i].calling == 0) sched_yield();
        if (lock != &locks[1]) blocked(&waiters[i].calling, waiters[i].tid);
    }
    if (lock == &locks[1]) sleep_ns(2 * MS); // a spinning waiter may never sleep
    return team;
}

static struct team *queued;

static void prepare(void) {
    if (across == NULL) return;
    MUST(across->acquire());
    queued = queue_up(across);
}

static void parent(void) {
    if (across != NULL) MUST(across->release());
}

static void child(void) {
    if (across != NULL) MUST(across->release());
}

static void *use(void *argument) {
    for (int i = 0; i < 200; i++) {
        MUST(waited_for->acquire());
        MUST(waited_for->release());
    }
    return argument;
}

// In the child: the lock is free, works, and works between new threads.
static void live_on(const struct lock *lock) {
    alarm(100);
    MUST(lock->try());
    if (lock->try() != EBUSY) fail("%s: taken twice in the child", lock->name);
    MUST(lock->release());
    MUST(lock->acquire());
    MUST(lock->release());
    waited_for = lock;
    struct team *team = assemble(3, use);
    disperse(team);
}

static void reap(pid_t child, const char *what, long number) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status)) fail("%s: child %ld ended by signal %d", what, number, WTERMSIG(status));
    if (WEXITSTATUS(status) != 0) fail("%s: child %ld ended with %d", what, number, WEXITSTATUS(status));
}

static void by_atfork(const struct lock *lock, long children) {
    for (long i = 0; i < children; i++) {
        across = lock;
        pid_t pid = fork();
        if (pid == 0) {
            across = NULL;
            live_on(lock);
            _exit(0);
        }
        across = NULL;
        reap(pid, "atfork handlers", i);
        disperse(queued);
    }
}

static void plainly(const struct lock *lock, long children) {
    for (long i = 0; i < children; i++) {
        MUST(lock->acquire());
        struct team *team = queue_up(lock);
        pid_t pid = fork();
        MUST(lock->release());
        if (pid == 0) {
            live_on(lock);
            _exit(0);
        }
        reap(pid, "held across fork", i);
        disperse(team);
    }
}

// Free at the fork, with threads asleep that were woken and have not run: on one core, where they are of the idle class, they do
// not run before this thread sleeps. A lock that was handed to one of them stays held in the child.
static pthread_rwlock_t written = PTHREAD_RWLOCK_INITIALIZER;
static int write_lock(void) { return pthread_rwlock_wrlock(&written); }
static int write_unlock(void) { return pthread_rwlock_unlock(&written); }
static int write_try(void) { return pthread_rwlock_trywrlock(&written); }
static const struct lock write_side = {"rwlock", write_lock, write_unlock, write_try};

// The same where the first waiter has been in and out, and has woken this thread: the next one may be at the head of a queue.
static sem_t has_been_in;
static int write_unlock_and_tell(void) {
    int error = write_unlock();
    sem_post(&has_been_in);
    return error;
}
static const struct lock told_side = {"rwlock", write_lock, write_unlock_and_tell, write_try};

static void free_with_waiters(const struct lock *lock, const struct lock *waited, long children) {
    cpu_set_t all, one;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    for (int core = 0; CPU_COUNT(&one) == 0; core++)
        if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    idly = true;
    for (long i = 0; i < children; i++) {
        CHECK(sem_init(&has_been_in, 0, 0) == 0);
        MUST(lock->acquire());
        struct team *team = queue_up(waited);
        MUST(lock->release());
        if (waited == &told_side) sem_take(&has_been_in);
        pid_t pid = fork();
        if (pid == 0) {
            idly = false;
            if (lock->try() == EBUSY) _exit(0);
            MUST(lock->release());
            live_on(lock);
            _exit(0);
        }
        reap(pid, "free with waiters", i);
        disperse(team);
    }
    idly = false;
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
}

// Released in the child by a thread that was itself handed the lock out of the queue before it forked.
static pthread_mutex_t handed = PTHREAD_MUTEX_INITIALIZER;

static void *fork_when_handed(void *number) {
    MUST(pthread_mutex_lock(&handed));
    pid_t pid = fork();
    MUST(pthread_mutex_unlock(&handed));
    if (pid == 0) {
        alarm(100);
        MUST(pthread_mutex_lock(&handed));
        MUST(pthread_mutex_unlock(&handed));
        _exit(0);
    }
    reap(pid, "forked by a former waiter", (long)number);
    return NULL;
}

static void from_the_queue(long children) {
    for (long i = 0; i < (children + 3) / 4; i++) {
        MUST(pthread_mutex_lock(&handed));
        struct team *team = assemble(4, fork_when_handed);
        sleep_ns(MS);
        MUST(pthread_mutex_unlock(&handed));
        disperse(team);
    }
}

// Others are busy with their locks and waits while this thread forks: its own locks are not touched by that.
static pthread_mutex_t theirs = PTHREAD_MUTEX_INITIALIZER, signalled = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t their_rwlock = PTHREAD_RWLOCK_INITIALIZER, own_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t their_cond = PTHREAD_COND_INITIALIZER;
static _Atomic bool over;

static void *be_busy(void *number) {
    for (long i = (long)number; !over; i++) {
        MUST(pthread_mutex_lock(&theirs));
        MUST(i % 2 == 0 ? pthread_rwlock_wrlock(&their_rwlock) : pthread_rwlock_rdlock(&their_rwlock));
        if (i % 16 == 0) sleep_ns(10000);
        MUST(pthread_rwlock_unlock(&their_rwlock));
        MUST(pthread_mutex_unlock(&theirs));
        MUST(pthread_mutex_lock(&signalled));
        MUST(pthread_cond_broadcast(&their_cond));
        struct timespec soon = from_now(CLOCK_REALTIME, MS / 10);
        pthread_cond_timedwait(&their_cond, &signalled, &soon);
        MUST(pthread_mutex_unlock(&signalled));
    }
    return NULL;
}

static void among_busy_threads(long children) {
    over = false;
    struct team *team = assemble(4, be_busy);
    for (long i = 0; i < children; i++) {
        MUST(pthread_rwlock_rdlock(&own_rwlock)); // held across the fork, no thread waits
        pid_t pid = fork();
        MUST(pthread_rwlock_unlock(&own_rwlock));
        if (pid == 0) {
            live_on(&locks[0]);
            live_on(&locks[1]);
            alarm(100);
            MUST(pthread_rwlock_wrlock(&own_rwlock));
            MUST(pthread_rwlock_unlock(&own_rwlock));
            // Theirs is in an unknown state, and only good for being made anew.
            memset(&theirs, 0, sizeof theirs);
            MUST(pthread_mutex_init(&theirs, NULL));
            memset(&their_cond, 0, sizeof their_cond);
            MUST(pthread_cond_init(&their_cond, NULL));
            MUST(pthread_mutex_lock(&theirs));
            struct timespec soon = from_now(CLOCK_REALTIME, MS);
            int error = pthread_cond_timedwait(&their_cond, &theirs, &soon);
            if (error != ETIMEDOUT) MUST(error);
            MUST(pthread_mutex_unlock(&theirs));
            pid_t grandchild = fork();
            if (grandchild == 0) {
                live_on(&locks[0]);
                _exit(0);
            }
            reap(grandchild, "grandchild", i);
            _exit(0);
        }
        reap(pid, "among busy threads", i);
    }
    over = true;
    disperse(team);
}

// Read locks that the thread which forks does not hold any more, or is not known to hold: a thread keeps count of some only, and
// cannot know what others give up for it.
static void *give_up(void *lock) {
    MUST(pthread_rwlock_unlock(lock));
    return NULL;
}

static void in_a_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, body, argument));
    MUST(pthread_join(thread, NULL));
}

static void give_up_elsewhere(pthread_rwlock_t *lock) { in_a_thread(give_up, lock); }

static void read_across_a_fork(pthread_rwlock_t *lock, const char *what) {
    MUST(pthread_rwlock_rdlock(lock));
    pid_t pid = fork();
    MUST(pthread_rwlock_unlock(lock));
    if (pid == 0) {
        alarm(100);
        MUST(pthread_rwlock_wrlock(lock));
        MUST(pthread_rwlock_unlock(lock));
        _exit(0);
    }
    reap(pid, what, 0);
}

static void reads_of_no_one_known(void) {
    enum { MANY = 40 };
    pthread_rwlock_t many[MANY];
    for (int i = 0; i < MANY; i++) {
        MUST(pthread_rwlock_init(&many[i], NULL));
        MUST(pthread_rwlock_rdlock(&many[i]));
    }
    for (int i = MANY - 1; i >= 0; i--) MUST(pthread_rwlock_unlock(&many[i]));
    read_across_a_fork(&many[MANY - 1], "after many read locks at a time");

    MUST(pthread_rwlock_rdlock(&many[0]));
    give_up_elsewhere(&many[0]);
    read_across_a_fork(&many[0], "after another thread's unlock");

    pthread_rwlock_t *gone = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(gone != MAP_FAILED);
    MUST(pthread_rwlock_init(gone, NULL));
    MUST(pthread_rwlock_rdlock(gone));
    give_up_elsewhere(gone);
    MUST(pthread_rwlock_destroy(gone));
    CHECK(munmap(gone, 1 << 16) == 0);
    read_across_a_fork(&many[1], "after a lock's memory is gone");
}

// A child makes the lock under which it read anew, as libraries do; its own child has it free.
static void read_lock_made_anew(bool by_call) {
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    MUST(pthread_rwlock_rdlock(&lock));
    pid_t pid = fork();
    if (pid == 0) {
        alarm(100);
        if (by_call)
            MUST(pthread_rwlock_init(&lock, NULL));
        else
            lock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
        MUST(pthread_rwlock_wrlock(&lock));
        MUST(pthread_rwlock_unlock(&lock));
        pid_t grandchild = fork();
        if (grandchild == 0) {
            MUST(pthread_rwlock_trywrlock(&lock));
            MUST(pthread_rwlock_unlock(&lock));
            _exit(0);
        }
        reap(grandchild, "read lock made anew", by_call);
        _exit(0);
    }
    MUST(pthread_rwlock_unlock(&lock));
    reap(pid, "read lock made anew", by_call);
}

// A condition that processes share, made in a child: each signal wakes a waiter.
static struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int turn;
} *shared;

static void *take_turns(void *argument) {
    MUST(pthread_mutex_lock(&shared->mutex));
    for (int i = 0; i < 4; i++) {
        while (shared->turn % 2 == 0) MUST(pthread_cond_wait(&shared->cond, &shared->mutex));
        shared->turn++;
        MUST(pthread_cond_signal(&shared->cond));
    }
    MUST(pthread_mutex_unlock(&shared->mutex));
    return argument;
}

static void shared_condition_of_a_child(void) {
    pid_t pid = fork();
    if (pid == 0) {
        alarm(100);
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(shared != MAP_FAILED);
        pthread_mutexattr_t of_mutex;
        pthread_condattr_t of_cond;
        MUST(pthread_mutexattr_init(&of_mutex));
        MUST(pthread_condattr_init(&of_cond));
        MUST(pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED));
        MUST(pthread_condattr_setpshared(&of_cond, PTHREAD_PROCESS_SHARED));
        MUST(pthread_mutex_init(&shared->mutex, &of_mutex));
        MUST(pthread_cond_init(&shared->cond, &of_cond));
        pthread_t thread;
        MUST(pthread_create(&thread, NULL, take_turns, NULL));
        MUST(pthread_mutex_lock(&shared->mutex));
        for (int i = 0; i < 4; i++) {
            shared->turn++;
            MUST(pthread_cond_signal(&shared->cond));
            while (shared->turn % 2 == 1) MUST(pthread_cond_wait(&shared->cond, &shared->mutex));
        }
        MUST(pthread_mutex_unlock(&shared->mutex));
        MUST(pthread_join(thread, NULL));
        _exit(0);
    }
    reap(pid, "shared condition of a child", 0);
}

int main(int argc, char **argv) {
    watch();
    long children = number(argc, argv, 1, 20);
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    MUST(pthread_atfork(prepare, parent, child));
    for (size_t i = 0; i < COUNT(locks); i++) {
        by_atfork(&locks[i], children);
        plainly(&locks[i], children);
    }
    free_with_waiters(&locks[0], &locks[0], children);
    free_with_waiters(&write_side, &write_side, children);
    free_with_waiters(&write_side, &told_side, children);
    from_the_queue(children);
    read_lock_made_anew(true);
    read_lock_made_anew(false);
    shared_condition_of_a_child();
    among_busy_threads(children);
    reads_of_no_one_known();
    printf("ok %ld children of each case\n", children);
    return 0;
}
