// Locks of every kind of name: a variable, a function that makes the lock, one that takes it first, one behind a wrapper,
// one function with several. Takes each 100 times.

#include "case.h"

static pthread_mutex_t in_variable = PTHREAD_MUTEX_INITIALIZER;
static struct {
    long before;
    pthread_mutex_t mutex;
} in_structure = {0, PTHREAD_MUTEX_INITIALIZER};

struct pair {
    pthread_mutex_t *mutex;
    pthread_rwlock_t *rwlock;
};

__attribute__((noinline)) static void latch_acquire(pthread_mutex_t *mutex) {
    MUST(pthread_mutex_lock(mutex));
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void use(pthread_mutex_t *mutex) {
    for (int i = 0; i < 100; i++) {
        MUST(pthread_mutex_lock(mutex));
        MUST(pthread_mutex_unlock(mutex));
    }
}

__attribute__((noinline)) static void behind_wrapper(pthread_mutex_t *mutex) {
    for (int i = 0; i < 100; i++) {
        latch_acquire(mutex);
        MUST(pthread_mutex_unlock(mutex));
    }
}

__attribute__((noinline)) static pthread_mutex_t *made(void) {
    pthread_mutex_t *mutex = malloc(sizeof *mutex);
    MUST(pthread_mutex_init(mutex, NULL));
    __asm__ volatile("" ::: "memory");
    return mutex;
}

__attribute__((noinline)) static struct pair make_several(void) {
    struct pair pair = {malloc(sizeof *pair.mutex), malloc(sizeof *pair.rwlock)};
    MUST(pthread_mutex_init(pair.mutex, NULL));
    MUST(pthread_rwlock_init(pair.rwlock, NULL));
    __asm__ volatile("" ::: "memory");
    return pair;
}

static void *work(void *argument) {
    struct pair *pair = argument;
    use(&in_variable);
    use(&in_structure.mutex);
    for (int i = 0; i < 100; i++) {
        MUST(pthread_rwlock_rdlock(pair->rwlock));
        MUST(pthread_rwlock_unlock(pair->rwlock));
    }
    use(pair->mutex);
    return NULL;
}

int main(void) {
    watch();
    struct pair pair = make_several();
    pthread_mutex_t *first = made(), *second = made(), *third = calloc(1, sizeof *third);
    pthread_t threads[2];
    for (size_t i = 0; i < COUNT(threads); i++) MUST(pthread_create(&threads[i], NULL, work, &pair));
    use(first);
    use(second);
    behind_wrapper(third);
    for (size_t i = 0; i < COUNT(threads); i++) MUST(pthread_join(threads[i], NULL));
    puts("ok sites");
    return 0;
}
