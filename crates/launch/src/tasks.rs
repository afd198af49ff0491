//! Watching the threads of a program from outside: how long they ran, waited for a core, or were blocked.
//!
//! A thread inside the program would disturb what is measured, so the launcher looks: each tenth of a second, or less
//! often where looking takes long. What a thread does between the last look and its end is missed here; threads that
//! touched a lock tell that themselves.

use procfs::process::{Process, Task};
use profile::format::TaskValues;
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// Looking may take one part in this many of the time.
const SHARE: u32 = 100;

/// What was seen of threads, by process, thread and start, since identifiers are used again.
pub type Sight = BTreeMap<(u64, u64, u64), TaskValues>;

/// What was seen of a process tree so far.
#[derive(Debug)]
pub struct Tasks {
    root: u32,
    /// Whether the processes that it starts are looked at, too.
    descends: bool,
    ticks_per_second: u64,
    seen: Sight,
    /// What was seen of those that were there before.
    before: Sight,
}

impl Tasks {
    /// Nothing seen yet of the tree under this process.
    pub fn of(root: u32) -> Self {
        Self {
            root,
            descends: true,
            ticks_per_second: clock_ticks_per_second().max(1),
            seen: BTreeMap::new(),
            before: BTreeMap::new(),
        }
    }

    /// From now on, what the threads of this process do, which runs already.
    pub fn from_now_on(process: u32) -> Self {
        let mut tasks = Self { descends: false, ..Self::of(process) };
        tasks.look();
        tasks.before.clone_from(&tasks.seen);
        tasks
    }

    /// Looks at every thread of the tree once; returns when to look again.
    pub fn look(&mut self) -> Duration {
        let start = Instant::now();
        let mut processes = vec![self.root];
        while let Some(pid) = processes.pop() {
            // A process that ended meanwhile has no directory: whatever was seen of it stays.
            let process = Process::new(pid.cast_signed());
            let Ok(threads) = process.and_then(|process| process.tasks()) else { continue };
            for thread in threads.flatten() {
                self.look_at(&thread);
                if self.descends {
                    processes.extend(thread.children().unwrap_or_default());
                }
            }
        }
        INTERVAL.max(start.elapsed() * SHARE)
    }

    fn look_at(&mut self, thread: &Task) {
        let (Ok(stat), Ok(schedule)) = (thread.stat(), thread.schedstat()) else { return };
        let (running_ns, queued_ns) = (schedule.sum_exec_runtime, schedule.run_delay);
        let started_ns = stat.starttime.saturating_mul(1_000_000_000 / self.ticks_per_second);
        let now = clock_gettime(ClockId::Boottime);
        let now = now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned();
        // The crate knows this file of processes only.
        let waits_in = format!("/proc/{}/task/{}/wchan", thread.pid, thread.tid);
        let waits_in = fs::read_to_string(waits_in).unwrap_or_default();
        let (pid, tid) = (u64::from(thread.pid.cast_unsigned()), u64::from(thread.tid.cast_unsigned()));
        let before = self.seen.get(&(pid, tid, started_ns)).copied().unwrap_or_default();
        let mut values = TaskValues {
            pid,
            tid,
            started_ns,
            // The start is only known to a clock tick; a thread cannot have run longer than it lived.
            age_ns: now.saturating_sub(started_ns).max(running_ns.saturating_add(queued_ns)),
            running_ns,
            queued_ns,
            ..before
        };
        // What a thread is seen in stands for the time since the last look, as in any profile by samples.
        let blocked_ns = blocked_ns(&values).saturating_sub(blocked_ns(&before));
        if let Some(kind) = wait_kind(&waits_in, &mut values) {
            *kind += blocked_ns;
        }
        self.seen.insert((pid, tid, started_ns), values);
    }

    /// The last sight of each thread.
    pub fn sight(&self) -> &Sight {
        &self.seen
    }

    /// Forgets the threads that have ended.
    pub fn forget_gone(&mut self) {
        self.seen.retain(|(pid, tid, _), _| Path::new(&format!("/proc/{pid}/task/{tid}")).exists());
    }

    /// The last sight of each thread, less an earlier one.
    pub fn since(&self, earlier: &Sight) -> Vec<TaskValues> {
        let less =
            |(who, task): (&_, &TaskValues)| earlier.get(who).map_or(*task, |before| since(task, before));
        self.seen.iter().map(less).collect()
    }

    /// The last sight of each thread, less what came before.
    pub fn into_values(self) -> Vec<TaskValues> {
        self.since(&self.before)
    }
}

/// What came to a thread between two sights of it.
fn since(task: &TaskValues, before: &TaskValues) -> TaskValues {
    let less = |of: fn(&TaskValues) -> u64| of(task).saturating_sub(of(before));
    TaskValues {
        // The age on top of it is the last sight, by which it is told which threads are there no more.
        started_ns: task.started_ns.saturating_add(before.age_ns),
        age_ns: less(|task| task.age_ns),
        running_ns: less(|task| task.running_ns),
        queued_ns: less(|task| task.queued_ns),
        futex_ns: less(|task| task.futex_ns),
        sleep_ns: less(|task| task.sleep_ns),
        events_ns: less(|task| task.events_ns),
        io_ns: less(|task| task.io_ns),
        child_ns: less(|task| task.child_ns),
        other_ns: less(|task| task.other_ns),
        ..*task
    }
}

/// How long a thread was neither on a core nor ready for one.
fn blocked_ns(task: &TaskValues) -> u64 {
    task.age_ns.saturating_sub(task.running_ns.saturating_add(task.queued_ns))
}

/// Where the time goes that a thread spends in this function of the kernel, by `/proc/PID/wchan`; `None` for a thread that
/// does not wait, or where the kernel does not tell.
fn wait_kind<'t>(waits_in: &str, task: &'t mut TaskValues) -> Option<&'t mut u64> {
    let has = |parts: &[&str]| parts.iter().any(|part| waits_in.contains(part));
    Some(match waits_in {
        "" | "0" => return None,
        _ if has(&["futex"]) => &mut task.futex_ns,
        _ if has(&["nanosleep"]) => &mut task.sleep_ns,
        _ if has(&[
            "ep_poll", "epoll", "poll_schedule", "do_poll", "do_select", "io_cqring", "read_events",
        ]) =>
        {
            &mut task.events_ns
        }
        // sigwait, sigwaitinfo and sigtimedwait; pause; sigsuspend.
        _ if has(&["sigtimedwait", "sys_pause", "sigsuspend"]) => &mut task.events_ns,
        _ if waits_in == "do_wait" || has(&["kernel_wait", "wait_for_vfork"]) => &mut task.child_ns,
        _ if has(&[
            "pipe", "msgrcv", "msgsnd", "wq_sleep", "skb", "sock", "tcp", "unix_", "inet_", "tty", "n_tty",
            "io_", "folio", "page", "bit_wait", "_read", "_write", "fsync", "jbd2",
        ]) =>
        {
            &mut task.io_ns
        }
        _ => &mut task.other_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_kernel_are_kinds_of_waits() {
        let kind = |waits_in| {
            let mut task = TaskValues::default();
            *wait_kind(waits_in, &mut task)? = 1;
            let TaskValues { futex_ns, sleep_ns, events_ns, io_ns, child_ns, other_ns, .. } = task;
            [futex_ns, sleep_ns, events_ns, io_ns, child_ns, other_ns].iter().position(|&ns| ns == 1)
        };
        let names = [
            "futex_wait_queue", "hrtimer_nanosleep", "ep_poll", "do_epoll_wait", "pipe_read", "do_wait",
            "do_sigtimedwait", "__x64_sys_pause", "sigsuspend", "read_events", "inet_csk_accept",
            "inotify_read", "do_msgrcv", "do_semtimedop", "0", "",
        ];
        let expected = [0, 1, 2, 2, 3, 4, 2, 2, 2, 2, 3, 3, 3, 5].map(Some).into_iter().chain([None, None]);
        assert_eq!(names.map(kind).to_vec(), expected.collect::<Vec<_>>());
    }

    /// No more goes to kinds of waits than there was; and where the kernel tells, a sleep is one.
    #[test]
    fn time_goes_to_what_a_thread_is_seen_in() {
        const LOOKS: usize = 400;
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep starts");
        let mut tasks = Tasks::of(sleeper.id());
        let mut asleep = false;
        for _ in 0..LOOKS {
            tasks.look();
            let seen: Vec<_> = tasks.seen.values().collect();
            assert!(seen.iter().all(|task| task.sleep_ns + task.futex_ns + task.io_ns <= blocked_ns(task)));
            let waits_in = fs::read_to_string(format!("/proc/{}/wchan", sleeper.id()));
            asleep = waits_in.is_ok_and(|waits_in| waits_in.contains("nanosleep"));
            if !asleep || seen.iter().any(|task| task.sleep_ns > 0) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        sleeper.kill().and_then(|()| sleeper.wait()).expect("it ends");
        assert!(!asleep || tasks.seen.values().any(|task| task.sleep_ns > 0), "{tasks:?}");
    }

    #[test]
    fn what_came_to_a_thread_ends_at_its_last_sight() {
        let before = TaskValues { started_ns: 1_000, age_ns: 500, running_ns: 300, ..TaskValues::default() };
        let task = TaskValues { age_ns: 800, running_ns: 350, ..before };
        let new = since(&task, &before);
        assert_eq!((new.started_ns, new.age_ns, new.running_ns), (1_500, 300, 50));
        assert_eq!(since(&before, &TaskValues::default()), before, "one that has just come");
    }

    #[test]
    fn this_program_is_seen() {
        let mut tasks = Tasks::of(std::process::id());
        assert!(tasks.look() >= INTERVAL);
        let values = tasks.into_values();
        assert!(!values.is_empty());
        assert!(values.iter().all(|task| task.pid == u64::from(std::process::id())));
        assert!(values.iter().all(|task| task.age_ns >= task.running_ns));
    }
}
