//! What a lock costs when no thread waits.

use super::contenders::{Contender, Measure, Wait};
use super::findings::{Drawing, Findings, Goal, Part};
use super::handover::{self, LockAndCount};
use super::limited;
use super::timing::{Bench, LockRounds, failure_column, interleaved, stamp, stamp_cycles};
use super::{Common, contenders};
use ::report::{Cell, Column, RangePlot, Table};
use compare::calibrate::time::middle;
use compare::statistics::{self, Better};
use locks::catalogue::LOCKS;
use machine::Ordering::{Acquire, Release};
use machine::{Home, Machine, Native, Placed, Plan, Word};
use peers::PEERS;
use serde::{Deserialize, Serialize};
use session::noise::Watch;
use std::sync::Mutex;
use workloads::client::Wrong;
use workloads::exclusion::Exclusion;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Locks and rounds.
    pub common: Common,
}

/// One row of fig. 11, in cycles.
#[derive(Debug, Deserialize)]
struct Published {
    lock: String,
    single_acquire: f64,
    single_release: f64,
    shared_acquire: f64,
}

fn published() -> Vec<Published> {
    let text = include_str!("../../../research/papers/published/fig11_lock_cost.csv");
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    reader
        .deserialize()
        .collect::<Result<_, _>>()
        .expect("the file is part of the command, and a test reads it")
}

/// The lock of ours that fig. 11 calls by another name.
fn published_name(own: &str) -> &str {
    if own == "ticket-proportional" { "proportional" } else { own }
}

/// What one round says of one lock, in cycles.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Sample {
    pair: f64,
    called: Option<f64>,
    /// As a reader, where readers share.
    reading: Option<f64>,
    called_reading: Option<f64>,
    acquire: f64,
    release: f64,
    shared_acquire: Option<f64>,
    handover: Option<f64>,
}

fn median(sample: &[f64]) -> f64 {
    middle(sample).map_or(f64::NAN, |spread| spread.median)
}

/// Runs on one core and gives what it gives.
fn on_core<T: Send>(core: u32, body: impl Fn() -> T + Sync) -> T {
    let result = Mutex::new(None);
    Native::run(&Plan::on(&[core]), &|_| {
        *result.lock().expect("no holder panics") = Some(body());
    });
    result.into_inner().expect("no holder panics").expect("the body ran")
}

/// Cycles of an acquisition and a release, in a loop.
#[derive(Clone, Copy)]
pub struct Pair {
    /// Where it runs.
    pub core: u32,
    /// As a reader.
    pub shared: bool,
}

impl Measure for Pair {
    type Output = Result<f64, Wrong>;

    fn measure<M: Machine, S: Exclusion>(self) -> Self::Output {
        let guarded = LockAndCount::<S>::placed(Home::FirstTouch);
        // One loop each, so that neither tests which it is.
        let (cycles, ran) = if self.shared {
            pair_cycles(self.core, || guarded.lock.shared(|| guarded.touch()))
        } else {
            pair_cycles(self.core, || guarded.lock.exclusive(|| guarded.touch()))
        };
        guarded.adds_up(ran)?;
        Ok(cycles)
    }
}

/// Cycles of one pair, and how many pairs ran.
fn pair_cycles(core: u32, pair: impl Fn() + Sync) -> (f64, u64) {
    const BATCHES: u32 = 40;
    const PAIRS: u32 = 2_000;
    let cycles = on_core(core, || {
        let batch = |_| {
            let start = stamp();
            for _ in 0..PAIRS {
                pair();
            }
            (stamp() - start) as f64 / f64::from(PAIRS)
        };
        median(&(0..BATCHES).map(batch).collect::<Vec<_>>())
    });
    (cycles, u64::from(BATCHES) * u64::from(PAIRS))
}

/// Cycles of a single acquisition and of a single release, the stamps taken off.
pub(super) struct Single {
    pub(super) core: u32,
    pub(super) stamp_cycles: f64,
}

impl Measure for Single {
    type Output = Result<(f64, f64), Wrong>;

    fn measure<M: Machine, S: Exclusion>(self) -> Self::Output {
        const BATCHES: u32 = 100;
        const TURNS: u32 = 100;
        let guarded = LockAndCount::<S>::placed(Home::FirstTouch);
        let (acquire, release) = on_core(self.core, || {
            let batch = |_| {
                let (mut acquiring, mut releasing) = (0, 0);
                for _ in 0..TURNS {
                    let before = stamp();
                    let (acquired, leaving) = guarded.lock.exclusive(|| {
                        let acquired = stamp();
                        guarded.touch();
                        (acquired, stamp())
                    });
                    let after = stamp();
                    acquiring += acquired - before;
                    releasing += after - leaving;
                }
                (acquiring as f64 / f64::from(TURNS), releasing as f64 / f64::from(TURNS))
            };
            (0..BATCHES).map(batch).unzip::<_, _, Vec<_>, Vec<_>>()
        });
        guarded.adds_up(u64::from(BATCHES) * u64::from(TURNS))?;
        Ok(((median(&acquire) - self.stamp_cycles).max(0.0), (median(&release) - self.stamp_cycles).max(0.0)))
    }
}

/// Cycles to acquire a free lock that another core released last: two cores in turn, told by a word of their own.
struct SharedAcquire {
    cores: [u32; 2],
    stamp_cycles: f64,
}

impl Measure for SharedAcquire {
    type Output = Result<f64, Wrong>;

    fn measure<M: Machine, S: Exclusion>(self) -> Self::Output {
        const BATCHES: u32 = 60;
        const TURNS: u32 = 50;
        let guarded = LockAndCount::<S>::placed(Home::FirstTouch);
        let turn = Placed::<_, Native>::new(<Native as Machine>::U32::ZERO, Home::FirstTouch);
        let sample = Mutex::new(Vec::new());
        Native::run(&Plan::on(&self.cores), &|thread| {
            let mut mine = Vec::new();
            for batch in 0..BATCHES {
                let mut cycles = 0;
                for step in 0..TURNS {
                    let own = 2 * (batch * TURNS + step) + thread as u32;
                    Native::spin_until(&*turn, Acquire, |now| now == own); // [1] from the other core
                    let before = stamp();
                    cycles += guarded.lock.exclusive(|| {
                        let acquired = stamp();
                        guarded.touch();
                        acquired - before
                    });
                    turn.store(own + 1, Release); // [1] to the other core
                }
                mine.push(cycles as f64 / f64::from(TURNS));
            }
            sample.lock().expect("no holder panics").extend(mine);
        });
        guarded.adds_up(2 * u64::from(BATCHES) * u64::from(TURNS))?;
        Ok((median(&sample.into_inner().expect("no holder panics")) - self.stamp_cycles).max(0.0))
    }
}

/// Acquisitions of each thread when hand-overs are timed.
const HANDOVER_TURNS: u32 = 2_000;

/// Measures one lock once.
fn sample(contender: &Contender, bench: &Bench, stamp_cycles: f64) -> Option<Result<Sample, Wrong>> {
    let core = bench.pinned(1).first().copied().unwrap_or(0);
    let writing = Pair { core, shared: false };
    let reading = contender.shares().then_some(Pair { core, shared: true });
    let pair = contender.measure(Wait::Pure, writing)?;
    let assemble = || {
        let (acquire, release) =
            contender.measure(Wait::Pure, Single { core, stamp_cycles }).transpose()?.unwrap_or_default();
        let (shared_acquire, handover) = match bench.neighbours() {
            None => (None, None),
            Some(cores) => (
                contender.measure(Wait::Pure, SharedAcquire { cores, stamp_cycles }).transpose()?,
                handover::lock_cycles(contender, &cores, HANDOVER_TURNS, stamp_cycles).transpose()?,
            ),
        };
        Ok(Sample {
            pair: pair?,
            called: contender.measure_called(writing).transpose()?,
            reading: reading.and_then(|pair| contender.measure(Wait::Pure, pair)).transpose()?,
            called_reading: reading.and_then(|pair| contender.measure_called(pair)).transpose()?,
            acquire,
            release,
            shared_acquire,
            handover,
        })
    };
    Some(assemble())
}

/// Measures locks by what they cost.
fn measure(bench: &Bench, chosen: &[Contender], common: &Common) -> Vec<LockRounds<Sample>> {
    let progress = bench.start(chosen.len() * (common.runs as usize + 1));
    let stamp_cycles = stamp_cycles();
    let rows = interleaved(chosen, common.runs, &*progress, |contender| {
        limited::measured(common.limit, || sample(contender, bench, stamp_cycles))
    });
    drop(progress);
    rows
}

/// Measures.
///
/// # Errors
///
/// A name that no lock has, or what this machine does not have.
pub fn run(bench: &Bench, options: &Options) -> anyhow::Result<Findings> {
    let chosen = contenders::select(&options.common.lock)?;
    let watch = Watch::start();
    let rows = measure(bench, &chosen, &options.common);
    let noise = watch.stop();
    let mut plot = RangePlot::new("Acquire and release, no thread waiting", "cycles", Better::Lower);
    for row in &rows {
        plot.row(row.of.name(), row.spread(|sample| sample.pair));
    }
    Ok(Findings {
        workload: "cost",
        parts: vec![Part {
            key: "cost",
            heading: "Acquire and release when no thread waits, in cycles".into(),
            table: table(&rows, bench.ghz),
            notes: notes(bench),
        }],
        goals: goals(&rows),
        drawing: Drawing::Ranges(plot),
        noise,
    })
}

const COLUMNS: [Column; 18] = [
    Column::text("lock", "lock"),
    Column::text("library", "library"),
    Column::spread("pair_cycles", "pair"),
    Column::number("pair_ns", "pair ns"),
    Column::number("called_pair_cycles", "through calls"),
    Column::number("reading_pair_cycles", "reading"),
    Column::number("called_reading_pair_cycles", "reading through calls").detail(),
    Column::number("single_acquire_cycles", "acquire"),
    Column::number("single_release_cycles", "release"),
    Column::number("shared_acquire_cycles", "shared acquire"),
    Column::number("handover_cycles", "hand-over"),
    Column::number("single_acquire_ns", "acquire ns").detail(),
    Column::number("single_release_ns", "release ns").detail(),
    Column::number("shared_acquire_ns", "shared acquire ns").detail(),
    Column::number("handover_ns", "hand-over ns").detail(),
    Column::number("published_acquire_cycles", "acquire, 2012").detail(),
    Column::number("published_release_cycles", "release, 2012").detail(),
    Column::number("published_shared_cycles", "shared, 2012").detail(),
];

fn table(rows: &[LockRounds<Sample>], ghz: f64) -> Table {
    let published = published();
    let mut table = Table::new(COLUMNS.into_iter().chain([failure_column(rows.iter())]));
    for row in rows {
        let name = published_name(row.of.name());
        let ours = row.of.is_ours();
        let paper = published.iter().find(|paper| ours && paper.lock == name);
        table.row(cells(row, ghz, paper));
    }
    table
}

/// One row, as [`COLUMNS`] have it.
fn cells(row: &LockRounds<Sample>, ghz: f64, paper: Option<&Published>) -> Vec<Cell> {
    let median = |figure: fn(&Sample) -> Option<f64>| {
        let values: Vec<f64> = row.values.iter().filter_map(figure).collect();
        statistics::spread(&values).map(|spread| spread.median)
    };
    let in_ns = |cycles: Option<f64>| Cell::from(cycles.map(|cycles| cycles / ghz));
    let parts = [
        median(|sample| Some(sample.acquire)),
        median(|sample| Some(sample.release)),
        median(|sample| sample.shared_acquire),
        median(|sample| sample.handover),
    ];
    let mut cells = vec![
        row.of.name().into(),
        row.of.library().into(),
        row.cell(|sample| sample.pair),
        in_ns(median(|sample| Some(sample.pair))),
        median(|sample| sample.called).into(),
        median(|sample| sample.reading).into(),
        median(|sample| sample.called_reading).into(),
    ];
    cells.extend(parts.map(Cell::from));
    cells.extend(parts.map(in_ns));
    cells.extend([
        paper.map(|paper| paper.single_acquire).into(),
        paper.map(|paper| paper.single_release).into(),
        paper.map(|paper| paper.shared_acquire).into(),
        row.failure.clone().into(),
    ]);
    cells
}

fn notes(bench: &Bench) -> Vec<String> {
    let mut notes = vec![format!(
        "Cycles are the cycle counter's, {:.3} in a nanosecond; the processor's own may be faster. C and C++ libraries \
         are reached by a call for each of acquisition and release: compare them with `through calls`. A waiter of \
         `hand-over` may sleep where the lock is a blocking one.",
        bench.ghz
    )];
    if bench.neighbours().is_none() {
        notes.push("This process may use one core: what passes between two is not measured.".into());
    }
    let alone: Vec<&str> = LOCKS
        .iter()
        .map(|lock| lock.name)
        .filter(|own| PEERS.iter().all(|peer| peer.same_as != Some(own)))
        .collect();
    notes.push(format!("None of the other libraries here has the algorithm of {}.", alone.join(", ")));
    notes.extend(release_code());
    notes
}

/// No lock of ours may be slower, with no thread waiting, than the best peer of the same algorithm.
fn goals(rows: &[LockRounds<Sample>]) -> Vec<Goal> {
    let ours = rows.iter().filter(|row| row.of.is_ours());
    ours.flat_map(|row| [goal(rows, row, false), goal(rows, row, true)]).flatten().collect()
}

/// The pair of a lock of ours, as a writer or as a reader, against the peer that makes it look worst: ratios round by round,
/// calls against calls.
fn goal(rows: &[LockRounds<Sample>], own: &LockRounds<Sample>, reading: bool) -> Option<Goal> {
    let inlined = |sample: &Sample| if reading { sample.reading } else { Some(sample.pair) };
    let called = |sample: &Sample| if reading { sample.called_reading } else { sample.called };
    let algorithm = own.of.same_as().map(|lock| lock.name);
    let peers = PEERS.iter().filter(|peer| peer.same_as == algorithm);
    let ratios = peers.filter_map(|peer| {
        let theirs = rows.iter().find(|row| row.of.name() == peer.name)?;
        let ours: Vec<_> = own
            .values
            .iter()
            .map(|sample| if peer.called { called(sample) } else { inlined(sample) })
            .collect();
        let theirs: Vec<_> = theirs.values.iter().map(inlined).collect();
        // How many times theirs ours takes.
        Some((peer.name, statistics::ratios(&theirs, &ours, Better::Higher)?))
    });
    let (peer, figure) = ratios.max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let name = own.of.name();
    Some(Goal {
        goal: "uncontended pair, times the best peer's of the same algorithm",
        subject: format!("{name}{} against {peer}", if reading { ", reading" } else { "" }),
        figure,
        bound: 1.0,
        at_least: false,
        noise_counts: true,
    })
}

/// What the release of a ticket lock compiles to, where that can be read.
#[cfg(target_arch = "x86_64")]
fn release_code() -> Option<String> {
    let start = workloads::exclusion::Called::<locks::Ticket<Native>, Native>::RELEASE as *const u8;
    // SAFETY: the code of a function, read up to its first return; none is shorter than 16 bytes, since functions are
    // aligned to that.
    let code = unsafe { std::slice::from_raw_parts(start, 16) };
    let shown = |code: &[u8]| code.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    Some(match increment_of_memory(code) {
        Some(bytes) => format!(
            "The release of `ticket` is one increment of memory without a lock prefix: `{}`, then the return.",
            shown(&code[..bytes])
        ),
        None => format!(
            "The release of `ticket` is not the one increment that it should be (an unoptimised build?): `{}`",
            shown(code)
        ),
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn release_code() -> Option<String> {
    None
}

/// The length of the code before the return, if that is a single `inc` or `add 1` of a 32-bit word of memory at an
/// address register, with or without a displacement of a byte.
#[cfg(any(target_arch = "x86_64", test))]
fn increment_of_memory(code: &[u8]) -> Option<usize> {
    const RETURN: u8 = 0xc3;
    let (opcode, modrm) = (*code.first()?, *code.get(1)?);
    let displacement = match modrm >> 6 {
        0b00 => 0,
        0b01 => 1,
        _ => return None,
    };
    // The middle bits choose the operation: 0 is inc for ff, add for 83.
    let immediate = match (opcode, modrm >> 3 & 7) {
        (0xff, 0) => 0,
        (0x83, 0) if code.get(2 + displacement) == Some(&1) => 1,
        _ => return None,
    };
    let length = 2 + displacement + immediate;
    (code.get(length) == Some(&RETURN)).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::report::Spread;
    use ::report::every_screen;

    #[test]
    fn fig_11_is_read_and_its_names_are_ours() {
        let rows = published();
        assert_eq!(rows.len(), 5);
        let ticket = rows.iter().find(|row| row.lock == "ticket").unwrap();
        assert_eq!((ticket.single_acquire, ticket.single_release, ticket.shared_acquire), (21.1, 2.4, 30.0));
        for row in rows {
            let own = LOCKS.iter().any(|lock| published_name(lock.name) == row.lock);
            assert!(own, "{} is none of our locks", row.lock);
        }
    }

    #[test]
    fn an_increment_is_told_from_other_code() {
        assert_eq!(increment_of_memory(&[0xff, 0x47, 0x04, 0xc3]), Some(3)); // inc dword [rdi+4]
        assert_eq!(increment_of_memory(&[0x83, 0x47, 0x04, 0x01, 0xc3]), Some(4)); // add dword [rdi+4], 1
        assert_eq!(increment_of_memory(&[0xff, 0x07, 0xc3]), Some(2)); // inc dword [rdi]
        assert_eq!(increment_of_memory(&[0xf0, 0xff, 0x47, 0x04, 0xc3]), None); // with a lock prefix
        assert_eq!(increment_of_memory(&[0xff, 0x4f, 0x04, 0xc3]), None); // dec
        assert_eq!(increment_of_memory(&[0xff, 0x47, 0x04, 0x90]), None); // and something else
        assert_eq!(increment_of_memory(&[0xff]), None);
    }

    #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
    #[test]
    fn a_ticket_release_is_one_increment() {
        let code = release_code().unwrap();
        assert!(code.contains("one increment of memory"), "{code}");
    }

    #[test]
    fn a_ratio_compares_calls_with_calls() {
        let sample = |pair, called| Sample {
            pair,
            called,
            reading: None,
            called_reading: None,
            acquire: 1.0,
            release: 1.0,
            shared_acquire: None,
            handover: None,
        };
        let row = |name: &str, pair, called| LockRounds {
            of: contenders::find(name).unwrap(),
            values: vec![sample(pair, called); 3],
            failure: None,
        };
        let rows = [row("ttas", 10.0, Some(15.0)), row("posix-spin", 20.0, None)];
        let goals = goals(&rows);
        assert_eq!(goals.len(), 1);
        assert_eq!(goals[0].figure, Spread { low: 0.75, median: 0.75, high: 0.75 });
        assert_eq!(goals[0].verdict(), "met");
    }

    #[test]
    fn the_table_on_every_screen() {
        let sample = |pair| Sample {
            pair,
            called: Some(1.2 * pair),
            reading: None,
            called_reading: None,
            acquire: 2.0 * pair,
            release: 0.5 * pair,
            shared_acquire: Some(210.0),
            handover: Some(345.6),
        };
        let row = |name: &str, failure: Option<&str>| LockRounds {
            of: contenders::find(name).unwrap(),
            values: if failure.is_some() {
                Vec::new()
            } else {
                vec![sample(18.0), sample(20.0), sample(25.0)]
            },
            failure: failure.map(str::to_owned),
        };
        let rows = [row("ticket-proportional", None), row("posix-mutex", None), row("mcs", Some("over 3 s"))];
        let names = ["ticket-proportional", "posix-mutex", "mcs"];
        insta::assert_snapshot!(every_screen(&names, |screen| table(&rows, 2.5).terminal(screen)));
    }
}
