// A library that uses locks before any other constructor has run, and after the last destructor: see early.c.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

pthread_mutex_t early_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t early_recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_rwlock_t early_rwlock = PTHREAD_RWLOCK_INITIALIZER;
pthread_cond_t early_cond = PTHREAD_COND_INITIALIZER;
pthread_spinlock_t early_spin;
long early_count;

static void must(int error) {
    if (error != 0) abort();
}

static void use_all(void) {
    must(pthread_mutex_lock(&early_mutex));
    must(pthread_cond_signal(&early_cond));
    early_count++;
    must(pthread_mutex_unlock(&early_mutex));
    int busy = pthread_mutex_trylock(&early_mutex);
    if (busy == 0) must(pthread_mutex_unlock(&early_mutex));
    else if (busy != EBUSY) abort();
    must(pthread_mutex_lock(&early_recursive));
    must(pthread_mutex_lock(&early_recursive));
    must(pthread_mutex_unlock(&early_recursive));
    must(pthread_mutex_unlock(&early_recursive));
    must(pthread_rwlock_rdlock(&early_rwlock));
    must(pthread_rwlock_rdlock(&early_rwlock));
    must(pthread_rwlock_unlock(&early_rwlock));
    must(pthread_rwlock_unlock(&early_rwlock));
    must(pthread_rwlock_wrlock(&early_rwlock));
    must(pthread_rwlock_unlock(&early_rwlock));
    must(pthread_spin_lock(&early_spin));
    must(pthread_spin_unlock(&early_spin));
}

static void *work(void *argument) {
    for (int i = 0; i < 1000; i++) use_all();
    return argument;
}

__attribute__((constructor(101))) static void first_of_all(void) {
    must(pthread_spin_init(&early_spin, PTHREAD_PROCESS_PRIVATE));
    use_all();
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) must(pthread_create(&threads[i], NULL, work, NULL));
    for (int i = 0; i < 3; i++) must(pthread_join(threads[i], NULL));
    must(pthread_mutex_lock(&early_recursive)); // released by main
}

__attribute__((destructor(101))) static void last_of_all(void) {
    use_all();
    static const char line[] = "ok used before the first constructor and after the last destructor\n";
    if (early_count != 2 + 2 * 3 * 1000) abort();
    must(write(STDOUT_FILENO, line, sizeof line - 1) == (ssize_t)sizeof line - 1 ? 0 : 1);
}
