//! What a litmus test names, declares and counts: names that are not there, numbers, blocks, turns of loops.

use contend_checker::Model;
use contend_checker::litmus::{Limits, Quantifier, Test};

fn c(state: &str, body: &str, asked: &str) -> String {
    format!("C A\n{{ {state} }}\nP0 (int* x, int* t) {{\n{body}\n}}\n{asked}")
}

fn holds(text: &str) {
    let test = Test::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let judged = test.judge(Model::Ra);
    assert!(!judged.finals.bounded && judged.finals.fault.is_none(), "{text}");
    assert_eq!(judged.satisfies(test.quantifier), Some(true), "{text}");
}

fn refused(text: &str, place: (usize, usize), message: &str) {
    let error = Test::parse(text).expect_err(text);
    assert!(error.message.contains(message), "{error}\n{text}");
    assert_eq!((error.at.line, error.at.column), place, "{error}\n{text}");
}

#[test]
fn a_name_of_c_is_a_constant_or_declared() {
    for (value, is) in [("true", 1), ("false", 0), ("NULL", 0), ("!false + true", 2)] {
        holds(&c("x=5;", &format!("atomic_store(x, {value});"), &format!("forall (x={is})")));
    }
    holds(&c("x=true;", "bool r0 = *x == true;", "forall (0:r0=true /\\ x=1)"));
    holds(&c("", "r0 = 3; r0 += 1; *x = r0;", "forall (x=4 /\\ 0:r0=4)"));
    holds(&c("0:r0=3;", "*x = r0;", "forall (x=3)"));
    holds(&c("y=0; p=y;", "atomic_store(y, 1);", "forall (y=1)"));
    refused(&c("", "int r0 = 1;\natomic_store(x, ro);", "exists (x=1)"), (5, 17), "`ro` is not declared");
    refused(&c("", "atomic_store(y, 1);", "exists (x=1)"), (4, 14), "`y` is not declared");
    for body in ["r0 = r0 + 1;", "r0 += 1;", "++r0;", "r0[1] = 2;", "int r1 = *r0;", "if (r0) *x = 1;"] {
        let error = Test::parse(&c("", body, "exists (x=1)")).expect_err(body);
        assert!(error.message.contains("`r0` is not declared"), "{error}\n{body}");
    }
    refused(&c("", "true = 2;", "exists (x=1)"), (4, 1), "`true` is a constant");
}

#[test]
fn a_condition_names_what_is_there() {
    let body = "int r0 = *x;";
    refused(&c("", body, "~exists (0:ro=1)"), (6, 12), "thread 0 has no register `ro`");
    refused(&c("", body, "exists (z=1)"), (6, 9), "there is no location `z`");
    refused(&c("", body, "locations [0:r1;]\nexists (x=1)"), (6, 14), "no register `r1`");
    refused(&c("", body, "filter (z=0)\nexists (x=1)"), (6, 9), "no location `z`");
    let x86 = |asked: &str| format!("X86 A\n{{ y=0; }}\n P0 ;\n MOV [x],$1 ;\n{asked}");
    holds(&x86("forall (0:EDI=0 /\\ x=1 /\\ y=0)"));
    holds(&x86("forall (0:EDI=*y /\\ *x=1 /\\ x=*x /\\ x!=*y /\\ 0:EDI=*0:ESI /\\ y=*0:EDI)"));
    refused(&x86("exists (x=*z)"), (5, 12), "no location `z`");
    refused(&x86("exists ([z]=0)"), (5, 10), "no location `z`");
    refused(&x86("locations [z;]\nexists (x=1)"), (5, 12), "no location `z`");
}

#[test]
fn a_condition_without_a_quantifier_asks_whether_it_holds() {
    for text in
        [c("", "*x = 1;", "(x=1)"), "X86 A\n{ }\n P0 ;\n MOV [x],$1 ;\n(x=1 /\\ (0:EAX=0))".to_owned()]
    {
        holds(&text);
        assert_eq!(Test::parse(&text).expect("read above").quantifier, Quantifier::Exists);
    }
}

#[test]
fn the_last_row_has_its_end_as_the_others_do() {
    let error =
        Test::parse("X86 A\n{ x=0; }\n P0 ;\n MOV [x],$1 ;\n MOV [x],$2").expect_err("no `;` at the end");
    assert!(error.message.contains("expected `;` after the row"), "{error}");
    Test::parse("X86 A\n{ x=0; }\n P0 ;\n MOV [x],$1 ;\n MOV [x],$2 ;").expect("a test");
}

#[test]
fn pointers_count_elements_however_they_are_counted_on() {
    for (count, value) in [
        ("p++;", 2),
        ("++p;", 2),
        ("p += 2;", 3),
        ("p += 2; p--;", 2),
        ("p += 2; --p;", 2),
        ("p += 2; p -= 1;", 2),
        ("p = p + 1; p++;", 3),
        ("int i = 1, *q; q = t; q += i; p = q;", 2),
        ("int* q, i; q = t; i = 2; q = q + i; p = q;", 3),
    ] {
        let body = format!("int* p = t; {count} int r0 = *p;");
        holds(&c("int t[3]={1,2,3};", &body, &format!("forall (0:r0={value})")));
    }
    holds(&c("int t[3]={1,2,3};", "t[1]++; t[1] += 4; int i = 0; i++;", "forall (t[1]=7 /\\ 0:i=1)"));
}

/// A function of C is given an address, which may lie behind a pointer; `READ_ONCE` and its like are given what lies there.
#[test]
fn an_address_is_what_a_function_is_given_whatever_it_lies_behind() {
    let test = |body: &str, asked: &str| {
        holds(&format!(
            "C A\n{{ x=5; y=6; p=x; int* t[2]={{x, y}}; }}\nP0 (atomic_int* x, atomic_int** p, atomic_int** t) {{ {body} }}\nforall ({asked})"
        ));
    };
    for pointer in ["x", "*p", "t[0]", "*t", "(*p)"] {
        let load = format!("int r0 = atomic_load_explicit({pointer}, memory_order_relaxed);");
        test(&load, "0:r0=5 /\\ p=x");
        test(&format!("atomic_store({pointer}, 7);"), "x=7 /\\ p=x /\\ t[0]=x");
        test(&format!("int r0 = atomic_fetch_add({pointer}, 2);"), "x=7 /\\ 0:r0=5 /\\ p=x");
        let exchange = format!("int r0 = 5; int r1 = atomic_compare_exchange_strong({pointer}, &r0, 8);");
        test(&exchange, "x=8 /\\ 0:r1=1 /\\ p=x");
    }
    test("int r0 = smp_load_acquire(t[1]);", "0:r0=6");
    test("int* r0 = READ_ONCE(*p); int r1 = READ_ONCE(**p);", "0:r0=x /\\ 0:r1=5");
    test("int* r0 = READ_ONCE(t[1]); rcu_assign_pointer(*p, r0);", "0:r0=y /\\ p=y /\\ x=5");
}

#[test]
fn a_lock_on_a_line_of_its_own_belongs_to_the_next_instruction() {
    let text = |last: &str| {
        format!(
            "X86_64 A\n{{ int64_t x=0; }}\n P0 | P1 ;\n lock | lock ;\n incq (x) | {last} ;\nforall (x=2)"
        )
    };
    holds(&text("incq (x)"));
    refused(&text(""), (4, 9), "no instruction comes after `lock`");
}

#[test]
fn numbers_fit_or_are_refused_and_are_octal_only_in_c() {
    holds("X86_64 A\n{ int64_t x=-9223372036854775808; }\n P0 ;\n NOP ;\nforall (x=-9223372036854775808)");
    let state = "X86_64 A\n{ int64_t x=-9223372036854775809; }\n P0 ;\n NOP ;\nexists (x=1)";
    refused(state, (2, 13), "does not fit into 64 bits");
    let asked = c("", "*x = 1;", "exists (x=-18446744073709551615)");
    refused(&asked, (6, 11), "does not fit into 64 bits");
    holds(&c(
        "x=010;",
        "int a = *x; *x = 010; int b = 0; int d = 017ul;",
        "forall (x=08 /\\ 0:a=010 /\\ 0:d=15)",
    ));
    refused(&c("", "*x = 08;", "exists (x=8)"), (4, 6), "octal");
}

#[test]
fn a_local_does_not_hide_that_of_an_enclosing_block() {
    let hidden = "int r = 0;\nfor (int i = 0; i < 2; i++) { int r = 7; }\natomic_store(x, r);";
    refused(&c("", hidden, "exists (x=7)"), (5, 35), "`r` is declared twice");
    for body in ["int i = 0; for (int i = 1; i < 2; i++) ;", "for (int i = 0; i < 2; i++) { { int i = 5; } }"]
    {
        let error = Test::parse(&c("", body, "exists (x=7)")).expect_err(body);
        assert!(error.message.contains("`i` is declared twice"), "{error}");
    }
    holds(&c(
        "",
        "for (int i = 0; i < 2; i++) { int r = 7; }\n\
         for (int i = 0; i < 3; i++) *x += i;\n\
         if (*x) { int r = 2; } else { int r = 3; }\nint r = *x;",
        "forall (x=3 /\\ 0:r=3)",
    ));
}

#[test]
fn a_loop_is_followed_as_many_turns_as_it_may_take() {
    let bounded = |body: &str, iterations: usize| {
        let limits = Limits { iterations, ..Limits::default() };
        let judged = Test::parse(&c("", body, "exists (x=99)")).expect(body).judge_within(Model::Sc, &limits);
        assert_eq!(judged.finals.bounded, judged.finals.unrolled, "{body}");
        judged.finals.bounded
    };
    for body in [
        "int r0 = 0; while (r0 < 4) { r0 = r0 + 1; *x = r0; }",
        "int r0 = 0; do { r0 = r0 + 1; *x = r0; } while (r0 < 4);",
        "for (int i = 0; i < 4; i++) { *x = i; }",
        "int r0 = 0; while (1) { if (r0 >= 4) break; *x = r0; r0 += 1; }",
        "while (*x != 4) { *x = *x + 1; }",
    ] {
        assert!(bounded(body, 3), "{body}");
        assert!(!bounded(body, 4), "{body}");
    }
    let nested = "for (int i = 0; i < 2; i++) { for (int j = 0; j < 2; j++) { *x = j; } }";
    assert!(bounded(nested, 3) && !bounded(nested, 4));
    for endless in [
        "int r0 = 0; while (1) { r0 = r0 + 1; *x = r0; }",
        "int r0 = 0; while (1) { r0 = r0 + 1; }",
        "int r0 = 0; while (*x == 0) { r0 = r0 + 1; }",
        "*x = 1; while (atomic_exchange(x, 1)) ;",
    ] {
        assert!(bounded(endless, 4), "{endless}");
    }
}

#[test]
fn an_array_may_be_pointed_to_before_it_is_declared() {
    for state in [
        "p=t; int t[2]={1,2};", "p=t; t={1,2};", "p=&t[0]; int t[]={1,2};", "int* p=t, int t[2]={1,2}",
        "t[0]=1; p=t; int t[2]; t[1]=2;",
    ] {
        let text = format!(
            "C A\n{{ {state} }}\nP0 (int** p, int* t) {{ int* q = *p; int r0 = q[1]; }}\n\
             locations [t;]\nforall (0:r0=2 /\\ p=t /\\ t[0]=1 /\\ t[1]=2)"
        );
        holds(&text);
    }
    holds(
        "X86_64 A\n{ 0:rax=t; uint64_t p=t; uint64_t t[2]={1,2}; }\n P0 ;\n movq 8(%rax),%rbx ;\nforall (0:rbx=2 /\\ t[1]=2)",
    );
    holds("C A\n{ p=t; int t[1]={5}; }\nP0 (int* t) { t[0]++; }\nforall (t[0]=6)");
    let other_length = c("p=t; int t[2]={1,2}; int t[3];", "", "exists (x=1)");
    refused(&other_length, (2, 28), "with another length");
    // Nothing else is an array for it.
    refused(&c("p=t; t[1]=2;", "", "exists (x=1)"), (2, 8), "`t` has 1 elements");
}

#[test]
fn a_local_is_assigned_to_within_a_condition_or_an_expression() {
    let state = "x=3;";
    holds(&c(state, "int r0 = 0; if (r0 = *x) { *x = 7; }", "forall (0:r0=3 /\\ x=7)"));
    holds(&c("x=0;", "int r0 = 5; if (r0 = *x) *x = 7; else *x = 8;", "forall (0:r0=0 /\\ x=8)"));
    holds(&c(
        state,
        "int r0; int r1 = 0; while (r0 = *x) { *x = r0 - 1; r1++; }",
        "forall (0:r0=0 /\\ 0:r1=3)",
    ));
    holds(&c(
        state,
        "int r0, r1; r0 = r1 = *x; atomic_store(x, r0 = r0 + 1);",
        "forall (0:r0=4 /\\ 0:r1=3 /\\ x=4)",
    ));
    holds(&c(state, "int r0; int r1 = (r0 = 2) == 2 ? r0 : 9;", "forall (0:r0=2 /\\ 0:r1=2)"));
    refused(&c("", "if (r0 = *x) ;", "exists (x=1)"), (4, 5), "`r0` is not declared");
}

#[test]
fn a_label_is_there_once_and_belongs_to_what_follows_it() {
    refused(&c("", "a: *x = 1;\na: *x = 2; goto a;", "exists (x=1)"), (5, 1), "the label `a` is there twice");
    refused(&c("", "a: a: ;", "exists (x=1)"), (4, 4), "the label `a` is there twice");
    // What a label stands before is the body of the condition.
    holds(&c("", "int r0 = 0; if (r0) a: *x = 1;", "forall (x=0)"));
    let loops = "int r0 = 0; goto b; a: b: { *x += 1; } r0++; if (r0 < 2) goto a; c: ; d: ";
    holds(&c("", loops, "forall (x=2)"));
}

#[test]
fn a_pointer_to_a_pointer_to_what_is_atomic_is_none_to_what_is_atomic() {
    let races = |parameter: &str, first: &str, second: &str| {
        let text = format!(
            "C A\n{{ p=x; x=0; }}\nP0 ({parameter}, int* x) {{ {first} }}\nP1 ({parameter}, int* x) {{ {second} }}\n\
             exists (x=1)"
        );
        let test = Test::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        test.judge(Model::Ra).finals.race
    };
    let through = ["**p = 1;", "int r0 = **p;"];
    let itself = ["*p = x;", "int* r0 = *p;"];
    for parameter in ["atomic_int** p", "int _Atomic* const* p", "atomic_int* p[]", "_Atomic(int)* p[2]"] {
        assert!(!races(parameter, through[0], through[1]), "{parameter}");
        assert!(races(parameter, itself[0], itself[1]), "{parameter}");
    }
    for parameter in ["int* _Atomic* p", "_Atomic(int*)* p"] {
        assert!(races(parameter, through[0], through[1]), "{parameter}");
        assert!(!races(parameter, itself[0], itself[1]), "{parameter}");
    }
    let by_local = ["atomic_int *q = *p, *s; *q = 1;", "int **q = p; int r0 = **q;"];
    assert!(!races("atomic_int** p", by_local[0], by_local[0]));
    assert!(races("atomic_int** p", by_local[1], by_local[0]), "what q points to is not atomic for it");
}

#[test]
fn a_part_of_a_register_is_set_and_compared_as_one() {
    let x86 = |dialect: &str, state: &str, row: &str, asked: &str| {
        format!("{dialect} A\n{{ {state} }}\n P0 ;\n {row} ;\nforall ({asked})")
    };
    for (state, asked) in [
        ("0:al=-1;", "0:rax=255 /\\ 0:al=-1 /\\ 0:al=255 /\\ 0:ax=255 /\\ ~(0:al=511)"),
        ("0:ax=-2;", "0:rax=65534 /\\ 0:ax=-2 /\\ 0:al=-2"),
        ("0:rax=0x11223344; 0:al=1;", "0:rax=0x11223301 /\\ 0:ax=0x3301 /\\ 0:al=1"),
        ("0:rax=0x100000001;", "0:eax=1 /\\ ~(0:rax=1) /\\ 0:eax!=2"),
        ("0:eax=-1;", "0:eax=-1 /\\ 0:eax=4294967295"),
    ] {
        holds(&x86("X86_64", state, "nop", asked));
    }
    holds(&x86("X86_64", "0:eax=-1;", "movq %rax,%rbx ;\n addq $1,%rbx", "0:rbx=4294967296"));
    holds(&x86("X86", "0:EAX=-1; x=0;", "MOV [x],EAX", "x=-1 /\\ 0:EAX=-1"));
    refused(&x86("X86", "x=0;", "NOP", "0:AL=[x]"), (5, 9), "a part of a register");
}
