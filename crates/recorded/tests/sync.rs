//! The locks of `sync` are those of `std::sync`, for who uses them.

use contend_recorded::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, TryLockError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

static COUNTER: Mutex<u64> = Mutex::new(0);

/// Panics while it has what `acquire` gives.
fn poison<G>(acquire: impl FnOnce() -> G) {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _guard = acquire();
        std::panic::resume_unwind(Box::new("while it is held"));
    }));
    assert!(caught.is_err());
}

#[test]
fn threads_exclude_each_other() {
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| *COUNTER.lock().unwrap() += 1));
        }
    });
    assert_eq!(*COUNTER.lock().unwrap(), 2000);
}

#[test]
fn a_panic_poisons_a_mutex_and_a_writer() {
    let (mutex, rwlock) = (Mutex::new(1), RwLock::new(1));
    poison(|| mutex.lock());
    poison(|| rwlock.write());
    assert!(mutex.is_poisoned() && rwlock.is_poisoned());
    assert_eq!(*mutex.lock().unwrap_err().into_inner(), 1);
    assert!(matches!(mutex.try_lock(), Err(TryLockError::Poisoned(guard)) if **guard.get_ref() == 1));
    assert!(rwlock.read().is_err() && rwlock.try_write().is_err());
    mutex.clear_poison();
    rwlock.clear_poison();
    assert!(mutex.lock().is_ok() && rwlock.write().is_ok());
    poison(|| rwlock.read());
    assert!(!rwlock.is_poisoned(), "a reader changes nothing");
    assert_eq!((mutex.into_inner().unwrap(), rwlock.into_inner().unwrap()), (1, 1));
}

#[test]
fn what_is_held_cannot_be_had() {
    let (mutex, mut rwlock) = (Mutex::new(String::new()), RwLock::from(5));
    let guard = mutex.lock().unwrap();
    assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
    drop(guard);
    mutex.try_lock().unwrap().push('x');
    let readers = (rwlock.read().unwrap(), rwlock.try_read().unwrap());
    assert!(rwlock.try_write().is_err() && *readers.0 + *readers.1 == 10);
    drop(readers);
    *rwlock.try_write().unwrap() += 1;
    assert_eq!((*rwlock.get_mut().unwrap(), format!("{:?}", mutex.lock().unwrap())), (6, "\"x\"".into()));
}

#[test]
fn what_has_no_size_and_what_is_shared_fit_in() {
    let slice: Arc<Mutex<[u32]>> = Arc::new(Mutex::new([1, 2, 3]));
    slice.lock().unwrap()[1] = 7;
    assert_eq!(slice.lock().unwrap().iter().sum::<u32>(), 11);
    let shared: Box<RwLock<dyn Fn() -> u32 + Send + Sync>> = Box::new(RwLock::new(|| 9));
    assert_eq!(shared.read().unwrap()(), 9);
    fn is_sync<T: Sync>(_: &T) {}
    is_sync(&shared);
    is_sync(&Mutex::<u32>::default().lock().unwrap());
}

#[test]
fn a_condition_is_waited_for_in_every_way() {
    let pair = (Mutex::new(0), Condvar::new());
    let raise = |to: u32| {
        *pair.0.lock().unwrap() = to;
        pair.1.notify_all();
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = pair.1.wait_while(pair.0.lock().unwrap(), |value| *value == 0).unwrap();
            assert_eq!(*guard, 1);
            drop(guard);
            raise(2);
        });
        raise(1);
        let mut guard: MutexGuard<'_, u32> = pair.0.lock().unwrap();
        while *guard != 2 {
            guard = pair.1.wait(guard).unwrap();
        }
    });
    let soon = Duration::from_millis(2);
    let (guard, result) =
        pair.1.wait_timeout_while(pair.0.lock().unwrap(), soon, |value| *value == 2).unwrap();
    assert!(result.timed_out() && *guard == 2);
    let (guard, result) = pair.1.wait_timeout_while(guard, soon, |value| *value == 0).unwrap();
    assert!(!result.timed_out());
    let (_guard, result) = pair.1.wait_timeout(guard, soon).unwrap();
    assert!(result.timed_out(), "nobody notifies");
}

/// Types are given and values shown as with `std`'s.
#[test]
fn conditions_have_the_types_and_the_looks_of_std() {
    let shown = |ours: &dyn std::fmt::Debug, std: &dyn std::fmt::Debug| {
        assert_eq!(format!("{ours:?} {ours:#?}"), format!("{std:?} {std:#?}"));
    };
    let (changed, mutex) = (Condvar::new(), Mutex::new(3));
    shown(&changed, &std::sync::Condvar::new());
    shown(&mutex, &std::sync::Mutex::new(3));
    shown(&RwLock::new("a"), &std::sync::RwLock::new("a"));
    let is_zero: fn(&mut i32) -> bool = |value| *value == 0;
    let guard = changed.wait_while::<i32, fn(&mut i32) -> bool>(mutex.lock().unwrap(), is_zero).unwrap();
    let soon = Duration::from_millis(1);
    let wait = Condvar::wait_timeout_while::<i32, fn(&mut i32) -> bool>;
    let (guard, result) = wait(&changed, guard, soon, is_zero).unwrap();
    assert!(*guard == 3 && !result.timed_out());
}

/// A thread that panics while another one waits poisons what that one takes back.
#[test]
fn a_condition_wait_tells_of_poison() {
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let waiter = {
        let pair = Arc::clone(&pair);
        thread::spawn(move || pair.1.wait_while(pair.0.lock().unwrap(), |is_set| !*is_set).is_err())
    };
    poison(|| {
        let mut guard = pair.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *guard = true;
        pair.1.notify_all();
        guard
    });
    // Where the waiter came later it has found the mutex poisoned at once, and panicked.
    assert!(waiter.join().unwrap_or(true));
}
