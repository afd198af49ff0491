//! Words and cells of the simulated machine: plain values in the simulation's memory, each access charged.

use std::cell::UnsafeCell;
use std::panic::Location;

use machine::{Integer, Ordering, Part, Plain, PlainCell, Word};

use crate::directory::Request;
use crate::engine::{access, current};

/// Charges an access of the running thread to the word.
#[inline]
#[track_caller]
fn charge<T>(word: &UnsafeCell<T>, request: Request) {
    // SAFETY: the current simulation runs the caller, and no function up the stack has a reference into it.
    unsafe { access(current(), word.get() as usize, request, Location::caller()) };
}

/// Loads a value.
#[inline]
#[track_caller]
fn loaded<T: Plain>(word: &UnsafeCell<T>) -> T {
    charge(word, Request::Load);
    // SAFETY: one host thread, and no reference to the value is ever given out.
    unsafe { *word.get() }
}

/// Stores a value.
#[inline]
#[track_caller]
fn stored<T: Plain>(word: &UnsafeCell<T>, value: T) {
    charge(word, Request::Store);
    // SAFETY: as in `loaded`.
    unsafe { *word.get() = value };
}

macro_rules! accesses {
    ($value:ty) => {
        type Value = $value;
        const ZERO: Self = Self(UnsafeCell::new(<$value as Plain>::ZERO));

        #[inline]
        #[track_caller]
        fn load(&self, _: Ordering) -> $value {
            loaded(&self.0)
        }

        #[inline]
        #[track_caller]
        fn store(&self, value: $value, _: Ordering) {
            stored(&self.0, value);
        }

        #[inline]
        #[track_caller]
        fn swap(&self, value: $value, _: Ordering) -> $value {
            charge(&self.0, Request::Atomic);
            self.replace(|_| value)
        }

        #[inline]
        #[track_caller]
        fn compare_exchange(
            &self,
            current: $value,
            new: $value,
            _: Ordering,
            _: Ordering,
        ) -> Result<$value, $value> {
            // A failed one takes the line too, as on x86.
            charge(&self.0, Request::Atomic);
            let found = self.get();
            if found == current {
                self.set(new);
                Ok(found)
            } else {
                Err(found)
            }
        }
    };
}

macro_rules! word {
    ($name:ident $(<$of:ident>)?, $value:ty, $doc:literal) => {
        #[doc = $doc]
        #[repr(transparent)]
        pub struct $name $(<$of: 'static>)? (UnsafeCell<$value>);

        // SAFETY: all threads of a simulation run on one host thread; a word outside of a simulation is refused at
        // its first access.
        unsafe impl $(<$of: 'static>)? Send for $name $(<$of>)? {}
        // SAFETY: all threads of a simulation run on one host thread; a word outside of a simulation is refused
        // at its first access.
        unsafe impl $(<$of: 'static>)? Sync for $name $(<$of>)? {}

        impl $(<$of: 'static>)? $name $(<$of>)? {
            #[inline]
            fn get(&self) -> $value {
                // SAFETY: one host thread, and no reference to the value is ever given out.
                unsafe { *self.0.get() }
            }

            #[inline]
            fn set(&self, value: $value) {
                // SAFETY: as in `get`.
                unsafe { *self.0.get() = value };
            }

            #[inline]
            fn replace(&self, change: impl FnOnce($value) -> $value) -> $value {
                let old = self.get();
                self.set(change(old));
                old
            }
        }

        // SAFETY: transparent over its value.
        unsafe impl $(<$of: 'static>)? Word for $name $(<$of>)? {
            accesses!($value);
        }
    };
}

word!(SimulatedU32, u32, "A 32-bit word of the simulated machine.");
word!(SimulatedU64, u64, "A 64-bit word of the simulated machine.");
word!(SimulatedPtr<T>, *mut T, "A pointer-sized word of the simulated machine.");

macro_rules! integer {
    ($name:ident, $value:ty) => {
        impl Integer for $name {
            #[inline]
            #[track_caller]
            fn fetch_add(&self, value: $value, _: Ordering) -> $value {
                charge(&self.0, Request::Atomic);
                self.replace(|old| old.wrapping_add(value))
            }

            #[inline]
            #[track_caller]
            fn fetch_sub(&self, value: $value, _: Ordering) -> $value {
                charge(&self.0, Request::Atomic);
                self.replace(|old| old.wrapping_sub(value))
            }

            #[inline]
            #[track_caller]
            fn fetch_and(&self, value: $value, _: Ordering) -> $value {
                charge(&self.0, Request::Atomic);
                self.replace(|old| old & value)
            }

            #[inline]
            #[track_caller]
            fn fetch_or(&self, value: $value, _: Ordering) -> $value {
                charge(&self.0, Request::Atomic);
                self.replace(|old| old | value)
            }

            #[inline]
            #[track_caller]
            fn store_part(&self, part: Part, value: u16, ordering: Ordering) {
                let bits = 8 * size_of::<$value>() as u32;
                assert!(part.shift() + part.mask().count_ones() <= bits, "{part:?} lies outside the word");
                assert!(
                    matches!(ordering, Ordering::Relaxed | Ordering::Release),
                    "a part is stored relaxed or released"
                );
                charge(&self.0, Request::Store);
                let mask = part.mask() as $value;
                let shifted = (value as $value) << part.shift();
                self.replace(|old| old & !mask | shifted & mask);
            }
        }
    };
}

integer!(SimulatedU32, u32);
integer!(SimulatedU64, u64);

impl SimulatedU32 {
    /// A read-modify-write by the kernel on the running thread's behalf; what `change` does besides is one step with it.
    #[track_caller]
    pub(crate) fn change(&self, change: impl FnOnce(u32) -> u32) {
        charge(&self.0, Request::Atomic);
        self.replace(change);
    }
}

/// A plain cell of the simulated machine.
#[repr(transparent)]
pub struct SimulatedCell<T: Plain>(UnsafeCell<T>);

// SAFETY: as for words.
unsafe impl<T: Plain> Send for SimulatedCell<T> {}
// SAFETY: as for words.
unsafe impl<T: Plain> Sync for SimulatedCell<T> {}

impl<T: Plain> PlainCell<T> for SimulatedCell<T> {
    const ZERO: Self = Self(UnsafeCell::new(T::ZERO));

    #[inline]
    #[track_caller]
    fn get(&self) -> T {
        loaded(&self.0)
    }

    #[inline]
    #[track_caller]
    fn set(&self, value: T) {
        stored(&self.0, value);
    }
}
