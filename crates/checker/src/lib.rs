//! Exploration of all executions under weak memory models, and litmus tests.

mod consistency;
mod explorer;
mod graph;
pub mod litmus;
mod model;
mod script;
mod violation;

pub use explorer::Counts;
pub use graph::{MAX_STEPS, MAX_THREADS};
pub use model::{Model, UnknownModel};
pub use script::{NotAScript, Script};
pub use violation::Violation;
