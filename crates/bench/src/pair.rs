//! An uncontended lock of an unmodified program, under preload and under the recorder.

use super::Common;
use super::contenders::{Wait, find};
use super::cost::Pair;
use super::findings::{Drawing, Findings, Goal, Part};
use super::limited::OVER;
use super::timing::{Bench, Rounds, in_rounds};
use ::report::{Cell, Column, RangePlot, Spread, Table};
use anyhow::Context as _;
use compare::rounds::End;
use compare::statistics::{self, Better};
use compare::trial;
use launch::{GLIBC, Launch, Library, Swaps};
use pthread::environment;
use session::host::allowed_cores;
use session::noise::Watch;
use session::scratch::Scratch;
use session::usage::UsageError;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Locks and rounds.
    pub common: Common,
    /// What the program uses; everything if there is nothing.
    pub uses: Vec<Use>,
    /// The library that replaces the C library's locks.
    pub library: Library,
}

/// Recording may add so many ns to a pair, with every pair timed and with sampled times.
const FULL_BOUND_NS: f64 = 25.0;
const SAMPLED_BOUND_NS: f64 = 8.0;

/// What the program acquires and releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// pthread_mutex_lock and pthread_mutex_unlock.
    Mutex,
    /// pthread_rwlock_wrlock and pthread_rwlock_unlock.
    Write,
    /// pthread_rwlock_rdlock and pthread_rwlock_unlock.
    Read,
    /// pthread_spin_lock and pthread_spin_unlock.
    Spin,
}

impl Use {
    const ALL: [Self; 4] = [Self::Mutex, Self::Write, Self::Read, Self::Spin];

    /// Its name on the command line.
    fn word(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Write => "write",
            Self::Read => "read",
            Self::Spin => "spin",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Write => "rwlock, write",
            Self::Read => "rwlock, read",
            Self::Spin => "spin lock",
        }
    }

    /// The kind of pthread object, as `contend run --lock` has it.
    fn kind(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Write | Self::Read => "rwlock",
            Self::Spin => "spin",
        }
    }

    /// The C library's lock.
    fn peer(self) -> &'static str {
        match self {
            Self::Mutex => "posix-mutex",
            Self::Write | Self::Read => "posix-rwlock",
            Self::Spin => "posix-spin",
        }
    }

    fn swaps(self, lock: &str) -> Result<Swaps, UsageError> {
        Swaps::parse(&format!("{}={lock}", self.kind())).map_err(UsageError::new)
    }
}

/// How the program is run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Setting {
    /// As it is.
    Plain,
    /// With this lock of ours.
    Swapped(String),
    /// Recorded, one pair of so many timed.
    Recorded(u32),
    /// With the library of the recorder, which only adds one to a word of the thread at each acquisition and release: what
    /// recording costs at least.
    Counted,
}

impl Setting {
    fn name(&self) -> String {
        match self {
            Self::Plain => GLIBC.into(),
            Self::Swapped(lock) => lock.clone(),
            Self::Recorded(1) => "glibc, recorded in full".into(),
            Self::Recorded(period) => format!("glibc, times of 1 pair in {period}"),
            Self::Counted => "glibc, a bare count".into(),
        }
    }

    /// The command that runs the program so: this very executable, which answers to `bench pair-program USE` with the line
    /// that [`program`] gives, and records another under `profile`.
    fn command(&self, library: Library, used: Use, profile: &Path) -> anyhow::Result<Command> {
        let this = std::env::current_exe().context("the command cannot find itself")?;
        let program: [OsString; 3] = ["bench".into(), "pair-program".into(), used.word().into()];
        let mut command = Command::new(&this);
        match self {
            Self::Plain => {
                command.args(program);
            }
            Self::Swapped(lock) => {
                command =
                    Launch::new(library, this.as_os_str(), &program).swaps(used.swaps(lock)?).command()?;
            }
            Self::Recorded(_) | Self::Counted => {
                let period = if let Self::Recorded(period) = self { *period } else { 1 };
                if *self == Self::Counted {
                    command.env(OsStr::from_bytes(environment::ONLY_COUNT.to_bytes()), "1");
                }
                command.args(["profile", "--quiet", "--sample", &format!("1/{period}"), "-o"]).arg(profile);
                command.arg("--").arg(&this).args(program);
            }
        }
        Ok(command)
    }
}

/// What the program's answer begins with.
const ANSWER: &str = "pair_cycles ";

/// The program: times pairs in a thread of its own, since with one thread the C library leaves out the atomic operations.
/// Gives the line that it has to print.
///
/// # Errors
///
/// The lock does not exclude.
pub fn program(used: Use) -> anyhow::Result<String> {
    let core = allowed_cores().first().copied().unwrap_or(0);
    let lock = find(used.peer()).context("the C library's lock is not in the list")?;
    let pair = Pair { core, shared: used == Use::Read };
    let cycles = lock.measure(Wait::Pure, pair).context("the C library's lock is not there")??;
    Ok(format!("{ANSWER}{cycles}"))
}

/// The program under every setting that was asked for.
fn rows(asked: &[String], uses: &[Use]) -> anyhow::Result<Vec<PairRow>> {
    let names: Vec<&str> = match asked {
        [] => locks::catalogue::LOCKS.iter().map(|lock| lock.name).collect(),
        _ => asked.iter().map(String::as_str).filter(|name| *name != GLIBC).collect(),
    };
    let names = first_of_each(names);
    let uses = if uses.is_empty() { Use::ALL.to_vec() } else { first_of_each(uses.to_vec()) };
    for name in &names {
        let refusals = uses.iter().map(|used| used.swaps(name).err()).collect::<Option<Vec<_>>>();
        if let Some(refusal) = refusals.filter(|_| !asked.is_empty()).and_then(|all| all.into_iter().next()) {
            return Err(refusal.into());
        }
    }
    let mut rows = Vec::new();
    for used in uses {
        let serving = names.iter().filter(|name| used.swaps(name).is_ok());
        let swapped = serving.map(|name| Setting::Swapped((*name).to_owned()));
        let settings = [Setting::Plain, Setting::Counted, Setting::Recorded(1), Setting::Recorded(64)]
            .into_iter()
            .chain(swapped);
        rows.extend(settings.map(|setting| Rounds::new(Paired { used, setting })));
    }
    Ok(rows)
}

/// The same without what has been there before.
fn first_of_each<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// The program in one use, under one setting.
struct Paired {
    used: Use,
    setting: Setting,
}

/// Its pairs, in nanoseconds, round by round.
type PairRow = Rounds<Paired, f64>;

impl Paired {
    /// Nanoseconds of a pair in one run.
    fn run(&self, bench: &Bench, options: &Options, profile: &Path) -> anyhow::Result<f64> {
        let limit = options.common.limit;
        let trial = trial::run(self.setting.command(options.library, self.used, profile)?, limit)?;
        let answer = trial.output.lines().find_map(|line| line.strip_prefix(ANSWER)?.parse::<f64>().ok());
        match (trial.end, answer) {
            (End::Exited(0), Some(cycles)) => Ok(cycles / bench.ghz),
            (End::TimedOut, _) => anyhow::bail!("{OVER}{} s", limit.as_secs_f64()),
            (end, _) => {
                let last =
                    ::report::text::printable(trial.output.lines().last().unwrap_or("it said nothing"));
                anyhow::bail!("{end:?}: {last}")
            }
        }
    }
}

/// How much longer the pair took than the plain one of the same use, round by round.
fn more_than_plain(row: &PairRow, rows: &[PairRow]) -> Option<Spread> {
    let plain =
        rows.iter().find(|other| other.of.used == row.of.used && other.of.setting == Setting::Plain)?;
    if row.of.setting == Setting::Plain {
        return None;
    }
    let more: Vec<f64> = row.values.iter().zip(&plain.values).map(|(ns, plain)| ns - plain).collect();
    statistics::spread(&more)
}

/// Measures.
///
/// # Errors
///
/// A lock that no use can take, a program that cannot be started, or no place for its profile.
pub fn run(bench: &Bench, options: &Options) -> anyhow::Result<Findings> {
    let mut rows = rows(&options.common.lock, &options.uses)?;
    let scratch = Scratch::new()?;
    let profile = scratch.path().join("pair.contend");
    let progress = bench.start(rows.len() * (options.common.runs as usize + 1));
    let watch = Watch::start();
    let label = |pair: &Paired| pair.setting.name();
    in_rounds(&mut rows, 0..=options.common.runs, &*progress, label, |pair| {
        Some(pair.run(bench, options, &profile).map_err(|error| format!("{error:#}")))
    });
    drop(progress);
    let noise = watch.stop();
    let mut plot = RangePlot::new("An uncontended lock of an unmodified program", "ns", Better::Lower);
    for row in &rows {
        plot.row(format!("{}: {}", row.of.used.name(), row.of.setting.name()), row.spread(|&ns| ns));
    }
    Ok(Findings {
        workload: "pair",
        parts: vec![Part {
            key: "pair",
            heading: "An uncontended pthread lock of an unmodified program".into(),
            table: table(&rows),
            notes: vec![
                "One thread takes and releases one lock in a loop; a second thread exists. `more than glibc` is taken \
                 round by round. `a bare count` is what recording costs at least: the same functions are called, and add one \
                 to a word of the thread."
                    .into(),
            ],
        }],
        goals: goals(&rows),
        drawing: Drawing::Ranges(plot),
        noise,
    })
}

fn table(rows: &[PairRow]) -> Table {
    let mut table = Table::new([
        Column::text("use", "use"),
        Column::text("setting", "lock"),
        Column::spread("pair_ns", "pair ns"),
        Column::spread("more_ns", "more than glibc ns"),
        Column::text("failure", "failure").only_if_any(),
    ]);
    for row in rows {
        table.row([
            Cell::from(row.of.used.name()),
            row.of.setting.name().into(),
            row.spread(|&ns| ns).into(),
            more_than_plain(row, rows).into(),
            row.failure.clone().into(),
        ]);
    }
    table
}

fn goals(rows: &[PairRow]) -> Vec<Goal> {
    let goal = |row: &PairRow| {
        let Setting::Recorded(period) = row.of.setting else { return None };
        Some(Goal {
            goal: "what recording adds to an uncontended pair, in ns",
            subject: format!("{}: {}", row.of.used.name(), row.of.setting.name()),
            figure: more_than_plain(row, rows)?,
            bound: if period == 1 { FULL_BOUND_NS } else { SAMPLED_BOUND_NS },
            at_least: false,
            noise_counts: false,
        })
    };
    rows.iter().filter_map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::report::every_screen;

    #[test]
    fn locks_are_refused_where_no_use_takes_them_and_left_out_where_one_does_not() {
        let of = |locks: &[&str], uses: &[Use]| {
            let locks: Vec<_> = locks.iter().map(|name| (*name).to_owned()).collect();
            rows(&locks, uses).map(|rows| rows.len())
        };
        assert!(of(&["nosuch"], &[]).is_err());
        assert!(of(&["mcs"], &[Use::Write, Use::Read]).is_err());
        assert_eq!(of(&["glibc", "mcs"], &[Use::Mutex]).unwrap(), 5);
        assert_eq!(of(&["mcs", "mcs"], &[Use::Mutex, Use::Mutex]).unwrap(), 5, "each once");
        assert_eq!(of(&["mcs"], &[]).unwrap(), 4 * 4 + 2, "readers cannot share it");
        assert!(of(&[], &[Use::Mutex]).unwrap() > 10);
    }

    #[test]
    fn recording_is_judged_by_what_it_adds_to_the_same_use() {
        let row = |used, setting, ns: [f64; 2]| Rounds {
            values: ns.to_vec(),
            ..Rounds::new(Paired { used, setting })
        };
        let rows = [
            row(Use::Read, Setting::Plain, [0.0, 0.0]),
            row(Use::Mutex, Setting::Plain, [10.0, 20.0]),
            row(Use::Mutex, Setting::Recorded(1), [30.0, 40.0]),
            row(Use::Mutex, Setting::Recorded(64), [19.0, 29.0]),
        ];
        let verdicts: Vec<_> = goals(&rows).iter().map(Goal::verdict).collect();
        assert_eq!(verdicts, ["met", "missed"]);
    }

    #[test]
    fn the_table_on_every_screen() {
        let row = |used, setting, ns: &[f64], failure: Option<&str>| Rounds {
            of: Paired { used, setting },
            values: ns.to_vec(),
            failure: failure.map(str::to_owned),
        };
        let rows = [
            row(Use::Write, Setting::Plain, &[20.0, 21.0, 22.0], None),
            row(Use::Write, Setting::Recorded(64), &[28.0, 29.5, 40.0], None),
            row(Use::Write, Setting::Swapped("rw-writer-preferring".into()), &[], Some("over 10 s")),
        ];
        let names = ["rwlock, write", "rw-writer-preferring"];
        insta::assert_snapshot!(every_screen(&names, |screen| table(&rows).terminal(screen)));
    }
}
