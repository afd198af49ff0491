//! The program of the demo; [`forecast::demo_program`] has what its threads do.

use crate::arguments::{self, Span};
use forecast::demo_program::{self, Done, Shape};
use std::process::ExitCode;
use std::time::Duration;

/// Threads that look into a table under a pthread reader-writer lock and now and then change it, or answer requests and note
/// each under a pthread spin lock, for `contend demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What they do
    #[arg(long, value_enum, default_value = "lookup")]
    work: Work,
    /// How many threads there are
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// For how long
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = arguments::duration)]
    duration: Duration,
    /// Think time between two operations, about: for each nanosecond one random number is drawn [default: 100ns
    /// between lookups, 6us for a request]
    #[arg(long, value_name = "SPAN", value_parser = Span::parse)]
    think: Option<Span>,
    /// Steps of the hundred of a lookup that are done outside of the lock: a shorter section
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=demo_program::STEPS))]
    own: u64,
    /// Tables with a lock each, of which a lookup takes any: a split lock
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(demo_program::MOST_PARTS)))]
    parts: u32,
}

/// What an operation of the program is.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Work {
    /// A look into the table, or a change of it
    Lookup,
    /// A request, noted in the journal
    Request,
}

/// Runs the program and prints what it did.
///
/// # Errors
///
/// When a change was lost: the lock did not exclude.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (work, think, operations) = match args.work {
        Work::Lookup => (demo_program::Work::Lookup, 100, "lookups"),
        Work::Request => (demo_program::Work::Request, 6_000, "requests"),
    };
    let think = args.think.map_or(think, |span| span.ns(1.0));
    let shape = Shape { work, think, own: args.own, parts: args.parts };
    let Done { operations: done, elapsed_s } = demo_program::run(args.threads, args.duration, shape)?;
    println!("{operations}: {done}");
    println!("throughput: {:.0} {operations}/s", done as f64 / elapsed_s);
    Ok(ExitCode::SUCCESS)
}
