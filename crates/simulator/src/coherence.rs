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
use crate::engine::{Activity, Engine, Event, NOBODY, Queue, Thread};
use crate::home::UNDER_WAY;
use crate::report::Distance;
use crate::trace::What;

impl Engine {
    /// A thread's request leaves its core. Gives the time of the answer where that is known already; otherwise an
    /// event will resume the thread.
    pub(crate) fn issue(&mut self, thread: u32, now: Time) -> Option<Time> {
        let asking = &self.threads[thread as usize];
        let (line, request, core) = (asking.line, asking.request, asking.core);
        let at_core = &self.cores[core as usize];
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
            return self.send_home(thread, now);
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
    #[inline]
    pub(crate) fn completed(&mut self, thread: u32) {
        let asking = &mut self.threads[thread as usize];
        if std::mem::take(&mut asking.for_die) {
            self.release_die(thread);
        }
        let waited = self.now - self.threads[thread as usize].issued;
        if waited > 0 {
            self.missed(thread, waited);
        }
    }

    fn wait_in_die(&mut self, line: u32, thread: u32) {
        let queue = self.line(line).in_die;
        let queue = self.push_back(queue, thread);
        self.line(line).in_die = queue;
    }

    fn missed(&mut self, thread: u32, waited: Time) {
        let asking = &self.threads[thread as usize];
        let Thread { line, request, issued, site, core, counted_for, .. } = *asking;
        self.lines.get(line).counts.wait_ps += waited;
        self.totals.misses += 1;
        if let Some(lock) = self.locks.get_mut(counted_for as usize) {
            lock.counts.misses += 1;
            lock.counts.miss_ps += waited;
        }
        self.trace.record(self.now, core, thread, What::Miss { request, line, issued, site });
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
        let mut queue = std::mem::replace(&mut self.line(line).in_die, Queue::EMPTY);
        let mut others = Queue::EMPTY;
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
        let Self { hardware, lines, cores, .. } = self;
        let entry = lines.get(line);
        let bank = &mut entry.banks[die];
        let start = now.max(bank.busy);
        let writer = std::mem::replace(&mut entry.writer, NOBODY);
        entry.counts.count_wait(start - now);
        entry.counts.misses[Distance::SameDie as usize] += 1;
        let done = if writer == NOBODY {
            bank.busy = start + hardware.serial_read;
            start + hardware.local_read
        } else {
            bank.busy = start + hardware.local_transfer;
            // The owner's core hears of it half-way.
            cores[writer as usize].lose(line, start + hardware.local_transfer / 2, true);
            bank.busy
        };
        entry.add(core);
        done
    }

    /// A load that the die's cache still answers although the home has taken the line away.
    fn load_from_leaving(&mut self, line: u32, core: u32, die: usize, now: Time) -> Time {
        let Self { hardware, lines, cores, .. } = self;
        let entry = lines.get(line);
        let bank = &mut entry.banks[die];
        let start = now.max(bank.busy);
        bank.busy = start + hardware.serial_read;
        entry.counts.misses[Distance::SameDie as usize] += 1;
        cores[core as usize].lose(line, bank.until, false);
        start + hardware.local_read
    }

    /// A write to a line that no other die has.
    fn store_in_die(&mut self, line: u32, core: u32, die: usize, now: Time) -> Time {
        let others = self.others_in_die(line, core, die);
        let Self { hardware, lines, .. } = self;
        let entry = lines.get(line);
        let has = entry.has(core);
        let bank = &mut entry.banks[die];
        let start = now.max(bank.busy);
        let done = start
            + match (others, has) {
                (true, true) => hardware.invalidate,
                (true, false) => hardware.local_transfer,
                (false, _) => hardware.local_read,
            };
        bank.busy = done;
        entry.counts.count_wait(start - now);
        entry.counts.misses[Distance::SameDie as usize] += 1;
        if others {
            self.invalidate_die(line, die, core, start + (done - start) / 2);
        }
        self.line(line).own(core, die);
        done
    }

    /// Whether other cores of a core's die have a line.
    pub(crate) fn others_in_die(&mut self, line: u32, core: u32, die: usize) -> bool {
        let Self { lines, legs, .. } = self;
        let entry = lines.get(line);
        let me = (core as usize / 64, 1_u64 << (core % 64));
        legs.cores_of(die).any(|(word, cores)| {
            let others = if word == me.0 { cores & !me.1 } else { cores };
            entry.sharers[word] & others != 0
        })
    }

    /// Takes a line from the cores of a die but one, with effect at `at`, and wakes those that watch it.
    pub(crate) fn invalidate_die(&mut self, line: u32, die: usize, except: u32, at: Time) {
        let writer = self.line(line).writer;
        for (word, of_die) in self.legs.cores_of(die) {
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
                let losing = &mut self.cores[core];
                losing.lose(line, at, writer == core as u32);
                let running = losing.running;
                if running != NOBODY && self.threads[running as usize].activity == Activity::Watching {
                    self.line_lost(running, line, at);
                }
            }
        }
    }

    /// Wakes a thread that watches a line, at the poll that would find it gone.
    fn line_lost(&mut self, watcher: u32, line: u32, at: Time) {
        let thread = &mut self.threads[watcher as usize];
        let watched = &thread.watched;
        if !watched.lines[..watched.count].contains(&line) {
            return;
        }
        let polls = at.saturating_sub(watched.next_poll).div_ceil(watched.period);
        let poll = watched.next_poll + polls * watched.period;
        thread.activity = Activity::Running;
        thread.wait = thread.wait.wrapping_add(1);
        self.totals.elided_polls += polls;
        self.wake_watcher(watcher, poll.max(self.now));
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
            if asking.condition.is_some() {
                asking.site = asking.condition_site;
            }
            self.push(at, Event::Issue(thread));
        } else {
            self.push(at, Event::Resume(thread));
        }
    }
}
