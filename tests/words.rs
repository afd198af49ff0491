//! Words that were exchanged for those of the field do not come back; `CONTRIBUTING.md` says which name a thing has.

use regex_lite::Regex;
use std::fs;
use std::path::{Path, PathBuf};

/// What is not written any more, and what is written instead.
const OLD: [(&str, &str); 17] = [
    (r"look_and_|LOOKS_|_LOOKS|LOOK_EVERY|look_ns|_early_look", "poll"),
    (r"stays?_away|\bnaps?\b", "back off, sleep"),
    (r"give[ns]?_\w*back\b|GiveNode|Kind::Give\b", "free"),
    (r"DECIDING|[sS]tanding::", "initialisation of ownership; waiter state"),
    (r"OUTSIDE_|outside_cycles|time_outside", "think time"),
    (r"timeout=unlimited|Change::Unlimited|limited: bool", "no timeout, timed"),
    (r"lock that can serve|it can serve|\b(stand|stands|stood|standing) in for\b", "replace"),
    (r"[Dd]ecided? everything random|everything random", "random seed"),
    (r"\bnext one in\b", "next owner"),
    (r"none of it is\.|is said to be\b", "entirely above; published, marked, reported"),
    (r"\b(the|The) twin\b", "the simulated program"),
    (r"undisturbed|hold_back|held_back", "signals and cancellation blocked"),
    (r"LetGo|in_vain|InVain|enum Script\b", "forced block, deadlocked, replay trace"),
    (r"last_words|LastWords|enum Fate\b", "output tail, exit status"),
    (r"LossOf|\blegs\b|enum Loss\b", "latency table, in-flight invalidation"),
    (r"no_room|room_is|fn room\b", "space"),
    // In comments; `nobody` is a user.
    (
        r"//.*[^`\w]([Nn]obody|[Ss]omebody|[Ww]hoever|[Ee]verybody|[Aa]nybody)\b",
        "which thread, process or user it is",
    ),
];

/// Texts of the tree by their path from its root. What is downloaded, built or drawn is not among them.
fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                texts(&path, found);
            }
        } else if matches!(
            ending,
            "rs" | "md" | "toml" | "csv" | "h" | "hpp" | "c" | "cc" | "cpp" | "snap" | ""
        ) {
            found.push(path);
        }
    }
}

#[test]
fn words_that_were_exchanged_do_not_come_back() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = vec![root.join("README.md"), root.join("ARCHITECTURE.md"), root.join("CONTRIBUTING.md")];
    for folder in ["cli", "crates", "docs", "research", "examples", "fuzz", "packaging", "tests"] {
        texts(&root.join(folder), &mut paths);
    }
    assert!(paths.len() > 400, "{} files: is this the tree?", paths.len());
    let old = OLD.map(|(old, new)| (Regex::new(old).expect("a pattern"), new));
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| !path.ends_with("tests/words.rs")) {
        let Ok(text) = fs::read_to_string(path) else { continue }; // no text
        for (number, line) in (1..).zip(text.lines()) {
            for (old, new) in &old {
                if let Some(hit) = old.find(line) {
                    let place = path.strip_prefix(root).unwrap_or(path).display();
                    found.push(format!("{place}:{number}: `{}`: write {new}", hit.as_str()));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
