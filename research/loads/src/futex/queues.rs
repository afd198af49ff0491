//! Where threads wait for a word, and who wakes them: the kernel by its two interfaces, and the wait table.

use super::retried;
use locks::{Spacing, Timeout};
use machine::{Home, Patient};
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The futex's word, and the memory node of its bucket, which the kernel chooses where it is [`NO_NODE`].
#[derive(Debug)]
#[repr(C, align(8))]
pub(super) struct FutexWord {
    pub(super) value: AtomicU32,
    node: AtomicU32,
}

const NO_NODE: u32 = u32::MAX;

impl Default for FutexWord {
    fn default() -> Self {
        Self { value: AtomicU32::new(0), node: AtomicU32::new(NO_NODE) }
    }
}

/// Queues of threads that wait for words.
pub(super) trait WaitQueues: Sync {
    /// Sleeps until woken if the word holds `expected`; returns at once if it holds something else.
    fn wait(&self, word: &FutexWord, expected: u32) -> io::Result<()>;

    /// Wakes at most so many; how many those were.
    fn wake(&self, word: &FutexWord, most: u32) -> io::Result<u32>;
}

/// What the word is changed to ends a wait like a wake-up.
fn ended(slept: rustix::io::Result<()>) -> Option<io::Result<()>> {
    match slept {
        Ok(()) | Err(Errno::AGAIN) => Some(Ok(())),
        Err(Errno::INTR) => None,
        Err(error) => Some(Err(error.into())),
    }
}

/// futex(2).
pub(super) struct Kernel {
    pub(super) shared: bool,
}

impl Kernel {
    pub(super) fn flags(&self) -> Flags {
        if self.shared { Flags::empty() } else { Flags::PRIVATE }
    }
}

impl WaitQueues for Kernel {
    fn wait(&self, word: &FutexWord, expected: u32) -> io::Result<()> {
        loop {
            if let Some(ended) = ended(futex::wait(&word.value, self.flags(), expected, None)) {
                return ended;
            }
        }
    }

    fn wake(&self, word: &FutexWord, most: u32) -> io::Result<u32> {
        retried(|| futex::wake(&word.value, self.flags(), most)).map(|woken| woken as u32)
    }
}

/// futex_wait(2) and futex_wake(2) of Linux 6.7 with a bucket on the memory node that the word names, as of 6.16.
pub(super) struct KernelByNode {
    pub(super) shared: bool,
}

impl KernelByNode {
    /// The same on all architectures.
    const FUTEX_WAKE: libc::c_long = 454;
    const FUTEX_WAIT: libc::c_long = 455;
    const SIZE_U32: libc::c_uint = 0x02;
    const NUMA: libc::c_uint = 0x04;
    const PRIVATE: libc::c_uint = 0x80;
    /// Every waiter.
    const ALL_BITS: libc::c_ulong = u32::MAX as libc::c_ulong;

    fn flags(&self) -> libc::c_uint {
        Self::SIZE_U32 | Self::NUMA | if self.shared { 0 } else { Self::PRIVATE }
    }

    fn returned(result: libc::c_long) -> rustix::io::Result<u32> {
        u32::try_from(result)
            .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL))
    }
}

impl WaitQueues for KernelByNode {
    fn wait(&self, word: &FutexWord, expected: u32) -> io::Result<()> {
        let no_timeout = std::ptr::null::<libc::timespec>();
        loop {
            // SAFETY: a word and its node, aligned to both, and no timeout.
            let slept = Self::returned(unsafe {
                libc::syscall(
                    Self::FUTEX_WAIT,
                    std::ptr::from_ref(word),
                    libc::c_ulong::from(expected),
                    Self::ALL_BITS,
                    self.flags(),
                    no_timeout,
                    libc::CLOCK_MONOTONIC,
                )
            });
            if let Some(ended) = ended(slept.map(drop)) {
                return ended;
            }
        }
    }

    fn wake(&self, word: &FutexWord, most: u32) -> io::Result<u32> {
        retried(|| {
            // SAFETY: a word and its node, aligned to both, and no timeout.
            Self::returned(unsafe {
                libc::syscall(
                    Self::FUTEX_WAKE,
                    std::ptr::from_ref(word),
                    Self::ALL_BITS,
                    most as libc::c_int,
                    self.flags(),
                )
            })
        })
    }
}

/// The library's wait table.
pub(super) struct Table(locks::WaitTable<Patient>);

impl Table {
    /// Of so many buckets, or as many as that many cores need.
    pub(super) fn new(cores: usize, buckets: Option<u32>) -> Self {
        Self(match buckets {
            Some(buckets @ 1..) => {
                locks::WaitTable::with_buckets(buckets as usize, Spacing::Line, Home::FirstTouch)
            }
            _ => locks::WaitTable::for_cores(cores),
        })
    }

    pub(super) fn buckets(&self) -> usize {
        self.0.buckets()
    }
}

impl WaitQueues for Table {
    fn wait(&self, word: &FutexWord, expected: u32) -> io::Result<()> {
        self.0.wait_if(self.0.key(&word.value), || word.value.load(Relaxed) == expected, Timeout::NONE);
        Ok(())
    }

    fn wake(&self, word: &FutexWord, most: u32) -> io::Result<u32> {
        Ok(self.0.wake(self.0.key(&word.value), most))
    }
}

/// This process's own table of futexes, of Linux 6.16.
pub(super) struct Slots;

impl Slots {
    const PR_FUTEX_HASH: libc::c_int = 78;
    const SET_SLOTS: libc::c_ulong = 1;
    const GET_SLOTS: libc::c_ulong = 2;

    /// How many buckets it has, 0 if futexes are in the table of all processes; none where the kernel has no such tables.
    pub(super) fn get() -> Option<u32> {
        // SAFETY: asks for a number.
        let slots = unsafe { libc::prctl(Self::PR_FUTEX_HASH, Self::GET_SLOTS, 0_u64, 0_u64, 0_u64) };
        u32::try_from(slots).ok()
    }

    /// Sets that number for the rest of the process.
    pub(super) fn set(slots: u32) -> io::Result<()> {
        // SAFETY: numbers alone.
        let set = unsafe {
            libc::prctl(Self::PR_FUTEX_HASH, Self::SET_SLOTS, libc::c_ulong::from(slots), 0_u64, 0_u64)
        };
        if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
