//! What to do about a lock: changes to the program, and what each is expected to give, by the engines that predicted it.
//!
//! The gain of a change is throughput with it over throughput without it, on the same number of threads of the target. Its
//! band has the runs of the twin with each seed and at both ends of all ranges, or the chain at those ends, each change
//! against the same end without it.

use crate::twin::{Blueprint, Stage};
use crate::{Alternative, Target, alternatives};
use anyhow::Context as _;
use lab::ensure_usage;
use lab::names::types_of;
use locks::catalogue::Lock;
use model::{End, Family, Parameters, predict};
use rayon::prelude::*;
use report::text;
use serde::Serialize;
use topology::Range;

/// A change to the program, as `--what-if` writes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The part of the section that is left; the rest of its work is done outside of the lock.
    pub section: f64,
    /// Into so many locks the lock is split, each with its part of the data.
    pub split: u32,
    /// So many acquisitions become one.
    pub batch: u32,
    /// The program runs on so many threads.
    pub threads: Option<u32>,
    /// The lock is put in place of the program's own.
    pub lock: Option<Alternative>,
    /// This share of the sections only reads, under a lock that readers share.
    pub reads: Option<f64>,
}

impl Change {
    /// The program as it is.
    pub const NONE: Self = Self { section: 1.0, split: 1, batch: 1, threads: None, lock: None, reads: None };

    /// Reads `section=0.5,split=4,batch=8,threads=16,lock=mcs,reads=0.9`, each at most once, at least one.
    ///
    /// # Errors
    ///
    /// An unknown word, a value out of its range, or an unknown lock.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut change = Self::NONE;
        let mut seen = Vec::new();
        for word in text.split(',') {
            let (name, value) = word.split_once('=').with_context(|| {
                format!("`{}`: write NAME=VALUE, as in section=0.5,split=4", text::printable(word))
            })?;
            ensure_usage!(!seen.contains(&name), "`{}` is there twice", text::printable(name));
            seen.push(name);
            let number = |least: f64, most: f64| -> anyhow::Result<f64> {
                let number: f64 =
                    value.parse().ok().filter(|n| (least..=most).contains(n)).with_context(|| {
                        format!("`{}`: {name} takes a number from {least} to {most}", text::printable(word))
                    })?;
                Ok(number)
            };
            let whole = |most: u32| -> anyhow::Result<u32> {
                let number = number(1.0, f64::from(most))?;
                anyhow::ensure!(
                    number.fract() == 0.0,
                    "`{}`: {name} is a whole number",
                    text::printable(word)
                );
                Ok(number as u32)
            };
            match name {
                "section" => change.section = number(0.01, 1.0)?,
                "split" => change.split = whole(1_024)?,
                "batch" => change.batch = whole(4_096)?,
                "threads" => change.threads = Some(whole(1_024)?),
                "reads" => change.reads = Some(number(0.0, 1.0)?),
                "lock" => {
                    let lock = alternatives(&[value.to_owned()])?.remove(0);
                    ensure_usage!(
                        lock.elided.is_none(),
                        "`{}`: what eliding a lock gives has two ends, which --lock {} predicts",
                        text::printable(word),
                        text::printable(value)
                    );
                    change.lock = Some(lock);
                }
                _ => ensure_usage!(
                    false,
                    "`{}`: what can be changed is section, split, batch, threads, lock and reads",
                    text::printable(word)
                ),
            }
        }
        Ok(change)
    }

    /// As `--what-if` writes it.
    #[must_use]
    pub fn name(&self) -> String {
        let mut words = Vec::new();
        if self.section < 1.0 {
            words.push(format!("section={}", text::short(self.section)));
        }
        for (name, number) in [("split", self.split), ("batch", self.batch)] {
            if number > 1 {
                words.push(format!("{name}={number}"));
            }
        }
        words.extend(self.threads.map(|threads| format!("threads={threads}")));
        words.extend(self.lock.as_ref().map(|lock| format!("lock={}", lock.name)));
        words.extend(self.reads.map(|share| format!("reads={}", text::short(share))));
        words.join(",")
    }

    /// The change as an instruction.
    fn instruction(&self, site: &str, code: Option<&str>) -> String {
        let mut words = Vec::new();
        if let Some(lock) = code {
            words.push(format!("put `{lock}` in its place"));
        }
        if self.section < 1.0 {
            words.push(format!(
                "do {:.0} % of the section's work outside of it",
                100.0 * (1.0 - self.section)
            ));
        }
        if self.split > 1 {
            words.push(format!("split it into {} locks, each with its part of the data", self.split));
        }
        if self.batch > 1 {
            words.push(format!("take it once for {} operations", self.batch));
        }
        if let Some(share) = self.reads {
            words.push(format!("take it shared where a section only reads ({:.0} % of them)", 100.0 * share));
        }
        if let Some(threads) = self.threads {
            words.push(if threads == 1 { "run one thread".into() } else { format!("run {threads} threads") });
        }
        format!("{}: {}", text::printable(site), words.join(", and "))
    }

    /// The parameters of the chain after the change, but for what a split does.
    fn parameters(&self, before: &Parameters) -> Parameters {
        let moved = |range: Range| range.scaled(1.0 - self.section);
        let batch = f64::from(self.batch);
        let mut after = before.clone();
        after.think_ns = before.think_ns.plus(moved(before.same_ns)).scaled(batch);
        after.same_ns = before.same_ns.scaled(self.section * batch);
        after.growth_ns = before.growth_ns.scaled(self.section);
        after.read_share = match (&self.lock, self.reads) {
            (Some(lock), _) if !lock.shared => None,
            (_, Some(share)) => Some(share),
            (_, None) => before.read_share,
        };
        after
    }

    /// The blueprint after the change.
    pub(crate) fn blueprint(&self, before: &Blueprint) -> Blueprint {
        let mut after = before.clone();
        let batch = f64::from(self.batch);
        let first = &before.locks[0];
        let reads = self.reads.unwrap_or(first.reads);
        let moved_ns = (1.0 - self.section) * first.mean_same_ns();
        after.think_ns = before.think_ns.plus(Range::exact(moved_ns)).scaled(batch);
        for (number, hot) in after.locks.iter_mut().enumerate() {
            if number > 0 {
                hot.visits *= batch;
                continue;
            }
            hot.copies = self.split;
            hot.reads = reads;
            for held in [&mut hot.exclusive, &mut hot.shared] {
                held.same_ns = held.same_ns.scaled(self.section * batch);
                held.growth_ns = held.growth_ns.scaled(self.section);
            }
        }
        after.batch = before.batch * batch;
        after
    }
}

/// What a change is expected to give.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// As `--what-if` writes it.
    pub change: String,
    /// What to do.
    pub instruction: String,
    /// How to try it, and how to do it for good, where a command or a type does it.
    pub how: Option<String>,
    /// Threads that throughput is compared at, without the change.
    pub threads: u32,
    /// How many times as much the program does by the chain, with its band.
    pub chain: Option<Range>,
    /// By the twin.
    pub twin: Option<Range>,
}

impl Gain {
    /// The gain of the engine that is asked first.
    #[must_use]
    pub fn expected(&self) -> Option<Range> {
        self.twin.or(self.chain)
    }

    /// The line that a terminal shows.
    #[must_use]
    pub fn terminal(&self) -> String {
        let shown = |range: Range| {
            format!(
                "{} times ({} to {})",
                text::short(range.likely),
                text::short(range.low),
                text::short(range.high)
            )
        };
        let gain = match (self.twin, self.chain) {
            (Some(twin), Some(chain)) => {
                format!("{} the work by the twin, {} by the chain", shown(twin), shown(chain))
            }
            (Some(one), None) | (None, Some(one)) => format!("{} the work", shown(one)),
            (None, None) => "a gain that cannot be told".to_owned(),
        };
        let how = self.how.as_ref().map_or(String::new(), |how| format!(" {how}"));
        format!("{}: {gain} at {} threads.{how}", self.instruction, self.threads)
    }
}

/// How a lock is swapped for a trial and for good.
fn how_to_swap(site: &str, lock: &Lock) -> String {
    format!(
        "Try it: contend run --only '{}={}' -- CMD. For good: {}.",
        text::printable(site),
        lock.name,
        types_of(lock)
    )
}

/// What advice is made of.
pub(crate) struct Case<'a> {
    pub(crate) site: &'a str,
    pub(crate) parameters: &'a Parameters,
    /// The family that the program runs on.
    pub(crate) family: Family,
    pub(crate) target: &'a Target,
    /// Threads without the change.
    pub(crate) threads: u32,
    /// Where the twin is asked: the blueprint and the stage that it runs on.
    pub(crate) twin: Option<(&'a Blueprint, &'a Stage)>,
    /// Whether the chain is asked.
    pub(crate) chain: bool,
}

impl Case<'_> {
    /// What each of these changes is expected to give.
    pub(crate) fn gains(&self, changes: &[Change]) -> anyhow::Result<Vec<Gain>> {
        let before = match self.twin {
            Some((blueprint, stage)) => Some(stage.rates(blueprint, None, self.threads)?),
            None => None,
        };
        changes.par_iter().map(|change| self.gain(change, before.as_deref())).collect()
    }

    fn gain(&self, change: &Change, before: Option<&[f64]>) -> anyhow::Result<Gain> {
        let mut swapped = None;
        let twin = match (self.twin, before) {
            (Some((blueprint, stage)), Some(before)) => {
                let changed = change.blueprint(blueprint);
                let shares = change.reads.is_some();
                let lock = change.lock.as_ref().map(|lock| stage.lock(lock, blueprint, shares));
                // Readers need a lock that they can share.
                let lock = lock.or_else(|| shares.then_some("rw"));
                swapped = lock;
                let threads = change.threads.unwrap_or(self.threads);
                let after = stage.rates(&changed, lock, threads)?;
                let ratios: Vec<f64> =
                    after.iter().zip(before).map(|(after, before)| after / before).collect();
                spread(&ratios, stage.likely())
            }
            _ => None,
        };
        let chain = if self.chain { self.by_chain(change) } else { None };
        let code = swapped
            .map(str::to_owned)
            .or_else(|| change.lock.as_ref().map(|lock| lock.name.clone()))
            .or_else(|| change.reads.map(|_| "rw".to_owned()));
        let how = code.as_deref().and_then(locks::catalogue::find).map(|lock| how_to_swap(self.site, lock));
        Ok(Gain {
            change: change.name(),
            instruction: change.instruction(self.site, code.as_deref()),
            how,
            threads: self.threads,
            chain,
            twin,
        })
    }

    /// By the chain, at the ends of all ranges. `None` where it has no times to go by.
    fn by_chain(&self, change: &Change) -> Option<Range> {
        if self.parameters.useless.is_some() {
            return None;
        }
        let family = change.lock.as_ref().map_or_else(
            || if change.reads.is_some() { Family::BackOffThenSleep } else { self.family },
            |lock| lock.family,
        );
        let threads = change.threads.unwrap_or(self.threads);
        let after = change.parameters(self.parameters);
        let ratio = |end| {
            let before = self.throughput(self.parameters, self.family, self.threads, 1, end)?;
            let after = self.throughput(&after, family, threads, change.split, end)?;
            Some(f64::from(change.batch) * after / before)
        };
        let [optimistic, likely, pessimistic] = End::ALL.map(ratio);
        spread(&[likely?, optimistic?, pessimistic?], 1)
    }

    /// Operations a nanosecond.
    fn throughput(
        &self,
        parameters: &Parameters,
        family: Family,
        threads: u32,
        split: u32,
        end: End,
    ) -> Option<f64> {
        let Target { costs, variant, .. } = self.target;
        if split == 1 {
            let model = parameters.at_end(family, costs, threads, *variant, end);
            return Some(model.at(threads).ok()?.throughput);
        }
        predict::split(parameters, family, costs, threads, *variant, split, end).ok()
    }
}

/// The median of the first `likely` ratios, in the range of all.
fn spread(ratios: &[f64], likely: usize) -> Option<Range> {
    let mut first = ratios.get(..likely)?.to_vec();
    first.sort_by(f64::total_cmp);
    let all = || ratios.iter().copied();
    let range = Range {
        low: all().fold(f64::INFINITY, f64::min),
        likely: first[first.len() / 2],
        high: all().fold(0.0, f64::max),
    };
    (range.low.is_finite() && range.high.is_finite()).then_some(range)
}

/// The changes that are tried where none was asked for: the locks that came out best, half of the section, splits, batches, and
/// the number of threads at which the program does most as it is.
pub(crate) fn candidates(best: &[Alternative], peak: Option<u32>, read_mostly: bool) -> Vec<Change> {
    let mut changes: Vec<_> =
        best.iter().map(|lock| Change { lock: Some(lock.clone()), ..Change::NONE }).collect();
    changes.push(Change { section: 0.5, ..Change::NONE });
    changes.extend([2, 8].map(|split| Change { split, ..Change::NONE }));
    if !read_mostly {
        changes.push(Change { batch: 8, ..Change::NONE });
    }
    changes.extend(peak.map(|threads| Change { threads: Some(threads), ..Change::NONE }));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_lock::tests::{lock, target};

    #[test]
    fn what_is_asked_for_is_read_and_written_alike() {
        for text in ["section=0.500,split=4,batch=8,threads=16,lock=mcs", "reads=0.900", "split=2"] {
            assert_eq!(Change::parse(text).unwrap().name(), text);
        }
        for (text, remedy) in [
            ("section", "NAME=VALUE"),
            ("section=2", "from 0.01 to 1"),
            ("split=1.5", "whole number"),
            ("split=0", "from 1 to 1024"),
            ("batch=x", "takes a number"),
            ("speed=2", "what can be changed is"),
            ("lock=nosuch", "no lock `nosuch`"),
            ("lock=elided", "--lock elided"),
            ("split=2,split=3", "twice"),
            ("reads=NaN", "from 0 to 1"),
            ("", "NAME=VALUE"),
        ] {
            let error = format!("{:#}", Change::parse(text).unwrap_err());
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }

    fn gain(text: &str, family: Family, threads: u32) -> Range {
        let target = target(192);
        let lock = lock();
        let parameters = Parameters::observed(&lock, target.profiled_transfer_ns).unwrap();
        let case = Case {
            site: "s",
            parameters: &parameters,
            family,
            target: &target,
            threads,
            twin: None,
            chain: true,
        };
        case.gains(&[Change::parse(text).unwrap()]).unwrap()[0].chain.unwrap()
    }

    #[test]
    fn relief_helps_where_the_lock_is_the_limit_and_not_where_nobody_meets() {
        // Of a ticket lock's hand-over the section is a small part, of a queue lock's a larger one.
        for (text, family, least) in [
            ("section=0.5", Family::Queue, 1.08),
            ("section=0.5", Family::Ticket, 1.02),
            ("split=4", Family::Ticket, 1.3),
            ("batch=8", Family::Ticket, 1.3),
            ("lock=mcs", Family::Ticket, 1.3),
            ("threads=4", Family::Ticket, 1.3),
        ] {
            let range = gain(text, family, 64);
            assert!(
                range.likely > least && range.low <= range.likely && range.likely <= range.high,
                "{text}: {range:?}"
            );
        }
        for text in ["section=0.5", "split=4", "batch=8"] {
            let alone = gain(text, Family::Ticket, 1).likely;
            assert!((alone - 1.0).abs() < 0.02, "{text}: {alone}");
        }
        assert!(gain("split=8", Family::Ticket, 64).likely > gain("split=2", Family::Ticket, 64).likely);
    }
}
