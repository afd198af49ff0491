//! Names that a user gives: of locks, machines, workloads and the like. One that is not known is answered with the nearest.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::usage::UsageError;
use curve::text;
use locks::catalogue::{ELIDED, LOCKS, Lock};

/// Names as far from the given one as this, or farther, are not offered. 1 is the same name, 0 has nothing in common.
const NEAR: f64 = 0.75;

/// So many are offered at most.
const OFFERED: usize = 3;

/// The error for a name that is none of `known`: which are near, and what lists them all.
pub fn unknown<'a>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    listed: &str,
) -> UsageError {
    let near = nearest(name, known);
    let offer = match &near[..] {
        [] => ":".to_owned(),
        [only] => format!("; did you mean `{only}`?"),
        [first @ .., last] => format!("; did you mean {} or `{last}`?", quoted(first)),
    };
    UsageError::new(format!("there is no {what} `{}`{offer} {listed}", text::printable(name)))
}

/// The error for a site that is none of a profile's, which holds these, the one that costs most first: if none is near,
/// the first ones are named.
pub fn unknown_site(site: &str, profile: &std::path::Path, held: &[&str]) -> UsageError {
    let near = nearest(site, held.iter().copied());
    let (word, offered) = if near.is_empty() { ("holds", held) } else { ("near are", &near[..]) };
    let some: Vec<_> = offered.iter().take(OFFERED).map(|name| text::printable(name)).collect();
    let some = quoted(&some.iter().map(String::as_str).collect::<Vec<_>>());
    let offer = if some.is_empty() { String::new() } else { format!("; {word} {some}") };
    UsageError::new(format!(
        "{} holds no lock of the site `{}`{offer}: `contend report {0}` lists them",
        profile.display(),
        text::printable(site)
    ))
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The known names that are like this one, the nearest first.
fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let name = name.to_lowercase();
    let alike = |known: &str| {
        // One letter of a short name is a large part of it.
        let one_off =
            name.len() > 2 && name.len() == known.len() && strsim::damerau_levenshtein(&name, known) == 1;
        let part = if name.len() > 2 && known.contains(&*name) { NEAR } else { 0.0 };
        strsim::normalized_damerau_levenshtein(&name, known)
            .max(strsim::jaro_winkler(&name, known) - 0.1)
            .max(part)
            .max(if one_off { NEAR } else { 0.0 })
    };
    // A site such as `cache::Table::get+0x1c` is like the name of its function, too.
    let likeness = |known: &str| {
        let known = known.to_lowercase();
        let words = known.split(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '_' | '-'));
        words.map(alike).fold(alike(&known), f64::max)
    };
    let mut near: Vec<_> = known.into_iter().map(|known| (likeness(known), known)).collect();
    near.retain(|(likeness, _)| *likeness >= NEAR);
    // Of names that are as near, one that has other words besides comes later.
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.len().cmp(&b.1.len())).then(a.1.cmp(b.1)));
    near.dedup_by_key(|(_, known)| *known);
    near.into_iter().take(OFFERED).map(|(_, known)| known).collect()
}

/// Says once on standard error how a lock is called today, if this is a name that it had before.
pub fn note_renamed(name: &str) {
    static NOTED: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let Some(now) = locks::catalogue::renamed(name) else { return };
    if NOTED.lock().unwrap_or_else(PoisonError::into_inner).insert(now) {
        eprintln!("contend: the lock `{name}` is called `{now}` now; the next release drops the old name");
    }
}

/// The lock of this name.
pub fn lock(name: &str) -> Result<&'static Lock, String> {
    note_renamed(name);
    locks::catalogue::find(name).ok_or_else(|| unknown_lock(name, []).to_string())
}

/// The lock of this name, which may be an elided form, for a machine that has transactions.
pub fn simulated_lock(name: &str) -> Result<&'static Lock, String> {
    note_renamed(name);
    locks::catalogue::find_in_any_form(name).ok_or_else(|| {
        let elided = ELIDED.iter().map(|lock| lock.name);
        unknown_lock(name, elided).to_string()
    })
}

/// The types that put a lock into a program for good, in the three languages: in the place of a reader-writer lock if it `has_readers`,
/// else of a mutex.
pub fn types_of(lock: &Lock, has_readers: bool) -> String {
    let of_rust: String =
        lock.name.split('-').map(|part| part[..1].to_ascii_uppercase() + &part[1..]).collect();
    let (guard, of_c) =
        (if lock.shared && has_readers { "RwLock" } else { "Mutex" }, lock.name.replace('-', "_"));
    format!("{guard}<T, {of_rust}> in Rust, contend_{of_c}_t in C, contend::{of_c} in C++")
}

/// The error for a name that is no lock of the catalogue and none of `more`.
pub fn unknown_lock<'a>(name: &str, more: impl IntoIterator<Item = &'a str>) -> UsageError {
    let known = LOCKS.iter().map(|lock| lock.name).chain(more).collect::<Vec<_>>();
    if locks::catalogue::find_in_any_form(name).is_some_and(Lock::is_elided) && !known.contains(&name) {
        return UsageError::new(format!(
            "`{name}` is for machines that have transactions: `contend simulate` and `contend check` take it"
        ));
    }
    unknown("lock", name, known, "`contend locks` lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered_and_far_ones_are_not() {
        let locks = ["ticket", "ticket4", "mcs", "clh", "ttas", "tas", "rw-queued"];
        assert_eq!(nearest("tiket", locks)[0], "ticket");
        assert_eq!(nearest("tiket", ["elided-lazy:ticket", "elided:ticket", "ticket"])[0], "ticket");
        assert_eq!(nearest("MCS", locks), ["mcs"]);
        assert_eq!(nearest("mcss", locks), ["mcs"]);
        assert_eq!(nearest("msc", locks), ["mcs"]);
        assert_eq!(nearest("queued", locks), ["rw-queued"]);
        assert_eq!(nearest("tabel", ["main+0x10", "cache::TABLE+0x8"]), ["cache::TABLE+0x8"]);
        assert!(nearest("nosuch", locks).is_empty() && nearest("", locks).is_empty());
    }

    #[test]
    fn a_site_that_is_not_there_is_answered_with_those_that_are() {
        let answer =
            |site| unknown_site(site, "p.contend".as_ref(), &["TABLE", "log", "queue", "x"]).to_string();
        assert!(
            answer("tabel").contains("no lock of the site `tabel`; near are `TABLE`:"),
            "{}",
            answer("tabel")
        );
        assert!(answer("nosuch").contains("; holds `TABLE`, `log`, `queue`:"), "{}", answer("nosuch"));
        assert!(answer("nosuch").contains("`contend report p.contend`"));
    }

    #[test]
    fn the_types_of_a_lock_are_named_as_they_are() {
        assert_eq!(
            types_of(lock("rw-queued").unwrap(), true),
            "RwLock<T, RwQueued> in Rust, contend_rw_queued_t in C, contend::rw_queued in C++"
        );
        assert!(types_of(lock("k42").unwrap(), false).starts_with("Mutex<T, K42> in Rust"));
        assert!(types_of(lock("adaptive").unwrap(), false).starts_with("Mutex<T, Adaptive> in Rust"));
        assert!(types_of(lock("adaptive").unwrap(), true).starts_with("RwLock<T, Adaptive> in Rust"));
    }

    #[test]
    fn the_name_that_a_lock_had_before_still_finds_it() {
        assert_eq!(lock("best").unwrap().name, "adaptive");
        assert_eq!(lock("mutex").unwrap().name, "kernel-mutex");
        assert_eq!(simulated_lock("elided:best").unwrap().name, "elided:adaptive");
    }

    #[test]
    fn the_error_names_what_was_given_and_what_lists_the_rest() {
        let error = lock("tiket").unwrap_err();
        assert!(
            error.contains("no lock `tiket`; did you mean `ticket`") && error.contains("contend locks"),
            "{error}"
        );
        let error = lock("no\u{1b}such").unwrap_err();
        assert!(error.contains("no lock `no\\u{1b}such`: `contend locks` lists them"), "{error}");
    }
}
