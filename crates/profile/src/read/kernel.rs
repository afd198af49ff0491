//! What a profile says of the kernel's contended locks.

use std::collections::HashMap;

use serde::Serialize;

use super::container::KernelRecords;
use super::times::{Ticks, Times};

/// The kernel's locks that threads waited for. The JSON of it is stable, as that of the whole table is.
#[derive(Clone, Debug, Serialize)]
pub struct KernelTable {
    /// Whether all waits on the machine were counted, or those of the program and what it started.
    pub machine: bool,
    /// How long was watched, ns.
    pub elapsed_ns: f64,
    /// Events that were read: beginnings and ends of waits.
    pub events: u64,
    /// Events that found no space in the kernel's buffers.
    pub lost: u64,
    /// Ends of waits whose beginnings were not seen.
    pub unbegun: u64,
    /// Beginnings of waits whose ends were not seen.
    pub unended: u64,
    /// Waits that are in no row, because the file could not grow.
    pub dropped: u64,
    /// By time lost waiting, most first.
    pub rows: Vec<KernelRow>,
}

/// A lock of the kernel in one way of taking it.
#[derive(Clone, Debug, Serialize)]
pub struct KernelRow {
    /// The variable that the lock is; or the function that took it, for locks in allocated memory. Safe to print.
    pub name: String,
    /// What it is, and whether it was taken for reading or for writing.
    pub kind: &'static str,
    /// Whether `name` is the lock's own.
    pub variable: bool,
    /// Where the variable is, or the function.
    pub address: u64,
    /// Locks at different addresses, up to 4096.
    pub objects: u64,
    /// Waits that are over.
    pub waits: u64,
    /// Those that were interrupted, and so ended without the lock.
    pub interrupted: u64,
    /// From the beginning of the wait to the acquisition.
    pub wait: Times,
    /// The part of it on a core, spinning, ns.
    pub spun_ns: f64,
    /// What the waits are of the time of the threads; of the cores' time where all waits on the machine were counted.
    /// `None` where that is not known.
    pub share: Option<f64>,
    /// The stacks that waited, by time, most first.
    pub calls: Vec<KernelCalls>,
    /// Who released the lock for them, by time, most first; none where the kernel does not tell.
    pub released_by: Vec<KernelReleaser>,
}

/// The waits for a lock that were ended by releases in one function.
#[derive(Clone, Debug, Serialize)]
pub struct KernelReleaser {
    /// The function that released the lock. Safe to print.
    pub function: String,
    /// Waits that are over.
    pub waits: u64,
    /// Time in them, ns.
    pub waited_ns: f64,
}

/// The waits for a lock from one stack.
#[derive(Clone, Debug, Serialize)]
pub struct KernelCalls {
    /// The functions, innermost first. Safe to print.
    pub functions: Vec<String>,
    /// Where they begin.
    #[serde(skip)]
    pub addresses: Vec<u64>,
    /// Waits that are over.
    pub waits: u64,
    /// Time in them, ns.
    pub waited_ns: f64,
}

impl KernelRow {
    /// Where most of the waiting came from: the functions that called the one that took the lock, innermost first, but for
    /// those beyond `most`.
    pub fn callers(&self, most: usize) -> &[String] {
        let functions = self.calls.first().map_or(&[][..], |calls| &calls.functions);
        // A variable's name is in no stack.
        let site = functions.iter().position(|function| *function == self.name).map_or(0, |site| site + 1);
        let callers = &functions[site..];
        &callers[..callers.len().min(most)]
    }
}

impl KernelTable {
    /// All waits that are over.
    pub fn waits(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.waits))
    }

    /// Time in them, ns.
    pub fn waited_ns(&self) -> f64 {
        self.rows.iter().map(|row| row.wait.total_ns).sum()
    }

    /// The part of it in which the program's threads slept; `None` where all waits on the machine were counted.
    pub(super) fn asleep_ns(&self) -> Option<f64> {
        let asleep = |row: &KernelRow| (row.wait.total_ns - row.spun_ns).max(0.0);
        (!self.machine).then(|| self.rows.iter().map(asleep).sum())
    }
}

/// What a lock of the kernel is, by the flags of `lock:contention_begin`.
pub fn kernel_lock_kind(flags: u32) -> &'static str {
    let [spin, read, write, rt, percpu, mutex] = std::array::from_fn(|bit| flags & 1 << bit != 0);
    match (percpu, mutex, rt, spin) {
        (true, ..) if read => "percpu-rwsem read",
        (true, ..) => "percpu-rwsem write",
        (_, true, ..) => "mutex",
        // Spin locks, rwlocks and rwsems are made of rt_mutexes in a real-time kernel.
        (_, _, true, _) if read => "rt-rwlock read",
        (_, _, true, _) if write => "rt-rwlock write",
        (_, _, true, _) => "rt-mutex",
        (_, _, _, true) if read => "rwlock read",
        (_, _, _, true) if write => "rwlock write",
        (_, _, _, true) => "spin",
        _ if read => "rwsem read",
        _ if write => "rwsem write",
        _ => "semaphore",
    }
}

impl KernelRecords {
    /// The table of a run whose threads lived so long together.
    pub(super) fn table(&self, threads_ns: f64) -> KernelTable {
        let watch = &self.watch;
        let machine = watch.machine != 0;
        let elapsed_ns = watch.last_ns.saturating_sub(watch.first_ns) as f64;
        let whole_ns = if machine { watch.cores as f64 * elapsed_ns } else { threads_ns };
        let (mut calls, mut releasers) = (self.calls_by_lock(), self.releasers_by_lock());
        let mut rows: Vec<KernelRow> = self
            .locks
            .iter()
            .map(|(lock, buckets)| {
                let mut wait = Ticks::NONE;
                wait.add(lock.waits, lock.wait_ns, buckets.iter().copied());
                let wait = wait.finish(1.0, 0.0, None); // its ticks are nanoseconds
                KernelRow {
                    name: self.name(lock.address),
                    kind: kernel_lock_kind(lock.kind as u32),
                    variable: lock.kind >> 32 != 0,
                    address: lock.address,
                    objects: lock.objects,
                    waits: lock.waits,
                    interrupted: lock.interrupted,
                    share: (whole_ns > 0.0).then(|| wait.total_ns / whole_ns),
                    wait,
                    spun_ns: lock.spun_ns as f64,
                    calls: calls.remove(&lock.number).unwrap_or_default(),
                    released_by: releasers.remove(&lock.number).unwrap_or_default(),
                }
            })
            .collect();
        rows.sort_by(|a, b| b.wait.total_ns.total_cmp(&a.wait.total_ns).then_with(|| a.name.cmp(&b.name)));
        KernelTable {
            machine,
            elapsed_ns,
            events: watch.events,
            lost: watch.lost,
            unbegun: watch.unbegun,
            unended: watch.unended,
            dropped: watch.dropped,
            rows,
        }
    }

    fn calls_by_lock(&self) -> HashMap<u64, Vec<KernelCalls>> {
        let mut by_lock: HashMap<u64, Vec<KernelCalls>> = HashMap::new();
        for (stack, addresses) in &self.stacks {
            by_lock.entry(stack.lock).or_default().push(KernelCalls {
                functions: addresses.iter().map(|&address| self.name(address)).collect(),
                addresses: addresses.clone(),
                waits: stack.waits,
                waited_ns: stack.wait_ns as f64,
            });
        }
        for calls in by_lock.values_mut() {
            calls.sort_by(|a, b| b.waited_ns.total_cmp(&a.waited_ns));
        }
        by_lock
    }

    fn releasers_by_lock(&self) -> HashMap<u64, Vec<KernelReleaser>> {
        let mut by_lock: HashMap<u64, Vec<KernelReleaser>> = HashMap::new();
        for release in &self.releases {
            by_lock.entry(release.lock).or_default().push(KernelReleaser {
                function: self.name(release.address),
                waits: release.waits,
                waited_ns: release.wait_ns as f64,
            });
        }
        for releasers in by_lock.values_mut() {
            releasers.sort_by(|a, b| b.waited_ns.total_cmp(&a.waited_ns));
        }
        by_lock
    }

    fn name(&self, address: u64) -> String {
        self.symbols.get(&address).cloned().unwrap_or_else(|| format!("{address:#x}"))
    }

    /// What to know before believing the rows.
    pub(super) fn warnings(&self) -> Vec<String> {
        let watch = &self.watch;
        let mut warnings = Vec::new();
        if watch.lost > 0 {
            warnings.push(format!(
                "{} of {} events of the kernel's locks were lost, since its buffers were full: their waits are missing",
                watch.lost,
                watch.lost.saturating_add(watch.events),
            ));
        }
        if watch.dropped > 0 {
            warnings.push(format!(
                "{} waits for the kernel's locks found no space in the profile: record with a higher --size-limit",
                watch.dropped
            ));
        }
        if watch.nameless != 0 {
            warnings.push(
                "the kernel hid its addresses, so that its locks have no names: set kernel.kptr_restrict to 0, or record as \
                 root"
                    .into(),
            );
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_what_a_lock_is() {
        let (spin, read, write, rt, percpu, mutex) = (1, 2, 4, 8, 16, 32);
        let named = [
            (0, "semaphore"),
            (spin, "spin"),
            (spin | read, "rwlock read"),
            (spin | write, "rwlock write"),
            (read, "rwsem read"),
            (write, "rwsem write"),
            (rt, "rt-mutex"),
            (rt | read, "rt-rwlock read"),
            (rt | write, "rt-rwlock write"),
            (percpu | read, "percpu-rwsem read"),
            (percpu | write, "percpu-rwsem write"),
            (mutex, "mutex"),
            (mutex | spin, "mutex"),
            (spin | 1 << 20, "spin"), // a flag of later kernels
        ];
        for (flags, name) in named {
            assert_eq!(kernel_lock_kind(flags), name, "{flags:#b}");
        }
    }
}
