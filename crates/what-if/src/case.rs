//! One lock of a program on a machine, and what changes give there by the Markov chain.

use crate::change::Change;
use curve::text::{counted, short};
use curve::{Curve, Point, Provenance, Unit};
use model::{End, Family, ModelError, Parameters, Prediction, Variant, predict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use topology::Range;
use topology::machine_file::Costs;

/// One lock of a program on a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The lock's name in the profile.
    pub site: String,
    /// The family of the algorithm that the program runs on.
    pub family: Family,
    /// What the model takes from the profile.
    pub parameters: Parameters,
    /// What the machine costs.
    pub costs: Costs,
    /// The form of the model.
    pub variant: Variant,
    /// Numbers of cores that curves are computed for, ascending; at least one.
    pub cores: Vec<u32>,
    /// Threads that throughput is compared at, without the change.
    pub threads: u32,
    /// How a lock is tried, and put in place for good, by its name.
    pub how: BTreeMap<String, String>,
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
    /// How many times as much the program does, with its range; none where that is not known.
    pub times: Option<Range>,
}

impl Gain {
    /// The line that a terminal and a page show.
    #[must_use]
    pub fn terminal(&self) -> String {
        let shown = |Range { low, likely, high }: Range| {
            format!("{} times ({} to {})", short(likely), short(low), short(high))
        };
        let gain = self
            .times
            .map_or("a gain that is not known".to_owned(), |times| format!("{} the work", shown(times)));
        let how = self.how.as_ref().map_or(String::new(), |how| format!(" {how}"));
        format!("{}: {gain} at {}.{how}", self.instruction, counted(u64::from(self.threads), "thread"))
    }
}

impl Case {
    /// What a change is expected to give by the chain. `ran` is the lock that stood in where the change was run already.
    #[must_use]
    pub fn gain(&self, change: &Change, ran: Option<&str>) -> Gain {
        let code = ran
            .or_else(|| change.lock.as_ref().map(|lock| lock.name.as_str()))
            .or_else(|| change.reads.map(|_| "rw"));
        // No command does all of several changes, which have the gain together. Nor does one take a mutex shared, and in the source it
        // becomes another type than one of the same lock as a mutex.
        let becomes_shared = change.reads.is_some() && self.parameters.read_share.is_none();
        let is_a_swap = change.is_one_word() && !becomes_shared;
        Gain {
            change: change.name(),
            instruction: change.instruction(&self.site, code),
            how: code.filter(|_| is_a_swap).and_then(|code| self.how.get(code).cloned()),
            threads: self.threads,
            times: self.by_chain(change),
        }
    }

    /// Throughput after a change, relative to one core of the program as it is, at each of the numbers of cores; at fewer of them
    /// where the lock is split, since that takes time by the square of the cores.
    ///
    /// # Errors
    ///
    /// Cores beyond what the model takes; parameters that are not finite or negative.
    pub fn prediction(&self, change: &Change) -> Result<Prediction, ModelError> {
        let after = change.parameters(&self.parameters);
        let family = change.family(self.family);
        let cores = if change.split > 1 { sparse(&self.cores) } else { self.cores.clone() };
        let name = match change.name() {
            none if none.is_empty() => format!("{} as it is", family.name()),
            name => name,
        };
        let at_end = |end| {
            let alone = self.parameters.at_end(self.family, &self.costs, 1, self.variant, end);
            let one_core = 1.0 / (alone.think + alone.service.same);
            let points = cores.iter().map(|&cores| {
                let operations = self.operations(change, &after, cores, end)?;
                Ok(Point::exact(cores, operations / one_core))
            });
            let curve = Curve::new(name.as_str(), Unit::Speedup, Provenance::Predicted).lock(family.name());
            let points = points.collect::<Result<Vec<_>, ModelError>>()?;
            Ok(curve.with_points(points).expect("speed-ups are finite, and cores ascend"))
        };
        let [optimistic, likely, pessimistic] = End::ALL.map(at_end);
        let ends = [optimistic?, likely?, pessimistic?];
        Ok(Prediction::of_ends(&after, family, self.variant, &ends))
    }

    /// What the model takes of the lock after a change, in words.
    #[must_use]
    pub fn times(&self, change: &Change) -> String {
        times(&change.parameters(&self.parameters))
    }

    /// By the chain, at the ends of all ranges. `None` where it has no times to go by.
    fn by_chain(&self, change: &Change) -> Option<Range> {
        if self.parameters.useless.is_some() {
            return None;
        }
        let threads = change.threads.unwrap_or(self.threads);
        let after = change.parameters(&self.parameters);
        let ratio = |end| {
            let before = self.operations(&Change::NONE, &self.parameters, self.threads, end).ok()?;
            Some(self.operations(change, &after, threads, end).ok()? / before)
        };
        let [optimistic, likely, pessimistic] = End::ALL.map(ratio);
        spread(&[likely?, optimistic?, pessimistic?], 1)
    }

    /// Operations a nanosecond after a change that made `after` of the parameters.
    fn operations(
        &self,
        change: &Change,
        after: &Parameters,
        threads: u32,
        end: End,
    ) -> Result<f64, ModelError> {
        let model = after.at_end(change.family(self.family), &self.costs, threads, self.variant, end);
        let acquisitions = match change.split {
            1 => model.at(threads)?.throughput,
            copies => predict::split(&model, threads, copies)?,
        };
        Ok(f64::from(change.batch) * acquisitions)
    }
}

/// The critical section and the think time that a prediction is made from, in words.
#[must_use]
pub fn times(parameters: &Parameters) -> String {
    let ranged = |Range { low, likely, high }: Range| {
        if low < high { format!("{likely:.0} ({low:.0} to {high:.0})") } else { format!("{likely:.0}") }
    };
    format!(
        "Critical section {} ns after this core, {} after another; {} ns of think time.",
        ranged(parameters.same_ns),
        ranged(parameters.growth_ns.plus(parameters.same_ns)),
        short(parameters.think_ns.likely),
    )
}

/// Of ascending numbers the first, the last, and between them each that is an eighth more than the one before.
fn sparse(cores: &[u32]) -> Vec<u32> {
    let mut kept: Vec<u32> = Vec::new();
    for (place, &cores_here) in cores.iter().enumerate() {
        let far = kept.last().is_none_or(|last| cores_here >= last + last / 8);
        if far || place + 1 == cores.len() {
            kept.push(cores_here);
        }
    }
    kept
}

/// How many times as much one point is as another, where the errors of both have nothing in common.
#[must_use]
pub fn over(after: Point, before: Point) -> Range {
    let tiny = f64::MIN_POSITIVE;
    let likely = after.value / before.value.max(tiny);
    let off = |low: f64, high: f64| (high.max(tiny) / low.max(tiny)).ln();
    let below = off(after.low, after.value).hypot(off(before.value, before.high));
    let above = off(after.value, after.high).hypot(off(before.low, before.value));
    Range { low: likely * (-below).exp(), likely, high: likely * above.exp() }
}

/// The median of the first `likely` ratios, in the range of all.
#[must_use]
pub fn spread(ratios: &[f64], likely: usize) -> Option<Range> {
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::change::Alternative;
    use model::{Mean, Observed};
    use topology::carried;

    /// A lock of a small section on a machine of two sockets.
    pub(crate) fn case(family: Family, threads: u32) -> Case {
        let mean = |ns| Some(Mean { ns: Range::exact(ns), samples: 1_000_000 });
        let observed = Observed {
            name: "order\u{1b}[2J<b>".into(),
            family,
            threads: 2,
            acquisitions: 1_000_000,
            reads: None,
            hold_same: mean(60.0),
            hold_other: mean(120.0),
            think: mean(900.0),
            wait_ns: 0.0,
            handover_ns: None,
            ran_together: true,
        };
        Case {
            site: observed.name.clone(),
            family,
            parameters: Parameters::observed(&observed, Range::exact(50.0)).unwrap(),
            costs: carried::machine("epyc-9654x2").costs(),
            variant: Variant::default(),
            cores: predict::sweep(1, threads),
            threads,
            how: BTreeMap::from([("rw".to_owned(), "Try it.".to_owned())]),
        }
    }

    pub(crate) fn change(text: &str) -> Change {
        let lock = |name: &str| match model::family_named(name) {
            Some(family) => Ok(Alternative { name: name.to_owned(), elided: None, family, shared: true }),
            None => Err(format!("no lock `{name}`")),
        };
        Change::parse(text, lock).unwrap()
    }

    fn gain(text: &str, family: Family, threads: u32) -> Range {
        case(family, threads).gain(&change(text), None).times.unwrap()
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
        let slower = gain("think=2", Family::Ticket, 1).likely;
        assert!((slower - 960.0 / 1860.0).abs() < 1e-9, "{slower}");
    }

    #[test]
    fn the_curves_of_a_change_end_in_its_gain() {
        let case = case(Family::Ticket, 48);
        let before = case.prediction(&Change::NONE).unwrap().curve;
        for text in ["section=0.5", "think=3", "split=4", "batch=8", "lock=mcs", "reads=0.9"] {
            let after = case.prediction(&change(text)).unwrap().curve;
            let ratio = after.at(48).unwrap().value / before.at(48).unwrap().value;
            let gain = case.gain(&change(text), None).times.unwrap().likely;
            assert!((ratio / gain - 1.0).abs() < 1e-9, "{text}: {ratio} {gain}");
        }
    }

    #[test]
    fn a_gain_names_the_lock_that_stands_in_and_how_it_is_put_in_place() {
        let gain = case(Family::Blocking, 8).gain(&change("reads=0.9"), None);
        assert!(gain.instruction.contains("put `rw` in its place"), "{}", gain.instruction);
        assert!(!gain.terminal().contains('\u{1b}'));
        assert_eq!(gain.how, None, "no command takes a mutex shared");
        let mut of_readers = case(Family::Blocking, 8);
        of_readers.parameters.read_share = Some(0.5);
        assert_eq!(of_readers.gain(&change("reads=0.9"), None).how.as_deref(), Some("Try it."));
        assert_eq!(of_readers.gain(&change("lock=rw"), None).how.as_deref(), Some("Try it."));
        for several in ["section=0.5,lock=rw", "threads=4,lock=rw", "lock=rw,reads=0.9"] {
            assert_eq!(of_readers.gain(&change(several), None).how, None, "no command does {several}");
        }
    }

    #[test]
    fn sparse_numbers_keep_both_ends() {
        assert_eq!(sparse(&[7]), [7]);
        assert_eq!(
            sparse(&(1..=20).collect::<Vec<_>>()),
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20]
        );
        assert_eq!(sparse(&[1, 100, 101]), [1, 100, 101]);
    }
}
