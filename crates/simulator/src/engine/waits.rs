//! Time that passes on a thread, and waits that its coroutine polls for itself.

use super::{Engine, suspend, transaction};
use crate::memory::Watched;
use crate::{NOBODY, Time};

/// Passes time on the running thread, which may lose its core meanwhile.
///
/// # Safety
/// As for [`suspend`].
pub(crate) unsafe fn pass(engine: *mut Engine, mut time: Time) {
    // SAFETY: the caller's, and every reference ends before the coroutine is suspended.
    unsafe {
        if (*engine).is_in_transaction() {
            return transaction::pass(engine, time);
        }
        loop {
            let this = &mut *engine;
            let end = this.clock.now + time;
            this.progress.busy_until = this.progress.busy_until.max(end);
            // No other thread takes the core before the end.
            if this.scheduler.current == NOBODY
                || !this.scheduler.share_cores()
                || this.clock.is_free_until(end)
            {
                this.clock.now = end;
                return;
            }
            this.scheduler.begin_delay(&mut this.clock, end);
            let current = this.scheduler.current;
            suspend(engine);
            time = (*engine).scheduler.thread(current).delay_left;
            if time == 0 {
                return;
            }
        }
    }
}

/// Between two rounds of so many polls, each of a word on one of the lines: returns when the first poll of a single line has
/// been made, or when it is time to poll several. Says whether the poll has been made. The round before began at `polled_at`.
///
/// # Safety
/// As for [`suspend`].
pub(crate) unsafe fn wait_for_lines(
    engine: *mut Engine,
    lines: &[u32],
    polls: usize,
    polled_at: Time,
    deadline: Option<Time>,
) -> bool {
    // SAFETY: as in `pass`.
    unsafe {
        let this = &mut *engine;
        let (current, core) = (this.scheduler.current, this.scheduler.current_core);
        let next_poll = this.clock.now + this.hardware.pause;
        let all_here = lines.iter().all(|&line| this.memory.has(core, line));
        // Another thread of the core may have changed what was polled.
        let lost_core = this.scheduler.thread(current).runs_since > polled_at;
        if this.options.really_poll || lost_core || !all_here {
            pass(engine, this.hardware.pause);
            return false;
        }
        let period = this.hardware.pause + polls as Time * this.hardware.hit;
        let mut watched = Watched { count: lines.len(), next_poll, period, ..Watched::default() };
        watched.lines[..lines.len()].copy_from_slice(lines);
        let timeout = deadline.map(|deadline| {
            let polls = deadline.saturating_sub(next_poll).div_ceil(period);
            next_poll + polls * period
        });
        this.scheduler.begin_wait(&mut this.clock, timeout);
        this.memory.requesters.get_mut(current).watched = watched;
        this.park(current, core);
        suspend(engine);
        let this = &mut *engine;
        this.scheduler.end_wait(current);
        let polled = this.memory.requesters.get(current).watched.polled;
        if polled {
            this.completed(current);
            this.memory.uses_unasked(&mut this.clock, lines[0], current, false);
            this.clock.now += this.hardware.hit;
        }
        polled
    }
}
