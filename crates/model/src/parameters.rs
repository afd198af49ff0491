//! What a prediction is made from: a lock as a profile shows it, and the model's parameters taken from that.

use crate::handover::{Contenders, Family, Handover, Variant};
use crate::lock::{LockModel, Readers, Service};
use families::BACK_OFF_CYCLES;
use serde::{Deserialize, Serialize};
use topology::Range;
use topology::machine_file::Costs;

/// Which end of all ranges a curve is computed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Everything costs the least that it may.
    Optimistic,
    /// Everything costs what it most likely does.
    Likely,
    /// Everything costs the most that it may.
    Pessimistic,
}

impl End {
    /// All of them, the optimistic one first.
    pub const ALL: [Self; 3] = [Self::Optimistic, Self::Likely, Self::Pessimistic];

    /// The number of a range at this end.
    #[must_use]
    pub fn of(self, range: Range) -> f64 {
        match self {
            Self::Optimistic => range.low,
            Self::Likely => range.likely,
            Self::Pessimistic => range.high,
        }
    }

    /// The end for what throughput grows with.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Optimistic => Self::Pessimistic,
            Self::Likely => Self::Likely,
            Self::Pessimistic => Self::Optimistic,
        }
    }
}

/// A mean and the number of samples behind it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mean {
    /// The mean, ns: a range where recording takes longer than what it times, so that only a bound is known.
    pub ns: Range,
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
/// No critical section is shorter: a cycle.
const LEAST_SECTION_NS: f64 = 0.25;
/// No clock and no recorder is better than this share.
const LEAST_SPREAD: f64 = 0.05;
/// A critical section that no profile has seen on a second core is taken to touch one line for so much of its time, ns. Sections
/// of kccachetest, db_bench and contend's demo, of 15 to 350 ns, touch one in 6 to 34 ns: their growth on another core over the
/// transfer there.
const NS_OF_UNSEEN_LINE: f64 = 25.0;

/// More lines are not assumed: what takes longer computes, or goes over its data more than once.
const MOST_UNSEEN_LINES: f64 = 32.0;

/// Lines that a section may touch at least before it is too much to assume.
const UNSEEN_LINES_HIGH: f64 = 8.0;

fn unseen_lines(section_ns: f64) -> Range {
    let likely = (section_ns / NS_OF_UNSEEN_LINE).clamp(1.0, MOST_UNSEEN_LINES);
    Range { low: 0.0, likely, high: (3.0 * likely).max(UNSEEN_LINES_HIGH) }
}

/// The think time is at least this share of the span from a release to the next acquisition, however
/// nearly all of it was waiting: the difference of two means is no surer.
const LEAST_THINK: f64 = 0.01;

/// How long a waiter that backs off is awake before it sleeps, ns: the pauses of contend's locks at 4, 3 and 2 GHz.
const BACK_OFF_BEFORE_SLEEP_NS: Range =
    Range { low: back_off_cycles() / 4.0, likely: back_off_cycles() / 3.0, high: back_off_cycles() / 2.0 };

/// All pauses of a waiter that backs off, in cycles.
const fn back_off_cycles() -> f64 {
    let (mut sum, mut poll) = (0, 0);
    while poll < BACK_OFF_CYCLES.len() {
        sum += BACK_OFF_CYCLES[poll];
        poll += 1;
    }
    sum as f64
}

/// How often it polls meanwhile. It polls once more when it has been woken.
const POLLS_BEFORE_SLEEP: f64 = BACK_OFF_CYCLES.len() as f64;

/// What a prediction is made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// a: mean think time, waiting not included, ns.
    pub think_ns: Range,
    /// The critical section after a holder on the same core, ns.
    pub same_ns: Range,
    /// What it grew by after a holder on another core, on the profiled machine, ns.
    pub growth_ns: Range,
    /// What a line transfer cost there, ns: the growth is that of lines, and scales with it.
    pub profiled_transfer_ns: Range,
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
    /// Takes the parameters from what a profile says; `profiled_transfer_ns` is a line transfer between neighbouring
    /// cores of the machine that the profile was taken on.
    ///
    /// # Errors
    ///
    /// Why there are none to take, in words for the user: the profile lacks a time that the model needs.
    pub fn observed(lock: &Observed, profiled_transfer_ns: Range) -> Result<Self, String> {
        let enough = |mean: &Option<Mean>| mean.filter(|m| m.samples >= LEAST_SAMPLES && m.ns.high > 0.0);
        let mut doubts = Vec::new();
        let (same_ns, growth_ns) = match (enough(&lock.hold_same), enough(&lock.hold_other)) {
            // Both have the same recorder in them, so that their difference is better known than they are.
            (Some(same), Some(other)) => (same.ns, Range::exact((other.ns.likely - same.ns.likely).max(0.0))),
            (Some(same), None) => {
                let lines = unseen_lines(same.ns.likely);
                let growth = Range {
                    low: lines.low,
                    likely: lines.likely * profiled_transfer_ns.likely,
                    high: lines.high * profiled_transfer_ns.high,
                };
                doubts.push(format!(
                    "fewer than {LEAST_SAMPLES} timed acquisitions followed a holder on another core: the critical section is assumed to grow by {:.0} to {:.0} ns there",
                    growth.low, growth.high
                ));
                (same.ns, growth)
            }
            (None, Some(other)) => {
                doubts.push(format!(
                    "fewer than {LEAST_SAMPLES} timed acquisitions followed a holder on the same core: the critical section of a core alone is taken to be as long as that after another core"
                ));
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
        if same_ns.high > 2.0 * same_ns.low {
            doubts.push(format!(
                "recording takes longer than the critical section, which is only known to be shorter than {:.0} ns",
                same_ns.high
            ));
        }
        let at_most =
            |think_ns: f64| (think_ns - lock.wait_ns).max(LEAST_THINK * think_ns).max(LEAST_SECTION_NS);
        let think_ns = Range {
            low: at_most(think.ns.low / spread),
            likely: at_most(think.ns.likely),
            high: at_most(think.ns.high * spread),
        };
        if think_ns.high > 2.0 * think_ns.low && think.ns.low == think.ns.high {
            doubts.push(format!(
                "nearly all of the {:.0} ns between a thread's acquisitions was waiting: the think time is only known to be {:.0} to {:.0} ns; profile with fewer threads",
                think.ns.likely, think_ns.low, think_ns.high
            ));
        }
        Ok(Self {
            think_ns,
            same_ns,
            growth_ns,
            profiled_transfer_ns,
            read_share: lock.reads.map(|reads| reads as f64 / lock.acquisitions.max(1) as f64),
            wake_ns: lock.handover_ns.filter(|_| lock.family == Family::Blocking),
            spread,
            doubts,
            useless,
        })
    }

    /// The lock at one number of cores of a machine, every range at one of its ends.
    pub fn at_end(&self, family: Family, costs: &Costs, cores: u32, variant: Variant, end: End) -> LockModel {
        let times_off = match end {
            End::Optimistic => 1.0 / self.spread,
            End::Likely => 1.0,
            End::Pessimistic => self.spread,
        };
        // The more think time, the higher the throughput: the ends are the other way round.
        let think = end.opposite().of(self.think_ns);
        let transfer = end.of(costs.transfer_ns(cores));
        let distance = transfer / end.opposite().of(self.profiled_transfer_ns);
        let same = end.of(self.same_ns).max(LEAST_SECTION_NS) * times_off;
        // An acquisition after another core fetches the lock's own line beside those of the section.
        let other = same + end.of(self.growth_ns) * times_off * distance + transfer;
        let waiter_cost = variant.cost_from(end.of(costs.waiter_ns(cores)), costs.cores());
        let handover = match family {
            Family::Ticket => Handover::Ticket { waiter_cost },
            Family::TestAndSet => Handover::TestAndSet { waiter_cost },
            Family::BackOff => {
                let delay = back_off_delay(costs.back_off_delay_ns(), waiter_cost, cores, variant, end);
                Handover::BackOff { waiter_cost, delay }
            }
            Family::Queue => Handover::Queue { transfer },
            Family::Blocking => {
                let wake = end.of(self.wake_ns.unwrap_or_else(|| costs.wake_ns()));
                Handover::Blocking { wake, barging: true }
            }
            Family::BackOffThenSleep => {
                let wake = end.of(costs.wake_ns());
                Handover::BackOffThenSleep {
                    poll: (end.of(BACK_OFF_BEFORE_SLEEP_NS) + wake) / (POLLS_BEFORE_SLEEP + 1.0),
                }
            }
        };
        LockModel {
            think,
            service: Service { same, other },
            handover,
            readers: self.read_share.map(|share| Readers { share, word: 2.0 * transfer }),
            variant,
        }
    }
}

/// A back-off delay can be too short and too long: the optimistic end has the one of the range that is best with all cores
/// at the lock, the pessimistic end the worst.
fn back_off_delay(range: Range, waiter_cost: f64, cores: u32, variant: Variant, end: End) -> f64 {
    let contenders = Contenders { at_lock: cores, away: 0, think: 1.0 };
    let time = |delay: &f64| Handover::BackOff { waiter_cost, delay: *delay }.time(contenders, variant);
    let mut delays = [range.low, range.likely, range.high];
    delays.sort_by(|a, b| time(a).total_cmp(&time(b)));
    match end {
        End::Optimistic => delays[0],
        End::Likely => range.likely,
        End::Pessimistic => delays[2],
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A ticket lock that two threads took a million times.
    pub(crate) fn observed(hold_ns: f64, think_ns: f64) -> Observed {
        let mean = |ns| Some(Mean { ns: Range::exact(ns), samples: 1_000_000 });
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

    #[test]
    fn waiting_is_not_think_time() {
        let lock = Observed { wait_ns: 1500.0, ..observed(50.0, 2000.0) };
        let parameters = Parameters::observed(&lock, Range::exact(50.0)).unwrap();
        assert!((parameters.think_ns.likely - 500.0).abs() < 1e-9);
        assert!(parameters.doubts.is_empty());
        let lock = Observed { wait_ns: 1990.0, ..observed(50.0, 2000.0) };
        let parameters = Parameters::observed(&lock, Range::exact(50.0)).unwrap();
        assert!((parameters.think_ns.likely - 20.0).abs() < 1e-9 && parameters.think_ns.low > 0.0);
        assert!(parameters.doubts[0].contains("fewer threads"));
    }

    #[test]
    fn a_section_that_is_only_bounded_is_a_range_and_a_doubt() {
        let short = Some(Mean { ns: Range { low: 0.0, likely: 6.0, high: 12.0 }, samples: 9_000_000 });
        let lock = Observed { hold_same: short, ..observed(60.0, 2000.0) };
        let parameters = Parameters::observed(&lock, Range::exact(50.0)).unwrap();
        assert_eq!(parameters.same_ns.high, 12.0);
        assert!(parameters.doubts[0].contains("shorter than 12 ns"), "{:?}", parameters.doubts);
        assert!((parameters.growth_ns.likely - 84.0).abs() < 1e-9);
    }

    #[test]
    fn too_few_samples_are_refused_in_words() {
        let few = Some(Mean { ns: Range::exact(10.0), samples: 3 });
        let lock = Observed { hold_same: few, hold_other: few, ..observed(1.0, 1.0) };
        assert!(Parameters::observed(&lock, Range::exact(50.0)).unwrap_err().contains("critical sections"));
        let lock = Observed { think: None, ..observed(1.0, 1.0) };
        assert!(Parameters::observed(&lock, Range::exact(50.0)).unwrap_err().contains("between"));
    }
}
