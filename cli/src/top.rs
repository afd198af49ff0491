//! `contend top`: the locks of a program while it runs.

mod batch;
mod end;
mod exposition;
mod history;
mod http;
mod screen;
mod sort;
mod terminal;
mod view;

use crate::arguments::{duration_between, rows};
use anyhow::Context as _;
use profile::read::live::Watch;
use profile::read::running;
use session::usage::UsageError;
use sort::Sort;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Watch the locks of a program that runs under `contend profile`.
///
/// The profile is read while the program writes it; the program is not stopped and not asked for anything. A row is a
/// lock and a way of using it. Rates are those of the last interval, in the first table those of the whole run: how
/// often it is acquired, and how many threads wait for it and hold it on average. Beside them stands what is so now:
/// how many threads wait, how long the longest of these waits has lasted, and which thread holds the lock for how long.
///
/// Keys: arrows select a lock, Enter shows from where it is waited for and behind which call, the calls that made it and
/// what each thread does with it, Space halts, q ends, ? shows all keys, with the letters that choose the order.
///
/// The narrower the terminal, the fewer columns are shown.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("without_screen").args(["batch", "prometheus"]))]
#[command(after_help = "Examples:
  contend profile -- ./server &  contend top      # the one program that is being profiled
  contend top 4711                                # the one that this process belongs to
  contend top p.contend --sort acquires           # by its profile; the locks taken most often first
  contend top --batch --interval 10s >> locks.log # a table every ten seconds, until the program ends
  contend top --batch -n 1                        # one table: the whole run so far
  contend top --batch --json | jq '.rows[0].longest_wait_ns'
  contend top --prometheus 9184 & curl http://127.0.0.1:9184/metrics")]
pub(crate) struct Args {
    /// The profile, or a process that records to it [default: the one profile that is being recorded]
    #[arg(value_name = "FILE|PID")]
    of: Option<OsString>,

    /// Print a table for each interval instead of showing a screen; ends with the program
    #[arg(long)]
    batch: bool,

    /// End after this many tables
    #[arg(short = 'n', long, value_name = "N", requires = "batch", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// The time from one look at the program to the next
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration_between("100ms", "1h"))]
    interval: Duration,

    /// Print each table as a line of JSON: `time`, `header` and `rows`, times in ns
    #[arg(long, requires = "batch")]
    json: bool,

    /// Serve the figures at http://ADDRESS/metrics for Prometheus instead of showing a screen; a port alone is one of
    /// this computer's own 127.0.0.1. Ends with the program
    #[arg(long, value_name = "ADDRESS", conflicts_with = "batch", value_parser = address)]
    prometheus: Option<SocketAddr>,

    /// What the locks are ordered by
    #[arg(long, value_name = "KEY", value_enum, default_value_t = Sort::Waiting, conflicts_with = "prometheus")]
    sort: Sort,

    /// Print this many rows for a table, or serve so many locks by name; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rows, requires = "without_screen")]
    top: usize,

    /// Show each of striped locks, that is of eight or more of one array or made by one call, instead of one row for all of them, as
    /// --json does
    #[arg(long)]
    unfold: bool,

    /// Do not read the program's files: locks are named by file and address
    #[arg(long)]
    no_symbols: bool,
}

/// Reads `9184`, `:9184`, `[::1]:9184` or `0.0.0.0:9184`.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    port.map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
        .or_else(|_| text.parse())
        .map_err(|_| "an address is a port, or an IP address and a port, such as 9184 or 0.0.0.0:9184".into())
}

/// Runs `contend top`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let path = find(args.of.as_deref())?;
    let mut watch = Watch::open(&path, !args.no_symbols)?.folding(!args.unfold && !args.json);
    let first = watch.look()?;
    let Args { count, interval, sort, .. } = *args;
    let top = if args.top == 0 { usize::MAX } else { args.top };
    if let Some(address) = args.prometheus {
        exposition::run(watch, &first, interval, address, top)?;
    } else if args.batch {
        batch::run(watch, first, &batch::Plan { count, interval, json: args.json, sort, top })?;
    } else {
        return screen::run(watch, first, interval, sort);
    }
    Ok(ExitCode::SUCCESS)
}

/// The profile that is asked for.
fn find(of: Option<&OsStr>) -> anyhow::Result<PathBuf> {
    let Some(of) = of else { return the_only_one(&running::search()) };
    let pid = of.to_str().filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(pid) = pid else { return Ok(of.into()) };
    let of_file = if Path::new(of).exists() { format!("; the file is ./{pid}") } else { String::new() };
    let pid: u32 = pid.parse().map_err(|_| no_process(&pid, &of_file))?;
    let found = running::of_process(pid).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => no_process(&pid, &of_file).into(),
        _ => anyhow::Error::new(error).context(format!("cannot look at process {pid}{of_file}")),
    })?;
    found.with_context(|| {
        format!(
            "process {pid} has mapped no profile, so it is not recorded: start it by `contend profile -- CMD`, or give \
             the profile's name{of_file}"
        )
    })
}

fn no_process(pid: &impl std::fmt::Display, of_file: &str) -> UsageError {
    UsageError::new(format!(
        "there is no process {pid}: `pgrep NAME` tells the number of a program that runs{of_file}"
    ))
}

fn the_only_one(search: &running::Search) -> anyhow::Result<PathBuf> {
    match &search.found[..] {
        [one] => Ok(one.path.clone()),
        [] => anyhow::bail!(
            "no program is being profiled: none of the {} processes that can be looked at has mapped a profile; start one \
             by `contend profile -- CMD`, or give the name of a profile",
            search.looked_at
        ),
        several => {
            let of = |running: &running::Running| {
                let pids: Vec<String> = running.pids.iter().map(u32::to_string).collect();
                format!(
                    "{} ({})",
                    report::text::printable(&running.path.display().to_string()),
                    pids.join(", ")
                )
            };
            let all: Vec<String> = several.iter().map(of).collect();
            anyhow::bail!(
                "several programs are being profiled; name the profile or a process of one: {}",
                all.join("; ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_this_computers_own_unless_it_says_otherwise() {
        for (text, read) in [
            ("9184", "127.0.0.1:9184"),
            (":0", "127.0.0.1:0"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:9184", "[::1]:9184"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), read);
        }
        for text in ["", "65536", "host:80", "127.0.0.1", "-1", ":", "1:2:3"] {
            assert!(address(text).unwrap_err().contains("such as 9184"), "{text}");
        }
    }

    #[test]
    fn what_would_have_no_effect_is_refused() {
        #[derive(Debug, clap::Parser)]
        struct Top {
            #[command(flatten)]
            _args: Args,
        }
        let is_taken = |line: &str| <Top as clap::Parser>::try_parse_from(line.split(' ')).is_ok();
        for line in ["top --sort held", "top --batch --top 3 --sort held", "top --prometheus 9 --top 3"] {
            assert!(is_taken(line), "{line}");
        }
        for line in ["top --top 3", "top --prometheus 9 --sort held", "top --prometheus 9 --batch"] {
            assert!(!is_taken(line), "{line}");
        }
    }

    #[test]
    fn without_a_name_there_is_one_or_an_error_that_says_where_it_looked() {
        let running = |name: &str, pids: &[u32]| running::Running { path: name.into(), pids: pids.into() };
        let mut search = running::Search { found: vec![], looked_at: 12 };
        let none = the_only_one(&search).unwrap_err().to_string();
        assert!(none.contains("12 processes") && none.contains("contend profile"), "{none}");
        search.found.push(running("/a/p.contend", &[3, 4]));
        assert_eq!(the_only_one(&search).unwrap(), Path::new("/a/p.contend"));
        search.found.push(running("/b/\u{1b}[2J", &[7]));
        let two = the_only_one(&search).unwrap_err().to_string();
        assert!(two.contains("/a/p.contend (3, 4); /b/\\u{1b}[2J (7)"), "{two}");
    }

    #[test]
    fn a_number_is_a_process() {
        let own = find(Some(OsStr::new(&std::process::id().to_string()))).unwrap_err();
        assert!(format!("{own:#}").contains("has mapped no profile"), "{own:#}");
        let none = find(Some(OsStr::new("99999999999"))).unwrap_err();
        assert!(none.is::<UsageError>(), "{none:#}");
        let gone = format!("{:#}", find(Some(OsStr::new("4194305"))).unwrap_err());
        assert!(gone.contains("there is no process 4194305: `pgrep NAME`"), "{gone}");
        assert_eq!(find(Some(OsStr::new("p.contend"))).unwrap(), Path::new("p.contend"));
    }
}
