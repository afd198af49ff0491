//! Pairs of thread and lock: where their records come from, and where they go past the bound.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, Ordering::Relaxed};

use super::table::{Entry, Table};
use super::threads::ThreadPart;
use pthread::object::ObjectKind;

use super::{
    Call, Host, MERGED, Mode, PerThread, READ_HOLD, Recorder, Trace, UNTIMED, add, key_of, new_pair,
};
use crate::arena::{Block, Need};
use crate::format::{
    ByCaller, CALLERS, Header, Histograms, NOTE_SHIFT, NOTED, Pair, Quantity, Type, UNIT, head,
};
use crate::histogram::bucket;

/// Acquisitions after which a pair is considered for histograms, and again each time that it has done as many.
pub(super) const WARM: u64 = 256;
/// Records that are looked at for the coldest.
const CANDIDATES: usize = 16;
/// Bytes of a thread's second and later blocks.
const PAIR_BLOCK: usize = 16 << 10;

impl<H: Host> Recorder<H> {
    /// The caller's pair with a lock, made if need be; `None` when it cannot have one.
    pub(super) fn pair<'t>(
        &self,
        t: &'t PerThread,
        trace: &Trace,
        kind: ObjectKind,
        mode: Mode,
        call: Call,
    ) -> Option<&'t Pair> {
        if let Some(pair) = t.find(key_of(trace.lock(), mode)) {
            return Some(pair);
        }
        let started = H::stamp();
        let pair = self.without_reentry(t, || self.make_pair(t, trace, kind, mode, call)).flatten();
        self.count_own_cost(started);
        let pair = pair?;
        // SAFETY: pairs lie in the mapping, which stays.
        Some(unsafe { &*pair.as_ptr() })
    }

    #[cold]
    #[inline(never)]
    fn make_pair(
        &self,
        t: &PerThread,
        trace: &Trace,
        kind: ObjectKind,
        mode: Mode,
        call: Call,
    ) -> Option<NonNull<Pair>> {
        if t.slot.get().is_null() && !self.enter(t) {
            return None;
        }
        self.touches_a_lock(t);
        let mut lock = trace.lock();
        if lock == 0 {
            lock = self.register(trace, kind, call);
        } else {
            self.add_site(lock);
        }
        if let Some(pair) = t.find(key_of(lock, mode)) {
            return Some(pair.into()); // merged locks share a pair
        }
        self.insert(t, key_of(lock, mode)).or_else(|| t.find(key_of(MERGED, mode)).map(NonNull::from))
    }

    // What is rare is not inlined, so that its frames do not add up: the thread may have the smallest stack there is.
    #[inline(never)]
    fn insert(&self, t: &PerThread, key: u64) -> Option<NonNull<Pair>> {
        // SAFETY: the thread's own slot.
        let slot = unsafe { &mut *t.slot.get() };
        if slot.table.full() && !self.grow_table(t, slot) {
            return self.reuse_coldest(slot, key);
        }
        let Some(pair) = self.room_for_pair(slot, key) else { return self.reuse_coldest(slot, key) };
        slot.table.put(key, pair.as_ptr());
        Some(pair)
    }

    #[inline(never)]
    fn room_for_pair(&self, slot: &mut ThreadPart, key: u64) -> Option<NonNull<Pair>> {
        self.room_in(slot, |block| new_pair(block, key))
    }

    /// What `take` takes from the thread's block, or else from a new one.
    pub(super) fn room_in<T>(&self, slot: &mut ThreadPart, take: impl Fn(&Block) -> Option<T>) -> Option<T> {
        if let Some(taken) = take(&slot.block) {
            return Some(taken);
        }
        // SAFETY: the slot's record lies in the mapping.
        let thread = self.arena.position_of(unsafe { &*slot.thread });
        slot.block = self.arena.allocate(
            &self.host,
            Need::Detail,
            self.section_number(),
            thread,
            PAIR_BLOCK - UNIT as usize,
        )?;
        take(&slot.block)
    }

    #[cold]
    #[inline(never)]
    fn grow_table(&self, t: &PerThread, slot: &mut ThreadPart) -> bool {
        let old = slot.table;
        let length = old.length() * 2;
        let lines = self.host.zeroed(length * size_of::<Entry>()).cast::<Entry>();
        if lines.is_null() {
            return false;
        }
        // SAFETY: fresh zeroed memory of twice a power of two.
        slot.table = unsafe { Table::over(lines, length) };
        for entry in (0..old.length()).map(|i| old.line(i)).filter(|entry| entry.key != 0) {
            slot.table.put(entry.key, entry.pair);
        }
        t.use_table(&slot.table);
        // The old one stays: this may be a signal handler, which has interrupted a search in it. All the old ones of a
        // thread together are no longer than its table.
        true
    }

    /// Past the bound: adds one of the thread's coldest records to its row of merged locks and uses it for `key`.
    #[cold]
    #[inline(never)]
    fn reuse_coldest(&self, slot: &mut ThreadPart, key: u64) -> Option<NonNull<Pair>> {
        let mut coldest: Option<(u64, NonNull<Pair>, u64)> = None;
        let mut seen = 0;
        for _ in 0..slot.table.length() {
            slot.hand = (slot.hand + 1) % slot.table.length();
            let entry = slot.table.line(slot.hand);
            let Some(pair) = NonNull::new(entry.pair.cast_mut()) else { continue };
            // SAFETY: pairs lie in the mapping.
            let values = unsafe { pair.as_ref() }.values();
            if entry.key >> 1 == u64::from(MERGED) || values.hold_started != 0 || values.state >= READ_HOLD {
                continue;
            }
            if coldest.is_none_or(|(acquisitions, ..)| values.acquisitions < acquisitions) {
                coldest = Some((values.acquisitions, pair, entry.key));
            }
            seen += 1;
            if seen == CANDIDATES {
                break;
            }
        }
        let (_, pair, old_key) = coldest?;
        let mode = if old_key & 1 == 0 { Mode::Exclusive } else { Mode::Shared };
        let merged = slot.table.find(key_of(MERGED, mode))?;
        // SAFETY: both lie in the mapping and belong to this thread.
        let (pair_ref, merged) = unsafe { (pair.as_ref(), &*merged) };
        self.merge(pair_ref, merged);
        slot.table.remove(old_key);
        pair_ref.key.store(key, Relaxed);
        slot.table.put(key, pair.as_ptr());
        if let Some(process) = self.process() {
            process.merged_pairs.fetch_add(1, Relaxed);
        }
        Some(pair)
    }

    /// Adds the counts of `from` to `into` and makes `from` a new record, except for its key.
    #[inline(never)]
    fn merge(&self, from: &Pair, into: &Pair) {
        for (from, into) in from.counts().zip(into.counts()) {
            add(into, from.load(Relaxed));
            from.store(0, Relaxed);
        }
        let words = [&from.hold_started, &from.released, &from.state];
        for word in words.into_iter().chain(from.callers()) {
            word.store(0, Relaxed);
        }
        for word in self.by_caller(from).into_iter().flat_map(ByCaller::counts) {
            word.store(0, Relaxed);
        }
        if let Some(histograms) = self.histograms(from) {
            let counts =
                [&histograms.noted, &histograms.within, &histograms.within_count, &histograms.within_votes];
            for word in counts.into_iter().chain(histograms.buckets.iter().flatten()) {
                word.store(0, Relaxed);
            }
        }
    }

    #[inline]
    pub(super) fn histograms(&self, pair: &Pair) -> Option<&Histograms> {
        let position = pair.histograms.load(Relaxed);
        if position == 0 {
            return None;
        }
        let start = self.arena.at(position, size_of::<Histograms>())?;
        // SAFETY: inside the file, where all words are atomic, and aligned as positions are. It is the record that was given to
        // this pair alone, unless a process has forged the profile.
        Some(unsafe { &*start.cast::<Histograms>() })
    }

    /// Looks for the caller among those that the pair remembers, and notes the stack of a new one. Returns its place among them,
    /// from 1. Past the bound nothing is new, and the place is 0.
    #[cold]
    #[inline(never)]
    pub(super) fn called_from(&self, t: &PerThread, pair: &Pair, caller: u64) -> usize {
        let (place, new) = place_of(pair.callers(), caller);
        if new {
            self.record_site(t, (pair.key.load(Relaxed) >> 1) as u32);
        }
        place
    }

    /// What is done at every [`WARM`]th acquisition of a pair. Where lock calls come from a wrapper the caller says nothing, so
    /// that the stacks of some more are noted, ever fewer.
    #[cold]
    #[inline(never)]
    pub(super) fn now_and_then(&self, t: &PerThread, pair: &Pair, acquisitions: u64) {
        self.warm_up(pair, acquisitions);
        if (acquisitions / WARM).is_power_of_two() {
            self.record_site(t, (pair.key.load(Relaxed) >> 1) as u32);
        }
    }

    /// Considers a pair for histograms. The more space they have taken, the more acquisitions it needs.
    #[cold]
    #[inline(never)]
    pub(super) fn warm_up(&self, pair: &Pair, acquisitions: u64) {
        let Some(header) = self.arena.header() else { return };
        if pair.histograms.load(Relaxed) != 0 || pair.state.load(Relaxed) & UNTIMED != 0 {
            return;
        }
        let budget = self.arena.limit() / 2;
        let taken = header.histogram_bytes.load(Relaxed);
        if taken >= budget || acquisitions < WARM << (taken.saturating_mul(8) / budget) {
            return;
        }
        self.host.with_signals_blocked(|| self.give_histograms(header, pair));
    }

    #[inline(never)]
    fn give_histograms(&self, header: &Header, pair: &Pair) {
        if pair.histograms.load(Relaxed) != 0 {
            return; // a signal handler was faster
        }
        let length = size_of::<Histograms>();
        let Some(block) = self.arena.allocate(&self.host, Need::Detail, self.section_number(), 0, length)
        else {
            return;
        };
        header.histogram_bytes.fetch_add(block.length(), Relaxed);
        let Some(start) = block.take(length) else { return };
        // SAFETY: the block gave the space, aligned, in the mapping.
        let histograms = unsafe { &*start.cast::<Histograms>() };
        histograms.pair.store(self.arena.position_of(pair), Relaxed);
        histograms.head.store(head(Type::Histograms, length), Ordering::Release);
        pair.histograms.store(self.arena.position_of(histograms), Relaxed);
    }
}

/// The place of a return address among those of a hashed list, from 1, and whether it is new there; 0 if the list is full.
pub(crate) fn place_of(callers: &[AtomicU64; CALLERS], caller: u64) -> (usize, bool) {
    for slot in (0..CALLERS).map(|probe| (slot_of(caller) + probe) % CALLERS) {
        match callers[slot].load(Relaxed) {
            0 => {
                callers[slot].store(caller, Relaxed);
                return (slot + 1, true);
            }
            found if found == caller => return (slot + 1, false),
            _ => {}
        }
    }
    (0, false)
}

/// Where a return address comes first among the callers of a pair.
#[inline]
pub(super) fn slot_of(caller: u64) -> usize {
    (caller ^ caller >> 4) as usize % CALLERS
}

#[inline]
pub(super) fn note(histograms: &Histograms, quantity: Quantity, ticks: u64) {
    let noted = histograms.noted.load(Relaxed) as usize % NOTED;
    histograms.notes[noted].store(ticks << NOTE_SHIFT | quantity as u64, Relaxed);
    histograms.noted.store(noted as u64 + 1, Relaxed);
    if noted == NOTED - 1 {
        sort_notes(histograms);
    }
}

#[inline(never)]
fn sort_notes(histograms: &Histograms) {
    for note in &histograms.notes {
        let note = note.load(Relaxed);
        let quantity = note as usize % (1 << NOTE_SHIFT);
        if let Some(buckets) = histograms.buckets.get(quantity) {
            add(&buckets[bucket(note >> NOTE_SHIFT)], 1);
        }
    }
    histograms.noted.store(0, Relaxed);
}
