// What the test programs share: a watchdog, cases printed one a line, and threads that act on command.
//
// A case prints what a call answered and nothing that depends on time or place, so two runs of a
// program, under any locks, print the same lines. Synchronisation of the test itself is by semaphores
// and atomics, which nothing replaces.

#ifndef CASE_H
#define CASE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAYBE_UNUSED __attribute__((unused))
#define COUNT(array) (sizeof(array) / sizeof *(array))

// A program that hangs is killed by SIGALRM; what it printed last says where. The longest one needs a few seconds: the
// rest is for slow and busy machines.
static void watch(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(300);
}

MAYBE_UNUSED __attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    fflush(stdout);
    dprintf(STDERR_FILENO, "FAIL %s\n", message); // in one piece: other threads may fail too
    _exit(1);
}

MAYBE_UNUSED static const char *error_name(int error) {
    static _Thread_local char other[32];
    switch (error) {
    case 0: return "0";
    case EAGAIN: return "EAGAIN";
    case EBUSY: return "EBUSY";
    case EDEADLK: return "EDEADLK";
    case EINTR: return "EINTR";
    case EINVAL: return "EINVAL";
    case ENOMEM: return "ENOMEM";
    case ENOTRECOVERABLE: return "ENOTRECOVERABLE";
    case ENOTSUP: return "ENOTSUP";
    case EOWNERDEAD: return "EOWNERDEAD";
    case EPERM: return "EPERM";
    case ETIMEDOUT: return "ETIMEDOUT";
    default: snprintf(other, sizeof other, "error %d", error); return other;
    }
}

// A call that has to answer 0 for the program to make sense.
#define MUST(call)                                                                                           \
    do {                                                                                                     \
        int must_error = (call);                                                                             \
        if (must_error != 0) fail("%s:%d: %s -> %s", __FILE__, __LINE__, #call, error_name(must_error));     \
    } while (0)

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition);                         \
    } while (0)

// One case: function, kind of the object, its state, and the answer.
MAYBE_UNUSED static int report(const char *function, const char *kind, const char *state, int error) {
    printf("%s | %s | %s -> %s\n", function, kind, state, error_name(error));
    return error;
}

// ---- time

static const long MS = 1000000;

MAYBE_UNUSED static int64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// The absolute time `delta_ns` from now; negative for the past.
MAYBE_UNUSED static struct timespec from_now(clockid_t clock, int64_t delta_ns) {
    int64_t at = now_ns(clock) + delta_ns;
    return (struct timespec){.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
}

MAYBE_UNUSED static void sleep_ns(int64_t ns) {
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

// ---- threads that act on command

typedef int (*deed)(void *object);

struct actor {
    pthread_t thread;
    sem_t go, done;
    deed call;
    void *object;
    int answer;
    _Atomic int calling;
    _Atomic pid_t tid;
};

MAYBE_UNUSED static void sem_take(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0 && errno == EINTR) {}
}

MAYBE_UNUSED static void *actor_main(void *argument) {
    struct actor *self = argument;
    self->tid = gettid();
    sem_post(&self->done);
    for (;;) {
        sem_take(&self->go);
        if (self->call == NULL) return NULL;
        self->calling = 1;
        self->answer = self->call(self->object);
        self->calling = 0;
        sem_post(&self->done);
    }
}

MAYBE_UNUSED static void hire(struct actor *actor) {
    memset(actor, 0, sizeof *actor);
    sem_init(&actor->go, 0, 0);
    sem_init(&actor->done, 0, 0);
    MUST(pthread_create(&actor->thread, NULL, actor_main, actor));
    sem_take(&actor->done);
}

MAYBE_UNUSED static void dismiss(struct actor *actor) {
    actor->call = NULL;
    sem_post(&actor->go);
    MUST(pthread_join(actor->thread, NULL));
}

// State letter of a thread as the kernel has it; 'S' is asleep.
MAYBE_UNUSED static char thread_state(pid_t tid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return '?';
    char *read = fgets(line, sizeof line, file);
    fclose(file);
    char *name_end = read == NULL ? NULL : strrchr(line, ')');
    return name_end == NULL ? '?' : name_end[2];
}

// How long a thread has run, by the kernel's own count; -1 if it does not tell.
MAYBE_UNUSED static int64_t time_on_core_ns(pid_t tid) {
    char path[64];
    long long ns = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", (int)tid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return -1;
    if (fscanf(file, "%lld", &ns) != 1) ns = -1;
    fclose(file);
    return ns;
}

// Waits until a thread that has set `calling` sleeps or has returned. Asleep is what it is at three looks in a row: it may
// sleep for a moment on its way. A lock that spins for good never sleeps: after 100 ms it has reached its loop, and that is
// time on a core, which a busy machine may not give it for long.
MAYBE_UNUSED static bool blocked(_Atomic int *calling, pid_t tid) {
    int64_t begun_ns = time_on_core_ns(tid);
    for (int looks = 0, asleep = 0; *calling == 1 && asleep < 3; looks++) {
        sleep_ns(MS);
        asleep = thread_state(tid) == 'S' ? asleep + 1 : 0;
        if (begun_ns < 0 ? looks == 400 : time_on_core_ns(tid) - begun_ns > 100 * MS) break;
    }
    return *calling == 1;
}

// Has the actor make a call; `collect` waits for its answer.
MAYBE_UNUSED static void send_to(struct actor *actor, deed call, void *object) {
    actor->call = call;
    actor->object = object;
    actor->calling = 2;
    sem_post(&actor->go);
}

MAYBE_UNUSED static int collect(struct actor *actor) {
    sem_take(&actor->done);
    return actor->answer;
}

// The answer of a call made by the actor.
MAYBE_UNUSED static int ask(struct actor *actor, deed call, void *object) {
    send_to(actor, call, object);
    return collect(actor);
}

// Has the actor make a call that is to block; true if it did. Either way `collect` comes next.
MAYBE_UNUSED static bool start(struct actor *actor, deed call, void *object) {
    send_to(actor, call, object);
    while (actor->calling == 2) sched_yield();
    return blocked(&actor->calling, actor->tid);
}

// ---- arguments

MAYBE_UNUSED static long number(int argc, char **argv, int index, long otherwise) {
    if (index >= argc) return otherwise;
    char *end;
    long value = strtol(argv[index], &end, 10);
    if (*end != '\0' || value < 1) fail("argument %d, '%s', is no positive number", index, argv[index]);
    return value;
}

#endif
