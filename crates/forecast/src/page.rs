//! A prediction as a page for a browser.

use crate::belief::Belief;
use crate::other_locks::{Together, others_table};
use crate::twin::Twin;
use crate::{Engines, Forecast};
use report::{Page, Screen};

impl Forecast {
    /// Curves, tables and remarks, as [`Forecast::terminal`] has them.
    ///
    /// # Errors
    ///
    /// As [`Forecast::plot`].
    pub fn page(&self) -> anyhow::Result<Page> {
        let plot = self.plot()?;
        let mut page = Page::new(plot.title()).paragraphs(&self.lock.heading(&self.machine, Screen::FILE));
        page = page.paragraphs(&self.advice_lines().join("\n"));
        for warning in &self.warnings {
            page = page.warning(warning);
        }
        if !plot.curves().is_empty() {
            page = page.heading("Curves").plot(&plot);
        }
        let with_chain = self.engines != Engines::Twin;
        if with_chain {
            page = page.heading("By the Markov chain").table(&self.lock.table(&self.target, "lock"));
            page = page.paragraphs(&self.lock.remarks(&self.machine, &self.target));
        }
        if let Some(sliders) = &self.sliders {
            page = page.what_if(sliders);
        }
        if let Some(twin) = &self.twin {
            page = page.heading("By the twin, on the simulated machine").table(&twin.table());
        }
        let remarks =
            self.beliefs.iter().map(Belief::terminal).chain(self.twin.iter().flat_map(Twin::remarks));
        page = page.paragraphs(&remarks.collect::<Vec<_>>().join("\n"));
        if !self.others.is_empty() {
            page = page.heading("The other locks").table(&others_table(&self.others));
        }
        let together = self.together.as_ref().map(Together::terminal).unwrap_or_default();
        Ok(page.paragraphs(&together))
    }
}
