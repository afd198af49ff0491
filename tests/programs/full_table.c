// More locks than a side table of 131,072 slots has room for, and then copies of some: of a mutex, a reader-writer lock and a
// spin lock. A copy of a free lock is another free lock, wherever its state lies. Argument: locks of each kind (140000).

#include "stress.h"

enum { COPIES = 4 };

static void *signals(void *pair) {
    struct {
        pthread_mutex_t *mutex;
        pthread_cond_t *cond;
    } *waiting = pair;
    MUST(pthread_mutex_lock(waiting->mutex));
    MUST(pthread_cond_signal(waiting->cond));
    MUST(pthread_mutex_unlock(waiting->mutex));
    return NULL;
}

static void copies_of_mutexes(pthread_mutex_t *mutexes) {
    pthread_mutex_t copies[COPIES], copy_of_copy;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    for (int i = 0; i < COPIES; i++) {
        copies[i] = mutexes[i];
        MUST(pthread_mutex_lock(&copies[i]));
        if (pthread_mutex_trylock(&copies[i]) != EBUSY) fail("copy %d of a mutex is free while it is held", i);
        MUST(pthread_mutex_lock(&mutexes[i]));
        if (pthread_mutex_trylock(&copies[i]) != EBUSY) fail("copy %d of a mutex is free while it is held", i);
        MUST(pthread_mutex_unlock(&copies[i]));
        if (pthread_mutex_trylock(&mutexes[i]) != EBUSY) fail("original %d is free while it is held", i);
        MUST(pthread_mutex_unlock(&mutexes[i]));
    }
    copy_of_copy = copies[0];
    MUST(pthread_mutex_lock(&copies[0]));
    MUST(pthread_mutex_lock(&copy_of_copy));
    struct {
        pthread_mutex_t *mutex;
        pthread_cond_t *cond;
    } waiting = {&copy_of_copy, &cond};
    pthread_t other;
    MUST(pthread_create(&other, NULL, signals, &waiting));
    MUST(pthread_cond_wait(&cond, &copy_of_copy));
    MUST(pthread_join(other, NULL));
    MUST(pthread_mutex_unlock(&copy_of_copy));
    MUST(pthread_mutex_unlock(&copies[0]));
    for (int i = 0; i < COPIES; i++) MUST(pthread_mutex_destroy(&copies[i]));
    MUST(pthread_mutex_destroy(&copy_of_copy));
}

static void copies_of_rwlocks(pthread_rwlock_t *rwlocks) {
    pthread_rwlock_t copies[COPIES];
    for (int i = 0; i < COPIES; i++) {
        copies[i] = rwlocks[i];
        MUST(pthread_rwlock_wrlock(&copies[i]));
        MUST(pthread_rwlock_rdlock(&rwlocks[i]));
        MUST(pthread_rwlock_unlock(&copies[i]));
        MUST(pthread_rwlock_rdlock(&copies[i]));
        MUST(pthread_rwlock_unlock(&rwlocks[i]));
        MUST(pthread_rwlock_wrlock(&rwlocks[i]));
        MUST(pthread_rwlock_unlock(&copies[i]));
        MUST(pthread_rwlock_unlock(&rwlocks[i]));
        MUST(pthread_rwlock_destroy(&copies[i]));
    }
}

static void copies_of_spins(pthread_spinlock_t *spins) {
    for (int i = 0; i < COPIES; i++) {
        // Through an integer, as a program's memcpy of a structure copies it.
        int bytes = *(int *)&spins[i];
        pthread_spinlock_t copy = bytes;
        MUST(pthread_spin_lock(&copy));
        if (pthread_spin_trylock(&copy) != EBUSY) fail("copy %d of a spin lock is free while it is held", i);
        MUST(pthread_spin_lock(&spins[i]));
        MUST(pthread_spin_unlock(&copy));
        if (pthread_spin_trylock(&spins[i]) != EBUSY) fail("original %d is free while it is held", i);
        MUST(pthread_spin_unlock(&spins[i]));
        MUST(pthread_spin_destroy(&copy));
    }
}

int main(int argc, char **argv) {
    watch();
    long count = number(argc, argv, 1, 140000);
    if (count < COPIES) fail("at least %d locks", COPIES);
    // calloc's zeros are the static initialisers.
    pthread_mutex_t *mutexes = calloc((size_t)count, sizeof *mutexes);
    pthread_rwlock_t *rwlocks = calloc(COPIES, sizeof *rwlocks);
    pthread_spinlock_t *spins = calloc(COPIES, sizeof *spins), *more = calloc((size_t)count, sizeof *more);
    CHECK(mutexes != NULL && rwlocks != NULL && spins != NULL && more != NULL);
    for (int i = 0; i < COPIES; i++) {
        MUST(pthread_rwlock_wrlock(&rwlocks[i]));
        MUST(pthread_rwlock_unlock(&rwlocks[i]));
        MUST(pthread_spin_init(&spins[i], PTHREAD_PROCESS_PRIVATE));
    }
    for (long i = 0; i < count; i++) {
        MUST(pthread_mutex_lock(&mutexes[i]));
        MUST(pthread_mutex_unlock(&mutexes[i]));
        MUST(pthread_spin_init(&more[i], PTHREAD_PROCESS_PRIVATE));
    }
    copies_of_mutexes(mutexes);
    copies_of_rwlocks(rwlocks);
    copies_of_spins(spins);
    printf("ok %ld locks\n", count);
    return 0;
}
