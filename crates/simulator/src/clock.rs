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
}

/// The time, and the queue of events.
pub(crate) struct Clock {
    events: Wheel<Event>,
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
        self.events.push(time, event);
        self.horizon = self.horizon.min(time);
    }

    /// Takes the next event; the time is its time then.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let (time, event) = self.events.pop()?;
        self.now = time;
        Some(event)
    }

    /// Whether something else happens before the running thread's next step.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.now >= self.horizon
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
