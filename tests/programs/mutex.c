// pthread_mutex_{init,destroy,lock,trylock,unlock}: every kind in every state.

#include "case.h"
#include <sys/wait.h>

enum want { NORMAL, RECURSIVE, ERRORCHECK };

struct kind {
    const char *name;
    enum want want;
    int type; // of the attribute; -1: no attribute, -2: static initialiser
    pthread_mutex_t fresh;
};

static const struct kind kinds[] = {
    {"static", NORMAL, -2, PTHREAD_MUTEX_INITIALIZER},
    {"static recursive", RECURSIVE, -2, PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP},
    {"static errorcheck", ERRORCHECK, -2, PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP},
    {"static adaptive", NORMAL, -2, PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP},
    {"no attribute", NORMAL, -1, PTHREAD_MUTEX_INITIALIZER},
    {"default", NORMAL, PTHREAD_MUTEX_DEFAULT, PTHREAD_MUTEX_INITIALIZER},
    {"normal", NORMAL, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_INITIALIZER},
    {"recursive", RECURSIVE, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_INITIALIZER},
    {"errorcheck", ERRORCHECK, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_INITIALIZER},
    {"adaptive", NORMAL, PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_INITIALIZER},
};

static struct actor other, third;

static int lock(void *mutex) { return pthread_mutex_lock(mutex); }
static int trylock(void *mutex) { return pthread_mutex_trylock(mutex); }
static int unlock(void *mutex) { return pthread_mutex_unlock(mutex); }

static int make(pthread_mutex_t *mutex, const struct kind *kind) {
    if (kind->type == -2) {
        *mutex = kind->fresh;
        return 0;
    }
    memset(mutex, 0xA5, sizeof *mutex); // init may not trust what was there
    if (kind->type == -1) return pthread_mutex_init(mutex, NULL);
    pthread_mutexattr_t attribute;
    MUST(pthread_mutexattr_init(&attribute));
    MUST(pthread_mutexattr_settype(&attribute, kind->type));
    int error = pthread_mutex_init(mutex, &attribute);
    MUST(pthread_mutexattr_destroy(&attribute));
    return error;
}

static void unlocked(pthread_mutex_t *mutex, const char *kind, enum want want) {
    report("pthread_mutex_lock", kind, "unlocked", lock(mutex));
    report("pthread_mutex_unlock", kind, "held-by-self", unlock(mutex));
    report("pthread_mutex_trylock", kind, "unlocked", trylock(mutex));
    report("pthread_mutex_unlock", kind, "held-by-self after trylock", unlock(mutex));
    report("pthread_mutex_trylock", kind, "unlocked, by another", ask(&other, trylock, mutex));
    report("pthread_mutex_unlock", kind, "held-by-self, by another", ask(&other, unlock, mutex));
    if (want != NORMAL) { // elsewhere undefined
        report("pthread_mutex_unlock", kind, "unlocked", unlock(mutex));
        report("pthread_mutex_unlock", kind, "unlocked, by another", ask(&other, unlock, mutex));
        report("pthread_mutex_lock", kind, "after a refused unlock", lock(mutex));
        report("pthread_mutex_unlock", kind, "after a refused unlock", unlock(mutex));
    }
}

static void held_by_self(pthread_mutex_t *mutex, const char *kind, enum want want) {
    MUST(lock(mutex));
    int error = report("pthread_mutex_trylock", kind, "held-by-self", trylock(mutex));
    if (error == 0) report("pthread_mutex_unlock", kind, "second hold", unlock(mutex));
    if (want != NORMAL) {
        error = report("pthread_mutex_lock", kind, "held-by-self", lock(mutex));
        if (error == 0) report("pthread_mutex_unlock", kind, "second hold", unlock(mutex));
    }
    report("pthread_mutex_trylock", kind, "still held, by another", ask(&other, trylock, mutex));
    report("pthread_mutex_destroy", kind, "held-by-self", pthread_mutex_destroy(mutex));
    report("pthread_mutex_unlock", kind, "held-by-self after a refused destroy", unlock(mutex));
}

static void held_by_other(pthread_mutex_t *mutex, const char *kind, enum want want) {
    MUST(ask(&other, lock, mutex));
    report("pthread_mutex_trylock", kind, "held-by-other", trylock(mutex));
    if (want != NORMAL) report("pthread_mutex_unlock", kind, "held-by-other", unlock(mutex));
    report("pthread_mutex_destroy", kind, "held-by-other", pthread_mutex_destroy(mutex));
    bool waits = start(&third, lock, mutex);
    printf("pthread_mutex_lock | %s | held-by-other -> %s\n", kind, waits ? "blocks" : "returns");
    report("pthread_mutex_trylock", kind, "held-by-other with a waiter", trylock(mutex));
    report("pthread_mutex_unlock", kind, "held-by-self with a waiter", ask(&other, unlock, mutex));
    report("pthread_mutex_lock", kind, "after waiting", collect(&third));
    report("pthread_mutex_trylock", kind, "held by the former waiter", ask(&other, trylock, mutex));
    if (want != NORMAL) report("pthread_mutex_unlock", kind, "no longer the owner", ask(&other, unlock, mutex));
    report("pthread_mutex_unlock", kind, "the former waiter", ask(&third, unlock, mutex));
}

static void depth(pthread_mutex_t *mutex, const char *kind) {
    char state[64];
    for (int held = 0; held < 4; held++) {
        snprintf(state, sizeof state, "held %d times", held);
        report(held % 2 == 0 ? "pthread_mutex_lock" : "pthread_mutex_trylock", kind, state,
               held % 2 == 0 ? lock(mutex) : trylock(mutex));
    }
    for (int held = 4; held > 0; held--) {
        snprintf(state, sizeof state, "held %d times", held);
        report("pthread_mutex_trylock, by another", kind, state, ask(&other, trylock, mutex));
        report("pthread_mutex_unlock", kind, state, unlock(mutex));
    }
    report("pthread_mutex_unlock", kind, "held 0 times", unlock(mutex));
    report("pthread_mutex_trylock, by another", kind, "held 0 times", ask(&other, trylock, mutex));
    report("pthread_mutex_unlock, by another", kind, "held once", ask(&other, unlock, mutex));
}

// A free mutex is as usable in the child of a fork as in the parent; the child gives its answer as exit status.
static int in_child(pthread_mutex_t *mutex) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int error = lock(mutex);
        if (error == 0) error = trylock(mutex) == 0 ? unlock(mutex) : 0;
        if (error == 0) error = unlock(mutex);
        _exit(error);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

// Functions that are not replaced read the kind of the mutex out of the object.
static void neighbours(pthread_mutex_t *mutex, const char *kind) {
    int ceiling;
    report("pthread_mutex_consistent", kind, "unlocked", pthread_mutex_consistent(mutex));
    report("pthread_mutex_getprioceiling", kind, "unlocked", pthread_mutex_getprioceiling(mutex, &ceiling));
    report("pthread_mutex_setprioceiling", kind, "unlocked", pthread_mutex_setprioceiling(mutex, 1, &ceiling));
}

static void whole_life(pthread_mutex_t *mutex, const char *kind, enum want want) {
    unlocked(mutex, kind, want);
    held_by_self(mutex, kind, want);
    held_by_other(mutex, kind, want);
    if (want == RECURSIVE) depth(mutex, kind);
    neighbours(mutex, kind);
}

int main(void) {
    watch();
    hire(&other);
    hire(&third);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        const struct kind *kind = &kinds[i];
        pthread_mutex_t mutex;
        report("pthread_mutex_init", kind->name, "new", make(&mutex, kind));
        report("pthread_mutex_destroy", kind->name, "never used", pthread_mutex_destroy(&mutex));
        MUST(make(&mutex, kind));
        whole_life(&mutex, kind->name, kind->want);
        report("pthread_mutex_destroy", kind->name, "unlocked", pthread_mutex_destroy(&mutex));

        // Destroyed and made again in the same place: as each other kind, so that nothing is left over.
        for (size_t j = 0; j < COUNT(kinds); j++) {
            char name[64];
            snprintf(name, sizeof name, "%s, was %s", kinds[j].name, kind->name);
            MUST(make(&mutex, kind));
            MUST(lock(&mutex));
            MUST(unlock(&mutex));
            MUST(pthread_mutex_destroy(&mutex));
            MUST(make(&mutex, &kinds[j]));
            unlocked(&mutex, name, kinds[j].want);
            MUST(lock(&mutex));
            if (report("pthread_mutex_trylock", name, "held-by-self", trylock(&mutex)) == 0) MUST(unlock(&mutex));
            MUST(unlock(&mutex));
            report("pthread_mutex_destroy", name, "unlocked", pthread_mutex_destroy(&mutex));
        }

        // A fresh mutex is plain data: a copy of the initialiser, or of an unused one, is one too.
        pthread_mutex_t unused, copy;
        MUST(make(&unused, kind));
        memcpy(&copy, &unused, sizeof copy);
        MUST(lock(&copy));
        report("pthread_mutex_trylock", kind->name, "original of a held copy", ask(&other, trylock, &unused));
        MUST(ask(&other, unlock, &unused));
        report("pthread_mutex_trylock", kind->name, "held copy", ask(&other, trylock, &copy));
        MUST(unlock(&copy));
        report("lock and unlock in the child of a fork", kind->name, "unlocked", in_child(&copy));
    }
    dismiss(&other);
    dismiss(&third);
    puts("end");
    return 0;
}
