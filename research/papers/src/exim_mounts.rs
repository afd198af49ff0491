//! Exim on Linux 2.6.35-rc5: the lock of the mount table, with the think time that the profile on the slides leaves, simulated.

use crate::Reproduction;
use crate::published::{self, Claim, EximSample};
use crate::seeds::{self, BySeed, Repeated, Unstable, throughput_curve};
use crate::simulated::{OPTERON, hardware, lock_name, workload};
use crate::think_time::{percent_at_busiest, think_for_percent};
use crate::verdict::{FACTOR_WITHIN, LECTURE, SIMULATOR, Score, Verdict, is_ratio_as_printed};
use anyhow::Context as _;
use curve::Series;
use report::{Cell, Column, Table};
use session::progress::Progress;
use simulate::{Setup, SimulatedRun};
use simulator::Hardware;
use std::ops::RangeInclusive;

const SYMBOL: &str = "lookup_mnt";
const BEFORE: u32 = 40;
const AFTER: u32 = 48;
const CORES: [u32; 9] = [1, 8, 16, 24, 32, 36, BEFORE, 44, AFTER];
const DURATION_NS: u64 = 5_000_000;
/// Where the think time between two look-ups is looked for, cycles.
const THINK_CYCLES: RangeInclusive<f64> = 1e4..=1e6;
/// What the row that is fitted lacks where the fit misses it.
const JUMPS: &str = "a share of the time at the lock that does not jump with the think time";
const LACKING: &str = "what else collapses with the lock: outside of it a message takes twice the time too";

/// What the profile says.
struct Profile {
    /// Messages a second on 40 and on 48 cores.
    messages: [f64; 2],
    /// Percent of the samples in the look-up on 48 cores.
    percent_after: f64,
    /// The least that is listed on 40 cores, where the look-up is not: it has less.
    less_than_before: f64,
}

impl Profile {
    fn new(samples: &[EximSample], claims: &[Claim]) -> anyhow::Result<Self> {
        let at = |cores| samples.iter().filter(move |sample| sample.cores == cores);
        let found = at(AFTER).find(|sample| sample.symbol == SYMBOL);
        let claimed = |claim: &str| {
            let found = claims.iter().find(|one| one.claim == claim).and_then(Claim::number);
            found.with_context(|| format!("collapse_claims.csv has no number for {claim}"))
        };
        let profile = Self {
            messages: [claimed("messages_per_s_at_40")?, claimed("messages_per_s_at_48")?],
            percent_after: found.with_context(|| format!("exim_profile.csv has no {SYMBOL}"))?.percent,
            less_than_before: at(BEFORE).map(|sample| sample.percent).fold(f64::INFINITY, f64::min),
        };
        let is_alike = |cores, messages: f64| at(cores).all(|sample| sample.messages_per_s == messages);
        anyhow::ensure!(
            is_alike(BEFORE, profile.messages[0]) && is_alike(AFTER, profile.messages[1]),
            "exim_profile.csv and collapse_claims.csv differ in the messages a second"
        );
        Ok(profile)
    }

    /// Cycles that a message takes of all cores outside the look-up, on 40 cores and on 48.
    fn cycles_outside(&self, mhz: u64) -> [f64; 2] {
        let of_all = |cores: u32, messages: f64| f64::from(cores) * mhz as f64 * 1e6 / messages;
        let outside = 1.0 - self.percent_after / 100.0;
        [of_all(BEFORE, self.messages[0]), of_all(AFTER, self.messages[1]) * outside]
    }
}

fn setup<'a>(hardware: &'a Hardware, cores: u32, think: f64) -> anyhow::Result<Setup<'a>> {
    let setup = Setup::new(hardware, workload("mount-table")?, lock_name("ticket"));
    Ok(Setup { duration_ns: DURATION_NS, think_cycles: Some(think as u64), ..setup }.on_first(cores))
}

/// One judged row.
struct Row {
    what: String,
    published: String,
    simulated: BySeed,
    /// None where it would follow from a fit that is missed.
    verdict: Option<Verdict>,
    as_printed: bool,
    mechanism: &'static str,
}

/// What follows from the fitted think time for 40 cores.
fn rows(profile: &Profile, before: &Repeated, after: &Repeated) -> [Row; 3] {
    let [messages_before, messages_after] = profile.messages;
    let share = |runs: &Repeated| runs.by_seed(percent_at_busiest);
    let rate = |runs: &Repeated| runs.by_seed(SimulatedRun::throughput);
    let ratios = rate(after).over(&rate(before));
    let ratio = ratios.median();
    let fit = Verdict::of_fit(profile.percent_after, share(after).median()).if_stable(share(after).spread());
    let of_fitted = |verdict: Verdict, of: &BySeed| {
        let verdict = verdict.if_stable(of.spread());
        (fit == Verdict::Fitted || verdict == Verdict::Missed).then_some(verdict)
    };
    [
        Row {
            what: format!("{SYMBOL} on {AFTER} cores, % of the time"),
            published: profile.percent_after.to_string(),
            simulated: share(after),
            verdict: Some(fit),
            as_printed: false,
            mechanism: JUMPS,
        },
        Row {
            what: format!("{SYMBOL} on {BEFORE} cores, % of the time"),
            published: format!("under {}", profile.less_than_before),
            simulated: share(before),
            verdict: of_fitted(
                Verdict::of(share(before).median() < profile.less_than_before),
                &share(before),
            ),
            as_printed: false,
            mechanism: LACKING,
        },
        Row {
            what: format!("messages a second, {AFTER} cores over {BEFORE}"),
            published: format!("{}", messages_after / messages_before),
            verdict: of_fitted(
                Verdict::of_change(messages_after / messages_before, ratio, FACTOR_WITHIN),
                &ratios,
            ),
            as_printed: is_ratio_as_printed(&messages_after.into(), &messages_before.into(), ratio),
            simulated: ratios,
            mechanism: LACKING,
        },
    ]
}

/// The fall from 40 to 48 cores.
pub(crate) fn exim_mounts(progress: &dyn Progress) -> anyhow::Result<Reproduction> {
    let hardware = hardware(OPTERON)?;
    let profile = Profile::new(&published::exim_profile()?, &published::claims()?)?;
    let of_think = |think| setup(&hardware, AFTER, think);
    let fit = think_for_percent(profile.percent_after, THINK_CYCLES, of_think, progress)?;
    let think = fit.cycles;
    let setups = CORES.iter().map(|&cores| setup(&hardware, cores, think));
    let by_cores = seeds::run(&setups.collect::<anyhow::Result<Vec<_>>>()?, progress)?;
    let at = |cores| {
        let found = by_cores.iter().find(|runs| runs.first().cores == cores);
        found.context("each number of cores was run")
    };
    let mut table = Table::new([
        Column::text("what", "what"),
        Column::text("published", "published"),
        Column::spread("simulated", "simulated"),
        Column::text("verdict", "verdict").kept(),
    ]);
    let mut scores = Vec::new();
    let mut plot = Series::new("look-ups");
    plot.curves.push(throughput_curve(&by_cores, "ticket")?);
    let plots = vec![plot];
    let mut unstable = Unstable::of_plots(&plots);
    for Row { what, published, simulated, verdict, as_printed, mechanism } in
        rows(&profile, at(BEFORE)?, at(AFTER)?)
    {
        let judged = verdict.map_or("not judged: the fit is not reached", Verdict::name);
        let range = simulated.spread();
        unstable.look(range, || what.clone());
        table.row([Cell::from(&*what), published.into(), range.into(), judged.into()]);
        scores.extend(verdict.map(|verdict| Score {
            source: LECTURE,
            by: SIMULATOR,
            claim: what,
            verdict,
            as_printed,
            mechanism,
        }));
    }
    let [outside_before, outside_after] = profile.cycles_outside(hardware.mhz);
    Ok(Reproduction {
        variant: None,
        title: "Exim's look-ups of mounts from 40 to 48 cores, with the think time of the published profile, simulated",
        table,
        plots,
        notes: vec![
            format!(
                "The think time, {think:.0} cycles, is where the search for the share of their time that {AFTER} cores spend at the lock ends: {}. On {BEFORE} cores a message \
                 takes {outside_before:.2e} cycles outside the look-up, so that it makes {:.0} of them. The share jumps with the think time there: a little shorter, and all \
                 cores wait.",
                fit.shares(),
                outside_before / think
            ),
            format!(
                "On {AFTER} cores a message takes {outside_after:.2e} cycles outside the look-up: of the published fall the lock's own share explains a factor of {:.2}, \
                 and {:.2} lies outside of it, which no lock in the look-up gives.",
                1.0 - profile.percent_after / 100.0,
                outside_before / outside_after
            ),
            unstable.note(),
            "Linux 2.6.35-rc5, another kernel and another lock than the paper's Exim.".into(),
        ],
        faults: Vec::new(),
        scores,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_read_and_says_how_long_a_message_takes_outside() {
        let profile =
            Profile::new(&published::exim_profile().unwrap(), &published::claims().unwrap()).unwrap();
        assert_eq!(profile.messages, [10_000.0, 4_000.0]);
        assert_eq!((profile.percent_after, profile.less_than_before), (34.8657, 2.7149));
        let [before, after] = profile.cycles_outside(2_400);
        assert!((before / 9.6e6 - 1.0).abs() < 1e-9);
        assert!((after / (28.8e6 * 0.651_343) - 1.0).abs() < 1e-9);
    }
}
