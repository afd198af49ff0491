//! The `contend` command: parses arguments, calls the crates, prints.
//!
//! Without the feature `full` it leaves out `top` and the commands that check, measure and simulate locks, and what only those use.

mod advise;
#[cfg_attr(not(feature = "full"), allow(dead_code))]
mod arguments;
mod attach;
#[cfg(feature = "full")]
mod bench;
mod calibrate;
#[cfg(feature = "full")]
mod check;
mod compare;
mod completions;
mod demo;
mod describe;
mod diff;
mod extrapolate;
#[cfg(test)]
mod flags;
mod gate;
mod help;
#[cfg_attr(not(feature = "full"), allow(dead_code))]
mod interrupt;
#[cfg(feature = "full")]
mod litmus;
mod locks;
mod machines;
mod manual;
mod merge;
mod output;
mod overwritten;
mod predict;
mod profile;
mod progress;
mod recording;
mod report;
#[cfg(feature = "full")]
mod reproduce;
mod run;
#[cfg(feature = "full")]
mod simulate;
mod sweep;
#[cfg(feature = "full")]
mod top;
mod validate;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::io::Write as _;
use std::process::ExitCode;

/// The preload library, as the build script left it.
static PRELOAD: launch::Library =
    launch::Library(include_bytes!(concat!(env!("OUT_DIR"), "/libcontend_preload.so")));

/// Find the locks that make a program collapse on more cores, and swap them.
#[derive(Debug, Parser)]
#[command(version, long_version = env!("CONTEND_BUILT_FROM"), propagate_version = true, arg_required_else_help = true)]
struct Command {
    /// Print all columns of tables, however wide
    #[arg(long, global = true)]
    wide: bool,

    #[command(subcommand)]
    subcommand: Subcommands,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    Demo(demo::Args),
    Advise(advise::Args),
    Profile(profile::Args),
    Attach(attach::Args),
    #[cfg(feature = "full")]
    Top(top::Args),
    Report(report::Args),
    Merge(merge::Args),
    Diff(diff::Args),
    Predict(predict::Args),
    Extrapolate(extrapolate::Args),
    Validate(validate::Args),
    Run(run::Args),
    Compare(compare::Args),
    Gate(gate::Args),
    #[cfg(feature = "full")]
    Simulate(simulate::Args),
    Sweep(sweep::Args),
    #[cfg(feature = "full")]
    Reproduce(reproduce::Args),
    #[cfg(feature = "full")]
    Bench(bench::Args),
    #[cfg(feature = "full")]
    Check(check::Args),
    #[cfg(feature = "full")]
    Litmus(litmus::Args),
    Locks(locks::Args),
    Machines(machines::Args),
    Calibrate(calibrate::Args),
    Completions(completions::Args),
    Man(manual::ManArgs),
    #[command(hide = true)]
    Describe(describe::Args),
    #[command(hide = true)]
    DemoProgram(demo::program::Args),
}

/// Parses the command line, runs the command, and says how it ended.
pub fn main() -> ExitCode {
    die_of_closed_pipes();
    explain_unwritable_output();
    let Command { wide, subcommand } = parse();
    if wide {
        ::report::screen::show_whole_tables();
    }
    let needs_no_rights = matches!(
        subcommand,
        Subcommands::Advise(_)
            | Subcommands::Compare(_)
            | Subcommands::Gate(_)
            | Subcommands::Run(_)
            | Subcommands::Validate(_)
    );
    if needs_no_rights {
        session::capabilities::give_up();
    }
    // What a program prints that is run is its own.
    let runs_program =
        matches!(subcommand, Subcommands::Run(_) | Subcommands::Profile(_) | Subcommands::Sweep(_));
    if session::signals::output_was_closed() && !runs_program {
        output::tell("cannot write to standard output: it is closed");
        return ExitCode::FAILURE;
    }
    let result = match subcommand {
        Subcommands::Demo(args) => demo::run(&args),
        Subcommands::Advise(args) => advise::run(args),
        Subcommands::Profile(args) => profile::run(&args),
        Subcommands::Attach(args) => attach::run(&args),
        #[cfg(feature = "full")]
        Subcommands::Top(args) => top::run(&args),
        Subcommands::Report(args) => report::run(args),
        Subcommands::Merge(args) => merge::run(&args),
        Subcommands::Diff(args) => diff::run(args),
        Subcommands::Predict(args) => predict::run(&args),
        Subcommands::Extrapolate(args) => extrapolate::run(&args),
        Subcommands::Validate(args) => validate::run(&args),
        Subcommands::Run(args) => run::run(args),
        Subcommands::Compare(args) => compare::run(&args),
        Subcommands::Gate(args) => gate::run(&args),
        #[cfg(feature = "full")]
        Subcommands::Simulate(args) => simulate::run(&args),
        Subcommands::Sweep(args) => sweep::run(&args),
        #[cfg(feature = "full")]
        Subcommands::Reproduce(args) => reproduce::run(args),
        #[cfg(feature = "full")]
        Subcommands::Bench(args) => bench::run(&args),
        #[cfg(feature = "full")]
        Subcommands::Check(args) => check::run(&args),
        #[cfg(feature = "full")]
        Subcommands::Litmus(args) => litmus::run(&args),
        Subcommands::Locks(args) => locks::run(&args),
        Subcommands::Machines(args) => machines::run(args),
        Subcommands::Calibrate(args) => calibrate::run(args),
        Subcommands::Completions(args) => completions::run::<Command>(&args),
        Subcommands::Man(args) => manual::man::<Command>(&args),
        Subcommands::Describe(args) => describe::run::<Command>(&args),
        Subcommands::DemoProgram(args) => demo::program::run(&args),
    };
    result.unwrap_or_else(|error| {
        // Standard error may be a full disk.
        let line = ::report::Screen::stderr().fit(&format!("contend: {error:#}\n"));
        let _ = std::io::stderr().write_all(line.as_bytes());
        if error.is::<session::usage::UsageError>() {
            return ExitCode::from(2); // as clap has it for every other wrong argument
        }
        let not_started = error.downcast_ref::<launch::program::NotStarted>();
        not_started.map_or(ExitCode::FAILURE, launch::program::NotStarted::exit_code)
    })
}

/// The command line, with its help under headings.
fn command() -> clap::Command {
    help::under_headings(Command::command())
}

/// Reads the command line. An error quotes it, and names of files in it may come from others: they must not act on the terminal.
fn parse() -> Command {
    let read = |matches: ArgMatches| {
        let mut command = command();
        let fault = overwritten::fault(&command, &matches);
        let refuse = |why| Err(command.error(clap::error::ErrorKind::ArgumentConflict, why));
        fault.map_or_else(|| Command::from_arg_matches(&matches), refuse)
    };
    command().try_get_matches().and_then(read).unwrap_or_else(|error| {
        help::end_if_left_out(&error);
        let error = with_hint(error);
        let quoted = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        if error.use_stderr() && quoted.into_iter().any(|word| ::report::text::printable(&word) != word) {
            let plain = ::report::text::printable_lines(&error.render().to_string());
            let _ = std::io::stderr().write_all(plain.as_bytes());
            std::process::exit(error.exit_code());
        }
        if !error.use_stderr()
            && let Err(why) = error.print()
        {
            output::tell(&format!("cannot write to standard output: {why}"));
            std::process::exit(1);
        }
        if !error.use_stderr() {
            std::process::exit(error.exit_code());
        }
        error.exit()
    })
}

/// Says where the program goes, if what is wrong is that a program stands before the `--`.
fn with_hint(mut error: clap::Error) -> clap::Error {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let words: Vec<_> = std::env::args_os().skip(1).take_while(|word| word != "--").collect();
    let takes_program = words.first().is_some_and(|name| {
        let command = command();
        let subcommand = name.to_str().and_then(|name| command.find_subcommand(name));
        subcommand.is_some_and(|found| found.get_positionals().any(clap::Arg::is_last_set))
    });
    if !takes_program && let Some(ContextValue::StyledStrs(tips)) = error.remove(ContextKind::Suggested) {
        // `-- -1` is for commands that take a program.
        let others = tips.into_iter().filter(|tip| !tip.to_string().contains("as a value, use"));
        let others: Vec<_> = others.collect();
        if !others.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(others));
        }
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return error };
    let at = words.iter().position(|word| word == argument.as_str());
    if error.kind() == ErrorKind::UnknownArgument
        && takes_program
        && !argument.starts_with('-')
        && let Some(at) = at
    {
        let mut line = words;
        line.insert(at, "--".into());
        let tip = format!("the program and its arguments come after `--`: {}", output::command_line(&line));
        let tips = ContextValue::StyledStrs(vec![clap::builder::StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// Ends the command quietly when its reader goes away, as in `contend machines | head`.
fn die_of_closed_pipes() {
    session::signals::reset(libc::SIGPIPE);
}

/// Makes an error of what `println!` panics with where standard output takes no more, as on a full disk: every command
/// prints by it.
fn explain_unwritable_output() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>();
        match text.and_then(|text| text.strip_prefix("failed printing to stdout: ")) {
            Some(why) => {
                eprintln!("contend: cannot write to standard output: {why}");
                std::process::exit(1);
            }
            None => others(panic),
        }
    }));
}
