//! The hand-over cost that explains a measured curve.
//!
//! A fitted cost is always given with the family and the form that it was fitted under: it means nothing without.

use crate::{Family, LockModel, ModelError, Variant};
use curve::{Curve, Unit};

/// A fitted hand-over cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// c, the transfer, or the time to wake, in the unit of the lock's times.
    pub cost: f64,
    /// The family it belongs to.
    pub family: Family,
    /// The form of the model it was fitted under.
    pub variant: Variant,
    /// How far the fitted curve lies from the measured one: root mean square of the logarithm of their ratio. 0.1 is
    /// about 10 %.
    pub error: f64,
    /// Points that were used.
    pub points: usize,
}

/// Why no cost was fitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    /// The lock is impossible.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The curve is in a unit that the model does not give.
    #[error("the curve is in {0}; make it relative to one core first")]
    Unit(Unit),
    /// No waiters, no cost.
    #[error("the curve has no point above one core, and one core never hands over")]
    NoWaiters,
    /// Any cost up to, or from, a bound fits as well.
    #[error("the curve does not determine the hand-over cost: {0:.1e} ns fits as well as any")]
    Undetermined(f64),
}

/// Costs are sought from this share of the critical section to its inverse.
const LEAST_COST: f64 = 1e-4;

/// Fits the cost of a lock's hand-over, one cost for all numbers of cores, to a curve of throughput relative to one
/// core. `lock_at` gives the lock at a number of cores; the cost that it comes with is ignored.
///
/// # Errors
///
/// A curve of another unit or without waiters; one that fits best at a bound of the costs tried; an impossible lock.
pub fn fit_cost(lock_at: impl Fn(u32) -> LockModel, curve: &Curve) -> Result<Fit, FitError> {
    if curve.unit != Unit::Speedup {
        return Err(FitError::Unit(curve.unit));
    }
    let points: Vec<_> =
        curve.points().iter().filter(|point| point.cores > 1 && point.value > 0.0).copied().collect();
    if points.is_empty() {
        return Err(FitError::NoWaiters);
    }
    let error = |ln_cost: f64| -> Result<f64, ModelError> {
        let mut squares = 0.0;
        for point in &points {
            let lock = lock_at(point.cores);
            let lock = LockModel { handover: lock.handover.with_cost(ln_cost.exp()), ..lock };
            squares += (lock.at(point.cores)?.speedup / point.value).ln().powi(2);
        }
        Ok((squares / points.len() as f64).sqrt())
    };

    // The error may have more than one dip: a grid finds the deepest, a section search its floor.
    const STEPS: usize = 80;
    let lock = lock_at(points[0].cores);
    let (least, most) = ((lock.service.same * LEAST_COST).ln(), (lock.service.same / LEAST_COST).ln());
    let step = (most - least) / STEPS as f64;
    let mut errors = Vec::with_capacity(STEPS + 1);
    for i in 0..=STEPS {
        errors.push(error(least + step * i as f64)?);
    }
    let best = (0..=STEPS).min_by(|&i, &j| errors[i].total_cmp(&errors[j])).unwrap_or(0);
    let flat = |bound: usize| errors[bound] - errors[best] < 1e-6;
    if best == 0 || best == STEPS || flat(0) || flat(STEPS) {
        return Err(FitError::Undetermined((least + step * best as f64).exp()));
    }
    let middle = least + step * best as f64;
    let ln_cost = golden_section(middle - step, middle + step, error)?;
    Ok(Fit {
        cost: ln_cost.exp(),
        family: lock.handover.family(),
        variant: lock.variant,
        error: error(ln_cost)?,
        points: points.len(),
    })
}

/// The hand-over cost at which `measure` of the lock is `target`, for a measure that falls as the cost grows (a peak,
/// the throughput at some cores, the core of the collapse). `None` if no cost tried gives it.
///
/// # Errors
///
/// Those of `measure`.
pub fn cost_giving(
    lock: &LockModel,
    target: f64,
    measure: impl Fn(&LockModel) -> Result<f64, ModelError>,
) -> Result<Option<f64>, ModelError> {
    let at = |ln_cost: f64| measure(&LockModel { handover: lock.handover.with_cost(ln_cost.exp()), ..*lock });
    let (mut low, mut high) = ((lock.service.same * LEAST_COST).ln(), (lock.service.same / LEAST_COST).ln());
    if at(low)? < target || at(high)? > target {
        return Ok(None);
    }
    while high - low > 1e-9 {
        let middle = f64::midpoint(low, high);
        if at(middle)? >= target {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Some(low.exp()))
}

/// The place of the least value of a function with one dip between `low` and `high` (Kiefer 1953).
fn golden_section(
    mut low: f64,
    mut high: f64,
    f: impl Fn(f64) -> Result<f64, ModelError>,
) -> Result<f64, ModelError> {
    let ratio = (5f64.sqrt() - 1.0) / 2.0;
    while high - low > 1e-9 {
        let (left, right) = (high - ratio * (high - low), low + ratio * (high - low));
        if f(left)? < f(right)? {
            high = right;
        } else {
            low = left;
        }
    }
    Ok(f64::midpoint(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Handover, Service};
    use curve::{Point, Provenance};

    fn lock(waiter_cost: f64, variant: Variant) -> LockModel {
        LockModel {
            think: 1592.0,
            service: Service { same: 121.0, other: 200.0 },
            handover: Handover::Ticket { waiter_cost },
            readers: None,
            variant,
        }
    }

    #[test]
    fn the_cost_behind_a_curve_is_found_again() {
        for (variant, cost) in [(Variant::Waiters, 200.0), (Variant::Formula, 35.0)] {
            let curve = lock(cost, variant).curve("", [1, 2, 4, 8, 16, 48]).unwrap();
            let fit = fit_cost(|_| lock(1.0, variant), &curve).unwrap();
            assert!((fit.cost / cost - 1.0).abs() < 1e-4, "{fit:?}");
            assert!(fit.error < 1e-4 && fit.variant == variant && fit.family == Family::Ticket);
        }
    }

    #[test]
    fn the_wrong_form_gives_another_cost() {
        let curve = lock(200.0, Variant::Waiters).curve("", [2, 8, 48]).unwrap();
        let fit = fit_cost(|_| lock(1.0, Variant::FormulaBalanced), &curve).unwrap();
        assert!((fit.cost / 100.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn curves_that_say_nothing_are_refused() {
        let speedup = |points: &[(u32, f64)]| {
            Curve::new("", Unit::Speedup, Provenance::Measured)
                .with_points(points.iter().map(|&(cores, value)| Point::exact(cores, value)))
                .unwrap()
        };
        let fit = |curve: &Curve| fit_cost(|_| lock(1.0, Variant::Waiters), curve).unwrap_err();
        assert_eq!(fit(&speedup(&[(1, 1.0)])), FitError::NoWaiters);
        assert!(matches!(fit(&speedup(&[(2, 2.0), (48, 48.0)])), FitError::Undetermined(_)));
        let operations = Curve::new("", Unit::OperationsPerSecond, Provenance::Measured);
        assert!(matches!(fit(&operations), FitError::Unit(_)));
    }

    #[test]
    fn a_peak_gives_its_cost() {
        let peak = |lock: &LockModel| Ok(lock.curve("", 1..=48)?.peak().map_or(0.0, |peak| peak.value));
        let expected = peak(&lock(200.0, Variant::Waiters)).unwrap();
        let cost = cost_giving(&lock(1.0, Variant::Waiters), expected, peak).unwrap().unwrap();
        assert!((cost / 200.0 - 1.0).abs() < 1e-3, "{cost}");
        assert_eq!(cost_giving(&lock(1.0, Variant::Waiters), 1e9, peak).unwrap(), None);
    }
}
