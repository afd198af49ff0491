//! A small machine, and a lock at work on it.
#![allow(dead_code)] // each test file uses its part

use contend_simulator::{Hardware, Simulated};
use locks::RawLock;
use machine::{Event, Home, Machine, Placed, PlainCell, Plan, Run};
use topology::machine_file::Coherence;

pub(crate) type M = Simulated;
pub(crate) type Cell = <M as Machine>::Cell<u64>;

pub(crate) const TWO_SOCKETS: &str = r#"
    name = "two"
    description = "2 x 4 cores"
    frequency = { value = 2.0, unit = "GHz", source = "assumed" }
    [topology]
    sockets = 2
    cores_per_die = 4
    source = "assumed"
    [transfer]
    same_l3 = { value = 40, unit = "ns", source = "assumed" }
    cross_socket = { value = 120, unit = "ns", source = "assumed" }
    [handover]
    waiter = { value = 0.5, unit = "transfers", source = "assumed" }
    wake = { value = 5000, unit = "ns", source = "assumed" }
    back_off_delay = { value = 1000, unit = "ns", source = "assumed" }
    [coherence]
    protocol = "MESI"
"#;

pub(crate) fn hardware_with(from: &str, to: &str) -> Hardware {
    assert!(TWO_SOCKETS.contains(from));
    Hardware::new(&topology::MachineFile::parse(&TWO_SOCKETS.replace(from, to)).unwrap()).unwrap()
}

pub(crate) fn hardware() -> Hardware {
    hardware_with("MESI", "MESI")
}

/// A carried machine, with a change of its coherence section.
pub(crate) fn machine(name: &str, change: impl FnOnce(&mut Coherence)) -> Hardware {
    let mut file = topology::carried::machine(name);
    change(file.coherence.as_mut().unwrap());
    Hardware::new(&file).unwrap()
}

/// With time slices that end while a test runs.
pub(crate) fn with_slices() -> Hardware {
    hardware_with(
        "protocol = \"MESI\"",
        "protocol = \"MESI\"\ntime_slice = { value = 20000, unit = \"ns\", source = \"assumed\" }",
    )
}

struct Counted<L> {
    lock: L,
    count: Cell,
}

/// Each thread adds to a counter under the lock, with some think time.
pub(crate) fn count<L: RawLock<M>>(threads: usize, acquisitions: u64, think: u64) -> Run {
    let shared = Placed::<_, M>::new(Counted { lock: L::NEW, count: Cell::ZERO }, Home::Node(0));
    let lock = std::ptr::from_ref(&shared.lock) as usize;
    let run = M::run(&Plan::threads(threads), &|thread| {
        for round in 0..acquisitions {
            M::note(Event::Acquiring { lock });
            shared.lock.acquire();
            M::note(Event::Acquired { lock, shared: false });
            shared.count.set(shared.count.get() + 1);
            M::note(Event::Releasing { lock, shared: false });
            // SAFETY: acquired above.
            unsafe { shared.lock.release() };
            M::note(Event::Operation);
            M::delay(think + (thread as u64 * 7 + round * 13) % 40);
        }
    });
    assert_eq!(shared.count.get(), threads as u64 * acquisitions);
    run
}
