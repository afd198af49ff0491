//! Which functions only wrap locking, by their names: then their callers say more.

use crate::symbol::{Part, is_hash_of_rust, visit};

/// Words that name a lock.
const NOUNS: [&str; 16] = [
    "mutex", "lock", "rwlock", "spinlock", "spin", "latch", "mtx", "futex", "semaphore", "monitor", "cond",
    "condvar", "condition", "guard", "locker", "critical",
];

/// Words that name what is done to a lock.
const VERBS: [&str; 14] = [
    "lock", "unlock", "trylock", "rdlock", "wrlock", "rlock", "wlock", "acquire", "enter", "wait",
    "timedlock", "locked", "timedwait", "clocklock",
];

/// Words that may follow the verb.
const TRAILERS: [&str; 28] = [
    "shared", "exclusive", "reader", "writer", "read", "write", "timed", "slow", "fast", "path", "internal",
    "impl", "func", "for", "until", "try", "nested", "contended", "recursive", "upgrade", "loop", "common",
    "full", "inline", "irq", "irqsave", "variable", "section",
];

/// Words that end in "lock" and are none.
const NOT_LOCKS: [&str; 8] =
    ["block", "clock", "unblock", "deadlock", "interlock", "stock", "flock", "oclock"];

/// Whether the function of a symbol is a wrapper around locking, by its name.
///
/// A method of a class that is named as a lock is (`kc::ScopedRWLock::ScopedRWLock`), and so is a function whose name
/// ends in what is done to a lock (`LWLockAcquire`, `my_mutex_lock`, `PyThread_acquire_lock_timed`).
pub fn is_wrapper(symbol: &[u8]) -> bool {
    let (mut class, mut method): (Option<&[u8]>, &[u8]) = (None, b"");
    visit(symbol, &mut |part| {
        if matches!(part, Part::Name(name) if is_hash_of_rust(name)) {
            return;
        }
        class = Some(method).filter(|class| !class.is_empty());
        method = match part {
            Part::Name(name) => name,
            Part::Constructor | Part::Destructor => method,
            Part::Operator(_) => b"operator",
            Part::Lambda | Part::Unnamed => b"lambda",
        };
    });
    let start = method.iter().position(|&byte| byte != b'_').unwrap_or(method.len());
    ["pthread_", "gthread_", "mtx_", "cnd_"]
        .iter()
        .any(|prefix| method[start..].starts_with(prefix.as_bytes()))
        || class.is_some_and(names_lock)
        || ends_in_locking(method)
        || drops_guard(symbol)
}

/// Whether it is Rust's code that drops the guard of a lock: what releases the lock is its caller.
fn drops_guard(symbol: &[u8]) -> bool {
    let has = |word: &[u8]| symbol.windows(word.len()).any(|window| window == word);
    has(b"Guard") && (has(b"drop_in_place") || has(b"Drop")) || has(b"4core3mem4drop")
}

/// Whether the last word that is no trailer names a lock.
fn names_lock(class: &[u8]) -> bool {
    words(class).filter(|word| !is_one_of(word, &TRAILERS)).last().is_some_and(is_noun)
}

fn ends_in_locking(function: &[u8]) -> bool {
    let (mut last, mut noun_before, mut noun) = (&b""[..], false, false);
    for word in words(function) {
        if !is_one_of(word, &TRAILERS) {
            (last, noun_before) = (word, noun);
        }
        noun |= is_noun(word);
    }
    is_one_of(last, &VERBS) && (ends_with(last, "lock") || noun_before)
}

fn is_noun(word: &[u8]) -> bool {
    is_one_of(word, &NOUNS)
        || ends_with(word, "mutex")
        || ends_with(word, "lock") && !is_one_of(word, &NOT_LOCKS)
        || ends_with(word, "guard")
}

fn is_one_of(word: &[u8], list: &[&str]) -> bool {
    list.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

fn ends_with(word: &[u8], end: &str) -> bool {
    word.len() >= end.len() && word[word.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
}

/// The words of an identifier: split at what is neither letter nor digit, and where capitals begin.
fn words(identifier: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = identifier;
    core::iter::from_fn(move || {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
        let start = rest.iter().position(is_part)?;
        rest = &rest[start..];
        let begins = |at: usize| {
            let (before, this) = (rest[at - 1], rest[at]);
            let next_is_small = rest.get(at + 1).is_some_and(u8::is_ascii_lowercase);
            this.is_ascii_uppercase()
                && (before.is_ascii_lowercase() || before.is_ascii_uppercase() && next_is_small)
        };
        let end = (1..rest.len()).find(|&at| !is_part(&rest[at]) || begins(at)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_are_told_from_what_uses_them() {
        for wrapper in [
            "pthread_mutex_lock",
            "___pthread_rwlock_rdlock",
            "_ZL20__gthread_mutex_lockP15pthread_mutex_t",
            "_ZNSt5mutex4lockEv",
            "_ZNSt10lock_guardISt5mutexEC2ERS0_",
            "_ZNSt11unique_lockISt5mutexE4lockEv",
            "_ZSt4lockISt5mutexS0_JEEvRT_RT0_DpRT1_",
            "_ZNSt12shared_mutex11lock_sharedEv",
            "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
            "_ZN5boost5mutex4lockEv",
            "_ZN4absl5Mutex4LockEv",
            "_ZN12kyotocabinet6RWLock11lock_readerEv",
            "_ZN12kyotocabinet10SpinRWLock11lock_writerEv",
            "_ZN12kyotocabinet12ScopedRWLockC1EPNS_6RWLockEb",
            "_ZN7rocksdb4port5Mutex4LockEv",
            "_ZN7rocksdb9MutexLockC2EPNS_4port5MutexE",
            "_ZN7storage10LatchGuard7acquireEv",
            "_ZN10LatchGuardD2Ev",
            "LWLockAcquire",
            "my_mutex_lock",
            "my_mutex_lock.part.0",
            "PyThread_acquire_lock_timed",
            "rw_lock_x_lock_func",
            "mtx_lock",
            "spin_lock_irqsave",
            "_ZN81_$LT$contend_recorded..Recorded$LT$R$GT$$u20$as$u20$lock_api..mutex..RawMutex$GT$4lock17h0123456789abcdefE",
            "_ZN8lock_api6rwlock19RwLock$LT$R$C$T$GT$4read17h0123456789abcdefE",
            "_ZN16contend_recorded17Recorded$LT$R$GT$13recorded_lock17h0123456789abcdefE.llvm.1234",
            "_ZN4core3ptr63drop_in_place$LT$std..sync..poison..mutex..MutexGuard$LT$u64$GT$$GT$17h0123456789abcdefE",
            "_ZN79_$LT$std..sync..poison..mutex..MutexGuard$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0123456789abcdefE",
            "_ZN4core3mem4drop17h0123456789abcdefE",
        ] {
            assert!(is_wrapper(wrapper.as_bytes()), "{wrapper}");
        }
        for user in [
            "_ZN12kyotocabinet6HashDB6acceptEPKcmPNS_2DB7VisitorEb",
            "main",
            "lock_users",
            "process_block",
            "update_clock",
            "_ZN7rocksdb13LRUCacheShard6LookupERKNS_5SliceE",
            "_ZN9LockTable14find_deadlocksEv",
            "item_get",
            "_Z10read_blocki",
            "_Znwm",
            "_ZZN5Cache3getEvENKUlvE_clEv",
            "_ZN8recorded12make_a_mutex17h0123456789abcdefE",
            "_ZN4core3ptr41drop_in_place$LT$serving..Table$LT$u64$GT$$GT$17h0123456789abcdefE",
            "_ZN67_$LT$serving..Table$u20$as$u20$core..convert..From$LT$Mutex$GT$$GT$4from17h0123456789abcdefE",
            "",
        ] {
            assert!(!is_wrapper(user.as_bytes()), "{user}");
        }
    }

    #[test]
    fn words_begin_at_capitals_and_after_what_is_no_letter() {
        let split = |text: &'static str| -> std::vec::Vec<&str> {
            words(text.as_bytes()).map(|word| core::str::from_utf8(word).unwrap()).collect()
        };
        assert_eq!(split("LWLockAcquire"), ["LW", "Lock", "Acquire"]);
        assert_eq!(split("__rw_lock_x2"), ["rw", "lock", "x2"]);
        assert_eq!(split("ScopedRWLock"), ["Scoped", "RW", "Lock"]);
        assert_eq!(split("___"), [""; 0]);
    }
}
