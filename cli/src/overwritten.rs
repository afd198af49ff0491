//! Files that a command is to write and that it reads, or writes twice: what was there would be lost.

use clap::{Arg, ArgMatches, Command};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, absolute};

/// Flags that name a file to write. Commands that record have a guard of their own for what `--output` names.
const WRITTEN: [&str; 11] =
    ["svg", "html", "folded", "pprof", "otel", "trace", "timeline", "junit", "summary", "cases", "output"];
/// Values that name what a command reads: files, and a program with its arguments.
const READ: [&str; 4] = ["FILE", "PROFILE", "MACHINE", PROGRAM];
const PROGRAM: &str = "CMD";
const RECORDING: [&str; 2] = ["profile", "attach"];

/// What is wrong with the files that a command line names, if anything is.
pub(crate) fn fault(command: &Command, matches: &ArgMatches) -> Option<String> {
    let (mut command, mut matches) = (command, matches);
    let (mut written, mut read) = (Vec::new(), Vec::new());
    while let Some((name, below)) = matches.subcommand() {
        (command, matches) = (command.find_subcommand(name)?, below);
        let takes_values = |arg: &&Arg| arg.get_action().takes_values();
        for arg in command.get_arguments().filter(takes_values) {
            let values = matches.try_get_raw(arg.get_id().as_str()).ok().flatten().into_iter().flatten();
            match arg.get_long().filter(|_| is_written(arg, name)) {
                Some(flag) => written.extend(values.map(|value| (flag.to_owned(), value))),
                // Of a program and its arguments, the program.
                None if names(arg, &[PROGRAM]) => read.extend(values.take(1)),
                None if names(arg, &READ) => read.extend(values),
                None => {}
            }
        }
    }
    let two = || {
        written.iter().enumerate().flat_map(|(at, one)| written[..at].iter().map(move |other| (other, one)))
    };
    let twice = two().find(|((_, one), (_, other))| is_same(one, other));
    if let Some(((one, _), (other, path))) = twice {
        return Some(format!("--{one} and --{other} name one file, {}: give each its own", shown(path)));
    }
    let both = written.iter().find(|(_, path)| read.iter().any(|read| is_same_file(path, read)));
    both.map(|(flag, path)| {
        format!(
            "--{flag}: {} is read by this command, and would be written over: give the file that is to be written another name",
            shown(path)
        )
    })
}

fn is_written(arg: &Arg, command: &str) -> bool {
    let is_recorded = arg.get_long() == Some("output") && RECORDING.contains(&command);
    names(arg, &["FILE"]) && !is_recorded && arg.get_long().is_some_and(|long| WRITTEN.contains(&long))
}

/// Whether one of the names of an argument's values, such as `FILE|PID` or `PROFILE,…`, is among `sought`.
fn names(arg: &Arg, sought: &[&str]) -> bool {
    let is_sought =
        |name: &str| name.split(|char: char| !char.is_ascii_uppercase()).any(|word| sought.contains(&word));
    arg.get_value_names().is_some_and(|names| names.iter().any(|name| is_sought(name)))
}

fn shown(path: &OsStr) -> String {
    ::report::text::printable(&path.to_string_lossy())
}

fn is_same(one: &OsStr, other: &OsStr) -> bool {
    let [a, b] = [one, other].map(|path| absolute(Path::new(path)).ok());
    a.is_some() && a == b || is_same_file(one, other)
}

/// Whether both are there and one file; `/dev/null` is none.
fn is_same_file(one: &OsStr, other: &OsStr) -> bool {
    let [a, b] = [one, other].map(|path| Path::new(path).metadata().ok().filter(std::fs::Metadata::is_file));
    a.zip(b).is_some_and(|(a, b)| (a.dev(), a.ino()) == (b.dev(), b.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Option<String> {
        let command = crate::command();
        let words = std::iter::once("contend").chain(words.iter().copied());
        fault(&command, &command.clone().try_get_matches_from(words).expect("a command line"))
    }

    #[test]
    fn what_is_read_is_not_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let (curve, program, link, fresh) = (at("curve.csv"), at("program"), at("link"), at("fresh"));
        std::fs::write(&curve, "cores,throughput\n1,1\n").expect("a file");
        std::fs::write(&program, "").expect("a file");
        std::os::unix::fs::symlink(&curve, &link).expect("a link");
        for written in [&curve, &link] {
            let said = of(&["extrapolate", &curve, "--svg", written]).expect("it is read");
            assert!(said.starts_with("--svg: ") && said.contains("would be written over"), "{said}");
        }
        assert!(of(&["compare", "--lock", "mcs", "--svg", &program, "--", &program, "2"]).is_some());
        assert_eq!(of(&["compare", "--lock", "mcs", "--svg", &fresh, "--", &program, &fresh]), None);
        assert_eq!(of(&["profile", "--output", &fresh, "--", &program, &curve]), None);
        assert!(of(&["validate", "--programs", &curve, "--cases", &curve]).is_some());
        let gate =
            |junit: &str| of(&["gate", "--junit", junit, "--base", &program, "--", &curve, &fresh, &link]);
        assert!(gate(&program).is_some() && gate(&curve).is_some());
        assert_eq!(gate(&fresh), None, "it is an argument of the program");
        assert_eq!(of(&["simulate", "counter", "--svg", "counter"]), None, "a workload is no file");
    }

    #[test]
    fn two_files_that_are_written_have_two_names() {
        let said = of(&["predict", "p.contend", "--html", "x", "--svg", "./x"]).expect("one name");
        assert!(
            said.contains("--html") && said.contains("--svg") && said.contains("name one file"),
            "{said}"
        );
        assert_eq!(of(&["predict", "p.contend", "--html", "x.html", "--svg", "x.svg"]), None);
        assert_eq!(of(&["predict", "p.contend", "--html", "/dev/null", "--svg", "/dev/zero"]), None);
    }
}
