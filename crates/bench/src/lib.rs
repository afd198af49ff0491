//! Locks on this machine: ours, the C library's, the standard library's, and other libraries' where they were built in.
//!
//! Threads are pinned and count for themselves. Each lock is measured once to warm up and then in turn with the others. Every
//! run counts under its lock, and a lock whose counter does not add up has no figures but says so.

pub mod cacheline;
pub mod contenders;
pub mod cost;
pub mod findings;
mod handover;
pub mod limited;
pub mod ping_pong;
pub mod regimes;
pub mod throughput;
pub mod timing;

use std::time::Duration;

pub use findings::Findings;
pub use timing::Bench;

/// The options that every benchmark of locks has.
#[derive(Debug, Clone)]
pub struct Common {
    /// The locks by name; all if there is none.
    pub lock: Vec<String>,
    /// Runs of each lock after the warm-up.
    pub runs: u32,
    /// A single run of a lock is ended after so long.
    pub limit: Duration,
}
