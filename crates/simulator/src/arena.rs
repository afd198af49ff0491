//! The simulated machine's memory: one region of the host, in which a place's offset is its simulated address.

use std::alloc::Layout;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr::NonNull;

use coroutine::{Stack, StackPointer};
use machine::{Home, LINE_BYTES};

/// Memory that workloads and locks can allocate.
const HEAP_BYTES: usize = if cfg!(miri) { 1 << 20 } else { 256 << 20 };
/// One thread's stack, most of which is never touched.
pub(crate) const STACK_BYTES: usize = 128 << 10;
const GUARD_BYTES: usize = 4096;
/// Stacks begin in so many different lines of a page. If all began in one, what the threads use of them would meet in the same
/// few sets of the host's caches.
const STACK_COLOURS: usize = GUARD_BYTES / LINE_BYTES;
/// The most threads that a run can have.
pub const MAX_THREADS: usize = if cfg!(miri) { 16 } else { 4096 };
const ARENA_BYTES: usize = HEAP_BYTES + MAX_THREADS * STACK_BYTES;

/// The host memory behind a simulation, reserved once and used again by later ones.
struct Region {
    base: NonNull<u8>,
    /// Stacks that have their guard page.
    guarded: usize,
}

impl Region {
    fn reserve() -> Self {
        // SAFETY: a fresh private mapping; nothing is touched yet.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                ARENA_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | if cfg!(miri) { 0 } else { libc::MAP_NORESERVE },
                -1,
                0,
            )
        };
        assert!(
            memory != libc::MAP_FAILED,
            "the host refuses {} MiB of address space for a simulation: {}",
            ARENA_BYTES >> 20,
            std::io::Error::last_os_error()
        );
        Self {
            base: NonNull::new(memory.cast()).expect("the kernel maps nothing at address zero"),
            guarded: 0,
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped by `reserve`; its user is gone.
        unsafe { libc::munmap(self.base.as_ptr().cast(), ARENA_BYTES) };
    }
}

thread_local! {
    /// Regions that ended simulations of this thread left behind.
    static SPARE: RefCell<Vec<Region>> = const { RefCell::new(Vec::new()) };
}

/// Memory of one simulation.
pub(crate) struct SimulatedMemory {
    region: Option<Region>,
    base: usize,
    /// Everything below is in use or in `free`.
    top: usize,
    /// Blocks freed, by home and length.
    free: BTreeMap<(u32, usize), Vec<usize>>,
    /// Home of the line below `top` that is only partly used.
    open_home: Option<Home>,
    /// Blocks that are lent and have not come back.
    lent: usize,
}

impl SimulatedMemory {
    pub(crate) fn new() -> Self {
        let region = SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(Region::reserve);
        let base = region.base.as_ptr() as usize;
        // Offset zero stays unused, so that it can mean nothing.
        Self { region: Some(region), base, top: LINE_BYTES, free: BTreeMap::new(), open_home: None, lent: 0 }
    }

    /// The offset of a host address; none if it lies outside.
    #[inline]
    pub(crate) fn offset(&self, address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.base);
        (offset < ARENA_BYTES).then_some(offset)
    }

    /// The host's pointer to an offset.
    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < ARENA_BYTES);
        let base = self.region.as_ref().expect("the region leaves only when the arena is dropped").base;
        // SAFETY: inside the region.
        unsafe { base.add(offset) }
    }

    /// Zeroed memory. Objects with the same home may share a line, as they do on hardware.
    pub(crate) fn alloc(&mut self, layout: Layout, home: Home) -> usize {
        let layout = layout.pad_to_align();
        let key = (home_key(home), layout.size().max(1));
        if let Some(offset) = self.free.get_mut(&key).and_then(Vec::pop)
            && offset.is_multiple_of(layout.align())
        {
            // SAFETY: a block of this length that is not in use.
            unsafe { self.at(offset).write_bytes(0, layout.size()) };
            return offset;
        }
        if self.open_home != Some(home) {
            self.top = self.top.next_multiple_of(LINE_BYTES);
            self.open_home = Some(home);
        }
        let offset = self.top.next_multiple_of(layout.align());
        let top = offset + layout.size().max(1);
        assert!(top <= HEAP_BYTES, "a simulation uses more than {} MiB", HEAP_BYTES >> 20);
        self.top = top;
        offset
    }

    /// Memory for a program, which may keep it for longer than the simulation.
    pub(crate) fn lend(&mut self, layout: Layout, home: Home) -> usize {
        self.lent += 1;
        self.alloc(layout, home)
    }

    /// Memory that was lent comes back.
    pub(crate) fn take_back(&mut self, offset: usize, layout: Layout, home: Home) {
        self.lent -= 1;
        self.free(offset, layout, home);
    }

    fn free(&mut self, offset: usize, layout: Layout, home: Home) {
        self.free.entry((home_key(home), layout.pad_to_align().size().max(1))).or_default().push(offset);
    }

    /// The stack of the n-th thread.
    pub(crate) fn stack(&mut self, index: usize) -> ThreadStack {
        assert!(index < MAX_THREADS, "a simulation runs at most {MAX_THREADS} threads");
        let limit = self.at(HEAP_BYTES + index * STACK_BYTES);
        let region = self.region.as_mut().expect("the region leaves only when the arena is dropped");
        if index >= region.guarded && !cfg!(miri) {
            for stack in region.guarded..=index {
                let guard = region.base.as_ptr().wrapping_add(HEAP_BYTES + stack * STACK_BYTES);
                // SAFETY: a page of the region that no stack uses.
                let refused = unsafe { libc::mprotect(guard.cast(), GUARD_BYTES, libc::PROT_NONE) };
                assert!(refused == 0, "cannot guard a stack: {}", std::io::Error::last_os_error());
            }
            region.guarded = index + 1;
        }
        let limit = limit.as_ptr() as usize;
        ThreadStack { limit, base: limit + STACK_BYTES - index % STACK_COLOURS * LINE_BYTES }
    }
}

impl Drop for SimulatedMemory {
    fn drop(&mut self) {
        let Some(region) = self.region.take() else { return };
        if self.lent > 0 {
            // A caller that kept an object may look at it yet, so that nothing else may ever lie there.
            std::mem::forget(region);
            return;
        }
        // SAFETY: all that `alloc` gave out, and no caller uses any more.
        unsafe { region.base.write_bytes(0, self.top) };
        SPARE.with_borrow_mut(|spare| spare.push(region));
    }
}

fn home_key(home: Home) -> u32 {
    match home {
        Home::FirstTouch => u32::MAX,
        Home::Node(node) => node,
    }
}

/// One thread's stack in the arena.
pub(crate) struct ThreadStack {
    limit: usize,
    base: usize,
}

// SAFETY: its lowest page is a guard page, and the rest is larger than the least stack.
unsafe impl Stack for ThreadStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.base).expect("an address inside a mapping")
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.limit).expect("an address inside a mapping")
    }
}
