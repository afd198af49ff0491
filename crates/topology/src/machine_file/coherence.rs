//! The coherence section of a machine file: what the simulator needs beyond the model's costs.

use super::Figure;
use serde::{Deserialize, Serialize};

/// Coherence protocols by the states a cached line may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// Modified, shared, invalid.
    Msi,
    /// … and exclusive.
    Mesi,
    /// … and owned.
    Moesi,
}

/// Whom a line's home asks when one core writes what others share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Probes {
    /// Every die: the home does not know who shares the line.
    Broadcast,
    /// The dies that have it.
    Exact,
}

macro_rules! coherence {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// How caches are kept coherent, and what that takes. A cost that is absent follows from the line transfers
        /// or is the simulator's default, which is assumed.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Coherence {
            /// The protocol.
            pub protocol: Protocol,
            /// Whom a home asks when one core writes what others share.
            #[serde(default = "exact")]
            pub probes: Probes,
            /// Whether a die's last-level cache answers what its cores have among them without asking the home.
            #[serde(default = "yes")]
            pub resolves_locally: bool,
            /// Whether a line that comes from another die or from memory brings along the other line of its aligned pair.
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub line_pairs: bool,
            $(
                $(#[$doc])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $name: Option<Figure>,
            )*
            /// Sockets behind one node controller; none if there are no controllers.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub sockets_per_controller: Option<u32>,
            /// Links between each two sockets, row by row; one link between all if absent.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub hops: Vec<Vec<u32>>,
        }

        impl Coherence {
            /// The section's figures with their names.
            pub(super) fn figures(&self) -> impl Iterator<Item = (&'static str, &Figure)> {
                [$((stringify!($name), self.$name.as_ref())),*]
                    .into_iter()
                    .filter_map(|(name, figure)| Some((name, figure?)))
            }
        }

        impl Default for Coherence {
            fn default() -> Self {
                Self {
                    protocol: Protocol::Mesi,
                    probes: exact(),
                    resolves_locally: yes(),
                    line_pairs: false,
                    $($name: None,)*
                    sockets_per_controller: None,
                    hops: Vec::new(),
                }
            }
        }
    };
}

coherence! {
    /// A load or store that the core's own cache answers.
    hit,
    /// An atomic read-modify-write that the core's own cache answers.
    atomic,
    /// Between two polls of a waiter.
    pause,
    /// A changed line from core to core in a die; `transfer.same_l3` if absent.
    local_transfer,
    /// A line from the die's last-level cache.
    local_read,
    /// How long a last-level cache is taken by each of several reads that it answers one by one.
    serial_read,
    /// Invalidating the copies in a die.
    invalidate,
    /// How long a home is taken by one request, whatever line it is for.
    home_occupancy,
    /// How long each try of a request that a home refuses takes the home. While a home serves a line's request, it
    /// refuses the others for that line; they are made again, and the answer that the home waits for comes behind a try
    /// of each. Nothing if absent: they wait at no cost.
    refused_try,
    /// A line from memory, at its node.
    memory,
    /// One crossing of a link between sockets.
    link_hop,
    /// One way between sockets behind different node controllers.
    controller_hop,
    /// How long a thread runs while others wait for its core.
    time_slice,
    /// How often the kernel looks whether a time slice is over; at once if `time_slice` is given and this is not.
    tick,
    /// From one thread of a core to another.
    context_switch,
    /// Asking the kernel to sleep or to wake a thread.
    system_call,
    /// What a call that wakes a sleeper on another core takes longer than a call that wakes no thread.
    wake_call,
}

fn exact() -> Probes {
    Probes::Exact
}

fn yes() -> bool {
    true
}
