//! Coroutines for Miri, which cannot switch stacks: each is a host thread, and only the one that has the baton runs.
//!
//! The part of corosensei that the engine uses. What Miri sees of references into the engine is the same.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::arena::ThreadStack;
use crate::simulation::{current, enter};

/// What a coroutine has done when it gives the baton back.
pub(crate) enum CoroutineResult<Y, R> {
    Yield(Y),
    Return(R),
}

pub(crate) struct Yielder<I, Y> {
    resumed: Receiver<I>,
    given: Sender<CoroutineResult<Y, ()>>,
}

impl Yielder<(), ()> {
    pub(crate) fn suspend(&self, (): ()) {
        self.given.send(CoroutineResult::Yield(())).expect("the engine waits");
        self.resumed.recv().expect("the engine resumes every thread until it has ended");
    }
}

pub(crate) struct Coroutine<I, Y, R, S> {
    resume: Sender<I>,
    given: Receiver<CoroutineResult<Y, ()>>,
    state: Cell<(bool, bool)>,
    unused: PhantomData<(R, S)>,
}

struct Sent<T>(T);
// SAFETY: one thread has the baton at a time, and passing it on orders what they do.
unsafe impl<T> Send for Sent<T> {}

impl Coroutine<(), (), (), ThreadStack> {
    /// # Safety
    /// The body outlives the coroutine.
    pub(crate) unsafe fn with_stack_unchecked<'a>(
        _: ThreadStack,
        body: impl FnOnce(&Yielder<(), ()>, ()) + 'a,
    ) -> Self {
        let (resume, resumed) = channel();
        let (give, given) = channel();
        let body: Box<dyn FnOnce(&Yielder<(), ()>, ()) + 'a> = Box::new(body);
        // SAFETY: the caller's.
        let body: Box<dyn FnOnce(&Yielder<(), ()>, ())> = unsafe { std::mem::transmute(body) };
        let sent = Sent((body, current()));
        std::thread::spawn(move || {
            let whole = sent;
            let Sent((body, engine)) = whole;
            let _entered = enter(engine);
            let yielder = Yielder { resumed, given: give };
            if yielder.resumed.recv().is_ok() {
                body(&yielder, ());
                // Nobody listens to a coroutine that was given up.
                let _ = yielder.given.send(CoroutineResult::Return(()));
            }
        });
        Self { resume, given, state: Cell::new((false, false)), unused: PhantomData }
    }

    pub(crate) fn resume(&mut self, (): ()) -> CoroutineResult<(), ()> {
        self.resume.send(()).expect("the coroutine waits");
        let result = self.given.recv().expect("the coroutine gives the baton back");
        self.state.set((true, matches!(result, CoroutineResult::Return(()))));
        result
    }

    pub(crate) fn started(&self) -> bool {
        self.state.get().0
    }

    pub(crate) fn done(&self) -> bool {
        self.state.get().1
    }

    /// # Safety
    /// As corosensei's.
    pub(crate) unsafe fn force_reset(&mut self) {}
}
