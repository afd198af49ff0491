//! Series as JSON and as CSV.
//!
//! JSON is the whole [`Series`]. CSV has one row for each point, the curve's own columns repeated, so that any
//! tool can filter it; its title is lost. Both reject what they do not know, and say where.

use crate::{Curve, InvalidPoint, Point, Provenance, Series, Unit};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

/// Why a series could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Not the JSON of a series; the message holds line and column.
    #[error("not the JSON of a series of curves: {0}")]
    Json(#[from] serde_json::Error),
    /// Not the CSV of a series; the message holds the record's line.
    #[error("not the CSV of a series of curves (expected the columns {columns}): {0}", columns = COLUMNS.join(","))]
    Csv(#[from] csv::Error),
    /// The rows of a curve do not make one.
    #[error("the CSV rows of curve `{label}` do not make a curve: {source}")]
    Points {
        /// Label of the curve.
        label: String,
        /// What is wrong with its points.
        source: InvalidPoint,
    },
}

const COLUMNS: [&str; 10] =
    ["label", "lock", "workload", "machine", "provenance", "unit", "cores", "value", "low", "high"];

#[derive(Serialize, Deserialize)]
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
    fn new(curve: &Curve, point: Point) -> Self {
        Self {
            label: curve.label.clone(),
            lock: curve.lock.clone(),
            workload: curve.workload.clone(),
            machine: curve.machine.clone(),
            provenance: curve.provenance,
            unit: curve.unit,
            cores: point.cores,
            value: point.value,
            low: point.low,
            high: point.high,
        }
    }

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

/// Writes a series as indented JSON, with a final line end.
///
/// # Errors
///
/// Those of the writer.
pub fn write_json(series: &Series, mut to: impl Write) -> Result<(), FormatError> {
    serde_json::to_writer_pretty(&mut to, series)?;
    to.write_all(b"\n").map_err(serde_json::Error::io)?;
    Ok(())
}

/// Reads a series from JSON.
///
/// # Errors
///
/// Text that is not such JSON, with line and column; those of the reader.
pub fn read_json(from: impl Read) -> Result<Series, FormatError> {
    Ok(serde_json::from_reader(from)?)
}

/// Writes the curves of a series as CSV. A curve without points leaves no row.
///
/// # Errors
///
/// Those of the writer.
pub fn write_csv(series: &Series, to: impl Write) -> Result<(), FormatError> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).comment(Some(b'#')).from_writer(to);
    writer.write_record(COLUMNS)?;
    for curve in &series.curves {
        for &point in curve.points() {
            writer.serialize(CsvRow::new(curve, point))?;
        }
    }
    writer.flush().map_err(csv::Error::from)?;
    Ok(())
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
        let curve = curve.with_points(points).map_err(|source| FormatError::Points { label, source })?;
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
            let mut text = Vec::new();
            write_json(&series, &mut text).unwrap();
            prop_assert_eq!(read_json(&text[..]).unwrap(), series);
        }

        #[test]
        fn csv_gives_back_one_curve(curve in any_curve()) {
            let series = Series { curves: vec![curve], ..Series::new("t") };
            let mut text = Vec::new();
            write_csv(&series, &mut text).unwrap();
            prop_assert_eq!(read_csv("t", &text[..]).unwrap(), series);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = read_json(text.as_bytes());
            let _ = read_csv("t", text.as_bytes());
        }
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
