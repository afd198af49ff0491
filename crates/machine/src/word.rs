//! Shared words and cells.

use core::fmt::Debug;

use crate::Ordering;

/// A value that a shared word or cell can hold: plain bits of one, two, four or eight bytes.
///
/// A type of another size, or one that is not aligned to its size, does not compile in a cell: the hardware has no single
/// access for it.
///
/// # Safety
/// Every bit pattern of the type's size is a valid value, and the one of zeros is `ZERO`; `from_bits(to_bits(x)) == x`;
/// the type has no padding and needs no drop.
pub unsafe trait Plain: Copy + PartialEq + Debug + 'static {
    /// The value whose bits are zero.
    const ZERO: Self;
    /// The bits, zero-extended. A pointer gives its address.
    fn to_bits(self) -> u64;
    /// The value with these bits. Bits past the type's size are dropped.
    fn from_bits(bits: u64) -> Self;
}

/// Fails to compile when the hardware has no single access for a `T`.
pub(crate) const fn assert_single_access<T: Plain>() {
    assert!(
        matches!(size_of::<T>(), 1 | 2 | 4 | 8) && align_of::<T>() == size_of::<T>(),
        "a plain value has one, two, four or eight bytes and is aligned to its size"
    );
}

macro_rules! plain_integers {
    ($($int:ty),*) => {$(
        // SAFETY: integers are plain bits, and zero is zero.
        unsafe impl Plain for $int {
            const ZERO: Self = 0;
            fn to_bits(self) -> u64 {
                self as u64
            }
            fn from_bits(bits: u64) -> Self {
                bits as $int
            }
        }
    )*};
}
plain_integers!(u8, u16, u32, u64, usize);

// SAFETY: a thin pointer is plain bits, and null is zero. Code that dereferences it answers for its provenance.
unsafe impl<T: 'static> Plain for *mut T {
    const ZERO: Self = core::ptr::null_mut();
    fn to_bits(self) -> u64 {
        self.expose_provenance() as u64
    }
    fn from_bits(bits: u64) -> Self {
        core::ptr::with_exposed_provenance_mut(bits as usize)
    }
}

/// A shared word: every access names its ordering.
///
/// # Safety
/// The type is as large and aligned as its value, at least four bytes, and its memory is initialised: a machine may watch
/// it where it lies.
pub unsafe trait Word: Send + Sync + Sized {
    /// What it holds.
    type Value: Plain;

    /// A word whose bits are zero. Zero-filled memory is a valid word.
    const ZERO: Self;

    /// Reads the word. `Release` and `AcqRel` are not allowed.
    #[track_caller]
    fn load(&self, ordering: Ordering) -> Self::Value;

    /// Writes the word. `Acquire` and `AcqRel` are not allowed.
    #[track_caller]
    fn store(&self, value: Self::Value, ordering: Ordering);

    /// Writes the word and gives what it held.
    #[track_caller]
    fn swap(&self, value: Self::Value, ordering: Ordering) -> Self::Value;

    /// Writes `new` if the word holds `current`.
    ///
    /// # Errors
    /// The value found, read with `failure`, when it was another.
    #[track_caller]
    fn compare_exchange(
        &self,
        current: Self::Value,
        new: Self::Value,
        success: Ordering,
        failure: Ordering,
    ) -> Result<Self::Value, Self::Value>;
}

/// A shared word that counts.
pub trait Integer: Word {
    /// Adds, wrapping, and gives what it held.
    #[track_caller]
    fn fetch_add(&self, value: Self::Value, ordering: Ordering) -> Self::Value;
    /// Subtracts, wrapping, and gives what it held.
    #[track_caller]
    fn fetch_sub(&self, value: Self::Value, ordering: Ordering) -> Self::Value;
    /// Keeps the bits of `value` and gives what it held.
    #[track_caller]
    fn fetch_and(&self, value: Self::Value, ordering: Ordering) -> Self::Value;
    /// Sets the bits of `value` and gives what it held.
    #[track_caller]
    fn fetch_or(&self, value: Self::Value, ordering: Ordering) -> Self::Value;

    /// Writes one byte or half of the word and leaves the rest as it is, without a read-modify-write where the
    /// hardware can. `value` is the part's own value, not shifted. `Relaxed` and `Release` only.
    ///
    /// # Panics
    /// When the part does not lie inside the word, or the ordering is not one of the two.
    #[track_caller]
    fn store_part(&self, part: Part, value: u16, ordering: Ordering);
}

/// A byte or half of a word, counted from the least significant end whatever the host's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The n-th byte: bits 8n to 8n + 7.
    Byte(u8),
    /// The n-th pair of bytes: bits 16n to 16n + 15.
    Half(u8),
}

impl Part {
    /// The lowest bit of the part.
    #[must_use]
    pub const fn shift(self) -> u32 {
        match self {
            Self::Byte(n) => 8 * n as u32,
            Self::Half(n) => 16 * n as u32,
        }
    }

    /// The part's bits in the word.
    #[must_use]
    pub const fn mask(self) -> u64 {
        match self {
            Self::Byte(_) => 0xff << self.shift(),
            Self::Half(_) => 0xffff << self.shift(),
        }
    }
}

/// A shared cell that is read and written without ordering, by threads that a lock keeps apart.
pub trait PlainCell<T: Plain>: Send + Sync + Sized {
    /// A cell that holds zero. Zero-filled memory is a valid cell.
    const ZERO: Self;
    /// Reads it.
    #[track_caller]
    fn get(&self) -> T;
    /// Writes it.
    #[track_caller]
    fn set(&self, value: T);
}
