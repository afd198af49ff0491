//! What came of a gate: the outcome, and the texts and tables of it.

use super::ratio::{Ratio, Verdict, least_times_base};
use super::{Base, Gate, Grown, grown, junit};
use crate::statistics::{LikelyRatio, ODDS};
use report::{Cell, Column, Screen, Table, text};
use session::noise::Noise;
use std::ffi::OsString;

/// A run that failed, which ended the rounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Whose run it was, and on how many threads.
    pub what: String,
    /// How it ended.
    pub why: String,
    /// The last that the program wrote.
    pub output_tail: String,
}

/// What the gate says of the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No ratio is shown to be worse.
    Passed,
    /// A ratio is worse.
    Worse,
    /// Something else used the machine: nothing is judged.
    Busy,
    /// A program failed: nothing is judged.
    Failed,
    /// An interrupt came: nothing is judged.
    CutShort,
}

impl Outcome {
    /// A word for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Worse => "worse",
            Self::Busy => "busy",
            Self::Failed => "failed",
            Self::CutShort => "cut short",
        }
    }

    /// What the command exits with.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Worse => 1,
            Self::Busy => 3,
            Self::Failed => 4,
            Self::CutShort => 130,
        }
    }

    /// Whether verdicts count.
    pub fn is_judged(self) -> bool {
        matches!(self, Self::Passed | Self::Worse)
    }
}

/// What came of a gate.
#[derive(Debug)]
pub struct Gated {
    /// What was asked for.
    pub asked: Gate,
    /// What can be judged.
    pub ratios: Vec<Ratio>,
    /// The run that ended the rounds, if one failed.
    pub failed: Option<Failed>,
    /// What else the machine did.
    pub noise: Noise,
    /// The runs were ended by an interrupt.
    pub cut_short: bool,
    /// What the user may not expect.
    pub remarks: Vec<String>,
    /// The locks that cost more than before, if a ratio is worse and both sides took locks.
    pub grown: Option<Vec<Grown>>,
}

impl Gated {
    /// What the gate says.
    pub fn outcome(&self) -> Outcome {
        if self.cut_short {
            Outcome::CutShort
        } else if self.failed.is_some() {
            Outcome::Failed
        } else if self.ratios.iter().any(|ratio| ratio.verdict == Verdict::Worse && self.may_be_judged(ratio))
        {
            Outcome::Worse
        } else if self.is_busy() {
            Outcome::Busy
        } else {
            Outcome::Passed
        }
    }

    fn is_busy(&self) -> bool {
        !self.noise.disturbances_over(&self.asked.noise_limits).is_empty()
    }

    /// Whether the machine was idle enough for this ratio.
    fn may_be_judged(&self, ratio: &Ratio) -> bool {
        !self.is_busy() || self.asked.judges_under_load(ratio.kind)
    }

    /// The verdict on a ratio; none if it is not judged.
    pub(super) fn verdict(&self, ratio: &Ratio) -> Option<Verdict> {
        (self.outcome().is_judged() && self.may_be_judged(ratio)).then_some(ratio.verdict)
    }

    /// Why nothing is judged, or not all.
    pub(super) fn disturbed(&self) -> String {
        format!("{}.", self.noise.warnings_over(&self.asked.noise_limits).join("; "))
    }

    /// A row for each ratio.
    fn table(&self) -> Table {
        let mut table = Table::new([
            Column::text("ratio", "ratio").kept(),
            Column::text("lock", "lock").only_if_any(),
            Column::number("threads", "threads"),
            Column::spread("base", "base").detail(),
            Column::spread("candidate", "candidate").detail(),
            Column::spread("times_base", "times as good as base").kept(),
            Column::text("verdict", "verdict").kept(),
            Column::text("missing", "why not").kept().only_if_any(),
        ]);
        // Where the rounds ended early, that is why something is missing.
        let finished = !matches!(self.outcome(), Outcome::Failed | Outcome::CutShort) && !self.is_busy();
        for ratio in &self.ratios {
            let [base, candidate] = ratio.spreads();
            table.row([
                Cell::from(ratio.kind.name()),
                ratio.site.clone().into(),
                ratio.threads.into(),
                base.into(),
                candidate.into(),
                ratio.times_base.map(|likely| likely.range).into(),
                self.verdict(ratio).map_or("not judged", Verdict::name).into(),
                ratio.missing().filter(|_| finished).into(),
            ]);
        }
        table
    }

    /// What came out, in a sentence.
    pub(super) fn conclusion(&self) -> String {
        let names = |verdict: Verdict| -> Vec<String> {
            let such = self.ratios.iter().filter(|ratio| self.verdict(ratio) == Some(verdict));
            such.map(|ratio| text::printable(&ratio.name())).collect()
        };
        match (self.outcome(), &self.failed) {
            (Outcome::CutShort, _) => "Not judged: cut short by an interrupt.".to_owned(),
            (Outcome::Busy, _) => format!("Not judged: {}", self.disturbed()),
            (Outcome::Failed, Some(Failed { what, why, .. })) => format!("Not judged: {what}: {why}."),
            (Outcome::Worse, _) => {
                let worse = format!("Worse: {}.", names(Verdict::Worse).join("; "));
                if self.is_busy() {
                    format!("{worse} The rest is not judged: {}", self.disturbed())
                } else {
                    worse
                }
            }
            _ => match names(Verdict::CannotTell) {
                open if open.is_empty() => "Passed.".to_owned(),
                open => {
                    format!("Passed: nothing is shown to be worse, but these may be: {}.", open.join("; "))
                }
            },
        }
    }

    /// The table, if it says anything, and what follows it, for a screen.
    pub fn terminal(&self, screen: Screen) -> String {
        let says_something = self.ratios.iter().any(|ratio| ratio.spreads() != [None, None]);
        let table = if says_something { self.table().terminal(screen) + "\n" } else { String::new() };
        let grown = self.grown.as_deref().map_or_else(String::new, grown::lines);
        format!("{table}{}\n{}", screen.fit(&self.text()), screen.fit(&grown))
    }

    /// What follows the table: how to read it, if it is judged, and what came out.
    fn text(&self) -> String {
        let explained = if self.outcome().is_judged() { self.explanation() + "\n" } else { String::new() };
        explained + &self.conclusion()
    }

    /// How to read the table.
    fn explanation(&self) -> String {
        let worse_by = self.asked.worse_by;
        let judged = || self.ratios.iter().filter(|ratio| self.verdict(ratio).is_some());
        let runs = judged().map(|ratio| ratio.candidate.len()).max().unwrap_or(0);
        let chances = judged().filter_map(|ratio| ratio.times_base);
        let chance = chances.map(|LikelyRatio { chance, .. }| chance).fold(0.0, f64::max);
        let odds = if chance * ODDS < 1.0 {
            format!("fewer than one of {ODDS}")
        } else {
            format!("{:.0} of 100", (100.0 * chance).ceil())
        };
        let mut text = format!(
            "{} each after a warm-up, interleaved: median (least to greatest). Times as good as base, for shares base over \
             candidate: median, and the range of what chance leaves open; the true ratio lies outside of it in {odds} comparisons. \
             Worse: all of the range is under {}, that is worse by more than {:.0} %; pass: all of it is above.",
            text::counted(runs as u64, "run"),
            text::short(least_times_base(worse_by)),
            100.0 * worse_by
        );
        if judged().any(|ratio| ratio.verdict == Verdict::CannotTell && ratio.times_base.is_some()) {
            text += " Cannot tell: the range holds both; more --runs make it narrower.";
        }
        if let Base::Profiles(profiles) = &self.asked.base {
            text +=
                " Not judged beside a stored profile: scaling, which takes runs of the base on this machine.";
            if profiles.len() == 1 {
                text += " One profile shows no range of the base's own: --against takes several.";
            }
        }
        text
    }

    /// Rows, every run's ratios and the noise meanwhile.
    pub fn json(&self) -> serde_json::Value {
        let words = |command: &[OsString]| -> Vec<String> {
            command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let (base, against) = match &self.asked.base {
            Base::Command(command) => (Some(words(command)), None),
            Base::Profiles(paths) => {
                (None, Some(paths.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>()))
            }
        };
        let values = |ratio: &Ratio| serde_json::json!({ "name": ratio.name(), "base": ratio.base, "candidate": ratio.candidate });
        let failed = |failed: &Failed| serde_json::json!({ "run": failed.what, "why": failed.why, "output_tail": failed.output_tail });
        serde_json::json!({
            "outcome": self.outcome().name(),
            "conclusion": self.conclusion(),
            "base": base,
            "against": against,
            "candidate": words(&self.asked.candidate),
            "threads": self.asked.threads,
            "runs": self.asked.runs,
            "metric": { "regex": self.asked.metric.regex(), "better": self.asked.metric.better() },
            "worse_by": self.asked.worse_by,
            "rows": self.table().json(),
            "values": self.ratios.iter().map(values).collect::<Vec<_>>(),
            "failed": self.failed.as_ref().map(failed),
            "grown": self.grown,
            "remarks": self.remarks,
            "noise": self.noise,
            "noise_limits": self.asked.noise_limits,
        })
    }

    /// The outcome and the table as Markdown: for the summary of a job.
    pub fn markdown(&self) -> String {
        let mut page = format!("### contend gate: {}\n\n", self.outcome().name());
        // The conclusion of what is judged has names of locks, which Markdown would read; the table has them, too.
        let words = if self.outcome().is_judged() { self.explanation() } else { self.conclusion() };
        page += &format!("{}\n{words}\n", self.table().markdown());
        if let Some(locks) = &self.grown {
            page += &format!("\n{}\n", grown::heading(locks));
            if !locks.is_empty() {
                page += &format!("\n{}", grown::table(locks).markdown());
            }
        }
        for remark in &self.remarks {
            page += &format!("\n{remark}\n");
        }
        page
    }

    /// JUnit's XML, with a test case for each ratio.
    pub fn junit(&self) -> String {
        junit::xml(self)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Kind, LEAST_RUNS, Side};
    use super::*;
    use crate::rounds::Metric;
    use crate::statistics::Better;
    use launch::Library;
    use profile::read::{Measures, SiteUse};
    use report::every_screen;
    use session::noise::Limits;
    use std::time::Duration;

    pub(in super::super) fn gated(ratios: Vec<Ratio>) -> Gated {
        let words = |program: &str| vec![program.into(), "--threads".into(), "{threads}".into()];
        Gated {
            asked: Gate {
                library: Library(&[]),
                contend: "contend".into(),
                base: Base::Command(words("old/server")),
                candidate: words("new/server"),
                threads: vec![1, 4],
                runs: LEAST_RUNS,
                metric: Metric::WallTime,
                per_thread: false,
                site: Some("cache".into()),
                operations: None,
                worse_by: 0.05,
                noise_limits: Limits::default(),
                time_limit: Duration::from_secs(60),
                keep: None,
            },
            ratios,
            failed: None,
            noise: Noise::default(),
            cut_short: false,
            remarks: Vec::new(),
            grown: None,
        }
    }

    /// A lock that is waited for in one function behind another.
    pub(in super::super) fn grown_lock(lock: &str) -> Grown {
        let measures = |waited_ns, held_ns| Measures { waited_ns, held_ns, ..Measures::default() };
        let site = |function: &str, waited_ns, behind_ns| SiteUse {
            function: function.into(),
            source: Some("/src/cache.cpp:88".into()),
            waits: 7,
            waited_ns,
            behind_ns,
            holds: 10,
            held_ns: 4.1e7,
            ..SiteUse::default()
        };
        Grown {
            lock: lock.into(),
            kind: "mutex",
            caller: "Cache::get".into(),
            source: Some("cache.cpp:41".into()),
            before: measures(1.2e6, 3e7),
            after: measures(9.7e7, 4.1e7),
            call_sites: vec![site("Cache::get", 9.6e7, 1e6), site("slow_rebalance", 1e6, 9.6e7)],
        }
    }

    pub(in super::super) fn ratio(kind: Kind, site: Option<&str>, [base, candidate]: [f64; 2]) -> Ratio {
        let around = |middle: f64| [0.99, 0.995, 1.0, 1.005, 1.01].map(|part| Some(part * middle)).to_vec();
        let better = if kind == Kind::Scaling { Better::Higher } else { Better::Lower };
        let sides = [around(base), around(candidate)];
        Ratio::judged(kind, site.map(str::to_owned), Some(4), sides, better, 0.05)
    }

    fn failed() -> Failed {
        let what = format!("{} on 4", Side::Candidate.name());
        Failed { what, why: "exit code 7 in round 2".into(), output_tail: "assertion".into() }
    }

    #[test]
    fn each_outcome_has_an_exit_code_of_its_own() {
        let worse = || gated(vec![ratio(Kind::Scaling, None, [3.0, 2.0])]);
        let busy = Noise { others_share: Some(0.5), ..Noise::default() };
        for (gated, code) in [
            (gated(vec![ratio(Kind::Scaling, None, [3.0, 3.0])]), 0),
            (gated(vec![ratio(Kind::Scaling, None, [3.0, 2.86])]), 0), // cannot tell
            (worse(), 1),
            (Gated { noise: busy, ..worse() }, 3),
            (Gated { noise: busy, failed: Some(failed()), ..worse() }, 4),
            (Gated { failed: Some(failed()), cut_short: true, ..worse() }, 130),
        ] {
            assert_eq!(gated.outcome().exit_code(), code, "{gated:?}");
            let judged = code <= 1;
            assert_eq!(gated.conclusion().starts_with("Not judged"), !judged, "{}", gated.conclusion());
            let verdict = &gated.json()["rows"][0]["verdict"];
            assert_eq!(verdict == "not judged", !judged, "{verdict}");
        }
    }

    #[test]
    fn what_load_does_not_explain_is_worse_on_a_busy_machine_too() {
        let busy = Noise { others_share: Some(0.5), ..Noise::default() };
        let of = |acquisitions| Gated {
            noise: busy,
            ..gated(vec![
                ratio(Kind::Scaling, None, [3.0, 2.0]),
                ratio(Kind::Acquisitions, None, [2.0, acquisitions]),
            ])
        };
        let worse = of(3.0);
        assert_eq!(worse.outcome(), Outcome::Worse);
        let said = worse.conclusion();
        let expected =
            "Worse: acquisitions per operation, 4 threads. The rest is not judged: other programs used 50 %";
        assert!(said.starts_with(expected), "{said}");
        let rows = &worse.json()["rows"];
        assert_eq!([&rows[0]["verdict"], &rows[1]["verdict"]], ["not judged", "worse"]);
        assert_eq!(of(2.0).outcome(), Outcome::Busy, "one ratio that passes is no answer");

        let mut stored = of(3.0);
        stored.asked.base = Base::Profiles(vec!["base.contend".into()]);
        assert_eq!(stored.outcome(), Outcome::Busy, "its load is not known");
        let allowed = Gate { noise_limits: Limits::all(0.5), ..gated(vec![]).asked };
        assert_eq!(Gated { asked: allowed, ..of(2.0) }.outcome(), Outcome::Worse, "scaling is");
    }

    #[test]
    fn a_busy_machine_is_the_only_reason_that_it_names() {
        let lacks =
            || Ratio::judged(Kind::ContendedShare, None, Some(4), [vec![], vec![]], Better::Lower, 0.05);
        assert_eq!(gated(vec![lacks()]).json()["rows"][0]["missing"], "base and candidate took no lock");
        let noise = Noise { others_share: Some(0.5), ..Noise::default() };
        let busy = Gated { noise, ..gated(vec![lacks()]) };
        assert!(busy.json()["rows"][0]["missing"].is_null(), "the rounds ended early");
    }

    #[test]
    fn what_cannot_be_told_passes_and_is_named() {
        let open = gated(vec![ratio(Kind::Scaling, None, [3.0, 2.86])]);
        let conclusion = open.conclusion();
        assert!(conclusion.contains("may be: scaling, 4 threads"), "{conclusion}");
        assert!(open.explanation().contains("more --runs"), "{}", open.explanation());
    }

    #[test]
    fn a_stored_profile_says_what_it_cannot() {
        let mut stored = gated(vec![ratio(Kind::HeldShare, Some("cache"), [0.3, 0.3])]);
        stored.asked.base = Base::Profiles(vec!["base.contend".into()]);
        let said = stored.explanation();
        assert!(
            said.contains("Not judged beside a stored profile: scaling") && said.contains("takes several")
        );
        assert_eq!(stored.json()["against"][0], "base.contend");
    }

    #[test]
    fn a_gate_on_every_screen() {
        let mut worse = gated(vec![
            ratio(Kind::Scaling, None, [3.21, 2.53]),
            ratio(Kind::ContendedShare, None, [0.101, 0.105]),
            ratio(Kind::HeldShare, Some("cache_lock"), [0.222, 0.268]),
            Ratio::judged(
                Kind::HeldShare,
                Some("table".into()),
                Some(4),
                [vec![], vec![]],
                Better::Lower,
                0.05,
            ),
        ]);
        worse.grown = Some(vec![grown_lock("cache_lock")]);
        let mut busy = gated(vec![ratio(Kind::Scaling, None, [3.0, 2.0])]);
        busy.noise.others_share = Some(0.25);
        let text = |screen: Screen| format!("{}\n{}", worse.terminal(screen), busy.terminal(screen));
        insta::assert_snapshot!(every_screen(&["cache_lock", "not judged"], text));
        insta::assert_snapshot!("markdown", worse.markdown());
        worse.grown = Some(Vec::new());
        let said = worse.terminal(Screen::FILE) + &worse.markdown();
        assert_eq!(said.matches("No lock costs more").count(), 2, "{said}");
    }
}
