//! The published claims on real hardware: which command shows each, and a file of measured values against them.

mod measured;

pub use measured::against;

use crate::paper::{self, Benchmark};
use crate::published::{self, Claim, Fault, Improvement, Printed};
use crate::verdict::{Verdict, bound_holds, is_as_printed};
use crate::{Reproduction, contention, fserver};
use anyhow::Context as _;
use report::{Cell, Column, Table};

/// A claim, and the command whose output shows it.
struct Planned {
    claim: Claim,
    command: String,
    /// What of the output is the value.
    value: &'static str,
    rule: Rule,
    /// The gain that it is the ratio of.
    gain: Option<Improvement>,
}

/// What a measured value has to be, as for the simulated figure of the claim.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// What the claim's name says.
    OfClaim,
    /// A change within this factor.
    Change(f64),
    /// Within this share.
    Share(f64),
}

impl Planned {
    fn new(
        [benchmark, lock, claim]: [&str; 3],
        published: impl Into<String>,
        command: String,
        value: &'static str,
    ) -> Self {
        let [benchmark, lock, claim] = [benchmark, lock, claim].map(str::to_owned);
        let claim = Claim { benchmark, lock, claim, value: published.into(), place: String::new() };
        Self { claim, command, value, rule: Rule::OfClaim, gain: None }
    }

    /// Its ratio is that of a published gain.
    fn of(self, gain: &Improvement) -> Self {
        Self { gain: Some(gain.clone()), ..self }
    }

    /// Whether a measured number rounds to the published one. A bound is no number to round to.
    fn is_as_printed(&self, measured: f64) -> bool {
        match &self.gain {
            Some(gain) => gain.is_as_printed(measured),
            None => {
                bound_holds(&self.claim, measured).is_none() && is_as_printed(&self.claim.value, measured)
            }
        }
    }

    /// The verdict on a measured number; none where the claim states none.
    fn verdict(&self, measured: f64) -> Option<Verdict> {
        let published = self.claim.number()?;
        match self.rule {
            Rule::OfClaim => Verdict::of_number(&self.claim, measured),
            Rule::Change(factor) => Some(Verdict::of_change(published, measured, factor)),
            Rule::Share(share) => Some(Verdict::of((measured / published - 1.0).abs() <= share)),
        }
    }
}

/// A ratio of published numbers.
fn rounded(ratio: f64) -> String {
    ((1_000.0 * ratio).round() / 1_000.0).to_string()
}

/// A mix whose plateau with back-off looks like a slip (fault 15): no machine can be held to it.
pub(crate) const SUSPECT_MIX: &str = "new_dbase";
/// The fault that says so.
const SUSPECT: Fault = Fault(15);

/// Known faults of the sources that bear on a claim.
fn faults_of(claim: &Claim) -> &'static [Fault] {
    const OF_CONTENTION: [Fault; 5] = [Fault(9), Fault(10), Fault(11), Fault(12), Fault(13)];
    match (&*claim.benchmark, &*claim.lock) {
        ("FOPS", _) => &[Fault(2), Fault(5)],
        ("MEMPOP", _) => &[Fault(3)],
        ("PFIND", _) => &[Fault(1)],
        ("FIG11", _) => &[Fault(7)],
        ("KERNEL", "futex_hash_1024x32" | "futex_hash_1024x512") => &[Fault(14)],
        ("AIM7 (first)" | "AIM7 (second)", _) => &[Fault(16)],
        (benchmark, _) if benchmark.starts_with("CONTENTION") => &OF_CONTENTION,
        _ => &[],
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
        let row = |claim, published: &Printed, value| {
            Planned::new(["FIG11", &*cost.lock, claim], &*published.text, command.clone(), value)
        };
        all.extend([
            row("single_acquire_cycles", &cost.single_acquire, "acquire"),
            row("single_release_cycles", &cost.single_release, "release"),
            row("shared_acquire_cycles", &cost.shared_acquire, "shared acquire"),
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
        let published = row.ops_per_sec_per_core.to_string();
        let planned = Planned::new([&benchmark, "ticket", &claim], published, command, value);
        all.push(Planned { rule: Rule::Share(contention::MEDIAN_GOAL), ..planned });
    }
    Ok(all)
}

/// Gains that were published for whole programs, each under two kernels or with two locks.
fn program_rows(mempop: &Benchmark) -> anyhow::Result<Vec<Planned>> {
    const RATIO: &str = "throughput_ratio";
    const BEST_JOBS: &str = "jobs/min of the plateau, the kernel with the change over the one without";
    const FIRST_LOCK: &str = "acquisitions/s, the first lock over the second";
    let mut all = Vec::new();
    let plateaus = published::back_off_plateaus()?;
    for plateau in plateaus.iter().filter(|plateau| plateau.workload != SUSPECT_MIX) {
        let mix = &plateau.workload;
        let middles =
            plateau.vanilla_low.zip(plateau.vanilla_high).zip(plateau.backoff_low.zip(plateau.backoff_high));
        let Some(((low, high), (back_off_low, back_off_high))) = middles else { continue };
        let ratio = (back_off_low + back_off_high) / (low + high);
        let command = format!("contend bench aim7 --mix {mix} --json");
        let names = [&*format!("AIM7 {mix}"), "back_off_over_ticket", RATIO];
        let planned = Planned::new(names, rounded(ratio), command, BEST_JOBS);
        all.push(Planned { rule: Rule::Change(fserver::WITHIN), ..planned });
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
        all.push(Planned::new([&form.program, &lock, RATIO], rounded(form.ratio), command, FIRST_LOCK));
    }
    let of_change = |change: &str, command: &str, value| {
        let gain = published::improvement(change)?;
        let planned = Planned::new(["KERNEL", change, RATIO], rounded(gain.ratio()), command.into(), value);
        Ok::<_, anyhow::Error>(planned.of(&gain))
    };
    // Which share of AIM7's acquisitions write is not published: one is chosen.
    let queued = |program: &str| -> anyhow::Result<Planned> {
        let gain = published::improvement_in("qrwlock", &format!("AIM7 disk {program}"))?;
        let change = format!("qrwlock, AIM7 disk {program}");
        let command = "contend bench throughput --lock rw-queued,rw-naive --section 200cycles --think 20000cycles --reads 90 --threads 80 --json";
        Ok(Planned::new(["KERNEL", &change, RATIO], rounded(gain.ratio()), command.into(), FIRST_LOCK)
            .of(&gain))
    };
    let mcs_files_lock = of_change("mcs_files_lock", "contend bench aim7 --mix fserver --json", BEST_JOBS)?;
    all.extend([
        Planned { rule: Rule::Change(fserver::WITHIN), ..mcs_files_lock },
        of_change("lockref", "contend bench fops --threads 80 --json", "operations/s, Linux 3.12 over 3.11")?,
        queued("ramdisk")?,
        queued("ext4")?,
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
        Some(Planned { claim, command, value, rule: Rule::OfClaim, gain: None })
    });
    let mut all = shown.collect::<Vec<_>>();
    all.extend(lock_rows()?);
    let mempop =
        benchmarks.iter().find(|benchmark| benchmark.name == "MEMPOP").context("fig. 3 has MEMPOP")?;
    all.extend(program_rows(mempop)?);
    Ok(all)
}

/// A name as a field of a file of comma-separated values.
fn quoted(name: &str) -> String {
    if name.contains([',', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

/// For each published claim that a benchmark of contend shows, the command that shows it on real hardware; a note says which are left
/// out. Names are written as a file for [`against`] has them.
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
    let mut faults = vec![SUSPECT];
    for Planned { claim, command, value, .. } in planned()? {
        faults.extend_from_slice(faults_of(&claim));
        let Claim { benchmark, lock, claim, value: published, .. } = claim;
        let [benchmark, lock, claim] = [benchmark, lock, claim].map(|name| quoted(&name));
        table.row([benchmark, lock, claim, published, command, value.to_owned()].map(Cell::from));
    }
    Ok(Reproduction {
        variant: None, title: "The published claims on real hardware: what to run",
        table,
        plots: Vec::new(),
        notes: vec![
            "For the 2012 paper run these on a machine of 48 cores; for the 2014 talk on sockets as its rows name them. Commands are as for a quiet machine with its frequency fixed.".into(),
            "Write what you measured into a file with the line benchmark,lock,claim,value and below it one line for each claim, with the names as they are written above and \
             the value that the last column names; true or false for an ordering. `contend reproduce --against FILE` judges it with the tolerances of the simulated figures; a row \
             of the contention tables against itself, not against the mean of its repeats."
                .into(),
            "Gains of kernel changes need both kernels.".into(),
            format!(
                "Left out are what the model takes (sections, think times and shares of figs. 3, 8, 9 and 10, and the cost of an operation between cores), what follows from other \
                 rows (Amdahl's limit, the least and the greatest ratio of all benchmarks), samples of profiles and re-issued transactions, the ranges of AIM7's runs, AIM7 \
                 {SUSPECT_MIX} (fault {}), fixed constants of back-off, transactions (tm), which need a processor that has them, and the curves of lock-study.",
                SUSPECT.number()
            ),
        ],
        faults,
        scores: Vec::new(),
    })
}
