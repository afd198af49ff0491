//! Reading a profile: finished, live, or left behind by a program that was killed.

mod at_end;
mod blocked;
mod call_sites;
mod closures;
mod container;
mod debug_info;
mod diff;
mod export;
pub mod files;
mod gil;
mod kernel;
pub mod live;
mod lock_names;
mod mappings;
mod members;
pub mod merged;
mod names;
mod rows;
pub mod running;
mod runtime;
mod stacks;
mod striped;
mod symbols;
mod table;
mod timeline;
mod times;
mod together;
mod warnings;
mod while_held;
mod wrappers;

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use at_end::{AtEnd, AtEndThread, Unended};
pub use blocked::{Blocked, Coverage, Observed, Unseen};
pub use container::{CallerRecord, LockRecord, PairRecord, Section, StackRecord, WaitRecord};
pub use diff::{Change, Diff, KernelChange, KernelMeasures, Measures, SiteChange, SiteMeasures};
pub use export::{Sample, to_folded, to_otel, to_pprof, to_trace};
pub use gil::Gil;
pub use kernel::{KernelCalls, KernelReleaser, KernelRow, KernelTable, kernel_lock_kind};
pub use mappings::{Mapping, Mappings};
pub use names::printable;
pub use runtime::{Runtime, RuntimeError, RuntimeRow, RuntimeWaits};
pub use stacks::{Call, Module, SourceLine};
pub use striped::Striped;
pub use table::{
    Attached, LockHolder, LockId, LockKind, LockRow, LockTable, Options, OwnCost, SiteStack, SiteUse,
    TableHeader, Untouched, Usage, WITHOUT_A_CORE, Within,
};
pub use timeline::{Behind, LockSite, SingleHold, SingleWait, ThreadId, Timeline};
pub use times::{Bucket, Times};
pub use while_held::WhileHeld;

use crate::format::{HeaderValues, RunValues, TaskValues};

/// Between the moment at which a recorder counts a block as given out and the one at which the file has grown over it, and the block's
/// header is written.
const GROWTH_TAKES: Duration = Duration::from_millis(50);

/// Why a file cannot be read as a profile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file itself cannot be read.
    #[error("cannot read the profile {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file does not begin as a profile does.
    #[error(
        "{} is not a profile: it does not begin with the mark of one; profiles are made by `contend profile -o FILE -- CMD`",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// There is no file of the name, but something that is read once: a profile is read in many places.
    #[error("{} is a pipe or a device: a profile is read from a file; save it first", path.display())]
    NoFile {
        /// The pipe.
        path: PathBuf,
    },
    /// The file is a runtime's own account of its locks.
    #[error(
        "{} is {}, which `contend report` shows: nothing else reads it; profiles are made by `contend profile -o FILE -- CMD`",
        path.display(),
        match runtime {
            Runtime::Go => "packed as a profile of Go's own",
            Runtime::Java => "a recording of Java's Flight Recorder",
        }
    )]
    OfRuntime {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        runtime: Runtime,
    },
    /// The file holds several profiles.
    #[error(
        "{} is several profiles that were merged, which `contend report`, `diff`, `gate` and `predict` read: name one of those that were merged",
        path.display()
    )]
    Merged {
        /// The file.
        path: PathBuf,
    },
    /// The file is of a version that this reader does not know.
    #[error(
        "{} is a profile of version {version}, and this contend reads version {}: use the contend that made it, or a newer one",
        path.display(), crate::format::VERSION
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// The file ends too early.
    #[error(
        "{} is truncated: it ends at byte {length}, and its header says that {allocated} bytes were written; copy it again",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// How long it is, bytes.
        length: u64,
        /// How long it should be at least, bytes.
        allocated: u64,
    },
    /// Another profile was appended to it, as by `cat`.
    #[error(
        "{} has another profile behind it, from byte {offset} on: profiles are added up where each is a file of its own, by \
         `contend report A B` or `contend merge A B`",
        path.display()
    )]
    Appended {
        /// The file.
        path: PathBuf,
        /// Where the other one begins.
        offset: u64,
    },
    /// A program that was watched from outside has no acquisitions to follow.
    #[error(
        "{} has waits only, as of `contend attach` or of a static program: `contend report` shows it, while it is written too",
        path.display()
    )]
    Attached {
        /// The file.
        path: PathBuf,
    },
    /// Something in the file contradicts itself.
    #[error("{} is damaged at byte {offset}: {what}; record it again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
}

/// A profile, read and checked.
#[derive(Clone, Debug)]
pub struct Profile {
    path: PathBuf,
    pub(crate) header: HeaderValues,
    pub(crate) sections: Vec<Section>,
    pub(crate) run: Option<RunValues>,
    pub(crate) tasks: Vec<TaskValues>,
    pub(crate) kernel: Option<container::KernelRecords>,
}

impl Profile {
    /// Reads a profile file. The programs that write it may still be running.
    ///
    /// # Errors
    /// [`Error`], naming the file and the place in it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        // A pipe is not waited for: it is no profile.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let no_file = || Error::NoFile { path: path.to_owned() };
        let file = file.map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound if path == Path::new("-") => no_file(),
            _ => Error::Unreadable { path: path.to_owned(), source },
        })?;
        if file.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir()) {
            return Err(no_file());
        }
        Self::read(&file, path).map_err(|error| match (error, RuntimeWaits::whose(path)) {
            (Error::Foreign { path }, Some(runtime)) => Error::OfRuntime { path, runtime },
            (Error::Foreign { path }, None) if merged::is_merged(&path) => Error::Merged { path },
            (error, _) => error,
        })
    }

    /// Reads a profile from an open file; `path` only names it in errors.
    ///
    /// # Errors
    /// [`Error`], as [`Profile::open`].
    pub fn read(file: &File, path: &Path) -> Result<Self, Error> {
        let read = || container::parse(path, file);
        match read() {
            // A program that records may be about to let the file grow, or to write the header of a block.
            Err(Error::Truncated { .. } | Error::Damaged { .. }) => {
                std::thread::sleep(GROWTH_TAKES);
                read()
            }
            other => other,
        }
    }

    /// Reads a profile from bytes; `path` only names it in errors.
    ///
    /// # Errors
    /// [`Error`], as [`Profile::open`].
    pub fn parse(path: impl AsRef<Path>, bytes: &[u8]) -> Result<Self, Error> {
        container::parse(path.as_ref(), &bytes)
    }

    /// The file that was read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the program was attached to while it ran, and nothing recorded it from inside.
    pub fn is_attached(&self) -> bool {
        !self.sections.is_empty() && self.sections.iter().all(Section::is_watched)
    }

    /// Whether the program of a section has become another one since, as far as build identifiers tell.
    pub fn is_replaced(&self, section: &Section) -> bool {
        let contents = debug_info::Contents::default();
        symbols::Symbols::new(Some(&contents)).is_replaced(section)
    }

    /// One section for each process image, in the order in which they started.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The lock table. Reads the programs' files for the names.
    pub fn table(&self, options: &Options) -> LockTable {
        rows::build(self, options)
    }

    /// Whether the longest waits were kept one by one, so that [`Profile::timeline`] has any.
    pub fn keeps_waits(&self) -> bool {
        self.header.longest_waits > 0
    }

    /// The longest waits one by one, of a profile that keeps them. `table` is [`Profile::table`]'s, for the names of locks. Reads the
    /// programs' files if `symbols` says so.
    pub fn timeline(&self, table: &LockTable, symbols: bool) -> Timeline {
        Timeline::of(self, table, symbols)
    }

    /// Nanoseconds that a tick of the recording machine takes, from the longest stretch that both clocks span.
    ///
    /// 1 if the file holds no two readings of the clocks: then ticks are reported as they are.
    pub fn ns_per_tick(&self) -> f64 {
        let of_header = (
            self.header.clock_last_ticks.saturating_sub(self.header.clock_first_ticks),
            self.header.clock_last_ns.saturating_sub(self.header.clock_first_ns),
        );
        let of_section = |section: &Section| {
            let p = &section.process;
            (
                p.clock_last_ticks.saturating_sub(p.clock_first_ticks),
                p.clock_last_ns.saturating_sub(p.clock_first_ns),
            )
        };
        self.sections
            .iter()
            .map(of_section)
            .chain([of_header])
            .filter(|&(ticks, ns)| ticks > 0 && ns > 0)
            .max_by_key(|&(_, ns)| ns)
            .map_or(1.0, |(ticks, ns)| ns as f64 / ticks as f64)
    }
}
