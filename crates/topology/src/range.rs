//! Numbers that are known within bounds.

use serde::{Deserialize, Serialize};

/// A number that is known to lie between two others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The least it may be.
    pub low: f64,
    /// What it most likely is.
    pub likely: f64,
    /// The most it may be.
    pub high: f64,
}

impl Range {
    /// A number that is known.
    pub fn exact(value: f64) -> Self {
        Self { low: value, likely: value, high: value }
    }

    /// Each end times `factor`, which is not negative.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { low: self.low * factor, likely: self.likely * factor, high: self.high * factor }
    }

    /// The product of two ranges of positive numbers.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self { low: self.low * other.low, likely: self.likely * other.likely, high: self.high * other.high }
    }

    /// The sum of two ranges.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { low: self.low + other.low, likely: self.likely + other.likely, high: self.high + other.high }
    }
}
