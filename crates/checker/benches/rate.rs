//! How many executions a second the checker runs: `cargo bench -p contend-checker --bench rate -- ticket 2 4`.

use contend_checker::{Checked, Exploration, Model, Search, explore};
use workloads::client::{self, ClientKind, Shape};

fn main() {
    // `cargo bench` adds a word of its own.
    let arguments = std::env::args().skip(1).filter(|word| word != "--bench").collect::<Vec<_>>();
    let [lock, threads, acquisitions, rest @ ..] = &arguments[..] else {
        eprintln!(
            "usage: rate LOCK THREADS ACQUISITIONS [CLIENT] [MODEL] [executions|states|interleavings] [SECONDS]"
        );
        return;
    };
    let shape = Shape {
        threads: threads.parse().expect("a number"),
        acquisitions: acquisitions.parse().expect("a number"),
    };
    let kind = rest.first().map_or(ClientKind::Exclusive, |name| {
        let known = ClientKind::ALL.into_iter().find(|kind| format!("{kind:?}").eq_ignore_ascii_case(name));
        known.expect("a client")
    });
    for model in Model::ALL {
        if rest.get(1).is_some_and(|name| name != "all" && *name != model.name()) {
            continue;
        }
        let client = || match client::run::<Checked>(lock, kind, shape) {
            Some(result) => result.map(drop).map_err(|wrong| wrong.to_string()),
            None => Err("no such lock".to_owned()),
        };
        let search = match rest.get(2).map(String::as_str) {
            Some("states") => Search::States,
            Some("interleavings") => Search::Interleavings,
            _ => Search::Executions,
        };
        let alike = if kind == ClientKind::Exclusive { u32::MAX } else { 0 };
        let seconds = rest.get(3).map(|seconds| seconds.parse().expect("seconds"));
        let most_time = seconds.map(std::time::Duration::from_secs);
        let report = explore(&Exploration { search, alike, most_time, ..Exploration::of(model) }, &client);
        let rate = report.counts.all() as f64 / report.elapsed.as_secs_f64();
        let (counts, elapsed) = (report.counts, report.elapsed);
        println!("{lock} {kind:?} {model}: {counts:?} in {elapsed:?}, {rate:.0} a second");
        if let Some(found) = report.counterexample {
            println!("{found}");
        }
    }
}
