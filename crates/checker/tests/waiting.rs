//! Condition variable, semaphore, barrier and once: nobody sleeps for ever, nobody goes on too early, and every ordering is needed.

use contend_checker::checked::{Accessed, Operation};
use contend_checker::{Checked, Exploration, Model, Mutation, Report, Search, Violation, explore};
use locks::{Barrier, Condvar, Futex, Once, RawLock, Semaphore};
use machine::Ordering::{Acquire, Relaxed};
use machine::{Deadline, Home, Integer, Machine, Placed, PlainCell, Plan, Timeout, Word};

type Cell = <Checked as Machine>::Cell<u32>;

fn placed<T: Sync>(value: T) -> Placed<T, Checked> {
    Placed::new(value, Home::FirstTouch)
}

fn cell() -> Placed<Cell, Checked> {
    placed(Cell::ZERO)
}

/// What threads do, and whether it came out right.
type Client = fn() -> Result<(), String>;

fn is(wanted: u32, found: u32) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{found} instead of {wanted}")) }
}

/// One waits for what another one changes.
fn one_is_notified() -> Result<(), String> {
    let (lock, more, value) = (placed(Futex::<Checked>::NEW), placed(Condvar::<Checked>::new()), cell());
    Checked::run(&Plan::threads(2), &|thread| {
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
    is(1, value.get())
}

/// Two wait, and one notification is for both.
fn all_are_notified() -> Result<(), String> {
    let (lock, more, value) = (placed(Futex::<Checked>::NEW), placed(Condvar::<Checked>::new()), cell());
    Checked::run(&Plan::threads(3), &|thread| {
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
    is(1, value.get())
}

/// One permit for two threads is a mutex.
fn one_permit() -> Result<(), String> {
    let (seats, value) = (placed(Semaphore::<Checked>::new(1)), cell());
    Checked::run(&Plan::threads(2), &|_| {
        seats.acquire();
        value.set(value.get() + 1);
        seats.release(1);
    });
    is(2, value.get())?;
    is(1, seats.permits())
}

/// Two sleep until a third brings both permits, one after the other.
fn permits_come() -> Result<(), String> {
    let seats = placed(Semaphore::<Checked>::new(0));
    Checked::run(&Plan::threads(3), &|thread| {
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
fn one_gives_up() -> Result<(), String> {
    let seats = placed(Semaphore::<Checked>::new(0));
    let came_in = cell();
    Checked::run(&Plan::threads(2), &|thread| {
        if thread == 0 {
            let deadline = Deadline::after_ns::<Checked>(1_000);
            came_in.set(u32::from(seats.acquire_or(Timeout::at(deadline)).is_ok()));
        } else {
            seats.release(1);
        }
    });
    is(1, came_in.get() + seats.permits())
}

/// What each did before the barrier, the other sees behind it, twice.
fn two_rounds() -> Result<(), String> {
    let (barrier, values) = (placed(Barrier::<Checked>::new(2)), [cell(), cell()]);
    let leaders = placed(<Checked as Machine>::U32::ZERO);
    Checked::run(&Plan::threads(2), &|thread| {
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
fn more_than_the_barrier_is_for() -> Result<(), String> {
    let (barrier, rounds) = (placed(Barrier::<Checked>::new(2)), placed(<Checked as Machine>::U32::ZERO));
    Checked::run(&Plan::threads(4), &|_| {
        rounds.fetch_add(u32::from(barrier.wait()), Relaxed);
    });
    is(2, rounds.load(Relaxed))
}

/// Nothing is added while one waits, then a permit.
fn nothing_then_a_permit() -> Result<(), String> {
    let seats = placed(Semaphore::<Checked>::new(0));
    Checked::run(&Plan::threads(2), &|thread| {
        if thread == 0 {
            seats.acquire();
        } else {
            seats.release(0);
            seats.release(1);
        }
    });
    is(0, seats.permits())
}

/// Both see what one of them has done.
fn once() -> Result<(), String> {
    let (once, value) = (placed(Once::<Checked>::new()), cell());
    Checked::run(&Plan::threads(2), &|_| {
        once.call_once(|| value.set(value.get() + 1));
        assert_eq!(value.get(), 1);
    });
    is(1, value.get())
}

/// What each is about, and how it goes.
const CLIENTS: [(&str, &str, Client); 6] = [
    ("src/condvar.rs", "one is notified", one_is_notified),
    ("src/semaphore.rs", "one permit", one_permit),
    ("src/semaphore.rs", "one gives up", one_gives_up),
    ("src/semaphore.rs", "nothing, then a permit", nothing_then_a_permit),
    ("src/barrier.rs", "two rounds", two_rounds),
    ("src/once.rs", "once", once),
];

fn explored(model: Model, mutation: Option<Mutation>, client: Client) -> Report {
    explore(&Exploration { search: Search::States, mutation, ..Exploration::of(model) }, &client)
}

fn is_right(name: &str, model: Model, client: Client) {
    let report = explored(model, None, client);
    let found = report.counterexample.as_ref().map(|found| &found.violation);
    assert!(report.is_verified(), "{name} under {model}: {found:?}");
}

#[test]
fn nobody_waits_for_ever_and_nobody_goes_on_too_early() {
    for model in Model::ALL {
        for (_, name, client) in CLIENTS {
            is_right(name, model, client);
        }
    }
    is_right("all are notified", Model::Sc, all_are_notified);
    is_right("permits come", Model::Sc, permits_come);
    is_right("more than the barrier is for", Model::Sc, more_than_the_barrier_is_for);
}

/// The accesses of what each client is about.
fn accesses() -> Vec<Accessed> {
    let noting = Exploration { note_accesses: true, ..Exploration::of(Model::Ra) };
    let mut all: Vec<Accessed> = Vec::new();
    for (file, _, client) in CLIENTS {
        for access in explore(&noting, &client).accesses {
            if access.site.file().ends_with(file) && !all.iter().any(|other| other.same(&access)) {
                all.push(access);
            }
        }
    }
    all
}

fn found(mutation: Mutation) -> Option<Violation> {
    let about = CLIENTS.into_iter().filter(|(file, ..)| mutation.of.site.file().ends_with(file));
    let of = |(_, _, client)| explored(Model::Ra, Some(mutation), client).counterexample;
    about.into_iter().find_map(of).map(|found| found.violation)
}

/// But for one: what a thread did before it panicked inside `call_once`. In the checker a panic ends everything.
#[test]
fn every_ordering_is_needed() {
    let all = accesses();
    let after_panic = |access: &&Accessed| {
        access.site.file().ends_with("src/once.rs")
            && access.operation == Operation::CompareExchange
            && access.ordering == Acquire
    };
    assert_eq!(all.iter().filter(after_panic).count(), 1);
    let others = all.iter().filter(|access| !after_panic(access));
    let orderings = others.flat_map(Accessed::mutations).filter(|mutation| mutation.to.is_of_ordering());
    let survivors: Vec<_> = orderings.filter(|&mutation| found(mutation).is_none()).collect();
    assert!(survivors.is_empty(), "{survivors:#?}");
}

#[test]
fn whoever_is_not_woken_is_found() {
    let all = accesses();
    let wakes = all.iter().filter(|access| access.operation == Operation::Wake);
    let lost = wakes.filter(|wake| matches!(found(wake.mutations()[0]), Some(Violation::EndlessWait { .. })));
    assert!(lost.count() >= 4, "one of each");
}
