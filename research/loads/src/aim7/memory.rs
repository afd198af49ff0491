//! Memory: the break, the heap, copies, and System V shared memory.

use super::communication::{LARGEST, sizes};
use super::jobs::{Job, Session, Source::Public};
use std::fs;
use std::hint::black_box;
use std::io;
use std::path::Path;

#[rustfmt::skip] // a table
pub(super) const JOBS: &[Job] = &[
    Job { name: "brk_test", does: "1,000 times 16 pages given back and taken by sbrk", source: Public, run: |s| move_break(s, 1_000, Pages::Untouched) },
    Job { name: "page_test", does: "100 times 16 pages given back, taken by sbrk and written to", source: Public, run: |s| move_break(s, 100, Pages::Written) },
    Job { name: "mem_rtns_1", does: "30,000 blocks of many sizes allocated and freed", source: Public, run: mem_rtns_1 },
    Job { name: "mem_rtns_2", does: "100 blocks filled, searched, compared, copied and moved", source: Public, run: mem_rtns_2 },
    Job { name: "ram_copy", does: "100 copies of 1 byte to 64 KiB at changing offsets", source: Public, run: ram_copy },
    Job { name: "shared_memory", does: "100 messages through System V shared memory under a System V semaphore", source: Public, run: shared_memory },
];

const PAGE: usize = 4096;

/// The sizes that AIM7 allocates and works on.
const SIZES: [usize; 15] = [1, 3, 5, 7, 9, 11, 33, 65, 129, 1024, 1025, 1023, 8192, 4096, 4095];
const LARGEST_SIZE: usize = 8192;

/// Offsets within an aligned word go round these.
const OFFSETS: usize = 8;

#[derive(Clone, Copy, PartialEq)]
enum Pages {
    Untouched,
    Written,
}

/// Moves the end of the data segment; where the new part begins.
fn sbrk(bytes: isize) -> io::Result<*mut u8> {
    // SAFETY: a growing segment takes no memory from other code; `move_break` gives back only what it took, and the allocator
    // of a process copes with a break that others move.
    let before = unsafe { libc::sbrk(bytes) };
    if before.addr() == usize::MAX { Err(io::Error::last_os_error()) } else { Ok(before.cast()) }
}

fn move_break(session: &mut Session, times: u32, pages: Pages) -> io::Result<()> {
    const PAGES: usize = 16;
    const TAKEN: usize = 1 << 20;
    const STEP: usize = 128;
    let part = (PAGES * PAGE).cast_signed();
    sbrk(TAKEN.cast_signed())?;
    for _ in 0..session.times(times) {
        sbrk(-part)?;
        for _ in 0..PAGES {
            let page = sbrk(PAGE.cast_signed())?;
            if pages == Pages::Written {
                for byte in (0..PAGE).step_by(STEP) {
                    // SAFETY: the page was just taken, and nothing in between allocates.
                    unsafe { page.add(byte).write_volatile(b' ') };
                }
            }
        }
    }
    sbrk(-TAKEN.cast_signed()).map(drop)
}

fn mem_rtns_1(session: &mut Session) -> io::Result<()> {
    const STRINGS: usize = 100;
    for _ in 0..session.times(100) {
        let mut blocks: Vec<(String, Vec<u8>, Vec<u8>)> = (0..STRINGS)
            .map(|number| {
                let size = |number: usize| SIZES[number % SIZES.len()];
                let text = String::from("a string of an average length, as programs have");
                (text, Vec::with_capacity(size(number)), vec![0; size(number + 1)])
            })
            .collect();
        black_box(&mut blocks);
        blocks.into_iter().rev().for_each(drop);
    }
    Ok(())
}

fn mem_rtns_2(session: &mut Session) -> io::Result<()> {
    let mut buffers = [[0_u8; LARGEST_SIZE + OFFSETS]; 2];
    for turn in 0..session.times(100) as usize {
        let size = SIZES[turn % SIZES.len()];
        let [first, second] = black_box(&mut buffers);
        let first = &mut first[turn % OFFSETS..][..size];
        let second = &mut second[turn / OFFSETS % OFFSETS..][..size];
        first.fill(b'A');
        second.fill(b'A');
        first[turn % size] = b'Z';
        black_box(first.iter().position(|&byte| byte == b'Z'));
        black_box(first.cmp(&second));
        first.copy_from_slice(second);
        second.copy_within(..size / 2, size - size / 2);
    }
    Ok(())
}

fn ram_copy(session: &mut Session) -> io::Result<()> {
    const MOST: usize = 65_536;
    const FEW: [usize; 18] = [1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7, 8, 9, 11, 17, 33, 63];
    const MANY: [usize; 15] =
        [127, 256, 1001, 1200, 1492, 1500, 1024, 2048, 3172, 4096, 8192, 16_384, 32_768, MOST, 512];
    let mut buffers = [vec![0_u8; MOST + OFFSETS], vec![1_u8; MOST + OFFSETS]];
    let lengths = FEW.iter().chain(&FEW).chain(&MANY).chain(&FEW).chain(&FEW).cycle();
    for (turn, &length) in lengths.enumerate().take(session.times(100) as usize) {
        let [from, to] = black_box(&mut buffers);
        to[turn % OFFSETS..][..length].copy_from_slice(&from[turn / OFFSETS % OFFSETS..][..length]);
    }
    Ok(())
}

/// The upper byte of the keys of our System V objects; the rest is the number of their process.
const KEY: u32 = 0xC7 << 24;

/// The key of the objects that a process may have. Numbers of processes have 22 bits.
fn key(process: u32) -> libc::key_t {
    (KEY | process).cast_signed()
}

/// Removes the System V objects of a process, which no end of that process does. Allowed in a signal handler.
pub(super) fn remove_ipc(process: u32) {
    // SAFETY: system calls without pointers.
    unsafe {
        let semaphore = libc::semget(key(process), 0, 0);
        if semaphore >= 0 {
            libc::semctl(semaphore, 0, libc::IPC_RMID);
        }
        let segment = libc::shmget(key(process), 0, 0);
        if segment >= 0 {
            libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut());
        }
    }
}

/// The processes that have System V objects of ours, by the kernel's tables, which begin with the key.
fn owners_of_ipc() -> Vec<u32> {
    let tables =
        ["/proc/sysvipc/sem", "/proc/sysvipc/shm"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines());
    let keys = lines.filter_map(|line| line.split_whitespace().next()?.parse::<i32>().ok());
    let ours = keys.map(i32::cast_unsigned).filter(|key| key & 0xFF << 24 == KEY);
    ours.map(|key| key & !(0xFF << 24)).collect()
}

/// Removes the System V objects of processes that are gone: of users that were killed together with their command.
pub(super) fn remove_left_over_ipc() {
    for process in owners_of_ipc() {
        if !Path::new(&format!("/proc/{process}")).exists() {
            remove_ipc(process);
        }
    }
}

#[cfg(test)]
pub(super) fn has_ipc(process: u32) -> bool {
    owners_of_ipc().contains(&process)
}

/// This process's semaphore, at 1; removed at the end.
struct Semaphore(libc::c_int);

impl Semaphore {
    fn new() -> io::Result<Self> {
        let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
        // SAFETY: system calls without pointers; the value is passed as SETVAL takes it.
        unsafe {
            let id = libc::semget(key(std::process::id()), 1, flags);
            if id < 0 {
                return Err(io::Error::last_os_error());
            }
            let semaphore = Self(id);
            if libc::semctl(id, 0, libc::SETVAL, 1) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(semaphore)
        }
    }

    fn change(&self, by: i16) -> io::Result<()> {
        let mut operation = libc::sembuf { sem_num: 0, sem_op: by, sem_flg: 0 };
        // SAFETY: one operation, valid for the call.
        match unsafe { libc::semop(self.0, &raw mut operation, 1) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        remove_ipc(std::process::id());
    }
}

/// A System V segment of this process, which goes when this process does.
struct Segment(*mut u8);

impl Segment {
    fn new() -> io::Result<Self> {
        const BYTES: usize = 65_536;
        let flags = libc::IPC_CREAT | libc::IPC_EXCL | 0o600;
        // SAFETY: a new segment, attached where the kernel wants it, and removed at once: it stays while it is attached.
        unsafe {
            let id = libc::shmget(key(std::process::id()), BYTES, flags);
            if id < 0 {
                return Err(io::Error::last_os_error());
            }
            let at = libc::shmat(id, std::ptr::null(), 0);
            let attached =
                if at.addr() == usize::MAX { Err(io::Error::last_os_error()) } else { Ok(Self(at.cast())) };
            libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
            attached
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: attached by `new`, and no other code has the address any more.
        unsafe { libc::shmdt(self.0.cast()) };
    }
}

fn shared_memory(session: &mut Session) -> io::Result<()> {
    let (semaphore, segment) = (Semaphore::new()?, Segment::new()?);
    let mut buffer = [b's'; LARGEST];
    for size in sizes().take(session.times(100) as usize) {
        semaphore.change(-1)?;
        // SAFETY: a message is smaller than the segment and the buffer, which do not overlap.
        unsafe { segment.0.copy_from_nonoverlapping(buffer.as_ptr(), size) };
        semaphore.change(1)?;
        semaphore.change(-1)?;
        // SAFETY: a message is smaller than the segment and the buffer, which do not overlap.
        unsafe { segment.0.copy_to_nonoverlapping(buffer.as_mut_ptr(), size) };
        semaphore.change(1)?;
        black_box(&mut buffer);
    }
    Ok(())
}
