//! What the running thread does: accesses, waits, choices and reads of the clock.

use std::panic::Location as Site;

use machine::{Deadline, Event as Note, Ordering};

use super::Arrival;
use super::progress::{Attempt, LONG_NS, MOST_OWN_ACCESSES, MOST_POLLS, PolledLoad, Reads};
use super::session::{Session, State};
use crate::explorer::Access;
use crate::graph::{Compare, EventId, LocationId};
use crate::model::{Model, Strength};
use crate::violation::Violation;

impl Session {
    /// A prepared access of the running thread; the client's own thread makes none: it gets what the location holds.
    #[inline]
    fn access(
        &self,
        address: usize,
        strength: impl FnOnce(Model) -> Strength,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) -> Result<Access, (LocationId, u64)> {
        let access = self.with(|state| {
            let location = state.location(address);
            let Some(thread) = state.thread else {
                state.own_accesses += 1;
                return Err((location, state.settled(location), state.own_accesses));
            };
            let strength = strength(state.model);
            Ok(Access { thread, location, strength, ordering, site: Some(site), compare: None })
        });
        access.map_err(|(location, value, own_accesses)| {
            assert!(
                own_accesses <= MOST_OWN_ACCESSES,
                "the client's own thread accesses memory more than {MOST_OWN_ACCESSES} times: it goes on for ever, \
                 since it is alone"
            );
            (location, value)
        })
    }

    /// Reads a word and says which event that was.
    #[inline]
    pub(super) fn load(
        &self,
        address: usize,
        ordering: Ordering,
        site: &'static Site<'static>,
        mut wanted: Option<&mut dyn FnMut(u64) -> bool>,
    ) -> (Option<EventId>, u64) {
        if wanted.is_none() && self.in_transaction() {
            return (None, self.access_in_transaction(address, site, |old| old));
        }
        let access = match self.access(address, |model| model.load(ordering), ordering, site) {
            Ok(access) => access,
            Err((_, value)) => return (None, value),
        };
        let location = access.location;
        if let Some(polled) = self.with(|state| state.polled)
            && polled.delayed
            && polled.location == location
            && polled.ordering == ordering
            && wanted.is_none()
        {
            return self.poll_again(polled);
        }
        let (read, value) = self.answered(|state| {
            let wanted = wanted.as_mut().map(|wanted| &mut **wanted as &mut dyn FnMut(u64) -> bool);
            state.engine().read(access, wanted)
        });
        let has_space = self.with(|state| {
            state.polled = Some(PolledLoad { location, ordering, read, value, delayed: false, repeated: 0 });
            state.attempted(read)
        });
        if !has_space {
            self.cannot_follow();
        }
        (Some(read), value)
    }

    /// Loads of one word by one ordering, with nothing but delays between them, count as one: what a poll found changed nothing, so
    /// the executions in which it was not taken show the same, and have all the polls that are left. A thread that
    /// only goes on polling waits.
    fn poll_again(&self, polled: PolledLoad) -> (Option<EventId>, u64) {
        if polled.repeated == MOST_POLLS {
            self.with(|state| {
                if let Some(thread) = state.thread {
                    state.engine().violate(thread, Violation::EndlessPolling { thread });
                }
            });
            self.wait(Reads::of(&[Some(polled.read)]), false, "polls a word that does not change");
        }
        self.with(|state| {
            state.polled = Some(PolledLoad { repeated: polled.repeated + 1, delayed: false, ..polled });
        });
        (Some(polled.read), polled.value)
    }

    /// Time passes.
    pub(super) fn delay(&self) {
        self.with(|state| {
            if let Some(polled) = &mut state.polled {
                polled.delayed = true;
            }
        });
    }

    #[inline]
    pub(super) fn store(&self, address: usize, value: u64, ordering: Ordering, site: &'static Site<'static>) {
        if self.in_transaction() {
            self.access_in_transaction(address, site, |_| value);
            return;
        }
        let access = match self.access(address, |model| model.store(ordering), ordering, site) {
            Ok(access) => access,
            Err((location, _)) => return self.settle(location, value),
        };
        let fenced = self.with(|state| {
            state.attempt_changes();
            state.model.fence_after_store(ordering)
        });
        self.answered(|state| state.engine().write(access, value, None));
        if fenced {
            self.answered(|state| {
                state.engine().add_fence(access.thread, Strength::FULL, ordering, Some(site))
            });
        }
    }

    /// Reads a word and writes what `update` makes of it, if anything; gives what was read.
    #[inline]
    pub(super) fn read_modify_write(
        &self,
        address: usize,
        ordering: Ordering,
        site: &'static Site<'static>,
        update: impl Fn(u64) -> u64,
    ) -> u64 {
        let ordering = self.updates(address, ordering);
        match self.access(address, |model| model.rmw_read(ordering), ordering, site) {
            Ok(read) => {
                self.exchange((read, ordering), |model| model.rmw_write(ordering), |old| Some(update(old)))
            }
            Err((location, old)) => {
                self.settle(location, update(old));
                old
            }
        }
    }

    /// The two halves of a read-modify-write; with the ordering of one that fails.
    fn exchange(
        &self,
        (access, failure): (Access, Ordering),
        write: impl FnOnce(Model) -> Strength,
        update: impl Fn(u64) -> Option<u64>,
    ) -> u64 {
        let (read, old) = self.answered(|state| state.engine().read(access, None));
        let new = update(old);
        let (has_space, write) = self.with(|state| {
            let has_space = state.attempted(read);
            let Some(new) = new else {
                // It changed nothing: a load after a delay may count as the same poll.
                state.polled = Some(PolledLoad {
                    location: access.location,
                    ordering: failure,
                    read,
                    value: old,
                    delayed: false,
                    repeated: 0,
                });
                return (has_space, None);
            };
            let write = Access { strength: write(state.model), compare: None, ..access };
            match &mut state.attempt {
                // A store to part of a word is one whatever was there.
                Some(attempt) if new == old && !access.strength.has(Strength::PART) => {
                    attempt.pending = Some((write, new, read));
                    (has_space, None)
                }
                attempt => {
                    if let Some(attempt) = attempt {
                        attempt.changed = true;
                    }
                    (has_space, Some((write, new)))
                }
            }
        });
        if !has_space {
            self.cannot_follow();
        }
        if let Some((write, new)) = write {
            self.answered(|state| state.engine().write(write, new, Some(read)));
        }
        old
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn compare_exchange(
        &self,
        address: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
        site: &'static Site<'static>,
    ) -> Result<u64, u64> {
        if self.in_transaction() {
            let exchange = |old| if old == current { new } else { old };
            let old = self.access_in_transaction(address, site, exchange);
            return if old == current { Ok(old) } else { Err(old) };
        }
        let old = match self.access(address, |model| model.rmw_read(success), success, site) {
            Ok(access) => {
                let strength = self.with(|state| state.model.failed_exchange(success, failure));
                let compare = Compare { expected: current, success: access.strength, failure: strength };
                let access = Access { compare: Some(compare), ..access };
                let update = |old| (old == current).then_some(new);
                self.exchange((access, failure), |model| model.rmw_write(success), update)
            }
            Err((location, old)) => {
                if old == current {
                    self.settle(location, new);
                }
                old
            }
        };
        if old == current { Ok(old) } else { Err(old) }
    }

    /// Writes the bits of `mask` and leaves the others.
    pub(super) fn store_part(
        &self,
        address: usize,
        mask: u64,
        bits: u64,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) {
        if self.in_transaction() {
            self.access_in_transaction(address, site, |old| old & !mask | bits);
            return;
        }
        let half = Strength::EXCLUSIVE.with(Strength::PART);
        let write = move |model: Model| model.store(ordering).with(half);
        let access = match self.access(address, |_| half, ordering, site) {
            Ok(access) => access,
            Err((location, old)) => return self.settle(location, old & !mask | bits),
        };
        let scheduled = self.with(|state| {
            state.buffers_parts |= matches!(state.model, Model::Tso | Model::Pso);
            state.attempt_changes();
            state.is_scheduled().then(|| write(state.model))
        });
        if let Some(strength) = scheduled {
            let access = Access { strength, ..access };
            return self.answered(|state| state.walker().write_part(access, mask, bits));
        }
        self.exchange((access, ordering), write, |old| Some(old & !mask | bits));
    }

    pub(super) fn fence(&self, ordering: Ordering, site: &'static Site<'static>) {
        if let Some(thread) = self.thread() {
            self.answered(|state| state.engine().fence(thread, ordering, Some(site)));
        }
    }

    pub(super) fn plain(&self, address: usize, written: Option<u64>, site: &'static Site<'static>) -> u64 {
        match self.access(address, |_| Strength::NONE, Ordering::Relaxed, site) {
            Ok(access) => {
                if written.is_some() {
                    self.with(State::attempt_changes);
                }
                self.answered(|state| state.engine().plain(access, written))
            }
            Err((location, old)) => {
                let value = written.unwrap_or(old);
                self.settle(location, value);
                value
            }
        }
    }

    pub(super) fn note(&self, note: Note, site: &'static Site<'static>) {
        if let Some(thread) = self.thread() {
            self.answered(|state| state.engine().note(thread, note, Some(site)));
        }
    }

    pub(super) fn choose(&self, choices: u64, site: &'static Site<'static>) -> u64 {
        let thread = self.thread().expect("only threads choose");
        self.answered(|state| state.engine().choose(thread, choices, Some(site)))
    }

    /// Whether the thread, which is about to fall asleep on a word, finds it changed.
    pub(super) fn finds_changed(&self, address: usize, expected: u64, site: &'static Site<'static>) -> bool {
        let thread = self.thread().expect("only threads choose");
        let word = self.with(|state| state.location(address));
        self.answered(|state| state.engine().fall_asleep(thread, word, expected, Some(site))) == 1
    }

    /// It has fallen asleep, or found the word changed.
    pub(super) fn has_looked(&self) {
        self.with(|state| state.engine().commit_transaction());
    }

    /// The clock: of each two reads by a thread the second may come too late for anything.
    pub(super) fn clock_ns(&self, site: &'static Site<'static>) -> u64 {
        if self.thread().is_none() {
            return 0;
        }
        let may_pass =
            self.with(|state| std::mem::replace(&mut state.time.is_read, true) && !state.time.passed);
        if may_pass && self.choose(2, site) == 1 {
            self.with(|state| {
                state.time.passed = true;
                state.time.ns += LONG_NS;
            });
        }
        self.with(|state| state.time.ns)
    }

    /// A wait of the running thread ended since its deadline has passed, which its clock now says too.
    pub(super) fn has_passed(&self, deadline: Option<Deadline>) {
        if let Some(deadline) = deadline {
            self.with(|state| state.time.ns = state.time.ns.max(deadline.at_ns));
        }
    }

    /// The thread waits; see [`Explorer::wait`]. Does not return.
    pub(super) fn wait(&self, reads: Reads, timed: bool, what: &'static str) -> ! {
        if self.in_transaction() {
            self.leave();
        }
        let Some(thread) = self.thread() else {
            panic!("the client's own thread {what}, but it is alone, and no thread ends that");
        };
        self.with(|state| state.engine().wait(thread, &reads.list[..reads.count], timed, what));
        self.never_goes_on()
    }

    /// Runs an attempt of a `spin_rmw`. If it failed and changed nothing, gives what it read, for waiting.
    pub(super) fn attempt(&self, attempt: impl FnOnce() -> bool) -> Result<(), Option<Reads>> {
        self.with(|state| (state.attempt, state.polled) = (Some(Attempt::default()), None));
        let succeeded = attempt();
        let done = self.with(|state| state.attempt.take()).expect("attempts do not nest");
        if !succeeded && !done.changed {
            return Err(Some(done.reads));
        }
        if done.went_on {
            self.cannot_follow();
        }
        if let Some((access, value, read)) = done.pending {
            self.answered(|state| state.engine().write(access, value, Some(read)));
        }
        if succeeded { Ok(()) } else { Err(None) }
    }

    /// The location that stands for the sleepers of the futex word at an address.
    pub(super) fn queue_of(&self, address: usize) -> LocationId {
        self.with(|state| {
            let word = state.location(address);
            state.arena.queue_of(word)
        })
    }

    /// The location of those that have arrived, as bits.
    fn arrivals(&self) -> LocationId {
        self.with(|state| state.arena.queue_of(LocationId::MAX))
    }

    /// The running thread has arrived.
    pub(super) fn arrive(&self, thread: usize, site: &'static Site<'static>) {
        self.update_hidden(self.arrivals(), site, |arrived| arrived | 1 << thread);
    }

    /// The running thread begins to wait for another one, if there is one that runs. What a wait rests on is no repeated poll.
    pub(super) fn begins_to_wait(&self, how: Arrival, site: &'static Site<'static>) {
        let arrives = self.with(|state| {
            state.polled = None;
            state.thread.filter(|_| state.arrival == Some(how))
        });
        if let Some(thread) = arrives {
            self.arrive(thread, site);
        }
    }

    /// Waits until a thread has arrived. Executions in which it never does are left out.
    pub(super) fn until_arrived(&self, thread: usize, site: &'static Site<'static>) {
        let mut has_arrived = |arrived| arrived & 1 << thread != 0;
        let (read, arrived) =
            self.load_hidden(self.arrivals(), Ordering::Acquire, site, Some(&mut has_arrived));
        if !has_arrived(arrived) {
            self.wait(Reads::of(&[Some(read)]), true, "waits for a thread that never comes");
        }
    }

    fn hidden(
        &self,
        location: LocationId,
        strength: impl FnOnce(Model) -> Strength,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) -> Access {
        let (thread, strength) = self.with(|state| (state.thread, strength(state.model)));
        let thread = thread.expect("the client's own thread has no accesses of its own");
        Access { thread, location, strength, ordering, site: Some(site), compare: None }
    }

    /// Reads a location that stands for something else than memory.
    pub(super) fn load_hidden(
        &self,
        location: LocationId,
        ordering: Ordering,
        site: &'static Site<'static>,
        mut wanted: Option<&mut dyn FnMut(u64) -> bool>,
    ) -> (EventId, u64) {
        let access = self.hidden(location, |model| model.load(ordering), ordering, site);
        self.answered(|state| {
            let wanted = wanted.as_mut().map(|wanted| &mut **wanted as &mut dyn FnMut(u64) -> bool);
            state.engine().read(access, wanted)
        })
    }

    pub(super) fn store_hidden(
        &self,
        location: LocationId,
        value: u64,
        ordering: Ordering,
        site: &'static Site<'static>,
    ) {
        let access = self.hidden(location, |model| model.store(ordering), ordering, site);
        self.answered(|state| state.engine().write(access, value, None));
    }

    pub(super) fn update_hidden(
        &self,
        location: LocationId,
        site: &'static Site<'static>,
        update: impl Fn(u64) -> u64,
    ) -> u64 {
        let ordering = Ordering::AcqRel;
        let access = self.hidden(location, |model| model.rmw_read(ordering), ordering, site);
        self.exchange((access, ordering), |model| model.rmw_write(ordering), |old| Some(update(old)))
    }
}
