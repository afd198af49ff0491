//! Running a workload on a machine: plans, places, events and counts.

extern crate alloc;

use alloc::vec::Vec;

/// Where a thread runs: the path from the socket down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Socket (package).
    pub socket: u32,
    /// Die or group of cores that share a last-level cache, counted over the whole machine.
    pub die: u32,
    /// Core, counted over the whole machine.
    pub core: u32,
    /// Memory node that is nearest.
    pub node: u32,
}

/// The places of a machine, in the order of their core numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// One place a core.
    pub places: Vec<Place>,
}

impl Topology {
    /// Core numbers of the first `threads` cores of the named sockets, one socket filled after the other; cores are
    /// used again when there are not enough.
    #[must_use]
    pub fn fill_first(&self, sockets: &[u32], threads: usize) -> Vec<u32> {
        let cores = sockets.iter().flat_map(|&s| self.cores_of(s)).collect::<Vec<_>>();
        cores.iter().copied().cycle().take(if cores.is_empty() { 0 } else { threads }).collect()
    }

    /// Core numbers taken from the named sockets in turn.
    #[must_use]
    pub fn round_robin(&self, sockets: &[u32], threads: usize) -> Vec<u32> {
        let cores = sockets.iter().map(|&s| self.cores_of(s).collect::<Vec<_>>()).collect::<Vec<_>>();
        let cores = cores.iter().filter(|of_socket| !of_socket.is_empty()).collect::<Vec<_>>();
        let turns = if cores.is_empty() { 0 } else { threads };
        (0..turns)
            .map(|turn| {
                let of_socket = cores[turn % cores.len()];
                of_socket[turn / cores.len() % of_socket.len()]
            })
            .collect()
    }

    /// The numbers of the sockets.
    #[must_use]
    pub fn sockets(&self) -> Vec<u32> {
        let mut sockets = self.places.iter().map(|place| place.socket).collect::<Vec<_>>();
        sockets.sort_unstable();
        sockets.dedup();
        sockets
    }

    fn cores_of(&self, socket: u32) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().filter(move |place| place.socket == socket).map(|place| place.core)
    }
}

/// How a workload is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// How many threads.
    pub threads: usize,
    /// The core of each thread; empty leaves them to the scheduler.
    pub cores: &'a [u32],
    /// After how many nanoseconds of this machine [`Machine::running`](crate::Machine::running) turns false;
    /// none: the body ends by itself.
    pub duration_ns: Option<u64>,
    /// The real-time priority of each thread, from 1 to [`HIGHEST_PRIORITY`] as `SCHED_FIFO` has them, a higher number before a
    /// lower one and before every normal thread; 0, or none given: a normal thread. The checked machine has no priorities:
    /// it explores every order.
    pub priorities: &'a [u8],
}

/// The highest real-time priority of a thread.
pub const HIGHEST_PRIORITY: u8 = 99;

impl Plan<'_> {
    /// So many threads anywhere, until their bodies end.
    #[must_use]
    pub const fn threads(threads: usize) -> Self {
        Self { threads, cores: &[], duration_ns: None, priorities: &[] }
    }

    /// The same for so many nanoseconds.
    #[must_use]
    pub const fn lasting(self, ns: u64) -> Self {
        Self { duration_ns: Some(ns), ..self }
    }
}

impl<'a> Plan<'a> {
    /// A thread on each of these cores, until their bodies end.
    #[must_use]
    pub const fn on(cores: &'a [u32]) -> Self {
        Self { cores, ..Self::threads(cores.len()) }
    }
}

/// What a workload or a client announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The caller starts to acquire the lock at this address.
    Acquiring {
        /// Address of the lock.
        lock: usize,
    },
    /// The caller holds the lock at this address; alone unless `shared`.
    Acquired {
        /// Address of the lock.
        lock: usize,
        /// Other holders are allowed as long as they are shared too.
        shared: bool,
    },
    /// The caller is about to release the lock at this address.
    Releasing {
        /// Address of the lock.
        lock: usize,
        /// As at the acquisition.
        shared: bool,
    },
    /// The caller gave up on the lock at this address.
    GaveUp {
        /// Address of the lock.
        lock: usize,
    },
    /// One operation of the workload is done.
    Operation,
}

/// What one thread of a run announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations done.
    pub operations: u64,
    /// Locks acquired, shared or not.
    pub acquisitions: u64,
    /// Attempts given up.
    pub gave_up: u64,
}

impl Counts {
    /// Adds one event.
    #[inline]
    pub fn count(&mut self, event: Event) {
        match event {
            Event::Operation => self.operations += 1,
            Event::Acquired { .. } => self.acquisitions += 1,
            Event::GaveUp { .. } => self.gave_up += 1,
            Event::Acquiring { .. } | Event::Releasing { .. } => {}
        }
    }
}

/// A finished run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// By thread.
    pub counts: Vec<Counts>,
    /// From the common start to the end of the last body, in nanoseconds of this machine.
    pub elapsed_ns: u64,
}

impl Run {
    /// Operations of all threads.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.counts.iter().map(|counts| counts.operations).sum()
    }

    /// Acquisitions of all threads.
    #[must_use]
    pub fn acquisitions(&self) -> u64 {
        self.counts.iter().map(|counts| counts.acquisitions).sum()
    }
}
