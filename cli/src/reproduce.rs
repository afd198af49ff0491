//! `contend reproduce`: the paper's model and table against its published numbers.

use crate::arguments::variants;
use crate::output::{own_command_line, print_json};
use crate::progress::{self, BARS};
use anyhow::Context as _;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use model::Variant;
use papers::{FIGURES, Figure, JudgedClaims, Reproduction};
use report::{Cell, Column, Screen, Table};
use session::output_file::OutputFile;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Recompute published figures and say which are met.
///
/// The published numbers travel inside the command (research/papers/published). They have faults; those that bear on a figure are
/// named under it. One number is fitted, c, what one more waiter costs on the paper's machine, to one published row;
/// everything else follows from the model.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "contend reproduce [OPTIONS] FIGURE\n       contend reproduce [OPTIONS] --list\n       contend reproduce [OPTIONS] --native-plan\n       contend reproduce [OPTIONS] --against FILE",
    after_help = "Examples:
  contend reproduce claims                        # what the model meets and misses, row by row
  contend reproduce fig8 --svg pictures           # the collapse, by how often the lock is used
  contend reproduce fig9 --variant formula --json # under formula (1) as printed
  contend reproduce fig3 --html pages             # a page for a browser
  contend reproduce contention                    # the 2014 talk's tables, simulated row by row
  contend reproduce by-source                     # of each source, how many claims are met
  contend reproduce --native-plan                 # what to run on a machine of 48 cores
  contend reproduce --against measured.csv        # what was measured there, judged
  contend reproduce all --svg pictures --output tables"
)]
pub(crate) struct Args {
    /// What to reproduce
    #[arg(value_parser = figures(), required_unless_present_any = ["list", "native_plan", "against"])]
    figure: Option<Asked>,
    /// List the figures
    #[arg(long, conflicts_with_all = ["figure", "svg", "html", "output", "variant"])]
    list: bool,
    /// For each published claim that a benchmark here shows, list the command for real hardware, and what of its output is the
    /// value; left out are inputs, ranges of runs, profiles, fixed back-off, transactions and the curves of lock-study
    #[arg(long, conflicts_with_all = ["figure", "list", "svg", "html", "output", "variant"])]
    native_plan: bool,
    /// Judge values that were measured on real hardware, a file with the columns benchmark, lock, claim and value
    #[arg(long, value_name = "FILE", conflicts_with_all = ["figure", "list", "native_plan", "svg", "html", "output", "variant"])]
    against: Option<PathBuf>,
    /// Print rows and curves as JSON
    #[arg(long)]
    json: bool,
    /// Also draw the curves, each figure into a file FIGURE.svg of this directory
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Also write each figure as a page for a browser, FIGURE.html of this directory
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    /// Also write each table with its notes into this directory, as FIGURE.txt
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The form of the model: the paper writes it in several ways, and c is fitted anew under each. For the figures of the model,
    /// and what counts their claims [default: waiters]
    #[arg(long, value_name = "FORM", value_parser = variants())]
    variant: Option<Variant>,
}

/// The figures that the user wants: one, or all of them.
type Asked = &'static [Figure];

/// What stands for all figures.
const ALL: &str = "all";

fn figures() -> impl TypedValueParser<Value = Asked> {
    let names = FIGURES.iter().map(|figure| PossibleValue::new(figure.name).help(figure.summary));
    let all = PossibleValue::new(ALL).help("All of these");
    PossibleValuesParser::new(names.chain([all])).map(|name| {
        let one = FIGURES.iter().position(|figure| figure.name == name);
        one.map_or(&FIGURES[..], |at| &FIGURES[at..=at])
    })
}

/// Runs `contend reproduce`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { figure: figures, list: _, native_plan, against, json, svg, html, output, variant } = args;
    if let Some(path) = &against {
        let judged = measured(path)?;
        return printed(&judged, &judged.terminal(Screen::stdout())?, json);
    }
    if native_plan {
        // Its commands are to be copied, however wide the terminal is.
        let plan = papers::native::plan()?;
        return printed(&plan, &plan.file_text(), json);
    }
    let Some(figures) = figures else {
        return list(json);
    };
    if let ([only], Some(_)) = (figures, variant) {
        session::ensure_usage!(
            only.has_variants(),
            "--variant is a form of the model, which {} is not computed by: it is for {}",
            only.name,
            FIGURES
                .iter()
                .filter(|one| one.has_variants())
                .map(|one| one.name)
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    let variant = variant.unwrap_or(Variant::Waiters);
    let mut by_name = serde_json::Map::new();
    let mut judged = JudgedClaims::default();
    let mut without_curves = None;
    for figure in figures {
        let reproduction = figure.reproduce(variant, &BARS, &mut judged)?;
        if let Some(directory) = &html {
            let page = reproduction.page()?.made_by(&own_command_line()).html();
            write(directory, &format!("{}.html", figure.name), &page)?;
        }
        if let Some(directory) = &output {
            write(directory, &format!("{}.txt", figure.name), &reproduction.file_text())?;
        }
        if json {
            by_name.insert(figure.name.to_owned(), reproduction.json());
        } else {
            println!("{}", reproduction.terminal(Screen::stdout())?);
        }
        if let Some(directory) = &svg {
            without_curves = reproduction.plots.is_empty().then_some(figure.name);
            write_svgs(&reproduction, directory, figure.name)?;
        }
    }
    if json {
        let printed = match (figures, by_name.values().next()) {
            ([_], Some(only)) => only.clone(),
            _ => serde_json::Value::Object(by_name),
        };
        print_json(&printed)?;
    }
    if let ([_], Some(name)) = (figures, without_curves) {
        progress::warn(&[format!("{name} is a table: it has no curves for --svg to draw")]);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the rows as JSON, or this text.
fn printed(reproduction: &Reproduction, text: &str, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        print_json(&reproduction.table.json())?;
    } else {
        println!("{}", text.trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

/// A file of measured values, judged.
fn measured(path: &Path) -> anyhow::Result<Reproduction> {
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    papers::native::against(file).with_context(|| format!("{}", path.display()))
}

/// Lists the figures.
fn list(json: bool) -> anyhow::Result<ExitCode> {
    let mut table = Table::new([Column::text("name", "name"), Column::text("summary", "what it is").kept()]);
    FIGURES.iter().for_each(|figure| table.row([figure.name, figure.summary].map(Cell::from)));
    if json {
        print_json(&table.json())?;
    } else {
        print!("{}", table.terminal(Screen::stdout()));
    }
    Ok(ExitCode::SUCCESS)
}

fn write_svgs(reproduction: &Reproduction, directory: &Path, name: &str) -> anyhow::Result<()> {
    reproduction.svgs(name)?.iter().try_for_each(|(file, svg)| write(directory, file, svg))
}

fn write(directory: &Path, file: &str, text: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    OutputFile::at(&directory.join(file))?.write(text)
}
