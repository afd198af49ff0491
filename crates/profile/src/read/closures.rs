//! Which function a closure of C++ is in, where debug information calls it `operator()` and no more: what was inlined has no symbol.
//!
//! An entry of debug information does not say what it is in. So the unit is read once, from its start, for what is in which function.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use addr2line::gimli::{self, AttributeValue, UnitOffset, UnitRef};

use super::debug_info::Reader;

/// What a closure of C++ is called in debug information.
pub(super) const CLOSURE: &str = "operator()";

/// Entries that are read of a file, however large or forged: about a second's worth. Closures past that are called as debug information
/// calls them.
const MOST_ENTRIES: u64 = 32 << 20;

/// Entries that are followed from one to another, and closures that are in one another.
const DEEPEST: usize = 16;

/// What a function without a symbol is in.
#[derive(Clone, Copy)]
struct Inside {
    /// A class, unless it is a function itself.
    class: Option<UnitOffset>,
    function: UnitOffset,
}

type Functions = HashMap<UnitOffset, Inside>;

/// The closures of a file.
#[derive(Default)]
pub(super) struct Closures {
    units: RefCell<HashMap<Option<usize>, Functions>>,
    entries: Cell<u64>,
}

/// Where a closure is.
pub(super) struct Scope {
    /// The function that it is in, as the compiler calls it.
    pub(super) symbol: String,
    /// The classes in that function from the outermost on to the closure's; none for those that have no name, which are closures'.
    pub(super) classes: Vec<Option<String>>,
}

impl Closures {
    /// What the function is in that an entry is of: one that was inlined, or one that stands for itself.
    pub(super) fn scope(&self, unit: UnitRef<'_, Reader<'_>>, function: UnitOffset) -> Option<Scope> {
        let mut units = self.units.borrow_mut();
        let start = unit.header.debug_info_offset().map(|offset| offset.0);
        let functions = units.entry(start).or_insert_with(|| self.functions(unit));
        let mut classes = Vec::new();
        let mut function = function;
        for _ in 0..DEEPEST {
            let Inside { class, function: outer } =
                origins(unit, function).find_map(|of| functions.get(&of).copied())?;
            classes.insert(0, class.and_then(|class| text(unit, class, gimli::DW_AT_name)));
            let names = [gimli::DW_AT_linkage_name, gimli::DW_AT_name];
            let symbol =
                names.into_iter().find_map(|by| origins(unit, outer).find_map(|of| text(unit, of, by)))?;
            if symbol != CLOSURE {
                return Some(Scope { symbol, classes });
            }
            function = outer;
        }
        None
    }

    /// Those of a unit's functions that are in others.
    fn functions(&self, unit: UnitRef<'_, Reader<'_>>) -> Functions {
        let mut found = HashMap::new();
        // The functions and classes around an entry, each with its depth.
        let mut around: Vec<(isize, UnitOffset, bool)> = Vec::new();
        let Ok(mut entries) = unit.entries_raw(None) else { return found };
        while !entries.is_empty() && self.entries.get() < MOST_ENTRIES {
            self.entries.set(self.entries.get() + 1);
            let (depth, offset) = (entries.next_depth(), entries.next_offset());
            let Ok(abbreviation) = entries.read_abbreviation() else { break };
            let Some(abbreviation) = abbreviation else { continue };
            if entries.skip_attributes(abbreviation.attributes()).is_err() {
                break;
            }
            let is_function = match abbreviation.tag() {
                gimli::DW_TAG_subprogram => true,
                gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => false,
                _ => continue,
            };
            while around.pop_if(|&mut (outer, ..)| outer >= depth).is_some() {}
            if is_function
                && let Some(&(_, function, _)) = around.iter().rfind(|&&(.., is_function)| is_function)
            {
                let innermost = around.last().filter(|&&(.., is_function)| !is_function);
                found.insert(offset, Inside { class: innermost.map(|&(_, class, _)| class), function });
            }
            around.push((depth, offset, is_function));
        }
        found
    }
}

/// An entry, and those of the same function that it refers to.
fn origins<'u, 'f>(
    unit: UnitRef<'u, Reader<'f>>,
    of: UnitOffset,
) -> impl Iterator<Item = UnitOffset> + use<'u, 'f> {
    let next = move |&of: &UnitOffset| {
        let entry = unit.entry(of).ok()?;
        let by = [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification];
        by.into_iter().find_map(|by| match entry.attr_value(by)? {
            AttributeValue::UnitRef(offset) => Some(offset),
            _ => None,
        })
    };
    std::iter::successors(Some(of), next).take(DEEPEST)
}

/// The text of an attribute.
fn text(unit: UnitRef<'_, Reader<'_>>, of: UnitOffset, by: gimli::DwAt) -> Option<String> {
    let value = unit.entry(of).ok()?.attr_value(by)?;
    Some(unit.attr_string(value).ok()?.to_string_lossy().into_owned())
}
