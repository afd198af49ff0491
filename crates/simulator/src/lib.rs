//! A cache-coherent machine of 1 to 1,024 cores, simulated.
//!
//! [`Simulated`] implements [`machine::Machine`], so that the shipped locks and workloads run on it as they are. A
//! [`Simulation`] is one such machine, made of a machine file; what runs inside it is deterministic for a seed.
//!
//! ```
//! use contend_simulator::{Hardware, Simulated, Simulation};
//! use machine::{Home, Integer, Machine, Ordering::Relaxed, Placed, Plan, Word};
//!
//! # let file = topology::carried::machine("dl580");
//! let hardware = Hardware::new(&file).unwrap();
//! let (total, report) = Simulation::new(&hardware)
//!     .run(|| {
//!         let word = Placed::<_, Simulated>::new(<Simulated as Machine>::U64::ZERO, Home::Node(0));
//!         Simulated::run(&Plan::threads(60), &|_| {
//!             for _ in 0..100 {
//!                 word.fetch_add(1, Relaxed);
//!             }
//!         });
//!         word.load(Relaxed)
//!     })
//!     .unwrap();
//! assert_eq!(total, 6000);
//! assert!(report.all_lines.all_misses() > 60);
//! ```
//!
//! The machine is sequentially consistent, a store being complete before the thread's next access, unless the machine
//! file asks for store buffers, which make it TSO. Caches do not run out of space. Orderings cost nothing of their own.

mod arena;
mod clock;
pub mod directory;
mod engine;
pub mod hardware;
mod locks;
mod memory;
mod nodes;
pub mod report;
mod run_queue;
mod scheduler;
mod simulated;
mod simulation;
mod stopped;
mod trace;
mod wheel;
mod words;

pub use arena::MAX_THREADS;
pub use engine::Options;
pub use hardware::{Hardware, HardwareError, MAX_CORES, PS_PER_NS};
pub use report::{Distance, LineCounts, LockCounts, Report};
pub use simulated::Simulated;
pub use simulation::Simulation;
pub use stopped::{Reason, Stopped};
pub use words::{SimulatedCell, SimulatedPtr, SimulatedU32, SimulatedU64};

/// Simulated time, in picoseconds.
pub type Time = u64;

/// No thread, no core, no lock.
pub(crate) const NOBODY: u32 = u32::MAX;
