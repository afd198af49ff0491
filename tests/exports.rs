//! The shape of the preload library: what it exports, and what its lock paths must not do.

use object::elf;
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _, SectionHeader as _, Sym as _};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// Every name that a program may bind for the kinds of object that are interposed: POSIX's, those that objects linked before
/// glibc 2.34 bind, and C11's. The recorder's, for locks of other kinds; `syscall`, by which such locks sleep; and those by which a process gives up its rights, since it
/// leaves the profile then.
const NAMES: &[&str] = &[
    "__pthread_mutex_destroy", "__pthread_mutex_init", "__pthread_mutex_lock", "__pthread_mutex_trylock",
    "__pthread_mutex_unlock", "__pthread_rwlock_destroy", "__pthread_rwlock_init", "__pthread_rwlock_rdlock",
    "__pthread_rwlock_tryrdlock", "__pthread_rwlock_trywrlock", "__pthread_rwlock_unlock",
    "__pthread_rwlock_wrlock", "cnd_broadcast", "cnd_destroy", "cnd_init", "cnd_signal", "cnd_timedwait",
    "cnd_wait", "contend_recorder", "dlclose", "dlopen", "dlsym", "mtx_destroy", "mtx_init", "mtx_lock",
    "mtx_timedlock", "mtx_trylock", "mtx_unlock", "pthread_clockjoin_np", "pthread_cond_broadcast",
    "pthread_cond_clockwait", "pthread_cond_destroy", "pthread_cond_init", "pthread_cond_signal",
    "pthread_cond_timedwait", "pthread_cond_wait", "pthread_create", "pthread_join",
    "pthread_mutex_clocklock", "pthread_mutex_destroy", "pthread_mutex_init", "pthread_mutex_lock",
    "pthread_mutex_timedlock", "pthread_mutex_trylock", "pthread_mutex_unlock", "pthread_rwlock_clockrdlock",
    "pthread_rwlock_clockwrlock", "pthread_rwlock_destroy", "pthread_rwlock_init", "pthread_rwlock_rdlock",
    "pthread_rwlock_timedrdlock", "pthread_rwlock_timedwrlock", "pthread_rwlock_tryrdlock",
    "pthread_rwlock_trywrlock", "pthread_rwlock_unlock", "pthread_rwlock_wrlock", "pthread_spin_destroy",
    "pthread_spin_init", "pthread_spin_lock", "pthread_spin_trylock", "pthread_spin_unlock",
    "pthread_timedjoin_np", "seteuid", "setresuid", "setreuid", "setuid", "syscall", "thrd_create",
    "thrd_join",
];

/// The library as the command hands it to programs.
struct Library {
    path: PathBuf,
    bytes: Vec<u8>,
    _cache: tempfile::TempDir,
}

impl Library {
    fn unpacked() -> Self {
        let cache = tempfile::tempdir().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_contend"))
            .args(["run", "--lock", "ticket", "--", "sh", "-c", "echo $LD_PRELOAD"])
            .env("XDG_CACHE_HOME", cache.path())
            .env_remove("LD_PRELOAD")
            .output()
            .unwrap();
        let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        assert!(path.is_file(), "{} is no file", path.display());
        let bytes = std::fs::read(&path).unwrap();
        Self { path, bytes, _cache: cache }
    }

    fn elf(&self) -> ElfFile64<'_> {
        ElfFile64::parse(&*self.bytes).unwrap()
    }
}

#[test]
fn exactly_these_names_are_exported_and_none_has_a_version() {
    let library = Library::unpacked();
    let elf = library.elf();
    let (endian, data) = (elf.endian(), elf.data());
    let sections = elf.elf_header().sections(endian, data).unwrap();
    let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM).unwrap();
    let exported: BTreeSet<_> = symbols
        .iter()
        .filter(|symbol| !symbol.is_undefined(endian) && symbol.st_bind() != elf::STB_LOCAL)
        .map(|symbol| str::from_utf8(symbol.name(endian, symbols.strings()).unwrap()).unwrap().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    assert_eq!(exported.into_iter().collect::<Vec<_>>(), NAMES);
    let versions = sections.iter().filter(|section| section.sh_type(endian) == elf::SHT_GNU_VERDEF).count();
    assert_eq!(versions, 0, "versioned definitions serve only those who ask for that version");
}

#[test]
fn it_is_initialised_first_stays_loaded_and_has_static_thread_local_storage() {
    let library = Library::unpacked();
    let elf = library.elf();
    let (endian, data) = (elf.endian(), elf.data());
    let sections = elf.elf_header().sections(endian, data).unwrap();
    let (dynamic, _) = sections.dynamic(endian, data).unwrap().unwrap();
    let flags = |tag| {
        let value = dynamic.iter().find(|entry| entry.d_tag(endian) == tag).map(|entry| entry.d_val(endian));
        value.unwrap_or(0)
    };
    assert_ne!(flags(elf::DT_FLAGS) & elf::DF_STATIC_TLS.0, 0, "STATIC_TLS");
    let first_and_for_good = elf::DF_1_INITFIRST.0 | elf::DF_1_NODELETE.0;
    assert_eq!(flags(elf::DT_FLAGS_1) & first_and_for_good, first_and_for_good, "INITFIRST, NODELETE");
}

/// `__tls_get_addr` may allocate. Only the standard library's panics use it, and lock paths do not panic.
#[test]
fn nothing_of_its_own_asks_for_thread_local_storage_by_a_call() {
    let library = Library::unpacked();
    let output =
        Command::new("objdump").args(["-d", "-C", "--no-show-raw-insn"]).arg(&library.path).output().unwrap();
    assert!(output.status.success(), "objdump is part of binutils, which gcc needs");
    let listing = String::from_utf8_lossy(&output.stdout);
    let (mut function, mut functions, mut callers) = (String::new(), 0, BTreeSet::new());
    for line in listing.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
            function = name.1.to_owned();
            functions += 1;
        } else if line.contains("__tls_get_addr") && !function.starts_with("__tls_get_addr") {
            callers.insert(function.clone());
        }
    }
    assert!(functions > 100, "the listing has functions: {functions}");
    let own: Vec<_> = callers
        .iter()
        .filter(|name| {
            !["std::", "<std::", "core::", "alloc::", "__rustc", "rust_"]
                .iter()
                .any(|of| name.starts_with(of))
        })
        .collect();
    assert!(own.is_empty(), "{own:?}");
}
