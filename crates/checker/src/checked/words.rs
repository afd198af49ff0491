//! Words and cells of the checked machine: their addresses name locations; the values are in the execution graph.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::panic::Location as Site;

use machine::{Integer, Ordering, Part, Plain, PlainCell, Word};

use super::mutation::Operation;
use super::session::{bits, session};

macro_rules! word_accesses {
    ($value:ty) => {
        type Value = $value;
        const ZERO: Self = Self(UnsafeCell::new(<$value as Plain>::ZERO), PhantomData);

        #[inline]
        #[track_caller]
        fn load(&self, ordering: Ordering) -> $value {
            let (session, site) = (session(), Site::caller());
            let ordering = session.ordering(Operation::Load, ordering, site);
            <$value>::from_bits(session.load(self.address(), ordering, site, None).1)
        }

        #[inline]
        #[track_caller]
        fn store(&self, value: $value, ordering: Ordering) {
            let (session, site) = (session(), Site::caller());
            let ordering = session.ordering(Operation::Store, ordering, site);
            session.store(self.address(), bits(value), ordering, site);
        }

        #[inline]
        #[track_caller]
        fn swap(&self, value: $value, ordering: Ordering) -> $value {
            let value = bits(value);
            <$value>::from_bits(self.update(Operation::Swap, ordering, Site::caller(), |_| value))
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
            let success = session.ordering(Operation::CompareExchange, success, site);
            let (current, new) = (bits(current), bits(new));
            let result = session.compare_exchange(self.address(), current, new, success, failure, site);
            result.map(<$value>::from_bits).map_err(<$value>::from_bits)
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
        // SAFETY: as above.
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
                update: impl Fn(u64) -> u64,
            ) -> u64 {
                let session = session();
                let ordering = session.ordering(operation, ordering, site);
                session.read_modify_write(self.address(), ordering, site, update)
            }
        }

        // SAFETY: transparent over its value.
        unsafe impl Word for $name {
            word_accesses!($value);
        }

        impl Integer for $name {
            #[inline]
            #[track_caller]
            fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                let add = |old| bits(<$value>::from_bits(old).wrapping_add(value));
                self.update(Operation::FetchAdd, ordering, Site::caller(), add) as $value
            }

            #[inline]
            #[track_caller]
            fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                let subtract = |old| bits(<$value>::from_bits(old).wrapping_sub(value));
                self.update(Operation::FetchSub, ordering, Site::caller(), subtract) as $value
            }

            #[inline]
            #[track_caller]
            fn fetch_and(&self, value: $value, ordering: Ordering) -> $value {
                self.update(Operation::FetchAnd, ordering, Site::caller(), |old| old & bits(value)) as $value
            }

            #[inline]
            #[track_caller]
            fn fetch_or(&self, value: $value, ordering: Ordering) -> $value {
                self.update(Operation::FetchOr, ordering, Site::caller(), |old| old | bits(value)) as $value
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
                let ordering = session.ordering(Operation::StorePart, ordering, site);
                let bits = u64::from(value) << part.shift() & part.mask();
                session.store_part(self.address(), part.mask(), bits, ordering, site);
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
// SAFETY: as above.
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
        update: impl Fn(u64) -> u64,
    ) -> u64 {
        let session = session();
        let ordering = session.ordering(operation, ordering, site);
        session.read_modify_write(self.address(), ordering, site, update)
    }
}

// SAFETY: transparent over its value.
unsafe impl<T: 'static> Word for CheckedPtr<T> {
    word_accesses!(*mut T);
}

/// A plain cell of the checked machine.
#[repr(transparent)]
pub struct CheckedCell<T: Plain>(UnsafeCell<T>);

// SAFETY: plain bits can go to another thread, and the memory behind it is never accessed.
unsafe impl<T: Plain> Send for CheckedCell<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for CheckedCell<T> {}

impl<T: Plain> PlainCell<T> for CheckedCell<T> {
    const ZERO: Self = Self(UnsafeCell::new(T::ZERO));

    #[inline]
    #[track_caller]
    fn get(&self) -> T {
        T::from_bits(session().plain(self.0.get() as usize, None, Site::caller()))
    }

    #[inline]
    #[track_caller]
    fn set(&self, value: T) {
        session().plain(self.0.get() as usize, Some(bits(value)), Site::caller());
    }
}
