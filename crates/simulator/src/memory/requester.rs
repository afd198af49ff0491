//! Who asks the memory: what each one wants.

use std::panic::Location;

use crate::Time;
use crate::directory::Request;

/// The lines that a thread watches, and when it would poll them again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) lines: [u32; 3],
    pub(crate) count: usize,
    /// When the next poll would be.
    pub(crate) next_poll: Time,
    /// From one poll to the next.
    pub(crate) period: Time,
    /// The poll that followed has been made on the thread's behalf.
    pub(crate) polled: bool,
    /// Where the wait stands in the source, where it is one on a single word.
    pub(crate) site: Option<&'static Location<'static>>,
}

/// A thread's request, or its last one.
pub(crate) struct Requester {
    pub(crate) core: u32,
    pub(crate) line: u32,
    pub(crate) request: Request,
    pub(crate) issued: Time,
    /// When it reached the line's home.
    pub(crate) at_home: Time,
    /// How long it waited there for others to be served.
    pub(crate) queued: Time,
    /// When the line's owner sends it.
    pub(crate) sent: Time,
    pub(crate) site: Option<&'static Location<'static>>,
    /// The request was sent to the home on behalf of the whole die.
    pub(crate) for_die: bool,
    pub(crate) watched: Watched,
}

/// All threads, by their number.
#[derive(Default)]
pub(crate) struct Requesters {
    all: Vec<Requester>,
}

impl Requesters {
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }

    /// Adds the next thread, which runs on a core.
    pub(crate) fn add(&mut self, core: u32) {
        self.all.push(Requester {
            core,
            line: 0,
            request: Request::Load,
            issued: 0,
            at_home: 0,
            queued: 0,
            sent: 0,
            site: None,
            for_die: false,
            watched: Watched::default(),
        });
    }

    #[inline]
    pub(crate) fn get(&self, thread: u32) -> &Requester {
        &self.all[thread as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, thread: u32) -> &mut Requester {
        &mut self.all[thread as usize]
    }
}
