//! The project's litmus suite against its published verdicts, and files that are no tests.

use std::time::Duration;

use crate::common::folder;
use contend_checker::Model;
use contend_checker::litmus::{Limits, Quantifier, Test, Trouble, native};

fn read(file: &str) -> String {
    std::fs::read_to_string(folder().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
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
    assert_eq!(test.judge(Model::Tso).satisfies(Quantifier::Forall), Some(true));
    assert_eq!(test.judge(Model::Pso).satisfies(Quantifier::Forall), Some(false));
    let intel = "X86 B\n{ x=0; 0:EAX=1; }\n P0;\n LOCK XADD [x],EAX;\n LOCK DEC [x] ;\n XCHG EAX,[x];\n\
                 ~exists ~(0:EAX=0 \\/ x=-1)";
    assert_eq!(
        Test::parse(intel).expect("Intel").judge(Model::Sc).satisfies(Quantifier::NotExists),
        Some(true)
    );
}

/// Signs of both dialects in one instruction: the file's decides.
#[test]
fn an_instruction_is_of_the_other_dialect_only_if_nothing_says_that_it_is_not() {
    let holds = |dialect: &str, row: &str, asked: &str| {
        let text = format!("{dialect} A\n{{ x=5; 0:RAX=7; 0:RBX=x; }}\n P0 ;\n {row} ;\nexists ({asked})");
        let test = Test::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(test.judge(Model::Sc).is_allowed(), "{text}");
    };
    for store in ["movq %rax,[x]", "movq %rax,(x)", "movq %rax,(%rbx)", "mov [x],rax"] {
        holds("X86_64", store, "x=7");
    }
    for load in ["movq [x],%rax", "movq (x),%rax", "mov rax,[x]"] {
        holds("X86_64", load, "0:RAX=5");
    }
    for constant in ["movl $1,[x]", "movl $1,(x)", "mov [x],1"] {
        holds("X86_64", constant, "x=1");
    }
    holds("X86", "MOV (EBX),EAX", "x=7");
    holds("X86", "MOV EAX,(EBX)", "0:EAX=5");
    holds("X86", "movl %eax,(x)", "x=7");
    // A constant stands where a source does, also in an instruction that has no destination.
    for (dialect, comparison) in [
        ("X86_64", "cmp rax,9"),
        ("X86_64", "cmpq %rax,$9"),
        ("X86_64", "cmpq $9,%rax"),
        ("X86", "CMP EAX,$9"),
        ("X86", "cmp %eax,$9"),
        ("X86", "cmpl $9,%eax"),
    ] {
        holds(dialect, &format!("{comparison} ;\n setl cl ;\n setg dl"), "0:RCX=1 /\\ 0:RDX=0");
    }
    holds("X86_64", "not %rax", "0:RAX=-8");
    holds("X86", "NOT EAX ;\n not %eax", "0:EAX=7");
}

#[test]
fn an_implication_binds_tighter_than_what_stands_beside_it() {
    let holds = |asked: &str| {
        let text = format!("X86 A\n{{ x=0; y=0; z=1; }}\n P0 ;\n NOP ;\nforall ({asked})");
        Test::parse(&text).expect(asked).judge(Model::Sc).satisfies(Quantifier::Forall)
    };
    assert_eq!(holds("x=1 => y=1 /\\ z=0"), Some(false));
    assert_eq!(holds("x=1 => y=1 /\\ z=1"), Some(true));
    assert_eq!(holds("z=1 \\/ x=0 => y=1"), Some(true));
    assert_eq!(holds("x=1 => z=1 => y=1"), Some(true));
}

#[test]
fn what_was_not_seen_within_bounds_is_not_said() {
    let endless = "X86 A\n{ x=0; }\n P0 ;\n L0: INC EAX ;\n JMP L0 ;\n";
    for (asked, satisfied) in [("exists (x=1)", None), ("~exists (x=1)", None), ("forall (x=0)", None)] {
        let test = Test::parse(&format!("{endless}{asked}")).expect("a test");
        let judged = test.judge(Model::Tso);
        assert_eq!((judged.satisfies(test.quantifier), judged.observation()), (satisfied, None), "{asked}");
    }
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
    let (line, _, message) = place("X86 A\n{ }\n P0 ;\n L1: ;\n JMP L2 ;\nexists (x=1)");
    assert_eq!(line, 5, "{message}");
    assert_eq!(place("AArch64 A\n{}\n P0 ;\nexists (x=1)").0, 1);
    assert_eq!(place("X86 A\n{ x=0; }\n P0 ;\n MOV [x],$1 ;\nexists (7:EAX=1)").0, 5);
    assert_eq!(place("C A\n{ }\nP0 (int* x) {\n  frob(x);\n}\nexists (x=1)").0, 4);
    assert_eq!(place("X86 A\n{ x=0; }\n P0 ;\n MOV [x+9223372036854775807],$1 ;\nexists (x=1)").0, 4);
    assert_eq!(place("").0, 1);
}

/// What herd and the tools beside it write, and readers skip.
#[test]
fn what_is_said_to_other_tools_changes_nothing() {
    const SB: &str = " P0 | P1 ;\n MOV [x],$1 | MOV [y],$1 ;\n MOV EAX,[y] | MOV EAX,[x] ;\n";
    const ASKED: &str = "exists (0:EAX=0 /\\ 1:EAX=0)";
    let plain = Test::parse(&format!("X86 SB\n{{ x=0; y=0; }}\n{SB}{ASKED}")).expect("plain");
    let same = |text: &str| {
        let read = Test::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!((&read.program, &read.condition), (&plain.program, &plain.condition), "{text}");
    };
    for state in ["{x = 0; y = 0};", "{ x=0; y=0; };", "{ x=0; y=0 };;"] {
        same(&format!("X86 SB\n{state}\n{SB}{ASKED}"));
    }
    for behind in [
        "\n<<\nruns = 100\nprocesses: (P0, P1) exists\n>>\n",
        "\n<< never closed",
        "\nwith\n tso: exists;\n sc: ~exists;\n default: ~ exists",
        " with tso: exists;\nshow x, y\n",
        "\nshow [x] of tso;\n<<a>>\nlocations [x; y;]\n",
        "\nshow\n",
    ] {
        same(&format!("X86 SB\n{{ x=0; y=0; }}\n{SB}{ASKED}{behind}"));
    }
    let c = Test::parse("C C\n{x = 0; int y = 0};\nP0 (int* x) { *x = 1 }\nexists (x=1)");
    assert_eq!(c.expect_err("no `;` in the thread").at.line, 3);
    Test::parse("C C\n{x = 0; int y = 0};\nP0 (int* x) { *x = 1; }\nexists (x=1)").expect("C");
    let text = format!("X86 SB\n{{ x=0; y=0; }}\n{SB}{ASKED}\nelse\n");
    assert_eq!(Test::parse(&text).expect_err("no such word").trouble, Trouble::Malformed);
}

#[test]
fn a_type_that_is_not_known_is_not_supported_rather_than_wrong() {
    let x86 = |state: &str| format!("X86 A\n{{ {state} }}\n P0 ;\n MOV [x],$1 ;\nexists (x=1)");
    let c = |state: &str, parameter: &str, body: &str| {
        format!("C A\n{{ {state} }}\nP0 ({parameter}) {{ {body} }}\nexists (x=1)")
    };
    for text in [
        x86("foo_t x;"),
        x86("foo_t *x = y;"),
        x86("foo_t x[2] = {1, 2};"),
        x86("volatile foo_t **x"),
        x86("foo_t 0:EAX = 1;"),
        x86("struct pair x;"),
        c("foo_t x;", "int* x", "*x = 1;"),
        c("", "foo_t* x", "frob(x);"),
        c("", "foo_t x", ";"),
        c("", "const foo_t* x, int* y", ";"),
        c("", "int* x", "foo_t r0;"),
        c("", "int* x", "foo_t *r0 = x;"),
        c("", "int* x", "int r0 = (foo_t) 1;"),
        c("", "int* x", "int r0 = *(foo_t *) x;"),
        x86("") + "\nlocations [foo_t x;]",
        x86("") + "\nlocations [x foo_t;]",
    ] {
        let error = Test::parse(&text).expect_err(&text);
        assert_eq!(error.trouble, Trouble::Unsupported, "{error}\n{text}");
    }
    for text in
        [c("", "int* x", "int a = 2; int b = 3; int r0 = (a) * (b); *x = (a) * b;"), x86("x=1; int y")]
    {
        Test::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
}

/// What C has that no file of the suite has: types, casts, and operators that not all numbers have.
const TYPED: &str = "C typed\n{ uint8_t x=255; t={1,2}; p=t; unsigned 0:r3=-1; atomic_bool f=5; }\n\
    P0 (uint8_t* x, uint16_t* t, uint16_t** p, atomic_flag* f) {\n\
      unsigned r0 = *x / (2 + *x) >> 1, *q = 0; int8_t r1 = (int8_t) 200; r0 %= 7; r0 <<= 3;\n\
      uint16_t *r2 = *p + 1; *r2 -= (uint64_t) r3; if (atomic_flag_test_and_set(f)) atomic_init(x, -1u);\n\
    }\n\
    P1 (atomic_uchar* x, uint16_t* t) { long r0 = atomic_add_return(1, x); r1 = t; t[1] = r0 ? -1 : 1u; }\n\
    exists (x=-1 /\\ 0:r1=-56 /\\ ~(0:r0=1:r0) /\\ t[1]=65535)";

/// The files of the suite as texts, and one more.
fn all_texts() -> Vec<String> {
    let mut files = verdicts().into_iter().map(|(file, ..)| file).collect::<Vec<_>>();
    files.dedup();
    files.iter().map(|file| read(file)).chain([TYPED.to_owned()]).collect()
}

/// Reads a text that may be anything, and judges what can be read, within narrow limits.
fn try_out(text: &str) {
    if let Ok(test) = Test::parse(text) {
        let limits = Limits { iterations: 2, executions: 50, time: Some(Duration::from_millis(50)) };
        for model in [Model::Tso, Model::Ra] {
            let judged = test.judge_within(model, &limits);
            if let Some(fault) = judged.finals.fault {
                assert_eq!(test.explain(&fault).trouble, Trouble::Unsupported);
            }
        }
    }
}

/// Numbers below a bound, the same for each seed (xorshift).
fn random_from(mut state: u64) -> impl FnMut(usize) -> usize {
    move |bound| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % bound
    }
}

#[test]
fn no_beginning_of_a_test_makes_the_reader_panic() {
    Test::parse(TYPED).expect("typed");
    for text in all_texts() {
        for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
            let _ = Test::parse(&text[..end]);
            // Something foreign in the middle is no reason either.
            let _ = Test::parse(&format!("{}\u{1f512}((({}", &text[..end], &text[end..]));
        }
    }
}

#[test]
fn no_damage_to_a_test_makes_the_reader_or_the_models_panic() {
    const PIECES: [&str; 38] = [
        "};", "<<", ">>", "with tso: ~exists;", "show x", "foo_t *", "\0", "\u{1b}[31m", "<b>", "{", "}",
        "(", ")", "[", "]", ";", "|", ",", ":", "$", "%", "*", "(*", "*)", "\"", "-9223372036854775808",
        "18446744073709551616", "0x", "P0", "LOCK", "MOV", "L0:", "JMP L0", "exists", "~", "t[99999999999]",
        "\u{202e}", "'",
    ];
    let texts = all_texts();
    let mut random = random_from(0x9e37_79b9_7f4a_7c15);
    for _ in 0..20_000 {
        let mut bytes = texts[random(texts.len())].clone().into_bytes();
        for _ in 0..1 + random(4) {
            let at = random(bytes.len() + 1);
            match random(5) {
                0 => bytes.truncate(at),
                1 if at < bytes.len() => bytes[at] = random(256) as u8,
                2 => drop(bytes.splice(at..at, PIECES[random(PIECES.len())].bytes())),
                3 => drop(bytes.drain(at..(at + random(12)).min(bytes.len()))),
                _ => {
                    let end = (at + random(60)).min(bytes.len());
                    let copy = bytes[at..end].to_vec();
                    let to = random(bytes.len() + 1);
                    drop(bytes.splice(to..to, copy));
                }
            }
        }
        try_out(&String::from_utf8_lossy(&bytes));
    }
}

/// Whole words are exchanged, left out and written twice, also between tests: what comes of it is mostly right for longer
/// than damaged letters are, so that it gets further into the reader.
#[test]
fn no_rearrangement_of_words_makes_the_reader_or_the_models_panic() {
    const WORDS: [&str; 8] = ["0", "-1", "255", "9223372036854775807", "x", "P1", "*", "{"];
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let words = |text: &str| {
        let mut words: Vec<String> = Vec::new();
        for letter in text.chars() {
            match words.last_mut() {
                Some(word) if is_word(letter) && word.ends_with(is_word) => word.push(letter),
                _ => words.push(letter.to_string()),
            }
        }
        words
    };
    let texts = all_texts().iter().map(|text| words(text)).collect::<Vec<_>>();
    let mut random = random_from(0x5eed_0001);
    for _ in 0..20_000 {
        let mut text = texts[random(texts.len())].clone();
        for _ in 0..1 + random(3) {
            let (at, other) = (random(text.len()), random(text.len()));
            match random(5) {
                0 => text.swap(at, other),
                1 => drop(text.remove(at)),
                2 => text.insert(at, text[other].clone()),
                3 => text[at] = WORDS[random(WORDS.len())].to_owned(),
                _ => {
                    let from = &texts[random(texts.len())];
                    let start = random(from.len());
                    let part = from[start..(start + 1 + random(20)).min(from.len())].to_vec();
                    drop(text.splice(at..at, part));
                }
            }
            if text.is_empty() {
                break;
            }
        }
        try_out(&text.concat());
    }
}

#[test]
fn huge_and_deeply_nested_files_are_read_or_refused_quickly() {
    let x86 = |body: &str| format!("X86 A\n{{ x=0; }}\n P0 ;\n{body}\nexists (x=1)");
    let c = |body: &str| format!("C A\n{{ }}\nP0 (int* x) {{ {body} }}\nexists (x=1)");
    for piece in [
        "(", "(*", "[", "{", "\"", "~", "not ", "x=1;", "x=1 /\\ ", "a ", "0:", "\0", "\u{1f512}", "/*", "-",
        "\n",
    ] {
        let many = piece.repeat((1 << 18) / piece.len());
        for text in [many.clone(), x86(&many), c(&many), format!("X86 A\n{{ {many}"), format!("X86 {many}")] {
            let _ = Test::parse(&text);
        }
        let _ = Test::parse(&format!("X86 A\n{{ x=0; }}\n P0 ;\nexists {many}"));
    }
    let chain = "x=1 /\\ ".repeat(100_000);
    let test = Test::parse(&format!("X86 A\n{{ x=1; }}\n P0 ;\nNOP;\nforall ({chain}x=1)"))
        .expect("long, and right");
    assert_eq!(test.judge(Model::Tso).satisfies(Quantifier::Forall), Some(true));
    let long = format!("int a = {}1;", "1+".repeat(100_000));
    assert_eq!(Test::parse(&c(&long)).expect_err("too long").trouble, Trouble::Unsupported);
    let many = "MOV [x],$1 ;\n".repeat(20_000);
    assert_eq!(Test::parse(&x86(&many)).expect_err("too many").trouble, Trouble::Unsupported);
    let labels = (0..200_000).map(|n| format!("L{n}: ")).collect::<String>();
    Test::parse(&x86(&format!("JMP L199999 ;\n{labels}NOP ;\n"))).expect("all before one instruction");
    let sum = format!("MOV EAX,[EBX{}] ;\n", "+EBX".repeat(100_000));
    assert_eq!(Test::parse(&x86(&sum)).expect_err("too many registers").trouble, Trouble::Unsupported);
    let shown = format!("C A\n{{ int t[1024]; }}\nP0 (int* x) {{ }}\nlocations [{}]", "t;".repeat(100_000));
    assert_eq!(Test::parse(&shown).expect_err("too many places").trouble, Trouble::Unsupported);
    // Each of a row of loops within loops goes on for ever.
    let nested = (0..500).map(|n| format!("L{n}: INC EAX ;\n")).collect::<String>()
        + &(0..500).rev().map(|n| format!("JMP L{n} ;\n")).collect::<String>();
    try_out(&x86(&nested));
    try_out(&c(&"do { x[0] = 1; ".repeat(90)));
}

#[test]
fn a_message_holds_nothing_that_acts_on_a_terminal() {
    let error = Test::parse("X86 A\n{ x=0; }\n P0 ;\n \u{1b}]0;owned\u{7} ;\nexists (x=1)")
        .expect_err("no instruction");
    assert!(!error.to_string().chars().any(char::is_control), "{error:?}");
    let error = Test::parse(&format!("X86 A\n{{ x=0; }}\n P0 ;\n {} ;\n", "A".repeat(1 << 20)))
        .expect_err("too long");
    assert!(error.message.len() < 1_000);
}

/// The verdict of x86-TSO on a test that is written here.
fn tso(text: &str) -> bool {
    let test = Test::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let judged = test.judge(Model::Tso);
    assert_eq!((judged.finals.fault, judged.finals.bounded), (None, false), "{text}");
    judged.is_allowed()
}

#[test]
fn jumps_go_where_their_condition_says() {
    // Each row: what is compared, and which jumps are taken.
    for (a, b, taken) in [
        (1, 1, "JE JZ JLE JGE JBE JAE JNS"),
        (1, 2, "JNE JNZ JL JLE JNGE JB JBE JNAE JS"),
        (2, 1, "JNE JNZ JG JGE JNLE JA JAE JNBE JNS"),
        (-1, 1, "JNE JNZ JL JLE JNGE JA JAE JNBE JS"),
    ] {
        for jump in "JE JZ JNE JNZ JL JLE JG JGE JNLE JNGE JA JAE JB JBE JNAE JNBE JS JNS".split(' ') {
            let text = format!(
                "X86 A\n{{ 0:EAX={a}; 0:EBX={b}; }}\n P0 ;\n CMP EAX,EBX ;\n {jump} L0 ;\n MOV ECX,$1 ;\n L0: NOP ;\nexists (0:ECX=0)"
            );
            let expected = taken.split(' ').any(|name| name == jump);
            assert_eq!(tso(&text), expected, "{a} {b} {jump}");
        }
    }
    // Flags of other instructions: a decrement to zero, a sum below zero, a bit that was set.
    assert!(tso(
        "X86 A\n{ x=1; }\n P0 ;\n LOCK DEC [x] ;\n JNE L0 ;\n MOV EAX,$7 ;\n L0: ;\nexists (0:EAX=7)"
    ));
    assert!(tso("X86 A\n{ }\n P0 ;\n ADD EAX,$-3 ;\n JS L0 ;\n MOV EAX,$7 ;\n L0: ;\nexists (0:EAX=-3)"));
    assert!(tso("X86 A\n{ x=4; }\n P0 ;\n LOCK BTS [x],$2 ;\n SETC AL ;\nexists (0:EAX=1 /\\ x=4)"));
    assert!(tso(
        "X86_64 A\n{ x=5; 0:rax=7; }\n P0 ;\n cmpl $1,%ebx ;\n cmovc %eax,(x) ;\n cmovnc (x),%ecx ;\nexists (x=5 /\\ 0:rax=5 /\\ 0:rcx=0)"
    ));
    assert!(tso(
        "X86_64 A\n{ }\n P0 ;\n cmpl $1,%eax ;\n cmovne %ebx,%ecx ;\n je .L1 ;\n ret ;\n .L1: movl $1,%edx ;\nexists (0:rdx=0)"
    ));
}

#[test]
fn a_spin_lock_excludes_and_a_loop_that_writes_is_a_bound() {
    let lock = "X86 A\n{ l=0; x=0; }\n P0 | P1 ;\n L0: MOV EBX,$1 | L0: MOV EBX,$1 ;\n XOR EAX,EAX | XOR EAX,EAX ;\n \
                LOCK CMPXCHG [l],EBX | LOCK CMPXCHG [l],EBX ;\n JNZ L0 | JNZ L0 ;\n INC [x] | INC [x] ;\n MOV [l],$0 | MOV [l],$0 ;\n\
                ~exists (x=2)";
    let test = Test::parse(lock).expect("a lock");
    for model in Model::ALL {
        let judged = test.judge(model);
        assert!(!judged.finals.bounded, "a failed exchange writes nothing: {model}");
        assert_eq!(
            judged.observation(),
            Some(if model == Model::Pso { "Sometimes" } else { "Always" }),
            "{model}"
        );
    }
    let exchange = "X86 A\n{ l=0; x=0; }\n P0 | P1 ;\n L0: MOV EBX,$1 | L0: MOV EBX,$1 ;\n XCHG [l],EBX | XCHG [l],EBX ;\n \
                    TEST EBX,EBX | TEST EBX,EBX ;\n JNZ L0 | JNZ L0 ;\n INC [x] | INC [x] ;\n MOV [l],$0 | MOV [l],$0 ;\n\
                    ~exists ~(x=2)";
    let judged = Test::parse(exchange).expect("a lock").judge(Model::Tso);
    assert!(judged.finals.bounded && judged.finals.unrolled, "each failed exchange writes");
    // What the bound lets through is there, for both orders of the two.
    assert_eq!((judged.observation(), judged.holding, judged.others), (None, 0, 1));
    let forever = "X86 A\n{ x=0; }\n P0 ;\n L0: INC EAX ;\n JMP L0 ;\nexists (x=0)";
    assert!(Test::parse(forever).expect("a loop").judge(Model::Sc).finals.bounded);
}

#[test]
fn arrays_offsets_and_sizes_are_one_location_each() {
    let array = "X86_64 A\n{ int64_t t[2]={1,-1}; 0:rax=t; 0:rbx=1; }\n P0 ;\n movq 0(%rax,%ebx,8),%rcx ;\n movq (t),%rdx ;\n\
                 locations [t;]\nforall (0:rcx=-1 /\\ 0:rdx=1 /\\ t[1]=-1)";
    let judged = Test::parse(array).expect("an array").judge(Model::Tso);
    assert_eq!((judged.satisfies(Quantifier::Forall), judged.holding), (Some(true), 1));
    assert!(tso(
        "X86 A\n{ int t[3]; x=t; }\n P0 ;\n MOV EAX,[x] ;\n MOV [EAX+4],$5 ;\n MOV EBX,[t+4] ;\nexists (0:EBX=5 /\\ t[1]=5 /\\ t[2]=0)"
    ));
    assert!(tso(
        "X86_64 A\n{ int8_t y=0; int16_t z; }\n P0 ;\n movb $-1,(y) ;\n movw $7,(z) ;\n movzbl (y),%eax ;\n movsbl (y),%ebx ;\n\
                 exists (y=255 /\\ 0:rax=255 /\\ 0:ebx=-1 /\\ z=7)"
    ));
    assert!(tso(
        "X86_64 A\n{ 0:rax=0x1122334455667788; }\n P0 ;\n movb $1,%al ;\n movq %rax,%rbx ;\n movl %eax,%ecx ;\n\
                 exists (0:rbx=0x1122334455667701 /\\ 0:rcx=0x55667701)"
    ));
    // Two halves of a word are two locations, if no access wants the whole.
    assert!(tso("X86 A\n{ }\n P0 ;\n MOVW [x],$1 ;\n MOVW [x+2],$2 ;\nexists (x=1)"));
    let refused = |text: &str| {
        let error = Test::parse(text).expect_err(text);
        assert_eq!(error.trouble, Trouble::Unsupported, "{error}");
        error.at.line
    };
    assert_eq!(refused("X86 A\n{ }\n P0 ;\n MOVL [x],$1 ;\n MOVB [x],$2 ;\nexists (x=1)"), 5);
    assert_eq!(refused("X86 A\n{ }\n P0 ;\n MOVNTI [x],EAX ;\nexists (x=1)"), 4);
    refused("X86 A\n{ }\n P0 ;\n MOVL [x],$1 ;\n MOVB [x+1],$2 ;\nexists (x=1)");
    let through =
        "X86_64 A\n{ int64_t x; 0:rdi=x; }\n P0 ;\n movq $1,(x) ;\n movb $1,1(%rdi) ;\nexists (x=1)";
    let test = Test::parse(through).expect("readable");
    let fault = test.judge(Model::Sc).finals.fault.expect("half an access");
    assert_eq!(test.explain(&fault).at.line, 5);
}

#[test]
fn c_has_loops_choices_and_pointers() {
    let holds = |text: &str| {
        let test = Test::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let judged = test.judge(Model::Ra);
        assert!(!judged.finals.bounded && judged.finals.fault.is_none(), "{text}");
        assert_eq!(judged.satisfies(test.quantifier), Some(true), "{text}");
    };
    holds(
        "C A\n{ int t[3] = {1,2,3}; }\nP0 (int* t) { int s = 0; for (int i = 0; i < 3; i++) { if (i == 1) continue; s += t[i]; } }\nforall (0:s=4)",
    );
    holds(
        "C A\n{ int x = 0 }\nP0 (int *x) { int* p = x; *p = 5; int r = *x == 5 ? 7 : 8; goto end; r = 9; end: ; }\nforall (0:r=7 /\\ x=5)",
    );
    // The right side of && is not looked at when the left decides.
    holds(
        "C A\n{ }\nP0 (atomic_int* x) { int r0 = 0; int r1 = (r0 && atomic_fetch_add(x, 1)) || !r0; }\nforall (0:r1=1 /\\ x=0)",
    );
    holds(
        "C A\n{}\nP0 (atomic_int* x, atomic_int* y) { *x = 1; int r0 = *y; }\nP1 (atomic_int* x, atomic_int* y) { *y = 1; int r0 = *x; }\n~exists (0:r0=0 /\\ 1:r0=0)",
    );
    holds(
        "C A\n{}\nP0 (int* x, int* y) { WRITE_ONCE(*x, 1); int r0 = xchg(y, 1); smp_mb(); }\nP1 (int *x, int* y) { int r1; r1 = READ_ONCE(*y); smp_rmb(); int r2 = READ_ONCE(*x); }\n~exists (1:r1=1 /\\ 1:r2=0)",
    );
    holds(
        "C A\n{}\nP0 (int* x) { int s; s = 0; for (int i = 0, j = 9; i < j; ++i, j--) ++s; --s; }\nforall (0:s=4)",
    );
    // An atomic location is changed in one step, whatever it is written as.
    holds(
        "C A\n{ x=0; }\nP0 (atomic_int* x) { *x += 1; x[0] |= 4; }\nP1 (atomic_int* x) { ++*x; (*x)--; }\nforall (x=5)",
    );
    holds("C A\n{ x=0; }\nP0 (int* x) { (*x)++; (*x) |= 6; *x ^= 1; *x *= 2; *x &= 8; }\nforall (x=8)");
    holds("C A\n{ x=1; }\nP0 (int* x) { int r0; while ((r0 = *x) == 0) ; }\nforall (0:r0=1)");
    let moved = Test::parse("C A\n{ x=0; }\nP0 (int* x) { *x++; }\nexists (x=1)").expect_err("x is moved");
    assert!(moved.message.contains("write `(*x)++`"), "{moved}");
    // A counter behind a lock that is taken by compare and exchange.
    holds(
        "C A\n{}\nP0 (atomic_int* l, int* x) { int e; do { e = 0; } while (!atomic_compare_exchange_strong_explicit(l, &e, 1, memory_order_acquire, memory_order_relaxed)); *x += 1; atomic_store_explicit(l, 0, memory_order_release); }\n\
           P1 (atomic_int* l, int* x) { int e = 0; while (!atomic_compare_exchange_strong_explicit(l, &e, 1, memory_order_acquire, memory_order_relaxed)) e = 0; *x += 1; atomic_store_explicit(l, 0, memory_order_release); }\nforall (x=2)",
    );
}

/// Plain accesses of what is atomic are seq_cst; what is not atomic has a race.
#[test]
fn the_type_says_what_is_atomic_and_not_the_name() {
    let buffering = |parameters: &str, store: &str| {
        let body = |store: &str, other: &str| format!("{{ {store} int r = *{other}; }}");
        let (first, second) = (body(&store.replace('L', "x"), "y"), body(&store.replace('L', "y"), "x"));
        let text = format!(
            "C A\n{{}}\nP0 ({parameters}) {first}\nP1 ({parameters}) {second}\nexists (0:r=0 /\\ 1:r=0)"
        );
        let judged = Test::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")).judge(Model::Ra);
        (judged.is_allowed(), judged.finals.race)
    };
    for atomic in [
        "atomic_int* L", "volatile atomic_int *L", "const atomic_int* L", "int _Atomic* L", "_Atomic(int)* L",
    ] {
        let parameters = format!("{}, {}", atomic.replace('L', "x"), atomic.replace('L', "y"));
        assert_eq!(buffering(&parameters, "*L = 1;"), (false, false), "{parameters}");
        assert_eq!(buffering(&parameters, "atomic_int *p = L; *p = 1;"), (false, false), "{parameters}");
    }
    let plain = "int* nonatomic, int* x, int* y";
    assert_eq!(buffering(plain, "*L = 1;"), (true, true));
}

/// C leaves open what they mean, herd reads them, and suites have some to see what a tool says.
#[test]
fn an_order_that_an_access_cannot_have_is_not_supported() {
    for (body, message) in [
        ("atomic_load_explicit(x, memory_order_release);", "a load does not release"),
        ("atomic_load_explicit(x, memory_order_acq_rel);", "a load does not release"),
        ("atomic_store_explicit(x, 1, memory_order_acquire);", "a store does not acquire"),
        (
            "int e = 0; atomic_compare_exchange_strong_explicit(x, &e, 1, memory_order_seq_cst, memory_order_release);",
            "an exchange that fails does not release",
        ),
    ] {
        let text = format!("C A\n{{}}\nP0 (atomic_int* x) {{ {body} }}\nexists (x=1)");
        let error = Test::parse(&text).expect_err(body);
        assert_eq!((error.trouble, error.message.as_str()), (Trouble::Unsupported, message), "{body}");
    }
}

#[test]
fn what_the_processor_does_is_what_its_model_allows() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    for file in [
        "SB.litmus", "SB+mfences.litmus", "n6.litmus", "xadd-atomic.litmus", "SB+spin.litmus",
        "sizes-MP.litmus",
    ] {
        let test = Test::parse(&read(file)).expect("of the suite");
        let allowed = test.judge(Model::Tso).finals.states;
        let outcomes = native::run(&test, 5_000, 7, None).expect("no pointers");
        assert!(outcomes.values().sum::<u64>() >= 5_000, "{file}");
        assert!(outcomes.keys().all(|end| allowed.contains(end)), "{file}: {outcomes:?}");
    }
}
