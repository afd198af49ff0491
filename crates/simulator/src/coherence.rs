//! How a request finds its line in its die's cache; [`home`](crate::home) has the rest.
//!
//! A die's last-level cache answers what its cores have among them, one request after another. What it cannot answer
//! goes to the line's home: one request of a die at a time, while the die's others wait for its answer. On machines
//! whose dies resolve nothing themselves every miss goes to the home.
//!
//! A line that another die waits for at the home is passed on: the die answers those of its cores that waited when the
//! line came, and whoever asks later waits until the line has left. So a holder that has just read its turn seldom has
//! the line long enough to release, and hand-overs among the cores of one die cross the machine too, once a second die
//! waits.
//!
//! All cost comes from these two files: that a hand-over of a ticket lock grows with the waiters, and that it grows by
//! leaps where the waiters sit on two sockets, is nowhere else.

use crate::Time;
use crate::directory::{Request, State};
use crate::engine::{Activity, Engine, Event, NOBODY, Queue};
use crate::home::UNDER_WAY;
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
        let wanted_elsewhere = entry.home_free == UNDER_WAY || !entry.at_home.is_empty();
        let to_be_passed_on = in_die && alone && wanted_elsewhere && now != bank.filled;
        match (request.writes(), in_die) {
            _ if to_be_passed_on => {
                self.wait_in_die(line, thread);
                None
            }
            (false, true) => Some(self.load_in_die(line, core, die, now)),
            (false, false) if leaving => Some(self.load_from_leaving(line, core, die, now)),
            (true, true) if alone => Some(self.store_in_die(line, core, die, now)),
            _ if entry.pending >> die & 1 != 0 => {
                self.wait_in_die(line, thread);
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

    fn wait_in_die(&mut self, line: u32, thread: u32) {
        let queue = self.line(line).in_die;
        let queue = self.push_back(queue, thread);
        self.line(line).in_die = queue;
    }

    /// A die has the answer that its cores waited for: those that came meanwhile ask again.
    fn release_die(&mut self, thread: u32) {
        let asking = &self.threads[thread as usize];
        let (line, die, now) = (asking.line, self.cores[asking.core as usize].die, self.now);
        let entry = self.line(line);
        entry.pending &= !(1 << die);
        entry.banks[die as usize].filled = now;
        self.ask_again(line, die, now);
    }

    /// Those that wait in a die ask again at `at`, in their order.
    pub(crate) fn ask_again(&mut self, line: u32, die: u32, at: Time) {
        let mut queue = std::mem::take(&mut self.line(line).in_die);
        let mut others = Queue::default();
        while let (Some(waiter), rest) = self.pop_front(queue) {
            queue = rest;
            if self.cores[self.threads[waiter as usize].core as usize].die == die {
                self.push(at, Event::Issue(waiter));
            } else {
                others = self.push_back(others, waiter);
            }
        }
        self.line(line).in_die = others;
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
            // The owner's core hears of it half-way.
            self.cores[writer as usize].lose(line, start + transfer / 2, true);
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
    pub(crate) fn own(&mut self, line: u32, core: u32, die: usize) {
        let entry = self.line(line);
        entry.state = State::Modified;
        entry.writer = core;
        entry.owner_die = die as u16;
        entry.dies = 1 << die;
        entry.sharers = [0; _];
        entry.sharers[core as usize / 64] = 1 << (core % 64);
    }

    /// Takes a line from the cores of a die but one, with effect at `at`, and wakes those that watch it.
    pub(crate) fn invalidate_die(&mut self, line: u32, die: usize, except: u32, at: Time) {
        let per_die = self.cores.len() / self.hardware.dies;
        let (first, end) = (die * per_die, (die + 1) * per_die);
        let writer = self.line(line).writer;
        let mut sent = 0;
        for word in first / 64..end.div_ceil(64) {
            let from = first.max(word * 64) % 64;
            let length = end.min(word * 64 + 64) - first.max(word * 64);
            let of_die = (u64::MAX >> (64 - length)) << from;
            let entry = self.line(line);
            let mut leaving = entry.sharers[word] & of_die;
            if except as usize / 64 == word {
                leaving &= !(1 << (except % 64));
            }
            entry.sharers[word] &= !leaving;
            while leaving != 0 {
                let core = word * 64 + leaving.trailing_zeros() as usize;
                leaving &= leaving - 1;
                sent += 1;
                self.cores[core].lose(line, at, writer == core as u32);
                self.line_lost(core, line, at);
            }
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
}
