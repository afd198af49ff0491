//! `contend bench cost`: what a lock costs when nobody waits.

use super::contenders::{Contender, Measure, Waiting};
use super::findings::{Drawing, Findings, Goal, Part};
use super::handover;
use super::timing::{Bench, Row, interleaved, progress, stamp, stamp_cycles};
use super::{Common, contenders};
use crate::calibrate::measure::middle;
use crate::compare::statistics::{self, Better};
use crate::noise::Watch;
use ::report::{Cell, Column, RangePlot, Table};
use locks::Ticket;
use machine::Ordering::{Acquire, Release};
use machine::{Home, Machine, Native, Placed, PlainCell, Plan, Word};
use peers::PEERS;
use serde::Deserialize;
use std::sync::Mutex;
use workloads::client::Wrong;
use workloads::exclusion::{Called, Exclusion};

/// What acquiring and releasing costs when nobody waits, and what it costs to get a lock from another core
///
/// Columns, in cycles of the cycle counter:
///   pair            acquisition and release in a loop of one core, a counter incremented inside
///   through calls   the same by a function call for each, which is how C libraries are reached
///   acquire         a single acquisition, everything before it finished
///   release         a single release, likewise
///   shared acquire  an acquisition of a free lock that another core released last
///   hand-over       from a release to the acquisition of the core that waits
/// The published columns are fig. 11 of "Non-scalable locks are dangerous" (2012), on another machine.
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  contend bench cost
  contend bench cost --lock ticket,ck-ticket,spin-ticket --runs 11
  contend bench cost --json | jq '.tables.cost[] | {lock, pair_cycles}'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
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
    let text = include_str!("../../../data/published/fig11_lock_cost.csv");
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
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) pair: f64,
    called: Option<f64>,
    acquire: f64,
    release: f64,
    shared_acquire: Option<f64>,
    pub(crate) handover: Option<f64>,
}

#[repr(C, align(128))]
struct Guarded<S, C> {
    lock: S,
    count: C,
}

impl<S: Exclusion> Guarded<S, <Native as Machine>::Cell<u64>> {
    fn placed() -> Placed<Self, Native> {
        Placed::new(Self { lock: S::new(), count: PlainCell::ZERO }, Home::FirstTouch)
    }

    #[inline]
    fn touch(&self) {
        self.count.set(self.count.get() + 1);
    }

    fn adds_up(&self, ran: u64) -> Result<(), Wrong> {
        let counted = self.count.get();
        if ran == counted { Ok(()) } else { Err(Wrong::Lost { ran, counted }) }
    }
}

fn median(sample: &[f64]) -> f64 {
    middle(sample).map_or(f64::NAN, |spread| spread.median)
}

/// Runs on one core and gives what it gives.
fn on_core<T: Send>(core: u32, body: impl Fn() -> T + Sync) -> T {
    let result = Mutex::new(None);
    Native::run(&Plan { threads: 1, cores: &[core], duration_ns: None }, &|_| {
        *result.lock().expect("no holder panics") = Some(body());
    });
    result.into_inner().expect("no holder panics").expect("the body ran")
}

/// Cycles of an acquisition and a release, in a loop.
pub(crate) struct Pair {
    /// Where it runs.
    pub(crate) core: u32,
}

impl Measure for Pair {
    type Output = Result<f64, Wrong>;

    fn measure<M: Machine, S: Exclusion>(self) -> Self::Output {
        const BATCHES: u32 = 40;
        const PAIRS: u32 = 2_000;
        let guarded = Guarded::<S, _>::placed();
        let cycles = on_core(self.core, || {
            let batch = |_| {
                let start = stamp();
                for _ in 0..PAIRS {
                    guarded.lock.exclusive(|| guarded.touch());
                }
                (stamp() - start) as f64 / f64::from(PAIRS)
            };
            median(&(0..BATCHES).map(batch).collect::<Vec<_>>())
        });
        guarded.adds_up(u64::from(BATCHES) * u64::from(PAIRS))?;
        Ok(cycles)
    }
}

/// Cycles of a single acquisition and of a single release, the stamps taken off.
struct Single {
    core: u32,
    stamp_cycles: f64,
}

impl Measure for Single {
    type Output = Result<(f64, f64), Wrong>;

    fn measure<M: Machine, S: Exclusion>(self) -> Self::Output {
        const BATCHES: u32 = 100;
        const TURNS: u32 = 100;
        let guarded = Guarded::<S, _>::placed();
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
        let guarded = Guarded::<S, _>::placed();
        let turn = Placed::<_, Native>::new(<Native as Machine>::U32::ZERO, Home::FirstTouch);
        let sample = Mutex::new(Vec::new());
        Native::run(&Plan { threads: 2, cores: &self.cores, duration_ns: None }, &|thread| {
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
    let (pair, single) = (
        contender.measure(Waiting::Pure, Pair { core })?,
        contender.measure(Waiting::Pure, Single { core, stamp_cycles })?,
    );
    let called = contender.measure_called(Pair { core });
    let between = bench.neighbours().map(|cores| {
        let shared = contender.measure(Waiting::Pure, SharedAcquire { cores, stamp_cycles })?;
        Some((shared, handover::median_cycles(contender, &cores, HANDOVER_TURNS, stamp_cycles)))
    });
    let assemble = || {
        let (acquire, release) = single?;
        let (shared_acquire, handover) = match between.flatten() {
            None => (None, None),
            Some((shared, handover)) => (Some(shared?), handover.transpose()?),
        };
        Ok(Sample { pair: pair?, called: called.transpose()?, acquire, release, shared_acquire, handover })
    };
    Some(assemble())
}

/// Measures locks by what they cost.
pub(crate) fn measure(bench: &Bench, chosen: &[Contender], runs: u32) -> Vec<Row<Sample>> {
    let progress = progress(chosen.len() * (runs as usize + 1));
    let stamp_cycles = stamp_cycles();
    let rows = interleaved(chosen, runs, &progress, |contender| sample(contender, bench, stamp_cycles));
    progress.finish_and_clear();
    rows
}

/// Runs `contend bench cost`.
pub(crate) fn run(bench: &Bench, args: &Args) -> anyhow::Result<Findings> {
    let chosen = contenders::select(&args.common.lock)?;
    let watch = Watch::start();
    let rows = measure(bench, &chosen, args.common.runs);
    let noise = watch.stop();
    let mut plot = RangePlot::new("Acquire and release, nobody waiting", "cycles");
    for row in &rows {
        plot.row(row.contender.name(), row.spread(|sample| sample.pair));
    }
    Ok(Findings {
        workload: "cost",
        parts: vec![Part {
            key: "cost",
            heading: "Acquire and release when nobody waits, in cycles".into(),
            table: table(&rows, bench.ghz),
            notes: notes(bench),
        }],
        goals: goals(&rows),
        drawing: Drawing::Ranges(plot),
        noise,
    })
}

fn table(rows: &[Row<Sample>], ghz: f64) -> Table {
    let published = published();
    let mut table = Table::new([
        Column::text("lock", "lock"),
        Column::text("library", "library"),
        Column::spread("pair_cycles", "pair"),
        Column::number("pair_ns", "pair ns"),
        Column::number("called_pair_cycles", "through calls"),
        Column::number("single_acquire_cycles", "acquire"),
        Column::number("single_release_cycles", "release"),
        Column::number("shared_acquire_cycles", "shared acquire"),
        Column::number("handover_cycles", "hand-over"),
        Column::number("published_acquire_cycles", "acquire, 2012").detail(),
        Column::number("published_release_cycles", "release, 2012").detail(),
        Column::number("published_shared_cycles", "shared, 2012").detail(),
        Column::text("failure", "failure").detail(),
    ]);
    for row in rows {
        let name = row.contender.name();
        let figure = |figure: fn(&Sample) -> f64| row.spread(figure).map(|spread| spread.median);
        let optional = |figure: fn(&Sample) -> Option<f64>| {
            let values: Vec<f64> = row.values.iter().filter_map(figure).collect();
            statistics::spread(&values).map(|spread| spread.median)
        };
        let paper = matches!(row.contender, Contender::Own(_))
            .then(|| published.iter().find(|paper| paper.lock == published_name(name)))
            .flatten();
        table.row([
            Cell::from(name),
            row.contender.library().into(),
            row.spread(|sample| sample.pair).into(),
            figure(|sample| sample.pair).map(|cycles| cycles / ghz).into(),
            optional(|sample| sample.called).into(),
            figure(|sample| sample.acquire).into(),
            figure(|sample| sample.release).into(),
            optional(|sample| sample.shared_acquire).into(),
            optional(|sample| sample.handover).into(),
            paper.map(|paper| paper.single_acquire).into(),
            paper.map(|paper| paper.single_release).into(),
            paper.map(|paper| paper.shared_acquire).into(),
            row.failure.clone().into(),
        ]);
    }
    table
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
    notes.extend(release_code());
    notes
}

/// No lock of ours may be slower, nobody waiting, than the best peer of the same algorithm: ratios round by round,
/// calls against calls.
fn goals(rows: &[Row<Sample>]) -> Vec<Goal> {
    let own = rows.iter().filter(|row| matches!(row.contender, Contender::Own(_)) && !row.values.is_empty());
    own.filter_map(|row| {
        let peers = PEERS.iter().filter(|peer| peer.same_as == Some(row.contender.name()));
        let ratios = peers.filter_map(|peer| {
            let theirs = rows.iter().find(|row| row.contender.name() == peer.name)?;
            let ours: Vec<_> =
                row.values.iter().map(|s| if peer.called { s.called } else { Some(s.pair) }).collect();
            let theirs: Vec<_> = theirs.values.iter().map(|s| Some(s.pair)).collect();
            // Times: how many times theirs ours takes.
            Some((peer.name, statistics::ratios(&theirs, &ours, Better::Higher)?))
        });
        let (peer, figure) = ratios.max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
        Some(Goal {
            goal: "uncontended pair, times the best peer's of the same algorithm",
            subject: format!("{} against {peer}", row.contender.name()),
            figure,
            bound: 1.0,
            at_least: false,
        })
    })
    .collect()
}

/// What the release of a ticket lock compiles to, where that can be read.
#[cfg(target_arch = "x86_64")]
fn release_code() -> Option<String> {
    let start = Called::<Ticket<Native>, Native>::RELEASE as *const u8;
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

    #[test]
    fn fig_11_is_read_and_its_names_are_ours() {
        let rows = published();
        assert_eq!(rows.len(), 5);
        let ticket = rows.iter().find(|row| row.lock == "ticket").unwrap();
        assert_eq!((ticket.single_acquire, ticket.single_release, ticket.shared_acquire), (21.1, 2.4, 30.0));
        for row in rows {
            let own = locks::catalogue::LOCKS.iter().any(|lock| published_name(lock.name) == row.lock);
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
            acquire: 1.0,
            release: 1.0,
            shared_acquire: None,
            handover: None,
        };
        let row = |name: &str, pair, called| Row {
            contender: contenders::find(name).unwrap(),
            values: vec![sample(pair, called); 3],
            failure: None,
        };
        let rows = [row("ttas", 10.0, Some(15.0)), row("glibc-spin", 20.0, None)];
        let goals = goals(&rows);
        assert_eq!(goals.len(), 1);
        assert_eq!(goals[0].figure, Spread { low: 0.75, median: 0.75, high: 0.75 });
        assert_eq!(goals[0].verdict(), "met");
    }
}
