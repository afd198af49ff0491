// Counts lock calls, independently of the profiler: a library to be preloaded, before whatever else replaces the
// locks, that counts and passes on. At exit it writes JSON to the file named by COUNT_SHIM_OUT (with "%p" for the
// process id), or to standard error:
//
//   {"functions":{"pthread_mutex_lock":{"calls":3,"succeeded":3},...},
//    "locks":[{"address":"0x...","object":"program+0x4010","kind":"mutex","acquisitions":3,"reads":0,"writes":0,
//              "try_failures":0,"timeouts":0,"waits":0,"signals":0},...],"lost":0}
//
// A lock is a (kind, address) pair; "lost" counts calls on locks that no longer fitted in the table. An acquisition
// is a call that answered 0 or EOWNERDEAD; the re-acquisition inside a condition wait is not one, but counted as
// a wait, of the condition variable. "object" is file name and offset for locks in a loaded image.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum kind { NONE, MUTEX, RWLOCK, SPIN, COND };
static const char *const kind_names[] = {"", "mutex", "rwlock", "spin", "cond"};

struct lock {
    _Atomic uintptr_t key; // address, with the kind in its top byte; 0 is free
    _Atomic uint64_t reads, writes, try_failures, timeouts, waits, signals;
};

#define TABLE_BITS 18
static struct lock table[1 << TABLE_BITS];
static _Atomic uint64_t lost;

static struct lock *lock_of(enum kind kind, const volatile void *address) {
    uintptr_t key = (uintptr_t)address | (uintptr_t)kind << 56;
    size_t slot = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - TABLE_BITS));
    for (size_t probe = 0; probe < 256; probe++, slot = (slot + 1) & ((1 << TABLE_BITS) - 1)) {
        uintptr_t found = atomic_load_explicit(&table[slot].key, memory_order_relaxed);
        if (found == 0 && atomic_compare_exchange_strong(&table[slot].key, &found, key)) return &table[slot];
        if (found == key) return &table[slot];
    }
    lost++;
    return NULL;
}

#define ADD(which, field)                                                                                    \
    do {                                                                                                     \
        struct lock *counted = (which);                                                                      \
        if (counted != NULL) atomic_fetch_add_explicit(&counted->field, 1, memory_order_relaxed);            \
    } while (0)

// What an acquiring call's answer means for its lock.
static void acquired(struct lock *lock, int answer, bool read) {
    if (answer == 0 || answer == EOWNERDEAD) {
        if (read) ADD(lock, reads);
        else ADD(lock, writes);
    } else if (answer == EBUSY) {
        ADD(lock, try_failures);
    } else if (answer == ETIMEDOUT) {
        ADD(lock, timeouts);
    }
}

struct function {
    const char *name;
    void *_Atomic next;
    _Atomic uint64_t calls, succeeded;
    struct function *_Atomic listed; // the function listed before this one
};

static struct function *_Atomic functions;

static void *resolve(struct function *function) {
    void *next = function->next;
    if (next != NULL) return next;
    next = dlsym(RTLD_NEXT, function->name);
    if (next == NULL) {
        static const char message[] = "count_shim: a lock function has no definition behind the shim\n";
        if (write(STDERR_FILENO, message, sizeof message - 1) < 0) abort();
        abort();
    }
    void *none = NULL;
    if (atomic_compare_exchange_strong(&function->next, &none, next)) {
        struct function *head = functions;
        do function->listed = head;
        while (!atomic_compare_exchange_weak(&functions, &head, function));
    }
    return next;
}

static void answered(struct function *function, bool success) {
    atomic_fetch_add_explicit(&function->calls, 1, memory_order_relaxed);
    if (success) atomic_fetch_add_explicit(&function->succeeded, 1, memory_order_relaxed);
}

// Defines `entry`: passes the call on, counts it, and then does `count` with the answer.
#define PASS(entry, parameters, arguments, count)                                                             \
    int entry parameters {                                                                                    \
        static struct function function = {.name = #entry};                                                   \
        int(*next) parameters = (int(*) parameters)resolve(&function);                                       \
        int answer = next arguments;                                                                         \
        answered(&function, answer == 0 || answer == EOWNERDEAD);                                            \
        count;                                                                                               \
        return answer;                                                                                       \
    }

typedef const struct timespec *deadline_t;

#define WRITE(kind) acquired(lock_of(kind, lock), answer, false)
#define READ(kind) acquired(lock_of(kind, lock), answer, true)
#define NOTHING (void)0

PASS(pthread_mutex_lock, (pthread_mutex_t * lock), (lock), WRITE(MUTEX))
PASS(pthread_mutex_trylock, (pthread_mutex_t * lock), (lock), WRITE(MUTEX))
PASS(pthread_mutex_timedlock, (pthread_mutex_t * lock, deadline_t at), (lock, at), WRITE(MUTEX))
PASS(pthread_mutex_clocklock, (pthread_mutex_t * lock, clockid_t clock, deadline_t at), (lock, clock, at), WRITE(MUTEX))
PASS(pthread_mutex_unlock, (pthread_mutex_t * lock), (lock), NOTHING)
PASS(pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock), READ(RWLOCK))
PASS(pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock), WRITE(RWLOCK))
PASS(pthread_rwlock_tryrdlock, (pthread_rwlock_t * lock), (lock), READ(RWLOCK))
PASS(pthread_rwlock_trywrlock, (pthread_rwlock_t * lock), (lock), WRITE(RWLOCK))
PASS(pthread_rwlock_timedrdlock, (pthread_rwlock_t * lock, deadline_t at), (lock, at), READ(RWLOCK))
PASS(pthread_rwlock_timedwrlock, (pthread_rwlock_t * lock, deadline_t at), (lock, at), WRITE(RWLOCK))
PASS(pthread_rwlock_clockrdlock, (pthread_rwlock_t * lock, clockid_t clock, deadline_t at), (lock, clock, at), READ(RWLOCK))
PASS(pthread_rwlock_clockwrlock, (pthread_rwlock_t * lock, clockid_t clock, deadline_t at), (lock, clock, at), WRITE(RWLOCK))
PASS(pthread_rwlock_unlock, (pthread_rwlock_t * lock), (lock), NOTHING)
PASS(pthread_spin_lock, (pthread_spinlock_t * lock), (lock), WRITE(SPIN))
PASS(pthread_spin_trylock, (pthread_spinlock_t * lock), (lock), WRITE(SPIN))
PASS(pthread_spin_unlock, (pthread_spinlock_t * lock), (lock), NOTHING)
PASS(pthread_cond_signal, (pthread_cond_t * cond), (cond), ADD(lock_of(COND, cond), signals))
PASS(pthread_cond_broadcast, (pthread_cond_t * cond), (cond), ADD(lock_of(COND, cond), signals))
PASS(mtx_lock, (mtx_t * lock), (lock), WRITE(MUTEX))
PASS(mtx_trylock, (mtx_t * lock), (lock), acquired(lock_of(MUTEX, lock), answer == thrd_busy ? EBUSY : answer, false))
PASS(mtx_timedlock, (mtx_t * lock, deadline_t at), (lock, at),
     acquired(lock_of(MUTEX, lock), answer == thrd_timedout ? ETIMEDOUT : answer, false))
PASS(mtx_unlock, (mtx_t * lock), (lock), NOTHING)
PASS(cnd_signal, (cnd_t * cond), (cond), ADD(lock_of(COND, cond), signals))
PASS(cnd_broadcast, (cnd_t * cond), (cond), ADD(lock_of(COND, cond), signals))

// These are not counted, but an old object's condition variable must not be made by one version of them and used by
// another (they differ in layout before 2.3.2).
PASS(pthread_cond_init, (pthread_cond_t * cond, const pthread_condattr_t *attribute), (cond, attribute), NOTHING)
PASS(pthread_cond_destroy, (pthread_cond_t * cond), (cond), NOTHING)

// The names that objects linked before glibc 2.34 bind.
#define OLD_NAME(entry, type) int __##entry(type *) __attribute__((alias(#entry), nothrow, nonnull(1)))
OLD_NAME(pthread_mutex_lock, pthread_mutex_t);
OLD_NAME(pthread_mutex_trylock, pthread_mutex_t);
OLD_NAME(pthread_mutex_unlock, pthread_mutex_t);
OLD_NAME(pthread_rwlock_rdlock, pthread_rwlock_t);
OLD_NAME(pthread_rwlock_wrlock, pthread_rwlock_t);
OLD_NAME(pthread_rwlock_tryrdlock, pthread_rwlock_t);
OLD_NAME(pthread_rwlock_trywrlock, pthread_rwlock_t);
OLD_NAME(pthread_rwlock_unlock, pthread_rwlock_t);

// A wait may end by cancellation and never answer: it is counted when it begins.
#define PASS_WAIT(entry, parameters, arguments)                                                               \
    int entry parameters {                                                                                    \
        static struct function function = {.name = #entry};                                                   \
        int(*next) parameters = (int(*) parameters)resolve(&function);                                       \
        ADD(lock_of(COND, cond), waits);                                                                     \
        int answer = next arguments;                                                                         \
        answered(&function, answer == 0);                                                                    \
        return answer;                                                                                       \
    }

PASS_WAIT(pthread_cond_wait, (pthread_cond_t * cond, pthread_mutex_t *lock), (cond, lock))
PASS_WAIT(pthread_cond_timedwait, (pthread_cond_t * cond, pthread_mutex_t *lock, deadline_t at), (cond, lock, at))
PASS_WAIT(pthread_cond_clockwait, (pthread_cond_t * cond, pthread_mutex_t *lock, clockid_t clock, deadline_t at),
          (cond, lock, clock, at))
PASS_WAIT(cnd_wait, (cnd_t * cond, mtx_t *lock), (cond, lock))
PASS_WAIT(cnd_timedwait, (cnd_t * cond, mtx_t *lock, deadline_t at), (cond, lock, at))

static FILE *open_output(void) {
    const char *name = getenv("COUNT_SHIM_OUT");
    if (name == NULL) return stderr;
    char path[4096];
    const char *pid = strstr(name, "%p");
    if (pid == NULL) snprintf(path, sizeof path, "%s", name);
    else snprintf(path, sizeof path, "%.*s%d%s", (int)(pid - name), name, (int)getpid(), pid + 2);
    FILE *file = fopen(path, "we");
    if (file == NULL) fprintf(stderr, "count_shim: cannot write %s: %s\n", path, strerror(errno));
    return file == NULL ? stderr : file;
}

static void write_lock(FILE *file, const struct lock *lock, bool first) {
    uintptr_t address = lock->key & ((UINT64_C(1) << 56) - 1);
    fprintf(file, "%s\n{\"address\":\"%#lx\",\"kind\":\"%s\"", first ? "" : ",", (unsigned long)address,
            kind_names[lock->key >> 56]);
    Dl_info image;
    if (dladdr((void *)address, &image) != 0) {
        const char *base = strrchr(image.dli_fname, '/');
        fprintf(file, ",\"object\":\"%s+%#lx\"", base == NULL ? image.dli_fname : base + 1,
                (unsigned long)(address - (uintptr_t)image.dli_fbase));
    }
    if (lock->key >> 56 == COND) {
        fprintf(file, ",\"waits\":%lu,\"signals\":%lu}", (unsigned long)lock->waits, (unsigned long)lock->signals);
        return;
    }
    fprintf(file, ",\"acquisitions\":%lu,\"reads\":%lu,\"writes\":%lu,\"try_failures\":%lu,\"timeouts\":%lu}",
            (unsigned long)(lock->reads + lock->writes), (unsigned long)lock->reads, (unsigned long)lock->writes,
            (unsigned long)lock->try_failures, (unsigned long)lock->timeouts);
}

__attribute__((destructor)) static void write_counts(void) {
    FILE *file = open_output();
    fputs("{\"functions\":{", file);
    for (const struct function *function = functions; function != NULL; function = function->listed)
        fprintf(file, "%s\n\"%s\":{\"calls\":%lu,\"succeeded\":%lu}", function == functions ? "" : ",", function->name,
                (unsigned long)function->calls, (unsigned long)function->succeeded);
    fputs("},\n\"locks\":[", file);
    bool first = true;
    for (size_t slot = 0; slot < 1 << TABLE_BITS; slot++)
        if (table[slot].key != 0) {
            write_lock(file, &table[slot], first);
            first = false;
        }
    fprintf(file, "],\n\"lost\":%lu}\n", (unsigned long)lost);
    if (file != stderr) fclose(file);
}
