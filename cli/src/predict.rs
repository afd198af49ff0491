//! `contend predict`: what a profiled lock does on more cores, as it is and with other locks in its place.

use crate::arguments::Numbers;
use crate::output::own_command_line;
use crate::progress::BARS;
use crate::{machines, reproduce};
use anyhow::Context as _;
use forecast::advice;
use forecast::{Change, Engines, Forecast, Question, alternatives, read_series};
use model::Variant;
use report::Screen;
use session::ensure_usage;
use session::output_file::OutputFile;
use std::path::PathBuf;
use std::process::ExitCode;
use topology::{MachineFile, carried};

/// Forecast from a profile what more cores do to a program.
///
/// The profile gives the critical section, apart for "the last holder ran on this core" and "on another", and the time
/// outside the lock. The machine gives what a line transfer, one more waiter and a wake-up cost. The answer is relative
/// to one core, with a band; what is not measured is assumed as a range and widens the band. If the band holds both
/// collapse and none, the answer is that this profile cannot tell. The band of the simulated program is widened further, by how
/// far it has been off where programs were measured (docs/predictions.md): four of five measurements lay in such bands.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend profile -o p.contend -- ./server --threads 2     # two cores tell most of what a prediction needs
  contend predict p.contend                                # the lock that costs most time, to 256 cores
  contend predict p.contend --machine epyc-9654x2 --cores 1..192 --lock mcs,ticket --svg p.svg
  contend predict two.contend --alone one.contend          # profiles of the same program on two threads and on one
  contend predict p.contend --what-if section=0.5,split=4  # what would that give?
  contend predict p.contend --lock elided --transactions   # what would hardware transactions give?
  contend predict p.contend --html p.html                  # curves and tables as a page, which needs nothing else
  contend predict p.contend --site cache_lock --json | jq .lock.predictions[].verdict")]
pub(crate) struct Args {
    /// A profile that `contend profile -o FILE` wrote; one taken on two or more cores tells most
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// A profile of the same program on one thread: the think time, and the critical section of a core
    /// alone, are taken from there. Where PROFILE shows a lock that already collapses, its think times hold the
    /// system calls and context switches of contention
    #[arg(long, value_name = "PROFILE")]
    alone: Option<PathBuf>,
    /// The machine to predict for: a name from `contend machines`, or a machine file [default: this machine if it is
    /// calibrated, else `typical`]
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Give the machine the transactional memory of xeon-e5-2680v4x2, if it has none
    #[arg(long)]
    transactions: bool,
    /// The machine that the profile was taken on, which says what a line transfer cost there [default: this machine if
    /// it is calibrated, else `typical`]
    #[arg(long, value_name = "MACHINE")]
    profiled_on: Option<String>,
    /// The cores to predict for, such as 1..64, or 1,2,4..48:4
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1..256", value_parser = Numbers::between(1, model::MAX_CORES))]
    cores: Vec<Numbers>,
    /// The locks to put in its place: names from `contend locks`, or families (blocking, test-and-set, back-off,
    /// ticket, queue); or `elided`, which runs its sections as transactions, on a machine that has them, by the twin [default:
    /// every family]
    #[arg(long = "lock", value_name = "LOCK,…", value_delimiter = ',')]
    locks: Vec<String>,
    /// The lock to predict for, as `contend profile` prints its name; a function or variable without @STACK or +OFFSET
    /// stands for that lock there which costs most time [default: the lock that costs most time]
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    /// The form of the model (see `contend reproduce`)
    #[arg(long, value_name = "FORM", default_value = "waiters", value_parser = reproduce::variant)]
    variant: Variant,
    /// Curves measured on the target, as JSON or CSV of contend's curves: drawn beside the predictions, and the cost of
    /// a hand-over fitted to each whose lock is known
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
    /// How to predict: by the Markov chain of the lock, at once; by the twin, a program of the same kind that is run on the
    /// simulated machine with the locks' own code; or by both
    #[arg(long, value_name = "ENGINE", default_value = "both")]
    engine: Engine,
    /// Numbers of threads for the twin, more than the machine has cores if you like: they take turns there [default:
    /// powers of two up to the machine's cores]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = Numbers::between(1, 1_024))]
    threads: Vec<Numbers>,
    /// Decides everything random in the twin
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// What a change to the program would give: section=0.5 (half of the section's work done outside), think=2 (twice the think
    /// time), handover=0.5 (half the cost of a hand-over; by the chain alone), split=4 (into so many locks), batch=8 (acquisitions become one), threads=16, lock=mcs, reads=0.9 (share of sections that only read, under a
    /// reader-writer lock); several at once [default: those that contend would try]
    #[arg(long, value_name = "CHANGE,…", value_delimiter = ',', value_parser = change)]
    what_if: Vec<String>,
    /// Print parameters, curves and verdicts as JSON
    #[arg(long)]
    json: bool,
    /// Also draw the curves into this file as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also write curves, tables and remarks as a page: one file for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn change(text: &str) -> Result<String, String> {
    advice::change(text).map(|_| text.to_owned()).map_err(|error| format!("{error:#}"))
}

/// All changes as one; none if none is asked for.
fn together(changes: &[String]) -> anyhow::Result<Option<Change>> {
    if changes.is_empty() { Ok(None) } else { advice::change(&changes.join(",")).map(Some) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// The Markov chain
    Chain,
    /// The simulated program
    Twin,
    /// Both, and which is believed where they part
    Both,
}

/// Runs `contend predict`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let alternatives = alternatives(&args.locks)?;
    let mut machine = named_or_default(args.machine.as_deref())?;
    if args.transactions {
        machine.transactions.get_or_insert_with(carried::transactions);
    }
    if let Some(elided) = alternatives.iter().find(|one| one.elided.is_some()) {
        ensure_usage!(
            args.engine != Engine::Chain,
            "the chain knows no transactions: leave out --engine chain for `{}`",
            elided.name
        );
        ensure_usage!(
            machine.transactions.is_some(),
            "{} has no transactions, without which `{}` is the lock itself: name a machine that has, such as xeon-e5-2680v4x2, or lend it some \
             with --transactions",
            machine.name,
            elided.name
        );
    }
    let page = args.html.as_deref().map(OutputFile::at).transpose()?;
    let question = Question {
        alternatives,
        machine,
        profiled_on: named_or_default(args.profiled_on.as_deref())?,
        profile: args.profile,
        alone: args.alone,
        cores: Numbers::all(&args.cores),
        site: args.site,
        variant: args.variant,
        measured: args.measured.as_deref().map(read_series).transpose()?,
        engines: match args.engine {
            Engine::Chain => Engines::Chain,
            Engine::Twin => Engines::Twin,
            Engine::Both => Engines::Both,
        },
        threads: Numbers::all(&args.threads),
        seed: args.seed,
        what_if: together(&args.what_if)?,
    };
    let forecast = Forecast::new(question, &BARS)?;
    if let Some(file) = args.svg {
        std::fs::write(&file, forecast.plot()?.svg())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&forecast.json())?);
    } else {
        print!("{}", forecast.terminal(Screen::stdout())?);
    }
    if let Some(file) = page {
        file.write(forecast.page()?.made_by(&own_command_line()).html())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn named_or_default(machine: Option<&str>) -> anyhow::Result<MachineFile> {
    machine.map_or_else(machines::default_machine, machines::load)
}
