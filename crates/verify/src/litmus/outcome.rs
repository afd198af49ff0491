//! One litmus test with what was found out about it.

use std::collections::BTreeMap;
use std::path::Path;

use checker::Model;
use checker::litmus::program::{FaultKind, Final};
use checker::litmus::{Dialect, Judgement, Limits, Observable, ParseError, Quantifier, Test, native};
use report::text::printable;
use serde_json::{Value, json};

use super::expected::{Expected, Verdict};

/// A test with what was found out about it.
pub struct TestOutcome<'a> {
    file: &'a Path,
    test: Test,
    judgements: Vec<Judgement>,
    /// Of each judgement, what is expected.
    expected: Vec<Option<Verdict>>,
    measured: Option<HardwareRun>,
    /// It was to be run, and has transactions, which are judged only.
    is_judged_only: bool,
}

/// What the processor did.
struct HardwareRun {
    outcomes: native::Outcomes,
    /// The model that the processor follows, when the test says something about it.
    allowed: Option<Judgement>,
    /// What the test can do if its threads only take turns.
    sequential: Judgement,
    /// Processors that this process may use.
    processors: usize,
}

/// What running a test shows of the processor's memory model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// Threads that take turns can do all that the processor may, or not all of that is known: nothing is to be seen.
    NotTested,
    /// An outcome that no turns explain was seen.
    Seen,
    /// The processor may do what no turns explain, and did not.
    Unseen,
}

impl<'a> TestOutcome<'a> {
    /// What the models say of a test in a file, beside what is expected of it.
    pub fn new(file: &'a Path, test: Test, judgements: Vec<Judgement>, expected: Option<&Expected>) -> Self {
        let of = |judgement: &Judgement| expected?.of(&test.name, file, judgement.model);
        let expected = judgements.iter().map(of).collect();
        Self { file, test, judgements, expected, measured: None, is_judged_only: false }
    }

    /// Runs the test on this processor, unless it has transactions.
    pub fn run(&mut self, iterations: u64, limits: &Limits) -> Result<(), ParseError> {
        let outcomes = match native::run(&self.test, iterations, 1, limits.time) {
            Ok(outcomes) => outcomes,
            Err(fault) if fault.kind == FaultKind::Transaction => {
                self.is_judged_only = true;
                return Ok(());
            }
            Err(fault) => return Err(self.test.explain(&fault)),
        };
        let allowed = cfg!(target_arch = "x86_64").then(|| self.test.judge_within(Model::Tso, limits));
        let sequential = self.test.judge_within(Model::Sc, limits);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.measured = Some(HardwareRun { outcomes, allowed, sequential, processors });
        Ok(())
    }

    /// What running the test shows of the processor; none if it was not run.
    pub fn weakness(&self) -> Option<Weakness> {
        self.measured.as_ref().map(HardwareRun::weakness)
    }

    /// Whether every model's verdict is certain.
    pub fn is_decided(&self) -> bool {
        self.judgements.iter().all(Judgement::is_decided)
    }

    /// Whether a verdict is expected under one of the models.
    pub fn is_expected(&self) -> bool {
        self.expected.iter().any(Option::is_some)
    }

    /// How many verdicts are as expected, and how many were compared.
    pub fn agreement(&self) -> (usize, usize) {
        let compared = self
            .judgements
            .iter()
            .zip(&self.expected)
            .filter_map(|(judgement, expected)| self.agrees(judgement, *expected));
        compared.fold((0, 0), |(agreeing, all), agrees| (agreeing + usize::from(agrees), all + 1))
    }

    /// None when nothing is expected, or the verdict is not certain.
    fn agrees(&self, judgement: &Judgement, expected: Option<Verdict>) -> Option<bool> {
        expected?.agrees(judgement, self.test.quantifier)
    }

    /// Whether a verdict is not the expected one, or the processor did what its model forbids.
    pub fn is_failed(&self) -> bool {
        let (agreeing, compared) = self.agreement();
        let forbidden = |measured: &HardwareRun| measured.outcomes.keys().any(|end| measured.forbids(end));
        agreeing < compared || self.measured.as_ref().is_some_and(forbidden)
    }

    /// Lines for a terminal, with the final states if asked for.
    pub fn text(&self, with_states: bool) -> String {
        let name = if self.test.name.is_empty() { "a test without a name" } else { &self.test.name };
        let mut text = format!("{} ({})\n", printable(name), printable(&self.file.display().to_string()));
        for (judgement, expected) in self.judgements.iter().zip(&self.expected) {
            let all = judgement.holding + judgement.others;
            text += &format!(
                "  {:3}  {:9}  {} of {all} states{}{}{}\n",
                judgement.model.name(),
                verdict(judgement),
                judgement.holding,
                if judgement.finals.race { ", with a data race" } else { "" },
                bound(judgement),
                match self.agrees(judgement, *expected) {
                    Some(true) => ", as expected",
                    Some(false) => ", NOT AS EXPECTED",
                    None => "",
                },
            );
            if with_states {
                for state in self.states(judgement) {
                    text += &format!("       {state}\n");
                }
            }
        }
        if let Some(measured) = &self.measured {
            text += "  this processor\n";
            // Ends that differ in what the test does not speak of are one line.
            let mut lines = BTreeMap::<String, (u64, bool)>::new();
            for (end, count) in &measured.outcomes {
                let line = lines.entry(self.state(end)).or_default();
                *line = (line.0 + count, line.1 | measured.forbids(end));
            }
            for (state, (count, is_forbidden)) in &lines {
                let forbidden = if *is_forbidden { "  FORBIDDEN by TSO" } else { "" };
                text += &format!("  {count:>12}  {state}{forbidden}\n");
            }
            let unseen = measured.allowed.iter().flat_map(|allowed| self.states(allowed));
            for state in unseen.filter(|state| !lines.contains_key(state)) {
                text += &format!("  {:>12}  {state}\n", 0);
            }
            if measured.weakness() == Weakness::Unseen {
                text += &format!("  {}\n", measured.why_nothing_was_seen());
            }
        }
        if self.is_judged_only {
            text += "  this processor\n  Not run: the test has transactions, which --run does not begin.\n";
        }
        text
    }

    fn state(&self, end: &Final) -> String {
        let places = self.test.spoken_of();
        let shown =
            places.iter().map(|&place| format!("{}={};", self.test.name_of(place), self.value(place, end)));
        let mark = if self.test.condition.holds(end) { "  *" } else { "" };
        shown.collect::<Vec<_>>().join(" ") + mark
    }

    /// A value as the test would write it. What fits into four bytes of a register is shown with its sign.
    fn value(&self, place: Observable, end: &Final) -> String {
        let value = place.value(end);
        let in_word = matches!(place, Observable::Register(..)) && self.test.dialect != Dialect::C;
        let value = if in_word && value >> 32 == 0 { i64::from(value as i32) } else { value };
        self.test.show(value)
    }

    /// The final states as far as the test speaks of them, each once.
    fn states(&self, judgement: &Judgement) -> Vec<String> {
        let mut states = judgement.finals.states.iter().map(|end| self.state(end)).collect::<Vec<_>>();
        states.sort();
        states.dedup();
        states
    }

    fn state_json(&self, end: &Final) -> Value {
        let places = self.test.spoken_of();
        places.iter().map(|&place| (self.test.name_of(place), json!(self.value(place, end)))).collect()
    }

    /// Everything for a script.
    pub fn json(&self) -> Value {
        let models = self.judgements.iter().zip(&self.expected);
        let models = models.map(|(judgement, expected)| {
            (judgement.model.name().to_owned(), self.judgement_json(judgement, *expected))
        });
        let mut value = json!({
            "file": self.file,
            "name": self.test.name,
            "quantifier": match self.test.quantifier {
                Quantifier::Exists => "exists",
                Quantifier::NotExists => "~exists",
                Quantifier::Forall => "forall",
            },
            "models": models.collect::<serde_json::Map<_, _>>(),
        });
        if let Some(measured) = &self.measured {
            let outcome = |(end, count): (&Final, &u64)| {
                let allowed = measured.allowed.as_ref().and_then(|allowed| {
                    let is_seen = allowed.finals.states.contains(end);
                    (is_seen || !allowed.finals.bounded).then_some(is_seen)
                });
                json!({ "count": count, "state": self.state_json(end), "allowed": allowed })
            };
            value["run"] = measured.outcomes.iter().map(outcome).collect();
            value["processors"] = json!(measured.processors);
            value["weak_outcomes_seen"] = match measured.weakness() {
                Weakness::NotTested => Value::Null,
                weakness => json!(weakness == Weakness::Seen),
            };
        }
        if self.is_judged_only {
            value["run"] = Value::Null;
        }
        value
    }

    fn judgement_json(&self, judgement: &Judgement, expected: Option<Verdict>) -> Value {
        let mut states = judgement.finals.states.iter().map(|end| self.state_json(end)).collect::<Vec<_>>();
        states.sort_by_key(Value::to_string);
        states.dedup();
        let mut value = json!({
            "verdict": verdict(judgement),
            "observation": judgement.observation(),
            "satisfied": judgement.satisfies(self.test.quantifier),
            "complete": !judgement.finals.bounded,
            "race": judgement.finals.race,
            "executions": judgement.finals.counts,
            "states": states,
        });
        if let Some(expected) = expected {
            value["expected"] = json!(expected.name());
            value["agrees"] = json!(self.agrees(judgement, Some(expected)));
        }
        value
    }
}

impl HardwareRun {
    fn weakness(&self) -> Weakness {
        let of_turns = &self.sequential.finals;
        if of_turns.bounded {
            return Weakness::NotTested;
        }
        let is_weak = |end: &&Final| !of_turns.states.contains(*end);
        if self.outcomes.keys().any(|end| is_weak(&end)) {
            return Weakness::Seen;
        }
        // Where the processor's model is not one of these, each test may show something.
        let may_be =
            self.allowed.as_ref().is_none_or(|allowed| allowed.finals.states.iter().any(|end| is_weak(&end)));
        if may_be { Weakness::Unseen } else { Weakness::NotTested }
    }

    fn why_nothing_was_seen(&self) -> &'static str {
        if self.processors == 1 {
            "Nothing weak was seen, and cannot be: this process has one processor, on which threads take turns."
        } else {
            "Nothing weak was seen: threads that take turns explain every outcome. That does not show that this \
             processor never reorders."
        }
    }

    fn forbids(&self, end: &Final) -> bool {
        self.allowed
            .as_ref()
            .is_some_and(|allowed| !allowed.finals.bounded && !allowed.finals.states.contains(end))
    }
}

fn bound(judgement: &Judgement) -> &'static str {
    match (judgement.finals.bounded, judgement.finals.unrolled) {
        (true, true) => ", a bound: a loop takes more turns, which --unroll lets it",
        (true, false) => ", a bound: not all executions were seen",
        _ => "",
    }
}

/// A bound that saw nothing does not say that there is nothing.
fn verdict(judgement: &Judgement) -> &'static str {
    match (judgement.is_allowed(), judgement.is_decided()) {
        (true, _) => "Allowed",
        (false, true) => "Forbidden",
        (false, false) => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test that was run, with these ends on so many processors.
    fn ran(text: &str, seen: impl Fn(&Test) -> Vec<Final>, processors: usize) -> TestOutcome<'static> {
        let test = Test::parse(text).expect("a test");
        let outcomes = seen(&test).into_iter().map(|end| (end, 1)).collect();
        let allowed = Some(test.judge(Model::Tso));
        let sequential = test.judge(Model::Sc);
        let mut outcome = TestOutcome::new(Path::new("test.litmus"), test, Vec::new(), None);
        outcome.measured = Some(HardwareRun { outcomes, allowed, sequential, processors });
        outcome
    }

    fn ends(test: &Test, model: Model) -> Vec<Final> {
        test.judge(model).finals.states.into_iter().collect()
    }

    const SB: &str = "X86 SB\n{ x=0; y=0; }\n P0 | P1 ;\n MOV [x],$1 | MOV [y],$1 ;\n\
                      MOV EAX,[y] | MOV EAX,[x] ;\nexists (0:EAX=0 /\\ 1:EAX=0)";
    const MP: &str = "X86 MP\n{ x=0; y=0; }\n P0 | P1 ;\n MOV [x],$1 | MOV EAX,[y] ;\n\
                      MOV [y],$1 | MOV EBX,[x] ;\nexists (1:EAX=1 /\\ 1:EBX=0)";

    #[test]
    fn a_run_that_shows_nothing_weak_says_so() {
        let turns = |test: &Test| ends(test, Model::Sc);
        let alone = ran(SB, turns, 1);
        assert_eq!(alone.weakness(), Some(Weakness::Unseen));
        assert!(alone.text(false).contains("has one processor"), "{}", alone.text(false));
        assert_eq!(alone.json()["processors"], 1);
        assert_eq!(alone.json()["weak_outcomes_seen"], false);
        let two = ran(SB, turns, 2).text(false);
        assert!(two.contains("Nothing weak was seen") && !two.contains("one processor"), "{two}");
        assert!(!alone.is_failed());
    }

    #[test]
    fn a_test_with_transactions_is_judged_and_not_run() {
        let text = "C A\n{ x=0; }\nP0 (int* x) { atomic { *x = 1; } }\nexists (x=0)";
        let test = Test::parse(text).expect("a test");
        let judged = vec![test.judge(Model::Sc)];
        let mut outcome = TestOutcome::new(Path::new("test.litmus"), test, judged, None);
        outcome.run(1_000, &Limits::default()).expect("judged");
        assert!(outcome.text(false).contains("Forbidden") && outcome.text(false).contains("Not run"));
        assert_eq!(outcome.json()["run"], Value::Null);
        assert_eq!(outcome.weakness(), None);
        assert!(!outcome.is_failed());
    }

    #[test]
    fn a_run_that_shows_something_weak_or_cannot_says_nothing() {
        let weak = ran(SB, |test| ends(test, Model::Tso), 2);
        assert_eq!(weak.weakness(), Some(Weakness::Seen));
        assert!(!weak.text(false).contains("Nothing weak"));
        assert_eq!(weak.json()["weak_outcomes_seen"], true);
        let ordered = ran(MP, |test| ends(test, Model::Sc), 1); // TSO allows it nothing more
        assert_eq!(ordered.weakness(), Some(Weakness::NotTested));
        assert!(!ordered.text(false).contains("Nothing weak"));
        assert_eq!(ordered.json()["weak_outcomes_seen"], Value::Null);
    }
}
