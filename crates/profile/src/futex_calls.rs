//! Calls of futex(2) that programs make by the C library's function `syscall`, on their way to the launcher: waits, and calls that woke
//! threads.
//!
//! Locks that are no pthread's sleep so: those of Rust's `std`, `parking_lot` and oneTBB, `std::atomic::wait` of C++. What a wait was for
//! is told by the functions on the stack and the memory around the futex, which takes reading files. So the recorder hands the
//! calls on, and the launcher counts the waits in a section of its own, each behind the call sites of those that woke it.
//!
//! They go through a ring in the profile, which the process makes that has the first of them: any thread of any process takes the next
//! slot, and the launcher alone frees them. A wait that finds all slots taken is counted as lost; wakes leave half of them to waits. The
//! profile needs none of it when the run is over.
//!
//! | word      | written by        | meaning                                                  |
//! |-----------|-------------------|----------------------------------------------------------|
//! | `written` | threads that call | slots taken so far                                       |
//! | `read`    | the launcher      | slots freed so far                                       |
//! | `lost`    | threads that wait | waits that found no slot                                 |
//! | `turn`    | who has the slot  | the number of its call, counted from 1, when it is whole |

use core::sync::atomic::{AtomicU64, Ordering, Ordering::Relaxed};

/// Return addresses that are kept of a call.
pub const CALLERS_OF_WAIT: usize = 23;

/// A call that is over: a wait, or one that woke threads. It may come from any process that has the profile, so that nothing in it need
/// be true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FutexRecord {
    /// The section of the process's recorder, which tells its images apart.
    pub section: u64,
    /// The process.
    pub pid: u32,
    /// The thread that called.
    pub tid: u32,
    /// The futex's address.
    pub word: u64,
    /// Operation and flags.
    pub operation: u32,
    /// What the word had to hold, or how many threads were to be woken.
    pub value: u32,
    /// When it began, ns of the monotonic clock.
    pub begun_ns: u64,
    /// When it ended, ns of the monotonic clock.
    pub ended_ns: u64,
    /// What the kernel answered: a negated error number below 0.
    pub result: i32,
    /// Whether the thread has made a call that wakes others since its last wait.
    pub woke: bool,
    /// What lay before the futex when the wait was over, where `parking_lot` has the address of the lock; 0 if it was not looked at.
    pub parked_on: u64,
    /// Return addresses of the call, innermost first.
    pub callers: [u64; CALLERS_OF_WAIT],
    /// How many of them there are.
    pub depth: u8,
}

#[repr(C, align(64))]
#[derive(Debug)]
struct Apart(AtomicU64);

#[repr(C, align(64))]
#[derive(Debug)]
struct Slot {
    turn: AtomicU64,
    words: [AtomicU64; 8 + CALLERS_OF_WAIT],
}

const _: () = assert!(size_of::<Slot>() == 256);

/// The ring. Zeros are an empty one.
#[repr(C)]
#[derive(Debug)]
pub struct FutexCalls {
    written: Apart,
    read: Apart,
    lost: Apart,
    slots: [Slot; FutexCalls::SLOTS as usize],
}

impl FutexCalls {
    /// Length in bytes.
    pub const LENGTH: usize = size_of::<Self>();

    /// Calls that it has space for.
    pub const SLOTS: u64 = 2048;

    /// Whether half of the slots are free, so that a call that wakes threads takes no wait's.
    pub fn has_space_for_wakes(&self) -> bool {
        self.written().wrapping_sub(self.read.0.load(Relaxed)) < Self::SLOTS / 2
    }

    /// Adds a call. Waits for nothing, and a signal handler may interrupt it with another one.
    pub fn push(&self, call: &FutexRecord) {
        let is_free = |at: u64| {
            let taken = at.wrapping_sub(self.read.0.load(Ordering::Acquire)); // [1] from `free`
            (taken < Self::SLOTS).then_some(at.wrapping_add(1))
        };
        let Ok(at) = self.written.0.fetch_update(Relaxed, Relaxed, is_free) else {
            self.lost.0.fetch_add(1, Relaxed);
            return;
        };
        let slot = &self.slots[(at % Self::SLOTS) as usize];
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let rest = u32::from(call.depth) << 8 | u32::from(call.woke);
        let fixed = [
            call.section,
            pair(call.pid, call.tid),
            call.word,
            pair(call.operation, call.value),
            call.begun_ns,
            call.ended_ns,
            pair(call.result.cast_unsigned(), rest),
            call.parked_on,
        ];
        let values = fixed.iter().chain(&call.callers[..usize::from(call.depth).min(CALLERS_OF_WAIT)]);
        for (word, &value) in slot.words.iter().zip(values) {
            word.store(value, Relaxed);
        }
        slot.turn.store(at.wrapping_add(1), Ordering::Release); // [2] to `get`
    }

    /// Slots taken so far.
    pub fn written(&self) -> u64 {
        self.written.0.load(Relaxed)
    }

    /// Waits that found no slot.
    pub fn lost(&self) -> u64 {
        self.lost.0.load(Relaxed)
    }

    /// The call of this number, counted from 0; `None` if it is not whole yet.
    pub fn get(&self, at: u64) -> Option<FutexRecord> {
        let slot = &self.slots[(at % Self::SLOTS) as usize];
        // [2] from `push`
        if slot.turn.load(Ordering::Acquire) != at.wrapping_add(1) {
            return None;
        }
        let word = |index: usize| slot.words[index].load(Relaxed);
        let halves = |index: usize| ((word(index) >> 32) as u32, word(index) as u32);
        let ((pid, tid), (operation, value), (result, rest)) = (halves(1), halves(3), halves(6));
        let depth = (rest >> 8).min(CALLERS_OF_WAIT as u32) as u8;
        Some(FutexRecord {
            section: word(0),
            pid,
            tid,
            word: word(2),
            operation,
            value,
            begun_ns: word(4),
            ended_ns: word(5),
            result: result.cast_signed(),
            woke: rest & 1 != 0,
            parked_on: word(7),
            callers: core::array::from_fn(|i| if i < usize::from(depth) { word(8 + i) } else { 0 }),
            depth,
        })
    }

    /// Frees the slots of all calls before this number.
    pub fn free(&self, before: u64) {
        self.read.0.store(before, Ordering::Release); // [1] to `push`
    }
}

#[cfg(all(test, feature = "read"))]
mod tests {
    use super::*;

    fn ring() -> Box<FutexCalls> {
        let layout = std::alloc::Layout::new::<FutexCalls>();
        // SAFETY: the layout is not empty, and zeros are an empty ring.
        unsafe { Box::from_raw(std::alloc::alloc_zeroed(layout).cast()) }
    }

    #[test]
    fn a_wait_comes_out_as_it_went_in() {
        let ring = ring();
        assert_eq!(ring.get(0), None);
        let callers = core::array::from_fn(|i| if i < 3 { 0x1000 + i as u64 } else { 0 });
        let wait = FutexRecord {
            section: 7,
            pid: 41,
            tid: 42,
            word: 0x7fff_0000_1234,
            operation: 137,
            value: u32::MAX,
            begun_ns: 5,
            ended_ns: 9,
            result: -110,
            woke: true,
            parked_on: 0x5555_0000,
            callers,
            depth: 3,
        };
        ring.push(&wait);
        ring.push(&FutexRecord { woke: false, depth: 0, callers: [0; CALLERS_OF_WAIT], ..wait });
        assert_eq!(ring.get(0), Some(wait));
        assert_eq!(ring.get(1).map(|wait| (wait.woke, wait.depth, wait.callers[0])), Some((false, 0, 0)));
        assert_eq!((ring.get(2), ring.written()), (None, 2));
    }

    #[test]
    fn what_finds_no_slot_is_lost_and_slots_are_used_again() {
        let ring = ring();
        let wait = |word| FutexRecord { word, ..FutexRecord::default() };
        (0..FutexCalls::SLOTS + 3).for_each(|word| ring.push(&wait(word)));
        assert_eq!((ring.written(), ring.lost()), (FutexCalls::SLOTS, 3));
        assert!(!ring.has_space_for_wakes());
        ring.free(2);
        assert!(!ring.has_space_for_wakes(), "waits have the half that is left");
        ring.push(&wait(1 << 20));
        assert_eq!(ring.get(FutexCalls::SLOTS).map(|wait| wait.word), Some(1 << 20));
        assert_eq!(ring.get(0), None, "its slot has another one");
        ring.free(2 + FutexCalls::SLOTS / 2);
        assert!(ring.has_space_for_wakes());
    }
}
