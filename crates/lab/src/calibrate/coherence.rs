//! The section of a machine file that only the simulator reads: what was measured, and what had to be assumed.

use super::{Calibration, time};
use report::Spread;
use topology::Source;
use topology::machine_file::{Coherence, Figure, FigureUnit};

/// Shares of a line transfer within a die, and times, where nothing tells better; as the simulator has them.
const READ_SHARE: f64 = 0.5;
const SERIAL_SHARE: f64 = 0.1;
const HOME_OCCUPANCY_NS: f64 = 2.0;
const TIME_SLICE_NS: f64 = 3_000_000.0;

impl Calibration {
    /// The section, complete: every cost that the simulator takes but those that follow from the transfers between
    /// dies and sockets. Protocol and switches are the defaults; no timing tells them.
    pub(super) fn coherence(&self) -> Coherence {
        let transfer = self.nearest_transfer();
        let nanoseconds =
            |spread: Spread, what: &str| Some(self.figure(spread, FigureUnit::Nanoseconds, what));
        Coherence {
            hit: nanoseconds(self.cached_load_ns, "a load in the own cache"),
            atomic: nanoseconds(self.local_atomic_ns, "an atomic addition in the own cache"),
            pause: nanoseconds(self.pause_ns, "a spin-loop hint"),
            local_transfer: transfer.and_then(|spread| nanoseconds(spread, "the nearest line transfer")),
            local_read: transfer.map(|spread| {
                assumed(READ_SHARE * spread.median, "half of a transfer; nobody has timed it here")
            }),
            serial_read: self.serial_read(transfer),
            invalidate: transfer
                .and_then(|spread| nanoseconds(spread, "the nearest line transfer, as local_transfer")),
            home_occupancy: Some(assumed(
                HOME_OCCUPANCY_NS,
                "it shows where one node serves many lines only",
            )),
            memory: nanoseconds(self.memory_ns, "a walk through memory larger than most caches"),
            time_slice: Some(assumed(TIME_SLICE_NS, "a usual time slice of the kernel")),
            context_switch: nanoseconds(self.context_switch_ns, "a context switch by futex on one core"),
            system_call: nanoseconds(self.system_call_ns, "a futex call that wakes nobody"),
            wake_call: nanoseconds(
                self.longer_than_a_system_call(self.wake_call_ns),
                "a futex call that wakes a sleeper on another core, less one that wakes nobody",
            ),
            ..Coherence::default()
        }
    }

    fn longer_than_a_system_call(&self, call: Spread) -> Spread {
        let less = |ns: f64| (ns - self.system_call_ns.median).max(0.0);
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
        let slope = cost / 2.0;
        let spread = Spread { low: slope, median: slope, high: slope };
        Some(self.figure(
            spread,
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
