//! `futex`: waits, wake-ups and requeues on the futexes of the running kernel, and beside them on the library's own wait table.
//!
//! The loads, their options and most defaults are those of `perf bench futex`, so that figures can be held against its own.

mod queues;

use ::report::{Cell, Column, Table};
use anyhow::Context as _;
use bench::findings::{Drawing, Findings, Part};
use bench::timing::{Bench, CUT_SHORT};
use compare::statistics;
use curve::{Curve, Point, Provenance, Unit};
use machine::{Machine as _, Patient, Plan};
use queues::{FutexWord, Kernel, KernelByNode, Slots, Table as WaitTable, WaitQueues};
use rustix::thread::futex;
use session::ensure_usage;
use session::interrupt;
use session::noise::Watch;
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicUsize};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the threads do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Each thread waits on futexes of its own that do not hold what it expects, so that every wait returns at once: what it takes
    /// to find the bucket.
    Hash,
    /// One thread wakes all others, which sleep on one futex.
    Wake,
    /// Several threads wake the others at once.
    WakeParallel,
    /// One thread requeues all others from one futex to another.
    Requeue,
    /// Each thread takes and gives back one futex with priority inheritance, and sleeps for a microsecond between.
    LockPi,
}

impl Load {
    /// Its name on the command line, as perf has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Wake => "wake",
            Self::WakeParallel => "wake-parallel",
            Self::Requeue => "requeue",
            Self::LockPi => "lock-pi",
        }
    }

    const fn heading(self) -> &'static str {
        match self {
            Self::Hash => "Waits that return at once, on many futexes",
            Self::Wake => "All threads woken by one",
            Self::WakeParallel => "All threads woken by several, each of which takes this long",
            Self::Requeue => "All threads requeued to another futex",
            Self::LockPi => "Futexes with priority inheritance, held for a microsecond of sleep",
        }
    }

    /// Whether the figure is a rate; else it is a time.
    const fn is_rate(self) -> bool {
        matches!(self, Self::Hash | Self::LockPi)
    }
}

/// How much of it, and how it is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Runs of each number of threads after the warm-up.
    pub runs: u32,
    /// Numbers of threads, without those that wake, each pinned to a core; 1, 2, 4, … all cores if there is none.
    pub threads: Vec<u16>,
    /// How long a run of `hash` and `lock-pi` lasts.
    pub duration: Duration,
    /// Futexes of each thread, in `hash`.
    pub futexes: usize,
    /// Threads woken or requeued by one call.
    pub at_once: u32,
    /// Threads that wake, in `wake-parallel`; as many as sleep if there is no number.
    pub wakers: Option<usize>,
    /// Futexes that processes could share, so that the kernel looks up the page of each.
    pub shared: bool,
    /// To a futex with priority inheritance, in `requeue`.
    pub pi: bool,
    /// A futex for each thread, in `lock-pi`.
    pub multi: bool,
    /// Buckets of this process's own table of futexes, 0 for the table of all processes; what the kernel thinks right if there is no
    /// number. The wait table has as many.
    pub buckets: Option<u32>,
}

impl Options {
    /// How many of so many threads one that wakes or requeues has for itself.
    fn share(&self, load: Load, threads: usize) -> usize {
        match load {
            Load::WakeParallel => threads.div_ceil(self.wakers.unwrap_or(threads)),
            _ => threads,
        }
    }
}

/// Futexes of all threads in `hash`: 1 GiB.
const MOST_FUTEXES: usize = (1 << 30) / size_of::<FutexWord>();

/// A failed call is made again if only a signal or a race that the call allows for was in the way.
fn retried<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            other => return other.map_err(Into::into),
        }
    }
}

/// The first error of several threads.
#[derive(Default)]
struct FirstError(Mutex<Option<io::Error>>);

impl FirstError {
    /// Notes an error; whether there was none.
    fn note<T>(&self, result: io::Result<T>) -> Option<T> {
        result
            .map_err(|error| {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            })
            .ok()
    }

    fn into_result(self) -> io::Result<()> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

/// Runs `operate` on a thread for each core until the time is over; operations a second of all threads.
fn rate(
    cores: &[u32],
    duration: Duration,
    operate: impl Fn(usize) -> io::Result<u64> + Sync,
) -> io::Result<f64> {
    let (sum, error) = (AtomicUsize::new(0), FirstError::default());
    let ran = Patient::run(&Plan::on(cores).lasting(duration.as_nanos() as u64), &|thread| {
        let mut operations = 0;
        // One at least, however late the thread starts.
        while operations == 0 || Patient::running() {
            let Some(done) = error.note(operate(thread)) else { return };
            operations += done;
        }
        sum.fetch_add(operations as usize, SeqCst);
    });
    error.into_result()?;
    Ok(sum.into_inner() as f64 * 1e9 / ran.elapsed_ns.max(1) as f64)
}

fn hash<Q: WaitQueues>(queues: &Q, cores: &[u32], options: &Options) -> io::Result<f64> {
    /// What no futex holds.
    const UNEXPECTED: u32 = 1_234;
    let words: Vec<Vec<FutexWord>> =
        cores.iter().map(|_| (0..options.futexes).map(|_| FutexWord::default()).collect()).collect();
    rate(cores, options.duration, |thread| {
        words[thread].iter().try_for_each(|word| queues.wait(word, UNEXPECTED))?;
        Ok(options.futexes as u64)
    })
}

fn lock_pi(cores: &[u32], options: &Options) -> io::Result<f64> {
    const HELD: Duration = Duration::from_micros(1);
    let words: Vec<FutexWord> = cores.iter().map(|_| FutexWord::default()).collect();
    let flags = Kernel { shared: options.shared }.flags();
    rate(cores, options.duration, |thread| {
        let word = &words[if options.multi { thread } else { 0 }].value;
        retried(|| futex::lock_pi(word, flags, None))?;
        std::thread::sleep(HELD);
        retried(|| futex::unlock_pi(word, flags))?;
        Ok(1)
    })
}

/// Between two looks at what other threads do.
const PAUSE: Duration = Duration::from_millis(1);

/// Threads that sleep, and those that are to end that.
struct Sleepers {
    /// The kernel's numbers of the threads, 0 where one has not begun.
    numbers: Vec<AtomicI32>,
    /// How many have left.
    gone: AtomicUsize,
}

impl Sleepers {
    fn count(&self) -> usize {
        self.numbers.len()
    }

    fn are_gone(&self) -> bool {
        self.gone.load(SeqCst) == self.count()
    }

    /// Waits until all are asleep.
    ///
    /// # Errors
    /// They are not within some seconds, or have left.
    fn await_asleep(&self) -> io::Result<()> {
        const LONGEST: Duration = Duration::from_secs(10);
        let began = Instant::now();
        let own = procfs::process::Process::myself().map_err(io::Error::other)?;
        let is_asleep = |number: &AtomicI32| match number.load(SeqCst) {
            0 => false,
            number => {
                own.task_from_tid(number).and_then(|task| task.stat()).is_ok_and(|stat| stat.state == 'S')
            }
        };
        while !self.numbers.iter().all(is_asleep) {
            if began.elapsed() > LONGEST {
                return Err(io::Error::other("the threads that are to be woken did not fall asleep"));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// Has a thread on each of the last cores sleep by `sleep`, and then one on each of the first `wakers` cores do `work`, all at
/// once. Gives the mean time of that, in nanoseconds. `release` lets the threads go that still sleep.
fn time_with_sleepers(
    cores: &[u32],
    wakers: usize,
    sleep: impl Fn() -> io::Result<()> + Sync,
    work: impl Fn(&Sleepers) -> io::Result<()> + Sync,
    release: impl Fn() -> io::Result<()> + Sync,
) -> io::Result<f64> {
    let numbers = (wakers..cores.len()).map(|_| AtomicI32::new(0)).collect();
    let sleepers = Sleepers { numbers, gone: AtomicUsize::new(0) };
    let (error, together) = (FirstError::default(), Barrier::new(wakers));
    let (taken_ns, at_work) = (AtomicUsize::new(0), AtomicUsize::new(wakers));
    Patient::run(&Plan::on(cores), &|thread| {
        if let Some(number) = thread.checked_sub(wakers) {
            sleepers.numbers[number].store(rustix::thread::gettid().as_raw_nonzero().get(), SeqCst);
            error.note(sleep());
            sleepers.gone.fetch_add(1, SeqCst);
            return;
        }
        if thread == 0 {
            error.note(sleepers.await_asleep());
        }
        together.wait();
        let began = Instant::now();
        error.note(work(&sleepers));
        taken_ns.fetch_add(began.elapsed().as_nanos() as usize, SeqCst);
        at_work.fetch_sub(1, SeqCst);
        if thread == 0 {
            // Whatever went wrong, no thread sleeps for ever.
            while at_work.load(SeqCst) > 0 {
                std::thread::sleep(PAUSE);
            }
            while !sleepers.are_gone() {
                error.note(release());
                std::thread::sleep(PAUSE);
            }
        }
    });
    error.into_result()?;
    Ok(taken_ns.into_inner() as f64 / wakers as f64)
}

fn wake<Q: WaitQueues>(
    queues: &Q,
    cores: &[u32],
    wakers: usize,
    at_once: u32,
    share: usize,
) -> io::Result<f64> {
    let word = FutexWord::default();
    let sleep = || queues.wait(&word, 0);
    let work = |sleepers: &Sleepers| {
        let mut woken = 0;
        while woken < share && !sleepers.are_gone() {
            woken += queues.wake(&word, at_once)? as usize;
        }
        Ok(())
    };
    let release = || {
        word.value.store(1, SeqCst);
        queues.wake(&word, u32::MAX >> 1).map(drop)
    };
    time_with_sleepers(cores, wakers, sleep, work, release)
}

fn requeue(cores: &[u32], options: &Options) -> io::Result<f64> {
    /// Where a thread is not requeued as it should be, it goes on after so long.
    const LONGEST_S: i64 = 10;
    let kernel = Kernel { shared: options.shared };
    let flags = kernel.flags();
    let (from, to) = (FutexWord::default(), FutexWord::default());
    let sleep = || {
        if !options.pi {
            return kernel.wait(&from, 0);
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let deadline = rustix::fs::Timespec { tv_sec: now.tv_sec + LONGEST_S, tv_nsec: now.tv_nsec };
        match futex::wait_requeue_pi(&from.value, flags, 0, Some(&deadline), &to.value) {
            Ok(()) => retried(|| futex::unlock_pi(&to.value, flags)),
            Err(rustix::io::Errno::AGAIN) => Ok(()), // released
            Err(error) => Err(error.into()),
        }
    };
    let work = |sleepers: &Sleepers| {
        let mut requeued = 0;
        while requeued < sleepers.count() && !sleepers.are_gone() {
            requeued += retried(|| match options.pi {
                true => futex::cmp_requeue_pi(&from.value, flags, options.at_once, &to.value, 0),
                false => futex::cmp_requeue(&from.value, flags, 0, options.at_once, &to.value, 0),
            })?;
        }
        Ok(())
    };
    let release = || {
        from.value.store(1, SeqCst);
        if options.pi {
            return Ok(()); // each wakes the next
        }
        kernel.wake(&from, u32::MAX >> 1)?;
        kernel.wake(&to, u32::MAX >> 1).map(drop)
    };
    time_with_sleepers(cores, 1, sleep, work, release)
}

/// One round of a load on some queues: operations a second, or nanoseconds.
fn round<Q: WaitQueues>(
    queues: &Q,
    load: Load,
    bench: &Bench,
    threads: usize,
    options: &Options,
) -> io::Result<f64> {
    let cores = |wakers: usize| [bench.pinned(wakers), bench.pinned(threads)].concat();
    match load {
        Load::Hash => hash(queues, &cores(0), options),
        Load::LockPi => lock_pi(&cores(0), options),
        Load::Wake => wake(queues, &cores(1), 1, options.at_once, threads),
        Load::WakeParallel => {
            let share = options.share(load, threads);
            wake(queues, &cores(threads.div_ceil(share)), threads.div_ceil(share), share as u32, share)
        }
        Load::Requeue => requeue(&cores(1), options),
    }
}

/// Whose queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Kernel,
    KernelByNode,
    WaitTable,
}

impl Whose {
    const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "futex",
            Self::KernelByNode => "futex2, by node",
            Self::WaitTable => "wait table",
        }
    }

    /// Who can do it: only futexes requeue and inherit priorities.
    const fn of(load: Load) -> &'static [Self] {
        match load {
            Load::Hash | Load::Wake | Load::WakeParallel => {
                &[Self::Kernel, Self::KernelByNode, Self::WaitTable]
            }
            Load::Requeue | Load::LockPi => &[Self::Kernel],
        }
    }
}

/// What one number of threads came to.
struct LoadRow {
    whose: Whose,
    threads: usize,
    /// Operations a second or nanoseconds, round by round.
    values: Vec<f64>,
    failure: Option<String>,
}

/// Runs one of the loads.
///
/// # Errors
///
/// The kernel has no table of so many buckets for a process.
pub fn run(bench: &Bench, load: Load, options: &Options) -> anyhow::Result<Findings> {
    let threads: Vec<usize> = match options.threads[..] {
        [] => bench.up_to_cores(),
        _ => options.threads.iter().map(|&n| usize::from(n)).collect(),
    };
    let futexes = threads.iter().max().map_or(0, |&most| most.saturating_mul(options.futexes));
    ensure_usage!(
        load != Load::Hash || futexes <= MOST_FUTEXES,
        "{futexes} futexes take {} GiB: let threads and futexes multiply to {MOST_FUTEXES} at most",
        (futexes * size_of::<FutexWord>()).div_ceil(1 << 30)
    );
    if let Some(buckets) = options.buckets {
        Slots::set(buckets).with_context(|| {
            format!("the kernel gives this process no table of {buckets} futex buckets: a power of two from 2, or 0, on Linux 6.16 or newer")
        })?;
    }
    let table = WaitTable::new(bench.cores(), options.buckets);
    let mut rows: Vec<LoadRow> = threads
        .iter()
        .flat_map(|&threads| {
            Whose::of(load).iter().map(move |&whose| LoadRow {
                whose,
                threads,
                values: Vec::new(),
                failure: None,
            })
        })
        .collect();
    let progress = bench.start(rows.len() * (options.runs as usize + 1));
    let watch = Watch::start();
    for turn in 0..=options.runs {
        for row in &mut rows {
            progress.begin(&format!("{}, {} threads", row.whose.name(), row.threads));
            if row.failure.is_none() && !interrupt::came() {
                let value = match row.whose {
                    Whose::Kernel => {
                        round(&Kernel { shared: options.shared }, load, bench, row.threads, options)
                    }
                    Whose::KernelByNode => {
                        round(&KernelByNode { shared: options.shared }, load, bench, row.threads, options)
                    }
                    Whose::WaitTable => round(&table, load, bench, row.threads, options),
                };
                match value {
                    _ if interrupt::came() => {}
                    Ok(value) if turn > 0 => row.values.push(value),
                    Ok(_) => {}
                    Err(error) => row.failure = Some(error.to_string()),
                }
            }
            progress.done();
        }
    }
    for row in rows.iter_mut().filter(|row| interrupt::came() && row.values.is_empty()) {
        row.failure.get_or_insert_with(|| CUT_SHORT.into());
    }
    drop(progress);
    let noise = watch.stop();
    let curves = if load.is_rate() { curves(load, &rows)? } else { Vec::new() };
    Ok(Findings {
        workload: "futex",
        parts: vec![Part {
            key: "futex",
            heading: load.heading().into(),
            table: shown(load, &rows, options),
            notes: vec![buckets_in_words(&table)],
        }],
        goals: Vec::new(),
        drawing: Drawing::Curves(load.heading().into(), curves),
        noise,
    })
}

/// How many buckets there are.
fn buckets_in_words(table: &WaitTable) -> String {
    let of_kernel = match Slots::get() {
        Some(0) => "the kernel's one table".to_owned(),
        Some(slots) => format!("a table of its own with {slots} buckets in the kernel"),
        None => "the kernel's one table, as before Linux 6.16".to_owned(),
    };
    format!("This process's futexes are in {of_kernel}; the wait table has {} buckets.", table.buckets())
}

fn curves(load: Load, rows: &[LoadRow]) -> anyhow::Result<Vec<Curve>> {
    let of = |whose: Whose| {
        let points = rows.iter().filter(|row| row.whose == whose);
        let points = points.filter_map(|row| Point::of_runs(row.threads as u32, &row.values));
        Curve::new(whose.name(), Unit::OperationsPerSecond, Provenance::Measured)
            .workload(load.name())
            .with_points(points)
            .context("a number of threads was given twice")
    };
    Whose::of(load).iter().map(|&whose| of(whose)).collect()
}

fn shown(load: Load, rows: &[LoadRow], options: &Options) -> Table {
    let (figure, each) = if load.is_rate() {
        (Column::spread("ops_per_s", "operations/s"), Column::number("ops_per_s_of_thread", "of a thread"))
    } else {
        (Column::spread("us", "µs"), Column::number("ns_per_thread", "ns a thread"))
    };
    let mut table = Table::new([
        Column::text("queues", "queues"),
        Column::number("threads", "threads"),
        figure,
        each,
        Column::text("failure", "failure").only_if_any(),
    ]);
    for row in rows {
        let unit = if load.is_rate() { 1.0 } else { 1e3 };
        let values: Vec<f64> = row.values.iter().map(|value| value / unit).collect();
        let spread = statistics::spread(&values);
        table.row([
            Cell::from(row.whose.name()),
            Cell::from(row.threads),
            spread.into(),
            spread.map(|spread| spread.median * unit / options.share(load, row.threads) as f64).into(),
            row.failure.clone().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::progress::Unwatched;

    fn options() -> Options {
        Options {
            runs: 1,
            threads: vec![3],
            duration: Duration::from_millis(2),
            futexes: 8,
            at_once: 2,
            wakers: Some(2),
            shared: false,
            pi: false,
            multi: false,
            buckets: None,
        }
    }

    #[test]
    fn every_load_ends_on_all_queues_that_there_are() {
        let bench = Bench::new(&Unwatched);
        let of_kernel = Kernel { shared: false };
        let numa = KernelByNode { shared: true }.wake(&FutexWord::default(), 1).is_ok();
        for load in [Load::Hash, Load::Wake, Load::WakeParallel, Load::Requeue, Load::LockPi] {
            for pi in [false, true] {
                let options = Options { pi, multi: pi, ..options() };
                let findings = run(&bench, load, &options).expect("no table of its own was asked for");
                let rows = findings.parts[0].table.json();
                for row in rows.as_array().expect("rows") {
                    let may_fail = row["queues"] == Whose::KernelByNode.name() && !numa;
                    assert!(may_fail || row["failure"].is_null(), "{}, pi {pi}: {row}", load.name());
                }
                assert!(round(&of_kernel, load, &bench, 3, &options).is_ok_and(|value| value > 0.0));
            }
        }
    }

    #[test]
    fn more_futexes_than_memory_should_hold_are_refused() {
        let options = Options { threads: vec![4_096], futexes: 1_048_576, ..options() };
        let error = run(&Bench::new(&Unwatched), Load::Hash, &options).unwrap_err().to_string();
        assert!(error.contains("take 32 GiB"), "{error}");
    }

    #[test]
    fn one_that_fails_wakes_nobody_for_ever() {
        let failing = || Err(io::Error::other("on purpose"));
        let word = FutexWord::default();
        let kernel = Kernel { shared: false };
        let bench = Bench::new(&Unwatched);
        let cores = bench.pinned(3);
        let release = || {
            word.value.store(1, SeqCst);
            kernel.wake(&word, 9).map(drop)
        };
        let error =
            time_with_sleepers(&cores, 1, || kernel.wait(&word, 0), |_| failing(), release).unwrap_err();
        assert_eq!(error.to_string(), "on purpose");
    }
}
