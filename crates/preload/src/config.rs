//! The configuration, which travels in the environment so that it reaches every process that the program starts.
//!
//! [`pthread::environment`] has the variables, [`pthread::site`] says what sites are.
//!
//! The command checks all of it; what makes no sense here is said on standard error and left out.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicBool, Ordering};

use pthread::environment;
use pthread::object::ObjectKind;
use pthread::request::Request;
use pthread::site::SEPARATOR;

use crate::algorithm::{self, Algorithm};
use crate::choice::{self, Choice, IN_ARENA};
use crate::files::fresh_memory;
use crate::{arena, recorder, site, tally, time_slice};

static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Whether to say what goes wrong.
pub(crate) fn verbose() -> bool {
    VERBOSE.load(Ordering::Relaxed)
}

/// The environment of the process, as its constructor gets it.
#[derive(Clone, Copy)]
struct Environment(*const *const c_char);

impl Environment {
    /// The value of a variable, if it is set and not empty.
    fn get(self, name: &str) -> Option<&'static CStr> {
        let mut at = self.0;
        // SAFETY: the environment ends with a null pointer, and its strings with zeros.
        unsafe {
            while !at.is_null() && !(*at).is_null() {
                let line = CStr::from_ptr(*at);
                if let Some(value) = line.to_bytes().strip_prefix(name.as_bytes())
                    && value.first() == Some(&b'=')
                    && value.len() > 1
                {
                    return Some(CStr::from_ptr((*at).add(name.len() + 1)));
                }
                at = at.add(1);
            }
        }
        None
    }
}

/// A choice of the lock that is asked for, for one kind of object; `None` if it cannot replace it.
fn add(asked: &str, kind: ObjectKind) -> Option<u8> {
    let Request { name, writers_first } = Request::parse(asked);
    let algorithm = algorithm::find(name)?;
    if writers_first && algorithm.shared.is_none() {
        return None;
    }
    if !kind.accepts(algorithm.shared.is_some()) {
        return None;
    }
    exercise(&algorithm);
    let choice = Choice::new(algorithm, writers_first, kind.inline_spaces(recorder::enabled()));
    // SAFETY: called by the constructor.
    unsafe { choice::of(kind).add(choice) }
}

/// Takes and gives a lock once, so that what an algorithm or the machine does at its first use only is done now, and not
/// inside a lock call: a thread's block of queue nodes, the computer's topology.
fn exercise(algorithm: &Algorithm) {
    let Some(state) = fresh_memory(algorithm.bytes) else { return };
    // SAFETY: zeros, aligned to a page, and as long as the state.
    unsafe {
        (algorithm.acquire)(state);
        (algorithm.release)(state);
        libc::munmap(state.cast(), algorithm.bytes);
    }
}

/// Reads the configuration.
///
/// # Safety
/// The process has one thread. `environment` is what constructors get.
pub(crate) unsafe fn read(environment: *const *const c_char) {
    let environment = Environment(environment);
    if environment.get(environment::PURE).is_some_and(|value| value == c"1") {
        machine::host::set_spin_bound(u32::MAX);
    }
    VERBOSE
        .store(environment.get(environment::VERBOSE).is_some_and(|value| value == c"1"), Ordering::Relaxed);
    if let Some(value) = environment.get(time_slice::VARIABLE).map(CStr::to_bytes)
        && let Err(wrong) = time_slice::read(value)
    {
        complain(time_slice::VARIABLE.as_bytes(), value, wrong);
    }
    if let Some(path) = environment.get(environment::TALLY) {
        tally::attach(path);
    }
    for kind in ObjectKind::ALL {
        let variable = environment::lock_of(kind);
        let Some(name) =
            environment.get(variable).filter(|&name| name.to_bytes() != environment::GLIBC.as_bytes())
        else {
            continue;
        };
        match name.to_str().ok().and_then(|name| add(name, kind)) {
            Some(number) => choice::of(kind).choose_for_all(number),
            None => {
                complain(variable.as_bytes(), name.to_bytes(), "is no lock that can replace this kind");
            }
        }
    }
    if let Some(sites) = environment.get(environment::ONLY) {
        read_sites(sites);
    }
    reserve();
}

fn read_sites(sites: &'static CStr) {
    // The program may change its environment at any time.
    let Some(sites) = keep(sites.to_bytes()) else { return };
    for line in sites.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let Some(equals) = line.iter().rposition(|&byte| byte == b'=') else {
            complain(environment::ONLY.as_bytes(), line, "is not SITE=NAME");
            continue;
        };
        let name = core::str::from_utf8(&line[equals + 1..]).unwrap_or("");
        let numbers = ObjectKind::ALL.map(|kind| add(name, kind));
        if numbers.iter().all(Option::is_none) {
            complain(environment::ONLY.as_bytes(), line, "names no lock");
            continue;
        }
        // SAFETY: called by the constructor.
        if !unsafe { site::add(line[..equals].split(|&byte| byte == SEPARATOR), numbers) } {
            complain(environment::ONLY.as_bytes(), line, "is one site too many");
        }
    }
}

/// A copy that stays.
fn keep(text: &[u8]) -> Option<&'static [u8]> {
    let copy = fresh_memory(text.len())?;
    // SAFETY: as long as the text, known to no other thread, and never unmapped.
    unsafe {
        copy.copy_from_nonoverlapping(text.as_ptr(), text.len());
        Some(core::slice::from_raw_parts(copy, text.len()))
    }
}

/// Reserves the arena for the largest state that goes there.
fn reserve() {
    let (mut bytes, mut align, mut used) = (0, 1, recorder::enabled());
    for kind in ObjectKind::ALL {
        for choice in choice::of(kind).choices_made().filter(|choice| choice.offset == IN_ARENA) {
            bytes = bytes.max(choice.algorithm.bytes);
            align = align.max(choice.algorithm.align);
            used = true;
        }
    }
    if used {
        arena::reserve(bytes, align);
    }
}

/// A line on standard error.
fn complain(variable: &[u8], value: &[u8], what: &str) {
    say(&[b"contend: ", variable, b": `", value, b"` ", what.as_bytes(), b"; left out\n"]);
}

/// Writes the parts to standard error.
pub(crate) fn say<const PARTS: usize>(parts: &[&[u8]; PARTS]) {
    let parts =
        parts.map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
    // SAFETY: the parts are readable; a failing write has nowhere to be told.
    unsafe { libc::writev(2, parts.as_ptr(), parts.len() as i32) };
}
