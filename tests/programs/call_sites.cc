// One mutex that is held briefly by many calls of one function and for long by another, which is what the first waits for.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

static std::mutex table_lock;
static std::atomic<bool> ended;
static unsigned long looked_up, rebalanced;

[[gnu::noinline]] void quick_lookup() {
    std::lock_guard<std::mutex> guard(table_lock);
    ++looked_up;
}

[[gnu::noinline]] void slow_rebalance() {
    std::lock_guard<std::mutex> guard(table_lock);
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
    ++rebalanced;
}

int main() {
    quick_lookup();
    std::thread other([] {
        for (int i = 0; i < 25; ++i) {
            slow_rebalance();
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        ended = true;
    });
    while (!ended)
        quick_lookup();
    other.join();
    std::printf("{\"looked_up\": %lu, \"rebalanced\": %lu}\n", looked_up, rebalanced);
}
