//! Intel's Restricted Transactional Memory, where the processor has it and it is not switched off.
//!
//! No machine that tests this project has it: what lies behind [`is_available`] has never run.

use crate::transaction::Abort;

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod rtm {
    use core::arch::asm;
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

    use super::Abort;

    const UNKNOWN: u8 = 0;
    const ABSENT: u8 = 1;
    const PRESENT: u8 = 2;

    static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline]
    pub(crate) fn is_available() -> bool {
        match FOUND.load(Relaxed) {
            UNKNOWN => look(),
            found => found == PRESENT,
        }
    }

    #[cold]
    fn look() -> bool {
        /// Leaf 7, EBX: the instructions are there.
        const RTM: u32 = 1 << 11;
        /// Leaf 7, EDX: microcode lets every transaction abort.
        const ALWAYS_ABORTS: u32 = 1 << 11;
        let has_leaf = __cpuid(0).eax >= 7;
        let features = if has_leaf { Some(__cpuid_count(7, 0)) } else { None };
        let present = features.is_some_and(|leaf| leaf.ebx & RTM != 0 && leaf.edx & ALWAYS_ABORTS == 0);
        FOUND.store(if present { PRESENT } else { ABSENT }, Relaxed);
        present
    }

    #[inline]
    pub(crate) fn begin() -> Result<(), Abort> {
        const STARTED: u32 = u32::MAX;
        if !is_available() {
            return Err(Abort::UNAVAILABLE);
        }
        let mut status = STARTED;
        // SAFETY: the instruction is there. An abort continues behind it, with all registers but this one, and all memory, the stack
        // with it, as they were before it: to the compiler it is an instruction that gives another value.
        unsafe { asm!("xbegin 2f", "2:", inout("eax") status) };
        if status == STARTED { Ok(()) } else { Err(Abort::from_status(status)) }
    }

    #[inline]
    pub(crate) unsafe fn commit() {
        // SAFETY: within a transaction, as the caller promises.
        unsafe { asm!("xend") };
    }

    #[inline]
    pub(crate) fn is_inside() -> bool {
        if !is_available() {
            return false;
        }
        let inside: u8;
        // SAFETY: the instruction is there, and only reads.
        unsafe { asm!("xtest", "setnz {}", out(reg_byte) inside, options(nomem, nostack)) };
        inside != 0
    }

    pub(crate) fn abort<const CODE: u8>() {
        if is_available() {
            // SAFETY: the instruction is there, and does nothing outside of a transaction.
            unsafe { asm!("xabort {}", const CODE) };
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod rtm {
    use super::Abort;

    pub(crate) const fn is_available() -> bool {
        false
    }

    pub(crate) const fn begin() -> Result<(), Abort> {
        Err(Abort::UNAVAILABLE)
    }

    pub(crate) const unsafe fn commit() {}

    pub(crate) const fn is_inside() -> bool {
        false
    }

    pub(crate) const fn abort<const CODE: u8>() {}
}

pub(super) use rtm::{abort, begin, commit, is_available, is_inside};
