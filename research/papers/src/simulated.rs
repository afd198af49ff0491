//! What the simulator gives for the figures of the 2012 paper: the shipped locks on a simulated Opteron.

use crate::Reproduction;
use crate::published::{self, Claim, Fault};
use crate::seeds::{Unstable, median_curve, run_by_seed};
use crate::verdict::{
    self, CORES_WITHIN, FACTOR_WITHIN, ORDERED_BY, PAR_WITHIN, SIMULATOR, Score, Verdict, is_less, is_more,
};
use anyhow::Context as _;
use curve::{Curve, Point, Provenance, Series, Unit};
use report::{Cell, Column, Spread, Table};
use session::progress::Progress;
use simulate::back_off::{Proportional, proportional};
use simulate::{Setup, SimulatedRun};
use simulator::Hardware;
use topology::carried;
use workloads::catalogue::Body;
use workloads::{Variation, Workload};

/// The machine of the paper.
pub(crate) const OPTERON: &str = "opteron-8x6";
/// The claim that a number of the machine is fitted to.
const FITTED: (&str, &str) = ("PFIND", "throughput_at_48");
/// Lines that fig. 10's section updates.
const FIG10_LINES: u32 = 4;
/// Cores at which the benchmarks are run: all that a claim names, and enough between to see the peak.
const CORES: &[u32] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 39,
    40, 44, 48,
];

/// The machine that stands for the 80 cores, in 8 sockets, of the talk and of the kernel's mails of 2013 and 2014.
pub(crate) const EIGHTY_CORES: &str = "dl980";

/// The hardware of a machine that contend carries.
pub(crate) fn hardware(name: &str) -> anyhow::Result<Hardware> {
    Ok(Hardware::new(&carried::machine(name))?)
}

/// A workload by name.
pub(crate) fn workload(name: &str) -> anyhow::Result<&'static Workload> {
    workloads::catalogue::find(name).with_context(|| format!("there is no workload {name}"))
}

/// Cycles of one acquisition and what comes with it on one core.
fn cycles_per_acquisition(workload: &Workload) -> u64 {
    match workload.body {
        Body::Section(section) => section.work_cycles + section.think_cycles,
        _ => 2_000,
    }
}

/// Simulated time in which a core acquires at least 100 times when nothing is in its way; more on few cores, since what
/// one core does is what all else is held against.
pub(crate) fn duration_ns(hardware: &Hardware, cycles_per_acquisition: u64, cores: u32) -> u64 {
    let acquisitions = 100 * (64 / u64::from(cores)).max(1);
    (cycles_per_acquisition * acquisitions * 1000 / hardware.mhz).max(2_000_000)
}

/// A curve of acquisitions a second relative to one core.
pub(crate) fn speedup(measured: &[SimulatedRun], lock: &str, workload: &str) -> anyhow::Result<Curve> {
    let of_lock = measured.iter().filter(|one| one.lock == lock && one.workload == workload);
    let points = of_lock.map(|one| Point::exact(one.cores, one.acquisition_rate()));
    let curve = Curve::new(lock, Unit::OperationsPerSecond, Provenance::Simulated)
        .lock(lock)
        .workload(workload)
        .machine(OPTERON)
        .with_points(points)?;
    curve.relative_to_one_core().with_context(|| format!("{workload} with {lock} has nothing at one core"))
}

/// The benchmarks of figs. 2 and 12, with the workload for each reading.
const BENCHMARKS: [(&str, &str); 5] =
    [("FOPS", "fops"), ("FOPS", NOT_COUNTED), ("MEMPOP", "mempop"), ("PFIND", "pfind"), ("EXIM", "exim")];
/// The reading of FOPS's row that is shown and not counted (fault 2).
const NOT_COUNTED: &str = "fops-per-acquire";

/// Runs of a benchmark on each number of cores.
fn benchmark_setups<'a>(
    hardware: &'a Hardware,
    name: &str,
    lock: &str,
    spread: Variation,
) -> anyhow::Result<impl Iterator<Item = Setup<'a>>> {
    let workload = workload(name)?;
    let setup = Setup { spread, ..Setup::new(hardware, workload, lock_name(lock)) };
    Ok(CORES.iter().map(move |&cores| Setup {
        duration_ns: duration_ns(hardware, cycles_per_acquisition(workload), cores),
        ..setup.clone().on_first(cores)
    }))
}

/// Fig. 2: four benchmarks with the ticket lock, with think times that vary much and little.
pub(crate) fn fig2(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let hardware = hardware(OPTERON)?;
    let runs = |spread, names: &[&str]| -> anyhow::Result<_> {
        let mut setups = Vec::new();
        for name in names {
            setups.extend(benchmark_setups(&hardware, name, "ticket", spread)?);
        }
        run_by_seed(&setups, progress)
    };
    let exponential = runs(Variation::Exponential, &BENCHMARKS.map(|(_, name)| name))?;
    // One reading of FOPS is enough to see what the spread changes.
    let nearly_fixed = runs(Variation::NearlyFixed, &["fops", "mempop", "pfind", "exim"])?;
    let claims = published::claims()?;
    let mut table = benchmark_table();
    let mut plots = Vec::new();
    let mut tally = Tally::default();
    for (benchmark, name) in BENCHMARKS {
        let mut plot = Series::new(name);
        for (times, measured) in [("exponential", &exponential), ("nearly fixed", &nearly_fixed)] {
            if !measured[0].iter().any(|one| one.workload == name) {
                continue;
            }
            let runs = Runs::of_seeds(measured, workload(name)?, &hardware)?;
            for claim in claims.iter().filter(|claim| claim.benchmark == benchmark && !claim.needs_queue()) {
                tally.benchmark_row(&mut table, &runs, claim, times);
            }
            let mut curve = median_curve(&runs.iter().map(|runs| runs.ticket.clone()).collect::<Vec<_>>())?;
            if times != "exponential" {
                curve.label = format!("ticket, {times} times");
            }
            plot.curves.push(curve);
        }
        plots.push(plot);
    }
    Ok(Reproduction {
        variant: None, title: "Fig. 2: the ticket lock collapses, simulated",
        table,
        notes: vec![
            tally.note(),
            Unstable::of_plots(&plots).note(),
            fitted_note(),
            "The published rows are tight: MEMPOP's 4.7 at 9 cores is one acquisition in 364 cycles, with a section of 350.".into(),
        ],
        plots,
        faults: [1, 2, 3].map(Fault).to_vec(),
        scores: tally.scores,
    })
}

/// Fig. 12: MCS beside the ticket lock. The claims of the ticket lock alone are fig. 2's and are not judged again.
pub(crate) fn fig12(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let hardware = hardware(OPTERON)?;
    let mut setups = Vec::new();
    for (_, name) in BENCHMARKS {
        for lock in ["ticket", "mcs"] {
            setups.extend(benchmark_setups(&hardware, name, lock, Variation::Exponential)?);
        }
    }
    let measured = run_by_seed(&setups, progress)?;
    let claims = published::claims()?;
    let mut table = benchmark_table();
    let mut plots = Vec::new();
    let mut tally = Tally::default();
    let mut ratios = vec![Vec::new(); measured.len()];
    for (benchmark, name) in BENCHMARKS {
        let runs = Runs::of_seeds(&measured, workload(name)?, &hardware)?;
        for claim in claims.iter().filter(|claim| claim.benchmark == benchmark && claim.needs_queue()) {
            tally.benchmark_row(&mut table, &runs, claim, "exponential");
        }
        if name != NOT_COUNTED {
            for (ratios, runs) in ratios.iter_mut().zip(&runs) {
                ratios.extend(runs.ratio_at_48().map(|ratio| (name, ratio)));
            }
        }
        let mut plot = Series::new(name);
        let mcs = runs.iter().filter_map(|runs| runs.mcs.clone()).collect::<Vec<_>>();
        let ticket = runs.into_iter().map(|runs| runs.ticket).collect::<Vec<_>>();
        plot.curves = vec![median_curve(&ticket)?, median_curve(&mcs)?];
        plots.push(plot);
    }
    claims_of_all(&mut tally, &mut table, &claims, &ratios);
    Ok(Reproduction {
        variant: None, title: "Fig. 12: ticket lock and MCS, simulated",
        table,
        notes: vec![
            tally.note(),
            Unstable::of_plots(&plots).note(),
            "The claims of the ticket lock alone are judged in fig2.".into(),
            "Consistent: MCS's section is as long as on one core, which is an input.".into(),
            "A small gain is one under 1.5 of the peaks, since the gain at 48 cores is published as 3.5 or more in every benchmark; flat is within a factor of 1.5 from 4 \
             to 48 cores."
                .into(),
            fitted_note(),
        ],
        plots,
        faults: [1, 2, 3].map(Fault).to_vec(),
        scores: tally.scores,
    })
}

/// The claims about all benchmarks, from each seed's ratios of MCS to the ticket lock on 48 cores.
fn claims_of_all(tally: &mut Tally, table: &mut Table, claims: &[Claim], ratios: &[Vec<(&str, f64)>]) {
    for claim in claims.iter().filter(|claim| claim.benchmark == "any") {
        let answer = |ratios: &Vec<(&str, f64)>| {
            let all = || ratios.iter().map(|&(_, ratio)| ratio);
            let most = all().fold(0.0, f64::max);
            Some(match (claim.claim.as_str(), verdict::bound_holds(claim, most)) {
                ("least_throughput_ratio_at_48", _) => Answer::Number(all().fold(f64::INFINITY, f64::min)),
                ("one_case_more_than", Some(holds)) => Answer::Ordering(most, holds),
                _ => return None,
            })
        };
        let Some(answers) = Answers::of(ratios.iter().map(answer)) else { continue };
        let ratios = &ratios[answers.seed];
        tally.row(table, claim, ["all", "exponential"], &answers, |_| {
            let each = ratios.iter().map(|(name, ratio)| format!("{name} {ratio:.1}")).collect::<Vec<_>>();
            Some(format!(
                "ticket locks that collapse as far as published; the ratios here: {}",
                each.join(", ")
            ))
        });
    }
}

fn fitted_note() -> String {
    "Fitted is one number of the machine: how long each try of a request that a busy home refuses takes that home, to \
     PFIND's throughput at 48 cores. Every transfer takes what fig. 11 says, wherever the cores are."
        .into()
}

/// Fig. 10: one lock, 4 shared lines.
pub(crate) fn fig10(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    const LOCKS: [&str; 6] = ["ticket", "mcs", "k42", "clh", "hclh", "qspin"];
    let hardware = hardware(OPTERON)?;
    let fig10 = workload("fig10")?;
    let mut setups = Vec::new();
    let cores = [1, 2, 4, 6, 8, 12, 16, 24, 32, 40, 48];
    for lock in LOCKS {
        setups.extend(cores.map(|cores| Setup::new(&hardware, fig10, lock_name(lock)).on_first(cores)));
    }
    let swept: [(u64, Proportional); 5] = [
        (50, proportional::<50>),
        (150, proportional::<150>),
        (350, proportional::<350>),
        (700, proportional::<700>),
        (1400, proportional::<1400>),
    ];
    for (_, run) in swept {
        setups.extend(cores.map(|cores| Setup {
            instead: Some(run),
            ..Setup::new(&hardware, fig10, "ticket-proportional").on_first(cores)
        }));
    }
    let measured = run_by_seed(&setups, progress)?;
    // Each curve's runs follow one another in those of a seed.
    let curve = |number: usize, label: &str| {
        let of_seed = |runs: &Vec<SimulatedRun>| {
            throughput(runs.iter().skip(number * cores.len()).take(cores.len()), label)
        };
        median_curve(&measured.iter().map(of_seed).collect::<anyhow::Result<Vec<_>>>()?)
    };
    let mut plot = Series::new("fig10");
    for (number, lock) in LOCKS.into_iter().enumerate() {
        plot.curves.push(curve(number, lock)?);
    }
    let mut constants = Vec::new();
    for (number, (constant, _)) in swept.iter().enumerate() {
        let label = format!("ticket-proportional, {constant} cycles");
        constants.push((constant, curve(LOCKS.len() + number, &label)?));
    }
    let best = constants.into_iter().max_by(|(_, a), (_, b)| at(a, 48).total_cmp(&at(b, 48)));
    let (constant, best) = best.context("a sweep of constants")?;
    plot.curves.push(best);
    let plots = vec![plot];

    let mut table = benchmark_table();
    let mut tally = Tally::default();
    for claim in published::claims()?.iter().filter(|claim| claim.benchmark == "FIG10") {
        let answer = |runs: &Vec<SimulatedRun>| fig10_answer(&claim.claim, runs, &hardware);
        let Some(answers) = Answers::of(measured.iter().map(answer)) else { continue };
        tally.row(&mut table, claim, ["fig10", "no think time"], &answers, |claim| {
            fig10_lacking(claim, &measured[answers.seed], &hardware)
        });
    }
    Ok(Reproduction {
        variant: None,
        title: "Fig. 10: locks around 4 shared lines, simulated",
        table,
        notes: vec![
            tally.note(),
            Unstable::of_plots(&plots).note(),
            format!(
                "Proportional back-off is best at 48 cores with {constant} cycles a waiter, of 50 to 1400."
            ),
        ],
        plots,
        faults: Vec::new(),
        scores: tally.scores,
    })
}

/// What a missed claim of fig. 10 would need, in numbers of these runs.
fn fig10_lacking(claim: &Claim, runs: &[SimulatedRun], hardware: &Hardware) -> Option<String> {
    const PUBLISHED_SECTION: f64 = 1_000.0;
    let cycles = |lock| {
        let run = runs.iter().find(|one| one.lock == lock && one.cores == 48)?;
        Some(hardware.mhz as f64 * 1e6 / run.throughput())
    };
    Some(match claim.claim.as_str() {
        "throughput_ratio_at_48" => {
            let (clh, hclh) = cycles("clh").zip(cycles("hclh"))?;
            let Some(Answer::Number(section)) = fig10_answer("section_cycles_at_48", runs, hardware) else {
                return None;
            };
            let longer = PUBLISHED_SECTION - section;
            format!(
                "the published section: HCLH takes {hclh:.0} cycles an acquisition for CLH's {clh:.0}; both {longer:.0} longer, as the section is to be, make {:.2}",
                (clh + longer) / (hclh + longer)
            )
        }
        "ordering_less" => format!(
            "what K42's lock has beyond MCS's accesses: it takes {:.0} cycles an acquisition here, MCS {:.0}; instructions that are no accesses cost nothing",
            cycles("k42")?,
            cycles("mcs")?
        ),
        name if name.starts_with("section_cycles_") => format!(
            "one cost of a transfer for figs. 10 and 11: fig. 10 publishes {:.0} cycles for each line of the section, fig. 11 gives {} for a transfer",
            claim.number()? / f64::from(FIG10_LINES),
            hardware.cycles_of_time(hardware.local_transfer)
        ),
        _ => return None,
    })
}

/// What the runs of fig. 10 say to a claim.
fn fig10_answer(claim: &str, runs: &[SimulatedRun], hardware: &Hardware) -> Option<Answer> {
    let at_48 = |lock: &str| {
        let runs = runs.iter().find(|one| one.lock == lock && one.cores == 48);
        runs.map_or(f64::NAN, SimulatedRun::throughput)
    };
    let section = |cores: u32| {
        let run = runs.iter().find(|one| one.lock == "mcs" && one.cores == cores);
        run.and_then(|run| run.report.locks.first()).map_or(f64::NAN, |lock| {
            lock.held_ps as f64 / lock.acquisitions.max(1) as f64 * hardware.mhz as f64 / 1e6
        })
    };
    Some(match claim {
        "section_cycles_at_2" => Answer::Number(section(2)),
        "section_cycles_at_48" => Answer::Number(section(48)),
        "throughput_ratio_at_48" => Answer::Number(at_48("hclh") / at_48("clh")),
        "ordering_slightly_more" => {
            let ratio = at_48("clh") / at_48("mcs");
            Answer::Ordering(ratio, is_more(ratio) && ratio <= PAR_WITHIN)
        }
        "ordering_less" => {
            let ratio = at_48("k42") / at_48("mcs");
            Answer::Ordering(ratio, is_less(ratio))
        }
        _ => return None,
    })
}

/// A curve of operations a second.
fn throughput<'a>(
    measured: impl IntoIterator<Item = &'a SimulatedRun>,
    label: &str,
) -> anyhow::Result<Curve> {
    let points = measured.into_iter().map(|one| Point::exact(one.cores, one.throughput()));
    Ok(Curve::new(label, Unit::OperationsPerSecond, Provenance::Simulated).with_points(points)?)
}

/// The catalogue's own copy of a name.
pub(crate) fn lock_name(name: &str) -> &'static str {
    locks::catalogue::find_in_any_form(name).map_or("", |lock| lock.name)
}

/// What the simulation says to a claim.
#[derive(Clone, Copy)]
enum Answer {
    Number(f64),
    /// A number that is the workload's own: a check of consistency.
    FromInput(f64),
    /// A ratio, and whether the claim holds of it.
    Ordering(f64, bool),
}

impl Answer {
    fn value(self) -> f64 {
        match self {
            Self::Number(value) | Self::FromInput(value) | Self::Ordering(value, _) => value,
        }
    }
}

/// What the seeds say to a claim.
struct Answers {
    /// The one in the middle.
    median: Answer,
    /// The number of the seed that gives it, from 0.
    seed: usize,
    /// The values of all.
    range: Spread,
}

impl Answers {
    /// None of no answers, or where a seed has nothing to say.
    fn of(answers: impl Iterator<Item = Option<Answer>>) -> Option<Self> {
        let mut answers =
            answers.enumerate().map(|(seed, one)| Some((seed, one?))).collect::<Option<Vec<_>>>()?;
        answers.sort_by(|(_, a), (_, b)| a.value().total_cmp(&b.value()));
        let (low, high) = (answers.first()?.1.value(), answers.last()?.1.value());
        let (seed, median) = answers[(answers.len() - 1) / 2];
        Some(Self { median, seed, range: Spread { low, median: median.value(), high } })
    }
}

/// The runs of one benchmark with one spread of the think times and one seed.
struct Runs<'a> {
    workload: &'static Workload,
    hardware: &'a Hardware,
    measured: &'a [SimulatedRun],
    ticket: Curve,
    mcs: Option<Curve>,
}

impl<'a> Runs<'a> {
    fn new(
        measured: &'a [SimulatedRun],
        workload: &'static Workload,
        hardware: &'a Hardware,
    ) -> anyhow::Result<Self> {
        let name = workload.name;
        let has_mcs = measured.iter().any(|one| one.lock == "mcs" && one.workload == name);
        let mcs = if has_mcs { Some(speedup(measured, "mcs", name)?) } else { None };
        Ok(Self { workload, hardware, measured, ticket: speedup(measured, "ticket", name)?, mcs })
    }

    /// Those of each seed.
    fn of_seeds(
        measured: &'a [Vec<SimulatedRun>],
        workload: &'static Workload,
        hardware: &'a Hardware,
    ) -> anyhow::Result<Vec<Self>> {
        measured.iter().map(|runs| Self::new(runs, workload, hardware)).collect()
    }

    fn answer(&self, claim: &Claim) -> Option<Answer> {
        let ticket = &self.ticket;
        Some(match (claim.lock.as_str(), claim.claim.as_str()) {
            ("ticket", "peak_cores") => {
                Answer::Number(ticket.peak().map_or(f64::NAN, |peak| peak.cores.into()))
            }
            ("ticket", "last_good_cores") => Answer::Number(f64::from(last_good(ticket))),
            ("ticket", "peak_throughput") => {
                Answer::Number(ticket.peak().map_or(f64::NAN, |peak| peak.value))
            }
            ("ticket", "throughput_at_48") => Answer::Number(at(ticket, 48)),
            ("mcs_over_ticket", "throughput_ratio" | "throughput_ratio_at_48") => {
                Answer::Number(self.ratio_at_48()?)
            }
            (_, claim) if claim.starts_with("ordering_") => {
                let (holds, value) = verdict::shape(claim, ticket, self.mcs.as_ref()?)?;
                Answer::Ordering(value, holds)
            }
            ("any", "critical_section_cycles_at_10") => Answer::Number(self.section_cycles("ticket", 10)?),
            ("any", "critical_section_cycles_above_44") => Answer::Number(self.section_cycles("ticket", 48)?),
            ("mcs", "critical_section_cycles_at_2") => self.section_as_read(2)?,
            ("mcs", "critical_section_cycles_at_4") => self.section_as_read(4)?,
            _ => return None,
        })
    }

    /// Cycles from one acquisition to the next, of all cores.
    fn cycles_per_acquisition(&self, lock: &str, cores: u32) -> Option<f64> {
        Some(self.hardware.mhz as f64 * 1e6 / self.run(lock, cores)?.acquisition_rate())
    }

    /// Mean cycles in the critical section.
    fn section_cycles(&self, lock: &str, cores: u32) -> Option<f64> {
        let lock = self.run(lock, cores)?.report.locks.first()?;
        Some(lock.held_ps as f64 / lock.acquisitions.max(1) as f64 * self.hardware.mhz as f64 / 1e6)
    }

    /// FOPS's section with MCS, of an operation or of an acquisition, as the workload reads the paper (fault 2).
    fn section_as_read(&self, cores: u32) -> Option<Answer> {
        const SAME_WITHIN: f64 = 1.02;
        let sections = if self.workload.name == "fops" { self.workload.acquisitions() } else { 1 };
        let [alone, now] = [1, cores].map(|cores| self.section_cycles("mcs", cores));
        let (alone, now) = alone.zip(now)?;
        let value = sections as f64 * now;
        let same = verdict::within(alone, now, SAME_WITHIN);
        Some(if same { Answer::FromInput(value) } else { Answer::Number(value) })
    }

    /// Throughput on 48 cores, MCS over the ticket lock.
    fn ratio_at_48(&self) -> Option<f64> {
        Some(at(self.mcs.as_ref()?, 48) / at(&self.ticket, 48))
    }

    fn run(&self, lock: &str, cores: u32) -> Option<&SimulatedRun> {
        let name = self.workload.name;
        self.measured.iter().find(|one| one.lock == lock && one.workload == name && one.cores == cores)
    }

    /// What a missed claim would need, in numbers of these runs, and the mechanism that it hints at.
    fn lacking(&self, claim: &Claim) -> Option<String> {
        Some(match (claim.benchmark.as_str(), claim.claim.as_str()) {
            ("FOPS", "peak_cores" | "ordering_throughput_2_over_1") => {
                let (alone, two) =
                    (self.cycles_per_acquisition("ticket", 1)?, self.cycles_per_acquisition("ticket", 2)?);
                format!(
                    "a line that stays with a core for several acquisitions: 2 cores gain if section and hand-over take \
                     under {alone:.0} cycles, here {two:.0}"
                )
            }
            (_, "throughput_ratio_at_48") => {
                let (mcs, ticket) = (at(self.mcs.as_ref()?, 48), at(&self.ticket, 48));
                format!(
                    "a lock that is collapsed part of the time only, or other limits of the program: MCS gives {mcs:.0} \
                     of 48, the ticket lock {ticket:.1}, published are {:.1} if MCS gives the same",
                    mcs / claim.number()?
                )
            }
            (_, "peak_throughput") => format!(
                "a section that grows sooner: {:.0} cycles with 10 cores here, 350 published",
                self.section_cycles("ticket", 10)?
            ),
            (_, "ordering_falls_from_2_to_4_then_flat") => {
                let [at_4, at_48] =
                    [4, 48].map(|cores| self.mcs.as_ref().map_or(f64::NAN, |mcs| at(mcs, cores)));
                format!(
                    "a curve that stays: from 4 to 48 cores it changes by a factor of {:.2}",
                    at_48 / at_4
                )
            }
            ("FOPS", _) => format!(
                "what makes the section longer with 4 cores: MCS has taken the lock's line for itself before it begins, \
                 {:.0} cycles with 2 cores and {:.0} with 4",
                self.section_cycles("mcs", 2)?,
                self.section_cycles("mcs", 4)?
            ),
            (_, "peak_cores" | "last_good_cores") => {
                let cores = claim.number()?;
                let now = self.cycles_per_acquisition("ticket", cores as u32)?;
                let alone = self.cycles_per_acquisition("ticket", 1)?;
                format!(
                    "waiters' reads that do not hold up the next section: {cores} cores without loss are an acquisition \
                     in {:.0} cycles, here {now:.0}",
                    alone / cores
                )
            }
            _ => {
                let now = self.cycles_per_acquisition("ticket", 48)?;
                format!("another cost of a waiter: with 48 cores an acquisition takes {now:.0} cycles here")
            }
        })
    }
}

fn at(curve: &Curve, cores: u32) -> f64 {
    curve.at(cores).map_or(f64::NAN, |point| point.value)
}

/// The most cores up to which a curve is not under nine tenths of its best so far.
fn last_good(curve: &Curve) -> u32 {
    let mut best = 0.0_f64;
    let mut last = 0;
    for point in curve.points() {
        best = best.max(point.value);
        if point.value < curve::COLLAPSE_SHARE * best {
            break;
        }
        last = point.cores;
    }
    last
}

fn benchmark_table() -> Table {
    Table::new([
        Column::text("workload", "workload"),
        Column::text("lock", "lock"),
        Column::text("claim", "claim"),
        Column::text("think_times", "think times"),
        Column::text("published", "published"),
        Column::spread("simulated", "simulated"),
        Column::number("ratio", "simulated / published"),
        Column::text("verdict", "verdict").kept(),
        Column::text("lacking", "lacking"),
    ])
}

/// What is believed to be lacking where a claim is missed, in a few words.
fn mechanism(claim: &Claim) -> &'static str {
    match (claim.benchmark.as_str(), claim.claim.as_str()) {
        ("FIG10", "ordering_less") => "instructions that are no accesses",
        ("FIG10", _) => "one cost of a transfer for figs. 10 and 11",
        ("FOPS", "peak_cores" | "ordering_throughput_2_over_1") => {
            "a line that stays with a core for several acquisitions"
        }
        ("FOPS", _) => "what makes the section longer with 4 cores",
        (_, "throughput_ratio_at_48") => "a lock that is collapsed part of the time only",
        _ => "waiters' reads that do not hold up the next section",
    }
}

#[derive(Default)]
struct Tally {
    scores: Vec<Score>,
    verdicts: Vec<Verdict>,
}

impl Tally {
    /// Adds a row for a claim about a benchmark, if its runs say anything to it.
    fn benchmark_row(&mut self, table: &mut Table, seeds: &[Runs<'_>], claim: &Claim, times: &str) {
        if let Some(answers) = Answers::of(seeds.iter().map(|runs| runs.answer(claim))) {
            let runs = &seeds[answers.seed];
            self.row(table, claim, [runs.workload.name, times], &answers, |claim| runs.lacking(claim));
        }
    }

    /// Adds a claim's row under the names of its workload and think times; `lacking` says what a missed one would need.
    fn row(
        &mut self,
        table: &mut Table,
        claim: &Claim,
        [workload, times]: [&str; 2],
        &Answers { median, range, .. }: &Answers,
        lacking: impl FnOnce(&Claim) -> Option<String>,
    ) {
        let number = |value| Verdict::of_number(claim, value).unwrap_or(Verdict::Missed);
        let value = median.value();
        let verdict = match median {
            Answer::Ordering(_, holds) => Verdict::of(holds),
            Answer::Number(_) => number(value),
            Answer::FromInput(_) => number(value).given_by_input(),
        };
        let is_number = !matches!(median, Answer::Ordering(..));
        let ratio = claim.number().filter(|_| is_number).map(|published| value / published);
        let fitted = (claim.benchmark.as_str(), claim.claim.as_str()) == FITTED;
        let verdict = match claim.number().filter(|_| fitted) {
            Some(published) => Verdict::of_fit(published, value),
            None => verdict,
        };
        let verdict = verdict.if_stable(range);
        let lacking = if verdict == Verdict::Missed { lacking(claim) } else { None };
        self.verdicts.push(verdict);
        if workload != NOT_COUNTED {
            let as_printed = is_number && verdict::is_as_printed(&claim.value, value);
            self.scores.push(claim.score(SIMULATOR, verdict, as_printed, mechanism(claim)));
        }
        table.row([
            Cell::from(workload),
            Cell::from(claim.lock.as_str()),
            Cell::from(claim.claim.as_str()),
            Cell::from(times),
            Cell::from(claim.value.as_str()),
            Cell::from(range),
            Cell::from(ratio),
            Cell::from(verdict),
            Cell::from(lacking.unwrap_or_default()),
        ]);
    }

    fn note(&self) -> String {
        let count = |verdict| self.verdicts.iter().filter(|&&one| one == verdict).count();
        format!(
            "{} rows met, {} missed, {} consistent, {} fitted, {} unstable. Met: numbers of cores within {:.0} %, throughputs within a factor of {FACTOR_WITHIN}, ratios also in \
             the logarithm, orderings by more than {:.0} %.",
            count(Verdict::Met),
            count(Verdict::Missed),
            count(Verdict::Consistent),
            count(Verdict::Fitted),
            count(Verdict::Unstable),
            100.0 * CORES_WITHIN,
            100.0 * ORDERED_BY
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_seed_answers_and_the_range_is_of_all() {
        let of = |values: &[f64]| Answers::of(values.iter().map(|&value| Some(Answer::Number(value))));
        let answers = of(&[62.0, 30.1, 57.5]).unwrap();
        assert_eq!((answers.seed, answers.median.value()), (2, 57.5));
        assert_eq!((answers.range.low, answers.range.high), (30.1, 62.0));
        assert!(of(&[]).is_none());
        assert!(Answers::of([Some(Answer::Number(1.0)), None].into_iter()).is_none(), "a seed says nothing");
    }
}
