// Unwind tables that the program registers while it runs, as just-in-time compilers do, and an allocator with pthread
// mutexes of its own, one for each power of two. The C runtime sorts the tables at the first exception or back-trace, under a
// lock of its own, and allocates for that: a lock function that unwinds the stack by the C runtime waits for itself.

#include "case.h"
#include <unwind.h>

extern void __register_frame(void *);

enum { FUNCTIONS = 3000, CODE_BYTES = 16, SIZES = 64 };

static pthread_mutex_t sizes[SIZES] = {[0 ... SIZES - 1] = PTHREAD_MUTEX_INITIALIZER};
static _Alignas(16) char heap[64 << 20];
static _Atomic size_t used;

void *malloc(size_t bytes) {
    pthread_mutex_t *mutex = &sizes[64 - __builtin_clzl(bytes | 1) - 1];
    pthread_mutex_lock(mutex);
    size_t start = atomic_fetch_add(&used, (bytes + 31) / 16 * 16);
    if (start + bytes + 32 > sizeof heap) _exit(3);
    *(size_t *)(heap + start) = bytes;
    pthread_mutex_unlock(mutex);
    return heap + start + 16;
}

void free(void *memory) { (void)memory; }

void *calloc(size_t count, size_t bytes) { return malloc(count * bytes); }

void *realloc(void *memory, size_t bytes) {
    void *fresh = malloc(bytes);
    if (memory != NULL) {
        size_t old = *(size_t *)((char *)memory - 16);
        memcpy(fresh, memory, old < bytes ? old : bytes);
    }
    return fresh;
}

static char code[FUNCTIONS * CODE_BYTES];

struct __attribute__((packed)) function {
    uint32_t length, back;
    uint64_t start, bytes;
};

// DWARF call frame information for functions that do nothing: the frame's address is rsp + 8, the return address below it.
static struct __attribute__((packed)) {
    uint32_t length, id;
    uint8_t content[12];
    struct function functions[FUNCTIONS];
    uint32_t end;
} tables = {16, 0, {1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0}, {{0}}, 0};

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context, void *frames) {
    (void)context;
    ++*(int *)frames;
    return _URC_NO_REASON;
}

static void *work(void *argument) {
    for (int i = 0; i < 100; i++) free(malloc(1u << i % 20));
    return argument;
}

int main(void) {
    watch();
    for (int i = 0; i < FUNCTIONS; i++) {
        struct function *function = &tables.functions[i];
        *function = (struct function){20, (uint32_t)((char *)&function->back - (char *)&tables),
                                      (uintptr_t)(code + i * CODE_BYTES), CODE_BYTES};
    }
    __register_frame(&tables);
    int frames = 0;
    _Unwind_Backtrace(count_frame, &frames);
    CHECK(frames > 1);
    pthread_t threads[2];
    for (size_t i = 0; i < COUNT(threads); i++) MUST(pthread_create(&threads[i], NULL, work, NULL));
    for (size_t i = 0; i < COUNT(threads); i++) MUST(pthread_join(threads[i], NULL));
    puts("ok generated");
    return 0;
}
