//! What happened between two looks at a recording, as a profile of its own.
//!
//! A recording only grows, and the counts in it too; so what a later look has more than an earlier one happened in between. Records
//! lie where they lay, and a thread's record of a lock is the same one as long as its key is. What is in a file that programs write to
//! may be anything: nothing is believed that a check can refute.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read as _};
use std::mem::offset_of;
use std::os::unix::fs::FileExt as _;

use super::Recording;
use crate::format::{
    BLOCK_MARK, BlockHeader, BlockHeaderValues, ByCaller, ByStack, CALLERS, Header, HeaderValues, Histograms,
    LOCK_LENGTH, NOTE_SHIFT, NOTED, PAGE, Pair, Process, QUANTITIES, Run, RunValues, Task, TaskValues,
    Thread, Type, UNIT, counted_in_bucket, head, split_head, word,
};
use crate::histogram::{BUCKETS, bucket};
use crate::record::MERGED;
use flate2::Compression;
use flate2::read::{DeflateDecoder, DeflateEncoder};

/// A recording as it was at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    bytes: Vec<u8>,
    records: Vec<Record>,
}

/// A look that is kept until the next one: packed, since a recording is mostly zeros, and large.
#[derive(Clone, Debug)]
pub struct PackedLook(Vec<u8>);

impl PackedLook {
    /// The look that it was.
    ///
    /// # Panics
    /// Where there is no memory for it.
    #[must_use]
    pub fn unpacked(&self) -> Look {
        let mut bytes = Vec::new();
        DeflateDecoder::new(&*self.0).read_to_end(&mut bytes).expect("packed by this process");
        bytes.shrink_to_fit();
        Look::of(bytes)
    }
}

/// Where the words of a [`Process`] lie that count what happens. How many locks were merged, and how many objects are left to the C
/// library, is no such count: these locks are missing in every later interval, too.
const COUNTED_IN_PROCESS: [usize; 5] = [
    offset_of!(Process, merged_pairs),
    offset_of!(Process, lost_events),
    offset_of!(Process, without_callers),
    offset_of!(Process, waits_missed),
    offset_of!(Process, records_ticks),
];

/// Words of records in one block of an interval's own: readers refuse a block that is as long as no other writer makes one.
const WORDS_OF_BLOCK: usize = (1 << 17) - BlockHeader::LENGTH / 8;

/// Where a record is, and whose.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Its first byte.
    at: usize,
    what: u16,
    length: usize,
    section: u64,
    /// Position of the record of the thread that wrote it, or 0.
    thread: u64,
}

impl Record {
    fn is(&self, what: Type) -> bool {
        self.what == what as u16
    }

    /// Whether the record reaches so far.
    fn has(&self, end: usize) -> bool {
        self.length >= end
    }
}

/// What was counted up to a look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// Acquisitions.
    pub acquisitions: u64,
    /// Those whose holds were timed.
    pub timed: u64,
    /// What a pair with times costs where most are recorded, ns.
    pub timed_ns: f64,
    /// The same of a pair without times.
    pub untimed_ns: f64,
    /// What records of locks, and of what threads do with them, have cost, with the stacks that were walked for them, ns.
    pub records_ns: f64,
}

impl Counted {
    /// Of how many acquisitions one was timed; 1 where none was counted.
    pub fn period(&self) -> u32 {
        (self.acquisitions as f64 / self.timed.max(1) as f64).round().max(1.0) as u32
    }

    fn since(self, earlier: Self) -> Self {
        let acquisitions = self.acquisitions.saturating_sub(earlier.acquisitions);
        Self { acquisitions, timed: self.timed.saturating_sub(earlier.timed), ..self }
    }
}

impl Recording {
    /// What is in the file now.
    ///
    /// # Errors
    /// What the system says.
    pub fn look(&self) -> io::Result<Look> {
        self.note_time();
        let header = self.arena.header().ok_or(io::ErrorKind::UnexpectedEof)?;
        let exist = self.file.metadata()?.len().min(self.arena.limit());
        let length = header.allocated.load(std::sync::atomic::Ordering::Relaxed).clamp(PAGE, exist.max(PAGE));
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(Look::of(bytes))
    }
}

impl Look {
    /// What is in the bytes of a profile.
    pub fn of(bytes: Vec<u8>) -> Self {
        let records = records(&bytes);
        Self { bytes, records }
    }

    /// The look, packed, which takes some tenths of a second for a long recording.
    ///
    /// # Panics
    /// Where there is no memory for it.
    #[must_use]
    pub fn packed(&self) -> PackedLook {
        let mut packed = Vec::new();
        DeflateEncoder::new(&*self.bytes, Compression::fast())
            .read_to_end(&mut packed)
            .expect("read from memory");
        PackedLook(packed)
    }

    fn header(&self) -> HeaderValues {
        HeaderValues::decode(&self.bytes[..self.bytes.len().min(PAGE as usize)])
    }

    fn word(&self, at: usize) -> u64 {
        word(&self.bytes, at)
    }

    fn put(&mut self, at: usize, value: u64) {
        if let Some(place) = self.bytes.get_mut(at..at.saturating_add(8)) {
            place.copy_from_slice(&value.to_le_bytes());
        }
    }

    fn at_most(&mut self, at: usize, most: u64) {
        self.put(at, self.word(at).min(most));
    }

    fn at_least(&mut self, at: usize, least: u64) {
        self.put(at, self.word(at).max(least));
    }

    fn less(&mut self, at: usize, before: u64) {
        self.put(at, self.word(at).saturating_sub(before));
    }

    /// The key of the pair whose record begins there; 0 where none does.
    fn key(&self, at: usize) -> u64 {
        let (what, _) = split_head(self.word(at));
        if what == Type::Pair as u16 { self.word(at.saturating_add(offset_of!(Pair, key))) } else { 0 }
    }

    /// The sections of waits that are watched from outside.
    fn watched(&self, records: &[Record]) -> HashSet<u64> {
        let is_watched = |process: &&Record| self.word(process.at + offset_of!(Process, attached)) != 0;
        let processes = records.iter().filter(|record| record.is(Type::Process));
        processes.filter(is_watched).map(|process| process.section).collect()
    }

    /// What was counted so far, in all processes.
    pub fn counted(&self) -> Counted {
        let mut sum = Counted::default();
        // Of waits that are watched from outside there is no acquisition, timed or not.
        let watched = self.watched(&self.records);
        let pairs = self.records.iter().filter(|record| record.is(Type::Pair));
        for pair in pairs.filter(|pair| !watched.contains(&pair.section)) {
            let of = |field| self.word(pair.at + field);
            // What takes the lock back after a condition wait is drawn, and timed, like every other acquisition.
            let acquisitions =
                of(offset_of!(Pair, acquisitions)).saturating_add(of(offset_of!(Pair, condition_waits)));
            sum.acquisitions = sum.acquisitions.saturating_add(acquisitions);
            let timed =
                of(offset_of!(Pair, hold_same_count)).saturating_add(of(offset_of!(Pair, hold_other_count)));
            sum.timed = sum.timed.saturating_add(timed);
        }
        let header = self.header();
        let (ticks, ns) = (
            header.clock_last_ticks.saturating_sub(header.clock_first_ticks),
            header.clock_last_ns.saturating_sub(header.clock_first_ns),
        );
        let ns_per_tick = if ticks > 0 { ns as f64 / ticks as f64 } else { 1.0 };
        for process in self.records.iter().filter(|record| record.is(Type::Process)) {
            let ns = |field| self.word(process.at + field) as f64 / 1024.0 * ns_per_tick;
            sum.timed_ns = sum.timed_ns.max(ns(offset_of!(Process, cost_timed)));
            sum.untimed_ns = sum.untimed_ns.max(ns(offset_of!(Process, cost_untimed)));
            sum.records_ns += self.word(process.at + offset_of!(Process, records_ticks)) as f64 * ns_per_tick;
        }
        sum
    }

    /// The bytes of a profile of what happened since `before`, an earlier look at the same recording, and of what the launcher saw:
    /// `run`, what each thread did since then, and what each had done until then.
    #[must_use]
    pub fn since(
        mut self,
        before: &Self,
        run: &RunValues,
        tasks: &[TaskValues],
        tasks_before: &[TaskValues],
    ) -> Vec<u8> {
        let then = before.header();
        let (now, earlier) = (self.counted(), before.counted());
        let records = std::mem::take(&mut self.records);
        let ran_before: HashMap<(u64, u64), &TaskValues> =
            tasks_before.iter().map(|task| ((task.pid, task.tid), task)).collect();
        let of = |what: Type| records.iter().filter(move |record| record.is(what));
        let mut pids = HashMap::new();
        for process in of(Type::Process) {
            pids.insert(process.section, self.word(process.at + offset_of!(Process, pid)));
            self.at_least(process.at + offset_of!(Process, clock_first_ticks), then.clock_last_ticks);
            self.at_least(process.at + offset_of!(Process, clock_first_ns), then.clock_last_ns);
        }
        // Whether a pair is the same one is told by its record, so what belongs to pairs comes before they are changed.
        let mut distributions: Vec<_> = of(Type::Histograms)
            .filter(|record| record.has(size_of::<Histograms>()))
            .map(|record| {
                let words = self.distributions_since(before, record);
                ((record.section, self.key(place_of(words[1]))), words)
            })
            .collect();
        for record in of(Type::ByCaller).filter(|record| record.has(ByCaller::LENGTH)) {
            self.callers_since(before, record);
        }
        for record in of(Type::ByStack).filter(|record| record.has(ByStack::LENGTH)) {
            for at in ByStack::SUMS.map(|field| record.at + field) {
                self.less(at, before.word(at));
            }
        }
        let used = self.pairs_since(before, &records);
        self.conditions_since(before, &records);
        self.waits_since(before, &records);
        for record in of(Type::ByCaller) {
            let pair = self.word(record.at + offset_of!(ByCaller, pair));
            if self.key(place_of(pair)) == 0 {
                self.leave_out(record);
            }
        }
        for record in of(Type::Histograms) {
            self.leave_out(record);
        }
        self.hand_on(&records, &mut distributions);
        let distributions: Vec<Vec<u64>> = distributions
            .into_iter()
            .filter_map(|(_, words)| (self.key(place_of(words[1])) != 0).then_some(words))
            .collect();
        for thread in of(Type::Thread).filter(|record| record.has(offset_of!(Thread, join_ticks) + 8)) {
            let pid = pids.get(&thread.section).copied().unwrap_or_default();
            let who = (pid, self.word(thread.at + offset_of!(Thread, tid)));
            self.thread_since(before, thread, ran_before.get(&who).copied());
        }
        self.processes_since(before, &records, &used);
        self.header_since(before, now.since(earlier));
        self.tidy(&ended_before(&records, before));
        self.append(run, tasks, distributions);
        self.bytes
    }

    /// Where waits are watched from outside, the first pair of a lock has the distributions of all of its pairs. If nothing happened with
    /// that one, another one has them. Each comes with its section and with the key of the pair that it was of.
    fn hand_on(&self, records: &[Record], distributions: &mut [((u64, u64), Vec<u64>)]) {
        let watched = self.watched(records);
        let pairs = records.iter().filter(|record| record.is(Type::Pair));
        let pairs = pairs.filter(|pair| watched.contains(&pair.section));
        let left: HashMap<(u64, u64), u64> =
            pairs.map(|pair| ((pair.section, self.key(pair.at)), pair.at as u64 / UNIT)).collect();
        for ((section, key), words) in distributions {
            if self.key(place_of(words[1])) == 0
                && let Some(&pair) = left.get(&(*section, *key))
            {
                words[1] = pair;
            }
        }
    }

    /// Takes the counts of an earlier look out of processes, whose threads are those that `used` a lock since then.
    fn processes_since(&mut self, before: &Self, records: &[Record], used: &HashSet<(u64, u64)>) {
        let header = self.header();
        for process in records.iter().filter(|record| record.is(Type::Process)) {
            let threads = used.iter().filter(|(section, _)| *section == process.section).count() as u64;
            self.put(process.at + offset_of!(Process, threads), threads);
            self.put(process.at + offset_of!(Process, only_joined), 0);
            if before.word(process.at) != 0 {
                for at in COUNTED_IN_PROCESS.map(|field| process.at + field) {
                    self.less(at, before.word(at));
                }
            }
            // One that runs on is not one that was killed.
            if self.word(process.at + offset_of!(Process, clock_last_ns)) == 0 {
                self.put(process.at + offset_of!(Process, clock_last_ticks), header.clock_last_ticks);
                self.put(process.at + offset_of!(Process, clock_last_ns), header.clock_last_ns);
            }
        }
    }

    /// Has the header begin at an earlier look; `counted` is what was counted since then.
    fn header_since(&mut self, before: &Self, counted: Counted) {
        let (header, then) = (self.header(), before.header());
        // Where nothing was timed, the rate that was asked for stands.
        let period = if counted.timed == 0 { header.sample_period } else { u64::from(counted.period()) };
        let passed = then.clock_last_ns.saturating_sub(header.clock_first_ns);
        for (field, value) in [
            (offset_of!(Header, clock_first_ticks), then.clock_last_ticks),
            (offset_of!(Header, clock_first_ns), then.clock_last_ns),
            (offset_of!(Header, started_realtime_ns), header.started_realtime_ns.saturating_add(passed)),
            (offset_of!(Header, dropped), header.dropped.saturating_sub(then.dropped)),
            (offset_of!(Header, unrecorded), header.unrecorded.saturating_sub(then.unrecorded)),
            (offset_of!(Header, sample_period), period.max(1)),
        ] {
            self.put(field, value);
        }
    }

    /// Takes the counts of an earlier look out of pairs; those with which nothing happened are no pairs any more. Returns the threads
    /// with which something did, with their sections.
    fn pairs_since(&mut self, before: &Self, records: &[Record]) -> HashSet<(u64, u64)> {
        let pairs = || records.iter().filter(|record| record.is(Type::Pair) && record.has(Pair::LENGTH));
        // What was counted of a pair whose record is another one's now has gone to its thread's row of merged locks.
        let mut merged: HashMap<(u64, u64), Vec<usize>> = HashMap::new();
        for pair in pairs() {
            let (key, earlier) = (self.key(pair.at), before.key(pair.at));
            if key == earlier {
                for field in Pair::COUNTS {
                    self.less(pair.at + field, before.word(pair.at + field));
                }
            } else if earlier != 0 {
                merged.entry((pair.thread, earlier & 1)).or_default().push(pair.at);
            }
        }
        let mut used = HashSet::new();
        for pair in pairs() {
            let key = self.key(pair.at);
            if key >> 1 == u64::from(MERGED) {
                for &at in merged.get(&(pair.thread, key & 1)).into_iter().flatten() {
                    for field in Pair::COUNTS {
                        self.less(pair.at + field, before.word(at + field));
                    }
                }
            }
            // A hold counts in the interval in which it ends.
            self.put(pair.at + offset_of!(Pair, hold_started), 0);
            self.put(pair.at + offset_of!(Pair, state), 0);
            if Pair::COUNTS.iter().any(|field| self.word(pair.at + field) > 0) {
                used.insert((pair.section, pair.thread));
            } else {
                self.leave_out(pair);
            }
        }
        used
    }

    /// Takes what a condition wait lasted before the earlier look off its pair, to which all of it was added at its end. The wait was
    /// with the lock that has the longest of the thread.
    fn conditions_since(&mut self, before: &Self, records: &[Record]) {
        let (since, ticks) = (offset_of!(Thread, waiting_since), offset_of!(Pair, condition_ticks));
        let then = before.header().clock_last_ticks;
        let mut waited: HashMap<u64, u64> = HashMap::new();
        for thread in records.iter().filter(|record| record.is(Type::Thread) && record.has(since + 8)) {
            let began = if before.word(thread.at) == 0 { 0 } else { before.word(thread.at + since) };
            // One that goes on is in no count yet.
            if began != 0 && began != self.word(thread.at + since) {
                waited.insert(thread.at as u64 / UNIT, then.saturating_sub(began));
            }
        }
        if waited.is_empty() {
            return;
        }
        let mut longest: HashMap<u64, usize> = HashMap::new();
        for pair in records.iter().filter(|record| record.is(Type::Pair) && record.has(Pair::LENGTH)) {
            if waited.contains_key(&pair.thread) {
                let longest = longest.entry(pair.thread).or_insert(pair.at);
                if self.word(pair.at + ticks) > self.word(*longest + ticks) {
                    *longest = pair.at;
                }
            }
        }
        for (thread, pair) in longest {
            let early = waited[&thread];
            // A wait that was cancelled is in no count.
            if self.word(pair + ticks) >= early {
                self.less(pair + ticks, early);
            }
        }
    }

    /// Takes what a wait for a lock lasted before the earlier look off its pair and its call site, to which all of it was added at its end.
    fn waits_since(&mut self, before: &Self, records: &[Record]) {
        let since = offset_of!(Thread, lock_waited_since);
        let then = before.header().clock_last_ticks;
        let mut waited: HashMap<(u64, u64), (u64, u64)> = HashMap::new();
        for thread in records.iter().filter(|record| record.is(Type::Thread) && record.has(Thread::LENGTH)) {
            let began = if before.word(thread.at) == 0 { 0 } else { before.word(thread.at + since) };
            // One that goes on is in no count yet.
            if began != 0 && began != self.word(thread.at + since) {
                let key = before.word(thread.at + offset_of!(Thread, lock_waited));
                let from = before.word(thread.at + offset_of!(Thread, lock_waited_from));
                waited.insert((thread.at as u64 / UNIT, key), (then.saturating_sub(began), from));
            }
        }
        let of_callers =
            records.iter().filter(|record| record.is(Type::ByCaller) && record.has(ByCaller::LENGTH));
        let of_callers =
            of_callers.map(|record| (place_of(self.word(record.at + offset_of!(ByCaller, pair))), record.at));
        let by_caller: HashMap<usize, usize> = of_callers.collect();
        for pair in records.iter().filter(|record| record.is(Type::Pair) && record.has(Pair::LENGTH)) {
            let Some(&(early, from)) = waited.get(&(pair.thread, self.key(pair.at))) else { continue };
            let ticks = pair.at + offset_of!(Pair, wait_ticks);
            // A wait that timed out is in no count.
            if self.word(pair.at + offset_of!(Pair, contended)) == 0 || self.word(ticks) < early {
                continue;
            }
            self.less(ticks, early);
            let caller = |slot: &usize| self.word(pair.at + offset_of!(Pair, caller_0) + slot * 8) == from;
            let of_site = by_caller.get(&pair.at).zip((0..CALLERS).find(caller));
            let of_site = of_site.map(|(at, slot)| at + offset_of!(ByCaller, wait_ticks) + slot * 8);
            if let Some(ticks) = of_site.filter(|&ticks| self.word(ticks) >= early) {
                self.less(ticks, early);
            }
        }
    }

    /// Whether the pair of a record that belongs to one was the same at the earlier look.
    fn is_of_same_pair(&self, before: &Self, record: &Record, field: usize) -> bool {
        let (pair, then) = (self.word(record.at + field), before.word(record.at + field));
        let key = self.key(place_of(pair));
        pair == then && key != 0 && key == before.key(place_of(pair))
    }

    /// What a pair's distributions have more than at the earlier look, as the words of a [`Type::Distributions`].
    fn distributions_since(&self, before: &Self, record: &Record) -> Vec<u64> {
        let mut counts = self.distributions(record.at);
        let mut within_count = self.word(record.at + offset_of!(Histograms, within_count));
        if self.is_of_same_pair(before, record, offset_of!(Histograms, pair)) {
            for (count, earlier) in counts.iter_mut().zip(before.distributions(record.at)) {
                *count = count.saturating_sub(earlier);
            }
            within_count =
                within_count.saturating_sub(before.word(record.at + offset_of!(Histograms, within_count)));
        }
        let [pair, within] = [offset_of!(Histograms, pair), offset_of!(Histograms, within)]
            .map(|field| self.word(record.at + field));
        let mut words = vec![0, pair, within, within_count];
        let counted = (0..).zip(counts).filter(|&(_, count)| count > 0);
        words.extend(counted.map(|(index, count)| counted_in_bucket(index, count)));
        words[0] = head(Type::Distributions, words.len() * 8);
        words
    }

    /// The counts of all buckets, with the values that are noted and not sorted in.
    fn distributions(&self, at: usize) -> Vec<u64> {
        let buckets = at + offset_of!(Histograms, buckets);
        let mut counts: Vec<u64> = (0..QUANTITIES * BUCKETS).map(|i| self.word(buckets + i * 8)).collect();
        let noted = self.word(at + offset_of!(Histograms, noted)).min(NOTED as u64) as usize;
        for i in 0..noted {
            let note = self.word(at + offset_of!(Histograms, notes) + i * 8);
            let quantity = note as usize % (1 << NOTE_SHIFT);
            if let Some(count) = counts.get_mut(quantity * BUCKETS + bucket(note >> NOTE_SHIFT)) {
                *count = count.saturating_add(1);
            }
        }
        counts
    }

    fn callers_since(&mut self, before: &Self, record: &Record) {
        if !self.is_of_same_pair(before, record, offset_of!(ByCaller, pair)) {
            return;
        }
        for array in ByCaller::SUMS {
            for at in (0..CALLERS).map(|slot| record.at + array + slot * 8) {
                self.less(at, before.word(at));
            }
        }
    }

    /// A thread's times since the earlier look, until which the launcher had seen it do `ran`.
    fn thread_since(&mut self, before: &Self, thread: &Record, ran: Option<&TaskValues>) {
        let then = before.header();
        let at = |field: usize| thread.at + field;
        let earlier =
            |field: usize| if before.word(thread.at) == 0 { 0 } else { before.word(thread.at + field) };
        let started = earlier(offset_of!(Thread, started_ns));
        let is_same_life = started != 0 && started == self.word(at(offset_of!(Thread, started_ns)));
        for field in [offset_of!(Thread, join_ticks), offset_of!(Thread, age_ns)] {
            self.less(at(field), earlier(field));
        }
        // At its beginning a thread takes off what it has run so far, and may be below zero until its end adds all.
        for field in [offset_of!(Thread, running_ns), offset_of!(Thread, queued_ns)] {
            self.put(at(field), self.word(at(field)).wrapping_sub(earlier(field)));
        }
        if is_same_life && earlier(offset_of!(Thread, ended_ns)) == 0 {
            self.less(at(offset_of!(Thread, age_ns)), then.clock_last_ns.saturating_sub(started));
            self.less(at(offset_of!(Thread, running_ns)), ran.map_or(0, |ran| ran.running_ns));
            self.less(at(offset_of!(Thread, queued_ns)), ran.map_or(0, |ran| ran.queued_ns));
        }
        let age = self.word(at(offset_of!(Thread, age_ns)));
        self.at_most(at(offset_of!(Thread, running_ns)), age);
        self.at_most(at(offset_of!(Thread, queued_ns)), age);
        self.at_least(at(offset_of!(Thread, started_ns)), then.clock_last_ns);
        let since = [
            offset_of!(Thread, waiting_since),
            offset_of!(Thread, joining_since),
            offset_of!(Thread, lock_waited_since),
        ];
        for since in since.into_iter().filter(|since| thread.has(since + 8)) {
            if self.word(at(since)) != 0 {
                self.at_least(at(since), then.clock_last_ticks);
            }
        }
    }

    fn leave_out(&mut self, record: &Record) {
        self.put(record.at, head(Type::Unused, record.length));
    }

    /// Makes one of records in a row that are left out, and zeros of what is in them, of blocks that have nothing else, and of those
    /// of sections that are over.
    fn tidy(&mut self, over: &HashSet<u64>) {
        let all: Vec<Part> = blocks(&self.bytes).collect();
        for block in all {
            let mut left_out: Vec<(usize, usize)> = Vec::new();
            let mut is_empty = true;
            for (at, what, length) in records_of(&self.bytes, block) {
                let end = at + length.next_multiple_of(8);
                match left_out.last_mut() {
                    _ if what != Type::Unused as u16 => is_empty = false,
                    Some((_, last)) if *last == at => *last = end,
                    _ => left_out.push((at, end)),
                }
            }
            if is_empty && !left_out.is_empty() || over.contains(&block.section) {
                self.bytes[block.at..block.at + block.length].fill(0);
                continue;
            }
            for (at, end) in left_out {
                let end = end.min(block.end);
                self.bytes[at..end].fill(0);
                self.put(at, head(Type::Unused, end - at));
            }
        }
    }

    /// Adds blocks of what the launcher saw, and of what belongs to pairs.
    fn append(&mut self, run: &RunValues, tasks: &[TaskValues], of_pairs: Vec<Vec<u64>>) {
        let of_task = |task: &TaskValues| {
            let task = TaskValues { head: head(Type::Task, Task::LENGTH), ..*task };
            task.words().to_vec()
        };
        let mut block = RunValues { head: head(Type::Run, Run::LENGTH), ..*run }.words().to_vec();
        for record in tasks.iter().map(of_task).chain(of_pairs) {
            if block.len() + record.len() > WORDS_OF_BLOCK {
                self.append_block(&block);
                block.clear();
            }
            block.extend(record);
        }
        self.append_block(&block);
        let end = self.bytes.len() as u64;
        self.put(offset_of!(Header, allocated), end);
        self.at_least(offset_of!(Header, grown), end);
        self.at_least(offset_of!(Header, limit), end);
    }

    fn append_block(&mut self, words: &[u64]) {
        let length = (BlockHeader::LENGTH + words.len() * 8).next_multiple_of(PAGE as usize);
        let block = self.bytes.len().next_multiple_of(PAGE as usize);
        self.bytes.resize(block + length, 0);
        self.put(block + offset_of!(BlockHeader, mark), u64::from(BLOCK_MARK) | (length as u64) << 32);
        self.put(block + offset_of!(BlockHeader, used), words.len() as u64 * 8);
        for (i, &value) in words.iter().enumerate() {
            self.put(block + BlockHeader::LENGTH + i * 8, value);
        }
    }
}

/// Where the record at this position begins.
fn place_of(position: u64) -> usize {
    usize::try_from(position.saturating_mul(UNIT)).unwrap_or(usize::MAX)
}

/// Sections of processes that had ended by an earlier look, but for those whose children may still use what they noted; for the
/// first, which says what the program is; and for those that run on unrecorded.
fn ended_before(records: &[Record], before: &Look) -> HashSet<u64> {
    let processes = || records.iter().filter(|record| record.is(Type::Process));
    let of = |process: &Record, field| before.word(process.at + field);
    let mut ended: HashSet<u64> = processes()
        .skip(1)
        .filter(|process| before.word(process.at) != 0)
        .filter(|process| of(process, offset_of!(Process, clock_last_ns)) != 0)
        .filter(|process| of(process, offset_of!(Process, gave_up_rights)) == 0)
        .map(|process| process.section)
        .collect();
    // Parents come before their children, and a section has one record.
    let all: Vec<_> = processes().collect();
    for process in all.into_iter().rev() {
        if !ended.contains(&process.section) {
            ended.remove(&of(process, offset_of!(Process, parent_section)));
        }
    }
    ended
}

/// A block of records.
#[derive(Clone, Copy)]
struct Part {
    at: usize,
    length: usize,
    /// Behind its last record.
    end: usize,
    section: u64,
    thread: u64,
}

fn blocks(bytes: &[u8]) -> impl Iterator<Item = Part> {
    let page = PAGE as usize;
    let mut at = page;
    std::iter::from_fn(move || {
        loop {
            let head = bytes.get(at..at + BlockHeader::LENGTH)?;
            let header = BlockHeaderValues::decode(head);
            let length = (header.mark >> 32) as usize;
            let is_block = header.mark as u32 == BLOCK_MARK && length > 0 && length.is_multiple_of(page);
            if !is_block || length > bytes.len() - at {
                at += page;
                continue;
            }
            let used = usize::try_from(header.used).unwrap_or(usize::MAX).min(length - BlockHeader::LENGTH);
            let end = at + BlockHeader::LENGTH + used;
            let block = Part { at, length, end, section: header.section, thread: header.thread };
            at += length;
            return Some(block);
        }
    })
}

/// The records of a block: where each is, its type, and its length.
fn records_of(bytes: &[u8], block: Part) -> impl Iterator<Item = (usize, u16, usize)> {
    let mut at = block.at + BlockHeader::LENGTH;
    std::iter::from_fn(move || {
        while at + 8 <= block.end {
            let (what, length) = split_head(word(bytes, at));
            let length = length as usize;
            if what == 0 && length == 0 {
                at += LOCK_LENGTH; // as the reader has it: taken, not written
                continue;
            }
            if length < 8 || length > block.end - at {
                return None;
            }
            let record = (at, what, length);
            at += length.next_multiple_of(8);
            return Some(record);
        }
        None
    })
}

/// The records of the types that tell of counts and times.
fn records(bytes: &[u8]) -> Vec<Record> {
    const TOLD: [Type; 6] =
        [Type::Process, Type::Thread, Type::Pair, Type::Histograms, Type::ByCaller, Type::ByStack];
    let of_block = |block: Part| {
        let told =
            records_of(bytes, block).filter(|(_, what, _)| TOLD.iter().any(|&told| told as u16 == *what));
        let whose = (block.section, block.thread);
        told.map(move |(at, what, length)| Record { at, what, length, section: whose.0, thread: whose.1 })
    };
    blocks(bytes).flat_map(of_block).collect()
}
