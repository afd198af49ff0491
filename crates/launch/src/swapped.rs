//! What became of a program's lock objects in a run with other locks: how many were swapped, how many were not, and why.

use crate::Swaps;
use crate::places::Places;
use profile::format::Refusal;
use profile::tally::{SITES, SharedTally, Tally};
use pthread::object::ObjectKind;
use report::text::grouped;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Objects of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct OfKind {
    /// Became the chosen lock.
    pub swapped: u64,
    /// Of those, objects some of whose calls are emulated.
    pub emulated: u64,
    /// Were to be swapped, and stayed the C library's.
    pub left: u64,
    /// No lock was chosen for them.
    pub not_chosen: u64,
    #[serde(skip)]
    reasons: [u64; REASONS.len()],
}

/// What was counted in a run.
#[derive(Debug, Clone)]
pub struct Swapped {
    /// Process images that the preload library was loaded into.
    pub processes: u64,
    kinds: [OfKind; 3],
    /// Condition variables that are shared between processes, and so stay the C library's.
    shared_conditions: u64,
    /// Objects that each site of `--only` matched.
    sites: Vec<u64>,
    /// Objects that proved to be of each site after the C library had got them.
    late: Vec<u64>,
    /// Whether objects that no lock was chosen for are counted, or only whether there are some.
    counts_all: bool,
}

/// Why an object stays the C library's that is a lock.
const REASONS: [(Refusal, &str); 5] = [
    (Refusal::ProcessShared, "shared between processes"),
    (Refusal::Robust, "robust"),
    (Refusal::PriorityInheriting, "inherit priority"),
    (Refusal::PriorityProtected, "have a priority ceiling"),
    (Refusal::Other, "in a state that only the C library knows, or past the bound of locks"),
];

impl Swapped {
    /// What was counted so far.
    pub fn read(tally: &SharedTally) -> Self {
        let tally = tally.get();
        let number = |word: &AtomicU64| word.load(Relaxed);
        let of_kind = |kind| {
            let counts = tally.of(kind);
            let reasons = REASONS.map(|(reason, _)| number(counts.left_for(reason)));
            OfKind {
                swapped: number(&counts.swapped),
                emulated: number(&counts.emulated),
                left: reasons.iter().sum(),
                not_chosen: number(&counts.not_chosen),
                reasons,
            }
        };
        Self {
            processes: number(&tally.processes),
            kinds: ObjectKind::ALL.map(of_kind),
            shared_conditions: number(tally.of(ObjectKind::Mutex).left_for(Refusal::Condition)),
            sites: tally.sites[..SITES].iter().map(number).collect(),
            late: tally.late[..SITES].iter().map(number).collect(),
            counts_all: number(&tally.counts_all) != 0,
        }
    }

    /// The objects of a kind.
    pub fn of(&self, kind: ObjectKind) -> &OfKind {
        &self.kinds[kind.index()]
    }

    /// Whether any object became another lock.
    pub fn any(&self) -> bool {
        self.kinds.iter().any(|counts| counts.swapped > 0)
    }

    /// Whether a site of `--only` has objects that are not its lock, or none at all.
    pub fn missed(&self, swaps: &Swaps) -> bool {
        self.processes > 0 && (0..swaps.only.len()).any(|site| self.sites[site] == 0 || self.late[site] > 0)
    }

    /// A line for each kind of object: how many were swapped, left, and why.
    pub fn lines(&self, swaps: &Swaps) -> Vec<String> {
        let line = |kind: ObjectKind| {
            let counts = self.of(kind);
            let mut parts = Vec::new();
            let mut say = |count: u64, what: String| {
                if count > 0 {
                    parts.push(format!("{} {what}", grouped(count)));
                }
            };
            say(counts.swapped, "swapped".to_owned());
            say(counts.emulated, "of them with calls that are emulated".to_owned());
            for ((_, why), &count) in REASONS.iter().zip(&counts.reasons) {
                say(count, format!("left to glibc ({why})"));
            }
            say(counts.not_chosen, format!("left to glibc ({})", swaps.why_not(kind)));
            let counted = if parts.is_empty() { "none seen".to_owned() } else { parts.join(", ") };
            format!("{}: {counted}", kind.plural())
        };
        let conditions = (self.shared_conditions > 0).then(|| {
            format!(
                "condition variables: {} left to glibc (shared between processes)",
                grouped(self.shared_conditions)
            )
        });
        ObjectKind::ALL.into_iter().map(line).chain(conditions).collect()
    }

    /// What went otherwise than the user who asked for the swaps may think. `places` are the locks of the profile in which the sites were
    /// looked for; `all_reached` is false where another line names processes that were not reached.
    pub fn warnings(&self, swaps: &Swaps, places: Option<&Places>, all_reached: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        if swaps.is_empty() {
            return warnings; // as the user says
        }
        if self.processes == 0 {
            warnings.push(
                "no process loaded the preload library, so that nothing was swapped: the program is linked statically, runs \
                 with another user's rights, or cleared its environment"
                    .to_owned(),
            );
            return warnings;
        }
        for (only, (&matched, &late)) in swaps.only.iter().zip(self.sites.iter().zip(&self.late)) {
            let site = &only.site;
            if late > 0 {
                warnings.push(format!(
                    "--only `{site}`: {} of its locks stayed glibc's, as they were first taken by a call that the profile has not \
                     seen: record a profile in which that happens",
                    grouped(late)
                ));
            } else if matched == 0 {
                let not_found = match places.and_then(|places| places.unknown(site)) {
                    Some(near) => format!("no lock of that name was found: {near}"),
                    None => format!(
                        "no lock of that name was found, or {} cannot take its place: give a name from the table of \
                         `contend profile`, with --profile FILE if the profile is in another folder, or a symbol of the program",
                        only.lock
                    ),
                };
                warnings.push(format!("--only `{site}`: {not_found}"));
            }
        }
        if !self.any() && warnings.is_empty() {
            warnings.extend(self.why_nothing(swaps, all_reached));
        }
        warnings
    }

    /// Why nothing was swapped; `None` where processes that were not reached say enough.
    fn why_nothing(&self, swaps: &Swaps, all_reached: bool) -> Option<String> {
        let left: Vec<String> = ObjectKind::ALL
            .into_iter()
            .filter(|&kind| self.of(kind).left + self.of(kind).not_chosen > 0)
            .map(|kind| match self.of(kind) {
                counts if self.counts_all || counts.not_chosen == 0 => {
                    let number = counts.left + counts.not_chosen;
                    format!("{} {}", grouped(number), kind.counted(number))
                }
                _ => format!("{} ({})", kind.plural(), swaps.why_not(kind)),
            })
            .collect();
        let why = if left.is_empty() {
            "no lock of the pthread functions was seen in the processes that were reached (locks of Rust, Go and the like are \
             a program's own)"
                .to_owned()
        } else {
            format!("left to glibc: {} (-v says why)", left.join(", "))
        };
        (all_reached || !left.is_empty()).then(|| format!("nothing was swapped: {why}"))
    }
}

const _: () =
    assert!(Tally::LENGTH > 0 && profile::tally::REASONS == REASONS.len() + 1, "and condition variables");

#[cfg(test)]
mod tests {
    use super::*;

    fn count(word: &AtomicU64, by: u64) {
        word.fetch_add(by, Relaxed);
    }

    #[test]
    fn a_line_says_how_many_and_why() {
        let tally = SharedTally::new(true).unwrap();
        count(&tally.get().processes, 2);
        let mutexes = tally.get().of(ObjectKind::Mutex);
        count(&mutexes.swapped, 1234);
        count(mutexes.left_for(Refusal::Robust), 5);
        count(mutexes.left_for(Refusal::Condition), 2);
        count(&tally.get().of(ObjectKind::Rwlock).not_chosen, 3);
        let swaps = Swaps::parse("mcs").unwrap();
        let swapped = Swapped::read(&tally);
        assert_eq!(
            swapped.lines(&swaps),
            [
                "mutexes: 1,234 swapped, 5 left to glibc (robust)",
                "reader-writer locks: 3 left to glibc (mcs: readers cannot share it)",
                "spin locks: none seen",
                "condition variables: 2 left to glibc (shared between processes)"
            ]
        );
        assert!(swapped.any() && swapped.warnings(&swaps, None, true).is_empty());
    }

    #[test]
    fn what_had_no_effect_is_said() {
        let tally = SharedTally::new(true).unwrap();
        let mut swaps = Swaps::parse("mutex=mcs").unwrap();
        let warnings = |swaps: &Swaps| Swapped::read(&tally).warnings(swaps, None, true).join("\n");
        assert!(warnings(&swaps).contains("no process"));
        count(&tally.get().processes, 1);
        assert!(warnings(&swaps).contains("no lock of the pthread functions was seen"));
        let unreached = Swapped::read(&tally).warnings(&swaps, None, false);
        assert!(unreached.is_empty(), "what was not reached is said: {unreached:?}");
        assert!(warnings(&Swaps::parse("glibc").unwrap()).is_empty(), "nothing was to be swapped");
        let uncounted = SharedTally::new(false).unwrap();
        count(&uncounted.get().processes, 1);
        count(&uncounted.get().of(ObjectKind::Rwlock).not_chosen, 1);
        let swaps_of_readers = Swaps::parse("mcs").unwrap();
        let of_readers = Swapped::read(&uncounted).warnings(&swaps_of_readers, None, true).join("\n");
        assert!(of_readers.contains("reader-writer locks (mcs: readers cannot share it)"), "{of_readers}");
        count(&tally.get().of(ObjectKind::Rwlock).not_chosen, 1);
        assert!(warnings(&swaps).contains("glibc: 1 reader-writer lock (-v"), "{}", warnings(&swaps));
        count(&tally.get().of(ObjectKind::Rwlock).not_chosen, 2);
        assert!(warnings(&swaps).contains("3 reader-writer locks"));
        swaps.only.push(crate::parse_site("cache=mcs").unwrap());
        let missed = |swaps: &Swaps| Swapped::read(&tally).missed(swaps);
        assert!(warnings(&swaps).contains("`cache`: no lock of that name") && missed(&swaps));
        count(&tally.get().sites[0], 1);
        assert!(!warnings(&swaps).contains("`cache`") && !missed(&swaps));
        count(&tally.get().late[0], 2);
        assert!(warnings(&swaps).contains("`cache`: 2 of its locks stayed glibc's") && missed(&swaps));
    }
}
