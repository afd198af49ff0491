//! The paper's four benchmarks as the model takes them, and the one number that is fitted.

use crate::published::{self, Claim, CriticalSection};
use anyhow::Context as _;
use curve::{Curve, Point, Provenance, Unit};
use model::fit::cost_giving;
use model::{Handover, LockModel, ModelError, Service, Variant};
use topology::Range;
use topology::carried;

/// Cores of the paper's machine.
pub(crate) const CORES: u32 = 48;
/// Cycles of an acquisition of PFIND (fault 1).
const PFIND_CYCLES_PER_ACQUISITION: f64 = 5000.0;

/// The reading of FOPS's row that is shown and not counted: under it two cores cannot be faster than one, which the text says (fault 2).
pub(crate) const NOT_COUNTED: &str = "per acquire";

/// Which length a critical section has as cores grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sections {
    /// That of one core, fig. 3.
    OfOneCore,
    /// As section 5.2 reports it at some numbers of cores; straight lines between.
    AsReported,
}

/// One benchmark, or one reading of its row.
#[derive(Debug, Clone)]
pub(crate) struct Benchmark {
    /// The name in the published files.
    pub(crate) name: String,
    /// Which reading of the row, where there are several.
    pub(crate) inputs: &'static str,
    /// Cycles of think time for each acquisition.
    pub(crate) think_cycles: f64,
    /// The critical section in cycles at ascending numbers of cores, the first one core.
    sections: Vec<(u32, f64)>,
}

impl Benchmark {
    /// The critical section on one core.
    pub(crate) fn section_cycles(&self) -> f64 {
        self.sections[0].1
    }

    /// The share of one core's time in the critical section.
    pub(crate) fn share(&self) -> f64 {
        self.section_cycles() / (self.section_cycles() + self.think_cycles)
    }

    fn section_at(&self, cores: u32, sections: Sections) -> f64 {
        if sections == Sections::OfOneCore {
            return self.section_cycles();
        }
        let next = self.sections.partition_point(|&(known, _)| known <= cores);
        let (before, below) = self.sections[next - 1];
        match self.sections.get(next) {
            None => below,
            Some(&(after, above)) => {
                below + (above - below) * f64::from(cores - before) / f64::from(after - before)
            }
        }
    }

    /// Throughput relative to one core at 1 to 48 cores.
    pub(crate) fn curve(
        &self,
        handover: Handover,
        sections: Sections,
        variant: Variant,
    ) -> Result<Curve, ModelError> {
        let alone = self.section_cycles();
        let mut points = Vec::new();
        for cores in 1..=CORES {
            let section = self.section_at(cores, sections);
            let lock = lock(self.think_cycles, section, handover, variant).at(cores)?;
            points.push(Point::exact(cores, lock.away * (self.think_cycles + alone) / self.think_cycles));
        }
        let curve = Curve::new(handover.family().name(), Unit::Speedup, Provenance::Predicted)
            .lock(handover.family().name())
            .workload(&*self.name)
            .machine("opteron-8x6");
        Ok(curve.with_points(points).expect("1 to 48, each once, finite"))
    }
}

/// A lock whose section is as long after any core.
pub(crate) fn lock(think: f64, section: f64, handover: Handover, variant: Variant) -> LockModel {
    LockModel { think, service: Service::constant(section), handover, readers: None, variant }
}

/// The four benchmarks from the published rows; FOPS twice, since its row can be read in two ways (fault 2).
pub(crate) fn benchmarks(rows: &[CriticalSection], claims: &[Claim]) -> anyhow::Result<Vec<Benchmark>> {
    let row = |name: &str| {
        let found = rows.iter().find(|row| row.benchmark == name);
        found.with_context(|| format!("fig3_critical_sections.csv has no row {name}"))
    };
    let claimed = |benchmark: &str, claim: &str| number(claims, benchmark, claim);
    let per_acquire = |row: &CriticalSection| row.operation_cycles / row.acquires_per_operation;
    let benchmark = |name: &str, inputs, per_acquisition: f64, grown: &[(u32, f64)]| -> anyhow::Result<_> {
        let section = row(name)?.critical_section_cycles;
        let mut sections = vec![(1, section)];
        sections.extend_from_slice(grown);
        Ok(Benchmark { name: name.to_owned(), inputs, think_cycles: per_acquisition - section, sections })
    };
    let fops = row("FOPS")?;
    let at_2 = claimed("FOPS", "critical_section_cycles_at_2")?;
    let at_4 = claimed("FOPS", "critical_section_cycles_at_4")?;
    let acquires = fops.acquires_per_operation;
    Ok(vec![
        benchmark("FOPS", "per operation", per_acquire(fops), &[(2, at_2 / acquires), (4, at_4 / acquires)])?,
        benchmark("FOPS", NOT_COUNTED, per_acquire(fops), &[(2, at_2), (4, at_4)])?,
        benchmark(
            "MEMPOP",
            "",
            per_acquire(row("MEMPOP")?),
            &[(10, claimed("MEMPOP", "critical_section_cycles_at_10")?)],
        )?,
        benchmark(
            "PFIND",
            "5,000 an acquisition",
            PFIND_CYCLES_PER_ACQUISITION,
            &[(44, claimed("PFIND", "critical_section_cycles_above_44")?)],
        )?,
        benchmark("EXIM", "", per_acquire(row("EXIM")?), &[])?,
    ])
}

/// The number that a claim states.
pub(crate) fn number(claims: &[Claim], benchmark: &str, claim: &str) -> anyhow::Result<f64> {
    let found = claims.iter().find(|row| row.benchmark == benchmark && row.claim == claim);
    found
        .and_then(Claim::number)
        .with_context(|| format!("collapse_claims.csv has no number for {benchmark},{claim}"))
}

/// The row that c is fitted to.
pub(crate) const FITTED: (&str, &str) = ("MEMPOP", "throughput_at_48");

/// c of the paper's machine in cycles under a variant: what gives MEMPOP's published end with its section of fig. 3.
/// The range is that of the machine file, which holds what other rows ask for.
pub(crate) fn waiter_cost(variant: Variant) -> anyhow::Result<Range> {
    let claims = published::claims()?;
    let benchmarks = benchmarks(&published::critical_sections()?, &claims)?;
    let end = number(&claims, FITTED.0, FITTED.1)?;
    let mempop = benchmarks.iter().find(|b| b.name == FITTED.0).context("no such benchmark")?;
    let template =
        lock(mempop.think_cycles, mempop.section_cycles(), Handover::Ticket { waiter_cost: 1.0 }, variant);
    let cost = cost_giving(&template, end, |lock| Ok(lock.at(CORES)?.speedup))?;
    let cost = cost.with_context(|| format!("no c gives {end} at {CORES} cores under {}", variant.form()))?;
    let filed = carried::machine("opteron-8x6").costs().waiter_ns(CORES);
    Ok(filed.scaled(cost / filed.likely))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fitted_waiter_is_the_machine_files() {
        let machine = carried::machine("opteron-8x6");
        let cycles = machine.handover.waiter.value;
        let fitted = waiter_cost(Variant::Waiters).unwrap();
        assert!((fitted.likely / cycles - 1.0).abs() < 0.01, "{} {cycles}", fitted.likely);
    }

    #[test]
    fn readings_have_costs_of_their_own() {
        let cost = |variant| waiter_cost(variant).unwrap().likely;
        let (text, formula) = (cost(Variant::Waiters), cost(Variant::FormulaBalanced));
        assert!((text / formula - 2.0).abs() < 1e-6, "the text's c is twice that of formula (1)");
    }

    #[test]
    fn sections_grow_in_straight_lines_between_what_is_reported() {
        let benchmarks =
            benchmarks(&published::critical_sections().unwrap(), &published::claims().unwrap()).unwrap();
        let mempop = &benchmarks[2];
        let at = |cores| mempop.section_at(cores, Sections::AsReported);
        assert_eq!([at(1), at(10), at(48)], [121.0, 350.0, 350.0]);
        assert!((at(4) - (121.0 + 229.0 / 3.0)).abs() < 1e-9);
        assert_eq!(mempop.section_at(48, Sections::OfOneCore), 121.0);
        assert_eq!(benchmarks[3].think_cycles, 4650.0);
    }
}
