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
#include <stdexcept>
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

/// Locks in whatever order they come: the younger of two transactions that would wait for each other begins again.
void transactions(contend::ww_algorithm algorithm)
{
    contend::ww_class accounts(algorithm);
    struct account {
        contend::ww_mutex lock;
        long balance = 0;
    };
    account all[3] = {{contend::ww_mutex(accounts)}, {contend::ww_mutex(accounts)}, {contend::ww_mutex(accounts)}};
    in_parallel([&](int thread) {
        for (int i = 0; i < rounds; i++) {
            account &from = all[(thread + i) % 3], &to = all[(thread + i + 1 + i / 3 % 2) % 3];
            const bool moved = accounts.transaction([&](contend::ww_transaction &taken) {
                const auto first = taken.lock(from.lock);
                const auto second = taken.lock(to.lock);
                from.balance--;
                to.balance++;
                return true;
            });
            check(moved, "transaction");
            const std::lock_guard alone(from.lock);
            from.balance++;
        }
    });
    check(all[0].balance + all[1].balance + all[2].balance == threads * rounds, "ww_mutex");

    contend::ww_class others(algorithm);
    contend::ww_mutex stranger(others);
    for (contend::ww_mutex *wrong : {&stranger, &all[0].lock}) {
        try {
            accounts.transaction([&](contend::ww_transaction &taken) {
                const auto held = taken.lock(all[0].lock);
                const auto refused = taken.lock(*wrong);
                check(false, "a mutex of another class, or twice");
            });
        } catch (const std::logic_error &) {
        }
        check(all[0].lock.try_lock(), "what was taken is released");
        all[0].lock.unlock();
    }

    const bool passed = accounts.transaction([&](contend::ww_transaction &outer) {
        try {
            accounts.transaction([&](contend::ww_transaction &) { throw contend::ww_deadlock{&outer}; });
        } catch (const contend::ww_deadlock &) {
            return true;
        }
        return false;
    });
    check(passed, "a refusal is for the transaction that was refused");
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
    transactions(contend::ww_algorithm::wait_die);
    transactions(contend::ww_algorithm::wound_wait);
    std::puts("all counts add up");
}
