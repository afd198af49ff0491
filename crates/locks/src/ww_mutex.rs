//! Values behind wound/wait mutexes, and transactions that take several of them in any order.
//!
//! A transaction is a closure. A mutex that it cannot have without a deadlock refuses it with a [`WwDeadlock`], which the closure
//! gives back, without its guards: they do not outlive the call. Then the transaction waits for that mutex and calls the
//! closure again.
//!
//! Source: see [`ww`](crate::ww); a transaction is what Linux's users of `ww_mutex_lock_slow` write by hand.

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use machine::{Machine, Patient, Timeout};

use crate::ww::{Ww, WwClass, WwContext, WwError};
use crate::{Deadline, RawLock, TimedLock, TryLock};

/// A value behind a wound/wait mutex of a class.
///
/// Threads that take several of them need no order among them: they take them in a [transaction](WwClass::transaction), or
/// [all at once](WwClass::lock_all). One alone is taken as any mutex.
///
/// ```
/// use contend_locks::prelude::*;
///
/// static ACCOUNTS: WwClass = WwClass::wound_wait();
/// static SAVINGS: WwMutex<i64> = WwMutex::new(&ACCOUNTS, 100);
/// static WALLET: WwMutex<i64> = WwMutex::new(&ACCOUNTS, 20);
///
/// fn transfer(from: &WwMutex<i64>, to: &WwMutex<i64>, amount: i64) -> bool {
///     ACCOUNTS.transaction(|accounts| {
///         let mut from = accounts.lock(from)?;
///         let mut to = accounts.lock(to)?;
///         let covered = *from >= amount;
///         if covered {
///             *from -= amount;
///             *to += amount;
///         }
///         Ok(covered)
///     })
/// }
///
/// std::thread::scope(|scope| {
///     scope.spawn(|| transfer(&SAVINGS, &WALLET, 70)); // in one order
///     scope.spawn(|| transfer(&WALLET, &SAVINGS, 10)); // and in the other
/// });
/// let [savings, wallet] = ACCOUNTS.lock_all([&SAVINGS, &WALLET]);
/// assert_eq!((*savings, *wallet), (40, 80));
/// ```
pub struct WwMutex<T: ?Sized, M: Machine = Patient> {
    raw: Ww<M>,
    /// To be compared, not to be followed.
    class: *const WwClass<M>,
    value: UnsafeCell<T>,
}

// SAFETY: it owns the value; the class is an address.
unsafe impl<T: ?Sized + Send, M: Machine> Send for WwMutex<T, M> {}
// SAFETY: one thread at a time has the value.
unsafe impl<T: ?Sized + Send, M: Machine> Sync for WwMutex<T, M> {}

impl<T, M: Machine> WwMutex<T, M> {
    /// A free mutex of the class, which stays where it is as long as transactions use the mutex.
    #[must_use]
    pub const fn new(class: &WwClass<M>, value: T) -> Self {
        Self { raw: Ww::NEW, class: core::ptr::from_ref(class), value: UnsafeCell::new(value) }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized, M: Machine> WwMutex<T, M> {
    /// The value, to which there is no other reference, since the mutex is borrowed mutably.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Waits for the mutex alone, without a transaction. A thread that holds others takes part in a deadlock as with any mutex.
    ///
    /// The closure of a [transaction](WwClass::transaction) does not call this: the transaction may hold the mutex already, without a
    /// guard, and the thread would wait for itself for ever.
    pub fn lock(&self) -> WwMutexGuard<'_, T, M> {
        self.raw.acquire();
        WwMutexGuard::of(self)
    }

    /// [`lock`](Self::lock), if that needs no waiting.
    pub fn try_lock(&self) -> Option<WwMutexGuard<'_, T, M>> {
        self.raw.try_acquire().then(|| WwMutexGuard::of(self))
    }

    /// [`lock`](Self::lock), until the deadline at most.
    pub fn try_lock_until(&self, deadline: Deadline) -> Option<WwMutexGuard<'_, T, M>> {
        self.raw.acquire_or(Timeout::at(deadline)).ok().map(|()| WwMutexGuard::of(self))
    }

    fn assert_is_of(&self, class: &WwClass<M>) {
        assert!(
            core::ptr::eq(self.class, class),
            "a mutex of one class is taken in a transaction of another, in which its waiters have no order"
        );
    }
}

impl<T: ?Sized, M: Machine> fmt::Debug for WwMutex<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WwMutex").finish_non_exhaustive()
    }
}

/// The value of a [`WwMutex`], which is released when this is dropped. It stays with its thread.
#[must_use = "the mutex is released at once when its guard is not kept"]
pub struct WwMutexGuard<'a, T: ?Sized, M: Machine = Patient> {
    mutex: &'a WwMutex<T, M>,
    /// The context of the mutex is its thread's.
    thread: PhantomData<*const ()>,
}

// SAFETY: it gives out &T only where it is shared.
unsafe impl<T: ?Sized + Sync, M: Machine> Sync for WwMutexGuard<'_, T, M> {}

impl<'a, T: ?Sized, M: Machine> WwMutexGuard<'a, T, M> {
    /// The guard of a mutex that the calling thread has just acquired.
    fn of(mutex: &'a WwMutex<T, M>) -> Self {
        Self { mutex, thread: PhantomData }
    }
}

impl<T: ?Sized, M: Machine> Deref for WwMutexGuard<'_, T, M> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mutex is held.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized, M: Machine> DerefMut for WwMutexGuard<'_, T, M> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the mutex is held, by this guard alone.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized, M: Machine> Drop for WwMutexGuard<'_, T, M> {
    fn drop(&mut self) {
        // SAFETY: acquired for this guard, on this thread.
        unsafe { self.mutex.raw.release() };
    }
}

impl<T: ?Sized + fmt::Debug, M: Machine> fmt::Debug for WwMutexGuard<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A transaction has to give way: its closure gives this back, by `?`, and is called again. While the transaction has a guard it
/// gets no further mutex.
#[derive(Debug)]
#[must_use = "the closure of the transaction gives it back, so that the transaction gives way"]
pub struct WwDeadlock {
    /// The address of the transaction, to be compared.
    transaction: usize,
}

impl fmt::Display for WwDeadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the transaction has to give way to an older one")
    }
}

impl core::error::Error for WwDeadlock {}

/// What the closure of [`WwClass::transaction`] takes mutexes by, which are there for longer than the transaction.
pub struct WwTransaction<'l, M: Machine = Patient> {
    context: WwContext<'l, M>,
    /// The mutex that it did not get.
    contended: Cell<Option<&'l Ww<M>>>,
    /// The same, once it has waited for it: held, without a guard.
    reserved: Cell<Option<&'l Ww<M>>>,
}

impl<M: Machine> WwClass<M> {
    /// Runs the closure, which takes mutexes of the class in any order, until it is not refused. Gives what it gives.
    ///
    /// A closure that is refused is called again from its start, with all of its guards gone: it changes nothing before it has
    /// its last mutex, or can do what it has done once more. Of two transactions the younger one is refused, and each becomes
    /// the oldest some day: they all come to their ends.
    ///
    /// ```
    /// use contend_locks::prelude::*;
    ///
    /// let class = WwClass::wait_die();
    /// let parts: Vec<_> = (0..4).map(|number| WwMutex::new(&class, number)).collect();
    /// let sum = class.transaction(|taken| {
    ///     // As many as there are, or as one leads to the next.
    ///     let parts = parts.iter().map(|part| taken.lock(part)).collect::<Result<Vec<_>, _>>()?;
    ///     Ok(parts.iter().map(|part| **part).sum::<u32>())
    /// });
    /// assert_eq!(sum, 6);
    /// ```
    ///
    /// A failure of another kind is part of what the closure gives: `Ok(Err(failure))`.
    ///
    /// # Deadlocks
    /// A transaction is refused because of what it holds itself; of other guards of its thread it knows nothing. So a thread that
    /// begins one while it has a guard of an earlier transaction, of [`lock_all`](Self::lock_all) or of [`WwMutex::lock`] takes part in
    /// a deadlock as with any mutex. The same goes for a transaction inside of another one's closure.
    ///
    /// A closure that is called again finds the mutex that it did not get held by the transaction, without a guard, until it takes it
    /// or ends. It takes it by the transaction: [`WwMutex::lock`] would wait for ever, since the thread waits for itself.
    ///
    /// # Panics
    /// When the closure does, after its guards are gone. When it gives back the refusal of another transaction, such as the one that it
    /// is nested in, which this one cannot end by giving way. When it was refused and has a guard forgotten, whose mutex no
    /// thread would ever release.
    pub fn transaction<'l, R>(
        &'l self,
        mut closure: impl FnMut(&WwTransaction<'l, M>) -> Result<R, WwDeadlock>,
    ) -> R {
        let mut transaction = WwTransaction {
            context: WwContext::new(self),
            contended: Cell::new(None),
            reserved: Cell::new(None),
        };
        loop {
            match closure(&transaction) {
                Ok(result) => return result,
                Err(refusal) => transaction.give_way(&refusal),
            }
        }
    }

    /// Acquires all of these mutexes of the class. Gives their guards, in the order in which the mutexes are given.
    ///
    /// The thread has no guard of another mutex of the class meanwhile, or it takes part in a deadlock as with any mutex, see
    /// [`transaction`](Self::transaction).
    ///
    /// # Panics
    /// When a mutex is there twice, or is of another class.
    pub fn lock_all<'a, T: ?Sized, const N: usize>(
        &self,
        mutexes: [&'a WwMutex<T, M>; N],
    ) -> [WwMutexGuard<'a, T, M>; N] {
        mutexes.iter().for_each(|mutex| mutex.assert_is_of(self));
        let acquired = WwContext::new(self).acquire_all(&mutexes.map(|mutex| &mutex.raw));
        acquired.unwrap_or_else(|_| already_held());
        mutexes.map(WwMutexGuard::of)
    }
}

#[cold]
fn already_held() -> ! {
    panic!("a transaction takes a mutex once")
}

impl<'l, M: Machine> WwTransaction<'l, M> {
    /// Waits for the mutex, until the end of the closure at most.
    ///
    /// # Errors
    /// [`WwDeadlock`] when an older transaction waits for this one, or would: the closure gives it back.
    ///
    /// # Panics
    /// When the transaction has a guard of the mutex, see [`has`](Self::has), or the mutex is of another class.
    pub fn lock<'t, T: ?Sized>(
        &'t self,
        mutex: &'l WwMutex<T, M>,
    ) -> Result<WwMutexGuard<'t, T, M>, WwDeadlock> {
        mutex.assert_is_of(self.context.class());
        if self.takes_over(mutex) {
            return Ok(WwMutexGuard::of(mutex));
        }
        match mutex.raw.acquire_in(&self.context, Timeout::NONE) {
            Ok(()) => Ok(WwMutexGuard::of(mutex)),
            Err(WwError::AlreadyHeld) => already_held(),
            Err(WwError::Deadlock | WwError::TimedOut) => {
                let first = self.contended.get().unwrap_or(&mutex.raw);
                self.contended.set(Some(first));
                Err(self.refusal())
            }
        }
    }

    /// [`lock`](Self::lock), if that needs no waiting.
    ///
    /// For a closure that does without the mutex then. One that has guards and repeats this until it succeeds never learns that it has
    /// to give way, and may keep an older transaction waiting for ever: [`lock`](Self::lock) is for that.
    ///
    /// # Panics
    /// When the mutex is of another class.
    pub fn try_lock<'t, T: ?Sized>(&'t self, mutex: &'l WwMutex<T, M>) -> Option<WwMutexGuard<'t, T, M>> {
        mutex.assert_is_of(self.context.class());
        let taken = self.takes_over(mutex) || mutex.raw.try_acquire_in(&self.context);
        taken.then(|| WwMutexGuard::of(mutex))
    }

    /// Whether the transaction has a guard of the mutex.
    #[must_use]
    pub fn has<T: ?Sized>(&self, mutex: &WwMutex<T, M>) -> bool {
        mutex.raw.is_held_in(&self.context) && !self.is_reserved(mutex)
    }

    /// Its age: older transactions of the class have smaller ones, and it stays the same however often the closure is called.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.context.stamp()
    }

    fn is_reserved<T: ?Sized>(&self, mutex: &WwMutex<T, M>) -> bool {
        self.reserved.get().is_some_and(|reserved| core::ptr::eq(reserved, &raw const mutex.raw))
    }

    /// Makes a guard's of what is reserved.
    fn takes_over<T: ?Sized>(&self, mutex: &WwMutex<T, M>) -> bool {
        let is_reserved = self.is_reserved(mutex);
        if is_reserved {
            self.reserved.set(None);
        }
        is_reserved
    }

    /// Comparable while the transaction runs, since it stays where it is.
    fn refusal(&self) -> WwDeadlock {
        WwDeadlock { transaction: core::ptr::from_ref(self).addr() }
    }

    fn release_reserved(&self) {
        if let Some(reserved) = self.reserved.take() {
            // SAFETY: acquired by `give_way`, and no guard has it.
            unsafe { reserved.release() };
        }
    }

    /// Waits for the mutex that it did not get. All guards are gone, since they borrow the transaction.
    fn give_way(&mut self, refusal: &WwDeadlock) {
        self.release_reserved();
        assert_eq!(self.context.held(), 0, "a guard of the transaction was forgotten");
        let contended = self.contended.take().filter(|_| refusal.transaction == self.refusal().transaction);
        let contended = contended.expect(
            "the closure of a transaction gives back a refusal of another one, or of an earlier call",
        );
        let waited = contended.acquire_in(&self.context, Timeout::NONE);
        waited.expect("whoever holds nothing is not refused");
        self.reserved.set(Some(contended));
    }
}

impl<M: Machine> Drop for WwTransaction<'_, M> {
    fn drop(&mut self) {
        self.release_reserved();
    }
}

impl<M: Machine> fmt::Debug for WwTransaction<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WwTransaction").field("stamp", &self.stamp()).finish_non_exhaustive()
    }
}
