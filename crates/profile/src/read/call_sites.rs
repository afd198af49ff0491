//! From where a lock is waited for, and from where it is held meanwhile.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::container::{CallerRecord, Section, StackRecord};
use super::lock_names::caller_of;
use super::stacks::Stacks;
use super::symbols::{Function, Symbols};
use super::table::{LockId, SiteStack, SiteUse};
use super::while_held::WhileHeld;
use super::wrappers::{User, Wrapping};
use crate::format::ByStackValues;

/// What the threads of a process did with one lock, by the return address of the lock call.
#[derive(Default)]
pub(super) struct Callers(BTreeMap<u64, CallerRecord>);

/// The stacks with which the threads of a process took its locks, and those of which times are known, by the lock's number and the
/// return address of the lock call.
pub(super) struct TakenBy<'p> {
    stacks: HashMap<(u32, u64), Vec<&'p [u64]>>,
    walked: HashMap<(u32, u64), Vec<&'p StackRecord>>,
}

impl<'p> TakenBy<'p> {
    pub(super) fn of(section: &'p Section) -> Self {
        let mut stacks: HashMap<_, Vec<&[u64]>> = HashMap::new();
        let mut walked: HashMap<_, Vec<&StackRecord>> = HashMap::new();
        let lock_of = |record: &StackRecord| u32::try_from(record.values.lock).unwrap_or(u32::MAX);
        for record in &section.by_stack {
            walked.entry((lock_of(record), record.values.caller)).or_default().push(record);
        }
        let touched = section.locks.iter().map(|(&number, lock)| (number, &lock.frames));
        let sites = section.sites.iter().map(|(number, frames)| (*number, frames));
        let of_waits = section.by_stack.iter().filter(|record| !record.is_of_release());
        let waited = of_waits.map(|record| (lock_of(record), &record.frames));
        let mut known: HashSet<(u32, &[u64])> = HashSet::new();
        for (number, frames) in sites.chain(touched).chain(waited) {
            if let Some(&innermost) = frames.first()
                && known.insert((number, frames))
            {
                stacks.entry((number, innermost)).or_default().push(frames);
            }
        }
        Self { stacks, walked }
    }

    /// The stacks that took this lock by calls with this return address, as far as they are known.
    pub(super) fn stacks(&self, number: u32, caller: u64) -> &[&'p [u64]] {
        self.stacks.get(&(number, caller)).map_or(&[], Vec::as_slice)
    }

    /// What is known by stack of the waits at this call, and of the holds that began with it.
    fn walked(&self, number: u32, caller: u64) -> &[&'p StackRecord] {
        self.walked.get(&(number, caller)).map_or(&[], Vec::as_slice)
    }
}

/// A place in the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) function: String,
    pub(super) source: Option<String>,
    /// The program or library that the function is in.
    pub(super) file: String,
    /// The function stands for several, of which it is not known which one it was.
    several: bool,
}

/// What was done at one place, of that which was done with one return address.
#[derive(Default)]
struct Part {
    record: CallerRecord,
    /// What of it is known by stack: the calls from the place outwards.
    stacks: Vec<(Vec<u64>, CallerRecord)>,
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
        let ns = |ticks: u64| ticks as f64 * ns_per_tick;
        for (caller, sum) in self.0.into_iter().filter(|(_, sum)| sum.is_busy()) {
            let stacks = taken_by.stacks(number, caller);
            for (place, part) in divide(section, number, caller, &sum, taken_by, symbols) {
                let Place { function, source, file, several } = place;
                let known: Vec<_> = part.stacks.iter().map(|(frames, _)| &frames[..]).collect();
                let site = uses.entry((function.clone(), source.clone())).or_insert_with(|| {
                    let stacks = if known.len() == 1 { &known } else { stacks };
                    let calls = calls.as_mut();
                    let calls = calls.map(|calls| calls.of_site(section, caller, stacks, &function, symbols));
                    let calls = calls.unwrap_or_default();
                    SiteUse { function, source, file, several, calls, ..SiteUse::default() }
                });
                if !site.callers.is_empty() {
                    // Calls of one place with callers of their own.
                    site.calls.truncate(1);
                }
                site.callers.push(caller);
                site.add(&part.record, own_ns, ns);
                if section.process.watches_cores != 0 {
                    site.add_while_held(&part.record, section.number, own_ns, ns_per_tick);
                }
                for (frames, of) in part.stacks.iter().filter(|(_, of)| of.waits | of.behind_ticks > 0) {
                    let calls = calls.as_mut();
                    let calls =
                        calls.and_then(|calls| calls.of_walked(section, frames, &site.function, symbols));
                    let [waited_ns, behind_ns] = [of.wait_ticks, of.behind_ticks].map(ns);
                    site.stacks.extend(calls.map(|calls| SiteStack {
                        calls,
                        waits: of.waits,
                        waited_ns,
                        behind_ns,
                    }));
                }
            }
        }
        let mut uses: Vec<_> = uses.into_values().collect();
        uses.sort_by(SiteUse::most_first);
        uses
    }
}

/// Divides what was done with one return address among the functions that did it, as far as stacks tell.
///
/// Some of the waits have a stack, and stand for all of them; so do the waits behind long holds. Holds are long where their stacks were
/// walked, and so stand for themselves alone.
fn divide(
    section: &Section,
    number: u32,
    caller: u64,
    sum: &CallerRecord,
    taken_by: &TakenBy<'_>,
    symbols: &mut Symbols<'_>,
) -> Vec<(Place, Part)> {
    let (taken, walked) = (taken_by.stacks(number, caller), taken_by.walked(number, caller));
    if walked.is_empty() {
        let part = Part { record: *sum, stacks: Vec::new() };
        return vec![(place_of(section, caller, taken, symbols), part)];
    }
    let wrapping = Wrapping::of(section, caller, taken, walked, symbols);
    let mut parts: BTreeMap<Place, Part> = BTreeMap::new();
    let mut rest = *sum;
    for (record, share) in shares(walked, sum) {
        let user = if record.is_of_release() {
            wrapping.holder(&record.frames, symbols)
        } else {
            wrapping.taker(&record.frames, symbols)
        };
        if let Some(User { function, frames }) = user {
            let part = parts.entry(Place::of(&function)).or_default();
            let share = rest.take(&share);
            part.record.add(&share);
            part.stacks.push((frames, share));
        }
    }
    let takers = taken.iter().filter_map(|frames| wrapping.taker(frames, symbols));
    let takers = takers.map(|user| Place::of(&user.function));
    let places: BTreeSet<Place> = takers.chain(parts.keys().cloned()).collect();
    let is_one = places.len() == 1;
    if let Some(place) = Place::either(places).filter(|_| is_one || rest.is_busy()) {
        parts.entry(place).or_default().record.add(&rest);
    }
    parts.into_iter().collect()
}

/// For each stack what it stands for, of all that was done with its return address.
fn shares<'w>(
    walked: &'w [&StackRecord],
    sum: &CallerRecord,
) -> impl Iterator<Item = (&'w StackRecord, CallerRecord)> {
    let all = |of: fn(&ByStackValues) -> u64| -> u128 {
        walked.iter().map(|record| u128::from(of(&record.values))).sum()
    };
    let mut waits = Share::new(sum.waits, all(|of| of.waits));
    let mut wait_ticks = Share::new(sum.wait_ticks, all(|of| of.wait_ticks));
    let mut behind_ticks = Share::new(sum.behind_ticks, all(|of| of.behind_ticks));
    let (waited_for, votes) = (sum.waited_for, sum.waited_for_votes);
    walked.iter().map(move |record| {
        let of = &record.values;
        let share = CallerRecord {
            waits: waits.of(of.waits),
            wait_ticks: wait_ticks.of(of.wait_ticks),
            behind_ticks: behind_ticks.of(of.behind_ticks),
            holds: of.holds,
            hold_ticks: of.hold_ticks,
            hold_waited_ticks: of.hold_waited_ticks,
            hold_slept_ticks: of.hold_slept_ticks,
            hold_preempted_ticks: of.hold_preempted_ticks,
            hold_unknown_ticks: of.hold_unknown_ticks,
            waited_for,
            waited_for_votes: if of.hold_waited_ticks > 0 { votes } else { 0 },
            ..CallerRecord::default()
        };
        (*record, share)
    })
}

/// Divides a number in the proportion of others, so that nothing is left.
struct Share {
    number: u64,
    all: u128,
    so_far: u128,
    given: u64,
}

impl Share {
    fn new(number: u64, all: u128) -> Self {
        Self { number, all, so_far: 0, given: 0 }
    }

    fn of(&mut self, part: u64) -> u64 {
        if self.all == 0 {
            return 0;
        }
        self.so_far += u128::from(part);
        // The sum of fewer than 2^32 parts, scaled down where its product would not fit.
        let (so_far, all) =
            if self.all >> 64 == 0 { (self.so_far, self.all) } else { (self.so_far >> 32, self.all >> 32) };
        let given = (u128::from(self.number) * so_far / all) as u64;
        given - std::mem::replace(&mut self.given, given)
    }
}

impl CallerRecord {
    /// Takes so much out of it, or what there is.
    fn take(&mut self, share: &Self) -> Self {
        let mut taken = *share;
        for (from, part) in [
            (&mut self.waits, &mut taken.waits),
            (&mut self.wait_ticks, &mut taken.wait_ticks),
            (&mut self.holds, &mut taken.holds),
            (&mut self.hold_ticks, &mut taken.hold_ticks),
            (&mut self.behind_ticks, &mut taken.behind_ticks),
            (&mut self.hold_waited_ticks, &mut taken.hold_waited_ticks),
            (&mut self.hold_slept_ticks, &mut taken.hold_slept_ticks),
            (&mut self.hold_preempted_ticks, &mut taken.hold_preempted_ticks),
            (&mut self.hold_unknown_ticks, &mut taken.hold_unknown_ticks),
        ] {
            *part = (*part).min(*from);
            *from -= *part;
        }
        taken
    }

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
    /// The place that one return address stands for, which has the names of all of these.
    pub(super) fn either(sites: &[&Self]) -> Option<Self> {
        let places = sites.iter().filter(|site| sites.len() == 1 || !site.several).map(|site| Place {
            function: site.function.clone(),
            source: site.source.clone(),
            file: site.file.clone(),
            several: site.several,
        });
        let Place { function, source, file, several } = Place::either(places.collect())?;
        Some(Self { function, source, file, several, ..Self::default() })
    }

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
                by_place
                    .insert((&of.function, of.source.as_deref()), Self { stacks: Vec::new(), ..of.clone() });
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

impl Place {
    fn of(function: &Function) -> Self {
        Self {
            function: function.name.clone(),
            source: function.source.as_ref().map(|(file, line)| format!("{file}:{line}")),
            file: function.file.clone(),
            several: false,
        }
    }

    /// One of these, whichever it was.
    fn either(places: BTreeSet<Self>) -> Option<Self> {
        let mut places = places.into_iter();
        let first = places.next()?;
        if places.len() == 0 {
            return Some(first);
        }
        let file = first.file.clone();
        let names: BTreeSet<String> = [first].into_iter().chain(places).map(|place| place.function).collect();
        let several = names.len() > 1;
        let others = if names.len() > NAMES { " or others" } else { "" };
        let names: Vec<_> = names.into_iter().take(NAMES).collect();
        Some(Self { function: format!("{}{others}", names.join(" or ")), source: None, file, several })
    }
}

/// The function that a return address belongs to. If that is a wrapper of locks by its name: those that the stacks say called it, which
/// begin with this address.
pub(super) fn place_of(
    section: &Section,
    caller: u64,
    stacks: &[&[u64]],
    symbols: &mut Symbols<'_>,
) -> Place {
    let called = symbols.functions(section, caller);
    if let Some(function) = called.iter().find(|function| !function.wrapper) {
        return Place::of(function);
    }
    let callers = stacks.iter().filter_map(|frames| caller_of(section, frames, symbols));
    let callers = callers.map(|found| Place::of(&found)).collect();
    Place::either(callers).or_else(|| called.first().map(Place::of)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_what_is_divided() {
        for (number, parts) in
            [(10, &[1, 1, 1][..]), (7, &[0, 5]), (u64::MAX, &[u64::MAX, u64::MAX, 3]), (5, &[0])]
        {
            let all: u128 = parts.iter().copied().map(u128::from).sum();
            let mut share = Share::new(number, all);
            let given: u64 = parts.iter().map(|&part| share.of(part)).sum();
            assert_eq!(given, if all == 0 { 0 } else { number }, "{number} by {parts:?}");
        }
    }
}
