//! Memory of a machine: placed objects and queue nodes.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::Machine;

/// The size of a cache line that layouts assume.
pub const LINE_BYTES: usize = 64;

/// The size of a page that no machine goes below, in bytes.
pub(crate) const SMALLEST_PAGE_BYTES: usize = 4096;

/// Cells of [`Machine::thread_memory`].
pub const THREAD_MEMORY: usize = 64;

/// Where memory lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Home {
    /// Near the first thread that touches it.
    #[default]
    FirstTouch,
    /// On this memory node (a socket or a die, as the machine counts them).
    Node(u32),
}

/// A queue node: what a waiter shares with its neighbours in a queue.
///
/// # Safety
/// At most [`LINE_BYTES`] long and aligned; nothing to drop; made of words and cells of `M` only. No bits that a node of another
/// type may have left in them make it invalid: a thread that takes a node writes a word before it trusts what it reads there.
///
/// On the hardware there is no padding. A function that was given a reference may still run when the node is already another
/// thread's, which may have words where the padding was; and padding, unlike words, must not be written while it runs.
pub unsafe trait Node<M: Machine>: Sync + Sized + 'static {}

/// A queue node taken out of a thread's pool.
pub struct TakenNode<T: 'static> {
    /// The node.
    pub node: &'static T,
    /// Its name for [`Machine::named_node`]: `thread × NAMED_NODES + index`; none for a node past the pool.
    pub name: Option<u32>,
}

/// A value in memory of the machine `M`, at a chosen home, on lines of its own.
pub struct Placed<T: Sync, M: Machine> {
    value: NonNull<T>,
    home: Home,
    machine: PhantomData<fn() -> M>,
}

impl<T: Sync, M: Machine> Placed<T, M> {
    /// Moves `value` into memory at `home`. A type that is aligned to more than a page does not compile.
    pub fn new(value: T, home: Home) -> Self {
        const { assert!(align_of::<T>() <= SMALLEST_PAGE_BYTES, "machines align memory to a page at most") };
        let memory = M::alloc(Self::layout(), home).cast::<T>();
        // SAFETY: freshly allocated with the layout of T.
        unsafe { memory.write(value) };
        Self { value: memory, home, machine: PhantomData }
    }

    fn layout() -> Layout {
        let layout = Layout::new::<T>().align_to(LINE_BYTES).expect("a line is a valid alignment");
        layout.pad_to_align()
    }
}

impl<T: Sync, M: Machine> Deref for Placed<T, M> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: initialised in `new`, and owned until dropped.
        unsafe { self.value.as_ref() }
    }
}

impl<T: Sync, M: Machine> Drop for Placed<T, M> {
    fn drop(&mut self) {
        // SAFETY: initialised, dropped once, and allocated with this layout and home.
        unsafe {
            self.value.drop_in_place();
            M::free(self.value.cast(), Self::layout(), self.home);
        }
    }
}

// SAFETY: it owns a T that is shared between threads by design.
unsafe impl<T: Sync + Send, M: Machine> Send for Placed<T, M> {}
// SAFETY: it gives out &T only.
unsafe impl<T: Sync, M: Machine> Sync for Placed<T, M> {}
