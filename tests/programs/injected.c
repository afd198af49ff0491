// Known critical sections, to hold a profile against. Four named locks: the static mutexes hot_lock and cold_lock,
// the static reader-writer lock index_lock, and a heap mutex, table_lock, made in make_table_lock() and taken in
// with_table_lock().
//
// usage: injected THREADS ITERATIONS [LOCK=HOLD_NS,THINK_NS[,EVERY[,READ_PERCENT]]]...
//
// In each iteration a thread takes each lock whose turn it is (every EVERY-th iteration), works HOLD_NS inside and
// THINK_NS after, by the clock. Prints, as JSON, how often each lock was taken and the time inside by the
// program's own clock: waiting and the calls themselves are not in it.

#include "stress.h"

enum { HOT, COLD, TABLE, INDEX, LOCKS };

static struct plan {
    const char *name, *kind;
    long hold_ns, think_ns, every, read_percent;
    _Atomic long reads, writes, held_ns;
} plans[LOCKS] = {
    [HOT] = {"hot_lock", "mutex", 500, 1000, 1, 0, 0, 0, 0},
    [COLD] = {"cold_lock", "mutex", 200, 2000, 16, 0, 0, 0, 0},
    [TABLE] = {"table_lock", "mutex", 300, 1000, 4, 0, 0, 0, 0},
    [INDEX] = {"index_lock", "rwlock", 400, 1000, 2, 80, 0, 0, 0},
};

// Not static, so that they have names in a stripped symbol table's dynamic part too.
pthread_mutex_t hot_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t cold_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t index_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t *table_lock;
static long iterations;

__attribute__((noinline)) pthread_mutex_t *make_table_lock(void) {
    pthread_mutex_t *lock = malloc(sizeof *lock);
    CHECK(lock != NULL);
    MUST(pthread_mutex_init(lock, NULL));
    return lock;
}

static void work_until(int64_t end_ns) {
    while (now_ns(CLOCK_MONOTONIC) < end_ns) {}
}

// The section itself: gives back how long it took.
static long hold(const struct plan *plan) {
    int64_t begun = now_ns(CLOCK_MONOTONIC), now;
    do now = now_ns(CLOCK_MONOTONIC);
    while (now < begun + plan->hold_ns);
    return (long)(now - begun);
}

__attribute__((noinline)) static long with_hot_lock(void) {
    MUST(pthread_mutex_lock(&hot_lock));
    long held = hold(&plans[HOT]);
    MUST(pthread_mutex_unlock(&hot_lock));
    return held;
}

__attribute__((noinline)) static long with_cold_lock(void) {
    MUST(pthread_mutex_lock(&cold_lock));
    long held = hold(&plans[COLD]);
    MUST(pthread_mutex_unlock(&cold_lock));
    return held;
}

__attribute__((noinline)) static long with_table_lock(void) {
    MUST(pthread_mutex_lock(table_lock));
    long held = hold(&plans[TABLE]);
    MUST(pthread_mutex_unlock(table_lock));
    return held;
}

__attribute__((noinline)) static long read_index(void) {
    MUST(pthread_rwlock_rdlock(&index_lock));
    long held = hold(&plans[INDEX]);
    MUST(pthread_rwlock_unlock(&index_lock));
    return held;
}

__attribute__((noinline)) static long write_index(void) {
    MUST(pthread_rwlock_wrlock(&index_lock));
    long held = hold(&plans[INDEX]);
    MUST(pthread_rwlock_unlock(&index_lock));
    return held;
}

static void *work(void *number) {
    (void)number;
    static long (*const write[LOCKS])(void) = {with_hot_lock, with_cold_lock, with_table_lock, write_index};
    struct {
        long reads, writes, held_ns;
    } own[LOCKS] = {0};
    for (long i = 0; i < iterations; i++)
        for (int l = 0; l < LOCKS; l++) {
            const struct plan *plan = &plans[l];
            if (i % plan->every != 0) continue;
            bool read = i / plan->every % 100 < plan->read_percent;
            own[l].held_ns += read ? read_index() : write[l]();
            if (read) own[l].reads++;
            else own[l].writes++;
            work_until(now_ns(CLOCK_MONOTONIC) + plan->think_ns);
        }
    for (int l = 0; l < LOCKS; l++) {
        plans[l].reads += own[l].reads;
        plans[l].writes += own[l].writes;
        plans[l].held_ns += own[l].held_ns;
    }
    return NULL;
}

static void read_plan(char *argument) {
    char *equals = strchr(argument, '=');
    for (int l = 0; equals != NULL && l < LOCKS; l++) {
        struct plan *plan = &plans[l];
        size_t length = (size_t)(equals - argument);
        if (strlen(plan->name) != length || strncmp(plan->name, argument, length) != 0) continue;
        plan->read_percent = 0;
        int fields = sscanf(equals + 1, "%ld,%ld,%ld,%ld", &plan->hold_ns, &plan->think_ns, &plan->every, &plan->read_percent);
        if (fields < 2 || plan->hold_ns < 0 || plan->think_ns < 0 || plan->every < 1) break;
        if (plan->read_percent < 0 || plan->read_percent > 100 || (plan->read_percent > 0 && l != INDEX)) break;
        return;
    }
    fail("'%s' is not LOCK=HOLD_NS,THINK_NS[,EVERY[,READ_PERCENT]] with hot_lock, cold_lock, table_lock or index_lock",
         argument);
}

int main(int argc, char **argv) {
    watch();
    long threads = number(argc, argv, 1, 2);
    iterations = number(argc, argv, 2, 2000);
    for (int i = 3; i < argc; i++) read_plan(argv[i]);
    table_lock = make_table_lock();
    struct team *team = assemble(threads, work);
    disperse(team);
    printf("{\"threads\":%ld,\"iterations\":%ld,\"locks\":[", threads, iterations);
    for (int l = 0; l < LOCKS; l++) {
        const struct plan *plan = &plans[l];
        printf("%s{\"name\":\"%s\",\"kind\":\"%s\",\"acquisitions\":%ld,\"reads\":%ld,\"writes\":%ld,\"hold_ns\":%ld,"
               "\"think_ns\":%ld,\"held_ns\":%ld}",
               l == 0 ? "" : ",", plan->name, plan->kind, plan->reads + plan->writes, (long)plan->reads, (long)plan->writes,
               plan->hold_ns, plan->think_ns, (long)plan->held_ns);
    }
    puts("]}");
    return 0;
}
