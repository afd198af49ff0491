// Cancellation in a condition wait of a C++ program: destructors run while the stack unwinds, through frames that
// own the mutex by a guard, and a catch (...) that throws on.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

namespace {

pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
volatile bool inside, signalled;
int destructors, owned, caught;

// Notes, when it goes, whether the mutex is its thread's.
struct Witness {
    ~Witness() {
        destructors++;
        owned += pthread_mutex_lock(&mutex) == EDEADLK;
    }
};

struct Guard {
    Guard() { pthread_mutex_lock(&mutex); }
    ~Guard() {
        if (pthread_mutex_unlock(&mutex) != 0) std::abort();
    }
};

__attribute__((noinline)) void wait_with_witness() {
    Witness witness;
    while (!signalled) pthread_cond_wait(&cond, &mutex);
}

void *waiter(void *) {
    Guard guard;
    Witness witness;
    inside = true;
    try {
        wait_with_witness();
    } catch (...) {
        caught++;
        throw;
    }
    return nullptr;
}

} // namespace

int main() {
    alarm(300);
    for (int signal_too = 0; signal_too < 2; signal_too++)
        for (int round = 0; round < 50; round++) {
            destructors = owned = caught = 0;
            inside = signalled = false;
            pthread_t thread;
            if (pthread_create(&thread, nullptr, waiter, nullptr) != 0) return 1;
            for (bool waits = false; !waits; sched_yield()) {
                pthread_mutex_lock(&mutex);
                waits = inside;
                pthread_mutex_unlock(&mutex);
            }
            pthread_cancel(thread);
            if (signal_too) {
                pthread_mutex_lock(&mutex);
                signalled = true;
                pthread_cond_signal(&cond);
                pthread_mutex_unlock(&mutex);
            }
            void *result;
            pthread_join(thread, &result);
            bool cancelled = result == PTHREAD_CANCELED;
            if (destructors != 2 || owned != 2 || caught != cancelled || (!signal_too && !cancelled)) {
                std::fprintf(stderr, "FAIL round %d: %d destructors, %d with the mutex, %d caught, %s\n", round, destructors,
                             owned, caught, cancelled ? "cancelled" : "returned");
                return 1;
            }
            if (pthread_mutex_lock(&mutex) != 0 || pthread_mutex_unlock(&mutex) != 0) return 2;
        }
    std::puts("ok every destructor found the mutex held");
}
