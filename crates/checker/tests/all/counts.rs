//! The numbers of an exploration are the same in every process: nothing of the host's memory gets into a state.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use contend_checker::{Checked, Exploration, Model, Search, explore};
use workloads::client::{self, ClientKind, Shape};

/// An allocator that leaves other numbers on the stack of its caller each time. Its addresses are the system's: a client's own
/// allocations lie where they lay in the run before, as frames of its threads hold their addresses.
struct Untidy;

static NUMBER: AtomicU64 = AtomicU64::new(1);

impl Untidy {
    #[inline(never)]
    fn leave_numbers() {
        let number = NUMBER.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let stack = [number; 96];
        std::hint::black_box(&stack);
    }
}

// SAFETY: the system's allocator, asked for what it is asked for here.
unsafe impl GlobalAlloc for Untidy {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::leave_numbers();
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        Self::leave_numbers();
        // SAFETY: the caller's.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static UNTIDY: Untidy = Untidy;

/// Tells a child process what it is.
const CHILD: &str = "CONTEND_TEST_COUNTS";

/// Explorations from state to state whose threads leave much on their stacks.
fn counts() -> String {
    let explorations = [
        ("futex", ClientKind::Exclusive, Shape { threads: 2, acquisitions: 2 }, Model::Sc),
        ("rw", ClientKind::Timed, Shape { threads: 2, acquisitions: 2 }, Model::Sc),
        ("mcs", ClientKind::Exclusive, Shape { threads: 3, acquisitions: 2 }, Model::Pso),
        ("osq", ClientKind::Cancelled, Shape { threads: 2, acquisitions: 2 }, Model::Ra),
    ];
    let count = |(lock, kind, shape, model)| {
        let alike = if kind == ClientKind::Exclusive { u32::MAX } else { 0 };
        let most_states = Some(8_000);
        let exploration =
            Exploration { search: Search::States, alike, most_states, ..Exploration::of(model) };
        let report = explore(&exploration, &|| {
            let run = client::run::<Checked>(lock, kind, shape).expect("the lock has such a client");
            run.map(drop).map_err(|wrong| wrong.to_string())
        });
        format!("{lock}: {:?} {:?}", report.counts, report.bound)
    };
    explorations.map(count).join("; ")
}

/// Leaves numbers on the stack and holes in the heap, others each time.
#[inline(never)]
fn litter(seed: u64) {
    let stack = [seed | 1; 4096];
    let heap =
        (0..200).map(|number| vec![seed; (seed as usize * 37 + number * 13) % 700]).collect::<Vec<_>>();
    let kept = heap.into_iter().step_by(2 + seed as usize % 3).collect::<Vec<_>>();
    std::hint::black_box(&stack);
    std::mem::forget(kept);
}

#[test]
fn counts_are_the_same_in_every_process_and_whatever_memory_holds() {
    if let Ok(seed) = std::env::var(CHILD) {
        litter(seed.len() as u64);
        println!("counts: {}", counts());
        return;
    }
    let first = counts();
    assert!(!first.contains("states: 0 "), "{first}");
    litter(7);
    assert_eq!(counts(), first, "again in this process");
    let deep = std::thread::Builder::new().stack_size(64 << 20).spawn(|| {
        litter(11);
        counts()
    });
    assert_eq!(deep.expect("a thread").join().expect("its counts"), first, "on another stack");
    for bytes in [1, 1_111, 77_777] {
        let mut child = Command::new(std::env::current_exe().expect("this test"));
        child.args([
            "--exact",
            "counts::counts_are_the_same_in_every_process_and_whatever_memory_holds",
            "--nocapture",
        ]);
        let output = child.env(CHILD, "x".repeat(bytes)).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let printed =
            text.lines().find_map(|line| line.split_once("counts: ").map(|(_, counts)| counts.to_owned()));
        assert_eq!(printed.as_deref(), Some(&*first), "in another process: {text}");
    }
}
