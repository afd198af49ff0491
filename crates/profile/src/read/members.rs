//! Which member of a variable of C++ a lock is, as debug information tells.
//!
//! The variable is found by its address: where the bytes of its location lie in the section, the unit around them is read from its start
//! up to there. Then the type is followed down to what is as large as the lock. So no time goes into units that have no such variable.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use addr2line::gimli::{self, AttributeValue, DwAt, Section as _, UnitOffset};
use memchr::memmem;

use super::debug_info::Reader;
use super::names::{LONGEST_SYMBOL, without_arguments};

/// What may still be read of all files together, so that no file, however large or forged, takes more than a second or two. Locks past
/// that are named by variable and offset.
#[derive(Debug)]
pub(super) struct Budget {
    /// Entries of debug information.
    entries: Cell<u64>,
    /// Bytes that are searched for variables.
    bytes: Cell<u64>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { entries: Cell::new(4 << 20), bytes: Cell::new(8 << 30) }
    }
}

/// Places of a section that look like the location of one variable.
const MOST_FOUND: usize = 8;

/// Types that are followed from a variable to its lock, and dimensions of an array.
const DEEPEST: usize = 32;

/// Members of a union, and of what has members of no length, that are looked into.
const MOST_CANDIDATES: usize = 8;

/// A member of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// `Pool::shards[3].m` in a class; `pool[2].shards[3].m` in an array or in a class without a name.
    pub(super) name: String,
    /// Where it is declared: file and line.
    pub(super) place: Option<(String, u32)>,
}

/// The language of the standard of 2023, which `gimli` has no name for.
const CPP_23: gimli::DwLang = gimli::DwLang(0x003a);

fn is_language_cpp(language: gimli::DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_C_plus_plus
            | gimli::DW_LANG_C_plus_plus_03
            | gimli::DW_LANG_C_plus_plus_11
            | gimli::DW_LANG_C_plus_plus_14
            | gimli::DW_LANG_C_plus_plus_17
            | gimli::DW_LANG_C_plus_plus_20
            | CPP_23
    )
}

type Unit<'f> = gimli::Unit<Reader<'f>>;
type Entry<'f> = gimli::DebuggingInformationEntry<Reader<'f>>;

/// An entry of debug information.
#[derive(Clone, Debug)]
struct At<'f> {
    unit: Rc<Unit<'f>>,
    offset: UnitOffset,
}

/// What is known of the variables of a file.
pub(super) struct Members<'f> {
    budget: &'f Budget,
    /// The units' headers, in the order of their offsets.
    headers: Vec<(usize, gimli::UnitHeader<Reader<'f>>)>,
    units: RefCell<HashMap<usize, Option<Rc<Unit<'f>>>>>,
    /// The types of variables, by their addresses.
    types: RefCell<HashMap<u64, Option<At<'f>>>>,
}

/// What leads from a variable to one of its members.
#[derive(Clone, Default)]
struct Trail<'f> {
    path: String,
    /// The declaration of the last member.
    declared: Option<(Rc<Unit<'f>>, u64, u32)>,
}

impl<'f> Members<'f> {
    pub(super) fn of(dwarf: &gimli::Dwarf<Reader<'f>>, budget: &'f Budget) -> Self {
        let mut headers = Vec::new();
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            headers.extend(header.debug_info_offset().map(|offset| (offset.0, header)));
        }
        Self { budget, headers, units: RefCell::default(), types: RefCell::default() }
    }

    /// What lies at `offset` of the variable that starts at `start` and is called `variable`, if that is a member as large as a lock
    /// of `lock` bytes at least. None for a variable that is no more than a lock.
    pub(super) fn find(
        &self,
        dwarf: &gimli::Dwarf<Reader<'f>>,
        (start, variable): (u64, &str),
        offset: u64,
        lock: u64,
    ) -> Option<Member> {
        let known = self.types.borrow().get(&start).cloned();
        let of_variable = match known {
            Some(known) => known?,
            None => {
                let found = self.type_of_variable(dwarf, start);
                self.types.borrow_mut().insert(start, found.clone());
                found?
            }
        };
        if !self.is_cpp(&of_variable.unit)? {
            return None;
        }
        let mut trail = Trail::default();
        self.descend(dwarf, &of_variable, offset, lock, &mut trail, 0)?;
        let Trail { path, declared } = trail;
        let member = path.strip_prefix('.');
        let class = member.and_then(|_| self.class_name(dwarf, of_variable));
        let name = match (class, member) {
            _ if path.is_empty() => return None,
            (Some(class), Some(member)) => format!("{class}::{member}"),
            _ => format!("{variable}{path}"),
        };
        let place = declared.and_then(|(unit, file, line)| Some((file_of(dwarf, &unit, file)?, line)));
        Some(Member { name, place })
    }

    /// Whether a unit is C++. In other languages a variable and an offset say more than the name of a type, and `--only` knows them.
    fn is_cpp(&self, unit: &Rc<Unit<'f>>) -> Option<bool> {
        let language = self.entry(&At { unit: Rc::clone(unit), offset: root(unit)? })?;
        let AttributeValue::Language(language) = language.attr_value(gimli::DW_AT_language)? else {
            return None;
        };
        Some(is_language_cpp(language))
    }

    /// Takes a step of what may be done at all.
    fn spend(&self) -> Option<()> {
        self.budget.entries.set(self.budget.entries.get().checked_sub(1)?);
        Some(())
    }

    fn entry(&self, at: &At<'f>) -> Option<Entry<'f>> {
        self.spend()?;
        at.unit.entry(at.offset).ok()
    }

    /// The unit around an offset of the section, and the offset of its start.
    fn unit_around(&self, dwarf: &gimli::Dwarf<Reader<'f>>, at: usize) -> Option<(usize, Rc<Unit<'f>>)> {
        let after = self.headers.partition_point(|&(start, _)| start <= at);
        let &(start, header) = self.headers[..after].last()?;
        let mut units = self.units.borrow_mut();
        let unit = units.entry(start).or_insert_with(|| dwarf.unit(header).ok().map(Rc::new));
        Some((start, Rc::clone(unit.as_ref()?)))
    }

    /// The entry that an attribute of an entry refers to.
    fn referred(
        &self,
        dwarf: &gimli::Dwarf<Reader<'f>>,
        unit: &Rc<Unit<'f>>,
        entry: &Entry<'f>,
        by: DwAt,
    ) -> Option<At<'f>> {
        match entry.attr_value(by)? {
            AttributeValue::UnitRef(offset) => Some(At { unit: Rc::clone(unit), offset }),
            AttributeValue::DebugInfoRef(offset) => {
                let (start, unit) = self.unit_around(dwarf, offset.0)?;
                Some(At { unit, offset: UnitOffset(offset.0 - start) })
            }
            _ => None,
        }
    }

    fn type_of_variable(&self, dwarf: &gimli::Dwarf<Reader<'f>>, start: u64) -> Option<At<'f>> {
        let info = dwarf.debug_info.reader().slice();
        self.budget.bytes.set(self.budget.bytes.get().checked_sub(info.len() as u64)?);
        let mut location = vec![gimli::DW_OP_addr.0];
        location.extend(start.to_le_bytes());
        let found = memmem::find_iter(info, &location).take(MOST_FOUND);
        found.into_iter().find_map(|at| {
            let (start, unit) = self.unit_around(dwarf, at)?;
            let mut last = None;
            let mut entries = unit.entries();
            while let Ok(Some(entry)) = entries.next_dfs() {
                self.spend()?;
                if start + entry.offset().0 > at {
                    break;
                }
                last = (entry.tag() == gimli::DW_TAG_variable).then(|| entry.clone());
            }
            let mut entry = last?;
            match entry.attr_value(gimli::DW_AT_location)? {
                AttributeValue::Exprloc(expression) if *expression.0.slice() == *location => {}
                _ => return None,
            }
            let mut unit = unit;
            // The declaration of a static member, or what was inlined.
            for _ in 0..DEEPEST {
                if let Some(of) = self.referred(dwarf, &unit, &entry, gimli::DW_AT_type) {
                    return Some(of);
                }
                let declared = [gimli::DW_AT_specification, gimli::DW_AT_abstract_origin];
                let declared = declared.into_iter().find_map(|by| self.referred(dwarf, &unit, &entry, by))?;
                entry = self.entry(&declared)?;
                unit = declared.unit;
            }
            None
        })
    }

    /// A type without its other names and qualifiers.
    fn bare(&self, dwarf: &gimli::Dwarf<Reader<'f>>, of: &At<'f>) -> Option<(At<'f>, Entry<'f>)> {
        let mut at = of.clone();
        for _ in 0..DEEPEST {
            let entry = self.entry(&at)?;
            match entry.tag() {
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_atomic_type => {
                    at = self.referred(dwarf, &at.unit, &entry, gimli::DW_AT_type)?;
                }
                _ => return Some((at, entry)),
            }
        }
        None
    }

    /// Adds to `trail` what leads from a type to the lock at an offset of it. None where there is none.
    fn descend(
        &self,
        dwarf: &gimli::Dwarf<Reader<'f>>,
        of: &At<'f>,
        offset: u64,
        lock: u64,
        trail: &mut Trail<'f>,
        depth: usize,
    ) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        let (at, entry) = self.bare(dwarf, of)?;
        match entry.tag() {
            gimli::DW_TAG_array_type => {
                let element = self.referred(dwarf, &at.unit, &entry, gimli::DW_AT_type)?;
                let size = self.size(dwarf, &element, depth)?;
                if size < lock {
                    return (offset == 0).then_some(()); // bytes in which a lock is made
                }
                let lengths = self.lengths(&at)?;
                let mut number = offset / size;
                let mut indices = String::new();
                for &length in lengths[1..].iter().rev() {
                    indices.insert_str(0, &format!("[{}]", number.checked_rem(length)?));
                    number /= length;
                }
                if lengths[0] > 0 && number >= lengths[0] {
                    return None;
                }
                trail.path.push_str(&format!("[{number}]{indices}"));
                self.descend(dwarf, &element, offset % size, lock, trail, depth + 1)
            }
            gimli::DW_TAG_class_type | gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type => {
                let size = number(&entry, gimli::DW_AT_byte_size)?;
                if offset >= size {
                    return None;
                }
                if offset == 0 && size <= lock {
                    return Some(());
                }
                let before = trail.clone();
                for candidate in self.members(&at, offset)? {
                    let Some(of) = self.referred(dwarf, &at.unit, &candidate.entry, gimli::DW_AT_type) else {
                        continue;
                    };
                    self.enter(dwarf, &at, &candidate.entry, trail);
                    let inside = offset - candidate.start;
                    if self.descend(dwarf, &of, inside, lock, trail, depth + 1).is_some() {
                        return Some(());
                    }
                    trail.clone_from(&before);
                }
                None
            }
            _ => (offset == 0 && number(&entry, gimli::DW_AT_byte_size)? >= lock).then_some(()),
        }
    }

    /// Adds a member's name. Base classes have none, and those of the standard library's own members say nothing.
    fn enter(
        &self,
        dwarf: &gimli::Dwarf<Reader<'f>>,
        at: &At<'f>,
        member: &Entry<'f>,
        trail: &mut Trail<'f>,
    ) {
        let name = (member.tag() == gimli::DW_TAG_member).then(|| name_of(dwarf, &at.unit, member)).flatten();
        let Some(name) = name.filter(|name| !is_reserved(name)) else { return };
        trail.path.push('.');
        trail.path.push_str(&name);
        let line = number(member, gimli::DW_AT_decl_line).and_then(|line| u32::try_from(line).ok());
        trail.declared = match member.attr_value(gimli::DW_AT_decl_file) {
            Some(AttributeValue::FileIndex(file)) => line.map(|line| (Rc::clone(&at.unit), file, line)),
            _ => None,
        };
    }

    /// Bytes of a type.
    fn size(&self, dwarf: &gimli::Dwarf<Reader<'f>>, of: &At<'f>, depth: usize) -> Option<u64> {
        let (at, entry) = self.bare(dwarf, of)?;
        if let Some(size) = number(&entry, gimli::DW_AT_byte_size) {
            return (size > 0).then_some(size);
        }
        if entry.tag() != gimli::DW_TAG_array_type || depth > DEEPEST {
            return None;
        }
        let element = self.referred(dwarf, &at.unit, &entry, gimli::DW_AT_type)?;
        let one = self.size(dwarf, &element, depth + 1)?;
        let all = self.lengths(&at)?.into_iter().try_fold(one, u64::checked_mul)?;
        (all > 0).then_some(all)
    }

    /// The lengths of an array, the outermost first; 0 where it is not known.
    fn lengths(&self, array: &At<'f>) -> Option<Vec<u64>> {
        let mut lengths = Vec::new();
        self.children(array, |entry| {
            if entry.tag() == gimli::DW_TAG_subrange_type {
                let bound = || number(entry, gimli::DW_AT_upper_bound).and_then(|last| last.checked_add(1));
                lengths.push(number(entry, gimli::DW_AT_count).or_else(bound).unwrap_or(0));
            }
        })?;
        (1..=DEEPEST).contains(&lengths.len()).then_some(lengths)
    }

    /// The members and base classes of a class that start at an offset or before it, the last of them first.
    fn members(&self, class: &At<'f>, offset: u64) -> Option<Vec<Candidate<'f>>> {
        let mut members = Vec::new();
        self.children(class, |entry| {
            let is_static = entry.has_attr(gimli::DW_AT_external) || entry.has_attr(gimli::DW_AT_declaration);
            if matches!(entry.tag(), gimli::DW_TAG_member | gimli::DW_TAG_inheritance) && !is_static {
                let start = match entry.attr(gimli::DW_AT_data_member_location) {
                    Some(_) => number(entry, gimli::DW_AT_data_member_location),
                    None => Some(0),
                };
                if let Some(start) = start.filter(|&start| start <= offset) {
                    members.push(Candidate { start, entry: entry.clone() });
                    if members.len() > 8 * MOST_CANDIDATES {
                        last_of(&mut members);
                    }
                }
            }
        })?;
        last_of(&mut members);
        Some(members)
    }

    /// Looks at all children of an entry.
    fn children(&self, of: &At<'f>, mut each: impl FnMut(&Entry<'f>)) -> Option<()> {
        let mut entries = of.unit.entries_at_offset(of.offset).ok()?;
        entries.next_dfs().ok()??;
        let depth = entries.depth() + 1;
        while let Some(entry) = entries.next_dfs().ok()? {
            self.spend()?;
            if entry.depth() < depth {
                break;
            }
            if entry.depth() == depth {
                each(entry);
            }
        }
        Some(())
    }

    /// The name of a class with the namespaces and classes that it lies in, without template arguments; or the name that it has by a
    /// typedef.
    fn class_name(&self, dwarf: &gimli::Dwarf<Reader<'f>>, of: At<'f>) -> Option<String> {
        let (at, entry) = self.bare(dwarf, &of)?;
        let at = if name_of(dwarf, &at.unit, &entry).is_some() { at } else { of };
        let mut entries = at.unit.entries();
        let mut around: Vec<(isize, String)> = Vec::new();
        while let Some(entry) = entries.next_dfs().ok()? {
            self.spend()?;
            around.retain(|&(depth, _)| depth < entry.depth());
            let is_it = entry.offset() == at.offset;
            let name = match entry.tag() {
                _ if is_it => name_of(dwarf, &at.unit, entry)?,
                gimli::DW_TAG_namespace => {
                    name_of(dwarf, &at.unit, entry).unwrap_or_else(|| "(anonymous namespace)".to_owned())
                }
                gimli::DW_TAG_class_type | gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type => {
                    name_of(dwarf, &at.unit, entry).unwrap_or_default()
                }
                _ => continue,
            };
            around.push((entry.depth(), name));
            if is_it {
                let names: Vec<_> = around.iter().map(|(_, name)| without_template(name)).collect();
                return Some(names.join("::"));
            }
        }
        None
    }
}

/// A member that may be it.
struct Candidate<'f> {
    start: u64,
    entry: Entry<'f>,
}

/// Leaves those that start last, in that order.
fn last_of(members: &mut Vec<Candidate<'_>>) {
    members.sort_by_key(|member| std::cmp::Reverse(member.start));
    members.truncate(MOST_CANDIDATES);
}

fn root(unit: &Unit<'_>) -> Option<UnitOffset> {
    let mut entries = unit.entries();
    Some(entries.next_dfs().ok()??.offset())
}

fn number(entry: &Entry<'_>, name: DwAt) -> Option<u64> {
    entry.attr(name)?.udata_value()
}

fn name_of<'f>(dwarf: &gimli::Dwarf<Reader<'f>>, unit: &Unit<'f>, entry: &Entry<'f>) -> Option<String> {
    let name = dwarf.attr_string(unit, entry.attr_value(gimli::DW_AT_name)?).ok()?;
    let name = &name.slice()[..name.len().min(LONGEST_SYMBOL)];
    Some(String::from_utf8_lossy(name).into_owned()).filter(|name| !name.is_empty())
}

/// Names that programs must not use, and standard libraries do.
fn is_reserved(name: &str) -> bool {
    name.starts_with("__") || name.starts_with('_') && name[1..].starts_with(|c: char| c.is_ascii_uppercase())
}

fn without_template(name: &str) -> String {
    if name.contains('<') { without_arguments(name) } else { name.to_owned() }
}

/// The path of a unit's file.
fn file_of<'f>(dwarf: &gimli::Dwarf<Reader<'f>>, unit: &Unit<'f>, number: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(number)?;
    let text = |value| Some(dwarf.attr_string(unit, value).ok()?.to_string_lossy().into_owned());
    let directory =
        unit.comp_dir.map(|directory| directory.to_string_lossy().into_owned()).unwrap_or_default();
    let directory = std::path::PathBuf::from(directory);
    // The directory 0 is that of the unit.
    let directory = match file.directory(header).filter(|_| file.directory_index() != 0) {
        Some(below) => directory.join(text(below)?),
        None => directory,
    };
    directory.join(text(file.path_name())?).into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::super::debug_info::{Contents, DebugInfo};
    use super::super::files;
    use super::*;
    use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
    use std::process::Command;

    /// Each member's line says its name. The program says of each lock in which variable it lies, at which offset, and how long it is.
    const PROGRAM: &str = r#"#include <array>
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <pthread.h>

namespace store {
struct Shard {
    long hits;
    std::mutex m; // store::Pool::shards[3].m, table[1][2].m
};
class Pool {
public:
    std::mutex first; // store::Pool::first
    long size;
    std::mutex m; // store::Pool::m
    Shard shards[4];
    std::array<std::mutex, 2> pair; // store::Pool::pair[1]
    union {
        long raw;
        struct {
            long pad;
            pthread_spinlock_t spin; // store::Pool::spin
        };
    };
};
struct Base {
    long b;
    pthread_rwlock_t rw; // store::Derived::rw
};
struct Derived : Base {
    long d;
    std::shared_mutex sm; // store::Derived::sm
};
template <class T> struct Box {
    T value;
    std::mutex m; // store::Box::m
};
struct Registry {
    static Pool shared; // store::Registry::shared
};
Pool Registry::shared;
} // namespace store

store::Pool pool;
static store::Shard table[2][3];
static store::Box<store::Box<long>> box;
store::Derived derived;
struct {
    long n;
    std::mutex m; // nameless.m
} nameless;
std::mutex alone;
struct Wrapped {
    std::mutex m;
} wrapped;
alignas(64) static char storage[64];

template <class T> void say(const char *name, const char *symbol, const void *variable, const T &lock) {
    long offset = (const char *)&lock - static_cast<const char *>(variable);
    std::printf("%s\t%s\t%ld\t%zu\n", symbol, name, offset, sizeof lock);
}

int main() {
    say("store::Pool::first", "pool", &pool, pool.first);
    say("store::Pool::m", "pool", &pool, pool.m);
    say("store::Pool::shards[3].m", "pool", &pool, pool.shards[3].m);
    say("store::Pool::pair[1]", "pool", &pool, pool.pair[1]);
    say("store::Pool::spin", "pool", &pool, pool.spin);
    say("store::Pool::m", "_ZN5store8Registry6sharedE", &store::Registry::shared, store::Registry::shared.m);
    say("table[1][2].m", "_ZL5table", table, table[1][2].m);
    say("store::Box::m", "_ZL3box", &box, box.m);
    say("store::Derived::rw", "derived", &derived, derived.rw);
    say("store::Derived::sm", "derived", &derived, derived.sm);
    say("nameless.m", "nameless", &nameless, nameless.m);
    say("", "alone", &alone, alone);
    say("", "wrapped", &wrapped, wrapped.m);
    say("", "_ZL7storage", storage, *reinterpret_cast<std::mutex *>(storage + 8));
    box.m.lock();
    nameless.m.lock();
    storage[8] = 1;
    asm volatile("" ::"r"(storage) : "memory");
    table[1][2].m.lock();
}
"#;

    fn compiled(directory: &std::path::Path, options: &[&str]) -> std::path::PathBuf {
        let (source, program) = (directory.join("pool.cpp"), directory.join("pool"));
        std::fs::write(&source, PROGRAM).unwrap();
        let mut compiler = Command::new("c++");
        compiler.args(["-std=c++17", "-O2", "-pthread"]).args(options).arg(&source).arg("-o").arg(&program);
        assert!(compiler.status().expect("a C++ compiler").success());
        program
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no programs")]
    fn locks_are_named_by_the_members_that_they_are() {
        let mut named = 0;
        for options in [&["-g"][..], &["-g", "-gdwarf-4", "-no-pie"], &["-g", "-gz"], &["-O0", "-g"], &[]] {
            let directory = tempfile::tempdir().unwrap();
            let program = compiled(directory.path(), options);
            let said = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
            let contents = Contents::default();
            let bytes = contents.keep(&files::open(&program).unwrap()).unwrap();
            let file = object::File::parse(bytes).unwrap();
            let info = DebugInfo::of(&contents, &file, &program).unwrap();
            assert_eq!(said.lines().count(), 14);
            for line in said.lines() {
                let fields: Vec<_> = line.split('\t').collect();
                let [symbol, name, offset, bytes] = fields[..] else { panic!("{line}") };
                let start = file.symbols().find(|one| one.name() == Ok(symbol)).expect(symbol).address();
                let variable = symbol.trim_start_matches(|c: char| "_ZL0123456789".contains(c));
                let member = info.member((start, variable), offset.parse().unwrap(), bytes.parse().unwrap());
                if name.is_empty() || options.is_empty() {
                    assert_eq!(member, None, "{line}");
                    continue;
                }
                let declared = PROGRAM.lines().position(|line| {
                    line.split_once("// ").is_some_and(|(_, names)| names.split(", ").any(|one| one == name))
                });
                let place =
                    (directory.path().join("pool.cpp").display().to_string(), declared.unwrap() as u32 + 1);
                assert_eq!(
                    member,
                    Some(Member { name: name.into(), place: Some(place) }),
                    "{options:?}: {line}"
                );
                named += 1;
            }
        }
        assert_eq!(named, 4 * 11);
    }

    /// As compilers write it: GCC from 15 on for `-std=c++23`.
    #[test]
    fn every_standard_of_cpp_is_cpp() {
        let is_cpp = |number: u16| is_language_cpp(gimli::DwLang(number));
        assert!([0x04, 0x19, 0x1a, 0x21, 0x2a, 0x2b, 0x3a].into_iter().all(is_cpp));
        assert!(![0x0c, 0x1c, 0x1d, 0x2c, 0x3e].into_iter().any(is_cpp), "C and Rust");
    }

    /// Any user may have written the debug information.
    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no programs")]
    fn damaged_debug_information_is_none_or_another_name() {
        let directory = tempfile::tempdir().unwrap();
        let program = compiled(directory.path(), &["-g"]);
        let sound = std::fs::read(&program).unwrap();
        let damaged: Vec<_> = {
            let file = object::File::parse(&*sound).unwrap();
            let ranges = [".debug_info", ".debug_abbrev"].map(|name| {
                let section = file.section_by_name(name).expect("a section of debug information");
                section.file_range().expect("its bytes")
            });
            ranges.to_vec()
        };
        let mut random = random_numbers(7);
        for _ in 0..40 {
            let mut bytes = sound.clone();
            for &(start, length) in &damaged {
                for _ in 0..1 + random() % 200 {
                    bytes[(start + random() % length) as usize] = random() as u8;
                }
            }
            std::fs::write(&program, &bytes).unwrap();
            let contents = Contents::default();
            let kept = contents.keep(&files::open(&program).unwrap()).unwrap();
            let file = object::File::parse(kept).unwrap();
            let Some(info) = DebugInfo::of(&contents, &file, &program) else { continue };
            for symbol in file.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Data) {
                for offset in [0, 8, 48, 200] {
                    info.member((symbol.address(), "variable"), offset, 40);
                }
            }
        }
    }

    /// Numbers that are the same in every run: Steele, Lea and Flood 2014.
    fn random_numbers(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        }
    }
}
