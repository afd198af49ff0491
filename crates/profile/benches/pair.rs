//! What recording adds to a pair of acquisition and release, with and without times.
//!
//! Prints nanoseconds; the smallest of several rounds. The core number costs nothing here: in a program it is read
//! from memory that the kernel keeps for the thread. With the argument `timeline` the longest waits are kept, of which there are none.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use contend_profile::arena::{Grow, write_header};
use contend_profile::clock::ticks;
use contend_profile::format::{FRAMES, Header, ProcessValues};
use contend_profile::record::{Call, Host, Image, LONGEST_WAITS, Mode, PerThread, Recorder, Trace};
use pthread::object::ObjectKind;

struct Bare;

impl Grow for Bare {
    fn grow(&self, _start: u64, end: u64) -> Result<u64, i32> {
        Ok(end)
    }
}

impl Host for Bare {
    fn stamp() -> u64 {
        ticks()
    }
    fn core() -> u32 {
        0
    }
    fn monotonic_ns(&self) -> u64 {
        0
    }
    fn zeroed(&self, bytes: usize) -> *mut u8 {
        Box::leak(vec![Page([0; 4096]); bytes.div_ceil(4096)].into_boxed_slice()).as_mut_ptr().cast()
    }
    unsafe fn free(&self, _start: *mut u8, _bytes: usize) {}
    fn stack(&self, _frames: &mut [u64; FRAMES]) -> usize {
        0
    }
    fn tid(&self) -> u32 {
        1
    }
    fn running_ns(&self) -> u64 {
        0
    }
    fn stayed_on_core() -> bool {
        true
    }
    fn watch_core(&self) -> bool {
        true
    }
    fn stop_watching(&self) {}
    fn switches(&self) -> [u64; 2] {
        [0; 2]
    }
    fn is_first(&self, _tid: u32) -> bool {
        false
    }
    fn name(&self, _tid: u32) -> [u8; 16] {
        [0; 16]
    }
    fn schedule(&self, _tid: u32) -> Option<(u64, u64)> {
        None
    }
    fn gone(&self, _tid: u32) -> bool {
        false
    }

    fn with_signals_blocked<R>(&self, body: impl FnOnce() -> R) -> R {
        body()
    }
}

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

fn main() {
    const LIMIT: usize = 1 << 20;
    const PAIRS: u32 = 100_000;
    let waits = if std::env::args().any(|argument| argument == "timeline") { LONGEST_WAITS } else { 0 };
    for period in [1, 16, 64, 1 << 30] {
        let base = Bare.zeroed(LIMIT);
        // SAFETY: page-aligned zeros, longer than a header, never freed.
        let header = unsafe { &*base.cast::<Header>() };
        write_header(header, LIMIT as u64, period, 0, 0, 0);
        header.longest_waits.store(waits as u64, Relaxed);
        let recorder = Recorder::new(Bare);
        let image = Image { process: ProcessValues::default(), arguments: b"", executable: b"" };
        // SAFETY: as long as its limit, and it stays.
        assert!(unsafe { recorder.start(base, LIMIT as u64, 4096, &image) });
        let (t, trace) = (PerThread::new(), Trace::new());
        let round = || {
            let start = Instant::now();
            for _ in 0..PAIRS {
                let call = Call::new(1, 1);
                recorder.acquired(&t, &trace, ObjectKind::Mutex, Mode::Exclusive, call, None);
                recorder.releasing(&t, &trace, Mode::Exclusive);
            }
            start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
        };
        let best = (0..20).map(|_| round()).fold(f64::INFINITY, f64::min);
        println!("times on one pair in {period:>10}: {best:5.1} ns a pair");
    }
}
