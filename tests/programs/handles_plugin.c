// The plug-in of `handles.c`.

#include <pthread.h>

int plugin_trylock(pthread_mutex_t *mutex) { return pthread_mutex_trylock(mutex); }
