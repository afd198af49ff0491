//! The tracepoints, opened on every core and read while they come.

use std::time::Duration;

use crate::event::{Event, Layout};
use crate::records::Record;
use crate::rings::{Rings, open, tracepoint_attributes};
use crate::tracepoint::Tracefs;
use crate::waits::{Wait, Waits};
use crate::{Missing, files};

/// Whose waits are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of the next program that the calling thread starts, from its first instruction on, and of all that descends from
    /// it.
    Program,
    /// Those of the calling thread and of what it starts from now on.
    Descendants,
    /// All waits on the machine.
    Machine,
}

/// Bytes of a ring buffer on a machine with few cores.
const LARGEST_RING: usize = 4 << 20;

/// Files of a core: its buffer's and those of the three tracepoints.
const FILES_OF_CORE: usize = 4;

/// Addresses that are kept of a stack, from the innermost.
const DEEPEST_STACK: u16 = 64;

/// What was seen in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Events that were read.
    pub events: u64,
    /// Events that found no space in a buffer.
    pub lost: u64,
    /// Ends of waits whose beginnings were not seen.
    pub unbegun: u64,
    /// Beginnings of waits whose ends were not seen.
    pub unended: u64,
}

/// Contended locks of the kernel, as they are told.
#[derive(Debug)]
pub struct Watch {
    layout: Layout,
    rings: Rings<Event>,
    waits: Waits,
    read: u64,
}

impl Watch {
    /// Begins to watch. With [`Scope::Program`] and [`Scope::Descendants`] the calling thread has to be the one that starts
    /// what is watched, while the watch is there. The limit of open files may be raised: [`files::before`] is for what is started.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub fn open(scope: Scope) -> Result<Self, Missing> {
        Self::by(&Tracefs::of_this_machine(), scope)
    }

    /// The same with tracefs at another place.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub fn by(tracefs: &Tracefs, scope: Scope) -> Result<Self, Missing> {
        let layout = Layout::of(tracefs)?;
        let rings = Rings::open(LARGEST_RING)?;
        files::allow(rings.cores() * FILES_OF_CORE, || "the kernel's locks".to_owned(), rings.cores())?;
        Self::with(layout, scope, rings)
    }

    fn with(layout: Layout, scope: Scope, mut rings: Rings<Event>) -> Result<Self, Missing> {
        let mut all = vec![(layout.begin, true), (layout.end, false)];
        all.extend(layout.release.map(|release| (release.id, true)));
        for (id, has_stack) in all {
            let mut attributes = tracepoint_attributes(id);
            attributes.sample_max_stack = if has_stack { DEEPEST_STACK } else { 0 };
            attributes.set_exclude_callchain_kernel((!has_stack).into());
            attributes.set_inherit((scope != Scope::Machine).into());
            attributes.set_enable_on_exec((scope == Scope::Program).into());
            let process = if scope == Scope::Machine { -1 } else { 0 };
            rings.add(|core| open(attributes, process, core)).map_err(Missing::by)?;
        }
        if scope != Scope::Program {
            rings.enable().map_err(Missing::by)?;
        }
        Ok(Self { layout, rings, waits: Waits::default(), read: 0 })
    }

    /// How many cores are watched: those that are online.
    pub fn cores(&self) -> usize {
        self.rings.cores()
    }

    /// Sleeps until a buffer is filling up, but no longer than this.
    pub fn sleep(&self, longest: Duration) {
        self.rings.sleep(longest, None);
    }

    /// Reads the buffers, and hands out the waits that are over since the last time but one.
    pub fn drain(&mut self, take: impl FnMut(Wait)) {
        let Self { layout, rings, waits, read } = self;
        let events = rings.drain(|record| event_of(layout, &record, read));
        events.filter_map(|event| waits.event(event)).for_each(take);
    }

    /// Ends the watch, and hands out the rest.
    pub fn finish(mut self, take: impl FnMut(Wait)) -> Seen {
        let Self { layout, rings, waits, read } = &mut self;
        let events = rings.finish(|record| event_of(layout, &record, read));
        events.filter_map(|event| waits.event(event)).for_each(take);
        self.seen()
    }

    /// What was seen so far.
    pub fn seen(&self) -> Seen {
        Seen {
            events: self.read,
            lost: self.rings.lost(),
            unbegun: self.waits.unbegun(),
            unended: self.waits.unended(),
        }
    }
}

/// The event of a record, which is counted, too.
fn event_of(layout: &Layout, record: &Record<'_>, read: &mut u64) -> Option<Event> {
    let Record::Sample(sample) = record else { return None };
    let event = layout.event(sample)?;
    *read += 1;
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads of this test map and unmap in one process, so that they contend for the lock of its address space.
    #[test]
    fn waits_of_threads_are_seen_with_their_stacks() {
        let mut watch = match Watch::open(Scope::Descendants) {
            Ok(watch) => watch,
            Err(missing) => return println!("skipped: {missing}"),
        };
        let symbols = crate::Symbols::of_this_kernel().expect("/proc/kallsyms");
        let mut waits = Vec::new();
        // A busy machine may run one thread after another.
        for _ in 0..200 {
            contend();
            watch.drain(|wait| waits.push(wait));
            if waits.len() > 20 {
                break;
            }
        }
        let seen = watch.finish(|wait| waits.push(wait));
        assert!(waits.len() > 20 && seen.events >= 2 * waits.len() as u64, "{seen:?}");
        let names: Vec<_> = waits.iter().filter_map(|wait| symbols.call_site(&wait.stack)).collect();
        assert!(
            symbols.is_empty()
                || names.iter().any(|(_, name)| name.contains("mmap") || name.contains("munmap")),
            "{names:?}"
        );
    }

    /// With a page for a ring, which the test does not read meanwhile.
    #[test]
    fn a_buffer_that_overflows_loses_events_and_counts_them() {
        let opened = Layout::of(&Tracefs::of_this_machine())
            .and_then(|layout| Watch::with(layout, Scope::Descendants, Rings::with(1, 4096)?));
        let mut watch = match opened {
            Ok(watch) => watch,
            Err(missing) => return println!("skipped: {missing}"),
        };
        // A loss is told by the next event that finds space.
        for _ in 0..200 {
            contend();
            watch.drain(drop);
            if watch.seen().lost > 0 {
                break;
            }
        }
        let Seen { events, lost, .. } = watch.seen();
        assert!(lost > 0 && events > 0, "{:?}", watch.seen());
        contend();
        let seen = watch.finish(drop);
        assert!(seen.lost >= lost && seen.events >= events, "{seen:?}");
    }

    /// Threads that wait for the lock of this process's address space, if they meet.
    fn contend() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|_| map_and_unmap()));
            }
        });
    }

    fn map_and_unmap() {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: fresh private memory, which is unmapped again.
        unsafe {
            let memory = libc::mmap(std::ptr::null_mut(), 1 << 16, protection, flags, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            libc::munmap(memory, 1 << 16);
        }
    }
}
