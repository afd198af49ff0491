//! Calls that POSIX leaves undefined and glibc answers with 0: they change nothing here either, and are told at the end.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pthread::object::ObjectKind;

use crate::config;

/// Objects that are remembered.
const REMEMBERED: usize = 16;

/// Which objects were unlocked while no thread held them: address, and kind in the low bits, which are zero in an address.
static UNLOCKED: [AtomicUsize; REMEMBERED] = [const { AtomicUsize::new(0) }; REMEMBERED];

/// Notes that an object was unlocked which no thread held.
#[cold]
pub(crate) fn unlocked_while_free(kind: ObjectKind, address: usize) {
    let entry = address | kind.index();
    for slot in &UNLOCKED {
        match slot.compare_exchange(0, entry, Relaxed, Relaxed) {
            Err(known) if known != entry => {}
            _ => return,
        }
    }
}

/// Says on standard error which objects were unlocked while no thread held them.
pub(crate) fn tell() {
    for entry in UNLOCKED.iter().map(|slot| slot.load(Relaxed)).filter(|&entry| entry != 0) {
        let kind = match ObjectKind::ALL[(entry & 3) % ObjectKind::ALL.len()] {
            ObjectKind::Spin => "spin lock",
            other => other.name(),
        };
        let mut digits = [0; 16];
        let (module, offset) = module_of(entry & !3);
        let mut offset_digits = [0; 16];
        config::say(&[
            b"contend: unlocked while no thread held it: ",
            kind.as_bytes(),
            b" at 0x",
            hexadecimal(entry & !3, &mut digits),
            if module.is_empty() { b", on heap or stack" } else { b", " },
            module,
            if module.is_empty() { b"" } else { b"+0x" },
            if module.is_empty() { b"" } else { hexadecimal(offset, &mut offset_digits) },
            b"\n",
        ]);
    }
}

/// The file that an address was loaded from, and how far behind its start the address lies.
fn module_of(address: usize) -> (&'static [u8], usize) {
    // SAFETY: zeros are a valid value, and `dladdr` writes it.
    unsafe {
        let mut found: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(address as *const _, &raw mut found) == 0 || found.dli_fname.is_null() {
            return (b"", 0);
        }
        let name = core::ffi::CStr::from_ptr(found.dli_fname).to_bytes();
        (name, address - found.dli_fbase as usize)
    }
}

fn hexadecimal(mut number: usize, digits: &mut [u8; 16]) -> &[u8] {
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b"0123456789abcdef"[number % 16];
        number /= 16;
        if number == 0 {
            return &digits[first..];
        }
    }
}
