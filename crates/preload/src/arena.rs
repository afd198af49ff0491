//! Side table for what does not fit into the object: lock states that are larger than the object, the states of spin locks,
//! and the traces of recorded spin locks.
//!
//! Memory is mapped some slots at a time, as they are given out, so that a process that locks its memory pays for what it uses.
//! Slots are given out one after another, and found by the
//! address of their object through an index. An object that appears where another one was never destroyed gets that one's slot.
//!
//! An object says which slot is its own by a [`Reference`]. Objects are moved and copied as bytes, so a reference may be that of
//! another object: the slot knows the address of its object, and is used anew under another incarnation.
//!
//! | bytes of a slot | written by                  | meaning                                           |
//! |-----------------|-----------------------------|---------------------------------------------------|
//! | 0..8            | who claims or frees         | address of the object; 0: none                    |
//! | 8..24           | the recorder                | trace of a spin lock                              |
//! | 24..26          | acquirers                   | generation, see [`crate::generation`]                  |
//! | 26              | who claims                  | incarnation                                       |
//! | 27              | holders of a spin lock      | 1 while it is held                                |
//! | 28..32          | who claims or frees         | its entry in the index; of a free slot the next free one + 1 |
//! | from `STATE`    | the algorithm               | lock state                                        |

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::recorder::Trace;
use crate::tag::Initialisation;

/// Slots at most, a power of two. Also the bound of what an index must be able to say.
pub(crate) const SLOTS: usize = 1 << 17;

/// Slots that are mapped at once.
const BATCH: usize = 64;

/// Entries of the index, a power of two, and how many are searched for one address.
const ENTRIES: usize = 2 * SLOTS;
const PROBES: usize = 64;

/// An entry that has never been used, and one whose object is gone. Any other is the number of a slot plus one.
const NEVER_USED: u32 = 0;
const FREED: u32 = u32::MAX;

#[repr(C)]
pub(crate) struct StateSlot {
    address: AtomicUsize,
    pub(crate) trace: Trace,
    pub(crate) generation: AtomicU16,
    incarnation: AtomicU8,
    pub(crate) held: AtomicU8,
    link: AtomicU32,
}

const HEAD: usize = size_of::<StateSlot>();
const _: () = assert!(HEAD == 32);

/// Which slot, and in which incarnation: 25 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference(pub(crate) u32);

/// The bits of a reference.
pub(crate) const REFERENCE_BITS: u32 = SLOTS.ilog2() + u8::BITS;

impl Reference {
    #[inline]
    fn new(number: u32, incarnation: u8) -> Self {
        Self(u32::from(incarnation) << SLOTS.ilog2() | number)
    }

    #[inline]
    fn number(self) -> usize {
        self.0 as usize % SLOTS
    }

    fn is_current(self) -> bool {
        self.0 >> SLOTS.ilog2() == u32::from(self.slot().incarnation.load(Ordering::Relaxed))
    }

    /// Whether the slot is that of the object at this address.
    #[inline]
    pub(crate) fn is_of(self, object: usize) -> bool {
        self.slot().address.load(Ordering::Relaxed) == object && self.is_current()
    }

    /// The slot.
    #[inline]
    pub(crate) fn slot(self) -> &'static StateSlot {
        slot(self.number())
    }

    /// The lock state in the slot.
    #[inline]
    pub(crate) fn state(self) -> *const u8 {
        at(self.number()).wrapping_add(STATE.load(Ordering::Relaxed))
    }

    /// A reference for an object that was moved or copied here with this one: to a slot of its own. To the same slot as before
    /// while `held` says that the object moved while it was held; `None` where the table is full.
    #[cold]
    pub(crate) fn moved_to(self, object: usize, held: bool) -> Option<Self> {
        if self.is_of(object) || self.is_current() && held { Some(self) } else { claim(object) }
    }

    /// The reference that an object keeps in this word.
    #[inline(always)]
    pub(crate) fn kept_in(word: &AtomicU32) -> Self {
        Self(word.load(Ordering::Acquire)) // [1] from `find_own_slot`
    }

    /// The object at this address, which keeps its reference in `word`, gets a slot of its own if it was moved or copied here.
    /// False where the table is full. The caller alone decides about the object: see [`Initialisation`].
    pub(crate) fn find_own_slot(word: &AtomicU32, object: usize, held: bool) -> bool {
        let own = Self::kept_in(word).moved_to(object, held);
        if let Some(own) = own {
            word.store(own.0, Ordering::Release); // [1] to `kept_in`: the slot is a free lock
        }
        own.is_some()
    }
}

/// Where the slots lie, null while no object has one of them.
static BATCHES: [AtomicPtr<u8>; SLOTS / BATCH] = [const { AtomicPtr::new(null_mut()) }; SLOTS / BATCH];
static SLOT_BYTES: AtomicUsize = AtomicUsize::new(0);
static STATE: AtomicUsize = AtomicUsize::new(HEAD);
/// The index: slots by the addresses of their objects. Null while nothing is reserved.
static INDEX: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// Slots given out so far, free ones included. Written by who has the right to decide.
static USED: AtomicU32 = AtomicU32::new(0);
/// The first free slot, plus one. Written likewise.
static FREE: AtomicU32 = AtomicU32::new(0);

/// Prepares for states of up to so many bytes, aligned so much. Called once, before the first object.
pub(crate) fn reserve(bytes: usize, align: usize) {
    let state = HEAD.next_multiple_of(align.max(1));
    let slot_bytes = (state + bytes).next_multiple_of(align.max(64));
    let Some(index) = map(ENTRIES * 4) else { return };
    STATE.store(state, Ordering::Relaxed);
    SLOT_BYTES.store(slot_bytes, Ordering::Relaxed);
    INDEX.store(index.cast(), Ordering::Release);
}

/// A fresh mapping, aligned to a page. Its pages exist once they are touched.
fn map(bytes: usize) -> Option<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping.
    let base = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
    (base != libc::MAP_FAILED).then_some(base.cast())
}

#[inline]
fn slot(number: usize) -> &'static StateSlot {
    // SAFETY: a number that was given out lies in a mapping, which stays; zeros are a valid slot.
    unsafe { &*at(number).cast::<StateSlot>() }
}

#[inline]
fn at(number: usize) -> *mut u8 {
    // Relaxed: the number came from the thread that mapped the batch, by an access that acquires.
    let batch = BATCHES[number / BATCH % BATCHES.len()].load(Ordering::Relaxed);
    batch.wrapping_add(number % BATCH * SLOT_BYTES.load(Ordering::Relaxed))
}

/// A slot for the object at this address, with a state of zeros: the one that an object there had, or a free one. `None` when
/// there is none.
///
/// The caller alone decides about the object: see [`Initialisation`].
#[cold]
pub(crate) fn claim(address: usize) -> Option<Reference> {
    let number = find_or_insert(address)?;
    let slot = slot(number);
    let incarnation = match slot.incarnation.load(Ordering::Relaxed) {
        0 => 1, // never claimed, so that the state is zeros that no thread has touched
        before => {
            clear(number);
            before.wrapping_add(1).max(1)
        }
    };
    slot.incarnation.store(incarnation, Ordering::Relaxed);
    Some(Reference::new(number as u32, incarnation))
}

/// The object at this address, which has this reference, is gone. Nothing if it never had a slot of its own.
#[cold]
pub(crate) fn release(reference: Reference, address: usize) {
    Initialisation::alone(|_| {
        if reference.is_of(address) {
            free(reference.number());
        }
    });
}

/// The glibc spin lock at this address is gone.
#[cold]
pub(crate) fn forget(address: usize) {
    Initialisation::alone(|_| {
        if let Some(number) = find(address) {
            free(number);
        }
    });
}

/// The caller has the right to decide.
fn free(number: usize) {
    let slot = slot(number);
    slot.address.store(0, Ordering::Release);
    if let Some(entry) = entry(slot.link.load(Ordering::Relaxed) as usize) {
        entry.store(FREED, Ordering::Release);
    }
    slot.link.store(FREE.load(Ordering::Relaxed), Ordering::Relaxed);
    FREE.store(number as u32 + 1, Ordering::Relaxed);
}

/// The trace of the spin lock at this address, which is glibc's. `None` when the table is full.
#[inline]
pub(crate) fn trace(address: usize) -> Option<&'static Trace> {
    let full = || USED.load(Ordering::Relaxed) as usize == SLOTS && FREE.load(Ordering::Relaxed) == 0;
    let insert = || if full() { None } else { Initialisation::alone(|_| find_or_insert(address)) };
    let number = find(address).or_else(insert)?;
    Some(&slot(number).trace)
}

/// The trace of a glibc spin lock that was initialised just now. `None` where so many have one that those which are never taken
/// might leave no slots for those which are.
#[cold]
pub(crate) fn trace_of_new(address: usize) -> Option<&'static Trace> {
    let plenty = (USED.load(Ordering::Relaxed) as usize) < SLOTS / 2 || FREE.load(Ordering::Relaxed) != 0;
    if plenty { trace(address) } else { known_trace(address) }
}

/// The trace of the spin lock at this address, if it has one.
pub(crate) fn known_trace(address: usize) -> Option<&'static Trace> {
    find(address).map(|number| &slot(number).trace)
}

fn entry(index: usize) -> Option<&'static AtomicU32> {
    let start = INDEX.load(Ordering::Acquire);
    // SAFETY: null while nothing is reserved; else that many entries, which stay.
    unsafe { start.wrapping_add(index % ENTRIES).as_ref().filter(|_| !start.is_null()) }
}

/// The entries in which an address may be, with their places.
fn probes(address: usize) -> impl Iterator<Item = (usize, &'static AtomicU32)> {
    // Fibonacci hashing: the low bits of addresses say little.
    let home = ((address as u64 >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    (home..home + PROBES).map_while(|index| Some((index % ENTRIES, entry(index)?)))
}

fn find(address: usize) -> Option<usize> {
    for (_, entry) in probes(address) {
        match entry.load(Ordering::Acquire) {
            NEVER_USED => return None, // nothing has ever gone past this one
            FREED => {}
            number => {
                let number = number as usize - 1;
                if slot(number).address.load(Ordering::Acquire) == address {
                    return Some(number);
                }
            }
        }
    }
    None
}

/// The caller has the right to decide.
fn find_or_insert(address: usize) -> Option<usize> {
    if let Some(known) = find(address) {
        return Some(known);
    }
    let (index, entry) =
        probes(address).find(|(_, entry)| matches!(entry.load(Ordering::Relaxed), NEVER_USED | FREED))?;
    let number = take_free().or_else(take_new)?;
    let slot = slot(number);
    slot.link.store(index as u32, Ordering::Relaxed);
    slot.address.store(address, Ordering::Release);
    entry.store(number as u32 + 1, Ordering::Release);
    Some(number)
}

fn take_free() -> Option<usize> {
    let number = FREE.load(Ordering::Relaxed).checked_sub(1)? as usize;
    FREE.store(slot(number).link.load(Ordering::Relaxed), Ordering::Relaxed);
    Some(number)
}

fn take_new() -> Option<usize> {
    let number = USED.load(Ordering::Relaxed) as usize;
    if number == SLOTS {
        return None;
    }
    if number.is_multiple_of(BATCH) {
        let batch = map(BATCH * SLOT_BYTES.load(Ordering::Relaxed))?;
        BATCHES[number / BATCH].store(batch, Ordering::Relaxed);
    }
    USED.store(number as u32 + 1, Ordering::Relaxed);
    Some(number)
}

fn clear(number: usize) {
    let start = STATE.load(Ordering::Relaxed);
    for offset in (start..SLOT_BYTES.load(Ordering::Relaxed)).step_by(8) {
        let word = at(number).wrapping_add(offset).cast::<AtomicU64>();
        // SAFETY: inside the slot, 8-aligned, and no thread uses the state now.
        unsafe { &*word }.store(0, Ordering::Relaxed);
    }
    slot(number).generation.store(0, Ordering::Relaxed);
    slot(number).held.store(0, Ordering::Relaxed);
}
