//! One regime, and what the locks came to in it.

use super::causes::{Counts, cause};
use crate::contenders::Contender;
use crate::throughput::{Load, Section};
use crate::timing::{CUT_SHORT, shown_ns};
use curve::text::counted;
use report::{Cell, Column, Spread, Table};
use std::fmt;

/// A lock is near the best from this ratio on.
pub(super) const NEAR: f64 = 0.9;

/// The heading of the share of regimes in which a lock is near the best.
pub(super) const NEAR_HEADING: &str = "within 10 % of the best, %";

/// The same among the locks that bound how often a waiter is bypassed.
pub(super) const NEAR_BOUNDED_HEADING: &str = "within 10 % of the best that bounds waiting, %";

/// The heading of the share of regimes in which a lock is shown not to be.
pub(super) const FAR_HEADING: &str = "shown not to be, %";

/// A load on a machine.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Regime {
    /// The simulated machine; none for this one.
    pub(super) machine: Option<String>,
    /// The cores that the threads share.
    pub(super) cores: usize,
    /// What the threads do.
    pub(super) load: Load,
}

impl fmt::Display for Regime {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, cores, load } = self;
        write!(
            to,
            "{} on {}, section {}, think {}",
            counted(load.threads as u64, "thread"),
            counted(*cores as u64, "core"),
            load.section,
            shown_think(load.think_ns)
        )?;
        if load.reads_percent > 0 {
            write!(to, ", {} % reads", load.reads_percent)?;
        }
        machine.as_ref().map_or(Ok(()), |machine| write!(to, ", {machine}"))
    }
}

/// A think time in a message.
pub(super) fn shown_think(ns: u64) -> String {
    if ns == 0 { "0".into() } else { shown_ns(ns) }
}

/// What about a regime decides which lock to take, coarsely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Situation {
    /// Some sections read.
    pub(super) reads: bool,
    /// There are more threads than cores.
    pub(super) cores_are_shared: bool,
    /// The section is longer than four lines take.
    pub(super) long: bool,
    /// The lock is often held when a thread asks for it.
    pub(super) contended: bool,
}

/// What a hand-over and what a shared line count where regimes are sorted into situations: the size of a line's way between
/// cores, on whatever machine.
pub(super) const LINE_NS: u64 = 100;

/// So many lines are a short section.
pub(super) const SHORT_LINES: u64 = 4;

/// From this part of the time on that the other running threads want the lock for, it is contended.
pub(super) const CONTENDED: f64 = 0.25;

impl Regime {
    /// Nanoseconds of a section.
    pub(super) fn section_ns(load: &Load) -> u64 {
        match load.section {
            Section::Lines(lines) => lines as u64 * LINE_NS,
            Section::Nanoseconds(ns) => ns,
        }
    }

    pub(super) fn situation(&self) -> Situation {
        let load = &self.load;
        let section_ns = Self::section_ns(load);
        let held_ns = (LINE_NS + section_ns) as f64;
        let others = load.threads.min(self.cores).saturating_sub(1) as f64;
        Situation {
            reads: load.reads_percent > 0,
            cores_are_shared: load.threads > self.cores,
            long: section_ns > SHORT_LINES * LINE_NS,
            contended: others * held_ns / (held_ns + load.think_ns as f64) > CONTENDED,
        }
    }
}

/// What one lock came to in one regime.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    pub(super) lock: Contender,
    /// Acquisitions of all threads.
    pub(super) per_second: Option<Spread>,
    /// The slowest thread's acquisitions over the mean thread's.
    pub(super) slowest_share: Option<f64>,
    /// Jain's index of fairness: 1 where all threads get the same, 1/n where one of n gets everything.
    pub(super) jain: Option<f64>,
    pub(super) longest_wait_ns: Option<f64>,
    /// What was counted in its runs.
    pub(super) counts: Option<Counts>,
    /// Why there are no figures.
    pub(super) failure: Option<String>,
}

/// A regime with what every lock came to.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) regime: Regime,
    pub(super) locks: Vec<Figures>,
}

/// Whether a lock bounds how often a waiter is bypassed. Of other libraries' locks the catalogue does not say it.
pub(super) fn bounds_bypassing(lock: &str) -> bool {
    locks::catalogue::find(lock).is_some_and(locks::catalogue::Lock::bounds_bypassing)
}

/// The greatest median of these; of equals the first.
fn best_of<'a>(figures: impl Iterator<Item = &'a Figures>) -> Option<&'a Figures> {
    let median = |figures: &Figures| figures.per_second.map_or(0.0, |spread| spread.median);
    let best = figures.reduce(|best, next| if median(next) > median(best) { next } else { best });
    best.filter(|figures| median(figures) > 0.0)
}

/// The median of a lock over the best one's; 0 where it failed, and where there is no best.
fn ratio_to(best: Option<&Figures>, figures: &Figures) -> f64 {
    match (figures.per_second, best.and_then(|best| best.per_second)) {
        (Some(own), Some(best)) => own.median / best.median,
        _ => 0.0,
    }
}

impl Measured {
    /// The lock with the greatest median; of equals the first.
    pub(super) fn best(&self) -> Option<&Figures> {
        best_of(self.locks.iter())
    }

    /// The median of a lock over the best one's; 0 where it failed.
    pub(super) fn ratio(&self, figures: &Figures) -> f64 {
        ratio_to(self.best(), figures)
    }

    /// The same over the best of those that bound how often a waiter is bypassed, or the best of all where none of these has figures.
    fn ratio_to_bounded(&self, figures: &Figures) -> f64 {
        let bounded = self.locks.iter().filter(|figures| bounds_bypassing(figures.lock.name()));
        ratio_to(best_of(bounded).or_else(|| self.best()), figures)
    }

    /// Whether a lock's range reaches into that of the best.
    pub(super) fn is_tied(&self, figures: &Figures) -> bool {
        let best = self.best().and_then(|best| best.per_second);
        matches!((figures.per_second, best), (Some(own), Some(best)) if own.high >= best.low)
    }

    /// Whether a lock is shown not to be near the best: not even its best run comes near the worst run of that one.
    pub(super) fn is_shown_far(&self, figures: &Figures) -> bool {
        match (figures.per_second, self.best().and_then(|best| best.per_second)) {
            (Some(own), Some(best)) => own.high < NEAR * best.low,
            (own, _) => own.is_none(),
        }
    }

    /// Whether another lock's range reaches into that of the best.
    pub(super) fn best_is_tied(&self) -> bool {
        self.locks.iter().filter(|figures| self.is_tied(figures)).count() > 1
    }

    /// Whether an interrupt kept a lock from having figures here.
    pub(super) fn cut_short(&self) -> bool {
        self.locks.iter().any(|figures| figures.failure.as_deref() == Some(CUT_SHORT))
    }

    /// What the lock of this name came to.
    pub(super) fn of(&self, lock: &str) -> Option<&Figures> {
        self.locks.iter().find(|figures| figures.lock.name() == lock)
    }
}

/// A lock's ratios over several regimes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ratios {
    /// How many regimes.
    pub(super) regimes: usize,
    /// The share of them in which it is near the best.
    pub(super) near: f64,
    /// The share of them in which it is near the best of those that bound how often a waiter is bypassed.
    pub(super) near_bounded: f64,
    /// Its least ratio to these.
    pub(super) worst_bounded: f64,
    /// The share of them in which it is shown not to be near the best.
    pub(super) far: f64,
    pub(super) median: f64,
    /// 0 where one ratio is.
    pub(super) geometric_mean: f64,
    pub(super) worst: f64,
    /// The first regime with the worst ratio, and why it has no figures if it has none.
    pub(super) worst_where: String,
    /// The least share of a slowest thread.
    pub(super) least_slowest_share: Option<f64>,
    /// The longest wait of any thread.
    pub(super) longest_wait_ns: Option<f64>,
}

impl Ratios {
    /// The ratios of a lock in those of the regimes in which it took part; none if it did in none.
    pub(super) fn of(lock: &str, measured: &[&Measured]) -> Option<Self> {
        let of_lock = || measured.iter().filter_map(|one| Some((one, one.of(lock)?)));
        let ratios: Vec<f64> = of_lock().map(|(one, figures)| one.ratio(figures)).collect();
        let to_bounded: Vec<f64> = of_lock().map(|(one, figures)| one.ratio_to_bounded(figures)).collect();
        let regimes = ratios.len();
        let near =
            |ratios: &[f64]| ratios.iter().filter(|&&ratio| ratio >= NEAR).count() as f64 / regimes as f64;
        let (worst_one, worst_figures) =
            of_lock().min_by(|(a, in_a), (b, in_b)| a.ratio(in_a).total_cmp(&b.ratio(in_b)))?;
        let spread = compare::statistics::spread(&ratios)?;
        let why = worst_figures.failure.as_ref().map_or(String::new(), |failure| format!(" ({failure})"));
        Some(Self {
            regimes,
            far: of_lock().filter(|(one, figures)| one.is_shown_far(figures)).count() as f64 / regimes as f64,
            near: near(&ratios),
            near_bounded: near(&to_bounded),
            worst_bounded: to_bounded.iter().copied().reduce(f64::min)?,
            median: spread.median,
            geometric_mean: (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / regimes as f64).exp(),
            worst: spread.low,
            worst_where: format!("{}{why}", worst_one.regime),
            least_slowest_share: of_lock().filter_map(|(_, figures)| figures.slowest_share).reduce(f64::min),
            longest_wait_ns: of_lock().filter_map(|(_, figures)| figures.longest_wait_ns).reduce(f64::max),
        })
    }
}

/// The locks of these regimes, each once, in the order in which they are first seen.
pub(super) fn locks(measured: &[&Measured]) -> Vec<Contender> {
    let all = measured.iter().flat_map(|one| &one.locks).map(|figures| figures.lock);
    let mut once: Vec<Contender> = Vec::new();
    for lock in all {
        if once.iter().all(|other| other.name() != lock.name()) {
            once.push(lock);
        }
    }
    once
}

/// A row for each lock in each regime.
pub(super) fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new([
        Column::text("machine", "machine"),
        Column::number("cores", "cores"),
        Column::number("threads", "threads"),
        Column::text("section", "section"),
        Column::number("think_ns", "think ns"),
        Column::number("reads_percent", "reads %"),
        Column::text("lock", "lock"),
        Column::spread("acquisitions_per_s", "acquisitions/s"),
        Column::number("ratio", "ratio"),
        Column::text("standing", "standing"),
        Column::number("slowest_share", "slowest"),
        Column::number("jain", "Jain"),
        Column::number("longest_wait_ns", "longest wait ns"),
        Column::number("sleeps_per_acquisition", "sleeps"),
        Column::number("switches_per_acquisition", "switches"),
        Column::number("owner_change_share", "owner changes"),
        Column::number("lines_per_acquisition", "lines").only_if_any(),
        Column::text("cause", "cause"),
        Column::text("failure", "failure"),
    ]);
    for one in measured {
        let best = one.best().map(|best| best.lock.name());
        for figures in &one.locks {
            let is_best = best == Some(figures.lock.name());
            let standing = match (is_best, one.is_tied(figures)) {
                (true, _) if one.best_is_tied() => Some("best, tied"),
                (true, _) => Some("best"),
                (false, true) => Some("tied with the best"),
                (false, false) => None,
            };
            let load = &one.regime.load;
            table.row([
                Cell::from(one.regime.machine.clone()),
                one.regime.cores.into(),
                load.threads.into(),
                load.section.to_string().into(),
                load.think_ns.into(),
                load.reads_percent.into(),
                figures.lock.name().into(),
                figures.per_second.into(),
                one.ratio(figures).into(),
                standing.into(),
                figures.slowest_share.into(),
                figures.jain.into(),
                figures.longest_wait_ns.into(),
                figures.counts.map(|counts| counts.sleeps).into(),
                figures.counts.map(|counts| counts.switches).into(),
                figures.counts.and_then(|counts| counts.owner_changes).into(),
                figures.counts.and_then(|counts| counts.lines).into(),
                cause(one, figures).map(|cause| cause.to_string()).into(),
                figures.failure.clone().into(),
            ]);
        }
    }
    table
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::contenders::find;

    /// A lock with this median and a range of a tenth to both sides.
    pub(in super::super) fn figures(lock: &str, median: f64) -> Figures {
        Figures {
            lock: find(lock).expect("a lock"),
            per_second: Some(Spread { low: 0.9 * median, median, high: 1.1 * median }),
            slowest_share: Some(0.5),
            jain: Some(0.75),
            longest_wait_ns: Some(1_000.0),
            counts: None,
            failure: None,
        }
    }

    pub(in super::super) fn failed(lock: &str) -> Figures {
        Figures {
            per_second: None,
            slowest_share: None,
            jain: None,
            longest_wait_ns: None,
            failure: Some("over 1 s".into()),
            ..figures(lock, 1.0)
        }
    }

    /// Two threads on two cores with an empty section and no think time.
    pub(in super::super) fn measured(reads_percent: u32, locks: Vec<Figures>) -> Measured {
        let load =
            Load { section: Section::Lines(0), think_ns: 0, reads_percent, threads: 2, duration_ns: 1 };
        Measured { regime: Regime { machine: None, cores: 2, load }, locks }
    }

    fn ratios(lock: &str, all: &[Measured]) -> Ratios {
        Ratios::of(lock, &all.iter().collect::<Vec<_>>()).expect("it took part")
    }

    #[test]
    fn locks_that_may_starve_a_waiter_are_no_measure_of_those_that_may_not() {
        let all = [
            measured(0, vec![figures("tas", 100.0), figures("mcs", 50.0), figures("ticket", 40.0)]),
            measured(0, vec![figures("tas", 100.0), failed("mcs"), failed("ticket")]),
        ];
        let mcs = ratios("mcs", &all);
        assert_eq!((mcs.near, mcs.near_bounded, mcs.worst_bounded), (0.0, 0.5, 0.0));
        assert_eq!(ratios("ticket", &all[..1]).worst_bounded, 0.8);
        assert_eq!(
            ratios("tas", &all).worst_bounded,
            1.0,
            "twice as good as the best of the others, and the only one"
        );
    }

    #[test]
    fn shares_and_ratios_are_those_of_the_medians() {
        let mut slow = measured(0, vec![figures("ticket", 10.0), figures("mcs", 40.0)]);
        slow.regime.load.threads = 8;
        slow.locks[0].longest_wait_ns = Some(2_000.0);
        let all = [
            measured(0, vec![figures("ticket", 100.0), figures("mcs", 90.0)]),
            measured(0, vec![figures("ticket", 100.0), figures("mcs", 89.0)]),
            slow,
        ];
        let ticket = ratios("ticket", &all);
        assert_eq!((ticket.regimes, ticket.median, ticket.worst), (3, 1.0, 0.25));
        assert!((ticket.near - 2.0 / 3.0).abs() < 1e-12, "{ticket:?}");
        assert_eq!(ticket.worst_where, "8 threads on 2 cores, section empty, think 0");
        assert_eq!((ticket.least_slowest_share, ticket.longest_wait_ns), (Some(0.5), Some(2_000.0)));
        let mcs = ratios("mcs", &all);
        assert!((mcs.near - 2.0 / 3.0).abs() < 1e-12, "0.9 is near, 0.89 is not: {mcs:?}");
        assert_eq!((mcs.near_bounded, ticket.near_bounded), (mcs.near, ticket.near), "both do");
        assert!((mcs.geometric_mean - (0.9_f64 * 0.89).cbrt()).abs() < 1e-12, "{mcs:?}");
        assert_eq!(Ratios::of("clh", &all.iter().collect::<Vec<_>>()), None);
    }

    #[test]
    fn a_lock_that_failed_has_the_ratio_0_and_says_why() {
        let all = [
            measured(0, vec![figures("ticket", 100.0), figures("mcs", 100.0)]),
            measured(50, vec![failed("ticket"), figures("mcs", 90.0)]),
        ];
        let ticket = ratios("ticket", &all);
        assert_eq!((ticket.worst, ticket.geometric_mean, ticket.near), (0.0, 0.0, 0.5));
        assert!(ticket.worst_where.ends_with("50 % reads (over 1 s)"), "{}", ticket.worst_where);
        assert_eq!(all[1].best().map(|best| best.lock.name()), Some("mcs"));
        assert!(measured(0, vec![failed("mcs")]).best().is_none());
    }

    #[test]
    fn ranges_that_overlap_are_ties_and_those_of_others_are_not() {
        let near = measured(0, vec![figures("ticket", 100.0), figures("mcs", 95.0), figures("clh", 50.0)]);
        assert!(near.best_is_tied() && near.is_tied(&near.locks[1]) && !near.is_tied(&near.locks[2]));
        let far = measured(0, vec![figures("ticket", 100.0), figures("mcs", 80.0)]);
        assert!(!far.best_is_tied() && far.is_tied(&far.locks[0]));
        let json = table(&[near, far]).json();
        let standing = |row: usize| json[row]["standing"].as_str();
        assert_eq!(
            [0, 1, 2, 3, 4].map(standing),
            [Some("best, tied"), Some("tied with the best"), None, Some("best"), None]
        );
    }

    #[test]
    fn far_from_the_best_is_what_no_run_contradicts() {
        // Ranges reach a tenth to both sides: 90 to 110, 63 to 77, 67.5 to 82.5.
        let one = measured(
            0,
            vec![figures("ticket", 100.0), figures("mcs", 70.0), figures("clh", 75.0), failed("k42")],
        );
        let far: Vec<_> = one.locks.iter().map(|figures| one.is_shown_far(figures)).collect();
        assert_eq!(far, [false, true, false, true]);
        assert_eq!(ratios("mcs", &[one, measured(0, vec![figures("mcs", 1.0)])]).far, 0.5);
    }

    #[test]
    fn situations_are_told_apart_by_threads_section_think_time_and_reads() {
        let situation = |threads, cores, section, think_ns, reads_percent| {
            let load = Load { section, think_ns, reads_percent, threads, duration_ns: 1 };
            Regime { machine: None, cores, load }.situation()
        };
        let short = situation(2, 2, Section::Lines(4), 0, 0);
        assert_eq!(short, Situation { reads: false, cores_are_shared: false, long: false, contended: true });
        assert!(situation(3, 2, Section::Lines(0), 0, 0).cores_are_shared);
        assert!(situation(2, 2, Section::Nanoseconds(1_000), 0, 0).long);
        assert!(situation(2, 2, Section::Lines(0), 0, 1).reads);
        assert!(!situation(1, 2, Section::Nanoseconds(10_000), 0, 0).contended, "nobody else is there");
        assert!(!situation(64, 2, Section::Lines(0), 10_000, 0).contended, "two run at a time");
        assert!(situation(64, 64, Section::Lines(0), 10_000, 0).contended);
    }

    #[test]
    fn an_interrupt_leaves_out_the_regime() {
        let mut cut = measured(0, vec![figures("ticket", 1.0), failed("mcs")]);
        assert!(!cut.cut_short());
        cut.locks[1].failure = Some(CUT_SHORT.into());
        assert!(cut.cut_short());
    }
}
