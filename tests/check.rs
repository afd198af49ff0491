//! A counterexample can be run again by the command that is printed with it.

#[path = "common/all.rs"]
mod all;

use all::are_all;
use std::process::{Command, Output, Stdio};

const CLIENT: [&str; 8] = ["--client", "exclusive", "--threads", "2", "--acquisitions", "1", "--model", "ra"];

fn check<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_contend"));
    command.arg("check").args(arguments).env_remove("COLUMNS"); // whatever the terminal of the tests is
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
    let output = check(printed.split_whitespace().chain(["--json"]));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(printed.ends_with(json["replay"].as_str().expect("a trace")), "{json}");
    assert!(!json["steps"].as_array().expect("steps").is_empty(), "{json}");

    // Of the lock as it is this is no execution, or one in which nothing is wrong.
    let as_it_is = printed.replace(&format!(" --weaken {access}"), "");
    let output = check(as_it_is.split_whitespace());
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(2), "{as_it_is}: {printed}");
    assert!(printed.contains("they part at step") || printed.contains("nothing is wrong"), "{printed}");
    assert!(violation(&printed).is_none(), "{printed}");
}

#[test]
fn mutants_of_an_elided_lock_are_those_of_its_base() {
    let output = check(["elided:ticket", "--mutate"]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{printed}");
    assert!(printed.contains("contend check ticket --mutate"), "{printed}");
}

#[test]
fn a_size_that_was_not_reached_is_not_verified() {
    let of = |size: [&str; 2], limit: &str| {
        let client = ["k42", "--client", "exclusive", "--threads", size[0], "--acquisitions", size[1]];
        let output = check(client.into_iter().chain(["--model", "ra", "--time-limit", limit, "--json"]));
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        let locks: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        locks[0].clone()
    };
    let lock = of(["4", "4"], "1s");
    let exploration = &lock["explorations"][0];
    assert_eq!((&exploration["verdict"], &exploration["threads"]), (&"incomplete: time".into(), &4.into()));
    assert_eq!((&exploration["complete"], &exploration["limit"]), (&false.into(), &"time".into()));
    assert_eq!(lock["complete"], 0);
    // What is small was seen before the large size took the time.
    let smaller = exploration["smaller"].as_array().expect("smaller sizes");
    assert!(smaller.last().is_some_and(|last| last["complete"] == true), "{exploration}");
    let exploration = &of(["4", "4"], "1ns")["explorations"][0];
    assert_eq!(exploration["verdict"], "not begun", "{exploration}");
}

#[test]
fn what_cannot_be_checked_is_said_at_once() {
    for (arguments, said) in [
        (&["mxs"][..], "'mcs'"),
        (&["mcs", "--client", "exclusiv"], "'exclusive'"),
        (&["mcs", "--model", "rra"], "sc, tso, pso, ra"),
        (&["mcs", "--acquisitions", "0"], "0 is not in 1.."),
        (&["mcs", "--threads", "0"], "0 is not in 1.."),
        (&["mcs", "--time-limit", "3 parsecs"], "such as 500ms, 90s or 1.5h"),
        (&["mcs", "--weaken", "McsQueue::acquire.swap=sideways"], "acq_rel"),
    ] {
        let output = check(arguments.iter().copied());
        let text = text(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
    let unknown = check(["mcs", "--weaken", "McsQueue::acquire.swp=acquire"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown).contains("did you mean `McsQueue::acquire.swap=acquire`"), "{}", text(&unknown));
}

/// Each kind of client finds a mistake that it is there for. What takes longest, a small lock of one kind more, is for `tests/all`.
#[test]
fn every_client_finds_its_mistake() {
    let longest = [
        ("osq", "Queued::leave.store=dropped", "timed", [3, 1]),
        // What a fast machine never shows: a node that goes while its predecessor may still write it.
        ("osq", "Queued::detach_from.compare_exchange=relaxed", "all-leave", [3, 1]),
    ];
    let cases = [
        ("tas", "Tas::release.store=dropped", "exclusive", [2, 1]),
        ("ticket", "Ticket::try_acquire.compare_exchange=succeeds", "tried", [2, 1]),
        ("mcs", "Mcs::try_acquire.free_node=dropped", "tried", [3, 1]),
        ("clh-timed", "ClhTimed::leave.store#2=dropped", "timed", [3, 1]),
        ("ttas", "Ttas::acquire_or.timeout=no-timeout", "given-up", [2, 1]),
        ("rw-naive", "RwNaive::acquire_shared_or.timeout=no-timeout", "given-up", [2, 1]),
        ("rw-naive", "RwNaive::join.fetch_sub=dropped", "tried-shared", [2, 1]),
        ("rw-naive", "RwNaive::join.fetch_sub=dropped", "readers-leave", [2, 1]),
        ("rw-naive", "RwNaive::join.fetch_sub=dropped", "preferred-leave", [2, 1]),
        ("rw-queued", "RwQueued::wait_shared.fetch_add=one-more", "meeting", [3, 1]),
        ("ticket4", "Ticket4::acquire.fetch_add=one-more", "wrapping", [2, 1]),
        ("osq", "Osq::release.store=dropped", "many", [2, 1]),
        ("qspin", "Qspin::queue_up.wait=not-waited", "nameless", [3, 1]),
        ("osq", "Osq::append.timeout=no-timeout", "nameless-holder", [2, 1]),
        ("osq", "Osq::acquire_or.timeout=no-timeout", "nameless-leaver", [2, 1]),
        ("mcs", "Mcs::acquire.set=dropped", "passed-on", [2, 1]),
        ("lockref", "LockRef::add_locked.fetch_add=dropped", "dying", [2, 1]),
        ("lockref", "LockRef::change_unlocked.compare_exchange=succeeds", "not-last", [2, 1]),
        ("lockref", "LockRef::change_unlocked.compare_exchange=dropped", "many-references", [2, 1]),
    ];
    for (lock, mistake, client, size) in cases.into_iter().chain(longest.into_iter().filter(|_| are_all())) {
        let [threads, acquisitions] = size.map(|size| size.to_string());
        let size = ["--threads", &threads, "--acquisitions", &acquisitions, "--model", "ra"];
        let output = check([lock, "--weaken", mistake, "--client", client].into_iter().chain(size));
        assert_eq!(output.status.code(), Some(1), "{lock} {mistake} {client}: {}", text(&output));
    }
}

/// Whether a process has its own handlers for Ctrl-C and SIGTERM by now.
fn listens(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 0x4002 == 0x4002)
}

#[test]
fn what_is_finished_is_printed_after_an_interrupt() {
    for signal in ["-INT", "-TERM"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_contend"));
        let directory = tempfile::tempdir().expect("a directory");
        let page = directory.path().join("page.md");
        command.args(["check", "--all", "--mutate", "--output"]).arg(&page);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("contend runs");
        while !listens(child.id()) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let killed = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(killed.expect("kill runs").success());
        let output = child.wait_with_output().expect("it ends");
        let text = text(&output);
        assert_eq!(output.status.code(), Some(130), "{signal}: {text}");
        assert!(text.contains("cut short after") && text.contains("explorations were not begun"), "{text}");
        let page = std::fs::read_to_string(page).expect("the page is written");
        assert!(page.contains("**cut short**"), "{page}");
    }
}
