//! `contend reproduce`: the paper's model and table against its published numbers.

use crate::progress::BARS;
use anyhow::Context as _;
use clap::ValueEnum as _;
use model::Reading;
use papers::{Reproduction, published};
use report::{Plot, Screen};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Recompute a figure of "Non-scalable locks are dangerous" (2012) and compare it with what is published.
///
/// The published numbers travel inside the command (data/published). They have faults; those that bear on a figure are
/// named under it. One number is fitted, c, what one more waiter costs on the paper's machine, to one published row;
/// everything else follows from the model.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend reproduce claims                        # what the model meets and misses, row by row
  contend reproduce fig8 --svg pictures           # the collapse, by how often the lock is used
  contend reproduce fig9 --reading formula --json # under formula (1) as printed
  contend reproduce contention                    # the 2014 talk's tables, simulated row by row
  contend reproduce all --svg pictures --output tables")]
pub(crate) struct Args {
    /// What to reproduce
    #[arg(value_enum)]
    figure: Figure,
    /// Print rows and curves as JSON
    #[arg(long)]
    json: bool,
    /// Also draw the curves, each figure into a file FIGURE.svg of this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Also write each table with its notes into this directory, as FIGURE.txt
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The form of the model: the paper writes it in several ways, and c is fitted anew under each
    #[arg(long, value_name = "FORM", default_value = "waiters", value_parser = reading)]
    reading: Reading,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Figure {
    /// Critical sections of four benchmarks on one core, recomputed from their own rows
    Fig3,
    /// The model's curves by the time outside the lock
    Fig8,
    /// The model's curves by the length of the section, at one share of the time
    Fig9,
    /// Every claim of collapse_claims.csv: met or missed by the model, and by how much
    Claims,
    /// The ticket lock in four benchmarks, simulated
    Fig2,
    /// Locks around 4 shared lines, simulated
    Fig10,
    /// The ticket lock and MCS in four benchmarks, simulated
    Fig12,
    /// Every row of the 2014 talk's contention tables, simulated
    Contention,
    /// Figs. 8 and 9 simulated, against the model with the simulator's own c
    Model,
    /// Back-off that tunes itself, simulated
    SelfTuning,
    /// Coherence traffic of the ticket lock against MCS, simulated
    Retries,
    /// Short and long runs near the collapse, simulated
    Instability,
    /// A prediction for 48 simulated cores from a profile of two
    EndToEnd,
    /// Curves of forty programs under 28 locks, cut short and extrapolated
    LockStudy,
    /// All of these
    All,
}

impl Figure {
    fn reproduce(self, reading: Reading) -> anyhow::Result<Reproduction> {
        let figure = match self {
            Self::Fig3 => papers::Figure::Fig3,
            Self::Fig8 => papers::Figure::Fig8,
            Self::Fig9 => papers::Figure::Fig9,
            Self::Claims => papers::Figure::Claims,
            Self::Fig2 => papers::Figure::Fig2,
            Self::Fig10 => papers::Figure::Fig10,
            Self::Fig12 => papers::Figure::Fig12,
            Self::Contention => papers::Figure::Contention,
            Self::Model => papers::Figure::Model,
            Self::SelfTuning => papers::Figure::SelfTuning,
            Self::Retries => papers::Figure::Retries,
            Self::Instability => papers::Figure::Instability,
            Self::EndToEnd => papers::Figure::EndToEnd,
            Self::LockStudy => papers::Figure::LockStudy,
            Self::All => anyhow::bail!("all is not one figure"),
        };
        figure.reproduce(reading, &BARS)
    }

    /// The name that the command takes.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// The form of that name; for commands that take `--reading`.
pub(crate) fn reading(name: &str) -> Result<Reading, String> {
    Reading::named(name).ok_or_else(|| {
        let forms: Vec<_> = Reading::ALL
            .iter()
            .map(|reading| format!("{} (t_k = {})", reading.name(), reading.form()))
            .collect();
        format!("the forms are {}", forms.join(", "))
    })
}

/// Runs `contend reproduce`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { figure, json, svg, output, reading } = args;
    let figures = match figure {
        Figure::All => Figure::value_variants().iter().copied().filter(|&one| one != Figure::All).collect(),
        one => vec![one],
    };
    let mut by_name = serde_json::Map::new();
    for one in figures {
        let reproduction = one.reproduce(reading)?;
        if let Some(directory) = &svg
            && !(figure == Figure::All && reproduction.plots.is_empty())
        {
            write_svgs(&reproduction, directory, &one.name())?;
        }
        if let Some(directory) = &output {
            write_text(&reproduction, directory, &one.name())?;
        }
        if json {
            by_name.insert(one.name(), reproduction.json(reading));
        } else {
            println!("{}", terminal(&reproduction, Screen::stdout())?);
        }
    }
    if json {
        let printed = match (figure, by_name.values().next()) {
            (Figure::All, _) | (_, None) => serde_json::Value::Object(by_name),
            (_, Some(only)) => only.clone(),
        };
        println!("{}", serde_json::to_string_pretty(&printed)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Draws each plot into `directory`: `name.svg`, or `name-TITLE.svg` where there are several.
fn write_svgs(reproduction: &Reproduction, directory: &Path, name: &str) -> anyhow::Result<()> {
    lab::ensure_usage!(
        !reproduction.plots.is_empty(),
        "{name} is a table: it has no curves for --svg to draw"
    );
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    for plot in &reproduction.plots {
        let file = match reproduction.plots.len() {
            1 => format!("{name}.svg"),
            _ => format!("{name}-{}.svg", plot.title.to_lowercase().replace([' ', ','], "-")),
        };
        let path = directory.join(file);
        std::fs::write(&path, Plot::new(&*plot.title, &plot.curves)?.log_cores(false).svg())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Writes the table with its notes into `directory`.
fn write_text(reproduction: &Reproduction, directory: &Path, name: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let path = directory.join(format!("{name}.txt"));
    let notes = reproduction.notes.iter().map(|note| format!("{note}\n")).collect::<String>();
    let faults = published::footnotes(&reproduction.faults);
    let text =
        format!("{}\n\n{}\n{notes}{faults}", reproduction.title, reproduction.table.terminal(Screen::FILE));
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn terminal(reproduction: &Reproduction, screen: Screen) -> anyhow::Result<String> {
    const PLOT_ROWS: usize = 20;
    let mut shown = format!("{}\n\n{}", screen.fit(reproduction.title), reproduction.table.terminal(screen));
    if let [plot] = &reproduction.plots[..] {
        shown.push('\n');
        let plot = Plot::new(&*plot.title, &plot.curves)?.log_cores(false);
        shown.push_str(&plot.terminal(screen, PLOT_ROWS));
    }
    shown.push('\n');
    for note in &reproduction.notes {
        shown.push_str(&screen.fit(&format!("{note}\n")));
    }
    shown.push_str(&screen.fit(&published::footnotes(&reproduction.faults)));
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::every_screen;

    #[test]
    fn a_figure_on_every_screen() {
        let reproduction = Figure::Fig3.reproduce(Reading::default()).unwrap();
        let text = |screen| terminal(&reproduction, screen).unwrap();
        insta::assert_snapshot!(every_screen(&["FOPS", "MEMPOP", "PFIND", "EXIM"], text));
    }
}
