//! The hand-over cost that explains a measured figure.
//!
//! A fitted cost means nothing without the family and the form that it was fitted under.

use crate::{LockModel, ModelError};

/// Costs are sought from this share of the critical section to its inverse.
const LEAST_COST: f64 = 1e-4;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Handover, Service, Variant};

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
    fn a_peak_gives_its_cost() {
        let peak = |lock: &LockModel| Ok(lock.curve("", 1..=48)?.peak().map_or(0.0, |peak| peak.value));
        let expected = peak(&lock(200.0, Variant::Waiters)).unwrap();
        let cost = cost_giving(&lock(1.0, Variant::Waiters), expected, peak).unwrap().unwrap();
        assert!((cost / 200.0 - 1.0).abs() < 1e-3, "{cost}");
        assert_eq!(cost_giving(&lock(1.0, Variant::Waiters), 1e9, peak).unwrap(), None);
    }
}
