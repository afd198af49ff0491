//! AIM7's `fserver` before and after its list of open files got a queue lock, simulated with the other locks that it takes; and what
//! back-off does to it and to other mixes.

use crate::Reproduction;
use crate::published::{self, BackOffPlateau, Printed, improvement};
use crate::seeds::{self, BySeed, Repeated, Unstable, is_unstable};
use crate::simulated::{EIGHTY_CORES, hardware, lock_name, workload};
use crate::think_time::{ThinkFit, percent_at_busiest, think_for_percent};
use crate::verdict::{
    FACTOR_WITHIN, MAIL, SIMULATOR, Score, TALK, Verdict, is_as_printed, is_ratio_as_printed, within,
};
use anyhow::Context as _;
use report::{Cell, Column, Spread, Table};
use session::progress::Progress;
use simulate::{Setup, SimulatedRun};
use simulator::Hardware;
use std::ops::RangeInclusive;
use workloads::WORKLOADS;
use workloads::aim7::JobMix;
use workloads::catalogue::Body;

/// So many sockets with so many cores each has [`EIGHTY_CORES`].
const SOCKETS: u32 = 8;
const CORES_OF_SOCKET: u32 = 10;

/// The two loads that the talk compares, users.
const FEW_USERS: u32 = 40;
const MANY_USERS: u32 = 400;

/// How long a user of `fserver` sleeps for each unit of its think time: so [`MANY_USERS`] ask for just as many cores as there are.
/// Assumed, since the talk does not say how much of the time a user runs.
const SLEEP_PER_THINK: f64 = 4.0;

/// Ratios that are met are within this factor.
pub(crate) const WITHIN: f64 = 1.25;

/// Where the think time is looked for, cycles.
const THINK_CYCLES: RangeInclusive<f64> = 1e4..=1e7;

/// How long a run of `fserver` is, ns: some 30 operations of a user.
const RUN_NS: u64 = 30_000_000;

/// What is compared, simulated with the think time for which the lock of the open files takes its published share of the time as an
/// MCS lock. What the ticket lock does with it is the machine's doing.
struct Fitted {
    think: ThinkFit,
    ticket: Repeated,
    mcs: Repeated,
    /// The ticket lock with [`FEW_USERS`].
    few: Repeated,
    /// Throughputs of the ticket lock, and of the one that backs off and tunes itself.
    by_seeds: [BySeed; 2],
}

/// The locks that are compared over seeds.
const TICKET_AND_BACK_OFF: [&str; 2] = ["ticket", "ticket-selftuning"];

/// A figure of the table.
struct Row {
    what: String,
    source: &'static str,
    published: Published,
    simulated: Simulated,
    fitted: bool,
    /// Of a change: percent of the time that is fitted, and goes with it.
    share: Option<f64>,
}

/// A published figure.
enum Published {
    /// A share of the time, percent.
    Percent(Printed),
    /// A ratio of two printed numbers, which says what changes or that nothing does.
    Ratio(Printed, Printed),
}

/// A simulated figure.
enum Simulated {
    /// The same of each seed: a median with its range.
    BySeed(Spread),
    /// How far the seeds are apart: one number of all of them.
    OfAll(f64),
}

impl Row {
    /// The number that is judged.
    fn simulated(&self) -> f64 {
        match self.simulated {
            Simulated::BySeed(range) => range.median,
            Simulated::OfAll(value) => value,
        }
    }

    fn simulated_cell(&self) -> Cell {
        match self.simulated {
            Simulated::BySeed(range) => range.into(),
            Simulated::OfAll(value) => value.into(),
        }
    }

    fn published(&self) -> f64 {
        match &self.published {
            Published::Percent(percent) => percent.value,
            Published::Ratio(above, below) => above.value / below.value,
        }
    }

    fn verdict(&self) -> Verdict {
        match self.published {
            _ if matches!(self.simulated, Simulated::BySeed(range) if is_unstable(range)) => {
                Verdict::Unstable
            }
            _ if self.fitted => Verdict::of_fit(self.published(), self.simulated()),
            Published::Percent(_) => Verdict::of(within(self.simulated(), self.published(), WITHIN)),
            Published::Ratio(..) => {
                let verdict = Verdict::of_change(self.published(), self.simulated(), WITHIN);
                let by_share = |percent| verdict.unless_by_share(self.published(), percent, WITHIN);
                self.share.map_or(verdict, by_share)
            }
        }
    }

    fn score(&self) -> Score {
        let as_printed = match &self.published {
            Published::Percent(percent) => is_as_printed(&percent.text, self.simulated()),
            Published::Ratio(above, below) => is_ratio_as_printed(above, below, self.simulated()),
        };
        let mechanism = if self.source == MAIL {
            "what made the kernel's throughput swing is not in the simulated calls"
        } else {
            "how much users sleep, and what the other locks of a kernel do"
        };
        let claim = self.what.clone();
        Score { source: self.source, by: SIMULATOR, claim, verdict: self.verdict(), as_printed, mechanism }
    }
}

/// Users that go round the sockets, and sleep besides their think time.
fn setup<'a>(hardware: &'a Hardware, lock: &str, users: u32, think: f64) -> anyhow::Result<Setup<'a>> {
    let place = |user| user % SOCKETS * CORES_OF_SOCKET + user / SOCKETS % CORES_OF_SOCKET;
    Ok(Setup {
        places: (0..users).map(place).collect(),
        cores: users,
        duration_ns: RUN_NS,
        think_cycles: Some(think as u64),
        sleep_ns: (SLEEP_PER_THINK * think * 1e3 / hardware.mhz as f64) as u64,
        ..Setup::new(hardware, workload("fserver")?, lock_name(lock))
    })
}

/// Looks for the think time, and runs both locks with it.
fn fitted(progress: &dyn Progress) -> anyhow::Result<Fitted> {
    let hardware = hardware(EIGHTY_CORES)?;
    let published = improvement("mcs_files_lock: file_move + file_kill")?.after.value;
    let of_think = |think| setup(&hardware, "mcs", MANY_USERS, think);
    let think = think_for_percent(published, THINK_CYCLES, of_think, progress)?;
    let setups = [("ticket", MANY_USERS), ("mcs", MANY_USERS), ("ticket", FEW_USERS)]
        .map(|(lock, users)| setup(&hardware, lock, users, think.cycles));
    let setups = setups.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let Ok([ticket, mcs, few]) = <[_; 3]>::try_from(seeds::run(&setups, progress)?) else {
        anyhow::bail!("three set-ups were asked for")
    };
    let by_seeds = over_seeds(|lock| setup(&hardware, lock, MANY_USERS, think.cycles), progress)?;
    Ok(Fitted { think, ticket, mcs, few, by_seeds })
}

/// Runs a set-up with both locks; their throughputs.
fn over_seeds<'a>(
    setup: impl Fn(&str) -> anyhow::Result<Setup<'a>>,
    progress: &dyn Progress,
) -> anyhow::Result<[BySeed; 2]> {
    let setups = TICKET_AND_BACK_OFF.map(setup).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let runs = seeds::run(&setups, progress)?;
    let throughputs = runs.iter().map(|runs| runs.by_seed(SimulatedRun::throughput)).collect::<Vec<_>>();
    <[_; 2]>::try_from(throughputs).ok().context("two set-ups were asked for")
}

/// The rows that compare a mix's plateaus with and without back-off, and how far runs of each are apart.
fn back_off_rows(
    name: &str,
    plateau: &BackOffPlateau,
    [of_ticket, of_back_off]: [BySeed; 2],
) -> anyhow::Result<[Row; 3]> {
    let known =
        |figure: Option<f64>| figure.with_context(|| format!("aim7_backoff.csv has no plateau of {name}"));
    let (ticket_low, ticket_high) = (known(plateau.vanilla_low)?, known(plateau.vanilla_high)?);
    let (back_off_low, back_off_high) = (known(plateau.backoff_low)?, known(plateau.backoff_high)?);
    let apart = |throughputs: &BySeed| {
        let Spread { low, high, .. } = throughputs.spread();
        Simulated::OfAll(high / low)
    };
    let row = |what: &str, above, below, simulated| Row {
        what: format!("{name}: {what}"),
        source: MAIL,
        published: Published::Ratio(Printed::from(above), Printed::from(below)),
        simulated,
        fitted: false,
        share: None,
    };
    Ok([
        row(
            "jobs, back-off that tunes itself over ticket",
            back_off_low + back_off_high,
            ticket_low + ticket_high,
            Simulated::BySeed(of_back_off.over(&of_ticket).spread()),
        ),
        row("jobs of the best run over the worst, ticket", ticket_high, ticket_low, apart(&of_ticket)),
        row("the same, back-off", back_off_high, back_off_low, apart(&of_back_off)),
    ])
}

/// Each user of the other mixes makes about so many calls in a run.
const CALLS_OF_USER: u64 = 100;

/// Those rows for every other mix that is simulated. A job takes what the best published plateau leaves a core for it.
fn other_mixes(progress: &dyn Progress) -> anyhow::Result<Vec<Row>> {
    const MINUTE_S: f64 = 60.0;
    let hardware = hardware(EIGHTY_CORES)?;
    let all = SOCKETS * CORES_OF_SOCKET;
    let mut rows = Vec::new();
    for workload in WORKLOADS {
        let Body::JobMix(name) = workload.body else { continue };
        let mix = JobMix::find(name).with_context(|| format!("there is no mix {name}"))?;
        let plateau = published::back_off_plateau(name)?;
        let best = plateau.vanilla_high.into_iter().chain(plateau.backoff_high).fold(0.0, f64::max);
        let cycles_of_job = f64::from(all) * MINUTE_S * hardware.mhz as f64 * 1e6 / best;
        let think = mix.think_cycles(cycles_of_job);
        let setup = |lock: &str| {
            let duration_ns = CALLS_OF_USER * think * 1_000 / hardware.mhz;
            Ok(Setup { workload, duration_ns, sleep_ns: 0, ..setup(&hardware, lock, all, think as f64)? })
        };
        rows.extend(back_off_rows(name, &plateau, over_seeds(setup, progress)?)?);
    }
    Ok(rows)
}

/// Requests a second that found their line's home taken by an earlier one.
fn home_waits(run: &SimulatedRun) -> f64 {
    run.report.all_lines.home_waits as f64 / run.report.elapsed_ns as f64
}

/// The sums over socket 0: of the ticket lock with [`MANY_USERS`] and with [`FEW_USERS`], and of MCS with [`MANY_USERS`].
fn published_retries() -> anyhow::Result<[Printed; 3]> {
    let of_ticket = published::coherency_retries()?;
    let of_ticket = of_ticket.iter().filter(|row| row.lock == "ticket" && row.socket == 0);
    let (few, many) = of_ticket
        .map(|row| (row.users_40, row.users_400))
        .fold((0.0, 0.0), |(few, many), row| (few + row.0, many + row.1));
    // The talk states MCS's retries only as a sum.
    let of_mcs = improvement("mcs_files_lock: coherency retries of socket 0")?.after;
    Ok([many.into(), few.into(), of_mcs])
}

/// What changed when the lock of the open files became MCS.
pub(crate) fn aim7(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let Fitted { think, ticket, mcs, few, by_seeds } = fitted(progress)?;
    let jobs = improvement("mcs_files_lock")?;
    let share = improvement("mcs_files_lock: file_move + file_kill")?;
    let growth = improvement("file_move + file_kill from 40 to 400 users")?;
    let [of_ticket, of_few, of_mcs] = published_retries()?;
    let row = |what: &str, published, simulated: BySeed| Row {
        what: what.into(),
        source: TALK,
        published,
        simulated: Simulated::BySeed(simulated.spread()),
        fitted: false,
        share: None,
    };
    let percent = |what: &str, published, runs: &Repeated| {
        row(what, Published::Percent(published), runs.by_seed(percent_at_busiest))
    };
    let ratio = |what: &str, above, below, of: fn(&SimulatedRun) -> f64, [one, other]: [&Repeated; 2]| {
        row(what, Published::Ratio(above, below), one.by_seed(of).over(&other.by_seed(of)))
    };
    let gone = share.before.value - share.after.value;
    let at_files = percent("time at the lock of the open files, ticket, %", share.before, &ticket);
    let waits = "requests that wait at a home, ticket over MCS";
    let mut rows = vec![
        Row { fitted: true, ..at_files },
        Row {
            fitted: true,
            ..row("the same with MCS, %", Published::Percent(share.after), think.reached.clone())
        },
        percent("the same, ticket, 40 users, %", growth.before, &few),
        Row {
            share: Some(gone),
            ..ratio(
                "jobs, MCS over ticket",
                jobs.after,
                jobs.before,
                SimulatedRun::throughput,
                [&mcs, &ticket],
            )
        },
        ratio(waits, of_ticket.clone(), of_mcs, home_waits, [&ticket, &mcs]),
        ratio("the same, ticket, 400 users over 40", of_ticket, of_few, home_waits, [&ticket, &few]),
    ];
    rows.extend(back_off_rows("fserver", &published::back_off_plateau("fserver")?, by_seeds)?);
    rows.extend(other_mixes(progress)?);
    let mut table = Table::new([
        Column::text("what", "what"),
        Column::number("published", "published"),
        Column::spread("simulated", "simulated"),
        Column::text("verdict", "verdict").kept(),
    ]);
    let mut unstable = Unstable::default();
    let scores = rows.iter().map(Row::score).collect::<Vec<_>>();
    for row in &rows {
        let (published, verdict) = (row.published(), row.verdict());
        table.row([Cell::from(&*row.what), published.into(), row.simulated_cell(), verdict.into()]);
        if let Simulated::BySeed(range) = row.simulated {
            unstable.look(range, || row.what.clone());
        }
    }
    Ok(Reproduction {
        variant: None,
        title: "AIM7 fserver with a ticket lock and with MCS for its open files, and its mixes with back-off, 8 sockets x 10 cores, simulated",
        table,
        plots: Vec::new(),
        notes: notes(&scores, &think, &unstable),
        faults: Vec::new(),
        scores,
    })
}

/// What `aim7` says below its table.
fn notes(scores: &[Score], think: &ThinkFit, unstable: &Unstable) -> Vec<String> {
    let count = |verdict| scores.iter().filter(|score| score.verdict == verdict).count();
    vec![
        format!(
            "{} are met, {} missed, {} fitted, {} consistent with what is fitted, {} published no change and changed nothing, {} are unstable. A published ratio is met by a change in the same direction and of \
             the same size, its logarithm within a factor of {FACTOR_WITHIN}, and within a factor of {WITHIN} in all.",
            count(Verdict::Met),
            count(Verdict::Missed),
            count(Verdict::Fitted),
            count(Verdict::Consistent),
            count(Verdict::NoChange),
            count(Verdict::Unstable)
        ),
        unstable.note(),
        format!(
            "An operation of fserver opens and closes a file: the mount's ticket lock, in one of 8 a directory's sleeping mutex, and twice the lock of the open \
             files. Two numbers are fitted: the think time, {} cycles, with which MCS takes its share ({}), and in the machine's file what a try of \
             a request takes that a busy home refuses. That was fitted to the ticket lock's share with 80 users who never slept, of the time up to the end of the last \
             one; shares are now of the time on cores, and the ticket lock misses its own. What else an operation takes is assumed. \
             {MANY_USERS} users, five to a core, think for a fifth of their time outside of locks and sleep for the rest, so that they ask for just as many cores as there are: \
             assumed, since no source says how much they sleep. None takes a core from another, as in calls of a kernel that is not preemptible. {FEW_USERS} \
             users are one to a core. Back-off is of the LKML thread of 2013, on an 80-core DL980; best and worst are of {} seeds here, and of runs there.",
            think.cycles as u64,
            think.shares(),
            seeds::COUNT
        ),
        format!(
            "The other mixes make the calls of their jobs: names in a directory that all users share, with its sleeping mutex, processes, pages and \
             sockets. All their spin locks change together, as the kernel's did in 2013. A job takes what the best published plateau leaves each core \
             for it; which locks a call takes, and for how long, is assumed. So seen, users wait for the mutex of the directory and hardly for a spin \
             lock: both locks do the same. What made the kernel's throughput swing is not in these calls."
        ),
        "Requests that wait at a home: published are the re-issued transactions of socket 0, simulated is the sum over all homes. The locks lie on socket 0, the nodes of MCS's \
         queue where their threads run."
            .into(),
        "Each core that waits for a line costs its home a try for each request that it answers. So the ticket lock, for whose line all wait, hands over ever \
         more slowly; MCS, whose waiters poll lines of their own, does not. The talk's 80 cores were an unnamed machine; the simulated one has the \
         latencies of another of the DL980's generation."
            .into(),
    ]
}

/// Coherence traffic of the ticket lock against MCS: of the open files' lock alone, and with the other locks beside it.
pub(crate) fn retries(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let hardware = hardware(EIGHTY_CORES)?;
    let files = workload("files-lock")?;
    let setups = ["ticket", "mcs"].map(|lock| Setup {
        duration_ns: 10_000_000,
        ..Setup::new(&hardware, files, lock_name(lock)).on_first(SOCKETS * CORES_OF_SOCKET)
    });
    let alone = seeds::run(&setups, progress)?;
    let [alone_ticket, alone_mcs] = &alone[..] else { anyhow::bail!("two runs were asked for") };
    let Fitted { ticket, mcs, .. } = fitted(progress)?;
    let mut table = Table::new([
        Column::text("what", "what, ticket over MCS"),
        Column::number("published", "published"),
        Column::spread("with_others", "simulated with other locks"),
        Column::spread("alone", "alone"),
        Column::number("ratio", "with others / published"),
    ]);
    let per_operation = |run: &SimulatedRun| home_waits(run) / run.throughput();
    let invalidations =
        |run: &SimulatedRun| run.report.all_lines.invalidations as f64 / run.report.elapsed_ns as f64;
    let [of_ticket, _, of_mcs] = published_retries()?;
    let published = of_ticket.value / of_mcs.value;
    type Figure = fn(&SimulatedRun) -> f64;
    let rows: [(&str, Option<f64>, Figure); 4] = [
        ("requests that wait at a home, a second", Some(published), home_waits),
        ("the same, an operation", None, per_operation),
        ("invalidations, a second", None, invalidations),
        ("operations, a second", None, SimulatedRun::throughput),
    ];
    let mut unstable = Unstable::default();
    for (what, published, of) in rows {
        let ratio = |one: &Repeated, other: &Repeated| one.by_seed(of).over(&other.by_seed(of)).spread();
        let (with_others, alone) = (ratio(&ticket, &mcs), ratio(alone_ticket, alone_mcs));
        unstable.look(with_others, || format!("{what}, with other locks"));
        unstable.look(alone, || format!("{what}, alone"));
        table.row([
            Cell::from(what),
            Cell::from(published),
            Cell::from(with_others),
            Cell::from(alone),
            Cell::from(published.map(|published| with_others.median / published)),
        ]);
    }
    Ok(Reproduction {
        variant: None, title: "Coherence retries of the ticket lock against MCS, 8 sockets x 10 cores, simulated",
        table,
        plots: Vec::new(),
        notes: vec![
            "A request that finds its line's home taken by an earlier one counts as a re-issued transaction; published are the sums of socket 0 with 400 users, simulated is the sum over all homes."
                .into(),
            "In the talk's experiment the lock of the open files alone became MCS: a ticket lock for mounts and a sleeping mutex went on making traffic, as they do in \
             `fserver` (`contend reproduce aim7`). Alone is `files-lock`, where hardly two requests of MCS's waiters meet at a home."
                .into(),
            "The simulated machine is `dl980`; the talk's 80 cores were an unnamed machine.".into(),
            unstable.note(),
        ],
        faults: Vec::new(),
        scores: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::progress::Unwatched;

    #[test]
    fn every_simulated_mix_is_judged_and_runs_long_enough_to_be() {
        let rows = other_mixes(&Unwatched).unwrap();
        let mixes = WORKLOADS.iter().filter(|workload| matches!(workload.body, Body::JobMix(_))).count();
        assert_eq!((mixes, rows.len()), (7, 7 * 3));
        let apart = |row: &&Row| row.what.contains("best run") && row.simulated() > WITHIN;
        assert_eq!(rows.iter().filter(apart).count(), 0, "seeds differ by the length of the run");
    }
}
