//! How far a measurement is, for the user who waits for it.

use std::fmt;
use std::time::Duration;

/// What the steps of a measurement are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Simulated runs, side by side.
    Simulations,
    /// Quantities of a calibration.
    Quantities,
    /// Runs of a benchmark, of which the current one has a name. What is measured after it takes about so long.
    Runs {
        /// The time that is needed after this benchmark.
        later: Duration,
    },
}

/// The user who waits for measurements.
pub trait Progress: fmt::Debug + Sync {
    /// Work of so many steps begins. It is over when the answer is dropped.
    fn start(&self, work: Work, steps: usize) -> Box<dyn Steps>;
}

/// The steps of one piece of work.
pub trait Steps: Sync {
    /// The step of this name begins.
    fn begin(&self, _name: &str) {}

    /// A step is over, or was left out.
    fn done(&self);
}

/// No user waits.
#[derive(Debug, Clone, Copy)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn start(&self, _: Work, _: usize) -> Box<dyn Steps> {
        Box::new(*self)
    }
}

impl Steps for Unwatched {
    fn done(&self) {}
}

/// Minutes and seconds.
pub fn shown_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02} min", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_left_are_minutes_and_seconds() {
        assert_eq!(shown_duration(Duration::from_millis(65_900)), "1:05 min");
    }
}
