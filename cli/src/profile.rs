//! `contend profile`: run a program, record its locks, print the lock table.

use crate::PRELOAD;
use crate::arguments::{duration_between, operations, size_between};
use crate::recording::{self, Destination};
use crate::report::no_forecast;
use launch::always_on::AlwaysOn;
use launch::record::{KernelScope, Record, Recorded};
use launch::supervise::{exit_code, fail_writes_past_the_limit};
use profile::Options;
use profile::session::{DEFAULT_LIMIT, LEAST_LIMIT};
use regex_lite::Regex;
use report::{Screen, lock_table, longest_waits};
use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// What all the profiles of --always-on have together, bytes.
const SPACE_OF_ALL: u64 = 64 << 20;

/// What each of them tells of.
const INTERVAL: Duration = Duration::from_secs(600);

/// Run an unmodified program and record its locks.
///
/// The program's lock calls are counted, all of them, and timed: every pair of acquire and release, or some at random
/// (--sample). Its locks stay the C library's. Processes that it starts are recorded too, each in a section of its
/// own. The profile can be read while the program runs, and after it was killed. With --kernel waits for the kernel's own
/// locks are recorded beside them.
///
/// Exits as the program does; with 1 if the program succeeded and the disk had no space for all of its profile.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend profile -- ./server --threads 4
  contend profile -o p.contend --ops-regex 'events: (\\d+)' -- sysbench mutex run
  contend profile -o p.contend --sample 1/64 -- ./hot-loop     # costs less than half as much
  contend profile --kernel -- ./server --threads 4             # as root: which locks of the kernel it waits for
  contend profile --timeline -- ./server                       # then: contend report p.contend --timeline waits.json
  contend profile --always-on -- ./server                      # then: contend report p-20261127T*.contend
  contend predict p.contend                                    # what it will do on more cores")]
pub(crate) struct Args {
    #[command(flatten)]
    destination: Destination,

    /// Operations that the program does, so that figures are for one of them
    #[arg(long, value_name = "N", conflicts_with = "ops_regex", value_parser = operations)]
    ops: Option<u64>,

    /// Take the operations from the program's output: the number in the first group of the last match
    #[arg(long, value_name = "REGEX", value_parser = regex_with_a_group)]
    ops_regex: Option<Regex>,

    /// Time this part of the pairs, chosen at random: `1`, `1/16`, `0.01`; counts are always exact [default: 1, with --always-on
    /// what recording has time for]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    sample: Option<u32>,

    /// The profile may grow to so much; past that the locks used least share one row. With --always-on all profiles together
    /// may [default: 256M, with --always-on 64M]
    #[arg(long, value_name = "SIZE", value_parser = size_between("1M", "1024G"))]
    size_limit: Option<u64>,

    /// Record a program that runs on, such as a server in use: as many pairs are timed as 1 % of its time on cores allows, and what
    /// happens in each interval is a profile of its own beside the whole one, such as p-20261127T164000Z.contend. The oldest make
    /// room for the newest; several are added up by `contend report FILE FILE …`
    #[arg(long, conflicts_with_all = ["kernel", "timeline"])]
    always_on: bool,

    /// What each profile of --always-on tells of [default: 10m]
    #[arg(long, value_name = "DURATION", requires = "always_on", value_parser = duration_between("1s", "720h"))]
    interval: Option<Duration>,

    /// Record waits for the kernel's locks too: those of the program and of all that it starts. Needs Linux 5.19, tracefs, and
    /// root or CAP_PERFMON; without them the program's own locks are recorded all the same
    #[arg(long)]
    kernel: bool,

    /// With --kernel: count the waits of all processes on the machine
    #[arg(short, long, requires = "kernel")]
    all_processes: bool,

    /// Keep the longest waits of each process one by one, up to 4096, with the stack of who waited and the hold that it was for:
    /// `contend report --timeline FILE` draws them
    #[arg(long)]
    timeline: bool,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn regex_with_a_group(text: &str) -> Result<Regex, String> {
    let regex = Regex::new(text).map_err(|error| error.to_string())?;
    // The whole match counts as a group.
    match regex.captures_len() {
        2.. => Ok(regex),
        _ => Err(format!("put the number of operations into a group, such as in `{text} ([0-9]+)`")),
    }
}

/// A rate as the number of pairs of which one is timed.
fn parse_rate(text: &str) -> Result<u32, String> {
    let refusal = || format!("`{text}` is no rate: give a part of all pairs, such as 1, 1/16 or 0.01");
    let part = match text.split_once('/') {
        Some((above, below)) => {
            let number = |text: &str| text.trim().parse::<f64>().map_err(|_| refusal());
            number(above)? / number(below)?
        }
        None => text.parse().map_err(|_| refusal())?,
    };
    let period = (1.0 / part).round();
    if part > 0.0 && part <= 1.0 && period <= f64::from(1u32 << 30) {
        Ok(period as u32)
    } else {
        Err(refusal())
    }
}

/// Runs `contend profile`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    fail_writes_past_the_limit();
    let all = args.size_limit.unwrap_or(if args.always_on { SPACE_OF_ALL } else { DEFAULT_LIMIT });
    let size_limit = if args.always_on { (all / 4).max(LEAST_LIMIT) } else { all };
    let always_on = args.always_on.then(|| AlwaysOn {
        interval: args.interval.unwrap_or(INTERVAL),
        space: all.saturating_sub(size_limit),
        finds_rate: args.sample.is_none(),
    });
    let record = Record {
        library: PRELOAD,
        command: &args.command,
        output: args.destination.output.as_deref(),
        overwrite: args.destination.overwrite(),
        size_limit,
        sample_period: args.sample.unwrap_or(if args.always_on { AlwaysOn::AT_FIRST } else { 1 }),
        operations: args.ops,
        operations_regex: args.ops_regex.as_ref(),
        kernel: args.kernel.then_some(if args.all_processes {
            KernelScope::Machine
        } else {
            KernelScope::Program
        }),
        timeline: args.timeline,
        always_on,
    };
    let Recorded { recording, status, used, complete, remarks } = record.run()?;
    let screen = Screen::stderr();
    let mut text = recording::remarks(&remarks, screen);
    if used && !args.destination.quiet {
        let profile = recording.read()?;
        let table = profile.table(&Options::default());
        let no_forecast = no_forecast(&table, screen);
        text += &lock_table::text(&table, 20, screen);
        if profile.keeps_waits() {
            text += &longest_waits::text(&profile.timeline(&table, true), screen);
        }
        text += &no_forecast;
        // A forecast needs critical sections, of which waits in futexes alone do not tell.
        let further = match (table.header.attached, no_forecast.is_empty()) {
            (Some(_), _) => ", contend diff",
            (None, true) => ", contend predict",
            (None, false) => "",
        };
        let drawn = if args.timeline { " --timeline FILE" } else { "" };
        text += &format!(
            "\nThe profile is in {} (contend report{drawn}{further}).\n",
            args.destination.place(&recording)
        );
    }
    // Standard error may have no reader; the program's end is passed on all the same.
    let _ = std::io::stderr().write_all(text.as_bytes());
    Ok(if status.success() && !complete { ExitCode::FAILURE } else { exit_code(status) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parts_of_all_pairs() {
        assert_eq!(["1", "1/16", "0.01", "1.0"].map(|text| parse_rate(text).unwrap()), [1, 16, 100, 1]);
        for text in ["0", "2", "-1", "1/0", "x", "", "1/x", "1e-30", "NaN", "inf"] {
            let refusal = parse_rate(text).unwrap_err();
            assert!(refusal.contains(text) && refusal.contains("1/16"), "{refusal}");
        }
    }

    #[test]
    fn operations_need_a_group() {
        assert!(regex_with_a_group("updates: ([0-9]+)").is_ok());
        assert!(regex_with_a_group("updates: [0-9]+").unwrap_err().contains("group"));
        assert!(regex_with_a_group("updates: (").is_err());
    }
}
