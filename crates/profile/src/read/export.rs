//! Lock tables for other programs: comma-separated values, and pprof for flame graphs and profile stores.

use std::collections::HashMap;

use super::{LockRow, LockTable, Usage};

/// The table as comma-separated values (RFC 4180), one row for each lock and mode in use.
pub fn to_csv(table: &LockTable) -> String {
    let mut text = String::from(
        "name,kind,mode,program,pid,caller,source,threads,acquisitions,nested,contended,try_failures,timeouts,\
         owner_changes,condition_waits,condition_ns,wait_ns,handover_mean_ns,hold_mean_ns,hold_same_core_mean_ns,\
         hold_other_core_mean_ns,think_mean_ns,wait_p50_ns,wait_p99_ns,hold_p50_ns,hold_p99_ns,\
         acquisitions_per_operation,share\r\n",
    );
    for row in &table.rows {
        for (mode, usage) in [("exclusive", &row.exclusive), ("shared", &row.shared)] {
            if usage.acquisitions | usage.try_failures | usage.timeouts | usage.condition_waits != 0 {
                csv_line(&mut text, table, row, mode, usage);
            }
        }
    }
    text
}

fn csv_line(text: &mut String, table: &LockTable, row: &LockRow, mode: &str, usage: &Usage) {
    let hold = usage.hold();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
    let operations = table.header.operations.map_or(table.header.elapsed_ns / 1e9, |n| n as f64);
    let per_operation = |value: f64| (operations > 0.0).then(|| value / operations);
    let share = per_operation(usage.held_ns())
        .filter(|_| table.header.operation_ns > 0.0)
        .map(|ns| ns / table.header.operation_ns);
    let cells = [
        row.name.clone(),
        row.kind.name().into(),
        mode.into(),
        row.program.clone(),
        row.pid.to_string(),
        row.caller.clone(),
        row.source.clone().unwrap_or_default(),
        row.threads.to_string(),
        usage.acquisitions.to_string(),
        usage.nested.to_string(),
        usage.contended.to_string(),
        usage.try_failures.to_string(),
        usage.timeouts.to_string(),
        usage.owner_changes.to_string(),
        usage.condition_waits.to_string(),
        number(Some(usage.condition_ns)),
        number(Some(usage.wait.total_ns)),
        number(usage.handover.mean_ns()),
        number(hold.mean_ns()),
        number(usage.hold_same.mean_ns()),
        number(usage.hold_other.mean_ns()),
        number(usage.think.mean_ns()),
        number(usage.wait.quantile_ns(0.5)),
        number(usage.wait.quantile_ns(0.99)),
        number(hold.quantile_ns(0.5)),
        number(hold.quantile_ns(0.99)),
        number(per_operation(usage.acquisitions as f64)),
        share.map_or(String::new(), |share| format!("{share:.6}")),
    ];
    text.push_str(&cells.map(|cell| csv_cell(&cell)).join(","));
    text.push_str("\r\n");
}

/// Quoted where commas, quotes or line ends need it, and where a spreadsheet would take the text for a formula.
fn csv_cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err();
    let guard = if formula { "'" } else { "" };
    if formula || text.contains([',', '"', '\n', '\r']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

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
