//! The records of a perf ring buffer, as perf_event_open(2) describes them.

use perf_event_open_sys::bindings;

/// What each sample holds, in the order in which it lies there. [`Sample`] reads exactly this, and keeps what follows it.
pub const SAMPLE_TYPE: u64 = (bindings::PERF_SAMPLE_TID
    | bindings::PERF_SAMPLE_TIME
    | bindings::PERF_SAMPLE_CPU
    | bindings::PERF_SAMPLE_CALLCHAIN
    | bindings::PERF_SAMPLE_RAW) as u64;

/// A type and flags and the length come before everything else.
pub(crate) const HEADER: usize = 8;

/// With `sample_id_all`, what ends a record that is no sample: process and thread, time, core.
const TRAILER: usize = 24;
const TIME_IN_TRAILER: usize = 8;

/// Entries of a call chain from here on say what follows, and are no addresses.
const FIRST_CONTEXT: u64 = -4095_i64 as u64;

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record<'b> {
    /// An event.
    Sample(Sample<'b>),
    /// So many events found no space in the buffer, since the last record that said so.
    Lost(u64),
    /// A thread has begun another program by exec, at this time, ns. Events that ask for a thread's name (`comm`) tell it.
    Exec(u64),
    /// Something that the caller did not ask for.
    Other,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample<'b> {
    /// The process.
    pub pid: u32,
    /// The thread; 0 for what runs on a core where no thread does.
    pub tid: u32,
    /// When, ns of the clock that the event was opened with.
    pub time_ns: u64,
    /// The core.
    pub cpu: u32,
    /// The words of the call chain.
    chain: &'b [u8],
    /// The tracepoint's own data.
    pub raw: &'b [u8],
    /// What else the event was asked for.
    pub rest: &'b [u8],
}

impl Sample<'_> {
    /// The kernel's call chain, innermost first.
    pub fn stack(&self) -> Box<[u64]> {
        let words =
            self.chain.chunks_exact(8).filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)));
        words.filter(|&word| word < FIRST_CONTEXT).collect()
    }
}

/// A record that contradicts itself; what follows it in the buffer cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

/// Reads records one after another.
#[derive(Debug, Clone)]
pub struct Records<'b>(pub &'b [u8]);

impl<'b> Iterator for Records<'b> {
    type Item = Result<Record<'b>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let whole = std::mem::take(&mut self.0);
        let record = parse(whole);
        if let Some((_, length)) = record {
            self.0 = &whole[length..];
        }
        Some(record.map(|(record, _)| record).ok_or(Damaged))
    }
}

/// The record at the beginning and its length.
fn parse(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let mut header = Cursor(bytes);
    let (what, flags_and_length) = (header.u32()?, header.u32()?);
    let length = (flags_and_length >> 16) as usize;
    let mut body = Cursor(bytes.get(HEADER..length)?);
    let record = match what {
        bindings::PERF_RECORD_SAMPLE => Record::Sample(body.sample()?),
        bindings::PERF_RECORD_LOST => {
            let _event = body.u64()?;
            Record::Lost(body.u64()?)
        }
        bindings::PERF_RECORD_COMM if flags_and_length & bindings::PERF_RECORD_MISC_COMM_EXEC != 0 => {
            let trailer = body.0.len().checked_sub(TRAILER)?;
            body.bytes(trailer + TIME_IN_TRAILER)?;
            Record::Exec(body.u64()?)
        }
        _ => Record::Other,
    };
    Some((record, length))
}

/// Takes bytes from the front.
pub struct Cursor<'b>(pub &'b [u8]);

impl<'b> Cursor<'b> {
    /// The next `count` bytes, if there are so many.
    pub fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    /// The next eight bytes as a number.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    fn sample(&mut self) -> Option<Sample<'b>> {
        let (pid, tid, time_ns) = (self.u32()?, self.u32()?, self.u64()?);
        let (cpu, _reserved) = (self.u32()?, self.u32()?);
        let depth = usize::try_from(self.u64()?).ok()?;
        let chain = self.bytes(depth.checked_mul(8)?)?;
        let length = self.u32()? as usize;
        Some(Sample { pid, tid, time_ns, cpu, chain, raw: self.bytes(length)?, rest: self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::made::{exec, lost, record, sample};

    #[test]
    fn samples_and_losses_come_out_as_they_went_in() {
        let kernel = bindings::PERF_CONTEXT_KERNEL as i64 as u64;
        let mut bytes = sample(8, 1_000, 3, &[kernel, 0xffff_ffff_8100_1234, 0xffff_ffff_8100_0010], b"raw!");
        bytes.extend(lost(12));
        bytes.extend(record(99, &[0; 16]));
        bytes.extend(exec(1_500));
        bytes.extend(sample(9, 2_000, 1, &[], b""));
        let read: Vec<_> = Records(&bytes).map(Result::unwrap).collect();
        let [
            Record::Sample(first),
            Record::Lost(12),
            Record::Other,
            Record::Exec(1_500),
            Record::Sample(last),
        ] = &read[..]
        else {
            panic!("{read:?}")
        };
        assert_eq!(
            (first.pid, first.tid, first.time_ns, first.cpu, first.raw),
            (77, 8, 1_000, 3, &b"raw!"[..])
        );
        assert_eq!(
            *first.stack(),
            [0xffff_ffff_8100_1234, 0xffff_ffff_8100_0010],
            "without what is no address"
        );
        assert_eq!((last.tid, last.stack().len()), (9, 0));
    }

    #[test]
    fn a_damaged_record_ends_the_reading() {
        let whole = sample(8, 1_000, 3, &[1, 2, 3], b"0123456789ab");
        for end in 1..whole.len() {
            let read: Vec<_> = Records(&whole[..end]).collect();
            assert_eq!(read, [Err(Damaged)], "cut at {end}");
        }
        let chain_length = HEADER + 24;
        for (at, byte) in [(6, 0), (6, 4), (7, 0xff), (chain_length, 0xff), (chain_length + 7, 0xff)] {
            let mut bytes = [lost(1), whole.clone(), lost(2)].concat();
            bytes[lost(1).len() + at] = byte;
            let read: Vec<_> = Records(&bytes).collect();
            assert_eq!(read, [Ok(Record::Lost(1)), Err(Damaged)], "byte {at} is {byte}");
        }
    }
}
