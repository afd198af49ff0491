//! Ticket lock in 4 bytes.
//!
//! Both counters are halves of one word, so that one fetch-and-add draws a number and sees who is served, and a try
//! compares both at once. The release stores one half alone.
//!
//! | half           | written by            | meaning                        |
//! |----------------|-----------------------|--------------------------------|
//! | 0: `serving`   | the holder alone      | the number that holds the lock |
//! | 1: `next`      | acquirers, atomically | the number drawn next          |
//!
//! Free while the halves are equal. Numbers wrap at 65,536, so that fewer threads than that may wait at once. An acquirer that
//! finds half as many before it ends the process: it cannot give its number back, since others have drawn behind it, and to
//! unwind would leave a number that no thread releases. A try that compared one half could take a lock that has gone round.
//! Order: first in, first out; no waiter is bypassed. Any thread may release.
//! Source: Linux 2.6.25 to 4.1.

use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Integer, Machine, Part, Patient, Word};

use crate::{FairLock, RawLock, TryLock};

const ONE_NEXT: u32 = 1 << 16;
const SERVING: Part = Part::Half(0);
/// As many may wait: the other half of the numbers is for those who have drawn one and not yet found that out.
const MOST_WAITERS: u16 = 1 << 15;

/// The ticket lock in 4 bytes: up to 32,768 threads may wait.
pub struct Ticket4<M: Machine = Patient> {
    word: M::U32,
}

const _: () = assert!(size_of::<Ticket4>() == 4);

const fn serving(word: u32) -> u16 {
    word as u16
}

const fn next(word: u32) -> u16 {
    (word >> 16) as u16
}

// SAFETY: every number is drawn once, and served when the one before has been released.
unsafe impl<M: Machine> RawLock<M> for Ticket4<M> {
    const NEW: Self = Self { word: M::U32::ZERO };

    #[inline]
    fn acquire(&self) {
        let drawn = self.word.fetch_add(ONE_NEXT, Acquire); // [1] from release, when it is our turn already
        let mine = next(drawn);
        let before = mine.wrapping_sub(serving(drawn));
        if before != 0 {
            if before > MOST_WAITERS {
                M::end_program("more threads wait for a lock than its numbers allow");
            }
            // [1] from release
            M::spin_until_written(&self.word, Acquire, u32::from(mine), |word| serving(word) == mine);
        }
    }

    #[inline]
    unsafe fn release(&self) {
        let mine = serving(self.word.load(Relaxed)); // only the holder writes that half
        self.word.store_part(SERVING, mine.wrapping_add(1), Release); // [1] to the next acquirer
    }

    fn is_idle(&self) -> bool {
        let word = self.word.load(Relaxed);
        serving(word) == next(word)
    }

    const WRAPS: bool = true;

    unsafe fn near_wrap(&self) {
        self.word.store(u32::MAX, Relaxed);
    }
}

impl<M: Machine> FairLock<M> for Ticket4<M> {}

// SAFETY: true only after such an entry.
unsafe impl<M: Machine> TryLock<M> for Ticket4<M> {
    #[inline]
    fn try_acquire(&self) -> bool {
        let now = self.word.load(Relaxed);
        serving(now) == next(now)
            && self.word.compare_exchange(now, now.wrapping_add(ONE_NEXT), Acquire, Relaxed).is_ok() // [1] from release
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;

    #[test]
    fn numbers_wrap_inside_their_halves() {
        let lock = Ticket4::<Patient>::NEW;
        let rounds = if cfg!(miri) { 16 } else { 3 * 65_536 };
        if cfg!(miri) {
            lock.word.store(0xfff8_fff8, Relaxed); // as after that many rounds
        }
        for _ in 0..rounds {
            lock.acquire();
            assert!(!lock.try_acquire());
            // SAFETY: acquired above.
            unsafe { lock.release() };
        }
        assert_eq!(lock.word.load(Relaxed) & 0xffff, lock.word.load(Relaxed) >> 16);
        assert!(lock.try_acquire());
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no processes")]
    fn numbers_that_are_nearly_all_drawn_end_the_process() {
        const CHILD: &str = "CONTEND_TEST_TICKET4_OUT_OF_NUMBERS";
        let name = "ticket4::tests::numbers_that_are_nearly_all_drawn_end_the_process";
        if std::env::var_os(CHILD).is_some() {
            let lock = Ticket4::<Patient>::NEW;
            lock.word.store((u32::from(MOST_WAITERS) + 1) << 16, Relaxed); // as when that many wait
            let _ = std::panic::catch_unwind(|| lock.acquire());
            return; // the number is drawn, and its owner is gone: what the abort prevents
        }
        let mut child = std::process::Command::new(std::env::current_exe().expect("this test"));
        let output =
            child.args([name, "--exact", "--nocapture"]).env(CHILD, "1").output().expect("it starts");
        let said = std::string::String::from_utf8_lossy(&output.stderr);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(6), "{said}");
        assert!(said.contains("more threads wait for a lock"), "{said}");
    }
}
