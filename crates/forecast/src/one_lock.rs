//! One lock: what becomes of it as it is, and with others in its place.

use crate::{Alternative, Target, family_of};
use anyhow::Context as _;
use curve::Curve;
use model::predict::{self, Fall};
use model::{Family, Observed, Parameters, Prediction, Variant, Verdict, fit};
use rayon::prelude::*;
use report::{Cell, Column, Screen, Spread, Table, text};
use serde::Serialize;
use std::fmt::Write as _;
use topology::{MachineFile, Range};
use what_if::case::times;

/// A prediction and the lock that it is for.
#[derive(Debug, Serialize)]
pub struct Named {
    /// What tables call it.
    pub name: String,
    /// Whether this is the lock that the program ran on.
    pub as_it_is: bool,
    /// What becomes of it.
    #[serde(flatten)]
    pub prediction: Prediction,
}

/// Everything that is predicted for one lock of a program.
#[derive(Debug, Serialize)]
pub struct LockPrediction {
    /// What the profile says.
    pub observed: Observed,
    /// What the model takes from that.
    pub parameters: Parameters,
    /// The lock as it is, then the alternatives.
    pub predictions: Vec<Named>,
    /// What was measured of it.
    pub measured: Vec<MeasuredCurve>,
}

/// Predicts a lock as it is and with each of the alternatives.
///
/// # Errors
///
/// A profile that lacks what the model needs, in words for the user.
pub fn predict_lock(
    lock: &Observed,
    alternatives: &[Alternative],
    target: &Target,
) -> anyhow::Result<LockPrediction> {
    let parameters = Parameters::observed(lock, target.profiled_transfer_ns).map_err(anyhow::Error::msg)?;
    let predict = |parameters: &Parameters, family| {
        predict::predict(parameters, family, &target.costs, &target.cores, target.variant)
    };
    // A family that the program runs on already would be predicted twice; and the chain knows no transactions.
    let others =
        alternatives.iter().filter(|other| other.name != lock.family.name() && other.elided.is_none());
    let own = (format!("{} as it is", lock.family.name()), lock.family, true, parameters.clone());
    let named = std::iter::once(own).chain(others.map(|Alternative { name, family, shared, .. }| {
        let read_share = parameters.read_share.filter(|_| *shared);
        (name.clone(), *family, false, Parameters { read_share, ..parameters.clone() })
    }));
    let named: Vec<_> = named.collect();
    let predictions = named.into_par_iter().map(|(name, family, as_it_is, parameters)| {
        Ok(Named { name, as_it_is, prediction: predict(&parameters, family)? })
    });
    let mut predictions = predictions.collect::<anyhow::Result<Vec<_>>>()?;
    for named in &mut predictions {
        named.prediction.curve.label.clone_from(&named.name);
    }
    Ok(LockPrediction { observed: lock.clone(), parameters, predictions, measured: Vec::new() })
}

/// A measured curve beside a prediction, and the cost of a hand-over that explains it.
#[derive(Debug, Serialize)]
pub struct MeasuredCurve {
    /// Relative to one core.
    pub curve: Curve,
    /// The family that the curve's lock belongs to.
    family: Option<Family>,
    /// c, the transfer or the time to wake, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    fitted_ns: Option<f64>,
    /// Root mean square of the logarithm of measured over fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<f64>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_fitted: Option<String>,
}

impl MeasuredCurve {
    /// Fits the hand-over of the lock that `curve` names, under the target's form.
    ///
    /// # Errors
    ///
    /// A curve without a point at one core, which nothing can be relative to.
    pub fn new(curve: &Curve, lock: &LockPrediction, target: &Target) -> anyhow::Result<Self> {
        let relative = curve.relative_to_one_core().with_context(|| {
            format!(
                "the measured curve `{}` has no point at one core: measure one, so that others are relative to it",
                text::printable(&curve.label)
            )
        })?;
        let family = family_of(&curve.lock);
        let fit = match family {
            None => Err(format!("its lock `{}` is of no known family", text::printable(&curve.lock))),
            Some(family) => fit::fit_cost(
                |cores| lock.parameters.likely_model(family, &target.costs, cores, target.variant),
                &relative,
            )
            .map_err(|error| error.to_string()),
        };
        let (fitted_ns, error, not_fitted) = match fit {
            Ok(fit) => (Some(fit.cost), Some(fit.error), None),
            Err(why) => (None, None, Some(why)),
        };
        Ok(Self { curve: relative, family, fitted_ns, error, not_fitted })
    }

    fn terminal(&self, variant: Variant) -> String {
        let label = text::printable(&self.curve.label);
        match (self.family, self.fitted_ns, self.error, &self.not_fitted) {
            (Some(family), Some(cost), Some(error), _) => format!(
                "Measured `{label}`: fits a {} lock whose {} costs {} ns (t_k = {}), off by {:.0} %.\n",
                family.name(),
                match family {
                    Family::Blocking => "wake-up",
                    Family::BackOffThenSleep => "pause between two polls",
                    Family::Queue => "transfer",
                    Family::Ticket | Family::TestAndSet | Family::BackOff => "waiter",
                },
                text::short(cost),
                variant.form(),
                100.0 * error
            ),
            (.., Some(why)) => format!("Measured `{label}`: no cost was fitted: {why}.\n"),
            _ => String::new(),
        }
    }
}

impl LockPrediction {
    /// The lock, what the profile shows of it, and the machine.
    pub(crate) fn heading(&self, machine: &MachineFile, screen: Screen) -> String {
        let mut shown = self.describe();
        let _ = writeln!(shown, "On {}: {}.\n", machine.name, text::printable(&machine.description));
        screen.fit(&shown)
    }

    /// What becomes of the lock as it is and of each alternative, by the chain; `locks` heads the first column.
    pub(crate) fn table(&self, target: &Target, locks: &'static str) -> Table {
        let last = target.cores[target.cores.len() - 1];
        let mut table = Table::new([
            Column::text("lock", locks),
            Column::number("peak_cores", "peak cores"),
            Column::number("peak_speedup", "peak"),
            Column::number("collapse_cores", "under 90 % at"),
            Column::spread("speedup_at_last", "at the last core"),
            Column::text("verdict", "verdict").kept(),
        ]);
        // Figures that are made of times known to be wrong are not shown.
        let useful = self.parameters.useless.is_none();
        for Named { name, prediction, .. } in &self.predictions {
            let end = prediction.curve.at(last);
            table.row([
                Cell::from(name.as_str()),
                Cell::from(useful.then_some(prediction.peak_cores)),
                Cell::from(useful.then_some(prediction.peak_speedup)),
                Cell::from(prediction.collapse_cores.filter(|_| useful)),
                Cell::from(end.filter(|_| useful).map(Spread::from)),
                Cell::from(prediction.verdict.words()),
            ]);
        }
        table
    }

    /// The lock and what the profile says of it.
    fn describe(&self) -> String {
        let Self { observed, parameters, .. } = self;
        let reads =
            parameters.read_share.map_or(String::new(), |share| format!(", {:.0} % reads", 100.0 * share));
        format!(
            "{}: {} by {}{reads}.\n{}\n",
            text::printable(&observed.name),
            text::counted(observed.acquisitions, "acquisition"),
            text::counted(u64::from(observed.threads), "thread"),
            times(parameters),
        )
    }

    /// What the reader must know of these figures: doubts, open verdicts, what was assumed, where short runs deceive.
    pub(crate) fn remarks(&self, machine: &MachineFile, target: &Target) -> String {
        let mut shown = String::new();
        for measured in self.measured.iter().filter(|_| self.parameters.useless.is_none()) {
            shown.push_str(&measured.terminal(target.variant));
        }
        for doubt in &self.parameters.doubts {
            let _ = writeln!(shown, "In doubt: {doubt}.");
        }
        // Predictions share their reasons where they share their inputs.
        let mut reasons: Vec<&str> = Vec::new();
        for Named { name, prediction, .. } in &self.predictions {
            if let Verdict::CannotTell { reason } = &prediction.verdict
                && !reasons.contains(&reason.as_str())
            {
                let _ = writeln!(shown, "Cannot be told from this profile ({name}): {reason}.");
                reasons.push(reason);
            }
        }
        if self.parameters.profiled_transfer_ns.low < self.parameters.profiled_transfer_ns.high {
            let Range { low, high, .. } = self.parameters.profiled_transfer_ns;
            let _ = writeln!(
                shown,
                "Assumed: a line transfer of {low:.0} to {high:.0} ns where the profile was taken; contend calibrate measures it."
            );
        }
        let waiter = &machine.handover.waiter;
        let last = target.cores[target.cores.len() - 1];
        let cores = machine.topology.cores();
        if last > cores {
            let _ = writeln!(
                shown,
                "{} has {cores} cores: past them, lines are taken to travel as far as across all of it.",
                machine.name
            );
        }
        let Range { low, likely, high } = target.costs.waiter_ns(last);
        let _ = writeln!(
            shown,
            "One more waiter costs {likely:.0} ns at {last} cores ({low:.0} to {high:.0}; {}), in t_k = {}.",
            text::printable(waiter.source.as_str()),
            target.variant.form()
        );
        let falls = self.predictions.iter().filter_map(|named| Some((&named.name, named.prediction.fall?)));
        for (name, Fall { cores, to_collapse_ns, to_recover_ns }) in falls {
            if to_collapse_ns.max(to_recover_ns) > NOTEWORTHY_NS {
                let _ = writeln!(
                    shown,
                    "With {name} at {cores} cores the lock works for {} on average, falls, and stays down for {}: \
                     runs much shorter than that look better.",
                    text::time(to_collapse_ns),
                    text::time(to_recover_ns)
                );
            }
        }
        shown
    }
}

/// No run is so short that falls and recoveries quicker than this would show in it.
const NOTEWORTHY_NS: f64 = 1e6;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{alternatives, chain::ByChain};
    use curve::{Point, Provenance, Unit};
    use model::Mean;
    use report::every_screen;
    use topology::carried;

    pub(crate) fn target(last: u32) -> Target {
        Target {
            costs: carried::machine("epyc-9654x2").costs(),
            profiled_transfer_ns: Range::exact(50.0),
            cores: predict::sweep(1, last),
            variant: Variant::default(),
        }
    }

    pub(crate) fn lock() -> Observed {
        let mean = |ns| Some(Mean { ns: Range::exact(ns), samples: 1_000_000 });
        Observed {
            name: "order\u{1b}[2J<b>".into(),
            family: Family::Blocking,
            threads: 2,
            acquisitions: 1_000_000,
            reads: None,
            hold_same: mean(60.0),
            hold_other: mean(120.0),
            think: mean(900.0),
            wait_ns: 0.0,
            handover_ns: Some(Range { low: 3e3, likely: 8e3, high: 2e4 }),
            ran_together: true,
        }
    }

    #[test]
    fn a_prediction_has_the_lock_as_it_is_first_and_no_family_twice() {
        let prediction = predict_lock(&lock(), &alternatives(&[]).unwrap(), &target(64)).unwrap();
        let names: Vec<_> = prediction.predictions.iter().map(|named| named.name.as_str()).collect();
        assert_eq!(
            names,
            ["blocking as it is", "back-off-then-sleep", "test-and-set", "back-off", "ticket", "queue"]
        );
        assert!(prediction.predictions[0].as_it_is);
        assert!(prediction.predictions.iter().all(|named| named.prediction.curve.at(64).is_some()));
    }

    #[test]
    fn readers_share_a_reader_writer_lock_but_not_a_mutex_in_its_place() {
        let lock = Observed { reads: Some(950_000), handover_ns: None, ..lock() };
        let names = ["rw", "futex"].map(str::to_owned);
        let prediction = predict_lock(&lock, &alternatives(&names).unwrap(), &target(16)).unwrap();
        let [_, shared, exclusive] =
            [0, 1, 2].map(|i| prediction.predictions[i].prediction.curve.at(16).unwrap());
        assert!(shared.value > 1.5 * exclusive.value, "{shared:?} {exclusive:?}");
    }

    #[test]
    fn a_queue_lock_ends_above_a_ticket_lock() {
        let prediction = predict_lock(&lock(), &alternatives(&[]).unwrap(), &target(192)).unwrap();
        let end = |name: &str| {
            let named = prediction.predictions.iter().find(|named| named.name == name).unwrap();
            named.prediction.curve.at(192).unwrap().value
        };
        assert!(end("queue") > 2.0 * end("ticket") && end("ticket") > end("test-and-set"));
    }

    #[test]
    fn names_from_a_profile_cannot_act_on_the_terminal() {
        let machine = carried::machine("epyc-9654x2");
        let target = target(32);
        let prediction = predict_lock(&lock(), &[], &target).unwrap();
        let forecast = ByChain::of(prediction, machine, target);
        let shown = forecast.terminal(Screen::FILE).unwrap();
        assert!(!shown.contains('\u{1b}') && shown.contains("\\u{1b}[2J"));
        assert!(!forecast.plot().unwrap().svg().contains("<b>"));
    }

    #[test]
    fn a_measured_curve_gives_back_the_cost_that_made_it() {
        let target = target(64);
        let mut prediction = predict_lock(&lock(), &alternatives(&[]).unwrap(), &target).unwrap();
        let model = |cores| {
            let model =
                prediction.parameters.likely_model(Family::Ticket, &target.costs, cores, target.variant);
            model::LockModel { handover: model.handover.with_cost(77.0), ..model }
        };
        let points =
            [1, 2, 4, 8, 16].map(|cores| Point::exact(cores, 5e6 * model(cores).at(cores).unwrap().speedup));
        let curve = Curve::new("m\u{1b}", Unit::OperationsPerSecond, Provenance::Measured);
        let curve = curve.lock("ticket").with_points(points).unwrap();
        let measured = MeasuredCurve::new(&curve, &prediction, &target).unwrap();
        assert!((measured.fitted_ns.unwrap() / 77.0 - 1.0).abs() < 1e-3, "{measured:?}");
        prediction.measured.push(measured);
        let forecast = ByChain::of(prediction, carried::machine("epyc-9654x2"), target);
        let shown = forecast.terminal(Screen::FILE).unwrap();
        assert!(shown.contains("waiter costs 77.0 ns (t_k = s + c(k-1)/2)") && !shown.contains('\u{1b}'));
    }

    #[test]
    fn a_curve_that_fits_nothing_says_so() {
        let target = target(64);
        let prediction = predict_lock(&lock(), &[], &target).unwrap();
        let curve = |lock: &str, points: &[u32]| {
            Curve::new("m", Unit::Speedup, Provenance::Measured)
                .lock(lock)
                .with_points(points.iter().map(|&cores| Point::exact(cores, 1.0)))
                .unwrap()
        };
        let not_fitted =
            |curve: &Curve| MeasuredCurve::new(curve, &prediction, &target).unwrap().not_fitted.unwrap();
        assert!(not_fitted(&curve("unheard-of", &[1, 2])).contains("no known family"));
        assert!(not_fitted(&curve("mcs", &[1])).contains("no point above one core"));
        assert!(MeasuredCurve::new(&curve("mcs", &[2]), &prediction, &target).is_err());
    }

    #[test]
    fn a_prediction_on_every_screen() {
        let machine = carried::machine("epyc-9654x2");
        let target = target(64);
        let lock = Observed { name: "cache::Table::tune_logger".into(), ..lock() };
        let names = ["mcs", "ticket-proportional"].map(str::to_owned);
        let prediction = predict_lock(&lock, &alternatives(&names).unwrap(), &target).unwrap();
        let forecast = ByChain::of(prediction, machine, target);
        let text = |screen| forecast.terminal(screen).unwrap();
        let names = ["cache::Table::tune_logger", "blocking as it is", "ticket-proportional"];
        insta::assert_snapshot!(every_screen(&names, text));
    }
}
