//! Threads that wait for each other, found while they wait: the feature `deadlock_detection`.
//!
//! With the feature every lock behind [`api`](crate::api) writes down who holds it and who waits for it, in one table of the
//! program. That is slow, so it is for tests and for the hunt after a deadlock. A guard then stays with the thread that
//! made it, since the table takes that thread for the holder until the release.
//!
//! ```
//! use contend_locks::prelude::*;
//!
//! static JOBS: Mutex<u32, Mcs> = Mutex::new(0);
//! *JOBS.lock() += 1;
//! for cycle in contend_locks::deadlock::check() {
//!     for thread in cycle {
//!         eprintln!("{thread}");
//!     }
//! }
//! ```
//!
//! A wait that ends at a deadline is no part of a deadlock. A thread waits
//!
//! - for a lock that is held exclusively: for its holder;
//! - for the exclusive side of a lock that readers hold: for each of them;
//! - for the upgradable side of a lock: for the upgradable reader that holds it;
//! - for the shared side of such a lock: for each of them, too, if another thread waits for the exclusive side, and unless
//!   the thread said that it reads already.

use core::fmt;
use core::time::Duration;
use std::backtrace::Backtrace;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::vec::Vec;

/// One thread of a deadlock.
#[derive(Debug, Clone)]
pub struct DeadlockedThread {
    wait: Wait,
}

impl DeadlockedThread {
    /// The thread.
    #[must_use]
    pub fn thread_id(&self) -> ThreadId {
        self.wait.thread.id()
    }

    /// The name that the thread was given, if it was.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.wait.thread.name()
    }

    /// The address of the lock that it waits for.
    #[must_use]
    pub fn lock(&self) -> usize {
        self.wait.lock
    }

    /// Where it waits.
    pub fn backtrace(&self) -> &Backtrace {
        &self.wait.backtrace
    }
}

impl fmt::Display for DeadlockedThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name().unwrap_or("without a name");
        writeln!(f, "thread {name} ({:?}) waits for the lock at {:#x}:", self.thread_id(), self.lock())?;
        write!(f, "{}", self.backtrace())
    }
}

/// The deadlocks that there are: each a cycle of threads of which every one waits for a lock that the next one holds. A
/// thread that waits for a lock that it holds itself is a cycle of one.
///
/// The table is read twice, some milliseconds apart, and only waits that last are told of.
#[must_use]
pub fn check() -> Vec<Vec<DeadlockedThread>> {
    let before: Vec<u64> = table().waits.iter().map(|wait| wait.number).collect();
    std::thread::sleep(BETWEEN_READS);
    let table = table();
    let lasting: Vec<&Wait> = table.waits.iter().filter(|wait| before.contains(&wait.number)).collect();
    let cycles = cycles(&lasting.iter().map(|wait| table.hinders(wait, &lasting)).collect::<Vec<_>>());
    let thread = |place: usize| DeadlockedThread { wait: lasting[place].clone() };
    cycles.into_iter().map(|cycle| cycle.into_iter().map(thread).collect()).collect()
}

/// Longer than a thread takes from its acquisition to the note of it.
const BETWEEN_READS: Duration = Duration::from_millis(10);

/// How a lock is held or wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// By one thread.
    Exclusive,
    /// Together with readers, by the one that may become the writer.
    Upgradable,
    /// Together with others.
    Shared,
    /// The same, by a thread that says that it reads already.
    SharedAgain,
}

#[derive(Debug, Clone)]
struct Wait {
    number: u64,
    thread: std::thread::Thread,
    lock: usize,
    side: Side,
    backtrace: Arc<Backtrace>,
}

#[derive(Debug)]
struct Hold {
    thread: ThreadId,
    side: Side,
}

impl Hold {
    /// Whether it is a hold of this side, of readers' both.
    fn is_by(&self, side: Side) -> bool {
        let is_shared = |side| matches!(side, Side::Shared | Side::SharedAgain);
        self.side == side || is_shared(self.side) && is_shared(side)
    }
}

#[derive(Debug, Default)]
struct Table {
    /// By the address of the lock.
    holds: HashMap<usize, Vec<Hold>>,
    waits: Vec<Wait>,
    next_number: u64,
}

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    fn hold(&mut self, lock: usize, side: Side) {
        self.holds.entry(lock).or_default().push(Hold { thread: std::thread::current().id(), side });
    }

    /// Forgets a hold of this side: one of the calling thread, or of another one which left its guard behind.
    fn release(&mut self, lock: usize, side: Side) {
        let Some(holds) = self.holds.get_mut(&lock) else { return };
        let own = std::thread::current().id();
        let best = holds.iter().enumerate().max_by_key(|(_, hold)| (hold.thread == own, hold.is_by(side)));
        let place = best.map_or(0, |(place, _)| place);
        holds.swap_remove(place);
        if holds.is_empty() {
            self.holds.remove(&lock);
        }
    }

    /// The places in `waits` of the threads that `wait` waits for.
    fn hinders(&self, wait: &Wait, waits: &[&Wait]) -> Vec<usize> {
        let writer_waits =
            || waits.iter().any(|other| other.lock == wait.lock && other.side == Side::Exclusive);
        let hinders = |hold: &&Hold| {
            hold.side == Side::Exclusive
                || match wait.side {
                    Side::Exclusive => true,
                    Side::Upgradable => hold.side == Side::Upgradable || writer_waits(),
                    Side::Shared => writer_waits(),
                    Side::SharedAgain => false,
                }
        };
        let holds = self.holds.get(&wait.lock).map_or(&[][..], Vec::as_slice);
        let place = |hold: &Hold| waits.iter().position(|other| other.thread.id() == hold.thread);
        holds.iter().filter(hinders).filter_map(place).collect()
    }
}

/// The cycles of a graph, each once: the first that is found through a node which is in none so far.
fn cycles(next: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut done = std::vec![false; next.len()];
    let mut cycles = Vec::new();
    for start in 0..next.len() {
        // The nodes from `start` to where the search is, each with how many of its edges were followed.
        let mut path = std::vec![(start, 0)];
        while let Some((node, followed)) = path.last_mut().filter(|(node, _)| !done[*node]) {
            let Some(&onward) = next[*node].get(*followed) else {
                done[*node] = true;
                path.pop();
                continue;
            };
            *followed += 1;
            if let Some(first) = path.iter().position(|(other, _)| *other == onward) {
                let cycle: Vec<usize> = path[first..].iter().map(|(node, _)| *node).collect();
                cycle.iter().for_each(|node| done[*node] = true);
                cycles.push(cycle);
            } else if !done[onward] {
                path.push((onward, 0));
            }
        }
    }
    cycles
}

/// Takes the lock at the address by `acquire`, and writes down that the calling thread waits for it if `try_acquire` says
/// that it is not to be had.
pub(crate) fn acquire(lock: usize, side: Side, try_acquire: impl FnOnce() -> bool, acquire: impl FnOnce()) {
    if acquired(lock, side, try_acquire()) {
        return;
    }
    let backtrace = Arc::new(Backtrace::force_capture());
    let number = {
        let mut table = table();
        table.next_number += 1;
        let number = table.next_number;
        table.waits.push(Wait { number, thread: std::thread::current(), lock, side, backtrace });
        number
    };
    let waiting = Waiting { number };
    acquire();
    drop(waiting); // before the hold is there, or the thread would wait for itself
    table().hold(lock, side);
}

/// A wait in the table. It is over too when the acquisition panics, as that of a lock does which denies deadlocks.
struct Waiting {
    number: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        table().waits.retain(|wait| wait.number != self.number);
    }
}

/// Writes down that the calling thread holds the lock at the address, if it says so.
pub(crate) fn acquired(lock: usize, side: Side, acquired: bool) -> bool {
    if acquired {
        table().hold(lock, side);
    }
    acquired
}

/// Writes down that a hold of the calling thread is of another side now.
pub(crate) fn changed(lock: usize, from: Side, to: Side) {
    let mut table = table();
    table.release(lock, from);
    table.hold(lock, to);
}

/// Forgets a hold. Before the release: afterwards another thread may be the holder, and the lock's memory gone.
pub(crate) fn release(lock: usize, side: Side) {
    table().release(lock, side);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cycle_is_found_once_and_what_leads_there_is_none() {
        assert_eq!(cycles(&[]), [[0; 0]; 0]);
        assert_eq!(cycles(&[std::vec![0]]), [[0]]);
        assert_eq!(cycles(&[std::vec![1], std::vec![2], std::vec![]]), [[0; 0]; 0]);
        let past_a_dead_end = cycles(&[std::vec![2], std::vec![2], std::vec![3, 1], std::vec![]]);
        assert_eq!(past_a_dead_end, [[2, 1]]);
        assert_eq!(cycles(&[std::vec![1], std::vec![2], std::vec![3, 1], std::vec![]]), [[1, 2]]);
        let two = cycles(&[std::vec![1], std::vec![0], std::vec![3], std::vec![2, 0]]);
        assert_eq!(two, [[0, 1], [2, 3]]);
    }
}
