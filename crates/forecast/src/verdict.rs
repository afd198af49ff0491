//! What becomes of throughput with more threads, with its probability.
//!
//! A forecast is a curve with an error whose distribution is known. Curves drawn from that distribution are judged one by one, and the
//! verdict is what most of them do, with the share that do it.

use serde::Serialize;
use std::fmt;

/// What throughput does with more threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It falls under 90 % of its peak.
    Collapses,
    /// It reaches its peak, and stays over 90 % of it.
    LevelsOff,
    /// It still rises at the most threads.
    Rises,
    /// It does not collapse; whether it still rises is not decided.
    Holds,
}

/// A number of threads, in the range that four of five drawn curves lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Threads {
    /// The fewest.
    pub low: u32,
    /// The median.
    pub likely: u32,
    /// The most.
    pub high: u32,
}

/// What becomes of throughput.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Verdict {
    /// The likeliest outcome.
    pub kind: Kind,
    /// Where it begins: the first number of threads past the peak with less than 90 % of it, or the peak.
    pub at: Threads,
    /// The probability of `kind`.
    pub probability: f64,
    /// The probability that throughput collapses.
    pub collapses: f64,
    /// The share of the drawn curves that collapse, which the probability is calibrated from.
    #[serde(skip)]
    pub(crate) drawn: f64,
    /// Whether a measurement on several threads fixes the forecast, by which the probability is calibrated.
    #[serde(skip)]
    pub(crate) anchored: bool,
    /// Whether the measurements alone show it.
    pub measured: bool,
}

/// Less is uncertain.
pub const DECIDED: f64 = 0.7;

/// Throughput under this share of the peak has collapsed.
const COLLAPSED: f64 = 0.9;

/// Throughput that grows by less from half of the threads to all of them has levelled off.
const GROWTH: f64 = 1.1;

impl Verdict {
    /// Whether it is more than a guess.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.measured || self.probability >= DECIDED
    }

    /// The verdict on `curves`, drawn alike from the distribution of a forecast: each has a value for every number of `threads`,
    /// which ascend. `calibrated` makes of the share that collapses a probability that comes true as often as it says.
    ///
    /// # Panics
    ///
    /// There is no curve, or no number of threads.
    #[must_use]
    pub fn of(threads: &[u32], curves: &[Vec<f64>], calibrated: impl Fn(f64) -> f64) -> Self {
        let outcomes: Vec<(Kind, u32)> = curves.iter().map(|values| outcome(threads, values)).collect();
        let share = |kind: Kind| {
            outcomes.iter().filter(|(one, _)| *one == kind).count() as f64 / outcomes.len() as f64
        };
        let [drawn, levels_off, rises] = [Kind::Collapses, Kind::LevelsOff, Kind::Rises].map(share);
        let collapses = calibrated(drawn);
        let holds = 1.0 - collapses;
        let [levels_off, rises] =
            [levels_off, rises].map(|share| holds * share / (1.0 - drawn).max(f64::MIN_POSITIVE));
        let (kind, probability) = if collapses > 0.5 {
            (Kind::Collapses, collapses)
        } else if levels_off.max(rises) >= DECIDED || holds < DECIDED {
            if rises > levels_off { (Kind::Rises, rises) } else { (Kind::LevelsOff, levels_off) }
        } else {
            (Kind::Holds, holds)
        };
        // What is uncertain is told by whether it collapses, which is what the question was.
        let (kind, probability) = if probability < DECIDED && kind != Kind::Collapses {
            (Kind::Collapses, collapses)
        } else {
            (kind, probability)
        };
        let mut places: Vec<u32> =
            outcomes.iter().filter(|(one, _)| matches(kind, *one)).map(|(_, at)| *at).collect();
        places.sort_unstable();
        let last = threads[threads.len() - 1];
        let place = |share: f64| places.get((share * places.len() as f64) as usize).copied().unwrap_or(last);
        let at = Threads { low: place(0.1), likely: place(0.5), high: place(0.9) };
        Self { kind, at, probability, collapses, drawn, anchored: false, measured: false }
    }
}

fn matches(kind: Kind, outcome: Kind) -> bool {
    kind == outcome || kind == Kind::Holds && outcome != Kind::Collapses
}

/// What one curve does, and where.
pub(crate) fn outcome(threads: &[u32], values: &[f64]) -> (Kind, u32) {
    let peak = (0..values.len()).reduce(|a, b| if values[b] > values[a] { b } else { a }).unwrap_or(0);
    let fell = (peak + 1..values.len()).find(|&place| values[place] < COLLAPSED * values[peak]);
    if let Some(place) = fell {
        return (Kind::Collapses, threads[place]);
    }
    let last = values.len() - 1;
    let half = (0..last).rev().find(|&place| threads[place] <= threads[last] / 2);
    let is_level = match half {
        Some(half) => values[last] < GROWTH * values[half],
        // Without half of the threads to compare with, it rises where it does more than on the fewest.
        None => last > 0 && values[last] <= values[0],
    };
    if !is_level {
        return (Kind::Rises, threads[last]);
    }
    // Where it first is as good as at its peak.
    let level = values.iter().position(|&value| value * GROWTH > values[peak]).unwrap_or(peak);
    (Kind::LevelsOff, threads[level])
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.probability;
        if !self.is_decided() {
            // Rounded up it could be as much as what is decided.
            return write!(
                out,
                "uncertain: {:.0} % collapses",
                (100.0 * self.collapses).min(100.0 * DECIDED - 1.0)
            );
        }
        let Threads { low, likely, high } = self.at;
        match self.kind {
            Kind::Collapses if low < high => write!(out, "collapses at {likely} ({low} to {high})")?,
            Kind::Collapses => write!(out, "collapses at {likely}")?,
            Kind::LevelsOff if likely > 1 => write!(out, "rises to {likely}, then level")?,
            Kind::LevelsOff => write!(out, "level")?,
            Kind::Rises if likely > 1 => write!(out, "still rises at {likely}")?,
            Kind::Rises => return write!(out, "one thread alone"),
            Kind::Holds => write!(out, "no collapse")?,
        }
        if self.measured { write!(out, ", measured") } else { write!(out, ", {percent:.0} %") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curves(of: &[(usize, [f64; 4])]) -> Vec<Vec<f64>> {
        of.iter().flat_map(|(count, values)| std::iter::repeat_n(values.to_vec(), *count)).collect()
    }

    #[test]
    fn a_verdict_is_what_most_curves_do_and_uncertain_where_too_few_do() {
        let threads = [1, 2, 4, 8];
        let of = |curves: Vec<Vec<f64>>| Verdict::of(&threads, &curves, |share| share).to_string();
        let early = [1.0, 0.5, 0.5, 0.5];
        let late = [1.0, 1.8, 3.0, 1.0];
        let level = [1.0, 1.9, 1.95, 1.9];
        let rises = [1.0, 1.9, 3.7, 7.0];
        assert_eq!(of(curves(&[(20, early), (73, late), (7, rises)])), "collapses at 8 (2 to 8), 93 %");
        assert_eq!(of(curves(&[(88, level), (12, early)])), "rises to 2, then level, 88 %");
        assert_eq!(of(curves(&[(60, early), (40, rises)])), "uncertain: 60 % collapses");
        assert_eq!(of(curves(&[(40, early), (60, rises)])), "uncertain: 40 % collapses");
        assert_eq!(of(curves(&[(698, early), (302, rises)])), "uncertain: 69 % collapses");
        assert_eq!(of(curves(&[(50, level), (45, rises), (5, early)])), "no collapse, 95 %");
        assert_eq!(of(curves(&[(100, rises)])), "still rises at 8, 100 %");
        assert_eq!(of(curves(&[(100, [1.0; 4])])), "level, 100 %");
    }

    #[test]
    fn what_falls_a_little_does_not_rise_where_half_of_the_threads_was_not_asked_for() {
        assert_eq!(outcome(&[5, 8], &[1.0, 0.95]), (Kind::LevelsOff, 5));
        assert_eq!(outcome(&[5, 8], &[1.0, 1.4]), (Kind::Rises, 8));
        assert_eq!(outcome(&[5, 8], &[1.0, 0.8]), (Kind::Collapses, 8));
        assert_eq!(outcome(&[8], &[1.0]), (Kind::Rises, 8), "there is nothing to compare with");
    }
}
