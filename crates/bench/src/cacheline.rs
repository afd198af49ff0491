//! A lock in a tight loop by placement, and contention for lines without a lock.

use super::Common;
use super::contenders::{self, Contender, Measure, Wait};
use super::findings::{Drawing, Findings, Part};
use super::handover::LockAndCount;
use super::limited;
use super::timing::{Bench, LockRounds, Rounds, by_core, doublings, in_rounds, interleaved};
use ::report::{Cell, Column, Table};
use anyhow::Context as _;
use compare::statistics;
use curve::{Curve, Point, Provenance, Unit};
use locks::{RawLock, Ticket};
use machine::Ordering::Relaxed;
use machine::{Home, Integer, Machine, Native, Place, Placed, PlainCell, Plan, Topology, Word};
use session::host::hardware_threads;
use session::noise::Watch;
use session::placement::Placement;
use session::progress::Steps;
use session::usage::UsageError;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use workloads::client::Wrong;
use workloads::exclusion::Exclusion;

type U64 = <Native as Machine>::U64;
type Count = <Native as Machine>::Cell<u64>;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Locks and rounds.
    pub common: Common,
    /// Numbers of threads, one a core; 1, 2, 4, … all cores if there is none.
    pub threads: Vec<u16>,
    /// In which order the nodes' cores are taken.
    pub placement: Vec<Placement>,
    /// The memory nodes whose cores are used; all if there is none.
    pub nodes: Vec<u32>,
    /// The memory node that the lock and the lines lie on; where the first thread is if none.
    pub memory_node: Option<u32>,
    /// Acquisitions of each thread; without a lock, additions.
    pub acquisitions: u32,
}

/// Threads on cores that each do so many operations on memory at a home.
#[derive(Debug, Clone, Copy)]
struct Loop<'a> {
    cores: &'a [u32],
    operations: u32,
    home: Home,
}

impl Loop<'_> {
    /// Runs the operation on every thread; gives operations a second of one thread.
    fn run(&self, operation: impl Fn(usize) + Sync) -> f64 {
        let plan = Plan::on(self.cores);
        let ran = Native::run(&plan, &|thread| {
            for _ in 0..self.operations {
                operation(thread);
            }
        });
        f64::from(self.operations) * 1e9 / ran.elapsed_ns.max(1) as f64
    }

    fn adds_up(&self, threads: usize, counted: u64) -> Result<(), Wrong> {
        let ran = threads as u64 * u64::from(self.operations);
        if ran == counted { Ok(()) } else { Err(Wrong::Lost { ran, counted }) }
    }
}

/// A lock in a tight loop.
struct Pairs<'a>(Loop<'a>);

impl Measure for Pairs<'_> {
    type Output = Result<f64, Wrong>;

    fn measure<M: Machine, S: Exclusion>(self) -> Self::Output {
        let guarded = LockAndCount::<S>::placed(self.0.home);
        let per_second = self.0.run(|_| guarded.lock.exclusive(|| guarded.touch()));
        self.0.adds_up(self.0.cores.len(), guarded.count.get())?;
        Ok(per_second)
    }
}

/// Words of 8 bytes on a line of 64: so many threads have fields of one line.
const WORDS_OF_LINE: usize = 8;

/// Contention without a lock, or beside one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharing {
    OneWord,
    OneLine,
    NeighbourLines,
    FarLines,
    HotFieldBesideLock,
    HotFieldFarFromLock,
}

impl Sharing {
    const ALL: [Self; 6] = [
        Self::OneWord,
        Self::OneLine,
        Self::NeighbourLines,
        Self::FarLines,
        Self::HotFieldBesideLock,
        Self::HotFieldFarFromLock,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::OneWord => "atomic add to one word",
            Self::OneLine => "fields of one line",
            Self::NeighbourLines => "neighbouring lines",
            Self::FarLines => "lines far apart",
            Self::HotFieldBesideLock => "ticket lock, hot field beside it",
            Self::HotFieldFarFromLock => "ticket lock, hot field far from it",
        }
    }

    /// Whether so many threads can do it.
    fn suits(self, threads: usize) -> bool {
        match self {
            Self::OneLine => threads <= WORDS_OF_LINE,
            Self::HotFieldBesideLock | Self::HotFieldFarFromLock => threads > 1,
            Self::OneWord | Self::NeighbourLines | Self::FarLines => true,
        }
    }

    fn run(self, work: Loop<'_>) -> Result<f64, Wrong> {
        match self {
            Self::OneWord => counters::<{ usize::MAX }>(work),
            Self::OneLine => counters::<1>(work),
            Self::NeighbourLines => counters::<8>(work),
            Self::FarLines => counters::<64>(work),
            Self::HotFieldBesideLock => beside_lock(work, 0),
            Self::HotFieldFarFromLock => beside_lock(work, 1),
        }
    }
}

/// Words on lines from a border of 512 bytes on.
#[repr(C, align(512))]
struct Words([U64; 64]);

/// Every thread adds to a word of its own, so many words from the last one's; `usize::MAX`: all to the same.
fn counters<const STRIDE: usize>(work: Loop<'_>) -> Result<f64, Wrong> {
    let threads = work.cores.len();
    let at = |thread: usize| if STRIDE == usize::MAX { 0 } else { thread * STRIDE };
    let blocks: Vec<_> = (0..=at(threads - 1) / 64).map(|_| Words([const { U64::ZERO }; 64])).collect();
    let blocks = PlacedBlocks::new(blocks, work.home);
    let per_second = work.run(|thread| {
        blocks.word(at(thread)).fetch_add(1, Relaxed);
    });
    let words = (0..=at(threads - 1)).map(|index| blocks.word(index).load(Relaxed)).sum();
    work.adds_up(threads, words)?;
    Ok(per_second)
}

/// Blocks of words, each at the home.
struct PlacedBlocks(Vec<Placed<Words, Native>>);

impl PlacedBlocks {
    fn new(blocks: Vec<Words>, home: Home) -> Self {
        Self(blocks.into_iter().map(|block| Placed::new(block, home)).collect())
    }

    #[inline]
    fn word(&self, index: usize) -> &U64 {
        &self.0[index / 64].0[index % 64]
    }
}

#[repr(C, align(512))]
struct BesideLock {
    lock: Ticket<Native>,
    count: Count,
    beside: U64,
    _apart: [u64; 61],
    far: U64,
}

/// All threads but the last use a lock; the last adds to a word on the lock's line, or on another, until they are done.
/// Gives pairs a second of one of the others.
fn beside_lock(work: Loop<'_>, far: usize) -> Result<f64, Wrong> {
    let shared = BesideLock {
        lock: Ticket::NEW,
        count: Count::ZERO,
        beside: U64::ZERO,
        _apart: [0; 61],
        far: U64::ZERO,
    };
    let shared = Placed::<_, Native>::new(shared, work.home);
    let users = work.cores.len() - 1;
    let hot = [&shared.beside, &shared.far][far];
    let done = Placed::<_, Native>::new(U64::ZERO, Home::FirstTouch);
    let plan = Plan::on(work.cores);
    // From the begin of the first to the end of the last.
    let span = Mutex::new(None::<(Instant, Instant)>);
    Native::run(&plan, &|thread| {
        if thread == users {
            while done.load(Relaxed) < users as u64 {
                for _ in 0..64 {
                    hot.fetch_add(1, Relaxed);
                }
            }
            return;
        }
        let begun = Instant::now();
        for _ in 0..work.operations {
            shared.lock.critical(|| shared.count.set(shared.count.get() + 1));
        }
        done.fetch_add(1, Relaxed);
        let mut span = span.lock().expect("no holder panics");
        let (first, last) = span.unwrap_or((begun, begun));
        *span = Some((first.min(begun), last.max(Instant::now())));
    });
    work.adds_up(users, shared.count.get())?;
    let span = span.into_inner().expect("no holder panics");
    let elapsed = span.map_or(Duration::ZERO, |(first, last)| last - first);
    Ok(f64::from(work.operations) / elapsed.as_secs_f64().max(1e-9))
}

/// One placement of one number of threads.
struct Setting {
    placement: Placement,
    cores: Vec<u32>,
    locks: Vec<LockRounds<f64>>,
    sharing: Vec<Rounds<Sharing, f64>>,
}

/// The cores by memory node: the topology with the node of each core in the place of its socket.
fn by_node(topology: &Topology) -> Topology {
    let on_node = |place: &Place| Place { socket: place.node, ..*place };
    Topology { places: topology.places.iter().map(on_node).collect() }
}

/// The cores of so many threads on these nodes: second hardware threads where each core has one.
fn one_a_core(
    placement: Placement,
    [first, others]: &[Topology; 2],
    nodes: &[u32],
    threads: usize,
) -> Vec<u32> {
    let whole = first.places.iter().filter(|place| nodes.contains(&place.socket)).count();
    let mut cores = placement.cores(first, nodes, threads.min(whole));
    cores.extend(placement.cores(others, nodes, threads - cores.len()));
    cores
}

/// Every placement of every number of threads.
fn settings(bench: &Bench, options: &Options) -> anyhow::Result<Vec<Setting>> {
    let topology = by_node(&bench.topology);
    let known = topology.sockets();
    let nodes = if options.nodes.is_empty() { &known } else { &options.nodes };
    if let Some(unknown) = nodes.iter().find(|node| !known.contains(node)) {
        return Err(UsageError::new(format!(
            "no cores on node {unknown}: this process may use cores of the nodes {known:?}"
        ))
        .into());
    }
    let cores = topology.places.iter().filter(|place| nodes.contains(&place.socket)).count();
    let threads: Vec<usize> = match options.threads[..] {
        [] => doublings(cores),
        _ => options.threads.iter().map(|&n| usize::from(n)).collect(),
    };
    if let Some(many) = threads.iter().find(|&&n| n > cores) {
        return Err(UsageError::new(format!(
            "{many} cores were asked for and the chosen nodes have {cores} that this process may use"
        ))
        .into());
    }
    let by_core = by_core(&topology, hardware_threads);
    let mut settings = Vec::new();
    for (number, &placement) in options.placement.iter().enumerate() {
        if options.placement[..number].contains(&placement) {
            continue; // given twice
        }
        settings.extend(threads.iter().map(|&threads| Setting {
            placement,
            cores: one_a_core(placement, &by_core, nodes, threads),
            locks: Vec::new(),
            sharing: Vec::new(),
        }));
    }
    Ok(settings)
}

impl Setting {
    /// Measures every lock, and contention without one.
    fn measure(&mut self, options: &Options, home: Home, chosen: &[Contender], progress: &dyn Steps) {
        let (runs, limit) = (options.common.runs, options.common.limit);
        let work = Loop { cores: &self.cores, operations: options.acquisitions, home };
        self.locks = interleaved(chosen, runs, progress, |contender| {
            limited::measured(limit, || contender.measure(Wait::Pure, Pairs(work)))
        });
        let suiting = Sharing::ALL.into_iter().filter(|sharing| sharing.suits(work.cores.len()));
        self.sharing = suiting.map(Rounds::new).collect();
        let name = |sharing: &Sharing| sharing.name().to_owned();
        in_rounds(&mut self.sharing, 0..=runs, progress, name, |sharing| {
            limited::measured(limit, || Some(sharing.run(work)))
        });
    }

    /// So many runs [`measure`](Self::measure) makes a round.
    fn steps(&self, locks: usize) -> usize {
        locks + Sharing::ALL.iter().filter(|sharing| sharing.suits(self.cores.len())).count()
    }
}

/// Measures.
///
/// # Errors
///
/// A name that no lock has, or what this machine does not have.
pub fn run(bench: &Bench, options: &Options) -> anyhow::Result<Findings> {
    let chosen = contenders::select(&options.common.lock)?;
    let of_cores = match options.nodes[..] {
        [node] => Some(node),
        _ => None,
    };
    let home = memory_home(bench, options.memory_node.or(of_cores))?;
    let mut settings = settings(bench, options)?;
    let steps: usize = settings.iter().map(|setting| setting.steps(chosen.len())).sum();
    let progress = bench.start(steps * (options.common.runs as usize + 1));
    let watch = Watch::start();
    settings.iter_mut().for_each(|setting| setting.measure(options, home, &chosen, &*progress));
    drop(progress);
    let noise = watch.stop();
    Ok(Findings {
        workload: "cacheline",
        parts: vec![Part {
            key: "cacheline",
            heading: "Locks in a tight loop, and lines without a lock".into(),
            table: table(&settings),
            notes: vec![format!(
                "One thread a core, {} operations of each; memory {}. A lock's section increments a counter beside it, \
                 which must add up. Falls are of operations a second of one core.",
                options.acquisitions,
                match home {
                    Home::Node(node) => format!("on node {node}"),
                    Home::FirstTouch => "where the command started".into(),
                }
            )],
        }],
        goals: Vec::new(),
        drawing: Drawing::Curves("Tight loop, by cores".into(), curves(&settings)?),
        noise,
    })
}

fn memory_home(bench: &Bench, node: Option<u32>) -> anyhow::Result<Home> {
    let Some(node) = node else { return Ok(Home::FirstTouch) };
    let mut known: Vec<u32> = bench.topology.places.iter().map(|place| place.node).collect();
    known.dedup();
    let there = std::path::Path::new("/sys/devices/system/node").join(format!("node{node}")).exists();
    session::ensure_usage!(
        there || known.contains(&node),
        "no memory node {node}: the cores' own are {known:?}"
    );
    Ok(Home::Node(node))
}

/// One line of the table: what was run, and its values by setting, in order.
struct Line<'a> {
    name: &'static str,
    library: &'static str,
    setting: &'a Setting,
    values: Vec<f64>,
    figure: Cell,
    failure: Option<String>,
}

/// All lines, those of one lock and placement after one another.
fn lines(settings: &[Setting]) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for setting in settings {
        lines.extend(setting.locks.iter().map(|row| Line {
            name: row.of.name(),
            library: row.of.library(),
            setting,
            figure: row.cell(|&per_second| per_second),
            values: row.values.clone(),
            failure: row.failure.clone(),
        }));
        lines.extend(setting.sharing.iter().map(|row| Line {
            name: row.of.name(),
            library: "no lock",
            setting,
            figure: row.spread(|&per_second| per_second).into(),
            values: row.values.clone(),
            failure: row.failure.clone(),
        }));
    }
    let mut order: Vec<&str> = Vec::new();
    for line in &lines {
        if !order.contains(&line.name) {
            order.push(line.name);
        }
    }
    lines.sort_by_key(|line| {
        let name = order.iter().position(|name| *name == line.name);
        (name, line.setting.placement == Placement::RoundRobin)
    });
    lines
}

fn table(settings: &[Setting]) -> Table {
    let mut table = Table::new([
        Column::text("lock", "what"),
        Column::text("library", "library").detail(),
        Column::text("placement", "placement").detail(),
        Column::number("cores", "cores").kept(),
        Column::spread("ops_per_sec_per_core", "operations/s per core").kept(),
        Column::percent("fall_against_2", "fall against 2 cores %"),
        Column::percent("fall_against_last", "fall against the row before %"),
        Column::text("failure", "failure").kept().only_if_any(),
    ]);
    let mut of_two: Option<f64> = None;
    let mut last: Option<(&str, Placement, Option<f64>)> = None;
    for line in lines(settings) {
        let before =
            last.filter(|(name, placement, _)| (*name, *placement) == (line.name, line.setting.placement));
        if before.is_none() {
            of_two = None;
        }
        let median = statistics::spread(&line.values).map(|spread| spread.median);
        let fall = |from: Option<f64>| Some(1.0 - median? / from?);
        let cores = line.setting.cores.len();
        table.row([
            Cell::from(line.name),
            line.library.into(),
            line.setting.placement.name().into(),
            cores.into(),
            line.figure.clone(),
            fall(of_two).into(),
            fall(before.and_then(|(_, _, value)| value)).into(),
            line.failure.clone().into(),
        ]);
        if cores == 2 {
            of_two = median;
        }
        last = Some((line.name, line.setting.placement, median));
    }
    table
}

/// A curve for each lock under the first placement.
fn curves(settings: &[Setting]) -> anyhow::Result<Vec<Curve>> {
    let Some(first) = settings.first() else { return Ok(Vec::new()) };
    let curve = |index: usize| {
        let name = first.locks[index].of.name();
        let of_placement = settings.iter().filter(|setting| setting.placement == first.placement);
        let points = of_placement
            .filter_map(|setting| Point::of_runs(setting.cores.len() as u32, &setting.locks[index].values));
        let curve = Curve::new(name, Unit::OperationsPerSecondPerCore, Provenance::Measured);
        curve
            .lock(name)
            .workload("cacheline")
            .with_points(points)
            .context("a number of cores was given twice")
    };
    (0..first.locks.len()).map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::report::every_screen;

    #[test]
    fn every_sharing_adds_up() {
        let cores = [0, 0, 0];
        let work = Loop { cores: &cores, operations: 500, home: Home::FirstTouch };
        for sharing in Sharing::ALL {
            if !matches!(sharing, Sharing::HotFieldBesideLock | Sharing::HotFieldFarFromLock) {
                assert!(sharing.run(work).unwrap() > 0.0, "{sharing:?}");
            }
            assert_eq!(sharing.suits(1), !sharing.name().starts_with("ticket"), "{sharing:?}");
            assert!(sharing.suits(8), "{sharing:?}");
            assert_eq!(sharing.suits(9), sharing != Sharing::OneLine, "{sharing:?}");
        }
    }

    #[test]
    fn a_lock_that_does_not_exclude_is_wrong() {
        use crate::contenders::open::{Open, caught};
        let work = Loop { cores: &[0, 1], operations: 100_000, home: Home::FirstTouch };
        caught(|| Pairs(work).measure::<Native, Open>().err());
    }

    #[test]
    fn cores_are_taken_by_node_not_by_socket() {
        let place = |node, core| Place { socket: 0, die: core / 2, core, node };
        let topology = Topology { places: vec![place(0, 0), place(0, 1), place(1, 2), place(1, 3)] };
        let cores = |placement: Placement, nodes: &[u32]| placement.cores(&by_node(&topology), nodes, 3);
        assert_eq!(cores(Placement::FillFirst, &[1, 0]), [2, 3, 0]);
        assert_eq!(cores(Placement::RoundRobin, &[0, 1]), [0, 2, 1]);
    }

    #[test]
    fn every_core_of_the_nodes_has_a_thread_before_any_has_two() {
        let place = |core| Place { socket: core % 4 / 2, die: core % 4 / 2, core, node: core % 4 / 2 };
        let topology = Topology { places: (0..8).map(place).collect() };
        let by_core = by_core(&topology, |core| vec![core % 4, core % 4 + 4]);
        let cores = |placement, threads| one_a_core(placement, &by_core, &[0, 1], threads);
        assert_eq!(cores(Placement::FillFirst, 6), [0, 1, 2, 3, 4, 5]);
        assert_eq!(cores(Placement::RoundRobin, 5), [0, 2, 1, 3, 4]);
    }

    #[test]
    fn fields_lie_where_their_names_say() {
        use std::mem::offset_of;
        assert!(offset_of!(BesideLock, beside) < machine::LINE_BYTES);
        assert!(offset_of!(BesideLock, far) >= 512);
    }

    #[test]
    fn falls_are_against_two_cores_and_the_row_before() {
        let row = |value| LockRounds {
            of: contenders::find("ticket").unwrap(),
            values: vec![value],
            failure: None,
        };
        let setting = |threads, value| Setting {
            placement: Placement::FillFirst,
            cores: vec![0; threads],
            locks: vec![row(value)],
            sharing: Vec::new(),
        };
        let json = table(&[setting(2, 8.0), setting(4, 4.0), setting(8, 3.0)]).json();
        assert_eq!(json[0]["fall_against_2"], serde_json::Value::Null);
        assert_eq!((&json[1]["fall_against_2"], &json[1]["fall_against_last"]), (&0.5.into(), &0.5.into()));
        assert_eq!(
            (&json[2]["fall_against_2"], &json[2]["fall_against_last"]),
            (&0.625.into(), &0.25.into())
        );
    }

    #[test]
    fn the_table_on_every_screen() {
        let setting = |threads, value| Setting {
            placement: Placement::RoundRobin,
            cores: vec![0; threads],
            locks: vec![LockRounds {
                of: contenders::find("ticket-proportional").unwrap(),
                values: vec![value, 1.1 * value],
                failure: None,
            }],
            sharing: vec![Rounds { values: vec![2.0 * value], ..Rounds::new(Sharing::HotFieldBesideLock) }],
        };
        let settings = [setting(2, 8.0e6), setting(4, 3.0e6)];
        let names = ["ticket-proportional"];
        insta::assert_snapshot!(every_screen(&names, |screen| table(&settings).terminal(screen)));
    }
}
