//! Open files: each event is one, on each core.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Missing;

/// Files that the rest of this process may have open.
const OTHERS: usize = 256;

/// The limit before this process raised it.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Lets this process have so many more open files, if it may. Programs that it starts are to have [`before`] again.
///
/// # Errors
///
/// There may not be so many: what `wanted_by` is watched with them on so many cores.
pub fn allow(events: usize, wanted_by: impl FnOnce() -> String, cores: usize) -> Result<(), Missing> {
    let files = events + OTHERS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < files as u64) {
        if let Some(limit) = limit.maximum.filter(|&maximum| maximum < files as u64) {
            return Err(Missing::Files { wanted_by: wanted_by(), cores, files, limit });
        }
        let _ = BEFORE.set(limit);
        limit.current = limit.maximum;
        // Refused, the events tell how many files there may be.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    Ok(())
}

/// The limit that this process was started with, if it has raised it.
pub fn before() -> Option<Rlimit> {
    BEFORE.get().copied()
}
