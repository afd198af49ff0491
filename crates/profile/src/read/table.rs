//! The lock table: what a profile says about each lock, in nanoseconds. Here are its types; [`super::rows`] makes it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use pthread::object::ObjectKind;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::at_end::{AtEnd, Unended};
use super::blocked::{Blocked, Coverage, Observed, Unseen};
use super::gil::Gil;
use super::kernel::KernelTable;
use super::stacks::{Call, Module};
use super::striped::Striped;
use super::times::Times;
use super::while_held::WhileHeld;

/// How to make a table.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Operations that the program did; instead of what the profile itself says.
    pub operations: Option<u64>,
    /// Whether to read the program's files for symbols and lines.
    pub symbols: bool,
    /// Whether to keep the calls that made each lock, see [`LockRow::calls`], and those that took it, see [`SiteUse::calls`].
    pub calls: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { operations: None, symbols: true, calls: false }
    }
}

/// What a row's locks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKind {
    /// Objects of one kind.
    Object(ObjectKind),
    /// A condition variable, of a program that was attached to.
    Condition,
    /// A semaphore, of a program that was attached to. Nothing tells whether it is used as a lock.
    Semaphore,
    /// A futex of nothing that is known, of a program that was attached to.
    Futex,
    /// Many locks, or a kind that this reader does not know.
    Mixed,
}

impl LockKind {
    /// Its name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object(kind) => kind.name(),
            Self::Condition => "condition",
            Self::Semaphore => "semaphore",
            Self::Futex => "futex",
            Self::Mixed => "mixed",
        }
    }

    /// The kind that a profile file calls by this number.
    pub(super) fn by_number(number: u32) -> Self {
        let others = [Self::Condition, Self::Semaphore, Self::Futex];
        let other = others.into_iter().find(|kind| kind.number() == number).unwrap_or(Self::Mixed);
        ObjectKind::by_number(number).map_or(other, Self::Object)
    }

    /// By which a profile file calls it.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Mixed => 0,
            Self::Object(kind) => kind as u32,
            Self::Condition => 16,
            Self::Semaphore => 17,
            Self::Futex => 18,
        }
    }

    /// Whether a wait for it is a wait for a lock, and not for something to happen.
    pub fn is_lock(self) -> bool {
        matches!(self, Self::Object(_) | Self::Mixed)
    }
}

impl Serialize for LockKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// What a profile says about every lock. The JSON of it is stable: fields are added, not changed.
#[derive(Clone, Debug, Serialize)]
pub struct LockTable {
    /// About the run as a whole.
    pub header: TableHeader,
    /// By time lost waiting, then by time held, most first.
    pub rows: Vec<LockRow>,
    /// Locks of `rows` that are striped, all those of a stripe together.
    pub striped: Vec<Striped>,
    /// The kernel's locks; `None` if they were not watched.
    pub kernel: Option<KernelTable>,
    /// The file of the program, as its first process had mapped it; `None` if that is unknown.
    #[serde(skip)]
    pub program: Option<Arc<Module>>,
}

/// About the run as a whole.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableHeader {
    /// Version of the JSON; higher numbers may change the meaning of fields.
    pub schema: u32,
    /// Profiles that are added up; 1 of a profile alone.
    pub profiles: u64,
    /// The number drawn at random of the recording that this is, or is an interval of; 0 of one that has none.
    #[serde(skip)]
    pub recording: u64,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Processes that recorded; one that executed several programs is one.
    pub processes: u64,
    /// Threads that touched a lock.
    pub threads: u64,
    /// Cores that the program might use; 0 if unknown.
    pub cores: u64,
    /// Whether the recording has ended, and not with a launcher that was killed.
    #[serde(skip)]
    pub finished: bool,
    /// When the file was made, ns since 1970.
    pub started_realtime_ns: u64,
    /// From start to end, ns.
    pub elapsed_ns: f64,
    /// Time on cores, all threads and processes, ns.
    pub cpu_ns: f64,
    /// Time on cores over elapsed time: how many cores it really used.
    pub cores_used: f64,
    /// How many threads ran, or waited for a lock, at a time.
    pub concurrency: f64,
    /// False if several threads would have run together, had they had the cores: then contention and hand-over figures mean
    /// little.
    pub ran_together: bool,
    /// Time that the hypervisor took from the machine's cores, ns.
    pub stolen_ns: f64,
    /// How much of the time in which threads may have waited for locks was recorded; `None` if the profile cannot tell.
    pub coverage: Option<Coverage>,
    /// What threads were blocked in; `None` if the profile cannot tell.
    pub blocked: Option<Blocked>,
    /// What `blocked` is made of, by process.
    #[serde(skip)]
    pub observed: BTreeMap<u64, Observed>,
    /// What the blocked time was in that was not recorded.
    pub unseen: Unseen,
    /// Time that threads were ready to run and had no core, ns; `None` if the profile cannot tell.
    pub queued_ns: Option<f64>,
    /// The part of their time in which threads waited for events (epoll, poll, select), each thread weighed by its time on cores, 0 to
    /// 1; `None` if the profile cannot tell.
    pub events_share: Option<f64>,
    /// The same of sleeping until a time.
    pub sleep_share: Option<f64>,
    /// Operations, if they were counted.
    pub operations: Option<u64>,
    /// Time on cores for one operation, ns, without recording; for one second of elapsed time if operations were not
    /// counted.
    pub operation_ns: f64,
    /// Times were taken on one pair in this many, at random.
    pub sample_period: u64,
    /// What recording cost.
    pub own_cost: OwnCost,
    /// Events that were not recorded, because the file could not grow.
    pub dropped: u64,
    /// Pairs of thread and lock that were merged into the row of merged locks.
    pub merged_pairs: u64,
    /// Locks that have no row of their own.
    pub merged_locks: u64,
    /// Objects left to the C library, by reason.
    pub untouched: Untouched,
    /// That the program was attached to while it ran: then only waits in futexes are known. `None` if it was started for the profile.
    pub attached: Option<Attached>,
    /// That waits in futexes were watched beside the recorder, for locks that are no pthread's: of those, waits alone are known.
    /// `None` if there is no such watch.
    pub beside: Option<Attached>,
    /// CPython's global interpreter lock, where threads waited for it.
    pub gil: Option<Gil>,
    /// What to know before believing the table.
    pub warnings: Vec<String>,
}

impl LockTable {
    /// The locks of which waits alone are known, in a table that has others, too: those that are no pthread's.
    fn outside_pthreads(&self) -> impl Iterator<Item = &LockRow> {
        let rows = self.rows.iter().filter(|_| self.header.beside.is_some());
        rows.filter(|row| row.exclusive.waits_only && row.kind.is_lock())
    }

    /// How long threads waited for locks that are no pthread's, where a recorder of pthread locks was not alone; ns.
    pub fn waited_outside_pthreads_ns(&self) -> f64 {
        self.outside_pthreads().map(LockRow::waited_ns).sum()
    }

    /// The one of them that was waited for longest.
    pub fn most_waited_for_outside_pthreads(&self) -> Option<&LockRow> {
        self.outside_pthreads().max_by(|a, b| a.waited_ns().total_cmp(&b.waited_ns()))
    }
}

/// Threads with a core each that are kept from it for more of the time in which they could run were on a machine that was too busy.
pub const WITHOUT_A_CORE: f64 = 0.3;
/// What they wait for a core disturbs only if it is more than this part of the elapsed time, too, of as many threads as have a core: each
/// thread that wakes up waits a little for its core, on a quiet machine as well, which is a large part of next to no time on one.
const LONG: f64 = 0.1;

impl TableHeader {
    /// The part of the time in which the threads could have run that they waited for a core, 0 to 1, where other work kept them from it for
    /// so long that the profile does not show what the program does by itself. None otherwise, and where the profile cannot tell.
    pub fn kept_from_cores(&self) -> Option<f64> {
        let queued_ns = self.queued_ns?;
        let ready_ns = self.cpu_ns + queued_ns;
        let elapsed_ns = self.elapsed_ns * self.threads.min(self.cores).max(1) as f64;
        // More threads than cores keep each other from them.
        let had_cores = self.concurrency + queued_ns / self.elapsed_ns.max(1.0) <= self.cores as f64 + 0.5;
        let is_long = queued_ns > WITHOUT_A_CORE * ready_ns && queued_ns > LONG * elapsed_ns;
        (had_cores && is_long).then(|| queued_ns / ready_ns)
    }

    /// How long the threads lived, as far as it is known: on cores, ready for one, or blocked; ns.
    pub fn threads_ns(&self) -> f64 {
        let blocked_ns = self.blocked.map_or(0.0, |blocked| blocked.total_ns());
        self.cpu_ns + self.queued_ns.unwrap_or(0.0) + blocked_ns
    }
}

/// A watch of a program that ran already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Attached {
    /// Events that found no space in the kernel's buffers.
    pub lost_events: u64,
    /// Waits whose callers could not be told.
    pub without_callers: u64,
}

/// What recording cost: measured at the start of the process that did most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OwnCost {
    /// For a pair with times, ns.
    pub timed_ns: f64,
    /// For a pair without times, ns.
    pub untimed_ns: f64,
    /// The part of `timed_ns` that lies in the hold time, ns. Subtracted there.
    pub in_hold_ns: f64,
    /// The part of `timed_ns` that lies in the think time, ns. Subtracted there.
    pub in_think_ns: f64,
    /// All of it, ns. Subtracted from the operation time.
    pub total_ns: f64,
}

/// Objects left to the C library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Untouched {
    /// Shared between processes.
    pub process_shared: u64,
    /// Robust mutexes.
    pub robust: u64,
    /// Mutexes with priority inheritance.
    pub priority_inheriting: u64,
    /// Mutexes with a priority ceiling.
    pub priority_protected: u64,
    /// Condition variables.
    pub condition: u64,
    /// For another reason.
    pub other: u64,
}

impl Untouched {
    /// All of them.
    pub fn total(&self) -> u64 {
        [
            self.process_shared, self.robust, self.priority_inheriting, self.priority_protected,
            self.condition, self.other,
        ]
        .iter()
        .fold(0, |sum, &n| sum.saturating_add(n))
    }
}

/// Which lock of a profile: two rows of different profiles may have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockId {
    /// Number of the section, that is of the process image that used it.
    pub section: u64,
    /// Its number in the file; [`crate::record::MERGED`] for all those without a record of their own.
    pub number: u32,
}

/// One lock.
#[derive(Clone, Debug, Serialize)]
pub struct LockRow {
    /// Which one.
    #[serde(skip)]
    pub id: LockId,
    /// Its name: that of the variable that it is; of the member, where it is one and debug information tells; or of the function that
    /// made it. Where the function alone would stand for several locks it has the stack that made it too, and `#2` and so on
    /// where that made several. Safe to print.
    pub name: String,
    /// What `run --only` takes for it: the same in every run of the program.
    pub site: String,
    /// What the preload library takes for it: `site`, or all calls that were seen to take it, see [`pthread::site`].
    #[serde(skip)]
    pub places: Arc<[String]>,
    /// The calls of `places` are those of a program or library that has become another one since.
    #[serde(skip)]
    pub replaced: bool,
    /// What it is.
    pub kind: LockKind,
    /// It is no pthread's: the program told the recorder of it, see [`crate::hooks`]. `contend run` puts no lock in its place.
    pub by_hooks: bool,
    /// The first function outside locking wrappers that made it, or takes it; empty if unknown.
    pub caller: String,
    /// The program or library that its variable lies in, or else that the caller's code is in; empty if unknown.
    pub file: String,
    /// The place in the source, `file:line`, of that call; of its declaration, where the name is that of a member.
    pub source: Option<String>,
    /// The calls that made it, innermost first, if [`Options::calls`] asks for them.
    #[serde(skip)]
    pub calls: Arc<[Call]>,
    /// The process, by its identifier.
    pub pid: u64,
    /// The number of its program among those that the process executed one after another, from 1.
    pub image: u64,
    /// The process's program.
    pub program: String,
    /// Where the object was.
    pub address: u64,
    /// Locks that were at this place one after another, made by the same calls.
    pub generations: u64,
    /// Threads that touched it.
    pub threads: u64,
    /// The row stands for all the locks that were merged past the bound.
    pub merged: bool,
    /// Exclusive acquisitions: mutexes, spin locks, writers.
    pub exclusive: Usage,
    /// Shared acquisitions: readers.
    pub shared: Usage,
    /// The lock in whose sections it is acquired, if it is.
    pub within: Option<Within>,
    /// Who held it while others waited, where the program was attached to: the one seen most often first.
    pub holders: Vec<LockHolder>,
    /// The threads that waited for it when their process ended, and those that held it; `None` if none waited.
    pub at_end: Option<AtEnd>,
    /// The calls by which it was waited for or held for long, the longest waits from them and behind them first. Empty where no thread
    /// did either, and where the program was attached to.
    pub call_sites: Vec<SiteUse>,
    /// Acquisitions for one operation; for one second if operations were not counted. `None` where only waits are known.
    pub acquisitions_per_operation: Option<f64>,
    /// Mean critical section, ns; 0 if none was timed. `None` where only waits are known.
    pub critical_section_ns: Option<f64>,
    /// Time of the threads that touched it, each from its first touch of any lock to its end, without their waits for this
    /// one and their condition waits with it, ns.
    pub threads_ns: f64,
    /// The part of `threads_ns` in which they held it, 0 to 1. `None` where only waits are known, or no hold was timed.
    pub share: Option<f64>,
}

impl LockRow {
    /// A lock of this name, which is its site too, with which nothing was done yet.
    #[must_use]
    pub fn new(name: &str, kind: LockKind) -> Self {
        Self {
            id: LockId::default(),
            name: name.to_owned(),
            site: name.to_owned(),
            places: Arc::from([]),
            replaced: false,
            kind,
            by_hooks: false,
            caller: String::new(),
            file: String::new(),
            source: None,
            calls: Arc::from([]),
            pid: 0,
            image: 1,
            program: String::new(),
            address: 0,
            generations: 1,
            threads: 0,
            merged: false,
            exclusive: Usage::default(),
            shared: Usage::default(),
            within: None,
            holders: Vec::new(),
            at_end: None,
            call_sites: Vec::new(),
            acquisitions_per_operation: None,
            critical_section_ns: None,
            threads_ns: 0.0,
            share: None,
        }
    }
}

/// What was done with a lock from one place in the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SiteUse {
    /// The first function outside locking wrappers; where one wrapper is called by several, all of them. Safe to print.
    pub function: String,
    /// The call's place in the source, `file:line`.
    pub source: Option<String>,
    /// The program or library that the call is in; empty if unknown.
    pub file: String,
    /// Acquisitions from here that had to wait.
    pub waits: u64,
    /// How long they waited, ns.
    pub waited_ns: f64,
    /// How long other threads waited until a hold from here was over, ns.
    pub behind_ns: f64,
    /// Timed holds from here.
    pub holds: u64,
    /// How long they lasted, ns.
    pub held_ns: f64,
    /// What the holders did in them; `None` where nothing tells.
    pub while_held: Option<WhileHeld>,
    /// The name of the lock that they waited for most; `None` if they waited for none.
    pub waiting_for: Option<String>,
    /// The same lock, until all have their names.
    #[serde(skip)]
    pub waited_for: Option<LockId>,
    /// The return addresses of the lock calls, in the process.
    #[serde(skip)]
    pub callers: Vec<u64>,
    /// The function's call that led to the lock, and of a program that was attached to the calls around it that all waits from here
    /// had, if [`Options::calls`] asks for them.
    #[serde(skip)]
    pub calls: Vec<Call>,
    /// The function stands for several that call one wrapper, and it is not known which of them it was: a mean is that of none of them.
    #[serde(skip)]
    pub several: bool,
    /// What of the waits is known by stack, if [`Options::calls`] asks for that.
    #[serde(skip)]
    pub stacks: Vec<SiteStack>,
}

/// Waits at a call site, and behind it, by one stack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteStack {
    /// The calls, from that of the call site's function outwards.
    pub calls: Vec<Call>,
    /// Acquisitions by this stack that had to wait: those of which the stack is known stand for the others.
    pub waits: u64,
    /// How long they waited, ns.
    pub waited_ns: f64,
    /// How long other threads waited until holds were over that ended with this stack, ns.
    pub behind_ns: f64,
}

/// A thread that held a lock while others waited for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockHolder {
    /// Its identifier.
    pub tid: u64,
    /// Its name. Safe to print.
    pub name: String,
    /// How often it was seen; the looks come in even steps of time.
    pub looks: u64,
}

/// That a lock is acquired in the sections of another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Within {
    /// The other lock's name.
    pub lock: String,
    /// The other lock's site.
    pub site: String,
    /// Whether those sections are shared ones.
    pub shared: bool,
    /// How often it is acquired in one of them, on average.
    pub acquisitions: f64,
}

/// What was done with a lock in one mode.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// Only waits are known: the counts but for contended acquisitions, timeouts and condition waits are 0 and mean nothing, as do
    /// all times but the waits'. In JSON they are null.
    pub waits_only: bool,
    /// Successful acquisitions by lock calls.
    pub acquisitions: u64,
    /// Those of a lock that the thread held already.
    pub nested: u64,
    /// Acquisitions that had to wait.
    pub contended: u64,
    /// Try calls that found it held.
    pub try_failures: u64,
    /// Timed calls that gave up.
    pub timeouts: u64,
    /// Acquisitions after another thread's.
    pub owner_changes: u64,
    /// Condition waits with it.
    pub condition_waits: u64,
    /// Those that timed out.
    pub condition_timeouts: u64,
    /// Time in condition waits, ns.
    pub condition_ns: f64,
    /// Waiting, of contended acquisitions: always measured.
    pub wait: Times,
    /// Holding, when the last holder was on the same core.
    pub hold_same: Times,
    /// Holding, when the last holder was on another core.
    pub hold_other: Times,
    /// From a release to the same thread's next acquisition.
    pub think: Times,
    /// From the last holder's release to the acquisition, of contended acquisitions.
    pub handover: Times,
    /// What was not over at the end: in none of these counts and times.
    pub unended: Unended,
    /// What holders did in the holds of `hold_same` and `hold_other`; `None` where nothing tells.
    pub while_held: Option<WhileHeld>,
}

impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let known = !self.waits_only;
        let counts = [
            ("acquisitions", known, self.acquisitions),
            ("nested", known, self.nested),
            ("contended", true, self.contended),
            ("try_failures", known, self.try_failures),
            ("timeouts", true, self.timeouts),
            ("owner_changes", known, self.owner_changes),
            ("condition_waits", true, self.condition_waits),
            ("condition_timeouts", true, self.condition_timeouts),
        ];
        let times = [
            ("wait", true, &self.wait),
            ("hold_same", known, &self.hold_same),
            ("hold_other", known, &self.hold_other),
            ("think", known, &self.think),
            ("handover", known, &self.handover),
        ];
        let mut usage = serializer.serialize_struct("Usage", counts.len() + 3 + times.len())?;
        for (name, known, count) in counts {
            usage.serialize_field(name, &known.then_some(count))?;
        }
        usage.serialize_field("condition_ns", &self.condition_ns)?;
        for (name, known, times) in times {
            usage.serialize_field(name, &known.then_some(times))?;
        }
        usage.serialize_field("while_held", &self.while_held)?;
        usage.serialize_field("unended", &self.unended)?;
        usage.end()
    }
}

impl Usage {
    /// How often it was held: nested acquisitions do not count.
    pub fn holds(&self) -> u64 {
        self.acquisitions.saturating_sub(self.nested)
    }

    /// Acquisitions by calls of the lock functions, and not by the end of a condition wait.
    pub fn calls(&self) -> u64 {
        self.acquisitions.saturating_sub(self.condition_waits)
    }

    /// What was done with several locks.
    pub(super) fn sum<'u>(all: impl Iterator<Item = &'u Self>) -> Self {
        all.fold(Self::default(), |sum, of| {
            let add = u64::saturating_add;
            Self {
                waits_only: sum.waits_only || of.waits_only,
                acquisitions: add(sum.acquisitions, of.acquisitions),
                nested: add(sum.nested, of.nested),
                contended: add(sum.contended, of.contended),
                try_failures: add(sum.try_failures, of.try_failures),
                timeouts: add(sum.timeouts, of.timeouts),
                owner_changes: add(sum.owner_changes, of.owner_changes),
                condition_waits: add(sum.condition_waits, of.condition_waits),
                condition_timeouts: add(sum.condition_timeouts, of.condition_timeouts),
                condition_ns: sum.condition_ns + of.condition_ns,
                wait: sum.wait.and(&of.wait),
                hold_same: sum.hold_same.and(&of.hold_same),
                hold_other: sum.hold_other.and(&of.hold_other),
                think: sum.think.and(&of.think),
                handover: sum.handover.and(&of.handover),
                unended: sum.unended.and(&of.unended),
                while_held: WhileHeld::both(
                    (sum.while_held, sum.hold().count),
                    (of.while_held, of.hold().count),
                ),
            }
        })
    }

    /// The same with the distributions of [`Times::on_grid`].
    pub(super) fn on_grid(&self) -> Self {
        Self {
            wait: self.wait.on_grid(),
            hold_same: self.hold_same.on_grid(),
            hold_other: self.hold_other.on_grid(),
            think: self.think.on_grid(),
            handover: self.handover.on_grid(),
            ..*self
        }
    }

    /// Holding, wherever the last holder was.
    pub fn hold(&self) -> Times {
        self.hold_same.and(&self.hold_other)
    }

    /// Time that it was held in all, ns: the measured mean for every time that it was held, and what holds had lasted that were not
    /// over at the end.
    pub fn held_ns(&self) -> f64 {
        let hold = self.hold();
        // In an interval of a recording a hold may end that began before it.
        let over = self.holds().saturating_sub(self.unended.holds).max(hold.count);
        hold.mean_ns().unwrap_or(0.0) * over as f64 + self.unended.held_ns
    }

    /// Whether it was held, and nothing tells for how long: no hold was timed up to its end.
    pub fn held_unknown(&self) -> bool {
        self.holds() > self.unended.holds && self.hold().count == 0
    }

    /// Time lost waiting, ns: of contended acquisitions, and of waits that were not over at the end.
    pub fn waited_ns(&self) -> f64 {
        self.wait.total_ns + self.unended.waited_ns
    }

    /// The part of its acquisitions that had to wait, 0 to 1, where waits that were not over at the end count as acquisitions. `None`
    /// if there were none.
    pub fn contended_share(&self) -> Option<f64> {
        let waits = self.contended.saturating_add(self.unended.waits);
        let all = self.acquisitions.saturating_add(self.unended.waits);
        (all > 0).then(|| waits as f64 / all as f64)
    }
}

impl LockRow {
    /// Acquisitions in both modes.
    pub fn acquisitions(&self) -> u64 {
        self.exclusive.acquisitions.saturating_add(self.shared.acquisitions)
    }

    /// Contended acquisitions in both modes.
    pub fn contended(&self) -> u64 {
        self.exclusive.contended.saturating_add(self.shared.contended)
    }

    /// Time lost waiting for it, ns.
    pub fn waited_ns(&self) -> f64 {
        self.exclusive.waited_ns() + self.shared.waited_ns()
    }

    /// Time in condition waits with it, or of waits for what is no lock, ns.
    pub fn condition_ns(&self) -> f64 {
        self.exclusive.condition_ns + self.shared.condition_ns
    }

    /// The same with the waits that were not over at the end.
    pub(super) fn all_condition_ns(&self) -> f64 {
        self.condition_ns() + self.exclusive.unended.condition_ns + self.shared.unended.condition_ns
    }

    /// Time that it was held, summed over threads, ns.
    pub fn held_ns(&self) -> f64 {
        self.exclusive.held_ns() + self.shared.held_ns()
    }

    /// The site of the lock that its holders waited for most, if they did.
    pub fn waiting_for(&self) -> Option<&str> {
        let waiting_ns = |site: &&SiteUse| site.while_held.map_or(0.0, |held| held.waiting_ns);
        let telling = self.call_sites.iter().filter(|site| site.waiting_for.is_some());
        telling.max_by(|a, b| waiting_ns(a).total_cmp(&waiting_ns(b)))?.waiting_for.as_deref()
    }

    /// By time lost waiting, then by time held, most first.
    pub(super) fn cmp_cost(&self, other: &Self) -> Ordering {
        let costs = |row: &Self| [row.waited_ns(), row.held_ns(), row.condition_ns()];
        let most_first = costs(other).into_iter().zip(costs(self)).map(|(b, a)| b.total_cmp(&a));
        most_first.reduce(Ordering::then).expect("three of them").then_with(|| self.name.cmp(&other.name))
    }

    /// The part that `held_ns` makes of [`LockRow::threads_ns`], 0 to 1.
    pub fn share_of(&self, held_ns: f64) -> f64 {
        if self.threads_ns > 0.0 { held_ns / self.threads_ns } else { 0.0 }
    }
}
