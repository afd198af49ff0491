//! From where a lock is waited for, and behind whom: a sentence about its call sites.

use crate::text::{printable, time};
use profile::read::SiteUse;

/// Call sites that are told of a lock, those with most of the waits.
const SITES: usize = 2;
/// The least share of the waits that a call site is told of for.
const LEAST: f64 = 0.05;

/// "Waits for LOCK: 71 % in F; 95 % behind G, held 4.1 ms."; `None` if nobody is known to have waited.
pub fn sentence(lock: &str, sites: &[SiteUse]) -> Option<String> {
    Some(format!("Waits for {}: {}.", printable(lock), shares(sites)?))
}

/// What the sentence says of the call sites: "71 % in F; 95 % behind G, held 4.1 ms".
pub fn shares(sites: &[SiteUse]) -> Option<String> {
    let by = |ns: fn(&SiteUse) -> f64| {
        let total_ns: f64 = sites.iter().map(ns).sum();
        let mut sites: Vec<_> = sites.iter().map(|site| (ns(site) / total_ns, site)).collect();
        sites.retain(|(share, _)| *share >= LEAST);
        sites.sort_by(|a, b| b.0.total_cmp(&a.0));
        sites.truncate(SITES);
        sites
    };
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let waits = by(|site| site.waited_ns).into_iter();
    let waits: Vec<_> = waits.map(|(share, site)| format!("{} in {}", percent(share), place(site))).collect();
    let behind = by(|site| site.behind_ns).into_iter();
    let behind: Vec<_> = behind
        .map(|(share, site)| format!("{} behind {}{}", percent(share), place(site), held(site)))
        .collect();
    match (waits.as_slice(), behind.as_slice()) {
        ([], _) => None,
        (waits, []) => Some(waits.join(", ")),
        (waits, behind) => Some(format!("{}; {}", waits.join(", "), behind.join(", "))),
    }
}

/// A call site as people write it: the source's name without its directory.
pub(crate) fn place(site: &SiteUse) -> String {
    match site.source.as_ref().and_then(|source| source.rsplit('/').next()) {
        Some(source) => format!("{} ({})", site.function, printable(source)),
        None => site.function.clone(),
    }
}

/// How long a hold from a call site lasts.
pub(crate) fn held(site: &SiteUse) -> String {
    if site.holds == 0 { String::new() } else { format!(", held {}", time(site.held_ns / site.holds as f64)) }
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
