//! The program of the demo; [`forecast::table`] has what its threads do.

use crate::arguments::{self, Span};
use forecast::table::{self, Shape, Updated};
use std::process::ExitCode;
use std::time::Duration;

/// Threads that update one table under one pthread reader-writer lock, for `contend demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many threads update the table
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// For how long
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = arguments::duration)]
    duration: Duration,
    /// Think time between two updates, about: for each nanosecond one random number is drawn
    #[arg(long, value_name = "SPAN", default_value = "20ns", value_parser = Span::parse)]
    think: Span,
    /// Counters of the four of an update that are each thread's own and changed outside of the lock: a shorter section
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=4))]
    own: u32,
    /// Tables with a lock each, of which an update takes any: a split lock
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(table::MOST_PARTS)))]
    parts: u32,
}

/// Runs the program and prints what it did.
///
/// # Errors
///
/// When an update was lost: the lock did not exclude.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let shape = Shape { think: args.think.ns(1.0), own: args.own as usize, parts: args.parts };
    let Updated { updates, elapsed_s } = table::run(args.threads, args.duration, shape)?;
    println!("updates: {updates}");
    println!("throughput: {:.0} updates/s", updates as f64 / elapsed_s);
    Ok(ExitCode::SUCCESS)
}
