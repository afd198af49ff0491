// Signals that the program blocks stay blocked in every lock call, those that an instruction raises among them; and what is left to
// the C library is left by destroying it as the C library leaves it. Argument: none.

#include "stress.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const int raised[] = {SIGTRAP, SIGSYS, SIGFPE, SIGILL, SIGUSR1};

static void blocked_signals(void) {
    sigset_t all, before;
    sigfillset(&all);
    MUST(pthread_sigmask(SIG_BLOCK, &all, &before));
    for (size_t i = 0; i < COUNT(raised); i++) CHECK(raise(raised[i]) == 0);
    // The first use of each object decides whose it is; a fork, and a thread's beginning, block signals as well.
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_spinlock_t spin;
    MUST(pthread_mutex_lock(&mutex));
    MUST(pthread_mutex_unlock(&mutex));
    MUST(pthread_rwlock_wrlock(&rwlock));
    MUST(pthread_rwlock_unlock(&rwlock));
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    MUST(pthread_spin_lock(&spin));
    MUST(pthread_spin_unlock(&spin));
    pid_t child = fork();
    if (child == 0) _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    sigset_t pending, now;
    CHECK(sigpending(&pending) == 0);
    MUST(pthread_sigmask(SIG_BLOCK, NULL, &now));
    for (size_t i = 0; i < COUNT(raised); i++) {
        CHECK(sigismember(&pending, raised[i]) == 1 && sigismember(&now, raised[i]) == 1);
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, raised[i]);
        int got;
        MUST(sigwait(&one, &got));
        CHECK(got == raised[i]);
    }
    MUST(pthread_sigmask(SIG_SETMASK, &before, NULL));
}

// One process tidies up what another one goes on using, which the C library allows.
static void shared_spin(void) {
    pthread_spinlock_t *spin = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(spin != MAP_FAILED);
    MUST(pthread_spin_init(spin, PTHREAD_PROCESS_SHARED));
    pid_t child = fork();
    if (child == 0) {
        MUST(pthread_spin_lock(spin));
        MUST(pthread_spin_unlock(spin));
        MUST(pthread_spin_destroy(spin));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    MUST(pthread_spin_lock(spin));
    MUST(pthread_spin_unlock(spin));
    MUST(pthread_spin_destroy(spin));
}

int main(void) {
    watch();
    blocked_signals();
    shared_spin();
    printf("ok %d signals\n", (int)COUNT(raised));
    return 0;
}
