//! What to know before believing a lock table.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Profile;
use super::blocked::Blocked;
use super::names::{LONGEST_FILE, printable_up_to};
use super::symbols::base_name;
use super::table::{LockRow, TableHeader};

/// With fewer threads than this running or waiting for a lock at a time, several threads did not run together.
const TOGETHER: f64 = 1.2;
/// Stolen time that disturbs, as a part of the time of all cores.
const STOLEN: f64 = 0.05;
/// Coverage below which most of what may have been a wait for a lock is not in the table.
const COVERED: f64 = 0.5;
/// Files that one warning names.
const FILES_SHOWN: usize = 4;
/// What is less than this part of a whole does not matter to it.
const MATTERS: f64 = 0.05;

/// A thread that waits for a lock would run if it could: one lock that blocks all threads is no lack of concurrency. Nor is it
/// one if threads do not want to run at a time: some join others, or wait for work.
pub(super) fn judge_concurrency(header: &mut TableHeader, rows: &[LockRow]) {
    let waited_ns: f64 = rows.iter().map(LockRow::waited_ns).sum();
    if header.elapsed_ns > 0.0 && header.cpu_ns > 0.0 {
        header.concurrency = (header.cpu_ns + waited_ns) / header.elapsed_ns;
        let wanted = header.queued_ns.map(|queued_ns| header.concurrency + queued_ns / header.elapsed_ns);
        header.ran_together = header.threads <= 1
            || header.concurrency >= TOGETHER
            || wanted.is_some_and(|wanted| wanted < TOGETHER);
    }
}

pub(super) fn warnings(profile: &Profile, header: &TableHeader) -> Vec<String> {
    let mut warnings = Vec::new();
    if !header.ran_together {
        warnings.push(format!(
            "{} threads used {:.2} cores at a time, and {:.2} ran or waited for a lock{}: they hardly ran together, so contention and hand-over figures cannot be trusted",
            header.threads,
            header.cores_used,
            header.concurrency,
            match header.queued_ns {
                Some(queued_ns) => format!(
                    ", where {:.2} would have, had they not waited for a core",
                    header.concurrency + queued_ns / header.elapsed_ns
                ),
                None => String::new(),
            }
        ));
    }
    if let Some(part) = header.kept_from_cores().filter(|_| header.ran_together) {
        warnings.push(format!(
            "threads waited for a core for {:.0} % of the time in which they could have run: the machine was too busy, and times are too long",
            100.0 * part
        ));
    }
    if header.cores == 1 {
        warnings.push(
            "the program could use one core only: nothing here tells how its locks behave on more".into(),
        );
    }
    if header.stolen_ns > STOLEN * header.elapsed_ns * header.cores.max(1) as f64 {
        let part = header.stolen_ns / (header.elapsed_ns * header.cores.max(1) as f64) * 100.0;
        warnings.push(format!("the hypervisor took {part:.0} % of the cores' time: times are too long"));
    }
    if let Some(blocked) = header.blocked.filter(|blocked| misses_most(blocked, header)) {
        warnings.push(missed(&blocked));
    }
    warnings.extend(of_space(profile, header));
    warnings.extend(of_what_is_left_out(profile, header));
    warnings.extend(of_reused_addresses(profile));
    warnings.extend(profile.kernel.iter().flat_map(|kernel| kernel.warnings()));
    let recorded = || profile.sections.iter().filter(|section| !section.pairs.is_empty());
    let unended = recorded().filter(|section| section.process.clock_last_ns == 0).count();
    if unended > 0 {
        let which = match recorded().count() {
            1 => "the process image that took locks did not end by itself".to_owned(),
            all => format!("{unended} of {all} process images that took locks did not end by themselves"),
        };
        warnings.push(format!("{which} (killed, left by _exit, replaced by exec, or still running)"));
    }
    if profile.ns_per_tick() == 1.0 && header.elapsed_ns == 0.0 {
        warnings.push("no two readings of the clock: times are in ticks, not nanoseconds".into());
    }
    warnings
}

/// A number with what it counts.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// What found no space in the file.
fn of_space(profile: &Profile, header: &TableHeader) -> Vec<String> {
    let mut warnings = Vec::new();
    let reason = match profile.header.growth_error {
        0 => "its limit was reached".to_owned(),
        error => std::io::Error::from_raw_os_error(error.min(4095) as i32).to_string(),
    };
    if header.dropped > 0 {
        warnings.push(format!(
            "the profile could not grow ({reason}): {} missing; {}",
            counted(header.dropped, "event is", "events are"),
            remedy(profile)
        ));
    } else if profile.header.growth_error != 0 && profile.header.unrecorded == 0 {
        warnings.push(format!(
            "the profile could not grow ({reason}): distributions, names or run time may be missing; {}",
            remedy(profile)
        ));
    }
    if header.merged_pairs > 0 || header.merged_locks > 0 {
        let locks = counted(header.merged_locks, "lock was merged", "locks were merged");
        let pairs = counted(header.merged_pairs, "time", "times");
        let pairs = format!("records of a thread and a lock were merged {pairs}");
        let merged = [(header.merged_locks, locks), (header.merged_pairs, pairs)];
        let merged: Vec<_> =
            merged.into_iter().filter(|(count, _)| *count > 0).map(|(_, words)| words).collect();
        warnings.push(format!(
            "past the file's bound, {} into one row; {} to keep them apart",
            merged.join(", and "),
            remedy(profile)
        ));
    }
    if profile.header.unrecorded > 0 {
        warnings.push(format!(
            "{} no space in the profile ({reason}), and nothing of {} is in the table; {}",
            counted(profile.header.unrecorded, "process found", "processes found"),
            if profile.header.unrecorded == 1 { "it" } else { "them" },
            remedy(profile)
        ));
    }
    warnings
}

/// What was not recorded, though there was space.
fn of_what_is_left_out(profile: &Profile, header: &TableHeader) -> Vec<String> {
    let mut warnings = Vec::new();
    let left = profile.sections.iter().filter(|section| section.process.gave_up_rights != 0).count();
    if left > 0 {
        warnings.push(format!(
            "processes that gave up their user's rights (setuid), {left} here, are recorded up to then, since the profile is that user's; start contend as the user whom they become to record the rest"
        ));
    }
    if header.untouched.total() > 0 {
        warnings.push(format!(
            "{} not in the table",
            counted(
                header.untouched.total(),
                "object was left to the C library and is",
                "objects were left to the C library and are"
            )
        ));
    }
    if let Some(lost) =
        header.attached.or(header.beside).map(|watched| watched.lost_events).filter(|&lost| lost > 0)
    {
        warnings.push(format!(
            "{} no space in the buffers: as many waits or fewer are missing, for they came faster than they could be read",
            counted(lost, "event found", "events found")
        ));
    }
    warnings
}

/// Libraries that came to where others had been unloaded: what a name at such an address would be is not known.
fn of_reused_addresses(profile: &Profile) -> Option<String> {
    let mut places = profile.sections.iter().flat_map(|section| section.mappings.reused());
    let first = places.next()?;
    Some(format!(
        "files were mapped one after another at the same addresses ({}): locks and calls there are named by their address",
        listed(first.files.iter().chain(places.flat_map(|place| &place.files)))
    ))
}

/// Files whose symbols would have named locks or calls, and are those of another file now.
pub(super) fn of_unread(paths: &BTreeSet<Arc<str>>) -> Option<String> {
    let (were, their) = if paths.len() == 1 { ("was", "its") } else { ("were", "their") };
    let or_gone = if paths.len() == 1 { "or is gone" } else { "or are gone" };
    (!paths.is_empty()).then(|| {
        format!(
            "{} {were} built anew since the profile, {or_gone}: {their} locks and calls are named by address; record again",
            listed(paths)
        )
    })
}

/// The names of some of these files, each once.
fn listed<'p>(paths: impl IntoIterator<Item = &'p Arc<str>>) -> String {
    let names = paths.into_iter().map(|path| printable_up_to(LONGEST_FILE, base_name(path)));
    let names: BTreeSet<String> = names.collect();
    let shown: Vec<&str> = names.iter().take(FILES_SHOWN).map(|name| &**name).collect();
    format!("{}{}", shown.join(", "), if names.len() > shown.len() { ", …" } else { "" })
}

/// The library in which a Java virtual machine is.
const JAVA: &str = "libjvm.so";

/// What is recorded of a program in Java, and what would tell of its own locks.
pub(super) fn of_java(rows: &[LockRow]) -> Option<String> {
    let is_of_java = |row: &LockRow| row.file == JAVA;
    rows.iter().any(is_of_java).then(|| {
        format!(
            "a Java virtual machine ran ({JAVA}): its own mutexes are here, and the monitors and locks of Java code are not; start java with \
             -XX:StartFlightRecording:filename=app.jfr,jdk.JavaMonitorEnter#threshold=0ns,jdk.ThreadPark#threshold=0ns, and read them by contend report app.jfr"
        )
    })
}

/// Whether most of what may have been a wait for a lock was not recorded, and is long enough to matter to the program.
fn misses_most(blocked: &Blocked, header: &TableHeader) -> bool {
    !blocked.is_mostly_unknown()
        && blocked.coverage().ratio() < COVERED
        && blocked.missed_ns() > MATTERS * header.threads_ns()
}

fn missed(blocked: &Blocked) -> String {
    let rest = blocked.missed_ns();
    let mut parts = [
        (
            "on futexes in no recorded call (semaphores, barriers, locks of Rust, Go and static programs)",
            blocked.futex_ns,
        ),
        ("in other waits", blocked.other_ns),
        ("in what was not looked at", blocked.unknown_ns),
    ];
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let shares = parts.iter().filter(|(_, ns)| *ns >= MATTERS * rest);
    let words: Vec<_> =
        shares.map(|(name, ns)| (*name, format!("{:.0} % {name}", 100.0 * ns / rest))).collect();
    let rest = match &words[..] {
        [(only, _)] => format!("was {only}"),
        several => {
            let shares: Vec<_> = several.iter().map(|(_, share)| share.as_str()).collect();
            format!("was {}", shares.join(", "))
        }
    };
    format!(
        "{:.0} % of what may have been waits for locks was recorded; the rest {rest}",
        100.0 * blocked.coverage().ratio()
    )
}

/// How to get more space for a profile that could not grow.
fn remedy(profile: &Profile) -> &'static str {
    match i32::try_from(profile.header.growth_error) {
        Ok(0) => "record with a higher --size-limit",
        Ok(libc::ENOSPC) => "free some space on the disk, or record to another one with -o",
        Ok(libc::EDQUOT) => "free some of your quota, or record to another disk with -o",
        Ok(libc::EFBIG) => "record with a larger limit of file sizes (ulimit -f)",
        _ => "record to another place with -o",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockKind, ObjectKind};

    #[test]
    fn what_hardly_any_look_has_seen_is_no_reason_for_a_warning() {
        let header = TableHeader { cpu_ns: 10.0, ..TableHeader::default() };
        let looked_at = Blocked { locks_ns: 1.0, futex_ns: 60.0, unknown_ns: 39.0, ..Blocked::default() };
        assert!(misses_most(&looked_at, &header));
        let rarely = Blocked { futex_ns: 30.0, unknown_ns: 69.0, ..looked_at };
        assert!(!misses_most(&rarely, &header), "what it was is not known");
    }

    #[test]
    fn locks_of_a_java_virtual_machine_are_said_to_be_none_of_javas() {
        let row = |file: &str| LockRow {
            file: file.into(),
            ..LockRow::new("mutex_init", LockKind::Object(ObjectKind::Mutex))
        };
        let said = of_java(&[row("server"), row("libjvm.so")]).expect("one is of a virtual machine");
        assert!(said.contains("-XX:StartFlightRecording") && said.contains("contend report"), "{said}");
        assert_eq!(of_java(&[row("server"), row("not-libjvm.so.1")]), None);
    }
}
