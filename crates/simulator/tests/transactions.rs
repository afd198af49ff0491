//! Transactions: what conflicts with what, what aborts besides, and that an abort leaves no trace.

mod common;

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed as HostRelaxed};
use std::time::Duration;

use common::{Cell, M, TWO_SOCKETS, hardware};
use contend_simulator::{Hardware, Options, Report, Simulation, TransactionCounts};
use locks::api::{ElidedMutex, ElidedRwLock};
use locks::{
    LazySubscription, Next, Policy, RawLock, RawRwLock, RetryLessOften, RetryOneByOne, RetryThenSkip,
    RetryWhenFree, Rw, Subscription, Tas, Ticket, TimedLock, TimedRwLock,
};
use machine::random::Random;
use machine::transaction::{Cause, NESTED};
use machine::{
    Abort, Deadline, Event, GaveUp, Home, Integer, LINE_BYTES, Machine, Node, Ordering::Relaxed, Placed,
    PlainCell, Plan, Poll, Timeout, Word,
};
use topology::machine_file::Winner;
use workloads::section::{self, Section};
use workloads::{Load, transactional};

type U32 = <M as Machine>::U32;
type U64 = <M as Machine>::U64;

const TRANSACTIONS: &str = r#"
    [transactions]
    begin = { value = 5, unit = "ns", source = "assumed" }
    commit = { value = 5, unit = "ns", source = "assumed" }
    abort = { value = 50, unit = "ns", source = "assumed" }
    interrupts = { value = 1e9, unit = "ns", source = "assumed" }
    l1_sets = 64
    l1_ways = 8
    read_lines = 1000
    source = "assumed"
"#;

/// The small machine with transactions, its file changed by these replacements.
fn with(replacements: &[(&str, &str)]) -> Hardware {
    let mut text = format!("{TWO_SOCKETS}{TRANSACTIONS}");
    for (from, to) in replacements {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    Hardware::new(&topology::MachineFile::parse(&text).unwrap()).unwrap()
}

/// Machines that find lines in different ways.
fn machines() -> Vec<Hardware> {
    let mut machines = Vec::new();
    for protocol in ["MSI", "MESI", "MOESI"] {
        for more in ["", "\nresolves_locally = false"] {
            let to = format!("\"{protocol}\"{more}");
            machines.push(with(&[("\"MESI\"", &to)]));
        }
    }
    machines
}

fn run<T>(hardware: &Hardware, body: impl FnOnce() -> T) -> (T, Report) {
    Simulation::new(hardware).run(body).unwrap()
}

/// Runs a body in a transaction, once; says what that aborted with.
fn attempt(body: impl FnOnce()) -> Option<Abort> {
    // SAFETY: the bodies below change words, cells and what lies on the stack.
    unsafe { M::transaction(body) }.err()
}

fn word(value: u64) -> Placed<U64, M> {
    let word = Placed::<_, M>::new(U64::ZERO, Home::Node(0));
    word.store(value, Relaxed);
    word
}

/// Waits until a time in cycles.
fn until(at: u64) {
    M::delay(at.saturating_sub(M::now()));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    Add,
}
use Access::{Add, Read, Write};

impl Access {
    fn make(self, word: &U64) -> u64 {
        match self {
            Read => word.load(Relaxed),
            Write => {
                word.store(8, Relaxed);
                8
            }
            Add => word.fetch_add(1, Relaxed),
        }
    }
}

/// When the transaction of core 0 makes its access, the other core makes its own, and the transaction would commit.
const FIRST: u64 = 10_000;
const SECOND: u64 = 50_000;
const END: u64 = 100_000;

/// What became of two accesses of one line.
#[derive(Debug, PartialEq, Eq)]
struct Met {
    first: Option<Abort>,
    second: Option<Abort>,
    /// What the second one saw, where it was not aborted.
    seen: u64,
    /// When the first one went on after its transaction, in cycles.
    ended: u64,
}

/// Core 0 makes the first access in a transaction, another core the second one meanwhile, in a transaction or plainly.
fn meet(hardware: &Hardware, (first, second): (Access, Access), core: u32, in_transaction: bool) -> Met {
    let met = Mutex::new(Met { first: None, second: None, seen: 0, ended: 0 });
    run(hardware, || {
        let shared = word(7);
        M::run(&Plan::on(&[0, core]), &|thread| {
            if thread == 0 {
                shared.store(7, Relaxed); // the core has the line to itself
                until(FIRST);
                let aborted = attempt(|| {
                    first.make(&shared);
                    until(END);
                });
                let mut met = met.lock().unwrap();
                (met.first, met.ended) = (aborted, M::now());
            } else {
                until(SECOND);
                let mut seen = 0;
                let aborted = if in_transaction {
                    attempt(|| seen = second.make(&shared))
                } else {
                    seen = second.make(&shared);
                    None
                };
                let mut met = met.lock().unwrap();
                (met.second, met.seen) = (aborted, seen);
            }
        });
    });
    met.into_inner().unwrap()
}

#[test]
fn a_conflict_is_a_write_of_what_the_other_uses() {
    for hardware in machines() {
        for in_transaction in [true, false] {
            for (core, first, second) in [1, 4]
                .iter()
                .flat_map(|&core| [Read, Write, Add].map(|first| (core, first)))
                .flat_map(|(core, first)| [Read, Write, Add].map(|second| (core, first, second)))
            {
                let met = meet(&hardware, (first, second), core, in_transaction);
                let case = format!("{first:?} {second:?} {core} {in_transaction} {hardware:?}: {met:?}");
                let conflicts = first != Read || second != Read;
                assert_eq!(met.first, conflicts.then_some(Abort::CONFLICT), "{case}");
                assert_eq!(met.second, None, "the requester wins: {case}");
                // The thread that comes second finds what was there before the transaction.
                assert_eq!(met.seen, if second == Write { 8 } else { 7 }, "{case}");
                // An abort is not held up by what the transaction would have done.
                let expected = if conflicts { SECOND..SECOND + 2_000 } else { END..END + 2_000 };
                assert!(expected.contains(&met.ended), "{case}");
            }
        }
    }
}

#[test]
fn the_holder_of_a_line_wins_over_another_transaction_where_the_machine_says_so() {
    for more in ["", "\nresolves_locally = false"] {
        let protocol = format!("\"MESI\"{more}");
        let hardware = with(&[("l1_sets", "winner = \"holder\"\n    l1_sets"), ("\"MESI\"", &protocol)]);
        assert_eq!(hardware.transactions.unwrap().winner, Winner::Holder);
        for core in [1, 4] {
            for (first, second) in [(Read, Write), (Write, Read), (Write, Write), (Add, Add), (Read, Read)] {
                let conflicts = (first, second) != (Read, Read);
                let met = meet(&hardware, (first, second), core, true);
                assert_eq!(met.first, None, "{first:?} {second:?} {core}: {met:?}");
                assert_eq!(met.second, conflicts.then_some(Abort::CONFLICT), "{first:?} {second:?}: {met:?}");
                let met = meet(&hardware, (first, second), core, false);
                assert_eq!(
                    met.first,
                    conflicts.then_some(Abort::CONFLICT),
                    "plain {first:?} {second:?}: {met:?}"
                );
            }
        }
    }
}

/// Two threads are in transactions meanwhile, and the third one has never begun any.
#[test]
fn a_thread_that_was_never_in_a_transaction_asks_where_the_holder_wins() {
    let hardware = with(&[("l1_sets", "winner = \"holder\"\n    l1_sets")]);
    run(&hardware, || {
        let words = [word(0), word(1), word(2)];
        M::run(&Plan::on(&[0, 1, 4]), &|thread| {
            if thread == 2 {
                until(SECOND);
                assert_eq!(words[thread].load(Relaxed), 2);
                return;
            }
            until(FIRST);
            let aborted = attempt(|| {
                words[thread].store(7, Relaxed);
                until(END);
            });
            assert_eq!(aborted, None);
        });
    });
}

/// Two words of one line.
#[repr(C)]
struct Neighbours {
    one: U64,
    other: U64,
}

#[test]
fn words_of_one_line_conflict_and_words_of_two_do_not() {
    let aborted = |apart: bool| {
        let (_, report) = run(&with(&[]), || {
            let same = Placed::<_, M>::new(Neighbours { one: U64::ZERO, other: U64::ZERO }, Home::Node(0));
            let elsewhere = word(0);
            M::run(&Plan::threads(2), &|thread| {
                until(if thread == 0 { FIRST } else { SECOND });
                let other = if apart { &*elsewhere } else { &same.other };
                let mine = if thread == 0 { &same.one } else { other };
                attempt(|| {
                    mine.store(1, Relaxed);
                    until(if thread == 0 { END } else { SECOND });
                });
            });
        });
        report.transactions.aborted_by(Cause::Conflict)
    };
    assert_eq!((aborted(false), aborted(true)), (1, 0));
}

#[test]
fn a_watcher_polls_and_sees_nothing_of_a_transaction_that_has_not_committed() {
    let watch = |really_poll: bool| {
        let seen = Mutex::new(Vec::new());
        let body = || {
            let flag = word(0);
            M::run(&Plan::on(&[0, 1, 4]), &|thread| {
                if thread == 0 {
                    until(FIRST);
                    let aborted = attempt(|| {
                        flag.store(1, Relaxed);
                        until(END);
                    });
                    assert_eq!(aborted, Some(Abort::CONFLICT));
                    assert!(M::now() < SECOND, "by the first poll");
                    until(SECOND);
                    assert_eq!(flag.load(Relaxed), 0);
                    // One that takes no time between its write and its commit gets through.
                    while attempt(|| flag.store(2, Relaxed)).is_some() {}
                } else {
                    let value = M::spin_until(&*flag, Relaxed, |value| value != 0);
                    seen.lock().unwrap().push((value, M::now() >= SECOND));
                }
            });
        };
        let options = Options { really_poll, ..Options::default() };
        let (_, report) = Simulation::new(&with(&[])).options(options).run(body).unwrap();
        (seen.into_inner().unwrap(), report.transactions)
    };
    let (seen, transactions) = watch(false);
    assert_eq!(seen, [(2, true); 2]);
    assert!(transactions.aborted_by(Cause::Conflict) > 0);
    assert_eq!(watch(true).0, seen, "as if it really polled");
}

#[test]
fn a_set_of_the_cache_keeps_as_many_written_lines_as_it_has_ways() {
    const SETS: usize = 64;
    let write = |lines: usize, apart: usize| {
        let aborted = Mutex::new(None);
        run(&with(&[]), || {
            let all = (0..lines * apart).map(|_| word(0)).collect::<Vec<_>>();
            M::run(&Plan::threads(1), &|_| {
                let outcome = attempt(|| all.iter().step_by(apart).for_each(|word| word.store(1, Relaxed)));
                *aborted.lock().unwrap() = outcome;
                let written = all.iter().filter(|word| word.load(Relaxed) == 1).count();
                assert_eq!(written, if outcome.is_some() { 0 } else { lines }, "all of it or nothing");
            });
        });
        aborted.into_inner().unwrap()
    };
    assert_eq!(write(8, SETS), None);
    assert_eq!(write(9, SETS), Some(Abort::CAPACITY));
    assert_eq!(write(9, 1), None, "in as many sets");
    assert_eq!(write(8 * SETS, 1), None, "the whole cache");
    assert_eq!(write(8 * SETS + 1, 1), Some(Abort::CAPACITY));
}

#[test]
fn reads_reach_to_the_last_level_and_no_further() {
    let read = |lines: usize| {
        let aborted = Mutex::new(None);
        run(&with(&[]), || {
            let all = (0..lines).map(|_| word(0)).collect::<Vec<_>>();
            M::run(&Plan::threads(1), &|_| {
                *aborted.lock().unwrap() =
                    attempt(|| all.iter().chain(&all).for_each(|word| _ = word.load(Relaxed)));
            });
        });
        aborted.into_inner().unwrap()
    };
    assert_eq!(read(1000), None, "each line counts once");
    assert_eq!(read(1001), Some(Abort::CAPACITY));
}

/// Words of all sizes and cells on one line.
#[repr(C)]
struct Various {
    small: U32,
    beside: U32,
    large: U64,
    cell: Cell,
    part: U32,
}

#[test]
fn an_explicit_abort_says_its_code_and_leaves_no_trace() {
    let values = |of: &Various| {
        (
            of.small.load(Relaxed),
            of.beside.load(Relaxed),
            of.large.load(Relaxed),
            of.cell.get(),
            of.part.load(Relaxed),
        )
    };
    for hardware in machines() {
        run(&hardware, || {
            let various = Various {
                small: U32::ZERO,
                beside: U32::ZERO,
                large: U64::ZERO,
                cell: Cell::ZERO,
                part: U32::ZERO,
            };
            let various = Placed::<_, M>::new(various, Home::Node(0));
            M::run(&Plan::threads(1), &|_| {
                various.small.store(1, Relaxed);
                various.beside.store(2, Relaxed);
                various.large.store(3, Relaxed);
                various.cell.set(4);
                various.part.store(0x0506_0708, Relaxed);
                let before = values(&various);
                let mut locals = [0_u64; 64];
                black_box(&mut locals).fill(7);
                // SAFETY: words, cells and the stack.
                let begun = unsafe { M::begin_transaction() };
                if begun.is_ok() {
                    various.small.fetch_add(10, Relaxed);
                    various.small.swap(11, Relaxed);
                    various.large.compare_exchange(3, 12, Relaxed, Relaxed).unwrap();
                    various.large.store(13, Relaxed);
                    various.cell.set(14);
                    various.part.store_part(machine::Part::Byte(0), 0xff, Relaxed);
                    assert_eq!(values(&various), (11, 2, 13, 14, 0x0506_07ff), "its own writes");
                    black_box(&mut locals).fill(8);
                    M::abort_transaction::<3>();
                }
                let abort = begun.unwrap_err();
                assert_eq!(
                    (abort.code(), abort.cause(), abort.is_nested()),
                    (Some(3), Cause::Explicit, false)
                );
                assert!(black_box(&locals).iter().all(|&local| local == 7), "locals are as before");
                assert!(!M::in_transaction());
                assert_eq!(values(&various), before);
                // Afterwards the machine is as it was: a transaction commits what it does.
                assert_eq!(attempt(|| various.cell.set(15)), None);
                assert_eq!(various.cell.get(), 15);
            });
        });
    }
}

#[test]
fn an_inner_transaction_is_part_of_the_outer_one() {
    let (_, report) = run(&with(&[]), || {
        let shared = word(0);
        M::run(&Plan::threads(2), &|thread| {
            if thread == 1 {
                until(SECOND);
                assert_eq!(shared.load(Relaxed), 0, "what the inner one has committed is not to be seen");
                return;
            }
            let aborted = attempt(|| {
                assert_eq!(
                    attempt(|| M::abort_transaction::<2>()),
                    None,
                    "it is the outer one that returns again"
                );
            });
            let aborted = aborted.unwrap();
            assert_eq!((aborted.code(), aborted.is_nested()), (Some(2), true));
            until(FIRST);
            let aborted = attempt(|| {
                assert_eq!(attempt(|| shared.store(1, Relaxed)), None);
                assert!(M::in_transaction());
                until(END);
            });
            assert_eq!(aborted, Some(Abort::CONFLICT), "no longer in the inner one");
            assert_eq!(attempt(|| _ = attempt(|| shared.store(1, Relaxed))), None);
            assert_eq!(shared.load(Relaxed), 1);
        });
    });
    let counts = report.transactions;
    assert_eq!((counts.begun, counts.committed, counts.all_aborted()), (3, 1, 2));
}

#[test]
fn what_cannot_be_done_in_a_transaction_aborts_it() {
    run(&with(&[]), || {
        let flag = word(0);
        let futex = Placed::<_, M>::new(U32::ZERO, Home::Node(0));
        let layout = std::alloc::Layout::new::<u64>();
        M::run(&Plan::threads(1), &|_| {
            let never: [(&str, &dyn Fn()); 10] = [
                ("sleep_while", &|| _ = M::sleep_while(&futex, 0, Timeout::NONE)),
                ("wake", &|| _ = M::wake(&raw const *futex, 1)),
                ("acquire_inheriting", &|| _ = M::acquire_inheriting(&futex, Timeout::NONE)),
                ("try_acquire_inheriting", &|| _ = M::try_acquire_inheriting(&futex)),
                ("spin_until", &|| _ = M::spin_until(&*flag, Relaxed, |value| value == 1)),
                ("spin_until_any", &|| {
                    _ = M::spin_until_any(
                        (&*flag, Relaxed, |value| value == 1),
                        (&*futex, Relaxed, |value| value == 1),
                    );
                }),
                ("spin_rmw", &|| M::spin_rmw(&*flag, |word| word.swap(1, Relaxed) == 1)),
                ("poll", &|| _ = M::poll(&*flag, Relaxed, |_| Poll::BackOff(10))),
                ("alloc", &|| _ = M::alloc(layout, Home::FirstTouch)),
                ("a node of a pool that is not there yet", &|| _ = M::allocate_node::<Line>()),
            ];
            for (name, act) in never {
                assert_eq!(attempt(act), Some(Abort::REFUSED), "{name}");
                assert_eq!((flag.load(Relaxed), futex.load(Relaxed)), (0, 0), "{name}");
            }
            let timed = Timeout { spins: true, ..Timeout::NONE };
            let now: [(&str, &dyn Fn()); 4] = [
                ("spin_until", &|| _ = M::spin_until(&*flag, Relaxed, |value| value == 0)),
                ("spin_until_or", &|| {
                    assert_ne!(M::spin_until_or(&*flag, Relaxed, timed, |value| value == 0), Err(GaveUp));
                }),
                ("spin_rmw", &|| M::spin_rmw(&*flag, |word| word.swap(0, Relaxed) == 0)),
                ("fence", &|| M::fence(machine::Ordering::SeqCst)),
            ];
            for (name, act) in now {
                assert_eq!(attempt(act), None, "{name} needs no wait");
            }
        });
    });
}

/// A node as large as a line.
struct Line([U64; LINE_BYTES / 8]);

// SAFETY: words of the machine, as long as a line.
unsafe impl Node<M> for Line {}

#[test]
fn nodes_of_an_aborted_transaction_are_where_they_were() {
    run(&with(&[]), || {
        M::run(&Plan::threads(1), &|_| {
            let take = || M::allocate_node::<Line>();
            let first = take();
            // The pool is there now. What is taken in a transaction that aborts is free again ...
            let aborted = attempt(|| {
                let others = [take(), take(), take()];
                assert!(others.iter().all(|other| other.name.is_some() && other.name != first.name));
                others[0].node.0[0].store(1, Relaxed);
                // SAFETY: taken above.
                unsafe { M::free_node(others[0].node) };
                _ = take();
                M::abort_transaction::<1>();
            });
            assert_eq!(aborted.and_then(Abort::code), Some(1));
            let others = [take(), take(), take()].map(|taken| taken.name);
            assert!(others.iter().all(Option::is_some), "{others:?}");
            // ... and what is given back stays taken.
            // SAFETY: taken above, and in the end it is not given back.
            let aborted = attempt(|| unsafe {
                M::free_node(first.node);
                M::abort_transaction::<2>()
            });
            assert_eq!(aborted.and_then(Abort::code), Some(2));
            assert_eq!(take().name, None, "the pool has none left");
            // SAFETY: taken above and still in use: the aborted attempt freed nothing.
            assert_eq!(attempt(|| unsafe { M::free_node(first.node) }), None);
            assert_eq!(take().name, first.name);
        });
    });
}

#[test]
fn interrupts_come_at_their_rate() {
    // One in 10 us on average: of transactions of 1 us one in ten and a half meets one.
    let hardware = with(&[("value = 1e9", "value = 10000")]);
    let (_, report) = run(&hardware, || {
        M::run(&Plan::threads(4), &|_| {
            for _ in 0..500 {
                let aborted = attempt(|| M::delay(2_000));
                assert!(aborted.is_none_or(|aborted| aborted == Abort::INTERRUPTED), "{aborted:?}");
            }
        });
    });
    let counts = report.transactions;
    assert_eq!((counts.begun, counts.committed + counts.aborted_by(Cause::Other)), (2_000, 2_000));
    assert!((140..260).contains(&counts.aborted_by(Cause::Other)), "{counts:?}");
}

#[test]
fn a_thread_that_loses_its_core_loses_its_transaction() {
    let slices = "\"MESI\"\ntime_slice = { value = 20000, unit = \"ns\", source = \"assumed\" }";
    let (_, report) = run(&with(&[("\"MESI\"", slices)]), || {
        let words = [word(0), word(0)];
        M::run(&Plan::on(&[0, 0]), &|thread| {
            for part in [100_000, 10] {
                // Passing time and making accesses.
                let aborted = attempt(|| {
                    while words[thread].fetch_add(1, Relaxed) < 1_000_000 / part {
                        M::delay(part);
                    }
                });
                assert_eq!(aborted, Some(Abort::INTERRUPTED));
                assert_eq!(words[thread].load(Relaxed), 0);
            }
        });
    });
    assert_eq!(report.transactions.aborted_by(Cause::Other), 4);
}

#[test]
fn announcements_of_an_aborted_attempt_count_for_nothing() {
    let (run, report) = run(&with(&[]), || {
        let shared = word(0);
        let lock = std::ptr::from_ref::<U64>(&shared) as usize;
        M::run(&Plan::threads(1), &|_| {
            for round in 0..10 {
                M::note(Event::Acquiring { lock });
                attempt(|| {
                    M::note(Event::Acquired { lock, shared: false });
                    M::delay(100);
                    M::note(Event::Releasing { lock, shared: false });
                    M::note(Event::Operation);
                    if round % 2 == 0 {
                        M::abort_transaction::<1>();
                    }
                });
            }
        })
    });
    assert_eq!((run.operations(), run.acquisitions()), (5, 5));
    let [lock] = report.locks[..] else { panic!("one lock: {:?}", report.locks) };
    assert_eq!((lock.acquisitions, lock.transactions), (5, report.transactions));
    assert_eq!(lock.held_ps, 5 * 50_000, "from when it was announced to when its release was");
    let counts = lock.transactions;
    assert_eq!((counts.begun, counts.committed, counts.aborted_by(Cause::Explicit)), (10, 5, 5));
    // A begin, the delay, the abort.
    assert_eq!(counts.wasted_ps, 5 * (5_000 + 50_000 + 50_000));
}

#[test]
fn an_abort_drops_what_was_written_and_keeps_what_was_read() {
    run(&with(&[]), || {
        let (read, written) = (word(1), word(1));
        M::run(&Plan::threads(1), &|_| {
            let took = |word: &U64| {
                let before = M::now();
                word.load(Relaxed);
                M::now() - before
            };
            attempt(|| {
                read.load(Relaxed);
                written.store(2, Relaxed);
                M::abort_transaction::<1>();
            });
            let (hit, miss) = (took(&read), took(&written));
            assert!(miss > 2 * hit, "{hit} and {miss} cycles");
            assert_eq!(took(&written), hit);
        });
    });
}

#[test]
fn a_transaction_takes_what_its_begin_and_commit_take() {
    run(&with(&[]), || {
        M::run(&Plan::threads(1), &|_| {
            let before = M::now();
            attempt(|| M::delay(100));
            assert_eq!(M::now() - before, 120, "5 ns at 2 GHz each");
        });
    });
}

/// Threads that each add to two words in transactions, which they repeat until they commit.
fn add_up(hardware: &Hardware, seed: u64, threads: usize) -> Report {
    const ROUNDS: u64 = 40;
    let body = || {
        let words = [word(0), word(0)];
        let torn = AtomicU64::new(0);
        M::run(&Plan::threads(threads), &|thread| {
            let mut random = Random::new(seed + thread as u64);
            for _ in 0..ROUNDS {
                for tries in 0.. {
                    let mut differed = false;
                    let aborted = attempt(|| {
                        let [one, other] = [0, 1].map(|word| words[word].load(Relaxed));
                        differed = one != other;
                        words[0].store(one + 1, Relaxed);
                        words[1].store(other + 1, Relaxed);
                    });
                    torn.fetch_add(differed.into(), HostRelaxed);
                    match aborted {
                        None => break,
                        Some(abort) => assert_eq!(abort.cause(), Cause::Conflict),
                    }
                    // Where the requester wins, two that come back at once can abort each other for ever.
                    M::delay(random.next() % (100 << tries.min(8)));
                }
                M::note(Event::Operation);
                M::delay(100 + thread as u64 * 7);
            }
        });
        let all = threads as u64 * ROUNDS;
        assert_eq!([0, 1].map(|word| words[word].load(Relaxed)), [all, all]);
        assert_eq!(torn.into_inner(), 0, "a transaction saw half of another");
    };
    Simulation::new(hardware).seed(seed).run(body).unwrap().1
}

#[test]
fn transactions_that_are_repeated_add_up_and_come_to_an_end() {
    for winner in ["requester", "holder"] {
        for seed in 1..4 {
            let winner = format!("winner = \"{winner}\"\n    l1_sets");
            let report = add_up(&with(&[("l1_sets", &winner)]), seed, 8);
            let counts = report.transactions;
            assert_eq!(counts.committed, 8 * 40);
            assert!(counts.aborted_by(Cause::Conflict) > 0, "{counts:?}");
            assert_eq!(counts.begun, counts.committed + counts.all_aborted());
            assert!(counts.wasted_ps > 0);
        }
    }
    for hardware in machines() {
        add_up(&hardware, 1, 8);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let hardware = with(&[("value = 1e9", "value = 20000")]);
    let bytes = |seed| serde_json::to_string(&add_up_or_interrupted(&hardware, seed)).unwrap();
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

/// Transactions of some length that conflict and are interrupted.
fn add_up_or_interrupted(hardware: &Hardware, seed: u64) -> Report {
    let body = || {
        let shared = word(0);
        M::run(&Plan::threads(8), &|_| {
            for _ in 0..50 {
                attempt(|| {
                    shared.fetch_add(1, Relaxed);
                    M::delay(500);
                });
                M::delay(1_000);
            }
        });
    };
    let (_, report) = Simulation::new(hardware).seed(seed).run(body).unwrap();
    assert!(report.transactions.aborted_by(Cause::Conflict) > 0);
    assert!(report.transactions.aborted_by(Cause::Other) > 0);
    report
}

#[test]
fn a_machine_without_the_table_has_no_transactions() {
    let (_, report) = run(&hardware(), || {
        assert!(!M::has_transactions());
        M::run(&Plan::threads(1), &|_| {
            assert_eq!(attempt(|| unreachable!("there is no transaction")), Some(Abort::UNAVAILABLE));
        });
    });
    assert!(report.transactions.is_zero());
    assert!(!serde_json::to_string(&report).unwrap().contains("transactions"));
    run(&with(&[]), || {
        assert!(M::has_transactions());
        assert_eq!(
            attempt(|| unreachable!()),
            Some(Abort::REFUSED),
            "the caller of the simulation has no coroutine"
        );
    });
}

#[test]
fn a_transaction_sees_all_of_another_or_nothing() {
    const ACCOUNTS: usize = 5;
    const EACH: u64 = 100;
    let bank = |hardware: &Hardware, seed: u64| {
        let body = || {
            let accounts = [0; ACCOUNTS].map(|_| word(EACH));
            M::run(&Plan::threads(8), &|thread| {
                let mut random = Random::new(seed << 8 | thread as u64);
                for round in 0..60 {
                    let [from, to] = [0; 2].map(|_: u64| random.next() as usize % ACCOUNTS);
                    let tries = 1 + random.next() % 4;
                    for _ in 0..tries {
                        let aborted = attempt(|| {
                            if thread < 2 || round % 3 == 0 {
                                // Whatever becomes of it: no transaction sees a state that never was.
                                let sum = accounts.iter().map(|one| one.load(Relaxed)).sum::<u64>();
                                assert_eq!(sum, ACCOUNTS as u64 * EACH);
                            } else {
                                let amount = accounts[from].load(Relaxed) / 10;
                                accounts[from].fetch_sub(amount, Relaxed);
                                M::delay(pause(from, to));
                                accounts[to].store(accounts[to].load(Relaxed) + amount, Relaxed);
                            }
                        });
                        if aborted.is_none() {
                            break;
                        }
                    }
                    M::note(Event::Operation);
                    M::delay(random.next() % 400);
                }
            });
            let sum = accounts.iter().map(|one| one.load(Relaxed)).sum::<u64>();
            assert_eq!(sum, ACCOUNTS as u64 * EACH);
        };
        Simulation::new(hardware).seed(seed).run(body).unwrap().1.transactions
    };
    for hardware in machines() {
        for seed in 0..4 {
            let counts = bank(&hardware, seed);
            assert!(counts.committed > 100 && counts.aborted_by(Cause::Conflict) > 100, "{counts:?}");
        }
    }
}

/// Some time between two accesses that differs from pair to pair.
fn pause(from: usize, to: usize) -> u64 {
    (from * 37 + to * 11) as u64 % 60
}

/// A lock word that is only read while sections run as transactions; after three attempts it is taken.
struct ElidedWord(U32);

// SAFETY: a section is a transaction that has read the word as free, which taking the word aborts, or the word is taken.
unsafe impl RawLock<M> for ElidedWord {
    const NEW: Self = Self(U32::ZERO);

    fn acquire(&self) {
        for _ in 0..3 {
            M::spin_until(&self.0, Relaxed, |word| word == 0);
            // SAFETY: sections of the workloads change words and cells.
            if unsafe { M::begin_transaction() }.is_ok() {
                if self.0.load(Relaxed) == 0 {
                    return;
                }
                M::abort_transaction::<255>();
            }
        }
        M::spin_rmw(&self.0, |word| word.swap(1, Relaxed) == 0);
    }

    unsafe fn release(&self) {
        if M::in_transaction() {
            // SAFETY: as just said.
            unsafe { M::commit_transaction() };
        } else {
            self.0.store(0, Relaxed);
        }
    }
}

#[test]
fn sections_that_do_not_conflict_run_at_once_under_an_elided_lock() {
    let sections = |cores: &[u32], lines: usize| {
        let load = Load { threads: cores.len(), cores, duration_ns: 200_000, ..Load::default() };
        let section = Section { work_cycles: 200, think_cycles: 100, lines, ..Section::EMPTY };
        // The run ends with a panic if a section is lost.
        let (run, report) = run(&with(&[]), || section::run::<M, ElidedWord>(&section, &load));
        let [lock] = report.locks[..] else { panic!("one lock: {:?}", report.locks) };
        assert_eq!(lock.transactions, report.transactions, "all of them are the lock's");
        (run.operations(), report.transactions)
    };
    let (alone, counts) = sections(&[0], 0);
    assert_eq!(counts.all_aborted(), 0);
    let (apart, counts) = sections(&[0, 1, 2, 3, 4, 5, 6, 7], 0);
    assert_eq!(counts.all_aborted(), 0);
    assert!(apart > 7 * alone, "{apart} on 8 cores, {alone} on one");
    let (together, counts) = sections(&[0, 1, 2, 3, 4, 5, 6, 7], 1);
    assert!(together < 2 * alone, "{together} on 8 cores that write one line, {alone} on one");
    assert!(counts.aborted_by(Cause::Conflict) > counts.committed, "{counts:?}");
    assert!(counts.aborted_by(Cause::Explicit) > 0, "that found the lock taken: {counts:?}");
}

/// Thread 0 elides by a policy, and the others acquire the lock.
struct FirstElides<P>(P);

impl<P: Policy<M>> Policy<M> for FirstElides<P> {
    const NEW: Self = Self(P::NEW);

    const SUBSCRIPTION: Subscription = P::SUBSCRIPTION;

    fn tries(&self) -> bool {
        M::thread() == 1 // the simulation's caller is number 0
    }

    fn next(&self, aborts: u32, abort: Abort) -> Next {
        self.0.next(aborts, abort)
    }
}

type Elided<P> = locks::Elided<Ticket<M>, P>;

/// Begins a section of thread 0 while thread 1 is in one of its own, from `FIRST` to `SECOND`. Gives what thread 0 saw of two words that
/// thread 1 changes at the beginning and at the end of its section, each time that it looked, and what became of its transactions.
fn beside_a_holder<P: Policy<M>>(looks: bool) -> (Vec<(u64, u64)>, TransactionCounts) {
    let seen = Mutex::new(Vec::new());
    let (_, report) = run(&with(&[]), || {
        let lock = Placed::<_, M>::new(Elided::<FirstElides<P>>::NEW, Home::Node(0));
        let (one, other) = (word(0), word(0));
        M::run(&Plan::threads(2), &|thread| {
            until(if thread == 0 { (FIRST + SECOND) / 2 } else { FIRST });
            lock.acquire();
            if thread == 0 {
                if looks {
                    seen.lock().unwrap().push((one.load(Relaxed), other.load(Relaxed)));
                }
                until(END);
            } else {
                one.store(1, Relaxed);
                until(SECOND);
                other.store(1, Relaxed);
            }
            // SAFETY: acquired above.
            unsafe { lock.release() };
        });
    });
    (seen.into_inner().unwrap(), report.transactions)
}

#[test]
fn a_lazily_subscribed_section_outlasts_a_holder_that_an_eager_one_waits_for() {
    let (_, eager) = beside_a_holder::<RetryWhenFree>(false);
    assert_eq!((eager.aborted_by(Cause::Explicit), eager.committed), (1, 1), "{eager:?}");
    let (_, lazy) = beside_a_holder::<LazySubscription>(false);
    assert_eq!((lazy.all_aborted(), lazy.committed), (0, 1), "{lazy:?}");
    // Where it looks at what the holder changes, it sees half of that, and is undone.
    let (seen, lazy) = beside_a_holder::<LazySubscription>(true);
    assert_eq!((lazy.aborted_by(Cause::Conflict), lazy.committed), (1, 1), "{lazy:?}");
    assert_eq!(seen, [(1, 0), (1, 1)]);
    let (seen, _) = beside_a_holder::<RetryWhenFree>(true);
    assert_eq!(seen, [(1, 1)]);
}

/// The look before the commit belongs to what the transaction has read, so that no thread acquires the lock between the two.
/// To see it the inner section ends long before the transaction does that it is part of.
#[test]
fn a_lazy_subscription_lasts_until_the_commit() {
    let (_, report) = run(&with(&[]), || {
        let lock = Placed::<_, M>::new(Elided::<FirstElides<LazySubscription>>::NEW, Home::Node(0));
        M::run(&Plan::threads(2), &|thread| {
            until(if thread == 0 { FIRST } else { SECOND });
            let section = || {
                lock.acquire();
                // SAFETY: acquired above.
                unsafe { lock.release() };
            };
            if thread == 1 {
                return section();
            }
            let aborted = attempt(|| {
                section();
                until(END);
            });
            assert_eq!(aborted, Some(Abort::CONFLICT));
            assert!(M::now() < END, "when the lock was acquired");
        });
    });
    assert_eq!(report.transactions.begun, 1, "an inner one is part of the outer one");
}

/// A thread that has elided a lock does not get it a second time: two guards of one value would be unsound.
#[test]
fn a_lock_that_is_elided_is_held() {
    fn is_held<P: Policy<M>>() {
        let (_, report) = run(&with(&[]), || {
            let mutex = Placed::<_, M>::new(ElidedMutex::<u32, Tas<M>, P, M>::new(0), Home::Node(0));
            let rw = Placed::<_, M>::new(ElidedRwLock::<u32, Rw<M>, P, M>::new(0), Home::Node(0));
            M::run(&Plan::threads(2), &|_| {
                for _ in 0..5 {
                    let mut held = mutex.lock();
                    assert!(mutex.try_lock().is_none());
                    assert!(mutex.try_lock_for(Duration::from_micros(1)).is_none());
                    *held += 1;
                }
                for _ in 0..5 {
                    let mut written = rw.write();
                    assert!(rw.try_read().is_none() && rw.try_write().is_none());
                    assert!(rw.try_read_for(Duration::from_micros(1)).is_none());
                    *written += 1;
                }
                drop(mutex.lock()); // one that is left alone is elided
            });
            assert_eq!((*mutex.lock(), *rw.read()), (10, 10));
        });
        assert!(report.transactions.aborted_by(Cause::Explicit) > 0, "{:?}", report.transactions);
    }
    is_held::<RetryThenSkip<M>>();
    is_held::<RetryWhenFree>();
    is_held::<RetryOneByOne<M>>();
    is_held::<RetryLessOften<M>>();
}

/// Whatever the policy waits for, a wait with a deadline ends at it.
#[test]
fn a_policy_that_waits_does_not_outlast_a_deadline() {
    fn gives_up<P: Policy<M>>() {
        run(&with(&[]), || {
            let lock = Placed::<_, M>::new(locks::Elided::<Rw<M>, P>::NEW, Home::Node(0));
            M::run(&Plan::threads(3), &|thread| {
                if thread == 0 {
                    lock.acquire();
                    if M::in_transaction() {
                        M::abort_transaction::<NESTED>(); // so that it holds the lock itself
                    }
                    until(END);
                    // SAFETY: acquired above.
                    return unsafe { lock.release() };
                }
                until(FIRST);
                let timeout = Timeout::at(Deadline::after::<M>(Duration::from_micros(10)));
                let ended = if thread == 1 {
                    lock.acquire_or(timeout)
                } else {
                    lock.acquire_shared_or(false, timeout)
                };
                assert!(ended.is_err() && M::now() < END, "{} of {END}", M::now());
            });
        });
    }
    gives_up::<RetryWhenFree>();
    gives_up::<RetryOneByOne<M>>();
    gives_up::<RetryLessOften<M>>();
}

/// A reader may hold the lock already, or be waited for by one that does: it waits for no transaction to be possible.
#[test]
fn a_policy_that_waits_keeps_no_reader_out() {
    fn enter<P: Policy<M>>() {
        run(&with(&[]), || {
            let lock = Placed::<_, M>::new(locks::Elided::<Rw<M>, P>::NEW, Home::Node(0));
            let inside = Placed::<_, M>::new(U32::ZERO, Home::Node(0));
            let read = |again| {
                lock.acquire_shared(again);
                if M::in_transaction() {
                    M::abort_transaction::<NESTED>(); // so that it holds the lock itself
                }
            };
            M::run(&Plan::threads(2), &|_| {
                read(false);
                inside.fetch_add(1, Relaxed);
                M::spin_until(&*inside, Relaxed, |inside| inside == 2);
                read(true);
                // SAFETY: acquired twice above.
                unsafe {
                    lock.release_shared();
                    lock.release_shared();
                }
            });
        });
    }
    enter::<RetryThenSkip<M>>();
    enter::<RetryWhenFree>();
    enter::<RetryOneByOne<M>>();
    enter::<RetryLessOften<M>>();
}

/// glibc's policy with a counter beside the lock that is written at each acquisition, whether it has to change or not.
struct AlwaysWrites(RetryThenSkip<M>, U32);

impl Policy<M> for AlwaysWrites {
    const NEW: Self = Self(<RetryThenSkip<M> as Policy<M>>::NEW, U32::ZERO);

    fn tries(&self) -> bool {
        self.1.store(0, Relaxed);
        self.0.tries()
    }

    fn next(&self, aborts: u32, abort: Abort) -> Next {
        self.0.next(aborts, abort)
    }
}

/// An elided lock with a counter, on a line of its own, that is written in each section.
struct Counting(Elided<RetryThenSkip<M>>, OwnLine);

#[repr(align(64))]
struct OwnLine(U32);

// SAFETY: that of the lock.
unsafe impl RawLock<M> for Counting {
    const NEW: Self = Self(Elided::NEW, OwnLine(U32::ZERO));

    fn acquire(&self) {
        self.0.acquire();
        self.1.0.store(0, Relaxed);
    }

    unsafe fn release(&self) {
        // SAFETY: the caller's.
        unsafe { self.0.release() };
    }
}

const EIGHT: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

#[test]
fn a_policy_that_writes_without_need_costs_what_eliding_gains() {
    fn operations<L: RawLock<M>>() -> u64 {
        let load = Load { threads: EIGHT.len(), cores: &EIGHT, duration_ns: 200_000, ..Load::default() };
        let section = Section { work_cycles: 200, think_cycles: 100, lines: 0, ..Section::EMPTY };
        run(&with(&[]), || section::run::<M, L>(&section, &load)).0.operations()
    }
    let writes_seldom = operations::<Elided<RetryThenSkip<M>>>();
    for (what, writes) in [
        ("beside the lock", operations::<Elided<AlwaysWrites>>()),
        ("in the transaction", operations::<Counting>()),
    ] {
        assert!(writes_seldom > 3 * writes, "{writes_seldom}, and {writes} where it writes {what}");
    }
}

#[test]
fn who_tries_again_one_by_one_aborts_nobody_who_elides() {
    let load = Load { threads: EIGHT.len(), cores: &EIGHT, duration_ns: 200_000, ..Load::default() };
    let counters = |run_counters: fn(&Load<'_>, u32) -> machine::Run| {
        let (run, report) = run(&with(&[]), || run_counters(&load, 10));
        (run.operations(), report.transactions)
    };
    let (acquired, _) = counters(transactional::run_counters::<M, Ticket<M>>);
    let (elided, counts) = counters(transactional::run_counters::<M, Elided<RetryOneByOne<M>>>);
    // One section in ten conflicts with another such one. With the second lock on the lock's line nearly all do.
    assert!(counts.all_aborted() < counts.begun / 4, "{counts:?}");
    assert!(counts.fallbacks < counts.committed / 100, "{counts:?}");
    let (_, of_lemmings) = counters(transactional::run_counters::<M, Elided<RetryThenSkip<M>>>);
    assert!(
        of_lemmings.fallbacks > of_lemmings.committed,
        "who aborts acquires, and all follow: {of_lemmings:?}"
    );
    assert!(elided > 2 * acquired, "{elided}, and {acquired} with the lock");
}
