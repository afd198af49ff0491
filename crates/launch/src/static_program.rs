//! A program that no library can be loaded into, since it is linked statically: its waits in futexes are recorded from its start,
//! as [`attach`](super::attach) records those of a program that runs already.

use super::Launch;
use super::attach::{Attach, Attached, Beginning, CAPABILITIES, check_rights};
use super::program::{MUTEX_PROFILE, Refused, Why};
use super::record::{Record, Recorded, create};
use super::supervise::{Held, Supervised};
use anyhow::{Context as _, bail};
use profile::format::RunValues;
use std::ffi::OsStr;

/// Whether a program was refused for being linked statically alone.
pub(crate) fn is_refused_by(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|refused| matches!(refused.why, Why::Static | Why::Go))
}

/// Runs the program to its end, with its waits in futexes recorded.
///
/// # Errors
///
/// The refusal, with what would allow it, where the kernel does not show futex calls or more is asked for than they tell; or the
/// program cannot be started.
pub(crate) fn record(record: &Record<'_>, refused: &anyhow::Error) -> anyhow::Result<Recorded> {
    let counts = record.operations.is_some() || record.operations_regex.is_some();
    if counts || record.kernel.is_some() || record.timeline || record.always_on.is_some() {
        bail!(
            "{refused:#}, or leave out --ops, --ops-regex, --kernel, --timeline and --always-on: then its waits in futexes are recorded, which tell of nothing else"
        );
    }
    if let Err(missing) = check_rights() {
        bail!(
            "{refused:#}, or have its waits in futexes recorded, as root or with {CAPABILITIES}: {missing}"
        );
    }
    let (name, arguments) = record.command.split_first().context("no program was given after `--`")?;
    let held = Held::begin();
    let mut recording = create(record.output, record.size_limit, 1, record.overwrite)?;
    // Without locks to swap and variables to set, no library is loaded.
    let command = Launch::new(record.library, name, arguments).command();
    let mut program = match command.and_then(|mut command| Supervised::start(&mut command, &held)) {
        Ok(program) => program,
        Err(error) => {
            recording.withdraw();
            return Err(error);
        }
    };
    let attach = Attach {
        pid: program.id(),
        duration: None,
        output: record.output,
        overwrite: record.overwrite,
        size_limit: record.size_limit,
    };
    let watch = match attach.watch() {
        Ok(watch) => watch,
        // It runs already: its end is passed on, as if it had been recorded.
        Err(missing) => {
            recording.begun();
            let status = program.wait()?;
            let _ = recording.finish(RunValues::default(), &[]); // an empty profile, as of a program that was not reached
            let remark = format!(
                "{} has ended before it could be attached to, or cannot be, and nothing was recorded: {missing:#}",
                name.display()
            );
            let remarks = vec![remark, said_of(name, refused)];
            return Ok(Recorded { recording, status, used: false, complete: true, remarks });
        }
    };
    let attached = attach.watched(watch, recording, Beginning::Start, |_| {});
    // Its number stays its own until it is waited for, which comes after everything that reads from /proc.
    let status = program.wait()?;
    let Attached { recording, mut remarks, .. } = attached?;
    remarks.push(said_of(name, refused));
    let complete = recording.growth_error().is_none();
    Ok(Recorded { recording, status, used: true, complete, remarks })
}

/// What the profile of such a program lacks, with the remedy if there is one.
fn said_of(name: &OsStr, refused: &anyhow::Error) -> String {
    let name = name.display();
    match refused.downcast_ref::<Refused>() {
        Some(Refused { why: Why::Go, .. }) => format!(
            "{name} is a Go program without C code: waits of its threads in futexes are recorded, without its children's, and \
             goroutines that wait for Go's own locks are not seen: {MUTEX_PROFILE}"
        ),
        _ => format!(
            "{name} is linked statically: its waits in futexes are recorded, without its children's, and neither its \
             acquisitions nor how long it held locks; link it dynamically to have those of pthread locks"
        ),
    }
}
