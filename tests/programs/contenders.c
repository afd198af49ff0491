// Hundreds of threads at one object, and a mutex that its holder locks again. Arguments: threads (500), times (3).

#include "stress.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static int waiting, woken;
static bool broadcast;
static _Atomic long entered;

static void *wait_for_broadcast(void *unused) {
    (void)unused;
    MUST(pthread_mutex_lock(&mutex));
    waiting++;
    while (!broadcast) MUST(pthread_cond_wait(&cond, &mutex));
    woken++;
    MUST(pthread_mutex_unlock(&mutex));
    return NULL;
}

static int all_wait(long threads) {
    MUST(pthread_mutex_lock(&mutex));
    int all = waiting == threads;
    MUST(pthread_mutex_unlock(&mutex));
    return all;
}

// All of them wait for a condition, and all of them get the mutex back.
static void by_broadcast(long threads) {
    waiting = woken = 0;
    broadcast = false;
    struct team *team = assemble(threads, wait_for_broadcast);
    while (!all_wait(threads)) sleep_ns(MS);
    MUST(pthread_mutex_lock(&mutex));
    broadcast = true;
    MUST(pthread_cond_broadcast(&cond));
    MUST(pthread_mutex_unlock(&mutex));
    disperse(team);
    CHECK(woken == threads);
}

static void *take_spin_lock(void *unused) {
    (void)unused;
    MUST(pthread_spin_lock(&spin));
    entered++;
    MUST(pthread_spin_unlock(&spin));
    return NULL;
}

// All of them come while the lock is held.
static void by_spinning(long threads) {
    entered = 0;
    MUST(pthread_spin_lock(&spin));
    struct team *team = assemble(threads, take_spin_lock);
    CHECK(entered == 0);
    MUST(pthread_spin_unlock(&spin));
    disperse(team);
    CHECK(entered == threads);
}

static int lock_again(void *object) {
    MUST(pthread_mutex_lock(object));
    MUST(pthread_mutex_lock(object));
    return pthread_mutex_unlock(object);
}

// A mutex that does not check stops the thread that takes it twice, until another thread unlocks it.
static void locked_again(struct actor *actor, pthread_mutex_t *object) {
    CHECK(start(actor, lock_again, object));
    CHECK(pthread_mutex_trylock(object) == EBUSY);
    MUST(pthread_mutex_unlock(object));
    MUST(collect(actor));
    MUST(pthread_mutex_trylock(object));
    MUST(pthread_mutex_unlock(object));
}

int main(int argc, char **argv) {
    watch();
    long threads = number(argc, argv, 1, 500), times = number(argc, argv, 2, 3);
    MUST(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    struct actor actor;
    hire(&actor);
    pthread_mutex_t made;
    MUST(pthread_mutex_init(&made, NULL));
    for (long i = 0; i < times; i++) {
        by_broadcast(threads);
        by_spinning(threads / 10 + 1);
        locked_again(&actor, &mutex);
        locked_again(&actor, &made);
    }
    dismiss(&actor);
    printf("ok %ld threads\n", threads);
    return 0;
}
