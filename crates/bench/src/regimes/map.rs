//! The best lock of each regime as a picture.

use super::regime::{Measured, Regime, shown_think};
use curve::text::counted;
use locks::catalogue::Family;
use report::map::{CellMap, MapCell, Panel};

/// What a lock is called in the legend whose family is not known.
const NO_FAMILY: &str = "another library's";

/// The values of a list, each once, in the order in which they are first seen.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut once: Vec<T> = Vec::new();
    for value in values {
        if !once.contains(&value) {
            once.push(value);
        }
    }
    once
}

/// A grid for each machine and share of reads: cores and threads down, sections and think times across, coloured by the family
/// of the best lock.
pub(super) fn of(title: String, measured: &[Measured]) -> CellMap {
    let groups = Family::ALL.iter().map(|family| family.name()).chain([NO_FAMILY]);
    let panel_of = |regime: &Regime| (regime.machine.clone(), regime.load.reads_percent);
    let panels = distinct(measured.iter().map(|one| panel_of(&one.regime)));
    let panels = panels.into_iter().map(|of| {
        let here: Vec<&Measured> = measured.iter().filter(|one| panel_of(&one.regime) == of).collect();
        panel(&of, &here)
    });
    CellMap::new(title, groups.map(str::to_owned).collect(), panels.collect())
}

fn panel((machine, reads_percent): &(Option<String>, u32), here: &[&Measured]) -> Panel {
    let row_of = |regime: &Regime| (regime.cores, regime.load.threads);
    let column_of = |regime: &Regime| (regime.load.section, regime.load.think_ns);
    let rows = distinct(here.iter().map(|one| row_of(&one.regime)));
    let columns = distinct(here.iter().map(|one| column_of(&one.regime)));
    let cell = |row, column| {
        let one = here.iter().find(|one| row_of(&one.regime) == row && column_of(&one.regime) == column)?;
        let best = one.best()?;
        let group =
            best.lock.family().and_then(|family| Family::ALL.iter().position(|&other| other == family));
        Some(MapCell {
            label: best.lock.name().into(),
            group: group.unwrap_or(Family::ALL.len()),
            tied: one.best_is_tied(),
        })
    };
    let reads = if *reads_percent == 0 { "no reads".into() } else { format!("{reads_percent} % reads") };
    Panel {
        title: machine.iter().cloned().chain([reads]).collect::<Vec<_>>().join(", "),
        columns: columns
            .iter()
            .map(|(section, think_ns)| {
                (format!("section {section}"), format!("think {}", shown_think(*think_ns)))
            })
            .collect(),
        rows: rows
            .iter()
            .map(|&(cores, threads)| {
                let label =
                    format!("{}, {}", counted(cores as u64, "core"), counted(threads as u64, "thread"));
                (label, columns.iter().map(|&column| cell((cores, threads), column)).collect())
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::regime::tests::{figures, measured};
    use super::*;

    #[test]
    fn every_regime_is_a_cell_with_its_best_lock() {
        let mut more = measured(0, vec![figures("ticket", 1.0), figures("posix-mutex", 2.0)]);
        more.regime.load.threads = 8;
        let all = [
            measured(0, vec![figures("ticket", 3.0), figures("mcs", 2.9)]),
            more,
            measured(50, vec![figures("rw", 3.0)]),
        ];
        let svg = of("title".into(), &all).svg();
        for part in ["no reads", "50 % reads", "2 cores, 8 threads", "posix-mutex", "ticket", "\nrw\n"] {
            assert!(svg.contains(part), "{part} is not in the map:\n{svg}");
        }
        assert!(!svg.contains("mcs"), "{svg}");
    }
}
