//! Sites: locks and call sites that the configuration names, each with algorithms of its own. [`pthread::site`] says how they
//! are written, and what they mean.
//!
//! An object is compared with the sites once, when it is initialised or first used: by its address, then by its stack, as far
//! as the functions there wrap locking. One that the C library keeps since it was first taken where no site is, is too late for
//! those at which it is taken afterwards: that is counted, and the command says so. That needs the files of the modules concerned, see [`crate::symbols`], and no lock.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use pthread::object::ObjectKind;
use pthread::site::{FRAMES, LIMIT, PLACES, Site, Stack, Which};

use crate::signals_blocked::with_signals_blocked;
use crate::symbols::Found;
use crate::tally;
use crate::unwind::{self, module_of};

/// No choice for this kind of object.
const NONE: u8 = u8::MAX;

/// The sites of the configuration, each of which stands for one or several places.
struct Sites {
    /// What each has for a kind of object, by [`ObjectKind::index`].
    choices: UnsafeCell<[[u8; 3]; LIMIT]>,
    places: UnsafeCell<[MaybeUninit<Site<'static>>; PLACES]>,
    /// The number of the site to which each place belongs.
    sites: UnsafeCell<[u8; PLACES]>,
    /// Of sites.
    count: AtomicUsize,
    /// Of places.
    length: AtomicUsize,
    /// Places that are calls.
    calls: AtomicUsize,
}

// SAFETY: the lists are written by the constructor, before the counts say so, and do not change after that.
unsafe impl Sync for Sites {}

static SITES: Sites = Sites {
    choices: UnsafeCell::new([[NONE; 3]; LIMIT]),
    places: UnsafeCell::new([MaybeUninit::uninit(); PLACES]),
    sites: UnsafeCell::new([0; PLACES]),
    count: AtomicUsize::new(0),
    length: AtomicUsize::new(0),
    calls: AtomicUsize::new(0),
};

fn places() -> &'static [Site<'static>] {
    let length = SITES.length.load(Ordering::Acquire);
    // SAFETY: the first `length` are written and do not change any more.
    unsafe { core::slice::from_raw_parts(SITES.places.get().cast::<Site<'_>>(), length) }
}

/// Adds a site, with the places that it stands for and a choice for each kind of object, in the order of [`ObjectKind::ALL`].
/// False when there are too many.
///
/// # Safety
/// The process has one thread.
pub(crate) unsafe fn add(places: impl Iterator<Item = &'static [u8]>, choices: [Option<u8>; 3]) -> bool {
    let number = SITES.count.load(Ordering::Relaxed);
    let mut length = SITES.length.load(Ordering::Relaxed);
    if number == LIMIT {
        return false;
    }
    for place in places.map(Site::parse) {
        if length == PLACES {
            return false;
        }
        // SAFETY: the caller's promise; no thread looks at places from `length` on.
        unsafe {
            (*SITES.places.get())[length].write(place);
            (*SITES.sites.get())[length] = number as u8;
        }
        length += 1;
        SITES.calls.fetch_add(usize::from(matches!(place.which, Which::Call(_))), Ordering::Relaxed);
    }
    // SAFETY: no thread looks at sites from `count` on.
    unsafe { (*SITES.choices.get())[number] = choices.map(|choice| choice.unwrap_or(NONE)) };
    SITES.count.store(number + 1, Ordering::Relaxed);
    SITES.length.store(length, Ordering::Release);
    true
}

/// How an object comes to be decided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// A call initialises it, or has done so: the calls that take it are no sites of it.
    Initialises,
    /// It is taken, and nothing has initialised it.
    Takes,
}

/// The choice that a site has for this object, initialised or first used by `caller`.
///
/// Signals are blocked, since the handler of one that came meanwhile might look at the same module.
#[cold]
#[inline(never)]
pub(crate) fn choice(kind: ObjectKind, object: usize, caller: usize, call: Call) -> Option<u8> {
    let places = places();
    if places.is_empty() {
        return None;
    }
    with_signals_blocked(|| {
        let module = module_of(object);
        let at = module.as_ref().map(|module| Found::at(object, module, places));
        let chosen_at = at.and_then(|found| found.places().find_map(|place| chosen(place, kind)));
        let may_be = |which| may_be(which, call, module.is_some());
        chosen_at.or_else(|| chosen_by_stack(places, kind, caller, may_be))
    })
}

/// Whether a place may be that of an object that is decided in this way, and that does or does not lie in a variable, as far as that goes.
fn may_be(which: Which, call: Call, in_variable: bool) -> bool {
    match which {
        Which::All | Which::At(_) => true,
        Which::By(_) => !in_variable,
        Which::Initialised => !in_variable && call == Call::Initialises,
        Which::Call(_) => !in_variable && call == Call::Takes,
    }
}

/// What a place's site says of this kind of object, of which one is there.
fn chosen(place: usize, kind: ObjectKind) -> Option<u8> {
    // SAFETY: the number is that of a place, so that this and its site are written and do not change any more.
    let (site, choice) = unsafe {
        let site = usize::from((*SITES.sites.get())[place]);
        (site, (*SITES.choices.get())[site][kind.index()])
    };
    if choice == NONE {
        return None;
    }
    if let Some(tally) = tally::get() {
        tally.sites[site].fetch_add(1, Ordering::Relaxed);
    }
    Some(choice)
}

/// What a site says whose function or call the caller lies in; or the caller's caller, where the caller is a wrapper of a lock.
fn chosen_by_stack(
    places: &[Site<'_>],
    kind: ObjectKind,
    caller: usize,
    may_be: impl Fn(Which) -> bool,
) -> Option<u8> {
    let by_stack = places.iter().any(|place| matches!(place.which, Which::By(_)) && may_be(place.which));
    let mut frames = [caller as u64; FRAMES];
    let mut length = 1;
    if by_stack || calls(caller, places).is_some_and(|found| found.in_wrapper()) {
        length = unwind::stack(&mut frames).max(1);
    }
    let frames = &frames[..length];
    let of_stack = |frames: &[u64]| {
        let stack = by_stack.then(|| stack_of(frames))?;
        let mut of_stack = (0..places.len()).filter(|&number| places[number].which == Which::By(stack));
        of_stack.find_map(|place| chosen(place, kind))
    };
    if let Some(choice) = of_stack(frames) {
        return Some(choice);
    }
    for frame in frames {
        let found = calls(*frame as usize, places)?;
        let mut here = found.places().filter(|&place| may_be(places[place].which));
        let choice = here.find_map(|place| chosen(place, kind));
        if let Some(choice) = choice.or_else(|| of_stack(core::slice::from_ref(frame))) {
            return Some(choice);
        }
        if !found.in_wrapper() {
            return None;
        }
    }
    None
}

/// Whether [`is_too_late`] may ever be true of an object: a variable is told by its address, whichever call takes it.
pub(crate) fn may_be_late(object: usize) -> bool {
    SITES.calls.load(Ordering::Relaxed) != 0 && module_of(object).is_none()
}

/// Whether an object that the C library keeps, since it was first taken where no site is, is one of a site's all the same: the call
/// that returns to `caller` is one of those. Then it is counted as taken too late. Not asked unless it [may be](may_be_late).
#[cold]
pub(crate) fn is_too_late(caller: usize) -> bool {
    /// Callers that are no sites, each at its place by hash.
    static OTHERS: [AtomicUsize; 512] = [const { AtomicUsize::new(0) }; 512];
    let known = &OTHERS[(caller ^ caller >> 6) % OTHERS.len()];
    if SITES.calls.load(Ordering::Relaxed) == 0 || known.load(Ordering::Relaxed) == caller {
        return false;
    }
    let places = places();
    let is_call = |&place: &usize| matches!(places[place].which, Which::Call(_));
    let place = with_signals_blocked(|| {
        let place = calls(caller, places).and_then(|found| found.places().find(is_call));
        if place.is_none() {
            known.store(caller, Ordering::Relaxed);
        }
        place
    });
    let Some(place) = place else { return false };
    if let Some(tally) = tally::get() {
        // SAFETY: the number is that of a place, so that its site is written and does not change any more.
        let site = usize::from(unsafe { (*SITES.sites.get())[place] });
        tally.late[site].fetch_add(1, Ordering::Relaxed);
    }
    true
}

/// What the call is that returns to an address.
fn calls(return_address: usize, places: &[Site<'_>]) -> Option<Found> {
    let call = return_address.wrapping_sub(1); // it may be the last instruction of its function
    Some(Found::at(call, &module_of(call)?, places))
}

fn stack_of(frames: &[u64]) -> Stack {
    Stack::of(
        frames
            .iter()
            .map(|&frame| Some(frame.wrapping_sub(module_of(frame as usize)?.start_of_file() as u64))),
    )
}
