//! Single waits: which are kept, what is told of each, and the trace that is made of them.

mod support;

use contend_profile::Options;
use contend_profile::format::{PAGE, Type, WAIT_LENGTH, head};
use contend_profile::read::{Profile, Timeline, to_trace};
use contend_profile::record::{Call, Mode, PerThread, Trace};
use pthread::object::ObjectKind;
use serde_json::Value;
use std::sync::atomic::Ordering::Relaxed;
use support::trace::{check, flows, spans, times_ns, track};
use support::{File, NOW, STACK, TID, pass};

const MIB: u64 = 1 << 20;

/// From which on a hold is remembered though its thread has never waited; ns, each of which is a tick here.
const LONG: u64 = 10_000;

/// A thread with its number, and the call by which it takes locks.
struct Thread {
    own: PerThread,
    tid: u32,
    caller: usize,
}

impl Thread {
    fn new(tid: u32) -> Self {
        Self { own: PerThread::new(), tid, caller: 0x10_0000 + 0x100 * tid as usize }
    }

    fn acquires(&self, file: &File, lock: &Lock, waits_since: Option<u64>) {
        TID.set(self.tid);
        STACK.set(vec![self.caller as u64, 0x20_0000, 0x30_0000]);
        let call = Call::new(lock.address, self.caller);
        file.recorder.acquired(&self.own, &lock.trace, ObjectKind::Mutex, Mode::Exclusive, call, waits_since);
    }

    fn releases(&self, file: &File, lock: &Lock) {
        file.recorder.releasing(&self.own, &lock.trace, Mode::Exclusive);
    }
}

struct Lock {
    trace: Trace,
    address: usize,
}

impl Lock {
    fn new(address: usize) -> Self {
        Self { trace: Trace::new(), address }
    }
}

fn timeline(file: &File) -> Timeline {
    if let Some(process) = file.recorder.process() {
        process.clock_last_ticks.store(NOW.get(), Relaxed);
        process.clock_last_ns.store(NOW.get(), Relaxed);
    }
    let profile = Profile::parse("test", &file.bytes()).unwrap();
    profile.timeline(&profile.table(&Options::default()), true)
}

fn trace(file: &File) -> Value {
    let trace = to_trace(&timeline(file));
    check(&trace);
    trace
}

/// `waiter` waits so long for a hold of `holder` that it finds half over.
fn waits_behind(file: &File, lock: &Lock, waiter: &Thread, holder: &Thread, ticks: u64) {
    holder.acquires(file, lock, None);
    pass(ticks);
    let since = NOW.get();
    pass(ticks);
    holder.releases(file, lock);
    waiter.acquires(file, lock, Some(since));
    pass(1);
    waiter.releases(file, lock);
}

#[test]
fn a_wait_is_drawn_with_the_hold_that_it_was_for() {
    let file = File::keeping(MIB, 100);
    let maps = b"100000-400000 r-xp 00000000 08:01 1 /nowhere/lib.so\n";
    file.recorder.append(Type::Mappings, &[maps]);
    let start = NOW.get();
    let (a, b, lock) = (Thread::new(11), Thread::new(12), Lock::new(0x1000));
    waits_behind(&file, &lock, &b, &a, LONG);
    let trace = trace(&file);
    let [wait] = spans(&trace, "wait")[..] else { panic!("one wait: {trace:#}") };
    let [hold] = spans(&trace, "hold")[..] else { panic!("one hold: {trace:#}") };
    assert_eq!((track(wait), track(hold)), ((77, 12), (77, 11)));
    assert_eq!(times_ns(wait), (NOW.get() - start - LONG - 1, NOW.get() - start - 1));
    assert_eq!(times_ns(hold), (NOW.get() - start - 2 * LONG - 1, NOW.get() - start - 1));
    assert_eq!(flows(&trace), [(hold, wait)]);
    let arguments = &wait["args"];
    assert_eq!((&arguments["waited_ns"], &arguments["mode"]), (&LONG.into(), &"exclusive".into()));
    assert_eq!(arguments["behind"]["held_ns"], 2 * LONG);
    assert_eq!(arguments["behind"]["thread"], "worker 11");
    for (stack, thread) in [(&arguments["stack"], &b), (&arguments["behind"]["stack"], &a)] {
        let stack = stack.as_array().unwrap_or_else(|| panic!("a stack: {wait:#}"));
        let innermost = format!("lib.so+{:#x}", thread.caller - 1 - 0x10_0000);
        assert!(stack.len() == 3 && stack[0] == innermost, "{wait:#}");
    }
    assert!(wait["name"].as_str().unwrap().starts_with("wait for "), "{wait:#}");
}

/// Where several wait for a slow holder, all but the first are served by one of themselves.
#[test]
fn a_wait_is_for_the_hold_that_lasted_through_most_of_it() {
    let file = File::keeping(MIB, 100);
    let (slow, b, c, lock) = (Thread::new(11), Thread::new(12), Thread::new(13), Lock::new(0x1000));
    slow.acquires(&file, &lock, None);
    let since = NOW.get() + 10;
    pass(2 * LONG);
    slow.releases(&file, &lock);
    b.acquires(&file, &lock, Some(since));
    pass(LONG + 20);
    b.releases(&file, &lock);
    c.acquires(&file, &lock, Some(since));
    let trace = trace(&file);
    let mut from: Vec<_> = flows(&trace).iter().map(|(hold, wait)| (track(hold).1, track(wait).1)).collect();
    from.sort_unstable();
    assert_eq!(from, [(11, 12), (11, 13)]);
    assert_eq!(spans(&trace, "hold").len(), 2, "that of the second is known: {trace:#}");
}

#[test]
fn a_hold_that_is_not_known_is_not_made_up() {
    let file = File::keeping(MIB, 100);
    let (a, b, lock) = (Thread::new(11), Thread::new(12), Lock::new(0x1000));
    // The holds of a thread are remembered from the first long one on.
    waits_behind(&file, &lock, &b, &a, 20);
    let trace = trace(&file);
    let [wait] = spans(&trace, "wait")[..] else { panic!("one wait: {trace:#}") };
    assert!(spans(&trace, "hold").is_empty() && flows(&trace).is_empty(), "{trace:#}");
    assert_eq!(wait["args"]["behind"]["thread"], "worker 11", "who had it is known: {trace:#}");
}

#[test]
fn the_longest_are_kept_of_more_than_there_is_space_for() {
    const MOST: u64 = 70; // more than a block holds
    let file = File::keeping(MIB, MOST);
    let (a, b, lock) = (Thread::new(11), Thread::new(12), Lock::new(0x1000));
    let lengths = (0..400).map(|i| LONG + i * 149 % 401);
    for ticks in lengths.clone() {
        waits_behind(&file, &lock, &b, &a, ticks);
    }
    let mut expected: Vec<_> = lengths.collect();
    expected.sort_unstable();
    let timeline = timeline(&file);
    let mut kept: Vec<_> = timeline.waits.iter().map(|wait| wait.end_ns - wait.begin_ns).collect();
    kept.sort_unstable();
    assert_eq!(kept, expected[expected.len() - MOST as usize..]);
    assert_eq!(timeline.missed, 0);
    assert_eq!(spans(&trace(&file), "wait").len(), MOST as usize);
}

#[test]
fn without_the_flag_nothing_is_kept() {
    let file = File::new(MIB, 1);
    waits_behind(&file, &Lock::new(0x1000), &Thread::new(11), &Thread::new(12), LONG);
    assert!(!Profile::parse("test", &file.bytes()).unwrap().keeps_waits());
    assert!(timeline(&file).waits.is_empty());
    assert_eq!(file.recorder.header().unwrap().wait_bytes.load(Relaxed), 0);
}

/// Hand over hand: the first lock is given up while the second is held.
#[test]
fn holds_that_overlap_are_on_tracks_of_their_own() {
    let file = File::keeping(MIB, 100);
    let (a, b) = (Thread::new(11), Thread::new(12));
    let (first, second) = (Lock::new(0x1000), Lock::new(0x2000));
    a.acquires(&file, &first, None);
    pass(LONG);
    a.acquires(&file, &second, None);
    let since = NOW.get();
    pass(LONG);
    a.releases(&file, &first);
    b.acquires(&file, &first, Some(since));
    b.releases(&file, &first);
    let since = NOW.get();
    pass(LONG);
    a.releases(&file, &second);
    b.acquires(&file, &second, Some(since));
    let trace = trace(&file);
    let [one, other] = spans(&trace, "hold")[..] else { panic!("two holds: {trace:#}") };
    assert_eq!(track(one).1, 11);
    assert_ne!(track(one), track(other));
    assert_eq!(flows(&trace).len(), 2);
}

#[test]
fn a_forked_child_keeps_its_own() {
    let file = File::keeping(MIB, 100);
    let (a, b, lock) = (Thread::new(11), Thread::new(12), Lock::new(0x1000));
    waits_behind(&file, &lock, &b, &a, LONG);
    let child = Thread::new(13);
    // SAFETY: this is the only thread, and the mapping stays.
    assert!(unsafe { file.recorder.start_in_child(&child.own, &support::image(78)) });
    let since = NOW.get();
    pass(2 * LONG);
    child.acquires(&file, &lock, Some(since));
    let trace = trace(&file);
    let tracks: Vec<_> = spans(&trace, "wait").into_iter().map(track).collect();
    assert_eq!(tracks, [(77, 12), (78, 13)]);
    let behind = &spans(&trace, "wait")[1]["args"]["behind"];
    assert!(behind.is_null(), "the parent's threads are not the child's: {behind}");
}

/// The launcher makes the file before it starts the program.
#[test]
fn time_begins_with_the_program() {
    let file = File::keeping(MIB, 100);
    let (a, b, lock) = (Thread::new(11), Thread::new(12), Lock::new(0x1000));
    waits_behind(&file, &lock, &b, &a, LONG);
    let of_first = timeline(&file).waits[0].begin_ns;
    file.recorder.process().expect("it records").clock_first_ticks.fetch_add(1, Relaxed);
    assert_eq!(timeline(&file).waits[0].begin_ns, of_first - 1);
}

/// Each word of a record, one after the other, is what no recorder writes.
#[test]
fn a_forged_wait_is_left_out_or_drawn_as_what_it_says() {
    let file = File::keeping(MIB, 100);
    let (a, b, lock) = (Thread::new(11), Thread::new(12), Lock::new(0x1000));
    for _ in 0..3 {
        waits_behind(&file, &lock, &b, &a, LONG);
    }
    trace(&file);
    let bytes = file.bytes();
    let record = head(Type::Wait, WAIT_LENGTH);
    let start =
        bytes[PAGE as usize..].chunks(8).position(|word| word == record.to_le_bytes()).expect("a wait");
    let start = PAGE as usize + start * 8;
    for word in 1..WAIT_LENGTH / 8 {
        for lie in [0, 1, NOW.get(), NOW.get() + 1, 1 << 22, 1 << 32, 1 << 53, u64::MAX >> 1, u64::MAX] {
            let mut forged = bytes.clone();
            forged[start + word * 8..][..8].copy_from_slice(&lie.to_le_bytes());
            let profile = Profile::parse("forged", &forged).unwrap();
            let timeline = profile.timeline(&profile.table(&Options::default()), true);
            check(&to_trace(&timeline));
            let end = timeline.waits.iter().map(|wait| wait.end_ns).max();
            assert!(end <= Some(NOW.get()), "word {word} is {lie:#x}: a wait after the end");
        }
    }
    let mut short = bytes;
    short[start..start + 8].copy_from_slice(&(record - (8 << 32)).to_le_bytes());
    let error = Profile::parse("short", &short).unwrap_err().to_string();
    assert!(error.contains("record of type 20"), "{error}");
}
