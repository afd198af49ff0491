// Children that are made by the system call itself, past the C library, so that no fork handler runs: what the caller holds
// while others wait for it is the child's to give up and to take; and its first use of a lock does not wait for a thread of the
// parent that was forking. Argument: children (10).

#include "stress.h"

#include <sys/syscall.h>
#include <sys/wait.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static _Atomic int arrived;

static int take_mutex(void *object) { return pthread_mutex_lock(object); }
static int give_mutex(void *object) { return pthread_mutex_unlock(object); }
static int take_rwlock(void *object) { return pthread_rwlock_wrlock(object); }
static int give_rwlock(void *object) { return pthread_rwlock_unlock(object); }
static int take_spin(void *object) { return pthread_spin_lock(object); }
static int give_spin(void *object) { return pthread_spin_unlock(object); }

static const struct {
    deed take, give;
    void *object;
} locks[] = {{take_mutex, give_mutex, &mutex},
             {take_rwlock, give_rwlock, &rwlock},
             {take_spin, give_spin, (void *)&spin}};

static void *wait_for(void *which) {
    long i = (long)which % (long)COUNT(locks);
    arrived++;
    MUST(locks[i].take(locks[i].object));
    MUST(locks[i].give(locks[i].object));
    return NULL;
}

static _Atomic int done;

static void *forks(void *unused) {
    (void)unused;
    while (!done) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        CHECK(waitpid(child, NULL, 0) == child);
    }
    return NULL;
}

// Children made past the C library while another thread forks by it; each takes a lock for the first time.
static void among_forks(long children) {
    struct team *team = assemble(1, forks);
    for (long child = 0; child < children; child++) {
        long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(20);
            pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
            MUST(pthread_mutex_lock(&fresh));
            MUST(pthread_mutex_unlock(&fresh));
            _exit(0);
        }
        int status;
        CHECK(waitpid((pid_t)pid, &status, 0) == pid);
        if (status != 0) fail("child %ld among forks ended with %#x", child, status);
    }
    done = 1;
    disperse(team);
}

int main(int argc, char **argv) {
    watch();
    long children = number(argc, argv, 1, 10);
    among_forks(20 * children);
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    for (long child = 0; child < children; child++) {
        arrived = 0;
        for (size_t i = 0; i < COUNT(locks); i++) MUST(locks[i].take(locks[i].object));
        struct team *team = assemble(2 * COUNT(locks), wait_for);
        while (arrived < 2 * (int)COUNT(locks)) sleep_ns(MS);
        sleep_ns(5 * MS);
        long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(60);
            for (int times = 0; times < 3; times++) {
                for (size_t i = 0; i < COUNT(locks); i++) MUST(locks[i].give(locks[i].object));
                for (size_t i = 0; i < COUNT(locks); i++) MUST(locks[i].take(locks[i].object));
            }
            _exit(0);
        }
        for (size_t i = 0; i < COUNT(locks); i++) MUST(locks[i].give(locks[i].object));
        disperse(team);
        int status;
        CHECK(waitpid((pid_t)pid, &status, 0) == pid);
        if (status != 0) fail("child %ld ended with %#x", child, status);
    }
    printf("ok %ld children\n", children);
    return 0;
}
