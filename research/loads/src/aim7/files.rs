//! Files and directories, on tmpfs.

use self::Way::{Cached, Direct, Synchronous};
use super::jobs::{Job, Session, Source::Assumed, Source::Public};
use rustix::fs::Dir;
use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

#[rustfmt::skip] // a table
pub(super) const JOBS: &[Job] = &[
    Job { name: "creat_clo", does: "a file created, or emptied, and closed 1,000 times", source: Public, run: creat_clo },
    Job { name: "link_test", does: "63 links to a file removed and made again", source: Public, run: link_test },
    Job { name: "dir_rtns_1", does: "10,000 entries read of /bin", source: Public, run: dir_rtns_1 },
    Job { name: "disk_src", does: "75 files of a tree looked up, and 75 created and removed", source: Assumed, run: disk_src },
    Job { name: "disk_rd", does: "a file written, then read block by block", source: Public, run: |s| read(s, Order::Sequential, Cached) },
    Job { name: "disk_rr", does: "a file written, then as many blocks of it read at random", source: Public, run: |s| read(s, Order::Random, Cached) },
    Job { name: "disk_wrt", does: "a file written block by block", source: Public, run: |s| write(s, 1, Cached) },
    Job { name: "disk_rw", does: "a file written, then as many blocks of it at random", source: Public, run: |s| rewrite(s, 1, Cached) },
    Job { name: "disk_cp", does: "a file that all users share copied to one of the user's own", source: Public, run: |s| copy(s, 1, Cached) },
    Job { name: "disk_brd", does: "disk_rd without the disks written out before", source: Assumed, run: |s| read(s, Order::Sequential, Cached) },
    Job { name: "disk_brr", does: "disk_rr without the disks written out before", source: Public, run: |s| read(s, Order::Random, Cached) },
    Job { name: "disk_bwrt", does: "disk_wrt without the disks written out before", source: Assumed, run: |s| write(s, 1, Cached) },
    Job { name: "disk_brw", does: "disk_rw without the disks written out before", source: Assumed, run: |s| rewrite(s, 1, Cached) },
    Job { name: "disk_bcp", does: "disk_cp without the disks written out before", source: Assumed, run: |s| copy(s, 1, Cached) },
    Job { name: "disk_dio_rd", does: "the file that all users share read block by block by O_DIRECT", source: Public, run: read_direct },
    Job { name: "disk_dio_rr", does: "a file written, then as many blocks of it read at random by O_DIRECT", source: Public, run: |s| read(s, Order::Random, Direct) },
    Job { name: "disk_dio_wrt", does: "a file written block by block by O_DIRECT (in AIM7's sources a slip leaves it empty)", source: Assumed, run: |s| write(s, 1, Direct) },
    Job { name: "disk_dio_rw", does: "a file written, then as many blocks of it at random by O_DIRECT", source: Public, run: |s| rewrite(s, 1, Direct) },
    Job { name: "disk_dio_cp", does: "disk_cp by O_DIRECT (in AIM7's sources a slip leaves the copy empty)", source: Assumed, run: |s| copy(s, 1, Direct) },
    Job { name: "sync_disk_wrt", does: "half a file written, each block by O_SYNC", source: Public, run: |s| write(s, 2, Synchronous) },
    Job { name: "sync_disk_rw", does: "half a file written, then as many blocks at random by O_SYNC", source: Public, run: |s| rewrite(s, 2, Synchronous) },
    Job { name: "sync_disk_cp", does: "half of the shared file copied by O_SYNC", source: Public, run: |s| copy(s, 2, Synchronous) },
    Job { name: "sync_disk_update", does: "a file written, then half as many blocks read at random and written behind by O_SYNC", source: Public, run: update },
];

/// Bytes of a block.
const BLOCK: usize = 1024;

/// How a file is read or written.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Cached,
    Synchronous,
    Direct,
}

impl Way {
    /// The flags of open(2).
    fn flags(self, session: &Session) -> i32 {
        match self {
            Cached => 0,
            Synchronous => libc::O_SYNC,
            Direct => session.direct,
        }
    }
}

/// A block at the beginning of a page, as O_DIRECT wants it.
#[repr(align(4096))]
struct Block([u8; BLOCK]);

impl Block {
    fn of(byte: u8) -> Self {
        Self([byte; BLOCK])
    }
}

/// Blocks of a file, which AIM7 asks for; its own mixes name 10 KiB to 10 MiB.
const BLOCKS: u32 = 1_000;

/// The file that copies are made of.
const COMMON: &str = "common";

/// The tree in which `disk_src` looks for files: AIM7's has 75 names as well.
const TREE: &str = "tree";
const TREE_DIRECTORIES: usize = 5;
const TREE_FILES: usize = 15;

fn tree_directory(number: usize) -> PathBuf {
    Path::new(TREE).join(format!("directory{}", number / TREE_FILES))
}

fn tree_file(number: usize) -> PathBuf {
    tree_directory(number).join(format!("file{}", number % TREE_FILES))
}

/// Puts into the directory what the jobs of all users share.
///
/// # Errors
///
/// It cannot be written there.
pub(super) fn prepare(directory: &Path) -> io::Result<()> {
    fs::write(directory.join(COMMON), vec![b'c'; BLOCKS as usize * BLOCK])?;
    for number in 0..TREE_DIRECTORIES * TREE_FILES {
        fs::create_dir_all(directory.join(tree_directory(number)))?;
        File::create(directory.join(tree_file(number)))?;
    }
    Ok(())
}

/// Whether the file system of a directory that [`prepare`] has filled knows O_DIRECT, with blocks of AIM7's size.
pub(super) fn knows_direct(directory: &Path) -> bool {
    let opened = File::options().read(true).custom_flags(libc::O_DIRECT).open(directory.join(COMMON));
    opened.and_then(|mut file| file.read_exact(&mut Block::of(0).0)).is_ok()
}

/// A file of the user's own, removed at the end.
struct Own(PathBuf);

impl Own {
    fn new(session: &mut Session) -> Self {
        Self(session.own("file"))
    }

    fn open(&self, options: &mut OpenOptions) -> io::Result<File> {
        options.open(&self.0)
    }

    /// Writes so many blocks to a new file, opened with these flags too.
    fn write(&self, blocks: u32, flags: i32) -> io::Result<()> {
        let mut file =
            self.open(File::options().write(true).create(true).truncate(true).custom_flags(flags))?;
        let block = Block::of(b'b');
        (0..blocks).try_for_each(|_| file.write_all(&block.0))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0); // the directory is removed in the end
    }
}

fn creat_clo(session: &mut Session) -> io::Result<()> {
    let own = Own::new(session);
    (0..session.times(1_000)).try_for_each(|_| File::create(&own.0).map(drop))
}

fn link_test(session: &mut Session) -> io::Result<()> {
    const LINKS: u32 = 7;
    let first = Own::new(session);
    File::create(&first.0)?;
    let links: Vec<Own> = (0..LINKS).map(|_| Own::new(session)).collect();
    links.iter().try_for_each(|link| fs::hard_link(&first.0, &link.0))?;
    for link in links.iter().cycle().take(session.times(9 * LINKS) as usize) {
        fs::remove_file(&link.0)?;
        fs::hard_link(&first.0, &link.0)?;
    }
    Ok(())
}

fn dir_rtns_1(session: &mut Session) -> io::Result<()> {
    let mut directory = Dir::read_from(File::open("/bin")?)?;
    for _ in 0..session.times(10_000) {
        match directory.read() {
            Some(entry) => drop(black_box(entry?)),
            None => directory.rewind(),
        }
    }
    Ok(())
}

fn disk_src(session: &mut Session) -> io::Result<()> {
    let mut numbers: Vec<usize> = (0..TREE_DIRECTORIES * TREE_FILES).collect();
    session.shuffle(&mut numbers);
    numbers.truncate(session.times(75) as usize);
    for number in numbers {
        black_box(fs::metadata(session.shared(tree_file(number)))?);
        let created = session.own(tree_directory(number).join("created"));
        File::create(&created)?;
        fs::remove_file(created)?;
    }
    Ok(())
}

/// In which order blocks come.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Sequential,
    Random,
}

/// Goes to a random block of so many.
fn seek_block(session: &mut Session, file: &mut File, blocks: u32) -> io::Result<()> {
    let block = session.below(blocks as usize) * BLOCK;
    file.seek(SeekFrom::Start(block as u64)).map(drop)
}

fn read(session: &mut Session, order: Order, way: Way) -> io::Result<()> {
    let (own, blocks) = (Own::new(session), session.times(BLOCKS));
    own.write(blocks, 0)?;
    let mut file = own.open(File::options().read(true).custom_flags(way.flags(session)))?;
    let mut block = Block::of(0);
    for _ in 0..blocks {
        if order == Order::Random {
            seek_block(session, &mut file, blocks)?;
        }
        file.read_exact(black_box(&mut block.0))?;
    }
    Ok(())
}

fn read_direct(session: &mut Session) -> io::Result<()> {
    let mut file = File::options().read(true).custom_flags(session.direct).open(session.shared(COMMON))?;
    let mut block = Block::of(0);
    (0..session.times(BLOCKS)).try_for_each(|_| file.read_exact(black_box(&mut block.0)))
}

fn write(session: &mut Session, parts: u32, way: Way) -> io::Result<()> {
    Own::new(session).write(session.times(BLOCKS / parts), way.flags(session))
}

fn rewrite(session: &mut Session, parts: u32, way: Way) -> io::Result<()> {
    let (own, blocks) = (Own::new(session), session.times(BLOCKS / parts));
    own.write(blocks, 0)?;
    let mut file = own.open(File::options().write(true).custom_flags(way.flags(session)))?;
    let block = Block::of(b'r');
    for _ in 0..blocks {
        seek_block(session, &mut file, blocks)?;
        file.write_all(&block.0)?;
    }
    Ok(())
}

fn copy(session: &mut Session, parts: u32, way: Way) -> io::Result<()> {
    let own = Own::new(session);
    let flags = way.flags(session);
    let from_flags = if way == Direct { flags } else { 0 };
    let mut from = File::options().read(true).custom_flags(from_flags).open(session.shared(COMMON))?;
    let mut to = own.open(File::options().write(true).create_new(true).custom_flags(flags))?;
    let mut block = Block::of(0);
    for _ in 0..session.times(BLOCKS / parts) {
        from.read_exact(&mut block.0)?;
        to.write_all(&block.0)?;
    }
    Ok(())
}

fn update(session: &mut Session) -> io::Result<()> {
    let (own, blocks) = (Own::new(session), session.times(BLOCKS).max(2));
    own.write(blocks, 0)?;
    let mut file = own.open(File::options().read(true).write(true).custom_flags(libc::O_SYNC))?;
    let mut block = [0; BLOCK];
    for _ in 0..blocks / 2 {
        // What is read is not the last block, so that the one behind it is in the file.
        seek_block(session, &mut file, blocks - 1)?;
        file.read_exact(&mut block)?;
        file.write_all(&block)?;
    }
    Ok(())
}
