// What the types share with those of the standard library: waits that end at once, and never; and by how long instead of until when.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

#include "contend.hpp"

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

static int failures = 0;

static void check(bool holds, const char *what) {
    if (!holds) {
        std::printf("%s\n", what);
        failures++;
    }
}

/// A lock that cannot be unlocked.
struct stuck {
    void lock() {}
    void unlock() { throw std::runtime_error("stuck"); }
};

/// A clock that cannot be read.
struct broken {
    using duration = steady::duration;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<broken>;
    static constexpr bool is_steady = false;
    static time_point now() { throw std::runtime_error("broken"); }
};

/// A clock that runs at half the pace of the steady one.
struct half {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<half>;
    static constexpr bool is_steady = true;
    static time_point now() { return time_point(duration(steady::now().time_since_epoch()) / 2); }
};

/// Waits with what throws; the condition variable has to be free of waiters at its end, where it would wait for them.
template <class Wait>
static bool throws(Wait wait) {
    contend::condition_variable cond;
    stuck lock;
    try {
        wait(cond, lock);
    } catch (const std::runtime_error &) {
        return true;
    }
    return false;
}

int main() {
    contend::semaphore none(0);
    check(!none.try_acquire_until(steady::time_point::min()), "a time that has passed for ever");
    check(!none.try_acquire_until(std::chrono::time_point<std::chrono::system_clock, std::chrono::hours>::min()),
          "the first hour of another clock");
    check(!none.try_acquire_for(1ms), "a millisecond");
    check(!none.try_acquire_for(-1s), "less than no time");
    check(!none.try_acquire_for(std::chrono::hours::min()), "the shortest time of all");

    contend::semaphore later(0);
    std::thread gives([&] {
        for (int turn = 0; turn < 4; turn++) {
            std::this_thread::sleep_for(20ms);
            later.release();
        }
    });
    check(later.try_acquire_until(steady::time_point::max()), "the last time of all");
    check(later.try_acquire_until(std::chrono::system_clock::time_point::max()), "the last time of another clock");
    check(later.try_acquire_until(std::chrono::time_point<std::chrono::system_clock, std::chrono::hours>::max()),
          "the last hour of another clock");
    check(later.try_acquire_for(std::chrono::hours::max()), "the longest time of all");
    gives.join();

    contend::futex lock;
    check(lock.try_lock_for(steady::duration::max()), "a lock, for as long as it takes");
    std::unique_lock<contend::futex> held(lock, std::adopt_lock);
    contend::condition_variable cond;
    check(cond.wait_for(held, 1ms) == std::cv_status::timeout, "no one signals");

    const half::time_point slowly = half::now() + 20ms;
    check(!none.try_acquire_until(slowly) && half::now() >= slowly, "a time of a slower clock");
    const half::time_point signalled = half::now() + 20ms;
    check(!cond.wait_until(held, signalled, [] { return false; }) && half::now() >= signalled,
          "a signal until the time of a slower clock");

    check(throws([](contend::condition_variable &it, stuck &held) { it.wait(held); }), "a wait whose unlock throws");
    check(throws([](contend::condition_variable &it, stuck &held) { it.wait_for(held, 1h); }), "a timed wait whose unlock throws");
    check(throws([&](contend::condition_variable &it, stuck &) { it.wait_until(held, broken::time_point()); }), "a clock that throws");
    check(held.owns_lock(), "a clock that throws leaves the lock held");

    contend::mcs_queue queue;
    for (int turn = 0; turn < 2; turn++)
        contend::mcs_scope scope(queue);
    contend_mcs_queue_t of_c = {};
    { contend::mcs_scope scope(of_c); }
    static_assert(sizeof queue == sizeof(contend_mcs_queue_t), "the same lock in C");
    alignas(contend::condition_variable) unsigned char memory[sizeof(contend::condition_variable)];
    for (int turn = 0; turn < 200; turn++) {
        auto *destroyed = new (memory) contend::condition_variable;
        bool ready = false;
        int waiting = 0;
        auto waits = [&] {
            std::unique_lock<contend::futex> entered(lock);
            waiting++;
            while (!ready)
                destroyed->wait(entered);
        };
        held.unlock();
        std::thread one(waits), other(waits);
        for (held.lock(); waiting < 2; held.lock()) {
            held.unlock();
            std::this_thread::yield();
        }
        ready = true;
        destroyed->notify_all();
        destroyed->~condition_variable();
        std::memset(memory, 0xA5, sizeof memory);
        held.unlock();
        one.join();
        other.join();
        held.lock();
        for (const unsigned char byte : memory)
            if (byte != 0xA5) {
                check(false, "a thread that was notified writes to what was destroyed");
                turn = 200;
            }
    }
    if (failures == 0)
        std::printf("as they should\n");
    return failures != 0;
}
