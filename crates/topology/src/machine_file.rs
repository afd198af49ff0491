//! Machine files: what a machine's numbers are, each with its source.
//!
//! A machine file is TOML. The model uses its topology, line transfers and hand-over costs; the simulator uses its
//! coherence section too.
//!
//! ```toml
//! name = "epyc-9654x2"
//! description = "2 x EPYC 9654 (Zen 4), 192 cores"
//!
//! [topology]                # cores = sockets x dies_per_socket x cores_per_die; a die's cores share a last-level cache
//! sockets = 2
//! dies_per_socket = 12
//! cores_per_die = 8
//! source = "vendor"
//!
//! [transfer]                # one way of one modified line, by how near the two cores are
//! same_l3 = { value = 26, unit = "ns", source = "core_to_core.csv: 2x EPYC 9654 (Zen 4), same_l3" }
//! same_socket = { value = 98, unit = "ns", source = "core_to_core.csv: …" }
//! cross_socket = { value = 190, unit = "ns", source = "core_to_core.csv: …" }
//!
//! [handover]                # waiter: c, what one more waiter adds, in transfers (as far as the cores span) or in ns
//! waiter = { value = 0.35, low = 0.1, high = 1.0, unit = "transfers", source = "assumed: …" }
//! wake = { value = 5000, low = 2000, high = 50000, unit = "ns", source = "assumed: …" }
//! back_off_delay = { value = 1000, low = 200, high = 10000, unit = "ns", source = "assumed: …" }
//! ```
//!
//! A machine with transactional memory says so, and only it has any:
//!
//! ```toml
//! [transactions]
//! begin = { value = 6, unit = "ns", source = "…" }
//! commit = { value = 6, unit = "ns", source = "…" }
//! abort = { value = 43, unit = "ns", source = "…" }
//! interrupts = { value = 4e6, unit = "ns", source = "assumed: …" }   # from one to the next, on average
//! l1_sets = 64              # sets and ways of the cache that keeps what a transaction writes
//! l1_ways = 8
//! read_lines = 573440       # lines of the cache that keeps what it reads
//! winner = "requester"      # or "holder": of two transactions, the one that goes on
//! source = "…"              # of the counts
//! ```
//!
//! A source names a row or a command, or begins with "fitted to", "assumed" or "unverified".

mod coherence;
mod transactions;

pub use coherence::{Coherence, Probes, Protocol};
pub use transactions::{Transactions, Winner};

use crate::{Range, Source};
use serde::{Deserialize, Serialize};

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FigureUnit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Cycles of the machine's `frequency`.
    #[serde(rename = "cycles")]
    Cycles,
    /// Cycles in a nanosecond.
    #[serde(rename = "GHz")]
    Gigahertz,
    /// The mean transfer of a line between the cores in use.
    #[serde(rename = "transfers")]
    Transfers,
}

impl FigureUnit {
    fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Cycles => "cycles",
            Self::Gigahertz => "GHz",
            Self::Transfers => "transfers",
        }
    }
}

/// A number, what it counts, and where it is from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The likely value.
    pub value: f64,
    /// The least it may be; `value` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The most it may be; `value` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// What it counts.
    pub unit: FigureUnit,
    /// What stands behind the number.
    pub source: Source,
}

impl Figure {
    fn range(&self) -> Range {
        Range {
            low: self.low.unwrap_or(self.value),
            likely: self.value,
            high: self.high.unwrap_or(self.value),
        }
    }
}

/// Sockets, dies and cores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Sockets.
    pub sockets: u32,
    /// Dies in a socket: groups of cores that share a last-level cache.
    #[serde(default = "one")]
    pub dies_per_socket: u32,
    /// Cores in a die.
    pub cores_per_die: u32,
    /// Hardware threads in a core.
    #[serde(default = "one")]
    pub threads_per_core: u32,
    /// Where the counts are from.
    pub source: Source,
}

fn one() -> u32 {
    1
}

impl Topology {
    /// All cores.
    pub fn cores(&self) -> u32 {
        self.sockets.saturating_mul(self.cores_per_socket())
    }

    /// Cores in a socket.
    pub fn cores_per_socket(&self) -> u32 {
        self.dies_per_socket.saturating_mul(self.cores_per_die)
    }
}

/// One way of one modified line from core to core, by how near they are. A tier that is absent costs what the next
/// wider one does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Two hardware threads of one core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt_sibling: Option<Figure>,
    /// Two cores of one die.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_l3: Option<Figure>,
    /// Two dies of one socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_socket: Option<Figure>,
    /// Two sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cross_socket: Option<Figure>,
}

/// What hand-overs cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoverFigures {
    /// c, what one more waiter on the same line adds.
    pub waiter: Figure,
    /// From a release until a sleeping waiter runs.
    pub wake: Figure,
    /// Mean delay between the attempts of a waiter that backs off.
    pub back_off_delay: Figure,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    /// What `--machine` calls it.
    pub name: String,
    /// One line on what it is.
    pub description: String,
    /// Cycles in a nanosecond; needed where a figure is in cycles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency: Option<Figure>,
    /// Sockets, dies and cores.
    pub topology: Topology,
    /// Line transfers.
    pub transfer: Transfer,
    /// Hand-over costs.
    pub handover: HandoverFigures,
    /// What the simulator needs beyond that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coherence: Option<Coherence>,
    /// Its transactional memory; none if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Transactions>,
}

/// What is wrong with a machine file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MachineFileError {
    /// Not TOML, or not the TOML of a machine; the message holds line and column.
    #[error("not a machine file: {0}")]
    Toml(String),
    /// A field that is not what it has to be.
    #[error("in machine file `{machine}`, `{field}` {wrong}")]
    Field {
        /// Name in the file.
        machine: String,
        /// Which field.
        field: String,
        /// What is wrong with it and what it has to be.
        wrong: String,
    },
}

impl Coherence {
    /// The first field that does not fit a machine of so many sockets, and what is wrong with it.
    fn wrong_field(&self, sockets: u32) -> Option<(&'static str, String)> {
        let rows = self.hops.len();
        let square = self.hops.iter().all(|row| row.len() == rows);
        if rows != 0 && (rows as u64 != u64::from(sockets) || !square) {
            return Some(("hops", format!("must be {sockets} rows of {sockets}, one for each socket")));
        }
        match (self.sockets_per_controller, &self.controller_hop) {
            (Some(0), _) => Some(("sockets_per_controller", "is 0; there is at least one".into())),
            (Some(count), None) if count < sockets => Some((
                "controller_hop",
                format!("is missing; {count} of {sockets} sockets are behind one node controller"),
            )),
            (None, Some(_)) => Some((
                "sockets_per_controller",
                "is missing; coherence.controller_hop is between node controllers".into(),
            )),
            _ => None,
        }
    }
}

impl MachineFile {
    /// Reads and checks a machine file.
    ///
    /// # Errors
    ///
    /// Text that is not such a file, with the place; fields that are missing, unknown, out of range, in a wrong unit
    /// or without a source.
    pub fn parse(text: &str) -> Result<Self, MachineFileError> {
        let machine: Self =
            toml::from_str(text).map_err(|error| MachineFileError::Toml(error.to_string()))?;
        machine.check()?;
        Ok(machine)
    }

    /// What the model uses of it, all in nanoseconds.
    pub fn costs(&self) -> Costs {
        let ns = |figure: &Figure| self.in_ns(figure);
        let Transfer { same_l3, same_socket, cross_socket, smt_sibling } = &self.transfer;
        let tier = |figures: [&Option<Figure>; 4]| figures.into_iter().flatten().next().map(ns);
        let Topology { sockets, dies_per_socket, cores_per_die, .. } = self.topology;
        let mut tiers = Vec::new();
        // A tier that is the same cores as the next wider one has nothing of its own.
        for (cores, exists, figures) in [
            (cores_per_die, cores_per_die > 1, [same_l3, same_socket, cross_socket, smt_sibling]),
            (
                self.topology.cores_per_socket(),
                dies_per_socket > 1,
                [same_socket, cross_socket, same_l3, smt_sibling],
            ),
            (self.topology.cores(), sockets > 1, [cross_socket, same_socket, same_l3, smt_sibling]),
        ] {
            if let (true, Some(transfer_ns)) = (exists, tier(figures)) {
                tiers.push(Tier { cores, transfer_ns });
            }
        }
        if tiers.is_empty() {
            // One core: what its threads pay, or nothing is known and the check has refused the file.
            let transfer_ns = tier([same_l3, same_socket, cross_socket, smt_sibling]);
            tiers.extend(transfer_ns.map(|transfer_ns| Tier { cores: 1, transfer_ns }));
        }
        let waiter = &self.handover.waiter;
        Costs {
            tiers,
            waiter: match waiter.unit {
                FigureUnit::Transfers => WaiterCost::Transfers(waiter.range()),
                _ => WaiterCost::Nanoseconds(ns(waiter)),
            },
            wake_ns: ns(&self.handover.wake),
            back_off_delay_ns: ns(&self.handover.back_off_delay),
        }
    }

    fn in_ns(&self, figure: &Figure) -> Range {
        let cycles_per_ns = match (figure.unit, &self.frequency) {
            (FigureUnit::Cycles, Some(frequency)) => frequency.value,
            _ => 1.0,
        };
        figure.range().scaled(1.0 / cycles_per_ns)
    }

    /// Whether its figures make a machine, as [`parse`](Self::parse) asks.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), MachineFileError> {
        let fail = |field: &str, wrong: String| {
            Err(MachineFileError::Field { machine: self.name.clone(), field: field.to_owned(), wrong })
        };
        if self.name.is_empty() || !self.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        {
            return fail(
                "name",
                "may hold letters, digits, `-`, `_` and `.`, and at least one of them".into(),
            );
        }
        let Topology { sockets, dies_per_socket, cores_per_die, threads_per_core, ref source } =
            self.topology;
        for (field, count) in [
            ("topology.sockets", sockets),
            ("topology.dies_per_socket", dies_per_socket),
            ("topology.cores_per_die", cores_per_die),
            ("topology.threads_per_core", threads_per_core),
        ] {
            if count == 0 {
                return fail(field, "is 0; there is at least one".into());
            }
        }
        let cores = self.topology.cores();
        if cores > crate::MAX_CORES {
            return fail("topology", format!("has {cores} cores; the most is {}", crate::MAX_CORES));
        }
        if source.is_empty() {
            return fail("topology.source", "is empty; say where the counts are from".into());
        }
        let Transfer { smt_sibling, same_l3, same_socket, cross_socket } = &self.transfer;
        if [smt_sibling, same_l3, same_socket, cross_socket].into_iter().all(Option::is_none) {
            return fail("transfer", "has no figure; give at least one of its tiers".into());
        }
        if sockets > 1 && cross_socket.is_none() {
            return fail("transfer.cross_socket", format!("is missing; the machine has {sockets} sockets"));
        }
        // In hertz or megahertz it would make every cycle nothing, or a second.
        if let Some(ghz) = self.frequency.as_ref().map(|figure| figure.value)
            && !(0.01..=100.0).contains(&ghz)
        {
            return fail("frequency", format!("is {ghz} GHz; it must be 0.01 to 100 GHz"));
        }
        for (field, figure, units) in self.figures() {
            if let Err(wrong) = check_figure(figure, units, self.frequency.as_ref()) {
                return fail(&field, wrong);
            }
        }
        if let Some((field, wrong)) = self.coherence.as_ref().and_then(|it| it.wrong_field(sockets)) {
            return fail(&format!("coherence.{field}"), wrong);
        }
        if let Some(transactions) = &self.transactions {
            if let Some((count, wrong)) = transactions.wrong_count() {
                return fail(&format!("transactions.{count}"), wrong);
            }
            if transactions.source.is_empty() {
                return fail("transactions.source", "is empty; say where the counts are from".into());
            }
        }
        Ok(())
    }

    /// Every figure of the file with its name and the units it may have.
    fn figures(&self) -> Vec<(String, &Figure, &'static [FigureUnit])> {
        use FigureUnit::{Cycles, Gigahertz, Nanoseconds, Transfers};
        let named =
            |(section, name, figure)| (format!("{section}.{name}"), figure, &[Nanoseconds, Cycles][..]);
        let mut figures: Vec<(String, &Figure, &'static [FigureUnit])> =
            vec![("handover.waiter".into(), &self.handover.waiter, &[Transfers, Nanoseconds, Cycles])];
        figures.extend(self.frequency.iter().map(|f| ("frequency".into(), f, &[Gigahertz][..])));
        figures.extend(self.times().map(named));
        figures
    }

    /// Every figure that is a time, by its section and its name there.
    pub fn times(&self) -> impl Iterator<Item = (&'static str, &'static str, &Figure)> {
        let HandoverFigures { wake, back_off_delay, .. } = &self.handover;
        let handover = [("wake", wake), ("back_off_delay", back_off_delay)];
        let Transfer { smt_sibling, same_l3, same_socket, cross_socket } = &self.transfer;
        let transfer = [
            ("smt_sibling", smt_sibling),
            ("same_l3", same_l3),
            ("same_socket", same_socket),
            ("cross_socket", cross_socket),
        ];
        let transfer = transfer.into_iter().filter_map(|(name, figure)| Some((name, figure.as_ref()?)));
        let coherence = self.coherence.iter().flat_map(Coherence::figures);
        let transactions = self.transactions.iter().flat_map(Transactions::figures);
        let of = |section| move |(name, figure)| (section, name, figure);
        handover
            .into_iter()
            .map(of("handover"))
            .chain(transfer.map(of("transfer")))
            .chain(coherence.map(of("coherence")))
            .chain(transactions.map(of("transactions")))
    }
}

/// The shortest time that a simulation tells from none, ns.
const LEAST_NS: f64 = 0.001;

fn check_figure(figure: &Figure, units: &[FigureUnit], frequency: Option<&Figure>) -> Result<(), String> {
    let Range { low, likely, high } = figure.range();
    if !(low > 0.0 && low <= likely && likely <= high && high <= 1e12) {
        return Err(format!(
            "is {low} <= {likely} <= {high}; it must be more than 0, at most 1e12, in its range"
        ));
    }
    if !units.contains(&figure.unit) {
        let units: Vec<_> = units.iter().map(|unit| unit.name()).collect();
        return Err(format!("is in {}; it must be in {}", figure.unit.name(), units.join(" or ")));
    }
    let shortest_ns = match (figure.unit, frequency) {
        (FigureUnit::Cycles, None) => return Err("is in cycles, and the file has no `frequency`".into()),
        (FigureUnit::Cycles, Some(frequency)) => low / frequency.value,
        (FigureUnit::Nanoseconds, _) => low,
        (FigureUnit::Gigahertz | FigureUnit::Transfers, _) => LEAST_NS,
    };
    if shortest_ns < LEAST_NS {
        return Err(format!("is {shortest_ns:e} ns at the least; a time is at least {LEAST_NS} ns"));
    }
    if figure.source.is_empty() {
        return Err("has an empty source; name the row or command, or say \"assumed\"".into());
    }
    Ok(())
}

/// A group of cores and what a line costs between its parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Tier {
    /// Cores of the group.
    cores: u32,
    /// Between two of its cores that are in no smaller group together.
    transfer_ns: Range,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum WaiterCost {
    Transfers(Range),
    Nanoseconds(Range),
}

/// A machine's costs as the model uses them, in nanoseconds. Cores are filled die by die, socket by socket; past the
/// last core the widest distance holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// By ascending cores; at least one.
    tiers: Vec<Tier>,
    waiter: WaiterCost,
    wake_ns: Range,
    back_off_delay_ns: Range,
}

impl Costs {
    /// The machine's cores.
    pub fn cores(&self) -> u32 {
        self.tiers.last().map_or(1, |widest| widest.cores)
    }

    /// The mean transfer of a line between two of the first `cores` cores, each pair alike.
    pub fn transfer_ns(&self, cores: u32) -> Range {
        if cores < 2 {
            return self.tiers[0].transfer_ns;
        }
        let n = f64::from(cores);
        let all_pairs = n * (n - 1.0);
        let mut counted = 0.0;
        let mut sum = Range::exact(0.0);
        for tier in &self.tiers {
            let (groups, rest) = (f64::from(cores / tier.cores), f64::from(cores % tier.cores));
            let size = f64::from(tier.cores);
            let pairs = groups * size * (size - 1.0) + rest * (rest - 1.0).max(0.0);
            sum = sum.plus(tier.transfer_ns.scaled((pairs - counted) / all_pairs));
            counted = pairs;
        }
        let widest = self.tiers[self.tiers.len() - 1].transfer_ns;
        sum.plus(widest.scaled((all_pairs - counted) / all_pairs))
    }

    /// c: what one more waiter adds, with the waiters on the first `cores` cores.
    pub fn waiter_ns(&self, cores: u32) -> Range {
        match self.waiter {
            WaiterCost::Transfers(share) => share.times(self.transfer_ns(cores)),
            WaiterCost::Nanoseconds(range) => range,
        }
    }

    /// From a release until a sleeping waiter runs.
    pub fn wake_ns(&self) -> Range {
        self.wake_ns
    }

    /// Mean delay between a backing-off waiter's attempts.
    pub fn back_off_delay_ns(&self) -> Range {
        self.back_off_delay_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_SOCKETS: &str = r#"
        name = "two"
        description = "2 x 2 x 4 cores"
        frequency = { value = 2.0, unit = "GHz", source = "assumed" }
        [topology]
        sockets = 2
        dies_per_socket = 2
        cores_per_die = 4
        source = "assumed"
        [transfer]
        same_l3 = { value = 20, unit = "ns", source = "assumed" }
        same_socket = { value = 200, unit = "cycles", source = "assumed" }
        cross_socket = { value = 200, low = 150, high = 300, unit = "ns", source = "assumed" }
        [handover]
        waiter = { value = 0.5, low = 0.1, high = 1.0, unit = "transfers", source = "assumed" }
        wake = { value = 5000, unit = "ns", source = "assumed" }
        back_off_delay = { value = 1000, unit = "ns", source = "assumed" }
    "#;

    #[test]
    fn transfers_grow_with_the_distance_that_the_cores_span() {
        let costs = MachineFile::parse(TWO_SOCKETS).unwrap().costs();
        assert_eq!(costs.transfer_ns(4).likely, 20.0);
        // 5 cores: 12 of 20 ordered pairs in a die, 8 between dies of a socket, at 200 cycles of 2 GHz.
        assert!((costs.transfer_ns(5).likely - (12.0 * 20.0 + 8.0 * 100.0) / 20.0).abs() < 1e-9);
        // 16 cores: 48 of 240 pairs in a die, 64 more in a socket, 128 across.
        let all = costs.transfer_ns(16);
        assert!((all.likely - (48.0 * 20.0 + 64.0 * 100.0 + 128.0 * 200.0) / 240.0).abs() < 1e-9);
        assert!(all.low < all.likely && all.likely < all.high);
        let past_the_last = costs.transfer_ns(64).likely;
        assert!(all.likely < past_the_last && past_the_last < 200.0);
        assert!((costs.waiter_ns(4).likely - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_die_that_is_the_socket_costs_what_the_socket_does() {
        let text = TWO_SOCKETS.replace("sockets = 2", "sockets = 1").replace("dies_per_socket = 2", "");
        let text = text.lines().filter(|line| !line.contains("same_l3")).collect::<Vec<_>>().join("\n");
        let costs = MachineFile::parse(&text).unwrap().costs();
        assert_eq!(costs.transfer_ns(4).likely, 100.0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |from: &str, to: &str| {
            assert!(TWO_SOCKETS.contains(from), "{from}");
            MachineFile::parse(&TWO_SOCKETS.replace(from, to)).unwrap_err().to_string()
        };
        for (from, to, words) in [
            ("sockets = 2", "sockets = 0", "`topology.sockets` is 0"),
            ("sockets = 2", "sockets = 4000000000", "cores; the most is"),
            ("low = 150", "low = 250", "`transfer.cross_socket` is 250 <= 200"),
            ("value = 20,", "value = nan,", "`transfer.same_l3` is NaN"),
            ("value = 20,", "value = -1,", "`transfer.same_l3`"),
            ("value = 20,", "value = 0.0004,", "`transfer.same_l3` is 4e-4 ns"),
            ("value = 20,", "", "missing field `value`"),
            ("cross_socket = ", "#", "`transfer.cross_socket` is missing"),
            ("unit = \"transfers\"", "unit = \"GHz\"", "must be in transfers or ns or cycles"),
            ("frequency", "#", "no `frequency`"),
            ("frequency = { value = 2.0", "frequency = { value = 2.0e9", "0.01 to 100 GHz"),
            (
                "5000, unit = \"ns\", source = \"assumed\"",
                "5000, unit = \"ns\", source = \" \"",
                "empty source",
            ),
            ("name = \"two\"", "name = \"<b>\"", "`name`"),
            ("name = \"two\"", "nom = \"two\"", "unknown field `nom`"),
            ("[transfer]", "[transfer", "line "),
        ] {
            let message = refused(from, to);
            assert!(message.contains(words), "{words}: {message}");
        }
    }

    #[test]
    fn coherence_is_read_and_checked() {
        let text = format!(
            "{TWO_SOCKETS}\n[coherence]\nprotocol = \"MOESI\"\n\
             home_occupancy = {{ value = 2, unit = \"ns\", source = \"assumed\" }}\n\
             serial_read = {{ value = 5, unit = \"ns\", source = \"assumed\" }}\n\
             hops = [[0, 1], [1, 0]]\n\
             local_read = {{ value = 172, unit = \"cycles\", source = \"unverified\" }}\n"
        );
        let machine = MachineFile::parse(&text).unwrap();
        let coherence = machine.coherence.as_ref().unwrap();
        assert_eq!(coherence.protocol, Protocol::Moesi);
        assert!(!coherence.local_read.as_ref().unwrap().source.basis().is_evidence());
        assert!(coherence.resolves_locally && coherence.probes == Probes::Exact, "the defaults");
        let message =
            MachineFile::parse(&text.replace("[[0, 1], [1, 0]]", "[[0, 1]]")).unwrap_err().to_string();
        assert!(message.contains("2 rows of 2"), "{message}");
    }

    #[test]
    fn transactions_are_read_and_checked() {
        let text = format!(
            "{TWO_SOCKETS}\n[transactions]\nl1_sets = 64\nl1_ways = 8\nread_lines = 1000\nsource = \"assumed\"\n\
             begin = {{ value = 6, unit = \"ns\", source = \"assumed\" }}\n\
             commit = {{ value = 7, unit = \"ns\", source = \"assumed\" }}\n\
             abort = {{ value = 50, unit = \"cycles\", source = \"assumed\" }}\n\
             interrupts = {{ value = 1e6, unit = \"ns\", source = \"assumed\" }}\n"
        );
        let machine = MachineFile::parse(&text).unwrap();
        let transactions = machine.transactions.as_ref().unwrap();
        assert_eq!((transactions.l1_ways, transactions.winner), (8, Winner::Requester), "the default");
        assert!(MachineFile::parse(TWO_SOCKETS).unwrap().transactions.is_none());
        for (from, to, words) in [
            ("l1_ways = 8", "l1_ways = 0", "`transactions.l1_ways` is 0"),
            ("value = 7", "value = 0", "`transactions.commit` is 0"),
            ("read_lines = 1000", "", "missing field `read_lines`"),
            ("l1_sets", "winner = \"nobody\"\nl1_sets", "unknown variant `nobody`"),
            ("1000\nsource = \"assumed\"", "1000\nsource = \" \"", "`transactions.source` is empty"),
        ] {
            assert!(text.contains(from), "{from}");
            let message = MachineFile::parse(&text.replace(from, to)).unwrap_err().to_string();
            assert!(message.contains(words), "{words}: {message}");
        }
    }
}
