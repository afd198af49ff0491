//! Events as the kernel writes them, and what tracefs says of them, for tests of what reads them.

use crate::records::HEADER;
use perf_event_open_sys::bindings;
use std::path::Path;

pub(crate) fn record(what: u32, body: &[u8]) -> Vec<u8> {
    let length = (HEADER + body.len()) as u32;
    [&what.to_le_bytes(), &(length << 16 | 2).to_le_bytes(), body].concat()
}

/// A sample as the kernel writes it.
pub fn sample(tid: u32, time_ns: u64, cpu: u32, chain: &[u64], raw: &[u8]) -> Vec<u8> {
    let mut body = [77_u32.to_le_bytes(), tid.to_le_bytes()].concat();
    body.extend(time_ns.to_le_bytes());
    body.extend([cpu, 0].map(u32::to_le_bytes).concat());
    body.extend((chain.len() as u64).to_le_bytes());
    chain.iter().for_each(|word| body.extend(word.to_le_bytes()));
    body.extend((raw.len() as u32).to_le_bytes());
    body.extend(raw);
    record(bindings::PERF_RECORD_SAMPLE, &body)
}

/// That so many samples found no space.
pub fn lost(count: u64) -> Vec<u8> {
    record(bindings::PERF_RECORD_LOST, &[9, count].map(u64::to_le_bytes).concat())
}

/// That thread 8 has begun another program.
pub fn exec(time_ns: u64) -> Vec<u8> {
    let body = [&[0; 8][..], b"another\0", &[0; 8], &time_ns.to_le_bytes(), &[0; 8]].concat();
    let mut bytes = record(bindings::PERF_RECORD_COMM, &body);
    bytes[4..6].copy_from_slice(&(bindings::PERF_RECORD_MISC_COMM_EXEC as u16).to_le_bytes());
    bytes
}

/// Writes what tracefs says of an event: its number, and its own fields behind the common one.
pub fn write_format(tracefs: &Path, event: &str, id: u32, fields: &str) {
    let common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n";
    let directory = tracefs.join("events").join(event);
    std::fs::create_dir_all(&directory).unwrap();
    let format = format!("name: {event}\nID: {id}\nformat:\n{common}{fields}");
    std::fs::write(directory.join("format"), format).unwrap();
}
