//! Exploration of all executions under weak memory models, and litmus tests.
//!
//! A lock and its client run on the [`Checked`] machine in every execution that a [`Model`] allows:
//!
//! ```
//! use contend_checker::{Checked, Exploration, Model, explore};
//! use machine::Ordering::{Acquire, Relaxed, Release};
//! use machine::{Home, Integer, Machine, Placed, PlainCell, Plan, Word};
//!
//! struct Message<M: Machine> {
//!     text: M::Cell<u64>,
//!     sent: M::U32,
//! }
//!
//! let send = |ordering| {
//!     move || {
//!         let message = Message::<Checked> { text: PlainCell::ZERO, sent: Word::ZERO };
//!         let message = Placed::<_, Checked>::new(message, Home::FirstTouch);
//!         Checked::run(&Plan::threads(2), &|thread| {
//!             if thread == 0 {
//!                 message.text.set(42);
//!                 message.sent.store(1, ordering);
//!             } else {
//!                 Checked::spin_until(&message.sent, Acquire, |sent| sent == 1);
//!                 assert_eq!(message.text.get(), 42);
//!             }
//!         });
//!         Ok(())
//!     }
//! };
//! assert!(explore(&Exploration::of(Model::Ra), &send(Release)).is_verified());
//! let found = explore(&Exploration::of(Model::Ra), &send(Relaxed)).counterexample.expect("a race");
//! assert_eq!(found.violation.name(), "data race");
//! ```

pub mod checked;
mod consistency;
mod explorer;
mod graph;
pub mod litmus;
mod model;
mod trace;
mod violation;
mod walker;

pub use checked::{
    Bound, Checked, Counterexample, Exploration, Mutation, Report, Search, explore, replay, shorten,
};
pub use explorer::Counts;
pub use graph::{MAX_STEPS, MAX_THREADS};
pub use model::{Model, UnknownModel};
pub use trace::{Divergence, NotATrace, ReplayTrace};
pub use violation::Violation;
