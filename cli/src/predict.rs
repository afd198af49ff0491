//! `contend predict`: what a profiled lock does on more cores, as it is and with other locks in its place.

use crate::{machines, reproduce};
use anyhow::Context as _;
use curve::Curve;
use model::machine_file::Costs;
use model::predict::{self, Fall, Part};
use model::{Family, MachineFile, Mean, Observed, Parameters, Prediction, Range, Reading, Verdict};
use profile::{LockKind, LockRow, LockTable, Profile, Times};
use report::{Cell, Column, Plot, Spread, Table, text};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
  contend predict p.contend --site cache_lock --json | jq .lock.predictions[].verdict")]
pub(crate) struct Args {
    /// A profile that `contend profile -o FILE` wrote; one taken on two or more cores tells most
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// The machine to predict for: a name from `contend machines`, or a machine file [default: this machine if it is
    /// calibrated, else `typical`]
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// The cores to predict for, as FIRST..LAST
    #[arg(long, value_name = "FIRST..LAST", default_value = "1..256", value_parser = cores)]
    cores: Cores,
    /// The locks to put in its place: names from `contend locks`, or families (blocking, test-and-set, back-off,
    /// ticket, queue) [default: every family]
    #[arg(long = "lock", value_name = "NAME,…", value_delimiter = ',')]
    locks: Vec<String>,
    /// The lock to predict for, by a part of its name [default: the one that costs most time]
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// The form of the model (see `contend reproduce`)
    #[arg(long, value_name = "FORM", default_value = "waiters", value_parser = reproduce::reading)]
    reading: Reading,
    /// Print parameters, curves and verdicts as JSON
    #[arg(long)]
    json: bool,
    /// Also draw the curves into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cores {
    first: u32,
    last: u32,
}

fn cores(text: &str) -> Result<Cores, String> {
    let (first, last) = text.split_once("..").unwrap_or(("1", text));
    let number = |text: &str| text.trim_start_matches('=').parse::<u32>().ok();
    match (number(first), number(last)) {
        (Some(first), Some(last)) if 1 <= first && first <= last && last <= model::MAX_CORES => {
            Ok(Cores { first, last })
        }
        _ => Err(format!("cores are given as FIRST..LAST, from 1 to {}, such as 1..256", model::MAX_CORES)),
    }
}

/// How many locks are predicted as they are, beside the one that is predicted in full.
const OTHERS: usize = 5;

/// Runs `contend predict`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { profile: path, machine, cores, locks, site, reading, json, svg } = args;
    let alternatives = alternatives(&locks)?;
    let machine = match &machine {
        Some(name) => machines::load(name)?,
        None => machines::default_machine()?,
    };
    let table = Profile::open(&path)?.table(&profile::Options::default());
    let rows = by_cost(&table);
    let row = choose(&rows, site.as_deref(), &path)?;
    let target = Target {
        costs: machine.costs(),
        profiled_transfer_ns: machines::default_machine()?.costs().transfer_ns(2),
        cores: predict::sweep(cores.first, cores.last),
        reading,
    };

    let prediction = predict_lock(&observed(row, &table), &alternatives, &target)
        .with_context(|| format!("nothing can be predicted for {} of {}", row.name, path.display()))?;
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
        print!("{}", prediction.terminal(&machine, &target)?);
        print!("{}", others_terminal(&others));
        if let Some(together) = &together {
            println!("{}", together.terminal());
        }
        for warning in &table.header.warnings {
            println!("Of the profile: {}.", text::printable(warning));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A lock that may be put in place of the program's.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Alternative {
    name: String,
    family: Family,
}

fn alternatives(names: &[String]) -> anyhow::Result<Vec<Alternative>> {
    if names.is_empty() {
        let of_family = |family: Family| Alternative { name: family.name().to_owned(), family };
        return Ok(Family::ALL.into_iter().map(of_family).collect());
    }
    let mut found = Vec::new();
    for name in names {
        let known = locks::catalogue::find(name).map(|lock| family(lock.family));
        let family = known.or_else(|| Family::of_lock(name)).with_context(|| {
            format!("no lock or family `{}`: `contend locks` lists the locks", text::printable(name))
        })?;
        found.push(Alternative { name: name.clone(), family });
    }
    Ok(found)
}

fn family(of_catalogue: locks::catalogue::Family) -> Family {
    match of_catalogue {
        locks::catalogue::Family::TestAndSet => Family::TestAndSet,
        locks::catalogue::Family::Ticket => Family::Ticket,
        locks::catalogue::Family::BackOff => Family::BackOff,
        locks::catalogue::Family::Queue => Family::Queue,
        locks::catalogue::Family::Blocking => Family::Blocking,
    }
}

/// The rows that are one lock each, the one that costs most time first.
fn by_cost(table: &LockTable) -> Vec<&LockRow> {
    let mut rows: Vec<_> = table
        .rows
        .iter()
        .filter(|row| !row.merged && row.kind != LockKind::Mixed && row.acquisitions() > 0)
        .collect();
    let cost = |row: &LockRow| row.waited_ns() + row.held_ns();
    rows.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
    rows
}

fn choose<'a>(rows: &[&'a LockRow], site: Option<&str>, path: &Path) -> anyhow::Result<&'a LockRow> {
    let Some(site) = site else {
        let first = rows.first().copied();
        return first.with_context(|| {
            format!("{} holds no lock that was acquired: there is nothing to predict", path.display())
        });
    };
    let named = rows.iter().copied().find(|row| row.name.contains(site));
    named.with_context(|| {
        format!(
            "{} holds no lock named like `{}`: `contend report {0}` lists them",
            path.display(),
            text::printable(site)
        )
    })
}

/// What the model needs of a row of the lock table.
///
/// The program is taken to have run on the C library's locks: a sleeping mutex and reader-writer lock, a spin lock
/// whose waiters all try one word.
fn observed(row: &LockRow, table: &LockTable) -> Observed {
    let mean = |times: &Times| times.mean_ns().map(|ns| Mean { ns, samples: times.count });
    let both = |of: fn(&profile::Usage) -> &Times| of(&row.exclusive).and(of(&row.shared));
    let handover = both(|usage| &usage.handover);
    let holds = row.exclusive.holds().saturating_add(row.shared.holds()).max(1);
    Observed {
        name: row.name.clone(),
        family: if row.kind == LockKind::Spin { Family::TestAndSet } else { Family::Blocking },
        threads: u32::try_from(row.threads).unwrap_or(u32::MAX),
        acquisitions: row.acquisitions(),
        reads: (row.kind == LockKind::Rwlock).then_some(row.shared.acquisitions),
        hold_same: mean(&both(|usage| &usage.hold_same)),
        hold_other: mean(&both(|usage| &usage.hold_other)),
        think: mean(&both(|usage| &usage.think)),
        wait_ns: row.waited_ns() / holds as f64,
        handover_ns: range(&handover),
        ran_together: ran_together(&table.header),
    }
}

/// The mean of enough durations, in the range that holds four fifths of them.
fn range(times: &Times) -> Option<Range> {
    const ENOUGH: u64 = 30;
    let likely = times.mean_ns().filter(|&ns| times.count >= ENOUGH && ns > 0.0)?;
    let low = times.quantile_ns(0.1).unwrap_or(likely).clamp(f64::MIN_POSITIVE, likely);
    let high = times.quantile_ns(0.9).unwrap_or(likely).max(likely);
    Some(Range { low, likely, high })
}

/// Whether threads that share locks ran at the same time, as the lock table judges it.
fn ran_together(header: &profile::read::TableHeader) -> bool {
    /// Fewer cores in use at a time than this, and several threads took turns.
    const TOGETHER: f64 = 1.2;
    header.threads <= 1 || header.cores_used == 0.0 || header.cores_used >= TOGETHER
}

/// What to predict for.
struct Target {
    costs: Costs,
    /// A line transfer on the machine that the profile was taken on, which is taken to be this one.
    profiled_transfer_ns: Range,
    cores: Vec<u32>,
    reading: Reading,
}

/// A prediction and the lock that it is for.
#[derive(Debug, Serialize)]
struct Named {
    name: String,
    as_it_is: bool,
    #[serde(flatten)]
    prediction: Prediction,
}

/// Everything that is predicted for one lock of a program.
#[derive(Debug, Serialize)]
struct LockPrediction {
    observed: Observed,
    parameters: Parameters,
    predictions: Vec<Named>,
}

fn predict_lock(
    lock: &Observed,
    alternatives: &[Alternative],
    target: &Target,
) -> anyhow::Result<LockPrediction> {
    let parameters = Parameters::observed(lock, target.profiled_transfer_ns).map_err(anyhow::Error::msg)?;
    let predict =
        |family| predict::predict(&parameters, family, &target.costs, &target.cores, target.reading);
    let mut predictions = vec![Named {
        name: format!("{} as it is", lock.family.name()),
        as_it_is: true,
        prediction: predict(lock.family)?,
    }];
    for Alternative { name, family } in alternatives {
        // A family that the program runs on already would be predicted twice.
        if name != lock.family.name() {
            predictions.push(Named { name: name.clone(), as_it_is: false, prediction: predict(*family)? });
        }
    }
    for named in &mut predictions {
        named.prediction.curve.label.clone_from(&named.name);
    }
    Ok(LockPrediction { observed: lock.clone(), parameters, predictions })
}

/// Another lock of the program: what becomes of it as it is.
#[derive(Debug, Serialize)]
struct Other {
    name: String,
    peak_cores: Option<u32>,
    collapse_cores: Option<u32>,
    verdict: Verdict,
}

fn as_it_is(lock: &Observed, target: &Target) -> Other {
    let name = lock.name.clone();
    match predict_lock(lock, &[], target) {
        Ok(LockPrediction { predictions, .. }) => {
            let Prediction { peak_cores, collapse_cores, ref verdict, .. } = predictions[0].prediction;
            Other { name, peak_cores: Some(peak_cores), collapse_cores, verdict: verdict.clone() }
        }
        Err(error) => {
            let verdict = Verdict::CannotTell { reason: format!("{error:#}") };
            Other { name, peak_cores: None, collapse_cores: None, verdict }
        }
    }
}

/// The program's hottest locks, as they are, one after another in each operation.
#[derive(Debug, Serialize)]
struct Together {
    curve: Curve,
    limited_by: String,
}

/// Takes one acquisition of the predicted lock as the operation, and all its threads to do the same work. `None` if
/// there is one lock, or if the others were held longer than the operation took, so that this cannot be.
fn together(main: &LockPrediction, others: &[Observed], target: &Target) -> anyhow::Result<Option<Together>> {
    let usable = others
        .iter()
        .filter_map(|lock| Some((lock, Parameters::observed(lock, target.profiled_transfer_ns).ok()?)));
    let others: Vec<_> = usable.collect();
    if others.is_empty() {
        return Ok(None);
    }
    let visits = |lock: &Observed| lock.acquisitions as f64 / main.observed.acquisitions as f64;
    let at_lock = |lock: &Observed| visits(lock) * (mean_hold_ns(lock) + lock.wait_ns);
    let elsewhere: f64 = others.iter().map(|(lock, _)| at_lock(lock)).sum();
    let outside_ns = main.parameters.outside_ns.likely - elsewhere;
    if outside_ns <= 0.0 {
        return Ok(None);
    }
    let mut parts = vec![Part { visits: 1.0, family: main.observed.family, parameters: &main.parameters }];
    parts.extend(others.iter().map(|(lock, parameters)| Part {
        visits: visits(lock),
        family: lock.family,
        parameters,
    }));
    let last = target.cores[target.cores.len() - 1];
    let mut cores: Vec<u32> = (0..).map(|power| 1 << power).take_while(|&cores| cores < last).collect();
    cores.push(last);
    let (curve, limit) = predict::together(&parts, outside_ns, &target.costs, &cores, target.reading)?;
    let limited_by = match limit {
        Some(place) if place > 0 => others[place - 1].0.name.clone(),
        _ => main.observed.name.clone(),
    };
    Ok(Some(Together { curve, limited_by }))
}

fn mean_hold_ns(lock: &Observed) -> f64 {
    let holds = [lock.hold_same, lock.hold_other];
    let samples: u64 = holds.iter().flatten().map(|mean| mean.samples).sum();
    holds.iter().flatten().map(|mean| mean.ns * mean.samples as f64).sum::<f64>() / samples.max(1) as f64
}

impl Together {
    fn terminal(&self) -> String {
        let values: Vec<_> = self
            .curve
            .points()
            .iter()
            .map(|point| format!("{} at {}", text::short(point.value), point.cores))
            .collect();
        format!(
            "All of these locks together, as they are: {}; limited by {}.",
            values.join(", "),
            text::printable(&self.limited_by)
        )
    }
}

fn others_terminal(others: &[Other]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        Column::text("name", "other locks, as they are"),
        Column::number("peak_cores", "peak cores"),
        Column::number("collapse_cores", "under 90 % at"),
        Column::text("verdict", "verdict"),
    ]);
    for other in others {
        table.row([
            Cell::from(other.name.as_str()),
            Cell::from(other.peak_cores),
            Cell::from(other.collapse_cores),
            Cell::from(words(&other.verdict)),
        ]);
    }
    format!("\n{}", table.terminal(text::terminal_columns()))
}

/// A verdict in a few words; reasons are given apart.
fn words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Grows => "grows".into(),
        Verdict::LevelsOff => "levels off".into(),
        Verdict::Collapses { earliest, latest } if earliest == latest => format!("collapses at {earliest}"),
        Verdict::Collapses { earliest, latest } => format!("collapses at {earliest} to {latest}"),
        Verdict::CannotTell { .. } => "cannot be told".into(),
    }
}

impl LockPrediction {
    fn curves(&self) -> impl Iterator<Item = &Curve> {
        self.predictions.iter().map(|named| &named.prediction.curve)
    }

    fn plot(&self, machine: &MachineFile) -> anyhow::Result<Plot> {
        let title = format!("{} on {}, predicted", self.observed.name, machine.name);
        Ok(Plot::new(title, self.curves())?)
    }

    fn terminal(&self, machine: &MachineFile, target: &Target) -> anyhow::Result<String> {
        const PLOT_ROWS: usize = 20;
        let width = text::terminal_columns();
        let mut shown = self.describe();
        let _ = writeln!(shown, "On {}: {}.\n", machine.name, text::printable(&machine.description));
        let last = target.cores[target.cores.len() - 1];
        let mut table = Table::new([
            Column::text("lock", "lock"),
            Column::number("peak_cores", "peak cores"),
            Column::number("peak_speedup", "peak"),
            Column::number("collapse_cores", "under 90 % at"),
            Column::spread("speedup_at_last", "at the last core"),
            Column::text("verdict", "verdict"),
        ]);
        for Named { name, prediction, .. } in &self.predictions {
            let end = prediction.curve.at(last);
            table.row([
                Cell::from(name.as_str()),
                Cell::from(prediction.peak_cores),
                Cell::from(prediction.peak_speedup),
                Cell::from(prediction.collapse_cores),
                Cell::from(end.map(|p| Spread { low: p.low, median: p.value, high: p.high })),
                Cell::from(words(&prediction.verdict)),
            ]);
        }
        shown.push_str(&table.terminal(width));
        shown.push('\n');
        shown.push_str(&self.plot(machine)?.terminal(width.unwrap_or(100), PLOT_ROWS));
        shown.push('\n');
        shown.push_str(&self.remarks(machine, target));
        Ok(shown)
    }

    /// The lock and what the profile says of it.
    fn describe(&self) -> String {
        let Self { observed, parameters, .. } = self;
        let Range { low, likely, high } = parameters.growth_ns.plus(Range::exact(parameters.same_ns));
        let other =
            if low < high { format!("{likely:.0} ({low:.0} to {high:.0})") } else { format!("{likely:.0}") };
        let reads =
            parameters.read_share.map_or(String::new(), |share| format!(", {:.0} % reads", 100.0 * share));
        format!(
            "{}: {} acquisitions by {} threads{reads}.\n\
             Critical section {:.0} ns after this core, {other} after another; {} ns outside.\n",
            text::printable(&observed.name),
            text::grouped(observed.acquisitions),
            observed.threads,
            parameters.same_ns,
            text::short(parameters.outside_ns.likely),
        )
    }

    /// What the reader must know of these figures: doubts, open verdicts, what was assumed, where short runs deceive.
    fn remarks(&self, machine: &MachineFile, target: &Target) -> String {
        let mut shown = String::new();
        for doubt in &self.parameters.doubts {
            let _ = writeln!(shown, "In doubt: {doubt}.");
        }
        // Predictions share their reasons where they share their inputs.
        let mut told: Vec<&str> = Vec::new();
        for Named { name, prediction, .. } in &self.predictions {
            if let Verdict::CannotTell { reason } = &prediction.verdict
                && !told.contains(&reason.as_str())
            {
                let _ = writeln!(shown, "Cannot be told from this profile ({name}): {reason}.");
                told.push(reason);
            }
        }
        if self.parameters.profiled_transfer_ns.low < self.parameters.profiled_transfer_ns.high {
            let Range { low, high, .. } = self.parameters.profiled_transfer_ns;
            let _ = writeln!(
                shown,
                "Assumed: a line transfer of {low:.0} to {high:.0} ns where the profile was taken; contend calibrate measures it."
            );
        }
        let waiter = &machine.handover.waiter;
        let last = target.cores[target.cores.len() - 1];
        let Range { low, likely, high } = target.costs.waiter_ns(last);
        let _ = writeln!(
            shown,
            "One more waiter costs {likely:.0} ns at {last} cores ({low:.0} to {high:.0}; {}), in t_k = {}.",
            text::printable(&waiter.source),
            target.reading.form()
        );
        let falls = self.predictions.iter().filter_map(|named| Some((&named.name, named.prediction.fall?)));
        for (name, Fall { cores, to_collapse_ns, to_recover_ns }) in falls {
            if to_collapse_ns.max(to_recover_ns) > NOTEWORTHY_NS {
                let _ = writeln!(
                    shown,
                    "With {name} at {cores} cores the lock works for {} on average, falls, and stays down for {}: \
                     runs much shorter than that look better.",
                    duration(to_collapse_ns),
                    duration(to_recover_ns)
                );
            }
        }
        shown
    }
}

/// No run is so short that falls and recoveries quicker than this would show in it.
const NOTEWORTHY_NS: f64 = 1e6;

/// A time in the unit that suits it.
fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", text::short(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(last: u32) -> Target {
        Target {
            costs: machines::load("epyc-9654x2").unwrap().costs(),
            profiled_transfer_ns: Range::exact(50.0),
            cores: predict::sweep(1, last),
            reading: Reading::default(),
        }
    }

    fn times(count: u64, mean_ns: f64) -> Times {
        Times { count, total_ns: mean_ns * count as f64, buckets: Vec::new() }
    }

    fn lock() -> Observed {
        let mean = |ns| Some(Mean { ns, samples: 1_000_000 });
        Observed {
            name: "order\u{1b}[2J<b>".into(),
            family: Family::Blocking,
            threads: 2,
            acquisitions: 1_000_000,
            reads: None,
            hold_same: mean(60.0),
            hold_other: mean(120.0),
            think: mean(900.0),
            wait_ns: 0.0,
            handover_ns: Some(Range { low: 3e3, likely: 8e3, high: 2e4 }),
            ran_together: true,
        }
    }

    #[test]
    fn core_ranges_are_read_or_explained() {
        assert_eq!(cores("1..256"), Ok(Cores { first: 1, last: 256 }));
        assert_eq!(cores("2..=48"), Ok(Cores { first: 2, last: 48 }));
        assert_eq!(cores("64"), Ok(Cores { first: 1, last: 64 }));
        for wrong in ["", "0..4", "5..4", "1..5000", "a..b", "1..99999999999", "-1..3"] {
            assert!(cores(wrong).unwrap_err().contains("FIRST..LAST"), "{wrong}");
        }
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
            assert_eq!(alternatives(&[lock.name.to_owned()]).unwrap()[0].family, family(lock.family));
        }
    }

    #[test]
    fn a_prediction_has_the_lock_as_it_is_first_and_no_family_twice() {
        let prediction = predict_lock(&lock(), &alternatives(&[]).unwrap(), &target(64)).unwrap();
        let names: Vec<_> = prediction.predictions.iter().map(|named| named.name.as_str()).collect();
        assert_eq!(names, ["blocking as it is", "test-and-set", "back-off", "ticket", "queue"]);
        assert!(prediction.predictions[0].as_it_is);
        assert!(prediction.curves().all(|curve| curve.at(64).is_some()));
    }

    #[test]
    fn a_queue_lock_ends_above_a_ticket_lock() {
        let prediction = predict_lock(&lock(), &alternatives(&[]).unwrap(), &target(192)).unwrap();
        let end = |name: &str| {
            let named = prediction.predictions.iter().find(|named| named.name == name).unwrap();
            named.prediction.curve.at(192).unwrap().value
        };
        assert!(end("queue") > 2.0 * end("ticket") && end("ticket") > end("test-and-set"));
    }

    #[test]
    fn names_from_a_profile_cannot_act_on_the_terminal() {
        let machine = machines::load("epyc-9654x2").unwrap();
        let target = target(32);
        let prediction = predict_lock(&lock(), &[], &target).unwrap();
        let shown = prediction.terminal(&machine, &target).unwrap();
        assert!(!shown.contains('\u{1b}') && shown.contains("\\u{1b}[2J"));
        assert!(!prediction.plot(&machine).unwrap().svg().contains("<b>"));
    }

    #[test]
    fn an_unusable_lock_is_open_and_says_why() {
        let other = as_it_is(&Observed { think: None, ..lock() }, &target(8));
        let Verdict::CannotTell { reason } = &other.verdict else { panic!("{other:?}") };
        assert!(reason.contains("profile longer"), "{reason}");
    }

    #[test]
    fn locks_together_do_less_than_the_first_alone() {
        let target = target(64);
        let main = predict_lock(&lock(), &[], &target).unwrap();
        let other =
            Observed { name: "other".into(), think: Some(Mean { ns: 400.0, samples: 1000 }), ..lock() };
        let together = together(&main, &[other], &target).unwrap().expect("two locks");
        let alone = main.predictions[0].prediction.curve.at(4).unwrap().value;
        assert!(together.curve.at(4).unwrap().value < alone * 1.2);
        assert_eq!(together.curve.points()[0].value, 1.0);
        assert!(super::together(&main, &[], &target).unwrap().is_none());
    }

    #[test]
    fn hand_overs_become_a_range_when_there_are_enough() {
        assert_eq!(range(&times(10, 500.0)), None);
        assert_eq!(range(&times(100, 500.0)), Some(Range::exact(500.0)));
    }

    #[test]
    fn durations_have_a_fitting_unit() {
        assert_eq!(duration(250.0), "250 ns");
        assert_eq!(duration(2.5e6), "2.50 ms");
    }
}
