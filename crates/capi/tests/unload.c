/* A program that loads the library, locks in a thread, and closes the library before the thread ends: the thread's end
 * frees its queue nodes, by code of the library. Argument: the library. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "contend.h"

static int (*lock_it)(contend_mcs_t *), (*unlock_it)(contend_mcs_t *);
static contend_mcs_t mcs;
static int locked[2], closed[2];

static void *locks(void *unused) {
    (void)unused;
    char byte = 0;
    lock_it(&mcs);
    unlock_it(&mcs);
    if (write(locked[1], &byte, 1) != 1 || read(closed[0], &byte, 1) != 1)
        perror("pipe");
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 2 || pipe(locked) != 0 || pipe(closed) != 0)
        return 2;
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    /* ISO C has no conversion from object to function pointers; POSIX has. */
    *(void **)&lock_it = dlsym(library, "contend_mcs_lock");
    *(void **)&unlock_it = dlsym(library, "contend_mcs_unlock");
    pthread_t thread;
    char byte = 0;
    if (pthread_create(&thread, NULL, locks, NULL) != 0 || read(locked[0], &byte, 1) != 1)
        return 2;
    dlclose(library);
    if (write(closed[1], &byte, 1) != 1)
        return 2;
    pthread_join(thread, NULL);
    puts("the thread ended");
    return 0;
}
