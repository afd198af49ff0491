//! Times that a caller gives, checked as glibc checks them.

use core::ffi::c_int;

use libc::{clockid_t, timespec};
use machine::{Clock, Deadline};

const NS_PER_S: u64 = 1_000_000_000;

/// A point in time as a caller gives it. Its nanoseconds are looked at only when the caller has to wait, as glibc does.
#[derive(Clone, Copy)]
pub(crate) struct Time {
    /// The clock, one of the two that waits can use.
    pub(crate) clock: clockid_t,
    at: timespec,
}

impl Time {
    /// A time on a clock.
    ///
    /// # Errors
    /// `EINVAL` for a clock that waits cannot use.
    ///
    /// # Safety
    /// `at` can be read.
    pub(crate) unsafe fn new(clock: clockid_t, at: *const timespec) -> Result<Self, c_int> {
        match clock {
            // SAFETY: the caller's promise.
            libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC => Ok(Self { clock, at: unsafe { *at } }),
            _ => Err(libc::EINVAL),
        }
    }

    /// The time of a deadline.
    pub(crate) fn at(deadline: Deadline) -> Self {
        let (clock, at) = Self::of(deadline);
        Self { clock, at }
    }

    /// A deadline as clock and time.
    pub(crate) fn of(deadline: Deadline) -> (clockid_t, timespec) {
        let clock = match deadline.clock {
            Clock::Realtime => libc::CLOCK_REALTIME,
            Clock::Monotonic => libc::CLOCK_MONOTONIC,
        };
        (
            clock,
            timespec { tv_sec: (deadline.at_ns / NS_PER_S) as _, tv_nsec: (deadline.at_ns % NS_PER_S) as _ },
        )
    }

    /// The time as the caller gave it.
    pub(crate) fn raw(&self) -> *const timespec {
        &raw const self.at
    }

    /// The time as a deadline, in the past where it lies before the clock's zero; `None` when its nanoseconds make no
    /// sense.
    pub(crate) fn deadline(&self) -> Option<Deadline> {
        let ns = u64::try_from(self.at.tv_nsec).ok().filter(|&ns| ns < NS_PER_S)?;
        let clock = if self.clock == libc::CLOCK_REALTIME { Clock::Realtime } else { Clock::Monotonic };
        let at_ns =
            u64::try_from(self.at.tv_sec).map_or(0, |s| s.saturating_mul(NS_PER_S).saturating_add(ns));
        Some(Deadline { clock, at_ns })
    }
}
