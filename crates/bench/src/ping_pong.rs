//! Hand-overs as multiples of what a line takes between two cores.

use super::Common;
use super::contenders::{self, Contender, Wait};
use super::cost::Single;
use super::findings::{Drawing, Findings, Goal, Part};
use super::handover::{self, Floor};
use super::limited;
use super::timing::{Bench, LockRounds, failure_column, interleaved, stamp_cycles};
use ::report::{Cell, Column, RangePlot, Table};
use compare::calibrate::time::{middle, transfer_ns};
use compare::statistics::{self, Better};
use locks::catalogue::Family;
use machine::Ordering::{Acquire, Release};
use machine::{Clock, Home, Machine, Native, Place, Placed, Plan, Word};
use serde::{Deserialize, Serialize};
use session::interrupt;
use session::noise::Watch;
use std::sync::Mutex;
use workloads::client::Wrong;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Locks and rounds.
    pub common: Common,
    /// How many cores want the lock, at least 2 and at most those there are; 2, 4, 8, … all if there is no number.
    pub threads: Vec<u16>,
}

/// A queue or ticket lock may take so many times the floor, besides its own instructions.
const GOAL_TIMES_FLOOR: f64 = 1.3;

/// The locks of ours whose release follows a link that the waiter has written. Other libraries' have the same algorithms.
const LINKED: [&str; 4] = ["mcs", "mcs-tp", "k42", "osq"];

/// What a lock's hand-over has to move: see [`handover`].
fn floor_of(contender: &Contender) -> Floor {
    let linked = contender.same_as().is_some_and(|lock| LINKED.contains(&lock.name));
    if linked { Floor::TwoLines } else { Floor::OneLine }
}

/// All acquisitions of a run, shared out to its threads.
const ACQUISITIONS: u32 = 8_000;

/// What passes between cores of one distance, one figure a round.
struct Distance {
    between: &'static str,
    cores: [u32; 2],
    /// A word that both change in turn, by store and load.
    message_ns: Vec<f64>,
    /// The same by compare-and-swap.
    transfer_ns: Vec<f64>,
    /// What locks are compared with: hand-overs without a lock.
    one_line_ns: Vec<f64>,
    two_lines_ns: Vec<f64>,
}

/// One way of a word that two cores store to in turn, each waiting by reading, in ns.
fn message_ns(cores: [u32; 2]) -> Vec<f64> {
    const BATCHES: u32 = 200;
    const ROUND_TRIPS: u32 = 100;
    #[repr(align(128))]
    struct Line(<Native as Machine>::U32);
    let word = Placed::<_, Native>::new(Line(Word::ZERO), Home::FirstTouch);
    let sample = Mutex::new(Vec::new());
    Native::run(&Plan::on(&cores), &|thread| {
        let now_ns = || Native::clock_ns(Clock::Monotonic);
        let mut mine = Vec::new();
        for batch in 0..BATCHES {
            let start_ns = now_ns();
            for trip in 0..ROUND_TRIPS {
                // Even values let thread 0 write, odd ones thread 1. No pause: it would be timed along.
                let turn = 2 * (batch * ROUND_TRIPS + trip) + thread as u32;
                while word.0.load(Acquire) != turn {} // [1] from the other core
                word.0.store(turn + 1, Release); // [1] to the other core
            }
            mine.push((now_ns() - start_ns) as f64 / f64::from(2 * ROUND_TRIPS));
        }
        if thread == 0 {
            // The first batch holds the start of the other thread.
            sample.lock().expect("no holder panics").extend(mine.drain(1..));
        }
    });
    sample.into_inner().expect("no holder panics")
}

/// A pair of cores of each distance that the machine has, the first core in each.
fn distances(bench: &Bench) -> Vec<Distance> {
    type Apart = fn(&Place, &Place) -> bool;
    let kinds: [(&str, Apart); 3] = [
        ("cores of one last-level cache", |a, b| a.die == b.die),
        ("caches of one socket", |a, b| a.socket == b.socket && a.die != b.die),
        ("sockets", |a, b| a.socket != b.socket),
    ];
    let Some((first, others)) = bench.topology.places.split_first() else { return Vec::new() };
    let pair = |(between, apart): (&'static str, Apart)| {
        let second = others.iter().find(|other| apart(first, other))?;
        Some(Distance {
            between,
            cores: [first.core, second.core],
            message_ns: Vec::new(),
            transfer_ns: Vec::new(),
            one_line_ns: Vec::new(),
            two_lines_ns: Vec::new(),
        })
    };
    kinds.into_iter().filter_map(pair).collect()
}

impl Distance {
    fn run(&mut self, bench: &Bench, stamp_cycles: f64) {
        let median = |sample: Vec<f64>| middle(&sample).map(|spread| spread.median);
        let floor_ns = |floor| floor_ns(bench, floor, self.cores, stamp_cycles);
        self.message_ns.extend(median(message_ns(self.cores)));
        self.transfer_ns.extend(median(transfer_ns(self.cores)));
        self.one_line_ns.extend(floor_ns(Floor::OneLine));
        self.two_lines_ns.extend(floor_ns(Floor::TwoLines));
    }
}

/// A hand-over without a lock between these cores; none where the threads never ran together.
fn floor_ns(bench: &Bench, floor: Floor, cores: [u32; 2], stamp_cycles: f64) -> Option<f64> {
    Some(floor.cycles(cores, ACQUISITIONS / 2, stamp_cycles)? / bench.ghz)
}

/// What one round says of one lock: all of it taken one after the other, so that ratios hold on a machine that gets
/// slower.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Sample {
    /// From a release to the acquisition of a core that waits.
    handover_ns: f64,
    /// A release when no thread waits. An acquisition has no part in a hand-over: the waiter has done it before, but for its last poll.
    release_ns: f64,
    /// The floor of such a lock between the first two cores.
    floor_ns: f64,
}

impl Sample {
    fn times_floor(&self) -> f64 {
        self.handover_ns / self.floor_ns
    }

    /// The same without the instructions of the release.
    fn waiting_times_floor(&self) -> f64 {
        ((self.handover_ns - self.release_ns) / self.floor_ns).max(0.0)
    }
}

/// Measures one lock once; none where the threads never ran together.
fn sample(
    bench: &Bench,
    contender: &Contender,
    cores: &[u32],
    stamp_cycles: f64,
) -> Option<Result<Sample, Wrong>> {
    let turns = (ACQUISITIONS / cores.len() as u32).max(50);
    let floor_ns = floor_ns(bench, floor_of(contender), [cores[0], cores[1]], stamp_cycles)?;
    let single = contender.measure(Wait::Pure, Single { core: cores[0], stamp_cycles })?;
    let handover = handover::lock_cycles(contender, cores, turns, stamp_cycles)?;
    let assemble = || {
        let (_, release) = single?;
        Ok(Sample { handover_ns: handover? / bench.ghz, release_ns: release / bench.ghz, floor_ns })
    };
    Some(assemble())
}

/// So many cores at the lock, and what it came to.
type Contended = (usize, Vec<LockRounds<Sample>>);

fn measure(
    bench: &Bench,
    options: &Options,
    chosen: &[Contender],
    thread_counts: &[usize],
    stamp_cycles: f64,
) -> Vec<Contended> {
    let runs = options.common.runs;
    let progress = bench.start(chosen.len() * thread_counts.len() * (runs as usize + 1));
    let contended = |&threads: &usize| {
        let cores = bench.pinned(threads);
        let rows = interleaved(chosen, runs, &*progress, |contender| {
            limited::measured(options.common.limit, || sample(bench, contender, &cores, stamp_cycles))
        });
        (threads, rows)
    };
    let measured = thread_counts.iter().map(contended).collect();
    drop(progress);
    measured
}

/// How many cores are to want the lock.
fn thread_counts(bench: &Bench, asked: &[u16]) -> anyhow::Result<Vec<usize>> {
    anyhow::ensure!(
        bench.cores() > 1,
        "this process may use one core; a line's way between cores needs two (see `taskset -p $$`)"
    );
    let thread_counts: Vec<usize> = match asked {
        [] => bench.up_to_cores().into_iter().filter(|&n| n > 1).collect(),
        _ => asked.iter().map(|&n| usize::from(n)).collect(),
    };
    let most = thread_counts.iter().copied().max().unwrap_or(2);
    session::ensure_usage!(
        most <= bench.cores(),
        "{most} cores were asked for and this process may use {}; hand-overs between threads that share a core are \
         what `contend bench throughput` shows",
        bench.cores()
    );
    Ok(thread_counts)
}

/// Measures.
///
/// # Errors
///
/// A name that no lock has, or what this machine does not have.
pub fn run(bench: &Bench, options: &Options) -> anyhow::Result<Findings> {
    let chosen = contenders::select(&options.common.lock)?;
    let thread_counts = thread_counts(bench, &options.threads)?;
    let watch = Watch::start();
    let stamp_cycles = stamp_cycles();
    let mut distances = distances(bench);
    for _ in (0..options.common.runs).take_while(|_| !interrupt::came()) {
        distances.iter_mut().for_each(|distance| distance.run(bench, stamp_cycles));
    }
    let measured = measure(bench, options, &chosen, &thread_counts, stamp_cycles);
    let noise = watch.stop();
    let mut plot = RangePlot::new("Hand-over between two cores", "ns", Better::Lower);
    for row in measured.first().map(|(_, rows)| rows.as_slice()).unwrap_or_default() {
        plot.row(row.of.name(), row.spread(|sample| sample.handover_ns));
    }
    let transfer = distances.first().and_then(|distance| statistics::spread(&distance.transfer_ns));
    Ok(Findings {
        workload: "ping-pong",
        parts: vec![
            Part {
                key: "floor",
                heading: "A line between two cores".into(),
                table: floor_table(&distances),
                notes: vec![
                    "Half of the round trip of a word that two cores change in turn: by stores, each core waiting by \
                     reading; and by compare-and-swap alone."
                        .into(),
                    "The floors are hand-overs between two threads that take turns without any lock, timed as the locks' are below. \
                     One line: the release writes the word that the waiter polls, and knows it beforehand, as in ticket, array and \
                     CLH locks. Two lines: it first reads, on a line that the waiter has written since, where that one polls, as in \
                     MCS and its kin; the second line cannot travel before the first has come."
                        .into(),
                ],
            },
            Part {
                key: "handover",
                heading: "Hand-over to a core that waits".into(),
                table: handover_table(&measured, transfer.map(|spread| spread.median)),
                notes: vec![
                    "From the release to the waiter's acquisition; multiples are of the floor of such a lock, timed just before \
                     it. `less own` leaves out the lock's own instructions, which are its release when no thread waits."
                        .into(),
                ],
            },
        ],
        goals: goals(&measured),
        drawing: Drawing::Ranges(plot),
        noise,
    })
}

fn floor_table(distances: &[Distance]) -> Table {
    let mut table = Table::new([
        Column::text("between", "between"),
        Column::text("cores", "cores"),
        Column::spread("message_ns", "by store and load ns"),
        Column::spread("transfer_ns", "by compare-and-swap ns"),
        Column::spread("one_line_ns", "one line ns"),
        Column::spread("two_lines_ns", "two lines ns"),
    ]);
    for distance in distances {
        let figures =
            [&distance.message_ns, &distance.transfer_ns, &distance.one_line_ns, &distance.two_lines_ns];
        let names =
            [Cell::from(distance.between), format!("{}, {}", distance.cores[0], distance.cores[1]).into()];
        table.row(names.into_iter().chain(figures.map(|ns| statistics::spread(ns).into())));
    }
    table
}

fn handover_table(measured: &[Contended], transfer_ns: Option<f64>) -> Table {
    let mut table = Table::new([
        Column::text("lock", "lock"),
        Column::text("library", "library"),
        Column::number("threads", "cores at the lock"),
        Column::spread("handover_ns", "hand-over ns"),
        Column::spread("times_floor", "times the floor"),
        Column::spread("less_own_times_floor", "less own"),
        Column::text("floor", "floor"),
        Column::number("release_ns", "own ns").detail(),
        Column::number("times_compare_and_swap", "times compare-and-swap").detail(),
        failure_column(measured.iter().flat_map(|(_, rows)| rows)),
    ]);
    for (threads, rows) in measured {
        for row in rows {
            let ns = row.spread(|sample| sample.handover_ns);
            table.row([
                Cell::from(row.of.name()),
                row.of.library().into(),
                (*threads).into(),
                row.cell(|sample| sample.handover_ns),
                row.spread(Sample::times_floor).into(),
                row.spread(Sample::waiting_times_floor).into(),
                floor_of(&row.of).name().into(),
                row.spread(|sample| sample.release_ns).map(|spread| spread.median).into(),
                ns.zip(transfer_ns).map(|(ns, transfer_ns)| ns.median / transfer_ns).into(),
                row.failure.clone().into(),
            ]);
        }
    }
    table
}

/// Queue and ticket locks of ours: the hand-over between two cores, less the lock's own instructions, in multiples of their
/// floor.
fn goals(measured: &[Contended]) -> Vec<Goal> {
    let Some((_, rows)) = measured.iter().find(|(threads, _)| *threads == 2) else { return Vec::new() };
    let queued = rows.iter().filter(|row| match row.of {
        // A ticket lock that backs off has the family of its waiting.
        Contender::Own(lock) => {
            matches!(lock.family, Family::Queue | Family::Ticket) || lock.name.starts_with("ticket")
        }
        Contender::McsQueue => true,
        Contender::Peer(_) => false,
    });
    let goal = |row: &LockRounds<Sample>| {
        Some(Goal {
            goal: match floor_of(&row.of) {
                Floor::OneLine => "hand-over less the lock's own instructions, times the floor of one line",
                Floor::TwoLines => "hand-over less the lock's own instructions, times the floor of two lines",
            },
            subject: row.of.name().into(),
            figure: row.spread(Sample::waiting_times_floor)?,
            bound: GOAL_TIMES_FLOOR,
            at_least: false,
            noise_counts: false,
        })
    };
    queued.filter_map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::report::every_screen;
    use machine::Topology;
    use session::progress::Unwatched;
    use std::time::Duration;

    #[test]
    fn each_distance_has_its_pair() {
        let place = |socket, die, core| Place { socket, die, core, node: socket };
        let places = vec![place(0, 0, 0), place(0, 0, 1), place(0, 2, 2), place(1, 4, 4)];
        let bench =
            Bench { ghz: 1.0, topology: Topology { places }, later: Duration::ZERO, progress: &Unwatched };
        let pairs: Vec<_> = distances(&bench).iter().map(|distance| distance.cores).collect();
        assert_eq!(pairs, [[0, 1], [0, 2], [0, 4]]);
        assert!(distances(&Bench { topology: Topology::default(), ..bench }).is_empty());
    }

    #[test]
    fn own_instructions_are_not_held_against_queue_and_ticket_locks() {
        let row = |name: &str, handover_ns| LockRounds {
            of: contenders::find(name).unwrap(),
            values: vec![Sample { handover_ns, release_ns: 10.0, floor_ns: 50.0 }; 3],
            failure: None,
        };
        let rows = vec![
            row("ticket-proportional", 70.0),
            row("mcs", 80.0),
            row("tas-backoff", 900.0),
            row("posix-spin", 900.0),
        ];
        let verdicts: Vec<_> =
            goals(&[(2, rows)]).iter().map(|goal| (goal.subject.clone(), goal.verdict())).collect();
        assert_eq!(verdicts, [("ticket-proportional".into(), "met"), ("mcs".into(), "missed")]);
    }

    #[test]
    fn locks_with_links_have_the_floor_of_two_lines() {
        for name in LINKED {
            assert!(locks::catalogue::find(name).is_some(), "{name}");
        }
        let floor = |name: &str| floor_of(&contenders::find(name).unwrap());
        for name in ["mcs", "mcs-queue", "mcslock", "k42"] {
            assert_eq!(floor(name), Floor::TwoLines, "{name}");
        }
        for name in ["ticket", "anderson", "clh", "clhlock", "posix-mutex"] {
            assert_eq!(floor(name), Floor::OneLine, "{name}");
        }
    }

    #[test]
    fn the_tables_on_every_screen() {
        let distances = [Distance {
            between: "cores of one last-level cache",
            cores: [0, 1],
            message_ns: vec![48.0, 50.0, 52.0],
            transfer_ns: vec![60.0, 61.0, 70.0],
            one_line_ns: vec![54.0, 55.0, 58.0],
            two_lines_ns: vec![84.0, 85.0, 88.0],
        }];
        let row = |name: &str, handover_ns| LockRounds {
            of: contenders::find(name).unwrap(),
            values: vec![Sample { handover_ns, release_ns: 10.0, floor_ns: 50.0 }; 3],
            failure: None,
        };
        let measured = [(2, vec![row("ticket-proportional", 70.0), row("posix-mutex", 8_000.0)])];
        let tables = |screen| {
            format!(
                "{}\n{}",
                floor_table(&distances).terminal(screen),
                handover_table(&measured, Some(61.0)).terminal(screen)
            )
        };
        insta::assert_snapshot!(every_screen(&["ticket-proportional", "posix-mutex"], tables));
    }
}
