//! The simulation that the host thread is in.

use std::cell::Cell;

use super::Engine;

thread_local! {
    /// The simulation that the host thread is in.
    static CURRENT: Cell<*mut Engine> = const { Cell::new(std::ptr::null_mut()) };
}

/// The simulation that the caller runs in.
///
/// # Panics
/// Outside of any.
#[inline]
pub(crate) fn current() -> *mut Engine {
    let engine = CURRENT.get();
    if engine.is_null() {
        outside();
    }
    engine
}

#[cold]
fn outside() -> ! {
    panic!("the simulated machine is used outside of `Simulation::run`");
}

/// Puts the former simulation back when one ends.
pub(crate) struct Entered(*mut Engine);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Makes this simulation the host thread's current one.
pub(crate) fn enter(engine: *mut Engine) -> Entered {
    Entered(CURRENT.replace(engine))
}
