//! The memory of the machine that walks: what the models' documentation says *as a machine*, step by step.
//!
//! Under sequential consistency and with store buffers a location holds one value. Under release-acquire it holds the
//! writes that some thread may still read, in the location's order; a view is a place in each of these orders.
//! Writes that every thread has moved past are forgotten.

use super::key::Key;
use crate::graph::{Clock, EventId, LocationId, StepIndex};
use crate::model::{Model, Strength};

/// Words that the threads of a client may use.
pub(super) const MOST_SLOTS: usize = 64;
/// More than one thread uses the word.
pub(super) const SEVERAL: u8 = u8::MAX;
/// Writes of one word that can be told apart.
const MOST_WRITES: usize = 250;

/// What is known: events that happened before, and the place in each word's order before which no read looks back.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) happened: Clock,
    places: [u8; MOST_SLOTS],
}

impl View {
    const NOTHING: Self = Self { happened: Clock::NOTHING, places: [0; MOST_SLOTS] };

    fn join(&mut self, other: &Self) {
        self.happened.join(&other.happened);
        for (mine, theirs) in self.places.iter_mut().zip(other.places) {
            *mine = (*mine).max(theirs);
        }
    }
}

/// A write that can be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) value: u64,
    /// Which event wrote it. Not part of the state.
    pub(super) by: EventId,
    /// What a read that acquires gets from it.
    pub(super) released: View,
    /// What it depends on by program order and reads-from.
    pub(super) prefix: Clock,
    /// A read-modify-write stands directly after it: nothing comes between.
    followed: bool,
}

/// A store that has not reached memory.
#[derive(Clone, Copy, Debug)]
struct Buffered {
    slot: usize,
    mask: u64,
    bits: u64,
    by: EventId,
    released: View,
    prefix: Clock,
    /// A store-store barrier stands before it.
    after_all: bool,
    /// How many barriers its thread had before it that hold for all that follows.
    barriers: u8,
}

/// What memory knows of a thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) view: View,
    /// What its next step depends on by program order and reads-from.
    pub(super) prefix: Clock,
    /// What relaxed reads would have acquired.
    pending: View,
    /// What the last release fence knew.
    fenced: View,
    buffer: Vec<Buffered>,
    barriers: u8,
    /// Events so far.
    pub(super) events: usize,
    /// What its last exclusive read read from.
    source: EventId,
    pub(super) ended: bool,
}

impl Thread {
    const NEW: Self = Self {
        view: View::NOTHING,
        prefix: Clock::NOTHING,
        pending: View::NOTHING,
        fenced: View::NOTHING,
        buffer: Vec::new(),
        barriers: 0,
        events: 0,
        source: EventId::INITIAL,
        ended: false,
    };

    fn reset(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        *self = Self { buffer, ..Self::NEW };
        self.buffer.clear();
    }
}

/// A word.
#[derive(Debug, Default)]
struct Word {
    messages: Vec<Message>,
    /// Changes with every write.
    version: u32,
}

impl Clone for Word {
    fn clone(&self) -> Self {
        Self { messages: self.messages.clone(), version: self.version }
    }

    fn clone_from(&mut self, other: &Self) {
        self.messages.clone_from(&other.messages);
        self.version = other.version;
    }
}

impl Clone for Thread {
    fn clone(&self) -> Self {
        let mut thread = Self::NEW;
        thread.clone_from(self);
        thread
    }

    fn clone_from(&mut self, other: &Self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clone_from(&other.buffer);
        let Self { view, prefix, pending, fenced, barriers, events, source, ended, .. } = *other;
        *self = Self { view, prefix, pending, fenced, buffer, barriers, events, source, ended };
    }
}

/// The memory of all threads.
#[derive(Debug)]
pub(super) struct Memory {
    model: Model,
    words: Vec<Word>,
    pub(super) threads: Vec<Thread>,
    /// Some thread has a fence that acquires, so that it matters what relaxed reads would have acquired.
    has_acquire_fences: bool,
    /// By word: the only thread that has used it, or [`SEVERAL`].
    pub(super) users: Vec<Option<u8>>,
    /// Every write to memory so far, and the one of its word that it came after. Not part of the state.
    log: Vec<(u8, EventId, EventId)>,
}

/// A memory as it was.
#[derive(Debug, Default)]
pub(super) struct Saved {
    words: Vec<Word>,
    threads: Vec<Thread>,
    logged: usize,
}

impl Memory {
    pub(super) fn new(model: Model, threads: usize) -> Self {
        let threads = vec![Thread::NEW; threads];
        Self {
            model,
            words: Vec::new(),
            threads,
            has_acquire_fences: false,
            users: Vec::new(),
            log: Vec::new(),
        }
    }

    /// As at the start.
    pub(super) fn reset(&mut self, initial: &[u64]) {
        self.log.clear();
        self.threads.iter_mut().for_each(Thread::reset);
        self.words.truncate(initial.len());
        for (word, &value) in self.words.iter_mut().zip(initial) {
            word.messages.clear();
            word.version = 0;
            word.messages.push(first(value));
        }
        for &value in &initial[self.words.len()..] {
            self.add_word(value);
        }
    }

    pub(super) fn add_word(&mut self, value: u64) {
        self.words.push(Word { messages: vec![first(value)], version: 0 });
    }

    pub(super) fn save(&self, to: &mut Saved) {
        to.words.clone_from(&self.words);
        to.threads.clone_from(&self.threads);
        to.logged = self.log.len();
    }

    /// As it was; words that were not known then hold `initial`.
    pub(super) fn restore(&mut self, from: &Saved, initial: impl Fn(usize) -> u64) {
        let known = self.words.len();
        self.words.clone_from(&from.words);
        for slot in self.words.len()..known {
            self.add_word(initial(slot));
        }
        self.threads.clone_from(&from.threads);
        self.log.truncate(from.logged);
    }

    /// Whether some word has as many writes that may still be read as a view can tell apart: no thread goes on.
    pub(super) fn is_full(&self) -> bool {
        self.words.iter().any(|word| word.messages.len() >= MOST_WRITES)
    }

    /// The next event of a thread: it knows itself.
    pub(super) fn event(&mut self, thread: usize) -> EventId {
        let this = &mut self.threads[thread];
        let id = EventId { thread: thread as u8, index: this.events as StepIndex };
        this.events += 1;
        this.view.happened.add(id);
        this.prefix.add(id);
        id
    }

    pub(super) fn version(&self, slot: usize) -> u32 {
        self.words[slot].version
    }

    /// The writes of a word so far, in its order.
    pub(super) fn order(&self, slot: usize) -> Vec<EventId> {
        let mut order: Vec<EventId> = Vec::new();
        for &(_, write, before) in self.log.iter().filter(|(of, ..)| *of as usize == slot) {
            let place = order.iter().rposition(|&earlier| earlier == before).map_or(0, |index| index + 1);
            order.insert(place, write);
        }
        order
    }

    /// The stores that have not reached memory, in an order in which they might, those of `first` before the others: each
    /// with its word, and whether it is one to part of it.
    pub(super) fn under_way(
        &self,
        first: Option<usize>,
    ) -> impl Iterator<Item = (usize, EventId, bool)> + '_ {
        let others = (0..self.threads.len()).filter(move |&thread| first != Some(thread));
        let threads = first.into_iter().chain(others);
        let buffered = threads.flat_map(|thread| &self.threads[thread].buffer);
        buffered.map(|store| (store.slot, store.by, store.mask != u64::MAX))
    }

    /// What a word holds when nothing is under way.
    pub(super) fn last(&self, slot: usize) -> &Message {
        self.words[slot].messages.last().expect("a word holds something")
    }

    /// The write at a place.
    pub(super) fn source(&self, slot: usize, place: usize) -> EventId {
        self.words[slot].messages[place].by
    }

    /// Which of a word's writes a thread may read, by their places.
    pub(super) fn readable(&self, thread: usize, slot: usize) -> std::ops::Range<usize> {
        let lowest =
            if self.model == Model::Ra { self.threads[thread].view.places[slot] as usize } else { 0 };
        lowest..self.words[slot].messages.len()
    }

    /// What a thread finds when it reads from a place: its own newest buffered store goes before.
    pub(super) fn value(&self, thread: usize, slot: usize, place: usize) -> u64 {
        let own = self.threads[thread].buffer.iter().filter(|store| store.slot == slot);
        own.fold(self.words[slot].messages[place].value, |value, store| value & !store.mask | store.bits)
    }

    /// Whether a read-modify-write may read from a place and write.
    pub(super) fn may_exchange(&self, thread: usize, slot: usize, place: usize, releases: bool) -> bool {
        let buffer = &self.threads[thread].buffer;
        match self.model {
            Model::Sc => true,
            Model::Tso => buffer.is_empty(),
            Model::Pso => {
                let barriers = self.threads[thread].barriers;
                buffer.iter().all(|store| !releases && store.slot != slot && store.barriers == barriers)
            }
            Model::Ra => !self.words[slot].messages[place].followed,
        }
    }

    pub(super) fn has_buffered(&self, thread: usize) -> bool {
        !self.threads[thread].buffer.is_empty()
    }

    /// Reads; gives the write that was read.
    pub(super) fn read(&mut self, thread: usize, slot: usize, place: usize, strength: Strength) -> EventId {
        let this = &mut self.threads[thread];
        if let Some(own) = this.buffer.iter().rev().find(|store| store.slot == slot) {
            return own.by;
        }
        let message = &self.words[slot].messages[place];
        this.prefix.join(&message.prefix);
        if self.model == Model::Ra {
            this.pending.join(&message.released);
            this.view.places[slot] = this.view.places[slot].max(place as u8);
            if strength.has(Strength::ACQUIRE) {
                this.view.join(&message.released);
            }
        } else if strength.has(Strength::ACQUIRE) {
            this.view.happened.join(&message.released.happened);
        }
        let source = message.by;
        if strength.has(Strength::EXCLUSIVE) {
            this.source = source;
        }
        source
    }

    /// A store to part of a word depends on the write at a place, of which it keeps the other bits.
    pub(super) fn depend(&mut self, thread: usize, slot: usize, place: usize) {
        let prefix = self.words[slot].messages[place].prefix;
        self.threads[thread].prefix.join(&prefix);
    }

    /// What the next step of a thread depends on. A store to part of a word that is under way will come after what the word
    /// holds by now.
    pub(super) fn prefix(&self, thread: usize) -> Clock {
        let Thread { prefix, buffer, .. } = &self.threads[thread];
        let parts = buffer.iter().filter(|store| store.mask != u64::MAX);
        parts.fold(*prefix, |mut prefix, store| {
            prefix.join(&self.last(store.slot).prefix);
            prefix
        })
    }

    /// The places that a new write may take: the last comes first.
    pub(super) fn places(&self, thread: usize, slot: usize) -> impl Iterator<Item = usize> + '_ {
        let messages = &self.words[slot].messages;
        let lowest =
            if self.model == Model::Ra { self.threads[thread].view.places[slot] as usize + 1 } else { 1 };
        (lowest..=messages.len()).rev().filter(|&place| !messages[place - 1].followed)
    }

    fn released(&self, thread: usize, strength: Strength) -> View {
        let this = &self.threads[thread];
        if strength.has(Strength::RELEASE) { this.view } else { this.fenced }
    }

    /// Puts a store into the thread's buffer.
    pub(super) fn buffer(&mut self, by: EventId, slot: usize, mask: u64, bits: u64, strength: Strength) {
        let thread = by.thread as usize;
        let released = self.released(thread, strength);
        let this = &mut self.threads[thread];
        this.buffer.push(Buffered {
            slot,
            mask,
            bits,
            by,
            released,
            prefix: this.prefix,
            after_all: strength.has(Strength::STORES),
            barriers: this.barriers,
        });
    }

    /// Which buffered stores of a thread may reach memory next, with their words.
    pub(super) fn drainable(&self, thread: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let buffer = &self.threads[thread].buffer;
        let free = move |&(index, store): &(usize, &Buffered)| {
            index == 0
                || self.model == Model::Pso
                    && !store.after_all
                    && buffer[..index]
                        .iter()
                        .all(|earlier| earlier.slot != store.slot && earlier.barriers == store.barriers)
        };
        buffer.iter().enumerate().filter(free).map(|(index, store)| (index, store.slot))
    }

    /// A buffered store reaches memory; gives its word, and of a store to part of it the store and what it overwrote.
    pub(super) fn drain(&mut self, thread: usize, index: usize) -> (usize, Option<(EventId, EventId)>) {
        let store = self.threads[thread].buffer.remove(index);
        let old = *self.last(store.slot);
        let (mut released, mut prefix) = (store.released, store.prefix);
        let is_part = store.mask != u64::MAX;
        if is_part {
            released.join(&old.released);
            prefix.join(&old.prefix);
            self.threads[thread].prefix.join(&old.prefix);
        }
        let value = old.value & !store.mask | store.bits;
        self.put(store.slot, 1, Message { value, by: store.by, released, prefix, followed: false });
        (store.slot, is_part.then_some((store.by, old.by)))
    }

    /// Writes to memory at a place of the word's order.
    pub(super) fn write(&mut self, by: EventId, slot: usize, place: usize, value: u64, strength: Strength) {
        let thread = by.thread as usize;
        let released = self.released(thread, strength);
        let prefix = self.threads[thread].prefix;
        self.put(slot, place, Message { value, by, released, prefix, followed: false });
    }

    /// Writes to memory directly after what the thread's last exclusive read has read, and passes on what that
    /// released; false if something has come between.
    pub(super) fn write_half(&mut self, by: EventId, slot: usize, value: u64, strength: Strength) -> bool {
        let thread = by.thread as usize;
        let source = self.threads[thread].source;
        let Some(place) = self.words[slot].messages.iter().position(|message| message.by == source) else {
            return false;
        };
        self.write_after(by, slot, place, value, strength)
    }

    /// Writes to memory directly after the write at a place, and passes on what that released.
    pub(super) fn write_after(
        &mut self,
        by: EventId,
        slot: usize,
        place: usize,
        value: u64,
        strength: Strength,
    ) -> bool {
        let thread = by.thread as usize;
        let before = &mut self.words[slot].messages[place];
        if before.followed {
            return false;
        }
        before.followed = self.model == Model::Ra;
        let (passed_on, mut prefix) = (before.released, before.prefix);
        let mut released = self.released(thread, strength);
        released.join(&passed_on);
        prefix.join(&self.threads[thread].prefix);
        self.put(slot, place + 1, Message { value, by, released, prefix, followed: false });
        true
    }

    fn put(&mut self, slot: usize, place: usize, message: Message) {
        let word = &mut self.words[slot];
        word.version += 1;
        let before = word.messages[place - 1].by;
        self.log.push((slot as u8, message.by, before));
        if self.model != Model::Ra {
            word.messages[0] = message;
            return;
        }
        assert!(word.messages.len() <= MOST_WRITES, "a thread takes no step when memory is full");
        let mut message = message;
        self.each_view(|view| {
            if view.places[slot] as usize >= place {
                view.places[slot] += 1;
            }
        });
        if message.released.places[slot] as usize >= place {
            message.released.places[slot] += 1;
        }
        self.words[slot].messages.insert(place, message);
        self.threads[message.by.thread as usize].view.places[slot] = place as u8;
    }

    /// Notes a fence; false if it is the first that acquires, which states so far did not reckon with.
    pub(super) fn knows_fence(&mut self, strength: Strength) -> bool {
        let is_new = self.model == Model::Ra && strength.has(Strength::ACQUIRE) && !self.has_acquire_fences;
        self.has_acquire_fences |= is_new;
        !is_new
    }

    /// A fence of release-acquire, or one that orders stores.
    pub(super) fn fence(&mut self, thread: usize, strength: Strength) {
        let this = &mut self.threads[thread];
        if strength.has(Strength::ACQUIRE) {
            let pending = this.pending;
            this.view.join(&pending);
        }
        if strength.has(Strength::RELEASE) {
            this.fenced = this.view;
        }
        if strength.has(Strength::STORES) && !this.buffer.is_empty() {
            this.barriers += 1;
        }
    }

    fn each_view(&mut self, mut each: impl FnMut(&mut View)) {
        for thread in &mut self.threads {
            each(&mut thread.view);
            each(&mut thread.pending);
            each(&mut thread.fenced);
        }
        for message in self.words.iter_mut().flat_map(|word| &mut word.messages) {
            each(&mut message.released);
        }
    }

    /// Forgets the writes that every thread has moved past; whether there were any.
    pub(super) fn forget_old(&mut self, merges: bool) -> bool {
        let mut any = false;
        if self.model != Model::Ra {
            return any;
        }
        for slot in 0..self.words.len() {
            if self.words[slot].messages.len() == 1 {
                continue;
            }
            let user = self.user_of(slot).filter(|_| merges);
            let looks = |number: usize| user.is_none_or(|user| usize::from(user) == number);
            let alive =
                self.threads.iter().enumerate().filter(|(number, thread)| !thread.ended && looks(*number));
            let last = self.words[slot].messages.len() - 1;
            let lowest = alive.map(|(_, thread)| thread.view.places[slot]).min().unwrap_or(last as u8);
            if lowest > 0 {
                self.words[slot].messages.drain(..lowest as usize);
                self.words[slot].version += 1;
                self.each_view(|view| view.places[slot] = view.places[slot].saturating_sub(lowest));
                any = true;
            }
        }
        any
    }

    /// The only thread that uses a word.
    fn user_of(&self, slot: usize) -> Option<u8> {
        self.users[slot].filter(|&user| user != SEVERAL)
    }

    /// The writes of words that several threads use: what others carry, the thread that wrote them knows.
    fn carriers(&self) -> impl Iterator<Item = &Message> {
        let shared = self.words.iter().enumerate().filter(|&(slot, _)| self.user_of(slot).is_none());
        shared.flat_map(|(_, word)| &word.messages)
    }

    /// Whether every thread that still runs knows the event.
    pub(super) fn all_know(&self, event: EventId, of: impl Fn(&Thread) -> &Clock) -> bool {
        self.threads.iter().filter(|thread| !thread.ended).all(|thread| of(thread).has(event))
    }

    /// Adds to the key who knows of an event that it happened before.
    pub(super) fn add_knowledge(&self, key: &mut Key, event: EventId) {
        let of_thread = |thread: &Thread| {
            u64::from(thread.view.happened.has(event))
                | u64::from(self.has_acquire_fences && thread.pending.happened.has(event)) << 1
                | u64::from(thread.fenced.happened.has(event)) << 2
        };
        self.threads.iter().filter(|thread| !thread.ended).for_each(|thread| key.add(of_thread(thread)));
        let buffered = self.threads.iter().flat_map(|thread| &thread.buffer);
        let buffered = buffered.map(|store| store.released.happened.has(event));
        let messages = self.carriers();
        key.add_bits(buffered.chain(messages.map(|message| message.released.happened.has(event))));
    }

    /// Adds to the key who depends on an event.
    pub(super) fn add_dependence(&self, key: &mut Key, event: EventId) {
        let threads = self.threads.iter().map(|thread| !thread.ended && thread.prefix.has(event));
        let buffered = self.threads.iter().flat_map(|thread| &thread.buffer);
        let buffered = buffered.map(|store| store.prefix.has(event));
        let messages = self.carriers();
        key.add_bits(threads.chain(buffered).chain(messages.map(|message| message.prefix.has(event))));
    }

    /// Adds what words hold and what threads may see of it.
    pub(super) fn add_to(&self, key: &mut Key) {
        for thread in &self.threads {
            key.add(thread.buffer.len() as u64);
            let first = thread.buffer.first().map_or(0, |store| store.barriers);
            for store in &thread.buffer {
                let ordered = u64::from(store.barriers - first) << 1 | u64::from(store.after_all);
                key.add((store.slot as u64) << 32 | ordered);
                key.add(store.mask);
                key.add(store.bits);
            }
            if let Some(last) = thread.buffer.last() {
                key.add(u64::from(thread.barriers - last.barriers));
            }
        }
        for word in &self.words {
            key.add(word.messages.len() as u64);
            for message in &word.messages {
                key.add(message.value);
            }
            key.add_bits(word.messages.iter().map(|message| message.followed));
        }
        if self.model == Model::Ra {
            let used = self.words.len();
            for thread in self.threads.iter().filter(|thread| !thread.ended) {
                for view in [&thread.view, &thread.fenced] {
                    key.add_bytes(&view.places[..used]);
                }
                if self.has_acquire_fences {
                    key.add_bytes(&thread.pending.places[..used]);
                }
            }
            for message in self.carriers() {
                key.add_bytes(&message.released.places[..used]);
            }
        }
    }
}

fn first(value: u64) -> Message {
    Message { value, by: EventId::INITIAL, released: View::NOTHING, prefix: Clock::NOTHING, followed: false }
}

/// A word's number, by its location.
#[derive(Debug, Default)]
pub(super) struct Slots {
    of: Vec<Option<u8>>,
    pub(super) locations: Vec<LocationId>,
}

impl Slots {
    /// The number of a location, and whether it is new. None for one more than [`MOST_SLOTS`].
    pub(super) fn number(&mut self, location: LocationId) -> Option<(usize, bool)> {
        if self.of.len() <= location as usize {
            self.of.resize(location as usize + 1, None);
        }
        if let Some(number) = self.of[location as usize] {
            return Some((number as usize, false));
        }
        let number = self.locations.len();
        if number == MOST_SLOTS {
            return None;
        }
        self.of[location as usize] = Some(number as u8);
        self.locations.push(location);
        Some((number, true))
    }

    pub(super) fn known(&self, location: LocationId) -> Option<usize> {
        self.of.get(location as usize).copied().flatten().map(usize::from)
    }
}
