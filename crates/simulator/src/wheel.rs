//! The event queue: a timing wheel with a heap for what lies far ahead.
//!
//! Events come out by time, and by the order of their insertion where times are equal: that order is part of what
//! makes a run the same on every computer.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::Time;

/// Width of a slot as a power of two, in picoseconds: about 1 ns, so that few events share one.
const SLOT_SHIFT: u32 = 10;
const SLOTS: usize = 4096;
const WORDS: usize = SLOTS / 64;
const NONE: u32 = u32::MAX;

struct Entry<T> {
    time: Time,
    event: T,
    /// The next in its slot; the last one's is the first.
    next: u32,
}

/// What waits outside the wheel, ordered by time, then sequence.
struct Far<T>(Time, u64, T);

impl<T> PartialEq for Far<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl<T> Eq for Far<T> {}
impl<T> PartialOrd for Far<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Far<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// Events by time.
///
/// An event that comes before all others when it is added stays in `front`: often it is the next one taken, and never
/// sees the wheel. Nor does one that is added at the very time of the last one taken: it goes to the end of `due`, behind
/// all others of that time.
pub(crate) struct Wheel<T> {
    /// When the next event happens.
    next: Time,
    /// When the last event taken happened.
    now: Time,
    /// What was added at that time; what had been added for it before comes before.
    due: VecDeque<T>,
    /// When the next event happens that is not in `due`.
    next_not_due: Time,
    /// That event with its sequence, unless it is in the wheel or far ahead.
    front: Option<(u64, T)>,
    /// The earliest time in the wheel or far ahead.
    first: Time,
    /// The slot of that time, where the wheel is not empty.
    first_slot: usize,
    /// The last entry of each slot.
    slots: Box<[u32; SLOTS]>,
    occupied: [u64; WORDS],
    occupied_words: u64,
    entries: Vec<Entry<T>>,
    free: u32,
    /// Number of the slot that the wheel's last event came from; all events in it lie within `SLOTS` of it.
    at: u64,
    far: BinaryHeap<Reverse<Far<T>>>,
    sequence: u64,
}

impl<T: Copy> Wheel<T> {
    pub(crate) fn new() -> Self {
        Self {
            next: Time::MAX,
            now: 0,
            due: VecDeque::new(),
            next_not_due: Time::MAX,
            front: None,
            first: Time::MAX,
            first_slot: 0,
            slots: Box::new([NONE; SLOTS]),
            occupied: [0; WORDS],
            occupied_words: 0,
            entries: Vec::new(),
            free: NONE,
            at: 0,
            far: BinaryHeap::new(),
            sequence: 0,
        }
    }

    /// When the next event happens; `Time::MAX` without one.
    #[inline]
    pub(crate) fn next_time(&self) -> Time {
        self.next
    }

    /// Adds an event, not before the last one taken.
    #[inline]
    pub(crate) fn push(&mut self, time: Time, event: T) {
        if time == self.now {
            self.due.push_back(event);
            self.next = time;
            return;
        }
        self.sequence += 1;
        if time >= self.next_not_due {
            self.put(time, self.sequence, event, false);
            return;
        }
        let next = std::mem::replace(&mut self.next_not_due, time);
        self.next = self.next.min(time);
        if let Some((sequence, event)) = self.front.replace((self.sequence, event)) {
            // It came before all that has been added since.
            self.put(next, sequence, event, true);
        }
    }

    /// Takes the next event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Time, T)> {
        if self.next_not_due != self.now
            && let Some(event) = self.due.pop_front()
        {
            if self.due.is_empty() {
                self.next = self.next_not_due;
            }
            return Some((self.now, event));
        }
        let (time, event) = self.pop_not_due()?;
        self.now = time;
        self.next = if self.due.is_empty() { self.next_not_due } else { time };
        Some((time, event))
    }

    #[inline]
    fn pop_not_due(&mut self) -> Option<(Time, T)> {
        if let Some((_, event)) = self.front.take() {
            return Some((std::mem::replace(&mut self.next_not_due, self.first), event));
        }
        if self.occupied_words == 0 {
            self.at = self.far.peek()?.0.0 >> SLOT_SHIFT;
            self.bring_near();
        }
        let index = self.first_slot;
        let last = self.slots[index];
        let taken = self.entries[last as usize].next;
        let entry = &mut self.entries[taken as usize];
        let (time, event, after) = (entry.time, entry.event, entry.next);
        entry.next = self.free;
        self.free = taken;
        if taken == last {
            self.clear_slot(index);
        } else {
            self.entries[last as usize].next = after;
            self.first = self.entries[after as usize].time;
        }
        let at = std::mem::replace(&mut self.at, time >> SLOT_SHIFT);
        if at != self.at && !self.far.is_empty() {
            self.bring_near();
        }
        self.next_not_due = self.first;
        Some((time, event))
    }

    /// Marks a slot as empty, and looks for the next one.
    #[inline]
    fn clear_slot(&mut self, index: usize) {
        self.slots[index] = NONE;
        self.occupied[index / 64] &= !(1 << (index % 64));
        if self.occupied[index / 64] == 0 {
            self.occupied_words &= !(1 << (index / 64));
        }
        match self.next_slot(index) {
            Some(next) => {
                self.first_slot = next;
                let first = self.entries[self.slots[next] as usize].next;
                self.first = self.entries[first as usize].time;
            }
            None => self.first = self.far.peek().map_or(Time::MAX, |far| far.0.0),
        }
    }

    #[cold]
    fn bring_near(&mut self) {
        while let Some(Reverse(far)) = self.far.peek()
            && far.0 >> SLOT_SHIFT < self.at + SLOTS as u64
        {
            let Some(Reverse(Far(time, _, event))) = self.far.pop() else { return };
            // Nothing was put into its slot while that was too far ahead.
            self.insert(time, event, false);
        }
    }

    /// Puts an event into the wheel, or with those that are too far ahead for it; among equal times it is the first or
    /// the last.
    fn put(&mut self, time: Time, sequence: u64, event: T, before_equals: bool) {
        if time >> SLOT_SHIFT < self.at + SLOTS as u64 {
            self.insert(time, event, before_equals);
        } else {
            self.far.push(Reverse(Far(time, sequence, event)));
            if self.occupied_words == 0 {
                self.first = self.first.min(time);
            }
        }
    }

    #[inline]
    fn insert(&mut self, time: Time, event: T, before_equals: bool) {
        // An event of the past would be lost behind the wheel's position.
        debug_assert!(time >> SLOT_SHIFT >= self.at, "an event of the past");
        // What is near comes before what is far.
        let is_first = time < self.first || self.occupied_words == 0;
        let index = (time >> SLOT_SHIFT) as usize % SLOTS;
        if is_first {
            (self.first, self.first_slot) = (time, index);
        }
        let new = self.entry(time, event);
        let last = self.slots[index];
        if last == NONE {
            self.occupied[index / 64] |= 1 << (index % 64);
            self.occupied_words |= 1 << (index / 64);
            self.entries[new as usize].next = new;
            self.slots[index] = new;
            return;
        }
        let comes_after = |other: &Entry<T>| other.time < time || !before_equals && other.time == time;
        let is_last = comes_after(&self.entries[last as usize]);
        let mut previous = last;
        if !is_last {
            // Some entry, the last at the latest, comes after this one.
            loop {
                let after = self.entries[previous as usize].next;
                if !comes_after(&self.entries[after as usize]) {
                    break;
                }
                previous = after;
            }
        }
        self.entries[new as usize].next = std::mem::replace(&mut self.entries[previous as usize].next, new);
        if is_last {
            self.slots[index] = new;
        }
    }

    /// A place for an entry.
    #[inline]
    fn entry(&mut self, time: Time, event: T) -> u32 {
        let entry = Entry { time, event, next: NONE };
        if self.free == NONE {
            self.entries.push(entry);
            return (self.entries.len() - 1) as u32;
        }
        let new = self.free;
        self.free = std::mem::replace(&mut self.entries[new as usize], entry).next;
        new
    }

    /// The occupied slot that comes next after this one, which is empty, going round.
    #[inline]
    fn next_slot(&self, from: usize) -> Option<usize> {
        if self.occupied_words == 0 {
            return None;
        }
        let (word, bit) = (from / 64, from % 64);
        let here = self.occupied[word] & (u64::MAX << bit);
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        // The words after this one, then those before it, and at last this one's lower bits.
        let others = self.occupied_words.rotate_right(word as u32) & !1;
        let ahead = if others != 0 { others.trailing_zeros() as usize } else { WORDS };
        let word = (word + ahead) % WORDS;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_by_insertion_near_and_far() {
        let mut wheel = Wheel::new();
        let mut expected = Vec::new();
        let mut state = 1_u64;
        let mut now = 0;
        let mut taken = Vec::new();
        for number in 0..20_000_u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Steps from nothing to far past the wheel, many equal.
            let ahead = (state >> 60) * (1 << ((state >> 33) % 24));
            wheel.push(now + ahead, number);
            expected.push((now + ahead, number));
            if state >> 62 != 0 {
                assert!(wheel.next_time() <= now + ahead);
                let next = wheel.next_time();
                let (time, event) = wheel.pop().unwrap();
                assert_eq!(time, next);
                taken.push((time, event));
                now = time;
            }
        }
        while let Some(event) = wheel.pop() {
            taken.push(event);
        }
        assert_eq!(wheel.next_time(), Time::MAX);
        expected.sort_unstable();
        assert_eq!(taken, expected);
    }
}
