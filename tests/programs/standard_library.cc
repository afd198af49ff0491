// The locks of the C++ standard library, as programs use them: every mutex class, condition variables with each
// lock, deadlines on each clock, futures and call_once. Arguments: threads (4), rounds (2000).

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char *what) {
    std::fprintf(stderr, "FAIL %s\n", what);
    std::_Exit(1);
}

void check(bool condition, const char *what) {
    if (!condition) fail(what);
}

template <class Work> void in_threads(int threads, Work work) {
    std::vector<std::thread> team;
    for (int i = 0; i < threads; i++) team.emplace_back(work, i);
    for (auto &thread : team) thread.join();
}

template <class Mutex> void exclusion(int threads, int rounds, const char *what) {
    Mutex mutex;
    long counter = 0;
    in_threads(threads, [&](int) {
        for (int i = 0; i < rounds; i++) {
            std::lock_guard<Mutex> guard(mutex);
            counter++;
        }
    });
    check(counter == static_cast<long>(threads) * rounds, what);
}

template <class Mutex> void deadlines(const char *what) {
    Mutex mutex;
    std::unique_lock<Mutex> held(mutex);
    std::thread([&] {
        const auto begun = Clock::now();
        check(!mutex.try_lock(), what);
        check(!mutex.try_lock_for(5ms), what);
        check(!mutex.try_lock_until(std::chrono::system_clock::now() + 5ms), what);
        check(!mutex.try_lock_until(Clock::now() - 1s), what);
        check(Clock::now() - begun >= 9ms, what);
    }).join();
    held.unlock();
    std::thread([&] {
        check(mutex.try_lock_for(20s), what);
        mutex.unlock();
    }).join();
}

void shared(int threads, int rounds) {
    std::shared_timed_mutex mutex;
    std::shared_mutex plain;
    long first = 0, second = 0;
    in_threads(threads, [&](int number) {
        for (int i = 0; i < rounds; i++) {
            if ((i + number) % 4 == 0) {
                std::scoped_lock both(plain, mutex);
                first++;
                second++;
            } else if (i % 2 == 0) {
                std::shared_lock reading(plain);
                check(first == second, "a reader beside a writer");
            } else {
                std::shared_lock reading(mutex, 20s);
                check(reading.owns_lock() && first == second, "a timed reader beside a writer");
            }
        }
    });
    check(first == second && first > 0, "shared mutexes");
}

// Items through a queue: with std::mutex and condition_variable, and with a recursive mutex and ..._any.
template <class Mutex, class Condition> void queue(int threads, int rounds, const char *what) {
    Mutex mutex;
    Condition changed;
    std::deque<long> items;
    long put = 0, taken = 0;
    const int producers = (threads + 1) / 2;
    const long expected = static_cast<long>(producers) * rounds;
    long got = 0;
    in_threads(2 * producers, [&](int number) {
        if (number < producers) {
            for (int i = 0; i < rounds; i++) {
                std::unique_lock<Mutex> lock(mutex);
                changed.wait(lock, [&] { return items.size() < 8; });
                items.push_back(i);
                put += i;
                changed.notify_all();
            }
            return;
        }
        for (;;) {
            std::unique_lock<Mutex> lock(mutex);
            check(changed.wait_for(lock, 20s, [&] { return !items.empty() || got == expected; }), what);
            if (got == expected) return;
            taken += items.front();
            items.pop_front();
            got++;
            changed.notify_all();
        }
    });
    check(put == taken && got == expected && items.empty(), what);
}

void one_time_and_futures(int threads, int rounds) {
    std::once_flag once;
    int calls = 0;
    in_threads(threads, [&](int) {
        for (int i = 0; i < rounds; i++) std::call_once(once, [&] { calls++; });
    });
    check(calls == 1, "call_once");
    std::vector<std::future<int>> answers;
    for (int i = 0; i < threads; i++) answers.push_back(std::async(std::launch::async, [i] { return i * i; }));
    int sum = 0, expected = 0;
    for (int i = 0; i < threads; i++) {
        sum += answers[static_cast<size_t>(i)].get();
        expected += i * i;
    }
    check(sum == expected, "futures");
    std::promise<int> promise;
    auto future = promise.get_future();
    check(future.wait_for(2ms) == std::future_status::timeout, "a future without a value");
}

void expires() {
    std::mutex mutex;
    std::condition_variable condition;
    std::unique_lock<std::mutex> lock(mutex);
    const auto begun = Clock::now();
    check(!condition.wait_for(lock, 5ms, [] { return false; }), "wait_for");
    check(!condition.wait_until(lock, Clock::now() + 5ms, [] { return false; }), "wait_until");
    check(!condition.wait_until(lock, std::chrono::system_clock::now() + 5ms, [] { return false; }), "wait_until");
    check(Clock::now() - begun >= 14ms && lock.owns_lock(), "a wait gave up early");
}

// Locks of objects with static storage, used by destructors at exit.
struct Registry {
    std::mutex mutex;
    long uses = 0;
    void use() {
        std::lock_guard<std::mutex> guard(mutex);
        uses++;
    }
    ~Registry() { use(); }
};
Registry registry;
struct AtThreadExit {
    ~AtThreadExit() { registry.use(); }
};
thread_local AtThreadExit at_thread_exit;

} // namespace

int main(int argc, char **argv) {
    alarm(300);
    const int threads = argc > 1 ? std::atoi(argv[1]) : 4, rounds = argc > 2 ? std::atoi(argv[2]) : 2000;
    check(threads > 0 && rounds > 0, "the arguments are threads and rounds");
    exclusion<std::mutex>(threads, rounds, "std::mutex");
    exclusion<std::recursive_mutex>(threads, rounds, "std::recursive_mutex");
    exclusion<std::timed_mutex>(threads, rounds, "std::timed_mutex");
    exclusion<std::recursive_timed_mutex>(threads, rounds, "std::recursive_timed_mutex");
    exclusion<std::shared_mutex>(threads, rounds, "std::shared_mutex");
    exclusion<std::shared_timed_mutex>(threads, rounds, "std::shared_timed_mutex");
    deadlines<std::timed_mutex>("std::timed_mutex");
    deadlines<std::recursive_timed_mutex>("std::recursive_timed_mutex");
    deadlines<std::shared_timed_mutex>("std::shared_timed_mutex");
    shared(threads, rounds);
    queue<std::mutex, std::condition_variable>(threads, rounds / 4 + 1, "std::condition_variable");
    queue<std::recursive_mutex, std::condition_variable_any>(threads, rounds / 4 + 1, "std::condition_variable_any");
    one_time_and_futures(threads, rounds);
    expires();
    in_threads(threads, [](int) { (void)&at_thread_exit; });
    check(registry.uses == threads, "destructors of threads");
    std::printf("ok %d threads\n", threads);
}
