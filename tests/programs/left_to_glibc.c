// Mutexes that stay glibc's: process-shared, robust, priority-inheriting and priority-protected ones, alone
// and in a condition wait; and the process-shared condition variable.

#include "case.h"
#include <sys/mman.h>
#include <sys/wait.h>

struct kind {
    const char *name;
    int type, shared, robust, protocol;
};

static const struct kind kinds[] = {
    {"shared", PTHREAD_MUTEX_NORMAL, 1, 0, PTHREAD_PRIO_NONE},
    {"shared recursive", PTHREAD_MUTEX_RECURSIVE, 1, 0, PTHREAD_PRIO_NONE},
    {"shared errorcheck", PTHREAD_MUTEX_ERRORCHECK, 1, 0, PTHREAD_PRIO_NONE},
    {"robust", PTHREAD_MUTEX_NORMAL, 0, 1, PTHREAD_PRIO_NONE},
    {"robust recursive", PTHREAD_MUTEX_RECURSIVE, 0, 1, PTHREAD_PRIO_NONE},
    {"robust errorcheck", PTHREAD_MUTEX_ERRORCHECK, 0, 1, PTHREAD_PRIO_NONE},
    {"robust shared", PTHREAD_MUTEX_NORMAL, 1, 1, PTHREAD_PRIO_NONE},
    {"inherit", PTHREAD_MUTEX_NORMAL, 0, 0, PTHREAD_PRIO_INHERIT},
    {"inherit recursive", PTHREAD_MUTEX_RECURSIVE, 0, 0, PTHREAD_PRIO_INHERIT},
    {"inherit errorcheck", PTHREAD_MUTEX_ERRORCHECK, 0, 0, PTHREAD_PRIO_INHERIT},
    {"inherit robust shared", PTHREAD_MUTEX_NORMAL, 1, 1, PTHREAD_PRIO_INHERIT},
    {"protect", PTHREAD_MUTEX_NORMAL, 0, 0, PTHREAD_PRIO_PROTECT},
    {"protect recursive", PTHREAD_MUTEX_RECURSIVE, 0, 0, PTHREAD_PRIO_PROTECT},
};

static int lock(void *mutex) { return pthread_mutex_lock(mutex); }
static int trylock(void *mutex) { return pthread_mutex_trylock(mutex); }
static int unlock(void *mutex) { return pthread_mutex_unlock(mutex); }
static int lock_soon(void *mutex) {
    struct timespec deadline = from_now(CLOCK_REALTIME, 10 * MS);
    return pthread_mutex_timedlock(mutex, &deadline);
}
static int clocklock_soon(void *mutex) {
    struct timespec deadline = from_now(CLOCK_MONOTONIC, 10 * MS);
    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &deadline);
}

static struct actor other;

static int make(pthread_mutex_t *mutex, const struct kind *kind) {
    pthread_mutexattr_t attribute;
    MUST(pthread_mutexattr_init(&attribute));
    MUST(pthread_mutexattr_settype(&attribute, kind->type));
    MUST(pthread_mutexattr_setprotocol(&attribute, kind->protocol));
    if (kind->shared) MUST(pthread_mutexattr_setpshared(&attribute, PTHREAD_PROCESS_SHARED));
    if (kind->robust) MUST(pthread_mutexattr_setrobust(&attribute, PTHREAD_MUTEX_ROBUST));
    int error = pthread_mutex_init(mutex, &attribute);
    MUST(pthread_mutexattr_destroy(&attribute));
    return error;
}

// Returns false where this user may not lock such a mutex (a priority ceiling needs a real-time policy).
static bool usable(pthread_mutex_t *mutex, const char *kind) {
    int error = report("pthread_mutex_lock", kind, "unlocked", lock(mutex));
    if (error == 0) report("pthread_mutex_unlock", kind, "held-by-self", unlock(mutex));
    return error == 0;
}

static void states(pthread_mutex_t *mutex, const struct kind *kind) {
    const char *name = kind->name;
    bool checks = kind->type != PTHREAD_MUTEX_NORMAL;
    MUST(lock(mutex));
    int error = report("pthread_mutex_trylock", name, "held-by-self", trylock(mutex));
    if (error == 0) MUST(unlock(mutex));
    if (checks) {
        error = report("pthread_mutex_lock", name, "held-by-self", lock(mutex));
        if (error == 0) report("pthread_mutex_unlock", name, "held twice", unlock(mutex));
        report("pthread_mutex_unlock, by another", name, "held-by-other", ask(&other, unlock, mutex));
    }
    report("pthread_mutex_trylock, by another", name, "held-by-other", ask(&other, trylock, mutex));
    report("pthread_mutex_timedlock, by another", name, "held-by-other", ask(&other, lock_soon, mutex));
    report("pthread_mutex_clocklock, by another", name, "held-by-other", ask(&other, clocklock_soon, mutex));
    bool waits = start(&other, lock, mutex);
    printf("pthread_mutex_lock, by another | %s | held-by-other -> %s\n", name, waits ? "blocks" : "returns");
    report("pthread_mutex_unlock", name, "with a waiter", unlock(mutex));
    report("pthread_mutex_lock, by another", name, "after waiting", collect(&other));
    report("pthread_mutex_trylock", name, "held by the former waiter", trylock(mutex));
    report("pthread_mutex_unlock, by another", name, "held-by-self", ask(&other, unlock, mutex));
    if (checks) report("pthread_mutex_unlock", name, "unlocked", unlock(mutex));
    int ceiling;
    report("pthread_mutex_getprioceiling", name, "unlocked", pthread_mutex_getprioceiling(mutex, &ceiling));
    report("pthread_mutex_consistent", name, "unlocked", pthread_mutex_consistent(mutex));
}

static void *die_holding(void *mutex) {
    MUST(lock(mutex));
    return NULL;
}

static void orphan(pthread_mutex_t *mutex, bool process) {
    if (process) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) _exit(lock(mutex));
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        return;
    }
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, die_holding, mutex));
    MUST(pthread_join(thread, NULL));
}

// The owner dies: the next one is told, and may repair the mutex or leave it for dead.
static void owner_dies(pthread_mutex_t *mutex, const struct kind *kind, bool process) {
    static const struct {
        const char *name;
        deed call;
    } calls[] = {{"pthread_mutex_lock", lock},
                 {"pthread_mutex_trylock", trylock},
                 {"pthread_mutex_timedlock", lock_soon},
                 {"pthread_mutex_clocklock", clocklock_soon}};
    const char *owner = process ? "owner process died" : "owner thread died";
    for (size_t i = 0; i < COUNT(calls); i++) {
        orphan(mutex, process);
        report(calls[i].name, kind->name, owner, calls[i].call(mutex));
        report("pthread_mutex_trylock, by another", kind->name, "taken over", ask(&other, trylock, mutex));
        report("pthread_mutex_consistent", kind->name, "taken over", pthread_mutex_consistent(mutex));
        report("pthread_mutex_unlock", kind->name, "repaired", unlock(mutex));
        report(calls[i].name, kind->name, "repaired", calls[i].call(mutex));
        MUST(unlock(mutex));
    }
    for (size_t i = 0; i < COUNT(calls); i++) {
        MUST(pthread_mutex_destroy(mutex));
        MUST(make(mutex, kind));
        orphan(mutex, process);
        report("pthread_mutex_lock", kind->name, owner, lock(mutex));
        report("pthread_mutex_unlock", kind->name, "taken over, not repaired", unlock(mutex));
        report(calls[i].name, kind->name, "not repaired", calls[i].call(mutex));
        report(calls[i].name, kind->name, "not repaired, by another", ask(&other, calls[i].call, mutex));
    }
    MUST(pthread_mutex_destroy(mutex));
    MUST(make(mutex, kind));
}

// ---- such a mutex in a condition wait

struct room {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int how, tokens;
    _Atomic int entered;
};

// Waits for a token, through spurious wake-ups, or until the patience is at its end.
static int wait_for_token(struct room *room, int64_t patience_ns) {
    struct timespec real = from_now(CLOCK_REALTIME, patience_ns), mono = from_now(CLOCK_MONOTONIC, patience_ns);
    int error = 0;
    while (room->tokens == 0 && error == 0) switch (room->how) {
        case 0: error = pthread_cond_wait(&room->cond, &room->mutex); break;
        case 1: error = pthread_cond_timedwait(&room->cond, &room->mutex, &real); break;
        default: error = pthread_cond_clockwait(&room->cond, &room->mutex, CLOCK_MONOTONIC, &mono);
        }
    return error;
}

static int take_token(void *argument) {
    struct room *room = argument;
    MUST(lock(&room->mutex));
    room->entered = 1;
    int error = wait_for_token(room, 20000 * MS);
    if (error == 0 || error == EOWNERDEAD) room->tokens--;
    if (error == EOWNERDEAD) MUST(pthread_mutex_consistent(&room->mutex));
    if (error != ENOTRECOVERABLE) MUST(unlock(&room->mutex));
    return error;
}

static void *signal_and_die(void *argument) {
    struct room *room = argument;
    MUST(lock(&room->mutex));
    room->tokens = 1;
    MUST(pthread_cond_signal(&room->cond));
    return NULL;
}

static void make_cond(pthread_cond_t *cond, bool shared) {
    pthread_condattr_t attribute;
    MUST(pthread_condattr_init(&attribute));
    if (shared) MUST(pthread_condattr_setpshared(&attribute, PTHREAD_PROCESS_SHARED));
    MUST(pthread_cond_init(cond, &attribute));
    MUST(pthread_condattr_destroy(&attribute));
}

static void condition(struct room *room, const struct kind *kind, bool shared_cond) {
    static const char *const names[] = {"pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait"};
    char name[64];
    snprintf(name, sizeof name, "%s%s", kind->name, shared_cond ? ", shared condition" : "");
    make_cond(&room->cond, shared_cond);
    for (room->how = 0; room->how < 3; room->how++) {
        room->tokens = 0;
        room->entered = 0;
        start(&other, take_token, room);
        while (!room->entered) sched_yield();
        MUST(lock(&room->mutex));
        MUST(unlock(&room->mutex));
        // Of a robust mutex glibc's destroy does not ask.
        if (!kind->robust) {
            int error = pthread_mutex_destroy(&room->mutex);
            report("pthread_mutex_destroy", name, "one waits to take it back", error);
        }
        MUST(lock(&room->mutex));
        room->tokens = 1;
        report("pthread_cond_signal", name, "one waits", pthread_cond_signal(&room->cond));
        MUST(unlock(&room->mutex));
        report(names[room->how], name, "signalled", collect(&other));

        room->entered = 0;
        start(&other, take_token, room);
        while (!room->entered) sched_yield();
        MUST(lock(&room->mutex));
        room->tokens = 1;
        report("pthread_cond_broadcast", name, "one waits", pthread_cond_broadcast(&room->cond));
        MUST(unlock(&room->mutex));
        report(names[room->how], name, "broadcast", collect(&other));

        if (room->how > 0) {
            MUST(lock(&room->mutex));
            report(names[room->how], name, "nobody signals", wait_for_token(room, 10 * MS));
            report("pthread_mutex_trylock, by another", name, "re-acquired", ask(&other, trylock, &room->mutex));
            report("pthread_mutex_unlock", name, "re-acquired", unlock(&room->mutex));
        }
        if (kind->robust) {
            room->entered = 0;
            start(&other, take_token, room);
            while (!room->entered) sched_yield();
            pthread_t thread;
            MUST(pthread_create(&thread, NULL, signal_and_die, room));
            MUST(pthread_join(thread, NULL));
            report(names[room->how], name, "the signaller died with the mutex", collect(&other));
            report("pthread_mutex_lock", name, "after that", lock(&room->mutex));
            report("pthread_mutex_unlock", name, "after that", unlock(&room->mutex));
        }
    }
    report("pthread_cond_destroy", name, "nobody waits", pthread_cond_destroy(&room->cond));
}

static void between_processes(struct room *room, const struct kind *kind) {
    make_cond(&room->cond, true);
    room->how = 1;
    room->tokens = 0;
    room->entered = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(take_token(room));
    while (!room->entered) sched_yield();
    MUST(lock(&room->mutex));
    room->tokens = 1;
    MUST(pthread_cond_signal(&room->cond));
    MUST(unlock(&room->mutex));
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    report("pthread_cond_timedwait, in another process", kind->name, "signalled", WEXITSTATUS(status));
    report("pthread_cond_destroy", kind->name, "the process is gone", pthread_cond_destroy(&room->cond));
}

int main(void) {
    watch();
    hire(&other);
    struct room *room = mmap(NULL, sizeof *room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        const struct kind *kind = &kinds[i];
        pthread_mutex_t *mutex = &room->mutex;
        report("pthread_mutex_init", kind->name, "new", make(mutex, kind));
        if (usable(mutex, kind->name)) {
            states(mutex, kind);
            if (kind->robust) owner_dies(mutex, kind, false);
            if (kind->robust && kind->shared) owner_dies(mutex, kind, true);
            condition(room, kind, false);
            condition(room, kind, true);
            if (kind->shared) between_processes(room, kind);
        }
        report("pthread_mutex_destroy", kind->name, "unlocked", pthread_mutex_destroy(mutex));
    }
    // A shared condition variable with a mutex that is not: it stays glibc's, whatever the mutex is.
    static const struct kind plain = {"private mutex", PTHREAD_MUTEX_NORMAL, 0, 0, PTHREAD_PRIO_NONE};
    MUST(make(&room->mutex, &plain));
    condition(room, &plain, true);
    MUST(pthread_mutex_destroy(&room->mutex));
    dismiss(&other);
    puts("end");
    return 0;
}
