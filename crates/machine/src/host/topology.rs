//! Where a thread of this computer runs, as the kernel shows it under `/sys`.
//!
//! A lock may ask for its place while it waits, inside a program that it knows nothing of. So nothing here allocates,
//! errno stays what it was, and a core's files are read once.

extern crate alloc;

use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::sync::atomic::{AtomicU64, Ordering};

use super::futex::Errno;
use crate::{Place, Topology};

/// Cores whose places are remembered; those past it are asked for each time.
const REMEMBERED: usize = 1024;

/// Places by core: socket, die and node in 20 bits each, and a bit that says that they are known.
static PLACES: [AtomicU64; REMEMBERED] = [const { AtomicU64::new(0) }; REMEMBERED];

const FIELD_BITS: u32 = 20;
const FIELD: u64 = (1 << FIELD_BITS) - 1;
const KNOWN: u64 = 1 << 63;

pub(super) fn place() -> Place {
    let errno = Errno::save();
    // SAFETY: no arguments. Miri does not know the call.
    let core = u32::try_from(if cfg!(miri) { -1 } else { unsafe { libc::sched_getcpu() } }).unwrap_or(0);
    let place = place_of(core);
    errno.restore();
    place
}

pub(super) fn topology() -> Topology {
    let mut cores = Vec::new();
    each_number(format_args!("/sys/devices/system/cpu/online"), |core| cores.push(core));
    if cores.is_empty() && !cfg!(miri) {
        each_usable(|core| cores.push(core)); // a machine that hides its cores in a container
    }
    if cores.is_empty() {
        return Topology { places: Vec::from([place()]) };
    }
    Topology { places: cores.into_iter().map(place_of).collect() }
}

/// Calls `each` with the numbers of the cores that the calling thread may use; not at all if the kernel does not tell.
fn each_usable(mut each: impl FnMut(u32)) {
    let (errno, mut set) = (Errno::save(), [0u64; 128]);
    // SAFETY: the kernel writes no more than the bytes that are there.
    let written =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&set), set.as_mut_ptr()) };
    errno.restore();
    let words = usize::try_from(written).unwrap_or(0) / size_of::<u64>();
    for (number, word) in (0..).zip(&set[..words]) {
        (0..u64::BITS).filter(|bit| word >> bit & 1 != 0).for_each(|bit| each(number * u64::BITS + bit));
    }
}

fn place_of(core: u32) -> Place {
    let Some(remembered) = PLACES.get(core as usize) else { return read_place(core) };
    let packed = remembered.load(Ordering::Relaxed);
    if packed & KNOWN != 0 {
        let field = |number: u32| (packed >> (number * FIELD_BITS) & FIELD) as u32;
        return Place { socket: field(0), die: field(1), core, node: field(2) };
    }
    let place = read_place(core);
    let fields = [place.socket, place.die, place.node].map(|field| u64::from(field) & FIELD);
    let packed = fields[0] | fields[1] << FIELD_BITS | fields[2] << (2 * FIELD_BITS) | KNOWN;
    remembered.store(packed, Ordering::Relaxed);
    place
}

/// Deepest level of cache that the kernel may show.
const CACHE_LEVELS: u32 = 8;
/// Memory nodes that are looked for.
const NODES: u32 = 64;

/// What the kernel says of a core; what it does not say is zero, so that all cores are alike. Where it shows no caches, a socket
/// is one die.
fn read_place(core: u32) -> Place {
    let mut text = Text::new();
    read(&mut text, format_args!("/sys/devices/system/cpu/cpu{core}/topology/physical_package_id"));
    let socket = list(text.as_bytes()).next().unwrap_or(0);
    // A die is named by its first core, whose number is unique over the machine.
    let die = (0..CACHE_LEVELS).rev().find_map(|level| {
        read(&mut text, format_args!("/sys/devices/system/cpu/cpu{core}/cache/index{level}/shared_cpu_list"));
        list(text.as_bytes()).next()
    });
    let node = (0..NODES).find(|&node| {
        let mut is_there = false;
        each_number(format_args!("/sys/devices/system/node/node{node}/cpulist"), |of_node| {
            is_there |= of_node == core;
        });
        is_there
    });
    Place { socket, die: die.unwrap_or(socket), core, node: node.unwrap_or(0) }
}

/// Text without an allocator: a path, or the beginning of a small file. A lock asks for its place on whatever stack there is,
/// so it is no longer than it has to be.
struct Text<const LENGTH: usize> {
    bytes: [u8; LENGTH],
    length: usize,
}

/// Bytes of a path under `/sys`.
const PATH: usize = 96;
/// Bytes of a file there that are read at once.
const CONTENT: usize = 512;

impl<const LENGTH: usize> Text<LENGTH> {
    fn new() -> Self {
        Self { bytes: [0; LENGTH], length: 0 }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<const LENGTH: usize> fmt::Write for Text<LENGTH> {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let end = self.length + more.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(more.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Reads the beginning of a file; nothing where it cannot be read.
fn read(into: &mut Text<CONTENT>, path: fmt::Arguments<'_>) {
    into.length = OpenFile::at(path).map_or(0, |file| file.read(&mut into.bytes));
}

/// Hands on the numbers of a file that is a list, however long; none where it cannot be read.
fn each_number(path: fmt::Arguments<'_>, each: impl FnMut(u32)) {
    if let Some(file) = OpenFile::at(path) {
        each_number_of(|into| file.read(into), each);
    }
}

/// The same of anything that is read piece by piece; no bytes are its end.
fn each_number_of(mut read: impl FnMut(&mut [u8]) -> usize, mut each: impl FnMut(u32)) {
    let mut text = Text::<CONTENT>::new();
    loop {
        let count = read(&mut text.bytes[text.length..]);
        text.length += count;
        // What follows the last comma may go on in the next piece.
        let comma = text.as_bytes().iter().rposition(|&byte| byte == b',');
        let whole = if count == 0 { text.length } else { comma.map_or(0, |at| at + 1) };
        list(&text.bytes[..whole]).for_each(&mut each);
        if count == 0 {
            return;
        }
        text.bytes.copy_within(whole..text.length, 0);
        text.length -= whole;
    }
}

/// A file under `/sys`, by raw calls, because the C library's are cancellation points.
struct OpenFile(libc::c_long);

impl OpenFile {
    fn at(path: fmt::Arguments<'_>) -> Option<Self> {
        if cfg!(miri) {
            return None; // without raw calls to open a file, as on a machine that hides its topology
        }
        let mut name = Text::<PATH>::new();
        name.write_fmt(path).and_then(|()| name.write_str("\0")).ok()?;
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: the name ends in a zero.
        let file = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name.bytes.as_ptr(), flags, 0) };
        (file >= 0).then_some(Self(file))
    }

    /// How many bytes came; none at the end, and after an error.
    fn read(&self, into: &mut [u8]) -> usize {
        // SAFETY: as many bytes may be written as are there.
        let count = unsafe { libc::syscall(libc::SYS_read, self.0, into.as_mut_ptr(), into.len()) };
        usize::try_from(count).unwrap_or(0)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // SAFETY: opened by `at`, and closed once.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

/// The numbers of a list such as `0-3,8,10-11`; what is no number ends it.
fn list(text: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let ranges = text.split(|&byte| byte == b',').map_while(|range| {
        let mut ends = range.split(|&byte| byte == b'-').map(number);
        let first = ends.next()??;
        Some(first..=ends.next().unwrap_or(Some(first))?)
    });
    ranges.flatten()
}

fn number(text: &[u8]) -> Option<u32> {
    str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<u32> {
        list(text.as_bytes()).collect()
    }

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(all("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(all("7\n"), [7]);
        assert_eq!(all("\n"), [0_u32; 0]);
        assert_eq!(all("-1\n"), [0_u32; 0]);
    }

    #[test]
    fn lists_longer_than_a_piece_are_read_to_the_end() {
        let expected: Vec<u32> = (1000..1600).step_by(2).collect();
        let mut text = Vec::new();
        for core in &expected {
            text.extend_from_slice(alloc::format!("{core},").as_bytes());
        }
        text.pop();
        let mut left = text.as_slice();
        let read = |into: &mut [u8]| {
            let count = left.len().min(into.len()).min(500);
            into[..count].copy_from_slice(&left[..count]);
            left = &left[count..];
            count
        };
        let mut given = Vec::new();
        each_number_of(read, |core| given.push(core));
        assert_eq!(given, expected);
    }

    #[test]
    fn a_place_is_remembered_as_it_was_read() {
        let core = place().core;
        assert_eq!(place_of(core), read_place(core));
        assert!(topology().places.contains(&place_of(core)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not know the call")]
    fn the_core_that_a_thread_runs_on_is_one_that_it_may_use() {
        let mut usable = Vec::new();
        each_usable(|core| usable.push(core));
        assert!(usable.contains(&place().core), "{usable:?}");
    }

    #[test]
    fn a_file_that_is_not_there_is_empty() {
        let mut text = Text::new();
        read(&mut text, format_args!("/sys/no/such/file"));
        assert_eq!(text.as_bytes(), b"");
    }
}
