//! The file format of Java's Flight Recorder, as far as waits need it: versions 2.0 and 2.1, which JDK 9 and later and async-profiler write.
//!
//! A file is chunks, each of its own: a header, events, constants and the description of both. The description says of each class of events
//! and constants which fields it has, so that nothing else about them is known here. There is no document of the format; the layout is that
//! which `jdk.jfr.internal.consumer` of the OpenJDK reads.

use std::borrow::Cow;
use std::collections::HashMap;

use super::LONGEST_NAME;

/// How a chunk begins.
pub(super) const MAGIC: &[u8; 4] = b"FLR\0";
/// Bytes of a chunk's header.
pub(super) const HEADER: usize = 68;
/// The events that describe a chunk and that hold its constants.
const DESCRIPTION: i64 = 0;
const CONSTANTS: i64 = 1;
/// A class within a class within a class: deeper than any that the JDK has.
const DEEPEST: usize = 16;
/// Things of a list that are looked at: `stackdepth` goes to 2,048. A constant may be a long one, which each event may name.
const MOST_OF_LIST: usize = 2048;
/// The class of texts.
const TEXT: &str = "java.lang.String";

/// The file is not what its format says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken(pub(super) &'static str);

const SHORT: Broken = Broken("it ends within a value");
const TOO_DEEP: Broken = Broken("its classes are within each other without end");
const TOO_MANY: Broken = Broken("an event of it has more values than bytes");
const NO_CLASS: Broken = Broken("it has values of a class that it does not describe");

/// What a chunk's header says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// Bytes of the chunk with its header; those of an open chunk are not known.
    pub(super) length: u64,
    constants: u64,
    description: u64,
    pub(super) duration_ns: u64,
    pub(super) ticks_per_s: f64,
    compressed: bool,
}

impl Header {
    /// Reads it; none if it is no header of a chunk.
    pub(super) fn of(bytes: &[u8; HEADER]) -> Option<Self> {
        let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let known = bytes.starts_with(MAGIC) && u16::from_be_bytes([bytes[4], bytes[5]]) <= 2;
        known.then(|| Self {
            length: number(8),
            constants: number(16),
            description: number(24),
            duration_ns: number(40),
            ticks_per_s: number(56) as f64,
            compressed: bytes[HEADER - 1] & 1 == 1,
        })
    }

    /// The chunk was finished, or flushed at least: what describes it is there.
    pub(super) fn is_whole(&self) -> bool {
        let begins = HEADER as u64;
        self.length > begins && self.description >= begins && self.ticks_per_s > 0.0
    }
}

/// A value as the file has it. Constants are named by a number.
#[derive(Debug)]
enum Value<'a> {
    Nothing,
    Number(i64),
    Text(Cow<'a, str>),
    Constant(i64),
    /// The fields of an object, in the order of its class.
    Fields(Vec<Value<'a>>),
    List(Vec<Value<'a>>),
}

#[derive(Debug)]
struct Class {
    name: String,
    fields: Vec<Field>,
}

#[derive(Debug)]
struct Field {
    name: String,
    class: i64,
    is_constant: bool,
    is_list: bool,
}

/// A chunk whose description and constants are read.
pub(super) struct Chunk<'a> {
    bytes: &'a [u8],
    pub(super) header: Header,
    classes: HashMap<i64, Class>,
    constants: HashMap<(i64, i64), Value<'a>>,
}

/// An object of the chunk: an event, or what one leads to.
#[derive(Clone, Copy)]
pub(super) struct Object<'c> {
    chunk: &'c Chunk<'c>,
    class: i64,
    value: &'c Value<'c>,
}

impl<'a> Chunk<'a> {
    /// Reads what describes a chunk, and its constants of these classes and of texts; `bytes` is all of it.
    pub(super) fn new(bytes: &'a [u8], header: Header, classes: &[&str]) -> Result<Self, Broken> {
        let mut chunk = Self { bytes, header, classes: HashMap::new(), constants: HashMap::new() };
        chunk.classes = chunk.describe()?;
        let of_use = |class: &Class| class.name == TEXT || classes.contains(&class.name.as_str());
        let of_use: Vec<i64> =
            chunk.classes.iter().filter(|(_, class)| of_use(class)).map(|(&id, _)| id).collect();
        chunk.constants = chunk.all_constants(&of_use)?;
        Ok(chunk)
    }

    fn reader(&self, at: u64) -> Result<Reader<'a>, Broken> {
        let at = usize::try_from(at).ok().filter(|&at| at <= self.bytes.len()).ok_or(SHORT)?;
        Ok(Reader { bytes: &self.bytes[at..], compressed: self.header.compressed, values: 0 })
    }

    /// The classes by their numbers.
    fn describe(&self) -> Result<HashMap<i64, Class>, Broken> {
        let mut event = self.reader(self.header.description)?.event()?;
        if event.long()? != DESCRIPTION {
            return Err(Broken("its description is not where its header says"));
        }
        for _ in ["start", "duration", "number of the description"] {
            event.long()?;
        }
        let texts = event.length()?;
        let texts: Vec<Cow<'_, str>> = (0..texts)
            .map(|_| match event.text()? {
                Value::Text(text) => Ok(text),
                _ => Ok(Cow::Borrowed("")),
            })
            .collect::<Result<_, Broken>>()?;
        let mut classes = HashMap::new();
        describe_below(&mut event, &texts, &mut classes, None, 0)?;
        Ok(classes)
    }

    /// The constants of these classes, from the last event that has some back to the first.
    fn all_constants(&self, classes: &[i64]) -> Result<HashMap<(i64, i64), Value<'a>>, Broken> {
        let mut constants = HashMap::new();
        let (mut at, mut end) = (self.header.constants, u64::MAX);
        while at >= HEADER as u64 {
            let mut event = self.reader(at)?.event()?;
            // Events lie behind each other: those that overlap could be read without end.
            if (event.bytes.len() as u64).saturating_add(at) > end {
                return Err(Broken("its constants overlap"));
            }
            if event.long()? != CONSTANTS {
                return Err(Broken("its constants are not where its header says"));
            }
            for _ in ["start", "duration"] {
                event.long()?;
            }
            let to_earlier = event.long()?;
            event.byte()?; // what kind of checkpoint it is
            for _ in 0..event.length()? {
                let class = event.long()?;
                let kept = classes.contains(&class);
                for _ in 0..event.length()? {
                    let key = event.long()?;
                    let value = self.value(&mut event, class, 0)?;
                    if kept {
                        constants.entry((class, key)).or_insert(value);
                    }
                }
            }
            match u64::try_from(to_earlier.saturating_neg()) {
                Ok(back) if back > 0 && back <= at => {
                    end = at;
                    at -= back;
                }
                _ => break,
            }
        }
        Ok(constants)
    }

    fn value(&self, reader: &mut Reader<'a>, class: i64, depth: usize) -> Result<Value<'a>, Broken> {
        if depth > DEEPEST {
            return Err(TOO_DEEP);
        }
        reader.values = reader.values.checked_sub(1).ok_or(TOO_MANY)?;
        let known = self.classes.get(&class).ok_or(NO_CLASS)?;
        Ok(match known.name.as_str() {
            "boolean" | "byte" => Value::Number(reader.byte()?.into()),
            "short" => Value::Number(reader.number(2)?),
            "char" => Value::Number(reader.number(2)?),
            "int" => Value::Number(reader.number(4)?),
            "long" => Value::Number(reader.long()?),
            "float" => reader.take(4).map(|_| Value::Nothing)?,
            "double" => reader.take(8).map(|_| Value::Nothing)?,
            TEXT => reader.text()?,
            _ => {
                let fields = known.fields.iter().map(|field| self.field(reader, field, depth));
                Value::Fields(fields.collect::<Result<_, Broken>>()?)
            }
        })
    }

    fn field(&self, reader: &mut Reader<'a>, field: &Field, depth: usize) -> Result<Value<'a>, Broken> {
        let one = |reader: &mut Reader<'a>| match field.is_constant {
            true => reader.long().map(Value::Constant),
            false => self.value(reader, field.class, depth + 1),
        };
        if !field.is_list {
            return one(reader);
        }
        let mut all = Vec::new();
        for _ in 0..reader.length()? {
            all.push(one(reader)?);
        }
        Ok(Value::List(all))
    }

    /// Goes through the events of these classes, each with the name of its class.
    pub(super) fn for_each_event(
        &self,
        classes: &[&str],
        mut take: impl FnMut(&str, Object<'_>),
    ) -> Result<(), Broken> {
        let mut reader = self.reader(HEADER as u64)?;
        while !reader.bytes.is_empty() {
            let mut event = reader.next_event()?;
            let class = event.long()?;
            let Some(known) = self.classes.get(&class) else { continue };
            if class != DESCRIPTION && class != CONSTANTS && classes.contains(&known.name.as_str()) {
                let value = self.value(&mut event, class, 0)?;
                take(&known.name, Object { chunk: self, class, value: &value });
            }
        }
        Ok(())
    }

    /// The number of a class.
    pub(super) fn class(&self, name: &str) -> Option<i64> {
        self.classes.iter().find(|(_, class)| class.name == name).map(|(&id, _)| id)
    }
}

/// Takes in the elements of a description: classes, and their fields below them.
fn describe_below(
    reader: &mut Reader<'_>,
    texts: &[Cow<'_, str>],
    classes: &mut HashMap<i64, Class>,
    within: Option<i64>,
    depth: usize,
) -> Result<(), Broken> {
    if depth > DEEPEST {
        return Err(TOO_DEEP);
    }
    let text = |reader: &mut Reader<'_>| {
        let at = usize::try_from(reader.number(4)?).ok();
        at.and_then(|at| texts.get(at))
            .map(|text| text.as_ref())
            .ok_or(Broken("it names a text that it does not have"))
    };
    let element = text(reader)?;
    let mut attributes = HashMap::new();
    for _ in 0..reader.length()? {
        let key = text(reader)?;
        attributes.insert(key, text(reader)?);
    }
    let name = || {
        attributes.get("name").filter(|name| name.len() <= LONGEST_NAME).map_or("", |name| name).to_owned()
    };
    let number = |key: &str| attributes.get(key).and_then(|text| text.parse::<i64>().ok());
    let mut within = within;
    match element {
        "class" => {
            let id = number("id").ok_or(NO_CLASS)?;
            classes.insert(id, Class { name: name(), fields: Vec::new() });
            within = Some(id);
        }
        "field" => {
            if let Some(class) = within.and_then(|id| classes.get_mut(&id)) {
                class.fields.push(Field {
                    name: name(),
                    class: number("class").ok_or(NO_CLASS)?,
                    is_constant: attributes.get("constantPool") == Some(&"true"),
                    is_list: number("dimension").unwrap_or(0) > 0,
                });
            }
            within = None; // what is said of a field is of no use here
        }
        _ => {}
    }
    for _ in 0..reader.length()? {
        describe_below(reader, texts, classes, within, depth + 1)?;
    }
    Ok(())
}

impl<'c> Object<'c> {
    /// A field of it; a constant is what it stands for. None if there is none of that name.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        let Value::Fields(values) = self.value else { return None };
        let fields = &self.chunk.classes.get(&self.class)?.fields;
        let place = fields.iter().position(|field| field.name == name)?;
        self.of(fields.get(place)?.class, values.get(place)?)
    }

    /// The objects of a field that is a list: the first of them, if there are more than a stack of the JVM has.
    pub(super) fn list(self, name: &str) -> Vec<Self> {
        let Some(Self { class, value: Value::List(values), .. }) = self.field(name) else {
            return Vec::new();
        };
        values.iter().take(MOST_OF_LIST).filter_map(|value| self.of(class, value)).collect()
    }

    fn of(self, class: i64, value: &'c Value<'c>) -> Option<Self> {
        let value = match value {
            Value::Constant(key) => self.chunk.constants.get(&(class, *key))?,
            value => value,
        };
        Some(Self { class, value, ..self })
    }

    /// Its number, if it is one.
    pub(super) fn number(self) -> Option<i64> {
        match self.value {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Its text, if it is one that is not empty.
    pub(super) fn text(self) -> Option<&'c str> {
        let value = match self.value {
            Value::Constant(_) => self.of(self.class, self.value)?.value,
            value => value,
        };
        match value {
            Value::Text(text) if !text.is_empty() => Some(text.as_ref()),
            _ => None,
        }
    }
}

/// Bytes that are still to be read.
struct Reader<'a> {
    bytes: &'a [u8],
    compressed: bool,
    /// Values that may still be made of them: objects without fields take no bytes.
    values: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(SHORT)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Broken> {
        Ok(self.take(1)?[0])
    }

    /// A number of so many bytes where numbers are not compressed: seven bits a byte from the lowest on, and eight in a ninth byte.
    fn number(&mut self, width: usize) -> Result<i64, Broken> {
        if !self.compressed {
            let bytes = self.take(width)?;
            let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
            return Ok(bytes.iter().fold(sign, |number, &byte| number << 8 | i64::from(byte)));
        }
        let mut number = 0_u64;
        for place in 0..9 {
            let byte = u64::from(self.byte()?);
            let bits = if place == 8 { byte } else { byte & 0x7f };
            number |= bits << (7 * place);
            if byte & 0x80 == 0 {
                break;
            }
        }
        // What is narrower was written without its sign: -1 of an `int` has 32 bits here.
        Ok(match width {
            2 => i64::from(number as i16),
            4 => i64::from(number as i32),
            _ => number.cast_signed(),
        })
    }

    fn long(&mut self) -> Result<i64, Broken> {
        self.number(8)
    }

    /// How many things follow, each of a byte at least.
    fn length(&mut self) -> Result<usize, Broken> {
        let length = usize::try_from(self.number(4)?).ok();
        length.filter(|&length| length <= self.bytes.len()).ok_or(SHORT)
    }

    /// The event that is next, from the number of its class on; what is behind it is next then.
    fn next_event(&mut self) -> Result<Self, Broken> {
        let before = self.bytes.len();
        let length = usize::try_from(self.number(4)?).ok();
        let size_of_length = before - self.bytes.len();
        let rest = length.and_then(|length| length.checked_sub(size_of_length)).filter(|&rest| rest > 0);
        let bytes = self.take(rest.ok_or(Broken("an event of it has no length"))?)?;
        // Some objects are there for their fields alone.
        Ok(Self { bytes, compressed: self.compressed, values: 4 * bytes.len() })
    }

    fn event(mut self) -> Result<Self, Broken> {
        self.next_event()
    }

    fn text(&mut self) -> Result<Value<'a>, Broken> {
        Ok(match self.byte()? {
            0 => Value::Nothing,
            1 => Value::Text(Cow::Borrowed("")),
            2 => Value::Constant(self.long()?),
            3 => {
                let length = self.length()?;
                Value::Text(String::from_utf8_lossy(self.take(length)?))
            }
            4 => {
                let letters = (0..self.length()?).map(|_| Ok(self.number(2)? as u16));
                let letters: Vec<u16> = letters.collect::<Result<_, Broken>>()?;
                Value::Text(Cow::Owned(String::from_utf16_lossy(&letters)))
            }
            5 => {
                let length = self.length()?;
                Value::Text(Cow::Owned(self.take(length)?.iter().map(|&byte| char::from(byte)).collect()))
            }
            _ => return Err(Broken("it has a text of an encoding that is not known")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8], compressed: bool) -> Reader<'_> {
        Reader { bytes, compressed, values: 0 }
    }

    #[test]
    fn numbers_are_read_in_both_forms() {
        assert_eq!(reader(&[0x85, 0x01], true).long(), Ok(133));
        assert_eq!(reader(&[0xff; 9], true).long(), Ok(-1));
        assert_eq!(reader(&[0xff, 0xff, 0xff, 0xff, 0x0f], true).number(4), Ok(-1));
        assert_eq!(reader(&[0xff, 0xff, 0x03], true).number(2), Ok(-1));
        assert_eq!(reader(&[0xff, 0xff, 0xff, 0xff, 0x0f], true).long(), Ok(0xffff_ffff));
        assert_eq!(reader(&[0xff, 0xff, 0xff, 0xfe], false).number(4), Ok(-2));
        assert_eq!(reader(&[0, 0, 0, 0, 0, 0, 1, 0], false).long(), Ok(256));
        assert_eq!(reader(&[0x80], true).long(), Err(SHORT));
    }

    #[test]
    fn a_list_is_no_longer_than_the_bytes_that_are_left() {
        assert_eq!(reader(&[3, 0, 0, 0], true).length(), Ok(3));
        assert_eq!(reader(&[4, 0, 0, 0], true).length(), Err(SHORT));
        assert_eq!(reader(&[0xff; 9], true).length(), Err(SHORT));
    }

    #[test]
    fn texts_are_read_in_every_encoding() {
        let text = |bytes: &[u8]| match reader(bytes, true).text() {
            Ok(Value::Text(text)) => text.into_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(text(&[3, 2, b'a', b'b']), "ab");
        assert_eq!(text(&[4, 2, b'a', 0xe9, 0x01]), "aé");
        assert_eq!(text(&[5, 2, b'a', 0xe9]), "aé");
        assert_eq!((text(&[1]), text(&[0])), (String::new(), "Ok(Nothing)".to_owned()));
        assert!(text(&[9]).contains("encoding"));
    }
}
