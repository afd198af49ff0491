//! A lock and what it protects, and what threads saw of it.

use locks::{RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};
use machine::{Event, Home, Machine, Placed, PlainCell, Plan, Run, Timeout};

use super::{Shape, Wrong};

/// What is asked of a lock that no thread uses any more, so that every call returns at once.
pub(super) type End<L> = fn(&L) -> Result<(), Wrong>;

/// Ways in which a waiter of a lock can give up.
pub(super) type Attempts<'a, L, M> = &'a [Attempt<L, M>];

/// A way of waiting for a lock.
pub(super) struct Attempt<L, M: Machine> {
    /// Whether it has the lock afterwards.
    pub(super) wait: fn(&ClientObject<L, M>, Timeout<'_, M>) -> bool,
    /// What is done inside, and the release.
    pub(super) section: fn(&mut Inside, &ClientObject<L, M>),
}

impl<L: TimedLock<M>, M: Machine> Attempt<L, M> {
    pub(super) const EXCLUSIVE: Self = Self {
        wait: |object, timeout| object.attempt(|lock| lock.acquire_or(timeout).is_ok()),
        section: |inside, object| {
            inside.touch(object);
            object.release();
        },
    };
}

impl<L: TimedRwLock<M>, M: Machine> Attempt<L, M> {
    pub(super) const SHARED: Self = Self {
        wait: |object, timeout| object.attempt_shared(|lock| lock.acquire_shared_or(false, timeout).is_ok()),
        section: |inside, object| {
            inside.look(object);
            object.release_shared();
        },
    };
}

pub(super) fn ends_idle<L: RawLock<M>, M: Machine>(lock: &L) -> Result<(), Wrong> {
    if lock.is_idle() { Ok(()) } else { Err(Wrong::NotIdle) }
}

pub(super) fn ends_free<L: RawLock<M>, M: Machine>(lock: &L) -> Result<(), Wrong> {
    lock.acquire();
    // SAFETY: acquired above.
    unsafe { lock.release() };
    ends_idle(lock)
}

/// A try on the free lock succeeds, one on the held lock fails, and then nothing of a thread is left in the lock.
pub(super) fn ends_tried<L: TryLock<M>, M: Machine>(lock: &L) -> Result<(), Wrong> {
    if !lock.try_acquire() {
        return Err(Wrong::NotFree { shared: false });
    }
    if lock.try_acquire() {
        return Err(Wrong::NotHeld { shared: false });
    }
    // SAFETY: acquired above.
    unsafe { lock.release() };
    ends_free(lock)
}

/// The same for both sides; two readers are let in, and a writer only without them. A writer comes first, who leaves nothing of sleeping
/// readers either.
pub(super) fn ends_shared<L: RawRwLock<M> + TryLock<M>, M: Machine>(lock: &L) -> Result<(), Wrong> {
    ends_free(lock)?;
    if !(lock.try_acquire_shared(false) && lock.try_acquire_shared(false)) {
        return Err(Wrong::NotFree { shared: true });
    }
    for _ in 0..2 {
        if lock.try_acquire() {
            return Err(Wrong::NotHeld { shared: true });
        }
        // SAFETY: acquired above.
        unsafe { lock.release_shared() };
    }
    if !lock.try_acquire() {
        return Err(Wrong::NotFree { shared: false });
    }
    if lock.try_acquire_shared(false) || lock.try_acquire_shared(true) {
        return Err(Wrong::NotHeld { shared: false });
    }
    // SAFETY: acquired above.
    unsafe { lock.release() };
    ends_tried(lock)
}

/// A lock and what it protects: two cells that are equal whenever no thread is inside.
pub(super) struct ClientObject<L, M: Machine> {
    pub(super) lock: L,
    pub(super) count: M::Cell<u64>,
    pub(super) copy: M::Cell<u64>,
}

impl<L: RawLock<M>, M: Machine> ClientObject<L, M> {
    pub(super) fn placed() -> Placed<Self, M> {
        Placed::new(Self { lock: L::NEW, count: M::Cell::ZERO, copy: M::Cell::ZERO }, Home::FirstTouch)
    }

    pub(super) fn address(&self) -> usize {
        core::ptr::from_ref(&self.lock) as usize
    }

    pub(super) fn acquire(&self) {
        M::note(Event::Acquiring { lock: self.address() });
        self.lock.acquire();
        M::note(Event::Acquired { lock: self.address(), shared: false });
    }

    pub(super) fn release(&self) {
        M::note(Event::Releasing { lock: self.address(), shared: false });
        // SAFETY: clients release what they hold.
        unsafe { self.lock.release() };
    }

    /// Announces an attempt that may fail; true if it did not.
    pub(super) fn attempt(&self, attempt: impl FnOnce(&L) -> bool) -> bool {
        M::note(Event::Acquiring { lock: self.address() });
        let got = attempt(&self.lock);
        M::note(if got {
            Event::Acquired { lock: self.address(), shared: false }
        } else {
            Event::GaveUp { lock: self.address() }
        });
        got
    }

    /// One critical section; false when another thread was inside.
    pub(super) fn touch(&self) -> bool {
        let count = self.count.get();
        let alone = self.copy.get() == count;
        self.count.set(count + 1);
        self.copy.set(count + 1);
        M::note(Event::Operation);
        alone
    }

    /// One reading critical section; false when a writer was inside.
    pub(super) fn look(&self) -> bool {
        self.count.get() == self.copy.get()
    }
}

impl<L: RawRwLock<M>, M: Machine> ClientObject<L, M> {
    /// Announces an attempt to share that may fail; true if it did not.
    pub(super) fn attempt_shared(&self, attempt: impl FnOnce(&L) -> bool) -> bool {
        M::note(Event::Acquiring { lock: self.address() });
        let got = attempt(&self.lock);
        M::note(if got {
            Event::Acquired { lock: self.address(), shared: true }
        } else {
            Event::GaveUp { lock: self.address() }
        });
        got
    }

    pub(super) fn acquire_shared(&self, reads_already: bool) {
        M::note(Event::Acquiring { lock: self.address() });
        self.lock.acquire_shared(reads_already);
        M::note(Event::Acquired { lock: self.address(), shared: true });
    }

    pub(super) fn release_shared(&self) {
        M::note(Event::Releasing { lock: self.address(), shared: true });
        // SAFETY: clients release what they hold.
        unsafe { self.lock.release_shared() };
    }
}

/// What a thread tells when the run is over.
pub(super) struct ThreadResult<M: Machine> {
    pub(super) touches: M::Cell<u64>,
    pub(super) wrong: M::Cell<u8>,
}

/// Runs `body` on every thread; it gives how often it was inside, and whether always alone. Then adds up, and looks
/// whether the locks can be used as ever.
pub(super) fn add_up<L: RawLock<M>, M: Machine>(
    shape: Shape,
    guarded: &[Placed<ClientObject<L, M>, M>],
    end: End<L>,
    body: impl Fn(usize) -> Inside + Sync,
) -> Result<Run, Wrong> {
    let result = || ThreadResult::<M> { touches: M::Cell::ZERO, wrong: M::Cell::ZERO };
    let results =
        (0..shape.threads).map(|_| Placed::<_, M>::new(result(), Home::FirstTouch)).collect::<Vec<_>>();
    let run = M::run(&Plan::threads(shape.threads), &|thread| {
        let inside = body(thread);
        results[thread].touches.set(inside.touches);
        let wrong = [inside.disturbed, inside.let_in, inside.gave_up, inside.bypassed];
        results[thread].wrong.set(wrong.iter().position(|&wrong| wrong).map_or(0, |number| number as u8 + 1));
    });
    for (thread, result) in results.iter().enumerate() {
        match result.wrong.get() {
            0 => {}
            1 => return Err(Wrong::NotAlone { thread }),
            2 => return Err(Wrong::LetIn { thread }),
            3 => return Err(Wrong::GaveUp { thread }),
            _ => return Err(Wrong::Bypassed { thread }),
        }
    }
    let ran = results.iter().map(|result| result.touches.get()).sum();
    let counted = guarded.iter().map(|guarded| guarded.count.get()).sum();
    if ran != counted {
        return Err(Wrong::Lost { ran, counted });
    }
    guarded.iter().try_for_each(|guarded| end(&guarded.lock))?;
    Ok(run)
}

/// What one thread saw of its critical sections.
#[derive(Default)]
pub(super) struct Inside {
    pub(super) touches: u64,
    pub(super) disturbed: bool,
    /// It got the lock while another thread had it.
    pub(super) let_in: bool,
    /// It gave up although it had no deadline and no thread had called it off.
    pub(super) gave_up: bool,
    /// It got the lock before the waiter that it was promised to.
    pub(super) bypassed: bool,
}

impl Inside {
    pub(super) fn touch<L: RawLock<M>, M: Machine>(&mut self, guarded: &ClientObject<L, M>) {
        self.touches += 1;
        self.disturbed |= !guarded.touch();
    }

    /// One critical section with its acquisition and release.
    pub(super) fn write<L: RawLock<M>, M: Machine>(&mut self, guarded: &ClientObject<L, M>) {
        guarded.acquire();
        self.touch(guarded);
        guarded.release();
    }

    pub(super) fn look<L: RawLock<M>, M: Machine>(&mut self, guarded: &ClientObject<L, M>) {
        self.disturbed |= !guarded.look();
    }

    /// Goes for a lock that another thread has, in each of these ways, with such a timeout.
    pub(super) fn give_up<'a, L: RawLock<M>, M: Machine>(
        &mut self,
        guarded: &ClientObject<L, M>,
        gives_up: Attempts<'_, L, M>,
        timeout: impl Fn() -> Timeout<'a, M>,
    ) {
        for attempt in gives_up {
            self.let_in |= (attempt.wait)(guarded, timeout());
        }
    }
}
