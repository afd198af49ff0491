//! How much time may go into what a stranger's program asks to be read.

use crate::unreached::processor_time;
use std::cell::Cell;
use std::time::Duration;

/// A deadline in CPU time of the calling thread, so that a busy machine takes nothing away.
pub(super) struct Effort {
    until: Duration,
    asked: Cell<u32>,
    is_over: Cell<bool>,
}

impl Effort {
    /// From now on for so long.
    pub(super) fn begin(left: Duration) -> Self {
        Self { until: processor_time() + left, asked: Cell::new(0), is_over: Cell::new(left.is_zero()) }
    }

    /// Whether the time is over. The clock, which is a system call, is looked at each 64th time.
    pub(super) fn is_over(&self) -> bool {
        self.asked.set(self.asked.get().wrapping_add(1));
        if self.asked.get().is_multiple_of(64) {
            self.is_over.set(self.left().is_zero());
        }
        self.is_over.get()
    }

    /// What is left of it.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_sub(processor_time())
    }
}
