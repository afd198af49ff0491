//! Clients of what threads wait on besides locks: the condition variable, the semaphore, the barrier, once and the wait table.
//!
//! Each says at the end whether what it finds is right, and gives what is wrong in words.

use locks::{Barrier, Condvar, Futex, Once, RawLock, Semaphore, Spacing, Tas, WaitTable};
use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Deadline, Home, Integer, Machine, Placed, PlainCell, Plan, Slept, Timeout, Word};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

pub(super) fn placed<T: Sync, M: Machine>(value: T) -> Placed<T, M> {
    Placed::new(value, Home::FirstTouch)
}

pub(super) fn cell<M: Machine>() -> Placed<M::Cell<u32>, M> {
    placed(PlainCell::ZERO)
}

pub(super) fn is(wanted: u32, found: u32) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{found} instead of {wanted}")) }
}

/// One waits for what another one changes.
///
/// # Errors
/// What is wrong.
pub fn one_is_notified<M: Machine>() -> Result<(), String> {
    let (lock, more, value) =
        (placed::<_, M>(Futex::<M>::NEW), placed::<_, M>(Condvar::<M>::new()), cell::<M>());
    M::run(&Plan::threads(2), &|thread| {
        lock.acquire();
        if thread == 0 {
            while value.get() == 0 {
                // SAFETY: acquired above.
                unsafe { more.wait_raw(&*lock, Timeout::NONE) }.expect("there is no timeout");
            }
        } else {
            value.set(1);
        }
        // SAFETY: acquired above.
        unsafe { lock.release() };
        if thread == 1 {
            more.notify_one();
        }
    });
    is(1, value.get())?;
    nobody_waits(&more)
}

/// Two wait, and one notification is for both.
///
/// # Errors
/// What is wrong.
pub fn all_are_notified<M: Machine>() -> Result<(), String> {
    let (lock, more, value) =
        (placed::<_, M>(Futex::<M>::NEW), placed::<_, M>(Condvar::<M>::new()), cell::<M>());
    M::run(&Plan::threads(3), &|thread| {
        lock.acquire();
        while thread != 0 && value.get() == 0 {
            // SAFETY: acquired above.
            unsafe { more.wait_raw(&*lock, Timeout::NONE) }.expect("there is no timeout");
        }
        value.set(1);
        // SAFETY: acquired above.
        unsafe { lock.release() };
        if thread == 0 {
            more.notify_all();
        }
    });
    is(1, value.get())?;
    nobody_waits(&more)
}

/// One waits until a deadline for what another one changes.
///
/// # Errors
/// What is wrong.
pub fn one_times_out<M: Machine>() -> Result<(), String> {
    let (lock, more, value) =
        (placed::<_, M>(Futex::<M>::NEW), placed::<_, M>(Condvar::<M>::new()), cell::<M>());
    M::run(&Plan::threads(2), &|thread| {
        lock.acquire();
        if thread == 0 && value.get() == 0 {
            let deadline = Deadline::after_ns::<M>(1_000);
            // SAFETY: acquired above.
            let waited = unsafe { more.wait_raw(&*lock, Timeout::at(deadline)) };
            assert!(waited.is_err() || value.get() == 1, "it was notified of nothing");
        } else {
            value.set(1);
        }
        // SAFETY: acquired above.
        unsafe { lock.release() };
        if thread == 1 {
            more.notify_one();
        }
    });
    nobody_waits(&more)
}

/// One frees the memory once the other, whose wait is over, does not use it any more.
///
/// # Errors
/// What is wrong.
pub fn it_is_freed<M: Machine>() -> Result<(), String> {
    let (more, memory) = (placed::<_, M>(Condvar::<M>::new()), cell::<M>());
    let _: u32 = more.enter();
    M::run(&Plan::threads(2), &|thread| {
        if thread == 0 {
            memory.set(1);
            more.leave();
        } else {
            more.await_leavers();
            memory.set(memory.get() + 1);
        }
    });
    is(2, memory.get())?;
    nobody_waits(&more)
}

fn nobody_waits<M: Machine>(more: &Condvar<M>) -> Result<(), String> {
    if more.notify_all() { Err("a waiter that has gone is still counted".to_owned()) } else { Ok(()) }
}

/// One permit for two threads is a mutex.
///
/// # Errors
/// What is wrong.
pub fn one_permit<M: Machine>() -> Result<(), String> {
    let (seats, value) = (placed::<_, M>(Semaphore::<M>::new(1)), cell::<M>());
    M::run(&Plan::threads(2), &|_| {
        seats.acquire();
        value.set(value.get() + 1);
        seats.release(1);
    });
    is(2, value.get())?;
    is(1, seats.permits())
}

/// Two sleep until a third brings both permits, one after the other.
///
/// # Errors
/// What is wrong.
pub fn permits_come<M: Machine>() -> Result<(), String> {
    let seats = placed::<_, M>(Semaphore::<M>::new(0));
    M::run(&Plan::threads(3), &|thread| {
        if thread < 2 {
            seats.acquire();
        } else {
            seats.release(1);
            seats.release(1);
        }
    });
    is(0, seats.permits())
}

/// One gives up, perhaps, while the permit comes.
///
/// # Errors
/// What is wrong.
pub fn one_gives_up<M: Machine>() -> Result<(), String> {
    let seats = placed::<_, M>(Semaphore::<M>::new(0));
    let came_in = cell::<M>();
    M::run(&Plan::threads(2), &|thread| {
        if thread == 0 {
            let deadline = Deadline::after_ns::<M>(1_000);
            came_in.set(u32::from(seats.acquire_or(Timeout::at(deadline)).is_ok()));
        } else {
            seats.release(1);
        }
    });
    is(1, came_in.get() + seats.permits())
}

/// What each did before the barrier, the other sees behind it, twice.
///
/// # Errors
/// What is wrong.
pub fn two_rounds<M: Machine>() -> Result<(), String> {
    let (barrier, values) = (placed::<_, M>(Barrier::<M>::new(2)), [cell::<M>(), cell::<M>()]);
    let leaders = placed::<M::U32, M>(Word::ZERO);
    M::run(&Plan::threads(2), &|thread| {
        for round in 1..=2 {
            values[thread].set(round);
            if barrier.wait() {
                leaders.fetch_add(1, Relaxed);
            }
            assert_eq!(values[1 - thread].get(), round);
            barrier.wait();
        }
    });
    is(2, leaders.load(Relaxed))
}

/// Four use a barrier that is for two: they go on in pairs.
///
/// # Errors
/// What is wrong.
pub fn more_than_the_barrier_is_for<M: Machine>() -> Result<(), String> {
    let (barrier, rounds) = (placed::<_, M>(Barrier::<M>::new(2)), placed::<M::U32, M>(Word::ZERO));
    M::run(&Plan::threads(4), &|_| {
        rounds.fetch_add(u32::from(barrier.wait()), Relaxed);
    });
    is(2, rounds.load(Relaxed))
}

/// Nothing is added while one waits, then a permit.
///
/// # Errors
/// What is wrong.
pub fn nothing_then_a_permit<M: Machine>() -> Result<(), String> {
    let seats = placed::<_, M>(Semaphore::<M>::new(0));
    M::run(&Plan::threads(2), &|thread| {
        if thread == 0 {
            seats.acquire();
        } else {
            seats.release(0);
            seats.release(1);
        }
    });
    is(0, seats.permits())
}

/// Three use a barrier once: two sleep when the last one comes.
///
/// # Errors
/// What is wrong.
pub fn all_of_three<M: Machine>() -> Result<(), String> {
    let (barrier, leaders) = (placed::<_, M>(Barrier::<M>::new(3)), placed::<M::U32, M>(Word::ZERO));
    M::run(&Plan::threads(3), &|_| {
        leaders.fetch_add(u32::from(barrier.wait()), Relaxed);
    });
    is(1, leaders.load(Relaxed))
}

/// There is room for one permit more, which two add.
///
/// # Errors
/// What is wrong.
pub fn room_for_one_permit<M: Machine>() -> Result<(), String> {
    const MOST: u32 = (1 << 31) - 1;
    let (seats, added) = (placed::<_, M>(Semaphore::<M>::new(MOST - 1)), placed::<M::U32, M>(Word::ZERO));
    M::run(&Plan::threads(2), &|_| {
        added.fetch_add(u32::from(seats.try_release(1)), Relaxed);
    });
    is(1, added.load(Relaxed))?;
    is(MOST, seats.permits())
}

/// All three see what one of them has done: two sleep meanwhile.
///
/// # Errors
/// What is wrong.
pub fn once<M: Machine>() -> Result<(), String> {
    let (once, value) = (placed::<_, M>(Once::<M>::new()), cell::<M>());
    M::run(&Plan::threads(3), &|_| {
        once.call_once(|| value.set(value.get() + 1));
        assert_eq!(value.get(), 1);
    });
    is(1, value.get())
}

/// The first that is at it panics, and has done nothing then.
///
/// # Errors
/// What is wrong.
///
/// # Panics
/// When a thread goes on before it is done.
pub fn once_panics<M: Machine>() -> Result<(), String> {
    struct OnPurpose;
    let (once, value) = (placed::<_, M>(Once::<M>::new()), cell::<M>());
    let tries = placed::<M::U32, M>(Word::ZERO);
    M::run(&Plan::threads(2), &|_| {
        let attempt = || {
            once.call_once(|| {
                if tries.fetch_add(1, Relaxed) == 0 {
                    resume_unwind(Box::new(OnPurpose));
                }
                value.set(value.get() + 1);
            });
        };
        match catch_unwind(AssertUnwindSafe(attempt)) {
            Ok(()) => assert_eq!(value.get(), 1),
            Err(why) if why.is::<OnPurpose>() => {}
            Err(other) => resume_unwind(other),
        }
    });
    is(1, value.get())
}

/// Its buckets' locks are the simplest that there is: what is checked is the table, and a queue of their own would multiply the states.
type Table<M> = WaitTable<M, Tas<M>>;

fn table<M: Machine>() -> Table<M> {
    Table::<M>::with_buckets(1, Spacing::Line, Home::FirstTouch)
}

/// Waits until the word has this value.
fn await_value<M: Machine>(table: &Table<M>, word: &M::U32, value: u32) {
    loop {
        let now = word.load(Acquire);
        if now == value {
            break;
        }
        table.wait(word, now, Timeout::NONE);
    }
}

fn set<M: Machine>(table: &Table<M>, word: &M::U32, value: u32) -> u32 {
    word.store(value, Release);
    table.wake(table.key(word), 1)
}

/// One waits for what another one does.
///
/// # Errors
/// What is wrong.
pub fn table_wakes<M: Machine>() -> Result<(), String> {
    let (table, word) = (table::<M>(), Placed::<_, M>::new(<M::U32 as Word>::ZERO, Home::FirstTouch));
    M::run(&Plan::threads(2), &|thread| match thread {
        0 => await_value(&table, &word, 1),
        _ => {
            set(&table, &word, 1);
        }
    });
    nobody_is_left(&table, &word)
}

/// Two wait on words of one bucket, and each is woken by its own.
///
/// # Errors
/// What is wrong.
pub fn table_wakes_two<M: Machine>() -> Result<(), String> {
    let table = table::<M>();
    let words = [(); 2].map(|()| Placed::<_, M>::new(<M::U32 as Word>::ZERO, Home::FirstTouch));
    M::run(&Plan::threads(3), &|thread| match thread {
        2 => {
            set(&table, &words[0], 1);
            set(&table, &words[1], 1);
        }
        _ => await_value(&table, &words[thread], 1),
    });
    nobody_is_left(&table, &words[1])
}

/// A waiter that gives up and one that is woken are told apart, and a wake-up goes to a waiter that is still there.
///
/// # Errors
/// What is wrong.
pub fn table_waiter_gives_up<M: Machine>() -> Result<(), String> {
    let (table, word) = (table::<M>(), Placed::<_, M>::new(<M::U32 as Word>::ZERO, Home::FirstTouch));
    let counts = Placed::<_, M>::new([<M::U32 as Word>::ZERO, <M::U32 as Word>::ZERO], Home::FirstTouch);
    M::run(&Plan::threads(2), &|thread| match thread {
        0 => {
            let deadline = Deadline::after_ns::<M>(1_000);
            if table.wait(&word, 0, Timeout::at(deadline)) == Slept::Woken {
                counts[0].fetch_add(1, Relaxed);
            }
        }
        _ => {
            counts[1].fetch_add(set(&table, &word, 1), Relaxed);
        }
    });
    let [woken, told] = [0, 1].map(|side| counts[side].load(Relaxed));
    if woken != told {
        return Err(format!("{told} were woken, and {woken} woke up"));
    }
    nobody_is_left(&table, &word)
}

/// Three wait on one word: the first may give up while the second is woken, and the third behind them.
///
/// # Errors
/// What is wrong.
pub fn table_of_three<M: Machine>() -> Result<(), String> {
    let (table, word) = (table::<M>(), Placed::<_, M>::new(<M::U32 as Word>::ZERO, Home::FirstTouch));
    M::run(&Plan::threads(4), &|thread| match thread {
        0 => {
            let deadline = Deadline::after_ns::<M>(1_000);
            let _: Slept = table.wait(&word, 0, Timeout::at(deadline));
        }
        3 => {
            word.store(1, Release);
            table.wake(table.key(&*word), u32::MAX);
        }
        _ => await_value(&table, &word, 1),
    });
    nobody_is_left(&table, &word)
}

/// Two wait on one word, and are woken one by one.
///
/// # Errors
/// What is wrong.
///
/// # Panics
/// When more are woken than are to be.
pub fn table_wakes_one_by_one<M: Machine>() -> Result<(), String> {
    let (table, word) = (table::<M>(), Placed::<_, M>::new(<M::U32 as Word>::ZERO, Home::FirstTouch));
    M::run(&Plan::threads(3), &|thread| {
        if thread < 2 {
            return await_value(&table, &word, 1);
        }
        word.store(1, Release);
        for _ in 0..2 {
            let woken = table.wake(table.key(&*word), 1);
            assert!(woken <= 1, "{woken} are woken, and one was to be");
        }
    });
    nobody_is_left(&table, &word)
}

/// The table grows before the wake-up.
///
/// # Errors
/// What is wrong.
pub fn table_grows<M: Machine>() -> Result<(), String> {
    let table = Table::<M>::with_buckets(8, Spacing::Line, Home::FirstTouch);
    let word = Placed::<_, M>::new(<M::U32 as Word>::ZERO, Home::FirstTouch);
    M::run(&Plan::threads(2), &|thread| match thread {
        0 => await_value(&table, &word, 1),
        _ => {
            table.grow(4);
            set(&table, &word, 1);
        }
    });
    match table.buckets() {
        16 => nobody_is_left(&table, &word),
        buckets => Err(format!("it has {buckets} buckets")),
    }
}

/// Both let it grow.
///
/// # Errors
/// What is wrong.
pub fn table_grows_twice<M: Machine>() -> Result<(), String> {
    let table = Table::<M>::with_buckets(8, Spacing::Line, Home::FirstTouch);
    M::run(&Plan::threads(2), &|_| table.grow(4));
    if table.buckets() == 16 { Ok(()) } else { Err(format!("it has {} buckets", table.buckets())) }
}

fn nobody_is_left<M: Machine>(table: &Table<M>, word: &M::U32) -> Result<(), String> {
    match (table.wake(table.key(word), u32::MAX), table.waiters()) {
        (0, 0) => Ok(()),
        (0, counted) => Err(format!("{counted} that have gone are still counted")),
        (left, _) => Err(format!("{left} are left in the table")),
    }
}
