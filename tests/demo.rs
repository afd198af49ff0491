//! `contend advise`, and the demo, which is that on the program inside the command.

mod common;

use common::{CONTEND, HANG, contend, run, send};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program that keeps a core busy until this is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let spin = ["-c", "while :; do :; done"];
        Self(Command::new("sh").args(spin).spawn().expect("a shell starts"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `contend advise` of the demo's program, each run of which leaves a line in a file.
fn advise(runs: &Path, options: &[&str]) -> Command {
    let script = format!(
        "echo run >> '{}'; exec '{CONTEND}' demo-program --duration 40ms --threads {{threads}}",
        runs.display()
    );
    let mut command = contend(&["advise", "--metric", "throughput: ([0-9]+)"]);
    command.args(options).args(["--", "sh", "-c", &script]).env("LC_ALL", "C");
    command
}

fn lines(file: &Path) -> usize {
    std::fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

#[test]
fn a_folder_keeps_what_was_measured_for_another_target() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (runs, kept) = (place.path().join("runs"), place.path().join("kept"));
    let kept = kept.to_str().expect("a path of text");
    let options = ["-o", kept, "--threads", "1,2", "--target", "typical", "--json"];
    let first = run(advise(&runs, &options), HANG);
    let all: Value = serde_json::from_str(&first.stdout).expect("the command prints JSON");
    // A machine that is busy with other tests may be too busy for an answer: then there is the reason alone, and nothing is kept.
    if first.code() == Some(3) {
        assert!(all["void"]["remedy"].is_string() && all["findings"] == serde_json::json!([]), "{all}");
        assert!(!Path::new(kept).join("measured.json").exists());
        return;
    }
    assert_eq!(first.code(), Some(0), "{first}");
    assert_eq!(all["target"], "typical");
    assert_eq!(all["measured"]["threads"], serde_json::json!([1, 2]));
    let suspect = &all["measured"]["suspects"][0];
    assert_eq!(suspect["kind"], "rwlock", "{all}");
    let tried: Vec<&str> = all["measured"]["cases"]
        .as_array()
        .expect("cases are an array")
        .iter()
        .filter_map(|case| case["swap"][1].as_str())
        .collect();
    assert!(tried.contains(&"rw") && !tried.contains(&"mcs"), "readers share no mcs: {tried:?}");
    let counted = lines(&runs);
    assert!(counted > 10, "{counted} runs");

    let page = place.path().join("page.html");
    let page = page.to_str().expect("a path of text");
    let options = ["-o", kept, "--threads", "1,2", "--target", "graviton3", "--html", page];
    let second = run(advise(&runs, &options), HANG);
    assert_eq!((second.code(), lines(&runs)), (first.code(), counted), "{second}");
    let said = &second.stdout;
    assert!(said.is_ascii() && said.lines().count() <= 20, "{said}");
    assert!(said.lines().all(|line| line.len() <= 80), "{said}");
    assert!(std::fs::read_to_string(page).is_ok_and(|page| page.contains("</html>")));

    let other = run(contend(&["advise", "-o", kept, "--", "sh", "-c", "exit 0"]), HANG);
    assert!(!other.succeeded() && other.stderr.contains("another command"), "{other}");
}

/// What `advise` printed and what it said of the interrupt that it got after so many runs of its program; none if the machine was too
/// busy for an answer, which it tells of at once.
fn interrupted_after(number_of_runs: usize) -> Option<(String, String)> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let runs = place.path().join("runs");
    let mut command = advise(&runs, &["--threads", "1,2", "--target", "typical"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let started = Instant::now();
    while lines(&runs) < number_of_runs {
        assert!(started.elapsed() < HANG, "the program is not run");
        if child.try_wait().expect("it can be waited for").is_some_and(|status| status.code() == Some(3)) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    send(child.id(), libc::SIGINT);
    let output = child.wait_with_output().expect("it ends");
    let [printed, said] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert_eq!(output.status.code(), Some(130), "{printed}{said}");
    Some((printed, said.split_whitespace().collect::<Vec<_>>().join(" ")))
}

#[test]
fn an_interrupt_ends_with_what_is_known() {
    // Two runs as it is, two and more recorded, and the first rounds.
    let Some((printed, _)) = interrupted_after(16) else { return };
    assert!(printed.contains("Cut short") || printed.starts_with("Nothing is said"), "{printed}");
}

#[test]
fn an_interrupt_before_locks_are_known_tells_what_the_runs_took() {
    let Some((printed, said)) = interrupted_after(2) else { return };
    let so_far = said.contains("nothing is known of its locks yet; as it is, it took") && printed.is_empty();
    // It may have come later than it was meant to.
    assert!(
        so_far || printed.contains("Cut short") || printed.starts_with("Nothing is said"),
        "{printed}{said}"
    );
}

#[test]
fn commands_that_cannot_be_answered_are_refused_with_a_remedy() {
    for (arguments, ends, words) in [
        (&["--threads", "1,2", "--", "true"][..], 2, "{threads}"),
        (&["--target", "nosuch", "--", "true"], 2, "contend machines"),
        (&["--ops-regex", "ops", "--", "true"], 2, "parentheses"),
        (&["--threads", "1", "--", "sh", "-c", "echo why; exit 7"], 1, "exit code 7; it wrote last: why"),
    ] {
        let mut command = Command::new(CONTEND);
        command.arg("advise").args(arguments);
        let refused = run(command, HANG);
        assert_eq!(refused.code(), Some(ends), "{refused}");
        assert!(refused.stderr.replace('\n', " ").contains(words), "{words}: {refused}");
    }
}

#[test]
fn a_busy_machine_fails_no_demo() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let busy: Vec<_> = (0..cores.min(16)).map(|_| Busy::start()).collect();
    let mut command = Command::new(CONTEND);
    command.arg("demo").arg("--output").arg(place.path()).env("LC_ALL", "C");
    let shown = run(command, HANG);
    drop(busy);
    assert!(shown.succeeded(), "{shown}");
    for words in ["$ contend advise", "Later: ", "Pages: "] {
        assert!(shown.stdout.contains(words), "{words}: {shown}");
    }
    let widest = shown.stdout.lines().max_by_key(|line| line.chars().count()).expect("lines");
    assert!(widest.chars().count() <= 80, "{widest}");
}
