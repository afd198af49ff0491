//! The names of a test's memory, and the locations behind them.

use std::collections::HashMap;

use super::program::{Cell, FaultKind, Number, Value, Width, address_of};
use super::token::{At, ParseError};
use super::types::Type;

/// Locations at most.
const MOST_LOCATIONS: usize = 1_024;
/// Names keep so many bytes between each other.
const GAP: Value = 16;

/// What a name stands for: one variable or an array.
#[derive(Clone, Debug)]
struct Object {
    name: String,
    address: Value,
    /// The bytes of an element.
    element: Value,
    elements: usize,
    /// Its first location.
    first: usize,
    is_array: bool,
}

/// One location while the test is read.
#[derive(Clone, Debug)]
struct Declared {
    name: String,
    address: Value,
    initial: Value,
    /// As the initial state declares it, or else a parameter.
    declared: Option<Type>,
    /// As the threads access it, where that can be seen in the text.
    accessed: Option<Width>,
    at: At,
}

/// The memory of a test while it is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    objects: Vec<Object>,
    declared_locations: Vec<Declared>,
    next: Value,
    /// Widths of accesses whose address is in a register.
    through_registers: Vec<Width>,
    /// Arrays that the initial state declares somewhere, with the type and the number of their elements.
    arrays: HashMap<String, (Option<Type>, usize)>,
    /// What the first parameter of a name says of the location, for those that the initial state gives no type.
    parameters: HashMap<String, Type>,
}

/// The memory of a test that has been read.
pub(super) struct Laid {
    pub(super) cells: Vec<Cell>,
    pub(super) names: Vec<String>,
    pub(super) initial: Vec<Value>,
}

impl Memory {
    /// Whether the name is one.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.objects.iter().any(|object| object.name == name)
    }

    fn object(&mut self, name: &str, at: At) -> Result<&Object, ParseError> {
        if !self.knows(name) {
            let array = self.arrays.get(name).copied();
            let (kind, elements) = array.map_or((None, None), |(kind, elements)| (kind, Some(elements)));
            self.declare(name, kind, elements, at)?;
        }
        Ok(self.objects.iter().find(|object| object.name == name).expect("made if it was not there"))
    }

    /// Notes that a name will be that of an array, wherever it comes first.
    pub(super) fn note_array(&mut self, name: &str, kind: Option<Type>, elements: usize) {
        self.arrays.entry(name.to_owned()).or_insert((kind, elements));
    }

    /// Notes what a parameter says of the location of its name.
    pub(super) fn note_parameter(&mut self, name: &str, kind: Type) {
        self.parameters.entry(name.to_owned()).or_insert(kind);
    }

    /// Makes a name known by a parameter that points to it. The initial state has the last word on whether it has a sign.
    pub(super) fn declare_parameter(
        &mut self,
        name: &str,
        kind: Option<Type>,
        at: At,
    ) -> Result<(), ParseError> {
        match self.knows(name).then(|| self.kind(name)) {
            Some(before) if before.number().width() == kind.unwrap_or(before).number().width() => Ok(()),
            _ => self.declare(name, kind, None, at),
        }
    }

    /// Makes a name known: a variable, or an array of so many elements.
    pub(super) fn declare(
        &mut self,
        name: &str,
        kind: Option<Type>,
        elements: Option<usize>,
        at: At,
    ) -> Result<(), ParseError> {
        let count = elements.unwrap_or(1);
        if let Some(known) = self.objects.iter().find(|object| object.name == name) {
            if elements.is_some() && known.elements != count {
                return Err(ParseError::new(at, format!("`{name}` was there before with another length")));
            }
            if let Some(kind) = kind {
                for place in &mut self.declared_locations[known.first..known.first + known.elements] {
                    let widths = [place.declared.unwrap_or(kind), kind].map(|kind| kind.number().width());
                    if widths[0] != widths[1] {
                        return Err(mixed(name, widths[0], widths[1], at));
                    }
                    place.declared = Some(kind);
                }
            }
            return Ok(());
        }
        if count == 0 || count > MOST_LOCATIONS || self.declared_locations.len() + count > MOST_LOCATIONS {
            return Err(ParseError::unsupported(
                at,
                format!("1 to {MOST_LOCATIONS} locations are supported"),
            ));
        }
        let kind = kind.or_else(|| self.parameters.get(name).copied()).or_else(|| self.type_of_parameters());
        let element = kind.unwrap_or(Type::INT).number().width().bytes();
        let address = address_of(0) + self.next;
        self.next += (element * count as Value + GAP - 1) / GAP * GAP;
        let is_array = elements.is_some();
        let first = self.declared_locations.len();
        for index in 0..count {
            self.declared_locations.push(Declared {
                name: if is_array { format!("{name}[{index}]") } else { name.to_owned() },
                address: address + element * index as Value,
                initial: 0,
                declared: kind,
                accessed: None,
                at,
            });
        }
        let name = name.to_owned();
        self.objects.push(Object { name, address, element, elements: count, first, is_array });
        Ok(())
    }

    /// The address of a name, made known if it was not.
    pub(super) fn address(&mut self, name: &str, at: At) -> Result<Value, ParseError> {
        Ok(self.object(name, at)?.address)
    }

    /// The bytes of an element behind a name.
    pub(super) fn element(&mut self, name: &str, at: At) -> Result<Value, ParseError> {
        Ok(self.object(name, at)?.element)
    }

    /// Whether the name is that of an array.
    pub(super) fn is_array(&self, name: &str) -> bool {
        self.objects.iter().any(|object| object.name == name && object.is_array)
    }

    /// How many elements are behind a name.
    pub(super) fn elements(&self, name: &str) -> Value {
        let object = self.objects.iter().find(|object| object.name == name);
        object.map_or(0, |object| object.elements as Value)
    }

    /// The location of a name, or of an element of an array.
    pub(super) fn location(&mut self, name: &str, index: Option<Value>, at: At) -> Result<usize, ParseError> {
        let object = self.object(name, at)?;
        match index {
            None if object.is_array => {
                let message = format!("`{name}` is an array: one of its elements is wanted, as `{name}[0]`");
                Err(ParseError::unsupported(at, message))
            }
            None => Ok(object.first),
            Some(index) => match usize::try_from(index) {
                Ok(index) if index < object.elements => Ok(object.first + index),
                _ => {
                    let message = format!("`{name}` has {} elements, none at {index}", object.elements);
                    Err(ParseError::new(at, message))
                }
            },
        }
    }

    /// What a location holds at the start.
    pub(super) fn set_initial(&mut self, location: usize, value: Value) {
        self.declared_locations[location].initial = value;
    }

    /// An access that the text shows, at so many bytes after a name.
    pub(super) fn access(
        &mut self,
        name: &str,
        offset: Value,
        width: Width,
        at: At,
    ) -> Result<(), ParseError> {
        let object = self.object(name, at)?.clone();
        let address = object.address.wrapping_add(offset); // no location has one that wraps
        if let Some(place) = self.declared_locations.iter_mut().find(|place| place.address == address) {
            return match place.accessed {
                Some(before) if before != width => Err(mixed(&place.name, before, width, at)),
                _ => {
                    place.accessed = Some(width);
                    Ok(())
                }
            };
        }
        let inside = 0..GAP - width.bytes() + 1;
        if object.is_array || !inside.contains(&offset) {
            let message = format!("nothing that is accessed as a whole lies {offset} bytes after `{name}`");
            return Err(ParseError::unsupported(at, message));
        }
        if self.declared_locations.len() == MOST_LOCATIONS {
            return Err(ParseError::unsupported(at, format!("more than {MOST_LOCATIONS} locations")));
        }
        let name = format!("{name}+{offset}");
        let (initial, declared, accessed) = (0, None, Some(width));
        self.declared_locations.push(Declared { name, address, initial, declared, accessed, at });
        Ok(())
    }

    /// The width that an access of a name has if it says none itself.
    pub(super) fn declared(&self, name: &str) -> Option<Width> {
        self.declared_type(name).map(|kind| kind.number().width())
    }

    fn declared_type(&self, name: &str) -> Option<Type> {
        let object = self.objects.iter().find(|object| object.name == name)?;
        self.declared_locations[object.first].declared
    }

    /// The type of what is behind a name: `int` where nothing says it.
    pub(super) fn kind(&self, name: &str) -> Type {
        self.declared_type(name).unwrap_or(Type::INT)
    }

    /// What all locations hold that are no pointers, if that is the same.
    pub(super) fn only_number(&self) -> Option<Number> {
        let known = self.declared_locations.iter().map(|place| place.declared.unwrap_or(Type::INT));
        only_number(known.chain(self.parameters.values().copied()))
    }

    /// The type of a location that no thread names: that of those which threads name, if they are of one type and addresses fit into
    /// it. Such a location is often one to which others point at the start.
    fn type_of_parameters(&self) -> Option<Type> {
        let number = only_number(self.parameters.values().copied());
        number.filter(|number| number.width() >= Width::Word).map(Type::of)
    }

    /// An access whose address is in a register.
    pub(super) fn access_through_register(&mut self, width: Width) {
        if !self.through_registers.contains(&width) {
            self.through_registers.push(width);
        }
    }

    /// Lays out the locations, each as wide as it is accessed.
    pub(super) fn lay(&self) -> Result<Laid, ParseError> {
        let mut laid = Laid { cells: Vec::new(), names: Vec::new(), initial: Vec::new() };
        for place in &self.declared_locations {
            let width = self.width_of(place)?;
            let declared = place.declared.map(Type::number).filter(|number| number.width() == width);
            let holds = declared.unwrap_or(Number::Signed(width));
            let cell = Cell { address: place.address, holds };
            let ends = |cell: &Cell| cell.address + cell.holds.width().bytes();
            let before = laid.cells.iter().zip(&laid.names);
            let mut overlapped =
                before.filter(|(other, _)| other.address < ends(&cell) && cell.address < ends(other));
            if let Some((_, name)) = overlapped.next() {
                let message = format!("accesses of `{name}` and `{}` overlap; {REMEDY}", place.name);
                return Err(ParseError::unsupported(place.at, message));
            }
            laid.cells.push(cell);
            laid.names.push(place.name.clone());
            laid.initial.push(width.truncate(holds.convert(place.initial)));
        }
        Ok(laid)
    }

    fn width_of(&self, place: &Declared) -> Result<Width, ParseError> {
        let seen = place.accessed.or(match self.through_registers[..] {
            [only] => Some(only),
            _ => None,
        });
        match (place.declared.map(|kind| kind.number().width()), seen) {
            (Some(declared), Some(seen)) if seen.bytes() > declared.bytes() => {
                // Only what the text shows is an error; through a register another location may be meant.
                match place.accessed {
                    Some(_) => Err(mixed(&place.name, declared, seen, place.at)),
                    None => Ok(declared),
                }
            }
            (Some(declared), Some(seen)) if seen != declared => {
                // A narrower access leaves the rest as it was; only if that is zero is the value the same.
                let positive = place.initial >= 0 && seen.truncate(place.initial) == place.initial;
                if positive { Ok(seen) } else { Err(mixed(&place.name, declared, seen, place.at)) }
            }
            (declared, seen) => Ok(seen.or(declared).unwrap_or(Width::Word)),
        }
    }
}

/// What all of these hold that are no pointers, if that is the same.
fn only_number(kinds: impl Iterator<Item = Type>) -> Option<Number> {
    let mut numbers = kinds.filter(|kind| !kind.is_pointer()).map(Type::number);
    let first = numbers.next()?;
    numbers.all(|number| number == first).then_some(first)
}

const REMEDY: &str = "accesses of different sizes to the same bytes are outside the models: give the test one size \
                      for each location";

fn mixed(name: &str, one: Width, other: Width, at: At) -> ParseError {
    let (one, other) = (one.bytes(), other.bytes());
    ParseError::unsupported(at, format!("`{name}` is {one} bytes wide here and {other} there; {REMEDY}"))
}

/// What to say of an access that the text does not show.
pub(super) fn fault_message(kind: FaultKind, address: Value) -> String {
    match kind {
        FaultKind::Wild => format!("the value {address} is used as an address, and is none of a location"),
        FaultKind::Overlap => format!("an access takes only part of a location, or more than one; {REMEDY}"),
        FaultKind::Transaction => "transactions are judged, and not run on this processor".to_owned(),
        FaultKind::CommitAlone => "a transaction is committed that was not begun".to_owned(),
        FaultKind::Undefined => "C gives no meaning to a division by zero, nor to a shift by a number of bits that is \
                                 negative or not below the width of what is shifted: test the right operand before"
            .to_owned(),
    }
}
