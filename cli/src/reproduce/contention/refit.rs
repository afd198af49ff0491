//! Whether the fitted numbers depend on the rows that they are fitted to: each is fitted to other rows instead.

use super::{Errors, FITS, Row, error, hardware_of, setup};
use crate::reproduce::published::Contention;
use crate::simulate::sweep;
use anyhow::Context as _;
use model::MachineFile;
use std::collections::BTreeMap;

/// Other rows for each number.
const OTHERS: [(&str, Row); 8] = [
    ("local_transfer", Row("within_socket", "1", 3)),
    ("local_transfer", Row("within_socket", "1", 8)),
    ("serial_read", Row("within_socket", "1", 10)),
    ("serial_read", Row("across_2_by_core", "0", 15)),
    ("link_hop", Row("rr_vs_ff_2", "2-3", 2)),
    ("link_hop", Row("across_2", "0-1", 30)),
    ("link_hop", Row("across_2", "2-3", 30)),
    ("controller_hop", Row("rr_vs_ff_16", "0-15", 16)),
];
/// Halvings of the interval in which a number is sought.
const HALVINGS: u32 = 10;

type Machines = BTreeMap<&'static str, MachineFile>;

/// One line for each number and other row: what the number becomes, and the errors of the rows that are fitted by
/// neither.
pub(super) fn on_other_rows(rows: &[Contention], machines: &Machines) -> anyhow::Result<Vec<String>> {
    OTHERS.iter().map(|(number, row)| refit(number, *row, rows, machines)).collect()
}

fn refit(number: &str, to: Row, rows: &[Contention], machines: &Machines) -> anyhow::Result<String> {
    let target = rows.iter().find(|row| to.is(row)).context("the row is one of the file")?;
    let of_file = value(&machines["cs900x8"], number).context("the machine has that number")?;
    let (mut low, mut high) = (of_file / 2.0, of_file * 2.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        let [error] = errors(&[target], rows, &with(machines, number, middle))?[..] else {
            anyhow::bail!("one row has one error");
        };
        // A dearer transfer makes fewer operations.
        if error > 0.0 { low = middle } else { high = middle }
    }
    let found = (low + high) / 2.0;
    let others = rows.iter().filter(|row| {
        let fitted = FITS.iter().any(|fit| fit.number != number && fit.row.is(row));
        !fitted && !to.is(row)
    });
    let mut all = Errors::default();
    for error in errors(&others.collect::<Vec<_>>(), rows, &with(machines, number, found))? {
        all.push(error);
    }
    let Row(table, nodes, cores) = to;
    Ok(format!(
        "{number} fitted to {table}, nodes {nodes}, {cores} cores instead: {found:.1} ns for {of_file} ns; the {} other rows: {}.",
        all.len(),
        all.summary()
    ))
}

/// The errors of some of the rows, each after one run.
fn errors(some: &[&Contention], rows: &[Contention], machines: &Machines) -> anyhow::Result<Vec<f64>> {
    let hardware = hardware_of(machines)?;
    let setups = some.iter().map(|row| setup(row, &hardware)).collect::<anyhow::Result<Vec<_>>>()?;
    let measured = sweep(&setups)?;
    let scored = some.iter().zip(&measured);
    Ok(scored.map(|(row, run)| error(run.throughput() / f64::from(row.cores), row, rows)).collect())
}

fn with(machines: &Machines, number: &str, value: f64) -> Machines {
    let mut machines = machines.clone();
    for coherence in machines.values_mut().filter_map(|file| file.coherence.as_mut()) {
        let numbers = match number {
            // They are one number.
            "local_transfer" => vec![&mut coherence.local_transfer, &mut coherence.invalidate],
            "serial_read" => vec![&mut coherence.serial_read],
            "link_hop" => vec![&mut coherence.link_hop],
            _ => vec![&mut coherence.controller_hop],
        };
        for figure in numbers.into_iter().flatten() {
            figure.value = value;
        }
    }
    machines
}

fn value(machine: &MachineFile, number: &str) -> Option<f64> {
    let coherence = machine.coherence.as_ref()?;
    let figure = match number {
        "local_transfer" => &coherence.local_transfer,
        "serial_read" => &coherence.serial_read,
        "link_hop" => &coherence.link_hop,
        _ => &coherence.controller_hop,
    };
    Some(figure.as_ref()?.value)
}

#[cfg(test)]
mod tests {
    use super::super::{machine_files, published};
    use super::*;

    #[test]
    fn another_row_gives_nearly_the_same_number() {
        let rows = published::cacheline_contention().unwrap();
        let line = refit("link_hop", Row("across_2", "0-1", 30), &rows, &machine_files().unwrap()).unwrap();
        let found = line.split(": ").nth(1).unwrap().split(' ').next().unwrap().parse::<f64>().unwrap();
        assert!((100.0..140.0).contains(&found), "{line}");
    }

    #[test]
    fn only_the_number_changes() {
        let machines = machine_files().unwrap();
        let changed = with(&machines, "serial_read", 7.0);
        assert_eq!(value(&changed["dl580"], "serial_read"), Some(7.0));
        assert_eq!(value(&changed["dl580"], "link_hop"), value(&machines["dl580"], "link_hop"));
    }
}
