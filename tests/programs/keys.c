// All PTHREAD_KEYS_MAX keys for data of threads are the program's, before its first lock call and after.

#include "case.h"
#include <limits.h>
#include <threads.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic int ends;

static void use_locks(void) {
    MUST(pthread_mutex_lock(&mutex));
    MUST(pthread_rwlock_wrlock(&rwlock));
    MUST(pthread_rwlock_unlock(&rwlock));
    MUST(pthread_mutex_unlock(&mutex));
}

// Locks in the last destructors of a thread work too.
static void end(void *value) {
    use_locks();
    ends++;
    (void)value;
}

static void *work(void *key) {
    use_locks();
    MUST(pthread_setspecific(*(pthread_key_t *)key, key));
    return key;
}

static void *work_and_exit(void *key) { pthread_exit(work(key)); }

static void *work_until_cancelled(void *key) {
    work(key);
    for (;;) pause();
    return NULL;
}

static int work_c11(void *key) {
    work(key);
    return 7;
}

int main(void) {
    watch();
    use_locks();
    pthread_key_t keys[PTHREAD_KEYS_MAX];
    for (int i = 0; i < PTHREAD_KEYS_MAX; i++) {
        int error = pthread_key_create(&keys[i], end);
        if (error != 0) fail("key %d: %s", i, error_name(error));
    }
    // More threads than are looked through at a time for those that have ended.
    for (int round = 0; round < 50; round++) {
        pthread_t threads[4];
        void *results[3];
        int result;
        MUST(pthread_create(&threads[0], NULL, work, &keys[round]));
        MUST(pthread_create(&threads[1], NULL, work_and_exit, &keys[round]));
        MUST(pthread_create(&threads[2], NULL, work_until_cancelled, &keys[round]));
        CHECK(thrd_create(&threads[3], work_c11, &keys[round]) == thrd_success);
        MUST(pthread_cancel(threads[2]));
        for (int i = 0; i < 3; i++) MUST(pthread_join(threads[i], &results[i]));
        CHECK(thrd_join(threads[3], &result) == thrd_success && result == 7);
        CHECK(results[0] == &keys[round] && results[1] == &keys[round] && results[2] == PTHREAD_CANCELED);
    }
    CHECK(ends >= 150);
    puts("ok keys");
    return 0;
}
