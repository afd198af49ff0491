// Threads that wait for a mutex in a function whose table for unwinding has an expression that jumps back and never ends, to be attached
// to from outside. With the name of a file it is mapped as if it were code. Runs until standard input ends.

#include "stress.h"
#include <fcntl.h>
#include <sys/mman.h>

static pthread_mutex_t endless_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool ended;

__attribute__((noinline)) static void endless(void) {
    __asm__ volatile(".cfi_escape 0x0f, 0x03, 0x2f, 0xfd, 0xff");
    MUST(pthread_mutex_lock(&endless_mutex));
    sleep_ns(2 * MS);
    MUST(pthread_mutex_unlock(&endless_mutex));
}

static void *work(void *unused) {
    while (!ended) endless();
    return unused;
}

int main(int count, char **arguments) {
    if (count > 1) {
        int file = open(arguments[1], O_RDONLY);
        MUST(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED);
    }
    watch();
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) MUST(pthread_create(&threads[i], NULL, work, NULL));
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {}
    ended = true;
    for (int i = 0; i < 3; i++) MUST(pthread_join(threads[i], NULL));
    return 0;
}
