//! From a profile taken on few cores to a curve with a band, and a verdict.
//!
//! A profile gives the critical section (apart for "the last holder was this core" and "another"), the time outside,
//! and how sure it is of both. The machine gives what a line transfer, a waiter and a wake-up cost. What neither
//! knows is a range, and the curve is computed at both ends of all ranges: throughput falls with every cost and every
//! time at the lock, so the two ends hold all that lies between. If the ends disagree on whether throughput
//! collapses, the answer is that this profile cannot tell.

use crate::handover::{Family, Handover, Reading};
use crate::lock::{LockModel, Readers, Service};
use crate::machine_file::Costs;
use crate::{Basins, ModelError};
use curve::{Curve, Point, Provenance, Unit};
use serde::{Deserialize, Serialize};

/// A number that is known to lie between two others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The least it may be.
    pub low: f64,
    /// What it most likely is.
    pub likely: f64,
    /// The most it may be.
    pub high: f64,
}

impl Range {
    /// A number that is known.
    pub fn exact(value: f64) -> Self {
        Self { low: value, likely: value, high: value }
    }

    /// Each end times `factor`, which is not negative.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { low: self.low * factor, likely: self.likely * factor, high: self.high * factor }
    }

    /// The product of two ranges of positive numbers.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self { low: self.low * other.low, likely: self.likely * other.likely, high: self.high * other.high }
    }

    /// The sum of two ranges.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { low: self.low + other.low, likely: self.likely + other.likely, high: self.high + other.high }
    }

    /// The range with its ends moved apart by a factor of at least 1.
    #[must_use]
    pub fn widened(self, factor: f64) -> Self {
        Self { low: self.low / factor, likely: self.likely, high: self.high * factor }
    }

    fn at(self, end: End) -> f64 {
        match end {
            End::Cheap => self.low,
            End::Likely => self.likely,
            End::Dear => self.high,
        }
    }
}

/// Which end of all ranges a curve is computed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Cheap,
    Likely,
    Dear,
}

/// A mean and the number of samples behind it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mean {
    /// The mean, ns.
    pub ns: f64,
    /// Samples; a mean of none is no mean.
    pub samples: u64,
}

/// What a profile says of one lock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Observed {
    /// The lock's name in the profile.
    pub name: String,
    /// The family of the algorithm that the program ran on.
    pub family: Family,
    /// Threads that took it.
    pub threads: u32,
    /// All acquisitions.
    pub acquisitions: u64,
    /// Those that read, for a reader-writer lock.
    pub reads: Option<u64>,
    /// Hold time after a holder on the same core.
    pub hold_same: Option<Mean>,
    /// Hold time after a holder on another core.
    pub hold_other: Option<Mean>,
    /// Time from a release until the same thread next *has* the lock, waiting included.
    pub think: Option<Mean>,
    /// Mean wait of an acquisition, those that did not wait included, ns.
    pub wait_ns: f64,
    /// Time from a release to the start of a holder that had waited, ns. Used for blocking locks, whose wake-up it is.
    pub handover_ns: Option<Range>,
    /// Whether the threads really ran together: false when the processor time over elapsed time says that they took
    /// turns, and all times hold waiting for a core.
    pub ran_together: bool,
}

/// Fewer samples than this are no basis for a mean.
const LEAST_SAMPLES: u64 = 30;
/// No clock and no recorder is better than this share.
const LEAST_SPREAD: f64 = 0.05;
/// Lines that a critical section may touch, where no profile has seen it on a second core: from none to this many.
const UNSEEN_LINES: Range = Range { low: 0.0, likely: 1.0, high: 8.0 };

/// The time outside a lock is at least this share of the span from a release to the next acquisition, however
/// nearly all of it was waiting: the difference of two means is no surer.
const LEAST_OUTSIDE: f64 = 0.01;

/// What a prediction is made from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameters {
    /// a: mean time outside the lock, waiting not included, ns.
    pub outside_ns: Range,
    /// The critical section after a holder on the same core, ns.
    pub same_ns: f64,
    /// What it grows by after a holder on another core where a line costs as much as on the profiled machine, ns.
    pub growth_ns: Range,
    /// Share of reads, for a reader-writer lock.
    pub read_share: Option<f64>,
    /// Measured time to wake a waiter, ns.
    pub wake_ns: Option<Range>,
    /// How far the times at the lock may be off: a factor of at least 1.
    pub spread: f64,
    /// What makes these numbers doubtful, in words.
    pub doubts: Vec<String>,
    /// What makes them useless, in words: a prediction from them cannot tell.
    pub useless: Option<String>,
}

impl Parameters {
    /// Takes the parameters from what a profile says; `nearest_transfer_ns` is a line transfer between neighbouring
    /// cores.
    ///
    /// # Errors
    ///
    /// Why there are none to take, in words for the user: the profile lacks a time that the model needs.
    pub fn observed(lock: &Observed, nearest_transfer_ns: Range) -> Result<Self, String> {
        let enough = |mean: &Option<Mean>| mean.filter(|m| m.samples >= LEAST_SAMPLES && m.ns > 0.0);
        let mut doubts = Vec::new();
        let (same_ns, growth_ns) = match (enough(&lock.hold_same), enough(&lock.hold_other)) {
            (Some(same), Some(other)) => (same.ns, Range::exact((other.ns - same.ns).max(0.0))),
            (Some(same), None) => {
                let growth = Range {
                    low: 0.0,
                    likely: UNSEEN_LINES.likely * nearest_transfer_ns.likely,
                    high: UNSEEN_LINES.high * nearest_transfer_ns.high,
                };
                doubts.push(format!(
                    "no acquisition followed a holder on another core: the critical section is assumed to grow by {:.0} to {:.0} ns there",
                    growth.low, growth.high
                ));
                (same.ns, growth)
            }
            (None, Some(other)) => {
                doubts.push(
                    "no acquisition followed a holder on the same core: the critical section of a core alone is taken to be as long as that after another core".to_owned(),
                );
                (other.ns, Range::exact(0.0))
            }
            (None, None) => {
                return Err(format!(
                    "fewer than {LEAST_SAMPLES} timed critical sections: profile longer, or at a higher sampling rate"
                ));
            }
        };
        let Some(think) = enough(&lock.think) else {
            return Err(format!(
                "fewer than {LEAST_SAMPLES} timed spans between a thread's acquisitions: the lock is hardly used; profile longer if it matters"
            ));
        };
        // Times of this kind scatter about as much as their mean: two standard errors of it.
        let scarcest = [lock.hold_same, lock.hold_other, lock.think]
            .iter()
            .filter_map(enough)
            .map(|mean| mean.samples)
            .min()
            .unwrap_or(LEAST_SAMPLES);
        let spread = 1.0 + (2.0 / (scarcest as f64).sqrt()).max(LEAST_SPREAD);
        let useless = (!lock.ran_together).then(|| {
            "the threads did not run together, so its times hold waiting for a core: profile with no more threads than cores, on an idle machine"
                .to_owned()
        });
        let outside = |think_ns: f64| (think_ns - lock.wait_ns).max(LEAST_OUTSIDE * think_ns);
        let outside_ns = Range {
            low: outside(think.ns / spread),
            likely: outside(think.ns),
            high: outside(think.ns * spread),
        };
        if outside_ns.high > 2.0 * outside_ns.low {
            doubts.push(format!(
                "nearly all of the {:.0} ns between a thread's acquisitions was waiting: the time outside the lock is only known to be {:.0} to {:.0} ns; profile with fewer threads",
                think.ns, outside_ns.low, outside_ns.high
            ));
        }
        Ok(Self {
            outside_ns,
            same_ns,
            growth_ns,
            read_share: lock.reads.map(|reads| reads as f64 / lock.acquisitions.max(1) as f64),
            wake_ns: lock.handover_ns.filter(|_| lock.family == Family::Blocking),
            spread,
            doubts,
            useless,
        })
    }

    /// The lock at one number of cores of a machine.
    fn model(&self, family: Family, costs: &Costs, cores: u32, reading: Reading, end: End) -> LockModel {
        let times_off = match end {
            End::Cheap => 1.0 / self.spread,
            End::Likely => 1.0,
            End::Dear => self.spread,
        };
        // The more time outside, the higher the throughput: the ends are the other way round.
        let outside = match end {
            End::Cheap => self.outside_ns.high,
            End::Likely => self.outside_ns.likely,
            End::Dear => self.outside_ns.low,
        };
        let transfer = costs.transfer_ns(cores).at(end);
        let distance = costs.transfer_ns(cores).at(end) / costs.transfer_ns(2).at(end);
        let same = self.same_ns * times_off;
        // An acquisition after another core fetches the lock's own line beside those of the section.
        let other = same + self.growth_ns.at(end) * times_off * distance + transfer;
        let waiter_cost = costs.waiter_ns(cores).at(end);
        let handover = match family {
            Family::Ticket => Handover::Ticket { waiter_cost },
            Family::TestAndSet => Handover::TestAndSet { waiter_cost },
            Family::BackOff => Handover::BackOff { waiter_cost, delay: costs.back_off_delay_ns().at(end) },
            Family::Queue => Handover::Queue { transfer },
            Family::Blocking => {
                let wake = self.wake_ns.unwrap_or_else(|| costs.wake_ns()).at(end);
                Handover::Blocking { wake, barging: true }
            }
        };
        LockModel {
            outside,
            service: Service { same, other },
            handover,
            readers: self.read_share.map(|share| Readers { share, word: 2.0 * transfer }),
            reading,
        }
    }
}

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
    pub reading: Reading,
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
    /// Where the lock lingers on the way: set when there is a number of cores at which it works for a while and then
    /// stays down.
    pub fall: Option<Fall>,
}

/// A lock that works for a while, falls, and stays down: why short runs look better than long ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fall {
    /// The number of cores: the one at which the two times are closest.
    pub cores: u32,
    /// Mean time from working to collapsed, ns.
    pub to_collapse_ns: f64,
    /// Mean time from collapsed to working again, ns.
    pub to_recover_ns: f64,
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

/// Predicts throughput at each of `cores`, ascending, for one lock family on a machine.
///
/// # Errors
///
/// Cores beyond what the model takes; parameters that are not finite or negative.
///
/// # Panics
///
/// If `cores` is empty or does not ascend.
pub fn predict(
    parameters: &Parameters,
    family: Family,
    costs: &Costs,
    cores: &[u32],
    reading: Reading,
) -> Result<Prediction, ModelError> {
    assert!(!cores.is_empty() && cores.is_sorted_by(|a, b| a < b), "cores ascend, and there are some");
    let end_curve = |end| {
        let mut points = Vec::with_capacity(cores.len());
        for &cores in cores {
            let lock = parameters.model(family, costs, cores, reading, end);
            points.push(Point::exact(cores, lock.at(cores)?.speedup));
        }
        let curve = Curve::new(family.name(), Unit::Speedup, Provenance::Predicted).lock(family.name());
        Ok(curve.with_points(points).expect("speed-ups are finite, and cores ascend"))
    };
    let ends: [Curve; 3] = [end_curve(End::Cheap)?, end_curve(End::Likely)?, end_curve(End::Dear)?];
    let likely = &ends[1];
    let banded = (0..cores.len()).map(|i| {
        let values = [0, 1, 2].map(|end: usize| ends[end].points()[i].value);
        Point {
            cores: cores[i],
            value: values[1],
            low: values.into_iter().fold(f64::INFINITY, f64::min),
            high: values.into_iter().fold(0.0, f64::max),
        }
    });
    let curve = likely.clone().with_points(banded).expect("a band holds its value");
    let peak = likely.peak().expect("there are points");
    Ok(Prediction {
        family,
        reading,
        peak_cores: peak.cores,
        peak_speedup: peak.value,
        collapse_cores: likely.collapse_cores(),
        verdict: verdict(parameters, family, &ends),
        fall: fall(parameters, family, costs, cores, reading)?,
        curve,
    })
}

fn verdict(parameters: &Parameters, family: Family, [cheap, likely, dear]: &[Curve; 3]) -> Verdict {
    if let Some(reason) = &parameters.useless {
        return Verdict::CannotTell { reason: reason.clone() };
    }
    match (dear.collapse_cores(), cheap.collapse_cores()) {
        (Some(early), Some(late)) => {
            Verdict::Collapses { earliest: early.min(late), latest: early.max(late) }
        }
        (Some(cores), None) | (None, Some(cores)) => {
            let unknown = if family.grows_with_waiters() {
                "what a waiter costs there"
            } else if family == Family::Blocking && parameters.wake_ns.is_none() {
                "what a wake-up costs there"
            } else {
                "how much the critical section grows there"
            };
            Verdict::CannotTell {
                reason: format!(
                    "it collapses at {cores} cores at one end of the ranges and not at all at the other: \
                     {unknown} is known too roughly; measure it on the target (contend calibrate)"
                ),
            }
        }
        (None, None) => {
            let points = likely.points();
            let last = points[points.len() - 1];
            let half = points.iter().rev().find(|point| point.cores <= last.cores / 2);
            match half {
                Some(half) if last.value < GROWTH * half.value => Verdict::LevelsOff,
                _ => Verdict::Grows,
            }
        }
    }
}

/// The number of cores at which a lock is nearest to spending half of its time collapsed, if it is ever in between.
fn fall(
    parameters: &Parameters,
    family: Family,
    costs: &Costs,
    cores: &[u32],
    reading: Reading,
) -> Result<Option<Fall>, ModelError> {
    let mut nearest: Option<(f64, Fall)> = None;
    if !family.grows_with_waiters() {
        return Ok(None);
    }
    for &cores in cores {
        let chain = parameters.model(family, costs, cores, reading, End::Likely).chain(cores)?;
        let Some(Basins { working, collapsed, .. }) = chain.basins() else { continue };
        let ln_down = chain.ln_first_passage(working, collapsed);
        let ln_up = chain.ln_first_passage(collapsed, working);
        let distance = (ln_down - ln_up).abs();
        if nearest.is_none_or(|(best, _)| distance < best) {
            let fall = Fall { cores, to_collapse_ns: ln_down.exp(), to_recover_ns: ln_up.exp() };
            nearest = Some((distance, fall));
        }
    }
    Ok(nearest.map(|(_, fall)| fall).filter(|f| f.to_collapse_ns.is_finite() && f.to_recover_ns.is_finite()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MachineFile;

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

    fn observed(hold_ns: f64, think_ns: f64) -> Observed {
        let mean = |ns| Some(Mean { ns, samples: 1_000_000 });
        Observed {
            name: "lock".into(),
            family: Family::Ticket,
            threads: 2,
            acquisitions: 1_000_000,
            reads: None,
            hold_same: mean(hold_ns),
            hold_other: mean(hold_ns * 1.5),
            think: mean(think_ns),
            wait_ns: 0.0,
            handover_ns: None,
            ran_together: true,
        }
    }

    fn predicted(lock: &Observed, family: Family, waiter: &str) -> Prediction {
        let costs = costs(waiter);
        let parameters = Parameters::observed(lock, costs.transfer_ns(2)).unwrap();
        predict(&parameters, family, &costs, &sweep(1, 256), Reading::default()).unwrap()
    }

    #[test]
    fn a_dear_waiter_collapses_and_a_queue_does_not() {
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
        assert_eq!(parameters.growth_ns, Range { low: 0.0, likely: 50.0, high: 400.0 });
        assert!(parameters.doubts[0].contains("another core"));
        let seen = predicted(&observed(50.0, 2000.0), Family::Queue, "value = 80").curve.at(48).unwrap();
        let unseen = predicted(&lock, Family::Queue, "value = 80").curve.at(48).unwrap();
        assert!(unseen.high - unseen.low > seen.high - seen.low);
    }

    #[test]
    fn waiting_is_not_time_outside() {
        let lock = Observed { wait_ns: 1500.0, ..observed(50.0, 2000.0) };
        let parameters = Parameters::observed(&lock, Range::exact(50.0)).unwrap();
        assert!((parameters.outside_ns.likely - 500.0).abs() < 1e-9);
        assert!(parameters.doubts.is_empty());
        let lock = Observed { wait_ns: 1990.0, ..observed(50.0, 2000.0) };
        let parameters = Parameters::observed(&lock, Range::exact(50.0)).unwrap();
        assert!((parameters.outside_ns.likely - 20.0).abs() < 1e-9 && parameters.outside_ns.low > 0.0);
        assert!(parameters.doubts[0].contains("fewer threads"));
    }

    #[test]
    fn too_few_samples_are_refused_in_words() {
        let few = Some(Mean { ns: 10.0, samples: 3 });
        let lock = Observed { hold_same: few, hold_other: few, ..observed(1.0, 1.0) };
        assert!(Parameters::observed(&lock, Range::exact(50.0)).unwrap_err().contains("critical sections"));
        let lock = Observed { think: None, ..observed(1.0, 1.0) };
        assert!(Parameters::observed(&lock, Range::exact(50.0)).unwrap_err().contains("between"));
    }

    #[test]
    fn near_its_collapse_a_ticket_lock_lingers() {
        let prediction = predicted(&observed(170.0, 16_600.0), Family::Ticket, "value = 40");
        let fall = prediction.fall.expect("two basins");
        assert!(fall.to_collapse_ns > 16_600.0 && fall.to_recover_ns > 16_600.0, "{fall:?}");
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
