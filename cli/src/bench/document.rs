//! `contend bench --write`: every benchmark, in one document.

use super::findings::{Findings, Goal};
use super::timing::Bench;
use super::{Line, measure};
use crate::calibrate::{processor_name, today};
use anyhow::Context as _;
use clap::Parser as _;
use std::fmt::Write as _;
use std::path::Path;

/// A chapter: what it is called, and the benchmark that fills it.
const CHAPTERS: [(&str, &[&str]); 11] = [
    ("Cost", &["cost"]),
    ("Ping-pong", &["ping-pong"]),
    ("Throughput by threads", &["throughput", "--threads", "1,2,8,64", "--section", "empty,4-lines"]),
    (
        "Throughput by think time",
        &["throughput", "--threads", "2,8", "--section", "1us", "--think-ns", "0,10000,100000"],
    ),
    (
        "Throughput by reads",
        &[
            "throughput",
            "--threads",
            "2,8",
            "--reads",
            "50,90,99,100",
            "--lock",
            "rw,futex,mcs,glibc-mutex,glibc-rwlock,std-mutex,std-rwlock,parking-lot-mutex,parking-lot-rwlock,\
         spin-rwlock,ck-rwlock,ck-pflock,tbb-spin-rw,tbb-queuing-rw,tbb-rw,absl-mutex,nsync-mu",
        ],
    ),
    ("Cache lines", &["cacheline"]),
    ("Semaphores", &["semaphore"]),
    ("fops", &["fops"]),
    ("mempop", &["mempop"]),
    ("pfind", &["pfind"]),
    ("An unmodified program's pair", &["pair"]),
];

/// Runs every benchmark and writes the document.
pub(crate) fn write(path: &Path, runs: u32) -> anyhow::Result<()> {
    let bench = Bench::new();
    let runs = runs.to_string();
    let mut goals = Vec::new();
    let mut chapters = String::new();
    for (number, (title, words)) in CHAPTERS.iter().enumerate() {
        eprintln!("contend: {} of {}: {title}", number + 1, CHAPTERS.len());
        let words = [*words, &["--runs", &runs]].concat();
        let line =
            Line::try_parse_from(["bench"].iter().chain(&words)).context("a benchmark of the document")?;
        let _ = writeln!(chapters, "## {title}\n\n`contend bench {}`\n", words.join(" "));
        match measure(&bench, &line.workload) {
            Ok(findings) => {
                chapters += &findings.markdown();
                goals.extend(findings.goals);
            }
            Err(error) => {
                let _ = writeln!(chapters, "Not measured: {error:#}.\n");
            }
        }
    }
    let document = format!("{}{chapters}", opening(&bench, path, &runs, &goals));
    std::fs::write(path, document.trim_end().to_owned() + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("contend: written to {}", path.display());
    Ok(())
}

fn opening(bench: &Bench, path: &Path, runs: &str, goals: &[Goal]) -> String {
    let lost = goals.iter().filter(|goal| goal.verdict() == "missed").count();
    format!(
        "# Benchmarks\n\n\
         Written by `contend bench --write {} --runs {runs}` on {}, on {} with {} cores ({:.2} GHz cycle counter).\n\n\
         Ratios and multiples are taken within one run of one machine; absolute times hold for that machine alone. Every \
         run counts under its lock, and a lock whose counter does not add up has no figures but says so. Values are \
         medians of {runs} interleaved rounds, with the least and the greatest in parentheses.\n\n\
         ## Goals\n\n{} of {} are missed; `within noise` means that the range reaches the bound and the median does \
         not.\n\n{}\n",
        path.display(),
        today(),
        processor_name(),
        bench.cores(),
        bench.ghz,
        lost,
        goals.len(),
        Findings::goals_table(goals).markdown()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::report::Spread;
    use machine::Topology;

    #[test]
    fn lost_goals_are_counted_and_shown() {
        let goal = |median: f64| Goal {
            goal: "g",
            subject: "a|b".into(),
            figure: Spread { low: median, median, high: median },
            bound: 1.0,
            at_least: false,
        };
        let bench = Bench { ghz: 2.5, topology: Topology::default() };
        let text = opening(&bench, Path::new("docs/benchmarks.md"), "5", &[goal(0.9), goal(1.1)]);
        assert!(text.contains("`contend bench --write docs/benchmarks.md --runs 5`"), "{text}");
        assert!(text.contains("1 of 2 are missed") && text.contains("| a\\|b |"), "{text}");
        assert!(text.contains("| missed |") && text.contains("| met |"), "{text}");
    }

    #[test]
    fn every_chapter_is_a_benchmark_that_parses() {
        for (title, words) in CHAPTERS {
            let line = Line::try_parse_from(["bench"].iter().chain(words));
            line.unwrap_or_else(|error| panic!("{title}: {error}"));
            if let Some(names) = words.iter().position(|word| *word == "--lock").map(|at| words[at + 1]) {
                for name in names.split(',') {
                    assert!(super::super::contenders::find(name).is_some(), "{title}: {name}");
                }
            }
        }
    }
}
