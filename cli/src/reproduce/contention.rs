//! The contention tables of the 2014 talk: a tight loop of acquire and release, row by row.

use super::Reproduction;
use super::published::{self, Contention, Fault};
use super::simulated::{hardware, lock_name, workload};
use crate::simulate::{Placement, Setup, sweep};
use anyhow::Context as _;
use report::{Cell, Column, Table};
use simulator::Hardware;
use std::collections::BTreeMap;

/// Rows that the numbers of a machine file are fitted to, by table, execution nodes and cores.
const FITTED: [(&str, &str, u32); 4] = [
    ("within_socket", "1", 2),
    ("within_socket", "1", 14),
    ("rr_vs_ff_2", "0-1", 2),
    ("rr_vs_ff_8", "0-7", 8),
];
/// The goals for the rows that are not fitted.
const MEDIAN_GOAL: f64 = 0.1;
const WORST_GOAL: f64 = 0.4;

/// Every row, simulated.
pub(super) fn contention() -> anyhow::Result<Reproduction> {
    let rows = published::cacheline_contention()?;
    let machines = ["dl580", "cs900x8", "cs900x16"];
    let hardware = machines
        .iter()
        .map(|&name| Ok((name, hardware(name)?)))
        .collect::<anyhow::Result<BTreeMap<&str, Hardware>>>()?;
    let cacheline = workload("cacheline")?;
    let setups = rows
        .iter()
        .map(|row| {
            let hardware =
                hardware.get(&*row.machine).with_context(|| format!("no machine {}", row.machine))?;
            let placement = if row.placement == "FF" { Placement::FillFirst } else { Placement::RoundRobin };
            Ok(Setup {
                cores: row.cores,
                places: placement.cores(hardware, &nodes(&row.execution_nodes)?, row.cores as usize),
                duration_ns: 4_000_000,
                memory_node: row.memory_node,
                ..Setup::new(hardware, cacheline, lock_name("ticket"))
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let measured = sweep(&setups)?;

    let mut table = Table::new([
        Column::text("table", "table"),
        Column::text("machine", "machine"),
        Column::text("placement", "placement"),
        Column::text("execution_nodes", "nodes"),
        Column::number("memory_node", "memory").detail(),
        Column::number("cores", "cores"),
        Column::number("published", "published ops/s/core"),
        Column::number("simulated", "simulated ops/s/core"),
        Column::percent("error", "error %"),
        Column::text("verdict", "verdict"),
    ]);
    let mut errors = Vec::new();
    for (row, one) in rows.iter().zip(&measured) {
        let simulated = one.throughput() / f64::from(row.cores);
        let error = error(simulated, row, &rows);
        let fitted = FITTED.contains(&(&*row.table, &*row.execution_nodes, row.cores));
        let verdict = match (fitted, error.abs()) {
            (true, _) => "fitted",
            (false, error) if error <= MEDIAN_GOAL => "within 10 %",
            (false, error) if error <= WORST_GOAL => "within 40 %",
            (false, _) => "missed",
        };
        if !fitted {
            errors.push(error.abs());
        }
        table.row([
            Cell::from(row.table.as_str()),
            Cell::from(row.machine.as_str()),
            Cell::from(row.placement.as_str()),
            Cell::from(row.execution_nodes.as_str()),
            Cell::from(row.memory_node),
            Cell::from(row.cores),
            Cell::from(row.ops_per_sec_per_core),
            Cell::from(simulated),
            Cell::from(error),
            Cell::from(verdict),
        ]);
    }
    errors.sort_by(f64::total_cmp);
    let median = errors[errors.len() / 2];
    let worst = errors.last().copied().unwrap_or(f64::NAN);
    let over = errors.iter().filter(|&&error| error > WORST_GOAL).count();
    Ok(Reproduction {
        title: "Contention on one ticket lock, 2014 talk, simulated",
        table,
        plots: Vec::new(),
        notes: vec![
            format!(
                "{} rows are not fitted: median error {:.1} % (goal 10 %), worst {:.1} % (goal 40 %), {over} over 40 %.",
                errors.len(),
                100.0 * median,
                100.0 * worst
            ),
            "A set-up that was measured twice is scored against the range of its repeats.".into(),
            "Lacking: what makes 30 cores slower when the lock's memory is on a socket that none of them is on. Here a die keeps its line longer then, and its cores pass the lock on among them.".into(),
        ],
        faults: [9, 10, 11, 12, 13].map(Fault).to_vec(),
    })
}

/// The relative error of a simulated value; zero inside the range of the repeats of a set-up.
fn error(simulated: f64, row: &Contention, rows: &[Contention]) -> f64 {
    let repeats = rows.iter().filter(|other| other.set_up() == row.set_up());
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for repeat in repeats {
        low = low.min(repeat.ops_per_sec_per_core);
        high = high.max(repeat.ops_per_sec_per_core);
    }
    let nearest = simulated.clamp(low, high);
    simulated / nearest - 1.0
}

/// Socket numbers written as `0`, `0-3`.
fn nodes(text: &str) -> anyhow::Result<Vec<u32>> {
    let number = |text: &str| text.parse::<u32>().with_context(|| format!("`{text}` is no node"));
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Ok((number(first)?..=number(last)?).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_an_error_and_most_are_small() {
        let reproduction = contention().unwrap();
        let json = reproduction.table.json();
        let rows = json.as_array().unwrap();
        assert_eq!(rows.len(), 32);
        let within = rows.iter().filter(|row| row["verdict"] != "missed").count();
        assert!(within >= 29, "{within} of 32 within 40 %");
    }

    #[test]
    fn a_row_is_scored_against_its_repeats() {
        let rows = published::cacheline_contention().unwrap();
        let row = rows.iter().find(|row| row.cores == 2 && row.set_up().1 == "1").unwrap();
        assert_eq!(error(7e6, row, &rows), 0.0);
        assert!((error(8_305_993.0 * 1.1, row, &rows) - 0.1).abs() < 1e-9);
    }
}
