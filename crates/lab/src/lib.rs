//! What measures and what checks, without an argument parser and without a terminal.
//!
//! - [`attach`](mod@attach): the waits of a program that runs already;
//! - [`bench`](mod@bench): locks on this machine, ours beside those of other libraries;
//! - [`calibrate`]: what hand-overs cost on this machine, as a machine file;
//! - [`compare`]: runs of a program in rounds, and what chance explains of their differences;
//! - [`gate`]: base and candidate of a program, and whether a ratio got worse;
//! - [`simulate`]: workloads under locks on the simulated machine, side by side;
//! - [`launch`]: starting a program with the preload library, and what became of its locks;
//! - [`check`]: locks in every execution that a memory model allows, and changes to their accesses;
//! - [`litmus`]: files of litmus tests and their outcomes;
//! - [`noise`]: what else the machine did meanwhile.
//!
//! Results are values; tables are values too, which the caller prints. [`progress`] tells the caller how far a measurement
//! is, and [`interrupt`] tells the measurement that nobody waits for the rest of it; [`signals`] is what both the handlers and the
//! launcher are made of.

pub mod attach;
pub mod bench;
pub mod calibrate;
pub mod check;
pub mod compare;
pub mod gate;
pub mod host;
pub mod interrupt;
pub mod launch;
pub mod litmus;
pub mod names;
pub mod noise;
pub mod output_file;
pub mod placement;
pub mod progress;
pub mod signals;
pub mod simulate;
pub mod usage;
