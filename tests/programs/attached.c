// Threads that sleep for locks, for a condition, for a semaphore and for each other until standard input ends, to be attached to
// from outside. A byte on standard input starts two threads more, at a lock of their own. Prints how often each lock was
// contended: a thread that finds a lock held counts before it waits.

#include "stress.h"

pthread_mutex_t attached_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t late_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t attached_rwlock = PTHREAD_RWLOCK_INITIALIZER;
pthread_mutex_t condition_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t attached_condition = PTHREAD_COND_INITIALIZER;
sem_t attached_semaphore;
static pthread_mutex_t *heap_mutex;
static _Atomic bool ended;
static _Atomic long contended_mutex, contended_late, contended_heap, contended_reads;

static void count_and_lock(pthread_mutex_t *mutex, _Atomic long *contended) {
    if (pthread_mutex_trylock(mutex) == 0) return;
    (*contended)++;
    MUST(pthread_mutex_lock(mutex));
}

// Holds a lock for a millisecond, asleep: with several threads the next one sleeps, too, on one core as well.
__attribute__((noinline)) static void take_static(void) {
    count_and_lock(&attached_mutex, &contended_mutex);
    sleep_ns(MS);
    MUST(pthread_mutex_unlock(&attached_mutex));
}

__attribute__((noinline)) static void take_from_heap(void) {
    count_and_lock(heap_mutex, &contended_heap);
    sleep_ns(MS);
    MUST(pthread_mutex_unlock(heap_mutex));
}

static void *work(void *unused) {
    (void)unused;
    while (!ended) {
        take_static();
        take_from_heap();
    }
    return NULL;
}

static void *work_late(void *unused) {
    (void)unused;
    while (!ended) {
        count_and_lock(&late_mutex, &contended_late);
        sleep_ns(MS);
        MUST(pthread_mutex_unlock(&late_mutex));
    }
    return NULL;
}

static void *write_now_and_then(void *unused) {
    (void)unused;
    while (!ended) {
        MUST(pthread_rwlock_wrlock(&attached_rwlock));
        sleep_ns(MS);
        MUST(pthread_rwlock_unlock(&attached_rwlock));
        sleep_ns(MS);
        MUST(pthread_mutex_lock(&condition_mutex));
        MUST(pthread_cond_signal(&attached_condition));
        MUST(pthread_mutex_unlock(&condition_mutex));
        CHECK(sem_post(&attached_semaphore) == 0);
    }
    return NULL;
}

static void *read_always(void *unused) {
    (void)unused;
    while (!ended) {
        if (pthread_rwlock_tryrdlock(&attached_rwlock) != 0) {
            contended_reads++;
            MUST(pthread_rwlock_rdlock(&attached_rwlock));
        }
        MUST(pthread_rwlock_unlock(&attached_rwlock));
        sleep_ns(MS / 4);
    }
    return NULL;
}

static void *wait_for_condition(void *unused) {
    (void)unused;
    MUST(pthread_mutex_lock(&condition_mutex));
    while (!ended) MUST(pthread_cond_wait(&attached_condition, &condition_mutex));
    MUST(pthread_mutex_unlock(&condition_mutex));
    return NULL;
}

static void *wait_for_semaphore(void *unused) {
    (void)unused;
    while (!ended) sem_take(&attached_semaphore);
    return NULL;
}

static void *join_others(void *team) {
    disperse(team);
    return NULL;
}

static void *any_of(void *index) {
    static void *(*const works[])(void *) = {work, work, work, write_now_and_then, read_always, wait_for_condition,
                                             wait_for_semaphore};
    return works[(size_t)index % COUNT(works)](NULL);
}

int main(void) {
    watch();
    CHECK(sem_init(&attached_semaphore, 0, 0) == 0);
    heap_mutex = malloc(sizeof *heap_mutex);
    CHECK(heap_mutex != NULL);
    MUST(pthread_mutex_init(heap_mutex, NULL));
    pthread_t joiner;
    MUST(pthread_create(&joiner, NULL, join_others, assemble(7, any_of)));
    printf("ready\n");
    struct team *late = NULL;
    while (getchar() != EOF) {
        if (late == NULL) late = assemble(2, work_late);
    }
    ended = true;
    MUST(pthread_mutex_lock(&condition_mutex));
    MUST(pthread_cond_broadcast(&attached_condition));
    MUST(pthread_mutex_unlock(&condition_mutex));
    CHECK(sem_post(&attached_semaphore) == 0);
    MUST(pthread_join(joiner, NULL));
    if (late != NULL) disperse(late);
    printf("attached_mutex %ld\nlate_mutex %ld\nheap_mutex %ld\nattached_rwlock %ld\n", contended_mutex, contended_late,
           contended_heap, contended_reads);
    return 0;
}
