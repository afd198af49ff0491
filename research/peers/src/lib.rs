//! Locks of other libraries under the interface of benchmarks, so that ours and theirs run in one process.
//!
//! The C library's and the standard library's are always there. With the feature `libraries` come the crates that people
//! use, and the C and C++ libraries of Debian's packages through a function call each for acquisition and release.
//! A peer that could not be built stays in the list and says why.
//!
//! ```
//! use contend_peers::{Peer, Visitor, visit};
//! use workloads::exclusion::Exclusion;
//!
//! /// Counts to three, each time in a section of its own.
//! struct Three;
//!
//! impl Visitor for Three {
//!     type Output = (u64, &'static str);
//!
//!     fn visit<P: Exclusion>(self, peer: &'static Peer) -> Self::Output {
//!         let (lock, mut count) = (P::new(), 0);
//!         (0..3).for_each(|_| lock.exclusive(|| count += 1));
//!         (count, peer.library)
//!     }
//! }
//!
//! assert_eq!(visit("posix-mutex", Three), Some((3, "glibc")));
//! assert_eq!(visit("no-such-lock", Three), None);
//! ```

#[cfg(feature = "libraries")]
mod crates;
#[cfg(any(peer_ck, peer_tbb, peer_absl, peer_nsync))]
mod foreign;
mod glibc;
mod standard;

use workloads::exclusion::Exclusion;

/// A lock of another library.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The name that commands take.
    pub name: &'static str,
    /// Whose it is.
    pub library: &'static str,
    /// The lock of ours with the same algorithm, or for locks that sleep the same use, by its name in the catalogue.
    pub same_as: Option<&'static str>,
    /// Its waiters sleep, so that it is made for more threads than cores.
    pub blocks: bool,
    /// Readers share it.
    pub shared: bool,
    /// It is reached by a function call for the acquisition and another for the release; the others inline.
    pub called: bool,
    /// Why it is not there.
    pub missing: Option<&'static str>,
}

/// Code that wants to use a peer by its name, with its type.
pub trait Visitor {
    /// What the visit gives.
    type Output;
    /// A peer that was built.
    fn visit<P: Exclusion>(self, peer: &'static Peer) -> Self::Output;
}

/// Why a crate is not there.
const WITHOUT_LIBRARIES: &str = "contend was built without the feature `peers`";

/// Why a C or C++ library is not there; none if it is.
macro_rules! missing {
    ($there:meta, $variable:literal) => {
        if cfg!($there) {
            None
        } else {
            match option_env!($variable) {
                Some(reason) => Some(reason),
                None => Some(WITHOUT_LIBRARIES),
            }
        }
    };
}

const NO_CRATES: Option<&str> = if cfg!(feature = "libraries") { None } else { Some(WITHOUT_LIBRARIES) };
const NO_CK: Option<&str> = missing!(peer_ck, "CONTEND_PEER_CK_MISSING");
const NO_TBB: Option<&str> = missing!(peer_tbb, "CONTEND_PEER_TBB_MISSING");
const NO_ABSL: Option<&str> = missing!(peer_absl, "CONTEND_PEER_ABSL_MISSING");
const NO_NSYNC: Option<&str> = missing!(peer_nsync, "CONTEND_PEER_NSYNC_MISSING");

macro_rules! peers {
    ($($(#[$there:meta])? $name:literal of $library:literal, $type:ty {
        same_as: $same:expr, blocks: $blocks:literal, shared: $shared:literal, called: $called:literal,
        missing: $missing:expr $(,)?
    })*) => {
        /// Every peer, in the order in which tables show them.
        pub const PEERS: &[Peer] = &[$(Peer {
            name: $name,
            library: $library,
            same_as: $same,
            blocks: $blocks,
            shared: $shared,
            called: $called,
            missing: $missing,
        }),*];

        /// Calls the visitor with the type of the peer of this name; none if there is no such peer here.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            let peer = find(name)?;
            match name {
                $($(#[$there])? $name => Some(visitor.visit::<$type>(peer)),)*
                _ => None,
            }
        }
    };
}

/// The peer of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Peer> {
    PEERS.iter().find(|peer| peer.name == name)
}

peers! {
    "posix-mutex" of "glibc", glibc::Mutex {
        same_as: Some("futex"), blocks: true, shared: false, called: true, missing: None,
    }
    "posix-adaptive" of "glibc", glibc::Adaptive {
        same_as: Some("futex"), blocks: true, shared: false, called: true, missing: None,
    }
    "posix-spin" of "glibc", glibc::Spin {
        same_as: Some("ttas"), blocks: false, shared: false, called: true, missing: None,
    }
    "posix-rwlock" of "glibc", glibc::RwLock {
        same_as: Some("rw"), blocks: true, shared: true, called: true, missing: None,
    }
    "std-mutex" of "std", standard::Mutex {
        same_as: Some("futex"), blocks: true, shared: false, called: false, missing: None,
    }
    "std-rwlock" of "std", standard::RwLock {
        same_as: Some("rw"), blocks: true, shared: true, called: false, missing: None,
    }
    #[cfg(feature = "libraries")]
    "parking-lot-mutex" of "parking_lot", crates::ParkingLotMutex {
        same_as: Some("futex"), blocks: true, shared: false, called: false, missing: NO_CRATES,
    }
    #[cfg(feature = "libraries")]
    "parking-lot-rwlock" of "parking_lot", crates::ParkingLotRwLock {
        same_as: Some("rw"), blocks: true, shared: true, called: false, missing: NO_CRATES,
    }
    #[cfg(feature = "libraries")]
    "spin-mutex" of "spin", crates::SpinMutex {
        same_as: Some("ttas"), blocks: false, shared: false, called: false, missing: NO_CRATES,
    }
    #[cfg(feature = "libraries")]
    "spin-ticket" of "spin", crates::SpinTicket {
        same_as: Some("ticket"), blocks: false, shared: false, called: false, missing: NO_CRATES,
    }
    #[cfg(feature = "libraries")]
    "spin-rwlock" of "spin", crates::SpinRwLock {
        same_as: Some("rw-naive"), blocks: false, shared: true, called: false, missing: NO_CRATES,
    }
    #[cfg(feature = "libraries")]
    "mcslock" of "mcslock", crates::McsLock {
        same_as: Some("mcs"), blocks: false, shared: false, called: false, missing: NO_CRATES,
    }
    #[cfg(feature = "libraries")]
    "mcslock-barging" of "mcslock", crates::McsLockBarging {
        same_as: None, blocks: false, shared: false, called: false, missing: NO_CRATES,
    }
    #[cfg(feature = "libraries")]
    "clhlock" of "clhlock", crates::ClhLock {
        same_as: Some("clh"), blocks: false, shared: false, called: false, missing: NO_CRATES,
    }
    #[cfg(peer_ck)]
    "ck-fas" of "Concurrency Kit", foreign::CkFas {
        same_as: Some("ttas"), blocks: false, shared: false, called: true, missing: NO_CK,
    }
    #[cfg(peer_ck)]
    "ck-cas" of "Concurrency Kit", foreign::CkCas {
        same_as: Some("ttas"), blocks: false, shared: false, called: true, missing: NO_CK,
    }
    #[cfg(peer_ck)]
    "ck-ticket" of "Concurrency Kit", foreign::CkTicket {
        same_as: Some("ticket4"), blocks: false, shared: false, called: true, missing: NO_CK,
    }
    #[cfg(peer_ck)]
    "ck-mcs" of "Concurrency Kit", foreign::CkMcs {
        same_as: Some("mcs"), blocks: false, shared: false, called: true, missing: NO_CK,
    }
    #[cfg(peer_ck)]
    "ck-clh" of "Concurrency Kit", foreign::CkClh {
        same_as: Some("clh"), blocks: false, shared: false, called: true, missing: NO_CK,
    }
    // Not `rw-naive`: a writer has a word of its own, which keeps readers out while it waits for those that are in.
    #[cfg(peer_ck)]
    "ck-rwlock" of "Concurrency Kit", foreign::CkRwLock {
        same_as: None, blocks: false, shared: true, called: true, missing: NO_CK,
    }
    #[cfg(peer_ck)]
    "ck-pflock" of "Concurrency Kit", foreign::CkPfLock {
        same_as: None, blocks: false, shared: true, called: true, missing: NO_CK,
    }
    #[cfg(peer_tbb)]
    "tbb-spin" of "oneTBB", foreign::TbbSpin {
        same_as: Some("ttas"), blocks: false, shared: false, called: true, missing: NO_TBB,
    }
    #[cfg(peer_tbb)]
    "tbb-mutex" of "oneTBB", foreign::TbbMutex {
        same_as: None, blocks: true, shared: false, called: true, missing: NO_TBB,
    }
    #[cfg(peer_tbb)]
    "tbb-queuing" of "oneTBB", foreign::TbbQueuing {
        same_as: Some("mcs"), blocks: false, shared: false, called: true, missing: NO_TBB,
    }
    #[cfg(peer_tbb)]
    "tbb-spin-rw" of "oneTBB", foreign::TbbSpinRw {
        same_as: Some("rw-naive"), blocks: false, shared: true, called: true, missing: NO_TBB,
    }
    #[cfg(peer_tbb)]
    "tbb-queuing-rw" of "oneTBB", foreign::TbbQueuingRw {
        same_as: Some("rw-queued"), blocks: false, shared: true, called: true, missing: NO_TBB,
    }
    #[cfg(peer_tbb)]
    "tbb-rw" of "oneTBB", foreign::TbbRw {
        same_as: None, blocks: true, shared: true, called: true, missing: NO_TBB,
    }
    #[cfg(peer_absl)]
    "absl-mutex" of "Abseil", foreign::AbslMutex {
        same_as: Some("rw"), blocks: true, shared: true, called: true, missing: NO_ABSL,
    }
    #[cfg(peer_nsync)]
    "nsync-mu" of "nsync", foreign::NsyncMu {
        same_as: Some("rw"), blocks: true, shared: true, called: true, missing: NO_NSYNC,
    }
}
