// Unlocks and condition waits that are refused, since another thread has the mutex or none has: between two holds of the first thread the
// second one asks for all of them. Argument: rounds (100).

#include "stress.h"

pthread_mutex_t checked_mutex, recursive_mutex;
static pthread_mutex_t *const mutexes[] = {&checked_mutex, &recursive_mutex};
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t asked, answered;

static void init(pthread_mutex_t *mutex, int kind) {
    pthread_mutexattr_t attributes;
    MUST(pthread_mutexattr_init(&attributes));
    MUST(pthread_mutexattr_settype(&attributes, kind));
    MUST(pthread_mutex_init(mutex, &attributes));
    MUST(pthread_mutexattr_destroy(&attributes));
}

static void hold_each(void) {
    for (size_t i = 0; i < COUNT(mutexes); i++) {
        MUST(pthread_mutex_lock(mutexes[i]));
        MUST(pthread_mutex_unlock(mutexes[i]));
    }
}

static void *is_refused(void *rounds) {
    hold_each(); // once, as any thread that uses them
    sem_post(&answered);
    for (long i = 0; i < (long)rounds; i++) {
        sem_take(&asked);
        for (size_t k = 0; k < COUNT(mutexes); k++) {
            CHECK(pthread_mutex_unlock(mutexes[k]) == EPERM);
            CHECK(pthread_cond_wait(&condition, mutexes[k]) == EPERM);
        }
        sem_post(&answered);
    }
    return NULL;
}

int main(int argc, char **argv) {
    watch();
    long rounds = number(argc, argv, 1, 100);
    init(&checked_mutex, PTHREAD_MUTEX_ERRORCHECK);
    init(&recursive_mutex, PTHREAD_MUTEX_RECURSIVE);
    CHECK(sem_init(&asked, 0, 0) == 0 && sem_init(&answered, 0, 0) == 0);
    pthread_t other;
    MUST(pthread_create(&other, NULL, is_refused, (void *)rounds));
    sem_take(&answered);
    for (long i = 0; i < rounds; i++) {
        hold_each();
        sem_post(&asked);
        sem_take(&answered);
    }
    MUST(pthread_join(other, NULL));
    printf("{\"rounds\": %ld}\n", rounds);
    return 0;
}
