// System calls by the C library's `syscall`: what they return, errno, their arguments and stacks, futexes and others.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s, errno %d\n", __LINE__, #condition, errno); \
            exit(1); \
        } \
    } while (0)

uint32_t waited_for = 7;

static long wait_at(uint32_t *word, uint32_t value, long ns) {
    struct timespec time = {.tv_nsec = ns};
    return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &time, NULL, 0);
}

static void handler(int number) {
    (void)number;
    int saved = errno;
    CHECK(wait_at(&waited_for, 7, 1000000) == -1 && errno == ETIMEDOUT);
    errno = saved;
}

static int cleaned;

static void clean(void *argument) {
    (void)argument;
    cleaned++;
}

// Cancelled inside of the call, from where the stack has to be unwound.
static void *cancelled(void *argument) {
    int before;
    pthread_cleanup_push(clean, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    if (argument == NULL) {
        syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    } else {
        uint32_t word = 1;
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

#ifdef __x86_64__
static void child_on_its_stack(void) {
    syscall(SYS_exit, 9);
}
#endif

static int in_child(void *argument) {
    (void)argument;
    return wait_at(&waited_for, 7, 1000000) == -1 && errno == ETIMEDOUT ? 5 : 6;
}

int main(void) {
    errno = 123;
    CHECK(syscall(SYS_getpid) == getpid() && errno == 123);
    CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF);
    CHECK(syscall(-1L) == -1 && errno == ENOSYS);

    // All six arguments.
    FILE *file = tmpfile();
    CHECK(file && ftruncate(fileno(file), 8192) == 0 && pwrite(fileno(file), "second", 6, 4096) == 6);
    char *page = (char *)syscall(SYS_mmap, NULL, 4096L, (long)PROT_READ, (long)MAP_SHARED, (long)fileno(file), 4096L);
    CHECK(page != MAP_FAILED && memcmp(page, "second", 6) == 0);
    errno = 123;
    CHECK(syscall(SYS_futex, &waited_for, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 0x55) == 0 && errno == 123);
    CHECK(syscall(SYS_futex, &waited_for, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 0) == -1 && errno == EINVAL);

    // Futexes: the value is another one, the time is over, there is no memory.
    CHECK(wait_at(&waited_for, 8, 1000000) == -1 && errno == EAGAIN);
    CHECK(wait_at(&waited_for, 7, 1000000) == -1 && errno == ETIMEDOUT);
    CHECK(wait_at((uint32_t *)64, 7, 1000000) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_futex, &waited_for, 99, 0, NULL, NULL, 0) == -1 && errno == ENOSYS);

    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    errno = 123;
    CHECK(syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), SIGUSR1) == 0 && errno == 123);

    // A child that shares the memory, thread-local variables included, while its parent waits.
    char *stack = mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status;
    CHECK(stack != MAP_FAILED);
    pid_t child = clone(in_child, stack + (1 << 18), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
#ifdef __x86_64__
    // The child of a raw clone returns to what is on top of its own stack.
    void **top = (void **)(stack + (1 << 17));
    *top = (void *)child_on_its_stack;
    child = (pid_t)syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, top, NULL, NULL, 0L);
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 9);
#endif
    child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0L);
    if (child == 0) {
        _exit(11);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 11);

    for (int which = 0; which < 2; which++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, cancelled, which ? &waited_for : NULL) == 0);
        usleep(20000);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED && cleaned == which + 1);
    }
    puts("done");
    return 0;
}
