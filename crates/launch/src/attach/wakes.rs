//! Calls that woke threads at futexes. A thread that releases a lock wakes the next one, so that these calls tell behind whom a thread
//! waited: from its begin or an earlier release up to the next release the lock was the releasing thread's.
//!
//! What is kept is bounded in number and in time. A wait that began before what is kept has the rest of its time behind nothing known.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::futex_waits::FutexWait;

/// Wakes that are kept at a futex, and at all.
const MOST_OF_WORD: usize = 1 << 10;
const MOST: usize = 1 << 16;
/// Stacks of theirs that are told apart.
const MOST_STACKS: usize = 1 << 12;
/// So long they are kept, ns: waits are counted within a second after their end.
const KEPT_NS: u64 = 4_000_000_000;

/// From where a lock is released.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Releaser {
    /// Return addresses outside of the function that wakes, innermost first.
    pub(super) frames: Vec<u64>,
    /// The one of them in the function that releases the lock.
    pub(super) caller: u64,
}

#[derive(Debug)]
struct Wake {
    at_ns: u64,
    by: Rc<Releaser>,
}

#[derive(Debug, Default)]
struct OfWord {
    /// By time.
    wakes: VecDeque<Wake>,
    /// All wakes since then are kept.
    whole_since_ns: u64,
}

/// The wakes of a process.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    by_word: HashMap<u64, OfWord>,
    /// By all return addresses.
    releasers: HashMap<Box<[u64]>, Rc<Releaser>>,
    kept: usize,
}

impl Wakes {
    /// Keeps one; `releaser` tells what is meant by these return addresses.
    pub(super) fn add(
        &mut self,
        word: u64,
        at_ns: u64,
        addresses: &[u64],
        releaser: impl FnOnce() -> Releaser,
    ) {
        let is_known = self.releasers.contains_key(addresses);
        let of_word = self.by_word.entry(word).or_default();
        if self.kept >= MOST || !is_known && self.releasers.len() >= MOST_STACKS {
            of_word.whole_since_ns = of_word.whole_since_ns.max(at_ns);
            return;
        }
        if !is_known {
            self.releasers.insert(addresses.into(), Rc::new(releaser()));
        }
        if of_word.wakes.len() >= MOST_OF_WORD {
            self.kept -= of_word.forget_first();
        }
        let at = of_word.wakes.partition_point(|wake| wake.at_ns <= at_ns);
        of_word.wakes.insert(at, Wake { at_ns, by: self.releasers[addresses].clone() });
        self.kept += 1;
    }

    /// Behind whom a thread waited, and for how long, ns.
    pub(super) fn behind(&self, wait: &FutexWait) -> Vec<(Rc<Releaser>, u64)> {
        let Some(of_word) = self.by_word.get(&wait.call.word) else { return Vec::new() };
        let mut since_ns = wait.begun_ns.max(of_word.whole_since_ns);
        let mut parts: Vec<(Rc<Releaser>, u64)> = Vec::new();
        let first = of_word.wakes.partition_point(|wake| wake.at_ns < since_ns);
        for wake in of_word.wakes.range(first..).take_while(|wake| wake.at_ns <= wait.ended_ns) {
            parts.push((wake.by.clone(), wake.at_ns - since_ns));
            since_ns = wake.at_ns;
        }
        // What it took the woken thread to run.
        if let Some((_, last_ns)) = parts.last_mut() {
            *last_ns += wait.ended_ns.saturating_sub(since_ns);
        }
        parts
    }

    /// Forgets what no wait that is not counted can have ended with: `now_ns` is the present.
    pub(super) fn settle(&mut self, now_ns: u64) {
        let before_ns = now_ns.saturating_sub(KEPT_NS);
        let kept = &mut self.kept;
        self.by_word.retain(|_, of_word| {
            while of_word.wakes.front().is_some_and(|wake| wake.at_ns < before_ns) {
                *kept -= of_word.forget_first();
            }
            !of_word.wakes.is_empty()
        });
    }
}

impl OfWord {
    /// Returns how many that were.
    fn forget_first(&mut self) -> usize {
        let first = self.wakes.pop_front();
        self.whole_since_ns = first.as_ref().map_or(0, |wake| wake.at_ns).max(self.whole_since_ns);
        first.into_iter().count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::futex::Enter;
    use super::*;

    const WORD: u64 = 0x1000;

    fn woken_at(wakes: &mut Wakes, times: &[(u64, u64)]) {
        for &(at_ns, caller) in times {
            wakes.add(WORD, at_ns, &[caller], || Releaser { frames: vec![caller], caller });
        }
    }

    fn behind(wakes: &Wakes, begun_ns: u64, ended_ns: u64) -> Vec<(u64, u64)> {
        let call = Enter { word: WORD, operation: 128, value: 2, stack: None, called: None };
        let parts = wakes.behind(&FutexWait { tid: 1, call, begun_ns, ended_ns, result: 0 });
        parts.iter().map(|(by, ns)| (by.caller, *ns)).collect()
    }

    #[test]
    fn a_wait_is_behind_each_thread_that_released_the_lock_meanwhile() {
        let mut wakes = Wakes::default();
        // They come in another order than they were made in.
        woken_at(&mut wakes, &[(5, 0xa), (140, 0xb), (100, 0xa), (300, 0xb)]);
        assert_eq!(behind(&wakes, 10, 150), [(0xa, 90), (0xb, 50)]);
        assert_eq!(behind(&wakes, 150, 200), []);
        assert_eq!(wakes.releasers.len(), 2);
        let elsewhere = Enter { word: 0x2000, operation: 128, value: 2, stack: None, called: None };
        let wait = FutexWait { tid: 1, call: elsewhere, begun_ns: 10, ended_ns: 150, result: 0 };
        assert_eq!(wakes.behind(&wait), []);
    }

    #[test]
    fn what_is_not_kept_is_behind_nothing_known() {
        let mut wakes = Wakes::default();
        woken_at(&mut wakes, &[(100, 0xa), (KEPT_NS + 50, 0xb), (KEPT_NS + 200, 0xb)]);
        wakes.settle(KEPT_NS + 150);
        assert_eq!((behind(&wakes, 10, KEPT_NS + 50), wakes.kept), (vec![(0xb, KEPT_NS - 50)], 2));
        wakes.settle(3 * KEPT_NS);
        assert_eq!((wakes.by_word.len(), wakes.kept), (0, 0));
    }

    #[test]
    fn they_are_bounded_at_a_word_and_at_all() {
        let mut wakes = Wakes::default();
        let most = MOST_OF_WORD as u64;
        woken_at(&mut wakes, &(1..=most + 9).map(|at| (at, 0xa)).collect::<Vec<_>>());
        assert_eq!((wakes.kept, wakes.by_word[&WORD].whole_since_ns), (MOST_OF_WORD, 9));
        for caller in 0..2 * MOST_STACKS as u64 {
            wakes.add(0x2000, most, &[caller], || Releaser { frames: Vec::new(), caller });
        }
        assert_eq!(wakes.releasers.len(), MOST_STACKS);
        for word in 0..2 * MOST as u64 {
            wakes.add(word, most, &[0xa], || unreachable!("it is known"));
        }
        assert_eq!(wakes.kept, MOST);
    }
}
