// What threads are blocked in, of which a profile says how much it has recorded.
//
//   blocked pool       a pool of workers that wait for work until the program ends
//   blocked join       main takes a lock, then joins a worker that computes alone
//   blocked processes  two processes, each with locks of the same names
//   blocked inside     threads that hold a lock most of the time, asleep

#define _GNU_SOURCE
#include "stress.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_came = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t result_lock = PTHREAD_MUTEX_INITIALIZER;

static void sleep_ms(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void *wait_for_work(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&queue_lock);
    for (;;)
        pthread_cond_wait(&work_came, &queue_lock);
    return NULL;
}

static void *compute(void *unused)
{
    (void)unused;
    struct timespec start, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do {
        pthread_mutex_lock(&result_lock);
        pthread_mutex_unlock(&result_lock);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 300);
    return NULL;
}

static void *sleep_inside(void *unused)
{
    (void)unused;
    for (int i = 0; i < 5; i++) {
        pthread_mutex_lock(&result_lock);
        sleep_ms(10);
        pthread_mutex_unlock(&result_lock);
    }
    return NULL;
}

static void start_and_join(void *(*function)(void *), int count)
{
    pthread_t threads[8];
    for (int i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, function, NULL) == 0);
    for (int i = 0; i < count; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    watch();
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "pool")) {
        pthread_t worker;
        for (int i = 0; i < 8; i++)
            CHECK(pthread_create(&worker, NULL, wait_for_work, NULL) == 0);
        sleep_ms(400);
    } else if (!strcmp(what, "join")) {
        pthread_mutex_lock(&result_lock);
        pthread_mutex_unlock(&result_lock);
        start_and_join(compute, 1);
    } else if (!strcmp(what, "inside")) {
        start_and_join(sleep_inside, 4);
    } else if (!strcmp(what, "processes")) {
        pid_t child = fork();
        start_and_join(compute, 1);
        if (child == 0)
            return 0;
        CHECK(waitpid(child, NULL, 0) == child);
    } else {
        return 2;
    }
    return 0;
}
