//! `fops`, `mempop` and `pfind`: the paper's loads on the running kernel.

mod contended;

use crate::caught;
use crate::stage::Stage;
use ::report::{Cell, Column, Table};
use anyhow::Context as _;
use bench::findings::{Drawing, Findings, Part};
use bench::timing::{Bench, Rounds, in_rounds};
use compare::statistics;
use curve::{Curve, Point, Provenance, Unit};
use machine::{Machine as _, Native, Plan};
use rustix::fs::{Mode, OFlags};
use session::interrupt;
use session::noise::Watch;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Runs of each number of threads after the warm-up.
    pub runs: u32,
    /// Numbers of threads, each pinned to a core; 1, 2, 4, … all cores if there is none.
    pub threads: Vec<u16>,
    /// How long each run lasts.
    pub duration: Duration,
}

/// A load on the running kernel, as section 2 of "Non-scalable locks are dangerous" describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Every thread opens and closes one file.
    Fops,
    /// Every thread maps 64 KiB, populated, and unmaps them.
    Mempop,
    /// Every thread runs `find` over one balanced tree of directories.
    Pfind,
}

/// Bytes that an operation of mempop maps.
const MAPPED_BYTES: usize = 64 << 10;

/// Levels of pfind's tree, directories in each, and files in each of the last ones: 584 directories and 2,048 files.
const TREE_LEVELS: u32 = 3;
const TREE_WIDTH: u32 = 8;
const LEAF_FILES: u32 = 4;

/// The one file that pfind looks for.
const SOUGHT: &str = "sought";

impl Load {
    fn name(self) -> &'static str {
        match self {
            Self::Fops => "fops",
            Self::Mempop => "mempop",
            Self::Pfind => "pfind",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Self::Fops => "One file, opened and closed by every thread",
            Self::Mempop => "64 KiB mapped with MAP_POPULATE and unmapped",
            Self::Pfind => "`find` over a balanced tree",
        }
    }

    /// Makes what the load needs.
    fn prepare(self, stage: &Path) -> anyhow::Result<()> {
        let made = match self {
            Self::Fops => File::create(stage.join("file")).map(drop),
            Self::Mempop => Ok(()),
            Self::Pfind => grow_tree(stage, TREE_LEVELS).and_then(|()| {
                // In the last leaf of the last branch.
                let leaf =
                    (0..TREE_LEVELS).fold(stage.to_owned(), |at, _| at.join(format!("{}", TREE_WIDTH - 1)));
                File::create(leaf.join(SOUGHT)).map(drop)
            }),
        };
        made.with_context(|| format!("cannot fill {}", stage.display()))
    }

    /// One operation; an error when it did not do what it is for.
    fn operate(self, stage: &Path, file: &CString) -> io::Result<()> {
        match self {
            Self::Fops => open_and_close(file),
            Self::Mempop => map_and_unmap(),
            Self::Pfind => find(stage),
        }
    }
}

fn grow_tree(at: &Path, levels: u32) -> io::Result<()> {
    if levels == 0 {
        return (0..LEAF_FILES).try_for_each(|n| File::create(at.join(format!("file{n}"))).map(drop));
    }
    (0..TREE_WIDTH).try_for_each(|n| {
        let below = at.join(n.to_string());
        fs::create_dir(&below)?;
        grow_tree(&below, levels - 1)
    })
}

fn open_and_close(file: &CString) -> io::Result<()> {
    let descriptor = rustix::fs::open(file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    drop(descriptor); // closes it
    Ok(())
}

fn map_and_unmap() -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
    // SAFETY: a fresh private mapping, read once inside its length, then unmapped.
    unsafe {
        let memory =
            libc::mmap(std::ptr::null_mut(), MAPPED_BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = memory.cast::<u8>().read_volatile();
        if libc::munmap(memory, MAPPED_BYTES) != 0 {
            return Err(io::Error::last_os_error());
        }
        if first == 0 { Ok(()) } else { Err(io::Error::other("a fresh page is not zero")) }
    }
}

fn cannot_find(error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "; on Debian, apt-get install findutils has it",
        io::ErrorKind::WouldBlock => "; is there a limit of processes (ulimit -u)?",
        _ => "",
    };
    format!("cannot run find(1): {error}{remedy}")
}

fn find(stage: &Path) -> io::Result<()> {
    let output = Command::new("find").arg(stage).args(["-name", SOUGHT]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| io::Error::new(error.kind(), cannot_find(&error)))?;
    let found = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count();
    if found == 1 {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().map(|line| format!(": {line}")).unwrap_or_default();
        Err(io::Error::other(format!("`find` found {found} files instead of 1{said}")))
    }
}

/// What a number of threads came to: operations a second of all of them, round by round.
type LoadRow = Rounds<usize, f64>;

/// Runs the load for a while; operations a second of all threads.
fn round(load: Load, stage: &Path, cores: &[u32], duration_ns: u64) -> io::Result<f64> {
    let file = CString::new(stage.join("file").as_os_str().as_bytes())?;
    let sum = Mutex::new((0_u64, None));
    let plan = Plan::on(cores).lasting(duration_ns);
    let ran = Native::run(&plan, &|_| {
        let mut operations = 0;
        let mut failure = None;
        // One operation at least, however late the thread starts.
        while failure.is_none() && (operations == 0 || Native::running() && !interrupt::came()) {
            match load.operate(stage, &file) {
                Ok(()) => operations += 1,
                Err(error) => failure = Some(error),
            }
        }
        let mut sum = sum.lock().expect("no holder panics");
        sum.0 += operations;
        sum.1 = sum.1.take().or(failure);
    });
    match sum.into_inner().expect("no holder panics") {
        (operations, None) => Ok(operations as f64 * 1e9 / ran.elapsed_ns.max(1) as f64),
        (_, Some(error)) => Err(error),
    }
}

/// Runs one of the loads.
///
/// # Errors
///
/// What the load needs cannot be made.
pub fn run(bench: &Bench, load: Load, options: &Options) -> anyhow::Result<Findings> {
    let threads: Vec<usize> = match options.threads[..] {
        [] => bench.up_to_cores(),
        _ => options.threads.iter().map(|&n| usize::from(n)).collect(),
    };
    let stage = Stage::new()?;
    load.prepare(stage.path())?;
    let duration_ns = options.duration.as_nanos() as u64;
    let progress = bench.start(threads.len() * (options.runs as usize + 1));
    let watch = Watch::start();
    let mut rows: Vec<LoadRow> = threads.iter().copied().map(Rounds::new).collect();
    let label = |threads: &usize| format!("{threads} threads");
    in_rounds(&mut rows, 0..=options.runs, &*progress, label, |&threads| {
        let cores = bench.pinned(threads);
        Some(caught(|| round(load, stage.path(), &cores, duration_ns)).map_err(|error| error.to_string()))
    });
    drop(progress);
    let noise = watch.stop();

    let most = bench.pinned(threads.iter().copied().max().unwrap_or(1));
    let contended = if interrupt::came() {
        Err(anyhow::anyhow!("cut short"))
    } else {
        contended::watch(|duration_ns| round(load, stage.path(), &most, duration_ns).map(drop))
    };
    let mut parts = vec![Part {
        key: load.name(),
        heading: load.heading().into(),
        table: table(&rows),
        notes: vec![format!("On Linux {}, {:?} a run.", kernel_release(), options.duration)],
    }];
    match contended {
        Ok(part) => parts.push(part),
        Err(why) => {
            parts[0].notes.push(format!("The kernel's contended locks are not shown: {why:#}."));
        }
    }
    let points = rows.iter().filter_map(|row| Point::of_runs(row.of as u32, &row.values));
    let curve = Curve::new(load.name(), Unit::OperationsPerSecond, Provenance::Measured)
        .workload(load.name())
        .with_points(points)
        .context("a number of threads was given twice")?;
    if load != Load::Mempop {
        parts[0].notes.push(stage.in_words());
    }
    parts[0].notes.extend(stage.remove());
    Ok(Findings {
        workload: load.name(),
        parts,
        goals: Vec::new(),
        drawing: Drawing::Curves(load.heading().into(), vec![curve]),
        noise,
    })
}

fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "?".into(), |text| text.trim().to_owned())
}

fn table(rows: &[LoadRow]) -> Table {
    let mut table = Table::new([
        Column::number("threads", "threads"),
        Column::spread("ops_per_s", "operations/s"),
        Column::number("times_one_thread", "times one thread"),
        Column::text("failure", "failure").kept().only_if_any(),
    ]);
    let one = rows.iter().find(|row| row.of == 1).and_then(|row| statistics::spread(&row.values));
    for row in rows {
        let spread = statistics::spread(&row.values);
        table.row([
            Cell::from(row.of),
            spread.into(),
            spread.zip(one).map(|(spread, one)| spread.median / one.median).into(),
            row.failure.clone().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::report::every_screen;

    #[test]
    fn every_load_does_operations_and_leaves_nothing() {
        for load in [Load::Fops, Load::Mempop, Load::Pfind] {
            let stage = Stage::new().unwrap();
            load.prepare(stage.path()).unwrap();
            assert!(round(load, stage.path(), &[0], 2_000_000).unwrap() > 0.0, "{load:?}");
            let path = stage.path().to_owned();
            drop(stage);
            assert!(!path.exists());
        }
    }

    #[test]
    fn an_operation_that_fails_is_an_error() {
        let nowhere = Path::new("/nonexistent");
        assert!(round(Load::Fops, nowhere, &[0], 1_000_000).is_err());
        assert!(
            round(Load::Pfind, nowhere, &[0], 1_000_000).unwrap_err().to_string().contains("instead of 1")
        );
    }

    #[test]
    fn only_a_missing_program_is_to_be_installed() {
        let told = |error: i32| cannot_find(&io::Error::from_raw_os_error(error));
        assert!(told(libc::ENOENT).contains("findutils"));
        assert!(told(libc::EAGAIN).contains("ulimit -u") && !told(libc::EAGAIN).contains("findutils"));
        assert!(!told(libc::EACCES).contains("findutils"));
    }

    #[test]
    fn the_table_on_every_screen() {
        let row = |of, per_second: &[f64], failure: Option<&str>| LoadRow {
            of,
            values: per_second.to_vec(),
            failure: failure.map(str::to_owned),
        };
        let rows = [
            row(1, &[1.0e5, 1.1e5, 1.2e5], None),
            row(2, &[8.0e4, 9.0e4, 9.5e4], None),
            row(4, &[], Some("No space left on device (os error 28)")),
        ];
        insta::assert_snapshot!(every_screen(&[], |screen| table(&rows).terminal(screen)));
    }
}
