//! The published claims on real hardware: which command shows each, and a file of what somebody measured against them.

use crate::Reproduction;
use crate::paper::{self, Benchmark};
use crate::published::{self, Claim};
use crate::verdict::{CORES_WITHIN, FACTOR_WITHIN, Verdict, is_as_printed};
use anyhow::Context as _;
use report::{Cell, Column, Table};
use session::ensure_usage;
use session::usage::UsageError;

/// A claim, and the command whose output shows it.
struct Planned {
    claim: Claim,
    command: String,
    /// What of the output is the value.
    value: &'static str,
}

impl Planned {
    fn new(
        [benchmark, lock, claim]: [&str; 3],
        published: f64,
        command: String,
        value: &'static str,
    ) -> Self {
        let [benchmark, lock, claim] = [benchmark, lock, claim].map(str::to_owned);
        let published = ((1_000.0 * published).round() / 1_000.0).to_string();
        let claim = Claim { benchmark, lock, claim, value: published, place: String::new() };
        Self { claim, command, value }
    }
}

/// What of a curve shows a claim.
fn value_of_curve(claim: &Claim) -> &'static str {
    match &*claim.claim {
        "peak_cores" => "threads of the most acquisitions/s",
        "last_good_cores" => "threads up to which acquisitions/s stay over 90 % of the best so far",
        "peak_throughput" | "most_speedup_below" => "the most acquisitions/s, over those of 1 thread",
        "throughput_at_48" => "acquisitions/s of 48 threads, over those of 1",
        "throughput_ratio" | "throughput_ratio_at_48" | "least_throughput_ratio_at_48" => {
            "acquisitions/s of 48 threads, the first lock over the second"
        }
        _ => "true or false",
    }
}

/// The command for a row of collapse_claims.csv; none for what is an input, or not measured.
fn command_for(claim: &Claim, benchmarks: &[Benchmark]) -> Option<(String, &'static str)> {
    let throughput = |locks: &str, section: f64, think: f64| {
        format!(
            "contend bench throughput --lock {locks} --section {section:.0}cycles --think {think:.0}cycles --threads 1..48 --json"
        )
    };
    match &*claim.benchmark {
        "EXIM_LINUX_2.6.35RC5" => Some((
            "contend bench exim --threads 40,48 --json".into(),
            "delivered messages/s, Linux 2.6.35-rc5",
        )),
        "LECTURE" => {
            let command = "contend bench cacheline --threads 48 --json".into();
            Some((command, "one word: cycles a second of a core over its additions a second"))
        }
        "FIG9_400_CYCLES" => Some((throughput("ticket", 400.0, 19_600.0), value_of_curve(claim))),
        "FIG10" if !claim.claim.starts_with("section_cycles") => {
            let command = "contend bench throughput --lock hclh,clh,mcs,k42 --section 4-lines --think 0 --threads 48 --json";
            Some((command.into(), value_of_curve(claim)))
        }
        name if !claim.claim.starts_with("critical_section") => {
            let benchmark = benchmarks.iter().find(|benchmark| benchmark.name == name)?;
            let command = throughput("mcs,ticket", benchmark.section_cycles(), benchmark.think_cycles);
            Some((command, value_of_curve(claim)))
        }
        _ => None,
    }
}

/// Rows of fig. 11 and of the contention tables.
fn lock_rows() -> anyhow::Result<Vec<Planned>> {
    let mut all = Vec::new();
    for cost in published::lock_costs()? {
        let command = format!("contend bench cost --lock {} --json", cost.own_name());
        let row = |claim, published, value| {
            Planned::new(["FIG11", &*cost.lock, claim], published, command.clone(), value)
        };
        all.extend([
            row("single_acquire_cycles", cost.single_acquire.value, "acquire"),
            row("single_release_cycles", cost.single_release.value, "release"),
            row("shared_acquire_cycles", cost.shared_acquire.value, "shared acquire"),
        ]);
    }
    for row in published::cacheline_contention()? {
        let order = if row.placement == "FF" { "fill-first" } else { "round-robin" };
        let command = format!(
            "contend bench cacheline --lock ticket --threads {} --placement {order} --nodes {} --memory-node {} --json",
            row.cores,
            row.execution_nodes.replace('-', ".."),
            row.memory_node
        );
        let claim = format!("{} {} {}", row.placement, row.execution_nodes, row.cores);
        let benchmark = format!("CONTENTION {}", row.table);
        let value = "operations/s of a core";
        all.push(Planned::new([&benchmark, "ticket", &claim], row.ops_per_sec_per_core, command, value));
    }
    Ok(all)
}

/// Gains that were published for whole programs, each under two kernels or with two locks.
fn program_rows(mempop: &Benchmark) -> anyhow::Result<Vec<Planned>> {
    const RATIO: &str = "throughput_ratio";
    const BEST_JOBS: &str = "jobs/min of the plateau, the kernel with the change over the one without";
    const FIRST_LOCK: &str = "acquisitions/s, the first lock over the second";
    let mut all = Vec::new();
    for plateau in published::back_off_plateaus()? {
        let mix = &plateau.workload;
        let middles =
            plateau.vanilla_low.zip(plateau.vanilla_high).zip(plateau.backoff_low.zip(plateau.backoff_high));
        let Some(((low, high), (back_off_low, back_off_high))) = middles else { continue };
        let ratio = (back_off_low + back_off_high) / (low + high);
        let command = format!("contend bench aim7 --mix {mix} --json");
        all.push(Planned::new(
            [&format!("AIM7 {mix}"), "back_off_over_ticket", RATIO],
            ratio,
            command,
            BEST_JOBS,
        ));
    }
    for form in published::rwsem_forms()? {
        let command = format!(
            "contend bench throughput --lock {},{} --section {:.0}cycles --think {:.0}cycles --threads 80 --json",
            form.faster,
            form.slower,
            mempop.section_cycles(),
            mempop.think_cycles
        );
        let lock = format!("{}_over_{}", form.faster, form.slower);
        all.push(Planned::new([&form.program, &lock, RATIO], form.ratio, command, FIRST_LOCK));
    }
    let of_change = |change: &str, command: &str, value| {
        let ratio = published::improvement(change)?.ratio();
        Ok::<_, anyhow::Error>(Planned::new(["KERNEL", change, RATIO], ratio, command.into(), value))
    };
    all.extend([
        of_change("mcs_files_lock", "contend bench aim7 --mix fserver --json", BEST_JOBS)?,
        of_change("lockref", "contend bench fops --threads 80 --json", "operations/s, Linux 3.12 over 3.11")?,
        of_change(
            "qrwlock",
            "contend bench throughput --lock rw-queued,rw-naive --section 200cycles --think 20000cycles --reads 50,90,99 --threads 80 --json",
            FIRST_LOCK,
        )?,
        of_change(
            "queued_spinlock_uncontended_unlock",
            "contend bench cost --lock qspin,ticket --json",
            "release, the first lock over the second",
        )?,
        of_change(
            "futex_hash_1024x32",
            "contend bench futex hash --threads 32 --futexes 1024 --json",
            "operations/s, Linux 3.14 over 3.13",
        )?,
        of_change(
            "futex_hash_1024x512",
            "contend bench futex hash --threads 512 --futexes 1024 --json",
            "operations/s, Linux 3.14 over 3.13",
        )?,
    ]);
    Ok(all)
}

/// Every claim that a command shows.
fn planned() -> anyhow::Result<Vec<Planned>> {
    let claims = published::claims()?;
    let benchmarks = paper::benchmarks(&published::critical_sections()?, &claims)?;
    let shown = claims.into_iter().filter_map(|claim| {
        let (command, value) = command_for(&claim, &benchmarks)?;
        Some(Planned { claim, command, value })
    });
    let mut all = shown.collect::<Vec<_>>();
    all.extend(lock_rows()?);
    let mempop =
        benchmarks.iter().find(|benchmark| benchmark.name == "MEMPOP").context("fig. 3 has MEMPOP")?;
    all.extend(program_rows(mempop)?);
    Ok(all)
}

/// For each published claim the command that shows it on real hardware.
///
/// # Errors
///
/// A published file that is wrong.
pub fn plan() -> anyhow::Result<Reproduction> {
    let mut table = Table::new([
        Column::text("benchmark", "benchmark"),
        Column::text("lock", "lock"),
        Column::text("claim", "claim"),
        Column::text("published", "published"),
        Column::text("command", "command"),
        Column::text("value", "value"),
    ]);
    for Planned { claim, command, value } in planned()? {
        let Claim { benchmark, lock, claim, value: published, .. } = claim;
        table.row([benchmark, lock, claim, published, command, value.to_owned()].map(Cell::from));
    }
    Ok(Reproduction {
        title: "The published claims on real hardware: what to run",
        table,
        plots: Vec::new(),
        notes: vec![
            "For the 2012 paper run these on a machine of 48 cores; for the 2014 talk on sockets as its rows name them. Commands are as for a quiet machine with its frequency fixed.".into(),
            "Write what you measured into a file with the line benchmark,lock,claim,value and below it one line for each claim, with the names above and the value that the last \
             column names; true or false for an ordering. `contend reproduce --against FILE` judges it by the rule that the simulated figures have."
                .into(),
            "Gains of kernel changes need both kernels. Transactions (tm) need a processor that has them, and are not in this plan.".into(),
        ],
        faults: Vec::new(),
        scores: Vec::new(),
    })
}

/// A line of a file of measured values.
#[derive(Debug, serde::Deserialize)]
struct Measured {
    benchmark: String,
    lock: String,
    claim: String,
    value: String,
}

/// The verdict on a measured value, with the value if it is a number.
fn judge(claim: &Claim, measured: &Measured) -> anyhow::Result<(Verdict, Option<f64>)> {
    let value = measured.value.trim();
    if let Ok(holds) = value.parse::<bool>() {
        ensure_usage!(
            claim.number().is_none(),
            "{} {}: a number is published, not {value}",
            claim.benchmark,
            claim.claim
        );
        return Ok((Verdict::of(holds), None));
    }
    let number = value.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    let Some(number) = number else {
        let what = format!("{} {}", claim.benchmark, claim.claim);
        return Err(UsageError::new(format!(
            "{what}: `{value}` is no value: write a positive number, true or false"
        ))
        .into());
    };
    let Some(verdict) = Verdict::of_number(claim, number) else {
        let what = format!("{} {}", claim.benchmark, claim.claim);
        return Err(UsageError::new(format!(
            "{what} is an ordering: write true or false instead of {value}"
        ))
        .into());
    };
    Ok((verdict, Some(number)))
}

/// Judges a file of values that somebody measured, in the form that [`plan`] describes.
///
/// # Errors
///
/// A file that is no such table, a claim that is not in the plan, or a value of the wrong kind.
pub fn against(text: &str) -> anyhow::Result<Reproduction> {
    let planned = planned()?;
    let mut table = Table::new([
        Column::text("benchmark", "benchmark"),
        Column::text("lock", "lock"),
        Column::text("claim", "claim"),
        Column::text("published", "published"),
        Column::text("measured", "measured"),
        Column::number("ratio", "measured / published"),
        Column::text("as_printed", "as printed"),
        Column::text("verdict", "verdict").kept(),
    ]);
    let (mut met, mut rows) = (0, 0);
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    for measured in reader.deserialize::<Measured>() {
        let measured = measured.context("expected the columns benchmark, lock, claim and value")?;
        let names = (&*measured.benchmark, &*measured.lock, &*measured.claim);
        let found = planned
            .iter()
            .map(|one| &one.claim)
            .find(|claim| (&*claim.benchmark, &*claim.lock, &*claim.claim) == names);
        let Some(claim) = found else {
            let named = format!("{},{},{}", names.0, names.1, names.2);
            return Err(UsageError::new(format!(
                "no published claim {named}: `contend reproduce --native-plan` lists them"
            ))
            .into());
        };
        let (verdict, number) = judge(claim, &measured)?;
        rows += 1;
        met += usize::from(verdict == Verdict::Met);
        table.row([
            Cell::from(names.0),
            Cell::from(names.1),
            Cell::from(names.2),
            Cell::from(&*claim.value),
            Cell::from(&*measured.value),
            Cell::from(number.zip(claim.number()).map(|(number, published)| number / published)),
            Cell::from(if number.is_some_and(|number| is_as_printed(&claim.value, number)) {
                "yes"
            } else {
                ""
            }),
            Cell::from(verdict),
        ]);
    }
    Ok(Reproduction {
        title: "Measured values against the published claims",
        table,
        plots: Vec::new(),
        notes: vec![format!(
            "{met} of {rows} are met: numbers of cores within {:.0} %, other numbers within a factor of {FACTOR_WITHIN}, ratios also in the logarithm.",
            100.0 * CORES_WITHIN
        )],
        faults: Vec::new(),
        scores: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planned_claim_has_names_of_its_own_and_can_be_judged() {
        let planned = planned().unwrap();
        let mut lines = vec!["benchmark,lock,claim,value".to_owned()];
        for Planned { claim, .. } in &planned {
            let value = match claim.number() {
                // A bound is not met by itself.
                Some(bound) if claim.claim.ends_with("_below") => (0.5 * bound).to_string(),
                Some(_) => claim.value.clone(),
                None => "true".into(),
            };
            lines.push(format!("\"{}\",\"{}\",\"{}\",{value}", claim.benchmark, claim.lock, claim.claim));
        }
        let judged = against(&lines.join("\n")).unwrap();
        let json = judged.table.json();
        let rows = json.as_array().unwrap();
        assert_eq!(rows.len(), planned.len());
        let missed =
            rows.iter().filter(|row| !["met", "no change"].contains(&row["verdict"].as_str().unwrap()));
        assert_eq!(missed.count(), 0, "the published values are as published");
        let mut names = planned.iter().map(|one| format!("{:?}", one.claim)).collect::<Vec<_>>();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), planned.len());
    }

    #[test]
    fn measured_values_are_judged_and_wrong_ones_refused() {
        let judge = |line: &str| against(&format!("benchmark,lock,claim,value\n{line}\n"));
        let verdict = |line: &str| judge(line).unwrap().table.json()[0]["verdict"].clone();
        assert_eq!(verdict("MEMPOP,ticket,peak_cores,9"), "met");
        assert_eq!(verdict("MEMPOP,ticket,peak_cores,6"), "missed");
        assert_eq!(verdict("PFIND,mcs_over_ticket,ordering_small_gain,false"), "missed");
        for wrong in [
            "MEMPOP,ticket,peak,9",
            "MEMPOP,ticket,peak_cores,true",
            "MEMPOP,ticket,peak_cores,much",
            "PFIND,mcs_over_ticket,ordering_small_gain,1.2",
            "MEMPOP,ticket,9",
        ] {
            assert!(judge(wrong).is_err(), "{wrong}");
        }
    }
}
