//! `contend extrapolate`: curves that somebody has measured, on more cores.

use crate::predict::read_series;
use anyhow::{Context as _, bail, ensure};
use curve::{Curve, Point, Provenance, Series, Unit};
use model::extrapolate::{Extrapolation, extrapolate};
use report::{Cell, Column, Plot, Screen, Spread, Table, text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Say how a measured curve goes on with more cores.
///
/// FILE holds what you measured: CSV with a row for each run, cores first and throughput second (higher is better; repeats
/// are welcome), or curves that contend wrote, as CSV or JSON. The answer is a mean of three laws (universal scalability,
/// n log n, and the slope between the last two points), which was closer than any of them alone on the thousand curves of
/// `contend reproduce lock-study`. The band is meant to hold the truth four times in five; with three points, one
/// doubling ahead, that means half to 1.2 times the value.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  printf 'cores,throughput\\n1,100\\n2,190\\n4,310\\n' > mine.csv
  contend extrapolate mine.csv                       # to 4 times as many cores
  contend extrapolate mine.csv --upto 64 --svg mine.svg
  contend extrapolate before.csv after.csv --json | jq '.[].collapse_cores'")]
pub(crate) struct Args {
    /// Measured curves: CSV of cores and throughput, or contend's own CSV or JSON
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The most cores to answer for [default: 4 times the last measured]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=i64::from(model::MAX_CORES)))]
    upto: Option<u32>,
    /// Print curves, laws and verdicts as JSON
    #[arg(long)]
    json: bool,
    /// Also draw the curves into this file as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Runs `contend extrapolate`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut answers = Vec::new();
    for file in &args.files {
        for curve in read(file)?.curves {
            let answer = answer(&curve, args.upto)
                .with_context(|| format!("{}: curve `{}`", file.display(), text::printable(&curve.label)))?;
            answers.push((curve, answer));
        }
    }
    let plot = || {
        let curves: Vec<Curve> =
            answers.iter().flat_map(|(measured, answer)| [measured.clone(), answer.curve.clone()]).collect();
        Plot::new("Measured curves, extrapolated", &curves)
    };
    if let Some(file) = &args.svg {
        std::fs::write(file, plot()?.svg()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if args.json {
        let all: Vec<_> = answers.iter().map(|(measured, answer)| json(measured, answer)).collect();
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        for (measured, answer) in &answers {
            println!("{}", terminal(measured, answer, Screen::stdout()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The cores that an answer is given for: the doublings past the last measured ones, and the last asked for.
fn answer(curve: &Curve, upto: Option<u32>) -> anyhow::Result<Extrapolation> {
    let last = curve.points().last().context("it has no points")?.cores;
    let upto = upto.unwrap_or_else(|| last.saturating_mul(4).min(model::MAX_CORES));
    // Quarters of a doubling: enough for the place of a peak.
    let step = |i: i32| (f64::from(last) * (f64::from(i) / 4.0).exp2()).round() as u32;
    let mut cores: Vec<u32> =
        (1..).map(step).take_while(|&cores| cores < upto).filter(|&cores| cores > last).collect();
    cores.push(upto);
    cores.dedup();
    Ok(extrapolate(curve, &cores)?)
}

/// What the curve does in the end, in words.
fn verdict(answer: &Extrapolation) -> String {
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

fn terminal(measured: &Curve, answer: &Extrapolation, screen: Screen) -> String {
    let mut table = Table::new([
        Column::number("cores", "cores"),
        Column::spread("throughput", "throughput"),
        Column::text("from", "from"),
    ]);
    for point in answer.curve.points() {
        let from =
            if point.cores <= answer.last_measured { Provenance::Measured } else { Provenance::Predicted };
        table.row([
            Cell::from(point.cores),
            Cell::from(Spread { low: point.low, median: point.value, high: point.high }),
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
            Cell::from(judged.last_point_error.map(|error| error.exp() - 1.0)),
            Cell::from(judged.value),
        ]);
    }
    format!(
        "{}\n\n{}\n{}",
        screen.fit(&format!("{}: {}", text::printable(&measured.label), verdict(answer))),
        table.terminal(screen),
        laws.terminal(screen)
    )
}

fn json(measured: &Curve, answer: &Extrapolation) -> serde_json::Value {
    serde_json::json!({
        "measured": measured,
        "answer": answer.curve,
        "last_measured": answer.last_measured,
        "peak_cores": answer.curve.peak().map(|peak| peak.cores),
        "collapse_cores": answer.curve.collapse_cores(),
        "verdict": verdict(answer),
        "laws": answer.laws.iter().map(|judged| serde_json::json!({
            "law": judged.law.name(),
            "weight": judged.weight,
            "last_point_error": judged.last_point_error,
            "value_at_last": judged.value,
        })).collect::<Vec<_>>(),
    })
}

/// Curves of contend's own formats, or runs as rows of cores and throughput.
fn read(path: &Path) -> anyhow::Result<Series> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let own = text.trim_start().starts_with('{') || text.lines().any(|line| line.starts_with("label,"));
    if own {
        return read_series(path);
    }
    let label = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let curve = read_runs(&label, &text).with_context(|| path.display().to_string())?;
    Ok(Series { title: label, curves: vec![curve] })
}

/// Rows of cores and throughput, one for each run; the first row may name the columns.
fn read_runs(label: &str, text: &str) -> anyhow::Result<Curve> {
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
            _ if index == 0 => {} // names of the columns
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
        let curve = read_runs("c", text).and_then(|curve| answer(&curve, None));
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
    fn bad_input_is_explained() {
        assert!(error("").contains("no row"));
        assert!(error("cores,throughput\n").contains("no row"));
        assert!(error("1,10\n2,fast\n").contains("line 2: `2,fast`"));
        assert!(error("1\n").contains("line 1"));
        assert!(error("0,1\n").contains("counted from 1"));
        assert!(error("1,NaN\n").contains("finite"));
        assert!(error("1,-4\n").contains("0 or more"));
        assert!(error("1,10\n").contains("two numbers of cores"));
        assert!(error("1,0\n2,0\n4,0\n").contains("0 of the curve's points"));
    }

    #[test]
    fn verdicts_say_what_the_curve_does() {
        let say = |text: &str, upto| verdict(&answer(&read_runs("c", text).unwrap(), Some(upto)).unwrap());
        assert!(say("1,10\n2,20\n4,40\n8,80\n", 16).starts_with("No collapse is seen"));
        assert!(say("1,10\n2,12\n4,6\n", 8).starts_with("It has collapsed: at 4 cores"));
        assert!(say("1,100\n2,180\n4,200\n8,190\n", 64).contains("collapse"));
    }

    #[test]
    fn cores_that_are_not_ahead_are_refused() {
        let curve = read_runs("c", "1,10\n8,40\n").unwrap();
        let message = format!("{:#}", answer(&curve, Some(8)).unwrap_err());
        assert!(message.contains("8 cores are not past the last measured point"), "{message}");
    }

    #[test]
    fn an_answer_on_every_screen() {
        let points =
            [(1, 100.0), (2, 190.0), (4, 310.0), (8, 330.0)].map(|(cores, value)| Point::exact(cores, value));
        let curve = Curve::new("requests of the server", Unit::OperationsPerSecond, Provenance::Measured);
        let curve = curve.with_points(points).unwrap();
        let answer = answer(&curve, Some(16)).unwrap();
        insta::assert_snapshot!(every_screen(&[], |screen| terminal(&curve, &answer, screen)));
    }
}
