//! Memory and small files without the program's allocator, inside which the caller may be.

use core::ffi::CStr;
use core::ptr::null_mut;

/// The first bytes of a file, as many as fit; none if it cannot be read.
pub(crate) fn read_file<'b>(path: &CStr, buffer: &'b mut [u8]) -> &'b [u8] {
    let mut length = 0;
    // SAFETY: the path ends with a zero, the buffer is as long as said, the descriptor is this function's own.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        while file >= 0 && length < buffer.len() {
            let got = libc::read(file, buffer[length..].as_mut_ptr().cast(), buffer.len() - length);
            if got <= 0 {
                break;
            }
            length += got as usize;
        }
        if file >= 0 {
            libc::close(file);
        }
    }
    &buffer[..length]
}

/// Where a symbolic link leads; nothing if it cannot be read.
pub(crate) fn read_link<'b>(path: &CStr, buffer: &'b mut [u8]) -> &'b [u8] {
    // SAFETY: the path ends with a zero, the buffer is as long as said.
    let length = unsafe { libc::readlink(path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    &buffer[..usize::try_from(length).unwrap_or(0)]
}

/// Zeroed memory, aligned to a page, straight from the kernel.
pub(crate) fn fresh_memory(bytes: usize) -> Option<*mut u8> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping.
    let start = unsafe { libc::mmap(null_mut(), bytes.max(1), access, kind, -1, 0) };
    (start != libc::MAP_FAILED).then_some(start.cast())
}

/// A line of `/proc/self/maps`: `start-end rwxp offset device inode path`.
pub(crate) struct MapsLine<'t> {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) readable: bool,
    pub(crate) executable: bool,
    pub(crate) offset: usize,
    /// The path up to the end of the line, if the mapping is a file's.
    pub(crate) path: Option<&'t [u8]>,
}

impl<'t> MapsLine<'t> {
    /// Reads a line, with or without its line feed.
    pub(crate) fn parse(line: &'t [u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let mut fields = line.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
        let mut addresses = fields.next()?.split(|&byte| byte == b'-');
        let start = hexadecimal(addresses.next()?)?;
        let end = hexadecimal(addresses.next()?)?;
        let access = fields.next()?;
        let (readable, executable) = (access.first() == Some(&b'r'), access.get(2) == Some(&b'x'));
        let offset = hexadecimal(fields.next()?)?;
        let names_file = fields.nth(2).is_some_and(|path| path.starts_with(b"/"));
        // The path may have spaces, and nothing before it has a slash.
        let path = line.iter().position(|&byte| names_file && byte == b'/').map(|at| &line[at..]);
        Some(Self { start, end, readable, executable, offset, path })
    }
}

fn hexadecimal(digits: &[u8]) -> Option<usize> {
    usize::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
}
