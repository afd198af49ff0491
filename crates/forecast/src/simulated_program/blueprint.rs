//! What the profile says of the program, on no machine yet: its locks, their sections, and the think time.

use super::conditions::Waits;
use super::durations::Durations;
use super::program::{Guard, Program, Section, Step};
use crate::ELIDED;
use crate::profiled::{Group, observed, preempted_share, share_in_use};
use locks::catalogue;
use model::{End, Family, Parameters};
use profile::{LockKind, LockRow, ObjectKind, TableHeader, Times, Usage};
use simulator::Hardware;
use topology::Range;

/// A lock of the blueprint.
#[derive(Debug, Clone, PartialEq)]
pub struct Hot {
    /// Its name in the profile.
    pub name: String,
    /// What kind of object it is.
    pub kind: LockKind,
    /// Acquisitions in one operation.
    pub visits: f64,
    /// Share of the acquisitions that read.
    pub reads: f64,
    pub(crate) exclusive: Held,
    pub(crate) shared: Held,
    /// Its condition waits.
    pub(crate) waits: Option<Waits>,
    /// Into so many the lock is split.
    pub copies: u32,
    /// Each thread changes lines of its own.
    pub(crate) apart: bool,
    /// It is taken within these sections of the first lock.
    pub(crate) nested: Option<Sections>,
}

/// Sections of a lock, by their mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sections {
    Exclusive,
    Shared,
    Any,
}

impl Sections {
    pub(crate) fn have(self, reads: bool) -> bool {
        match self {
            Self::Exclusive => !reads,
            Self::Shared => reads,
            Self::Any => true,
        }
    }
}

/// Critical sections of one mode.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    /// After a holder on the same core, ns.
    pub(crate) same_ns: Range,
    /// What is added after a holder on another core, where the profile was taken, ns.
    pub(crate) growth_ns: Range,
    pub(crate) spread: Durations,
}

/// The profiled program.
#[derive(Debug, Clone, PartialEq)]
pub struct Blueprint {
    /// The lock in question, then others by cost. One operation is `batch` acquisitions of the first as the program was profiled: one
    /// unless it is changed, and less where another lock is taken very often meanwhile.
    pub locks: Vec<Hot>,
    /// Mean think time in an operation, ns.
    pub think_ns: Range,
    pub(crate) think: Durations,
    /// What a line transfer cost where the profile was taken, ns.
    pub(crate) profiled_transfer_ns: Range,
    /// How far all times may be off: a factor of at least 1.
    pub(crate) times_off: f64,
    /// Acquisitions of the program as it was profiled that one operation stands for.
    pub(crate) batch: f64,
    /// Time on cores of the whole program for one acquisition, ns, where contention is no part of it.
    pub(crate) cpu_ns: Option<f64>,
    /// Acquisitions a nanosecond of the program as it was profiled that it was asked for, where its threads waited for that.
    pub(crate) asked: Option<f64>,
    /// How fast a core works while others do, relative to alone: less than one where cores share what they compute with.
    pub(crate) together: f64,
    /// A lock that is left out although it takes more time than the one in question: then the program is another one.
    pub(crate) outweighed_by: Option<String>,
    /// What the blueprint leaves out, in words.
    pub doubts: Vec<String>,
}

/// A lock with less than this share of the first one's time is left out.
const LEAST_SHARE: f64 = 0.01;

/// So many locks are put into one program.
const MOST_LOCKS: usize = 6;

/// Other locks leave some of the think time.
const MOST_OF: f64 = 0.9;

/// An operation, and a section with others within, has so many steps at most.
const MOST_STEPS: f64 = 64.0;

impl Blueprint {
    /// The program that a profile shows: `groups` are its locks, the one in question first. `alone` is that lock in a profile of
    /// one thread, which `first` was taken from as far as it tells.
    pub fn new(
        groups: &[Group],
        ran_together: bool,
        alone: Option<&LockRow>,
        first: &Parameters,
        profiled_transfer_ns: Range,
    ) -> Self {
        let row = &groups[0].row;
        let think = both(alone.unwrap_or(row), |usage| &usage.think);
        let think = Durations::of(&think, Durations::Exponential);
        let mut doubts = Vec::new();
        let mut think_ns = first.think_ns;
        if alone.is_none() {
            // Found after another thread's release without a wait, a lock still costs its line, and that is in the time
            // between two acquisitions.
            let moved = row.exclusive.owner_changes + row.shared.owner_changes;
            let moved = moved.saturating_sub(row.contended()) as f64 / row.acquisitions().max(1) as f64;
            let lines_ns = (moved * profiled_transfer_ns.likely).min(0.5 * think_ns.likely);
            let scale = 1.0 - lines_ns / think_ns.likely;
            think_ns = think_ns.scaled(scale);
        }
        let mut locks = vec![Hot { copies: groups[0].copies, ..Hot::new(row, 1.0, first) }];
        let cost = |row: &LockRow| row.waited_ns() + row.held_ns();
        let mut left_out: Vec<&LockRow> = Vec::new();
        for group @ Group { row: other, .. } in &groups[1..] {
            if locks.len() == MOST_LOCKS || cost(other) < LEAST_SHARE * cost(row) {
                break;
            }
            let found = Hot::beside(group, row, ran_together, profiled_transfer_ns);
            let Some((mut hot, taken_ns)) = found else { continue };
            // Another process's lock is taken by none of these threads.
            if other.pid != row.pid || other.threads < row.threads.min(2) {
                continue;
            }
            let within = other.within.as_ref().filter(|within| within.site == row.site);
            let sections = match within {
                Some(within) if within.shared => Sections::Shared,
                Some(_) => Sections::Exclusive,
                None => Sections::Any,
            };
            // The profile counts what it has seen within one of those sections; sections that look too short for it were timed on
            // other occasions.
            let share = locks[0].share_of(sections);
            let seen = within.is_some_and(|within| within.acquisitions * share > 0.5 * hot.visits);
            if !seen && taken_ns <= MOST_OF * think_ns.likely {
                think_ns = think_ns.scaled(1.0 - taken_ns / think_ns.likely);
            } else if hot.visits <= MOST_STEPS * share && locks[0].leaves(sections, taken_ns, seen) {
                hot.nested = Some(sections);
            } else {
                left_out.push(other);
                continue;
            }
            locks.push(hot);
        }
        doubts.extend(doubt_of_left_out(&left_out, &row.name));
        doubts.extend(doubts_of(&locks));
        let outweighs = left_out.into_iter().find(|other| cost(other) > cost(row));
        let whole = Self {
            locks,
            think_ns,
            think,
            profiled_transfer_ns,
            times_off: first.spread,
            batch: 1.0,
            cpu_ns: None,
            asked: None,
            together: 1.0,
            outweighed_by: outweighs.map(|other| other.name.clone()),
            doubts,
        };
        whole.in_parts()
    }

    /// With operations that are short enough: where others are taken very often for one acquisition of the lock in question, an operation is
    /// a part of what comes between two of these.
    fn in_parts(mut self) -> Self {
        let steps: f64 = self.locks.iter().filter(|hot| hot.nested.is_none()).map(|hot| hot.visits).sum();
        let part = (MOST_STEPS / steps).min(1.0);
        self.locks.iter_mut().for_each(|hot| hot.visits *= part);
        self.think_ns = self.think_ns.scaled(part);
        self.batch *= part;
        self
    }

    /// Takes from a profile what the whole program needs of the cores for one acquisition of the lock in question, threads that
    /// never touch the lock included: however well the lock does, the target's cores give no more. What contention for the lock may
    /// have taken of that time is no part of it, nor is what the program does before it takes the lock and afterwards. `cores` is how
    /// many cores the program was found to use without being profiled, with the processes that a profile does not see.
    #[must_use]
    pub fn with_cores_of(mut self, row: &LockRow, header: &TableHeader, cores: Option<f64>) -> Self {
        let profiled_ns = header.cpu_ns - header.own_cost.total_ns;
        let all_ns = cores.map_or(0.0, |cores| cores * (header.elapsed_ns - header.own_cost.total_ns));
        // Rounds of several threads, or at several locks, add up to no time of use.
        let is_one = row.threads <= 1 && self.locks[0].copies <= 1;
        let cpu_ns = profiled_ns.max(all_ns) * if is_one { share_in_use(row, header) } else { 1.0 };
        // The end of a condition wait takes the lock once more in the same operation.
        let visits = Waits::visits(row.acquisitions(), row.exclusive.condition_waits);
        self.cpu_ns = on_cores_ns(cpu_ns, row.contended(), visits);
        self
    }

    /// Takes from a profile of one thread at work for which part of its time that waited for events, requests of clients most of all. Then the program did what it was asked to, and more threads are not asked for more; unless those who ask wait for answers, which
    /// no profile of the program shows.
    #[must_use]
    pub fn with_events_of(mut self, share: Option<f64>) -> Self {
        /// Who waits less was busy.
        const WAITS: f64 = 0.1;
        if let Some(share) = share.filter(|&share| share >= WAITS) {
            self.asked = Some(self.batch / self.operation_ns());
            self.doubts.push(format!(
                "the threads that do the work waited for events for {:.0} % of their time: whether more threads are asked for more, no \
                 profile of the program shows; likely they are not",
                100.0 * share
            ));
        }
        self
    }

    /// The program if no two sections of the lock in question changed the same lines.
    pub(crate) fn apart(&self) -> Self {
        let mut apart = self.clone();
        apart.locks[0].apart = true;
        apart
    }

    /// What is not known of sections that are to run as transactions.
    pub(crate) fn doubts_of_transactions(&self) -> Vec<String> {
        let Hot { name, waits, .. } = &self.locks[0];
        let mut doubts = vec![format!(
            "a profile does not tell which sections of {name} touch the same lines, so that an elided lock has two ends; nor whether they \
             make system calls, after which a section takes the lock"
        )];
        if waits.is_some() {
            doubts.push(
                "a section that waits on a condition takes the lock, which the simulated program leaves out"
                    .into(),
            );
        }
        doubts
    }

    /// The mean time of one operation of a core alone by the profile, ns, at the likely end.
    pub(crate) fn operation_ns(&self) -> f64 {
        self.think_ns.likely + self.locks.iter().map(|hot| hot.visits * hot.mean_same_ns()).sum::<f64>()
    }

    /// The program for a machine: `locks` are names of the catalogue, one for each lock, and `overhead_ns` is what of the
    /// profiled think time is the lock's own work, which the machine adds again. `threads` run it.
    pub(crate) fn program(
        &self,
        locks: &[&'static str],
        overhead_ns: f64,
        threads: u32,
        hardware: &Hardware,
        end: End,
    ) -> Program {
        let times_off = match end {
            End::Optimistic => 1.0 / self.times_off,
            End::Likely => 1.0,
            End::Pessimistic => self.times_off,
        };
        let cycles_per_ns = hardware.mhz as f64 / 1_000.0;
        let transfer_ns = end.opposite().of(self.profiled_transfer_ns).max(1.0);
        let hit_cycles = hardware.hit as f64 / 1_000.0 * cycles_per_ns;
        let section = |held: &Held| {
            let lines = end.of(held.growth_ns) * times_off / transfer_ns;
            let work = end.of(held.same_ns) * times_off * cycles_per_ns - lines * hit_cycles;
            Section { work_cycles: work.max(0.0), spread: held.spread.clone(), lines }
        };
        let guards = self.locks.iter().zip(locks).map(|(hot, &lock)| Guard {
            lock,
            copies: hot.copies.max(1) as usize,
            apart: hot.apart,
            reads: hot.reads,
            exclusive: section(&hot.exclusive),
            shared: section(&hot.shared),
            waits: hot.waits,
        });
        // Who holds a lock that others wait for has the core to itself; in the think time others work, too.
        let together = if threads > 1 { self.together } else { 1.0 };
        let think_ns = (end.opposite().of(self.think_ns) - overhead_ns).max(0.0) / together;
        Program {
            guards: guards.collect(),
            steps: self.steps(None),
            nested: [Sections::Exclusive, Sections::Shared].map(|sections| self.steps(Some(sections))),
            think_cycles: think_ns * cycles_per_ns,
            think: self.think.clone(),
        }
    }

    /// The visits of an operation, or of the first lock's sections of one mode, those of each lock spread over it.
    fn steps(&self, within: Option<Sections>) -> Vec<Step> {
        let reads = within.map(|sections| sections == Sections::Shared);
        let mut placed: Vec<(f64, Step)> = Vec::new();
        for (guard, hot) in self.locks.iter().enumerate() {
            let visits = match (hot.nested, reads) {
                (None, None) => hot.visits,
                (Some(sections), Some(reads)) if sections.have(reads) => {
                    hot.visits / (self.locks[0].visits * self.locks[0].share_of(sections).max(LEAST_SHARE))
                }
                _ => continue,
            };
            let whole = visits.floor() as usize;
            let rest = visits - whole as f64;
            let count = whole + usize::from(rest > 0.0);
            for number in 0..count {
                let chance = if number < whole { 1.0 } else { rest };
                placed.push((number as f64 / count as f64, Step { guard, chance }));
            }
        }
        placed.sort_by(|a, b| a.0.total_cmp(&b.0));
        placed.into_iter().map(|(_, step)| step).collect()
    }
}

/// That locks were held longer than the first one, `row`, leaves time for, or too often within its sections.
fn doubt_of_left_out(left_out: &[&LockRow], row: &str) -> Option<String> {
    let (first, others) = left_out.split_first()?;
    let (names, was, it) = match others.len() {
        0 => (first.name.clone(), "was", "it"),
        1 => (format!("{} and {}", first.name, others[0].name), "were", "they"),
        more => (format!("{} and {more} other locks", first.name), "were", "they"),
    };
    let is = if others.is_empty() { "is" } else { "are" };
    Some(format!(
        "{names} {was} held longer than {row} leaves time for, by other threads or by such as had no core, and {it} {is} left out"
    ))
}

/// What is assumed of the locks' order and of condition waits, which no profile tells.
fn doubts_of(locks: &[Hot]) -> Vec<String> {
    let nested = locks.iter().find(|hot| hot.nested == Some(Sections::Any)).map(|nested| {
        format!(
            "{} is taken to be acquired within the sections of {}, since it took more time than an operation has outside of them",
            nested.name, locks[0].name
        )
    });
    let waits = locks[0].waits.as_ref().map(|waits| {
        let until = if waits.turns.is_some() {
            "until the other threads have acquired it as often as they did meanwhile in the profile"
        } else {
            "as long on any number of cores"
        };
        format!(
            "{:.0} % of the acquisitions end in a condition wait of {:.0} ns on average, which is taken to last {until}",
            100.0 * waits.chance,
            waits.mean_ns
        )
    });
    nested.into_iter().chain(waits).collect()
}

impl Hot {
    /// A lock beside the one of `first`, and what it takes of an operation's time, ns; none where too little is known of it.
    fn beside(
        Group { row, copies }: &Group,
        first: &LockRow,
        ran_together: bool,
        profiled_transfer_ns: Range,
    ) -> Option<(Self, f64)> {
        let lock = observed(row, ran_together);
        let parameters = Parameters::observed(&lock, profiled_transfer_ns).ok()?;
        let visits = |row: &LockRow| Waits::visits(row.acquisitions(), row.exclusive.condition_waits) as f64;
        let hot = Self { copies: *copies, ..Self::new(row, visits(row) / visits(first), &parameters) };
        let taken_ns = hot.visits * (hot.mean_same_ns() + lock.wait_ns);
        Some((hot, taken_ns))
    }

    fn new(row: &LockRow, visits: f64, parameters: &Parameters) -> Self {
        let reads = if row.kind == LockKind::Object(ObjectKind::Rwlock) {
            row.shared.acquisitions as f64 / row.acquisitions().max(1) as f64
        } else {
            0.0
        };
        let held = |usage: &Usage| {
            let whole = observed(row, true);
            let same = usage.hold_same.mean_ns().filter(|_| usage.hold_same.count >= 30);
            // As in what it is compared with, without the time in which holders were preempted.
            let same = same.map(|same| same * (1.0 - preempted_share(row)));
            let merged = whole.hold_same.map_or(parameters.same_ns.likely, |mean| mean.ns.likely);
            // Of one mode where that was timed often enough, else of both together.
            let scale = same.map_or(1.0, |same| if merged > 0.0 { same / merged } else { 1.0 });
            Held {
                same_ns: parameters.same_ns.scaled(scale),
                growth_ns: parameters.growth_ns,
                spread: Durations::of(&usage.hold(), Durations::Fixed),
            }
        };
        let usage = &row.exclusive;
        let threads_ns = row.threads_ns + row.waited_ns() + usage.condition_ns;
        let (waits, timeouts) = (usage.condition_waits, usage.condition_timeouts);
        let waits =
            Waits::new(waits, timeouts, usage.condition_ns, row.acquisitions(), row.threads, threads_ns);
        Self {
            name: row.name.clone(),
            kind: row.kind,
            visits,
            reads,
            exclusive: held(&row.exclusive),
            shared: held(&row.shared),
            waits: waits.filter(|waits| waits.chance >= LEAST_SHARE),
            copies: 1,
            apart: false,
            nested: None,
        }
    }

    /// Which part of the acquisitions begins such sections.
    fn share_of(&self, sections: Sections) -> f64 {
        match sections {
            Sections::Exclusive => 1.0 - self.reads,
            Sections::Shared => self.reads,
            Sections::Any => 1.0,
        }
    }

    /// Takes so much time, of the mean acquisition, out of the sections of a mode: what other locks take there. False if they
    /// have not got it; `seen` takes nearly all of it then.
    fn leaves(&mut self, sections: Sections, taken_ns: f64, seen: bool) -> bool {
        let mean_ns: f64 = [(false, &self.exclusive), (true, &self.shared)]
            .map(|(reads, held)| {
                let share = if reads { self.reads } else { 1.0 - self.reads };
                if sections.have(reads) { share * held.same_ns.likely } else { 0.0 }
            })
            .iter()
            .sum();
        if mean_ns <= 0.0 || taken_ns > mean_ns && !seen {
            return false;
        }
        let left = (1.0 - taken_ns / mean_ns).max(1.0 - MOST_OF);
        for (reads, held) in [(false, &mut self.exclusive), (true, &mut self.shared)] {
            if sections.have(reads) {
                held.same_ns = held.same_ns.scaled(left);
            }
        }
        true
    }

    /// What of the mean acquisition excludes every other one, of a core alone, ns.
    pub(crate) fn mean_exclusive_ns(&self) -> f64 {
        (1.0 - self.reads) * self.exclusive.same_ns.likely
    }

    /// The mean section of a core alone, ns.
    pub(crate) fn mean_same_ns(&self) -> f64 {
        self.reads * self.shared.same_ns.likely + (1.0 - self.reads) * self.exclusive.same_ns.likely
    }
}

/// Time on cores for one acquisition, less what contention may have taken of it.
fn on_cores_ns(cpu_ns: f64, contended: u64, acquisitions: u64) -> Option<f64> {
    /// What a contended acquisition takes on cores at most: two system calls, a wake-up and two context switches.
    const CONTENDED_NS: f64 = 20_000.0;
    let least_ns = cpu_ns - CONTENDED_NS * contended as f64;
    (least_ns > 0.0).then(|| least_ns / acquisitions.max(1) as f64)
}

fn both(row: &LockRow, of: fn(&Usage) -> &Times) -> Times {
    of(&row.exclusive).and(of(&row.shared))
}

/// The lock of the catalogue that is run for the program's own, and whether it only replaces it: is of a like family,
/// but not the C library's algorithm.
#[must_use]
pub fn own_lock(kind: LockKind) -> (&'static str, bool) {
    let (own, like) = match kind {
        LockKind::Object(ObjectKind::Rwlock) => ("glibc-rwlock", "rw"),
        LockKind::Object(ObjectKind::Spin) => ("glibc-spin", "ttas"),
        _ => ("glibc-mutex", "futex"),
    };
    match catalogue::find(own) {
        Some(lock) => (lock.name, false),
        None => (like, true),
    }
}

/// The lock of the catalogue that is run for a name: itself, or what represents a family for objects of a kind.
#[must_use]
pub fn lock_for(name: &str, family: Family, kind: LockKind) -> &'static str {
    let elided = match kind {
        LockKind::Object(ObjectKind::Rwlock) => "elided:rw",
        LockKind::Object(ObjectKind::Spin) => "elided:ticket",
        _ => "elided:glibc-mutex",
    };
    if let Some(lock) = catalogue::find_in_any_form(if name == ELIDED { elided } else { name }) {
        return lock.name;
    }
    let shares = kind == LockKind::Object(ObjectKind::Rwlock);
    match family {
        Family::Blocking => own_lock(kind).0,
        Family::BackOffThenSleep => {
            if shares {
                "rw"
            } else {
                "futex"
            }
        }
        Family::TestAndSet => {
            if shares {
                "rw-naive"
            } else {
                "ttas"
            }
        }
        Family::BackOff => "ttas-backoff",
        Family::Ticket => {
            if shares {
                "rw-queued"
            } else {
                "ticket"
            }
        }
        Family::Queue => "mcs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_condition_wait_is_no_operation() {
        let exclusive = Usage { acquisitions: 2_000, condition_waits: 1_000, ..Usage::default() };
        let row = LockRow { threads: 2, exclusive, ..LockRow::new("q", LockKind::Object(ObjectKind::Mutex)) };
        let header = TableHeader { cpu_ns: 1e9, elapsed_ns: 1e9, ..TableHeader::default() };
        let random = Blueprint::random(&mut workloads::Random::of_thread(1, 0), 50.0);
        assert_eq!(random.with_cores_of(&row, &header, None).cpu_ns, Some(1e6));
    }

    #[test]
    fn contention_is_no_part_of_the_time_on_cores() {
        assert_eq!(on_cores_ns(1e9, 0, 1_000), Some(1e6));
        // A tenth of the time may be contention.
        assert_eq!(on_cores_ns(1e9, 5_000, 1_000), Some(0.9e6));
        // All of it may be.
        assert_eq!(on_cores_ns(1e9, 50_000, 100_000), None);
        assert_eq!(on_cores_ns(0.0, 0, 1_000), None);
    }

    #[test]
    fn every_name_stands_for_a_lock_of_the_catalogue() {
        for kind in [
            LockKind::Object(ObjectKind::Mutex),
            LockKind::Object(ObjectKind::Rwlock),
            LockKind::Object(ObjectKind::Spin),
        ] {
            assert!(catalogue::find(own_lock(kind).0).is_some());
            for family in Family::ALL {
                assert!(catalogue::find(lock_for(family.name(), family, kind)).is_some());
            }
        }
        assert_eq!(lock_for("clh", Family::Queue, LockKind::Object(ObjectKind::Mutex)), "clh");
        for kind in [ObjectKind::Mutex, ObjectKind::Rwlock, ObjectKind::Spin].map(LockKind::Object) {
            let elided = catalogue::find_in_any_form(lock_for(ELIDED, Family::Blocking, kind)).unwrap();
            assert!(elided.is_elided());
            assert_eq!(elided.shared, kind == LockKind::Object(ObjectKind::Rwlock));
        }
    }
}
