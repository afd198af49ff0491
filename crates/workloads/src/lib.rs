//! Workloads and lock clients, generic over machine and lock.

pub mod client;
