//! Waits on many words, and wake-ups that no thread waits for, in tables of few and of many buckets, simulated.

use crate::Reproduction;
use crate::published::{self, Fault};
use crate::seeds::{self, BySeed, Unstable};
use crate::simulated::{EIGHTY_CORES, hardware};
use crate::verdict::{FACTOR_WITHIN, SIMULATOR, Score, TALK, Verdict};
use locks::{BUCKETS_FOR_EACH_CORE, GlibcMutex, RawLock, Spacing, Ticket4, Timeout, WaitTable};
use machine::{Clock, Event, Home, Machine, Placed, Plan, Word};
use rayon::prelude::*;
use report::{Cell, Column, Spread, Table};
use session::progress::{Progress, Work};
use simulate::with_futex_table;
use simulator::{Hardware, Options, Simulated, Simulation};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buckets before 2014, however large the machine.
const FEW: usize = 256;
/// Words of a thread: the benchmark's default.
const WORDS: usize = 1_024;
/// Caches fill meanwhile; then operations are counted.
const WARM_UP_NS: u64 = 12_000_000;
const COUNTED_NS: u64 = 4_000_000;
/// Between two wake-ups of a thread of the database: assumed.
const BETWEEN_WAKES_NS: [u64; 3] = [1_000, 3_000, 10_000];

/// A critical section of a pair's lock, and the time between two of a thread: assumed.
const SECTION_NS: u64 = 2_000;

/// A table as a kernel had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Few,
    FewOnLines,
    Many,
}

impl Form {
    const ALL: [Self; 3] = [Self::Few, Self::FewOnLines, Self::Many];

    const fn name(self) -> &'static str {
        match self {
            Self::Few => "256 buckets, packed",
            Self::FewOnLines => "256 buckets, a line each",
            Self::Many => "256 buckets a core, a line each",
        }
    }

    /// The table, whose buckets have the kernel's lock of that time.
    fn table<const LOOKS: bool>(self, cores: usize) -> WaitTable<Simulated, Ticket4<Simulated>, LOOKS> {
        match self {
            Self::Few => WaitTable::with_buckets(FEW, Spacing::Packed, Home::Node(0)),
            Self::FewOnLines => WaitTable::with_buckets(FEW, Spacing::Line, Home::Node(0)),
            Self::Many => WaitTable::for_cores(cores),
        }
    }
}

/// The words of one thread of the benchmark.
type Words = [<Simulated as Machine>::U32; WORDS];

fn words(threads: usize) -> Vec<Placed<Words, Simulated>> {
    let zero = || Placed::new([const { <Simulated as Machine>::U32::ZERO }; WORDS], Home::FirstTouch);
    (0..threads).map(|_| zero()).collect()
}

/// What threads do, one on a core.
#[derive(Debug, Clone, Copy)]
enum Load {
    /// Each of the benchmark's threads waits on its words in turn, none of which holds what it expects. Where they are more
    /// than cores, a core does what several of them do.
    Waits { threads: usize, form: Form },
    /// Each wakes the threads that wait on one word, of which there are none.
    Wakes { between_ns: u64, looks: bool },
    /// Each has a lock with its neighbour, which sleeps in a table of so many buckets, or at fixed costs.
    Pairs { buckets: Option<usize> },
}

impl Load {
    /// Operations a nanosecond on so many cores, with one seed; `rest_ns` is what an operation takes besides.
    fn rate(self, hardware: &Hardware, cores: usize, rest_ns: u64, seed: u64) -> anyhow::Result<f64> {
        let simulation = Simulation::new(hardware).options(Options { seed, ..Options::default() });
        let outcome = simulation.run(|| match self {
            Self::Waits { threads, form } => {
                let (table, words) = (form.table::<true>(hardware.cores()), words(threads));
                repeat(hardware, cores, rest_ns, |core, number| {
                    let own = (threads - core).div_ceil(cores);
                    let of_thread = &words[core + cores * (number / WORDS % own)];
                    table.wait(&of_thread[number % WORDS], 1, Timeout::NONE);
                })
            }
            Self::Wakes { between_ns, looks: true } => {
                wakes(hardware, cores, between_ns, &Form::Few.table::<true>(cores))
            }
            Self::Wakes { between_ns, looks: false } => {
                wakes(hardware, cores, between_ns, &Form::Few.table::<false>(cores))
            }
            Self::Pairs { buckets: None } => pairs(hardware, cores),
            Self::Pairs { buckets: Some(buckets) } => with_futex_table(buckets, || pairs(hardware, cores)),
        });
        let (rate, _) = outcome.map_err(|stopped| anyhow::anyhow!("{self:?}: {stopped}"))?;
        Ok(rate)
    }
}

/// Wake-ups a nanosecond of cores that all wake those that wait on the same word.
fn wakes<const LOOKS: bool>(
    hardware: &Hardware,
    cores: usize,
    between_ns: u64,
    table: &WaitTable<Simulated, Ticket4<Simulated>, LOOKS>,
) -> f64 {
    let words = words(1);
    let key = table.key(&words[0][0]);
    repeat(hardware, cores, between_ns, |_, _| {
        table.wake(key, 1);
    })
}

/// Critical sections a nanosecond of cores, each of which has a lock with its neighbour that sleeps at once where it is taken.
fn pairs(hardware: &Hardware, cores: usize) -> f64 {
    #[repr(align(64))]
    struct OnLine(GlibcMutex<Simulated>);
    let lock = |_| Placed::<_, Simulated>::new(OnLine(GlibcMutex::NEW), Home::FirstTouch);
    let locks = (0..cores / 2).map(lock).collect::<Vec<_>>();
    let section_cycles = SECTION_NS * hardware.mhz / 1_000;
    repeat(hardware, cores, SECTION_NS, |core, _| {
        locks[core / 2].0.critical(|| Simulated::delay(section_cycles));
    })
}

/// Operations a nanosecond of cores that each repeat `operation(core, number)` and what else one takes.
fn repeat(hardware: &Hardware, cores: usize, rest_ns: u64, operation: impl Fn(usize, usize) + Sync) -> f64 {
    let numbers = (0..cores as u32).collect::<Vec<_>>();
    let plan = Plan::on(&numbers).lasting(WARM_UP_NS + COUNTED_NS);
    let rest_cycles = rest_ns * hardware.mhz / 1_000;
    let counted = AtomicU64::new(0);
    let run = Simulated::run(&plan, &|core| {
        let mut number = 0;
        while Simulated::running() {
            operation(core, number);
            number += 1;
            Simulated::delay(rest_cycles);
            Simulated::note(Event::Operation);
            if Simulated::clock_ns(Clock::Monotonic) > WARM_UP_NS {
                counted.fetch_add(1, Relaxed);
            }
        }
    });
    counted.into_inner() as f64 / run.elapsed_ns.saturating_sub(WARM_UP_NS).max(1) as f64
}

/// The benchmark on 80 cores in 8 sockets, and the database's wake-ups on as many cores as the machine has.
pub(crate) fn futex_hash(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let (benchmark, all) = (hardware(EIGHTY_CORES)?, hardware("cs900x8")?);
    let waits = [(32, "futex_hash_1024x32"), (512, "futex_hash_1024x512")];
    let mut runs = Vec::new();
    for (threads, _) in waits {
        let cores = threads.min(benchmark.cores());
        runs.extend(Form::ALL.map(|form| (Load::Waits { threads, form }, &benchmark, cores)));
    }
    for between_ns in BETWEEN_WAKES_NS {
        runs.extend([false, true].map(|looks| (Load::Wakes { between_ns, looks }, &all, all.cores())));
    }
    let most = BUCKETS_FOR_EACH_CORE * benchmark.cores();
    let tables = [
        ("none: sleeps at fixed costs", None),
        ("1 bucket", Some(1)),
        ("16 buckets, a line each", Some(16)),
        (Form::Many.name(), Some(most)),
    ];
    runs.extend(tables.map(|(_, buckets)| (Load::Pairs { buckets }, &benchmark, benchmark.cores())));
    let rest_ns = published::futex_operation_ns()?;
    let runs = seeds::with_each(&runs);
    let steps = progress.start(Work::Simulations, runs.len());
    let rates = runs.par_iter().map(|&((load, hardware, cores), seed)| {
        let rate = load.rate(hardware, cores, rest_ns, seed);
        steps.done();
        rate
    });
    let rates = rates.collect::<anyhow::Result<Vec<_>>>()?;
    drop(steps);
    let rates = rates.chunks(seeds::COUNT).map(|rates| BySeed::of(rates.iter().copied()));
    let rates = rates.collect::<Vec<_>>();
    let mut table = buckets_table();
    let mut scores = Vec::new();
    let mut unstable = Unstable::default();
    let (of_waits, others) = rates.split_at(waits.len() * Form::ALL.len());
    let (of_wakes, of_pairs) = others.split_at(others.len() - tables.len());
    for ((threads, change), rates) in waits.into_iter().zip(of_waits.chunks(Form::ALL.len())) {
        let cores = threads.min(benchmark.cores());
        let gain = published::improvement(change)?;
        for (form, rate) in Form::ALL.into_iter().zip(rates) {
            let range = rate.over(&rates[0]).spread();
            let ratio = range.median;
            unstable.look(range, || format!("waits of {threads} threads, {}", form.name()));
            let published = (form == Form::Many).then_some(gain.ratio());
            let of_change = |published| Verdict::of_change(published, ratio, FACTOR_WITHIN).if_stable(range);
            let verdict = published.map(of_change);
            scores.extend(verdict.map(|verdict| Score {
                source: TALK,
                by: SIMULATOR,
                claim: change.into(),
                verdict,
                as_printed: gain.is_as_printed(ratio),
                mechanism: "what a request occupies the directory of a memory node for",
            }));
            table.row([
                Cell::from(format!("waits of {threads} threads")),
                Cell::from(cores as u32),
                Cell::from(form.name()),
                Cell::from(of_core(rate, cores)),
                Cell::from(published),
                Cell::from(range),
                Cell::from(verdict.map_or("", Verdict::name)),
            ]);
        }
    }
    wake_rows(&mut table, &all, of_wakes, &mut unstable)?;
    pair_rows(&mut table, benchmark.cores(), &tables.map(|(form, _)| form), of_pairs, &mut unstable);
    let mut notes = Vec::from(notes(rest_ns));
    notes.push(unstable.note());
    Ok(Reproduction {
        variant: None,
        title: "Buckets of the futex table: few and many, with and without their lock, simulated",
        table,
        plots: Vec::new(),
        notes,
        faults: vec![Fault(14)],
        scores,
    })
}

fn buckets_table() -> Table {
    Table::new([
        Column::text("what", "what"),
        Column::number("cores", "cores").detail(),
        Column::text("form", "table"),
        Column::spread("rate", "operations/s of a core").detail(),
        Column::number("published", "published").kept(),
        Column::spread("simulated", "simulated").kept(),
        Column::text("verdict", "verdict").kept(),
    ])
}

/// Operations a second of each core, from those a nanosecond of all.
fn of_core(rate: &BySeed, cores: usize) -> Spread {
    rate.map(|rate| rate * 1e9 / cores as f64).spread()
}

/// The rows of the database's wake-ups, from their rates with each form of the wake-up.
fn wake_rows(
    table: &mut Table,
    all: &Hardware,
    of_wakes: &[BySeed],
    unstable: &mut Unstable,
) -> anyhow::Result<()> {
    let database = published::improvement("futex_lockless_wake: raw_spin_lock")?;
    for (between_ns, rates) in BETWEEN_WAKES_NS.into_iter().zip(of_wakes.chunks(2)) {
        for (looks, rate) in [false, true].into_iter().zip(rates) {
            let cores = all.cores() as f64;
            let percent = rate.map(|rate| 100.0 * (1.0 - rate * between_ns as f64 / cores).max(0.0));
            let what = format!("% of time in wake-ups, every {} µs", between_ns / 1_000);
            unstable.look(rate.spread(), || what.clone());
            table.row([
                Cell::from(&*what),
                Cell::from(all.cores() as u32),
                Cell::from(if looks { "a look at the count first" } else { "the bucket's lock first" }),
                Cell::from(of_core(rate, all.cores())),
                Cell::from(if looks { database.after.value } else { database.before.value }),
                Cell::from(percent.spread()),
                Cell::from(""),
            ]);
        }
    }
    Ok(())
}

/// Pairs of threads, each with a lock of its own that sleeps in the table.
fn pair_rows(table: &mut Table, cores: usize, forms: &[&str], rates: &[BySeed], unstable: &mut Unstable) {
    for (&form, rate) in forms.iter().zip(rates) {
        let over_first = rate.over(&rates[0]).spread();
        unstable.look(over_first, || format!("locks of {} pairs, {form}", cores / 2));
        table.row([
            Cell::from(format!("locks of {} pairs", cores / 2)),
            Cell::from(cores as u32),
            Cell::from(form),
            Cell::from(of_core(rate, cores)),
            Cell::from(None::<f64>),
            Cell::from(over_first),
            Cell::from(""),
        ]);
    }
}

fn notes(rest_ns: u64) -> [String; 4] {
    [
            format!(
                "Simulated and published of waits are throughput relative to 256 packed buckets, met within a factor of \
                 {FACTOR_WITHIN}, and so the logarithm; each thread has {WORDS} words. An operation takes {rest_ns} ns besides, which is what perf_bench_futex.csv gives for four \
                 threads, bucket included. More threads than cores are one thread a core with the words of all."
            ),
            "Published of wake-ups are samples of a database on 240 cores in 16 sockets, which do not say how often it wakes whom; \
             simulated is one word on which no thread waits, and for which all cores ask for wake-ups, at three rates."
                .into(),
            format!(
                "Locks of pairs are glibc's, one for two threads, with {SECTION_NS} ns inside and {SECTION_NS} ns outside (assumed), \
                 relative to sleeps at fixed costs. In a table all sleeps and wake-ups go through the bucket of their lock, which other locks have too."
            ),
            "256 packed buckets lie on one memory node, whose directory answers all requests for them. What a request occupies it for is \
             assumed (home_occupancy in the machine file), and the rows that the machine is fitted to, of one line each, do not tell: \
             where the published ratios are missed, this is the first suspect."
                .into(),
        ]
}
