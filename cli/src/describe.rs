//! `contend describe`: the commands with their flags as JSON, for what is generated from them: the keyword arguments of the Python
//! package (python/generate-options).

use crate::arguments::Numbers;
use crate::output::print_json;
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command, CommandFactory};
use serde::Serialize;
use std::any::TypeId;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print the commands with their flags as JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// A command. Hidden ones and hidden flags are left out, and so are `--help` and `--version`.
#[derive(Debug, Serialize)]
struct Described {
    name: String,
    about: String,
    flags: Vec<Flag>,
}

/// A flag.
#[derive(Debug, Serialize)]
struct Flag {
    long: String,
    help: String,
    /// What it takes; none for a switch.
    value: Option<Value>,
    /// What it is where it is not given, as the command line has it; none where its help tells.
    default: Option<String>,
    /// It may be given several times, or takes several values at once.
    list: bool,
}

/// The value of a flag, or one of them.
#[derive(Debug, Serialize)]
struct Value {
    /// What the help calls it.
    name: String,
    #[serde(rename = "type")]
    kind: Kind,
    /// All that it can be, where that is a list of words.
    choices: Vec<String>,
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// One of the choices.
    Choice,
    /// A whole number.
    Integer,
    /// A number or a range of numbers: see [`Numbers`].
    Numbers,
    /// A number, or a text such as `5%`, `1/16` or `default`.
    NumberOrText,
    /// The path of a file or a folder.
    Path,
    /// Anything else.
    Text,
}

/// Values that are read as whole numbers, and are not always written as such.
const NOT_ALWAYS_NUMBERS: [&str; 2] = ["PERCENT", "RATE"];

/// Values that are read as whole numbers, and are never written as such.
const WITH_UNITS: [&str; 1] = ["SIZE"];

/// Runs `contend describe`.
pub(crate) fn run<C: CommandFactory>(_: &Args) -> anyhow::Result<ExitCode> {
    print_json(&described(C::command()))?;
    Ok(ExitCode::SUCCESS)
}

/// The commands in the order of the help, those below others after them: `bench cost`.
fn described(mut command: Command) -> Vec<Described> {
    fn add(command: &Command, above: &str, all: &mut Vec<Described>) {
        for below in
            command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
        {
            let name = format!("{above}{}", below.get_name());
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            let flags = below.get_arguments().filter_map(flag).collect();
            add(below, &format!("{name} "), all);
            all.push(Described { name, about, flags });
        }
    }
    command.build();
    let mut all = Vec::new();
    add(&command, "", &mut all);
    all
}

/// The flag; none for a positional argument, and for what is not to be seen.
fn flag(argument: &Arg) -> Option<Flag> {
    let seen = !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str());
    let long = argument.get_long().filter(|_| seen)?.to_owned();
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let several = argument.get_num_args().is_some_and(|number| number.max_values() > 1);
    Some(Flag {
        long,
        help: argument.get_help().map(ToString::to_string).unwrap_or_default(),
        value: value(argument),
        default: (argument.get_action().takes_values() && !defaults.is_empty()).then(|| defaults.join(",")),
        list: several || matches!(argument.get_action(), ArgAction::Append),
    })
}

/// What a flag takes; none for a switch.
fn value(argument: &Arg) -> Option<Value> {
    if !argument.get_action().takes_values() {
        return None;
    }
    let name = argument.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
    let name = name.strip_suffix(",…").unwrap_or(name).to_owned();
    let possible = argument.get_possible_values();
    let choices: Vec<String> =
        possible.iter().filter(|one| !one.is_hide_set()).map(|one| one.get_name().to_owned()).collect();
    let kind = if choices.is_empty() { kind(argument.get_value_parser(), &name) } else { Kind::Choice };
    Some(Value { name, kind, choices })
}

/// How a value of this name, which is not one of a few words, is written.
fn kind(parser: &ValueParser, name: &str) -> Kind {
    let read_as = parser.type_id();
    let integers = [
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<i64>(),
    ];
    if read_as == TypeId::of::<Numbers>() {
        Kind::Numbers
    } else if read_as == TypeId::of::<PathBuf>() {
        Kind::Path
    } else if NOT_ALWAYS_NUMBERS.contains(&name) {
        Kind::NumberOrText
    } else if integers.iter().any(|integer| read_as == *integer) && !WITH_UNITS.contains(&name) {
        Kind::Integer
    } else if name == "N" {
        Kind::NumberOrText
    } else {
        Kind::Text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag_of(command: &str, long: &str) -> Flag {
        let all = described(crate::Command::command());
        let of = all.into_iter().find(|one| one.name == command).expect("the command");
        of.flags.into_iter().find(|flag| flag.long == long).expect("the flag")
    }

    #[test]
    fn values_are_what_their_parsers_take() {
        for (command, long, kind, list) in [
            ("simulate", "seeds", Kind::Integer, false),
            ("simulate", "cores", Kind::Numbers, true),
            ("simulate", "buckets", Kind::NumberOrText, false),
            ("simulate", "duration", Kind::Text, false),
            ("simulate", "placement", Kind::Choice, false),
            ("simulate", "svg", Kind::Path, false),
            ("profile", "size-limit", Kind::Text, false),
            ("profile", "sample", Kind::NumberOrText, false),
            ("gate", "worse-by", Kind::NumberOrText, false),
            ("gate", "against", Kind::Path, true),
            ("gate", "base", Kind::Text, true),
            ("check", "model", Kind::Choice, true),
            ("check", "threads", Kind::Integer, false),
            ("bench cost", "lock", Kind::Text, true),
        ] {
            let flag = flag_of(command, long);
            assert_eq!(
                (flag.value.map(|value| value.kind), flag.list),
                (Some(kind), list),
                "{command} --{long}"
            );
        }
        assert!(flag_of("gate", "json").value.is_none());
        assert_eq!(flag_of("simulate", "placement").value.unwrap().choices, ["fill-first", "round-robin"]);
    }

    #[test]
    fn hidden_things_and_help_are_left_out() {
        let all = described(crate::Command::command());
        assert!(!all.iter().any(|one| ["demo-program", "describe", "help"].contains(&&*one.name)));
        let predict = all.iter().find(|one| one.name == "predict").unwrap();
        assert!(!predict.flags.iter().any(|flag| ["help", "version"].contains(&&*flag.long)));
        assert!(predict.flags.iter().all(|flag| !flag.help.is_empty()));
    }
}
