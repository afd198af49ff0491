//! Workloads and lock clients, generic over machine and lock.
