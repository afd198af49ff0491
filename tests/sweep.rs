//! `contend sweep` hands a grid to the Python package, or says how to get it; what its grids are made of is listed.

mod common;

use common::{CONTEND, contend};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

fn ran(arguments: &[&str], path: &Path) -> Output {
    contend(arguments).env("PATH", path).output().expect("contend runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn without_the_package_the_remedy_is_named() {
    let empty = tempfile::tempdir().expect("a directory");
    let output = ran(&["sweep", "grid.toml"], empty.path());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot start python3") && said.contains("pip install ./python"), "{said}");
}

#[test]
fn python_gets_the_grid_and_this_command() {
    let folder = tempfile::tempdir().expect("a directory");
    let python = folder.path().join("python3");
    std::fs::write(&python, "#!/bin/sh\nshift 2\necho \"$CONTEND\" \"$@\"\nexit 7\n").expect("it is written");
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).expect("it is there");
    let output =
        ran(&["sweep", "-o", "out", "--scheduler", "tcp://head:8786", "-q", "grid.toml"], folder.path());
    let words = "--output out --scheduler tcp://head:8786 --quiet -- grid.toml\n";
    assert_eq!(text(&output.stdout), format!("{CONTEND} {words}"));
    assert_eq!(output.status.code(), Some(7));
}

/// The current folder may be a stranger's: nothing in it is run, though `python3 -c` puts it on the path.
#[test]
fn modules_of_the_current_folder_are_not_run() {
    let folder = tempfile::tempdir().expect("a directory");
    let place = |name: &str| folder.path().join(name);
    std::fs::create_dir(place("contend")).expect("a package");
    for module in ["contend/__init__.py", "contend/sweeps.py", "tomllib.py", "pandas.py", "sysconfig.py"] {
        std::fs::write(place(module), "import os; open('run', 'w').close(); os._exit(9)").expect("a module");
    }
    for path in [None, Some(""), Some(":"), Some(".")] {
        let mut command = contend(&["sweep", "grid.toml"]);
        command.current_dir(folder.path()).env_remove("PYTHONPATH");
        command.envs(path.map(|path| ("PYTHONPATH", path)));
        let output = command.output().expect("contend runs");
        assert!(!output.status.success(), "there is no grid");
        assert!(!place("run").exists(), "{path:?}: {}", text(&output.stderr));
    }
}

#[test]
fn what_there_is_to_check_and_to_reproduce_is_listed() {
    let list = |command| {
        let output = ran(&[command, "--list", "--json"], Path::new(""));
        serde_json::from_slice::<Vec<serde_json::Value>>(&output.stdout).expect("a list")
    };
    let checked = list("check");
    let models = |name| &checked.iter().find(|one| one["lock"] == name).expect("a lock")["models"];
    assert_eq!(*models("mcs"), serde_json::json!(["sc", "tso", "pso", "ra"]));
    assert_eq!(*models("elided:mcs"), serde_json::json!(["sc", "tso"]));
    assert!(list("reproduce").iter().any(|figure| figure["name"] == "fig8"));
}
