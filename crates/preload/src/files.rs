//! Reading small files into memory of the caller.

use core::ffi::CStr;

/// The first bytes of a file, as many as fit; none if it cannot be read.
pub(super) fn read_file<'b>(path: &CStr, buffer: &'b mut [u8]) -> &'b [u8] {
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
pub(super) fn read_link<'b>(path: &CStr, buffer: &'b mut [u8]) -> &'b [u8] {
    // SAFETY: the path ends with a zero, the buffer is as long as said.
    let length = unsafe { libc::readlink(path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    &buffer[..usize::try_from(length).unwrap_or(0)]
}
