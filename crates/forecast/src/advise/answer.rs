//! What is said: one lock, one table, one thing to do.

use super::measured::{AtATime, Measured, profile_file};
use super::outlook::{self, Outlook};
use super::suspects::{Suspect, waited_share};
use super::{Asked, profiled_suspects, reasons, tables, void};
use crate::advice::{NO_PTHREAD, WORTH_IT};
use crate::profiled::by_cost;
use crate::void::{self as voids, LeftOut};
use crate::{AS_IT_IS, Void};
use compare::statistics::Verdict;
use curve::Point;
use launch::places::{Only, Places};
use launch::program::{OF_OPENMP, Program};
use profile::{LockTable, ObjectKind};
use report::{Screen, Spread, text};
use serde::Serialize;
use session::names::{self, types_of};
use session::progress::Progress;
use std::fmt::Write as _;
use std::iter;
use std::path::PathBuf;

/// The widest line of an answer, in a pipe too.
pub const COLUMNS: usize = 80;

/// Locks that are shown beside the program's own.
const SHOWN: usize = 3;

/// How one thread is measured as well.
const ONE_THREAD: &str = "put {threads} where the command takes its number of threads, and 1 among --threads";

/// Threads that do this share of as many times the work of one are not held back.
const HELD_BACK: f64 = 0.9;

/// A lock in the place of the suspect, or the program as it is.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The lock; none for the program as it is.
    pub lock: Option<String>,
    /// Throughput relative to the program as it is on the fewest threads, measured.
    pub measured: Vec<Point>,
    /// The same on the target, as far as it is forecast.
    pub forecast: Vec<Point>,
    /// Numbers of threads at which seeds of the simulated program disagree, so that its forecast there means little.
    pub unstable: Vec<u32>,
    /// What becomes of it, in words.
    pub verdict: Option<String>,
    /// How many times the work of the program as it is, on the most threads that have a core each: what chance leaves.
    pub gain: Option<Spread>,
    /// The same on the target's cores.
    pub gain_there: Option<Spread>,
    /// Whether the rounds tell it from the program as it is.
    pub is: Option<&'static str>,
    /// Why it has no figures.
    pub failure: Option<String>,
}

impl Row {
    fn name(&self) -> &str {
        self.lock.as_deref().unwrap_or(AS_IT_IS)
    }

    /// On how many threads it does most, measured or forecast.
    fn peak(&self) -> Option<u32> {
        let measured = |threads: u32| self.measured.iter().any(|point| point.cores == threads);
        let told = |point: &&Point| !self.unstable.contains(&point.cores) && !measured(point.cores);
        let all = self.measured.iter().chain(self.forecast.iter().filter(told));
        all.max_by(|a, b| a.value.total_cmp(&b.value)).map(|point| point.cores)
    }

    /// What stands beside its figures.
    fn said(&self) -> Option<&str> {
        self.failure.as_deref().or(self.verdict.as_deref())
    }

    /// Whether its verdict is that it collapses on the target, where no measurement shows that.
    fn is_forecast_to_collapse(&self) -> bool {
        let collapses = self.verdict.as_deref().filter(|verdict| verdict.starts_with("collapses"));
        collapses.is_some_and(|verdict| !verdict.ends_with("measured"))
    }

    fn is_better(&self) -> bool {
        self.is == Some(Verdict::Better.name())
    }

    /// Whether it gives less on the target than the program as it is, by more than a change is worth.
    fn loses_there(&self) -> bool {
        self.gain_there.is_some_and(|gain| gain.median < 1.0 / WORTH_IT)
    }

    /// Whether it gives more on the target than chance and the forecast's error explain, and costs nothing here.
    fn will_be_better(&self) -> bool {
        self.is != Some(Verdict::Worse.name()) && self.gain_there.is_some_and(|gain| gain.low > 1.0)
    }
}

/// What was predicted from the profile of one thread, beside what was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Checked {
    /// The lock; none for the program as it is.
    pub lock: Option<String>,
    /// On so many threads.
    pub threads: u32,
    /// Throughput relative to the program as it is on one thread.
    pub predicted: Point,
    /// The same.
    pub measured: Point,
}

impl Checked {
    /// Whether the measurement lies in the range that was predicted.
    #[must_use]
    pub fn is_held(&self) -> bool {
        (self.predicted.low..=self.predicted.high).contains(&self.measured.value)
    }

    /// Whether the ranges of the two have nothing in common.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.predicted.low > self.measured.high || self.predicted.high < self.measured.low
    }
}

/// What is known of a lock.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The lock.
    pub suspect: Suspect,
    /// The program as it is, then the locks that were tried, or may take its place where none can be tried, the best first.
    pub rows: Vec<Row>,
    /// What was predicted beforehand.
    pub checked: Vec<Checked>,
    /// By what `contend run --only` finds the lock again, where its name alone finds others, or not all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_by: Option<FoundBy>,
}

/// A profile that has the places where a lock is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum FoundBy {
    /// One that is kept.
    Kept(PathBuf),
    /// One that is to be recorded in the current folder, where it is looked for.
    ToRecord,
}

/// The answer.
#[derive(Debug, Clone, Serialize)]
pub struct Advice {
    /// Why nothing is said, where the profiles cannot carry an answer.
    pub void: Option<Void>,
    /// What was measured.
    pub measured: Measured,
    /// The machine that is asked about.
    pub target: String,
    /// How many cores it has.
    pub target_cores: u32,
    /// The locks that were looked at, the one that costs most first.
    pub findings: Vec<Finding>,
    /// A lock that will cost most on this machine, where what a folder keeps was measured for another: no lock was tried in its place.
    pub untried: Option<Suspect>,
    /// What else holds the program back.
    pub besides: Option<String>,
    /// What the program has besides pthread locks, which are the only ones that were looked at.
    pub other_locks: Option<String>,
    /// What disturbed the runs.
    pub disturbed: Vec<String>,
    /// Why nothing is forecast of the first lock, where what was measured of it stands alone.
    pub no_forecast: Option<Void>,
    /// What was left to the C library and may hold the program back, where the recorded locks do not explain it.
    pub left_out: Option<LeftOut>,
}

impl Advice {
    /// Makes it of what was measured, and of the profiles beside that.
    ///
    /// # Errors
    ///
    /// Profiles that cannot be read.
    pub fn new(asked: &Asked, measured: Measured, progress: &dyn Progress) -> anyhow::Result<Self> {
        let target = (asked.target.name.clone(), asked.target.topology.cores());
        let mut advice = Self::measured(target, measured);
        let tables = tables(&asked.folder, &advice.measured.threads)?;
        advice.void = void(&tables).or_else(|| advice.measured.void());
        if advice.void.is_some() {
            advice.findings.clear();
            advice.measured.suspects.clear();
            return Ok(advice);
        }
        let most = advice.measured.most();
        for finding in advice.findings.iter_mut().filter(|finding| !finding.suspect.by_hooks) {
            finding.found_by = found_by(asked, &finding.suspect.name, most)?;
        }
        let table = tables.iter().find(|(threads, _)| *threads == most).map(|(_, table)| table);
        advice.left_out = table.and_then(|table| LeftOut::of(table, advice.is_loss_unexplained(table)));
        advice.no_forecast = table.and_then(|table| advice.what_holds_back_besides(table));
        if let (Some(first), None) = (advice.findings.first_mut(), &advice.no_forecast) {
            advice.no_forecast = first.forecast(asked, &advice.measured, progress);
            let by_forecast = table.and_then(|table| LeftOut::of(table, true));
            advice.left_out = by_forecast.filter(|left| advice.no_forecast.as_ref() == Some(&left.void()));
        }
        let (reached, by) = advice.most_done();
        let measured = &advice.measured;
        // One number of threads does not tell what more of them give.
        let slowed = measured.threads.len() == 1
            || measured.cores == 1
            || reached < HELD_BACK * f64::from(measured.most()) / f64::from(measured.threads[0]);
        let is_said = advice.left_out.is_some();
        let besides = table
            .filter(|_| slowed)
            .and_then(|table| reasons::besides(table, measured, by, reached, is_said));
        let known: Vec<&str> = measured.suspects.iter().map(|suspect| suspect.name.as_str()).collect();
        let untried = table.map_or_else(Vec::new, |table| profiled_suspects(asked, table));
        let untried = untried.into_iter().find(|suspect| !known.contains(&suspect.name.as_str()));
        advice.untried = untried.filter(|_| !is_said);
        advice.besides = besides;
        let program = asked.command.first().and_then(|name| Program::find(name).ok());
        advice.other_locks = program.and_then(|program| {
            if program.is_rust() {
                Some(reasons::of_rust(table))
            } else {
                program.uses_openmp().then(|| format!("It uses OpenMP: {OF_OPENMP}."))
            }
        });
        Ok(advice)
    }

    /// Why nothing is forecast of any recorded lock: others, left to the C library or no pthread's, take more of the threads' time.
    pub(super) fn what_holds_back_besides(&self, table: &LockTable) -> Option<Void> {
        let left_out = self.left_out.as_ref().map(LeftOut::void);
        left_out.or_else(|| voids::of_other_locks(table, by_cost(table).first().copied()))
    }

    /// The work that was done on the most threads that have a core each, relative to the program as it is on the fewest, and the lock and its
    /// replacement that did it; none of the program as it is.
    fn most_done(&self) -> (f64, Option<(&str, &str)>) {
        let most = self.measured.most();
        let best = self.findings.iter().filter_map(|finding| {
            let row = finding.best()?;
            Some((row.at(most)?, Some((finding.suspect.name.as_str(), row.lock.as_deref()?))))
        });
        let most_done = best.chain(self.own(most).map(|own| (own, None)));
        let most_done = most_done.max_by(|(a, _), (b, _)| a.value.total_cmp(&b.value));
        most_done.map_or((0.0, None), |(point, by)| (point.value, by))
    }

    /// Whether the program does less on the most threads that have a core each than threads which are not held back, and the waits for its
    /// recorded locks are less than half of that; `table` is of as many threads.
    pub(super) fn is_loss_unexplained(&self, table: &LockTable) -> bool {
        let (most, first) = (self.measured.most(), self.measured.threads[0]);
        let fair = f64::from(most) / f64::from(first);
        let lost = self.own(most).map_or(0.0, |own| 1.0 - own.value / fair);
        most > first && lost > 1.0 - HELD_BACK && waited_share(table) < 0.5 * lost
    }

    /// What the rounds found, without the target.
    pub(super) fn measured((target, target_cores): (String, u32), measured: Measured) -> Self {
        let mut findings: Vec<_> =
            measured.suspects.iter().map(|suspect| Finding::measured(suspect, &measured)).collect();
        // What can be done comes first.
        findings.sort_by_key(|finding| !finding.rows.iter().any(Row::is_better));
        let disturbed = measured.noise.disturbances();
        Self {
            void: None,
            target,
            target_cores,
            findings,
            untried: None,
            besides: None,
            other_locks: None,
            disturbed,
            no_forecast: None,
            left_out: None,
            measured,
        }
    }

    /// Why nothing is said, where the profile cannot carry an answer.
    #[must_use]
    pub fn void(&self) -> Option<&Void> {
        self.void.as_ref()
    }

    /// The answer in lines of at most 80 columns, in a file or pipe too.
    #[must_use]
    pub fn terminal(&self, screen: Screen) -> String {
        let narrow = screen.at_most(COLUMNS);
        let table = self.findings.first().filter(|_| self.void().is_none());
        let table = table.map_or(String::new(), |finding| format!("\n{}\n", finding.table(self, narrow)));
        let (heading, rest) = self.in_parts();
        format!("{}{}{}", narrow.fit(&heading), narrow.spell(&table), narrow.fit(&rest))
    }

    /// The answer without its table.
    pub(super) fn in_prose(&self) -> String {
        let (heading, rest) = self.in_parts();
        format!("{heading}{rest}")
    }

    /// What stands before the table, and what after it.
    fn in_parts(&self) -> (String, String) {
        let mut said = String::new();
        if let Some(void) = self.void() {
            let heading =
                format!("Nothing is said of {}: {}.\n{}.\n", self.program(), void.reason, void.remedy);
            return (heading, said);
        }
        let heading = format!("{}\n", self.heading());
        let Some(finding) = self.findings.first() else {
            self.end(&mut said);
            return (heading, said);
        };
        match finding.best() {
            Some(row) => said += &finding.instruction(row, self),
            None => said += &finding.nothing_gained(self),
        }
        for other in &self.findings[1..] {
            if let Some(line) = other.in_a_line(&self.measured) {
                let _ = writeln!(said, "Also: {line}");
            }
        }
        self.end(&mut said);
        (heading, said)
    }

    fn end(&self, said: &mut String) {
        if let Some(lock) = self.untried.as_ref().filter(|_| !self.findings.is_empty()) {
            let _ = writeln!(said, "{} may hold it back on {} as well.", lock.in_words(), self.target);
        }
        if self.untried.is_some() {
            let _ = writeln!(
                said,
                "Nothing was tried in its place, since what is kept was measured for another machine: measure for this one with another \
                 folder for -o."
            );
        }
        if let Some(left) = &self.left_out {
            let _ = writeln!(said, "No forecast for {}: {}.\n{}.", self.target, left.why, left.remedy());
        } else if let Some(void) = self.no_forecast.as_ref().filter(|_| !self.findings.is_empty()) {
            let _ = writeln!(said, "No forecast for {}: {}.", self.target, void.reason);
        }
        if let Some(besides) = &self.besides {
            let _ = writeln!(said, "{besides}");
        }
        if let Some(other_locks) = &self.other_locks {
            let _ = writeln!(said, "{other_locks}");
        }
        if !self.disturbed.is_empty() {
            let _ = writeln!(said, "Disturbed: {}.", self.disturbed.join("; "));
        }
        if self.measured.cut_short {
            let _ = writeln!(said, "Cut short: this is what was known by then.");
        }
        if self.measured.threads[0] > 1 && !self.findings.is_empty() {
            let _ = writeln!(
                said,
                "A run on one thread too would show its work without contention: {ONE_THREAD}."
            );
        }
    }

    /// The program's name.
    fn program(&self) -> String {
        text::printable(self.measured.command.first().map_or("the program", String::as_str))
    }

    fn own(&self, threads: u32) -> Option<Point> {
        self.measured.points(None).into_iter().find(|point| point.cores == threads)
    }

    /// The first line.
    fn heading(&self) -> String {
        let (most, first) = (self.measured.most(), self.measured.threads[0]);
        let fair = HELD_BACK * f64::from(most) / f64::from(first);
        let slowed = self.own(most).is_some_and(|own| own.value < fair);
        let program = self.program();
        if self.own(most).is_none() {
            return format!("Too little of {program} was run to tell what holds it back.");
        }
        if let Some(left) = &self.left_out {
            return self.heading_of(left, slowed || self.measured.threads.len() == 1);
        }
        self.heading_of_locks(slowed)
    }

    /// The same where the recorded locks do not explain what the program does, and others were left to the C library.
    fn heading_of(&self, left: &LeftOut, slowed: bool) -> String {
        let program = self.program();
        let (which, they) = if left.count == 1 { ("is", "it") } else { ("are", "they") };
        let said = if slowed {
            format!(
                "{}, which {which} neither recorded nor replaced: {they} may be what holds {program} back.",
                left.objects
            )
        } else {
            format!(
                "{}, which {which} neither recorded nor replaced: {they} may hold {program} back on {}, though nothing does on {}.",
                left.objects,
                self.target,
                self.measured.most_in_words()
            )
        };
        let of_locks = match self.findings.first() {
            None if !slowed => return said,
            None => format!("No lock that was recorded holds {program} back."),
            Some(finding) if finding.best().is_none() && finding.suspect.waited < super::suspects::WAITED => {
                format!(
                    "Of the locks that were recorded, {} takes most of its time.",
                    finding.suspect.in_words()
                )
            }
            Some(_) => self.heading_of_locks(slowed),
        };
        format!("{said}\n{of_locks}")
    }

    /// The same of the recorded locks.
    fn heading_of_locks(&self, slowed: bool) -> String {
        let program = self.program();
        let a_lock = if self.other_locks.is_some() { "pthread lock" } else { "lock" };
        let Some(finding) = self.findings.first() else {
            if let Some(lock) = &self.untried {
                let (lock, target) = (lock.in_words(), &self.target);
                return format!("{lock} does not hold {program} back here; on {target} it may.");
            }
            return if slowed || self.measured.threads.len() == 1 {
                format!("No {a_lock} holds {program} back.")
            } else {
                format!(
                    "Nothing holds {program} back on {}, and probably no {a_lock} will on {}.",
                    self.measured.most_in_words(),
                    self.target
                )
            };
        };
        let lock = finding.suspect.in_words();
        let now = finding.best().is_some_and(Row::is_better);
        let waits = finding.suspect.waited >= super::suspects::WAITED;
        match (now, finding.best().is_some(), waits) {
            (true, ..) => format!("{lock} holds {program} back."),
            (false, true, true) => {
                format!("{program} waits for {lock}; another lock in its place helps on {}.", self.target)
            }
            (false, true, false) => {
                format!("{lock} does not hold {program} back here; on {} it probably will.", self.target)
            }
            (false, false, true) if !finding.was_tried() || !finding.undecided(&self.measured).is_empty() => {
                format!("{program} waits for {lock}.")
            }
            (false, false, true) => {
                format!("{program} waits for {lock}, and no other lock in its place helps.")
            }
            (false, false, false) if finding.rows[0].is_forecast_to_collapse() => {
                format!("{lock} does not hold {program} back here; on {} it may.", self.target)
            }
            (false, false, false) => {
                format!("No {a_lock} holds {program} back. Of its locks, {lock} takes most of its time.")
            }
        }
    }
}

impl Row {
    /// What it gains, in words: on the threads that were measured, if it does better there, and on the target.
    fn gains(&self, measured: &Measured) -> Vec<String> {
        let most = measured.most();
        let here = self.gain.filter(|_| self.is_better()).map(|gain| {
            let times = forecast_value(gain.median);
            format!("{times} times the work on {} ({}, measured)", measured.most_in_words(), range(gain))
        });
        let there =
            self.gain_there.filter(|gain| !self.loses_there() && (self.is_better() || gain.low > 1.0));
        let there = there.zip(self.beyond(most)).map(|(gain, cores)| {
            let times = forecast_value(gain.median);
            format!("about {times} times on {cores} ({})", range(gain))
        });
        here.into_iter().chain(there).collect()
    }

    /// The cores of the target, where it is forecast to more than so many threads.
    fn beyond(&self, threads: u32) -> Option<u32> {
        self.forecast.last().map(|point| point.cores).filter(|&cores| cores > threads)
    }

    /// Where it gains here and is forecast to lose on the target, that it does.
    fn loss(&self, most: u32) -> Option<String> {
        let (gain, cores) = self.gain_there.filter(|_| self.loses_there()).zip(self.beyond(most))?;
        let times = forecast_value(gain.median);
        Some(format!("On {cores} it probably loses: about {times} times the work ({}).", range(gain)))
    }

    fn at(&self, threads: u32) -> Option<Point> {
        self.measured.iter().find(|point| point.cores == threads).copied()
    }
}

impl Suspect {
    /// Its name, place and kind.
    fn in_words(&self) -> String {
        let source = self.source.as_ref().map_or(String::new(), |source| {
            let file = source.rsplit('/').next().unwrap_or(source);
            format!("{}, ", text::printable(file))
        });
        format!("{} ({source}{})", text::printable(&self.name), self.kind_in_words())
    }
}

impl Finding {
    /// What the rounds found.
    fn measured(suspect: &Suspect, measured: &Measured) -> Self {
        let most = measured.most();
        let own = Row {
            lock: None,
            measured: measured.points(None),
            forecast: Vec::new(),
            unstable: Vec::new(),
            verdict: None,
            gain: None,
            gain_there: None,
            is: None,
            failure: None,
        };
        // Of what cannot be tried there is a forecast alone.
        let locks = if suspect.by_hooks { suspect.candidates() } else { measured.tried(&suspect.name) };
        let tried = locks.into_iter().map(|lock| {
            let swap = (suspect.name.as_str(), lock);
            let failed = |&threads: &u32| measured.case(Some(swap), threads)?.failed();
            let crashed = measured.threads.iter().find_map(failed);
            // Some locks are made with several threads alone.
            let is_lost = measured.case(Some(swap), most).is_some_and(|case| !case.replaced);
            let lost = is_lost.then(|| "it was not found in the running program".to_owned());
            // A lock under which the program fails on any number of threads is no advice, whatever it gains on another.
            let gain = measured.gain(swap, most).filter(|_| crashed.is_none());
            Row {
                lock: Some(lock.to_owned()),
                measured: measured.points(Some(swap)),
                gain: gain.map(|(ratio, _)| ratio.range),
                is: gain.map(|(_, verdict)| verdict.name()),
                failure: crashed.or(lost),
                ..own.clone()
            }
        });
        let mut tried: Vec<Row> = tried.collect();
        let reached = |row: &Row| row.gain.map_or(0.0, |gain| gain.median);
        tried.sort_by(|a, b| reached(b).total_cmp(&reached(a)));
        let rows = iter::once(own.clone()).chain(tried).collect();
        Self { suspect: suspect.clone(), rows, checked: Vec::new(), found_by: None }
    }

    /// Adds what the target makes of it, and what would have been predicted without a measurement. Tells why there is no forecast, if so.
    fn forecast(&mut self, asked: &Asked, measured: &Measured, progress: &dyn Progress) -> Option<Void> {
        // What was measured stands without it.
        let forecast = outlook::forecast(asked, measured, self, progress).unwrap_or_else(|error| {
            let remedy = "What was measured is said all the same".to_owned();
            Err(Void { reason: format!("{error:#}"), remedy, of_lock: false })
        });
        match forecast {
            Ok(outlooks) => {
                for Outlook { lock, points, unstable, verdict, gain } in outlooks {
                    let Some(row) = self.rows.iter_mut().find(|row| row.lock == lock) else { continue };
                    (row.forecast, row.unstable, row.verdict, row.gain_there) =
                        (points, unstable, verdict, gain);
                }
                self.checked = outlook::checked(asked, measured, self, progress).unwrap_or_default();
                self.sort_by_target();
                None
            }
            Err(void) => Some(void),
        }
    }

    /// Whether the program ran with another lock in its place.
    fn was_tried(&self) -> bool {
        let is_tried = |row: &Row| row.lock.is_some() && row.failure.is_none();
        !self.suspect.by_hooks && self.rows.iter().any(is_tried)
    }

    /// The locks of which too few runs were made to tell whether they help.
    fn undecided(&self, measured: &Measured) -> Vec<&str> {
        let most = measured.most();
        let undecided = |row: &&Row| {
            let swap = row.lock.as_deref().map(|lock| (self.suspect.name.as_str(), lock));
            self.was_tried()
                && row.failure.is_none()
                && swap.is_some_and(|swap| measured.is_undecided(swap, most))
        };
        self.rows.iter().filter(undecided).filter_map(|row| row.lock.as_deref()).collect()
    }

    /// What is said where no lock can be tried, and none is advised.
    fn no_gain_forecast(&self, advice: &Advice) -> String {
        let forecast = self.rows.iter().filter(|row| row.gain_there.is_some());
        let all: Vec<&str> = forecast.filter_map(|row| row.lock.as_deref()).collect();
        let target = &advice.target;
        let said = match &all[..] {
            [] => String::new(),
            [one] => format!("By the forecast, `{one}` is not sure to gain on {target}.\n"),
            all => format!("By the forecast, none of {} is sure to gain on {target}.\n", all.join(", ")),
        };
        format!("{said}{NO_PTHREAD}\n")
    }

    /// What the runs say where no lock is advised.
    fn nothing_gained(&self, advice: &Advice) -> String {
        if self.suspect.by_hooks {
            return self.no_gain_forecast(advice);
        }
        let undecided = self.undecided(&advice.measured);
        let decided: Vec<&str> = (self.rows.iter())
            .filter(|row| row.failure.is_none())
            .filter_map(|row| row.lock.as_deref())
            .filter(|lock| !undecided.contains(lock))
            .collect();
        let mut said = String::new();
        match &decided[..] {
            [] => {}
            [one] => {
                let _ = writeln!(said, "`{one}` does no more in its place than chance explains.");
            }
            all => {
                let all = all.join(", ");
                let _ = writeln!(said, "None of {all} does more in its place than chance explains.");
            }
        }
        if !undecided.is_empty() {
            let remedy =
                if advice.measured.cut_short { "" } else { ": give them more time with --time-limit" };
            let all = undecided.join(", ");
            let helps = if undecided.len() == 1 { "helps" } else { "help" };
            let _ = writeln!(said, "Too few runs were made to tell whether {all} {helps}{remedy}.");
        }
        if !self.was_tried() {
            said.push_str("No other lock could be tried in its place.\n");
        }
        said
    }

    /// Where nothing is gained here, the target decides which lock is the best.
    fn sort_by_target(&mut self) {
        if !self.rows.iter().any(Row::is_better) {
            let there = |row: &Row| match (&row.lock, row.gain_there) {
                (None, _) => f64::INFINITY,
                (Some(_), gain) => gain.map_or(0.0, |gain| gain.median),
            };
            self.rows.sort_by(|a, b| there(b).total_cmp(&there(a)));
        }
    }

    /// The lock that gives most here, or else on the target; none where nothing is gained. Of those that the runs here do not tell apart,
    /// one that does not lose on the target comes first.
    #[must_use]
    pub fn best(&self) -> Option<&Row> {
        let here = |row: &Row| row.gain.unwrap_or(Spread { low: 0.0, median: 0.0, high: 0.0 });
        let most = self.rows.iter().find(|row| row.is_better());
        let now = most.map(|most| {
            let is_as_good = |row: &&Row| row.is_better() && here(row).high >= here(most).low;
            let holds = |row: &&Row| !row.loses_there();
            self.rows.iter().filter(is_as_good).find(holds).unwrap_or(most)
        });
        now.or_else(|| self.rows.iter().find(|row| row.will_be_better()))
    }

    /// Numbers of threads that the table shows beyond those measured: three at most, in even steps of doublings, and that on which the
    /// advised lock does most, without which its verdict contradicts its figures. `has_room` tells of so many columns whether they fit; where
    /// they do not, that one takes the place of the step farthest from it, but for the last.
    fn columns(&self, measured: &Measured, has_room: impl Fn(usize) -> bool) -> Vec<u32> {
        let last = measured.threads.last().copied().unwrap_or(1);
        let beyond: Vec<u32> = self.rows[0]
            .forecast
            .iter()
            .map(|point| point.cores)
            .filter(|&cores| cores > last && cores > measured.cores)
            .collect();
        let room = 5_usize.saturating_sub(measured.threads.len()).clamp(1, 3).min(beyond.len());
        let mut columns: Vec<u32> =
            (1..=room).map(|step| beyond[(step * beyond.len()).div_ceil(room) - 1]).collect();
        let peak = self.best().unwrap_or(&self.rows[0]).peak();
        let Some(peak) = peak.filter(|peak| beyond.contains(peak) && !columns.contains(peak)) else {
            return columns;
        };
        if !has_room(columns.len() + 1) {
            let far = |&step: &usize| f64::from(columns[step].max(peak)) / f64::from(columns[step].min(peak));
            let farthest = (0..columns.len() - 1).rev().max_by(|a, b| far(a).total_cmp(&far(b)));
            let Some(farthest) = farthest else { return columns };
            columns.remove(farthest);
        }
        columns.push(peak);
        columns.sort_unstable();
        columns
    }

    /// What was measured and what is forecast, for a screen.
    fn table(&self, advice: &Advice, screen: Screen) -> String {
        let width = screen.columns().unwrap_or(COLUMNS);
        let shown: Vec<&Row> = self.rows.iter().take(1 + SHOWN).collect();
        let name_width = shown.iter().map(|row| row.name().len()).max().unwrap_or(0).max("threads".len());
        let measured = shown_threads(&advice.measured);
        let last = advice.measured.threads.last().copied().unwrap_or(1);
        let head = format!("past {last}: forecast on {}", advice.target);
        let notes = shown.iter().filter_map(|row| row.said()).chain([head.as_str()]);
        let widest = notes.map(|note| note.chars().count()).max().unwrap_or(0);
        let columns = self.columns(&advice.measured, |columns| {
            name_width + 6 * (measured.len() + columns) + 2 + widest <= width
        });
        let mut line = format!("{:name_width$}", "threads");
        for threads in measured.iter().chain(&columns) {
            let _ = write!(line, "{threads:>6}");
        }
        let is_unstable = |row: &&Row| columns.iter().any(|cores| row.unstable.contains(cores));
        let rows_are_unstable = shown.iter().any(is_unstable);
        let mut table = String::new();
        if !columns.is_empty() {
            beside(&mut line, &head, width);
        } else if shown.iter().any(|row| row.failure.is_none() && row.verdict.is_some()) {
            let cores = if advice.target_cores == 1 { "core" } else { "cores" };
            let target = text::printable(&advice.target);
            beside(&mut line, &format!("verdicts: {} {cores} of {target}", advice.target_cores), width);
        }
        table += &line;
        for row in shown {
            let mut line = format!("\n{:name_width$}", row.name());
            for &threads in &measured {
                let value = row.at(threads).map_or("-".to_owned(), |point| measured_value(point.value));
                let _ = write!(line, "{value:>6}");
            }
            for &cores in &columns {
                let point = row.forecast.iter().find(|point| point.cores == cores);
                let value = match point {
                    Some(_) if row.unstable.contains(&cores) => "?".to_owned(),
                    point => point.map_or("-".to_owned(), |point| forecast_value(point.value)),
                };
                let _ = write!(line, "{value:>6}");
            }
            if let Some(said) = row.said() {
                let said = text::printable(said);
                beside(&mut line, &said, width);
                line.truncate(line.len() - said.len());
                line += &screen.verdict(&said);
            }
            table += &line;
        }
        let first = advice.measured.threads[0];
        if let Some(AtATime { threads, ran }) = advice.measured.at_a_time {
            let _ = write!(
                table,
                "\n1.00 is the program as it is, whose {threads} threads ran {ran:.1} at a time."
            );
        } else if first > 1 {
            let _ = write!(table, "\n1.00 is the program as it is on {first} threads.");
        }
        if rows_are_unstable {
            table += "\n?: with other random numbers the simulation does more than twice as much.";
        }
        table + "\n"
    }

    /// What to do, how to try it and how to keep it.
    fn instruction(&self, row: &Row, advice: &Advice) -> String {
        let lock = row.name();
        let most = advice.measured.most();
        let gains = row.gains(&advice.measured).join(", ");
        let mut said = match row.loss(most) {
            None => format!("Do: put `{lock}` in its place: {gains}.\n"),
            Some(loss) => format!("Do, on this machine alone: put `{lock}` in its place: {gains}.\n{loss}\n"),
        };
        if !self.suspect.by_hooks {
            said += &self.trial(lock, advice);
        }
        if let Ok(lock) = names::lock(lock) {
            let has_readers = self.suspect.kind == ObjectKind::Rwlock;
            let _ = writeln!(said, "Keep: {}.", types_of(lock, has_readers));
        }
        if self.suspect.by_hooks {
            let _ = writeln!(said, "{NO_PTHREAD}");
        }
        said
    }

    /// How a lock is tried in its place.
    fn trial(&self, lock: &str, advice: &Advice) -> String {
        let most = advice.measured.most();
        let command = self.trial_command(lock, &advice.measured, most);
        if self.found_by == Some(FoundBy::ToRecord) {
            let words = advice.measured.words(most);
            let record = text::command_line(
                ["contend", "profile", "--"].into_iter().chain(words.iter().map(String::as_str)),
            );
            format!(
                "Try, with a profile in the current folder, by which it is found:\n  {record}\n  {command}\n"
            )
        } else if command.len() + "Try: ".len() <= COLUMNS {
            format!("Try: {command}\n")
        } else {
            format!("Try:\n  {command}\n")
        }
    }

    /// The command that runs the program with this lock alone replaced.
    fn trial_command(&self, lock: &str, measured: &Measured, threads: u32) -> String {
        let swap = format!("{}={lock}", self.suspect.name);
        let mut words = ["contend", "run", "--only", &swap].map(str::to_owned).to_vec();
        if let Some(FoundBy::Kept(profile)) = &self.found_by {
            words.extend(["--profile".to_owned(), profile.to_string_lossy().into_owned()]);
        }
        words.push("--".to_owned());
        words.extend(measured.words(threads));
        text::command_line(words.iter().map(String::as_str))
    }

    /// Another lock's gain.
    fn in_a_line(&self, measured: &Measured) -> Option<String> {
        let row = self.best()?;
        let gain = row.gains(measured).into_iter().next()?;
        Some(format!("`{}` in the place of {}: {gain}.", row.name(), self.suspect.in_words()))
    }
}

/// The measured numbers of threads that a table has columns for: all, or the first, the most that have a core each, the last, and of
/// the others those that lie as evenly as can be.
fn shown_threads(measured: &Measured) -> Vec<u32> {
    const COLUMNS: usize = 8;
    let all = &measured.threads;
    let [.., last] = all[..] else { return Vec::new() };
    if all.len() <= COLUMNS {
        return all.clone();
    }
    let mut shown = vec![all[0], measured.most(), last];
    shown.extend((1..COLUMNS - 2).map(|step| all[step * (all.len() - 1) / (COLUMNS - 2)]));
    shown.sort_unstable();
    shown.dedup();
    shown
}

/// By what the lock of this name is found again where it is taken at certain calls of the program.
fn found_by(asked: &Asked, name: &str, threads: u32) -> anyhow::Result<Option<FoundBy>> {
    let profile = profile_file(&asked.folder, threads);
    let mut only = [Only { places: Vec::new(), site: name.to_owned(), lock: String::new() }];
    // In a program that was built anew nothing is found by them.
    let is_found = Places::read(&profile)?.find(&mut only).is_ok();
    let is_by_call = is_found && only[0].places.iter().any(|place| place.contains('!'));
    Ok(match is_by_call {
        false => None,
        true if asked.is_kept => Some(FoundBy::Kept(profile)),
        true => Some(FoundBy::ToRecord),
    })
}

/// Adds a note to a line of the table, below it where the line has no room.
fn beside(line: &mut String, note: &str, width: usize) {
    let gap =
        if line.trim_start().chars().count() + 2 + note.chars().count() <= width { "  " } else { "\n  " };
    let _ = write!(line, "{gap}{note}");
}

/// Three digits of what was measured.
fn measured_value(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A range, which does not read as if 1 were in it where it is not.
fn range(Spread { low, high, .. }: Spread) -> String {
    let more = (2..=4).map(|digits| format!("{low:.digits$}"));
    let least =
        iter::once(forecast_value(low)).chain(more).find(|text| low <= 1.0 || text.parse() != Ok(1.0));
    format!("{} to {}", least.unwrap_or_else(|| forecast_value(low)), forecast_value(high))
}

/// Two digits of what is believed.
fn forecast_value(value: f64) -> String {
    match value {
        ..0.995 => format!("{value:.2}"),
        ..9.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_columns_for_eight_numbers_of_threads_at_most() {
        let of = |threads: Vec<u32>, cores| {
            shown_threads(&Measured { threads, ..super::super::tests::measured(Vec::new(), cores) })
        };
        assert_eq!(of(vec![1, 2, 4], 4), [1, 2, 4]);
        let many = of((1..=12).collect(), 3);
        assert!(many.len() <= 8 && many[0] == 1 && many.contains(&3) && many.contains(&12), "{many:?}");
    }

    /// `adaptive` does most on 16 threads, between the columns for 8 and 32.
    #[test]
    fn the_peak_of_the_advised_lock_has_a_column() {
        let mut advice = super::super::tests::advice();
        for row in &mut advice.findings[0].rows {
            let points = [4, 8, 16, 32, 64].map(|cores| Point::exact(cores, 1.4));
            row.forecast = points.to_vec();
        }
        advice.findings[0].rows[1].forecast[2].value = 3.0;
        let finding = &advice.findings[0];
        let columns = |has_room: bool| finding.columns(&advice.measured, |_| has_room);
        assert_eq!(columns(true), [8, 16, 32, 64]);
        assert_eq!(columns(false), [16, 32, 64], "what follows it shows the fall");
        let said = advice.terminal(Screen::FILE);
        let heads = said.lines().find(|line| line.starts_with("threads")).unwrap_or_default();
        assert!(heads.contains("    16"), "{said}");
        assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
        // An unstable figure is no peak.
        advice.findings[0].rows[1].unstable = vec![16];
        assert!(!advice.findings[0].columns(&advice.measured, |_| true).contains(&16));
    }

    #[test]
    fn a_forecast_that_errs_leaves_what_was_measured() {
        let folder = tempfile::tempdir().unwrap();
        let mut asked = super::super::tests::asked(&["./server", "--threads", "{threads}"], folder.path());
        asked.target.topology.cores_per_die = 2_048;
        let mut advice = super::super::tests::advice();
        let void = advice.findings[0].forecast(&asked, &advice.measured, &session::progress::Unwatched);
        advice.no_forecast = void;
        let said = advice.terminal(Screen::FILE).replace('\n', " ");
        assert!(said.contains("Do: put `adaptive`"), "{said}");
        assert!(said.contains("No forecast for epyc-9654x2: no profile was given."), "{said}");
    }

    #[test]
    fn verdicts_on_a_machine_without_columns_of_its_own_name_it() {
        let mut advice = super::super::tests::advice();
        (advice.target, advice.target_cores) = ("two-cores".into(), 2);
        let said = |advice: &Advice| advice.terminal(Screen::FILE);
        assert!(!said(&advice).contains("verdicts:"), "its columns name it");
        for row in &mut advice.findings[0].rows {
            row.forecast.clear();
        }
        let heads = said(&advice);
        let heads = heads.lines().find(|line| line.starts_with("threads")).unwrap_or_default();
        assert!(heads.ends_with("verdicts: 2 cores of two-cores"), "{heads}");
    }

    #[test]
    fn threads_that_seldom_ran_together_are_said_to_be_several() {
        let mut advice = super::super::tests::advice();
        advice.measured.at_a_time = Some(AtATime { threads: 2, ran: 1.2 });
        let said = advice.terminal(Screen::FILE).replace('\n', " ");
        assert!(said.contains("1.00 is the program as it is, whose 2 threads ran 1.2 at a time."), "{said}");
        assert!(said.contains("times the work on its 2 threads ("), "{said}");
    }

    #[test]
    fn a_range_reads_as_what_it_is() {
        let shown = |low, high| range(Spread { low, median: high, high });
        assert_eq!(shown(1.02, 1.5), "1.02 to 1.5");
        assert_eq!(shown(1.0004, 12.3), "1.0004 to 12");
        assert_eq!(shown(1.0, 1.5), "1.0 to 1.5");
        assert_eq!(shown(0.97, 3.3), "0.97 to 3.3");
        assert_eq!(shown(3.3, 4.9), "3.3 to 4.9");
    }
}
