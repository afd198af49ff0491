//! One lock and the cores that use it.

use crate::handover::{Contenders, Handover, Variant};
use crate::{Chain, ModelError, not_negative, positive, share, valid_cores};
use curve::{Curve, Point, Provenance, Unit};

/// The mean time in the critical section, by where the last holder ran.
///
/// What the section touches is in this core's cache if this core held the lock last, and must be fetched otherwise:
/// that is why a critical section grows with cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// After a holder on this core.
    pub same: f64,
    /// After a holder on another core.
    pub other: f64,
}

impl Service {
    /// A section that takes the same time wherever the last holder ran.
    pub fn constant(time: f64) -> Self {
        Self { same: time, other: time }
    }

    /// The mean when a share `from_other` of acquisitions follows a holder on another core.
    pub fn mean(self, from_other: f64) -> f64 {
        self.same + (self.other - self.same) * from_other
    }
}

/// What makes a lock a reader-writer lock.
///
/// Readers that stand in line next to each other hold the lock together, and while no core at the lock writes, no core waits:
/// only a core that waits is handed anything. But each reader still changes the lock's word when it enters and when it leaves,
/// and those changes do not overlap: the line moves from core to core for each. That is what stops a lock whose readers share one
/// word at 1/`word`, as measured by Lev, Luchangco and Olszewski, "Scalable reader-writer locks" (SPAA 2009), and by Dice and
/// Kogan, "BRAVO" (USENIX ATC 2019), figure 2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Readers {
    /// Share of the acquisitions that read, 0 to 1.
    pub share: f64,
    /// The time that one reader's entry and exit hold the lock's word.
    pub word: f64,
}

impl Readers {
    pub(crate) fn check(self) -> Result<(), ModelError> {
        share("the share of reads", self.share)?;
        not_negative("the time on a reader-writer lock's word", self.word).map(drop)
    }

    /// The chance that all of `at_lock` cores read.
    fn all_read(self, at_lock: u32) -> f64 {
        self.share.powi(at_lock as i32)
    }

    /// How many hold the lock together when `at_lock` cores are there and one of them at least writes: the writer at the
    /// head of the line, or the readers up to the first writer.
    fn together_beside_writer(self, at_lock: u32) -> f64 {
        let some_write = 1.0 - self.all_read(at_lock);
        if some_write == 0.0 {
            return 1.0;
        }
        // Readers at the head, j of them before the first writer, of j from 1 to k-1.
        let run = if self.share < 1.0 {
            self.share * some_write / (1.0 - self.share) - f64::from(at_lock) * self.all_read(at_lock)
        } else {
            0.0
        };
        (((1.0 - self.share) + run) / some_write).clamp(1.0, f64::from(at_lock)) // rounding, where hardly any write
    }

    /// The mean time from one release to the next with `at_lock` cores there, where a section takes `section` and a
    /// hand-over to one that waits `handover`.
    pub(crate) fn time(self, at_lock: u32, section: f64, handover: f64) -> f64 {
        let all_read = self.all_read(at_lock);
        let together = self.together_beside_writer(at_lock);
        let sharing = all_read * section / f64::from(at_lock);
        let taking_turns = (1.0 - all_read) * (section + handover) / together;
        let inside = all_read * f64::from(at_lock) + (1.0 - all_read) * together;
        sharing + taking_turns + self.word * (1.0 - 1.0 / inside)
    }
}

/// One lock under a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockModel {
    /// a: the mean think time of a core, from a release to its next attempt. (The paper defines
    /// a as the time between acquisitions and uses it as this.)
    pub think: f64,
    /// s: the mean time in the critical section.
    pub service: Service,
    /// What a hand-over adds.
    pub handover: Handover,
    /// Set for a reader-writer lock.
    pub readers: Option<Readers>,
    /// Which form of the model is used.
    pub variant: Variant,
}

/// The long-run behaviour of a lock at one number of cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// n.
    pub cores: u32,
    /// Throughput relative to one core: (n - w)(a + s_1)/a, s_1 the critical section of a core alone.
    pub speedup: f64,
    /// The paper's n - w, in which a core alone is less than 1, since w counts the holder.
    pub away: f64,
    /// Acquisitions in a unit of time, of all cores.
    pub throughput: f64,
    /// s at this number of cores.
    pub service: f64,
}

impl LockModel {
    /// The solved chain of `cores` cores.
    ///
    /// The share of acquisitions that follow another core's comes from the chain itself: a core that waited follows
    /// another core for certain (unless who releases may come back first, as [`Handover::BackOffThenSleep`] says), and one that
    /// found the lock free follows itself once in n, each core being as likely to come next. Section and share depend on each other; the chain is solved again until they agree.
    ///
    /// # Errors
    ///
    /// Inputs that are not finite, negative, or not a share; no cores or too many.
    pub fn chain(&self, cores: u32) -> Result<Chain, ModelError> {
        self.settle(cores).map(|(chain, _)| chain)
    }

    /// The long-run behaviour at `cores` cores.
    ///
    /// # Errors
    ///
    /// As [`LockModel::chain`].
    pub fn at(&self, cores: u32) -> Result<Steady, ModelError> {
        let (chain, from_other) = self.settle(cores)?;
        let away = chain.away();
        Ok(Steady {
            cores,
            speedup: away * (1.0 + self.service.same / self.think),
            away,
            throughput: chain.throughput(),
            service: self.service.mean(from_other),
        })
    }

    /// Throughput relative to one core, at each of `cores`.
    ///
    /// # Errors
    ///
    /// As [`LockModel::chain`].
    pub fn curve(
        &self,
        label: impl Into<String>,
        cores: impl IntoIterator<Item = u32>,
    ) -> Result<Curve, ModelError> {
        let mut points = Vec::new();
        for cores in cores {
            points.push(Point::exact(cores, self.at(cores)?.speedup));
        }
        let curve =
            Curve::new(label, Unit::Speedup, Provenance::Predicted).lock(self.handover.family().name());
        Ok(curve
            .with_points(points)
            .expect("speed-ups are finite and callers give each number of cores once"))
    }

    fn check(&self) -> Result<(), ModelError> {
        positive("the think time", self.think)?;
        positive("the critical section after the same core", self.service.same)?;
        positive("the critical section after another core", self.service.other)?;
        self.readers.map_or(Ok(()), Readers::check)?;
        self.handover.check()
    }

    fn settle(&self, cores: u32) -> Result<(Chain, f64), ModelError> {
        /// Each round brings the share closer by the slope of a map that is flat but near a watershed.
        const ROUNDS: usize = 100;
        self.check()?;
        valid_cores(cores)?;
        let mut from_other = 1.0 - 1.0 / f64::from(cores);
        let mut chain = self.chain_with(cores, from_other)?;
        for _ in 0..ROUNDS {
            let returned = self.returned(&chain);
            let next = (1.0 - chain.found_free() / f64::from(cores) - returned).max(0.0);
            let moved = (next - from_other).abs();
            if moved < 1e-9 || self.service.same == self.service.other {
                from_other = next;
                break;
            }
            from_other = next;
            chain = self.chain_with(cores, from_other)?;
        }
        Ok((chain, from_other))
    }

    /// The share of the acquisitions by the core that released last, although others waited.
    fn returned(&self, chain: &Chain) -> f64 {
        let cores = chain.cores();
        let contenders = |at_lock| Contenders { at_lock, away: cores - at_lock, think: self.think };
        chain
            .releases()
            .zip(1..)
            .map(|(share, at_lock)| share * self.handover.returns(contenders(at_lock)))
            .sum()
    }

    fn chain_with(&self, cores: u32, from_other: f64) -> Result<Chain, ModelError> {
        let service = self.service.mean(from_other);
        let time = |at_lock| {
            let contenders = Contenders { at_lock, away: cores - at_lock, think: self.think };
            let handover = self.handover.time(contenders, self.variant);
            self.readers.map_or(service + handover, |readers| readers.time(at_lock, service, handover))
        };
        Chain::new(self.think, (1..=cores).map(time).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Family;
    use proptest::prelude::*;

    /// Fig. 3's MEMPOP: 6852 cycles an operation, 4 acquires of 121 cycles each.
    fn mempop(c: f64) -> LockModel {
        LockModel {
            think: 6852.0 / 4.0 - 121.0,
            service: Service::constant(121.0),
            handover: Handover::Ticket { waiter_cost: c },
            readers: None,
            variant: Variant::Waiters,
        }
    }

    #[test]
    fn mempop_with_c_near_200_has_the_published_height_and_end_but_peaks_early() {
        let curve = mempop(200.0).curve("", 1..=48).unwrap();
        let peak = curve.peak().unwrap();
        assert_eq!(peak.cores, 6);
        assert!((peak.value - 4.8).abs() < 0.05, "{peak:?}");
        assert!((curve.at(48).unwrap().value - 0.35).abs() < 0.01);
    }

    #[test]
    fn twice_c_in_the_text_is_formula_one_but_for_the_index() {
        let text = LockModel { variant: Variant::Waiters, ..mempop(400.0) };
        let balanced = LockModel { variant: Variant::FormulaBalanced, ..mempop(200.0) };
        let printed = LockModel { variant: Variant::Formula, ..mempop(200.0) };
        for cores in [2, 6, 48] {
            assert_eq!(text.at(cores), balanced.at(cores));
            assert!(printed.at(cores).unwrap().speedup < text.at(cores).unwrap().speedup);
        }
    }

    #[test]
    fn one_core_is_one_and_its_own_last_holder() {
        let lock = LockModel { service: Service { same: 121.0, other: 350.0 }, ..mempop(200.0) };
        let one = lock.at(1).unwrap();
        assert!((one.speedup - 1.0).abs() < 1e-12);
        assert!(one.away < 1.0, "the paper's speed-up counts the holder as waiting");
        assert!(lock.settle(1).unwrap().1.abs() < 1e-12);
        assert!((one.service - 121.0).abs() < 1e-9);
    }

    #[test]
    fn without_hand_over_cost_throughput_tends_to_amdahls_limit() {
        let lock = LockModel { handover: Handover::Queue { transfer: 0.0 }, ..mempop(0.0) };
        let amdahl_limit = (lock.think + 121.0) / 121.0;
        let speedup = lock.at(1000).unwrap().speedup;
        assert!((speedup / amdahl_limit - 1.0).abs() < 1e-9, "{speedup} {amdahl_limit}");
        // Before it, the law is the lower: it forbids think time while the lock is held.
        assert!(lock.at(8).unwrap().speedup > crate::laws::amdahl(1.0 / amdahl_limit, 8));
    }

    #[test]
    fn the_section_grows_from_its_own_to_another_cores_value() {
        let lock = LockModel { service: Service { same: 121.0, other: 350.0 }, ..mempop(50.0) };
        let service: Vec<f64> = [1, 2, 4, 10, 48].map(|cores| lock.at(cores).unwrap().service).to_vec();
        assert!(service.is_sorted(), "{service:?}");
        assert!(service[1] > 121.0 + 0.49 * 229.0, "two cores take turns at least half of the time");
        assert!(service[4] > 349.0 && service[4] <= 350.0);
    }

    #[test]
    fn readers_together_outrun_writers_until_the_word_is_the_limit() {
        let lock = |share| LockModel {
            handover: Handover::Queue { transfer: 10.0 },
            readers: Some(Readers { share, word: 20.0 }),
            ..mempop(0.0)
        };
        let exclusive = LockModel { readers: None, ..lock(0.0) };
        assert!((lock(0.0).at(32).unwrap().speedup - exclusive.at(32).unwrap().speedup).abs() < 1e-9);
        let throughputs: Vec<f64> =
            [0.0, 0.5, 0.9, 1.0].map(|share| lock(share).at(400).unwrap().throughput).to_vec();
        assert!(throughputs.is_sorted());
        assert!((throughputs[3] - 1.0 / 20.0).abs() < 0.002, "all readers: one word change every 20");
    }

    /// Readers of an empty section alone: no writer, so no reader sleeps, and only the word's line limits them.
    #[test]
    fn readers_alone_wait_for_the_words_line_and_for_nothing_else() {
        let lock = LockModel {
            handover: Handover::Blocking { wake: 1e6, barging: true },
            readers: Some(Readers { share: 1.0, word: 100.0 }),
            ..mempop(0.0)
        };
        let speedup = |cores| lock.at(cores).unwrap().speedup;
        assert!(speedup(2) > 1.9, "few readers share: {}", speedup(2));
        let saturated = (lock.think + lock.service.same) / 100.0;
        assert!(speedup(400) < saturated && speedup(400) > 0.98 * saturated, "{} {saturated}", speedup(400));
    }

    /// `kccachetest order -th 2`, by its profiles on one and two threads: each write ends in two wake-ups. Measured, 0.18.
    #[test]
    fn few_writers_among_readers_bring_a_lock_down_that_sleeps() {
        let lock = |share| LockModel {
            think: 378.0,
            service: Service { same: 165.0, other: 509.0 },
            handover: Handover::Blocking { wake: 14_000.0, barging: true },
            readers: Some(Readers { share, word: 100.0 }),
            variant: Variant::Waiters,
        };
        let two = |share| lock(share).at(2).unwrap().speedup;
        assert!(two(0.95) < 0.6, "{}", two(0.95));
        assert!(two(1.0) > 0.9, "{}", two(1.0));
    }

    #[test]
    fn waiters_that_back_off_leave_the_lock_to_the_core_that_has_its_data() {
        let lock = |handover| LockModel {
            think: 100.0,
            service: Service { same: 50.0, other: 250.0 },
            handover,
            readers: None,
            variant: Variant::Waiters,
        };
        let back_off_then_sleep = lock(Handover::BackOffThenSleep { poll: 3000.0 });
        let speedup = back_off_then_sleep.at(2).unwrap().speedup;
        assert!(speedup > 0.85 && speedup < 1.1, "{speedup}");
        let (_, from_other) = back_off_then_sleep.settle(2).unwrap();
        assert!(from_other < 0.3, "{from_other}");
        assert!(lock(Handover::Blocking { wake: 5000.0, barging: true }).at(2).unwrap().speedup < 0.3);
    }

    fn any_lock() -> impl Strategy<Value = LockModel> {
        let time = || (-9.0f64..12.0).prop_map(|exponent| 10f64.powf(exponent));
        let handover =
            (0..6usize, time(), time(), any::<bool>()).prop_map(|(family, cost, delay, barging)| {
                match Family::ALL[family] {
                    Family::Ticket => Handover::Ticket { waiter_cost: cost },
                    Family::TestAndSet => Handover::TestAndSet { waiter_cost: cost },
                    Family::BackOff => Handover::BackOff { waiter_cost: cost, delay },
                    Family::Queue => Handover::Queue { transfer: cost },
                    Family::Blocking => Handover::Blocking { wake: cost, barging },
                    Family::BackOffThenSleep => Handover::BackOffThenSleep { poll: cost },
                }
            });
        let readers =
            proptest::option::of((0.0..=1.0, time()).prop_map(|(share, word)| Readers { share, word }));
        (time(), time(), 1.0..1e6f64, handover, readers, 0..Variant::ALL.len()).prop_map(
            |(think, same, growth, handover, readers, variant)| LockModel {
                think,
                service: Service { same, other: same * growth },
                handover,
                readers,
                variant: Variant::ALL[variant],
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn extreme_locks_stay_finite(lock in any_lock(), cores in prop_oneof![1u32..64, Just(4096u32)]) {
            let (chain, from_other) = lock.settle(cores).unwrap();
            let total: f64 = chain.probabilities().sum();
            prop_assert!((total - 1.0).abs() < 1e-9, "{total}");
            let steady = lock.at(cores).unwrap();
            prop_assert!(steady.speedup.is_finite() && steady.speedup > 0.0);
            let at_lock: f64 = (0..=cores).zip(chain.probabilities()).map(|(k, p)| f64::from(k) * p).sum();
            prop_assert!((at_lock + chain.away() - f64::from(cores)).abs() < 1e-6 * f64::from(cores));
            prop_assert!((0.0..=1.0).contains(&from_other));
            // What comes to the lock leaves it. The probabilities carry rounding of their exponents, which reach
            // tens of thousands.
            let served: f64 = chain.throughput();
            let limit = f64::from(cores) / lock.think;
            prop_assert!(served <= limit * (1.0 + 1e-9));
        }

        #[test]
        fn a_costlier_waiter_never_helps(lock in any_lock(), cores in 1u32..200, cost in 0.0..1e6f64, more in 1.0..100.0f64) {
            // One that polls more seldom leaves the lock to the core that has its data.
            prop_assume!(lock.handover.family() != Family::BackOffThenSleep);
            let at = |cost| LockModel { handover: lock.handover.with_cost(cost), ..lock }.at(cores).unwrap().throughput;
            prop_assert!(at(cost * more) <= at(cost) * (1.0 + 1e-6));
        }

        #[test]
        fn constant_hand_over_never_falls_with_cores(think in 1.0..1e6f64, s in 1.0..1e4f64, cores in 1u32..300) {
            let lock = LockModel {
                think,
                service: Service::constant(s),
                handover: Handover::Queue { transfer: 0.0 },
                readers: None,
                variant: Variant::Waiters,
            };
            let (fewer, more) = (lock.at(cores).unwrap(), lock.at(cores + 1).unwrap());
            prop_assert!(more.throughput >= fewer.throughput * (1.0 - 1e-12));
        }
    }

    #[test]
    fn impossible_inputs_are_refused() {
        for lock in [
            LockModel { think: f64::INFINITY, ..mempop(1.0) },
            LockModel { service: Service { same: 1.0, other: -1.0 }, ..mempop(1.0) },
            LockModel { readers: Some(Readers { share: 1.5, word: 0.0 }), ..mempop(1.0) },
            mempop(-1.0),
            mempop(f64::NAN),
        ] {
            assert!(lock.at(2).is_err(), "{lock:?}");
        }
        assert!(mempop(1.0).at(0).is_err() && mempop(1.0).at(4097).is_err());
    }
}
