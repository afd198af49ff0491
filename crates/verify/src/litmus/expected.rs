//! Published verdicts to compare with: herd's `kinds.txt` and logs, tables, and what `contend litmus --json` prints.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, bail};
use checker::Model;
use checker::litmus::{Judgement, Quantifier};
use serde_json::Value;

use super::files;

/// A file is not read beyond this.
const MOST_BYTES: u64 = 256 << 20;

/// What is expected of a test under a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Whether some execution ends in a state that the condition describes.
    Allowed(bool),
    /// Whether what the test's quantifier says of the condition is true: of `~exists` the opposite.
    Holds(bool),
}

impl Verdict {
    /// Whether the judgement is the expected one; none when it is not certain.
    #[must_use]
    pub fn agrees(self, judgement: &Judgement, quantifier: Quantifier) -> Option<bool> {
        match self {
            Self::Allowed(allowed) => judgement.is_decided().then(|| judgement.is_allowed() == allowed),
            Self::Holds(holds) => judgement.satisfies(quantifier).map(|satisfied| satisfied == holds),
        }
    }

    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed(true) => "Allowed",
            Self::Allowed(false) => "Forbidden",
            Self::Holds(true) => "Holds",
            Self::Holds(false) => "Fails",
        }
    }
}

/// What is expected of tests, by name and model.
#[derive(Debug, Default)]
pub struct Expected {
    verdicts: HashMap<String, Vec<(Model, Verdict)>>,
}

impl Expected {
    /// Reads a file. Verdicts that name no model are of `model`.
    pub fn read(path: &Path, model: Model) -> anyhow::Result<Self> {
        let text = files::read(path, MOST_BYTES, "a table of verdicts")?;
        let expected = Self::parse(&text, model)
            .with_context(|| format!("{}: cannot be read as verdicts", path.display()))?;
        if expected.verdicts.is_empty() {
            bail!(
                "{}: holds no verdict; expected lines `NAME Allowed` or `NAME Forbidden`, lines `FILE,1` or `FILE,0` for a \
                 condition that holds or fails, a log of herd, a table whose first line names its columns, or JSON",
                path.display()
            );
        }
        Ok(expected)
    }

    fn parse(text: &str, model: Model) -> anyhow::Result<Self> {
        let mut expected = Self::default();
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
        if first.trim_start().starts_with(['[', '{']) {
            expected.json(&serde_json::from_str(text)?, model);
        } else if text.lines().any(|line| line.starts_with("Observation ")) {
            expected.log(text, model);
        } else if first.contains([',', '\t', ';']) && is_heading(first) {
            expected.table(text, model)?;
        } else {
            expected.kinds(text, model);
        }
        Ok(expected)
    }

    fn add(&mut self, name: &str, model: Model, allowed: bool) {
        self.add_verdict(name, model, Verdict::Allowed(allowed));
    }

    fn add_verdict(&mut self, name: &str, model: Model, verdict: Verdict) {
        let verdicts = self.verdicts.entry(key(name)).or_default();
        verdicts.retain(|(known, _)| *known != model);
        verdicts.push((model, verdict));
    }

    /// `NAME Allowed`, a test a line, or `FILE,1`, where 1 says that the test's condition with its quantifier holds.
    fn kinds(&mut self, text: &str, model: Model) {
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or("").split([' ', '\t', ',', ';']);
            let mut words = words.by_ref().map(|word| word.trim_matches('"')).filter(|word| !word.is_empty());
            let Some(name) = words.next() else { continue };
            let words = words.collect::<Vec<_>>();
            if let Some(allowed) = words.iter().find_map(|word| verdict(word)) {
                self.add(name, model, allowed);
            } else if let ["0" | "1", ..] = words[..] {
                self.add_verdict(name, model, Verdict::Holds(words[0] == "1"));
            }
        }
    }

    /// `Observation NAME Sometimes 1 3`, as herd and litmus print it for every test.
    fn log(&mut self, text: &str, model: Model) {
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("Observation ") else { continue };
            let words = rest.split_whitespace().collect::<Vec<_>>();
            let Some(at) = words.iter().position(|word| matches!(*word, "Never" | "Sometimes" | "Always"))
            else {
                continue;
            };
            self.add(&words[..at].join(" "), model, words[at] != "Never");
        }
    }

    fn table(&mut self, text: &str, model: Model) -> anyhow::Result<()> {
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
        let delimiter =
            *[b',', b'\t', b';'].iter().find(|&&sign| first.as_bytes().contains(&sign)).unwrap_or(&b',');
        let mut reader =
            csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(text.as_bytes());
        let headings =
            reader.headers()?.iter().map(|heading| heading.trim().to_lowercase()).collect::<Vec<_>>();
        for record in reader.records() {
            let record = record?;
            let Some(name) = record.get(0) else { continue };
            for (heading, field) in headings.iter().zip(&record).skip(1) {
                let of = model_of(heading).or_else(|| is_verdict_heading(heading).then_some(model));
                if let (Some(of), Some(allowed)) = (of, verdict(field)) {
                    self.add(name, of, allowed);
                }
            }
        }
        Ok(())
    }

    /// An array of objects with a name and a verdict or `models`, or an object from names to verdicts.
    fn json(&mut self, value: &Value, model: Model) {
        match value {
            Value::Array(tests) => tests.iter().for_each(|test| {
                let name = ["name", "test", "file"].iter().find_map(|key| test[key].as_str());
                if let Some(name) = name {
                    self.verdict_in(name, test, model);
                }
            }),
            Value::Object(tests) if tests.contains_key("tests") => self.json(&tests["tests"], model),
            Value::Object(tests) => {
                tests.iter().for_each(|(name, test)| self.verdict_in(name, test, model));
            }
            _ => {}
        }
    }

    fn verdict_in(&mut self, name: &str, test: &Value, model: Model) {
        let direct = test.as_str().or_else(|| {
            ["verdict", "expected", "kind", "result", "observation"].iter().find_map(|key| test[key].as_str())
        });
        if let Some(allowed) = direct.and_then(verdict) {
            self.add(name, model, allowed);
        }
        for (of, said) in test["models"].as_object().into_iter().flatten() {
            let said = said.as_str().or_else(|| said["verdict"].as_str());
            if let (Ok(of), Some(allowed)) = (of.parse(), said.and_then(verdict)) {
                self.add(name, of, allowed);
            }
        }
    }

    /// What is expected of the test, by its name or its file's.
    pub fn of(&self, name: &str, file: &Path, model: Model) -> Option<Verdict> {
        let stem = file.file_stem().map(|stem| stem.to_string_lossy());
        let verdicts =
            self.verdicts.get(name.trim()).or_else(|| self.verdicts.get(stem.as_deref().unwrap_or("")))?;
        verdicts.iter().find(|(of, _)| *of == model).map(|(_, verdict)| *verdict)
    }

    /// How many tests it speaks of.
    pub fn tests(&self) -> usize {
        self.verdicts.len()
    }
}

/// A test's name without the directory and the ending that a table may give it.
fn key(name: &str) -> String {
    let name = name.trim();
    match name.strip_suffix(".litmus") {
        Some(file) => file.rsplit('/').next().unwrap_or(file).to_owned(),
        None => name.to_owned(),
    }
}

fn is_heading(line: &str) -> bool {
    let fields = line.split([',', '\t', ';']).map(|field| field.trim().to_lowercase());
    fields.skip(1).any(|field| model_of(&field).is_some() || is_verdict_heading(&field))
}

/// The model that a heading names: x86 processors have TSO.
fn model_of(heading: &str) -> Option<Model> {
    match heading {
        "x86" | "x86-tso" | "x86tso" => Some(Model::Tso),
        _ => heading.parse().ok(),
    }
}

fn is_verdict_heading(heading: &str) -> bool {
    matches!(heading, "verdict" | "expected" | "kind" | "result" | "observation")
}

/// Whether the word says allowed or forbidden; other words, such as `Required`, say neither.
fn verdict(word: &str) -> Option<bool> {
    match word.trim().to_lowercase().as_str() {
        "allowed" | "allow" | "sometimes" | "always" => Some(true),
        "forbidden" | "forbid" | "never" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, name: &str) -> Option<Verdict> {
        let expected = Expected::parse(text, Model::Tso).expect("readable");
        expected.of(name, Path::new(&format!("some/{name}.litmus")), Model::Tso)
    }

    #[test]
    fn every_form_of_verdicts_is_read() {
        for text in [
            "# kinds\nSB Allowed\nMP\t\t  Forbid\n",
            "Test SB Allowed\nStates 4\nOk\nObservation SB Sometimes 1 3\n\nTest MP Allowed\nObservation MP Never 0 3\n",
            "file,sc,tso\nx/SB.litmus,Forbidden,Allowed\nMP.litmus,Forbidden,Forbidden\n",
            "name\tverdict\nSB\tAllow\nMP\tForbid\n",
            "x/SB.litmus,Allowed\n\"MP\",Forbidden\n",
            r#"[{"name":"SB","models":{"tso":{"verdict":"Allowed"}}},{"name":"MP","verdict":"Never"}]"#,
            r#"{"SB":"Allowed","MP":{"expected":"Forbidden"}}"#,
        ] {
            assert_eq!(
                (of(text, "SB"), of(text, "MP"), of(text, "R")),
                (Some(Verdict::Allowed(true)), Some(Verdict::Allowed(false)), None),
                "{text}"
            );
        }
    }

    #[test]
    fn a_table_without_a_heading_says_whether_conditions_hold() {
        let text = "litmus/X86/SB.litmus,1\nlitmus/X86/MP+po+po.litmus,0\n";
        assert_eq!(of(text, "SB"), Some(Verdict::Holds(true)));
        assert_eq!(of(text, "MP+po+po"), Some(Verdict::Holds(false)));
        let test = |quantifier| {
            let text = format!("X86 A\n{{ }}\n P0 ;\n MOV [x],$1 ;\n{quantifier} (x=1)");
            checker::litmus::Test::parse(&text).expect("a test")
        };
        for (quantifier, holds) in [("exists", true), ("~exists", false), ("forall", true)] {
            let test = test(quantifier);
            let judgement = test.judge(Model::Tso);
            assert_eq!(Verdict::Holds(holds).agrees(&judgement, test.quantifier), Some(true), "{quantifier}");
            assert_eq!(
                Verdict::Holds(!holds).agrees(&judgement, test.quantifier),
                Some(false),
                "{quantifier}"
            );
        }
    }

    #[test]
    fn what_is_no_table_of_verdicts_is_an_error() {
        assert!(Expected::parse("[1, 2", Model::Tso).is_err());
        for text in ["", "\0\0", "SB Required", "[]", "3"] {
            assert_eq!(
                Expected::parse(text, Model::Tso).map_or(0, |expected| expected.tests()),
                0,
                "{text:?}"
            );
        }
    }
}
