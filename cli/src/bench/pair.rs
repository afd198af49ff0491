//! `contend bench pair`: an uncontended mutex of an unmodified program, under preload and under the recorder.

use super::Common;
use super::contenders::{Waiting, find};
use super::cost::Pair;
use super::findings::{Drawing, Findings, Goal, Part};
use super::timing::{Bench, progress};
use crate::compare::statistics;
use crate::launch::{GLIBC, Launch, Swaps};
use crate::noise::Watch;
use ::report::{Cell, Column, RangePlot, Spread, Table};
use anyhow::Context as _;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// What an uncontended pthread_mutex_lock and pthread_mutex_unlock cost an unmodified program.
///
/// The command runs itself as a small program that times its own pairs: as it is, with each lock of ours in place of the
/// C library's, and recorded as `contend profile` does, with every pair timed and with one of 64.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend bench pair
  contend bench pair --lock mcs,futex --runs 11
  contend bench pair --json | jq '.goals'")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Recording may add so many ns to a pair, with every pair timed and with sampled times.
const FULL_BOUND_NS: f64 = 25.0;
const SAMPLED_BOUND_NS: f64 = 8.0;

/// How the program is run.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Setting {
    /// As it is.
    Plain,
    /// With this lock for its mutexes.
    Swapped(String),
    /// Recorded, one pair of so many timed.
    Recorded(u32),
}

impl Setting {
    fn name(&self) -> String {
        match self {
            Self::Plain => GLIBC.into(),
            Self::Swapped(lock) => lock.clone(),
            Self::Recorded(1) => "glibc, recorded in full".into(),
            Self::Recorded(period) => format!("glibc, times of 1 pair in {period}"),
        }
    }

    /// The command that runs the program so.
    fn command(&self, profile: &std::path::Path) -> anyhow::Result<Command> {
        let this = std::env::current_exe().context("the command cannot find itself")?;
        let program: [OsString; 2] = ["bench".into(), "pair-program".into()];
        Ok(match self {
            Self::Plain => {
                let mut command = Command::new(this);
                command.args(program);
                command
            }
            Self::Swapped(lock) => {
                let swaps = Swaps::parse(&format!("mutex={lock}")).map_err(anyhow::Error::msg)?;
                Launch::new(this.as_os_str(), &program).swaps(swaps).command()?
            }
            Self::Recorded(period) => {
                let mut command = Command::new(&this);
                command.args(["profile", "--quiet", "--sample", &format!("1/{period}"), "-o"]).arg(profile);
                command.arg("--").arg(&this).args(program);
                command
            }
        })
    }

    /// Cycles of a pair in one run.
    fn run(&self, profile: &std::path::Path) -> anyhow::Result<f64> {
        let output = self.command(profile)?.output().context("cannot run the program")?;
        let words = String::from_utf8_lossy(&output.stdout);
        let answer = words.lines().find_map(|line| line.strip_prefix(ANSWER)?.parse().ok());
        answer.filter(|_| output.status.success()).with_context(|| {
            let last = String::from_utf8_lossy(&output.stderr);
            let last = last.lines().last().unwrap_or("it said nothing").to_owned();
            format!("{}: {}", output.status, ::report::text::printable(&last))
        })
    }
}

/// What the program's answer begins with.
const ANSWER: &str = "pair_cycles ";

/// The program: times pairs of a mutex in a thread of its own, since with one thread the C library leaves out the atomic
/// operations.
///
/// # Errors
///
/// The mutex does not exclude.
pub(crate) fn program(bench: &Bench) -> anyhow::Result<()> {
    let core = bench.pinned(1).first().copied().unwrap_or(0);
    let mutex = find("glibc-mutex").context("the C library's mutex is not in the list")?;
    let cycles =
        mutex.measure(Waiting::Pure, Pair { core }).context("the C library's mutex is not there")??;
    println!("{ANSWER}{cycles}");
    Ok(())
}

fn settings(asked: &[String]) -> anyhow::Result<Vec<Setting>> {
    let mut settings = vec![Setting::Plain, Setting::Recorded(1), Setting::Recorded(64)];
    for name in asked.iter().filter(|name| *name != GLIBC) {
        Swaps::parse(&format!("mutex={name}")).map_err(anyhow::Error::msg)?;
        settings.push(Setting::Swapped(name.clone()));
    }
    if asked.is_empty() {
        let every = locks::catalogue::LOCKS.iter().map(|lock| lock.name);
        let serving = every.filter(|name| Swaps::parse(&format!("mutex={name}")).is_ok());
        settings.extend(serving.map(|name| Setting::Swapped(name.to_owned())));
    }
    Ok(settings)
}

struct Row {
    setting: Setting,
    ns: Vec<f64>,
    failure: Option<String>,
}

/// A profile that is removed at the end.
struct Profile(PathBuf);

impl Drop for Profile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0); // it need not exist
    }
}

/// Runs `contend bench pair`.
pub(crate) fn run(bench: &Bench, args: &Args) -> anyhow::Result<Findings> {
    let settings = settings(&args.common.lock)?;
    let file = format!("contend-bench-{}-{:x}.contend", std::process::id(), super::timing::stamp());
    let profile = Profile(std::env::temp_dir().join(file));
    let bar = progress(settings.len() * (args.common.runs as usize + 1));
    let mut rows: Vec<Row> =
        settings.into_iter().map(|setting| Row { setting, ns: Vec::new(), failure: None }).collect();
    let watch = Watch::start();
    for round in 0..=args.common.runs {
        for row in &mut rows {
            bar.set_message(row.setting.name());
            if row.failure.is_none() {
                match row.setting.run(&profile.0) {
                    Ok(cycles) if round > 0 => row.ns.push(cycles / bench.ghz),
                    Ok(_) => {}
                    Err(error) => row.failure = Some(format!("{error:#}")),
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let noise = watch.stop();
    let mut plot = RangePlot::new("An uncontended mutex of an unmodified program", "ns");
    for row in &rows {
        plot.row(row.setting.name(), statistics::spread(&row.ns));
    }
    Ok(Findings {
        workload: "pair",
        parts: vec![Part {
            key: "pair",
            heading: "An uncontended pthread mutex of an unmodified program".into(),
            table: table(&rows),
            notes: vec![
                "One thread takes and releases one mutex in a loop; a second thread exists. `more than glibc` is taken \
                 round by round."
                    .into(),
            ],
        }],
        goals: goals(&rows),
        drawing: Drawing::Ranges(plot),
        noise,
    })
}

/// How much longer the pair took than the plain one, round by round.
fn more_than_plain(rows: &[Row], row: &Row) -> Option<Spread> {
    let plain = rows.iter().find(|row| row.setting == Setting::Plain)?;
    if row.setting == Setting::Plain {
        return None;
    }
    let more: Vec<f64> = row.ns.iter().zip(&plain.ns).map(|(ns, plain)| ns - plain).collect();
    statistics::spread(&more)
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        Column::text("setting", "mutex"),
        Column::spread("pair_ns", "pair ns"),
        Column::spread("more_ns", "more than glibc ns"),
        Column::text("failure", "failure"),
    ]);
    for row in rows {
        table.row([
            Cell::from(row.setting.name()),
            statistics::spread(&row.ns).into(),
            more_than_plain(rows, row).into(),
            row.failure.clone().into(),
        ]);
    }
    table
}

fn goals(rows: &[Row]) -> Vec<Goal> {
    let goal = |row: &Row| {
        let Setting::Recorded(period) = row.setting else { return None };
        Some(Goal {
            goal: "what recording adds to an uncontended pair, in ns",
            subject: row.setting.name(),
            figure: more_than_plain(rows, row)?,
            bound: if period == 1 { FULL_BOUND_NS } else { SAMPLED_BOUND_NS },
            at_least: false,
        })
    };
    rows.iter().filter_map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_that_cannot_be_a_mutex_are_refused_by_name_and_left_out_of_all() {
        assert!(settings(&["nosuch".into()]).is_err());
        let all = settings(&[]).unwrap();
        assert!(all.contains(&Setting::Swapped("ticket".into())) && all[0] == Setting::Plain);
        assert_eq!(settings(&["glibc".into(), "mcs".into()]).unwrap().len(), 4);
    }

    #[test]
    fn recording_is_judged_by_what_it_adds() {
        let row = |setting, ns: [f64; 2]| Row { setting, ns: ns.to_vec(), failure: None };
        let rows = [
            row(Setting::Plain, [10.0, 20.0]),
            row(Setting::Recorded(1), [30.0, 40.0]),
            row(Setting::Recorded(64), [19.0, 29.0]),
        ];
        let verdicts: Vec<_> = goals(&rows).iter().map(Goal::verdict).collect();
        assert_eq!(verdicts, ["met", "missed"]);
    }
}
