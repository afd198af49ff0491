//! Scores and rows, for a page and for a terminal.

use super::scores::{ENOUGH, From, Held, Scored, ScoredPoint, Scores, scored, scores};
use crate::AS_IT_IS;
use report::text;
use serde::Serialize;
use std::fmt::Write as _;

/// The scores of all programs.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Programs.
    pub programs: usize,
    /// Their forecasts, by what they are made from.
    pub judged: Vec<Judged>,
}

/// Forecasts that are made from the same number of profiles.
#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    /// What they are made from.
    pub from: From,
    /// Every forecast.
    pub forecasts: Vec<Scored>,
    /// What came true of them.
    pub scores: Scores,
}

/// What forecasts are to come to.
#[derive(Default)]
struct Goals {
    brier: Option<f64>,
    decided: Option<f64>,
    right: Option<f64>,
    median_error: Option<f64>,
    error_on_two: Option<f64>,
    collapse_near: Option<f64>,
}

impl Goals {
    fn of(from: From) -> Self {
        let of_verdicts = |brier, decided, right| Self {
            brier: Some(brier),
            decided: Some(decided),
            right: Some(right),
            ..Self::default()
        };
        match from {
            From::OneThread => of_verdicts(0.14, 0.6, 0.9),
            From::TwoThreads => {
                Self { median_error: Some(0.2), error_on_two: Some(0.15), ..of_verdicts(0.08, 0.85, 0.95) }
            }
            From::FourThreads => Self {
                right: Some(0.97),
                median_error: Some(0.05),
                collapse_near: Some(0.98),
                ..Self::default()
            },
        }
    }
}

impl Summary {
    /// The summary of these programs, each judged by widths that are learnt from the others.
    #[must_use]
    pub fn of(all: &[Held], froms: &[From]) -> Self {
        let judged = froms.iter().map(|&from| {
            let forecasts = scored(all, from, froms);
            let scores = scores(&forecasts);
            Judged { from, forecasts, scores }
        });
        Self { programs: all.len(), judged: judged.collect() }
    }

    /// Where the error of each program's forecasts is known from.
    fn judged_by(&self) -> &'static str {
        if self.programs < ENOUGH {
            "The programs are too few to teach anything: the widths of the error and the calibration of its probabilities are what contend has \
             learnt before from other programs"
        } else {
            "Each program is judged with itself left out: the widths of the error and the calibration of its probabilities come from all others"
        }
    }

    /// A table of scores, of all and by class, with the goals.
    #[must_use]
    pub fn scores(&self) -> String {
        let heads = "from | verdicts | Brier | decided | of those right | median error | on two threads | in range | collapses near";
        self.scores_under(heads, |name, class| format!("{name}, {class}"))
    }

    /// The same under these heads, with names of the rows of a class.
    fn scores_under(&self, heads: &str, class_name: impl Fn(&str, &str) -> String) -> String {
        let mut shown = format!("| {heads} |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
        for Judged { from, forecasts, scores: all } in &self.judged {
            let name = from.name();
            let _ = writeln!(shown, "| {name} | {}", line(all));
            let Goals { brier, decided, right, median_error, error_on_two, collapse_near } = Goals::of(*from);
            let percent =
                |share: Option<f64>| share.map(|share| format!("{:.0} %", 100.0 * share)).unwrap_or_default();
            let _ = writeln!(
                shown,
                "| goal | | {} | {} | {} | {} | {} | 80 % | {} |",
                brier.map(|brier| format!("{brier:.2}")).unwrap_or_default(),
                percent(decided),
                percent(right),
                percent(median_error),
                percent(error_on_two),
                percent(collapse_near)
            );
            for class in classes(forecasts) {
                let of_class = scores(forecasts.iter().filter(|one| one.class == class));
                let _ = writeln!(shown, "| {} | {}", class_name(name, class), line(&of_class));
            }
        }
        shown
    }

    /// How often what was said to be so likely came true, by tenths of the probability.
    #[must_use]
    pub fn reliability(&self) -> String {
        self.reliability_under("probability of a collapse", "verdicts")
    }

    fn reliability_under(&self, first: &str, verdicts: &str) -> String {
        let heads = self.judged.iter().map(|one| format!(" {}: {verdicts} | said | came |", one.from.name()));
        let rule = "--:|--:|--:|".repeat(self.judged.len());
        let mut shown = format!("| {first} |{}\n|---|{rule}\n", heads.collect::<String>());
        for tenth in 0..10 {
            let cells = self.judged.iter().map(|one| match one.scores.reliability.get(tenth) {
                Some((count @ 1.., said, came)) => {
                    format!(" {count} | {:.0} % | {:.0} % |", 100.0 * said, 100.0 * came)
                }
                _ => " 0 | | |".to_owned(),
            });
            let cells: String = cells.collect();
            let _ = writeln!(shown, "| {} to {} % |{cells}", 10 * tenth, 10 * tenth + 10);
        }
        shown
    }

    /// The forecasts of a program, by what they are made from.
    fn of_program<'a>(&'a self, program: &'a str) -> impl Iterator<Item = Vec<&'a Scored>> + 'a {
        let of = move |one: &'a Judged| one.forecasts.iter().filter(|one| one.program == program).collect();
        self.judged.iter().map(of)
    }
}

impl Summary {
    /// Scores and reliability for a terminal of 80 columns.
    #[must_use]
    pub fn terminal(&self) -> String {
        let is_rule = |line: &&str| !line.starts_with("|--");
        let aligned = |table: String| aligned(&table.lines().filter(is_rule).collect::<Vec<_>>());
        let heads = "from | verdicts | Brier | decided | right | error | on 2 | range | near";
        let scores = self.scores_under(heads, |_, class| format!("- {class}"));
        format!("{}\n{}", aligned(scores), aligned(self.reliability_under("collapse", "n")))
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

/// Cells of a row; empty where there is nothing that a score could be of.
fn line(scores: &Scores) -> String {
    let percent =
        |share: f64, of: usize| if of > 0 { format!("{:.0} %", 100.0 * share) } else { String::new() };
    let Scores { verdicts, points, collapses, .. } = *scores;
    let decided = (scores.decided * verdicts as f64).round() as usize;
    format!(
        "{verdicts} | {} | {} | {} | {} | {} | {} | {} |",
        if verdicts > 0 { format!("{:.3}", scores.brier) } else { String::new() },
        percent(scores.decided, verdicts),
        percent(scores.right, decided),
        percent(scores.median_error, points),
        percent(scores.error_on_two, scores.points_on_two),
        percent(scores.in_range, points),
        percent(scores.collapse_near, collapses)
    )
}

/// How the programs of [`MEASURED`](super::MEASURED) were measured.
pub const KEPT: &str = "Nothing was run for it: the table holds what `contend validate --programs tests/real-programs.toml --runs 2 --time-limit 10s` simulated and \
    measured on a virtual machine of two cores (AMD EPYC), from profiles of one thread; under other locks, one thread is taken to do as much as under the \
    program's own.";

/// The section of the page of [`MEASURED`](super::MEASURED) that has the scores of random programs, which take longer than the page itself.
#[must_use]
pub fn of_random_programs() -> String {
    format!(
        "## Random programs, simulated\n\n`contend validate --simulated 12 --seed 1` prints, on every machine:\n\n```\n{SIMULATED}```\n\n"
    )
}

/// What that command prints. A test of `tests/all` holds it to that.
pub(super) const SIMULATED: &str = include_str!("../../data/simulated-programs.txt");

/// The page: the scores, the section `besides`, then every program's forecasts beside what was measured. `made_by` is the command that makes
/// it, and `preface` says how the programs were measured.
#[must_use]
pub fn page(summary: &Summary, made_by: &str, preface: &str, besides: &str) -> String {
    let mut page = format!(
        "# Forecasts against measurements\n\nMade by `{made_by}`. {preface}\n\n{}. The constants of the error's form (its parts of level and tilt, what counts \
         of a simulated range, where an error is cut off, how alike two locks are that err alike) are not left out: they are the same for all, and were set with the measured programs in \
         view, so that scores of other programs may be worse. A verdict is decided if its probability is at least 70 %. The Brier score is the mean square of the probability of a \
         collapse less what happened; always saying 50 % scores 0.25. The error is forecast over measured throughput, less one, without sign; beside its median over all numbers of threads stands that over two. A verdict that the measurements before it show already is not counted; its points beyond them are. Collapses \
         near: of those that were forecast and came, the share that came within a factor of 1.5 of the forecast number of threads.\n\n{}\n{}\n{besides}",
        summary.judged_by(),
        summary.scores(),
        summary.reliability()
    );
    let Some(first) = summary.judged.first() else { return page };
    let mut programs: Vec<&str> = Vec::new();
    for one in &first.forecasts {
        if programs.last() != Some(&one.program.as_str()) {
            programs.push(&one.program);
        }
    }
    let names = || summary.judged.iter().map(|one| one.from.name());
    let heads: String = names().map(|name| format!(" from {name} |")).collect();
    let rule = "--:|".repeat(summary.judged.len());
    for program in programs {
        let _ = writeln!(page, "## {}\n", cell(program));
        let _ = writeln!(page, "| lock | threads |{heads} measured |\n|---|--:|{rule}--:|");
        let judged: Vec<_> = summary.of_program(program).collect();
        for forecast in &judged[0] {
            for point in &forecast.points {
                let ranges = judged.iter().map(|of| {
                    let same = of.iter().find(|one| one.lock == forecast.lock);
                    let same =
                        same.and_then(|one| one.points.iter().find(|one| one.threads == point.threads));
                    format!(" {} |", same.map_or("measured".to_owned(), ranged))
                });
                let _ = writeln!(
                    page,
                    "| {} | {} |{} {} |",
                    cell(forecast.lock.as_deref().unwrap_or(AS_IT_IS)),
                    point.threads,
                    ranges.collect::<String>(),
                    figure(point.measured)
                );
            }
        }
        page.push('\n');
        for forecast in &judged[0] {
            let verdicts = judged.iter().zip(names()).map(|(of, name)| {
                let same = of.iter().find(|one| one.lock == forecast.lock && !one.shown_before);
                same.map_or_else(
                    || format!("shown by what was measured on {name}"),
                    |one| format!("`{}` from {name}", one.verdict),
                )
            });
            let _ = writeln!(
                page,
                "- {}: {}; measured `{}`",
                cell(forecast.lock.as_deref().unwrap_or(AS_IT_IS)),
                verdicts.collect::<Vec<_>>().join(", "),
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
    text::markdown(value)
}
