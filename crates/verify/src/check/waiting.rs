//! Clients of what threads wait on besides locks that only checking needs: each is there for mistakes that those of
//! [`workloads::client::waiting`] do not show.

use checker::Checked;
use checker::checked::{Arrival, arrive, tell_arrivals, until_arrived};
use locks::api::Mutex;
use locks::{Barrier, Condvar, Futex, Once, RawLock, Semaphore, Spacing, Tas, WaitTable};
use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{Deadline, Home, Integer, Machine, Placed, PlainCell, Plan, Slept, Timeout, Word};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

type Cell = <Checked as Machine>::Cell<u32>;
type U32 = <Checked as Machine>::U32;
type Table = WaitTable<Checked, Tas<Checked>>;

fn placed<T: Sync>(value: T) -> Placed<T, Checked> {
    Placed::new(value, Home::FirstTouch)
}

fn is(wanted: u32, found: u32) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{found} instead of {wanted}")) }
}

fn soon() -> Timeout<'static, Checked> {
    Timeout::at(Deadline::after_ns::<Checked>(1_000))
}

/// Both give up, since no permit comes.
pub(super) fn no_permit_comes() -> Result<(), String> {
    let seats = placed(Semaphore::<Checked>::new(0));
    Checked::run(&Plan::threads(2), &|_| {
        assert!(seats.acquire_or(soon()).is_err(), "it took a permit, and there was none");
    });
    is(0, seats.permits())
}

/// There are as many permits as there may be: each thread takes one, and there is space for it when it comes back.
pub(super) fn all_permits_but_those_taken() -> Result<(), String> {
    const MOST: u32 = (1 << 31) - 1;
    let seats = placed(Semaphore::<Checked>::new(MOST));
    Checked::run(&Plan::threads(2), &|_| {
        seats.acquire();
        assert!(seats.try_release(1), "there was no space for a permit that was taken");
    });
    is(MOST, seats.permits())
}

/// One permit comes for two: one of them may give up, and brings the permit back if it does not.
pub(super) fn one_of_two_leaves() -> Result<(), String> {
    let seats = placed(Semaphore::<Checked>::new(0));
    Checked::run(&Plan::threads(3), &|thread| match thread {
        0 => {
            if seats.acquire_or(soon()).is_ok() {
                seats.release(1);
            }
        }
        1 => seats.acquire(),
        _ => seats.release(1),
    });
    is(0, seats.permits())
}

/// Two sleep until a third brings both permits at once.
pub(super) fn two_permits_at_once() -> Result<(), String> {
    let seats = placed(Semaphore::<Checked>::new(0));
    Checked::run(&Plan::threads(3), &|thread| {
        if thread < 2 {
            seats.acquire();
        } else {
            seats.release(2);
        }
    });
    is(0, seats.permits())
}

/// One permit for two that do not wait for it: at least one gets it, and not both at a time.
pub(super) fn one_permit_is_tried() -> Result<(), String> {
    let (seats, value, got) = (placed(Semaphore::<Checked>::new(1)), placed(Cell::ZERO), placed(U32::ZERO));
    Checked::run(&Plan::threads(2), &|_| {
        if seats.try_acquire() {
            value.set(value.get() + 1);
            got.fetch_add(1, Relaxed);
            seats.release(1);
        }
    });
    match got.load(Relaxed) {
        0 => Err("there was a permit, and neither got it".to_owned()),
        got => is(got, value.get()).and_then(|()| is(1, seats.permits())),
    }
}

/// Permits that guards bring back: one waits for the only one, the other takes it if it is there.
pub(super) fn guards_bring_permits_back() -> Result<(), String> {
    let (seats, value, got) = (placed(Semaphore::<Checked>::new(1)), placed(Cell::ZERO), placed(U32::ZERO));
    Checked::run(&Plan::threads(2), &|thread| {
        let permit = if thread == 0 { Some(seats.access()) } else { seats.try_access() };
        if let Some(permit) = permit {
            value.set(value.get() + 1);
            got.fetch_add(1, Relaxed);
            drop(permit);
        }
    });
    is(got.load(Relaxed), value.get()).and_then(|()| is(1, seats.permits()))
}

/// A barrier for none is one for one.
pub(super) fn barrier_for_none() -> Result<(), String> {
    let barrier = placed(Barrier::<Checked>::new(0));
    Checked::run(&Plan::threads(1), &|_| assert!(barrier.wait(), "the only one is the last"));
    Ok(())
}

/// One asks whether it is done, and then uses it; the one that did it knows that it is.
pub(super) fn once_is_completed() -> Result<(), String> {
    let (once, value) = (placed(Once::<Checked>::new()), placed(Cell::ZERO));
    Checked::run(&Plan::threads(2), &|thread| {
        if thread == 0 {
            once.call_once(|| value.set(1));
            assert!(once.is_completed(), "it was done, and is not completed");
        } else if once.is_completed() {
            assert_eq!(value.get(), 1);
        }
    });
    is(1, value.get())
}

/// The first has done its part when it panics, and the second goes on from there.
pub(super) fn once_panics_late() -> Result<(), String> {
    struct OnPurpose;
    let (once, value, tries) = (placed(Once::<Checked>::new()), placed(Cell::ZERO), placed(U32::ZERO));
    Checked::run(&Plan::threads(2), &|_| {
        let attempt = || {
            once.call_once(|| {
                value.set(value.get() + 1);
                if tries.fetch_add(1, Relaxed) == 0 {
                    resume_unwind(Box::new(OnPurpose));
                }
            });
        };
        match catch_unwind(AssertUnwindSafe(attempt)) {
            Err(why) if !why.is::<OnPurpose>() => resume_unwind(why),
            _ => {}
        }
    });
    is(2, value.get())
}

/// The first panics, and two others sleep meanwhile, perhaps: one of them does it then, and the other one goes on as well.
pub(super) fn once_panics_among_three() -> Result<(), String> {
    struct OnPurpose;
    let (once, value) = (placed(Once::<Checked>::new()), placed(Cell::ZERO));
    Checked::run(&Plan::threads(3), &|thread| {
        if thread != 0 {
            return once.call_once(|| value.set(value.get() + 1));
        }
        let attempt = || once.call_once(|| resume_unwind(Box::new(OnPurpose)));
        match catch_unwind(AssertUnwindSafe(attempt)) {
            Err(why) if !why.is::<OnPurpose>() => resume_unwind(why),
            _ => {}
        }
    });
    is(1, value.get())
}

/// Two rounds of a barrier whose count of rounds wraps around in the first.
pub(super) fn rounds_wrap() -> Result<(), String> {
    let (barrier, values) = (placed(Barrier::<Checked>::new(2)), [placed(Cell::ZERO), placed(Cell::ZERO)]);
    barrier.near_wrap();
    let leaders = placed(U32::ZERO);
    Checked::run(&Plan::threads(2), &|thread| {
        values[thread].set(1);
        leaders.fetch_add(u32::from(barrier.wait()), Relaxed);
        assert_eq!(values[1 - thread].get(), 1);
        leaders.fetch_add(u32::from(barrier.wait()), Relaxed);
    });
    is(2, leaders.load(Relaxed))
}

/// As `one_is_notified`, by a guard.
pub(super) fn guard_is_notified() -> Result<(), String> {
    let (value, more) =
        (placed(Mutex::<Cell, Futex<Checked>, Checked>::new(Cell::ZERO)), placed(Condvar::<Checked>::new()));
    Checked::run(&Plan::threads(2), &|thread| {
        if thread == 0 {
            let mut value = value.lock();
            while value.get() == 0 {
                more.wait(&mut value);
            }
        } else {
            value.lock().set(1);
            more.notify_one();
        }
    });
    is(1, value.lock().get())?;
    if more.notify_all() { Err("a waiter that has gone is still counted".to_owned()) } else { Ok(()) }
}

/// One waits by a guard while the value is zero, for so long at most: it timed out if it still is.
pub(super) fn guard_waits_while() -> Result<(), String> {
    let (value, more) =
        (placed(Mutex::<Cell, Futex<Checked>, Checked>::new(Cell::ZERO)), placed(Condvar::<Checked>::new()));
    Checked::run(&Plan::threads(2), &|thread| {
        if thread == 1 {
            value.lock().set(1);
            more.notify_one();
            return;
        }
        let mut value = value.lock();
        let waited = more.wait_while_for(&mut value, |value| value.get() == 0, Duration::from_micros(1));
        assert_eq!(waited.timed_out(), value.get() == 0, "whether it timed out");
    });
    is(1, value.lock().get())
}

/// The first of two notifications comes before the change that is waited for.
pub(super) fn guard_waits_until_it_is_so() -> Result<(), String> {
    let (value, more) =
        (placed(Mutex::<Cell, Futex<Checked>, Checked>::new(Cell::ZERO)), placed(Condvar::<Checked>::new()));
    Checked::run(&Plan::threads(2), &|thread| {
        if thread == 1 {
            more.notify_one();
            value.lock().set(1);
            more.notify_one();
            return;
        }
        let mut value = value.lock();
        more.wait_while(&mut value, |value| value.get() == 0);
        assert_eq!(value.get(), 1);
    });
    Ok(())
}

/// Two notify one that waits for three changes, so that one of them does so twice.
pub(super) fn three_notifications() -> Result<(), String> {
    let (lock, value, more) =
        (placed(Tas::<Checked>::NEW), placed(Cell::ZERO), placed(Condvar::<Checked>::new()));
    Checked::run(&Plan::threads(3), &|thread| {
        if thread == 0 {
            lock.acquire();
            while value.get() < 3 {
                // SAFETY: acquired above.
                unsafe { more.wait_raw(&*lock, Timeout::NONE) }.expect("there is no timeout");
            }
            // SAFETY: acquired above.
            unsafe { lock.release() };
        }
        for _ in 0..thread {
            lock.acquire();
            value.set(value.get() + 1);
            // SAFETY: acquired above.
            unsafe { lock.release() };
            more.notify_one();
        }
    });
    is(3, value.get())?;
    if more.notify_all() { Err("a waiter that has gone is still counted".to_owned()) } else { Ok(()) }
}

fn table() -> Table {
    Table::with_buckets(1, Spacing::Line, Home::FirstTouch)
}

/// Waits while the word holds this value. A wake-up for the change before may come late, so that it looks at the word again.
fn wait_while(table: &Table, word: &U32, value: u32) {
    while word.load(Acquire) == value {
        table.wait(word, value, Timeout::NONE);
    }
}

/// Both wait, and give up.
pub(super) fn no_wake_up_comes() -> Result<(), String> {
    let (table, word) = (table(), placed(U32::ZERO));
    Checked::run(&Plan::threads(2), &|_| {
        assert_eq!(table.wait(&word, 0, soon()), Slept::GaveUp);
    });
    is_empty(&table, &word)
}

/// One waits twice, the second time with the node that it has had.
pub(super) fn one_waits_twice() -> Result<(), String> {
    let (table, word) = (table(), placed(U32::ZERO));
    Checked::run(&Plan::threads(2), &|thread| {
        for value in 0..2 {
            if thread == 0 {
                wait_while(&table, &word, value);
            } else {
                word.store(value + 1, Release);
                table.wake(table.key(&*word), u32::MAX);
            }
        }
    });
    is_empty(&table, &word)
}

/// Two fall asleep one after the other, and are woken one after the other.
pub(super) fn first_comes_first() -> Result<(), String> {
    tell_arrivals(Arrival::Sleeps);
    let (table, word, awake) = (table(), placed(U32::ZERO), placed(U32::ZERO));
    Checked::run(&Plan::threads(3), &|thread| {
        if thread == 0 {
            until_arrived(2);
            for one in 1..=2 {
                table.wake(table.key(&*word), 1);
                Checked::spin_until(&*awake, Acquire, |awake| awake == one);
            }
            return;
        }
        if thread == 2 {
            until_arrived(1);
        }
        table.wait(&word, 0, Timeout::NONE);
        let before = awake.fetch_add(1, AcqRel);
        assert_eq!(before + 1, thread as u32, "the one that slept last was woken first");
    });
    is_empty(&table, &word)
}

/// A table whose wakers do not look whether there are waiters.
pub(super) fn wakers_do_not_look() -> Result<(), String> {
    let table = WaitTable::<Checked, Tas<Checked>, false>::with_buckets(1, Spacing::Line, Home::FirstTouch);
    let word = placed(U32::ZERO);
    Checked::run(&Plan::threads(2), &|thread| {
        if thread == 1 {
            word.store(1, Release);
            table.wake(table.key(&*word), 1);
        }
        while thread == 0 && word.load(Acquire) == 0 {
            table.wait(&word, 0, Timeout::NONE);
        }
    });
    is(0, table.waiters())
}

/// One sleeps in a bucket of the first size, another in one of the second: one is woken at a time.
pub(super) fn one_of_each_size() -> Result<(), String> {
    tell_arrivals(Arrival::Sleeps);
    let table = Table::with_buckets(8, Spacing::Line, Home::FirstTouch);
    let word = placed(U32::ZERO);
    Checked::run(&Plan::threads(3), &|thread| match thread {
        0 => {
            table.wait(&word, 0, Timeout::NONE);
        }
        1 => {
            until_arrived(2);
            table.wait(&word, 0, Timeout::NONE);
        }
        _ => {
            until_arrived(0);
            table.grow(4);
            arrive();
            until_arrived(1);
            let woken = [1, 1, 1].map(|most| table.wake(table.key(&*word), most));
            assert_eq!(woken, [1, 1, 0], "one is woken at a time");
        }
    });
    is_empty(&table, &word)
}

/// Two are woken at once, and one of them waits again, with a node that may have been linked to the other's, until it gives up.
pub(super) fn one_of_two_waits_again() -> Result<(), String> {
    let (table, word) = (table(), placed(U32::ZERO));
    Checked::run(&Plan::threads(3), &|thread| {
        if thread == 2 {
            word.store(1, Release);
            table.wake(table.key(&*word), u32::MAX);
            return;
        }
        let _: Slept = table.wait(&word, 0, Timeout::NONE);
        if thread == 0 {
            let _: Slept = table.wait(&word, 1, soon());
        }
    });
    is_empty(&table, &word)
}

/// A wake-up looks at a bucket only if a waiter is counted, so that what is left in its list is looked for besides.
fn is_empty(table: &Table, word: &U32) -> Result<(), String> {
    match (table.wake(table.key(word), u32::MAX), table.waiters(), table.sleepers()) {
        (0, 0, 0) => Ok(()),
        (woken, counted, left) => {
            Err(format!("{woken} could be woken, {counted} are counted, and {left} are left in the table"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use checker::{Bound, Exploration, Model, Search, explore};

    #[test]
    fn they_find_nothing_in_what_is_right() {
        for (name, client) in [
            ("no permit", no_permit_comes as fn() -> Result<(), String>),
            ("all permits", all_permits_but_those_taken),
            ("one of two leaves", one_of_two_leaves),
            ("two at once", two_permits_at_once),
            ("one permit is tried", one_permit_is_tried),
            ("rounds wrap", rounds_wrap),
            ("guard", guard_is_notified),
            ("completed", once_is_completed),
            ("panics late", once_panics_late),
            ("no wake-up", no_wake_up_comes),
            ("waits twice", one_waits_twice),
            ("one of two", one_of_two_waits_again),
            ("first comes first", first_comes_first),
            ("guards bring permits back", guards_bring_permits_back),
            ("barrier for none", barrier_for_none),
            ("guard waits while", guard_waits_while),
            ("guard waits until it is so", guard_waits_until_it_is_so),
            ("wakers do not look", wakers_do_not_look),
        ] {
            // Those that wait for a time have more than a test takes.
            let some = Exploration { most_executions: Some(20_000), ..Exploration::of(Model::Ra) };
            let report = explore(&some, &client);
            let found = report.counterexample.as_ref().map(ToString::to_string).unwrap_or_default();
            let is_seen = report.complete || report.bound == Some(Bound::Executions);
            assert!(found.is_empty() && is_seen, "{name}: {:?} {:?} {found}", report.bound, report.counts);
        }
    }

    /// Which has many executions.
    #[test]
    fn one_of_each_size_is_woken_at_a_time() {
        let exploration = Exploration { search: Search::States, ..Exploration::of(Model::Sc) };
        let report = explore(&exploration, &one_of_each_size);
        let found = report.counterexample.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(
            report.is_verified() && report.counts.explored > 0,
            "{:?} {:?} {found}",
            report.bound,
            report.counts
        );
    }
}
