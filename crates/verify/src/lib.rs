//! Checks, without an argument parser and without a terminal.
//!
//! - [`check`]: locks in every execution that a memory model allows, and changes to their accesses;
//! - [`litmus`]: files of litmus tests and their outcomes.

pub mod check;
pub mod litmus;
