/* Threads that map and unmap memory of one process, so that they contend for the lock of its address space, mmap_lock in
 * the kernel. Half of the rounds are done in a child.
 *
 * mapping THREADS ROUNDS: each thread of each process does so many rounds; 0 rounds never end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 64 << 10, MOST = 64 };

static long rounds;
static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;
static long done;

static void *work(void *argument)
{
    for (long round = 0; rounds == 0 || round < rounds; round++) {
        char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (memory == MAP_FAILED)
            abort();
        munmap(memory, BYTES);
    }
    pthread_mutex_lock(&done_lock);
    done++;
    pthread_mutex_unlock(&done_lock);
    return argument;
}

int main(int count, char **arguments)
{
    pthread_t threads[MOST];
    int wanted = count > 2 ? atoi(arguments[1]) : 0;
    if (wanted < 1 || wanted > MOST)
        return 2;
    rounds = atol(arguments[2]);
    alarm(300);
    pid_t child = rounds ? fork() : -1;
    for (int i = 0; i < wanted; i++)
        if (pthread_create(&threads[i], NULL, work, NULL))
            return 1;
    for (int i = 0; i < wanted; i++)
        pthread_join(threads[i], NULL);
    if (child > 0 && waitpid(child, NULL, 0) != child)
        return 1;
    if (child > 0)
        printf("{\"done\": %ld}\n", done);
    return 0;
}
