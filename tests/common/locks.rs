//! The locks that a program is to run under in turn.

#[path = "all.rs"]
mod all;

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

pub(crate) use all::are_all;

use crate::common::{CONTEND, HANG, run};

/// A lock that `contend locks` offers, with the kinds of object that it can replace.
pub(crate) struct Lock {
    /// The name that `--lock` takes.
    pub(crate) name: String,
    /// Among `mutex`, `rwlock` and `spin`.
    pub(crate) kinds: Vec<String>,
}

/// The locks that stand for their kinds in the ordinary tests: two that collapse, a queue lock, and those that sleep. The C
/// library's locks are what each program runs on first. `tests/all` sets CONTEND_TESTS=all, and every lock has its turn.
const FEW: [&str; 5] = ["ticket", "mcs", "anderson", "rw", "adaptive"];

/// The locks of `contend locks --json` that programs run under, asked for once.
pub(crate) fn locks() -> &'static [Lock] {
    static LOCKS: OnceLock<Vec<Lock>> = OnceLock::new();
    LOCKS.get_or_init(|| {
        let mut command = Command::new(CONTEND);
        command.args(["locks", "--json"]);
        let outcome = run(command, HANG);
        assert!(outcome.succeeded(), "contend locks --json: {outcome}");
        parse_locks(&outcome.stdout).unwrap_or_else(|error| {
            panic!("contend locks --json is no list of names and kinds: {error}\n{}", outcome.stdout)
        })
    })
}

/// Those that have their turn in these tests.
fn tested() -> Vec<&'static Lock> {
    let mut tested: Vec<_> = locks().iter().collect();
    if !are_all() {
        tested.retain(|lock| FEW.contains(&&*lock.name));
        assert_eq!(tested.len(), FEW.len(), "a lock of the ordinary tests has another name now");
    }
    tested
}

fn parse_locks(json: &str) -> Result<Vec<Lock>, String> {
    let value: serde_json::Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let list = value.as_array().filter(|list| !list.is_empty()).ok_or("not an array with something in it")?;
    list.iter().map(|lock| parse_lock(lock).ok_or_else(|| format!("no name or kinds in {lock}"))).collect()
}

fn parse_lock(lock: &serde_json::Value) -> Option<Lock> {
    let kinds = lock.get("kinds")?.as_array()?;
    Some(Lock {
        name: lock.get("name")?.as_str()?.to_owned(),
        kinds: kinds.iter().map(|kind| kind.as_str().map(str::to_owned)).collect::<Option<_>>()?,
    })
}

const KINDS: [&str; 3] = ["mutex", "rwlock", "spin"];

/// What `--lock` is to be given in turn for a program that is about these kinds of lock.
///
/// Every lock that serves one of them; where it is about none in particular, every lock at least once, in
/// combinations of one for each kind.
pub(crate) fn choices(kinds: &[&str]) -> Vec<String> {
    let tested = tested();
    let serving = |kind: &str| -> Vec<&str> {
        tested
            .iter()
            .filter(|lock| lock.kinds.iter().any(|served| served == kind))
            .map(|lock| &*lock.name)
            .collect()
    };
    if let [kind] = kinds {
        return serving(kind).into_iter().map(str::to_owned).collect();
    }
    assert!(kinds.is_empty(), "a program is about one kind of lock or about none in particular");
    let by_kind = KINDS.map(|kind| (kind, serving(kind)));
    let combinations = by_kind.iter().map(|(_, names)| names.len()).max().unwrap_or(0);
    (0..combinations)
        .map(|number| {
            let of_kinds = by_kind.iter().filter(|(_, names)| !names.is_empty());
            let parts: Vec<String> =
                of_kinds.map(|(kind, names)| format!("{kind}={}", names[number % names.len()])).collect();
            parts.join(",")
        })
        .collect()
}

/// The command that runs a program under a lock.
pub(crate) fn under(lock: &str, program: &Path) -> Command {
    let mut command = Command::new(CONTEND);
    command.args(["run", "--lock", lock, "--"]).arg(program);
    command
}

/// The command that runs a program whose locks stay glibc's, each looked at for a site.
pub(crate) fn watched(program: &Path) -> Command {
    for_site("site_of_no_program=mcs", program)
}

/// The command that runs a program with another lock for a site, if it has that: `contend` ends with 3 if not.
pub(crate) fn for_site(site: &str, program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "\"$@\"; code=$?; [ $code -eq 3 ] || exit $code", "sh", CONTEND]);
    command.args(["run", "--only", site, "--"]).arg(program);
    command
}

/// The ways in which a program is recorded once it has run under `choices`: on glibc's locks and on two of these, with
/// times on every pair and on some.
pub(crate) fn recordings(choices: &[String]) -> [(&str, &'static str); 4] {
    let part = |thirds: usize| &*choices[choices.len() * thirds / 3];
    [("glibc", "1"), ("glibc", "1/16"), (part(1), "1"), (part(2), "1/16")]
}

/// The command that runs a program under a lock and records it to a file, with times at this rate.
pub(crate) fn recorded(lock: &str, rate: &str, program: &Path, file: &Path) -> Command {
    let mut command = Command::new(CONTEND);
    command.args(["profile", "-q", "--sample", rate, "-o"]).arg(file);
    // `contend profile` swaps no lock, so the program gets its locks in its environment.
    command.args(["--", "env"]).args(variables(lock)).arg(program);
    command
}

/// What says to the preload library which locks replace which.
fn variables(choice: &str) -> Vec<String> {
    let variable = |kind: &str, name: &str| format!("CONTEND_{}={name}", kind.to_uppercase());
    if choice.contains('=') {
        let parts = choice.split(',').filter_map(|part| part.split_once('='));
        return parts.map(|(kind, name)| variable(kind, name)).collect();
    }
    let lock = locks().iter().find(|lock| lock.name == choice).expect("a lock of the list");
    lock.kinds.iter().map(|kind| variable(kind, choice)).collect()
}

/// Checks that a recording can be read, and that nothing was lost in it.
pub(crate) fn check_recording(file: &Path) -> Result<(), String> {
    let mut command = Command::new(CONTEND);
    command.args(["report", "--json"]).arg(file);
    let outcome = run(command, HANG);
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout)
        .map_err(|error| format!("has no report, {error}: {outcome}"))?;
    match report["header"]["dropped"].as_u64() {
        Some(0) => Ok(()),
        dropped => Err(format!("lost events: {dropped:?}")),
    }
}
