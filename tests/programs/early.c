// Locks before constructors: in .preinit_array, which runs before those of any library, and in the constructors of a
// library (early_library.c) that the dynamic linker initialises first (-z initfirst) or in its turn. The locks go
// on to be used by main, by its threads, and by the library's destructors. Fork handlers that were registered so early use
// locks for the first time.

#include "stress.h"
#include <sys/wait.h>

extern pthread_mutex_t early_mutex, early_recursive;
extern pthread_rwlock_t early_rwlock;
extern long early_count;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static pthread_mutex_t of_handlers[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void use_first(pthread_mutex_t *mutex) {
    MUST(pthread_mutex_lock(mutex));
    MUST(pthread_mutex_unlock(mutex));
}

static void before_fork(void) { use_first(&of_handlers[0]); }
static void in_parent(void) { use_first(&of_handlers[1]); }
static void in_child(void) { use_first(&of_handlers[2]); }

static void before_everything(void) {
    if (pthread_atfork(before_fork, in_parent, in_child) != 0) abort();
    struct timespec past = {.tv_sec = 1};
    if (pthread_mutex_lock(&mutex) != 0 || pthread_cond_timedwait(&cond, &mutex, &past) != ETIMEDOUT) abort();
    if (pthread_mutex_trylock(&mutex) != EBUSY || pthread_cond_broadcast(&cond) != 0) abort();
    if (pthread_rwlock_wrlock(&rwlock) != 0 || pthread_rwlock_tryrdlock(&rwlock) != EBUSY) abort();
    // Both stay held until main.
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_everything;

static void *work(void *argument) {
    for (int i = 0; i < 1000; i++) {
        MUST(pthread_mutex_lock(&early_mutex));
        early_count++;
        MUST(pthread_mutex_unlock(&early_mutex));
        MUST(pthread_mutex_lock(&mutex));
        MUST(pthread_mutex_unlock(&mutex));
        MUST(pthread_rwlock_rdlock(&rwlock));
        MUST(pthread_rwlock_unlock(&rwlock));
    }
    return argument;
}

static int trylock(void *lock) { return pthread_mutex_trylock(lock); }
static int trywrlock(void *lock) { return pthread_rwlock_trywrlock(lock); }

int main(void) {
    watch();
    struct actor other;
    hire(&other);
    CHECK(ask(&other, trylock, &mutex) == EBUSY);
    CHECK(ask(&other, trywrlock, &rwlock) == EBUSY);
    CHECK(ask(&other, trylock, &early_recursive) == EBUSY);
    dismiss(&other);
    MUST(pthread_mutex_unlock(&early_recursive));
    CHECK(pthread_mutex_unlock(&early_recursive) == EPERM);
    struct team *team = assemble(3, work);
    sleep_ns(MS);
    MUST(pthread_mutex_unlock(&mutex));
    MUST(pthread_rwlock_unlock(&rwlock));
    disperse(team);
    MUST(pthread_cond_signal(&cond)); // which the C library has used, and no thread waits on
    MUST(pthread_cond_destroy(&cond));
    pid_t pid = fork();
    if (pid == 0) {
        alarm(100);
        for (size_t i = 0; i < COUNT(of_handlers); i++) use_first(&of_handlers[i]);
        _exit(0);
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    return 0; // the library's destructor prints the last line
}
