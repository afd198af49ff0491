//! What grew between two profiles, by lock, by caller and by call site.

mod call_sites;

pub use call_sites::{SiteChange, SiteMeasures};

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pthread::site::{Site, Which};
use serde::Serialize;

use super::striped::without_number;
use super::{KernelTable, LockId, LockKind, LockRow, LockTable};

/// What is compared of a lock, for one operation (or one second if not both profiles count operations).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measures {
    /// Acquisitions.
    pub acquisitions: f64,
    /// Contended acquisitions.
    pub contended: f64,
    /// Time lost waiting, ns.
    pub waited_ns: f64,
    /// Time held, ns.
    pub held_ns: f64,
    /// Mean critical section, ns; 0 if none was timed.
    pub critical_section_ns: f64,
    /// Mean hand-over, ns; 0 if none was timed.
    pub handover_ns: f64,
}

impl Measures {
    /// Time that the lock costs: waiting and holding, ns.
    pub fn cost_ns(&self) -> f64 {
        self.waited_ns + self.held_ns
    }
}

/// How a lock or a caller changed. All zeros on a side mean that it was not there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The lock, with its kind where two kinds have one name; or the caller. Safe to print.
    pub name: String,
    /// In the first profile.
    pub before: Measures,
    /// In the second profile.
    pub after: Measures,
    /// Waits alone are known of it: what else stands on the sides is 0 because nothing tells.
    pub waits_only: bool,
    /// The rows that are added up, of each profile.
    #[serde(skip)]
    pub rows: [Vec<LockId>; 2],
}

impl Change {
    /// How much more the lock costs, ns for one operation or second.
    pub fn growth_ns(&self) -> f64 {
        self.after.cost_ns() - self.before.cost_ns()
    }

    /// How many times as much it costs; infinite if it cost nothing before, 1 if it never did.
    pub fn ratio(&self) -> f64 {
        match (self.before.cost_ns(), self.after.cost_ns()) {
            (0.0, 0.0) => 1.0,
            (before, after) => after / before,
        }
    }
}

/// What is compared of a lock of the kernel, for one operation or second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct KernelMeasures {
    /// Waits.
    pub waits: f64,
    /// Time in them, ns.
    pub waited_ns: f64,
    /// The part of it on a core, spinning, ns.
    pub spun_ns: f64,
    /// The part that the waits make of the threads' time, or of the cores' where all waits on the machine were counted; 0
    /// where that is not known.
    pub share: f64,
}

/// How a lock of the kernel changed. All zeros on a side mean that it had no waits there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelChange {
    /// The lock, or the function that took it. Safe to print.
    pub name: String,
    /// What it is.
    pub kind: &'static str,
    /// In the first profile.
    pub before: KernelMeasures,
    /// In the second profile.
    pub after: KernelMeasures,
}

impl KernelChange {
    /// By how much the share grew.
    pub fn growth(&self) -> f64 {
        self.after.share - self.before.share
    }
}

/// The difference of two lock tables; what grew most comes first.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    /// Only waits are compared, since one of the profiles has nothing else: its program was attached to.
    pub waits_only: bool,
    /// What the figures are for: true for one operation, false for one second of elapsed time.
    pub per_operation: bool,
    /// Time on cores for one operation or second, ns: before and after.
    pub operation_ns: [f64; 2],
    /// Threads before and after.
    pub threads: [u64; 2],
    /// Cores in use before and after.
    pub cores_used: [f64; 2],
    /// By lock. Those that were made by one stack, or have one name in several processes, are added up; so are striped locks, and those of
    /// one function where the two profiles do not agree about the stacks, as those of two versions of a program do not.
    pub locks: Vec<Change>,
    /// By the function that first touched the lock.
    pub callers: Vec<Change>,
    /// By lock and the function that takes it, in order of how much longer is waited there and behind it; `None` unless both profiles
    /// have call sites.
    pub call_sites: Option<Vec<SiteChange>>,
    /// By lock of the kernel, in order of how much its share grew; `None` unless both profiles watched them.
    pub kernel: Option<Vec<KernelChange>>,
}

/// Sums on their way to [`Measures`].
#[derive(Clone, Default)]
struct Sums {
    rows: Vec<LockId>,
    /// Of one of the rows more than waits is known.
    has_more: bool,
    measures: Measures,
    hold: (f64, f64),
    handover: (f64, f64),
}

impl Sums {
    fn add(&mut self, row: &LockRow, waits_only: bool) {
        self.rows.push(row.id);
        self.has_more |= !row.exclusive.waits_only;
        self.measures.contended += row.contended() as f64;
        self.measures.waited_ns += row.waited_ns();
        if waits_only {
            return;
        }
        self.measures.acquisitions += row.acquisitions() as f64;
        self.measures.held_ns += row.held_ns();
        for usage in [&row.exclusive, &row.shared] {
            for times in [&usage.hold_same, &usage.hold_other] {
                self.hold = (self.hold.0 + times.count as f64, self.hold.1 + times.total_ns);
            }
            let times = &usage.handover;
            self.handover = (self.handover.0 + times.count as f64, self.handover.1 + times.total_ns);
        }
    }

    fn per(&self, operations: f64) -> Measures {
        let mean = |(count, sum): (f64, f64)| if count > 0.0 { sum / count } else { 0.0 };
        let m = &self.measures;
        Measures {
            acquisitions: m.acquisitions / operations,
            contended: m.contended / operations,
            waited_ns: m.waited_ns / operations,
            held_ns: m.held_ns / operations,
            critical_section_ns: mean(self.hold),
            handover_ns: mean(self.handover),
        }
    }
}

/// What locks are called in both tables.
struct Names {
    /// The sites of each function or variable and kind, in each table.
    sites: [BTreeMap<(String, LockKind), BTreeSet<String>>; 2],
    striped: StripedNames,
}

/// What the striped locks of arrays are called, of which one profile may have few enough to be rows of their own.
struct StripedNames {
    /// In each table.
    of_lock: [HashMap<LockId, String>; 2],
    all: BTreeSet<String>,
}

impl StripedNames {
    fn of(tables: [&LockTable; 2]) -> Self {
        let of_lock = tables.map(|table| {
            // Those that one call made have one name without their numbers.
            let striped = table.striped.iter().filter(|striped| !striped.row.name.ends_with("#*"));
            let names = striped.flat_map(|one| one.members.iter().map(|&id| (id, one.row.name.clone())));
            names.collect::<HashMap<_, _>>()
        });
        let all = of_lock.iter().flat_map(HashMap::values).cloned().collect();
        Self { of_lock, all }
    }

    fn name(&self, side: usize, row: &LockRow) -> Option<String> {
        let own = self.of_lock[side].get(&row.id).cloned();
        own.or_else(|| without_number(&row.name).filter(|name| self.all.contains(name)))
    }
}

impl Names {
    fn of(tables: [&LockTable; 2]) -> Self {
        let striped = StripedNames::of(tables);
        let sites = [0, 1].map(|side| {
            let mut sites: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
            for row in tables[side].rows.iter().filter(|row| striped.name(side, row).is_none()) {
                sites.entry((plain(row), row.kind)).or_default().insert(row.site.clone());
            }
            sites
        });
        Self { sites, striped }
    }

    fn name(&self) -> impl Fn(usize, &LockRow) -> String {
        |side, row| {
            if let Some(name) = self.striped.name(side, row) {
                return name;
            }
            let key = (plain(row), row.kind);
            let [before, after] = [0, 1].map(|i| self.sites[i].get(&key));
            let agreed = before == after && before.is_some_and(|sites| sites.len() > 1);
            let name = if agreed { &row.site } else { &key.0 };
            let kinds: BTreeSet<LockKind> = self
                .sites
                .iter()
                .flat_map(|sites| sites.keys().filter(|(name, _)| *name == key.0).map(|(_, kind)| *kind))
                .collect();
            if kinds.len() > 1 { format!("{name} ({})", row.kind.name()) } else { name.clone() }
        }
    }
}

/// The function of a lock, without its stack; or its variable, where the profile names the member that it is, the member: what lies
/// before it may have grown.
fn plain(row: &LockRow) -> String {
    match Site::parse(row.site.as_bytes()) {
        Site { name, which: Which::By(_), .. } => String::from_utf8_lossy(name).into_owned(),
        _ if row.name.starts_with(&*row.site) => row.site.clone(),
        _ => Site::without_number(&row.name).to_owned(),
    }
}

impl Diff {
    /// Compares two tables.
    pub fn new(before: &LockTable, after: &LockTable) -> Self {
        let tables = [before, after];
        let waits_only = tables.iter().any(|table| table.header.attached.is_some());
        let per_operation = tables.iter().all(|table| table.header.operations.is_some());
        let operations = tables.map(|table| {
            let counted = table.header.operations.filter(|_| per_operation).map(|n| n as f64);
            counted.unwrap_or(table.header.elapsed_ns / 1e9).max(f64::MIN_POSITIVE)
        });
        let by = |name: &dyn Fn(usize, &LockRow) -> String| {
            let [before, after] = [0, 1].map(|side| {
                let mut sums: BTreeMap<String, Sums> = BTreeMap::new();
                for row in tables[side].rows.iter().filter(|row| row.kind.is_lock()) {
                    sums.entry(name(side, row)).or_default().add(row, waits_only);
                }
                sums
            });
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            let change = |name: &String| {
                let [before, after] =
                    [&before, &after].map(|sums| sums.get(name).cloned().unwrap_or_default());
                Change {
                    name: name.clone(),
                    before: before.per(operations[0]),
                    after: after.per(operations[1]),
                    waits_only: !before.has_more && !after.has_more,
                    rows: [before.rows, after.rows],
                }
            };
            let mut changes: Vec<Change> = names.into_iter().map(change).collect();
            changes.sort_by(|a, b| b.growth_ns().total_cmp(&a.growth_ns()).then_with(|| a.name.cmp(&b.name)));
            changes
        };
        let operation_ns = [0, 1].map(|i| {
            let header = &tables[i].header;
            (header.cpu_ns - header.own_cost.total_ns).max(0.0) / operations[i]
        });
        let names = Names::of(tables);
        Self {
            waits_only,
            per_operation,
            operation_ns,
            threads: tables.map(|table| table.header.threads),
            cores_used: tables.map(|table| table.header.cores_used),
            locks: by(&names.name()),
            callers: by(&|_, row| {
                if row.caller.is_empty() { "(unknown caller)".to_owned() } else { row.caller.clone() }
            }),
            call_sites: call_sites::changes(tables, names.name(), operations),
            kernel: match tables.map(|table| table.kernel.as_ref()) {
                [Some(before), Some(after)] => Some(kernel_changes([before, after], operations)),
                _ => None,
            },
        }
    }
}

fn kernel_changes(tables: [&KernelTable; 2], operations: [f64; 2]) -> Vec<KernelChange> {
    let mut sides: BTreeMap<(&str, &'static str), [KernelMeasures; 2]> = BTreeMap::new();
    for (side, (table, operations)) in tables.into_iter().zip(operations).enumerate() {
        for row in &table.rows {
            let sums = &mut sides.entry((&row.name, row.kind)).or_default()[side];
            sums.waits += row.waits as f64 / operations;
            sums.waited_ns += row.wait.total_ns / operations;
            sums.spun_ns += row.spun_ns / operations;
            sums.share += row.share.unwrap_or(0.0);
        }
    }
    let changes = sides.into_iter();
    let changes = changes.map(|((name, kind), [before, after])| KernelChange {
        name: name.to_owned(),
        kind,
        before,
        after,
    });
    let mut changes: Vec<_> = changes.collect();
    // Stable: in the order of names where nothing grew.
    changes.sort_by(|a, b| {
        let grown =
            |change: &KernelChange| (change.growth(), change.after.waited_ns - change.before.waited_ns);
        let ((a, a_ns), (b, b_ns)) = (grown(a), grown(b));
        b.total_cmp(&a).then(b_ns.total_cmp(&a_ns))
    });
    changes
}
