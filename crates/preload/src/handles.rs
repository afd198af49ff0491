//! Lock functions that a program gets by other ways than its imports: by a library's handle, as foreign function interfaces
//! do, and in a plug-in that is loaded with `RTLD_DEEPBIND`. A lock that is ours here and glibc's there would be no lock.
//!
//! `dlsym` with a handle of glibc answers with our function, where glibc's would have been found. `dlopen` leaves
//! `RTLD_DEEPBIND` out, so that a plug-in is bound as others are: to what comes first in the process. Both go on to glibc by a
//! jump, since glibc looks at the address that they return to. `dlclose` has the recorder note what is unloaded.

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::exports::EXPORTED;
use crate::{real, recorder, unwind};

static DLOPEN: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static DLCLOSE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static DLSYM: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The version of all three since they are part of the C library itself.
const VERSION: &CStr = c"GLIBC_2.34";

/// Looks them up, so that no call has to.
pub(crate) fn look_up() {
    find_dlopen();
    find(&DLCLOSE, c"dlclose");
    find_dlsym();
}

extern "C" fn find_dlopen() -> *mut c_void {
    find(&DLOPEN, c"dlopen")
}

extern "C" fn find_dlsym() -> *mut c_void {
    find(&DLSYM, c"dlsym")
}

fn find(function: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = function.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: both end with a zero. This function is not one that stands here for glibc's.
    let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), VERSION.as_ptr()) };
    function.store(found, Ordering::Relaxed);
    found
}

/// `dlopen`, without the flag.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen() {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "and esi, {flags}",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        flags = const !libc::RTLD_DEEPBIND,
        find = sym find_dlopen,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "mov w9, {flag}",
        "bic w1, w1, w9",
        "stp x0, x1, [sp, #-32]!",
        "str x30, [sp, #16]",
        "bl {find}",
        "mov x16, x0",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "br x16",
        flag = const libc::RTLD_DEEPBIND,
        find = sym find_dlopen,
    );
}

/// `dlclose`.
///
/// # Safety
/// As glibc's.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dlclose(handle: *mut c_void) -> c_int {
    type Dlclose = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
    // SAFETY: glibc's function of this name; the argument is passed on.
    recorder::around_unloading(|| unsafe {
        transmute::<*mut c_void, Dlclose>(find(&DLCLOSE, c"dlclose"))(handle)
    })
}

/// `dlsym`. The two handles that are none, `RTLD_DEFAULT` and `RTLD_NEXT`, are glibc's matter: they mean what the caller sees.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym() {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "lea rax, [rdi + 1]",
        "cmp rax, 1",
        "jbe 2f",
        "jmp {by_handle}",
        "2:",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        by_handle = sym by_handle,
        find = sym find_dlsym,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "add x9, x0, #1",
        "cmp x9, #1",
        "b.ls 2f",
        "b {by_handle}",
        "2:",
        "stp x0, x1, [sp, #-32]!",
        "str x30, [sp, #16]",
        "bl {find}",
        "mov x16, x0",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "br x16",
        by_handle = sym by_handle,
        find = sym find_dlsym,
    );
}

/// The function of a library, or ours where that is the one behind ours. Another library that replaces the locks too,
/// behind this one, gets what it asks for.
unsafe extern "C" fn by_handle(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    // SAFETY: glibc's function of this name; the arguments are passed on, and the caller's name ends with a zero.
    unsafe {
        let dlsym = transmute::<*mut c_void, Dlsym>(find_dlsym());
        let found = dlsym(handle, name);
        if found.is_null() {
            return found;
        }
        let wanted = CStr::from_ptr(name).to_bytes();
        match EXPORTED.iter().find(|(exported, _)| exported.as_bytes() == wanted) {
            Some(&(_, ours)) if is_behind_ours(wanted, found, dlsym(libc::RTLD_NEXT, name)) => {
                ours as *mut c_void
            }
            _ => found,
        }
    }
}

/// Whether the function that a library's handle gives by a name is the one behind ours. `next` is what `RTLD_NEXT` gives by the name alone:
/// before glibc 2.36 that is, of a condition variable, the function of old, and by a handle the one of today (its bug 14932).
fn is_behind_ours(name: &[u8], found: *mut c_void, next: *mut c_void) -> bool {
    let library = |function: *mut c_void| unwind::module_of(function as usize).map(|module| module.start);
    found == next || real::is_at(name, found) && library(found) == library(next)
}

#[cfg(all(test, target_arch = "x86_64"))] // elsewhere a condition variable has had one version
mod tests {
    use super::{CStr, c_void, is_behind_ours};

    #[test]
    fn a_condition_function_is_behind_ours_whichever_version_comes_next() {
        let of_version = |version: &CStr| {
            // SAFETY: both end with a zero.
            unsafe { libc::dlvsym(libc::RTLD_NEXT, c"pthread_cond_wait".as_ptr(), version.as_ptr()) }
        };
        let (old, today) = (of_version(c"GLIBC_2.2.5"), of_version(c"GLIBC_2.3.2"));
        assert!(!old.is_null() && !today.is_null() && old != today);
        let is_behind = |found, next| is_behind_ours(b"pthread_cond_wait", found, next);
        assert!(is_behind(today, today) && is_behind(today, old));
        let of_another_library = is_behind_ours as *const () as *mut c_void;
        assert!(!is_behind(today, of_another_library) && !is_behind(old, today));
    }
}
