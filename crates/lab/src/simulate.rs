//! Workloads under locks on the simulated machine.

pub mod back_off;
pub mod sweep;

pub use sweep::{Measured, Setup, curve, sweep, sweep_or};
