//! Threads that the system refuses to start, as errors.
//!
//! [`machine::Machine::run`] and `std::thread::spawn` panic then, as no caller of theirs can go on; a limit of processes is no fault of
//! the program.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Once;

/// What such panics begin with.
const REFUSALS: [&str; 2] = ["cannot start thread ", "failed to spawn thread"];

thread_local! {
    /// Whether this thread's refusals become errors, and so are not to be printed.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// The words of a panic with a remedy, if it tells that a thread was refused.
pub fn refusal(panic: &str) -> Option<String> {
    REFUSALS.iter().any(|begin| panic.starts_with(begin)).then(|| {
        format!("{panic}; is there a limit of processes? See `ulimit -u`, and pids.max of the container")
    })
}

fn refusal_in(payload: &(dyn Any + Send)) -> Option<String> {
    refusal(payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied())?)
}

/// Runs what starts threads from the calling thread. Other panics go on.
///
/// # Errors
///
/// The system refused a thread.
pub fn or_refused<T>(body: impl FnOnce() -> T) -> anyhow::Result<T> {
    print_no_refusals();
    let outer = CATCHES.replace(true);
    let given = catch_unwind(AssertUnwindSafe(body));
    CATCHES.set(outer);
    given.or_else(|panic| match refusal_in(&*panic) {
        Some(words) => Err(anyhow::Error::msg(words)),
        None => resume_unwind(panic),
    })
}

/// Keeps those that become errors off standard error.
fn print_no_refusals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !CATCHES.get() || refusal_in(panic.payload()).is_none() {
                others(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_thread_is_an_error_and_other_panics_go_on() {
        let refused = or_refused(|| panic!("cannot start thread {} of the run: error 11", 1));
        let words = refused.map(|()| "none").expect_err("a refusal").to_string();
        assert!(
            words.starts_with("cannot start thread 1 of the run: error 11; ") && words.contains("ulimit -u")
        );
        assert_eq!(or_refused(|| 3).expect("no refusal"), 3);
        let other = catch_unwind(|| or_refused(|| panic!("something else"))).expect_err("another panic");
        assert_eq!(other.downcast_ref(), Some(&"something else"));
    }
}
