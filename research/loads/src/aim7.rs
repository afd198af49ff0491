//! `aim7`: the job mixes of the AIM7 multi-user suite on the running kernel.
//!
//! Users are processes. Each does jobs of a mix in a random order, and the figure is jobs a minute of all users, by users. The
//! jobs are written anew from what the suite's documents and sources say that each does.

mod arithmetic;
mod communication;
mod files;
mod jobs;
mod memory;
mod mixes;
mod processes;
mod routines;
mod users;

use crate::stage::Stage;
use ::report::{Cell, Column, Spread, Table, text};
use anyhow::Context as _;
use bench::findings::{Drawing, Findings, Part};
use bench::timing::{Bench, CUT_SHORT};
use compare::statistics;
use curve::{Curve, Point, Provenance, Unit};
use jobs::Source;
use session::interrupt;
use session::noise::{Noise, Watch};
use session::progress::Steps;
use std::path::Path;
use users::{DIVISOR, Round};
use workloads::aim7::{JobMix, MIXES};

pub use mixes::select;
pub use users::{Task, user};

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// The mixes by name; `all` is all of them.
    pub mix: Vec<String>,
    /// Numbers of users, rising; 1, 2, 4, … up to [`USERS_OF_CORE`] a core if there is none.
    pub users: Vec<u16>,
    /// Jobs of each user in a run.
    pub jobs: u32,
    /// Runs of each number of users after the warm-up.
    pub runs: u32,
    /// Decides the order of each user's jobs.
    pub seed: u64,
}

/// The most users for each core, if the caller does not say how many.
pub const USERS_OF_CORE: usize = 16;

/// Users are added until throughput is no better by this factor …
const BETTER: f64 = 1.02;

/// … with any of so many numbers of users in a row.
const NO_BETTER: usize = 3;

/// The runs of one mix with one number of users.
#[derive(Debug)]
struct UserRow {
    users: u32,
    rounds: Vec<Round>,
    failure: Option<String>,
}

impl UserRow {
    fn figures(&self, figure: impl Fn(&Round) -> f64) -> Vec<f64> {
        self.rounds.iter().map(figure).collect()
    }

    fn jobs_per_minute(&self) -> Option<Spread> {
        statistics::spread(&self.figures(|round| round.jobs_per_minute))
    }
}

/// A mix with its numbers of users, rising.
struct MixRows {
    mix: &'static JobMix,
    rows: Vec<UserRow>,
    /// Throughput did not get better any more before all numbers of users were tried.
    levelled_off: bool,
}

/// What is made of the last third of the numbers of users, as published figures of AIM7 are read.
struct Plateau {
    from: u32,
    to: u32,
    jobs_per_minute: Spread,
    best: f64,
}

impl MixRows {
    /// The plateau; none where a third of the numbers has no runs.
    fn plateau(&self) -> Option<Plateau> {
        let measured: Vec<&UserRow> = self.rows.iter().filter(|row| !row.rounds.is_empty()).collect();
        let last = &measured[measured.len() - measured.len().div_ceil(3)..];
        let runs: Vec<f64> = last.iter().flat_map(|row| row.figures(|round| round.jobs_per_minute)).collect();
        let medians = measured.iter().filter_map(|row| row.jobs_per_minute()).map(|spread| spread.median);
        Some(Plateau {
            from: last.first()?.users,
            to: last.last()?.users,
            jobs_per_minute: statistics::spread(&runs)?,
            best: medians.fold(0.0, f64::max),
        })
    }
}

/// Runs mixes.
///
/// # Errors
///
/// A name that no mix has, or no directory for the jobs' files.
pub fn run(bench: &Bench, options: &Options) -> anyhow::Result<Findings> {
    let mixes = select(&options.mix)?;
    let mut users: Vec<u32> = match options.users[..] {
        [] => (0..)
            .map(|power| 1 << power)
            .take_while(|&n| n as usize <= USERS_OF_CORE * bench.cores())
            .collect(),
        _ => options.users.iter().map(|&n| u32::from(n)).collect(),
    };
    users.sort_unstable();
    users.dedup();
    let stage = Stage::new()?;
    users::prepare(stage.path())?;
    let progress = bench.start(mixes.len() * users.len() * (options.runs as usize + 1));
    let watch = Watch::start();
    let measured: Vec<MixRows> =
        mixes.into_iter().map(|mix| measure(mix, &users, options, stage.path(), &*progress)).collect();
    drop(progress);
    let noise = watch.stop();
    let mut parts = parts(&measured, options.jobs);
    let goes_past_cache = |rows: &MixRows| rows.mix.weight("disk_dio_rr").is_some();
    if measured.iter().any(goes_past_cache) && !files::knows_direct(stage.path()) {
        parts[0].notes.push(format!(
            "The file system of {} refuses O_DIRECT (tmpfs knows it since Linux 6.6): the jobs disk_dio_* went through the page cache.",
            stage.path().display()
        ));
    }
    parts[0].notes.push(stage.in_words());
    parts[0].notes.extend(stage.remove());
    Ok(Findings {
        workload: "aim7",
        parts,
        goals: Vec::new(),
        drawing: Drawing::CurvesByUsers("AIM7's mixes: jobs a second".into(), curves(&measured)?),
        noise,
    })
}

/// The jobs and the mixes, without a run.
pub fn list() -> Findings {
    let part = |key, heading: &str, table| Part { key, heading: heading.into(), table, notes: Vec::new() };
    Findings {
        workload: "aim7",
        parts: vec![
            part("mixes", "The mixes", mixes_table()),
            part("jobs", "The jobs, as large as AIM7's", jobs_table()),
        ],
        goals: Vec::new(),
        drawing: Drawing::CurvesByUsers(String::new(), Vec::new()),
        noise: Noise::default(),
    }
}

fn mixes_table() -> Table {
    let mut table = Table::new([
        Column::text("mix", "mix"),
        Column::text("about", "what it stands for"),
        Column::number("weights", "sum of weights"),
    ]);
    for mix in MIXES.iter() {
        table.row([Cell::from(mix.name), mix.about.into(), u64::from(mix.sum_of_weights()).into()]);
    }
    table
}

fn jobs_table() -> Table {
    let mut table = Table::new([
        Column::text("job", "job"),
        Column::text("does", "what one does").kept(),
        Column::text("source", "known from"),
        Column::text("weights", "weights in mixes").detail(),
    ]);
    let weights = |name: &str| {
        let of_mix = |mix: &JobMix| Some(format!("{} {}", mix.name, mix.weight(name)?));
        MIXES.iter().filter_map(of_mix).collect::<Vec<_>>().join(", ")
    };
    for job in jobs::all() {
        let source = match job.source {
            Source::Public => "published",
            Source::Assumed => "published, a part assumed",
        };
        table.row([Cell::from(job.name), job.does.into(), source.into(), weights(job.name).into()]);
    }
    table
}

/// Adds users until that makes throughput no better, which warms up, and then takes the runs of each number in turn.
fn measure(
    mix: &'static JobMix,
    users: &[u32],
    options: &Options,
    stage: &Path,
    progress: &dyn Steps,
) -> MixRows {
    let mut rows: Vec<UserRow> = Vec::new();
    let mut climb = Climb::default();
    let attempt = |row: &mut UserRow, turn: u32| {
        progress.begin(&format!("{}, {} users", mix.name, row.users));
        let ran = match row.failure.is_none() && !interrupt::came() {
            true => {
                let seed = options.seed.wrapping_add(u64::from(turn));
                users::round(Task { mix, jobs: options.jobs, seed }, row.users, stage)
            }
            false => Err(anyhow::anyhow!(CUT_SHORT)),
        };
        progress.done();
        match ran {
            _ if interrupt::came() => None,
            Ok(round) => Some(round),
            Err(error) => {
                row.failure.get_or_insert(format!("{error:#}"));
                None
            }
        }
    };
    for &users in users {
        let mut row = UserRow { users, rounds: Vec::new(), failure: None };
        let warm_up = attempt(&mut row, 0);
        rows.push(row);
        if !warm_up.is_some_and(|round| climb.goes_on(round.jobs_per_minute)) {
            break;
        }
    }
    for turn in 1..=options.runs {
        for row in &mut rows {
            let round = attempt(row, turn);
            row.rounds.extend(round);
        }
    }
    let skipped = users.len() - rows.len();
    (0..skipped * (options.runs as usize + 1)).for_each(|_| progress.done());
    for row in rows.iter_mut().filter(|row| row.rounds.is_empty() && interrupt::came()) {
        row.failure.get_or_insert_with(|| CUT_SHORT.into());
    }
    MixRows { mix, rows, levelled_off: climb.is_over() }
}

/// Whether more users still get more done.
#[derive(Default)]
struct Climb {
    best: f64,
    no_better: usize,
}

impl Climb {
    /// Takes the throughput of one more number of users; whether to go on.
    fn goes_on(&mut self, jobs_per_minute: f64) -> bool {
        self.no_better = if jobs_per_minute > self.best * BETTER { 0 } else { self.no_better + 1 };
        self.best = self.best.max(jobs_per_minute);
        !self.is_over()
    }

    fn is_over(&self) -> bool {
        self.no_better >= NO_BETTER
    }
}

fn parts(measured: &[MixRows], jobs_of_user: u32) -> Vec<Part> {
    let mut notes = vec![
        format!(
            "Every user is a process that does {jobs_of_user} jobs in an order of its own (AIM7's do 100); a job does one of {DIVISOR} of \
             AIM7's operations, and no job writes the disks out (sync), so that figures are not AIM7's."
        ),
        "The mixes and their weights are those of the published workfiles of re-AIM 7.".to_owned(),
    ];
    let assumed: Vec<&str> =
        jobs::all().filter(|job| job.source == Source::Assumed).map(|job| job.name).collect();
    notes.push(format!("A part of what these jobs do is assumed: {}.", assumed.join(", ")));
    let users = Part {
        key: "users",
        heading: "Job mixes of AIM7, by users".into(),
        table: users_table(measured, jobs_of_user),
        notes,
    };
    let plateaus = Part {
        key: "plateaus",
        heading: "Plateaus: the last third of the numbers of users".into(),
        table: plateaus_table(measured),
        notes: measured.iter().filter_map(plateau_in_words).collect(),
    };
    vec![users, plateaus]
}

/// A line with a plain number, for those who look for it in the output.
fn plateau_in_words(rows: &MixRows) -> Option<String> {
    let plateau = rows.plateau()?;
    let rising = if rows.levelled_off { "" } else { "; not level yet with the most users" };
    Some(format!("{} plateau: {:.0} jobs/min{rising}.", rows.mix.name, plateau.jobs_per_minute.median))
}

fn users_table(measured: &[MixRows], jobs_of_user: u32) -> Table {
    let mut table = Table::new([
        Column::text("mix", "mix"),
        Column::number("users", "users"),
        Column::spread("jobs_per_min", "jobs/min"),
        Column::number("jobs_per_min_of_user", "of a user"),
        Column::number("cpu_s", "CPU s"),
        Column::number("cpu_ms_per_job", "CPU ms a job").detail(),
        Column::text("failure", "failure").only_if_any(),
    ]);
    for rows in measured {
        for row in &rows.rows {
            let spread = row.jobs_per_minute();
            let cpu_s = statistics::spread(&row.figures(|round| round.cpu.as_secs_f64()));
            let jobs = f64::from(row.users) * f64::from(jobs_of_user);
            table.row([
                Cell::from(rows.mix.name),
                u64::from(row.users).into(),
                spread.into(),
                spread.map(|spread| spread.median / f64::from(row.users)).into(),
                cpu_s.map(|cpu| cpu.median).into(),
                cpu_s.map(|cpu| cpu.median * 1e3 / jobs).into(),
                row.failure.as_deref().map(text::printable).into(),
            ]);
        }
    }
    table
}

fn plateaus_table(measured: &[MixRows]) -> Table {
    let mut table = Table::new([
        Column::text("mix", "mix"),
        Column::text("about", "what it stands for").detail(),
        Column::number("from_users", "from users"),
        Column::number("to_users", "to users"),
        Column::spread("jobs_per_min", "jobs/min"),
        Column::percent("of_best", "% of the best"),
        Column::text("levelled_off", "level"),
    ]);
    for rows in measured {
        let Some(plateau) = rows.plateau() else { continue };
        table.row([
            Cell::from(rows.mix.name),
            rows.mix.about.into(),
            u64::from(plateau.from).into(),
            u64::from(plateau.to).into(),
            plateau.jobs_per_minute.into(),
            (plateau.jobs_per_minute.median / plateau.best).into(),
            if rows.levelled_off { "yes" } else { "not yet" }.into(),
        ]);
    }
    table
}

fn curves(measured: &[MixRows]) -> anyhow::Result<Vec<Curve>> {
    let curve = |rows: &MixRows| {
        let points = rows
            .rows
            .iter()
            .filter_map(|row| Point::of_runs(row.users, &row.figures(|round| round.jobs_per_minute / 60.0)));
        Curve::new(rows.mix.name, Unit::OperationsPerSecond, Provenance::Measured)
            .workload(rows.mix.name)
            .with_points(points)
            .context("a number of users was given twice")
    };
    measured.iter().map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::report::every_screen;
    use std::time::Duration;

    fn row(users: u32, jobs_per_minute: &[f64]) -> UserRow {
        let round = |&jobs_per_minute: &f64| Round { jobs_per_minute, cpu: Duration::from_millis(250) };
        UserRow { users, rounds: jobs_per_minute.iter().map(round).collect(), failure: None }
    }

    fn measured() -> Vec<MixRows> {
        let fserver = vec![
            row(1, &[10_000.0, 11_000.0, 10_500.0]),
            row(2, &[20_000.0, 21_000.0, 19_000.0]),
            row(4, &[21_000.0, 22_000.0, 20_000.0]),
            row(8, &[15_000.0, 14_000.0, 16_000.0]),
            UserRow { failure: Some("a user was ended by the signal 9".into()), ..row(16, &[]) },
        ];
        let mix = |name: &str, rows, levelled_off| MixRows {
            mix: select(&[name.into()]).unwrap()[0],
            rows,
            levelled_off,
        };
        vec![mix("fserver", fserver, true), mix("short", vec![row(1, &[5_000.0])], false)]
    }

    #[test]
    fn users_are_added_until_that_gets_no_more_done() {
        let levels = |throughputs: &[f64]| {
            let mut climb = Climb::default();
            throughputs.iter().position(|&one| !climb.goes_on(one))
        };
        assert_eq!(levels(&[1.0, 2.0, 4.0, 4.01, 3.9, 4.0, 9.0]), Some(5));
        assert_eq!(levels(&[1.0, 2.0, 1.5, 1.4, 3.0, 4.0]), None, "it went up again");
    }

    #[test]
    fn the_plateau_is_that_of_the_last_third() {
        let measured = measured();
        let plateau = measured[0].plateau().unwrap();
        assert_eq!((plateau.from, plateau.to, plateau.best), (4, 8, 21_000.0));
        let Spread { low, median, high } = plateau.jobs_per_minute;
        assert_eq!((low, median, high), (14_000.0, 18_000.0, 22_000.0));
        assert_eq!(plateau_in_words(&measured[0]).unwrap(), "fserver plateau: 18000 jobs/min.");
        let none = MixRows { rows: vec![row(1, &[])], ..measured.into_iter().next().unwrap() };
        assert!(none.plateau().is_none());
    }

    #[test]
    fn the_list_has_every_mix_and_every_job_with_its_weights() {
        let all = list().json();
        let rows = |key: &str| all["tables"][key].as_array().unwrap().clone();
        assert_eq!(rows("mixes").len(), MIXES.len());
        let jobs = rows("jobs");
        assert_eq!(jobs.len(), jobs::all().count());
        let row = jobs.iter().find(|row| row["job"] == "sync_disk_update").unwrap();
        assert_eq!(row["weights"], "alltests 20, dbase 30, disk 20, new_dbase 10");
    }

    #[test]
    fn the_tables_on_every_screen() {
        let measured = measured();
        insta::assert_snapshot!(every_screen(&[], |screen| {
            users_table(&measured, 100).terminal(screen) + "\n" + &plateaus_table(&measured).terminal(screen)
        }));
    }
}
