//! What a run with other locks counts, over all of its processes: a page of memory that the launcher shares with them.
//!
//! The launcher makes it as a sealed file in memory ([`Tally::LENGTH`] bytes, which no process can shrink under the others'
//! mappings) and names it in the environment. Every process that loads the preload library maps it and counts into it; the
//! launcher reads it when the program has ended. A process that cannot open it, since it has other rights or outlives the
//! launcher, runs as it would with it, uncounted.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pthread::object::ObjectKind;

use crate::format::{PAGE, Refusal};

/// The first word of a tally: another file of this length is none.
const MAGIC: u64 = u64::from_le_bytes(*b"contally");

/// Sites that are counted apart at most.
pub const SITES: usize = 64;

/// Reasons why objects stay the C library's although locks of their kind are swapped: the values of [`Refusal`].
pub const REASONS: usize = 6;

/// Objects of one kind, each counted when it is decided whose it is: at its first use after each initialisation.
#[repr(C)]
#[derive(Debug)]
pub struct OfKind {
    /// Those that became the chosen lock.
    pub swapped: AtomicU64,
    /// Those of `swapped` that have to emulate a call: timed waits, or shared acquisitions.
    pub emulated: AtomicU64,
    /// Those that were to be swapped and stayed the C library's, by [`Refusal`].
    pub left: [AtomicU64; REASONS],
    /// Those for which no lock was chosen. Counted where [`Tally::counts_all`] asks for it.
    pub not_chosen: AtomicU64,
}

/// The counters of a run. Any process may add at any time.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Tally {
    magic: AtomicU64,
    /// 1: objects of kinds for which no lock is chosen are to be counted too, which costs their calls a look.
    pub counts_all: AtomicU64,
    /// Process images that loaded the library.
    pub processes: AtomicU64,
    /// Objects, by [`of`](Tally::of).
    kinds: [OfKind; 3],
    /// Objects that each site matched, in the order in which the configuration names the sites.
    pub sites: [AtomicU64; SITES],
    /// Objects that were found to belong to each site after the C library had got them.
    pub late: [AtomicU64; SITES],
}

const _: () = assert!(size_of::<Tally>() as u64 == PAGE);

impl Tally {
    /// Length of the file in bytes.
    pub const LENGTH: usize = size_of::<Self>();

    /// Begins to count from zero.
    ///
    /// To be called once, on zeroed memory that others do not know yet.
    pub fn begin(&self, counts_all: bool) {
        self.counts_all.store(u64::from(counts_all), Relaxed);
        self.magic.store(MAGIC, Relaxed);
    }

    /// Whether this memory is a tally.
    pub fn begun(&self) -> bool {
        self.magic.load(Relaxed) == MAGIC
    }

    /// The objects of a kind.
    pub fn of(&self, kind: ObjectKind) -> &OfKind {
        &self.kinds[kind.index()]
    }
}

impl OfKind {
    /// The counter of objects left to the C library for `reason`.
    pub fn left_for(&self, reason: Refusal) -> &AtomicU64 {
        &self.left[reason as usize]
    }
}

/// The launcher's side of a tally.
#[cfg(feature = "read")]
mod shared {
    use std::fs::File;
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::path::PathBuf;

    use memmap2::{MmapOptions, MmapRaw};

    use super::Tally;

    /// A tally that the processes of a run can open for as long as this value lives.
    #[derive(Debug)]
    pub struct SharedTally {
        file: File,
        map: MmapRaw,
    }

    impl SharedTally {
        /// Makes a tally of zeros; see [`Tally::counts_all`].
        ///
        /// # Errors
        /// What the system says.
        pub fn new(counts_all: bool) -> io::Result<Self> {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            // SAFETY: the name ends with a zero.
            let descriptor = unsafe { libc::memfd_create(c"contend-tally".as_ptr(), flags) };
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: just opened, and owned by no other value.
            let file = unsafe { File::from_raw_fd(descriptor) };
            file.set_len(Tally::LENGTH as u64)?;
            let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
            // SAFETY: the descriptor is open.
            if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
                return Err(io::Error::last_os_error());
            }
            let map = MmapOptions::new().len(Tally::LENGTH).map_raw(&file)?;
            let tally = Self { file, map };
            tally.get().begin(counts_all);
            Ok(tally)
        }

        /// The path under which they can.
        pub fn path(&self) -> PathBuf {
            PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
        }

        /// The counters.
        pub fn get(&self) -> &Tally {
            // SAFETY: the mapping is as long as a tally, aligned to a page, sealed against being cut short, and lives as
            // long as `self`; all of its words are atomic.
            unsafe { &*self.map.as_mut_ptr().cast::<Tally>() }
        }
    }
}

#[cfg(feature = "read")]
pub use shared::SharedTally;
