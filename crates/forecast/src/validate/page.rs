//! The page of predictions against measurements, and the tables on a terminal.

use super::verdict::goals;
use super::{Validated, Validation};
use crate::twin::errors;
use curve::Point;
use report::{Cell, Column, Spread, Table, text};
use std::fmt::Write as _;

impl Validated {
    /// Every lock at every number of threads.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new([
            Column::text("lock", "lock"),
            Column::number("threads", "threads"),
            Column::spread("predicted", "predicted"),
            Column::spread("measured", "measured"),
            Column::text("error", "error").kept(),
            Column::number("chain", "chain").detail(),
        ]);
        let spread = |point: Option<Point>| point.map(Spread::from);
        for row in &self.rows {
            table.row([
                Cell::from(row.lock.as_str()),
                Cell::from(row.threads),
                Cell::from(spread(row.predicted)),
                Cell::from(spread(row.measured)),
                Cell::from(row.error().map(percent)),
                Cell::from(row.chain),
            ]);
        }
        table
    }

    /// Verdicts, order, doubts and disturbances, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<_> = self
            .judgement
            .verdicts
            .iter()
            .map(|one| {
                let right = match one.right {
                    Some(true) => "right",
                    Some(false) => "wrong",
                    None => "not told",
                };
                format!("{}: predicted `{}`, measured `{}`: {right}", one.lock, one.predicted, one.measured)
            })
            .collect();
        if let Some(order) = self.judgement.order {
            let right = if order { "right" } else { "wrong" };
            lines.push(format!("order of the best three locks: {right}"));
        }
        if let (Some(transfer_ns), Some(together)) = (self.transfer_ns, self.together) {
            lines.push(format!(
                "cores meanwhile: {transfer_ns:.0} ns for a line from one to the other; {:.0} % of its speed each where both compute",
                100.0 * together
            ));
        }
        lines.extend(self.doubts.iter().map(|doubt| format!("in doubt: {}", text::printable(doubt))));
        lines.extend(self.noise.iter().map(|noise| format!("disturbed: {noise}")));
        lines
    }
}

fn percent(error: f64) -> String {
    format!("{:+.0} %", 100.0 * error)
}

/// The page: what was predicted and measured of every program, what came true, and which goals are missed. `made_by` is the
/// command that makes it.
#[must_use]
pub fn page(all: &[Validated], made_by: &str) -> String {
    let found = goals(all);
    let machine =
        all.iter().map(|one| &*one.machine).find(|machine| !machine.is_empty()).unwrap_or("this machine");
    let runs = all.iter().map(|one| one.runs).max().unwrap_or(0);
    let mut page = format!(
        "# Predictions against measurements\n\n\
         Made by `{made_by}` on {}. Each program was profiled on one thread; the twin predicted it on more threads under each \
         lock; then it was measured, {runs} runs of every lock and number of threads, interleaved. The line transfer that the twin \
         takes, and how fast a core computes beside another, were timed between these runs: a hypervisor moves the cores. \
         All figures are throughput relative to one thread with the program's own lock: median (least to greatest). No number of contend is fitted to \
         these programs, but for the two factors by which ranges are widened.\n\n",
        text::printable(machine)
    );
    page += "| goal | came to | |\n|---|--:|---|\n";
    for (goal, found, met) in found.lines() {
        let _ = writeln!(page, "| {goal} | {found} | {} |", if met { "met" } else { "**missed**" });
    }
    let _ = writeln!(
        page,
        "\n{} programs with {} predictions; {} could not be validated.\n",
        found.programs, found.predictions, found.failed
    );
    let [own, shared] = found.factors;
    let _ = writeln!(
        page,
        "Four in five of all measurements lie in ranges that seeds, times and costs give, widened by {own:.2} times where each thread \
         has a core, and by {shared:.2} times where threads share cores; predicted ranges are widened by {:.2} and {:.2}.\n",
        errors::factor(2, 2),
        errors::factor(2, 1),
    );
    let [twin, chain] = found.engines;
    let _ = writeln!(
        page,
        "Where each thread has a core, the twin was off by {twin:.2} times at the median, and the Markov chain, which `contend predict` \
         shows beside it, by {chain:.2} times.\n",
    );
    for one in all {
        let _ = writeln!(page, "## {}\n\n`{}`\n", cell(&one.program), cell(&one.command));
        if let Some(why) = &one.failed {
            let _ = writeln!(page, "Not validated: {}.\n", cell(why));
            continue;
        }
        let _ = writeln!(page, "Hot lock: `{}`.\n", cell(&one.site));
        page += "| lock | threads | predicted | measured | error |\n|---|--:|--:|--:|--:|\n";
        for row in one.rows.iter().filter(|row| row.threads > 1 || row.lock == launch::GLIBC) {
            let Validation { lock, threads, predicted, measured, .. } = row;
            let error = row.error().map_or(String::new(), percent);
            let _ = writeln!(
                page,
                "| {lock} | {threads} | {} | {} | {error} |",
                ranged(*predicted),
                ranged(*measured)
            );
        }
        page.push('\n');
        for line in one.lines() {
            let _ = writeln!(page, "- {}", cell(&line));
        }
        page.push('\n');
    }
    page
}

/// Text that cannot end a cell, or act as markup.
fn cell(value: &str) -> String {
    text::printable(value).replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

fn ranged(point: Option<Point>) -> String {
    point.map_or("–".to_owned(), |Point { value, low, high, .. }| {
        format!("{value:.2} ({low:.2} to {high:.2})")
    })
}

#[cfg(test)]
mod tests {
    use super::super::verdict::tests::{row, validated};
    use super::*;

    #[test]
    fn losing_rows_and_missed_goals_are_on_the_page() {
        let rows = vec![row("glibc", 1, 1.0, 1.0), row("glibc", 2, 1.9, 0.5), row("mcs", 2, 1.0, 1.0)];
        let validated = Validated { program: "a|b<script>".into(), ..validated(rows) };
        let not = Validated { failed: Some("it is not installed".into()), ..validated.clone() };
        let page = page(&[validated, not], "contend validate");
        assert!(
            page.contains("| glibc | 2 | 1.90 (1.86 to 1.94) | 0.50 (0.49 to 0.51) | +280 % |"),
            "{page}"
        );
        assert!(page.contains("**missed**") && page.contains("wrong"), "{page}");
        assert!(
            page.contains("a\\|b&lt;script>") && page.contains("Not validated: it is not installed."),
            "{page}"
        );
        assert!(page.contains("1 programs with 2 predictions; 1 could not be validated."), "{page}");
    }
}
