// Symbols may be any text. This lock's name has what would break a line of folded stacks, a semicolon and a number at its end, and
// so has the function that takes it, with a line feed.

#include "stress.h"

pthread_mutex_t odd_lock __asm__("\"odd;lock 7\"") = PTHREAD_MUTEX_INITIALIZER;

void take(long times) __asm__("\"take;the\\nlock 9\"");

__attribute__((noinline)) void take(long times) {
    for (long i = 0; i < times; i++) {
        MUST(pthread_mutex_lock(&odd_lock));
        sleep_ns(MS);
        MUST(pthread_mutex_unlock(&odd_lock));
    }
}

static void *work(void *unused) {
    take(20);
    return unused;
}

int main(void) {
    watch();
    disperse(assemble(3, work));
    return 0;
}
