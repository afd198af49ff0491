//! `contend check`: a lock in every execution that a memory model allows.

use crate::output::{self, own_command_line, print_json, tell};
use crate::progress::{self, Lines};
use crate::{arguments, interrupt};
use checker::{Model, Mutation, ReplayTrace, replay};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use indicatif::ProgressBar;
use locks::catalogue::{self, ELIDED, LOCKS, Lock};
use report::{Cell, Column, Screen, Table};
use session::ensure_usage;
use session::output_file::OutputFile;
use session::usage::UsageError;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use verify::check::clients::Client;
use verify::check::mutants::{self, Mutant, Wanted};
use verify::check::objects::OBJECTS;
use verify::check::plan::{self, Limits, Task, Verdict};
use verify::check::{CheckedLock, Options, page, verification};

/// Run a lock in every execution that a memory model allows.
///
/// Small clients use the lock in all ways that it offers; every order of their steps, and every value that a read may
/// find under the model, is explored once. "verified" is only said of a client all of whose executions were seen, in the
/// size that was asked for; what a limit cut off is "incomplete", with the limit, and with the largest smaller client that was
/// seen whole. Found are: two holders, data races, waits that never end, livelocks, queue nodes used after their return or never returned,
/// tries that fail on a free lock, anything left in a lock that no thread uses, and failed checks. Not explored are wake-ups for
/// no reason.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "contend check [OPTIONS] LOCK\n       contend check [OPTIONS] --all\n       contend check [OPTIONS] --list",
    after_help = AFTER_HELP
)]
pub(crate) struct Args {
    #[arg(
        value_name = "LOCK",
        help = lock_help(),
        required_unless_present_any = ["all", "list"],
        conflicts_with_all = ["all", "list"],
        value_parser = lock_names()
    )]
    lock: Option<&'static Lock>,

    /// All of them
    #[arg(long)]
    all: bool,

    /// List the locks with the models that each is checked under
    #[arg(long, conflicts_with_all = ["all", "mutate", "weaken", "output", "summary"])]
    list: bool,

    /// Only these models. In ra a release sequence is that of C++20: later stores of the
    /// releasing thread do not continue it, read-modify-writes of any thread do
    #[arg(long, value_name = "MODEL,…", value_delimiter = ',', value_parser = model_names())]
    model: Vec<Model>,

    /// Threads of the clients
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..checker::MAX_THREADS as u64).map(|threads| threads as usize))]
    threads: Option<usize>,

    /// How often each thread goes for the lock
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    acquisitions: Option<u32>,

    /// Only this client
    #[arg(long, value_name = "CLIENT", value_parser = client_names())]
    client: Option<Client>,

    /// Time for the whole command. All explorations are taken through a few thousand executions and states before
    /// any goes further, the small sizes first, and share what time is left. Numbers of executions, of states and memory
    /// are limited, too
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = arguments::duration)]
    time_limit: Duration,

    /// Make every access of the lock weaker by one ordering, and wrong in one way, one at a time, and see whether a client
    /// fails under release-acquire
    #[arg(long)]
    mutate: bool,

    /// Make one access weaker, or wrong: FUNCTION.OPERATION or FILE:LINE:COLUMN, and what it becomes; `--mutate` lists all
    #[arg(long, value_name = "SITE=CHANGE", conflicts_with_all = ["mutate", "all"])]
    weaken: Option<Wanted>,

    /// Run the execution again that a counterexample ends with
    #[arg(long, value_name = "STRING", requires = "client", conflicts_with_all = ["all", "mutate", "output", "summary"])]
    replay: Option<ReplayTrace>,

    /// Print everything as JSON
    #[arg(long)]
    json: bool,

    /// Write a page with every exploration and every mutant
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write a page with a line for each lock: how many explorations are complete, and what cut the others
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

impl Args {
    fn options(&self) -> Options {
        Options {
            model: self.model.clone(),
            client: self.client,
            threads: self.threads,
            acquisitions: self.acquisitions,
            time_limit: self.time_limit,
            weaken: self.weaken.as_ref().map(ToString::to_string),
        }
    }
}

const AFTER_HELP: &str = "\
Exit status: 0 when all was verified, 1 when something is wrong, 2 when there is no such thing to check, 3 when nothing is wrong in what was seen but some \
client of the size that was asked for is incomplete, 130 when Ctrl-C cut the command short (what is finished is printed).

Examples:
  contend check mcs                                  # all clients, all models
  contend check ticket --threads 3 --acquisitions 2 --model tso
  contend check elided:ticket                        # its sections as transactions
  contend check mcs --mutate                         # break each access: is it missed?
  contend check mcs --weaken McsQueue::acquire.swap=acquire --client exclusive --threads 2 --acquisitions 1 --model ra
  contend check --all --mutate --time-limit 2h --summary docs/verification.md --output verification.md";

/// The status of a command that asks for what there is not, such as an execution that is none of this code.
const USAGE: u8 = 2;

/// The status of a command that saw nothing wrong, and not all.
const INCOMPLETE: u8 = 3;

/// All that can be checked.
fn everything() -> impl Iterator<Item = &'static Lock> {
    LOCKS.iter().chain(ELIDED).chain(OBJECTS)
}

/// The help of LOCK, which names what `contend locks` does not list.
fn lock_help() -> String {
    let objects: Vec<_> = OBJECTS.iter().map(|object| object.name).collect();
    format!(
        "The lock, as `contend locks` lists it, or an elided form, such as elided:ticket; or what is no lock there: {}",
        objects.join(", ")
    )
}

fn lock_names() -> impl TypedValueParser<Value = &'static Lock> {
    let names = everything().map(|lock| PossibleValue::new(lock.name));
    let before = catalogue::RENAMED.iter().map(|&(before, _)| PossibleValue::new(before).hide(true));
    PossibleValuesParser::new(names.chain(before)).map(|name| {
        session::names::note_renamed(&name);
        let object = || OBJECTS.iter().find(|object| object.name == name);
        catalogue::find_in_any_form(&name).or_else(object).expect("one of the names")
    })
}

fn model_names() -> impl TypedValueParser<Value = Model> {
    let names = PossibleValuesParser::new(Model::ALL.map(Model::name));
    names.map(|name| name.parse().expect("one of the names"))
}

fn client_names() -> impl TypedValueParser<Value = Client> {
    let names = PossibleValuesParser::new(Client::all().map(Client::name));
    names.map(|name| Client::all().find(|client| client.name() == name).expect("one of the names"))
}

/// Runs `contend check`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let options = args.options();
    if args.list {
        return list(args.json, &options);
    }
    let locks = args.lock.map_or_else(|| everything().collect(), |lock| vec![lock]);
    if let Some(lock) = args.lock.filter(|lock| args.mutate && lock.is_elided()) {
        let base = lock.name.rsplit(':').next().unwrap_or(lock.name);
        ensure_usage!(
            false,
            "mutants are judged under release-acquire, where transactions are not followed: `contend check {base} --mutate` judges the accesses of \
             the lock that is elided"
        );
    }
    let limits = Limits::new(args.time_limit);
    let mutation =
        args.weaken.as_ref().map(|wanted| wanted.mutation_within(locks[0], &limits)).transpose()?;
    if let Some(trace) = &args.replay {
        return run_again(args, locks[0], trace, mutation);
    }
    let output = output::file_at(args.output.as_deref())?;
    let summary = output::file_at(args.summary.as_deref())?;
    let tasks = locks.iter().flat_map(|lock| plan::tasks(lock, &options)).collect::<Vec<_>>();
    ensure_usage!(
        !tasks.is_empty() || !locks.iter().all(|lock| lock.is_elided()) || options.model != [Model::Ra],
        "transactions are explored under sc, tso and pso, not under ra"
    );
    ensure_usage!(!tasks.is_empty(), "{}", without_client(&locks, args.client));
    let all = judge(&locks, &tasks, args, mutation, started);
    let cut_short = interrupt::came();
    // Before anything is printed: standard output may be a full disk, which ends the command.
    let pages = write_pages(output, summary, &all, &options, started.elapsed());
    if args.json {
        print_json(&all.iter().map(CheckedLock::json).collect::<Vec<_>>())?;
    } else {
        let screen = Screen::stdout();
        all.iter().for_each(|one| print!("{}", page::text(one, &options, screen)));
        println!(
            "{}{:.1} s",
            if cut_short { "cut short after " } else { "" },
            started.elapsed().as_secs_f64()
        );
    }
    pages?;
    let verdicts = || all.iter().flat_map(|one| &one.verdicts);
    Ok(if verdicts().any(Verdict::is_wrong) {
        ExitCode::FAILURE
    } else if cut_short {
        ExitCode::from(interrupt::CUT_SHORT)
    } else if verdicts().all(Verdict::is_verified) {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(INCOMPLETE)
    })
}

fn write_pages(
    output: Option<OutputFile>,
    summary: Option<OutputFile>,
    all: &[CheckedLock],
    options: &Options,
    took: Duration,
) -> anyhow::Result<()> {
    if let Some(file) = output {
        file.write(verification::page(all, options, took, &own_command_line()))?;
    }
    if let Some(file) = summary {
        file.write(verification::summary(all, options, took, &own_command_line()))?;
    }
    Ok(())
}

/// Explores all clients of the locks, after their mutants if these are asked for.
fn judge(
    locks: &[&'static Lock],
    tasks: &[Task],
    args: &Args,
    mutation: Option<Mutation>,
    started: Instant,
) -> Vec<CheckedLock> {
    interrupt::keep();
    let bar = progress::bar(0, "{elapsed}  {wide_msg}");
    bar.enable_steady_tick(Duration::from_millis(200));
    let told = bar.clone();
    let lines = Lines::new(move || match told.length().unwrap_or(0) {
        0 => told.message(),
        steps => format!("{} of {steps}, {}", told.position(), told.message()),
    });
    let mutants = if args.mutate { judge_mutants(locks, args.time_limit, &bar) } else { Vec::new() };
    let limits = Limits::new(args.time_limit.saturating_sub(started.elapsed()));
    let verdicts = plan::judge_all(tasks, &limits, mutation, &|progress| {
        bar.set_length(progress.of as u64);
        bar.set_position(progress.settled as u64);
        bar.set_message(progress.task.to_string());
    });
    drop(lines);
    bar.finish_and_clear();
    let of = |lock: &&'static Lock| CheckedLock { lock, verdicts: Vec::new(), mutants: Vec::new() };
    let mut all = locks.iter().map(of).collect::<Vec<_>>();
    let place = |name: &str| locks.iter().position(|lock| lock.name == name).expect("one of the locks");
    for verdict in verdicts {
        all[place(verdict.task.lock.name)].verdicts.push(verdict);
    }
    for mutant in mutants {
        all[place(mutant.of)].mutants.push(mutant);
    }
    all
}

/// Lists what there is to check.
fn list(json: bool, options: &Options) -> anyhow::Result<ExitCode> {
    let models = |lock| {
        let mut models: Vec<_> = plan::tasks(lock, options).iter().map(|task| task.model.name()).collect();
        models.dedup();
        models
    };
    let checked = everything().map(|lock| (lock.name, models(lock)));
    if json {
        let all: Vec<_> =
            checked.map(|(lock, models)| serde_json::json!({ "lock": lock, "models": models })).collect();
        print_json(&all)?;
    } else {
        let mut table = Table::new([Column::text("lock", "lock"), Column::text("models", "models")]);
        checked.for_each(|(lock, models)| table.row([lock.into(), Cell::from(models.join(" "))]));
        print!("{}", table.terminal(Screen::stdout()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Judges all mutants of these locks, for which there are two thirds of the time.
fn judge_mutants(locks: &[&'static Lock], time: Duration, bar: &ProgressBar) -> Vec<Mutant> {
    let limits = Limits::new(time * 2 / 3);
    bar.set_message("looking for the accesses of locks");
    // Those of an elided lock's accesses are its base's: transactions are not followed under release-acquire.
    let locks = locks.iter().copied().filter(|lock| !lock.is_elided()).collect::<Vec<_>>();
    mutants::judge_all(&locks, &limits, &|progress| match progress {
        mutants::Progress::Begun(of) => bar.inc_length(of as u64),
        mutants::Progress::Tries(mutant) => bar.set_message(mutant.to_owned()),
        mutants::Progress::Judged => bar.inc(1),
    })
}

/// Why there is nothing to explore.
fn without_client(locks: &[&Lock], client: Option<Client>) -> String {
    let Some(client) = client else { return "there is nothing to explore".into() };
    let names: Vec<_> = locks.iter().map(|lock| lock.name).collect();
    let (names, client) = (names.join(", "), client.name());
    format!("{names} cannot do what the client `{client}` does; `contend locks` says what each lock can")
}

fn run_again(
    args: &Args,
    lock: &'static Lock,
    trace: &ReplayTrace,
    mutation: Option<Mutation>,
) -> anyhow::Result<ExitCode> {
    let options = args.options();
    let task = plan::tasks(lock, &options)
        .into_iter()
        .next()
        .ok_or_else(|| UsageError::new(without_client(&[lock], args.client)))?;
    let hint = "give the same --client, --threads, --acquisitions, --model and --weaken as the counterexample was \
                found with";
    let report = match replay(task.model, trace.clone(), mutation, &|| task.run()) {
        Ok(report) => report,
        Err(divergence) => {
            tell(&format!("{task}: {divergence}; {hint}"));
            return Ok(ExitCode::from(USAGE));
        }
    };
    match report.counterexample {
        Some(found) => {
            if args.json {
                print_json(&plan::counterexample_json(&task, &found))?;
            } else {
                println!("{}", Screen::stdout().fit(&found.to_string()));
            }
            Ok(ExitCode::FAILURE)
        }
        None => {
            tell(&format!("nothing is wrong in this execution of {task}; {hint}"));
            Ok(ExitCode::from(USAGE))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sites_in_help_texts_are_accesses_of_the_lock() {
        assert!(AFTER_HELP.contains(mutants::EXAMPLE));
        let lock = catalogue::find("mcs").expect("the lock of the examples");
        mutants::EXAMPLE.parse::<Wanted>().expect("it is well formed").mutation(lock).expect("it is there");
    }
}
