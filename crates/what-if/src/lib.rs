//! What a change to a program is expected to give.
//!
//! - [`change`]: the changes that `contend predict --what-if` takes, and what each does to the model's parameters;
//! - [`case`](mod@case): one lock of a program on a machine, and what changes give there by the Markov chain;
//! - [`answer`]: a change as a page shows it, with its curve, its figures and what to do;
//! - [`module`]: the functions that a page calls.
//!
//! The command computes with this crate, and so does the page that `contend predict --html` writes: compiled to WebAssembly by
//! `crates/report/build.rs`, it travels in the page. Both have one implementation and the same figures.

pub mod answer;
pub mod case;
pub mod change;
pub mod module;

pub use answer::{Answer, ForecastPoint, Question, Sliders};
pub use case::{Case, Gain};
pub use change::{Alternative, Change, ChangeError, Conflicts};
