//! Two functions at one mutex: one holds it for 5 ms at a time, the other one for no time at all, and waits behind the first. Prints for
//! how many ns the second one waited in all.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

static TABLE: Mutex<u64> = Mutex::new(0);
static ENDED: AtomicBool = AtomicBool::new(false);

const TURNS: usize = 40;
const INSIDE: Duration = Duration::from_millis(5);

#[inline(never)]
fn slow_rebalance() {
    let mut held = TABLE.lock().unwrap();
    thread::sleep(INSIDE);
    *held += 1;
    drop(held);
    thread::sleep(INSIDE / 5); // the other one is in by then
}

#[inline(never)]
fn quick_lookup() -> u64 {
    *TABLE.lock().unwrap()
}

fn main() {
    thread::sleep(Duration::from_millis(300)); // the recorder has begun
    let lookups = thread::spawn(|| {
        let mut waited = Duration::ZERO;
        while !ENDED.load(Ordering::Relaxed) {
            let begun = Instant::now();
            quick_lookup();
            // Less was no wait for the mutex.
            waited += Some(begun.elapsed()).filter(|&waited| waited > INSIDE / 5).unwrap_or_default();
            thread::sleep(INSIDE / 50);
        }
        waited
    });
    (0..TURNS).for_each(|_| slow_rebalance());
    ENDED.store(true, Ordering::Relaxed);
    println!("{}", lookups.join().unwrap().as_nanos());
}
