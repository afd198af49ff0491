//! The axes that curves are drawn over: where a number of cores lies, and what is written beside the axes.

use crate::{Curve, Point};

/// From this many cores on, the axis of cores is logarithmic unless told otherwise.
const LOG_FROM_CORES: u32 = 32;

/// The axis of cores, as a map from cores to 0 at the left and 1 at the right.
#[derive(Debug, Clone, Copy)]
pub struct CoresAxis {
    least: u32,
    most: u32,
    log: bool,
}

impl CoresAxis {
    /// The axis for these curves: without points from 1 to 2, and logarithmic, unless told otherwise, when the cores reach 32.
    #[must_use]
    pub fn of(curves: &[Curve], log: Option<bool>) -> Self {
        let cores = || points(curves).map(|point| point.cores);
        let (least, most) = (cores().min().unwrap_or(1), cores().max().unwrap_or(2));
        let log = log.unwrap_or(most >= LOG_FROM_CORES);
        // One number of cores has a length of the axis beside it: above it, or below the greatest number that there is.
        if least < most {
            Self { least, most, log }
        } else {
            let above = least.saturating_add(1);
            Self { least: above - 1, most: above, log }
        }
    }

    /// Whether it is logarithmic.
    #[must_use]
    pub fn is_log(&self) -> bool {
        self.log
    }

    /// Where a number of cores lies.
    #[must_use]
    pub fn position(&self, cores: u32) -> f64 {
        let scale = |cores: u32| if self.log { f64::from(cores).ln() } else { f64::from(cores) };
        (scale(cores) - scale(self.least)) / (scale(self.most) - scale(self.least))
    }

    /// Cores to be written at the axis, about so many.
    #[must_use]
    pub fn ticks(&self, about: usize) -> Vec<u32> {
        let span = self.most - self.least;
        if self.log {
            let doublings =
                (0..32).map(|power| 1_u32 << power).filter(|tick| (self.least..=self.most).contains(tick));
            let doublings: Vec<_> = doublings.collect();
            if doublings.len() < 2 {
                return vec![self.least, self.most]; // 33 to 63 cores have none, and one alone is no scale
            }
            let step = doublings.len().div_ceil(about.max(1)).max(1);
            doublings.into_iter().step_by(step).collect()
        } else {
            let step = (round_up(f64::from(span) / about.max(1) as f64) as u32).max(1);
            let multiples =
                (self.least.div_ceil(step).saturating_mul(step)..=self.most).step_by(step as usize);
            let mut ticks: Vec<_> = multiples.filter(|tick| tick - self.least >= step / 2).collect();
            if ticks.first() != Some(&self.least) {
                ticks.insert(0, self.least);
            }
            ticks
        }
    }
}

/// The least of 1, 2, 5, 10, 20, … that is not under `step`.
fn round_up(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|&round| round >= step * 0.999)
        .unwrap_or(10.0 * power)
}

/// Multiples of a round number from zero to the first that is not under `highest`, about so many.
#[must_use]
pub fn ticks(highest: f64, about: usize) -> Vec<f64> {
    let step = round_up(highest / about.max(1) as f64);
    if !(step > 0.0 && step.is_finite()) {
        return vec![0.0, highest];
    }
    let count = (highest / step * 0.999).ceil().max(1.0) as usize;
    (0..=count).map(|index| index as f64 * step).collect()
}

/// The ticks of the axis of values, from zero to at least the greatest value of the curves, about so many.
#[must_use]
pub fn value_ticks(curves: &[Curve], about: usize) -> Vec<f64> {
    let highest = points(curves).map(|point| point.high).fold(0.0, f64::max);
    ticks(if highest > 0.0 { highest } else { 1.0 }, about)
}

fn points(curves: &[Curve]) -> impl Iterator<Item = Point> + '_ {
    curves.iter().flat_map(|curve| curve.points().iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Provenance, Unit};

    #[test]
    fn ticks_are_round_and_cover() {
        assert_eq!(ticks(4.7, 5), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(ticks(5.0, 5), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(ticks(0.013, 4), [0.0, 0.005, 0.01, 0.015]);
        for highest in [1e-300, 5e-324, 1e300, f64::MAX] {
            assert!(*ticks(highest, 5).last().unwrap() >= 0.99 * highest, "{highest}");
        }
    }

    #[test]
    fn one_number_of_cores_has_a_place_whichever_it_is() {
        for (cores, place) in [(1, 0.0), (48, 0.0), (u32::MAX - 1, 0.0), (u32::MAX, 1.0)] {
            for log in [true, false] {
                let curve = Curve::new("c", Unit::Speedup, Provenance::Predicted);
                let curve = curve.with_points([Point::exact(cores, 1.0)]).expect("one point");
                let axis = CoresAxis::of(&[curve], Some(log));
                assert_eq!(axis.position(cores), place, "{cores}, {log}");
                assert!(axis.ticks(8).contains(&cores), "{cores}, {log}: {:?}", axis.ticks(8));
            }
        }
    }

    #[test]
    fn cores_are_written_where_they_are() {
        let axis = |least, most, log| CoresAxis { least, most, log };
        assert_eq!(axis(1, 48, true).ticks(8), [1, 2, 4, 8, 16, 32]);
        assert_eq!(axis(1, 48, false).ticks(5), [1, 10, 20, 30, 40]);
        assert_eq!(axis(1, 4, false).ticks(8), [1, 2, 3, 4]);
        assert_eq!(axis(3, u32::MAX, false).ticks(2)[0], 3);
        assert_eq!(axis(48, 49, true).ticks(8), [48, 49]);
        assert_eq!(axis(33, 80, true).ticks(8), [33, 80]);
        assert_eq!(axis(1, 48, true).position(1), 0.0);
        assert_eq!(axis(1, 48, true).position(48), 1.0);
    }
}
