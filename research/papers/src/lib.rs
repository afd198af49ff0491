//! Published figures recomputed: what papers and talks about scalable locks print, against the model and the simulator.
//!
//! [`Figure::reproduce`] gives a table with verdicts, curves and the known faults of the source. The published numbers
//! travel inside this crate (`published`); each row names where it stands.

mod against_model;
mod claims;
mod contention;
mod figures;
mod fserver;
mod futex_hash;
mod lock_study;
mod paper;
pub mod published;
mod relief;
mod simulated;
mod sleeping;
mod stability;
mod transactions;

use curve::Series;
use model::Variant;
use published::Fault;
use report::{Page, Plot, Screen, Table};
use session::progress::Progress;

/// Computes a figure; a fitted c is fitted anew under the variant of the model.
type Compute = fn(Variant, &dyn Progress) -> anyhow::Result<Reproduction>;

/// What is reproduced.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// The name that a user writes.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    compute: Compute,
}

/// Everything that is reproduced.
pub static FIGURES: [Figure; 21] = [
    Figure {
        name: "fig3",
        summary: "Critical sections of four benchmarks on one core, recomputed from their own rows",
        compute: |variant, _| figures::fig3(variant),
    },
    Figure {
        name: "fig8",
        summary: "The model's curves by think time",
        compute: |variant, _| figures::fig8(variant),
    },
    Figure {
        name: "fig9",
        summary: "The model's curves by the length of the section, at one share of the time",
        compute: |variant, _| figures::fig9(variant),
    },
    Figure {
        name: "claims",
        summary: "Every claim of collapse_claims.csv: met or missed by the model, and by how much",
        compute: |variant, _| claims::reproduce(variant),
    },
    Figure {
        name: "fig2",
        summary: "The ticket lock in four benchmarks, simulated",
        compute: |_, progress| simulated::benchmarks(false, progress),
    },
    Figure {
        name: "fig10",
        summary: "Locks around 4 shared lines, simulated",
        compute: |_, progress| simulated::fig10(progress),
    },
    Figure {
        name: "fig12",
        summary: "The ticket lock and MCS in four benchmarks, simulated",
        compute: |_, progress| simulated::benchmarks(true, progress),
    },
    Figure {
        name: "contention",
        summary: "Every row of the 2014 talk's contention tables, simulated",
        compute: |_, progress| contention::contention(progress),
    },
    Figure {
        name: "model",
        summary: "Figs. 8 and 9 simulated, against the model with the simulator's own c",
        compute: |_, progress| against_model::figs_8_and_9(progress),
    },
    Figure {
        name: "self-tuning",
        summary: "Back-off that tunes itself, simulated",
        compute: |_, progress| stability::self_tuning(progress),
    },
    Figure {
        name: "retries",
        summary: "Coherence traffic of the ticket lock against MCS, simulated",
        compute: |_, progress| fserver::retries(progress),
    },
    Figure {
        name: "aim7",
        summary: "AIM7 fserver before and after its open files' lock became MCS, with its other locks, and its mixes with back-off, simulated",
        compute: |_, progress| fserver::aim7(progress),
    },
    Figure {
        name: "batching",
        summary: "Exim's sections one by one and in batches, simulated",
        compute: |_, progress| relief::batching(progress),
    },
    Figure {
        name: "next-lock",
        summary: "Two locks in series, of which the first is relieved, simulated",
        compute: |_, progress| relief::next_lock(progress),
    },
    Figure {
        name: "instability",
        summary: "Short and long runs near the collapse, simulated",
        compute: |_, progress| stability::instability(progress),
    },
    Figure {
        name: "sleeping",
        summary: "Linux's rw_semaphore without and with stealing and spinning, and a mutex in its place, simulated",
        compute: |_, progress| sleeping::sleeping(progress),
    },
    Figure {
        name: "tm",
        summary: "Sections as transactions: a microkernel's messages, counters, look-ups, simulated",
        compute: |_, progress| transactions::tm(progress),
    },
    Figure {
        name: "end-to-end",
        summary: "A prediction for 48 simulated cores from a profile of two",
        compute: |_, progress| against_model::end_to_end(progress),
    },
    Figure {
        name: "futex-hash",
        summary: "Waits and wake-ups in tables of few and of many buckets, simulated",
        compute: |_, progress| futex_hash::futex_hash(progress),
    },
    Figure {
        name: "lock-study",
        summary: "Curves of forty programs under 28 locks, cut short and extrapolated",
        compute: |_, _| lock_study::lock_study(),
    },
    Figure {
        name: "across-locks",
        summary: "The other locks in the same programs, from glibc's curve alone",
        compute: |_, _| lock_study::across_locks(),
    },
];

impl Figure {
    /// The figure of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// Computes it; a fitted c is fitted anew under the variant of the model.
    ///
    /// # Errors
    ///
    /// A published file that is wrong, or a simulation that stopped.
    pub fn reproduce(&self, variant: Variant, progress: &dyn Progress) -> anyhow::Result<Reproduction> {
        (self.compute)(variant, progress)
    }
}

/// One reproduced figure.
#[derive(Debug)]
pub struct Reproduction {
    /// What it is, in one line.
    pub title: &'static str,
    /// Published beside computed, with verdicts.
    pub table: Table,
    /// One plot each; none for a mere table.
    pub plots: Vec<Series>,
    /// What a reader has to know.
    pub notes: Vec<String>,
    /// Known faults of the source that bear on it.
    pub faults: Vec<Fault>,
}

impl Reproduction {
    /// Title, table, the plot if there is just one, notes and faults, for people.
    ///
    /// # Errors
    ///
    /// Curves of several units.
    pub fn terminal(&self, screen: Screen) -> anyhow::Result<String> {
        const PLOT_ROWS: usize = 20;
        let mut shown = format!("{}\n\n{}", screen.fit(self.title), self.table.terminal(screen));
        if let [plot] = &self.plots[..] {
            shown.push('\n');
            shown.push_str(&drawn(plot)?.terminal(screen, PLOT_ROWS));
        }
        shown.push('\n');
        for note in &self.notes {
            shown.push_str(&screen.fit(&format!("{note}\n")));
        }
        shown.push_str(&screen.fit(&published::footnotes(&self.faults)));
        Ok(shown)
    }

    /// The same for a file, without the plot.
    pub fn file_text(&self) -> String {
        let notes = self.notes.iter().map(|note| format!("{note}\n")).collect::<String>();
        let faults = published::footnotes(&self.faults);
        format!("{}\n\n{}\n{notes}{faults}", self.title, self.table.terminal(Screen::FILE))
    }

    /// Plots, verdict, table and faults for a browser.
    ///
    /// # Errors
    ///
    /// Curves of several units.
    pub fn page(&self) -> anyhow::Result<Page> {
        let mut page = Page::new(self.title);
        for series in &self.plots {
            if series.title != self.title {
                page = page.heading(&series.title);
            }
            page = page.plot(&drawn(series)?);
        }
        let (verdict, notes) = self.notes.split_at(self.notes.len().min(1));
        page = page.paragraphs(&verdict.concat()).table(&self.table);
        Ok(page.paragraphs(&notes.join("\n")).paragraphs(&published::footnotes(&self.faults)))
    }

    /// Each plot as SVG with the name of its file: `name.svg`, or `name-TITLE.svg` where there are several.
    ///
    /// # Errors
    ///
    /// Curves of several units.
    pub fn svgs(&self, name: &str) -> anyhow::Result<Vec<(String, String)>> {
        let svg = |plot: &Series| {
            let file = match self.plots.len() {
                1 => format!("{name}.svg"),
                _ => format!("{name}-{}.svg", plot.title.to_lowercase().replace([' ', ','], "-")),
            };
            Ok((file, drawn(plot)?.svg()))
        };
        self.plots.iter().map(svg).collect()
    }

    /// Everything for a script.
    pub fn json(&self, variant: Variant) -> serde_json::Value {
        serde_json::json!({
            "title": self.title,
            "variant": variant.name(),
            "form": variant.form(),
            "rows": self.table.json(),
            "plots": self.plots,
            "notes": self.notes,
            "faults": self.faults.iter().map(|fault| {
                serde_json::json!({ "number": fault.number(), "text": fault.text() })
            }).collect::<Vec<_>>(),
        })
    }
}

fn drawn(plot: &Series) -> anyhow::Result<Plot> {
    let drawn = Plot::new(&*plot.title, &plot.curves)?;
    Ok(match &plot.axis {
        None => drawn.log_cores(false),
        Some(axis) => drawn.axis(axis),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::every_screen;
    use session::progress::Unwatched;

    fn fig3() -> Reproduction {
        let figure = Figure::find("fig3").expect("a figure");
        figure.reproduce(Variant::default(), &Unwatched).expect("its data are right")
    }

    #[test]
    fn a_figure_on_every_screen() {
        let reproduction = fig3();
        let text = |screen| reproduction.terminal(screen).expect("one unit");
        insta::assert_snapshot!(every_screen(&["FOPS", "MEMPOP", "PFIND", "EXIM"], text));
    }

    #[test]
    fn several_plots_have_a_file_each() {
        let series = |title: &str| Series::new(title);
        let names = |plots| {
            let svgs = Reproduction { plots, ..fig3() }.svgs("x").expect("one unit");
            svgs.into_iter().map(|(file, _)| file).collect::<Vec<_>>()
        };
        assert_eq!(names(vec![series("Any title")]), ["x.svg"]);
        assert_eq!(names(vec![series("A B"), series("C, D")]), ["x-a-b.svg", "x-c--d.svg"]);
    }
}
