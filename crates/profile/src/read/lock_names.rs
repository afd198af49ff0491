//! What each lock is called: the variable that it lies in; else the function that initialised it and the stack of that call;
//! else, if nothing did, the first of all functions that take it.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

use pthread::object::ObjectKind;
use pthread::site::{Site, Stack, Unit};

use super::Profile;
use super::container::{LockRecord, Section};
use super::members::Member;
use super::striped::{Touched, variable_and_offset};
use super::symbols::{CallSite, Function, Symbols, short_name};
use super::table::{LockKind, LockRow, Within};

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
    /// Numbers of the threads that touched it, ascending.
    pub(super) threads: Box<[u64]>,
}

/// Names each lock by what tells it from the others: its variable, where several have the member that it is; its stack, where locks of
/// one name were made by several; a number, where one stack made several. None of these depends on which lock or thread came first in this run: the number says in which
/// order they were initialised, or else in which order they lie in memory.
pub(super) fn finish_names(mut rows: Vec<Unnamed>) -> Vec<Touched> {
    tell_files(&mut rows);
    let mut stacks: HashMap<String, BTreeSet<Stack>> = HashMap::new();
    for unnamed in &rows {
        stacks.entry(unnamed.row.name.clone()).or_default().extend(unnamed.stack);
    }
    let mut variables: HashMap<String, BTreeSet<String>> = HashMap::new();
    for Unnamed { row, .. } in rows.iter().filter(|unnamed| !unnamed.row.site.is_empty()) {
        variables.entry(row.name.clone()).or_default().insert(row.site.clone());
    }
    for Unnamed { row, stack, by_stack, .. } in &mut rows {
        let by_variable = !row.site.is_empty() && variables[&row.name].len() > 1;
        if row.site.is_empty() {
            row.site = stack.map_or_else(|| row.name.clone(), |stack| format!("{}@{stack}", row.name));
        }
        if row.places.is_empty() {
            row.places = [row.site.clone()].into();
        }
        if *by_stack || by_variable || stacks[&row.name].len() > 1 {
            row.name.clone_from(&row.site);
        }
    }
    tell_first_locks(&mut rows);
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
    tell_other_locks(&mut rows);
    let named = |Unnamed { row, stack, threads, .. }| Touched { row, by_call: stack.is_some(), threads };
    rows.into_iter().map(named).collect()
}

/// Variables whose name others have in another program or library are told apart by these, unless their symbols or source files do that.
fn tell_files(rows: &mut [Unnamed]) {
    let in_variable = |unnamed: &&mut Unnamed| unnamed.stack.is_none();
    let site_of = |row: &LockRow| if row.site.is_empty() { row.name.clone() } else { row.site.clone() };
    let common_name = |variable: &str| {
        let Site { name, .. } = Site::parse(variable.as_bytes());
        short_name(&String::from_utf8_lossy(name))
    };
    let mut variables: HashMap<(u64, String), BTreeSet<(String, String)>> = HashMap::new();
    for Unnamed { row, section, .. } in rows.iter_mut().filter(in_variable) {
        let variable = variable_and_offset(&site_of(row)).0.to_owned();
        let of_name = variables.entry((*section, common_name(&variable))).or_default();
        of_name.insert((variable, row.file.clone()));
    }
    for Unnamed { row, section, .. } in rows.iter_mut().filter(in_variable) {
        let site = site_of(row);
        let variable = variable_and_offset(&site).0;
        let told = format!("{variable}@{}{}", row.file, &site[variable.len()..]);
        let is_read_back = Site::parse(told.as_bytes()).unit == Some(Unit::File(row.file.as_bytes()));
        let common = common_name(variable);
        // The common name is for all of them; `lock.0` for those of other files that are called so, too.
        let of_name = &variables[&(*section, common.clone())];
        let is_meant = |(other, _): &&(String, String)| common == variable || other == variable;
        if is_read_back && of_name.iter().filter(is_meant).count() > 1 {
            if row.name == site {
                row.name.clone_from(&told);
            }
            row.site = told;
        }
    }
}

/// The first lock of a variable that has others is the one at its start: the variable alone means all of them.
fn tell_first_locks(rows: &mut [Unnamed]) {
    let in_variable = |unnamed: &&mut Unnamed| unnamed.stack.is_none();
    let with_others: HashSet<(u64, String)> = rows
        .iter_mut()
        .filter(in_variable)
        .filter_map(|unnamed| Some((unnamed.section, unnamed.row.site.rsplit_once("+0x")?.0.to_owned())))
        .collect();
    for Unnamed { row, section, .. } in rows.iter_mut().filter(in_variable) {
        if with_others.contains(&(*section, row.site.clone())) {
            let site = format!("{}+0x0", row.site);
            if row.name == row.site {
                row.name.clone_from(&site);
            }
            row.places = [site.clone()].into();
            row.site = site;
        }
    }
}

/// The names of the locks in whose sections others are acquired, and for which holders wait.
fn tell_other_locks(rows: &mut [Unnamed]) {
    let of = |unnamed: &Unnamed| (unnamed.row.site.clone(), unnamed.row.name.clone());
    let locks: HashMap<_, _> =
        rows.iter().map(|unnamed| ((unnamed.section, unnamed.number), of(unnamed))).collect();
    for Unnamed { row, section, within, .. } in rows {
        for call_site in &mut row.call_sites {
            let lock = call_site.waited_for.and_then(|id| locks.get(&(id.section, id.number)));
            call_site.waiting_for = lock.map(|(_, name)| name.clone());
        }
        row.within = within.and_then(|(key, acquisitions)| {
            let (site, lock) = locks.get(&(*section, (key >> 1) as u32))?.clone();
            Some(Within { lock, site, shared: key & 1 != 0, acquisitions })
        });
    }
}

/// A lock and the section that first touched it: numbers are positions in the file, so no two sections share one.
pub(super) type Homes<'p> = HashMap<u32, (&'p Section, &'p LockRecord)>;

pub(super) struct Named {
    pub(super) name: String,
    /// The variable that the lock lies in, if its name is that of a member.
    pub(super) site: Option<String>,
    pub(super) caller: String,
    pub(super) file: String,
    pub(super) source: Option<String>,
    /// What made the lock, or where it is taken, if it lies in no variable.
    pub(super) stack: Option<Stack>,
    pub(super) by_stack: bool,
    /// Where it is taken, if that is how it is found again.
    pub(super) places: Arc<[String]>,
    /// The places are those of a file that is there no more.
    pub(super) replaced: bool,
}

impl Named {
    pub(super) fn plain(name: &str) -> Self {
        Self::of(name.to_owned(), None)
    }

    fn of(name: String, function: Option<Function>) -> Self {
        let (caller, file, source) = function
            .map_or_else(Default::default, |function| (function.name, function.file, function.source));
        let source = source.map(|(file, line)| format!("{file}:{line}"));
        let (places, replaced) = (Arc::default(), false);
        Self { name, site: None, caller, file, source, stack: None, by_stack: false, places, replaced }
    }
}

/// A stack of a process.
#[derive(Clone, Copy)]
pub(super) struct StackOf<'p> {
    pub(super) section: &'p Section,
    pub(super) frames: &'p [u64],
}

/// Locks that lie in no variable and that nothing initialised, by where they are taken. Those that are taken at one call, by one way or
/// another, are of one class: nothing tells them apart before they are taken, whichever of their calls comes first in a run.
pub(super) struct Classes<'p> {
    of_lock: HashMap<u32, usize>,
    classes: Vec<Class<'p>>,
    /// For each class the one that it is a part of, or itself: a forest of disjoint sets (Galler and Fischer 1964).
    parents: Vec<usize>,
}

/// File and return address, with a stack from there on outwards, and whether the file has become another one.
type Calls<'p> = BTreeMap<(String, u64), (StackOf<'p>, bool)>;

/// Where the locks of one class are taken.
#[derive(Default)]
struct Class<'p> {
    calls: Calls<'p>,
    /// Made once the class is whole, for all its locks together: they may be as many as its calls.
    places: OnceCell<Places>,
}

/// The calls of a class, as `--only` finds them again, and whether the file of one has become another one.
#[derive(Clone)]
struct Places {
    places: Arc<[String]>,
    replaced: bool,
}

impl<'p> Classes<'p> {
    pub(super) fn of(profile: &'p Profile, symbols: &mut Symbols<'_>) -> Self {
        let mut taken: BTreeMap<u32, Vec<StackOf<'p>>> = BTreeMap::new();
        for section in profile.sections.iter().filter(|section| !section.is_watched()) {
            for (&number, lock) in &section.locks {
                if lock.values.origin as u32 == 0 && symbols.variable(section, lock.values.address).is_none()
                {
                    taken.entry(number).or_default().push(StackOf { section, frames: &lock.frames });
                }
            }
        }
        for section in &profile.sections {
            for (number, frames) in &section.sites {
                if let Some(stacks) = taken.get_mut(number) {
                    stacks.push(StackOf { section, frames });
                }
            }
        }
        let mut known: HashMap<(u64, u64), Option<CallSite>> = HashMap::new();
        let mut call_site = |section: &Section, frame: u64| {
            let found = known.entry((section.number, frame));
            found.or_insert_with(|| symbols.call_site(section, frame)).clone()
        };
        let mut classes = Self { of_lock: HashMap::new(), classes: Vec::new(), parents: Vec::new() };
        let mut of_call: HashMap<(String, u64), usize> = HashMap::new();
        for (number, stacks) in taken {
            let mut class = Class::default();
            for stack in stacks {
                if let Some((from, call)) = behind_wrappers(stack, &mut call_site) {
                    class.calls.entry(call.place).or_insert((from, call.replaced));
                }
            }
            if !class.calls.is_empty() {
                classes.add(number, class, &mut of_call);
            }
        }
        classes
    }

    /// Adds a lock with where it is taken, and makes one class of those that are taken there too.
    fn add(&mut self, number: u32, class: Class<'p>, of_call: &mut HashMap<(String, u64), usize>) {
        let new = self.classes.len();
        let others: BTreeSet<usize> =
            class.calls.keys().filter_map(|call| Some(self.root(*of_call.get(call)?))).collect();
        for call in class.calls.keys() {
            of_call.insert(call.clone(), new);
        }
        self.classes.push(class);
        self.parents.push(new);
        self.of_lock.insert(number, new);
        for other in others {
            let (one, other) = (self.root(new), self.root(other));
            let larger = self.classes[one].calls.len() >= self.classes[other].calls.len();
            let (into, from) = if larger { (one, other) } else { (other, one) };
            let calls = std::mem::take(&mut self.classes[from].calls);
            self.classes[into].calls.extend(calls);
            self.parents[from] = into;
        }
    }

    /// The class that a class has become a part of.
    fn root(&self, mut class: usize) -> usize {
        while self.parents[class] != class {
            class = self.parents[class];
        }
        class
    }

    /// The first of the calls that take a lock, which names it.
    pub(super) fn first_call(&self, number: u32) -> Option<StackOf<'p>> {
        self.class_of(number)?.calls.values().next().map(|&(stack, _)| stack)
    }

    fn class_of(&self, number: u32) -> Option<&Class<'p>> {
        Some(&self.classes[self.root(*self.of_lock.get(&number)?)])
    }

    fn places_of(&self, number: u32) -> Option<&Places> {
        let Class { calls, places } = self.class_of(number)?;
        Some(places.get_or_init(|| Places {
            places: calls.keys().map(|(file, address)| format!("{file}!{address:#x}")).collect(),
            replaced: calls.values().any(|&(_, replaced)| replaced),
        }))
    }
}

/// The call by which a lock is taken, through whatever wraps it, and the stack from there on.
fn behind_wrappers<'p>(
    stack: StackOf<'p>,
    call_site: &mut impl FnMut(&Section, u64) -> Option<CallSite>,
) -> Option<(StackOf<'p>, CallSite)> {
    let StackOf { section, frames } = stack;
    let mut last = None;
    for (depth, &frame) in frames.iter().enumerate() {
        let Some(call) = call_site(section, frame) else { break };
        let in_wrapper = call.in_wrapper;
        last = Some((StackOf { section, frames: &frames[depth..] }, call));
        if !in_wrapper {
            break;
        }
    }
    last
}

pub(super) fn name_lock(
    section: &Section,
    number: u32,
    lock: &LockRecord,
    classes: &Classes<'_>,
    symbols: &mut Symbols<'_>,
) -> Named {
    if let Some(StackOf { section, frames }) = classes.first_call(number) {
        let named = name_by_call(section, frames, &frames[..1], symbols);
        return match classes.places_of(number).cloned() {
            Some(Places { places, replaced }) => Named { places, replaced, ..named },
            None => named,
        };
    }
    if let Some(site) = symbols.variable(section, lock.values.address) {
        let caller = caller_of(section, &lock.frames, symbols);
        let member = bytes_of(lock.values.kind as u32)
            .and_then(|bytes| symbols.member(section, lock.values.address, bytes));
        let file = symbols.file_of(section, lock.values.address);
        let in_variable = |name| {
            let named = Named::of(name, caller);
            Named { file: file.unwrap_or_default(), ..named }
        };
        let Some(Member { name, place }) = member else { return in_variable(site) };
        let declared = place.map(|(file, line)| format!("{file}:{line}"));
        let named = in_variable(name);
        return Named { site: Some(site), source: declared.or(named.source), ..named };
    }
    name_by_call(section, &lock.frames, &lock.frames, symbols)
}

/// Bytes of a lock of this kind, if it is an object of the C library.
fn bytes_of(kind: u32) -> Option<u64> {
    let bytes = match LockKind::by_number(kind) {
        LockKind::Object(ObjectKind::Mutex) => size_of::<libc::pthread_mutex_t>(),
        LockKind::Object(ObjectKind::Rwlock) => size_of::<libc::pthread_rwlock_t>(),
        LockKind::Object(ObjectKind::Spin) => size_of::<libc::pthread_spinlock_t>(),
        _ => return None,
    };
    Some(bytes as u64)
}

/// The name of a lock that a call makes or takes; `told` are the return addresses that tell it from other calls of the function.
fn name_by_call(section: &Section, frames: &[u64], told: &[u64], symbols: &mut Symbols<'_>) -> Named {
    let function = caller_of(section, frames, symbols);
    let name = function.as_ref().map_or_else(|| "(unknown caller)".to_owned(), |found| found.name.clone());
    let stack = Stack::of(told.iter().map(|&frame| section.in_its_file(frame)));
    let by_stack = site_by_symbols(section, frames, symbols).as_ref() != Some(&name);
    Named { stack: Some(stack), by_stack, ..Named::of(name, function) }
}

/// The function by which `--only` finds a lock: the first one that is no wrapper, by symbols alone. It does not know what was
/// inlined.
fn site_by_symbols(section: &Section, frames: &[u64], symbols: &mut Symbols<'_>) -> Option<String> {
    let mut innermost = None;
    for &frame in frames {
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
pub(super) fn caller_of(section: &Section, frames: &[u64], symbols: &mut Symbols<'_>) -> Option<Function> {
    let mut innermost = None;
    for &frame in frames {
        for function in symbols.functions(section, frame).iter() {
            if !function.wrapper {
                return Some(function.clone());
            }
            innermost.get_or_insert_with(|| function.clone());
        }
    }
    innermost
}
