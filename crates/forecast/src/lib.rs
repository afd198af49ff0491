//! Predictions: what a profiled program does on more cores, as it is and with other locks in its place.
//!
//! - [`profiled`]: what a prediction needs of a profile's rows;
//! - [`one_lock`] and [`other_locks`]: the Markov chain of `model` for the lock in question, for the others, and for all
//!   of them together;
//! - [`twin`]: the profiled program rebuilt and run on the simulated target machine; [`belief`] says which of the two engines
//!   is believed where they part;
//! - [`extrapolated`]: measured curves on more cores, by laws instead of a profile;
//! - [`advice`]: what to do, and what each change of the program is expected to give, by the chain of `what_if` and by the twin;
//! - [`validate`](mod@validate): predictions against measurements of real programs;
//! - [`story`]: what the demo ends with, and [`demo_program`] the program that it measures.
//!
//! A [`Forecast`] is made from a [`Question`]; tables, plots and JSON are values, which the caller prints.

pub mod advice;
pub mod belief;
pub mod demo_program;
pub mod extrapolated;
pub mod one_lock;
pub mod other_locks;
mod page;
pub mod profiled;
pub mod story;
pub mod twin;
pub mod validate;

use advice::{Adviser, how_to_swap};
use anyhow::Context as _;
use belief::{Belief, beliefs};
use curve::Series;
use model::{Family, Observed, Variant, family_named, predict};
use one_lock::{LockPrediction, MeasuredCurve, Named, predict_lock};
use other_locks::{Other, Together, as_it_is, others_terminal, together};
use profile::LockRow;
use profiled::{Group, by_cost, choose, observed};
use rayon::prelude::*;
use report::{Plot, Screen, text};
use session::ensure_usage;
use session::names;
use session::progress::Progress;
use std::path::{Path, PathBuf};
use topology::machine_file::Costs;
use topology::{MachineFile, Range};
use twin::{Blueprint, Plan, Stage, Twin};
pub use what_if::{Alternative, Change, Conflicts};
use what_if::{Case, Gain, Sliders};

/// What is given for the elided form of a lock of the program's own kind.
pub const ELIDED: &str = "elided";

/// The alternatives of these names, each elided lock at both ends of what its sections may do to each other; every family if there are
/// no names.
///
/// # Errors
///
/// A name that is no lock of the catalogue in any form, no family, and not [`ELIDED`].
pub fn alternatives(names: &[String]) -> anyhow::Result<Vec<Alternative>> {
    if names.is_empty() {
        let of_family = |family: Family| Alternative {
            name: family.name().to_owned(),
            elided: None,
            family,
            shared: true,
        };
        return Ok(Family::ALL.into_iter().map(of_family).collect());
    }
    let mut found = Vec::new();
    for name in names {
        let elided = locks::catalogue::find_in_any_form(name).filter(|lock| lock.is_elided());
        if elided.is_some() || name == ELIDED {
            let (family, shared) = elided.map_or((Family::Blocking, true), |lock| (lock.family, lock.shared));
            let at = |conflicts| Alternative { name: name.clone(), elided: Some(conflicts), family, shared };
            found.extend([Conflicts::None, Conflicts::All].map(at));
            continue;
        }
        let family = family_of(name).ok_or_else(|| {
            let elided = locks::catalogue::ELIDED.iter().map(|lock| lock.name);
            names::unknown_lock(name, Family::ALL.into_iter().map(Family::name).chain([ELIDED]).chain(elided))
        })?;
        let shared = locks::catalogue::find(name).is_none_or(|lock| lock.shared);
        found.push(Alternative { name: name.clone(), elided: None, family, shared });
    }
    Ok(found)
}

/// The family of a lock of the catalogue, or of the literature.
#[must_use]
pub fn family_of(lock: &str) -> Option<Family> {
    let known = locks::catalogue::find(lock).map(|lock| lock.family);
    known.or_else(|| family_named(lock))
}

/// What to predict for.
#[derive(Debug, Clone)]
pub struct Target {
    /// What the machine costs.
    pub costs: Costs,
    /// A line transfer on the machine that the profile was taken on, ns.
    pub profiled_transfer_ns: Range,
    /// Numbers of cores, ascending; at least one.
    pub cores: Vec<u32>,
    /// The form of the model.
    pub variant: Variant,
}

/// Not every number of a long range, where a few show the same curve.
#[must_use]
pub fn thinned(cores: Vec<u32>) -> Vec<u32> {
    match (cores.first(), cores.last()) {
        (Some(&first), Some(&last)) if cores.len() == (last - first + 1) as usize => {
            predict::sweep(first, last)
        }
        _ => cores,
    }
}

/// How many locks are predicted as they are, beside the one that is predicted in full.
const OTHERS: usize = 5;

/// What is to be predicted.
#[derive(Debug)]
pub struct Question {
    /// The profile's file.
    pub profile: PathBuf,
    /// A profile of the same program on one thread.
    pub alone: Option<PathBuf>,
    /// The machine to predict for.
    pub machine: MachineFile,
    /// The machine that the profile was taken on.
    pub profiled_on: MachineFile,
    /// Numbers of cores, ascending; at least one.
    pub cores: Vec<u32>,
    /// The locks to put in its place.
    pub alternatives: Vec<Alternative>,
    /// The lock to predict for; none for the one that costs most time.
    pub site: Option<String>,
    /// The form of the model.
    pub variant: Variant,
    /// Curves that were measured on the target.
    pub measured: Option<Series>,
    /// The ways to predict.
    pub engines: Engines,
    /// Numbers of threads of the twin; none for powers of two up to the cores of the machine and of `cores`.
    pub threads: Vec<u32>,
    /// Decides everything random in the twin.
    pub seed: u64,
    /// The change to the program that is asked about; none for those that contend would try.
    pub what_if: Option<Change>,
}

/// The ways to predict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engines {
    /// The Markov chain alone.
    Chain,
    /// The simulated program; the chain's parameters are shown, not its curves.
    Twin,
    /// Both, side by side.
    Both,
}

/// What is predicted.
#[derive(Debug)]
pub struct Forecast {
    profile: PathBuf,
    machine: MachineFile,
    target: Target,
    /// The lock in question.
    pub lock: LockPrediction,
    /// The next locks by cost, as they are.
    pub others: Vec<Other>,
    /// All of them together; none where there is one lock, or where their times do not fit together.
    pub together: Option<Together>,
    /// What the simulated program says, if it was asked.
    pub twin: Option<Twin>,
    /// Who is believed where the two part.
    pub beliefs: Vec<Belief>,
    /// What to do, the greatest gain first; one change if one was asked about.
    pub advice: Vec<Gain>,
    /// The name of the change that was asked about.
    asked: Option<String>,
    /// What a page's sliders start from; none where the chain has nothing to say.
    sliders: Option<Sliders>,
    engines: Engines,
    /// What to know of the profile before believing this.
    pub warnings: Vec<String>,
}

impl Forecast {
    /// Answers a question.
    ///
    /// # Errors
    ///
    /// Files that cannot be read or are no profiles; a lock that is not there; a profile that lacks what a prediction needs.
    pub fn new(question: Question, progress: &dyn Progress) -> anyhow::Result<Self> {
        let Question {
            profile: path,
            alone,
            machine,
            profiled_on,
            cores,
            alternatives,
            site,
            variant,
            measured,
            engines,
            threads,
            seed,
            what_if,
        } = question;
        ensure_usage!(
            engines == Engines::Chain || what_if.as_ref().is_none_or(|change| change.handover == 1.0),
            "what a hand-over costs can be changed for the chain alone, since the twin's follows from its machine: add --engine chain, or \
             leave out handover"
        );
        let table = profiled::open(&path)?;
        let rows = by_cost(&table);
        let target = Target {
            costs: machine.costs(),
            profiled_transfer_ns: profiled_on.costs().transfer_ns(2),
            cores: thinned(cores),
            variant,
        };
        let tells =
            |row: &LockRow| profiled::tells(row, table.header.ran_together, target.profiled_transfer_ns);
        let row = choose(&rows, site.as_deref(), &path, tells)?;
        let mut observed_lock = observed(row, table.header.ran_together);
        let mut shown = None;
        let one_thread = match &alone {
            Some(one) => Some(profiled::open(one)?),
            None => None,
        };
        if let (Some(one_thread), Some(one)) = (&one_thread, &alone) {
            observed_lock = profiled::alone(observed_lock, one_thread, one)?;
            shown = profiled::shown(&row.name, &table, one_thread);
        }
        let mut lock = predict_lock(&observed_lock, &alternatives, &target)
            .with_context(|| format!("nothing can be predicted for {} of {}", row.name, path.display()))?;
        if let Some(shown) = shown {
            lock.believe(shown);
        }
        for curve in measured.iter().flat_map(|series| &series.curves) {
            let measured = MeasuredCurve::new(curve, &lock, &target)?;
            lock.measured.push(measured);
        }
        let other_rows = rows.iter().filter(|other| !std::ptr::eq(**other, row)).take(OTHERS);
        let other_locks: Vec<_> = other_rows.map(|row| observed(row, table.header.ran_together)).collect();
        let others = other_locks.par_iter().map(|lock| as_it_is(lock, &target)).collect();
        let together = together(&lock, &other_locks, &target)?;
        let mut warnings: Vec<_> = table
            .header
            .warnings
            .iter()
            .map(|warning| format!("of the profile: {}", text::printable(warning)))
            .collect();
        let twin = if engines == Engines::Chain {
            None
        } else {
            let others: Vec<_> = rows.iter().copied().filter(|other| !std::ptr::eq(*other, row)).collect();
            let all: Vec<_> =
                [Group::of_one(row)].into_iter().chain(Group::all(&others, &table.header)).collect();
            let of_one = one_thread.iter().flat_map(|table| &table.rows).find(|one| one.name == row.name);
            let ran_together = table.header.ran_together;
            let transfer_ns = target.profiled_transfer_ns;
            let blueprint = Blueprint::new(&all, ran_together, of_one, &lock.parameters, transfer_ns);
            let blueprint = match (of_one, &one_thread) {
                (Some(of_one), Some(one)) => {
                    blueprint.with_cores_of(of_one, &one.header, None).with_events_of(one.header.events_share)
                }
                _ => blueprint.with_cores_of(row, &table.header, None),
            };
            let last = target.cores[target.cores.len() - 1].min(machine.topology.cores());
            let mut plan = Plan { seed, ..Plan::upto(last) };
            if !threads.is_empty() {
                plan.threads = threads;
            }
            let measured = lock.measured.iter().flat_map(|measured| measured.curve.points());
            plan.threads.extend(measured.map(|point| point.cores).filter(|&cores| cores <= last));
            plan.threads.push(1);
            plan.threads.sort_unstable();
            plan.threads.dedup();
            let made = Stage::new(&blueprint, &machine, &profiled_on, &plan).and_then(|stage| {
                let twin = twin::run(&blueprint, &alternatives, &machine, &stage, &plan, progress)?
                    .widened(machine.topology.cores());
                Ok((twin, blueprint, stage, plan))
            });
            match made {
                Err(error) if engines == Engines::Twin => return Err(error),
                Err(error) => {
                    warnings.push(format!("there is no twin: {error:#}"));
                    None
                }
                Ok(made) => Some(made),
            }
        };
        let last = target.cores[target.cores.len() - 1].min(machine.topology.cores());
        let case = Case {
            site: row.name.clone(),
            family: observed_lock.family,
            parameters: lock.parameters.clone(),
            costs: target.costs.clone(),
            variant: target.variant,
            cores: target.cores.clone(),
            threads: twin.as_ref().and_then(|(.., plan)| plan.threads.last().copied()).unwrap_or(last),
            how: how_to_swap(&row.name, row.kind),
        };
        let adviser = Adviser {
            case: &case,
            twin: twin.as_ref().map(|(_, blueprint, stage, _)| (blueprint, stage)),
            chain: engines != Engines::Twin,
        };
        if let (Some(change), true) = (&what_if, adviser.chain) {
            let prediction = case.prediction(change)?;
            lock.predictions.push(Named { name: change.name(), as_it_is: false, prediction });
        }
        let asked = what_if.as_ref().map(Change::name);
        let ran = twin.as_ref().map(|(twin, ..)| twin);
        let changes = match what_if {
            Some(change) => vec![change],
            None => changes(&lock, ran, &alternatives, &observed_lock),
        };
        let mut advice = adviser.gains(&changes)?;
        advice
            .retain(|gain| changes.len() == 1 || gain.expected().is_some_and(|gain| gain.likely >= WORTH_IT));
        let likely = |gain: &Gain| gain.expected().map_or(0.0, |gain| gain.likely);
        advice.sort_by(|a, b| likely(b).total_cmp(&likely(a)));
        let sliders = (adviser.chain && lock.parameters.useless.is_none())
            .then(|| Sliders::new(case.clone(), machine.topology.cores(), replacements(&alternatives)));
        let twin = twin.map(|(twin, ..)| twin);
        let beliefs = match &twin {
            Some(twin) if engines == Engines::Both => beliefs(&lock, twin),
            _ => Vec::new(),
        };
        Ok(Self {
            profile: path,
            machine,
            target,
            lock,
            others,
            together,
            twin,
            beliefs,
            advice,
            asked,
            sliders,
            engines,
            warnings,
        })
    }

    /// All of it; the JSON is stable: fields are added, not changed.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "profile": self.profile,
            "machine": self.machine,
            "variant": self.target.variant.name(),
            "form": self.target.variant.form(),
            "lock": self.lock,
            "others": self.others,
            "all_together": self.together,
            "twin": self.twin,
            "beliefs": self.beliefs,
            "advice": self.advice,
        })
    }

    /// The curves of the lock in question: of chain, twin and what was measured.
    ///
    /// # Errors
    ///
    /// Measured curves that cannot be made relative to one core.
    pub fn plot(&self) -> anyhow::Result<Plot> {
        let chosen = self.drawn();
        let asked = |name: &str| self.asked.as_deref() == Some(name);
        let named =
            |name: &str, as_it_is: bool| as_it_is || asked(name) || chosen.iter().any(|one| one == name);
        let useful = self.lock.parameters.useless.is_none() && self.engines != Engines::Twin;
        let chain = self.lock.predictions.iter().filter(|one| useful && named(&one.name, one.as_it_is));
        let twin = self.twin.iter().flat_map(|twin| &twin.runs).filter(|run| named(&run.name, run.as_it_is));
        let curves = chain
            .map(|one| &one.prediction.curve)
            .chain(twin.map(|run| &run.curve))
            .chain(self.lock.measured.iter().map(|measured| &measured.curve));
        let title = format!("{} on {}, predicted", self.lock.observed.name, self.machine.name);
        Ok(Plot::new(title, curves)?)
    }

    /// The alternatives that are drawn: all, but the two best of the twin where both engines would fill the picture.
    fn drawn(&self) -> Vec<String> {
        const ROOM: usize = 3;
        const BEST: usize = 2;
        let of_chain = self.lock.predictions.iter().filter(|one| !one.as_it_is).map(|one| &one.name);
        let mut runs: Vec<_> =
            self.twin.iter().flat_map(|twin| &twin.runs).filter(|run| !run.as_it_is).collect();
        let mut all: Vec<_> = of_chain.chain(runs.iter().map(|run| &run.name)).cloned().collect();
        all.sort_unstable();
        all.dedup();
        if self.twin.is_none() || all.len() <= ROOM {
            return all;
        }
        let end = |run: &twin::Run| run.curve.points().last().map_or(0.0, |point| point.value);
        runs.sort_by(|a, b| end(b).total_cmp(&end(a)));
        runs.into_iter().take(BEST).map(|run| run.name.clone()).collect()
    }

    /// Tables, plot and remarks.
    ///
    /// # Errors
    ///
    /// As [`Forecast::plot`].
    pub fn terminal(&self, screen: Screen) -> anyhow::Result<String> {
        const PLOT_ROWS: usize = 20;
        let mut shown = self.lock.heading(&self.machine, screen);
        // First the one that has been nearer to what was measured.
        if let Some(twin) = &self.twin {
            shown.push_str(&twin.table().terminal(screen));
            shown.push('\n');
        }
        if self.engines != Engines::Twin {
            let heading = if self.twin.is_some() { "by the chain" } else { "lock" };
            shown.push_str(&self.lock.table(&self.target, heading).terminal(screen));
            shown.push('\n');
        }
        let plot = self.plot()?;
        if !plot.curves().is_empty() {
            shown.push_str(&plot.terminal(screen, PLOT_ROWS));
            shown.push('\n');
        }
        let mut lines = Vec::new();
        lines.extend(self.beliefs.iter().map(Belief::terminal));
        lines.extend(self.twin.iter().flat_map(Twin::remarks));
        for line in lines {
            shown.push_str(&screen.fit(&line));
            shown.push('\n');
        }
        if self.engines != Engines::Twin {
            shown.push_str(&screen.fit(&self.lock.remarks(&self.machine, &self.target)));
        }
        shown.push_str(&others_terminal(&self.others, screen));
        if let Some(together) = &self.together {
            shown.push_str(&screen.fit(&together.terminal()));
            shown.push('\n');
        }
        for line in self.advice_lines() {
            shown.push_str(&screen.fit(&line));
            shown.push('\n');
        }
        for warning in &self.warnings {
            shown.push_str(&screen.fit(&format!("Note: {warning}.")));
            shown.push('\n');
        }
        Ok(shown)
    }

    /// What to do.
    fn advice_lines(&self) -> Vec<String> {
        if self.advice.is_empty() && self.engines != Engines::Chain {
            return vec!["What to do: nothing that was tried gives a tenth more there.".into()];
        }
        let words = ["What to do"].into_iter().chain(std::iter::repeat("Or"));
        let lines = self.advice.iter().take(ADVICE).zip(words);
        lines.map(|(gain, word)| format!("{word}: {}", gain.terminal())).collect()
    }
}

/// Less is not worth the work of a change.
const WORTH_IT: f64 = 1.1;

/// So many changes are shown.
const ADVICE: usize = 4;

/// The locks that a page offers to put in the lock's place: what eliding gives has two ends, which the chain does not know.
fn replacements(alternatives: &[Alternative]) -> Vec<Alternative> {
    alternatives.iter().filter(|one| one.elided.is_none()).cloned().collect()
}

/// The changes to try where none was asked for.
fn changes(
    lock: &LockPrediction,
    twin: Option<&Twin>,
    alternatives: &[Alternative],
    observed: &Observed,
) -> Vec<Change> {
    /// Of the locks only the best are tried again.
    const BEST: usize = 2;
    let end = |curve: &curve::Curve| curve.points().last().map_or(0.0, |point| point.value);
    let mut ends: Vec<(&str, f64)> = match twin {
        Some(twin) => twin.runs.iter().map(|run| (run.name.as_str(), end(&run.curve))).collect(),
        None => lock.predictions.iter().map(|one| (one.name.as_str(), end(&one.prediction.curve))).collect(),
    };
    ends.sort_by(|a, b| b.1.total_cmp(&a.1));
    // What eliding gives is not known of a program whose conflicts are not.
    let of_name = |(name, _): &(&str, f64)| {
        alternatives.iter().find(|one| one.elided.is_none() && one.name == *name).cloned()
    };
    let best: Vec<_> = ends.iter().filter_map(of_name).take(BEST).collect();
    let own = match twin {
        Some(twin) => twin.runs.first().map(|run| (run.peak_cores, run.collapse_cores)),
        None => {
            lock.predictions.first().map(|one| (one.prediction.peak_cores, one.prediction.collapse_cores))
        }
    };
    let peak = own.and_then(|(peak, collapse)| collapse.map(|_| peak));
    let reads = observed.reads.map_or(0.0, |reads| reads as f64 / observed.acquisitions.max(1) as f64);
    advice::candidates(&best, peak, reads > 0.5)
}

/// Curves from a file: CSV if it is called so, else JSON.
///
/// # Errors
///
/// A file that cannot be read, or that holds no curves.
pub fn read_series(path: &Path) -> anyhow::Result<Series> {
    let file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let series = if path.extension().is_some_and(|extension| extension == "csv") {
        curve::format::read_csv("measured", file)
    } else {
        curve::format::read_json(std::io::BufReader::new(file))
    };
    series.with_context(|| path.display().to_string())
}

#[cfg(test)]
impl Forecast {
    /// The chain's answer alone, without a profile.
    pub(crate) fn of_chain(lock: LockPrediction, machine: MachineFile, target: Target) -> Self {
        let nothing = (Vec::new(), Vec::new(), Vec::new());
        let (others, beliefs, warnings) = nothing;
        let (profile, together, twin) = (PathBuf::new(), None, None);
        let (engines, advice, asked, sliders) = (Engines::Chain, Vec::new(), None, None);
        Self {
            profile,
            machine,
            target,
            lock,
            others,
            together,
            twin,
            beliefs,
            advice,
            asked,
            sliders,
            engines,
            warnings,
        }
    }
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
