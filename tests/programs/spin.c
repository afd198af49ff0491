// pthread_spin_{init,destroy,lock,trylock,unlock}: private and shared, every state.

#include "case.h"
#include <sys/mman.h>
#include <sys/wait.h>

static int lock(void *spin) { return pthread_spin_lock(spin); }
static int trylock(void *spin) { return pthread_spin_trylock(spin); }
static int unlock(void *spin) { return pthread_spin_unlock(spin); }

static struct actor other;

// The word beside a spin lock is not the lock's: the lock is four bytes, whatever replaces it.
struct neighbours {
    uint32_t before;
    pthread_spinlock_t spin;
    uint32_t after;
};

static void states(void *spin, const char *kind) {
    report("pthread_spin_lock", kind, "free", lock(spin));
    report("pthread_spin_trylock", kind, "held-by-self", trylock(spin));
    report("pthread_spin_trylock, by another", kind, "held-by-other", ask(&other, trylock, spin));
    report("pthread_spin_unlock", kind, "held-by-self", unlock(spin));
    report("pthread_spin_trylock", kind, "free", trylock(spin));
    report("pthread_spin_unlock", kind, "held-by-self after trylock", unlock(spin));
    report("pthread_spin_lock, by another", kind, "free", ask(&other, lock, spin));
    report("pthread_spin_trylock", kind, "held-by-other", trylock(spin));
    report("pthread_spin_unlock, by another", kind, "held-by-self", ask(&other, unlock, spin));

    MUST(lock(spin));
    bool waits = start(&other, lock, spin);
    printf("pthread_spin_lock | %s | held-by-other -> %s\n", kind, waits ? "waits" : "returns");
    report("pthread_spin_trylock", kind, "held-by-self with a waiter", trylock(spin));
    report("pthread_spin_unlock", kind, "held-by-self with a waiter", unlock(spin));
    report("pthread_spin_lock", kind, "after waiting", collect(&other));
    report("pthread_spin_trylock", kind, "held by the former waiter", trylock(spin));
    report("pthread_spin_unlock, by another", kind, "the former waiter", ask(&other, unlock, spin));
}

static void between_processes(const char *kind, int shared) {
    struct {
        pthread_spinlock_t spin;
        _Atomic int cell;
    } *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    void *spin = (void *)&page->spin;
    MUST(pthread_spin_init(spin, shared));
    MUST(lock(spin));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int error = trylock(spin);
        page->cell = 1;
        if (error != EBUSY) _exit(100);
        error = lock(spin); // until the parent lets go
        page->cell++;
        _exit(error != 0 ? error : unlock(spin));
    }
    while (page->cell == 0) sched_yield();
    sleep_ns(5 * MS);
    CHECK(page->cell == 1);
    MUST(unlock(spin));
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    report("pthread_spin_lock in another process", kind, "held by the parent", WEXITSTATUS(status));
    report("pthread_spin_lock", kind, "after the child", lock(spin));
    CHECK(page->cell == 2);
    MUST(unlock(spin));
    report("pthread_spin_destroy", kind, "free", pthread_spin_destroy(spin));
    munmap(page, 4096);
}

int main(void) {
    watch();
    hire(&other);
    static const struct {
        const char *name;
        int shared;
    } kinds[] = {{"private", PTHREAD_PROCESS_PRIVATE}, {"shared", PTHREAD_PROCESS_SHARED}};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct neighbours object;
        memset(&object, 0xA5, sizeof object);
        for (int life = 0; life < 2; life++) {
            report("pthread_spin_init", kinds[i].name, life == 0 ? "new" : "destroyed",
                   pthread_spin_init(&object.spin, kinds[i].shared));
            states((void *)&object.spin, kinds[i].name);
            report("pthread_spin_destroy", kinds[i].name, "free", pthread_spin_destroy(&object.spin));
        }
        printf("words beside the lock | %s | used -> %s\n", kinds[i].name,
               object.before == 0xA5A5A5A5 && object.after == 0xA5A5A5A5 ? "untouched" : "overwritten");
    }
    between_processes("shared", PTHREAD_PROCESS_SHARED);
    dismiss(&other);
    puts("end");
    return 0;
}
