//! Programs of which nothing is known but that programs are like this: what forecasts are tried on where the truth can be simulated.

use super::blueprint::{Blueprint, Held, Hot, Sections};
use super::durations::{Durations, even};
use profile::{LockKind, ObjectKind};
use topology::Range;
use workloads::Random;

impl Blueprint {
    /// A random program, on a machine where a line takes so long to move: one to three locks of one or of eight copies, mutexes or reader-writer
    /// locks, with sections of 50 ns to 5 µs that are in use for a hundredth to two thirds of one thread's time.
    pub(crate) fn random(random: &mut Random, transfer_ns: f64) -> Self {
        let number = 1 + pick(random, &[0, 0, 0, 1, 1, 2]);
        let mut locks: Vec<Hot> = (0..number).map(|place| lock(random, place, transfer_ns)).collect();
        if let [first, second, ..] = &mut locks[..] {
            // Now and then the second is acquired in the sections of the first.
            if even(random) < 0.3 && second.mean_same_ns() < 0.5 * first.mean_same_ns() {
                (second.nested, second.visits) = (Some(Sections::Any), 1.0);
            }
        }
        let held_ns: f64 = locks.iter().map(|hot| hot.visits * hot.mean_same_ns()).sum();
        let share = between(random, 0.01, 0.65);
        let think_ns = Range::exact(held_ns / share - held_ns);
        Self {
            locks,
            think_ns,
            think: spread(random),
            profiled_transfer_ns: Range::exact(transfer_ns),
            times_off: 1.0,
            batch: 1.0,
            cpu_ns: None,
            asked: None,
            together: 1.0,
            outweighed_by: None,
            doubts: Vec::new(),
        }
    }
}

fn lock(random: &mut Random, place: usize, transfer_ns: f64) -> Hot {
    let shares = even(random) < 0.3;
    let kind = if shares { ObjectKind::Rwlock } else { ObjectKind::Mutex };
    let lines = pick(random, &[0.0, 1.0, 1.0, 2.0, 4.0]);
    let mut held = || Held {
        same_ns: Range::exact(between(random, 50.0, 5_000.0)),
        growth_ns: Range::exact(lines * transfer_ns),
        spread: spread(random),
    };
    let (exclusive, shared) = (held(), held());
    Hot {
        name: format!("lock {}", place + 1),
        kind: LockKind::Object(kind),
        visits: if place == 0 { 1.0 } else { pick(random, &[0.25, 0.5, 1.0, 2.0]) },
        reads: if shares { pick(random, &[0.5, 0.9, 0.99]) } else { 0.0 },
        exclusive,
        shared,
        waits: None,
        copies: pick(random, &[1, 1, 1, 1, 8]),
        apart: false,
        nested: None,
    }
}

fn spread(random: &mut Random) -> Durations {
    pick(random, &[Durations::Fixed, Durations::Exponential])
}

fn pick<T: Clone>(random: &mut Random, among: &[T]) -> T {
    among[random.below(among.len() as u64) as usize].clone()
}

/// Evenly on a logarithmic scale.
fn between(random: &mut Random, low: f64, high: f64) -> f64 {
    low * (high / low).powf(even(random))
}
