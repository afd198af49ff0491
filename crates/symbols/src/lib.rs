//! What the symbol of a function or variable says: its name as it is printed, and whether it only wraps locking.
//!
//! | module        | what is there                                                                    |
//! |---------------|----------------------------------------------------------------------------------|
//! | [`symbol`]    | the name of a function or variable as it is printed, from its symbol in C or C++ |
//! | `rust_symbol` | the same from a symbol in Rust's mangling of today                               |
//! | [`wrapper`]   | which functions only wrap locking, so that their callers say more                |
//!
//! Nothing here allocates or depends on anything: the preload library calls it inside lock functions.
#![no_std]

#[cfg(test)]
extern crate std;

mod rust_symbol;
pub mod symbol;
pub mod wrapper;
