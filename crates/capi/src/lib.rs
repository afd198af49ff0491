//! The locks as C functions, named as pthread's: `contend_mcs_lock`, `contend_mcs_trylock`, `contend_mcs_unlock`, and
//! `contend_futex_timedlock` where a wait can end at a deadline; for reader-writer locks `contend_rw_rdlock`,
//! `contend_rw_wrlock`, and `contend_rw_unlock` for either.
//!
//! Every function takes a pointer to a lock that is not null, initialised (all zero bits are a free lock), and used by
//! the functions of its own kind only. Those that acquire and release give 0, or an error number as pthread does. What the headers in `include/` say
//! of each lock is made by `tests/headers.rs` from the catalogue that names the locks elsewhere.
//!
//! The locks run on [`machine::Patient`]: a program in C may have more threads than cores, and first-in-first-out spinning
//! would take it a time slice for each hand-over then. `contend_set_spin_bound` says when the waits of spin
//! locks stop spinning; locks that sleep by themselves have bounds of their own.
//!
//! From another language they are declared as the header has them:
//!
//! ```
//! use contend as _; // the library that has the functions
//! use std::ffi::c_int;
//!
//! /// `contend_ticket_t`: all zero bits are a free lock.
//! #[repr(C)]
//! struct Ticket(u64);
//!
//! // SAFETY: the signatures are those of the header.
//! unsafe extern "C" {
//!     fn contend_ticket_lock(lock: *mut Ticket) -> c_int;
//!     fn contend_ticket_trylock(lock: *mut Ticket) -> c_int;
//!     fn contend_ticket_unlock(lock: *mut Ticket) -> c_int;
//! }
//!
//! let mut lock = Ticket(0);
//! // SAFETY: initialised, used by its own functions alone, and in its place as long as they are called.
//! unsafe {
//!     assert_eq!(contend_ticket_lock(&mut lock), 0);
//!     assert_eq!(contend_ticket_trylock(&mut lock), libc::EBUSY);
//!     assert_eq!(contend_ticket_unlock(&mut lock), 0);
//! }
//! ```

mod counted;
mod queue;
mod rt;
mod time;
mod wait_table;
mod waiting;
mod ww;

use core::ffi::c_int;

use locks::{DowngradeLock, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};
use machine::GaveUp;

use time::{Timespec, until};

fn busy_unless(taken: bool) -> c_int {
    if taken { 0 } else { libc::EBUSY }
}

fn timed_out_unless(acquired: Result<(), GaveUp>) -> c_int {
    acquired.map_or(libc::ETIMEDOUT, |()| 0)
}

/// Pauses that a wait of a spin lock makes before it yields, then sleeps; `UINT_MAX` spins for ever. Locks that sleep by themselves
/// do so whatever it is: the header names them.
#[unsafe(no_mangle)]
extern "C" fn contend_set_spin_bound(pauses: core::ffi::c_uint) {
    machine::host::set_spin_bound(pauses);
}

/// The C functions of one lock, by what it can do.
macro_rules! exports {
    ($($name:ident: $ability:ident $type:ty,)*) => {
        /// What is exported, for the test that compares it with the catalogue.
        pub const EXPORTED: &[(&str, &str)] = &[$((stringify!($name), stringify!($ability))),*];

        $(mod $name {
            use super::*;
            #[allow(unused_imports)] // each names some of them
            use locks::*;
            type Lock = $type;
            exports!(@$ability $name);
        })*
    };

    (@exclusive $name:ident) => {
        exports!(@fn $name "_lock" |lock| { lock.acquire(); 0 });
        exports!(@fn $name "_unlock" |lock| {
            // SAFETY: the caller holds the lock.
            unsafe { lock.release() };
            0
        });
    };
    (@tried $name:ident) => {
        exports!(@exclusive $name);
        exports!(@fn $name "_trylock" |lock| busy_unless(lock.try_acquire()));
    };
    (@timed $name:ident) => {
        exports!(@tried $name);
        exports!(@timed_fn $name "_timedlock" "_clocklock" |lock, timeout| lock.acquire_or(timeout));
    };
    (@shared $name:ident) => {
        exports!(@fn $name "_wrlock" |lock| { lock.acquire(); 0 });
        exports!(@fn $name "_trywrlock" |lock| busy_unless(lock.try_acquire()));
        exports!(@fn $name "_wrunlock" |lock| {
            // SAFETY: the caller holds the lock.
            unsafe { lock.release() };
            0
        });
        exports!(@fn $name "_rdlock" |lock| { lock.acquire_shared(false); 0 });
        exports!(@fn $name "_rdlock_again" |lock| { lock.acquire_shared(true); 0 });
        exports!(@fn $name "_tryrdlock" |lock| busy_unless(lock.try_acquire_shared(false)));
        exports!(@fn $name "_rdunlock" |lock| {
            // SAFETY: the caller reads.
            unsafe { lock.release_shared() };
            0
        });
        exports!(@fn $name "_unlock" |lock| {
            // SAFETY: the caller holds the lock, and so knows for certain how; a transaction is ended by either.
            unsafe {
                if lock.is_exclusive() {
                    lock.release();
                } else {
                    lock.release_shared();
                }
            }
            0
        });
        exports!(@fn $name "_downgrade" |lock| {
            // SAFETY: the caller writes.
            unsafe { lock.downgrade() };
            0
        });
    };
    (@timed_shared $name:ident) => {
        exports!(@shared $name);
        exports!(@timed_fn $name "_timedwrlock" "_clockwrlock" |lock, timeout| lock.acquire_or(timeout));
        exports!(@timed_fn $name "_timedrdlock" "_clockrdlock" |lock, timeout| lock.acquire_shared_or(false, timeout));
    };

    (@fn $name:ident $suffix:literal |$lock:ident| $body:expr) => {
        const _: () = {
            #[unsafe(export_name = concat!("contend_", stringify!($name), $suffix))]
            unsafe extern "C" fn function(lock: *const Lock) -> c_int {
                // SAFETY: the caller passes a lock of this kind.
                let $lock = unsafe { &*lock };
                $body
            }
        };
    };
    (@timed_fn $name:ident $timed:literal $clock:literal |$lock:ident, $timeout:ident| $body:expr) => {
        const _: () = {
            #[unsafe(export_name = concat!("contend_", stringify!($name), $timed))]
            unsafe extern "C" fn on_realtime(lock: *const Lock, at: *const Timespec) -> c_int {
                // SAFETY: passed on.
                unsafe { on_clock(lock, libc::CLOCK_REALTIME, at) }
            }

            #[unsafe(export_name = concat!("contend_", stringify!($name), $clock))]
            unsafe extern "C" fn on_clock(lock: *const Lock, clock: c_int, at: *const Timespec) -> c_int {
                // SAFETY: the caller passes a lock of this kind.
                let $lock = unsafe { &*lock };
                // SAFETY: the caller passes a time.
                unsafe { until(clock, at, |$timeout| timed_out_unless($body)) }
            }
        };
    };
}

exports! {
    adaptive: timed_shared Adaptive,
    futex: timed Futex,
    rw: timed_shared Rw,
    ttas_backoff: timed TtasBackoff,
    ticket_proportional: tried TicketProportional,
    lockref: timed LockRef,
    mcs: tried Mcs,
    mcs_tp: timed McsTp,
    k42: tried K42,
    clh: tried Clh,
    clh_timed: timed ClhTimed,
    osq: timed Osq,
    qspin: tried Qspin,
    rw_queued: shared RwQueued,
    rwsem: timed_shared Rwsem,
    kernel_mutex: timed KernelMutex,
    tp_futex: timed TpFutex,
    tas: timed Tas,
    tas_backoff: timed TasBackoff,
    ttas: timed Ttas,
    ticket: tried Ticket,
    ticket4: tried Ticket4,
    ticket_selftuning: tried TicketSelfTuning,
    anderson: tried Anderson,
    rw_naive: timed_shared RwNaive,
    rwsem_no_spin: timed_shared RwsemNoSpin,
    rwsem_fifo: timed_shared RwsemFifo,
    glibc_mutex: timed GlibcMutex,
    glibc_adaptive: timed GlibcAdaptive,
    glibc_spin: tried GlibcSpin,
    glibc_rwlock: timed_shared GlibcRwlock,
    glibc_rwlock_writer: timed_shared GlibcRwlockWriter,
    glibc_rwlock_nonrecursive: timed_shared GlibcRwlockNonrecursive,
    elided_tas: timed Elided<Tas>,
    elided_ticket: tried Elided<Ticket>,
    elided_mcs: tried Elided<Mcs>,
    elided_glibc_mutex: timed Elided<GlibcMutex>,
    elided_futex: timed Elided<Futex>,
    elided_adaptive: timed_shared Elided<Adaptive>,
    elided_rw: timed_shared Elided<Rw>,
    elided_when_free_ticket: tried Elided<Ticket, RetryWhenFree>,
    elided_one_by_one_ticket: tried Elided<Ticket, RetryOneByOne>,
    elided_less_often_ticket: tried Elided<Ticket, RetryLessOften>,
}
