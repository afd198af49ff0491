//! Debug information: from an address to the functions inlined there, and their lines; and to the member of a variable.
//!
//! All files are opened by [`files::open`], since a profile, or the debug information of a program, names them; and what was
//! opened is read through that descriptor, never by its name again.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::gimli::{self, EndianSlice, RunTimeEndian};
use addr2line::{Context, LookupResult, SplitDwarfLoad};
use memmap2::Mmap;
use object::{CompressionFormat, Object, ObjectSection};
use typed_arena::Arena;

use super::closures::{CLOSURE, Closures, Scope};
use super::files;
use super::members::{Budget, Member, Members};

/// Bytes of all files that are read rather than mapped and of all sections that are unpacked. A profile may name any number of
/// them; what is beyond has no symbols.
const MOST: u64 = 128 << 20;

/// Where debug information lies apart from programs and libraries, by build identifier.
const SEPARATE: &str = "/usr/lib/debug/.build-id";

pub(super) type Reader<'f> = EndianSlice<'f, RunTimeEndian>;

/// The contents of files that were opened, for as long as something refers to them.
pub(super) struct Contents {
    files: Arena<Content>,
    unpacked: Arena<Vec<u8>>,
    /// Bytes that may still be read or unpacked.
    left: Cell<u64>,
    budget: Budget,
}

impl Default for Contents {
    fn default() -> Self {
        Self {
            files: Arena::default(),
            unpacked: Arena::default(),
            left: Cell::new(MOST),
            budget: Budget::default(),
        }
    }
}

enum Content {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl Content {
    /// A mapping ends the process that reads it when the file is cut short meanwhile. So files of strangers are read instead.
    /// What is read is taken from `left`, and is nothing if it is longer.
    fn of(file: &File, left: &Cell<u64>) -> Option<Self> {
        let data = file.metadata().ok()?;
        // SAFETY: no pointers are passed.
        let own = unsafe { libc::geteuid() };
        if data.uid() == 0 || data.uid() == own {
            // SAFETY: the file belongs to the reader or to root, who would only harm themselves by cutting it short.
            return unsafe { Mmap::map(file) }.ok().map(Self::Mapped);
        }
        if data.len() > left.get() {
            return None;
        }
        let mut bytes = Vec::with_capacity(data.len() as usize);
        std::io::Read::read_to_end(&mut std::io::Read::take(file, data.len()), &mut bytes).ok()?;
        left.set(left.get() - bytes.len() as u64);
        Some(Self::Read(bytes))
    }
}

impl Contents {
    /// The bytes of an open file.
    pub(super) fn keep(&self, file: &File) -> Option<&[u8]> {
        Some(match self.files.alloc(Content::of(file, &self.left)?) {
            Content::Mapped(map) => map,
            Content::Read(bytes) => bytes,
        })
    }

    fn open<'f>(&'f self, path: &Path) -> Option<object::File<'f>> {
        object::File::parse(self.keep(&files::open(path)?)?).ok()
    }

    fn section<'f>(
        &'f self,
        file: &object::File<'f>,
        name: Option<&'static str>,
    ) -> Result<Reader<'f>, gimli::Error> {
        let section = name.and_then(|name| file.section_by_name(name));
        let data = section.and_then(|section| {
            let packed = section.compressed_data().ok()?;
            let is_packed = packed.format != CompressionFormat::None;
            if is_packed && packed.uncompressed_size > self.left.get() {
                return None;
            }
            Some(match packed.decompress().ok()? {
                Cow::Borrowed(data) => data,
                Cow::Owned(data) => {
                    self.left.set(self.left.get().saturating_sub(data.len() as u64));
                    self.unpacked.alloc(data)
                }
            })
        });
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        Ok(EndianSlice::new(data.unwrap_or_default(), endian))
    }
}

/// A function at an address.
pub(super) struct Inlined {
    /// As the compiler calls it.
    pub(super) symbol: String,
    /// What it is in, if the compiler calls it no more than a closure.
    pub(super) scope: Option<Scope>,
    /// Its place in the source: file and line.
    pub(super) place: Option<(String, u32)>,
}

/// The debug information of a program or library.
pub(super) struct DebugInfo<'f> {
    contents: &'f Contents,
    dwarf: Arc<gimli::Dwarf<Reader<'f>>>,
    context: Context<Reader<'f>>,
    members: OnceCell<Members<'f>>,
    closures: Closures,
    /// What compilers left in other files (split DWARF), packed into one.
    package: Option<gimli::DwarfPackage<Reader<'f>>>,
}

impl<'f> DebugInfo<'f> {
    /// What a file has, or a separate one with its build identifier. `path` is where the file was found.
    pub(super) fn of(contents: &'f Contents, file: &object::File<'f>, path: &Path) -> Option<Self> {
        let separate = if file.section_by_name(".debug_info").is_none() {
            file.build_id().ok().flatten().and_then(|id| separate(contents, Path::new(SEPARATE), id))
        } else {
            None
        };
        let file = separate.as_ref().unwrap_or(file);
        let mut dwarf = gimli::Dwarf::load(|id| contents.section(file, Some(id.name()))).ok()?;
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let dwarf = Arc::new(dwarf);
        let context = Context::from_arc_dwarf(Arc::clone(&dwarf)).ok()?;
        let mut packed = path.as_os_str().to_owned();
        packed.push(".dwp");
        let package = contents.open(Path::new(&packed)).and_then(|file| {
            let empty = EndianSlice::new(&[][..], RunTimeEndian::Little);
            gimli::DwarfPackage::load(|id| contents.section(&file, id.dwo_name()), empty).ok()
        });
        Some(Self {
            contents,
            dwarf,
            context,
            members: OnceCell::new(),
            closures: Closures::default(),
            package,
        })
    }

    /// The member that lies at an offset of a variable, which starts at an address of the file and has a name, and is as large as a lock
    /// of `lock` bytes. None if nothing is known, or if the variable is no more than a lock.
    pub(super) fn member(&self, variable: (u64, &str), offset: u64, lock: u64) -> Option<Member> {
        let members = self.members.get_or_init(|| Members::of(&self.dwarf, &self.contents.budget));
        members.find(&self.dwarf, variable, offset, lock)
    }

    /// The functions at an address of the file, the innermost inlined one first; empty if nothing is known.
    pub(super) fn functions(&self, address: u64) -> Vec<Inlined> {
        let mut found = Vec::new();
        let mut lookup = self.context.find_frames(address);
        let frames = loop {
            match lookup {
                LookupResult::Output(frames) => break frames,
                LookupResult::Load { load, continuation } => {
                    lookup = addr2line::LookupContinuation::resume(continuation, self.split(&load));
                }
            }
        };
        let Ok(mut frames) = frames else { return found };
        while let Ok(Some(frame)) = frames.next() {
            let Some(symbol) = frame.function.as_ref().and_then(|name| name.raw_name().ok()) else {
                continue;
            };
            let place = frame.location.as_ref().and_then(|location| {
                let file = location.file.as_ref()?;
                Some((file.to_string(), location.line.unwrap_or(0)))
            });
            let scope = (symbol == CLOSURE)
                .then(|| self.closures.scope(self.unit(address)?, frame.dw_die_offset?))
                .flatten();
            found.push(Inlined { symbol: symbol.into_owned(), scope, place });
        }
        found
    }

    /// The unit of an address whose functions have been looked for, so that it is loaded.
    fn unit(&self, address: u64) -> Option<gimli::UnitRef<'_, Reader<'f>>> {
        self.context.find_dwarf_and_unit(address).skip_all_loads()
    }

    /// A unit of debug information that the compiler left in another file.
    fn split(&self, load: &SplitDwarfLoad<Reader<'f>>) -> Option<Arc<gimli::Dwarf<Reader<'f>>>> {
        let packed =
            self.package.as_ref().and_then(|package| package.find_cu(load.dwo_id, &load.parent).ok());
        if let Some(unit) = packed.flatten() {
            return Some(Arc::new(unit));
        }
        let part = |bytes: &Reader<'f>| PathBuf::from(OsStr::from_bytes(bytes.slice()));
        let directory = load.comp_dir.as_ref().map(part).unwrap_or_default();
        let file = self.contents.open(&directory.join(part(load.path.as_ref()?)))?;
        let mut dwarf = gimli::Dwarf::load(|id| self.contents.section(&file, id.dwo_name())).ok()?;
        let header = dwarf.units().next().ok()??;
        let unit = dwarf.unit(header).ok()?;
        (unit.dwo_id == Some(load.dwo_id)).then(|| {
            dwarf.make_dwo(&load.parent);
            Arc::new(dwarf)
        })
    }
}

/// The separate file with the debug information of what has this build identifier.
fn separate<'f>(contents: &'f Contents, directory: &Path, id: &[u8]) -> Option<object::File<'f>> {
    let (first, rest) = id.split_first()?;
    let digits: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let file = contents.open(&directory.join(format!("{first:02x}/{digits}.debug")))?;
    (file.build_id().ok().flatten() == Some(id)).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri changes no owners")]
    fn all_files_of_strangers_together_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sparse");
        let file = File::create_new(&path).unwrap();
        file.set_len(MOST / 2).unwrap();
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
            return; // only root has files of strangers to give
        }
        let contents = Contents::default();
        let lengths = || contents.keep(&File::open(&path).unwrap()).map(|bytes| bytes.len() as u64);
        assert_eq!([(); 4].map(|()| lengths()), [Some(MOST / 2), Some(MOST / 2), None, None]);
        file.set_len(0).unwrap();
        assert_eq!(lengths(), Some(0));
    }
}
