//! Locks: numbers, and records of where each was first touched.

use core::sync::atomic::{AtomicU64, Ordering, Ordering::Relaxed};

use super::{Host, Kind, MERGED, PerThread, Recorder, Trace};
use crate::arena::{Block, Need};
use crate::format::{FRAMES, LOCK_LENGTH, Lock, PAGE, Type, UNIT, head};

/// Bytes of a block of lock records.
const LOCK_BLOCK: usize = 16 << 10;
/// Locks remembered by address, for call sites that make one lock after another at the same place.
pub(super) const REMEMBERED: usize = 4096;

impl<H: Host> Recorder<H> {
    /// The record of a number that was found in a lock object, or was given out before.
    pub(super) fn lock(&self, number: u32) -> Option<&Lock> {
        let header = self.arena.header()?;
        let start = u64::from(number) * UNIT;
        // An object in memory that was never initialised, or that comes from an earlier run, may say anything.
        if start < PAGE || start + LOCK_LENGTH as u64 > header.grown.load(Relaxed) {
            return None;
        }
        // SAFETY: inside the file, and aligned; all words of the file are atomic.
        let lock = unsafe { &*self.arena.base().add(start as usize).cast::<Lock>() };
        (lock.head.load(Relaxed) == head(Type::Lock, LOCK_LENGTH)).then_some(lock)
    }

    #[inline(never)]
    pub(super) fn register(&self, t: &PerThread, trace: &Trace, what: Kind, address: usize) -> u32 {
        let mut frames = [0; FRAMES];
        let depth = self.host.stack(&mut frames).min(FRAMES);
        let number = self.lock_again(what, address, &frames[..depth]).unwrap_or_else(|| {
            self.new_lock(t, what, address, &frames[..depth]).unwrap_or_else(|| {
                if let Some(process) = self.process() {
                    process.merged_locks.fetch_add(1, Relaxed);
                }
                MERGED
            })
        });
        // Readers may come here at the same time; the first number stays.
        match trace.place.compare_exchange(0, u64::from(number), Relaxed, Relaxed) {
            Ok(_) => number,
            Err(place) => place as u32,
        }
    }

    /// The lock of the same kind that the same call path first touched at the same address before, as a new generation.
    fn lock_again(&self, what: Kind, address: usize, frames: &[u64]) -> Option<u32> {
        let number = self.remembered[remembered(address)].load(Relaxed);
        let lock = self.lock(number)?;
        let kind = lock.kind.load(Relaxed);
        let same = lock.address.load(Relaxed) == address as u64
            && kind as u32 == what as u32
            && lock.frames.load(Relaxed) == frames.len() as u64
            && (0..).zip(frames).all(|(i, &frame)| frame_of(lock, i).load(Relaxed) == frame);
        if !same {
            return None;
        }
        lock.kind.store(kind.wrapping_add(1 << 32), Relaxed);
        lock.destroyed_ticks.store(0, Relaxed);
        Some(number)
    }

    #[inline(never)]
    fn new_lock(&self, t: &PerThread, what: Kind, address: usize, frames: &[u64]) -> Option<u32> {
        let header = self.arena.header()?;
        // Lock records get a quarter of the file at most: without pairs they say nothing.
        if header.lock_bytes.load(Relaxed) > header.limit.load(Relaxed) / 4 {
            return None;
        }
        let start = self.room_for_lock()?;
        header.lock_bytes.fetch_add(LOCK_LENGTH as u64, Relaxed);
        // SAFETY: the room is this call's alone, long enough and aligned, in the mapping.
        let lock = unsafe { &*start.cast::<Lock>() };
        lock.address.store(address as u64, Relaxed);
        lock.kind.store(what as u64, Relaxed);
        lock.first_ticks.store(H::stamp(), Relaxed);
        // SAFETY: the thread has a slot, and its record lies in the mapping.
        lock.thread.store(self.arena.position_of(unsafe { &*(*t.slot.get()).thread }), Relaxed);
        lock.frames.store(frames.len() as u64, Relaxed);
        for (i, &frame) in frames.iter().enumerate() {
            frame_of(lock, i).store(frame, Relaxed);
        }
        lock.head.store(head(Type::Lock, LOCK_LENGTH), Ordering::Release);
        let number = u32::try_from(self.arena.position_of(lock)).ok().filter(|&number| number != MERGED)?;
        self.remembered[remembered(address)].store(number, Relaxed);
        Some(number)
    }

    #[inline(never)]
    fn room_for_lock(&self) -> Option<*mut u8> {
        loop {
            let current = self.locks.load(Ordering::Acquire);
            if !current.is_null() {
                // SAFETY: it was the start of a block, and the mapping stays.
                if let Some(room) = unsafe { Block::from_start(current) }.take(LOCK_LENGTH) {
                    return Some(room);
                }
            }
            let block = self.arena.allocate(
                &self.host,
                Need::Detail,
                self.section_number(),
                0,
                LOCK_BLOCK - UNIT as usize,
            )?;
            // If another thread was faster this block stays empty, which a reader does not mind.
            let _ = self.locks.compare_exchange(current, block.start(), Ordering::AcqRel, Relaxed);
        }
    }
}

fn remembered(address: usize) -> usize {
    // Fibonacci hashing; the low bits of addresses say little.
    ((address as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % REMEMBERED
}

fn frame_of(lock: &Lock, i: usize) -> &AtomicU64 {
    assert!(i < FRAMES);
    // SAFETY: FRAMES words follow a lock record, see LOCK_LENGTH.
    unsafe { &*core::ptr::from_ref(lock).add(1).cast::<AtomicU64>().add(i) }
}
