//! What a benchmark found, and how it is shown: on a terminal, as JSON, as SVG, in a document.

use super::limited::WRONG;
use ::report::{Cell, CellMap, Column, Plot, RangePlot, Screen, Spread, Table};
use compare::statistics::SMALLEST_DIFFERENCE;
use curve::Curve;
use session::host::{processor_name, today};
use session::noise::Noise;
use std::fmt::Write as _;

/// A claim that a benchmark puts to the test.
#[derive(Debug, Clone)]
pub struct Goal {
    /// What is claimed.
    pub goal: &'static str,
    /// Of what.
    pub subject: String,
    /// The figure that decides, in the unit of the goal.
    pub figure: Spread,
    /// What the figure may be at most, or has to be at least.
    pub bound: f64,
    /// The figure has to be at least the bound; else at most.
    pub at_least: bool,
    /// It is enough that one run reached the bound, or came so near that the layout of memory may be why: the goal is one
    /// within noise.
    pub noise_counts: bool,
}

impl Goal {
    /// The claim with its bound.
    pub fn claim(&self) -> String {
        let sign = if self.at_least { "at least" } else { "at most" };
        format!("{}: {sign} {}", self.goal, self.bound)
    }

    /// Whether the median meets the bound; `met within noise` where only a run reached it, or nearly, and that is enough.
    pub fn verdict(&self) -> &'static str {
        let Spread { low, median, high } = self.figure;
        let (met, reached) = if self.at_least {
            (median >= self.bound, high >= self.bound * (1.0 - SMALLEST_DIFFERENCE))
        } else {
            (median <= self.bound, low <= self.bound * (1.0 + SMALLEST_DIFFERENCE))
        };
        match (met, reached && self.noise_counts) {
            (true, _) => "met",
            (false, true) => "met within noise",
            (false, false) => "missed",
        }
    }
}

/// One table with what has to be said of it.
#[derive(Debug)]
pub struct Part {
    /// Its name in JSON.
    pub key: &'static str,
    /// What it shows.
    pub heading: String,
    /// The rows.
    pub table: Table,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

/// What is drawn.
#[derive(Debug)]
pub enum Drawing {
    /// Medians with ranges.
    Ranges(RangePlot),
    /// Throughput by threads.
    Curves(String, Vec<Curve>),
    /// Throughput by processes that stand for users.
    CurvesByUsers(String, Vec<Curve>),
    /// The best of several in each cell of a grid.
    Map(CellMap),
}

/// What a benchmark found.
#[derive(Debug)]
pub struct Findings {
    /// The name of the workload.
    pub workload: &'static str,
    /// The tables.
    pub parts: Vec<Part>,
    /// Claims put to the test.
    pub goals: Vec<Goal>,
    /// What `--svg` draws.
    pub drawing: Drawing,
    /// What else the machine did meanwhile.
    pub noise: Noise,
}

impl Findings {
    /// The goals as a table, lost ones included.
    pub fn goals_table(goals: &[Goal]) -> Table {
        let mut table = Table::new([
            Column::text("goal", "goal"),
            Column::text("subject", "of"),
            Column::spread("figure", "figure"),
            Column::number("bound", "bound"),
            Column::text("verdict", "verdict"),
        ]);
        for goal in goals {
            table.row([
                Cell::from(goal.claim()),
                goal.subject.as_str().into(),
                goal.figure.into(),
                goal.bound.into(),
                goal.verdict().into(),
            ]);
        }
        table
    }

    /// Lines for a screen.
    pub fn terminal(&self, screen: Screen) -> String {
        let mut shown = String::new();
        for part in &self.parts {
            let _ = writeln!(shown, "{}\n\n{}", screen.fit(&part.heading), part.table.terminal(screen));
            for note in &part.notes {
                let _ = writeln!(shown, "{}", screen.fit(note));
            }
            shown.push('\n');
        }
        if !self.goals.is_empty() {
            let _ = writeln!(shown, "Goals\n\n{}", Self::goals_table(&self.goals).terminal(screen));
        }
        shown
    }

    /// Everything for a script.
    pub fn json(&self) -> serde_json::Value {
        let tables: serde_json::Map<_, _> =
            self.parts.iter().map(|part| (part.key.into(), part.table.json())).collect();
        let notes: Vec<_> = self.parts.iter().flat_map(|part| &part.notes).collect();
        serde_json::json!({
            "workload": self.workload,
            "machine": processor_name(),
            "date": today(),
            "tables": tables,
            "notes": notes,
            "goals": Self::goals_table(&self.goals).json(),
            "noise": self.noise,
            "warnings": self.noise.warnings(),
        })
    }

    /// Whether a lock was wrong, or nothing that was asked for could be measured.
    pub fn has_failed(&self) -> bool {
        self.parts.iter().any(|part| {
            let rows = part.table.json().as_array().cloned().unwrap_or_default();
            let failures: Vec<&str> = rows.iter().filter_map(|row| row["failure"].as_str()).collect();
            let is_wrong = failures.iter().any(|failure| failure.starts_with(WRONG));
            is_wrong || !rows.is_empty() && failures.len() == rows.len()
        })
    }

    /// An SVG document.
    ///
    /// # Errors
    ///
    /// Curves that cannot share an axis.
    pub fn svg(&self) -> anyhow::Result<String> {
        Ok(match &self.drawing {
            Drawing::Ranges(plot) => plot.svg(),
            Drawing::Curves(title, curves) => Plot::new(title.as_str(), curves)?.axis("threads").svg(),
            Drawing::CurvesByUsers(title, curves) => Plot::new(title.as_str(), curves)?.axis("users").svg(),
            Drawing::Map(map) => map.svg(),
        })
    }

    /// A chapter of a document.
    pub fn markdown(&self) -> String {
        let mut chapter = String::new();
        for part in &self.parts {
            let _ = writeln!(chapter, "### {}\n\n{}", part.heading, part.table.markdown());
            for note in &part.notes {
                let _ = writeln!(chapter, "{note}\n");
            }
        }
        chapter
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::report::every_screen;

    #[test]
    fn a_goal_is_met_by_its_median_or_where_noise_counts_by_one_run() {
        let goal = |low, median, high, at_least, noise_counts| Goal {
            goal: "g",
            subject: "s".into(),
            figure: Spread { low, median, high },
            bound: 1.0,
            at_least,
            noise_counts,
        };
        assert_eq!(goal(0.8, 1.0, 1.2, false, true).verdict(), "met");
        assert_eq!(goal(0.9, 1.1, 1.2, false, true).verdict(), "met within noise");
        assert_eq!(goal(0.9, 1.1, 1.2, false, false).verdict(), "missed");
        assert_eq!(goal(1.004, 1.004, 1.004, false, true).verdict(), "met within noise");
        assert_eq!(goal(1.05, 1.1, 1.2, false, true).verdict(), "missed");
        assert_eq!(goal(0.8, 0.9, 1.2, true, false).verdict(), "missed");
        assert_eq!(goal(0.8, 1.0, 1.2, true, false).verdict(), "met");
    }

    #[test]
    fn findings_with_goals_on_every_screen() {
        let mut table = Table::new([Column::text("lock", "lock"), Column::spread("pair_ns", "pair ns")]);
        table.row([Cell::from("ticket-proportional"), Spread { low: 9.0, median: 10.0, high: 12.0 }.into()]);
        let goal = Goal {
            goal: "uncontended pair, times the best peer's of the same algorithm",
            subject: "ticket-proportional against ck-ticket".into(),
            figure: Spread { low: 0.95, median: 1.02, high: 1.1 },
            bound: 1.0,
            at_least: false,
            noise_counts: true,
        };
        let findings = Findings {
            workload: "cost",
            parts: vec![Part {
                key: "cost",
                heading: "Acquire and release when no thread waits, in cycles".into(),
                table,
                notes: vec![
                    "A note of some words that says how these figures were taken → and what they are × not."
                        .into(),
                ],
            }],
            goals: vec![goal],
            drawing: Drawing::Curves(String::new(), Vec::new()),
            noise: Noise::default(),
        };
        insta::assert_snapshot!(every_screen(&["ticket-proportional"], |screen| findings.terminal(screen)));
    }
}
