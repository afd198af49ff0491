//! The stacks that made locks, with what is known of each call.

use std::collections::HashMap;
use std::sync::Arc;

use super::container::Section;
use super::mappings::Mapping;
use super::symbols::Symbols;

/// A call of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where the call was, in the process.
    pub address: u64,
    /// The functions that the call lies in, the innermost inlined one first. Safe to print.
    pub lines: Vec<SourceLine>,
    /// The program or library; `None` for code of no file.
    pub module: Option<Arc<Module>>,
}

/// A function, and its line where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The function.
    pub function: String,
    /// The source file; empty if unknown.
    pub file: String,
    /// The line; 0 if unknown.
    pub line: u32,
}

/// A part of a program or library, as it was mapped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// Its first address in the process.
    pub start: u64,
    /// The address after its last one.
    pub end: u64,
    /// Where it starts in the file.
    pub offset: u64,
    /// The file.
    pub path: String,
    /// The file's build identifier, in hexadecimal digits; empty if unknown.
    pub build_id: String,
}

/// Different stacks whose calls are named, several times as many as large programs have. A file that says that it has more would take
/// twenty times its length of memory; the locks of further stacks have their names, and no calls.
const MOST: usize = 1 << 15;

/// Stacks of call sites whose calls are named: as many as a process has walked at most.
const MOST_WALKED: usize = 1 << 12;

/// Stacks, each once: programs make many locks by few calls. By the process whose addresses they are.
#[derive(Default)]
pub(super) struct Stacks<'p> {
    known: HashMap<(u64, &'p [u64]), Arc<[Call]>>,
    modules: HashMap<(u64, u64), Arc<Module>>,
    /// Call sites whose calls were named.
    sites: usize,
    /// Stacks of call sites, likewise.
    walked: usize,
}

impl<'p> Stacks<'p> {
    /// A stack of this process.
    pub(super) fn of(
        &mut self,
        section: &Section,
        frames: &'p [u64],
        symbols: &mut Symbols<'_>,
    ) -> Arc<[Call]> {
        let key = (section.number, frames);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.known.len() >= MOST {
            return Arc::default();
        }
        let calls: Arc<[Call]> = frames.iter().map(|&frame| self.call(section, frame, symbols)).collect();
        self.known.insert(key, calls.clone());
        calls
    }

    /// The call by which the function that names a call site takes its lock, without the wrappers between: all that a recorded profile
    /// knows for certain, since another call from there may have had other callers. A program that was attached to has the stack of
    /// every wait, and so the calls that all of them have in common. `stacks` are those that are known of the return address `caller`,
    /// which is their innermost.
    pub(super) fn of_site(
        &mut self,
        section: &Section,
        caller: u64,
        stacks: &[&[u64]],
        function: &str,
        symbols: &mut Symbols<'_>,
    ) -> Vec<Call> {
        if self.sites >= MOST {
            return Vec::new();
        }
        self.sites += 1;
        let inner = self.innermost_of_site(section, caller, stacks, function, symbols);
        let around = if section.is_watched() { common(stacks).get(1..).unwrap_or_default() } else { &[] };
        let around = around.iter().map(|&frame| self.call(section, frame, symbols));
        std::iter::once(inner).chain(around).collect()
    }

    /// The calls of this stack, without what is inlined into the first of them inside of `function`; `None` past the bound.
    pub(super) fn of_walked(
        &mut self,
        section: &Section,
        frames: &[u64],
        function: &str,
        symbols: &mut Symbols<'_>,
    ) -> Option<Vec<Call>> {
        if self.walked >= MOST_WALKED {
            return None;
        }
        self.walked += 1;
        let mut calls: Vec<_> = frames.iter().map(|&frame| self.call(section, frame, symbols)).collect();
        let first = calls.first_mut()?;
        let wrappers = first.lines.iter().position(|line| line.function == function);
        first.lines.drain(..wrappers.unwrap_or(0));
        Some(calls)
    }

    fn innermost_of_site(
        &mut self,
        section: &Section,
        caller: u64,
        stacks: &[&[u64]],
        function: &str,
        symbols: &mut Symbols<'_>,
    ) -> Call {
        if let [only] = stacks {
            for &frame in *only {
                let mut call = self.call(section, frame, symbols);
                if let Some(wrappers) = call.lines.iter().position(|line| line.function == function) {
                    call.lines.drain(..wrappers);
                    return call;
                }
            }
        }
        let mut call = self.call(section, caller, symbols);
        match call.lines.iter().position(|line| line.function == function) {
            Some(wrappers) => drop(call.lines.drain(..wrappers)),
            // A wrapper that several functions call: their names together stand in its place.
            None => {
                let line = SourceLine { function: function.to_owned(), file: String::new(), line: 0 };
                call.lines = Some(line).filter(|line| !line.function.is_empty()).into_iter().collect();
            }
        }
        call
    }

    fn call(&mut self, section: &Section, return_address: u64, symbols: &mut Symbols<'_>) -> Call {
        let address = return_address.wrapping_sub(1);
        let functions = symbols.functions(section, return_address);
        let lines = functions.iter().map(|function| {
            let (file, line) = function.source.clone().unwrap_or_default();
            SourceLine { function: function.name.clone(), file, line }
        });
        Call { address, lines: lines.collect(), module: self.module(section, address) }
    }

    fn module(&mut self, section: &Section, address: u64) -> Option<Arc<Module>> {
        let mapping = section.mappings.at(address).filter(|_| !section.mappings.is_reused(address))?;
        let module = self
            .modules
            .entry((section.number, mapping.start))
            .or_insert_with(|| module_of(section, mapping));
        Some(module.clone())
    }
}

/// The innermost frames that all of these stacks have.
fn common<'s>(stacks: &[&'s [u64]]) -> &'s [u64] {
    let shared = |a: &'s [u64], b: &&'s [u64]| {
        let same = std::iter::zip(a, *b).take_while(|(a, b)| a == b).count();
        &a[..same]
    };
    stacks.split_first().map_or(&[], |(first, others)| others.iter().fold(first, shared))
}

fn module_of(section: &Section, mapping: &Mapping) -> Arc<Module> {
    let first = section.mappings.start_of(&mapping.path, mapping.start);
    let id = first.and_then(|first| section.build_ids.get(&first));
    Arc::new(Module {
        start: mapping.start,
        end: mapping.end,
        offset: mapping.offset,
        path: mapping.path.to_string(),
        build_id: id.into_iter().flatten().map(|byte| format!("{byte:02x}")).collect(),
    })
}

/// The program of a process: the part of its file that was mapped first.
pub(super) fn program_module(section: &Section) -> Option<Arc<Module>> {
    let mut of_program =
        section.mappings.list().iter().filter(|mapping| *mapping.path == *section.executable);
    let first = of_program.next()?;
    let lowest = of_program.fold(first, |a, b| if b.start < a.start { b } else { a });
    Some(module_of(section, lowest))
}
