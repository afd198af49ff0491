//! Locks of crates that people use, spinning or blocking as they are made to.

use std::cell::Cell;

use workloads::exclusion::Exclusion;

/// A lock whose guard releases it.
macro_rules! guarded {
    ($name:ident, $lock:ty, $doc:literal) => {
        #[doc = $doc]
        pub(crate) struct $name($lock);

        impl Exclusion for $name {
            fn new() -> Self {
                Self(<$lock>::new(()))
            }

            #[inline]
            fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
                let _guard = self.0.lock();
                section()
            }
        }
    };
}

/// A reader-writer lock whose guards release it.
macro_rules! guarded_shared {
    ($name:ident, $lock:ty, $doc:literal) => {
        #[doc = $doc]
        pub(crate) struct $name($lock);

        impl Exclusion for $name {
            const SHARES: bool = true;

            fn new() -> Self {
                Self(<$lock>::new(()))
            }

            #[inline]
            fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
                let _guard = self.0.write();
                section()
            }

            #[inline]
            fn shared<R>(&self, section: impl FnOnce() -> R) -> R {
                let _guard = self.0.read();
                section()
            }
        }
    };
}

guarded!(ParkingLotMutex, parking_lot::Mutex<()>, "parking_lot's mutex.");
guarded_shared!(ParkingLotRwLock, parking_lot::RwLock<()>, "parking_lot's reader-writer lock.");
guarded!(SpinMutex, spin::mutex::SpinMutex<()>, "spin's mutex: test-and-test-and-set.");
guarded!(SpinTicket, spin::mutex::TicketMutex<()>, "spin's ticket lock.");
guarded_shared!(SpinRwLock, spin::RwLock<()>, "spin's reader-writer lock.");
guarded!(
    McsLockBarging,
    mcslock::barging::spins::Mutex<()>,
    "mcslock's lock that newcomers may take past its queue."
);

/// mcslock's MCS lock, with a node on the stack.
pub(crate) struct McsLock(mcslock::raw::spins::Mutex<()>);

impl Exclusion for McsLock {
    fn new() -> Self {
        Self(mcslock::raw::spins::Mutex::new(()))
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        let mut node = mcslock::raw::MutexNode::new();
        self.0.lock_with_then(&mut node, |()| section())
    }
}

thread_local! {
    /// A node of clhlock goes from thread to thread: the one that this thread has now.
    static CLH_NODE: Cell<Option<clhlock::raw::MutexNode>> = const { Cell::new(None) };
}

/// clhlock's CLH lock, its nodes used again.
pub(crate) struct ClhLock(clhlock::raw::spins::Mutex<()>);

impl Exclusion for ClhLock {
    fn new() -> Self {
        Self(clhlock::raw::spins::Mutex::new(()))
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        let guard = self.0.lock_with(CLH_NODE.take().unwrap_or_default());
        let result = section();
        CLH_NODE.set(Some(guard.unlock()));
        result
    }
}
