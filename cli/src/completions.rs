//! `contend completions`: the scripts of shells.
//!
//! clap_complete writes them. Added is what it does not: elements of lists behind commas and locks behind `KIND=`, in fish the values of
//! positional arguments, and the locks of a profile behind `--site`.

use crate::output::print;
use clap::builder::PossibleValuesParser;
use clap::{Arg, CommandFactory};
use clap_complete::Shell;
use launch::GLIBC;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Print the completions of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend completions bash > /etc/bash_completion.d/contend
  contend completions zsh > ~/.zfunc/_contend")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Runs `contend completions`.
pub(crate) fn run<C: CommandFactory>(args: &Args) -> anyhow::Result<ExitCode> {
    print(&script(args.shell, &C::command()))?;
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell, command: &clap::Command) -> String {
    let mut command = completed(command);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "contend", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => {
            let script = script.replace("complete -F _contend ", "complete -F _contend_elements ");
            format!("{}{script}", include_str!("completions/contend.bash"))
        }
        Shell::Zsh => with_lists_of_zsh(&script, &command),
        Shell::Fish => {
            let mut added = include_str!("completions/contend.fish").to_owned();
            command.get_subcommands().for_each(|below| fish(below, "", &mut added));
            script + &added
        }
        _ => script,
    }
}

/// The script of zsh, in which the values of a list are completed behind each comma and `=`, and sites from a profile.
fn with_lists_of_zsh(script: &str, command: &clap::Command) -> String {
    let first = "autoload -U is-at-least\n";
    let script = script.replacen(first, &format!("{first}\n{}", include_str!("completions/contend.zsh")), 1);
    let script = script.replace(":SITE:_default'", ":SITE:_contend_sites'");
    // `*::` ends options at the first of several files.
    let with_options = |line: &str| match line.strip_prefix("'*::") {
        Some(files) if files.ends_with(":_files' \\") => format!("'*:{files}\n"),
        _ => format!("{line}\n"),
    };
    let script: String = script.lines().map(with_options).collect();
    let locks = command.find_subcommand("run").and_then(|run| values_of(run, "lock")).unwrap_or_default();
    let behind = format!("{{compset -P \"*=\" && compadd \"$expl[@]\" - {}}}", locks.join(" "));
    let script = script.replace(":SITE=LOCK,…:_default'", &format!(":SITE=LOCK,…:{behind}'"));
    let mut lists = String::with_capacity(script.len());
    let mut rest = script.as_str();
    while let Some((before, after)) = rest.split_once(",…:(") {
        let Some((values, after)) = after.split_once(")'") else { break };
        let _ = write!(lists, "{before},…:{{compset -P \"*[,=+]\"; compadd \"$expl[@]\" - {values}}}'");
        rest = after;
    }
    lists + rest
}

/// Adds what clap_complete leaves out of the script of fish for a command and those below it. `above` are the names before it.
fn fish(command: &clap::Command, above: &str, script: &mut String) {
    let name = command.get_name();
    let condition = match above {
        "" => format!("__fish_contend_using_subcommand {name}"),
        _ => format!("{above}; and __fish_seen_subcommand_from {name}"),
    };
    for argument in command.get_arguments() {
        let values = names_of(argument).join(" ");
        let flag = argument.get_long().map(|long| format!(" -l {long} -r")).unwrap_or_default();
        let mut complete = |condition: &str, values: &str| {
            let _ = writeln!(script, "complete -c contend -n \"{condition}\"{flag} -f -a \"{values}\"");
        };
        match argument.get_id().as_str() {
            "site" => complete(&condition, "(__contend_sites)"),
            "only" => {
                let locks = values_of(command, "lock").unwrap_or_default().join(" ");
                let behind = format!("{condition}; and string match -q '*=*' -- (commandline -ct)");
                complete(&behind, &format!("(__contend_elements {locks})"));
            }
            _ if values.is_empty() => {}
            _ if argument.is_positional() => complete(&condition, &values),
            _ if is_list(argument) => complete(&condition, &format!("(__contend_elements {values})")),
            _ => {}
        }
    }
    command.get_subcommands().for_each(|below| fish(below, &condition, script));
}

fn is_list(argument: &Arg) -> bool {
    argument.get_value_delimiter().is_some()
}

/// The values that are completed for an argument.
fn names_of(argument: &Arg) -> Vec<String> {
    let values = argument.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
    let takes_values = argument.get_action().takes_values();
    values.filter(|_| takes_values).map(|value| value.get_name().to_owned()).collect()
}

fn values_of(command: &clap::Command, id: &str) -> Option<Vec<String>> {
    command.get_arguments().find(|argument| argument.get_id() == id).map(names_of)
}

/// A command as completions show it: without hidden commands, and with the names that an argument takes as its values.
fn completed(command: &clap::Command) -> clap::Command {
    // A simulated program has no glibc.
    let glibc = (command.get_name() != "simulate").then_some(GLIBC);
    let locks = || locks::catalogue::LOCKS.iter().map(|lock| lock.name);
    let names = |id: &str| -> Option<Vec<&'static str>> {
        match id {
            "lock" | "locks" => Some(locks().chain(glibc).collect()),
            "machine" | "profiled_on" => Some(topology::carried::names().collect()),
            #[cfg(feature = "full")]
            "workload" => Some(workloads::WORKLOADS.iter().map(|workload| workload.name).collect()),
            _ => None,
        }
    };
    let argument = |argument: &Arg| match names(argument.get_id().as_str()) {
        Some(names) if argument.get_possible_values().is_empty() => {
            argument.clone().value_parser(PossibleValuesParser::new(names))
        }
        // In lists names alone: zsh has no lists of values with explanations.
        _ if is_list(argument) && !argument.get_possible_values().is_empty() => {
            argument.clone().value_parser(PossibleValuesParser::new(names_of(argument)))
        }
        _ => argument.clone(),
    };
    let mut shown = clap::Command::new(command.get_name().to_owned())
        .args(command.get_arguments().map(argument))
        .groups(command.get_groups().cloned())
        .subcommands(command.get_subcommands().filter(|below| !below.is_hide_set()).map(completed));
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        shown = shown.version(version.to_owned());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn script_of(shell: Shell) -> String {
        script(shell, &crate::Command::command())
    }

    /// What bash completes, of words as it splits them: the last one is completed.
    fn bash(words: &[&str]) -> Vec<String> {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("contend.bash");
        std::fs::write(&file, script_of(Shell::Bash)).expect("the script");
        std::fs::write(directory.path().join("p.contend"), "").expect("a profile");
        let ask = "source contend.bash; \
             contend() { printf '%s\n' name,kind 'cache+0x40,mutex' '\"a,b\",mutex' 'f::lock,mutex' 'ca$(touch ran),mutex'; }; \
             COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); word=${!#}; [[ $word == [=:]* ]] && word=; \
             _contend_elements contend \"$word\" \"${COMP_WORDS[COMP_CWORD-1]}\"; printf '%s\n' \"${COMPREPLY[@]}\"";
        let mut command = Command::new("bash");
        command.args(["--norc", "-c", ask, "bash"]).args(words).current_dir(directory.path());
        let output = command.output().expect("bash");
        assert!(!directory.path().join("ran").exists(), "a name was run");
        assert!(output.stderr.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn completions_know_names_and_no_hidden_commands() {
        let script = script_of(Shell::Bash);
        for word in ["rw-queued", "opteron-8x6", "mempop", "--higher-is-better"] {
            assert!(script.contains(word), "{word}");
        }
        assert!(!script.contains("demo-program") && !script.contains("aim7-user"));
    }

    #[test]
    fn bash_completes_elements_of_lists_and_locks_of_kinds_and_sites() {
        for (words, completed) in [
            (&["contend", "compare", "--lock", "osq"][..], &["osq"][..]),
            (&["contend", "compare", "--lock", "mcs,osq"], &["mcs,osq"]),
            (&["contend", "compare", "--lock", "=", "mcs,os"], &["mcs,osq"]),
            (&["contend", "run", "--lock", "mutex", "=", "os"], &["osq"]),
            (&["contend", "run", "--lock", "mutex", "=", "mcs,rwlock", "=", "rw-q"], &["rw-queued"]),
            (&["contend", "run", "--only", "cache", "=", "os"], &["osq"]),
            (&["contend", "run", "--only", "f", "::", "lock", "=", "os"], &["osq"]),
            (&["contend", "run", "--only=cache=os"], &["--only=cache=osq"]),
            (&["contend", "check", "rw-q"], &["rw-queued"]),
            (&["contend", "predict", "p.contend", "--site", "ca"], &["cache+0x40", r"ca\$\(touch\ ran\)"]),
            (&["contend", "predict", "p.contend", "--site", "f", "::", "l"], &["lock"]),
            (&["contend", "predict", "p.cont"], &[""]),
        ] {
            if words[1] == "check" && !cfg!(feature = "full") {
                continue;
            }
            assert_eq!(bash(words), completed, "{words:?}");
        }
        assert!(bash(&["contend", "run", "--lock", "mutex", "="]).len() > 20);
    }

    #[test]
    fn fish_and_zsh_complete_elements_of_lists_locks_of_sites_and_positional_arguments() {
        let [fish, zsh] = [Shell::Fish, Shell::Zsh].map(script_of);
        let of_fish = |begin: &str, values: &str| {
            let line = fish.lines().find(|line| line.starts_with(begin) && line.contains(values));
            assert!(line.is_some(), "{begin} … {values}");
        };
        let using = "complete -c contend -n \"__fish_contend_using_subcommand";
        of_fish(&format!("{using} run\" -l lock -r -f -a \"(__contend_elements "), " osq ");
        of_fish(&format!("{using} run; and string match"), " osq ");
        of_fish(&format!("{using} predict\" -l site -r -f -a \"(__contend_sites)\""), "");
        for list in ["[,=+]\"; compadd \"$expl[@]\" - ", "*=\" && compadd \"$expl[@]\" - "] {
            assert!(zsh.contains(list), "{list}");
        }
        assert!(zsh.contains(":SITE:_contend_sites'") && !zsh.contains(",…:("));
        assert!(zsh.contains("'*:profiles -- ") && zsh.contains("'*::command -- "));
        if cfg!(feature = "full") {
            of_fish(&format!("{using} simulate\" -f -a \""), " mempop ");
            of_fish(&format!("{using} check\" -f -a \""), " rw-queued ");
            of_fish(&format!("{using} bench; and __fish_seen_subcommand_from futex\" -f -a \"hash"), "");
        }
    }
}
