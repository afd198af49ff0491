//! Several profiles in one file: those of a fleet, or of the intervals of a server.
//!
//! Each is there whole, packed, under its name, and they are added up when the file is read. So nothing is lost that a single one
//! has, a merged file is merged with others, and processes and intervals of one recording are told apart from those of another.
//!
//! ```text
//! offset 0   MAGIC, 8 bytes
//! then for each profile
//!            length of its name in bytes, 4 bytes; its length packed, 8 bytes; its name; the profile, packed by gzip
//! ```
//!
//! Numbers are little-endian.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use flate2::Compression;
use flate2::read::{GzDecoder, GzEncoder};

use super::names::printable_up_to;
use super::{Error, LockTable, Options, Profile, files};

/// The first eight bytes of a merged file. Its last byte leaves room for other versions.
const MAGIC: [u8; 8] = *b"\x89cntmrg1";

/// Bytes of a profile that is merged: a reader has it in memory.
const LONGEST: u64 = 1 << 30;
/// Bytes of a name, which is a path.
const LONGEST_NAME: usize = 4_096;

/// Whether the file begins as merged profiles do.
pub fn is_merged(path: &Path) -> bool {
    files::open(path).is_some_and(|file| begins(&file))
}

/// The same of an open file.
pub(crate) fn begins(file: &File) -> bool {
    let mut begin = [0; MAGIC.len()];
    file.read_exact_at(&mut begin, 0).is_ok() && begin == MAGIC
}

/// The profiles of a file, with their names: those that were merged there, or the one that the file is.
///
/// # Errors
/// [`Error`], as [`Profile::open`]; or the merged file is damaged. `take` returns one for what it does not want.
pub fn for_each(
    path: &Path,
    mut take: impl FnMut(String, Profile) -> Result<(), Error>,
) -> Result<(), Error> {
    if !is_merged(path) {
        return take(path.display().to_string(), Profile::open(path)?);
    }
    let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    file.read_exact(&mut [0; MAGIC.len()]).map_err(unreadable)?;
    while let Some((name, packed)) = next(&mut file).map_err(unreadable)? {
        let name = printable_up_to(LONGEST_NAME, &String::from_utf8_lossy(&name));
        let bytes = unpacked(&packed).map_err(unreadable)?;
        let profile = Profile::parse(path.with_file_name(&name), &bytes)?;
        take(name, profile)?;
    }
    Ok(())
}

/// The name of the next profile and the profile, packed; `None` at the end.
fn next(file: &mut impl Read) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let damaged = || io::Error::other("it is damaged: merge the profiles again");
    let mut head = [0; 12];
    match file.read(&mut head)? {
        0 => return Ok(None),
        read => file.read_exact(&mut head[read..]).map_err(|_| damaged())?,
    }
    let (name_length, packed_length) = head.split_at(4);
    let name_length = u32::from_le_bytes(name_length.try_into().expect("four bytes")) as usize;
    let packed_length = u64::from_le_bytes(packed_length.try_into().expect("eight bytes"));
    if name_length > LONGEST_NAME || packed_length > 2 * LONGEST {
        return Err(damaged());
    }
    let mut bytes = Vec::new();
    let wanted = name_length as u64 + packed_length;
    file.take(wanted).read_to_end(&mut bytes)?; // grows by what is there, whatever the length says
    if (bytes.len() as u64) < wanted {
        return Err(damaged());
    }
    let packed = bytes.split_off(name_length);
    Ok(Some((bytes, packed)))
}

fn unpacked(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(too_long());
    }
    Ok(bytes)
}

fn too_long() -> io::Error {
    io::Error::other(format!("it is longer than {} MB, which is too much to merge", LONGEST >> 20))
}

/// Writes merged profiles one after another, each once.
#[derive(Debug)]
pub struct Merging<W> {
    to: W,
    /// Lengths and hashes of those that are there, packed.
    written: HashSet<(usize, u64)>,
}

impl<W: Write> Merging<W> {
    /// Begins with none.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(mut to: W) -> io::Result<Self> {
        to.write_all(&MAGIC)?;
        Ok(Self { to, written: HashSet::new() })
    }

    /// Adds the profiles of a file, of which a merged one has several. Says of each whether it is new: what is there already, because it
    /// was merged into another of the files, is not counted twice.
    ///
    /// # Errors
    /// What the system says of reading or writing; or the file is too long. It has to be one that [`for_each`] reads.
    pub fn add(&mut self, path: &Path) -> io::Result<Vec<bool>> {
        let mut file = BufReader::new(File::open(path)?);
        let mut news = Vec::new();
        if is_merged(path) {
            file.read_exact(&mut [0; MAGIC.len()])?;
            while let Some((name, packed)) = next(&mut file)? {
                news.push(self.write(&name, &packed)?);
            }
            return Ok(news);
        }
        let name = path.display().to_string();
        if name.len() > LONGEST_NAME || file.get_ref().metadata()?.len() > LONGEST {
            return Err(too_long());
        }
        let mut packed = Vec::new();
        GzEncoder::new(file.take(LONGEST), Compression::fast()).read_to_end(&mut packed)?;
        news.push(self.write(name.as_bytes(), &packed)?);
        Ok(news)
    }

    /// Writes a profile, unless it is there. Packing gives the same bytes each time.
    fn write(&mut self, name: &[u8], packed: &[u8]) -> io::Result<bool> {
        let mut hasher = DefaultHasher::new();
        packed.hash(&mut hasher);
        if !self.written.insert((packed.len(), hasher.finish())) {
            return Ok(false);
        }
        self.to.write_all(&(name.len() as u32).to_le_bytes())?;
        self.to.write_all(&(packed.len() as u64).to_le_bytes())?;
        self.to.write_all(name)?;
        self.to.write_all(packed)?;
        Ok(true)
    }
}

impl LockTable {
    /// The table of a profile, or of several that were merged, added up.
    ///
    /// # Errors
    /// [`Error`], as [`Profile::open`].
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, Error> {
        let path = path.as_ref();
        let mut tables = Self::each(path, options)?;
        let only = if tables.len() == 1 { tables.pop() } else { None };
        let nothing = || io::Error::other("no profile was merged into it");
        only.map(|(_, table)| table)
            .or_else(|| Self::together(&tables))
            .ok_or_else(|| Error::Unreadable { path: path.to_owned(), source: nothing() })
    }

    /// The tables of the profiles of a file, with their names.
    ///
    /// # Errors
    /// [`Error`], as [`Profile::open`].
    pub fn each(path: &Path, options: &Options) -> Result<Vec<(String, Self)>, Error> {
        let mut tables = Vec::new();
        for_each(path, |name, profile| {
            tables.push((name, profile.table(options)));
            Ok(())
        })?;
        Ok(tables)
    }
}
