// Four mutexes of one name: two files have one each, and so have two functions of this one. Takes each a hundred times.

#include "case.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void take_in_other_file(void);

static void take(pthread_mutex_t *mutex) {
    for (int i = 0; i < 100; i++) {
        MUST(pthread_mutex_lock(mutex));
        MUST(pthread_mutex_unlock(mutex));
    }
}

__attribute__((noinline)) static void one(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    take(&lock);
}

__attribute__((noinline)) static void another(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    take(&lock);
}

int main(void) {
    watch();
    take(&lock);
    one();
    another();
    take_in_other_file();
    puts("ok same names");
    return 0;
}
