// Locks at the ends of threads and of the process: in destructors of thread-specific data (every round of them), in
// those of C11, on the smallest stack there is, and in atexit handlers while other threads run on.
// Arguments: threads (8), threads after one another (10).

#include "stress.h"
#include <limits.h>
#include <threads.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static mtx_t c11;
static pthread_key_t first_key, last_key;
static tss_t c11_key;
static long destroyed, by_c11, generations;

static void use_locks(long *counter) {
    MUST(pthread_rwlock_rdlock(&rwlock));
    MUST(pthread_rwlock_unlock(&rwlock));
    MUST(pthread_rwlock_wrlock(&rwlock));
    MUST(pthread_rwlock_unlock(&rwlock));
    MUST(pthread_spin_lock(&spin));
    MUST(pthread_spin_unlock(&spin));
    MUST(pthread_mutex_lock(&mutex));
    struct timespec soon = from_now(CLOCK_REALTIME, 1000);
    int error = pthread_cond_timedwait(&cond, &mutex, &soon);
    if (error != ETIMEDOUT) MUST(error);
    MUST(pthread_cond_signal(&cond));
    ++*counter;
    MUST(pthread_mutex_unlock(&mutex));
}

// Sets its value again until the last round that glibc makes, so that it runs after every other destructor.
static void destroy(void *left) {
    use_locks(&destroyed);
    if ((long)left > 1) MUST(pthread_setspecific(first_key, (void *)((long)left - 1)));
}

static void destroy_holding(void *held) {
    // Taken in the thread's life, released in its destructor.
    MUST(pthread_mutex_unlock(held));
    MUST(pthread_mutex_destroy(held));
    free(held);
}

static void destroy_c11(void *value) {
    (void)value;
    CHECK(mtx_lock(&c11) == thrd_success);
    by_c11++;
    CHECK(mtx_unlock(&c11) == thrd_success);
}

static void *live_shortly(void *argument) {
    MUST(pthread_setspecific(first_key, (void *)(long)PTHREAD_DESTRUCTOR_ITERATIONS));
    CHECK(tss_set(c11_key, (void *)1) == thrd_success);
    pthread_mutex_t *held = malloc(sizeof *held);
    CHECK(held != NULL);
    MUST(pthread_mutex_init(held, NULL));
    MUST(pthread_mutex_lock(held));
    MUST(pthread_setspecific(last_key, held));
    if ((long)argument % 2 == 0) pthread_exit(NULL);
    return argument;
}

// A thread whose only locks are those of its destructors.
static void *only_destructors(void *argument) {
    MUST(pthread_setspecific(first_key, (void *)1));
    return argument;
}


// A lock call is a guest on its caller's stack.
static void on_the_smallest_stack(long threads) {
    pthread_attr_t attribute;
    MUST(pthread_attr_init(&attribute));
    MUST(pthread_attr_setstacksize(&attribute, (size_t)sysconf(_SC_THREAD_STACK_MIN)));
    pthread_t team[threads];
    for (long i = 0; i < threads; i++) MUST(pthread_create(&team[i], &attribute, only_destructors, NULL));
    for (long i = 0; i < threads; i++) MUST(pthread_join(team[i], NULL));
}

static void at_exit(void) {
    static long counter;
    for (int i = 0; i < 100; i++) use_locks(&counter);
    puts("ok locks at exit"); // the last line, and printed only from here
}

static void *never_end(void *argument) {
    static long counter;
    for (;;) use_locks(&counter);
    return argument;
}

int main(int argc, char **argv) {
    watch();
    long threads = number(argc, argv, 1, 8);
    generations = number(argc, argv, 2, 10);
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    CHECK(mtx_init(&c11, mtx_plain) == thrd_success);
    MUST(pthread_key_create(&first_key, destroy));
    CHECK(tss_create(&c11_key, destroy_c11) == thrd_success);
    MUST(pthread_key_create(&last_key, destroy_holding));
    for (long i = 0; i < generations; i++) {
        struct team *team = assemble(threads, live_shortly);
        disperse(team);
        team = assemble(threads, only_destructors);
        disperse(team);
        on_the_smallest_stack(threads);
    }
    long expected = threads * generations * (PTHREAD_DESTRUCTOR_ITERATIONS + 2);
    if (destroyed != expected || by_c11 != threads * generations)
        fail("%ld destructors of %ld, %ld of %ld in C11", destroyed, expected, by_c11, threads * generations);
    CHECK(atexit(at_exit) == 0);
    for (long i = 0; i < threads; i++) {
        pthread_t thread;
        MUST(pthread_create(&thread, NULL, never_end, NULL));
        MUST(pthread_detach(thread));
    }
    return 0;
}
