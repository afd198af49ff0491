//! Locks with one mistake each, which the checker finds; next to each the same lock without the mistake, which it
//! verifies.

use crate::common::violation;
use contend_checker::{Checked, Exploration, Model, Report, explore, replay};
use locks::{RawLock, RawRwLock, TimedLock, TryLock};
use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{GaveUp, Integer, Machine, Node, PlainCell, Slept, Timeout, Word};
use workloads::client::{self, Shape};

type U32 = <Checked as Machine>::U32;
type Ptr<T> = <Checked as Machine>::Ptr<T>;
type Cell<T> = <Checked as Machine>::Cell<T>;

fn exclusive<L: RawLock<Checked>>(model: Model, threads: usize, acquisitions: u32) -> Report {
    explored(model, &|| outcome(client::exclusive::<L, Checked>(Shape { threads, acquisitions })))
}

/// Explores a client. What is found runs again from its text, with the same mistake in the same last step.
fn explored(model: Model, client: &dyn Fn() -> Result<(), String>) -> Report {
    let report = explore(&Exploration::of(model), client);
    if let Some(found) = &report.counterexample {
        let trace = found.trace.to_string().parse().expect("a trace reads back what it writes");
        let again = replay(model, trace, None, client).expect("fits").counterexample.expect("wrong again");
        assert_eq!(again.violation, found.violation, "{model}: {}", found.trace);
        assert_eq!(again.rows.last(), found.rows.last(), "{model}: {}", found.trace);
    }
    report
}

fn outcome<T>(result: Result<T, client::Wrong>) -> Result<(), String> {
    result.map(drop).map_err(|wrong| wrong.to_string())
}

/// A ticket lock whose release, with `RELAXED`, publishes nothing.
struct Ticket<const RELAXED: bool> {
    next: U32,
    serving: U32,
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const RELAXED: bool> RawLock<Checked> for Ticket<RELAXED> {
    const NEW: Self = Self { next: U32::ZERO, serving: U32::ZERO };

    fn acquire(&self) {
        let mine = self.next.fetch_add(1, Relaxed);
        Checked::spin_until(&self.serving, Acquire, |serving| serving == mine);
    }

    unsafe fn release(&self) {
        let served = self.serving.load(Relaxed);
        self.serving.store(served + 1, if RELAXED { Relaxed } else { Release });
    }
}

#[test]
fn a_ticket_lock_with_a_relaxed_unlock_is_a_race() {
    assert!(exclusive::<Ticket<false>>(Model::Ra, 2, 2).is_verified());
    let report = exclusive::<Ticket<true>>(Model::Ra, 2, 1);
    assert_eq!(violation(&report).name(), "data race");
    assert!(exclusive::<Ticket<true>>(Model::Tso, 2, 2).is_verified(), "x86 stores release anyway");
    assert_eq!(violation(&exclusive::<Ticket<true>>(Model::Pso, 2, 1)).name(), "data race");
}

#[test]
fn a_counterexample_can_be_run_again() {
    let found = exclusive::<Ticket<true>>(Model::Ra, 2, 1).counterexample.expect("a race");
    let trace = found.trace.to_string().parse().expect("a trace reads back what it writes");
    let client =
        || outcome(client::exclusive::<Ticket<true>, Checked>(Shape { threads: 2, acquisitions: 1 }));
    let again = replay(Model::Ra, trace, None, &client).expect("fits").counterexample.expect("the same race");
    assert_eq!(again.violation, found.violation);
    assert_eq!(again.trace, found.trace);
    let table = found.to_string();
    assert!(table.contains("thread 0") && table.contains("seeded_bugs.rs"), "{table}");
}

#[repr(C)]
struct QueueNode {
    next: Ptr<QueueNode>,
    waiting: U32,
}

// SAFETY: zero bits are valid, at most a line, nothing to drop, words of the machine only.
unsafe impl Node<Checked> for QueueNode {}

/// MCS. With `EARLY` the releaser reads its link once, before it tries to free the lock, and believes it.
struct Mcs<const EARLY: bool> {
    tail: Ptr<QueueNode>,
    holder: Cell<*mut QueueNode>,
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const EARLY: bool> RawLock<Checked> for Mcs<EARLY> {
    const NEW: Self = Self { tail: Ptr::ZERO, holder: Cell::ZERO };

    fn acquire(&self) {
        let node = Checked::allocate_node::<QueueNode>().node;
        node.next.store(std::ptr::null_mut(), Relaxed);
        node.waiting.store(1, Relaxed);
        let own = std::ptr::from_ref(node).cast_mut();
        let predecessor = self.tail.swap(own, AcqRel);
        // SAFETY: null or a node of the machine's memory.
        if let Some(predecessor) = unsafe { predecessor.as_ref() } {
            predecessor.next.store(own, Release);
            Checked::spin_until(&node.waiting, Acquire, |waiting| waiting == 0);
        }
        self.holder.set(own);
    }

    unsafe fn release(&self) {
        let own = self.holder.get();
        // SAFETY: the holder's node.
        let node = unsafe { &*own };
        let mut successor = node.next.load(Acquire);
        if successor.is_null() {
            let freed = self.tail.compare_exchange(own, std::ptr::null_mut(), Release, Relaxed).is_ok();
            if freed || EARLY {
                // SAFETY: no longer the lock's, or so this lock believes.
                return unsafe { Checked::free_node(node) };
            }
            successor = Checked::spin_until(&node.next, Acquire, |next| !next.is_null());
        }
        // SAFETY: a linked successor waits on its node.
        unsafe { &*successor }.waiting.store(0, Release);
        // SAFETY: no longer the lock's, or so this lock believes.
        unsafe { Checked::free_node(node) };
    }
}

#[test]
fn mcs_that_reads_its_successor_too_early_waits_for_ever_or_touches_a_node_that_was_freed() {
    for model in Model::ALL {
        assert!(exclusive::<Mcs<false>>(model, 2, 2).is_verified(), "{model}");
        let report = exclusive::<Mcs<true>>(model, 2, 1);
        let name = violation(&report).name();
        assert!(["endless wait", "node used after its return"].contains(&name), "{model}: {name}");
    }
}

#[repr(C)]
struct ClhNode {
    held: U32,
    /// Address of the predecessor's node.
    previous: Cell<usize>,
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl Node<Checked> for ClhNode {}

/// CLH. With `REUSES` a thread frees its own node at the release, instead of its predecessor's.
struct Clh<const REUSES: bool> {
    tail: Ptr<ClhNode>,
    holder: Cell<*mut ClhNode>,
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const REUSES: bool> RawLock<Checked> for Clh<REUSES> {
    const NEW: Self = Self { tail: Ptr::ZERO, holder: Cell::ZERO };

    fn acquire(&self) {
        let node = Checked::allocate_node::<ClhNode>().node;
        node.held.store(1, Relaxed);
        let own = std::ptr::from_ref(node).cast_mut();
        let predecessor = self.tail.swap(own, AcqRel);
        // SAFETY: null or a node of the machine's memory.
        if let Some(before) = unsafe { predecessor.as_ref() } {
            Checked::spin_until(&before.held, Acquire, |held| held == 0);
        }
        node.previous.set(predecessor.expose_provenance());
        self.holder.set(own);
    }

    unsafe fn release(&self) {
        // SAFETY: the holder's node.
        let node = unsafe { &*self.holder.get() };
        // SAFETY: null or the predecessor's node, which this thread owns by now.
        let previous = unsafe { std::ptr::with_exposed_provenance::<ClhNode>(node.previous.get()).as_ref() };
        node.held.store(0, Release);
        match previous {
            // SAFETY: no longer the lock's, or so this lock believes.
            _ if REUSES => unsafe { Checked::free_node(node) },
            // SAFETY: released by its owner, whose one successor this is.
            Some(previous) => unsafe { Checked::free_node(previous) },
            None => {}
        }
    }
}

#[test]
fn clh_that_reuses_its_own_node_is_found() {
    for model in Model::ALL {
        assert!(exclusive::<Clh<false>>(model, 2, 2).is_verified(), "{model}");
        let report = exclusive::<Clh<true>>(model, 2, 2);
        // Its owner may meet the node again as its own predecessor, or another thread may still watch it.
        let name = violation(&report).name();
        assert!(["endless wait", "node used after its return"].contains(&name), "{model}: {name}");
    }
}

/// A mutex that sleeps: 0 free, 1 held, 2 held with sleepers. With `FORGETS` a thread that has slept takes the lock
/// as if no other thread slept, so that the second wake-up is never sent.
struct FutexMutex<const FORGETS: bool> {
    word: U32,
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const FORGETS: bool> RawLock<Checked> for FutexMutex<FORGETS> {
    const NEW: Self = Self { word: U32::ZERO };

    fn acquire(&self) {
        if self.word.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
            return;
        }
        let mut slept = false;
        loop {
            let mark = if FORGETS && slept { 1 } else { 2 };
            if slept && FORGETS {
                if self.word.compare_exchange(0, mark, Acquire, Relaxed).is_ok() {
                    return;
                }
            } else if self.word.swap(mark, Acquire) == 0 {
                return;
            }
            Checked::sleep_while(&self.word, 2, Timeout::NONE);
            slept = true;
        }
    }

    unsafe fn release(&self) {
        if self.word.swap(0, Release) == 2 {
            Checked::wake(&raw const self.word, 1);
        }
    }
}

#[test]
fn a_futex_mutex_that_forgets_the_second_wake_up_is_found() {
    for model in Model::ALL {
        assert!(exclusive::<FutexMutex<false>>(model, 3, 1).is_verified(), "{model}");
        let report = exclusive::<FutexMutex<true>>(model, 3, 1);
        assert_eq!(violation(&report).name(), "endless wait", "{model}");
    }
}

/// A reader-writer lock that counts its readers in so few bits that `READERS_END` of them overflow into the writer's
/// bit, and those then look like no reader at all.
struct Counting<const READERS_END: u32> {
    word: U32,
}

const WRITER: u32 = 1 << 16;

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const READERS_END: u32> RawLock<Checked> for Counting<READERS_END> {
    const NEW: Self = Self { word: U32::ZERO };

    fn acquire(&self) {
        Checked::spin_rmw(&self.word, |word| word.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok());
    }

    unsafe fn release(&self) {
        self.word.store(0, Release);
    }
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const READERS_END: u32> TryLock<Checked> for Counting<READERS_END> {
    fn try_acquire(&self) -> bool {
        self.word.compare_exchange(0, WRITER, Acquire, Relaxed).is_ok()
    }
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const READERS_END: u32> RawRwLock<Checked> for Counting<READERS_END> {
    fn acquire_shared(&self, _reads_already: bool) {
        loop {
            let now = Checked::spin_until(&self.word, Relaxed, |word| word & WRITER == 0);
            let more = (now + 1) % READERS_END; // the mistake, if that many readers come
            if self.word.compare_exchange(now, more, Acquire, Relaxed).is_ok() {
                return;
            }
        }
    }

    fn try_acquire_shared(&self, _reads_already: bool) -> bool {
        false
    }

    unsafe fn release_shared(&self) {
        self.word.fetch_sub(1, Release);
    }

    fn is_exclusive(&self) -> bool {
        self.word.load(Relaxed) & WRITER != 0
    }
}

#[test]
fn a_reader_count_that_overflows_is_found() {
    fn shared<L: RawRwLock<Checked>>(model: Model) -> Report {
        let shape = Shape { threads: 2, acquisitions: 1 };
        explored(model, &|| outcome(client::shared::<L, Checked>(shape)))
    }
    for model in Model::ALL {
        assert!(shared::<Counting<16>>(model).is_verified(), "{model}");
        let report = shared::<Counting<2>>(model);
        assert!(report.counterexample.is_some(), "{model}: two nested reads of one thread look like none");
    }
}

/// Threads of the clients of [`HandedOver`].
const PLACES: usize = 3;

const READS: u32 = 1;
const WRITES: u32 = 2;

/// A reader-writer lock whose release lets in who waits: all readers together, or else a writer. With `TWICE` it counts one
/// reader too many; with `TO_LEAVERS` it also hands over to a writer that has given up.
struct HandedOver<const TWICE: bool, const TO_LEAVERS: bool> {
    /// Guards what follows.
    guard: U32,
    has_writer: Cell<u32>,
    readers: Cell<u32>,
    /// What each thread waits for.
    wants: [Cell<u32>; PLACES],
    let_in: [U32; PLACES],
}

impl<const TWICE: bool, const TO_LEAVERS: bool> HandedOver<TWICE, TO_LEAVERS> {
    fn guarded<T>(&self, body: impl FnOnce() -> T) -> T {
        Checked::spin_rmw(&self.guard, |guard| guard.swap(1, Acquire) == 0);
        let result = body();
        self.guard.store(0, Release);
        result
    }

    fn takes(&self, wanted: u32, passes_waiters: bool) -> bool {
        let waits = !passes_waiters && self.wants.iter().any(|wants| wants.get() != 0);
        if waits || self.has_writer.get() != 0 || wanted == WRITES && self.readers.get() != 0 {
            return false;
        }
        let held = if wanted == WRITES { &self.has_writer } else { &self.readers };
        held.set(held.get() + 1);
        true
    }

    fn acquire_as(
        &self,
        wanted: u32,
        passes_waiters: bool,
        timeout: Timeout<'_, Checked>,
    ) -> Result<(), GaveUp> {
        let me = Checked::thread() as usize % PLACES; // the client's own thread finds the lock free
        let is_in = self.guarded(|| {
            let is_in = self.takes(wanted, passes_waiters);
            if !is_in {
                self.wants[me].set(wanted);
                self.let_in[me].store(0, Relaxed);
            }
            is_in
        });
        if is_in {
            return Ok(());
        }
        while self.let_in[me].load(Acquire) == 0 {
            if Checked::sleep_while(&self.let_in[me], 0, timeout) == Slept::GaveUp {
                let leaves = self.guarded(|| {
                    let leaves = self.wants[me].get() != 0;
                    if !(TO_LEAVERS && wanted == WRITES) {
                        self.wants[me].set(0);
                    }
                    leaves
                });
                if leaves {
                    return Err(GaveUp);
                }
                Checked::spin_until(&self.let_in[me], Acquire, |let_in| let_in == 1); // it is on its way
            }
        }
        Ok(())
    }

    fn leave(&self, held: &Cell<u32>) {
        let told = self.guarded(|| {
            held.set(held.get() - 1);
            let mut told = Vec::new();
            for wanted in [READS, WRITES] {
                let asked = self.wants.iter().enumerate().filter(|(_, wants)| wants.get() == wanted);
                let most = if wanted == READS { PLACES } else { 1 };
                for (place, wants) in asked.take(most) {
                    if self.takes(wanted, true) {
                        wants.set(0);
                        told.push(place);
                    }
                }
            }
            if TWICE && self.has_writer.get() == 0 && told.len() > 1 {
                self.readers.set(self.readers.get() + 1);
            }
            told
        });
        for place in told {
            self.let_in[place].store(1, Release);
            Checked::wake(&raw const self.let_in[place], 1);
        }
    }
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const TWICE: bool, const TO_LEAVERS: bool> RawLock<Checked> for HandedOver<TWICE, TO_LEAVERS> {
    const NEW: Self = Self {
        guard: U32::ZERO,
        has_writer: Cell::ZERO,
        readers: Cell::ZERO,
        wants: [const { Cell::ZERO }; PLACES],
        let_in: [const { U32::ZERO }; PLACES],
    };

    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_as(WRITES, false, Timeout::NONE);
    }

    unsafe fn release(&self) {
        self.leave(&self.has_writer);
    }
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const TWICE: bool, const TO_LEAVERS: bool> TryLock<Checked> for HandedOver<TWICE, TO_LEAVERS> {
    fn try_acquire(&self) -> bool {
        self.guarded(|| self.takes(WRITES, false))
    }
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const TWICE: bool, const TO_LEAVERS: bool> TimedLock<Checked> for HandedOver<TWICE, TO_LEAVERS> {
    fn acquire_or(&self, timeout: Timeout<'_, Checked>) -> Result<(), GaveUp> {
        self.acquire_as(WRITES, false, timeout)
    }
}

// SAFETY: wrong on purpose; only clients use it, which hand out no reference.
unsafe impl<const TWICE: bool, const TO_LEAVERS: bool> RawRwLock<Checked> for HandedOver<TWICE, TO_LEAVERS> {
    fn acquire_shared(&self, reads_already: bool) {
        let _: Result<(), GaveUp> = self.acquire_as(READS, reads_already, Timeout::NONE);
    }

    fn try_acquire_shared(&self, reads_already: bool) -> bool {
        self.guarded(|| self.takes(READS, reads_already))
    }

    unsafe fn release_shared(&self) {
        self.leave(&self.readers);
    }

    fn is_exclusive(&self) -> bool {
        self.guarded(|| self.has_writer.get() != 0)
    }
}

#[test]
fn a_reader_counted_twice_by_the_wake_up_of_all_is_found() {
    fn shared<L: RawRwLock<Checked>>(model: Model) -> Report {
        let shape = Shape { threads: 3, acquisitions: 1 };
        explored(model, &|| outcome(client::shared::<L, Checked>(shape)))
    }
    assert!(shared::<HandedOver<false, false>>(Model::Sc).is_verified());
    for model in Model::ALL {
        let report = shared::<HandedOver<true, false>>(model);
        // One that is left behind sleeps for ever, or the client does that looks whether the lock is free at the end.
        let name = violation(&report).name();
        assert!(["endless wait", "panic"].contains(&name), "{model}: {name}");
    }
}

#[test]
fn a_hand_off_to_a_writer_that_timed_out_is_found() {
    fn timed<L: TimedLock<Checked>>(model: Model) -> Report {
        let shape = Shape { threads: 2, acquisitions: 1 };
        explored(model, &|| outcome(client::timed::<L, Checked>(shape)))
    }
    for model in Model::ALL {
        assert!(timed::<HandedOver<false, false>>(model).is_verified(), "{model}");
        assert!(timed::<HandedOver<false, true>>(model).counterexample.is_some(), "{model}");
    }
}
