//! The project's litmus suite against its published verdicts, and files that are no tests.

use std::path::{Path, PathBuf};

use contend_checker::Model;
use contend_checker::litmus::{Quantifier, Test, native};

fn suite() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/litmus")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(suite().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// File, model and verdict for every verdict that is published.
fn verdicts() -> Vec<(String, Model, String)> {
    let table = read("verdicts.csv");
    let mut verdicts = Vec::new();
    for line in table.lines().skip(1) {
        let mut fields = line.split(',');
        let file = fields.next().expect("a file").to_owned();
        for (model, verdict) in Model::ALL.into_iter().zip(fields) {
            if !verdict.is_empty() {
                verdicts.push((file.clone(), model, verdict.to_owned()));
            }
        }
    }
    verdicts
}

#[test]
fn every_published_verdict_holds() {
    let verdicts = verdicts();
    assert!(verdicts.len() > 100, "{} verdicts", verdicts.len());
    for (file, model, verdict) in verdicts {
        let test = Test::parse(&read(&file)).unwrap_or_else(|error| panic!("{file}:{error}"));
        let judged = test.judge(model);
        assert!(!judged.finals.bounded, "{file} {model}");
        assert_eq!(judged.is_allowed(), verdict == "Allowed", "{file} under {model}");
    }
}

#[test]
fn a_stronger_model_has_no_other_states() {
    let mut files = verdicts().into_iter().map(|(file, ..)| file).collect::<Vec<_>>();
    files.dedup();
    for file in files {
        let test = Test::parse(&read(&file)).expect("read above");
        let states = |model| test.judge(model).finals.states;
        assert!(states(Model::Sc).is_subset(&states(Model::Tso)), "{file}");
        assert!(states(Model::Tso).is_subset(&states(Model::Pso)), "{file}");
    }
}

#[test]
fn both_orders_of_operands_and_all_ways_of_initial_values_are_read() {
    let att = "X86_64 A\n\"doc\"\nGenerator=x\n{\nuint64_t y=0; uint64_t x; uint64_t 1:rax; 0:rbx=x; [z]=5;\n}\n P0 | P1 ;\n \
               movq $1,(%rbx) | movq (y),%rax ;\n movq $1,(y) | movq (x),%rcx ;\n\
               locations [x; 1:rax;]\nfilter (1:rax=1)\nforall (1:rcx=1 /\\ [z]=5)";
    let test = Test::parse(att).expect("AT&T");
    assert_eq!(test.quantifier, Quantifier::Forall);
    assert!(test.judge(Model::Tso).satisfies(Quantifier::Forall));
    assert!(!test.judge(Model::Pso).satisfies(Quantifier::Forall));
    let intel = "X86 B\n{ x=0; 0:EAX=1; }\n P0;\n LOCK XADD [x],EAX;\n LOCK DEC [x] ;\n XCHG EAX,[x];\n\
                 ~exists ~(0:EAX=0 \\/ x=-1)";
    assert!(Test::parse(intel).expect("Intel").judge(Model::Sc).satisfies(Quantifier::NotExists));
}

#[test]
fn a_file_that_cannot_be_read_names_its_line_and_column() {
    let place = |text: &str| {
        let error = Test::parse(text).expect_err(text);
        (error.at.line, error.at.column, error.message)
    };
    let (line, column, message) =
        place("X86 A\n{ x=0; }\n P0 | P1 ;\n MOV [x],$1 | FROB EAX ;\nexists (x=1)");
    assert_eq!((line, column), (4, 15), "{message}");
    assert!(message.contains("FROB"), "{message}");
    let (line, _, message) = place("X86 A\n{ }\n P0 ;\n L1: ;\n JMP L1 ;\nexists (x=1)");
    assert_eq!(line, 4, "{message}");
    assert_eq!(place("AArch64 A\n{}\n P0 ;\nexists (x=1)").0, 1);
    assert_eq!(place("X86 A\n{ x=0; }\n P0 ;\n MOV [x],$1 ;\nexists (7:EAX=1)").0, 5);
    assert_eq!(place("C A\n{ }\nP0 (int* x) {\n  frob(x);\n}\nexists (x=1)").0, 4);
    assert_eq!(place("").0, 1);
}

#[test]
fn no_beginning_of_a_test_makes_the_reader_panic() {
    for file in ["n7.litmus", "C-MP-fences.litmus", "C-wait.litmus", "SB+other-xadd.litmus"] {
        let text = read(file);
        for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
            let _ = Test::parse(&text[..end]);
            // Something foreign in the middle is no reason either.
            let _ = Test::parse(&format!("{}\u{1f512}((({}", &text[..end], &text[end..]));
        }
    }
    let _ = Test::parse(&format!("X86 A\n{{ }}\n P0 ;\nexists {}", "~(".repeat(100_000)));
    let _ = Test::parse(&format!("C A\n{{ }}\nP0 () {{ int a = {}1; }}", "(".repeat(100_000)));
    let _ = Test::parse(&format!("X86 A\n{}", "(*".repeat(100_000)));
}

#[test]
fn what_the_processor_does_is_what_its_model_allows() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    for file in ["SB.litmus", "SB+mfences.litmus", "n6.litmus", "xadd-atomic.litmus"] {
        let test = Test::parse(&read(file)).expect("of the suite");
        let allowed = test.judge(Model::Tso).finals.states;
        let outcomes = native::run(&test, 5_000, 7).expect("no pointers");
        assert!(outcomes.values().sum::<u64>() >= 5_000, "{file}");
        assert!(outcomes.keys().all(|end| allowed.contains(end)), "{file}: {outcomes:?}");
    }
}
