//! Sites: locks and call sites that the configuration names, each with algorithms of its own.
//!
//! A site is a symbol, or a symbol and an offset (`cache+0x40`). It means a lock that lies in the symbol, or one that is
//! initialised or first used by a call from it. Where the caller is itself a wrapper around locking, judged by its name,
//! its caller counts instead, a few frames up. So a lock's name in a profile is a site, whichever of the two it is made of.
//!
//! Symbols are looked up in the files of the loaded objects, at the first object that has to be decided about and again
//! when more objects have been loaded: never on the way of a lock that is decided.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::algorithm::nap;
use crate::recorder::Kind;
use crate::symbols;
use crate::undisturbed::undisturbed;

/// Sites at most.
pub(crate) const SITES: usize = 15;
/// Places of a site at most: a static function's name may stand in several objects.
const PLACES: usize = 8;
/// Frames that are looked at for the first one that is no wrapper.
const FRAMES: usize = 6;
/// No choice for this kind of object.
const NONE: u8 = u8::MAX;

struct Site {
    name: &'static [u8],
    offset: Option<usize>,
    /// By kind: mutex, rwlock, spin lock.
    choices: [u8; 3],
    starts: [AtomicUsize; PLACES],
    ends: [AtomicUsize; PLACES],
    places: AtomicUsize,
}

impl Site {
    const fn new(name: &'static [u8], offset: Option<usize>, choices: [u8; 3]) -> Self {
        Self {
            name,
            offset,
            choices,
            starts: [const { AtomicUsize::new(0) }; PLACES],
            ends: [const { AtomicUsize::new(0) }; PLACES],
            places: AtomicUsize::new(0),
        }
    }

    fn contains(&self, address: usize) -> bool {
        let places = self.places.load(Ordering::Acquire).min(PLACES);
        (0..places).any(|i| {
            (self.starts[i].load(Ordering::Relaxed)..self.ends[i].load(Ordering::Relaxed)).contains(&address)
        })
    }

    fn add_place(&self, start: usize, length: usize) {
        let (start, length) = match self.offset {
            Some(offset) => (start + offset, 1),
            None => (start, length.max(1)),
        };
        let places = self.places.load(Ordering::Relaxed);
        let known = (0..places).any(|i| self.starts[i].load(Ordering::Relaxed) == start);
        if places < PLACES && !known {
            self.starts[places].store(start, Ordering::Relaxed);
            self.ends[places].store(start + length, Ordering::Relaxed);
            self.places.store(places + 1, Ordering::Release);
        }
    }
}

struct Sites {
    list: core::cell::UnsafeCell<[Site; SITES]>,
    count: AtomicUsize,
}

// SAFETY: the list is written by the constructor, before the count says so; after that only its atomics change.
unsafe impl Sync for Sites {}

static SITES_OF_PROCESS: Sites = Sites {
    list: core::cell::UnsafeCell::new([const { Site::new(b"", None, [NONE; 3]) }; SITES]),
    count: AtomicUsize::new(0),
};

/// The count of loaded objects at the last look for symbols, plus one; 0 before the first.
static SEEN: AtomicU64 = AtomicU64::new(0);
static LOOKING: AtomicBool = AtomicBool::new(false);

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

/// Adds a site, written as `SYMBOL` or `SYMBOL+OFFSET`. False when there are too many.
///
/// # Safety
/// The process has one thread.
pub(crate) unsafe fn add(text: &'static [u8], choices: [Option<u8>; 3]) -> bool {
    let count = SITES_OF_PROCESS.count.load(Ordering::Relaxed);
    if count == SITES {
        return false;
    }
    let (name, offset) = split_offset(text);
    let site = Site::new(name, offset, choices.map(|choice| choice.unwrap_or(NONE)));
    // SAFETY: the caller's promise; nobody looks at sites from `count` on.
    unsafe { (*SITES_OF_PROCESS.list.get())[count] = site };
    SITES_OF_PROCESS.count.store(count + 1, Ordering::Release);
    true
}

/// `SYMBOL+OFFSET`, the offset decimal or with `0x`.
fn split_offset(text: &[u8]) -> (&[u8], Option<usize>) {
    let Some(plus) = text.iter().rposition(|&byte| byte == b'+') else { return (text, None) };
    let digits = core::str::from_utf8(&text[plus + 1..]).unwrap_or("");
    let offset = match digits.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    match offset {
        Ok(offset) => (&text[..plus], Some(offset)),
        Err(_) => (text, None), // as in `operator+`
    }
}

/// In the child of a fork: whoever was looking for symbols does not exist here.
pub(crate) fn forget() {
    LOOKING.store(false, Ordering::Relaxed);
}

/// The choice that a site has for this object, initialised or first used by `caller`.
///
/// Undisturbed, since symbols and frames are looked up under the dynamic linker's own lock: a signal handler that came while
/// that lock is being taken, and looked something up in turn, would wait for it for ever.
#[cold]
pub(crate) fn choice(what: Kind, object: usize, caller: usize) -> Option<u8> {
    let sites = sites();
    if sites.is_empty() {
        return None;
    }
    undisturbed(|| {
        look_for_symbols(sites);
        chosen_at(sites, what, object).or_else(|| chosen_by_stack(sites, what, caller))
    })
}

/// What the site that contains this address says.
fn chosen_at(sites: &[Site], what: Kind, address: usize) -> Option<u8> {
    sites
        .iter()
        .find(|site| site.contains(address) && site.choices[index(what)] != NONE)
        .map(|site| site.choices[index(what)])
}

/// What a site says that contains the caller; or the caller's caller, where the caller is a wrapper of a lock.
fn chosen_by_stack(sites: &[Site], what: Kind, caller: usize) -> Option<u8> {
    let mut frames = [0; FRAMES];
    for &frame in stack_from(caller, &mut frames) {
        let found = chosen_at(sites, what, frame);
        if found.is_some() || !is_wrapper(frame) {
            return found;
        }
    }
    None
}

/// Whether the function around an address says by its exported name that it locks.
fn is_wrapper(address: usize) -> bool {
    // SAFETY: zeros are a valid value, which the look-up fills in; names end with a zero and stay.
    let name = unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(address as *const c_void, &raw mut info) == 0 || info.dli_sname.is_null() {
            return false;
        }
        CStr::from_ptr(info.dli_sname).to_bytes()
    };
    let has = |word: &[u8]| name.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    has(b"lock") || has(b"mutex") || has(b"mtx")
}

/// Opaque to its users.
#[repr(C)]
struct UnwindContext {
    _private: [u8; 0],
}

#[allow(clashing_extern_declarations)] // the recorder declares it too, with its own name for the opaque context
unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut UnwindContext, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut UnwindContext) -> usize;
}

struct Walk<'a> {
    from: usize,
    frames: &'a mut [usize; FRAMES],
    length: usize,
}

extern "C" fn each_frame(context: *mut UnwindContext, walk: *mut c_void) -> c_int {
    const CONTINUE: c_int = 0;
    const STOP: c_int = 5;
    // SAFETY: the unwinder passes the context of this call, and the walk of `stack_from`.
    let (frame, walk) = unsafe { (_Unwind_GetIP(context), &mut *walk.cast::<Walk<'_>>()) };
    if walk.length > 0 || frame == walk.from {
        walk.frames[walk.length] = frame;
        walk.length += 1;
    }
    if walk.length == FRAMES { STOP } else { CONTINUE }
}

/// The return addresses on the stack from `caller` outwards; that one alone where the stack cannot be walked.
fn stack_from(caller: usize, frames: &mut [usize; FRAMES]) -> &[usize] {
    let mut walk = Walk { from: caller, frames, length: 0 };
    // SAFETY: the callback gets the walk and nothing else; both live until the call returns.
    unsafe { _Unwind_Backtrace(each_frame, (&raw mut walk).cast()) };
    if walk.length == 0 {
        walk.frames[0] = caller;
        walk.length = 1;
    }
    let length = walk.length;
    &frames[..length]
}

/// How long a thread waits for another one that looks for symbols, in naps. It goes on without them then: it may be
/// one for which the other waits, since it holds the loader's lock.
const NAPS: u32 = 20_000;
const NAP_NS: u64 = 100_000;

/// Finds the places of all sites, if objects have been loaded since the last time. The caller is undisturbed.
fn look_for_symbols(sites: &[Site]) {
    let loaded = symbols::objects_ever_loaded() + 1;
    if SEEN.load(Ordering::Acquire) == loaded {
        return;
    }
    let mut naps = 0;
    while LOOKING.swap(true, Ordering::Acquire) {
        if SEEN.load(Ordering::Acquire) == loaded || naps == NAPS {
            return;
        }
        nap(NAP_NS, None);
        naps += 1;
    }
    // SAFETY: the thread's own errno, which reading files changes.
    let errno = unsafe { *libc::__errno_location() };
    symbols::each(|name, start, length| {
        for site in sites {
            if symbols::is_named(name, site.name) {
                site.add_place(start, length);
            }
        }
    });
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    SEEN.store(loaded, Ordering::Release);
    LOOKING.store(false, Ordering::Release);
}
