//! Locks: numbers, and records of where each was initialised, first touched, and acquired.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};

use pthread::object::ObjectKind;

use super::{Call, Host, MERGED, PerThread, Recorder, Trace};
use crate::arena::Need;
use crate::format::{BlockHeader, FRAMES, LOCK_LENGTH, Lock, Site, Type, UNIT, head};

/// Bytes of a block of lock records.
const LOCK_BLOCK: usize = 16 << 10;

/// A lock's record, and the stack that follows it in the file.
#[repr(C)]
pub(super) struct LockAndStack {
    record: Lock,
    stack: [AtomicU64; FRAMES],
}

/// A call site's record, and its stack.
#[repr(C)]
struct SiteAndStack {
    record: Site,
    stack: [AtomicU64; FRAMES],
}

const _: () = assert!(size_of::<LockAndStack>() == LOCK_LENGTH && size_of::<SiteAndStack>() == LOCK_LENGTH);

impl core::ops::Deref for LockAndStack {
    type Target = Lock;

    fn deref(&self) -> &Lock {
        &self.record
    }
}

/// Locks remembered by address, for call sites that make one lock after another at the same place.
pub(super) const REMEMBERED: usize = 4096;

impl<H: Host> Recorder<H> {
    /// The record of a number that was found in a lock object, or was given out before.
    pub(super) fn lock(&self, number: u32) -> Option<&LockAndStack> {
        // An object in memory that was never initialised, or that comes from an earlier run, may say anything.
        let start = self.arena.at(u64::from(number), LOCK_LENGTH)?;
        // SAFETY: inside the file with its stack, and aligned; all words of the file are atomic.
        let lock = unsafe { &*start.cast::<LockAndStack>() };
        (lock.head.load(Relaxed) == head(Type::Lock, LOCK_LENGTH)).then_some(lock)
    }

    #[inline(never)]
    pub(super) fn register(&self, trace: &Trace, kind: ObjectKind, call: Call) -> u32 {
        let mut frames = [0; FRAMES];
        let note = trace.released.load(Relaxed);
        let made = self.stacks.get(note, &mut frames);
        let origin = if made.is_some() { INITIALISED | note >> ORDINAL << ORDINAL } else { TOUCHED };
        let depth = made.unwrap_or_else(|| self.host.stack(&mut frames).min(FRAMES));
        let number = self.lock_again(kind, call, &frames[..depth]).unwrap_or_else(|| {
            self.new_lock(kind, call, &frames[..depth], origin).unwrap_or_else(|| {
                if let Some(process) = self.process() {
                    process.merged_locks.fetch_add(1, Relaxed);
                }
                MERGED
            })
        });
        // Readers may come here at the same time; the first number stays.
        match trace.place.compare_exchange(0, u64::from(number), Relaxed, Relaxed) {
            Ok(_) => {
                trace.released.store(0, Relaxed); // it said by which stack the lock was made
                number
            }
            Err(place) => place as u32,
        }
    }

    /// The lock of the same kind that the same call path first touched at the same address before, as a new generation.
    fn lock_again(&self, kind: ObjectKind, call: Call, frames: &[u64]) -> Option<u32> {
        let number = self.remembered[remembered(call.object)].load(Relaxed);
        let lock = self.lock(number)?;
        let of_lock = lock.kind.load(Relaxed);
        let same = lock.address.load(Relaxed) == call.object as u64
            && of_lock as u32 == kind as u32
            && lock.flags.load(Relaxed) == flags_of(call)
            && lock.frames.load(Relaxed) >> 32 == hash_of(frames) >> 32;
        if !same {
            return None;
        }
        lock.kind.store(of_lock.wrapping_add(1 << 32), Relaxed);
        Some(number)
    }

    #[inline(never)]
    fn new_lock(&self, kind: ObjectKind, call: Call, frames: &[u64], origin: u64) -> Option<u32> {
        let header = self.arena.header()?;
        // Lock records get a quarter of the file at most: without pairs they say nothing.
        if !self.has_space_for_locks() {
            return None;
        }
        let start = self.space_for_lock()?;
        header.lock_bytes.fetch_add(LOCK_LENGTH as u64, Relaxed);
        // SAFETY: the space is this call's alone, long enough and aligned, in the mapping.
        let lock = unsafe { &*start.cast::<LockAndStack>() };
        lock.address.store(call.object as u64, Relaxed);
        lock.kind.store(kind as u64, Relaxed);
        lock.flags.store(flags_of(call), Relaxed);
        lock.frames.store(frames.len() as u64 | hash_of(frames) >> 32 << 32, Relaxed);
        lock.origin.store(origin, Relaxed);
        for (word, &frame) in lock.stack.iter().zip(frames) {
            word.store(frame, Relaxed);
        }
        lock.head.store(head(Type::Lock, LOCK_LENGTH), Ordering::Release);
        let number = u32::try_from(self.arena.position_of(lock)).ok().filter(|&number| number != MERGED)?;
        if origin == TOUCHED {
            self.sites.is_new(&self.host, number, frames);
        }
        self.remembered[remembered(call.object)].store(number, Relaxed);
        Some(number)
    }

    /// Any thread may come here at any time, so that the block of locks is two numbers in a word.
    #[inline(never)]
    fn space_for_lock(&self) -> Option<*mut u8> {
        loop {
            let current = self.locks.load(Ordering::Acquire);
            let (position, taken) = (current >> 32, current as u32 as usize);
            if position == 0 || taken + LOCK_LENGTH > LOCK_BLOCK - UNIT as usize {
                let (need, length) = (Need::Detail, LOCK_BLOCK - UNIT as usize);
                let block = self.arena.allocate(&self.host, need, self.section_number(), 0, length)?;
                let position = u32::try_from(self.arena.position_of(block.header())).ok()?;
                // If another thread was faster this block stays empty, which a reader does not mind.
                let fresh = u64::from(position) << 32;
                let _ = self.locks.compare_exchange(current, fresh, Ordering::AcqRel, Relaxed);
                continue;
            }
            let next = current + LOCK_LENGTH as u64;
            if self.locks.compare_exchange_weak(current, next, Ordering::AcqRel, Relaxed).is_ok() {
                let start = self.arena.at(position, LOCK_BLOCK)?;
                // SAFETY: the head of a block that this process was given, in the mapping, which stays; its words are atomic.
                let head = unsafe { &*start.cast::<BlockHeader>() };
                head.used.fetch_max((taken + LOCK_LENGTH) as u64, Relaxed);
                return Some(start.wrapping_add(UNIT as usize + taken));
            }
        }
    }
}

impl<H: Host> Recorder<H> {
    /// An object was initialised: its lock is named by the stack of that call, since that is the same one in every run.
    #[cold]
    #[inline(never)]
    pub fn initialised(&self, trace: &Trace) {
        if !self.enabled() {
            return;
        }
        let started = H::stamp();
        self.host.with_signals_blocked(|| {
            let mut frames = [0; FRAMES];
            let depth = if self.has_space_for_locks() { self.host.stack(&mut frames).min(FRAMES) } else { 0 };
            let stack = self.stacks.keep(&self.host, &frames[..depth]);
            trace.place.store(0, Relaxed);
            trace.released.store(stack, Relaxed);
        });
        self.count_own_cost(started);
    }

    /// Notes a stack with which the calling thread, who holds it, has acquired a lock that nothing initialised, if it is a new one.
    #[cold]
    #[inline(never)]
    pub(super) fn record_site(&self, t: &PerThread, number: u32) {
        let started = H::stamp();
        self.without_reentry(t, || self.add_site(number));
        self.count_own_cost(started);
    }

    /// Whether another lock, or another stack of one, would get a record.
    pub(super) fn has_space_for_locks(&self) -> bool {
        self.arena.header().is_some_and(|header| header.lock_bytes.load(Relaxed) <= self.arena.limit() / 4)
    }

    /// As [`Recorder::record_site`], of a caller who has blocked signals and is not interrupted in a record of its own.
    #[inline(never)]
    pub(super) fn add_site(&self, number: u32) {
        if self.lock(number).is_none() || !self.has_space_for_locks() {
            return;
        }
        let mut frames = [0; FRAMES];
        let depth = self.host.stack(&mut frames).min(FRAMES);
        let Some(header) = self.arena.header() else { return };
        if depth == 0 || !self.sites.is_new(&self.host, number, &frames[..depth]) {
            return;
        }
        let Some(start) = self.space_for_lock() else { return };
        header.lock_bytes.fetch_add(LOCK_LENGTH as u64, Relaxed);
        // SAFETY: the space is this call's alone, long enough and aligned, in the mapping.
        let site = unsafe { &*start.cast::<SiteAndStack>() };
        site.record.lock.store(u64::from(number), Relaxed);
        site.record.frames.store(depth as u64, Relaxed);
        for (word, &frame) in site.stack.iter().zip(&frames[..depth]) {
            word.store(frame, Relaxed);
        }
        site.record.head.store(head(Type::Site, LOCK_LENGTH), Ordering::Release);
    }
}

/// Which stacks of which locks have a record, as hashes of both: the table is as long as there are sites at most.
#[derive(Debug)]
pub(super) struct Sites(AtomicPtr<AtomicU64>);

/// Sites in one process. Further ones are not noted.
const MOST_SITES: usize = 1 << 14;

impl Sites {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// Forgets all sites: their records are another process's. The memory stays.
    pub(super) fn forget(&self) {
        self.0.store(null_mut(), Relaxed);
    }

    /// Whether no thread has asked for this stack of this lock before. Where the table is full nothing is new.
    fn is_new(&self, host: &impl Host, number: u32, frames: &[u64]) -> bool {
        let Some(table) = zeroed_once(&self.0, host, MOST_SITES) else { return false };
        let hash = (hash_of(frames) ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1);
        for word in (0..PROBES).map(|probe| &table[(hash as usize + probe) % MOST_SITES]) {
            match word.compare_exchange(0, hash, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(found) if found == hash => return false,
                Err(_) => {}
            }
        }
        false
    }
}

/// A table of so many zeroed entries, made by the first who asks for it.
pub(super) fn zeroed_once<'t, T>(
    start: &'t AtomicPtr<T>,
    host: &impl Host,
    length: usize,
) -> Option<&'t [T]> {
    if start.load(Ordering::Acquire).is_null() {
        let fresh = host.zeroed(length * size_of::<T>());
        if fresh.is_null() {
            return None;
        }
        if start.compare_exchange(null_mut(), fresh.cast(), Ordering::AcqRel, Relaxed).is_err() {
            // SAFETY: made just now, and no other thread has seen it.
            unsafe { host.free(fresh, length * size_of::<T>()) };
        }
    }
    // SAFETY: as many zeroed entries, which stay; all callers have types that are made of atomics.
    Some(unsafe { core::slice::from_raw_parts(start.load(Ordering::Acquire), length) })
}

// Values of a lock record's `origin`, low half.
const TOUCHED: u64 = 0;
const INITIALISED: u64 = 1;
/// The first bit of the ordinal: in `origin`, and in the note of a stack that a trace keeps until its lock is first taken.
const ORDINAL: u32 = 32;

/// Stacks that locks were initialised with, each once. A number of one lies in the trace of an object until it is first taken,
/// so that objects which never are cost nothing.
#[derive(Debug)]
pub(super) struct Stacks(AtomicPtr<Kept>);

/// Stacks that are kept. Objects made by further ones are named by their first use.
const KEPT: usize = 4096;
/// Places that are looked at for one stack.
pub(super) const PROBES: usize = 64;

#[repr(C)]
struct Kept {
    /// Of the stack; 0 in one that is free, 1 in one that is being filled.
    hash: AtomicU64,
    length: AtomicU32,
    /// Objects that were initialised with this stack.
    objects: AtomicU32,
    frames: [AtomicU64; FRAMES],
}

impl Stacks {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    fn table(&self) -> Option<&[Kept]> {
        let start = self.0.load(Ordering::Acquire);
        // SAFETY: null or as many zeroed entries, which stay; all of them are atomics.
        (!start.is_null()).then(|| unsafe { core::slice::from_raw_parts(start, KEPT) })
    }

    /// A note of a stack: its number, from 1, and from bit [`ORDINAL`] on how many objects were initialised with it, this one
    /// included. 0 if there is no space.
    fn keep(&self, host: &impl Host, frames: &[u64]) -> u64 {
        let Some(table) = zeroed_once(&self.0, host, KEPT) else { return 0 };
        let hash = hash_of(frames).max(2);
        for number in (0..PROBES).map(|probe| (hash as usize + probe) % KEPT) {
            let kept = &table[number];
            let found = kept.hash.load(Ordering::Acquire);
            let note = || {
                let objects = u64::from(kept.objects.fetch_add(1, Relaxed).wrapping_add(1));
                (number as u64 + 1) | objects << ORDINAL
            };
            if found == hash {
                return note();
            }
            if found == 0 && kept.hash.compare_exchange(0, 1, Ordering::Acquire, Relaxed).is_ok() {
                kept.length.store(frames.len() as u32, Relaxed);
                for (word, &frame) in kept.frames.iter().zip(frames) {
                    word.store(frame, Relaxed);
                }
                kept.hash.store(hash, Ordering::Release);
                return note();
            }
        }
        0
    }

    /// Copies the stack of this note, and says how long it is. `None` if it is no note of a stack: an object that was never
    /// initialised may say anything.
    fn get(&self, note: u64, to: &mut [u64; FRAMES]) -> Option<usize> {
        let index = (note as u32 as usize).checked_sub(1)?;
        let kept = self.table()?.get(index).filter(|kept| kept.hash.load(Ordering::Acquire) > 1)?;
        for (frame, word) in to.iter_mut().zip(&kept.frames) {
            *frame = word.load(Relaxed);
        }
        Some((kept.length.load(Relaxed) as usize).min(FRAMES))
    }
}

/// FNV-1a over words: Fowler, Noll and Vo.
pub(super) fn hash_of(frames: &[u64]) -> u64 {
    frames.iter().fold(0xcbf2_9ce4_8422_2325, |hash, frame| {
        let hash = (hash ^ frame).wrapping_mul(0x0100_0000_01b3);
        hash ^ hash >> 29
    })
}

/// What a lock's record says of how the lock is recorded.
fn flags_of(call: Call) -> u64 {
    if call.by_hooks { Lock::BY_HOOKS } else { 0 }
}

fn remembered(address: usize) -> usize {
    // Fibonacci hashing; the low bits of addresses say little.
    ((address as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % REMEMBERED
}
