//! The table of waits on addresses.

use core::ffi::{c_int, c_uint, c_void};

use locks::WaitTable;
use machine::{Machine, Patient, Slept, Timeout};

use crate::time::{Timespec, until};

type Table = WaitTable<Patient>;

/// As many threads as Linux can have.
const MOST_THREADS: usize = 1 << 22;

#[unsafe(no_mangle)]
extern "C" fn contend_wait_table_new(threads: usize) -> *mut Table {
    if threads > MOST_THREADS {
        return core::ptr::null_mut();
    }
    Box::into_raw(Box::new(Table::for_threads(threads)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_wait_table_grow(table: *const Table, threads: usize) -> c_int {
    if threads > MOST_THREADS {
        return libc::ENOMEM;
    }
    // SAFETY: the caller passes a table.
    unsafe { &*table }.grow(threads);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_wait_table_free(table: *mut Table) {
    if !table.is_null() {
        // SAFETY: it came from `contend_wait_table_new`, and the caller does not use it again.
        drop(unsafe { Box::from_raw(table) });
    }
}

/// # Safety
/// A table, and a word that is there while the caller waits.
unsafe fn wait(
    table: *const Table,
    word: *const c_void,
    expected: u32,
    timeout: Timeout<'_, Patient>,
) -> c_int {
    // SAFETY: the caller's.
    let (table, word) = unsafe { (&*table, &*word.cast::<<Patient as Machine>::U32>()) };
    match table.wait(word, expected, timeout) {
        Slept::Woken => 0,
        Slept::Changed => libc::EAGAIN,
        Slept::GaveUp => libc::ETIMEDOUT,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_wait_table_wait(
    table: *const Table,
    word: *const c_void,
    expected: u32,
) -> c_int {
    // SAFETY: passed on.
    unsafe { wait(table, word, expected, Timeout::NONE) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_wait_table_clockwait(
    table: *const Table,
    word: *const c_void,
    expected: u32,
    clock: c_int,
    at: *const Timespec,
) -> c_int {
    // SAFETY: passed on.
    let wait = |timeout| unsafe { wait(table, word, expected, timeout) };
    // SAFETY: the caller passes a time.
    unsafe { until(clock, at, wait) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_wait_table_wake(
    table: *const Table,
    word: *const c_void,
    most: c_uint,
) -> c_uint {
    // SAFETY: the caller passes a table.
    let table = unsafe { &*table };
    table.wake(table.key_at(word), most)
}
