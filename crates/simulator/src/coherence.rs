//! How a request finds its line: in its die's cache, or by way of the line's home.
//!
//! Two levels. A die's last-level cache answers what its cores have among them, one request after another. What it
//! cannot answer goes to the line's home, which serves one request of a line at a time, in the order of arrival:
//! it asks the owner for the data, or every die that has the line for its copy, and takes the next request when the
//! requester has its answer (or at once, as the machine file says). On machines whose dies resolve nothing
//! themselves every miss goes to the home.
//!
//! All cost comes from here: that a hand-over of a ticket lock grows with the waiters, and that it grows by leaps
//! where the waiters sit on two sockets, is nowhere else.

use machine::LINE_BYTES;

use crate::Time;
use crate::directory::{Probe, Request, State, next_state, probe};
use crate::engine::{Activity, Bank, Engine, Event, NOBODY, Queue};
use crate::report::Distance;
use crate::trace::What;

impl Engine {
    /// A thread's request leaves its core. Gives the time of the answer where that is known already; otherwise an
    /// event will resume the thread.
    pub(crate) fn issue(&mut self, thread: u32, now: Time) -> Option<Time> {
        let asking = &self.threads[thread as usize];
        let (line, request, core) = (asking.line, asking.request, asking.core);
        let die = self.cores[core as usize].die as usize;
        self.touch(line, die);
        let still_usable = now < self.cores[core as usize].lost_until(line, request);
        let local = self.hardware.resolves_locally;
        let entry = self.line(line);
        if entry.answers(core, request) || still_usable {
            entry.counts.hits += 1;
            if request.writes() && entry.writer == core {
                entry.state = State::Modified;
            }
            return Some(now);
        }
        if !local {
            return self.send_home(thread, now);
        }
        let bank = entry.banks[die];
        let in_die = entry.dies >> die & 1 != 0;
        let leaving = now.max(bank.busy) < bank.until;
        let alone = matches!(entry.state, State::Exclusive | State::Modified);
        match (request.writes(), in_die) {
            (false, true) => Some(self.load_in_die(line, core, die, now)),
            (false, false) if leaving => Some(self.load_from_leaving(line, core, die, now)),
            (true, true) if alone => Some(self.store_in_die(line, core, die, now)),
            _ if entry.pending >> die & 1 != 0 => {
                let queue = entry.in_die;
                let queue = self.push_back(queue, thread);
                self.line(line).in_die = queue;
                None
            }
            _ => {
                entry.pending |= 1 << die;
                self.threads[thread as usize].for_die = true;
                self.send_home(thread, now.max(bank.busy))
            }
        }
    }

    /// The running thread has its line.
    pub(crate) fn completed(&mut self, thread: u32) {
        let asking = &mut self.threads[thread as usize];
        let (line, request, issued) = (asking.line, asking.request, asking.issued);
        let site = asking.site;
        let waited = self.now - issued;
        if std::mem::take(&mut asking.for_die) {
            self.release_die(thread);
        }
        let entry = self.line(line);
        entry.counts.wait_ps += waited;
        if waited > 0 {
            self.totals.misses += 1;
            self.count_for_lock(thread, waited);
            self.record(thread, What::Miss { request, line, issued, site });
        }
    }

    /// A die has the answer that its cores waited for: those that came meanwhile ask again, in their order.
    fn release_die(&mut self, thread: u32) {
        let asking = &self.threads[thread as usize];
        let (line, die) = (asking.line, self.cores[asking.core as usize].die);
        let entry = self.line(line);
        entry.pending &= !(1 << die);
        let mut queue = std::mem::take(&mut entry.in_die);
        let mut others = Queue::default();
        let now = self.now;
        while let (Some(waiter), rest) = self.pop_front(queue) {
            queue = rest;
            if self.cores[self.threads[waiter as usize].core as usize].die == die {
                self.push(now, Event::Issue(waiter));
            } else {
                others = self.push_back(others, waiter);
            }
        }
        self.line(line).in_die = others;
    }

    /// Gives a line its home and its banks when it is first used.
    fn touch(&mut self, line: u32, die: usize) {
        if !self.line(line).banks.is_empty() {
            return;
        }
        let dies = self.hardware.dies;
        let node = self.node_of(die);
        let entry = self.line(line);
        entry.banks = vec![Bank::default(); dies].into_boxed_slice();
        if !entry.has_home() {
            entry.home = node as u16;
        }
    }

    fn node_of(&self, die: usize) -> usize {
        die / (self.hardware.dies / self.hardware.nodes)
    }

    /// Sets the home of the lines of a block.
    pub(crate) fn place_block(&mut self, offset: usize, bytes: usize, node: u32) {
        let node = (node as usize % self.hardware.nodes) as u16;
        for line in offset / LINE_BYTES..(offset + bytes.max(1)).div_ceil(LINE_BYTES) {
            self.line(line as u32).home = node;
        }
    }

    /// A load that the die's cache answers, after the requests that came before.
    fn load_in_die(&mut self, line: u32, core: u32, die: usize, now: Time) -> Time {
        let (transfer, read, serial) =
            (self.hardware.local_transfer, self.hardware.local_read, self.hardware.serial_read);
        let entry = self.line(line);
        let start = now.max(entry.banks[die].busy);
        let writer = std::mem::replace(&mut entry.writer, NOBODY);
        entry.sharers[core as usize / 64] |= 1 << (core % 64);
        entry.counts.count_wait(start - now);
        entry.counts.misses[Distance::SameDie as usize] += 1;
        if writer == NOBODY {
            entry.banks[die].busy = start + serial;
            start + read
        } else {
            let done = start + transfer;
            entry.banks[die].busy = done;
            self.cores[writer as usize].lose(line, start, true);
            done
        }
    }

    /// A load that the die's cache still answers although the home has taken the line away.
    fn load_from_leaving(&mut self, line: u32, core: u32, die: usize, now: Time) -> Time {
        let (read, serial) = (self.hardware.local_read, self.hardware.serial_read);
        let entry = self.line(line);
        let start = now.max(entry.banks[die].busy);
        entry.banks[die].busy = start + serial;
        entry.counts.misses[Distance::SameDie as usize] += 1;
        let until = entry.banks[die].until;
        self.cores[core as usize].lose(line, until, false);
        start + read
    }

    /// A write to a line that no other die has.
    fn store_in_die(&mut self, line: u32, core: u32, die: usize, now: Time) -> Time {
        let (transfer, read, invalidate) =
            (self.hardware.local_transfer, self.hardware.local_read, self.hardware.invalidate);
        let entry = self.line(line);
        let start = now.max(entry.banks[die].busy);
        let had = entry.has(core);
        let (word, bit) = (core as usize / 64, 1_u64 << (core % 64));
        entry.sharers[word] &= !bit;
        let others = entry.sharers.iter().any(|&word| word != 0);
        let done = start
            + match (others, had) {
                (true, true) => invalidate,
                (true, false) => transfer,
                (false, _) => read,
            };
        entry.banks[die].busy = done;
        entry.counts.count_wait(start - now);
        entry.counts.misses[Distance::SameDie as usize] += 1;
        self.invalidate_die(line, die, core, start + (done - start) / 2);
        self.own(line, core, die);
        done
    }

    /// The line is this core's alone, and written.
    fn own(&mut self, line: u32, core: u32, die: usize) {
        let entry = self.line(line);
        entry.state = State::Modified;
        entry.writer = core;
        entry.owner_die = die as u16;
        entry.dies = 1 << die;
        entry.sharers = [0; _];
        entry.sharers[core as usize / 64] = 1 << (core % 64);
    }

    /// Takes a line from the cores of a die but one, with effect at `at`, and wakes those that watch it.
    fn invalidate_die(&mut self, line: u32, die: usize, except: u32, at: Time) {
        let per_die = self.cores.len() / self.hardware.dies;
        let first = die * per_die;
        let mut sent = 0;
        for core in first..first + per_die {
            let entry = self.line(line);
            let bit = 1_u64 << (core % 64);
            if entry.sharers[core / 64] & bit == 0 || core as u32 == except {
                continue;
            }
            entry.sharers[core / 64] &= !bit;
            let writable = entry.writer == core as u32;
            sent += 1;
            self.cores[core].lose(line, at, writable);
            self.line_lost(core, line, at);
        }
        self.line(line).counts.invalidations += sent;
    }

    /// Wakes the thread of a core that watches a line, at the poll that would find it gone.
    fn line_lost(&mut self, core: usize, line: u32, at: Time) {
        let running = self.cores[core].running;
        if running == NOBODY || self.threads[running as usize].activity != Activity::Watching {
            return;
        }
        let thread = &mut self.threads[running as usize];
        let watched = thread.watched;
        if !watched.lines[..watched.count].contains(&line) {
            return;
        }
        let polls = at.saturating_sub(watched.next_poll).div_ceil(watched.period);
        let poll = watched.next_poll + polls * watched.period;
        thread.activity = Activity::Running;
        thread.wait = thread.wait.wrapping_add(1);
        self.totals.elided_polls += polls;
        self.wake_watcher(running, poll.max(self.now));
    }

    /// A watching thread looks at its lines again at `at`.
    pub(crate) fn wake_watcher(&mut self, thread: u32, at: Time) {
        let asking = &mut self.threads[thread as usize];
        asking.looked = asking.watched.count == 1;
        if asking.looked {
            // Its next poll is a load of the one line: no need to resume the coroutine for that.
            asking.line = asking.watched.lines[0];
            asking.request = Request::Load;
            asking.issued = at;
            self.push(at, Event::Issue(thread));
        } else {
            self.push(at, Event::Resume(thread));
        }
    }

    fn send_home(&mut self, thread: u32, at: Time) -> Option<Time> {
        let asking = &self.threads[thread as usize];
        let (line, die) = (asking.line, self.cores[asking.core as usize].die as usize);
        let home = self.line(line).home as usize;
        let arrival = self.reach_node(die, home, at);
        if arrival == self.now {
            return self.queue_home(thread, arrival);
        }
        self.push(arrival, Event::HomeArrival(thread));
        None
    }

    /// A request reaches its line's home.
    pub(crate) fn arrive_home(&mut self, thread: u32, now: Time) {
        if let Some(done) = self.queue_home(thread, now) {
            self.push(done, Event::Resume(thread));
        }
    }

    fn queue_home(&mut self, thread: u32, now: Time) -> Option<Time> {
        let line = self.threads[thread as usize].line;
        let entry = self.line(line);
        let (queue, free) = (entry.at_home, entry.home_free);
        if queue.is_empty() && free <= now {
            entry.counts.count_wait(0);
            return Some(self.serve_at_home(thread, now));
        }
        entry.counts.home_waits += 1;
        if queue.is_empty() {
            self.push(free, Event::HomeFree(line));
        }
        let queue = self.push_back(queue, thread);
        self.line(line).at_home = queue;
        None
    }

    /// The home takes the next request that waits.
    pub(crate) fn serve_next(&mut self, line: u32, now: Time) {
        let queue = self.line(line).at_home;
        let (first, rest) = self.pop_front(queue);
        self.line(line).at_home = rest;
        let Some(thread) = first else { return };
        let done = self.serve_at_home(thread, now);
        self.push(done, Event::Resume(thread));
        if !rest.is_empty() {
            let free = self.line(line).home_free;
            self.push(free.max(now), Event::HomeFree(line));
        }
    }

    /// The home serves a request; gives the time of the answer.
    fn serve_at_home(&mut self, thread: u32, now: Time) -> Time {
        let asking = &self.threads[thread as usize];
        let (line, request, core) = (asking.line, asking.request, asking.core);
        let waited = now.saturating_sub(asking.issued);
        let die = self.cores[core as usize].die as usize;
        let home = self.line(line).home as usize;
        let start = now.max(self.nodes_free[home]);
        let looked_up = start + self.hardware.home_occupancy;
        self.nodes_free[home] = looked_up;
        let broadcasts = self.hardware.broadcasts;
        let entry = self.line(line);
        entry.counts.home_wait_ps += waited;
        entry.counts.home_requests += 1;
        let ask = probe(request, entry.state, broadcasts);
        entry.counts.probes += u64::from(ask != Probe::None);
        let done = if request.writes() {
            self.store_at_home(line, core, die, home, looked_up, ask)
        } else {
            self.load_at_home(line, core, die, home, looked_up, ask)
        };
        let acknowledged =
            if self.hardware.holds_until_completion { self.reach_node(die, home, done) } else { looked_up };
        let entry = self.line(line);
        entry.home_free = acknowledged;
        entry.banks[die].busy = entry.banks[die].busy.max(done);
        done
    }

    fn load_at_home(&mut self, line: u32, core: u32, die: usize, home: usize, at: Time, ask: Probe) -> Time {
        let (done, from) = match ask {
            Probe::Direct => self.data_from_owner(line, die, home, at),
            _ => self.clean_data(line, die, home, at),
        };
        self.line(line).counts.misses[from as usize] += 1;
        let protocol = self.hardware.protocol;
        let local = self.hardware.resolves_locally;
        let entry = self.line(line);
        let state = next_state(protocol, Request::Load, entry.state);
        let was = std::mem::replace(&mut entry.state, state);
        // An owner that goes on being asked keeps its name; a first reader gets the line for itself.
        let writer = std::mem::replace(&mut entry.writer, NOBODY);
        entry.sharers[core as usize / 64] |= 1 << (core % 64);
        entry.dies |= 1 << die;
        if state == State::Exclusive && was == State::Invalid {
            entry.writer = core;
            entry.owner_die = die as u16;
        }
        if writer != NOBODY && state != State::Exclusive {
            let owner_die = entry.owner_die as usize;
            let probed = if local || owner_die != die { self.reach_die(home, owner_die, at) } else { at };
            self.cores[writer as usize].lose(line, probed, true);
        }
        done
    }

    fn store_at_home(&mut self, line: u32, core: u32, die: usize, home: usize, at: Time, ask: Probe) -> Time {
        let local = self.hardware.resolves_locally;
        let entry = self.line(line);
        let has_data = entry.has(core) || local && entry.dies >> die & 1 != 0;
        let (holders, owner_die, state) = (entry.dies, entry.owner_die as usize, entry.state);
        let owned = matches!(state, State::Exclusive | State::Modified | State::Owned);
        let mut done = self.reach_die(home, die, at);
        let mut far = Distance::SameDie;
        if !has_data {
            let (data, from) = match owned {
                true => self.data_from_owner(line, die, home, at),
                false => self.clean_data(line, die, home, at),
            };
            done = done.max(data);
            far = from;
        }
        let asked = match ask {
            Probe::None => 0,
            Probe::BroadcastInvalidate => (1_u64 << (self.hardware.dies - 1) << 1).wrapping_sub(1),
            Probe::DirectInvalidate => holders | 1 << owner_die,
            Probe::Direct | Probe::InvalidateSharers => holders,
        };
        let (invalidate, read) = (self.hardware.invalidate, self.hardware.local_read);
        for other in (0..self.hardware.dies).filter(|other| asked >> other & 1 != 0) {
            let probed = self.reach_die(home, other, at);
            let bank = &mut self.line(line).banks[other];
            let start = probed.max(bank.busy);
            // Whoever has no copy says so as fast as its cache can be looked up.
            let has = holders >> other & 1 != 0;
            let gone = start + if has { invalidate } else { read };
            if other != die {
                bank.busy = bank.busy.max(gone);
                bank.until = start;
            }
            self.invalidate_die(line, other, core, start);
            if far != Distance::Memory {
                far = far.max(self.distance(die, other));
            }
            done = done.max(self.between_dies(other, die, gone));
        }
        self.line(line).counts.misses[far as usize] += 1;
        self.own(line, core, die);
        done
    }

    /// The owner's die sends the line.
    fn data_from_owner(&mut self, line: u32, die: usize, home: usize, at: Time) -> (Time, Distance) {
        let entry = self.line(line);
        let owner_die = entry.owner_die as usize;
        let in_core = entry.writer != NOBODY || !self.hardware.resolves_locally;
        let probed = self.reach_die(home, owner_die, at);
        let take = if in_core { self.hardware.local_transfer } else { self.hardware.local_read };
        let resolves_locally = self.hardware.resolves_locally;
        let bank = &mut self.line(line).banks[owner_die];
        let start = if resolves_locally { probed.max(bank.busy) } else { probed };
        let sent = start + take;
        bank.busy = bank.busy.max(sent);
        (self.between_dies(owner_die, die, sent), self.distance(die, owner_die))
    }

    /// A clean line comes from memory, or from a cache that has it.
    fn clean_data(&mut self, line: u32, die: usize, home: usize, at: Time) -> (Time, Distance) {
        let dies = self.line(line).dies;
        let path = |this: &Self, other: usize| {
            this.hardware.die_to_node[other][home] + this.hardware.die_to_die[other][die]
        };
        let nearest = (0..self.hardware.dies)
            .filter(|other| self.hardware.forwards_clean && dies >> other & 1 != 0)
            .min_by_key(|&other| path(self, other));
        match nearest {
            Some(other) => {
                let probed = self.reach_die(home, other, at);
                let read = self.hardware.local_read;
                (self.between_dies(other, die, probed + read), self.distance(die, other))
            }
            None => (self.reach_die(home, die, at + self.hardware.memory), Distance::Memory),
        }
    }

    fn distance(&self, a: usize, b: usize) -> Distance {
        if a == b {
            return Distance::SameDie;
        }
        match self.hardware.hops[self.node_of(a)][self.node_of(b)] {
            0 => Distance::SameSocket,
            1 => Distance::OneLink,
            _ => Distance::MoreLinks,
        }
    }

    /// When a message of a die reaches a node.
    fn reach_node(&mut self, die: usize, node: usize, at: Time) -> Time {
        let leg = self.hardware.die_to_node[die][node];
        self.cross(self.node_of(die), node, at) + leg
    }

    /// When a message of a node reaches a die.
    fn reach_die(&mut self, node: usize, die: usize, at: Time) -> Time {
        let leg = self.hardware.die_to_node[die][node];
        self.cross(node, self.node_of(die), at) + leg
    }

    fn between_dies(&mut self, from: usize, to: usize, at: Time) -> Time {
        let leg = self.hardware.die_to_die[from][to];
        self.cross(self.node_of(from), self.node_of(to), at) + leg
    }

    /// When the link between two sockets takes a message.
    fn cross(&mut self, from: usize, to: usize, at: Time) -> Time {
        if from == to || self.hardware.link_occupancy == 0 {
            return at;
        }
        let link = &mut self.links_free[from * self.hardware.nodes + to];
        let taken = at.max(*link);
        *link = taken + self.hardware.link_occupancy;
        taken
    }
}
