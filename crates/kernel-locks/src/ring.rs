//! The ring buffer that the kernel shares with the process that opened an event.
//!
//! The kernel writes records between `data_tail`, up to which we have read, and `data_head`, and moves the head; we move the
//! tail. Both only grow, and count bytes modulo the buffer's length, which is a power of two. What finds no space is lost and
//! counted by the kernel.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::fd::BorrowedFd;
use std::ptr::addr_of_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use perf_event_open_sys::bindings::perf_event_mmap_page;

/// The buffer of one event, or of all that were told to write into it.
#[derive(Debug)]
pub struct Ring {
    map: MmapRaw,
    page: usize,
}

impl Ring {
    /// Maps the buffer of an event with so many bytes, a power of two of pages.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn map(event: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let map = MmapOptions::new().len(page + bytes).map_raw(event.as_raw_fd())?;
        Ok(Self { map, page })
    }

    /// Moves what is there to the end of `into`; the kernel may write in its place again.
    pub fn drain(&mut self, into: &mut Vec<u8>) {
        let control = self.map.as_mut_ptr().cast::<perf_event_mmap_page>();
        // SAFETY: the mapping begins with this page, whose two words the kernel reads and writes as a whole.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(addr_of_mut!((*control).data_head)),
                AtomicU64::from_ptr(addr_of_mut!((*control).data_tail)),
            )
        };
        let end = head.load(Ordering::Acquire); // from the kernel's store, after the records
        let start = tail.load(Ordering::Relaxed); // only this function writes it
        let length = self.map.len() - self.page;
        // SAFETY: the data follow the page, and the kernel leaves alone what lies between tail and head.
        unsafe { copy_out(self.map.as_mut_ptr().add(self.page), length, start, end, into) };
        tail.store(end, Ordering::Release); // to the kernel, which may write there from now on
    }
}

/// Appends what lies from `tail` to `head` in a ring of `length` bytes, a power of two.
///
/// # Safety
///
/// `ring` begins so many bytes, of which neither the kernel nor a thread writes those between `tail` and `head`.
unsafe fn copy_out(ring: *const u8, length: usize, tail: u64, head: u64, into: &mut Vec<u8>) {
    let count = (head.wrapping_sub(tail) as usize).min(length);
    let start = tail as usize & (length - 1);
    let to_end = count.min(length - start);
    // SAFETY: `start + to_end` is no more than the length, and neither is the rest, which begins at the front.
    let parts = unsafe {
        [
            std::slice::from_raw_parts(ring.add(start), to_end),
            std::slice::from_raw_parts(ring, count - to_end),
        ]
    };
    parts.iter().for_each(|part| into.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{lost, sample};
    use crate::records::{Record, Records};

    /// Writes records into a ring from a position on, as the kernel does, and reads them back.
    fn through_ring(length: usize, from: u64, bytes: &[u8]) -> Vec<u8> {
        let mut ring = vec![0xee; length];
        for (offset, byte) in bytes.iter().enumerate() {
            ring[from.wrapping_add(offset as u64) as usize % length] = *byte;
        }
        let mut out = b"before".to_vec();
        // SAFETY: the ring has this length, and there is no other reference to it.
        unsafe { copy_out(ring.as_ptr(), length, from, from.wrapping_add(bytes.len() as u64), &mut out) };
        assert_eq!(&out[..6], b"before");
        out.split_off(6)
    }

    #[test]
    fn records_that_wrap_around_are_whole() {
        let bytes = [sample(1, 10, 0, &[5, 6, 7], b"raw."), lost(3), sample(2, 20, 0, &[], b"")].concat();
        for from in (0..512).chain([u64::MAX - 100, (1 << 40) - 8]) {
            let read = through_ring(256, from, &bytes);
            assert_eq!(read, bytes, "from {from}");
            let records: Vec<_> = Records(&read).map(Result::unwrap).collect();
            assert!(matches!(records[..], [Record::Sample(_), Record::Lost(3), Record::Sample(_)]));
        }
    }

    #[test]
    fn a_full_ring_is_read_once_and_an_empty_one_not_at_all() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(through_ring(256, 77, &bytes), bytes);
        assert_eq!(through_ring(256, 77, &[]), []);
    }
}
