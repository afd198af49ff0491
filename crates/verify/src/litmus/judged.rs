//! Files of litmus tests, judged under the memory models that are asked for, and how many came out how.

use std::path::Path;
use std::time::Duration;

use checker::Model;
use checker::litmus::{Limits, ParseError, Test, Trouble};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::{Expected, TestOutcome, Weakness, files};

/// A file that is no text worth reading is not read whole.
const MOST_BYTES: u64 = 1 << 20;

/// What is wanted of every file.
pub struct Job {
    /// The models that are asked.
    pub models: Vec<Model>,
    /// How far executions are followed.
    pub limits: Limits,
    /// Published verdicts.
    pub expected: Option<Expected>,
    /// How often each test is run on this processor; none where it is not.
    pub iterations: Option<u64>,
}

impl Job {
    /// Files that are judged side by side before any of them is printed.
    pub const BATCH: usize = 64;

    /// Judges files side by side; one at a time where they are run, since the processor is what is tested then. Calls `done` after each.
    pub fn judge_all<'a>(
        &self,
        files: &'a [std::path::PathBuf],
        done: impl Fn() + Sync,
    ) -> Vec<anyhow::Result<TestOutcome<'a>>> {
        let judge = |file: &'a std::path::PathBuf| {
            let outcome = self.judge(file);
            done();
            outcome
        };
        match self.iterations {
            Some(_) => files.iter().map(judge).collect(),
            None => files.par_iter().map(judge).collect(),
        }
    }

    /// Judges one file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read; a [`ParseError`] where it is no litmus test, or uses what is not supported.
    pub fn judge<'a>(&self, file: &'a Path) -> anyhow::Result<TestOutcome<'a>> {
        let text = files::read(file, MOST_BYTES, "a litmus test")?;
        let named = |error: ParseError| anyhow::Error::new(error).context(file.display().to_string());
        let test = Test::parse(&text).map_err(named)?;
        let judge = |&model: &Model| test.judge_within(model, &self.limits);
        let judgements = self.models.iter().map(judge).collect::<Vec<_>>();
        if let Some(fault) = judgements.iter().find_map(|judgement| judgement.finals.fault) {
            return Err(named(test.explain(&fault)));
        }
        let mut outcome = TestOutcome::new(file, test, judgements, self.expected.as_ref());
        if let Some(iterations) = self.iterations {
            outcome.run(iterations, &self.limits).map_err(named)?;
        }
        Ok(outcome)
    }
}

/// What is wrong with a file, for scripts.
pub fn error_json(error: &anyhow::Error) -> Value {
    match error.downcast_ref::<ParseError>() {
        Some(parse) => json!({
            "kind": if parse.trouble == Trouble::Unsupported { "refused" } else { "malformed" },
            "line": parse.at.line,
            "column": parse.at.column,
            "message": parse.message,
        }),
        None => json!({ "kind": "unreadable", "message": format!("{error:#}") }),
    }
}

/// How many tests came out how.
#[derive(Debug, Default)]
pub struct Summary {
    tests: usize,
    bounded: usize,
    refused: usize,
    unreadable: usize,
    agreeing: usize,
    compared: usize,
    /// Tests that were judged, and of these those that a verdict is expected of.
    judged: usize,
    expected: usize,
    /// Tests that were run on a processor that may do what threads that take turns cannot, and of these those that did.
    could_be_weak: usize,
    weak: usize,
    failed: bool,
}

impl Summary {
    /// Counts what came of one file.
    pub fn add(&mut self, result: &anyhow::Result<TestOutcome<'_>>) {
        self.tests += 1;
        match result {
            Ok(outcome) => {
                self.bounded += usize::from(!outcome.is_decided());
                self.judged += 1;
                self.expected += usize::from(outcome.is_expected());
                let (agreeing, compared) = outcome.agreement();
                self.agreeing += agreeing;
                self.compared += compared;
                self.could_be_weak +=
                    usize::from(!matches!(outcome.weakness(), None | Some(Weakness::NotTested)));
                self.weak += usize::from(outcome.weakness() == Some(Weakness::Seen));
                self.failed |= outcome.is_failed();
            }
            Err(error) => match error.downcast_ref::<ParseError>().map(|parse| parse.trouble) {
                Some(Trouble::Unsupported) => self.refused += 1,
                _ => self.unreadable += 1,
            },
        }
    }

    /// The counts in a sentence or two.
    pub fn text(&self, expected: Option<&Expected>, elapsed: Duration) -> String {
        let decided = self.tests - self.bounded - self.refused - self.unreadable;
        let mut text = format!("{} tests: {decided} decided", self.tests);
        for (count, what) in
            [(self.bounded, "bounds"), (self.refused, "refused"), (self.unreadable, "no litmus tests")]
        {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        if let Some(expected) = expected {
            let (agreeing, compared) = (self.agreeing, self.compared);
            text += &format!(
                "; {agreeing} of {compared} verdicts as expected, of {} tests named",
                expected.tests()
            );
        }
        text += &format!("; {:.2} s\n", elapsed.as_secs_f64());
        if self.could_be_weak > 0 && self.weak == 0 {
            let tests = self.could_be_weak;
            text += &format!(
                "Tests in which this processor may do something weak: {tests}; it did so in none.\n"
            );
        }
        text
    }

    /// Whether tests were judged and a verdict is expected of none of them: the table of verdicts is another suite's.
    pub const fn expects_nothing(&self) -> bool {
        self.judged > 0 && self.expected == 0
    }

    /// What `contend litmus` exits with: 1 if a verdict is not the expected one or the processor did what its model
    /// forbids, else 2 if a file is no litmus test, else 3 if one uses what is not supported.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self { failed: true, .. } => 1,
            Self { unreadable: 1.., .. } => 2,
            Self { refused: 1.., .. } => 3,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::every_screen;

    /// What comes of judging files with these contents, and expecting these verdicts.
    fn sum_of(files: &[&str], expected: &str) -> Summary {
        let directory = tempfile::tempdir().expect("a directory");
        let table = directory.path().join("kinds.txt");
        std::fs::write(&table, expected).expect("a file");
        let job = Job {
            models: vec![Model::Tso],
            limits: Limits::default(),
            expected: Some(Expected::read(&table, Model::Tso).expect("verdicts")),
            iterations: None,
        };
        let mut sum = Summary::default();
        for (number, text) in files.iter().enumerate() {
            let file = directory.path().join(format!("{number}.litmus"));
            std::fs::write(&file, text).expect("a file");
            sum.add(&job.judge(&file));
        }
        sum
    }

    const RIGHT: &str = "X86 A\n{ }\n P0 ;\n MOV [x],$1 ;\nexists (x=1)";
    const REFUSED: &str = "PPC A\n{ }\n P0 ;\nexists (x=1)";
    const BROKEN: &str = "X86 A\n{ ";
    const ENDLESS: &str = "X86 A\n{ x=0; }\n P0 ;\n L0: INC EAX ;\n JMP L0 ;\nexists (x=1)";

    #[test]
    fn the_exit_status_tells_wrong_from_broken_from_refused() {
        let status = |files: &[&str], expected: &str| sum_of(files, expected).exit_status();
        assert_eq!(status(&[RIGHT], "A Allowed"), 0);
        assert_eq!(status(&[RIGHT, REFUSED, BROKEN], "A Forbidden"), 1);
        assert_eq!(status(&[RIGHT, REFUSED, BROKEN], "A Allowed"), 2);
        assert_eq!(status(&[RIGHT, REFUSED], "A Allowed"), 3);
    }

    #[test]
    fn a_table_of_verdicts_of_other_tests_is_known_as_one() {
        assert!(sum_of(&[RIGHT], "B Allowed").expects_nothing());
        assert!(!sum_of(&[RIGHT], "A Forbidden").expects_nothing());
        assert!(!sum_of(&[RIGHT, ENDLESS.replace('A', "B").as_str()], "B Forbidden").expects_nothing());
        // Nothing was judged: what is wrong is with the tests.
        assert!(!sum_of(&[REFUSED, BROKEN], "B Allowed").expects_nothing());
    }

    #[test]
    fn every_test_is_counted_as_one_of_decided_bound_refused_and_none() {
        let sum = sum_of(&[RIGHT, ENDLESS, REFUSED, BROKEN], "A Allowed\nB Forbidden");
        let text = sum.text(None, Duration::from_millis(1_500));
        assert_eq!(text, "4 tests: 1 decided, 1 bounds, 1 refused, 1 no litmus tests; 1.50 s\n");
        // The bound says nothing about what it did not see.
        assert_eq!((sum.agreeing, sum.compared), (1, 1));
    }

    #[test]
    fn outcomes_on_every_screen() {
        const STORE_BUFFERING: &str = "X86 SB\n{ }\n P0 | P1 ;\n MOV [x],$1 | MOV [y],$1 ;\n MOV EAX,[y] | MOV EAX,[x] ;\nexists (0:EAX=0 /\\ 1:EAX=0)";
        let test = Test::parse(STORE_BUFFERING).expect("a test");
        let judgements = Model::ALL.map(|model| test.judge(model)).to_vec();
        let outcome = TestOutcome::new(Path::new("suite/SB.litmus"), test, judgements, None);
        let sum = Summary {
            tests: 4,
            bounded: 1,
            refused: 1,
            unreadable: 1,
            could_be_weak: 2,
            ..Summary::default()
        };
        let text = outcome.text(true) + &sum.text(None, Duration::from_millis(1_500));
        insta::assert_snapshot!(every_screen(&["SB (suite/SB.litmus)"], |screen| screen.fit(&text)));
    }
}
