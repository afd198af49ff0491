//! What was measured fixes the forecast, which goes on from the last of it as a ratio.
//!
//! Where threads measurably do less than the simulated program, they share something outside of the locks: a line, memory, a device.
//! That is a term of its own beside the locks. It is 1/(1 + a g(n)), where a is what the measurement shows and g grows with the cores in use:
//! by a power that two measurements fix, and half-way between not at all and in proportion where there is one. Only what the ranges of both
//! leave no doubt of grows: a few hundredths that chance or the machine file's ranges explain would be half of the work on a hundred cores.
//!
//! What the simulated program misses of the baseline, it misses of a lock that behaves alike; of a lock under which the program would go
//! quite another way, it says little: the time for which waiters sleep under the one is not there under the other.

use crate::question::MeasuredPoint;
use crate::simulated_program::{Run, SimulatedPoint};

/// What was measured of one row, beside the simulated program at the same threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Anchor {
    /// Measured points relative to one thread of the baseline, ascending.
    points: Vec<MeasuredPoint>,
    /// Of those past one thread that the simulated program ran too, ascending.
    beside: Vec<Beside>,
    /// How alike the lock that was measured and the one that this is for are: 1 is the same.
    alike: f64,
    /// Cores of the machine that was measured on.
    cores: u32,
}

/// A measured point beside the simulated program.
#[derive(Debug, Clone, Copy)]
struct Beside {
    threads: u32,
    /// The simulated program.
    simulated: f64,
    /// Measured over simulated.
    ratio: f64,
    /// The most that this may be by the ranges of both; 1 where they have something in common.
    at_most: f64,
}

impl Beside {
    fn new(measured: &MeasuredPoint, simulated: SimulatedPoint) -> Self {
        let low = simulated.low.min(simulated.ends[0]).min(simulated.value).max(f64::MIN_POSITIVE);
        let ratio = measured.rate / simulated.value;
        let at_most = (measured.high.max(measured.rate) / low).min(1.0);
        Self { threads: measured.threads, simulated: simulated.value, ratio, at_most }
    }

    /// The work that is lost for each that is done.
    fn lost(&self) -> f64 {
        1.0 / self.ratio - 1.0
    }

    /// The same, as far as there is no doubt of it.
    fn surely_lost(&self) -> f64 {
        1.0 / self.at_most - 1.0
    }
}

/// The power by which what threads share outside of locks grows with the cores, where one measurement does not tell.
const GROWTH: f64 = 0.5;

/// How far apart, in logarithms, the throughputs of two locks may be that err alike: the standard deviation of a normal curve. Of the programs
/// that were measured, 0.3 and 0.8 do nearly as well.
const ALIKE: f64 = 0.5;

impl Anchor {
    /// What the measurements of a lock fix; `one` is the measured rate that is 1.
    pub(crate) fn new(
        measured: &[MeasuredPoint],
        lock: Option<&str>,
        run: Option<&Run>,
        one: f64,
        cores: u32,
    ) -> Self {
        let mut points: Vec<MeasuredPoint> = measured
            .iter()
            .filter(|point| point.lock.as_deref() == lock && point.rate > 0.0)
            .cloned()
            .collect();
        points.sort_by_key(|point| point.threads);
        for point in &mut points {
            for rate in [&mut point.rate, &mut point.low, &mut point.high] {
                *rate /= one;
            }
        }
        let past_one = points.iter().filter(|point| point.threads > 1);
        let beside = past_one.filter_map(|point| Some(Beside::new(point, run?.at(point.threads)?)));
        Self { beside: beside.collect(), alike: 1.0, points, cores }
    }

    /// What these measurements, of another lock, say of the lock of `run`: the less, the further apart the simulated program does the work.
    pub(crate) fn of_another(&self, run: Option<&Run>) -> Self {
        let alike = |one: &Beside| {
            let other = run.and_then(|run| run.at(one.threads)).map_or(one.simulated, |point| point.value);
            (-0.5 * ((other / one.simulated).ln() / ALIKE).powi(2)).exp()
        };
        let of_other = |one: &Beside| {
            let share = alike(one);
            Beside { ratio: one.ratio.powf(share), at_most: one.at_most.powf(share), ..*one }
        };
        Self {
            alike: self.beside.last().map_or(1.0, alike),
            beside: self.beside.iter().map(of_other).collect(),
            points: Vec::new(),
            cores: self.cores,
        }
    }

    /// The rate of the baseline on one thread: measured, or carried back by the simulated program from the fewest threads that were.
    pub(crate) fn one_thread(measured: &[MeasuredPoint], baseline: &Run) -> f64 {
        let own = measured.iter().filter(|point| point.lock.is_none() && point.rate > 0.0);
        let fewest = own.min_by_key(|point| point.threads);
        fewest.map_or(1.0, |point| match point.threads {
            1 => point.rate,
            threads => {
                point.rate / baseline.at(threads).map_or(1.0, |point| point.value.max(f64::MIN_POSITIVE))
            }
        })
    }

    /// Whether nothing was measured past one thread.
    pub(crate) fn is_empty(&self) -> bool {
        self.beside.is_empty()
    }

    /// Whether a measurement past one thread says more of the lock than that it is another.
    pub(crate) fn holds(&self) -> bool {
        !self.is_empty() && self.alike >= 0.5
    }

    /// What was measured at so many threads.
    pub(crate) fn at(&self, threads: u32) -> Option<MeasuredPoint> {
        self.points.iter().find(|point| point.threads == threads).cloned()
    }

    /// The most threads with a core each that were measured; 1 if none, or none that says anything.
    pub(crate) fn last_threads(&self) -> u32 {
        if !self.holds() {
            return 1;
        }
        let own = self.beside.iter().rev().find(|one| one.threads <= self.cores);
        own.or(self.beside.first()).map_or(1, |one| one.threads)
    }

    /// By what the simulated program is multiplied at so many threads on so many cores.
    pub(crate) fn correction(&self, threads: u32, cores: u32) -> f64 {
        let shares = threads > cores;
        // A measurement under the same conditions comes first: with a core for each thread, or with shared cores.
        let (alike, others): (Vec<Beside>, Vec<Beside>) =
            self.beside.iter().copied().partition(|one: &Beside| (one.threads > self.cores) == shares);
        let known = if alike.is_empty() { others } else { alike };
        let Some(&last) = known.last() else { return 1.0 };
        if threads <= last.threads {
            let Some(place) = known.iter().position(|one| one.threads >= threads) else {
                return last.ratio;
            };
            let point = |one: Beside| (one.threads, one.ratio);
            let below = if place > 0 { point(known[place - 1]) } else { (1, 1.0) };
            return between(below, point(known[place]), threads);
        }
        let sure = last.surely_lost();
        if sure <= 0.0 || shares {
            return last.ratio;
        }
        let more = |threads: u32| f64::from(threads.max(2) - 1);
        let power = match known[..] {
            [.., before, last] if before.surely_lost() > 0.0 => {
                let threads = more(last.threads) / more(before.threads);
                ((last.lost() / before.lost()).ln() / threads.ln()).clamp(0.0, 1.0)
            }
            _ => GROWTH,
        };
        let growth = (more(threads.min(cores)) / more(last.threads)).powf(power);
        1.0 / (1.0 + last.lost() + sure * (growth - 1.0))
    }

    /// The most measured threads, and the share of what they lose that the locks explain.
    pub(crate) fn explained_by_locks(&self, cores: u32) -> Option<(u32, f64)> {
        /// Less is not worth an explanation.
        const LOST: f64 = 0.1;
        let &Beside { threads, ratio, simulated, .. } = self.beside.last()?;
        let most = f64::from(threads.min(cores));
        let measured = ratio * simulated;
        let share = ((most - simulated) / (most - measured)).clamp(0.0, 1.0);
        (most - measured > LOST * most).then_some((threads, share))
    }
}

/// On a straight line over the logarithm of the threads.
fn between((from, low): (u32, f64), (to, high): (u32, f64), threads: u32) -> f64 {
    let [from, to, at] = [from, to, threads].map(|threads| f64::from(threads).ln());
    let share = if to > from { ((at - from) / (to - from)).clamp(0.0, 1.0) } else { 1.0 };
    (low.ln() + share * (high.ln() - low.ln())).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &[(u32, f64)]) -> Run {
        let point = |&(threads, value): &(u32, f64)| SimulatedPoint {
            threads,
            value,
            low: value,
            high: value,
            ends: [value; 2],
        };
        Run {
            name: None,
            lock: "glibc-mutex".into(),
            points: values.iter().map(point).collect(),
            limited_by: None,
            waiting: Vec::new(),
        }
    }

    fn measured(values: &[(u32, f64)]) -> Vec<MeasuredPoint> {
        let point = |&(threads, rate): &(u32, f64)| MeasuredPoint {
            lock: None,
            threads,
            rate,
            low: rate,
            high: rate,
        };
        values.iter().map(point).collect()
    }

    #[test]
    fn the_forecast_is_the_ratio_from_the_last_measured_point() {
        let run = run(&[(1, 1.0), (2, 2.0), (4, 4.0), (8, 8.0)]);
        let of = |points: &[(u32, f64)], cores| {
            Anchor::new(&measured(points), None, Some(&run), points[0].1, cores)
        };
        let better = of(&[(1, 50.0), (2, 110.0)], 2);
        assert!((better.correction(8, 8) - 1.1).abs() < 1e-9, "what does better goes on as it did");
        assert_eq!(better.last_threads(), 2);
        // Two measurements fix the growth: twice the loss at three times the further threads.
        let worse = of(&[(1, 1.0), (2, 1.6), (4, 2.0)], 4);
        assert!((worse.correction(4, 8) - 0.5).abs() < 1e-9);
        assert!(worse.correction(8, 8) < 0.4, "{}", worse.correction(8, 8));
        // The locks leave all of it, so that they explain none of the loss.
        assert_eq!(worse.explained_by_locks(4), Some((4, 0.0)));
        assert!(of(&[(1, 1.0)], 2).is_empty());
        assert_eq!(of(&[(1, 1.0)], 2).correction(8, 8), 1.0);
    }

    #[test]
    fn what_chance_explains_does_not_grow_with_the_cores() {
        let run = run(&[(1, 1.0), (2, 2.0), (4, 4.0), (64, 64.0)]);
        // Two hundredths at two threads and five at four, in a range that holds what was simulated: not half of it on 64 cores.
        let mut points = measured(&[(1, 1.0), (2, 1.96), (4, 3.8)]);
        points.iter_mut().for_each(|point| point.high *= 1.06);
        let of = Anchor::new(&points, None, Some(&run), 1.0, 64);
        assert!((of.correction(64, 64) - 0.95).abs() < 1e-9, "{}", of.correction(64, 64));
        // What the range leaves no doubt of does.
        let lost = Anchor::new(&measured(&[(1, 1.0), (2, 1.96), (4, 3.8)]), None, Some(&run), 1.0, 64);
        assert!(lost.correction(64, 64) < 0.6, "{}", lost.correction(64, 64));
    }

    #[test]
    fn what_was_measured_of_a_lock_says_little_of_one_that_behaves_otherwise() {
        let own = run(&[(1, 1.0), (2, 0.25), (4, 0.3)]);
        let of = Anchor::new(&measured(&[(1, 1.0), (2, 0.125)]), None, Some(&own), 1.0, 2);
        let to = |values: &[(u32, f64)]| of.of_another(Some(&run(values)));
        // Another lock that collapses likewise is as far off.
        let alike = to(&[(1, 1.0), (2, 0.25), (4, 0.3)]);
        assert!(alike.holds() && (alike.correction(2, 2) - 0.5).abs() < 1e-9);
        assert!(alike.at(2).is_none(), "nothing was measured of it");
        // One that escapes does not lose the half that sleepers took.
        let otherwise = to(&[(1, 1.0), (2, 1.5), (4, 1.5)]);
        assert!(!otherwise.holds() && otherwise.correction(2, 2) > 0.98, "{otherwise:?}");
        assert_eq!(otherwise.last_threads(), 1);
    }

    #[test]
    fn locks_explain_the_part_of_the_loss_that_the_simulated_program_has() {
        let run = run(&[(1, 1.0), (2, 1.6)]);
        let of = Anchor::new(&measured(&[(1, 1.0), (2, 1.0)]), None, Some(&run), 1.0, 2);
        assert!((of.explained_by_locks(2).unwrap().1 - 0.4).abs() < 1e-9);
    }

    #[test]
    fn without_one_thread_the_unit_is_carried_back() {
        let run = run(&[(1, 1.0), (4, 0.5)]);
        let points = measured(&[(4, 1e6)]);
        let one = Anchor::one_thread(&points, &run);
        assert!((one - 2e6).abs() < 1.0);
        assert!((Anchor::new(&points, None, Some(&run), one, 4).at(4).unwrap().rate - 0.5).abs() < 1e-9);
    }
}
