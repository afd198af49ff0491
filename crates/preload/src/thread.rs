//! What this library keeps for each thread, in initial-exec thread-local storage.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::from_ref;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use crate::recorder;
use crate::undisturbed::Before;

/// Read locks that a thread can hold at once and have them known by address.
const READS: usize = 16;

/// A thread's own storage. All zeros at first.
#[repr(C)]
pub(crate) struct Thread {
    /// See [`Thread::identity`]; 0 until it is asked for.
    identity: Cell<u32>,
    /// The thread has been seen by the recorder's exit handler.
    entered: Cell<bool>,
    /// The read locks that the thread holds.
    pub(crate) reads: Reads,
    /// It forks, and decides alone meanwhile.
    pub(crate) forking: Cell<bool>,
    /// What it let through before it began to fork.
    pub(crate) before_fork: Cell<Before>,
    /// The recorder's part.
    pub(crate) recorded: recorder::PerThread,
}

machine::thread_block!(fn block -> Thread, symbol = "contend_preload_thread");

/// The last identity given out.
static IDENTITIES: AtomicU32 = AtomicU32::new(0);

/// The calling thread's storage.
#[inline]
pub(crate) fn current() -> &'static Thread {
    // SAFETY: zeros are a valid value. The block lives as long as the thread, which is where the reference stays.
    unsafe { &*block() }
}

impl Thread {
    /// A number that no other thread of the process ever has, never 0. It is the same before and after a fork, and
    /// from the thread's first call to its last destructor.
    #[inline]
    pub(crate) fn identity(&self) -> u32 {
        let identity = self.identity.get();
        if identity != 0 { identity } else { self.new_identity() }
    }

    #[cold]
    fn new_identity(&self) -> u32 {
        self.identity.set(IDENTITIES.fetch_add(1, Ordering::Relaxed) + 1);
        self.identity.get()
    }

    /// The recorder's part of a thread whose end will be noticed.
    #[inline]
    pub(crate) fn recording(&self) -> &recorder::PerThread {
        if !self.entered.get() {
            self.enter();
        }
        &self.recorded
    }

    #[cold]
    fn enter(&self) {
        self.entered.set(true);
        let key = EXIT_KEY.load(Ordering::Acquire);
        if key != 0 {
            // SAFETY: the key exists. It is one of the first, for which glibc allocates nothing.
            unsafe { libc::pthread_setspecific(key - 1, from_ref(self).cast()) };
        }
    }
}

/// The key whose destructor tells the recorder of a thread's end, plus one; 0 while there is none.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);

/// Has the ends of threads noticed.
pub(crate) fn watch_ends() {
    let mut key = 0;
    // SAFETY: the destructor is a plain function. Without a key the recorder finds out later that a thread is gone.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) } == 0 {
        EXIT_KEY.store(key + 1, Ordering::Release);
    }
}

extern "C" fn ended(_: *mut c_void) {
    recorder::thread_ends(&current().recorded);
}

/// Read locks held by a thread: how often each, as far as there is room.
///
/// A signal handler may come between any two writes, and try and give up read locks of its own, this very one included. So
/// a line in use is whole at any moment, or has no lock yet, and lines that are not in use have none.
#[repr(C)]
pub(crate) struct Reads {
    holds: [Hold; READS],
    /// Lines in use.
    used: Cell<usize>,
    /// Holds that found no line.
    more: Cell<u32>,
}

#[repr(C)]
struct Hold {
    /// Address of the lock; 0 in a line that is not in use.
    lock: Cell<usize>,
    count: Cell<u32>,
}

/// What a handler on this thread sees of the writes before and after this is in that order.
#[inline(always)]
fn in_order() {
    compiler_fence(Ordering::SeqCst);
}

impl Reads {
    fn line(&self, lock: usize) -> Option<(usize, &Hold)> {
        self.holds[..self.used.get().min(READS)].iter().enumerate().find(|(_, hold)| hold.lock.get() == lock)
    }

    /// Whether the thread reads under this lock, as far as is known.
    #[inline]
    pub(crate) fn holds(&self, lock: usize) -> bool {
        self.used.get() != 0 && self.line(lock).is_some()
    }

    /// Counts a hold.
    #[inline]
    pub(crate) fn add(&self, lock: usize) {
        if let Some((_, hold)) = self.line(lock) {
            return hold.count.set(hold.count.get() + 1);
        }
        let used = self.used.get();
        match self.holds.get(used) {
            Some(hold) => {
                self.used.set(used + 1); // the line is taken: a handler's goes behind it
                in_order();
                hold.count.set(1);
                in_order();
                hold.lock.set(lock);
            }
            None => self.more.set(self.more.get() + 1),
        }
    }

    /// Counts a hold less. False if the lock is in no line: the hold is another thread's, or one of those that found no line,
    /// or there is none.
    #[inline]
    pub(crate) fn remove(&self, lock: usize) -> bool {
        match self.line(lock) {
            Some((_, hold)) if hold.count.get() > 1 => hold.count.set(hold.count.get() - 1),
            Some((index, _)) => self.remove_line(index),
            None => {
                self.more.set(self.more.get().saturating_sub(1));
                return false;
            }
        }
        true
    }

    /// The lock is gone, or was found not to be read by this thread.
    pub(crate) fn forget(&self, lock: usize) {
        if let Some((index, _)) = self.line(lock) {
            self.remove_line(index);
        }
    }

    /// Moves the last line to this place. Where both say the same lock, the first is the one that counts.
    fn remove_line(&self, index: usize) {
        let (hold, last) = (&self.holds[index], self.used.get() - 1);
        hold.lock.set(self.holds[last].lock.get());
        in_order();
        hold.count.set(self.holds[last].count.get());
        in_order();
        self.holds[last].lock.set(0);
        in_order();
        self.used.set(last);
    }

    /// Calls `each` with every known lock and how often the thread reads under it.
    pub(crate) fn each(&self, mut each: impl FnMut(usize, u32)) {
        for hold in &self.holds[..self.used.get().min(READS)] {
            each(hold.lock.get(), hold.count.get());
        }
    }
}
