//! One HTML file that holds tables and plots and needs nothing else.

use crate::text::{html, prefixed};
use crate::{Plot, Table};
use std::fmt::Write;

/// No script, nothing fetched; colours by the reader's choice of light or dark.
const HEAD: &str = "<meta charset=\"utf-8\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
<style>\n\
:root{color-scheme:light dark;--line:#ccc;--soft:#666}\n\
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}\n\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}\n\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}\n\
th,td{padding:.25rem .7rem;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}\n\
td{overflow-wrap:anywhere}th{border-bottom-width:2px}\n\
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n\
svg{max-width:100%;height:auto}summary,footer{color:var(--soft);font-size:.85rem}\n\
@media(prefers-color-scheme:dark){:root{--line:#444;--soft:#999}body{color:#ddd;background:#181818}}\n\
</style>\n";

/// A page under construction: paragraphs, tables and plots in the order in which they are added.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// A page with a title and nothing below it.
    pub fn new(title: &str) -> Self {
        Self { title: html(title), body: String::new() }
    }

    /// Starts a section.
    #[must_use]
    pub fn heading(mut self, heading: &str) -> Self {
        let _ = writeln!(self.body, "<h2>{}</h2>", html(heading));
        self
    }

    /// Adds a paragraph of plain text.
    #[must_use]
    pub fn paragraph(mut self, text: &str) -> Self {
        let _ = writeln!(self.body, "<p>{}</p>", html(text));
        self
    }

    /// Adds a table with every column.
    #[must_use]
    pub fn table(mut self, table: &Table) -> Self {
        let _ = writeln!(self.body, "<div class=\"scroll\">{}</div>", table.html());
        self
    }

    /// Adds a plot, with its values below for whoever wants them exactly or cannot see it.
    #[must_use]
    pub fn plot(mut self, plot: &Plot) -> Self {
        let _ = writeln!(self.body, "<figure>{}</figure>\n{}", plot.svg(), values_of(plot));
        self
    }

    /// The document.
    pub fn html(&self) -> String {
        let Self { title, body } = self;
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n{HEAD}<title>{title}</title>\n</head>\n<body>\n\
             <h1>{title}</h1>\n{body}<footer>Written by contend {version}.</footer>\n</body>\n</html>\n",
            version = env!("CARGO_PKG_VERSION"),
        )
    }
}

/// The points of a plot, one row for each number of cores.
fn values_of(plot: &Plot) -> String {
    let mut cores: Vec<_> =
        plot.curves().iter().flat_map(|curve| curve.points().iter().map(|p| p.cores)).collect();
    cores.sort_unstable();
    cores.dedup();
    let mut values = String::from(
        "<details><summary>Values</summary><div class=\"scroll\"><table><thead><tr><th class=\"n\">cores</th>",
    );
    for curve in plot.curves() {
        let _ = write!(values, "<th class=\"n\">{}, {}</th>", html(&curve.label), curve.provenance);
    }
    values.push_str("</tr></thead><tbody>\n");
    for cores in cores {
        let _ = write!(values, "<tr><td class=\"n\">{cores}</td>");
        for curve in plot.curves() {
            let cell = curve.at(cores).map_or_else(String::new, |point| {
                let value = prefixed(point.value);
                if point.low < point.high {
                    format!("{value} ({} to {})", prefixed(point.low), prefixed(point.high))
                } else {
                    value
                }
            });
            let _ = write!(values, "<td class=\"n\">{cell}</td>");
        }
        values.push_str("</tr>\n");
    }
    values.push_str("</tbody></table></div></details>");
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Column;
    use curve::{Curve, Point, Provenance, Unit};

    const HOSTILE: &str = "<script>alert(1)</script>\" onload='x'&\x1b";

    fn page() -> String {
        let curve = Curve::new(HOSTILE, Unit::Speedup, Provenance::Measured)
            .with_points([Point { cores: 1, value: 1.0, low: 0.5, high: 2.0 }, Point::exact(2, 3.0)])
            .unwrap();
        let mut table = Table::new([Column::text("name", "name"), Column::number("n", "n")]);
        table.row([HOSTILE.into(), 3_u32.into()]);
        let plot = Plot::new(HOSTILE, [&curve]).unwrap();
        Page::new(HOSTILE).heading(HOSTILE).paragraph(HOSTILE).table(&table).plot(&plot).html()
    }

    #[test]
    fn markup_in_names_stays_text() {
        let page = page();
        assert!(!page.contains("<script") && !page.contains("onload='") && !page.contains('\x1b'));
        assert_eq!(page.matches("&lt;script&gt;").count(), page.matches("alert(1)").count());
    }

    #[test]
    fn nothing_is_fetched() {
        let page = page();
        for reference in ["src=", "href=", "url(", "@import", "<link"] {
            assert!(!page.contains(reference), "{reference}");
        }
        assert!(page.contains("1 (0.5 to 2)"));
    }
}
