//! Waits, out of the events at their beginnings and ends.
//!
//! Most locks tell one beginning and one end. A mutex tells a beginning each time its waiter goes over from spinning to
//! sleeping or back, and one end; all of that is one wait. A thread can be in several waits at a time: an interrupt takes a
//! spin lock while the thread spins for another, and a thread that queues at a mutex takes the spin lock of its queue.
//!
//! Newer kernels tell as well who releases a lock for which others wait. The last release before the end of a wait is the one that
//! ended it.
//!
//! Events may be missing: a buffer was full, or the wait began before the watch or ended after it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::event::{Event, MUTEX, SPIN, Waiter, What};

/// So many waits a thread can be in at a time: in itself, its soft and hard interrupts and one that cannot be masked, each with
/// the lock of a queue. More is a sign that ends are missing.
const DEPTH: usize = 8;

/// A wait that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The lock's address.
    pub lock: u64,
    /// What the lock is, as [`SPIN`] and the others say; for a mutex [`MUTEX`] alone.
    pub flags: u32,
    /// Time on a core in the wait, ns: all of it for locks that spin.
    pub spun_ns: u64,
    /// Time asleep in the wait, ns, with the time that it takes to get a core again.
    pub slept_ns: u64,
    /// Whether the lock was acquired: if not, the wait was interrupted.
    pub acquired: bool,
    /// The kernel's stack at the beginning, innermost first.
    pub stack: Box<[u64]>,
    /// The stack of the release that ended the wait, if that was told.
    pub released_by: Option<Arc<[u64]>>,
}

/// The last release of a lock for which others waited.
#[derive(Debug)]
struct Release {
    time_ns: u64,
    stack: Arc<[u64]>,
}

/// Releases of so many locks are kept; when there are more, all are forgotten.
const MOST_RELEASES: usize = 4096;

/// A wait that is not over.
#[derive(Debug)]
struct Pending {
    lock: u64,
    flags: u32,
    begun_ns: u64,
    /// When the present way of waiting began.
    since_ns: u64,
    spun_ns: u64,
    slept_ns: u64,
    stack: Box<[u64]>,
}

impl Pending {
    fn spend_until(&mut self, now_ns: u64) {
        let spent = now_ns.saturating_sub(self.since_ns);
        let into = if self.flags & SPIN != 0 { &mut self.spun_ns } else { &mut self.slept_ns };
        *into += spent;
        self.since_ns = now_ns;
    }
}

/// The waits that are not over, by who waits.
#[derive(Debug, Default)]
pub struct Waits {
    pending: HashMap<Waiter, Vec<Pending>>,
    /// By lock.
    released: HashMap<u64, Release>,
    unbegun: u64,
    unended: u64,
}

impl Waits {
    /// Takes the next event; events come in the order of time. Returns the wait that it ends.
    pub fn event(&mut self, event: Event) -> Option<Wait> {
        let Event { time_ns, waiter, lock, what } = event;
        match what {
            What::Begin { flags, stack } => {
                self.begin(time_ns, waiter, lock, flags, stack);
                None
            }
            What::End { acquired } => self.end(time_ns, waiter, lock, acquired),
            What::Release { stack } => {
                if self.released.len() >= MOST_RELEASES {
                    self.released.clear();
                }
                self.released.insert(lock, Release { time_ns, stack: stack.into() });
                None
            }
        }
    }

    fn begin(&mut self, time_ns: u64, waiter: Waiter, lock: u64, flags: u32, stack: Box<[u64]>) {
        let pending = self.pending.entry(waiter).or_default();
        if let Some(at) = pending.iter().position(|wait| wait.lock == lock) {
            // Going on in the same way is none: the end of an earlier wait is missing.
            if flags & MUTEX != 0 && pending[at].flags ^ flags == SPIN {
                pending[at].spend_until(time_ns);
                pending[at].flags = flags;
                return;
            }
            pending.remove(at);
            self.unended += 1;
        }
        if pending.len() == DEPTH {
            pending.remove(0);
            self.unended += 1;
        }
        pending.push(Pending {
            lock,
            flags,
            begun_ns: time_ns,
            since_ns: time_ns,
            spun_ns: 0,
            slept_ns: 0,
            stack,
        });
    }

    fn end(&mut self, time_ns: u64, waiter: Waiter, lock: u64, acquired: bool) -> Option<Wait> {
        let pending = self.pending.get_mut(&waiter);
        let found = pending.and_then(|pending| {
            let at = pending.iter().position(|wait| wait.lock == lock)?;
            Some((pending.remove(at), pending.is_empty()))
        });
        let Some((mut wait, last)) = found else {
            self.unbegun += 1;
            return None;
        };
        if last {
            self.pending.remove(&waiter); // threads come and go
        }
        wait.spend_until(time_ns);
        let flags = if wait.flags & MUTEX != 0 { wait.flags & !SPIN } else { wait.flags };
        let Pending { begun_ns, spun_ns, slept_ns, stack, .. } = wait;
        let release = self.released.get(&lock).filter(|release| release.time_ns >= begun_ns);
        let released_by = release.map(|release| Arc::clone(&release.stack));
        Some(Wait { lock, flags, spun_ns, slept_ns, acquired, stack, released_by })
    }

    /// Ends whose beginnings were not seen.
    pub fn unbegun(&self) -> u64 {
        self.unbegun
    }

    /// Beginnings whose ends were not seen so far.
    pub fn unended(&self) -> u64 {
        self.unended + self.pending.values().map(|pending| pending.len() as u64).sum::<u64>()
    }
}

impl Wait {
    /// All of it, ns.
    pub fn total_ns(&self) -> u64 {
        self.spun_ns + self.slept_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{READ, Reorder, WRITE};

    const T: Waiter = Waiter::Thread(1);

    fn begin(time_ns: u64, waiter: Waiter, lock: u64, flags: u32) -> Event {
        Event { time_ns, waiter, lock, what: What::Begin { flags, stack: [time_ns].into() } }
    }

    fn end(time_ns: u64, waiter: Waiter, lock: u64) -> Event {
        Event { time_ns, waiter, lock, what: What::End { acquired: true } }
    }

    /// Lock, flags, time spun, time asleep, and the beginning of each wait; then what is left over: ends without a beginning and
    /// beginnings without an end.
    type Summary = (Vec<(u64, u32, u64, u64, u64)>, u64, u64);

    fn waits(events: impl IntoIterator<Item = Event>) -> Summary {
        let mut waits = Waits::default();
        let over = events.into_iter().filter_map(|event| waits.event(event));
        let over =
            over.map(|wait| (wait.lock, wait.flags, wait.spun_ns, wait.slept_ns, wait.stack[0])).collect();
        (over, waits.unbegun(), waits.unended())
    }

    #[test]
    fn spinning_is_told_from_sleep() {
        let events = [begin(10, T, 7, SPIN), end(15, T, 7), begin(20, T, 8, WRITE), end(120, T, 8)];
        assert_eq!(waits(events), (vec![(7, SPIN, 5, 0, 10), (8, WRITE, 0, 100, 20)], 0, 0));
    }

    #[test]
    fn a_mutex_that_spins_and_sleeps_is_one_wait() {
        let spins = MUTEX | SPIN;
        let events = [
            begin(0, T, 7, spins),
            begin(10, T, 7, MUTEX),
            begin(110, T, 7, spins),
            begin(115, T, 7, MUTEX),
            begin(315, T, 7, spins),
            end(316, T, 7),
            begin(400, T, 7, spins),
            end(402, T, 7),
        ];
        assert_eq!(waits(events), (vec![(7, MUTEX, 16, 300, 0), (7, MUTEX, 2, 0, 400)], 0, 0));
    }

    #[test]
    fn waits_inside_waits_are_apart() {
        let events = [
            begin(0, T, 1, MUTEX),
            begin(2, T, 2, SPIN), // the lock of the mutex's queue
            begin(3, T, 3, SPIN), // an interrupt
            end(5, T, 3),
            end(6, T, 2),
            end(100, T, 1),
        ];
        let expected = vec![(3, SPIN, 2, 0, 3), (2, SPIN, 4, 0, 2), (1, MUTEX, 0, 100, 0)];
        assert_eq!(waits(events), (expected, 0, 0));
    }

    #[test]
    fn threads_and_idle_cores_wait_apart_for_one_lock() {
        let idle = [Waiter::IdleCore(0), Waiter::IdleCore(1)];
        let events = [
            begin(0, T, 7, SPIN),
            begin(1, idle[0], 7, SPIN),
            begin(2, idle[1], 7, SPIN),
            end(4, idle[0], 7),
            end(8, idle[1], 7),
            end(16, T, 7),
        ];
        assert_eq!(waits(events), (vec![(7, SPIN, 3, 0, 1), (7, SPIN, 6, 0, 2), (7, SPIN, 16, 0, 0)], 0, 0));
    }

    #[test]
    fn a_thread_that_migrates_ends_its_wait_on_another_core() {
        let mut reorder = Reorder::default();
        // The other core's buffer is read first.
        for event in [end(90, T, 7), begin(95, T, 8, READ), begin(10, T, 7, READ), end(99, T, 8)] {
            reorder.push(event);
        }
        let expected = vec![(7, READ, 0, 80, 10), (8, READ, 0, 4, 95)];
        assert_eq!(waits(reorder.until(u64::MAX)), (expected, 0, 0));
    }

    #[test]
    fn what_has_no_beginning_or_no_end_is_counted_and_is_no_wait() {
        let alone = [end(5, T, 7), begin(10, T, 8, READ)];
        assert_eq!(waits(alone), (vec![], 1, 1));
        // The end of the first wait was lost, so the second one begins at its own beginning.
        for flags in [SPIN, MUTEX, MUTEX | SPIN, READ] {
            let (over, unbegun, unended) =
                waits([begin(0, T, 7, flags), begin(1_000, T, 7, flags), end(1_010, T, 7)]);
            assert_eq!((over.len(), over[0].2 + over[0].3, over[0].4), (1, 10, 1_000), "{flags}");
            assert_eq!((unbegun, unended), (0, 1), "{flags}");
        }
        // Interrupted waits are told.
        let mut waits = Waits::default();
        waits.event(begin(0, T, 7, MUTEX));
        let interrupted = Event { time_ns: 9, waiter: T, lock: 7, what: What::End { acquired: false } };
        assert!(waits.event(interrupted).is_some_and(|wait| !wait.acquired && wait.total_ns() == 9));
    }

    #[test]
    fn a_wait_knows_the_last_release_before_its_end() {
        let release = |time_ns, lock| Event {
            time_ns,
            waiter: Waiter::Thread(9),
            lock,
            what: What::Release { stack: [time_ns].into() },
        };
        let mut waits = Waits::default();
        let events = [
            release(1, 7), // before the first wait
            begin(2, T, 7, SPIN),
            end(5, T, 7),
            begin(10, T, 7, MUTEX),
            release(20, 7),
            release(30, 7),
            release(31, 8),
            end(33, T, 7),
        ];
        let over: Vec<_> = events.into_iter().filter_map(|event| waits.event(event)).collect();
        let released: Vec<_> = over.iter().map(|wait| wait.released_by.as_deref()).collect();
        assert_eq!(released, [None, Some(&[30][..])]);
        for lock in 0..10_000 {
            waits.event(release(40, lock));
        }
        assert!(waits.released.len() <= MOST_RELEASES);
    }

    #[test]
    fn ends_that_never_come_use_no_memory_without_bound() {
        let mut all = Waits::default();
        for lock in 0..1_000 {
            all.event(begin(lock, T, lock, SPIN));
        }
        assert_eq!((all.pending[&T].len(), all.unended()), (DEPTH, 1_000));
        assert!(all.event(end(2_000, T, 999)).is_some(), "the latest are kept");
        let mut ended = Waits::default();
        for thread in 1..1_000 {
            ended.event(begin(0, Waiter::Thread(thread), 7, SPIN));
            ended.event(end(1, Waiter::Thread(thread), 7));
        }
        assert!(ended.pending.is_empty(), "a thread that waits no more is forgotten");
    }
}
