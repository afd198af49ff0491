//! What a language's runtime tells itself of waits for its locks, which nothing outside of it sees: Go's mutex and block profiles, and
//! recordings of Java's Flight Recorder.

mod go;
mod java;
mod jfr;

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Serialize;

use super::files;

/// Bytes of a function's name or a file's that are kept.
const LONGEST_NAME: usize = 512;
/// Rows that are kept, those with most time; the rest are one.
const MOST_ROWS: usize = 4_096;

/// Whose account it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// Go's.
    Go,
    /// Java's.
    Java,
}

/// Waits as a runtime tells them. Go scales counts and times of a sampled profile up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuntimeWaits {
    /// Whose account it is.
    pub runtime: Runtime,
    /// Its rows, in order of the time waited.
    pub rows: Vec<RuntimeRow>,
    /// How long it was taken for, ns; none where the runtime does not say, as Go does not for a profile of all that was so far.
    pub duration_ns: Option<u64>,
    /// Waits for locks that were shorter than this are not in it, ns; none where there is no such limit.
    pub threshold_ns: Option<f64>,
    /// The file ends before its account does, as that of a program that was killed.
    pub cut_off: bool,
}

/// Waits of one kind in, or behind, one line of the program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuntimeRow {
    /// What was waited for: `mutex`, `rwlock write`, `channel` and so on.
    pub way: &'static str,
    /// The class of the lock, where the runtime tells it. Safe to print.
    pub class: Option<String>,
    /// Whether the line is that of the holder, who made others wait, as Go's mutex profiles tell it; else it is that of the waiter.
    pub behind: bool,
    /// The function. Safe to print.
    pub function: String,
    /// The line in which it waits, or releases what others wait for. Safe to print.
    pub source: String,
    /// The thread behind which most of the time was waited, where the runtime tells it. Safe to print.
    pub behind_thread: Option<String>,
    /// How often.
    pub waits: u64,
    /// How long in all, ns.
    pub waited_ns: f64,
}

impl RuntimeRow {
    /// Whether it is a lock that was waited for.
    pub fn is_lock(&self) -> bool {
        matches!(self.way, "mutex" | "rwlock read" | "rwlock write" | "runtime lock" | "monitor")
    }
}

/// Why a file is no such account.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// It cannot be read or unpacked.
    #[error("cannot read the profile {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// What was packed goes on after its end.
    #[error("{} is truncated: what gzip packed goes on after its end; fetch it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
    },
    /// It unpacks to more than is read.
    #[error("{} unpacks to more than {} MB, which no profile of Go's mutexes is", path.display(), go::LONGEST >> 20)]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// It is another profile of Go's, or none.
    #[error(
        "{} is no mutex or block profile of Go: {what}; take one by /debug/pprof/mutex of net/http/pprof, with runtime.SetMutexProfileFraction(1)",
        path.display()
    )]
    OtherOfGo {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// Nothing of a recording of Java's can be read.
    #[error("{} is no recording of Java's Flight Recorder that can be read: {what}; make it anew by jcmd PID JFR.dump filename=FILE", path.display())]
    OtherOfJava {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
}

impl RuntimeWaits {
    /// Whose account a file begins as, if that of a runtime.
    pub fn whose(path: &Path) -> Option<Runtime> {
        let mut begin = [0; 4];
        let length = files::open(path)?.read(&mut begin).ok()?;
        match &begin[..length] {
            begin if begin.starts_with(&go::GZIP) => Some(Runtime::Go),
            begin if begin == jfr::MAGIC => Some(Runtime::Java),
            _ => None,
        }
    }

    /// Reads the account of this runtime.
    ///
    /// # Errors
    /// [`RuntimeError`].
    pub fn open(runtime: Runtime, path: &Path) -> Result<Self, RuntimeError> {
        match runtime {
            Runtime::Go => go::open(path),
            Runtime::Java => java::open(path),
        }
    }
}

/// What waits have in common that are one row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    way: &'static str,
    class: Option<Rc<str>>,
    behind: bool,
    function: Rc<str>,
    source: Rc<str>,
}

/// Waits of one place.
#[derive(Debug, Default)]
struct Sum {
    waits: u64,
    waited_ns: f64,
    /// Time waited by the thread behind which that was.
    owners: BTreeMap<Rc<str>, f64>,
}

/// Waits by place, of which rows are made.
#[derive(Debug, Default)]
struct Sums(BTreeMap<Place, Sum>);

impl Sums {
    fn add(&mut self, place: Place, waits: u64, waited_ns: f64, owner: Option<Rc<str>>) {
        let sum = self.0.entry(place).or_default();
        sum.waits = sum.waits.saturating_add(waits);
        sum.waited_ns += waited_ns;
        if let Some(owner) = owner {
            *sum.owners.entry(owner).or_default() += waited_ns;
        }
    }

    fn rows(self) -> Vec<RuntimeRow> {
        let mut all: Vec<(Place, Sum)> = self.0.into_iter().collect();
        all.sort_by(|(_, a), (_, b)| b.waited_ns.total_cmp(&a.waited_ns)); // stable: by name where they are alike
        let rest = all.split_off(all.len().min(MOST_ROWS));
        let mut rows: Vec<RuntimeRow> = all.into_iter().map(|(place, sum)| row(&place, &sum)).collect();
        if !rest.is_empty() {
            let text = Rc::from(format!("{} more places", rest.len()));
            let place = Place { way: "other", class: None, behind: false, function: text, source: "".into() };
            let sum = |all: Sum, (_, one): &(Place, Sum)| Sum {
                waits: all.waits.saturating_add(one.waits),
                waited_ns: all.waited_ns + one.waited_ns,
                ..all
            };
            rows.push(row(&place, &rest.iter().fold(Sum::default(), sum)));
        }
        rows
    }
}

fn row(place: &Place, sum: &Sum) -> RuntimeRow {
    let longest = sum.owners.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
    RuntimeRow {
        way: place.way,
        class: place.class.as_deref().map(str::to_owned),
        behind: place.behind,
        function: place.function.as_ref().to_owned(),
        source: place.source.as_ref().to_owned(),
        behind_thread: longest.map(|(owner, _)| owner.as_ref().to_owned()),
        waits: sum.waits,
        waited_ns: sum.waited_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_past_the_most_rows_is_one() {
        let mut sums = Sums::default();
        for number in 0..MOST_ROWS + 3 {
            let function = Rc::from(format!("f{number}"));
            let place = Place { way: "mutex", class: None, behind: false, function, source: "".into() };
            sums.add(place, 2, 1_000.0 + number as f64, None);
        }
        let rows = sums.rows();
        let last = rows.last().unwrap();
        assert_eq!((rows.len(), last.function.as_str(), last.waits), (MOST_ROWS + 1, "3 more places", 6));
        assert_eq!(last.waited_ns, 3_003.0, "those with least time");
    }

    #[test]
    fn a_pipe_is_nobodys_account_and_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(RuntimeWaits::whose(&pipe), None);
    }

    #[test]
    fn the_thread_behind_which_most_was_waited_is_told() {
        let place = Place {
            way: "monitor",
            class: Some("Cache".into()),
            behind: false,
            function: "get".into(),
            source: "".into(),
        };
        let mut sums = Sums::default();
        for (ns, owner) in [(10.0, "a"), (30.0, "b"), (15.0, "a")] {
            sums.add(place.clone(), 1, ns, Some(owner.into()));
        }
        let rows = sums.rows();
        assert_eq!(
            (rows[0].waits, rows[0].waited_ns, rows[0].behind_thread.as_deref()),
            (3, 55.0, Some("b"))
        );
    }
}
