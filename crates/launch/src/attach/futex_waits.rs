//! Waits out of the beginnings and ends of futex calls.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use super::futex::{Enter, FutexCall, FutexEvent};

/// What the word of glibc's and Rust's mutexes holds while a thread waits: a release from it always calls futex(2).
pub(super) const CONTENDED: u32 = 2;

/// What the kernel returns to itself where a call is made again after a signal: `-ERESTART_RESTARTBLOCK` to `-ERESTARTSYS`.
const RESTARTS: RangeInclusive<i64> = -516..=-512;

/// One call is told twice within less; a later one is another call, and the end of the first was lost.
const TOLD_TWICE_NS: u64 = 100_000;

/// A wait of a thread, or the calls of one that could not acquire a lock at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FutexWait {
    /// Who waits.
    pub(crate) tid: u32,
    /// What the first call was asked.
    pub(crate) call: Enter,
    /// When the first call began, ns.
    pub(crate) begun_ns: u64,
    /// When the last call ended, ns.
    pub(crate) ended_ns: u64,
    /// What the last call returned: a negated error number below 0.
    pub(crate) result: i64,
}

impl FutexWait {
    /// From the beginning of the first call to the end of the last, ns.
    pub(crate) fn duration_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.begun_ns)
    }

    /// Whether the time was over before another thread woke this one.
    pub(crate) fn timed_out(&self) -> bool {
        self.result == i64::from(-libc::ETIMEDOUT)
    }

    /// Whether a signal ended the last call: it is made again, by the kernel or by the C library.
    fn was_interrupted(&self) -> bool {
        RESTARTS.contains(&self.result) || self.result == i64::from(-libc::EINTR)
    }

    /// Whether a call goes on with this wait: it is the same one after a signal, or it may be another attempt to acquire the same lock,
    /// since a thread that had acquired it would have made a call to release it.
    fn goes_on_with(&self, next: &Enter) -> bool {
        let first = &self.call;
        (next.word, next.value) == (first.word, first.value)
            && (self.was_interrupted() && next.operation == first.operation
                || next.value == CONTENDED && !self.timed_out())
    }
}

/// A thread's last call that waits.
#[derive(Debug)]
enum State {
    /// It waits.
    Inside(FutexWait),
    /// It has returned; the wait may go on.
    Outside(FutexWait),
}

/// Makes waits of the calls, thread by thread.
#[derive(Debug, Default)]
pub(crate) struct FutexWaits {
    threads: HashMap<u32, State>,
}

impl FutexWaits {
    /// Takes the next event. Returns a wait that is over.
    pub(crate) fn event(&mut self, event: FutexEvent) -> Option<FutexWait> {
        let FutexEvent { time_ns, tid, what } = event;
        let before = self.threads.remove(&tid);
        let (now, over) = match (what, before) {
            // A thread that was found and had inherited the events tells each call twice.
            (FutexCall::Enter(call), Some(State::Inside(wait)))
                if (wait.call.word, wait.call.operation) == (call.word, call.operation)
                    && time_ns < wait.begun_ns.saturating_add(TOLD_TWICE_NS) =>
            {
                (State::Inside(wait), None)
            }
            (FutexCall::Enter(call), Some(State::Outside(wait))) if wait.goes_on_with(&call) => {
                (State::Inside(wait), None)
            }
            (FutexCall::Enter(call), before) => {
                let new = FutexWait { tid, call, begun_ns: time_ns, ended_ns: time_ns, result: 0 };
                // Where the end of the last call was lost, so is that wait.
                let over = before.and_then(|state| match state {
                    State::Outside(wait) => Some(wait),
                    State::Inside(_) => None,
                });
                (State::Inside(new), over)
            }
            // The end of a call before the one in which the thread was found.
            (FutexCall::Exit { .. }, Some(State::Inside(wait))) if time_ns < wait.begun_ns => {
                (State::Inside(wait), None)
            }
            (FutexCall::Exit { result }, Some(State::Inside(wait))) => {
                (State::Outside(FutexWait { ended_ns: time_ns, result, ..wait }), None)
            }
            // A call that woke a thread, most likely by a release.
            (FutexCall::Exit { .. }, Some(State::Outside(wait))) => return Some(wait),
            (FutexCall::Exit { .. }, None) => return None,
        };
        self.threads.insert(tid, now);
        over
    }

    /// The waits that threads are in, as far as it is known.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &FutexWait> {
        self.threads.values().filter_map(|state| match state {
            State::Inside(wait) => Some(wait),
            State::Outside(_) => None,
        })
    }

    /// Hands out the waits that ended before this time, as their threads have not gone on with them: threads that have ended would stay
    /// in memory.
    pub(crate) fn settle(&mut self, before_ns: u64) -> Vec<FutexWait> {
        let settled = self.threads.extract_if(|_, state| match state {
            State::Outside(wait) => wait.ended_ns < before_ns,
            State::Inside(_) => false,
        });
        settled
            .map(|(_, state)| match state {
                State::Outside(wait) | State::Inside(wait) => wait,
            })
            .collect()
    }

    /// Hands out the waits that are over, and then those that are not.
    pub(crate) fn finish(self) -> (Vec<FutexWait>, Vec<FutexWait>) {
        let (mut over, mut pending) = (Vec::new(), Vec::new());
        for state in self.threads.into_values() {
            match state {
                State::Outside(wait) => over.push(wait),
                State::Inside(wait) => pending.push(wait),
            }
        }
        (over, pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: u64 = 0x1000;

    fn enter(time_ns: u64, tid: u32, word: u64, value: u32) -> FutexEvent {
        let call = Enter { word, operation: 128, value, stack: None, called: None };
        FutexEvent { time_ns, tid, what: FutexCall::Enter(call) }
    }

    fn exit(time_ns: u64, tid: u32, result: i64) -> FutexEvent {
        FutexEvent { time_ns, tid, what: FutexCall::Exit { result } }
    }

    /// Begin, end and word of the waits that are over, and of those that are not.
    fn waits(events: Vec<FutexEvent>) -> [Vec<(u64, u64, u64)>; 2] {
        let mut waits = FutexWaits::default();
        let mut over: Vec<_> = events.into_iter().filter_map(|event| waits.event(event)).collect();
        let (rest, pending) = waits.finish();
        over.extend(rest);
        [over, pending]
            .map(|waits| waits.iter().map(|wait| (wait.begun_ns, wait.ended_ns, wait.call.word)).collect())
    }

    #[test]
    fn attempts_without_another_call_between_them_are_one_acquisition() {
        let [over, _] = waits(vec![
            enter(10, 1, LOCK, 2),
            exit(20, 1, 0),
            enter(21, 1, LOCK, 2), // another thread was faster
            exit(30, 1, -11),
            enter(31, 1, LOCK, 2),
            exit(40, 1, 0),
            exit(50, 1, 1), // it releases
            enter(60, 1, LOCK, 2),
            exit(70, 1, 0),
        ]);
        assert_eq!(over, [(10, 40, LOCK), (60, 70, LOCK)]);
    }

    #[test]
    fn waits_for_a_condition_and_waits_that_ran_out_of_time_stay_apart() {
        let [over, _] = waits(vec![
            enter(10, 1, LOCK, 0),
            exit(20, 1, 0),
            enter(30, 1, LOCK, 0),
            exit(40, 1, 0),
            enter(50, 1, LOCK, 2),
            exit(60, 1, i64::from(-libc::ETIMEDOUT)),
            enter(70, 1, LOCK, 2),
            exit(80, 1, 0),
        ]);
        assert_eq!(over, [(10, 20, LOCK), (30, 40, LOCK), (50, 60, LOCK), (70, 80, LOCK)]);
    }

    #[test]
    fn a_wait_that_a_signal_interrupts_is_one() {
        const CONDITION: u32 = 6; // what its word holds
        let [over, _] = waits(vec![
            enter(10, 1, LOCK, CONDITION),
            exit(20, 1, -512),
            enter(30, 1, LOCK, CONDITION),
            exit(40, 1, i64::from(-libc::EINTR)),
            enter(50, 1, LOCK, CONDITION),
            exit(60, 1, 0),
            enter(70, 1, LOCK, CONDITION),
            exit(80, 1, -512),
            enter(90, 1, LOCK, CONDITION + 2), // another round of the condition
            exit(95, 1, 0),
        ]);
        assert_eq!(over, [(10, 60, LOCK), (70, 80, LOCK), (90, 95, LOCK)]);
    }

    #[test]
    fn calls_that_are_told_twice_count_once() {
        let [over, pending] = waits(vec![
            enter(10, 1, LOCK, 0),
            enter(11, 1, LOCK, 0),
            enter(12, 2, LOCK, 0),
            exit(20, 1, 0),
            exit(21, 1, 0),
        ]);
        assert_eq!((over, pending), (vec![(10, 20, LOCK)], vec![(12, 12, LOCK)]));
    }

    #[test]
    fn waits_of_threads_that_have_ended_do_not_pile_up() {
        let mut waits = FutexWaits::default();
        for tid in 0..3 {
            let at = 10 * u64::from(tid);
            assert_eq!(waits.event(enter(at, tid, LOCK, 0)), None);
            assert_eq!(waits.event(exit(at + 5, tid, 0)), None);
        }
        waits.event(enter(7, 3, LOCK, 0));
        assert_eq!(waits.settle(20).len(), 2);
        assert_eq!(waits.threads.len(), 2, "one that has just ended, and one that waits");
    }

    #[test]
    fn the_end_of_an_earlier_call_does_not_end_a_wait() {
        let [over, pending] = waits(vec![enter(30, 1, LOCK, 0), exit(20, 1, 0), exit(50, 1, 0)]);
        assert_eq!((over, pending), (vec![(30, 50, LOCK)], vec![]));
    }

    #[test]
    fn a_lost_end_loses_one_wait_and_a_lost_beginning_another() {
        let [over, pending] =
            waits(vec![exit(5, 1, 0), enter(10, 1, LOCK, 0), enter(30, 1, 0x2000, 0), exit(40, 1, 0)]);
        assert_eq!((over, pending), (vec![(30, 40, 0x2000)], vec![]));
        let later = 10 + TOLD_TWICE_NS;
        let [over, _] = waits(vec![enter(10, 1, LOCK, 0), enter(later, 1, LOCK, 0), exit(later + 5, 1, 0)]);
        assert_eq!(over, [(later, later + 5, LOCK)], "and not the time between them");
    }
}
