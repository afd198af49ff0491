//! The layout of a profile file.
//!
//! ```text
//! offset 0      Header, padded to PAGE bytes
//! offset PAGE   blocks, each a multiple of PAGE long and PAGE-aligned:
//!                 BlockHeader (64 bytes), then records one after another
//! ```
//!
//! A *record* is a sequence of little-endian 64-bit words. The first word describes it ([`head`]): type, version and
//! length in bytes. A reader skips types it does not know, and reads fields that an older writer did not have as zero;
//! so a type may grow at its end without a new file version.
//!
//! A *section* is everything that one process image wrote: its blocks carry the section number, which is the position of
//! its [`Process`] block. Positions inside the file are counted in units of [`UNIT`] bytes, so that 32 bits are enough.
//! A lock's number is the position of its [`Lock`] record: unique in the file, so that a forked child goes on using the
//! numbers that its parent left in the lock objects.
//!
//! A block that was allocated by a thread that died before it wrote the block's header reads as zeros; the reader goes
//! on with the next page.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::histogram::BUCKETS;

/// The first eight bytes of a profile file.
pub const MAGIC: [u8; 8] = *b"\x89contend";

/// The version of the container. Readers refuse newer ones; new record types and longer records do not change it.
pub const VERSION: u64 = 1;

/// Bytes; the granularity of blocks and the length of the file's header.
pub const PAGE: u64 = 4096;

/// Bytes; the granularity of positions of records. A cache line, so that no two threads write the same one.
pub const UNIT: u64 = 64;

/// The mark of a block header, in its first word's low half: `blok`.
pub const BLOCK_MARK: u32 = u32::from_le_bytes(*b"blok");

/// Return addresses kept of the call that first touched a lock.
pub const FRAMES: usize = 16;

/// Reasons for leaving an object to the C library, as indices of [`Process`]'s `untouched_*` words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Refusal {
    /// The object is shared between processes.
    ProcessShared = 0,
    /// A robust mutex.
    Robust = 1,
    /// A mutex with priority inheritance.
    PriorityInheriting = 2,
    /// A mutex with a priority ceiling.
    PriorityProtected = 3,
    /// A condition variable that is shared between processes, or waits with a mutex left to the C library.
    Condition = 4,
    /// Any other reason: an object in a state that only the C library knows.
    Other = 5,
}

/// Declares a record twice: as it lies in the mapping (atomic words, one writer each) and as plain values.
macro_rules! words {
    ($(#[$meta:meta])* $live:ident, $plain:ident { $($(#[$doc:meta])* $field:ident),* $(,)? }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Debug, Default)]
        pub struct $live { $($(#[$doc])* pub $field: AtomicU64,)* }

        #[doc = concat!("The values of a [`", stringify!($live), "`].")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $plain { $($(#[$doc])* pub $field: u64,)* }

        impl $live {
            /// Length in bytes.
            pub const LENGTH: usize = size_of::<Self>();

            /// A record of zeros, which is no record at all until its head is written.
            pub const fn zeroed() -> Self {
                Self { $($field: AtomicU64::new(0),)* }
            }

            /// The present values; each word is whole, but they may belong to different moments.
            pub fn values(&self) -> $plain {
                $plain { $($field: self.$field.load(Relaxed),)* }
            }

            /// Stores every word.
            pub fn store(&self, values: &$plain) {
                $(self.$field.store(values.$field, Relaxed);)*
            }
        }

        impl $plain {
            /// The words as they lie in the file.
            pub fn words(&self) -> [u64; size_of::<$live>() / 8] {
                [$(self.$field,)*]
            }

            /// Reads the fields that `bytes` holds; the rest is zero.
            pub fn decode(bytes: &[u8]) -> Self {
                let mut words = bytes
                    .chunks_exact(8)
                    .map(|word| u64::from_le_bytes([word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]]));
                Self { $($field: words.next().unwrap_or(0),)* }
            }
        }
    };
}

words! {
    /// The head of the file.
    Header, HeaderValues {
        /// [`MAGIC`].
        magic,
        /// [`VERSION`] in the low half, the length of the header ([`PAGE`]) in the high half.
        version,
        /// The file may not grow past this many bytes.
        limit,
        /// Bytes given out so far, the header included.
        allocated,
        /// Bytes that are known to exist on the disk.
        grown,
        /// Bytes of [`Lock`] records.
        lock_bytes,
        /// Bytes of histograms.
        histogram_bytes,
        /// Times are taken on one pair in this many, at random; 1 means on every pair.
        sample_period,
        /// Ticks at creation.
        clock_first_ticks,
        /// `CLOCK_MONOTONIC` at creation, ns.
        clock_first_ns,
        /// Ticks, not long ago.
        clock_last_ticks,
        /// `CLOCK_MONOTONIC` at the same moment, ns.
        clock_last_ns,
        /// `CLOCK_REALTIME` at creation, ns.
        started_realtime_ns,
        /// Events that were not recorded because the file could not grow.
        dropped,
        /// The error number with which growing failed first, or 0.
        growth_error,
        /// A number drawn at random, which tells this file from others that come to its name.
        identity,
        /// Process images that did not record, because there was no space for another one.
        unrecorded,
        /// How many of its longest waits each process image keeps one by one, as [`Wait`] records; 0: none.
        longest_waits,
        /// Bytes of [`Wait`] records.
        wait_bytes,
        /// Position of the [`FutexCalls`](crate::futex_calls::FutexCalls), by which waits in futexes reach the launcher; 0 if there are none.
        futex_calls,
    }
}

words! {
    /// The head of a block.
    BlockHeader, BlockHeaderValues {
        /// [`BLOCK_MARK`] in the low half, length of the block in bytes in the high half. Written last.
        mark,
        /// The section that the block belongs to.
        section,
        /// Position of the [`Thread`] record whose thread writes the block, or 0.
        thread,
        /// Bytes of records, from the end of this header.
        used,
        /// Not used.
        reserved_0,
        /// Not used.
        reserved_1,
        /// Not used.
        reserved_2,
        /// Not used.
        reserved_3,
    }
}

words! {
    /// A process image: the first record of its section.
    Process, ProcessValues {
        /// See [`head`].
        head,
        /// Process identifier.
        pid,
        /// The parent's process identifier.
        parent_pid,
        /// Section of the image that forked this one, or 0.
        parent_section,
        /// `CLOCK_REALTIME` at the start of the section, ns.
        started_realtime_ns,
        /// Ticks at the start of the section.
        clock_first_ticks,
        /// `CLOCK_MONOTONIC` at the same moment, ns.
        clock_first_ns,
        /// Ticks at the end of the section; 0 if the image was killed, or replaced by another.
        clock_last_ticks,
        /// `CLOCK_MONOTONIC` at the same moment, ns.
        clock_last_ns,
        /// Recorder's own cost of a pair with times, 1/1024 ticks.
        cost_timed,
        /// Recorder's own cost of a pair without times, 1/1024 ticks.
        cost_untimed,
        /// The part of `cost_timed` that is inside the measured hold time, 1/1024 ticks.
        cost_in_hold,
        /// The part of `cost_timed` that is inside the measured think time, 1/1024 ticks.
        cost_in_think,
        /// Threads that have, or had, a record: those that touched a lock, and `only_joined`.
        threads,
        /// Pairs of thread and lock that were merged into their thread's row of merged locks.
        merged_pairs,
        /// Locks that got no record of their own.
        merged_locks,
        /// First address of the recorder's own code.
        own_start,
        /// First address after the recorder's own code.
        own_end,
        /// Objects left to the C library, by [`Refusal`].
        untouched_process_shared,
        /// See [`Refusal::Robust`].
        untouched_robust,
        /// See [`Refusal::PriorityInheriting`].
        untouched_priority_inheriting,
        /// See [`Refusal::PriorityProtected`].
        untouched_priority_protected,
        /// See [`Refusal::Condition`].
        untouched_condition,
        /// See [`Refusal::Other`].
        untouched_other,
        /// Threads of `threads` that joined others, and have touched no lock so far.
        only_joined,
        /// 1: threads note which of the C library's locks they wait for, as long as they wait.
        marks_waits,
        /// 1: the section was written from outside of a program that ran already. It has waits in futexes alone.
        attached,
        /// Of an attached program: events that found no space in buffers.
        lost_events,
        /// Of an attached program: waits whose callers could not be told.
        without_callers,
        /// 1: the process gave up the rights of the profile's user, and left the profile then.
        gave_up_rights,
        /// 1: threads notice when they have left their cores, so that the `hold_slept_ticks` and so on of a [`Pair`] are right.
        watches_cores,
        /// Waits that would have been kept one by one, and were not: another thread was changing the table for long, or the thread was
        /// interrupted in a change of its own records.
        waits_missed,
        /// Ticks in which the recorder made records of locks, and of what threads do with them, and walked stacks for them.
        records_ticks,
        /// The number of the PID namespace by which the process and its threads have their identifiers; 0 if it is not known.
        pid_namespace,
    }
}

impl Process {
    /// The counter of objects left to the C library for `reason`.
    pub fn untouched(&self, reason: Refusal) -> &AtomicU64 {
        match reason {
            Refusal::ProcessShared => &self.untouched_process_shared,
            Refusal::Robust => &self.untouched_robust,
            Refusal::PriorityInheriting => &self.untouched_priority_inheriting,
            Refusal::PriorityProtected => &self.untouched_priority_protected,
            Refusal::Condition => &self.untouched_condition,
            Refusal::Other => &self.untouched_other,
        }
    }
}

words! {
    /// A thread, or several that came one after another: the first record of its first block.
    Thread, ThreadValues {
        /// See [`head`].
        head,
        /// Kernel's thread identifier, of the last thread that used the record.
        tid,
        /// The address that the lock call returns to in which the thread waits since `lock_waited_since`; 0 if unknown.
        lock_waited_from,
        /// Threads that have used the record. More than 1 only past the bound on thread records.
        lives,
        /// `CLOCK_MONOTONIC` at the first acquisition of the last thread that used the record, ns.
        started_ns,
        /// `CLOCK_MONOTONIC` at its end, ns; 0 while it lives.
        ended_ns,
        /// Time on a core since the first acquisition, ns (from schedstat). Valid once the thread has ended. Summed
        /// over lives.
        running_ns,
        /// Time on a run queue since the first acquisition, ns (from schedstat). Valid and summed as `running_ns`; 0 for threads that
        /// lived too shortly to be looked at.
        queued_ns,
        /// From the first acquisition to the end, ns. Summed over lives.
        age_ns,
        /// The thread's name, first half; 0 until it has been looked at.
        name_0,
        /// The thread's name, second half.
        name_1,
        /// Ticks at the beginning of the condition wait that the thread is in; 0 if it is in none.
        waiting_since,
        /// Ticks at the beginning of the join that the thread is in; 0 if it is in none.
        joining_since,
        /// Ticks in joins that are over. Summed over lives.
        join_ticks,
        /// Ticks at the beginning of the wait for a lock that the thread is in; 0 if it is in none. Valid where
        /// [`Process`]'s `marks_waits` says so. A signal handler that waits meanwhile ends it.
        lock_waited_since,
        /// What the thread waits for since then: the `key` of a [`Pair`].
        lock_waited,
    }
}

words! {
    /// A lock, and in [`FRAMES`] more words a stack, innermost first: that of the call that initialised it, or else that of its
    /// first touch. Which thread comes first may differ from run to run; [`Site`] has the other stacks.
    Lock, LockValues {
        /// See [`head`].
        head,
        /// Where the object is.
        address,
        /// [`ObjectKind`](pthread::object::ObjectKind) in the low half; how often the same call site made a lock of this kind at this
        /// address, minus one, in the high half.
        kind,
        /// See [`Lock::BY_HOOKS`].
        flags,
        /// Not used.
        reserved_0,
        /// Return addresses that follow, in the low half; in the high half a hash of the stack of the first touch, which tells
        /// whether the same calls made another lock at this address.
        frames,
        /// Not used.
        reserved_1,
        /// Whose stack follows, in the low half: 0 that of the first touch, 1 that of its initialisation. In the high half, of how
        /// many objects that were initialised with this stack it was the last; 0 if that is not known.
        origin,
    }
}

impl Lock {
    /// The bit of `flags` of a lock that is no pthread's: the program tells the recorder of it through [`crate::hooks`].
    pub const BY_HOOKS: u64 = 1;
}

words! {
    /// What one thread did with one lock in one mode. Written by that thread alone.
    Pair, PairValues {
        /// See [`head`].
        head,
        /// Number of the lock, shifted left by one; the low bit is set for shared acquisitions.
        /// Number 0 stands for the locks that were merged past the bound.
        key,
        /// Position of the pair's [`Histograms`]; 0 while it is cold.
        histograms,
        /// Acquisitions by calls of the lock functions. Those by the ends of condition waits are `condition_waits`.
        acquisitions,
        /// Live: ticks of the present timed acquisition, or 0.
        hold_started,
        /// Live: ticks of the thread's last timed release, or 0.
        released,
        /// Live: see [`record`](crate::record).
        state,
        /// Acquisitions whose last holder was another thread.
        owner_changes,
        /// Timed holds after a holder on the same core.
        hold_same_count,
        /// Their ticks.
        hold_same_ticks,
        /// Timed holds after a holder on another core.
        hold_other_count,
        /// Their ticks.
        hold_other_ticks,
        /// Timed gaps from a release in this mode to the same thread's next acquisition in any mode.
        think_count,
        /// Their ticks.
        think_ticks,
        /// Acquisitions that had to wait; all of them are timed.
        contended,
        /// Ticks that they waited.
        wait_ticks,
        /// Contended acquisitions whose last holder's release was stamped.
        handover_count,
        /// Ticks from those releases to the acquisitions.
        handover_ticks,
        /// Try calls that found the lock held.
        try_failures,
        /// Timed calls that gave up.
        timeouts,
        /// Condition waits with this mutex.
        condition_waits,
        /// Ticks from their beginning until the mutex was back.
        condition_ticks,
        /// Condition waits that timed out.
        condition_timeouts,
        /// Acquisitions of a lock that the thread held already.
        nested,
        /// Return addresses of the lock calls by which the thread has acquired it so far, hashed, 0 where there is none: see
        /// [`Pair::callers`].
        caller_0,
        /// See `caller_0`.
        caller_1,
        /// See `caller_0`.
        caller_2,
        /// See `caller_0`.
        caller_3,
        /// See `caller_0`.
        caller_4,
        /// See `caller_0`.
        caller_5,
        /// See `caller_0`.
        caller_6,
        /// See `caller_0`.
        caller_7,
        /// Position of the pair's [`ByCaller`]; 0 until it has waited, or held the lock for long.
        by_caller,
        /// Ticks of timed holds in which the thread waited for other locks. This and the next two are right where [`Process`]'s
        /// `watches_cores` says so.
        hold_waited_ticks,
        /// Ticks of timed holds in which it was off its core by its own doing, and waited for no lock.
        hold_slept_ticks,
        /// Ticks of timed holds in which it was ready to run, and another had its core.
        hold_preempted_ticks,
        /// Live: at the acquisition of the present timed hold, all ticks that the thread had waited for locks, or been off its core.
        lost_before,
        /// Live: likewise, those that it had waited.
        waited_before,
        /// Live: likewise, those that it had slept.
        slept_before,
        /// Ticks of timed holds of which it is not known what the thread did in them.
        hold_unknown_ticks,
    }
}

/// Call sites that a [`Pair`] remembers.
pub const CALLERS: usize = 8;

impl Pair {
    /// Where the words lie that only grow as long as the record is the same pair's.
    pub const COUNTS: [usize; 22] = [
        offset_of!(Self, acquisitions),
        offset_of!(Self, owner_changes),
        offset_of!(Self, hold_same_count),
        offset_of!(Self, hold_same_ticks),
        offset_of!(Self, hold_other_count),
        offset_of!(Self, hold_other_ticks),
        offset_of!(Self, think_count),
        offset_of!(Self, think_ticks),
        offset_of!(Self, contended),
        offset_of!(Self, wait_ticks),
        offset_of!(Self, handover_count),
        offset_of!(Self, handover_ticks),
        offset_of!(Self, try_failures),
        offset_of!(Self, timeouts),
        offset_of!(Self, condition_waits),
        offset_of!(Self, condition_ticks),
        offset_of!(Self, condition_timeouts),
        offset_of!(Self, nested),
        offset_of!(Self, hold_waited_ticks),
        offset_of!(Self, hold_slept_ticks),
        offset_of!(Self, hold_preempted_ticks),
        offset_of!(Self, hold_unknown_ticks),
    ];

    /// The words at [`Pair::COUNTS`].
    pub(crate) fn counts(&self) -> impl Iterator<Item = &AtomicU64> {
        let start = core::ptr::from_ref(self).cast::<u8>();
        // SAFETY: at each of these offsets the record, which is borrowed as a whole, has a word.
        Self::COUNTS.into_iter().map(move |at| unsafe { &*start.wrapping_add(at).cast::<AtomicU64>() })
    }

    /// The words from `caller_0` to `caller_7`.
    #[inline]
    pub fn callers(&self) -> &[AtomicU64; CALLERS] {
        let start = core::ptr::from_ref(self).cast::<u8>().wrapping_add(offset_of!(Self, caller_0));
        // SAFETY: so many words of the record start there, which the assertion below counts, and it is borrowed as a whole.
        unsafe { &*start.cast() }
    }
}

const _: () = assert!(offset_of!(Pair, caller_0) + CALLERS * 8 == offset_of!(Pair, by_caller));

/// What a [`Pair`]'s thread did from each of its call sites, and whose holds it waited for. An index of `waits`, `wait_ticks`,
/// `holds` and `hold_ticks` is one of [`Pair::callers`].
#[repr(C)]
#[derive(Debug)]
pub struct ByCaller {
    /// See [`head`].
    pub head: AtomicU64,
    /// Position of the pair.
    pub pair: AtomicU64,
    /// Not used.
    pub reserved: [AtomicU64; 6],
    /// Acquisitions that had to wait.
    pub waits: [AtomicU64; CALLERS],
    /// Ticks that they waited.
    pub wait_ticks: [AtomicU64; CALLERS],
    /// Timed holds.
    pub holds: [AtomicU64; CALLERS],
    /// Their ticks.
    pub hold_ticks: [AtomicU64; CALLERS],
    /// Return addresses of the lock calls of those whose releases ended waits, hashed as [`Pair::callers`], 0 where there is none.
    pub behind: [AtomicU64; CALLERS],
    /// Ticks of the waits that each of them ended.
    pub behind_ticks: [AtomicU64; CALLERS],
    /// Of the ticks of holds, those in which the thread waited for other locks; see [`Pair`]'s `hold_waited_ticks`.
    pub hold_waited_ticks: [AtomicU64; CALLERS],
    /// See [`Pair`]'s `hold_slept_ticks`.
    pub hold_slept_ticks: [AtomicU64; CALLERS],
    /// See [`Pair`]'s `hold_preempted_ticks`.
    pub hold_preempted_ticks: [AtomicU64; CALLERS],
    /// Key of the lock for which the holds waited longest, by a majority vote (Boyer and Moore 1981) in which each tick counts.
    pub waited_for: [AtomicU64; CALLERS],
    /// By how many ticks that lock leads.
    pub waited_for_votes: [AtomicU64; CALLERS],
    /// See [`Pair`]'s `hold_unknown_ticks`.
    pub hold_unknown_ticks: [AtomicU64; CALLERS],
}

impl ByCaller {
    /// Length in bytes.
    pub const LENGTH: usize = size_of::<Self>();

    /// Length in bytes of those that were written before threads noticed that they left their cores.
    pub const FIRST_LENGTH: usize = offset_of!(Self, hold_waited_ticks);

    /// Where the arrays lie whose words only grow as long as the record is the same pair's.
    pub const SUMS: [usize; 9] = [
        offset_of!(Self, waits),
        offset_of!(Self, wait_ticks),
        offset_of!(Self, holds),
        offset_of!(Self, hold_ticks),
        offset_of!(Self, behind_ticks),
        offset_of!(Self, hold_waited_ticks),
        offset_of!(Self, hold_slept_ticks),
        offset_of!(Self, hold_preempted_ticks),
        offset_of!(Self, hold_unknown_ticks),
    ];

    /// The words behind the head, in the order in which they lie in the file.
    pub(crate) fn counts(&self) -> impl Iterator<Item = &AtomicU64> {
        [
            &self.waits, &self.wait_ticks, &self.holds, &self.hold_ticks, &self.behind, &self.behind_ticks,
            &self.hold_waited_ticks, &self.hold_slept_ticks, &self.hold_preempted_ticks, &self.waited_for,
            &self.waited_for_votes, &self.hold_unknown_ticks,
        ]
        .into_iter()
        .flatten()
    }
}

words! {
    /// A call site of a lock: a stack with which a thread acquired it, in [`FRAMES`] more words, innermost
    /// first. That of the first touch is in the [`Lock`] itself.
    Site, SiteValues {
        /// See [`head`].
        head,
        /// Number of the lock.
        lock,
        /// Return addresses that follow.
        frames,
        /// Not used.
        reserved_0,
        /// Not used.
        reserved_1,
        /// Not used.
        reserved_2,
        /// Not used.
        reserved_3,
        /// Not used.
        reserved_4,
    }
}

words! {
    /// What the threads of a process image did with a lock by one stack, and in [`FRAMES`] more words that stack, innermost first. Each of
    /// them adds to it. Stacks are walked where there is time for that, so that the sums are parts of those of the [`ByCaller`] records.
    ByStack, ByStackValues {
        /// See [`head`].
        head,
        /// Number of the lock; 0 while the record is not used.
        lock,
        /// The return address of the call that acquired the lock, one of [`Pair::callers`].
        caller,
        /// Return addresses that follow, in the low half. In the high half which call they lead to: 0 the acquisition, 1 the release.
        frames,
        /// Acquisitions that had to wait.
        waits,
        /// Ticks that they waited.
        wait_ticks,
        /// Ticks that other threads waited until holds were over that were released so.
        behind_ticks,
        /// Timed holds that were released so.
        holds,
        /// Their ticks.
        hold_ticks,
        /// See [`Pair`]'s `hold_waited_ticks`.
        hold_waited_ticks,
        /// See [`Pair`]'s `hold_slept_ticks`.
        hold_slept_ticks,
        /// See [`Pair`]'s `hold_preempted_ticks`.
        hold_preempted_ticks,
        /// See [`Pair`]'s `hold_unknown_ticks`.
        hold_unknown_ticks,
        /// Not used.
        reserved_0,
        /// Not used.
        reserved_1,
        /// Not used.
        reserved_2,
    }
}

impl ByStack {
    /// Where the words lie that only grow.
    pub const SUMS: [usize; 9] = [
        offset_of!(Self, waits),
        offset_of!(Self, wait_ticks),
        offset_of!(Self, behind_ticks),
        offset_of!(Self, holds),
        offset_of!(Self, hold_ticks),
        offset_of!(Self, hold_waited_ticks),
        offset_of!(Self, hold_slept_ticks),
        offset_of!(Self, hold_preempted_ticks),
        offset_of!(Self, hold_unknown_ticks),
    ];
}

/// The distributions of a [`Pair`] that has turned warm: bucket counts by [`crate::histogram::bucket`].
///
/// Values are noted first and sorted into buckets when there are [`NOTED`] of them, since a store is all that fits into
/// the shadow of a time stamp; a reader counts those that are still noted.
#[repr(C)]
#[derive(Debug)]
pub struct Histograms {
    /// See [`head`].
    pub head: AtomicU64,
    /// Position of the pair.
    pub pair: AtomicU64,
    /// How many values are noted.
    pub noted: AtomicU64,
    /// Key of the lock in whose timed holds most of the next were, by a majority vote (Boyer and Moore 1981).
    pub within: AtomicU64,
    /// Acquisitions within timed holds of other locks, where those were within none themselves.
    pub within_count: AtomicU64,
    /// Live: by how many votes that lock leads.
    pub within_votes: AtomicU64,
    /// Not used.
    pub reserved: [AtomicU64; 2],
    /// Noted values: ticks shifted left by [`NOTE_SHIFT`], and the [`Quantity`] in the low bits.
    pub notes: [AtomicU64; NOTED],
    /// Bucket counts by [`Quantity`].
    pub buckets: [[AtomicU64; BUCKETS]; QUANTITIES],
}

/// Values that are noted before they are sorted into buckets.
pub const NOTED: usize = 32;

/// Bits of a note that hold the [`Quantity`].
pub const NOTE_SHIFT: u32 = 3;

/// What a histogram counts, as index of [`Histograms`]' buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Quantity {
    /// Holds after a holder on the same core.
    HoldSame = 0,
    /// Holds after a holder on another core.
    HoldOther = 1,
    /// From a release to the same thread's next acquisition.
    Think = 2,
    /// From the call to the acquisition, of contended acquisitions.
    Wait = 3,
    /// From the last holder's release to the acquisition, of contended acquisitions.
    Handover = 4,
}

/// The number of [`Quantity`] values.
pub const QUANTITIES: usize = 5;

words! {
    /// How often a thread held a lock when others were seen to wait for it, in a program that was attached to.
    Holder, HolderValues {
        /// See [`head`].
        head,
        /// Number of the lock.
        lock,
        /// Kernel's identifier of the thread.
        tid,
        /// The thread's name, first half.
        name_0,
        /// The thread's name, second half.
        name_1,
        /// Looks at the lock while others waited for it.
        looks,
        /// Not used.
        reserved_0,
        /// Not used.
        reserved_1,
    }
}

words! {
    /// A single wait for a lock, one of the longest of its process image, and in [`FRAMES`] more words the stack of the thread that
    /// waited, innermost first. A longer wait may take the place of a shorter one, so that a record may change as long as the process runs.
    Wait, WaitValues {
        /// See [`head`].
        head,
        /// What was waited for: the `key` of a [`Pair`].
        key,
        /// Position of the [`Thread`] record of the thread that waited.
        thread,
        /// Kernel's identifier of that thread.
        tid,
        /// Ticks at the beginning of the wait.
        began,
        /// Ticks at its end; 0 while the record is being written, or was not used so far.
        ended,
        /// Ticks at the release that ended the wait; 0 if it was not timed.
        released,
        /// Ticks at the beginning of the hold that ended there; 0 if it is not known.
        held_since,
        /// Position of the [`Thread`] record of the thread that released the lock; 0 if it is not known.
        holder,
        /// Kernel's identifier of that thread.
        holder_tid,
        /// The address that the lock call of that hold returns to; 0 if it is not known.
        holder_caller,
        /// Return addresses that follow.
        frames,
        /// Not used.
        reserved_0,
        /// Not used.
        reserved_1,
        /// Not used.
        reserved_2,
        /// Not used.
        reserved_3,
    }
}

words! {
    /// What the launching process saw of the whole run. Written by it, at the end.
    Run, RunValues {
        /// See [`head`].
        head,
        /// From start to end, ns.
        elapsed_ns,
        /// Time on cores of the program and its children, ns.
        cpu_ns,
        /// Time that the hypervisor took from the machine's cores in the meantime, ns.
        stolen_ns,
        /// Cores that the program may use.
        cores,
        /// Operations that the program did; 0 if nothing counted them.
        operations,
        /// 1 if the program ended by itself, 2 if by a signal.
        ended,
        /// Exit status, or the signal's number.
        status,
    }
}

words! {
    /// Last sight of a thread's scheduling, taken by the launching process.
    Task, TaskValues {
        /// See [`head`].
        head,
        /// Process identifier.
        pid,
        /// Thread identifier.
        tid,
        /// When it started, ns of `CLOCK_BOOTTIME`; where it ran before the time that the file tells of, the last sight of it before that.
        started_ns,
        /// From then to the last sight, ns.
        age_ns,
        /// Time on a core, ns.
        running_ns,
        /// Time on a run queue, ns.
        queued_ns,
        /// Of the time off its core, what went to sights of it on a futex, ns: locks, condition variables, joins.
        futex_ns,
        /// The same for sleeping until a time, ns.
        sleep_ns,
        /// The same for waiting for events: epoll, poll, select; ns.
        events_ns,
        /// The same for input and output: pipes, sockets, files; ns.
        io_ns,
        /// The same for waiting for another process, ns.
        child_ns,
        /// The same for anything else, ns.
        other_ns,
    }
}

words! {
    /// A watch of the kernel's contended locks. It makes its section the kernel's: the [`Process`] in front of it, with process
    /// identifier 0, stands for no process image, and is there for readers that do not know this record.
    KernelWatch, KernelWatchValues {
        /// See [`head`].
        head,
        /// 1 if all waits on the machine are counted, 0 if those of the program and what it started.
        machine,
        /// `CLOCK_MONOTONIC` at the start of the watch, ns.
        first_ns,
        /// `CLOCK_MONOTONIC` when it was last drained, ns.
        last_ns,
        /// Events that were read.
        events,
        /// Events that found no space in the kernel's buffers.
        lost,
        /// Ends of waits whose beginnings were not seen.
        unbegun,
        /// Beginnings of waits whose ends were not seen.
        unended,
        /// Waits that are not among the locks, because the file could not grow.
        dropped,
        /// 1 if the kernel hid its addresses, so that nothing has a name.
        nameless,
        /// Cores that were watched.
        cores,
    }
}

words! {
    /// A lock of the kernel, or all that were taken in one function; [`BUCKETS`] words follow: counts of waits by
    /// [`crate::histogram::bucket`] of their ns.
    KernelLock, KernelLockValues {
        /// See [`head`].
        head,
        /// Its number in the watch, from 1.
        number,
        /// Of the variable that the lock is, or of the function that took it, see `kind`. A [`Type::KernelSymbol`] names it.
        address,
        /// `flags` of `lock:contention_begin` in the low half; in the high half 1 if `address` is a variable's.
        kind,
        /// Waits that are over.
        waits,
        /// Time in them, ns.
        wait_ns,
        /// The part of it on a core, spinning, ns.
        spun_ns,
        /// Waits that ended without the lock.
        interrupted,
        /// Locks at different addresses, up to a bound.
        objects,
    }
}

words! {
    /// The waits for a lock of the kernel from one stack; the functions' addresses follow, innermost first. A
    /// [`Type::KernelSymbol`] names each.
    KernelStack, KernelStackValues {
        /// See [`head`].
        head,
        /// The lock's number.
        lock,
        /// Waits that are over.
        waits,
        /// Time in them, ns.
        wait_ns,
    }
}

words! {
    /// The waits for a lock of the kernel that were ended by releases in one function.
    KernelRelease, KernelReleaseValues {
        /// See [`head`].
        head,
        /// The lock's number.
        lock,
        /// Of the function. A [`Type::KernelSymbol`] names it.
        address,
        /// Waits that are over.
        waits,
        /// Time in them, ns.
        wait_ns,
    }
}

/// The little-endian word at `at`; zero where the bytes end.
#[cfg(feature = "read")]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
    word.map_or(0, |word| u64::from_le_bytes(*word))
}

/// Types of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Type {
    /// [`Process`].
    Process = 1,
    /// Bytes: the arguments, each ended by a zero.
    Arguments = 2,
    /// Bytes: the path of the program.
    Executable = 3,
    /// Bytes: lines of `/proc/self/maps` that name a file.
    Mappings = 4,
    /// Bytes: start address (8), length (1) and build identifier of a mapped file, one after another.
    BuildIds = 5,
    /// [`Thread`].
    Thread = 6,
    /// [`Lock`] and its stack.
    Lock = 7,
    /// [`Pair`].
    Pair = 8,
    /// [`Histograms`].
    Histograms = 9,
    /// [`Run`].
    Run = 10,
    /// [`Task`].
    Task = 11,
    /// [`KernelWatch`].
    KernelWatch = 12,
    /// [`KernelLock`] and its distribution.
    KernelLock = 13,
    /// [`KernelStack`] and its functions.
    KernelStack = 14,
    /// Bytes: an address of the kernel (8), and the name of what is there.
    KernelSymbol = 15,
    /// [`KernelRelease`].
    KernelRelease = 16,
    /// [`Holder`].
    Holder = 17,
    /// [`Site`] and its stack.
    Site = 18,
    /// [`ByCaller`].
    ByCaller = 19,
    /// [`Wait`] and its stack.
    Wait = 20,
    /// What was a record of another type, of something that did not happen in the time that the file tells of.
    Unused = 21,
    /// Words: position of the pair, key of the lock in whose holds it was acquired, how often, and what [`counted_in_bucket`] makes of each
    /// bucket that is not empty. It stands for the [`Histograms`] of the pair.
    Distributions = 22,
    /// [`ByStack`] and its stack.
    ByStack = 23,
}

/// Bits of a bucket's count in a [`Type::Distributions`].
const COUNT_BITS: u32 = 48;

/// A bucket, by its index among those of all quantities, and how many are in it, as a word.
pub const fn counted_in_bucket(index: u16, count: u64) -> u64 {
    let most = (1 << COUNT_BITS) - 1;
    (index as u64) << COUNT_BITS | if count < most { count } else { most }
}

/// The index and the count that [`counted_in_bucket`] made a word of.
pub const fn bucket_and_count(word: u64) -> (u16, u64) {
    ((word >> COUNT_BITS) as u16, word & ((1 << COUNT_BITS) - 1))
}

/// The first word of a record: type (16 bits), version (16 bits), length in bytes with this word (32 bits).
pub const fn head(what: Type, length: usize) -> u64 {
    what as u64 | 1 << 16 | (length as u64) << 32
}

/// Type number and length in bytes of the record with this first word.
pub const fn split_head(head: u64) -> (u16, u64) {
    (head as u16, head >> 32)
}

/// Length in bytes of a [`Lock`] record with its stack.
pub const LOCK_LENGTH: usize = Lock::LENGTH + FRAMES * 8;

/// Length in bytes of a [`Wait`] record with its stack.
pub const WAIT_LENGTH: usize = Wait::LENGTH + FRAMES * 8;

/// Length in bytes of a [`ByStack`] record with its stack.
pub const BY_STACK_LENGTH: usize = ByStack::LENGTH + FRAMES * 8;

/// Length in bytes of a [`KernelLock`] record with its distribution.
pub const KERNEL_LOCK_LENGTH: usize = KernelLock::LENGTH + BUCKETS * 8;

// Positions are multiples of UNIT, and a pair fills whole cache lines.
const _: () = {
    assert!(size_of::<BlockHeader>() as u64 == UNIT);
    assert!((Thread::LENGTH as u64).is_multiple_of(UNIT));
    assert!((Pair::LENGTH as u64).is_multiple_of(UNIT));
    assert!((LOCK_LENGTH as u64).is_multiple_of(UNIT));
    assert!(Site::LENGTH == Lock::LENGTH); // both lie in the same blocks
    assert!((Holder::LENGTH as u64).is_multiple_of(UNIT));
    assert!((WAIT_LENGTH as u64).is_multiple_of(UNIT));
    assert!((BY_STACK_LENGTH as u64).is_multiple_of(UNIT));
    assert!((size_of::<Histograms>() as u64).is_multiple_of(UNIT));
    assert!((ByCaller::LENGTH as u64).is_multiple_of(UNIT));
    assert!(QUANTITIES <= 1 << NOTE_SHIFT);
    assert!(Header::LENGTH as u64 <= PAGE);
};
