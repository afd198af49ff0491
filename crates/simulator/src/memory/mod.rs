//! The coherent memory: lines with their directory entries, the cores' caches, and what carries messages among them.
//!
//! It knows of threads only what they ask for and which lines they watch. [`die`] has how a request finds its line in its
//! die's cache, [`home`] the rest, and [`pair`] which line comes along.

mod cache;
mod die;
mod home;
mod interconnect;
mod latency;
mod lines;
mod pair;
mod requester;
mod transactions;

use std::panic::Location;
use std::rc::Rc;

use self::cache::Cache;
use self::interconnect::Interconnect;
use self::lines::Lines;
use self::requester::Requesters;
use self::transactions::Transactions;
use crate::directory::{Request, State};
use crate::hardware::Hardware;
use crate::report::{LineCounts, LineReport};
use crate::{NOBODY, Time};
use machine::random::Random;

pub(crate) use self::requester::Watched;

/// A request that had to wait for its line.
pub(crate) struct Miss {
    pub(crate) line: u32,
    pub(crate) request: Request,
    pub(crate) issued: Time,
    pub(crate) waited: Time,
    pub(crate) site: Option<&'static Location<'static>>,
}

/// The memory of one simulation.
pub(crate) struct Memory {
    hardware: Rc<Hardware>,
    lines: Lines,
    interconnect: Interconnect,
    /// By core.
    caches: Vec<Cache>,
    pub(crate) requesters: Requesters,
    transactions: Transactions,
    random: Random,
    /// Misses completed.
    pub(crate) misses: u64,
    /// Polls that watching threads did not have to make.
    pub(crate) elided_polls: u64,
}

impl Memory {
    pub(crate) fn new(hardware: &Rc<Hardware>, seed: u64) -> Self {
        Self {
            hardware: Rc::clone(hardware),
            lines: Lines::default(),
            interconnect: Interconnect::new(hardware),
            caches: hardware.places.iter().map(|place| Cache::new(place.die)).collect(),
            requesters: Requesters::default(),
            transactions: Transactions::default(),
            random: Random::new(seed),
            misses: 0,
            elided_polls: 0,
        }
    }

    /// A number by chance: when threads start, and whom a home serves next.
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random.next()
    }

    /// Makes an access that the core's own cache answers; false if it does not.
    #[inline]
    pub(crate) fn hit(&mut self, core: u32, line: u32, request: Request) -> bool {
        let entry = self.lines.get(line);
        let answers = entry.answers(core, request);
        if answers {
            entry.counts.hits += 1;
            if request.writes() {
                entry.state = State::Modified;
            }
        }
        answers
    }

    /// Makes a load of a line that has been taken from a core before the core hears of it; false if it has heard.
    #[inline]
    pub(crate) fn may_still_load(&mut self, core: u32, line: u32, now: Time) -> bool {
        let still = self.caches[core as usize].may_use(line, Request::Load, now);
        if still {
            self.lines.get(line).counts.hits += 1;
        }
        still
    }

    /// Whether a core has a line.
    #[inline]
    pub(crate) fn has(&mut self, core: u32, line: u32) -> bool {
        self.lines.get(line).has(core)
    }

    /// Lets the thread on a core watch its lines, which the core has, until one of them is taken away.
    pub(crate) fn watch(&mut self, core: u32, thread: u32) {
        self.caches[core as usize].watcher = thread;
    }

    /// The thread on a core does not watch any more; says whether it did.
    pub(crate) fn end_watch(&mut self, core: u32) -> bool {
        std::mem::replace(&mut self.caches[core as usize].watcher, NOBODY) != NOBODY
    }

    /// The lines that the thread on a core watches, if it does.
    pub(crate) fn watched_by(&self, core: u32) -> Option<&[u32]> {
        let watcher = self.caches[core as usize].watcher;
        (watcher != NOBODY).then(|| {
            let watched = &self.requesters.get(watcher).watched;
            &watched.lines[..watched.count]
        })
    }

    /// Notes what a thread is about to ask for.
    #[inline]
    pub(crate) fn ask(
        &mut self,
        thread: u32,
        line: u32,
        request: Request,
        site: Option<&'static Location<'static>>,
        now: Time,
    ) {
        let asking = self.requesters.get_mut(thread);
        asking.line = line;
        asking.request = request;
        asking.site = site;
        asking.issued = now;
    }

    /// Whether the thread on a core watches lines.
    #[inline]
    pub(crate) fn is_watched(&self, core: u32) -> bool {
        self.caches[core as usize].watcher != NOBODY
    }

    /// Forgets the threads of the last run.
    pub(crate) fn clear_requesters(&mut self) {
        self.requesters.clear();
        self.transactions.clear();
        self.caches.iter_mut().for_each(|cache| (cache.watcher, cache.transaction) = (NOBODY, NOBODY));
    }

    /// Every line that was used.
    pub(crate) fn report(&self) -> (LineCounts, Vec<LineReport>) {
        let mut all = LineCounts::default();
        let mut lines = Vec::new();
        for (address, line) in self.lines.used() {
            all.add(&line.counts);
            lines.push(LineReport { address, home: line.home, counts: line.counts });
        }
        (all, lines)
    }
}
