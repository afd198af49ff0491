//! `contend --help`: every command in one line, under the heading of those who need it.

use clap::Command;
use clap::error::{ContextKind, ErrorKind};
use std::fmt::Write as _;

/// The headings, each with its commands in the order in which a reader needs them.
const HEADINGS: [(&str, &[&str]); 3] = [
    (
        "Your program",
        &[
            "advise", "profile", "attach", "top", "report", "merge", "diff", "predict", "run", "compare",
            "gate",
        ],
    ),
    ("Locks", &["locks", "check", "litmus", "bench", "calibrate", "machines"]),
    ("Research", &["simulate", "reproduce", "validate", "extrapolate", "sweep", "demo"]),
];

/// What is said of a command that this build does not have.
const LEFT_OUT: &str = "(not in this build: cargo install --features full)";

/// Ends with the remedy if the command line names a command that this build does not have.
pub(crate) fn end_if_left_out(error: &clap::Error) {
    let name = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string).unwrap_or_default();
    let known = HEADINGS.iter().any(|(_, names)| names.contains(&name.as_str()));
    if error.kind() == ErrorKind::InvalidSubcommand && known {
        eprintln!(
            "contend: `{name}` is not in this build; build it in by `cargo install --locked --path . --features full`, or run it by \
             `cargo run --release --features full -- {name}`"
        );
        std::process::exit(2);
    }
}

/// The command with its help under headings; `completions` and `man` are named in the last line.
pub(crate) fn under_headings(command: Command) -> Command {
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{}\n`contend COMMAND --help` explains a \
         command, with examples.\n`contend completions SHELL` and `contend man DIR` write completions and manuals.\n",
        listed(&command),
        options(&command)
    );
    command.help_template(template).override_usage("contend COMMAND [OPTIONS] [-- PROGRAM …]")
}

/// The options of every command, each in one line, which clap gives two and a blank one.
fn options(command: &Command) -> String {
    let mut text = String::new();
    for option in command.get_arguments() {
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "      --{:<9}{help}", option.get_long().unwrap_or_default());
    }
    text + "  -h, --help     Print help\n  -V, --version  Print version\n"
}

/// The headings with a line for each command.
fn listed(command: &Command) -> String {
    let mut text = String::new();
    for (heading, names) in HEADINGS {
        let _ = writeln!(text, "{heading}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map_or_else(|| LEFT_OUT.to_owned(), ToString::to_string);
            let _ = writeln!(text, "  {name:<13}{about}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn every_command_is_a_line_of_one_heading_and_all_fit_on_one_screen() {
        let mut command = crate::command();
        for below in crate::Command::command().get_subcommands().filter(|below| !below.is_hide_set()) {
            let name = below.get_name();
            let times =
                HEADINGS.iter().flat_map(|(_, names)| *names).filter(|listed| **listed == name).count();
            let expected = usize::from(!["completions", "man", "help"].contains(&name));
            assert_eq!(times, expected, "contend {name}");
        }
        for help in [command.render_help(), command.render_long_help()] {
            let help = help.to_string();
            assert!(help.lines().count() <= 42, "{help}");
            assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
        }
    }
}
