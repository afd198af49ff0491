//! Data races of litmus tests: also those of executions in which some thread waits for ever.

use contend_checker::Model;
use contend_checker::litmus::{Finals, Test};

fn finals(threads: &str) -> Finals {
    let test = Test::parse(&format!("C A\n{{ x=0; f=0; }}\n{threads}\nexists (x=1)"));
    let finals = test.unwrap_or_else(|error| panic!("{error}\n{threads}")).judge(Model::Ra).finals;
    assert!(!finals.bounded, "{threads}");
    finals
}

const WRITER: &str =
    "P0 (int* x, atomic_int* f) { *x = 1; atomic_store_explicit(f, 1, memory_order_release); }";

/// Each of these threads, beside [`WRITER`].
fn races(reader: &str) -> bool {
    finals(&format!("{WRITER}\nP1 (int* x, atomic_int* f) {{ {reader} }}")).race
}

#[test]
fn a_race_in_an_iteration_that_only_reads_is_a_race() {
    assert!(races("while (atomic_load_explicit(f, memory_order_acquire) == 0) { *x; }"));
    assert!(races(
        "int r0; do { r0 = atomic_load_explicit(f, memory_order_acquire); \
         if (!r0) { int r1 = *x; r1 = 0; } } while (!r0);"
    ));
    assert!(!races("while (atomic_load_explicit(f, memory_order_acquire) == 0) { } *x;"));
    assert!(!races(
        "int r0; do { r0 = atomic_load_explicit(f, memory_order_acquire); if (r0) *x; } while (!r0);"
    ));
}

#[test]
fn a_race_before_a_wait_that_never_ends_is_a_race() {
    let waits = "while (atomic_load_explicit(f, memory_order_acquire) == 0) { }";
    let finals = |reads: &str| {
        finals(&format!(
            "P0 (int* x, atomic_int* f) {{ *x = 1; }}\nP1 (int* x, atomic_int* f) {{ {reads} {waits} }}"
        ))
    };
    let racing = finals("int r = *x;");
    assert!(racing.race && racing.states.is_empty());
    assert!(!finals("int r = 0;").race);
}

/// The read of an exchange that finds no place to write is no part of an execution, and races with nothing.
#[test]
fn an_exchange_that_cannot_write_races_with_nothing() {
    let exchange = "int r0 = atomic_exchange_explicit(f, 1, memory_order_acq_rel);";
    let thread = |number: usize| {
        format!("P{number} (int* x, atomic_int* f) {{ {exchange} if (r0 == 0) {{ *x = {number}; }} }}\n")
    };
    let all = (0..3).map(thread).collect::<String>();
    assert!(!finals(&all).race);
}

/// Two transactions do not race, and neither do they where one of them waits for ever behind its own.
#[test]
fn transactions_do_not_race_where_a_thread_waits_behind_them() {
    let thread = "{ atomic { *x = 1; } while (atomic_load_explicit(f, memory_order_acquire) == 0) { } }";
    let of = |number: usize| format!("P{number} (int* x, atomic_int* f) {thread}\n");
    assert!(!finals(&(of(0) + &of(1))).race);
}
