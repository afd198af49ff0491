//! A ratio of base and candidate, and the verdict on it. Pure.

use crate::statistics::{Better, LikelyRatio, likely_ratio, spread};
use report::Spread;

/// A share under this, and fewer acquisitions for one operation, count as this: what is that small holds no thread up, and its
/// ratios say nothing.
pub(super) const LEAST_SHARE: f64 = 0.01;

/// What is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// How many times as fast the program is as on the least number of threads.
    Scaling,
    /// The part of all acquisitions that waited.
    ContendedShare,
    /// How often locks are acquired for one operation.
    Acquisitions,
    /// The part of its threads' time in which one lock was held, without their waits for it.
    HeldShare,
}

impl Kind {
    /// A few words for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scaling => "scaling",
            Self::ContendedShare => "contended share",
            Self::Acquisitions => "acquisitions per operation",
            Self::HeldShare => "held share",
        }
    }

    /// Whether it is shown to be worse by runs beside other programs, too. Those of base and candidate are interleaved, so that both
    /// have the same load.
    pub fn is_judged_under_load(self) -> bool {
        match self {
            Self::Acquisitions => true,
            Self::Scaling | Self::ContendedShare | Self::HeldShare => false,
        }
    }
}

/// What the runs say of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Not worse by more than may be.
    Pass,
    /// Worse by more than may be.
    Worse,
    /// The range holds both.
    CannotTell,
}

impl Verdict {
    /// A few words for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Worse => "worse",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// A ratio of base and of candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    /// What it is.
    pub kind: Kind,
    /// The lock, where it is of one.
    pub site: Option<String>,
    /// Numbers of threads that it is of; none if nothing in the command stands for them.
    pub threads: Option<u32>,
    /// Of the base, by round.
    pub base: Vec<Option<f64>>,
    /// Of the candidate, by round.
    pub candidate: Vec<Option<f64>>,
    /// How many times as good as the base the candidate is; none where one has no value.
    pub times_base: Option<LikelyRatio>,
    /// What that says.
    pub verdict: Verdict,
}

impl Ratio {
    /// Judges a ratio that may be worse by `worse_by` of itself.
    pub fn judged(
        kind: Kind,
        site: Option<String>,
        threads: Option<u32>,
        [base, candidate]: [Vec<Option<f64>>; 2],
        better: Better,
        worse_by: f64,
    ) -> Self {
        let least = if kind == Kind::Scaling { 0.0 } else { LEAST_SHARE };
        let counted = |values: &[Option<f64>]| -> Vec<Option<f64>> {
            values.iter().map(|value| value.map(|value| value.max(least))).collect()
        };
        let times_base = likely_ratio(&counted(&base), &counted(&candidate), better);
        let bound = least_times_base(worse_by);
        let verdict = match times_base.map(|likely| likely.range) {
            Some(Spread { high, .. }) if high < bound => Verdict::Worse,
            Some(Spread { low, .. }) if low >= bound => Verdict::Pass,
            _ => Verdict::CannotTell,
        };
        Self { kind, site, threads, base, candidate, times_base, verdict }
    }

    /// Medians and ranges of base and candidate.
    pub fn spreads(&self) -> [Option<Spread>; 2] {
        [&self.base, &self.candidate]
            .map(|values| spread(&values.iter().flatten().copied().collect::<Vec<_>>()))
    }

    /// Why there is nothing to judge, if so.
    pub fn missing(&self) -> Option<String> {
        let who = match self.spreads() {
            // Of a base that does no work on many threads; shares are never so small.
            [Some(_), Some(_)] if self.times_base.is_none() => {
                return Some("the base has a run with the figure 0, to which there is no ratio".to_owned());
            }
            [Some(_), Some(_)] => return None,
            [None, None] => "base and candidate",
            [None, _] => "the base",
            [_, None] => "the candidate",
        };
        let what = match self.kind {
            Kind::Scaling => "finished no round with a figure above 0",
            Kind::ContendedShare => "took no lock",
            Kind::Acquisitions => "took no lock, or counted no operations",
            Kind::HeldShare => "did not take this lock",
        };
        Some(format!("{who} {what}"))
    }

    /// A name of its own among the ratios of a gate.
    pub fn name(&self) -> String {
        let site = self.site.as_ref().map_or(String::new(), |site| format!(" of {site}"));
        let threads = self.threads.map_or(String::new(), |threads| format!(", {threads} threads"));
        format!("{}{site}{threads}", self.kind.name())
    }
}

/// So many times as good as the base is the least that passes.
pub(super) fn least_times_base(worse_by: f64) -> f64 {
    1.0 / (1.0 + worse_by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::{Draws, KINDS_OF_NOISE, Noise, interleaved};

    fn some(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    fn share(base: &[f64], candidate: &[f64]) -> Ratio {
        let sides = [some(base), some(candidate)];
        Ratio::judged(Kind::HeldShare, Some("cache".into()), Some(4), sides, Better::Lower, 0.05)
    }

    /// About one, by so much apart.
    fn around(middle: f64, apart: f64) -> Vec<f64> {
        (0..10).map(|run| middle + apart * (f64::from(run) - 4.5)).collect()
    }

    #[test]
    fn a_ratio_is_worse_only_past_its_range_and_what_is_allowed() {
        for (base, candidate, verdict) in [
            (around(0.30, 0.0005), around(0.36, 0.0005), Verdict::Worse),
            (around(0.30, 0.0005), around(0.30, 0.0005), Verdict::Pass),
            (around(0.30, 0.0005), around(0.20, 0.0005), Verdict::Pass),
            (around(0.30, 0.0005), around(0.308, 0.0002), Verdict::Pass), // worse, but by under 5 %
            (around(0.30, 0.02), around(0.31, 0.02), Verdict::CannotTell),
            (around(0.30, 0.0005), around(0.315, 0.0005), Verdict::CannotTell), // 5 %
        ] {
            let judged = share(&base, &candidate);
            assert_eq!(judged.verdict, verdict, "{judged:?}");
        }
    }

    #[test]
    fn more_is_better_of_scaling_and_less_of_shares() {
        let [slow, fast] = [around(2.0, 0.001), around(3.0, 0.001)].map(|values| some(&values));
        let of = |sides| Ratio::judged(Kind::Scaling, None, Some(4), sides, Better::Higher, 0.05).verdict;
        assert_eq!(of([fast.clone(), slow.clone()]), Verdict::Worse);
        assert_eq!(of([slow, fast]), Verdict::Pass);
    }

    #[test]
    fn a_candidate_that_does_no_work_is_worse() {
        let [base, none] = [around(2.0, 0.001), vec![0.0; 10]].map(|values| some(&values));
        let judged = Ratio::judged(Kind::Scaling, None, Some(4), [base, none], Better::Higher, 0.05);
        assert_eq!(judged.verdict, Verdict::Worse);
    }

    #[test]
    fn beside_a_base_that_does_no_work_there_is_nothing_to_judge_and_it_is_said_why() {
        let sides = [some(&[2.0, 0.0]), some(&[2.0, 2.0])];
        let judged = Ratio::judged(Kind::Scaling, None, Some(4), sides, Better::Higher, 0.05);
        assert_eq!(judged.verdict, Verdict::CannotTell);
        assert!(judged.missing().is_some_and(|why| why.contains("the figure 0")), "{judged:?}");
    }

    #[test]
    fn the_least_shares_are_alike() {
        assert_eq!(share(&[0.0; 5], &[0.0; 5]).verdict, Verdict::Pass);
        assert_eq!(share(&[0.0001; 5], &[0.009; 5]).verdict, Verdict::Pass, "90 times as much of nothing");
        assert_eq!(share(&[0.0; 5], &[0.02; 5]).verdict, Verdict::Worse);
    }

    /// How often of 200 times a candidate that takes `factor` times as long is worse, under a kind of noise.
    fn worse_of_200(noise: Noise, factor: f64) -> usize {
        let mut draws = Draws::new(5);
        let worse = |_: &usize| {
            let sides = interleaved(&mut draws, noise, 10, factor);
            let judged = Ratio::judged(Kind::ContendedShare, None, Some(4), sides, Better::Lower, 0.05);
            judged.verdict == Verdict::Worse
        };
        (0..200).filter(worse).count()
    }

    #[test]
    fn no_change_is_worse_under_no_noise_and_a_fifth_more_is() {
        for (kind, noise) in KINDS_OF_NOISE {
            let worse = worse_of_200(noise, 1.0);
            assert!(worse <= 2, "{kind}: {worse} of 200");
        }
        let (kind, noise) = KINDS_OF_NOISE[0];
        let caught = worse_of_200(noise, 1.2);
        assert!(caught >= 190, "{kind}: {caught} of 200");
    }

    #[test]
    fn one_stored_profile_is_refuted_by_no_five_runs_but_by_the_range_of_all() {
        let judged = share(&[0.3], &around(0.4, 0.001));
        assert_eq!(judged.verdict, Verdict::Worse);
        let chance = judged.times_base.expect("both have values").chance;
        assert!((chance - 2.0 / 11.0).abs() < 1e-12, "{chance}");
    }

    #[test]
    fn what_one_side_lacks_is_not_judged_and_said() {
        for (base, candidate, why) in [
            // A lock that is new is not among these: its share in the base is 0.
            (&[][..], &[0.5][..], "the base did not take this lock"),
            (&[0.5], &[], "the candidate did not take this lock"),
            (&[], &[], "base and candidate did not take this lock"),
        ] {
            let judged = share(base, candidate);
            assert_eq!((judged.verdict, judged.missing().as_deref()), (Verdict::CannotTell, Some(why)));
        }
        assert_eq!(share(&[0.5], &[0.5]).missing(), None);
    }

    #[test]
    fn a_new_lock_is_worse_above_the_least_share() {
        for (held, verdict) in [(0.5, Verdict::Worse), (0.02, Verdict::Worse), (0.009, Verdict::Pass)] {
            let judged = share(&[0.0; 5], &around(held, 0.0001));
            assert_eq!((judged.verdict, judged.missing()), (verdict, None), "{judged:?}");
        }
    }
}
