//! Extended time slices: a thread that holds a lock asks not to lose its core for a few microseconds, so that no thread waits for a
//! holder that waits for its core. The interface is Linux's, from 7.0 on; the preload library uses it.
//!
//! | byte of [`Control`] | written by                         | meaning                                                     |
//! |---------------------|------------------------------------|-------------------------------------------------------------|
//! | `request`           | the thread; the kernel clears it   | the thread would like to stay on its core                   |
//! | `granted`           | the kernel                         | it was to lose its core, and stays for now; it is to say when it is done |
//!
//! `request, granted`:
//! - `0,0 -> 1,0` the outermost hold begins, [`Holds::begin`]
//! - `1,0 -> 0,1` an interrupt wants the core for another thread, and the kernel extends the time slice, by 5 us unless told otherwise
//! - `1,0 -> 0,0` the hold ends, or the thread sleeps; or it lost its core all the same, for then the kernel clears both
//! - `0,1 -> 0,0` the next system call, which [`Holds::end`] makes at once; or the extension was used up, and the core is lost
//!
//! A thread writes no request where an extension is granted: a kernel that checks the word ends the program for it. Nor does it write
//! the other byte. All of it concerns one core, so that there are no orderings but those that the compiler and signal handlers see.
//!
//! Only the outermost hold asks, once: a long one that has lost its core with the request does not ask again in the holds within it.
//! Waiting is no hold: a thread that waits asks for nothing, unless it holds another lock meanwhile. The extension is short then, too,
//! and each system call of a waiter ends it, so that how locks wait stays what it is.
//!
//! Source: Linux, Documentation/userspace-api/rseq.rst, include/linux/rseq_entry.h and kernel/rseq.c; Thomas Gleixner and Peter
//! Zijlstra 2025.

use core::cell::Cell;
use core::ptr::{NonNull, null};
use core::sync::atomic::{AtomicU8, Ordering, compiler_fence};

/// The byte of a thread's area of restartable sequences (`struct rseq`) at which its [`Control`] begins.
pub const CONTROL_OFFSET: usize = 28;

/// The size of the area as it was first. C libraries say so where 20 bytes are in use, and kernels that extend slices never do.
const FIRST_BYTES: u64 = 32;

/// Whether there is a [`Control`] in areas of which the C library has registered so many bytes (`__rseq_size`) on a kernel that knows
/// so many (`AT_RSEQ_FEATURE_SIZE`). Of those that know it, each has a byte behind it.
#[must_use]
pub const fn reaches_control(registered: u64, known: u64) -> bool {
    registered > FIRST_BYTES && known > FIRST_BYTES
}

/// A thread's word of the interface, `struct rseq_slice_ctrl`.
#[derive(Debug, Default)]
#[repr(C, align(4))]
pub struct Control {
    request: AtomicU8,
    granted: AtomicU8,
    _reserved: [AtomicU8; 2],
}

const _: () = assert!(size_of::<Control>() == 4);

impl Control {
    #[inline]
    fn is_granted(&self) -> bool {
        self.granted.load(Ordering::Relaxed) != 0
    }

    #[inline]
    fn ask(&self) {
        // A signal handler's hold that comes while an outermost hold ends is an outermost one, too.
        if !self.is_granted() {
            self.request.store(1, Ordering::Relaxed);
        }
    }

    #[inline]
    fn withdraw(&self) {
        self.request.store(0, Ordering::Relaxed); // one byte: the kernel may write the other before this
    }
}

/// What the kernel does for the calling thread.
///
/// # Safety
/// A control word stays valid as long as the thread for which it was given has holds.
pub unsafe trait Kernel {
    /// Lets the thread ask from here on, and gives its control word; none where the kernel refuses. Asked once, and again in the child
    /// of a fork.
    fn enable(&self) -> Option<NonNull<Control>>;

    /// The thread is done before its extension is used up.
    fn relinquish(&self);
}

/// The locks that a thread holds, as far as its time slice goes. All zeros at first.
///
/// A signal handler may come anywhere in these functions and use them.
#[derive(Debug)]
#[repr(C)]
pub struct Holds {
    /// Null before the kernel is asked, and where it refuses.
    control: Cell<*const Control>,
    /// Holds within each other.
    depth: Cell<u32>,
    refused: Cell<bool>,
}

impl Default for Holds {
    fn default() -> Self {
        Self::new()
    }
}

/// What a handler on this thread, and the kernel, see of the writes before and after this is in that order.
#[inline(always)]
fn in_order() {
    compiler_fence(Ordering::SeqCst);
}

impl Holds {
    /// No holds, of a thread that has asked for nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { control: Cell::new(null()), depth: Cell::new(0), refused: Cell::new(false) }
    }

    /// The thread has acquired a lock.
    #[inline]
    pub fn begin<K: Kernel>(&self, kernel: &K) {
        let depth = self.depth.get();
        self.depth.set(depth.saturating_add(1));
        in_order(); // what a handler acquires from here on is within this hold
        if depth == 0
            && let Some(control) = self.control_or_enable(kernel)
        {
            control.ask();
        }
        in_order();
    }

    /// The thread has released a lock. Where another thread acquired it, that one's hold does not end, and it asks no more.
    #[inline]
    pub fn end<K: Kernel>(&self, kernel: &K) {
        in_order();
        let depth = self.depth.get();
        if depth == 0 {
            return;
        }
        self.depth.set(depth - 1);
        in_order();
        if depth == 1
            && let Some(control) = self.control()
        {
            control.withdraw();
            in_order(); // from here on no extension is granted
            if control.is_granted() {
                kernel.relinquish();
            }
        }
    }

    /// The thread is about to sleep, for something else than a lock, and may hold locks meanwhile. A grant ends by the system call.
    #[inline]
    pub fn sleep(&self) {
        if self.depth.get() != 0
            && let Some(control) = self.control()
        {
            control.withdraw();
        }
    }

    /// This is the thread of a process that was just forked off, with the holds of the thread that forked.
    pub fn forked(&self) {
        self.sleep();
        self.control.set(null());
        self.refused.set(false);
    }

    #[inline]
    fn control(&self) -> Option<&Control> {
        // SAFETY: null, or what `Kernel::enable` promises to be valid as long as the thread has holds, which stay with their thread
        // because of the cells.
        unsafe { self.control.get().as_ref() }
    }

    #[inline]
    fn control_or_enable<K: Kernel>(&self, kernel: &K) -> Option<&Control> {
        if self.control.get().is_null() && !self.refused.get() {
            self.enable(kernel);
        }
        self.control()
    }

    #[cold]
    #[inline(never)]
    fn enable<K: Kernel>(&self, kernel: &K) {
        match kernel.enable() {
            Some(control) => self.control.set(control.as_ptr()),
            None => self.refused.set(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Control, Holds, Kernel, reaches_control};
    use core::cell::Cell;
    use core::ptr::NonNull;
    use core::sync::atomic::Ordering::Relaxed;

    /// A kernel that does what Linux does with the word of one thread, and checks it as Linux does where it was built to.
    #[derive(Default)]
    struct StandIn {
        control: Control,
        refuses: Cell<bool>,
        asked: Cell<u32>,
        relinquished: Cell<u32>,
    }

    impl StandIn {
        fn word(&self) -> (u8, u8) {
            (self.control.request.load(Relaxed), self.control.granted.load(Relaxed))
        }

        fn write(&self, request: u8, granted: u8) {
            self.control.request.store(request, Relaxed);
            self.control.granted.store(granted, Relaxed);
        }

        /// An interrupt that wants the core for another thread; whether the thread stays on it.
        fn interrupt(&self) -> bool {
            let extended = self.word() == (1, 0);
            assert_ne!(self.word(), (1, 1), "a request where an extension is granted");
            self.write(0, u8::from(extended));
            extended
        }

        /// The kernel at any system call.
        fn system_call(&self) {
            assert_ne!(self.word(), (1, 1), "a request where an extension is granted");
            if self.word().1 != 0 {
                self.write(0, 0);
            }
        }
    }

    // SAFETY: each test below keeps its kernel as long as the holds.
    unsafe impl Kernel for StandIn {
        fn enable(&self) -> Option<NonNull<Control>> {
            self.asked.set(self.asked.get() + 1);
            (!self.refuses.get()).then(|| NonNull::from(&self.control))
        }

        fn relinquish(&self) {
            assert_eq!(self.word(), (0, 1), "no extension is granted, or it is still asked for");
            self.relinquished.set(self.relinquished.get() + 1);
            self.system_call();
        }
    }

    #[test]
    fn a_hold_asks_and_its_end_withdraws() {
        let (kernel, holds) = (StandIn::default(), Holds::new());
        for _ in 0..3 {
            holds.begin(&kernel);
            assert_eq!(kernel.word(), (1, 0));
            holds.end(&kernel);
            assert_eq!(kernel.word(), (0, 0));
            assert!(!kernel.interrupt(), "between holds the core is lost");
        }
        assert_eq!((kernel.asked.get(), kernel.relinquished.get()), (1, 0), "enabled once");
    }

    #[test]
    fn the_end_of_a_hold_that_was_extended_gives_the_core_up() {
        let (kernel, holds) = (StandIn::default(), Holds::new());
        holds.begin(&kernel);
        assert!(kernel.interrupt());
        holds.end(&kernel);
        assert_eq!((kernel.word(), kernel.relinquished.get()), ((0, 0), 1));
        holds.begin(&kernel);
        assert_eq!(kernel.word(), (1, 0), "the next hold asks again");
        holds.end(&kernel);
        assert_eq!(kernel.relinquished.get(), 1);
    }

    #[test]
    fn an_extension_is_used_up_or_ends_by_a_system_call_in_the_hold() {
        let (kernel, holds) = (StandIn::default(), Holds::new());
        holds.begin(&kernel);
        assert!(kernel.interrupt());
        assert!(!kernel.interrupt(), "one extension, and no other on top of it");
        holds.end(&kernel);
        holds.begin(&kernel);
        assert!(kernel.interrupt());
        kernel.system_call();
        holds.end(&kernel);
        assert_eq!((kernel.word(), kernel.relinquished.get()), ((0, 0), 0), "there is nothing to give up");
    }

    #[test]
    fn of_nested_holds_the_outermost_asks() {
        let (kernel, holds) = (StandIn::default(), Holds::new());
        holds.begin(&kernel);
        holds.begin(&kernel);
        assert!(kernel.interrupt());
        holds.begin(&kernel);
        assert_eq!(kernel.word(), (0, 1), "no request while an extension is granted");
        holds.end(&kernel);
        holds.end(&kernel);
        assert_eq!((kernel.word(), kernel.relinquished.get()), ((0, 1), 0), "one lock is held still");
        holds.end(&kernel);
        assert_eq!((kernel.word(), kernel.relinquished.get()), ((0, 0), 1));
    }

    #[test]
    fn a_hold_that_lost_its_core_does_not_ask_again() {
        let (kernel, holds) = (StandIn::default(), Holds::new());
        holds.begin(&kernel);
        kernel.write(0, 0); // it was off its core
        holds.begin(&kernel);
        assert_eq!(kernel.word(), (0, 0));
        holds.end(&kernel);
        holds.end(&kernel);
        assert_eq!(kernel.relinquished.get(), 0);
    }

    /// Between the end of the last hold and the look at the grant.
    #[test]
    fn a_signal_handler_in_the_end_of_a_hold_asks_for_nothing_that_is_granted() {
        let (kernel, holds) = (StandIn::default(), Holds::new());
        holds.begin(&kernel);
        holds.end(&kernel);
        kernel.write(0, 1);
        holds.begin(&kernel);
        assert_eq!(kernel.word(), (0, 1));
        holds.end(&kernel);
        assert_eq!((kernel.word(), kernel.relinquished.get()), ((0, 0), 1));
    }

    #[test]
    fn a_thread_for_which_the_kernel_refuses_asks_for_nothing() {
        let (kernel, holds) = (StandIn::default(), Holds::new());
        kernel.refuses.set(true);
        for _ in 0..3 {
            holds.begin(&kernel);
            assert_eq!(kernel.word(), (0, 0));
            holds.sleep();
            assert!(!kernel.interrupt());
            holds.end(&kernel);
        }
        assert_eq!((kernel.asked.get(), kernel.relinquished.get()), (1, 0), "refused, and asked no more");
    }

    #[test]
    fn threads_of_which_one_is_refused_do_not_share_the_answer() {
        let (refusing, granting) = (StandIn::default(), StandIn::default());
        refusing.refuses.set(true);
        let (first, second) = (Holds::new(), Holds::new());
        first.begin(&refusing);
        second.begin(&granting);
        assert_eq!((refusing.word(), granting.word()), ((0, 0), (1, 0)));
    }

    #[test]
    fn a_sleep_withdraws_what_an_outer_hold_asks_for() {
        let (kernel, holds) = (StandIn::default(), Holds::new());
        holds.begin(&kernel);
        holds.begin(&kernel);
        holds.end(&kernel); // the mutex of the wait
        holds.sleep();
        assert_eq!(kernel.word(), (0, 0));
        holds.begin(&kernel); // it is taken back
        holds.end(&kernel);
        holds.end(&kernel);
        holds.begin(&kernel);
        assert_eq!(kernel.word(), (1, 0), "the depth is what it was");
    }

    #[test]
    fn the_child_of_a_fork_asks_the_kernel_anew_and_keeps_its_holds() {
        let (parent, child, holds) = (StandIn::default(), StandIn::default(), Holds::new());
        holds.begin(&parent);
        holds.forked();
        assert_eq!(parent.word(), (0, 0), "the word is the thread's, in its copy of the memory");
        holds.end(&child);
        assert_eq!((child.asked.get(), child.relinquished.get()), (0, 0));
        holds.begin(&child);
        assert_eq!((child.asked.get(), child.word()), (1, (1, 0)));
        holds.end(&child);
        child.refuses.set(true);
        holds.forked();
        holds.begin(&child);
        assert_eq!(child.word(), (0, 0), "refused there, whatever the parent was told");
    }

    #[test]
    fn a_release_of_what_another_thread_acquired_ends_nothing() {
        let (kernel, holds) = (StandIn::default(), Holds::new());
        holds.end(&kernel);
        holds.begin(&kernel);
        assert_eq!(kernel.word(), (1, 0));
        holds.end(&kernel);
        holds.end(&kernel);
        assert_eq!((kernel.word(), kernel.asked.get()), ((0, 0), 1));
    }

    #[test]
    fn the_word_is_where_both_kernel_and_c_library_know_it() {
        assert!(reaches_control(33, 33));
        assert!(!reaches_control(33, 28), "registered for a kernel that does not know it");
        assert!(!reaches_control(32, 33), "glibc 2.35 to 2.39, of whose 32 bytes 20 are in use");
        assert!(!reaches_control(20, 33), "glibc 2.40");
        assert!(!reaches_control(28, 28), "Linux 6.3 to 6.19");
        assert!(!reaches_control(0, 33) && !reaches_control(0, 0), "not registered");
    }
}
