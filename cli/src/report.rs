//! `contend report`: the lock table of a profile.

use crate::arguments::{operations, rows};
use crate::output::{self, own_command_line};
use crate::progress;
use anyhow::Context as _;
use clap::ValueEnum as _;
use profile::read::merged::is_merged;
use profile::read::{Runtime, RuntimeWaits, Sample, Timeline, to_folded, to_otel, to_pprof, to_trace};
use profile::{LockRow, LockTable, Options, Profile};
use rayon::prelude::*;
use report::{Screen, lock_table, longest_waits, runtime_waits};
use session::ensure_usage;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Print the lock table of a profile.
///
/// One row for each lock and way of using it, by the time lost waiting, then by the time held. The first columns are
/// those of "Non-scalable locks are dangerous", figure 3: how often an operation acquires the lock, how long the
/// critical section is, and which part that makes of the time of the threads that use the lock, without their waits
/// for it: as many threads as it takes to make 100 % of these parts saturate the lock. An operation is what --ops or
/// --ops-regex counted when the profile was taken, or --ops counts now; without them figures are for one second.
///
/// "same core" and "other core" are the critical section after a holder on the same core and on another one: the
/// difference is the cost of moving its data, which is what grows with cores.
///
/// Where the profile has the kernel's locks (contend profile --kernel), a second table has those that threads waited for.
///
/// Several profiles are added up: those of a fleet, of runs one after another, of a service's restarts, and those that `contend merge`
/// has put into one file. A lock is the same where program,
/// name and kind are the same, in whichever process, and rates are for the time of all profiles, one after another.
///
/// A mutex or block profile of a Go program, as /debug/pprof/mutex of net/http/pprof gives it, is read, too, and so is a
/// recording of Java's Flight Recorder: who waits, and behind whom.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend report p.contend                    # the locks that cost most
  contend report p.contend --top 0 --ops 5000 # all of them, for each of 5000 operations
  contend report p.contend --csv > locks.csv  # for a spreadsheet
  contend report p.contend --json | jq '.rows[0].exclusive.hold_other'
  contend report p.contend --html locks.html  # a page to look through, or to send: it needs nothing else
  contend report p.contend --pprof locks.pb   # for pprof, or a profile store that reads it
  contend report p.contend --folded locks.txt # for flamegraph.pl, inferno-flamegraph or speedscope
  contend report p.contend --otel locks.otlp  # for a collector of OpenTelemetry
  contend report p.contend --timeline t.json  # the longest waits, for ui.perfetto.dev; of contend profile --timeline
  contend report host-*/p.contend             # the locks of a fleet, added up
  contend report mutex.pb.gz                  # Go's own profile of its mutexes")]
pub(crate) struct Args {
    /// The profile, as `contend profile -o` wrote it; the program may still be running. Several are added up. Or a mutex or block profile of Go, or a recording of Java's Flight Recorder
    #[arg(value_name = "PROFILE", required = true)]
    profiles: Vec<PathBuf>,

    /// Print everything as JSON: `header` and `rows`, times in ns with their distributions
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print all rows as comma-separated values
    #[arg(long)]
    csv: bool,

    /// Write all rows as a page as well: one file for a browser, in which rows are sorted, filtered, and unfolded to their
    /// distributions and callers; with pictures of the longest waits of a profile that was recorded with --timeline
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write the contention as a pprof profile to this file as well
    #[arg(long, value_name = "FILE")]
    pprof: Option<PathBuf>,

    /// Write folded stacks to this file as well, for flame graphs: a line for each lock and function that waits for it; where that
    /// is not known, with the calls that made the lock
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,

    /// What the width of a lock in the flame graph is
    #[arg(long, value_name = "KEY", default_value = "waiting", requires = "folded")]
    folded_of: Weight,

    /// Write the contention as an OpenTelemetry profile to this file as well. That signal is in development (v1development): a
    /// collector of another version may not read it
    #[arg(long, value_name = "FILE")]
    otel: Option<PathBuf>,

    /// Write the longest waits one by one to this file as well, 4096 at most: who waited when, with its stack, and behind whose hold.
    /// It is a trace for ui.perfetto.dev or Chrome (Trace Event Format), of a profile that was recorded with --timeline
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,

    /// Show this many rows; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rows)]
    top: usize,

    /// Show each of striped locks, that is of eight or more of one array or made by one call, instead of one row for all of them
    #[arg(long)]
    unfold: bool,

    /// Operations that the program did
    #[arg(long, value_name = "N", value_parser = operations)]
    ops: Option<u64>,

    /// Do not read the program's files: locks are named by file and address
    #[arg(long)]
    no_symbols: bool,
}

/// The weight of a folded stack.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Weight {
    /// Time lost waiting, in ns
    Waiting,
    /// Time that the lock was held, in ns; not known of the kernel's
    Held,
    /// Acquisitions that had to wait
    Contended,
    /// Time that others waited until a hold was over, by the function that took the lock, in ns
    Behind,
}

impl Weight {
    fn of(self, sample: &Sample<'_>) -> f64 {
        match self {
            Self::Waiting => sample.waited_ns,
            Self::Held => sample.held_ns,
            Self::Contended => sample.contended as f64,
            Self::Behind => sample.behind_ns,
        }
    }
}

fn report_of_runtime(profile: &RuntimeWaits, json: bool, csv: bool, top: usize) -> anyhow::Result<ExitCode> {
    if json {
        output::print_json(profile)?;
    } else if csv {
        output::print(&runtime_waits::rows(profile, usize::MAX).csv())?;
    } else {
        output::print(&runtime_waits::text(profile, top, Screen::stdout().with_csv()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The longest waits as a trace.
fn trace_of(timeline: &Timeline, table: &LockTable) -> String {
    if timeline.waits.is_empty() {
        // Waits that are watched from outside are never kept one by one.
        let waited = table.rows.iter().any(|row| row.contended() > 0 && !row.exclusive.waits_only);
        let is_unended =
            |row: &LockRow| [&row.exclusive, &row.shared].iter().any(|side| side.unended.waits > 0);
        let why = if waited {
            "threads waited for locks, and the profile had no space for single waits"
        } else if table.rows.iter().any(is_unended) {
            "no wait was over when the program ended; the report tells of those that were not"
        } else {
            "the profile holds no wait for a lock"
        };
        progress::warn(&[format!("the timeline is empty: {why}")]);
    }
    if timeline.missed > 0 {
        progress::warn(&[format!("waits that are missing in the timeline: {}", timeline.missed)]);
    }
    to_trace(timeline).to_string()
}

/// What a table ends with that carries no forecast.
pub(crate) fn no_forecast(table: &LockTable, screen: Screen) -> String {
    // From waits alone a user expects no forecast.
    let void = forecast::void::of_profile(table).filter(|_| table.header.attached.is_none());
    void.map_or_else(String::new, |void| {
        screen.fit(&format!("\nNo forecast: {}.\n{}.\n", void.reason, void.remedy))
    })
}

/// The table as it is shown, with the longest waits where single waits were kept.
fn text_of(table: &LockTable, timeline: Option<&Timeline>, top: usize) -> String {
    let screen = Screen::stdout().with_csv();
    let waits = timeline.map_or_else(String::new, |timeline| longest_waits::text(timeline, screen));
    lock_table::text(table, top, screen) + &waits + &no_forecast(table, screen)
}

/// The table of several profiles.
fn together(paths: &[PathBuf], options: &Options) -> anyhow::Result<LockTable> {
    let tables = paths.par_iter().map(|path| LockTable::each(path, options));
    let tables: Vec<_> = tables.collect::<Result<Vec<_>, profile::Error>>()?.into_iter().flatten().collect();
    LockTable::together(&tables)
        .with_context(|| format!("{}: no profile was merged into it", paths[0].display()))
}

/// Fails where more is asked of a runtime's own recording than is made of it.
fn ensure_shown_alone(args: &Args, path: &Path, runtime: Runtime) -> anyhow::Result<()> {
    let Args { html, pprof, folded, otel, timeline, ops, unfold, no_symbols, .. } = args;
    let further = [html, pprof, folded, otel, timeline].into_iter().any(Option::is_some);
    let (what, draws) = match runtime {
        Runtime::Go => ("a profile of Go's own", "`go tool pprof`"),
        Runtime::Java => ("a recording of Java's Flight Recorder", "JDK Mission Control"),
    };
    ensure_usage!(
        !further && ops.is_none() && !unfold && !no_symbols,
        "{} is {what}, of which there is a table with --top, --csv and --json alone: {draws} makes pictures of it",
        path.display()
    );
    ensure_usage!(
        args.profiles.len() == 1,
        "{} is {what}, which is shown alone: it is not added up",
        path.display()
    );
    Ok(())
}

/// Fails where something is asked for that the profile does not hold, or that several together do not: `alone` is the only one.
fn ensure_told(args: &Args, alone: Option<&Profile>) -> anyhow::Result<()> {
    let Args { profiles, timeline, ops, .. } = args;
    ensure_usage!(
        timeline.is_none() || alone.is_some(),
        "--timeline shows the longest waits of one profile, and these are several",
    );
    ensure_usage!(
        timeline.is_none() || alone.is_some_and(Profile::keeps_waits),
        "{} has no single waits: `contend profile --timeline` keeps them",
        profiles[0].display()
    );
    ensure_usage!(
        ops.is_none() || alone.is_some(),
        "--ops counts the operations of one profile, and these are several: --ops of `contend profile` keeps them with each",
    );
    Ok(())
}

/// Runs `contend report`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    for path in &args.profiles {
        let Some(runtime) = RuntimeWaits::whose(path) else { continue };
        ensure_shown_alone(&args, path, runtime)?;
        return report_of_runtime(&RuntimeWaits::open(runtime, path)?, args.json, args.csv, args.top);
    }
    let alone = match &*args.profiles {
        [path] if !is_merged(path) => Some(Profile::open(path)?),
        _ => None,
    };
    ensure_told(&args, alone.as_ref())?;
    let Args {
        profiles: paths,
        json,
        csv,
        html,
        pprof,
        folded,
        folded_of,
        otel,
        timeline,
        top,
        unfold,
        ops,
        no_symbols,
    } = args;
    let at = |path: Option<PathBuf>| output::file_at(path.as_deref());
    let (page, pprof, folded, otel) = (at(html)?, at(pprof)?, at(folded)?, at(otel)?);
    let trace = at(timeline)?;
    let calls = [&page, &pprof, &folded, &otel].into_iter().any(Option::is_some);
    let options = Options { operations: ops, symbols: !no_symbols, calls };
    let mut table = match &alone {
        Some(profile) => profile.table(&options),
        None => together(&paths, &options)?,
    };
    if unfold {
        table.striped.clear();
    }
    if let Some(file) = pprof {
        file.write(to_pprof(&table))?;
    }
    if let Some(file) = folded {
        let stacks = to_folded(&table, |sample| folded_of.of(sample));
        if stacks.is_empty() {
            let key = folded_of.to_possible_value().expect("all keys have names");
            progress::warn(&[format!(
                "no lock has any weight by `{}`, so that the folded stacks are empty: --folded-of has other weights",
                key.get_name()
            )]);
        }
        file.write(stacks)?;
    }
    if let Some(file) = otel {
        file.write(to_otel(&table))?;
    }
    let draws_waits = trace.is_some() || page.is_some() || !(json || csv);
    let waits = alone.as_ref().filter(|profile| draws_waits && profile.keeps_waits());
    let timeline = waits.map(|profile| profile.timeline(&table, !no_symbols));
    if let (Some(file), Some(timeline)) = (trace, &timeline) {
        file.write(trace_of(timeline, &table))?;
    }
    if json {
        output::print_json(&table)?;
    } else if csv {
        output::print(&lock_table::csv(&table))?;
    } else {
        output::print(&text_of(&table, timeline.as_ref(), top))?;
    }
    if let Some(file) = page {
        file.write(lock_table::page(&table, timeline.as_ref()).made_by(&own_command_line()).html())?;
    }
    Ok(ExitCode::SUCCESS)
}
