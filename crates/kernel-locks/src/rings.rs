//! The ring buffers of all cores, and the events that write into them.
//!
//! The buffer of a core belongs to an event that counts nothing, and so outlives the threads whose events write into it.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::time::Duration;
use std::vec::Drain;

use perf_event_open_sys::{bindings, ioctls, perf_event_open};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::Missing;
use crate::event::{Reorder, Timed};
use crate::records::{Record, Records, SAMPLE_TYPE};
use crate::ring::Ring;

/// Bytes of all ring buffers together, where that gives each of them between [`LEAST`] and the largest that is asked for.
const ALL: usize = 64 << 20;
/// Bytes of a ring buffer on a machine with many cores: about a thousand events of the kernel's locks.
const LEAST: usize = 256 << 10;
/// Bytes of a ring buffer where the memory that a user may lock (`kernel.perf_event_mlock_kb`, RLIMIT_MEMLOCK) allows no more.
const LEAST_LOCKED: usize = 64 << 10;

/// A core that is watched.
#[derive(Debug)]
struct Core {
    number: usize,
    event: OwnedFd,
    ring: Ring,
}

/// Ring buffers, and what the events `E` that were read from them wait for: that nothing earlier can come.
#[derive(Debug)]
pub struct Rings<E> {
    cores: Vec<Core>,
    events: Vec<OwnedFd>,
    /// What was read of one ring.
    bytes: Vec<u8>,
    reorder: Reorder<E>,
    lost: u64,
    /// When the last reading of the rings began: whatever happened before has been read.
    read_until_ns: u64,
}

impl<E: Timed> Rings<E> {
    /// A ring buffer for each core that is online, of so many bytes at most, a power of two.
    ///
    /// # Errors
    ///
    /// The kernel refuses the events, or gives no memory.
    pub fn open(largest: usize) -> Result<Self, Missing> {
        let cores = configured_cores();
        let mut bytes = bytes_of_each(cores, largest);
        loop {
            match Self::with(cores, bytes) {
                Err(Missing::Rings(error))
                    if error.raw_os_error() == Some(libc::EPERM) && bytes > LEAST_LOCKED =>
                {
                    bytes /= 2;
                }
                opened => return opened,
            }
        }
    }

    pub(crate) fn with(cores: usize, bytes: usize) -> Result<Self, Missing> {
        let mut opened = Vec::new();
        for number in 0..cores {
            let mut attributes = bindings::perf_event_attr {
                type_: bindings::PERF_TYPE_SOFTWARE,
                config: u64::from(bindings::PERF_COUNT_SW_DUMMY),
                ..plain_attributes()
            };
            attributes.__bindgen_anon_2.wakeup_watermark = (bytes / 4) as u32;
            attributes.set_watermark(1);
            attributes.set_exclude_kernel(1); // so that it needs no permission
            let event = match call(&attributes, 0, number) {
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue, // offline
                event => event.map_err(Missing::by)?,
            };
            let ring = Ring::map(event.as_fd(), bytes).map_err(Missing::Rings)?;
            opened.push(Core { number, event, ring });
        }
        Ok(Self {
            cores: opened,
            events: Vec::new(),
            bytes: Vec::new(),
            reorder: Reorder::default(),
            lost: 0,
            read_until_ns: 0,
        })
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Whether there are no events yet.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Adds an event of each core, which `open` opens, and which writes into the core's buffer.
    ///
    /// # Errors
    ///
    /// The kernel refuses an event.
    pub fn add(&mut self, mut open: impl FnMut(usize) -> io::Result<OwnedFd>) -> io::Result<()> {
        for core in &self.cores {
            let event = open(core.number)?;
            // SAFETY: both descriptors are open events.
            check(unsafe { ioctls::SET_OUTPUT(event.as_raw_fd(), core.event.as_raw_fd()) })?;
            self.events.push(event);
        }
        Ok(())
    }

    /// Lets all events begin.
    ///
    /// # Errors
    ///
    /// The kernel refuses one.
    pub fn enable(&self) -> io::Result<()> {
        self.events.iter().try_for_each(|event| {
            // SAFETY: the descriptor is an open event.
            check(unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) }).map(drop)
        })
    }

    /// Sleeps until a buffer is filling up or something else can be read, but no longer than this. Whether something else can.
    pub fn sleep(&self, longest: Duration, other: Option<BorrowedFd<'_>>) -> bool {
        let buffers = self.cores.iter().map(|core| core.event.as_fd());
        let mut files: Vec<_> = other
            .into_iter()
            .chain(buffers)
            .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
            .collect();
        let timeout =
            Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: i64::from(longest.subsec_nanos()) };
        let waited = poll(&mut files, Some(&timeout)); // interrupted, it is over
        other.is_some() && waited.is_ok() && !files[0].revents().is_empty()
    }

    /// Reads the buffers, of whose records `event` makes events, and returns the events before the last reading, in order: what
    /// happened later on one core may not be in order with the others yet.
    pub fn drain(&mut self, event: impl FnMut(Record<'_>) -> Option<E>) -> Drain<'_, E> {
        let begun_ns = now_ns();
        self.read(event);
        let settled_ns = mem::replace(&mut self.read_until_ns, begun_ns);
        self.reorder.until(settled_ns)
    }

    /// Ends all events, and returns the rest.
    pub fn finish(&mut self, event: impl FnMut(Record<'_>) -> Option<E>) -> Drain<'_, E> {
        for event in &self.events {
            // SAFETY: the descriptor is an open event; at worst it goes on.
            unsafe { ioctls::DISABLE(event.as_raw_fd(), 0) };
        }
        self.read(event);
        // The buffers tell of a loss when the next event finds space.
        let told: u64 = self.events.iter().map(lost_by).sum();
        self.lost = self.lost.max(told);
        self.reorder.until(u64::MAX)
    }

    /// How many events found no space in a buffer so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn read(&mut self, mut event: impl FnMut(Record<'_>) -> Option<E>) {
        for core in &mut self.cores {
            self.bytes.clear();
            core.ring.drain(&mut self.bytes);
            for record in Records(&self.bytes).flatten() {
                match record {
                    Record::Lost(count) => self.lost += count,
                    record => event(record).into_iter().for_each(|event| self.reorder.push(event)),
                }
            }
        }
    }
}

/// The cores that the machine may have, of which some may be offline.
fn configured_cores() -> usize {
    // SAFETY: the call takes no pointers.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize
}

/// How many bytes the ring buffer of each core gets, of a bounded sum; `largest` at most.
fn bytes_of_each(cores: usize, largest: usize) -> usize {
    (ALL / cores).next_power_of_two().clamp(LEAST, largest)
}

/// What all events have in common: one clock, without which they could not share a buffer.
fn plain_attributes() -> bindings::perf_event_attr {
    let mut attributes = bindings::perf_event_attr {
        size: size_of::<bindings::perf_event_attr>() as u32,
        sample_type: SAMPLE_TYPE,
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attributes.set_use_clockid(1);
    attributes.set_sample_id_all(1);
    attributes.set_disabled(1);
    attributes
}

/// What asks for every event of a tracepoint, and to be told how many were lost. Samples have a call chain, so that they are read
/// alike; it is empty as long as neither of its parts is asked for.
pub fn tracepoint_attributes(id: u64) -> bindings::perf_event_attr {
    let mut attributes = bindings::perf_event_attr {
        type_: bindings::PERF_TYPE_TRACEPOINT,
        config: id,
        read_format: u64::from(bindings::PERF_FORMAT_LOST),
        ..plain_attributes()
    };
    attributes.__bindgen_anon_1.sample_period = 1;
    attributes.set_exclude_callchain_user(1);
    attributes.set_exclude_callchain_kernel(1);
    attributes
}

/// Opens a tracepoint of a thread (0: the calling one, -1: all) on a core.
///
/// # Errors
///
/// The kernel refuses the event.
pub fn open(
    mut attributes: bindings::perf_event_attr,
    thread: libc::pid_t,
    core: usize,
) -> io::Result<OwnedFd> {
    match call(&attributes, thread, core) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            attributes.read_format = 0; // before Linux 6.0
            call(&attributes, thread, core)
        }
        opened => opened,
    }
}

fn call(attributes: &bindings::perf_event_attr, thread: libc::pid_t, core: usize) -> io::Result<OwnedFd> {
    let flags = libc::c_ulong::from(bindings::PERF_FLAG_FD_CLOEXEC);
    let mut attributes = *attributes;
    // SAFETY: the attributes are whole, and say how long they are.
    let descriptor =
        check(unsafe { perf_event_open(&raw mut attributes, thread, core as libc::c_int, -1, flags) })?;
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
fn lost_by(event: &OwnedFd) -> u64 {
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
        const LARGEST: usize = 4 << 20;
        for cores in [1, 2, 3, 16, 48, 192, 4096] {
            let bytes = bytes_of_each(cores, LARGEST);
            assert!(bytes.is_power_of_two() && (LEAST..=LARGEST).contains(&bytes), "{cores}: {bytes}");
        }
        assert!(192 * bytes_of_each(192, LARGEST) <= 2 * ALL);
    }
}
