//! The recorder for locks that are no pthread's.

use core::ptr::null;

use profile::hooks::{Hooks, Use, VERSION};

use super::{Mode, Outcome, RECORDER, Trace};
use crate::thread;

static HOOKS: Hooks = Hooks {
    acquired,
    releasing,
    waits,
    waits_no_more,
    try_failed,
    timed_out,
    condition_waits,
    condition_waited,
    destroyed,
};

/// [`profile::hooks::ENTRY`].
#[unsafe(no_mangle)]
extern "C" fn contend_recorder(version: u32) -> *const Hooks {
    if version == VERSION && RECORDER.enabled() { &raw const HOOKS } else { null() }
}

extern "C" fn acquired(trace: &Trace, of: &Use, wait_started: u64) {
    let wait_started = (wait_started != 0).then_some(wait_started);
    RECORDER.acquired(thread::current().recording(), trace, of.kind, of.mode, of, wait_started);
}

extern "C" fn releasing(trace: &Trace, mode: Mode) {
    RECORDER.releasing(thread::current().recording(), trace, mode);
}

extern "C" fn waits(trace: &Trace, of: &Use) -> u64 {
    thread::current().is_in_told_wait.set(true);
    RECORDER.waits(thread::current().recording(), trace, of.kind, of.mode, of)
}

extern "C" fn waits_no_more() {
    thread::current().is_in_told_wait.set(false);
    RECORDER.waits_no_more(thread::current().recording());
}

extern "C" fn try_failed(trace: &Trace, of: &Use) {
    RECORDER.try_failed(thread::current().recording(), trace, of.kind, of.mode, of);
}

extern "C" fn timed_out(trace: &Trace, of: &Use) {
    RECORDER.timed_out(thread::current().recording(), trace, of.kind, of.mode, of);
}

extern "C" fn condition_waits() -> u64 {
    let started = super::stamp();
    thread::current().is_in_told_wait.set(true);
    RECORDER.cond_waits(thread::current().recording(), started);
    started
}

extern "C" fn condition_waited(trace: &Trace, of: &Use, started: u64, timed_out: bool) {
    thread::current().is_in_told_wait.set(false);
    let outcome = if timed_out { Outcome::TimedOut } else { Outcome::Woken };
    RECORDER.cond_waited(thread::current().recording(), trace, of, started, None, outcome);
}

extern "C" fn destroyed(trace: &Trace) {
    RECORDER.destroyed(trace);
}
