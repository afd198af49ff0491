// The library of `constructor.c`.

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static long count;

static void *work(void *argument) {
    pthread_mutex_t *heap = malloc(sizeof *heap);
    pthread_mutex_init(heap, NULL);
    pthread_mutex_lock(heap);
    pthread_mutex_lock(&mutex);
    count++;
    pthread_mutex_unlock(&mutex);
    pthread_rwlock_wrlock(&rwlock);
    count++;
    pthread_rwlock_unlock(&rwlock);
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    pthread_spin_lock(&spin);
    count++;
    pthread_spin_unlock(&spin);
    pthread_mutex_unlock(heap);
    pthread_mutex_destroy(heap);
    free(heap);
    return argument;
}

__attribute__((constructor)) static void construct(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) != 0) abort();
    pthread_join(thread, NULL);
}

long constructed(void) { return count; }
