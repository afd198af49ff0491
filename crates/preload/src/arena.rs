//! Room for what an object has no room for: lock states that are larger than the object, the states of spin locks,
//! and the traces of recorded spin locks.
//!
//! The memory is reserved when the library is loaded and touched as it is used. A slot is found by the address of its
//! object, so an object that appears where another one was never destroyed gets that one's slot.
//!
//! | bytes of a slot | written by                  | meaning                                           |
//! |-----------------|-----------------------------|---------------------------------------------------|
//! | 0..8            | who claims or gives back    | address of the object; 0 never used; 1 given back |
//! | 8..24           | the recorder                | trace of a spin lock                              |
//! | 24..26          | acquirers                   | generation, see [`crate::state`]                  |
//! | 26..32          | nobody                      |                                                   |
//! | from `STATE`    | the algorithm               | lock state                                        |

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU16, AtomicU64, AtomicUsize, Ordering};

use crate::recorder::Trace;

/// Slots at most, a power of two. Also the bound of what an index must be able to say.
pub(crate) const SLOTS: usize = 1 << 17;

/// Slots that are looked at for one address.
const PROBES: usize = 64;

const NEVER_USED: usize = 0;
const GIVEN_BACK: usize = 1;

#[repr(C)]
pub(crate) struct Slot {
    address: AtomicUsize,
    pub(crate) trace: Trace,
    pub(crate) generation: AtomicU16,
}

const HEAD: usize = size_of::<Slot>();
const _: () = assert!(HEAD == 32);

static BASE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static SLOT_BYTES: AtomicUsize = AtomicUsize::new(0);
static STATE: AtomicUsize = AtomicUsize::new(HEAD);
/// Objects that found no slot.
static FULL: AtomicU64 = AtomicU64::new(0);

/// Reserves slots for states of up to so many bytes, aligned so much. Called once, before the first object.
pub(crate) fn reserve(bytes: usize, align: usize) {
    let state = HEAD.next_multiple_of(align.max(1));
    let slot_bytes = (state + bytes).next_multiple_of(align.max(64));
    // SAFETY: a fresh mapping, aligned to a page. Its pages exist once they are touched.
    let base = unsafe {
        libc::mmap(
            null_mut(),
            SLOTS * slot_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if base != libc::MAP_FAILED {
        STATE.store(state, Ordering::Relaxed);
        SLOT_BYTES.store(slot_bytes, Ordering::Relaxed);
        BASE.store(base.cast(), Ordering::Release);
    }
}

/// The slot of this number, which [`claim`] gave.
#[inline]
pub(crate) fn slot(number: u32) -> &'static Slot {
    // SAFETY: a number that was given out lies in the reserved memory, which stays; zeros are a valid slot.
    unsafe { &*at(number as usize).cast::<Slot>() }
}

/// The lock state in the slot of this number.
#[inline]
pub(crate) fn state(number: u32) -> *const u8 {
    at(number as usize).wrapping_add(STATE.load(Ordering::Relaxed))
}

#[inline]
fn at(number: usize) -> *mut u8 {
    BASE.load(Ordering::Relaxed).wrapping_add(number * SLOT_BYTES.load(Ordering::Relaxed))
}

/// A slot for the object at this address: the one it had, or a free one, with a state of zeros. `None`, and counted,
/// when there is none near.
///
/// The caller alone decides about the object: see [`crate::tag::Deciding`].
#[cold]
pub(crate) fn claim(address: usize) -> Option<u32> {
    let Some(number) = find_or_insert(address) else {
        FULL.fetch_add(1, Ordering::Relaxed);
        return None;
    };
    clear(number);
    Some(number)
}

/// The object is gone.
#[cold]
pub(crate) fn give_back(number: u32) {
    clear(number);
    slot(number).address.store(GIVEN_BACK, Ordering::Release);
}

/// The trace of the spin lock at this address, which is glibc's. `None` when there is no room for it.
#[inline]
pub(crate) fn trace(address: usize) -> Option<&'static Trace> {
    find_or_insert(address).map(|number| &slot(number).trace)
}

/// The slot of an address that is glibc's, if it has one.
pub(crate) fn find(address: usize) -> Option<u32> {
    if BASE.load(Ordering::Acquire).is_null() {
        return None;
    }
    probes(address).find(|&number| slot(number).address.load(Ordering::Acquire) == address)
}

/// How many objects found no slot.
pub(crate) fn full() -> u64 {
    FULL.load(Ordering::Relaxed)
}

fn probes(address: usize) -> impl Iterator<Item = u32> {
    // Fibonacci hashing: the low bits of addresses say little.
    let home = ((address as u64 >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    (0..PROBES).map(move |probe| ((home + probe) % SLOTS) as u32)
}

fn find_or_insert(address: usize) -> Option<u32> {
    if BASE.load(Ordering::Acquire).is_null() {
        return None;
    }
    let mut free = None;
    for number in probes(address) {
        match slot(number).address.load(Ordering::Acquire) {
            found if found == address => return Some(number),
            found @ (NEVER_USED | GIVEN_BACK) => {
                free = free.or(Some((number, found)));
                if found == NEVER_USED {
                    break; // nothing has ever gone past this one
                }
            }
            _ => {}
        }
    }
    let (number, found) = free?;
    match slot(number).address.compare_exchange(found, address, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(number),
        Err(_) => find_or_insert(address), // somebody was faster; each try sees one free slot less
    }
}

fn clear(number: u32) {
    let start = STATE.load(Ordering::Relaxed);
    for offset in (start..SLOT_BYTES.load(Ordering::Relaxed)).step_by(8) {
        let word = at(number as usize).wrapping_add(offset).cast::<AtomicU64>();
        // SAFETY: inside the slot, 8-aligned, and the object is nobody's now.
        unsafe { &*word }.store(0, Ordering::Relaxed);
    }
    slot(number).generation.store(0, Ordering::Relaxed);
}
