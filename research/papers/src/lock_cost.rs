//! Fig. 11 and other published costs of a few accesses, simulated: cycles to acquire and release, of an atomic increment that many
//! cores make, and of the queued spin lock's release.

use crate::Reproduction;
use crate::published::{self, Fault, LockCost, Printed, improvement};
use crate::seeds::{self, BySeed, Unstable};
use crate::simulated::{OPTERON, hardware};
use crate::verdict::{FACTOR_WITHIN, LECTURE, PAPER, SIMULATOR, Score, TALK, Verdict, is_as_printed, within};
use anyhow::Context as _;
use locks::TryLock;
use locks::catalogue::{self, Lock, Visitor};
use machine::Ordering::{AcqRel, Acquire, Release};
use machine::{Home, Integer, Machine, Placed, Plan, Word};
use report::{Cell, Column, Table};
use session::progress::{Progress, Work};
use simulator::{Hardware, Options, Simulated, Simulation};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Acquisitions that are timed, and the first ones, which are not: caches fill meanwhile.
const TURNS: u64 = 200;
const WARM_UP: u64 = 20;

/// What the talk's queued spin lock is called here.
const QUEUED: &str = "qspin";
/// The machine of the talk, with the lock that the queued one replaced.
const TALKS_MACHINE: &str = "cs900x8";
/// Machines of the atomic increment: the paper's, and one that has transactions, as the lecture's.
const INCREMENTING: [&str; 2] = [OPTERON, "xeon-e5-2680v4x2"];
const INCREMENTING_NS: u64 = 200_000;

/// Sums of cycles over the turns that are timed.
#[derive(Default)]
struct Sums {
    acquire: AtomicU64,
    release: AtomicU64,
}

impl Sums {
    /// Times one acquisition and release, of the turn with this number.
    fn time<L: TryLock<Simulated>>(&self, lock: &L, turn: u64) {
        let before = Simulated::now();
        let acquired = lock.critical(Simulated::now);
        let after = Simulated::now();
        if turn >= WARM_UP {
            self.acquire.fetch_add(acquired - before, Relaxed);
            self.release.fetch_add(after - acquired, Relaxed);
        }
    }

    /// Means of so many turns.
    fn means(&self, turns: u64) -> Cycles {
        let of = |sum: &AtomicU64| sum.load(Relaxed) as f64 / turns as f64;
        Cycles { acquire: of(&self.acquire), release: of(&self.release) }
    }
}

/// Mean cycles.
#[derive(Debug, Clone, Copy)]
struct Cycles {
    acquire: f64,
    release: f64,
}

/// The same with each seed.
struct CyclesBySeed {
    acquire: BySeed,
    release: BySeed,
}

/// Times a lock by one core, or by two that have it in turns.
struct Turns {
    cores: u32,
}

impl Visitor<Simulated> for Turns {
    type Output = Cycles;

    fn tried<L: TryLock<Simulated>>(self, _: &Lock) -> Cycles {
        let lock = Placed::<L, Simulated>::new(L::NEW, Home::FirstTouch);
        let turn = Placed::<<Simulated as Machine>::U64, Simulated>::new(
            <Simulated as Machine>::U64::ZERO,
            Home::FirstTouch,
        );
        let (sums, cores) = (Sums::default(), u64::from(self.cores));
        let all = cores * (WARM_UP + TURNS);
        Simulated::run(&Plan::on(&(0..self.cores).collect::<Vec<_>>()), &|thread| {
            for own in (thread as u64..all).step_by(self.cores as usize) {
                Simulated::spin_until(&*turn, Acquire, |now| now == own); // from the other core's store
                sums.time(&*lock, own / cores);
                turn.store(own + 1, Release); // to the other core
            }
        });
        sums.means(cores * TURNS)
    }
}

/// Cycles to acquire and release a lock on so many cores.
fn cycles_of_lock(hardware: &Hardware, lock: &str, cores: u32) -> anyhow::Result<CyclesBySeed> {
    let of_seed = |seed| -> anyhow::Result<Cycles> {
        let run = || catalogue::visit::<Simulated, _>(lock, Turns { cores });
        let simulation = Simulation::new(hardware).options(Options { seed, ..Options::default() });
        let (cycles, _) = simulation.run(run).map_err(|stopped| anyhow::anyhow!("{stopped}"))?;
        cycles.with_context(|| format!("there is no lock {lock}"))
    };
    let all = seeds::each(of_seed)?;
    Ok(CyclesBySeed {
        acquire: BySeed::of(all.iter().map(|cycles| cycles.acquire)),
        release: BySeed::of(all.iter().map(|cycles| cycles.release)),
    })
}

/// Cycles of an atomic increment of one word that so many cores make in a loop.
fn cycles_of_increment(hardware: &Hardware, cores: u32) -> anyhow::Result<BySeed> {
    let of_seed = |seed| -> anyhow::Result<f64> {
        let run = || {
            let word = Placed::<<Simulated as Machine>::U64, Simulated>::new(
                <Simulated as Machine>::U64::ZERO,
                Home::FirstTouch,
            );
            let (cycles, count) = (AtomicU64::new(0), AtomicU64::new(0));
            let numbers = (0..cores).collect::<Vec<_>>();
            Simulated::run(&Plan::on(&numbers).lasting(INCREMENTING_NS), &|_| {
                while Simulated::running() {
                    let before = Simulated::now();
                    word.fetch_add(1, AcqRel);
                    cycles.fetch_add(Simulated::now() - before, Relaxed);
                    count.fetch_add(1, Relaxed);
                }
            });
            cycles.into_inner() as f64 / count.into_inner().max(1) as f64
        };
        let simulation = Simulation::new(hardware).options(Options { seed, ..Options::default() });
        Ok(simulation.run(run).map_err(|stopped| anyhow::anyhow!("{stopped}"))?.0)
    };
    Ok(BySeed::of(seeds::each(of_seed)?))
}

/// One row of the table.
struct Row {
    what: String,
    machine: String,
    cores: u32,
    published: f64,
    simulated: BySeed,
    /// None where the conditions of the published figure are not those of the row.
    score: Option<Score>,
}

/// The figures that the machine file takes an atomic access and a transfer from, and those of the same lock with back-off, for which
/// no thread waits here.
const INPUTS: [&str; 4] = [
    "ticket: acquire, single", "ticket: acquire, shared", "proportional: acquire, single",
    "proportional: acquire, shared",
];

/// Rows of fig. 11 for one lock.
fn fig11_rows(hardware: &Hardware, cost: &LockCost) -> anyhow::Result<[Row; 3]> {
    let own = cost.own_name();
    let (single, shared) = (cycles_of_lock(hardware, own, 1)?, cycles_of_lock(hardware, own, 2)?);
    let row = |what: &str, cores, published: &Printed, simulated: &BySeed| {
        let what = format!("{}: {what}", cost.lock);
        let is_input = INPUTS.contains(&&*what);
        let median = simulated.median();
        let verdict =
            Verdict::of(within(median, published.value, FACTOR_WITHIN)).if_stable(simulated.spread());
        Row {
            machine: hardware.name.clone(),
            cores,
            published: published.value,
            simulated: simulated.clone(),
            score: Some(Score {
                source: PAPER,
                by: SIMULATOR,
                claim: format!("fig. 11, {what}"),
                verdict: if is_input { verdict.given_by_input() } else { verdict },
                as_printed: is_as_printed(&published.text, median),
                mechanism: "instructions that are no accesses, and one cost of a transfer for all states of a line",
            }),
            what,
        }
    };
    Ok([
        row("acquire, single", 1, &cost.single_acquire, &single.acquire),
        row("release, single", 1, &cost.single_release, &single.release),
        row("acquire, shared", 2, &cost.shared_acquire, &shared.acquire),
    ])
}

/// Rows of the atomic increment on one machine: by two cores, which is not judged, and by all.
fn increment_rows(hardware: &Hardware) -> anyhow::Result<Vec<Row>> {
    let claims = published::claims()?;
    let claim = claims.iter().find(|claim| claim.claim == "fetch_and_increment_cycles");
    let claim = claim.context("collapse_claims.csv has no fetch_and_increment_cycles")?;
    let published = claim.number().context("its value is a number")?;
    let all = hardware.cores() as u32;
    let row = |cores| {
        let simulated = cycles_of_increment(hardware, cores)?;
        let median = simulated.median();
        let verdict = Verdict::of_number(claim, median).unwrap_or(Verdict::Missed);
        let verdict = verdict.if_stable(simulated.spread());
        let as_printed = is_as_printed(&claim.value, median);
        let mechanism = "how many cores the published increment has, which the lecture does not say";
        let score = Score { source: LECTURE, ..claim.score(SIMULATOR, verdict, as_printed, mechanism) };
        Ok(Row {
            what: "atomic increment of one word, in a loop".into(),
            machine: hardware.name.clone(),
            cores,
            published,
            simulated,
            score: (cores == all).then_some(score),
        })
    };
    [2, all / 4, all].into_iter().map(row).collect()
}

/// The queued spin lock's release, over the ticket lock's.
fn queued_release(hardware: &Hardware) -> anyhow::Result<Row> {
    let change = improvement("queued_spinlock_uncontended_unlock")?;
    let release = |lock| Ok::<_, anyhow::Error>(cycles_of_lock(hardware, lock, 1)?.release);
    let simulated = release(QUEUED)?.over(&release("ticket")?);
    let median = simulated.median();
    let verdict = Verdict::of_change(change.ratio(), median, FACTOR_WITHIN).if_stable(simulated.spread());
    let what = "release, queued over ticket, no thread waits";
    Ok(Row {
        what: what.into(),
        machine: hardware.name.clone(),
        cores: 1,
        published: change.ratio(),
        simulated,
        score: Some(Score {
            source: TALK,
            by: SIMULATOR,
            claim: what.into(),
            verdict,
            as_printed: change.is_as_printed(median),
            mechanism: "a release's cost beside its access: the call and the loop",
        }),
    })
}

/// All published costs of single operations.
pub(crate) fn lock_cost(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let opteron = hardware(OPTERON)?;
    let costs = published::lock_costs()?;
    let steps = progress.start(Work::Simulations, costs.len() + INCREMENTING.len() + 1);
    let mut rows = Vec::new();
    for cost in &costs {
        rows.extend(fig11_rows(&opteron, cost)?);
        steps.done();
    }
    for machine in INCREMENTING {
        rows.extend(increment_rows(&hardware(machine)?)?);
        steps.done();
    }
    rows.push(queued_release(&hardware(TALKS_MACHINE)?)?);
    drop(steps);
    let mut table = Table::new([
        Column::text("what", "what"),
        Column::text("machine", "machine"),
        Column::number("cores", "cores"),
        Column::number("published", "published"),
        Column::spread("simulated", "simulated"),
        Column::number("ratio", "simulated / published"),
        Column::text("verdict", "verdict").kept(),
    ]);
    let mut scores = Vec::new();
    let mut unstable = Unstable::default();
    for Row { what, machine, cores, published, simulated, score } in rows {
        let range = simulated.spread();
        unstable.look(range, || format!("{what}, {cores} cores of {machine}"));
        table.row([
            Cell::from(what),
            Cell::from(machine),
            Cell::from(cores),
            Cell::from(published),
            Cell::from(range),
            Cell::from(range.median / published),
            Cell::from(score.as_ref().map_or("", |score| score.verdict.name())),
        ]);
        scores.extend(score);
    }
    let count = |verdict| scores.iter().filter(|score| score.verdict == verdict).count();
    Ok(Reproduction {
        variant: None,
        title: "Fig. 11 and other costs of a few accesses, simulated, cycles",
        table,
        plots: Vec::new(),
        notes: vec![
            format!(
                "{} rows met, {} missed, {} consistent, within a factor of {FACTOR_WITHIN}. Consistent: the machine file takes its atomic access and its transfer from the \
                 ticket lock's two acquisitions, and the proportional lock's, for which no thread waits, are the same again.",
                count(Verdict::Met),
                count(Verdict::Missed),
                count(Verdict::Consistent)
            ),
            format!(
                "Shared: two cores acquire and release in turns, so that each finds the lock as the other has just left it. Means of {TURNS} turns; accesses alone take time on \
                 the simulated machine. `contend bench cost` measures the same on this computer, beside the published figures."
            ),
            unstable.note(),
            "The lecture does not say how many cores increment: only the rows with all of them are judged."
                .into(),
            "The queued lock's row is a ratio of releases, published 8.8 over 14.1 ns.".into(),
        ],
        faults: vec![Fault(7)],
        scores,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ticket_lock_costs_what_the_machine_file_takes_from_fig_11() {
        let hardware = hardware(OPTERON).unwrap();
        let costs = published::lock_costs().unwrap();
        let ticket = costs.iter().find(|cost| cost.lock == "ticket").unwrap();
        let single = cycles_of_lock(&hardware, "ticket", 1).unwrap().acquire.median();
        assert!((single / ticket.single_acquire.value - 1.0).abs() < 0.1, "{single}");
        let shared = cycles_of_lock(&hardware, "ticket", 2).unwrap().acquire.median();
        assert!(shared > single, "a line that another core has costs a transfer: {shared} {single}");
    }

    #[test]
    fn an_increment_takes_longer_the_more_cores_make_it() {
        let hardware = hardware(OPTERON).unwrap();
        let [two, all] = [2, 48].map(|cores| cycles_of_increment(&hardware, cores).unwrap().median());
        assert!(all > 5.0 * two, "{two} {all}");
    }
}
