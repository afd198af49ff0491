//! The locks that a program is to run under in turn.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::common::{CONTEND, run};

/// A lock that `contend locks` offers, with the kinds of object that it can stand in for.
pub(crate) struct Lock {
    /// The name that `--lock` takes.
    pub(crate) name: String,
    /// Among `mutex`, `rwlock` and `spin`.
    pub(crate) kinds: Vec<String>,
}

/// Every lock of `contend locks --json`, asked for once.
pub(crate) fn locks() -> &'static [Lock] {
    static LOCKS: OnceLock<Vec<Lock>> = OnceLock::new();
    LOCKS.get_or_init(|| {
        let mut command = Command::new(CONTEND);
        command.args(["locks", "--json"]);
        let outcome = run(command, Duration::from_secs(20));
        assert!(outcome.succeeded(), "contend locks --json: {outcome}");
        parse_locks(&outcome.stdout).unwrap_or_else(|error| {
            panic!("contend locks --json is no list of names and kinds: {error}\n{}", outcome.stdout)
        })
    })
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
    let serving = |kind: &str| -> Vec<&str> {
        locks()
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
