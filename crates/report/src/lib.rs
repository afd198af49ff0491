//! Tables, plots and pages from curves and profiles.
//!
//! A command builds its rows once, as a [`Table`], and prints them for a [`Screen`], as JSON objects or as CSV. Curves
//! go into a [`Plot`], drawn for a terminal or as SVG. A [`Page`] holds both in one HTML file that needs nothing else.
//! [`lock_table`] and [`differences`] make the tables of a profile and of two.
//! Whatever text comes in may have been chosen by a stranger (names out of a profile): none of the outputs lets it
//! act as terminal control or markup.
//!
//! ```
//! use contend_report::{Column, Plot, Screen, Spread, Table};
//! use curve::{Curve, Point, Provenance, Unit};
//!
//! let mut table = Table::new([Column::text("lock", "lock"), Column::spread("section_ns", "section ns")]);
//! table.row(["cache".into(), Spread { low: 90.0, median: 104.0, high: 210.0 }.into()]);
//! assert!(table.terminal(Screen::wide(80)).contains("104 (90.0 to 210)"));
//! assert_eq!(table.json()[0]["lock"], "cache");
//!
//! let points = [Point::exact(1, 1.0), Point::exact(2, 1.8), Point::exact(4, 1.2)];
//! let curve = Curve::new("cache", Unit::Speedup, Provenance::Measured).with_points(points).unwrap();
//! let plot = Plot::new("The cache on more cores", [&curve]).expect("one unit");
//! assert!(plot.svg().contains("collapsed from 4"));
//! ```

pub mod call_sites;
pub mod differences;
pub mod every_screen;
pub mod lock_table;
pub mod longest_waits;
pub mod map;
pub mod page;
pub mod plot;
pub mod ranges;
pub mod runtime_waits;
pub mod screen;
pub mod table;
mod verdict;

pub use curve::text;
pub use every_screen::every_screen;
pub use map::CellMap;
pub use page::Page;
pub use plot::{IncomparableUnits, Plot};
pub use ranges::{Better, RangePlot};
pub use screen::Screen;
pub use table::{Cell, Column, Spread, Table};
