//! Store buffers: a store retires while its line is fetched, and others see it once the line has come.
//!
//! The oldest store's line is always under way. Where a machine allows several misses at once, the lines of the stores behind
//! it are asked for as well, each once: a line that another core takes away before its store's turn is asked for again
//! when that has come, so that two cores cannot take lines from each other for nothing.
//!
//! A thread's stores leave its buffer in their order, so others see them in that order; its own loads see them at once.
//! A load does not wait for the stores before it, which is the one order that x86 gives up (TSO). Atomic
//! read-modify-writes, full fences and system calls wait until the buffer is empty.

use std::collections::VecDeque;
use std::panic::Location;
use std::ptr::NonNull;

use super::{Engine, access, catch_up, suspend, waits_for_turn};
use crate::NOBODY;
use crate::clock::Event;
use crate::directory::Request;
use crate::trace::What;

/// A store that has retired and that nobody else has seen yet.
#[derive(Clone, Copy)]
struct Buffered {
    address: usize,
    /// How many of the lowest bytes of `bits` are stored.
    bytes: usize,
    bits: u64,
    line: u32,
    site: &'static Location<'static>,
    /// The number of the lock that the access is counted for.
    counted_for: u32,
}

impl Buffered {
    /// Whether it stores some of the bytes there.
    fn overlaps(&self, address: usize, bytes: usize) -> bool {
        self.address < address + bytes && address < self.address + self.bytes
    }
}

/// A request of a store buffer.
#[derive(Clone, Copy)]
struct UnderWay {
    line: u32,
    /// The number of the lock that the access is counted for.
    counted_for: u32,
}

/// A thread's stores, oldest first. The request for the oldest one's line is under way.
#[derive(Default)]
pub(super) struct StoreBuffer {
    stores: VecDeque<Buffered>,
    /// By number of the request; as long as the most that were under way at once.
    requests: Vec<Option<UnderWay>>,
    /// The oldest so many stores have been looked at: their lines were there, or have been asked for.
    looked_at: usize,
    /// The thread goes on when the next store leaves.
    waits: bool,
}

impl StoreBuffer {
    /// Whether a line is on its way. The directory says that the core has it already.
    fn awaits(&self, line: u32) -> bool {
        self.requests.iter().flatten().any(|request| request.line == line)
    }

    /// The number of a request that is not under way, if there is one among so many.
    fn free_request(&mut self, requests: u32) -> Option<u32> {
        let free = self.requests.iter().position(Option::is_none).unwrap_or(self.requests.len());
        if free == requests as usize {
            return None;
        }
        if free == self.requests.len() {
            self.requests.push(None);
        }
        Some(free as u32)
    }
}

/// The word of a store or load: where it is and how many bytes it has.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
}

/// A store of the running thread. True if the store buffer has taken it; otherwise it is the thread's turn, and it
/// writes the value at once.
///
/// # Safety
/// As for [`suspend`]; the span is writable memory of the simulation for as long as the run lasts.
#[inline]
pub(crate) unsafe fn store(
    engine: *mut Engine,
    span: Span,
    bits: u64,
    site: &'static Location<'static>,
) -> bool {
    // SAFETY: the caller's.
    unsafe {
        let this = &*engine;
        if this.hardware.store_buffer == 0 || this.scheduler.current == NOBODY {
            access(engine, span.address, Request::Store, site);
            return false;
        }
        buffer(engine, span, bits, site)
    }
}

/// # Safety
/// As for [`store`].
unsafe fn buffer(engine: *mut Engine, span: Span, bits: u64, site: &'static Location<'static>) -> bool {
    // SAFETY: the caller's; every reference ends before the coroutine is suspended.
    unsafe {
        let line = (*engine).line_of(span.address);
        if (*engine).clock.is_behind() && waits_for_turn(engine, line, Request::Store, site) {
            return false;
        }
        let this = &mut *engine;
        let (current, core) = (this.scheduler.current, this.scheduler.current_core);
        let (capacity, hit) = (this.hardware.store_buffer as usize, this.hardware.hit);
        if this.threads[current as usize].buffer.stores.is_empty()
            && this.memory.hit(core, line, Request::Store)
        {
            this.locks.hit();
            this.clock.now += hit;
            return false;
        }
        wait_while(engine, |buffer| buffer.stores.len() >= capacity);
        let this = &mut *engine;
        let thread = &mut this.threads[current as usize];
        let Span { address, bytes } = span;
        let counted_for = thread.counted_for;
        thread.buffer.stores.push_back(Buffered { address, bytes, bits, line, site, counted_for });
        if thread.buffer.stores.len() == 1 {
            this.drain(current);
        } else {
            this.ask_ahead(current);
        }
        this.clock.now += hit;
        true
    }
}

/// A load of the running thread. Gives the bits that its own store buffer forwards; otherwise it is the thread's turn, and
/// it reads the value at once.
///
/// # Safety
/// As for [`suspend`].
#[inline]
pub(crate) unsafe fn load(engine: *mut Engine, span: Span, site: &'static Location<'static>) -> Option<u64> {
    // SAFETY: the caller's.
    unsafe {
        let this = &*engine;
        if this.hardware.store_buffer != 0
            && let Some(thread) = this.threads.get(this.scheduler.current as usize)
            && !thread.buffer.stores.is_empty()
            && let Some(bits) = forward(engine, span)
        {
            return Some(bits);
        }
        access(engine, span.address, Request::Load, site);
        None
    }
}

/// # Safety
/// As for [`suspend`].
unsafe fn forward(engine: *mut Engine, span: Span) -> Option<u64> {
    // SAFETY: the caller's; every reference ends before the coroutine is suspended.
    unsafe {
        let line = (*engine).line_of(span.address);
        if (*engine).clock.is_behind() {
            catch_up(engine);
        }
        loop {
            let this = &mut *engine;
            let buffer = &mut this.threads[this.scheduler.current as usize].buffer;
            let mut newest_first = buffer.stores.iter().rev();
            match newest_first.find(|store| store.overlaps(span.address, span.bytes)) {
                Some(store) if store.address == span.address && store.bytes == span.bytes => {
                    this.clock.now += this.hardware.hit;
                    return Some(store.bits);
                }
                // Parts of the word are not put together, and a line that is on its way is not asked for again.
                None if !buffer.awaits(line) => return None,
                _ => {}
            }
            buffer.waits = true;
            suspend(engine);
        }
    }
}

/// Waits until the running thread's stores have left its buffer: before an atomic read-modify-write, at a full fence, at a
/// system call.
///
/// # Safety
/// As for [`suspend`].
#[inline]
pub(crate) unsafe fn drained(engine: *mut Engine) {
    // SAFETY: the caller's.
    unsafe { wait_while(engine, |buffer| !buffer.stores.is_empty()) };
}

/// Waits until the running thread's stores to some lines have left its buffer.
///
/// # Safety
/// As for [`suspend`].
pub(crate) unsafe fn drained_of(engine: *mut Engine, lines: &[u32]) {
    // SAFETY: the caller's.
    unsafe { wait_while(engine, |buffer| buffer.stores.iter().any(|store| lines.contains(&store.line))) };
}

/// # Safety
/// As for [`suspend`].
#[inline]
unsafe fn wait_while(engine: *mut Engine, condition: impl Fn(&StoreBuffer) -> bool) {
    // SAFETY: the caller's; every reference ends before the coroutine is suspended.
    unsafe {
        let mut is_at_its_time = false;
        loop {
            let this = &mut *engine;
            let Some(thread) = this.threads.get_mut(this.scheduler.current as usize) else { return };
            if thread.buffer.stores.is_empty() || !condition(&thread.buffer) {
                return;
            }
            if !is_at_its_time {
                // Stores may leave before that, and one that does must not resume the thread in the past.
                is_at_its_time = true;
                if this.clock.is_behind() {
                    catch_up(engine);
                    continue;
                }
            }
            thread.buffer.waits = true;
            suspend(engine);
        }
    }
}

impl Engine {
    /// The number under which a thread's store buffer makes one of its requests of the memory.
    fn requester(&self, thread: u32, request: u32) -> u32 {
        self.threads.len() as u32 + thread * self.hardware.misses_in_flight + request
    }

    /// The thread whose store buffer asks under this number, and which of its requests it is; none if a thread itself asks.
    pub(super) fn request_of_buffer(&self, requester: u32) -> Option<(u32, u32)> {
        let number = requester.checked_sub(self.threads.len() as u32)?;
        let requests = self.hardware.misses_in_flight;
        Some((number / requests, number % requests))
    }

    /// Lets stores leave a thread's buffer until one has to wait for its line.
    fn drain(&mut self, thread: u32) {
        let core = self.scheduler.thread(thread).core;
        while let Some(&oldest) = self.threads[thread as usize].buffer.stores.front() {
            if self.threads[thread as usize].buffer.awaits(oldest.line) {
                break;
            }
            if !self.memory.hit(core, oldest.line, Request::Store) {
                if self.ask_for(thread, oldest) {
                    let buffer = &mut self.threads[thread as usize].buffer;
                    buffer.looked_at = buffer.looked_at.max(1);
                }
                break;
            }
            self.locks.count_hit(oldest.counted_for);
            self.commit(thread);
        }
        self.ask_ahead(thread);
    }

    /// Asks for the lines of the stores that have not been looked at, as many as may be under way.
    fn ask_ahead(&mut self, thread: u32) {
        let core = self.scheduler.thread(thread).core;
        loop {
            let buffer = &self.threads[thread as usize].buffer;
            let Some(&store) = buffer.stores.get(buffer.looked_at) else { return };
            let has_or_awaits = buffer.awaits(store.line) || self.memory.may_write(core, store.line);
            if !has_or_awaits && !self.ask_for(thread, store) {
                return;
            }
            self.threads[thread as usize].buffer.looked_at += 1;
        }
    }

    /// Asks for the line of a store of a thread's buffer; false if as many are under way as may be.
    fn ask_for(&mut self, thread: u32, store: Buffered) -> bool {
        let Buffered { line, site, counted_for, .. } = store;
        let buffer = &mut self.threads[thread as usize].buffer;
        let Some(request) = buffer.free_request(self.hardware.misses_in_flight) else { return false };
        buffer.requests[request as usize] = Some(UnderWay { line, counted_for });
        let requester = self.requester(thread, request);
        self.memory.ask(requester, line, Request::Store, Some(site), self.clock.now);
        if let Some(done) = self.issue(requester) {
            self.clock.push(done, Event::Resume(requester));
        }
        true
    }

    /// The line of one of a thread's stores has come.
    pub(super) fn line_for_buffer(&mut self, thread: u32, request: u32) {
        let requester = self.requester(thread, request);
        let under_way = self.threads[thread as usize].buffer.requests[request as usize].take();
        let Some(UnderWay { line, counted_for }) = under_way else { return };
        if let Some(miss) = self.memory.completed(&mut self.clock, requester) {
            self.locks.count_miss(counted_for, miss.waited);
            self.record(
                thread,
                What::Miss { request: miss.request, line: miss.line, issued: miss.issued, site: miss.site },
            );
        }
        let oldest = self.threads[thread as usize].buffer.stores.front();
        if oldest.is_some_and(|oldest| oldest.line == line) {
            self.commit(thread);
        } else {
            self.wake_if_waiting(thread); // for a load of another word of the line
        }
        self.drain(thread);
    }

    /// A thread's oldest store becomes visible.
    fn commit(&mut self, thread: u32) {
        let buffer = &mut self.threads[thread as usize].buffer;
        let Some(store) = buffer.stores.pop_front() else { return };
        buffer.looked_at = buffer.looked_at.saturating_sub(1);
        // Another thread of the core may be in a transaction by now, whose core has the line.
        self.memory.uses_unasked(&mut self.clock, store.line, thread, true);
        let bytes = store.bits.to_le_bytes();
        let offset = self.arena.offset(store.address).expect("the thread has named a word of the arena");
        let to: NonNull<u8> = self.arena.at(offset);
        // SAFETY: a word that the simulation's memory holds for the whole run, to which no reference is given out; on
        // little-endian hosts its lowest bytes come first.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), store.bytes) };
        self.wake_if_waiting(thread);
    }

    /// Lets a thread that waits for its buffer look at it again.
    fn wake_if_waiting(&mut self, thread: u32) {
        if std::mem::take(&mut self.threads[thread as usize].buffer.waits) {
            self.clock.push(self.clock.now, Event::Resume(thread));
        }
    }
}
