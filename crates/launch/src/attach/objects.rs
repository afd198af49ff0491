//! What a thread waits for: told by the functions that the wait was made in, or else by what lies around the futex.

use super::futex::{Enter, PRIVATE, threads};
use super::futex_waits::CONTENDED;
use super::living;
use profile::{LockKind, ObjectKind};
use pthread::object::{mutex, rwlock};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// A function that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// Of glibc's mutexes.
    Mutex,
    /// Of glibc's reader-writer locks.
    Rwlock {
        /// For reading.
        shared: bool,
    },
    /// Of glibc's condition variables.
    Condition {
        /// Where they have the two words that threads sleep on, bytes from their start.
        words: u64,
    },
    /// Of glibc's semaphores.
    Semaphore,
    /// Waits for the end of a thread.
    Join,
    /// Of a mutex, or a reader-writer lock for writing, whose futex is all of it: Rust's.
    FutexLock(ObjectKind),
    /// Of a reader-writer lock of that kind, for reading.
    FutexRead,
    /// The same for writing: Rust's writers have a futex of their own, which is the second word.
    FutexWrite,
    /// Of parking_lot, whose threads each wait at a futex of their own, which is beside the address of what they wait for.
    Parked {
        /// What that is.
        kind: LockKind,
        /// For reading.
        shared: bool,
    },
    /// Waits for something that happens, by a futex of its own: Rust's condition variables and parked threads.
    FutexCondition,
    /// glibc's way for others to call futex(2): its caller is the one that waits.
    Syscall,
}

const PARKED_READER: Function = Function::Parked { kind: LockKind::Object(ObjectKind::Rwlock), shared: true };
const PARKED_WRITER: Function =
    Function::Parked { kind: LockKind::Object(ObjectKind::Rwlock), shared: false };

/// As glibc has them from 2.25 to 2.40.
const CONDITION: Function = Function::Condition { words: 40 };
/// As it has them from 2.41 on.
const SHORTER_CONDITION: Function = Function::Condition { words: 32 };

/// The functions by parts of their symbols, the special ones first.
const FUNCTIONS: [(&str, Function); 25] = [
    ("pthread_cond_", CONDITION),
    ("cnd_wait", CONDITION),
    ("cnd_timedwait", CONDITION),
    ("pthread_mutex_", Function::Mutex),
    ("mtx_lock", Function::Mutex),
    ("mtx_timedlock", Function::Mutex),
    ("pthread_rwlock_rd", Function::Rwlock { shared: true }),
    ("pthread_rwlock_timedrd", Function::Rwlock { shared: true }),
    ("pthread_rwlock_clockrd", Function::Rwlock { shared: true }),
    ("pthread_rwlock_", Function::Rwlock { shared: false }),
    ("5mutex5futex", Function::FutexLock(ObjectKind::Mutex)),
    ("14read_contended", Function::FutexRead),
    ("15write_contended", Function::FutexWrite),
    // Not `lock_common`, which both call.
    ("RawRwLock16lock_shared_slow", PARKED_READER),
    ("RawRwLock19lock_exclusive_slow", PARKED_WRITER),
    ("RawRwLock20lock_upgradable_slow", PARKED_WRITER),
    ("RawRwLock16wait_for_readers", PARKED_WRITER),
    (
        "11parking_lot9raw_mutex",
        Function::Parked { kind: LockKind::Object(ObjectKind::Mutex), shared: false },
    ),
    ("11parking_lot7condvar", Function::Parked { kind: LockKind::Condition, shared: false }),
    ("6rwlock5futex", Function::FutexLock(ObjectKind::Rwlock)),
    ("7condvar5futex", Function::FutexCondition),
    ("14thread_parking", Function::FutexCondition),
    ("4once5futex", Function::FutexCondition),
    ("thrd_join", Function::Join),
    ("mtx_clocklock", Function::Mutex),
];

/// A function that glibc has from 2.41 on.
pub(super) const SINCE_2_41: &str = "sched_getattr";

/// The same for functions whose names have to begin so, underscores aside: such parts are in other names.
const PREFIXES: [(&str, Function); 6] = [
    ("new_sem_wait", Function::Semaphore), // in static programs
    ("sem_wait", Function::Semaphore),
    ("sem_timedwait", Function::Semaphore),
    ("sem_clockwait", Function::Semaphore),
    ("pthread_join", Function::Join),
    ("pthread_clockjoin", Function::Join),
];

impl Function {
    /// The function of a symbol, if it is one that waits.
    pub(super) fn of(symbol: &str) -> Option<Self> {
        if symbol == "syscall" {
            return Some(Self::Syscall);
        }
        let plain = symbol.trim_start_matches('_');
        let prefixed = PREFIXES.iter().find(|(prefix, _)| plain.starts_with(prefix));
        let found = prefixed.or_else(|| FUNCTIONS.iter().find(|(part, _)| symbol.contains(part)));
        found.map(|&(_, function)| function)
    }

    /// Whether it is the C library's, of its own objects.
    fn is_of_c_library(self) -> bool {
        matches!(
            self,
            Self::Mutex | Self::Rwlock { .. } | Self::Condition { .. } | Self::Semaphore | Self::Join
        )
    }

    /// The same function in a file that defines the symbol [`SINCE_2_41`].
    pub(super) fn since_2_41(self) -> Self {
        match self {
            Self::Condition { .. } => SHORTER_CONDITION,
            other => other,
        }
    }
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Object {
    /// The end of another thread.
    Thread,
    /// An object in memory.
    Memory {
        /// Of which kind.
        kind: LockKind,
        /// Where it begins.
        address: u64,
        /// Whether the wait is one for reading.
        shared: bool,
        /// Whether it is laid out as glibc's, which say who holds them.
        of_glibc: bool,
    },
}

/// The memory of a process and its threads, read only.
#[derive(Debug)]
pub(super) struct Memory {
    pid: u32,
    file: Option<File>,
    inside: Option<Identifiers>,
}

/// The threads of a process in a container, as they call themselves.
#[derive(Debug)]
struct Identifiers {
    pid: u32,
    /// What the process calls itself.
    first: u32,
    /// The identifiers here by those there.
    known: RefCell<HashMap<u32, u32>>,
}

impl Identifiers {
    /// `None` for a process whose threads are called there as they are here.
    fn of(pid: u32) -> Option<Self> {
        let first = inside(&directory_of(pid, pid)).filter(|&inside| inside != pid)?;
        Some(Self { pid, first, known: RefCell::default() })
    }

    /// The thread that has called itself this.
    fn thread(&self, tid: u32) -> Option<u32> {
        let is_it = |here: u32| inside(&directory_of(self.pid, here)) == Some(tid);
        let known = self.known.borrow().get(&tid).copied().filter(|&here| is_it(here));
        known.or_else(|| {
            let here = threads(self.pid).ok()?.into_iter().find(|&here| is_it(here))?;
            self.known.borrow_mut().insert(tid, here);
            Some(here)
        })
    }
}

/// Where `/proc` shows a thread.
fn directory_of(pid: u32, tid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/task/{tid}"))
}

/// What a process or thread, of which `/proc` has this directory, calls itself: the last of its identifiers, of the innermost namespace.
pub(super) fn inside(directory: &Path) -> Option<u32> {
    let status = std::fs::read_to_string(directory.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

/// Where glibc's mutex has its holder, how many hold it or wait with a condition, and its kind; bytes from its start.
const OWNER: usize = 8;
const USERS: usize = 12;
/// Bits that a kind of glibc's mutexes may have.
const KINDS: u32 = 0x3ff;
/// More threads than have a mutex at a time.
const MANY: u32 = 1 << 20;

/// The operation by which glibc's mutexes wait.
const WAIT: u32 = 0;
/// That by which glibc waits with a time, or where a wait can be cancelled.
const WAIT_BITSET: u32 = 9;

/// Where parking_lot's threads have the address of what they wait for, before the futex; bytes. The bits below are those of its
/// second queue for one lock, of writers who wait for readers to leave.
const PARKED_ON: u64 = 32;
const SECOND_QUEUE: u64 = 7;

/// Where glibc's reader-writer locks have the first of the two words that threads sleep on.
const RWLOCK_WORDS: u64 = 8;

impl Memory {
    /// The memory of a process. Without the right to it, nothing can be read.
    pub(super) fn of(pid: u32) -> Self {
        Self { pid, file: File::open(living(pid).join("mem")).ok(), inside: Identifiers::of(pid) }
    }

    /// As many bytes from an address as can be read.
    pub(super) fn bytes(&self, address: u64, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most];
        let read = self.file.as_ref().and_then(|file| file.read_at(&mut bytes, address).ok());
        bytes.truncate(read.unwrap_or(0));
        bytes
    }

    fn u32(&self, address: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(address, 4).try_into().ok()?))
    }

    /// Whether there is anything at an address, or the process has ended.
    pub(super) fn is_there(&self, address: u64) -> bool {
        self.u32(address).is_some()
    }

    /// Whether this is the identifier of a thread of the process, as the process has it.
    fn is_thread(&self, tid: u32) -> bool {
        self.thread(tid).is_some()
    }

    /// The thread that the process calls so.
    fn thread(&self, tid: u32) -> Option<u32> {
        match &self.inside {
            _ if tid == 0 => None,
            Some(inside) => inside.thread(tid),
            None => directory_of(self.pid, tid).exists().then_some(tid),
        }
    }

    /// What a call waits for, which was made in `function` if that is known; else it may have been made by the C library.
    pub(super) fn object(&self, call: &Enter, function: Option<Function>, by_c_library: bool) -> Object {
        let here = |kind| Object::Memory { kind, address: call.word, shared: false, of_glibc: false };
        // A thread that has waited for a condition waits for its mutex, in the same function but by another operation.
        let function = function.map(|function| match function {
            Function::Condition { .. } if (call.operation & !PRIVATE, call.value) == (WAIT, CONTENDED) => {
                Function::Mutex
            }
            function => function,
        });
        // The C library's own functions do not call its `syscall`, so that what lies there is not its object, whatever it looks like.
        let function = match &call.called {
            Some(_) => function.filter(|function| !function.is_of_c_library()),
            None => function.or_else(|| self.guess(call, by_c_library)),
        };
        match function {
            Some(Function::Join) => Object::Thread,
            Some(Function::Mutex) => {
                let kind = LockKind::Object(ObjectKind::Mutex);
                Object::Memory { kind, address: call.word, shared: false, of_glibc: true }
            }
            Some(Function::FutexLock(kind)) => here(LockKind::Object(kind)),
            Some(Function::FutexRead) => {
                let kind = LockKind::Object(ObjectKind::Rwlock);
                Object::Memory { kind, address: call.word, shared: true, of_glibc: false }
            }
            Some(Function::FutexWrite) => Object::Memory {
                kind: LockKind::Object(ObjectKind::Rwlock),
                address: call.word.saturating_sub(size_of::<u32>() as u64),
                shared: false,
                of_glibc: false,
            },
            Some(Function::Parked { kind, shared }) => match self.parked_on(call, kind) {
                Some(address) => Object::Memory { kind, address, shared, of_glibc: false },
                None => here(LockKind::Futex),
            },
            Some(Function::Rwlock { shared }) => {
                let address = (call.word & !7).saturating_sub(RWLOCK_WORDS);
                Object::Memory { kind: LockKind::Object(ObjectKind::Rwlock), address, shared, of_glibc: true }
            }
            Some(Function::Condition { words }) => {
                let address = (call.word & !7).saturating_sub(words);
                Object::Memory { kind: LockKind::Condition, address, shared: false, of_glibc: true }
            }
            Some(Function::FutexCondition) => here(LockKind::Condition),
            Some(Function::Semaphore) => here(LockKind::Semaphore),
            Some(Function::Syscall) | None => here(LockKind::Futex),
        }
    }

    /// By what lies at the futex: a thread's identifier is waited for by who joins it, and a mutex has a plausible holder. Of what
    /// glibc waits for, a semaphore alone is 0; its function is left by a jump, so that no return address tells it.
    fn guess(&self, call: &Enter, by_c_library: bool) -> Option<Function> {
        if call.operation & PRIVATE == 0 && self.is_joined(call) {
            return Some(Function::Join);
        }
        if by_c_library && (call.operation & WAIT_BITSET, call.value) == (WAIT_BITSET, 0) {
            return Some(Function::Semaphore);
        }
        let bytes = self.bytes(call.word, mutex::KIND + 4);
        (call.value == CONTENDED && self.is_mutex(&bytes)).then_some(Function::Mutex)
    }

    /// The object that a thread of parking_lot waits for at its futex. It stays there until the thread waits again.
    fn parked_on(&self, call: &Enter, kind: LockKind) -> Option<u64> {
        let told = call.called.as_ref().map(|called| called.parked_on).filter(|&told| told != 0);
        let key = match told {
            Some(told) => told,
            None => {
                let bytes = self.bytes(call.word.checked_sub(PARKED_ON)?, size_of::<u64>());
                u64::from_le_bytes(bytes.try_into().ok()?)
            }
        };
        let of_bytes = kind == LockKind::Object(ObjectKind::Mutex); // one byte at any address
        let address = if of_bytes { key } else { key & !SECOND_QUEUE };
        (told.is_some() || !self.bytes(address, 1).is_empty()).then_some(address)
    }

    /// Whether a call waits for the end of a thread, which may have ended by now. Then its identifier is gone from where it was: the
    /// kernel has written 0, glibc -1 when it was joined, another thread has its memory, or that is unmapped. Identifiers grow from
    /// that of the process.
    fn is_joined(&self, call: &Enter) -> bool {
        const JOINED: u32 = -1_i32 as u32;
        let ended =
            || self.u32(call.word).is_none_or(|now| [0, JOINED].contains(&now) || self.is_thread(now));
        let first = self.inside.as_ref().map_or(self.pid, |inside| inside.first);
        self.is_thread(call.value) || call.value > first && ended()
    }

    /// Whether these bytes, up to the kind, may be one of glibc's mutexes.
    fn is_mutex(&self, bytes: &[u8]) -> bool {
        let [Some(state), Some(owner), Some(users), Some(kind)] =
            [0, OWNER, USERS, mutex::KIND].map(|at| word(bytes, at))
        else {
            return false;
        };
        state <= 2 && users < MANY && kind & !KINDS == 0 && (owner == 0 || self.is_thread(owner))
    }

    /// The thread that holds one of glibc's locks, if what lies there is plausible.
    pub(super) fn holder(&self, kind: LockKind, address: u64) -> Option<u32> {
        let holder = match kind {
            LockKind::Object(ObjectKind::Mutex) => {
                let bytes = self.bytes(address, mutex::KIND + 4);
                word(&bytes, OWNER).filter(|_| self.is_mutex(&bytes))?
            }
            LockKind::Object(ObjectKind::Rwlock) => self.u32(address + rwlock::WRITER as u64)?,
            _ => return None,
        };
        self.thread(holder)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::from_ref;

    #[test]
    fn functions_that_wait_are_known_by_their_symbols() {
        for (symbol, function) in [
            ("pthread_mutex_lock", Some(Function::Mutex)),
            ("___pthread_mutex_lock", Some(Function::Mutex)),
            ("__pthread_cond_wait", Some(CONDITION)),
            ("pthread_rwlock_rdlock", Some(Function::Rwlock { shared: true })),
            ("pthread_rwlock_clockwrlock", Some(Function::Rwlock { shared: false })),
            ("sem_wait", Some(Function::Semaphore)),
            ("assemble_waiters", None),
            ("pthread_join", Some(Function::Join)),
            (
                "_ZN3std3sys4sync5mutex5futex5Mutex14lock_contended17h0123456789abcdefE",
                Some(Function::FutexLock(ObjectKind::Mutex)),
            ),
            (
                "_ZN3std3sys4sync6rwlock5futex6RwLock14read_contended17h0123456789abcdefE",
                Some(Function::FutexRead),
            ),
            (
                "_ZN3std3sys4sync6rwlock5futex6RwLock15write_contended17h0123456789abcdefE",
                Some(Function::FutexWrite),
            ),
            (
                "_RNvMs_NtCs1a2b_11parking_lot9raw_mutexNtB4_8RawMutex9lock_slow",
                Some(Function::Parked { kind: LockKind::Object(ObjectKind::Mutex), shared: false }),
            ),
            (
                "_ZN11parking_lot10raw_rwlock9RawRwLock16lock_shared_slow17h0123456789abcdefE",
                Some(PARKED_READER),
            ),
            ("_ZN11parking_lot10raw_rwlock9RawRwLock11lock_common17h0123456789abcdefE", None),
            (
                "_RNvMs_NtCs1a2b_11parking_lot10raw_rwlockNtB4_9RawRwLock16wait_for_readers",
                Some(PARKED_WRITER),
            ),
            (
                "_ZN11parking_lot7condvar7Condvar19wait_until_internal17h0123456789abcdefE",
                Some(Function::Parked { kind: LockKind::Condition, shared: false }),
            ),
            (
                "_ZN3std3sys4sync7condvar5futex7Condvar9wait_optional_timeout17h01E",
                Some(Function::FutexCondition),
            ),
            ("syscall", Some(Function::Syscall)),
            ("main", None),
        ] {
            assert_eq!(Function::of(symbol), function, "{symbol}");
        }
    }

    /// The memory of these tests, with objects as glibc has them.
    #[test]
    fn objects_are_told_by_what_lies_around_the_futex() {
        let memory = Memory::of(std::process::id());
        // SAFETY: the call takes nothing.
        let own = unsafe { libc::gettid() }.cast_unsigned();
        let call = |word: &u32, operation, value| Enter {
            word: from_ref(word).addr() as u64,
            operation,
            value,
            stack: None,
            called: None,
        };
        let held = [2, 0, own, 1, 0, 0];
        let of_held = LockKind::Object(ObjectKind::Mutex);
        let waits = call(&held[0], PRIVATE, 2);
        let address = waits.word;
        assert_eq!(
            memory.object(&waits, None, false),
            Object::Memory { kind: of_held, address, shared: false, of_glibc: true }
        );
        assert_eq!(memory.holder(of_held, address), Some(own));
        // A holder that is no thread of the process, and a kind that no mutex has.
        for other in [[2, 0, 1 << 30, 1, 0, 0], [2, 0, own, 1, 1 << 20, 0]] {
            let waits = call(&other[0], PRIVATE, 2);
            let kind = LockKind::Futex;
            let address = waits.word;
            assert_eq!(
                memory.object(&waits, None, false),
                Object::Memory { kind, address, shared: false, of_glibc: false }
            );
            assert_eq!(memory.holder(of_held, waits.word), None);
        }
        assert_eq!(memory.object(&call(&own, 0, own), None, true), Object::Thread);
        // Who is joined has ended when the wait is over, and another thread may lie where it lay.
        let ended = u32::MAX >> 2;
        for now in [0, u32::MAX, own] {
            assert_eq!(memory.object(&call(&now, WAIT_BITSET, ended), None, true), Object::Thread);
        }
        let shared = LockKind::Futex;
        for (now, operation, value) in
            [(7, WAIT_BITSET, ended), (0, PRIVATE | WAIT_BITSET, ended), (0, WAIT_BITSET, 3)]
        {
            let waits = call(&now, operation, value);
            let expected =
                Object::Memory { kind: shared, address: waits.word, shared: false, of_glibc: false };
            assert_eq!(memory.object(&waits, None, true), expected);
        }
        let semaphore = [0, 1, 0, 0];
        for (by_c_library, kind) in [(true, LockKind::Semaphore), (false, LockKind::Futex)] {
            let waits = call(&semaphore[0], PRIVATE | WAIT_BITSET, 0);
            let expected = Object::Memory { kind, address: waits.word, shared: false, of_glibc: false };
            assert_eq!(memory.object(&waits, None, by_c_library), expected);
        }
        let condition = [0_u64; 6];
        let address = condition.as_ptr().addr() as u64;
        for (words, function) in [(10, CONDITION), (8, CONDITION.since_2_41())] {
            for second in [0, 1] {
                let sleeps = Enter { word: address + 4 * (words + second), ..call(&own, PRIVATE, 0) };
                let kind = LockKind::Condition;
                let expected = Object::Memory { kind, address, shared: false, of_glibc: true };
                assert_eq!(memory.object(&sleeps, Some(function), true), expected);
            }
        }
    }
    /// What a thread waits for that does this.
    fn waited_for(
        what: impl FnOnce() + Send + 'static,
        release: impl FnOnce(),
        is_right: impl Fn(Object) -> bool,
    ) -> Option<Object> {
        let own = std::process::id();
        let memory = Memory::of(own);
        let mut modules = super::super::modules::Modules::of(own);
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: the call takes nothing.
            tell.send(unsafe { libc::gettid() }.cast_unsigned()).unwrap();
            what();
        });
        let tid = told.recv().unwrap();
        let begun = std::time::Instant::now();
        let mut last = None;
        while begun.elapsed() < std::time::Duration::from_secs(30) && !last.is_some_and(&is_right) {
            std::thread::sleep(std::time::Duration::from_millis(5));
            last = super::super::modules::asleep(own, tid, &memory).map(|call| {
                let addresses = modules.unwind(call.stack.as_ref().unwrap());
                memory.object(&call, modules.function(&addresses), modules.is_by_c_library(&addresses))
            });
        }
        release();
        thread.join().unwrap();
        last
    }

    /// parking_lot's threads have a futex each, and Rust's writers one beside the readers'; each lock is one object all the same.
    #[test]
    fn locks_of_rust_are_told_by_where_they_are() {
        use std::sync::RwLock;
        static MUTEX: parking_lot::Mutex<u8> = parking_lot::Mutex::new(0);
        static PARKED: parking_lot::RwLock<u64> = parking_lot::RwLock::new(0);
        static STANDARD: RwLock<u64> = RwLock::new(0);
        if std::fs::read_to_string("/proc/thread-self/syscall").is_err() {
            return println!("skipped: /proc does not tell the system calls of threads");
        }
        let rwlock = LockKind::Object(ObjectKind::Rwlock);
        let inside = |object, kind, shared, start: u64, size: usize| match object {
            Object::Memory { kind: found, address, shared: as_reader, of_glibc: false } => {
                (found, as_reader) == (kind, shared) && (start..start + size as u64).contains(&address)
            }
            _ => false,
        };
        let start = from_ref(&MUTEX).addr() as u64;
        let mutex =
            |object| inside(object, LockKind::Object(ObjectKind::Mutex), false, start, size_of_val(&MUTEX));
        let held = MUTEX.lock();
        let found = waited_for(|| drop(MUTEX.lock()), || drop(held), mutex);
        assert!(found.is_some_and(mutex), "{found:?} is not {start:#x}");
        let start = from_ref(&PARKED).addr() as u64;
        for shared in [false, true] {
            let parked = |object| inside(object, rwlock, shared, start, size_of_val(&PARKED));
            let wait = move || if shared { drop(PARKED.read()) } else { drop(PARKED.write()) };
            let held = PARKED.write();
            let found = waited_for(wait, || drop(held), parked);
            assert!(found.is_some_and(parked), "{found:?} is not {start:#x}");
        }
        let start = from_ref(&STANDARD).addr() as u64;
        let places = [false, true].map(|shared| {
            let standard = |object| inside(object, rwlock, shared, start, size_of_val(&STANDARD));
            let wait = move || {
                if shared { drop(STANDARD.read().unwrap()) } else { drop(STANDARD.write().unwrap()) }
            };
            let held = STANDARD.write().unwrap();
            let found = waited_for(wait, || drop(held), standard);
            assert!(found.is_some_and(standard), "{found:?} is not {start:#x}");
            let Some(Object::Memory { address, .. }) = found else { unreachable!("a place") };
            address
        });
        assert_eq!(places[0], places[1], "readers and writers wait for one lock");
    }
}
