//! The results as text and as a page.

use super::clients::Client;
use super::mutants::{Mutant, Outcome};
use super::plan::{Explored, Verdict};
use super::{CheckedLock, Options, tell};
use crate::interrupt;
use report::{Cell, Column, Screen, Table};
use std::time::Duration;
use workloads::client::{ClientKind, Shape};

/// For a screen: every exploration that was begun, what was found, and what became of the mutants.
pub fn text(checked: &CheckedLock, options: &Options, screen: Screen) -> String {
    let mut table = Table::new([
        Column::text("client", "client"),
        Column::text("model", "model").kept(),
        Column::text("size", "size").kept(),
        Column::number("seen", "seen"),
        Column::text("seen_of", "of"),
        Column::number("left_early", "left early").detail(),
        Column::number("seconds", "s").detail(),
        Column::text("verdict", "verdict").kept(),
    ]);
    let mut found_wrong = String::new();
    for verdict in checked.verdicts.iter().filter(|verdict| verdict.asked.begun) {
        for (number, explored) in verdict.all().enumerate() {
            let (many, left, of) = explored.size();
            let client = verdict.task.client.name();
            table.row([
                Cell::from(if number == 0 { client.to_owned() } else { format!("{client}, smaller") }),
                verdict.task.model.name().into(),
                size(explored.shape).into(),
                many.into(),
                of.into(),
                left.into(),
                explored.elapsed.as_secs_f64().into(),
                explored.word().into(),
            ]);
            if let Some((task, found)) = &explored.found {
                found_wrong += &format!("\n{task}: {}", tell(task, found, options.weaken.as_deref()));
            }
        }
    }
    let mut text = format!("{}\n", checked.lock.name);
    if !table.is_empty() {
        text += &table.terminal(screen);
    }
    text += &screen.fit(&found_wrong);
    let not_begun = checked.verdicts.iter().filter(|verdict| !verdict.asked.begun).count();
    if not_begun > 0 {
        text += &screen.fit(&format!("{not_begun} explorations were not begun\n"));
    }
    if !checked.mutants.is_empty() {
        text += &screen.fit(&format!("\n{}\n", summary(checked.mutants.iter())));
        text += &mutants(&checked.mutants).terminal(screen);
    }
    text
}

/// What became of each mutant.
fn mutants(all: &[Mutant]) -> Table {
    let mut table = Table::new([
        Column::text("access", "access, and what it becomes"),
        Column::text("place", "in").detail(),
        Column::text("outcome", "").kept(),
    ]);
    for mutant in all {
        table.row([Cell::from(mutant.name.as_str()), mutant.place.as_str().into(), mutant.outcome().into()]);
    }
    table
}

fn size(shape: Shape) -> String {
    format!("{} × {}", shape.threads, shape.acquisitions)
}

/// How many mutants were found.
fn summary<'a>(mutants: impl Iterator<Item = &'a Mutant>) -> String {
    let (mut found, mut all, mut not_judged) = ([0; 2], [0; 2], 0);
    for mutant in mutants {
        let kind = usize::from(mutant.to.is_of_ordering());
        all[kind] += 1;
        found[kind] += usize::from(mutant.is_found());
        not_judged += usize::from(matches!(mutant.outcome, Outcome::NotJudged));
    }
    let rest = if not_judged == 0 { String::new() } else { format!("; {not_judged} were not judged") };
    format!(
        "{} of {} weakened orderings and {} of {} mutants of logic are found{rest}",
        found[1], all[1], found[0], all[0]
    )
}

/// For `docs/verification.md`.
pub fn markdown(all: &[CheckedLock], arguments: &str, options: &Options, elapsed: Duration) -> String {
    let minutes = options.time_limit.as_secs_f64() / 60.0;
    let mut page = format!(
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
         is back in its pool.\n\n"
    );
    let cut_short = if interrupt::came() { "It was **cut short** after" } else { "All of it took" };
    page += &format!("{cut_short} {:.0} s on this computer.\n\n", elapsed.as_secs_f64());
    let verdicts = || all.iter().flat_map(|checked| &checked.verdicts);
    let count = |of: fn(&Verdict) -> bool| verdicts().filter(|verdict| of(verdict)).count();
    let (verified, wrong) = (count(Verdict::is_verified), count(Verdict::is_wrong));
    page += &format!(
        "{verified} of {} explorations are verified in the size that was asked for, {wrong} are wrong, {} are bounds.\n\n\
         ## Exclusion\n\n",
        verdicts().count(),
        verdicts().count() - verified - wrong,
    );
    page += "| lock | model | client | size | gone through | pruned or merged | seconds | verdict |\n\
             |---|---|---|---|--:|--:|--:|---|\n";
    for verdict in verdicts() {
        verdict.all().for_each(|explored| page += &row(verdict, explored));
    }
    let mut hardest = verdicts()
        .filter(|verdict| verdict.task.client == Client::Of(ClientKind::Exclusive))
        .collect::<Vec<_>>();
    hardest.sort_by_key(|verdict| std::cmp::Reverse(verdict.asked.elapsed));
    page += "\nThe hardest plain clients:\n\n";
    for verdict in hardest.iter().take(12) {
        let (many, _, of) = verdict.asked.size();
        let seconds = verdict.asked.elapsed.as_secs_f64();
        page += &format!("- {}: {many} {of}, {seconds:.1} s, {}\n", verdict.task, verdict.asked.word());
    }
    page += "\n## Mutants\n\n\
             Every acquire, release, acq_rel and seq_cst access is made weaker, and every access is made wrong in each \
             way of the\nfollowing, one at a time, without a change of the source, and judged under release-acquire: a \
             write, a wake-up or the return\nof a node is left out (*dropped*), writes *one-more* or *one-less*, sets or \
             clears the *next-bit*, *reads-one-more*,\n*reads-one-less* or *reads-zero*, takes a failed exchange for a \
             success (*succeeds*) or the other way round (*fails*); a\nwait has its condition *negated*, is *not-waited* \
             for, or has its limit taken away (*unlimited*). A survivor is a change that\nno client here notices; that is \
             a finding, and no proof that it makes no difference.\n\n\
             | lock | access | change | found as | by, or why it is left |\n|---|---|---|---|---|\n";
    let arguments = Argument::read_all(arguments);
    for mutant in all.iter().flat_map(|checked| &checked.mutants) {
        let (found, by) = match &mutant.outcome {
            Outcome::Found { client, violation } => ((*violation).to_owned(), client.as_str()),
            Outcome::NotJudged => ("not judged".to_owned(), "no time was left"),
            Outcome::Survives { .. } => {
                let why = arguments.iter().find(|argument| argument.is_about(mutant));
                (format!("**{}**", mutant.outcome()), why.map_or("not argued yet", |argument| &argument.why))
            }
        };
        let (access, _) = mutant.name.split_once('=').unwrap_or((&mutant.name, ""));
        let (from, to) = (mutant.from, mutant.to.name());
        let change = if mutant.to.is_of_ordering() { format!("{from} → {to}") } else { to.to_owned() };
        page += &format!("| {} | `{access}` | {change} | {found} | {by} |\n", mutant.of);
    }
    page += &format!("\n{}.\n", summary(all.iter().flat_map(|checked| &checked.mutants)));
    page
}

fn row(verdict: &Verdict, explored: &Explored) -> String {
    let (many, left, of) = explored.size();
    format!(
        "| {} | {} | {} | {} | {many} {of} | {left} | {:.2} | {} |\n",
        verdict.task.lock.name,
        verdict.task.model,
        verdict.task.client.name(),
        size(explored.shape),
        explored.elapsed.as_secs_f64(),
        explored.word(),
    )
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
    use crate::check::plan::{Task, explored_executions};
    use checker::Model;
    use checker::checked::Change;
    use report::every_screen;

    #[test]
    fn a_checked_lock_on_every_screen() {
        let lock = locks::catalogue::find("mcs").unwrap();
        let options = Options {
            model: Vec::new(),
            client: None,
            threads: None,
            acquisitions: None,
            time_limit: Duration::from_secs(60),
            weaken: None,
        };
        let verdict = |client, model, smaller: &[(usize, u32, u64)], bounded| Verdict {
            task: Task { lock, client, shape: Shape { threads: 3, acquisitions: 2 }, model },
            asked: explored_executions(Shape { threads: 3, acquisitions: 2 }, 123_456, bounded),
            smaller: smaller
                .iter()
                .map(|&(threads, acquisitions, many)| {
                    explored_executions(Shape { threads, acquisitions }, many, false)
                })
                .collect(),
        };
        let clients: Vec<_> = Client::all().filter(|client| client.suits(lock)).collect();
        let mutant = |name: &str, outcome| Mutant {
            of: "mcs",
            operation: "swap",
            from: "acq_rel",
            to: Change::Dropped,
            name: name.into(),
            place: "mcs.rs:101:30".into(),
            outcome,
            elapsed: Duration::ZERO,
        };
        let found = Outcome::Found { client: "exclusive 2 × 1".into(), violation: "endless wait" };
        let checked = CheckedLock {
            lock,
            verdicts: vec![
                verdict(clients[0], Model::Sc, &[], false),
                verdict(clients[1], Model::Ra, &[(3, 1, 9_876), (2, 2, 120)], true),
            ],
            mutants: vec![
                mutant("McsQueue::acquire.swap=acquire", found),
                mutant("McsQueue::release.compare_exchange=relaxed", Outcome::Survives { bounds: 0 }),
            ],
        };
        let names =
            ["McsQueue::release.compare_exchange=relaxed", "McsQueue::acquire.swap=acquire", "123,456"];
        let text = |screen| text(&checked, &options, screen);
        insta::assert_snapshot!(every_screen(&names[..2], text));
    }
}
