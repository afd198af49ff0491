//! Compare-and-exchanges of C in litmus tests: a weak one may fail whatever it finds.

use contend_checker::Model;
use contend_checker::litmus::{Test, native};

/// Whether a thread can end so.
fn is_allowed(thread: &str, asked: &str, model: Model) -> bool {
    let text = format!("C A\n{{ x=0; }}\nP0 (atomic_int* x) {{ {thread} }}\nexists ({asked})");
    let judged = Test::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")).judge(model);
    assert!(!judged.finals.bounded, "{text}");
    judged.is_allowed()
}

#[test]
fn a_weak_exchange_may_fail_where_a_strong_one_does_not() {
    let exchange = |strength: &str| {
        format!(
            "int r0 = 0; int r1 = atomic_compare_exchange_{strength}_explicit(x, &r0, 1, memory_order_relaxed, \
             memory_order_relaxed);"
        )
    };
    for model in Model::ALL {
        for (strength, may_fail) in [("weak", true), ("strong", false)] {
            let exchange = exchange(strength);
            assert_eq!(
                is_allowed(&exchange, "0:r1=0 /\\ 0:r0=0 /\\ x=0", model),
                may_fail,
                "{strength} {model}"
            );
            assert!(is_allowed(&exchange, "0:r1=1 /\\ x=1", model), "{strength} {model}");
            assert!(!is_allowed(&exchange, "0:r1=0 /\\ x=1", model), "{strength} {model}");
            assert!(!is_allowed(&exchange, "0:r1=1 /\\ x=0", model), "{strength} {model}");
        }
    }
}

#[test]
fn a_loop_around_a_weak_exchange_ends_with_its_success() {
    let text = "int r0 = 0; while (!atomic_compare_exchange_weak(x, &r0, r0 + 1)) { }";
    for model in Model::ALL {
        assert!(is_allowed(text, "x=1", model) && !is_allowed(text, "x=0", model), "{model}");
    }
}

#[test]
fn a_weak_exchange_that_fails_reads_by_the_order_of_a_failure() {
    let judged = |failure: &str| {
        let text = format!(
            "C A\n{{ x=0; y=0; }}\n\
             P0 (int* y, atomic_int* x) {{ *y = 1; atomic_store_explicit(x, 1, memory_order_release); }}\n\
             P1 (int* y, atomic_int* x) {{ int r0 = 1; int r1 = atomic_compare_exchange_weak_explicit(x, &r0, 2, \
             memory_order_acquire, memory_order_{failure}); if (r0 == 1) {{ if (r1 == 0) {{ int r2 = *y; }} }} }}\n\
             exists (1:r1=0)"
        );
        // What is expected is 1 after the exchange only if it was found.
        Test::parse(&text).expect("a test").judge(Model::Ra).finals.race
    };
    assert!(judged("relaxed"));
    assert!(!judged("acquire"));
}

/// A pointer says where what is expected lies, be it a parameter, a local or in memory; behind `&` it is itself what is expected.
#[test]
fn what_is_expected_lies_where_a_pointer_points_to() {
    let holds = |state: &str, exchange: &str, asked: &str| {
        let text = format!(
            "C A\n{{ {state} q=e; }}\nP0 (atomic_int* x, int* e, int* y, int** q) {{ int* p = e; int r0 = {exchange}; }}\nforall ({asked})"
        );
        let test = Test::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let judged = test.judge(Model::Sc);
        assert_eq!(judged.satisfies(test.quantifier), Some(true), "{text}");
    };
    for expected in ["e", "p", "&*p", "*q", "q[0]", "&**q"] {
        let exchange = format!("atomic_compare_exchange_strong(x, {expected}, 2)");
        holds("x=1; e=1; y=0;", &exchange, "0:r0=1 /\\ x=2 /\\ e=1 /\\ 0:p=e /\\ q=e");
        holds("x=1; e=5; y=0;", &exchange, "0:r0=0 /\\ x=1 /\\ e=1 /\\ 0:p=e /\\ q=e");
    }
    let exchange = "atomic_compare_exchange_strong(x, &p, y)";
    holds("x=e; e=0; y=0;", exchange, "0:r0=1 /\\ x=y /\\ e=0");
    holds("x=y; e=0; y=0;", exchange, "0:r0=0 /\\ x=y /\\ 0:p=y /\\ e=0");
}

#[test]
fn a_weak_exchange_runs_on_this_processor() {
    let text = "C A\n{ x=0; }\nP0 (atomic_int* x) { int r0 = 0; int r1 = atomic_compare_exchange_weak(x, &r0, 1); }\n\
                exists (0:r1=1)";
    let test = Test::parse(text).expect("a test");
    let seen = native::run(&test, 1, 1, None).expect("it has a meaning");
    assert!(seen.keys().all(|end| test.condition.holds(end)) && !seen.is_empty());
}
