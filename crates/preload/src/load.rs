//! What happens when the library is loaded, when the process forks, and when it ends.

use core::ffi::{c_char, c_int};

use crate::choice::{MUTEXES, RWLOCKS, SPINS};
use crate::signals_blocked::{block_signals, unblock_signals};
use crate::tag::Initialisation;
use crate::{
    cancellation, choice, config, generation, handles, misuse, real, recorder, rwlock, tally, thread,
    time_slice,
};

/// glibc calls constructors with the arguments of the program and its environment.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = load;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = end;

unsafe extern "C" {
    static mut environ: *const *const c_char;
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> c_int;
}

extern "C" fn load(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
    real::look_up_all();
    handles::look_up();
    cancellation::find_word();
    // SAFETY: this runs first of all constructors, so that the process has one thread. The C library has not noted its
    // environment yet, and will note the same.
    unsafe {
        if environ.is_null() {
            environ = environment;
        }
        recorder::start();
        config::read(environment);
    }
    generation::start(child_begins);
    choice::are_made();
    if MUTEXES.watched() || RWLOCKS.watched() || SPINS.watched() {
        // These come before nearly all others: the first handlers to be registered run last before a fork, and first after
        // it. A library whose constructors run even earlier has its handlers between.
        // SAFETY: the handlers are plain functions.
        unsafe { pthread_atfork(Some(about_to_fork), Some(has_forked), Some(forked)) };
    }
}

/// Before a fork: the child must not be one in which a thread that does not exist there decides, and no signal handler may
/// run in it before [`forked`] has.
extern "C" fn about_to_fork() {
    let thread = thread::current();
    thread.before_fork.set(block_signals());
    generation::generation(); // in a child made past the C library no thread of its parent's decides any more
    Initialisation::begin();
    thread.forking.set(true);
}

/// In the parent, whether or not there is a child.
extern "C" fn has_forked() {
    let thread = thread::current();
    thread.forking.set(false);
    Initialisation::end();
    unblock_signals(thread.before_fork.get());
}

/// In the child.
extern "C" fn forked() {
    let thread = thread::current();
    thread.forking.set(false);
    if generation::is_noticed() {
        Initialisation::end(); // a handler that ran before this one used a lock
    } else {
        child_begins();
    }
    unblock_signals(thread.before_fork.get());
}

/// What a child does before its first use of a lock: in the handler above, or in a lock call of a child that the program made
/// without the C library.
#[cold]
#[inline(never)]
fn child_begins() {
    let thread = thread::current();
    Initialisation::end();
    machine::host::forget_sleepers();
    generation::next(); // other threads of the child use locks from here on
    thread.note_glibc_owner(0);
    time_slice::forked(thread);
    recorder::forked_child(&thread.recorded);
    rwlock::keep_own_reads(thread);
}

extern "C" fn end() {
    recorder::process_ends();
    if config::verbose() {
        if tally::get().is_none() {
            config::say(&[b"contend: loaded\n"]); // elsewhere the tally says so
        }
        misuse::tell();
    }
}
