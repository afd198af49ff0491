//! A forecast on a terminal, as a picture, as JSON and as a page: the answer first, what to do, reservations, and the derivation on
//! request.

use crate::answer::{Forecast, Point, Row};
use curve::{Curve, Provenance, Unit};
use report::{Cell, Column, Page, Plot, Screen, Table, text};
use std::fmt::Write as _;
use what_if::Gain;

/// Numbers of threads that the answer has columns for, and how wide each is.
const COLUMNS: usize = 6;
const WIDTH: usize = 5;

/// The widest line where the screen tells none.
const LINE: usize = 80;

/// So many changes are shown.
const ADVICE: usize = 4;

impl Forecast {
    /// All of it; fields are added, not changed.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let mut json = serde_json::to_value(self).unwrap_or_default();
        for (row, json) in self.rows.iter().zip(json["rows"].as_array_mut().into_iter().flatten()) {
            json["verdict"]["words"] = row.verdict.to_string().into();
            json["curve"] = serde_json::to_value(self.curve(row)).unwrap_or_default();
        }
        json
    }

    /// The answer: a row for each lock, a column for a few numbers of threads, and the verdict.
    #[must_use]
    pub fn answer(&self, screen: Screen) -> String {
        let name = |row: &Row| text::printable(row.name());
        let widest =
            self.rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0).max("threads".len());
        let verdict = self.rows.iter().map(|row| row.verdict.to_string().chars().count()).max().unwrap_or(0);
        let room = screen.columns().unwrap_or(LINE).saturating_sub(widest + 2 + verdict) / (1 + WIDTH);
        let threads = self.columns(room.clamp(2, COLUMNS));
        let heads: Vec<String> = threads.iter().map(u32::to_string).collect();
        let mut shown = format!("{:widest$}", "threads");
        for head in &heads {
            let _ = write!(shown, " {head:>WIDTH$}");
        }
        shown.push('\n');
        for row in &self.rows {
            let _ = write!(shown, "{:widest$}", name(row));
            for &threads in &threads {
                let figure = row.at(threads).map_or_else(String::new, figure);
                let _ = write!(shown, " {figure:>WIDTH$}");
            }
            let _ = writeln!(shown, "  {}", screen.verdict(&row.verdict.to_string()));
        }
        screen.spell(&shown).into_owned()
    }

    /// What becomes of each row, for a page.
    fn verdicts(&self) -> Table {
        let mut table = Table::new([
            Column::text("lock", "lock"),
            Column::text("code", "code").detail(),
            Column::number("peak_threads", "peak at threads"),
            Column::number("peak", "peak"),
            Column::spread("at_last", "at the most threads"),
            Column::text("verdict", "verdict").kept(),
        ]);
        for row in &self.rows {
            let peak = row.peak().and_then(|threads| row.at(threads));
            let last = row.points.last().map(|&point| report::Spread::from(curve::Point::from(point)));
            table.row([
                Cell::from(row.name()),
                Cell::from(row.code.as_str()),
                Cell::from(peak.map(|point| point.threads)),
                Cell::from(peak.map(|point| point.value)),
                Cell::from(last),
                Cell::from(row.verdict.to_string()),
            ]);
        }
        table
    }

    /// The numbers of threads that have a column, `most` of them: those that were measured, the last, those on which the advised lock and the
    /// baseline do most, without which their verdicts contradict their figures, and some between them.
    fn columns(&self, most: usize) -> Vec<u32> {
        let measured =
            |threads: u32| self.rows.iter().any(|row| row.at(threads).is_some_and(|point| point.measured));
        let all = &self.threads;
        if all.len() <= most {
            return all.clone();
        }
        let last = all[all.len() - 1];
        let mut chosen: Vec<u32> = all
            .iter()
            .copied()
            .filter(|&threads| threads == 1 || threads == last || measured(threads))
            .collect();
        let advised = self.advice.iter().find_map(|gain| self.row(Some(gain.change.strip_prefix("lock=")?)));
        let peaks = advised.into_iter().chain(self.rows.first()).filter_map(Row::peak);
        // Then the powers of two from above, those of four first.
        let powers = |of: u32| {
            all.iter()
                .rev()
                .copied()
                .filter(move |threads| threads.is_power_of_two() && threads.trailing_zeros() % of == 0)
        };
        for threads in peaks.chain(powers(2)).chain(powers(1)) {
            if chosen.len() < most && !chosen.contains(&threads) {
                chosen.push(threads);
            }
        }
        chosen.sort_unstable();
        if chosen.len() > most {
            chosen.truncate(most - 1);
            chosen.push(last);
        }
        chosen
    }

    fn curve(&self, row: &Row) -> Option<Curve> {
        let provenance = if row.points.iter().all(|point| point.measured) {
            Provenance::Measured
        } else {
            Provenance::Simulated
        };
        let points = row.points.iter().copied().map(curve::Point::from);
        Curve::new(row.name(), Unit::Speedup, provenance)
            .lock(&row.code)
            .machine(&*self.machine)
            .with_points(points)
            .ok()
    }

    /// The baseline with its band, and the best three others without.
    ///
    /// # Errors
    ///
    /// None: all curves have one unit.
    pub fn plot(&self) -> anyhow::Result<Plot> {
        const OTHERS: usize = 3;
        let end = |row: &Row| row.points.last().map_or(0.0, |point| point.value);
        let mut others: Vec<&Row> = self.rows.iter().skip(1).collect();
        others.sort_by(|a, b| end(b).total_cmp(&end(a)));
        let line = |row: &Row| self.curve(row).and_then(without_ranges);
        let mut curves: Vec<Curve> = self.rows.first().and_then(|row| self.curve(row)).into_iter().collect();
        curves.extend(others.into_iter().take(OTHERS).filter_map(line));
        let title = format!("{} on {}", self.lock, self.machine);
        Ok(Plot::new(title, &curves)?.axis("threads").bold_first())
    }

    /// The sentences under the table.
    fn sentences(&self) -> Vec<String> {
        let of_rows = self.profiled.iter().filter(|(ran, _)| self.threads.contains(ran));
        let mut lines: Vec<String> = of_rows
            .map(|(ran, threads)| {
                format!("{ran} is the profile of {threads} threads, of which {ran} ran or waited for a lock at a time.")
            })
            .collect();
        if let (Some(share), Some(threads)) = (self.explained_by_locks, self.explained_at) {
            let is_measured =
                self.rows.first().and_then(|row| row.at(threads)).is_some_and(|point| point.measured);
            lines.push(format!(
                "At {threads} threads{}, the locks explain {:.0} % of the loss{}.",
                if is_measured { ", measured" } else { " at a time, as it was profiled" },
                100.0 * share,
                if share < 0.9 {
                    "; the rest is lost in what the threads share outside of locks, or is the forecast's error"
                } else {
                    ""
                }
            ));
        }
        let limit = self.simulated.runs.first().and_then(|run| run.limited_by.as_ref());
        // The first one is the lock in question, which has another name here where it is several.
        if let Some(limit) = limit.filter(|limit| Some(*limit) != self.simulated.locks.first()) {
            lines.push(format!("At the most threads the program waits most for {}.", text::printable(limit)));
        }
        lines
    }

    /// The answer; with `explain`, what it is made of.
    ///
    /// # Errors
    ///
    /// As [`Forecast::plot`].
    pub fn terminal(&self, screen: Screen, explain: bool) -> anyhow::Result<String> {
        const PLOT_ROWS: usize = 16;
        let mut shown = screen.fit(&format!(
            "{}, forecast on {}: throughput relative to one thread.\n\n",
            text::printable(&self.lock),
            text::printable(&self.machine)
        ));
        shown.push_str(&self.answer(screen));
        shown.push('\n');
        let mut lines = self.sentences();
        lines.extend(advice_lines(&self.advice));
        if explain {
            lines.push(String::new());
            lines.push(self.plot()?.terminal(screen, PLOT_ROWS));
        }
        for line in lines {
            shown.push_str(&if line.contains('\n') { line } else { screen.fit(&line) });
            shown.push('\n');
        }
        let notes: Vec<String> =
            self.notes.iter().map(|note| format!("Note: {}.", text::printable(note))).collect();
        for line in notes.iter().take(if explain { usize::MAX } else { NOTES }) {
            shown.push_str(&screen.fit(line));
            shown.push('\n');
        }
        if explain {
            shown.push_str(&screen.fit(&self.derivation()));
            shown.push_str(&self.ranges().terminal(screen));
        } else {
            let more = notes.len().saturating_sub(NOTES);
            let more = match more {
                0 => String::new(),
                1 => " and 1 more reservation".into(),
                more => format!(" and {more} more reservations"),
            };
            shown.push_str(
                &screen
                    .fit(&format!("--explain shows curves, ranges, what the forecast is made of{more}.\n")),
            );
        }
        Ok(shown)
    }

    /// What the forecast is made of.
    fn derivation(&self) -> String {
        let simulated = &self.simulated;
        format!(
            "\n{}\nThe program was rebuilt from its profiles and run on the simulated {} ({}) with the locks' own code, {} times at each point and \
             with every range at both ends. Its ratio from the last measured point is the forecast. A range holds four of five cases, by how \
             far forecasts of programs that were measured have been off (docs/predictions.md).\n\n",
            what_if::case::times(&self.parameters),
            text::printable(&self.machine),
            text::printable(&self.description),
            simulated.seeds,
        )
    }

    /// Every point with its range.
    fn ranges(&self) -> Table {
        let mut table = Table::new([
            Column::text("lock", "lock"),
            Column::number("threads", "threads"),
            Column::spread("throughput", "throughput"),
            Column::text("source", "source"),
        ]);
        for row in &self.rows {
            for point in &row.points {
                let source = if point.measured {
                    "measured"
                } else if point.unstable {
                    "forecast, unstable"
                } else {
                    "forecast"
                };
                let spread = report::Spread::from(curve::Point::from(*point));
                table.row([
                    Cell::from(row.name()),
                    Cell::from(point.threads),
                    Cell::from(spread),
                    Cell::from(source),
                ]);
            }
        }
        table
    }

    /// The same as a page for a browser.
    ///
    /// # Errors
    ///
    /// As [`Forecast::plot`].
    pub fn page(&self) -> anyhow::Result<Page> {
        let plot = self.plot()?;
        let mut page = Page::new(plot.title()).plot(&plot).table(&self.verdicts());
        page = page.paragraphs(&self.sentences().join("\n"));
        page = page.paragraphs(&advice_lines(&self.advice).join("\n"));
        if let Some(sliders) = &self.sliders {
            page = page.what_if(sliders);
        }
        for note in &self.notes {
            page = page.warning(&text::printable(note));
        }
        Ok(page.heading("Derivation").paragraphs(&self.derivation()).table(&self.ranges()))
    }
}

/// The same curve without its ranges, beside one that has some.
fn without_ranges(curve: Curve) -> Option<Curve> {
    let points: Vec<_> =
        curve.points().iter().map(|point| curve::Point::exact(point.cores, point.value)).collect();
    curve.with_points(points).ok()
}

/// So many reservations are shown where no more was asked for.
const NOTES: usize = 2;

/// A figure of which the seeds disagree is none.
fn figure(point: Point) -> String {
    match point.value {
        _ if point.unstable && !point.measured => "?".into(),
        value if value < 9.995 => format!("{value:.2}"),
        value => format!("{value:.1}"),
    }
}

/// What to do.
fn advice_lines(advice: &[Gain]) -> Vec<String> {
    if advice.is_empty() {
        return vec!["What to do: nothing that was tried surely gives a tenth more there.".into()];
    }
    if let [only] = advice
        && let Some(times) = only.times
        && (times.low <= 1.0 || times.likely < crate::advice::WORTH_IT)
    {
        let without_how = Gain { how: None, ..only.clone() };
        return vec![format!("Not worth it, as far as can be told: {}", without_how.terminal())];
    }
    let words = ["What to do"].into_iter().chain(std::iter::repeat("Or"));
    advice.iter().take(ADVICE).zip(words).map(|(gain, word)| format!("{word}: {}", gain.terminal())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated_program::{Run, Simulated};
    use crate::verdict::{Kind, Threads, Verdict};
    use topology::Range;

    fn point(&threads: &u32) -> Point {
        Point { threads, value: 1.0, low: 1.0, high: 1.0, measured: threads < 4, unstable: false }
    }

    /// A row that collapses.
    fn row(lock: Option<&str>, threads: &[u32]) -> Row {
        let verdict = Verdict {
            kind: Kind::Collapses,
            at: Threads { low: 16, likely: 32, high: 64 },
            probability: 0.93,
            collapses: 0.93,
            drawn: 0.9,
            anchored: true,
            measured: false,
        };
        let points = threads.iter().map(point).collect();
        Row { lock: lock.map(str::to_owned), code: "futex".into(), points, verdict }
    }

    fn parameters() -> model::Parameters {
        let mean = |ns| Some(model::Mean { ns: Range::exact(ns), samples: 1_000_000 });
        let lock = model::Observed {
            name: "TABLE".into(),
            family: model::Family::Blocking,
            threads: 2,
            acquisitions: 1_000_000,
            reads: None,
            hold_same: mean(60.0),
            hold_other: mean(120.0),
            think: mean(900.0),
            wait_ns: 0.0,
            handover_ns: None,
            ran_together: true,
        };
        model::Parameters::observed(&lock, Range::exact(50.0)).unwrap()
    }

    fn forecast(threads: &[u32]) -> Forecast {
        let simulated =
            Simulated { locks: Vec::new(), runs: Vec::new(), seed: 1, seeds: 1, doubts: Vec::new() };
        Forecast {
            profiles: Vec::new(),
            lock: "TABLE".into(),
            machine: "typical".into(),
            description: String::new(),
            cores: 64,
            threads: threads.to_vec(),
            rows: vec![row(None, threads), row(Some("back-off then sleep"), threads)],
            explained_by_locks: None,
            advice: Vec::new(),
            parameters: parameters(),
            simulated,
            notes: Vec::new(),
            sliders: None,
            one_thread: 1.0,
            explained_at: None,
            profiled: vec![(16, 40), (13, 32)],
        }
    }

    /// What is left out may give more: a gain of 1.5 times (0.9 to 3) is not sure.
    #[test]
    fn where_nothing_is_advised_no_more_is_said_than_is_known() {
        assert_eq!(
            advice_lines(&[]),
            ["What to do: nothing that was tried surely gives a tenth more there."]
        );
    }

    #[test]
    fn the_lock_in_question_is_no_other_one_that_is_waited_for() {
        let mut forecast = Forecast { lock: "TABLE, 8 locks".into(), ..forecast(&[1, 2]) };
        forecast.profiled.clear();
        forecast.simulated.locks = ["TABLE#3", "LOG"].map(str::to_owned).to_vec();
        let mut said = |limited_by: &str| {
            forecast.simulated.runs = vec![Run {
                name: None,
                lock: "glibc-mutex".into(),
                points: Vec::new(),
                limited_by: Some(limited_by.into()),
                waiting: Vec::new(),
            }];
            forecast.sentences()
        };
        assert!(said("TABLE#3").is_empty());
        assert_eq!(said("LOG"), ["At the most threads the program waits most for LOG."]);
    }

    #[test]
    fn an_answer_fits_into_eighty_columns() {
        let forecast = forecast(&[1, 2, 4, 8, 16, 32, 64]);
        for screen in [Screen::FILE, Screen::wide(80)] {
            let shown = forecast.answer(screen);
            assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
            let heads: Vec<&str> = shown.lines().next().unwrap().split_whitespace().collect();
            assert!(heads.starts_with(&["threads", "1", "2"]) && heads.ends_with(&["64"]), "{heads:?}");
        }
        let wide = forecast.answer(Screen::wide(200));
        assert_eq!(wide.lines().next().unwrap().split_whitespace().count(), 7, "{wide}");
        // The most is done on numbers of threads that are no powers of two, of the lock that is advised first.
        let mut peaked = forecast.clone();
        peaked.threads = (1..=64).collect();
        for (row, peak) in peaked.rows.iter_mut().zip([5, 13]) {
            row.points = peaked.threads.iter().map(point).collect();
            row.points[peak - 1].value = 2.0;
        }
        let change = format!("lock={}", peaked.rows[1].name());
        let gain = Gain { change, instruction: String::new(), how: None, threads: 64, times: None };
        peaked.advice = vec![gain];
        assert_eq!(peaked.columns(6), [1, 2, 3, 5, 13, 64]);
        assert_eq!(peaked.columns(5), [1, 2, 3, 13, 64]);
        // No row has 13.
        let said = "16 is the profile of 40 threads, of which 16 ran or waited for a lock at a time.";
        assert_eq!(forecast.sentences(), [said]);
    }
}
