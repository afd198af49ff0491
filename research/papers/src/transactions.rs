//! Sections as transactions of the hardware, simulated: what is published of them are shapes, so that orderings are met or missed.

use crate::Reproduction;
use crate::seeds::{self, BySeed, Repeated, Unstable, is_unstable, throughput_curve};
use crate::simulated::{hardware, lock_name, workload};
use crate::verdict::{SIMULATOR, Score, TRANSACTIONS, Verdict, is_more};
use anyhow::{Context as _, bail};
use curve::{COLLAPSE_SHARE, Curve, Point, Provenance, Series, Unit};
use machine::transaction::Cause;
use report::{Cell, Column, Spread, Table};
use session::progress::Progress;
use simulate::{NO_LOCK, Setup, SimulatedRun};
use simulator::Hardware;
use workloads::Workload;
use workloads::catalogue::Body;
use workloads::transactional::Table as Lines;

/// A machine that has transactions.
const MACHINE: &str = "xeon-e5-2680v4x2";
const CORES: [u32; 6] = [1, 2, 4, 8, 14, 28];
/// The cores of the published experiment.
const PUBLISHED_CORES: u32 = 8;
const DURATION_NS: u64 = 3_000_000;

const GLIBCS: &str = "elided:ticket";
const WHEN_FREE: &str = "elided-when-free:ticket";
const ONE_BY_ONE: &str = "elided-one-by-one:ticket";
const LESS_OFTEN: &str = "elided-less-often:ticket";
const LAZY: &str = "elided-lazy:ticket";
const ELIDED: [&str; 5] = [GLIBCS, WHEN_FREE, ONE_BY_ONE, LESS_OFTEN, LAZY];
const ALL: [&str; 7] = ["ticket", "mcs", ELIDED[0], ELIDED[1], ELIDED[2], ELIDED[3], ELIDED[4]];

/// What runs beside each other in one picture: a workload with each of these locks; and others, which need no lock or have one for each
/// thread, the ticket lock, under the names of their curves.
struct Picture {
    workload: &'static str,
    locks: &'static [&'static str],
    beside: &'static [(&'static str, &'static str)],
}

const PICTURES: [Picture; 7] = [
    Picture {
        workload: "ipc",
        locks: &ALL,
        beside: &[("ipc-unlocked", "no lock"), ("ipc-fine", "a lock for each pair")],
    },
    Picture { workload: "tm-counters-apart", locks: &ALL, beside: &[] },
    Picture { workload: "tm-counters", locks: &ALL, beside: &[] },
    Picture { workload: "tm-counters-one", locks: &ALL, beside: &[] },
    Picture { workload: "tm-table-past-cache", locks: &ALL, beside: &[] },
    Picture {
        workload: "mount-table",
        locks: &ALL,
        beside: &[("mount-table-lockless", "no lock"), ("mount-table-fine", "a lock for each bucket")],
    },
    Picture {
        workload: "files-lock",
        locks: &ALL,
        beside: &[("files-lock-unlocked", "no lock"), ("files-lock-fine", "a lock for each core")],
    },
];

/// One thing that is said of a ratio.
struct Claim {
    what: String,
    one: (&'static str, &'static str),
    other: (&'static str, &'static str),
    cores: u32,
    least: f64,
    most: f64,
    source: Source,
}

/// The claim of a queue lock that goes on where the ticket lock collapses.
const AVOIDS: &str = "a queue lock avoids collapse";

impl Claim {
    fn wanted(&self) -> String {
        if self.most.is_finite() {
            format!("at most {}", self.most)
        } else {
            format!("at least {}", self.least)
        }
    }

    fn is_of_collapse(&self) -> bool {
        matches!(self.source, Source::Published { claim: AVOIDS, .. })
    }
}

/// Who says it.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// A published claim, which several rows may judge, and where it is published.
    Published { claim: &'static str, place: &'static str },
    /// No publication: an expectation of ours, which is not counted among the claims.
    Expected,
    /// No publication: what the machine keeps of a transaction is an input, and comes out again.
    Input,
}

impl Source {
    fn place(self) -> &'static str {
        match self {
            Self::Published { place, .. } => place,
            Self::Expected | Self::Input => "no published figure",
        }
    }
}

/// A claim of the lecture on a microkernel's messages.
const fn lecture(claim: &'static str) -> Source {
    Source::Published { claim, place: "the lecture on transactional memory: a microkernel's messages" }
}
/// A claim of the lecture on locks and what scales.
const fn scaling(claim: &'static str) -> Source {
    Source::Published {
        claim,
        place: "the lecture on transactional memory: avoiding collapse is not yet scaling",
    }
}
const REPAIRS: Source = Source::Published {
    claim: "both repairs do more than plain elision",
    place: "Afek, Levy and Morrison 2014: both repairs do more than plain elision",
};
const OF_OURS: Source = Source::Expected;
/// What is believed to be lacking where a published claim is missed.
const LACKING: &str = "the policy that the lecture's library had after an abort, which it does not name";

fn claims() -> Vec<Claim> {
    let unlocked = ("ipc-unlocked", "ticket");
    let ipc = |what: String, lock, least, most, source| Claim {
        what,
        one: ("ipc", lock),
        other: unlocked,
        cores: PUBLISHED_CORES,
        least,
        most,
        source,
    };
    let mut claims = vec![
        Claim {
            what: "a lock for each pair scales like no lock".into(),
            one: ("ipc-fine", "ticket"),
            ..ipc(String::new(), "ticket", SCALES_ALIKE, f64::INFINITY, lecture("fine locks scale"))
        },
        ipc("the big lock does not scale".into(), "ticket", 0.0, 0.5, lecture("a big lock does not scale")),
        ipc("the big lock does not scale as a queue lock either".into(), "mcs", 0.0, 0.5, OF_OURS),
    ];
    for lock in ELIDED {
        let source = lecture("elision scales like no lock");
        claims.push(ipc(format!("{lock} scales like no lock"), lock, SCALES_ALIKE, f64::INFINITY, source));
    }
    for lock in ELIDED {
        let beside_ticket = |workload, least, most, what: &str| Claim {
            what: format!("{lock} {what}"),
            one: (workload, lock),
            other: (workload, "ticket"),
            cores: PUBLISHED_CORES,
            least,
            most,
            source: OF_OURS,
        };
        claims.push(beside_ticket("tm-counters-apart", 2.0, f64::INFINITY, "gains where nothing conflicts"));
        claims.push(beside_ticket("tm-counters-one", 0.0, 1.1, "gains nothing where all conflict"));
    }
    for lock in [ONE_BY_ONE, LAZY] {
        claims.push(Claim {
            what: format!("{lock} does more than {GLIBCS}"),
            one: ("tm-counters", lock),
            other: ("tm-counters", GLIBCS),
            cores: PUBLISHED_CORES,
            least: 1.0,
            most: f64::INFINITY,
            source: REPAIRS,
        });
    }
    claims.push(Claim {
        what: format!("{LAZY} does more than {WHEN_FREE} where writers must acquire the lock"),
        one: ("tm-table-past-cache", LAZY),
        other: ("tm-table-past-cache", WHEN_FREE),
        cores: PUBLISHED_CORES,
        least: 1.0,
        most: f64::INFINITY,
        source: OF_OURS,
    });
    claims.extend(scaling_claims());
    claims
}

/// What the lecture says of locks and of what scales, on all cores.
fn scaling_claims() -> [Claim; 8] {
    let with_all_cores = |what: &str, one, other, claim| Claim {
        what: what.into(),
        one,
        other,
        cores: CORES[CORES.len() - 1],
        least: 1.0,
        most: f64::INFINITY,
        source: scaling(claim),
    };
    let (look_up, list) = ("mount-table", "files-lock");
    const QUEUE: &str = "elision does more than a queue lock";
    const FINE: &str = "doing without a common lock does more than eliding it";
    [
        with_all_cores(
            "a queue lock avoids the ticket lock's collapse",
            (look_up, "mcs"),
            (look_up, "ticket"),
            AVOIDS,
        ),
        with_all_cores(
            &format!("{LESS_OFTEN} does more than a queue lock"),
            (look_up, LESS_OFTEN),
            (look_up, "mcs"),
            QUEUE,
        ),
        with_all_cores(
            &format!("{ONE_BY_ONE} does more than a queue lock"),
            (look_up, ONE_BY_ONE),
            (look_up, "mcs"),
            QUEUE,
        ),
        with_all_cores(
            "doing without a lock does more than eliding",
            ("mount-table-lockless", "ticket"),
            (look_up, ONE_BY_ONE),
            FINE,
        ),
        with_all_cores(
            "a queue lock avoids the ticket lock's collapse",
            (list, "mcs"),
            (list, "ticket"),
            AVOIDS,
        ),
        Claim {
            least: 0.0,
            most: 2.0,
            ..with_all_cores(
                "eliding does not scale where all change the list's head",
                (list, ONE_BY_ONE),
                (list, "mcs"),
                "eliding does not scale where all conflict",
            )
        },
        Claim {
            least: 2.0,
            ..with_all_cores(
                "a lock for each core does more than eliding",
                ("files-lock-fine", "ticket"),
                (list, ONE_BY_ONE),
                FINE,
            )
        },
        Claim {
            least: SCALES_ALIKE,
            ..with_all_cores(
                "a lock for each core scales like no lock",
                ("files-lock-fine", "ticket"),
                ("files-lock-unlocked", "ticket"),
                "a lock for each core scales",
            )
        },
    ]
}

/// Two curves scale alike within this share.
const SCALES_ALIKE: f64 = 0.9;
/// Extremely few aborts: of a hundred transactions.
const FEW_PERCENT: f64 = 1.0;

/// Lock elision.
pub(crate) fn tm(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let hardware = hardware(MACHINE)?;
    let measured = measure(&hardware, progress)?;
    let run = |(workload, lock): (&str, &str), cores: u32| {
        measured.iter().find(|runs| [lock, NO_LOCK].iter().any(|lock| runs.is(workload, lock, cores)))
    };
    let rate =
        |of, cores| run(of, cores).map_or(BySeed::of([]), |runs| runs.by_seed(SimulatedRun::throughput));

    let mut table = claims_table();
    let mut outcome = Outcome::default();
    let mut row = |what: &str,
                   workload: &str,
                   cores: u32,
                   value: Spread,
                   wanted: String,
                   is_met: Option<bool>,
                   source: Source| {
        table.row([
            Cell::from(what),
            Cell::from(workload),
            Cell::from(cores),
            Cell::from(value),
            Cell::from(wanted.as_str()),
            Cell::from(outcome.count(source, is_met)),
            Cell::from(source.place()),
        ]);
    };
    for claim in claims() {
        let range = rate(claim.one, claim.cores).over(&rate(claim.other, claim.cores)).spread();
        let ratio = range.median;
        let collapses = |of| {
            let rate = |cores| rate(of, cores).median();
            let best = CORES.iter().map(|&cores| rate(cores)).fold(rate(1), f64::max);
            rate(claim.cores) < COLLAPSE_SHARE * best
        };
        let is_met = (claim.least..=claim.most).contains(&ratio)
            && (claim.least != 1.0 || is_more(ratio))
            && (!claim.is_of_collapse() || collapses(claim.other) && !collapses(claim.one));
        let is_met = (!is_unstable(range)).then_some(is_met);
        row(&claim.what, claim.one.0, claim.cores, range, claim.wanted(), is_met, claim.source);
    }
    for lock in ELIDED {
        let Some(runs) = run(("ipc", lock), PUBLISHED_CORES) else { continue };
        let percent = runs.spread(|run| {
            let counts = run.report.transactions;
            100.0 * counts.all_aborted() as f64 / counts.begun as f64
        });
        // Of few aborts one seed may have twice as many as another, and say the same of the bound.
        let all_agree = percent.high <= FEW_PERCENT || percent.low > FEW_PERCENT;
        let is_met = (all_agree || !is_unstable(percent)).then_some(percent.median <= FEW_PERCENT);
        let wanted = format!("at most {FEW_PERCENT} % abort");
        row(
            &format!("{lock}: extremely few aborts, %"),
            "ipc",
            PUBLISHED_CORES,
            percent,
            wanted,
            is_met,
            lecture("extremely few aborts"),
        );
    }
    let sizes = sizes(&hardware, progress)?;
    for &(way, lines, share) in &EDGES {
        let simulated = sizes.iter().find(|one| one.way.label == way.label && one.lines == lines);
        let fits = simulated.map_or(seeds::spread(&[]), SizedRun::share_that_fits);
        let what = format!("sections of {lines} lines, {}: the share that fits", way.label);
        row(
            &what,
            TABLE,
            1,
            fits,
            share.to_string(),
            Some(fits.low == share && fits.high == share),
            Source::Input,
        );
    }
    let plots = plots(&measured, &sizes)?;
    let mut notes = vec![outcome.note(), Unstable::of_plots(&plots).note()];
    notes.extend(PICTURES.iter().map(|picture| in_words(picture, run)));
    notes.extend([
        "M is a million operations a second, k a thousand; each of the run whose throughput is the median. Wasted is the part of the time of all cores that is spent in transactions that abort."
            .into(),
        limits(&hardware),
        "The thread that acquires the lock aborts the transactions, and those that abort acquire it: the lemming effect. The policies differ \
         in what they do against that."
            .into(),
    ]);
    Ok(Reproduction {
        variant: None,
        title: "Sections as transactions: what eliding a lock gives, simulated",
        table,
        plots,
        notes,
        faults: Vec::new(),
        scores: outcome.scores,
    })
}

/// What the runs of a picture did on all cores.
fn in_words<'a>(
    picture: &'a Picture,
    run: impl Fn((&'a str, &'a str), u32) -> Option<&'a Repeated>,
) -> String {
    let all_cores = CORES[CORES.len() - 1];
    let with_locks = picture.locks.iter().map(|&lock| (lock, (picture.workload, lock)));
    let beside = picture.beside.iter().map(|&(name, label)| (label, (name, "ticket")));
    let told = with_locks
        .chain(beside)
        .filter_map(|(label, of)| Some(told(label, run(of, all_cores)?.median_run())));
    format!("{} on {all_cores} cores: {}.", picture.workload, told.collect::<Vec<_>>().join("; "))
}

/// Runs everything that the pictures show.
fn measure(hardware: &Hardware, progress: &dyn Progress) -> anyhow::Result<Vec<Repeated>> {
    let mut setups = Vec::new();
    let mut add = |name: &str, lock: &str| -> anyhow::Result<()> {
        let workload = workload(name)?;
        let setup = Setup::new(hardware, workload, lock_name(lock));
        setups.extend(CORES.map(|cores| Setup { duration_ns: DURATION_NS, ..setup.clone() }.on_first(cores)));
        Ok(())
    };
    for picture in &PICTURES {
        picture.locks.iter().try_for_each(|lock| add(picture.workload, lock))?;
        picture.beside.iter().try_for_each(|(name, _)| add(name, "ticket"))?;
    }
    seeds::run(&setups, progress)
}

fn claims_table() -> Table {
    Table::new([
        Column::text("claim", "claim"),
        Column::text("workload", "workload"),
        Column::number("cores", "cores"),
        Column::spread("value", "simulated"),
        Column::text("wanted", "wanted"),
        Column::text("verdict", "verdict").kept(),
        Column::text("source", "source").detail(),
    ])
}

/// The pictures, and that of what fits.
fn plots(measured: &[Repeated], sizes: &[SizedRun]) -> anyhow::Result<Vec<Series>> {
    let mut plots = Vec::new();
    for picture in &PICTURES {
        let mut plot = Series::new(picture.workload);
        for lock in picture.locks {
            let of =
                |runs: &&Repeated| (runs.first().workload, runs.first().lock) == (picture.workload, *lock);
            plot.curves.push(throughput_curve(measured.iter().filter(of), lock)?);
        }
        for (name, label) in picture.beside {
            let of = |runs: &&Repeated| runs.first().workload == *name;
            plot.curves.push(throughput_curve(measured.iter().filter(of), label)?);
        }
        plots.push(plot);
    }
    plots.push(capacity(sizes)?);
    Ok(plots)
}

/// What the rows say, apart for published claims and others.
#[derive(Default)]
struct Outcome {
    scores: Vec<Score>,
    expectations: [usize; 2],
    consistent: usize,
    /// Expectations of ratios that are unstable.
    unstable: usize,
}

impl Outcome {
    /// Counts a row, of which it is not known whether it is met where its seeds disagree; its word.
    fn count(&mut self, source: Source, is_met: Option<bool>) -> &'static str {
        let verdict = is_met.map_or(Verdict::Unstable, Verdict::of);
        match source {
            Source::Published { claim, .. } => {
                self.scores.push(Score {
                    source: TRANSACTIONS,
                    by: SIMULATOR,
                    claim: claim.into(),
                    verdict,
                    as_printed: false,
                    mechanism: LACKING,
                });
                verdict.name()
            }
            Source::Expected => {
                let Some(is_met) = is_met else {
                    self.unstable += 1;
                    return verdict.name();
                };
                self.expectations[usize::from(is_met)] += 1;
                if is_met { "as expected" } else { "unexpected" }
            }
            Source::Input => {
                self.consistent += usize::from(verdict == Verdict::Met);
                verdict.given_by_input().name()
            }
        }
    }

    fn note(&self) -> String {
        let met = self.scores.iter().filter(|score| score.verdict == Verdict::Met).count();
        let [unexpected, expected] = self.expectations;
        format!(
            "{met} of {} rows with a published claim are met: what is published are shapes without numbers, and the bounds are ours. Without a published figure are \
             {} rows, of which {expected} are as expected and {} unstable, and {} that are consistent: they give back what the machine keeps of a transaction.",
            self.scores.len(),
            expected + unexpected + self.unstable,
            self.unstable,
            self.consistent
        )
    }
}

/// What a run did, in a few words.
fn told(label: &str, run: &SimulatedRun) -> String {
    let counts = run.report.transactions;
    let rate = match run.throughput() {
        few if few < 1e5 => format!("{label} {:.0} k", few / 1e3),
        many => format!("{label} {:.2} M", many / 1e6),
    };
    if counts.is_zero() {
        return rate;
    }
    let of_begun = |part: u64| 100.0 * part as f64 / counts.begun as f64;
    let of_time = run.share_of_time(counts.wasted_ps);
    format!(
        "{rate}, {:.0} % abort, {:.0} % for a conflict, {:.0} % wasted",
        of_begun(counts.all_aborted()),
        of_begun(counts.aborted_by(Cause::Conflict)),
        100.0 * of_time
    )
}

/// The workload whose sections go through so many lines.
const TABLE: &str = "tm-table";

/// How a section goes through a table.
struct Way {
    label: &'static str,
    writes: bool,
    in_one_set: bool,
    lines: &'static [usize],
}

/// Up to twice what the cache that keeps the writes has.
const LINES: [usize; 12] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 513, 1_024];

const WRITTEN: Way =
    Way { label: "written one after the other", writes: true, in_one_set: false, lines: &LINES };
const WRITTEN_IN_ONE_SET: Way =
    Way { label: "written in one set", writes: true, in_one_set: true, lines: &[1, 2, 4, 8, 9, 16] };
const READ: Way = Way { label: "read one after the other", writes: false, in_one_set: false, lines: &LINES };
const WAYS: [&Way; 3] = [&WRITTEN, &WRITTEN_IN_ONE_SET, &READ];

/// Where the machine's cache ends: what share of the transactions is to fit.
const EDGES: [(&Way, usize, f64); 5] = [
    (&WRITTEN_IN_ONE_SET, 8, 1.0),
    (&WRITTEN_IN_ONE_SET, 9, 0.0),
    (&WRITTEN, 512, 1.0),
    (&WRITTEN, 513, 0.0),
    (&READ, 1_024, 1.0),
];

/// Sections of so many lines, simulated.
struct SizedRun {
    way: &'static Way,
    lines: usize,
    runs: Repeated,
}

impl SizedRun {
    /// Of the transactions that no interrupt ends, those that are not aborted for a lack of capacity.
    fn share_that_fits(&self) -> Spread {
        self.runs.spread(|run| {
            let counts = run.report.transactions;
            let too_large = counts.aborted_by(Cause::Capacity);
            let all = counts.begun - counts.aborted_by(Cause::Other);
            1.0 - too_large as f64 / all.max(1) as f64
        })
    }
}

/// Sections of one core from one line to more than the cache keeps, in each way.
fn sizes(hardware: &Hardware, progress: &dyn Progress) -> anyhow::Result<Vec<SizedRun>> {
    let sets = hardware.transactions.context("the machine has transactions")?.l1_sets as usize;
    let table = workload(TABLE)?;
    let Body::TransactionalTable(of_short) = table.body else { bail!("{TABLE} is a table") };
    let sized = |way: &'static Way, lines| {
        let (writes_percent, apart) =
            (if way.writes { 100 } else { 0 }, if way.in_one_set { sets } else { 1 });
        let body = Body::TransactionalTable(Lines { lines, writes_percent, apart, ..of_short });
        (way, lines, Workload { body, ..*table })
    };
    let all = WAYS.iter().flat_map(|way| way.lines.iter().map(|&lines| sized(way, lines)));
    let all = all.collect::<Vec<_>>();
    let setup = |workload| Setup {
        duration_ns: DURATION_NS,
        ..Setup::new(hardware, workload, lock_name(GLIBCS)).on_first(1)
    };
    let setups = all.iter().map(|(.., workload)| setup(workload)).collect::<Vec<_>>();
    let runs = seeds::run(&setups, progress)?;
    Ok(all.iter().zip(runs).map(|(&(way, lines, _), runs)| SizedRun { way, lines, runs }).collect())
}

/// The picture of what fits.
fn capacity(sizes: &[SizedRun]) -> anyhow::Result<Series> {
    let curve = |way: &&Way| {
        let of_way = sizes.iter().filter(|one| one.way.label == way.label);
        let points = of_way.map(|one| {
            let Spread { low, median, high } = one.share_that_fits();
            Point { cores: one.lines as u32, value: median, low, high }
        });
        Curve::new(way.label, Unit::Share, Provenance::Simulated).with_points(points)
    };
    let curves = WAYS.iter().map(curve).collect::<Result<_, _>>()?;
    Ok(Series { axis: Some("lines of a section".into()), curves, ..Series::new("transactions that fit") })
}

/// What the machine keeps of a transaction.
fn limits(hardware: &Hardware) -> String {
    hardware.transactions.map_or_else(String::new, |keeps| {
        format!(
            "{MACHINE} keeps {} written lines in {} sets of {}, and {} read ones.",
            keeps.l1_sets * keeps.l1_ways,
            keeps.l1_sets,
            keeps.l1_ways,
            keeps.read_lines
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_publishes_is_no_claim_and_an_input_is_not_met() {
        let mut outcome = Outcome::default();
        assert_eq!(outcome.count(Source::Expected, Some(true)), "as expected");
        assert_eq!(outcome.count(Source::Expected, Some(false)), "unexpected");
        assert_eq!(outcome.count(Source::Input, Some(true)), "consistent");
        assert!(outcome.scores.is_empty());
        assert_eq!(outcome.count(REPAIRS, Some(false)), "missed");
        assert_eq!(outcome.scores.len(), 1);
        assert_eq!((outcome.expectations, outcome.consistent), ([1, 1], 1));
        assert_eq!([OF_OURS, REPAIRS].map(|source| outcome.count(source, None)), ["unstable"; 2]);
        assert_eq!((outcome.expectations, outcome.unstable), ([1, 1], 1));
        assert_eq!(outcome.scores[1].verdict, Verdict::Unstable);
    }
}
