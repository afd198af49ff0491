// Four locks, each held for long for another reason: by a thread that sleeps, one that shares its core with others, one that
// waits for another lock, and one that runs. The sleep is a system call that no library interposes. An argument is the name of the thread
// that shares its core, by which a tracer finds it.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t sleeping_lock = PTHREAD_MUTEX_INITIALIZER, preempted_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER, inner_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t running_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int ended;
static const char *holders_name;

static double now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void sleep_us(long us) {
    struct timespec t = {0, us * 1000};
    syscall(SYS_nanosleep, &t, NULL);
}

static void run_us(long us) {
    double end = now_ns(CLOCK_MONOTONIC) + us * 1e3;
    while (now_ns(CLOCK_MONOTONIC) < end) {
    }
}

static void pin(int core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    sched_setaffinity(0, sizeof cores, &cores);
}

static int first_core(void) {
    cpu_set_t cores;
    sched_getaffinity(0, sizeof cores, &cores);
    int core = 0;
    while (!CPU_ISSET(core, &cores))
        ++core;
    return core;
}

// Takes the core from the holder of preempted_lock, which is pinned to the same one.
static void *rival(void *core) {
    pin(*(int *)core);
    while (!ended) {
    }
    return NULL;
}

static void *holds_inner(void *unused) {
    while (!ended) {
        pthread_mutex_lock(&inner_lock);
        sleep_us(3000);
        pthread_mutex_unlock(&inner_lock);
        sleep_us(300);
    }
    return unused;
}

// Holds a lock so often and so long, and says what the part was in which it really had a core.
static double hold(pthread_mutex_t *lock, int times, long us) {
    double held = 0, ran = 0;
    for (int i = 0; i < times; ++i) {
        pthread_mutex_lock(lock);
        double from = now_ns(CLOCK_MONOTONIC), from_cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
        run_us(us);
        ran += now_ns(CLOCK_THREAD_CPUTIME_ID) - from_cpu;
        held += now_ns(CLOCK_MONOTONIC) - from;
        pthread_mutex_unlock(lock);
    }
    return ran / held;
}

static void *preempted(void *core) {
    static double ran_share;
    if (holders_name)
        pthread_setname_np(pthread_self(), holders_name);
    pin(*(int *)core);
    ran_share = hold(&preempted_lock, 10, 40000);
    ended = 1;
    return &ran_share;
}

int main(int count, char **arguments) {
    holders_name = count > 1 ? arguments[1] : NULL;
    int core = first_core();
    double ran = hold(&running_lock, 50, 1000);
    for (int i = 0; i < 50; ++i) {
        pthread_mutex_lock(&sleeping_lock);
        sleep_us(2000);
        pthread_mutex_unlock(&sleeping_lock);
    }
    pthread_t other, rivals[2];
    pthread_create(&other, NULL, holds_inner, NULL);
    sleep_us(1000);
    for (int i = 0; i < 50; ++i) {
        pthread_mutex_lock(&waiting_lock);
        pthread_mutex_lock(&inner_lock);
        pthread_mutex_unlock(&inner_lock);
        pthread_mutex_unlock(&waiting_lock);
        sleep_us(500);
    }
    for (int i = 0; i < 2; ++i)
        pthread_create(&rivals[i], NULL, rival, &core);
    pthread_t holder;
    void *share;
    pthread_create(&holder, NULL, preempted, &core);
    pthread_join(holder, &share);
    for (int i = 0; i < 2; ++i)
        pthread_join(rivals[i], NULL);
    pthread_join(other, NULL);
    printf("{\"running\": %.4f, \"preempted\": %.4f}\n", ran, 1 - *(double *)share);
}
