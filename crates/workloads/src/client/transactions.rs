//! Clients of the wound/wait mutex: transactions exclude each other, all come to their ends, and none is refused that need
//! not be.

use locks::{RawLock, Ww, WwClass, WwContext, WwError, WwMutex};
use machine::Ordering::{Acquire, Release};
use machine::{Deadline, Home, Machine, Placed, PlainCell, Plan, Timeout, Word};

/// The mutexes that there are.
const MUTEXES: usize = 3;

fn placed<T: Sync, M: Machine>(value: T) -> Placed<T, M> {
    Placed::new(value, Home::FirstTouch)
}

/// What a thread does.
#[derive(Clone, Copy)]
enum Does {
    /// Takes these in this order, in a transaction.
    Transaction(&'static [usize]),
    /// Takes these all at once.
    All([usize; 2]),
    /// Takes this one without a context.
    Alone(usize),
}
use Does::{All, Alone, Transaction};

const fn class<M: Machine>(wounds: bool) -> WwClass<M> {
    if wounds { WwClass::wound_wait() } else { WwClass::wait_die() }
}

/// Every thread counts in each mutex that it holds.
fn threads_do<M: Machine>(class: WwClass<M>, threads: &[&[Does]]) -> Result<(), String> {
    let class = placed::<_, M>(class);
    let mutexes =
        [(); MUTEXES].map(|()| placed::<_, M>(WwMutex::<M::Cell<u32>, M>::new(&class, PlainCell::ZERO)));
    let count = |cell: &M::Cell<u32>| cell.set(cell.get() + 1);
    M::run(&Plan::threads(threads.len()), &|thread| {
        for &does in threads[thread] {
            match does {
                Alone(mutex) => count(&mutexes[mutex].lock()),
                All(two) => {
                    let held = class.lock_all(two.map(|mutex| &*mutexes[mutex]));
                    held.iter().for_each(|held| count(held));
                }
                Transaction(order) => {
                    let mut calls = 0;
                    class.transaction(|transaction| {
                        calls += 1;
                        assert!(calls == 1 || transaction.stamp() != 1, "the oldest was refused");
                        let mut held = [const { None }; MUTEXES];
                        for (&mutex, guard) in order.iter().zip(&mut held) {
                            *guard = Some(transaction.lock(&mutexes[mutex])?);
                        }
                        held.iter().flatten().for_each(|held| count(held));
                        Ok(())
                    });
                }
            }
        }
    });
    let times = |mutex: usize| {
        let of = |does: &Does| match does {
            Transaction(order) => order.contains(&mutex),
            All(two) => two.contains(&mutex),
            Alone(one) => *one == mutex,
        };
        threads.iter().flat_map(|thread| thread.iter()).filter(|does| of(does)).count()
    };
    for (number, mutex) in mutexes.iter().enumerate() {
        let held = mutex.try_lock().ok_or("a mutex is held at the end")?;
        if held.get() as usize != times(number) {
            return Err(format!("{} instead of {} in mutex {number}", held.get(), times(number)));
        }
    }
    Ok(())
}

/// Two take two mutexes in opposite orders.
///
/// # Errors
/// What is wrong.
pub fn opposite<const WOUNDS: bool, M: Machine>() -> Result<(), String> {
    threads_do::<M>(class(WOUNDS), &[&[Transaction(&[0, 1])], &[Transaction(&[1, 0])]])
}

/// Two take two mutexes in the same order, and release the first one last: a thread that waits holds nothing, so that
/// neither is refused.
///
/// # Errors
/// What is wrong.
pub fn same_order<const WOUNDS: bool, M: Machine>() -> Result<(), String> {
    let class = placed::<WwClass<M>, M>(class(WOUNDS));
    let mutexes = [(); 2].map(|()| placed::<_, M>(Ww::<M>::NEW));
    M::run(&Plan::threads(2), &|_| {
        let context = WwContext::new(&class);
        for mutex in &mutexes {
            let acquired = mutex.acquire_in(&context, Timeout::NONE);
            assert_eq!(acquired, Ok(()), "refused, but nobody waits for what it holds");
        }
        // SAFETY: acquired above.
        mutexes.iter().rev().for_each(|mutex| unsafe { mutex.release() });
    });
    if mutexes.iter().all(|mutex| mutex.is_idle()) { Ok(()) } else { Err("something is left".to_owned()) }
}

/// An older one holds a mutex until a younger one, which holds another, has asked for it: by wait-die that one is refused at once.
///
/// # Errors
/// What is wrong.
pub fn younger_dies<M: Machine>() -> Result<(), String> {
    let class = placed::<WwClass<M>, M>(WwClass::wait_die());
    let mutexes = [(); 2].map(|()| placed::<_, M>(Ww::<M>::NEW));
    let (held, refused) = (placed::<M::U32, M>(Word::ZERO), placed::<M::U32, M>(Word::ZERO));
    M::run(&Plan::threads(2), &|thread| {
        if thread == 1 {
            M::spin_until(&*held, Acquire, |held| held != 0);
        }
        let context = WwContext::new(&class);
        mutexes[thread].acquire_in(&context, Timeout::NONE).expect("it holds nothing");
        if thread == 0 {
            held.store(1, Release);
            M::spin_until(&*refused, Acquire, |refused| refused != 0);
        } else {
            let acquired = mutexes[0].acquire_in(&context, Timeout::NONE);
            assert_eq!(acquired, Err(WwError::Deadlock), "an older one holds it");
            refused.store(1, Release);
        }
        // SAFETY: acquired above.
        unsafe { mutexes[thread].release() };
    });
    if mutexes.iter().all(|mutex| mutex.is_idle()) { Ok(()) } else { Err("something is left".to_owned()) }
}

/// The same, and one of them once more.
///
/// # Errors
/// What is wrong.
pub fn again<const WOUNDS: bool, M: Machine>() -> Result<(), String> {
    threads_do::<M>(class(WOUNDS), &[&[Transaction(&[0, 1]), Transaction(&[1])], &[Transaction(&[1, 0])]])
}

/// The same, by sets.
///
/// # Errors
/// What is wrong.
pub fn all_at_once<const WOUNDS: bool, M: Machine>() -> Result<(), String> {
    threads_do::<M>(class(WOUNDS), &[&[All([0, 1])], &[All([1, 0])]])
}

/// One in a transaction, one without.
///
/// # Errors
/// What is wrong.
pub fn one_alone<const WOUNDS: bool, M: Machine>() -> Result<(), String> {
    threads_do::<M>(class(WOUNDS), &[&[Transaction(&[0, 1])], &[Alone(1), Alone(0)]])
}

/// An older one comes when a younger one waits already: it goes in front.
///
/// # Errors
/// What is wrong.
pub fn one_goes_in_front<const WOUNDS: bool, M: Machine>() -> Result<(), String> {
    threads_do::<M>(class(WOUNDS), &[&[Transaction(&[0])], &[Transaction(&[0, 1])], &[Transaction(&[1, 0])]])
}

/// Three in a ring.
///
/// # Errors
/// What is wrong.
pub fn ring<const WOUNDS: bool, M: Machine>() -> Result<(), String> {
    let orders: [&[Does]; 3] = [&[Transaction(&[0, 1])], &[Transaction(&[1, 2])], &[Transaction(&[2, 0])]];
    threads_do::<M>(class(WOUNDS), &orders)
}

/// Two in transactions, and one without among the waiters.
///
/// # Errors
/// What is wrong.
pub fn two_and_one_alone<const WOUNDS: bool, M: Machine>() -> Result<(), String> {
    threads_do::<M>(class(WOUNDS), &[&[Transaction(&[0, 1])], &[Transaction(&[1, 0])], &[Alone(0)]])
}

/// The second mutex is perhaps given up; a refusal that comes at the same time is another answer.
///
/// # Errors
/// What is wrong.
pub fn one_gives_up<const WOUNDS: bool, M: Machine>() -> Result<(), String> {
    let class = placed::<WwClass<M>, M>(class(WOUNDS));
    let mutexes = [(); 2].map(|()| placed::<_, M>(Ww::<M>::NEW));
    let value = placed::<M::Cell<u32>, M>(PlainCell::ZERO);
    M::run(&Plan::threads(2), &|thread| {
        let context = WwContext::new(&class);
        let (first, second) = (&mutexes[thread], &mutexes[1 - thread]);
        first.acquire_in(&context, Timeout::NONE).expect("it holds nothing");
        let soon = Timeout::at(Deadline::after_ns::<M>(1_000));
        match second.acquire_in(&context, soon) {
            Ok(()) => {
                value.set(value.get() + 1);
                // SAFETY: acquired above.
                unsafe { second.release() };
            }
            Err(error) => assert!(error != WwError::AlreadyHeld),
        }
        // SAFETY: acquired above.
        unsafe { first.release() };
    });
    let is_idle = mutexes.iter().all(|mutex| mutex.is_idle());
    if is_idle { Ok(()) } else { Err("something is left".to_owned()) }
}
