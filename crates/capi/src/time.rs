//! Times as C gives them.

use core::ffi::c_int;

use machine::{Clock, Deadline, Patient, Timeout};

/// C's `struct timespec`.
pub(crate) type Timespec = libc::timespec;

const NS_PER_S: u64 = 1_000_000_000;

/// Calls `wait` with `at` on `clock` as its deadline, and gives what it gives; EINVAL for a time or a clock that is none.
///
/// # Safety
/// `at` is null or points to a time.
pub(crate) unsafe fn until(
    clock: c_int,
    at: *const Timespec,
    wait: impl FnOnce(Timeout<'static, Patient>) -> c_int,
) -> c_int {
    // SAFETY: passed on.
    match unsafe { deadline(clock, at) } {
        Some(deadline) => wait(Timeout::at(deadline)),
        None => libc::EINVAL,
    }
}

/// The deadline at `at` on `clock`; none when it is no time or another clock. A time before the clock's zero has
/// passed.
///
/// # Safety
/// `at` is null or points to a time.
unsafe fn deadline(clock: c_int, at: *const Timespec) -> Option<Deadline> {
    let clock = match clock {
        libc::CLOCK_REALTIME => Clock::Realtime,
        libc::CLOCK_MONOTONIC => Clock::Monotonic,
        _ => return None,
    };
    // SAFETY: by the caller.
    let at = unsafe { at.as_ref() }?;
    let ns = u64::try_from(at.tv_nsec).ok().filter(|&ns| ns < NS_PER_S)?;
    let at_ns = u64::try_from(at.tv_sec).map_or(0, |s| s.saturating_mul(NS_PER_S).saturating_add(ns));
    Some(Deadline { clock, at_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(clock: c_int, tv_sec: i64, tv_nsec: i64) -> Option<u64> {
        let at = Timespec { tv_sec, tv_nsec };
        // SAFETY: a time.
        unsafe { deadline(clock, &raw const at) }.map(|deadline| deadline.at_ns)
    }

    #[test]
    fn times_are_read_as_posix_has_them() {
        assert_eq!(of(libc::CLOCK_MONOTONIC, 2, 5), Some(2_000_000_005));
        assert_eq!(of(libc::CLOCK_REALTIME, -1, 0), Some(0));
        assert_eq!(of(libc::CLOCK_REALTIME, i64::MAX, 0), Some(u64::MAX));
        assert_eq!(of(libc::CLOCK_REALTIME, 0, 1_000_000_000), None);
        assert_eq!(of(libc::CLOCK_REALTIME, 0, -1), None);
        assert_eq!(of(libc::CLOCK_PROCESS_CPUTIME_ID, 0, 0), None);
        // SAFETY: null is allowed.
        assert_eq!(unsafe { deadline(libc::CLOCK_REALTIME, core::ptr::null()) }, None);
    }
}
