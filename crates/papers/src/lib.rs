//! Published figures recomputed: what papers and talks about scalable locks print, against the model and the simulator.
//!
//! [`Figure::reproduce`] gives a table with verdicts, curves and the known faults of the source. The published numbers
//! travel inside this crate (`published`); each row names where it stands.

mod against_model;
mod claims;
mod contention;
mod figures;
mod lock_study;
mod paper;
pub mod published;
mod simulated;
mod stability;

use curve::Series;
use lab::progress::Progress;
use model::Reading;
use published::Fault;
use report::Table;

/// What is reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Critical sections of four benchmarks on one core, recomputed from their own rows.
    Fig3,
    /// The model's curves by think time.
    Fig8,
    /// The model's curves by the length of the section, at one share of the time.
    Fig9,
    /// Every claim of `collapse_claims.csv`: met or missed by the model, and by how much.
    Claims,
    /// The ticket lock in four benchmarks, simulated.
    Fig2,
    /// Locks around 4 shared lines, simulated.
    Fig10,
    /// The ticket lock and MCS in four benchmarks, simulated.
    Fig12,
    /// Every row of the 2014 talk's contention tables, simulated.
    Contention,
    /// Figs. 8 and 9 simulated, against the model with the simulator's own c.
    Model,
    /// Back-off that tunes itself, simulated.
    SelfTuning,
    /// Coherence traffic of the ticket lock against MCS, simulated.
    Retries,
    /// Short and long runs near the collapse, simulated.
    Instability,
    /// A prediction for 48 simulated cores from a profile of two.
    EndToEnd,
    /// Curves of forty programs under 28 locks, cut short and extrapolated.
    LockStudy,
}

impl Figure {
    /// Computes it; a fitted c is fitted anew under the variant of the model.
    ///
    /// # Errors
    ///
    /// A published file that is wrong, or a simulation that stopped.
    pub fn reproduce(self, reading: Reading, progress: &dyn Progress) -> anyhow::Result<Reproduction> {
        match self {
            Self::Fig3 => figures::fig3(reading),
            Self::Fig8 => figures::fig8(reading),
            Self::Fig9 => figures::fig9(reading),
            Self::Claims => claims::reproduce(reading),
            Self::Fig2 => simulated::benchmarks(false, progress),
            Self::Fig10 => simulated::fig10(progress),
            Self::Fig12 => simulated::benchmarks(true, progress),
            Self::Contention => contention::contention(progress),
            Self::Model => against_model::figs_8_and_9(progress),
            Self::SelfTuning => stability::self_tuning(progress),
            Self::Retries => stability::retries(progress),
            Self::Instability => stability::instability(progress),
            Self::EndToEnd => against_model::end_to_end(progress),
            Self::LockStudy => lock_study::lock_study(),
        }
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
    /// Everything for a script.
    pub fn json(&self, reading: Reading) -> serde_json::Value {
        serde_json::json!({
            "title": self.title,
            "reading": reading.name(),
            "form": reading.form(),
            "rows": self.table.json(),
            "plots": self.plots,
            "notes": self.notes,
            "faults": self.faults.iter().map(|fault| {
                serde_json::json!({ "number": fault.number(), "text": fault.text() })
            }).collect::<Vec<_>>(),
        })
    }
}
