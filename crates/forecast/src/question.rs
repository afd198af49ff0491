//! What a forecast is asked, and what it starts from.

use crate::{advise, alternatives};
use curve::Point;
use profile::{LockKind, ObjectKind};
use std::path::PathBuf;
use topology::MachineFile;
use what_if::{Alternative, Change};

/// Throughput that was measured without recording.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct MeasuredPoint {
    /// The candidate in place of the lock; none for the baseline.
    pub lock: Option<String>,
    /// Threads.
    pub threads: u32,
    /// The median, in any unit that is the same for all points and that more is better of.
    pub rate: f64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

impl MeasuredPoint {
    /// A point of a measured curve: its cores are the threads.
    #[must_use]
    pub fn of(lock: Option<&str>, point: Point) -> Self {
        let Point { cores: threads, value: rate, low, high } = point;
        Self { lock: lock.map(str::to_owned), threads, rate, low, high }
    }
}

/// What is to be forecast.
#[derive(Debug, Clone)]
pub struct Question {
    /// Profiles of the same program, each on another number of threads, in any order; one at least.
    pub profiles: Vec<PathBuf>,
    /// What was measured: it stands where the threads have a core each on both machines, or these have as many cores; and the forecast
    /// goes on from it.
    pub measured: Vec<MeasuredPoint>,
    /// The unit of `measured` is operations a second, as a profile of them tells it.
    pub in_operations: bool,
    /// How many times as long the profiled run on the fewest threads took as without recording, where that is known.
    pub stretch: Option<f64>,
    /// The machine to forecast for.
    pub machine: MachineFile,
    /// The machine that was profiled and measured on.
    pub profiled_on: MachineFile,
    /// Numbers of cores, one thread on each, ascending. Beyond the machine's own it is extended by more of its dies.
    pub cores: Vec<u32>,
    /// Numbers of threads on the machine as it is, where they are asked for instead of cores: they may share cores.
    pub threads: Vec<u32>,
    /// Verdicts tell of what becomes of throughput from so many threads on.
    pub from: u32,
    /// The locks to put in place of the program's own; none for those that are usual for its kind.
    pub candidates: Option<Vec<Alternative>>,
    /// The lock in question; none for the one that costs most time.
    pub site: Option<String>,
    /// The random seed.
    pub seed: u64,
    /// The change of the program that is asked about; none for those that contend would try.
    pub what_if: Option<Change>,
    /// Whether changes are tried, each of which takes simulations of its own.
    pub advice: bool,
}

impl Question {
    /// The locks to put in the place of one of this kind: those that were named, else one of every family, or in the place of a
    /// reader-writer lock those that are tried there in the running program, since readers share no other.
    pub(crate) fn alternatives(&self, kind: LockKind) -> anyhow::Result<Vec<Alternative>> {
        match (&self.candidates, kind) {
            (Some(named), _) => Ok(named.clone()),
            (None, LockKind::Object(kind @ ObjectKind::Rwlock)) => {
                let names: Vec<String> = advise::candidates(kind).into_iter().map(str::to_owned).collect();
                alternatives(&names)
            }
            (None, _) => alternatives(&[]),
        }
    }
}

/// Why there is no forecast.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, thiserror::Error)]
#[error("no forecast: {reason}. {remedy}.")]
pub struct Void {
    /// What is wrong with the profile.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
    /// Too little was seen of the lock in question: there may be a forecast of another lock.
    #[serde(skip)]
    pub of_lock: bool,
}
