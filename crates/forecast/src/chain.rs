//! The Markov chain's answer alone, at once and without the simulated program: `contend predict --engine chain`.

use crate::advice::{Adviser, can_be_tried};
use crate::one_lock::{LockPrediction, MeasuredCurve, Named, predict_lock};
use crate::other_locks::{Other, Together, as_it_is, others_table, others_terminal, together};
use crate::profiled::{by_cost, observed};
use crate::question::{Question, Void};
use crate::simulated_program::lock_for;
use crate::subject::{self, Besides, Subject};
use crate::{Alternative, Target, thinned};
use curve::{Curve, Series};
use model::Variant;
use profile::{LockKind, LockRow};
use rayon::prelude::*;
use report::{Page, Plot, Screen, text};
use topology::MachineFile;
use what_if::{Case, Change, Gain, Sliders};

/// How many locks are predicted as they are, beside the one that is predicted in full.
const OTHERS: usize = 5;

/// What the chain says of a lock.
#[derive(Debug)]
pub struct ByChain {
    machine: MachineFile,
    target: Target,
    lock: LockPrediction,
    others: Vec<Other>,
    together: Option<Together>,
    advice: Vec<Gain>,
    notes: Vec<String>,
    /// What a page's sliders start from; none where the chain has nothing to say.
    sliders: Option<Sliders>,
    /// The name of the change that was asked for.
    what_if: Option<String>,
}

impl ByChain {
    /// Answers a question by the form `variant` of the chain. A hand-over cost is fitted to `measured` curves.
    ///
    /// # Errors
    ///
    /// As [`crate::forecast`].
    pub fn new(
        question: &Question,
        variant: Variant,
        measured: Option<&Series>,
    ) -> anyhow::Result<Result<Self, Void>> {
        let tables = match subject::open(&question.profiles)? {
            Ok(tables) => tables,
            Err(void) => return Ok(Err(void)),
        };
        let target = Target {
            costs: question.machine.costs(),
            profiled_transfer_ns: question.profiled_on.costs().transfer_ns(2),
            cores: thinned(from_one(&question.cores)),
            variant,
        };
        let transfer_ns = target.profiled_transfer_ns;
        let besides = Besides { cores_used: None, stretch: question.stretch };
        let subject = match Subject::new(
            &tables,
            question.site.as_deref(),
            transfer_ns,
            besides,
            &question.profiles[0],
        )? {
            Ok(subject) => subject,
            Err(void) => return Ok(Err(void)),
        };
        // It tells families apart, not locks.
        let candidates = question.candidates.clone().map_or_else(|| crate::alternatives(&[]), Ok)?;
        let mut lock = predict_lock(&subject.observed, &candidates, &target)?;
        for curve in measured.iter().flat_map(|series| &series.curves) {
            let measured = MeasuredCurve::new(curve, &lock, &target)?;
            lock.measured.push(measured);
        }
        let table = &tables[subject.main];
        let is_other = |row: &&LockRow| row.site != subject.row.site;
        let rows: Vec<_> = by_cost(table).into_iter().filter(is_other).take(OTHERS).collect();
        let other_locks: Vec<_> = rows.iter().map(|row| observed(row, table.header.ran_together)).collect();
        let case = Case {
            site: subject.row.name.clone(),
            family: subject.observed.family,
            parameters: lock.parameters.clone(),
            costs: target.costs.clone(),
            variant,
            cores: target.cores.clone(),
            threads: target.cores[target.cores.len() - 1].min(question.machine.topology.cores()),
            how: crate::advice::how_to_swap(&subject.row.name, subject.row.kind),
        };
        let what_if = question.what_if.as_ref().map(Change::name);
        if let Some(change) = &question.what_if {
            let prediction = case.prediction(change)?;
            lock.predictions.push(Named { name: change.name(), as_it_is: false, prediction });
        }
        let changes = match &question.what_if {
            Some(change) => vec![change.clone()],
            None => changes(&lock, &candidates, subject.row.kind),
        };
        let sliders = lock.parameters.useless.is_none().then(|| {
            Sliders::new(
                case.clone(),
                question.machine.topology.cores(),
                crate::answer::replacements(&candidates),
            )
        });
        Ok(Ok(Self {
            machine: question.machine.clone(),
            others: other_locks.par_iter().map(|lock| as_it_is(lock, &target)).collect(),
            together: together(&lock, &other_locks, &target)?,
            advice: Adviser { case: &case, simulated: None }.worth(&changes)?,
            target,
            lock,
            notes: subject.notes,
            sliders,
            what_if,
        }))
    }

    /// All of it; fields are added, not changed.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "engine": "chain",
            "machine": self.machine,
            "variant": self.target.variant.name(),
            "form": self.target.variant.form(),
            "lock": self.lock,
            "others": self.others,
            "all_together": self.together,
            "advice": self.advice,
            "notes": self.notes,
        })
    }

    /// The curves of the lock, and what was measured of it.
    ///
    /// # Errors
    ///
    /// Measured curves that cannot be made relative to one core.
    pub fn plot(&self) -> anyhow::Result<Plot> {
        let useful = self.lock.parameters.useless.is_none();
        let chain = self.lock.predictions.iter().filter(|_| useful).map(|one| &one.prediction.curve);
        let curves = chain.chain(self.lock.measured.iter().map(|measured| &measured.curve));
        let title = format!("{} on {}, by the Markov chain", self.lock.observed.name, self.machine.name);
        Ok(Plot::new(title, curves)?)
    }

    /// The curve of the lock as it is, in bold and with its range, the change that was asked for, the best of the others, and what was
    /// measured.
    fn picture(&self) -> anyhow::Result<Plot> {
        const OTHERS: usize = 3;
        let whole = self.plot()?;
        let predicted = whole.curves().len().saturating_sub(self.lock.measured.len());
        let (predicted, measured) = whole.curves().split_at(predicted);
        let Some((baseline, others)) = predicted.split_first() else { return Ok(whole) };
        let end = |curve: &Curve| curve.points().last().map_or(0.0, |point| point.value);
        let (changed, mut others): (Vec<&Curve>, Vec<&Curve>) =
            others.iter().partition(|curve| self.what_if.as_ref() == Some(&curve.label));
        others.sort_by(|a, b| end(b).total_cmp(&end(a)));
        let others = changed.into_iter().chain(others).take(OTHERS).cloned();
        let drawn = others.filter_map(crate::shown::without_ranges).chain(measured.iter().cloned());
        let curves: Vec<Curve> = std::iter::once(baseline.clone()).chain(drawn).collect();
        Ok(Plot::new(whole.title(), &curves)?.bold_first())
    }

    /// Table, plot and remarks.
    ///
    /// # Errors
    ///
    /// As [`ByChain::plot`].
    pub fn terminal(&self, screen: Screen) -> anyhow::Result<String> {
        const PLOT_ROWS: usize = 20;
        let mut shown = self.lock.heading(&self.machine, screen);
        shown.push_str(&self.lock.table(&self.target, "lock").terminal(screen));
        shown.push('\n');
        let plot = self.plot()?;
        if !plot.curves().is_empty() {
            shown.push_str(&plot.terminal(screen, PLOT_ROWS));
            shown.push('\n');
        }
        shown.push_str(&screen.fit(&self.lock.remarks(&self.machine, &self.target)));
        shown.push_str(&others_terminal(&self.others, screen));
        let together = self.together.iter().map(Together::terminal);
        let notes = self.notes.iter().map(|note| format!("Note: {note}."));
        for line in together.chain(crate::shown::advice_lines(&self.advice)).chain(notes) {
            shown.push_str(&screen.fit(&line));
            shown.push('\n');
        }
        Ok(shown)
    }

    /// The same as a page for a browser.
    ///
    /// # Errors
    ///
    /// As [`ByChain::plot`].
    pub fn page(&self) -> anyhow::Result<Page> {
        let plot = self.picture()?;
        let mut page = Page::new(plot.title());
        if !plot.curves().is_empty() {
            page = page.plot(&plot);
        }
        page = page.paragraphs(&crate::shown::advice_lines(&self.advice).join("\n"));
        page = match &self.sliders {
            Some(sliders) => page.what_if(sliders),
            None => page.without_sliders(crate::shown::NO_CHAIN),
        };
        for note in &self.notes {
            page = page.warning(&text::printable(note));
        }
        page =
            page.heading("By the Markov chain").paragraphs(&self.lock.heading(&self.machine, Screen::FILE));
        page = page.table(&self.lock.table(&self.target, "lock"));
        page = page.paragraphs(&self.lock.remarks(&self.machine, &self.target));
        if !self.others.is_empty() {
            page = page.heading("The other locks").table(&others_table(&self.others));
        }
        let together = self.together.as_ref().map(Together::terminal).unwrap_or_default();
        Ok(page.paragraphs(&together))
    }
}

/// These numbers of cores, and one: what a collapse is relative to.
fn from_one(cores: &[u32]) -> Vec<u32> {
    let mut cores: Vec<u32> = cores.iter().copied().chain([1]).collect();
    cores.sort_unstable();
    cores.dedup();
    cores
}

/// The changes to try where none was asked for.
fn changes(lock: &LockPrediction, candidates: &[Alternative], kind: LockKind) -> Vec<Change> {
    /// Of the locks only the best are tried again.
    const BEST: usize = 2;
    let end = |one: &Named| one.prediction.curve.points().last().map_or(0.0, |point| point.value);
    let mut ends: Vec<&Named> = lock.predictions.iter().filter(|one| !one.as_it_is).collect();
    ends.sort_by(|a, b| end(b).total_cmp(&end(a)));
    let of_name = |one: &&Named| {
        let other = candidates.iter().find(|other| other.name == one.name && can_be_tried(other, kind))?;
        // What can be put in its place is a lock, not a family.
        Some(Alternative { name: lock_for(&other.name, other.family, kind).to_owned(), ..other.clone() })
    };
    let best: Vec<_> = ends.iter().filter_map(of_name).take(BEST).collect();
    let own = lock.predictions.first().map(|one| &one.prediction);
    let peak = own.and_then(|own| own.collapse_cores.map(|_| own.peak_cores));
    crate::advice::candidates(&best, peak, lock.parameters.read_share > Some(0.5))
}

#[cfg(test)]
impl ByChain {
    /// The answer for one lock, without a profile.
    pub(crate) fn of(lock: LockPrediction, machine: MachineFile, target: Target) -> Self {
        Self {
            machine,
            target,
            lock,
            others: vec![],
            together: None,
            advice: vec![],
            notes: vec![],
            sliders: None,
            what_if: None,
        }
    }
}
