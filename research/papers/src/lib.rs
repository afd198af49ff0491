//! Published figures recomputed: what papers and talks about scalable locks print, against the model and the simulator.
//!
//! [`Figure::reproduce`] gives a table with verdicts, curves and the known faults of the source. The published numbers
//! travel inside this crate (`published`); each row names where it stands.

mod against_model;
mod by_source;
mod claims;
mod contention;
mod exim_mounts;
mod figures;
mod fixed_back_off;
mod fserver;
mod futex_hash;
mod kernel_changes;
mod lock_cost;
mod lock_study;
pub mod native;
mod paper;
pub mod published;
mod relief;
mod seeds;
mod simulated;
mod sleeping;
mod stability;
mod think_time;
mod transactions;
pub mod verdict;

use curve::Series;
use model::Variant;
use published::Fault;
use report::{Page, Plot, Screen, Table};
use session::progress::Progress;
use std::collections::BTreeMap;
use verdict::Score;

/// How a figure is computed.
#[derive(Debug, Clone, Copy)]
enum How {
    /// By the model, under a variant of it, under which a fitted c is fitted anew.
    Model(fn(Variant) -> anyhow::Result<Reproduction>),
    /// By simulation.
    Simulated(fn(&dyn Progress) -> anyhow::Result<Reproduction>),
    /// From published curves alone.
    Published(fn() -> anyhow::Result<Reproduction>),
    /// From the judged claims of all other figures.
    BySource,
}

/// What is reproduced.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// The name that a user writes.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    how: How,
    /// Its claims are counted by source.
    is_judged: bool,
}

/// Everything that is reproduced.
pub static FIGURES: [Figure; 25] = [
    Figure {
        name: "fig3",
        summary: "Critical sections of four benchmarks on one core, recomputed from their own rows",
        how: How::Model(figures::fig3),
        is_judged: false,
    },
    Figure {
        name: "fig8",
        summary: "The model's curves by think time",
        how: How::Model(figures::fig8),
        is_judged: false,
    },
    Figure {
        name: "fig9",
        summary: "The model's curves by the length of the section, at one share of the time",
        how: How::Model(figures::fig9),
        is_judged: false,
    },
    Figure {
        name: "claims",
        summary: "Every claim of collapse_claims.csv: met or missed by the model, and by how much",
        how: How::Model(claims::reproduce),
        is_judged: true,
    },
    Figure {
        name: "fig2",
        summary: "The ticket lock in four benchmarks, simulated",
        how: How::Simulated(simulated::fig2),
        is_judged: true,
    },
    Figure {
        name: "fig10",
        summary: "Locks around 4 shared lines, simulated",
        how: How::Simulated(simulated::fig10),
        is_judged: true,
    },
    Figure {
        name: "fig11",
        summary: "Cycles to acquire and release a lock, of an atomic increment, and of the queued lock's release, simulated",
        how: How::Simulated(lock_cost::lock_cost),
        is_judged: true,
    },
    Figure {
        name: "fig12",
        summary: "The ticket lock and MCS in four benchmarks, simulated",
        how: How::Simulated(simulated::fig12),
        is_judged: true,
    },
    Figure {
        name: "contention",
        summary: "Every row of the 2014 talk's contention tables, simulated",
        how: How::Simulated(contention::contention),
        is_judged: true,
    },
    Figure {
        name: "model",
        summary: "Figs. 8 and 9 simulated, against the model with the simulator's own c",
        how: How::Simulated(against_model::figs_8_and_9),
        is_judged: false,
    },
    Figure {
        name: "self-tuning",
        summary: "Back-off that tunes itself, simulated",
        how: How::Simulated(stability::self_tuning),
        is_judged: false,
    },
    Figure {
        name: "fixed-back-off",
        summary: "Fixed constants of back-off on few and on many cores, simulated",
        how: How::Simulated(fixed_back_off::fixed_back_off),
        is_judged: true,
    },
    Figure {
        name: "retries",
        summary: "Coherence traffic of the ticket lock against MCS, simulated",
        how: How::Simulated(fserver::retries),
        is_judged: false,
    },
    Figure {
        name: "aim7",
        summary: "AIM7 fserver before and after its open files' lock became MCS, with its other locks, and its mixes with back-off, simulated",
        how: How::Simulated(fserver::aim7),
        is_judged: true,
    },
    Figure {
        name: "kernel-changes",
        summary: "lockref and the queued reader-writer lock against what they replaced, simulated",
        how: How::Simulated(kernel_changes::kernel_changes),
        is_judged: true,
    },
    Figure {
        name: "exim-mounts",
        summary: "Exim's collapse from 40 to 48 cores at the mount table's lock, with the published profile's think time, simulated",
        how: How::Simulated(exim_mounts::exim_mounts),
        is_judged: true,
    },
    Figure {
        name: "batching",
        summary: "Exim's sections one by one and in batches, simulated",
        how: How::Simulated(relief::batching),
        is_judged: false,
    },
    Figure {
        name: "next-lock",
        summary: "Two locks in series, of which the first is relieved, simulated",
        how: How::Simulated(relief::next_lock),
        is_judged: false,
    },
    Figure {
        name: "instability",
        summary: "Short and long runs near the collapse, simulated",
        how: How::Simulated(stability::instability),
        is_judged: false,
    },
    Figure {
        name: "sleeping",
        summary: "Linux's rw_semaphore without and with stealing and spinning, and a mutex in its place, simulated",
        how: How::Simulated(sleeping::sleeping),
        is_judged: true,
    },
    Figure {
        name: "tm",
        summary: "Sections as transactions: a microkernel's messages, counters, look-ups, simulated",
        how: How::Simulated(transactions::tm),
        is_judged: true,
    },
    Figure {
        name: "end-to-end",
        summary: "A prediction for 48 simulated cores from a profile of two",
        how: How::Simulated(against_model::end_to_end),
        is_judged: false,
    },
    Figure {
        name: "futex-hash",
        summary: "Waits and wake-ups in tables of few and of many buckets, simulated",
        how: How::Simulated(futex_hash::futex_hash),
        is_judged: true,
    },
    Figure {
        name: "lock-study",
        summary: "Curves of forty programs under 28 locks, cut short and extrapolated",
        how: How::Published(lock_study::lock_study),
        is_judged: false,
    },
    Figure {
        name: "by-source",
        summary: "All judged claims, counted by source: met, met as printed, missed, and what is believed to be lacking",
        how: How::BySource,
        is_judged: false,
    },
];

impl Figure {
    /// The figure of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// Computes it; a fitted c is fitted anew under the variant of the model. `judged` has the claims of the figures that were
    /// computed before, so that none is computed twice.
    ///
    /// # Errors
    ///
    /// A published file that is wrong, or a simulation that stopped.
    pub fn reproduce(
        &self,
        variant: Variant,
        progress: &dyn Progress,
        judged: &mut JudgedClaims,
    ) -> anyhow::Result<Reproduction> {
        let mut reproduction = match self.how {
            How::Model(compute) => compute(variant)?,
            How::Simulated(compute) => compute(progress)?,
            How::Published(compute) => compute()?,
            How::BySource => {
                for figure in &FIGURES {
                    if figure.is_judged && !judged.0.contains_key(figure.name) {
                        figure.reproduce(variant, progress, judged)?;
                    }
                }
                let of_figure = |figure: &Figure| judged.0.get(figure.name).into_iter().flatten();
                by_source::by_source(&FIGURES.iter().flat_map(of_figure).cloned().collect::<Vec<_>>())
            }
        };
        reproduction.variant = self.has_variants().then_some(variant);
        if self.is_judged {
            judged.0.insert(self.name, reproduction.scores.clone());
        }
        Ok(reproduction)
    }

    /// Whether the model's variant changes it.
    pub fn has_variants(&self) -> bool {
        matches!(self.how, How::Model(_) | How::BySource)
    }
}

/// The claims that figures have judged so far, by the figure's name.
#[derive(Debug, Default)]
pub struct JudgedClaims(BTreeMap<&'static str, Vec<Score>>);

/// One reproduced figure.
#[derive(Debug)]
pub struct Reproduction {
    /// What it is, in one line.
    pub title: &'static str,
    /// The variant of the model that it is of, if it is the model's.
    pub variant: Option<Variant>,
    /// Published beside computed, with verdicts.
    pub table: Table,
    /// One plot each; none for a mere table.
    pub plots: Vec<Series>,
    /// What a reader has to know.
    pub notes: Vec<String>,
    /// Known faults of the source that bear on it.
    pub faults: Vec<Fault>,
    /// The claims that its rows judge.
    pub scores: Vec<Score>,
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
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "title": self.title,
            "variant": self.variant.map(Variant::name),
            "form": self.variant.map(Variant::form),
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
        figure
            .reproduce(Variant::default(), &Unwatched, &mut JudgedClaims::default())
            .expect("its data are right")
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
