//! One program under several locks: runs in rounds, and what chance explains of their differences.

pub mod comparison;
pub mod rounds;
pub mod statistics;
pub mod trial;

pub use comparison::{Compared, Comparison, candidates, swaps};
