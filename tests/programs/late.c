// How late a wait for a mutex ends at its deadline when every core has something else to do, beside how late a sleep does.
// Arguments: rounds (3), waits in each (5).

#include "stress.h"

static const int64_t WAITS = 5 * MS;
// What a lock may do with the time of others before it looks at the clock again; a few time slices.
static const int64_t ALLOWED = 60 * MS;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool over;

static void *burn(void *number) {
    while (!over) __asm__ volatile("");
    return number;
}

static int64_t late_from(int64_t before) {
    int64_t late = now_ns(CLOCK_MONOTONIC) - before - WAITS;
    CHECK(late > -MS);
    return late;
}

static int64_t sleeps(void) {
    struct timespec time = from_now(CLOCK_MONOTONIC, WAITS);
    int64_t before = now_ns(CLOCK_MONOTONIC);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == 0);
    return late_from(before);
}

static int64_t waits(void) {
    struct timespec time = from_now(CLOCK_REALTIME, WAITS);
    int64_t before = now_ns(CLOCK_MONOTONIC);
    CHECK(pthread_mutex_timedlock(&mutex, &time) == ETIMEDOUT);
    return late_from(before);
}

static int64_t worst(int64_t (*wait)(void), long count) {
    int64_t worst = 0;
    for (long i = 0; i < count; i++) {
        int64_t late = wait();
        if (late > worst) worst = late;
    }
    return worst;
}

static long count;
static int64_t least; // of each round's worst wait, over its worst sleep

static void *impatient(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) {
        int64_t asleep = worst(sleeps, count), late = worst(waits, count) - asleep;
        if (i == 0 || late < least) least = late;
    }
    return NULL;
}

int main(int argc, char **argv) {
    watch();
    long rounds = number(argc, argv, 1, 3);
    count = number(argc, argv, 2, 5);
    struct team *burners = assemble(2 * sysconf(_SC_NPROCESSORS_ONLN), burn);
    MUST(pthread_mutex_lock(&mutex));
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, impatient, (void *)rounds));
    MUST(pthread_join(thread, NULL));
    MUST(pthread_mutex_unlock(&mutex));
    over = true;
    disperse(burners);
    if (least > ALLOWED) fail("in each round a wait ended %ld ms later than any sleep", (long)(least / MS));
    printf("ok %ld ms\n", (long)(least / MS));
    return 0;
}
