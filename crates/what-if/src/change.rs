//! Changes to a program, as `--what-if` writes them.

use curve::text::{printable, short};
use model::{Family, Parameters};
use serde::{Deserialize, Serialize};
use topology::Range;

/// What sections that run as transactions do to each other. A profile does not tell, so that both ends are predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conflicts {
    /// No two change the same lines.
    None,
    /// All change the same lines.
    All,
}

impl Conflicts {
    /// In a few words.
    fn name(self) -> &'static str {
        match self {
            Self::None => "none conflict",
            Self::All => "all conflict",
        }
    }
}

/// A lock that may be put in place of the program's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alternative {
    /// The name that was given: of a lock, or of a family.
    pub name: String,
    /// If the lock is elided, which end this is.
    pub elided: Option<Conflicts>,
    /// The family that it is, or belongs to.
    pub family: Family,
    /// Whether readers share it. Of a family there is a reader-writer lock as well; of a lock, only if it is one.
    pub shared: bool,
}

impl Alternative {
    /// What tables call it.
    #[must_use]
    pub fn label(&self) -> String {
        match self.elided {
            Some(conflicts) => format!("{}, {}", self.name, conflicts.name()),
            None => self.name.clone(),
        }
    }
}

/// Text that is no change, with what is wrong and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChangeError(String);

/// The least and the most that a word of a change takes.
const SECTION: [f64; 2] = [0.01, 1.0];
const FACTOR: [f64; 2] = [0.01, 100.0];
const READS: [f64; 2] = [0.0, 1.0];
pub(crate) const MOST_LOCKS: u32 = 1_024;
pub(crate) const MOST_OPERATIONS: u32 = 4_096;
const MOST_THREADS: u32 = 1_024;

/// A change to the program.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The part of the section that is left; the rest of its work is done outside of the lock.
    pub section: f64,
    /// The think time is so many times as long.
    pub think: f64,
    /// Into so many locks the lock is split, each with its part of the data.
    pub split: u32,
    /// So many acquisitions become one.
    pub batch: u32,
    /// The program runs on so many threads.
    pub threads: Option<u32>,
    /// The lock is put in place of the program's own.
    pub lock: Option<Alternative>,
    /// This share of the sections only reads, under a lock that readers share.
    pub reads: Option<f64>,
}

impl Change {
    /// Whether it is of one thing alone: of the lock, of the threads, or of any other.
    #[must_use]
    pub fn is_one_word(&self) -> bool {
        !self.name().contains(',')
    }

    /// The program as it is.
    pub const NONE: Self =
        Self { section: 1.0, think: 1.0, split: 1, batch: 1, threads: None, lock: None, reads: None };

    /// Reads `section=0.5,think=2,split=4,batch=8,threads=16,lock=mcs,reads=0.9`, each at most once, at least one.
    /// `lock` finds a lock by its name.
    ///
    /// # Errors
    ///
    /// An unknown word, a value out of its range, or what `lock` says of an unknown lock.
    pub fn parse(
        text: &str,
        lock: impl Fn(&str) -> Result<Alternative, String>,
    ) -> Result<Self, ChangeError> {
        let mut change = Self::NONE;
        let mut seen = Vec::new();
        for word in text.split(',') {
            let Some((name, value)) = word.split_once('=') else {
                return Err(ChangeError(format!(
                    "`{}`: write NAME=VALUE, as in section=0.5,split=4",
                    printable(word)
                )));
            };
            if seen.contains(&name) {
                return Err(ChangeError(format!("`{}` is there twice", printable(name))));
            }
            seen.push(name);
            let word = Word { name, value };
            match name {
                "section" => change.section = word.number(SECTION)?,
                "think" => change.think = word.number(FACTOR)?,
                "split" => change.split = word.whole(MOST_LOCKS)?,
                "batch" => change.batch = word.whole(MOST_OPERATIONS)?,
                "threads" => change.threads = Some(word.whole(MOST_THREADS)?),
                "reads" => change.reads = Some(word.number(READS)?),
                "lock" => change.lock = Some(lock(value).map_err(ChangeError)?),
                _ => {
                    return Err(word.wrong(
                        "what can be changed is section, think, split, batch, threads, lock and reads",
                    ));
                }
            }
        }
        Ok(change)
    }

    /// As `--what-if` writes it; empty for the program as it is.
    #[must_use]
    pub fn name(&self) -> String {
        let mut words = Vec::new();
        for (name, number) in [("section", self.section), ("think", self.think)] {
            if number != 1.0 {
                words.push(format!("{name}={}", short(number)));
            }
        }
        for (name, number) in [("split", self.split), ("batch", self.batch)] {
            if number > 1 {
                words.push(format!("{name}={number}"));
            }
        }
        words.extend(self.threads.map(|threads| format!("threads={threads}")));
        words.extend(self.lock.as_ref().map(|lock| format!("lock={}", lock.name)));
        words.extend(self.reads.map(|share| format!("reads={}", short(share))));
        words.join(",")
    }

    /// The change as an instruction; `code` is the lock that stands in.
    pub(crate) fn instruction(&self, site: &str, code: Option<&str>) -> String {
        let mut words = Vec::new();
        if let Some(lock) = code {
            words.push(format!("put `{lock}` in its place"));
        }
        if self.section < 1.0 {
            words.push(format!(
                "do {:.0} % of the section's work outside of it",
                100.0 * (1.0 - self.section)
            ));
        }
        if self.think != 1.0 {
            words.push(format!("make the think time {} times as long", short(self.think)));
        }
        if self.split > 1 {
            words.push(format!("split it into {} locks, each with its part of the data", self.split));
        }
        if self.batch > 1 {
            words.push(format!("take it once for {} operations", self.batch));
        }
        if let Some(share) = self.reads {
            words.push(format!("take it shared where a section only reads ({:.0} % of them)", 100.0 * share));
        }
        if let Some(threads) = self.threads {
            words.push(if threads == 1 { "run one thread".into() } else { format!("run {threads} threads") });
        }
        format!("{}: {}", printable(site), words.join(", and "))
    }

    /// The parameters of the chain after the change, but for what a split does.
    pub(crate) fn parameters(&self, before: &Parameters) -> Parameters {
        let moved = |range: Range| range.scaled(1.0 - self.section);
        let batch = f64::from(self.batch);
        let mut after = before.clone();
        after.think_ns = before.think_ns.scaled(self.think).plus(moved(before.same_ns)).scaled(batch);
        after.same_ns = before.same_ns.scaled(self.section * batch);
        after.growth_ns = before.growth_ns.scaled(self.section);
        after.read_share = match (&self.lock, self.reads) {
            (Some(lock), _) if !lock.shared => None,
            (_, Some(share)) => Some(share),
            (_, None) => before.read_share,
        };
        after
    }

    /// The family of the lock after the change, of one that was of the family `before`.
    pub(crate) fn family(&self, before: Family) -> Family {
        match (&self.lock, self.reads) {
            (Some(lock), _) => lock.family,
            (None, Some(_)) => Family::BackOffThenSleep,
            (None, None) => before,
        }
    }
}

/// One word of a change.
struct Word<'a> {
    name: &'a str,
    value: &'a str,
}

impl Word<'_> {
    fn number(&self, [least, most]: [f64; 2]) -> Result<f64, ChangeError> {
        let number = self.value.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.wrong(&format!("{} takes a number from {least} to {most}", self.name)))
    }

    fn whole(&self, most: u32) -> Result<u32, ChangeError> {
        let number = self.number([1.0, f64::from(most)])?;
        if number.fract() != 0.0 {
            return Err(self.wrong(&format!("{} is a whole number", self.name)));
        }
        Ok(number as u32)
    }

    fn wrong(&self, what: &str) -> ChangeError {
        ChangeError(format!("`{}={}`: {what}", printable(self.name), printable(self.value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Change, ChangeError> {
        Change::parse(text, |name| match name {
            "mcs" => {
                Ok(Alternative { name: "mcs".into(), elided: None, family: Family::Queue, shared: false })
            }
            other => Err(format!("no lock `{other}`")),
        })
    }

    #[test]
    fn what_is_asked_for_is_read_and_written_alike() {
        for text in
            ["section=0.500,split=4,batch=8,threads=16,lock=mcs", "think=2.00", "reads=0.900", "split=2"]
        {
            assert_eq!(parse(text).unwrap().name(), text);
        }
        for (text, remedy) in [
            ("section", "NAME=VALUE"),
            ("section=2", "from 0.01 to 1"),
            ("think=0", "from 0.01 to 100"),
            ("split=1.5", "whole number"),
            ("split=0", "from 1 to 1024"),
            ("batch=x", "takes a number"),
            ("speed=2", "what can be changed is"),
            ("lock=nosuch", "no lock `nosuch`"),
            ("split=2,split=3", "twice"),
            ("reads=NaN", "from 0 to 1"),
            ("", "NAME=VALUE"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }
}
