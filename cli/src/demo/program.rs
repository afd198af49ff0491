//! The program of the demo; [`forecast::demo_program`] has what its threads do.

use crate::arguments::{self, Span};
use forecast::demo_program::{self, Done, Shape};
use std::process::ExitCode;
use std::time::Duration;

/// Threads that update a table under a pthread reader-writer lock, or answer requests and note each under a pthread spin
/// lock, for `contend demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What they do
    #[arg(long, value_enum, default_value = "update")]
    work: Work,
    /// How many threads there are
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// For how long
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = arguments::duration)]
    duration: Duration,
    /// Think time between two operations, about: for each nanosecond one random number is drawn [default: 20ns between
    /// updates, 4us for a request]
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    think: Option<Span>,
    /// Counters of the four of an update that are each thread's own and changed outside of the lock: a shorter section
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=4))]
    own: u32,
    /// Tables with a lock each, of which an update takes any: a split lock
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(demo_program::MOST_PARTS)))]
    parts: u32,
}

/// What an operation of the program is.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Work {
    /// An update of the table
    Update,
    /// A request, noted in the journal
    Request,
}

/// Runs the program and prints what it did.
///
/// # Errors
///
/// When an operation was lost: the lock did not exclude.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (work, think, operations) = match args.work {
        Work::Update => (demo_program::Work::Update, 20, "updates"),
        Work::Request => (demo_program::Work::Request, 4_000, "requests"),
    };
    let think = args.think.map_or(think, |span| span.ns(1.0));
    let shape = Shape { work, think, own: args.own as usize, parts: args.parts };
    let Done { operations: done, elapsed_s } = demo_program::run(args.threads, args.duration, shape)?;
    println!("{operations}: {done}");
    println!("throughput: {:.0} {operations}/s", done as f64 / elapsed_s);
    Ok(ExitCode::SUCCESS)
}
