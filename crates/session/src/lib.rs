//! What every long command needs around its work, without an argument parser and without a terminal.
//!
//! - [`progress`] tells the caller how far a measurement is, and [`interrupt`] tells the measurement that the user wants it to end;
//! - [`signals`] is what both the handlers and the launcher are made of;
//! - [`noise`] says what else the machine did meanwhile, [`host`] which machine it is, and [`placement`] in which order its cores are taken;
//! - [`capabilities`] that a command has by its file and does not need are given up;
//! - [`threads`] that the system refuses are errors;
//! - [`seeds`] are those of simulations that are repeated;
//! - [`names`] answers an unknown name with the nearest known ones, as a [`usage`] error;
//! - [`output_file`] is a file that is whole or not there, and [`scratch`] a folder that is gone afterwards, as [`in_use`] tells.

pub mod capabilities;
pub mod host;
pub mod in_use;
pub mod interrupt;
pub mod names;
pub mod noise;
pub mod output_file;
pub mod placement;
pub mod progress;
pub mod scratch;
pub mod seeds;
pub mod signals;
pub mod threads;
pub mod usage;
