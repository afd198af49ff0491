//! What was measured of a program, beside the folder of its profiles.

use crate::question::MeasuredPoint;
use compare::calibrate::Placement;
use curve::Point;
use launch::GLIBC;
use session::noise::Noise;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use topology::MachineFile;

/// What is known of a program besides its profiles.
#[derive(Debug)]
pub(super) struct Measured {
    /// Where.
    pub(super) machine: MachineFile,
    /// Runs of each lock at each number of threads.
    pub(super) runs: u32,
    /// How many cores the whole command uses on one thread.
    pub(super) cores: Option<f64>,
    /// By lock: relative throughput.
    pub(super) points: Vec<(String, Point)>,
    /// Locks that replaced nothing.
    pub(super) untouched: BTreeSet<String>,
    pub(super) noise: Noise,
    pub(super) placement: Placement,
}

impl Measured {
    /// What was measured, relative to one thread of the baseline.
    pub(super) fn relative(&self) -> Vec<MeasuredPoint> {
        let point = |(name, point): &(String, Point)| {
            MeasuredPoint::of(Some(name.as_str()).filter(|&name| name != GLIBC), *point)
        };
        self.points.iter().map(point).collect()
    }
}

/// The profile on so many threads.
pub(super) fn profile_file(folder: &Path, threads: u32) -> PathBuf {
    folder.join(format!("{threads}.contend"))
}
