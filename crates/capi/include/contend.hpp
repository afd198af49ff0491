/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What stands between marks is made from the catalogue of locks by
   `CONTEND_WRITE_HEADERS=1 cargo test -p contend-capi --test headers`; the rest is written here. */

#ifndef CONTEND_HPP
#define CONTEND_HPP

#if __cplusplus < 201703L || !defined(__cpp_exceptions)
#error "contend.hpp needs C++17 or later, with exceptions; contend.h has the same locks for C and without them"
#endif

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <type_traits>

#include "contend.h"

/// The locks as types that meet Lockable, and TimedLockable or SharedLockable where the algorithm can: for
/// std::scoped_lock, std::unique_lock, std::shared_lock and std::condition_variable_any.
namespace contend {

namespace detail {

/// BasicLockable.
template <class T, int (*Lock)(T *), int (*Unlock)(T *)>
class exclusive {
public:
    constexpr exclusive() noexcept = default;
    exclusive(const exclusive &) = delete;
    exclusive &operator=(const exclusive &) = delete;

    void lock() noexcept { Lock(&lock_); }
    void unlock() noexcept { Unlock(&lock_); }

    using native_handle_type = T *;
    native_handle_type native_handle() noexcept { return &lock_; }

protected:
    T lock_{};
};

/// Lockable.
template <class T, int (*Lock)(T *), int (*Unlock)(T *), int (*Try)(T *)>
class tried : public exclusive<T, Lock, Unlock> {
public:
    bool try_lock() noexcept { return Try(&this->lock_) == 0; }
};

/// CLOCK_MONOTONIC.
constexpr int monotonic = 1;

/// So long after a point in time, or that point itself; the last one there is for a wait that goes past it.
template <class Rep, class Period>
std::chrono::steady_clock::time_point after(std::chrono::steady_clock::time_point now,
                                            const std::chrono::duration<Rep, Period> &wait) {
    using steady = std::chrono::steady_clock;
    using seconds = std::chrono::duration<double>; // which no wait is too long for
    if (wait <= wait.zero())
        return now;
    const bool ends = seconds(wait) < 0.99 * seconds(steady::time_point::max() - now);
    return ends ? now + std::chrono::ceil<steady::duration>(wait) : steady::time_point::max();
}

/// So long after now.
template <class Rep, class Period>
std::chrono::steady_clock::time_point from_now(const std::chrono::duration<Rep, Period> &wait) {
    return after(std::chrono::steady_clock::now(), wait);
}

/// Whether a point in time comes after another of its clock, and whether it does so for good, past the range in which both are counted.
struct order {
    bool later, for_good;
};
template <class Clock, class Duration>
order compared(const std::chrono::time_point<Clock, Duration> &at, const typename Clock::time_point &now) {
    using common = typename std::common_type<Duration, typename Clock::duration>::type;
    using in_seconds = std::chrono::duration<double>; // which no time is too far for
    const auto range = 0.99 * in_seconds(common::max());
    const auto since = in_seconds(at.time_since_epoch());
    if (since > range || since < -range)
        return {since > range, since > range};
    return {at > now, false};
}

/// A point in time of any clock, by CLOCK_MONOTONIC. Throws what the clock throws.
template <class Clock, class Duration>
struct timespec deadline(const std::chrono::time_point<Clock, Duration> &at) {
    // The epochs of these clocks are those of CLOCK_MONOTONIC and CLOCK_REALTIME.
    using steady = std::chrono::steady_clock;
    const auto its_now = Clock::now(); // before the other: the deadline may come a little late, and never early
    const auto now = steady::now();
    const order comes = compared(at, its_now);
    const auto end = comes.for_good ? steady::time_point::max() : comes.later ? after(now, at - its_now) : now;
    auto since = end.time_since_epoch();
    auto seconds = std::chrono::floor<std::chrono::seconds>(since);
    struct timespec time = {};
    time.tv_sec = static_cast<decltype(time.tv_sec)>(seconds.count());
    time.tv_nsec = static_cast<decltype(time.tv_nsec)>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds).count());
    return time;
}

/// Whether a point in time is still to come after a wait until then: its clock may have been set, or run at a pace of its own.
template <class Clock, class Duration>
bool still_comes(const std::chrono::time_point<Clock, Duration> &at) {
    return !std::is_same<Clock, std::chrono::steady_clock>::value && compared(at, Clock::now()).later;
}

/// Calls a `clock` function with a point in time of any clock, and gives its error number.
template <class T, class Clock, class Duration>
int error_until(T *lock, int (*wait)(T *, int, const struct timespec *),
                const std::chrono::time_point<Clock, Duration> &at) {
    int error;
    do {
        const struct timespec end = deadline(at);
        error = wait(lock, monotonic, &end);
    } while (error == ETIMEDOUT && still_comes(at));
    return error;
}

/// The same for a function whose only error is that the time has come: whether it had none.
template <class T, class Clock, class Duration>
bool until(T *lock, int (*wait)(T *, int, const struct timespec *),
           const std::chrono::time_point<Clock, Duration> &at) {
    return error_until(lock, wait, at) == 0;
}

/// TimedLockable.
template <class T, int (*Lock)(T *), int (*Unlock)(T *), int (*Try)(T *),
          int (*Wait)(T *, int, const struct timespec *)>
class timed : public tried<T, Lock, Unlock, Try> {
public:
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &at) {
        return until(&this->lock_, Wait, at);
    }
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait) {
        return try_lock_until(from_now(wait));
    }
};

/// SharedLockable, as std::shared_mutex is.
template <class T, int (*Lock)(T *), int (*Unlock)(T *), int (*Try)(T *), int (*Shared)(T *),
          int (*UnlockShared)(T *), int (*TryShared)(T *), int (*Downgrade)(T *)>
class shared : public tried<T, Lock, Unlock, Try> {
public:
    void lock_shared() noexcept { Shared(&this->lock_); }
    void unlock_shared() noexcept { UnlockShared(&this->lock_); }
    bool try_lock_shared() noexcept { return TryShared(&this->lock_) == 0; }
    /// Makes a reader of the writer, which unlock_shared() ends; no other thread writes in between.
    void downgrade() noexcept { Downgrade(&this->lock_); }
};

/// SharedTimedLockable, as std::shared_timed_mutex is.
template <class T, int (*Lock)(T *), int (*Unlock)(T *), int (*Try)(T *), int (*Shared)(T *),
          int (*UnlockShared)(T *), int (*TryShared)(T *), int (*Downgrade)(T *),
          int (*Wait)(T *, int, const struct timespec *), int (*WaitShared)(T *, int, const struct timespec *)>
class timed_shared : public shared<T, Lock, Unlock, Try, Shared, UnlockShared, TryShared, Downgrade> {
public:
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &at) {
        return until(&this->lock_, Wait, at);
    }
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait) {
        return try_lock_until(from_now(wait));
    }
    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &at) {
        return until(&this->lock_, WaitShared, at);
    }
    template <class Rep, class Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &wait) {
        return try_lock_shared_until(from_now(wait));
    }
};

/// What contend_ww_lock gives a context that has to give way.
constexpr int ww_gives_way = EDEADLK;

} // namespace detail

/* Locks, from the catalogue: */

/* == Start here == */

/// the lock to start with: backs off while the lock is hot, spins in a queue, then sleeps.
using adaptive = detail::timed_shared<contend_adaptive_t, contend_adaptive_wrlock, contend_adaptive_wrunlock, contend_adaptive_trywrlock, contend_adaptive_rdlock, contend_adaptive_rdunlock, contend_adaptive_tryrdlock, contend_adaptive_downgrade, contend_adaptive_clockwrlock, contend_adaptive_clockrdlock>;

/// a mutex that backs off while the lock is hot, then sleeps.
using futex = detail::timed<contend_futex_t, contend_futex_lock, contend_futex_unlock, contend_futex_trylock, contend_futex_clocklock>;

/// a reader-writer lock that sleeps; fair to writers, lets a reader read again.
using rw = detail::timed_shared<contend_rw_t, contend_rw_wrlock, contend_rw_wrunlock, contend_rw_trywrlock, contend_rw_rdlock, contend_rw_rdunlock, contend_rw_tryrdlock, contend_rw_downgrade, contend_rw_clockwrlock, contend_rw_clockrdlock>;

/* == Spin locks without a queue == */

/// read, back off twice as long after each failure, swap when free.
using ttas_backoff = detail::timed<contend_ttas_backoff_t, contend_ttas_backoff_lock, contend_ttas_backoff_unlock, contend_ttas_backoff_trylock, contend_ttas_backoff_clocklock>;

/// a ticket lock whose waiters back off in proportion to their distance.
using ticket_proportional = detail::tried<contend_ticket_proportional_t, contend_ticket_proportional_lock, contend_ticket_proportional_unlock, contend_ticket_proportional_trylock>;

/// a lock with a reference count that is changed without it while it is free.
using lockref = detail::timed<contend_lockref_t, contend_lockref_lock, contend_lockref_unlock, contend_lockref_trylock, contend_lockref_clocklock>;

/* == Spin locks whose waiters queue up == */

/// a queue of nodes; every waiter watches its own.
using mcs = detail::tried<contend_mcs_t, contend_mcs_lock, contend_mcs_unlock, contend_mcs_trylock>;

/// MCS whose releases pass over waiters that do not run.
using mcs_tp = detail::timed<contend_mcs_tp_t, contend_mcs_tp_lock, contend_mcs_tp_unlock, contend_mcs_tp_trylock, contend_mcs_tp_clocklock>;

/// MCS that needs no node at release.
using k42 = detail::tried<contend_k42_t, contend_k42_lock, contend_k42_unlock, contend_k42_trylock>;

/// a queue of nodes; every waiter watches its predecessor's.
using clh = detail::tried<contend_clh_t, contend_clh_lock, contend_clh_unlock, contend_clh_trylock>;

/// CLH whose waiters can give up.
using clh_timed = detail::timed<contend_clh_timed_t, contend_clh_timed_lock, contend_clh_timed_unlock, contend_clh_timed_trylock, contend_clh_timed_clocklock>;

/// MCS linked both ways, whose waiters can leave from anywhere.
using osq = detail::timed<contend_osq_t, contend_osq_lock, contend_osq_unlock, contend_osq_trylock, contend_osq_clocklock>;

/// 4 bytes: one pending waiter on the word, an MCS queue behind it.
using qspin = detail::tried<contend_qspin_t, contend_qspin_lock, contend_qspin_unlock, contend_qspin_trylock>;

/* == Reader-writer locks, as Linux has them == */

/// a reader-writer spin lock whose waiters queue up at a ticket lock.
using rw_queued = detail::shared<contend_rw_queued_t, contend_rw_queued_wrlock, contend_rw_queued_wrunlock, contend_rw_queued_trywrlock, contend_rw_queued_rdlock, contend_rw_queued_rdunlock, contend_rw_queued_tryrdlock, contend_rw_queued_downgrade>;

/// a reader-writer lock whose writers spin in a queue while the owner runs, then sleep; handed over to a writer after 4 ms.
using rwsem = detail::timed_shared<contend_rwsem_t, contend_rwsem_wrlock, contend_rwsem_wrunlock, contend_rwsem_trywrlock, contend_rwsem_rdlock, contend_rwsem_rdunlock, contend_rwsem_tryrdlock, contend_rwsem_downgrade, contend_rwsem_clockwrlock, contend_rwsem_clockrdlock>;

/* == Locks that sleep, as Linux has them == */

/// spins in a queue while the owner runs, then sleeps; handed over to a waiter that was woken and found it taken.
using kernel_mutex = detail::timed<contend_kernel_mutex_t, contend_kernel_mutex_lock, contend_kernel_mutex_unlock, contend_kernel_mutex_trylock, contend_kernel_mutex_clocklock>;

/// taken by the thread that finds it free; the first waiter spins while the owner runs, then sleeps, and is handed the lock after 5 ms.
using tp_futex = detail::timed<contend_tp_futex_t, contend_tp_futex_lock, contend_tp_futex_unlock, contend_tp_futex_trylock, contend_tp_futex_clocklock>;

/* == History: what others have taken the place of == */

/// swap until the word was free; every attempt takes the line.
using tas = detail::timed<contend_tas_t, contend_tas_lock, contend_tas_unlock, contend_tas_trylock, contend_tas_clocklock>;

/// swap at once, back off twice as long after each failure.
using tas_backoff = detail::timed<contend_tas_backoff_t, contend_tas_backoff_lock, contend_tas_backoff_unlock, contend_tas_backoff_trylock, contend_tas_backoff_clocklock>;

/// read until the word is free, then swap; all waiters rush at a release.
using ttas = detail::timed<contend_ttas_t, contend_ttas_lock, contend_ttas_unlock, contend_ttas_trylock, contend_ttas_clocklock>;

/// draw a number, wait until it is served; all waiters watch one word.
using ticket = detail::tried<contend_ticket_t, contend_ticket_lock, contend_ticket_unlock, contend_ticket_trylock>;

/// the ticket lock with 16-bit numbers in one word.
using ticket4 = detail::tried<contend_ticket4_t, contend_ticket4_lock, contend_ticket4_unlock, contend_ticket4_trylock>;

/// a ticket lock whose waiters learn how long to back off.
using ticket_selftuning = detail::tried<contend_ticket_selftuning_t, contend_ticket_selftuning_lock, contend_ticket_selftuning_unlock, contend_ticket_selftuning_trylock>;

/// an array of slots; every waiter watches its own.
using anderson = detail::tried<contend_anderson_t, contend_anderson_lock, contend_anderson_unlock, contend_anderson_trylock>;

/// a reader-writer spin lock on one word.
using rw_naive = detail::timed_shared<contend_rw_naive_t, contend_rw_naive_wrlock, contend_rw_naive_wrunlock, contend_rw_naive_trywrlock, contend_rw_naive_rdlock, contend_rw_naive_rdunlock, contend_rw_naive_tryrdlock, contend_rw_naive_downgrade, contend_rw_naive_clockwrlock, contend_rw_naive_clockrdlock>;

/// rwsem as it was before writers spun: the thread that finds it free takes it, all others sleep.
using rwsem_no_spin = detail::timed_shared<contend_rwsem_no_spin_t, contend_rwsem_no_spin_wrlock, contend_rwsem_no_spin_wrunlock, contend_rwsem_no_spin_trywrlock, contend_rwsem_no_spin_rdlock, contend_rwsem_no_spin_rdunlock, contend_rwsem_no_spin_tryrdlock, contend_rwsem_no_spin_downgrade, contend_rwsem_no_spin_clockwrlock, contend_rwsem_no_spin_clockrdlock>;

/// rwsem as it was before newcomers could steal it: handed over to sleepers in the order of arrival.
using rwsem_fifo = detail::timed_shared<contend_rwsem_fifo_t, contend_rwsem_fifo_wrlock, contend_rwsem_fifo_wrunlock, contend_rwsem_fifo_trywrlock, contend_rwsem_fifo_rdlock, contend_rwsem_fifo_rdunlock, contend_rwsem_fifo_tryrdlock, contend_rwsem_fifo_downgrade, contend_rwsem_fifo_clockwrlock, contend_rwsem_fifo_clockrdlock>;

/* == The C library's algorithms, for comparison == */

/// glibc's default mutex: sleeps at once while the lock is held.
using glibc_mutex = detail::timed<contend_glibc_mutex_t, contend_glibc_mutex_lock, contend_glibc_mutex_unlock, contend_glibc_mutex_trylock, contend_glibc_mutex_clocklock>;

/// glibc's adaptive mutex: polls for up to 100 pauses, then sleeps.
using glibc_adaptive = detail::timed<contend_glibc_adaptive_t, contend_glibc_adaptive_lock, contend_glibc_adaptive_unlock, contend_glibc_adaptive_trylock, contend_glibc_adaptive_clocklock>;

/// glibc's spin lock: adds when it has seen the lock free; all waiters rush at a release.
using glibc_spin = detail::tried<contend_glibc_spin_t, contend_glibc_spin_lock, contend_glibc_spin_unlock, contend_glibc_spin_trylock>;

/// glibc's reader-writer lock of the default kind.
using glibc_rwlock = detail::timed_shared<contend_glibc_rwlock_t, contend_glibc_rwlock_wrlock, contend_glibc_rwlock_wrunlock, contend_glibc_rwlock_trywrlock, contend_glibc_rwlock_rdlock, contend_glibc_rwlock_rdunlock, contend_glibc_rwlock_tryrdlock, contend_glibc_rwlock_downgrade, contend_glibc_rwlock_clockwrlock, contend_glibc_rwlock_clockrdlock>;

/// glibc's reader-writer lock whose writers hand over to waiting writers.
using glibc_rwlock_writer = detail::timed_shared<contend_glibc_rwlock_writer_t, contend_glibc_rwlock_writer_wrlock, contend_glibc_rwlock_writer_wrunlock, contend_glibc_rwlock_writer_trywrlock, contend_glibc_rwlock_writer_rdlock, contend_glibc_rwlock_writer_rdunlock, contend_glibc_rwlock_writer_tryrdlock, contend_glibc_rwlock_writer_downgrade, contend_glibc_rwlock_writer_clockwrlock, contend_glibc_rwlock_writer_clockrdlock>;

/// glibc's reader-writer lock whose new readers let waiting writers go first.
using glibc_rwlock_nonrecursive = detail::timed_shared<contend_glibc_rwlock_nonrecursive_t, contend_glibc_rwlock_nonrecursive_wrlock, contend_glibc_rwlock_nonrecursive_wrunlock, contend_glibc_rwlock_nonrecursive_trywrlock, contend_glibc_rwlock_nonrecursive_rdlock, contend_glibc_rwlock_nonrecursive_rdunlock, contend_glibc_rwlock_nonrecursive_tryrdlock, contend_glibc_rwlock_nonrecursive_downgrade, contend_glibc_rwlock_nonrecursive_clockwrlock, contend_glibc_rwlock_nonrecursive_clockrdlock>;

/* == Elided: in transactions, where the processor has them == */

/// sections are transactions, and tas where they abort; RetryThenSkip.
using elided_tas = detail::timed<contend_elided_tas_t, contend_elided_tas_lock, contend_elided_tas_unlock, contend_elided_tas_trylock, contend_elided_tas_clocklock>;

/// sections are transactions, and ticket where they abort; RetryThenSkip.
using elided_ticket = detail::tried<contend_elided_ticket_t, contend_elided_ticket_lock, contend_elided_ticket_unlock, contend_elided_ticket_trylock>;

/// sections are transactions, and mcs where they abort; RetryThenSkip.
using elided_mcs = detail::tried<contend_elided_mcs_t, contend_elided_mcs_lock, contend_elided_mcs_unlock, contend_elided_mcs_trylock>;

/// sections are transactions, and glibc-mutex where they abort; RetryThenSkip.
using elided_glibc_mutex = detail::timed<contend_elided_glibc_mutex_t, contend_elided_glibc_mutex_lock, contend_elided_glibc_mutex_unlock, contend_elided_glibc_mutex_trylock, contend_elided_glibc_mutex_clocklock>;

/// sections are transactions, and futex where they abort; RetryThenSkip.
using elided_futex = detail::timed<contend_elided_futex_t, contend_elided_futex_lock, contend_elided_futex_unlock, contend_elided_futex_trylock, contend_elided_futex_clocklock>;

/// sections are transactions, and adaptive where they abort; RetryThenSkip.
using elided_adaptive = detail::timed_shared<contend_elided_adaptive_t, contend_elided_adaptive_wrlock, contend_elided_adaptive_wrunlock, contend_elided_adaptive_trywrlock, contend_elided_adaptive_rdlock, contend_elided_adaptive_rdunlock, contend_elided_adaptive_tryrdlock, contend_elided_adaptive_downgrade, contend_elided_adaptive_clockwrlock, contend_elided_adaptive_clockrdlock>;

/// sections are transactions, and rw where they abort; RetryThenSkip.
using elided_rw = detail::timed_shared<contend_elided_rw_t, contend_elided_rw_wrlock, contend_elided_rw_wrunlock, contend_elided_rw_trywrlock, contend_elided_rw_rdlock, contend_elided_rw_rdunlock, contend_elided_rw_tryrdlock, contend_elided_rw_downgrade, contend_elided_rw_clockwrlock, contend_elided_rw_clockrdlock>;

/// sections are transactions, and ticket where they abort; RetryWhenFree.
using elided_when_free_ticket = detail::tried<contend_elided_when_free_ticket_t, contend_elided_when_free_ticket_lock, contend_elided_when_free_ticket_unlock, contend_elided_when_free_ticket_trylock>;

/// sections are transactions, and ticket where they abort; RetryOneByOne.
using elided_one_by_one_ticket = detail::tried<contend_elided_one_by_one_ticket_t, contend_elided_one_by_one_ticket_lock, contend_elided_one_by_one_ticket_unlock, contend_elided_one_by_one_ticket_trylock>;

/// sections are transactions, and ticket where they abort; RetryLessOften.
using elided_less_often_ticket = detail::tried<contend_elided_less_often_ticket_t, contend_elided_less_often_ticket_lock, contend_elided_less_often_ticket_unlock, contend_elided_less_often_ticket_trylock>;

/* End of what is made. */

/* Names of before, from the catalogue: */

using best [[deprecated("it is adaptive now")]] = adaptive;

using mutex [[deprecated("it is kernel_mutex now")]] = kernel_mutex;

using elided_best [[deprecated("it is elided_adaptive now")]] = elided_adaptive;

/* End of what is made. */

/// The mutex whose owner runs with the highest priority of the threads that wait. The thread that locked unlocks.
class rt : detail::tried<contend_rt_t, contend_rt_lock, contend_rt_unlock, contend_rt_trylock> {
    // Not public: its own lock() drops errors.
    using base = detail::tried<contend_rt_t, contend_rt_lock, contend_rt_unlock, contend_rt_trylock>;

public:
    using base::native_handle;
    using base::try_lock;
    using base::unlock;
    using typename base::native_handle_type;

    /// Throws std::system_error where the thread would wait for itself, or the owner has ended without unlocking.
    void lock() { throw_if(contend_rt_lock(&lock_)); }
    /// Throws as lock() does.
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &at) {
        const int error = detail::error_until(&lock_, contend_rt_clocklock, at);
        if (error == ETIMEDOUT)
            return false;
        throw_if(error);
        return true;
    }
    /// Throws as lock() does.
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait) {
        return try_lock_until(detail::from_now(wait));
    }

private:
    static void throw_if(int error) {
        if (error != 0)
            throw std::system_error(error, std::generic_category(), "contend::rt");
    }
};

/// MCS with the node in the caller's frame: `contend::mcs_scope held(queue);`.
struct mcs_queue : contend_mcs_queue_t {
    constexpr mcs_queue() noexcept : contend_mcs_queue_t{} {}
    mcs_queue(const mcs_queue &) = delete;
    mcs_queue &operator=(const mcs_queue &) = delete;
};

class mcs_scope {
public:
    /// A contend::mcs_queue, or one that C has made.
    explicit mcs_scope(contend_mcs_queue_t &queue) noexcept : queue_(queue) { contend_mcs_queue_lock(&queue_, &node_); }
    ~mcs_scope() { contend_mcs_queue_unlock(&queue_, &node_); }
    mcs_scope(const mcs_scope &) = delete;
    mcs_scope &operator=(const mcs_scope &) = delete;

private:
    contend_mcs_queue_t &queue_;
    contend_mcs_node_t node_{};
};

/// As std::condition_variable_any, for every lock here and any other.
class condition_variable {
public:
    constexpr condition_variable() noexcept = default;
    condition_variable(const condition_variable &) = delete;
    condition_variable &operator=(const condition_variable &) = delete;
    /// Every thread that waits must have been notified; it need not have returned.
    ~condition_variable() { contend_condvar_destroy(&condvar_); }

    void notify_one() noexcept { contend_condvar_signal(&condvar_); }
    void notify_all() noexcept { contend_condvar_broadcast(&condvar_); }

    template <class Lock>
    void wait(Lock &lock) {
        const unsigned int number = enter(lock);
        contend_condvar_sleep(&condvar_, number);
        lock.lock();
    }
    template <class Lock, class Predicate>
    void wait(Lock &lock, Predicate holds) {
        while (!holds())
            wait(lock);
    }
    template <class Lock, class Clock, class Duration>
    std::cv_status wait_until(Lock &lock, const std::chrono::time_point<Clock, Duration> &at) {
        const struct timespec end = detail::deadline(at); // before the caller counts as a waiter: a clock may throw
        const unsigned int number = enter(lock);
        const bool in_time = contend_condvar_clocksleep(&condvar_, number, detail::monotonic, &end) == 0;
        lock.lock();
        return in_time || detail::still_comes(at) ? std::cv_status::no_timeout : std::cv_status::timeout;
    }
    template <class Lock, class Clock, class Duration, class Predicate>
    bool wait_until(Lock &lock, const std::chrono::time_point<Clock, Duration> &at, Predicate holds) {
        while (!holds())
            if (wait_until(lock, at) == std::cv_status::timeout)
                return holds();
        return true;
    }
    template <class Lock, class Rep, class Period>
    std::cv_status wait_for(Lock &lock, const std::chrono::duration<Rep, Period> &wait) {
        return wait_until(lock, detail::from_now(wait));
    }
    template <class Lock, class Rep, class Period, class Predicate>
    bool wait_for(Lock &lock, const std::chrono::duration<Rep, Period> &wait, Predicate holds) {
        return wait_until(lock, detail::from_now(wait), holds);
    }

private:
    /// Counts the caller as a waiter and unlocks. Whom unlock() throws at is no waiter any more: the destructor would wait for it.
    template <class Lock>
    unsigned int enter(Lock &lock) {
        const unsigned int number = contend_condvar_enter(&condvar_);
        try {
            lock.unlock();
        } catch (...) {
            const struct timespec past = {};
            contend_condvar_clocksleep(&condvar_, number, detail::monotonic, &past);
            throw;
        }
        return number;
    }

    contend_condvar_t condvar_{};
};

/// As C++20's std::counting_semaphore, with fewer than 2^31 permits at any time.
class semaphore {
public:
    constexpr explicit semaphore(unsigned int permits) noexcept : semaphore_ CONTEND_SEMAPHORE_INIT(permits) {}
    semaphore(const semaphore &) = delete;
    semaphore &operator=(const semaphore &) = delete;

    void acquire() noexcept { contend_semaphore_wait(&semaphore_); }
    bool try_acquire() noexcept { return contend_semaphore_trywait(&semaphore_) == 0; }
    template <class Clock, class Duration>
    bool try_acquire_until(const std::chrono::time_point<Clock, Duration> &at) {
        return detail::until(&semaphore_, contend_semaphore_clockwait, at);
    }
    template <class Rep, class Period>
    bool try_acquire_for(const std::chrono::duration<Rep, Period> &wait) {
        return try_acquire_until(detail::from_now(wait));
    }
    void release(unsigned int permits = 1) noexcept { contend_semaphore_post(&semaphore_, permits); }

private:
    contend_semaphore_t semaphore_;
};

/// A barrier for a number of threads, 65,535 at most; wait() is true for one of each round. It may be destroyed once all waits have returned.
class barrier {
public:
    constexpr explicit barrier(unsigned int threads) noexcept : barrier_ CONTEND_BARRIER_INIT(threads) {}
    barrier(const barrier &) = delete;
    barrier &operator=(const barrier &) = delete;

    bool wait() noexcept { return contend_barrier_wait(&barrier_) == CONTEND_BARRIER_LEADER; }

private:
    contend_barrier_t barrier_;
};

/// Which of two transactions that would wait for each other gives way: the younger one, when it comes to wait, or when the
/// older one does.
enum class ww_algorithm { wait_die, wound_wait };

class ww_mutex;
class ww_transaction;

/// A class of wound/wait mutexes, which are taken together.
class ww_class {
public:
    constexpr explicit ww_class(ww_algorithm algorithm) noexcept
        : class_{{0, algorithm == ww_algorithm::wound_wait ? 1u : 0u}} {}
    ww_class(const ww_class &) = delete;
    ww_class &operator=(const ww_class &) = delete;

    /// Calls `body` with a ww_transaction, by which it takes mutexes in any order, and gives what it gives. A transaction that
    /// has to give way leaves `body` by an exception, which passes on, and calls it again from its start: `body` changes
    /// nothing before it has its last mutex, and keeps its guards to itself.
    ///
    /// When `body` is called again, the transaction holds the mutex that it did not get, without a guard: `body` takes it by the
    /// ww_transaction, since ww_mutex::lock would wait for ever. A transaction that begins while its thread holds other mutexes
    /// of the class, be it inside of another one, takes part in a deadlock as with any mutex.
    template <class Body>
    decltype(auto) transaction(Body body);

private:
    friend class ww_mutex;
    friend class ww_transaction;
    contend_ww_class_t class_;
};

/// Lockable, as any mutex, and taken with others of its class in a transaction. A guard is std::unique_lock<ww_mutex>. That of a
/// transaction stays with its thread. After guard.unlock(), guard.lock() takes the mutex alone, outside of the transaction, which may
/// deadlock: ww_transaction::lock takes it again.
class ww_mutex {
public:
    explicit constexpr ww_mutex(ww_class &its_class) noexcept : lock_ CONTEND_WW_INIT(&its_class.class_) {}
    ww_mutex(const ww_mutex &) = delete;
    ww_mutex &operator=(const ww_mutex &) = delete;

    void lock() noexcept { contend_ww_lock(&lock_, nullptr); }
    bool try_lock() noexcept { return contend_ww_trylock(&lock_, nullptr) == 0; }
    void unlock() noexcept { contend_ww_unlock(&lock_); }

    using native_handle_type = contend_ww_t *;
    native_handle_type native_handle() noexcept { return &lock_; }

private:
    friend class ww_transaction;
    contend_ww_t lock_;
};

/// This transaction has to give way: what leaves the body of its ww_class::transaction. One that it is nested in, or that is nested in
/// it, lets it pass.
struct ww_deadlock {
    const ww_transaction *transaction;
};

/// What takes mutexes for the body of ww_class::transaction.
class ww_transaction {
public:
    ww_transaction(const ww_transaction &) = delete;
    ww_transaction &operator=(const ww_transaction &) = delete;

    /// Waits for the mutex. Throws ww_deadlock if the transaction has to give way, and std::logic_error if it has the mutex, or
    /// the mutex is of another class.
    [[nodiscard]] std::unique_lock<ww_mutex> lock(ww_mutex &wanted) {
        if (reserved_ == &wanted) {
            reserved_ = nullptr;
        } else if (const int error = contend_ww_lock(&wanted.lock_, &context_)) {
            if (error != detail::ww_gives_way)
                throw std::logic_error("contend::ww_transaction: held already, or of another class");
            if (contended_ == nullptr)
                contended_ = &wanted;
            throw ww_deadlock{this};
        }
        return std::unique_lock<ww_mutex>(wanted, std::adopt_lock);
    }

private:
    friend class ww_class;

    explicit ww_transaction(ww_class &its_class) noexcept {
        contend_ww_context_init(&context_, &its_class.class_);
    }
    ~ww_transaction() {
        release_reserved();
        contend_ww_context_done(&context_);
    }

    void release_reserved() noexcept {
        if (reserved_ != nullptr)
            reserved_->unlock();
        reserved_ = nullptr;
    }

    /// Waits for the mutex that it did not get, with nothing held.
    void give_way() {
        release_reserved();
        if (contended_ == nullptr || contend_ww_lock_slow(&contended_->lock_, &context_) != 0)
            throw std::logic_error("contend::ww_transaction: a guard or a refusal outlives the body");
        reserved_ = contended_;
        contended_ = nullptr;
    }

    contend_ww_context_t context_;
    ww_mutex *contended_ = nullptr;
    ww_mutex *reserved_ = nullptr; // held, without a guard
};

template <class Body>
decltype(auto) ww_class::transaction(Body body) {
    ww_transaction transaction(*this);
    for (;;) {
        try {
            return body(transaction);
        } catch (const ww_deadlock &refusal) {
            if (refusal.transaction != &transaction)
                throw;
        }
        transaction.give_way();
    }
}

} // namespace contend

#endif
