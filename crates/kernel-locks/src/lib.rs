//! The running kernel's contended locks: who waited for which one, for how long, and from where.
//!
//! Linux tells of each wait for one of its locks by the tracepoints `lock:contention_begin` and `lock:contention_end`, since
//! 5.19. [`Watch`] asks for them by perf_event_open(2), with the kernel's stack at the beginning of each wait, and drains the
//! ring buffers of all cores; [`waits`] makes waits of the events, and [`Symbols`] gives the names to addresses, which mean
//! nothing after the next boot.
//!
//! Kernels that have `lock:contended_release` (patches of 2026) tell the releases that end waits, too, with the stack that released.
//!
//! An uncontended acquisition meets no tracepoint, so that it costs nothing and is not counted; how long a lock was held is
//! not told either. A lock that spins before it reports the wait hides the waits that end while it spins: a writer's of an
//! rw_semaphore.

pub mod event;
pub mod files;
#[cfg(any(test, feature = "made"))]
pub mod made;
pub mod missing;
pub mod records;
pub mod ring;
pub mod rings;
pub mod symbols;
pub mod tracepoint;
pub mod waits;
pub mod watch;

pub use missing::Missing;
pub use symbols::Symbols;
pub use waits::Wait;
pub use watch::{Scope, Watch};
