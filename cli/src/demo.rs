//! `contend demo`: the whole story on a program that travels inside the command.

pub(crate) mod program;

use crate::output::{command_line, write_page};
use crate::progress::BARS;
use crate::{PRELOAD, interrupt, machines};
use anyhow::Context as _;
use compare::gate::THREADS;
use forecast::advise::{Advice, Asked, COLUMNS, Counted, forget, measure};
use forecast::story::{Story, is_told_later, is_told_now};
use launch::program::Program;
use regex_lite::Regex;
use report::Screen;
use session::output_file::OutputFile;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Tell the whole story in a minute, on a small program of its own.
///
/// Builds nothing and downloads nothing. The program looks into a table under one pthread reader-writer lock and now and then changes it:
/// readers and writers make each other sleep, which hurts on two cores. And it answers requests and notes each under a pthread spin
/// lock, which hurts on some tens of cores. What is run is `contend advise` on each, as you can type it for a program of your own.
///
/// Ends with the answer for the first lock, what becomes of the second on a larger machine, and what was predicted beside what was
/// measured. What could not be told is run again, three times in all, and what could not be told in the end is said with the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend demo
  contend demo -o somewhere     # where profiles, measurements and pages go")]
pub(crate) struct Args {
    /// Where profiles, measurements and pages go; made if it is not there
    #[arg(short, long, value_name = "DIR", default_value = "contend-demo")]
    output: PathBuf,
}

/// The machine that is asked about.
const TARGET: &str = "epyc-9654x2";

/// A part of the program.
struct Part {
    name: &'static str,
    work: &'static str,
    duration: &'static str,
    is_told: fn(&Advice) -> bool,
}

const NOW: Part = Part { name: "table", work: "lookup", duration: "300ms", is_told: is_told_now };

const LATER: Part = Part { name: "journal", work: "request", duration: "200ms", is_told: is_told_later };

/// What the program prints of itself, without its start.
const THROUGHPUT: &str = "throughput: ([0-9]+)";

/// What could not be told is run again, so often in all, but not when the demo has taken so long.
const TRIES: usize = 3;
const LONG: Duration = Duration::from_secs(45);

/// As wide as the answers in it, in a pipe too.
fn screen() -> Screen {
    Screen::stdout().at_most(COLUMNS)
}

/// Prints a paragraph.
fn say(paragraph: &str) {
    println!("{}", screen().fit(paragraph));
}

/// Runs `contend demo`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    interrupt::keep();
    say(
        "The program's first lock hurts here, and its second will on a larger machine. Which are they, and what helps?",
    );
    let cut_short = |error: anyhow::Error| match interrupt::came() {
        true => Ok(interrupt::exit_code(&format!("{error:#}"), ExitCode::FAILURE)),
        false => Err(error),
    };
    let now = match NOW.advice(&args.output, started) {
        Ok(now) => now,
        Err(error) => return cut_short(error),
    };
    let later = if interrupt::came() { None } else { Some(LATER.advice(&args.output, started)) };
    let later = match later {
        Some(Ok(later)) => later,
        Some(Err(error)) if !interrupt::came() => return Err(error),
        // What is known of the first lock is said.
        _ => {
            print!("\n{}", now.terminal(screen()));
            return Ok(interrupt::exit_code("the first of two locks was looked at", ExitCode::FAILURE));
        }
    };
    println!();
    print!("{}", Story { now: &now, later: &later }.lines(screen()));
    if let Some(contrast) = now.contrast() {
        let path = args.output.join("predicted.svg");
        OutputFile::at(&path)?.write(contrast.svg())?;
    }
    let pages = [(&NOW, &now), (&LATER, &later)].map(|(part, advice)| {
        let path = args.output.join(part.name).with_extension("html");
        let made_by = command_line(&part.command_line(&args.output));
        write_page(OutputFile::at(&path)?, &advice.page()?.made_by(&made_by).html())?;
        anyhow::Ok(path.display().to_string())
    });
    let [one, other] = pages;
    say(&format!("Pages: {} and {}; open them in a browser.", one?, other?));
    Ok(interrupt::exit_code("what was measured by then is said", ExitCode::SUCCESS))
}

/// The name by which this command was started, where that leads to it again: a reader can type it. Else its path.
fn own_name(contend: &Path) -> OsString {
    let leads_here = |name: &OsString| {
        Program::find(name).is_ok_and(|found| found.path().canonicalize().is_ok_and(|path| path == contend))
    };
    std::env::args_os().next().filter(leads_here).unwrap_or_else(|| contend.into())
}

impl Part {
    /// Measures this part of the program, again while it does not tell its part of the story.
    fn advice(&self, output: &Path, started: Instant) -> anyhow::Result<Advice> {
        say(&format!("\n$ {}", command_line(&self.command_line(output))));
        let folder = output.join(self.name);
        let asked = self.asked(&folder)?;
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}: name another place with --output", folder.display()))?;
        for tried in 1.. {
            // An answer from what an earlier demo has left would be no demo.
            forget(&folder, &asked.threads)?;
            let begun = Instant::now();
            let advice = Advice::new(&asked, measure(&asked, &BARS)?, &BARS)?;
            let is_last = tried == TRIES || started.elapsed() + begun.elapsed() > LONG;
            if (self.is_told)(&advice) || interrupt::came() || is_last {
                return Ok(advice);
            }
            say(if advice.disturbed.is_empty() {
                "It could not be told: once more."
            } else {
                "Something else ran meanwhile: once more."
            });
        }
        unreachable!("the last try gives its answer")
    }

    fn asked(&self, folder: &Path) -> anyhow::Result<Asked> {
        let contend = std::env::current_exe().context("cannot find the command itself")?;
        let command = self.program(own_name(&contend));
        Ok(Asked {
            library: PRELOAD,
            contend,
            threads: Asked::usual_threads(&command),
            usual_threads: true,
            command,
            work: Counted::Throughput(Regex::new(THROUGHPUT).context("a constant")?),
            target: machines::load(TARGET)?,
            here: machines::this_or_assumed()?,
            time_limit: LONG,
            folder: folder.to_owned(),
            is_kept: true,
        })
    }

    /// The program and its arguments.
    fn program(&self, contend: OsString) -> Vec<OsString> {
        let words = ["demo-program", "--work", self.work, "--threads", THREADS, "--duration", self.duration];
        std::iter::once(contend).chain(words.map(OsString::from)).collect()
    }

    /// The same as one types it.
    fn command_line(&self, output: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["advise".into(), "-o".into(), output.join(self.name).into()];
        words.extend(["--target", TARGET, "--metric", THROUGHPUT, "--"].map(OsString::from));
        words.extend(self.program("contend".into()));
        words
    }
}
