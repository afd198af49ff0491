//! `contend machines`, and machine files by name.

use crate::names;
use anyhow::Context as _;
use model::MachineFile;
use model::machine_file::Figure;
use report::{Cell, Column, Screen, Table};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The name of the calibrated machine.
pub(crate) const THIS: &str = "this";

/// The machines that the command carries, as name and file.
const CARRIED: [(&str, &str); 13] = [
    ("opteron-8x6", include_str!("../../data/machines/opteron-8x6.toml")),
    ("dl580", include_str!("../../data/machines/dl580.toml")),
    ("cs900x8", include_str!("../../data/machines/cs900x8.toml")),
    ("cs900x16", include_str!("../../data/machines/cs900x16.toml")),
    ("xeon-e5-4650v2x4", include_str!("../../data/machines/xeon-e5-4650v2x4.toml")),
    ("xeon-8360yx2", include_str!("../../data/machines/xeon-8360yx2.toml")),
    ("epyc-7763x2", include_str!("../../data/machines/epyc-7763x2.toml")),
    ("epyc-9654x2", include_str!("../../data/machines/epyc-9654x2.toml")),
    ("sapphire-rapids-x4", include_str!("../../data/machines/sapphire-rapids-x4.toml")),
    ("single-192", include_str!("../../data/machines/single-192.toml")),
    ("graviton3", include_str!("../../data/machines/graviton3.toml")),
    ("altra-q80", include_str!("../../data/machines/altra-q80.toml")),
    ("typical", include_str!("../../data/machines/typical.toml")),
];

/// List the machines that predictions and simulations know, the name first.
///
/// A machine is a TOML file: its sockets, dies and cores, and what a line transfer, one more waiter and a wake-up cost,
/// each number with its source. Wherever a machine is asked for, give one of these names or the path of such a file.
/// `this` is the machine you are on, once `contend calibrate` has measured it.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(after_help = "Examples:
  contend machines
  contend machines --json | jq '.[] | select(.name == \"opteron-8x6\") | .handover.waiter'")]
pub(crate) struct Args {
    /// Print every number of every machine with its source, as JSON
    #[arg(long)]
    json: bool,
}

/// The names that stand for a machine.
pub(crate) fn names_of_machines() -> impl Iterator<Item = &'static str> {
    CARRIED.iter().map(|(name, _)| *name).chain([THIS])
}

/// Runs `contend machines`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { json } = args;
    let mut machines = Vec::new();
    let this = this_path();
    if let Some(path) = this.as_deref().filter(|path| path.exists()) {
        machines.push((THIS, read(path)?));
    }
    for (name, _) in CARRIED {
        machines.push((name, load(name)?));
    }
    if json {
        let files: Vec<_> = machines.iter().map(|(_, machine)| machine).collect();
        println!("{}", serde_json::to_string_pretty(&files)?);
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new([
        Column::text("name", "name"),
        Column::text("description", "what it is"),
        Column::number("cores", "cores"),
        Column::spread("transfer_ns", "line transfer ns"),
        Column::spread("waiter_ns", "one more waiter ns"),
        Column::text("waiter_basis", "known from").detail(),
    ]);
    for (name, machine) in &machines {
        let costs = machine.costs();
        let cores = machine.topology.cores();
        table.row([
            Cell::from(*name),
            Cell::from(machine.description.as_str()),
            Cell::from(cores),
            spread(costs.transfer_ns(cores)),
            spread(costs.waiter_ns(cores)),
            Cell::from(basis(&machine.handover.waiter)),
        ]);
    }
    print!("{}", table.terminal(Screen::stdout()));
    let mut notes = String::from(
        "Transfers and waiters are means over all cores, with the range they may lie in; --json has every number and \
         its source.\n",
    );
    if machines.iter().all(|(name, _)| *name != THIS) {
        notes.push_str("`this` is not calibrated: contend calibrate measures the machine you are on.\n");
    }
    print!("{}", Screen::stdout().fit(&notes));
    Ok(ExitCode::SUCCESS)
}

fn spread(range: model::Range) -> Cell {
    report::Spread { low: range.low, median: range.likely, high: range.high }.into()
}

/// In two words, what stands behind a figure.
fn basis(figure: &Figure) -> &'static str {
    match figure.source.as_str() {
        source if source.starts_with("fitted to") => "a fit",
        source if source.starts_with("assumed") => "an assumption",
        source if source.starts_with("unverified") => "unverified",
        _ => "its source",
    }
}

/// Where `contend calibrate` leaves the machine file of the machine it runs on: `contend/this.toml` in the user's
/// directory of configurations. `None` where the environment names neither that nor a home.
pub(crate) fn this_path() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let configurations = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(configurations.join("contend").join("this.toml"))
}

/// The machine of that name, or in the file of that path.
///
/// A name wins over a file of that name; `./name` is the file.
pub(crate) fn load(name_or_path: &str) -> anyhow::Result<MachineFile> {
    if let Some((name, text)) = CARRIED.iter().find(|(name, _)| *name == name_or_path) {
        return MachineFile::parse(text)
            .with_context(|| format!("the machine `{name}` that contend carries"));
    }
    if name_or_path == THIS {
        let path = this_path().context("neither XDG_CONFIG_HOME nor HOME is set, so there is no `this`")?;
        anyhow::ensure!(
            path.exists(),
            "this machine is not calibrated ({} does not exist): run `contend calibrate`, or name another of `contend machines`",
            path.display()
        );
        return read(&path);
    }
    let path = Path::new(name_or_path);
    if !path.exists() {
        let known = names_of_machines();
        let listed = "`contend machines` lists the names; the path of a machine file does as well";
        return Err(names::unknown("machine", name_or_path, known, listed).into());
    }
    read(path)
}

/// The calibrated machine if there is one, else one that assumes everything, in wide ranges.
pub(crate) fn default_machine() -> anyhow::Result<MachineFile> {
    match this_path() {
        Some(path) if path.exists() => read(&path),
        _ => load("typical"),
    }
}

fn read(path: &Path) -> anyhow::Result<MachineFile> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read machine file {}", path.display()))?;
    MachineFile::parse(&text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::published;
    use model::machine_file::FigureUnit;

    #[test]
    fn every_carried_machine_is_valid_and_named_like_its_file() {
        for (name, _) in CARRIED {
            let machine = load(name).unwrap_or_else(|error| panic!("{error:#}"));
            assert_eq!(machine.name, name);
            let costs = machine.costs();
            assert!(costs.transfer_ns(2).likely <= costs.transfer_ns(machine.topology.cores()).likely);
        }
    }

    #[test]
    fn transfers_that_name_a_row_are_that_row() {
        let rows = published::core_to_core().unwrap();
        let mut checked = 0;
        for (name, _) in CARRIED {
            let machine = load(name).unwrap();
            for (tier, figure) in [
                ("smt_sibling", &machine.transfer.smt_sibling),
                ("same_l3", &machine.transfer.same_l3),
                ("same_socket", &machine.transfer.same_socket),
                ("cross_socket", &machine.transfer.cross_socket),
            ] {
                let Some(figure) = figure else { continue };
                let Some(source) = figure.source.strip_prefix("core_to_core.csv: ") else { continue };
                let row = rows.iter().find(|row| source.starts_with(&row.machine)).expect("the row exists");
                assert!(source.contains(tier), "{name}: {source}");
                assert_eq!(
                    (Some(figure.value), figure.unit),
                    (row.tier(tier), FigureUnit::Nanoseconds),
                    "{name} {tier}"
                );
                checked += 1;
            }
        }
        assert!(checked >= 15);
    }

    #[test]
    fn a_waiter_on_one_socket_of_dl580_is_what_its_table_says() {
        // With all cores at the lock, t_n = s + c(n-1)/2: c is twice the slope of the time for one hand-over.
        let points: Vec<(f64, f64)> = published::cacheline_contention()
            .unwrap()
            .into_iter()
            .filter(|row| row.table == "within_socket")
            .map(|row| (f64::from(row.cores), 1e9 / (f64::from(row.cores) * row.ops_per_sec_per_core)))
            .collect();
        let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / points.len() as f64;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>()
            / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>();
        let waiter = load("dl580").unwrap().costs().waiter_ns(15).likely;
        assert!((2.0 * slope / waiter - 1.0).abs() < 0.05, "{slope} {waiter}");
    }

    #[test]
    fn an_unknown_machine_says_where_the_names_are() {
        let message = format!("{:#}", load("no-such-machine").unwrap_err());
        assert!(message.contains("contend machines"), "{message}");
    }

    #[test]
    fn a_bad_file_is_named_with_its_line() {
        let file = std::env::temp_dir().join(format!("contend-machine-{}.toml", std::process::id()));
        std::fs::write(&file, "name = \"x\"\ndescription = [\n").unwrap();
        let message = format!("{:#}", load(file.to_str().unwrap()).unwrap_err());
        std::fs::remove_file(&file).unwrap();
        assert!(message.contains("contend-machine-") && message.contains("line"), "{message}");
    }
}
