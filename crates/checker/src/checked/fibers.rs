//! A thread of the client as a coroutine.

use std::panic::{AssertUnwindSafe, catch_unwind};

use coroutine::{Coroutine, DefaultStack, GivenUp, Yielder};

use super::session::{Session, message_of, session};
use super::stacks::Fiber;
use crate::violation::Violation;

impl Session {
    pub(super) fn fiber(&self, thread: usize, stack: DefaultStack, body: &(dyn Fn(usize) + Sync)) -> Fiber {
        let own = std::ptr::from_ref(self);
        let run = move |yielder: &Yielder<(), ()>, ()| {
            // Under Miri this is another host thread.
            Session::adopt(own);
            session().with(|state| {
                state.yielder = yielder;
                if let Some(suspended) = state.suspended.get_mut(thread) {
                    suspended.yielder = Some(yielder);
                }
            });
            let message = match catch_unwind(AssertUnwindSafe(|| body(thread))) {
                // The hardware would abort it in the end, and the section would never have been one.
                Ok(()) if session().in_transaction() => {
                    "it ends inside a transaction, which it neither commits nor aborts".to_owned()
                }
                Ok(()) => return,
                Err(payload) if payload.is::<GivenUp>() => return,
                Err(payload) => message_of(&*payload),
            };
            let violation = Violation::Panic { thread: Some(thread), message };
            session().with(|state| state.engine().violate(thread, violation));
        };
        // SAFETY: the coroutine is finished or reset before `run` returns, so before `body` ends.
        unsafe { Coroutine::with_stack_unchecked(stack, run) }
    }
}
