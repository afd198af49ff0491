//! Tables, plots and pages from curves and profiles.
//!
//! A command builds its rows once, as a [`Table`], and prints them for a [`Screen`], as JSON objects or as CSV. Curves
//! go into a [`Plot`], drawn for a terminal or as SVG. A [`Page`] holds both in one HTML file that needs nothing else.
//! Whatever text comes in may have been chosen by a stranger (names out of a profile): none of the outputs lets it
//! act as terminal control or markup.

pub mod page;
pub mod plot;
pub mod ranges;
pub mod screen;
pub mod table;
pub mod text;

pub use page::Page;
pub use plot::{IncomparableUnits, Plot};
pub use ranges::{Better, RangePlot};
pub use screen::Screen;
pub use table::{Cell, Column, Spread, Table};
