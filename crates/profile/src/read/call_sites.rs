//! From where a lock is waited for, and from where it is held meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::container::{CallerRecord, Section};
use super::lock_names::caller_of;
use super::symbols::{Function, Symbols};
use super::table::SiteUse;

/// What the threads of a process did with one lock, by the return address of the lock call.
#[derive(Default)]
pub(super) struct Callers(BTreeMap<u64, CallerRecord>);

/// The stacks with which the threads of a process took its locks, by the lock's number and the innermost return address.
pub(super) struct TakenBy<'p>(HashMap<(u32, u64), Vec<&'p [u64]>>);

impl<'p> TakenBy<'p> {
    pub(super) fn of(section: &'p Section) -> Self {
        let mut stacks: HashMap<_, Vec<&[u64]>> = HashMap::new();
        let touched = section.locks.iter().map(|(number, lock)| (number, &lock.frames));
        for (&number, frames) in section.sites.iter().map(|(number, frames)| (number, frames)).chain(touched)
        {
            if let Some(&innermost) = frames.first() {
                stacks.entry((number, innermost)).or_default().push(frames);
            }
        }
        Self(stacks)
    }
}

/// Names of functions that one call stands for, at most.
const NAMES: usize = 3;

impl Callers {
    /// What another thread did.
    pub(super) fn add(&mut self, records: &[CallerRecord]) {
        for record in records {
            let sum = self.0.entry(record.caller).or_default();
            for (into, from) in [
                (&mut sum.waits, record.waits),
                (&mut sum.wait_ticks, record.wait_ticks),
                (&mut sum.holds, record.holds),
                (&mut sum.hold_ticks, record.hold_ticks),
                (&mut sum.behind_ticks, record.behind_ticks),
            ] {
                *into = into.saturating_add(from);
            }
        }
    }

    /// By place in the source. `number` is the lock's.
    pub(super) fn finish(
        self,
        section: &Section,
        number: u32,
        stacks: &TakenBy<'_>,
        ns_per_tick: f64,
        symbols: &mut Symbols<'_>,
    ) -> Vec<SiteUse> {
        let mut uses: BTreeMap<(String, Option<String>), SiteUse> = BTreeMap::new();
        let busy = |sum: &CallerRecord| sum.waits | sum.holds | sum.behind_ticks > 0;
        for (caller, sum) in self.0.into_iter().filter(|(_, sum)| busy(sum)) {
            let stacks = stacks.0.get(&(number, caller)).map_or(&[][..], Vec::as_slice);
            let (function, source, file) = place_of(section, caller, stacks, symbols);
            let site = uses.entry((function.clone(), source.clone())).or_insert_with(|| SiteUse {
                function,
                source,
                file,
                ..SiteUse::default()
            });
            let ns = |ticks: u64| ticks as f64 * ns_per_tick;
            site.waits = site.waits.saturating_add(sum.waits);
            site.waited_ns += ns(sum.wait_ticks);
            site.behind_ns += ns(sum.behind_ticks);
            site.holds = site.holds.saturating_add(sum.holds);
            site.held_ns += ns(sum.hold_ticks);
        }
        let mut uses: Vec<_> = uses.into_values().collect();
        uses.sort_by(SiteUse::cmp_cost);
        uses
    }
}

/// The function that a return address belongs to, its place in the source, and the file that its code is in. If that is a wrapper of
/// locks: those that the stacks say called it, which begin with this address.
fn place_of(
    section: &Section,
    caller: u64,
    stacks: &[&[u64]],
    symbols: &mut Symbols<'_>,
) -> (String, Option<String>, String) {
    let placed = |function: &Function| {
        let source = function.source.as_ref().map(|(file, line)| format!("{file}:{line}"));
        (function.name.clone(), source, function.file.clone())
    };
    let called = symbols.functions(section, caller);
    if let Some(function) = called.iter().find(|function| !function.wrapper) {
        return placed(function);
    }
    let callers: BTreeSet<_> = stacks
        .iter()
        .filter_map(|frames| caller_of(section, frames, symbols))
        .map(|found| placed(&found))
        .collect();
    let mut callers = callers.into_iter();
    match (callers.next(), callers.len()) {
        (None, _) => called.first().map_or_else(Default::default, placed),
        (Some(only), 0) => only,
        (Some((first, _, file)), _) => {
            let mut names = BTreeSet::from([first]);
            names.extend(callers.map(|(name, ..)| name));
            let others = if names.len() > NAMES { " or others" } else { "" };
            let names: Vec<_> = names.into_iter().take(NAMES).collect();
            (format!("{}{others}", names.join(" or ")), None, file)
        }
    }
}
