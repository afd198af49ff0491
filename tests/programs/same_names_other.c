// What is compiled with `same_names.c`.

#include "case.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void take_in_other_file(void) {
    for (int i = 0; i < 100; i++) {
        MUST(pthread_mutex_lock(&lock));
        MUST(pthread_mutex_unlock(&lock));
    }
}
