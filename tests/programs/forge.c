// A process writes nonsense into every word of the profile that it has mapped, as one may that was broken into; a child, so that
// the others have to live with it. With an argument it gives up root's rights first, and must find nothing to write to.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *unused) {
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static unsigned long forge(unsigned long value) {
    unsigned long start = 0, end, forged = 0;
    char line[512], access[5];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %4s", &start, &end, access) == 3 && !strcmp(access, "rw-s") &&
            strstr(line, ".contend")) {
            // The limits and counts of the head but not its mark and version, and the first records.
            for (unsigned long *word = (unsigned long *)start + 2; word < (unsigned long *)(start + 8 * 4096); word++) {
                *word = value;
                forged++;
            }
        }
    }
    return forged;
}

int main(int count, char **arguments) {
    unsigned long value = strtoul(arguments[1], 0, 0);
    int gives_up = count > 2, status;
    work(0);
    pid_t child = fork();
    if (child == 0) {
        work(0);
        if (gives_up && (setgid(65534) || setuid(65534))) _exit(2);
        unsigned long forged = forge(value);
        work(0);
        _exit(gives_up ? forged != 0 : forged == 0);
    }
    waitpid(child, &status, 0);
    work(0);
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, work, 0);
        pthread_join(thread, 0);
    }
    printf("child %d, master lives\n", status);
    return 0;
}
