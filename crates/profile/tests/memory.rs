//! Forged files of one kind of record each, as small and as many as a reader takes: what is made of a file takes a bounded number of
//! times its length of memory.

mod support;

use contend_profile::Options;
use contend_profile::format::{
    BLOCK_MARK, BlockHeader, FRAMES, Header, KERNEL_LOCK_LENGTH, KernelRelease, KernelStack, KernelWatch,
    LOCK_LENGTH, PAGE, Type, UNIT, WAIT_LENGTH, head,
};
use contend_profile::read::{Profile, to_folded, to_otel, to_pprof, to_trace};
use std::alloc::{GlobalAlloc, Layout, System};
use std::mem::offset_of;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use support::File;

/// Counts what is allocated, and the most of it at a time.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of records in a file.
const LENGTH: usize = 2 << 20;

/// Bytes of a block.
const BLOCK: usize = 1 << 20;

/// What comes first in a file, and then what comes again and again: its number, and its position.
struct Forged<'e> {
    first: Vec<Vec<u8>>,
    each: &'e dyn Fn(u64, u64) -> Vec<u8>,
    /// Each is of a process of its own.
    of_processes: bool,
}

impl Forged<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = File::new(1 << 20, 1).bytes();
        let mut section = u64::from_le_bytes(bytes[PAGE as usize + 8..][..8].try_into().unwrap());
        let mut first = self.first.iter();
        let mut number = 0;
        let end = bytes.len() + LENGTH;
        while bytes.len() < end {
            let start = bytes.len();
            bytes.resize(start + BlockHeader::LENGTH, 0);
            if self.of_processes {
                section = start as u64 / UNIT;
                bytes.extend(record(Type::Process, 64, &[section]));
            }
            let mut in_block = 0;
            while bytes.len() - start < BLOCK && !(self.of_processes && in_block > 0) {
                let next = first.next().cloned().unwrap_or_else(|| {
                    number += 1;
                    (self.each)(number, bytes.len() as u64 / UNIT)
                });
                bytes.extend(next);
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                in_block += 1;
            }
            let used = bytes.len() - start - BlockHeader::LENGTH;
            bytes.resize(bytes.len().next_multiple_of(PAGE as usize), 0);
            let mark = u64::from(BLOCK_MARK) | ((bytes.len() - start) as u64) << 32;
            for (at, word) in [(0, mark), (1, section), (3, used as u64)] {
                bytes[start + at * 8..][..8].copy_from_slice(&word.to_le_bytes());
            }
        }
        let length = bytes.len() as u64;
        bytes[offset_of!(Header, allocated)..][..8].copy_from_slice(&length.to_le_bytes());
        bytes
    }
}

/// A record of this length, with these words behind its head.
fn record(what: Type, length: usize, words: &[u64]) -> Vec<u8> {
    let mut bytes = head(what, length).to_le_bytes().to_vec();
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes.resize(length, 0);
    bytes
}

fn text(what: Type, text: &[u8]) -> Vec<u8> {
    let mut bytes = head(what, 8 + text.len()).to_le_bytes().to_vec();
    bytes.extend(text);
    bytes
}

/// How many times the length of a file all takes that is made of it, at the most.
fn times(bytes: &[u8]) -> f64 {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let profile = Profile::parse("file.contend", bytes).unwrap();
    let table = profile.table(&Options { calls: true, ..Options::default() });
    drop(serde_json::to_vec(&table).unwrap());
    drop(to_pprof(&table));
    drop(to_otel(&table));
    drop(to_folded(&table, |sample| sample.waited_ns));
    drop(to_trace(&profile.timeline(&table, true)).to_string());
    (MOST.load(Relaxed) - before) as f64 / bytes.len() as f64
}

/// More than this is an amplification. A row of the table, with its distributions in words, is the longest of what is made of a record.
const BOUND: f64 = 64.0;

fn watch() -> Vec<Vec<u8>> {
    vec![record(Type::KernelWatch, KernelWatch::LENGTH, &[])]
}

fn kernel_lock(number: u64) -> Vec<u8> {
    record(Type::KernelLock, KERNEL_LOCK_LENGTH, &[number, 7, 1, 1])
}

/// A watch, and a lock of the kernel with a long name.
fn named() -> Vec<Vec<u8>> {
    let name = text(Type::KernelSymbol, &[&7_u64.to_le_bytes()[..], &[b'n'; 1 << 16]].concat());
    [watch(), vec![kernel_lock(1), name]].concat()
}

fn release(lock: u64, address: u64) -> Vec<u8> {
    record(Type::KernelRelease, KernelRelease::LENGTH, &[lock, address])
}

fn stack(lock: u64, address: u64) -> Vec<u8> {
    record(Type::KernelStack, KernelStack::LENGTH + 8, &[lock, 1, 1, address])
}

/// What a process has mapped of a file.
fn mapped(path: &str) -> Vec<Vec<u8>> {
    vec![text(Type::Mappings, format!("1000-fffffff0000 r-xp 0 0 0 {path}\n").as_bytes())]
}

fn lock(i: u64) -> Vec<u8> {
    record(Type::Lock, 64, &[i << 12])
}

/// A lock with a stack.
fn made(i: u64) -> Vec<u8> {
    record(Type::Lock, LOCK_LENGTH, &[1, 0, 0, 0, 1, 0, 1, (i + 1) << 12])
}

/// The lock, and a thread that takes it.
fn taken(lock: Vec<u8>, position: u64) -> Vec<u8> {
    [lock, record(Type::Pair, 192, &[position << 1, 0, 1])].concat()
}

/// The wait of a thread of its own, for a hold and with a stack of its own, at the moment at which the file began and ended.
fn wait(i: u64) -> Vec<u8> {
    let frames = FRAMES as u64;
    let values = [i << 1, 0, i, 1000, 1000, 1000, 1000, 0, i + 1, i << 12, frames, 0, 0, 0, 0];
    let stack = (0..frames).map(|frame| (i + 1) << 12 | frame);
    record(Type::Wait, WAIT_LENGTH, &values.into_iter().chain(stack).collect::<Vec<_>>())
}

#[test]
#[cfg_attr(miri, ignore = "takes many minutes under Miri")]
fn what_is_made_of_a_file_is_bounded_by_its_length() {
    let frames = FRAMES as u64;
    let long = "n".repeat(1 << 12);
    let executable = vec![text(Type::Executable, long.repeat(15).as_bytes())];
    let nothing = Vec::new;
    type Each<'e> = &'e dyn Fn(u64, u64) -> Vec<u8>;
    let files: &[(&str, Vec<Vec<u8>>, bool, Each<'_>)] = &[
        ("arguments", nothing(), true, &|_, _| text(Type::Arguments, &[0; 1 << 16])),
        ("paths of programs", nothing(), true, &|_, _| text(Type::Executable, &[0xff; 1 << 16])),
        ("mappings", nothing(), false, &|i, _| {
            text(Type::Mappings, format!("{i:x}-{:x}  0   \n", i + 1).as_bytes())
        }),
        ("no mappings", nothing(), false, &|_, _| text(Type::Mappings, b"")),
        ("build identifiers", nothing(), false, &|i, _| {
            text(Type::BuildIds, &[&i.to_le_bytes()[..], &[0, 0]].concat())
        }),
        ("threads", nothing(), false, &|i, _| record(Type::Thread, 120, &[i])),
        ("locks", nothing(), false, &|i, _| lock(i)),
        ("locks that are taken", nothing(), false, &|i, at| taken(lock(i), at)),
        ("locks with stacks", nothing(), false, &|i, at| taken(made(i), at)),
        ("locks in a long name", mapped(&format!("/{long}")), false, &|i, at| taken(lock(i), at)),
        ("locks in a name to escape", mapped(&long.replace('n', "\u{1b}")), false, &|i, at| {
            taken(lock(i), at)
        }),
        ("locks in a long path", mapped(&"/n".repeat(1 << 18)), false, &|i, at| taken(lock(i), at)),
        ("stacks in a long name", mapped(&long), false, &|i, at| taken(made(i), at)),
        ("locks of a program of a long name", executable, false, &|i, at| taken(lock(i), at)),
        ("locks of one class", mapped("/file"), false, &|i, at| {
            let site = record(Type::Site, LOCK_LENGTH, &[at, 1, 0, 0, 0, 0, 0, 1 << 20]);
            [taken(record(Type::Lock, LOCK_LENGTH, &[1, 0, 0, 0, 1, 0, 0, i << 12]), at), site].concat()
        }),
        ("calls in files of their own", nothing(), false, &|i, at| {
            let file = |frame: u64| {
                let start = (i * frames + frame) << 4;
                format!("{start:x}-{:x} r 0 0 0 /{start:x}\n", start + 8)
            };
            let stack = (0..frames).map(|frame| (i * frames + frame) << 4 | 5);
            let record_of_lock: Vec<u64> = [1, 0, 0, 0, frames, 0, 1].into_iter().chain(stack).collect();
            let mut files: Vec<u8> = (0..frames).map(file).collect::<String>().into_bytes();
            files.resize((files.len() + 8).next_multiple_of(UNIT as usize) - 8, b'\n');
            [taken(record(Type::Lock, LOCK_LENGTH, &record_of_lock), at), text(Type::Mappings, &files)]
                .concat()
        }),
        ("sites", nothing(), false, &|i, _| record(Type::Site, LOCK_LENGTH, &[i, frames, 0, 0, 0, 0, 0, i])),
        ("pairs", nothing(), false, &|i, _| record(Type::Pair, 192, &[i << 1, 0, 1])),
        ("pairs of merged locks", nothing(), false, &|_, _| record(Type::Pair, 192, &[0, 0, 1])),
        ("waits", nothing(), false, &|i, _| wait(i)),
        ("waits in a long name", mapped(&format!("/{long}")), false, &|i, _| wait(i)),
        ("holders", nothing(), false, &|i, _| record(Type::Holder, 64, &[i])),
        ("histograms", nothing(), false, &|i, _| record(Type::Histograms, 64, &[i])),
        ("tasks", nothing(), false, &|i, _| record(Type::Task, 104, &[i])),
        ("kernel locks", watch(), false, &|i, _| kernel_lock(i)),
        ("kernel locks with a name", named(), false, &|i, _| kernel_lock(i)),
        ("releases", watch(), false, &|i, _| release(i, u64::MAX)),
        ("releases with a name", named(), false, &|_, _| release(1, 7)),
        ("kernel stacks", watch(), false, &|i, _| stack(i, u64::MAX)),
        ("kernel stacks with a name", named(), false, &|_, _| stack(1, 7)),
        ("long kernel stacks with a name", named(), false, &|_, _| {
            record(Type::KernelStack, 1 << 12, &[&[1, 1, 1][..], &[7; 508]].concat())
        }),
        ("names of the kernel", nothing(), false, &|i, _| record(Type::KernelSymbol, 16, &[i])),
        ("names of the kernel to escape", nothing(), false, &|i, _| {
            text(Type::KernelSymbol, &[&i.to_le_bytes()[..], &[1; 1 << 12]].concat())
        }),
    ];
    let mut amplified = Vec::new();
    for (what, first, of_processes, each) in files {
        let bytes = Forged { first: first.clone(), each, of_processes: *of_processes }.bytes();
        let times = times(&bytes);
        println!("{what}: {times:.1}");
        if times > BOUND {
            amplified.push(format!("{what}: {times:.1} times"));
        }
    }
    assert!(amplified.is_empty(), "{amplified:?}");
}

#[test]
fn a_histogram_is_as_long_as_its_head() {
    let each = |i, _| record(Type::Histograms, 16, &[i]);
    let bytes = Forged { first: Vec::new(), each: &each, of_processes: false }.bytes();
    let error = Profile::parse("file.contend", &bytes).unwrap_err().to_string();
    assert!(error.contains("16 bytes, where 64 are the least"), "{error}");
}
