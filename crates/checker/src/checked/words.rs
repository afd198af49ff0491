//! Words and cells of the checked machine: their addresses name locations; the values are in the execution graph.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::panic::Location as Site;

use machine::{Integer, Ordering, Part, Plain, PlainCell, Word};

use super::mutation::{Change, Operation};
use super::session::{bits, session};

/// A read-modify-write of a word, of which `update` knows what the mutation changes.
#[inline]
fn update_at<V: Plain>(
    address: usize,
    (operation, is_address): (Operation, bool),
    ordering: Ordering,
    site: &'static Site<'static>,
    update: impl Fn(u64, Option<Change>) -> u64,
) -> V {
    let session = session();
    let (ordering, change) = session.mutated(operation, ordering, site, is_address);
    let old = if change == Some(Change::Dropped) {
        session.load(address, as_load(ordering), site, None).1
    } else {
        session.read_modify_write(address, ordering, site, |old| update(old, change))
    };
    Change::read(change, old)
}

/// The ordering of a read-modify-write that only reads.
fn as_load(ordering: Ordering) -> Ordering {
    match ordering {
        Ordering::Release => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Acquire,
        other => other,
    }
}

macro_rules! word_accesses {
    ($value:ty, $is_address:literal) => {
        type Value = $value;
        const ZERO: Self = Self(UnsafeCell::new(<$value as Plain>::ZERO), PhantomData);

        #[inline]
        #[track_caller]
        fn load(&self, ordering: Ordering) -> $value {
            let (session, site) = (session(), Site::caller());
            let (ordering, change) = session.mutated(Operation::Load, ordering, site, $is_address);
            Change::read(change, session.load(self.address(), ordering, site, None).1)
        }

        #[inline]
        #[track_caller]
        fn store(&self, value: $value, ordering: Ordering) {
            let (session, site) = (session(), Site::caller());
            let (ordering, change) = session.mutated(Operation::Store, ordering, site, $is_address);
            if change != Some(Change::Dropped) {
                let value = <$value>::from_bits(Change::written(change, bits(value)));
                session.store(self.address(), bits(value), ordering, site);
            }
        }

        #[inline]
        #[track_caller]
        fn swap(&self, value: $value, ordering: Ordering) -> $value {
            self.update(Operation::Swap, ordering, Site::caller(), |_, change| {
                bits(<$value>::from_bits(Change::written(change, bits(value))))
            })
        }

        #[inline]
        #[track_caller]
        fn compare_exchange(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            let (session, site) = (session(), Site::caller());
            let (success, change) = session.mutated(Operation::CompareExchange, success, site, $is_address);
            let (address, current) = (self.address(), bits(current));
            let result = if change == Some(Change::Dropped) {
                let old = session.load(address, as_load(success), site, None).1;
                if old == current { Ok(old) } else { Err(old) }
            } else {
                let new = bits(<$value>::from_bits(Change::written(change, bits(new))));
                session.compare_exchange(address, current, new, success, failure, site)
            };
            match (result.map(<$value>::from_bits).map_err(<$value>::from_bits), change) {
                (Err(old), Some(Change::Succeeds)) => Ok(old),
                (Ok(old), Some(Change::Fails)) => Err(old),
                (result, _) => result,
            }
        }
    };
}

macro_rules! integer_word {
    ($name:ident, $value:ty, $doc:literal) => {
        #[doc = $doc]
        #[repr(transparent)]
        pub struct $name(UnsafeCell<$value>, PhantomData<()>);

        // SAFETY: the memory behind it is never accessed; the threads of the machine run on one thread.
        unsafe impl Send for $name {}
        // SAFETY: the memory behind it is never accessed; the threads of the machine run on one thread.
        unsafe impl Sync for $name {}

        impl $name {
            #[inline]
            fn address(&self) -> usize {
                self.0.get() as usize
            }

            #[inline]
            fn update(
                &self,
                operation: Operation,
                ordering: Ordering,
                site: &'static Site<'static>,
                update: impl Fn(u64, Option<Change>) -> u64,
            ) -> $value {
                update_at(self.address(), (operation, false), ordering, site, update)
            }
        }

        // SAFETY: transparent over its value.
        unsafe impl Word for $name {
            word_accesses!($value, false);
        }

        impl Integer for $name {
            #[inline]
            #[track_caller]
            fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                self.update(Operation::FetchAdd, ordering, Site::caller(), |old, change| {
                    bits((old as $value).wrapping_add(Change::written(change, bits(value)) as $value))
                })
            }

            #[inline]
            #[track_caller]
            fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                self.update(Operation::FetchSub, ordering, Site::caller(), |old, change| {
                    bits((old as $value).wrapping_sub(Change::written(change, bits(value)) as $value))
                })
            }

            #[inline]
            #[track_caller]
            fn fetch_and(&self, value: $value, ordering: Ordering) -> $value {
                self.update(Operation::FetchAnd, ordering, Site::caller(), |old, change| {
                    let next = change == Some(Change::NextBit);
                    old & bits(if next { value.rotate_left(1) } else { value })
                })
            }

            #[inline]
            #[track_caller]
            fn fetch_or(&self, value: $value, ordering: Ordering) -> $value {
                self.update(Operation::FetchOr, ordering, Site::caller(), |old, change| {
                    let next = change == Some(Change::NextBit);
                    old | bits(if next { value.rotate_left(1) } else { value })
                })
            }

            #[track_caller]
            fn store_part(&self, part: Part, value: u16, ordering: Ordering) {
                assert!(
                    part.shift() + part.mask().count_ones() <= <$value>::BITS,
                    "{part:?} lies outside the word"
                );
                assert!(
                    matches!(ordering, Ordering::Relaxed | Ordering::Release),
                    "a part is stored relaxed or released"
                );
                let (session, site) = (session(), Site::caller());
                let (ordering, change) = session.mutated(Operation::StorePart, ordering, site, false);
                if change != Some(Change::Dropped) {
                    let bits = Change::written(change, u64::from(value)) << part.shift() & part.mask();
                    session.store_part(self.address(), part.mask(), bits, ordering, site);
                }
            }
        }
    };
}

integer_word!(CheckedU32, u32, "A 32-bit word of the checked machine.");
integer_word!(CheckedU64, u64, "A 64-bit word of the checked machine.");

/// A pointer-sized word of the checked machine.
#[repr(transparent)]
pub struct CheckedPtr<T: 'static>(UnsafeCell<*mut T>, PhantomData<()>);

// SAFETY: the memory behind it is never accessed; the threads of the machine run on one thread.
unsafe impl<T: 'static> Send for CheckedPtr<T> {}
// SAFETY: the memory behind it is never accessed; the threads of the machine run on one thread.
unsafe impl<T: 'static> Sync for CheckedPtr<T> {}

impl<T: 'static> CheckedPtr<T> {
    #[inline]
    fn address(&self) -> usize {
        self.0.get() as usize
    }

    #[inline]
    fn update(
        &self,
        operation: Operation,
        ordering: Ordering,
        site: &'static Site<'static>,
        update: impl Fn(u64, Option<Change>) -> u64,
    ) -> *mut T {
        update_at(self.address(), (operation, true), ordering, site, update)
    }
}

// SAFETY: transparent over its value.
unsafe impl<T: 'static> Word for CheckedPtr<T> {
    word_accesses!(*mut T, true);
}

/// A plain cell of the checked machine.
#[repr(transparent)]
pub struct CheckedCell<T: Plain>(UnsafeCell<T>);

// SAFETY: plain bits can go to another thread, and the memory behind it is never accessed.
unsafe impl<T: Plain> Send for CheckedCell<T> {}
// SAFETY: plain bits can go to another thread, and the memory behind it is never accessed.
unsafe impl<T: Plain> Sync for CheckedCell<T> {}

impl<T: Plain> PlainCell<T> for CheckedCell<T> {
    const ZERO: Self = Self(UnsafeCell::new(T::ZERO));

    #[inline]
    #[track_caller]
    fn get(&self) -> T {
        let (session, site) = (session(), Site::caller());
        let change = session.change(Operation::Get, site);
        Change::read(change, session.plain(self.0.get() as usize, None, site))
    }

    #[inline]
    #[track_caller]
    fn set(&self, value: T) {
        let (session, site) = (session(), Site::caller());
        if session.change(Operation::Set, site) != Some(Change::Dropped) {
            session.plain(self.0.get() as usize, Some(bits(value)), site);
        }
    }
}
