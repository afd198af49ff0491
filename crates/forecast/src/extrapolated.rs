//! Measured curves, on more cores.

use crate::{own_series, read_text};
use anyhow::{Context as _, bail, ensure};
use curve::{Curve, Point, Provenance, Series, Unit};
use model::extrapolate::{ExtrapolateError, Extrapolation, extrapolate};
use report::{Cell, Column, Screen, Spread, Table, text};
use session::usage::UsageError;
use std::collections::BTreeMap;
use std::path::Path;

/// A measured curve and how it goes on.
#[derive(Debug)]
pub struct Extrapolated {
    /// As it was measured.
    pub measured: Curve,
    /// How it goes on, and what each law says.
    pub answer: Extrapolation,
}

impl Extrapolated {
    /// Extrapolates to the doublings past the last measured cores, and to the last that are asked for; without those to four
    /// times the last measured ones.
    ///
    /// # Errors
    ///
    /// A curve without points, or with too few that are not 0; cores that are not ahead, which is an error of usage.
    pub fn new(measured: Curve, upto: Option<u32>) -> anyhow::Result<Self> {
        let last = measured.points().last().context("it has no points")?.cores;
        let upto = upto.unwrap_or_else(|| last.saturating_mul(4).min(model::MAX_CORES));
        // Quarters of a doubling: enough for the place of a peak.
        let step = |i: i32| (f64::from(last) * (f64::from(i) / 4.0).exp2()).round() as u32;
        let mut cores: Vec<u32> =
            (1..).map(step).take_while(|&cores| cores < upto).filter(|&cores| cores > last).collect();
        cores.push(upto);
        cores.dedup();
        let answer = extrapolate(&measured, &cores).map_err(|error| match error {
            ExtrapolateError::NotAhead { .. } => UsageError::new(error.to_string()).into(),
            error => anyhow::Error::new(error),
        })?;
        Ok(Self { measured, answer })
    }

    /// What the curve does in the end, in words.
    pub fn verdict(&self) -> String {
        let answer = &self.answer;
        let curve = &answer.curve;
        let (Some(peak), Some(end)) = (curve.peak(), curve.points().last().copied()) else {
            return String::new();
        };
        match curve.collapse_cores() {
            Some(cores) if cores <= answer.last_measured => {
                format!(
                    "It has collapsed: at {cores} cores it was under 90 % of its peak, which was at {}.",
                    peak.cores
                )
            }
            Some(cores) if end.high < curve::COLLAPSE_SHARE * peak.value => {
                format!("It collapses: under 90 % of its peak ({} cores) at {cores}.", peak.cores)
            }
            Some(cores) => format!(
                "It may collapse: under 90 % of its peak ({} cores) at {cores} by the mean of the laws, but the band holds both.",
                peak.cores
            ),
            None if end.low < curve::COLLAPSE_SHARE * peak.value => format!(
                "No collapse is seen to {} cores, but the band holds one: measure at {} before you rely on it.",
                end.cores,
                (answer.last_measured * 2).min(end.cores)
            ),
            None => format!("No collapse is seen to {} cores.", end.cores),
        }
    }

    /// The verdict, the points and the laws, for people.
    pub fn terminal(&self, screen: Screen) -> String {
        let Self { measured, answer } = self;
        let mut table = Table::new([
            Column::number("cores", "cores"),
            Column::spread("throughput", "throughput"),
            Column::text("from", "from"),
        ]);
        for point in answer.curve.points() {
            let from = if point.cores <= answer.last_measured {
                Provenance::Measured
            } else {
                Provenance::Predicted
            };
            table.row([
                Cell::from(point.cores),
                Cell::from(Spread::from(*point)),
                Cell::from(from.to_string()),
            ]);
        }
        let mut laws = Table::new([
            Column::text("law", "law"),
            Column::percent("weight", "weight %"),
            Column::percent("last_point_error", "last point off by %"),
            Column::number("value", "at the last core"),
        ]);
        for judged in &answer.laws {
            laws.row([
                Cell::from(judged.law.name()),
                Cell::from(judged.weight),
                Cell::from(judged.last_point_error.map(f64::exp_m1)),
                Cell::from(judged.value),
            ]);
        }
        format!(
            "{}\n\n{}\n{}",
            screen.fit(&format!("{}: {}", text::printable(&measured.label), self.verdict())),
            table.terminal(screen),
            laws.terminal(screen)
        )
    }

    /// Curves, laws and verdict.
    pub fn json(&self) -> serde_json::Value {
        let Self { measured, answer } = self;
        serde_json::json!({
            "measured": measured,
            "answer": answer.curve,
            "last_measured": answer.last_measured,
            "peak_cores": answer.curve.peak().map(|peak| peak.cores),
            "collapse_cores": answer.curve.collapse_cores(),
            "verdict": self.verdict(),
            "laws": answer.laws.iter().map(|judged| serde_json::json!({
                "law": judged.law.name(),
                "weight": judged.weight,
                "last_point_error": judged.last_point_error.map(f64::exp_m1),
                "value_at_last": judged.value,
            })).collect::<Vec<_>>(),
        })
    }
}

/// Curves of contend's own formats, or runs as rows of cores and throughput.
///
/// # Errors
///
/// A file that cannot be read, is neither, or holds no curve.
pub fn read(path: &Path) -> anyhow::Result<Series> {
    let text = read_text(path)?;
    if let Some(series) = own_series(&text) {
        let series = series.with_context(|| path.display().to_string())?;
        ensure!(
            !series.curves.is_empty(),
            "{} holds no curve: give rows of cores and throughput, such as `4,310`, or curves that contend wrote",
            path.display()
        );
        return Ok(series);
    }
    let label = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let curve = read_runs(&label, &text).with_context(|| path.display().to_string())?;
    Ok(Series { curves: vec![curve], ..Series::new(label) })
}

/// Rows of cores and throughput, one for each run; the first row may name the columns, and does if it begins with no number.
///
/// # Errors
///
/// Text that is no such rows, with the line; rows that make no curve.
pub fn read_runs(label: &str, text: &str) -> anyhow::Result<Curve> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let mut runs: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (index, record) in reader.records().enumerate() {
        let record = record?;
        let line = record.position().map_or(0, csv::Position::line);
        let (Some(cores), Some(value)) = (record.get(0), record.get(1)) else {
            bail!("line {line}: a row is cores and throughput, such as `4,310`");
        };
        match (cores.parse::<u32>(), value.parse::<f64>()) {
            (Ok(cores), Ok(value)) => {
                ensure!(cores > 0, "line {line}: cores are counted from 1");
                ensure!(
                    value.is_finite() && value >= 0.0,
                    "line {line}: throughput is a finite number, 0 or more"
                );
                runs.entry(cores).or_default().push(value);
            }
            _ if index == 0 && cores.parse::<f64>().is_err() => {} // names of the columns
            _ => bail!(
                "line {line}: `{},{}` is not cores and throughput, such as `4,310`",
                text::printable(cores),
                text::printable(value)
            ),
        }
    }
    ensure!(!runs.is_empty(), "there is no row of cores and throughput, such as `4,310`");
    let points = runs.iter().filter_map(|(&cores, runs)| Point::of_runs(cores, runs));
    Ok(Curve::new(label, Unit::OperationsPerSecond, Provenance::Measured).with_points(points)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::every_screen;

    fn error(text: &str) -> String {
        let curve = read_runs("c", text).and_then(|curve| Extrapolated::new(curve, None));
        format!("{:#}", curve.expect_err(text))
    }

    #[test]
    fn repeats_become_ranges_and_names_are_passed_over() {
        let curve = read_runs("c", "threads,ops\n# a comment\n2, 18\n1,10\n2,20\n2,19\n").unwrap();
        assert_eq!(
            curve.points(),
            [Point::exact(1, 10.0), Point { cores: 2, value: 19.0, low: 18.0, high: 20.0 }]
        );
    }

    #[test]
    fn a_point_of_zero_stays_in_the_answer() {
        let curve = read_runs("c", "1,100\n2,190\n4,0\n8,185\n").unwrap();
        let extrapolated = Extrapolated::new(curve, None).unwrap();
        assert_eq!(extrapolated.answer.curve.at(4), Some(Point::exact(4, 0.0)));
        assert!(
            extrapolated.verdict().starts_with("It has collapsed: at 4 cores"),
            "{}",
            extrapolated.verdict()
        );
    }

    #[test]
    fn bad_input_is_explained() {
        assert!(error("").contains("no row"));
        assert!(error("cores,throughput\n").contains("no row"));
        assert!(error("1,10\n2,fast\n").contains("line 2: `2,fast`"));
        assert!(error("1,100 ops\n2,190\n").contains("line 1: `1,100 ops`"), "not names of columns");
        assert!(error("1\n").contains("line 1"));
        assert!(error("0,1\n").contains("counted from 1"));
        assert!(error("1,NaN\n").contains("finite"));
        assert!(error("1,-4\n").contains("0 or more"));
        assert!(error("1,10\n").contains("two numbers of cores"));
        assert!(error("1,0\n2,0\n4,0\n").contains("0 of the curve's points"));
        assert!(error("1,10\n2,20\n4,40\n8,0\n").contains("0 at 8 cores"));
    }

    #[test]
    fn a_file_without_a_curve_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("mine.csv");
        for text in [r#"{"curves":[]}"#, "label,lock,workload,machine,provenance,unit,cores,value,low,high\n"]
        {
            std::fs::write(&file, text).unwrap();
            let message = format!("{:#}", read(&file).unwrap_err());
            assert!(message.contains(&format!("{} holds no curve", file.display())), "{message}");
        }
    }

    #[test]
    fn verdicts_say_what_the_curve_does() {
        let say = |text: &str, upto| {
            Extrapolated::new(read_runs("c", text).unwrap(), Some(upto)).unwrap().verdict()
        };
        assert!(say("1,10\n2,20\n4,40\n8,80\n", 16).starts_with("No collapse is seen"));
        assert!(say("1,10\n2,12\n4,6\n", 8).starts_with("It has collapsed: at 4 cores"));
        assert!(say("1,100\n2,180\n4,200\n8,190\n", 64).contains("collapse"));
    }

    #[test]
    fn cores_that_are_not_ahead_are_refused() {
        let curve = read_runs("c", "1,10\n8,40\n").unwrap();
        let error = Extrapolated::new(curve, Some(8)).unwrap_err();
        let message = format!("{error:#}");
        assert!(error.is::<UsageError>());
        assert!(message.contains("8 cores are not past the last measured point"), "{message}");
    }

    #[test]
    fn an_answer_on_every_screen() {
        let points =
            [(1, 100.0), (2, 190.0), (4, 310.0), (8, 330.0)].map(|(cores, value)| Point::exact(cores, value));
        let curve = Curve::new("requests of the server", Unit::OperationsPerSecond, Provenance::Measured);
        let curve = curve.with_points(points).unwrap();
        let extrapolated = Extrapolated::new(curve, Some(16)).unwrap();
        insta::assert_snapshot!(every_screen(&[], |screen| extrapolated.terminal(screen)));
    }
}
