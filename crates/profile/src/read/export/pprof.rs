//! pprof's `profile.proto`, for flame graphs and profile stores.

use super::dictionary::Dictionary;
use super::protobuf::Message;
use super::{BEHIND, CONTENTIONS, DELAY, knows_holders, samples};
use crate::read::LockTable;

/// The table as a pprof profile, not compressed: for each lock the number of contended acquisitions and the time lost
/// waiting. The stack is the lock itself, then the call that waited for it, with its address, file and line; where that is not known
/// the calls that made the lock; for a lock of the kernel the functions that waited for it.
///
/// Where it is known behind whose holds threads waited, each sample has that time as a third value: by the call that took the lock.
///
/// The first mapping is the program's, since pprof names the profile by that.
///
/// The fields are those of pprof's `profile.proto`; stores take it as they take a mutex profile of Go.
pub fn to_pprof(table: &LockTable) -> Vec<u8> {
    let mut profile = Message::default();
    let mut dictionary = Dictionary::default();
    dictionary.begin_with(table.program.as_deref(), samples(table));
    let holders = knows_holders(table).then_some(BEHIND);
    for (kind, unit) in [CONTENTIONS, DELAY].into_iter().chain(holders) {
        let mut value = Message::default();
        value.number(1, dictionary.string(kind)).number(2, dictionary.string(unit));
        profile.message(1, &value);
    }
    for one in samples(table) {
        let mut sample = Message::default();
        let behind_ns = holders.map(|_| one.behind_ns as u64);
        let values = [one.contended, one.waited_ns as u64].into_iter().chain(behind_ns);
        sample.packed(1, dictionary.stack(&one)).packed(2, values);
        profile.message(2, &sample);
    }
    for (number, one) in (1..).zip(&dictionary.mappings) {
        let mut mapping = Message::default();
        mapping.number(1, number).number(2, one.start).number(3, one.end).number(4, one.offset);
        mapping.number(5, one.path).number(6, one.build_id);
        // Functions, files, lines and inlined functions are in the profile: no tool has to look them up.
        mapping.number(7, 1).number(8, 1).number(9, 1).number(10, 1);
        profile.message(3, &mapping);
    }
    for (number, one) in (1..).zip(&dictionary.locations) {
        let mut location = Message::default();
        location.number(1, number).number(2, one.mapping).number(3, one.address);
        for &(function, line) in &one.lines {
            let mut place = Message::default();
            place.number(1, function).number(2, line);
            location.message(4, &place);
        }
        profile.message(4, &location);
    }
    for (number, one) in (1..).zip(&dictionary.functions) {
        let mut function = Message::default();
        function.number(1, number).number(2, one.name).number(3, one.name).number(4, one.file);
        profile.message(5, &function);
    }
    // Else it is the last one.
    let preferred = dictionary.string(DELAY.0);
    for text in dictionary.strings() {
        profile.text(6, text);
    }
    profile.number(9, table.header.started_realtime_ns).number(10, table.header.elapsed_ns as u64);
    profile.number(14, preferred);
    profile.bytes
}
