//! Profiles that no forecast is made from: what they hold is not what the program does.

use crate::profiled::{self, Group};
use crate::question::Void;
use crate::subject::{Besides, Subject};
use profile::read::{Runtime, Untouched, WITHOUT_A_CORE};
use profile::{LockRow, LockTable, TableHeader};
use report::text;
use session::noise::Noise;
use std::path::Path;

/// A machine whose hypervisor takes more of its cores' time was too busy.
const STOLEN: f64 = 0.2;
/// Waits that are no recorded locks' are what the program does, where they take more of the threads' time, and locks less than that.
const ELSEWHERE: [f64; 2] = [0.5, 0.05];
/// Threads that wait for so much of their time for an interpreter are kept apart by it.
const INTERPRETED: f64 = 0.2;
/// Of the time in which threads ran or may have waited for locks: so much of it blocked in no recorded call is worth an explanation.
const MISSED: f64 = 0.1;
/// Threads that are on a core, or ready for one, for so much of their time are slowed by what they do there.
const BUSY: f64 = 0.7;
/// Fewer acquisitions show no distribution of anything.
const LEAST_ACQUISITIONS: u64 = 100;

fn void(reason: String, remedy: &str) -> Void {
    Void { reason, remedy: remedy.to_owned(), of_lock: false }
}

/// Why nothing is forecast from waits alone.
pub(crate) fn of_waits_alone(header: &TableHeader, path: &Path) -> Option<Void> {
    header.attached.is_some().then(|| {
        void(
            format!(
                "{} has waits in futexes alone, as `contend attach` and `contend profile` of a static program record them, and neither \
                 critical sections nor the time outside of them, and a prediction needs both",
                path.display()
            ),
            "Link the program dynamically, and start it with `contend profile -o FILE -- CMD`",
        )
    })
}

/// The same of what a language's runtime recorded by itself.
pub(crate) fn of_runtime(runtime: Runtime, path: &Path) -> Void {
    let whose = match runtime {
        Runtime::Go => "Go's own profile",
        Runtime::Java => "a recording of Java's own",
    };
    void(
        format!("{} is {whose}, which carries no forecast: it has waits alone", path.display()),
        "See in `contend report` what was waited for",
    )
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
    // Threads that wait for a lock that was left to the C library would run if they could.
    let is_left_out = header.untouched.total() > 0 && missed_share(header).is_some();
    if !header.ran_together && !is_left_out {
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
    header.kept_from_cores().map(|part| {
        void(
            format!(
                "the machine was too busy: its threads waited for a core for {:.0} % of the time in which they could have run",
                100.0 * part
            ),
            "Profile again on an otherwise idle machine",
        )
    })
}

/// Why nothing is said of runs on up to so many threads of so many cores, if other programs or the hypervisor took so much of the cores' time
/// that as many threads were kept from theirs for more of it than the threads of a profile may be: then a fall of throughput may be
/// theirs, and one that the program has may be hidden.
pub(crate) fn of_noise(noise: &Noise, threads: u32, cores: u32) -> Option<Void> {
    let taken = noise.others_share.unwrap_or(0.0) + noise.stolen_share.unwrap_or(0.0);
    let left = (1.0 - taken) * f64::from(cores);
    let wanted = f64::from(threads.min(cores));
    (wanted - left > WITHOUT_A_CORE * wanted).then(|| {
        void(
            format!("the machine was too busy: {}", noise.disturbances().join("; ")),
            "Measure again when the machine is quiet",
        )
    })
}

/// The same of the lock in question.
pub(crate) fn of_lock(row: &LockRow, header: &TableHeader) -> Option<Void> {
    if row.acquisitions() < LEAST_ACQUISITIONS {
        let times = match row.acquisitions() {
            1 => "once".to_owned(),
            many => format!("{many} times"),
        };
        return Some(too_little(&row.name, &format!("it was acquired {times}")));
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

/// Locks and condition variables that were left to the C library, which are neither recorded nor replaced, where what was recorded does not
/// explain what the program does: they may be what holds it back.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    /// Which: `1 mutex was left to the C library (robust)`.
    pub objects: String,
    /// How many.
    pub count: u64,
    /// What the recorded locks do not explain.
    pub why: String,
}

impl LeftOut {
    /// Those of a profile; none where all is explained. `is_loss_unexplained` says that its program was measured to do less on several
    /// threads than the recorded locks explain.
    #[must_use]
    pub fn of(table: &LockTable, is_loss_unexplained: bool) -> Option<Self> {
        let header = &table.header;
        let left = &header.untouched;
        let objects = in_words(left)?;
        let found = |why: String| Some(Self { objects, count: left.total(), why });
        // One thread waits for no other; a process may wait for another one.
        if header.threads <= 1 && left.process_shared == 0 {
            return None;
        }
        if profiled::by_cost(table).is_empty() {
            return found("no other lock was acquired".into());
        }
        if let Some(share) = missed_share(header) {
            return found(format!(
                "its threads were blocked for {:.0} % of the time in which they ran or may have waited for a lock, in no call that is recorded",
                100.0 * share
            ));
        }
        let ready_ns = header.cpu_ns + header.queued_ns.unwrap_or(0.0);
        let joins_ns = header.blocked.map_or(0.0, |blocked| blocked.joins_ns);
        let is_busy = ready_ns > BUSY * (header.threads_ns() - joins_ns);
        if is_loss_unexplained && is_busy && header.threads > 1 {
            return found("its threads were busy for less work than the recorded locks explain".into());
        }
        None
    }

    /// That nothing is forecast for their sake.
    #[must_use]
    pub fn void(&self) -> Void {
        void(format!("{}, and {}", self.objects, self.why), self.remedy())
    }

    /// How their part is found out.
    pub(crate) fn remedy(&self) -> &'static str {
        if self.count == 1 {
            "`contend attach PID` shows waits for it, by the kernel's futex events; for a trial, one without these attributes is recorded"
        } else {
            "`contend attach PID` shows waits for them, by the kernel's futex events; for a trial, those without these attributes are recorded"
        }
    }
}

/// The part of the time in which threads ran, were ready to run or may have waited for a lock that they were blocked in no recorded call;
/// none where that is little, or less than they waited for recorded locks.
fn missed_share(header: &TableHeader) -> Option<f64> {
    let waited_ns = (header.concurrency * header.elapsed_ns - header.cpu_ns).max(0.0);
    let ready_ns = header.cpu_ns + header.queued_ns.unwrap_or(0.0);
    // What no look has seen tells of nothing.
    let blocked = header.blocked.filter(|blocked| !blocked.is_mostly_unknown());
    let missed_ns = blocked.map_or(0.0, |blocked| blocked.missed_ns());
    let share = missed_ns / (ready_ns + waited_ns + missed_ns).max(1.0);
    (share > MISSED && missed_ns > waited_ns).then_some(share)
}

/// Objects that were left to the C library; none if there are none.
fn in_words(left: &Untouched) -> Option<String> {
    let of_mutexes = left.robust + left.priority_inheriting + left.priority_protected;
    let noun = match left.total() {
        0 => return None,
        1 if of_mutexes == 1 => "mutex was",
        1 if left.condition == 1 => "condition variable was",
        1 => "lock was",
        total if of_mutexes == total => "mutexes were",
        total if left.condition == total => "condition variables were",
        _ if left.condition == 0 => "locks were",
        _ => "locks and condition variables were",
    };
    let reasons = [
        (left.process_shared + left.condition, "process-shared"),
        (left.priority_inheriting, "priority-inheriting"),
        (left.priority_protected, "priority-protected"),
        (left.robust, "robust"),
        (left.other, "in a state that it alone knows"),
    ];
    let reasons: Vec<&str> = reasons.iter().filter(|(count, _)| *count > 0).map(|&(_, why)| why).collect();
    Some(format!("{} {noun} left to the C library ({})", left.total(), reasons.join(", ")))
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

/// A lock beside which another one takes more time, and was taken where the profile leaves no time for it.
pub(crate) fn of_outweighed(name: &str, other: &str) -> Void {
    let [name, other] = [name, other].map(text::printable);
    let reason = format!(
        "{other} takes more of its threads' time than {name}, and how the two are taken in turn is not known"
    );
    let remedy = format!(
        "Ask for {other} first, or profile one thread, on which no lock is held by a thread without a core"
    );
    Void { of_lock: true, ..void(reason, &remedy) }
}

/// Why nothing is forecast where each thread or process has a lock of its own in the place in question, the first of `groups`: its think
/// time is that of one of them, and no other waits for it.
pub(crate) fn of_own_locks(groups: &[Group], header: &TableHeader) -> Option<Void> {
    let row = &groups[0].row;
    let of_site = groups.iter().filter(|group| (&group.row.site, group.row.kind) == (&row.site, row.kind));
    let (mut locks, mut are_own) = (0, Group::are_apart(header));
    for group in of_site {
        locks += 1;
        are_own &= group.row.threads == 1;
    }
    (locks > 1 && are_own).then(|| Void {
        of_lock: true,
        ..void(
            format!(
                "each of its {locks} threads or processes has a lock of its own at {}, which no other takes",
                text::printable(&row.site)
            ),
            "Profile threads of one process that share a lock",
        )
    })
}

/// A lock of which too little was seen.
pub(crate) fn too_little(name: &str, reason: &str) -> Void {
    let reason = format!("{} was seen too little: {}", text::printable(name), text::printable(reason));
    Void { of_lock: true, ..void(reason, "Profile longer, while the program is at work") }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use profile::read::Blocked;
    use profile::{LockKind, ObjectKind, Times, Usage};

    /// Two threads that take a mutex now and then, which none waits for, and another one that was left to the C library; they are blocked
    /// for so many ns in no recorded call, of 1 s.
    pub(crate) fn table_beside_left_out(missed_ns: f64) -> LockTable {
        let times = |mean_ns: f64| Times { count: 1_000, total_ns: 1_000.0 * mean_ns, ..Times::default() };
        let exclusive =
            Usage { acquisitions: 1_000, hold_same: times(20.0), think: times(1e6), ..Usage::default() };
        let row = LockRow {
            threads: 2,
            exclusive,
            acquisitions_per_operation: Some(1_000.0),
            critical_section_ns: Some(20.0),
            ..LockRow::new("cold", LockKind::Object(ObjectKind::Mutex))
        };
        let cpu_ns = 2e9 - missed_ns;
        let header = TableHeader {
            threads: 2,
            cores: 2,
            elapsed_ns: 1e9,
            cpu_ns,
            concurrency: cpu_ns / 1e9,
            ran_together: true,
            blocked: Some(Blocked { futex_ns: missed_ns, joins_ns: 1e9, ..Blocked::default() }),
            untouched: Untouched { priority_inheriting: 1, ..Untouched::default() },
            ..TableHeader::default()
        };
        LockTable { header, rows: vec![row], striped: Vec::new(), kernel: None, program: None }
    }

    #[test]
    fn a_lock_left_to_the_c_library_voids_the_forecast_of_a_program_whose_waits_nothing_explains() {
        let table = table_beside_left_out(8e8);
        let void = of_profile(&table).expect("nothing is known of its waits");
        assert!(
            void.reason.starts_with(
                "1 mutex was left to the C library (priority-inheriting), and its threads were blocked for 40 % of"
            ),
            "{void}"
        );
        assert!(void.remedy.starts_with("`contend attach PID`"), "{void}");
        let mut apart = table;
        (apart.header.ran_together, apart.header.queued_ns) = (false, Some(3e8));
        assert_eq!(
            of_profile(&apart).map(|void| void.remedy),
            Some(void.remedy),
            "they would run if they could"
        );
        apart.header.untouched = Untouched::default();
        let void = of_profile(&apart).expect("they did not run together");
        assert!(void.reason.contains("hardly ran together"), "{void}");
        assert_eq!(
            of_profile(&LockTable { rows: Vec::new(), ..table_beside_left_out(0.0) }).map(|void| void.reason),
            Some(
                "1 mutex was left to the C library (priority-inheriting), and no other lock was acquired"
                    .into()
            )
        );
    }

    /// A table of a program whose two threads ran, and were ready and had no core, for so many ns of a second.
    fn table_of([cpu_ns, queued_ns]: [f64; 2]) -> LockTable {
        let mut table = table_beside_left_out(0.0);
        table.header.untouched = Untouched::default();
        let (concurrency, queued_ns) = (cpu_ns / 1e9, Some(queued_ns));
        table.header = TableHeader { cpu_ns, concurrency, queued_ns, ..table.header };
        table
    }

    #[test]
    fn a_busy_machine_is_told_from_a_program_that_hardly_runs() {
        let of = |times| of_table(&table_of(times).header);
        let void = of([1.2e9, 0.6e9]).expect("other programs had the cores");
        assert!(void.reason.contains("too busy") && void.reason.contains("for 33 % of the time"), "{void}");
        assert_eq!(of([1.2e9, 0.3e9]), None);
        // It sleeps: what its threads wait for when they wake up is a third of 4 ms, and nothing of a second.
        assert_eq!(of([2.5e6, 1.3e6]), None);
        assert_eq!(of([250e6, 130e6]), None);
        // A pool of threads most of which have nothing to do.
        let mut pool = table_of([0.7e9, 0.4e9]);
        pool.header.threads = 16;
        assert!(of_table(&pool.header).is_some());
        let mut kept = pool.header;
        kept.queued_ns = None;
        assert_eq!(of_table(&kept), None, "nothing tells");
    }

    #[test]
    fn what_shows_no_contention_carries_no_forecast() {
        let void = |change: &dyn Fn(&mut LockTable)| {
            let mut table = table_of([1.9e9, 0.0]);
            change(&mut table);
            of_profile(&table).map(|void| void.reason).unwrap_or_default()
        };
        assert_eq!(void(&|_| ()), "");
        let stolen = void(&|table| table.header.stolen_ns = 0.5e9);
        assert!(stolen.contains("its hypervisor took 25 %"), "{stolen}");
        let apart = void(&|table| (table.header.ran_together, table.header.concurrency) = (false, 1.0));
        assert!(apart.contains("2 threads hardly ran together"), "{apart}");
        let one_core = void(&|table| table.header.cores = 1);
        assert!(one_core.contains("2 threads shared one core"), "{one_core}");
        let seldom = void(&|table| table.rows[0].exclusive.acquisitions = 99);
        assert!(seldom.contains("seen too little: it was acquired 99 times"), "{seldom}");
        let elsewhere = void(&|table| {
            table.header.blocked = Some(Blocked { futex_ns: 6e9, ..Blocked::default() });
        });
        assert!(elsewhere.contains("in what is no recorded lock"), "{elsewhere}");
    }

    #[test]
    fn a_machine_whose_other_programs_leave_too_few_cores_carries_no_answer() {
        let of = |others: f64, stolen: f64, threads, cores| {
            let noise = Noise { others_share: Some(others), stolen_share: Some(stolen), ..Noise::default() };
            of_noise(&noise, threads, cores)
        };
        let void = of(0.58, 0.0, 2, 2).expect("two threads shared a core");
        assert!(void.reason.contains("58 %") && void.remedy.starts_with("Measure again"), "{void:?}");
        assert_eq!(of(0.25, 0.0, 2, 2), None);
        assert!(of(0.25, 0.15, 2, 2).is_some());
        assert_eq!(of(0.58, 0.0, 2, 64), None, "the others leave cores enough");
        assert_eq!(of_noise(&Noise::default(), 2, 2), None);
    }

    #[test]
    fn waits_alone_are_no_profile_that_a_forecast_is_made_from() {
        let attached =
            TableHeader { attached: Some(profile::read::Attached::default()), ..TableHeader::default() };
        let void = of_waits_alone(&attached, Path::new("a.contend")).expect("it has waits alone");
        assert!(void.reason.starts_with("a.contend has waits in futexes alone"), "{void}");
        assert_eq!(of_waits_alone(&TableHeader::default(), Path::new("a.contend")), None);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("go.pb.gz");
        std::fs::write(&file, [0x1f, 0x8b, 8, 0]).unwrap();
        let void = profiled::open(&file).unwrap().expect_err("it is Go's");
        assert!(void.reason.contains("go.pb.gz is Go's own profile, which carries no forecast"), "{void}");
    }

    #[test]
    fn locks_that_processes_have_of_their_own_are_no_lock_that_they_share() {
        let mut table = table_beside_left_out(0.0);
        table.header.untouched = Untouched::default();
        let own = |pid| LockRow { pid, threads: 1, ..table.rows[0].clone() };
        let forked = LockTable { rows: vec![own(1), own(2)], ..table.clone() };
        let void = of_profile(&forked).expect("none waits for another's");
        assert!(void.reason.contains("each of its 2 threads or processes has a lock of its own at cold"));
        assert!(void.of_lock, "there may be a forecast of another lock");
        // One that is shared is forecast, also where each of two processes has one.
        assert_eq!(of_profile(&table), None);
        let shared = |pid| LockRow { pid, ..table.rows[0].clone() };
        assert_eq!(of_profile(&LockTable { rows: vec![shared(1), shared(2)], ..table.clone() }), None);
        // Locks of one site that one thread goes round are its shards.
        let mut one = LockTable { rows: vec![own(1), own(1)], ..table.clone() };
        one.header.concurrency = 1.0;
        assert_eq!(of_profile(&one), None);
    }

    #[test]
    fn a_lock_left_to_the_c_library_changes_nothing_where_all_is_explained() {
        let table = table_beside_left_out(1e8);
        assert_eq!(LeftOut::of(&table, false), None);
        let spins = LeftOut::of(&table, true).expect("threads that spin are busy");
        assert!(spins.why.contains("busy for less work"), "{spins:?}");
        let waits = |change: fn(&mut LockTable)| {
            let mut table = table_beside_left_out(8e8);
            change(&mut table);
            LeftOut::of(&table, true)
        };
        assert!(waits(|_| ()).is_some());
        assert_eq!(
            waits(|table| table.header.concurrency = 2.2),
            None,
            "recorded locks are waited for longer"
        );
        assert_eq!(waits(|table| table.header.threads = 1), None, "one thread waits for no other");
        assert_eq!(waits(|table| table.header.untouched = Untouched::default()), None);
        let reads = waits(|table| {
            table.header.blocked = Some(Blocked { io_ns: 8e8, ..Blocked::default() });
        });
        assert_eq!(reads, None, "its threads wait for something else");
    }

    #[test]
    fn what_was_left_to_the_c_library_is_called_what_it_is() {
        let none = Untouched::default();
        assert_eq!(in_words(&none), None);
        let said = |left: Untouched| in_words(&left).unwrap_or_default();
        let robust = Untouched { robust: 1, priority_inheriting: 2, ..none };
        assert_eq!(said(robust), "3 mutexes were left to the C library (priority-inheriting, robust)");
        assert_eq!(
            said(Untouched { process_shared: 1, ..none }),
            "1 lock was left to the C library (process-shared)"
        );
        assert_eq!(
            said(Untouched { process_shared: 1, condition: 1, ..none }),
            "2 locks and condition variables were left to the C library (process-shared)"
        );
    }
}
