//! How a request finds its line in its die's cache; [`home`](super::home) has the rest.
//!
//! A die's last-level cache answers what its cores have among them, one request after another. What it cannot answer
//! goes to the line's home: one request of a die at a time, while the die's others wait for its answer. On machines
//! whose dies resolve nothing themselves every miss goes to the home.
//!
//! A line that another die waits for at the home is passed on: the die answers those of its cores that waited when the
//! line came, and a core that asks later waits until the line has left. So a holder that has just read its turn seldom has
//! the line long enough to release, and hand-overs among the cores of one die cross the machine too, once a second die
//! waits.
//!
//! A core that has a line to itself gives it up when it hears of the next request ([`Hardware::hears`]): some time after that was
//! made, and where it has waited for longer than that, after the access at hand. So no core makes a whole acquisition and
//! release on a line for which others stand in a queue.
//!
//! All cost comes from these two files: that a hand-over of a ticket lock grows with the waiters, and that it grows by
//! leaps where the waiters sit on two sockets, is nowhere else.

use super::home::UNDER_WAY;
use super::{Memory, Miss};
use crate::clock::{Clock, Event};
use crate::directory::{Request, State};
use crate::hardware::Hardware;
use crate::report::Distance;
use crate::{NOBODY, Time};

impl Memory {
    /// A thread's request leaves its core. Gives the time of the answer where that is known already; otherwise an
    /// event will resume the thread.
    pub(crate) fn issue(&mut self, clock: &mut Clock, thread: u32) -> Option<Time> {
        let now = clock.now;
        let asking = self.requesters.get(thread);
        let (line, request, core) = (asking.line, asking.request, asking.core);
        // Who has waited in the die asks once more, for the same request.
        let asked = asking.issued.min(now);
        let at_core = &self.caches[core as usize];
        let die = at_core.die as usize;
        let entry = self.lines.get(line);
        if entry.answers(core, request) || at_core.may_use(line, request, now) {
            entry.counts.hits += 1;
            if request.writes() && entry.writer == core {
                entry.state = State::Modified;
            }
            return Some(now);
        }
        if entry.banks.is_empty() {
            self.first_use(line, die);
        }
        if !self.hardware.resolves_locally {
            return self.send_home(clock, thread, now);
        }
        let entry = self.lines.get(line);
        let bank = entry.banks[die];
        let in_die = entry.dies >> die & 1 != 0;
        let leaving = now.max(bank.busy) < bank.until;
        let alone = matches!(entry.state, State::Exclusive | State::Modified);
        let wanted_elsewhere = entry.home_free == UNDER_WAY || !entry.at_home.is_empty();
        let to_be_passed_on = in_die && alone && wanted_elsewhere && now != bank.filled;
        match (request.writes(), in_die) {
            _ if to_be_passed_on => {
                self.wait_in_die(line, thread);
                None
            }
            (writes, true) if (alone || !writes) && self.is_denied(clock, thread) => {
                Some(now + self.hardware.local_read)
            }
            (false, true) => Some(self.load_in_die(clock, line, core, asked)),
            (false, false) if leaving && !self.caches[core as usize].is_in_transaction() => {
                Some(self.load_from_leaving(line, core, die, now))
            }
            (true, true) if alone => Some(self.store_in_die(clock, line, core, asked)),
            _ if self.lines.get(line).pending >> die & 1 != 0 => {
                self.wait_in_die(line, thread);
                None
            }
            _ => {
                self.lines.get(line).pending |= 1 << die;
                self.requesters.get_mut(thread).for_die = true;
                self.send_home(clock, thread, now.max(bank.busy))
            }
        }
    }

    /// The running thread has its line; says what it has waited for, if it has.
    #[inline]
    pub(crate) fn completed(&mut self, clock: &mut Clock, thread: u32) -> Option<Miss> {
        let asking = self.requesters.get_mut(thread);
        if std::mem::take(&mut asking.for_die) {
            self.release_die(clock, thread);
        }
        let asking = self.requesters.get(thread);
        let (line, request, issued, site) = (asking.line, asking.request, asking.issued, asking.site);
        let waited = clock.now - issued;
        if waited == 0 {
            return None;
        }
        self.lines.get(line).counts.wait_ps += waited;
        self.misses += 1;
        Some(Miss { line, request, issued, waited, site })
    }

    fn wait_in_die(&mut self, line: u32, thread: u32) {
        self.lines.get(line).in_die.push_back(thread);
    }

    /// A die has the answer that its cores waited for: those that came meanwhile ask again.
    fn release_die(&mut self, clock: &mut Clock, thread: u32) {
        let asking = self.requesters.get(thread);
        let (line, die) = (asking.line, self.caches[asking.core as usize].die);
        let entry = self.lines.get(line);
        entry.pending &= !(1 << die);
        entry.banks[die as usize].filled = clock.now;
        self.ask_again(clock, line, die);
    }

    /// Those that wait in a die ask again now, in their order.
    pub(crate) fn ask_again(&mut self, clock: &mut Clock, line: u32, die: u32) {
        let Self { lines, caches, requesters, .. } = self;
        lines.get(line).in_die.retain(|&waiter| {
            let is_elsewhere = caches[requesters.get(waiter).core as usize].die != die;
            if !is_elsewhere {
                clock.push(clock.now, Event::Issue(waiter));
            }
            is_elsewhere
        });
    }

    /// A load that the die's cache answers, after the requests that came before. Its core asked at a time, now or before.
    fn load_in_die(&mut self, clock: &mut Clock, line: u32, core: u32, asked: Time) -> Time {
        let now = clock.now;
        let Self { hardware, lines, caches, interconnect, .. } = self;
        let die = caches[core as usize].die as usize;
        let entry = lines.get(line);
        let start = now.max(entry.banks[die].busy);
        entry.add(core);
        let bank = &mut entry.banks[die];
        let writer = std::mem::replace(&mut entry.writer, NOBODY);
        entry.counts.count_wait(start - now);
        entry.counts.misses[Distance::SameDie as usize] += 1;
        if writer == NOBODY {
            bank.busy = start + hardware.serial_read;
            return start + hardware.local_read;
        }
        let done = start + hardware.local_transfer;
        bank.busy = done;
        let heard = hardware.hears(asked, start, done);
        // A probe that came before this load sends the line at its start. Another die must not have it while the writer may
        // still use it: the probe comes after the load then.
        bank.is_overtaken |= bank.is_probed && heard - start > interconnect.latencies.nearest_die;
        caches[writer as usize].lose(line, heard, true);
        self.leaves(clock, writer, line, false, heard);
        done
    }

    /// A load that the die's cache still answers although the home has taken the line away.
    fn load_from_leaving(&mut self, line: u32, core: u32, die: usize, now: Time) -> Time {
        let Self { hardware, lines, caches, .. } = self;
        let entry = lines.get(line);
        let bank = &mut entry.banks[die];
        let start = now.max(bank.busy);
        bank.busy = start + hardware.serial_read;
        entry.counts.misses[Distance::SameDie as usize] += 1;
        caches[core as usize].lose(line, bank.until, false);
        start + hardware.local_read
    }

    /// A write to a line that no other die has. Its core asked at a time, now or before.
    fn store_in_die(&mut self, clock: &mut Clock, line: u32, core: u32, asked: Time) -> Time {
        let now = clock.now;
        let die = self.caches[core as usize].die as usize;
        let others = self.others_in_die(line, core, die);
        let Self { hardware, lines, .. } = self;
        let entry = lines.get(line);
        let has = entry.has(core);
        let start = now.max(entry.banks[die].busy);
        let bank = &mut entry.banks[die];
        let done = start
            + match (others, has) {
                (true, true) => hardware.invalidate,
                (true, false) => hardware.local_transfer,
                (false, _) => hardware.local_read,
            };
        bank.busy = done;
        bank.is_overtaken |= bank.is_probed;
        entry.counts.count_wait(start - now);
        entry.counts.misses[Distance::SameDie as usize] += 1;
        if others {
            let heard = self.hardware.hears(asked, start, done);
            self.invalidate_die(clock, line, die, core, heard);
        }
        self.lines.get(line).own(core, die);
        done
    }

    /// Whether other cores of a core's die have a line.
    pub(crate) fn others_in_die(&mut self, line: u32, core: u32, die: usize) -> bool {
        let Self { lines, interconnect, .. } = self;
        let entry = lines.get(line);
        let me = (core as usize / 64, 1_u64 << (core % 64));
        interconnect.latencies.cores_of(die).any(|(word, cores)| {
            let others = if word == me.0 { cores & !me.1 } else { cores };
            entry.sharers[word] & others != 0
        })
    }

    /// Takes a line from the cores of a die but one, with effect at `at`, and wakes those that watch it.
    pub(crate) fn invalidate_die(&mut self, clock: &mut Clock, line: u32, die: usize, except: u32, at: Time) {
        let writer = self.lines.get(line).writer;
        for (word, of_die) in self.interconnect.latencies.cores_of(die) {
            let entry = self.lines.get(line);
            let mut leaving = entry.sharers[word] & of_die;
            if except as usize / 64 == word {
                leaving &= !(1 << (except % 64));
            }
            entry.sharers[word] &= !leaving;
            entry.counts.invalidations += u64::from(leaving.count_ones());
            while leaving != 0 {
                let core = word * 64 + leaving.trailing_zeros() as usize;
                leaving &= leaving - 1;
                let losing = &mut self.caches[core];
                losing.lose(line, at, writer == core as u32);
                let watcher = losing.watcher;
                if watcher != NOBODY {
                    self.line_lost(clock, watcher, line, at);
                }
                self.leaves(clock, core as u32, line, true, at);
            }
        }
    }

    /// Wakes a thread that watches a line, at the poll that would find it gone.
    fn line_lost(&mut self, clock: &mut Clock, watcher: u32, line: u32, at: Time) {
        let watched = &self.requesters.get(watcher).watched;
        if !watched.lines[..watched.count].contains(&line) {
            return;
        }
        let polls = at.saturating_sub(watched.next_poll).div_ceil(watched.period);
        let poll = watched.next_poll + polls * watched.period;
        self.elided_polls += polls;
        self.wake_watcher(clock, watcher, poll.max(clock.now));
    }

    /// Ends a thread's watch; its next poll is at `at`.
    pub(crate) fn wake_watcher(&mut self, clock: &mut Clock, thread: u32, at: Time) {
        let requester = self.requesters.get_mut(thread);
        self.caches[requester.core as usize].watcher = NOBODY;
        requester.watched.polled = requester.watched.count == 1;
        if requester.watched.polled {
            // Its next poll is a load of the one line: no need to resume the coroutine for that.
            requester.line = requester.watched.lines[0];
            requester.request = Request::Load;
            requester.issued = at;
            if requester.watched.site.is_some() {
                requester.site = requester.watched.site;
            }
            clock.push(at, Event::Issue(thread));
        } else {
            clock.push(at, Event::Resume(thread));
        }
    }
}

impl Hardware {
    /// When the core that has a line hears that another one asks for it. The request was made at `asked`; the transfer takes
    /// the line's cache from `start` to `done`.
    ///
    /// A core that has had the line for long hears of it half-way. Where requests stand in a queue, the next one is older than
    /// the line's arrival at the core, which then has it for as long as an atomic takes: for the one that it was fetched for, or
    /// for the loads and stores that a core has issued together, and an attempt to acquire behind a release.
    pub(super) fn hears(&self, asked: Time, start: Time, done: Time) -> Time {
        let half = (done - start) / 2;
        (asked + half).max(start + self.atomic).min(start + half)
    }
}
