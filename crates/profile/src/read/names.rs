//! Names of functions and locks: what a wrapper around a lock looks like, and what may be printed.

/// Words that name a lock.
const NOUNS: [&str; 16] = [
    "mutex",
    "lock",
    "rwlock",
    "spinlock",
    "spin",
    "latch",
    "mtx",
    "futex",
    "semaphore",
    "monitor",
    "cond",
    "condvar",
    "condition",
    "guard",
    "locker",
    "critical",
];

/// Words that name what is done to a lock.
const VERBS: [&str; 14] = [
    "lock",
    "unlock",
    "trylock",
    "rdlock",
    "wrlock",
    "rlock",
    "wlock",
    "acquire",
    "enter",
    "wait",
    "timedlock",
    "locked",
    "timedwait",
    "clocklock",
];

/// Words that may follow the verb.
const TRAILERS: [&str; 28] = [
    "shared",
    "exclusive",
    "reader",
    "writer",
    "read",
    "write",
    "timed",
    "slow",
    "fast",
    "path",
    "internal",
    "impl",
    "func",
    "for",
    "until",
    "try",
    "nested",
    "contended",
    "recursive",
    "upgrade",
    "loop",
    "common",
    "full",
    "inline",
    "irq",
    "irqsave",
    "variable",
    "section",
];

/// Words that end in "lock" and are none.
const NOT_LOCKS: [&str; 8] =
    ["block", "clock", "unblock", "deadlock", "interlock", "stock", "flock", "oclock"];

/// Whether a demangled function is a wrapper around locking, by its name: then its caller says more.
///
/// A method of a class that is named as a lock is (`kc::ScopedRWLock::ScopedRWLock`), and so is a function whose name
/// ends in what is done to a lock (`LWLockAcquire`, `my_mutex_lock`, `PyThread_acquire_lock_timed`).
pub fn is_wrapper(function: &str) -> bool {
    let bare = without_arguments(function);
    let mut parts: Vec<&str> = bare.split("::").filter(|part| !part.is_empty()).collect();
    let Some(method) = parts.pop() else { return false };
    if ["pthread_", "gthread_", "mtx_", "cnd_"]
        .iter()
        .any(|prefix| method.trim_start_matches('_').starts_with(prefix))
    {
        return true;
    }
    let of_lock_class = parts.last().is_some_and(|class| {
        let words = words(class);
        let last = words.iter().rposition(|word| !TRAILERS.contains(&word.as_str()));
        last.is_some_and(|last| is_noun(&words[last]))
    });
    of_lock_class || ends_in_locking(method)
}

fn ends_in_locking(function: &str) -> bool {
    let words = words(function);
    let Some(last) = words.iter().rposition(|word| !TRAILERS.contains(&word.as_str())) else { return false };
    VERBS.contains(&words[last].as_str())
        && (words[last].ends_with("lock") || words[..last].iter().any(|word| is_noun(word)))
}

fn is_noun(word: &str) -> bool {
    NOUNS.contains(&word)
        || word.ends_with("mutex")
        || word.ends_with("lock") && !NOT_LOCKS.contains(&word)
        || word.ends_with("guard")
}

/// The words of an identifier, in lower case: split at underscores and where capitals begin.
fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let letters: Vec<char> = identifier.chars().collect();
    for (i, &letter) in letters.iter().enumerate() {
        let after_small = i > 0 && letters[i - 1].is_lowercase();
        let before_small = letters.get(i + 1).is_some_and(|next| next.is_lowercase());
        let after_capital = i > 0 && letters[i - 1].is_uppercase();
        let begins = letter.is_uppercase() && (after_small || (after_capital && before_small));
        if begins || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().expect("never empty").extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A demangled function without its parameters, template arguments and trailing qualifiers.
pub(super) fn without_arguments(function: &str) -> String {
    const PLACEHOLDER: &str = "(anonymous namespace)";
    let function = function.replace(PLACEHOLDER, "{anonymous}");
    let mut bare = String::with_capacity(function.len());
    let mut depth = 0usize;
    let mut rest = function.as_str();
    while let Some(letter) = rest.chars().next() {
        if depth == 0 && rest.starts_with("operator") {
            // The parameters begin at the first parenthesis, but for the call operator at the second.
            let name = if rest.starts_with("operator()") { "operator()".len() } else { "operator".len() };
            let end = rest[name..].find('(').map_or(rest.len(), |at| name + at);
            bare.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 && !bare.is_empty() => break,
            _ if depth == 0 => bare.push(letter),
            _ => {}
        }
        rest = &rest[letter.len_utf8()..];
    }
    // A template's name begins with its return type.
    let start = bare.rfind(' ').filter(|_| !bare.contains("operator")).map_or(0, |at| at + 1);
    let bare = &bare[start..];
    if bare.is_empty() { function } else { bare.replace("{anonymous}", PLACEHOLDER) }
}

/// Text that does nothing to a terminal: control characters, and those that reorder or hide text, become escapes.
pub fn printable(text: &str) -> String {
    let harmful = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        if harmful(letter) { clean.extend(letter.escape_unicode()) } else { clean.push(letter) }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_are_told_from_what_uses_them() {
        for wrapper in [
            "pthread_mutex_lock",
            "___pthread_rwlock_rdlock",
            "__gthread_mutex_lock(pthread_mutex_t*)",
            "std::mutex::lock()",
            "std::lock_guard<std::mutex>::lock_guard(std::mutex&)",
            "std::unique_lock<std::mutex>::lock()",
            "void std::lock<std::mutex, std::mutex>(std::mutex&, std::mutex&)",
            "std::shared_mutex::lock_shared()",
            "std::condition_variable::wait(std::unique_lock<std::mutex>&)",
            "boost::mutex::lock()",
            "absl::Mutex::Lock()",
            "kyotocabinet::RWLock::lock_reader()",
            "kyotocabinet::SpinRWLock::lock_writer()",
            "kyotocabinet::ScopedRWLock::ScopedRWLock(kyotocabinet::RWLock*, bool)",
            "rocksdb::port::Mutex::Lock()",
            "rocksdb::MutexLock::MutexLock(rocksdb::port::Mutex*)",
            "LWLockAcquire",
            "my_mutex_lock",
            "PyThread_acquire_lock_timed",
            "rw_lock_x_lock_func",
            "mtx_lock",
            "spin_lock_irqsave",
        ] {
            assert!(is_wrapper(wrapper), "{wrapper}");
        }
        for user in [
            "kyotocabinet::HashDB::accept(char const*, unsigned long, kyotocabinet::DB::Visitor*, bool)",
            "main",
            "lock_users",
            "process_block",
            "update_clock",
            "rocksdb::LRUCacheShard::Lookup(rocksdb::Slice const&)",
            "LockTable::find_deadlocks",
            "item_get",
            "read_block(int)",
            "operator new(unsigned long)",
            "",
        ] {
            assert!(!is_wrapper(user), "{user}");
        }
    }

    #[test]
    fn arguments_go_and_names_stay() {
        assert_eq!(
            without_arguments("std::vector<int, std::allocator<int> >::push_back(int&&)"),
            "std::vector::push_back"
        );
        assert_eq!(without_arguments("void std::lock<std::mutex>(std::mutex&)"), "std::lock");
        assert_eq!(without_arguments("(anonymous namespace)::work(int)"), "(anonymous namespace)::work");
        assert_eq!(without_arguments("a::operator()(int) const"), "a::operator()");
        assert_eq!(without_arguments("plain"), "plain");
        assert_eq!(without_arguments("<<<"), "<<<");
    }

    #[test]
    fn nothing_reaches_the_terminal_that_commands_it() {
        assert_eq!(printable("a\u{1b}[31mb\nc\u{202e}d"), "a\\u{1b}[31mb\\u{a}c\\u{202e}d");
        assert_eq!(printable("<b>naïve</b>"), "<b>naïve</b>");
    }
}
