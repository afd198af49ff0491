//! Sequence lock: readers of a small value write nothing, and read again when a writer came between.
//!
//! | word       | written by          | meaning                                                       |
//! |------------|---------------------|---------------------------------------------------------------|
//! | `sequence` | the writer alone    | twice the number of writes; odd (`WRITING`) while one is under way |
//! | `words`    | the writer alone    | the value                                                     |
//! | `writers`  | see the lock        | excludes writers, and readers that have tried too often       |
//!
//! A reader reads the sequence, the words, and the sequence again. The value is whole if both are the same even number. The words
//! are atomic and read without order, so that a reader beside a writer is no data race: it reads what it then throws away. Two fences
//! order them: a reader that has read a word of a write sees at least the odd number before it.
//!
//! Order: that of `writers` among writers, who do not wait for readers. A reader whose attempts failed eight times takes the writers' lock,
//! which bounds its wait as that lock does. The sequence has 64 bits, so that it does not come round while a reader is interrupted.
//! Source: Linux 2.5.60; Lameter 2005; Boehm 2012 for the orderings.

use core::fmt;
use core::marker::PhantomData;

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Machine, Patient, Word};

use crate::api::{Mutex, MutexGuard};
use crate::{Futex, TryLock};

const WRITING: u64 = 1;

/// How often a reader tries before it takes the writers' lock.
const TRIES: u32 = 8;

/// A value of `WORDS` words that is read without a write to shared memory: readers scale with the cores, and a reader costs as many
/// loads as there are words, and two. A write costs a lock besides.
///
/// For values of a few words that change rarely and are read often: a time and its rate, a configuration, a pair of bounds. The value
/// is copied out, so that it holds no references; for larger ones take a [`ReadMostly`](crate::ReadMostly).
///
/// `T` is an array of `u64` or whatever turns into one and back by [`From`]. A reader that sees a write sees what its writer did before.
/// A signal handler may [`try_read`](Self::try_read) whatever it interrupts; it must not `read` or write what its thread may be writing.
///
/// ```
/// use contend_locks::prelude::*;
///
/// #[derive(Clone, Copy, PartialEq, Debug)]
/// struct Range { from: u64, to: u64 }
/// impl From<[u64; 2]> for Range {
///     fn from([from, to]: [u64; 2]) -> Self { Self { from, to } }
/// }
/// impl From<Range> for [u64; 2] {
///     fn from(range: Range) -> Self { [range.from, range.to] }
/// }
///
/// static RANGE: SeqLock<Range, 2> = SeqLock::new(); // words of zero
/// RANGE.write(Range { from: 3, to: 5 });
/// RANGE.update(|range| Range { to: range.to + 1, ..range });
/// assert_eq!(RANGE.read(), Range { from: 3, to: 6 });
/// ```
#[repr(C)]
pub struct SeqLock<T, const WORDS: usize, L: TryLock<M> = Futex, M: Machine = Patient> {
    sequence: M::U64,
    words: [M::U64; WORDS],
    writers: Mutex<(), L, M>,
    value: PhantomData<fn(T) -> T>,
}

const _: () = assert!(size_of::<SeqLock<[u64; 2], 2>>() == 32);

impl<T, const WORDS: usize, L: TryLock<M>, M: Machine> SeqLock<T, WORDS, L, M>
where
    T: From<[u64; WORDS]> + Into<[u64; WORDS]>,
{
    /// The lock, with the value whose words are zero.
    #[must_use]
    pub const fn new() -> Self {
        let words = [const { M::U64::ZERO }; WORDS];
        Self { sequence: M::U64::ZERO, words, writers: Mutex::new(()), value: PhantomData }
    }

    /// Reads the value. Waits while a writer writes.
    #[inline]
    #[must_use]
    pub fn read(&self) -> T {
        let mut tries = 0;
        loop {
            let before = M::spin_until(&self.sequence, Acquire, |now| now & WRITING == 0); // [1] from the last write
            if let Some(value) = self.read_since(before) {
                return value;
            }
            tries += 1;
            if M::is_at_limit(tries, TRIES) {
                return self.read_as_writer();
            }
        }
    }

    /// Reads the value if no thread writes meanwhile.
    #[inline]
    #[must_use]
    pub fn try_read(&self) -> Option<T> {
        let before = self.sequence.load(Acquire); // [1] from the last write
        if before & WRITING == 0 { self.read_since(before) } else { None }
    }

    /// The value, if it is still that of this number.
    #[inline]
    fn read_since(&self, before: u64) -> Option<T> {
        let words = self.load();
        M::fence(Acquire); // [2] from the write of which a word was read
        (self.sequence.load(Relaxed) == before).then(|| words.into())
    }

    #[cold]
    fn read_as_writer(&self) -> T {
        let _excludes: MutexGuard<'_, (), L, M> = self.writers.lock();
        self.load().into()
    }

    #[inline]
    fn load(&self) -> [u64; WORDS] {
        core::array::from_fn(|word| self.words[word].load(Relaxed))
    }

    /// Writes the value.
    pub fn write(&self, value: T) {
        self.update(|_| value);
    }

    /// Writes what `change` makes of the value. It runs with the writers' lock, and so must not come back to this; where it panics the
    /// value stays.
    pub fn update(&self, change: impl FnOnce(T) -> T) {
        let _excludes: MutexGuard<'_, (), L, M> = self.writers.lock();
        let words: [u64; WORDS] = change(self.load().into()).into();
        let before = self.sequence.load(Relaxed); // only writers write it
        self.sequence.store(before | WRITING, Relaxed);
        M::fence(Release); // [2] to readers of the words behind it
        for (word, value) in self.words.iter().zip(words) {
            word.store(value, Relaxed);
        }
        self.sequence.store(before.wrapping_add(2), Release); // [1] to readers
    }
}

impl<T, const WORDS: usize, L: TryLock<M>, M: Machine> Default for SeqLock<T, WORDS, L, M>
where
    T: From<[u64; WORDS]> + Into<[u64; WORDS]>,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const WORDS: usize, L: TryLock<M>, M: Machine> fmt::Debug for SeqLock<T, WORDS, L, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeqLock").field("writes", &(self.sequence.load(Relaxed) / 2)).finish_non_exhaustive()
    }
}
