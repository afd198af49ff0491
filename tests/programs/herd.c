// Many threads that one broadcast sends to one mutex at once. Prints how long they take to go through. Argument: threads (1000).

#include "stress.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static long ready;
static bool go;

static void *come_and_go(void *number) {
    MUST(pthread_mutex_lock(&mutex));
    ready++;
    while (!go) MUST(pthread_cond_wait(&cond, &mutex));
    MUST(pthread_mutex_unlock(&mutex));
    return number;
}

int main(int argc, char **argv) {
    watch();
    long threads = number(argc, argv, 1, 1000);
    pthread_attr_t attributes;
    MUST(pthread_attr_init(&attributes));
    MUST(pthread_attr_setstacksize(&attributes, 64 << 10));
    pthread_t *all = (pthread_t *)calloc((size_t)threads, sizeof *all);
    CHECK(all != NULL);
    for (long i = 0; i < threads; i++) MUST(pthread_create(&all[i], &attributes, come_and_go, NULL));
    for (long there = 0; there < threads; sleep_ns(MS)) {
        MUST(pthread_mutex_lock(&mutex));
        there = ready;
        MUST(pthread_mutex_unlock(&mutex));
    }
    int64_t began = now_ns(CLOCK_MONOTONIC);
    MUST(pthread_mutex_lock(&mutex));
    go = true;
    MUST(pthread_cond_broadcast(&cond));
    MUST(pthread_mutex_unlock(&mutex));
    for (long i = 0; i < threads; i++) MUST(pthread_join(all[i], NULL));
    printf("ok %ld us\n", (long)((now_ns(CLOCK_MONOTONIC) - began) / 1000));
    return 0;
}
