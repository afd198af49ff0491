//! The kernel's contended locks, by who takes them, from the tracepoint `lock:contention_begin` through perf(1).

use crate::bench::findings::Part;
use ::report::{Cell, Column, Table};
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long is watched.
const WATCHED: Duration = Duration::from_millis(500);

/// The load runs in pieces of this length until the watch is over, however late it began.
const PIECE_NS: u64 = 50_000_000;

/// perf gets so long in all; on a busy machine it may take seconds to start.
const LIMIT: Duration = Duration::from_secs(20);

/// How many callers are shown.
const SHOWN: usize = 12;

/// Runs the load, for as many nanoseconds as it is told, under the tracepoint; who met a contended lock how often. What perf
/// writes goes into the directory.
///
/// # Errors
///
/// Why the tracepoint cannot be read.
pub(super) fn watch(directory: &Path, load: impl Fn(u64) -> io::Result<()>) -> anyhow::Result<Part> {
    let file = directory.join("perf.data");
    record(&file, load)?;
    let callers = count(&script(&file)?, &[own_name().as_str(), "find"]);
    let mut table = Table::new([
        Column::text("caller", "taken by"),
        Column::text("lock", "with"),
        Column::number("times", "times contended"),
    ]);
    for ((caller, lock), times) in callers.iter().take(SHOWN) {
        table.row([Cell::from(caller.as_str()), lock.as_str().into(), (*times).into()]);
    }
    let note = if callers.is_empty() {
        "No lock of the kernel was contended while the load ran.".to_owned()
    } else {
        format!(
            "From lock:contention_begin, met by the load itself in {} ms with all threads.",
            WATCHED.as_millis()
        )
    };
    Ok(Part {
        key: "kernel_locks",
        heading: "The kernel's contended locks meanwhile".into(),
        table,
        notes: vec![note],
    })
}

fn record(file: &Path, load: impl Fn(u64) -> io::Result<()>) -> anyhow::Result<()> {
    let mut perf = Command::new("perf")
        .args(["record", "-q", "-a", "-g", "-e", "lock:contention_begin", "-o"])
        .arg(file)
        .args(["--", "sleep", &WATCHED.as_secs_f64().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("perf(1) cannot be started (Debian: linux-perf)")?;
    let loaded = load_until_end(&mut perf, load);
    if loaded.is_err() {
        let _ = perf.kill(); // it may have ended by itself
    }
    let output = perf.wait_with_output().context("cannot wait for perf")?;
    loaded?;
    let words = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success(),
        "perf refuses lock:contention_begin (it needs Linux 5.19, tracefs and privileges): {}",
        ::report::text::printable(
            words.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason given").trim()
        )
    );
    Ok(())
}

/// Runs the load until perf has ended.
fn load_until_end(perf: &mut Child, load: impl Fn(u64) -> io::Result<()>) -> anyhow::Result<()> {
    let started = Instant::now();
    while perf.try_wait().context("cannot wait for perf")?.is_none() {
        load(PIECE_NS).context("the load failed under perf")?;
        anyhow::ensure!(started.elapsed() < LIMIT, "perf did not end within {} s", LIMIT.as_secs());
    }
    Ok(())
}

fn script(file: &Path) -> anyhow::Result<String> {
    let output = Command::new("perf").args(["script", "-F", "comm,event,ip,sym", "-i"]).arg(file).output();
    let output = output.context("cannot start perf script")?;
    anyhow::ensure!(output.status.success(), "perf script cannot read what perf record wrote");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Functions that only take locks: the beginnings of their names.
const TAKERS: [&str; 20] = [
    "__traceiter",
    "trace_",
    "queued_",
    "native_queued",
    "__pv_queued",
    "pv_queued",
    "_raw_",
    "do_raw_",
    "rwsem_",
    "down",
    "__down",
    "up_",
    "mutex_",
    "__mutex",
    "osq_",
    "percpu_",
    "rt_mutex",
    "rtlock_",
    "lockref_",
    "ww_mutex",
];

/// What the kernel calls this program.
fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    name.trim().to_owned()
}

/// Contended acquisitions of these programs by the first function of the stack that does more than take locks, and the function that it
/// calls for that; the most frequent first.
fn count(script: &str, programs: &[&str]) -> Vec<((String, String), u64)> {
    let mut times: BTreeMap<(String, String), u64> = BTreeMap::new();
    let of_load = |event: &&str| programs.iter().any(|program| event.trim_start().starts_with(program));
    for event in script.split("\n\n").filter(of_load) {
        let symbols = event.lines().filter_map(|line| line.trim().split_once(' ')).skip(1);
        let mut taker = "?";
        for (_, symbol) in symbols {
            let symbol = symbol.trim();
            if TAKERS.iter().any(|start| symbol.starts_with(start)) {
                taker = symbol;
            } else {
                *times.entry((symbol.to_owned(), taker.to_owned())).or_default() += 1;
                break;
            }
        }
    }
    let mut callers: Vec<_> = times.into_iter().collect();
    callers.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    callers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_is_the_first_that_does_more_than_take_locks() {
        let script = "\
contend lock:contention_begin:
\tffffffff8113d7a0 __traceiter_contention_begin
\tffffffff81140000 rwsem_down_write_slowpath
\tffffffff81140100 down_write_killable
\tffffffff81250000 vm_mmap_pgoff
\tffffffff81250100 do_syscall_64

contend lock:contention_begin:
\tffffffff8113d7a0 __traceiter_contention_begin
\tffffffff81140100 down_write_killable
\tffffffff81250000 vm_mmap_pgoff

find lock:contention_begin:
\tffffffff8113d7a0 __traceiter_contention_begin
\tffffffff81140900 lockref_get_not_dead
\tffffffff81250900 legitimize_path

swapper lock:contention_begin:
\tffffffff8113d7a0 __traceiter_contention_begin
\tffffffff81250900 legitimize_path

garbage
";
        let of = |caller: &str, lock: &str, times| ((caller.to_owned(), lock.to_owned()), times);
        assert_eq!(
            count(script, &["contend", "find"]),
            [of("vm_mmap_pgoff", "down_write_killable", 2), of("legitimize_path", "lockref_get_not_dead", 1)]
        );
        assert!(count("", &["contend"]).is_empty());
    }
}
