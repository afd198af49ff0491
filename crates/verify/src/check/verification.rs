//! The results of all locks as two documents: a summary of a line for each lock, `docs/verification.md`, and a full page with every
//! exploration and every mutant, which is an artefact of a run.

use super::mutants::{Mutant, Outcome};
use super::page::{Share, Tally, size};
use super::{CheckedLock, Options};
use report::{Cell, Column, Table};
use session::interrupt;
use std::time::Duration;

/// The first lines of both: what was run, and for how long.
fn head(elapsed: Duration, command: &str) -> String {
    let cut_short = if interrupt::came() { "It was **cut short** after" } else { "It took" };
    let cores = rayon::current_num_threads();
    format!(
        "# Verification\n\n\
         Written by `{command}`; `--output` lists every exploration,\nand [checking.md](checking.md) explains how to read it. \
         {cut_short} {:.0} s on {cores} cores.\n\n",
        elapsed.as_secs_f64()
    )
}

/// A line for each lock: how many of its explorations are complete, of how many, and what cut the others.
#[must_use]
pub fn summary(all: &[CheckedLock], options: &Options, elapsed: Duration, command: &str) -> String {
    let mutated = all.iter().any(|one| !one.mutants.is_empty());
    let mut page = head(elapsed, command);
    if options.is_of_everything() {
        page += "A lock runs with small clients of 2 or 3 threads, once or twice each, under four memory models. ";
    }
    page += "An exploration is complete \
             when\nevery execution that the model allows was seen. The others ended at the time limit, at 14 million states, or because a \
             thread takes\nmore steps than are followed, which no larger computer changes.\n\n";
    let mut columns = vec![
        Column::text("lock", "lock"),
        Column::number("complete", "complete"),
        Column::number("of", "of"),
        Column::number("wrong", "wrong"),
        Column::number("time", "cut by time"),
        Column::number("states", "by states"),
        Column::number("steps", "by steps"),
    ];
    if mutated {
        columns.push(Column::text("orderings", "weakened orderings found"));
        columns.push(Column::text("logic", "mutants of logic found"));
    }
    let mut table = Table::new(columns);
    let (mut share, mut tally) = (Share::default(), Tally::default());
    for one in all {
        let of_lock = Share::of(&one.verdicts);
        table.row(cells(one.lock.name, &of_lock, mutated.then(|| Tally::of(&one.mutants))));
        share += of_lock;
        one.mutants.iter().for_each(|mutant| tally.add(mutant));
    }
    table.row(cells("all", &share, mutated.then_some(tally)));
    page + &table.markdown()
}

fn cells(lock: &str, share: &Share, tally: Option<Tally>) -> Vec<Cell> {
    let count = |count: usize| Cell::from(count as u64);
    let mut cells = vec![
        lock.into(),
        count(share.complete),
        count(share.of),
        count(share.wrong),
        count(share.by_time + share.interrupted + share.not_begun),
        count(share.by_states),
        count(share.by_steps + share.by_capacity),
    ];
    if let Some(tally) = tally {
        cells.extend(tally.shares().map(Cell::from));
    }
    cells
}

/// Everything: the summary, a row for each exploration, and one for each mutant, with `survivors.csv` for why one is left.
#[must_use]
pub fn page(all: &[CheckedLock], options: &Options, elapsed: Duration, command: &str) -> String {
    let mut explorations = Table::new([
        Column::text("lock", "lock"),
        Column::text("model", "model"),
        Column::text("client", "client"),
        Column::text("size", "size"),
        Column::text("seen", "gone through"),
        Column::number("pruned", "pruned or merged"),
        Column::number("seconds", "seconds"),
        Column::text("verdict", "verdict"),
    ]);
    for (one, verdict) in all.iter().flat_map(|one| one.verdicts.iter().map(move |verdict| (one, verdict))) {
        for explored in verdict.all() {
            let (many, pruned, of) = explored.size();
            explorations.row([
                Cell::from(one.lock.name),
                verdict.task.model.name().into(),
                verdict.task.client.name().into(),
                size(explored.shape).into(),
                format!("{many} {of}").into(),
                pruned.into(),
                explored.elapsed.as_secs_f64().into(),
                explored.word().into(),
            ]);
        }
    }
    let mut page =
        summary(all, options, elapsed, command) + "\n## Explorations\n\n" + &explorations.markdown();
    if all.iter().any(|one| !one.mutants.is_empty()) {
        page += MUTANTS;
        page += &mutants(all, &Argument::read_all(SURVIVORS)).markdown();
    }
    page
}

/// Why surviving mutants are left, one mutant a line.
const SURVIVORS: &str = include_str!("survivors.csv");

const MUTANTS: &str = "\n## Mutants\n\n\
    Every acquire, release, acq_rel and seq_cst access is made weaker, and every access is made wrong in each way of the\n\
    following, one at a time, without a change of the source, and judged under release-acquire: a write, a wake-up or the \
    return\nof a node is left out (*dropped*), writes *one-more* or *one-less*, sets or clears the *next-bit*, \
    *reads-one-more*,\n*reads-one-less* or *reads-zero*, takes a failed exchange for a success (*succeeds*) or the other way \
    round (*fails*); a\nwait has its condition *negated*, is *not-waited* for, or has its timeout taken away (*no-timeout*). A \
    survivor is a change that\nno client here notices; that is a finding, and no proof that it makes no difference.\n\n";

fn mutants(all: &[CheckedLock], arguments: &[Argument]) -> Table {
    let mut table = Table::new([
        Column::text("lock", "lock"),
        Column::text("access", "access"),
        Column::text("change", "change"),
        Column::text("found", "found as"),
        Column::text("by", "by, or why it is left"),
    ]);
    for mutant in all.iter().flat_map(|one| &one.mutants) {
        let (found, by) = match &mutant.outcome {
            Outcome::Found { client, violation } => ((*violation).to_owned(), client.as_str()),
            Outcome::NotJudged => {
                ("not judged".to_owned(), "no time was left, or no client comes to its end without it")
            }
            Outcome::Survives { .. } => {
                let why = arguments.iter().find(|argument| argument.is_about(mutant));
                (format!("**{}**", mutant.outcome()), why.map_or("not argued yet", |argument| &argument.why))
            }
        };
        let (access, _) = mutant.name.split_once('=').unwrap_or((&mutant.name, ""));
        let to = mutant.to.name();
        let change =
            if mutant.to.is_of_ordering() { format!("{} → {to}", mutant.from) } else { to.to_owned() };
        table.row([
            Cell::from(mutant.of),
            format!("`{access}`").into(),
            change.into(),
            found.into(),
            by.into(),
        ]);
    }
    table
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
    use crate::check::objects::OBJECTS;
    use crate::check::plan::{Limit, Verdict, explored_executions, tasks};
    use checker::checked::Change;
    use locks::catalogue::{self, Lock};
    use locks::source::FILES;

    /// What a run would say that found every fifth client too large, and has one mutant of each lock.
    fn checked(lock: &'static Lock) -> CheckedLock {
        let verdict = |(number, task)| Verdict {
            asked: explored_executions(task, 7, (number % 5 == 0).then_some(Limit::Steps)),
            smaller: Vec::new(),
            task,
        };
        let mutant = |outcome| Mutant {
            of: lock.name,
            operation: "swap",
            from: "acq_rel",
            to: Change::Dropped,
            name: "acquire.swap=dropped".into(),
            place: "mcs.rs:101:30".into(),
            outcome,
            elapsed: Duration::ZERO,
        };
        let found = Outcome::Found { client: "exclusive 2 × 1".into(), violation: "endless wait" };
        CheckedLock {
            lock,
            verdicts: tasks(lock, &Options::of_everything()).into_iter().enumerate().map(verdict).collect(),
            mutants: vec![mutant(Outcome::Survives { bounds: 1 }), mutant(found)],
        }
    }

    #[test]
    fn the_summary_has_a_line_for_each_lock_and_the_page_one_for_each_exploration() {
        let lock = |name| catalogue::find(name).expect("a lock");
        let all = [checked(lock("mcs")), checked(lock("ticket"))];
        let summary = summary(&all, &Options::of_everything(), Duration::from_secs(2), "contend check --all");
        let tasks: Vec<usize> = all.iter().map(|one| one.verdicts.len()).collect();
        let cut: Vec<usize> = tasks.iter().map(|of| of.div_ceil(5)).collect();
        let row = |name, of, cut| format!("| {name} | {} | {of} | 0 | 0 | 0 | {cut} | 0 of 0 |", of - cut);
        for (name, of, cut) in [
            ("mcs", tasks[0], cut[0]),
            ("ticket", tasks[1], cut[1]),
            ("all", tasks[0] + tasks[1], cut[0] + cut[1]),
        ] {
            let row = row(name, of, cut);
            assert!(summary.lines().any(|line| line.starts_with(&row)), "{row}\n{summary}");
        }
        let page = page(&all, &Options::of_everything(), Duration::ZERO, "contend check --all");
        let rows = page.lines().filter(|line| line.contains("incomplete: steps")).count();
        assert_eq!(rows, cut[0] + cut[1]);
        assert_eq!(page.matches("not argued yet").count(), 2, "the survivors alone are argued for: {page}");
    }

    /// A lock's access has another name after a change of its code, and then nothing would be said of the survivor.
    #[test]
    fn what_is_said_of_survivors_is_about_accesses_of_locks() {
        let arguments = Argument::read_all(SURVIVORS);
        assert_eq!(
            arguments.len(),
            SURVIVORS.lines().count() - 1,
            "a line of survivors.csv has no four fields"
        );
        let stale: Vec<_> = arguments
            .iter()
            .filter(|argument| {
                let (function, operation) = argument.access.split_once('.').unwrap_or_default();
                let (of, function) = function.rsplit_once("::").unwrap_or(("", function));
                let is_object = OBJECTS.iter().any(|object| object.name == argument.lock);
                let is_lock =
                    argument.lock.is_empty() || is_object || catalogue::find(&argument.lock).is_some();
                let stands = |text: &str| text.contains(of) && text.contains(&format!("fn {function}"));
                operation.is_empty() || !is_lock || !FILES.iter().any(|(_, text)| stands(text))
            })
            .map(|argument| format!("{} {}", argument.lock, argument.access))
            .collect();
        assert!(stale.is_empty(), "survivors.csv: no lock has such an access: {stale:#?}");
        let unknown: Vec<_> = arguments
            .iter()
            .flat_map(|argument| argument.change.split(' '))
            .filter(|change| Change::named(change).is_none())
            .collect();
        assert!(unknown.is_empty(), "survivors.csv: no such changes: {unknown:?}");
    }
}
