//! Starting a program with the preload library, and waiting for it.

pub mod always_on;
pub mod attach;
mod kernel;
pub mod library;
pub mod operations;
pub mod places;
pub mod program;
pub mod record;
mod static_program;
pub mod supervise;
pub mod swapped;
pub mod tasks;
pub mod unreached;

pub use library::Library;
pub use places::Only;
pub use swapped::Swapped;

use anyhow::Context as _;
use locks::catalogue::{LOCKS, Lock};
use profile::tally::SharedTally;
use program::{Program, Sanitizer};
use pthread::object::ObjectKind;
use pthread::site::{SEPARATOR, Site};
use pthread::support::{Abilities, Support};
use pthread::{environment, request::Request};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpgid};
use session::{interrupt, names, signals};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

pub use pthread::environment::GLIBC;

/// The environment variable by which the preload library has holders of swapped locks ask the kernel for extended time slices: `1` or
/// `0`. A user may set it, too, so that it is none of [`environment::OF_A_RUN`].
pub const TIME_SLICE: &str = "CONTEND_TIME_SLICE";

/// The exit code of a run that was ended at its time limit, as timeout(1) has it.
pub const TIMED_OUT: u8 = 124;

/// How a lock replaces a kind of pthread object in a program; `None` if it cannot, or may not.
#[must_use]
pub fn support(lock: &Lock, kind: ObjectKind) -> Option<Support> {
    if !lock.is_for_programs() {
        return None;
    }
    Support::new(Abilities { bytes: lock.bytes, shared: lock.shared, timed: lock.timed }, kind)
}

/// Which locks a program runs with. Kinds that are not named keep the C library's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swaps {
    /// Lock by kind of object.
    pub kinds: BTreeMap<ObjectKind, String>,
    /// The lock that was given for every kind that it can replace.
    pub for_all: Option<String>,
    /// Locks of single sites.
    pub only: Vec<Only>,
    /// Waits that spin do so for ever.
    pub pure: bool,
    /// Holders ask the kernel not to take their core away: see [`TIME_SLICE`].
    pub time_slice: bool,
}

impl Swaps {
    /// Reads `mutex=A,rwlock=B,spin=C`, or one name that stands for every kind of object that it can replace and that no
    /// other part names.
    ///
    /// # Errors
    ///
    /// An unknown lock or kind, or a lock that cannot replace the kind.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut swaps = Self::default();
        let parts = || text.split(',').map(str::trim);
        let mut for_all = None;
        for name in parts().filter(|part| !part.contains('=')) {
            swaps.set_all(name)?;
            if let Some(other) = for_all.replace(name) {
                return Err(format!(
                    "two locks for every kind, {other} and {name}: write one of them, or mutex=, rwlock= and spin="
                ));
            }
        }
        let mut named = BTreeMap::new();
        for (kind, name) in parts().filter_map(|part| part.split_once('=')) {
            let (kind, name) = (kind.trim(), name.trim());
            swaps.set(kind, name)?;
            if let Some(other) = named.insert(kind, name) {
                return Err(format!("two locks for {kind}, {other} and {name}: write one of them"));
            }
        }
        Ok(swaps)
    }

    fn set(&mut self, kind: &str, name: &str) -> Result<(), String> {
        let Some(kind) = ObjectKind::by_name(kind) else {
            return Err(format!("`{kind}` is no kind of lock: write mutex=, rwlock= or spin="));
        };
        if name != GLIBC {
            let lock = known(name)?;
            if Request::parse(name).writers_first && kind != ObjectKind::Rwlock {
                return Err(format!(
                    "`:writers` says who goes first at reader-writer locks: write rwlock={name}"
                ));
            }
            if support(lock, kind).is_none() {
                return Err(cannot_be(name, kind));
            }
        }
        self.kinds.insert(kind, name.to_owned());
        Ok(())
    }

    fn set_all(&mut self, name: &str) -> Result<(), String> {
        if name == GLIBC {
            self.kinds.clear();
            return Ok(());
        }
        let lock = known(name)?;
        self.for_all = Some(name.to_owned());
        for kind in ObjectKind::ALL.into_iter().filter(|&kind| support(lock, kind).is_some()) {
            let asked = if kind == ObjectKind::Rwlock { name } else { lock.name };
            self.kinds.insert(kind, asked.to_owned());
        }
        Ok(())
    }

    /// Why objects of a kind are not swapped that no site names.
    pub fn why_not(&self, kind: ObjectKind) -> String {
        match &self.for_all {
            Some(name) if !self.kinds.contains_key(&kind) => format!("{name}: {}", refusal(kind)),
            _ if !self.only.is_empty() => {
                "--only names none of them, or a lock that cannot take their place".to_owned()
            }
            _ => "no lock was chosen for them".to_owned(),
        }
    }

    /// Whether the C library keeps all of its locks.
    pub fn is_empty(&self) -> bool {
        self.only.is_empty() && self.kinds.values().all(|name| name == GLIBC)
    }
}

/// Reads `SITE=LOCK`.
///
/// # Errors
///
/// No `=`, or an unknown lock; a name that ends in `#2` or the like, by which a profile tells locks of one site apart: a run cannot.
pub fn parse_site(text: &str) -> Result<Only, String> {
    let (site, lock) = text
        .rsplit_once('=')
        .ok_or("write SITE=LOCK, where SITE is a lock's name in a profile, or a symbol")?;
    let own = |letter| letter == '\n' || letter == char::from(SEPARATOR);
    if site.is_empty() || site.contains(own) {
        return Err("the site is a lock's name in a profile, or a symbol with or without +OFFSET".into());
    }
    known(lock)?;
    // As a profile names those that one call made, all together.
    let site = site.strip_suffix("#*").unwrap_or(site);
    let all = Site::without_number(site);
    if all != site {
        return Err(format!(
            "`{site}` is one of several locks that are made or taken at the same places, which a run cannot tell apart: \
             `{all}={lock}` is for all of them"
        ));
    }
    Ok(Only { site: site.to_owned(), lock: lock.to_owned(), places: vec![site.to_owned()] })
}

/// The lock of `NAME` or `NAME:writers`.
fn known(asked: &str) -> Result<&'static Lock, String> {
    let Request { name, writers_first } = Request::parse(asked);
    let lock = names::lock(name).map_err(|unknown| of_family(name).unwrap_or(unknown))?;
    if !lock.is_for_programs() {
        return Err(format!(
            "{name} is under a patent and there for study: simulate, check or benchmark it, and swap in another, as mcs"
        ));
    }
    if writers_first && !lock.shared {
        return Err(format!(
            "{name} has no readers: `:writers` may follow the name of a reader-writer lock only"
        ));
    }
    Ok(lock)
}

/// Why the name of a family of locks is that of no lock, with the locks of the family by the kinds of object that they can replace;
/// `None` of a name that is no family's.
fn of_family(name: &str) -> Option<String> {
    let of_kind = |kind: ObjectKind| {
        let locks = LOCKS.iter().filter(|lock| lock.family.name() == name && lock.group.is_for_use());
        let names: Vec<_> =
            locks.filter(|lock| support(lock, kind).is_some()).map(|lock| lock.name).collect();
        (!names.is_empty()).then(|| format!("for {} {}", kind.plural(), names.join(", ")))
    };
    let kinds: Vec<String> = ObjectKind::ALL.into_iter().filter_map(of_kind).collect();
    (!kinds.is_empty()).then(|| {
        format!(
            "`{name}` is a family of locks, for which `contend predict` takes one of its locks; a program runs with one that is named: \
             {}",
            kinds.join("; ")
        )
    })
}

/// Why a lock cannot replace objects of a kind.
fn cannot_be(lock: &str, kind: ObjectKind) -> String {
    format!("{lock} cannot be a {}: {}", kind.name(), refusal(kind))
}

fn refusal(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Rwlock => "readers cannot share it",
        ObjectKind::Mutex => "it does not fit into a mutex",
        ObjectKind::Spin => "it does not fit into a spin lock",
    }
}

/// A program to be started with the preload library.
#[derive(Debug)]
pub struct Launch<'a> {
    library: Library,
    program: &'a OsStr,
    arguments: &'a [OsString],
    swaps: Swaps,
    environment: Vec<(OsString, OsString)>,
    /// The program, once it is known that the library can be loaded into it.
    checked: Option<(Program, Option<Sanitizer>)>,
}

impl<'a> Launch<'a> {
    /// A program, looked for as the shell does, with its arguments.
    pub fn new(library: Library, program: &'a OsStr, arguments: &'a [OsString]) -> Self {
        let (swaps, environment) = (Swaps::default(), Vec::new());
        Self { library, program, arguments, swaps, environment, checked: None }
    }

    /// With these locks.
    pub fn swaps(mut self, swaps: Swaps) -> Self {
        self.swaps = swaps;
        self
    }

    /// With this variable in its environment, and in that of all that it starts.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// With its lock objects counted there.
    pub fn counted(self, tally: &SharedTally) -> Self {
        self.env(environment::TALLY, tally.path())
    }

    /// Fails now if [`Launch::command`] would for the program's sake.
    ///
    /// # Errors
    ///
    /// The program cannot be found, or is one that the library cannot be loaded into.
    pub fn check(mut self) -> anyhow::Result<Self> {
        let program = Program::find(self.program)?;
        let sanitizer = program.preloadable()?;
        self.checked = Some((program, sanitizer));
        Ok(self)
    }

    /// The command that starts it.
    ///
    /// # Errors
    ///
    /// The program cannot be found, or is one that the library cannot be loaded into; the library cannot be put where the
    /// program finds it.
    pub fn command(self) -> anyhow::Result<Command> {
        let (program, checked) = match self.checked {
            Some((program, sanitizer)) => (program, Some(sanitizer)),
            None => (Program::find(self.program)?, None),
        };
        let mut command = Command::new(program.path());
        command.arg0(self.program).args(self.arguments);
        for variable in environment::OF_A_RUN {
            command.env_remove(variable);
        }
        if self.swaps.is_empty() && self.environment.is_empty() {
            return Ok(command); // nothing to replace
        }
        let sanitizer = checked.map_or_else(|| program.preloadable(), Ok)?;
        if sanitizer == Some(Sanitizer::Address) {
            command.env(ASAN_OPTIONS, beside_a_preloaded_library(std::env::var_os(ASAN_OPTIONS)));
        }
        for (kind, name) in &self.swaps.kinds {
            command.env(environment::lock_of(*kind), name);
        }
        if !self.swaps.only.is_empty() {
            let separator = char::from(SEPARATOR).to_string();
            let line = |only: &Only| format!("{}={}", only.places.join(&separator), only.lock);
            let lines: Vec<_> = self.swaps.only.iter().map(line).collect();
            command.env(environment::ONLY, lines.join("\n"));
        }
        if self.swaps.pure {
            command.env(environment::PURE, "1");
        }
        if self.swaps.time_slice {
            command.env(TIME_SLICE, "1");
        }
        command.envs(self.environment);
        command.env("LD_PRELOAD", preload_list(&self.library.path()?));
        Ok(command)
    }
}

/// What AddressSanitizer's runtime reads its options from.
const ASAN_OPTIONS: &str = "ASAN_OPTIONS";

/// The options that let AddressSanitizer's runtime come after a preloaded library; it checks that it comes first, since it would
/// miss what a library before it allocates at load.
fn beside_a_preloaded_library(options: Option<OsString>) -> OsString {
    let mut all = options.unwrap_or_default();
    if !all.is_empty() {
        all.push(":");
    }
    all.push("verify_asan_link_order=0");
    all
}

/// The value of `LD_PRELOAD`: ours, then what is there already.
fn preload_list(library: &std::path::Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// The process group that the program runs in; 0 while there is none.
static GROUP: AtomicI32 = AtomicI32::new(0);

/// Starts a program in a process group of its own, which an interrupt of the command reaches too. From then on what a program leaves
/// behind comes to this process.
///
/// # Errors
///
/// It cannot be started.
pub fn spawn_group(command: &mut Command) -> anyhow::Result<Child> {
    extern "C" fn forward(signal: libc::c_int) {
        let group = GROUP.load(Ordering::Relaxed);
        // SAFETY: these calls are allowed in a handler.
        unsafe {
            if group != 0 {
                libc::killpg(group, libc::SIGKILL);
            }
            if !interrupt::take(signal) {
                interrupt::end(signal);
            }
        }
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
        if [libc::SIGHUP, libc::SIGQUIT].contains(&signal) && signals::is_ignored(signal) {
            continue; // by nohup(1), or by a script that started the command in the background
        }
        // SAFETY: the handler does what handlers may do.
        unsafe { signals::handle(signal, forward) };
    }
    let ignored = supervise::make_children_waitable();
    supervise::adopt_orphans();
    let in_child = move || {
        ignored.restore();
        // The terminal is the command's: what writes to it or sets it is not stopped, and what reads from it gets an error.
        signals::ignore(libc::SIGTTOU);
        signals::ignore(libc::SIGTTIN);
        supervise::die_with_parent()
    };
    // SAFETY: the calls are allowed after a fork. If the command is killed, the program is killed with it; and what is no
    // binary goes to a shell, which `execvp` does and `posix_spawn` does not.
    let command = unsafe { command.process_group(0).pre_exec(in_child) };
    let child = command.spawn().map_err(|error| program::cannot_start(command, error))?;
    GROUP.store(child.id().cast_signed(), Ordering::Relaxed);
    if interrupt::came() {
        supervise::kill_group(&child); // before there was a group to reach
    }
    Ok(child)
}

/// How long what a program leaves behind may take to end when it is killed.
const KILLED_WITHIN: Duration = Duration::from_secs(2);

/// Ends what is left of the group of a program of [`spawn_group`] that has ended or is to end now, and returns how the program
/// ended. Processes that have left the group run on.
///
/// # Errors
///
/// It cannot be waited for.
pub fn end_group(child: &mut Child) -> anyhow::Result<ExitStatus> {
    // The group is its own as long as its leader is not reaped.
    supervise::kill_group(child);
    GROUP.store(0, Ordering::Relaxed);
    let status = child.wait().context("cannot wait for the program")?;
    let killed = Instant::now();
    // What the program leaves behind comes to this process.
    loop {
        // A number of a group that has ended may be used again, though hardly by a child of this process.
        match waitpgid(Pid::from_child(child), WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) if killed.elapsed() < KILLED_WITHIN => std::thread::sleep(Duration::from_micros(200)),
            Ok(None) | Err(_) => return Ok(status), // none is left, or it does not end
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_is_for_every_kind_that_it_can_stand_in_for() {
        let kinds = |text: &str| Swaps::parse(text).unwrap().kinds.into_keys().collect::<Vec<_>>();
        assert_eq!(kinds("ticket"), [ObjectKind::Mutex, ObjectKind::Spin]);
        assert_eq!(kinds("rw"), [ObjectKind::Mutex, ObjectKind::Rwlock]);
        assert_eq!(kinds("mutex=ticket, rwlock=rw"), [ObjectKind::Mutex, ObjectKind::Rwlock]);
        let named = Swaps::parse("rw:writers").unwrap().kinds;
        assert_eq!((&*named[&ObjectKind::Mutex], &*named[&ObjectKind::Rwlock]), ("rw", "rw:writers"));
        for text in ["mutex=ticket,rw", "rw,mutex=ticket"] {
            let named = Swaps::parse(text).unwrap().kinds;
            assert_eq!(
                (&*named[&ObjectKind::Mutex], &*named[&ObjectKind::Rwlock]),
                ("ticket", "rw"),
                "{text}"
            );
        }
        assert_eq!(kinds("mutex=ticket,glibc"), [ObjectKind::Mutex]);
        assert!(Swaps::parse("glibc").unwrap().is_empty());
        assert!(Swaps::parse("mutex=glibc").unwrap().is_empty());
        assert!(Swaps::parse("mutex=mcs,mutex=clh").is_err_and(|why| why.contains("two locks for mutex")));
        for text in ["mcs,ticket", "mcs,glibc", "rw,mcs"] {
            assert!(Swaps::parse(text).is_err_and(|why| why.contains("two locks for every kind")), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        for (text, part) in [
            ("nosuch", "contend locks"),
            ("door=ticket", "mutex="),
            ("rwlock=ticket", "share"),
            ("spin=rw", "does not fit into a spin lock"),
            ("spin=adaptive", "does not fit into a spin lock"),
            ("mcs:writers", "no readers"),
            ("mutex=rw:writers", "rwlock="),
            ("rw:readers", "contend locks"),
            ("blocking", "for reader-writer locks rwsem"),
            ("rwlock=queue", "`queue` is a family of locks"),
            ("", "contend locks"),
        ] {
            let refusal = Swaps::parse(text).unwrap_err();
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
    }

    #[test]
    fn a_lock_is_to_blame_for_the_kinds_that_it_was_asked_for() {
        let why = |text: &str, kind| Swaps::parse(text).unwrap().why_not(kind);
        assert_eq!(why("mcs", ObjectKind::Rwlock), "mcs: readers cannot share it");
        assert_eq!(why("spin=mcs", ObjectKind::Rwlock), "no lock was chosen for them");
        assert_eq!(why("adaptive", ObjectKind::Spin), "adaptive: it does not fit into a spin lock");
        let only = vec![parse_site("rw=mcs").unwrap()];
        let why = Swaps { only, ..Swaps::default() }.why_not(ObjectKind::Rwlock);
        assert!(why.contains("cannot take their place"), "{why}");
    }

    #[test]
    fn a_site_may_contain_the_equals_sign() {
        assert_eq!(parse_site("a::operator===ticket").unwrap().site, "a::operator==");
        let refusal = parse_site("CacheDB::count#6=ticket").unwrap_err();
        assert!(refusal.contains("`CacheDB::count=ticket` is for all of them"), "{refusal}");
        for text in ["cache", "=ticket", "cache=nosuch"] {
            assert!(parse_site(text).is_err(), "{text}");
        }
    }
}
