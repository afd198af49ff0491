//! Semaphores with one unit, used as locks.

use std::cell::UnsafeCell;
use std::io::Error;

use workloads::exclusion::Exclusion;

/// A POSIX semaphore of this process.
pub(crate) struct Posix(UnsafeCell<libc::sem_t>);

// SAFETY: only the C library's functions touch it, and they are made for threads.
unsafe impl Send for Posix {}
// SAFETY: only the C library's functions touch it, and they are made for threads.
unsafe impl Sync for Posix {}

impl Exclusion for Posix {
    fn new() -> Self {
        // SAFETY: all-zero is memory of the right size, which sem_init then makes a semaphore; glibc's holds no address of
        // itself, so it may be moved until it is used.
        let semaphore = unsafe {
            let mut semaphore: libc::sem_t = std::mem::zeroed();
            assert_eq!(libc::sem_init(&raw mut semaphore, 0, 1), 0, "sem_init: {}", Error::last_os_error());
            semaphore
        };
        Self(UnsafeCell::new(semaphore))
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: initialised. A signal may end the wait early.
        while unsafe { libc::sem_wait(self.0.get()) } != 0 {}
        let result = section();
        // SAFETY: initialised.
        unsafe { libc::sem_post(self.0.get()) };
        result
    }
}

/// A System V semaphore, which costs a system call each way.
pub(crate) struct SystemV(libc::c_int);

impl SystemV {
    fn change(&self, by: libc::c_short) {
        let mut operation = libc::sembuf { sem_num: 0, sem_op: by, sem_flg: 0 };
        // SAFETY: one operation, as said. A signal may end the wait early.
        while unsafe { libc::semop(self.0, &raw mut operation, 1) } != 0 {
            let error = Error::last_os_error();
            assert_eq!(error.raw_os_error(), Some(libc::EINTR), "semop failed: {error}");
        }
    }
}

impl Exclusion for SystemV {
    fn new() -> Self {
        // SAFETY: no pointers.
        let id = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) };
        assert!(id >= 0, "semget: {}; `ipcs -s` shows what is left over", Error::last_os_error());
        let semaphore = Self(id);
        semaphore.change(1);
        semaphore
    }

    #[inline]
    fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
        self.change(-1);
        let result = section();
        self.change(1);
        result
    }
}

impl Drop for SystemV {
    fn drop(&mut self) {
        // SAFETY: no pointers; the semaphore is ours alone.
        unsafe { libc::semctl(self.0, 0, libc::IPC_RMID) };
    }
}
