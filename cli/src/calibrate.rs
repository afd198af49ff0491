//! `contend calibrate`: this machine's hand-over costs, as a machine file.

use crate::output::{self, print, print_json};
use crate::progress::{self, BARS};
use anyhow::Context as _;
use compare::calibrate::{Calibration, Cores, file_text};
use report::Screen;
use session::noise::{Noise, Watch};
use session::output_file::OutputFile;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use topology::{MachineFile, carried};

/// Measure what a hand-over costs here, as a machine file.
///
/// Threads pinned to cores time a cache line's way between cores of each distance that the machine has, one more
/// waiter on a lock, a sleeper's wake-up and a context switch. It takes a few seconds, and the machine should have
/// nothing else to do. Predictions use the result from then on; `contend machines` lists it as `this-machine`.
///
/// What cannot be measured is marked as assumed: a second waiter needs a third core.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  Measure; predictions use it from now on:
    contend calibrate
  Measure a server, then predict for it wherever the profile is:
    contend calibrate -o big-server.toml
    contend predict p.contend --machine big-server.toml
  For a script:
    contend calibrate --json | jq .machine.transfer")]
pub(crate) struct Args {
    /// Write the machine file here instead; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print the machine, all measurements and the noise meanwhile as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `contend calibrate`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { output, json } = args;
    let to_stdout = output.as_deref() == Some(Path::new("-"));
    session::ensure_usage!(
        !(to_stdout && json),
        "both --json and the machine file would go to standard output; drop one"
    );
    let is_own_place = output.is_none();
    let path = match output {
        Some(path) => path,
        None => carried::this_path().context(
            "neither XDG_CONFIG_HOME nor HOME is set: say where the machine file goes with -o FILE",
        )?,
    };
    let file = if to_stdout { None } else { Some(place(&path, is_own_place)?) };
    let cores = Cores::usable()?;
    let watch = Watch::start();
    let measured = Calibration::take(&cores, &BARS)?;
    let noise = watch.stop();
    let machine = measured.machine(&name_for(&path), &cores)?;
    let text = file_text(&machine, &measured)?;

    match file {
        Some(file) => file.write(text)?,
        None => print(&text)?,
    }
    let warnings: Vec<_> = noise.warnings().into_iter().chain(measured.warnings()).collect();
    if json {
        print_json(&as_json(&path, &machine, &measured, noise, &warnings))?;
    } else if !to_stdout {
        print!("{}", measured.table().terminal(Screen::stdout()));
        println!("\nWritten to {}.", path.display());
    }
    progress::warn(&warnings);
    Ok(ExitCode::SUCCESS)
}

fn as_json(
    path: &Path,
    machine: &MachineFile,
    measured: &Calibration,
    noise: Noise,
    warnings: &[String],
) -> serde_json::Value {
    serde_json::json!({
        "file": path, "machine": machine, "measurements": measured.table().json(), "noise": noise,
        "warnings": warnings,
    })
}

/// Whether the machine file can be written is told before the measurement, and the old one stays until the new one is whole. Only the
/// directory of the command's own place is made: one that the user names is there, or its name is a mistake.
fn place(path: &Path, is_own_place: bool) -> anyhow::Result<OutputFile> {
    if let Some(directory) = path.parent().filter(|_| is_own_place) {
        std::fs::create_dir_all(directory).with_context(|| {
            format!("cannot make the directory {} for the machine file", directory.display())
        })?;
    }
    output::file(path)
}

/// What the machine in the file of that path is called: as the file, where a machine may be called so.
fn name_for(path: &Path) -> String {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or(carried::THIS);
    let name: String = stem.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
    if name.is_empty() || name == "-" { carried::THIS.to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_file_takes_no_profiles_place_and_makes_no_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let [profile, below] =
            ["good.contend", "none/this-machine.toml"].map(|name| directory.path().join(name));
        std::fs::write(&profile, profile::format::MAGIC).expect("a file");
        let said = place(&profile, false).expect_err("a profile").to_string();
        assert!(said.contains("is a profile, which would be written over"), "{said}");
        assert!(place(&below, false).is_err() && !directory.path().join("none").exists());
        assert!(place(&below, true).is_ok(), "the command's own place is made");
    }

    #[test]
    fn a_machine_is_named_like_its_file() {
        assert_eq!(name_for(Path::new("/x/big server.toml")), "bigserver");
        assert_eq!(name_for(Path::new("-")), "this-machine");
        assert_eq!(name_for(Path::new("/")), "this-machine");
    }
}
