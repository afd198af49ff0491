//! What the configuration says of each kind of object: which algorithm, and where its state lies.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use pthread::object::{InlineSpace, ObjectKind};

use crate::algorithm::{Algorithm, Shared};
use crate::arena::{self, Reference};
use crate::recorder::{self, Refusal};
use crate::site;
use crate::tag::{Initialisation, Owner, Tag};
use crate::tally;

/// Whether the configuration is known.
static MADE: AtomicBool = AtomicBool::new(false);

/// The configuration is known from now on. Objects that were used before stay glibc's.
pub(crate) fn are_made() {
    MADE.store(true, Ordering::Release);
}

/// Whether the configuration is known.
pub(crate) fn known() -> bool {
    MADE.load(Ordering::Acquire)
}

/// Algorithms for one kind of object at most: the one for all, and one for each site.
pub(crate) const CHOICES: usize = 16;

/// The state lies in the arena.
pub(crate) const IN_ARENA: usize = usize::MAX;

/// An algorithm for a kind of object.
#[derive(Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) algorithm: Algorithm,
    /// Its shared side; functions that answer nothing where it has none, which then no object uses.
    pub(crate) shared: Shared,
    /// Readers of every object wait for writers that wait; if not, the object's kind says whether they do.
    pub(crate) writers_first: bool,
    /// Where in the object the state lies, bytes from its start; or [`IN_ARENA`].
    pub(crate) offset: usize,
}

impl Choice {
    const NONE: Self = {
        unsafe fn nothing(_: *const u8) {}
        unsafe fn nothing_shared(_: *const u8, _: bool) {}
        unsafe fn no(_: *const u8) -> bool {
            false
        }
        unsafe fn no_shared(_: *const u8, _: bool) -> bool {
            false
        }
        unsafe fn never(_: *const u8, _: machine::Deadline) -> bool {
            false
        }
        unsafe fn never_shared(_: *const u8, _: bool, _: machine::Deadline) -> bool {
            false
        }
        let shared = Shared {
            acquire: nothing_shared,
            try_acquire: no_shared,
            acquire_until: never_shared,
            release: nothing,
        };
        let algorithm = Algorithm {
            bytes: 0,
            align: 1,
            acquire: nothing,
            try_acquire: no,
            acquire_until: never,
            release: nothing,
            is_unheld: no,
            shared: None,
            emulated: false,
        };
        Self { algorithm, shared, writers_first: false, offset: IN_ARENA }
    };

    /// An algorithm in an object with the given spaces for a state.
    pub(crate) fn new(algorithm: Algorithm, writers_first: bool, spaces: &[InlineSpace]) -> Self {
        let fits = |space: &&InlineSpace| algorithm.bytes <= space.bytes && algorithm.align <= 8;
        let offset = spaces.iter().find(fits).map_or(IN_ARENA, |space| space.offset);
        let shared = algorithm.shared.unwrap_or(Self::NONE.shared);
        Self { algorithm, shared, writers_first, offset }
    }
}

/// What the configuration says of one kind of object.
pub(crate) struct KindChoices {
    kind: ObjectKind,
    choices: UnsafeCell<[Choice; CHOICES]>,
    /// Choices made.
    count: AtomicU8,
    /// The choice for every object that no site asks for, plus one; 0 leaves them to glibc.
    for_all: AtomicU8,
    /// See [`KindChoices::not_asked_for`].
    seen: AtomicBool,
}

// SAFETY: the choices are written before any object is ours, by the constructor; an object's tag publishes them.
unsafe impl Sync for KindChoices {}

pub(crate) static MUTEXES: KindChoices = KindChoices::new(ObjectKind::Mutex);
pub(crate) static RWLOCKS: KindChoices = KindChoices::new(ObjectKind::Rwlock);
pub(crate) static SPINS: KindChoices = KindChoices::new(ObjectKind::Spin);

/// The choices for a kind of object.
pub(crate) fn of(kind: ObjectKind) -> &'static KindChoices {
    match kind {
        ObjectKind::Mutex => &MUTEXES,
        ObjectKind::Rwlock => &RWLOCKS,
        ObjectKind::Spin => &SPINS,
    }
}

impl KindChoices {
    const fn new(kind: ObjectKind) -> Self {
        Self {
            kind,
            choices: UnsafeCell::new([Choice::NONE; CHOICES]),
            count: AtomicU8::new(0),
            for_all: AtomicU8::new(0),
            seen: AtomicBool::new(false),
        }
    }

    /// Adds a choice and gives its number; none when there are too many.
    ///
    /// # Safety
    /// The process has one thread, and no object is ours yet.
    pub(crate) unsafe fn add(&self, choice: Choice) -> Option<u8> {
        let number = self.count.load(Ordering::Relaxed);
        if usize::from(number) == CHOICES {
            return None;
        }
        // SAFETY: no thread reads the choices yet.
        unsafe { (*self.choices.get())[usize::from(number)] = choice };
        self.count.store(number + 1, Ordering::Release);
        Some(number)
    }

    /// Makes a choice the one for every object that no site asks for.
    pub(crate) fn choose_for_all(&self, number: u8) {
        self.for_all.store(number + 1, Ordering::Release);
    }

    /// The choice for every object that no site asks for; none leaves them to glibc.
    pub(crate) fn for_all(&self) -> Option<u8> {
        self.for_all.load(Ordering::Acquire).checked_sub(1)
    }

    /// Whether any object of this kind may be ours.
    #[inline]
    pub(crate) fn swaps(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Whether calls for objects of this kind have to be looked at.
    #[inline]
    pub(crate) fn watched(&self) -> bool {
        self.swaps() || recorder::enabled() || tally::counts_all()
    }

    /// All choices.
    pub(crate) fn choices_made(&self) -> impl Iterator<Item = &Choice> {
        (0..usize::from(self.count.load(Ordering::Acquire))).map(|number| self.choice(number))
    }

    /// The choice of an object that is ours.
    #[inline]
    pub(crate) fn choice(&self, number: usize) -> &Choice {
        // SAFETY: written before the tag that says `number`.
        unsafe { &(*self.choices.get())[number & (CHOICES - 1)] }
    }

    /// The choice of an object that is ours, after deciding whose it is if no thread has. `refusal` says why it must be glibc's;
    /// `reference` is where the object keeps the reference to its slot, should it need one.
    #[cold]
    pub(crate) fn decided(
        &'static self,
        tag: &Tag,
        object: usize,
        caller: usize,
        refusal: Option<Refusal>,
        reference: &AtomicU32,
    ) -> Option<&'static Choice> {
        match self.decide(tag, object, caller, refusal, reference) {
            Owner::Ours(number) => Some(self.choice(usize::from(number))),
            _ => None,
        }
    }

    /// Decides whose an object is, for good.
    fn decide(
        &self,
        tag: &Tag,
        object: usize,
        caller: usize,
        refusal: Option<Refusal>,
        reference: &AtomicU32,
    ) -> Owner {
        // Looked up before: that may wait for the loader, whose lock may be held by a thread that waits to decide.
        let wanted = match tag.owner() {
            Owner::Undecided => self.wanted(object, caller, site::Call::Takes),
            Owner::Initialised => self.wanted(object, caller, site::Call::Initialises),
            Owner::Wanted(number) => Some(number),
            Owner::Unplaced => {
                if site::is_too_late(caller) {
                    tag.set(Owner::Glibc); // and counted once
                }
                return Owner::Glibc;
            }
            decided => return decided,
        };
        tag.touch();
        Initialisation::alone(|_| {
            let before = tag.owner();
            if let Owner::Ours(_) | Owner::Glibc | Owner::Unplaced = before {
                return before;
            }
            let owner = match (refusal, wanted) {
                (Some(refusal), Some(_)) => {
                    self.leave(refusal);
                    Owner::Glibc
                }
                (refusal, None) => {
                    if let Some(refusal) = refusal {
                        recorder::untouched(refusal);
                    }
                    self.not_chosen();
                    match before == Owner::Undecided && site::may_be_late(object) {
                        true => Owner::Unplaced,
                        false => Owner::Glibc,
                    }
                }
                (None, Some(number)) => {
                    let keep = |slot: Reference| reference.store(slot.0, Ordering::Relaxed);
                    if self.make_ours(self.choice(usize::from(number)), object, keep) {
                        Owner::Ours(number)
                    } else {
                        Owner::Glibc
                    }
                }
            };
            tag.set(owner);
            owner
        })
    }

    /// The choice that the configuration has for an object first used or initialised by `caller`.
    pub(crate) fn wanted(&self, object: usize, caller: usize, call: site::Call) -> Option<u8> {
        site::choice(self.kind, object, caller, call).or_else(|| self.for_all())
    }

    /// Makes an object ours: takes a slot for its state where that does not fit into the object, and has it kept. False, and
    /// counted as left to glibc, if there is none.
    #[cold]
    pub(crate) fn make_ours(&self, choice: &Choice, object: usize, keep: impl FnOnce(Reference)) -> bool {
        let has_space = choice.offset != IN_ARENA || arena::claim(object).map(keep).is_some();
        if has_space {
            self.swapped(choice);
        } else {
            self.leave(Refusal::Other);
        }
        has_space
    }

    /// An object of ours that was moved or copied here gets a slot of its own: see [`Reference::find_own_slot`]. Where there is
    /// none left, it is glibc's from now on, after `clear` has made it one of glibc's that is free.
    #[cold]
    #[inline(never)]
    pub(crate) fn find_own_slot(
        &self,
        tag: &Tag,
        reference: &AtomicU32,
        object: usize,
        held: bool,
        clear: impl FnOnce(),
    ) {
        Initialisation::alone(|_| {
            if tag.ours().is_some() && !Reference::find_own_slot(reference, object, held) {
                clear();
                self.leave(Refusal::Other);
                tag.set(Owner::Glibc);
            }
        });
    }

    /// Counts an object that is ours now.
    fn swapped(&self, choice: &Choice) {
        if let Some(tally) = tally::get() {
            let emulated = u64::from(choice.algorithm.emulated);
            tally.of(self.kind).swapped.fetch_add(1, Ordering::Relaxed);
            tally.of(self.kind).emulated.fetch_add(emulated, Ordering::Relaxed);
        }
    }

    /// Counts an object that stays glibc's.
    #[cold]
    pub(crate) fn leave(&self, refusal: Refusal) {
        recorder::untouched(refusal);
        if let Some(tally) = tally::get() {
            tally.of(self.kind).left_for(refusal).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// There is an object of this kind although the configuration is about none: said once, so that its calls cost no look.
    #[inline]
    pub(crate) fn not_asked_for(&self) {
        if !self.seen.load(Ordering::Relaxed) {
            self.seen.store(true, Ordering::Relaxed);
            self.not_chosen();
        }
    }

    /// Whether it is known that no object of this kind is or will be ours, recorded or counted: its calls are glibc's. Programs make
    /// very many that they do not need: `node` takes eight hundred thousand reader-writer locks before its first line.
    #[inline]
    pub(crate) fn passed_on(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }

    /// Counts an object for which the configuration has no choice.
    #[cold]
    pub(crate) fn not_chosen(&self) {
        if let Some(tally) = tally::get() {
            tally.of(self.kind).not_chosen.fetch_add(1, Ordering::Relaxed);
        }
    }
}
