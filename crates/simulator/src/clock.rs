//! Simulated time: what the time is, what happens next, and how far a thread may run before that.

use crate::Time;
use crate::wheel::Wheel;

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A thread's access is done, or its time has come.
    Resume(u32),
    /// A request leaves its core.
    Issue(u32),
    /// A request reaches the line's home.
    HomeArrival(u32),
    /// The home's probe for a request reaches the line's owner.
    OwnerProbed(u32),
    /// That probe reaches the core that has the line.
    OwnerAnswers(u32),
    /// A line's home can take the next request.
    HomeFree(u32),
    /// A thread may run: it starts, or was woken.
    Ready(u32),
    /// A waiting thread's timeout, if it is still the same wait.
    Timer(u32, u32),
    /// The end of a core's time slice, if it is still the same one.
    SliceEnd(u32, u32),
    /// A thread's transaction has been aborted.
    Aborted(u32),
    /// A core hears that its thread's transaction conflicts with another access, if it is still the same one.
    Conflict(u32, u32),
}

/// An event in one word, as it goes through the queue: its kind in the lowest bits, then the thread, line or core, then the
/// number of the wait or slice. The host moves it in one register; an enum written in parts and read as a whole just
/// after that stalls until the parts have left the host's store buffer.
#[derive(Clone, Copy)]
struct Packed(u64);

const KIND_BITS: u32 = 4;

impl Packed {
    #[inline]
    fn new(event: Event) -> Self {
        let (kind, of, number) = match event {
            Event::Resume(thread) => (0, thread, 0),
            Event::Issue(thread) => (1, thread, 0),
            Event::HomeArrival(thread) => (2, thread, 0),
            Event::OwnerProbed(thread) => (3, thread, 0),
            Event::OwnerAnswers(thread) => (4, thread, 0),
            Event::HomeFree(line) => (5, line, 0),
            Event::Ready(thread) => (6, thread, 0),
            Event::Timer(thread, wait) => (7, thread, wait),
            Event::SliceEnd(core, slice) => (8, core, slice),
            Event::Aborted(thread) => (9, thread, 0),
            Event::Conflict(thread, transaction) => (10, thread, transaction),
        };
        // Threads, cores and lines have numbers of fewer bits: the arena has less than 4 GiB.
        debug_assert!(of >> (32 - KIND_BITS) == 0);
        Self(kind | u64::from(of) << KIND_BITS | u64::from(number) << 32)
    }

    #[inline]
    fn event(self) -> Event {
        let (of, number) = (self.0 as u32 >> KIND_BITS, (self.0 >> 32) as u32);
        match self.0 & ((1 << KIND_BITS) - 1) {
            0 => Event::Resume(of),
            1 => Event::Issue(of),
            2 => Event::HomeArrival(of),
            3 => Event::OwnerProbed(of),
            4 => Event::OwnerAnswers(of),
            5 => Event::HomeFree(of),
            6 => Event::Ready(of),
            7 => Event::Timer(of, number),
            8 => Event::SliceEnd(of, number),
            9 => Event::Aborted(of),
            _ => Event::Conflict(of, number),
        }
    }
}

/// The time, and the queue of events.
pub(crate) struct Clock {
    events: Wheel<Packed>,
    /// The time of the running thread, or of the event at hand.
    pub(crate) now: Time,
    /// How far the running thread may go before something else happens.
    horizon: Time,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { events: Wheel::new(), now: 0, horizon: 0 }
    }

    /// Adds an event, not before the last one taken.
    #[inline]
    pub(crate) fn push(&mut self, time: Time, event: Event) {
        self.events.push(time, Packed::new(event));
        self.horizon = self.horizon.min(time);
    }

    /// Takes the next event; the time is its time then.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let (time, event) = self.events.pop()?;
        self.now = time;
        Some(event.event())
    }

    /// Whether something else happens before the running thread's next step.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.now >= self.horizon
    }

    /// Whether the horizon is zero, as it is while the running thread is in a transaction, and hardly ever else.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.horizon == 0
    }

    /// Whether nothing else happens up to a time.
    #[inline]
    pub(crate) fn is_free_until(&self, time: Time) -> bool {
        time < self.horizon
    }

    /// Whether an event comes before the running thread's next step.
    pub(crate) fn event_is_due(&self) -> bool {
        self.now >= self.events.next_time()
    }

    /// Lets the running thread go on up to the next event, and not past the end of its time slice.
    #[inline]
    pub(crate) fn set_horizon(&mut self, slice_end: Time) {
        self.horizon = self.events.next_time().min(slice_end);
    }

    /// Lets the running thread go no further than this.
    pub(crate) fn limit_horizon(&mut self, time: Time) {
        self.horizon = self.horizon.min(time);
    }

    /// Forgets all events.
    pub(crate) fn clear(&mut self) {
        self.events = Wheel::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_comes_out_of_its_word_as_it_went_in() {
        const MOST: u32 = u32::MAX >> KIND_BITS;
        for of in [0, 1, MOST] {
            let one = [
                Event::Resume,
                Event::Issue,
                Event::HomeArrival,
                Event::OwnerProbed,
                Event::OwnerAnswers,
                Event::HomeFree,
                Event::Ready,
                Event::Aborted,
            ];
            let two = [Event::Timer, Event::SliceEnd, Event::Conflict];
            let numbered = two.iter().flat_map(|event| [0, u32::MAX].map(|number| event(of, number)));
            for event in one.iter().map(|event| event(of)).chain(numbered) {
                assert_eq!(Packed::new(event).event(), event);
            }
        }
    }
}
