// A bounded buffer under condition variables: every item arrives once, with signals, broadcasts, short timed
// waits, each clock, and a recursive mutex. Arguments: threads (4, half of them producers), items per producer (5000).

#include "stress.h"

#define SLOTS 8

enum variant { SIGNALS, BROADCASTS, MONOTONIC, SHORT_WAITS, OUTSIDE, RECURSIVE, VARIANTS };

static enum variant variant;
static long per_producer, consumers;
static pthread_mutex_t mutex;
static pthread_cond_t not_full, not_empty;
static long slots[SLOTS], used, first;
static long produced_sum, consumed_sum, consumed_count, expected_count;

static void wait_on(pthread_cond_t *cond) {
    struct timespec deadline;
    int error;
    switch (variant) {
    case MONOTONIC:
        deadline = from_now(CLOCK_MONOTONIC, 20000 * MS);
        MUST(pthread_cond_timedwait(cond, &mutex, &deadline));
        break;
    case SHORT_WAITS:
        deadline = from_now(CLOCK_MONOTONIC, MS / 10);
        error = pthread_cond_clockwait(cond, &mutex, CLOCK_MONOTONIC, &deadline);
        if (error != ETIMEDOUT) MUST(error);
        break;
    default: MUST(pthread_cond_wait(cond, &mutex));
    }
}

static void lock(void) { MUST(pthread_mutex_lock(&mutex)); }

static void unlock_and_wake(pthread_cond_t *cond) {
    if (variant == OUTSIDE) MUST(pthread_mutex_unlock(&mutex));
    MUST(variant == BROADCASTS ? pthread_cond_broadcast(cond) : pthread_cond_signal(cond));
    if (variant != OUTSIDE) MUST(pthread_mutex_unlock(&mutex));
}

static void *produce(void *number) {
    for (long i = 0; i < per_producer; i++) {
        lock();
        while (used == SLOTS) wait_on(&not_full);
        long item = (long)number * per_producer + i;
        slots[(first + used++) % SLOTS] = item;
        produced_sum += item;
        unlock_and_wake(&not_empty);
    }
    return NULL;
}

static void *consume(void *unused) {
    for (;;) {
        lock();
        while (used == 0 && consumed_count < expected_count) wait_on(&not_empty);
        if (consumed_count == expected_count) {
            MUST(pthread_mutex_unlock(&mutex));
            return unused;
        }
        consumed_sum += slots[first++ % SLOTS];
        used--;
        consumed_count++;
        if (consumed_count == expected_count) MUST(pthread_cond_broadcast(&not_empty));
        unlock_and_wake(&not_full);
    }
}

int main(int argc, char **argv) {
    watch();
    long producers = (number(argc, argv, 1, 4) + 1) / 2;
    consumers = producers;
    per_producer = number(argc, argv, 2, 5000);
    for (variant = SIGNALS; variant < VARIANTS; variant++) {
        used = first = produced_sum = consumed_sum = consumed_count = 0;
        expected_count = producers * per_producer;
        pthread_mutexattr_t mutex_attribute;
        MUST(pthread_mutexattr_init(&mutex_attribute));
        MUST(pthread_mutexattr_settype(&mutex_attribute, variant == RECURSIVE ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_DEFAULT));
        MUST(pthread_mutex_init(&mutex, &mutex_attribute));
        pthread_condattr_t attribute;
        MUST(pthread_condattr_init(&attribute));
        if (variant == MONOTONIC) MUST(pthread_condattr_setclock(&attribute, CLOCK_MONOTONIC));
        MUST(pthread_cond_init(&not_full, &attribute));
        MUST(pthread_cond_init(&not_empty, &attribute));
        struct team *producing = assemble(producers, produce), *consuming = assemble(consumers, consume);
        disperse(producing);
        disperse(consuming);
        if (used != 0 || consumed_sum != produced_sum || consumed_count != expected_count)
            fail("variant %d: %ld of %ld items, sum %ld of %ld, %ld left", (int)variant, consumed_count, expected_count,
                 consumed_sum, produced_sum, used);
        MUST(pthread_cond_destroy(&not_full));
        MUST(pthread_cond_destroy(&not_empty));
        MUST(pthread_mutex_destroy(&mutex));
    }
    printf("ok %ld producers, %ld consumers\n", producers, consumers);
    return 0;
}
