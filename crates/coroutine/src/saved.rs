//! A suspended coroutine as it was, to be put back: what lies on its stack, and its own value, both as bytes.
//!
//! Put back, it goes on from where it was suspended then, with all locals as they were. What it has changed elsewhere stays
//! changed. Under Miri, where a coroutine is a host thread, this cannot be done.

use std::mem::MaybeUninit;

/// Bytes below a suspended coroutine's last frame that switching may use.
pub const SWITCH_BYTES: usize = 512;

/// The part of a suspended coroutine's stack that it uses.
#[derive(Clone, Copy, Debug)]
pub struct UsedStack {
    from: usize,
    base: usize,
}

impl UsedStack {
    /// Up to the stack's `base`, from the frame that suspends the coroutine, in which something lies at this address.
    #[must_use]
    pub const fn new(address: usize, base: usize) -> Self {
        Self { from: (address - SWITCH_BYTES) & !7, base }
    }

    /// Its words, by address.
    pub fn addresses(self) -> impl Iterator<Item = usize> + use<> {
        (self.from..self.base).step_by(8)
    }

    /// What lies there.
    ///
    /// # Safety
    /// The coroutine is suspended, and its stack is mapped for as long as the iterator is used.
    pub unsafe fn words(self) -> impl Iterator<Item = u64> + use<> {
        // SAFETY: the caller's; volatile, since the compiler does not know what lies there.
        self.addresses().map(|address| unsafe { std::ptr::read_volatile(address as *const u64) })
    }

    /// Puts back what lay there. Words past the part's end are left to the caller.
    ///
    /// # Safety
    /// The coroutine is suspended, and the words are those that lay here at another of its suspensions. The coroutine's value is put
    /// [back](CoroutineBytes::put_back) too.
    ///
    /// # Panics
    /// When there are fewer words.
    pub unsafe fn put_back(self, words: &mut impl Iterator<Item = u64>) {
        for address in self.addresses() {
            let word = words.next().expect("as many words as were saved");
            // SAFETY: the caller's.
            unsafe { std::ptr::write_volatile(address as *mut u64, word) };
        }
    }
}

/// The value of a suspended coroutine, as bytes: never used as a coroutine, and never dropped.
#[derive(Debug)]
pub struct CoroutineBytes<C>(MaybeUninit<C>);

impl<C> CoroutineBytes<C> {
    /// The bytes of this coroutine.
    pub fn of(coroutine: &C) -> Self {
        // SAFETY: a copy of valid memory that is never used as a coroutine: its bytes go back where they are from.
        Self(unsafe { std::ptr::from_ref(coroutine).cast::<MaybeUninit<C>>().read() })
    }

    /// Makes the coroutine what it was.
    ///
    /// # Safety
    /// It is the same coroutine, suspended, and so it was when the bytes were taken. What lay on its stack then is put
    /// [back](UsedStack::put_back) too.
    pub unsafe fn put_back(&self, coroutine: &mut C) {
        // SAFETY: what is overwritten is the same coroutine later, so that nothing is lost that would have to be dropped.
        unsafe { std::ptr::from_mut(coroutine).cast::<MaybeUninit<C>>().write(std::ptr::read(&self.0)) };
    }
}
