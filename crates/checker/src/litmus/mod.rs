//! Litmus tests.
pub mod program;
