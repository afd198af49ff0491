//! The section of a machine file that only the simulator reads: what was measured, and what had to be assumed.

use super::{Calibration, time};
use report::Spread;
use topology::Source;
use topology::machine_file::{Coherence, Figure, FigureUnit};

/// Shares of a line transfer within a die, and times, where nothing tells better; as the simulator has them.
const READ_SHARE: f64 = 0.5;
const SERIAL_SHARE: f64 = 0.1;
const HOME_OCCUPANCY_NS: f64 = 2.0;

/// Linux's `base_slice_ns` since 6.6 for one core; a time slice is that for each doubling of up to eight cores.
const BASE_SLICE_NS: f64 = 700_000.0;

fn time_slice_ns(cores: u32) -> f64 {
    BASE_SLICE_NS * f64::from(1 + cores.clamp(1, 8).ilog2())
}

fn exactly(value: f64) -> Spread {
    Spread { low: value, median: value, high: value }
}

/// What the kernel's clock ticks at: its coarse clocks change then.
fn tick_ns() -> f64 {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    tick.tv_sec as f64 * 1e9 + tick.tv_nsec as f64
}

impl Calibration {
    /// The section, complete: every cost that the simulator takes but those that follow from the transfers between
    /// dies and sockets. Protocol and switches are the defaults; no timing tells them.
    pub(super) fn coherence(&self, cores: u32) -> Coherence {
        let transfer = self.nearest_transfer();
        let nanoseconds =
            |spread: Spread, what: &str| Some(self.figure(spread, FigureUnit::Nanoseconds, what));
        Coherence {
            hit: nanoseconds(self.cached_load_ns, "a load in the own cache"),
            atomic: nanoseconds(self.local_atomic_ns, "an atomic addition in the own cache"),
            pause: nanoseconds(self.pause_ns, "a spin-loop hint"),
            local_transfer: transfer.and_then(|spread| nanoseconds(spread, "the nearest line transfer")),
            local_read: transfer.map(|spread| {
                assumed(READ_SHARE * spread.median, "half of a transfer; it was not timed here")
            }),
            serial_read: self.serial_read(transfer),
            invalidate: transfer
                .and_then(|spread| nanoseconds(spread, "the nearest line transfer, as local_transfer")),
            home_occupancy: Some(assumed(
                HOME_OCCUPANCY_NS,
                "it shows where one node serves many lines only",
            )),
            memory: nanoseconds(self.memory_ns, "a walk through memory larger than most caches"),
            time_slice: Some(assumed(
                time_slice_ns(cores),
                "Linux since 6.6: 0.7 ms for each doubling of up to eight cores",
            )),
            tick: nanoseconds(exactly(tick_ns()), "the resolution of CLOCK_MONOTONIC_COARSE"),
            context_switch: nanoseconds(self.context_switch_ns, "a context switch by futex on one core"),
            system_call: nanoseconds(self.system_call_ns, "a futex call that wakes no thread"),
            wake_call: nanoseconds(
                self.longer_than_a_system_call(self.wake_call_ns),
                "a futex call that wakes a sleeper on another core, less one that wakes no thread",
            ),
            ..Coherence::default()
        }
    }

    fn longer_than_a_system_call(&self, call: Spread) -> Spread {
        /// Where a system call takes as long as all of it, as under some sandboxes: a machine file takes no 0.
        const LEAST_NS: f64 = 1.0;
        let less = |ns: f64| (ns - self.system_call_ns.median).max(LEAST_NS);
        Spread { low: less(call.low), median: less(call.median), high: less(call.high) }
    }

    /// How much later each more waiter of a die makes a hand-over: its read is served before.
    fn serial_read(&self, transfer: Option<Spread>) -> Option<Figure> {
        let times: Vec<_> = self.contended_ns.iter().map(|(cores, time)| (*cores, time.median)).collect();
        let Some(cost) = time::waiter_cost_ns(&times) else {
            return transfer.map(|spread| {
                assumed(
                    SERIAL_SHARE * spread.median,
                    "a tenth of a transfer; what a second waiter adds was not seen",
                )
            });
        };
        Some(self.figure(
            exactly(cost / 2.0),
            FigureUnit::Nanoseconds,
            "slope of a ticket lock's acquisitions with the cores",
        ))
    }
}

fn assumed(nanoseconds: f64, why: &str) -> Figure {
    Figure {
        value: super::rounded(nanoseconds),
        low: None,
        high: None,
        unit: FigureUnit::Nanoseconds,
        source: Source::assumed(why),
    }
}
