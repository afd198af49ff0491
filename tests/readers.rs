//! Readers share a lock, but not the line of its word: the model's reader-writer lock beside the simulated ones.

use locks::{RawRwLock, Rw, RwNaive};
use machine::{Event, Home, Machine, Placed, Plan};
use model::{Handover, LockModel, Service, Variant};
use simulator::{Hardware, Simulated, Simulation};

type M = Simulated;

/// Cycles of two to the nanosecond.
const MACHINE: &str = r#"
    name = "one-die"
    description = "16 cores alike"
    frequency = { value = 2.0, unit = "GHz", source = "assumed" }
    [topology]
    sockets = 1
    cores_per_die = 16
    source = "assumed"
    [transfer]
    same_l3 = { value = 40, unit = "ns", source = "assumed" }
    same_socket = { value = 40, unit = "ns", source = "assumed" }
    [handover]
    waiter = { value = 0.35, unit = "transfers", source = "assumed" }
    wake = { value = 5000, unit = "ns", source = "assumed" }
    back_off_delay = { value = 1000, unit = "ns", source = "assumed" }
    [coherence]
    protocol = "MESI"
"#;

const SECTION_CYCLES: u64 = 100;
const THINK_CYCLES: u64 = 1000;
const ROUNDS: u64 = 300;

/// Readings in a nanosecond of so many cores that only read.
fn simulated<L: RawRwLock<M> + 'static>(cores: usize) -> f64 {
    let machine = topology::MachineFile::parse(MACHINE).expect("a machine file");
    let hardware = Hardware::new(&machine).expect("a machine that can be simulated");
    let body = || {
        let lock = Placed::<L, M>::new(L::NEW, Home::Node(0));
        let name = std::ptr::from_ref(&*lock) as usize;
        M::run(&Plan::threads(cores), &|thread| {
            M::delay(thread as u64 * 61);
            for round in 0..ROUNDS {
                M::note(Event::Acquiring { lock: name });
                lock.acquire_shared(false);
                M::note(Event::Acquired { lock: name, shared: true });
                M::delay(SECTION_CYCLES);
                M::note(Event::Releasing { lock: name, shared: true });
                // SAFETY: acquired above.
                unsafe { lock.release_shared() };
                M::note(Event::Operation);
                M::delay(THINK_CYCLES + (thread as u64 * 7 + round * 13) % 40);
            }
        })
    };
    let (run, _) = Simulation::new(&hardware).run(body).expect("readers stop no simulation");
    run.operations() as f64 / run.elapsed_ns as f64
}

/// The same by the model, from the simulated lock's time on one core.
fn modelled(one_core: f64, cores: u32) -> f64 {
    let machine = topology::MachineFile::parse(MACHINE).expect("a machine file");
    let transfer = machine.costs().transfer_ns(cores).likely;
    let think = THINK_CYCLES as f64 / 2.0 + 10.0;
    let same = 1.0 / one_core - think;
    let lock = LockModel {
        think,
        service: Service { same, other: same + transfer },
        handover: Handover::Blocking { wake: machine.costs().wake_ns().likely, barging: true },
        readers: Some(model::Readers { share: 1.0, word: 2.0 * transfer }),
        variant: Variant::default(),
    };
    lock.at(cores).expect("a model").throughput
}

#[test]
fn readers_alone_saturate_the_words_line_in_the_model_as_in_the_simulator() {
    for (name, simulated) in
        [("rw-naive", simulated::<RwNaive<M>> as fn(usize) -> f64), ("rw", simulated::<Rw<M>>)]
    {
        let one = simulated(1);
        let pairs = [2, 4, 8, 16].map(|cores| (simulated(cores as usize), modelled(one, cores)));
        let shown = format!("{name}: one core {one}, simulated and modelled {pairs:?}");
        for (simulated, modelled) in pairs {
            assert!((0.75..1.35).contains(&(modelled / simulated)), "{shown}");
        }
        let [_, _, eight, sixteen] = pairs;
        assert!(sixteen.0 < 1.5 * eight.0, "the simulated lock saturates: {shown}");
        assert!(sixteen.1 < 1.5 * eight.1, "the model's lock saturates: {shown}");
        assert!(sixteen.0 < 12.0 * one && sixteen.1 < 12.0 * one, "sixteen readers are not free: {shown}");
    }
}
