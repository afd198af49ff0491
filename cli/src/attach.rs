//! `contend attach`: the waits of a program that runs already, as a profile.

use crate::arguments::{duration_between, process, size_between};
use crate::interrupt;
use crate::output::tell;
use crate::recording::{self, Destination};
use launch::attach::{Attach, Attached, End};
use profile::Options;
use report::{Screen, lock_table};
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// Record what the threads of a running program wait for.
///
/// Nothing changes in the program, and nothing stays behind. Seen are waits that sleep in the kernel (futex): for mutexes,
/// reader-writer locks, condition variables, semaphores and other threads, with their times, their callers, and the thread
/// that held the lock meanwhile. Not seen are acquisitions without contention, spinning before the sleep, locks that never
/// sleep, and how long a lock was held: for these, and for predictions, start the program with `contend profile`.
///
/// Threads that it starts meanwhile are followed; processes that it starts are left out. Attaching ends with the program, when it
/// begins another one by exec, after the time of --for, or by Ctrl-C; the profile is written in each case.
///
/// Needs root, or CAP_PERFMON, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, and tracefs. While it is attached, each of the program's waits takes a little
/// longer, and so does every system call of the machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend attach 4711                                  # until the program ends, or Ctrl-C
  contend attach 4711 --for 10s -o p.contend           # ten seconds
  contend attach $(pgrep -o mysqld) --for 10s          # by the name of the program
  contend report p.contend --html locks.html           # what it waited for, with callers
  contend diff before.contend after.contend            # two of them")]
pub(crate) struct Args {
    /// The process
    #[arg(value_name = "PID", value_parser = process)]
    pid: u32,

    /// End after this time [default: with the program]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration_between("100ms", "1000h"))]
    duration: Option<Duration>,

    #[command(flatten)]
    destination: Destination,

    /// The profile may grow to so much; what finds no space is counted as missing
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size_between("1M", "1024G"))]
    size_limit: u64,
}

/// Runs `contend attach`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    interrupt::keep();
    let attach = Attach {
        pid: args.pid,
        duration: args.duration,
        output: args.destination.output.as_deref(),
        overwrite: args.destination.overwrite(),
        size_limit: args.size_limit,
    };
    let Attached { recording, end, remarks } = attach.run(|begun| {
        if !args.destination.quiet {
            tell(begun);
        }
    })?;
    let screen = Screen::stderr();
    let mut text = recording::remarks(&remarks, screen);
    if !args.destination.quiet {
        text += &lock_table::text(&recording.read()?.table(&Options::default()), 20, screen);
        let state = match end {
            End::Detached => format!("Process {} runs on. ", args.pid),
            End::Ended => format!("Process {} has ended. ", args.pid),
            End::Replaced => String::new(),
        };
        text += &format!(
            "\n{state}The profile is in {} (contend report, contend diff).\n",
            args.destination.place(&recording)
        );
    }
    // Standard error may have no reader.
    let _ = std::io::stderr().write_all(text.as_bytes());
    Ok(if recording.growth_error().is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
