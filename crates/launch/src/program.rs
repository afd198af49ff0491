//! Programs on disk: where they are, and whether a library can be loaded into them.

use anyhow::{Context as _, bail, ensure};
use memchr::memmem;
use object::elf::{self, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::{Endianness, FileKind, Object as _, ObjectSection as _, ReadCache};
use rustix::fs::getxattr;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// How many interpreters a script may name in turn, as in the kernel.
const INTERPRETERS: usize = 4;
/// Bytes of a file that say what it is: the kernel reads so many of a script's first line.
const HEAD: usize = 256;
/// Bytes of symbols' names that are searched for those of a sanitizer.
const MOST_NAMES: u64 = 256 << 20;
/// Bytes of such a name, with the zeros before and behind it.
const SANITIZER_NAME: usize = b"\0__asan_init\0".len();

#[cfg(target_arch = "x86_64")]
const MACHINE: (elf::Machine, &str) = (elf::EM_X86_64, "x86-64");
#[cfg(target_arch = "aarch64")]
const MACHINE: (elf::Machine, &str) = (elf::EM_AARCH64, "AArch64");

/// What shows the waits for Go's own locks.
pub(crate) const MUTEX_PROFILE: &str = "take Go's mutex profile of it (runtime.SetMutexProfileFraction, /debug/pprof/mutex), which `contend report` reads";

/// What is not seen of programs with OpenMP.
pub const OF_OPENMP: &str = "critical sections and locks of OpenMP are its runtime's own, which are neither recorded nor \
    swapped; put a pthread mutex in the place of `#pragma omp critical` to have it recorded";

/// A program that was not started, and what a shell exits with then.
#[derive(Debug)]
pub struct NotStarted {
    message: String,
    code: u8,
}

impl NotStarted {
    fn missing(message: String) -> Self {
        Self { message, code: 127 }
    }

    fn not_executable(message: String) -> Self {
        Self { message, code: 126 }
    }

    /// What the command exits with.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for NotStarted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for NotStarted {}

/// A program that no library can be loaded into, or none that replaces locks.
#[derive(Debug)]
pub(crate) struct Refused {
    program: PathBuf,
    pub(crate) why: Why,
}

/// Why a program is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    SetId,
    Capabilities,
    Architecture,
    Musl,
    Static,
    Go,
    ThreadSanitizer,
}

impl Why {
    /// The reason in a few words.
    pub(crate) fn in_short(self) -> &'static str {
        match self {
            Self::SetId => "set-user-id",
            Self::Capabilities => "has capabilities",
            Self::Architecture => "for another architecture",
            Self::Musl => "linked to musl",
            Self::Static => "linked statically",
            Self::Go => "Go, linked statically",
            Self::ThreadSanitizer => "built with ThreadSanitizer",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.program.display();
        match self.why {
            Why::SetId => write!(
                out,
                "{program} runs with the rights of its owner or group (set-user-id), and the system loads no library into \
                 such programs: run a copy of it without that bit"
            ),
            Why::Capabilities => write!(
                out,
                "{program} is given capabilities, and the system loads no library into such programs: run it as root, or a \
                 copy of it"
            ),
            Why::Architecture => write!(
                out,
                "{program} is not a program for {}: contend can replace locks only in programs of the architecture \
                 that it was built for",
                MACHINE.1
            ),
            Why::Musl => write!(
                out,
                "{program} is linked to musl, and contend replaces glibc's locks only: build it for glibc"
            ),
            Why::Static => write!(
                out,
                "{program} is linked statically, so that no library can be loaded into it: link it dynamically"
            ),
            Why::Go => write!(
                out,
                "{program} is a Go program without C code: it is linked statically, and its locks are Go's own: {MUTEX_PROFILE}"
            ),
            Why::ThreadSanitizer => write!(
                out,
                "{program} is built with ThreadSanitizer, which has to see every lock function before contend and calls \
                 glibc's condition variables past it: build it without -fsanitize=thread"
            ),
        }
    }
}

impl std::error::Error for Refused {}

/// What `spawn` said of a command, as an error that names it.
pub fn cannot_start(command: &Command, error: std::io::Error) -> anyhow::Error {
    let name = command.get_program().display();
    match error.raw_os_error() {
        // It was there before: what is missing is what it names.
        Some(libc::ENOENT) if Path::new(command.get_program()).exists() => {
            NotStarted::not_executable(format!("cannot start {name}: its interpreter is not there")).into()
        }
        Some(libc::ENOENT) => NotStarted::missing(format!("cannot start {name}: {error}")).into(),
        Some(libc::EACCES | libc::ENOEXEC | libc::EISDIR | libc::ELIBBAD | libc::ETXTBSY) => {
            NotStarted::not_executable(format!("cannot start {name}: {error}")).into()
        }
        _ => anyhow::Error::new(error).context(format!("cannot start {name}")),
    }
}

/// A program that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program(PathBuf);

impl Program {
    /// Looks for a program as a shell does: in `PATH`, unless the name has a slash.
    ///
    /// # Errors
    ///
    /// There is none, or it is not executable.
    pub fn find(name: &OsStr) -> Result<Self, NotStarted> {
        if name.as_bytes().contains(&b'/') {
            let path = PathBuf::from(name);
            if is_executable(&path) {
                return Ok(Self(path));
            }
            let name = &path.display().to_string();
            return Err(match path.metadata() {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    NotStarted::missing(format!("cannot run {name}: there is no such file{}", of_words(name)))
                }
                Err(error) => NotStarted::not_executable(format!("cannot run {name}: {error}")),
                Ok(data) if data.is_dir() => {
                    NotStarted::not_executable(format!("cannot run {name}: it is a directory"))
                }
                Ok(_) => {
                    NotStarted::not_executable(format!("cannot run {name}: it is not an executable file"))
                }
            });
        }
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let candidates: Vec<_> = std::env::split_paths(&path).map(|directory| directory.join(name)).collect();
        if let Some(found) = candidates.iter().find(|path| is_executable(path)) {
            return Ok(Self(found.clone()));
        }
        let name = &name.display().to_string();
        Err(match candidates.iter().find(|path| path.is_file()) {
            Some(file) => NotStarted::not_executable(format!(
                "cannot run {name}: {} is not executable, and nothing else in PATH has the name",
                file.display()
            )),
            None => {
                let here = Path::new(".").join(name);
                let offer = if is_executable(&here) {
                    format!("; there is {}", here.display())
                } else {
                    of_words(name).to_owned()
                };
                NotStarted::missing(format!("cannot run {name}: no such program in PATH{offer}"))
            }
        })
    }

    /// The program of this path, which is known to be one.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether it is a binary, and no script.
    pub(crate) fn is_elf(&self) -> bool {
        let head = File::open(&self.0).ok().and_then(|mut file| head_of(&mut file).ok());
        head.is_some_and(|head| head.starts_with(b"\x7fELF"))
    }

    /// Whether it is a binary that the Go compiler made: the locks of its Go code are no pthread's.
    pub(crate) fn is_go(&self) -> bool {
        is_go(&self.0)
    }

    /// Whether it is a binary that the Rust compiler made, and none in which the recorder for locks that are no pthread's is linked.
    #[must_use]
    pub fn is_rust(&self) -> bool {
        is_rust(&self.0)
    }

    /// Whether it is a binary linked to a runtime of OpenMP: the locks and critical sections of that are no pthread's.
    #[must_use]
    pub fn uses_openmp(&self) -> bool {
        uses_openmp(&self.0)
    }

    /// Whether the dynamic linker will load a library into it that `LD_PRELOAD` names. A script is its interpreter.
    ///
    /// # Errors
    ///
    /// It will not, and the message says why and what to do. A file that cannot be read is taken on trust.
    pub fn check_preloadable(&self) -> anyhow::Result<()> {
        self.preloadable().map(drop)
    }

    /// As [`Program::check_preloadable`]; tells the sanitizer that it, or a script's interpreter, was built with.
    pub(crate) fn preloadable(&self) -> anyhow::Result<Option<Sanitizer>> {
        let mut path = self.0.clone();
        for _ in 0..=INTERPRETERS {
            check_privileges(&path)?;
            let Ok(mut file) = File::open(&path) else { return Ok(None) };
            let head = head_of(&mut file).with_context(|| format!("cannot read {}", path.display()))?;
            match head.strip_prefix(b"#!") {
                Some(line) => {
                    path = interpreter(line)
                        .with_context(|| format!("{} names no interpreter", path.display()))?;
                }
                None if head.starts_with(b"\x7fELF") => return check_elf(&path, file),
                None => return Ok(None), // a script without a first line, which a shell runs
            }
        }
        bail!(
            "{} is a script whose interpreters are scripts, more than {INTERPRETERS} deep",
            self.0.display()
        );
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn head_of(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD);
    file.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// The interpreter of a script, from its first line without the `#!`. What `env` runs is looked for in `PATH`; where that is not told
/// by the line, it is `env`, which says itself what is wrong.
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let first = PathBuf::from(OsStr::from_bytes(words.next()?));
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(first);
    }
    let run = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    let found = run.and_then(|run| Program::find(OsStr::from_bytes(run)).ok());
    Some(found.map_or(first, |program| program.0))
}

/// Refuses programs that run with other rights than the caller's: the dynamic linker loads nothing into them.
fn check_privileges(path: &Path) -> anyhow::Result<()> {
    const SET_ID: u32 = 0o6000;
    let Ok(data) = path.metadata() else { return Ok(()) };
    let refuse = |why| Refused { program: path.to_owned(), why };
    ensure!(data.mode() & SET_ID == 0, refuse(Why::SetId));
    ensure!(geteuid().is_root() || !has_capabilities(path), refuse(Why::Capabilities));
    Ok(())
}

fn has_capabilities(path: &Path) -> bool {
    // No buffer asks for the length only.
    getxattr(path, "security.capability", &mut [0_u8; 0]).is_ok_and(|length| length > 0)
}

fn check_elf(path: &Path, file: File) -> anyhow::Result<Option<Sanitizer>> {
    let refuse = |why| Refused { program: path.to_owned(), why };
    let cut_short = || format!("{} is cut short", path.display());
    let file = &ReadCache::new(file);
    ensure!(matches!(FileKind::parse(file), Ok(FileKind::Elf64)), refuse(Why::Architecture));
    let header = FileHeader64::<Endianness>::parse(file).with_context(cut_short)?;
    let endian = header.endian().with_context(cut_short)?;
    let for_this = header.is_little_endian() && header.e_machine(endian) == MACHINE.0;
    ensure!(for_this, refuse(Why::Architecture));
    let segments = header.program_headers(endian, file).with_context(cut_short)?;
    let linker = segments.iter().find(|segment| segment.p_type(endian) == elf::PT_INTERP);
    let linker = linker.ok_or_else(|| refuse(if is_go(path) { Why::Go } else { Why::Static }))?;
    // What the segment says may lie past the end: then no name of a linker is known.
    let linker = linker.interpreter(endian, file).ok().flatten().unwrap_or_default();
    ensure!(!String::from_utf8_lossy(linker).contains("musl"), refuse(Why::Musl));
    let sanitizer = sanitizer_of(path);
    ensure!(sanitizer != Some(Sanitizer::Thread), refuse(Why::ThreadSanitizer));
    Ok(sanitizer)
}

/// A sanitizer whose runtime takes part in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sanitizer {
    /// AddressSanitizer.
    Address,
    /// ThreadSanitizer.
    Thread,
}

/// The sanitizer that a binary was built with, told by the function that initialises its runtime, whether that is linked in or
/// shared. One that is linked in and stripped is not found.
///
/// The names of all symbols are read in large blocks and searched as they lie there: a program may have 100,000.
fn sanitizer_of(path: &Path) -> Option<Sanitizer> {
    let file = File::open(path).ok()?;
    let cache = ReadCache::new(&file);
    let header = FileHeader64::<Endianness>::parse(&cache).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.section_headers(endian, &cache).ok()?;
    [elf::SHT_DYNSYM, elf::SHT_SYMTAB].into_iter().find_map(|kind| {
        let symbols = sections.iter().find(|section| section.sh_type(endian) == kind)?;
        let names = sections.get(symbols.sh_link(endian) as usize)?;
        sanitizer_among(&file, names.sh_offset(endian), names.sh_size(endian))
    })
}

/// The first sanitizer's function among names that end with zeros, at this place of a file.
fn sanitizer_among(file: &File, start: u64, length: u64) -> Option<Sanitizer> {
    const BLOCK: usize = 256 << 10;
    let names: [(&[u8], _); 2] =
        [(b"\0__asan_init\0", Sanitizer::Address), (b"\0__tsan_init\0", Sanitizer::Thread)];
    let end = start.saturating_add(length.min(MOST_NAMES));
    let (mut block, mut at) = (vec![0; BLOCK], start);
    loop {
        let wanted = BLOCK.min(end.saturating_sub(at) as usize);
        let got = file.read_at(&mut block[..wanted], at).ok()?;
        if let Some((_, found)) = names.iter().find(|(name, _)| memmem::find(&block[..got], name).is_some()) {
            return Some(*found);
        }
        if got < BLOCK {
            return None;
        }
        at += (BLOCK - SANITIZER_NAME) as u64; // a name may begin in one block and end in the next
    }
}

/// What else may be wrong with a name that no file has: a program and its arguments within one pair of quotes.
fn of_words(name: &str) -> &'static str {
    if name.contains(' ') {
        "; write the program and its arguments as words of their own, without quotes around them all"
    } else {
        ""
    }
}

/// Told by the section with the versions that it was built from, which stripping leaves.
fn is_go(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let cache = ReadCache::new(file);
    ElfFile64::<Endianness, _>::parse(&cache)
        .is_ok_and(|binary| binary.section_by_name(".go.buildinfo").is_some())
}

/// Told by the section with the compilers' versions, which stripping leaves, and by the name under which the recorder is looked up.
fn is_rust(path: &Path) -> bool {
    has_in_section(path, ".comment", b"rustc version")
        && !has_in_section(path, ".rodata", b"contend_recorder\0")
}

/// Told by the libraries that it names: those of gcc, of clang, and of Intel.
fn uses_openmp(path: &Path) -> bool {
    ["\0libgomp.so.", "\0libomp.so", "\0libiomp5.so"]
        .iter()
        .any(|name| has_in_section(path, ".dynstr", name.as_bytes()))
}

/// Whether a section of a binary has a text in it.
fn has_in_section(path: &Path, section: &str, text: &[u8]) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let cache = ReadCache::new(file);
    let Ok(binary) = ElfFile64::<Endianness, _>::parse(&cache) else { return false };
    let section = binary.section_by_name(section).filter(|section| section.size() <= MOST_NAMES);
    let content = section.and_then(|section| section.data().ok());
    content.is_some_and(|content| memmem::find(content, text).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn written(name: &str, bytes: &[u8], mode: u32) -> (tempfile::TempDir, Program) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (directory, Program(path))
    }

    fn refusal(bytes: &[u8]) -> String {
        let (_directory, program) = written("program", bytes, 0o700);
        format!("{:#}", program.check_preloadable().unwrap_err())
    }

    #[test]
    fn this_test_can_be_preloaded_and_a_script_is_its_interpreter() {
        let this = Program(std::env::current_exe().unwrap());
        this.check_preloadable().unwrap();
        let script = format!("#! {} -x\n", this.path().display());
        written("script", script.as_bytes(), 0o700).1.check_preloadable().unwrap();
        written("script", b"#!/usr/bin/env -S A=b sh\n", 0o700).1.check_preloadable().unwrap();
        written("script", b"echo no first line\n", 0o700).1.check_preloadable().unwrap();
    }

    #[test]
    fn what_no_library_is_loaded_into_is_refused_with_the_reason() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut foreign = own[..1024].to_vec();
        foreign[18] = 8;
        assert!(refusal(&foreign).contains("architecture"));
        let mut fixed = own[..4096.min(own.len())].to_vec();
        fixed[56..58].copy_from_slice(&[0, 0]); // no segments: no dynamic linker
        assert!(refusal(&fixed).contains("statically"));
        assert!(refusal(&own[..60]).contains("cut short"));
        assert!(refusal(b"\x7fELF").contains("architecture"));
        assert!(refusal(b"#!\n").contains("interpreter"));
        let (_directory, program) = written("program", &own, 0o4700);
        assert!(format!("{:#}", program.check_preloadable().unwrap_err()).contains("set-user-id"));
        let (_directory, program) = written("loop", b"", 0o700);
        fs::write(program.path(), format!("#!{}\n", program.path().display())).unwrap();
        assert!(format!("{:#}", program.check_preloadable().unwrap_err()).contains("deep"));
    }

    #[test]
    fn names_are_looked_for_in_the_path_and_paths_are_not() {
        assert!(Program::find(OsStr::new("sh")).unwrap().path().is_absolute());
        let none = Program::find(OsStr::new("no-such-program-here")).unwrap_err();
        assert!(none.to_string().contains("PATH"));
        assert!(
            Program::find(OsStr::new("./no-such-file")).unwrap_err().to_string().contains("no such file")
        );
    }
}
