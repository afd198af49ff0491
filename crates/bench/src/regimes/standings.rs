//! How near each lock is to the best over many regimes.

use super::regime::{FAR_HEADING, Measured, NEAR_BOUNDED_HEADING, NEAR_HEADING, Ratios, locks};
use report::{Cell, Column, Table};

/// A row for each lock, best first: by the share of regimes in which it is near the best, then by its median ratio.
pub(super) fn table(measured: &[&Measured]) -> Table {
    let mut table = Table::new([
        Column::text("lock", "lock"),
        Column::text("library", "library").detail(),
        Column::number("regimes", "regimes").detail(),
        Column::percent("near_best", NEAR_HEADING),
        Column::percent("far_from_best", FAR_HEADING),
        Column::percent("near_best_bounded", NEAR_BOUNDED_HEADING),
        Column::number("worst_ratio_bounded", "worst of these").detail(),
        Column::number("median_ratio", "median"),
        Column::number("worst_ratio", "worst"),
        Column::text("worst_where", "where"),
        Column::number("least_slowest_share", "slowest").detail(),
        Column::number("longest_wait_ns", "longest wait ns").detail(),
    ]);
    let mut rows: Vec<_> = locks(measured)
        .into_iter()
        .filter_map(|lock| Some((lock, Ratios::of(lock.name(), measured)?)))
        .collect();
    rows.sort_by(|(_, a), (_, b)| b.near.total_cmp(&a.near).then(b.median.total_cmp(&a.median)));
    for (lock, ratios) in rows {
        table.row([
            Cell::from(lock.name()),
            lock.library().into(),
            ratios.regimes.into(),
            ratios.near.into(),
            ratios.far.into(),
            ratios.near_bounded.into(),
            ratios.worst_bounded.into(),
            ratios.median.into(),
            ratios.worst.into(),
            ratios.worst_where.into(),
            ratios.least_slowest_share.into(),
            ratios.longest_wait_ns.into(),
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
    fn the_table_on_every_screen() {
        let all = [
            measured(
                0,
                vec![figures("ticket-proportional", 100.0), figures("mcs", 95.0), figures("rw", 10.0)],
            ),
            measured(0, vec![failed("ticket-proportional"), figures("mcs", 95.0), figures("rw", 90.0)]),
        ];
        let table = table(&all.iter().collect::<Vec<_>>());
        let order: Vec<_> = (0..3).map(|row| table.json()[row]["lock"].as_str().map(str::to_owned)).collect();
        assert_eq!(order.iter().flatten().collect::<Vec<_>>(), ["mcs", "rw", "ticket-proportional"]);
        let names = ["ticket-proportional", "mcs", "rw"];
        insta::assert_snapshot!(every_screen(&names, |screen| table.terminal(screen)));
    }
}
