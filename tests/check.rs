//! A counterexample can be run again by the command that is printed with it.

use std::process::{Command, Output};

const CLIENT: [&str; 8] = ["--client", "exclusive", "--threads", "2", "--acquisitions", "1", "--model", "ra"];

fn check<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_contend"));
    command.arg("check").args(arguments);
    command.output().expect("contend runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// An access of the lock without whose ordering this client fails.
fn needed_access(lock: &str) -> String {
    let output = check([lock, "--mutate", "--json"].into_iter().chain(CLIENT));
    let locks: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
    let mutants = locks[0]["mutants"].as_array().expect("mutants");
    let killed = mutants.iter().find(|mutant| mutant["killed"]["client"] == "exclusive 2 × 1");
    killed.and_then(|mutant| mutant["weaken"].as_str()).expect("one that fails").to_owned()
}

#[test]
fn the_printed_command_shows_what_is_wrong_again() {
    let access = needed_access("mcs");
    let first = text(&check(["mcs", "--weaken", &access].into_iter().chain(CLIENT)));
    let printed = first.lines().find_map(|line| line.trim().strip_prefix("contend check "));
    let printed = printed.unwrap_or_else(|| panic!("no command is printed: {first}")).replace('\'', "");
    let output = check(printed.split_whitespace());
    let again = text(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}: {again}");
    let names = ["endless wait", "data race", "node used after its return"];
    let violation = |text: &str| names.iter().find(|&&name| text.contains(name)).copied();
    assert!(violation(&first).is_some(), "{first}");
    assert_eq!(violation(&again), violation(&first), "{again}");

    // Of the lock as it is this is no execution, or one in which nothing is wrong.
    let as_it_is = printed.replace(&format!(" --weaken {access}"), "");
    let output = check(as_it_is.split_whitespace());
    let told = text(&output);
    assert_eq!(output.status.code(), Some(2), "{as_it_is}: {told}");
    assert!(told.contains("they part at step") || told.contains("nothing is wrong"), "{told}");
    assert!(violation(&told).is_none(), "{told}");
}
