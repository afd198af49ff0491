//! Space in the shared mapping of a profile file: blocks given out one after another, by any number of processes.
//!
//! Every process maps the file at its full limit when it starts; the file itself grows step by step, and a page is only
//! touched once the file system has promised it. So a full disk is an error here, not a bus error in the program.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use crate::format::{BLOCK_MARK, BlockHeader, Header, MAGIC, PAGE, UNIT, VERSION};

/// How the file behind an [`Arena`] grows.
pub trait Grow {
    /// Makes the bytes `start..end` of the file exist, for good.
    ///
    /// `known` bytes exist already; everything from there to `end` may be made to exist at the same time, and more.
    /// Returns how many bytes are now known to exist from the start of the file (`known` if only the range asked for
    /// was made), or an error number.
    ///
    /// # Errors
    /// The system's error number, such as that of a full disk.
    fn grow(&self, known: u64, start: u64, end: u64) -> Result<u64, i32>;
}

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Without it a process or a thread cannot record at all: may use the last eighth of the file.
    Essential,
    /// Anything else.
    Detail,
}

/// The mapping of a profile file.
#[derive(Debug)]
pub struct Arena {
    base: AtomicPtr<u8>,
    /// This process could not let the file grow. Another one may: it may have other rights, or another view of names.
    stopped: AtomicBool,
}

/// A block that belongs to the caller: it alone appends records, unless it arranges otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    start: *mut u8,
}

impl Arena {
    /// An arena without a mapping.
    pub const fn new() -> Self {
        Self { base: AtomicPtr::new(core::ptr::null_mut()), stopped: AtomicBool::new(false) }
    }

    /// Starts using a mapping, or stops with a null pointer.
    ///
    /// # Safety
    /// `base` is null, or page-aligned and starts a mapping of a file that [`write_header`] has prepared, as long as the
    /// limit in its header, shared, writable, and never unmapped. As much of it as the header's `grown` is accessible.
    pub unsafe fn attach(&self, base: *mut u8) {
        self.base.store(base, Ordering::Release);
    }

    /// Whether there is a mapping.
    #[inline]
    pub fn attached(&self) -> bool {
        !self.base.load(Ordering::Relaxed).is_null()
    }

    /// The start of the mapping.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.base.load(Ordering::Relaxed)
    }

    /// The head of the file, if there is a mapping.
    pub fn header(&self) -> Option<&Header> {
        // SAFETY: `attach` was promised a mapping that starts with a header and stays; its words are atomic.
        unsafe { self.base().cast::<Header>().as_ref() }
    }

    /// Position of something in the mapping, in units.
    pub fn position_of<T>(&self, thing: &T) -> u64 {
        (core::ptr::from_ref(thing).addr() - self.base().addr()) as u64 / UNIT
    }

    /// Gives out a block that can hold `length` bytes of records, zeroed and with its header written.
    ///
    /// `None` when the limit is reached or the file cannot grow; the error number of the latter stays in the header, and
    /// this process does not try again.
    pub fn allocate(
        &self,
        host: &impl Grow,
        need: Need,
        section: u64,
        thread: u64,
        length: usize,
    ) -> Option<Block> {
        let header = self.header()?;
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let bytes = (length as u64 + UNIT).next_multiple_of(PAGE);
        let limit = header.limit.load(Ordering::Relaxed);
        let limit = if need == Need::Essential { limit } else { limit - limit / 8 };
        let start = header
            .allocated
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                now.checked_add(bytes).filter(|&end| end <= limit)
            })
            .ok()?;
        let end = start + bytes;
        let known = header.grown.load(Ordering::Acquire);
        if known < end {
            match host.grow(known, start, end) {
                Ok(grown) => drop(header.grown.fetch_max(grown, Ordering::AcqRel)),
                Err(error) => {
                    self.stopped.store(true, Ordering::Relaxed);
                    header.growth_error.store(error as u64, Ordering::Relaxed);
                    return None;
                }
            }
        }
        // SAFETY: `start..end` lies inside the mapping (below the limit) and now inside the file; nobody else got it.
        let block = Block { start: unsafe { self.base().add(start as usize) } };
        let head = block.header();
        head.section.store(section, Ordering::Relaxed);
        head.thread.store(thread, Ordering::Relaxed);
        head.mark.store(u64::from(BLOCK_MARK) | bytes << 32, Ordering::Release);
        Some(block)
    }
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

impl Block {
    /// The block that starts at `start`.
    ///
    /// # Safety
    /// `start` was returned by [`Block::start`] of a block whose mapping is still there.
    pub unsafe fn from_start(start: *mut u8) -> Self {
        Self { start }
    }

    /// Where the block starts.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// The head of the block.
    pub fn header(&self) -> &BlockHeader {
        // SAFETY: a block starts with a header, zeroed or written, in a mapping that stays; its words are atomic.
        unsafe { &*self.start.cast::<BlockHeader>() }
    }

    /// Takes `length` bytes at the end of the block, whoever else does the same; `None` if it is full.
    ///
    /// The bytes are zero. Whoever writes a record there writes its head last.
    pub fn take(&self, length: usize) -> Option<*mut u8> {
        let header = self.header();
        let space = (header.mark.load(Ordering::Relaxed) >> 32) - UNIT;
        let length = (length as u64).next_multiple_of(8);
        let used = header
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(length).filter(|&end| end <= space)
            })
            .ok()?;
        // SAFETY: `used + length` is within the block's length.
        Some(unsafe { self.start.add((UNIT + used) as usize) })
    }

    /// Appends a record of bytes. False if it does not fit.
    pub fn push_bytes(&self, what: crate::format::Type, parts: &[&[u8]]) -> bool {
        let payload: usize = parts.iter().map(|part| part.len()).sum();
        let Some(start) = self.take(8 + payload) else { return false };
        // SAFETY: `take` gave this many bytes to this call alone, 8-aligned.
        unsafe {
            let mut to = start.add(8);
            for part in parts {
                to.copy_from_nonoverlapping(part.as_ptr(), part.len());
                to = to.add(part.len());
            }
            (*start.cast::<AtomicU64>()).store(crate::format::head(what, 8 + payload), Ordering::Release);
        }
        true
    }
}

/// Writes the head of a new profile file.
///
/// `limit` is rounded down to whole pages. The first [`PAGE`] bytes count as grown.
pub fn write_header(
    header: &Header,
    limit: u64,
    sample_period: u32,
    ticks: u64,
    now_ns: u64,
    realtime_ns: u64,
) {
    let set = |word: &AtomicU64, value| word.store(value, Ordering::Relaxed);
    set(&header.version, VERSION | PAGE << 32);
    set(&header.limit, limit / PAGE * PAGE);
    set(&header.allocated, PAGE);
    set(&header.grown, PAGE);
    set(&header.sample_period, u64::from(sample_period.max(1)));
    set(&header.clock_first_ticks, ticks);
    set(&header.clock_first_ns, now_ns);
    set(&header.clock_last_ticks, ticks);
    set(&header.clock_last_ns, now_ns);
    set(&header.started_realtime_ns, realtime_ns);
    header.magic.store(u64::from_le_bytes(MAGIC), Ordering::Release);
}
