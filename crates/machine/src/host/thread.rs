//! Threads of this computer: their numbers, and their pools of queue nodes.
//!
//! A thread's block lives in memory that is never unmapped, so that a successor may touch a node whose thread has
//! ended. Blocks are numbered and used again: a thread's end is not noticed, since that would take one of the few keys that
//! programs have for their own data; when blocks run out, those are taken whose owners the kernel no longer knows. The
//! thread finds its block through initial-exec thread-local storage, declared in assembly, since the compiler offers no
//! such model on stable: three instructions, no call, usable in a preloaded library before any constructor has run.

use core::cell::{Cell, UnsafeCell};
use core::mem::offset_of;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, compiler_fence};

use super::futex::Errno;
use super::words::HostCell;
use crate::{LINE_BYTES, THREAD_MEMORY};

/// Queue nodes in a thread's pool; those past it come from an overflow store.
pub(super) const SLOTS: usize = 4;

/// Blocks in a chunk of memory.
const CHUNK_BLOCKS: usize = 64;
/// Chunks at most; so at most 65,536 threads alive at once.
const CHUNKS: usize = 1024;

/// Declares a zeroed block of initial-exec thread-local storage and a function that gives its address in the
/// calling thread.
///
/// ```
/// contend_machine::thread_block!(
///     /// A number a thread.
///     fn my_number -> u64, symbol = "example_my_number"
/// );
///
/// fn main() {
///     // SAFETY: the address of the thread's own number.
///     assert_eq!(unsafe { my_number().read() }, 0);
/// }
/// ```
///
/// The type must be valid when all its bytes are zero, must not need dropping, and must not be aligned to more than
/// 64 bytes. The symbol is an identifier that nothing else in the program has; the linker refuses a second one.
#[cfg(not(miri))]
#[macro_export]
macro_rules! thread_block {
    ($(#[$meta:meta])* $vis:vis fn $name:ident -> $type:ty, symbol = $symbol:literal) => {
        const _: () = assert!($crate::host::thread::is_identifier($symbol), "a symbol is an identifier");

        ::core::arch::global_asm!(
            concat!(".pushsection .tbss.", $symbol, ",\"awT\",@nobits"),
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            concat!(".type ", $symbol, ",@object"),
            concat!(".size ", $symbol, ",{bytes}"),
            ".p2align 6",
            concat!($symbol, ":"),
            ".zero {bytes}",
            ".popsection",
            bytes = const ::core::mem::size_of::<$type>(),
        );

        $(#[$meta])*
        #[inline]
        $vis fn $name() -> *mut $type {
            const { assert!(::core::mem::align_of::<$type>() <= 64 && !::core::mem::needs_drop::<$type>()) };
            let block: *mut $type;
            #[cfg(target_arch = "x86_64")]
            // SAFETY: reads the offset of the block from the global offset table and adds the thread pointer.
            unsafe {
                ::core::arch::asm!(
                    concat!("mov {block}, qword ptr [rip + ", $symbol, "@GOTTPOFF]"),
                    "add {block}, qword ptr fs:[0]",
                    block = out(reg) block,
                    options(pure, readonly, nostack),
                );
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: loads the offset of the block from the global offset table and adds the thread pointer, `tpidr_el0`.
            unsafe {
                ::core::arch::asm!(
                    concat!("adrp {block}, :gottprel:", $symbol),
                    concat!("ldr {block}, [{block}, :gottprel_lo12:", $symbol, "]"),
                    "mrs {pointer}, tpidr_el0",
                    "add {block}, {block}, {pointer}",
                    block = out(reg) block,
                    pointer = out(reg) _,
                    options(pure, readonly, nostack),
                );
            }
            block
        }
    };
}

/// The same for Miri, which has no assembly: the standard library's thread-local storage.
#[cfg(miri)]
#[macro_export]
macro_rules! thread_block {
    ($(#[$meta:meta])* $vis:vis fn $name:ident -> $type:ty, symbol = $symbol:literal) => {
        const _: () = assert!($crate::host::thread::is_identifier($symbol), "a symbol is an identifier");

        $(#[$meta])*
        #[inline]
        $vis fn $name() -> *mut $type {
            use ::core::{cell::UnsafeCell, mem::MaybeUninit};
            const { assert!(::core::mem::align_of::<$type>() <= 64 && !::core::mem::needs_drop::<$type>()) };
            $crate::std::thread_local! {
                static BLOCK: UnsafeCell<MaybeUninit<$type>> =
                    const { UnsafeCell::new(MaybeUninit::zeroed()) };
            }
            BLOCK.with(|block| block.get().cast())
        }
    };
}

/// Whether [`thread_block!`] can name a symbol so: anything else would be more assembly.
#[doc(hidden)]
#[must_use]
pub const fn is_identifier(symbol: &str) -> bool {
    let bytes = symbol.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !(bytes[at].is_ascii_alphabetic() || bytes[at] == b'_' || at > 0 && bytes[at].is_ascii_digit()) {
            return false;
        }
        at += 1;
    }
    at > 0
}

thread_block!(fn current_block -> Cell<*mut Block>, symbol = "contend_machine_thread");

/// Memory of a queue node, written through shared references.
#[repr(C, align(64))]
struct NodeMemory(UnsafeCell<[u8; LINE_BYTES]>);

// SAFETY: nodes are made of words and cells, which are.
unsafe impl Sync for NodeMemory {}

impl NodeMemory {
    #[inline]
    fn node(&self) -> NonNull<u8> {
        NonNull::from(&self.0).cast()
    }
}

/// What a thread owns: a line of book-keeping, then its queue nodes, a line each, then what its waits have learned.
#[repr(C, align(64))]
pub struct Block {
    number: AtomicU32,
    /// Kernel's identifiers of the thread that has the block, and of its process; a free block has thread 0.
    owner: AtomicU32,
    owner_process: AtomicU32,
    /// Next in the list of free blocks, as number + 1.
    next_free: AtomicU32,
    taken: [AtomicU8; SLOTS],
    /// 1 while the thread takes a slot.
    taking: AtomicU8,
    slots: [NodeMemory; SLOTS],
    memory: [HostCell<u64>; THREAD_MEMORY],
}

impl Block {
    /// See [`Machine::thread_memory`](crate::Machine::thread_memory).
    #[inline]
    pub(super) fn memory(&self) -> &[HostCell<u64>; THREAD_MEMORY] {
        &self.memory
    }

    /// Takes a free slot.
    #[inline]
    fn take(&self) -> Option<usize> {
        // Only the thread itself takes, so no read-modify-write. Acquire: the last use by a neighbour is over.
        let index = self.taken.iter().position(|taken| taken.load(Ordering::Acquire) == 0)?;
        self.taken[index].store(1, Ordering::Relaxed);
        Some(index)
    }

    /// See [`Machine::thread`](crate::Machine::thread).
    #[inline]
    pub fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }
}

/// The blocks by number. A chunk is mapped when its first block is asked for.
static BLOCKS: [AtomicPtr<Block>; CHUNKS] = [const { AtomicPtr::new(null_mut()) }; CHUNKS];
/// Blocks handed out so far, free ones included.
static BLOCK_COUNT: AtomicU32 = AtomicU32::new(0);
/// Free blocks: number + 1 of the first in the low half, a tag against re-use in the high half.
static FREE_BLOCKS: AtomicU64 = AtomicU64::new(0);

/// The calling thread's block, null when it has none yet.
#[inline]
fn own_block() -> *mut Block {
    // SAFETY: the thread's own cell.
    unsafe { (*current_block()).get() }
}

/// The calling thread's block.
#[inline]
pub fn current() -> &'static Block {
    // SAFETY: null or a block, which is never unmapped.
    unsafe { own_block().as_ref() }.unwrap_or_else(|| adopt_block())
}

#[cold]
fn adopt_block() -> &'static Block {
    TAKEN.fetch_add(1, Ordering::Relaxed);
    let reclaimed = || if reclaim_blocks() { pop_free_block() } else { None };
    let block = pop_free_block().or_else(reclaimed).unwrap_or_else(new_block);
    // SAFETY: null or a block, which is never unmapped.
    if let Some(adopted) = unsafe { own_block().as_ref() } {
        push_free_block(block); // a signal handler was faster
        return adopted;
    }
    block.taking.store(0, Ordering::Relaxed); // its former owner may have ended in a signal handler
    // SAFETY: the thread's own cell.
    unsafe { (*current_block()).set(core::ptr::from_ref(block).cast_mut()) };
    // SAFETY: a system call without arguments, which does not fail.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    block.owner_process.store(PROCESS.load(Ordering::Relaxed), Ordering::Relaxed);
    block.owner.store(thread, Ordering::Release);
    block
}

/// # Safety
/// A block with this number has been handed out.
unsafe fn block(number: u32) -> &'static Block {
    let chunk = BLOCKS[number as usize / CHUNK_BLOCKS].load(Ordering::Acquire);
    // SAFETY: by the caller, so that the chunk is mapped.
    unsafe { &*chunk.add(number as usize % CHUNK_BLOCKS) }
}

fn new_block() -> &'static Block {
    let number = BLOCK_COUNT.fetch_add(1, Ordering::Relaxed);
    let Some(chunk) = BLOCKS.get(number as usize / CHUNK_BLOCKS) else {
        end_process(b"contend: more than 65,536 threads at once use locks; ending the process\n");
    };
    if chunk.load(Ordering::Acquire).is_null() {
        let fresh = map_zeroed(CHUNK_BLOCKS * size_of::<Block>()).cast::<Block>().as_ptr();
        if chunk.compare_exchange(null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: mapped just above, and no other thread has seen it.
            unsafe { libc::munmap(fresh.cast(), CHUNK_BLOCKS * size_of::<Block>()) };
        }
    }
    // SAFETY: it is handed out here, and its chunk is mapped.
    let block = unsafe { block(number) };
    block.number.store(number, Ordering::Relaxed);
    block
}

fn pop_free_block() -> Option<&'static Block> {
    let mut head = FREE_BLOCKS.load(Ordering::Acquire);
    loop {
        // SAFETY: free blocks have been handed out before.
        let first = unsafe { block((head as u32).checked_sub(1)?) };
        let next = u64::from(first.next_free.load(Ordering::Relaxed));
        match FREE_BLOCKS.compare_exchange_weak(
            head,
            tagged(head, next),
            Ordering::Acquire,
            Ordering::Acquire,
        ) {
            Ok(_) => return Some(first),
            Err(now) => head = now,
        }
    }
}

fn push_free_block(block: &Block) {
    let mut head = FREE_BLOCKS.load(Ordering::Relaxed);
    loop {
        block.next_free.store(head as u32, Ordering::Relaxed);
        let new = tagged(head, u64::from(block.number() + 1));
        match FREE_BLOCKS.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

fn tagged(head: u64, number_plus_one: u64) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | number_plus_one
}

/// Blocks taken since they were last searched for those of ended threads.
static TAKEN: AtomicU32 = AtomicU32::new(0);
/// So many are taken before they are searched again: as many as were in use then, so that the searches cost a block no more
/// than a few system calls, however many threads there are.
static ENOUGH: AtomicU32 = AtomicU32::new(FEWEST);
const FEWEST: u32 = 8;
/// The process in which a thread searches them, 0 while none does. In a child of a fork the parent's does not exist.
static RECLAIMING: AtomicU32 = AtomicU32::new(0);

/// This process, as of the last search; 0 before the first, and its parent in a child of a fork that has not searched yet. Kept
/// since sandboxes may end a process that asks; only the search itself does.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The largest page of the architecture.
const PAGE_BYTES: usize = if cfg!(target_arch = "aarch64") { 1 << 16 } else { 1 << 12 };

/// A number of this process, in a page that the kernel wipes in a child of a fork; 0 before the first search.
///
/// The process identifier would not do: in another namespace a child may have its parent's.
#[cfg_attr(target_arch = "aarch64", repr(C, align(65536)))]
#[cfg_attr(not(target_arch = "aarch64"), repr(C, align(4096)))]
struct Wiped {
    process: AtomicU32,
    _rest: [u8; PAGE_BYTES - 4],
}

static WIPED: Wiped = Wiped { process: AtomicU32::new(0), _rest: [0; PAGE_BYTES - 4] };
/// Numbers given to this process and its ancestors.
static PROCESSES: AtomicU32 = AtomicU32::new(0);

/// A number that none of the processes has from which this one was forked off. Where the kernel wipes no pages, the process
/// identifier stands for it.
fn this_process() -> u32 {
    let known = WIPED.process.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let errno = Errno::save();
    let page = (&raw const WIPED).cast_mut().cast();
    // SAFETY: nothing else is in the page, and what is in it is lost in children on purpose.
    let wipes = !cfg!(miri) && unsafe { libc::madvise(page, PAGE_BYTES, libc::MADV_WIPEONFORK) } == 0;
    errno.restore();
    if !wipes {
        // SAFETY: no preconditions.
        return unsafe { libc::getpid() } as u32;
    }
    let number = PROCESSES.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
    match WIPED.process.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => number,
        Err(other) => other,
    }
}

/// Frees the blocks of threads that have ended. False if it is too early to search, or another thread does.
///
/// A node that a thread has left in a queue stays taken, also for the next owner of its block, until a thread frees it.
/// Blocks that a forked child inherits are never freed there: the thread that forked goes on under another identifier. Nor are
/// those few that were taken before the first search.
#[cold]
fn reclaim_blocks() -> bool {
    // The more of them are made, the sooner: the last is not to be reached while there are some of ended threads.
    let left = ((CHUNKS * CHUNK_BLOCKS) as u32).saturating_sub(BLOCK_COUNT.load(Ordering::Relaxed));
    if TAKEN.load(Ordering::Relaxed) < ENOUGH.load(Ordering::Relaxed).min(left / 2) {
        return false;
    }
    let process = this_process();
    let busy = RECLAIMING.load(Ordering::Relaxed);
    if busy == process
        || RECLAIMING.compare_exchange(busy, process, Ordering::Acquire, Ordering::Relaxed).is_err()
    {
        return false;
    }
    let mut in_use = 0;
    let numbers = BLOCK_COUNT.load(Ordering::Acquire).min((CHUNKS * CHUNK_BLOCKS) as u32);
    for number in 0..numbers {
        let chunk = BLOCKS[number as usize / CHUNK_BLOCKS].load(Ordering::Acquire);
        if chunk.is_null() {
            continue; // its first block is being made
        }
        // SAFETY: its chunk is mapped.
        let block = unsafe { block(number) };
        let owner = block.owner.load(Ordering::Acquire);
        if owner == 0 {
            continue; // free, or about to be a thread's
        }
        if block.owner_process.load(Ordering::Relaxed) == process && is_gone(owner) {
            block.owner.store(0, Ordering::Relaxed);
            push_free_block(block);
        } else {
            in_use += 1;
        }
    }
    PROCESS.store(process, Ordering::Relaxed);
    TAKEN.store(0, Ordering::Relaxed);
    ENOUGH.store(in_use.max(FEWEST), Ordering::Relaxed);
    RECLAIMING.store(0, Ordering::Release);
    true
}

/// Whether a thread of this process has ended for good.
fn is_gone(thread: u32) -> bool {
    if cfg!(miri) {
        return false; // it does not tell, so that no block is used again
    }
    let errno = Errno::save();
    // SAFETY: both take numbers only; signal 0 only asks whether the thread is there.
    let answer = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0) };
    let gone = answer != 0 && Errno::get() == libc::ESRCH;
    errno.restore();
    gone
}

/// Fails to compile when a node of type `T` does not fit into a slot.
pub(super) const fn assert_fits<T>() {
    assert!(size_of::<T>() <= LINE_BYTES && align_of::<T>() <= LINE_BYTES && !core::mem::needs_drop::<T>());
}

#[inline]
pub(super) fn take_slot() -> (NonNull<u8>, Option<u32>) {
    let block = current();
    // A signal handler that comes in the middle takes a node elsewhere: it may leave one in a queue, as the CLH lock does,
    // so that the slot which was found free no longer is.
    if block.taking.load(Ordering::Relaxed) == 0 {
        block.taking.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let index = block.take();
        compiler_fence(Ordering::SeqCst);
        block.taking.store(0, Ordering::Relaxed);
        if let Some(index) = index {
            let name = block.number() * SLOTS as u32 + index as u32;
            return (block.slots[index].node(), Some(name));
        }
    }
    (take_overflow_slot(), None)
}

/// # Safety
/// The slot came from `take_slot`, and no thread uses it any more.
#[inline]
pub(super) unsafe fn free_slot(slot: NonNull<u8>) {
    let block = own_block();
    let offset = slot.addr().get().wrapping_sub(block.addr() + offset_of!(Block, slots));
    if offset < SLOTS * LINE_BYTES {
        // SAFETY: the slot lies in it, so that the thread has one.
        unsafe { &*block }.taken[offset / LINE_BYTES].store(0, Ordering::Release);
    } else {
        // SAFETY: by the caller.
        unsafe { free_foreign_slot(slot) };
    }
}

/// See [`Machine::expect_node`](crate::Machine::expect_node). The first slot, since most threads hold one lock at a time.
#[inline]
pub(super) fn expect_slot() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads and writes nothing, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(own_block().wrapping_byte_add(offset_of!(Block, slots)).cast());
    }
}

/// Returns a node of another thread's pool, or of the overflow store.
///
/// # Safety
/// As `free_slot`.
#[cold]
unsafe fn free_foreign_slot(slot: NonNull<u8>) {
    let chunks = BLOCK_COUNT.load(Ordering::Relaxed) as usize / CHUNK_BLOCKS + 1;
    for chunk in BLOCKS.iter().take(chunks) {
        let start = chunk.load(Ordering::Acquire);
        if start.is_null() {
            continue; // its first thread is about to map it
        }
        let offset = slot.addr().get().wrapping_sub(start.addr());
        if offset < CHUNK_BLOCKS * size_of::<Block>() {
            // SAFETY: inside the chunk.
            let block = unsafe { &*start.add(offset / size_of::<Block>()) };
            let index = (slot.addr().get() - block.slots.as_ptr().addr()) / LINE_BYTES;
            block.taken[index].store(0, Ordering::Release);
            return;
        }
    }
    // SAFETY: by the caller; it is in no pool.
    unsafe { free_overflow_slot(slot) };
}

/// # Safety
/// A slot has this name.
#[inline]
pub(super) unsafe fn named_slot(name: u32) -> NonNull<u8> {
    // SAFETY: by the caller, so that its block has been handed out.
    unsafe { block(name / SLOTS as u32) }.slots[name as usize % SLOTS].node()
}

/// A node past a thread's pool.
#[repr(C, align(64))]
struct OverflowSlot {
    slot: NodeMemory,
    /// The next free one.
    next: AtomicPtr<OverflowSlot>,
}

/// Overflow nodes that are made at once. They are used again and never unmapped.
const OVERFLOW_BATCH: usize = 64;

/// The free overflow nodes: address of the first, without the bits that alignment makes zero, in the low part; a tag against
/// re-use above it. User addresses have 48 bits unless a process asks for longer ones, which nothing does here.
static FREE_OVERFLOW: AtomicU64 = AtomicU64::new(0);
const OVERFLOW_ALIGN_BITS: u32 = LINE_BYTES.ilog2();
const OVERFLOW_ADDRESS_BITS: u32 = 48 - OVERFLOW_ALIGN_BITS;

fn first_free_overflow(head: u64) -> *mut OverflowSlot {
    let address = (head & ((1 << OVERFLOW_ADDRESS_BITS) - 1)) << OVERFLOW_ALIGN_BITS;
    core::ptr::with_exposed_provenance_mut(address as usize)
}

fn tagged_overflow(head: u64, first: *mut OverflowSlot) -> u64 {
    let tag = (head >> OVERFLOW_ADDRESS_BITS).wrapping_add(1) << OVERFLOW_ADDRESS_BITS;
    tag | first.expose_provenance() as u64 >> OVERFLOW_ALIGN_BITS
}

#[cold]
fn take_overflow_slot() -> NonNull<u8> {
    let mut head = FREE_OVERFLOW.load(Ordering::Acquire);
    // SAFETY: null or a node, which is never unmapped.
    while let Some(first) = unsafe { first_free_overflow(head).as_ref() } {
        // Of a node that another thread has taken meanwhile this is any value, and the tag has changed.
        let new = tagged_overflow(head, first.next.load(Ordering::Relaxed));
        match FREE_OVERFLOW.compare_exchange_weak(head, new, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => return first.slot.node(),
            Err(now) => head = now,
        }
    }
    let fresh = map_zeroed(OVERFLOW_BATCH * size_of::<OverflowSlot>()).cast::<OverflowSlot>().as_ptr();
    // A node that is freed is reached by its slot's address, and more of it is used than the slot that was handed out.
    fresh.expose_provenance();
    // SAFETY: zeroed memory is valid nodes, so many, and no other thread has seen them.
    let fresh = unsafe { core::slice::from_raw_parts(fresh, OVERFLOW_BATCH) };
    for node in &fresh[1..] {
        push_free_overflow(node);
    }
    fresh[0].slot.node()
}

fn push_free_overflow(node: &OverflowSlot) {
    let mut head = FREE_OVERFLOW.load(Ordering::Relaxed);
    loop {
        node.next.store(first_free_overflow(head), Ordering::Relaxed);
        let new = tagged_overflow(head, core::ptr::from_ref(node).cast_mut());
        match FREE_OVERFLOW.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// # Safety
/// The slot came from `take_overflow_slot`, and no thread uses it any more.
unsafe fn free_overflow_slot(slot: NonNull<u8>) {
    let node = core::ptr::with_exposed_provenance::<OverflowSlot>(slot.addr().get());
    // SAFETY: the slot is the first field of an overflow node, and those are never unmapped.
    push_free_overflow(unsafe { &*node });
}

/// A lock has no way to fail, and may be taken where nothing can be unwound.
#[cold]
fn end_process(message: &[u8]) -> ! {
    // SAFETY: writes what it is given, then ends.
    unsafe {
        libc::write(2, message.as_ptr().cast(), message.len());
        libc::abort()
    }
}

/// Zeroed memory from the kernel. Ends the process when there is none.
fn map_zeroed(bytes: usize) -> NonNull<u8> {
    // SAFETY: a fresh private mapping.
    let memory = unsafe {
        libc::mmap(
            null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        end_process(b"contend: no memory for a queue node; ending the process\n");
    }
    NonNull::new(memory.cast()).expect("the kernel maps nothing at address zero")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Blocks belong to the process: a test whose threads leave nodes out leaves none to the thread of another.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    #[test]
    fn a_handler_that_interrupts_a_take_gets_its_node_elsewhere() {
        let _alone = ONE_AT_A_TIME.lock();
        let (free, name) = take_slot();
        assert!(name.is_some());
        // SAFETY: taken above.
        unsafe { free_slot(free) };
        let block = current();
        block.taking.store(1, Ordering::Relaxed); // between reading the node's mark and setting it
        let (handlers, name) = take_slot();
        block.taking.store(0, Ordering::Relaxed);
        assert_eq!(name, None);
        assert_ne!(handlers, free);
        let (own, _) = take_slot();
        assert_eq!(own, free);
        // SAFETY: taken above.
        unsafe { free_slot(own) };
        // SAFETY: taken above.
        unsafe { free_slot(handlers) };
    }

    /// Also where both have the same identifier, as in another namespace.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no fork")]
    fn a_child_is_another_process_than_its_parent() {
        let parent = this_process();
        assert_eq!(this_process(), parent);
        // SAFETY: the child uses atomics and system calls only.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let (first, again) = (this_process(), this_process());
                libc::_exit(i32::from(first == parent || first != again));
            }
            let mut status = 1;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(status, 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not tell which threads have ended")]
    fn a_block_is_used_again_while_a_node_of_it_is_out() {
        let _alone = ONE_AT_A_TIME.lock();
        let number_and_node = || {
            let (slot, name) = take_slot();
            (current().number(), slot.expose_provenance().get(), name.is_some())
        };
        let taken: [_; 40] =
            core::array::from_fn(|_| std::thread::spawn(number_and_node).join().expect("it takes a node"));
        for (index, one) in taken.iter().enumerate() {
            assert!(taken[..index].iter().all(|other| other.1 != one.1), "one node for two");
        }
        let numbers = taken.map(|one| one.0);
        let distinct =
            numbers.iter().enumerate().filter(|&(index, number)| !numbers[..index].contains(number));
        assert!(distinct.count() < 30, "a number for nearly every thread: {numbers:?}");
        for (_, slot, _) in taken {
            let slot =
                NonNull::new(core::ptr::with_exposed_provenance_mut(slot)).expect("the address of a slot");
            // SAFETY: taken above, by a thread that has ended.
            unsafe { free_slot(slot) };
        }
    }
}
