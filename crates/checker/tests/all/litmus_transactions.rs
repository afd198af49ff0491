//! Litmus tests with transactions: their verdicts elsewhere than in the table of all tests, and what each verdict hangs on.

use crate::common;
use crate::operational;

use contend_checker::Model;
use contend_checker::litmus::program::{
    Cell, Expression, Fault, FaultKind, Number, Operator, Program, Step, Update, Width,
};
use contend_checker::litmus::{Test, Trouble, native};
use machine::Ordering;
use machine::Ordering::{Relaxed, SeqCst};

/// The project's tests that have transactions, with the names of their files.
fn suite() -> Vec<(String, Test)> {
    let suite = common::suite()
        .into_iter()
        .filter(|(_, text)| text.contains("atomic {"))
        .map(|(file, text)| {
            let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, Test::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())))
        })
        .collect::<Vec<_>>();
    assert!(suite.len() >= 20, "{} tests", suite.len());
    suite
}

/// The tests that are forbidden under the model and allowed when their transactions are something else.
fn freed(model: Model, weaken: impl Fn(&Program) -> Program) -> Vec<String> {
    let is_freed = |(name, test): (String, Test)| {
        let weak = Test { program: weaken(&test.program), ..test.clone() };
        let (strong, weak) = (test.judge(model), weak.judge(model));
        assert!(!strong.finals.bounded && !weak.finals.bounded, "{name}");
        (weak.is_allowed() && !strong.is_allowed()).then_some(name)
    };
    suite().into_iter().filter_map(is_freed).collect()
}

/// Fences where transactions begin and commit, and nothing else. One that aborts does so at its end, and what it has stored
/// stays.
fn fences_alone(program: &Program, ordering: Ordering) -> Program {
    let mut program = program.clone();
    for steps in &mut program.threads {
        let mut may_abort = None;
        for step in steps {
            match step {
                Step::Begin { aborted } => {
                    may_abort = *aborted;
                    *step = Step::Fence(ordering);
                }
                Step::Commit => {
                    *step = may_abort.map_or(Step::Fence(ordering), |to| Step::Begin { aborted: Some(to) });
                }
                _ => {}
            }
        }
    }
    program
}

/// One lock for all transactions, which accesses outside of them do not heed: weak isolation.
fn one_lock(program: &Program) -> Program {
    let mut program = program.clone();
    let end =
        program.cells.iter().map(|cell| cell.address + cell.holds.width().bytes()).max().expect("locations");
    let lock = Cell { address: end + 64, holds: Number::Signed(Width::Long) };
    program.cells.push(lock);
    program.memory.push(0);
    for thread in 0..program.threads.len() {
        let wrote = program.registers[thread].len();
        program.registers[thread].extend([0, 0]);
        program.scratch[thread].extend([wrote, wrote + 1]);
        let steps = std::mem::take(&mut program.threads[thread]);
        // Two steps stand for the one that begins a transaction.
        let begins =
            |before: usize| steps[..before].iter().filter(|step| matches!(step, Step::Begin { .. })).count();
        program.threads[thread] = steps
            .iter()
            .enumerate()
            .flat_map(|(number, step)| match step {
                Step::Begin { .. } => acquire(lock, wrote, number + begins(number)),
                Step::Commit => vec![Step::Store {
                    address: Expression::Constant(lock.address),
                    value: Expression::Constant(0),
                    width: lock.holds.width(),
                    ordering: Some(SeqCst),
                }],
                Step::Jump { when, to } => vec![Step::Jump { when: when.clone(), to: to + begins(*to) }],
                other => vec![other.clone()],
            })
            .collect();
    }
    program
}

/// Tries to take the lock until it succeeds, from a step of this number on.
fn acquire(lock: Cell, wrote: usize, number: usize) -> Vec<Step> {
    let exchange = Step::ReadModifyWrite {
        found: wrote + 1,
        wrote: Some(wrote),
        address: Expression::Constant(lock.address),
        update: Update::CompareExchange { expected: Expression::Constant(0), failure: SeqCst },
        value: Expression::Constant(1),
        width: lock.holds.width(),
        ordering: SeqCst,
    };
    let failed = Expression::binary(Operator::Equal, Expression::Register(wrote), Expression::Constant(0));
    vec![exchange, Step::Jump { when: failed, to: number }]
}

/// The tests that speak of accesses outside of transactions: that those do not come between is strong isolation.
const OF_STRONG_ISOLATION: [&str; 6] = [
    "C-MP+txn-rel+acq", "C-txn-containment", "C-txn-lost-store", "C-txn-non-interference",
    "C-txn-own-effect", "C-txn-repeatable-read",
];

#[test]
fn strong_isolation_is_more_than_one_lock_for_all_transactions() {
    for model in Model::ALL {
        let mut expected = OF_STRONG_ISOLATION.to_vec();
        // Under release-acquire these two are allowed in any case.
        match model {
            Model::Sc | Model::Tso => expected.push("C-txn-elision"),
            Model::Pso => expected.extend(["C-MP+txn+po", "C-txn-elision"]),
            Model::Ra => {}
        }
        expected.sort_unstable();
        assert_eq!(freed(model, one_lock), expected, "{model}");
    }
}

#[test]
fn isolation_is_more_than_fences() {
    let everywhere = ["C-txn-aborted", "C-txn-lost-update", "C-txn-privatisation"];
    for (model, others) in [
        (Model::Sc, &["C-txn-elision"][..]),
        (Model::Tso, &["C-txn-elision", "C-SB+txns"]),
        (Model::Pso, &["C-txn-elision", "C-SB+txns", "C-MP+txn+po", "C-MP+txns", "C-2+2W+txns"]),
        (Model::Ra, &["C-SB+txns", "C-MP+txns", "C-2+2W+txns", "C-IRIW+txns", "C-WRC+txns"]),
    ] {
        let mut expected = [&OF_STRONG_ISOLATION[..], &everywhere, others].concat();
        expected.sort_unstable();
        assert_eq!(freed(model, |program| fences_alone(program, SeqCst)), expected, "{model}");
    }
}

#[test]
fn transactions_order_what_is_around_them() {
    let by_order = |model| {
        let mut names = freed(model, |program| fences_alone(program, Relaxed));
        let with_fences = freed(model, |program| fences_alone(program, SeqCst));
        names.retain(|name| !with_fences.contains(name));
        names
    };
    assert_eq!(by_order(Model::Sc), [""; 0]);
    assert_eq!(by_order(Model::Tso), ["C-SB+txn-reads", "C-txn-reads"]);
    assert_eq!(by_order(Model::Pso), ["C-SB+txn-reads", "C-txn-publication", "C-txn-reads"]);
    assert_eq!(by_order(Model::Ra), ["C-SB+sc-txns", "C-txn-publication"]);
}

#[test]
fn the_suite_ends_as_on_a_machine_that_takes_transactions_in_one_step() {
    for (name, test) in suite() {
        for (model, buffered) in [(Model::Sc, false), (Model::Tso, true)] {
            let expected = operational::finals(&test.program, buffered);
            assert_eq!(test.program.explore(model).states, expected, "{name} under {model}");
        }
    }
}

fn c(threads: &str, condition: &str) -> Test {
    let text = format!("C A\n{{ x = 0; y = 0; }}\n{threads}\nexists ({condition})");
    Test::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn plain_accesses_race_unless_both_are_in_transactions() {
    let race = |threads: &str| {
        let test = c(threads, "x=1");
        Model::ALL.map(|model| test.judge(model).finals.race)
    };
    let inside = "P0 (int* x) { atomic { *x = 1; } }\nP1 (int* x) { atomic { int r0 = *x; } }";
    assert_eq!(race(inside), [false; 4]);
    let outside = "P0 (int* x) { atomic { *x = 1; } }\nP1 (int* x) { int r0 = *x; }";
    assert_eq!(race(outside), [true; 4]);
    for (name, test) in suite() {
        let races = Model::ALL.map(|model| test.judge(model).finals.race);
        assert_eq!(races, [false; 4], "{name}");
    }
}

#[test]
fn a_transaction_that_aborts_leaves_no_trace_and_may_be_tried_again() {
    let once = "P0 (int* x, int* y) { int r0 = 5; atomic { r0 = *y; *x = 1; } aborted { r0 = 7; } }";
    for model in Model::ALL {
        let ends = |condition: &str| c(once, condition).judge(model).holding;
        assert_eq!((ends("0:r0=0 /\\ x=1"), ends("0:r0=7 /\\ x=0")), (1, 1), "{model}");
        assert_eq!(c(once, "true").judge(model).finals.states.len(), 2, "{model}");
        let again = c(
            "P0 (int* x) { do { int r0 = 0; atomic { x[0] = x[0] + 1; r0 = 1; } aborted { continue; } } while (r0 == 0); }\n\
             P1 (int* x) { atomic { x[0] = x[0] + 1; } }",
            "x=2",
        );
        let judged = again.judge(model);
        assert!(!judged.finals.bounded, "{model}");
        assert_eq!((judged.holding, judged.others), (1, 0), "{model}");
    }
}

#[test]
fn a_transaction_waits_only_for_what_is_there_when_it_begins() {
    let inside = "P0 (int* x, int* y) { atomic { *y = 1; while (*x == 0) { } } }\n";
    let in_turn = c(&format!("{inside}P1 (int* x, int* y) {{ *x = 1; int r0 = *y; }}"), "1:r0=1");
    let waiting_for_each_other =
        c(&format!("{inside}P1 (int* x, int* y) {{ while (*y == 0) {{ }} *x = 1; }}"), "true");
    for model in Model::ALL {
        assert!(in_turn.judge(model).is_allowed(), "{model}");
        assert!(waiting_for_each_other.judge(model).finals.states.is_empty(), "{model}");
    }
}

#[test]
fn a_block_within_another_is_a_part_of_it() {
    let nested = "P0 (int* x) { atomic { *x = 1; atomic { *x = 2; } *x = 3; } aborted { *x = 9; } }\n\
                  P1 (int* x) { int r0 = *x; }";
    let flat = "P0 (int* x) { atomic { *x = 1; *x = 2; *x = 3; } aborted { *x = 9; } }\n\
                P1 (int* x) { int r0 = *x; }";
    let (nested, flat) = (c(nested, "1:r0=2 \\/ 1:r0=1"), c(flat, "true"));
    assert_eq!(nested.program, flat.program);
    // As steps, by a caller that builds a program without text.
    let mut by_steps = flat.program.clone();
    by_steps.threads[0]
        .splice(2..3, [Step::Begin { aborted: None }, flat.program.threads[0][2].clone(), Step::Commit]);
    for step in &mut by_steps.threads[0] {
        match step {
            Step::Begin { aborted: Some(to) } | Step::Jump { to, .. } => *to += 2,
            _ => {}
        }
    }
    for model in Model::ALL {
        assert!(!nested.judge(model).is_allowed(), "{model}");
        assert_eq!(by_steps.explore(model).states, flat.program.explore(model).states, "{model}");
    }
}

#[test]
fn transactions_without_end_or_beginning_are_no_executions() {
    let program = c("P0 (int* x) { atomic { *x = 1; } }", "true").program;
    let without = |step: usize| {
        let mut program = program.clone();
        program.threads[0].remove(step);
        program.explore(Model::Sc)
    };
    assert!(without(2).states.is_empty());
    let fault = Fault { thread: 0, step: 1, address: 0, kind: FaultKind::CommitAlone };
    assert_eq!(without(0).fault, Some(fault));
}

#[test]
fn this_processor_is_not_asked_to_run_transactions() {
    let test = c("P0 (int* x) { *x = 1; }\nP1 (int* x) {\n  atomic { int r0 = *x; }\n}", "true");
    let fault = native::run(&test, 100, 1, None).expect_err("no transactions");
    assert_eq!((fault.thread, fault.kind), (1, FaultKind::Transaction));
    assert_eq!(test.explain(&fault).at.line, 5);
}

#[test]
fn what_is_wrong_with_a_block_is_said_with_its_place() {
    for (body, trouble, line, said) in [
        ("atomic {\n*x = 1;", Trouble::Malformed, 7, "expected `}` for the `{` at 3:13, found `exists`"),
        ("atomic {\n*x = 1; }\n}", Trouble::Malformed, 7, "expected `P1`"),
        ("atomic\nif (*x) { *x = 1; }", Trouble::Malformed, 5, "expected `{`, found `if`"),
        ("atomic\n", Trouble::Malformed, 6, "expected `{`, found `}`"),
        ("atomic { *x = 1; } else { *x = 2; }", Trouble::Malformed, 4, "no `if` for this `else`"),
        ("atomic {\natomic { *x = 1; }\naborted { *x = 2; } }", Trouble::Unsupported, 6, "part of it"),
        ("aborted { *x = 1; }", Trouble::Malformed, 4, "no atomic block before"),
        ("atomic {\nreturn; }", Trouble::Unsupported, 5, "`return` leaves an atomic block"),
        ("while (1) { atomic {\nbreak; } }", Trouble::Unsupported, 5, "`break` leaves an atomic block"),
        ("while (1) { atomic {\ncontinue; } }", Trouble::Unsupported, 5, "`continue` leaves"),
        ("atomic {\ngoto l; }\nl: *x = 1;", Trouble::Unsupported, 5, "`goto` leaves"),
        ("goto l;\natomic {\nl: *x = 1; }", Trouble::Unsupported, 4, "`goto` enters"),
        ("atomic { l: *x = 1; }\natomic { goto l; }", Trouble::Unsupported, 5, "`goto` leaves"),
        ("atomic {\nswitch (*x) { } }", Trouble::Unsupported, 5, "`switch` is not supported"),
    ] {
        let text = format!("C A\n{{ x = 0; }}\nP0 (int* x) {{\n{body}\n}}\nexists (x=1)");
        let error = Test::parse(&text).expect_err(&text);
        assert_eq!((error.trouble, error.at.line), (trouble, line), "{error}\n{text}");
        assert!(error.message.contains(said), "{error}\n{text}");
    }
    let deep = format!("C A\n{{ }}\nP0 (int* x) {{ {} }}\nexists (x=1)", "atomic { ".repeat(100_000));
    assert!(Test::parse(&deep).expect_err("too deep").message.contains("nested deeper"));
}

#[test]
fn jumps_and_choices_within_a_block_stay_in_it() {
    let body = "atomic { for (int i = 0; i < 3; i++) { if (i == 1) continue; if (*x > 1) break; *x = *x + 1; } goto out; \
                *x = 7; out: ; }";
    let test = c(&format!("P0 (int* x) {{ {body} }}\nP1 (int* x) {{ int r0 = *x; }}"), "1:r0=1");
    for model in Model::ALL {
        let judged = test.judge(model);
        assert!(!judged.is_allowed() && judged.others == 2, "{model}");
    }
    // An `if` keeps its `else`, whichever statement it chooses.
    let chosen = c("P0 (int* x) { if (0) atomic { *x = 1; } aborted { *x = 2; } else { *x = 3; } }", "x=3");
    assert_eq!(chosen.judge(Model::Sc).others, 0);
}
