//! The section of a program that was attached to: waits, counted straight into the file as they are told.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering, Ordering::Relaxed};

use super::Recording;
use crate::LockKind;
use crate::arena::{Block, Need};
use crate::clock::clock_ns;
use crate::format::{
    ByCaller, FRAMES, Histograms, Holder, LOCK_LENGTH, Lock, Pair, Process, ProcessValues, Quantity, Site,
    Thread, Type, UNIT, head,
};
use crate::histogram::bucket;
use crate::record::{Mode, add, key_of, place_of};
use rustix::time::ClockId;

/// Bytes of a block of a thread's records, and of one of the locks'.
const THREAD_BLOCK: usize = (4 << 10) - UNIT as usize;
const LOCK_BLOCK: usize = (32 << 10) - UNIT as usize;

/// Stacks that are kept. Waits by further ones are counted, and their callers' callers are unknown.
const MOST_SITES: usize = 1 << 12;

/// The process that is attached to.
#[derive(Clone, Copy, Debug)]
pub struct AttachedImage<'a> {
    /// Its identifier.
    pub pid: u32,
    /// Whether `/proc` shows it and its threads under these identifiers: not where they are counted in another PID namespace.
    pub is_shown: bool,
    /// Its arguments, each ended by a zero.
    pub arguments: &'a [u8],
    /// The path of its program.
    pub executable: &'a [u8],
}

/// A wait that is over.
#[derive(Clone, Copy, Debug)]
pub struct AttachedWait<'a> {
    /// Who waited.
    pub tid: u32,
    /// What kind of object the thread waited for.
    pub kind: LockKind,
    /// Where the object is.
    pub address: u64,
    /// Whether the thread wanted to share it with other readers.
    pub shared: bool,
    /// When the wait began, ns of the monotonic clock.
    pub begun_ns: u64,
    /// How long it lasted, ns.
    pub duration_ns: u64,
    /// The time was over before the thread got what it waited for.
    pub timed_out: bool,
    /// Return addresses of the call that waited, innermost first.
    pub frames: &'a [u64],
    /// The one of them in the function that took the lock, outside what only wraps locks; 0 if it is not known.
    pub caller: u64,
    /// Behind whom, as far as it is known.
    pub behind: &'a [AttachedBehind<'a>],
}

/// The part of a wait in which a thread had the lock.
#[derive(Clone, Copy, Debug)]
pub struct AttachedBehind<'a> {
    /// Return addresses of the call that released it, innermost first.
    pub frames: &'a [u64],
    /// The one of them in the function that released the lock, outside what only wraps locks; 0 if it is not known.
    pub caller: u64,
    /// How long that part lasted, ns.
    pub duration_ns: u64,
}

/// Writes the section. The owner of this value is the only writer there.
#[derive(Debug)]
pub struct AttachedSection<'r> {
    recording: &'r Recording,
    number: u64,
    /// Where `/proc` tells the names of its threads, if it does.
    shown_as: Option<u32>,
    process: &'r Process,
    /// Where the next locks, distributions and holders go.
    block: Option<Block>,
    locks: HashMap<(u64, LockKind), LockOfSection<'r>>,
    threads: HashMap<u32, ThreadOfSection<'r>>,
    /// By the key of a pair: one for all threads, since a row adds them up.
    histograms: HashMap<u64, &'r Histograms>,
    /// Locks with the stacks of waits for them, from the caller outwards.
    sites: HashSet<(u32, Box<[u64]>)>,
    /// By lock and thread.
    holders: HashMap<(u32, u32), &'r Holder>,
}

#[derive(Debug)]
struct LockOfSection<'r> {
    number: u32,
    record: &'r Lock,
    stack: &'r [AtomicU64; FRAMES],
}

#[derive(Debug)]
struct ThreadOfSection<'r> {
    record: &'r Thread,
    /// The position of the record in the file.
    position: u64,
    block: Block,
    pairs: HashMap<u64, PairOfSection<'r>>,
}

#[derive(Clone, Copy, Debug)]
struct PairOfSection<'r> {
    record: &'r Pair,
    /// From its first wait on whose caller is known.
    by_caller: Option<&'r ByCaller>,
}

impl<'r> AttachedSection<'r> {
    /// Begins the section.
    ///
    /// # Errors
    ///
    /// The file cannot grow.
    pub fn begin(recording: &'r Recording, image: &AttachedImage<'_>) -> io::Result<Self> {
        let full = || io::Error::new(io::ErrorKind::StorageFull, "the profile has no space for the process");
        let length = Process::LENGTH + image.arguments.len() + image.executable.len() + 32;
        let block = recording.allocate(Need::Essential, 0, length).ok_or_else(full)?;
        let number = recording.arena.position_of(block.header());
        block.header().section.store(number, Relaxed);
        let start = block.take(Process::LENGTH).ok_or_else(full)?;
        // SAFETY: `take` gave the space, aligned to words, in a mapping that lives as long as the recording.
        let process = unsafe { &*start.cast::<Process>() };
        let now = clock_ns(ClockId::Monotonic);
        process.store(&ProcessValues {
            head: head(Type::Process, Process::LENGTH),
            pid: image.pid.into(),
            started_realtime_ns: clock_ns(ClockId::Realtime),
            clock_first_ticks: recording.ticks_at(now),
            clock_first_ns: now,
            attached: 1,
            ..ProcessValues::default()
        });
        block.push_bytes(Type::Arguments, &[image.arguments]);
        block.push_bytes(Type::Executable, &[image.executable]);
        Ok(Self {
            recording,
            number,
            shown_as: image.is_shown.then_some(image.pid),
            process,
            block: None,
            locks: HashMap::new(),
            threads: HashMap::new(),
            histograms: HashMap::new(),
            sites: HashSet::new(),
            holders: HashMap::new(),
        })
    }

    /// Notes which files are mapped: lines of `/proc/PID/maps`, and by the address at which each file starts its build identifier.
    pub fn note_mappings(&mut self, lines: &[u8], build_ids: &[(u64, Vec<u8>)]) {
        let ids = build_ids.iter().filter_map(|(start, id)| {
            let length = u8::try_from(id.len()).ok()?;
            Some([&start.to_le_bytes()[..], &[length], id].concat())
        });
        let ids: Vec<u8> = ids.flatten().collect();
        for (what, bytes) in [(Type::Mappings, lines), (Type::BuildIds, &ids)] {
            match self.recording.allocate(Need::Detail, self.number, bytes.len() + 8) {
                Some(block) => drop(block.push_bytes(what, &[bytes])),
                None => self.note_dropped(),
            }
        }
    }

    /// Counts a wait that is over.
    pub fn count(&mut self, wait: &AttachedWait<'_>) {
        if self.try_count(wait).is_none() {
            self.note_dropped();
        }
        if wait.frames.is_empty() {
            add(&self.process.without_callers, 1);
        }
    }

    fn try_count(&mut self, wait: &AttachedWait<'_>) -> Option<()> {
        let lock = self.lock(wait)?;
        let key = key_of(lock, if wait.shared { Mode::Shared } else { Mode::Exclusive });
        let pair = self.pair(wait.tid, key)?.record;
        let ticks = self.recording.ticks_in(wait.duration_ns);
        if !wait.kind.is_lock() {
            add(&pair.condition_waits, 1);
            add(&pair.condition_timeouts, wait.timed_out.into());
            add(&pair.condition_ticks, ticks);
        } else if wait.timed_out {
            add(&pair.timeouts, 1);
        } else {
            add(&pair.contended, 1);
            add(&pair.wait_ticks, ticks);
            self.count_by_caller(wait, key, ticks);
            self.note_site(lock, wait.frames, wait.caller);
            for behind in wait.behind {
                self.note_site(lock, behind.frames, behind.caller);
            }
            // Without space for a distribution the wait is counted all the same.
            if let Some(histograms) = self.histograms(key, pair) {
                add(&histograms.buckets[Quantity::Wait as usize][bucket(ticks)], 1);
            }
        }
        Some(())
    }

    /// Without space for it the wait is counted all the same.
    fn count_by_caller(&mut self, wait: &AttachedWait<'_>, key: u64, ticks: u64) -> Option<()> {
        let PairOfSection { record, by_caller } = *self.pair(wait.tid, key).filter(|_| wait.caller != 0)?;
        let by_caller = match by_caller {
            Some(known) => known,
            None => self.new_by_caller(wait.tid, key, record)?,
        };
        let slot = place_of(record.callers(), wait.caller).0.checked_sub(1)?;
        add(&by_caller.waits[slot], 1);
        add(&by_caller.wait_ticks[slot], ticks);
        for behind in wait.behind.iter().filter(|behind| behind.caller != 0) {
            if let Some(slot) = place_of(&by_caller.behind, behind.caller).0.checked_sub(1) {
                add(&by_caller.behind_ticks[slot], self.recording.ticks_in(behind.duration_ns));
            }
        }
        Some(())
    }

    fn new_by_caller(&mut self, tid: u32, key: u64, pair: &'r Pair) -> Option<&'r ByCaller> {
        let start = self.take(ByCaller::LENGTH)?;
        // SAFETY: as in `new_lock`.
        let by_caller = unsafe { &*start.cast::<ByCaller>() };
        by_caller.pair.store(self.recording.arena.position_of(pair), Relaxed);
        by_caller.head.store(head(Type::ByCaller, ByCaller::LENGTH), Ordering::Release);
        pair.by_caller.store(self.recording.arena.position_of(by_caller), Relaxed);
        self.pair(tid, key)?.by_caller = Some(by_caller);
        Some(by_caller)
    }

    /// Notes the stack of a wait or a release if it is a new one, from the caller outwards.
    fn note_site(&mut self, lock: u32, frames: &[u64], caller: u64) -> Option<()> {
        let depth = frames.iter().position(|&frame| frame == caller)?;
        let frames = &frames[depth..];
        let frames = &frames[..frames.len().min(FRAMES)];
        let key = (lock, frames.into());
        if self.sites.len() >= MOST_SITES || self.sites.contains(&key) {
            return None;
        }
        let start = self.take(LOCK_LENGTH)?;
        // SAFETY: as in `new_lock`.
        let (record, stack) =
            unsafe { (&*start.cast::<Site>(), &*start.add(Site::LENGTH).cast::<[AtomicU64; FRAMES]>()) };
        record.lock.store(lock.into(), Relaxed);
        record.frames.store(frames.len() as u64, Relaxed);
        for (word, &frame) in stack.iter().zip(frames) {
            word.store(frame, Relaxed);
        }
        record.head.store(head(Type::Site, LOCK_LENGTH), Ordering::Release);
        self.sites.insert(key);
        Some(())
    }

    /// Counts a join that is over.
    pub fn count_join(&mut self, tid: u32, duration_ns: u64) {
        let ticks = self.recording.ticks_in(duration_ns);
        match self.thread(tid) {
            Some(thread) => add(&thread.record.join_ticks, ticks),
            None => self.note_dropped(),
        }
    }

    /// The number of the lock that is waited for. The smallest of the stacks that wait names it, since that is the same one
    /// whichever comes first.
    pub fn lock(&mut self, wait: &AttachedWait<'_>) -> Option<u32> {
        let known = (wait.address, wait.kind);
        if !self.locks.contains_key(&known) {
            let lock = self.new_lock(wait)?;
            self.locks.insert(known, lock);
        }
        let lock = &self.locks[&known];
        let frames = &wait.frames[..wait.frames.len().min(FRAMES)];
        let depth = lock.record.frames.load(Relaxed) as usize;
        let present = lock.stack.iter().take(depth).map(|word| word.load(Relaxed));
        if !frames.is_empty() && (depth == 0 || frames.iter().copied().lt(present)) {
            for (word, &frame) in lock.stack.iter().zip(frames) {
                word.store(frame, Relaxed);
            }
            lock.record.frames.store(frames.len() as u64, Relaxed);
        }
        Some(lock.number)
    }

    fn new_lock(&mut self, wait: &AttachedWait<'_>) -> Option<LockOfSection<'r>> {
        let start = self.take(LOCK_LENGTH)?;
        // SAFETY: `take` gave this many zeroed bytes, aligned to words, in a mapping that lives as long as the recording.
        let (record, stack) =
            unsafe { (&*start.cast::<Lock>(), &*start.add(Lock::LENGTH).cast::<[AtomicU64; FRAMES]>()) };
        record.address.store(wait.address, Relaxed);
        record.kind.store(wait.kind.number().into(), Relaxed);
        record.head.store(head(Type::Lock, LOCK_LENGTH), Ordering::Release);
        let number = u32::try_from(self.recording.arena.position_of(record)).ok()?;
        Some(LockOfSection { number, record, stack })
    }

    /// Notes that a thread held a lock while others waited for it.
    pub fn note_holder(&mut self, lock: u32, tid: u32) {
        let holder = match self.holders.get(&(lock, tid)) {
            Some(known) => Some(*known),
            None => self.new_holder(lock, tid),
        };
        if let Some(holder) = holder {
            add(&holder.looks, 1);
        }
    }

    fn new_holder(&mut self, lock: u32, tid: u32) -> Option<&'r Holder> {
        let start = self.take(Holder::LENGTH)?;
        // SAFETY: as in `new_lock`.
        let record = unsafe { &*start.cast::<Holder>() };
        let [first, second] = self.name_of(tid);
        record.lock.store(lock.into(), Relaxed);
        record.tid.store(tid.into(), Relaxed);
        record.name_0.store(first, Relaxed);
        record.name_1.store(second, Relaxed);
        record.head.store(head(Type::Holder, Holder::LENGTH), Ordering::Release);
        self.holders.insert((lock, tid), record);
        Some(record)
    }

    /// Ends the section. `lost_events` found no space in buffers.
    pub fn finish(self, lost_events: u64) {
        let now = clock_ns(ClockId::Monotonic);
        self.process.lost_events.store(lost_events, Relaxed);
        self.process.clock_last_ticks.store(self.recording.ticks_at(now), Relaxed);
        self.process.clock_last_ns.store(now, Relaxed);
    }

    fn pair(&mut self, tid: u32, key: u64) -> Option<&mut PairOfSection<'r>> {
        let thread = self.thread(tid)?;
        if !thread.pairs.contains_key(&key) {
            let record = self.new_pair(tid, key)?;
            self.thread(tid)?.pairs.insert(key, PairOfSection { record, by_caller: None });
        }
        self.thread(tid)?.pairs.get_mut(&key)
    }

    fn new_pair(&mut self, tid: u32, key: u64) -> Option<&'r Pair> {
        let (recording, number) = (self.recording, self.number);
        let thread = self.thread(tid)?;
        let start = thread.block.take(Pair::LENGTH).or_else(|| {
            thread.block = recording.allocate(Need::Detail, number, THREAD_BLOCK)?;
            thread.block.header().thread.store(thread.position, Relaxed);
            thread.block.take(Pair::LENGTH)
        })?;
        // SAFETY: as in `new_lock`.
        let pair = unsafe { &*start.cast::<Pair>() };
        pair.key.store(key, Relaxed);
        pair.head.store(head(Type::Pair, Pair::LENGTH), Ordering::Release);
        Some(pair)
    }

    /// The distributions of all pairs with this key; the first pair of them has them.
    fn histograms(&mut self, key: u64, pair: &Pair) -> Option<&'r Histograms> {
        if let Some(known) = self.histograms.get(&key) {
            return Some(known);
        }
        let start = self.take(size_of::<Histograms>())?;
        // SAFETY: as in `new_lock`.
        let histograms = unsafe { &*start.cast::<Histograms>() };
        histograms.pair.store(self.recording.arena.position_of(pair), Relaxed);
        histograms.head.store(head(Type::Histograms, size_of::<Histograms>()), Ordering::Release);
        pair.histograms.store(self.recording.arena.position_of(histograms), Relaxed);
        self.histograms.insert(key, histograms);
        Some(histograms)
    }

    fn thread(&mut self, tid: u32) -> Option<&mut ThreadOfSection<'r>> {
        if !self.threads.contains_key(&tid) {
            let thread = self.new_thread(tid)?;
            self.threads.insert(tid, thread);
        }
        self.threads.get_mut(&tid)
    }

    fn new_thread(&self, tid: u32) -> Option<ThreadOfSection<'r>> {
        let block = self.recording.allocate(Need::Detail, self.number, THREAD_BLOCK)?;
        let start = block.take(Thread::LENGTH)?;
        // SAFETY: as in `new_lock`.
        let record = unsafe { &*start.cast::<Thread>() };
        let position = self.recording.arena.position_of(record);
        block.header().thread.store(position, Relaxed);
        let [first, second] = self.name_of(tid);
        record.tid.store(tid.into(), Relaxed);
        record.lives.store(1, Relaxed);
        record.started_ns.store(self.process.clock_first_ns.load(Relaxed), Relaxed);
        record.name_0.store(first, Relaxed);
        record.name_1.store(second, Relaxed);
        record.head.store(head(Type::Thread, Thread::LENGTH), Ordering::Release);
        add(&self.process.threads, 1);
        Some(ThreadOfSection { record, position, block, pairs: HashMap::new() })
    }

    /// A thread's name in two halves; zeros once it has ended, and where it is not shown.
    fn name_of(&self, tid: u32) -> [u64; 2] {
        let read = |pid| std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok();
        let name = self.shown_as.and_then(read).unwrap_or_default();
        let mut halves = [0; 16];
        name.iter().take_while(|&&byte| byte != b'\n').zip(&mut halves).for_each(|(byte, to)| *to = *byte);
        let half = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| halves[i * 8 + k]));
        [half(0), half(1)]
    }

    /// Space for a record, zeroed.
    fn take(&mut self, length: usize) -> Option<*mut u8> {
        if let Some(start) = self.block.as_ref().and_then(|block| block.take(length)) {
            return Some(start);
        }
        let block = self.recording.allocate(Need::Detail, self.number, LOCK_BLOCK)?;
        self.block.insert(block).take(length)
    }

    fn note_dropped(&self) {
        if let Some(header) = self.recording.arena.header() {
            add(&header.dropped, 1);
        }
    }
}
