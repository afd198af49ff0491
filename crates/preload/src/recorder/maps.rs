//! Which files lie where in this process, kept in the profile so that addresses can be named later.
//!
//! Read at the start, when a stack shows code from an unknown place (after `dlopen`, or generated code), before and after a library is
//! unloaded (another one may come to its place), and at exit.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use profile::format::Type;
use profile::record::{Host, Recorder};

use crate::files::{MapsLine, read_file};

/// Executable ranges that are remembered. Programs with more have their mappings re-read now and then for nothing.
const RANGES: usize = 1024;
/// Ranges that are remembered as written, and how many of them are searched for one.
const PLACES: usize = 4096;
const PROBES: usize = 64;
/// Text of `/proc/self/maps` that is read, bytes.
const TEXT: usize = 4 << 20;
/// A build identifier is 20 bytes by default, and 32 at most in practice.
const BUILD_ID: usize = 64;
/// Bytes of notes that are looked through for it.
const NOTES: usize = 512;

static STARTS: [AtomicUsize; RANGES] = [const { AtomicUsize::new(0) }; RANGES];
static ENDS: [AtomicUsize; RANGES] = [const { AtomicUsize::new(0) }; RANGES];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The numbers of what was written, see [`number_of`]; 0 where none is. A thread that records reads and writes them.
static WRITTEN: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
static OWN_START: AtomicUsize = AtomicUsize::new(0);
static OWN_END: AtomicUsize = AtomicUsize::new(0);
static BUSY: AtomicBool = AtomicBool::new(false);

/// Whether an address lies in executable memory that was there when the mappings were last recorded.
pub(super) fn knows(pc: usize) -> bool {
    let count = COUNT.load(Ordering::Acquire).min(RANGES);
    (0..count).any(|i| (STARTS[i].load(Ordering::Relaxed)..ENDS[i].load(Ordering::Relaxed)).contains(&pc))
}

/// Whether no range that begins here with this file was written before; it counts as written from now on. Always true of what finds no
/// place in the table.
fn is_new(start: usize, line: &[u8]) -> bool {
    let number = number_of(start, line);
    for place in (number >> 1..).take(PROBES) {
        let written = &WRITTEN[place as usize % PLACES];
        match written.load(Ordering::Relaxed) {
            0 => {
                written.store(number, Ordering::Relaxed);
                return true;
            }
            known if known == number => return false,
            _ => {}
        }
    }
    true
}

/// A number of a range's start and its line's device, inode and path, never 0. The path of a file that is gone meanwhile ends differently,
/// which is another file's then.
fn number_of(start: usize, line: &[u8]) -> u64 {
    let fields = line.splitn(4, |&byte| byte == b' ').nth(3).unwrap_or(line);
    // FNV-1a, of 64 bits.
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    start.to_ne_bytes().iter().chain(fields).fold(0xcbf2_9ce4_8422_2325, add) | 1
}

/// Where the code of this library lies; empty before the first [`record`].
pub(super) fn own_range() -> (usize, usize) {
    (OWN_START.load(Ordering::Relaxed), OWN_END.load(Ordering::Relaxed))
}

/// In the child of a fork: the thread that was recording the mappings does not exist here.
pub(super) fn forget() {
    BUSY.store(false, Ordering::Relaxed);
}

/// Writes the present mappings and build identifiers to the profile, if there is any that was not written before.
///
/// Does nothing when another thread is doing it.
#[cold]
#[inline(never)]
pub(super) fn record<H: Host>(recorder: &Recorder<H>) {
    if !recorder.enabled() || BUSY.swap(true, Ordering::Acquire) {
        return;
    }
    let buffer = recorder.host().zeroed(TEXT);
    if !buffer.is_null() {
        // SAFETY: TEXT zeroed bytes that no other thread knows.
        let buffer = unsafe { core::slice::from_raw_parts_mut(buffer, TEXT) };
        let length = read_file(c"/proc/self/maps", buffer).len();
        let (text, ids) = buffer.split_at_mut(length);
        if let Some((kept, ids)) = note_all(text, ids) {
            recorder.append(Type::Mappings, &[kept]);
            recorder.append(Type::BuildIds, &[ids]);
        }
        // SAFETY: `zeroed` made it, and the slices are not used any more.
        unsafe { recorder.host().free(buffer.as_mut_ptr(), TEXT) };
    }
    BUSY.store(false, Ordering::Release);
}

/// Remembers the executable ranges of `text`, moves the lines that name a file to its front and collects build
/// identifiers into `ids`. `None` if nothing is new.
fn note_all<'a>(text: &'a mut [u8], ids: &'a mut [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (mut count, mut new) = (0, COUNT.load(Ordering::Relaxed) == 0);
    let (mut kept, mut next) = (0, 0);
    while let Some(length) = text[next..].iter().position(|&byte| byte == b'\n') {
        let range = next..next + length + 1;
        next = range.end;
        let Some(line) = MapsLine::parse(&text[range.clone()]) else { continue };
        if line.executable && count < RANGES {
            // What has no file is not written.
            new |= line.path.is_some() && is_new(line.start, &text[range.clone()]);
            STARTS[count].store(line.start, Ordering::Relaxed);
            ENDS[count].store(line.end, Ordering::Relaxed);
            count += 1;
            if (line.start..line.end).contains(&(note_all as *const () as usize)) {
                OWN_START.store(line.start, Ordering::Relaxed);
                OWN_END.store(line.end, Ordering::Relaxed);
            }
        }
        if line.path.is_some() {
            text.copy_within(range.clone(), kept);
            kept += range.len();
        }
    }
    COUNT.store(count, Ordering::Release);
    let kept = &text[..kept];
    new.then(|| (kept, collect_build_ids(kept, ids)))
}

/// The build identifiers of the files in these lines.
fn collect_build_ids<'i>(lines: &[u8], ids: &'i mut [u8]) -> &'i [u8] {
    let Some((scratch, ids)) = ids.split_first_chunk_mut() else { return &[] };
    let mut length = 0;
    let lines = lines.split(|&byte| byte == b'\n').filter_map(MapsLine::parse);
    for line in lines.filter(|line| line.offset == 0) {
        length += write_build_id(line.start, &mut ids[length..], scratch);
    }
    &ids[..length]
}

/// Writes address, length and build identifier of the ELF file mapped at `start`; nothing if it has none.
///
/// The mapping may vanish at any moment, so it is read by a system call that fails then.
fn write_build_id(start: usize, to: &mut [u8], notes: &mut [u8; NOTES]) -> usize {
    let Some(id) = build_id(start, notes) else { return 0 };
    let total = 9 + id.len();
    if to.len() < total {
        return 0;
    }
    to[..8].copy_from_slice(&(start as u64).to_le_bytes());
    to[8] = id.len() as u8;
    to[9..total].copy_from_slice(id);
    total
}

fn build_id(start: usize, notes: &mut [u8; NOTES]) -> Option<&[u8]> {
    const NOTE_SEGMENT: u32 = 4;
    const NOTE_BUILD_ID: u32 = 3;
    let mut header = [0u8; 64];
    read_memory(start, &mut header)?;
    if header[..5] != *b"\x7fELF\x02" {
        return None; // not a 64-bit ELF file
    }
    let (segments, size, count) = (word(&header, 32) as usize, half(&header, 54), half(&header, 56));
    for i in 0..count.min(64) {
        let mut segment = [0u8; 56];
        read_memory(start.checked_add(segments)?.checked_add(i * size)?, &mut segment)?;
        if word(&segment, 0) as u32 != NOTE_SEGMENT {
            continue;
        }
        let length = (word(&segment, 32) as usize).min(notes.len());
        read_memory(start.checked_add(word(&segment, 8) as usize)?, &mut notes[..length])?;
        let mut at = 0;
        while let Some(rest) = notes[..length].get(at..)
            && rest.len() >= 12
        {
            let sizes = word(rest, 0);
            let (name, content) = (sizes as u32 as usize, (sizes >> 32) as usize);
            let kind = u32::from_le_bytes([rest[8], rest[9], rest[10], rest[11]]);
            let content_start = 12 + name.next_multiple_of(4);
            let content_end = content_start.checked_add(content)?;
            let found = rest.get(content_start..content_end)?;
            if kind == NOTE_BUILD_ID && rest.get(12..16) == Some(b"GNU\0") && content <= BUILD_ID {
                let start = at + content_start;
                let length = found.len();
                return Some(&notes[start..start + length]);
            }
            at += content_start + content.next_multiple_of(4);
        }
    }
    None
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

fn half(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn read_memory(start: usize, to: &mut [u8]) -> Option<()> {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: start as *mut c_void, iov_len: to.len() };
    // SAFETY: the local part is writable and as long as said; the kernel checks the other.
    let got = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    (got == to.len() as isize).then_some(())
}
