//! Whether the fitted numbers depend on the rows that they are fitted to: each is fitted to other rows instead.

use super::{Errors, FITS, Repeats, RowKey, hardware_of, setup};
use crate::published::Contention;
use crate::seeds::{self, Repeated};
use anyhow::Context as _;
use session::progress::Progress;
use simulate::SimulatedRun;
use simulator::{Hardware, PS_PER_NS};
use std::collections::BTreeMap;
use topology::MachineFile;
use topology::machine_file::{Figure, FigureUnit};

/// Other rows for each number. Two are fitted to no row in the machine files: what a crossing of a link takes follows
/// from the transfers, and a cache's read is a tenth of a transfer.
const OTHERS: [(&str, RowKey); 10] = [
    ("local_transfer", RowKey("within_socket", "1", 3)),
    ("local_transfer", RowKey("within_socket", "1", 12)),
    ("serial_read", RowKey("within_socket", "1", 14)),
    ("link_hop", RowKey("rr_vs_ff_2", "0-1", 2)),
    ("link_hop", RowKey("across_2", "2-3", 30)),
    ("link_hop", RowKey("rr_vs_ff_4", "0-3", 8)),
    ("controller_hop", RowKey("rr_vs_ff_8", "0-7", 8)),
    ("controller_hop", RowKey("rr_vs_ff_8", "0-7", 16)),
    ("controller_hop", RowKey("rr_vs_ff_8", "0-7", 120)),
    ("controller_hop", RowKey("rr_vs_ff_16", "0-15", 16)),
];
/// Halvings of the interval in which a number is sought.
const HALVINGS: u32 = 10;

type Machines = BTreeMap<&'static str, MachineFile>;

/// One line for each number and other row: what the number becomes, and the errors of the rows that are fitted by
/// neither.
pub(crate) fn on_other_rows(
    rows: &[Contention],
    machines: &Machines,
    progress: &dyn Progress,
) -> anyhow::Result<Vec<String>> {
    OTHERS.iter().map(|(number, row)| refit(number, *row, rows, machines, progress)).collect()
}

fn refit(
    number: &str,
    to: RowKey,
    rows: &[Contention],
    machines: &Machines,
    progress: &dyn Progress,
) -> anyhow::Result<String> {
    let target = rows.iter().find(|row| to.is(row)).context("the row is one of the file")?;
    let of_file = value(&machines["cs900x8"], number)?;
    let (mut low, mut high) = (of_file / 2.0, of_file * 2.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        let [error] = errors(&[target], rows, &with(machines, number, middle), progress)?[..] else {
            anyhow::bail!("one row has one error");
        };
        // A slower transfer makes fewer operations.
        if error > 0.0 { low = middle } else { high = middle }
    }
    let found = (low + high) / 2.0;
    let others = rows.iter().filter(|row| {
        let fitted = FITS.iter().any(|fit| fit.number != number && fit.row.is(row));
        !fitted && !to.is(row)
    });
    let mut all = Errors::default();
    for error in errors(&others.collect::<Vec<_>>(), rows, &with(machines, number, found), progress)? {
        all.push(error);
    }
    let RowKey(table, nodes, cores) = to;
    Ok(format!(
        "{number} fitted to {table}, nodes {nodes}, {cores} cores instead: {found:.1} ns for {of_file:.1} ns; the {} other rows: {}.",
        all.len(),
        all.summary()
    ))
}

/// The errors of some of the rows, each of the median over the seeds.
fn errors(
    some: &[&Contention],
    rows: &[Contention],
    machines: &Machines,
    progress: &dyn Progress,
) -> anyhow::Result<Vec<f64>> {
    let hardware = hardware_of(machines)?;
    let setups = some.iter().map(|row| setup(row, &hardware)).collect::<anyhow::Result<Vec<_>>>()?;
    let measured = seeds::run(&setups, progress)?;
    let error = |(row, runs): (&&Contention, &Repeated)| {
        Repeats::of(row, rows).error(runs.median(SimulatedRun::throughput) / f64::from(row.cores))
    };
    Ok(some.iter().zip(&measured).map(error).collect())
}

/// The machines of the tables with another number.
fn with(machines: &Machines, number: &str, value: f64) -> Machines {
    let mut machines = machines.clone();
    for coherence in machines.values_mut().filter_map(|file| file.coherence.as_mut()) {
        let figure = match number {
            "local_transfer" => &mut coherence.local_transfer,
            "serial_read" => &mut coherence.serial_read,
            "link_hop" => &mut coherence.link_hop,
            _ => &mut coherence.controller_hop,
        };
        let unit = FigureUnit::Nanoseconds;
        *figure = Some(Figure {
            value,
            low: None,
            high: None,
            unit,
            source: topology::Source::cited("another row"),
        });
    }
    machines
}

/// A number of a machine, from its file or from what follows from that.
fn value(machine: &MachineFile, number: &str) -> anyhow::Result<f64> {
    let hardware = Hardware::new(machine)?;
    let first_link = hardware.die_to_die[0].get(1).copied().unwrap_or(0);
    let farthest = hardware.die_to_die[0].last().copied().unwrap_or(0);
    let time = match number {
        "local_transfer" => hardware.local_transfer,
        "serial_read" => hardware.serial_read,
        "link_hop" => first_link,
        _ => farthest,
    };
    Ok(time as f64 / PS_PER_NS as f64)
}

#[cfg(test)]
mod tests {
    use super::super::{machine_files, published};
    use super::*;
    use session::progress::Unwatched;

    #[test]
    fn another_row_gives_nearly_the_same_number() {
        let rows = published::cacheline_contention().unwrap();
        let line =
            refit("link_hop", RowKey("rr_vs_ff_2", "0-1", 2), &rows, &machine_files().unwrap(), &Unwatched)
                .unwrap();
        let found = line.split(": ").nth(1).unwrap().split(' ').next().unwrap().parse::<f64>().unwrap();
        assert!((100.0..130.0).contains(&found), "{line}");
    }

    #[test]
    fn only_the_number_changes() {
        let machines = machine_files().unwrap();
        let changed = with(&machines, "serial_read", 7.0);
        let of = |machines: &Machines, number| value(&machines["dl580"], number).unwrap();
        assert_eq!(of(&changed, "serial_read"), 7.0);
        assert_eq!(of(&changed, "link_hop"), of(&machines, "link_hop"));
    }
}
