//! The C and C++ headers, made from the catalogue.

use core::fmt::Write as _;

use locks::catalogue::{self, Lock};

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
    lock.name.replace(['-', ':'], "_")
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
    for lock in catalogue::for_programs() {
        c_lock(&mut text, lock);
    }
    text += C_REST;
    text += &c_renamed();
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
    for (function, arguments) in c_functions(lock) {
        writeln!(text, "int contend_{name}_{function}(contend_{name}_t *lock{arguments});")
            .expect("writing to a string");
    }
    if lock.name == "lockref" {
        text.push_str(C_LOCKREF);
    }
}

/// The functions of the lock, without its name, each with what it takes besides the lock.
fn c_functions(lock: &Lock) -> Vec<(String, &'static str)> {
    let mut functions = Vec::new();
    let sides: &[&str] = if lock.shared { &["wr", "rd"] } else { &[""] };
    for side in sides {
        functions.extend([(format!("{side}lock"), ""), (format!("try{side}lock"), "")]);
        if lock.timed {
            functions.push((format!("timed{side}lock"), ", const struct timespec *at"));
            functions.push((format!("clock{side}lock"), ", int clock, const struct timespec *at"));
        }
        functions.push((format!("{side}unlock"), ""));
    }
    if lock.shared {
        functions.extend(["rdlock_again", "unlock", "downgrade"].map(|function| (function.to_owned(), "")));
    }
    functions
}

/// The locks that had another name before, each with that name as C has it.
fn renamed() -> impl Iterator<Item = (String, &'static Lock)> {
    catalogue::RENAMED.iter().filter_map(|&(before, now)| {
        Some((before.replace(['-', ':'], "_"), catalogue::find_in_any_form(now)?))
    })
}

/// The names that locks had before, as macros.
fn c_renamed() -> String {
    let mut text = "\n/* Names of before, for this release. */\n".to_owned();
    for (before, lock) in renamed() {
        let names = c_functions(lock).into_iter().map(|(function, _)| function).chain(["t".to_owned()]);
        for name in names {
            writeln!(text, "#define contend_{before}_{name} contend_{}_{name}", c_name(lock))
                .expect("writing to a string");
        }
    }
    text
}

const C_START: &str = r#"
#ifndef CONTEND_H
#define CONTEND_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* A lock whose bytes are all zero is free: static locks need no initialiser, others take CONTEND_INIT. There is
   nothing to destroy. A lock must not be copied while it is in use.

   Functions give 0 or an error number: EBUSY from a try, ETIMEDOUT at a deadline, EINVAL for a time that is none.
   `timed` takes a time of CLOCK_REALTIME; `clock` names CLOCK_REALTIME (0) or CLOCK_MONOTONIC (1).
   Any thread may unlock, but for contend_rt, and contend_ww when it is locked in a context. `rdlock_again` is for a thread that
   reads already: no waiting writer keeps it out. `unlock` of a reader-writer lock ends whichever hold the caller has; `wrunlock`
   and `rdunlock` save it the check. `downgrade` makes a reader of the writer, with nobody writing in between. */

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

const C_REST: &str = r"
/* rt: the owner runs with the highest priority of the threads that wait, by the kernel's priority-inheriting futexes. The thread that
   locked unlocks. EDEADLK: the caller would wait for itself, directly or by way of other threads, even if the wait of one of those
   would end at a deadline. ENOTRECOVERABLE: the owner has ended without unlocking; trylock gives EBUSY then, too. Sha,
   Rajkumar and Lehoczky 1990; Linux rt_mutex. */
typedef struct contend_rt {
    uint32_t contend_private[1];
} contend_rt_t;
int contend_rt_lock(contend_rt_t *lock);
int contend_rt_trylock(contend_rt_t *lock);
int contend_rt_timedlock(contend_rt_t *lock, const struct timespec *at);
int contend_rt_clocklock(contend_rt_t *lock, int clock, const struct timespec *at);
int contend_rt_unlock(contend_rt_t *lock);

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

/* wait_table: threads sleep while a 32-bit word holds a value, as with a futex, until somebody has changed it and wakes them. Where
   nobody sleeps, a wake-up is no system call. The word is the program's own, aligned, and read and written as an atomic.
   new makes a table for so many threads, grow lets it become one for more while it is used; new gives NULL, grow ENOMEM, for more than
   4,194,304. free: nobody sleeps in the table, and nobody uses it again.
   wait may end without a wake-up: look at the word again. EAGAIN: it holds something else than expected. clockwait gives ETIMEDOUT at
   its deadline. wake wakes at most so many, those that came first, and gives how many; the word may be gone by then. */
typedef struct contend_wait_table contend_wait_table_t;
contend_wait_table_t *contend_wait_table_new(size_t threads);
int contend_wait_table_grow(contend_wait_table_t *table, size_t threads);
void contend_wait_table_free(contend_wait_table_t *table);
int contend_wait_table_wait(contend_wait_table_t *table, const void *word, uint32_t expected);
int contend_wait_table_clockwait(contend_wait_table_t *table, const void *word, uint32_t expected, int clock,
                                 const struct timespec *at);
unsigned int contend_wait_table_wake(contend_wait_table_t *table, const void *word, unsigned int most);

/* ww: Linux's wound/wait mutexes. A thread takes several of a class in any order, in a context: of two contexts that would wait for each
   other the younger one is refused. A class is made by CONTEND_WW_WAIT_DIE or CONTEND_WW_WOUND_WAIT, a mutex by CONTEND_WW_INIT(its class).
   lock gives EDEADLK when the context has to give way: it unlocks all that it holds, takes this mutex by lock_slow, and goes on;
   EALREADY when the context holds the mutex; EINVAL for a context of another class, or one that is done. lock_slow gives EINVAL while
   the context holds a mutex, and never EDEADLK. lock_all does all of it for a context that holds none, and then it holds all of them or,
   with EALREADY, since one is there twice, none. A NULL context is none: the mutex is like any other; lock_slow and lock_all
   give EINVAL then.
   A context is used, and what it holds unlocked, by the thread that made it. After done it takes no more, and it ends when it holds
   nothing; every context comes to that. Each transaction has a new context: one that is used again stays as old as it is, so that younger
   ones may be refused again and again.
   What refuses a context is what it holds itself. A thread that locks in a context, or by lock_all, while it holds a mutex of the class
   in another context or in none takes part in a deadlock as with any mutex.
   trylock never says EDEADLK: a context that holds a mutex and repeats trylock until it succeeds may keep an older one waiting for
   ever. */
typedef struct contend_ww_class {
    uint64_t contend_private[2];
} contend_ww_class_t;
typedef struct contend_ww_context {
    uint64_t contend_private[2];
} contend_ww_context_t;
typedef struct contend_ww {
    uint64_t contend_private[2];
    const contend_ww_class_t *contend_class;
} contend_ww_t;
#define CONTEND_WW_WAIT_DIE {{0, 0}}
#define CONTEND_WW_WOUND_WAIT {{0, 1}}
#define CONTEND_WW_INIT(its_class) {{0, 0}, (its_class)}
int contend_ww_context_init(contend_ww_context_t *context, contend_ww_class_t *its_class);
int contend_ww_context_done(contend_ww_context_t *context);
int contend_ww_lock(contend_ww_t *lock, contend_ww_context_t *context);
int contend_ww_lock_slow(contend_ww_t *lock, contend_ww_context_t *context);
int contend_ww_lock_all(contend_ww_t *const *locks, size_t count, contend_ww_context_t *context);
int contend_ww_trylock(contend_ww_t *lock, contend_ww_context_t *context);
int contend_ww_clocklock(contend_ww_t *lock, contend_ww_context_t *context, int clock, const struct timespec *at);
int contend_ww_unlock(contend_ww_t *lock);
";

const C_END: &str = r"
#ifdef __cplusplus
}
#endif

#endif
";

// What the header says of the types that are not in the catalogue.
const _: () = assert!(size_of::<locks::Condvar>() == 8 && size_of::<locks::Semaphore>() == 8);
const _: () = assert!(size_of::<locks::Barrier>() == 8 && size_of::<locks::Once>() == 4);
const _: () = assert!(size_of::<locks::RtMutex>() == 4);
const _: () = assert!(size_of::<locks::McsNode<machine::Patient>>() == 16);
const _: () = assert!(size_of::<locks::McsQueue<machine::Patient>>() == 8);

/// `contend.hpp`.
#[must_use]
pub fn cpp() -> String {
    let mut text = format!("{LICENCE}{REMEDY}{CPP_START}");
    for lock in catalogue::for_programs() {
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
    for (before, lock) in renamed() {
        let now = c_name(lock);
        write!(text, "\nusing {before} [[deprecated(\"it is {now} now\")]] = {now};\n")
            .expect("writing to a string");
    }
    text + CPP_END
}

const CPP_START: &str = r#"
#ifndef CONTEND_HPP
#define CONTEND_HPP

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <system_error>

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

/// What contend_ww_lock gives a context that has to give way.
constexpr int ww_gives_way = EDEADLK;

} // namespace detail
"#;

const CPP_END: &str = r#"
/// The mutex whose owner runs with the highest priority of the threads that wait. The thread that locked unlocks.
class rt : detail::timed<contend_rt_t, contend_rt_lock, contend_rt_unlock, contend_rt_trylock, contend_rt_clocklock> {
    // Not public: its own lock() drops errors.
    using base = detail::timed<contend_rt_t, contend_rt_lock, contend_rt_unlock, contend_rt_trylock, contend_rt_clocklock>;

public:
    using base::native_handle;
    using base::try_lock;
    using base::try_lock_for;
    using base::try_lock_until;
    using base::unlock;
    using typename base::native_handle_type;

    /// Throws std::system_error where the thread would wait for itself, or the owner has ended without unlocking.
    void lock() {
        if (const int error = contend_rt_lock(&lock_))
            throw std::system_error(error, std::generic_category(), "contend::rt");
    }
};

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
    auto transaction(Body body);

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
auto ww_class::transaction(Body body) {
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
"#;
