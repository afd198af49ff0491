// A mutex that all functions take through two functions of the program, whose names say nothing: for moments in one that two others call, and
// for long (ms, the first argument) in another.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// The call before it is not the function's last.
#define NO_TAIL_CALL __asm__ volatile("" ::: "memory")
#define APART __attribute__((noinline)) static

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int ended;
static long looked_up, rebalanced;
static struct timespec hold = {.tv_nsec = 4000000}, pause_between = {.tv_nsec = 200000};

APART void begin_use(pthread_mutex_t *lock) {
    pthread_mutex_lock(lock);
    NO_TAIL_CALL;
}

APART void end_use(pthread_mutex_t *lock) {
    pthread_mutex_unlock(lock);
    NO_TAIL_CALL;
}

APART void quick_lookup(void) {
    begin_use(&table_lock);
    ++looked_up;
    end_use(&table_lock);
    NO_TAIL_CALL;
}

APART void slow_rebalance(void) {
    begin_use(&table_lock);
    nanosleep(&hold, NULL);
    ++rebalanced;
    end_use(&table_lock);
    NO_TAIL_CALL;
}

APART void handle_login(void) {
    quick_lookup();
    NO_TAIL_CALL;
}

APART void handle_search(void) {
    quick_lookup();
    NO_TAIL_CALL;
}

static void *rebalance(void *nothing) {
    for (int i = 0; i < 25; ++i) {
        slow_rebalance();
        nanosleep(&pause_between, NULL);
    }
    ended = 1;
    return nothing;
}

int main(int count, char **arguments) {
    if (count > 1)
        hold.tv_nsec = atol(arguments[1]) * 1000000;
    pthread_t other;
    handle_login();
    pthread_create(&other, NULL, rebalance, NULL);
    while (!ended) {
        handle_login();
        handle_search();
    }
    pthread_join(other, NULL);
    printf("{\"looked_up\": %ld, \"rebalanced\": %ld}\n", looked_up, rebalanced);
}
