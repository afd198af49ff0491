// How much stack do the lock functions need? Threads may have PTHREAD_STACK_MIN, most of which is taken. Each case runs in a
// thread on memory of the program's own, which is painted below the caller's frame before the call. Prints the bytes that a
// case used, and ends with `ok` and the largest.
//
// Link with `-z now`: the loader's lazy binding needs more than all of this.

#include "case.h"
#include <limits.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { SIZE = 1 << 18, PAINT = 0xa5, OWN = 64 };

static unsigned char *stack;
static size_t most;

static pthread_mutex_t mutex, held, ended = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock;
static pthread_spinlock_t spin;
static pthread_cond_t cond;
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t wrapped = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t first_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t first_cond = PTHREAD_COND_INITIALIZER;

static void init(void) {
    pthread_mutex_init(&mutex, NULL);
    pthread_rwlock_init(&rwlock, NULL);
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    pthread_cond_init(&cond, NULL);
}

static void lock_first(void) {
    pthread_mutex_lock(&first);
    pthread_mutex_unlock(&first);
}

__attribute__((noinline)) static void my_mutex_lock(pthread_mutex_t *one) {
    pthread_mutex_lock(one);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void lock_by_wrapper(void) {
    my_mutex_lock(&wrapped);
    pthread_mutex_unlock(&wrapped);
}

static void lock_again(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static void lock_contended(void) {
    pthread_mutex_lock(&held);
    pthread_mutex_unlock(&held);
}

static void lock_timed(void) {
    struct timespec soon = {.tv_sec = time(NULL) + 1};
    if (pthread_mutex_timedlock(&held, &soon) == 0) pthread_mutex_unlock(&held);
}

static void read_and_write(void) {
    pthread_rwlock_rdlock(&first_rwlock);
    pthread_rwlock_unlock(&first_rwlock);
    pthread_rwlock_wrlock(&rwlock);
    pthread_rwlock_unlock(&rwlock);
}

static void spin_lock(void) {
    pthread_spin_lock(&spin);
    pthread_spin_unlock(&spin);
}

static void wait_timed(void) {
    struct timespec now = {.tv_sec = time(NULL) - 1};
    pthread_mutex_lock(&mutex);
    pthread_cond_timedwait(&first_cond, &mutex, &now);
    pthread_mutex_unlock(&mutex);
}

static void destroy(void) {
    pthread_mutex_destroy(&mutex);
    pthread_rwlock_destroy(&rwlock);
    pthread_spin_destroy(&spin);
    pthread_cond_destroy(&cond);
}

static void fork_child(void);

static const struct {
    const char *name;
    void (*call)(void);
} cases[] = {
    {"init", init},
    {"first lock", lock_first},
    {"lock by a wrapper", lock_by_wrapper},
    {"lock", lock_again},
    {"contended lock", lock_contended},
    {"timed lock", lock_timed},
    {"rwlock", read_and_write},
    {"spin lock", spin_lock},
    {"condition wait", wait_timed},
    {"fork", fork_child},
    {"destroy", destroy},
};

static size_t used_below(unsigned char *frame) {
    unsigned char *at = stack;
    while (at < frame && *at == PAINT) at++;
    return (size_t)(frame - at) + OWN;
}

static void tell(const char *name, size_t used) {
    printf("%s: %zu\n", name, used);
    if (used > most) most = used;
}

static unsigned char *painted_to;

static void fork_child(void) {
    pid_t child = fork();
    if (child == 0) {
        lock_again();
        size_t used = used_below(painted_to);
        tell("child of fork", used);
        fflush(stdout);
        _exit(used > 2048 ? 1 : 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (status != 0) most = SIZE;
}

__attribute__((noinline)) static void measure(size_t number) {
    // What a signal handler would need is not measured. The calls of this function itself need less than OWN.
    unsigned char *here = __builtin_frame_address(0);
    painted_to = here - OWN;
    for (volatile unsigned char *at = painted_to; at > stack;) *--at = PAINT;
    cases[number].call();
}

static void *work(void *number) {
    measure((size_t)number);
    return NULL;
}

static void run(void *(*body)(void *), void *argument, const char *name) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    MUST(pthread_attr_setstack(&attributes, stack, SIZE));
    MUST(pthread_create(&thread, &attributes, body, argument));
    MUST(pthread_join(thread, NULL));
    pthread_attr_destroy(&attributes);
    if (name != NULL) tell(name, used_below(painted_to));
}

static void *release_later(void *argument) {
    MUST(pthread_mutex_lock(&held));
    sem_post(argument);
    sleep_ns(30 * MS);
    MUST(pthread_mutex_unlock(&held));
    return NULL;
}

// Paints what lies below a frame that the end of the thread comes back to, more or less: the start of the thread.
static void *end_painted(void *argument) {
    pthread_mutex_lock(&ended);
    pthread_mutex_unlock(&ended);
    unsigned char *here = __builtin_frame_address(0);
    painted_to = here - OWN;
    for (volatile unsigned char *at = painted_to; at > stack;) *--at = PAINT;
    return argument;
}

int main(void) {
    watch();
    stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    pthread_mutex_init(&held, NULL);
    for (size_t i = 0; i < COUNT(cases); i++) {
        sem_t taken;
        pthread_t holder;
        sem_init(&taken, 0, 0);
        MUST(pthread_create(&holder, NULL, release_later, &taken));
        sem_take(&taken);
        fflush(stdout);
        run(work, (void *)i, cases[i].name);
        MUST(pthread_join(holder, NULL));
    }
    run(end_painted, NULL, "end of a thread");
    printf("ok %zu\n", most);
    return 0;
}
