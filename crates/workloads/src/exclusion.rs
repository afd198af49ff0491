//! What benchmarks use a lock through: ours and those of other libraries look alike here.
//!
//! The interface is a critical section given as a closure, since it is the only one that all libraries have: some give
//! guards, some want a node, some take a closure themselves. It inlines away.

use core::marker::PhantomData;

use locks::{McsNode, McsQueue, RawLock, RawRwLock};
use machine::Machine;

/// Something that runs critical sections one at a time.
pub trait Exclusion: Send + Sync + Sized + 'static {
    /// Whether readers share it.
    const SHARES: bool = false;

    /// One that no thread holds. It may be moved until it is first used.
    fn new() -> Self;

    /// Runs `section` while no other runs.
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R;

    /// Runs `section` while none runs but shared ones; exclusively where readers do not share.
    #[inline]
    fn shared<R>(&self, section: impl FnOnce() -> R) -> R {
        self.exclusive(section)
    }
}

/// A lock of this project.
#[repr(transparent)]
pub struct Own<L, M>(L, PhantomData<fn() -> M>);

impl<L: RawLock<M>, M: Machine> Exclusion for Own<L, M> {
    fn new() -> Self {
        Self(L::NEW, PhantomData)
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        holding(&self.0, section)
    }
}

/// Runs a section while it holds the lock.
#[inline]
fn holding<L: RawLock<M>, M: Machine, R>(lock: &L, section: impl FnOnce() -> R) -> R {
    lock.acquire();
    let result = section();
    // SAFETY: acquired above.
    unsafe { lock.release() };
    result
}

/// A reader-writer lock of this project.
#[repr(transparent)]
pub struct OwnShared<L, M>(L, PhantomData<fn() -> M>);

impl<L: RawRwLock<M>, M: Machine> Exclusion for OwnShared<L, M> {
    const SHARES: bool = true;

    fn new() -> Self {
        Self(L::NEW, PhantomData)
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        holding(&self.0, section)
    }

    #[inline]
    fn shared<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.acquire_shared(false);
        let result = section();
        // SAFETY: acquired above.
        unsafe { self.0.release_shared() };
        result
    }
}

/// A lock of this project behind a function call for the acquisition and another for the release, as a C library's
/// are: what such a library is compared with.
#[repr(transparent)]
pub struct Called<L, M>(L, PhantomData<fn() -> M>);

#[inline(never)]
fn call_acquire<L: RawLock<M>, M: Machine>(lock: &L) {
    lock.acquire();
}

/// # Safety
/// As [`RawLock::release`].
#[inline(never)]
unsafe fn call_release<L: RawLock<M>, M: Machine>(lock: &L) {
    // SAFETY: by the caller.
    unsafe { lock.release() };
}

/// Runs a section while it holds the lock, acquired and released by function calls.
#[inline]
fn holding_by_calls<L: RawLock<M>, M: Machine, R>(lock: &L, section: impl FnOnce() -> R) -> R {
    call_acquire::<L, M>(lock);
    let result = section();
    // SAFETY: acquired above.
    unsafe { call_release::<L, M>(lock) };
    result
}

impl<L: RawLock<M>, M: Machine> Called<L, M> {
    /// The function that releases, for a user who wants to see what it compiles to.
    pub const RELEASE: unsafe fn(&L) = call_release::<L, M>;
}

impl<L: RawLock<M>, M: Machine> Exclusion for Called<L, M> {
    fn new() -> Self {
        Self(L::NEW, PhantomData)
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        holding_by_calls(&self.0, section)
    }
}

/// A reader-writer lock of this project behind function calls, as [`Called`] is.
#[repr(transparent)]
pub struct CalledShared<L, M>(L, PhantomData<fn() -> M>);

#[inline(never)]
fn call_acquire_shared<L: RawRwLock<M>, M: Machine>(lock: &L) {
    lock.acquire_shared(false);
}

/// # Safety
/// As [`RawRwLock::release_shared`].
#[inline(never)]
unsafe fn call_release_shared<L: RawRwLock<M>, M: Machine>(lock: &L) {
    // SAFETY: by the caller.
    unsafe { lock.release_shared() };
}

impl<L: RawRwLock<M>, M: Machine> Exclusion for CalledShared<L, M> {
    const SHARES: bool = true;

    fn new() -> Self {
        Self(L::NEW, PhantomData)
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        holding_by_calls(&self.0, section)
    }

    #[inline]
    fn shared<R>(&self, section: impl FnOnce() -> R) -> R {
        call_acquire_shared::<L, M>(&self.0);
        let result = section();
        // SAFETY: acquired above.
        unsafe { call_release_shared::<L, M>(&self.0) };
        result
    }
}

/// The MCS queue with a node in the caller's frame.
#[repr(transparent)]
pub struct Queue<M: Machine>(McsQueue<M>);

impl<M: Machine> Exclusion for Queue<M> {
    fn new() -> Self {
        Self(McsQueue::NEW)
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.critical(section)
    }
}

/// The same behind function calls, as [`Called`] is.
#[repr(transparent)]
pub struct CalledQueue<M: Machine>(McsQueue<M>);

/// # Safety
/// As [`McsQueue::acquire`].
#[inline(never)]
unsafe fn call_acquire_with<M: Machine>(queue: &McsQueue<M>, node: &McsNode<M>) {
    // SAFETY: by the caller.
    unsafe { queue.acquire(node) };
}

/// A queue that is held with a node.
struct HeldByCalls<'a, M: Machine>(&'a McsQueue<M>, &'a McsNode<M>);

impl<M: Machine> Drop for HeldByCalls<'_, M> {
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: made by the function that acquired with this node.
        unsafe { self.0.release(self.1) };
    }
}

impl<M: Machine> Exclusion for CalledQueue<M> {
    fn new() -> Self {
        Self(McsQueue::NEW)
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        let node = McsNode::NEW;
        // SAFETY: the node outlives the guard, which releases even when the section panics.
        unsafe { call_acquire_with(&self.0, &node) };
        let _held = HeldByCalls(&self.0, &node);
        section()
    }
}
