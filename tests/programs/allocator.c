// A program with an allocator of its own, as jemalloc and tcmalloc are: it takes pthread locks inside malloc, before
// any constructor, and around fork. Locks that allocate, look symbols up or print would come back here: malloc aborts
// when it is called from within a lock call. Arguments: threads (4), allocations per thread (20000).

#include "stress.h"
#include <sys/mman.h>
#include <sys/wait.h>

// ---- the allocator: free lists by size under a mutex each, from one arena under a spin lock

#define ARENA_BYTES (256UL << 20)
#define CLASSES 28

struct chunk {
    size_t class;
    struct chunk *next; // on its free list; the payload begins here
};

static struct free_list {
    pthread_mutex_t mutex;
    struct chunk *first;
} lists[CLASSES] = {[0 ... CLASSES - 1] = {.mutex = PTHREAD_MUTEX_INITIALIZER}};
static pthread_rwlock_t settings = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t arena_spin = 1; // what pthread_spin_init stores, as nothing has run yet
static char *arena_at, *arena_end;
static _Atomic long allocations;
static _Thread_local int in_lock_call __attribute__((tls_model("initial-exec")));

static void die(const char *why) {
    if (write(STDERR_FILENO, why, strlen(why)) < 0) _exit(3);
    abort();
}

// Says that this thread is inside a lock call for as long as the call lasts.
static int checked(int error) {
    in_lock_call--;
    if (error != 0) die("FAIL a lock of the allocator answered an error\n");
    return error;
}
#define LOCK_CALL(call) (in_lock_call++, checked(call))

static struct chunk *carve(size_t class) {
    LOCK_CALL(pthread_spin_lock(&arena_spin));
    if (arena_at == NULL) {
        arena_at = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena_at == MAP_FAILED) die("FAIL no arena\n");
        arena_end = arena_at + ARENA_BYTES;
    }
    size_t bytes = (size_t)32 << class;
    struct chunk *chunk = NULL;
    if ((size_t)(arena_end - arena_at) >= bytes) {
        chunk = (struct chunk *)arena_at;
        arena_at += bytes;
    }
    LOCK_CALL(pthread_spin_unlock(&arena_spin));
    return chunk;
}

void *malloc(size_t bytes) {
    if (in_lock_call > 0) die("FAIL a lock call allocates\n");
    allocations++;
    LOCK_CALL(pthread_rwlock_rdlock(&settings));
    LOCK_CALL(pthread_rwlock_unlock(&settings));
    size_t class = 0;
    while (class < CLASSES && ((size_t)32 << class) - 16 < bytes) class++;
    if (class == CLASSES) return NULL;
    struct free_list *list = &lists[class];
    LOCK_CALL(pthread_mutex_lock(&list->mutex));
    struct chunk *chunk = list->first;
    if (chunk != NULL) list->first = chunk->next;
    LOCK_CALL(pthread_mutex_unlock(&list->mutex));
    if (chunk == NULL) chunk = carve(class);
    if (chunk == NULL) return NULL;
    chunk->class = class;
    return (char *)chunk + 16;
}

void free(void *memory) {
    if (memory == NULL) return;
    if (in_lock_call > 0) die("FAIL a lock call frees\n");
    struct chunk *chunk = (struct chunk *)((char *)memory - 16);
    struct free_list *list = &lists[chunk->class];
    LOCK_CALL(pthread_mutex_lock(&list->mutex));
    chunk->next = list->first;
    list->first = chunk;
    LOCK_CALL(pthread_mutex_unlock(&list->mutex));
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    void *volatile memory = malloc(bytes); // volatile: or the compiler makes this pair a calloc
    return memory == NULL ? NULL : memset(memory, 0, bytes);
}

void *realloc(void *memory, size_t bytes) {
    void *fresh = malloc(bytes);
    if (memory == NULL || fresh == NULL) return fresh;
    size_t room = ((size_t)32 << ((struct chunk *)((char *)memory - 16))->class) - 16;
    memcpy(fresh, memory, room < bytes ? room : bytes);
    free(memory);
    return fresh;
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    // Chunks of a class are aligned to their size but for the 16 bytes in front, so that is the limit here.
    if (alignment <= 16) return malloc(bytes);
    void *pages = mmap(NULL, bytes + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return NULL;
    char *at = (char *)(((uintptr_t)pages + 16 + alignment - 1) / alignment * alignment);
    ((struct chunk *)(at - 16))->class = 0; // freed, it serves as a small chunk
    return at;
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    *memory = aligned_alloc(alignment, bytes);
    return *memory == NULL ? ENOMEM : 0;
}

// ---- around fork, as allocators do it: everything is taken, and released on both sides

static void prepare(void) {
    MUST(pthread_rwlock_rdlock(&settings));
    for (int i = 0; i < CLASSES; i++) MUST(pthread_mutex_lock(&lists[i].mutex));
    MUST(pthread_spin_lock(&arena_spin));
}

static void release(void) {
    MUST(pthread_spin_unlock(&arena_spin));
    for (int i = CLASSES - 1; i >= 0; i--) MUST(pthread_mutex_unlock(&lists[i].mutex));
    MUST(pthread_rwlock_unlock(&settings));
}

// ---- its use

static long per_thread;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

// Locks the allocator knows nothing of: their calls may not allocate either, first use and contended included.
static void use_locks(void) {
    struct timespec soon = from_now(CLOCK_REALTIME, 1000);
    in_lock_call++;
    MUST(pthread_mutex_lock(&mutex));
    MUST(pthread_mutex_lock(&recursive));
    MUST(pthread_mutex_trylock(&recursive));
    MUST(pthread_rwlock_wrlock(&rwlock));
    MUST(pthread_rwlock_unlock(&rwlock));
    MUST(pthread_rwlock_rdlock(&rwlock));
    MUST(pthread_rwlock_unlock(&rwlock));
    MUST(pthread_mutex_unlock(&recursive));
    MUST(pthread_mutex_unlock(&recursive));
    int error = pthread_cond_timedwait(&cond, &mutex, &soon);
    if (error != ETIMEDOUT) MUST(error);
    MUST(pthread_cond_signal(&cond));
    MUST(pthread_mutex_unlock(&mutex));
    in_lock_call--;
}

static void *work(void *number) {
    uint32_t random = 2463534242 + (uint32_t)(long)number;
    unsigned char *kept[16] = {NULL};
    size_t sizes[16] = {0};
    for (long i = 0; i < per_thread; i++) {
        size_t slot = next_random(&random) % COUNT(kept), bytes = 1 + next_random(&random) % 2000;
        for (size_t b = 0; b < sizes[slot]; b += 97)
            if (kept[slot][b] != (unsigned char)(long)number) fail("memory of one thread given to another");
        free(kept[slot]);
        kept[slot] = malloc(bytes);
        if (kept[slot] == NULL) fail("the arena is full");
        memset(kept[slot], (int)(long)number, bytes);
        sizes[slot] = bytes;
        if (i % 64 == 0) use_locks();
    }
    for (size_t slot = 0; slot < COUNT(kept); slot++) free(kept[slot]);
    return NULL;
}

int main(int argc, char **argv) {
    watch();
    long threads = number(argc, argv, 1, 4);
    per_thread = number(argc, argv, 2, 20000);
    MUST(pthread_atfork(prepare, release, release));
    struct team *team = assemble(threads, work);
    for (int i = 0; i < 10; i++) {
        fflush(stdout);
        pid_t child = fork(); // while all threads allocate
        if (child == 0) {
            alarm(100);
            // Only the allocator saw to its locks: these may be held by threads that are not here.
            MUST(pthread_mutex_init(&mutex, NULL));
            recursive = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
            MUST(pthread_rwlock_init(&rwlock, NULL));
            MUST(pthread_cond_init(&cond, NULL));
            for (int j = 0; j < 1000; j++) free(malloc((size_t)j));
            struct team *inner = assemble(2, work);
            disperse(inner);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        if (status != 0) fail("child %d ended with status %#x", i, status);
    }
    disperse(team);
    CHECK(allocations > threads * per_thread);
    printf("ok %ld threads\n", threads);
    return 0;
}
