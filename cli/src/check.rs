//! `contend check`: a lock in every execution that a memory model allows.

mod clients;
mod page;
mod plan;
mod weaken;

use crate::page::Page;
use anyhow::{Context, bail, ensure};
use checker::checked::Accessed;
use checker::{Counterexample, Model, Script, replay};
use clients::Client;
use locks::catalogue::{self, LOCKS, Lock};
use plan::{Budget, Task, Verdict};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use workloads::client::Shape;

/// Run a lock in every execution that a memory model allows.
///
/// Small clients use the lock in all ways that it offers; every order of their steps, and every value that a read may
/// find under the model, is explored once. "verified" is only said of a client all of whose executions were seen; what
/// was cut off by the time limit is "a bound". Found are: two holders, data races, waits that never end, queue
/// nodes used after their return, and failed checks. Not explored are wake-ups for no reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend check mcs                                  # all clients, all models
  contend check ticket --threads 3 --acquisitions 2 --model tso
  contend check mcs --mutate                         # weaken each ordered access: is it missed?
  contend check mcs --weaken mcs.rs:82:51=relaxed --client exclusive --threads 2 --acquisitions 1 --model ra
  contend check --all --mutate --write docs/verification.md")]
pub(crate) struct Args {
    /// The lock, as `contend locks` lists it
    #[arg(value_name = "LOCK", required_unless_present = "all", conflicts_with = "all")]
    lock: Option<String>,

    /// All locks
    #[arg(long)]
    all: bool,

    /// Only this model: sc, tso, pso or ra; may be given several times. In ra a release sequence is that of C++20: later
    /// stores of the releasing thread do not continue it, read-modify-writes of any thread do
    #[arg(long, value_name = "MODEL")]
    model: Vec<Model>,

    /// Threads of the clients
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// How often each thread goes for the lock
    #[arg(long, value_name = "K")]
    acquisitions: Option<u32>,

    /// Only this client: exclusive, tried, timed, cancelled, shared, nested, passed-on, parked or references
    #[arg(long, value_name = "CLIENT", value_parser = Client::named)]
    client: Option<Client>,

    /// Seconds for all explorations together; a smaller client is tried when a large one takes too much of them
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    seconds: u64,

    /// Weaken every ordered access of the lock, one at a time, and see whether a client fails under release-acquire
    #[arg(long)]
    mutate: bool,

    /// Weaken one access: FILE:LINE:COLUMN=ORDERING
    #[arg(long, value_name = "SITE=ORDERING", conflicts_with = "mutate")]
    weaken: Option<weaken::Site>,

    /// Run the execution again that a counterexample ends with
    #[arg(long, value_name = "STRING", requires = "client")]
    replay: Option<Script>,

    /// Print everything as JSON
    #[arg(long)]
    json: bool,

    /// Write the results as a page; survivors.csv beside it says of each surviving mutant why it is left
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// What was found out about one lock.
struct Checked {
    lock: &'static Lock,
    verdicts: Vec<Verdict>,
    mutants: Vec<weaken::Mutant>,
}

/// Runs `contend check`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let locks = match &args.lock {
        None => LOCKS.iter().collect(),
        Some(name) => match catalogue::find(name) {
            Some(lock) => vec![lock],
            None => bail!("no lock is called {name:?}: `contend locks` lists them"),
        },
    };
    if let Some(threads) = args.threads {
        let most = checker::MAX_THREADS - 1;
        ensure!((1..=most).contains(&threads), "--threads {threads}: 1 to {most} threads can be checked");
    }
    if let Some(script) = &args.replay {
        return run_again(args, locks[0], script);
    }
    let file = args.write.as_deref().map(Page::at).transpose()?;
    let tasks = locks.iter().flat_map(|lock| plan::tasks(lock, args)).collect::<Vec<_>>();
    ensure!(!tasks.is_empty(), "the lock cannot do what this client does");
    let mutants = |&lock: &&'static Lock| if args.mutate { weaken::all(lock) } else { Vec::new() };
    let mutants = locks.iter().map(mutants).collect::<Vec<_>>();
    let left = Duration::from_secs(args.seconds).saturating_sub(started.elapsed());
    let budget = Budget::new(left, tasks.len());
    let mut verdicts = tasks
        .into_par_iter()
        .with_max_len(1)
        .map(|task| {
            let mutation = args.weaken.as_ref().map(|site| site.mutation(task)).transpose()?;
            let verdict = task.judge(&budget, mutation);
            budget.done();
            Ok(verdict)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut all = Vec::new();
    for (lock, mutants) in locks.into_iter().zip(mutants) {
        let (of_lock, rest) = verdicts.into_iter().partition(|verdict| verdict.task.lock.name == lock.name);
        verdicts = rest;
        all.push(Checked { lock, verdicts: of_lock, mutants });
    }
    let failed = all.iter().any(|one| one.verdicts.iter().any(Verdict::is_wrong));
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all.iter().map(Checked::json).collect::<Vec<_>>())?);
    } else {
        all.iter().for_each(|one| print!("{}", page::text(one, args)));
        println!("{:.1} s", started.elapsed().as_secs_f64());
    }
    if let (Some(file), Some(path)) = (file, &args.write) {
        // Why a survivor is left stands beside the page, one access a line.
        let arguments = std::fs::read_to_string(path.with_file_name("survivors.csv")).unwrap_or_default();
        file.write(&page::markdown(&all, &arguments, started.elapsed()))?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The exit status of a replay that shows nothing wrong, or is no execution of this code.
const NOT_THIS_CODE: u8 = 2;

fn run_again(args: &Args, lock: &'static Lock, script: &Script) -> anyhow::Result<ExitCode> {
    let task =
        plan::tasks(lock, args).into_iter().next().context("the lock cannot do what this client does")?;
    let mutation = args.weaken.as_ref().map(|site| site.mutation(task)).transpose()?;
    let hint = "give the same --client, --threads, --acquisitions, --model and --weaken as the counterexample was \
                found with";
    let report = match replay(task.model, script.clone(), mutation, &|| task.run()) {
        Ok(report) => report,
        Err(divergence) => {
            eprintln!("contend: {task}: {divergence}; {hint}");
            return Ok(ExitCode::from(NOT_THIS_CODE));
        }
    };
    match report.counterexample {
        Some(found) => {
            println!("{found}");
            Ok(ExitCode::FAILURE)
        }
        None => {
            eprintln!("contend: nothing is wrong in this execution of {task}; {hint}");
            Ok(ExitCode::from(NOT_THIS_CODE))
        }
    }
}

impl Checked {
    fn json(&self) -> Value {
        json!({
            "lock": self.lock.name,
            "explorations": self.verdicts.iter().map(Verdict::json).collect::<Vec<_>>(),
            "mutants": self.mutants.iter().map(weaken::Mutant::json).collect::<Vec<_>>(),
        })
    }
}

/// A counterexample with the command that runs it again.
fn tell(task: &Task, found: &Counterexample, weakened: Option<&str>) -> String {
    let weaken = weakened.map_or(String::new(), |site| format!(" --weaken {site}"));
    let Task { lock, client, shape: Shape { threads, rounds }, model } = task;
    let client = client.name();
    format!(
        "{found}Run it again:\n  contend check {} --client {client} --threads {threads} --acquisitions {rounds} \
         --model {model}{weaken} --replay '{}'\n",
        lock.name, found.script
    )
}

/// The accesses that stand in the source of a lock.
fn of_locks(accesses: Vec<Accessed>) -> impl Iterator<Item = Accessed> {
    accesses.into_iter().filter(|access| access.site.file().replace('\\', "/").contains("locks/src/"))
}

/// Every client that suits a lock.
fn clients_of(lock: &Lock) -> impl Iterator<Item = Client> + '_ {
    Client::all().filter(|client| client.suits(lock))
}
