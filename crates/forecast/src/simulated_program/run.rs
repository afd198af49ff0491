//! The simulated program under its own locks and under each candidate, at each number of threads.

use super::Plan;
use super::blueprint::{Blueprint, lock_for, own_lock};
use super::stage::{Done, Draw, Stage};
use crate::answer::catalogue_sleeps;
use crate::{Alternative, Conflicts};
use anyhow::ensure;
use compare::statistics;
use curve::Point;
use locks::catalogue;
use model::End;
use profile::{LockKind, ObjectKind};
use rayon::prelude::*;
use serde::Serialize;
use session::progress::{Progress, Work};
use session::{interrupt, seeds};

/// Throughput at a number of threads, relative to one thread of the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SimulatedPoint {
    /// Threads.
    pub threads: u32,
    /// The median over the seeds.
    pub value: f64,
    /// The least over the seeds.
    pub low: f64,
    /// The greatest over the seeds.
    pub high: f64,
    /// With all ranges at the pessimistic and at the optimistic end; as the seeds, where the ends were not run.
    pub ends: [f64; 2],
}

impl SimulatedPoint {
    /// Whether the seeds disagree so much that their median means little.
    #[must_use]
    pub fn is_unstable(&self) -> bool {
        seeds::disagree(self.low, self.high)
    }

    /// Half of the width of what was simulated, in logarithms.
    pub(crate) fn width(&self) -> f64 {
        let [pessimistic, optimistic] = self.ends;
        let low = self.low.min(pessimistic).min(optimistic).max(f64::MIN_POSITIVE);
        let high = self.high.max(pessimistic).max(optimistic);
        0.5 * (high / low).ln()
    }
}

/// The program under one lock in place of the lock in question.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// The candidate; none for the baseline.
    pub name: Option<String>,
    /// The lock of the catalogue whose code ran.
    pub lock: String,
    /// Each number of threads.
    pub points: Vec<SimulatedPoint>,
    /// The lock that threads wait for most at the most threads, if they wait for locks for a tenth of their time.
    pub limited_by: Option<String>,
    /// Of the time of all threads at the most threads, the part in which they wait for each lock of the program.
    pub waiting: Vec<f64>,
}

impl Run {
    /// At so many threads.
    #[must_use]
    pub fn at(&self, threads: u32) -> Option<SimulatedPoint> {
        self.points.iter().find(|point| point.threads == threads).copied()
    }
}

/// What the simulated program does.
#[derive(Debug, Clone, Serialize)]
pub struct Simulated {
    /// The locks of the program, the one in question first.
    pub locks: Vec<String>,
    /// The baseline, then each candidate.
    pub runs: Vec<Run>,
    /// The random seed.
    pub seed: u64,
    /// Runs of each point with the likely values.
    pub seeds: u32,
    /// Reservations.
    pub doubts: Vec<String>,
}

/// The program with one lock in place of the first.
struct Variant {
    name: Option<String>,
    locks: Vec<&'static str>,
    /// Each thread has its own part of what the first lock guards.
    apart: bool,
}

/// One simulation, and what it gave.
struct Job {
    variant: usize,
    threads: u32,
    draw: Draw,
    done: Option<Done>,
}

/// Runs the blueprint as it is and with each candidate in place of its first lock.
///
/// # Errors
///
/// A simulation that stopped.
pub fn run(
    blueprint: &Blueprint,
    candidates: &[Alternative],
    stage: &Stage,
    plan: &Plan,
    progress: &dyn Progress,
) -> anyhow::Result<Simulated> {
    let mut doubts = blueprint.doubts.clone();
    if candidates.iter().any(|candidate| candidate.elided.is_some()) {
        doubts.extend(blueprint.doubts_of_transactions());
    }
    if own_lock(blueprint.locks[0].kind).1 {
        doubts.push(format!("for the program as it is, `{}` replaces the C library's lock", stage.own[0]));
    }
    let variants = variants(blueprint, candidates, stage, plan.everywhere);
    let jobs = simulate_all(blueprint, &variants, stage, plan, progress)?;
    let base = |end| median(&rates(&jobs, 0, 1, end));
    let bases = End::ALL.map(|end| if plan.ends || end == End::Likely { base(end) } else { 0.0 });
    let last = *plan.threads.last().unwrap_or(&1);
    let runs = variants.into_iter().enumerate().map(|(number, variant)| {
        let points =
            plan.threads.iter().map(|&threads| point(&jobs, number, threads, bases, plan.ends)).collect();
        let waiting =
            found(&jobs, number, last, End::Likely).next().map_or_else(Vec::new, |done| done.waiting.clone());
        let most = waiting.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        /// Threads that wait less are not limited by locks.
        const LIMITED: f64 = 0.1;
        let limited_by =
            most.filter(|&(_, &share)| share >= LIMITED).map(|(lock, _)| blueprint.locks[lock].name.clone());
        Run { name: variant.name, lock: variant.locks[0].to_owned(), points, limited_by, waiting }
    });
    Ok(Simulated {
        runs: runs.collect(),
        locks: blueprint.locks.iter().map(|hot| hot.name.clone()).collect(),
        seed: plan.seed,
        seeds: plan.replications,
        doubts,
    })
}

/// The program as it is, then with each candidate that is not its own lock, as one that sleeps is of a mutex.
fn variants(
    blueprint: &Blueprint,
    candidates: &[Alternative],
    stage: &Stage,
    everywhere: bool,
) -> Vec<Variant> {
    let mut variants = vec![Variant { name: None, locks: stage.own.clone(), apart: false }];
    for candidate in candidates {
        if candidate.name == model::Family::Blocking.name() && catalogue_sleeps(stage.own[0]) {
            continue; // that is the program's own
        }
        let lock = lock_for(&candidate.name, candidate.family, blueprint.locks[0].kind);
        let mut locks = stage.own.clone();
        for (number, hot) in blueprint.locks.iter().enumerate() {
            let replaces = || catalogue::find(lock).is_some_and(|lock| object(hot.kind).accepts(lock.shared));
            let is_asked = if everywhere { replaces() } else { number == 0 };
            if is_asked {
                locks[number] = lock;
            }
        }
        let apart = candidate.elided == Some(Conflicts::None);
        variants.push(Variant { name: Some(candidate.label()), locks, apart });
    }
    variants
}

/// The kind of pthread object; what is of no one kind is taken for a mutex.
fn object(kind: LockKind) -> ObjectKind {
    match kind {
        LockKind::Object(kind) => kind,
        _ => ObjectKind::Mutex,
    }
}

fn simulate_all(
    blueprint: &Blueprint,
    variants: &[Variant],
    stage: &Stage,
    plan: &Plan,
    progress: &dyn Progress,
) -> anyhow::Result<Vec<Job>> {
    let apart = blueprint.apart();
    let mut jobs = Vec::new();
    for variant in 0..variants.len() {
        for &threads in &plan.threads {
            let of_draw = |draw| Job { variant, threads, draw, done: None };
            jobs.extend(stage.draws().into_iter().map(of_draw));
        }
    }
    // The longest first, so that no core is left with them at the end.
    jobs.sort_by_key(|job| std::cmp::Reverse(job.threads));
    let steps = progress.start(Work::Simulations, jobs.len());
    // What was measured before an interrupt is forecast; one that comes now is for the forecast.
    let was_interrupted = interrupt::came();
    jobs.par_iter_mut().try_for_each(|job| {
        ensure!(was_interrupted || !interrupt::came(), "an interrupt has ended the forecast");
        let Variant { locks, apart: is_apart, .. } = &variants[job.variant];
        let blueprint = if *is_apart { &apart } else { blueprint };
        job.done = Some(stage.one(blueprint, locks, job.threads, job.draw)?);
        steps.done();
        anyhow::Ok(())
    })?;
    Ok(jobs)
}

fn found(jobs: &[Job], variant: usize, threads: u32, end: End) -> impl Iterator<Item = &Done> {
    jobs.iter()
        .filter(move |job| job.variant == variant && job.threads == threads && job.draw.end == end)
        .filter_map(|job| job.done.as_ref())
}

fn rates(jobs: &[Job], variant: usize, threads: u32, end: End) -> Vec<f64> {
    found(jobs, variant, threads, end).map(|done| done.rate).collect()
}

fn median(rates: &[f64]) -> f64 {
    statistics::spread(rates).map_or(0.0, |rates| rates.median)
}

/// A point relative to the baseline on one thread, each end of the ranges relative to the same end.
fn point(jobs: &[Job], variant: usize, threads: u32, bases: [f64; 3], ends: bool) -> SimulatedPoint {
    let [optimistic, likely, pessimistic] = bases;
    let of_seeds = Point::of_runs(threads, &rates(jobs, variant, threads, End::Likely));
    let Point { value, low, high, .. } = of_seeds.unwrap_or(Point::exact(threads, 0.0));
    let [value, low, high] = [value, low, high].map(|rate| rate / likely);
    let at_end = |end, base: f64| median(&rates(jobs, variant, threads, end)) / base;
    let ends = if ends {
        [at_end(End::Pessimistic, pessimistic), at_end(End::Optimistic, optimistic)]
    } else {
        [low, high]
    };
    SimulatedPoint { threads, value, low, high, ends }
}
