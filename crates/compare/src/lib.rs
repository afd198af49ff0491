//! One program under several locks: runs in rounds, and what chance explains of their differences.
//!
//! [`gate`] holds a program's candidate against its base, by ratios that do not depend on the machine; [`calibrate`] measures what
//! hand-overs cost on this machine, as a machine file.

pub mod calibrate;
pub mod comparison;
pub mod gate;
pub mod rounds;
pub mod statistics;
pub mod trial;

pub use comparison::{Compared, Comparison, candidates, swaps};
