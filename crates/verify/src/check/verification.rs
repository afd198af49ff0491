//! The results as a page, `docs/verification.md`. What is counted on it is counted from its rows, so that a lock that is checked
//! again can take the place of its former rows while those of the others stay.

use super::clients::Client;
use super::mutants::{Mutant, Outcome};
use super::page::{Tally, size};
use super::plan::{Explored, Task, Verdict, tasks};
use super::{CheckedLock, Options};
use anyhow::{Context as _, bail};
use locks::catalogue::{LOCKS, Lock};
use session::interrupt;
use std::time::Duration;
use workloads::client::ClientKind;

/// A row of the first table.
struct ExplorationRow {
    cells: [String; 8],
    /// What was asked for; none for a smaller client that was tried in its place.
    task: Option<Task>,
}

/// A row of the second table.
struct MutantRow([String; 5]);

#[derive(Default)]
struct Rows {
    explorations: Vec<ExplorationRow>,
    mutants: Vec<MutantRow>,
}

const EXPLORATIONS: &str = "| lock | model | client | size | gone through | pruned or merged | seconds | verdict |\n\
                            |---|---|---|---|--:|--:|--:|---|\n";
const MUTANTS: &str =
    "| lock | access | change | found as | by, or why it is left |\n|---|---|---|---|---|\n";
/// Where the counts begin, which are made anew.
const COUNTS: &str = " explorations are verified in the size that was asked for";

/// The page of all locks.
#[must_use]
pub fn page(all: &[CheckedLock], arguments: &str, options: &Options, elapsed: Duration) -> String {
    let minutes = options.time_limit.as_secs_f64() / 60.0;
    let cut_short = if interrupt::came() { "It was **cut short** after" } else { "All of it took" };
    let seconds = elapsed.as_secs_f64();
    let head = format!(
        "# Verification\n\n\
         Written by `contend check --all --mutate --time-limit {minutes}m --output docs/verification.md`; \
         [checking.md](checking.md) explains how to read it.\n\n\
         Every lock runs with small clients, of so many threads × acquisitions each, in every execution that a memory \
         model\nallows. *verified* means that all executions were seen and none was wrong; *a bound* that there are \
         more\nstates than an exploration remembers, which is so on every computer; *out of time* that the time limit came \
         first. Then the\nnext rows are smaller clients that were tried in its place. Executions that end in a \
         wait which another execution goes\non from are counted as pruned.\n\n\
         At the end of every execution of every client the lock is used once more: a try succeeds, one on the held lock \
         fails, two\nreaders share it, a writer does not; then its words are those of a free lock, and every queue node \
         is back in its pool.\n\n\
         {cut_short} {seconds:.0} s on this computer.\n\n"
    );
    let mut rows = Rows::default();
    all.iter().for_each(|checked| rows.add(checked, &Argument::read_all(arguments)));
    head + &rows.body()
}

/// The page with what was found out about a lock in the place of what it said of that one before.
///
/// # Errors
///
/// It is no such page, or one whose clients are not those of today.
pub fn updated(
    page: &str,
    checked: &CheckedLock,
    arguments: &str,
    options: &Options,
    elapsed: Duration,
) -> anyhow::Result<String> {
    let counts = page.find(COUNTS).context("it is no page of `contend check --all`")?;
    let head_ends = page[..counts].rfind('\n').map_or(0, |at| at + 1);
    let name = checked.lock.name;
    let again = format!("`{name}` was checked again by `contend check {name} --mutate");
    let mut head: String =
        page[..head_ends].split_inclusive('\n').filter(|line| !line.starts_with(&again)).collect();
    let (minutes, seconds) = (options.time_limit.as_secs_f64() / 60.0, elapsed.as_secs_f64());
    let cut_short = if interrupt::came() { ", **cut short**" } else { "" };
    head.truncate(head.trim_end().len());
    head += &format!(
        "\n{again} --time-limit {minutes}m --output docs/verification.md`, in {seconds:.0} s{cut_short}.\n\n"
    );
    let mut rows = Rows::default();
    let arguments = Argument::read_all(arguments);
    for lock in LOCKS {
        if lock.name == name {
            rows.add(checked, &arguments);
        } else {
            rows.add_from(page, lock)?;
        }
    }
    Ok(head + &rows.body())
}

impl Rows {
    fn add(&mut self, checked: &CheckedLock, arguments: &[Argument]) {
        for verdict in &checked.verdicts {
            self.explorations.extend(verdict.all().enumerate().map(|(number, explored)| ExplorationRow {
                cells: cells(verdict, explored),
                task: (number == 0).then_some(verdict.task),
            }));
        }
        self.mutants.extend(checked.mutants.iter().map(|mutant| MutantRow::of(mutant, arguments)));
    }

    /// Takes over what a page says of a lock; a lock that is younger than the page stays out.
    fn add_from(&mut self, page: &str, lock: &'static Lock) -> anyhow::Result<()> {
        let mut asked = tasks(lock, &Options::of_everything()).into_iter().peekable();
        let mut any = false;
        for row in rows_of(page, lock) {
            any = true;
            let cells = match <[String; 8]>::try_from(row) {
                Ok(cells) => cells,
                Err(row) => {
                    let unread =
                        |row: Vec<String>| format!("cannot read a row of {}: {}", lock.name, row.join(" | "));
                    let row = <[String; 5]>::try_from(row).map_err(unread).map_err(anyhow::Error::msg)?;
                    self.mutants.push(MutantRow(row));
                    continue;
                }
            };
            let is_asked = |task: &Task| {
                let of_task = [task.model.name(), task.client.name(), &size(task.shape)];
                cells[1..4].iter().zip(of_task).all(|(cell, of_task)| cell == of_task)
            };
            let task = asked.next_if(is_asked);
            self.explorations.push(ExplorationRow { cells, task });
        }
        match asked.peek() {
            Some(missing) if any => bail!("the page says nothing of {missing}: check with --all"),
            _ => Ok(()),
        }
    }

    /// Everything from the counts on.
    fn body(&self) -> String {
        let asked = || self.explorations.iter().filter(|row| row.task.is_some());
        let verified = asked().filter(|row| row.is(&["verified"])).count();
        let left = asked().filter(|row| row.is(&["a bound", "out of time", "not begun"])).count();
        let wrong = asked().count() - verified - left;
        let mut page = format!(
            "{verified} of {}{COUNTS}, {wrong} are wrong, {left} are bounds.\n\n## Exclusion\n\n{EXPLORATIONS}",
            asked().count()
        );
        self.explorations.iter().for_each(|row| page += &line(&row.cells));
        page += "\nThe hardest plain clients:\n\n";
        let mut hardest: Vec<(f64, &ExplorationRow, Task)> = asked()
            .filter_map(|row| Some((row.cells[6].parse().ok()?, row, row.task?)))
            .filter(|(.., task)| task.client == Client::Of(ClientKind::Exclusive))
            .collect();
        hardest.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (seconds, row, task) in hardest.iter().take(12) {
            page += &format!("- {task}: {}, {seconds:.1} s, {}\n", row.cells[4], row.cells[7]);
        }
        page += "\n## Mutants\n\n\
                 Every acquire, release, acq_rel and seq_cst access is made weaker, and every access is made wrong in each \
                 way of the\nfollowing, one at a time, without a change of the source, and judged under release-acquire: a \
                 write, a wake-up or the return\nof a node is left out (*dropped*), writes *one-more* or *one-less*, sets or \
                 clears the *next-bit*, *reads-one-more*,\n*reads-one-less* or *reads-zero*, takes a failed exchange for a \
                 success (*succeeds*) or the other way round (*fails*); a\nwait has its condition *negated*, is *not-waited* \
                 for, or has its timeout taken away (*no-timeout*). A survivor is a change that\nno client here notices; that is \
                 a finding, and no proof that it makes no difference.\n\n";
        page += MUTANTS;
        let mut tally = Tally::default();
        for MutantRow(cells) in &self.mutants {
            page += &line(cells);
            let (of_ordering, not_judged) = (cells[2].contains(ARROW), cells[3] == NOT_JUDGED);
            tally.add(of_ordering, !not_judged && !cells[3].starts_with("**"), not_judged);
        }
        page + &format!("\n{tally}.\n")
    }
}

impl ExplorationRow {
    fn is(&self, verdicts: &[&str]) -> bool {
        verdicts.contains(&self.cells[7].as_str())
    }
}

/// Between an ordering and what it becomes.
const ARROW: &str = " → ";
const NOT_JUDGED: &str = "not judged";

impl MutantRow {
    fn of(mutant: &Mutant, arguments: &[Argument]) -> Self {
        let (found, by) = match &mutant.outcome {
            Outcome::Found { client, violation } => ((*violation).to_owned(), client.as_str()),
            Outcome::NotJudged => (NOT_JUDGED.to_owned(), "no time was left"),
            Outcome::Survives { .. } => {
                let why = arguments.iter().find(|argument| argument.is_about(mutant));
                (format!("**{}**", mutant.outcome()), why.map_or("not argued yet", |argument| &argument.why))
            }
        };
        let (access, _) = mutant.name.split_once('=').unwrap_or((&mutant.name, ""));
        let (from, to) = (mutant.from, mutant.to.name());
        let change = if mutant.to.is_of_ordering() { format!("{from}{ARROW}{to}") } else { to.to_owned() };
        Self([mutant.of.to_owned(), format!("`{access}`"), change, found, by.to_owned()])
    }
}

fn cells(verdict: &Verdict, explored: &Explored) -> [String; 8] {
    let (many, left, of) = explored.size();
    [
        verdict.task.lock.name.to_owned(),
        verdict.task.model.name().to_owned(),
        verdict.task.client.name().to_owned(),
        size(explored.shape),
        format!("{many} {of}"),
        left.to_string(),
        format!("{:.2}", explored.elapsed.as_secs_f64()),
        explored.word().to_owned(),
    ]
}

/// The cells of each row of a page that is about a lock.
fn rows_of<'a>(page: &'a str, lock: &Lock) -> impl Iterator<Item = Vec<String>> + 'a {
    let begins = format!("| {} |", lock.name);
    let rows = page.lines().filter(move |line| line.starts_with(&begins));
    rows.filter_map(|line| {
        let inside = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(inside.split(" | ").map(str::to_owned).collect())
    })
}

fn line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// Why a surviving mutant is left: a line of `survivors.csv`. An empty lock stands for all locks that have the access.
#[derive(serde::Deserialize)]
struct Argument {
    lock: String,
    access: String,
    change: String,
    why: String,
}

impl Argument {
    fn read_all(text: &str) -> Vec<Self> {
        csv::Reader::from_reader(text.as_bytes()).into_deserialize().filter_map(Result::ok).collect()
    }

    fn is_about(&self, mutant: &Mutant) -> bool {
        let mut changes = self.change.split(' ');
        (self.lock.is_empty() || self.lock == mutant.of)
            && mutant.name.strip_prefix(&self.access).is_some_and(|rest| rest.starts_with('='))
            && changes.any(|change| change == mutant.to.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plan::explored_executions;
    use checker::checked::Change;
    use std::path::Path;
    use workloads::client::Shape;

    /// What a run of everything would say that found each client too large, saw a smaller one, and has one mutant of each lock.
    fn checked(lock: &'static Lock, explored: u64) -> CheckedLock {
        let verdict = |(number, task): (usize, Task)| Verdict {
            asked: explored_executions(task.shape, explored, number % 5 == 0),
            smaller: (number % 5 == 0)
                .then(|| explored_executions(Shape { threads: 2, acquisitions: 2 }, 3, false))
                .into_iter()
                .collect(),
            task,
        };
        CheckedLock {
            lock,
            verdicts: tasks(lock, &Options::of_everything()).into_iter().enumerate().map(verdict).collect(),
            mutants: vec![Mutant {
                of: lock.name,
                operation: "swap",
                from: "acq_rel",
                to: Change::Dropped,
                name: "acquire.swap=dropped".into(),
                place: "mcs.rs:101:30".into(),
                outcome: Outcome::Survives { bounds: 1 },
                elapsed: Duration::ZERO,
            }],
        }
    }

    #[test]
    fn a_lock_that_is_checked_again_takes_the_place_of_its_rows_alone() {
        let options = Options::of_everything();
        let all: Vec<_> = LOCKS.iter().map(|lock| checked(lock, 7)).collect();
        let (second, other) = (Duration::from_secs(1), Duration::from_secs(2));
        let full = page(&all, "", &options, second);
        let mcs = locks::catalogue::find("mcs").unwrap();
        let same = updated(&full, &checked(mcs, 7), "", &options, other).unwrap();
        let body = |page: &str| page[page.find(COUNTS).unwrap()..].to_owned();
        assert_eq!(body(&same), body(&full));
        let changed = updated(&same, &checked(mcs, 8), "", &options, other).unwrap();
        let differ = |line: &&str| !full.contains(*line);
        let new: Vec<&str> = changed.lines().filter(differ).collect();
        assert!(new.len() > 10 && new.iter().all(|line| line.contains("mcs")), "{new:#?}");
        assert_eq!(changed.matches("was checked again").count(), 1);
        assert_eq!(changed.lines().count(), full.lines().count() + 1);

        let error = updated("# Another page\n", &checked(mcs, 8), "", &options, other).unwrap_err();
        assert!(error.to_string().contains("no page of"), "{error:#}");
        let less = full.replace("| ticket | sc | exclusive | 3 × 2 |", "| ticket | sc | exclusive | 9 × 9 |");
        let error = updated(&less, &checked(mcs, 8), "", &options, other).unwrap_err();
        assert!(error.to_string().contains("ticket exclusive 3 × 2 under sc"), "{error:#}");
    }
    /// A lock's access has another name after a change of its code, and then nothing would be said of the survivor.
    #[test]
    fn what_is_said_of_survivors_is_about_accesses_on_the_page() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let read = |name: &str| std::fs::read_to_string(docs.join(name)).expect("a document");
        let page = read("verification.md");
        let rows: Vec<_> =
            LOCKS.iter().flat_map(|lock| rows_of(&page, lock)).filter(|row| row.len() == 5).collect();
        let text = read("survivors.csv");
        let arguments = Argument::read_all(&text);
        assert_eq!(arguments.len(), text.lines().count() - 1, "a line of survivors.csv has no four fields");
        let is_about = |argument: &Argument, row: &[String]| {
            (argument.lock.is_empty() || argument.lock == row[0])
                && argument.access == row[1].trim_matches('`')
        };
        let stale: Vec<_> = arguments
            .iter()
            .filter(|argument| !rows.iter().any(|row| is_about(argument, row)))
            .map(|argument| format!("{} {}", argument.lock, argument.access))
            .collect();
        assert!(stale.is_empty(), "survivors.csv: docs/verification.md has no such access: {stale:#?}");
        let unknown: Vec<_> = arguments
            .iter()
            .flat_map(|argument| argument.change.split(' '))
            .filter(|change| Change::named(change).is_none())
            .collect();
        assert!(unknown.is_empty(), "survivors.csv: no such changes: {unknown:?}");
    }
}
