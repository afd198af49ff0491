//! Which of two engines is believed, where chain and twin part.

use crate::one_lock::{LockPrediction, Named};
use crate::twin::{Run, Twin};
use curve::Curve;
use model::Verdict;
use report::text;
use serde::Serialize;

/// One of the two ways to predict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The Markov chain.
    Chain,
    /// The simulated program.
    Twin,
}

/// Where chain and twin part, and what then.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Belief {
    /// The lock, as tables call it.
    pub lock: String,
    /// The chain's verdict in a few words.
    pub chain: String,
    /// The twin's.
    pub twin: String,
    /// Who is believed.
    pub believed: Engine,
    /// Why.
    pub why: String,
}

impl Belief {
    /// The line that a terminal shows.
    #[must_use]
    pub fn terminal(&self) -> String {
        let believed = match self.believed {
            Engine::Chain => "the chain",
            Engine::Twin => "the twin",
        };
        format!(
            "{}: the chain says `{}`, the twin `{}`; {believed} is believed: {}.",
            text::printable(&self.lock),
            self.chain,
            self.twin,
            self.why
        )
    }
}

/// Factors by which the engines were off, at the median of the programs of `docs/predictions.md`, which has them.
struct Typical {
    twin: f64,
    chain: f64,
}

const TYPICAL: Typical = Typical { twin: 1.4, chain: 2.2 };

/// For each lock that both engines have predicted: who is believed, if they part beyond their bands.
pub(crate) fn beliefs(chain: &LockPrediction, twin: &Twin) -> Vec<Belief> {
    let of_chain = |run: &Run| {
        chain.predictions.iter().find(|named| {
            if run.as_it_is { named.as_it_is } else { !named.as_it_is && named.name == run.name }
        })
    };
    twin.runs.iter().filter_map(|run| belief(of_chain(run)?, run, chain)).collect()
}

fn belief(named: &Named, run: &Run, lock: &LockPrediction) -> Option<Belief> {
    let predicted = &named.prediction;
    let is_known = |verdict: &Verdict| !matches!(verdict, Verdict::CannotTell { .. });
    if !is_known(&predicted.verdict) && !is_known(&run.verdict) {
        return None; // there is nothing to believe
    }
    if !part(&predicted.curve, &run.curve) && alike(&predicted.verdict, &run.verdict) {
        return None;
    }
    let (believed, why) = nearer_to_measured(named, run, lock).unwrap_or_else(|| {
        if run.stands_in {
            let why = format!("the twin ran `{}`, which only stands in for the program's own lock", run.lock);
            (Engine::Chain, why)
        } else if lock.parameters.useless.is_some() {
            (Engine::Twin, "the chain has no times that it could use; neither should be relied on".to_owned())
        } else {
            let why = format!(
                "it runs the lock's own code, with its wake-ups, on the machine's coherence, where the chain has one cost for each \
                 further waiter; on two threads of measured programs the twin was off by {} times at the median, the chain by {}",
                text::short(TYPICAL.twin),
                text::short(TYPICAL.chain)
            );
            (Engine::Twin, why)
        }
    });
    Some(Belief {
        lock: named.name.clone(),
        chain: predicted.verdict.words(),
        twin: run.verdict.words(),
        believed,
        why,
    })
}

/// Whether the bands of two curves have nothing in common at some number of cores past the first.
fn part(one: &Curve, other: &Curve) -> bool {
    one.points().iter().filter(|point| point.cores > 1).any(|point| {
        other.at(point.cores).is_some_and(|beside| beside.high < point.low || point.high < beside.low)
    })
}

/// Whether two verdicts agree on whether throughput falls; what cannot be told agrees with everything.
fn alike(one: &Verdict, other: &Verdict) -> bool {
    let falls = |verdict: &Verdict| match verdict {
        Verdict::Collapses { .. } => Some(true),
        Verdict::Grows | Verdict::LevelsOff => Some(false),
        Verdict::CannotTell { .. } => None,
    };
    match (falls(one), falls(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

/// A measurement from which both engines are off by less than this does not tell which of them is right elsewhere.
const BOTH_MEET: f64 = 0.1;

/// The engine that lies nearer to what was measured of this lock past one core, if anything was.
fn nearer_to_measured(named: &Named, run: &Run, lock: &LockPrediction) -> Option<(Engine, String)> {
    let of_lock = |curve: &&Curve| {
        if named.as_it_is { curve.lock == launch::GLIBC } else { curve.lock == named.name }
    };
    let measured = lock.measured.iter().map(|measured| &measured.curve).find(of_lock);
    let mut points: Vec<(u32, f64)> = measured
        .iter()
        .flat_map(|curve| curve.points())
        .filter(|point| point.cores > 1 && point.value > 0.0)
        .map(|point| (point.cores, point.value))
        .collect();
    if let (true, true, Some(shown)) = (points.is_empty(), named.as_it_is, lock.shown) {
        points.push((shown.cores, shown.speedup));
    }
    let off = |curve: &Curve| {
        let errors: Vec<f64> = points
            .iter()
            .filter_map(|&(cores, value)| Some((curve.at(cores)?.value / value).ln().abs()))
            .collect();
        (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
    };
    let (chain, twin) = (off(&named.prediction.curve)?, off(&run.curve)?);
    if chain.max(twin) < BOTH_MEET {
        return None;
    }
    let percent = |error: f64| 100.0 * (error.exp() - 1.0);
    let (believed, near, far) =
        if twin <= chain { (Engine::Twin, twin, chain) } else { (Engine::Chain, chain, twin) };
    Some((
        believed,
        format!(
            "of what was measured it is off by {:.0} %, the other by {:.0} %",
            percent(near),
            percent(far)
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alternatives;
    use crate::one_lock::predict_lock;
    use crate::one_lock::tests::{lock, target};
    use crate::profiled::Shown;
    use curve::{Point, Provenance, Unit};

    fn run_of(values: &[(u32, f64)], stands_in: bool) -> Run {
        let curve = Curve::new("t", Unit::Speedup, Provenance::Simulated)
            .with_points(values.iter().map(|&(cores, value)| Point::exact(cores, value)))
            .unwrap();
        let peak = curve.peak().unwrap();
        Run {
            name: "as it is".into(),
            lock: "futex".into(),
            as_it_is: true,
            stands_in,
            peak_cores: peak.cores,
            peak_speedup: peak.value,
            collapse_cores: curve.collapse_cores(),
            verdict: model::predict::judge(&[curve.clone(), curve.clone(), curve.clone()], "nothing"),
            curve,
            limited_by: None,
            waiting: Vec::new(),
        }
    }

    fn twin(run: Run) -> Twin {
        Twin { machine: "m".into(), locks: Vec::new(), runs: vec![run], seed: 1, doubts: Vec::new() }
    }

    #[test]
    fn engines_that_agree_need_no_belief_and_a_stand_in_is_not_believed() {
        let mut prediction = predict_lock(&lock(), &alternatives(&[]).unwrap(), &target(64)).unwrap();
        let chain = prediction.predictions[0].prediction.curve.clone();
        let same: Vec<_> = [1, 2, 4].map(|cores| (cores, chain.at(cores).unwrap().value)).to_vec();
        assert_eq!(beliefs(&prediction, &twin(run_of(&same, false))), []);
        let far = [(1, 1.0), (2, 0.02), (4, 0.01)];
        let of_stand_in = beliefs(&prediction, &twin(run_of(&far, true)));
        assert_eq!(of_stand_in[0].believed, Engine::Chain);
        let of_own = beliefs(&prediction, &twin(run_of(&far, false)));
        assert_eq!(of_own[0].believed, Engine::Twin);
        assert!(of_own[0].terminal().contains("the twin is believed: it runs"), "{:?}", of_own[0]);
        // What was measured decides before all else.
        prediction.shown = Some(Shown { cores: 2, speedup: 0.02 });
        let by_measurement = beliefs(&prediction, &twin(run_of(&far, true)));
        assert_eq!(by_measurement[0].believed, Engine::Twin);
        assert!(by_measurement[0].why.contains("off by 0 %"), "{:?}", by_measurement[0]);
        // What both meet decides nothing.
        let at_two = chain.at(2).unwrap().value;
        prediction.shown = Some(Shown { cores: 2, speedup: at_two });
        let alike_at_two = [(1, 1.0), (2, 1.05 * at_two), (4, 0.01)];
        let by_code = beliefs(&prediction, &twin(run_of(&alike_at_two, false)));
        assert!(by_code[0].why.contains("the lock's own code"), "{:?}", by_code[0]);
        // Of two that cannot tell, neither is.
        prediction.predictions[0].prediction.verdict = Verdict::CannotTell { reason: "r".into() };
        let mut unknown = run_of(&far, false);
        unknown.verdict = Verdict::CannotTell { reason: "r".into() };
        assert_eq!(beliefs(&prediction, &twin(unknown)), []);
    }
}
