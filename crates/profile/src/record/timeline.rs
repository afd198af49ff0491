//! The longest waits one by one, for a timeline: who waited for which lock, from when to when, with which stack, and behind which hold.
//!
//! A process image keeps so many as the head of the file says. Their records lie in the file's mapping. A heap in memory of the process's
//! own has the shortest of them on top: that one's record is taken by the next wait that is longer. Once there are as many as are to be
//! kept, a wait that is no longer than the shortest costs a load and a compare.
//!
//! One thread at a time changes the table. A thread that finds another one there for long does without, and its wait is counted
//! as missed: the thread has a lock by now that others may wait for.
//!
//! A holder does not know who waits. So each thread remembers from when to when it held its locks last, as far as that is found out on
//! ways that are slow already: of holds that were long, and of holds of locks that the thread has waited for. Who has waited finds there
//! when the hold began that ended the wait.

use core::hint::spin_loop;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};

use super::locks::zeroed_once;
use super::{Host, PerThread, Recorder, Trace};
use crate::arena::Need;
use crate::format::{FRAMES, Pair, Type, WAIT_LENGTH, Wait, WaitValues, head};

/// How many of its longest waits a process image keeps at most.
pub const LONGEST_WAITS: usize = 4096;

/// Records in a block, which is 16 KiB long with them and its header.
const IN_BLOCK: usize = 63;

/// How often a thread looks whether another one has left the table.
const PATIENCE: usize = 1000;

/// What stands for the shortest wait where none is kept: no wait is longer.
const NONE: u64 = u64::MAX;

/// A wait's record, and its stack.
#[repr(C)]
struct WaitAndStack {
    record: Wait,
    stack: [AtomicU64; FRAMES],
}

const _: () = assert!(size_of::<WaitAndStack>() == WAIT_LENGTH);

/// A wait that is kept.
#[repr(C)]
struct Kept {
    ticks: AtomicU64,
    record: AtomicPtr<WaitAndStack>,
}

/// The longest waits of the process. All but `floor` is used by the thread alone that has set `taken`.
#[derive(Debug)]
pub(super) struct Longest {
    /// Ticks that a wait has to exceed to be kept.
    floor: AtomicU64,
    taken: AtomicBool,
    /// Waits that are to be kept, [`LONGEST_WAITS`] at most.
    most: AtomicU32,
    /// Waits that are kept.
    count: AtomicU32,
    /// [`LONGEST_WAITS`] places, of which the first `count` are a heap with the shortest wait on top.
    heap: AtomicPtr<Kept>,
    /// The next record that has not been used.
    fresh: AtomicPtr<WaitAndStack>,
    /// How many of these there are.
    left: AtomicU32,
}

impl Longest {
    pub(super) const fn new() -> Self {
        Self {
            floor: AtomicU64::new(NONE),
            taken: AtomicBool::new(false),
            most: AtomicU32::new(0),
            count: AtomicU32::new(0),
            heap: AtomicPtr::new(null_mut()),
            fresh: AtomicPtr::new(null_mut()),
            left: AtomicU32::new(0),
        }
    }

    /// Begins to keep so many waits, and forgets those of a parent. The calling thread is the only one.
    pub(super) fn begin(&self, most: u64) {
        let most = most.min(LONGEST_WAITS as u64) as u32;
        self.taken.store(false, Relaxed);
        self.most.store(most, Relaxed);
        self.count.store(0, Relaxed);
        self.left.store(0, Relaxed);
        self.floor.store(if most == 0 { NONE } else { 0 }, Relaxed);
    }

    /// Whether waits of so many ticks are kept.
    #[inline]
    fn keeps(&self, ticks: u64) -> bool {
        ticks > self.floor.load(Relaxed)
    }

    /// Runs `body` while no other thread changes the table; `None` if one does so for long.
    fn alone<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        for _ in 0..PATIENCE {
            if !self.taken.load(Relaxed) && !self.taken.swap(true, Ordering::Acquire) {
                let result = body();
                self.taken.store(false, Ordering::Release);
                return Some(result);
            }
            spin_loop();
        }
        None
    }

    /// The record of a wait of so many ticks: one that `fresh` gives, or else that of the shortest wait. `None` if that is not shorter.
    fn place(
        &self,
        heap: &[Kept],
        ticks: u64,
        fresh: impl FnOnce() -> Option<NonNull<WaitAndStack>>,
    ) -> Option<NonNull<WaitAndStack>> {
        let count = self.count.load(Relaxed) as usize;
        if count < self.most.load(Relaxed) as usize {
            if let Some(record) = fresh() {
                heap[count].set(ticks, record.as_ptr());
                rise(&heap[..=count]);
                self.count.store(count as u32 + 1, Relaxed);
                self.raise_floor(&heap[..=count]);
                return Some(record);
            }
            self.most.store(count as u32, Relaxed); // there is no space for more
        }
        let heap = &heap[..count];
        self.raise_floor(heap);
        let record = NonNull::new(heap.first().filter(|shortest| shortest.ticks() < ticks)?.record());
        heap[0].ticks.store(ticks, Relaxed);
        sink(heap);
        self.raise_floor(heap);
        record
    }

    /// Lets no wait in that is no longer than all of those that are kept, once there are as many as are to be kept.
    fn raise_floor(&self, heap: &[Kept]) {
        if heap.len() == self.most.load(Relaxed) as usize {
            self.floor.store(heap.first().map_or(NONE, Kept::ticks), Relaxed);
        }
    }
}

impl Kept {
    fn ticks(&self) -> u64 {
        self.ticks.load(Relaxed)
    }

    fn record(&self) -> *mut WaitAndStack {
        self.record.load(Relaxed)
    }

    fn set(&self, ticks: u64, record: *mut WaitAndStack) {
        self.ticks.store(ticks, Relaxed);
        self.record.store(record, Relaxed);
    }
}

fn exchange(a: &Kept, b: &Kept) {
    let (ticks, record) = (a.ticks(), a.record());
    a.set(b.ticks(), b.record());
    b.set(ticks, record);
}

/// Puts the last of the heap in order.
fn rise(heap: &[Kept]) {
    let mut at = heap.len() - 1;
    while at > 0 {
        let parent = (at - 1) / 2;
        if heap[parent].ticks() <= heap[at].ticks() {
            return;
        }
        exchange(&heap[parent], &heap[at]);
        at = parent;
    }
}

/// Puts the first of the heap in order.
fn sink(heap: &[Kept]) {
    let mut at = 0;
    loop {
        let below = 2 * at + 1..heap.len().min(2 * at + 3);
        let Some(shorter) = below.min_by_key(|&child| heap[child].ticks()) else { return };
        if heap[at].ticks() <= heap[shorter].ticks() {
            return;
        }
        exchange(&heap[at], &heap[shorter]);
        at = shorter;
    }
}

/// Locks of which a thread remembers when it held them last. Two of one place displace each other.
const HELD: usize = 16;

/// The bits of a stamp that fit beside a lock's number: a day at some GHz.
const STAMP: u64 = u64::MAX >> 16;

/// When a thread held its locks last, each word written by that thread alone: the lowest 48 bits of a stamp over the lowest 16 of the lock's number.
#[derive(Debug)]
pub(super) struct LastHolds {
    began: [AtomicU64; HELD],
    ended: [AtomicU64; HELD],
}

impl LastHolds {
    fn set(&self, lock: u32, began: u64, ended: u64) {
        let place = lock as usize % HELD;
        self.began[place].store(word_of(lock, began), Relaxed);
        self.ended[place].store(word_of(lock, ended), Relaxed);
    }

    /// When the hold of this lock began that ended at `ended`; `None` if that hold was not remembered.
    fn began(&self, lock: u32, ended: u64) -> Option<u64> {
        let place = lock as usize % HELD;
        let began = self.began[place].load(Relaxed);
        let known = self.ended[place].load(Relaxed) == word_of(lock, ended) && began as u16 == lock as u16;
        known.then(|| ended.wrapping_sub(ended.wrapping_sub(began >> 16) & STAMP))
    }
}

fn word_of(lock: u32, stamp: u64) -> u64 {
    stamp << 16 | u64::from(lock as u16)
}

impl<H: Host> Recorder<H> {
    /// The calling thread gives up this pair's lock, which it held from when to when, if waits are kept.
    #[cold]
    #[inline(never)]
    pub(super) fn remember_hold(&self, t: &PerThread, pair: &Pair, began: u64, ended: u64) {
        if self.longest.floor.load(Relaxed) == NONE {
            return;
        }
        if let Some(slot) = NonNull::new(t.slot.get()) {
            // SAFETY: the thread's own part, which is never freed; others read only these words of it, which are atomic.
            unsafe { &(*slot.as_ptr()).held }.set((pair.key.load(Relaxed) >> 1) as u32, began, ended);
        }
    }

    /// The caller, who has the lock now, waited for it from `began` to `ended`: that is kept if it is one of the longest waits. True if
    /// it took time.
    #[inline]
    pub(super) fn keep_wait(
        &self,
        t: &PerThread,
        trace: &Trace,
        pair: &Pair,
        began: u64,
        ended: u64,
    ) -> bool {
        let keeps = self.longest.keeps(ended.saturating_sub(began));
        if keeps {
            let kept = self.without_reentry(t, || self.put_wait(t, trace, pair, began, ended)).flatten();
            if kept.is_none()
                && let Some(process) = self.process()
            {
                process.waits_missed.fetch_add(1, Relaxed);
            }
        }
        keeps
    }

    /// `None` if the wait should have been kept, and could not be.
    #[cold]
    #[inline(never)]
    fn put_wait(&self, t: &PerThread, trace: &Trace, pair: &Pair, began: u64, ended: u64) -> Option<()> {
        let slot = NonNull::new(t.slot.get())?;
        // SAFETY: the thread's own part, which is never freed; its record lies in the mapping.
        let (tid, thread) = unsafe { (&(*slot.as_ptr()).tid, &*(*slot.as_ptr()).thread) };
        let mut frames = [0; FRAMES];
        let depth = self.host.stack(&mut frames).min(FRAMES);
        let released = Some(trace.released.load(Relaxed)).filter(|at| (began..=ended).contains(at));
        let mut wait = WaitValues {
            key: pair.key.load(Relaxed),
            thread: self.arena.position_of(thread),
            tid: u64::from(tid.load(Relaxed)),
            began,
            ended,
            released: released.unwrap_or(0),
            frames: depth as u64,
            ..WaitValues::default()
        };
        if let Some(holder) = self.last_holder(t, trace) {
            // SAFETY: a thread's record lies in the mapping, which stays.
            wait.holder = self.arena.position_of(unsafe { &*holder.thread });
            wait.holder_tid = u64::from(holder.tid.load(Relaxed));
            wait.holder_caller = holder.taken_from.get(trace.lock()).unwrap_or(0);
            wait.held_since = released.and_then(|at| holder.held.began(trace.lock(), at)).unwrap_or(0);
        }
        let heap = zeroed_once(&self.longest.heap, &self.host, LONGEST_WAITS)?;
        self.longest.alone(|| {
            let record = self.longest.place(heap, ended.saturating_sub(began), || self.fresh_wait());
            if let Some(record) = record {
                // SAFETY: one of the table, in the mapping, which stays; its words are atomic.
                unsafe { record.as_ref() }.write(&wait, &frames[..depth]);
            }
        })
    }

    /// A record that was not used so far. The caller is alone at the table.
    #[inline(never)]
    fn fresh_wait(&self) -> Option<NonNull<WaitAndStack>> {
        let Longest { fresh, left, .. } = &self.longest;
        if left.load(Relaxed) == 0 {
            let header = self.arena.header()?;
            // Of all processes an eighth of the file at most: without the other records single waits say little.
            if header.wait_bytes.load(Relaxed) > self.arena.limit() / 8 {
                return None;
            }
            let length = IN_BLOCK * WAIT_LENGTH;
            let block = self.arena.allocate(&self.host, Need::Detail, self.section_number(), 0, length)?;
            let start = block.take(length)?.cast::<WaitAndStack>();
            header.wait_bytes.fetch_add(block.length(), Relaxed);
            for number in 0..IN_BLOCK {
                // SAFETY: the block gave the space of so many records, aligned, in the mapping.
                let record = unsafe { &(*start.add(number)).record };
                record.ended.store(0, Relaxed);
                record.head.store(head(Type::Wait, WAIT_LENGTH), Ordering::Release);
            }
            fresh.store(start, Relaxed);
            left.store(IN_BLOCK as u32, Relaxed);
        }
        let record = NonNull::new(fresh.load(Relaxed))?;
        left.store(left.load(Relaxed) - 1, Relaxed);
        fresh.store(record.as_ptr().wrapping_add(1), Relaxed);
        Some(record)
    }
}

impl WaitAndStack {
    /// Who reads the file meanwhile finds that the wait has not ended, until all of it is written.
    fn write(&self, wait: &WaitValues, frames: &[u64]) {
        self.record.ended.store(0, Relaxed);
        core::sync::atomic::fence(Ordering::Release);
        self.record.store(&WaitValues { head: head(Type::Wait, WAIT_LENGTH), ended: 0, ..*wait });
        for (word, &frame) in self.stack.iter().zip(frames) {
            word.store(frame, Relaxed);
        }
        self.record.ended.store(wait.ended, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::iter::repeat_with;

    /// Puts waits into a table of `most`; returns the ticks of those that it keeps, in order.
    fn kept(most: u64, waits: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let longest = Longest::new();
        assert!(!longest.keeps(u64::MAX), "nobody has asked for any");
        longest.begin(most);
        let heap: Vec<Kept> =
            repeat_with(|| Kept { ticks: AtomicU64::new(0), record: AtomicPtr::new(null_mut()) })
                .take(LONGEST_WAITS)
                .collect();
        for ticks in waits {
            if longest.keeps(ticks) {
                longest.alone(|| longest.place(&heap, ticks, || Some(NonNull::dangling()))).unwrap();
            }
        }
        let mut all: Vec<u64> =
            heap[..longest.count.load(Relaxed) as usize].iter().map(Kept::ticks).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn the_longest_are_kept_in_whatever_order_they_come() {
        let scattered = |i: u64| (i * 7919) % 10_007 + 1;
        assert_eq!(kept(100, (1..=10_006).map(scattered)), (9_908..=10_007).collect::<Vec<_>>());
        assert_eq!(kept(5, 1..=100), [96, 97, 98, 99, 100]);
        assert_eq!(kept(5, (1..=100).rev()), [96, 97, 98, 99, 100]);
        assert_eq!(kept(5, [7; 20]), [7; 5]);
        assert_eq!(kept(3, [4, 2]), [2, 4]);
        assert_eq!(kept(u64::MAX, 1..=5000).len(), LONGEST_WAITS);
        assert!(kept(0, 1..=5).is_empty());
    }

    #[test]
    fn without_space_the_longest_of_fewer_are_kept() {
        let longest = Longest::new();
        longest.begin(3);
        let heap = [const { Kept { ticks: AtomicU64::new(0), record: AtomicPtr::new(null_mut()) } }; 3];
        assert!(longest.place(&heap, 5, || None).is_none() && !longest.keeps(5), "none has a place");
        longest.begin(3);
        assert!(longest.place(&heap, 5, || Some(NonNull::dangling())).is_some());
        assert!(longest.place(&heap, 4, || None).is_none());
        assert!(longest.place(&heap, 6, || None).is_some() && !longest.keeps(6) && longest.keeps(7));
    }

    #[test]
    fn a_table_that_is_in_use_is_not_waited_for_for_ever() {
        let longest = Longest::new();
        longest.begin(3);
        assert_eq!(longest.alone(|| longest.alone(|| 1)), Some(None));
        assert_eq!(longest.alone(|| 2), Some(2));
    }

    #[test]
    fn a_hold_is_found_by_its_lock_and_its_end() {
        let holds = LastHolds {
            began: [const { AtomicU64::new(0) }; HELD],
            ended: [const { AtomicU64::new(0) }; HELD],
        };
        let day = STAMP + 1;
        holds.set(70_000, 3 * day - 5, 3 * day + 10);
        assert_eq!(holds.began(70_000, 3 * day + 10), Some(3 * day - 5));
        assert_eq!(holds.began(70_000, 3 * day + 11), None, "a later hold");
        assert_eq!(holds.began(70_016, 3 * day + 10), None, "another lock of the same place");
    }
}
