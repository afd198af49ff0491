//! One HTML file that holds tables and plots and needs nothing else.
//!
//! Its style and its script are files of their own, beside this one. The page allows them by their hashes and nothing else, so
//! that nothing is fetched and nothing that a name may hold is run. A page with sliders allows its script to run WebAssembly as well:
//! the model, which the page holds.

mod bars;
mod timeline;

pub use bars::Bar;

use crate::plot::svg;
use crate::table::{PageCell, PageColumn};
use crate::text::{counted, grouped, html, prefixed, printable, time};
use crate::{Plot, RangePlot, Table};
use base64::Engine as _;
use profile::Times;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::fmt::Write;

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");
/// The model as WebAssembly, which `build.rs` makes of its sources; empty where it could not.
const MODULE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/what-if.wasm"));

/// What a page says instead of its sliders.
const WITHOUT_MODULE: &str = "This contend was built without the sliders of this page: they want its feature `full` and Rust's target \
     wasm32-unknown-unknown (`rustup target add`). `contend predict --what-if CHANGE` answers the same questions.";

/// What a page says in the place of its sliders until its script has them.
const WITHOUT_WEBASSEMBLY: &str = "The sliders of this page are missing: this browser does not run its script, or no WebAssembly. \
     <code>contend predict --what-if CHANGE</code> answers the same questions.";

/// Rows of a table that readers without scripts see.
const WITHOUT_SCRIPT: usize = 100;

/// A page under construction: paragraphs, tables and plots in the order in which they are added.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    body: String,
    made_by: Option<String>,
    parts: usize,
    asks_module: bool,
    /// The plot that sliders are asked in: its figure, and what its script draws it from.
    asked_in: Option<(String, String)>,
}

/// What a row of [`Page::rows`] unfolds to, below the figures of its columns.
#[derive(Debug, Default)]
pub struct Unfolded<'a> {
    /// Distributions under their names; those without a single duration are left out.
    pub times: Vec<(String, &'a Times)>,
    /// Lists under their names, such as a stack; empty ones are left out.
    pub lists: Vec<(String, Vec<String>)>,
    /// What no column says.
    pub facts: Vec<(&'static str, String)>,
}

impl Page {
    /// A page with a title and nothing below it.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            body: String::new(),
            made_by: None,
            parts: 0,
            asks_module: false,
            asked_in: None,
        }
    }

    /// Says at the end which command made it.
    #[must_use]
    pub fn made_by(self, command: &str) -> Self {
        Self { made_by: Some(name(command)), ..self }
    }

    /// Starts a section.
    #[must_use]
    pub fn heading(mut self, heading: &str) -> Self {
        let _ = writeln!(self.body, "<h2>{}</h2>", name(heading));
        self
    }

    /// Adds a paragraph of plain text for each line.
    #[must_use]
    pub fn paragraphs(mut self, text: &str) -> Self {
        for line in text.lines().filter(|line| !line.is_empty()) {
            let _ = writeln!(self.body, "<p>{}</p>", name(line));
        }
        self
    }

    /// Adds what is to be known before the page is believed.
    #[must_use]
    pub fn warning(mut self, text: &str) -> Self {
        let _ = writeln!(self.body, "<p class=\"warning\">Warning: {}</p>", name(text));
        self
    }

    /// Adds a table with every column.
    #[must_use]
    pub fn table(mut self, table: &Table) -> Self {
        let _ = writeln!(self.body, "{}", scrolled(&table.without_silent_columns().html()));
        self
    }

    /// Adds a section with a table that can have thousands of rows. Its reader sorts them, filters them by the names in the first
    /// column and by these columns, and unfolds each to all of its columns and what is given here for it.
    ///
    /// # Panics
    ///
    /// When there is not one of `unfolded` for each row, or when a filter is for a column that is not there.
    #[must_use]
    pub fn rows<'a>(
        mut self,
        heading: &str,
        table: &Table,
        filters: &[Filter],
        unfolded: impl IntoIterator<Item = Unfolded<'a>>,
    ) -> Self {
        let table = table.without_silent_columns();
        let unfolded: Vec<_> = unfolded.into_iter().collect();
        assert_eq!(unfolded.len(), table.len(), "each row unfolds");
        let mut lists = Lists::default();
        let rows = table.page_rows().zip(&unfolded);
        let rows = rows.map(|(cells, unfolded)| RowData::new(cells, unfolded, &mut lists)).collect();
        let data = TableData { columns: table.page_columns(), rows, lists: lists.all, filters };
        assert!(
            filters.iter().all(|(key, _)| data.columns.iter().any(|column| column.key() == *key)),
            "a filter has a column"
        );
        let id = self.next_id();
        let _ = writeln!(
            self.body,
            "<section class=\"rows\" aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{heading}</h2>\n\
             <noscript>{first}</noscript>\n\
             <script type=\"application/json\">{data}</script>\n</section>",
            heading = name(heading),
            first = first_rows(&table),
            data = json(&data),
        );
        self
    }

    /// Adds a plot, over a linear and over a logarithmic axis of cores, with its values below for a user who wants them exactly
    /// or cannot see it.
    #[must_use]
    pub fn plot(mut self, plot: &Plot) -> Self {
        let id = self.next_id();
        let mut controls = String::new();
        let mut pictures = String::new();
        for (axis, log) in [("linear", false), ("logarithmic", true)] {
            let checked = if plot.is_log() == log { " checked" } else { "" };
            let _ = write!(
                controls,
                "<label><input type=\"radio\" name=\"{id}\" class=\"{axis}\"{checked}> {axis}</label>"
            );
            let svg = plot.clone().log_cores(log).svg_without_legend();
            let _ = writeln!(pictures, "<div class=\"scroll {axis}\">{svg}</div>");
        }
        if let Some(to_draw) = plot.to_draw() {
            self.asked_in = Some((id.clone(), json(&to_draw)));
        }
        let _ = writeln!(
            self.body,
            "<figure class=\"plot\" id=\"{id}\">\n<fieldset><legend>Axis of {axis}:</legend>{controls}</fieldset>\n{pictures}{legend}\
             <figcaption>A ring marks the peak of a curve, a cross the first point where it has collapsed, that is, \
             where it is under {share} of the peak.</figcaption>\n{values}\n</figure>",
            axis = html(plot.axis_name()),
            legend = plot.html_legend(),
            share = curve::COLLAPSE_SHARE,
            values = values_of(plot),
        );
        self
    }

    /// Adds a plot of medians and ranges, one for wide and one for narrow screens.
    #[must_use]
    pub fn ranges(mut self, plot: &RangePlot) -> Self {
        let _ = writeln!(
            self.body,
            "<figure class=\"ranges\"><div class=\"wide\">{}</div><div class=\"narrow\">{}</div></figure>",
            plot.svg(),
            plot.narrow_svg(),
        );
        self
    }

    /// Adds sliders, whose changes the model answers in the page, in the last plot that has a baseline; and what is said in their place
    /// where the browser runs no scripts or no WebAssembly. `sliders` are those of `what_if`. A build without the module says so instead.
    #[must_use]
    pub fn what_if(mut self, sliders: &impl Serialize) -> Self {
        if MODULE.is_empty() {
            return self.heading("What if").paragraphs(WITHOUT_MODULE);
        }
        let id = self.next_id();
        let plot = self.asked_in.as_ref().map(|(figure, plot)| {
            format!("<script type=\"application/json\" data-figure=\"{figure}\">{plot}</script>\n")
        });
        self.asks_module = true;
        let _ = writeln!(
            self.body,
            "<section class=\"what-if\" aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">What if</h2>\n\
             <p class=\"missing\">{WITHOUT_WEBASSEMBLY}</p>\n\
             <script type=\"application/json\">{sliders}</script>\n{plot}\
             <script type=\"application/wasm\">{module}</script>\n</section>",
            sliders = json(sliders),
            plot = plot.unwrap_or_default(),
            module = base64::engine::general_purpose::STANDARD.encode(MODULE),
        );
        self
    }

    fn next_id(&mut self) -> String {
        self.parts += 1;
        format!("part{}", self.parts)
    }

    /// The document.
    pub fn html(&self) -> String {
        let Self { title, body, made_by, .. } = self;
        let version = env!("CARGO_PKG_VERSION");
        let footer = match made_by {
            Some(command) => format!("Written by contend {version}: <code>{command}</code>"),
            None => format!("Written by contend {version}."),
        };
        let module = if self.asks_module { " 'wasm-unsafe-eval'" } else { "" };
        let policy = format!(
            "default-src 'none'; script-src {}{module}; style-src {} {}; base-uri 'none'; form-action 'none'; \
             require-trusted-types-for 'script'",
            source_hash(SCRIPT),
            source_hash(STYLE),
            source_hash(svg::STYLE),
        );
        format!(
            include_str!("page/page.html"),
            policy = policy,
            title = html(title),
            heading = name(title),
            style = STYLE,
            body = body,
            footer = footer,
            script = SCRIPT,
        )
    }
}

/// What readers without scripts see of a table.
fn first_rows(table: &Table) -> String {
    let more = match table.len().saturating_sub(WITHOUT_SCRIPT) {
        0 => String::new(),
        more => format!("<p>The rest, {}, is shown with scripts.</p>", counted(more as u64, "row")),
    };
    format!("{}{more}", scrolled(&table.first(WITHOUT_SCRIPT).html()))
}

/// A table that is scrolled where it is wider than the page, by keys too.
fn scrolled(table: &str) -> String {
    format!("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\">{table}</div>")
}

/// A name or a path as HTML, which browsers break behind `::` and `/`.
pub(crate) fn name(name: &str) -> String {
    html(name).replace("::", "::<wbr>").replace('/', "/<wbr>")
}

/// How a policy names a text that it allows.
fn source_hash(text: &str) -> String {
    format!("'sha256-{}'", base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text)))
}

/// JSON that an element `script` can hold: a `<` could end the element.
fn json(data: &impl Serialize) -> String {
    let json = serde_json::to_string(data).expect("it is JSON: its keys are text");
    json.replace('<', "\\u003c")
}

/// A table as the page's script takes it.
#[derive(Serialize)]
struct TableData<'a> {
    columns: Vec<PageColumn>,
    rows: Vec<RowData>,
    lists: Vec<ListData>,
    filters: &'a [Filter],
}

/// A column that rows are filtered by: its key, and what the choice is called.
type Filter = (&'static str, &'static str);

#[derive(Serialize)]
struct RowData {
    cells: Vec<PageCell>,
    times: Vec<TimesData>,
    /// By their places among the lists of the table.
    lists: Vec<usize>,
    facts: Vec<(&'static str, String)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
struct ListData {
    name: String,
    lines: Vec<String>,
}

/// Lists, each once: thousands of locks are made by the same calls.
#[derive(Default)]
struct Lists {
    all: Vec<ListData>,
    places: HashMap<ListData, usize>,
}

impl Lists {
    fn place(&mut self, list: ListData) -> usize {
        *self.places.entry(list).or_insert_with_key(|list| {
            self.all.push(list.clone());
            self.all.len() - 1
        })
    }
}

#[derive(Serialize)]
struct TimesData {
    name: String,
    summary: String,
    /// From, to, how many, and the first two as they are shown.
    buckets: Vec<(f64, f64, u64, String)>,
}

impl RowData {
    fn new(cells: Vec<PageCell>, unfolded: &Unfolded<'_>, known: &mut Lists) -> Self {
        let times = unfolded.times.iter().filter(|(_, times)| times.count > 0);
        let lists = unfolded.lists.iter().filter(|(_, lines)| !lines.is_empty());
        let list = |(name, lines): &(String, Vec<String>)| ListData {
            name: printable(name),
            lines: lines.iter().map(|line| printable(line)).collect(),
        };
        Self {
            cells,
            times: times.map(|(name, times)| TimesData::new(name, times)).collect(),
            lists: lists.map(|one| known.place(list(one))).collect(),
            facts: unfolded.facts.iter().map(|(name, fact)| (*name, printable(fact))).collect(),
        }
    }
}

impl TimesData {
    fn new(name: &str, times: &Times) -> Self {
        let mean = match times.bound_ns() {
            Some(bound) => format!("below {}", time(bound)),
            None => time(times.mean_ns().unwrap_or(0.0)),
        };
        let mut summary =
            format!("{} timed, {} in all; mean {mean}", grouped(times.count), time(times.total_ns));
        match (times.quantile_ns(0.5), times.quantile_ns(0.99)) {
            (Some(half), Some(most)) => {
                let _ = write!(summary, ", half up to {}, 99 % up to {}.", time(half), time(most));
            }
            _ => summary.push_str(". So few keep no distribution."),
        }
        let buckets = times.buckets.iter().map(|bucket| {
            let label = format!("{} to {}", time(bucket.from_ns), time(bucket.to_ns));
            (bucket.from_ns, bucket.to_ns, bucket.count, label)
        });
        Self { name: printable(name), summary, buckets: buckets.collect() }
    }
}

/// The points of a plot, one row for each place on the lower axis.
fn values_of(plot: &Plot) -> String {
    let mut cores: Vec<_> =
        plot.curves().iter().flat_map(|curve| curve.points().iter().map(|p| p.cores)).collect();
    cores.sort_unstable();
    cores.dedup();
    let mut values = format!("<table><thead><tr><th class=\"n\">{}</th>", html(plot.axis_name()));
    for curve in plot.curves() {
        let _ = write!(values, "<th class=\"n\">{}, {}</th>", name(&curve.label), curve.provenance);
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
    values.push_str("</tbody></table>");
    format!("<details class=\"values\"><summary>Values</summary>{}</details>", scrolled(&values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Better, Column, Spread};
    use curve::{Curve, Point, Provenance, Unit};
    use profile::read::Bucket;
    use std::path::Path;

    const HOSTILE: &str = "</script><!--<script>alert(1)</script>\" onload='x'&{title}\u{202e}\x1b";

    fn page() -> String {
        let curve = Curve::new(HOSTILE, Unit::Speedup, Provenance::Measured)
            .with_points([Point { cores: 1, value: 1.0, low: 0.5, high: 2.0 }, Point::exact(2, 3.0)])
            .unwrap();
        let mut table = Table::new([Column::text("name", "name"), Column::number("n", "n")]);
        table.row([HOSTILE.into(), 1_234.5.into()]);
        table.row([HOSTILE.into(), crate::Cell::Missing]);
        let plot = Plot::new(HOSTILE, [&curve]).unwrap();
        let mut ranges = RangePlot::new(HOSTILE, HOSTILE, Better::Lower);
        ranges.row(HOSTILE, Some(Spread { low: 1.0, median: 2.0, high: 3.0 }));
        let bucket = Bucket { from_ns: 10.0, to_ns: 20.0, count: 3 };
        let times = Times { count: 3, total_ns: 45.0, buckets: vec![bucket], ..Times::default() };
        let unfolded = || Unfolded {
            times: vec![(HOSTILE.into(), &times)],
            lists: vec![(HOSTILE.into(), vec![HOSTILE.into()]), ("empty".into(), Vec::new())],
            facts: vec![("fact", HOSTILE.into())],
        };
        Page::new(HOSTILE)
            .made_by(HOSTILE)
            .heading(HOSTILE)
            .paragraphs(HOSTILE)
            .warning(HOSTILE)
            .table(&table)
            .rows(HOSTILE, &table, &[("name", "names")], [unfolded(), unfolded()])
            .plot(&plot)
            .ranges(&ranges)
            .html()
    }

    /// What lies between two marks, for each time that the first one comes.
    fn between<'a>(page: &'a str, from: &str, to: &str) -> Vec<&'a str> {
        page.split(from).skip(1).map(|behind| behind.split_once(to).expect("an end").0).collect()
    }

    #[test]
    fn the_values_of_a_plot_are_headed_as_its_axis_is() {
        let curve = Curve::new("a", Unit::Speedup, Provenance::Measured);
        let curve = curve.with_points([Point::exact(1, 1.0)]).unwrap();
        let plot = Plot::new("t", [&curve]).unwrap().axis("threads");
        assert!(values_of(&plot).contains(">threads</th>"));
    }

    #[test]
    fn markup_in_names_stays_text() {
        let page = page();
        let scripts = between(&page, "<script", "</script>");
        let markup = page.replace(scripts[0], "");
        assert!(!markup.contains("onload='"));
        assert!(!page.contains(['\x1b', '\u{202e}']) && !page.contains("<!--"));
        assert_eq!(scripts.len(), 2, "the rows and the page's own");
        assert!(scripts[0].starts_with(" type=\"application/json\">") && !scripts[0][1..].contains('<'));
        assert_eq!(scripts[1], format!(">{SCRIPT}"));
        assert!(page.contains("{title}"), "a name is no part of the template");
    }

    #[test]
    fn the_rows_are_json_with_what_is_shown_and_what_it_is_sorted_by() {
        let page = page();
        let data: serde_json::Value =
            serde_json::from_str(between(&page, "<script type=\"application/json\">", "</script>")[0])
                .unwrap();
        let [row, other] = [0, 1].map(|row| &data["rows"][row]);
        assert_eq!(row["cells"], serde_json::json!([printable(HOSTILE), ["1,235", 1234.5]]));
        assert!(other["cells"][1].is_null());
        assert_eq!(row["times"][0]["buckets"], serde_json::json!([[10.0, 20.0, 3, "10.0 ns to 20.0 ns"]]));
        let summary = "3 timed, 45.0 ns in all; mean 15.0 ns, half up to 15.0 ns, 99 % up to 19.9 ns.";
        assert_eq!(row["times"][0]["summary"], summary);
        assert_eq!(
            data["lists"].as_array().unwrap().len(),
            1,
            "an empty list says nothing, and each is there once"
        );
        assert_eq!((&row["lists"], &other["lists"]), (&serde_json::json!([0]), &serde_json::json!([0])));
        assert_eq!(data["columns"][0]["kept"], true);
    }

    #[test]
    fn nothing_is_fetched() {
        let page = page();
        for reference in ["src=", "href=", "url(", "@import", "<link", " style=", "eval(", "innerHTML"] {
            assert!(!page.contains(reference), "{reference}");
        }
        assert!(page.contains("1 (0.5 to 2)"));
    }

    #[test]
    fn the_policy_allows_what_is_in_the_page_by_its_hash() {
        let page = page();
        let policy = between(&page, "Content-Security-Policy\" content=\"", "\"")[0];
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
        let styles = between(&page, "<style>", "</style>");
        assert_eq!(styles.len(), 5, "the page's, and one of each picture");
        let scripts = between(&page, "<script>", "</script>");
        for allowed in styles.iter().chain(&scripts) {
            assert!(policy.contains(&source_hash(allowed)), "{policy}");
        }
        // As `printf abc | openssl dgst -sha256 -binary | base64` has it.
        assert_eq!(source_hash("abc"), "'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='");
    }

    #[test]
    fn sliders_are_said_to_be_missing_until_the_script_finds_webassembly_which_the_policy_allows() {
        let page = Page::new("t").what_if(&serde_json::json!({ "site": HOSTILE })).html();
        if MODULE.is_empty() {
            let target = Path::new(env!("WASM_LIBRARY"));
            assert!(
                !cfg!(feature = "sliders") || !target.exists(),
                "{} is there, but the module was not compiled",
                target.display()
            );
            assert!(page.contains("--what-if") && !page.contains("wasm-unsafe-eval"), "{page}");
            return println!("skipped: the sliders, as the feature or {} is missing", target.display());
        }
        assert!(between(&page, "<p class=\"missing\">", "</p>")[0].contains("--what-if"), "{page}");
        let policy = between(&page, "Content-Security-Policy\" content=\"", "\"")[0];
        assert!(policy.contains(" 'wasm-unsafe-eval'; ") && !policy.contains("'unsafe-"), "{policy}");
        let data = between(&page, "<script type=\"application/json\">", "</script>")[0];
        assert_eq!(serde_json::from_str::<serde_json::Value>(data).unwrap()["site"], HOSTILE);
        let module = between(&page, "<script type=\"application/wasm\">", "</script>")[0];
        let module = base64::engine::general_purpose::STANDARD.decode(module).unwrap();
        assert!(module.starts_with(b"\0asm"), "{} bytes", module.len());
    }

    #[test]
    fn sliders_are_asked_in_the_plot_of_the_page_if_it_has_a_baseline_and_counts_speedups() {
        let plot_of = |unit: Unit, is_bold: bool| {
            let curve = Curve::new("a", unit, Provenance::Simulated);
            let curve = curve.with_points([Point::exact(1, 1.0), Point::exact(2, 1.5)]).unwrap();
            let plot = Plot::new("t", [&curve]).unwrap().axis("threads");
            let plot = if is_bold { plot.bold_first() } else { plot };
            Page::new("t").plot(&plot).what_if(&serde_json::json!({})).html()
        };
        let asked = "data-figure=\"part1\">";
        for (unit, is_bold) in [(Unit::Speedup, false), (Unit::OperationsPerSecond, true)] {
            assert!(!plot_of(unit, is_bold).contains(asked));
        }
        let page = plot_of(Unit::Speedup, true);
        assert!(page.contains("<figure class=\"plot\" id=\"part1\">"), "{page}");
        if MODULE.is_empty() {
            return println!("skipped: the sliders, as the module is missing");
        }
        let data: serde_json::Value = serde_json::from_str(between(&page, asked, "</script>")[0]).unwrap();
        assert_eq!((&data["axis"], &data["curves"][0]["label"]), (&"threads".into(), &"a".into()));
        let look = &data["looks"][0];
        assert_eq!(
            (&look["colour"], &look["width"], &look["dashes"]),
            (&"#0072b2".into(), &4.into(), &"6 6".into())
        );
    }

    #[test]
    fn readers_without_scripts_see_the_first_rows() {
        let mut table = Table::new([Column::text("name", "name")]);
        (0..250).for_each(|row| table.row([format!("lock {row}").into()]));
        let rows = table.len();
        let page = Page::new("t").rows("Locks", &table, &[], (0..rows).map(|_| Unfolded::default())).html();
        let static_part = between(&page, "<noscript>", "</noscript>")[0];
        assert!(static_part.contains(">lock 99<") && !static_part.contains(">lock 100<"));
        assert!(static_part.contains("The rest, 150 rows,"));
        assert!(first_rows(&table.first(WITHOUT_SCRIPT + 1)).contains("The rest, 1 row, is"));
    }
}
