//! A machine file as the simulation uses it: places, latencies and costs in picoseconds.

use machine::Place;
use topology::machine_file::{
    Coherence, Figure, FigureUnit, MachineFile, Probes, Protocol, Transfer, Winner,
};

use crate::Time;

/// The most cores that a simulation takes: sharers are kept as a set of this size.
pub const MAX_CORES: usize = 1024;
/// A set of dies.
pub(crate) type Dies = u128;
/// The most dies.
pub const MAX_DIES: usize = Dies::BITS as usize;

/// Picoseconds in a nanosecond.
pub const PS_PER_NS: Time = 1000;

/// Why a machine file cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("machine `{machine}` cannot be simulated: {wrong}")]
pub struct HardwareError {
    /// The machine's name.
    pub machine: String,
    /// What is wrong, and what it has to be.
    pub wrong: String,
}

/// What the simulated machine consists of and what everything takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// Name in the machine file.
    pub name: String,
    /// One place a core: sockets in order, dies in order.
    pub places: Vec<Place>,
    /// Number of dies; a die has one last-level cache.
    pub dies: usize,
    /// Number of memory nodes; one a socket.
    pub nodes: usize,
    /// Cycles in 1,000 ns.
    pub mhz: u64,
    /// States that a cached line may have.
    pub protocol: Protocol,
    /// The directory does not know the sharers and asks every die when one core writes.
    pub broadcasts: bool,
    /// A die's cache answers what its cores have among them, without asking the home.
    pub resolves_locally: bool,
    /// A line that comes from another die or from memory brings along the other line of its aligned pair.
    pub line_pairs: bool,
    /// A load or store that the core's own cache answers.
    pub hit: Time,
    /// An atomic read-modify-write that the core's own cache answers.
    pub atomic: Time,
    /// Between two polls of a waiter.
    pub pause: Time,
    /// A changed line from core to core in a die.
    pub local_transfer: Time,
    /// A line from the die's cache.
    pub local_read: Time,
    /// How long a die's cache is taken by each read that it answers.
    pub serial_read: Time,
    /// Invalidating the copies in a die.
    pub invalidate: Time,
    /// How long a home is taken by one request, whatever line it is for.
    pub home_occupancy: Time,
    /// How long each try of a request that a home refuses takes the home; zero: such requests wait at no cost.
    pub refused_try: Time,
    /// A line from memory, at its node.
    pub memory: Time,
    /// One way between two dies.
    pub die_to_die: Vec<Vec<Time>>,
    /// One way between a die and a memory node.
    pub die_to_node: Vec<Vec<Time>>,
    /// Links between two sockets, for counting misses by distance.
    pub hops: Vec<Vec<u32>>,
    /// How long a thread runs while others wait for its core.
    pub time_slice: Time,
    /// How often the kernel looks whether a slice is over; zero: at once.
    pub tick: Time,
    /// From one thread of a core to another.
    pub context_switch: Time,
    /// Asking the kernel to sleep or to wake a thread.
    pub system_call: Time,
    /// From a wake-up until the sleeper runs on an idle core.
    pub wake: Time,
    /// What a system call that wakes a sleeper on another core takes longer than one that wakes no thread.
    pub wake_call: Time,
    /// Transactional memory, if there is any.
    pub transactions: Option<TransactionalMemory>,
}

/// What transactions take, and how much they can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionalMemory {
    /// Beginning one.
    pub begin: Time,
    /// Committing one.
    pub commit: Time,
    /// From an abort until the thread goes on where it has begun.
    pub abort: Time,
    /// From one interrupt of a core to the next, on average.
    pub interrupts: Time,
    /// Sets of the cache that keeps what is written.
    pub l1_sets: u32,
    /// Ways of each of them.
    pub l1_ways: u32,
    /// Lines of the cache that keeps what is read.
    pub read_lines: u32,
    /// Which of two transactions goes on.
    pub winner: Winner,
}

impl Hardware {
    /// The machine that a file describes. What its coherence section leaves out follows from the transfers.
    ///
    /// # Errors
    ///
    /// More cores or dies than a simulation takes, or longer times; numbers that do not fit together.
    pub fn new(file: &MachineFile) -> Result<Self, HardwareError> {
        let topology = &file.topology;
        let fail = |wrong: String| HardwareError { machine: file.name.clone(), wrong };
        let (cores, dies) =
            (topology.cores() as usize, (topology.sockets * topology.dies_per_socket) as usize);
        if cores > MAX_CORES || dies > MAX_DIES {
            return Err(fail(format!(
                "it has {cores} cores in {dies} dies; a simulation takes up to {MAX_CORES} in {MAX_DIES}"
            )));
        }
        let coherence = file.coherence.clone().unwrap_or_default();
        let costs = Costs { file, coherence: &coherence };
        let cycles_per_ns = file.frequency.as_ref().map_or(DEFAULT_GHZ, |frequency| frequency.value);
        let hops = costs.hops().map_err(fail)?;
        costs.check_times().map_err(fail)?;
        let (die_to_die, die_to_node) = costs.latencies(&hops);
        let local_transfer = costs.local_transfer();
        let local_read = costs.time(&coherence.local_read).unwrap_or(local_transfer / 2);
        Ok(Self {
            name: file.name.clone(),
            places: places(file),
            dies,
            nodes: topology.sockets as usize,
            mhz: ((cycles_per_ns * 1000.0).round() as u64).max(1),
            protocol: coherence.protocol,
            broadcasts: coherence.probes == Probes::Broadcast,
            resolves_locally: coherence.resolves_locally,
            line_pairs: coherence.line_pairs,
            // Each takes time, or a thread would go on for ever at one instant.
            hit: costs.time(&coherence.hit).unwrap_or_else(|| costs.cycles(HIT_CYCLES)).max(1),
            atomic: costs.time(&coherence.atomic).unwrap_or_else(|| costs.cycles(ATOMIC_CYCLES)).max(1),
            pause: costs.time(&coherence.pause).unwrap_or_else(|| costs.cycles(PAUSE_CYCLES)).max(1),
            local_transfer,
            local_read,
            serial_read: costs.time(&coherence.serial_read).unwrap_or(local_transfer / 10),
            invalidate: costs.time(&coherence.invalidate).unwrap_or(local_transfer),
            home_occupancy: costs.time(&coherence.home_occupancy).unwrap_or(DEFAULT_HOME_OCCUPANCY),
            refused_try: costs.time(&coherence.refused_try).unwrap_or(0),
            memory: costs.time(&coherence.memory).unwrap_or(DEFAULT_MEMORY),
            die_to_die,
            die_to_node,
            hops,
            time_slice: costs.time(&coherence.time_slice).unwrap_or(DEFAULT_TIME_SLICE),
            tick: costs.time(&coherence.tick).unwrap_or(match coherence.time_slice {
                Some(_) => 0,
                None => DEFAULT_TICK,
            }),
            context_switch: costs.time(&coherence.context_switch).unwrap_or(DEFAULT_CONTEXT_SWITCH),
            system_call: costs.time(&coherence.system_call).unwrap_or(DEFAULT_SYSTEM_CALL),
            wake: costs.figure(&file.handover.wake),
            wake_call: costs.time(&coherence.wake_call).unwrap_or(DEFAULT_WAKE_CALL),
            transactions: costs.transactions(),
        })
    }

    /// How many cores there are.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.places.len()
    }

    /// Whether a load takes a changed line away from a core of another die that alone has it: where a die's cache knows
    /// whether one core has the line, and the protocol has a state for a line that is in one cache unchanged, but none for
    /// a changed one in several.
    #[must_use]
    pub fn migrates(&self) -> bool {
        self.resolves_locally && self.protocol == Protocol::Mesi
    }

    /// Cycles as picoseconds.
    #[must_use]
    #[inline]
    pub fn time_of_cycles(&self, cycles: u64) -> Time {
        match cycles.checked_mul(1_000_000) {
            Some(scaled) => scaled / self.mhz,
            None => {
                (u128::from(cycles) * 1_000_000 / u128::from(self.mhz)).min(u128::from(Time::MAX / 2)) as Time
            }
        }
    }

    /// Picoseconds as cycles.
    #[must_use]
    #[inline]
    pub fn cycles_of_time(&self, time: Time) -> u64 {
        (u128::from(time) * u128::from(self.mhz) / 1_000_000) as u64
    }
}

// What a machine file may leave out. None of these decides a published row; all are assumed.
const DEFAULT_GHZ: f64 = 2.5;
const HIT_CYCLES: u64 = 3;
const ATOMIC_CYCLES: u64 = 20;
const PAUSE_CYCLES: u64 = 10;
const DEFAULT_HOME_OCCUPANCY: Time = 2 * PS_PER_NS;
/// The most that caches, homes and links take for one access: a waiter may poll a line for as long as it is on its way.
const MOST_OF_A_LINE: Time = 1_000_000 * PS_PER_NS;
/// The most of everything else: ten million of these are still a [`Time`].
const MOST: Time = 1_000_000_000 * PS_PER_NS;
/// What does not belong to an access in the coherence section.
const OF_THE_KERNEL: [&str; 5] = ["time_slice", "tick", "context_switch", "system_call", "wake_call"];
const DEFAULT_MEMORY: Time = 70 * PS_PER_NS;
// Linux since 6.6: 0.7 ms for each doubling of eight cores, and a clock of 250 Hz.
const DEFAULT_TIME_SLICE: Time = 2_800_000 * PS_PER_NS;
const DEFAULT_TICK: Time = 4_000_000 * PS_PER_NS;
const DEFAULT_CONTEXT_SWITCH: Time = 1_500 * PS_PER_NS;
const DEFAULT_SYSTEM_CALL: Time = 300 * PS_PER_NS;
const DEFAULT_WAKE_CALL: Time = 1_000 * PS_PER_NS;

fn places(file: &MachineFile) -> Vec<Place> {
    let topology = &file.topology;
    (0..topology.cores())
        .map(|core| {
            let socket = core / topology.cores_per_socket();
            Place { socket, die: core / topology.cores_per_die, core, node: socket }
        })
        .collect()
}

/// Reads costs out of a file.
struct Costs<'a> {
    file: &'a MachineFile,
    coherence: &'a Coherence,
}

impl Costs<'_> {
    fn figure(&self, figure: &Figure) -> Time {
        let cycles_per_ns = self.file.frequency.as_ref().map_or(DEFAULT_GHZ, |frequency| frequency.value);
        let ns = if figure.unit == FigureUnit::Cycles { figure.value / cycles_per_ns } else { figure.value };
        (ns * PS_PER_NS as f64).round() as Time
    }

    fn time(&self, figure: &Option<Figure>) -> Option<Time> {
        figure.as_ref().map(|figure| self.figure(figure))
    }

    /// Whether no time of the file is longer than a simulation takes.
    fn check_times(&self) -> Result<(), String> {
        for (section, name, figure) in self.file.times() {
            let is_of_a_line = matches!(section, "transfer" | "coherence") && !OF_THE_KERNEL.contains(&name);
            let (time, most) = (self.figure(figure), if is_of_a_line { MOST_OF_A_LINE } else { MOST });
            if time > most {
                let (ns, most_ns) = (time / PS_PER_NS, most / PS_PER_NS);
                return Err(format!("{section}.{name} is {ns} ns; it takes at most {most_ns} ns"));
            }
        }
        Ok(())
    }

    fn cycles(&self, cycles: u64) -> Time {
        let cycles_per_ns = self.file.frequency.as_ref().map_or(DEFAULT_GHZ, |frequency| frequency.value);
        (cycles as f64 * PS_PER_NS as f64 / cycles_per_ns).round() as Time
    }

    fn local_transfer(&self) -> Time {
        let transfer = &self.file.transfer;
        self.time(&self.coherence.local_transfer)
            .or_else(|| self.time(&transfer.same_l3))
            .or_else(|| self.time(&transfer.same_socket))
            .or_else(|| self.time(&transfer.cross_socket))
            .or_else(|| self.time(&transfer.smt_sibling))
            .unwrap_or(50 * PS_PER_NS)
    }

    /// The transfer within a die that the wider ones are to be compared with: theirs is one source.
    fn published_transfer(&self) -> Time {
        self.time(&self.file.transfer.same_l3).unwrap_or_else(|| self.local_transfer())
    }

    /// One way from a die to its socket's centre; there are two of them between dies. A line that goes to and fro between
    /// two cores passes the way between them once each time: a core that waits has asked for it before it comes.
    fn die_hop(&self) -> Time {
        if self.file.topology.dies_per_socket == 1 {
            return 0;
        }
        let Transfer { same_socket, cross_socket, .. } = &self.file.transfer;
        let between = self.time(same_socket).or_else(|| self.time(cross_socket)).unwrap_or(0);
        between.saturating_sub(self.published_transfer()) / 2
    }

    /// One way between two sockets.
    fn link_hop(&self) -> Time {
        let across = self.time(&self.file.transfer.cross_socket).unwrap_or(0);
        let within = self.published_transfer() + 2 * self.die_hop();
        self.time(&self.coherence.link_hop).unwrap_or(across.saturating_sub(within))
    }

    fn transactions(&self) -> Option<TransactionalMemory> {
        let file = self.file.transactions.as_ref()?;
        Some(TransactionalMemory {
            begin: self.figure(&file.begin),
            commit: self.figure(&file.commit),
            abort: self.figure(&file.abort),
            interrupts: self.figure(&file.interrupts),
            l1_sets: file.l1_sets,
            l1_ways: file.l1_ways,
            read_lines: file.read_lines,
            winner: file.winner,
        })
    }

    fn hops(&self) -> Result<Vec<Vec<u32>>, String> {
        let sockets = self.file.topology.sockets as usize;
        let hops = if self.coherence.hops.is_empty() {
            (0..sockets).map(|a| (0..sockets).map(|b| u32::from(a != b)).collect()).collect()
        } else {
            self.coherence.hops.clone()
        };
        for (a, row) in hops.iter().enumerate() {
            for (b, &links) in row.iter().enumerate() {
                if (a == b) != (links == 0) || links != hops[b][a] || links > 16 {
                    return Err(format!(
                        "coherence.hops[{a}][{b}] is {links}; a socket is 0 links from itself and 1 to 16 from every \
                         other, the same in both directions"
                    ));
                }
            }
        }
        Ok(hops)
    }

    /// One-way times from die to die and from die to node.
    fn latencies(&self, hops: &[Vec<u32>]) -> (Vec<Vec<Time>>, Vec<Vec<Time>>) {
        let topology = &self.file.topology;
        let (sockets, dies) = (topology.sockets as usize, topology.dies_per_socket as usize);
        let (die_hop, link_hop) = (self.die_hop(), self.link_hop());
        let controller_hop = self.time(&self.coherence.controller_hop).unwrap_or(0);
        let group = self.coherence.sockets_per_controller.unwrap_or(u32::MAX).max(1) as usize;
        let sockets_apart = |a: usize, b: usize| {
            let crosses = a / group != b / group;
            if crosses { controller_hop } else { Time::from(hops[a][b]) * link_hop }
        };
        let all_dies = 0..sockets * dies;
        let die_to_die = all_dies
            .clone()
            .map(|a| {
                let latency =
                    |b: usize| if a == b { 0 } else { 2 * die_hop + sockets_apart(a / dies, b / dies) };
                all_dies.clone().map(latency).collect()
            })
            .collect();
        let die_to_node = all_dies
            .map(|die| (0..sockets).map(|node| die_hop + sockets_apart(die / dies, node)).collect())
            .collect();
        (die_to_die, die_to_node)
    }
}
