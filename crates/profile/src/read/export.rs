//! Lock tables for other programs: pprof, for flame graphs and profile stores.

use std::collections::HashMap;

use super::LockTable;

/// The table as a pprof profile, not compressed: for each lock the number of contended acquisitions and the time lost
/// waiting, with the call that first touched it as the stack.
///
/// The fields are those of pprof's `profile.proto`; stores take it as they take a mutex profile of Go.
pub fn to_pprof(table: &LockTable) -> Vec<u8> {
    let mut strings = Strings::default();
    let mut profile = Message::default();
    for (kind, unit) in [("contentions", "count"), ("delay", "nanoseconds")] {
        let mut value = Message::default();
        value.number(1, strings.index(kind)).number(2, strings.index(unit));
        profile.message(1, &value);
    }
    let mut functions = Message::default();
    let mut locations: HashMap<String, u64> = HashMap::new();
    for row in &table.rows {
        let mut location = |name: &str, source: Option<&str>| {
            let next = locations.len() as u64 + 1;
            *locations.entry(name.to_owned()).or_insert_with(|| {
                write_location(&mut functions, &mut strings, next, name, source);
                next
            })
        };
        let mut stack = vec![location(&row.name, None)];
        if !row.caller.is_empty() && row.caller != row.name {
            stack.push(location(&row.caller, row.source.as_deref()));
        }
        let mut sample = Message::default();
        sample.packed(1, &stack).packed(2, &[row.contended(), row.waited_ns() as u64]);
        profile.message(2, &sample);
    }
    profile.bytes.extend(functions.bytes);
    profile.number(10, table.header.elapsed_ns as u64);
    // Asking for a string may add one, so the table of them comes last.
    for text in &strings.all {
        profile.text(6, text);
    }
    profile.bytes
}

fn write_location(into: &mut Message, strings: &mut Strings, id: u64, name: &str, source: Option<&str>) {
    let (file, line) = source.and_then(|source| source.rsplit_once(':')).unwrap_or(("", "0"));
    let mut function = Message::default();
    function.number(1, id).number(2, strings.index(name)).number(4, strings.index(file));
    let mut place = Message::default();
    place.number(1, id).number(2, line.parse().unwrap_or(0));
    let mut location = Message::default();
    location.number(1, id).message(4, &place);
    into.message(4, &location).message(5, &function);
}

struct Strings {
    all: Vec<String>,
    indices: HashMap<String, u64>,
}

impl Default for Strings {
    fn default() -> Self {
        // The first string of a profile is the empty one.
        Self { all: vec![String::new()], indices: HashMap::from([(String::new(), 0)]) }
    }
}

impl Strings {
    fn index(&mut self, text: &str) -> u64 {
        *self.indices.entry(text.to_owned()).or_insert_with(|| {
            self.all.push(text.to_owned());
            self.all.len() as u64 - 1
        })
    }
}

/// A message in the protocol buffers' wire format.
#[derive(Default)]
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn block(&mut self, field: u64, content: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint(content.len() as u64);
        self.bytes.extend_from_slice(content);
        self
    }

    fn message(&mut self, field: u64, message: &Self) -> &mut Self {
        self.block(field, &message.bytes)
    }

    fn text(&mut self, field: u64, text: &str) -> &mut Self {
        self.block(field, text.as_bytes())
    }

    fn packed(&mut self, field: u64, values: &[u64]) -> &mut Self {
        let mut content = Self::default();
        for &value in values {
            content.varint(value);
        }
        self.block(field, &content.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Profile;
    use crate::session::{Overwrite, Recording};

    /// The fields of a message: number, and the bytes of a block or the value of a number.
    fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>, u64)> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let length = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
            let (number, rest) = bytes.split_at(length);
            *bytes = rest;
            number.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
        }
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let value = varint(&mut bytes);
            let content = if tag & 7 == 2 {
                let (content, rest) = bytes.split_at(value as usize);
                bytes = rest;
                content.to_vec()
            } else {
                assert_eq!(tag & 7, 0);
                Vec::new()
            };
            found.push((tag >> 3, content, value));
        }
        found
    }

    #[test]
    fn a_sample_leads_to_the_locks_name_and_its_callers_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p");
        Recording::create(&path, 0, 1, Overwrite::Profiles).unwrap();
        let mut table = Profile::open(&path).unwrap().table(&Default::default());
        let mut usage = crate::Usage { contended: 300, ..Default::default() };
        usage.wait.total_ns = 70_000.0;
        table.rows.push(crate::LockRow {
            name: "the lock".into(),
            site: "the lock".into(),
            kind: crate::LockKind::Mutex,
            caller: "the caller".into(),
            file: String::new(),
            source: Some("file.c:17".into()),
            pid: 1,
            program: String::new(),
            address: 0,
            generations: 1,
            threads: 1,
            merged: false,
            exclusive: usage,
            shared: crate::Usage::default(),
            acquisitions_per_operation: 0.0,
            critical_section_ns: 0.0,
            share: 0.0,
        });
        let profile = fields(&to_pprof(&table));
        let all = |number| profile.iter().filter(move |field| field.0 == number).map(|field| field.1.clone());
        let strings: Vec<String> = all(6).map(|text| String::from_utf8(text).unwrap()).collect();
        assert_eq!(strings[0], "");
        let sample = fields(&all(2).next().unwrap());
        assert_eq!(sample[0].1, [1, 2], "the lock, then its caller");
        assert_eq!(sample[1].1, [0xac, 0x02, 0xf0, 0xa2, 0x04], "300 contentions, 70000 ns");
        let functions: Vec<_> = all(5).map(|function| fields(&function)).collect();
        let name = |function: usize| strings[functions[function][1].2 as usize].as_str();
        assert_eq!((name(0), name(1)), ("the lock", "the caller"));
        assert_eq!(strings[functions[1][2].2 as usize], "file.c");
        let place = fields(&fields(&all(4).nth(1).unwrap())[1].1);
        assert_eq!((place[0].2, place[1].2), (2, 17));
    }
}
