//! `contend litmus`: small programs, and what each memory model says about them.

mod explain;

use anyhow::Context;
use checker::Model;
use checker::litmus::program::Final;
use checker::litmus::{Judgement, Quantifier, Test, native};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Say which outcomes of a small program each memory model allows.
///
/// Reads tests in herd's format, for x86 and in a subset of C. "Allowed" means that some execution ends in a state that
/// the test's condition describes. The models are sequential consistency, total store order (x86), partial store order,
/// and release-acquire as in RC11; x86 moves count as acquire and release there.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend litmus tests/litmus                       # all tests of a directory
  contend litmus --model tso --states SB.litmus     # what can be in the registers at the end
  contend litmus --run SB.litmus                    # what this processor does, beside what TSO allows
  contend litmus --explain                          # the store-buffering table of every textbook
  contend litmus tests/litmus --json | jq '.[] | select(.models.tso.verdict == \"Allowed\") | .name'")]
pub(crate) struct Args {
    /// Tests, or directories that are searched for files ending in .litmus
    #[arg(value_name = "FILE|DIR", required_unless_present = "explain")]
    paths: Vec<PathBuf>,

    /// Only this model: sc, tso, pso or ra; may be given several times
    #[arg(long, value_name = "MODEL")]
    model: Vec<Model>,

    /// Print the final states too
    #[arg(long)]
    states: bool,

    /// Print everything as JSON
    #[arg(long)]
    json: bool,

    /// Run the tests on this processor too; an outcome that its model forbids is a failure
    #[arg(long)]
    run: bool,

    /// How often, with --run
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    iterations: u64,

    /// Explain store buffering: all interleavings, what each model forbids, what a fence changes
    #[arg(long)]
    explain: bool,
}

/// Runs `contend litmus`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.explain {
        print!("{}", explain::text());
        return Ok(ExitCode::SUCCESS);
    }
    let models = if args.model.is_empty() { Model::ALL.to_vec() } else { args.model.clone() };
    let mut files = Vec::new();
    for path in &args.paths {
        find(path, &mut files)?;
    }
    let mut failed = false;
    let mut all = Vec::new();
    for file in &files {
        match look_at(file, &models, args) {
            Ok(looked) => {
                failed |= looked.failed;
                if args.json {
                    all.push(looked.json());
                } else {
                    print!("{}", looked.text(args.states));
                }
            }
            Err(error) => {
                failed = true;
                if args.json {
                    all.push(json!({ "file": file, "error": error_json(&error) }));
                } else {
                    eprintln!("contend: {error:#}");
                }
            }
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The files to look at: a file itself, and all tests of a directory in order.
fn find(path: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let about = std::fs::metadata(path)
        .with_context(|| format!("{}: expected a litmus test or a directory", path.display()))?;
    if !about.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("{}: cannot be listed", path.display()))?;
    let mut entries = entries.flatten().collect::<Vec<_>>();
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        // Links are not followed, so that no circle is.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => find(&entry.path(), files)?,
            Ok(_) if entry.path().extension().is_some_and(|extension| extension == "litmus") => {
                files.push(entry.path());
            }
            _ => {}
        }
    }
    Ok(())
}

fn error_json(error: &anyhow::Error) -> Value {
    match error.downcast_ref::<checker::litmus::ParseError>() {
        Some(parse) => json!({ "line": parse.at.line, "column": parse.at.column, "message": parse.message }),
        None => json!({ "message": format!("{error:#}") }),
    }
}

/// A test with what was found out about it.
struct Looked<'a> {
    file: &'a Path,
    test: Test,
    judgements: Vec<Judgement>,
    measured: Option<Measured>,
    failed: bool,
}

/// What the processor did.
struct Measured {
    outcomes: native::Outcomes,
    /// The model that the processor follows, when the test says something about it.
    allowed: Option<Judgement>,
}

/// A file that is no text worth reading is not read whole.
const MOST_BYTES: u64 = 1 << 20;

fn look_at<'a>(file: &'a Path, models: &[Model], args: &Args) -> anyhow::Result<Looked<'a>> {
    let size = std::fs::metadata(file).map_or(0, |about| about.len());
    anyhow::ensure!(size <= MOST_BYTES, "{}: {size} bytes are too many for a litmus test", file.display());
    let bytes = std::fs::read(file).with_context(|| format!("{}: cannot be read", file.display()))?;
    let test = Test::parse(&String::from_utf8_lossy(&bytes))
        .map_err(|error| anyhow::Error::new(error).context(file.display().to_string()))?;
    let judgements = models.iter().map(|&model| test.judge(model)).collect::<Vec<_>>();
    if let Some((thread, value)) = judgements.iter().find_map(|judgement| judgement.finals.wild) {
        anyhow::bail!("{}: thread {thread} follows the value {value}, which is no address", file.display());
    }
    let mut looked = Looked { file, test, judgements, measured: None, failed: false };
    if args.run {
        looked.run(args.iterations)?;
    }
    Ok(looked)
}

impl Looked<'_> {
    fn run(&mut self, iterations: u64) -> anyhow::Result<()> {
        let outcomes = native::run(&self.test, iterations, 1)
            .with_context(|| format!("{}: cannot run", self.file.display()))?;
        let allowed = cfg!(target_arch = "x86_64").then(|| self.test.judge(Model::Tso));
        self.failed = allowed.as_ref().is_some_and(|allowed| {
            !allowed.finals.bounded && outcomes.keys().any(|end| !allowed.finals.states.contains(end))
        });
        self.measured = Some(Measured { outcomes, allowed });
        Ok(())
    }

    fn text(&self, with_states: bool) -> String {
        let name = if self.test.name.is_empty() { "a test without a name" } else { &self.test.name };
        let mut text = format!("{name} ({})\n", self.file.display());
        for judgement in &self.judgements {
            let bound = if judgement.finals.bounded { ", a bound: not all executions were seen" } else { "" };
            let race = if judgement.finals.race { ", with a data race" } else { "" };
            text += &format!(
                "  {:3}  {:9}  {} of {} states{race}{bound}\n",
                judgement.model.name(),
                verdict(judgement),
                judgement.holding,
                judgement.finals.states.len(),
            );
            if with_states {
                for state in self.states(judgement) {
                    text += &format!("       {state}\n");
                }
            }
        }
        if let Some(measured) = &self.measured {
            text += "  this processor\n";
            for (end, count) in &measured.outcomes {
                text += &format!("  {count:>12}  {}{}\n", self.state(end), forbidden(measured, end));
            }
            let unseen = measured.allowed.iter().flat_map(|allowed| &allowed.finals.states);
            for end in unseen.filter(|end| !measured.outcomes.contains_key(end)) {
                text += &format!("  {:>12}  {}\n", 0, self.state(end));
            }
        }
        text
    }

    fn state(&self, end: &Final) -> String {
        let places = self.test.places();
        let shown = places
            .iter()
            .map(|&place| format!("{}={};", self.test.name_of(place), self.test.show(place.value(end))));
        let mark = if self.test.condition.holds(end) { "  *" } else { "" };
        shown.collect::<Vec<_>>().join(" ") + mark
    }

    /// The final states as far as the test speaks of them, each once.
    fn states(&self, judgement: &Judgement) -> Vec<String> {
        let mut states = judgement.finals.states.iter().map(|end| self.state(end)).collect::<Vec<_>>();
        states.sort();
        states.dedup();
        states
    }

    fn state_json(&self, end: &Final) -> Value {
        let places = self.test.places();
        places
            .iter()
            .map(|&place| (self.test.name_of(place), json!(self.test.show(place.value(end)))))
            .collect()
    }

    fn json(&self) -> Value {
        let model = |judgement: &Judgement| {
            let mut states =
                judgement.finals.states.iter().map(|end| self.state_json(end)).collect::<Vec<_>>();
            states.sort_by_key(Value::to_string);
            states.dedup();
            let value = json!({
                "verdict": verdict(judgement),
                "observation": judgement.observation(),
                "satisfied": judgement.satisfies(self.test.quantifier),
                "complete": !judgement.finals.bounded,
                "race": judgement.finals.race,
                "executions": judgement.finals.counts,
                "states": states,
            });
            (judgement.model.name().to_owned(), value)
        };
        let mut value = json!({
            "file": self.file,
            "name": self.test.name,
            "quantifier": match self.test.quantifier {
                Quantifier::Exists => "exists",
                Quantifier::NotExists => "~exists",
                Quantifier::Forall => "forall",
            },
            "models": self.judgements.iter().map(model).collect::<serde_json::Map<_, _>>(),
        });
        if let Some(measured) = &self.measured {
            let outcome = |(end, count): (&Final, &u64)| {
                let allowed = measured.allowed.as_ref().map(|allowed| allowed.finals.states.contains(end));
                json!({ "count": count, "state": self.state_json(end), "allowed": allowed })
            };
            value["run"] = measured.outcomes.iter().map(outcome).collect();
        }
        value
    }
}

fn forbidden(measured: &Measured, end: &Final) -> &'static str {
    match &measured.allowed {
        Some(allowed) if !allowed.finals.states.contains(end) => "  FORBIDDEN by TSO",
        _ => "",
    }
}

fn verdict(judgement: &Judgement) -> &'static str {
    if judgement.is_allowed() { "Allowed" } else { "Forbidden" }
}
