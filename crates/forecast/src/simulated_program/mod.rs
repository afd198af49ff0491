//! The simulated program: a program of the profiled one's kind, run on the simulated target machine with the locks' own code.
//!
//! The profile gives each hot lock's critical section, on the same core and after another one, with its spread; how the think time
//! is spread; the share of reads; and in which ratio the locks are taken. What it does not give is the order of the locks in an
//! operation: one operation is one acquisition of the lock in question, and the others come evenly between, or
//! evenly within its sections where the profile has seen them acquired there, or only they leave time for them. A section
//! grows on another core by what its lines cost, so that the difference of the two times, over the cost of a transfer where
//! the profile was taken, is the number of lines that the simulated section touches.
//!
//! With more threads than cores the locks wait as the preload library has them wait: they sleep after a bound.
//!
//! Runs are repeated with other seeds, every second one from a start with all threads at the locks: where a lock lingers
//! between working and collapsed, the range shows it. Besides, one run each has all ranges (of the profile's times and of the
//! machine's costs) at the optimistic and at the pessimistic end. All of it is decided by profile, machine and seed.

mod blueprint;
mod conditions;
mod durations;
mod program;
mod random;
mod recorder;
mod run;
mod stage;
#[cfg(test)]
mod tests;

pub use blueprint::{Blueprint, Hot, lock_for, own_lock};
pub use run::{Run, Simulated, SimulatedPoint, run};
pub use stage::Stage;

use session::seeds::SEEDS;

/// How the simulated program is run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Numbers of threads, ascending, with 1 among them. As many cores are used as there are.
    pub threads: Vec<u32>,
    /// The random seed.
    pub seed: u64,
    /// Runs of each point with the likely values.
    pub replications: u32,
    /// Whether the ends of the ranges are run, too.
    pub ends: bool,
    /// A candidate takes the place of every lock that it can replace, as `contend run --lock` does it; else of the first alone.
    pub everywhere: bool,
}

impl Plan {
    /// These numbers of threads, and 1.
    #[must_use]
    pub fn of(threads: &[u32], seed: u64) -> Self {
        let mut threads: Vec<u32> = threads.iter().copied().chain([1]).collect();
        threads.sort_unstable();
        threads.dedup();
        Self { threads, seed, replications: SEEDS, ends: true, everywhere: false }
    }
}

/// Powers of two up to `last`, between 8 and 64 the numbers halfway, and the last number.
#[must_use]
pub fn doublings(last: u32) -> Vec<u32> {
    let powers = (0..32).map(|power| 1 << power);
    let mut threads: Vec<u32> = powers.chain([12, 24, 48]).filter(|&n| n < last).collect();
    threads.push(last.max(1));
    threads.sort_unstable();
    threads
}
