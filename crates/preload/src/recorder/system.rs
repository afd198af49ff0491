//! What the recorder asks of Linux: stamps, cores, the file, the stack. Nothing here allocates.

use core::ffi::{CStr, c_int};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicIsize, AtomicPtr, AtomicU64, Ordering::Relaxed};

use machine::host::Errno;
use machine::{Clock, Machine as _, Native};
use profile::arena::Grow;
use profile::format::{FRAMES, HeaderValues, MAGIC, PAGE, VERSION};
use profile::record::Host;

use super::{maps, off_core};
use crate::files::{fresh_memory, read_file, read_link};
use crate::signals_blocked::with_signals_blocked;
use crate::unwind;

/// The running system.
#[derive(Debug)]
pub(super) struct Linux;

/// The file grows by at least this much at a time, bytes.
const GROWTH: u64 = 1 << 20;

/// Where the core number lies, relative to the thread pointer; 0 when the C library registers no such area.
static CORE_WORD: AtomicIsize = AtomicIsize::new(0);

/// The path of the profile file: a copy, since the program may change its environment at any moment.
static FILE_PATH: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// The open file, for when its name cannot be used any more; -1 without one.
static FILE: AtomicI32 = AtomicI32::new(-1);
/// Device and inode of the file, which tell whether a descriptor still is that file.
static FILE_DEVICE: AtomicU64 = AtomicU64::new(0);
static FILE_INODE: AtomicU64 = AtomicU64::new(0);
/// The descriptor is not below this one if that can be, where programs do not expect it.
const FILE_ABOVE: c_int = 900;

/// Finds the restartable-sequences area that glibc 2.35 and later keep for every thread. True if it tells threads that they have
/// left their cores.
pub(super) fn find_core_word() -> bool {
    const CPU_ID: isize = 4; // struct rseq, include/uapi/linux/rseq.h
    const SEQUENCE: isize = 8;
    // SAFETY: plain look-ups; the two objects are constants of the C library, a ptrdiff_t and an unsigned int.
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        if !offset.is_null() && !size.is_null() && *size != 0 {
            CORE_WORD.store(*offset + CPU_ID, Relaxed);
            return off_core::start(*offset + SEQUENCE);
        }
    }
    false
}

#[inline]
fn core_number() -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        let offset = CORE_WORD.load(Relaxed);
        if offset != 0 {
            let core: u32;
            // SAFETY: the offset is that of the C library's own area of this thread, where the kernel writes the core.
            unsafe {
                core::arch::asm!("mov {0:e}, dword ptr fs:[{1}]", out(reg) core, in(reg) offset,
                    options(nostack, preserves_flags, readonly));
            }
            return core;
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let offset = CORE_WORD.load(Relaxed);
        if offset != 0 {
            let pointer: *const u8;
            // SAFETY: the offset is that of the C library's own area of this thread, where the kernel writes the
            // core; the thread pointer is readable.
            unsafe {
                core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
                return pointer.offset(offset).cast::<u32>().read_volatile();
            }
        }
    }
    // SAFETY: no preconditions. An error is as good a core number as any.
    unsafe { libc::sched_getcpu() as u32 }
}

/// The value of an environment variable, if it is set and not empty. Valid until the environment changes.
pub(super) fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a zero; called by the constructor, before anyone can change the environment.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        if value.is_null() || *value == 0 { None } else { Some(CStr::from_ptr(value)) }
    }
}

/// The number of the PID namespace of this process; 0 where `/proc` does not tell it.
pub(super) fn pid_namespace() -> u64 {
    let saved = Errno::save();
    let mut link = [0; 32];
    let link = read_link(c"/proc/self/ns/pid", &mut link);
    saved.restore();
    let digits = link.split(|byte| !byte.is_ascii_digit()).find(|digits| !digits.is_empty());
    digits.and_then(decimal).unwrap_or(0)
}

/// A profile file in memory.
#[derive(Clone, Copy)]
pub(super) struct MappedFile {
    pub(super) base: *mut u8,
    /// Bytes that are mapped: the file's limit.
    pub(super) length: u64,
    /// Bytes that the file has at least.
    pub(super) exist: u64,
}

/// Maps a profile file at its limit, having checked that it is one; none if it is another than the one of this identity.
pub(super) fn map_file(path: &CStr, identity: Option<u64>) -> Result<Option<MappedFile>, &'static str> {
    // SAFETY: the path ends with a zero.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW) };
    if file < 0 {
        return Err("it cannot be opened");
    }
    let mapped = map_open_file(file, identity).and_then(|mapped| keep_path(path).map(|()| mapped));
    if matches!(mapped, Ok(Some(_))) {
        keep_file(file);
    }
    // SAFETY: opened above; the mapping outlives the descriptor.
    unsafe { libc::close(file) };
    mapped
}

fn keep_path(path: &CStr) -> Result<(), &'static str> {
    let bytes = path.to_bytes_with_nul();
    let copy = Linux.zeroed(bytes.len());
    if copy.is_null() {
        return Err("there is no memory");
    }
    // SAFETY: the copy is as long as the path, and no other thread knows it yet.
    unsafe { copy.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
    FILE_PATH.store(copy, Relaxed);
    Ok(())
}

fn keep_file(file: c_int) {
    if let Some((device, inode)) = identity_of(file) {
        FILE_DEVICE.store(device, Relaxed);
        FILE_INODE.store(inode, Relaxed);
    }
    // SAFETY: duplicates an open descriptor.
    let above = |least: c_int| unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, least) };
    let copy = above(FILE_ABOVE);
    FILE.store(if copy >= 0 { copy } else { above(3) }, Relaxed);
}

/// Closes the file, and forgets its name.
pub(super) fn forget_file() {
    if let Some(file) = kept_file() {
        // SAFETY: the descriptor is this library's own, as far as that can be told.
        unsafe { libc::close(file) };
    }
    FILE.store(-1, Relaxed);
    FILE_PATH.store(null_mut(), Relaxed);
}

/// Device and inode of an open file.
fn identity_of(file: c_int) -> Option<(u64, u64)> {
    // SAFETY: all-zero is a valid stat, and the pointer is valid for the call.
    unsafe {
        let mut data: libc::stat = core::mem::zeroed();
        (libc::fstat(file, &raw mut data) == 0).then_some((data.st_dev, data.st_ino))
    }
}

fn map_open_file(file: c_int, identity: Option<u64>) -> Result<Option<MappedFile>, &'static str> {
    let mut bytes = [0u8; 256];
    // SAFETY: the buffer is as long as said.
    let got = unsafe { libc::pread(file, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let header = HeaderValues::decode(&bytes);
    if got != bytes.len() as isize || header.magic != u64::from_le_bytes(MAGIC) {
        return Err("it is not a profile");
    }
    if header.version != VERSION | PAGE << 32 {
        return Err("it belongs to another version of contend");
    }
    if identity.is_some_and(|identity| identity != header.identity) {
        return Ok(None);
    }
    let HeaderValues { limit: length, grown: exist, .. } = header;
    if !length.is_multiple_of(PAGE) || !(PAGE..=length).contains(&exist) || isize::try_from(length).is_err() {
        return Err("it is damaged");
    }
    // SAFETY: seeking has no other effect on a descriptor that is only used here.
    if (unsafe { libc::lseek(file, 0, libc::SEEK_END) } as u64) < exist {
        return Err("it is truncated");
    }
    // SAFETY: a fresh mapping; pages are only touched once the file has grown over them.
    let base = unsafe {
        libc::mmap(
            null_mut(),
            length as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err("it cannot be mapped");
    }
    Ok(Some(MappedFile { base: base.cast(), length, exist }))
}

/// One line on standard error, put together on the stack.
pub(super) fn complain(path: &CStr, what: &str) {
    let parts = [b"contend: not recording to ", path.to_bytes(), b": ", what.as_bytes(), b"\n"];
    let parts = parts
        .map(|part: &[u8]| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    // SAFETY: the parts are readable; a failing write has nowhere to be told.
    unsafe { libc::writev(2, parts.as_ptr(), parts.len() as c_int) };
}

impl Grow for Linux {
    /// Opens the file anew each time: programs close descriptors that they do not know, and use their numbers again.
    /// The descriptor that was kept helps where the name does not: after dropping rights, or changing the root.
    fn grow(&self, start: u64, end: u64) -> Result<u64, i32> {
        let saved = Errno::save();
        let grown = grow_named(start, end);
        saved.restore();
        grown
    }
}

#[inline(never)]
fn grow_named(start: u64, end: u64) -> Result<u64, i32> {
    let path = FILE_PATH.load(Relaxed);
    if path.is_null() {
        return Err(libc::ENOENT);
    }
    // SAFETY: the path ends with a zero, and is never freed.
    let file = unsafe { libc::open(path.cast(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW) };
    if file < 0 {
        let error = Errno::get();
        return kept_file().map_or(Err(error), |file| grow_open(file, start, end));
    }
    let grown = if is_the_file(file) { grow_open(file, start, end) } else { Err(libc::ESTALE) };
    // SAFETY: opened above.
    unsafe { libc::close(file) };
    grown
}

/// The descriptor that was kept, if the program has left it alone.
fn kept_file() -> Option<c_int> {
    let file = FILE.load(Relaxed);
    (file >= 0 && is_the_file(file)).then_some(file)
}

fn is_the_file(file: c_int) -> bool {
    identity_of(file) == Some((FILE_DEVICE.load(Relaxed), FILE_INODE.load(Relaxed)))
}

fn grow_open(file: c_int, start: u64, end: u64) -> Result<u64, i32> {
    let mut bound = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writable. Growing past the file size limit would be a signal, so it is not tried.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut bound) } == 0 && bound.rlim_cur < end {
        return Err(libc::EFBIG);
    }
    let target = end.next_multiple_of(GROWTH).min(bound.rlim_cur);
    // Where there is no space for a large step there may be for the least.
    for target in [target, end] {
        let error = loop {
            // SAFETY: the descriptor is open.
            if unsafe { libc::fallocate(file, 0, start as i64, (target - start) as i64) } == 0 {
                return Ok(target);
            }
            // A thread that is stopped meanwhile, or traced, is interrupted.
            match Errno::get() {
                libc::EINTR => {}
                error => break error,
            }
        };
        match error {
            // This file system cannot promise space, so the caller's own range is written: that makes it exist.
            libc::EOPNOTSUPP | libc::ENOSYS => return write_zeros(file, start, end).map(|()| end),
            libc::ENOSPC | libc::EDQUOT if target > end => {}
            error => return Err(error),
        }
    }
    Err(libc::ENOSPC)
}

fn write_zeros(file: c_int, start: u64, end: u64) -> Result<(), i32> {
    static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];
    let mut at = start;
    while at < end {
        let length = (end - at).min(PAGE) as usize;
        // SAFETY: the buffer is long enough; no other thread or process has this range.
        let wrote = unsafe { libc::pwrite(file, ZEROS.as_ptr().cast(), length, at as i64) };
        match wrote {
            0 => return Err(libc::EIO),
            ..0 if Errno::get() == libc::EINTR => continue,
            ..0 => return Err(Errno::get()),
            _ => {}
        }
        at += wrote as u64;
    }
    Ok(())
}

impl Host for Linux {
    #[inline]
    fn stamp() -> u64 {
        profile::clock::ticks()
    }

    #[inline]
    fn core() -> u32 {
        core_number()
    }

    fn monotonic_ns(&self) -> u64 {
        Native::clock_ns(Clock::Monotonic)
    }

    fn zeroed(&self, bytes: usize) -> *mut u8 {
        let saved = Errno::save();
        let start = fresh_memory(bytes);
        saved.restore();
        start.unwrap_or(null_mut())
    }

    unsafe fn free(&self, start: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise: a mapping made by `zeroed`.
        unsafe { libc::munmap(start.cast(), bytes) };
    }

    #[inline(never)]
    fn stack(&self, frames: &mut [u64; FRAMES]) -> usize {
        let saved = Errno::save();
        let length = unwind::stack(frames);
        if frames[..length].iter().any(|&pc| !maps::knows(pc as usize)) {
            maps::record(&super::RECORDER);
        }
        saved.restore();
        length
    }

    fn tid(&self) -> u32 {
        // SAFETY: no preconditions.
        unsafe { libc::gettid() as u32 }
    }

    fn running_ns(&self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time is writable, and every thread has such a clock.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    #[inline]
    fn stayed_on_core() -> bool {
        off_core::stayed()
    }

    fn watch_core(&self) -> bool {
        off_core::watch()
    }

    fn stop_watching(&self) {
        off_core::stop();
    }

    fn switches(&self) -> [u64; 2] {
        off_core::switches()
    }

    fn is_first(&self, tid: u32) -> bool {
        // SAFETY: no preconditions.
        unsafe { libc::getpid() as u32 == tid }
    }

    /// From a file, as what else is told of a thread: a filter of system calls that lets the recorder work need not allow `prctl`.
    #[inline(never)]
    fn name(&self, tid: u32) -> [u8; 16] {
        let saved = Errno::save();
        let (mut path, mut name) = ([0u8; 48], [0u8; 16]);
        read_file(task_path(tid, b"/comm\0", &mut path), &mut name);
        saved.restore();
        if let Some(end) = name.iter().position(|&byte| byte == b'\n') {
            name[end] = 0;
        }
        name
    }

    #[inline(never)]
    fn schedule(&self, tid: u32) -> Option<(u64, u64)> {
        let saved = Errno::save();
        let mut path = [0u8; 48];
        let mut buffer = [0u8; 96];
        let text = read_file(task_path(tid, b"/schedstat\0", &mut path), &mut buffer);
        saved.restore();
        let mut numbers = text.split(|byte| !byte.is_ascii_digit()).map(decimal);
        Some((numbers.next()??, numbers.next()??))
    }

    fn gone(&self, tid: u32) -> bool {
        let saved = Errno::save();
        // SAFETY: signal 0 only asks whether the thread is there.
        let answer = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid as c_int, 0) };
        let gone = answer != 0 && Errno::get() == libc::ESRCH;
        saved.restore();
        gone
    }

    fn with_signals_blocked<R>(&self, body: impl FnOnce() -> R) -> R {
        with_signals_blocked(body)
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// The path of a file about a thread of this process, whose name begins with a slash and ends with a zero.
fn task_path<'b>(tid: u32, file: &[u8], buffer: &'b mut [u8; 48]) -> &'b CStr {
    let mut digits = [0u8; 10];
    let mut first = digits.len();
    let mut rest = tid;
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let mut length = 0;
    for part in [b"/proc/self/task/".as_slice(), &digits[first..], file] {
        buffer[length..length + part.len()].copy_from_slice(part);
        length += part.len();
    }
    CStr::from_bytes_until_nul(buffer).unwrap_or(c"")
}
