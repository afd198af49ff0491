//! Which lock to start with in each coarse situation.

use super::regime::{CONTENDED, LINE_NS, Measured, Ratios, SHORT_LINES, Situation, bounds_bypassing, locks};
use compare::statistics::SMALLEST_DIFFERENCE;
use report::{Cell, Column, Table};

/// The lock of a situation, and the next one.
struct Decision {
    situation: Situation,
    regimes: usize,
    /// Those that bound how often a waiter is bypassed, by geometric mean, the greatest first.
    locks: Vec<(&'static str, Ratios)>,
    /// The first of the others, if its mean is greater.
    faster: Option<(&'static str, Ratios)>,
}

/// What decides, in words.
pub(super) fn rule() -> String {
    format!(
        "Of the locks that took part in all regimes of a situation, and that bound how often a waiter is bypassed (`contend locks`), \
         the table names the one whose ratios to the best have the \
         greatest geometric mean (which one failure makes 0), with its worst ratio, and the next; `faster` is the lock without such a \
         bound that comes before it, if one does; `alike` counts the others whose mean is less than 1 % below, \
         and `slowest` is the least part of the mean thread's acquisitions that the slowest thread got. `one a core` \
         is as many threads as cores or fewer. A section is short up to \
         {SHORT_LINES} lines or {} ns. A lock is asked for often where the other threads that run at a time want it for more \
         than {:.0} % of the time, each for its section and {LINE_NS} ns of a hand-over in every round of section and think \
         time, a shared line counting {LINE_NS} ns.",
        SHORT_LINES * LINE_NS,
        100.0 * CONTENDED
    )
}

fn decisions(measured: &[Measured]) -> Vec<Decision> {
    let mut situations: Vec<Situation> = measured.iter().map(|one| one.regime.situation()).collect();
    situations.sort_unstable();
    situations.dedup();
    let decision = |situation| {
        let here: Vec<&Measured> =
            measured.iter().filter(|one| one.regime.situation() == situation).collect();
        // A lock that failed once has the mean 0.
        let everywhere = |ratios: &Ratios| ratios.regimes == here.len() && ratios.geometric_mean > 0.0;
        let ratios = |lock: &'static str| Some((lock, Ratios::of(lock, &here).filter(everywhere)?));
        let mut ranked: Vec<_> = locks(&here).iter().filter_map(|lock| ratios(lock.name())).collect();
        ranked.sort_by(|(_, a), (_, b)| b.geometric_mean.total_cmp(&a.geometric_mean));
        let faster = ranked.first().filter(|(lock, _)| !bounds_bypassing(lock)).cloned();
        ranked.retain(|(lock, _)| bounds_bypassing(lock));
        Decision { situation, regimes: here.len(), locks: ranked, faster }
    };
    situations.into_iter().map(decision).collect()
}

/// How many more locks come so near to the first that the layout of memory may be why they do not come first.
fn alike(locks: &[(&str, Ratios)]) -> usize {
    let Some(((_, first), others)) = locks.split_first() else { return 0 };
    let bound = first.geometric_mean * (1.0 - SMALLEST_DIFFERENCE);
    others.iter().filter(|(_, ratios)| ratios.geometric_mean >= bound).count()
}

/// A row for each situation that occurs.
pub(super) fn table(measured: &[Measured]) -> Table {
    let mut table = Table::new([
        Column::text("reads", "reads"),
        Column::text("threads", "threads").kept(),
        Column::text("section", "section").kept(),
        Column::text("asked_for", "asked for").kept(),
        Column::text("lock", "lock").kept(),
        Column::number("geometric_mean", "mean"),
        Column::number("worst_ratio", "worst"),
        Column::text("worst_where", "where").detail(),
        Column::text("next_lock", "next").detail(),
        Column::number("next_geometric_mean", "mean of next").detail(),
        Column::number("alike", "alike").detail(),
        Column::text("faster_lock", "faster"),
        Column::number("faster_geometric_mean", "mean of faster").detail(),
        Column::number("slowest_share", "slowest").detail(),
        Column::number("regimes", "regimes").detail(),
    ]);
    for Decision { situation, regimes, locks, faster } in decisions(measured) {
        let Situation { reads, cores_are_shared, long, contended } = situation;
        let (first, next) = (locks.first(), locks.get(1));
        table.row([
            Cell::from(if reads { "some" } else { "none" }),
            if cores_are_shared { "more" } else { "one a core" }.into(),
            if long { "long" } else { "short" }.into(),
            if contended { "often" } else { "rarely" }.into(),
            first.map(|(lock, _)| *lock).into(),
            first.map(|(_, ratios)| ratios.geometric_mean).into(),
            first.map(|(_, ratios)| ratios.worst).into(),
            first.map(|(_, ratios)| ratios.worst_where.as_str()).into(),
            next.map(|(lock, _)| *lock).into(),
            next.map(|(_, ratios)| ratios.geometric_mean).into(),
            alike(&locks).into(),
            faster.as_ref().map(|(lock, _)| *lock).into(),
            faster.as_ref().map(|(_, ratios)| ratios.geometric_mean).into(),
            first.and_then(|(_, ratios)| ratios.least_slowest_share).into(),
            regimes.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::regime::tests::{failed, figures, measured};
    use super::*;
    use report::every_screen;

    #[test]
    fn the_greatest_geometric_mean_decides_among_those_that_were_everywhere() {
        let all = [
            // mcs is best once and poor once; clh is never best.
            measured(0, vec![figures("mcs", 100.0), figures("clh", 90.0), figures("k42", 20.0)]),
            measured(0, vec![figures("mcs", 25.0), figures("clh", 80.0), figures("k42", 100.0)]),
            // osq is best here, but was nowhere else.
            measured(
                0,
                vec![figures("mcs", 10.0), figures("clh", 10.0), figures("k42", 10.0), figures("osq", 10.1)],
            ),
        ];
        let json = table(&all).json();
        assert_eq!(json.as_array().map(Vec::len), Some(1), "one situation: {json}");
        assert_eq!((json[0]["lock"].as_str(), json[0]["next_lock"].as_str()), (Some("clh"), Some("mcs")));
        assert_eq!(json[0]["alike"].as_u64(), Some(0));
        assert!((json[0]["worst_ratio"].as_f64().unwrap() - 0.8).abs() < 1e-12, "{json}");
    }

    #[test]
    fn a_lock_that_may_starve_a_waiter_is_named_beside_the_one_to_take() {
        let all =
            [measured(0, vec![figures("tas", 100.0), figures("mcs", 80.0), figures("std-mutex", 90.0)])];
        let json = table(&all).json();
        assert_eq!((json[0]["lock"].as_str(), json[0]["faster_lock"].as_str()), (Some("mcs"), Some("tas")));
        let all = [measured(0, vec![figures("tas", 70.0), figures("mcs", 80.0)])];
        assert!(table(&all).json()[0]["faster_lock"].is_null(), "it comes first itself");
        let all = [measured(0, vec![figures("tas", 70.0)])];
        let json = table(&all).json();
        assert!(json[0]["lock"].is_null() && json[0]["faster_lock"] == "tas", "{json}");
    }

    #[test]
    fn locks_within_a_hundredth_of_the_first_are_counted() {
        let all = [measured(0, vec![figures("mcs", 100.0), figures("clh", 99.2), figures("k42", 98.0)])];
        assert_eq!(table(&all).json()[0]["alike"].as_u64(), Some(1));
    }

    #[test]
    fn a_lock_that_failed_once_is_not_chosen() {
        let all = [
            measured(0, vec![figures("mcs", 100.0), figures("k42", 1.0)]),
            measured(0, vec![failed("mcs"), figures("k42", 1.0)]),
        ];
        assert_eq!(table(&all).json()[0]["lock"].as_str(), Some("k42"));
        let all = [&all[..], &[measured(0, vec![figures("mcs", 1.0), failed("k42")])]].concat();
        let json = table(&all).json();
        assert!(json[0]["lock"].is_null() && json[0]["regimes"] == 3, "{json}");
    }

    #[test]
    fn the_table_on_every_screen() {
        let mut shared = measured(90, vec![figures("ticket-proportional", 100.0), figures("rw", 95.0)]);
        shared.regime.load.threads = 64;
        let all = [measured(0, vec![figures("ticket-proportional", 90.0), figures("rw", 95.0)]), shared];
        let names = ["ticket-proportional", "rw"];
        insta::assert_snapshot!(every_screen(&names, |screen| table(&all).terminal(screen)));
    }
}
