//! The counters that the launcher reads at the end: see [`profile::tally`].

use core::ffi::CStr;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

use profile::tally::Tally;

static TALLY: AtomicPtr<Tally> = AtomicPtr::new(null_mut());
static COUNTS_ALL: AtomicBool = AtomicBool::new(false);

/// The counters, if this process shares any.
pub(crate) fn get() -> Option<&'static Tally> {
    // SAFETY: null, or a mapping that stays and that no process can cut short; its words are atomic.
    unsafe { TALLY.load(Relaxed).as_ref() }
}

/// Whether objects of kinds for which no lock is chosen are to be counted too.
#[inline]
pub(crate) fn counts_all() -> bool {
    COUNTS_ALL.load(Relaxed)
}

/// Maps the file at `path`, unless it is no tally. Called by the constructor.
pub(crate) fn attach(path: &CStr) {
    // SAFETY: the path ends with a zero; the descriptor is this function's own, and a mapping outlives it.
    let base = unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK);
        if file < 0 {
            return;
        }
        // Where the launcher has ended, the path may be anything. Only what cannot be cut short is touched.
        let seals = libc::fcntl(file, libc::F_GET_SEALS);
        let whole = seals >= 0 && seals & libc::F_SEAL_SHRINK != 0 && length(file) == Some(Tally::LENGTH);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let base = if whole {
            libc::mmap(null_mut(), Tally::LENGTH, access, libc::MAP_SHARED, file, 0)
        } else {
            libc::MAP_FAILED
        };
        libc::close(file);
        base
    };
    if base == libc::MAP_FAILED {
        return;
    }
    // SAFETY: just mapped, as long as a tally and aligned to a page.
    let tally = unsafe { &*base.cast::<Tally>() };
    if !tally.begun() {
        // SAFETY: no other thread knows the mapping.
        unsafe { libc::munmap(base, Tally::LENGTH) };
        return;
    }
    tally.processes.fetch_add(1, Relaxed);
    COUNTS_ALL.store(tally.counts_all.load(Relaxed) != 0, Relaxed);
    TALLY.store(base.cast(), Relaxed);
}

fn length(file: i32) -> Option<usize> {
    // SAFETY: all-zero is a valid stat, and the pointer is valid for the call.
    unsafe {
        let mut data: libc::stat = core::mem::zeroed();
        (libc::fstat(file, &raw mut data) == 0).then_some(data.st_size as usize)
    }
}
