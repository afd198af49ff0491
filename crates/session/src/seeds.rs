//! Seeds of simulations that are repeated, and whether their figures agree.

use std::fmt;

/// Runs, each with a seed of its own, behind every simulated figure that is shown.
pub const SEEDS: u32 = 5;

/// Past this factor between the least and the greatest of several seeds, a figure is unstable.
pub const UNSTABLE: f64 = 2.0;

/// Whether figures that lie between these two, one for each seed, differ so much that their median means little.
pub fn disagree(low: f64, high: f64) -> bool {
    high > UNSTABLE * low
}

/// Seeds that follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// The first one.
    pub first: u64,
    /// How many there are, at least 1.
    pub count: u32,
}

impl Seeds {
    /// The seeds in ascending order; after the greatest number comes 0.
    pub fn iter(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |number| self.first.wrapping_add(number.into()))
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 | 1 => write!(to, "seed {}", self.first),
            count => write!(to, "seeds {} to {}", self.first, self.first.wrapping_add((count - 1).into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_follow_one_another_and_say_so() {
        let seeds = |first, count| Seeds { first, count };
        assert_eq!(seeds(7, 3).iter().collect::<Vec<_>>(), [7, 8, 9]);
        assert_eq!(seeds(u64::MAX, 2).iter().collect::<Vec<_>>(), [u64::MAX, 0]);
        assert_eq!(seeds(7, 3).to_string(), "seeds 7 to 9");
        assert_eq!(seeds(7, 1).to_string(), "seed 7");
    }

    #[test]
    fn figures_disagree_past_twice_the_least() {
        assert!(!disagree(1.0, 2.0) && disagree(1.0, 2.1));
        assert!(disagree(0.0, 1.0) && !disagree(0.0, 0.0));
    }
}
