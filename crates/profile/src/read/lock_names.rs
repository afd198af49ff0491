//! What each lock is called: the variable that it lies in, or the function that made it and the stack of that call.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use pthread::site::Stack;

use super::container::{LockRecord, Section};
use super::symbols::{Function, Symbols};
use super::table::{LockRow, Within};

/// A row whose name has only its first part.
pub(super) struct Unnamed {
    pub(super) row: LockRow,
    pub(super) section: u64,
    pub(super) number: u32,
    /// The key of the lock in whose sections it is acquired, and how often in one.
    pub(super) within: Option<(u64, f64)>,
    pub(super) stack: Option<Stack>,
    /// The name alone is none that `--only` would find the lock by.
    pub(super) by_stack: bool,
    /// Of how many objects that its stack initialised it was the last; 0 if that is not known.
    pub(super) ordinal: u64,
}

/// Names each lock by what tells it from the others: its stack, where locks of one name were made by several; a number, where
/// one stack made several. None of these depends on which lock or thread came first in this run: the number says in which
/// order they were initialised, or else in which order they lie in memory.
pub(super) fn finish_names(mut rows: Vec<Unnamed>) -> Vec<LockRow> {
    let mut stacks: HashMap<String, BTreeSet<Stack>> = HashMap::new();
    for unnamed in &rows {
        stacks.entry(unnamed.row.name.clone()).or_default().extend(unnamed.stack);
    }
    for Unnamed { row, stack, by_stack, .. } in &mut rows {
        row.site = stack.map_or_else(|| row.name.clone(), |stack| format!("{}@{stack}", row.name));
        if *by_stack || stacks[&row.name].len() > 1 {
            row.name.clone_from(&row.site);
        }
    }
    let sites: HashMap<_, _> =
        rows.iter().map(|unnamed| ((unnamed.section, unnamed.number), unnamed.row.site.clone())).collect();
    for Unnamed { row, section, within, .. } in &mut rows {
        row.within = within.and_then(|(key, acquisitions)| {
            let site = sites.get(&(*section, (key >> 1) as u32))?.clone();
            Some(Within { site, shared: key & 1 != 0, acquisitions })
        });
    }
    let order = |unnamed: &Unnamed| (unnamed.ordinal, unnamed.row.address);
    rows.sort_by(|a, b| {
        let names = (a.section, &a.row.name).cmp(&(b.section, &b.row.name));
        names.then_with(|| order(a).cmp(&order(b)))
    });
    for of_one_name in rows
        .chunk_by_mut(|a, b| a.section == b.section && a.row.name == b.row.name)
        .filter(|all| all.len() > 1 || all[0].ordinal > 1)
    {
        let known =
            of_one_name[0].ordinal > 0 && of_one_name.windows(2).all(|two| two[0].ordinal < two[1].ordinal);
        for (unnamed, place) in of_one_name.iter_mut().zip(1..) {
            let number = if known { unnamed.ordinal } else { place };
            if number > 1 {
                let _ = write!(unnamed.row.name, "#{number}");
            }
        }
    }
    rows.into_iter().map(|unnamed| unnamed.row).collect()
}

/// A lock and the section that first touched it: numbers are positions in the file, so no two sections share one.
pub(super) type Homes<'p> = HashMap<u32, (&'p Section, &'p LockRecord)>;

pub(super) struct Named {
    pub(super) name: String,
    pub(super) caller: String,
    pub(super) file: String,
    pub(super) source: Option<String>,
    /// What made the lock, if it lies in no variable.
    pub(super) stack: Option<Stack>,
    pub(super) by_stack: bool,
}

impl Named {
    pub(super) fn plain(name: &str) -> Self {
        let (caller, file) = (String::new(), String::new());
        Self { name: name.to_owned(), caller, file, source: None, stack: None, by_stack: false }
    }
}

pub(super) fn name_lock(section: &Section, lock: &LockRecord, symbols: &mut Symbols<'_>) -> Named {
    let function = caller_of(section, lock, symbols);
    let (caller, file, source) =
        function.map_or_else(Default::default, |function| (function.name, function.file, function.source));
    let source = source.map(|(file, line)| format!("{file}:{line}"));
    if let Some(name) = symbols.variable(section, lock.values.address) {
        return Named { name, caller, file, source, stack: None, by_stack: false };
    }
    let name = if caller.is_empty() { "(unknown caller)".to_owned() } else { caller.clone() };
    let stack = Stack::of(lock.frames.iter().map(|&frame| section.in_its_file(frame)));
    let by_stack = site_by_symbols(section, lock, symbols).as_ref() != Some(&name);
    Named { name, caller, file, source, stack: Some(stack), by_stack }
}

/// The function by which `--only` finds a lock: the first one that is no wrapper, by symbols alone. It does not know what was
/// inlined.
fn site_by_symbols(section: &Section, lock: &LockRecord, symbols: &mut Symbols<'_>) -> Option<String> {
    let mut innermost = None;
    for &frame in &lock.frames {
        match symbols.symbol(section, frame) {
            Some((name, false)) => return Some(name),
            Some((name, true)) => drop(innermost.get_or_insert(name)),
            None => {
                let functions = symbols.functions(section, frame);
                return functions.last().filter(|f| !f.file.is_empty()).map(|f| f.name.clone());
            }
        }
    }
    innermost
}

/// The first function outside locking wrappers; the innermost one if all are wrappers.
fn caller_of(section: &Section, lock: &LockRecord, symbols: &mut Symbols<'_>) -> Option<Function> {
    let mut innermost = None;
    for &frame in &lock.frames {
        for function in symbols.functions(section, frame).iter() {
            if !function.wrapper {
                return Some(function.clone());
            }
            innermost.get_or_insert_with(|| function.clone());
        }
    }
    innermost
}
