//! C and C++ libraries, through the shims in `shims/`.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;

use workloads::exclusion::Exclusion;

/// A lock of so many words: what it guards follows it, on its line, as with all other locks.
#[repr(C)]
struct Storage<const WORDS: usize>(UnsafeCell<[u64; WORDS]>);

impl<const WORDS: usize> Storage<WORDS> {
    const fn zeroed() -> Self {
        Self(UnsafeCell::new([0; WORDS]))
    }

    #[inline]
    fn at(&self) -> *mut c_void {
        self.0.get().cast()
    }
}

// SAFETY: only the shims touch it, and they are made for threads.
unsafe impl<const WORDS: usize> Send for Storage<WORDS> {}
// SAFETY: only the shims touch it, and they are made for threads.
unsafe impl<const WORDS: usize> Sync for Storage<WORDS> {}

/// Space for any node of the shims, as in `shims/shim.h`, on lines of its own.
#[repr(C, align(64))]
struct Node([u8; 128]);

/// Runs a section between two functions of a shim, with a node on the stack.
macro_rules! between {
    ($lock:expr, $acquire:ident, $section:expr, $release:ident) => {{
        // Not initialised: each shim that wants a node initialises it, and the others must not pay for that.
        let mut node = MaybeUninit::<Node>::uninit();
        let node = node.as_mut_ptr().cast::<c_void>();
        // SAFETY: a lock initialised by the shim; a node that stays where it is until the release.
        unsafe { $acquire($lock.at(), node) };
        let result = $section();
        // SAFETY: acquired above, with this node.
        unsafe { $release($lock.at(), node) };
        result
    }};
}

macro_rules! foreign {
    ($name:ident, $words:literal, $size:ident, $init:ident, $acquire:ident, $release:ident $(, $acquire_shared:ident, $release_shared:ident)?) => {
        unsafe extern "C" {
            safe fn $size() -> std::ffi::c_ulong;
            fn $init(lock: *mut c_void);
            fn $acquire(lock: *mut c_void, node: *mut c_void);
            fn $release(lock: *mut c_void, node: *mut c_void);
            $(fn $acquire_shared(lock: *mut c_void, node: *mut c_void);
            fn $release_shared(lock: *mut c_void, node: *mut c_void);)?
        }

        #[doc = concat!("The lock that `", stringify!($acquire), "` acquires.")]
        pub(crate) struct $name(Storage<$words>);

        impl Exclusion for $name {
            fn new() -> Self {
                let storage = Storage::zeroed();
                assert_eq!($size(), $words, "the words of {}", stringify!($name));
                // SAFETY: zeroed storage of the lock's size, aligned as shims are compiled for. None of these locks holds an
                // address of itself, so it may be moved until it is used.
                unsafe { $init(storage.at()) };
                Self(storage)
            }

            #[inline]
            fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
                between!(self.0, $acquire, section, $release)
            }

            $(
            const SHARES: bool = true;

            #[inline]
            fn shared<R>(&self, section: impl FnOnce() -> R) -> R {
                between!(self.0, $acquire_shared, section, $release_shared)
            }
            )?
        }
    };
}

#[cfg(peer_ck)]
pub(crate) use ck::*;
#[cfg(peer_ck)]
mod ck {
    use super::*;

    foreign!(
        CkFas, 1, contend_peer_ck_fas_words, contend_peer_ck_fas_init, contend_peer_ck_fas_acquire,
        contend_peer_ck_fas_release
    );
    foreign!(
        CkCas, 1, contend_peer_ck_cas_words, contend_peer_ck_cas_init, contend_peer_ck_cas_acquire,
        contend_peer_ck_cas_release
    );
    foreign!(
        CkTicket, 1, contend_peer_ck_ticket_words, contend_peer_ck_ticket_init,
        contend_peer_ck_ticket_acquire, contend_peer_ck_ticket_release
    );
    foreign!(
        CkMcs, 1, contend_peer_ck_mcs_words, contend_peer_ck_mcs_init, contend_peer_ck_mcs_acquire,
        contend_peer_ck_mcs_release
    );
    foreign!(
        CkClh, 1, contend_peer_ck_clh_words, contend_peer_ck_clh_init, contend_peer_ck_clh_acquire,
        contend_peer_ck_clh_release
    );
    foreign!(
        CkRwLock, 1, contend_peer_ck_rwlock_words, contend_peer_ck_rwlock_init,
        contend_peer_ck_rwlock_acquire, contend_peer_ck_rwlock_release,
        contend_peer_ck_rwlock_acquire_shared, contend_peer_ck_rwlock_release_shared
    );
    foreign!(
        CkPfLock, 2, contend_peer_ck_pflock_words, contend_peer_ck_pflock_init,
        contend_peer_ck_pflock_acquire, contend_peer_ck_pflock_release,
        contend_peer_ck_pflock_acquire_shared, contend_peer_ck_pflock_release_shared
    );
}

#[cfg(peer_tbb)]
pub(crate) use tbb::*;
#[cfg(peer_tbb)]
mod tbb {
    use super::*;

    foreign!(
        TbbSpin, 1, contend_peer_tbb_spin_words, contend_peer_tbb_spin_init, contend_peer_tbb_spin_acquire,
        contend_peer_tbb_spin_release
    );
    foreign!(
        TbbMutex, 1, contend_peer_tbb_mutex_words, contend_peer_tbb_mutex_init,
        contend_peer_tbb_mutex_acquire, contend_peer_tbb_mutex_release
    );
    foreign!(
        TbbQueuing, 1, contend_peer_tbb_queuing_words, contend_peer_tbb_queuing_init,
        contend_peer_tbb_queuing_acquire, contend_peer_tbb_queuing_release
    );
    foreign!(
        TbbSpinRw, 1, contend_peer_tbb_spin_rw_words, contend_peer_tbb_spin_rw_init,
        contend_peer_tbb_spin_rw_acquire, contend_peer_tbb_spin_rw_release,
        contend_peer_tbb_spin_rw_acquire_shared, contend_peer_tbb_spin_rw_release_shared
    );
    foreign!(
        TbbQueuingRw,
        1,
        contend_peer_tbb_queuing_rw_words,
        contend_peer_tbb_queuing_rw_init,
        contend_peer_tbb_queuing_rw_acquire,
        contend_peer_tbb_queuing_rw_release,
        contend_peer_tbb_queuing_rw_acquire_shared,
        contend_peer_tbb_queuing_rw_release_shared
    );
    foreign!(
        TbbRw, 1, contend_peer_tbb_rw_words, contend_peer_tbb_rw_init, contend_peer_tbb_rw_acquire,
        contend_peer_tbb_rw_release, contend_peer_tbb_rw_acquire_shared, contend_peer_tbb_rw_release_shared
    );
}

#[cfg(peer_absl)]
pub(crate) use absl::*;
#[cfg(peer_absl)]
mod absl {
    use super::*;

    foreign!(
        AbslMutex, 1, contend_peer_absl_mutex_words, contend_peer_absl_mutex_init,
        contend_peer_absl_mutex_acquire, contend_peer_absl_mutex_release,
        contend_peer_absl_mutex_acquire_shared, contend_peer_absl_mutex_release_shared
    );
}

#[cfg(peer_nsync)]
pub(crate) use nsync::*;
#[cfg(peer_nsync)]
mod nsync {
    use super::*;

    foreign!(
        NsyncMu, 2, contend_peer_nsync_mu_words, contend_peer_nsync_mu_init, contend_peer_nsync_mu_acquire,
        contend_peer_nsync_mu_release, contend_peer_nsync_mu_acquire_shared,
        contend_peer_nsync_mu_release_shared
    );
}
