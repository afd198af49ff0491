// Locks of every kind on the heap, made by functions of their own and taken by threads in any order. Argument: 0 for locks
// that are initialised, 1 for those that are not (their bytes are those of the static initialisers).

#include "stress.h"

#define LOCKS 6
#define ROUNDS 400

static pthread_mutex_t *mutexes[LOCKS];
static pthread_rwlock_t *rwlocks[LOCKS];
static pthread_spinlock_t *spins[LOCKS];
static bool initialise;

__attribute__((noinline)) static void make_mutexes(void) {
    for (int i = 0; i < LOCKS; i++) {
        mutexes[i] = calloc(1, sizeof *mutexes[i]);
        if (initialise) MUST(pthread_mutex_init(mutexes[i], NULL));
    }
}

__attribute__((noinline)) static void make_rwlocks(void) {
    for (int i = 0; i < LOCKS; i++) {
        rwlocks[i] = calloc(1, sizeof *rwlocks[i]);
        if (initialise) MUST(pthread_rwlock_init(rwlocks[i], NULL));
    }
}

__attribute__((noinline)) static void make_spins(void) {
    for (int i = 0; i < LOCKS; i++) {
        spins[i] = malloc(sizeof(int));
        MUST(pthread_spin_init(spins[i], PTHREAD_PROCESS_PRIVATE));
    }
}

static void *take_all(void *number) {
    for (long i = 0; i < ROUNDS; i++) {
        long which = (i + (long)number) % LOCKS;
        MUST(pthread_mutex_lock(mutexes[which]));
        MUST(pthread_spin_lock(spins[which]));
        MUST(pthread_spin_unlock(spins[which]));
        MUST(pthread_mutex_unlock(mutexes[which]));
        if (i % 2) {
            MUST(pthread_rwlock_rdlock(rwlocks[which]));
        } else {
            MUST(pthread_rwlock_wrlock(rwlocks[which]));
        }
        MUST(pthread_rwlock_unlock(rwlocks[which]));
    }
    return NULL;
}

int main(int argc, char **argv) {
    watch();
    initialise = argc < 2 || strcmp(argv[1], "1") != 0;
    make_mutexes();
    make_rwlocks();
    make_spins();
    disperse(assemble(4, take_all));
    puts("ok");
    return 0;
}
