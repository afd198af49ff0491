//! `contend diff`: what grew between two profiles.

use crate::output;
use profile::read::{Change, Measures};
use profile::{Diff, Options, Profile};
use report::text::{grouped, short};
use report::{Cell, Column, Screen, Table};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what grew between two profiles, by lock and by caller.
///
/// Take one profile with few threads and one with many, or one of each version. A lock costs what it makes threads
/// wait and what they do while they hold it; rows are in order of how much that grew. If both profiles counted
/// operations, figures are for one operation, so that a longer run is no difference; otherwise for one second.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend profile -o one.contend --ops 100000 -- ./server --threads 1
  contend profile -o two.contend --ops 200000 -- ./server --threads 2
  contend diff one.contend two.contend        # a lock that scales costs the same for each operation in both
  contend diff --json old.contend new.contend | jq '.locks[0]'")]
pub(crate) struct Args {
    /// The profile to compare with
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// The profile to look at
    #[arg(value_name = "AFTER")]
    after: PathBuf,

    /// Print the difference as JSON
    #[arg(long)]
    json: bool,

    /// Show this many rows of each table; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
}

/// Runs `contend diff`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let open = |path| Ok::<_, profile::Error>(Profile::open(path)?.table(&Options::default()));
    let diff = Diff::new(&open(args.before)?, &open(args.after)?);
    if args.json {
        output::print_json(&diff)?;
    } else {
        output::print(&text(&diff, args.top, Screen::stdout()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(diff: &Diff, top: usize, screen: Screen) -> String {
    let top = if top == 0 { usize::MAX } else { top };
    let unit = if diff.per_operation { "operation" } else { "second" };
    let [before, after] = diff.operation_ns;
    let ratio = if before > 0.0 { format!(" (× {})", short(after / before)) } else { String::new() };
    let head = format!(
        "Threads {} → {}, cores in use {} → {}. CPU time for one {unit}: {} µs → {} µs{ratio}.\n\
         All times are for one {unit}.\n\n",
        grouped(diff.threads[0]),
        grouped(diff.threads[1]),
        short(diff.cores_used[0]),
        short(diff.cores_used[1]),
        short(before / 1e3),
        short(after / 1e3),
    );
    format!(
        "{}By lock\n{}\nBy the function that touched the lock first\n{}",
        screen.fit(&head),
        table("lock", &diff.locks, top).terminal(screen),
        table("caller", &diff.callers, top).terminal(screen),
    )
}

fn table(what: &'static str, changes: &[Change], top: usize) -> Table {
    let mut table = Table::new([
        Column::text(what, what),
        Column::number("growth_us", "growth µs").kept(),
        Column::number("ratio", "×"),
        Column::text("waited_us", "waited µs"),
        Column::text("held_us", "held µs"),
        Column::text("section_ns", "section ns").detail(),
        Column::text("handover_ns", "hand-over ns").detail(),
        Column::text("acquisitions", "acquires").detail(),
    ]);
    for change in changes.iter().take(top) {
        let sides = |value: fn(&Measures) -> f64, unit: f64| -> Cell {
            format!("{} → {}", short(value(&change.before) / unit), short(value(&change.after) / unit)).into()
        };
        let ratio = Some(change.ratio()).filter(|ratio| ratio.is_finite());
        table.row([
            change.name.as_str().into(),
            (change.growth_ns() / 1e3).into(),
            ratio.into(),
            sides(|m| m.waited_ns, 1e3),
            sides(|m| m.held_ns, 1e3),
            sides(|m| m.critical_section_ns, 1.0),
            sides(|m| m.handover_ns, 1.0),
            sides(|m| m.acquisitions, 1.0),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::every_screen;

    #[test]
    fn what_grew_most_comes_first_and_new_locks_have_no_ratio() {
        let measures = |waited_ns| Measures { waited_ns, ..Measures::default() };
        let change = |name: &str, before, after| Change {
            name: name.into(),
            before: measures(before),
            after: measures(after),
        };
        let shown =
            table("lock", &[change("grown", 1e3, 5e3), change("new", 0.0, 2e3)], 1).terminal(Screen::FILE);
        assert!(shown.contains("grown") && shown.contains("4.00") && shown.contains("5.00"), "{shown}");
        assert!(!shown.contains("new"), "{shown}");
        let all = table("lock", &[change("new", 0.0, 2e3)], 9).csv();
        assert!(all.contains("new,2,,0 → 2.00"), "{all}");
    }

    #[test]
    fn a_difference_on_every_screen() {
        let measures = |cost: f64| Measures {
            acquisitions: 1.5e5,
            contended: 2e4,
            waited_ns: cost,
            held_ns: 0.2 * cost,
            critical_section_ns: 120.0,
            handover_ns: 5_300.0,
        };
        let change = |name: &str, before: f64, after: f64| Change {
            name: name.into(),
            before: measures(before),
            after: measures(after),
        };
        let diff = Diff {
            per_operation: true,
            operation_ns: [5_000.0, 12_500.0],
            threads: [1, 8],
            cores_used: [0.99, 5.4],
            locks: vec![change("cache::Table::tune_logger", 1e3, 9e3), change("log_lock", 4e2, 3e2)],
            callers: vec![change("serve_request", 1.4e3, 9.3e3)],
        };
        let names = ["cache::Table::tune_logger", "log_lock", "serve_request"];
        insta::assert_snapshot!(every_screen(&names, |screen| text(&diff, 0, screen)));
    }
}
