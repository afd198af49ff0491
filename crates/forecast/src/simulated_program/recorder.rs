//! What the recorder of a profile would see of a simulated run, as the table that a profile of it would have.
//!
//! As the recorder's, a hold begins when the lock is acquired and ends when its release begins, and the time between two holds of a thread is
//! think time: waiting, and what the lock functions themselves do, are part of it.

use super::blueprint::Hot;
use profile::histogram::{BUCKETS, bucket, lower_bound};
use profile::read::{Bucket, Within};
use profile::{LockRow, LockTable, TableHeader, Times, Usage};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which lock: the number of its guard, and of the copy.
pub(super) type Place = (usize, usize);

/// Sees the threads of one run.
#[derive(Debug)]
pub(crate) struct Recorder {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    locks: Vec<Vec<Seen>>,
    threads: Vec<Thread>,
    first_ns: Option<u64>,
    last_ns: u64,
}

/// One lock.
#[derive(Debug, Default)]
struct Seen {
    /// Exclusive acquisitions, then shared ones.
    modes: [Mode; 2],
    /// Who released it last.
    owner: Option<usize>,
    /// When the last release began: of an exclusive section, and of any.
    released_ns: [u64; 2],
    /// By thread: when its last release began.
    by_thread: Vec<Option<u64>>,
    /// Acquisitions within sections of the first lock, exclusive ones, then shared ones.
    within: [u64; 2],
}

/// What was done with a lock in one mode.
#[derive(Debug, Default)]
struct Mode {
    acquisitions: u64,
    owner_changes: u64,
    wait: Tally,
    hold_same: Tally,
    hold_other: Tally,
    think: Tally,
    handover: Tally,
}

/// A thread, in its acquisition or sections.
#[derive(Debug, Default)]
struct Thread {
    /// When it came to the lock that it acquires.
    came_ns: u64,
    /// The sections that it is in, outermost first.
    sections: Vec<Section>,
}

#[derive(Debug)]
struct Section {
    place: Place,
    shared: bool,
    acquired_ns: u64,
    /// Another thread held the lock before.
    after_another: bool,
}

/// Durations of one kind.
#[derive(Debug)]
struct Tally {
    count: u64,
    sum_ns: u64,
    buckets: [u64; BUCKETS],
}

impl Default for Tally {
    fn default() -> Self {
        Self { count: 0, sum_ns: 0, buckets: [0; BUCKETS] }
    }
}

impl Tally {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns += ns;
        self.buckets[bucket(ns)] += 1;
    }

    fn times(&self) -> Times {
        let filled = self.buckets.iter().enumerate().filter(|&(_, &count)| count > 0);
        let buckets = filled.map(|(number, &count)| Bucket {
            from_ns: lower_bound(number) as f64,
            to_ns: lower_bound(number + 1) as f64,
            count,
        });
        Times {
            count: self.count,
            total_ns: self.sum_ns as f64,
            buckets: buckets.collect(),
            ..Times::default()
        }
    }
}

impl Mode {
    fn usage(&self) -> Usage {
        Usage {
            acquisitions: self.acquisitions,
            contended: self.wait.count,
            owner_changes: self.owner_changes,
            wait: self.wait.times(),
            hold_same: self.hold_same.times(),
            hold_other: self.hold_other.times(),
            think: self.think.times(),
            handover: self.handover.times(),
            ..Usage::default()
        }
    }
}

impl Recorder {
    /// For a program of these locks on so many threads.
    pub(crate) fn new(locks: &[Hot], threads: usize) -> Self {
        let lock = |_| Seen { by_thread: vec![None; threads], ..Seen::default() };
        let locks = locks.iter().map(|hot| (0..hot.copies.max(1)).map(lock).collect()).collect();
        let threads = (0..threads).map(|_| Thread::default()).collect();
        Self { state: Mutex::new(State { locks, threads, first_ns: None, last_ns: 0 }) }
    }

    /// Never held while the machine is asked for anything: another thread of it may run then.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread begins to acquire a lock.
    pub(super) fn acquiring(&self, thread: usize, now: u64) {
        let mut state = self.state();
        state.first_ns = Some(state.first_ns.map_or(now, |first_ns| first_ns.min(now)));
        state.threads[thread].came_ns = now;
    }

    /// It has acquired it. Threads of a simulation run ahead of each other, so that only times tell whether it had to wait: for the last section
    /// that excludes this one.
    pub(super) fn acquired(&self, place: Place, thread: usize, shared: bool, now: u64) {
        let mut state = self.state();
        let State { locks, threads, .. } = &mut *state;
        let Thread { came_ns, sections } = &mut threads[thread];
        let outer = sections.first().filter(|outer| outer.place.0 == 0 && place.0 != 0);
        let lock = &mut locks[place.0][place.1];
        if let Some(outer) = outer {
            lock.within[usize::from(outer.shared)] += 1;
        }
        let mode = &mut lock.modes[usize::from(shared)];
        let free_ns = lock.released_ns[usize::from(!shared)];
        let waited_ns = if free_ns > *came_ns { now.saturating_sub(*came_ns) } else { 0 };
        let after_another = lock.owner.is_some_and(|owner| owner != thread);
        mode.acquisitions += 1;
        mode.owner_changes += u64::from(after_another);
        if waited_ns > 0 {
            mode.wait.add(waited_ns);
            mode.handover.add(now.saturating_sub(free_ns));
        }
        if let Some(released) = lock.by_thread[thread] {
            mode.think.add(now.saturating_sub(released));
        }
        sections.push(Section { place, shared, acquired_ns: now, after_another });
    }

    /// It begins to release the lock that it acquired last.
    pub(super) fn releasing(&self, thread: usize, now: u64) {
        let mut state = self.state();
        let State { locks, threads, last_ns, .. } = &mut *state;
        let Some(section) = threads[thread].sections.pop() else { return };
        let lock = &mut locks[section.place.0][section.place.1];
        let mode = &mut lock.modes[usize::from(section.shared)];
        let holds = if section.after_another { &mut mode.hold_other } else { &mut mode.hold_same };
        holds.add(now - section.acquired_ns);
        lock.owner = Some(thread);
        let of_these = if section.shared { &mut lock.released_ns[1..] } else { &mut lock.released_ns[..] };
        of_these.iter_mut().for_each(|released_ns| *released_ns = now.max(*released_ns));
        lock.by_thread[thread] = Some(now);
        *last_ns = (*last_ns).max(now);
    }

    /// The table of a profile of the run, on a machine of so many cores.
    pub(crate) fn table(&self, program: &[Hot], cores: u32) -> LockTable {
        let state = self.state();
        let elapsed_ns = state.last_ns.saturating_sub(state.first_ns.unwrap_or(0)) as f64;
        let threads = state.threads.len();
        let outer = [0, 1].map(|mode| state.locks[0].iter().map(|lock| lock.modes[mode].acquisitions).sum());
        let all_ns = elapsed_ns * threads as f64;
        let rows = program.iter().zip(&state.locks).flat_map(|(hot, copies)| {
            copies.iter().enumerate().filter_map(|(number, lock)| {
                let mut row = lock.row(hot, all_ns, outer, &program[0].name)?;
                if copies.len() > 1 {
                    row.name = format!("{}#{}", hot.name, number + 1);
                }
                Some(row)
            })
        });
        let rows: Vec<LockRow> = rows.collect();
        let waited_ns: f64 = rows.iter().map(LockRow::waited_ns).sum();
        let cpu_ns = (all_ns - waited_ns).max(0.0);
        let header = TableHeader {
            schema: 1,
            processes: 1,
            threads: threads as u64,
            cores: u64::from(cores),
            elapsed_ns,
            cpu_ns,
            cores_used: cpu_ns / elapsed_ns.max(1.0),
            concurrency: threads as f64,
            ran_together: true,
            sample_period: 1,
            ..TableHeader::default()
        };
        LockTable { header, rows, striped: Vec::new(), kernel: None, program: None }
    }
}

impl Seen {
    /// Its row; none where no thread has touched it. `outer` counts the sections of the first lock, of each mode.
    fn row(&self, hot: &Hot, all_ns: f64, outer: [u64; 2], first: &str) -> Option<LockRow> {
        let threads = self.by_thread.iter().flatten().count() as u64;
        if threads == 0 {
            return None;
        }
        let [exclusive, shared] = [0, 1].map(|mode| self.modes[mode].usage());
        let mode = usize::from(self.within[1] > self.within[0]);
        let within = (self.within[mode] > 0).then(|| Within {
            lock: first.to_owned(),
            site: first.to_owned(),
            shared: mode == 1,
            acquisitions: self.within[mode] as f64 / outer[mode].max(1) as f64,
        });
        let mut row = LockRow { threads, exclusive, shared, within, ..LockRow::new(&hot.name, hot.kind) };
        let held_ns = row.held_ns();
        row.critical_section_ns = Some(held_ns / row.acquisitions().max(1) as f64);
        row.threads_ns = (all_ns - row.waited_ns()).max(0.0);
        row.share = Some(held_ns / row.threads_ns.max(1.0));
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Blueprint, Plan, Stage};
    use super::*;
    use topology::carried;
    use workloads::Random;

    #[test]
    fn a_recorded_run_has_the_sections_and_the_think_time_of_its_program() {
        let machine = carried::machine("epyc-9654x2");
        let mut program =
            Blueprint::random(&mut Random::of_thread(1, 0), machine.costs().transfer_ns(2).likely);
        program.locks.truncate(1);
        let lock = &mut program.locks[0];
        (lock.kind, lock.reads, lock.copies) =
            (profile::LockKind::Object(profile::ObjectKind::Mutex), 0.0, 1);
        lock.exclusive.same_ns = topology::Range::exact(500.0);
        lock.exclusive.growth_ns = topology::Range::exact(0.0);
        program.think_ns = topology::Range::exact(1_500.0);
        program.think = super::super::durations::Durations::Exponential; // else four threads find a pattern in which none waits
        let stage = Stage::new(&program, &machine, &machine, &Plan::of(&[4], 1)).unwrap();
        let near = |found: Option<f64>, expected: f64| {
            let found = found.expect("it was timed");
            assert!((found / expected - 1.0).abs() < 0.05, "{found} ns for {expected}");
        };
        for threads in [1, 4] {
            let table = stage.profile(&program, threads).unwrap();
            let [row] = &table.rows[..] else { panic!("{} rows", table.rows.len()) };
            let Usage { hold_same, hold_other, think, wait, owner_changes, .. } = &row.exclusive;
            near(hold_same.and(hold_other).mean_ns(), 500.0);
            // Four threads that need the lock for a quarter of their time each wait for it.
            assert_eq!((wait.count > 0, *owner_changes > 0), (threads > 1, threads > 1));
            if threads == 1 {
                near(think.mean_ns(), 1_500.0);
            }
            let rounds_ns = row.held_ns() + think.total_ns;
            near(Some(rounds_ns), table.header.elapsed_ns * f64::from(threads));
        }
    }
}
