//! `pthread_cond_*`.
//!
//! Where any mutex may be ours, every private condition variable is ours too, since glibc's would write to the mutex as if
//! it were glibc's own. Where all mutexes are glibc's, so are the condition variables.
//!
//! What lies where in the 48 bytes of a condition variable of ours. glibc's names are those of its `struct __pthread_cond_s`.
//!
//! | bytes  | glibc's use    | ours                                                     | written by            |
//! |--------|----------------|----------------------------------------------------------|-----------------------|
//! | 0..4   | `__wseq`       | waiters: those who still touch the object; bit 31: it is being destroyed | waiters, destroyer |
//! | 4..8   | `__wseq`       | bit 16: the waiters are ours; below, the generation in which they came, see [`crate::generation`] | first use, also after a fork |
//! | 8..12  | `__g1_start`   | sequence: counts wake-ups; waiters sleep on it           | who wakes             |
//! | 36..40 | `__wrefs`      | attributes, as glibc's init writes them: bit 0 shared, bit 1 monotonic clock | glibc's init |
//! | 28..32 | `__wrefs`      | the same from glibc 2.41 on, which has no `__g_refs` before it | glibc's init         |
//!
//! A waiter notes the sequence, gives the mutex up and sleeps while the sequence is what it was. A signal counts the
//! sequence up, so that a waiter that does not sleep yet will not, and wakes one sleeper, the one that has slept longest.
//! A waiter that is cancelled may have been woken already, so it wakes another one in its place; waiting may end for no
//! reason, so one wake-up too many does no harm.
//!
//! # Condition variables shared between processes
//!
//! They stay glibc's. With a mutex of ours, which by itself cannot be shared, glibc cannot wait, because it would write to it;
//! then the wait gives our mutex up and waits with a mutex of its own. A signal that comes between the two finds no
//! waiter, so it is counted ([`SHARED_WAKES`]), and the wait polls the count every [`SLICE_NS`].

use core::ffi::{c_int, c_void};
use core::mem::{offset_of, zeroed};
use core::ptr::null;
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};

use libc::{clockid_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t, timespec};
use machine::host::Errno;
use machine::{Clock, Deadline, Machine, Patient};

use crate::cancellation::{self, with_cleanup};
use crate::choice::MUTEXES;
use crate::generation::generation_word;
use crate::mutex::{GivenUp, Mutex};
use crate::real;
use crate::recorder::{self, Outcome, Refusal};
use crate::state::Entered;
use crate::thread;
use crate::time::Time;
use crate::time_slice;

/// A condition variable, ours or glibc's.
#[repr(C, align(8))]
struct Cond {
    /// Waiters in the low half, their generation in the high half: one word, so that the thread that first uses the object
    /// after a fork forgets the parent's waiters and no others.
    waiters: AtomicU64,
    sequence: AtomicU32,
    glibc: [AtomicU32; 9],
}

const _: () = assert!(size_of::<Cond>() == size_of::<pthread_cond_t>());
const _: () = assert!(align_of::<Cond>() <= align_of::<pthread_cond_t>());
const _: () = assert!(offset_of!(Cond, glibc) == WRITTEN);

/// Bytes of the object that ours writes.
const WRITTEN: usize = 12;
/// Where `__wrefs` may be: until glibc 2.40, and from 2.41 on.
const WREFS: [usize; 2] = [36, 28];

/// The byte at which this glibc has `__wrefs`; 0 until that is known.
static ATTRIBUTES: AtomicUsize = AtomicUsize::new(0);

/// Finds out where glibc's init writes the attributes.
#[cold]
fn find_attributes() -> usize {
    // SAFETY: zeros are valid values of both, which are then initialised.
    let (mut cond, mut attributes) = unsafe { (zeroed::<pthread_cond_t>(), zeroed::<pthread_condattr_t>()) };
    // SAFETY: both live here.
    unsafe {
        libc::pthread_condattr_init(&raw mut attributes);
        libc::pthread_condattr_setclock(&raw mut attributes, libc::CLOCK_MONOTONIC);
        real::pthread_cond_init(&raw mut cond, &raw const attributes);
        libc::pthread_condattr_destroy(&raw mut attributes);
    }
    // SAFETY: it lives here.
    let cond = unsafe { Cond::at(&raw mut cond) };
    let found = where_attributes_are(|at| cond.glibc[(at - WRITTEN) / size_of::<u32>()].load(Relaxed));
    ATTRIBUTES.store(found, Relaxed);
    found
}

/// Of the places for attributes the one at which a fresh object of the monotonic clock has them.
fn where_attributes_are(word: impl Fn(usize) -> u32) -> usize {
    WREFS.into_iter().find(|&at| word(at) == MONOTONIC).unwrap_or(WREFS[0])
}

// Bits of `__wrefs`, from glibc's nptl/pthread_cond_common.c.
const SHARED: u32 = 1;
const MONOTONIC: u32 = 2;

/// Set in `waiters` while the object is being destroyed.
const DESTROYING: u64 = 1 << 31;

/// The half of the word that counts waiters.
const WAITERS: u64 = u32::MAX as u64;

/// Set in the other half with the first use of ours. Before the configuration is known the C library may have used the object, and it counts
/// its waits where we count waiters.
const COUNTED: u64 = 1 << 48;

/// How often a wait for a shared condition variable that has a mutex of ours polls for signals, ns.
const SLICE_NS: u64 = 2_000_000;

/// Until when a wait lasts.
type Until = Option<Time>;

/// A wait in progress: what a cancellation has to put right.
struct Waiting<'a> {
    cond: &'a Cond,
    mutex: &'a Mutex,
    given_up: GivenUp,
}

/// Leaves the condition variable and takes the mutex back, as the caller's own handlers expect.
unsafe extern "C-unwind" fn cancelled(waiting: *mut c_void) {
    // SAFETY: the argument of `with_cleanup` below; its frame is being unwound and still there.
    let waiting = unsafe { &*waiting.cast::<Waiting<'_>>() };
    waiting.cond.wake(1);
    waiting.cond.leave();
    let _ = waiting.mutex.take_back(waiting.given_up);
}

impl Cond {
    /// The condition variable at an address.
    ///
    /// # Safety
    /// It is one, and lives as long as the result is used.
    #[inline(always)]
    unsafe fn at<'a>(cond: *mut pthread_cond_t) -> &'a Self {
        // SAFETY: the caller's promise; sizes and alignments agree, and any bytes are a valid value.
        unsafe { &*cond.cast::<Self>() }
    }

    fn object(&self) -> *mut pthread_cond_t {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    fn attributes(&self) -> u32 {
        let at = match ATTRIBUTES.load(Relaxed) {
            0 => find_attributes(),
            known => known,
        };
        self.glibc[(at - WRITTEN) / size_of::<u32>()].load(Relaxed)
    }

    fn shared(&self) -> bool {
        self.attributes() & SHARED != 0
    }

    fn ours(&self) -> bool {
        MUTEXES.swaps() && !self.shared()
    }

    fn clock(&self) -> clockid_t {
        if self.attributes() & MONOTONIC != 0 { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME }
    }

    /// Forgets the waiters of the parent process, and what the C library has left.
    #[inline]
    fn enter_generation(&self) {
        let fresh = COUNTED | u64::from(generation_word()) << 32;
        let mut found = self.waiters.load(Relaxed);
        while found & !WAITERS != fresh {
            match self.waiters.compare_exchange(found, fresh, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => found = now,
            }
        }
    }

    /// The address of the half that counts waiters, as the kernel knows it.
    fn waiters_word(&self) -> *const <Patient as Machine>::U32 {
        // Little-endian: the low half comes first.
        self.waiters.as_ptr().cast_const().cast()
    }

    fn wait(&self, mutex: &Mutex, until: Until) -> c_int {
        let deadline = match until.map(|time| time.deadline()) {
            Some(None) => return libc::EINVAL,
            deadline => deadline.flatten(),
        };
        mutex.decide();
        if self.shared() && mutex.choice().is_some() {
            return self.wait_in_slices(mutex, deadline);
        }
        let recorded = mutex.recorded();
        let started = if recorded { recorder::stamp() } else { 0 };
        if self.ours() {
            return self.wait_ours(mutex, deadline, recorded.then_some(started));
        }
        self.wait_glibc(mutex, until, recorded.then_some(started))
    }

    fn wait_ours(&self, mutex: &Mutex, deadline: Option<Deadline>, recorded: Option<u64>) -> c_int {
        self.enter_generation();
        self.waiters.fetch_add(1, SeqCst); // [1] before the mutex is given up: its next holder sees this
        let sequence = self.sequence.load(Acquire);
        let given_up = match mutex.release_for_wait() {
            Ok(given_up) => given_up,
            Err(error) => {
                self.leave();
                return error;
            }
        };
        if let Some(started) = recorded
            && given_up == GivenUp::Wholly
        {
            recorder::cond_waits(thread::current().recording(), started);
        }
        time_slice::about_to_sleep();
        let mut waiting = Waiting { cond: self, mutex, given_up };
        let timed_out =
            with_cleanup(cancelled, (&raw mut waiting).cast(), || self.sleep_while(sequence, deadline));
        self.leave();
        let entered = mutex.take_back(given_up);
        finish(mutex, given_up, entered, timed_out, recorded)
    }

    /// Sleeps while the sequence is this, or until the deadline, through signals; true if the deadline ended it. A cancellation
    /// point.
    #[inline(always)]
    fn sleep_while(&self, sequence: u32, deadline: Option<Deadline>) -> bool {
        loop {
            match self.sleep_once(sequence, deadline) {
                libc::EINTR => {}
                error => return error == libc::ETIMEDOUT,
            }
        }
    }

    /// One sleep; gives the error number that it ended with, 0 for a wake-up.
    #[inline(always)]
    fn sleep_once(&self, sequence: u32, deadline: Option<Deadline>) -> c_int {
        let time = deadline.map(|deadline| Time::of(deadline).1);
        let clock_flag = match deadline {
            Some(Deadline { clock: Clock::Realtime, .. }) => libc::FUTEX_CLOCK_REALTIME,
            _ => 0,
        };
        let time = time.as_ref().map_or(null(), core::ptr::from_ref);
        let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG | clock_flag;
        let errno = Errno::save();
        let answer = cancellation::point(|syscall| {
            // SAFETY: the time and the word outlive the call.
            unsafe {
                syscall(
                    libc::SYS_futex,
                    self.sequence.as_ptr(),
                    operation,
                    sequence,
                    time,
                    null::<u32>(),
                    libc::FUTEX_BITSET_MATCH_ANY,
                )
            }
        });
        let error = if answer == 0 { 0 } else { Errno::get() };
        errno.restore();
        error
    }

    /// The last touch of a waiter.
    fn leave(&self) {
        let word = self.waiters_word();
        if self.waiters.fetch_sub(1, Release) & WAITERS == DESTROYING | 1 {
            // The object may be gone by now; only its address is used.
            Patient::wake(word, 1);
        }
    }

    fn wake(&self, count: u32) {
        self.sequence.fetch_add(1, Release);
        Patient::wake(self.sequence.as_ptr().cast_const().cast(), count);
    }

    fn wake_if_any(&self, count: u32) {
        // [1] a waiter that gave the mutex up before this caller took it is counted
        if self.waiters.load(SeqCst) == 0 {
            return; // no thread has waited yet: nothing is written, as by glibc
        }
        self.enter_generation();
        // [1] as above
        if self.waiters.load(SeqCst) & WAITERS & !DESTROYING != 0 {
            self.wake(count);
        }
    }

    /// Counts a wake-up that glibc is about to make.
    fn note_shared_wake(&self) {
        if MUTEXES.swaps() {
            shared_wakes(self.address()).fetch_add(1, SeqCst);
        }
    }

    /// Waits until the last woken waiter has gone.
    #[cold]
    fn destroy(&self) {
        self.enter_generation();
        let mut waiters = self.waiters.fetch_or(DESTROYING, Acquire) & WAITERS | DESTROYING;
        while waiters != DESTROYING {
            // SAFETY: the machine's word is four bytes of memory that the object has.
            let word = unsafe { &*self.waiters_word() };
            Patient::sleep_while(word, waiters as u32, machine::Timeout::NONE);
            waiters = self.waiters.load(Acquire) & WAITERS;
        }
        self.waiters.fetch_and(!WAITERS, Relaxed);
    }

    // glibc's condition variables.

    fn wait_glibc(&self, mutex: &Mutex, until: Until, recorded: Option<u64>) -> c_int {
        let given_up = if mutex.glibc_holds_twice() { GivenUp::InPart } else { GivenUp::Wholly };
        let recorded = recorded.filter(|_| mutex.glibc_will_unlock()); // or else there is no wait
        if let Some(started) = recorded
            && given_up == GivenUp::Wholly
        {
            recorder::releasing(thread::current().recording(), mutex.trace(), recorder::Mode::Exclusive);
            recorder::cond_waits(thread::current().recording(), started);
        }
        time_slice::about_to_sleep();
        // SAFETY: the caller's arguments, passed on.
        let error = unsafe {
            match until {
                None => real::pthread_cond_wait(self.object(), mutex.object()),
                Some(time) if time.clock == self.clock() => {
                    real::pthread_cond_timedwait(self.object(), mutex.object(), time.raw())
                }
                Some(time) => {
                    real::pthread_cond_clockwait(self.object(), mutex.object(), time.clock, time.raw())
                }
            }
        };
        if let Some(started) = recorded
            && given_up == GivenUp::Wholly
        {
            let thread = thread::current().recording();
            let outcome = match error {
                0 => Some(Outcome::Woken),
                libc::ETIMEDOUT => Some(Outcome::TimedOut),
                _ => None, // there was no wait
            };
            match outcome {
                Some(outcome) => {
                    recorder::cond_waited(thread, mutex.trace(), mutex.address(), started, None, outcome);
                }
                None => recorder::cond_waits(thread, 0),
            }
        }
        error
    }

    /// See the top of this file.
    #[cold]
    #[inline(never)]
    fn wait_in_slices(&self, mutex: &Mutex, deadline: Option<Deadline>) -> c_int {
        let recorded = recorder::enabled().then(recorder::stamp);
        let wakes = shared_wakes(self.address());
        let before = wakes.load(SeqCst); // under the mutex, as is the thread that changes what is waited for
        // SAFETY: zeros are a fresh mutex of glibc's.
        let mut bridge: pthread_mutex_t = unsafe { zeroed() };
        // SAFETY: just made.
        unsafe { real::pthread_mutex_lock(&raw mut bridge) };
        let given_up = match mutex.release_for_wait() {
            Ok(given_up) => given_up,
            Err(error) => return error,
        };
        time_slice::about_to_sleep();
        let mut bridged = Bridged { mutex, given_up };
        let timed_out = with_cleanup(bridge_cancelled, (&raw mut bridged).cast(), || {
            loop {
                let slice = Deadline::after_ns::<Patient>(SLICE_NS);
                let last = deadline.filter(|deadline| {
                    deadline.at_ns.saturating_sub(Patient::clock_ns(deadline.clock)) <= SLICE_NS
                });
                let (clock, time) = Time::of(last.unwrap_or(slice));
                // SAFETY: the bridge is locked, and lives until the end of this frame.
                let error = unsafe {
                    real::pthread_cond_clockwait(self.object(), &raw mut bridge, clock, &raw const time)
                };
                if error != libc::ETIMEDOUT || wakes.load(SeqCst) != before {
                    return false;
                }
                if last.is_some() {
                    return true;
                }
            }
        });
        let entered = mutex.take_back(given_up);
        finish(mutex, given_up, entered, timed_out, recorded)
    }
}

/// Signals and broadcasts of this process for shared condition variables, by their addresses.
static SHARED_WAKES: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

fn shared_wakes(address: usize) -> &'static AtomicU32 {
    &SHARED_WAKES[address / size_of::<Cond>() % SHARED_WAKES.len()]
}

struct Bridged<'a> {
    mutex: &'a Mutex,
    given_up: GivenUp,
}

unsafe extern "C-unwind" fn bridge_cancelled(bridged: *mut c_void) {
    // SAFETY: the argument of `with_cleanup` above; its frame is being unwound and still there.
    let bridged = unsafe { &*bridged.cast::<Bridged<'_>>() };
    let _ = bridged.mutex.take_back(bridged.given_up);
}

/// The answer of a wait whose mutex is back, and its record.
fn finish(
    mutex: &Mutex,
    given_up: GivenUp,
    entered: Entered,
    timed_out: bool,
    recorded: Option<u64>,
) -> c_int {
    let relock_started = match entered {
        Ok(waited) => waited,
        Err(error) => return error, // EOWNERDEAD means that it is held
    };
    if let Some(started) = recorded
        && given_up == GivenUp::Wholly
    {
        let outcome = if timed_out { Outcome::TimedOut } else { Outcome::Woken };
        let thread = thread::current().recording();
        recorder::cond_waited(thread, mutex.trace(), mutex.address(), started, relock_started, outcome);
    }
    if timed_out { libc::ETIMEDOUT } else { 0 }
}

// The functions behind the exported names.
//
// SAFETY, of all of them: POSIX asks the callers for objects that are alive, and for times that can be read.

pub(crate) unsafe extern "C-unwind" fn init(
    cond: *mut pthread_cond_t,
    attributes: *const pthread_condattr_t,
) -> c_int {
    // SAFETY: passed on. glibc writes zeros and the attributes, which is a fresh one of ours too.
    let error = unsafe { real::pthread_cond_init(cond, attributes) };
    if error == 0 && MUTEXES.swaps() {
        // SAFETY: see above.
        let cond = unsafe { Cond::at(cond) };
        if cond.shared() {
            MUTEXES.leave(Refusal::Condition); // and all of it is glibc's
        } else {
            cond.enter_generation();
        }
    }
    error
}

pub(crate) unsafe extern "C-unwind" fn destroy(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: see above.
    let this = unsafe { Cond::at(cond) };
    if this.ours() {
        this.destroy();
        return 0;
    }
    // SAFETY: passed on.
    unsafe { real::pthread_cond_destroy(cond) }
}

pub(crate) unsafe extern "C-unwind" fn wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: see above.
    unsafe { Cond::at(cond).wait(Mutex::at(mutex), None) }
}

pub(crate) unsafe extern "C-unwind" fn timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: see above.
    let clock = unsafe { Cond::at(cond) }.clock();
    // SAFETY: passed on.
    unsafe { clockwait(cond, mutex, clock, time) }
}

pub(crate) unsafe extern "C-unwind" fn clockwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: see above.
    let (cond, mutex, time) = unsafe { (Cond::at(cond), Mutex::at(mutex), Time::new(clock, time)) };
    match time {
        Ok(time) => cond.wait(mutex, Some(time)),
        Err(error) => error,
    }
}

pub(crate) unsafe extern "C-unwind" fn signal(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: see above.
    let this = unsafe { Cond::at(cond) };
    if this.ours() {
        this.wake_if_any(1);
        return 0;
    }
    this.note_shared_wake();
    // SAFETY: passed on.
    unsafe { real::pthread_cond_signal(cond) }
}

pub(crate) unsafe extern "C-unwind" fn broadcast(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: see above.
    let this = unsafe { Cond::at(cond) };
    if this.ours() {
        this.wake_if_any(u32::MAX);
        return 0;
    }
    this.note_shared_wake();
    // SAFETY: passed on.
    unsafe { real::pthread_cond_broadcast(cond) }
}

#[cfg(test)]
mod tests {
    use super::{MONOTONIC, find_attributes, where_attributes_are};

    #[test]
    fn attributes_are_where_the_c_library_writes_them() {
        for place in [36, 28] {
            assert_eq!(where_attributes_are(|at| if at == place { MONOTONIC } else { 0 }), place);
        }
        assert_eq!(where_attributes_are(|_| 0), 36, "of none that is known the older");
        assert!([36, 28].contains(&find_attributes()));
    }
}
