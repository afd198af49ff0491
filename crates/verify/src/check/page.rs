//! The results for a screen.

use super::mutants::{Mutant, Outcome};
use super::plan::{Explored, Limit, Verdict};
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
        Column::number("pruned", "pruned").detail(),
        Column::number("seconds", "s").detail(),
        Column::text("verdict", "verdict").kept(),
    ]);
    let mut found_wrong = String::new();
    for verdict in checked.verdicts.iter().filter(|verdict| verdict.all().any(Explored::begun)) {
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
    text += &screen.fit(&format!("{}\n", Share::of(&checked.verdicts)));
    if !checked.mutants.is_empty() {
        text += &screen.fit(&format!("\n{}\n", Tally::of(&checked.mutants)));
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

/// How many explorations of a lock are complete in the size that was asked for, and what ended the others.
#[derive(Clone, Copy, Default)]
pub(super) struct Share {
    pub(super) complete: usize,
    pub(super) of: usize,
    pub(super) wrong: usize,
    pub(super) not_begun: usize,
    pub(super) interrupted: usize,
    pub(super) by_time: usize,
    pub(super) by_states: usize,
    pub(super) by_steps: usize,
    pub(super) by_capacity: usize,
}

impl Share {
    pub(super) fn of(verdicts: &[Verdict]) -> Self {
        let count = |is: &dyn Fn(&Verdict) -> bool| verdicts.iter().filter(|one| is(one)).count();
        let cut_by = |limits: &[Limit]| {
            let is_cut = |one: &Verdict| one.asked.limit.is_some_and(|limit| limits.contains(&limit));
            count(&|one| !one.is_wrong() && one.asked.begun() && is_cut(one))
        };
        Self {
            complete: count(&Verdict::is_verified),
            of: verdicts.len(),
            wrong: count(&Verdict::is_wrong),
            not_begun: count(&|one| !one.is_wrong() && !one.asked.begun()),
            interrupted: cut_by(&[Limit::Interrupt]),
            by_time: cut_by(&[Limit::Time]),
            by_states: cut_by(&[Limit::Memory]),
            by_steps: cut_by(&[Limit::Steps]),
            by_capacity: cut_by(&[Limit::Capacity]),
        }
    }
}

impl std::ops::AddAssign for Share {
    fn add_assign(&mut self, other: Self) {
        self.complete += other.complete;
        self.of += other.of;
        self.wrong += other.wrong;
        self.not_begun += other.not_begun;
        self.interrupted += other.interrupted;
        self.by_time += other.by_time;
        self.by_states += other.by_states;
        self.by_steps += other.by_steps;
        self.by_capacity += other.by_capacity;
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { complete, of, wrong, not_begun, interrupted, by_time, by_states, by_steps, by_capacity } =
            *self;
        write!(f, "{complete} of {of} explorations are complete")?;
        let others = [
            (wrong, "wrong"),
            (not_begun, "explorations were not begun"),
            (interrupted, "interrupted"),
            (by_time, "cut by time"),
            (by_states, "cut by the number of states"),
            (by_steps, "cut by the steps of a thread, which no larger computer changes"),
            (by_capacity, "cut by the capacity of the checker, which no larger computer changes"),
        ];
        others
            .into_iter()
            .filter(|&(many, _)| many > 0)
            .try_for_each(|(many, how)| write!(f, "; {many} {how}"))
    }
}

/// How many mutants were found, of logic and of orderings.
#[derive(Default)]
pub(super) struct Tally {
    found: [u32; 2],
    all: [u32; 2],
    not_judged: u32,
}

impl Tally {
    pub(super) fn of(mutants: &[Mutant]) -> Self {
        let mut tally = Self::default();
        mutants.iter().for_each(|mutant| tally.add(mutant));
        tally
    }

    pub(super) fn add(&mut self, mutant: &Mutant) {
        let kind = usize::from(mutant.to.is_of_ordering());
        self.all[kind] += 1;
        self.found[kind] += u32::from(mutant.is_found());
        self.not_judged += u32::from(matches!(mutant.outcome, Outcome::NotJudged));
    }

    /// Of weakened orderings, and of mutants of logic.
    pub(super) fn shares(&self) -> [String; 2] {
        [1, 0].map(|kind| format!("{} of {}", self.found[kind], self.all[kind]))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [orderings, logic] = self.shares();
        write!(f, "{orderings} weakened orderings and {logic} mutants of logic are found")?;
        if self.not_judged > 0 { write!(f, "; {} were not judged", self.not_judged) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::clients::Client;
    use crate::check::plan::{Task, explored_executions};
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
            asked: explored_executions(
                Task { lock, client, shape: Shape { threads: 3, acquisitions: 2 }, model },
                123_456,
                bounded,
            ),
            smaller: smaller
                .iter()
                .map(|&(threads, acquisitions, many)| {
                    explored_executions(
                        Task { lock, client, shape: Shape { threads, acquisitions }, model },
                        many,
                        None,
                    )
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
                verdict(clients[0], Model::Sc, &[], None),
                verdict(clients[1], Model::Ra, &[(3, 1, 9_876), (2, 2, 120)], Some(Limit::Time)),
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
