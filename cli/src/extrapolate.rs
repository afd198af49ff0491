//! `contend extrapolate`: measured curves, on more cores.

use crate::output::{self, print_json};
use anyhow::Context as _;
use curve::Curve;
use forecast::extrapolated::{Extrapolated, read};
use report::{Plot, Screen, text};
use std::path::PathBuf;
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
    let mut all = Vec::new();
    for file in &args.files {
        for curve in read(file)?.curves {
            let named = format!("{}: curve `{}`", file.display(), text::printable(&curve.label));
            all.push(Extrapolated::new(curve, args.upto).context(named)?);
        }
    }
    if let Some(file) = &args.svg {
        let both = |one: &Extrapolated| [one.measured.clone(), one.answer.curve.clone()];
        let curves: Vec<Curve> = all.iter().flat_map(both).collect();
        let plot = Plot::new("Measured curves, extrapolated", &curves)?;
        output::file(file)?.write(plot.svg())?;
    }
    if args.json {
        let all: Vec<_> = all.iter().map(Extrapolated::json).collect();
        print_json(&all)?;
    } else {
        for one in &all {
            println!("{}", one.terminal(Screen::stdout()));
        }
    }
    Ok(ExitCode::SUCCESS)
}
