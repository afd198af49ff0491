//! What the command that starts a program does for it: passes signals and ends on, keeps profiles apart, says what a swap
//! changed, and lets no other user put another library in the place of its own.

mod common;

use common::{CONTEND, HANG, Outcome, Source, run, send};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;

fn contend(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = common::contend(arguments);
    command.current_dir(directory);
    // `nohup cargo test` and what a script starts with `&` have signals ignored, and what is started inherits that.
    // SAFETY: signal(2) may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    command
}

fn ran(directory: &Path, arguments: &[&str]) -> Outcome {
    run(contend(directory, arguments), HANG)
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn script(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, text).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("an executable script");
    path
}

fn is_root() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// A program that locks, as a path.
fn injected() -> String {
    Source::program("injected.c").compile().to_str().expect("a plain path").to_owned()
}

/// Waits until a file has something in it, and gives that.
fn awaited(path: &Path) -> String {
    let begun = Instant::now();
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => assert!(begun.elapsed() < HANG, "nothing came to {}", path.display()),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ended(mut child: Child) -> std::process::ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        if begun.elapsed() > HANG {
            child.kill().expect("a child");
            panic!("the command did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A shell that writes the signals that it gets into a file, beside its number, and ends at the second.
const TELLER: &str = "for s in INT TERM HUP USR1; do trap \"echo $s >> printed\" $s; done
echo $$ > pid
while [ \"$(cat printed 2>/dev/null | wc -l)\" -lt 2 ]; do sleep 0.02; done
exit 7
";

#[test]
fn signals_sent_to_the_command_reach_the_program_once() {
    for verb in ["run", "profile"] {
        let place = directory();
        script(place.path(), "teller", &format!("#!/bin/sh\n{TELLER}"));
        let mut command = contend(place.path(), &[verb, "--", "./teller"]);
        if verb == "run" {
            command = contend(place.path(), &["run", "--lock", "mcs", "--", "./teller"]);
        }
        let child = command.stderr(Stdio::null()).spawn().expect("contend starts");
        awaited(&place.path().join("pid"));
        let printed = |lines: usize| {
            let begun = Instant::now();
            while fs::read_to_string(place.path().join("printed")).unwrap_or_default().lines().count() < lines
            {
                assert!(begun.elapsed() < HANG, "{verb}: a signal did not reach the program");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        send(child.id(), libc::SIGUSR1);
        printed(1);
        send(child.id(), libc::SIGTERM);
        assert_eq!(ended(child).code(), Some(7), "{verb}");
        assert_eq!(
            fs::read_to_string(place.path().join("printed")).expect("signals"),
            "USR1\nTERM\n",
            "{verb}"
        );
    }
}

/// As services of systemd have it: else a server would die of the first connection that its client closes.
#[test]
fn a_program_ignores_closed_pipes_where_the_command_was_told_to() {
    const SIGPIPE: u64 = 1 << (libc::SIGPIPE - 1);
    let place = directory();
    for (before, ignored) in [("trap '' PIPE", SIGPIPE), ("true", 0)] {
        for verb in ["run --lock mcs", "profile -o p.contend --force"] {
            let line = format!("{before}; exec \"$0\" {verb} -- grep SigIgn /proc/self/status");
            let shell = Command::new("sh").args(["-c", &line, CONTEND]).current_dir(place.path()).output();
            let said = String::from_utf8_lossy(&shell.expect("a shell").stdout).into_owned();
            let mask = said.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect(&said).trim();
            let mask = u64::from_str_radix(mask, 16).expect("a mask");
            assert_eq!(mask & SIGPIPE, ignored, "{verb}");
        }
    }
}

#[test]
fn a_profile_ends_well_when_the_command_is_asked_to_end() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let place = directory();
        let stderr = place.path().join("stderr");
        let script = "echo $$ > pid; exec \"$@\" > /dev/null";
        let child = contend(
            place.path(),
            &["profile", "--", "sh", "-c", script, "sh", &injected(), "2", "100000000"],
        )
        .stderr(fs::File::create(&stderr).expect("a file"))
        .spawn()
        .expect("contend starts");
        let program = awaited(&place.path().join("pid"));
        let begun = Instant::now();
        while !ran(place.path(), &["report", "p.contend"]).stdout.contains("hot_lock") {
            assert!(begun.elapsed() < HANG, "nothing was recorded");
        }
        send(child.id(), signal);
        assert_eq!(ended(child).code(), Some(128 + signal));
        let printed = fs::read_to_string(&stderr).expect("what it told");
        assert!(printed.contains("hot_lock") && printed.contains("The profile is in p.contend"), "{printed}");
        assert!(!printed.contains("coverage are missing"), "{printed}");
        assert!(!Path::new("/proc").join(program).join("exe").exists(), "the program is gone too");
    }
}

#[test]
fn a_program_does_not_outlive_a_killed_command() {
    let place = directory();
    script(place.path(), "waits", "#!/bin/sh\necho $$ > pid\nexec sleep 1000\n");
    let child =
        contend(place.path(), &["run", "--lock", "mcs", "--", "./waits"]).spawn().expect("contend starts");
    let program: u32 = awaited(&place.path().join("pid")).parse().expect("a number");
    send(child.id(), libc::SIGKILL);
    ended(child);
    let begun = Instant::now();
    let stat = format!("/proc/{program}/stat");
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(begun.elapsed() < HANG, "the program goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_programs_end_is_the_commands() {
    let place = directory();
    for (line, status) in [("exit 3", (Some(3), None)), ("kill -SEGV $$", (None, Some(libc::SIGSEGV)))] {
        let outcome = ran(place.path(), &["run", "--lock", "mcs", "--", "sh", "-c", line]);
        let ended = outcome.status.expect("it ends");
        assert_eq!((ended.code(), ended.signal()), status, "{line}");
    }
    // What a program sends to its whole group is for the others in it.
    let alone = "trap 'echo got >> got' USR1; kill -USR1 0; sleep 0.1; wc -l < got";
    let outcome = ran(place.path(), &["run", "--lock", "mcs", "--", "sh", "-c", alone]);
    assert_eq!((outcome.code(), outcome.stdout.trim()), (Some(0), "1"), "{outcome}");
}

#[test]
fn what_cannot_be_run_has_a_shells_code_and_destroys_no_profile() {
    let place = directory();
    fs::write(place.path().join("text"), "text").expect("a file");
    script(place.path(), "unhinged", "#!/no/such/interpreter\n");
    assert!(
        ran(place.path(), &["profile", "-q", "-o", "good.contend", "--", &injected(), "1", "10"]).succeeded()
    );
    let good = fs::read(place.path().join("good.contend")).expect("a profile");
    for (program, expected) in
        [("no-such-program", 127), ("./no-such-file", 127), ("./text", 126), ("/", 126), ("./unhinged", 126)]
    {
        for arguments in [&["profile", "-o", "good.contend", "--"][..], &["run", "--lock", "mcs", "--"]] {
            let outcome = ran(place.path(), &[arguments, &[program]].concat());
            assert_eq!(outcome.code(), Some(expected), "{arguments:?} {program}: {outcome}");
        }
    }
    assert!(fs::read(place.path().join("good.contend")).expect("a profile") == good, "it is as it was");
    let left = fs::read_dir(place.path()).expect("a directory").count();
    assert_eq!(left, 3, "nothing is left over");
}

#[test]
fn a_script_without_a_first_line_is_a_shells() {
    let place = directory();
    script(place.path(), "bare", "echo \"got $1\"\n");
    for arguments in [&["run", "--lock", "mcs", "--"][..], &["profile", "-q", "--"]] {
        let outcome = ran(place.path(), &[arguments, &["./bare", "it"]].concat());
        assert_eq!(
            (outcome.code(), outcome.stdout.as_str()),
            (Some(0), "got it\n"),
            "{arguments:?}: {outcome}"
        );
    }
}

#[test]
fn a_file_that_is_no_profile_is_not_replaced_unless_forced() {
    let place = directory();
    fs::write(place.path().join("thesis.tex"), "the only copy").expect("a file");
    let arguments = ["profile", "-q", "-o", "thesis.tex", "--force", "--", "true"];
    let refused = ran(place.path(), &[&arguments[..4], &arguments[5..]].concat());
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stderr.contains("thesis.tex") && refused.stderr.contains("--force"), "{refused}");
    assert_eq!(fs::read(place.path().join("thesis.tex")).expect("the file"), b"the only copy");
    assert!(ran(place.path(), &arguments).succeeded());
    assert!(fs::read(place.path().join("thesis.tex")).expect("the file").starts_with(b"\x89contend"));
}

/// Ctrl-C before the program runs: neither is the program started, nor is the profile of the last time lost.
#[test]
fn an_interrupted_start_leaves_the_profile_that_was_there() {
    let place = directory();
    let (profile, program) = (place.path().join("p.contend"), injected());
    assert!(ran(place.path(), &["profile", "-q", "-o", "p.contend", "--", &program, "1", "111"]).succeeded());
    let before = fs::read(&profile).expect("the profile");
    let mut interrupted =
        contend(place.path(), &["profile", "-q", "-o", "p.contend", "--", "touch", "started"]);
    // SAFETY: the calls may be made between fork and exec. What is blocked and has come stays so over exec.
    unsafe {
        interrupted.pre_exec(|| {
            let mut interrupt = std::mem::MaybeUninit::uninit();
            libc::sigemptyset(interrupt.as_mut_ptr());
            libc::sigaddset(interrupt.as_mut_ptr(), libc::SIGINT);
            libc::sigprocmask(libc::SIG_BLOCK, interrupt.as_ptr(), std::ptr::null_mut());
            libc::raise(libc::SIGINT);
            Ok(())
        });
    }
    assert!(!run(interrupted, HANG).succeeded());
    assert!(!place.path().join("started").exists());
    assert_eq!(fs::read(&profile).expect("the profile"), before);
    let left =
        fs::read_dir(place.path()).expect("the directory").map(|entry| entry.expect("an entry").file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["p.contend"]);
}

#[test]
fn two_profiles_at_once_keep_apart() {
    let place = directory();
    let stderr = |n: u32| place.path().join(format!("stderr-{n}"));
    let start = |n: u32, rounds: &str| {
        let hold = format!("while [ ! -e go ]; do sleep 0.01; done; exec \"$@\" > /dev/null; : {n}");
        contend(place.path(), &["profile", "--", "sh", "-c", &hold, "sh", &injected(), "1", rounds])
            .stderr(fs::File::create(stderr(n)).expect("a file"))
            .spawn()
            .expect("contend starts")
    };
    let first = start(1, "111");
    let begun = Instant::now();
    while !place.path().join("p.contend").exists() {
        assert!(begun.elapsed() < HANG);
        std::thread::sleep(Duration::from_millis(5));
    }
    let second = start(2, "222");
    while !place.path().join("p-2.contend").exists() {
        assert!(begun.elapsed() < HANG);
        std::thread::sleep(Duration::from_millis(5));
    }
    let refused = ran(place.path(), &["profile", "-o", "p.contend", "--", "true"]);
    assert_eq!(refused.code(), Some(1));
    assert!(
        refused.stderr.contains("another `contend profile`") && refused.stderr.contains("-o"),
        "{refused}"
    );
    fs::write(place.path().join("go"), "").expect("a file");
    assert!(ended(first).success() && ended(second).success());
    for (n, name, rounds) in [(1, "p.contend", "111"), (2, "p-2.contend", "222")] {
        let printed = fs::read_to_string(stderr(n)).expect("what it told");
        assert!(printed.contains(&format!("The profile is in {name} ")), "{printed}");
        let report = ran(place.path(), &["report", name, "--csv", "--top", "0"]).stdout;
        let hot = report.lines().find(|line| line.starts_with("hot_lock,")).expect("a row of the lock");
        assert!(hot.split(',').any(|cell| cell == rounds), "{hot}");
    }
}

/// A child that was started by a program of an earlier profile must not record to the one that has its name now.
#[test]
fn what_an_earlier_profile_left_running_stays_out_of_a_later_one() {
    let place = directory();
    let daemon = format!(
        "(while [ ! -e go ]; do sleep 0.01; done; {} 1 10 > /dev/null; echo done > done) &",
        injected()
    );
    let earlier = contend(place.path(), &["profile", "-q", "--", "sh", "-c", &daemon])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(earlier.expect("contend starts").success());
    let waits = "touch go; while [ ! -e done ]; do sleep 0.01; done";
    assert!(ran(place.path(), &["profile", "-q", "--", "sh", "-c", waits]).succeeded());
    let report = ran(place.path(), &["report", "p.contend", "--json"]);
    assert!(report.succeeded() && !report.stdout.contains("hot_lock"), "{report}");
}

#[test]
fn file_size_limits_and_full_outputs_are_told() {
    let place = directory();
    // The limit is for this test's own files too, so that what is told has to go through a pipe.
    let limited = |blocks: u32, arguments: &str| {
        let mut command = Command::new("sh");
        let line = format!("(ulimit -f {blocks}; {CONTEND} {arguments}; echo code $?) 2>&1 | cat");
        command.args(["-c", &line]).current_dir(place.path());
        run(command, HANG).stdout
    };
    let none = limited(0, "profile -o none.contend -- true");
    assert!(none.contains("ulimit -f") && none.ends_with("code 1\n"), "{none}");
    assert!(!place.path().join("none.contend").exists());
    // Space for the first pages, and then none: 8 blocks of 512 bytes or of 1 KiB, as shells have it.
    let little = limited(16, &format!("profile -o little.contend -- {} 4 1000 > /dev/null", injected()));
    assert!(little.ends_with("code 1\n"), "the program succeeds, and its profile does not: {little}");
    assert!(little.contains("ulimit -f") && !little.contains("--size-limit"), "{little}");
    assert!(little.contains("could not grow: File too large") && !little.contains(": 0 events"), "{little}");

    assert!(ran(place.path(), &["profile", "-q", "--", "true"]).succeeded());
    for arguments in
        ["report p.contend", "report p.contend --json", "report p.contend --csv", "diff p.contend p.contend"]
    {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{CONTEND} {arguments} > /dev/full")]).current_dir(place.path());
        let full = run(command, HANG);
        assert_eq!(full.code(), Some(1), "{arguments}: {full}");
        assert!(
            full.stderr.starts_with("contend: ") && full.stderr.contains("No space left"),
            "{arguments}: {full}"
        );
    }
}

#[test]
fn processes_past_the_bound_of_the_file_are_counted_and_not_told_one_by_one() {
    let place = directory();
    // Of the last process, which is past the bound, the descriptors are listed: that of the profile is none of them.
    let many = "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done; exec ls -l /proc/self/fd";
    let outcome = ran(place.path(), &["profile", "--size-limit", "1M", "--", "sh", "-c", many]);
    assert!(outcome.succeeded(), "{outcome}");
    let printed: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("found no space")).collect();
    assert_eq!(printed.len(), 1, "{outcome}");
    assert!(printed[0].contains("--size-limit"), "{outcome}");
    assert!(outcome.stdout.contains("/proc/") && !outcome.stdout.contains(".contend"), "{outcome}");
}

#[test]
fn what_a_swap_changed_is_said() {
    let place = directory();
    let program = Source::program("readers.c").compile();
    let program = program.to_str().expect("a plain path");
    let injected = injected();
    let stderr = |arguments: &[&str]| {
        let outcome = ran(place.path(), &[&["run"], arguments].concat());
        assert!(outcome.succeeded(), "{arguments:?}: {outcome}");
        outcome.stderr
    };
    let work = ["--", &injected, "1", "10"];
    let printed = stderr(&[&["-v", "--lock", "mutex=mcs"][..], &work].concat());
    assert!(printed.contains("mutexes: ") && printed.contains(" swapped"), "{printed}");
    assert!(
        printed.contains("reader-writer locks: 1 left to glibc (no lock was chosen for them)"),
        "{printed}"
    );
    let glibc = stderr(&[&["-v", "--lock", "glibc"][..], &work].concat());
    assert!(glibc.contains("left to glibc (no lock was chosen for them)"), "{glibc}");
    assert_eq!(stderr(&[&["--lock", "mutex=mcs"][..], &work].concat()), "");
    assert_eq!(stderr(&[&["--only", "hot_lock=mcs"][..], &work].concat()), "");
    let unmatched = ran(place.path(), &[&["run", "--only", "no_such_lock=mcs"][..], &work].concat());
    assert_eq!(unmatched.code(), Some(3), "{unmatched}");
    assert!(unmatched.stderr.contains("`no_such_lock`: no lock of that name was found"), "{unmatched}");
    let failing = ["run", "--only", "no_such_lock=mcs", "--", "sh", "-c", "exit 7"];
    assert_eq!(ran(place.path(), &failing).code(), Some(7), "the program's own end comes first");
    let without = ran(place.path(), &[&["run"][..], &work].concat());
    assert_eq!(without.code(), Some(2), "{without}");
    assert!(without.stderr.contains("--lock LOCK"), "{without}");
    let nothing = stderr(&["--lock", "spin=mcs", "--", program, "2", "10"]);
    assert!(
        nothing.contains("nothing was swapped: left to glibc: ") && nothing.contains("reader-writer locks"),
        "{nothing}"
    );
}

/// The word of the thread's area is not touched where the kernel does not know it, whatever the machine that this runs on.
#[test]
fn time_slices_are_extended_or_it_is_said_that_they_cannot_be() {
    let place = directory();
    let injected = injected();
    let mut command = contend(place.path(), &["run", "--lock", "mutex=mcs", "--", &injected, "2", "10"]);
    command.env("CONTEND_TIME_SLICE", "1");
    let outcome = run(command, HANG);
    assert!(outcome.succeeded(), "{outcome}");
    let is_said = outcome.stderr.contains("CONTEND_TIME_SLICE: `1` needs Linux 7.0");
    assert!(is_said || outcome.stderr.is_empty(), "{outcome}");
}

/// A profile that the user names is of this program as it is now, or it would name other locks, or none.
#[test]
fn a_profile_of_another_program_or_of_what_it_was_gives_no_names() {
    let place = directory();
    let at = |name: &str| place.path().join(name).to_string_lossy().into_owned();
    let (program, file) = (at("readers"), at("p.contend"));
    let copy = |source: &str, options: &[&str]| {
        let built = Source { options, ..Source::program(source) }.compile();
        let fresh = at("fresh");
        fs::copy(built, &fresh).and_then(|_| fs::rename(&fresh, &program)).expect("a program");
    };
    copy("readers.c", &[]);
    let outcome = ran(place.path(), &["profile", "-q", "-o", &file, "--", &program, "2", "10"]);
    assert!(outcome.succeeded(), "{outcome}");
    let run = |only: &str, program: &[&str]| {
        let named = ["run", "-v", "--only", only, "--profile", &file, "--"];
        ran(place.path(), &[&named[..], program, &["2", "10"]].concat())
    };
    let refusal = |only: &str, program: &[&str], part: &str| {
        let outcome = run(only, program);
        assert!(outcome.code() == Some(2) && outcome.stderr.contains(part), "{part}: {outcome}");
    };
    let report = ran(place.path(), &["report", "--json", &file]);
    let report: serde_json::Value = serde_json::from_str(&report.stdout).expect("a report in JSON");
    let rows = report["rows"].as_array().expect("rows");
    let lock = rows.iter().find(|row| row["kind"] == "rwlock").expect("a reader-writer lock");
    let name = lock["name"].as_str().expect("a name");
    let name = name.rsplit_once('#').map_or(name, |(name, _)| name);
    assert!(run(&format!("{name}=rw"), &[&program]).succeeded());
    assert!(run(&format!("{name}=rw"), &["env", &program]).succeeded(), "it is named");
    refusal(&format!("{name}=mcs"), &[&program], "mcs cannot be a rwlock: readers cannot share it");
    let near = run(&format!("{name}x=rw"), &[&program]);
    assert!(
        near.code() == Some(3)
            && near.stderr.contains("near are ")
            && near.stderr.contains(&format!("`{name}`")),
        "{near}"
    );
    let other = Source::program("fixed.c").compile();
    refusal(&format!("{name}=rw"), &[other.to_str().expect("a plain path")], "is a profile of ");
    copy("readers.c", &["-O0"]);
    refusal(&format!("{name}=rw"), &[&program], "has been built anew");
    fs::remove_file(&program).expect("a program");
    let offered = ran(place.path(), &["run", "--lock", "mcs", "--", "no-such-program"]);
    assert!(!offered.stderr.contains("there is"), "{offered}");
    copy("readers.c", &[]);
    let offered = ran(place.path(), &["run", "--lock", "mcs", "--", "readers"]);
    assert!(offered.stderr.contains("no such program in PATH; there is ./readers"), "{offered}");
}

/// What is wrong with a value is said in words, and no tip leads astray.
#[test]
fn wrong_values_are_answered_with_what_is_right() {
    let place = directory();
    let file = place.path().to_str().expect("a plain path");
    for (line, part) in [
        (&["report", "--top", "x", "p"][..], "write a whole number, such as 20"),
        (&["diff", "--top", "1.5", "a", "b"], "write a whole number, such as 20"),
        (&["report", "--ops", "0", "p"], "1 or more, such as 5000"),
        (&["profile", "--ops", "x", "--", "true"], "1 or more, such as 5000"),
        (&["attach", "mysqld"], "a process is a number: `pgrep NAME` tells it"),
        (&["compare", "--lock", "mcs", "--pin", "1023", "--", "true"], "this machine has no core 1023"),
        (&["gate", "--base", "./a", "--", "./a"], "the command of the candidate"),
        (&["top", "999999999", "--batch"], "`pgrep NAME` tells the number"),
    ] {
        let answer = ran(place.path(), line);
        assert!(answer.code() == Some(2) && answer.stderr.contains(part), "{line:?}: {answer}");
    }
    let minus = ran(place.path(), &["report", "--top", "-1", "p"]);
    assert!(minus.code() == Some(2) && !minus.stderr.contains("tip"), "{minus}");
    for force in [&[][..], &["--force"]] {
        let line = [&["profile", "-q", "-o", file][..], force, &["--", "true"]].concat();
        let answer = ran(place.path(), &line);
        let said = "there is a folder of that name: give another name with -o";
        assert!(answer.code() == Some(1) && answer.stderr.contains(said), "{answer}");
        assert!(!answer.stderr.contains("--force"), "{answer}");
    }
    for asked in ["--help", "--version"] {
        let full = fs::File::options().write(true).open("/dev/full").expect("a full device");
        let status = Command::new(CONTEND).arg(asked).stdout(full).stderr(Stdio::null()).status();
        assert_eq!(status.expect("it runs").code(), Some(1), "{asked}");
    }
}

#[test]
fn a_program_without_the_dashes_before_it_is_answered_with_the_line_that_is_meant() {
    let place = directory();
    let answer = ran(place.path(), &["profile", "--quiet", "./x", "--threads", "4"]);
    assert_eq!(answer.code(), Some(2), "{answer}");
    assert!(answer.stderr.contains("contend profile --quiet -- ./x --threads 4"), "{answer}");
    let other = ran(place.path(), &["profile", "--nosuch", "--", "./x"]);
    assert!(other.code() == Some(2) && !other.stderr.contains("come after `--`"), "{other}");
}

/// Linked statically, or without the environment: the programs live for some seconds, and looks are a fraction of one apart.
#[test]
fn processes_that_were_not_reached_are_named() {
    let place = directory();
    let fixed = Source { options: &["-static"], ..Source::program("fixed.c") }.compile();
    let fixed = fixed.to_str().expect("a plain path");
    let own = Source::program("fixed.c").compile();
    let own = own.to_str().expect("a plain path");
    let script = format!("{fixed} 3000 & env -i {own} 3000 & {own} 1 & wait");
    for command in [&["run", "--lock", "mcs"][..], &["profile", "-q"]] {
        let outcome = ran(place.path(), &[command, &["--", "sh", "-c", &script]].concat());
        assert!(outcome.succeeded(), "{outcome}");
        let lines: Vec<_> = outcome.stderr.lines().filter(|line| line.contains("not reached")).collect();
        let [line] = lines[..] else { panic!("{command:?}: not one line: {outcome}") };
        assert!(line.contains(&format!("{fixed} (linked statically)")), "{line}");
        assert!(line.contains(&format!("{own} (got no LD_PRELOAD in its environment)")), "{line}");
        assert_eq!(line.matches('(').count(), 2, "{line}");
    }
    let outcome =
        ran(place.path(), &["run", "--lock", "mcs", "--", "sh", "-c", &format!("{own} 3000 & wait")]);
    assert!(outcome.succeeded() && !outcome.stderr.contains("not reached"), "{outcome}");
}

/// A Go program has a section that says what it was built from; that alone makes one of a C program here.
#[test]
fn a_go_program_is_told_what_shows_its_locks() {
    let place = directory();
    let static_go = Source { options: &["-static", "-DGO"], ..Source::program("fixed.c") }.compile();
    for command in [&["run", "--lock", "mcs"][..], &["profile", "-q"]] {
        let outcome =
            ran(place.path(), &[command, &["--", static_go.to_str().expect("a plain path"), "1"]].concat());
        // Its waits in futexes are recorded where the kernel shows them.
        assert!(command[0] == "profile" || !outcome.succeeded(), "{outcome}");
        assert!(
            outcome.stderr.contains("is a Go program") && outcome.stderr.contains("`contend report` reads"),
            "{outcome}"
        );
    }
    let go = Source { options: &["-DGO"], ..Source::program("fixed.c") }.compile();
    let outcome = ran(place.path(), &["profile", "-q", "--", go.to_str().expect("a plain path"), "1"]);
    assert!(outcome.succeeded() && outcome.stderr.contains("is a Go program with C code"), "{outcome}");
}

/// The library is loaded by whatever path the linker is told, so no other user may be able to change what that leads to.
#[test]
fn the_library_is_out_of_other_users_reach() {
    if !is_root() {
        return; // only root can give a directory to another user
    }
    let home = directory();
    chown(home.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("root may");
    let mut command = contend(home.path(), &["run", "--lock", "mcs", "--", "sh", "-c", "echo $LD_PRELOAD"]);
    command.env("HOME", home.path()).env("TMPDIR", home.path()).env("XDG_CACHE_HOME", home.path());
    let outcome = run(command, HANG);
    let library = PathBuf::from(outcome.stdout.trim().split(':').next().expect("a list"));
    assert!(library.is_absolute() && library.exists(), "{outcome}");
    assert!(!library.starts_with(home.path()), "{}", library.display());
    for ancestor in library.ancestors().skip(1) {
        let data = fs::symlink_metadata(ancestor).expect("a directory");
        assert!(data.is_dir() && data.uid() == 0, "{}", ancestor.display());
        assert!(data.mode() & 0o022 == 0 || data.mode() & 0o1000 != 0, "{}", ancestor.display());
    }
    assert_eq!(fs::read_dir(home.path()).expect("a directory").count(), 0, "nothing is left there");
}

/// As a service that drops its rights does, and with all descriptors closed, as `subprocess` of Python does.
#[test]
fn descendants_of_another_user_get_the_library_too() {
    if !is_root() {
        return; // only root can become another user
    }
    let place = directory();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("root may");
    let program = place.path().join("injected");
    fs::copy(injected(), &program).expect("a copy that others can run");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("root may");
    let other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c"];
    let look = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; grep -c libcontend_preload /proc/self/maps";
    let recorded = place.path().join("recorded.contend").into_os_string().into_string().expect("UTF-8");
    for command in [&["run", "--lock", "mcs", "--"][..], &["profile", "--quiet", "-o", &recorded, "--"]] {
        let outcome = ran(Path::new("/"), &[command, &other[..], &[look]].concat());
        assert!(outcome.stdout.trim().parse::<u32>().expect("a count") > 0, "{outcome}");
        assert!(!outcome.stderr.contains("cannot be preloaded"), "{outcome}");
    }
}
