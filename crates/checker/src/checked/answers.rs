//! How a thread asks for an answer, and is suspended until there is one.

use super::Bound;
use super::session::{Session, State, session};
use super::stacks::{Request, wipe};
use crate::explorer::Stop;

impl Session {
    /// Asks until there is an answer; does not return when the thread does not go on.
    #[inline]
    pub(super) fn answered<T>(&self, mut ask: impl FnMut(&mut State) -> Result<T, Stop>) -> T {
        let scheduled = self.with(|state| {
            state.polled = None;
            if let Some(attempt) = &mut state.attempt {
                attempt.went_on |= attempt.pending.is_some();
            }
            state.is_scheduled()
        });
        if scheduled {
            return self.await_step(ask);
        }
        loop {
            let asked = self.with(&mut ask);
            if let Ok(answer) = asked {
                return answer;
            }
            self.suspend();
        }
    }

    #[cold]
    pub(super) fn suspend(&self) {
        let (thread, yielder, attempt, time, transaction) = self
            .with(|state| (state.thread, state.yielder, state.attempt.take(), state.time, state.transaction));
        // SAFETY: the yielder of the coroutine that runs, which is alive.
        unsafe { (*yielder).suspend(()) };
        self.with(|state| {
            (state.thread, state.yielder, state.attempt, state.polled) = (thread, yielder, attempt, None);
            (state.time, state.transaction) = (time, transaction);
        });
    }

    /// The thread does not go on in this execution.
    pub(super) fn never_goes_on(&self) -> ! {
        loop {
            if self.with(|state| state.is_scheduled()) {
                self.hand_over(None);
            } else {
                self.suspend();
            }
        }
    }

    /// The thread needs more than the checked machine has: the execution ends, and the exploration is incomplete.
    pub(super) fn cannot_follow(&self) -> ! {
        self.with(|state| state.engine().cannot_follow());
        self.never_goes_on()
    }

    /// The thread unwinds. What it has thrown lies on the heap, changes on the way and is freed at the end, so that putting back the
    /// stack alone would unwind with freed memory: the exploration ends, and is incomplete. (The panic is never caught then, which
    /// `std` counts for this host thread for ever: see `explore`.)
    #[cold]
    fn cannot_put_back(&self) -> ! {
        self.with(|state| {
            state.bound.get_or_insert(Bound::Unfollowed);
            state.walker().cannot_follow();
        });
        self.never_goes_on()
    }

    /// Leaves a request and is suspended until it is answered.
    pub(super) fn await_step<T>(&self, mut ask: impl FnMut(&mut State) -> Result<T, Stop>) -> T {
        if std::thread::panicking() {
            self.cannot_put_back();
        }
        let mut answer = None;
        let mut request = || match session().with(&mut ask) {
            Ok(answered) => {
                answer = Some(answered);
                true
            }
            // Not even `None` is written: that would leave what happens to lie around on the stack.
            Err(_) => false,
        };
        let request: &mut dyn FnMut() -> bool = &mut request;
        // SAFETY: the request is called only while the thread is suspended in `hand_over` below, and forgotten when
        // it was answered or the run ends; its frame is alive all the while.
        let request = unsafe { std::mem::transmute::<&mut dyn FnMut() -> bool, Request>(request) };
        self.hand_over(Some(request));
        answer.expect("a thread goes on when its request is answered")
    }

    /// The thread is suspended, for good if it asks for nothing.
    #[inline(never)]
    pub(super) fn hand_over(&self, request: Option<Request>) {
        let here = 0_u8;
        let from = std::ptr::from_ref(&here) as usize;
        let yielder = self.with(|state| {
            let suspended = &mut state.suspended[state.thread.expect("a thread that runs")];
            (suspended.request, suspended.answered, suspended.from) = (request, false, from);
            suspended.yielder.expect("a thread that has started")
        });
        wipe();
        // SAFETY: the yielder of the coroutine that runs, which is alive.
        unsafe { (*yielder).suspend(()) };
    }
}
