//! Sites: locks and call sites that the configuration names, each with algorithms of its own. [`pthread::site`] says how they
//! are written, and what they mean.
//!
//! An object is compared with the sites once, when it is initialised or first used: by its address, then by its stack, as far
//! as the functions there wrap locking. That needs the files of the modules concerned, see [`crate::symbols`], and no lock.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use pthread::site::{FRAMES, LIMIT, Site as Written, Stack, Which};

use crate::recorder::Kind;
use crate::signals_blocked::with_signals_blocked;
use crate::symbols::Found;
use crate::tally;
use crate::unwind::{self, module_of};

/// No choice for this kind of object.
const NONE: u8 = u8::MAX;

/// A site of the configuration.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    pub(crate) site: Written<'static>,
    /// By kind: mutex, rwlock, spin lock.
    choices: [u8; 3],
}

struct Sites {
    list: core::cell::UnsafeCell<[MaybeUninit<Site>; LIMIT]>,
    count: AtomicUsize,
}

// SAFETY: the list is written by the constructor, before the count says so; after that only its atomics change.
unsafe impl Sync for Sites {}

static SITES_OF_PROCESS: Sites =
    Sites { list: core::cell::UnsafeCell::new([MaybeUninit::uninit(); LIMIT]), count: AtomicUsize::new(0) };

fn sites() -> &'static [Site] {
    let count = SITES_OF_PROCESS.count.load(Ordering::Acquire);
    // SAFETY: the first `count` are written and do not change any more.
    unsafe { core::slice::from_raw_parts(SITES_OF_PROCESS.list.get().cast::<Site>(), count) }
}

fn index(what: Kind) -> usize {
    match what {
        Kind::Mutex => 0,
        Kind::Rwlock => 1,
        Kind::Spin => 2,
    }
}

/// Adds a site with a choice for each kind of object. False when there are too many.
///
/// # Safety
/// The process has one thread.
pub(crate) unsafe fn add(text: &'static [u8], choices: [Option<u8>; 3]) -> bool {
    let count = SITES_OF_PROCESS.count.load(Ordering::Relaxed);
    if count == LIMIT {
        return false;
    }
    let site = Site { site: Written::parse(text), choices: choices.map(|choice| choice.unwrap_or(NONE)) };
    // SAFETY: the caller's promise; nobody looks at sites from `count` on.
    unsafe { (*SITES_OF_PROCESS.list.get())[count].write(site) };
    SITES_OF_PROCESS.count.store(count + 1, Ordering::Release);
    true
}

/// The choice that a site has for this object, initialised or first used by `caller`.
///
/// Undisturbed, since a signal handler that came meanwhile might look at the same module.
#[cold]
#[inline(never)]
pub(crate) fn choice(what: Kind, object: usize, caller: usize) -> Option<u8> {
    let sites = sites();
    if sites.is_empty() {
        return None;
    }
    with_signals_blocked(|| chosen_at(sites, what, object).or_else(|| chosen_by_stack(sites, what, caller)))
}

/// What the site says in which this address lies.
fn chosen_at(sites: &[Site], what: Kind, address: usize) -> Option<u8> {
    let found = Found::at(address, &module_of(address)?, sites);
    found.sites().find_map(|number| chosen(sites, number, what))
}

/// What a site says of this kind of object, of which one is there.
fn chosen(sites: &[Site], number: usize, what: Kind) -> Option<u8> {
    let choice = sites[number].choices[index(what)];
    if choice == NONE {
        return None;
    }
    if let Some(tally) = tally::get() {
        tally.sites[number].fetch_add(1, Ordering::Relaxed);
    }
    Some(choice)
}

/// What a site says whose function the caller lies in; or the caller's caller, where the caller is a wrapper of a lock.
fn chosen_by_stack(sites: &[Site], what: Kind, caller: usize) -> Option<u8> {
    let by_stack = sites.iter().any(|site| matches!(site.site.which, Which::By(_)));
    let mut frames = [caller as u64; FRAMES];
    let mut length = 1;
    if by_stack || calls(caller, sites).is_some_and(|found| found.in_wrapper()) {
        length = unwind::stack(&mut frames).max(1);
    }
    let frames = &frames[..length];
    if by_stack {
        let stack = stack_of(frames);
        let mut of_stack = (0..sites.len()).filter(|&number| sites[number].site.which == Which::By(stack));
        if let Some(choice) = of_stack.find_map(|number| chosen(sites, number, what)) {
            return Some(choice);
        }
    }
    for &frame in frames {
        let found = calls(frame as usize, sites)?;
        if let Some(choice) = found.sites().find_map(|number| chosen(sites, number, what)) {
            return Some(choice);
        }
        if !found.in_wrapper() {
            return None;
        }
    }
    None
}

/// What the call is that returns to an address.
fn calls(return_address: usize, sites: &[Site]) -> Option<Found> {
    let call = return_address.wrapping_sub(1); // it may be the last instruction of its function
    Some(Found::at(call, &module_of(call)?, sites))
}

fn stack_of(frames: &[u64]) -> Stack {
    Stack::of(frames.iter().map(|&frame| Some(frame - module_of(frame as usize)?.start as u64)))
}
