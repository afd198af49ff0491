//! The queueing model of a contended lock.
