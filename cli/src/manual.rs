//! `contend man`: the manual pages.

use anyhow::Context as _;
use clap::CommandFactory;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write the manual pages, one for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend man /usr/local/share/man/man1
  contend man /tmp/man && man /tmp/man/contend-profile.1")]
pub(crate) struct ManArgs {
    /// The folder to write them into; made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs `contend man`.
pub(crate) fn man<C: CommandFactory>(args: &ManArgs) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("cannot make the folder {}", args.folder.display()))?;
    let mut command = C::command();
    command.build();
    write_pages(&command, "contend", &args.folder)
        .with_context(|| format!("cannot write manual pages into {}", args.folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and of those below it, but for the hidden ones.
fn write_pages(command: &clap::Command, name: &str, folder: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        write_pages(below, &format!("{name}-{}", below.get_name()), folder)?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone().display_name(name.to_owned()))
        .title(name.to_owned())
        .source(format!("contend {}", env!("CARGO_PKG_VERSION")))
        .render(&mut page)?;
    let usage = command.clone().render_usage().to_string();
    let page = with_usage(&with_examples(&String::from_utf8_lossy(&page)), &usage);
    std::fs::write(folder.join(format!("{name}.1")), page)
}

/// A page whose synopsis is how the command itself says that it is used: clap_mangen leaves out names of values and the `--` before a
/// program.
fn with_usage(page: &str, usage: &str) -> String {
    let lines = usage.lines().map(|line| line.trim_start_matches("Usage:").trim());
    let usage: Vec<_> = lines.map(|line| line.replace('\\', r"\\e").replace('-', r"\-")).collect();
    let Some((before, after)) = page.split_once(".SH SYNOPSIS\n") else { return page.to_owned() };
    let (_, after) = after.split_at(after.find(".SH ").unwrap_or(after.len()));
    format!("{before}.SH SYNOPSIS\n.nf\n{}\n.fi\n{after}", usage.join("\n"))
}

/// A page whose examples keep their lines: clap_mangen puts them into a section EXTRA, where troff fills them.
fn with_examples(page: &str) -> String {
    let mut kept = String::with_capacity(page.len() + 64);
    let mut inside = false;
    for line in page.lines() {
        if line.starts_with(".SH") && std::mem::take(&mut inside) {
            kept.push_str(".fi\n");
        }
        if line == ".SH EXTRA" {
            inside = true;
            kept.push_str(".SH EXAMPLES\n.nf\n");
        } else if !(inside && line == "Examples:") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    if inside {
        kept.push_str(".fi\n");
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_a_page_keep_their_lines() {
        let folder = tempfile::tempdir().unwrap();
        man::<crate::Command>(&ManArgs { folder: folder.path().to_owned() }).unwrap();
        let page = std::fs::read_to_string(folder.path().join("contend-compare.1")).unwrap();
        assert!(page.contains(&format!("\"contend {}\"", env!("CARGO_PKG_VERSION"))), "{page}");
        let (_, usage) = page.split_once(".SH SYNOPSIS\n.nf\n").expect("a synopsis");
        let usage = usage.lines().next().unwrap_or_default();
        assert!(usage.starts_with("contend compare ") && usage.ends_with(r"\-\- <CMD>..."), "{usage}");
        let gate = std::fs::read_to_string(folder.path().join("contend-gate.1")).unwrap();
        assert!(gate.contains("contend gate [OPTIONS] \\-\\-base CMD… \\-\\- CMD…\n"), "{gate}");
        let (_, examples) = page.split_once(".SH EXAMPLES\n.nf\n").expect("a section of examples");
        let (examples, _) = examples.split_once(".fi").expect("an end of it");
        assert!(examples.contains("contend compare") && !examples.contains(".SH"), "{examples}");
        assert!(!folder.path().join("contend-demo-program.1").exists());
        assert!(
            folder.path().join("contend.1").exists() && folder.path().join("contend-bench-cost.1").exists()
        );
    }
}
