//! The C and C++ headers, made from the catalogue.

use core::fmt::Write as _;

use locks::catalogue::{LOCKS, Lock};

const LICENCE: &str = "/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n";
const REMEDY: &str = "/* Made from the catalogue of locks by `CONTEND_WRITE_HEADERS=1 cargo test -p contend-capi --test headers`. */\n";

/// The lock's name as C has it.
///
/// ```
/// use contend::header::{ability, c_name};
///
/// let lock = locks::catalogue::find("rw-naive").expect("the catalogue has it");
/// assert_eq!((c_name(lock).as_str(), ability(lock)), ("rw_naive", "timed_shared"));
/// ```
#[must_use]
pub fn c_name(lock: &Lock) -> String {
    lock.name.replace('-', "_")
}

/// What the lock can do, as [`EXPORTED`](crate::EXPORTED) says it.
#[must_use]
pub fn ability(lock: &Lock) -> &'static str {
    match (lock.shared, lock.timed) {
        (true, true) => "timed_shared",
        (true, false) => "shared",
        (false, true) => "timed",
        (false, false) => "tried",
    }
}

/// `contend.h`.
#[must_use]
pub fn c() -> String {
    let mut text = format!("{LICENCE}{REMEDY}{C_START}");
    for lock in LOCKS {
        c_lock(&mut text, lock);
    }
    text + C_END
}

fn c_lock(text: &mut String, lock: &Lock) {
    let name = c_name(lock);
    let (word, words, align) = match lock.bytes {
        bytes if bytes % 64 == 0 => ("uint64_t", bytes / 8, "CONTEND_LINE_ALIGNED "),
        bytes if bytes % 8 == 0 => ("uint64_t", bytes / 8, ""),
        bytes => ("uint32_t", bytes / 4, ""),
    };
    write!(
        text,
        "\n/* {name}: {}.\n   {}. Fairness: {}. */\n\
         typedef struct contend_{name} {{\n    {align}{word} contend_private[{words}];\n}} contend_{name}_t;\n",
        lock.summary, lock.source, lock.fairness,
    )
    .expect("writing to a string");
    let mut function = |suffix: &str, arguments: &str| {
        writeln!(text, "int contend_{name}_{suffix}(contend_{name}_t *lock{arguments});")
            .expect("writing to a string");
    };
    let at = ", const struct timespec *at";
    let clock_at = ", int clock, const struct timespec *at";
    let sides: &[&str] = if lock.shared { &["wr", "rd"] } else { &[""] };
    for side in sides {
        function(&format!("{side}lock"), "");
        function(&format!("try{side}lock"), "");
        if lock.timed {
            function(&format!("timed{side}lock"), at);
            function(&format!("clock{side}lock"), clock_at);
        }
        function(&format!("{side}unlock"), "");
    }
    if lock.shared {
        function("rdlock_again", "");
        function("unlock", "");
        function("downgrade", "");
    }
    if lock.name == "lockref" {
        text.push_str(C_LOCKREF);
    }
}

const C_START: &str = r#"
#ifndef CONTEND_H
#define CONTEND_H

#include <stdint.h>
#include <time.h>

/* A lock whose bytes are all zero is free: static locks need no initialiser, others take CONTEND_INIT. There is
   nothing to destroy. A lock must not be copied while it is in use.

   Functions give 0 or an error number: EBUSY from a try, ETIMEDOUT at a deadline, EINVAL for a time that is none.
   `timed` takes a time of CLOCK_REALTIME; `clock` names CLOCK_REALTIME (0) or CLOCK_MONOTONIC (1).
   Any thread may unlock. `rdlock_again` is for a thread that reads already: no waiting writer keeps it out. `unlock` of a
   reader-writer lock ends whichever hold the caller has; `wrunlock` and `rdunlock` save it the check. `downgrade` makes a
   reader of the writer, with nobody writing in between. */

#ifdef __cplusplus
#define CONTEND_INIT {}
#define CONTEND_LINE_ALIGNED alignas(64)
extern "C" {
#else
#define CONTEND_INIT {{0}}
#define CONTEND_LINE_ALIGNED _Alignas(64)
#endif

/* Every wait spins for so many pauses, then yields, then sleeps. UINT_MAX spins for ever: only for programs that have
   a core for every thread. */
void contend_set_spin_bound(unsigned int pauses);
"#;

const C_LOCKREF: &str = r"/* The reference count. While nobody holds the lock it is changed without it.
   get: takes a reference, gives the new count. get_not_zero, get_not_dead: take one if there is one, or the object is
   not dead; 1 if so. put_or_lock: drops a reference, 1; if it is the last, keeps it and locks, 0. put_not_last: drops
   a reference that is not the last; 1 if so. By the holder: mark_dead: no more references; add_locked: adds some. */
int contend_lockref_count(contend_lockref_t *lock);
int contend_lockref_get(contend_lockref_t *lock);
int contend_lockref_get_not_zero(contend_lockref_t *lock);
int contend_lockref_get_not_dead(contend_lockref_t *lock);
int contend_lockref_put_or_lock(contend_lockref_t *lock);
int contend_lockref_put_not_last(contend_lockref_t *lock);
int contend_lockref_mark_dead(contend_lockref_t *lock);
int contend_lockref_add_locked(contend_lockref_t *lock, int references);
";

const C_END: &str = r"
/* mcs_queue: MCS whose nodes are the caller's. A node is passed to lock and unlock, and stays where it is between. */
typedef struct contend_mcs_node {
    uint64_t contend_private[2];
} contend_mcs_node_t;
typedef struct contend_mcs_queue {
    uint64_t contend_private[1];
} contend_mcs_queue_t;
int contend_mcs_queue_lock(contend_mcs_queue_t *lock, contend_mcs_node_t *node);
int contend_mcs_queue_trylock(contend_mcs_queue_t *lock, contend_mcs_node_t *node);
int contend_mcs_queue_unlock(contend_mcs_queue_t *lock, contend_mcs_node_t *node);

/* condvar: waits for what a lock guards, with any lock, in three steps: enter while the lock is held, unlock, sleep with what
   enter gave; then lock again and look at the condition, since a wait may end without a signal. All zero bits: nobody waits. */
typedef struct contend_condvar {
    uint32_t contend_private[2];
} contend_condvar_t;
unsigned int contend_condvar_enter(contend_condvar_t *condvar);
int contend_condvar_sleep(contend_condvar_t *condvar, unsigned int number);
int contend_condvar_clocksleep(contend_condvar_t *condvar, unsigned int number, int clock, const struct timespec *at);
int contend_condvar_signal(contend_condvar_t *condvar);
int contend_condvar_broadcast(contend_condvar_t *condvar);

/* semaphore: made by CONTEND_SEMAPHORE_INIT(permits). post gives EOVERFLOW when there would be 2^31 permits or more. */
typedef struct contend_semaphore {
    uint32_t contend_private[2];
} contend_semaphore_t;
#define CONTEND_SEMAPHORE_INIT(permits) {{0, (permits)}}
int contend_semaphore_wait(contend_semaphore_t *semaphore);
int contend_semaphore_trywait(contend_semaphore_t *semaphore);
int contend_semaphore_clockwait(contend_semaphore_t *semaphore, int clock, const struct timespec *at);
int contend_semaphore_post(contend_semaphore_t *semaphore, unsigned int permits);

/* barrier: made by CONTEND_BARRIER_INIT(threads), 65,535 at most. wait gives CONTEND_BARRIER_LEADER to one thread of each round, 0 to the others. */
typedef struct contend_barrier {
    uint32_t contend_private[2];
} contend_barrier_t;
#define CONTEND_BARRIER_INIT(threads) {{0, (threads)}}
#define CONTEND_BARRIER_LEADER (-1)
int contend_barrier_wait(contend_barrier_t *barrier);

/* once: calls what it is given, which must not throw, the first time; who comes meanwhile waits until that is over. All zero bits: not yet. */
typedef struct contend_once {
    uint32_t contend_private[1];
} contend_once_t;
int contend_once_call(contend_once_t *once, void (*what)(void));

#ifdef __cplusplus
}
#endif

#endif
";

// What the header says of the types that are not in the catalogue.
const _: () = assert!(size_of::<locks::Condvar>() == 8 && size_of::<locks::Semaphore>() == 8);
const _: () = assert!(size_of::<locks::Barrier>() == 8 && size_of::<locks::Once>() == 4);
const _: () = assert!(size_of::<locks::McsNode<machine::Patient>>() == 16);
const _: () = assert!(size_of::<locks::McsQueue<machine::Patient>>() == 8);

/// `contend.hpp`.
#[must_use]
pub fn cpp() -> String {
    let mut text = format!("{LICENCE}{REMEDY}{CPP_START}");
    for lock in LOCKS {
        let name = c_name(lock);
        write!(text, "\n/// {}.\nusing {name} = detail::", lock.summary).expect("writing to a string");
        let function = |suffix: &str| format!("contend_{name}_{suffix}");
        let (write, all) = (if lock.shared { "wr" } else { "" }, ability(lock));
        let mut parts = vec![
            format!("contend_{name}_t"),
            function(&format!("{write}lock")),
            function(&format!("{write}unlock")),
        ];
        parts.push(function(&format!("try{write}lock")));
        if lock.shared {
            let shared = ["rdlock", "rdunlock", "tryrdlock", "downgrade"];
            parts.extend(shared.map(function));
        }
        if lock.timed {
            parts.push(function(&format!("clock{write}lock")));
        }
        if lock.timed && lock.shared {
            parts.push(function("clockrdlock"));
        }
        writeln!(text, "{all}<{}>;", parts.join(", ")).expect("writing to a string");
    }
    text + CPP_END
}

const CPP_START: &str = r#"
#ifndef CONTEND_HPP
#define CONTEND_HPP

#include <chrono>
#include <condition_variable>

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

/// Calls a `clock` function with a point in time of any clock.
template <class T, class Clock, class Duration>
bool until(T *lock, int (*wait)(T *, int, const struct timespec *),
           const std::chrono::time_point<Clock, Duration> &at) {
    // The epochs of these clocks are those of CLOCK_MONOTONIC and CLOCK_REALTIME.
    using steady = std::chrono::steady_clock;
    steady::time_point deadline = steady::now() + std::chrono::ceil<steady::duration>(at - Clock::now());
    auto since = deadline.time_since_epoch();
    auto seconds = std::chrono::floor<std::chrono::seconds>(since);
    struct timespec time = {};
    time.tv_sec = static_cast<decltype(time.tv_sec)>(seconds.count());
    time.tv_nsec = static_cast<decltype(time.tv_nsec)>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds).count());
    const int monotonic = 1;
    return wait(lock, monotonic, &time) == 0;
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
        return try_lock_until(std::chrono::steady_clock::now() +
                              std::chrono::ceil<std::chrono::steady_clock::duration>(wait));
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
    /// Makes a reader of the writer, which unlock_shared() ends; nobody writes in between.
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
        return try_lock_until(std::chrono::steady_clock::now() +
                              std::chrono::ceil<std::chrono::steady_clock::duration>(wait));
    }
    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &at) {
        return until(&this->lock_, WaitShared, at);
    }
    template <class Rep, class Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &wait) {
        return try_lock_shared_until(std::chrono::steady_clock::now() +
                                     std::chrono::ceil<std::chrono::steady_clock::duration>(wait));
    }
};

} // namespace detail
"#;

const CPP_END: &str = r"
/// MCS with the node in the caller's frame: `contend::mcs_scope held(queue);`.
using mcs_queue = contend_mcs_queue_t;

class mcs_scope {
public:
    explicit mcs_scope(mcs_queue &queue) noexcept : queue_(queue) { contend_mcs_queue_lock(&queue_, &node_); }
    ~mcs_scope() { contend_mcs_queue_unlock(&queue_, &node_); }
    mcs_scope(const mcs_scope &) = delete;
    mcs_scope &operator=(const mcs_scope &) = delete;

private:
    mcs_queue &queue_;
    contend_mcs_node_t node_{};
};

/// As std::condition_variable_any, for every lock here and any other.
class condition_variable {
public:
    constexpr condition_variable() noexcept = default;
    condition_variable(const condition_variable &) = delete;
    condition_variable &operator=(const condition_variable &) = delete;

    void notify_one() noexcept { contend_condvar_signal(&condvar_); }
    void notify_all() noexcept { contend_condvar_broadcast(&condvar_); }

    template <class Lock>
    void wait(Lock &lock) {
        const unsigned int number = contend_condvar_enter(&condvar_);
        lock.unlock();
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
        const unsigned int number = contend_condvar_enter(&condvar_);
        lock.unlock();
        const sleeper sleeps{&condvar_, number};
        const bool in_time = detail::until(&sleeps, sleeper::sleep, at);
        lock.lock();
        return in_time ? std::cv_status::no_timeout : std::cv_status::timeout;
    }
    template <class Lock, class Clock, class Duration, class Predicate>
    bool wait_until(Lock &lock, const std::chrono::time_point<Clock, Duration> &at, Predicate holds) {
        while (!holds())
            if (wait_until(lock, at) == std::cv_status::timeout)
                return holds();
        return true;
    }
    template <class Lock, class Rep, class Period, class Predicate>
    bool wait_for(Lock &lock, const std::chrono::duration<Rep, Period> &wait, Predicate holds) {
        return wait_until(lock, std::chrono::steady_clock::now() +
                          std::chrono::ceil<std::chrono::steady_clock::duration>(wait), holds);
    }

private:
    struct sleeper {
        contend_condvar_t *condvar;
        unsigned int number;
        static int sleep(const sleeper *self, int clock, const struct timespec *at) {
            return contend_condvar_clocksleep(self->condvar, self->number, clock, at);
        }
    };
    contend_condvar_t condvar_{};
};

/// As C++20's std::counting_semaphore.
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
    void release(unsigned int permits = 1) noexcept { contend_semaphore_post(&semaphore_, permits); }

private:
    contend_semaphore_t semaphore_;
};

/// A barrier for a number of threads; wait() is true for one of each round.
class barrier {
public:
    constexpr explicit barrier(unsigned int threads) noexcept : barrier_ CONTEND_BARRIER_INIT(threads) {}
    barrier(const barrier &) = delete;
    barrier &operator=(const barrier &) = delete;

    bool wait() noexcept { return contend_barrier_wait(&barrier_) == CONTEND_BARRIER_LEADER; }

private:
    contend_barrier_t barrier_;
};

} // namespace contend

#endif
";
