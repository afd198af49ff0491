//! Fixed constants of proportional back-off, on few and on many cores, simulated.

use crate::Reproduction;
use crate::published::{self, BackOffConstant};
use crate::seeds::{self, BySeed, Repeated, Unstable};
use crate::simulated::{EIGHTY_CORES, hardware, lock_name, workload};
use crate::stability::half_of_opteron;
use crate::verdict::{MAIL, PAR_WITHIN, SIMULATOR, Score, Verdict};
use anyhow::{Context as _, bail};
use report::{Cell, Column, Table};
use session::progress::Progress;
use simulate::back_off::{Proportional, proportional};
use simulate::{Setup, SimulatedRun};
use simulator::Hardware;

/// Cycles for each waiter ahead, from far too small to far too large.
const CONSTANTS: [(u64, Proportional); 7] = [
    (10, proportional::<10>),
    (50, proportional::<50>),
    (250, proportional::<250>),
    (700, proportional::<700>),
    (1_400, proportional::<1_400>),
    (4_000, proportional::<4_000>),
    (8_000, proportional::<8_000>),
];
/// Few cores; many are all of a machine.
const FEW_CORES: u32 = 4;
/// As in `self-tuning`.
const SECTION_CYCLES: u64 = 500;

/// One machine's runs: for each constant, on few and on many cores.
struct Swept {
    machine: String,
    cores: [u32; 2],
    by_constant: Vec<(u64, [Repeated; 2])>,
}

impl Swept {
    fn new(hardware: &Hardware, progress: &dyn Progress) -> anyhow::Result<Self> {
        let cores = [FEW_CORES, hardware.cores() as u32];
        let setup = Setup {
            section_cycles: Some(SECTION_CYCLES),
            think_cycles: Some(4 * SECTION_CYCLES),
            ..Setup::new(hardware, workload("counter")?, lock_name("ticket-proportional"))
        };
        let with = |(_, run)| {
            let setup = Setup { instead: Some(run), ..setup.clone() };
            cores.map(|cores| setup.clone().on_first(cores))
        };
        let setups = CONSTANTS.into_iter().flat_map(with).collect::<Vec<_>>();
        let mut runs = seeds::run(&setups, progress)?.into_iter();
        let mut of_next = |(constant, _): (u64, Proportional)| {
            let both = runs.next().zip(runs.next()).context("a run for each setup")?;
            Ok((constant, <[_; 2]>::from(both)))
        };
        let by_constant = CONSTANTS.into_iter().map(&mut of_next).collect::<anyhow::Result<_>>()?;
        Ok(Self { machine: hardware.name.clone(), cores, by_constant })
    }

    /// Throughput with each constant as a share of the best constant's, on few cores (0) or on many (1).
    fn shares(&self, place: usize) -> Vec<f64> {
        let rates = self.by_constant.iter().map(|(_, runs)| runs[place].median(SimulatedRun::throughput));
        let best = rates.clone().fold(f64::MIN_POSITIVE, f64::max);
        rates.map(|rate| rate / best).collect()
    }

    /// The constant of a claim, by its index, and the share of the best, with each seed, that it has on the claim's number of cores. Small is the constant
    /// that is best on few cores, large the one that is best on many: a constant that is bad everywhere shows nothing.
    fn share(&self, claim: &BackOffConstant) -> anyhow::Result<(usize, BySeed)> {
        let cores = match &*claim.cores {
            "few" => 0,
            "many" => 1,
            other => bail!("back_off_constants.csv has {other} cores, where few or many are meant"),
        };
        let best_on = match &*claim.constant {
            "small" => 0,
            "large" => 1,
            other => bail!("back_off_constants.csv has a {other} constant, where small or large is meant"),
        };
        let best = self.shares(best_on);
        let constant = (0..best.len()).max_by(|&one, &other| best[one].total_cmp(&best[other]));
        let constant = constant.context("there are constants")?;
        let shares = self.shares(cores);
        let best = (0..shares.len()).max_by(|&one, &other| shares[one].total_cmp(&shares[other]));
        let best = best.context("there are constants")?;
        let rates = |constant: usize| self.by_constant[constant].1[cores].by_seed(SimulatedRun::throughput);
        Ok((constant, rates(constant).over(&rates(best))))
    }

    /// The constant whose worse share is best, with that share.
    fn best_of_both(&self) -> Option<(u64, f64)> {
        let worse = self.shares(0).into_iter().zip(self.shares(1)).map(|(few, many)| few.min(many));
        let constants = self.by_constant.iter().map(|&(constant, _)| constant);
        constants.zip(worse).max_by(|one, other| one.1.total_cmp(&other.1))
    }
}

/// What becomes of small and of large constants.
pub(crate) fn fixed_back_off(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let machines = [half_of_opteron()?, hardware(EIGHTY_CORES)?];
    let mut table = Table::new([
        Column::text("machine", "machine"),
        Column::number("constant", "cycles a waiter ahead"),
        Column::spread("few", "operations/s on 4 cores"),
        Column::percent("few_share", "of the best %"),
        Column::number("many_cores", "many cores"),
        Column::spread("many", "operations/s on many"),
        Column::percent("many_share", "of the best %"),
        Column::text("verdict", "verdict").kept(),
    ]);
    let mut scores = Vec::new();
    let mut notes = Vec::new();
    let mut unstable = Unstable::default();
    let claims = published::back_off_constants()?;
    for hardware in &machines {
        let swept = Swept::new(hardware, progress)?;
        let mut verdicts = Vec::new();
        for claim in &claims {
            let (of_row, share) = swept.share(claim)?;
            let share = share.spread();
            let verdict = Verdict::of(share.median < 1.0 / PAR_WITHIN).if_stable(share);
            let BackOffConstant { constant, cores, outcome } = claim;
            let claim = format!("a {constant} constant {outcome} on {cores} cores");
            verdicts.push((of_row, format!("{}: {claim}", verdict.name())));
            let mechanism = "a load of the Opteron that no constant serves on few cores and on many";
            scores.push(Score { source: MAIL, by: SIMULATOR, claim, verdict, as_printed: false, mechanism });
        }
        let shares = swept.shares(0).into_iter().zip(swept.shares(1));
        for (at, ((constant, runs), (few, many))) in swept.by_constant.iter().zip(shares).enumerate() {
            let [of_few, of_many] = [0, 1].map(|place| runs[place].spread(SimulatedRun::throughput));
            for (range, cores) in [of_few, of_many].into_iter().zip(swept.cores) {
                unstable.look(range, || format!("{constant} cycles on {cores} cores, {}", swept.machine));
            }
            let verdict = verdicts.iter().filter(|one| one.0 == at).map(|one| &*one.1).collect::<Vec<_>>();
            table.row([
                Cell::from(&*swept.machine),
                Cell::from(*constant),
                Cell::from(of_few),
                Cell::from(few),
                Cell::from(swept.cores[1]),
                Cell::from(of_many),
                Cell::from(many),
                Cell::from(verdict.join("; ")),
            ]);
        }
        notes.extend(swept.best_of_both().map(|(constant, share)| {
            format!(
                "{}: the constant that serves both best is {constant} cycles, nowhere below {:.0} % of the best.",
                swept.machine,
                100.0 * share
            )
        }));
    }
    notes.push(format!(
        "A constant fails on so many cores if it gives less than {:.0} % of the best constant's throughput there. Small is the constant that is best on few cores, large the one that is best \
         on many; if one constant is best on both, it is both and fails on neither. \
         A section of {SECTION_CYCLES} cycles and four times that think time, as in `self-tuning`.",
        100.0 / PAR_WITHIN
    ));
    notes.push(unstable.note());
    Ok(Reproduction {
        variant: None,
        title: "Fixed constants of back-off: small ones on many cores, large ones on few, simulated",
        table,
        plots: Vec::new(),
        notes,
        faults: Vec::new(),
        scores,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::progress::Unwatched;

    #[test]
    fn on_the_opteron_the_constant_for_few_cores_fails_on_many_and_not_the_other_way_round() {
        let swept = Swept::new(&half_of_opteron().unwrap(), &Unwatched).unwrap();
        let share = |constant: &str, cores: &str| {
            let [constant, cores] = [constant, cores].map(str::to_owned);
            let (at, share) =
                swept.share(&BackOffConstant { constant, cores, outcome: "fails".into() }).unwrap();
            (at, share.median())
        };
        assert_eq!((share("small", "few").1, share("large", "many").1), (1.0, 1.0));
        let (small, on_many) = share("small", "many");
        let (large, on_few) = share("large", "few");
        assert!(small < large && on_many < 1.0 / PAR_WITHIN, "small on many: {on_many}");
        assert!(on_few > 1.0 / PAR_WITHIN, "large on few: {on_few}");
    }
}
