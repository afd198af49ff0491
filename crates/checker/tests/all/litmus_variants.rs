//! The project's litmus tests as other tools write them: what is added for those tools changes no test.

use crate::common::suite;
use contend_checker::Model;
use contend_checker::litmus::Test;

/// Where the initial state ends: behind the brace that closes it.
fn end_of_initial_state(text: &str) -> usize {
    let start = text.find('{').expect("an initial state");
    let mut depth = 0;
    for (at, letter) in text[start..].char_indices() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        if depth == 0 {
            return start + at + 1;
        }
    }
    panic!("the initial state ends");
}

/// What may stand behind the initial state.
const AFTER_STATE: [&str; 4] = ["", ";", " ;", "\n;\n"];

/// What may stand behind the condition.
const AFTER_CONDITION: [&str; 9] = [
    "",
    ";",
    "\n\n(* a comment *)\n",
    "\n<<\n0:EAX >> ",
    "\n<< -smt 2 >>\n",
    "\nwith tso: exists; default: ~exists;\n",
    "\nwith sc: ~exists; default: exists;\nshow memory\n",
    "\nshow proc, memory;\n",
    "\n<< -o x >>\nwith sc: ~exists;\nshow all\n",
];

/// What the lines of a file end with.
const LINE_ENDS: [&str; 2] = ["\n", "\r\n"];

/// What a test says, wherever it says it.
fn meaning(text: &str) -> Result<Test, String> {
    let mut test = Test::parse(text).map_err(|error| format!("{error}\n{text}"))?;
    test.places.clear();
    Ok(test)
}

#[test]
fn what_is_written_for_other_tools_changes_no_test() {
    let mut tried = 0;
    for (file, text) in suite() {
        let Ok(plain) = meaning(&text) else { continue }; // refused on purpose
        let (state, rest) = text.split_at(end_of_initial_state(&text));
        for after_state in AFTER_STATE {
            for after_condition in AFTER_CONDITION {
                for line_end in LINE_ENDS {
                    let variant = format!("{state}{after_state}{}{after_condition}", rest.trim_end());
                    let variant = variant.replace("\r\n", "\n").replace('\n', line_end);
                    let read = meaning(&variant).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
                    assert_eq!(read, plain, "{}:\n{variant}", file.display());
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 2_000, "{tried} variants");
}

#[test]
fn the_verdicts_of_a_variant_are_those_of_the_test() {
    for (file, text) in suite().into_iter().step_by(5) {
        let Ok(plain) = Test::parse(&text) else { continue };
        let (state, rest) = text.split_at(end_of_initial_state(&text));
        let variant = format!("{state};{}\n<< -a 2 >>\nwith sc: exists;\nshow all\n", rest.trim_end());
        let variant = Test::parse(&variant).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for model in Model::ALL {
            let (plain, variant) = (plain.judge(model), variant.judge(model));
            assert_eq!(
                (plain.holding, plain.others),
                (variant.holding, variant.others),
                "{}",
                file.display()
            );
        }
    }
}
