//! Files of litmus tests, what is expected of them, and what comes of them.

pub mod expected;
pub mod files;
pub mod judged;
pub mod outcome;

pub use expected::Expected;
pub use judged::{Job, Summary, error_json};
pub use outcome::{TestOutcome, Weakness};
