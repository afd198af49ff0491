//! Sites: locks and call sites that the configuration names, each with algorithms of its own. [`pthread::site`] says how they
//! are written, and what they mean.
//!
//! An object is compared with the sites once, when it is initialised or first used: by its address, then by its stack, as far
//! as the functions there wrap locking. That needs the files of the modules concerned, see [`crate::symbols`], and no lock.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use pthread::object::ObjectKind;
use pthread::site::{FRAMES, LIMIT, Site, Stack, Which};

use crate::signals_blocked::with_signals_blocked;
use crate::symbols::Found;
use crate::tally;
use crate::unwind::{self, module_of};

/// No choice for this kind of object.
const NONE: u8 = u8::MAX;

/// The sites of the configuration.
struct Sites {
    sites: UnsafeCell<[MaybeUninit<Site<'static>>; LIMIT]>,
    /// What each has for a kind of object, by [`ObjectKind::index`].
    choices: UnsafeCell<[[u8; 3]; LIMIT]>,
    count: AtomicUsize,
}

// SAFETY: the lists are written by the constructor, before the count says so, and do not change after that.
unsafe impl Sync for Sites {}

static SITES: Sites = Sites {
    sites: UnsafeCell::new([MaybeUninit::uninit(); LIMIT]),
    choices: UnsafeCell::new([[NONE; 3]; LIMIT]),
    count: AtomicUsize::new(0),
};

fn sites() -> &'static [Site<'static>] {
    let count = SITES.count.load(Ordering::Acquire);
    // SAFETY: the first `count` are written and do not change any more.
    unsafe { core::slice::from_raw_parts(SITES.sites.get().cast::<Site<'_>>(), count) }
}

/// Adds a site with a choice for each kind of object, in the order of [`ObjectKind::ALL`]. False when there are too many.
///
/// # Safety
/// The process has one thread.
pub(crate) unsafe fn add(text: &'static [u8], choices: [Option<u8>; 3]) -> bool {
    let count = SITES.count.load(Ordering::Relaxed);
    if count == LIMIT {
        return false;
    }
    // SAFETY: the caller's promise; nobody looks at sites from `count` on.
    unsafe {
        (*SITES.sites.get())[count].write(Site::parse(text));
        (*SITES.choices.get())[count] = choices.map(|choice| choice.unwrap_or(NONE));
    }
    SITES.count.store(count + 1, Ordering::Release);
    true
}

/// The choice that a site has for this object, initialised or first used by `caller`.
///
/// Signals are blocked, since the handler of one that came meanwhile might look at the same module.
#[cold]
#[inline(never)]
pub(crate) fn choice(kind: ObjectKind, object: usize, caller: usize) -> Option<u8> {
    let sites = sites();
    if sites.is_empty() {
        return None;
    }
    with_signals_blocked(|| chosen_at(sites, kind, object).or_else(|| chosen_by_stack(sites, kind, caller)))
}

/// What the site says in which this address lies.
fn chosen_at(sites: &[Site<'_>], kind: ObjectKind, address: usize) -> Option<u8> {
    let found = Found::at(address, &module_of(address)?, sites);
    found.sites().find_map(|number| chosen(number, kind))
}

/// What a site says of this kind of object, of which one is there.
fn chosen(number: usize, kind: ObjectKind) -> Option<u8> {
    // SAFETY: the number is that of a site, so that this is written and does not change any more.
    let choice = unsafe { (*SITES.choices.get())[number] }[kind.index()];
    if choice == NONE {
        return None;
    }
    if let Some(tally) = tally::get() {
        tally.sites[number].fetch_add(1, Ordering::Relaxed);
    }
    Some(choice)
}

/// What a site says whose function the caller lies in; or the caller's caller, where the caller is a wrapper of a lock.
fn chosen_by_stack(sites: &[Site<'_>], kind: ObjectKind, caller: usize) -> Option<u8> {
    let by_stack = sites.iter().any(|site| matches!(site.which, Which::By(_)));
    let mut frames = [caller as u64; FRAMES];
    let mut length = 1;
    if by_stack || calls(caller, sites).is_some_and(|found| found.in_wrapper()) {
        length = unwind::stack(&mut frames).max(1);
    }
    let frames = &frames[..length];
    if by_stack {
        let stack = stack_of(frames);
        let mut of_stack = (0..sites.len()).filter(|&number| sites[number].which == Which::By(stack));
        if let Some(choice) = of_stack.find_map(|number| chosen(number, kind)) {
            return Some(choice);
        }
    }
    for &frame in frames {
        let found = calls(frame as usize, sites)?;
        if let Some(choice) = found.sites().find_map(|number| chosen(number, kind)) {
            return Some(choice);
        }
        if !found.in_wrapper() {
            return None;
        }
    }
    None
}

/// What the call is that returns to an address.
fn calls(return_address: usize, sites: &[Site<'_>]) -> Option<Found> {
    let call = return_address.wrapping_sub(1); // it may be the last instruction of its function
    Some(Found::at(call, &module_of(call)?, sites))
}

fn stack_of(frames: &[u64]) -> Stack {
    Stack::of(frames.iter().map(|&frame| Some(frame - module_of(frame as usize)?.start as u64)))
}
