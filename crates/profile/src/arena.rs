//! Space in the shared mapping of a profile file: blocks given out one after another, by any number of processes.
//!
//! Every process maps the file at its full limit when it starts; the file itself grows step by step, and a page is only
//! touched once the file system has promised it. So a full disk is an error here, not a bus error in the program.
//!
//! Other processes can write to all of the mapping, some of them with fewer rights than the caller. So lengths and limits are
//! kept in private memory; the one word of the file that decides where something is written, `allocated`, is checked
//! against them. A process that writes nonsense there damages the profile, and nothing else.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, Ordering::Relaxed};

use crate::format::{BLOCK_MARK, BlockHeader, Header, MAGIC, PAGE, UNIT, VERSION};

/// How the file behind an [`Arena`] grows.
pub trait Grow {
    /// Makes the bytes `start..end` of the file exist, for good.
    ///
    /// Returns up to where the bytes from `start` on are now known to exist, `end` or more; or an error number.
    ///
    /// # Errors
    /// The system's error number, such as that of a full disk.
    fn grow(&self, start: u64, end: u64) -> Result<u64, i32>;
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
    /// Bytes that are mapped.
    length: AtomicU64,
    /// The file reaches at least to this byte.
    reach: AtomicU64,
    /// Bytes that this process knows to exist, in pages: from where in the high half, to where in the low half.
    grown: AtomicU64,
    /// This process could not let the file grow, or has left it. Another one may: it may have other rights, or another view of
    /// names.
    stopped: AtomicBool,
}

/// A block that belongs to the caller: it alone appends records. How much of it is taken is known here; the file is told.
#[derive(Debug)]
pub struct Block {
    start: *mut u8,
    /// Bytes for records.
    space: usize,
    taken: Cell<usize>,
}

impl Arena {
    /// An arena without a mapping.
    pub const fn new() -> Self {
        Self {
            base: AtomicPtr::new(core::ptr::null_mut()),
            length: AtomicU64::new(0),
            reach: AtomicU64::new(0),
            grown: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Starts using a mapping of `length` bytes, the first `exist` of which are in the file.
    ///
    /// # Safety
    /// `base` is page-aligned and starts a mapping of this length of a file that [`write_header`] has prepared, shared, writable,
    /// and never unmapped. As much of it as `exist` says is accessible, a page at least.
    pub unsafe fn attach(&self, base: *mut u8, length: u64, exist: u64) {
        self.length.store(length.min(u64::from(u32::MAX) * PAGE) / PAGE * PAGE, Relaxed);
        self.reach.store(exist, Relaxed);
        self.grown.store(0, Relaxed);
        self.base.store(base, Ordering::Release);
    }

    /// Stops using the mapping.
    pub fn detach(&self) {
        self.reach.store(0, Relaxed);
        self.base.store(core::ptr::null_mut(), Relaxed);
    }

    /// Gives out nothing any more. What was given out stays in use.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// Bytes that the file may grow to.
    pub fn limit(&self) -> u64 {
        self.length.load(Relaxed)
    }

    /// Whether there is a mapping.
    #[inline]
    pub fn attached(&self) -> bool {
        !self.base.load(Relaxed).is_null()
    }

    /// The start of the mapping.
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.base.load(Relaxed)
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

    /// Where `length` bytes at this position are, in units, which may come from anywhere; `None` if the file does not have them.
    pub fn at(&self, position: u64, length: usize) -> Option<*mut u8> {
        let offset = position.wrapping_mul(UNIT);
        let known = offset >= PAGE && offset <= self.reach.load(Relaxed).saturating_sub(length as u64);
        known.then(|| self.base().wrapping_add(offset as usize))
    }

    /// The same of what another process may have made; makes sure that the file has it.
    pub(crate) fn at_of_others(&self, host: &impl Grow, position: u64, length: usize) -> Option<*mut u8> {
        let start = position.checked_mul(UNIT).filter(|&start| start >= PAGE)?;
        let end = start.checked_add(length as u64).filter(|&end| end <= self.limit())?;
        if end > self.reach.load(Relaxed) {
            host.grow(start / PAGE * PAGE, end.next_multiple_of(PAGE)).ok()?;
        }
        // SAFETY: inside the mapping, whose length is the limit.
        Some(unsafe { self.base().add(start as usize) })
    }

    /// Runs `body` while [`Arena::at`] finds whatever lies in memory.
    ///
    /// No other thread uses the arena meanwhile.
    pub(crate) fn everywhere<R>(&self, body: impl FnOnce() -> R) -> R {
        let reach = self.reach.swap(u64::MAX, Relaxed);
        let result = body();
        self.reach.store(reach, Relaxed);
        result
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
        if self.stopped.load(Relaxed) {
            return None;
        }
        let bytes = (length as u64).checked_add(UNIT)?.checked_next_multiple_of(PAGE)?;
        let limit = self.limit();
        let limit = if need == Need::Essential { limit } else { limit - limit / 8 };
        let fits = |start: u64| {
            let end = start.checked_add(bytes)?;
            (start >= PAGE && start.is_multiple_of(PAGE) && end <= limit).then_some(end)
        };
        let start = header.allocated.fetch_update(Relaxed, Relaxed, fits).ok()?;
        let end = fits(start)?;
        if !self.exist(start, end) {
            match host.grow(start, end) {
                Ok(grown) => self.note_growth(header, start, grown.clamp(end, self.limit())),
                Err(error) => {
                    self.stop();
                    header.growth_error.store(error as u64, Relaxed);
                    return None;
                }
            }
        }
        // SAFETY: `start..end` lies inside the mapping (below its length), behind the head of the file, and now inside the file.
        let start = unsafe { self.base().add(start as usize) };
        let block = Block { start, space: (bytes - UNIT) as usize, taken: Cell::new(0) };
        let head = block.header();
        head.section.store(section, Relaxed);
        head.thread.store(thread, Relaxed);
        head.mark.store(u64::from(BLOCK_MARK) | bytes << 32, Ordering::Release);
        Some(block)
    }

    fn exist(&self, start: u64, end: u64) -> bool {
        let grown = self.grown.load(Ordering::Acquire);
        start >= (grown >> 32) * PAGE && end <= u64::from(grown as u32) * PAGE
    }

    fn note_growth(&self, header: &Header, start: u64, end: u64) {
        self.grown.store(((start / PAGE) << 32) | (end / PAGE), Ordering::Release);
        self.reach.fetch_max(end, Relaxed);
        header.grown.fetch_max(end, Relaxed);
    }
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

impl Block {
    /// Bytes of the file that the block has.
    pub fn length(&self) -> u64 {
        self.space as u64 + UNIT
    }

    /// The head of the block.
    pub fn header(&self) -> &BlockHeader {
        // SAFETY: a block starts with a header, zeroed or written, in a mapping that stays; its words are atomic.
        unsafe { &*self.start.cast::<BlockHeader>() }
    }

    /// Takes `length` bytes at the end of the block; `None` if it is full.
    ///
    /// The bytes are zero, unless a process has forged the profile. The thread that writes a record there writes its head last.
    pub fn take(&self, length: usize) -> Option<*mut u8> {
        let taken = self.taken.get();
        let end = length.checked_next_multiple_of(8)?.checked_add(taken).filter(|&end| end <= self.space)?;
        self.taken.set(end);
        self.header().used.store(end as u64, Relaxed);
        // SAFETY: up to `end` lies within the block's length.
        Some(unsafe { self.start.add(UNIT as usize + taken) })
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
/// `limit` is rounded down to whole pages, as the length of the mapping is. The first [`PAGE`] bytes count as grown.
pub fn write_header(
    header: &Header,
    limit: u64,
    sample_period: u32,
    ticks: u64,
    now_ns: u64,
    realtime_ns: u64,
) {
    let set = |word: &AtomicU64, value| word.store(value, Relaxed);
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
