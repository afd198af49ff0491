//! Every workload with a few locks, on hardware.

use contend_workloads::{Load, WORKLOADS, catalogue};
use machine::Patient;

#[test]
fn every_workload_runs_on_hardware() {
    let mut counted = 0;
    for workload in WORKLOADS {
        for lock in ["ticket", "mcs", "futex"] {
            let load =
                Load { threads: 3, duration_ns: 2_000_000, think_cycles: Some(500), ..Load::default() };
            let run = catalogue::run::<Patient>(workload, lock, &load).unwrap();
            assert_eq!(run.counts.len(), 3);
            // On a busy computer a thread may come after the time is over, so a single run may count nothing.
            counted += run.operations();
            assert!(run.acquisitions() == 0 || workload.uses_lock(), "{} with {lock}", workload.name);
        }
    }
    assert!(counted > 0);
}

#[test]
fn there_is_no_lock_of_an_unknown_name() {
    assert!(catalogue::run::<Patient>(&WORKLOADS[0], "no such lock", &Load::default()).is_none());
}
