//! The threads of one core: which of them has it, for how long, and who is next.
//!
//! Earliest eligible virtual deadline first (Stoica and Abdel-Wahab 1995), as Linux has it since 6.6 for threads of one
//! weight. A thread's virtual time is the time that it has run. Who has run no longer than the average of the queue is
//! eligible; of those the one runs whose slice would be over first. It keeps the core to the end of its slice, as long
//! as it stays eligible, and is asked at ticks of the clock alone. A sleeper's lag, what it was short of the average or past it,
//! is kept: who was short of it takes the core at once when it wakes up, and who was past it stays in the queue, asleep, until
//! its turn would have come.
//!
//! Threads of a real-time priority come before all of these, as `SCHED_FIFO` has it: a higher priority before a lower one, first
//! in, first out within a priority; they have the core until they leave it or a higher priority comes.

use std::collections::VecDeque;

use crate::{NOBODY, Time};

/// A thread in the queue.
#[derive(Clone, Copy)]
struct Entry {
    thread: u32,
    /// How long it has run.
    ran: i64,
    /// What it will have run when its slice is over.
    deadline: i64,
    /// Whether it lingers here asleep.
    asleep: bool,
    /// When it last had the core.
    last_ran: Time,
}

/// A thread of a real-time priority in the queue.
#[derive(Clone, Copy)]
struct Realtime {
    thread: u32,
    priority: u8,
}

/// The threads of one core.
pub(crate) struct RunQueue {
    slice: i64,
    tick: Time,
    /// The thread that has the core, if it is a normal one.
    running: Option<Entry>,
    /// The thread that has the core, if it has a real-time priority.
    realtime: Option<Realtime>,
    /// Those of real-time priorities that wait, in the order in which they will run.
    realtime_waiting: VecDeque<Realtime>,
    /// Until when the running thread's time is counted.
    counted: Time,
    /// What the running thread will have run when it need no longer be left the core.
    protected: i64,
    /// When it is asked to leave the core, should others wait.
    slice_end: Time,
    /// Tells slices apart.
    number: u32,
    waiting: Vec<Entry>,
    /// Those that wait awake.
    ready: usize,
    /// The average of the queue when it last had threads.
    average: i64,
}

/// What became of a thread that went to sleep.
pub(crate) enum Left {
    /// It left the queue with this lag.
    With(i64),
    /// It lingers.
    Lingers,
}

impl RunQueue {
    /// A core without threads. A slice lasts so long, and ends at a tick, if there are ticks.
    pub(crate) fn new(slice: Time, tick: Time) -> Self {
        Self {
            slice: (slice as i64).max(1),
            tick,
            running: None,
            realtime: None,
            realtime_waiting: VecDeque::new(),
            counted: 0,
            protected: 0,
            slice_end: Time::MAX,
            number: 0,
            waiting: Vec::new(),
            ready: 0,
            average: 0,
        }
    }

    /// The thread that has the core, or [`NOBODY`].
    #[inline]
    pub(crate) fn running(&self) -> u32 {
        let realtime = self.realtime.map(|entry| entry.thread);
        realtime.or(self.running.map(|entry| entry.thread)).unwrap_or(NOBODY)
    }

    /// How many normal threads wait for the core, those that another core may take.
    pub(crate) fn movable(&self) -> usize {
        self.ready - self.realtime_waiting.len()
    }

    /// How many threads could run.
    pub(crate) fn load(&self) -> usize {
        self.ready + usize::from(self.running() != NOBODY)
    }

    /// The number of the slice, and when it is over: never, if no other thread wants the core.
    #[inline]
    pub(crate) fn slice(&self) -> (u32, Time) {
        (self.number, if self.ready == 0 { Time::MAX } else { self.slice_end })
    }

    /// Gives the core, which no thread has, to a thread.
    pub(crate) fn start(&mut self, thread: u32, lag: i64, at: Time) {
        self.counted = at;
        let entry = self.placed(thread, lag, at);
        self.run(entry, at);
    }

    /// Gives the core, which no thread has, to a thread of a real-time priority.
    pub(crate) fn start_realtime(&mut self, thread: u32, priority: u8) {
        self.run_realtime(Realtime { thread, priority });
    }

    /// Adds a thread of a real-time priority while another one has the core, behind or, `at_head`, before the others of its
    /// priority; says whether that other one has to leave the core now.
    pub(crate) fn add_realtime(&mut self, thread: u32, priority: u8, at_head: bool, now: Time) -> bool {
        let goes_before =
            |other: &Realtime| other.priority < priority || at_head && other.priority == priority;
        let waiting = &self.realtime_waiting;
        let place = waiting.iter().position(goes_before).unwrap_or(waiting.len());
        self.realtime_waiting.insert(place, Realtime { thread, priority });
        self.ready += 1;
        self.leaves_for_higher(now)
    }

    /// Gives a thread of this core another real-time priority, 0 for none; `lag` is what it is short of the average of the normal
    /// threads while it is none of them. Says whether the thread that runs has to leave the core now. One whose priority sinks comes
    /// before the others of its new one.
    pub(crate) fn set_priority(
        &mut self,
        thread: u32,
        (from, to): (u8, u8),
        lag: &mut i64,
        now: Time,
    ) -> bool {
        if self.running() == thread {
            if let Some(running) = &mut self.realtime {
                running.priority = to;
            }
            match (from, to) {
                (0, _) => {
                    self.count(now);
                    let average = self.mean();
                    if let Some(entry) = self.running.take() {
                        *lag = average - entry.ran;
                    }
                    self.average = average;
                    self.run_realtime(Realtime { thread, priority: to });
                }
                (_, 0) => {
                    self.realtime = None;
                    self.start(thread, *lag, now);
                }
                _ => self.slice_end = Time::MAX,
            }
            return self.leaves_for_higher(now);
        }
        if from > 0 {
            let Some(at) = self.realtime_waiting.iter().position(|entry| entry.thread == thread) else {
                return false; // it sleeps
            };
            self.realtime_waiting.remove(at);
            self.ready -= 1;
        } else {
            let Some(at) = self.waiting.iter().position(|entry| entry.thread == thread) else {
                return false;
            };
            self.count(now);
            let average = self.mean();
            let entry = self.waiting.remove(at);
            self.average = average;
            *lag = average - entry.ran;
            if entry.asleep {
                return false; // it lingered, and does so no more
            }
            self.ready -= 1;
        }
        match to {
            0 => self.add(thread, *lag, now),
            _ => self.add_realtime(thread, to, to < from, now),
        }
    }

    /// Whether a thread of a higher real-time priority waits than that of the one that runs.
    fn is_outranked(&self) -> bool {
        let priority = self.realtime.map_or(0, |running| running.priority);
        self.realtime_waiting.front().is_some_and(|first| first.priority > priority)
    }

    /// Ends the slice of the thread that runs if one of a higher priority waits; says so.
    fn leaves_for_higher(&mut self, now: Time) -> bool {
        let leaves = self.is_outranked();
        if leaves {
            self.slice_end = now;
        }
        leaves
    }

    fn run_realtime(&mut self, entry: Realtime) {
        self.realtime = Some(entry);
        self.number = self.number.wrapping_add(1);
        self.slice_end = Time::MAX;
    }

    /// Adds a thread while another one has the core; says whether that one has to leave it now.
    pub(crate) fn add(&mut self, thread: u32, lag: i64, now: Time) -> bool {
        let others = !self.waiting.is_empty();
        let renewed = self.count(now);
        let entry = self.placed(thread, lag, now);
        self.waiting.push(entry);
        self.came(thread, others && renewed, now)
    }

    /// Wakes a thread that lingers here; says whether the running one has to leave the core now. Nothing if it does not linger.
    pub(crate) fn wake(&mut self, thread: u32, now: Time) -> Option<bool> {
        let at = self.waiting.iter().position(|entry| entry.asleep && entry.thread == thread)?;
        let renewed = self.count(now);
        let average = self.mean();
        let entry = &mut self.waiting[at];
        entry.asleep = false;
        // What it was past the average may be gone; it gains nothing.
        if entry.ran < average {
            entry.ran = average;
            entry.deadline = average + self.slice;
        }
        Some(self.came(thread, renewed, now))
    }

    /// A thread that is in the queue now can run.
    fn came(&mut self, thread: u32, slice_over: bool, now: Time) -> bool {
        self.ready += 1;
        let Some(running) = self.running else { return false };
        if self.is_outranked() {
            return false; // it leaves for another thread
        }
        if self.ready == 1 {
            self.slice_end = self.next_end(now);
        }
        let average = self.mean();
        let protected = running.ran <= average && running.ran < self.protected;
        let first = || {
            let next = self.earliest(average)?;
            let stays = running.ran <= average && running.deadline <= next.deadline;
            Some(!stays && next.thread == thread)
        };
        let leaves = slice_over || !protected && first().unwrap_or(false);
        if leaves {
            self.slice_end = now;
        }
        leaves
    }

    /// The running thread goes to sleep; no thread has the core then.
    pub(crate) fn sleep(&mut self, now: Time) -> Left {
        if self.realtime.take().is_some() {
            return Left::With(0);
        }
        self.count(now);
        let average = self.mean();
        let Some(mut entry) = self.running.take() else { return Left::With(0) };
        self.average = average;
        let lag = average - entry.ran;
        if lag < 0 {
            entry.asleep = true;
            self.waiting.push(entry);
            return Left::Lingers;
        }
        // The kernel keeps a lag of two slices or a tick at most.
        Left::With(lag.min((2 * self.slice).max(self.tick as i64)))
    }

    /// The running thread has ended; no thread has the core then.
    pub(crate) fn end(&mut self, now: Time) {
        self.count(now);
        self.average = self.mean();
        (self.running, self.realtime) = (None, None);
    }

    /// Takes the next thread out of the queue. It gets the core, which no thread has until then, at that time.
    pub(crate) fn next(&mut self, now: Time, at: Time) -> Option<u32> {
        if let Some(first) = self.realtime_waiting.pop_front() {
            self.ready -= 1;
            self.run_realtime(first);
            return Some(first.thread);
        }
        loop {
            let average = self.mean();
            let next = self
                .earliest(average)
                .or_else(|| self.waiting.iter().min_by_key(|entry| entry.ran).copied())?;
            self.waiting.retain(|entry| entry.thread != next.thread);
            if next.asleep {
                self.average = average;
                continue;
            }
            self.ready -= 1;
            self.counted = now.max(at);
            self.run(next, at);
            return Some(next.thread);
        }
    }

    /// The running thread's slice is over. Says whether it leaves the core, which no thread has then; else a new slice begins.
    pub(crate) fn lapse(&mut self, now: Time) -> bool {
        let is_outranked = self.is_outranked();
        if let Some(Realtime { thread, priority }) = self.realtime {
            self.slice_end = Time::MAX;
            if is_outranked {
                self.realtime = None;
                self.add_realtime(thread, priority, true, now);
            }
            return is_outranked;
        }
        self.count(now);
        let average = self.mean();
        let Some(running) = self.running else { return false };
        let awake = self.waiting.iter().any(|entry| !entry.asleep);
        let stays = !is_outranked
            && (!awake
                || running.ran <= average
                    && self
                        .earliest(average)
                        .is_none_or(|next| next.asleep || running.deadline < next.deadline));
        if stays {
            self.run(running, now);
            return false;
        }
        self.waiting.push(Entry { last_ran: now, ..running });
        self.ready += 1;
        self.running = None;
        true
    }

    /// The running thread gives way to those that wait: it forfeits what is left of its slice, as if it had run for so long. Says
    /// whether it leaves the core, which no thread has then.
    pub(crate) fn yields(&mut self, now: Time) -> bool {
        if self.ready == 0 {
            return false;
        }
        if let Some(Realtime { thread, priority }) = self.realtime {
            // It goes behind the others of its priority.
            let leaves = self.realtime_waiting.front().is_some_and(|first| first.priority >= priority);
            if leaves {
                self.realtime = None;
                self.add_realtime(thread, priority, false, now);
            }
            return leaves;
        }
        self.count(now);
        let average = self.mean();
        if let Some(running) = self.running.as_mut().filter(|running| running.ran <= average) {
            running.ran = running.deadline;
            running.deadline += self.slice;
        }
        self.lapse(now)
    }

    /// Takes a waiting thread that last ran before a time, for another core; gives its lag.
    pub(crate) fn take_idle_since(&mut self, time: Time, now: Time) -> Option<(u32, i64)> {
        self.count(now);
        let average = self.mean();
        let at = self.waiting.iter().position(|entry| !entry.asleep && entry.last_ran <= time)?;
        let entry = self.waiting.remove(at);
        self.ready -= 1;
        Some((entry.thread, average - entry.ran))
    }

    /// Forgets all threads.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.slice as Time, self.tick);
    }

    fn run(&mut self, mut entry: Entry, at: Time) {
        if entry.ran >= entry.deadline {
            entry.deadline = entry.ran + self.slice;
        }
        self.protected = entry.deadline;
        self.running = Some(entry);
        self.number = self.number.wrapping_add(1);
        self.slice_end = self.next_end(at);
    }

    /// Counts what the running thread has run; says whether a slice was over meanwhile.
    fn count(&mut self, now: Time) -> bool {
        let elapsed = now.saturating_sub(self.counted) as i64;
        self.counted = self.counted.max(now);
        let Some(running) = &mut self.running else { return false };
        running.ran += elapsed;
        let over = running.ran >= running.deadline;
        if over {
            running.deadline = running.ran + self.slice;
        }
        over || running.ran >= self.protected
    }

    /// A thread's place in the queue: after the average by what it has run too much, or before it. The average comes nearer by
    /// its coming, and its lag stays.
    fn placed(&self, thread: u32, lag: i64, now: Time) -> Entry {
        let others = (self.waiting.len() + usize::from(self.running.is_some())) as i64;
        let before = if others == 0 { 0 } else { lag + lag / others };
        let ran = self.mean() - before;
        Entry { thread, ran, deadline: ran + self.slice, asleep: false, last_ran: now }
    }

    /// The average of what the queue's threads have run.
    fn mean(&self) -> i64 {
        let all = || self.waiting.iter().chain(&self.running);
        let count = all().count() as i128;
        if count == 0 {
            return self.average;
        }
        let sum: i128 = all().map(|entry| i128::from(entry.ran)).sum();
        // Rounded up: of two threads that have run the same neither is past the average.
        (sum + count - 1).div_euclid(count) as i64
    }

    /// Of the waiting threads that are eligible, the one whose slice would be over first.
    fn earliest(&self, average: i64) -> Option<Entry> {
        self.waiting.iter().filter(|entry| entry.ran <= average).min_by_key(|entry| entry.deadline).copied()
    }

    /// When the running thread is asked next, from a time on: at the first tick past its slice.
    fn next_end(&self, from: Time) -> Time {
        let left = self.running.map_or(0, |running| self.protected.min(running.deadline) - running.ran);
        let end = from + left.max(0) as Time;
        end.checked_div(self.tick).map_or(end, |ticks| (ticks + 1) * self.tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Time = 100;

    fn queue(tick: Time) -> RunQueue {
        RunQueue::new(SLICE, tick)
    }

    /// Lets who runs leave when its slice is over; gives who runs then, and since when.
    fn turn(queue: &mut RunQueue) -> (u32, Time) {
        let (_, end) = queue.slice();
        if queue.lapse(end) {
            queue.next(end, end);
        }
        (queue.running(), end)
    }

    #[test]
    fn threads_take_turns_and_slices_end_at_ticks() {
        for (tick, ends) in [(0, [100, 200, 300]), (250, [250, 500, 750])] {
            let mut queue = queue(tick);
            queue.start(0, 0, 0);
            assert_eq!(queue.slice().1, Time::MAX, "nobody else wants the core");
            assert!(!queue.add(1, 0, 0));
            let turns: Vec<_> = (0..3).map(|_| turn(&mut queue)).collect();
            assert_eq!(turns, [1, 0, 1].into_iter().zip(ends).collect::<Vec<_>>());
        }
    }

    #[test]
    fn who_was_short_of_its_time_takes_the_core_when_it_wakes_up() {
        let mut queue = queue(0);
        queue.start(0, 0, 0);
        queue.add(1, 0, 0);
        assert_eq!(turn(&mut queue), (1, 100));
        // It has run for 10 of the 100 that the other has.
        let Left::With(lag) = queue.sleep(110) else { panic!("it is short of the average") };
        assert_eq!(lag, 45);
        assert_eq!(queue.next(110, 110), Some(0));
        assert!(queue.add(1, lag, 120), "45 short");
        assert_eq!(queue.slice().1, 120);
        assert!(queue.lapse(120));
        assert_eq!(queue.next(120, 120), Some(1));
    }

    #[test]
    fn who_slept_by_itself_waits_for_the_end_of_a_slice() {
        let mut queue = queue(0);
        queue.start(0, 0, 0);
        assert!(matches!(queue.sleep(50), Left::With(0)));
        assert_eq!(queue.next(50, 50), None);
        queue.start(1, 0, 60);
        assert!(!queue.add(0, 0, 80), "the other is protected");
        assert_eq!(queue.slice().1, 160);
    }

    #[test]
    fn who_has_run_too_long_lingers_until_its_turn_would_have_come() {
        let mut queue = queue(0);
        queue.start(0, 0, 0);
        queue.add(1, 0, 0);
        assert!(matches!(queue.sleep(80), Left::Lingers));
        assert_eq!((queue.next(80, 80), queue.movable()), (Some(1), 0));
        // Woken before: still past the average.
        assert_eq!(queue.wake(0, 100), Some(false));
        assert_eq!(queue.movable(), 1);
        assert_eq!(queue.wake(0, 100), None, "it is awake");
        // Asleep again when the other has left: no thread has the core.
        assert_eq!(turn(&mut queue), (0, 180));
        queue.sleep(280);
        assert_eq!(queue.next(280, 280), Some(1));
        queue.end(1_000);
        assert_eq!(queue.next(1_000, 1_000), None);
        assert_eq!(queue.wake(0, 1_000), None);
    }

    #[test]
    fn who_yields_comes_after_all_that_are_eligible() {
        let mut queue = queue(0);
        queue.start(0, 0, 0);
        assert!(!queue.yields(10), "nobody else wants the core");
        queue.add(1, 0, 10);
        queue.add(2, 0, 10);
        let mut turns = vec![];
        for now in 11..15 {
            assert!(queue.yields(now));
            turns.extend(queue.next(now, now));
        }
        assert_eq!(turns, [1, 2, 0, 1]);
    }

    #[test]
    fn only_threads_that_have_waited_are_taken_for_other_cores() {
        let mut queue = queue(0);
        queue.start(0, 0, 0);
        queue.add(1, 0, 0);
        assert_eq!(turn(&mut queue), (1, 100));
        assert_eq!(queue.take_idle_since(50, 150), None);
        queue.add_realtime(2, 1, false, 150);
        assert_eq!(queue.movable(), 1, "those of real-time priorities stay");
        assert_eq!(queue.take_idle_since(100, 150).map(|(thread, _)| thread), Some(0));
        assert_eq!(queue.movable(), 0);
    }
}
