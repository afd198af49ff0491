//! Accesses of locks, by names that stay when lines move: the function, the operation, and which of several.

use checker::Mutation;
use checker::checked::{Accessed, Change};
use locks::source;
use std::path::Path;

/// An access of a lock with what it is called.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub access: Accessed,
    /// As `McsQueue::acquire.swap`, or `K42::release.load#2` for a second one in that function.
    pub name: String,
    /// What the access reads is dropped by the statement that it is, so that no other value of it makes a difference.
    is_statement: bool,
}

impl Site {
    /// The access made weaker, and made wrong, in every way that changes what the code can do.
    pub(super) fn mutations(&self) -> Vec<Mutation> {
        let mut all = self.access.mutations();
        let is_read =
            |change| matches!(change, Change::ReadsOneMore | Change::ReadsOneLess | Change::ReadsZero);
        all.retain(|mutation| !(self.is_statement && is_read(mutation.to)));
        all
    }
}

/// What locks have for checks alone: no mistake in it would be one of the lock.
const FOR_CHECKS: [&str; 6] =
    ["::is_idle", "::is_promised", "::near_wrap", "::near_full", "WaitTable::waiters", "WaitTable::sleepers"];

/// The accesses among these that stand in the source of a lock, each once, by their places, with their names.
pub(super) fn of_locks(accesses: impl IntoIterator<Item = Accessed>) -> Vec<Site> {
    let mut all: Vec<(Accessed, String, bool)> = Vec::new();
    for access in accesses {
        let Some(text) = text_of(access.site.file(), source::PLACE) else { continue };
        let function = function_at(text, access.site.line());
        let is_of_checks = FOR_CHECKS.iter().any(|name| function.ends_with(name));
        if !is_of_checks && !all.iter().any(|(other, ..)| other.same(&access)) {
            let is_statement = is_statement(text, access.site.line(), access.site.column());
            all.push((access, format!("{function}.{}", access.operation.name()), is_statement));
        }
    }
    all.sort_by_key(|(access, ..)| (access.site.file(), access.site.line(), access.site.column()));
    let number = |index: usize| {
        let (access, plain, _) = &all[index];
        let before = all[..index].iter().filter(|(other, name, _)| {
            name == plain && other.site.file() == access.site.file() && other.site != access.site
        });
        before.count() + 1
    };
    let name = |index: usize| match number(index) {
        1 => all[index].1.clone(),
        number => format!("{}#{number}", all[index].1),
    };
    let site = |index: usize| Site { access: all[index].0, name: name(index), is_statement: all[index].2 };
    (0..all.len()).map(site).collect()
}

/// Whether all accesses are known that may share the name of this one but for its number, as far as the source shows: it has no
/// more calls of the operation in that function.
pub(super) fn are_all_known(sites: &[Site], site: &Site) -> bool {
    let Some(text) = text_of(site.access.site.file(), source::PLACE) else { return false };
    let plain = |site: &Site| site.name.split('#').next().unwrap_or_default().to_owned();
    let file = site.access.site.file();
    let known = sites.iter().filter(|one| plain(one) == plain(site) && one.access.site.file() == file);
    // One call may have several orderings.
    let known = known.map(|one| place(&one.access)).collect::<std::collections::BTreeSet<_>>();
    let call = format!(".{}(", site.access.operation.name());
    let function = function_at(text, site.access.site.line());
    let lines = text.lines().zip(1..).filter(|&(line, _)| line.contains(&call));
    let here = lines.filter(|&(_, number)| function_at(text, number) == function);
    known.len() == here.map(|(line, _)| line.matches(&call).count()).sum::<usize>()
}

/// Where an access stands, as tables of counterexamples show it.
pub(super) fn place(access: &Accessed) -> String {
    let file = Path::new(access.site.file()).file_name().unwrap_or_default().to_string_lossy();
    format!("{file}:{}:{}", access.site.line(), access.site.column())
}

/// The text of a lock's file, if `file` is one: it lies in the directory that the locks were compiled in, which one
/// crate may know by its whole path and another by the end of it.
fn text_of(file: &str, place: &str) -> Option<&'static str> {
    let (file, place) = (Path::new(file), Path::new(place));
    let (here, locks) = (file.parent()?, place.parent()?);
    let name = file.file_name()?.to_str()?;
    let known = source::FILES.iter().find(|(known, _)| *known == name);
    known.filter(|_| here.ends_with(locks) || locks.ends_with(here)).map(|(_, text)| *text)
}

/// Whether the call of a method at this place is a statement of its own: a path before it, a semicolon behind it, and
/// nothing that goes on from the line above.
fn is_statement(text: &str, line: u32, column: u32) -> bool {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>();
    let (above, rest) = lines.split_at(line as usize - 1);
    let Some((before, call)) = rest.first().and_then(|line| line.split_at_checked(column as usize - 1))
    else {
        return false;
    };
    let is_path = before.trim().chars().all(|c| c.is_alphanumeric() || "._".contains(c));
    let above = above.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty()).unwrap_or_default();
    let mut depth = 0_usize;
    let after =
        std::iter::once(call).chain(rest[1..].iter().copied()).flat_map(str::chars).skip_while(|&c| {
            depth += usize::from(c == '(');
            let ends = c == ')' && depth == 1;
            depth -= usize::from(c == ')');
            !ends
        });
    is_path && above.ends_with([';', '{', '}']) && after.skip(1).find(|c| !c.is_whitespace()) == Some(';')
}

/// The function that a line stands in, with the type that it belongs to.
fn function_at(text: &str, line: u32) -> String {
    let (mut of, mut function) = (None, "");
    for line in text.lines().take(line as usize) {
        if let Some(header) = line.strip_prefix("unsafe ").unwrap_or(line).strip_prefix("impl") {
            of = Some(type_of(header));
        }
        if let Some((before, after)) = line.split_once("fn ") {
            let qualifiers = ["pub", "pub(crate)", "pub(super)", "const", "unsafe"];
            if before.split_whitespace().all(|word| qualifiers.contains(&word)) {
                function = identifier(after);
                of = of.filter(|_| line.starts_with(' '));
            }
        }
    }
    of.map_or_else(|| function.to_owned(), |of| format!("{of}::{function}"))
}

/// The type that the header of an `impl` names, without its parameters.
fn type_of(header: &str) -> &str {
    let mut depth = 0_usize;
    let end = header.char_indices().find(|&(_, character)| {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && character == ' '
    });
    let rest = end.map_or(header, |(at, _)| &header[at..]);
    identifier(rest.split_once(" for ").map_or(rest, |(_, of)| of).trim_start())
}

fn identifier(text: &str) -> &str {
    text.split(|character: char| !(character.is_alphanumeric() || character == '_')).next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locks_are_found_wherever_they_were_compiled() {
        let registry = "/home/u/.cargo/registry/src/index.crates.io-1/contend-locks-0.1.0/src";
        for (file, place) in [
            ("crates/locks/src/mcs.rs".to_owned(), "crates/locks/src/source.rs".to_owned()),
            ("/build/crates/locks/src/mcs.rs".to_owned(), "crates/locks/src/source.rs".to_owned()),
            (format!("{registry}/mcs.rs"), format!("{registry}/source.rs")),
            ("vendor/contend-locks/src/mcs.rs".to_owned(), "vendor/contend-locks/src/source.rs".to_owned()),
        ] {
            assert!(text_of(&file, &place).is_some_and(|text| text.contains("McsQueue")), "{file} {place}");
        }
        let elsewhere = ["crates/workloads/src/mcs.rs", "crates/locks/src/unknown.rs", "mcs/src.rs", ""];
        for file in elsewhere {
            assert!(text_of(file, "crates/locks/src/source.rs").is_none(), "{file}");
        }
    }

    #[test]
    fn all_accesses_of_a_name_are_known_when_the_source_has_no_more() {
        let lock = locks::catalogue::find("k42").expect("a lock");
        let shape = workloads::client::Shape { threads: 2, acquisitions: 2 };
        let client = super::super::clients::Client::Of(workloads::client::ClientKind::Exclusive);
        let task = super::super::plan::Task { lock, client, shape, model: checker::Model::Sc };
        let noting =
            checker::Exploration { note_accesses: true, ..checker::Exploration::of(checker::Model::Sc) };
        let sites = of_locks(task.explore(&noting).accesses);
        let numbered = sites.iter().position(|site| site.name.ends_with("#2")).expect("a second one");
        let first = sites[numbered].name.trim_end_matches("#2");
        let few = sites.iter().filter(|site| site.name != first).cloned().collect::<Vec<_>>();
        assert!(are_all_known(&sites, &sites[numbered]));
        assert!(!are_all_known(&few, &sites[numbered]), "{first}");
    }

    #[test]
    fn a_call_is_a_statement_where_its_value_is_dropped() {
        let text = "fn f(&self) {\n    self.word.fetch_sub(READER, Relaxed); // outside\n    if x {\n        \
                    self.word.fetch_and(!(A | B), Relaxed);\n    }\n    let y =\n        self.word.fetch_or(1, \
                    Relaxed);\n    self.word.fetch_sub(1, Relaxed) != 1;\n    let z = self.word.swap(1, \
                    Relaxed);\n    self.word.fetch_add(2, Relaxed)\n}\n";
        let calls = text.lines().zip(1..).filter_map(|(line, number)| {
            let at =
                ["fetch_sub", "fetch_and", "fetch_or", "swap", "fetch_add"].iter().find_map(|c| line.find(c));
            at.map(|at| is_statement(text, number, at as u32 + 1))
        });
        assert_eq!(calls.collect::<Vec<_>>(), [true, true, false, false, false, false]);
    }

    #[test]
    fn a_line_is_named_by_its_function_and_the_type_of_that() {
        let text = "fn free() {\n    1;\n}\n\nunsafe impl<M: Machine, const N: usize> RawLock<M> for Lock<M, N> {\n    \
                    #[inline]\n    unsafe fn release(&self) {\n        2;\n    }\n}\n\nimpl<M: Machine> Queue<'_, M> \
                    {\n    pub(crate) const fn own(&self) {\n        // a fn of its own\n        3;\n    }\n}\n";
        assert_eq!(function_at(text, 2), "free");
        assert_eq!(function_at(text, 8), "Lock::release");
        assert_eq!(function_at(text, 15), "Queue::own");
    }
}
