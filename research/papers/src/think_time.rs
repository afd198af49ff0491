//! Think times for which a lock takes its published share of the time.

use crate::seeds::{self, BySeed};
use session::progress::Progress;
use simulate::{Setup, SimulatedRun};
use simulator::LockCounts;
use std::ops::RangeInclusive;

/// In how many steps a think time is looked for.
const STEPS: u32 = 12;

/// The lock that is acquired most often.
fn busiest(run: &SimulatedRun) -> Option<&LockCounts> {
    run.report.locks.iter().max_by_key(|lock| lock.acquisitions)
}

/// Percent of the threads' time on cores that they wait for the lock that is acquired most often, or hold it.
pub(crate) fn percent_at_busiest(run: &SimulatedRun) -> f64 {
    busiest(run).map_or(f64::NAN, |lock| 100.0 * run.share_of_running(lock.wait_ps + lock.held_ps))
}

/// A think time that was looked for, and what it gives.
pub(crate) struct ThinkFit {
    pub(crate) cycles: f64,
    /// Percent of the threads' time at the lock: looked for, and reached with it.
    published_percent: f64,
    pub(crate) reached: BySeed,
}

impl ThinkFit {
    /// Both shares, for a note.
    pub(crate) fn shares(&self) -> String {
        format!("published are {} %, reached {:.2} %", self.published_percent, self.reached.median())
    }
}

/// The think time in cycles, within this range, with which the threads spend so many percent of their time at that lock: the median over
/// the seeds. Where the share jumps as the think time grows, the one reached may be another.
pub(crate) fn think_for_percent<'a>(
    percent: f64,
    between: RangeInclusive<f64>,
    setup: impl Fn(f64) -> anyhow::Result<Setup<'a>>,
    progress: &dyn Progress,
) -> anyhow::Result<ThinkFit> {
    let percent_with = |cycles: f64| -> anyhow::Result<BySeed> {
        let runs = seeds::run(&[setup(cycles)?], progress)?;
        Ok(runs[0].by_seed(percent_at_busiest))
    };
    let (mut short, mut long) = (between.start().ln(), between.end().ln());
    for _ in 0..STEPS {
        let middle = 0.5 * (short + long);
        if percent_with(middle.exp())?.median() > percent { short = middle } else { long = middle }
    }
    let cycles = (0.5 * (short + long)).exp();
    Ok(ThinkFit { cycles, published_percent: percent, reached: percent_with(cycles)? })
}
