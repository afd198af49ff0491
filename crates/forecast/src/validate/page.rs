//! Scores and rows, for a page and for a terminal.

use super::scores::{From, Held, Scored, ScoredPoint, Scores, scored, scores};
use report::text;
use serde::Serialize;
use std::fmt::Write as _;

/// The scores of all programs, from one thread's profile and from two.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Programs.
    pub programs: usize,
    /// Every forecast from one thread's profile.
    pub one_thread: Vec<Scored>,
    /// Every forecast from one thread and two.
    pub two_threads: Vec<Scored>,
}

/// What forecasts are to come to.
struct Goals {
    brier: f64,
    decided: f64,
    right: f64,
    median_error: Option<f64>,
}

const ONE_THREAD: Goals = Goals { brier: 0.14, decided: 0.6, right: 0.9, median_error: None };
const TWO_THREADS: Goals = Goals { brier: 0.08, decided: 0.85, right: 0.95, median_error: Some(0.2) };

impl Summary {
    /// The summary of these programs, each judged by widths that are learnt from the others.
    #[must_use]
    pub fn of(all: &[Held]) -> Self {
        Self {
            programs: all.len(),
            one_thread: scored(all, From::OneThread),
            two_threads: scored(all, From::TwoThreads),
        }
    }

    /// A table of scores, of all and by class, with the goals.
    #[must_use]
    pub fn scores(&self) -> String {
        let mut shown = "| from | verdicts | Brier | decided | of those right | median error | in range |\n|---|--:|--:|--:|--:|--:|--:|\n".to_owned();
        for (from, all, goals) in [
            ("one thread", &self.one_thread, ONE_THREAD),
            ("one and two threads", &self.two_threads, TWO_THREADS),
        ] {
            let _ = writeln!(shown, "| {from} | {}", line(&scores(all)));
            let Goals { brier, decided, right, median_error } = goals;
            let percent = |share: f64| format!("{:.0} %", 100.0 * share);
            let _ = writeln!(
                shown,
                "| goal | | {brier:.2} | {} | {} | {} | 80 % |",
                percent(decided),
                percent(right),
                median_error.map(percent).unwrap_or_default()
            );
            for class in classes(all) {
                let _ = writeln!(
                    shown,
                    "| {from}, {class} | {}",
                    line(&scores(all.iter().filter(|one| one.class == class)))
                );
            }
        }
        shown
    }

    /// How often what was said to be so likely came true, by tenths of the probability.
    #[must_use]
    pub fn reliability(&self) -> String {
        let mut shown = "| probability of a collapse | one thread: verdicts | said | came | two: verdicts | said | came |\n|---|--:|--:|--:|--:|--:|--:|\n".to_owned();
        let [one, two] = [&self.one_thread, &self.two_threads].map(|all| scores(all).reliability);
        for (tenth, (one, two)) in one.iter().zip(&two).enumerate() {
            let cells = |(count, said, came): &(usize, f64, f64)| {
                if *count == 0 {
                    "0 | | ".to_owned()
                } else {
                    format!("{count} | {:.0} % | {:.0} %", 100.0 * said, 100.0 * came)
                }
            };
            let _ = writeln!(
                shown,
                "| {} to {} % | {} | {} |",
                10 * tenth,
                10 * tenth + 10,
                cells(one),
                cells(two)
            );
        }
        shown
    }
}

impl Summary {
    /// Scores and reliability for a terminal.
    #[must_use]
    pub fn terminal(&self) -> String {
        let is_rule = |line: &&str| !line.starts_with("|--");
        let aligned = |table: String| aligned(&table.lines().filter(is_rule).collect::<Vec<_>>());
        format!("{}\n{}", aligned(self.scores()), aligned(self.reliability()))
    }
}

/// Rows of a Markdown table under each other.
fn aligned(rows: &[&str]) -> String {
    let rows: Vec<Vec<&str>> =
        rows.iter().map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.len()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<&str>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(
            |(place, (cell, &width))| {
                if place == 0 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
            },
        );
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn classes(all: &[Scored]) -> Vec<&'static str> {
    let mut classes: Vec<_> = all.iter().map(|one| one.class).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

fn line(scores: &Scores) -> String {
    format!(
        "{} | {:.3} | {:.0} % | {:.0} % | {:.0} % | {:.0} % |",
        scores.verdicts,
        scores.brier,
        100.0 * scores.decided,
        100.0 * scores.right,
        100.0 * scores.median_error,
        100.0 * scores.in_range
    )
}

/// How the programs of [`MEASURED`](super::MEASURED) were measured.
pub const KEPT: &str = "Nothing was run for it: the table holds what `contend validate --programs tests/real-programs.toml --runs 2 --time-limit 10s` simulated and \
    measured on a virtual machine of two cores (AMD EPYC), from profiles of one thread; under other locks, one thread is taken to do as much as under the \
    program's own.";

/// The page: the scores, then every program's forecasts beside what was measured. `made_by` is the command that makes it, and `preface` says how
/// the programs were measured.
#[must_use]
pub fn page(summary: &Summary, made_by: &str, preface: &str) -> String {
    let mut page = format!(
        "# Forecasts against measurements\n\nMade by `{made_by}`. {preface}\n\nEach program is judged with itself left out: the widths of the error \
         and the calibration of its probabilities come from all others. The constants of the error's form (its parts of level and tilt, what counts \
         of a simulated range, where an error is cut off) are not left out: they are the same for all, and were set with the measured programs in \
         view, so that scores of other programs may be worse. A verdict is decided if its probability is at least 70 %. The Brier score is the mean square of the probability of a \
         collapse less what happened; always saying 50 % scores 0.25. The error is forecast over measured throughput, less one, without sign.\n\n{}\n{}\n",
        summary.scores(),
        summary.reliability()
    );
    let mut programs: Vec<&str> = Vec::new();
    for one in &summary.one_thread {
        if programs.last() != Some(&one.program.as_str()) {
            programs.push(&one.program);
        }
    }
    for program in programs {
        let _ = writeln!(page, "## {}\n", cell(program));
        page += "| lock | threads | from one thread | from one and two | measured |\n|---|--:|--:|--:|--:|\n";
        let of =
            |all: &'_ [Scored]| all.iter().filter(|one| one.program == program).cloned().collect::<Vec<_>>();
        let (one, two) = (of(&summary.one_thread), of(&summary.two_threads));
        for forecast in &one {
            let again = two.iter().find(|again| again.lock == forecast.lock);
            for point in &forecast.points {
                let second = again
                    .and_then(|again| again.points.iter().find(|second| second.threads == point.threads));
                let _ = writeln!(
                    page,
                    "| {} | {} | {} | {} | {} |",
                    cell(forecast.lock.as_deref().unwrap_or("baseline")),
                    point.threads,
                    ranged(point),
                    second.map_or("measured".to_owned(), ranged),
                    figure(point.measured)
                );
            }
        }
        page.push('\n');
        for forecast in &one {
            let again = two.iter().find(|again| again.lock == forecast.lock);
            let _ = writeln!(
                page,
                "- {}: `{}` from one thread, {} from two; measured `{}`",
                cell(forecast.lock.as_deref().unwrap_or("baseline")),
                forecast.verdict,
                again.map_or("measured".to_owned(), |again| format!("`{}`", again.verdict)),
                forecast.happened
            );
        }
        page.push('\n');
    }
    page
}

fn figure(curve::Point { value, low, high, .. }: curve::Point) -> String {
    format!("{value:.2} ({low:.2} to {high:.2})")
}

fn ranged(point: &ScoredPoint) -> String {
    format!("{}, {:+.0} %", figure(point.forecast), 100.0 * point.error())
}

/// Text that cannot end a cell, or act as markup.
fn cell(value: &str) -> String {
    text::printable(value).replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}
