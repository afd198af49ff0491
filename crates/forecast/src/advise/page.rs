//! The answer as pictures and as a page.

use super::Advice;
use super::answer::{Checked, Finding};
use crate::AS_IT_IS;
use curve::{Curve, Point, Provenance, Unit};
use report::page::Page;
use report::{Better, Cell, Column, Plot, RangePlot, Spread, Table};

/// Locks that are drawn beside the program's own.
const DRAWN: usize = 3;

impl Advice {
    /// Curves of the first lock: measured as far as that goes, then forecast.
    ///
    /// # Errors
    ///
    /// None is known: the curves are all relative to one thread.
    pub fn plot(&self) -> anyhow::Result<Option<Plot>> {
        let Some(finding) = self.findings.first() else { return Ok(None) };
        let mut curves = Vec::new();
        for row in finding.rows.iter().filter(|row| !row.measured.is_empty()).take(1 + DRAWN) {
            let name = row.lock.as_deref().unwrap_or(AS_IT_IS);
            let curve = |provenance, points: Vec<Point>| {
                Curve::new(name, Unit::Speedup, provenance).lock(name).with_points(points)
            };
            curves.push(curve(Provenance::Measured, row.measured.clone())?);
            // Threads that share cores here do not on the target: the forecast goes on from those with a core each.
            let own_core = row.measured.iter().rfind(|point| point.cores <= self.measured.cores);
            let last = own_core.or(row.measured.last()).copied();
            let beyond = row
                .forecast
                .iter()
                .copied()
                .filter(|point| last.is_some_and(|last| point.cores > last.cores));
            let points: Vec<Point> = last.into_iter().chain(beyond).collect();
            if points.len() > 1 {
                curves.push(curve(Provenance::Predicted, points)?);
            }
        }
        let title =
            format!("{} in {}, on {}", finding.suspect.name, self.measured.command.join(" "), self.target);
        // The program as it is comes first. What becomes of a curve is said by its verdict, with how likely that is.
        Ok(Some(Plot::new(title, &curves)?.axis("threads").bold_first()))
    }

    /// What was predicted from one thread's profile, beside what was measured; none where nothing was.
    #[must_use]
    pub fn contrast(&self) -> Option<RangePlot> {
        let checked = self.findings.first().map(|finding| &finding.checked).filter(|all| !all.is_empty())?;
        let title =
            format!("Predicted from one thread's profile, and measured, on {} threads", checked[0].threads);
        let mut plot = RangePlot::new(title, "times the work of one thread", Better::Higher);
        for one in checked {
            let name = one.lock.as_deref().unwrap_or(AS_IT_IS);
            plot.row(format!("{name}, predicted"), Some(Spread::from(one.predicted)));
            plot.row(format!("{name}, measured"), Some(Spread::from(one.measured)));
        }
        Some(plot)
    }

    /// Answer, curves, tables and remarks for a browser.
    ///
    /// # Errors
    ///
    /// As [`Advice::plot`].
    pub fn page(&self) -> anyhow::Result<Page> {
        let mut page = Page::new(&format!("Advice for {}", self.measured.command.join(" ")));
        for what in self.disturbed.iter().filter(|_| self.void.is_none()) {
            page = page.warning(what);
        }
        page = page.paragraphs(&self.in_prose());
        if self.void.is_some() {
            return Ok(page);
        }
        if let Some(plot) = self.plot()? {
            page = page.plot(&plot);
        }
        if let Some(contrast) = self.contrast() {
            page = page
                .heading("Predicted and measured")
                .ranges(&contrast)
                .paragraphs(&self.contrast_in_words());
        }
        for finding in &self.findings {
            page = page.heading(&finding.suspect.name).table(&finding.whole_table());
        }
        Ok(page)
    }

    /// Where prediction and measurement part, in so many words; that they do not, otherwise.
    #[must_use]
    pub fn contrast_in_words(&self) -> String {
        let checked = self.findings.first().map_or(&[][..], |finding| &finding.checked);
        let wrong: Vec<String> = checked
            .iter()
            .filter(|one| one.is_wrong())
            .map(|one| {
                let name = one.lock.as_ref().map_or("the program as it is".to_owned(), |lock| format!("`{lock}`"));
                format!(
                    "for {name} on {} threads it said {:.2} times the work of one ({:.2} to {:.2}), and {:.2} was measured",
                    one.threads, one.predicted.value, one.predicted.low, one.predicted.high, one.measured.value
                )
            })
            .collect();
        match (checked.is_empty(), wrong.is_empty()) {
            (true, _) => String::new(),
            (false, true) if checked.iter().all(Checked::is_held) => {
                "Each measurement lies in the range that was predicted for it beforehand.".into()
            }
            (false, true) => "Each measurement agrees with what was predicted for it beforehand, within the ranges of both.".into(),
            (false, false) => format!("The prediction was wrong: {}.", wrong.join("; ")),
        }
    }
}

impl Finding {
    /// Every lock that was tried, on every number of threads.
    fn whole_table(&self) -> Table {
        let mut table = Table::new([
            Column::text("lock", "lock"),
            Column::number("threads", "threads"),
            Column::spread("times", "times the work as it is on the fewest threads"),
            Column::text("source", "source"),
            Column::spread("gain", "times as it is"),
            Column::text("is", "which is"),
            Column::text("verdict", "verdict"),
        ]);
        for row in &self.rows {
            let measured = row.measured.iter().map(|point| (point, "measured"));
            let forecast = row.forecast.iter().map(|point| (point, "forecast"));
            for (number, (point, source)) in measured.chain(forecast).enumerate() {
                let is_unstable = source == "forecast" && row.unstable.contains(&point.cores);
                let source = if is_unstable { "forecast, unstable" } else { source };
                let first = |cell: Cell| if number == 0 { cell } else { Cell::Missing };
                table.row([
                    row.lock.as_deref().unwrap_or(AS_IT_IS).into(),
                    point.cores.into(),
                    Spread::from(*point).into(),
                    source.into(),
                    first(row.gain.into()),
                    first(row.failure.as_deref().or(row.is).into()),
                    first(row.verdict.as_deref().into()),
                ]);
            }
        }
        table
    }
}
