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
//! # Real-time priorities
//!
//! A plan gives threads priorities, and the simulated kernel lets the owner of a lock inherit them. Three threads of one core: the
//! low one is inside when the high one comes, and then the middling one, which needs no lock and runs for 5 ms.
//!
//! ```
//! use contend_simulator::{Hardware, Simulated, Simulation};
//! use locks::{Futex, RawLock, RtMutex};
//! use machine::{Clock, Deadline, Home, Machine, Ordering::Relaxed, Placed, Plan, Timeout, Word};
//!
//! const NS_PER_US: u64 = 1_000;
//!
//! fn now_us() -> u64 {
//!     Simulated::clock_ns(Clock::Monotonic) / NS_PER_US
//! }
//!
//! fn run_for(us: u64, hardware: &Hardware) {
//!     Simulated::delay(us * hardware.mhz);
//! }
//!
//! fn sleep_until(us: u64) {
//!     let never = Placed::<_, Simulated>::new(<Simulated as Machine>::U32::ZERO, Home::FirstTouch);
//!     let deadline = Deadline { clock: Clock::Monotonic, at_ns: us * NS_PER_US };
//!     Simulated::sleep_while(&never, 0, Timeout::at(deadline));
//! }
//!
//! /// How long the high thread waits for the lock, in microseconds.
//! fn waited_us<L: RawLock<Simulated>>(hardware: &Hardware) -> u64 {
//!     let simulated = Simulation::new(hardware).run(|| {
//!         let lock = Placed::<_, Simulated>::new(L::NEW, Home::FirstTouch);
//!         let waited = Placed::<_, Simulated>::new(<Simulated as Machine>::U64::ZERO, Home::FirstTouch);
//!         let plan = Plan { threads: 3, cores: &[0; 3], duration_ns: None, priorities: &[1, 2, 3] };
//!         Simulated::run(&plan, &|thread| match thread {
//!             0 => lock.critical(|| run_for(100, hardware)),
//!             1 => {
//!                 sleep_until(60);
//!                 run_for(5_000, hardware);
//!             }
//!             _ => {
//!                 sleep_until(50);
//!                 let from = now_us();
//!                 lock.critical(|| waited.store(now_us() - from, Relaxed));
//!             }
//!         });
//!         waited.load(Relaxed)
//!     });
//!     simulated.unwrap().0
//! }
//!
//! # let file = topology::carried::machine("dl580");
//! let hardware = Hardware::new(&file).unwrap();
//! assert_eq!((waited_us::<Futex<_>>(&hardware), waited_us::<RtMutex<_>>(&hardware)), (5_083, 59));
//! ```
//!
//! The machine is sequentially consistent: a store is complete before the thread's next access. Caches do not run out of space.
//! Orderings cost nothing of their own.
//! Transactions are there where the machine file has a table of them: see [`hardware::TransactionalMemory`].

mod arena;
mod clock;
pub mod directory;
mod engine;
mod futexes;
pub mod hardware;
mod locks;
mod memory;
mod nodes;
pub mod patient;
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
pub use futexes::Futexes;
pub use hardware::{Hardware, HardwareError, MAX_CORES, MAX_DIES, PS_PER_NS, TransactionalMemory};
pub use report::{Distance, LineCounts, LockCounts, Report, TransactionCounts};
pub use simulated::Simulated;
pub use simulation::Simulation;
pub use stopped::{Reason, Stopped};
pub use words::{SimulatedCell, SimulatedPtr, SimulatedU32, SimulatedU64};

/// Simulated time, in picoseconds.
pub type Time = u64;

/// No thread, no core, no lock.
pub(crate) const NOBODY: u32 = u32::MAX;
