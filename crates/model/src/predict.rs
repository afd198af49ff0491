//! From a profile taken on few cores to a curve with a band, and a verdict.
//!
//! A profile gives the critical section (apart for "the last holder was this core" and "another"), the think time,
//! and how sure it is of both. The machine gives what a line transfer, a waiter and a wake-up cost. What neither
//! knows is a range, and the curve is computed at both ends of all ranges: throughput falls with every cost and every
//! time at the lock, so the two ends hold all that lies between. If the ends disagree on whether throughput
//! collapses, the answer is that this profile cannot tell.

use crate::handover::{Family, Variant};
use crate::network::{Network, Station};
use crate::parameters::Parameters;
use crate::{LockModel, ModelError};
use curve::{Curve, Point};
use serde::Serialize;

/// What becomes of throughput as cores grow.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Verdict {
    /// It still grows at the last number of cores asked for.
    Grows,
    /// It levels off, and does not fall under 90 % of its peak within the cores asked for.
    LevelsOff,
    /// It falls under 90 % of its peak.
    Collapses {
        /// The fewest cores at which it may.
        earliest: u32,
        /// The most.
        latest: u32,
    },
    /// This profile and this machine's costs do not decide.
    CannotTell {
        /// Why, and what would.
        reason: String,
    },
}

/// Throughput is called growing if the second half of the cores adds at least this share.
const GROWTH: f64 = 1.1;

/// What is predicted for one lock and one family.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The family of lock.
    pub family: Family,
    /// The form of the model.
    pub variant: Variant,
    /// Throughput relative to one core, with its band.
    pub curve: Curve,
    /// Cores of the greatest throughput, at the likely end.
    pub peak_cores: u32,
    /// That throughput, relative to one core.
    pub peak_speedup: f64,
    /// The first number of cores past the peak with less than 90 % of it, at the likely end.
    pub collapse_cores: Option<u32>,
    /// What becomes of throughput.
    pub verdict: Verdict,
}

/// All cores to 256, then steps of about 2 %: fine enough for a peak, few enough for 4,096.
pub fn sweep(first: u32, last: u32) -> Vec<u32> {
    let mut cores = Vec::new();
    let mut next = first;
    while next < last {
        cores.push(next);
        next += if next < 256 { 1 } else { next / 50 };
    }
    cores.push(last);
    cores
}

impl Prediction {
    /// What curves at the optimistic end of all ranges, at the likely values and at the pessimistic end say together.
    ///
    /// # Panics
    ///
    /// If the curves have no points, or are not over the same cores.
    pub fn of_ends(parameters: &Parameters, family: Family, variant: Variant, ends: &[Curve; 3]) -> Self {
        let likely = &ends[1];
        let banded = likely.points().iter().enumerate().map(|(i, point)| {
            let values = [0, 1, 2].map(|end: usize| ends[end].points()[i].value);
            Point {
                cores: point.cores,
                value: point.value,
                low: values.into_iter().fold(f64::INFINITY, f64::min),
                high: values.into_iter().fold(0.0, f64::max),
            }
        });
        let curve = likely.clone().with_points(banded).expect("a band holds its value");
        let peak = likely.peak().expect("there are points");
        Self {
            family,
            variant,
            peak_cores: peak.cores,
            peak_speedup: peak.value,
            collapse_cores: likely.collapse_cores(),
            verdict: verdict(parameters, family, ends),
            curve,
        }
    }
}

impl Verdict {
    /// The verdict in a few words; reasons are given apart.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Grows => "grows".into(),
            Self::LevelsOff => "levels off".into(),
            Self::Collapses { earliest, latest } if earliest == latest => format!("collapses at {earliest}"),
            Self::Collapses { earliest, latest } => format!("collapses at {earliest} to {latest}"),
            Self::CannotTell { .. } => "cannot be told".into(),
        }
    }
}

fn verdict(parameters: &Parameters, family: Family, ends: &[Curve; 3]) -> Verdict {
    if let Some(reason) = &parameters.useless {
        return Verdict::CannotTell { reason: reason.clone() };
    }
    let unknown = if family.grows_with_waiters() {
        "what a waiter costs there"
    } else if family == Family::BackOffThenSleep || family == Family::Blocking && parameters.wake_ns.is_none()
    {
        "what a wake-up costs there"
    } else {
        "how much the critical section grows there"
    };
    judge(ends, unknown)
}

/// What becomes of throughput, by its curves at the optimistic end of all ranges, at the likely values and at the pessimistic end. Where
/// the three disagree on whether it collapses that cannot be told: `unknown` is what is known too roughly. The likely values may lie
/// outside of the ends: waiters that poll more seldom leave the lock to the core that has its data ([`Handover::BackOffThenSleep`]).
///
/// [`Handover::BackOffThenSleep`]: crate::Handover::BackOffThenSleep
pub fn judge([optimistic, likely, pessimistic]: &[Curve; 3], unknown: &str) -> Verdict {
    let ends = (pessimistic.collapse_cores(), optimistic.collapse_cores());
    let ends_agree = ends.0.is_some() == ends.1.is_some();
    if ends_agree && ends.0.is_some() != likely.collapse_cores().is_some() {
        let (where_it_does, where_not) = match ends.0 {
            Some(_) => ("at both ends of the ranges", "with the likely values"),
            None => ("with the likely values", "at either end of their ranges"),
        };
        return Verdict::CannotTell {
            reason: format!(
                "it collapses {where_it_does} and not {where_not}: {unknown} is known too roughly; measure it on the \
                 target (contend calibrate)"
            ),
        };
    }
    match ends {
        (Some(early), Some(late)) => {
            let likely = likely.collapse_cores().unwrap_or(early);
            Verdict::Collapses { earliest: early.min(late).min(likely), latest: early.max(late).max(likely) }
        }
        (Some(cores), None) | (None, Some(cores)) => Verdict::CannotTell {
            reason: format!(
                "it collapses at {cores} cores at one end of the ranges and not at all at the other: \
                 {unknown} is known too roughly; measure it on the target (contend calibrate)"
            ),
        },
        (None, None) => {
            let points = likely.points();
            let Some(last) = points.last() else { return Verdict::LevelsOff };
            let half = points.iter().rev().find(|point| point.cores <= last.cores / 2);
            match half {
                Some(half) if last.value < GROWTH * half.value => Verdict::LevelsOff,
                None => Verdict::CannotTell {
                    reason:
                        "there is no smaller number of cores to compare with: ask for a range, such as 1..48"
                            .into(),
                },
                Some(_) => Verdict::Grows,
            }
        }
    }
}

/// Operations a nanosecond where a lock is split into `copies` locks, of which each operation takes one, each as likely.
///
/// # Errors
///
/// Cores beyond what the model takes; times that are not finite or negative.
pub fn split(whole: &LockModel, cores: u32, copies: u32) -> Result<f64, ModelError> {
    let copies_f = f64::from(copies);
    // To one copy a core comes back after its visits to the others.
    let away = copies_f * (whole.think + whole.service.same) - whole.service.same;
    let one = LockModel { think: away, ..*whole };
    let station = Station {
        visits: 1.0 / copies_f,
        service: one.at(cores)?.service,
        handover: one.handover,
        readers: one.readers,
        away,
    };
    let locks = vec![station; copies as usize];
    Network { think: whole.think, locks, variant: whole.variant }.throughput(cores)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::tests::observed;
    use crate::{End, Observed};
    use curve::{Provenance, Unit};
    use topology::machine_file::Costs;
    use topology::{MachineFile, Range};

    fn costs(waiter: &str) -> Costs {
        let text = format!(
            r#"
            name = "flat"
            description = "48 cores alike"
            [topology]
            sockets = 1
            cores_per_die = 48
            source = "assumed"
            [transfer]
            same_socket = {{ value = 50, unit = "ns", source = "assumed" }}
            [handover]
            waiter = {{ {waiter}, unit = "ns", source = "assumed" }}
            wake = {{ value = 5000, low = 2000, high = 50000, unit = "ns", source = "assumed" }}
            back_off_delay = {{ value = 1000, unit = "ns", source = "assumed" }}
            "#
        );
        MachineFile::parse(&text).unwrap().costs()
    }

    fn predicted(lock: &Observed, family: Family, waiter: &str) -> Prediction {
        let costs = costs(waiter);
        let parameters = Parameters::observed(lock, costs.transfer_ns(2)).unwrap();
        on_cores(&parameters, family, &costs, &sweep(1, 256))
    }

    fn on_cores(parameters: &Parameters, family: Family, costs: &Costs, cores: &[u32]) -> Prediction {
        let variant = Variant::default();
        let curve = |end| {
            let speedup =
                |&on: &u32| parameters.at_end(family, costs, on, variant, end).at(on).unwrap().speedup;
            let points = cores.iter().map(|on| Point::exact(*on, speedup(on)));
            Curve::new(family.name(), Unit::Speedup, Provenance::Predicted).with_points(points).unwrap()
        };
        Prediction::of_ends(parameters, family, variant, &End::ALL.map(curve))
    }

    #[test]
    fn a_costly_waiter_collapses_and_a_queue_does_not() {
        let lock = observed(50.0, 2000.0);
        let ticket = predicted(&lock, Family::Ticket, "value = 80");
        let Verdict::Collapses { earliest, latest } = ticket.verdict else { panic!("{:?}", ticket.verdict) };
        let collapse = ticket.collapse_cores.unwrap();
        assert!(earliest <= collapse && collapse <= latest && latest < 64, "{ticket:?}");
        assert_eq!(predicted(&lock, Family::Queue, "value = 80").verdict, Verdict::LevelsOff);
    }

    #[test]
    fn halving_the_waiter_cost_moves_the_collapse() {
        let lock = observed(50.0, 2000.0);
        let at = |waiter| predicted(&lock, Family::Ticket, waiter).collapse_cores.unwrap();
        assert!(at("value = 40") > at("value = 80"));
    }

    #[test]
    fn a_wide_waiter_cost_widens_the_band_and_may_leave_the_verdict_open() {
        let lock = observed(5.0, 20_000.0);
        let narrow = predicted(&lock, Family::Ticket, "value = 10");
        let wide = predicted(&lock, Family::Ticket, "value = 10, low = 0.001, high = 200");
        let width = |p: &Prediction, cores| p.curve.at(cores).map(|p| p.high - p.low).unwrap();
        assert!(width(&wide, 256) > 2.0 * width(&narrow, 256));
        let Verdict::CannotTell { reason } = &wide.verdict else { panic!("{:?}", wide.verdict) };
        assert!(reason.contains("calibrate"), "{reason}");
    }

    #[test]
    fn what_the_likely_values_do_is_no_kinder_than_their_curve() {
        let curve = |values: [f64; 4]| {
            let points =
                [1, 2, 4, 8].into_iter().zip(values).map(|(cores, value)| Point::exact(cores, value));
            Curve::new("", Unit::Speedup, Provenance::Predicted).with_points(points).unwrap()
        };
        let (grows, falls_at_8) = (curve([1.0, 2.0, 4.0, 8.0]), curve([1.0, 2.0, 4.0, 1.0]));
        let falls_at_4 = curve([1.0, 2.0, 1.0, 0.5]);
        let judged = |ends: [&Curve; 3]| judge(&ends.map(Curve::clone), "what a waiter costs there");
        let Verdict::CannotTell { reason } = judged([&grows, &falls_at_8, &grows]) else {
            panic!("the likely values collapse");
        };
        assert!(reason.starts_with("it collapses with the likely values and not at either end"), "{reason}");
        let open = judged([&falls_at_8, &grows, &falls_at_4]);
        assert!(matches!(open, Verdict::CannotTell { .. }), "{open:?}");
        assert_eq!(
            judged([&falls_at_8, &falls_at_4, &falls_at_8]),
            Verdict::Collapses { earliest: 4, latest: 8 }
        );
        assert_eq!(judged([&grows, &grows, &grows]), Verdict::Grows);
    }

    #[test]
    fn a_lock_that_is_hardly_used_grows() {
        assert_eq!(predicted(&observed(1.0, 1e9), Family::Ticket, "value = 50").verdict, Verdict::Grows);
    }

    #[test]
    fn threads_that_took_turns_tell_nothing() {
        let lock = Observed { ran_together: false, ..observed(50.0, 2000.0) };
        assert!(matches!(predicted(&lock, Family::Queue, "value = 80").verdict, Verdict::CannotTell { .. }));
    }

    #[test]
    fn a_section_never_seen_on_a_second_core_is_a_range_and_said() {
        let lock = Observed { hold_other: None, threads: 1, ..observed(50.0, 2000.0) };
        let parameters = Parameters::observed(&lock, Range::exact(50.0)).unwrap();
        assert_eq!(parameters.growth_ns, Range { low: 0.0, likely: 100.0, high: 400.0 });
        assert!(parameters.doubts[0].contains("another core"));
        let seen = predicted(&observed(50.0, 2000.0), Family::Queue, "value = 80").curve.at(48).unwrap();
        let unseen = predicted(&lock, Family::Queue, "value = 80").curve.at(48).unwrap();
        assert!(unseen.high - unseen.low > seen.high - seen.low);
    }

    #[test]
    fn a_farther_machine_makes_the_section_grow_more() {
        let costs = costs("value = 10");
        let lock = observed(50.0, 2000.0);
        let end = |profiled_on| {
            let parameters = Parameters::observed(&lock, Range::exact(profiled_on)).unwrap();
            let prediction = on_cores(&parameters, Family::Queue, &costs, &[1, 48]);
            prediction.curve.at(48).unwrap().value
        };
        assert!(end(25.0) < end(50.0), "the target's lines take 50 ns: twice or once as long as profiled");
    }

    #[test]
    fn a_sweep_holds_both_ends_and_ascends() {
        for (first, last) in [(1, 1), (1, 48), (3, 4096), (256, 257)] {
            let cores = sweep(first, last);
            assert_eq!((cores[0], cores[cores.len() - 1]), (first, last));
            assert!(cores.is_sorted_by(|a, b| a < b));
        }
        assert!(sweep(1, 4096).len() < 500);
    }
}
