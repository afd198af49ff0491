//! The hardware machine: words, ways of waiting, nodes, runs.

use contend_machine as machine;
use machine::{
    Clock, Deadline, GaveUp, Home, Integer, Machine, Native, Node, Ordering::*, Part, Patient, Placed,
    PlainCell, Plan, Poll, Slept, Timeout, Which, Word,
};

struct TestNode<M: Machine>(M::U64);
// SAFETY: one word.
unsafe impl<M: Machine> Node<M> for TestNode<M> {}

#[test]
fn parts_of_a_word_are_stored_alone() {
    let word = <Native as Machine>::U64::ZERO;
    word.store(0x1111_2222_3333_4444, Relaxed);
    word.store_part(Part::Byte(1), 0xab, Release);
    word.store_part(Part::Half(3), 0xcdef, Relaxed);
    assert_eq!(word.load(Relaxed), 0xcdef_2222_3333_ab44);
}

#[test]
#[should_panic(expected = "outside the word")]
fn a_part_outside_the_word_is_refused() {
    let word = <Native as Machine>::U32::ZERO;
    word.store_part(Part::Half(2), 1, Release);
}

/// A wait that is already over does not look at its timeout.
fn waits_that_hold_at_once_succeed<M: Machine>() {
    let past = Timeout::<M>::at(Deadline { clock: Clock::Monotonic, at_ns: 0 });
    let word = M::U32::ZERO;
    assert_eq!(M::spin_until_or(&word, Acquire, past, |value| value == 0), Ok(0));
    assert_eq!(M::spin_rmw_or(&word, past, |word| word.swap(1, Acquire) == 0), Ok(()));
    assert_eq!(M::poll_or(&word, Acquire, past, |_| Poll::Ready), Ok(1));
}

fn waits_give_up_at_their_limit<M: Machine>() {
    let soon = || Timeout::<M>::at(Deadline::after_ns::<M>(3_000_000));
    let word = M::U32::ZERO;
    assert_eq!(M::spin_until_or(&word, Acquire, soon(), |value| value == 1), Err(GaveUp));
    assert_eq!(M::spin_rmw_or(&word, soon(), |_| false), Err(GaveUp));
    assert_eq!(M::poll_or(&word, Acquire, soon(), |_| Poll::BackOff(100)), Err(GaveUp));
    let other = M::U64::ZERO;
    let both = M::spin_until_any_or((&word, Acquire, |v| v == 1), (&other, Acquire, |v| v == 1), soon());
    assert_eq!(both, Err(GaveUp));
    assert_eq!(M::sleep_while(&word, 0, soon()), Slept::GaveUp);
    if !cfg!(miri) {
        // Under Miri the time is made up, and there is no time of day.
        let realtime = Deadline { clock: Clock::Realtime, at_ns: M::clock_ns(Clock::Realtime) + 3_000_000 };
        assert_eq!(M::sleep_while(&word, 0, Timeout::at(realtime)), Slept::GaveUp);
    }

    let cancel = M::U32::ZERO;
    cancel.store(1, Relaxed);
    assert_eq!(
        M::spin_until_or(&word, Acquire, Timeout::cancelled_by(&cancel), |value| value == 1),
        Err(GaveUp)
    );
    assert_eq!(M::sleep_while(&word, 0, Timeout::cancelled_by(&cancel)), Slept::GaveUp);
}

/// One thread waits in every way for what the other writes, with more pairs than cores.
fn writes_end_waits<M: Machine>() {
    const ROUNDS: u32 = if cfg!(miri) { 8 } else { 200 };
    let pairs = (0..if cfg!(miri) { 2 } else { 6 })
        .map(|_| (M::U32::ZERO, M::U32::ZERO, M::Cell::<u64>::ZERO))
        .collect::<Vec<_>>();
    M::run(&Plan::threads(2 * pairs.len()), &|thread| {
        let (there, back, data) = &pairs[thread / 2];
        for round in 1..=ROUNDS {
            if thread % 2 == 0 {
                data.set(u64::from(round));
                there.store(round, Release);
                M::wake(there, 1);
                match round % 2 {
                    0 => drop(M::spin_until(back, Acquire, |value| value == round)),
                    _ => M::spin_rmw(back, |back| back.fetch_add(0, AcqRel) == round),
                }
            } else {
                match round % 4 {
                    0 => drop(M::spin_until(there, Acquire, |value| value == round)),
                    1 => drop(M::poll(there, Acquire, |v| {
                        if v == round { Poll::Ready } else { Poll::BackOff(500) }
                    })),
                    2 => {
                        let never = M::U64::ZERO;
                        let first = (&never, Relaxed, |value| value == 1);
                        let which = M::spin_until_any(first, (there, Acquire, |value| value == round));
                        assert_eq!(which, Which::Second(round));
                    }
                    _ => {
                        while there.load(Acquire) != round {
                            M::sleep_while(there, round - 1, Timeout::NONE);
                        }
                    }
                }
                assert_eq!(data.get(), u64::from(round));
                back.store(round, Release);
            }
        }
    });
}

fn nodes_are_distinct_named_and_reused<M: Machine>() {
    let many = M::NAMED_NODES as usize + 3;
    let taken = (0..many).map(|_| M::allocate_node::<TestNode<M>>()).collect::<Vec<_>>();
    let mut addresses =
        taken.iter().map(|taken| core::ptr::from_ref(taken.node) as usize).collect::<Vec<_>>();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), many);
    assert_eq!(taken.iter().filter(|taken| taken.name.is_some()).count(), M::NAMED_NODES as usize);
    for one in &taken {
        if let Some(name) = one.name {
            // SAFETY: the name of a node taken above.
            assert!(core::ptr::eq(unsafe { M::named_node::<TestNode<M>>(name) }, one.node));
            assert_eq!(name / M::NAMED_NODES, M::thread());
        }
    }
    let first = taken[0].node;
    // Another thread may free a node.
    M::run(&Plan::threads(1), &|_| {
        // SAFETY: taken above, and used no more.
        taken.iter().for_each(|taken| unsafe { M::free_node(taken.node) });
    });
    assert!(core::ptr::eq(M::allocate_node::<TestNode<M>>().node, first));
    // SAFETY: taken above.
    unsafe { M::free_node(first) };
}

fn numbers_of_ended_threads_are_used_again<M: Machine>() {
    let mut highest = 0;
    for _ in 0..50 {
        let numbers = std::sync::Mutex::new(Vec::new());
        M::run(&Plan::threads(8), &|_| {
            numbers.lock().unwrap().push(M::thread());
        });
        highest = highest.max(numbers.into_inner().unwrap().into_iter().max().unwrap());
    }
    assert!(highest < 400, "thread numbers grow without bound: {highest}");
}

#[test]
fn native_waits() {
    waits_that_hold_at_once_succeed::<Native>();
    waits_give_up_at_their_limit::<Native>();
}

#[test]
fn patient_waits() {
    waits_that_hold_at_once_succeed::<Patient>();
    waits_give_up_at_their_limit::<Patient>();
    writes_end_waits::<Patient>();
}

#[test]
fn nodes_and_thread_numbers() {
    nodes_are_distinct_named_and_reused::<Native>();
    nodes_are_distinct_named_and_reused::<Patient>();
    if !cfg!(miri) {
        // Miri does not tell which threads have ended.
        numbers_of_ended_threads_are_used_again::<Native>();
    }
}

#[test]
fn memory_can_be_placed() {
    let near = Placed::<_, Native>::new(<Native as Machine>::U64::ZERO, Home::FirstTouch);
    let on_node = Placed::<_, Native>::new(<Native as Machine>::U64::ZERO, Home::Node(0));
    near.store(1, Relaxed);
    on_node.store(2, Relaxed);
    assert_eq!(near.load(Relaxed) + on_node.load(Relaxed), 3);
    assert_eq!(core::ptr::from_ref(&*near) as usize % machine::LINE_BYTES, 0);
}

#[test]
fn a_run_counts_events_and_stops_after_its_duration() {
    let plan = Plan::on(&[0, 1]).lasting(5_000_000);
    let run = Native::run(&plan, &|_| {
        // At least once: on a machine that is busy the run may be over before a thread starts.
        loop {
            Native::delay(1000);
            Native::note(machine::Event::Operation);
            if !Native::running() {
                break;
            }
        }
    });
    assert_eq!(run.counts.len(), 2);
    assert!(run.operations() > 0 && run.elapsed_ns >= 5_000_000);
}

#[test]
#[should_panic(expected = "thread 1 of the run panicked")]
fn a_panic_in_a_run_reaches_the_caller() {
    Native::run(&Plan::threads(2), &|thread| assert_ne!(thread, 1, "on purpose"));
}

/// Bodies may wait for each other, so that those whose threads are as planned must not run without the others.
#[test]
#[cfg_attr(miri, ignore = "Miri has no priorities")]
fn a_run_that_lacks_a_priority_runs_no_body() {
    let (ran, too_high) = (std::sync::atomic::AtomicBool::new(false), machine::HIGHEST_PRIORITY + 1);
    let plan = Plan { priorities: &[0, too_high], ..Plan::threads(2) };
    let refused = std::panic::catch_unwind(|| Native::run(&plan, &|_| ran.store(true, Relaxed)));
    let message = refused.expect_err("no thread has that priority");
    let message = message.downcast_ref::<String>().expect("a message");
    assert!(message.starts_with("thread 1 of the run may not have the real-time priority 100"), "{message}");
    assert!(!ran.into_inner());
}

/// The threads of a run borrow from its caller, so that one that cannot be started must not leave the others behind.
#[test]
#[cfg_attr(miri, ignore = "Miri starts no programs")]
fn a_run_that_lacks_a_thread_ends_those_it_has() {
    const CHILD: &str = "CONTEND_TEST_FEW_THREADS";
    if std::env::var_os(CHILD).is_none() {
        let test = std::env::current_exe().expect("a test has a path");
        let child = std::process::Command::new(test)
            .args(["--exact", "a_run_that_lacks_a_thread_ends_those_it_has", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("a test runs");
        assert!(child.status.success(), "{child:?}");
        return;
    }
    let few = libc::rlimit { rlim_cur: 1 << 30, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: reads what it is given.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const few) }, 0);
    let alive = || std::fs::read_dir("/proc/self/task").expect("Linux lists threads").count();
    let before = alive();
    let bodies = std::sync::atomic::AtomicU32::new(0);
    let run = std::panic::catch_unwind(|| {
        Native::run(&Plan::threads(2_000), &|_| {
            bodies.fetch_add(1, Relaxed);
        })
    });
    let said = run.expect_err("a gigabyte has no space for so many stacks");
    let said = said.downcast_ref::<String>().expect("a message");
    assert!(said.starts_with("cannot start thread "), "{said}");
    assert_eq!(bodies.into_inner(), 0);
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while alive() > before {
        assert!(std::time::Instant::now() < patience, "threads were left behind");
        std::thread::yield_now(); // one that has been joined may still be on its way out
    }
}
