//! What the host has to do with a simulation: its addresses nothing, its memory little.

mod common;

use common::{M, count, hardware};
use contend_simulator::{Hardware, Simulation};
use std::alloc::{GlobalAlloc, Layout, System};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, or one that only ever goes forward, if the environment says so.
struct Either;

#[global_allocator]
static ALLOCATOR: Either = Either;

const FORWARD: &std::ffi::CStr = c"CONTEND_TEST_FORWARD";
const BYTES: usize = 256 << 20;
static START: AtomicUsize = AtomicUsize::new(0);
static USED: AtomicUsize = AtomicUsize::new(0);

fn forward() -> bool {
    // SAFETY: a string that ends with a zero; no thread changes the environment of these tests' processes.
    unsafe { !libc::getenv(FORWARD.as_ptr()).is_null() }
}

// SAFETY: either the system's, or pieces of a mapping that are never given out twice.
unsafe impl GlobalAlloc for Either {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !forward() {
            // SAFETY: the caller's.
            return unsafe { System.alloc(layout) };
        }
        if START.load(Ordering::Acquire) == 0 {
            let (access, kind) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            );
            // SAFETY: a fresh mapping.
            let memory = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, access, kind, -1, 0) };
            // Who comes second leaves his mapping unused.
            let _ = START.compare_exchange(0, memory as usize, Ordering::AcqRel, Ordering::Relaxed);
        }
        let space = layout.size() + layout.align() + 40;
        let offset = USED.fetch_add(space, Ordering::Relaxed);
        if offset + space > BYTES {
            return std::ptr::null_mut();
        }
        (START.load(Ordering::Acquire) + offset).next_multiple_of(layout.align()) as *mut u8
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !forward() {
            // SAFETY: the caller's.
            unsafe { System.dealloc(memory, layout) };
        }
    }
}

/// Prints what runs give, for the test below. A lock that hashes its address is among them.
#[test]
fn print_runs() {
    let (runs, report) = Simulation::new(&hardware())
        .run(|| {
            let first = count::<locks::Ticket<M>>(8, 200, 200);
            let second = count::<locks::TicketSelfTuning<M>>(8, 200, 200);
            (first, second, count::<locks::Clh<M>>(8, 200, 200))
        })
        .unwrap();
    println!("runs: {runs:?} {report:?}");
}

#[test]
fn another_allocator_and_addresses_of_another_layout_give_the_same() {
    let output = |forward: bool, random_addresses: bool| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "print_runs", "--nocapture", "--test-threads=1"]);
        if forward {
            command.env(FORWARD.to_str().unwrap(), "1");
        }
        if !random_addresses {
            // SAFETY: one call that a child may make.
            unsafe {
                command.pre_exec(|| {
                    libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                    Ok(())
                })
            };
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let start = text.find("runs: ").unwrap_or_else(|| panic!("{text}"));
        text[start..].lines().next().unwrap().to_owned()
    };
    let first = output(false, true);
    assert!(first.contains("elapsed_ns"));
    assert_eq!(first, output(true, true));
    assert_eq!(first, output(false, false));
    assert_eq!(first, output(true, false));
}

/// The most memory that this process has had so far, in bytes.
fn peak() -> usize {
    // SAFETY: a structure of integers, which the call fills.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    usage.ru_maxrss as usize * 1024
}

fn sixteen_times_sixty_four() -> Hardware {
    let text = common::TWO_SOCKETS
        .replace("sockets = 2", "sockets = 16")
        .replace("cores_per_die = 4", "cores_per_die = 64");
    Hardware::new(&topology::MachineFile::parse(&text).unwrap()).unwrap()
}

/// Prints what a thousand cores need, for the test below: a process of its own, since peaks do not go down.
#[test]
fn print_peak() {
    let large = sixteen_times_sixty_four();
    let before = peak();
    let acquisitions = Simulation::new(&large)
        .run(|| {
            let ticket = count::<locks::Ticket<M>>(1024, 2, 10_000).acquisitions();
            ticket + count::<locks::Mcs<M>>(1024, 20, 10_000).acquisitions()
        })
        .unwrap()
        .0;
    assert_eq!(acquisitions, 1024 * 22);
    println!("needed: {}", peak() - before);
}

#[test]
fn a_simulated_core_needs_less_than_64_kib() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "print_peak", "--nocapture", "--test-threads=1"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let needed = text
        .split("needed: ")
        .nth(1)
        .and_then(|rest| rest.lines().next())
        .unwrap_or_else(|| panic!("{text}"));
    let per_core = needed.parse::<usize>().unwrap() / 1024;
    assert!((100..64 << 10).contains(&per_core), "{per_core} bytes a core");
}
