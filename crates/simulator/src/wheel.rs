//! The event queue: a timing wheel with a heap for what lies far ahead.
//!
//! Events come out by time, and by the order of their insertion where times are equal: that order is part of what
//! makes a run the same on every computer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Time;

/// Width of a slot as a power of two, in picoseconds: about 2 ns, so that few events share one.
const SLOT_SHIFT: u32 = 11;
const SLOTS: usize = 4096;
const WORDS: usize = SLOTS / 64;
const NONE: u32 = u32::MAX;

struct Entry<T> {
    time: Time,
    sequence: u64,
    event: T,
    next: u32,
}

#[derive(Clone, Copy)]
struct Slot {
    first: u32,
    last: u32,
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
pub(crate) struct Wheel<T> {
    slots: Box<[Slot; SLOTS]>,
    occupied: [u64; WORDS],
    occupied_words: u64,
    entries: Vec<Entry<T>>,
    free: u32,
    /// Number of the slot that the last event came from; all events in the wheel lie within `SLOTS` of it.
    at: u64,
    far: BinaryHeap<Reverse<Far<T>>>,
    sequence: u64,
    next: Time,
}

impl<T: Copy> Wheel<T> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Box::new([Slot { first: NONE, last: NONE }; SLOTS]),
            occupied: [0; WORDS],
            occupied_words: 0,
            entries: Vec::new(),
            free: NONE,
            at: 0,
            far: BinaryHeap::new(),
            sequence: 0,
            next: Time::MAX,
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
        self.sequence += 1;
        self.next = self.next.min(time);
        if time >> SLOT_SHIFT < self.at + SLOTS as u64 {
            self.insert(time, self.sequence, event);
        } else {
            self.far.push(Reverse(Far(time, self.sequence, event)));
        }
    }

    /// Takes the next event.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Time, T)> {
        let index = match self.first_slot() {
            Some(index) => index,
            None => {
                self.at = self.far.peek()?.0.0 >> SLOT_SHIFT;
                self.bring_near();
                self.first_slot().expect("the nearest of the far events was brought in")
            }
        };
        let slot = &mut self.slots[index];
        let taken = slot.first;
        let entry = &mut self.entries[taken as usize];
        let (time, event) = (entry.time, entry.event);
        slot.first = entry.next;
        entry.next = self.free;
        self.free = taken;
        if slot.first == NONE {
            slot.last = NONE;
            self.occupied[index / 64] &= !(1 << (index % 64));
            if self.occupied[index / 64] == 0 {
                self.occupied_words &= !(1 << (index / 64));
            }
        }
        if time >> SLOT_SHIFT != self.at {
            self.at = time >> SLOT_SHIFT;
            self.bring_near();
        }
        self.next = match self.first_slot() {
            Some(index) => self.entries[self.slots[index].first as usize].time,
            None => self.far.peek().map_or(Time::MAX, |far| far.0.0),
        };
        Some((time, event))
    }

    fn bring_near(&mut self) {
        while let Some(Reverse(far)) = self.far.peek()
            && far.0 >> SLOT_SHIFT < self.at + SLOTS as u64
        {
            let Some(Reverse(Far(time, sequence, event))) = self.far.pop() else { return };
            self.insert(time, sequence, event);
        }
    }

    fn insert(&mut self, time: Time, sequence: u64, event: T) {
        // An event of the past would be lost behind the wheel's position.
        debug_assert!(time >> SLOT_SHIFT >= self.at, "an event of the past");
        let entry = Entry { time, sequence, event, next: NONE };
        let new = if self.free == NONE {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        } else {
            let new = self.free;
            self.free = self.entries[new as usize].next;
            self.entries[new as usize] = entry;
            new
        };
        let index = (time >> SLOT_SHIFT) as usize % SLOTS;
        self.occupied[index / 64] |= 1 << (index % 64);
        self.occupied_words |= 1 << (index / 64);
        let slot = &mut self.slots[index];
        let before = |entries: &[Entry<T>], other: u32| {
            let other = &entries[other as usize];
            (other.time, other.sequence) <= (time, sequence)
        };
        if slot.last != NONE && before(&self.entries, slot.last) {
            self.entries[slot.last as usize].next = new;
            slot.last = new;
            return;
        }
        let (mut previous, mut after) = (NONE, slot.first);
        while after != NONE && before(&self.entries, after) {
            (previous, after) = (after, self.entries[after as usize].next);
        }
        self.entries[new as usize].next = after;
        match previous {
            NONE => slot.first = new,
            _ => self.entries[previous as usize].next = new,
        }
        if after == NONE {
            slot.last = new;
        }
    }

    /// The occupied slot that comes first, counted from the wheel's position round.
    #[inline]
    fn first_slot(&self) -> Option<usize> {
        if self.occupied_words == 0 {
            return None;
        }
        let start = self.at as usize % SLOTS;
        let (word, bit) = (start / 64, start % 64);
        let here = self.occupied[word] & (u64::MAX << bit);
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        // The words after this one, then those before it, and at last this one's lower bits.
        let rotated = self.occupied_words.rotate_right(word as u32);
        let others = rotated & !1;
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
