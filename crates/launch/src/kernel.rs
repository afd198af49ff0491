//! The kernel's contended locks, recorded into the profile of a program while it runs.

use kernel_locks::watch::Seen;
use kernel_locks::{Missing, Scope, Symbols, Wait, Watch};
use profile::session::{KernelSection, KernelWait, Recording, StackOfLock};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The buffers are read so often at least: what is read stays in memory until the next time.
const PAUSE: Duration = Duration::from_millis(20);

/// A watch over the kernel's locks whose waits go into a profile.
#[derive(Debug)]
pub(super) struct KernelLocks {
    watch: Watch,
    machine: bool,
}

impl KernelLocks {
    /// Begins to watch. With [`Scope::Program`] the calling thread starts the program next.
    pub(super) fn watch(scope: Scope) -> Result<Self, Missing> {
        Ok(Self { watch: Watch::open(scope)?, machine: scope == Scope::Machine })
    }

    /// Counts waits until the program has ended. If the profile has no space for them, the program runs on all the same.
    pub(super) fn record(
        self,
        recording: &Recording,
        command: &[OsString],
        ended: &AtomicBool,
    ) -> io::Result<()> {
        let Self { mut watch, machine } = self;
        let mut locks = Counted {
            section: KernelSection::begin(recording, command, machine)?,
            symbols: Symbols::of_this_kernel().unwrap_or_default(),
            known: HashMap::new(),
        };
        let of_section = locks.section.watch();
        of_section.nameless.store(locks.symbols.is_empty().into(), Relaxed);
        of_section.cores.store(watch.cores() as u64, Relaxed);
        while !ended.load(Relaxed) {
            watch.sleep(PAUSE);
            watch.drain(|wait| locks.count(wait));
            locks.note(watch.seen());
        }
        let seen = watch.finish(|wait| locks.count(wait));
        locks.note(seen);
        Ok(())
    }
}

/// What waits are counted together by: the address of a variable (0 for locks in allocated memory), the flags, and the stack.
type Key = (u64, u32, Box<[u64]>);

/// What was counted so far.
struct Counted<'r> {
    section: KernelSection<'r>,
    symbols: Symbols,
    known: HashMap<Key, Option<StackOfLock>>,
}

impl Counted<'_> {
    fn count(&mut self, wait: Wait) {
        let Wait { lock, flags, spun_ns, slept_ns, acquired, stack, released_by } = wait;
        let variable = self.symbols.variable(lock);
        let key = (if variable.is_some() { lock } else { 0 }, flags, stack);
        let (section, symbols) = (&mut self.section, &self.symbols);
        let place = match self.known.get(&key) {
            Some(&known) => known,
            None => {
                let named = symbols.functions(&key.2);
                let functions: Vec<_> = named.iter().map(|(start, name)| (*start, &**name)).collect();
                let site = || symbols.call_site(&key.2).unwrap_or((0, "(unknown caller)"));
                let place = variable.as_deref().map_or_else(site, |name| (lock, name));
                let place = section.stack(place, variable.is_some(), flags, &functions);
                self.known.insert(key, place);
                place
            }
        };
        let wait = KernelWait { object: lock, spun_ns, slept_ns, acquired };
        section.count(place, &wait);
        let releaser = released_by.and_then(|stack| symbols.release_site(&stack));
        if let (Some(place), Some(function)) = (place, releaser) {
            section.count_release(place, function, &wait);
        }
    }

    fn note(&self, seen: Seen) {
        let watch = self.section.watch();
        let set = |word: &AtomicU64, value| word.store(value, Relaxed);
        set(&watch.events, seen.events);
        set(&watch.lost, seen.lost);
        set(&watch.unbegun, seen.unbegun);
        set(&watch.unended, seen.unended);
        self.section.note_time();
    }
}
