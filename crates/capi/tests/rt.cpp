// The mutex whose owner inherits: what its functions give, in C and in C++.

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>
#include <type_traits>

#include "contend.hpp"

using base = contend::detail::tried<contend_rt_t, contend_rt_lock, contend_rt_unlock, contend_rt_trylock>;
static_assert(!std::is_convertible<contend::rt *, base *>::value, "the base's lock() would swallow errors");
static_assert(sizeof(contend::rt) == 4 && !std::is_copy_constructible<contend::rt>::value, "a lock as the others are");

static int failures = 0;

static void is(const char *what, long found, long wanted) {
    if (found != wanted) {
        std::printf("%s: %ld instead of %ld\n", what, found, wanted);
        failures++;
    }
}

/// What a call throws: the number of its error, or 0.
template <class Call>
static int thrown_by(Call call) {
    try {
        call();
    } catch (const std::system_error &why) {
        return why.code().value();
    }
    return 0;
}

int main() {
    contend_rt_t lock = CONTEND_INIT;
    const struct timespec past = {};
    const struct timespec none = {0, -1};
    is("lock", contend_rt_lock(&lock), 0);
    is("lock again", contend_rt_lock(&lock), EDEADLK);
    is("try again", contend_rt_trylock(&lock), EBUSY);
    std::thread([&] {
        is("try of another thread", contend_rt_trylock(&lock), EBUSY);
        is("timed", contend_rt_timedlock(&lock, &past), ETIMEDOUT);
        is("on the monotonic clock", contend_rt_clocklock(&lock, 1, &past), ETIMEDOUT);
        is("no time", contend_rt_timedlock(&lock, &none), EINVAL);
    }).join();
    is("unlock", contend_rt_unlock(&lock), 0);
    std::thread([&] { is("lock for good", contend_rt_lock(&lock), 0); }).join();
    is("lock of a thread that has ended", contend_rt_lock(&lock), ENOTRECOVERABLE);
    is("try of a lock of a thread that has ended", contend_rt_trylock(&lock), EBUSY);

    contend::rt guarded;
    contend::condition_variable more;
    long count = 0;
    {
        std::unique_lock<contend::rt> held(guarded);
        is("locked twice", thrown_by([&] { guarded.lock(); }), EDEADLK);
        is("locked twice for a while", thrown_by([&] { guarded.try_lock_for(std::chrono::seconds(1)); }), EDEADLK);
        std::thread([&] {
            is("a timeout", thrown_by([&] { is("held", guarded.try_lock_for(std::chrono::milliseconds(1)), false); }), 0);
        }).join();
    }
    contend::rt left;
    std::thread([&] { left.lock(); }).join();
    const auto soon = std::chrono::system_clock::now() + std::chrono::seconds(1);
    is("of a thread that has ended, for a while", thrown_by([&] { left.try_lock_until(soon); }), ENOTRECOVERABLE);
    std::thread counter([&] {
        for (int round = 0; round < 1000; round++) {
            const std::lock_guard<contend::rt> held(guarded);
            count++;
        }
        more.notify_all();
    });
    {
        std::unique_lock<contend::rt> held(guarded);
        more.wait(held, [&] { return count == 1000; });
    }
    counter.join();
    is("free", guarded.try_lock_for(std::chrono::milliseconds(1)), true);
    guarded.unlock();
    std::puts(failures == 0 ? "all is as it should be" : "something is wrong");
    return failures != 0;
}
