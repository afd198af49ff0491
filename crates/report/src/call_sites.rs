//! From where a lock is waited for, and behind whom: a sentence about its call sites.

use crate::text::{printable, time};
use profile::read::{SiteUse, WhileHeld};

/// Call sites that are told of a lock, those with most of the waits.
const SITES: usize = 2;
/// The least share of the waits that a call site is told of for.
const LEAST: f64 = 0.05;
/// The least share of a hold that is told of what the holder did.
const LEAST_TOLD: f64 = 0.01;

/// "Waits for LOCK: 71 % in F; 95 % behind G, held 4.1 ms."; `None` if no wait is known.
pub fn sentence(lock: &str, sites: &[SiteUse]) -> Option<String> {
    Some(format!("Waits for {}: {}.", printable(lock), shares(sites)?))
}

/// What the sentence says of the call sites: "71 % in F; 95 % behind G, held 4.1 ms".
pub fn shares(sites: &[SiteUse]) -> Option<String> {
    let waits: Vec<_> = waits(sites).map(|(share, place)| format!("{} in {place}", percent(share))).collect();
    match (waits.as_slice(), behind(sites)) {
        ([], _) => None,
        (waits, None) => Some(waits.join(", ")),
        (waits, Some(behind)) => Some(format!("{}; {behind}", waits.join(", "))),
    }
}

/// The places that a lock is waited for in, each with its share of the waits.
pub(crate) fn waits(sites: &[SiteUse]) -> impl Iterator<Item = (f64, String)> {
    largest(sites, |site| site.waited_ns).into_iter().map(|(share, site)| (share, place(site)))
}

/// Behind whose holds it is waited for: "95 % behind G, held 4.1 ms".
pub(crate) fn behind(sites: &[SiteUse]) -> Option<String> {
    let behind = largest(sites, |site| site.behind_ns).into_iter();
    let behind: Vec<_> = behind
        .map(|(share, site)| format!("{} behind {}{}", percent(share), place(site), held(site)))
        .collect();
    (!behind.is_empty()).then(|| behind.join(", "))
}

/// The call sites that are told of, with their shares of the time waited: behind which call all of it was is not always known.
fn largest(sites: &[SiteUse], ns: fn(&SiteUse) -> f64) -> Vec<(f64, &SiteUse)> {
    let sum_ns = |ns: fn(&SiteUse) -> f64| sites.iter().map(ns).sum::<f64>();
    // In the time between two looks, waits may have ended that were behind holds from before.
    let total_ns = sum_ns(|site| site.waited_ns).max(sum_ns(ns));
    let mut sites: Vec<_> = sites.iter().map(|site| (ns(site) / total_ns, site)).collect();
    sites.retain(|(share, _)| *share >= LEAST);
    sites.sort_by(|a, b| b.0.total_cmp(&a.0));
    sites.truncate(SITES);
    sites
}

/// A share in words.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// A call site as people write it: the source's name without its directory.
pub(crate) fn place(site: &SiteUse) -> String {
    place_of(&site.function, site.source.as_deref())
}

/// A function, and behind it the source's name without its directory.
pub(crate) fn place_of(function: &str, source: Option<&str>) -> String {
    match source.and_then(|source| source.rsplit('/').next()) {
        Some(source) => format!("{function} ({})", printable(source)),
        None => function.to_owned(),
    }
}

/// How long a hold from a call site lasts, and what the holder does meanwhile. Where it is not known which of several functions held the
/// lock, a mean would be that of none of them.
pub(crate) fn held(site: &SiteUse) -> String {
    if site.holds == 0 || site.several {
        return String::new();
    }
    let held = time(site.held_ns / site.holds as f64);
    match site.while_held.and_then(|held| did(&held, site.waiting_for.as_deref())) {
        Some(did) => format!(", held {held} ({did})"),
        None => format!(", held {held}"),
    }
}

/// "running 12 %, sleeping 85 %, preempted 3 %": what holders did, in the order of their time. `None` where they ran all the time, and
/// where nothing was timed.
fn did(held: &WhileHeld, waiting_for: Option<&str>) -> Option<String> {
    let waiting = match waiting_for {
        Some(lock) => format!("waiting for {}", printable(lock)),
        None => "waiting for other locks".to_owned(),
    };
    let parts = [
        ("running", held.running_ns),
        ("sleeping", held.sleeping_ns),
        ("preempted", held.preempted_ns),
        (&*waiting, held.waiting_ns),
    ];
    let mut parts = parts.map(|(name, ns)| (name, held.share(|_| ns).unwrap_or(0.0)));
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let told: Vec<_> = parts
        .iter()
        .filter(|(_, share)| *share >= LEAST_TOLD)
        .map(|(name, share)| format!("{name} {:.0} %", 100.0 * share))
        .collect();
    (parts[0].1 > 0.0 && !(told.len() == 1 && parts[0].0 == "running")).then(|| told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(function: &str, waited_ns: f64, behind_ns: f64) -> SiteUse {
        let source = Some("/src/cache.cpp:41".into());
        SiteUse { function: function.into(), source, waited_ns, behind_ns, ..SiteUse::default() }
    }

    #[test]
    fn a_sentence_has_the_first_sites_of_both_kinds() {
        let mut sites = vec![
            site("get", 710.0, 30.0),
            site("put", 200.0, 20.0),
            site("scan", 90.0, 0.0),
            site("grow", 0.0, 950.0),
        ];
        (sites[3].holds, sites[3].held_ns) = (2, 8.2e6);
        assert_eq!(
            sentence("Pool::m", &sites).as_deref(),
            Some(
                "Waits for Pool::m: 71 % in get (cache.cpp:41), 20 % in put (cache.cpp:41); 95 % behind grow (cache.cpp:41), held 4.10 ms."
            )
        );
    }

    #[test]
    fn what_the_holder_did_stands_behind_how_long_it_held() {
        let mut slow = site("grow", 1.0, 950.0);
        (slow.holds, slow.held_ns) = (2, 8.2e6);
        let held = WhileHeld { running_ns: 1e6, preempted_ns: 0.2e6, sleeping_ns: 7e6, waiting_ns: 0.0 };
        slow.while_held = Some(held);
        let told = shares(std::slice::from_ref(&slow)).unwrap();
        assert!(told.ends_with("held 4.10 ms (sleeping 85 %, running 12 %, preempted 2 %)"), "{told}");
        slow.while_held = Some(WhileHeld { sleeping_ns: 0.0, waiting_ns: 9e6, ..held });
        slow.waiting_for = Some("journal".into());
        let told = shares(std::slice::from_ref(&slow)).unwrap();
        assert!(told.ends_with("(waiting for journal 88 %, running 10 %, preempted 2 %)"), "{told}");
        let unknown = SiteUse { several: true, ..slow.clone() };
        assert!(shares(&[unknown]).unwrap().ends_with("(cache.cpp:41)"), "a mean of several is that of none");
        slow.while_held = Some(WhileHeld { running_ns: 5.0, ..WhileHeld::default() });
        assert!(shares(&[slow]).unwrap().ends_with("held 4.10 ms"), "that it ran is what one expects");
    }

    #[test]
    fn what_is_behind_a_call_is_a_share_of_all_that_was_waited() {
        let told = |behind_ns| shares(&[site("post", 400.0, 0.0), site("tiny", 7.0, behind_ns)]).unwrap();
        assert_eq!(told(3.1), "98 % in post (cache.cpp:41)");
        assert_eq!(told(40.7), "98 % in post (cache.cpp:41); 10 % behind tiny (cache.cpp:41)");
        assert!(told(500.0).contains("; 100 % behind tiny"), "no share is more than all");
    }

    #[test]
    fn without_waits_there_is_no_sentence() {
        assert_eq!(sentence("m", &[]), None);
        assert_eq!(sentence("m", &[site("get", 0.0, 0.0)]), None);
        let forged = site("get", f64::NAN, f64::INFINITY);
        assert_eq!(sentence("m", &[forged]), None);
        let escaped =
            sentence("\u{1b}[2J", &[SiteUse { source: Some("/\u{1b}c".into()), ..site("f", 1.0, 0.0) }]);
        assert_eq!(escaped.as_deref(), Some("Waits for \\u{1b}[2J: 100 % in f (\\u{1b}c)."));
    }
}
