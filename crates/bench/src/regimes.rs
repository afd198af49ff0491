//! Which lock to start with: every lock in every regime, on this machine or on simulated ones.
//!
//! A regime is a number of threads, a critical section, a think time and a share of reads on a machine. What one lock comes to
//! in it is compared with the best of all locks there. On this machine the locks of a regime are measured in turn, as under
//! `throughput`; on simulated machines the locks' own code runs, side by side on the host's cores, the same for the same seed.

mod causes;
mod decisions;
mod hardware;
mod map;
mod regime;
mod simulated;
mod standings;

pub use simulated::Machines;

use super::contenders::{self, Contender};
use super::findings::{Drawing, Findings, Part};
use super::throughput::Options;
use super::timing::Bench;
use ::report::Table;
use curve::text::counted;
use regime::{FAR_HEADING, Measured, NEAR_HEADING, Regime};
use session::ensure_usage;
use session::host::{processor_name, today};
use session::interrupt;
use session::noise::{Noise, Watch};
use session::progress::shown_duration;
use session::usage::UsageError;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use workloads::mix::WaitObserver;

/// The longest wait of a thread, in cycles.
#[derive(Debug, Default)]
struct Longest(u64);

impl WaitObserver for Longest {
    const TIMED: bool = true;

    fn waited(&mut self, cycles: u64) {
        self.0 = self.0.max(cycles);
    }
}

/// What every lock came to.
#[derive(Debug)]
pub struct Regimes {
    /// Decisions and standings as tables, and the map as the drawing.
    pub findings: Findings,
    /// A row for each lock in each regime.
    pub cells: Table,
    took: Duration,
}

/// What is to be measured, before it is.
struct Plan {
    regimes: Vec<Regime>,
    chosen: Vec<Contender>,
    /// Locks that the user did not name take part in regimes with reads only if readers share them, or if they were best without.
    named: bool,
    /// Locks that were not built, with the reasons.
    missing: String,
}

impl Plan {
    fn new(bench: &Bench, options: &Options, machines: Option<&Machines>) -> anyhow::Result<Self> {
        let named = !options.common.lock.is_empty();
        let all = contenders::select(&options.common.lock)?;
        let other = all.iter().find(|contender| named && machines.is_some() && !contender.is_ours());
        if let Some(other) = other {
            return Err(UsageError::new(format!(
                "{} is another library's lock, and only contend's own run on simulated machines: `contend locks` lists them",
                other.name()
            ))
            .into());
        }
        let takes_part = |contender: &Contender| match (contender, machines) {
            (Contender::Own(_), Some(_)) => true,
            (Contender::McsQueue, _) => named,
            (Contender::Peer(_), Some(_)) => false,
            // Beside those that they stand for they say nothing new.
            (Contender::Own(lock), None) => named || lock.stands_for().is_none(),
            (Contender::Peer(_), None) => true,
        };
        let (missing, chosen): (Vec<_>, Vec<_>) =
            all.into_iter().filter(takes_part).partition(|contender| contender.missing().is_some());
        let missing = names_by_reason(&missing);
        ensure_usage!(
            !chosen.is_empty(),
            "none of the named locks was built: {missing}; `contend locks` lists those that always are"
        );
        let regimes = match machines {
            Some(machines) => machines.regimes(options)?,
            None => hardware::regimes(bench, options)?,
        };
        Ok(Self { regimes, chosen, named, missing })
    }

    /// The locks of regimes with reads, when those without are measured.
    fn with_reads(&self, measured: &[Measured]) -> Vec<Contender> {
        let was_best = |contender: &Contender| {
            let mut best = measured.iter().filter_map(Measured::best);
            best.any(|figures| figures.lock.name() == contender.name())
        };
        let takes_part = |contender: &&Contender| self.named || contender.shares() || was_best(contender);
        self.chosen.iter().filter(takes_part).copied().collect()
    }

    /// Measures the regimes without reads, then the others. `measure` is told how much time the regimes after its own take.
    fn measure(
        self,
        measure: impl Fn(&[Regime], &[Contender], Duration) -> Vec<Measured>,
        runs: u32,
    ) -> Vec<Measured> {
        let later = self.time(true, runs);
        let (writing, reading): (Vec<_>, Vec<_>) =
            self.regimes.iter().cloned().partition(|regime| regime.load.reads_percent == 0);
        let mut measured = measure(&writing, &self.chosen, later);
        let sharing = self.with_reads(&measured);
        measured.extend(measure(&reading, &sharing, Duration::ZERO));
        measured.retain(|one| !one.cut_short());
        measured
    }

    /// How long the runs of regimes with reads take, or of those without.
    fn time(&self, reads: bool, runs: u32) -> Duration {
        let locks = if reads { self.with_reads(&[]) } else { self.chosen.clone() };
        let regimes = self.regimes.iter().filter(|regime| (regime.load.reads_percent > 0) == reads);
        let round: u64 = regimes.map(|regime| regime.load.duration_ns).sum();
        Duration::from_nanos(round) * locks.len() as u32 * (runs + 1)
    }
}

/// Locks that are missing, those with the same reason together.
fn names_by_reason(missing: &[Contender]) -> String {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for contender in missing {
        by_reason.entry(contender.missing().unwrap_or_default()).or_default().push(contender.name());
    }
    let shown = by_reason.into_iter().map(|(reason, names)| format!("{} ({reason})", names.join(", ")));
    shown.collect::<Vec<_>>().join("; ")
}

/// What will be measured, in a line, before it is.
///
/// # Errors
///
/// As of [`run`].
pub fn plan(bench: &Bench, options: &Options, machines: Option<&Machines>) -> anyhow::Result<String> {
    let plan = Plan::new(bench, options, machines)?;
    let rounds = options.common.runs;
    let (regimes, locks) = (plan.regimes.len() as u64, counted(plan.chosen.len() as u64, "lock"));
    let runs = counted(u64::from(rounds), "run");
    Ok(match machines {
        Some(_) => format!("{}, {locks}, {runs} of each", counted(regimes, "simulated regime")),
        None => format!(
            "{}, {locks}, {runs} of each after a warm-up: {} of runs, besides the start of each and locks that do not end in time",
            counted(regimes, "regime"),
            shown_duration(plan.time(false, rounds) + plan.time(true, rounds))
        ),
    })
}

/// Measures on this machine, or on simulated ones.
///
/// # Errors
///
/// A name that no lock has, or cores or threads that no machine has.
pub fn run(bench: &Bench, options: &Options, machines: Option<&Machines>) -> anyhow::Result<Regimes> {
    let started = Instant::now();
    let plan = Plan::new(bench, options, machines)?;
    let missing = plan.missing.clone();
    let runs = options.common.runs;
    let (measured, noise, how) = match machines {
        Some(machines) => {
            let measured = plan
                .measure(|regimes, locks, _| machines.measure(bench.progress, regimes, locks, runs), runs);
            (measured, Noise::default(), machines.how(runs))
        }
        None => {
            let watch = Watch::start();
            let measured = plan.measure(
                |regimes, locks, later| hardware::measure(bench, options, regimes, locks, later),
                runs,
            );
            (measured, watch.stop(), hardware::how(bench, options, &missing))
        }
    };
    let title = if machines.is_some() {
        "The best lock of each regime, simulated".to_owned()
    } else {
        format!("The best lock of each regime on {}", processor_name())
    };
    let findings = Findings {
        workload: "regimes",
        parts: parts(&measured, &how),
        goals: Vec::new(),
        drawing: Drawing::Map(map::of(title, &measured)),
        noise,
    };
    Ok(Regimes { findings, cells: regime::table(&measured), took: started.elapsed() })
}

/// Which lock when, and every lock's standing, without reads and with.
fn parts(measured: &[Measured], how: &str) -> Vec<Part> {
    let mut parts = vec![Part {
        key: "decisions",
        heading: "Which lock when".into(),
        table: decisions::table(measured),
        notes: vec![decisions::rule(), how.to_owned()],
    }];
    let kinds = [("exclusion", "Mutual exclusion", false), ("reads", "Reads and writes", true)];
    for (key, heading, reads) in kinds {
        let of_kind: Vec<&Measured> =
            measured.iter().filter(|one| (one.regime.load.reads_percent > 0) == reads).collect();
        if of_kind.is_empty() {
            continue;
        }
        let ties = of_kind.iter().filter(|one| one.best_is_tied()).count();
        parts.push(Part {
            key,
            heading: heading.into(),
            table: standings::table(&of_kind),
            notes: vec![format!(
                "{}. A ratio is a lock's acquisitions a second over those of the regime's best lock, by medians: 1 is \
                 the best, 0 did not end in time or failed. `{NEAR_HEADING}` counts ratios of 0.9 or more, by medians; `{FAR_HEADING}` those where not even the lock's best run comes to 0.9 of the worst run of the best. In {ties} regimes the range of another lock overlaps with that of the best. `slowest` is the least part of \
                 the mean thread's acquisitions that the slowest thread got, and `longest wait` the longest of any thread.",
                counted(of_kind.len() as u64, "regime")
            )],
        });
    }
    parts.extend(causes::part(measured));
    parts
}

impl Regimes {
    /// The page, made by this command, with the map in a file of this name beside it.
    ///
    /// # Errors
    ///
    /// Something disturbed the runs: what, and what to do.
    pub fn page(&self, command: &str, picture: &str) -> Result<String, String> {
        let disturbed = self.findings.noise.warnings();
        if !disturbed.is_empty() {
            return Err(disturbed.join("; "));
        }
        let cut = if interrupt::came() {
            "**Cut short**: regimes that were not finished are left out.\n\n"
        } else {
            ""
        };
        let page = format!(
            "# Regimes\n\n\
             Written by `{command}` on {}, on {}, in {}.\n\n\
             {cut}![The best lock of each regime: the tables below have the figures]({picture})\n\n{}",
            today(),
            processor_name(),
            shown_duration(self.took),
            self.findings.markdown(),
        );
        Ok(page.trim_end().to_owned() + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::regime::tests::{figures, measured};
    use super::*;

    #[test]
    fn regimes_with_reads_are_for_locks_that_share_and_those_that_were_best() {
        let plan = |named| Plan {
            regimes: Vec::new(),
            chosen: ["mcs", "ticket", "rw"].map(|name| contenders::find(name).unwrap()).to_vec(),
            named,
            missing: String::new(),
        };
        let names = |locks: Vec<Contender>| locks.iter().map(Contender::name).collect::<Vec<_>>();
        let measured = [measured(0, vec![figures("mcs", 9.0), figures("ticket", 10.0), figures("rw", 1.0)])];
        assert_eq!(names(plan(false).with_reads(&measured)), ["ticket", "rw"]);
        assert_eq!(names(plan(true).with_reads(&measured)), ["mcs", "ticket", "rw"]);
    }

    #[test]
    fn the_page_names_command_map_and_tables() {
        let both = [
            measured(0, vec![figures("mcs", 9.0), figures("ticket", 10.0)]),
            measured(90, vec![figures("rw", 9.0), figures("ticket", 3.0)]),
        ];
        let findings = Findings {
            workload: "regimes",
            parts: parts(&both, "How."),
            goals: Vec::new(),
            drawing: Drawing::Map(map::of("t".into(), &both)),
            noise: Noise::default(),
        };
        let regimes = Regimes { findings, cells: regime::table(&both), took: Duration::ZERO };
        let page = regimes.page("contend bench regimes", "regimes.svg").unwrap();
        for part in [
            "`contend bench regimes`", "](regimes.svg)", "### Which lock when", "### Mutual exclusion",
            "### Reads and writes",
        ] {
            assert!(page.contains(part), "{part} is missing:\n{page}");
        }
        assert!(regimes.findings.svg().unwrap().contains("ticket"));
        assert_eq!(regimes.cells.len(), 4);
        let noise = Noise { others_share: Some(0.5), ..Noise::default() };
        let disturbed = Regimes { findings: Findings { noise, ..regimes.findings }, ..regimes };
        let refused = disturbed.page("contend bench regimes", "regimes.svg").unwrap_err();
        assert!(refused.starts_with("other programs used 50 % of the cores meanwhile: "), "{refused}");
    }
}
