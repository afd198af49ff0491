//! Coroutines, for machines that run all of their threads on one host thread.
//!
//! They are corosensei's. Miri cannot switch stacks, so under it each coroutine is a host thread instead, and only the one
//! that has the baton runs. What Miri sees of the references into a machine is the same: the code that resumes a
//! coroutine is in the middle of a call while the coroutine runs. Two things differ, and a coroutine's body has to see to
//! both: it sets what it needs in thread-local storage, and a panic that it catches may be [`GivenUp`].

#[cfg(miri)]
mod baton;
pub mod saved;

#[cfg(miri)]
pub use baton::{Coroutine, DefaultStack, Yielder};
pub use corosensei::CoroutineResult;
pub use corosensei::stack::{Stack, StackPointer};
#[cfg(not(miri))]
pub use corosensei::{Coroutine, Yielder, stack::DefaultStack};

/// What a coroutine panics with under Miri when it is given up.
#[derive(Clone, Copy, Debug)]
pub struct GivenUp;
