//! From where a lock is waited for, and from where it is held meanwhile.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::container::{CallerRecord, Section};
use super::lock_names::caller_of;
use super::stacks::Stacks;
use super::symbols::{Function, Symbols};
use super::table::{LockId, SiteUse};
use super::while_held::WhileHeld;

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

    /// The stacks that took this lock by calls with this return address, as far as they are known.
    pub(super) fn stacks(&self, number: u32, caller: u64) -> &[&'p [u64]] {
        self.0.get(&(number, caller)).map_or(&[], Vec::as_slice)
    }
}

/// Names of functions that one call stands for, at most.
const NAMES: usize = 3;

impl Callers {
    /// What another thread did.
    pub(super) fn add(&mut self, records: &[CallerRecord]) {
        for record in records {
            self.0.entry(record.caller).or_default().add(record);
        }
    }

    /// By place in the source. `number` is the lock's, and `own_ns` what recording added to each of its holds.
    #[expect(clippy::too_many_arguments, reason = "the lock, its process, and what all locks have in common")]
    pub(super) fn finish(
        self,
        section: &Section,
        number: u32,
        taken_by: &TakenBy<'_>,
        ns_per_tick: f64,
        own_ns: f64,
        symbols: &mut Symbols<'_>,
        calls: &mut Option<Stacks<'_>>,
    ) -> Vec<SiteUse> {
        let mut uses: BTreeMap<(String, Option<String>), SiteUse> = BTreeMap::new();
        for (caller, sum) in self.0.into_iter().filter(|(_, sum)| sum.is_busy()) {
            let stacks = taken_by.stacks(number, caller);
            let (function, source, file) = place_of(section, caller, stacks, symbols);
            let site = uses.entry((function.clone(), source.clone())).or_insert_with(|| {
                let calls = calls.as_mut();
                let calls = calls.map(|calls| calls.of_site(section, caller, stacks, &function, symbols));
                SiteUse { function, source, file, calls: calls.unwrap_or_default(), ..SiteUse::default() }
            });
            if !site.callers.is_empty() {
                // Calls of one place with callers of their own.
                site.calls.truncate(1);
            }
            site.callers.push(caller);
            site.add(&sum, own_ns, |ticks| ticks as f64 * ns_per_tick);
            if section.process.watches_cores != 0 {
                site.add_while_held(&sum, section.number, own_ns, ns_per_tick);
            }
        }
        let mut uses: Vec<_> = uses.into_values().collect();
        uses.sort_by(SiteUse::most_first);
        uses
    }
}

impl CallerRecord {
    /// Adds what another thread did.
    pub(super) fn add(&mut self, more: &Self) {
        for (into, from) in [
            (&mut self.waits, more.waits),
            (&mut self.wait_ticks, more.wait_ticks),
            (&mut self.holds, more.holds),
            (&mut self.hold_ticks, more.hold_ticks),
            (&mut self.behind_ticks, more.behind_ticks),
            (&mut self.hold_waited_ticks, more.hold_waited_ticks),
            (&mut self.hold_slept_ticks, more.hold_slept_ticks),
            (&mut self.hold_preempted_ticks, more.hold_preempted_ticks),
            (&mut self.hold_unknown_ticks, more.hold_unknown_ticks),
        ] {
            *into = into.saturating_add(from);
        }
        let (votes, others) = (self.waited_for_votes, more.waited_for_votes);
        (self.waited_for, self.waited_for_votes) = if self.waited_for == more.waited_for {
            (self.waited_for, votes.saturating_add(others))
        } else if votes < others {
            (more.waited_for, others - votes)
        } else {
            (self.waited_for, votes - others)
        };
    }

    /// What was done since.
    pub(super) fn less(self, before: Self) -> Self {
        Self {
            waits: self.waits.saturating_sub(before.waits),
            wait_ticks: self.wait_ticks.saturating_sub(before.wait_ticks),
            holds: self.holds.saturating_sub(before.holds),
            hold_ticks: self.hold_ticks.saturating_sub(before.hold_ticks),
            behind_ticks: self.behind_ticks.saturating_sub(before.behind_ticks),
            ..self
        }
    }

    /// How long its holds lasted, ns, less what recording added to each.
    fn held_ns(&self, own_ns: f64, ns: impl Fn(u64) -> f64) -> f64 {
        (ns(self.hold_ticks) - own_ns * self.holds as f64).max(0.0)
    }

    /// Whether anything was done that a call site is named for.
    pub(super) fn is_busy(&self) -> bool {
        self.waits | self.holds | self.behind_ticks > 0
    }
}

impl SiteUse {
    /// Adds what was done with one return address. `own_ns` is what recording added to each hold.
    pub(super) fn add(&mut self, sum: &CallerRecord, own_ns: f64, ns: impl Fn(u64) -> f64) {
        self.waits = self.waits.saturating_add(sum.waits);
        self.waited_ns += ns(sum.wait_ticks);
        self.behind_ns += ns(sum.behind_ticks);
        self.holds = self.holds.saturating_add(sum.holds);
        self.held_ns += sum.held_ns(own_ns, ns);
    }

    /// Adds what holders did whose lock calls had one return address.
    fn add_while_held(&mut self, sum: &CallerRecord, section: u64, own_ns: f64, ns_per_tick: f64) {
        let ns = |ticks: u64| ticks as f64 * ns_per_tick;
        let parts = [sum.hold_waited_ticks, sum.hold_slept_ticks, sum.hold_preempted_ticks].map(ns);
        let waited_before_ns = self.while_held.map_or(0.0, |so_far| so_far.waiting_ns);
        if parts[0] > waited_before_ns && sum.waited_for_votes > 0 {
            self.waited_for = Some(LockId { section, number: (sum.waited_for >> 1) as u32 });
        }
        let held = WhileHeld::of(sum.held_ns(own_ns, ns) - ns(sum.hold_unknown_ticks), parts);
        self.while_held = Some(self.while_held.unwrap_or_default().and(&held));
    }

    /// What was done with several locks, by place in the source.
    pub(super) fn sum<'s>(all: impl Iterator<Item = &'s Self>) -> Vec<Self> {
        let mut by_place: BTreeMap<(&str, Option<&str>), Self> = BTreeMap::new();
        for of in all {
            let Some(sum) = by_place.get_mut(&(&*of.function, of.source.as_deref())) else {
                by_place.insert((&of.function, of.source.as_deref()), of.clone());
                continue;
            };
            sum.waits = sum.waits.saturating_add(of.waits);
            sum.waited_ns += of.waited_ns;
            sum.behind_ns += of.behind_ns;
            sum.while_held = WhileHeld::both((sum.while_held, sum.holds), (of.while_held, of.holds));
            if sum.waiting_for.is_none() {
                sum.waiting_for.clone_from(&of.waiting_for);
            }
            sum.holds = sum.holds.saturating_add(of.holds);
            sum.held_ns += of.held_ns;
        }
        let mut uses: Vec<_> = by_place.into_values().collect();
        uses.sort_by(Self::most_first);
        uses
    }

    /// The order of call sites: the longest waits there and behind it first, then the longest holds.
    pub(super) fn most_first(a: &Self, b: &Self) -> Ordering {
        let waits_ns = |site: &Self| site.waited_ns + site.behind_ns;
        let by_waits = waits_ns(b).total_cmp(&waits_ns(a));
        by_waits.then(b.held_ns.total_cmp(&a.held_ns)).then_with(|| a.function.cmp(&b.function))
    }
}

/// The function that a return address belongs to, its place in the source, and the file that its code is in. If that is a wrapper of
/// locks: those that the stacks say called it, which begin with this address.
pub(super) fn place_of(
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
