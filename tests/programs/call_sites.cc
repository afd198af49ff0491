// One mutex that is held briefly by many calls of one function and for long (us, the first argument) by another: the first waits for it.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

static std::mutex table_lock;
static std::atomic<bool> ended;
static unsigned long looked_up, rebalanced, hold_us = 4000;

[[gnu::noinline]] void quick_lookup() {
    std::lock_guard<std::mutex> guard(table_lock);
    ++looked_up;
}

[[gnu::noinline]] void slow_rebalance() {
    std::lock_guard<std::mutex> guard(table_lock);
    std::this_thread::sleep_for(std::chrono::microseconds(hold_us));
    ++rebalanced;
}

int main(int argc, char** argv) {
    if (argc > 1)
        std::sscanf(argv[1], "%lu", &hold_us);
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
