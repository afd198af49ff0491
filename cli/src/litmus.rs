//! `contend litmus`: small programs, and what each memory model says about them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use checker::Model;
use checker::litmus::{Limits, ParseError, Test, Trouble};
use rayon::prelude::*;
use report::Screen;
use report::text::printable;
use serde_json::{Value, json};

use crate::arguments;
use lab::litmus::{Expected, TestOutcome, Weakness, explain, files};

/// Say which outcomes of a small program each memory model allows.
///
/// Reads tests in herd's format, for x86 and in a subset of C. "Allowed" means that some execution ends in a state that
/// the test's condition describes. The models are sequential consistency, total store order (x86), partial store order,
/// and release-acquire as in RC11; x86 moves count as acquire and release there.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend litmus tests/litmus                       # all tests of a directory
  contend litmus 'suite/**/MP*.litmus' suite/@all   # a pattern, and a list of files as herd has them
  contend litmus --model tso --states SB.litmus     # what can be in the registers at the end
  contend litmus --expect kinds.txt suite           # compare with published verdicts
  contend litmus --run SB.litmus                    # what this processor does, beside what TSO allows
  contend litmus --explain                          # the store-buffering table of every textbook
  contend litmus tests/litmus --json | jq '.[] | select(.models.tso.verdict == \"Allowed\") | .name'

Exit status: 0 when all went well; 1 when a verdict is not the expected one or the processor did what its model
forbids; else 2 when a file is no litmus test, or there is none; else 3 when a test uses what is not supported.")]
pub(crate) struct Args {
    /// Tests, directories that are searched for files ending in .litmus, patterns, or lists whose name starts with @
    #[arg(value_name = "FILE|DIR|@LIST", required_unless_present = "explain")]
    paths: Vec<PathBuf>,

    /// Only these models: sc, tso, pso or ra. In ra a release sequence is that of C++20: later
    /// read-modify-writes of any thread continue it, later plain and relaxed stores of the releasing thread do not, as
    /// they did in C11
    #[arg(long, value_name = "MODEL,…", value_delimiter = ',')]
    model: Vec<Model>,

    /// Print the final states too
    #[arg(long)]
    states: bool,

    /// Print everything as JSON
    #[arg(long)]
    json: bool,

    /// Print only what is not as expected, what could not be read, and the sum
    #[arg(long, short)]
    quiet: bool,

    /// Compare with published verdicts: herd's kinds.txt or log, a CSV table, or JSON. Verdicts that name no model are
    /// of --model, or of tso
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,

    /// Turns of a loop that are followed; turns that only wait are not counted
    #[arg(long, value_name = "N", default_value_t = 4)]
    unroll: usize,

    /// How long one test may take under one model; what was seen until then is a bound
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = arguments::duration)]
    time_limit: Duration,

    /// Run the tests on this processor too; an outcome that its model forbids is a failure. Says so where nothing weak
    /// was seen, as on one core
    #[arg(long)]
    run: bool,

    /// How often, with --run
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    iterations: u64,

    /// Explain store buffering: all interleavings, what each model forbids, what a fence changes
    #[arg(long)]
    explain: bool,
}

/// A file that is no text worth reading is not read whole.
const MOST_BYTES: u64 = 1 << 20;
/// Files that are outcome at side by side before they are printed.
const BATCH: usize = 64;

/// Runs `contend litmus`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.explain {
        if args.json {
            println!("{}", serde_json::to_string_pretty(&explain::json())?);
        } else {
            print!("{}", Screen::stdout().fit(&explain::text()));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let started = Instant::now();
    let files = match files::find(&args.paths) {
        Ok(files) => files,
        Err(error) => {
            say(&error);
            return Ok(ExitCode::from(2));
        }
    };
    let job = Job::new(args)?;
    let screen = Screen::stdout();
    let mut sum = Sum::default();
    let mut all = Vec::new();
    for batch in files.chunks(BATCH) {
        let results: Vec<_> = if args.run {
            // One at a time: the processor is what is outcome at.
            batch.iter().map(|file| job.look_at(file)).collect()
        } else {
            batch.par_iter().map(|file| job.look_at(file)).collect()
        };
        for (file, result) in batch.iter().zip(results) {
            sum.add(&result);
            match (result, args.json) {
                (Ok(outcome), true) => all.push(outcome.json()),
                (Ok(outcome), false) if !args.quiet || outcome.is_failed() => {
                    print!("{}", screen.fit(&outcome.text(args.states)));
                }
                (Ok(_), false) => {}
                (Err(error), true) => all.push(json!({ "file": file, "error": error_json(&error) })),
                (Err(error), false) => say(&error),
            }
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else if files.len() > 1 {
        print!("{}", screen.fit(&sum.text(job.expected.as_ref(), started.elapsed())));
    }
    Ok(sum.exit_code())
}

/// Prints what is wrong with a file.
fn say(error: &anyhow::Error) {
    let line = format!("contend: {}\n", printable(&format!("{error:#}")));
    eprint!("{}", Screen::stderr().fit(&line));
}

/// What is wanted of every file.
struct Job {
    models: Vec<Model>,
    limits: Limits,
    expected: Option<Expected>,
    /// How often to run on the processor.
    iterations: Option<u64>,
}

impl Job {
    fn new(args: &Args) -> anyhow::Result<Self> {
        let models = if args.model.is_empty() { Model::ALL.to_vec() } else { args.model.clone() };
        let unnamed = if let [only] = args.model[..] { only } else { Model::Tso };
        Ok(Self {
            models,
            limits: Limits { turns: args.unroll, time: Some(args.time_limit), ..Limits::default() },
            expected: args.expect.as_ref().map(|path| Expected::read(path, unnamed)).transpose()?,
            iterations: args.run.then_some(args.iterations),
        })
    }

    fn look_at<'a>(&self, file: &'a Path) -> anyhow::Result<TestOutcome<'a>> {
        let size = std::fs::metadata(file).map_or(0, |about| about.len());
        anyhow::ensure!(
            size <= MOST_BYTES,
            "{}: {size} bytes are too many for a litmus test",
            file.display()
        );
        let bytes = std::fs::read(file).with_context(|| format!("{}: cannot be read", file.display()))?;
        let named = |error: ParseError| anyhow::Error::new(error).context(file.display().to_string());
        let test = Test::parse(&String::from_utf8_lossy(&bytes)).map_err(named)?;
        let judge = |&model: &Model| test.judge_within(model, &self.limits);
        let judgements = self.models.iter().map(judge).collect::<Vec<_>>();
        if let Some(fault) = judgements.iter().find_map(|judgement| judgement.finals.fault) {
            return Err(named(test.explain(&fault)));
        }
        let mut outcome = TestOutcome::new(file, test, judgements, self.expected.as_ref());
        if let Some(iterations) = self.iterations {
            outcome.run(iterations, &self.limits).map_err(named)?;
        }
        Ok(outcome)
    }
}

fn error_json(error: &anyhow::Error) -> Value {
    match error.downcast_ref::<ParseError>() {
        Some(parse) => json!({
            "kind": if parse.trouble == Trouble::Unsupported { "refused" } else { "malformed" },
            "line": parse.at.line,
            "column": parse.at.column,
            "message": parse.message,
        }),
        None => json!({ "kind": "unreadable", "message": format!("{error:#}") }),
    }
}

/// How many tests came out how.
#[derive(Debug, Default)]
struct Sum {
    tests: usize,
    bounded: usize,
    refused: usize,
    unreadable: usize,
    agreeing: usize,
    compared: usize,
    /// Tests that were run on a processor that may do what threads that take turns cannot, and of these those that did.
    could_be_weak: usize,
    weak: usize,
    failed: bool,
}

impl Sum {
    fn add(&mut self, result: &anyhow::Result<TestOutcome<'_>>) {
        self.tests += 1;
        match result {
            Ok(outcome) => {
                self.bounded += usize::from(!outcome.is_decided());
                let (agreeing, compared) = outcome.agreement();
                self.agreeing += agreeing;
                self.compared += compared;
                self.could_be_weak +=
                    usize::from(!matches!(outcome.weakness(), None | Some(Weakness::NotTested)));
                self.weak += usize::from(outcome.weakness() == Some(Weakness::Seen));
                self.failed |= outcome.is_failed();
            }
            Err(error) => match error.downcast_ref::<ParseError>().map(|parse| parse.trouble) {
                Some(Trouble::Unsupported) => self.refused += 1,
                _ => self.unreadable += 1,
            },
        }
    }

    fn text(&self, expected: Option<&Expected>, elapsed: Duration) -> String {
        let decided = self.tests - self.bounded - self.refused - self.unreadable;
        let mut text = format!("{} tests: {decided} decided", self.tests);
        for (count, what) in
            [(self.bounded, "bounds"), (self.refused, "refused"), (self.unreadable, "no litmus tests")]
        {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        if let Some(expected) = expected {
            let (agreeing, compared) = (self.agreeing, self.compared);
            text += &format!(
                "; {agreeing} of {compared} verdicts as expected, of {} tests named",
                expected.tests()
            );
        }
        text += &format!("; {:.2} s\n", elapsed.as_secs_f64());
        if self.could_be_weak > 0 && self.weak == 0 {
            let tests = self.could_be_weak;
            text += &format!(
                "Tests in which this processor may do something weak: {tests}; it did so in none.\n"
            );
        }
        text
    }

    fn exit_code(&self) -> ExitCode {
        match self {
            Self { failed: true, .. } => ExitCode::from(1),
            Self { unreadable: 1.., .. } => ExitCode::from(2),
            Self { refused: 1.., .. } => ExitCode::from(3),
            _ => ExitCode::SUCCESS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::every_screen;

    /// What comes of looking at files with these contents, and expecting these verdicts.
    fn sum_of(files: &[&str], expected: &str) -> Sum {
        let directory = tempfile::tempdir().expect("a directory");
        let table = directory.path().join("kinds.txt");
        std::fs::write(&table, expected).expect("a file");
        let job = Job {
            models: vec![Model::Tso],
            limits: Limits::default(),
            expected: Some(Expected::read(&table, Model::Tso).expect("verdicts")),
            iterations: None,
        };
        let mut sum = Sum::default();
        for (number, text) in files.iter().enumerate() {
            let file = directory.path().join(format!("{number}.litmus"));
            std::fs::write(&file, text).expect("a file");
            sum.add(&job.look_at(&file));
        }
        sum
    }

    const RIGHT: &str = "X86 A\n{ }\n P0 ;\n MOV [x],$1 ;\nexists (x=1)";
    const REFUSED: &str = "PPC A\n{ }\n P0 ;\nexists (x=1)";
    const BROKEN: &str = "X86 A\n{ ";
    const ENDLESS: &str = "X86 A\n{ }\n P0 ;\n L0: INC EAX ;\n JMP L0 ;\nexists (x=1)";

    #[test]
    fn the_exit_status_tells_wrong_from_broken_from_refused() {
        let code = |files: &[&str], expected: &str| format!("{:?}", sum_of(files, expected).exit_code());
        let status = |number: u8| format!("{:?}", ExitCode::from(number));
        assert_eq!(code(&[RIGHT], "A Allowed"), status(0));
        assert_eq!(code(&[RIGHT, REFUSED, BROKEN], "A Forbidden"), status(1));
        assert_eq!(code(&[RIGHT, REFUSED, BROKEN], "A Allowed"), status(2));
        assert_eq!(code(&[RIGHT, REFUSED], "A Allowed"), status(3));
    }

    #[test]
    fn every_test_is_counted_as_one_of_decided_bound_refused_and_none() {
        let sum = sum_of(&[RIGHT, ENDLESS, REFUSED, BROKEN], "A Allowed\nB Forbidden");
        let text = sum.text(None, Duration::from_millis(1_500));
        assert_eq!(text, "4 tests: 1 decided, 1 bounds, 1 refused, 1 no litmus tests; 1.50 s\n");
        // The bound says nothing about what it did not see.
        assert_eq!((sum.agreeing, sum.compared), (1, 1));
    }

    #[test]
    fn outcomes_on_every_screen() {
        const STORE_BUFFERING: &str = "X86 SB\n{ }\n P0 | P1 ;\n MOV [x],$1 | MOV [y],$1 ;\n MOV EAX,[y] | MOV EAX,[x] ;\nexists (0:EAX=0 /\\ 1:EAX=0)";
        let test = Test::parse(STORE_BUFFERING).expect("a test");
        let judgements = Model::ALL.map(|model| test.judge(model)).to_vec();
        let outcome = TestOutcome::new(Path::new("suite/SB.litmus"), test, judgements, None);
        let sum = Sum { tests: 4, bounded: 1, refused: 1, unreadable: 1, could_be_weak: 2, ..Sum::default() };
        let text = outcome.text(true) + &sum.text(None, Duration::from_millis(1_500));
        insta::assert_snapshot!(every_screen(&["SB (suite/SB.litmus)"], |screen| screen.fit(&text)));
    }
}
