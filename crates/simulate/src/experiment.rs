//! A workload under several locks on some cores of a simulated machine: which runs that takes, and tables of them.

use super::back_off;
use super::seeds::{SeededRuns, note_column, throughput_column, unstable};
use super::sweep::{Setup, curve};
use curve::Curve;
use machine::Topology;
use machine::transaction::Cause;
use report::{Cell, Column, Plot, Table};
use session::ensure_usage;
use session::placement::Placement;
use session::seeds::Seeds;
use simulator::{Hardware, PS_PER_NS};

/// Enough for some hundred hand-overs.
const TRACE_RECORDS: usize = 20_000;

/// What is to be simulated.
#[derive(Debug, Clone)]
pub struct Experiment<'a> {
    /// What all runs have in common.
    pub template: Setup<'a>,
    /// Simulated time of each run; by default that of the template, and where threads share cores many of their turns.
    pub duration_ns: Option<u64>,
    /// Under these locks in turn.
    pub locks: &'a [&'static str],
    /// The constant of ticket-proportional is swept instead.
    pub sweeps_back_off: bool,
    /// On so many cores in turn; on some numbers up to all if there are none.
    pub cores: Vec<u32>,
    /// Threads on those cores, instead of one a core.
    pub threads: Option<usize>,
    /// The sockets whose cores are used; all if there are none.
    pub sockets: Vec<u32>,
    /// Which cores come first.
    pub placement: Placement,
    /// Traces the only run.
    pub traced: bool,
}

impl<'a> Experiment<'a> {
    /// The runs, lock by lock.
    ///
    /// # Errors
    ///
    /// A [`UsageError`](session::usage::UsageError) for sockets, cores, threads or a memory node that the machine does not
    /// have, and for a trace of several runs.
    pub fn setups(&self) -> anyhow::Result<Vec<Setup<'a>>> {
        let Setup { hardware, memory_node, .. } = self.template;
        let machine = &hardware.name;
        let all_sockets = hardware.hops.len();
        let sockets = match &self.sockets[..] {
            [] => (0..all_sockets as u32).collect(),
            named => named.to_vec(),
        };
        for &socket in &sockets {
            ensure_usage!(
                (socket as usize) < all_sockets,
                "{machine} has no socket {socket}: it has {all_sockets} from 0"
            );
        }
        let here = hardware.cores() / all_sockets * sockets.len();
        let cores = match &self.cores[..] {
            [] => spaced(here as u32),
            named => named.to_vec(),
        };
        for &cores in &cores {
            ensure_usage!(
                (1..=here).contains(&(cores as usize)),
                "{cores} cores: {machine} has 1 to {here} on the named sockets"
            );
        }
        if let Some(threads) = self.threads {
            let most = simulator::MAX_THREADS;
            ensure_usage!((1..=most).contains(&threads), "{threads} threads: a simulation runs 1 to {most}");
        }
        ensure_usage!(
            (memory_node as usize) < hardware.nodes,
            "{machine} has no memory node {memory_node}: it has {} from 0",
            hardware.nodes
        );
        if self.template.batch.is_some() {
            let several = workloads::WORKLOADS.iter().filter(|one| one.can_be_batched()).map(|one| one.name);
            ensure_usage!(
                self.template.workload.can_be_batched(),
                "--per-acquisition: {} has not several sections of a lock in an operation: take one of {}",
                self.template.workload.name,
                several.collect::<Vec<_>>().join(", ")
            );
        }
        let template = &self.template;
        ensure_usage!(
            template.section_cycles.is_none() || template.workload.has_section(),
            "--section: {} has no critical section whose length could be chosen",
            template.workload.name
        );
        let locks = if self.sweeps_back_off { &[back_off::LOCK][..] } else { self.locks };
        // Of a workload without a lock every lock gives the same run.
        let locks = if template.workload.uses_lock() { locks } else { &locks[..locks.len().min(1)] };
        ensure_usage!(
            !self.traced || locks.len() * cores.len() == 1,
            "--trace is of one run: give one lock and one number of cores"
        );
        let topology = Topology { places: hardware.places.clone() };
        let setup = |lock, cores: u32| {
            let threads = self.threads.unwrap_or(cores as usize);
            let places = self.placement.cores(&topology, &sockets, cores as usize);
            let [warm_up_ns, duration_ns] = self.lasts(threads > places.len());
            Setup {
                places: places.iter().copied().cycle().take(threads).collect(),
                warm_up_ns,
                duration_ns,
                trace_records: if self.traced { TRACE_RECORDS } else { 0 },
                lock,
                cores,
                ..self.template.clone()
            }
        };
        Ok(locks
            .iter()
            .flat_map(|&lock| cores.iter().map(move |&cores| (lock, cores)))
            .map(|(lock, cores)| setup(lock, cores))
            .collect())
    }

    /// The warm-up and the time that counts, in nanoseconds. What decides where threads share cores begins when one loses its core at
    /// the lock, which most of their turns end without: so such a run lasts for many turns.
    fn lasts(&self, threads_share_cores: bool) -> [u64; 2] {
        const TURNS: [u64; 2] = [12, 60];
        if !threads_share_cores {
            return [0, self.duration_ns.unwrap_or(self.template.duration_ns)];
        }
        let Hardware { time_slice, tick, .. } = self.template.hardware;
        let [warm_up, counted] = TURNS.map(|turns| turns * (time_slice + tick) / PS_PER_NS);
        [warm_up, self.duration_ns.unwrap_or(counted)]
    }

    /// What it is called.
    pub fn title(&self) -> String {
        format!("{} on {}", self.template.workload.name, self.template.hardware.name)
    }

    /// A curve for each lock that has runs.
    ///
    /// # Errors
    ///
    /// Two setups of a lock on as many cores.
    pub fn curves(&self, measured: &[SeededRuns]) -> anyhow::Result<Vec<Curve>> {
        let runs = |lock: &'static str| measured.iter().filter(move |runs| runs.median().lock == lock);
        let mut locks: Vec<&'static str> = Vec::new();
        for lock in measured.iter().map(|runs| runs.median().lock) {
            if !locks.contains(&lock) {
                locks.push(lock);
            }
        }
        locks.into_iter().map(|lock| curve(runs(lock))).collect()
    }

    /// What is drawn: the curves, of which those of locks that are unstable somewhere say so, since a plot names peaks.
    ///
    /// # Errors
    ///
    /// Two setups of a lock on as many cores; no runs.
    pub fn plot(&self, measured: &[SeededRuns]) -> anyhow::Result<Plot> {
        let mut curves = self.curves(measured)?;
        for curve in &mut curves {
            if measured.iter().any(|runs| runs.is_unstable() && runs.median().lock == curve.lock) {
                curve.label.push_str(" (unstable)");
            }
        }
        Ok(Plot::new(self.title(), &curves)?.log_cores(false))
    }
}

/// Some numbers of cores up to all: each of the first few, then ever fewer.
fn spaced(all: u32) -> Vec<u32> {
    let mut cores = vec![1];
    while let Some(&last) = cores.last()
        && last < all
    {
        cores.push((last + 1).max(last + last / 6).min(all));
    }
    cores
}

/// A row for each setup: its median run, and the range of the throughput over the seeds.
pub fn run_table(measured: &[SeededRuns]) -> Table {
    let mut table = Table::new([
        Column::text("lock", "lock"),
        Column::number("cores", "cores"),
        Column::number("threads", "threads").detail(),
        throughput_column(measured),
        Column::number("ns_per_operation", "ns/operation").detail(),
        Column::number("misses_per_operation", "misses/operation"),
        Column::number("home_waits_per_operation", "waits at a home/operation").detail(),
        Column::percent("fairness", "slowest/fastest %").detail(),
        note_column(),
    ]);
    for runs in measured {
        let one = runs.median();
        let lines = &one.report.all_lines;
        table.row([
            Cell::from(one.lock),
            Cell::from(one.cores),
            Cell::from(one.run.counts.len()),
            runs.throughput_cell(),
            Cell::from(one.run.elapsed_ns as f64 / one.operations()),
            Cell::from(one.per_operation(lines.all_misses())),
            Cell::from(one.per_operation(lines.home_waits)),
            Cell::from(one.fairness()),
            runs.note().into(),
        ]);
    }
    table
}

/// What to say below the table of locks that are unstable.
pub fn unstable_locks(measured: &[SeededRuns], seeds: Seeds) -> Option<String> {
    unstable(measured.iter().map(|runs| (runs.median().lock.to_owned(), runs)), seeds)
}

/// A row for each median run in which a transaction was begun; none if there was no such run.
pub fn transaction_table(measured: &[SeededRuns]) -> Option<Table> {
    /// The causes with their columns. Nothing is begun where there are no transactions.
    const CAUSES: [(Cause, Column); Cause::ALL.len() - 1] = [
        (Cause::Conflict, Column::percent("conflict", "conflict %")),
        (Cause::Capacity, Column::percent("capacity", "capacity %")),
        (Cause::Explicit, Column::percent("explicit", "explicit %")),
        (Cause::Refused, Column::percent("refused", "refused %")),
        (Cause::Other, Column::percent("other", "other %")),
    ];
    let first = [
        Column::text("lock", "lock"),
        Column::number("cores", "cores"),
        Column::number("begun", "transactions"),
        Column::percent("committed", "committed %").kept(),
    ];
    let last = [
        Column::number("fallbacks", "sections that held the lock"),
        Column::percent("wasted", "wasted time %").kept(),
        note_column(),
    ];
    let columns = first.into_iter().chain(CAUSES.map(|(_, column)| column)).chain(last);
    let mut table = Table::new(columns);
    let begun = |runs: &&SeededRuns| !runs.median().report.transactions.is_zero();
    let measured = measured.iter().filter(begun).collect::<Vec<_>>();
    for runs in &measured {
        let one = runs.median();
        let counts = &one.report.transactions;
        let share = |part: u64| Cell::from(part as f64 / counts.begun as f64);
        let first =
            [Cell::from(one.lock), Cell::from(one.cores), Cell::from(counts.begun), share(counts.committed)];
        let aborted = CAUSES.map(|(cause, _)| share(counts.aborted_by(cause)));
        let wasted = Cell::from(one.share_of_time(counts.wasted_ps));
        table.row(first.into_iter().chain(aborted).chain([
            counts.fallbacks.into(),
            wasted,
            runs.note().into(),
        ]));
    }
    (!measured.is_empty()).then_some(table)
}

/// The workloads that there are.
pub fn workload_table() -> Table {
    let mut table = Table::new([
        Column::text("name", "workload"),
        Column::text("summary", "what it does").kept(),
        Column::text("source", "source").detail(),
    ]);
    for workload in workloads::WORKLOADS {
        table.row([workload.name, workload.summary, workload.source].map(Cell::from));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SimulatedRun, sweep};
    use machine::{Counts, Run};
    use report::{Screen, every_screen};
    use session::progress::Unwatched;
    use simulator::Hardware;
    use topology::carried;

    fn experiment<'a>(hardware: &'a Hardware, locks: &'a [&'static str]) -> Experiment<'a> {
        Experiment {
            template: Setup::new(hardware, workloads::catalogue::find("counter").expect("a workload"), "mcs"),
            duration_ns: None,
            locks,
            sweeps_back_off: false,
            cores: vec![2, 7],
            threads: None,
            sockets: vec![1],
            placement: Placement::FillFirst,
            traced: false,
        }
    }

    #[test]
    fn every_lock_runs_on_every_number_of_cores() {
        let hardware = Hardware::new(&carried::machine("opteron-8x6")).expect("a machine");
        let mut asked = Experiment { cores: vec![2, 6], ..experiment(&hardware, &["ticket", "mcs"]) };
        let setups = asked.setups().expect("all of it is there");
        let runs: Vec<_> = setups.iter().map(|setup| (setup.lock, setup.cores)).collect();
        assert_eq!(runs, [("ticket", 2), ("ticket", 6), ("mcs", 2), ("mcs", 6)]);
        assert_eq!(setups[0].places, [6, 7], "the first cores of the second socket");
        asked.threads = Some(3);
        let shared = &asked.setups().expect("threads share cores")[0];
        assert_eq!(shared.places, [6, 7, 6]);
        let turn_ns = (hardware.time_slice + hardware.tick) / PS_PER_NS;
        assert!(shared.warm_up_ns > 10 * turn_ns && shared.duration_ns > 50 * turn_ns);
        asked.sweeps_back_off = true;
        let locks: Vec<_> = asked.setups().expect("a sweep").iter().map(|setup| setup.lock).collect();
        assert_eq!(locks, [back_off::LOCK; 2]);
    }

    #[test]
    fn long_operations_are_not_counted_in_whole_ones() {
        let hardware = Hardware::new(&carried::machine("opteron-8x6")).expect("a machine");
        let workload = workloads::catalogue::find("exim").expect("a workload");
        let setup =
            |duration_ns| Setup { duration_ns, ..Setup::new(&hardware, workload, "mcs") }.on_first(24);
        let runs = sweep(&[setup(300_000), setup(3_000_000)], &Unwatched).expect("runs");
        let [short, long] = [0, 1].map(|run: usize| runs[run].throughput());
        assert!((short / long - 1.0).abs() < 0.1, "{short} {long}");
    }

    #[test]
    fn what_the_machine_does_not_have_is_refused() {
        let hardware = Hardware::new(&carried::machine("opteron-8x6")).expect("a machine");
        let asked = || experiment(&hardware, &["mcs"]);
        let refusals = [
            (asked(), "7 cores: opteron-8x6 has 1 to 6"),
            (Experiment { sockets: vec![8], ..asked() }, "no socket 8"),
            (
                Experiment {
                    template: Setup { memory_node: 8, ..asked().template },
                    cores: vec![1],
                    ..asked()
                },
                "no memory node 8",
            ),
            (
                Experiment {
                    template: Setup { batch: Some(2), ..asked().template },
                    cores: vec![1],
                    ..asked()
                },
                "--per-acquisition: counter",
            ),
            (Experiment { threads: Some(0), cores: vec![1], ..asked() }, "0 threads"),
            (Experiment { traced: true, cores: vec![1, 2], ..asked() }, "--trace is of one run"),
        ];
        for (asked, part) in refusals {
            let error = asked.setups().expect_err(part);
            assert!(error.is::<session::usage::UsageError>() && error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn an_acquisition_holds_the_lock_for_as_many_sections_as_asked() {
        let hardware = Hardware::new(&carried::machine("opteron-8x6")).expect("a machine");
        let find = |name| workloads::catalogue::find(name).expect("a workload");
        let run = |name, batch| {
            let setup = Setup { batch, ..Setup::new(&hardware, find(name), "ticket") }.on_first(2);
            let run = sweep(&[setup], &Unwatched).expect("a run").remove(0);
            (run.run.operations(), run.run.acquisitions())
        };
        assert_eq!(run("exim", Some(29)), run("exim-batched", None));
        assert_eq!(run("exim", None), run("exim-batched", Some(1)));
        let (messages, acquisitions) = run("exim", Some(20));
        assert!(
            (3 * messages..3 * messages + 6).contains(&acquisitions),
            "20, 20 and 18 of 58: {acquisitions}"
        );
    }

    #[test]
    fn workloads_on_every_screen() {
        let names = workloads::WORKLOADS.iter().map(|workload| workload.name).collect::<Vec<_>>();
        insta::assert_snapshot!(every_screen(&names, |screen| workload_table().terminal(screen)));
    }

    #[test]
    fn runs_on_every_screen() {
        let hardware = Hardware::new(&carried::machine("opteron-8x6")).unwrap();
        let workload = workloads::catalogue::find("counter").unwrap();
        let setup = |lock| Setup { duration_ns: 1_000, ..Setup::new(&hardware, workload, lock) };
        let setups = [setup("ticket-proportional"), setup("mcs")];
        let mut measured = sweep(&setups, &Unwatched).unwrap();
        // What the simulator counts is its own matter: the figures are fixed.
        for (one, operations) in measured.iter_mut().zip([2_000, 1_500]) {
            let counts = |operations| Counts { operations, ..Counts::default() };
            one.acquisitions_an_operation = None;
            one.run = Run { counts: vec![counts(operations), counts(operations / 2)], elapsed_ns: 1_000_000 };
            one.report.all_lines =
                simulator::LineCounts { home_waits: 700, ..simulator::LineCounts::default() };
        }
        let mut slow = measured[1].clone();
        slow.run.elapsed_ns *= 3;
        let stable = SeededRuns::of(vec![measured.remove(0)]).expect("a run");
        let unstable = SeededRuns::of(vec![slow, measured.remove(0)]).expect("two runs");
        let (measured, seeds) = ([stable, unstable], Seeds { first: 1, count: 2 });
        let text = |screen: Screen| {
            let unstable = unstable_locks(&measured, seeds).expect("one of the two");
            format!("{}\n{}\n", run_table(&measured).terminal(screen), screen.fit(&unstable))
        };
        insta::assert_snapshot!(every_screen(&["ticket-proportional", "mcs"], text));
        let asked = experiment(&hardware, &["ticket-proportional", "mcs"]);
        let drawn = asked.plot(&measured).expect("two curves").terminal(Screen::wide(100), 10);
        assert!(drawn.contains("mcs (unstable)") && !drawn.contains("proportional (unstable)"), "{drawn}");
        assert_eq!(asked.curves(&measured).expect("two curves")[1].label, "mcs", "of the data");
    }

    #[test]
    fn transactions_on_every_screen() {
        let hardware = Hardware::new(&carried::machine("opteron-8x6")).unwrap();
        let workload = workloads::catalogue::find("counter").unwrap();
        let setup = |lock| Setup { duration_ns: 1_000, ..Setup::new(&hardware, workload, lock) };
        let setups = [setup("ticket-proportional"), setup("mcs")];
        let mut measured = sweep(&setups, &Unwatched).unwrap();
        let of_one = |run: &SimulatedRun| [SeededRuns::of(vec![run.clone()]).expect("a run")];
        assert!(transaction_table(&of_one(&measured[0])).is_none(), "nobody has begun any");
        measured[0].report.elapsed_ns = 1_000;
        measured[0].report.transactions = simulator::TransactionCounts {
            begun: 2_000,
            committed: 1_500,
            aborted: [300, 100, 60, 30, 10, 0],
            fallbacks: 77,
            wasted_ps: 250_000,
        };
        let measured = of_one(&measured[0]);
        let text = |screen: Screen| transaction_table(&measured).expect("of one run").terminal(screen);
        let shown = every_screen(&["ticket-proportional"], text);
        for share in ["75.0", "77", "15.0", "5.0", "3.0", "1.5", "0.5", "25.0"] {
            assert!(shown.contains(share), "{share}: {shown}");
        }
    }
}
