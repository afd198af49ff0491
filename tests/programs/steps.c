// A signal handler at every instruction of lock calls. The processor's single-step flag makes each instruction raise
// SIGTRAP, whose handler tries locks: that of the call which it interrupts, one that another thread fights for, and ones
// that no thread has used. No try may wait for the interrupted call, nothing may be lost or counted twice, and every lock
// has to be free in the end. Arguments: rounds (5), instructions from one handler to the next, on average (16): a
// lock whose try is a load and an exchange never comes by one where another takes it at every instruction.
//
// Recursive mutexes are stepped through and not tried: glibc's counts below zero where a handler takes it again between
// its last count and its release. Where the interrupted thread holds other signals back, the handler does nothing: theirs would not run either.
//
// Before `ok` it prints how often each lock was taken, to hold a profile against. x86-64 only; elsewhere it does nothing.

#include "stress.h"

#ifdef __x86_64__

#include <ucontext.h>

pthread_mutex_t stepped_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t stepped_recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_mutex_t stepped_checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
pthread_mutex_t fought_for = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t stepped_rwlock = PTHREAD_RWLOCK_INITIALIZER;
pthread_rwlock_t other_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_mutex_t fresh[2000];

// How often each lock was taken, by whomever.
static _Atomic long of_mutex, of_recursive, of_checked, of_fought_for, of_rwlock_reads, of_rwlock_writes, of_other_reads,
    of_other_writes;
static long under_mutex, under_fought_for; // counted under the locks
static _Atomic bool over;

static volatile sig_atomic_t stepping;
static long steps, next_handler, handled, while_blocked, distance, next_fresh;
static uint32_t chance = 1;

static void try_mutex(pthread_mutex_t *mutex, _Atomic long *taken, long *under) {
    int error = pthread_mutex_trylock(mutex);
    if (error == EBUSY) return;
    MUST(error);
    ++*taken;
    if (under != NULL) ++*under;
    MUST(pthread_mutex_unlock(mutex));
}

static void try_read(pthread_rwlock_t *lock, _Atomic long *taken) {
    int error = pthread_rwlock_tryrdlock(lock);
    if (error == EBUSY) return;
    MUST(error);
    ++*taken;
    MUST(pthread_rwlock_unlock(lock));
}

static void try_write(pthread_rwlock_t *lock, _Atomic long *taken) {
    int error = pthread_rwlock_trywrlock(lock);
    if (error == EBUSY) return;
    MUST(error);
    ++*taken;
    MUST(pthread_rwlock_unlock(lock));
}

static void try_locks(void) {
    static _Atomic long uncounted;
    try_mutex(&stepped_mutex, &of_mutex, &under_mutex);
    try_mutex(&fought_for, &of_fought_for, &under_fought_for);
    try_mutex(&stepped_checked, &of_checked, NULL);
    try_read(&stepped_rwlock, &of_rwlock_reads);
    try_read(&other_rwlock, &of_other_reads);
    try_write(&other_rwlock, &of_other_writes);
    if (pthread_spin_trylock(&spin) == 0) MUST(pthread_spin_unlock(&spin));
    // One first use in some: a recorder walks the stack there.
    if (handled % 16 == 0 && next_fresh < (long)COUNT(fresh)) try_mutex(&fresh[next_fresh++], &uncounted, NULL);
}

static void trap(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    int before = errno;
    const ucontext_t *interrupted = (const ucontext_t *)context;
    if (stepping && ++steps >= next_handler) {
        next_handler = steps + 1 + next_random(&chance) % (2 * distance - 1);
        if (sigismember(&interrupted->uc_sigmask, SIGUSR1) == 1) {
            while_blocked++;
        } else {
            handled++;
            try_locks();
        }
    }
    errno = before;
}

// The flags lie below the red zone while they are changed.
#define WITH_FLAGS(change) \
    __asm__ volatile("lea -128(%%rsp), %%rsp\n pushfq\n " change "\n popfq\n lea 128(%%rsp), %%rsp" ::: "memory", "cc")

#define STEP(call)                        \
    do {                                  \
        stepping = 1;                     \
        WITH_FLAGS("orq $256, (%%rsp)");  \
        int step_error = (call);          \
        WITH_FLAGS("andq $-257, (%%rsp)"); \
        stepping = 0;                     \
        MUST(step_error);                 \
    } while (0)

static void step_through_mutexes(void) {
    STEP(pthread_mutex_lock(&stepped_mutex));
    of_mutex++;
    under_mutex++;
    STEP(pthread_mutex_unlock(&stepped_mutex));
    struct timespec late = from_now(CLOCK_REALTIME, 20000 * MS);
    STEP(pthread_mutex_timedlock(&stepped_mutex, &late));
    of_mutex++;
    under_mutex++;
    STEP(pthread_mutex_unlock(&stepped_mutex));
    STEP(pthread_mutex_lock(&stepped_recursive));
    STEP(pthread_mutex_lock(&stepped_recursive));
    of_recursive += 2;
    STEP(pthread_mutex_unlock(&stepped_recursive));
    STEP(pthread_mutex_unlock(&stepped_recursive));
    STEP(pthread_mutex_lock(&stepped_checked));
    of_checked++;
    STEP(pthread_mutex_unlock(&stepped_checked));
    STEP(pthread_mutex_lock(&fought_for));
    of_fought_for++;
    under_fought_for++;
    STEP(pthread_mutex_unlock(&fought_for));
    pthread_mutex_t first_used = PTHREAD_MUTEX_INITIALIZER;
    STEP(pthread_mutex_lock(&first_used));
    STEP(pthread_mutex_unlock(&first_used));
    STEP(pthread_mutex_destroy(&first_used));
}

static void step_through_others(void) {
    STEP(pthread_rwlock_rdlock(&stepped_rwlock));
    STEP(pthread_rwlock_rdlock(&stepped_rwlock));
    of_rwlock_reads += 2;
    STEP(pthread_rwlock_unlock(&stepped_rwlock));
    STEP(pthread_rwlock_rdlock(&other_rwlock));
    of_other_reads++;
    STEP(pthread_rwlock_unlock(&stepped_rwlock)); // not the last one that it took
    STEP(pthread_rwlock_unlock(&other_rwlock));
    STEP(pthread_rwlock_wrlock(&stepped_rwlock));
    of_rwlock_writes++;
    STEP(pthread_rwlock_unlock(&stepped_rwlock));
    STEP(pthread_spin_lock(&spin));
    STEP(pthread_spin_unlock(&spin));
}

// Waits in the queue behind a handler, so that a queue lock leaves a node of the handler's there. It pauses now and then:
// a thread that is stepped through its wait never gets a lock that another one takes again and again.
static void *fight(void *unused) {
    for (long i = 0; !over; i++) {
        MUST(pthread_mutex_lock(&fought_for));
        of_fought_for++;
        under_fought_for++;
        MUST(pthread_mutex_unlock(&fought_for));
        if (i % 8 == 0) sleep_ns(MS / 20);
    }
    return unused;
}

int main(int argc, char **argv) {
    watch();
    long rounds = number(argc, argv, 1, 5);
    distance = number(argc, argv, 2, 16);
    for (size_t i = 0; i < COUNT(fresh); i++) MUST(pthread_mutex_init(&fresh[i], NULL));
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    struct sigaction action = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    struct team *rival = assemble(1, fight);
    for (long i = 0; i < rounds; i++) {
        step_through_mutexes();
        step_through_others();
    }
    over = true;
    disperse(rival);
    CHECK(handled > 0);
    if (under_mutex != of_mutex) fail("%ld additions under the mutex, %ld made", under_mutex, (long)of_mutex);
    if (under_fought_for != of_fought_for)
        fail("%ld additions under the mutex that is fought for, %ld made", under_fought_for, (long)of_fought_for);
    // A list of read locks that has gone wrong says EDEADLK here.
    MUST(pthread_rwlock_wrlock(&stepped_rwlock));
    MUST(pthread_rwlock_unlock(&stepped_rwlock));
    MUST(pthread_rwlock_wrlock(&other_rwlock));
    MUST(pthread_rwlock_unlock(&other_rwlock));
    printf("stepped_mutex %ld 0\nstepped_recursive %ld 0\nstepped_checked %ld 0\nfought_for %ld 0\n", (long)of_mutex,
           (long)of_recursive, (long)of_checked, (long)of_fought_for);
    printf("stepped_rwlock %ld %ld\nother_rwlock %ld %ld\n", of_rwlock_writes + 1, (long)of_rwlock_reads,
           of_other_writes + 1, (long)of_other_reads);
    printf("ok %ld handlers in %ld instructions, %ld blocked\n", handled, steps, while_blocked);
    return 0;
}

#else

int main(void) {
    puts("ok without single steps");
    return 0;
}

#endif
