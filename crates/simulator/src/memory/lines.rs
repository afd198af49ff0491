//! Lines of memory: each one's directory entry, its copies, its counters.

use std::collections::VecDeque;

use machine::LINE_BYTES;
use topology::machine_file::Protocol;

use crate::directory::{Request, State, next_state};
use crate::hardware::{Dies, MAX_CORES};
use crate::report::LineCounts;
use crate::{NOBODY, Time};

const NO_HOME: u16 = u16::MAX;

/// A die's last-level cache, as far as one line is concerned.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bank {
    /// Until when it is taken by requests that came before.
    pub(crate) busy: Time,
    /// Until when it still answers for a line that the home has taken away.
    pub(crate) until: Time,
    /// When the home last sent it.
    pub(crate) filled: Time,
    /// A home has asked the die for the line, and the die has not answered yet.
    pub(crate) is_probed: bool,
    /// Since then a core of the die has written the line, which had just come for it, or may write it longer than the line
    /// takes to another die.
    pub(crate) is_overtaken: bool,
}

/// A line.
pub(crate) struct Line {
    /// Cores that have it.
    pub(crate) sharers: [u64; MAX_CORES / 64],
    /// Dies that have it.
    pub(crate) dies: Dies,
    /// Dies that have asked the home and wait.
    pub(crate) pending: Dies,
    /// The core that may write it without asking.
    pub(crate) writer: u32,
    /// The die that answers for it while the state is exclusive, modified or owned.
    pub(crate) owner_die: u16,
    pub(crate) home: u16,
    pub(crate) state: State,
    /// When the home takes the next request.
    pub(crate) home_free: Time,
    /// Threads whose requests wait at the home.
    pub(crate) at_home: VecDeque<u32>,
    /// Threads whose requests wait for their die's own request to the home.
    pub(crate) in_die: VecDeque<u32>,
    pub(crate) banks: Box<[Bank]>,
    pub(crate) counts: LineCounts,
}

impl Line {
    fn new() -> Self {
        Self {
            sharers: [0; MAX_CORES / 64],
            dies: 0,
            pending: 0,
            writer: NOBODY,
            owner_die: 0,
            home: NO_HOME,
            state: State::Invalid,
            home_free: 0,
            at_home: VecDeque::new(),
            in_die: VecDeque::new(),
            banks: Box::default(),
            counts: LineCounts::default(),
        }
    }

    #[inline]
    pub(crate) fn has(&self, core: u32) -> bool {
        self.sharers[core as usize / 64] >> (core % 64) & 1 != 0
    }

    #[inline]
    pub(crate) fn add(&mut self, core: u32) {
        self.sharers[core as usize / 64] |= 1 << (core % 64);
    }

    pub(crate) fn remove(&mut self, core: u32) {
        self.sharers[core as usize / 64] &= !(1 << (core % 64));
    }

    #[inline]
    pub(crate) fn answers(&self, core: u32, request: Request) -> bool {
        if request.writes() { self.writer == core } else { self.has(core) }
    }

    /// The line is this core's alone, and written.
    #[inline]
    pub(crate) fn own(&mut self, core: u32, die: usize) {
        self.state = State::Modified;
        self.writer = core;
        self.owner_die = die as u16;
        self.dies = 1 << die;
        self.sharers.fill(0);
        self.add(core);
    }

    /// Whether one core has it and no other.
    pub(crate) fn is_in_one_core(&self) -> bool {
        let mut words = self.sharers.iter().filter(|word| **word != 0);
        words.next().is_some_and(|word| word.is_power_of_two()) && words.next().is_none()
    }

    /// A core gets the line to read, and alone where the protocol gives it to the first reader so.
    pub(crate) fn share(&mut self, protocol: Protocol, core: u32, die: usize) {
        self.state = next_state(protocol, Request::Load, self.state);
        self.add(core);
        self.dies |= 1 << die;
        if self.state == State::Exclusive {
            self.writer = core;
            self.owner_die = die as u16;
        }
    }

    pub(crate) fn has_home(&self) -> bool {
        self.home != NO_HOME
    }
}

/// Lines are made by so many.
const PAGE_LINES: usize = 64;

type Page = Box<[Line; PAGE_LINES]>;

/// All lines, by number, in pages that are made when one of their lines is used.
#[derive(Default)]
pub(crate) struct Lines {
    pages: Vec<Option<Page>>,
}

impl Lines {
    #[inline]
    pub(crate) fn get(&mut self, line: u32) -> &mut Line {
        let (page, place) = (line as usize / PAGE_LINES, line as usize % PAGE_LINES);
        if !matches!(self.pages.get(page), Some(Some(_))) {
            self.add_page(page);
        }
        match self.pages.get_mut(page) {
            Some(Some(page)) => &mut page[place],
            _ => unreachable!("the page has just been added"),
        }
    }

    #[cold]
    #[inline(never)]
    fn add_page(&mut self, page: usize) {
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let lines = (0..PAGE_LINES).map(|_| Line::new()).collect::<Box<[_]>>();
        self.pages[page] = lines.try_into().ok();
    }

    /// Every line that was used, with its address.
    pub(crate) fn used(&self) -> impl Iterator<Item = (u32, &Line)> {
        let pages = self.pages.iter().enumerate().filter_map(|(index, page)| Some((index, page.as_ref()?)));
        pages
            .flat_map(|(index, page)| {
                page.iter()
                    .enumerate()
                    .map(move |(line, it)| (((index * PAGE_LINES + line) * LINE_BYTES) as u32, it))
            })
            .filter(|(_, line)| line.counts.accesses() > 0)
    }
}
