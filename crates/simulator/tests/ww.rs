//! Wound/wait mutexes on the simulated machine.

mod common;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use common::{Cell, M, hardware};
use contend_simulator::Simulation;
use locks::{WwClass, WwMutex};
use machine::random::Random;
use machine::{Home, Machine, Placed, PlainCell, Plan};

const EACH: usize = 3;
const CORES: usize = 8;
const TRANSACTIONS: usize = 60;

/// Cores count in three mutexes at a time, out of so many, in either direction. Gives how often their transactions were refused, and the
/// time in nanoseconds.
fn refused<const MUTEXES: usize>(class: fn() -> WwClass<M>) -> (u64, u64) {
    let refused = AtomicU64::new(0);
    let run = Simulation::new(&hardware()).run(|| {
        let class = Placed::<_, M>::new(class(), Home::Node(0));
        let mutex = || Placed::<_, M>::new(WwMutex::<Cell, M>::new(&class, Cell::ZERO), Home::Node(0));
        let mutexes: [Placed<WwMutex<Cell, M>, M>; MUTEXES] = std::array::from_fn(|_| mutex());
        let run = M::run(&Plan::threads(CORES), &|core| {
            let mut random = Random::new(core as u64);
            for _ in 0..TRANSACTIONS {
                let first = random.next() as usize;
                let step = if random.next().is_multiple_of(2) { 1 } else { MUTEXES - 1 };
                let place = |place: usize| (first % MUTEXES + place * step) % MUTEXES;
                let wanted: [&WwMutex<Cell, M>; EACH] = std::array::from_fn(|at| &*mutexes[place(at)]);
                let mut calls = 0;
                class.transaction(|taken| {
                    calls += 1;
                    let mut held = [const { None }; EACH];
                    for (guard, mutex) in held.iter_mut().zip(wanted) {
                        *guard = Some(taken.lock(mutex)?);
                        M::delay(100);
                    }
                    held.iter().flatten().for_each(|held| held.set(held.get() + 1));
                    Ok(())
                });
                refused.fetch_add(calls - 1, Relaxed);
            }
        });
        let counted: u64 = mutexes.iter().map(|mutex| mutex.lock().get()).sum();
        assert_eq!(counted, (CORES * TRANSACTIONS * EACH) as u64);
        run
    });
    let (run, _) = run.unwrap_or_else(|stopped| panic!("{stopped}"));
    (refused.into_inner(), run.elapsed_ns)
}

/// What `docs/locks.md` says.
#[test]
fn wound_wait_refuses_fewer_where_few_compete_and_wait_die_where_many_do() {
    let of = |class| [refused::<6>(class), refused::<12>(class), refused::<24>(class), refused::<48>(class)];
    let [wait_die, wound_wait] = [of(WwClass::wait_die), of(WwClass::wound_wait)];
    println!("refused of {}, and ns, by 6, 12, 24 and 48 mutexes:", CORES * TRANSACTIONS);
    println!("wait-die {wait_die:?}, wound-wait {wound_wait:?}");
    assert!(0 < wait_die[0].0 && wait_die[0].0 < wound_wait[0].0);
    assert!(0 < wound_wait[3].0 && wound_wait[3].0 < wait_die[3].0);
}

#[test]
fn runs_repeat() {
    assert_eq!(refused::<6>(WwClass::wound_wait), refused::<6>(WwClass::wound_wait));
}
