//! Lock tables for other programs: pprof, for flame graphs and profile stores.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Call, LockTable, Module, SourceLine};

/// The table as a pprof profile, not compressed: for each lock the number of contended acquisitions and the time lost
/// waiting. The stack is the lock itself, then the calls that made it, with their addresses, files and lines; for a lock of
/// the kernel the functions that waited for it.
///
/// The fields are those of pprof's `profile.proto`; stores take it as they take a mutex profile of Go.
pub fn to_pprof(table: &LockTable) -> Vec<u8> {
    let mut profile = Message::default();
    let mut tables = Tables::default();
    for (kind, unit) in [("contentions", "count"), ("delay", "nanoseconds")] {
        let mut value = Message::default();
        value.number(1, tables.strings.index(kind)).number(2, tables.strings.index(unit));
        profile.message(1, &value);
    }
    for row in &table.rows {
        let lock = SourceLine { function: row.name.clone(), file: String::new(), line: 0 };
        let lock = Call { address: row.address, lines: vec![lock], module: None };
        let calls = std::iter::once(&lock).chain(row.calls.iter());
        let stack: Vec<u64> = calls.map(|call| tables.location(row.pid, call)).collect();
        let mut sample = Message::default();
        sample.packed(1, &stack).packed(2, &[row.contended(), row.waited_ns() as u64]);
        profile.message(2, &sample);
    }
    for row in table.kernel.iter().flat_map(|kernel| &kernel.rows) {
        let mut of_kernel = |address: u64, name: &str| {
            let line = SourceLine { function: name.to_owned(), file: String::new(), line: 0 };
            tables.location(KERNEL, &Call { address, lines: vec![line], module: None })
        };
        let lock = of_kernel(row.address, &format!("{} ({})", row.name, row.kind));
        for calls in &row.calls {
            let functions = calls.addresses.iter().zip(&calls.functions);
            let functions = functions.map(|(&address, name)| of_kernel(address, name));
            let stack: Vec<u64> = std::iter::once(lock).chain(functions).collect();
            let mut sample = Message::default();
            sample.packed(1, &stack).packed(2, &[calls.waits, calls.waited_ns as u64]);
            profile.message(2, &sample);
        }
    }
    profile.bytes.extend(tables.messages.bytes);
    profile.number(10, table.header.elapsed_ns as u64);
    // Asking for a string may add one, so the table of them comes last.
    for text in &tables.strings.all {
        profile.text(6, text);
    }
    profile.bytes
}

/// Stands for the process in locations of the kernel.
const KERNEL: u64 = 0;

/// Where a location is: the process and the address, and the function, since locks may lie where others did.
type LocationKey = (u64, u64, String);

/// What a profile's samples refer to by number. Each is written once, when it is first needed.
#[derive(Default)]
struct Tables {
    messages: Message,
    strings: Strings,
    mappings: HashMap<Arc<Module>, u64>,
    functions: HashMap<(String, String), u64>,
    locations: HashMap<LocationKey, u64>,
}

impl Tables {
    fn location(&mut self, pid: u64, call: &Call) -> u64 {
        let function = call.lines.first().map(|line| line.function.clone()).unwrap_or_default();
        let place = (pid, call.address, function);
        if let Some(&known) = self.locations.get(&place) {
            return known;
        }
        let id = self.locations.len() as u64 + 1;
        self.locations.insert(place, id);
        let mut location = Message::default();
        location.number(1, id);
        if let Some(module) = &call.module {
            location.number(2, self.mapping(module));
        }
        location.number(3, call.address);
        for line in &call.lines {
            let mut place = Message::default();
            place.number(1, self.function(line)).number(2, line.line.into());
            location.message(4, &place);
        }
        self.messages.message(4, &location);
        id
    }

    fn mapping(&mut self, module: &Arc<Module>) -> u64 {
        if let Some(&known) = self.mappings.get(module) {
            return known;
        }
        let id = self.mappings.len() as u64 + 1;
        self.mappings.insert(module.clone(), id);
        let mut mapping = Message::default();
        mapping.number(1, id).number(2, module.start).number(3, module.end).number(4, module.offset);
        mapping.number(5, self.strings.index(&module.path)).number(6, self.strings.index(&module.build_id));
        // Functions, files, lines and inlined functions are in the profile: nobody has to look them up.
        mapping.number(7, 1).number(8, 1).number(9, 1).number(10, 1);
        self.messages.message(3, &mapping);
        id
    }

    fn function(&mut self, line: &SourceLine) -> u64 {
        let key = (line.function.clone(), line.file.clone());
        if let Some(&known) = self.functions.get(&key) {
            return known;
        }
        let id = self.functions.len() as u64 + 1;
        self.functions.insert(key, id);
        let (name, file) = (self.strings.index(&line.function), self.strings.index(&line.file));
        let mut function = Message::default();
        function.number(1, id).number(2, name).number(3, name).number(4, file);
        self.messages.message(5, &function);
        id
    }
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
    #[cfg_attr(miri, ignore = "Miri maps no files")]
    fn a_sample_leads_to_the_locks_name_and_its_callers_addresses_files_and_lines() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p");
        Recording::create(&path, 0, 1, Overwrite::Profiles).unwrap();
        let mut table = Profile::open(&path).unwrap().table(&Default::default());
        let mut usage = crate::Usage { contended: 300, ..Default::default() };
        usage.wait.total_ns = 70_000.0;
        table.rows.push(crate::LockRow {
            id: crate::LockId::default(),
            name: "the lock".into(),
            site: "the lock".into(),
            kind: crate::LockKind::Object(crate::ObjectKind::Mutex),
            caller: "the caller".into(),
            file: String::new(),
            source: Some("file.c:17".into()),
            calls: [Call {
                address: 0x40_1138,
                lines: vec![
                    SourceLine { function: "inlined".into(), file: "file.h".into(), line: 3 },
                    SourceLine { function: "the caller".into(), file: "file.c".into(), line: 17 },
                ],
                module: Some(Arc::new(Module {
                    start: 0x40_1000,
                    end: 0x40_3000,
                    offset: 0x1000,
                    path: "/bin/program".into(),
                    build_id: "c0ffee".into(),
                })),
            }]
            .into(),
            pid: 1,
            program: String::new(),
            address: 0,
            generations: 1,
            threads: 1,
            merged: false,
            exclusive: usage,
            shared: crate::Usage::default(),
            within: None,
            acquisitions_per_operation: 0.0,
            critical_section_ns: 0.0,
            threads_ns: 0.0,
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
        let text = |fields: &[(u64, Vec<u8>, u64)], field: usize| strings[fields[field].2 as usize].clone();
        let names: Vec<_> = functions.iter().map(|function| text(function, 1)).collect();
        assert_eq!(names, ["the lock", "inlined", "the caller"]);
        assert_eq!(text(&functions[2], 3), "file.c");
        let call = fields(&all(4).nth(1).unwrap());
        assert_eq!((call[1].0, call[1].2, call[2].0, call[2].2), (2, 1, 3, 0x40_1138), "mapping and address");
        let lines: Vec<_> = call[3..].iter().map(|line| fields(&line.1)).map(|f| (f[0].2, f[1].2)).collect();
        assert_eq!(lines, [(2, 3), (3, 17)], "functions and lines, the inlined one first");
        let mapping = fields(&all(3).next().unwrap());
        let range: Vec<_> = mapping[..4].iter().map(|field| field.2).collect();
        assert_eq!(range, [1, 0x40_1000, 0x40_3000, 0x1000]);
        assert_eq!([text(&mapping, 4), text(&mapping, 5)], ["/bin/program", "c0ffee"]);
    }
}
