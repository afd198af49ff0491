//! The kernel's section of a profile: waits for its locks, counted straight into the file as they are told.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, Ordering::Relaxed};

use rustix::time::ClockId;

use super::Recording;
use crate::arena::{Block, Need};
use crate::clock::clock_ns;
use crate::format::{
    KERNEL_LOCK_LENGTH, KernelLock, KernelRelease, KernelStack, KernelWatch, Process, ProcessValues, Type,
    head,
};
use crate::histogram::{BUCKETS, bucket};
use crate::record::add;

/// Bytes that are taken from the file at once.
const BLOCK: usize = 60 << 10;

/// Locks at different addresses are counted up to this.
const MOST_OBJECTS: usize = 4096;

/// What is counted of a wait that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelWait {
    /// The address of the lock.
    pub object: u64,
    /// Time on a core, spinning, ns.
    pub spun_ns: u64,
    /// Time asleep, ns.
    pub slept_ns: u64,
    /// Whether the lock was acquired.
    pub acquired: bool,
}

/// Writes the section. The owner of this value is the only writer there.
#[derive(Debug)]
pub struct KernelSection<'r> {
    recording: &'r Recording,
    number: u64,
    /// Where the next records go.
    block: Block,
    watch: &'r KernelWatch,
    locks: Vec<Lock<'r>>,
    /// The place in `locks` by address and kind.
    by_kind: HashMap<(u64, u64), usize>,
    stacks: Vec<&'r KernelStack>,
    /// The place in `stacks` by lock and functions.
    by_functions: HashMap<(usize, Box<[u64]>), usize>,
    /// By lock and function.
    releases: HashMap<(usize, u64), &'r KernelRelease>,
    /// Addresses that have a name in the file.
    named: HashSet<u64>,
}

#[derive(Debug)]
struct Lock<'r> {
    record: &'r KernelLock,
    buckets: &'r [AtomicU64; BUCKETS],
    objects: HashSet<u64>,
}

/// A stack of a lock in a [`KernelSection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackOfLock {
    lock: usize,
    stack: usize,
}

impl<'r> KernelSection<'r> {
    /// Begins the section. `command` is the program with its arguments; `machine` says that all waits on the machine are counted.
    ///
    /// # Errors
    ///
    /// The file cannot grow.
    pub fn begin(recording: &'r Recording, command: &[OsString], machine: bool) -> io::Result<Self> {
        let full =
            || io::Error::new(io::ErrorKind::StorageFull, "the profile has no space for the kernel's locks");
        let arguments: Vec<u8> =
            command.iter().flat_map(|word| word.as_bytes().iter().copied().chain([0])).collect();
        let length = Process::LENGTH + KernelWatch::LENGTH + arguments.len() + 16;
        let block = recording.allocate(Need::Essential, 0, length).ok_or_else(full)?;
        let number = recording.arena.position_of(block.header());
        block.header().section.store(number, Relaxed);
        let process = block.take(Process::LENGTH).ok_or_else(full)?;
        // SAFETY: `take` gave the space, aligned to words, in a mapping that lives as long as the recording.
        let process = unsafe { &*process.cast::<Process>() };
        process
            .store(&ProcessValues { head: head(Type::Process, Process::LENGTH), ..ProcessValues::default() });
        let watch = block.take(KernelWatch::LENGTH).ok_or_else(full)?;
        // SAFETY: `take` gave the space, aligned to words, in a mapping that lives as long as the recording.
        let watch = unsafe { &*watch.cast::<KernelWatch>() };
        watch.machine.store(machine.into(), Relaxed);
        let now = clock_ns(ClockId::Monotonic);
        watch.first_ns.store(now, Relaxed);
        watch.last_ns.store(now, Relaxed);
        watch.head.store(head(Type::KernelWatch, KernelWatch::LENGTH), Ordering::Release);
        block.push_bytes(Type::Arguments, &[&arguments]);
        Ok(Self {
            recording,
            number,
            block,
            watch,
            locks: Vec::new(),
            by_kind: HashMap::new(),
            stacks: Vec::new(),
            by_functions: HashMap::new(),
            releases: HashMap::new(),
            named: HashSet::new(),
        })
    }

    /// The record of the section as a whole; the writer keeps its counts.
    pub fn watch(&self) -> &'r KernelWatch {
        self.watch
    }

    /// Notes that everything up to now has been counted.
    pub fn note_time(&self) {
        self.watch.last_ns.store(clock_ns(ClockId::Monotonic), Relaxed);
    }

    /// Finds or makes the record of a lock and of a stack that waits for it.
    ///
    /// The lock is a variable, or else what the function of `place` takes: an address and its name. `flags` are those of the
    /// tracepoint, and `functions` the addresses and names of the stack's, innermost first. None when the file cannot grow.
    pub fn stack(
        &mut self,
        place: (u64, &str),
        is_variable: bool,
        flags: u32,
        functions: &[(u64, &str)],
    ) -> Option<StackOfLock> {
        let kind = u64::from(flags) | u64::from(is_variable) << 32;
        let lock = match self.by_kind.get(&(place.0, kind)) {
            Some(&known) => known,
            None => self.add_lock(place, kind)?,
        };
        let addresses: Box<[u64]> = functions.iter().map(|&(address, _)| address).collect();
        let key = (lock, addresses);
        let stack = match self.by_functions.get(&key) {
            Some(&known) => known,
            None => self.add_stack(key, functions)?,
        };
        Some(StackOfLock { lock, stack })
    }

    fn add_lock(&mut self, (address, name): (u64, &str), kind: u64) -> Option<usize> {
        self.name(address, name)?;
        let start = self.take(KERNEL_LOCK_LENGTH)?;
        // SAFETY: `take` gave this many zeroed bytes, aligned to words, in a mapping that lives as long as the recording.
        let (record, buckets) = unsafe {
            (&*start.cast::<KernelLock>(), &*start.add(KernelLock::LENGTH).cast::<[AtomicU64; BUCKETS]>())
        };
        let place = self.locks.len();
        record.number.store(place as u64 + 1, Relaxed);
        record.address.store(address, Relaxed);
        record.kind.store(kind, Relaxed);
        record.head.store(head(Type::KernelLock, KERNEL_LOCK_LENGTH), Ordering::Release);
        self.locks.push(Lock { record, buckets, objects: HashSet::new() });
        self.by_kind.insert((address, kind), place);
        Some(place)
    }

    fn add_stack(&mut self, key: (usize, Box<[u64]>), functions: &[(u64, &str)]) -> Option<usize> {
        for &(address, name) in functions {
            self.name(address, name)?;
        }
        let length = KernelStack::LENGTH + functions.len() * 8;
        let start = self.take(length)?;
        // SAFETY: as in `add_lock`; the addresses go behind the record's own words.
        let record = unsafe {
            let addresses = start.add(KernelStack::LENGTH).cast::<u64>();
            ptr::copy_nonoverlapping(key.1.as_ptr(), addresses, key.1.len());
            &*start.cast::<KernelStack>()
        };
        record.lock.store(key.0 as u64 + 1, Relaxed);
        record.head.store(head(Type::KernelStack, length), Ordering::Release);
        self.stacks.push(record);
        self.by_functions.insert(key, self.stacks.len() - 1);
        Some(self.stacks.len() - 1)
    }

    /// Writes the name of an address, once.
    fn name(&mut self, address: u64, name: &str) -> Option<()> {
        if self.named.insert(address) {
            let parts = [&address.to_le_bytes()[..], name.as_bytes()];
            if !self.block.push_bytes(Type::KernelSymbol, &parts) {
                self.block = self.next_block(parts.concat().len())?;
                self.block.push_bytes(Type::KernelSymbol, &parts);
            }
        }
        Some(())
    }

    /// Space for a record, zeroed.
    fn take(&mut self, length: usize) -> Option<*mut u8> {
        if let Some(start) = self.block.take(length) {
            return Some(start);
        }
        self.block = self.next_block(length)?;
        self.block.take(length)
    }

    fn next_block(&self, length: usize) -> Option<Block> {
        self.recording.allocate(Need::Detail, self.number, BLOCK.max(length + 8))
    }

    /// Counts a wait; none if there was no space for its stack.
    pub fn count(&mut self, stack: Option<StackOfLock>, wait: &KernelWait) {
        let Some(StackOfLock { lock, stack }) = stack else {
            add(&self.watch.dropped, 1);
            return;
        };
        let total_ns = wait.spun_ns.saturating_add(wait.slept_ns);
        let lock = &mut self.locks[lock];
        add(&lock.record.waits, 1);
        add(&lock.record.wait_ns, total_ns);
        add(&lock.record.spun_ns, wait.spun_ns);
        add(&lock.record.interrupted, u64::from(!wait.acquired));
        add(&lock.buckets[bucket(total_ns)], 1);
        if lock.objects.len() < MOST_OBJECTS && lock.objects.insert(wait.object) {
            lock.record.objects.store(lock.objects.len() as u64, Relaxed);
        }
        let stack = self.stacks[stack];
        add(&stack.waits, 1);
        add(&stack.wait_ns, total_ns);
    }

    /// Counts a wait for the release that ended it, which the function at this address made. Without space it is left out: the wait itself
    /// is counted.
    pub fn count_release(&mut self, lock: StackOfLock, (address, name): (u64, &str), wait: &KernelWait) {
        let key = (lock.lock, address);
        let known = self.releases.get(&key).copied();
        if let Some(record) = known.or_else(|| self.add_release(key, name)) {
            add(&record.waits, 1);
            add(&record.wait_ns, wait.spun_ns.saturating_add(wait.slept_ns));
        }
    }

    fn add_release(&mut self, key: (usize, u64), name: &str) -> Option<&'r KernelRelease> {
        self.name(key.1, name)?;
        let start = self.take(KernelRelease::LENGTH)?;
        // SAFETY: as in `add_lock`.
        let record = unsafe { &*start.cast::<KernelRelease>() };
        record.lock.store(key.0 as u64 + 1, Relaxed);
        record.address.store(key.1, Relaxed);
        record.head.store(head(Type::KernelRelease, KernelRelease::LENGTH), Ordering::Release);
        self.releases.insert(key, record);
        Some(record)
    }
}
