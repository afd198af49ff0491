// Memory that is used again: the same address is a mutex, then a reader-writer lock, a condition variable, a spin
// lock, in the heap, on the stack and in fresh pages; cleared, or full of rubbish and initialised; with and
// without a destroy before. Each life is contended. Argument: rounds (60).

#include "stress.h"
#include <sys/mman.h>

enum life { MUTEX, RECURSIVE, ERRORCHECK, RWLOCK, CONDITION, SPIN, LIVES };

union object {
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
    pthread_spinlock_t spin;
    pthread_cond_t cond;
    unsigned char bytes[64];
};

#define THREADS 3
#define TURNS 60

static union object *object;
static enum life life;
static long counter, tokens;
static pthread_mutex_t cond_mutex = PTHREAD_MUTEX_INITIALIZER;

static void *contend(void *number) {
    for (int i = 0; i < TURNS; i++) switch (life) {
        case MUTEX:
        case ERRORCHECK:
            MUST(pthread_mutex_lock(&object->mutex));
            counter++;
            MUST(pthread_mutex_unlock(&object->mutex));
            break;
        case RECURSIVE:
            MUST(pthread_mutex_lock(&object->mutex));
            MUST(pthread_mutex_lock(&object->mutex));
            counter++;
            MUST(pthread_mutex_unlock(&object->mutex));
            MUST(pthread_mutex_unlock(&object->mutex));
            break;
        case RWLOCK:
            MUST(pthread_rwlock_rdlock(&object->rwlock));
            MUST(pthread_rwlock_rdlock(&object->rwlock));
            MUST(pthread_rwlock_unlock(&object->rwlock));
            MUST(pthread_rwlock_unlock(&object->rwlock));
            MUST(pthread_rwlock_wrlock(&object->rwlock));
            counter++;
            MUST(pthread_rwlock_unlock(&object->rwlock));
            break;
        case CONDITION: // threads hand one token round
            MUST(pthread_mutex_lock(&cond_mutex));
            while (tokens % THREADS != (long)number) MUST(pthread_cond_wait(&object->cond, &cond_mutex));
            tokens++;
            counter++;
            MUST(pthread_cond_broadcast(&object->cond));
            MUST(pthread_mutex_unlock(&cond_mutex));
            break;
        default:
            MUST(pthread_spin_lock(&object->spin));
            counter++;
            MUST(pthread_spin_unlock(&object->spin));
        }
    return NULL;
}

// How a life begins: 0 by a static initialiser, 1 by init over cleared memory, 2 by init over what is there.
static void begin(int how) {
    pthread_mutexattr_t attribute;
    MUST(pthread_mutexattr_init(&attribute));
    if (how < 2) memset(object, 0, sizeof *object);
    switch (life) {
    case MUTEX:
        if (how == 0) object->mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        else MUST(pthread_mutex_init(&object->mutex, NULL));
        break;
    case RECURSIVE:
        MUST(pthread_mutexattr_settype(&attribute, PTHREAD_MUTEX_RECURSIVE));
        if (how == 0) object->mutex = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
        else MUST(pthread_mutex_init(&object->mutex, &attribute));
        break;
    case ERRORCHECK:
        MUST(pthread_mutexattr_settype(&attribute, PTHREAD_MUTEX_ERRORCHECK));
        if (how == 0) object->mutex = (pthread_mutex_t)PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
        else MUST(pthread_mutex_init(&object->mutex, &attribute));
        break;
    case RWLOCK:
        if (how == 0) object->rwlock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
        else MUST(pthread_rwlock_init(&object->rwlock, NULL));
        break;
    case CONDITION:
        if (how == 0) object->cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
        else MUST(pthread_cond_init(&object->cond, NULL));
        break;
    default: MUST(pthread_spin_init(&object->spin, PTHREAD_PROCESS_PRIVATE));
    }
}

static void end(void) {
    switch (life) {
    case MUTEX:
    case RECURSIVE:
    case ERRORCHECK: MUST(pthread_mutex_destroy(&object->mutex)); break;
    case RWLOCK: MUST(pthread_rwlock_destroy(&object->rwlock)); break;
    case CONDITION: MUST(pthread_cond_destroy(&object->cond)); break;
    default: MUST(pthread_spin_destroy(&object->spin));
    }
}

static void live(enum life now, int how, bool destroyed) {
    life = now;
    counter = tokens = 0;
    begin(how);
    // The kind is this life's, not the one before.
    if (life == MUTEX || life == ERRORCHECK || life == RECURSIVE) {
        MUST(pthread_mutex_lock(&object->mutex));
        int again = pthread_mutex_trylock(&object->mutex);
        if (again != (life == RECURSIVE ? 0 : EBUSY)) fail("life %d, begun in way %d: trylock -> %s", now, how, error_name(again));
        if (again == 0) MUST(pthread_mutex_unlock(&object->mutex));
        MUST(pthread_mutex_unlock(&object->mutex));
    }
    struct team *team = assemble(THREADS, contend);
    disperse(team);
    if (counter != THREADS * TURNS) fail("life %d, begun in way %d: %ld of %d turns", now, how, counter, THREADS * TURNS);
    if (destroyed) end();
}

int main(int argc, char **argv) {
    watch();
    long rounds = number(argc, argv, 1, 60);
    uint32_t random = 2463534242;
    union object on_stack;
    for (long i = 0; i < rounds; i++) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        for (int place = 0; place < 3; place++) {
            switch (place) {
            case 0: object = malloc(sizeof *object); break;
            case 1: object = &on_stack; break;
            default:
                object = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                CHECK(object != MAP_FAILED);
            }
            CHECK(object != NULL);
            memset(object->bytes, (int)next_random(&random), sizeof object->bytes);
            enum life first = next_random(&random) % LIVES, second = next_random(&random) % LIVES;
            live(first, (int)(i % 3), i % 2 == 0);
            live(second, (int)(next_random(&random) % 3), true);
            if (place == 0) free(object);
            if (place == 2) munmap(object, page);
        }
    }
    printf("ok %ld rounds\n", rounds);
    return 0;
}
