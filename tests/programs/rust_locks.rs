//! Threads that wait for each other at a mutex and a reader-writer lock of Rust's, and at a mutex of the C library. They measure
//! their own waits: a line has a name, how often a thread waited, and for how many ns.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

static RUST_MUTEX: Mutex<()> = Mutex::new(());
static RUST_RWLOCK: RwLock<()> = RwLock::new(());

/// As large as glibc's, and aligned likewise. All zeros is `PTHREAD_MUTEX_INITIALIZER`.
#[repr(C)]
struct CMutex(UnsafeCell<[u64; 5]>);

// SAFETY: threads change it by the two functions below alone, which are for that.
unsafe impl Sync for CMutex {}

#[unsafe(no_mangle)]
static C_MUTEX: CMutex = CMutex(UnsafeCell::new([0; 5]));

// SAFETY: POSIX's declarations, with the type above in the place of its own.
unsafe extern "C" {
    fn pthread_mutex_lock(mutex: *mut [u64; 5]) -> i32;
    fn pthread_mutex_unlock(mutex: *mut [u64; 5]) -> i32;
}

const TURNS: usize = 30;
const INSIDE: Duration = Duration::from_millis(2);

/// What was waited: how often, and for how long.
struct Waited {
    count: AtomicU64,
    ns: AtomicU64,
}

impl Waited {
    const fn new() -> Self {
        Self { count: AtomicU64::new(0), ns: AtomicU64::new(0) }
    }

    /// Acquires, and counts a wait that cannot have been another thing.
    fn measure<T>(&self, acquire: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let acquired = acquire();
        let waited = begun.elapsed();
        if waited > INSIDE / 4 {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.ns.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
        }
        acquired
    }
}

static OF_MUTEX: Waited = Waited::new();
static OF_READERS: Waited = Waited::new();
static OF_C_MUTEX: Waited = Waited::new();

#[inline(never)]
fn take_rust_mutex() {
    let held = OF_MUTEX.measure(|| RUST_MUTEX.lock().unwrap());
    thread::sleep(INSIDE);
    drop(held);
    thread::sleep(INSIDE / 4); // the next one is in by then
}

#[inline(never)]
fn write_rust_rwlock() {
    let held = RUST_RWLOCK.write().unwrap();
    thread::sleep(INSIDE);
    drop(held);
    thread::sleep(INSIDE / 2);
}

#[inline(never)]
fn read_rust_rwlock() {
    drop(OF_READERS.measure(|| RUST_RWLOCK.read().unwrap()));
    thread::sleep(INSIDE / 2);
}

#[inline(never)]
fn take_c_mutex() {
    let mutex = C_MUTEX.0.get();
    // SAFETY: a mutex of glibc's that is never moved nor destroyed.
    OF_C_MUTEX.measure(|| assert_eq!(unsafe { pthread_mutex_lock(mutex) }, 0));
    thread::sleep(INSIDE);
    // SAFETY: as above, and this thread holds it.
    assert_eq!(unsafe { pthread_mutex_unlock(mutex) }, 0);
    thread::sleep(INSIDE / 4);
}

fn main() {
    thread::sleep(Duration::from_millis(300)); // the recorder has begun
    let loops: [fn(); 6] =
        [take_rust_mutex, take_rust_mutex, write_rust_rwlock, read_rust_rwlock, take_c_mutex, take_c_mutex];
    let threads = loops.map(|turn| thread::spawn(move || (0..TURNS).for_each(|_| turn())));
    for thread in threads {
        thread.join().unwrap();
    }
    for (name, waited) in
        [("take_rust_mutex", &OF_MUTEX), ("read_rust_rwlock", &OF_READERS), ("C_MUTEX", &OF_C_MUTEX)]
    {
        let (count, ns) = (waited.count.load(Ordering::Relaxed), waited.ns.load(Ordering::Relaxed));
        println!("{name} {count} {ns}");
    }
}
