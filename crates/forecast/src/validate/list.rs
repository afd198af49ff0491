//! Lists of programs to validate predictions on.

use crate::profiled::share_in_use;
use anyhow::{Context as _, ensure};
use compare::gate::THREADS;
use compare::rounds::{End, Metric};
use compare::statistics::Better;
use compare::trial;
use profile::LockRow;
use profile::read::TableHeader;
use regex_lite::Regex;
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How a program's throughput is known.
#[derive(Debug, Clone)]
pub enum Throughput {
    /// By the time that it takes.
    WallTime,
    /// By a number that it prints.
    Printed {
        /// Finds it, in its first group.
        regex: Regex,
        /// Whether it is a throughput or a time.
        better: Better,
    },
}

impl Throughput {
    pub(super) fn metric(&self) -> Metric {
        match self {
            Self::WallTime => Metric::WallTime,
            Self::Printed { regex, better } => {
                Metric::Captured { regex: regex.clone(), better: *better, per_second: false }
            }
        }
    }

    /// A run's throughput, in any unit.
    pub(super) fn of(&self, value: f64, per_thread: bool, threads: u32) -> f64 {
        let work = if per_thread { f64::from(threads) } else { 1.0 };
        match self {
            Self::Printed { better: Better::Higher, .. } => value,
            Self::WallTime | Self::Printed { .. } => work / value.max(1e-9),
        }
    }

    fn is_wall_time(&self) -> bool {
        matches!(self, Self::WallTime)
    }
}

/// A program that can be run on any number of threads.
#[derive(Debug, Clone)]
pub struct Program {
    /// What tables call it.
    pub name: String,
    /// Its words, in one of which `{threads}` stands for the number of threads.
    pub command: Vec<String>,
    /// How its throughput is known.
    pub throughput: Throughput,
    /// Each thread has the same work, however many there are; else all share one work.
    pub per_thread: bool,
    /// Shell commands before the first run and after the last.
    pub set_up: Option<String>,
    /// As `set_up`, afterwards.
    pub clear_up: Option<String>,
}

impl Program {
    /// A program of a command line.
    ///
    /// # Errors
    ///
    /// A command in which nothing stands for the number of threads.
    pub fn new(
        name: impl Into<String>,
        command: Vec<String>,
        throughput: Throughput,
        per_thread: bool,
    ) -> anyhow::Result<Self> {
        let name = name.into();
        ensure!(
            command.iter().any(|word| word.contains(THREADS)),
            "the command of {name} does not say where its number of threads goes: write {THREADS} there, as in \
             `sysbench mutex --threads={THREADS} run`"
        );
        Ok(Self { name, command, throughput, per_thread, set_up: None, clear_up: None })
    }

    pub(super) fn words(&self, threads: u32) -> Vec<String> {
        self.command.iter().map(|word| word.replace(THREADS, &threads.to_string())).collect()
    }

    /// Prepares what the program needs; why that failed, if it did.
    pub(super) fn set_up(&self, limit: Duration) -> anyhow::Result<Option<String>> {
        self.set_up.as_deref().map_or(Ok(None), |line| shell(line, limit))
    }

    /// Removes what was prepared, after an interrupt too, which would end what is started in a group of its own.
    pub(super) fn clear_up(&self) {
        if let Some(line) = &self.clear_up {
            let _ = Command::new("sh").args(["-c", line]).stdin(Stdio::null()).output();
        }
    }

    /// Of one thread's time, the part in which it goes round between this lock and its work: all of it where the program times
    /// itself, else without what comes before the first acquisition and after the last.
    pub(super) fn locked_share(&self, row: &LockRow, header: &TableHeader) -> f64 {
        if self.throughput.is_wall_time() { share_in_use(row, header) } else { 1.0 }
    }
}

fn shell(line: &str, limit: Duration) -> anyhow::Result<Option<String>> {
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    let trial = trial::run(command, limit)?;
    let last = trial.output.lines().last().unwrap_or_default().to_owned();
    Ok((trial.end != End::Exited(0)).then(|| format!("`{line}` failed ({:?}): {last}", trial.end)))
}

/// A list as TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListFile {
    program: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    command: Vec<String>,
    metric: Option<String>,
    #[serde(default)]
    lower_is_better: bool,
    #[serde(default)]
    per_thread: bool,
    set_up: Option<String>,
    clear_up: Option<String>,
}

/// Reads a list of programs: TOML with a table `[[program]]` each.
///
/// # Errors
///
/// A file that cannot be read, that is no such list, or of which an entry is wrong.
pub fn read_list(path: &Path) -> anyhow::Result<Vec<Program>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read the list {}", path.display()))?;
    parse_list(&text).with_context(|| format!("in the list {}", path.display()))
}

fn parse_list(text: &str) -> anyhow::Result<Vec<Program>> {
    let list: ListFile = toml::from_str(text)?;
    let programs = list.program.into_iter().map(|entry| {
        let throughput = match &entry.metric {
            None => Throughput::WallTime,
            Some(metric) => {
                let regex = Regex::new(metric).with_context(|| format!("the metric of {}", entry.name))?;
                ensure!(regex.captures_len() > 1, "the metric of {} has no group in parentheses", entry.name);
                let better = if entry.lower_is_better { Better::Lower } else { Better::Higher };
                Throughput::Printed { regex, better }
            }
        };
        let program = Program::new(entry.name, entry.command, throughput, entry.per_thread)?;
        Ok(Program { set_up: entry.set_up, clear_up: entry.clear_up, ..program })
    });
    programs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_what_is_wrong_in_it_is_named() {
        let list =
            "[[program]]\nname = \"a\"\ncommand = [\"a\", \"-t{threads}\"]\nmetric = \"([0-9]+) op\"\n";
        let programs = parse_list(list).unwrap();
        assert_eq!(programs[0].words(8), ["a", "-t8"]);
        for (text, remedy) in [
            ("[[program]]\nname = \"a\"\ncommand = [\"a\"]\n", "{threads}"),
            ("[[program]]\nname = \"a\"\ncommand = [\"{threads}\"]\nmetric = \"x\"\n", "parentheses"),
            ("[[program]]\nname = \"a\"\n", "command"),
            ("[[program]]\nname = 1\ncommand = []\n", "string"),
            ("name = \"a\"", "unknown field"),
        ] {
            let error = format!("{:#}", parse_list(text).unwrap_err());
            assert!(error.contains(remedy), "{text}: {error}");
        }
        assert!(read_list(Path::new("no/such.toml")).unwrap_err().to_string().contains("no/such.toml"));
    }

    #[test]
    fn a_time_is_turned_into_work_over_time() {
        assert_eq!(Throughput::WallTime.of(2.0, false, 4), 0.5);
        assert_eq!(Throughput::WallTime.of(2.0, true, 4), 2.0);
        let printed = |better| Throughput::Printed { regex: Regex::new("(x)").unwrap(), better };
        assert_eq!(printed(Better::Higher).of(3.0, true, 4), 3.0);
        assert_eq!(printed(Better::Lower).of(4.0, false, 4), 0.25);
    }
}
