//! Lock and reference count in one word.
//!
//! While no thread holds the lock, the count is changed by a compare-and-swap of the whole word, which fails if the lock
//! has been taken meanwhile; so the holder may rely on the count as on anything else that the lock protects. After a
//! few failures the lock is taken instead.
//!
//! | bits     | name   | set by    | meaning                                                |
//! |----------|--------|-----------|--------------------------------------------------------|
//! | 0 to 7   | `HELD` | acquirers | the lock is held; its release stores this byte         |
//! | 32 to 63 | count  | any thread while the lock is free, else the holder | references; negative: dead |
//!
//! Order of the lock: none; a waiter may be bypassed without bound. Any thread may release.
//! Source: Linux 3.12 `lib/lockref.c`.

use machine::Ordering::{AcqRel, Acquire, Relaxed, Release};
use machine::{GaveUp, Integer, Machine, Part, Patient, Timeout, Word};

use crate::{RawLock, TimedLock, TryLock};

const HELD: u64 = 1;
const HELD_PART: Part = Part::Byte(0);
const COUNT_SHIFT: u32 = 32;

/// How often a change of the count is tried before the lock is taken.
const RETRIES: u32 = 100;

/// The count of a dead object: far enough below zero that no stray reference brings it back.
const DEAD: i32 = -128;

/// The lock with a reference count, 8 bytes.
///
/// ```
/// use contend_locks::{LockRef, RawLock};
///
/// static ENTRY: LockRef = LockRef::NEW;
/// assert_eq!(ENTRY.get(), 1);
/// assert!(!ENTRY.put_or_lock()); // the last reference: now the lock is held
/// ENTRY.mark_dead();
/// // SAFETY: held since the last reference was not dropped.
/// unsafe { ENTRY.release() };
/// assert!(!ENTRY.get_not_dead());
/// ```
pub struct LockRef<M: Machine = Patient> {
    word: M::U64,
}

const _: () = assert!(size_of::<LockRef>() == 8);

const fn count(word: u64) -> i32 {
    (word >> COUNT_SHIFT) as i32
}

const fn with_count(word: u64, count: i32) -> u64 {
    word & u32::MAX as u64 | (count as u32 as u64) << COUNT_SHIFT
}

/// How a change of the count ended.
enum Changed {
    /// Done; what the count is now.
    To(i32),
    /// The change refuses this count; the lock has not been taken.
    Refused,
    /// Others were faster, or the lock is held.
    Busy,
}

impl<M: Machine> LockRef<M> {
    /// How many references there are, as of some moment ago; negative when dead.
    #[inline]
    pub fn count(&self) -> i32 {
        count(self.word.load(Relaxed))
    }

    /// Changes the count while no thread holds the lock.
    #[inline]
    fn change_unlocked(&self, change: &impl Fn(i32) -> Option<i32>) -> Changed {
        let mut word = self.word.load(Relaxed);
        let mut tries = 0;
        loop {
            if word & HELD != 0 || tries > 0 && M::is_at_limit(tries, RETRIES) {
                return Changed::Busy;
            }
            let Some(new) = change(count(word)) else { return Changed::Refused };
            // As a lock and its release: [1] from the last one, and to the next.
            match self.word.compare_exchange(word, with_count(word, new), AcqRel, Relaxed) {
                Ok(_) => return Changed::To(new),
                Err(now) => (word, tries) = (now, tries + 1),
            }
        }
    }

    /// Changes the count by the holder of the lock.
    fn change_locked(&self, change: &impl Fn(i32) -> Option<i32>) -> Option<i32> {
        let old = self.count();
        let new = change(old)?;
        self.add_locked(new.wrapping_sub(old));
        Some(new)
    }

    /// Adds to the count. The caller holds the lock, so that the other functions would wait for it.
    #[inline]
    pub fn add_locked(&self, references: i32) {
        self.word.fetch_add(u64::from(references as u32) << COUNT_SHIFT, Relaxed); // the release publishes it
    }

    /// Changes the count, if need be with the lock.
    #[inline]
    fn change(&self, change: impl Fn(i32) -> Option<i32>) -> Option<i32> {
        match self.change_unlocked(&change) {
            Changed::To(new) => Some(new),
            Changed::Refused => None,
            Changed::Busy => {
                self.acquire();
                let new = self.change_locked(&change);
                // SAFETY: acquired above.
                unsafe { self.release() };
                new
            }
        }
    }

    /// Takes a reference, on top of one that the caller has, or another thread on its behalf. Gives the new count.
    ///
    /// # Panics
    /// When 2³¹ − 1 references are out, which can only be forgotten ones.
    #[inline]
    pub fn get(&self) -> i32 {
        self.change(|count| count.checked_add(1)).expect("more references than can be counted")
    }

    /// Takes a reference unless there is none, the object is dead, or no more can be counted.
    #[inline]
    pub fn get_not_zero(&self) -> bool {
        self.change(|count| if count > 0 { count.checked_add(1) } else { None }).is_some()
    }

    /// Takes a reference unless the object is dead, or no more can be counted.
    #[inline]
    pub fn get_not_dead(&self) -> bool {
        self.change(|count| if count >= 0 { count.checked_add(1) } else { None }).is_some()
    }

    /// Drops a reference unless it is the last one: then it is kept, the caller holds the lock, and the answer is
    /// false.
    #[inline]
    pub fn put_or_lock(&self) -> bool {
        let put = |count: i32| (count > 1).then_some(count - 1);
        if let Changed::To(_) = self.change_unlocked(&put) {
            return true;
        }
        self.acquire();
        let done = self.change_locked(&put).is_some();
        if done {
            // SAFETY: acquired above.
            unsafe { self.release() };
        }
        done
    }

    /// Drops a reference unless it is the last one; says whether it did.
    #[inline]
    pub fn put_not_last(&self) -> bool {
        self.change(|count| (count > 1).then_some(count - 1)).is_some()
    }

    /// Marks the object dead: no thread gets a reference any more by `get_not_zero` or `get_not_dead`, and none may call `get`. The
    /// caller holds the lock.
    pub fn mark_dead(&self) {
        self.change_locked(&|_| Some(DEAD));
    }
}

// SAFETY: between two releases one read-modify-write sets the bit.
unsafe impl<M: Machine> RawLock<M> for LockRef<M> {
    const NEW: Self = Self { word: M::U64::ZERO };

    #[inline]
    fn acquire(&self) {
        let _: Result<(), GaveUp> = self.acquire_or(Timeout::NONE); // never gives up
    }

    #[inline]
    unsafe fn release(&self) {
        self.word.store_part(HELD_PART, 0, Release); // [1] to the next acquirer
    }

    /// The lock, that is; references may be out.
    fn is_idle(&self) -> bool {
        self.word.load(Relaxed) & u64::from(u32::MAX) == 0
    }
}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for LockRef<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        self.word.load(Relaxed) & HELD == 0 && self.word.fetch_or(HELD, Acquire) & HELD == 0 // [1] from release
    }
}

// SAFETY: `Ok` only after such an entry.
unsafe impl<M: Machine> TimedLock<M> for LockRef<M> {
    #[inline]
    fn acquire_or(&self, timeout: Timeout<'_, M>) -> Result<(), GaveUp> {
        // Each turn that does not end the loop is one in which another thread got the lock. [1] from release
        while self.word.fetch_or(HELD, Acquire) & HELD != 0 {
            M::spin_until_or(&self.word, Relaxed, timeout, |word| word & HELD == 0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Plan;

    #[test]
    fn references_add_up_with_and_without_the_lock() {
        static ENTRY: LockRef<Patient> = LockRef::NEW;
        ENTRY.get();
        Patient::run(&Plan::threads(6), &|thread| {
            for round in 0..if cfg!(miri) { 10 } else { 500 } {
                if (thread + round) % 5 == 0 {
                    ENTRY.acquire();
                    let before = ENTRY.count();
                    Patient::delay(200);
                    assert_eq!(ENTRY.count(), before, "the count changed while the lock was held");
                    // SAFETY: acquired above.
                    unsafe { ENTRY.release() };
                } else {
                    assert!(ENTRY.get_not_zero());
                    assert!(ENTRY.put_or_lock());
                }
            }
        });
        assert_eq!(ENTRY.count(), 1);
    }

    #[test]
    fn the_last_reference_is_dropped_under_the_lock_alone() {
        let entry = LockRef::<Patient>::NEW;
        assert!(!entry.get_not_zero());
        assert_eq!(entry.get(), 1);
        assert!(!entry.put_not_last());
        assert!(!entry.put_or_lock());
        assert!(!entry.try_acquire());
        entry.mark_dead();
        // SAFETY: acquired above.
        unsafe { entry.release() };
        assert_eq!(entry.count(), DEAD);
        assert!(!entry.get_not_dead() && !entry.get_not_zero());
        assert!(entry.try_acquire());
    }
}
