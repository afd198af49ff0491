//! Changes to Linux of 2013 and 2014 whose gains the talk states, simulated: lockref and the queued reader-writer lock.

use crate::Reproduction;
use crate::published::{Improvement, improvement, improvement_in};
use crate::seeds::{self, BySeed, Repeated, Unstable};
use crate::simulated::{EIGHTY_CORES, hardware, lock_name, workload};
use crate::think_time::think_for_percent;
use crate::verdict::{FACTOR_WITHIN, SIMULATOR, Score, TALK, Verdict, is_as_printed};
use anyhow::Context as _;
use locks::catalogue::{self, Lock, Visitor};
use locks::{DowngradeLock, TryLock};
use machine::{Event, Home, Machine, Placed, Plan};
use rayon::prelude::*;
use report::{Cell, Column, Table};
use session::progress::{Progress, Work};
use simulate::{Setup, SimulatedRun};
use simulator::{Hardware, Options, Simulated, Simulation};
use std::ops::RangeInclusive;
use workloads::exclusion::{Exclusion, OwnShared};
use workloads::{Random, Variation};

/// Where the think time between two changes of a reference count is looked for, cycles.
const THINK_CYCLES: RangeInclusive<f64> = 1e3..=1e7;
/// Percent of the acquisitions that write: the talk does not say how many do.
const WRITERS_PERCENT: [u64; 3] = [1, 10, 50];
/// Of the reader-writer locks: assumed.
const SECTION_CYCLES: u64 = 200;
const THINK_CYCLES_OF_RW: u64 = 20_000;
const DURATION_NS: u64 = 2_000_000;
/// Linux's reader-writer spin lock before and after.
const RW: [&str; 2] = ["rw-naive", "rw-queued"];

/// One row of the table.
struct Row {
    what: String,
    published: f64,
    simulated: BySeed,
    /// None where the conditions are not the published ones.
    score: Option<Score>,
}

impl Row {
    fn new(
        what: String,
        change: &str,
        published: f64,
        simulated: BySeed,
        verdict: Verdict,
        as_printed: bool,
    ) -> Self {
        let mechanism = if change.starts_with("qrwlock") {
            "a wrong sign: the older reader-writer lock's waiters, which all poll, cost it more than the queued one's ticket lock"
        } else {
            "the rest of AIM7: simulated is its lock alone"
        };
        let verdict = verdict.if_stable(simulated.spread());
        let score =
            Score { source: TALK, by: SIMULATOR, claim: change.into(), verdict, as_printed, mechanism };
        Self { what, published, simulated, score: Some(score) }
    }

    /// The same, where a share of the time, percent, is fitted.
    fn unless_by_share(mut self, percent: f64) -> Self {
        if let Some(score) = &mut self.score {
            score.verdict = score.verdict.unless_by_share(self.published, percent, FACTOR_WITHIN);
        }
        self
    }

    fn of_ratio(what: String, change: &str, gain: &Improvement, simulated: BySeed) -> Self {
        let published = gain.ratio();
        let median = simulated.median();
        let verdict = Verdict::of_change(published, median, FACTOR_WITHIN);
        Self::new(what, change, published, simulated, verdict, gain.is_as_printed(median))
    }
}

/// A reference count under the ticket lock beside it, with the think time for which that lock takes its published share, against the count
/// in one word with the lock; and both with the workload's own think time, which is not judged.
fn lockref(hardware: &Hardware, progress: &dyn Progress) -> anyhow::Result<([Row; 3], String)> {
    const SHARE: &str = "lockref: raw_spin_lock";
    let setup = |name: &str, think: Option<f64>| -> anyhow::Result<Setup<'_>> {
        let setup = Setup::new(hardware, workload(name)?, lock_name("ticket"));
        let think_cycles = think.map(|think| think as u64);
        Ok(Setup { think_cycles, ..setup }.on_first(hardware.cores() as u32))
    };
    let published = improvement(SHARE)?.before;
    let of_think = |think| setup("dentry", Some(think));
    let fit = think_for_percent(published.value, THINK_CYCLES, of_think, progress)?;
    let of_think = |think| Ok::<_, anyhow::Error>([setup("dentry", think)?, setup("dentry-lockref", think)?]);
    let setups = [of_think(Some(fit.cycles))?, of_think(None)?].concat();
    let runs = seeds::run(&setups, progress)?;
    let rate = |runs: &Repeated| runs.by_seed(SimulatedRun::throughput);
    let ratio = |pair: &[Repeated]| rate(&pair[1]).over(&rate(&pair[0]));
    let gain = improvement("lockref")?;
    let share = fit.reached.median();
    let what = "jobs, lockref over the lock beside the count";
    let own = Row::of_ratio(format!("{what}, the workload's own think time"), "", &gain, ratio(&runs[2..]));
    let rows = [
        Row::new(
            "time at the lock of the directory entry, %".into(),
            SHARE,
            published.value,
            fit.reached.clone(),
            Verdict::of_fit(published.value, share),
            is_as_printed(&published.text, share),
        ),
        Row::of_ratio(what.into(), "lockref", &gain, ratio(&runs[..2])).unless_by_share(published.value),
        Row { score: None, ..own },
    ];
    let note = format!(
        "A directory entry's think time, {:.0} cycles, is where the search for its lock's share of the time ends: {}. Without that time everything else is \
         done {:.1} times as often; what goes beyond is the release, whose write waits at the line's home behind the waiters' tries and is in no lock's share. \
         With the workload's own think time it is not known which share the lock takes, so that row is not judged.",
        fit.cycles,
        fit.shares(),
        1.0 / (1.0 - published.value / 100.0)
    );
    Ok((rows, note))
}

/// Threads that read and write under one lock; acquisitions a second.
struct ReadersAndWriters {
    cores: u32,
    writers_percent: u64,
    seed: u64,
}

impl Visitor<Simulated> for ReadersAndWriters {
    type Output = Option<f64>;

    fn tried<L: TryLock<Simulated>>(self, _: &Lock) -> Option<f64> {
        None
    }

    fn shared<L: DowngradeLock<Simulated> + TryLock<Simulated>>(self, _: &Lock) -> Option<f64> {
        let lock = Placed::<OwnShared<L, Simulated>, Simulated>::new(OwnShared::new(), Home::FirstTouch);
        let numbers = (0..self.cores).collect::<Vec<_>>();
        let run = Simulated::run(&Plan::on(&numbers).lasting(DURATION_NS), &|thread| {
            let mut random = Random::of_thread(self.seed, thread);
            while Simulated::running() {
                let section = || Simulated::delay(SECTION_CYCLES);
                if random.below(100) < self.writers_percent {
                    lock.exclusive(section);
                } else {
                    lock.shared(section);
                }
                Simulated::note(Event::Operation);
                Simulated::delay(random.time(THINK_CYCLES_OF_RW, Variation::Exponential));
            }
        });
        Some(run.operations() as f64 * 1e9 / run.elapsed_ns.max(1) as f64)
    }
}

/// Acquisitions a second with each seed, with the lock before and after, for each share of writers.
fn readers_and_writers(hardware: &Hardware, progress: &dyn Progress) -> anyhow::Result<Vec<[BySeed; 2]>> {
    let of_run = |&((writers_percent, lock), seed): &((u64, &str), u64)| -> anyhow::Result<f64> {
        let load = ReadersAndWriters { cores: hardware.cores() as u32, writers_percent, seed };
        let simulation = Simulation::new(hardware).options(Options { seed, ..Options::default() });
        let run = simulation.run(|| catalogue::visit::<Simulated, _>(lock, load));
        let (rate, _) = run.map_err(|stopped| anyhow::anyhow!("{lock}: {stopped}"))?;
        rate.flatten().with_context(|| format!("{lock} is no reader-writer lock"))
    };
    let runs = WRITERS_PERCENT.into_iter().flat_map(|writers| RW.map(|lock| (writers, lock)));
    let runs = seeds::with_each(&runs.collect::<Vec<_>>());
    let steps = progress.start(Work::Simulations, runs.len());
    let rates = runs.par_iter().map(|run| {
        let rate = of_run(run);
        steps.done();
        rate
    });
    let rates = rates.collect::<anyhow::Result<Vec<_>>>()?;
    let by_run = rates.chunks(seeds::COUNT).map(|rates| BySeed::of(rates.iter().copied()));
    let by_run = by_run.collect::<Vec<_>>();
    Ok(by_run.chunks_exact(2).map(|pair| [pair[0].clone(), pair[1].clone()]).collect())
}

/// The talk's gains.
pub(crate) fn kernel_changes(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let hardware = hardware(EIGHTY_CORES)?;
    let (of_lockref, note) = lockref(&hardware, progress)?;
    let mut rows = Vec::from(of_lockref);
    let rates = readers_and_writers(&hardware, progress)?;
    let mut by_load = Vec::new();
    for (writers, [before, after]) in WRITERS_PERCENT.into_iter().zip(rates) {
        by_load.push(format!("{writers} % writers {:.0} and {:.0}", before.median(), after.median()));
        for program in ["disk ramdisk", "disk ext4"] {
            let change = format!("qrwlock, AIM7 {program}");
            let gain = improvement_in("qrwlock", &format!("AIM7 {program}"))?;
            let what = format!("{change}: queued reader-writer lock over the older, {writers} % writers");
            rows.push(Row::of_ratio(what, &change, &gain, after.over(&before)));
        }
    }
    let mut table = Table::new([
        Column::text("what", "what"),
        Column::number("published", "published"),
        Column::spread("simulated", "simulated"),
        Column::number("ratio", "simulated / published"),
        Column::text("verdict", "verdict").kept(),
    ]);
    let mut unstable = Unstable::default();
    for Row { what, published, simulated, score } in &rows {
        let range = simulated.spread();
        unstable.look(range, || what.clone());
        table.row([
            Cell::from(&**what),
            Cell::from(*published),
            Cell::from(range),
            Cell::from(range.median / published),
            Cell::from(score.as_ref().map_or("", |score| score.verdict.name())),
        ]);
    }
    Ok(Reproduction {
        variant: None,
        title: "Changes to Linux of 2013 and 2014, 8 sockets x 10 cores, simulated",
        table,
        plots: Vec::new(),
        notes: vec![
            note,
            format!(
                "Reader-writer locks: sections of {SECTION_CYCLES} cycles and {THINK_CYCLES_OF_RW} of think time, assumed; which share of AIM7's acquisitions write is not published, so that \
                 each claim is judged for each share. Acquisitions a second before and after: {}.",
                by_load.join("; ")
            ),
            "The sign is wrong: published is a gain, simulated a loss. The queue is a ticket lock, as in Linux 3.16, whose waiters all poll one word: each costs the hand-over \
             a try of a request here, as in the ticket lock's collapse. On the published machines the older lock's waiters must have cost more, which is not known."
                .into(),
            "Left out: with lockref raw_spin_lock keeps 5.34 % of the samples. They are of all spin locks of the kernel; in the simulated loop there is but the one that lockref \
             replaces."
                .into(),
            unstable.note(),
            format!(
                "A change is met in size: its logarithm and the ratio within a factor of {FACTOR_WITHIN}. Published are ratios of whole programs, simulated \
                 is the lock alone."
            ),
        ],
        faults: Vec::new(),
        scores: rows.into_iter().filter_map(|row| row.score).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::progress::Unwatched;

    #[test]
    fn lockref_gives_what_its_locks_share_allows_and_what_its_release_took() {
        let hardware = hardware(EIGHTY_CORES).unwrap();
        let ([share, gain, _], _) = lockref(&hardware, &Unwatched).unwrap();
        let (published, share, gain) = (share.published, share.simulated.median(), gain.simulated.median());
        assert!((share / published - 1.0).abs() < 0.05, "fitted: {share}");
        let by_share = 1.0 / (1.0 - share / 100.0);
        assert!((by_share..2.0 * by_share).contains(&gain), "{gain} {by_share}");
    }
}
