//! The shared object that stands in for the pthread lock functions.

mod recorder;
