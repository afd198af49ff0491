//! A table of waits on addresses.
//!
//! A thread sleeps while a word holds what it does not want, and the thread that changes the word wakes it, as with a futex.
//! The word itself has no place for waiters: the hash of its address says in which bucket of the table they are. A thread that
//! changes a word on which no thread waits finds that out by a load, without a system call and without the bucket's lock.
//!
//! | word                    | written by                   | meaning                                              |
//! |-------------------------|------------------------------|------------------------------------------------------|
//! | `sizes[n]`              | whose call grows or makes it | as many buckets as at first, times 2ⁿ; null until then |
//! | bucket `waiters`        | waiters, wakers              | those in the list, and those about to look at their word |
//! | bucket `lock`           | see the lock                 | guards the list                                      |
//! | bucket `first`, `last`  | the holder of `lock`         | the list of those that sleep                         |
//! | node `next`             | the holder of `lock`         | the one behind it; out of the list, for the thread that took it |
//! | node `key`              | its owner                    | the address of the word that the owner waits on      |
//! | node `woken`            | its owner clears, wakers set | what the owner sleeps on                             |
//!
//! No wake-up is lost: a waiter counts itself, then looks at its word, with a fence between; a waker has changed the word and
//! then looks at the count, with a fence between. One of them sees what the other did. A waiter that is seen looks at
//! its word with the bucket's lock, which the waker takes next.
//!
//! A table grows without moving a waiter: waiters enter the buckets of the newest size, and wakers look at all sizes. A waiter
//! that enters an older size has not seen the newer one, so that a waker that looks later finds the older one, too.
//!
//! Order: of those that wait on one word, first in, first out, within one size. Any thread may wake.
//! Source: Linux's futexes: Franke, Russell, Kirkwood 2002; Bueso and Norton 2014 for the number of buckets, a line for each, and
//! the look at the count; private tables that grow with their threads: Linux 6.16.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};

use machine::Ordering::{Acquire, Relaxed, Release, SeqCst};
use machine::{Home, Integer, LINE_BYTES, Machine, Node, Patient, Placed, PlainCell, Slept, Timeout, Word};

use crate::{Qspin, RawLock};

/// A table has so many sizes at most.
const SIZES: usize = 16;

/// Buckets for each core of a machine that all its threads share: what Linux has since 3.14.
pub const BUCKETS_FOR_EACH_CORE: usize = 256;

/// Buckets for each thread of a table that one process has for itself, and at least so many.
const FOR_EACH_THREAD: usize = 4;
const LEAST: usize = 16;

/// A thread that sleeps.
struct WaitNode<M: Machine> {
    next: M::Cell<*mut WaitNode<M>>,
    key: M::Cell<usize>,
    woken: M::U32,
    _padding: M::Cell<u32>, // see `Node`
}

// SAFETY: words and cells, no padding, zero is valid, no line is exceeded.
unsafe impl<M: Machine> Node<M> for WaitNode<M> {}

impl<M: Machine> WaitNode<M> {
    fn address(&self) -> *mut Self {
        core::ptr::from_ref(self).cast_mut()
    }

    /// The one behind it.
    fn next(&self) -> Option<&'static Self> {
        // SAFETY: null or a node that sleeps: its owner leaves when it is told, or takes itself out with the lock.
        unsafe { self.next.get().as_ref() }
    }

    /// Lets the owner go, whose node may be another one's afterwards.
    fn tell(&self) {
        let woken = &raw const self.woken;
        self.woken.store(1, Release); // [2] to the owner
        M::wake(woken, 1);
    }
}

/// Waiters of all words with one hash.
struct Bucket<M: Machine, L> {
    waiters: M::U32,
    lock: L,
    first: M::Cell<*mut WaitNode<M>>,
    last: M::Cell<*mut WaitNode<M>>,
}

impl<M: Machine, L: RawLock<M>> Bucket<M, L> {
    const NEW: Self = Self { waiters: M::U32::ZERO, lock: L::NEW, first: M::Cell::ZERO, last: M::Cell::ZERO };

    fn first(&self) -> Option<&'static WaitNode<M>> {
        // SAFETY: null or a node of a thread that sleeps, which does not free it before it is told or has taken it out.
        unsafe { self.first.get().as_ref() }
    }

    fn append(&self, node: &'static WaitNode<M>) {
        node.next.set(null_mut());
        // SAFETY: null or a node of a thread that sleeps, which does not free it before it is told or has taken it out.
        match unsafe { self.last.get().as_ref() } {
            Some(last) => last.next.set(node.address()),
            None => self.first.set(node.address()),
        }
        self.last.set(node.address());
    }

    /// Takes out the node behind `before`, or the first.
    fn unlink(&self, before: Option<&'static WaitNode<M>>, node: &'static WaitNode<M>) {
        let next = node.next.get();
        match before {
            Some(before) => before.next.set(next),
            None => self.first.set(next),
        }
        if next.is_null() {
            self.last.set(before.map_or(null_mut(), WaitNode::address));
        }
    }

    /// Takes out at most `most` of those that `is_meant`, and gives the first of them, linked in their order, and how many they are.
    fn take(
        &self,
        most: u32,
        is_meant: impl Fn(&'static WaitNode<M>) -> bool,
    ) -> (Option<&'static WaitNode<M>>, u32) {
        let (mut taken, mut newest, mut count) = (None, None::<&'static WaitNode<M>>, 0);
        let (mut before, mut at) = (None, self.first());
        while let Some(node) = at.filter(|_| count < most) {
            at = node.next();
            if !is_meant(node) {
                before = Some(node);
                continue;
            }
            self.unlink(before, node);
            node.next.set(null_mut());
            match newest {
                Some(newest) => newest.next.set(node.address()),
                None => taken = Some(node),
            }
            newest = Some(node);
            count += 1;
        }
        (taken, count)
    }
}

/// A waiter with the bucket's lock. It leaves the bucket with its node in the list, or without one, as where the caller panics.
struct Entering<'a, M: Machine, L: RawLock<M>> {
    bucket: &'a Bucket<M, L>,
    node: Option<&'static WaitNode<M>>,
}

impl<M: Machine, L: RawLock<M>> Drop for Entering<'_, M, L> {
    fn drop(&mut self) {
        if let Some(node) = self.node {
            self.bucket.append(node);
        }
        // SAFETY: acquired by the thread that made this.
        unsafe { self.bucket.lock.release() };
        if self.node.is_none() {
            self.bucket.waiters.fetch_sub(1, Relaxed);
        }
    }
}

/// How buckets lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// On a line each, so that two buckets do not take it from each other.
    Line,
    /// One behind the other, as Linux had them before 3.14.
    Packed,
}

/// The address of what is waited on. Only a number: what was there may be gone by the time of a [`wake`](WaitTable::wake).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitKey(usize);

/// The table. The child of a fork makes one of its own: the waiters of this one are its parent's threads. `LOOKS` is whether a waker looks for waiters before it takes a bucket's lock; Linux does since 3.14.
///
/// ```
/// use contend_locks::Timeout;
/// use contend_locks::prelude::*;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let table = WaitTable::for_threads(2);
/// let ready = AtomicBool::new(false);
/// let key = table.key(&ready);
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         ready.store(true, Ordering::Release);
///         table.wake(key, 1);
///     });
///     while !ready.load(Ordering::Acquire) {
///         table.wait_if(key, || !ready.load(Ordering::Relaxed), Timeout::NONE);
///     }
/// });
/// ```
pub struct WaitTable<M: Machine = Patient, L: RawLock<M> = Qspin<M>, const LOOKS: bool = true> {
    sizes: Placed<[M::Ptr<u8>; SIZES], M>,
    at_first: usize,
    spacing: Spacing,
    home: Home,
    buckets: PhantomData<Bucket<M, L>>,
}

impl<M: Machine, L: RawLock<M>, const LOOKS: bool> WaitTable<M, L, LOOKS> {
    /// A table for all threads of a machine: 256 buckets a core.
    ///
    /// # Panics
    /// As [`with_buckets`](Self::with_buckets).
    #[must_use]
    pub fn for_cores(cores: usize) -> Self {
        Self::with_buckets(BUCKETS_FOR_EACH_CORE.saturating_mul(cores), Spacing::Line, Home::FirstTouch)
    }

    /// A table for so many threads, at first: [`grow`](Self::grow) says that there are more.
    ///
    /// # Panics
    /// As [`with_buckets`](Self::with_buckets).
    #[must_use]
    pub fn for_threads(threads: usize) -> Self {
        Self::with_buckets(Self::buckets_for(threads), Spacing::Line, Home::FirstTouch)
    }

    /// A table of at least so many buckets, rounded up to a power of two. Who wants waiters and wakers of one memory node to stay
    /// there has a table for each node.
    ///
    /// # Panics
    /// More buckets than memory can have.
    #[must_use]
    pub fn with_buckets(buckets: usize, spacing: Spacing, home: Home) -> Self {
        let at_first = buckets.max(1).checked_next_power_of_two().expect("a table is smaller than memory");
        let sizes = Placed::new([const { M::Ptr::ZERO }; SIZES], home);
        let table = Self { sizes, at_first, spacing, home, buckets: PhantomData };
        table.sizes[0].store(table.allocate(0).as_ptr(), Relaxed); // no other thread has the table
        table
    }

    fn buckets_for(threads: usize) -> usize {
        FOR_EACH_THREAD.saturating_mul(threads).max(LEAST)
    }

    /// Lets the table grow to what so many threads need. Does nothing if it is as large; waiters stay where they are.
    ///
    /// # Panics
    /// As [`with_buckets`](Self::with_buckets).
    pub fn grow(&self, threads: usize) {
        for size in 1..SIZES {
            if self.at_first << (size - 1) >= Self::buckets_for(threads) {
                return;
            }
            if self.sizes[size].load(Relaxed).is_null() {
                let buckets = self.allocate(size);
                // [1] to waiters and wakers: what the buckets are at first
                let grown = self.sizes[size].compare_exchange(null_mut(), buckets.as_ptr(), Release, Relaxed);
                if grown.is_err() {
                    // SAFETY: allocated above for this size, and no other thread has seen it.
                    unsafe { self.free(size, buckets) };
                }
            }
        }
    }

    /// How many buckets waiters are spread over now.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.at_first << (self.grown_sizes().count() - 1)
    }

    /// How many sleep in it, on any word. For checks: it takes the lock of every bucket in turn.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        let of_bucket = |bucket: &Bucket<M, L>| {
            bucket.lock.acquire();
            let count = core::iter::successors(bucket.first(), |node| node.next()).count();
            // SAFETY: acquired above.
            unsafe { bucket.lock.release() };
            count
        };
        self.all().map(of_bucket).sum()
    }

    /// How many are counted as waiting, on any word: those that sleep, and those about to look at their word. For checks.
    #[must_use]
    pub fn waiters(&self) -> u32 {
        self.all().map(|bucket| bucket.waiters.load(Relaxed)).sum()
    }

    /// Every bucket of every size.
    fn all(&self) -> impl Iterator<Item = &Bucket<M, L>> {
        let numbers = |(size, buckets)| (0..self.at_first << size).map(move |number| (number, buckets));
        // SAFETY: less than the number of buckets of the size.
        self.grown_sizes().flat_map(numbers).map(|(number, buckets)| unsafe { self.at(number, buckets) })
    }

    /// The key of what lies at this address: a word, or anything else that a waiter can look at.
    #[must_use]
    pub fn key<T>(&self, of: &T) -> WaitKey {
        WaitKey(M::address(of))
    }

    /// [`key`](Self::key) of what may be gone by now.
    ///
    /// # Panics
    /// Nothing lies at address zero.
    #[must_use]
    pub fn key_at<T>(&self, address: *const T) -> WaitKey {
        let address = NonNull::new(address.cast_mut()).expect("nothing is waited on at address zero");
        // SAFETY: a unit has no bytes.
        self.key(unsafe { address.cast::<()>().as_ref() })
    }

    /// Sleeps while `word` holds `expected`, until a [`wake`](Self::wake) or the timeout. May return early for no reason, so the
    /// caller looks at the word again.
    pub fn wait(&self, word: &M::U32, expected: u32, timeout: Timeout<'_, M>) -> Slept {
        self.wait_if(self.key(word), || word.load(Relaxed) == expected, timeout)
    }

    /// [`wait`](Self::wait), if `waits` says so. It is called once, with the bucket's lock: it looks at memory, and does not
    /// come back to the table. Nor does a signal handler of a thread that may be in it.
    pub fn wait_if(&self, key: WaitKey, waits: impl FnOnce() -> bool, timeout: Timeout<'_, M>) -> Slept {
        let (size, buckets) = self.grown_sizes().last().expect("the first size is always there");
        // SAFETY: of this size.
        let bucket = unsafe { self.bucket(size, buckets, key) };
        bucket.waiters.fetch_add(1, Relaxed);
        M::fence(SeqCst); // see above: pairs with the one in `wake`
        bucket.lock.acquire();
        let mut entering = Entering { bucket, node: None };
        if !waits() {
            return Slept::Changed;
        }
        let node = M::allocate_node::<WaitNode<M>>().node;
        node.key.set(key.0);
        node.woken.store(0, Relaxed);
        entering.node = Some(node);
        drop(entering);
        let slept = Self::sleep(bucket, node, timeout);
        // SAFETY: out of the list, and told or never to be told.
        unsafe { M::free_node(node) };
        slept
    }

    /// Sleeps until told, and is out of the list afterwards.
    fn sleep(bucket: &Bucket<M, L>, node: &'static WaitNode<M>, mut timeout: Timeout<'_, M>) -> Slept {
        // [2] from the waker
        while node.woken.load(Acquire) == 0 {
            if M::sleep_while(&node.woken, 0, timeout) != Slept::GaveUp {
                continue;
            }
            bucket.lock.acquire();
            let (left, _) = bucket.take(1, |other| core::ptr::eq(other, node));
            // SAFETY: acquired above.
            unsafe { bucket.lock.release() };
            if left.is_some() {
                bucket.waiters.fetch_sub(1, Relaxed);
                return Slept::GaveUp;
            }
            timeout = Timeout::NONE; // a waker has taken it out, and is about to tell
        }
        Slept::Woken
    }

    /// Wakes at most `most` of those that wait on a word, after it was changed, and says how many.
    pub fn wake(&self, key: WaitKey, most: u32) -> u32 {
        M::fence(SeqCst); // see above: pairs with the one in `wait`
        let mut woken = 0;
        for (size, buckets) in self.grown_sizes() {
            // SAFETY: of this size.
            let bucket = unsafe { self.bucket(size, buckets, key) };
            if most > woken && (!LOOKS || bucket.waiters.load(Relaxed) != 0) {
                woken += Self::wake_in(bucket, key, most - woken);
            }
        }
        woken
    }

    fn wake_in(bucket: &Bucket<M, L>, key: WaitKey, most: u32) -> u32 {
        bucket.lock.acquire();
        let (mut taken, count) = bucket.take(most, |node| node.key.get() == key.0);
        // SAFETY: acquired above.
        unsafe { bucket.lock.release() };
        if count != 0 {
            bucket.waiters.fetch_sub(count, Relaxed);
        }
        while let Some(node) = taken {
            taken = node.next();
            node.tell();
        }
        count
    }

    /// The sizes that the table has, and where their buckets lie.
    fn grown_sizes(&self) -> impl Iterator<Item = (usize, NonNull<u8>)> {
        let buckets = self.sizes.iter().map(|size| NonNull::new(size.load(Acquire))); // [1] from `grow`
        buckets.map_while(|buckets| buckets).enumerate()
    }

    /// # Safety
    /// `buckets` are those of `size`.
    unsafe fn bucket(&self, size: usize, buckets: NonNull<u8>, key: WaitKey) -> &Bucket<M, L> {
        let count = self.at_first << size;
        // The golden ratio spreads addresses that differ in few bits; the product's upper bits depend on all of them.
        const RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
        let hash = (key.0 as u64 / 4).wrapping_mul(RATIO).rotate_left(count.ilog2());
        let number = hash as usize & (count - 1);
        // SAFETY: less than their number.
        unsafe { self.at(number, buckets) }
    }

    /// # Safety
    /// `number` is less than the number of these buckets.
    unsafe fn at(&self, number: usize, buckets: NonNull<u8>) -> &Bucket<M, L> {
        // SAFETY: by the caller the bucket lies in these; `allocate` wrote it, and it is there until the table is dropped.
        unsafe { buckets.add(number * self.stride()).cast().as_ref() }
    }

    fn stride(&self) -> usize {
        let bytes = size_of::<Bucket<M, L>>();
        match self.spacing {
            Spacing::Line => bytes.next_multiple_of(LINE_BYTES),
            Spacing::Packed => bytes,
        }
    }

    fn layout(&self, size: usize) -> Layout {
        let bytes = (self.at_first << size).checked_mul(self.stride());
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, LINE_BYTES).ok());
        layout.expect("a table is smaller than memory")
    }

    fn allocate(&self, size: usize) -> NonNull<u8> {
        const { assert!(align_of::<Bucket<M, L>>() <= LINE_BYTES) };
        const { assert!(L::OPAQUE, "a section of this lock may see what another has done by half") };
        let memory = M::alloc(self.layout(size), self.home);
        for number in 0..self.at_first << size {
            // SAFETY: within the memory, and aligned: a stride is a multiple of the alignment.
            unsafe { memory.add(number * self.stride()).cast().write(Bucket::<M, L>::NEW) };
        }
        memory
    }

    /// # Safety
    /// `buckets` came from `allocate` for this size, and no thread uses them any more.
    unsafe fn free(&self, size: usize, buckets: NonNull<u8>) {
        // SAFETY: by the caller this is what `M::alloc` gave for this layout; locks, words and cells have nothing to drop.
        unsafe { M::free(buckets, self.layout(size), self.home) };
    }
}

impl<M: Machine, L: RawLock<M>, const LOOKS: bool> Drop for WaitTable<M, L, LOOKS> {
    fn drop(&mut self) {
        for (size, word) in self.sizes.iter().enumerate() {
            if let Some(buckets) = NonNull::new(word.load(Relaxed)) {
                // SAFETY: allocated for this size; no other thread has the table.
                unsafe { self.free(size, buckets) };
            }
        }
    }
}

// SAFETY: it owns buckets, which threads share by words, and cells by the bucket's lock.
unsafe impl<M: Machine, L: RawLock<M>, const LOOKS: bool> Send for WaitTable<M, L, LOOKS> {}
// SAFETY: threads that share it change words atomically, and the cells of a bucket only while they hold its lock.
unsafe impl<M: Machine, L: RawLock<M>, const LOOKS: bool> Sync for WaitTable<M, L, LOOKS> {}
