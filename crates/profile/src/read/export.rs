//! Lock tables for other programs: pprof and OpenTelemetry, for profile stores, and folded stacks, for flame graphs.

mod dictionary;
mod folded;
mod otel;
mod pprof;
mod protobuf;

use std::borrow::Cow;
use std::iter;

pub use folded::to_folded;
pub use otel::to_otel;
pub use pprof::to_pprof;

use super::{Call, KernelRow, LockRow, LockTable, SourceLine};

/// Contended acquisitions, as profile stores call them since Go's mutex profiles, and their unit.
const CONTENTIONS: (&str, &str) = ("contentions", "count");
/// The time lost in them, likewise.
const DELAY: (&str, &str) = ("delay", "nanoseconds");

/// What exports have of a lock of the program; of a lock of the kernel, for each stack that waited for it.
#[derive(Debug)]
pub struct Sample<'t> {
    /// The process whose addresses the stack has; 0 for the kernel.
    process: u64,
    lock: Call,
    calls: Cow<'t, [Call]>,
    /// Acquisitions that had to wait.
    pub contended: u64,
    /// Time lost waiting, ns.
    pub waited_ns: f64,
    /// Time that the lock was held, summed over threads, ns; 0 for the kernel's locks, since nothing tells it.
    pub held_ns: f64,
}

impl Sample<'_> {
    /// The lock, then the calls, innermost first.
    fn stack(&self) -> impl Iterator<Item = &Call> {
        iter::once(&self.lock).chain(self.calls.iter())
    }
}

/// The locks of a table with what is known of their callers. The calls that made a lock are there if
/// [`Options::calls`](super::Options::calls) asked for them.
fn samples(table: &LockTable) -> impl Iterator<Item = Sample<'_>> {
    let of_kernel = table.kernel.iter().flat_map(|kernel| &kernel.rows).flat_map(samples_of_kernel_lock);
    table.rows.iter().map(sample_of_lock).chain(of_kernel)
}

fn sample_of_lock(row: &LockRow) -> Sample<'_> {
    Sample {
        process: row.pid,
        lock: named(row.address, row.name.clone()),
        calls: Cow::Borrowed(&row.calls),
        contended: row.contended(),
        waited_ns: row.waited_ns(),
        held_ns: row.held_ns(),
    }
}

fn samples_of_kernel_lock(row: &KernelRow) -> impl Iterator<Item = Sample<'_>> {
    row.calls.iter().map(|calls| Sample {
        process: 0,
        lock: named(row.address, format!("{} ({})", row.name, row.kind)),
        calls: iter::zip(&calls.addresses, &calls.functions)
            .map(|(&address, function)| named(address, function.clone()))
            .collect(),
        contended: calls.waits,
        waited_ns: calls.waited_ns,
        held_ns: 0.0,
    })
}

/// A lock, or a function of the kernel: a name without a file.
fn named(address: u64, function: String) -> Call {
    Call { address, lines: vec![SourceLine { function, file: String::new(), line: 0 }], module: None }
}
