//! Series from JSON and from CSV.
//!
//! JSON is what commands print that draw curves. CSV has one row for each point, the curve's own columns repeated, so that any
//! tool can filter it.

use crate::{Curve, InvalidPoint, Point, Provenance, Series, Unit};
use serde::Deserialize;
use std::io::Read;

/// Why a series could not be read. The messages have what is behind them, which is no source: it would be told twice.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Not the JSON of a series; the message holds line and column.
    #[error("not the JSON of a series of curves: {0}")]
    Json(serde_json::Error),
    /// Not the CSV of a series; the message holds the record's line.
    #[error("not the CSV of a series of curves (expected the columns {columns}): {0}", columns = COLUMNS.join(","))]
    Csv(csv::Error),
    /// The rows of a curve do not make one.
    #[error("the CSV rows of curve `{label}` do not make a curve: {error}")]
    Points {
        /// Label of the curve.
        label: String,
        /// What is wrong with its points.
        error: InvalidPoint,
    },
}

impl From<serde_json::Error> for FormatError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl From<csv::Error> for FormatError {
    fn from(error: csv::Error) -> Self {
        Self::Csv(error)
    }
}

const COLUMNS: [&str; 10] =
    ["label", "lock", "workload", "machine", "provenance", "unit", "cores", "value", "low", "high"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CsvRow {
    label: String,
    lock: String,
    workload: String,
    machine: String,
    provenance: Provenance,
    unit: Unit,
    cores: u32,
    value: f64,
    low: f64,
    high: f64,
}

impl CsvRow {
    fn point(&self) -> Point {
        Point { cores: self.cores, value: self.value, low: self.low, high: self.high }
    }

    /// The curve that this row belongs to, without points.
    fn curve(self) -> Curve {
        Curve::new(self.label, self.unit, self.provenance)
            .lock(self.lock)
            .workload(self.workload)
            .machine(self.machine)
    }
}

/// Reads a series from JSON: an object with `curves`, and whatever a command prints beside them.
///
/// # Errors
///
/// Text that is not such JSON, with line and column; those of the reader.
pub fn read_json(from: impl Read) -> Result<Series, FormatError> {
    #[derive(Deserialize)]
    struct Printed {
        #[serde(default)]
        title: String,
        #[serde(default)]
        axis: Option<String>,
        curves: Vec<Curve>,
    }
    let Printed { title, axis, curves } = serde_json::from_reader(from)?;
    Ok(Series { title, axis, curves })
}

/// Reads curves from CSV; `#` starts a comment line. Rows that agree in everything but the point are one curve,
/// wherever they stand. The series is called `title`.
///
/// # Errors
///
/// Text that is not such CSV, with the line; rows that do not make a curve; those of the reader.
pub fn read_csv(title: impl Into<String>, from: impl Read) -> Result<Series, FormatError> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(from);
    let mut grouped: Vec<(Curve, Vec<Point>)> = Vec::new();
    for row in reader.deserialize() {
        let row: CsvRow = row?;
        let point = row.point();
        let curve = row.curve();
        match grouped.iter_mut().find(|(known, _)| *known == curve) {
            Some((_, points)) => points.push(point),
            None => grouped.push((curve, vec![point])),
        }
    }
    let mut series = Series::new(title);
    for (curve, points) in grouped {
        let label = curve.label.clone();
        let curve = curve.with_points(points).map_err(|error| FormatError::Points { label, error })?;
        series.curves.push(curve);
    }
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_curve()(
            label in "#?.*", lock in "[a-z<&\"',\n]*", workload in ".{0,8}", machine in ".{0,8}",
            values in prop::collection::btree_map(1u32.., (0.0f64..1e300, 0.0f64..=1.0), 1..6),
        ) -> Curve {
            let points = values.into_iter().map(|(cores, (high, share))| {
                Point { cores, low: high * share * share, value: high * share, high }
            });
            Curve::new(label, Unit::OperationsPerSecond, Provenance::Simulated)
                .lock(lock).workload(workload).machine(machine)
                .with_points(points).unwrap()
        }
    }

    proptest! {
        #[test]
        fn json_gives_back_what_was_written(title in ".*", curves in prop::collection::vec(any_curve(), 0..4)) {
            let series = Series { curves, ..Series::new(title) };
            let mut printed = serde_json::to_value(&series).unwrap();
            printed["machine"] = "what a command says beside the curves".into();
            prop_assert_eq!(read_json(printed.to_string().as_bytes()).unwrap(), series);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = read_json(text.as_bytes());
            let _ = read_csv("t", text.as_bytes());
        }
    }

    #[test]
    fn rows_of_a_curve_are_one_curve() {
        let text = "label,lock,workload,machine,provenance,unit,cores,value,low,high\n\
                    # two curves, in turn\n\
                    a,mcs,w,m,measured,speedup,2,1.5,1,2\n\
                    \"b,\",,,,simulated,operations_per_second,1,3,3,3\n\
                    a,mcs,w,m,measured,speedup,1,1,1,1\n";
        let series = read_csv("t", text.as_bytes()).unwrap();
        let told: Vec<_> =
            series.curves.iter().map(|curve| (curve.label.as_str(), curve.points().len())).collect();
        assert_eq!(told, [("a", 2), ("b,", 1)]);
        assert_eq!(series.curves[0].points()[0].cores, 1, "in order");
    }

    #[test]
    fn a_bad_row_is_named() {
        let text = "label,lock,workload,machine,provenance,unit,cores,value,low,high\n\
                    a,,,,measured,speedup,1,1,1,1\n\
                    a,,,,guessed,speedup,2,1,1,1\n";
        let error = read_csv("t", text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("line: 3") && error.contains("guessed"), "{error}");

        let text = text.replace("guessed", "measured").replace(",2,1,1,1", ",2,9,1,1");
        let error = read_csv("t", text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("curve `a`") && error.contains("2 cores"), "{error}");
    }

    #[test]
    fn json_with_a_point_outside_its_range_is_refused() {
        let text = r#"{"title":"t","curves":[{"label":"a","provenance":"measured","unit":"speedup",
            "points":[{"cores":1,"value":5.0,"low":1.0,"high":2.0}]}]}"#;
        let error = read_json(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("1 cores") && error.contains("line 2"), "{error}");
    }
}
