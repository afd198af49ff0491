//! The published figures that contend carries, and the faults of their sources.

use crate::verdict::{LECTURE, PAPER, Score, Verdict, is_as_printed, is_ratio_as_printed};
use anyhow::Context as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A published number with its text, which says to how many digits it is printed.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Printed {
    pub(crate) text: String,
    pub(crate) value: f64,
}

impl TryFrom<String> for Printed {
    type Error = std::num::ParseFloatError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Ok(Self { value: text.parse()?, text })
    }
}

/// A whole number, whose text follows from it.
impl From<f64> for Printed {
    fn from(value: f64) -> Self {
        Self { text: value.to_string(), value }
    }
}

/// One benchmark of fig. 3 of the 2012 paper, as printed.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CriticalSection {
    pub(crate) benchmark: String,
    pub(crate) operation_cycles: f64,
    pub(crate) lock: String,
    pub(crate) acquires_per_operation: f64,
    pub(crate) critical_section_cycles: f64,
    pub(crate) printed_percent_in_critical_section: f64,
}

/// One statement of the 2012 paper or of its slides.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Claim {
    pub(crate) benchmark: String,
    pub(crate) lock: String,
    pub(crate) claim: String,
    /// A number, or for an ordering what is larger.
    pub(crate) value: String,
    /// Section or figure.
    #[serde(rename = "where")]
    pub(crate) place: String,
}

impl Claim {
    /// The value, where it is a number.
    pub(crate) fn number(&self) -> Option<f64> {
        self.value.parse().ok()
    }

    /// Whether it says something of a queue lock.
    pub(crate) fn needs_queue(&self) -> bool {
        ["mcs", "mcs_over_ticket", "both"].contains(&&*self.lock)
    }

    /// Who publishes it.
    fn source(&self) -> &'static str {
        if self.place == "lecture" { LECTURE } else { PAPER }
    }

    /// Its row with a verdict, to be counted by source.
    pub(crate) fn score(
        &self,
        by: &'static str,
        verdict: Verdict,
        as_printed: bool,
        mechanism: &'static str,
    ) -> Score {
        let claim = format!("{} {} {}", self.benchmark, self.lock, self.claim);
        Score { source: self.source(), by, claim, verdict, as_printed, mechanism }
    }
}

/// One machine of the public core-to-core matrices.
#[cfg(test)]
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CoreToCore {
    pub(crate) machine: String,
    smt_sibling: Option<f64>,
    same_l3: Option<f64>,
    same_socket: Option<f64>,
    cross_socket: Option<f64>,
}

#[cfg(test)]
impl CoreToCore {
    /// The hand-over of a line in ns, by the name of a column.
    pub(crate) fn tier(&self, name: &str) -> Option<f64> {
        match name {
            "smt_sibling" => self.smt_sibling,
            "same_l3" => self.same_l3,
            "same_socket" => self.same_socket,
            "cross_socket" => self.cross_socket,
            _ => None,
        }
    }
}

/// One row of the 2014 talk's contention tables.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Contention {
    pub(crate) table: String,
    pub(crate) machine: String,
    /// `FF`: fill first; `RR`: round robin.
    pub(crate) placement: String,
    pub(crate) execution_nodes: String,
    pub(crate) memory_node: u32,
    pub(crate) sockets: u32,
    pub(crate) cores: u32,
    pub(crate) ops_per_sec_per_core: f64,
}

impl Contention {
    /// What was set up, whichever table it stands in.
    pub(crate) fn set_up(&self) -> (&str, &str, &str, u32, u32) {
        (&self.machine, &self.execution_nodes, &self.placement, self.memory_node, self.cores)
    }
}

/// Re-issued coherence transactions of one agent of a socket.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Retries {
    pub(crate) lock: String,
    pub(crate) socket: u32,
    pub(crate) users_40: f64,
    pub(crate) users_400: f64,
}

/// A gain that the 2014 talk states in numbers.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Improvement {
    change: String,
    workload: String,
    pub(crate) before: Printed,
    pub(crate) after: Printed,
}

impl Improvement {
    pub(crate) fn ratio(&self) -> f64 {
        self.after.value / self.before.value
    }

    /// Whether a computed ratio is the published one within its rounding. Where a ratio is published, 1 stands before it and is exact.
    pub(crate) fn is_as_printed(&self, ratio: f64) -> bool {
        if self.before.text == "1" {
            is_as_printed(&self.after.text, ratio)
        } else {
            is_ratio_as_printed(&self.after, &self.before, ratio)
        }
    }
}

/// A figure of the talk's sample output of `perf bench futex`.
#[derive(Debug, Clone, Deserialize)]
struct BenchFutex {
    benchmark: String,
    value: f64,
}

/// How much more a program does with one form of a lock than with another.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RwsemForm {
    pub(crate) faster: String,
    pub(crate) slower: String,
    pub(crate) program: String,
    pub(crate) ratio: f64,
    pub(crate) source: String,
}

/// One point of a program's curve under one lock.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LockStudy {
    pub(crate) machine: String,
    pub(crate) program: String,
    pub(crate) lock: String,
    /// Nodes of 8 cores, or of 10.
    pub(crate) nodes: u32,
    /// The median of the runs; its unit differs from program to program.
    pub(crate) throughput: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

/// The curves of the study of locks under programs.
pub(crate) fn lock_study() -> anyhow::Result<Vec<LockStudy>> {
    rows("lock_study_curves.csv", include_str!("../published/lock_study_curves.csv"))
}

/// The gain by one change to the kernel, in the first program that it is stated for.
pub(crate) fn improvement(change: &str) -> anyhow::Result<Improvement> {
    find_improvement(change, |_| true)
}

/// The gain by one change to the kernel in this program.
pub(crate) fn improvement_in(change: &str, program: &str) -> anyhow::Result<Improvement> {
    find_improvement(change, |workload| workload == program)
}

fn find_improvement(change: &str, is_meant: impl Fn(&str) -> bool) -> anyhow::Result<Improvement> {
    let all: Vec<Improvement> =
        rows("kernel_improvements.csv", include_str!("../published/kernel_improvements.csv"))?;
    let found = all.into_iter().find(|row| row.change == change && is_meant(&row.workload));
    found.with_context(|| format!("kernel_improvements.csv has no row {change}"))
}

/// What one wait on a word that holds something else takes in `perf bench futex hash`, in nanoseconds.
pub(crate) fn futex_operation_ns() -> anyhow::Result<u64> {
    let all: Vec<BenchFutex> =
        rows("perf_bench_futex.csv", include_str!("../published/perf_bench_futex.csv"))?;
    let hash = all.iter().find(|row| row.benchmark == "hash").context("perf_bench_futex.csv has no hash")?;
    Ok((1e9 / hash.value).round() as u64)
}

/// Fig. 3.
pub(crate) fn critical_sections() -> anyhow::Result<Vec<CriticalSection>> {
    rows("fig3_critical_sections.csv", include_str!("../published/fig3_critical_sections.csv"))
}

/// Figs. 2, 8 to 10 and 12, and what the text and the slides say.
pub(crate) fn claims() -> anyhow::Result<Vec<Claim>> {
    rows("collapse_claims.csv", include_str!("../published/collapse_claims.csv"))
}

/// The core-to-core matrices.
#[cfg(test)]
pub(crate) fn core_to_core() -> anyhow::Result<Vec<CoreToCore>> {
    rows("core_to_core.csv", include_str!("../published/core_to_core.csv"))
}

/// Re-issued coherence transactions, ticket against MCS.
pub(crate) fn coherency_retries() -> anyhow::Result<Vec<Retries>> {
    rows("coherency_retries.csv", include_str!("../published/coherency_retries.csv"))
}

/// AIM7's plateaus with a ticket lock and with one that backs off, jobs a minute.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct BackOffPlateau {
    pub(crate) workload: String,
    pub(crate) vanilla_low: Option<f64>,
    pub(crate) vanilla_high: Option<f64>,
    pub(crate) backoff_low: Option<f64>,
    pub(crate) backoff_high: Option<f64>,
}

/// The plateaus of all mixes.
pub(crate) fn back_off_plateaus() -> anyhow::Result<Vec<BackOffPlateau>> {
    rows("aim7_backoff.csv", include_str!("../published/aim7_backoff.csv"))
}

/// The plateau of one mix.
pub(crate) fn back_off_plateau(mix: &str) -> anyhow::Result<BackOffPlateau> {
    let found = back_off_plateaus()?.into_iter().find(|row| row.workload == mix);
    found.with_context(|| format!("aim7_backoff.csv has no row {mix}"))
}

/// What becomes of a small or large constant of back-off on few or many cores.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct BackOffConstant {
    pub(crate) constant: String,
    pub(crate) cores: String,
    pub(crate) outcome: String,
}

/// What the mails say of fixed constants.
pub(crate) fn back_off_constants() -> anyhow::Result<Vec<BackOffConstant>> {
    rows("back_off_constants.csv", include_str!("../published/back_off_constants.csv"))
}

/// One row of fig. 11, in cycles.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LockCost {
    pub(crate) lock: String,
    pub(crate) single_acquire: Printed,
    pub(crate) single_release: Printed,
    pub(crate) shared_acquire: Printed,
}

impl LockCost {
    /// The lock of ours that fig. 11 may call by another name.
    pub(crate) fn own_name(&self) -> &str {
        if self.lock == "proportional" { "ticket-proportional" } else { &self.lock }
    }
}

/// Fig. 11.
pub(crate) fn lock_costs() -> anyhow::Result<Vec<LockCost>> {
    rows("fig11_lock_cost.csv", include_str!("../published/fig11_lock_cost.csv"))
}

/// A symbol of the profile of Exim on the slides.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct EximSample {
    pub(crate) cores: u32,
    pub(crate) messages_per_s: f64,
    pub(crate) symbol: String,
    pub(crate) percent: f64,
}

/// The profile of Exim.
pub(crate) fn exim_profile() -> anyhow::Result<Vec<EximSample>> {
    rows("exim_profile.csv", include_str!("../published/exim_profile.csv"))
}

/// Forms of the rw_semaphore against each other.
pub(crate) fn rwsem_forms() -> anyhow::Result<Vec<RwsemForm>> {
    rows("rwsem_forms.csv", include_str!("../published/rwsem_forms.csv"))
}

/// The contention tables: two files.
pub(crate) fn cacheline_contention() -> anyhow::Result<Vec<Contention>> {
    let mut all = rows("cacheline_contention.csv", include_str!("../published/cacheline_contention.csv"))?;
    all.extend(rows::<Contention>(
        "cacheline_contention_2.csv",
        include_str!("../published/cacheline_contention_2.csv"),
    )?);
    Ok(all)
}

fn rows<T: DeserializeOwned>(name: &str, text: &str) -> anyhow::Result<Vec<T>> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    reader
        .deserialize()
        .collect::<Result<_, _>>()
        .with_context(|| format!("research/papers/published/{name}"))
}

/// A known fault of a source, by its number in `research/papers/published/README.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault(pub(crate) u8);

impl Fault {
    /// Its number in `research/papers/published/README.md`.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The fault in one line.
    pub fn text(self) -> &'static str {
        match self.0 {
            1 => {
                "PFIND's row contradicts itself: 70 K acquires of 350 cycles are 1.2 % of its operation, not 7 %. \
                  Used here: 5,000 cycles an acquisition, which 7 % and the collapse at 14 to 15 cores fit."
            }
            2 => {
                "FOPS's 450 and 852 cycles are said of an acquire, but fit only if read per operation of 4 acquires. \
                  Both readings are shown."
            }
            3 => "MEMPOP is 121 cycles in fig. 3 and 141 in section 5.2. Used here: 121.",
            4 => "The model is written three ways; a fitted c belongs to one of them. --variant chooses.",
            5 => {
                "a is defined as the time between acquisitions but used as the think time. Used here: the think time."
            }
            6 => {
                "The speed-up is printed as n - w, which is less than 1 for one core. Used here: relative to one core."
            }
            7 => {
                "\"Less than 1 % of the cycles\" is said of four benchmarks; only EXIM qualifies. Fig. 11's shared acquires but CLH's, 30 to 75 cycles, \
                  lie under the \"order of a hundred cycles\" of section 2.1."
            }
            8 => "With c near 200 MEMPOP has the published height and end, but peaks at 6 cores, not 9.",
            9 => {
                "The first contention table was made with ten times the stated iterations. Used here: operations a second a core."
            }
            10 => "One set-up was measured twice, 42 % apart: nothing can be closer to it than that.",
            11 => {
                "The row labelled 16 cores may be 14 or 15 of one socket and one of the next. The step is real in either reading."
            }
            12 => "The machine of the tables for one and two sockets is inferred.",
            13 => {
                "One socket with its lock's memory on another shows no penalty: a constraint on any model of coherence."
            }
            14 => "\"1024 * 32 futexes\" counts futexes: 1,024 of each of 32 threads.",
            15 => "new_dbase with back-off, 96000, looks like a slip for 960000.",
            16 => {
                "Neither machine nor programs of the talk's two factors for the rw_semaphore are named; the commit says 20 % on 80 cores."
            }
            _ => "See research/papers/published/README.md.",
        }
    }
}

/// The faults as lines under a table.
pub fn footnotes(faults: &[Fault]) -> String {
    let mut faults = faults.to_vec();
    faults.sort();
    faults.dedup();
    faults.iter().map(|fault| format!("Fault {}: {}\n", fault.0, fault.text())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::carried;
    use topology::machine_file::FigureUnit;

    #[test]
    fn all_rows_are_read() {
        assert_eq!(critical_sections().unwrap().len(), 4);
        assert_eq!(claims().unwrap().len(), 41);
        assert_eq!(core_to_core().unwrap().len(), 19);
        assert_eq!(cacheline_contention().unwrap().len(), 32 + 12);
        assert_eq!(improvement("futex_hash_1024x512").unwrap().ratio(), 9.0);
        assert_eq!(futex_operation_ns().unwrap(), 279);
        assert_eq!(rwsem_forms().unwrap().len(), 8);
        assert_eq!(back_off_constants().unwrap().len(), 2);
        assert_eq!(lock_costs().unwrap().len(), 5);
        assert_eq!(exim_profile().unwrap().len(), 14);
    }

    #[test]
    fn a_zero_at_the_end_counts_as_printed() {
        let costs = lock_costs().unwrap();
        let proportional = costs.iter().find(|cost| cost.lock == "proportional").unwrap();
        assert_eq!((&*proportional.single_acquire.text, proportional.single_acquire.value), ("22.0", 22.0));
        assert!(!is_as_printed(&proportional.single_acquire.text, 22.4));
        let growth = improvement("file_move + file_kill from 40 to 400 users").unwrap();
        assert!(!is_as_printed(&growth.before.text, 0.24));
        let [lockref, release] =
            ["lockref", "queued_spinlock_uncontended_unlock"].map(|change| improvement(change).unwrap());
        assert!(lockref.is_as_printed(8.4) && !lockref.is_as_printed(7.4));
        assert!(release.is_as_printed(0.625) && !release.is_as_printed(0.64));
    }

    #[test]
    fn a_fault_is_named_once() {
        let notes = footnotes(&[Fault(8), Fault(1), Fault(8)]);
        assert_eq!(notes.lines().count(), 2);
        assert!(notes.starts_with("Fault 1: "));
    }

    #[test]
    fn transfers_that_name_a_row_are_that_row() {
        let rows = core_to_core().unwrap();
        let mut checked = 0;
        for (name, _) in carried::CARRIED {
            let machine = carried::machine(name);
            for (tier, figure) in [
                ("smt_sibling", &machine.transfer.smt_sibling),
                ("same_l3", &machine.transfer.same_l3),
                ("same_socket", &machine.transfer.same_socket),
                ("cross_socket", &machine.transfer.cross_socket),
            ] {
                let Some(figure) = figure else { continue };
                let Some(source) = figure.source.as_str().strip_prefix("core_to_core.csv: ") else {
                    continue;
                };
                let row = rows.iter().find(|row| source.starts_with(&row.machine)).expect("the row exists");
                assert!(source.contains(tier), "{name}: {source}");
                assert_eq!(
                    (Some(figure.value), figure.unit),
                    (row.tier(tier), FigureUnit::Nanoseconds),
                    "{name} {tier}"
                );
                checked += 1;
            }
        }
        assert!(checked >= 15);
    }

    #[test]
    fn a_waiter_on_one_socket_of_dl580_is_what_its_table_says() {
        // With all cores at the lock, t_n = s + c(n-1)/2: c is twice the slope of the time for one hand-over.
        let points: Vec<(f64, f64)> = cacheline_contention()
            .unwrap()
            .into_iter()
            .filter(|row| row.table == "within_socket")
            .map(|row| (f64::from(row.cores), 1e9 / (f64::from(row.cores) * row.ops_per_sec_per_core)))
            .collect();
        let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / points.len() as f64;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>()
            / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>();
        let waiter = carried::machine("dl580").costs().waiter_ns(15).likely;
        assert!((2.0 * slope / waiter - 1.0).abs() < 0.05, "{slope} {waiter}");
    }
}
