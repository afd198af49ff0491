//! What holds a program back besides the locks that were looked at.

use super::measured::Measured;
use profile::LockTable;
use report::text;

/// A part of the threads' time that is worth a word.
const PART: f64 = 0.15;

/// What a Rust program's threads wait for that is no pthread's lock, and what can be done.
pub(super) fn of_rust(table: Option<&LockTable>) -> String {
    let row = table.and_then(LockTable::most_waited_for_outside_pthreads);
    let remedy =
        "put `Mutex` or `RwLock` of the crate contend-locks in its place in the source (docs/library.md)";
    match row {
        Some(row) => format!(
            "Its threads waited for `{}` for {}, a lock of Rust's, of which waits alone are seen and which cannot be swapped: {remedy}.",
            text::printable(&row.name),
            text::time(row.waited_ns()),
        ),
        None => {
            let none = if table.is_some() { ", and none was that is known to be for one" } else { "" };
            format!(
                "It is a Rust program, whose own locks are no pthread's: they cannot be swapped; of them waits alone are recorded{none}."
            )
        }
    }
}

/// The largest thing that threads spend time in besides these locks; `reached` is the work on the most threads with the best lock in its
/// place, `by`, relative to the fewest. `is_said` tells that what was left to the C library is said already. None where nothing can be
/// told.
pub(super) fn besides(
    table: &LockTable,
    measured: &Measured,
    by: Option<(&str, &str)>,
    reached: f64,
    is_said: bool,
) -> Option<String> {
    let most = measured.most();
    if measured.cores == 1 {
        return Some("It has one core here, on which no two of its threads run at a time.".into());
    }
    let header = &table.header;
    let left = header.untouched.total();
    // It may have more threads than it was asked for, whose waits are among those that were recorded.
    let threads_ns = (header.elapsed_ns * f64::from(most)).max(header.threads_ns()).max(1.0);
    let blocked = header.blocked.unwrap_or_default();
    // The interpreter is waited for by a condition variable.
    // A thread that sleeps to the end of a run, as a main thread does, holds back no thread that works.
    let of_work = |share: Option<f64>, ns: f64| share.map_or(ns, |share| share * threads_ns);
    let gil_ns = header.gil.as_ref().map_or(0.0, |gil| gil.waited_ns.min(blocked.conditions_ns));
    let parts = [
        (gil_ns, "wait for Python's global interpreter lock, so that one of them runs at a time"),
        (blocked.io_ns, "wait for input and output"),
        (of_work(header.events_share, blocked.events_ns), "wait for events (epoll, poll, select)"),
        (of_work(header.sleep_share, blocked.sleep_ns), "sleep until a time"),
        (blocked.conditions_ns - gil_ns, "wait for conditions, which other threads signal too late"),
        (blocked.futex_ns, on_futexes(left)),
        (blocked.kernel_locks_ns, "sleep in locks of the kernel"),
        (blocked.child_ns, "wait for other processes"),
        (header.queued_ns.unwrap_or(0.0), "are ready and have no core"),
    ];
    let largest =
        parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(ns, _)| *ns > PART * threads_ns);
    if let Some((ns, what)) = largest {
        return Some(format!(
            "Besides, for {:.0} % of their time its threads {what}.",
            100.0 * ns / threads_ns
        ));
    }
    // What else it may be is a guess beside that.
    if is_said {
        return None;
    }
    let is_waited_for = |suspect: &super::Suspect| suspect.waited >= super::suspects::WAITED;
    if left > 0 && !measured.suspects.iter().any(is_waited_for) {
        let objects = if left == 1 { "object was" } else { "objects were" };
        return Some(format!(
            "Of its locks and conditions, {left} {objects} left to the C library, which are neither recorded nor replaced, such as those that \
             processes share."
        ));
    }
    let busy = measured.case(by, most).and_then(super::Case::busy)?;
    let first = measured.threads[0];
    // Threads that wait for another lock than the program's own may spin. One number of threads is compared with itself.
    if by.is_none() && most > first && busy > reached * f64::from(first) * (1.0 + PART) {
        return Some(format!(
            "Besides, its threads keep {busy:.1} cores busy for {reached:.1} times the work, which these locks do not explain: \
             they may share data outside of locks, or a cache."
        ));
    }
    let cores = most.min(measured.cores);
    if cores < 2 {
        return None;
    }
    let idle = f64::from(cores) - busy;
    (idle > PART * f64::from(cores)).then(|| {
        format!("Besides, it keeps {busy:.1} of {cores} cores busy: part of its work may be done by fewer threads.")
    })
}

/// What waits on futexes are for that are in no recorded call, beside so many locks that were left to the C library.
fn on_futexes(left: u64) -> &'static str {
    if left == 0 {
        "wait for locks or semaphores that are no pthread's, which nothing recorded"
    } else {
        "wait on futexes in no recorded call: for what was left to the C library, or for semaphores, barriers or locks that are no pthread's"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::TableHeader;
    use profile::read::Blocked;

    /// Threads that a program has beside those that it was asked for wait, too.
    #[test]
    fn no_threads_wait_for_more_than_their_time() {
        let header = TableHeader {
            elapsed_ns: 1e9,
            cpu_ns: 1.2e9,
            blocked: Some(Blocked { conditions_ns: 15e9, ..Blocked::default() }),
            ..TableHeader::default()
        };
        let table = LockTable { header, rows: Vec::new(), striped: Vec::new(), kernel: None, program: None };
        let said = besides(&table, &super::super::tests::measured(Vec::new(), 2), None, 1.0, false)
            .expect("a reason");
        assert!(said.starts_with("Besides, for 93 % of their time"), "{said}");
    }

    /// Waits for them are recorded without further rights.
    #[test]
    fn a_rust_program_whose_own_locks_were_not_waited_for_is_said_to_have_no_such_wait() {
        let table = crate::void::tests::table_beside_left_out(0.0);
        let said = of_rust(Some(&table));
        assert!(
            said.ends_with("waits alone are recorded, and none was that is known to be for one."),
            "{said}"
        );
        assert!(of_rust(None).ends_with("waits alone are recorded."), "{}", of_rust(None));
    }

    /// A command that takes no number of threads, two of which ran 1.4 at a time: it is held against nothing but itself.
    #[test]
    fn one_number_of_threads_tells_of_no_work_that_more_cores_do() {
        let header = TableHeader { elapsed_ns: 1e9, cpu_ns: 1.4e9, ..TableHeader::default() };
        let table = LockTable { header, rows: Vec::new(), striped: Vec::new(), kernel: None, program: None };
        let of = |threads: &[u32], busy: f64| {
            let case = |&threads: &u32| super::super::Case {
                cores_busy: vec![busy; 5],
                ..super::super::measured::tests::case(None, threads, &[1.0; 5])
            };
            let mut measured = super::super::tests::measured(threads.iter().map(case).collect(), 2);
            measured.threads = threads.to_vec();
            besides(&table, &measured, None, 1.0, false)
        };
        assert_eq!(of(&[1], 1.4), None);
        let said = of(&[1, 2], 1.9).unwrap_or_default();
        assert!(said.contains("keep 1.9 cores busy for 1.0 times the work"), "{said}");
    }

    #[test]
    fn what_was_left_out_is_said_where_no_lock_is_waited_for() {
        let quiet = |waited: f64| {
            let mut measured = super::super::tests::measured(Vec::new(), 2);
            measured.suspects[0].waited = waited;
            measured
        };
        let table = crate::void::tests::table_beside_left_out(1e8);
        let said = |waited, is_said| besides(&table, &quiet(waited), None, 1.0, is_said).unwrap_or_default();
        assert!(said(0.0, false).contains("1 object was left to the C library"), "{}", said(0.0, false));
        assert_eq!(said(0.6, false), "");
        assert_eq!(said(0.0, true), "");
        let table = crate::void::tests::table_beside_left_out(9e8);
        let said = besides(&table, &quiet(0.0), None, 1.0, true).unwrap_or_default();
        assert!(said.contains("for what was left to the C library, or for semaphores"), "{said}");
    }
}
