//! Words of the hardware: the processor's own, one instruction an access.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use super::patience::Patience;
use crate::word::assert_single_access;
use crate::{Integer, Ordering, Part, Plain, PlainCell, Word};

/// Whether a read-modify-write with this ordering may be what a waiter waits for. One that only acquires takes a
/// lock, and no thread waits for that; waking sleepers for it would wake them twice a hand-over.
#[inline]
fn publishes(ordering: Ordering) -> bool {
    !matches!(ordering, Ordering::Acquire)
}

#[inline]
fn low_bits<T: Plain>(value: T) -> u32 {
    value.to_bits() as u32
}

macro_rules! word_accesses {
    ($value:ty, $atomic:ty) => {
        type Value = $value;
        const ZERO: Self = Self(<$atomic>::new(<$value as Plain>::ZERO), PhantomData);

        #[inline]
        fn load(&self, ordering: Ordering) -> $value {
            self.0.load(ordering)
        }

        #[inline]
        fn store(&self, value: $value, ordering: Ordering) {
            self.0.store(value, ordering);
            P::written(self, Some(low_bits(value)));
        }

        #[inline]
        fn swap(&self, value: $value, ordering: Ordering) -> $value {
            let old = self.0.swap(value, ordering);
            if old != value && publishes(ordering) {
                P::written(self, Some(low_bits(value)));
            }
            old
        }

        #[inline]
        fn compare_exchange(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            let result = self.0.compare_exchange(current, new, success, failure);
            if result.is_ok() && publishes(success) {
                P::written(self, Some(low_bits(new)));
            }
            result
        }
    };
}

macro_rules! integer_word {
    ($name:ident, $value:ty, $atomic:ty, $doc:literal) => {
        #[doc = $doc]
        #[repr(transparent)]
        pub struct $name<P: Patience>($atomic, PhantomData<P>);

        impl<P: Patience> $name<P> {
            /// The standard library's view of the word.
            #[inline]
            pub const fn as_atomic(&self) -> &$atomic {
                &self.0
            }
        }

        // SAFETY: transparent over the atomic of its value.
        unsafe impl<P: Patience> Word for $name<P> {
            word_accesses!($value, $atomic);
        }

        impl<P: Patience> Integer for $name<P> {
            #[inline]
            fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                let old = self.0.fetch_add(value, ordering);
                P::written(self, Some(low_bits(old.wrapping_add(value))));
                old
            }

            #[inline]
            fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                let old = self.0.fetch_sub(value, ordering);
                P::written(self, Some(low_bits(old.wrapping_sub(value))));
                old
            }

            #[inline]
            fn fetch_and(&self, value: $value, ordering: Ordering) -> $value {
                let old = self.0.fetch_and(value, ordering);
                P::written(self, Some(low_bits(old & value)));
                old
            }

            #[inline]
            fn fetch_or(&self, value: $value, ordering: Ordering) -> $value {
                let old = self.0.fetch_or(value, ordering);
                P::written(self, Some(low_bits(old | value)));
                old
            }

            #[inline]
            fn store_part(&self, part: Part, value: u16, ordering: Ordering) {
                let word_bits = 8 * size_of::<$value>() as u32;
                assert!(
                    part.shift() + part.mask().count_ones() <= word_bits,
                    "{part:?} lies outside the word"
                );
                assert!(
                    matches!(ordering, Ordering::Relaxed | Ordering::Release),
                    "a part is stored relaxed or released"
                );
                #[cfg(not(any(miri, contend_thread_sanitizer)))]
                // SAFETY: the part lies inside the word, as asserted.
                unsafe {
                    store_part(self.0.as_ptr().cast(), size_of::<$value>(), part, value)
                };
                // Miri has no assembly, and ThreadSanitizer does not see what it does.
                #[cfg(any(miri, contend_thread_sanitizer))]
                {
                    let stored = |word| {
                        word & !(part.mask() as $value)
                            | <$value>::from(value) << part.shift() & part.mask() as $value
                    };
                    let _ = self.0.fetch_update(ordering, Ordering::Relaxed, |word| Some(stored(word)));
                }
                P::written(self, (part.shift() == 0).then_some(u32::from(value)));
            }
        }
    };
}

integer_word!(HostU32, u32, AtomicU32, "A 32-bit word of this computer.");
integer_word!(HostU64, u64, AtomicU64, "A 64-bit word of this computer.");

/// A pointer-sized word of this computer.
#[repr(transparent)]
pub struct HostPtr<T: 'static, P: Patience>(AtomicPtr<T>, PhantomData<P>);

// SAFETY: transparent over the atomic of its value.
unsafe impl<T: 'static, P: Patience> Word for HostPtr<T, P> {
    word_accesses!(*mut T, AtomicPtr<T>);
}

/// Stores a part with release ordering, in assembly, because atomics of mixed sizes are not Rust's.
///
/// # Safety
/// `word` is a word of `word_bytes` bytes and the part lies inside it.
#[cfg(not(any(miri, contend_thread_sanitizer)))]
#[inline]
unsafe fn store_part(word: *mut u8, word_bytes: usize, part: Part, value: u16) {
    let offset = (part.shift() / 8) as usize;
    // SAFETY: inside the word, and naturally aligned since the word is.
    unsafe {
        let byte = match part {
            Part::Byte(_) if cfg!(target_endian = "big") => word.add(word_bytes - 1 - offset),
            Part::Half(_) if cfg!(target_endian = "big") => word.add(word_bytes - 2 - offset),
            _ => word.add(offset),
        };
        match part {
            Part::Byte(_) => store_byte(byte, value as u8),
            Part::Half(_) => store_half(byte, value),
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(any(miri, contend_thread_sanitizer))))]
mod parts {
    use core::arch::asm;

    /// # Safety
    /// `at` can be written.
    #[inline]
    pub(super) unsafe fn store_byte(at: *mut u8, value: u8) {
        // SAFETY: a plain store of x86 is a release store; the asm block is a compiler barrier for memory.
        unsafe {
            asm!("mov byte ptr [{}], {}", in(reg) at, in(reg_byte) value, options(nostack, preserves_flags));
        }
    }

    /// # Safety
    /// `at` can be written and is aligned to two.
    #[inline]
    pub(super) unsafe fn store_half(at: *mut u8, value: u16) {
        // SAFETY: by the caller the store is aligned, hence one access, a release as every store of x86; the block is a barrier
        // for the compiler.
        unsafe {
            asm!("mov word ptr [{}], {:x}", in(reg) at, in(reg) value, options(nostack, preserves_flags));
        }
    }
}

#[cfg(all(target_arch = "aarch64", not(any(miri, contend_thread_sanitizer))))]
mod parts {
    use core::arch::asm;

    /// # Safety
    /// `at` can be written.
    #[inline]
    pub(super) unsafe fn store_byte(at: *mut u8, value: u8) {
        // SAFETY: a store-release of one byte.
        unsafe { asm!("stlrb {:w}, [{}]", in(reg) value, in(reg) at, options(nostack, preserves_flags)) };
    }

    /// # Safety
    /// `at` can be written and is aligned to two.
    #[inline]
    pub(super) unsafe fn store_half(at: *mut u8, value: u16) {
        // SAFETY: a store-release of two bytes.
        unsafe { asm!("stlrh {:w}, [{}]", in(reg) value, in(reg) at, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(miri, contend_thread_sanitizer)))]
use parts::{store_byte, store_half};

/// A plain cell of this computer. The access compiles to the plain instruction; it is a relaxed atomic for the
/// compiler, so that even a lock that fails to exclude is no undefined behaviour here.
#[repr(transparent)]
pub struct HostCell<T: Plain>(core::cell::UnsafeCell<T>);

// SAFETY: plain bits can go to another thread; the code that dereferences a pointer read here answers for that.
unsafe impl<T: Plain> Send for HostCell<T> {}
// SAFETY: accesses are relaxed atomics of the cell's size.
unsafe impl<T: Plain> Sync for HostCell<T> {}

impl<T: Plain> PlainCell<T> for HostCell<T> {
    const ZERO: Self = Self(core::cell::UnsafeCell::new(T::ZERO));

    #[inline]
    fn get(&self) -> T {
        const { assert_single_access::<T>() };
        use core::sync::atomic::{AtomicU8, AtomicU16};
        let at = self.0.get();
        // SAFETY: the cell is aligned to its size and only accessed by atomics of that size.
        let bits = unsafe {
            match size_of::<T>() {
                1 => u64::from(AtomicU8::from_ptr(at.cast()).load(Ordering::Relaxed)),
                2 => u64::from(AtomicU16::from_ptr(at.cast()).load(Ordering::Relaxed)),
                4 => u64::from(AtomicU32::from_ptr(at.cast()).load(Ordering::Relaxed)),
                _ => AtomicU64::from_ptr(at.cast()).load(Ordering::Relaxed),
            }
        };
        T::from_bits(bits)
    }

    #[inline]
    fn set(&self, value: T) {
        const { assert_single_access::<T>() };
        use core::sync::atomic::{AtomicU8, AtomicU16};
        let (at, bits) = (self.0.get(), value.to_bits());
        // SAFETY: as in `get`.
        unsafe {
            match size_of::<T>() {
                1 => AtomicU8::from_ptr(at.cast()).store(bits as u8, Ordering::Relaxed),
                2 => AtomicU16::from_ptr(at.cast()).store(bits as u16, Ordering::Relaxed),
                4 => AtomicU32::from_ptr(at.cast()).store(bits as u32, Ordering::Relaxed),
                _ => AtomicU64::from_ptr(at.cast()).store(bits, Ordering::Relaxed),
            }
        }
    }
}
