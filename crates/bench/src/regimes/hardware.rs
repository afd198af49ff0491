//! Regimes on this machine.

use super::Longest;
use super::causes::Counts;
use super::regime::{Figures, Measured, Regime};
use crate::contenders::Contender;
use crate::limited;
use crate::throughput::{Load, Options, duration_ns, ensure_in_time, loads_of, observed};
use crate::timing::{Bench, interleaved, shown_ns};
use curve::text::counted;
use serde::{Deserialize, Serialize};
use session::interrupt;
use session::noise::switches;
use std::collections::BTreeMap;
use std::time::Duration;
use workloads::client::Wrong;
use workloads::mix::Outcome;

/// What a thread of a shared core gets of a run's time. Shorter than Linux's time slices, so that not every thread of many
/// gets one: hundreds of regimes with the turns of `throughput` would take an hour.
const TURN_NS: u64 = 1_000_000;

/// A run lasts at least so many rounds of section and think time, so that a thread's last ones weigh little.
pub(super) const ROUNDS: u64 = 100;

/// A run as long as asked for, or as the load needs.
pub(super) fn lasting(load: Load, asked: Duration, cores: usize, turn_ns: u64) -> Load {
    let round_ns = Regime::section_ns(&load) + load.think_ns;
    Load { duration_ns: duration_ns(asked, load.threads, cores, turn_ns).max(ROUNDS * round_ns), ..load }
}

/// # Errors
///
/// A run that would be ended before it is over.
pub(super) fn regimes(bench: &Bench, options: &Options) -> anyhow::Result<Vec<Regime>> {
    let cores = bench.cores();
    let threads = options.threads.iter().map(|&threads| usize::from(threads));
    let regime =
        |load| Regime { machine: None, cores, load: lasting(load, options.duration, cores, TURN_NS) };
    let regimes: Vec<Regime> = loads_of(options, threads).map(regime).collect();
    for regime in &regimes {
        ensure_in_time(options, regime, regime.load.duration_ns)?;
    }
    Ok(regimes)
}

/// How it was measured, for readers of tables.
pub(super) fn how(bench: &Bench, options: &Options, missing: &str) -> String {
    let missing = if missing.is_empty() { String::new() } else { format!(" Not measured: {missing}.") };
    format!(
        "On {} cores, {} a run, at least {} for each thread of a shared core and {ROUNDS} rounds of section and think time, {} \
         of each after a warm-up in which waits are timed, in turn. A run that takes longer than {:?} is ended. A \
         section also changes a counter beside the lock, which must add up. Where there are more threads than \
         cores, locks of contend wait as they do in programs: what spins yields and sleeps after a bound; others wait as they were made. In regimes with reads the \
         locks take part that readers share, and those others that were best in some regime without reads, acquired as \
         for a write; if locks were named, all of them.{missing}",
        bench.cores(),
        shown_ns(options.duration.as_nanos() as u64),
        shown_ns(TURN_NS),
        counted(u64::from(options.common.runs), "run"),
        options.common.limit,
    )
}

/// What one run says of one lock.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Sample {
    per_second: f64,
    slowest_share: f64,
    jain: f64,
    sleeps: f64,
    switches: f64,
    timed: Option<Timed>,
}

/// What a run says that timed its waits.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Timed {
    longest_wait_cycles: u64,
    owner_changes: Option<f64>,
}

fn sample(contender: &Contender, bench: &Bench, load: &Load, timed: bool) -> Option<Result<Sample, Wrong>> {
    let before = switches();
    Some(if timed {
        observed::<Longest>(contender, bench, load)?.map(|run| {
            let longest_wait_cycles = run.waits.iter().map(|waits| waits.0).max().unwrap_or(0);
            let timed = Timed { longest_wait_cycles, owner_changes: Counts::owner_changes(run.sections) };
            Sample { timed: Some(timed), ..Sample::of(&run, before) }
        })
    } else {
        observed::<()>(contender, bench, load)?.map(|run| Sample::of(&run, before))
    })
}

impl Sample {
    /// What a run says that began with these switches.
    fn of<W>(run: &Outcome<W>, before: [u64; 2]) -> Self {
        let [sleeps, others] = [0, 1].map(|kind| switches()[kind].saturating_sub(before[kind]) as f64);
        let sections = run.sections.all.max(1) as f64;
        Self {
            per_second: run.per_second(),
            slowest_share: run.slowest_share(),
            jain: run.jain(),
            sleeps: sleeps / sections,
            switches: (sleeps + others) / sections,
            timed: None,
        }
    }
}

/// Measures locks in regimes, after which others take so long.
pub(super) fn measure(
    bench: &Bench,
    options: &Options,
    regimes: &[Regime],
    locks: &[Contender],
    later: Duration,
) -> Vec<Measured> {
    let runs = options.common.runs;
    let bench = &Bench { later, ..bench.clone() };
    let progress = bench.start(regimes.len() * locks.len() * (runs as usize + 1));
    let measured = regimes.iter().take_while(|_| !interrupt::came()).map(|regime| {
        // The warm-up is the run whose waits are timed, and its figures are not among the rounds'.
        let mut warm_ups: BTreeMap<&str, Option<Timed>> = BTreeMap::new();
        let rows = interleaved(locks, runs, &*progress, |contender| {
            let warms_up = !warm_ups.contains_key(contender.name());
            let run =
                limited::measured(options.common.limit, || sample(contender, bench, &regime.load, warms_up));
            if let (true, Some(Ok(sample))) = (warms_up, &run) {
                warm_ups.insert(contender.name(), sample.timed);
            }
            run
        });
        let figures = rows.into_iter().map(|row| {
            let timed = warm_ups.get(row.of.name()).copied().flatten();
            let median = |figure: fn(&Sample) -> f64| row.spread(figure).map(|spread| spread.median);
            Figures {
                lock: row.of,
                per_second: row.spread(|sample| sample.per_second),
                slowest_share: median(|sample| sample.slowest_share),
                jain: median(|sample| sample.jain),
                longest_wait_ns: timed.map(|timed| timed.longest_wait_cycles as f64 / bench.ghz),
                counts: median(|sample| sample.sleeps).zip(median(|sample| sample.switches)).map(
                    |(sleeps, switches)| Counts {
                        sleeps,
                        switches,
                        owner_changes: timed.and_then(|timed| timed.owner_changes),
                        lines: None,
                    },
                ),
                failure: row.failure,
            }
        });
        Measured { regime: regime.clone(), locks: figures.collect() }
    });
    let mut measured: Vec<_> = measured.collect();
    drop(progress);
    if interrupt::came() {
        measured.pop(); // has fewer runs of some locks than of others
    }
    measured
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Common;
    use crate::throughput::Section;
    use machine::Topology;
    use session::progress::Unwatched;

    #[test]
    fn a_run_has_time_for_turns_and_rounds() {
        let lasts = |threads, think_ns| {
            let load = Load {
                section: Section::Nanoseconds(1_000),
                think_ns,
                reads_percent: 0,
                threads,
                duration_ns: 0,
            };
            lasting(load, Duration::from_millis(4), 2, TURN_NS).duration_ns
        };
        assert_eq!(lasts(2, 0), 4_000_000);
        assert_eq!(lasts(64, 0), 32_000_000);
        assert_eq!(lasts(2, 99_000), 10_000_000);
    }

    #[test]
    fn a_limit_that_no_run_can_keep_is_refused() {
        let bench =
            Bench { ghz: 1.0, topology: Topology::default(), later: Duration::ZERO, progress: &Unwatched };
        let options = |limit| Options {
            common: Common { lock: Vec::new(), runs: 1, limit: Duration::from_millis(limit) },
            threads: vec![1],
            section: vec![Section::Lines(0)],
            think_ns: vec![1_000_000],
            reads: vec![0],
            duration: Duration::from_millis(4),
        };
        assert_eq!(regimes(&bench, &options(200)).expect("time enough").len(), 1);
        let error = regimes(&bench, &options(100)).expect_err("100 rounds of 1 ms take 100 ms").to_string();
        assert!(error.contains("1 thread on 1 core") && error.contains("--time-limit"), "{error}");
    }
}
