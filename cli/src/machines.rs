//! `contend machines`, and machine files by name.

use crate::output::print_json;
use anyhow::Context as _;
use report::{Cell, Column, Screen, Table};
use session::names;
use std::path::Path;
use std::process::ExitCode;
use topology::carried::{self, CARRIED, THIS, THIS_BEFORE, TYPICAL, calibrated_path};
use topology::{MachineFile, Range};

/// List the machines that forecasts and simulations know.
///
/// A machine is a TOML file: its sockets, dies and cores, and what a line transfer, one more waiter and a wake-up cost,
/// each number with its source. Wherever a machine is asked for, give one of these names or the path of such a file.
/// `this-machine` is the one you are on, once `contend calibrate` has measured it.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(after_help = "Examples:
  contend machines
  contend machines --json | jq '.[] | select(.name == \"opteron-8x6\") | .handover.waiter'")]
pub(crate) struct Args {
    /// Print every number of every machine with its source, as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `contend machines`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { json } = args;
    let mut machines = Vec::new();
    let this = calibrated_path();
    if let Some(path) = this.as_deref().filter(|path| path.exists()) {
        machines.push((THIS, read(path)?));
    }
    for (name, _) in CARRIED {
        machines.push((name, load(name)?));
    }
    if json {
        let files: Vec<_> = machines.iter().map(|(_, machine)| machine).collect();
        print_json(&files)?;
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", text(&machines, Screen::stdout()));
    Ok(ExitCode::SUCCESS)
}

fn text(machines: &[(&str, MachineFile)], screen: Screen) -> String {
    let mut table = Table::new([
        Column::text("name", "name"),
        Column::text("description", "what it is"),
        Column::number("cores", "cores"),
        Column::spread("transfer_ns", "line transfer ns"),
        Column::spread("waiter_ns", "one more waiter ns"),
        Column::text("waiter_basis", "known from").detail(),
    ]);
    for (name, machine) in machines {
        let costs = machine.costs();
        let cores = machine.topology.cores();
        table.row([
            Cell::from(*name),
            Cell::from(machine.description.as_str()),
            Cell::from(cores),
            spread(costs.transfer_ns(cores)),
            spread(costs.waiter_ns(cores)),
            Cell::from(machine.handover.waiter.source.basis().name()),
        ]);
    }
    let mut notes = String::from(
        "Transfers and waiters are means over all cores, with the range they may lie in; --json has every number and \
         its source.\n",
    );
    if machines.iter().all(|(name, _)| *name != THIS) {
        notes.push_str(
            "`this-machine` is not calibrated: contend calibrate measures the machine you are on.\n",
        );
    }
    table.terminal(screen) + &screen.fit(&notes)
}

fn spread(range: Range) -> Cell {
    report::Spread { low: range.low, median: range.likely, high: range.high }.into()
}

/// The machine of that name, or in the file of that path.
///
/// A name wins over a file of that name; `./name` is the file.
pub(crate) fn load(name_or_path: &str) -> anyhow::Result<MachineFile> {
    if let Some(machine) = carried::find(name_or_path) {
        return machine.with_context(|| format!("the machine `{name_or_path}` that contend carries"));
    }
    if matches!(name_or_path, THIS | THIS_BEFORE) {
        if name_or_path == THIS_BEFORE {
            static NOTED: std::sync::Once = std::sync::Once::new();
            NOTED.call_once(|| {
                eprintln!(
                    "contend: the machine `{THIS_BEFORE}` is called `{THIS}` now; the next release drops the old name"
                );
            });
        }
        let path = calibrated_path()
            .with_context(|| format!("neither XDG_CONFIG_HOME nor HOME is set, so there is no `{THIS}`"))?;
        anyhow::ensure!(
            path.exists(),
            "this machine is not calibrated ({} does not exist): run `contend calibrate`, or name another of `contend machines`",
            path.display()
        );
        return read(&path);
    }
    let path = Path::new(name_or_path);
    if !path.exists() {
        let known = carried::names();
        let listed = "`contend machines` lists the names; the path of a machine file does as well";
        return Err(names::unknown("machine", name_or_path, known, listed).into());
    }
    read(path)
}

/// The calibrated machine if there is one, else one that assumes everything, in wide ranges.
pub(crate) fn default_machine() -> anyhow::Result<MachineFile> {
    match calibrated_path() {
        Some(path) if path.exists() => read(&path),
        _ => load(TYPICAL),
    }
}

/// The calibrated machine if there is one, else one of as many cores as this, of which all else is assumed.
pub(crate) fn this_or_assumed() -> anyhow::Result<MachineFile> {
    let mut machine = default_machine()?;
    if machine.name == TYPICAL {
        machine.topology.cores_per_die = session::host::cores();
        "this computer, not calibrated: every cost is assumed".clone_into(&mut machine.description);
    }
    Ok(machine)
}

fn read(path: &Path) -> anyhow::Result<MachineFile> {
    /// Longer ones are no machine files, and some have no end.
    const LONGEST: u64 = 1 << 20;
    let text = forecast::read_text_up_to(LONGEST, path).context("no machine file was read")?;
    MachineFile::parse(&text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::every_screen;

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

    #[test]
    fn machines_on_every_screen() {
        let names = ["opteron-8x6", "xeon-e5-4650v2x4"];
        let machines = names.map(|name| (name, load(name).unwrap()));
        insta::assert_snapshot!(every_screen(&names, |screen| text(&machines, screen)));
    }
}
