//! `exim`: a mail server that delivers messages, as "Non-scalable locks are dangerous" has it.
//!
//! The server is the real one, if it is installed. It runs as a user without privileges, takes connections from this
//! machine alone, and keeps everything in one directory on tmpfs, which is removed. Each client is pinned, and sends to a recipient of its
//! own, ten messages a connection. Counted are messages that were delivered.
//!
//! A user who may not do what root may runs it all the same. Root gives the server the user `nobody`; started by another user, it
//! runs as that user. The command enters namespaces of its own for mounts, the network and processes, and first one for users if
//! it is not root, where the system allows that (`namespaces.rs`). Then the directory is a tmpfs that no process outside sees and
//! that the kernel frees with the last process, the loopback interface is the command's own, and the kernel ends every process of
//! the server with its daemon, even after `kill -9`. Where a namespace is not to be had, the run goes on without it: the
//! directory is in `/dev/shm`, and processes are found by their command lines and ended.

mod client;
mod namespaces;
mod server;

use crate::stage::Stage;
use ::report::{Cell, Column, Table};
use anyhow::Context as _;
use bench::findings::{Drawing, Findings, Part};
use bench::timing::{Bench, CUT_SHORT, Rounds, in_rounds};
use curve::{Curve, Point, Provenance, Unit};
use machine::{Machine as _, Native, Plan};
use namespaces::Namespaces;
use server::Server;
use session::interrupt;
use session::noise::Watch;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// Runs of each number of clients.
    pub runs: u32,
    /// Numbers of clients, each pinned to a core; 1, 2, 4, … all cores if there is none.
    pub threads: Vec<u16>,
    /// How long clients send before anything is counted.
    pub warm_up: Duration,
    /// How long deliveries are counted.
    pub duration: Duration,
}

/// What came of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Run {
    /// Deliveries a second, in the time that counts.
    per_second: f64,
    accepted: u64,
    lost: u64,
    twice: u64,
}

/// What a number of clients came to.
type LoadRow = Rounds<usize, Run>;

/// How often each message of a client lies in its mailbox: those that are not there, and those that are there too often.
fn account(accepted: u64, client: usize, mailbox: &str) -> (u64, u64) {
    let mut copies: HashMap<&str, u64> = HashMap::new();
    for name in mailbox.lines().filter_map(|line| line.strip_prefix(client::NAME_HEADER)) {
        *copies.entry(name).or_default() += 1;
    }
    let lost = (0..accepted).filter(|&number| !copies.contains_key(client::name(client, number).as_str()));
    (lost.count() as u64, copies.values().map(|count| count - 1).sum())
}

/// One run of a server of its own.
fn round(
    program: &Path,
    directory: &Path,
    cores: &[u32],
    options: &Options,
    namespaces: &Namespaces,
) -> anyhow::Result<Run> {
    let server = Server::start(program, directory, cores.len(), namespaces)?;
    let stop = AtomicBool::new(false);
    let sent = Mutex::new((vec![0; cores.len()], None));
    let (mut per_second, mut watched, mut clients_ran) = (f64::NAN, Ok(()), false);
    std::thread::scope(|scope| {
        let clients = scope.spawn(|| {
            Native::run(&Plan::on(cores), &|client| {
                let ran = client::run(server.port, client, || !stop.load(Relaxed));
                let mut sent = sent.lock().expect("no holder panics");
                match ran {
                    Ok(accepted) => sent.0[client] = accepted,
                    Err(error) => {
                        sent.1.get_or_insert(error);
                        stop.store(true, Relaxed);
                    }
                }
            });
        });
        watched = pass(options.warm_up, &stop);
        let (before, began) = (server.log().delivered(), Instant::now());
        if watched.is_ok() {
            watched = pass(options.duration, &stop);
        }
        let (after, elapsed) = (server.log().delivered(), began.elapsed());
        per_second = (after - before) as f64 / elapsed.as_secs_f64();
        stop.store(true, Relaxed);
        clients_ran = clients.join().is_ok();
    });
    let (accepted, failed) = sent.into_inner().expect("no holder panics");
    if let Some(error) = failed {
        return Err(error.context(format!("a client cannot go on (exim: {})", server.complaint())));
    }
    watched?;
    anyhow::ensure!(clients_ran, "the clients cannot be started: is there a limit of processes (ulimit -u)?");
    await_empty(&server);
    let mut run = Run { per_second, accepted: accepted.iter().sum(), lost: 0, twice: 0 };
    for (client, &accepted) in accepted.iter().enumerate() {
        let (lost, twice) = account(accepted, client, &server.mailbox(client));
        (run.lost, run.twice) = (run.lost + lost, run.twice + twice);
    }
    Ok(run)
}

/// Lets so much time pass, unless the run is over before.
fn pass(time: Duration, stop: &AtomicBool) -> anyhow::Result<()> {
    const STEP: Duration = Duration::from_millis(10);
    let began = Instant::now();
    while began.elapsed() < time && !stop.load(Relaxed) {
        anyhow::ensure!(!interrupt::came(), CUT_SHORT);
        std::thread::sleep(STEP.min(time.saturating_sub(began.elapsed())));
    }
    Ok(())
}

/// Waits until everything is delivered that will be.
fn await_empty(server: &Server) {
    const LONGEST: Duration = Duration::from_secs(20);
    let began = Instant::now();
    while server.queued() > 0 && began.elapsed() < LONGEST && !interrupt::came() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs the load.
///
/// # Errors
///
/// Exim is not installed, or there is no place for its files.
pub fn run(bench: &Bench, options: &Options) -> anyhow::Result<Findings> {
    let program = server::program().context(
        "exim is not installed, and nothing was measured: on Debian, apt-get install exim4-daemon-light has it (the service need not run)",
    )?;
    let threads: Vec<usize> = match options.threads[..] {
        [] => bench.up_to_cores(),
        _ => options.threads.iter().map(|&n| usize::from(n)).collect(),
    };
    let stage = Stage::new()?;
    stage.let_through()?;
    let namespaces = Namespaces::enter(stage.path())?;
    let progress = bench.start(threads.len() * options.runs as usize);
    let watch = Watch::start();
    let mut rows: Vec<LoadRow> = threads.iter().copied().map(Rounds::new).collect();
    let mut number = 0;
    let label = |clients: &usize| format!("{clients} clients");
    in_rounds(&mut rows, 1..=options.runs, &*progress, label, |&clients| {
        number += 1;
        let directory = stage.path().join(number.to_string());
        let run = round(&program, &directory, &bench.pinned(clients), options, &namespaces);
        let _ = std::fs::remove_dir_all(directory); // what is left goes with the stage
        Some(run.map_err(|error| format!("{error:#}")))
    });
    drop(progress);
    let noise = watch.stop();
    let rates = |row: &LoadRow| row.figures(|run| run.per_second);
    let points = rows.iter().filter_map(|row| Point::of_runs(row.of as u32, &rates(row)));
    let curve = Curve::new("exim", Unit::OperationsPerSecond, Provenance::Measured)
        .workload("exim")
        .with_points(points)
        .context("a number of clients was given twice")?;
    let mut notes = vec![format!(
        "{} messages a connection, {:?} before anything counts, {:?} that do.",
        client::MESSAGES_A_CONNECTION,
        options.warm_up,
        options.duration
    )];
    notes.push(
        "Exim has a new name for a message of one connection every few milliseconds, so that it takes several clients to fill a core.".into(),
    );
    notes.push(namespaces.in_words());
    notes.push(stage.in_words());
    drop(namespaces); // with what is mounted on the stage
    notes.extend(stage.remove());
    Ok(Findings {
        workload: "exim",
        parts: vec![Part {
            key: "exim",
            heading: "Messages that exim delivers".into(),
            table: table(&rows),
            notes,
        }],
        goals: Vec::new(),
        drawing: Drawing::Curves("Messages that exim delivers".into(), vec![curve]),
        noise,
    })
}

fn table(rows: &[LoadRow]) -> Table {
    let mut table = Table::new([
        Column::number("clients", "clients"),
        Column::spread("delivered_per_s", "delivered/s"),
        Column::number("delivered_per_s_of_client", "of a client"),
        Column::number("accepted", "accepted"),
        Column::number("lost", "lost"),
        Column::number("twice", "twice"),
        Column::text("failure", "failure").only_if_any(),
    ]);
    for row in rows {
        let spread = row.spread(|run| run.per_second);
        let sum =
            |of: fn(&Run) -> u64| (!row.values.is_empty()).then(|| row.values.iter().map(of).sum::<u64>());
        table.row([
            Cell::from(row.of),
            spread.into(),
            spread.map(|spread| spread.median / row.of as f64).into(),
            sum(|run| run.accepted).into(),
            sum(|run| run.lost).into(),
            sum(|run| run.twice).into(),
            row.failure.clone().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::progress::Unwatched;

    #[test]
    fn every_message_is_accounted_for() {
        let mailbox = |numbers: &[u64]| -> String {
            let header = |&number: &u64| format!("{}{}\n", client::NAME_HEADER, client::name(3, number));
            numbers.iter().map(header).collect()
        };
        assert_eq!(account(3, 3, &mailbox(&[2, 0, 1])), (0, 0));
        assert_eq!(account(3, 3, &mailbox(&[0, 2, 2, 2])), (1, 2));
        assert_eq!(account(2, 3, ""), (2, 0));
    }

    #[test]
    fn messages_are_delivered_once_and_nothing_is_left() {
        let options = Options {
            runs: 1,
            threads: vec![2],
            warm_up: Duration::from_millis(50),
            duration: Duration::from_millis(100),
        };
        let bench = Bench::new(&Unwatched);
        if server::program().is_none() {
            let error = run(&bench, &options).unwrap_err().to_string();
            assert!(error.contains("apt-get install"), "{error}");
            return;
        }
        let program = server::program().expect("it is installed");
        let stage = Stage::new().expect("a directory");
        stage.let_through().expect("it is ours");
        let namespaces = Namespaces::enter(stage.path()).expect("some namespaces or none");
        let directory = stage.path().join("here");
        let ran = round(&program, &directory, &bench.pinned(2), &options, &namespaces).expect("a run");
        assert!(ran.accepted >= 2 * client::MESSAGES_A_CONNECTION, "{ran:?}");
        assert_eq!((ran.lost, ran.twice), (0, 0), "{ran:?}");
        assert_eq!(server::end_processes_of(&directory), 0, "the server is gone");
        drop(namespaces);
        assert_eq!(stage.remove(), None);
    }
}
