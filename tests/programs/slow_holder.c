// One mutex that is held for long (ms, the first argument) by one thread while three others wait for it, each once.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WAITERS = 3 };

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int is_held;
static long looked_up;
static struct timespec hold;

__attribute__((noinline)) static void slow_rebalance(void) {
    pthread_mutex_lock(&table_lock);
    is_held = 1;
    nanosleep(&hold, NULL);
    pthread_mutex_unlock(&table_lock);
}

__attribute__((noinline)) static void quick_lookup(void) {
    pthread_mutex_lock(&table_lock);
    ++looked_up;
    pthread_mutex_unlock(&table_lock);
}

static void *rebalance(void *nothing) {
    slow_rebalance();
    return nothing;
}

static void *look_up(void *nothing) {
    while (!is_held)
        ;
    quick_lookup();
    return nothing;
}

int main(int count, char **arguments) {
    long ms = count > 1 ? atol(arguments[1]) : 150;
    hold = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    quick_lookup(); // so that the lock is known before a thread waits for it
    pthread_t threads[WAITERS + 1];
    for (int i = 0; i < WAITERS; ++i)
        pthread_create(&threads[i], NULL, look_up, NULL);
    pthread_create(&threads[WAITERS], NULL, rebalance, NULL);
    for (int i = 0; i <= WAITERS; ++i)
        pthread_join(threads[i], NULL);
    printf("{\"looked_up\": %ld}\n", looked_up);
}
