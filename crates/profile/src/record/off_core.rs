//! Why a hold was long: whether the holder ran, slept, was preempted, or waited for another lock.
//!
//! The kernel tells a thread for nothing that it has left its core ([`Host::stayed_on_core`]), so that a hold in which it has not
//! costs a load more. One in which it has is worth three system calls, at the first timed acquisition or release after it: they say how long it was
//! off its core since the last such look, and whether it went by itself. What is found is added to sums of the thread, of which each
//! timed hold remembers what they were when it began.
//!
//! | since the last look           | what the time off the core was     |
//! |-------------------------------|------------------------------------|
//! | in a wait for a lock          | waiting, as is the rest of the wait |
//! | voluntary switches alone      | sleeping                           |
//! | involuntary switches alone    | preempted                          |
//! | both                          | both, in proportion to their number |
//!
//! A signal handler may come in between, and look too. It finds that a look is going on, and does without.
//!
//! Programs whose threads sleep at every hand-over would be slowed down by a look at each. So a thread looks for a hold that is in no
//! other one at most once in [`RARELY_NS`]; holds that begin before that are of unknown kind, whatever happens in them, and the
//! shares are those of the others.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::callers::caller_in;
use super::{Host, PerThread, Recorder, add};
use crate::format::{ByStack, Pair};

/// What a thread knows of its time off its core.
#[derive(Debug)]
pub(super) struct OffCore {
    /// Ticks that it has waited for locks within timed holds, or been off its core: `waited`, `slept` and the preempted ones.
    pub(super) lost: Cell<u64>,
    pub(super) waited: Cell<u64>,
    pub(super) slept: Cell<u64>,
    /// Stamp of the last look.
    looked: Cell<u64>,
    /// What the last look found: time on a core, ns.
    running_ns: Cell<u64>,
    /// What it found: voluntary and involuntary switches.
    switches: Cell<[u64; 2]>,
    /// Looks one after another that found no switch.
    vain: Cell<u32>,
    /// Set during a look.
    looking: Cell<bool>,
    /// Whether every switch since the last look is still to be seen, so that the next look tells what was between.
    known: Cell<bool>,
}

/// Between looks for holds that are in no other one: a look is 1 or 2 per cent of that.
const RARELY_NS: u64 = 100_000;

/// What a pair says of `lost_before` where it is unknown what its thread does in the hold. Ticks do not come so far.
const UNKNOWN: u64 = u64::MAX;

/// After so many looks for nothing something in the program is taken to use the word that tells of switches, as its own restartable
/// sequences do: a signal, which looks the same, does not come so often without a switch.
const VAIN: u32 = 1000;

impl OffCore {
    pub(super) const fn new() -> Self {
        Self {
            lost: Cell::new(0),
            waited: Cell::new(0),
            slept: Cell::new(0),
            looked: Cell::new(0),
            running_ns: Cell::new(0),
            switches: Cell::new([0; 2]),
            vain: Cell::new(0),
            looking: Cell::new(false),
            known: Cell::new(false),
        }
    }

    /// Forgets what was found of another thread: the parent's, in a forked child.
    pub(super) fn forget(&self) {
        self.looking.set(false);
        self.known.set(false);
        self.vain.set(0);
    }

    /// Whether all switches since the last look are still to be seen.
    #[inline]
    pub(super) fn is_known(&self) -> bool {
        self.known.get()
    }

    /// What there was in the sums when the hold of this pair began, which is now.
    #[inline]
    pub(super) fn begins(&self, pair: &Pair) {
        pair.lost_before.store(if self.known.get() { self.lost.get() } else { UNKNOWN }, Relaxed);
        pair.waited_before.store(self.waited.get(), Relaxed);
        pair.slept_before.store(self.slept.get(), Relaxed);
    }

    /// Adds ticks off the core, between which there were so many voluntary and involuntary switches.
    fn add_off_core(&self, ticks: u64, [voluntary, involuntary]: [u64; 2]) {
        let switches = u128::from(voluntary) + u128::from(involuntary);
        if switches == 0 {
            return;
        }
        let slept = (u128::from(ticks) * u128::from(voluntary) / switches) as u64;
        self.lost.set(self.lost.get().wrapping_add(ticks));
        self.slept.set(self.slept.get().wrapping_add(slept));
    }

    fn add_waited(&self, ticks: u64) {
        self.lost.set(self.lost.get().wrapping_add(ticks));
        self.waited.set(self.waited.get().wrapping_add(ticks));
    }

    /// Of so many ticks of a hold of this pair, those that were waited, slept, and preempted: together not more.
    fn since(&self, pair: &Pair, ticks: u64) -> [u64; 3] {
        let lost = self.lost.get().wrapping_sub(pair.lost_before.load(Relaxed));
        let waited = self.waited.get().wrapping_sub(pair.waited_before.load(Relaxed));
        let slept = self.slept.get().wrapping_sub(pair.slept_before.load(Relaxed));
        let preempted = lost.wrapping_sub(waited).wrapping_sub(slept);
        let mut left = ticks;
        [waited, slept, preempted].map(|part| {
            let part = part.min(left);
            left -= part;
            part
        })
    }
}

impl<H: Host> Recorder<H> {
    /// Finds out how long the calling thread was off its core since the last look, and watches it from here on. Of the ticks before
    /// now, `waited` were in a wait for a lock.
    #[cold]
    #[inline(never)]
    pub(super) fn look(&self, t: &PerThread, waited: u64) {
        let of = &t.off_core;
        if of.looking.replace(true) {
            return;
        }
        if !self.host.watch_core() {
            self.watch_no_more();
        }
        let running_ns = self.host.running_ns();
        let now = H::stamp();
        let switches = self.host.switches();
        let before = of.switches.replace(switches);
        let ran = self.ticks_of(running_ns.saturating_sub(of.running_ns.replace(running_ns)), now);
        let off = now.saturating_sub(of.looked.replace(now)).saturating_sub(ran);
        let switched = core::array::from_fn(|kind| switches[kind].saturating_sub(before[kind]));
        of.add_off_core(off.saturating_sub(waited), switched);
        of.vain.set(if switched == [0; 2] { of.vain.get() + 1 } else { 0 });
        if of.vain.get() == VAIN {
            self.watch_no_more();
        }
        of.known.set(true);
        of.looking.set(false);
    }

    /// Looks at the beginning of a hold, if that is worth it; or else watches the calling thread from here on, without knowing what was
    /// before. A hold within another one, of which something is known, is always worth it. True if it took time.
    #[cold]
    #[inline(never)]
    pub(super) fn look_at_beginning(&self, t: &PerThread, within: bool, now: u64) -> bool {
        let of = &t.off_core;
        let looked = of.looked.get();
        if looked == 0
            || (within && of.known.get())
            || now.saturating_sub(looked) > self.rate.ticks(RARELY_NS)
        {
            self.look(t, 0);
            return true;
        }
        if of.known.replace(false) && !self.host.watch_core() {
            self.watch_no_more();
        }
        false
    }

    fn watch_no_more(&self) {
        self.host.stop_watching();
        if let Some(process) = self.process() {
            process.watches_cores.store(0, Relaxed);
        }
    }

    /// Ticks for ns, by the clocks at the file's creation and now.
    fn ticks_of(&self, ns: u64, now: u64) -> u64 {
        let Some(header) = self.arena.header() else { return 0 };
        let elapsed_ns = self.host.monotonic_ns().saturating_sub(header.clock_first_ns.load(Relaxed));
        let elapsed = now.saturating_sub(header.clock_first_ticks.load(Relaxed));
        (ns as f64 * (elapsed as f64 / elapsed_ns.max(1) as f64)) as u64
    }

    /// The caller waited for the lock of `pair` so long, in a timed hold of the pair with the key `section`.
    #[cold]
    #[inline(never)]
    pub(super) fn waited_within(&self, t: &PerThread, pair: &Pair, section: u64, ticks: u64) {
        if !H::stayed_on_core() {
            self.look(t, ticks);
        }
        t.off_core.add_waited(ticks);
        let Some(holding) = t.find(section) else { return };
        let Some(slot) = caller_in(holding.state.load(Relaxed)).checked_sub(1) else { return };
        let Some(by_caller) = self.by_caller(holding).or_else(|| self.give_by_caller(t, holding)) else {
            return;
        };
        // The bits may be any: a process that shares the file may have written them.
        if let (Some(lock), Some(votes)) =
            (by_caller.waited_for.get(slot), by_caller.waited_for_votes.get(slot))
        {
            vote(lock, votes, pair.key.load(Relaxed), ticks);
        }
    }

    /// What the thread did in a timed hold that ends, which took so many ticks. `state` is the pair's, and `by_stack` the record of the
    /// stack that releases it, if that was walked.
    #[cold]
    #[inline(never)]
    pub(super) fn explain_hold(
        &self,
        t: &PerThread,
        pair: &Pair,
        state: u64,
        ticks: u64,
        by_stack: Option<&ByStack>,
    ) {
        let parts = if pair.lost_before.load(Relaxed) == UNKNOWN {
            [0, 0, 0, ticks]
        } else {
            if !H::stayed_on_core() {
                self.look(t, 0);
            }
            let [waited, slept, preempted] = t.off_core.since(pair, ticks);
            [waited, slept, preempted, 0]
        };
        if parts == [0; 4] {
            return;
        }
        let sums = [
            &pair.hold_waited_ticks, &pair.hold_slept_ticks, &pair.hold_preempted_ticks,
            &pair.hold_unknown_ticks,
        ];
        for (sum, ticks) in sums.into_iter().zip(parts) {
            add(sum, ticks);
        }
        if let Some(by_stack) = by_stack {
            let sums = [
                &by_stack.hold_waited_ticks, &by_stack.hold_slept_ticks, &by_stack.hold_preempted_ticks,
                &by_stack.hold_unknown_ticks,
            ];
            for (sum, ticks) in sums.into_iter().zip(parts) {
                sum.fetch_add(ticks, Relaxed);
            }
        }
        let Some(slot) = caller_in(state).checked_sub(1) else { return };
        let Some(by_caller) = self.by_caller(pair) else { return };
        let sums = [
            &by_caller.hold_waited_ticks, &by_caller.hold_slept_ticks, &by_caller.hold_preempted_ticks,
            &by_caller.hold_unknown_ticks,
        ];
        for (sum, ticks) in sums.into_iter().zip(parts) {
            if let Some(sum) = sum.get(slot) {
                add(sum, ticks);
            }
        }
    }
}

/// So many votes for a lock, in a majority vote that it or another one may lead.
fn vote(lock: &AtomicU64, votes: &AtomicU64, key: u64, count: u64) {
    let leads = votes.load(Relaxed);
    let votes_now = if lock.load(Relaxed) == key {
        leads.saturating_add(count)
    } else if leads < count {
        lock.store(key, Relaxed);
        count - leads
    } else {
        leads - count
    };
    votes.store(votes_now, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_off_the_core_is_divided_by_the_kinds_of_switches() {
        let of = OffCore::new();
        let pair = Pair::zeroed();
        of.begins(&pair);
        assert_eq!(pair.lost_before.load(Relaxed), UNKNOWN, "nobody has looked");
        of.known.set(true);
        of.add_off_core(7, [1, 0]);
        of.begins(&pair);
        of.add_off_core(1_000, [0, 0]);
        assert_eq!(of.since(&pair, 100), [0, 0, 0], "it did not switch");
        of.add_off_core(30, [2, 0]);
        of.add_off_core(20, [0, 5]);
        of.add_off_core(40, [3, 1]);
        of.add_waited(5);
        assert_eq!(of.since(&pair, 200), [5, 60, 30]);
    }

    #[test]
    fn parts_are_together_not_more_than_the_hold() {
        let of = OffCore::new();
        let pair = Pair::zeroed();
        of.known.set(true);
        of.begins(&pair);
        of.add_off_core(u64::MAX / 2, [u64::MAX, u64::MAX]);
        of.add_waited(10);
        assert_eq!(of.since(&pair, 100), [10, 90, 0]);
        // A process that shares the file may have written anything.
        pair.waited_before.store(u64::MAX, Relaxed);
        assert_eq!(of.since(&pair, 100).iter().sum::<u64>(), 100);
    }

    #[test]
    fn the_lock_with_most_ticks_leads() {
        let (lock, votes) = (AtomicU64::new(0), AtomicU64::new(0));
        for (key, count) in [(2, 10), (4, 30), (2, 15), (4, 1)] {
            vote(&lock, &votes, key, count);
        }
        assert_eq!((lock.load(Relaxed), votes.load(Relaxed)), (4, 6));
    }
}
