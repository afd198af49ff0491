//! The locks need no standard library, and allocate nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;
use std::process::Command;

use contend_locks as locks;

use locks::catalogue::{LOCKS, Lock, Visitor, visit};
use locks::{RawLock, TryLock};
use machine::{Home, Machine, Patient, Placed, Plan};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator, counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Threads that contend for more locks at once than their pools have nodes.
fn allocates_nothing<L: RawLock<Patient>>(name: &str) {
    let all = [(); 7].map(|()| Placed::<L, Patient>::new(L::NEW, Home::FirstTouch));
    Patient::run(&Plan::threads(4), &|_| {
        let before = ALLOCATIONS.get();
        for _ in 0..20 {
            all.iter().for_each(|lock| lock.acquire());
            // SAFETY: acquired above.
            all.iter().for_each(|lock| unsafe { lock.release() });
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "{name} allocates");
    });
}

struct AllocatesNothing;

impl Visitor<Patient> for AllocatesNothing {
    type Output = ();
    fn tried<L: TryLock<Patient>>(self, lock: &Lock) {
        allocates_nothing::<L>(lock.name);
    }
}

#[test]
fn no_lock_allocates() {
    for lock in LOCKS {
        visit::<Patient, _>(lock.name, AllocatesNothing).expect("the catalogue names it");
    }
}

/// Checks the library with these features alone, in a directory of its own.
fn compiles_with(features: &str) {
    let output = Command::new(env!("CARGO"))
        .args(["check", "--lib", "--no-default-features", "--features", features, "--locked", "--quiet"])
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("no_std"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs, since it runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Without its `std` feature the crate and the machine under it say `no_std`, so that any use of the standard library
/// fails to compile.
#[test]
fn the_locks_compile_without_the_standard_library() {
    compiles_with("");
    compiles_with("arc_lock,owning_ref,serde");
}

/// With the table of holders guards are of another type, so that the feature has a build of its own.
#[test]
fn deadlocks_are_found() {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--features", "deadlock_detection", "--locked", "--quiet"])
        .args(["--lib", "--test", "deadlocks"])
        .arg("--target-dir")
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("deadlocks"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs, since it runs this test");
    let printed = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&printed));
}
