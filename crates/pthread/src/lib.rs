//! What the preload library, the profile and the command agree on.
//!
//! | module          | what is there                                                                          |
//! |-----------------|----------------------------------------------------------------------------------------|
//! | [`object`]      | kinds of pthread object, their sizes, what lies where in them                          |
//! | [`support`]     | which kinds a lock can replace, and with what help                                |
//! | [`environment`] | the variables by which the command tells the preload library what to do                |
//! | [`request`]     | how a lock is asked for by name                                                         |
//! | [`site`]        | how a lock is named: by its variable, or by the function and the stack that made it    |
//!
//! Nothing here allocates, and it depends on `symbols` alone, which does not either: the preload library calls it inside lock functions.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod environment;
pub mod object;
pub mod request;
pub mod site;
pub mod support;
