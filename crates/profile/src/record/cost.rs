//! What recording costs on this machine.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::table::{Entry, Table};
use pthread::object::ObjectKind;

use super::{Call, Host, Mode, PerThread, Recorder, Trace, key_of};
use crate::format::{Histograms, NOTED, Pair, QUANTITIES, UNIT};
use crate::histogram::BUCKETS;

/// What takes longer was interrupted: another thread had its core, or a signal handler ran, which costs the program nothing more than it
/// would without recording. A record takes a tenth of it.
const LONGEST_NS: u64 = 50_000;

impl<H: Host> Recorder<H> {
    /// Measures what recording costs here: for each of the four `cost_*` words of [`Process`](crate::format::Process), in their order.
    ///
    /// Runs a few thousand pairs on records that are not in the file.
    ///
    /// To be called before other threads record.
    pub fn measure(&self) -> [u64; 4] {
        self.arena.everywhere(|| self.measure_here())
    }

    /// Counts what was done since then, which is no work of the program's, without most of what interrupted it.
    #[inline(never)]
    pub(super) fn count_own_cost(&self, started: u64) {
        if let Some(process) = self.process() {
            let ticks = H::stamp().saturating_sub(started);
            process.records_ticks.fetch_add(ticks.min(self.rate.ticks(LONGEST_NS)), Relaxed);
        }
    }

    fn measure_here(&self) -> [u64; 4] {
        const PAIRS: u64 = 256;
        let period = self.period.load(Relaxed);
        let bench = Bench::new();
        let bench = &bench;
        // Positions are relative to the mapping, modulo 2^64; so these histograms have one too.
        let histograms = (&raw const bench.histograms).addr().wrapping_sub(self.arena.base().addr());
        let t = PerThread::new();
        let key = key_of(1, Mode::Exclusive);
        let table =
            [Entry { key: 0, pair: &raw const bench.pair }, Entry { key, pair: &raw const bench.pair }];
        // SAFETY: two lines, not used otherwise; nothing is put or removed.
        t.use_table(&unsafe { Table::over(table.as_ptr().cast_mut(), table.len()) });
        t.number.set(1);
        t.random.set(1);
        let run = |period: u32| {
            self.period.store(period, Relaxed);
            bench.pair.histograms.store(histograms as u64 / UNIT, Relaxed);
            let mut best = [u64::MAX; 3];
            for _ in 0..8 {
                bench.pair.hold_same_ticks.store(0, Relaxed);
                bench.pair.hold_other_ticks.store(0, Relaxed);
                bench.pair.think_ticks.store(0, Relaxed);
                t.skip.set(u32::MAX);
                let start = H::stamp();
                for _ in 0..PAIRS {
                    let call = Call::new(0, 1);
                    self.acquired(&t, &bench.trace, ObjectKind::Mutex, Mode::Exclusive, call, None);
                    self.releasing(&t, &bench.trace, Mode::Exclusive);
                }
                let pair = bench.pair.values();
                let sums = [
                    H::stamp().saturating_sub(start),
                    pair.hold_same_ticks + pair.hold_other_ticks,
                    pair.think_ticks,
                ];
                best = core::array::from_fn(|i| best[i].min(sums[i]));
            }
            best.map(|ticks| ticks * 1024 / PAIRS)
        };
        bench.trace.place.store(1, Relaxed);
        let [untimed, ..] = run(u32::MAX);
        let [timed, in_hold, in_think] = run(1);
        self.period.store(period, Relaxed);
        [timed, untimed, in_hold, in_think]
    }
}

/// Records for [`Recorder::measure`], aligned like those in the file.
#[repr(C, align(64))]
struct Bench {
    histograms: Histograms,
    pair: Pair,
    trace: Trace,
}

impl Bench {
    const fn new() -> Self {
        Self {
            histograms: Histograms {
                head: AtomicU64::new(0),
                pair: AtomicU64::new(0),
                noted: AtomicU64::new(0),
                within: AtomicU64::new(0),
                within_count: AtomicU64::new(0),
                within_votes: AtomicU64::new(0),
                reserved: [const { AtomicU64::new(0) }; 2],
                notes: [const { AtomicU64::new(0) }; NOTED],
                buckets: [const { [const { AtomicU64::new(0) }; BUCKETS] }; QUANTITIES],
            },
            pair: Pair::zeroed(),
            trace: Trace::new(),
        }
    }
}
