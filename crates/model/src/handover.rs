//! What it costs to hand a lock over, by family of lock, and the published variants of the model.

use crate::{ModelError, not_negative, positive};
use serde::{Deserialize, Serialize};

pub use families::Family;

/// The family of a lock by its name in the literature, or of a family by its own name.
pub fn family_named(name: &str) -> Option<Family> {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let by_own_name = Family::ALL.into_iter().find(|family| family.name() == name);
    by_own_name.or(match name.as_str() {
        "tas" | "test-and-test-and-set" | "ttas" | "tatas" => Some(Family::TestAndSet),
        "backoff" | "proportional" | "exponential" => Some(Family::BackOff),
        "mcs" | "clh" | "k42" | "hclh" | "hmcs" | "qspinlock" => Some(Family::Queue),
        "glibc" | "mutex" | "rwlock" => Some(Family::Blocking),
        "adaptive" | "best" | "futex" | "rw" => Some(Family::BackOffThenSleep),
        _ => None,
    })
}

/// Which of its published forms the model is used in (the paper writes it three ways).
///
/// A fitted c means nothing without the form that it was fitted under: the text's form with 2c is formula (1) with
/// c but for the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// t_k = s + c (k - 1) / 2: the text's hand-over of ck/2, with k the waiters left behind, as the caption of
    /// fig. 7 counts them (service rate s_k with k + 1 cores contending).
    ///
    /// The default, for three reasons: a core alone then takes s, which is what a profile of one core measures and
    /// what the speed-up is normalised by; half of the waiters is the mean place of the next holder among readers
    /// that are answered one by one; and with fig. 3's MEMPOP it gives peak height and end of the published curve
    /// with one c.
    #[default]
    Waiters,
    /// t_k = s + c k / 2, with k all cores at the lock, the holder included: the text taken with the states of
    /// fig. 7. A core alone pays c/2.
    Contenders,
    /// t_k = s + c k: formula (1) as printed, the product of (s + i c) for i from 1 to k.
    Formula,
    /// t_k = s + c (k - 1): formula (1) with the index that balance of the chain gives, i from 0 to k - 1.
    FormulaBalanced,
    /// t_k = s + c (k - 1)²/2: each of the k - 1 waiters costs c for every one that waits, as where a busy home refuses
    /// requests, which are made again. Not in the paper, whose peaks come too early with one cost for any number of waiters.
    Growing,
}

impl Variant {
    /// Every variant, the default first.
    pub const ALL: [Self; 5] =
        [Self::Waiters, Self::Contenders, Self::Formula, Self::FormulaBalanced, Self::Growing];

    /// The variant's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiters => "waiters",
            Self::Contenders => "contenders",
            Self::Formula => "formula",
            Self::FormulaBalanced => "formula-balanced",
            Self::Growing => "growing",
        }
    }

    /// t_k of a ticket lock, as a formula.
    pub fn form(self) -> &'static str {
        match self {
            Self::Waiters => "s + c(k-1)/2",
            Self::Contenders => "s + ck/2",
            Self::Formula => "s + ck",
            Self::FormulaBalanced => "s + c(k-1)",
            Self::Growing => "s + c(k-1)²/2",
        }
    }

    /// The variant of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }

    /// What counts as waiters with `at_lock` cores at the lock.
    fn waiters(self, at_lock: u32) -> f64 {
        match self {
            Self::Waiters | Self::FormulaBalanced | Self::Growing => f64::from(at_lock.saturating_sub(1)),
            Self::Contenders | Self::Formula => f64::from(at_lock),
        }
    }

    /// The share of its waiters that a ticket lock answers before the next holder.
    fn ticket_share(self) -> f64 {
        match self {
            Self::Waiters | Self::Contenders | Self::Growing => 0.5,
            Self::Formula | Self::FormulaBalanced => 1.0,
        }
    }

    /// What each of so many waiters costs, in multiples of c.
    fn costs_of_one(self, waiters: f64) -> f64 {
        match self {
            Self::Growing => waiters,
            _ => 1.0,
        }
    }

    /// c, where each waiter costs so much when `cores` are at the lock.
    pub(crate) fn cost_from(self, of_one: f64, cores: u32) -> f64 {
        of_one / self.costs_of_one(self.waiters(cores).max(1.0))
    }
}

/// Where the cores are while a lock is handed over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contenders {
    /// Cores that hold or wait for the lock, k; at least 1.
    pub at_lock: u32,
    /// Cores in their think time, n - k.
    pub away: u32,
    /// The mean think time of a core.
    pub think: f64,
}

/// The cost of a hand-over: a family and its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Handover {
    /// c · k/2: the released line is sent to one waiter after another, and the next holder is half-way on average.
    Ticket {
        /// c: what one more waiter adds.
        waiter_cost: f64,
    },
    /// c · k: the release and the winner's change queue behind the attempts of all waiters.
    TestAndSet {
        /// c: one attempt's hold on the line.
        waiter_cost: f64,
    },
    /// d/(k + 1) until the first of k waiters polls, plus half of the attempts that overlap, each holding the line
    /// for c: (c/2) · min(k, k c/d). With no delay it is the ticket lock's c · k/2.
    BackOff {
        /// c: one attempt's hold on the line.
        waiter_cost: f64,
        /// d: mean delay between a waiter's attempts.
        delay: f64,
    },
    /// A constant: the holder writes the next waiter's own word, and that waiter reads it.
    Queue {
        /// That write and read.
        transfer: f64,
    },
    /// The time to wake a sleeper. If the lock may be taken meanwhile by a core that just arrives (barging, as
    /// glibc's mutex and every futex lock does), whichever comes first.
    Blocking {
        /// From the release until a sleeper runs.
        wake: f64,
        /// Whether arrivals go ahead of sleepers.
        barging: bool,
    },
    /// Until one of the few waiters that are awake polls, or a core arrives, the one that released included: whichever
    /// comes first. A release neither moves a line to a waiter nor makes a system call, since one waiter at most is on its
    /// way: so the lock stays with the cores that keep it busy.
    ///
    /// This is `blocking.rs` of contend's locks (a waiter polls with growing pauses, then sleeps; wake-ups one at a time, as
    /// in Go's `sync.Mutex` of 2016). Dice, "Malthusian locks" (EuroSys 2017), measures why it helps: a lock is busy with few
    /// cores, and the others only cost.
    BackOffThenSleep {
        /// From one poll of the waiters that are awake to the next.
        poll: f64,
    },
}

impl Handover {
    /// The family that this is the cost of.
    pub fn family(&self) -> Family {
        match self {
            Self::Ticket { .. } => Family::Ticket,
            Self::TestAndSet { .. } => Family::TestAndSet,
            Self::BackOff { .. } => Family::BackOff,
            Self::Queue { .. } => Family::Queue,
            Self::Blocking { .. } => Family::Blocking,
            Self::BackOffThenSleep { .. } => Family::BackOffThenSleep,
        }
    }

    /// The same family with another cost: c, the transfer, the time to wake, or that between two polls.
    #[must_use]
    pub fn with_cost(self, cost: f64) -> Self {
        match self {
            Self::Ticket { .. } => Self::Ticket { waiter_cost: cost },
            Self::TestAndSet { .. } => Self::TestAndSet { waiter_cost: cost },
            Self::BackOff { delay, .. } => Self::BackOff { waiter_cost: cost, delay },
            Self::Queue { .. } => Self::Queue { transfer: cost },
            Self::Blocking { barging, .. } => Self::Blocking { wake: cost, barging },
            Self::BackOffThenSleep { .. } => Self::BackOffThenSleep { poll: cost },
        }
    }

    /// The time from a release to the next holder's start, added to its critical section.
    pub fn time(&self, contenders: Contenders, variant: Variant) -> f64 {
        let waiters = variant.waiters(contenders.at_lock);
        if waiters == 0.0 {
            return 0.0;
        }
        let each = variant.costs_of_one(waiters);
        match *self {
            Self::Ticket { waiter_cost } => variant.ticket_share() * waiter_cost * each * waiters,
            Self::TestAndSet { waiter_cost } => waiter_cost * each * waiters,
            Self::BackOff { waiter_cost, delay } => {
                let waiter_cost = waiter_cost * each;
                let overlapping = waiters.min(waiters * waiter_cost / delay);
                delay / (waiters + 1.0) + waiter_cost * overlapping / 2.0
            }
            Self::Queue { transfer } => transfer,
            Self::Blocking { wake, barging } => {
                let arrivals_while_waking = wake * f64::from(contenders.away) / contenders.think;
                if barging { wake / (1.0 + arrivals_while_waking) } else { wake }
            }
            Self::BackOffThenSleep { poll } => {
                let arrivals_between_polls = poll * f64::from(contenders.away + 1) / contenders.think;
                poll / (1.0 + arrivals_between_polls)
            }
        }
    }

    /// The chance that the core which releases is also the next to acquire although others wait. In every other family a
    /// waiter is next: where arrivals go ahead of sleepers too, the release has woken one on another core.
    pub(crate) fn returns(&self, contenders: Contenders) -> f64 {
        match *self {
            Self::BackOffThenSleep { .. } if contenders.at_lock > 1 => {
                (self.time(contenders, Variant::default()) / contenders.think).min(1.0)
            }
            _ => 0.0,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ModelError> {
        match *self {
            Self::Ticket { waiter_cost } | Self::TestAndSet { waiter_cost } => {
                not_negative("the cost of a waiter", waiter_cost)?;
            }
            Self::BackOff { waiter_cost, delay } => {
                not_negative("the cost of a waiter", waiter_cost)?;
                positive("the back-off delay", delay)?;
            }
            Self::Queue { transfer } => {
                not_negative("the cost of a line transfer", transfer)?;
            }
            Self::Blocking { wake, .. } => {
                not_negative("the time to wake a waiter", wake)?;
            }
            Self::BackOffThenSleep { poll } => {
                not_negative("the time between two polls", poll)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contenders(at_lock: u32) -> Contenders {
        Contenders { at_lock, away: 4, think: 1000.0 }
    }

    #[test]
    fn variants_differ_in_index_and_slope() {
        let ticket = Handover::Ticket { waiter_cost: 10.0 };
        let times = |variant| [1, 2, 5].map(|k| ticket.time(contenders(k), variant));
        assert_eq!(times(Variant::Waiters), [0.0, 5.0, 20.0]);
        assert_eq!(times(Variant::Contenders), [5.0, 10.0, 25.0]);
        assert_eq!(times(Variant::Formula), [10.0, 20.0, 50.0]);
        assert_eq!(times(Variant::FormulaBalanced), [0.0, 10.0, 40.0]);
        assert_eq!(times(Variant::Growing), [0.0, 5.0, 80.0]);
    }

    #[test]
    fn with_all_cores_at_the_lock_a_waiter_costs_what_the_machine_file_says() {
        for variant in Variant::ALL {
            let waiter_cost = variant.cost_from(30.0, 48);
            let time = |variant| Handover::TestAndSet { waiter_cost }.time(contenders(48), variant);
            assert_eq!(time(variant), 30.0 * variant.waiters(48));
        }
    }

    #[test]
    fn a_lone_core_hands_over_to_nobody() {
        for handover in [
            Handover::Ticket { waiter_cost: 9.0 },
            Handover::TestAndSet { waiter_cost: 9.0 },
            Handover::BackOff { waiter_cost: 9.0, delay: 50.0 },
            Handover::Queue { transfer: 9.0 },
            Handover::Blocking { wake: 9.0, barging: true },
            Handover::BackOffThenSleep { poll: 9.0 },
        ] {
            assert_eq!(handover.time(contenders(1), Variant::Waiters), 0.0);
            assert!(handover.time(contenders(2), Variant::Waiters) > 0.0);
        }
    }

    #[test]
    fn back_off_without_delay_is_a_ticket_lock() {
        let back_off = Handover::BackOff { waiter_cost: 10.0, delay: 1e-9 };
        let ticket = Handover::Ticket { waiter_cost: 10.0 };
        let time = |lock: Handover| lock.time(contenders(40), Variant::Waiters);
        assert!((time(back_off) - time(ticket)).abs() < 1e-6);
        assert!(time(Handover::BackOff { waiter_cost: 10.0, delay: 1000.0 }) < time(ticket));
    }

    #[test]
    fn barging_hides_the_wake_up_behind_arrivals() {
        let time = |barging, away| {
            Handover::Blocking { wake: 500.0, barging }
                .time(Contenders { at_lock: 3, away, think: 1000.0 }, Variant::Waiters)
        };
        assert_eq!(time(true, 0), 500.0);
        assert_eq!(time(true, 2), 250.0);
        assert_eq!(time(false, 2), 500.0);
    }

    #[test]
    fn the_core_that_releases_comes_back_before_a_waiter_that_backs_off_polls() {
        let lock = Handover::BackOffThenSleep { poll: 3000.0 };
        let contenders = |at_lock, away| Contenders { at_lock, away, think: 100.0 };
        assert!((lock.time(contenders(2, 0), Variant::Waiters) - 3000.0 / 31.0).abs() < 1e-9);
        assert!((lock.returns(contenders(2, 0)) - 30.0 / 31.0).abs() < 1e-9);
        assert!(lock.returns(contenders(2, 9)) < 0.1, "one of ten that may come");
        assert_eq!(lock.returns(contenders(1, 1)), 0.0, "nobody waits");
        assert_eq!(Handover::Blocking { wake: 3000.0, barging: true }.returns(contenders(2, 0)), 0.0);
    }

    #[test]
    fn names_lead_back() {
        for family in Family::ALL {
            assert_eq!(family_named(family.name()), Some(family));
        }
        for variant in Variant::ALL {
            assert_eq!(Variant::named(variant.name()), Some(variant));
        }
        assert_eq!(family_named("MCS"), Some(Family::Queue));
        assert_eq!(family_named("<b>"), None);
    }
}
