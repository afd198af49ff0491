//! What the samples of pprof and of OpenTelemetry refer to by number: strings, functions, mappings and locations.

use std::hash::Hash;

use indexmap::IndexSet;

use super::Sample;
use crate::read::{Call, Module};

/// Each thing once, numbered from 1 in the order in which they were first needed. The number 0 stands for none, and for the
/// empty string.
#[derive(Default)]
pub(super) struct Dictionary {
    strings: IndexSet<String>,
    pub(super) functions: IndexSet<Function>,
    pub(super) mappings: IndexSet<Mapping>,
    pub(super) locations: IndexSet<Location>,
}

/// A function, by the numbers of its strings.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) name: u64,
    pub(super) file: u64,
}

/// A part of a program or library in memory; its path and build identifier are numbers of strings.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    pub(super) path: u64,
    pub(super) build_id: u64,
}

/// A call, or a lock.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Location {
    /// The same address is something else in another process.
    process: u64,
    pub(super) address: u64,
    pub(super) mapping: u64,
    /// Functions, the innermost inlined one first, each with its line.
    pub(super) lines: Vec<(u64, u64)>,
}

impl Dictionary {
    /// All strings by their numbers, the empty one first.
    pub(super) fn strings(&self) -> impl Iterator<Item = &str> {
        std::iter::once("").chain(self.strings.iter().map(String::as_str))
    }

    pub(super) fn string(&mut self, text: &str) -> u64 {
        if text.is_empty() { 0 } else { number(&mut self.strings, text.to_owned()) }
    }

    /// The locations of a sample: the lock, then the calls.
    pub(super) fn stack(&mut self, sample: &Sample<'_>) -> Vec<u64> {
        sample.stack().map(|call| self.location(sample.process, call)).collect()
    }

    fn location(&mut self, process: u64, call: &Call) -> u64 {
        let mapping = call.module.as_ref().map_or(0, |module| self.mapping(module));
        let mut lines = Vec::with_capacity(call.lines.len());
        for line in &call.lines {
            let function = Function { name: self.string(&line.function), file: self.string(&line.file) };
            lines.push((number(&mut self.functions, function), line.line.into()));
        }
        number(&mut self.locations, Location { process, address: call.address, mapping, lines })
    }

    /// Gives the program's file the first mapping: one that calls are in, if there is any.
    pub(super) fn begin_with<'t>(
        &mut self,
        program: Option<&Module>,
        samples: impl Iterator<Item = Sample<'t>>,
    ) {
        let Some(program) = program else { return };
        let called = samples.into_iter().find_map(|sample| {
            let mut modules = sample.stack().filter_map(|call| call.module.clone());
            modules.find(|module| module.path == program.path)
        });
        self.mapping(called.as_deref().unwrap_or(program));
    }

    fn mapping(&mut self, module: &Module) -> u64 {
        let Module { start, end, offset, ref path, ref build_id } = *module;
        let (path, build_id) = (self.string(path), self.string(build_id));
        number(&mut self.mappings, Mapping { start, end, offset, path, build_id })
    }
}

/// The number of a thing, which it gets now if it has none.
pub(super) fn number<T: Hash + Eq>(all: &mut IndexSet<T>, thing: T) -> u64 {
    all.insert_full(thing).0 as u64 + 1
}
