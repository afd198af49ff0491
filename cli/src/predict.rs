//! `contend predict`: what a profiled lock does on more cores, as it is and with other locks in its place.

mod one_lock;
mod other_locks;
mod profiled;

use crate::arguments::Numbers;
use crate::{machines, reproduce};
use anyhow::Context as _;
use curve::Series;
use lab::names;
use model::{Family, Reading, family_named, predict};
use one_lock::{Measured, predict_lock};
use other_locks::{as_it_is, others_terminal, together};
use profile::Profile;
use profiled::{by_cost, choose, observed};
use report::{Screen, text};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use topology::machine_file::Costs;
use topology::{MachineFile, Range};

/// Predict from a profile how throughput changes with cores, for a lock as it is and for other locks in its place.
///
/// The profile gives the critical section, apart for "the last holder ran on this core" and "on another", and the time
/// outside the lock. The machine gives what a line transfer, one more waiter and a wake-up cost. The answer is relative
/// to one core, with a band; what is not measured is assumed as a range and widens the band. If the band holds both
/// collapse and none, the answer is that this profile cannot tell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend profile -o p.contend -- ./server --threads 2     # two cores tell most of what a prediction needs
  contend predict p.contend                                # the lock that costs most time, to 256 cores
  contend predict p.contend --machine epyc-9654x2 --cores 1..192 --lock mcs,ticket --svg p.svg
  contend predict two.contend --alone one.contend          # profiles of the same program on two threads and on one
  contend predict p.contend --site cache_lock --json | jq .lock.predictions[].verdict")]
pub(crate) struct Args {
    /// A profile that `contend profile -o FILE` wrote; one taken on two or more cores tells most
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// A profile of the same program on one thread: the time outside the lock, and the critical section of a core
    /// alone, are taken from there. Where PROFILE shows a lock that already collapses, its times outside hold the
    /// system calls and context switches of contention
    #[arg(long, value_name = "PROFILE")]
    alone: Option<PathBuf>,
    /// The machine to predict for: a name from `contend machines`, or a machine file [default: this machine if it is
    /// calibrated, else `typical`]
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// The machine that the profile was taken on, which says what a line transfer cost there [default: this machine if
    /// it is calibrated, else `typical`]
    #[arg(long, value_name = "MACHINE")]
    profiled_on: Option<String>,
    /// The cores to predict for, such as 1..64, or 1,2,4..48:4
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1..256", value_parser = Numbers::between(1, model::MAX_CORES))]
    cores: Vec<Numbers>,
    /// The locks to put in its place: names from `contend locks`, or families (blocking, test-and-set, back-off,
    /// ticket, queue) [default: every family]
    #[arg(long = "lock", value_name = "LOCK,…", value_delimiter = ',')]
    locks: Vec<String>,
    /// The lock to predict for, as `contend profile` prints its name; a function or variable without @STACK or +OFFSET
    /// stands for that lock there which costs most time [default: the lock that costs most time]
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// The form of the model (see `contend reproduce`)
    #[arg(long, value_name = "FORM", default_value = "waiters", value_parser = reproduce::reading)]
    reading: Reading,
    /// Curves measured on the target, as JSON or CSV of contend's curves: drawn beside the predictions, and the cost of
    /// a hand-over fitted to each whose lock is known
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
    /// Print parameters, curves and verdicts as JSON
    #[arg(long)]
    json: bool,
    /// Also draw the curves into this file as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Not every number of a long range, where a few show the same curve.
fn thinned(cores: Vec<u32>) -> Vec<u32> {
    match (cores.first(), cores.last()) {
        (Some(&first), Some(&last)) if cores.len() == (last - first + 1) as usize => {
            predict::sweep(first, last)
        }
        _ => cores,
    }
}

/// How many locks are predicted as they are, beside the one that is predicted in full.
const OTHERS: usize = 5;

/// Runs `contend predict`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { profile: path, alone, machine, profiled_on, cores, locks, site, reading, measured, json, svg } =
        args;
    let alternatives = alternatives(&locks)?;
    let machine = named_or_default(machine.as_deref())?;
    let profiled_on = named_or_default(profiled_on.as_deref())?;
    let table = Profile::open(&path)?.table(&profile::Options::default());
    let rows = by_cost(&table);
    let row = choose(&rows, site.as_deref(), &path)?;
    let target = Target {
        costs: machine.costs(),
        profiled_transfer_ns: profiled_on.costs().transfer_ns(2),
        cores: thinned(Numbers::all(&cores)),
        reading,
    };

    let mut lock = observed(row, &table);
    let mut shown = None;
    if let Some(one) = &alone {
        let one_thread = Profile::open(one)?.table(&profile::Options::default());
        lock = profiled::alone(lock, &one_thread, one)?;
        shown = profiled::shown(&row.name, &table, &one_thread);
    }
    let mut prediction = predict_lock(&lock, &alternatives, &target)
        .with_context(|| format!("nothing can be predicted for {} of {}", row.name, path.display()))?;
    if let Some(shown) = shown {
        prediction.believe(shown);
    }
    if let Some(file) = measured {
        for curve in &read_series(&file)?.curves {
            let measured =
                Measured::new(curve, &prediction, &target).with_context(|| file.display().to_string())?;
            prediction.measured.push(measured);
        }
    }
    let other_rows = rows.iter().filter(|other| !std::ptr::eq(**other, row)).take(OTHERS);
    let other_locks: Vec<_> = other_rows.map(|row| observed(row, &table)).collect();
    let others: Vec<_> = other_locks.iter().map(|lock| as_it_is(lock, &target)).collect();
    let together = together(&prediction, &other_locks, &target)?;

    if let Some(file) = svg {
        std::fs::write(&file, prediction.plot(&machine)?.svg())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if json {
        let out = serde_json::json!({
            "profile": path,
            "machine": machine,
            "reading": reading.name(),
            "form": reading.form(),
            "lock": prediction,
            "others": others,
            "all_together": together,
        });
        println!("{}", serde_json::to_string_pretty(&out)?);
    } else {
        let screen = Screen::stdout();
        print!("{}", prediction.terminal(&machine, &target, screen)?);
        print!("{}", others_terminal(&others, screen));
        if let Some(together) = &together {
            println!("{}", screen.fit(&together.terminal()));
        }
        for warning in &table.header.warnings {
            println!("{}", screen.fit(&format!("Of the profile: {}.", text::printable(warning))));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn named_or_default(machine: Option<&str>) -> anyhow::Result<MachineFile> {
    machine.map_or_else(machines::default_machine, machines::load)
}

/// A lock that may be put in place of the program's.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Alternative {
    name: String,
    family: Family,
    /// Whether readers share it. Of a family there is a reader-writer lock as well; of a lock, only if it is one.
    shared: bool,
}

fn alternatives(names: &[String]) -> anyhow::Result<Vec<Alternative>> {
    if names.is_empty() {
        let of_family = |family: Family| Alternative { name: family.name().to_owned(), family, shared: true };
        return Ok(Family::ALL.into_iter().map(of_family).collect());
    }
    let mut found = Vec::new();
    for name in names {
        let family = family_of(name)
            .ok_or_else(|| names::unknown_lock(name, Family::ALL.into_iter().map(Family::name)))?;
        let shared = locks::catalogue::find(name).is_none_or(|lock| lock.shared);
        found.push(Alternative { name: name.clone(), family, shared });
    }
    Ok(found)
}

/// The family of a lock of the catalogue, or of the literature.
fn family_of(lock: &str) -> Option<Family> {
    let known = locks::catalogue::find(lock).map(|lock| lock.family);
    known.or_else(|| family_named(lock))
}

/// Curves from a file: CSV if it is called so, else JSON.
pub(crate) fn read_series(path: &Path) -> anyhow::Result<Series> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let series = if path.extension().is_some_and(|extension| extension == "csv") {
        curve::format::read_csv("measured", file)
    } else {
        curve::format::read_json(std::io::BufReader::new(file))
    };
    series.with_context(|| path.display().to_string())
}

/// What to predict for.
struct Target {
    costs: Costs,
    /// A line transfer on the machine that the profile was taken on, which is taken to be this one.
    profiled_transfer_ns: Range,
    cores: Vec<u32>,
    reading: Reading,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ranges_of_cores_are_thinned_and_lists_are_not() {
        assert_eq!(thinned(vec![7]), [7]);
        assert_eq!(thinned(vec![1, 2, 64]), [1, 2, 64]);
        let all = thinned((1..=4096).collect());
        assert!(all.len() < 1_000 && all.last() == Some(&4096), "{}", all.len());
    }

    #[test]
    fn locks_of_the_catalogue_and_families_are_alternatives() {
        let names = ["mcs", "ttas", "queue"].map(str::to_owned);
        let families: Vec<_> = alternatives(&names).unwrap().into_iter().map(|lock| lock.family).collect();
        assert_eq!(families, [Family::Queue, Family::TestAndSet, Family::Queue]);
        assert_eq!(alternatives(&[]).unwrap().len(), Family::ALL.len());
        assert!(alternatives(&["no such".to_owned()]).unwrap_err().to_string().contains("contend locks"));
    }

    #[test]
    fn every_lock_of_the_catalogue_has_a_family_of_the_model() {
        for lock in locks::catalogue::LOCKS {
            assert_eq!(alternatives(&[lock.name.to_owned()]).unwrap()[0].family, lock.family);
        }
        for name in ["futex", "rw"] {
            assert_eq!(alternatives(&[name.to_owned()]).unwrap()[0].family, Family::BackOffThenSleep);
            assert_eq!(family_named(name), Some(Family::BackOffThenSleep), "with the catalogue or without");
        }
    }

    #[test]
    fn a_file_of_curves_that_is_none_is_named() {
        let message = format!("{:#}", read_series(Path::new("no/such/file.csv")).unwrap_err());
        assert!(message.contains("no/such/file.csv"), "{message}");
    }
}
