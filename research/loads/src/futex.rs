//! `futex`: waits and wake-ups on the futexes of the running kernel, and beside them on the library's own wait table.
//!
//! The loads, their options and most defaults are those of `perf bench futex`, so that figures can be held against its own.

mod queues;

use crate::caught;
use ::report::{Cell, Column, Table};
use anyhow::Context as _;
use bench::findings::{Drawing, Findings, Part};
use bench::timing::{Bench, Rounds, in_rounds};
use compare::statistics;
use curve::{Curve, Point, Provenance, Unit};
use machine::{Machine as _, Patient, Plan};
use queues::{FutexWord, Kernel, KernelByNode, Slots, Table as WaitTable, WaitQueues};
use session::ensure_usage;
use session::interrupt;
use session::noise::Watch;
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicI32, AtomicUsize};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the threads do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Each thread waits on futexes of its own that do not hold what it expects, so that every wait returns at once: what it takes
    /// to find the bucket.
    Hash,
    /// One thread wakes all others, which sleep on one futex.
    Wake,
}

impl Load {
    /// Its name on the command line, as perf has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Wake => "wake",
        }
    }

    const fn heading(self) -> &'static str {
        match self {
            Self::Hash => "Waits that return at once, on many futexes",
            Self::Wake => "All threads woken by one",
        }
    }

    /// Whether the figure is a rate; else it is a time.
    const fn is_rate(self) -> bool {
        matches!(self, Self::Hash)
    }
}

/// How much of it, and how it is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Runs of each number of threads after the warm-up.
    pub runs: u32,
    /// Numbers of threads, without the one that wakes, each pinned to a core; 1, 2, 4, … all cores if there is none.
    pub threads: Vec<u16>,
    /// How long a run of `hash` lasts.
    pub duration: Duration,
    /// Futexes of each thread, in `hash`.
    pub futexes: usize,
    /// Threads woken by one call.
    pub at_once: u32,
    /// Futexes that processes could share, so that the kernel looks up the page of each.
    pub shared: bool,
    /// Buckets of this process's own table of futexes, 0 for the table of all processes; what the kernel thinks right if there is no
    /// number. The wait table has as many.
    pub buckets: Option<u32>,
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

/// Operations a second of all threads, one on each core, until the time is over.
fn hash<Q: WaitQueues>(queues: &Q, cores: &[u32], options: &Options) -> io::Result<f64> {
    /// What no futex holds.
    const UNEXPECTED: u32 = 1_234;
    let words: Vec<Vec<FutexWord>> =
        cores.iter().map(|_| (0..options.futexes).map(|_| FutexWord::default()).collect()).collect();
    let (sum, error) = (AtomicUsize::new(0), FirstError::default());
    let plan = Plan::on(cores).lasting(options.duration.as_nanos() as u64);
    let ran = Patient::run(&plan, &|thread| {
        let mut operations = 0;
        // One round of its futexes at least, however late the thread starts.
        while operations == 0 || Patient::running() && !interrupt::came() {
            let waits = words[thread].iter().try_for_each(|word| queues.wait(word, UNEXPECTED));
            let Some(()) = error.note(waits) else { return };
            operations += options.futexes;
        }
        sum.fetch_add(operations, SeqCst);
    });
    error.into_result()?;
    Ok(sum.into_inner() as f64 * 1e9 / ran.elapsed_ns.max(1) as f64)
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
            if self.gone.load(SeqCst) > 0 {
                return Err(io::Error::other("a thread that is to be woken did not sleep"));
            }
            if began.elapsed() > LONGEST || interrupt::came() {
                return Err(io::Error::other("the threads that are to be woken did not fall asleep"));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// Has a thread on each core but the first sleep by `sleep`, and then one on the first do `work`. Gives the time of that, in
/// nanoseconds. `release` lets the threads go that still sleep.
fn time_with_sleepers(
    cores: &[u32],
    sleep: impl Fn() -> io::Result<()> + Sync,
    work: impl Fn(&Sleepers) -> io::Result<()> + Sync,
    release: impl Fn() -> io::Result<()> + Sync,
) -> io::Result<f64> {
    let numbers = cores.iter().skip(1).map(|_| AtomicI32::new(0)).collect();
    let sleepers = Sleepers { numbers, gone: AtomicUsize::new(0) };
    let (error, taken_ns) = (FirstError::default(), AtomicUsize::new(0));
    Patient::run(&Plan::on(cores), &|thread| {
        if let Some(number) = thread.checked_sub(1) {
            sleepers.numbers[number].store(rustix::thread::gettid().as_raw_nonzero().get(), SeqCst);
            error.note(sleep());
            sleepers.gone.fetch_add(1, SeqCst);
            return;
        }
        error.note(sleepers.await_asleep());
        let began = Instant::now();
        error.note(work(&sleepers));
        taken_ns.store(began.elapsed().as_nanos() as usize, SeqCst);
        // Whatever went wrong, no thread sleeps for ever.
        while !sleepers.are_gone() {
            error.note(release());
            std::thread::sleep(PAUSE);
        }
    });
    error.into_result()?;
    Ok(taken_ns.into_inner() as f64)
}

fn wake<Q: WaitQueues>(queues: &Q, cores: &[u32], at_once: u32) -> io::Result<f64> {
    let word = FutexWord::default();
    let sleep = || queues.wait(&word, 0);
    let work = |sleepers: &Sleepers| {
        let mut woken = 0;
        while woken < sleepers.count() && !sleepers.are_gone() {
            woken += queues.wake(&word, at_once)? as usize;
        }
        Ok(())
    };
    let release = || {
        word.value.store(1, SeqCst);
        queues.wake(&word, u32::MAX >> 1).map(drop)
    };
    time_with_sleepers(cores, sleep, work, release)
}

/// One round of a load on some queues: operations a second, or nanoseconds.
fn round<Q: WaitQueues>(
    queues: &Q,
    load: Load,
    bench: &Bench,
    threads: usize,
    options: &Options,
) -> io::Result<f64> {
    match load {
        Load::Hash => hash(queues, &bench.pinned(threads), options),
        Load::Wake => wake(queues, &[bench.pinned(1), bench.pinned(threads)].concat(), options.at_once),
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

    const ALL: [Self; 3] = [Self::Kernel, Self::KernelByNode, Self::WaitTable];
}

/// What a number of threads on some queues came to: operations a second or nanoseconds, round by round.
type LoadRow = Rounds<(Whose, usize), f64>;

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
        .flat_map(|&threads| Whose::ALL.map(move |whose| Rounds::new((whose, threads))))
        .collect();
    let progress = bench.start(rows.len() * (options.runs as usize + 1));
    let watch = Watch::start();
    let label = |(whose, threads): &(Whose, usize)| format!("{}, {threads} threads", whose.name());
    in_rounds(&mut rows, 0..=options.runs, &*progress, label, |&(whose, threads)| {
        let shared = options.shared;
        let value = caught(|| match whose {
            Whose::Kernel => round(&Kernel { shared }, load, bench, threads, options),
            Whose::KernelByNode => round(&KernelByNode { shared }, load, bench, threads, options),
            Whose::WaitTable => round(&table, load, bench, threads, options),
        });
        Some(value.map_err(|error| error.to_string()))
    });
    drop(progress);
    let noise = watch.stop();
    let curves = if load.is_rate() { curves(load, &rows)? } else { Vec::new() };
    Ok(Findings {
        workload: "futex",
        parts: vec![Part {
            key: "futex",
            heading: load.heading().into(),
            table: shown(load, &rows),
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
        let points = rows.iter().filter(|row| row.of.0 == whose);
        let points = points.filter_map(|row| Point::of_runs(row.of.1 as u32, &row.values));
        Curve::new(whose.name(), Unit::OperationsPerSecond, Provenance::Measured)
            .workload(load.name())
            .with_points(points)
            .context("a number of threads was given twice")
    };
    Whose::ALL.into_iter().map(of).collect()
}

fn shown(load: Load, rows: &[LoadRow]) -> Table {
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
        let (whose, threads) = row.of;
        let unit = if load.is_rate() { 1.0 } else { 1e3 };
        let values: Vec<f64> = row.values.iter().map(|value| value / unit).collect();
        let spread = statistics::spread(&values);
        table.row([
            Cell::from(whose.name()),
            Cell::from(threads),
            spread.into(),
            spread.map(|spread| spread.median * unit / threads as f64).into(),
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
            shared: false,
            buckets: None,
        }
    }

    #[test]
    fn every_load_ends_on_all_queues_that_there_are() {
        let bench = Bench::new(&Unwatched);
        let of_kernel = Kernel { shared: false };
        let numa = KernelByNode { shared: true }.wake(&FutexWord::default(), 1).is_ok();
        for load in [Load::Hash, Load::Wake] {
            let findings = run(&bench, load, &options()).expect("no table of its own was asked for");
            let rows = findings.parts[0].table.json();
            for row in rows.as_array().expect("rows") {
                let may_fail = row["queues"] == Whose::KernelByNode.name() && !numa;
                assert!(may_fail || row["failure"].is_null(), "{}: {row}", load.name());
            }
            assert!(round(&of_kernel, load, &bench, 3, &options()).is_ok_and(|value| value > 0.0));
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
        let error = time_with_sleepers(&cores, || kernel.wait(&word, 0), |_| failing(), release).unwrap_err();
        assert_eq!(error.to_string(), "on purpose");
    }
}
