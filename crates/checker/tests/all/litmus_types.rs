//! The types of C in litmus tests: what locations, locals and casts make of a value, and what conditions compare.

use contend_checker::Model;
use contend_checker::litmus::program::FaultKind;
use contend_checker::litmus::{ParseError, Quantifier, Test, Trouble, native};

fn c(state: &str, parameters: &str, body: &str, asked: &str) -> String {
    format!("C A\n{{ {state} }}\nP0 ({parameters}) {{\n{body}\n}}\n{asked}")
}

fn read(text: &str) -> Test {
    Test::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Whether the models and this processor do what a test asks of one thread.
fn holds(text: &str) {
    let test = read(text);
    assert_eq!(test.quantifier, Quantifier::Forall, "{text}");
    for model in [Model::Sc, Model::Ra] {
        let judged = test.judge(model);
        assert_eq!((judged.finals.fault, judged.finals.bounded), (None, false), "{text}");
        assert_eq!(judged.satisfies(test.quantifier), Some(true), "{text}\n{:?}", judged.finals.states);
    }
    let seen = native::run(&test, 1, 1, None).expect("it has a meaning");
    assert!(!seen.is_empty() && seen.keys().all(|end| test.condition.holds(end)), "{text}\n{seen:?}");
}

fn refused(text: &str) -> ParseError {
    let error = Test::parse(text).expect_err(text);
    assert_eq!(error.trouble, Trouble::Unsupported, "{error}\n{text}");
    error
}

/// What is wrong with a step of a test that can be read, and the line of the step.
fn fault(text: &str) -> (FaultKind, usize) {
    let test = read(text);
    let fault = test.judge(Model::Sc).finals.fault.unwrap_or_else(|| panic!("a fault\n{text}"));
    let native = native::run(&test, 1, 1, None).expect_err("a fault");
    assert_eq!(fault, native, "{text}");
    (fault.kind, test.explain(&fault).at.line)
}

#[test]
fn a_location_keeps_what_its_type_holds() {
    for (kind, initial, body, asked) in [
        ("uint8_t", "255", "(*x)++;", "x=0"),
        ("unsigned char", "0", "*x -= 1;", "x=255 /\\ x=-1 /\\ ~(x=511)"),
        ("int8_t", "0", "*x = 200; int r0 = *x;", "x=-56 /\\ x=200 /\\ 0:r0=-56"),
        ("char", "0", "*x = 255; int r0 = *x < 0;", "0:r0=1"),
        ("uint16_t", "65535", "int r0 = *x; *x += 2;", "x=1 /\\ 0:r0=65535"),
        ("short", "0", "*x = 40000; long r0 = *x;", "x=-25536 /\\ 0:r0=-25536"),
        ("int", "2147483647", "*x += 1; int r0 = *x < 0;", "x=-2147483648 /\\ x=2147483648 /\\ 0:r0=1"),
        ("unsigned int", "0", "*x = -1; long r0 = *x;", "x=4294967295 /\\ x=-1 /\\ 0:r0=4294967295"),
        ("uint32_t", "4294967295", "long r0 = *x + 1;", "0:r0=0"),
        ("long", "4294967295", "*x += 1;", "x=4294967296"),
        ("uint64_t", "-1", "int r0 = *x > 0; *x += 1;", "x=0 /\\ 0:r0=1"),
        ("_Bool", "0", "*x = 256; int r0 = *x;", "x=1 /\\ x=true /\\ 0:r0=1"),
        ("bool", "5", "int r0 = *x + 1;", "x=1 /\\ 0:r0=2"),
    ] {
        let text =
            |state: &str, kind: &str| c(state, &format!("{kind}* x"), body, &format!("forall ({asked})"));
        // The type is that of the initial state or else that of the parameter.
        holds(&text(&format!("{kind} x={initial};"), kind));
        holds(&text(&format!("x={initial};"), kind));
        holds(&text(&format!("{kind} x={initial};"), "void"));
    }
}

#[test]
fn atomic_accesses_wrap_at_the_width_of_the_type() {
    for (kind, initial, body, asked) in [
        ("atomic_uchar", "255", "int r0 = atomic_fetch_add(x, 1);", "x=0 /\\ 0:r0=255"),
        ("atomic_uint", "0", "long r0 = atomic_fetch_sub(x, 1) - 1;", "x=4294967295 /\\ 0:r0=4294967295"),
        ("atomic_int", "-1", "int r0 = atomic_load(x) < 0u;", "0:r0=0"),
        ("atomic_short", "32767", "atomic_fetch_add_explicit(x, 1, memory_order_relaxed);", "x=-32768"),
        ("atomic_uint", "-1", "long r0 = atomic_exchange(x, -2);", "x=4294967294 /\\ 0:r0=4294967295"),
        ("atomic_bool", "0", "int r0 = atomic_exchange(x, 6); *x = 0; *x = 2;", "x=1 /\\ 0:r0=0"),
        ("atomic_ulong", "-1", "int r0 = atomic_load(x) >> 63; *x += 2;", "x=1 /\\ 0:r0=1"),
        ("_Atomic(uint16_t)", "1", "*x -= 2; *x ^= 1; *x *= 2;", "x=65532"),
        (
            "atomic_uint",
            "-1",
            "unsigned e = 5; int r0 = atomic_compare_exchange_strong(x, &e, 7); long r1 = e;\n\
             int r2 = atomic_compare_exchange_strong(x, &e, 7);",
            "x=7 /\\ 0:r0=0 /\\ 0:r1=4294967295 /\\ 0:r2=1",
        ),
        (
            "atomic_uchar",
            "200",
            "int e = 200; int r0 = atomic_compare_exchange_strong(x, &e, 256);",
            "x=0 /\\ 0:r0=1",
        ),
        ("atomic_uint", "-1", "int r0 = atomic_cmpxchg(x, -1, 3) == -1;", "x=3 /\\ 0:r0=1"),
    ] {
        holds(&c(&format!("x={initial};"), &format!("{kind}* x"), body, &format!("forall ({asked})")));
    }
}

#[test]
fn expressions_have_the_conversions_of_c() {
    for (expression, value) in [
        ("-1 < 1", "1"),
        ("-1 < 1u", "0"),
        ("-1L < 1u", "1"),
        ("-1L < 1UL", "0"),
        ("-1 >= 0u", "1"),
        ("1u <= -1", "1"),
        ("(uint8_t) 255 + 1", "256"),
        ("(uint8_t) (255 + 1)", "0"),
        ("(uint8_t) 300", "44"),
        ("(int8_t) 200", "-56"),
        ("(char) 255 == -1", "1"),
        ("(unsigned) -1", "4294967295"),
        ("(long) (unsigned) -1", "4294967295"),
        ("(unsigned long) -1 > 0", "1"),
        ("(bool) 256", "1"),
        ("(_Bool) (uint8_t) 256", "0"),
        ("(int) 4294967297", "1"),
        ("-1u", "4294967295"),
        ("+(int8_t) 130", "-126"),
        ("~(uint8_t) 0", "-1"),
        ("~0u", "4294967295"),
        ("!(uint8_t) 256", "1"),
        ("0xffffffff + 1", "0"),
        ("4294967295 + 1", "4294967296"),
        ("0xffffffffffffffff > 0", "1"),
        ("2147483647 + 1", "-2147483648"),
        ("2147483648 > 0", "1"),
        ("-8 >> 1", "-4"),
        ("-8u >> 28", "15"),
        ("1 << 31 < 0", "1"),
        ("1u << 31 > 0", "1"),
        ("1L << 40", "1099511627776"),
        ("-7 / 2", "-3"),
        ("-7 % 2", "-1"),
        ("-7 / 2u", "2147483644"),
        ("18446744073709551615UL / 2", "9223372036854775807"),
        ("18446744073709551615UL % 10", "5"),
        ("7 / 2 * 2 + 7 % 2", "7"),
        ("(1 ? -1 : 1u) > 0", "1"),
        ("1 ? (int8_t) 255 : 0", "-1"),
        ("(int8_t) -1 == (uint8_t) 255", "0"),
        ("3 > 2 > 1", "0"),
    ] {
        holds(&c("", "int* x", &format!("long r0 = {expression};"), &format!("forall (0:r0={value})")));
    }
}

/// A type: its name, its bits, and whether it has a sign.
type Kind = (&'static str, u32, bool);

const KINDS: [Kind; 6] = [
    ("int8_t", 8, true),
    ("uint16_t", 16, false),
    ("int", 32, true),
    ("unsigned int", 32, false),
    ("long", 64, true),
    ("uint64_t", 64, false),
];

/// The number that a type makes of another one.
fn wrapped(value: i128, (_, bits, is_signed): Kind) -> i128 {
    let low = value.rem_euclid(1 << bits);
    if is_signed && low >> (bits - 1) == 1 { low - (1 << bits) } else { low }
}

/// What C makes of two numbers, worked out with more bits than it has. None where it leaves that open.
fn computed(sign: &str, (a, of_a): (i128, Kind), (b, of_b): (i128, Kind)) -> Option<i128> {
    let promoted = |kind: Kind| if kind.1 < 32 { ("int", 32, true) } else { kind };
    let (of_a, of_b) = (promoted(of_a), promoted(of_b));
    let common = match of_a.1.cmp(&of_b.1) {
        std::cmp::Ordering::Greater => of_a,
        std::cmp::Ordering::Less => of_b,
        std::cmp::Ordering::Equal => ("", of_a.1, of_a.2 && of_b.2),
    };
    let (x, y) = (wrapped(a, common), wrapped(b, common));
    let truth = |holds: bool| Some(i128::from(holds));
    match sign {
        "<<" | ">>" if !(0..i128::from(of_a.1)).contains(&b) => None,
        "<<" => Some(wrapped(a << b, of_a)),
        ">>" => Some(a >> b),
        "/" | "%" if y == 0 => None,
        "/" => Some(wrapped(x / y, common)),
        "%" => Some(wrapped(x % y, common)),
        "+" => Some(wrapped(x + y, common)),
        "-" => Some(wrapped(x - y, common)),
        "*" => Some(wrapped(x.wrapping_mul(y), common)),
        "&" => Some(wrapped(x & y, common)),
        "|" => Some(wrapped(x | y, common)),
        "^" => Some(wrapped(x ^ y, common)),
        "<" => truth(x < y),
        "<=" => truth(x <= y),
        ">" => truth(x > y),
        ">=" => truth(x >= y),
        "==" => truth(x == y),
        "!=" => truth(x != y),
        _ => unreachable!("no such operator"),
    }
}

#[test]
fn every_operator_joins_every_two_types_as_c_does() {
    const SIGNS: [&str; 16] =
        ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!="];
    const VALUES: [i128; 5] = [0, 1, 5, -1, 1 << 31];
    let mut undefined = 0;
    for (of_a, of_b) in KINDS.into_iter().flat_map(|a| KINDS.map(|b| (a, b))) {
        for (a, b) in VALUES.into_iter().flat_map(|a| VALUES.map(|b| (wrapped(a, of_a), wrapped(b, of_b)))) {
            let results = SIGNS.map(|sign| (sign, computed(sign, (a, of_a), (b, of_b))));
            undefined += results.iter().filter(|(_, result)| result.is_none()).count();
            let defined = results.iter().enumerate().filter_map(|(at, (sign, result))| {
                let long = wrapped((*result)?, ("long", 64, true));
                Some((format!("long r{at} = *x {sign} *y;"), format!("0:r{at}={long}")))
            });
            let (body, asked): (Vec<_>, Vec<_>) = defined.unzip();
            let parameters = format!("{}* x, {}* y", of_a.0, of_b.0);
            let state = format!("x={}; y={};", a as u64 as i64, b as u64 as i64);
            let text = c(&state, &parameters, &body.join("\n"), &format!("forall ({})", asked.join(" /\\ ")));
            let judged = read(&text).judge(Model::Sc);
            assert_eq!(
                judged.satisfies(Quantifier::Forall),
                Some(true),
                "{text}\n{:?}",
                judged.finals.states
            );
        }
    }
    assert!(undefined > 100, "{undefined}");
}

#[test]
fn a_local_holds_what_its_type_holds() {
    for (body, asked) in [
        ("uint8_t r0 = 255; r0++;", "0:r0=0"),
        ("uint8_t r0; r0 = 0; r0 -= 1; int r1 = r0;", "0:r0=255 /\\ 0:r0=-1 /\\ 0:r1=255"),
        ("unsigned r0 = 0; r0--; long r1 = r0;", "0:r0=4294967295 /\\ 0:r0=-1 /\\ 0:r1=4294967295"),
        ("bool r0 = 2; r0 += 1;", "0:r0=1"),
        ("int n = 0; for (uint8_t i = 250; i; i++) n++;", "0:n=6"),
        ("short r0 = 1; r0 <<= 15; int r1 = -16; r1 >>= 2;", "0:r0=-32768 /\\ 0:r1=-4"),
        ("unsigned r0 = -1, *p = 0; r0 /= 2; r0 %= 10;", "0:r0=7 /\\ 0:p=NULL"),
        ("uint16_t r0, r1; r1 = r0 = 65537;", "0:r0=1 /\\ 0:r1=1"),
        ("int r0 = (uint8_t) 0 - 1 < 0;", "0:r0=1"),
        // What nothing declares keeps every number.
        ("r0 = 4294967295; r0 += 1;", "0:r0=4294967296"),
    ] {
        holds(&c("", "int* x", body, &format!("forall ({asked})")));
    }
    // The initial state declares registers, too.
    holds(&c(
        "uint8_t 0:r0=256; unsigned 0:r1=-1;", "long* x", "*x = r1; r0 += 257;",
        "forall (x=4294967295 /\\ 0:r0=1)",
    ));
}

#[test]
fn a_condition_compares_as_the_type_of_what_it_names_has_it() {
    let asks = |state: &str, body: &str, asked: &str| {
        let text = c(state, "void* x, void* y, void* z", body, &format!("forall ({asked})"));
        read(&text).judge(Model::Sc).satisfies(Quantifier::Forall).expect("decided")
    };
    for (state, asked, is_so) in [
        ("int x=-1;", "x=4294967295 /\\ x=-1", true),
        ("unsigned x=-1;", "x=4294967295 /\\ x=-1", true),
        ("long x=-1;", "x=4294967295", false),
        ("long x=4294967295;", "x=-1", false),
        ("long x=-1;", "x=-1 /\\ x=18446744073709551615", true),
        ("uint8_t x=-1;", "x=255 /\\ x=-1", true),
        ("uint8_t x=-1;", "x=511 \\/ x=65535 \\/ x=-257", false),
        ("int8_t x=-1; uint8_t y=255;", "x=*y", true),
        ("long x=-1; unsigned y=-1;", "x=*y", false),
        ("long x=4294967295; unsigned y=-1;", "x=*y /\\ y=*x", true),
        ("uint8_t x=255; int y=255; int z=-1;", "x=*y /\\ ~(x=*z)", true),
    ] {
        assert_eq!(asks(state, "", asked), is_so, "{state} {asked}");
    }
    for (body, asked, is_so) in [
        ("long r0 = -1;", "0:r0=4294967295", false),
        ("int r0 = -1;", "0:r0=4294967295", true),
        ("uint8_t r0 = 255; int r1 = 255; long r2 = -1;", "0:r0=0:r1 /\\ ~(0:r0=0:r2)", true),
        ("r0 = -1;", "0:r0=4294967295", false),
    ] {
        assert_eq!(asks("", body, asked), is_so, "{body} {asked}");
    }
    let x86 = |asked: &str| {
        let text = format!(
            "X86_64 A\n{{ int64_t x=-1; uint32_t y=-1; 0:rax=-1; }}\n P0 ;\n nop ;\nforall ({asked})"
        );
        read(&text).judge(Model::Tso).satisfies(Quantifier::Forall).expect("decided")
    };
    assert!(x86("x=-1 /\\ y=-1 /\\ y=4294967295 /\\ 0:rax=-1 /\\ 0:eax=4294967295"));
    assert!(!x86("x=4294967295") && !x86("0:rax=4294967295"));
}

#[test]
fn pointers_count_elements_of_the_size_of_their_type() {
    for (kind, body, value) in [
        ("uint8_t", "uint8_t *p = t + 2; long r0 = *p;", 3),
        ("uint16_t", "uint16_t *p = t; p++; long r0 = *p;", 2),
        ("uint16_t", "uint16_t *p = (uint16_t *) ((char *) t + 4); long r0 = *p;", 3),
        ("int", "long a = (long) t; long r0 = *(int *) (a + 4);", 2),
        ("long", "long r0 = t[1] + *(2 + t);", 5),
        ("int", "void *p = t + 1; long r0 = *(int *) p;", 2),
    ] {
        let state = format!("{kind} t[3]={{1,2,3}};");
        holds(&c(&state, &format!("{kind}* t"), body, &format!("forall (0:r0={value})")));
        // The elements of an array whose type only the parameter says.
        holds(&c("t={1,2,3};", &format!("{kind}* t"), body, &format!("forall (0:r0={value})")));
    }
    holds(&c(
        "int* p=t; int t[2]={1,2};", "int* _Atomic* p", "(*p)++; int *r0 = *p; int r1 = *r0;",
        "forall (0:r1=2)",
    ));
    let part = c("int x=1;", "int* x", ";\nlong r0 = *(char *) x;", "forall (0:r0=1)");
    assert_eq!(fault(&part), (FaultKind::Overlap, 5));
    let counted = c("", "void* x", "void *p = x;\np++;", "exists (x=1)");
    assert_eq!(refused(&counted).at.line, 5);
}

/// As suites for the kernel have it, which were written for another tool that has no types.
#[test]
fn numbers_may_hold_addresses() {
    let holds = |state: &str, threads: &str, asked: &str| {
        let text = format!("C A\n{{ {state} }}\n{threads}\n{asked}");
        let test = read(&text);
        let judged = test.judge(Model::Ra);
        assert_eq!((judged.finals.fault, judged.finals.bounded), (None, false), "{text}");
        assert_eq!(judged.satisfies(test.quantifier), Some(true), "{text}");
    };
    let undeclared = "P0(int *x0, int *x1) { r1 = READ_ONCE(*x0); rcu_assign_pointer(*x1, r3); }\n\
                      P1(int *x0, int *x1, int *y0) { r1 = rcu_dereference(*x1); WRITE_ONCE(*r1, 1); }";
    holds("x1=y0; 0:r3=x0; 1:r4=y0;", undeclared, "exists (1:r1=x0 /\\ x0=1)");
    holds("x1=y0; 0:r3=x0; 1:r4=y0;", undeclared, "exists (1:r1=y0 /\\ y0=1 /\\ x1=x0)");
    let wide = "P0(intptr_t *x, intptr_t *y) { intptr_t r3 = y; smp_store_release(x, r3); }\n\
                P1(intptr_t *x) { intptr_t r1 = (intptr_t)rcu_dereference(*(intptr_t **)x); \
                smp_store_release((intptr_t *)r1, 1); }";
    holds("x=z;", wide, "exists (1:r1=y /\\ y=1)");
    let compared = "P0(int *y, int **z) { WRITE_ONCE(*y, 1); smp_store_release(z, y); }\n\
                    P1(int *y, int **z) { int r1 = y; int r2; int r3; r2 = READ_ONCE(*z);\n\
                    if (r1 == r2) { r3 = READ_ONCE(*r2); } else { r3 = 42; } }";
    holds("int x = 2; int y = 0; int *z = x;", compared, "~exists (1:r3=2)");
    holds("int x = 2; int y = 0; int *z = x;", compared, "exists (1:r3=42)");
    let several = "P0(int *x, long *y) {\nint r0 = x;\nint r1 = *r0; }";
    let text = format!("C A\n{{ }}\n{several}\nexists (x=1)");
    assert_eq!(refused(&text).at.line, 5);
}

#[test]
fn what_c_gives_no_meaning_is_a_fault_where_it_is_reached() {
    for expression in
        ["1 / *x", "1 % *x", "1 << (*x + 32)", "1L << (*x - 1)", "1 >> -1", "1u / 0", "*x / (uint8_t) 256"]
    {
        let text = c("", "int* x", &format!(";\nlong r0 = {expression};"), "exists (x=1)");
        assert_eq!(fault(&text), (FaultKind::Undefined, 5), "{text}");
    }
    holds(&c("", "int* x", "int r0 = *x && 1 / *x; int r1 = *x ? 1 / *x : 7;", "forall (0:r0=0 /\\ 0:r1=7)"));
    holds(&c("", "int* x", "long r0 = 1L << (*x + 32);", "forall (0:r0=4294967296)"));
}

#[test]
fn types_that_disagree_are_refused() {
    let mixed = c("uint8_t x;", "int* x", ";", "exists (x=1)");
    let error = refused(&mixed);
    assert!(error.message.contains("`x` is 1 bytes wide here and 4 there"), "{error}");
    assert_eq!(error.at.line, 3);
    let threads = "C A\n{ x=0; }\nP0 (int* x) { ; }\nP1 (int** x) { ; }\nexists (x=1)";
    assert_eq!(refused(threads).at.line, 4);
    // A sign makes no size: the initial state has it.
    holds(
        "C A\n{ unsigned x=-1; }\nP0 (int* x) { long r0 = *x; }\nP1 (uint32_t* x) { long r0 = *x; }\n\
           forall (0:r0=-1 /\\ 1:r0=4294967295 /\\ x=4294967295)",
    );
    for (body, message) in [
        ("{ int r0; }\n{ long r0; }", "with different types"),
        ("int a[2];", "declare it in the initial state"),
        ("int r0 = __load{once}(x);", "write that function"),
        ("__fence{mb};", "write that function"),
        ("atomic_fetch_add(b, 1);", "`bool`"),
        ("*b |= 1;", "`bool`"),
        ("*n <<= 1;", "`<<=` of an atomic location"),
        ("atomic_fetch_add(p, 1);", "of a pointer"),
        ("long r0 = x - x;", "difference of two pointers"),
    ] {
        let text = c("", "int* x, atomic_bool* b, atomic_int* n, int* _Atomic* p", body, "exists (x=1)");
        let error = refused(&text);
        assert!(error.message.contains(message), "{error}\n{text}");
    }
}

/// C11 7.17.2.2: an initialisation is not atomic.
#[test]
fn an_initialisation_races_with_an_atomic_access() {
    let races = |first: &str, second: &str| {
        let text = format!(
            "C A\n{{ x=0; }}\nP0 (atomic_int* x) {{ {first} }}\nP1 (atomic_int* x) {{ {second} }}\nexists (x=1)"
        );
        read(&text).judge(Model::Ra).finals.race
    };
    assert!(races("atomic_init(x, 1);", "atomic_init(x, 2);"));
    for access in ["atomic_load(x);", "atomic_store(x, 2);", "atomic_fetch_add(x, 1);"] {
        assert!(races("atomic_init(x, 1);", access), "{access}");
        assert!(!races("atomic_store_explicit(x, 1, memory_order_relaxed);", access), "{access}");
    }
    holds(&c("", "atomic_uchar* x", "atomic_init(x, 257);", "forall (x=1)"));
}

#[test]
fn a_flag_is_a_lock() {
    let thread = |number: usize| {
        format!(
            "P{number} (atomic_flag* f, int* x) {{ while (atomic_flag_test_and_set_explicit(f, memory_order_acquire)) ;\n\
             *x += 1; atomic_flag_clear_explicit(f, memory_order_release); }}\n"
        )
    };
    let text = format!("C A\n{{ }}\n{}{}forall (x=2 /\\ f=0)", thread(0), thread(1));
    // An iteration that finds the flag set sets it again.
    let judged = read(&text).judge(Model::Ra);
    assert!(!judged.finals.race && judged.others == 0 && judged.holding == 1);
    holds(&c(
        "",
        "atomic_flag* f",
        "int r0 = atomic_flag_test_and_set(f); int r1 = atomic_flag_test_and_set(f);",
        "forall (0:r0=0 /\\ 0:r1=1 /\\ f=1)",
    ));
    refused(&c("", "atomic_flag* f", "atomic_flag_clear_explicit(f, memory_order_acquire);", "exists (f=1)"));
}

#[test]
fn the_kernel_has_what_is_added_before_the_location() {
    for (call, value, x) in [
        ("atomic_fetch_add(3, x)", 5, 8),
        ("atomic_fetch_add(x, 3)", 5, 8),
        ("atomic_fetch_sub_relaxed(3, x)", 5, 2),
        ("atomic_fetch_andnot(1, x)", 5, 4),
        ("atomic_fetch_or_release(2, x)", 5, 7),
        ("atomic_fetch_inc(x)", 5, 6),
        ("atomic_fetch_dec_acquire(x)", 5, 4),
        ("atomic_add_return(3, x)", 8, 8),
        ("atomic_sub_return_acquire(3, x)", 2, 2),
        ("atomic_inc_return(x)", 6, 6),
        ("atomic_dec_return_release(x)", 4, 4),
        ("atomic_sub_and_test(5, x)", 1, 0),
        ("atomic_dec_and_test(x)", 0, 4),
        ("atomic_inc_and_test(x)", 0, 6),
        ("atomic_add_negative(-6, x)", 1, -1),
        ("atomic_add_negative(1, x)", 0, 6),
    ] {
        let body = format!("int r0 = {call};");
        holds(&c(
            "atomic_t x = ATOMIC_INIT(5);",
            "atomic_t* x",
            &body,
            &format!("forall (0:r0={value} /\\ x={x})"),
        ));
    }
    for (statement, x) in [
        ("atomic_add(2, x)", 7),
        ("atomic_sub(2, x)", 3),
        ("atomic_and(4, x)", 4),
        ("atomic_xor(1, x)", 4),
        ("atomic_andnot(4, x)", 1),
    ] {
        holds(&c("x=5;", "atomic_t* x", &format!("{statement};"), &format!("forall (x={x})")));
    }
    for unknown in ["atomic_add_unless(x, 1, 2)", "atomic_and_return(1, x)", "atomic_add_and_test(1, x)"] {
        refused(&c("", "atomic_t* x", &format!("int r0 = {unknown};"), "exists (x=1)"));
    }
}

/// Those that give a value and name no order stand between two full fences, as `xchg` does.
#[test]
fn the_kernel_orders_what_gives_a_value() {
    let buffers = |add: &str| {
        let thread = |number: usize, own: &str, other: &str| {
            format!(
                "P{number} (int* x, int* y, atomic_t* z{number}) {{ WRITE_ONCE(*{own}, 1); {add}, z{number}); int r0 = READ_ONCE(*{other}); }}\n"
            )
        };
        let text =
            format!("C A\n{{ }}\n{}{}exists (0:r0=0 /\\ 1:r0=0)", thread(0, "x", "y"), thread(1, "y", "x"));
        read(&text).judge(Model::Ra).is_allowed()
    };
    for ordered in
        ["atomic_add_return(1", "atomic_fetch_add(1", "atomic_sub_and_test(1", "atomic_fetch_andnot(1"]
    {
        assert!(!buffers(ordered), "{ordered}");
    }
    for relaxed in ["atomic_add(1", "atomic_add_return_relaxed(1", "atomic_fetch_add_release(1"] {
        assert!(buffers(relaxed), "{relaxed}");
    }
}
