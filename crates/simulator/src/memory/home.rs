//! A line's home: the directory entry that every die asks.
//!
//! The home serves one request of a line at a time. It asks the owner for the data, or every die that has the line for
//! its copy, and takes the next request when it has been answered: the requester hears of it while the next probe is on
//! its way. Who comes next among those that wait is left to chance: a busy home has requests issued again, and they
//! come back in no order (`coherency_retries.csv` counts them on one machine). Where the machine file says what such a
//! try takes, the answer comes behind one try of each that waits, and they take the memory node, too.

use machine::LINE_BYTES;

use super::Memory;
use super::lines::Bank;
use crate::clock::{Clock, Event};
use crate::directory::{Probe, Request, State, next_state, probe};
use crate::hardware::{Dies, MAX_DIES};
use crate::report::Distance;
use crate::{NOBODY, Time};

/// Marks a home that has a request under way whose end is not known yet.
pub(crate) const UNDER_WAY: Time = Time::MAX;

/// Requests of a line among which its home chooses; the others stand behind them.
const TRACKED: usize = 64;

/// A request at its line's home.
#[derive(Clone, Copy)]
struct AtHome {
    line: u32,
    request: Request,
    core: u32,
    die: usize,
    home: usize,
    /// When the home has looked the line up.
    at: Time,
}

impl Memory {
    /// Gives a line its banks, and its home unless it has one.
    #[cold]
    pub(crate) fn first_use(&mut self, line: u32, die: usize) {
        let dies = self.hardware.dies;
        let node = self.interconnect.latencies.node_of(die);
        let entry = self.lines.get(line);
        entry.banks = vec![Bank::default(); dies].into();
        if !entry.has_home() {
            entry.home = node as u16;
        }
    }

    /// Sets the home of the lines of a block.
    pub(crate) fn place_block(&mut self, offset: usize, bytes: usize, node: u32) {
        let node = (node as usize % self.hardware.nodes) as u16;
        for line in offset / LINE_BYTES..(offset + bytes.max(1)).div_ceil(LINE_BYTES) {
            self.lines.get(line as u32).home = node;
        }
    }

    /// A request leaves its die for the home; gives the time of the answer where that is known already.
    pub(crate) fn send_home(&mut self, clock: &mut Clock, thread: u32, at: Time) -> Option<Time> {
        let asking = self.requesters.get(thread);
        let (line, die) = (asking.line, self.caches[asking.core as usize].die as usize);
        let home = self.lines.get(line).home as usize;
        let arrival = self.interconnect.reach_node(die, home, at);
        if arrival == clock.now {
            return self.queue_home(clock, thread, arrival);
        }
        clock.push(arrival, Event::HomeArrival(thread));
        None
    }

    /// A request reaches its line's home.
    pub(crate) fn arrive_home(&mut self, clock: &mut Clock, thread: u32) {
        let now = clock.now;
        if let Some(done) = self.queue_home(clock, thread, now) {
            clock.push(done, Event::Resume(thread));
        }
    }

    fn queue_home(&mut self, clock: &mut Clock, thread: u32, now: Time) -> Option<Time> {
        let asking = self.requesters.get_mut(thread);
        asking.at_home = now;
        let line = asking.line;
        let entry = self.lines.get(line);
        let (is_first, free) = (entry.at_home.is_empty(), entry.home_free);
        if is_first && free <= now {
            return self.serve_at_home(clock, thread, now);
        }
        entry.counts.home_waits += 1;
        if is_first && free != UNDER_WAY {
            clock.push(free, Event::HomeFree(line));
        }
        entry.at_home.push_back(thread);
        None
    }

    /// The home takes the next request that waits.
    pub(crate) fn serve_next(&mut self, clock: &mut Clock, line: u32) {
        let now = clock.now;
        let Some(thread) = self.take_waiting(line) else { return };
        if let Some(done) = self.serve_at_home(clock, thread, now) {
            clock.push(done, Event::Resume(thread));
            self.open_home(clock, line);
        }
    }

    /// Takes one of those that wait at a line's home.
    fn take_waiting(&mut self, line: u32) -> Option<u32> {
        let queue = &mut self.lines.get(line).at_home;
        let position = match queue.len() {
            0 | 1 => 0,
            waiting => (self.random.next() % waiting.min(TRACKED) as u64) as usize,
        };
        queue.remove(position)
    }

    /// Lets the next request come when the home is free.
    fn open_home(&mut self, clock: &mut Clock, line: u32) {
        let entry = self.lines.get(line);
        let free = entry.home_free;
        if !entry.at_home.is_empty() {
            clock.push(free.max(clock.now), Event::HomeFree(line));
        }
    }

    fn at_home(&mut self, thread: u32, at: Time) -> AtHome {
        let asking = self.requesters.get(thread);
        let (line, request, core) = (asking.line, asking.request, asking.core);
        let die = self.caches[core as usize].die as usize;
        AtHome { line, request, core, die, home: self.lines.get(line).home as usize, at }
    }

    /// The home serves a request; gives the time of the answer, unless another die has to be asked first.
    fn serve_at_home(&mut self, clock: &mut Clock, thread: u32, now: Time) -> Option<Time> {
        let mut asked = self.at_home(thread, now);
        let start;
        (start, asked.at) = self.interconnect.look_up(asked.home, now);
        let asking = self.requesters.get_mut(thread);
        asking.queued = start - asking.at_home;
        let waited = start - asking.issued.min(start);
        let broadcasts = self.hardware.broadcasts;
        let entry = self.lines.get(asked.line);
        entry.counts.home_wait_ps += waited;
        entry.counts.home_requests += 1;
        let ask = probe(asked.request, entry.state, broadcasts);
        let asks_owner = matches!(ask, Probe::Direct | Probe::DirectInvalidate);
        if !asks_owner && self.is_denied(clock, thread) {
            self.lines.get(asked.line).home_free = asked.at;
            return Some(self.interconnect.reach_die(asked.home, asked.die, asked.at));
        }
        let entry = self.lines.get(asked.line);
        entry.counts.probes += u64::from(ask != Probe::None);
        let (done, answered) = match ask {
            Probe::Direct | Probe::DirectInvalidate => {
                entry.home_free = UNDER_WAY;
                let owner_die = entry.owner_die as usize;
                let probed = self.interconnect.reach_die(asked.home, owner_die, asked.at);
                clock.push(probed, Event::OwnerProbed(thread));
                return None;
            }
            _ if asked.request.writes() => self.invalidate_others(clock, asked, ask),
            _ => (self.load_clean(asked), asked.at + self.hardware.serial_read),
        };
        self.answered(clock, asked, now, (done, answered));
        Some(done)
    }

    /// The request is settled: its die has the line from `done` on, and the home takes the next one at `free`, or later
    /// if it has to refuse others meanwhile.
    fn answered(&mut self, clock: &mut Clock, asked: AtHome, now: Time, (done, free): (Time, Time)) {
        let entry = self.lines.get(asked.line);
        let tries = (entry.at_home.len() + entry.in_die.len()) as u64 * self.hardware.refused_try;
        if tries > 0 {
            self.interconnect.refuse(asked.home, now, tries);
        }
        let entry = self.lines.get(asked.line);
        entry.home_free = free + tries;
        entry.banks[asked.die].busy = entry.banks[asked.die].busy.max(done);
        if self.hardware.line_pairs {
            self.fetch_pair(clock, asked.line, asked.core, asked.die);
        }
    }

    /// A home's probe reaches the die that owns the line: when those that came before are served, it goes on to the
    /// core.
    pub(crate) fn owner_probed(&mut self, clock: &mut Clock, thread: u32) {
        let now = clock.now;
        let asking = self.requesters.get(thread);
        let line = asking.line;
        // By when it would have come had the home not served others first.
        let asked = now - asking.queued;
        let (transfer, read, serial) =
            (self.hardware.local_transfer, self.hardware.local_read, self.hardware.serial_read);
        let in_core = !self.hardware.resolves_locally || self.lines.get(line).writer != NOBODY;
        let take = if in_core { transfer } else { read };
        let entry = self.lines.get(line);
        let stays = entry.state == State::Owned;
        let bank = &mut entry.banks[entry.owner_die as usize];
        let start = now.max(bank.busy);
        // A line that stays where it is can be sent to the next one meanwhile.
        bank.busy = start + if stays { serial } else { take };
        (bank.is_probed, bank.is_overtaken) = (true, false);
        let sent = start + take;
        self.requesters.get_mut(thread).sent = sent;
        clock.push(self.hardware.hears(asked, start, sent), Event::OwnerAnswers(thread));
    }

    /// The owner of a line learns that the home asks for it, and sends it to the requester.
    pub(crate) fn owner_answers(&mut self, clock: &mut Clock, thread: u32) {
        let now = clock.now;
        let asked = self.at_home(thread, now);
        let AtHome { line, request, core, die, .. } = asked;
        let entry = self.lines.get(line);
        let bank = &mut entry.banks[entry.owner_die as usize];
        if std::mem::take(&mut bank.is_overtaken) {
            return self.owner_probed(clock, thread); // it comes after them
        }
        bank.is_probed = false;
        let (migrates, protocol) = (self.hardware.migrates(), self.hardware.protocol);
        let sent = self.requesters.get(thread).sent;
        let entry = self.lines.get(line);
        let (owner_die, state) = (entry.owner_die as usize, entry.state);
        let stays = state == State::Owned;
        entry.banks[owner_die].until = 0;
        // A changed line that one core has to itself moves, as the reader is likely to write it next; one that the
        // owner's neighbours read is shared.
        let migrates = migrates && state == State::Modified && owner_die != die && entry.is_in_one_core();
        let moves = migrates && !self.is_used_in_die(line, owner_die);
        let denied = self.is_denied(clock, thread);
        if denied {
            // Everything stays as it is.
        } else if request.writes() || moves {
            self.invalidate_die(clock, line, owner_die, core, now);
            self.lines.get(line).own(core, die);
            if !request.writes() {
                // If the reader does not write it, the next load finds it unchanged, and it is shared.
                self.lines.get(line).state = State::Exclusive;
            }
        } else {
            let entry = self.lines.get(line);
            entry.state = next_state(protocol, Request::Load, state);
            entry.add(core);
            entry.dies |= 1 << die;
            let writer = std::mem::replace(&mut entry.writer, NOBODY);
            if writer != NOBODY {
                self.leaves(clock, writer, line, false, now);
            }
        }
        self.ask_again(clock, line, owner_die as u32);
        let far = self.interconnect.latencies.distance(die, owner_die);
        self.lines.get(line).counts.misses[far as usize] += 1;
        let done = self.interconnect.between_dies(owner_die, die, sent);
        let free = if stays {
            now + self.hardware.serial_read
        } else {
            self.interconnect.reach_node(owner_die, asked.home, sent)
        };
        self.answered(clock, asked, now, (done, free));
        clock.push(done, Event::Resume(thread));
        self.open_home(clock, line);
    }

    /// A load of a line that no core has changed: memory has it.
    fn load_clean(&mut self, asked: AtHome) -> Time {
        let AtHome { line, core, die, home, at, .. } = asked;
        let done = self.interconnect.reach_die(home, die, at + self.hardware.memory);
        let entry = self.lines.get(line);
        entry.share(self.hardware.protocol, core, die);
        entry.counts.misses[Distance::Memory as usize] += 1;
        done
    }

    /// A write to a line that is in no cache, or that several share: gives when the requester has it, and when the home
    /// has all answers, which come to it before it grants the line.
    fn invalidate_others(&mut self, clock: &mut Clock, asked: AtHome, ask: Probe) -> (Time, Time) {
        let AtHome { line, core, die, home, at, .. } = asked;
        let local = self.hardware.resolves_locally;
        let entry = self.lines.get(line);
        let has_data = entry.has(core) || local && entry.dies >> die & 1 != 0;
        let (holders, state) = (entry.dies, entry.state);
        let (data, mut far) = match state {
            _ if has_data => (at, Distance::SameDie),
            State::Owned => self.data_from_owner(asked),
            _ => (self.interconnect.reach_die(home, die, at + self.hardware.memory), Distance::Memory),
        };
        let told = match ask {
            Probe::None => 0,
            Probe::BroadcastInvalidate => Dies::MAX >> (MAX_DIES - self.hardware.dies),
            _ => holders,
        };
        let (invalidate, read) = (self.hardware.invalidate, self.hardware.local_read);
        let mut answered = at;
        // A die that answers for its cores sees to its own copies itself.
        let mut left = if local { told & !(1 << die) } else { told };
        while left != 0 {
            let other = left.trailing_zeros() as usize;
            left &= left - 1;
            let probed = self.interconnect.reach_die(home, other, at);
            let bank = &mut self.lines.get(line).banks[other];
            let start = probed.max(bank.busy);
            // A die that has no copy says so as fast as its cache can be looked up.
            let has = holders >> other & 1 != 0;
            let gone = start + if has { invalidate } else { read };
            if other != die {
                bank.busy = bank.busy.max(gone);
                bank.until = start;
            }
            if has {
                self.invalidate_die(clock, line, other, core, start + (gone - start) / 2);
            }
            far = far.max(self.interconnect.latencies.distance(die, other));
            answered = answered.max(self.interconnect.reach_node(other, home, gone));
        }
        let mut done = data.max(self.interconnect.reach_die(home, die, answered));
        if local && self.others_in_die(line, core, die) {
            // The die has the line now, and takes it from the requester's neighbours.
            let start = done.max(self.lines.get(line).banks[die].busy);
            done = start + invalidate;
            self.invalidate_die(clock, line, die, core, start + invalidate / 2);
        }
        self.lines.get(line).counts.misses[far as usize] += 1;
        self.lines.get(line).own(core, die);
        (done, answered)
    }

    /// The owner of a changed line that others share sends it.
    fn data_from_owner(&mut self, asked: AtHome) -> (Time, Distance) {
        let AtHome { line, die, home, at, .. } = asked;
        let owner_die = self.lines.get(line).owner_die as usize;
        let probed = self.interconnect.reach_die(home, owner_die, at);
        let sent = probed.max(self.lines.get(line).banks[owner_die].busy) + self.hardware.local_transfer;
        (
            self.interconnect.between_dies(owner_die, die, sent),
            self.interconnect.latencies.distance(die, owner_die),
        )
    }
}
