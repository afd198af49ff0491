//! Workloads and lock clients, generic over machine and lock.
//!
//! A workload is written once and runs on every machine, with every lock of the catalogue:
//!
//! ```
//! use contend_workloads::{Load, catalogue};
//! use machine::Native;
//!
//! let counter = catalogue::find("counter").unwrap();
//! let load = Load { threads: 2, duration_ns: 100_000_000, ..Load::default() };
//! let run = catalogue::run::<Native>(counter, "ticket", &load).unwrap();
//! assert!(run.operations() > 0);
//! ```

pub mod aim7;
pub mod catalogue;
pub mod client;
mod dentry;
pub mod exclusion;
mod false_sharing;
mod fserver;
mod ipc;
mod list;
pub mod mix;
pub mod mount_table;
mod random;
pub mod section;
mod series;
pub mod transactional;

pub use catalogue::{WORKLOADS, Workload};
pub use random::{Random, Variation};

use machine::{Home, Machine, PlainCell, Plan};

/// How a workload is run.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// Threads.
    pub threads: usize,
    /// The core of each thread; empty leaves them to the machine.
    pub cores: &'a [u32],
    /// For how long, in nanoseconds of the machine.
    pub duration_ns: u64,
    /// Decides all random times.
    pub seed: u64,
    /// Where the lock lies.
    pub home: Home,
    /// Cycles of work in the critical section, instead of the workload's own.
    pub section_cycles: Option<u64>,
    /// Cycles of think time, instead of the workload's own.
    pub think_cycles: Option<u64>,
    /// Sections that each acquisition holds the lock for, instead of the workload's own, where it has several in an operation.
    pub batch: Option<u64>,
    /// How the section's work varies.
    pub section_spread: Variation,
    /// How the think time varies.
    pub think_spread: Variation,
    /// Nanoseconds that a thread sleeps between two operations, on average and besides its think time, in which it keeps its core:
    /// of `fserver` alone.
    pub sleep_ns: u64,
    /// The real-time priority of each thread, as in a [`Plan`].
    pub priorities: &'a [u8],
}

impl Load<'_> {
    pub(crate) fn plan(&self) -> Plan<'_> {
        let (cores, priorities) = (self.cores, self.priorities);
        Plan { cores, priorities, ..Plan::threads(self.threads).lasting(self.duration_ns) }
    }
}

impl Default for Load<'_> {
    fn default() -> Self {
        Self {
            threads: 1,
            cores: &[],
            duration_ns: 1_000_000,
            seed: 1,
            home: Home::FirstTouch,
            section_cycles: None,
            think_cycles: None,
            batch: None,
            section_spread: Variation::Fixed,
            think_spread: Variation::Exponential,
            sleep_ns: 0,
            priorities: &[],
        }
    }
}

/// A shared line that critical sections write.
pub(crate) struct SharedLine<M: Machine>(M::Cell<u64>);

impl<M: Machine> SharedLine<M> {
    pub(crate) const NEW: Self = Self(M::Cell::ZERO);

    /// Writes it without reading it first, so that a line in another cache costs one transfer.
    pub(crate) fn touch(&self) {
        self.0.set(1);
    }

    pub(crate) fn look(&self) {
        std::hint::black_box(self.0.get());
    }
}
