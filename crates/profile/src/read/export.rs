//! Lock tables for other programs: pprof and OpenTelemetry, for profile stores, and folded stacks, for flame graphs. And single waits as
//! a trace, for viewers of timelines.

mod dictionary;
mod folded;
mod otel;
mod pprof;
mod protobuf;
mod trace;

use std::borrow::Cow;
use std::iter;

pub use folded::to_folded;
pub use otel::to_otel;
pub use pprof::to_pprof;
pub use trace::to_trace;

use super::{Call, KernelRow, LockRow, LockTable, SiteUse, SourceLine};

/// Contended acquisitions, as profile stores call them since Go's mutex profiles, and their unit.
const CONTENTIONS: (&str, &str) = ("contentions", "count");
/// The time lost in them, likewise.
const DELAY: (&str, &str) = ("delay", "nanoseconds");

/// The time that others waited until holds from a call site were over, and its unit.
const BEHIND: (&str, &str) = ("behind", "nanoseconds");

/// What exports have of a lock of the program: a sample for each of its call sites, and one with the calls that made it for what no call
/// site has; of a lock of the kernel, one for each stack that waited for it.
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
    /// Time that the lock was held, summed over threads, ns: all of it with the calls that made it. 0 for the kernel's locks, since
    /// nothing tells it.
    pub held_ns: f64,
    /// Time that other threads waited until holds from this call site were over, ns.
    pub behind_ns: f64,
}

impl Sample<'_> {
    /// The lock, then the calls, innermost first.
    fn stack(&self) -> impl Iterator<Item = &Call> {
        iter::once(&self.lock).chain(self.calls.iter())
    }
}

/// The locks of a table with what is known of their callers. Calls, and so the call sites, are there if
/// [`Options::calls`](super::Options::calls) asked for them.
fn samples(table: &LockTable) -> impl Iterator<Item = Sample<'_>> {
    let of_kernel = table.kernel.iter().flat_map(|kernel| &kernel.rows).flat_map(samples_of_kernel_lock);
    table.rows.iter().flat_map(samples_of_lock).chain(of_kernel)
}

/// Whether anything is known of who made others wait.
fn knows_holders(table: &LockTable) -> bool {
    table.rows.iter().any(|row| row.call_sites.iter().any(|site| site.behind_ns > 0.0))
}

/// A lock by its call sites, as far as these have its waits, whole numbers all of them: so their sums are those of the lock.
fn samples_of_lock(row: &LockRow) -> impl Iterator<Item = Sample<'_>> {
    let mut rest = Sample {
        process: row.pid,
        lock: named(row.address, row.name.clone()),
        calls: Cow::Borrowed(&row.calls),
        contended: row.contended(),
        waited_ns: row.waited_ns().round(),
        held_ns: row.held_ns(),
        behind_ns: 0.0,
    };
    // In an interval of a recording, call sites have all of a wait that began before it.
    let of_sites: f64 = row.call_sites.iter().map(|site| site.waited_ns).sum();
    let scale = if of_sites > rest.waited_ns { rest.waited_ns / of_sites } else { 1.0 };
    let known = row.call_sites.iter().filter(|site| !site.calls.is_empty());
    let mut samples: Vec<_> = known
        .flat_map(waits_by_stack)
        .map(|(calls, waits, [waited_ns, behind_ns])| {
            let contended = waits.min(rest.contended);
            let waited_ns = (waited_ns * scale).round().min(rest.waited_ns).max(0.0);
            rest.contended -= contended;
            rest.waited_ns -= waited_ns;
            Sample {
                process: row.pid,
                lock: rest.lock.clone(),
                calls: Cow::Borrowed(calls),
                contended,
                waited_ns,
                held_ns: 0.0,
                behind_ns: behind_ns.round(),
            }
        })
        .collect();
    // What roundings leave, half a nanosecond each, was waited nowhere else.
    if rest.waited_ns <= samples.len() as f64
        && let Some(longest) = samples.iter_mut().max_by(|a, b| a.waited_ns.total_cmp(&b.waited_ns))
    {
        longest.waited_ns += std::mem::take(&mut rest.waited_ns);
    }
    samples.push(rest);
    samples.into_iter()
}

/// What is known of a call site by whole stacks, and with its own call what is left: waits, and the time in them and behind them, ns. The
/// times of stacks are whole numbers that add up to those of the site.
fn waits_by_stack(site: &SiteUse) -> Vec<(&[Call], u64, [f64; 2])> {
    let mut left = (site.waits, [site.waited_ns, site.behind_ns]);
    let mut all: Vec<_> = Vec::with_capacity(site.stacks.len() + 1);
    for stack in &site.stacks {
        let before_ns = left.1;
        left.0 = left.0.saturating_sub(stack.waits);
        for (left_ns, ns) in left.1.iter_mut().zip([stack.waited_ns, stack.behind_ns]) {
            *left_ns -= ns;
        }
        let times_ns = [0, 1].map(|time| before_ns[time].round() - left.1[time].round());
        all.push((&stack.calls[..], stack.waits, times_ns));
    }
    // The sums of the stacks may differ from the site's in their last digits.
    if site.stacks.is_empty() || left.0 > 0 || left.1.iter().any(|ns| *ns >= 0.5) {
        all.push((&site.calls, left.0, left.1));
    }
    all
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
        behind_ns: 0.0,
    })
}

/// A lock, or a function of the kernel: a name without a file.
fn named(address: u64, function: String) -> Call {
    Call { address, lines: vec![SourceLine { function, file: String::new(), line: 0 }], module: None }
}
