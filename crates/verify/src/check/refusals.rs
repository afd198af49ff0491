//! Clients of the wound/wait mutex that only checking needs: what refusals, tries and timeouts leave of a context.

use checker::Checked;
use locks::{RawLock, Ww, WwClass, WwContext, WwError, WwMutex};
use machine::Ordering::{Acquire, Release};
use machine::{Deadline, Home, Machine, Placed, PlainCell, Plan, Timeout, Word};

type U32 = <Checked as Machine>::U32;
type Cell = <Checked as Machine>::Cell<u32>;
type Context<'c> = WwContext<'c, Checked>;

fn placed<T: Sync>(value: T) -> Placed<T, Checked> {
    Placed::new(value, Home::FirstTouch)
}

fn mutexes<const N: usize>() -> [Placed<Ww<Checked>, Checked>; N] {
    [(); N].map(|()| placed(Ww::NEW))
}

fn are_idle(mutexes: &[Placed<Ww<Checked>, Checked>]) -> Result<(), String> {
    if mutexes.iter().all(|mutex| mutex.is_idle()) { Ok(()) } else { Err("something is left".to_owned()) }
}

/// A younger context is refused what an older one holds. While it holds anything a try gets it nothing, not even what is free; then it
/// does, and the context counts it.
pub(super) fn refused_then_tries() -> Result<(), String> {
    let (class, mutexes) = (placed(WwClass::<Checked>::wait_die()), mutexes::<3>());
    let (held, refused) = (placed(U32::ZERO), placed(U32::ZERO));
    Checked::run(&Plan::threads(2), &|thread| {
        if thread == 1 {
            Checked::spin_until(&*held, Acquire, |held| held != 0);
        }
        let context = Context::new(&class);
        mutexes[thread].acquire_in(&context, Timeout::NONE).expect("it holds nothing");
        if thread == 0 {
            held.store(1, Release);
            Checked::spin_until(&*refused, Acquire, |refused| refused != 0);
        } else {
            let acquired = mutexes[0].acquire_in(&context, Timeout::NONE);
            assert_eq!(acquired, Err(WwError::Deadlock), "an older one holds it");
            assert!(!mutexes[2].try_acquire_in(&context), "a context that was refused gets a lock");
            refused.store(1, Release);
        }
        // SAFETY: acquired above.
        unsafe { mutexes[thread].release() };
        if thread == 1 {
            assert!(mutexes[2].try_acquire_in(&context), "it holds nothing, and the lock is free");
            assert_eq!(context.held(), 1);
            // SAFETY: acquired above.
            unsafe { mutexes[2].release() };
        }
    });
    are_idle(&mutexes)
}

/// A context that has timed out was not refused: what is free it gets.
pub(super) fn times_out_and_goes_on() -> Result<(), String> {
    let (class, mutexes) = (placed(WwClass::<Checked>::wound_wait()), mutexes::<3>());
    let (held, timed_out) = (placed(U32::ZERO), placed(U32::ZERO));
    Checked::run(&Plan::threads(2), &|thread| {
        if thread == 1 {
            mutexes[1].acquire();
            held.store(1, Release);
            Checked::spin_until(&*timed_out, Acquire, |timed_out| timed_out != 0);
            // SAFETY: acquired above.
            unsafe { mutexes[1].release() };
            return;
        }
        let context = Context::new(&class);
        let soon = Timeout::at(Deadline::after_ns::<Checked>(1_000));
        mutexes[0].acquire_in(&context, Timeout::NONE).expect("it holds nothing");
        Checked::spin_until(&*held, Acquire, |held| held != 0);
        assert_eq!(mutexes[1].acquire_in(&context, soon), Err(WwError::TimedOut));
        assert_eq!(mutexes[2].acquire_in(&context, soon), Ok(()), "it is free, and the context not refused");
        timed_out.store(1, Release);
        // SAFETY: acquired above.
        unsafe { mutexes[2].release() };
        // SAFETY: acquired above.
        unsafe { mutexes[0].release() };
    });
    are_idle(&mutexes)
}

/// One waits while it holds nothing, perhaps as the oldest; another one takes two in one order, the second of which is held until a
/// third thread releases it. No thread waits for what a waiter holds, so that none is refused.
pub(super) fn one_holds_nothing() -> Result<(), String> {
    let (class, mutexes) = (placed(WwClass::<Checked>::wound_wait()), mutexes::<2>());
    mutexes[1].acquire();
    Checked::run(&Plan::threads(3), &|thread| {
        if thread == 2 {
            // SAFETY: acquired above, without a context.
            return unsafe { mutexes[1].release() };
        }
        let context = Context::new(&class);
        for mutex in &mutexes[..=thread] {
            let acquired = mutex.acquire_in(&context, Timeout::NONE);
            assert_eq!(acquired, Ok(()), "refused, and the one that waits for it holds nothing");
        }
        // SAFETY: acquired above.
        mutexes[..=thread].iter().rev().for_each(|mutex| unsafe { mutex.release() });
    });
    are_idle(&mutexes)
}

/// Two take two mutexes in opposite orders; the one that is refused goes without them.
pub(super) fn refused_goes_without() -> Result<(), String> {
    let class = placed(WwClass::<Checked>::wait_die());
    let mutexes = [(); 2].map(|()| placed(WwMutex::<Cell, Checked>::new(&class, PlainCell::ZERO)));
    Checked::run(&Plan::threads(2), &|thread| {
        let (first, second) = (&*mutexes[thread], &*mutexes[1 - thread]);
        let mut calls = 0;
        class.transaction(|transaction| {
            calls += 1;
            let has_one = transaction.has(first) || transaction.has(second);
            assert!(!has_one, "a transaction that has just begun has a guard");
            if calls > 1 {
                return Ok(());
            }
            let held = [transaction.lock(first)?, transaction.lock(second)?];
            held.iter().for_each(|held| held.set(held.get() + 1));
            Ok(())
        });
    });
    let mut counts = [0; 2];
    for (mutex, count) in mutexes.iter().zip(&mut counts) {
        *count = mutex.try_lock().ok_or("a mutex is held at the end")?.get();
    }
    match counts {
        [1, 1] | [2, 2] => Ok(()),
        [one, other] => Err(format!("{one} and {other} transactions took a mutex each")),
    }
}
