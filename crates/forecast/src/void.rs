//! Profiles that no forecast is made from: what they hold is not what the program does.

use crate::question::Void;
use crate::subject::{Besides, Subject};
use profile::{LockRow, LockTable, TableHeader};
use report::text;
use std::path::Path;

/// A machine whose hypervisor takes more of its cores' time was too busy.
const STOLEN: f64 = 0.2;
/// Threads with a core each that are kept from it for more of their time were on a machine that was too busy.
const QUEUED: f64 = 0.3;
/// Waits that are no recorded locks' are what the program does, where they take more of the threads' time, and locks less than that.
const ELSEWHERE: [f64; 2] = [0.5, 0.05];
/// Threads that wait for so much of their time for an interpreter are kept apart by it.
const INTERPRETED: f64 = 0.2;
/// Fewer acquisitions show no distribution of anything.
const LEAST_ACQUISITIONS: u64 = 100;

fn void(reason: String, remedy: &str) -> Void {
    Void { reason, remedy: remedy.to_owned(), of_lock: false }
}

/// Why nothing is forecast from this profile, if that is so.
#[must_use]
pub fn of_table(header: &TableHeader) -> Option<Void> {
    let cores_ns = header.elapsed_ns * header.cores.max(1) as f64;
    if header.stolen_ns > STOLEN * cores_ns {
        return Some(void(
            format!(
                "the machine was too busy: its hypervisor took {:.0} % of the cores' time",
                100.0 * header.stolen_ns / cores_ns
            ),
            "Profile again when the machine is quiet, or on another machine",
        ));
    }
    if !header.ran_together {
        let (why, remedy) = match &header.gil {
            Some(gil) if gil.share > INTERPRETED => (
                ", under Python's global interpreter lock",
                "One of them runs Python at a time, whatever locks there are: several processes, or a Python without that lock, do more",
            ),
            _ => (
                "",
                "Profile on an otherwise idle machine, with no more threads than cores, and for as long as the threads are at work",
            ),
        };
        return Some(void(
            format!(
                "{} threads hardly ran together{why}: {:.2} of them ran or waited for a lock at a time",
                header.threads, header.concurrency
            ),
            remedy,
        ));
    }
    if header.cores == 1 && header.threads > 1 && header.concurrency > 1.2 {
        return Some(void(
            format!("{} threads shared one core, on which no two ran at a time", header.threads),
            "Profile on two cores or more, or on one thread",
        ));
    }
    let queued_ns = header.queued_ns.unwrap_or(0.0);
    let ready_ns = header.cpu_ns + queued_ns;
    let had_cores = header.concurrency + queued_ns / header.elapsed_ns.max(1.0) <= header.cores as f64 + 0.5;
    if had_cores && ready_ns > 0.0 && queued_ns > QUEUED * ready_ns {
        return Some(void(
            format!(
                "the machine was too busy: its threads waited for a core for {:.0} % of the time in which they could have run",
                100.0 * queued_ns / ready_ns
            ),
            "Profile again on an otherwise idle machine",
        ));
    }
    None
}

/// The same of the lock in question.
pub(crate) fn of_lock(row: &LockRow, header: &TableHeader) -> Option<Void> {
    if row.acquisitions() < LEAST_ACQUISITIONS {
        return Some(too_little(&row.name, &format!("it was acquired {} times", row.acquisitions())));
    }
    let threads_ns = header.threads_ns();
    let missed_ns = header.blocked.map_or(0.0, |blocked| blocked.missed_ns());
    let [elsewhere, locks] = ELSEWHERE;
    if missed_ns > elsewhere * threads_ns && row.waited_ns() + row.held_ns() < locks * threads_ns {
        return Some(void(
            format!(
                "its threads waited for {:.0} % of their time in what is no recorded lock",
                100.0 * missed_ns / threads_ns
            ),
            "See in `contend report` what they were blocked in; a forecast of the locks would say nothing of this program",
        ));
    }
    None
}

/// The same where threads wait longer for locks of which waits alone are known than for `row`, the one in question if there is one.
pub(crate) fn of_other_locks(table: &LockTable, row: Option<&LockRow>) -> Option<Void> {
    let [_, locks] = ELSEWHERE;
    let waited_ns = table.waited_outside_pthreads_ns();
    let least_ns =
        row.map_or(0.0, |row| (row.waited_ns() + row.held_ns()).max(locks * table.header.threads_ns()));
    if waited_ns <= least_ns {
        return None;
    }
    let name = table.most_waited_for_outside_pthreads().map_or("", |row| row.name.as_str());
    Some(void(
        format!(
            "its threads waited longest for {}, which is no pthread's lock: of such, waits alone are recorded, and no critical sections",
            text::printable(name)
        ),
        "Have it recorded by the crate contend-recorded: `contend_recorded::sync` in the place of `std::sync`, and `Recorded` around a lock of parking_lot",
    ))
}

/// Why nothing is forecast from this profile alone, if that is so.
#[must_use]
pub fn of_profile(table: &LockTable) -> Option<Void> {
    let transfer_ns = topology::carried::machine("typical").costs().transfer_ns(2);
    let tables = std::slice::from_ref(table);
    let subject = Subject::new(tables, None, transfer_ns, Besides::default(), Path::new("the profile"));
    subject.ok().and_then(Result::err)
}

/// Nothing in it was acquired.
pub(crate) fn no_lock() -> Void {
    void(
        "no lock in it was acquired".into(),
        "Profile longer, while the program is at work; a program that takes no pthread lock is not slowed by one",
    )
}

/// A lock of which too little was seen.
pub(crate) fn too_little(name: &str, reason: &str) -> Void {
    let reason = format!("{} was seen too little: {}", text::printable(name), text::printable(reason));
    Void { of_lock: true, ..void(reason, "Profile longer, while the program is at work") }
}
