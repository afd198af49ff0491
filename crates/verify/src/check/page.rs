//! The results for a screen.

use super::mutants::{Mutant, Outcome};
use super::{CheckedLock, Options, tell};
use report::{Cell, Column, Screen, Table};
use std::fmt;
use workloads::client::Shape;

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

pub(super) fn size(shape: Shape) -> String {
    format!("{} × {}", shape.threads, shape.acquisitions)
}

/// How many mutants were found.
fn summary<'a>(mutants: impl Iterator<Item = &'a Mutant>) -> String {
    let mut tally = Tally::default();
    for mutant in mutants {
        tally.add(
            mutant.to.is_of_ordering(),
            mutant.is_found(),
            matches!(mutant.outcome, Outcome::NotJudged),
        );
    }
    tally.to_string()
}

/// Mutants of logic, and of orderings.
#[derive(Default)]
pub(super) struct Tally {
    found: [u32; 2],
    all: [u32; 2],
    not_judged: u32,
}

impl Tally {
    pub(super) fn add(&mut self, of_ordering: bool, found: bool, not_judged: bool) {
        let kind = usize::from(of_ordering);
        self.all[kind] += 1;
        self.found[kind] += u32::from(found);
        self.not_judged += u32::from(not_judged);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, all, not_judged } = self;
        write!(
            f,
            "{} of {} weakened orderings and {} of {} mutants of logic are found",
            found[1], all[1], found[0], all[0]
        )?;
        if *not_judged > 0 { write!(f, "; {not_judged} were not judged") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::clients::Client;
    use crate::check::plan::{Task, Verdict, explored_executions};
    use checker::Model;
    use checker::checked::Change;
    use report::every_screen;
    use std::time::Duration;

    #[test]
    fn a_checked_lock_on_every_screen() {
        let lock = locks::catalogue::find("mcs").unwrap();
        let options = Options::of_everything();
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
