//! Why holds were long: what their threads did meanwhile.

use serde::Serialize;

/// What threads did in those timed holds of a lock of which it is known, ns: together how long these lasted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WhileHeld {
    /// They were on a core.
    pub running_ns: f64,
    /// They were ready to run, and another thread had their core.
    pub preempted_ns: f64,
    /// They were off their core by their own doing, and waited for no lock: input and output, sleep, page faults that block.
    pub sleeping_ns: f64,
    /// They waited for another lock.
    pub waiting_ns: f64,
}

impl WhileHeld {
    /// Of holds that lasted so long: what of it was waited, slept and preempted. Where these are more than all, a file lies, and
    /// what comes first counts.
    pub(super) fn of(held_ns: f64, parts: [f64; 3]) -> Self {
        let mut running_ns = held_ns.max(0.0);
        let [waiting_ns, sleeping_ns, preempted_ns] = parts.map(|part| {
            let part = part.clamp(0.0, running_ns);
            running_ns -= part;
            part
        });
        Self { running_ns, preempted_ns, sleeping_ns, waiting_ns }
    }

    /// How long the holds lasted, ns.
    pub fn total_ns(&self) -> f64 {
        self.running_ns + self.preempted_ns + self.sleeping_ns + self.waiting_ns
    }

    /// The part that some of it makes of all, 0 to 1; `None` of no time.
    pub fn share(&self, of: impl Fn(&Self) -> f64) -> Option<f64> {
        let total_ns = self.total_ns();
        (total_ns > 0.0).then(|| of(self) / total_ns)
    }

    /// Both together.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            running_ns: self.running_ns + other.running_ns,
            preempted_ns: self.preempted_ns + other.preempted_ns,
            sleeping_ns: self.sleeping_ns + other.sleeping_ns,
            waiting_ns: self.waiting_ns + other.waiting_ns,
        }
    }

    /// Two of them together, each with the number of its timed holds: unknown where there are holds of which it is unknown.
    pub fn both((one, of_one): (Option<Self>, u64), (other, of_other): (Option<Self>, u64)) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.and(&other)),
            (known, None) if of_other == 0 => known,
            (None, known) if of_one == 0 => known,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_together_what_was_held() {
        let held = WhileHeld::of(100.0, [10.0, 20.0, 30.0]);
        let parts = [held.running_ns, held.preempted_ns, held.sleeping_ns, held.waiting_ns];
        assert_eq!((parts, held.total_ns()), ([40.0, 30.0, 20.0, 10.0], 100.0));
        assert_eq!(held.share(|held| held.sleeping_ns), Some(0.2));
        let forged = WhileHeld::of(100.0, [f64::INFINITY, 1e300, 5.0]);
        assert_eq!((forged.waiting_ns, forged.total_ns()), (100.0, 100.0));
        assert_eq!(WhileHeld::default().share(|held| held.running_ns), None);
    }

    #[test]
    fn unknown_holds_make_the_sum_unknown() {
        let known = WhileHeld::of(100.0, [0.0; 3]);
        assert_eq!(WhileHeld::both((Some(known), 3), (None, 0)), Some(known));
        assert_eq!(WhileHeld::both((None, 0), (Some(known), 3)), Some(known));
        assert_eq!(WhileHeld::both((Some(known), 3), (None, 1)), None);
        assert_eq!(WhileHeld::both((Some(known), 3), (Some(known), 1)), Some(known.and(&known)));
    }
}
