//! What a person sees: on a terminal of so many columns, in a pipe, and where there is nothing but ASCII.

mod common;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::process::{Command, Stdio};

/// The command with an environment that says nothing of terminals and locales.
fn contend(arguments: &[&str]) -> Command {
    let mut command = common::contend(arguments);
    command.stdin(Stdio::null());
    for name in ["LC_ALL", "LC_CTYPE", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command.env("LANG", "en_US.UTF-8").env("TERM", "xterm");
    command
}

/// Which streams of a command go to the terminal; the others are thrown away.
#[derive(Clone, Copy)]
enum Streams {
    Output,
    Errors,
    Both,
}

/// Runs a command on a pseudo-terminal of so many columns and gives what it shows.
fn on_a_terminal(mut command: Command, columns: u16, streams: Streams) -> String {
    let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: the two results and the size are valid for the call; name and settings may be null.
    let result = unsafe {
        libc::openpty(&raw mut ours, &raw mut theirs, std::ptr::null_mut(), std::ptr::null(), &raw const size)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both were just opened and have no other owner.
    let (mut ours, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let terminal = || Stdio::from(theirs.try_clone().expect("another handle of the terminal"));
    command.stdout(if matches!(streams, Streams::Errors) { Stdio::null() } else { terminal() });
    command.stderr(if matches!(streams, Streams::Output) { Stdio::null() } else { terminal() });
    let mut child = command.spawn().expect("the command starts");
    drop(command);
    drop(theirs);
    let mut shown = Vec::new();
    let mut some = [0; 4096];
    // A terminal whose other side is closed gives an error, not an end.
    while let Ok(read @ 1..) = ours.read(&mut some) {
        shown.extend_from_slice(&some[..read]);
    }
    child.wait().expect("the command ends");
    assert!(ours.as_raw_fd() >= 0);
    String::from_utf8(shown).expect("text").replace("\r\n", "\n")
}

/// Runs a command with a pipe as its output.
fn in_a_pipe(mut command: Command) -> String {
    let output = command.output().expect("the command starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// What is shown with its colours taken away: those of verdicts, and the end of each.
fn without_colours(shown: &str) -> String {
    let colours = ["\u{1b}[38;5;1m", "\u{1b}[38;5;2m", "\u{1b}[38;5;3m", "\u{1b}[39m"];
    colours.iter().fold(shown.to_owned(), |shown, colour| shown.replace(colour, ""))
}

/// The columns of the widest line, as it stands when a progress bar before it has been cleared away.
fn widest(shown: &str) -> usize {
    let cleared = |line: &str| line.replace("\u{1b}[2K", "\r");
    let last = |line: &str| cleared(line).rsplit('\r').next().map_or(0, |last| last.chars().count());
    without_colours(shown).lines().map(last).max().unwrap_or(0)
}

/// The table of `contend locks` or `contend machines` with the line about what it lacks, without the prose behind it.
fn table(shown: &str) -> String {
    let prose = |line: &str| line.is_empty() || line.starts_with("Transfers and waiters");
    shown.lines().take_while(|line| !prose(line)).map(|line| line.to_owned() + "\n").collect()
}

/// Commands that print a table or prose and need no time.
const COMMANDS: [&[&str]; 5] = [
    &["locks"],
    &["machines"],
    &["simulate", "--list"],
    &["simulate", "counter", "--cores", "1,2", "--duration", "50us", "--lock", "ticket,mcs"],
    &["reproduce", "fig3"],
];

#[test]
fn a_terminal_is_never_overrun() {
    for command in COMMANDS {
        for columns in [60, 80, 132] {
            let shown = on_a_terminal(contend(command), columns, Streams::Both);
            assert!(!shown.is_empty() && widest(&shown) <= usize::from(columns), "{command:?}:\n{shown}");
        }
    }
}

#[test]
fn a_terminal_of_80_columns_shows_whole_names() {
    let shown = on_a_terminal(contend(&["locks"]), 80, Streams::Output);
    let names = shown.lines().filter(|line| !line.starts_with([' ', '─']));
    for name in ["ticket-proportional ", "tas-backoff ", "glibc "] {
        assert!(names.clone().any(|line| line.starts_with(name)), "{name}:\n{shown}");
    }
    assert!(shown.contains("Left out: "), "{shown}");
}

#[test]
fn a_pipe_is_as_wide_as_one_reads_and_says_what_shows_the_rest() {
    for command in [&["machines"][..], &["locks"]] {
        let shown = table(&in_a_pipe(contend(command)));
        assert!((81..=100).contains(&widest(&shown)), "{command:?}:\n{shown}");
        let left_out: Vec<_> = shown.lines().filter(|line| line.starts_with("Left out: ")).collect();
        assert!(matches!(left_out[..], [line] if line.ends_with(" (--wide shows all)")), "{shown}");
        assert_eq!(shown, table(&on_a_terminal(contend(command), 100, Streams::Output)), "{command:?}");
    }
}

#[test]
fn all_columns_are_shown_at_any_width_where_they_are_asked_for() {
    let piped = in_a_pipe(contend(&["machines", "--wide"]));
    assert!(widest(&piped) > 132 && !piped.contains("Left out"), "{piped}");
    assert_eq!(piped, in_a_pipe(contend(&["--wide", "machines"])), "before the command too");
    let narrow = on_a_terminal(contend(&["machines", "--wide"]), 60, Streams::Output);
    assert_eq!(table(&piped), table(&narrow));
    let mut narrow = contend(&["machines", "--wide"]);
    narrow.env("COLUMNS", "60");
    assert_eq!(table(&piped), table(&in_a_pipe(narrow)));
}

#[test]
fn a_table_with_all_columns_has_one_line_for_each_row() {
    let shown = in_a_pipe(contend(&["locks", "--wide"]));
    let rows: Vec<_> = shown.lines().skip(2).collect();
    let json = in_a_pipe(contend(&["locks", "--json"]));
    let all: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(rows.len(), all.as_array().expect("an array").len());
    assert!(rows.iter().all(|row| !row.starts_with(' ')), "{shown}");
    assert!(shown.lines().next().is_some_and(|header| header.contains("arena")), "{shown}");
}

#[test]
fn verdicts_are_in_colour_on_a_terminal_unless_the_environment_forbids_it() {
    let claims = |variables: &[(&str, &str)]| {
        let mut command = contend(&["reproduce", "claims"]);
        command.envs(variables.iter().copied());
        command
    };
    let coloured = on_a_terminal(claims(&[]), 100, Streams::Output);
    assert!(coloured.contains("\u{1b}[38;5;2mmet\u{1b}[39m"), "{coloured}");
    let plain = without_colours(&coloured);
    assert!(!plain.contains('\u{1b}') && widest(&plain) <= 100, "{plain}");
    for variables in [&[("NO_COLOR", "1")][..], &[("CLICOLOR", "0")], &[("TERM", "dumb")]] {
        assert_eq!(on_a_terminal(claims(variables), 100, Streams::Output), plain, "{variables:?}");
    }
    let piped = in_a_pipe(claims(&[]));
    assert!(!piped.contains('\u{1b}'), "{piped}");
    let forced = in_a_pipe(claims(&[("CLICOLOR_FORCE", "1")]));
    assert!(forced != piped && without_colours(&forced) == piped, "{forced}");
}

#[test]
fn the_width_is_that_of_the_stream_that_is_written_to() {
    // Errors go to the terminal while the table goes elsewhere: prose is wrapped for the one that shows it.
    let wrong = ["predict", "/a/profile/that/is/not/there/and/whose/path/is/long.contend", "--cores", "1..4"];
    let shown = on_a_terminal(contend(&wrong), 60, Streams::Errors);
    assert!(
        widest(&shown) <= 60 || shown.lines().all(|line| !line.contains(' ') || line.len() <= 60),
        "{shown}"
    );
    let piped = contend(&wrong).output().expect("the command starts");
    assert_eq!(String::from_utf8_lossy(&piped.stderr).lines().count(), 1, "a pipe is not wrapped");
}

#[test]
fn columns_of_the_environment_come_first() {
    let with = |columns: &str| {
        let mut command = contend(&["machines"]);
        command.env("COLUMNS", columns);
        command
    };
    assert!(widest(&on_a_terminal(with("60"), 132, Streams::Output)) <= 60);
    assert!(widest(&in_a_pipe(with("60"))) <= 60);
    for nonsense in ["", "0", "wide", "-4"] {
        let piped = table(&in_a_pipe(with(nonsense)));
        assert!((81..=100).contains(&widest(&piped)), "{nonsense:?} is no width:\n{piped}");
        let shown = on_a_terminal(with(nonsense), 100, Streams::Output);
        assert!((81..=100).contains(&widest(&shown)), "{nonsense:?}: {shown}");
    }
}

#[test]
fn a_terminal_that_does_not_tell_its_width_has_80_columns() {
    let shown = on_a_terminal(contend(&["machines"]), 0, Streams::Output);
    assert!((61..=80).contains(&widest(&shown)), "{shown}");
}

#[test]
fn nothing_but_ascii_where_the_locale_has_nothing_else() {
    for command in COMMANDS {
        for (name, locale) in [("LC_ALL", "C"), ("LC_ALL", "POSIX"), ("LANG", "de_DE.ISO-8859-1")] {
            let mut ascii = contend(command);
            ascii.env(name, locale);
            let shown = on_a_terminal(ascii, 80, Streams::Both);
            assert!(
                shown.is_ascii() && !shown.contains("\\u{"),
                "{command:?} with {name}={locale}:\n{shown}"
            );
            assert!(widest(&shown) <= 80, "{command:?}:\n{shown}");
        }
    }
    assert!(!on_a_terminal(contend(&["locks"]), 80, Streams::Output).is_ascii());
}

#[test]
fn output_that_cannot_be_written_is_an_error_that_says_so() {
    let full = File::options().write(true).open("/dev/full").expect("a full device");
    let ran = contend(&["locks"]).stdout(full).output().expect("contend runs");
    let printed = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{printed}");
    assert!(printed.starts_with("contend: cannot write to standard output: No space left"), "{printed}");
}

/// Names of files in messages come from any user: a shell has put them there by a pattern.
#[test]
fn names_in_errors_do_not_act_on_the_terminal() {
    let folder = tempfile::tempdir().expect("a directory");
    let name = folder.path().join("p\u{1b}]0;title\u{7}\u{202e}.contend");
    std::fs::write(&name, "no profile").expect("it is written");
    let name = name.to_str().expect("text");
    for arguments in [
        &["report", name][..],
        &["report", name, name],
        &["top", name],
        &["diff", name, name],
        &["extrapolate", name],
        &["litmus", name],
        &["predict", name, "--machine", name],
        &["run", "--lock", "mcs", "--", name],
        &[name],
        &["simulate", "counter", "--cores", name],
    ] {
        let output = contend(arguments).output().expect("the command starts");
        let shown = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success(), "{arguments:?}");
        let acts = |character: char| character.is_control() && character != '\n' || character == '\u{202e}';
        assert!(!shown.contains(acts) && shown.contains("u{202e}"), "{arguments:?}: {shown:?}");
    }
}
