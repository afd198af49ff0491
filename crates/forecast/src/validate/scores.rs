//! How good forecasts are: each program's held against what it did, with the error's distribution learnt from all other programs.

use crate::answer::{Frame, Row};
use crate::question::MeasuredPoint;
use crate::simulated_program::{Run, Simulated, SimulatedPoint};
use crate::uncertainty::{CALIBRATED, Calibration, Drawn, LEARNT, Learning, Widths};
use crate::verdict::{Kind, outcome};
use anyhow::{Context as _, ensure};
use compare::statistics;
use curve::Point;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A program: what the simulated program does, and what the program did.
#[derive(Debug, Clone, Serialize)]
pub struct Held {
    /// Its name.
    pub program: String,
    /// Cores of the machine.
    pub cores: u32,
    /// The most throughput that its locks allow, relative to one thread.
    pub most: f64,
    /// The simulated program.
    pub simulated: Simulated,
    /// What was measured, relative to one thread of the baseline.
    pub measured: Vec<MeasuredPoint>,
}

/// What the forecast starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// One thread's profile.
    OneThread,
    /// Profiles of one thread and of two, with the throughput of both.
    TwoThreads,
    /// Profiles of one thread, two and four, with the throughput of all.
    FourThreads,
}

impl From {
    /// Those that a program of the list is forecast from.
    pub const MEASURED: [Self; 2] = [Self::OneThread, Self::TwoThreads];

    /// That which a random program is forecast from.
    pub const MADE: [Self; 1] = [Self::FourThreads];

    /// The numbers of threads that were profiled and measured.
    #[must_use]
    pub fn threads(self) -> &'static [u32] {
        match self {
            Self::OneThread => &[1],
            Self::TwoThreads => &[1, 2],
            Self::FourThreads => &[1, 2, 4],
        }
    }

    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OneThread => "one thread",
            Self::TwoThreads => "one and two threads",
            Self::FourThreads => "one, two and four threads",
        }
    }
}

/// A forecast of one lock, and what came true of it.
#[derive(Debug, Clone, Serialize)]
pub struct Scored {
    /// The program.
    pub program: String,
    /// The candidate; none for the baseline.
    pub lock: Option<String>,
    /// What it belongs to.
    pub class: &'static str,
    /// The verdict in words.
    pub verdict: String,
    /// What happened, likewise.
    pub happened: String,
    /// The share of drawn curves that collapse.
    pub drawn: f64,
    /// Whether what was measured before fixes the forecast, by which the probability is calibrated.
    #[serde(skip)]
    pub anchored: bool,
    /// The probability of a collapse.
    pub probability: f64,
    /// Whether it collapsed.
    pub collapsed: bool,
    /// Where it did, and where that was forecast; none where it did not, or that was not decided.
    pub collapse_at: Option<[u32; 2]>,
    /// What was measured before shows the outcome already: the verdict is no forecast.
    pub shown_before: bool,
    /// Threads, forecast, measured, and whether that is in the range: of each point that was not measured before.
    pub points: Vec<ScoredPoint>,
}

/// A point of [`Scored`].
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ScoredPoint {
    /// Threads.
    pub threads: u32,
    /// The forecast with its range.
    pub forecast: Point,
    /// What happened.
    pub measured: Point,
}

impl ScoredPoint {
    /// Forecast over measured, less one.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.forecast.value / self.measured.value - 1.0
    }

    fn is_held(&self) -> bool {
        (self.forecast.low..=self.forecast.high).contains(&self.measured.value)
    }
}

/// Scores of many forecasts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Scores {
    /// Verdicts.
    pub verdicts: usize,
    /// Mean square of the probability of a collapse less what happened, 1 or 0.
    pub brier: f64,
    /// The share of verdicts with a probability of at least 70 %.
    pub decided: f64,
    /// The share of those that came true.
    pub right: f64,
    /// Points.
    pub points: usize,
    /// The median of their errors, without sign.
    pub median_error: f64,
    /// Points of two threads.
    pub points_on_two: usize,
    /// The median of their errors.
    pub error_on_two: f64,
    /// The share of measurements in the forecast's range, which is made for four in five.
    pub in_range: f64,
    /// Of the collapses that were forecast and came, the share that came within a factor of 1.5 of the forecast number of threads.
    pub collapse_near: f64,
    /// The number of those.
    pub collapses: usize,
    /// By tenths of the probability of a collapse: verdicts, their mean probability, and the share that collapsed.
    pub reliability: Vec<(usize, f64, f64)>,
}

impl Held {
    fn frame(&self, (widths, calibration): (Widths, Calibration)) -> Frame {
        Frame { cores: self.cores, measured_cores: self.cores, from: 1, most: self.most, widths, calibration }
    }

    fn known(&self, from: From) -> Vec<MeasuredPoint> {
        let is_known =
            |point: &&MeasuredPoint| point.lock.is_none() && from.threads().contains(&point.threads);
        self.measured.iter().filter(is_known).cloned().collect()
    }

    fn at(&self, lock: Option<&str>, threads: u32) -> Option<Point> {
        let found = |point: &&MeasuredPoint| point.lock.as_deref() == lock && point.threads == threads;
        let MeasuredPoint { rate, low, high, .. } = self.measured.iter().find(found)?;
        Some(Point { cores: threads, value: *rate, low: *low, high: *high })
    }

    /// Adds this program's errors to what widths are learnt from.
    fn teach(&self, froms: &[From], learning: &mut Learning) {
        for &from in froms {
            for (lock, threads, value, known) in
                self.frame((Widths::NONE, Calibration::NONE)).forecasts(&self.simulated, &self.known(from))
            {
                if let Some(measured) = self.at(lock.as_deref(), threads) {
                    learning.add(&self.program, &known, (measured.value / value).ln());
                }
            }
        }
    }

    fn scored(&self, from: From, error: (Widths, Calibration)) -> Vec<Scored> {
        let (rows, _) = self.frame(error).rows(&self.simulated, &self.simulated, &self.known(from));
        rows.iter().filter_map(|row| self.of_row(row)).collect()
    }

    fn of_row(&self, row: &Row) -> Option<Scored> {
        let lock = row.lock.as_deref();
        let measured: Vec<Point> =
            row.points.iter().filter_map(|point| self.at(lock, point.threads)).collect();
        let points =
            row.points.iter().filter(|point| !point.measured && point.threads > 1).filter_map(|point| {
                Some(ScoredPoint {
                    threads: point.threads,
                    forecast: Point::from(*point),
                    measured: self.at(lock, point.threads)?,
                })
            });
        let points: Vec<_> = points.collect();
        if points.is_empty() || measured.len() < 2 {
            return None;
        }
        let threads: Vec<u32> = measured.iter().map(|point| point.cores).collect();
        let values: Vec<f64> = measured.iter().map(|point| point.value).collect();
        let (kind, at) = outcome(&threads, &values);
        let happened = match kind {
            Kind::Collapses => format!("collapses at {at}"),
            Kind::LevelsOff => format!("level from {at}"),
            _ => "rises".to_owned(),
        };
        Some(Scored {
            program: self.program.clone(),
            lock: row.lock.clone(),
            class: class(&row.code),
            verdict: row.verdict.to_string(),
            happened,
            drawn: row.verdict.drawn,
            anchored: row.verdict.anchored,
            probability: row.verdict.collapses,
            collapsed: kind == Kind::Collapses,
            collapse_at: (kind == Kind::Collapses
                && row.verdict.kind == Kind::Collapses
                && row.verdict.is_decided())
            .then_some([at, row.verdict.at.likely]),
            shown_before: row.verdict.measured,
            points,
        })
    }
}

fn class(code: &str) -> &'static str {
    if crate::answer::catalogue_sleeps(code) { "waiters sleep" } else { "waiters spin" }
}

/// The error's distribution as all of these programs teach it.
#[must_use]
pub(crate) fn learn(all: &[&Held], froms: &[From]) -> (Widths, Calibration) {
    let mut learning = Learning::default();
    all.iter().for_each(|held| held.teach(froms, &mut learning));
    let widths = learning.widths();
    let mut drawn = Vec::new();
    for &from in froms {
        let scored = all.iter().flat_map(|held| held.scored(from, (widths, Calibration::NONE)));
        drawn.extend(scored.filter(|one| !one.shown_before).map(|one| Drawn {
            anchored: one.anchored,
            program: one.program,
            probability: one.drawn,
            collapsed: one.collapsed,
        }));
    }
    (widths, Calibration::learn(&drawn))
}

/// Fewer programs teach nothing of their own: what is built in is used.
pub const ENOUGH: usize = 8;

/// Every program's forecasts, each with an error whose distribution is learnt from the others, by their forecasts from all of `froms`.
#[must_use]
pub fn scored(all: &[Held], from: From, froms: &[From]) -> Vec<Scored> {
    let of_program = |place: usize| {
        let others: Vec<&Held> =
            all.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, held)| held).collect();
        let error = if all.len() < ENOUGH { (LEARNT, CALIBRATED) } else { learn(&others, froms) };
        all[place].scored(from, error)
    };
    (0..all.len()).into_par_iter().flat_map(of_program).collect()
}

/// A collapse is near where it was forecast within this factor of threads.
const NEAR: f64 = 1.5;

/// Adds up what came true.
#[must_use]
pub fn scores<'a>(all: impl IntoIterator<Item = &'a Scored>) -> Scores {
    let all: Vec<&Scored> = all.into_iter().collect();
    let happened = |one: &Scored| f64::from(u8::from(one.collapsed));
    let mean =
        |values: &[f64]| values.iter().fold(0.0, |sum, value| sum + value) / values.len().max(1) as f64;
    let points: Vec<&ScoredPoint> = all.iter().flat_map(|one| &one.points).collect();
    let all: Vec<&Scored> = all.iter().copied().filter(|one| !one.shown_before).collect();
    let square = |one: &&Scored| (one.probability - happened(one)).powi(2);
    let decided = |one: &&&Scored| one.probability.max(1.0 - one.probability) >= crate::verdict::DECIDED;
    let right: Vec<f64> = all
        .iter()
        .filter(decided)
        .map(|one| f64::from(u8::from((one.probability > 0.5) == one.collapsed)))
        .collect();
    let near = |&[at, forecast]: &[u32; 2]| {
        f64::from(u8::from(f64::from(at.max(forecast)) <= NEAR * f64::from(at.min(forecast))))
    };
    let near: Vec<f64> = all.iter().filter_map(|one| one.collapse_at.as_ref()).map(near).collect();
    let errors = |points: &[&ScoredPoint]| -> f64 {
        let errors: Vec<f64> = points.iter().map(|point| point.error().abs()).collect();
        statistics::spread(&errors).map_or(0.0, |errors| errors.median)
    };
    let on_two: Vec<&ScoredPoint> = points.iter().copied().filter(|point| point.threads == 2).collect();
    let reliability = (0..10).map(|tenth| {
        let of_tenth = |one: &&&Scored| ((10.0 * one.probability) as usize).min(9) == tenth;
        let of_tenth: Vec<&&Scored> = all.iter().filter(of_tenth).collect();
        let said: Vec<f64> = of_tenth.iter().map(|one| one.probability).collect();
        let came: Vec<f64> = of_tenth.iter().map(|one| happened(one)).collect();
        (of_tenth.len(), mean(&said), mean(&came))
    });
    Scores {
        verdicts: all.len(),
        brier: mean(&all.iter().map(square).collect::<Vec<_>>()),
        decided: right.len() as f64 / all.len().max(1) as f64,
        right: mean(&right),
        points: points.len(),
        median_error: errors(&points),
        points_on_two: on_two.len(),
        error_on_two: errors(&on_two),
        collapse_near: mean(&near),
        collapses: near.len(),
        in_range: points.iter().filter(|point| point.is_held()).count() as f64 / points.len().max(1) as f64,
        reliability: reliability.collect(),
    }
}

/// A row of a file of measured programs: one lock at one number of threads.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CaseRow {
    program: String,
    cores: u32,
    most: f64,
    /// Empty for the baseline.
    lock: String,
    code: String,
    threads: u32,
    simulated: f64,
    simulated_low: f64,
    simulated_high: f64,
    pessimistic: f64,
    optimistic: f64,
    measured: Option<f64>,
    measured_low: Option<f64>,
    measured_high: Option<f64>,
}

/// Reads what [`write_cases`] wrote, and what else has its columns.
///
/// # Errors
///
/// Text that is no such table, with the line; a table without a program.
pub fn read_cases(file: &Path) -> anyhow::Result<Vec<Held>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse_cases(&text).with_context(|| file.display().to_string())
}

/// Fails for figures that none of a simulation or a measurement are.
fn ensure_sensible(row: &CaseRow) -> anyhow::Result<()> {
    let known = [row.simulated, row.simulated_low, row.simulated_high, row.pessimistic, row.optimistic];
    let figures = known.into_iter().chain(row.measured).chain(row.measured_low).chain(row.measured_high);
    for figure in figures {
        ensure!(figure.is_finite() && figure > 0.0, "{figure} of {} is no throughput", row.program);
    }
    ensure!(
        row.cores > 0 && row.threads > 0,
        "{} has a row without cores or threads, which are counted from 1",
        row.program
    );
    // Locks of which no section is held limit nothing.
    ensure!(row.most > 0.0, "`most` of {} is {}, which is no throughput", row.program, row.most);
    Ok(())
}

pub(crate) fn parse_cases(text: &str) -> anyhow::Result<Vec<Held>> {
    let mut all: Vec<Held> = Vec::new();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    for row in reader.deserialize() {
        let row: CaseRow = row?;
        ensure_sensible(&row)?;
        let place = all.iter().position(|held| held.program == row.program).unwrap_or_else(|| {
            let simulated =
                Simulated { locks: Vec::new(), runs: Vec::new(), seed: 0, seeds: 1, doubts: Vec::new() };
            let (program, cores, most) = (row.program.clone(), row.cores, row.most);
            all.push(Held { program, cores, most, simulated, measured: Vec::new() });
            all.len() - 1
        });
        let held = &mut all[place];
        let name = (!row.lock.is_empty()).then(|| row.lock.clone());
        let runs = &mut held.simulated.runs;
        ensure!(
            !runs.is_empty() || name.is_none(),
            "the first row of {} is of a lock: those of the program as it is, whose `lock` is empty, come first",
            row.program
        );
        let at = runs.iter().position(|run| run.name == name).unwrap_or_else(|| {
            let (name, lock) = (name.clone(), row.code.clone());
            runs.push(Run { name, lock, points: Vec::new(), limited_by: None, waiting: Vec::new() });
            runs.len() - 1
        });
        ensure!(
            runs[at].at(row.threads).is_none(),
            "{} has two rows of {} at {} threads",
            row.program,
            if row.lock.is_empty() { "the program as it is" } else { &row.lock },
            row.threads
        );
        runs[at].points.push(SimulatedPoint {
            threads: row.threads,
            value: row.simulated,
            low: row.simulated_low,
            high: row.simulated_high,
            ends: [row.pessimistic, row.optimistic],
        });
        if let Some(rate) = row.measured {
            let (low, high) = (row.measured_low.unwrap_or(rate), row.measured_high.unwrap_or(rate));
            held.measured.push(MeasuredPoint { lock: name, threads: row.threads, rate, low, high });
        }
    }
    for run in all.iter_mut().flat_map(|held| &mut held.simulated.runs) {
        run.points.sort_by_key(|point| point.threads);
    }
    let columns = reader.headers()?.iter().collect::<Vec<_>>().join(",");
    ensure!(
        !all.is_empty(),
        "there is no program in it, {}: `contend validate --cases FILE` writes such a table",
        if columns.is_empty() {
            "as it is empty".to_owned()
        } else {
            format!("only the columns `{}`", report::text::printable(&columns))
        }
    );
    Ok(all)
}

/// The programs as a table that is read back without running or simulating anything.
///
/// # Errors
///
/// None that a string in memory has.
pub fn write_cases(all: &[Held]) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for held in all {
        for run in &held.simulated.runs {
            for point in &run.points {
                let measured = held.at(run.name.as_deref(), point.threads);
                writer.serialize(CaseRow {
                    program: held.program.clone(),
                    cores: held.cores,
                    most: held.most,
                    lock: run.name.clone().unwrap_or_default(),
                    code: run.lock.clone(),
                    threads: point.threads,
                    simulated: point.value,
                    simulated_low: point.low,
                    simulated_high: point.high,
                    pessimistic: point.ends[0],
                    optimistic: point.ends[1],
                    measured: measured.map(|point| point.value),
                    measured_low: measured.map(|point| point.low),
                    measured_high: measured.map(|point| point.high),
                })?;
            }
        }
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

/// Programs that were measured, with what the simulated program said of them from a profile of one thread.
pub const MEASURED: &str = include_str!("../../data/measured-programs.csv");

#[cfg(test)]
mod tests {
    use super::super::{KEPT, Summary, of_random_programs, page};
    use super::*;
    use std::path::Path;

    /// The command that makes the page of the programs that were measured once.
    const RESCORED: &str =
        "contend validate --rescore crates/forecast/data/measured-programs.csv -o docs/predictions.md";

    fn measured() -> Vec<Held> {
        parse_cases(MEASURED).unwrap()
    }

    #[test]
    fn what_is_built_in_is_what_the_measured_programs_teach() {
        let all = measured();
        let (widths, calibration) = learn(&all.iter().collect::<Vec<_>>(), &From::MEASURED);
        for (built_in, learnt) in
            [(figures(&LEARNT), figures(&widths)), (figures(&CALIBRATED), figures(&calibration))]
        {
            let near = built_in.iter().zip(&learnt).all(|(a, b)| (a - b).abs() < 0.01);
            assert!(near, "write {learnt:?} for {built_in:?}");
        }
    }

    /// Numbers of a value, in the order of its fields.
    fn figures(value: &impl Serialize) -> Vec<f64> {
        fn numbers(value: &serde_json::Value, all: &mut Vec<f64>) {
            match value {
                serde_json::Value::Number(number) => all.extend(number.as_f64()),
                serde_json::Value::Array(values) => values.iter().for_each(|value| numbers(value, all)),
                serde_json::Value::Object(values) => values.values().for_each(|value| numbers(value, all)),
                _ => {}
            }
        }
        let mut all = Vec::new();
        numbers(&serde_json::to_value(value).unwrap(), &mut all);
        all
    }

    #[test]
    fn forecasts_of_measured_programs_stay_as_good_as_they_are() {
        let all = measured();
        let [one, two] = From::MEASURED.map(|from| scores(&scored(&all, from, &From::MEASURED)));
        assert!(one.brier < 0.165 && one.decided > 0.6 && one.right > 0.8, "{one:?}");
        assert!(two.brier < 0.065 && two.decided > 0.85 && two.right > 0.95, "{two:?}");
        assert!(two.median_error < 0.23 && two.error_on_two < 0.13, "{two:?}");
        assert!(one.reliability.iter().map(|(count, ..)| count).sum::<usize>() == one.verdicts);
    }

    #[test]
    fn the_page_of_forecasts_is_that_of_the_measured_programs() {
        let summary = Summary::of(&measured(), &From::MEASURED);
        let page = page(&summary, RESCORED, KEPT, &of_random_programs());
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/predictions.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, &page).unwrap();
        }
        assert!(std::fs::read_to_string(&file).unwrap() == page, "make it again: {RESCORED}");
    }

    #[test]
    fn scores_fit_into_eighty_columns_and_say_what_judged_them() {
        let all = measured();
        let summary = Summary::of(&all, &From::MEASURED);
        let shown = summary.terminal();
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let few = Summary::of(&all[..2], &From::MEASURED);
        assert!(page(&few, "x", "", "").contains("learnt before from other programs"));
        assert!(page(&summary, "x", "", "").contains("judged with itself left out"));
    }

    #[test]
    fn cases_are_read_back_as_they_were_written() {
        let all = measured();
        let again = parse_cases(&write_cases(&all).unwrap()).unwrap();
        assert_eq!(format!("{:?}", again[0]), format!("{:?}", all[0]));
        let wrong = MEASURED.replacen(",0.28,", ",-0.28,", 1);
        assert!(format!("{:#}", parse_cases(&wrong).unwrap_err()).contains("no throughput"));
    }

    #[test]
    fn a_table_that_makes_no_sense_is_refused() {
        let head = "program,cores,most,lock,code,threads,simulated,simulated_low,simulated_high,pessimistic,optimistic,\
                    measured,measured_low,measured_high\n";
        let row = |start: &str, threads: u32| format!("{start},futex,{threads},1,1,1,1,1,1,1,1\n");
        let read = |rows: &[String]| {
            parse_cases(&(head.to_owned() + &rows.concat())).map_err(|error| format!("{error:#}"))
        };
        let good = read(&[row("a,2,3.5,", 2), row("a,2,3.5,", 1), row("a,2,3.5,mcs", 1)]).unwrap();
        let threads: Vec<u32> = good[0].simulated.runs[0].points.iter().map(|point| point.threads).collect();
        assert_eq!(threads, [1, 2], "by threads, however they stand");
        assert!(read(&[row("a,2,inf,", 1)]).is_ok(), "nothing limits it");
        for (rows, cause) in [
            (vec![row("a,0,3.5,", 1)], "counted from 1"),
            (vec![row("a,2,3.5,", 0)], "counted from 1"),
            (vec![row("a,2,0,", 1)], "`most` of a is 0"),
            (vec![row("a,2,NaN,", 1)], "`most` of a is NaN"),
            (vec![row("a,2,3.5,mcs", 1), row("a,2,3.5,", 1)], "come first"),
            (vec![row("a,2,3.5,", 1), row("a,2,3.5,", 1)], "two rows of the program as it is at 1 threads"),
        ] {
            assert!(read(&rows).is_err_and(|error| error.contains(cause)), "{rows:?}");
        }
    }

    #[test]
    fn a_file_without_a_program_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("cases.csv");
        for (text, cause) in
            [("", "as it is empty"), ("a,b\n", "only the columns `a,b`"), ("a,b\n1,2\n", "program")]
        {
            std::fs::write(&file, text).unwrap();
            let message = format!("{:#}", read_cases(&file).unwrap_err());
            assert!(message.contains("cases.csv") && message.contains(cause), "{message}");
        }
    }
}
