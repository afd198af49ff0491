//! What the tracepoints say, and the order in which it happened.

use crate::Missing;
use crate::records::Sample;
use crate::tracepoint::{Field, Tracefs};

/// A lock that spins reported the wait, or a mutex whose waiter spins at present.
pub const SPIN: u32 = 1;
/// A reader waits.
pub const READ: u32 = 2;
/// A writer waits.
pub const WRITE: u32 = 4;
/// A mutex.
pub const MUTEX: u32 = 32;

/// Who waits: a thread, or what runs on a core in no thread, of which each core has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Waiter {
    /// A thread, by its identifier.
    Thread(u32),
    /// An interrupt on an idle core, by the number of the core.
    IdleCore(u32),
}

/// One of the events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, ns.
    pub time_ns: u64,
    /// Who waits.
    pub waiter: Waiter,
    /// The lock's address.
    pub lock: u64,
    /// Which of them.
    pub what: What,
}

/// Beginning or end of a wait, or what lets it end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A wait begins, or goes on in another way.
    Begin {
        /// [`SPIN`] and the others.
        flags: u32,
        /// The kernel's stack, innermost first.
        stack: Box<[u64]>,
    },
    /// A wait is over.
    End {
        /// Whether the lock was acquired: if not, the wait was interrupted.
        acquired: bool,
    },
    /// A holder releases a lock for which others wait; here `waiter` is that holder.
    Release {
        /// The kernel's stack, innermost first.
        stack: Box<[u64]>,
    },
}

/// Where the fields of `lock:contended_release` lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReleaseLayout {
    pub(crate) id: u64,
    kind: Field,
    lock: Field,
}

/// Where the fields of the events lie.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    begin_type: Field,
    begin_lock: Field,
    flags: Field,
    end_type: Field,
    end_lock: Field,
    result: Field,
    /// None before Linux has the tracepoint, from 2026 on.
    pub(crate) release: Option<ReleaseLayout>,
}

impl Layout {
    /// As this kernel has it.
    pub(crate) fn of(tracefs: &Tracefs) -> Result<Self, Missing> {
        let begin = tracefs.tracepoint("lock:contention_begin")?;
        let end = tracefs.tracepoint("lock:contention_end")?;
        Ok(Self {
            begin: begin.id(),
            end: end.id(),
            begin_type: begin.number(Self::TYPE)?,
            begin_lock: begin.number(Self::LOCK)?,
            flags: begin.number(Self::FLAGS)?,
            end_type: end.number(Self::TYPE)?,
            end_lock: end.number(Self::LOCK)?,
            result: end.number(Self::RESULT)?,
            release: Self::of_release(tracefs)?,
        })
    }

    fn of_release(tracefs: &Tracefs) -> Result<Option<ReleaseLayout>, Missing> {
        let release = match tracefs.tracepoint("lock:contended_release") {
            Err(Missing::Tracepoint(_)) => return Ok(None),
            found => found?,
        };
        let (kind, lock) = (release.number(Self::TYPE)?, release.number(Self::LOCK)?);
        Ok(Some(ReleaseLayout { id: release.id(), kind, lock }))
    }

    const TYPE: &str = "common_type";
    const LOCK: &str = "lock_addr";
    const FLAGS: &str = "flags";
    const RESULT: &str = "ret";

    /// The event of a sample; none if it is none of these, or too short.
    pub(crate) fn event(&self, sample: &Sample<'_>) -> Option<Event> {
        let waiter = if sample.tid == 0 { Waiter::IdleCore(sample.cpu) } else { Waiter::Thread(sample.tid) };
        let (lock, what) = if self.begin_type.read(sample.raw)? == self.begin {
            let flags = self.flags.read(sample.raw)? as u32;
            (self.begin_lock.read(sample.raw)?, What::Begin { flags, stack: sample.stack() })
        } else if self.end_type.read(sample.raw)? == self.end {
            (self.end_lock.read(sample.raw)?, What::End { acquired: self.result.read(sample.raw)? == 0 })
        } else {
            let release = self.release.filter(|release| release.kind.read(sample.raw) == Some(release.id))?;
            (release.lock.read(sample.raw)?, What::Release { stack: sample.stack() })
        };
        Some(Event { time_ns: sample.time_ns, waiter, lock, what })
    }
}

/// Puts the events of several cores in order: each core's buffer is in order itself, and a thread may begin to wait on one and
/// end on another.
#[derive(Debug)]
pub struct Reorder<E> {
    held: Vec<E>,
}

/// What happened at a time.
pub trait Timed {
    /// When, ns.
    fn time_ns(&self) -> u64;
}

impl Timed for Event {
    fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

impl<E> Default for Reorder<E> {
    fn default() -> Self {
        Self { held: Vec::new() }
    }
}

impl<E: Timed> Reorder<E> {
    /// Keeps an event until it is in order.
    pub fn push(&mut self, event: E) {
        self.held.push(event);
    }

    /// The events up to a time, earliest first. To be called when nothing earlier can come any more.
    pub fn until(&mut self, time_ns: u64) -> std::vec::Drain<'_, E> {
        // Stable, so that two events of one core at one time stay as they were.
        self.held.sort_by_key(E::time_ns);
        let end = self.held.partition_point(|event| event.time_ns() <= time_ns);
        self.held.drain(..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::sample;
    use crate::made::write_format;
    use crate::records::{Record, Records};

    /// The layout of Linux 6.1 to 6.18, but for the lock's address in the end.
    fn layout(directory: &std::path::Path) -> Result<Layout, Missing> {
        let begin = "\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;
\tfield:unsigned int flags;\toffset:16;\tsize:4;\tsigned:0;\n";
        let end = "\tfield:int ret;\toffset:8;\tsize:4;\tsigned:1;
\tfield:void * lock_addr;\toffset:16;\tsize:8;\tsigned:0;\n";
        write_format(directory, "lock/contention_begin", 408, begin);
        write_format(directory, "lock/contention_end", 407, end);
        Layout::of(&Tracefs::at(directory))
    }

    fn event(layout: &Layout, tid: u32, raw: &[u8]) -> Option<Event> {
        let bytes = sample(tid, 5, 3, &[10, 20], raw);
        match Records(&bytes).next() {
            Some(Ok(Record::Sample(sample))) => layout.event(&sample),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_events_are_read_by_their_own_formats() {
        let directory = tempfile::tempdir().unwrap();
        let layout = layout(directory.path()).unwrap();
        let raw = |id: u16, words: [&[u8]; 2]| [&id.to_le_bytes(), &[0; 6][..], words[0], words[1]].concat();
        let lock = 0xffff_8880_0000_1000_u64.to_le_bytes();
        let begin = raw(408, [&lock, &(MUTEX | SPIN).to_le_bytes()]);
        let stack = [10, 20].into();
        let expected = Event {
            time_ns: 5,
            waiter: Waiter::Thread(8),
            lock: 0xffff_8880_0000_1000,
            what: What::Begin { flags: MUTEX | SPIN, stack },
        };
        assert_eq!(event(&layout, 8, &begin), Some(expected));
        for (result, acquired) in [(0_i64, true), (-4, false)] {
            let end = raw(407, [&result.to_le_bytes(), &lock]);
            let what = What::End { acquired };
            let expected =
                Event { time_ns: 5, waiter: Waiter::IdleCore(3), lock: 0xffff_8880_0000_1000, what };
            assert_eq!(event(&layout, 0, &end), Some(expected));
            assert_eq!(event(&layout, 0, &end[..20]), None, "too short");
        }
        assert_eq!(event(&layout, 8, &raw(9, [&lock, &lock])), None);
    }

    /// The format of the patches "locking: contended_release tracepoint instrumentation" (LKML 2026): one field.
    #[test]
    fn a_release_is_read_where_the_kernel_tells_it() {
        let directory = tempfile::tempdir().unwrap();
        assert!(layout(directory.path()).unwrap().release.is_none(), "this kernel does not");
        let events = directory.path().join("events/lock/contended_release");
        std::fs::create_dir_all(&events).unwrap();
        let format = "name: contended_release\nID: 409\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\n\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\nprint fmt: \"%p\", REC->lock_addr\n";
        std::fs::write(events.join("format"), format).unwrap();
        let layout = layout(directory.path()).unwrap();
        let raw = [&409_u16.to_le_bytes(), &[0; 6][..], &0x1000_u64.to_le_bytes()].concat();
        let what = What::Release { stack: [10, 20].into() };
        let expected = Event { time_ns: 5, waiter: Waiter::Thread(8), lock: 0x1000, what };
        assert_eq!(event(&layout, 8, &raw), Some(expected));
        assert_eq!(event(&layout, 8, &raw[..12]), None, "too short");
        std::fs::write(events.join("format"), format.replace("lock_addr;", "lock;")).unwrap();
        let missing = Layout::of(&Tracefs::at(directory.path())).unwrap_err().to_string();
        assert!(missing.contains("contended_release") && missing.contains("`lock_addr`"), "{missing}");
    }

    #[test]
    fn a_format_without_a_field_is_named() {
        let directory = tempfile::tempdir().unwrap();
        layout(directory.path()).unwrap();
        let end = directory.path().join("events/lock/contention_end/format");
        let text = std::fs::read_to_string(&end).unwrap().replace("int ret;", "int result;");
        std::fs::write(&end, text).unwrap();
        let missing = Layout::of(&Tracefs::at(directory.path())).unwrap_err().to_string();
        assert!(missing.contains("contention_end") && missing.contains("`ret`"), "{missing}");
    }

    #[test]
    fn events_of_several_cores_come_in_order_once_nothing_earlier_can_come() {
        let at = |time_ns, lock| Event {
            time_ns,
            waiter: Waiter::Thread(1),
            lock,
            what: What::End { acquired: true },
        };
        let mut reorder = Reorder::default();
        for (time_ns, lock) in [(10, 0), (30, 0), (5, 1), (30, 1), (40, 1)] {
            reorder.push(at(time_ns, lock));
        }
        let times = |events: std::vec::Drain<'_, Event>| {
            events.map(|event| (event.time_ns, event.lock)).collect::<Vec<_>>()
        };
        assert_eq!(times(reorder.until(20)), [(5, 1), (10, 0)]);
        reorder.push(at(25, 0));
        assert_eq!(times(reorder.until(30)), [(25, 0), (30, 0), (30, 1)]);
        assert_eq!(times(reorder.until(u64::MAX)), [(40, 1)]);
    }
}
