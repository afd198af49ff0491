//! What threads were blocked in, and how much of what may have been a wait for a lock was recorded.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::Profile;
use super::at_end::Ends;
use super::container::Section;
use crate::format::{TaskValues, ThreadValues};

/// Blocked time by what threads were in, ns: neither on a core nor ready for one. The parts add up to
/// [`Coverage::off_cpu_ns`].
///
/// Locks, conditions and joins are measured by the recorder. The rest is what threads were in when the launcher looked at
/// them, a few times a second; zeros where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Blocked {
    /// In recorded waits for mutexes, spin locks and reader-writer locks, those included that were not over at the end.
    pub locks_ns: f64,
    /// In recorded condition waits, those included that were not over at the end.
    pub conditions_ns: f64,
    /// In `pthread_join` and its kin, those included that were not over at the end.
    pub joins_ns: f64,
    /// Sleeping until a time.
    pub sleep_ns: f64,
    /// Waiting for events: epoll, poll, select, signals.
    pub events_ns: f64,
    /// Input and output: pipes, sockets, files.
    pub io_ns: f64,
    /// Waiting for another process.
    pub child_ns: f64,
    /// On futexes, but in no call that is recorded: semaphores, barriers, and locks that call the kernel themselves (Rust,
    /// Go, static programs).
    pub futex_ns: f64,
    /// Asleep in contended locks of the kernel, where those were watched for this program alone.
    pub kernel_locks_ns: f64,
    /// In anything else.
    pub other_ns: f64,
    /// In what no look at the thread has seen.
    pub unknown_ns: f64,
}

impl Blocked {
    /// Takes so much sleep in the kernel's locks out of what a look at the threads could not tell from it: it calls such a wait
    /// anything else, or input and output where a lock of a file is named so.
    pub(super) fn asleep_in_kernel_locks(&mut self, asleep_ns: f64) {
        let mut left = asleep_ns;
        for from in [&mut self.other_ns, &mut self.unknown_ns, &mut self.io_ns] {
            let taken = left.clamp(0.0, *from);
            *from -= taken;
            self.kernel_locks_ns += taken;
            left -= taken;
        }
    }

    fn add(&mut self, more: &Self) {
        for (into, from) in [
            (&mut self.locks_ns, more.locks_ns),
            (&mut self.conditions_ns, more.conditions_ns),
            (&mut self.joins_ns, more.joins_ns),
            (&mut self.sleep_ns, more.sleep_ns),
            (&mut self.events_ns, more.events_ns),
            (&mut self.io_ns, more.io_ns),
            (&mut self.child_ns, more.child_ns),
            (&mut self.futex_ns, more.futex_ns),
            (&mut self.kernel_locks_ns, more.kernel_locks_ns),
            (&mut self.other_ns, more.other_ns),
            (&mut self.unknown_ns, more.unknown_ns),
        ] {
            *into += from;
        }
    }

    /// All of it, ns.
    pub fn total_ns(&self) -> f64 {
        self.recorded_ns() + self.in_no_lock_ns() + self.futex_ns + self.other_ns + self.unknown_ns
    }

    /// In recorded waits for locks and condition waits, ns.
    pub fn recorded_ns(&self) -> f64 {
        self.locks_ns + self.conditions_ns
    }

    /// In what is certainly no wait for a lock of the program.
    fn in_no_lock_ns(&self) -> f64 {
        self.joins_ns + self.sleep_ns + self.events_ns + self.io_ns + self.child_ns + self.kernel_locks_ns
    }

    /// In what may have been waits for locks that are not recorded, ns.
    pub fn missed_ns(&self) -> f64 {
        self.futex_ns + self.other_ns + self.unknown_ns
    }

    /// Whether the threads were looked at so rarely, or lived so shortly, that most of it is in what no look has seen: then it is not
    /// known how much of it may have been waits for locks.
    pub fn is_mostly_unknown(&self) -> bool {
        self.unknown_ns > 0.5 * self.total_ns()
    }

    /// How much of what may have been a wait for a lock was recorded.
    pub fn coverage(&self) -> Coverage {
        Coverage {
            seen_ns: self.recorded_ns(),
            off_cpu_ns: self.total_ns(),
            in_no_lock_ns: self.in_no_lock_ns(),
        }
    }

    /// What was not recorded.
    pub(super) fn unseen(&self) -> Unseen {
        let &Self { futex_ns, sleep_ns, events_ns, io_ns, child_ns, other_ns, .. } = self;
        Unseen { futex_ns, sleep_ns, events_ns, io_ns, child_ns, other_ns }
    }

    /// The parts in words, as people call them, with their times.
    pub fn parts(&self) -> [(&'static str, f64); 11] {
        [
            ("waiting for locks", self.locks_ns),
            ("in condition waits", self.conditions_ns),
            ("joining threads", self.joins_ns),
            ("sleeping", self.sleep_ns),
            ("waiting for events (epoll, poll, select, signals)", self.events_ns),
            ("in input and output", self.io_ns),
            ("waiting for other processes", self.child_ns),
            (
                "on futexes in no recorded call (semaphores, barriers, locks of Rust, Go and static programs)",
                self.futex_ns,
            ),
            ("asleep in the kernel's locks", self.kernel_locks_ns),
            ("in other waits", self.other_ns),
            ("in what was not looked at", self.unknown_ns),
        ]
    }
}

/// What the recorder and looks at the threads say of some of them, before the two are compared. Looks come a few times a second, so what
/// they say of one thread is off by some of them either way: that evens out over the threads of a process, and over the intervals
/// of a recording, as long as nothing is cut off at 0 before all of it is added up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    locks_ns: f64,
    conditions_ns: f64,
    joins_ns: f64,
    /// Blocked in none of these, ns.
    left_ns: f64,
    /// Seen on futexes, less what is recorded of the time that was looked at: below 0 where looks saw too few of the waits, ns.
    futex_ns: f64,
    sleep_ns: f64,
    events_ns: f64,
    io_ns: f64,
    child_ns: f64,
    other_ns: f64,
}

impl Observed {
    /// Of one thread: what was recorded of it, up to the `off_cpu_ns` of the time in which it was recorded, then what looks at it
    /// have seen, of `before_ns` more, too.
    fn of_thread(off_cpu_ns: f64, before_ns: f64, recorded: &Recorded, task: Option<&TaskValues>) -> Self {
        let mut left = off_cpu_ns.max(0.0);
        // What was recorded is elapsed time, and has the wait for a core in it.
        let mut take = |ns: f64| {
            let taken = ns.clamp(0.0, left);
            left -= taken;
            taken
        };
        let (locks_ns, conditions_ns, joins_ns) =
            (take(recorded.locks_ns), take(recorded.conditions_ns), take(recorded.joins_ns));
        let seen = task.copied().unwrap_or_default();
        let looked_at_ns = seen_in(&seen);
        let [futex_ns, sleep_ns, events_ns, io_ns, child_ns, other_ns] =
            [seen.futex_ns, seen.sleep_ns, seen.events_ns, seen.io_ns, seen.child_ns, seen.other_ns]
                .map(|ns| ns as f64);
        Self {
            locks_ns,
            conditions_ns,
            joins_ns,
            left_ns: left + before_ns,
            futex_ns: futex_ns - (locks_ns + conditions_ns + joins_ns).min(looked_at_ns),
            sleep_ns,
            events_ns,
            io_ns,
            child_ns,
            other_ns,
        }
    }

    /// Of a thread that was blocked for so long, for a part of it in recorded waits for locks: looks saw it on futexes and asleep.
    #[cfg(test)]
    pub(super) fn of_waits(locks_ns: f64, off_cpu_ns: f64, futex_ns: u64) -> Self {
        let recorded = Recorded { locks_ns, ..Recorded::default() };
        let sleep_ns = off_cpu_ns as u64 - futex_ns;
        let task = TaskValues { futex_ns, sleep_ns, ..TaskValues::default() };
        Self::of_thread(off_cpu_ns, 0.0, &recorded, Some(&task))
    }

    pub(super) fn add(&mut self, more: &Self) {
        for (into, from) in [
            (&mut self.locks_ns, more.locks_ns),
            (&mut self.conditions_ns, more.conditions_ns),
            (&mut self.joins_ns, more.joins_ns),
            (&mut self.left_ns, more.left_ns),
            (&mut self.futex_ns, more.futex_ns),
            (&mut self.sleep_ns, more.sleep_ns),
            (&mut self.events_ns, more.events_ns),
            (&mut self.io_ns, more.io_ns),
            (&mut self.child_ns, more.child_ns),
            (&mut self.other_ns, more.other_ns),
        ] {
            *into += from;
        }
    }

    /// The blocked time that this comes to.
    fn blocked(&self) -> Blocked {
        let futex_ns = self.futex_ns.max(0.0);
        let all = futex_ns + self.sleep_ns + self.events_ns + self.io_ns + self.child_ns + self.other_ns;
        let scale = if all > self.left_ns { self.left_ns / all } else { 1.0 };
        Blocked {
            locks_ns: self.locks_ns,
            conditions_ns: self.conditions_ns,
            joins_ns: self.joins_ns,
            sleep_ns: self.sleep_ns * scale,
            events_ns: self.events_ns * scale,
            io_ns: self.io_ns * scale,
            child_ns: self.child_ns * scale,
            futex_ns: futex_ns * scale,
            kernel_locks_ns: 0.0, // no look tells
            other_ns: self.other_ns * scale,
            unknown_ns: self.left_ns - all * scale,
        }
    }

    /// The blocked time of several processes.
    pub(super) fn of_processes<'s>(all: impl IntoIterator<Item = &'s Self>) -> Blocked {
        let mut sum = Blocked::default();
        all.into_iter().for_each(|process| sum.add(&process.blocked()));
        sum
    }
}

/// Blocked time, recorded and not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// Time blocked in recorded waits for locks and condition waits, ns. Where a lock spins this counts spinning too, up to a
    /// thread's off-CPU time.
    pub seen_ns: f64,
    /// Time that threads neither ran nor waited for a core, ns.
    pub off_cpu_ns: f64,
    /// The part of `off_cpu_ns` that was in no wait for a lock of the program: joins, sleeps, events, input and output, other
    /// processes, and locks of the kernel.
    pub in_no_lock_ns: f64,
}

impl Coverage {
    /// The part that was recorded of what may have been waits for locks, 0 to 1; 1 if there was nothing to record.
    pub fn ratio(&self) -> f64 {
        let of = self.off_cpu_ns - self.in_no_lock_ns;
        if of > 0.0 { (self.seen_ns / of).min(1.0) } else { 1.0 }
    }
}

/// Blocked time that was not recorded as a wait, by what the threads were in when the launcher looked at them; ns. Zeros where
/// the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Unseen {
    /// On futexes, but in no call that is recorded: semaphores, barriers, and locks on raw futexes (Rust, Go, static
    /// programs).
    pub futex_ns: f64,
    /// Sleeping until a time.
    pub sleep_ns: f64,
    /// Waiting for events: epoll, poll, select.
    pub events_ns: f64,
    /// Input and output: pipes, sockets, files.
    pub io_ns: f64,
    /// Waiting for another process.
    pub child_ns: f64,
    /// Anything else.
    pub other_ns: f64,
}

/// What the recorder says of a thread's waits, ns of elapsed time.
#[derive(Clone, Copy, Default)]
struct Recorded {
    locks_ns: f64,
    conditions_ns: f64,
    joins_ns: f64,
}

impl Recorded {
    /// What a thread was in that was not over at the end.
    fn unended(ends: &Ends<'_>, section: &Section, thread: &ThreadValues) -> Self {
        let since = |ticks| ends.lasted_ns(section, thread, ticks);
        Self {
            locks_ns: since(thread.lock_waited_since),
            conditions_ns: since(thread.waiting_since),
            joins_ns: since(thread.joining_since),
        }
    }

    fn add(&mut self, more: Self) {
        self.locks_ns += more.locks_ns;
        self.conditions_ns += more.conditions_ns;
        self.joins_ns += more.joins_ns;
    }
}

/// The threads of a profile, those that touched no lock included.
pub(super) struct Threads {
    /// How long each lived, from its first touch of a lock, by the position of its record; ns.
    ages_ns: HashMap<u64, f64>,
    /// What they were blocked in, by process; `None` if nothing tells for any of them.
    pub(super) observed: Option<BTreeMap<u64, Observed>>,
    /// How long they were ready and had no core, ns; `None` likewise.
    pub(super) queued_ns: Option<f64>,
    /// The part of their time in which they waited for events, each weighed by its time on cores; `None` likewise.
    pub(super) events_share: Option<f64>,
    /// The same of sleeping until a time.
    pub(super) sleep_share: Option<f64>,
    /// How many waited for a lock or acquired one.
    pub(super) count: u64,
}

/// A part of the threads' time, each thread weighed by its time on cores: one that sleeps while others work hardly counts.
#[derive(Default)]
struct Weighed {
    part_ns: f64,
    running_ns: f64,
}

impl Weighed {
    fn add(&mut self, task: &TaskValues, ns: f64) {
        let running_ns = task.running_ns as f64;
        self.running_ns += running_ns;
        self.part_ns += running_ns * (ns / task.age_ns.max(1) as f64).min(1.0);
    }

    fn share(&self) -> Option<f64> {
        (self.running_ns > 0.0).then(|| self.part_ns / self.running_ns)
    }
}

impl Threads {
    pub(super) fn of(profile: &Profile, ends: &Ends<'_>, ns_per_tick: f64) -> Self {
        let tasks: HashMap<(u64, u64), &TaskValues> =
            profile.tasks.iter().map(|task| ((task.pid, task.tid), task)).collect();
        let mut accounted: BTreeSet<(u64, u64)> = BTreeSet::new();
        let mut ages_ns = HashMap::new();
        let mut observed: BTreeMap<u64, Observed> = BTreeMap::new();
        let mut queued_ns = 0.0;
        let (mut events, mut sleep) = (Weighed::default(), Weighed::default());
        let mut add = |pid: u64, queued: u64, of_thread: Observed, task: Option<&TaskValues>| {
            observed.entry(pid).or_default().add(&of_thread);
            queued_ns += queued as f64;
            if let Some(task) = task {
                let blocked = of_thread.blocked();
                events.add(task, blocked.events_ns);
                sleep.add(task, blocked.sleep_ns);
            }
        };
        // By process and thread: the thread that executes another program is the same one in both images.
        let mut unended: BTreeMap<(u64, u64), Recorded> = BTreeMap::new();
        // A thread whose waits were watched beside its recorder has a record in both sections.
        let (watched, recorded): (Vec<_>, Vec<_>) = profile.sections.iter().partition(|s| s.is_watched());
        let mut beside = waits_by_thread(&watched, ns_per_tick);
        let mut count: u64 = 0;
        for section in recorded {
            let process = &section.process;
            count = count.saturating_add(process.threads.saturating_sub(process.only_joined));
            let mut recorded = recorded_waits(section, ns_per_tick);
            ages_ns.extend(ages_of(section, ends));
            for (&position, thread) in &section.threads {
                let who = (section.process.pid, thread.tid);
                let mut waits = recorded.remove(&position).unwrap_or_default();
                if let Some(more) = beside.remove(&who) {
                    waits.add(more);
                }
                waits.add(Recorded::unended(ends, section, thread));
                waits.joins_ns += thread.join_ticks as f64 * ns_per_tick;
                if thread.ended_ns != 0 {
                    let off_cpu_ns =
                        thread.age_ns as f64 - thread.running_ns as f64 - thread.queued_ns as f64;
                    // One record may stand for several threads, of which the launcher knows the last by this identifier.
                    let task = tasks.get(&who).copied().filter(|_| thread.lives <= 1);
                    // The recorder knows the thread from its first lock on. Of the time before, what the launcher has seen the
                    // thread in counts, too; how a program is loaded does not.
                    let (seen_off_cpu_ns, seen_queued_ns) = task
                        .map_or((0.0, 0), |task| (off_cpu_of_task(task).min(seen_in(task)), task.queued_ns));
                    let before_ns = (seen_off_cpu_ns - off_cpu_ns.max(0.0)).max(0.0);
                    let of_thread = Observed::of_thread(off_cpu_ns, before_ns, &waits, task);
                    add(who.0, thread.queued_ns.max(seen_queued_ns), of_thread, task);
                    accounted.insert(who);
                } else {
                    unended.entry(who).or_default().add(waits);
                }
            }
        }
        ages_ns.extend(watched.iter().flat_map(|section| ages_of(section, ends)));
        count = count.saturating_add(beside.len() as u64);
        for (who, waits) in beside {
            unended.entry(who).or_default().add(waits);
        }
        for task in &profile.tasks {
            unended.entry((task.pid, task.tid)).or_default(); // of the others nothing is recorded
        }
        for (who, waits) in unended {
            if let Some(task) = tasks.get(&who).filter(|_| accounted.insert(who)) {
                let of_thread = Observed::of_thread(off_cpu_of_task(task), 0.0, &waits, Some(task));
                add(who.0, task.queued_ns, of_thread, Some(task));
            }
        }
        let known = !observed.is_empty();
        Self {
            ages_ns,
            observed: known.then_some(observed),
            queued_ns: known.then_some(queued_ns),
            events_share: events.share(),
            sleep_share: sleep.share(),
            count,
        }
    }

    /// How long the thread of a record lived, from its first touch of a lock; ns.
    pub(super) fn age_ns(&self, position: u64) -> f64 {
        self.ages_ns.get(&position).copied().unwrap_or(0.0)
    }
}

/// What threads waited by their pairs, by the position of the thread's record.
fn recorded_waits(section: &Section, ns_per_tick: f64) -> HashMap<u64, Recorded> {
    let mut waits: HashMap<u64, Recorded> = HashMap::new();
    for pair in &section.pairs {
        let of_thread = waits.entry(pair.thread).or_default();
        of_thread.locks_ns += pair.values.wait_ticks as f64 * ns_per_tick;
        // The mutex's return is a part of the condition wait.
        of_thread.conditions_ns += pair.values.condition_ticks as f64 * ns_per_tick;
    }
    waits
}

/// What threads that were watched waited, by process and thread.
fn waits_by_thread(watched: &[&Section], ns_per_tick: f64) -> BTreeMap<(u64, u64), Recorded> {
    let mut waits: BTreeMap<(u64, u64), Recorded> = BTreeMap::new();
    for section in watched {
        let recorded = recorded_waits(section, ns_per_tick);
        for (position, thread) in &section.threads {
            let of_thread = waits.entry((section.process.pid, thread.tid)).or_default();
            of_thread.add(recorded.get(position).copied().unwrap_or_default());
            of_thread.joins_ns += thread.join_ticks as f64 * ns_per_tick;
        }
    }
    waits
}

/// How long the threads of a section lived, from their first touch of a lock, by the positions of their records; ns.
fn ages_of(section: &Section, ends: &Ends<'_>) -> impl Iterator<Item = (u64, f64)> {
    let stamps = section.pairs.iter().map(|pair| pair.values.released.max(pair.values.hold_started));
    let end_ns = ends.end_ns(section, stamps.max().unwrap_or(0));
    section.threads.iter().map(move |(&position, thread)| {
        let present_ns = if thread.ended_ns != 0 { 0 } else { end_ns.saturating_sub(thread.started_ns) };
        (position, thread.age_ns as f64 + present_ns as f64)
    })
}

/// How long looks have seen what a thread was blocked in, ns.
fn seen_in(task: &TaskValues) -> f64 {
    let &TaskValues { futex_ns, sleep_ns, events_ns, io_ns, child_ns, other_ns, .. } = task;
    [futex_ns, sleep_ns, events_ns, io_ns, child_ns, other_ns].iter().map(|&ns| ns as f64).sum()
}

fn off_cpu_of_task(task: &TaskValues) -> f64 {
    task.age_ns as f64 - task.running_ns as f64 - task.queued_ns as f64
}

#[cfg(test)]
mod tests {
    use super::super::container::PairRecord;
    use super::*;
    use crate::format::{HeaderValues, PairValues, ProcessValues, RunValues};

    /// Children that leave by `_exit`, as those of Python's `multiprocessing` do, tell no end.
    #[test]
    fn a_thread_whose_process_tells_no_end_lives_as_long_as_it_is_known_to() {
        const S: u64 = 1_000_000_000;
        let thread =
            |tid, begin_s: u64| ThreadValues { tid, started_ns: begin_s * S, ..ThreadValues::default() };
        let section = |pid: u64, begin_s: u64| Section {
            number: pid + begin_s,
            process: ProcessValues { pid, clock_first_ticks: begin_s * S, ..ProcessValues::default() },
            threads: [(begin_s, thread(pid, begin_s))].into(),
            ..Section::default()
        };
        let task = |pid, age_ns| TaskValues { pid, tid: pid, age_ns, ..TaskValues::default() };
        let (first, replacing, mut seen) = (section(10, 1), section(10, 51), section(20, 2));
        // It ended with its process, whenever it was seen last.
        seen.threads.insert(200, thread(21, 4));
        // Between two looks.
        let mut unseen = section(30, 3);
        unseen.pairs.push(PairRecord::cold(3, PairValues { released: 4 * S, ..PairValues::default() }));
        let header = HeaderValues {
            clock_first_ticks: S,
            clock_first_ns: S,
            clock_last_ticks: 101 * S,
            clock_last_ns: 101 * S,
            ..HeaderValues::default()
        };
        let mut profile = Profile {
            path: "p".into(),
            header,
            sections: vec![first, replacing, seen, unseen],
            run: Some(RunValues::default()),
            tasks: vec![task(10, 101 * S), task(20, 5 * S)],
            kernel: None,
        };
        let ages_s = |profile: &Profile| {
            let threads = Threads::of(profile, &Ends::of(profile, 1.0), 1.0);
            [1, 51, 2, 200, 3].map(|position| threads.age_ns(position) / 1e9)
        };
        assert_eq!(ages_s(&profile), [50.0, 50.0, 3.0, 1.0, 1.0]);
        profile.tasks.clear();
        assert_eq!(ages_s(&profile), [50.0, 50.0, 99.0, 97.0, 98.0], "they may run on");
    }

    /// As `python launcher.py` that ends in `os.execv`, and whose server is killed.
    #[test]
    fn a_thread_that_executes_another_program_waits_in_both() {
        let section = |number, wait_ticks| Section {
            number,
            process: ProcessValues { pid: 10, clock_first_ticks: number, ..ProcessValues::default() },
            threads: [(number, ThreadValues { tid: 10, ..ThreadValues::default() })].into(),
            pairs: vec![PairRecord::cold(number, PairValues { wait_ticks, ..PairValues::default() })],
            ..Section::default()
        };
        let task = TaskValues { pid: 10, tid: 10, age_ns: 100, futex_ns: 65, ..TaskValues::default() };
        let profile = Profile {
            path: "p".into(),
            header: HeaderValues::default(),
            sections: vec![section(1, 5), section(2, 60)],
            run: Some(RunValues::default()),
            tasks: vec![TaskValues { sleep_ns: 35, ..task }],
            kernel: None,
        };
        let observed = Threads::of(&profile, &Ends::of(&profile, 1.0), 1.0).observed.expect("a look");
        let blocked = Observed::of_processes(observed.values());
        assert_eq!((blocked.locks_ns, blocked.futex_ns, blocked.sleep_ns), (65.0, 0.0, 35.0));
    }

    #[test]
    fn joins_and_sleeps_are_no_blocking_that_was_missed() {
        let recorded = Recorded { locks_ns: 10.0, conditions_ns: 20.0, joins_ns: 30.0 };
        let task = TaskValues { futex_ns: 60, sleep_ns: 30, ..TaskValues::default() };
        let blocked = Observed::of_thread(100.0, 0.0, &recorded, Some(&task)).blocked();
        assert_eq!((blocked.futex_ns, blocked.sleep_ns, blocked.unknown_ns), (0.0, 30.0, 10.0));
        let coverage = blocked.coverage();
        assert_eq!((coverage.seen_ns, coverage.off_cpu_ns, coverage.in_no_lock_ns), (30.0, 100.0, 60.0));
        assert_eq!(coverage.ratio(), 0.75);
        assert_eq!(Blocked::default().coverage().ratio(), 1.0);
    }

    /// Looks see one thread too often on futexes and another one too rarely: together they have seen what was recorded.
    #[test]
    fn what_looks_see_too_much_of_one_thread_they_see_too_little_of_another() {
        let recorded = Recorded { locks_ns: 50.0, ..Recorded::default() };
        let thread = |futex_ns| Observed::of_waits(recorded.locks_ns, 100.0, futex_ns);
        let mut process = thread(60);
        process.add(&thread(40));
        let blocked = process.blocked();
        assert_eq!((blocked.futex_ns, blocked.sleep_ns, blocked.unknown_ns), (0.0, 100.0, 0.0));
        assert_eq!(blocked.coverage().ratio(), 1.0);
        // What other processes were seen in too rarely does not hide what this one was in that is not recorded.
        let blocked = Observed::of_processes(&[thread(60), thread(40)]);
        assert_eq!(blocked.futex_ns, 10.0);
        // Nor does what is recorded of a thread of which there is no look.
        let mut process = thread(60);
        process.add(&Observed::of_thread(100.0, 0.0, &recorded, None));
        assert_eq!((process.blocked().futex_ns, process.blocked().unknown_ns), (10.0, 50.0));
    }

    #[test]
    fn sleep_in_the_kernels_locks_is_what_a_look_calls_something_else() {
        let task = TaskValues { io_ns: 20, other_ns: 30, sleep_ns: 40, ..TaskValues::default() };
        let before = Observed::of_thread(100.0, 0.0, &Recorded::default(), Some(&task)).blocked();
        assert_eq!(before.coverage().ratio(), 0.0, "40 ns may have been waits for locks");
        for (asleep_ns, left) in [(25.0, [5.0, 10.0, 20.0]), (45.0, [0.0, 0.0, 15.0]), (500.0, [0.0; 3])] {
            let mut blocked = before;
            blocked.asleep_in_kernel_locks(asleep_ns);
            assert_eq!([blocked.other_ns, blocked.unknown_ns, blocked.io_ns], left, "of {asleep_ns} ns");
            assert_eq!((blocked.total_ns(), blocked.sleep_ns), (before.total_ns(), 40.0));
        }
    }

    #[test]
    fn time_before_the_first_lock_is_in_no_recorded_wait() {
        // Waits that spun for most of their 90 ns: only 10 ns of the recorded time was off the core.
        let recorded = Recorded { locks_ns: 90.0, ..Recorded::default() };
        let task = TaskValues { sleep_ns: 500, ..TaskValues::default() };
        let blocked = Observed::of_thread(10.0, 490.0, &recorded, Some(&task)).blocked();
        assert_eq!((blocked.locks_ns, blocked.sleep_ns, blocked.unknown_ns), (10.0, 490.0, 0.0));
    }

    #[test]
    fn a_thread_that_sleeps_while_others_work_hardly_counts() {
        let task = |running_ns| TaskValues { age_ns: 1_000, running_ns, ..TaskValues::default() };
        let mut sleep = Weighed::default();
        assert_eq!(sleep.share(), None);
        sleep.add(&task(1), 999.0);
        sleep.add(&task(900), 0.0);
        assert!(sleep.share().is_some_and(|share| share < 0.01));
        let mut sleep = Weighed::default();
        for _ in 0..2 {
            sleep.add(&task(400), 600.0);
        }
        assert_eq!(sleep.share(), Some(0.6));
    }

    #[test]
    fn the_parts_never_are_more_than_the_whole() {
        let recorded = Recorded { locks_ns: 70.0, conditions_ns: 70.0, joins_ns: 70.0 };
        let task = TaskValues { futex_ns: 500, io_ns: 100, other_ns: 300, ..TaskValues::default() };
        for (off_cpu_ns, recorded) in
            [(100.0, recorded), (100.0, Recorded::default()), (-5.0, Recorded::default())]
        {
            let blocked = Observed::of_thread(off_cpu_ns, 0.0, &recorded, Some(&task)).blocked();
            let parts = blocked.parts().map(|(_, ns)| ns);
            assert!(parts.iter().all(|&ns| (-1e-9..=100.0).contains(&ns)), "{blocked:?}");
            assert!((parts.iter().sum::<f64>() - off_cpu_ns.max(0.0)).abs() < 1e-9, "{blocked:?}");
        }
    }
}
