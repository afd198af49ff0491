//! Workloads under locks on the simulated machine.

pub mod back_off;
pub mod experiment;
pub mod futex_table;
pub mod seeds;
pub mod sweep;

pub use experiment::{Experiment, run_table, transaction_table, unstable_locks, workload_table};
pub use futex_table::with_futex_table;
pub use seeds::{SeededRuns, sweep_seeds_or};
pub use sweep::{NO_LOCK, Setup, SimulatedRun, curve, sweep, sweep_or};
