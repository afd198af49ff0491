//! Loads of the running kernel, as the field measures kernels with.
//!
//! - [`aim7`]: AIM7's job mixes, by users;
//! - [`exim`]: a mail server that delivers, in namespaces of its own;
//! - [`kernel`]: FOPS, MEMPOP and PFIND, which load the kernel's locks for files, memory and directories;
//! - [`futex`]: the running kernel's futexes, as `perf bench futex` loads them.

pub mod aim7;
pub mod exim;
pub mod futex;
pub mod kernel;
mod stage;

/// One round of a load: that its threads cannot be started is an error of its row.
fn caught<T>(round: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    session::threads::or_refused(round)
        .unwrap_or_else(|refused| Err(std::io::Error::other(refused.to_string())))
}
