//! Coroutines that are host threads and pass a baton: the part of corosensei's interface that the machines use.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use corosensei::CoroutineResult;
use corosensei::stack::{Stack, StackPointer};

use crate::GivenUp;

/// Lets the body of a coroutine give the baton back.
#[derive(Debug)]
pub struct Yielder<Input, Yield> {
    resumed: Receiver<Input>,
    given: Sender<CoroutineResult<Yield, ()>>,
}

impl Yielder<(), ()> {
    /// Gives the baton back and waits until it comes again. A coroutine that is given up is unwound from here.
    pub fn suspend(&self, (): ()) {
        self.given.send(CoroutineResult::Yield(())).expect("whoever resumed this coroutine waits");
        if self.resumed.recv().is_err() {
            resume_unwind(Box::new(GivenUp));
        }
    }
}

/// A host thread that runs while it has the baton.
#[derive(Debug)]
pub struct Coroutine<Input, Yield, Return, StackType> {
    /// None once it is given up.
    resume: Option<Sender<Input>>,
    given: Receiver<CoroutineResult<Yield, Return>>,
    thread: Option<JoinHandle<()>>,
    stack: StackType,
    started: bool,
    done: bool,
}

struct Sent<T>(T);
// SAFETY: one thread has the baton at a time, and passing it on orders what they do.
unsafe impl<T> Send for Sent<T> {}

impl<StackType> Coroutine<(), (), (), StackType> {
    /// A coroutine that has not started. The stack is kept for its owner alone.
    ///
    /// # Safety
    /// The body outlives the coroutine, or is never run again.
    pub unsafe fn with_stack_unchecked<'a>(
        stack: StackType,
        body: impl FnOnce(&Yielder<(), ()>, ()) + 'a,
    ) -> Self {
        let (resume, resumed) = channel();
        let (give, given) = channel();
        let body: Box<dyn FnOnce(&Yielder<(), ()>, ()) + 'a> = Box::new(body);
        // SAFETY: the caller's.
        let body: Box<dyn FnOnce(&Yielder<(), ()>, ())> = unsafe { std::mem::transmute(body) };
        let sent = Sent(body);
        let thread = std::thread::spawn(move || {
            let whole = sent;
            let yielder = Yielder { resumed, given: give };
            if yielder.resumed.recv().is_ok() {
                // Only the thread that gives a coroutine up unwinds it, and that thread waits for its end alone.
                if catch_unwind(AssertUnwindSafe(|| whole.0(&yielder, ()))).is_ok() {
                    let _ = yielder.given.send(CoroutineResult::Return(()));
                }
            }
        });
        Self { resume: Some(resume), given, thread: Some(thread), stack, started: false, done: false }
    }

    /// Passes the baton to the coroutine and waits until it comes back.
    pub fn resume(&mut self, (): ()) -> CoroutineResult<(), ()> {
        self.started = true;
        self.resume.as_ref().expect("not given up").send(()).expect("the coroutine waits");
        let result = self.given.recv().expect("the coroutine gives the baton back");
        self.done = matches!(result, CoroutineResult::Return(()));
        result
    }

    /// Whether it was resumed at least once.
    pub fn started(&self) -> bool {
        self.started
    }

    /// Whether its body has returned.
    pub fn done(&self) -> bool {
        self.done
    }

    /// Gives the coroutine up. What its frames refer to is no longer in use afterwards, so they are left one by one, where
    /// corosensei forgets them.
    ///
    /// # Safety
    /// Nothing that lies on its stack has to be dropped.
    pub unsafe fn force_reset(&mut self) {
        self.resume = None;
        if let Some(thread) = self.thread.take() {
            thread.join().expect("unwinding is caught");
        }
        self.done = true;
    }

    /// The stack that the coroutine was made with.
    pub fn into_stack(self) -> StackType {
        assert!(self.done || !self.started, "the coroutine is suspended");
        self.stack
    }
}

/// Replaces a stack: a host thread has one of its own.
#[derive(Debug)]
pub struct DefaultStack(());

impl DefaultStack {
    /// A stack of any size.
    ///
    /// # Errors
    /// None: a host thread's stack is made with the thread.
    pub fn new(_bytes: usize) -> std::io::Result<Self> {
        Ok(Self(()))
    }
}

// SAFETY: never used as a stack.
unsafe impl Stack for DefaultStack {
    fn base(&self) -> StackPointer {
        no_stack()
    }

    fn limit(&self) -> StackPointer {
        no_stack()
    }
}

fn no_stack() -> ! {
    panic!("a coroutine that is a host thread has no stack of its own to look at");
}
