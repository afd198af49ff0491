//! The tracepoints, opened on every core and read while they come.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use perf_event_open_sys::{bindings, ioctls, perf_event_open};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::Missing;
use crate::event::{Event, Layout, Reorder};
use crate::records::{Record, Records, SAMPLE_TYPE};
use crate::ring::Ring;
use crate::tracepoint::Tracefs;
use crate::waits::{Wait, Waits};

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

/// Bytes of all ring buffers together, where that gives each of them between [`LEAST_RING`] and [`LARGEST_RING`].
const ALL_RINGS: usize = 64 << 20;
/// Bytes of a ring buffer on a machine with many cores: about a thousand events.
const LEAST_RING: usize = 256 << 10;
/// Bytes of a ring buffer on a machine with few.
const LARGEST_RING: usize = 4 << 20;

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
    events: Vec<OwnedFd>,
    rings: Vec<Ring>,
    /// What was read of one ring.
    bytes: Vec<u8>,
    reorder: Reorder<Event>,
    waits: Waits,
    read: u64,
    lost: u64,
    /// When the last reading of the rings began: whatever happened before has been read.
    read_until_ns: u64,
}

impl Watch {
    /// Begins to watch. With [`Scope::Program`] and [`Scope::Descendants`] the calling thread has to be the one that starts
    /// what is watched, while the watch is there.
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
        // SAFETY: the call takes no pointers.
        let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize;
        Self::with_rings(tracefs, scope, cores, ring_bytes(cores, LARGEST_RING))
    }

    fn with_rings(tracefs: &Tracefs, scope: Scope, cores: usize, ring_bytes: usize) -> Result<Self, Missing> {
        let layout = Layout::of(tracefs)?;
        let (mut events, mut rings) = (Vec::new(), Vec::new());
        for core in 0..cores {
            let begin = match open(layout.begin, scope, core, ring_bytes, true) {
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue, // offline
                begin => begin.map_err(Missing::by)?,
            };
            let end = open(layout.end, scope, core, ring_bytes, false).map_err(Missing::by)?;
            rings.push(Ring::map(begin.as_fd(), ring_bytes).map_err(Missing::Rings)?);
            let mut others = vec![end];
            if let Some(release) = &layout.release {
                others.push(open(release.id, scope, core, ring_bytes, true).map_err(Missing::by)?);
            }
            for other in &others {
                // SAFETY: both descriptors are open events.
                check(unsafe { ioctls::SET_OUTPUT(other.as_raw_fd(), begin.as_raw_fd()) })
                    .map_err(Missing::by)?;
            }
            events.push(begin);
            events.extend(others);
        }
        if scope != Scope::Program {
            for event in &events {
                // SAFETY: the descriptor is an open event.
                check(unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) }).map_err(Missing::by)?;
            }
        }
        Ok(Self {
            layout,
            events,
            rings,
            bytes: Vec::new(),
            reorder: Reorder::default(),
            waits: Waits::default(),
            read: 0,
            lost: 0,
            read_until_ns: 0,
        })
    }

    /// How many cores are watched: those that are online.
    pub fn cores(&self) -> usize {
        self.rings.len()
    }

    /// Sleeps until a buffer is filling up, but no longer than this.
    pub fn sleep(&self, longest: Duration) {
        let mut events: Vec<_> = self.events.iter().map(|event| PollFd::new(event, PollFlags::IN)).collect();
        let timeout =
            Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: i64::from(longest.subsec_nanos()) };
        let _ = poll(&mut events, Some(&timeout)); // interrupted, it is over
    }

    /// Reads the buffers, and hands out the waits that are over since the last time but one: what happened later on one core may
    /// not be in order with the others yet.
    pub fn drain(&mut self, take: impl FnMut(Wait)) {
        let begun_ns = now_ns();
        self.read_rings();
        let settled_ns = mem::replace(&mut self.read_until_ns, begun_ns);
        self.hand_out(settled_ns, take);
    }

    /// Ends the watch, and hands out the rest.
    pub fn finish(mut self, take: impl FnMut(Wait)) -> Seen {
        for event in &self.events {
            // SAFETY: the descriptor is an open event; at worst it goes on.
            unsafe { ioctls::DISABLE(event.as_raw_fd(), 0) };
        }
        self.read_rings();
        self.hand_out(u64::MAX, take);
        // The buffers tell of a loss when the next event finds space.
        let told: u64 = self.events.iter().map(lost_by).sum();
        self.lost = self.lost.max(told);
        self.seen()
    }

    /// What was seen so far.
    pub fn seen(&self) -> Seen {
        Seen {
            events: self.read,
            lost: self.lost,
            unbegun: self.waits.unbegun(),
            unended: self.waits.unended(),
        }
    }

    fn read_rings(&mut self) {
        for ring in &mut self.rings {
            self.bytes.clear();
            ring.drain(&mut self.bytes);
            for record in Records(&self.bytes) {
                match record {
                    Ok(Record::Sample(sample)) => {
                        if let Some(event) = self.layout.event(&sample) {
                            self.read += 1;
                            self.reorder.push(event);
                        }
                    }
                    Ok(Record::Lost(count)) => self.lost += count,
                    Ok(Record::Exec(_) | Record::Other) | Err(_) => {}
                }
            }
        }
    }

    fn hand_out(&mut self, until_ns: u64, take: impl FnMut(Wait)) {
        let waits = &mut self.waits;
        self.reorder.until(until_ns).filter_map(|event| waits.event(event)).for_each(take);
    }
}

/// How many bytes the ring buffer of each core gets, of a bounded sum; `largest` at most.
pub fn ring_bytes(cores: usize, largest: usize) -> usize {
    (ALL_RINGS / cores).next_power_of_two().clamp(LEAST_RING, largest)
}

/// Opens a tracepoint on one core.
fn open(id: u64, scope: Scope, core: usize, ring_bytes: usize, with_stack: bool) -> io::Result<OwnedFd> {
    let mut attributes = bindings::perf_event_attr {
        type_: bindings::PERF_TYPE_TRACEPOINT,
        size: size_of::<bindings::perf_event_attr>() as u32,
        config: id,
        sample_type: SAMPLE_TYPE,
        read_format: u64::from(bindings::PERF_FORMAT_LOST),
        clockid: libc::CLOCK_MONOTONIC,
        sample_max_stack: if with_stack { DEEPEST_STACK } else { 0 },
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = 1;
    attributes.__bindgen_anon_2.wakeup_watermark = (ring_bytes / 4) as u32;
    attributes.set_watermark(1);
    attributes.set_use_clockid(1);
    attributes.set_disabled(1);
    attributes.set_inherit((scope != Scope::Machine).into());
    attributes.set_enable_on_exec((scope == Scope::Program).into());
    // All events have a call chain, so that their samples are read alike; the one without a stack has an empty one.
    attributes.set_exclude_callchain_user(1);
    attributes.set_exclude_callchain_kernel((!with_stack).into());
    let process = if scope == Scope::Machine { -1 } else { 0 };
    let mut opened = call(&mut attributes, process, core);
    if opened.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
        attributes.read_format = 0; // before Linux 6.0
        opened = call(&mut attributes, process, core);
    }
    opened
}

/// Opens an event of a thread (0: the calling one, -1: all) on a core.
///
/// # Errors
///
/// The kernel refuses the event.
pub fn call(
    attributes: &mut bindings::perf_event_attr,
    process: libc::pid_t,
    core: usize,
) -> io::Result<OwnedFd> {
    let flags = libc::c_ulong::from(bindings::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the attributes are whole, and say how long they are.
    let descriptor = check(unsafe { perf_event_open(attributes, process, core as libc::c_int, -1, flags) })?;
    // SAFETY: just opened, and owned by no other value.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The result of a system call, or its error.
///
/// # Errors
///
/// The call failed.
pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// How many samples of an event found no space; 0 where the kernel does not tell.
pub fn lost_by(event: &OwnedFd) -> u64 {
    let mut words = [0; 16];
    match rustix::io::read(event, &mut words) {
        Ok(16) => u64::from_ne_bytes(words[8..].try_into().expect("eight of sixteen")),
        _ => 0,
    }
}

/// The time of the clock that events are stamped with, in nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_powers_of_two_and_bounded() {
        for cores in [1, 2, 3, 16, 48, 192, 4096] {
            let bytes = ring_bytes(cores, LARGEST_RING);
            assert!(
                bytes.is_power_of_two() && (LEAST_RING..=LARGEST_RING).contains(&bytes),
                "{cores}: {bytes}"
            );
        }
        assert!(192 * ring_bytes(192, LARGEST_RING) <= 2 * ALL_RINGS);
    }

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
        let opened = Watch::with_rings(&Tracefs::of_this_machine(), Scope::Descendants, 1, 4096);
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
