//! This computer, as reports name it, and the cores of it that this process may use.

use machine::{Machine as _, Native};
use report::text;

/// The cores that this process may run on; all of them where the kernel does not say.
pub fn allowed_cores() -> Vec<u32> {
    // SAFETY: an all-zero set is valid, and its size is passed with it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return Native::topology().places.iter().map(|place| place.core).collect();
        }
        set
    };
    let numbers = 0..8 * size_of::<libc::cpu_set_t>();
    // SAFETY: the number is inside the set.
    numbers.filter(|&core| unsafe { libc::CPU_ISSET(core, &set) }).map(|core| core as u32).collect()
}

/// The processor's name as `/proc/cpuinfo` gives it.
pub fn processor_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| text::printable(name.trim()))
}

/// The date in UTC, such as `2026-01-31`.
pub fn today() -> String {
    // SAFETY: both pointers are valid for their calls, and all-zero is a valid broken-down time.
    let date = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut date: libc::tm = std::mem::zeroed();
        libc::gmtime_r(&raw const now, &raw mut date);
        date
    };
    format!("{:04}-{:02}-{:02}", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday)
}
