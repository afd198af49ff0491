//! The kernel's contended locks while a load runs, by who takes them.

use ::report::{Cell, Column, Table};
use anyhow::Context as _;
use bench::findings::Part;
use kernel_locks::{Scope, Symbols, Wait, Watch};
use profile::read::kernel_lock_kind;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// How long is watched.
const WATCHED: Duration = Duration::from_millis(500);

/// The load runs in pieces of this length, between which the kernel's buffers are read.
const PIECE: Duration = Duration::from_millis(50);

/// How many callers are shown.
const SHOWN: usize = 12;

/// Runs the load, for as many nanoseconds as it is told, and gives who of it waited for which locks.
///
/// # Errors
///
/// Why the kernel cannot be watched, or what the load failed with.
pub(super) fn watch(load: impl Fn(u64) -> io::Result<()>) -> anyhow::Result<Part> {
    let mut watch = Watch::open(Scope::Descendants)?;
    let symbols = Symbols::of_this_kernel().context("cannot read /proc/kallsyms")?;
    let mut callers = Callers::default();
    for _ in 0..WATCHED.as_nanos() / PIECE.as_nanos() {
        load(PIECE.as_nanos() as u64).context("the load failed while the kernel was watched")?;
        watch.drain(|wait| callers.add(&symbols, &wait));
    }
    let seen = watch.finish(|wait| callers.add(&symbols, &wait));
    let mut notes = vec![if callers.0.is_empty() {
        "No lock of the kernel was contended while the load ran.".to_owned()
    } else {
        format!("Waits of the load itself in {} ms with all threads.", WATCHED.as_millis())
    }];
    if seen.lost > 0 {
        notes.push(format!("{} of {} events were lost.", seen.lost, seen.lost + seen.events));
    }
    Ok(Part {
        key: "kernel_locks",
        heading: "The kernel's contended locks meanwhile".into(),
        table: callers.table(),
        notes,
    })
}

/// Waits and the time in them, ns, by call site and kind of lock.
#[derive(Default)]
struct Callers(BTreeMap<(String, &'static str), (u64, u64)>);

impl Callers {
    fn add(&mut self, symbols: &Symbols, wait: &Wait) {
        let site = symbols.call_site(&wait.stack).map_or("?", |(_, name)| name);
        let (waits, waited_ns) = self.0.entry((site.to_owned(), kernel_lock_kind(wait.flags))).or_default();
        *waits += 1;
        *waited_ns += wait.total_ns();
    }

    /// The most frequent first.
    fn table(&self) -> Table {
        let mut table = Table::new([
            Column::text("caller", "taken by"),
            Column::text("lock", "kind"),
            Column::number("times", "times contended"),
            Column::number("waited_ms", "waited ms"),
        ]);
        let mut rows: Vec<_> = self.0.iter().collect();
        rows.sort_by_key(|(_, (waits, _))| Reverse(*waits));
        for ((caller, kind), (waits, waited_ns)) in rows.into_iter().take(SHOWN) {
            table.row([
                Cell::from(caller.as_str()),
                (*kind).into(),
                (*waits).into(),
                (*waited_ns as f64 / 1e6).into(),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_added_up_by_caller_and_kind() {
        let symbols = Symbols::parse("1000 T vm_mmap_pgoff\n2000 T _raw_spin_lock\n3000 T d_alloc\n");
        let wait = |flags, stack: &[u64]| Wait {
            lock: 7,
            flags,
            spun_ns: 500_000,
            slept_ns: 1_000_000,
            acquired: true,
            stack: stack.into(),
            released_by: None,
        };
        let mut callers = Callers::default();
        for wait in [wait(4, &[0x1010]), wait(1, &[0x2010, 0x3010]), wait(4, &[0x1020]), wait(1, &[])] {
            callers.add(&symbols, &wait);
        }
        let csv = callers.table().csv();
        let rows: Vec<_> = csv.lines().skip(1).collect();
        assert_eq!(rows, ["vm_mmap_pgoff,rwsem write,2,3", "?,spin,1,1.5", "d_alloc,spin,1,1.5"]);
    }
}
