//! The flags of all commands: each long flag means one thing and is written in one way, wherever it is.
//!
//! CONTRIBUTING.md ("Flags") explains the conventions; here they are enforced.

use clap::{Arg, ArgAction, Command, CommandFactory as _};

/// Flags with the short form, and the names of one value that they take; none for a switch.
///
/// A list has the name of one element with `,…` behind it.
const FLAGS: &[(&str, Option<char>, &[&str], &str)] = &[
    ("acquisitions", None, &["N"], "acquisitions of each thread"),
    ("against", None, &["PROFILE", "FILE"], "what was measured, to compare with"),
    ("all", None, &[], "everything that the command could be asked for"),
    ("all-processes", Some('a'), &[], "all processes of the machine"),
    ("always-on", None, &[], "record a program that runs on"),
    ("at-once", None, &["N"], "what one call does at once"),
    ("base", None, &["CMD"], "the program as it was"),
    ("batch", None, &[], "tables for logs instead of a screen"),
    ("buckets", None, &["N"], "buckets of a table of waiters"),
    ("cases", None, &["FILE"], "write what a score is made of"),
    ("client", None, &["CLIENT"], "a client of the checker"),
    ("cores", None, &["N"], "numbers of cores"),
    ("count", Some('n'), &["N"], "how many tables"),
    ("csv", None, &[], "print comma-separated values"),
    ("duration", None, &["DURATION"], "how long one run lasts"),
    ("expect", None, &["FILE"], "published results to compare with"),
    ("explain", None, &[], "explain, instead of doing"),
    ("folded", None, &["FILE"], "write folded stacks as well"),
    ("folded-of", None, &["KEY"], "the weight of folded stacks"),
    ("for", None, &["DURATION"], "how long to stay attached"),
    ("force", None, &[], "replace a file of another kind"),
    ("futexes", None, &["N"], "futexes of each thread"),
    ("help", Some('h'), &[], "print help"),
    ("higher-is-better", None, &[], "the metric is a throughput"),
    ("host-times", None, &[], "add what differs from run to run"),
    ("html", None, &["FILE", "DIR"], "write a page for a browser"),
    ("interval", None, &["DURATION"], "the time that one table, or profile, tells of"),
    ("iterations", None, &["N"], "iterations on the processor"),
    ("jobs", None, &["N"], "jobs of each user"),
    ("json", None, &[], "print everything as JSON"),
    ("junit", None, &["FILE"], "write test cases as JUnit's XML as well"),
    ("keep", None, &["DIR"], "what was measured stays"),
    ("kernel", None, &[], "the kernel's locks as well"),
    ("list", None, &[], "list what there is"),
    ("lock", None, &["LOCK"], "locks by name"),
    ("lower-is-better", None, &[], "the metric is a time"),
    ("machine", None, &["MACHINE"], "a machine by name, or a machine file"),
    ("measured", None, &["FILE"], "measured curves"),
    ("memory-node", None, &["NODE"], "where memory lies"),
    ("metric", None, &["REGEX"], "a number in a program's output"),
    ("mix", None, &["MIX"], "mixes of jobs by name"),
    ("model", None, &["MODEL"], "memory models"),
    ("mutate", None, &[], "judge mutants"),
    ("native-plan", None, &[], "list what to run on real hardware"),
    ("no-symbols", None, &[], "do not read symbols"),
    ("nodes", None, &["NODE"], "memory nodes by number"),
    ("noise-limit", None, &["PERCENT"], "how busy the machine may be"),
    ("only", None, &["SITE=LOCK"], "locks for sites"),
    ("ops", None, &["N"], "operations of a program"),
    ("ops-regex", None, &["REGEX"], "operations in a program's output"),
    ("otel", None, &["FILE"], "write an OpenTelemetry profile as well"),
    ("output", Some('o'), &["FILE", "DIR"], "the main thing that the command writes"),
    ("own", None, &["N"], "steps outside of the lock"),
    ("parts", None, &["N"], "parts of a split lock"),
    ("per-acquisition", None, &["N"], "sections under one acquisition"),
    ("per-thread", None, &[], "every thread has work of its own"),
    ("pin", None, &["CORE"], "cores by number"),
    ("placement", None, &["ORDER"], "which cores come first"),
    ("pprof", None, &["FILE"], "write a pprof profile as well"),
    ("profile", None, &["FILE"], "where names of locks come from"),
    ("profiled-on", None, &["MACHINE"], "the machine of a profile"),
    ("programs", None, &["FILE"], "a list of programs"),
    ("prometheus", None, &["ADDRESS"], "serve figures for Prometheus"),
    ("pure", None, &[], "spin without bound"),
    ("quiet", Some('q'), &[], "print less"),
    ("reads", None, &["PERCENT"], "how many sections read"),
    ("really-poll", None, &[], "simulate every poll"),
    ("replay", None, &["STRING"], "an execution to replay"),
    ("rescore", None, &["FILE"], "score what was measured before"),
    ("run", None, &[], "run tests on the processor"),
    ("runs", None, &["N"], "runs after the warm-up"),
    ("sample", None, &["RATE"], "the part of pairs that is timed"),
    ("scheduler", None, &["SCHEDULER"], "the scheduler of a cluster"),
    ("section", None, &["SECTION"], "the critical section"),
    ("seed", None, &["N"], "random seed"),
    ("seeds", None, &["N"], "how many seeds, one after the other"),
    ("shared", None, &[], "what processes can share"),
    ("simulated", None, &["", "N"], "on simulated machines, or so many of them"),
    ("site", None, &["SITE"], "a lock as profiles name it"),
    ("size-limit", None, &["SIZE"], "how large a file may become"),
    ("sockets", None, &["SOCKET"], "sockets by number"),
    ("sort", None, &["KEY"], "the order of rows"),
    ("spread", None, &["SPREAD"], "how the think time varies"),
    ("states", None, &[], "print final states"),
    ("summary", None, &["FILE"], "write one screen of what was found"),
    ("svg", None, &["FILE", "DIR"], "draw pictures"),
    ("sweep-back-off", None, &[], "sweep a constant"),
    ("target", None, &["MACHINE"], "the machine that is asked about"),
    ("think", None, &["SPAN"], "the time between a release and the next acquisition"),
    ("threads", None, &["N"], "numbers of threads"),
    ("time-limit", None, &["DURATION"], "how long something may take"),
    ("time-slice", None, &[], "holders of locks ask to keep their core"),
    (
        "timeline",
        None,
        &["", "FILE"],
        "the longest waits one by one: keep them, or write them as a trace as well",
    ),
    ("top", None, &["N"], "rows that are shown"),
    ("trace", None, &["FILE"], "write a trace as well"),
    ("transactions", None, &[], "a machine with transactional memory"),
    ("two", None, &[], "profile on two threads as well"),
    ("unfold", None, &[], "a row for each of striped locks"),
    ("unroll", None, &["N"], "turns of a loop that are followed"),
    ("upto", None, &["N"], "the most cores to answer for"),
    ("users", None, &["N"], "numbers of users"),
    ("variant", None, &["FORM"], "the form of the model"),
    ("verbose", Some('v'), &[], "print more"),
    ("version", Some('V'), &[], "print the version"),
    ("warm-up", None, &["DURATION"], "what is not counted at the beginning"),
    ("weaken", None, &["SITE=CHANGE"], "a mutant"),
    ("what-if", None, &["CHANGE"], "a change to the program"),
    ("wide", None, &[], "print all columns of tables"),
    ("work", None, &["WORK"], "what an operation is"),
    ("worse-by", None, &["PERCENT"], "how much worse a ratio may be"),
];

/// What a flag has against the conventions.
fn fault(flag: &Arg) -> Option<String> {
    let Some(long) = flag.get_long() else {
        return Some("it has no long form: give it one".into());
    };
    let Some((_, short, values, meaning)) = FLAGS.iter().find(|(known, ..)| *known == long) else {
        return Some(
            "no other command has it: use the flag of FLAGS in cli/src/flags.rs that means the same, or, if there is \
             none, add it there"
                .into(),
        );
    };
    if flag.get_short() != *short {
        let is = |short: Option<char>| {
            short.map_or("no short form".into(), |letter| format!("the short form -{letter}"))
        };
        return Some(format!("it has {}, elsewhere {}: write the same", is(flag.get_short()), is(*short)));
    }
    if !flag.get_action().takes_values() {
        return (!values.is_empty() && !values.contains(&""))
            .then(|| format!("it takes no value, elsewhere {}: {meaning}", values.join(" or ")));
    }
    let name = flag.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
    let one = name.strip_suffix(",…").unwrap_or(name);
    if !values.contains(&one) {
        return Some(match values {
            [] => format!("it takes {name}, elsewhere no value ({meaning}): give it another name"),
            _ => format!(
                "its value is called {name}, elsewhere {} ({meaning}): call it so, or give the flag another name if it \
                 means something else",
                values.join(" or ")
            ),
        });
    }
    let repeats = matches!(flag.get_action(), ArgAction::Append);
    // A list of sites is cut by its parser, since their names may have commas.
    let cut = flag.get_value_delimiter() == Some(',') || long == "only";
    match (name.ends_with(",…"), repeats && cut) {
        (true, false) => {
            Some(format!("{name} is a list: take it with commas (value_delimiter) and repeats (a Vec)"))
        }
        (false, true) => Some(format!("it takes a list: call its value {name},…")),
        (false, false) if repeats => {
            Some(format!("it may be repeated: take commas too, and call its value {name},…"))
        }
        _ => None,
    }
}

fn collect(command: &Command, name: &str, faults: &mut Vec<String>) {
    for flag in command.get_arguments().filter(|argument| !argument.is_positional()) {
        if let Some(fault) = fault(flag) {
            faults.push(format!("{name} --{}: {fault}", flag.get_long().unwrap_or_default()));
        }
    }
    for below in command.get_subcommands() {
        collect(below, &format!("{name} {}", below.get_name()), faults);
    }
}

fn built() -> Command {
    let mut command = crate::Command::command();
    command.build();
    command
}

#[test]
fn one_flag_means_one_thing_in_all_commands() {
    let mut faults = Vec::new();
    collect(&built(), "contend", &mut faults);
    assert!(faults.is_empty(), "see \"Flags\" in CONTRIBUTING.md:\n{}", faults.join("\n"));
}

#[test]
fn the_table_names_each_flag_once_and_in_order_and_some_command_has_it() {
    fn longs(command: &Command) -> Vec<String> {
        let own = command.get_arguments().filter_map(|flag| flag.get_long().map(str::to_owned));
        own.chain(command.get_subcommands().flat_map(longs)).collect()
    }
    let there = longs(&built());
    for (flag, ..) in FLAGS {
        assert!(
            there.iter().any(|long| long == flag),
            "no command has --{flag} any more: take it out of FLAGS"
        );
    }
    assert!(
        FLAGS.is_sorted_by(|(before, ..), (after, ..)| before < after),
        "FLAGS in the order of the alphabet"
    );
}

#[test]
fn what_is_against_the_conventions_is_said_with_what_to_do() {
    let list = |flag: Arg| flag.action(ArgAction::Append);
    for (flag, part) in [
        (Arg::new("seconds").long("seconds").value_name("S"), "use the flag of FLAGS"),
        (Arg::new("x").short('x'), "give it one"),
        (Arg::new("output").long("output").value_name("FILE"), "the short form -o"),
        (Arg::new("runs").long("runs").short('r').value_name("N"), "elsewhere no short form"),
        (Arg::new("time").long("time-limit").value_name("SECONDS"), "elsewhere DURATION"),
        (Arg::new("json").long("json").value_name("FILE"), "elsewhere no value"),
        (Arg::new("svg").long("svg").action(ArgAction::SetTrue), "FILE or DIR"),
        (Arg::new("lock").long("lock").value_name("LOCK,…"), "is a list"),
        (list(Arg::new("lock").long("lock").value_name("LOCK")), "take commas too"),
        (list(Arg::new("lock").long("lock").value_name("LOCK").value_delimiter(',')), "LOCK,…"),
    ] {
        let said = fault(&flag).unwrap_or_else(|| panic!("{flag:?} passes"));
        assert!(said.contains(part), "{said}");
    }
}
