// A tour of contend.hpp: the locks under std::scoped_lock, std::unique_lock, std::shared_lock and
// std::condition_variable_any.
//
// c++ -std=c++17 tour.cpp $(pkg-config --cflags --libs contend) -pthread
#include <contend.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <queue>
#include <shared_mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

constexpr int threads = 4;
constexpr int rounds = 2000;

void check(bool right, const char *what)
{
    if (!right) {
        std::fprintf(stderr, "wrong: %s\n", what);
        std::exit(1);
    }
}

template <class Body>
void in_parallel(Body body)
{
    std::vector<std::thread> all;
    for (int i = 0; i < threads; i++)
        all.emplace_back(body, i);
    for (std::thread &thread : all)
        thread.join();
}

// Two locks of different kinds at once: std::scoped_lock tries, and backs off, so that no order deadlocks.
void transfers()
{
    static contend::mcs one;
    static contend::futex other;
    long left = 0, right = 0;
    in_parallel([&](int) {
        for (int i = 0; i < rounds; i++) {
            std::scoped_lock held(one, other);
            left--;
            right++;
        }
    });
    check(left == -threads * rounds && right == threads * rounds, "scoped_lock over mcs and futex");
}

void deadlines()
{
    using namespace std::chrono_literals;
    contend::clh_timed lock;
    std::unique_lock held(lock);
    std::thread([&] {
        std::unique_lock late(lock, std::defer_lock);
        check(!late.try_lock(), "a held lock refuses");
        check(!late.try_lock_for(2ms), "a wait ends");
        check(!late.try_lock_until(std::chrono::system_clock::now() + 2ms), "a wait on the wall clock ends");
    }).join();
    held.unlock();
    check(std::unique_lock(lock, 1s).owns_lock(), "a free lock needs no waiting");
}

template <class Lock>
void readers_and_writers(const char *name)
{
    Lock lock;
    long first = 0, second = 0;
    in_parallel([&](int thread) {
        for (int i = 0; i < rounds; i++) {
            if ((thread + i) % 4 == 0) {
                std::unique_lock write(lock);
                first++;
                second++;
                if (i % 8 == 0) { // reads on, with others
                    write.release()->downgrade();
                    std::shared_lock read(lock, std::adopt_lock);
                    check(first == second, name);
                }
            } else {
                std::shared_lock read(lock);
                check(first == second, name);
            }
        }
    });
    check(first == threads * rounds / 4, name);
}

void hand_over()
{
    contend::futex lock;
    std::condition_variable_any filled;
    std::queue<int> items;
    long sum = 0;
    std::thread consumer([&] {
        for (int i = 0; i < rounds; i++) {
            std::unique_lock held(lock);
            filled.wait(held, [&] { return !items.empty(); });
            sum += items.front();
            items.pop();
        }
    });
    for (int i = 0; i < rounds; i++) {
        {
            std::lock_guard held(lock);
            items.push(i);
        }
        filled.notify_one();
    }
    consumer.join();
    check(sum == static_cast<long>(rounds) * (rounds - 1) / 2, "condition_variable_any");
}

void nodes_in_frames()
{
    static contend::mcs_queue queue;
    long count = 0;
    in_parallel([&](int) {
        for (int i = 0; i < rounds; i++) {
            contend::mcs_scope held(queue);
            count++;
        }
    });
    check(count == threads * rounds, "mcs_scope");
}

/// Two at a time come in, and all wait for each other at the end of each round.
void permits_and_rounds()
{
    constexpr int rounds_of_all = 50;
    contend::semaphore seats(2);
    contend::barrier all_here(threads);
    std::atomic<int> inside{0}, leaders{0};
    in_parallel([&](int) {
        for (int i = 0; i < rounds_of_all; i++) {
            seats.acquire();
            check(++inside <= 2, "semaphore");
            --inside;
            seats.release();
            leaders += all_here.wait() ? 1 : 0;
        }
    });
    check(leaders == rounds_of_all, "barrier");
    check(seats.try_acquire() && seats.try_acquire() && !seats.try_acquire(), "all permits came back");
    check(!seats.try_acquire_until(std::chrono::steady_clock::now()), "none comes");
}

void conditions()
{
    contend::futex lock;
    contend::condition_variable filled;
    int filled_to = 0;
    std::thread producer([&] {
        for (int i = 1; i <= rounds; i++) {
            {
                std::lock_guard held(lock);
                filled_to = i;
            }
            filled.notify_all();
        }
    });
    std::unique_lock held(lock);
    filled.wait(held, [&] { return filled_to == rounds; });
    check(!filled.wait_for(held, std::chrono::milliseconds(1), [&] { return filled_to > rounds; }), "wait_for");
    held.unlock();
    producer.join();
}

} // namespace

static_assert(!std::is_copy_constructible_v<contend::qspin>);
static_assert(sizeof(contend::qspin) == 4 && sizeof(contend::rw_queued) == 8 && sizeof(contend::mcs) == 16);

int main()
{
    transfers();
    deadlines();
    readers_and_writers<contend::rw>("rw");
    readers_and_writers<contend::rw_queued>("rw_queued");
    hand_over();
    nodes_in_frames();
    permits_and_rounds();
    conditions();
    std::puts("all counts add up");
}
