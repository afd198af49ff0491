//! How far the twin has been off, by which its ranges are widened.
//!
//! The seeds, and the ranges of times and costs, show what is known to be uncertain. What the twin leaves out is not among that, and it
//! was most of the error where predictions were held against measurements: a third of the measurements lay in the range. So a range is
//! widened by a factor on both sides. The factors are those by which the ranges of `docs/predictions.md` hold four of five measurements;
//! that page says how many they hold when a program's own measurements have no part in the choice.
//!
//! Errors are alike over the numbers of threads of one program. So threads that share cores have another factor than threads that have a
//! core each, and not one that grows with every thread.

use curve::Point;
use model::Verdict;

/// Each thread has a core.
const ON_OWN_CORES: f64 = 1.35;

/// Threads share cores, and the kernel's scheduler decides with the lock.
const ON_SHARED_CORES: f64 = 2.0;

/// The part of the measurements that a range is to hold.
pub(crate) const HELD: f64 = 0.8;

/// The factor for so many threads on so many cores. One thread is what all else is relative to.
pub(crate) fn factor(threads: u32, cores: u32) -> f64 {
    match threads {
        1 => 1.0,
        _ if threads <= cores => ON_OWN_CORES,
        _ => ON_SHARED_CORES,
    }
}

/// A point of as many threads as it has cores, with the range that four of five measurements lie in.
pub(crate) fn widened(point: Point, cores: u32) -> Point {
    let factor = factor(point.cores, cores);
    Point { low: point.low / factor, high: point.high * factor, ..point }
}

/// Why a verdict of the twin is not passed on: with the widened ranges it may be another one.
pub(crate) fn reason(verdict: &Verdict) -> String {
    format!(
        "the simulated program says `{}`, but where programs were measured it was off by {} times, or {} where threads share cores, and \
         within that it may do otherwise: measure it (contend compare)",
        verdict.words(),
        report::text::short(ON_OWN_CORES),
        report::text::short(ON_SHARED_CORES),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_one_thread_stays_and_others_grow_on_both_sides() {
        let point = |cores| Point { cores, value: 2.0, low: 1.0, high: 3.0 };
        assert_eq!(widened(point(1), 4), point(1));
        let own = widened(point(4), 4);
        assert_eq!((own.value, own.low, own.high), (2.0, 1.0 / ON_OWN_CORES, 3.0 * ON_OWN_CORES));
        let shared = widened(point(5), 4);
        assert!(shared.low < own.low && shared.high > own.high);
    }
}
