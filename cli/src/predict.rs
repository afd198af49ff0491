//! `contend predict`: what a profiled program does on more cores, with its own lock and with others in its place.

use crate::advise::VOID;
use crate::arguments::{self, Numbers};
use crate::machines;
use crate::output::{self, own_command_line, print, print_json, tell};
use crate::progress::BARS;
use curve::Unit;
use forecast::{
    Alternative, Change, MAX_THREADS, MeasuredPoint, Question, Row, Void, advice, alternatives, forecast,
    read_series,
};
use launch::GLIBC;
use report::{Page, Screen, text};
use session::ensure_usage;
use session::output_file::OutputFile;
use session::usage::UsageError;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use topology::{MachineFile, carried};

/// Forecast from a profile what more cores do to a program.
///
/// What was measured stands: profiles on several numbers of threads and --measured fix the curve where they are, but for threads that shared
/// cores where the machine has more. From the last of them a program that is rebuilt from the profiles and run on the simulated machine, with
/// the locks' own code, carries it on. Each row ends in a verdict with its probability, which comes from how far forecasts of measured
/// programs have been off (docs/predictions.md);
/// under 70 % it is uncertain.
///
/// A profile that carries no forecast, such as one of a busy machine, gets none: the reason and the remedy, and exit status 3.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend profile -o one.contend -- ./server --threads 1
  contend profile -o two.contend -- ./server --threads 2
  contend predict one.contend two.contend                  # the lock that costs most time, to 64 cores
  contend predict p.contend --machine epyc-9654x2 --lock mcs,adaptive --svg p.svg
  contend predict p.contend --threads 1,2,4,8              # more threads than this machine has cores
  contend predict p.contend --what-if section=0.5,split=4  # what would that give?
  contend predict p.contend --lock elided --transactions   # what would hardware transactions give?
  contend predict p.contend --explain                      # curves, ranges, and what the forecast is made of
  contend predict p.contend --html p.html                  # the same as a page, which needs nothing else
  contend predict p.contend --site cache_lock --json | jq .rows[].verdict")]
pub(crate) struct Args {
    /// Profiles of the same program that `contend profile -o FILE` wrote, each on another number of threads. One on one thread and one
    /// on two tell most
    #[arg(value_name = "PROFILE", required = true)]
    profiles: Vec<PathBuf>,
    /// The machine to forecast for: a name from `contend machines`, or a machine file [default: this machine if it is
    /// calibrated, else `typical`]
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Give the machine the transactional memory of xeon-e5-2680v4x2, if it has none
    #[arg(long)]
    transactions: bool,
    /// The machine that the profiles were taken on, which says what a line transfer cost there [default: this machine if
    /// it is calibrated, else `typical`]
    #[arg(long, value_name = "MACHINE")]
    profiled_on: Option<String>,
    /// The cores to forecast for, such as 1..64, or 1,2,4..48:4. Where the machine has fewer it is extended by dies of its kind, and the
    /// answer names that [default: up to the machine's cores, or 64]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = Numbers::between(1, forecast::MAX_CORES as u32))]
    cores: Vec<Numbers>,
    /// The locks to put in its place: names from `contend locks`, or families, for each of which one lock is run: blocking (the C
    /// library's own lock of that kind, and so no row of its own for a mutex or a reader-writer lock), back-off-then-sleep (futex; rw
    /// for a reader-writer lock), test-and-set (ttas; rw-naive for a reader-writer lock), back-off (ttas-backoff), ticket and queue
    /// (mcs); or `elided`, which runs its sections as transactions, on a machine that has them [default: every family; in the place of
    /// a reader-writer lock adaptive, rw, rw-queued]
    #[arg(long = "lock", value_name = "LOCK,…", value_delimiter = ',')]
    locks: Vec<String>,
    /// The lock to forecast for, as `contend profile` prints its name; a function or variable without @STACK or +OFFSET
    /// stands for that lock there which costs most time [default: the lock that costs most time]
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// Curves measured without recording, as JSON or CSV of contend's curves: they stand, and the forecast goes on from them. In
    /// operations a second, they tell what recording took of a profile that counts operations
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
    /// Numbers of threads on the machine as it is, instead of --cores: more than it has cores if you like, which take turns there
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with = "cores", value_parser = Numbers::between(1, 1_024))]
    threads: Vec<Numbers>,
    /// The random seed of the simulated program [default: 1]
    #[arg(long, value_name = "N", value_parser = arguments::seed())]
    seed: Option<u64>,
    /// What a change to the program would give: section=0.5 (half of the critical section's work done outside), think=2 (twice the think
    /// time), split=4 (into so many locks), batch=8 (acquisitions become one), threads=16, lock=mcs, reads=0.9 (share of sections that
    /// only read, under a reader-writer lock); several at once [default: those that contend would try]
    #[arg(long, value_name = "CHANGE,…", value_delimiter = ',', value_parser = change)]
    what_if: Vec<String>,
    /// Also show curves, ranges, all reservations, and what the forecast is made of
    #[arg(long)]
    explain: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Also draw the curves into this file as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also write the forecast as a page: one file for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn change(text: &str) -> Result<String, String> {
    advice::change(text).map(|_| text.to_owned()).map_err(|error| format!("{error:#}"))
}

/// All changes as one; none if none is asked for.
fn together(changes: &[String]) -> anyhow::Result<Option<Change>> {
    if changes.is_empty() {
        return Ok(None);
    }
    let change = advice::change(&changes.join(","))?;
    ensure_usage!(change != Change::NONE, "--what-if {} changes nothing", changes.join(","));
    if let (Some(lock), Some(_)) = (&change.lock, change.reads) {
        ensure_usage!(
            lock.shared,
            "--what-if: {} is no lock for readers, so that no section can be read under it: leave reads, or name such a lock, as rw",
            lock.name
        );
    }
    Ok(Some(change))
}

/// Runs `contend predict`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let page = output::file_at(args.html.as_deref())?;
    let picture = output::file_at(args.svg.as_deref())?;
    let measured = args.measured.as_deref().map(read_series).transpose()?;
    let question = question(args, measured.as_ref())?;
    let screen = Screen::stdout();
    let mut forecast = match forecast(&question, &BARS)? {
        Ok(forecast) => forecast,
        Err(void) => {
            let exit_code = refuse(&void, args.json, page, screen)?;
            if let Some(file) = &args.svg {
                tell(&format!("no picture was drawn: {} is as it was", file.display()));
            }
            return Ok(exit_code);
        }
    };
    let mut notes = without_row(question.candidates.as_deref().unwrap_or_default(), &forecast.rows);
    notes.append(&mut forecast.notes);
    forecast.notes = notes;
    if args.json {
        print_json(&forecast.json())?;
    } else {
        print(&forecast.terminal(screen, args.explain)?)?;
    }
    if let Some(file) = picture {
        file.write(forecast.plot()?.svg())?;
    }
    if let Some(file) = page {
        file.write(forecast.page()?.made_by(&own_command_line()).html())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What to say of candidates that were asked for and have no row.
fn without_row(asked: &[Alternative], rows: &[Row]) -> Vec<String> {
    let own = rows.first().map_or("", Row::name);
    let labels = asked.iter().map(Alternative::label);
    let without = labels.filter(|label| !rows.iter().any(|row| row.lock.as_ref() == Some(label)));
    let said = |label: String| {
        format!(
            "`{label}` has no row of its own: that is what the program's lock is already, in the row `{own}`"
        )
    };
    without.map(said).collect()
}

/// Says why there is no forecast, and what to do.
fn refuse(void: &Void, json: bool, page: Option<OutputFile>, screen: Screen) -> anyhow::Result<ExitCode> {
    let mut void = void.clone();
    if void.of_lock {
        void.remedy += ", or name another lock by --site";
    }
    if json {
        print_json(&serde_json::json!({ "void": void }))?;
    } else {
        print(&screen.fit(&format!("No forecast: {}.\n{}.\n", void.reason, void.remedy)))?;
    }
    if let Some(file) = page {
        let said = format!("{}.\n{}.", in_a_sentence(&void.reason), void.remedy);
        file.write(Page::new("No forecast").paragraphs(&said).made_by(&own_command_line()).html())?;
    }
    Ok(ExitCode::from(VOID))
}

/// The same with a capital letter.
fn in_a_sentence(reason: &str) -> String {
    let mut letters = reason.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn question(args: &Args, measured: Option<&curve::Series>) -> anyhow::Result<Question> {
    /// A small machine is asked about a larger one.
    const LEAST_CORES: u32 = 64;
    let mut candidates = alternatives(&args.locks)?;
    let mut labels = BTreeSet::new();
    candidates.retain(|one| labels.insert(one.label()));
    let in_operations = measured.is_some_and(is_in_operations);
    let measured = match measured {
        Some(series) => {
            check_measured(series, &candidates)?;
            measured_points(series)
        }
        None => Vec::new(),
    };
    let mut machine = named_or_default(args.machine.as_deref())?;
    if args.transactions {
        machine.transactions.get_or_insert_with(carried::transactions);
    }
    if let Some(elided) = candidates.iter().find(|one| one.elided.is_some()) {
        ensure_usage!(
            machine.transactions.is_some(),
            "{} has no transactions, without which `{}` is the lock itself: name a machine that has, such as xeon-e5-2680v4x2, or lend it some \
             with --transactions",
            machine.name,
            elided.name
        );
    }
    let what_if = together(&args.what_if)?;
    let mut cores = Numbers::all(&args.cores);
    if cores.is_empty() {
        cores = (1..=machine.topology.cores().max(LEAST_CORES)).collect();
    }
    Ok(Question {
        profiles: args.profiles.clone(),
        measured,
        in_operations,
        stretch: None,
        profiled_on: named_or_default(args.profiled_on.as_deref())?,
        machine,
        cores,
        threads: Numbers::all(&args.threads),
        from: 1,
        candidates: (!args.locks.is_empty()).then_some(candidates),
        site: args.site.clone(),
        seed: args.seed.unwrap_or(1),
        what_if,
        advice: true,
    })
}

/// Refuses curves that a forecast would not start from: it is relative to the program's own locks, and carries on what is a row of it.
fn check_measured(series: &curve::Series, candidates: &[Alternative]) -> anyhow::Result<()> {
    let locks: Vec<&str> = series.curves.iter().map(|curve| &*curve.lock).collect();
    ensure_usage!(
        locks.contains(&GLIBC),
        "--measured: no curve is of the program's own locks, to which all else is relative: measure it as well, and give its curve the lock \
         `{GLIBC}`"
    );
    let mut seen = BTreeSet::new();
    let twice = locks.iter().find(|&&lock| !seen.insert(lock));
    ensure_usage!(
        twice.is_none(),
        "--measured: two curves are of the lock `{}`: leave one of them in the file",
        text::printable(twice.unwrap_or(&""))
    );
    let points =
        series.curves.iter().flat_map(|curve| curve.points().iter().map(move |point| (curve, point)));
    if let Some((curve, point)) = points.clone().find(|(_, point)| point.low <= 0.0) {
        let what = if point.value > 0.0 { "has a range from 0" } else { "is 0" };
        return Err(UsageError::new(format!(
            "--measured: the curve of `{}` {what} at {}: it has stopped there, and nothing goes on from it: leave that point out",
            text::printable(&curve.lock),
            point.cores
        ))
        .into());
    }
    if let Some((curve, point)) = points.into_iter().find(|(_, point)| point.cores as usize > MAX_THREADS) {
        return Err(UsageError::new(format!(
            "--measured: the curve of `{}` has a point at {}, and {MAX_THREADS} threads are simulated at most: leave it out of the file",
            text::printable(&curve.lock),
            point.cores
        ))
        .into());
    }
    let units: Vec<_> = series.curves.iter().map(|curve| curve.clone().of_all_cores().unit).collect();
    ensure_usage!(
        units.windows(2).all(|two| two[0] == two[1]),
        "--measured: the curves are in different units: measure all of them in one"
    );
    for lock in locks.into_iter().filter(|&lock| lock != GLIBC) {
        ensure_usage!(
            candidates.iter().any(|one| one.name == lock),
            "--measured: the curve of `{0}` is of no lock that is forecast: add it to --lock, as in --lock {0}, or leave it out of the file",
            text::printable(lock)
        );
    }
    Ok(())
}

/// Whether measured curves, all of which are in one unit, count operations a second.
fn is_in_operations(series: &curve::Series) -> bool {
    let first = series.curves.first().cloned();
    first.is_some_and(|curve| curve.of_all_cores().unit == Unit::OperationsPerSecond)
}

/// The points of measured curves; the baseline's are those under the C library's own locks.
fn measured_points(series: &curve::Series) -> Vec<MeasuredPoint> {
    let totals: Vec<curve::Curve> = series.curves.iter().cloned().map(curve::Curve::of_all_cores).collect();
    let points = totals.iter().flat_map(|curve| curve.points().iter().map(move |point| (curve, point)));
    let point = |(curve, point): (&curve::Curve, &curve::Point)| {
        MeasuredPoint::of(Some(&*curve.lock).filter(|&lock| lock != GLIBC), *point)
    };
    points.map(point).collect()
}

fn named_or_default(machine: Option<&str>) -> anyhow::Result<MachineFile> {
    machine.map_or_else(machines::default_machine, machines::load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use curve::{Curve, Point, Provenance, Series};

    #[test]
    fn throughput_of_one_core_is_totalled() {
        let points = [Point::exact(1, 10.0), Point::exact(4, 9.0)];
        let curve = Curve::new("c", Unit::OperationsPerSecondPerCore, Provenance::Measured).lock(GLIBC);
        let curve = curve.with_points(points).expect("cores go up");
        let series = Series { curves: vec![curve], ..Series::new("t") };
        assert_eq!(measured_points(&series)[1].rate, 36.0);
        assert!(is_in_operations(&series));
    }

    #[test]
    fn measured_curves_that_would_be_left_out_are_refused() {
        let curve = |lock: &str| {
            let curve = Curve::new(lock, Unit::OperationsPerSecond, Provenance::Measured).lock(lock);
            curve.with_points([Point::exact(1, 1.0)]).expect("one point")
        };
        let check = |locks: &[&str], named: &[&str]| {
            let curves = locks.iter().map(|lock| curve(lock)).collect();
            let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
            check_measured(&Series { curves, ..Series::new("t") }, &alternatives(&named).expect("locks"))
                .map_err(|error| error.to_string())
        };
        assert_eq!(check(&[GLIBC, "mcs"], &["mcs"]), Ok(()));
        assert!(check(&["mcs"], &["mcs"]).is_err_and(|why| why.contains("the lock `glibc`")));
        assert!(check(&[GLIBC, "mcs"], &["clh"]).is_err_and(|why| why.contains("--lock mcs")));
    }

    #[test]
    fn a_measured_curve_that_stops_is_refused() {
        for (last, part) in [
            (Point::exact(2, 0.0), "`glibc` is 0 at 2: "),
            (Point { low: 0.0, ..Point::exact(2, 3.0) }, "`glibc` has a range from 0 at 2: "),
        ] {
            let curve = Curve::new(GLIBC, Unit::OperationsPerSecond, Provenance::Measured).lock(GLIBC);
            let curve = curve.with_points([Point::exact(1, 1.0), last]).expect("cores go up");
            let error = check_measured(&Series { curves: vec![curve], ..Series::new("t") }, &[]).unwrap_err();
            assert!(error.is::<UsageError>() && error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn a_candidate_that_is_the_programs_own_lock_is_said_to_have_no_row() {
        let asked = alternatives(&["blocking".into(), "mcs".into()]).expect("a family and a lock");
        let row = |lock: Option<&str>| Row {
            lock: lock.map(str::to_owned),
            code: "glibc-mutex".into(),
            points: Vec::new(),
            verdict: forecast::Verdict::of(&[1], &[vec![1.0]], |drawn| drawn),
        };
        let said = without_row(&asked, &[row(None), row(Some("mcs"))]);
        assert!(
            matches!(&said[..], [one] if one.contains("`blocking`") && one.contains("row `as it is`")),
            "{said:?}"
        );
        let of_all = without_row(&asked, &[row(None), row(Some("blocking")), row(Some("mcs"))]);
        assert_eq!(of_all, [""; 0]);
    }

    #[test]
    fn the_help_says_which_lock_is_run_for_a_family() {
        use clap::Args as _;
        use forecast::simulated_program::lock_for;
        use model::Family;
        use profile::{LockKind, ObjectKind};
        let command = Args::augment_args(clap::Command::new("predict"));
        let flag = command.get_arguments().find(|flag| flag.get_id() == "locks").expect("--lock");
        let help = flag.get_long_help().or(flag.get_help()).expect("a help").to_string();
        for family in Family::ALL.into_iter().filter(|&family| family != Family::Blocking) {
            assert!(help.contains(family.name()), "{}", family.name());
            for kind in [ObjectKind::Mutex, ObjectKind::Rwlock] {
                let lock = lock_for(family.name(), family, LockKind::Object(kind));
                assert!(help.contains(lock), "{}: {lock}: {help}", family.name());
            }
        }
    }

    #[test]
    fn a_seed_leaves_room_for_those_that_follow_it() {
        use clap::Parser as _;
        #[derive(Debug, clap::Parser)]
        struct Command {
            #[command(flatten)]
            args: Args,
        }
        let seed = |seed: u64| {
            let words = ["predict", "p.contend", "--seed", &seed.to_string()].map(str::to_owned);
            Command::try_parse_from(words).map(|command| command.args.seed)
        };
        assert_eq!(seed(u64::MAX - 1_000).ok(), Some(Some(u64::MAX - 1_000)));
        assert_eq!(seed(u64::MAX).unwrap_err().exit_code(), 2);
    }
}
