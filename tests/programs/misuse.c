// What POSIX leaves undefined and glibc survives: unlocking what no thread holds, and moving and copying free locks. And very
// many locks held at once. Argument: mutexes held at once (4000).

#include "stress.h"

struct item {
    pthread_mutex_t mutex;
    pthread_spinlock_t spin;
    pthread_rwlock_t rwlock;
};

static void use_mutex(pthread_mutex_t *mutex) {
    for (int i = 0; i < 3; i++) {
        MUST(pthread_mutex_lock(mutex));
        CHECK(pthread_mutex_trylock(mutex) == EBUSY);
        MUST(pthread_mutex_unlock(mutex));
    }
}

static void use_spin(pthread_spinlock_t *spin) {
    for (int i = 0; i < 3; i++) {
        MUST(pthread_spin_lock(spin));
        CHECK(pthread_spin_trylock(spin) == EBUSY);
        MUST(pthread_spin_unlock(spin));
    }
}

static void use_rwlock(pthread_rwlock_t *lock) {
    for (int i = 0; i < 3; i++) {
        MUST(pthread_rwlock_rdlock(lock));
        CHECK(pthread_rwlock_trywrlock(lock) != 0);
        MUST(pthread_rwlock_unlock(lock));
        MUST(pthread_rwlock_wrlock(lock));
        CHECK(pthread_rwlock_tryrdlock(lock) != 0);
        MUST(pthread_rwlock_unlock(lock));
    }
}

static void unlock_too_often(void) {
    static pthread_mutex_t never_used = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_t mutexes[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
    pthread_mutexattr_t adaptive;
    MUST(pthread_mutexattr_init(&adaptive));
    MUST(pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP));
    MUST(pthread_mutex_init(&mutexes[1], &adaptive));
    MUST(pthread_mutex_unlock(&never_used));
    use_mutex(&never_used);
    for (size_t i = 0; i < COUNT(mutexes); i++) {
        use_mutex(&mutexes[i]);
        MUST(pthread_mutex_unlock(&mutexes[i]));
        MUST(pthread_mutex_unlock(&mutexes[i]));
        use_mutex(&mutexes[i]);
    }
    pthread_spinlock_t spin;
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    MUST(pthread_spin_unlock(&spin));
    use_spin(&spin);
    MUST(pthread_spin_unlock(&spin));
    use_spin(&spin);
    MUST(pthread_spin_destroy(&spin));
}

// glibc's own reader-writer lock does not survive this, so it is done where something replaces it.
static void unlock_rwlock_too_often(void) {
    static pthread_rwlock_t never_used = PTHREAD_RWLOCK_INITIALIZER;
    MUST(pthread_rwlock_unlock(&never_used));
    use_rwlock(&never_used);
    MUST(pthread_rwlock_unlock(&never_used));
    MUST(pthread_rwlock_unlock(&never_used));
    use_rwlock(&never_used);
}

// All pairs are held at once, each by its own word: no two of them may be one lock.
static void all_different(struct item **items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        MUST(pthread_mutex_trylock(&items[i]->mutex));
        MUST(pthread_spin_trylock(&items[i]->spin));
        MUST(pthread_rwlock_trywrlock(&items[i]->rwlock));
    }
    for (size_t i = 0; i < count; i++) {
        MUST(pthread_mutex_unlock(&items[i]->mutex));
        MUST(pthread_spin_unlock(&items[i]->spin));
        MUST(pthread_rwlock_unlock(&items[i]->rwlock));
    }
}

static void make(struct item *item) {
    MUST(pthread_mutex_init(&item->mutex, NULL));
    MUST(pthread_spin_init(&item->spin, PTHREAD_PROCESS_PRIVATE));
    MUST(pthread_rwlock_init(&item->rwlock, NULL));
    use_mutex(&item->mutex);
    use_spin(&item->spin);
    use_rwlock(&item->rwlock);
}

static void move_and_copy(void) {
    enum { N = 8 };
    struct item first[N], second[N], third[N];
    struct item *all[3 * N];
    for (int i = 0; i < N; i++) make(&first[i]);
    memcpy(second, first, sizeof first);            // moved: where they were, others are made
    for (int i = 0; i < N; i++) make(&first[i]);
    for (int i = 0; i < N; i++) third[i] = first[0]; // one template for all
    for (int i = 0; i < N; i++) {
        all[3 * i] = &first[i];
        all[3 * i + 1] = &second[i];
        all[3 * i + 2] = &third[i];
    }
    all_different(all, 3 * N);
    // A copy that was made while the original was free is no hold of it, even if that one is held when the copy is used first.
    pthread_mutex_t original = PTHREAD_MUTEX_INITIALIZER, copy;
    use_mutex(&original);
    copy = original;
    MUST(pthread_mutex_lock(&original));
    use_mutex(&copy);
    MUST(pthread_mutex_unlock(&original));
    for (int i = 0; i < 3 * N; i++) {
        use_mutex(&all[i]->mutex);
        MUST(pthread_mutex_destroy(&all[i]->mutex));
        MUST(pthread_spin_destroy(&all[i]->spin));
        use_rwlock(&all[i]->rwlock);
        MUST(pthread_rwlock_destroy(&all[i]->rwlock));
    }
}

static int64_t hold_at_once(size_t count) {
    pthread_mutex_t *mutexes = (pthread_mutex_t *)calloc(count, sizeof *mutexes); // zeros are the initialiser
    CHECK(mutexes != NULL);
    for (size_t i = 0; i < count; i++) { // what happens at a first use only is not measured
        MUST(pthread_mutex_lock(&mutexes[i]));
        MUST(pthread_mutex_unlock(&mutexes[i]));
    }
    int64_t begun = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < count; i++) MUST(pthread_mutex_lock(&mutexes[i]));
    // From both ends: far from each other in any list, and near in memory, whose caches are not what is measured.
    for (size_t i = 0; i < count; i++)
        MUST(pthread_mutex_unlock(&mutexes[i % 2 == 0 ? i / 2 : count - 1 - i / 2]));
    int64_t used = now_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
    for (size_t i = 0; i < count; i++) MUST(pthread_mutex_destroy(&mutexes[i]));
    free(mutexes);
    return used;
}

int main(int argc, char **argv) {
    watch();
    size_t count = (size_t)number(argc, argv, 1, 4000);
    unlock_too_often();
    if (argc > 2) unlock_rwlock_too_often();
    move_and_copy();
    // Eight times as many take eight times as long, and 64 times where each has to look at all others.
    for (int tries = 0;; tries++) {
        int64_t few = hold_at_once(count), many = hold_at_once(8 * count);
        if (many < 24 * few) break;
        if (tries == 4) fail("%zu held at once: %ld us, eight times as many: %ld us", count, (long)few / 1000, (long)many / 1000);
    }
    printf("ok %zu\n", count);
    return 0;
}
