//! OpenTelemetry's signal of profiles, for collectors and the stores behind them.

use indexmap::IndexSet;

use super::dictionary::{Dictionary, number};
use super::protobuf::Message;
use super::{BEHIND, CONTENTIONS, DELAY, Sample, knows_holders, samples};
use crate::read::LockTable;

/// The attribute of a mapping that holds its build identifier.
const BUILD_ID: &str = "process.executable.build_id.gnu";

/// The value of a sample in a profile.
type Measure = fn(&Sample<'_>) -> u64;

/// The table as OpenTelemetry's `ProfilesData`: a profile of contended acquisitions and one of the time lost waiting, with the
/// stacks of [`to_pprof`](super::to_pprof); where that is known, a third one of the time waited behind each call's holds. What no
/// thread waited for or behind is left out.
///
/// The fields are those of `opentelemetry/proto/profiles/v1development/profiles.proto` in version 1.10 of the protocol, whose
/// development is not over: another version may give them other numbers. The message has the shape of a collector's
/// `ExportProfilesServiceRequest`.
pub fn to_otel(table: &LockTable) -> Vec<u8> {
    let mut tables = Tables::default();
    let samples: Vec<_> = samples(table)
        .filter(|sample| sample.contended > 0 || sample.waited_ns > 0.0 || sample.behind_ns > 0.0)
        .map(|sample| (tables.stack(&sample), sample))
        .collect();
    let mut scope_profiles = Message::default();
    scope_profiles.message(1, &scope());
    let measures: [(_, Measure); 2] =
        [(CONTENTIONS, |sample| sample.contended), (DELAY, |sample| sample.waited_ns as u64)];
    let behind: (_, Measure) = (BEHIND, |sample| sample.behind_ns as u64);
    let holders = knows_holders(table).then_some(behind);
    for ((kind, unit), value) in measures.into_iter().chain(holders) {
        let mut value_type = Message::default();
        value_type.number(1, tables.dictionary.string(kind)).number(2, tables.dictionary.string(unit));
        let mut profile = Message::default();
        profile.message(1, &value_type);
        for (stack, sample) in samples.iter().filter(|(_, sample)| value(sample) > 0) {
            let mut message = Message::default();
            message.number(1, *stack).packed(4, [value(sample)]);
            profile.message(2, &message);
        }
        profile.fixed(3, table.header.started_realtime_ns).number(4, table.header.elapsed_ns as u64);
        scope_profiles.message(2, &profile);
    }
    let mut resource_profiles = Message::default();
    resource_profiles.message(1, &resource(&table.header.command)).message(2, &scope_profiles);
    let mut data = Message::default();
    data.message(1, &resource_profiles).message(2, &tables.encode());
    data.bytes
}

/// Which program it was.
fn resource(command: &[String]) -> Message {
    let path = command.first().map_or("", String::as_str);
    let mut resource = Message::default();
    for (key, value) in [
        ("service.name", path.rsplit('/').next().unwrap_or_default()),
        ("process.command_line", &command.join(" ")),
    ] {
        let mut attribute = Message::default();
        attribute.text(1, key).message(2, &text_value(value));
        resource.message(1, &attribute);
    }
    resource
}

/// Who made the profile.
fn scope() -> Message {
    let mut scope = Message::default();
    scope.text(1, "contend").text(2, env!("CARGO_PKG_VERSION"));
    scope
}

/// A value of an attribute.
fn text_value(text: &str) -> Message {
    let mut value = Message::default();
    value.text(1, text);
    value
}

/// What samples and locations refer to by number. The first entry of each table is a message without fields, and stands for none.
#[derive(Default)]
struct Tables {
    dictionary: Dictionary,
    stacks: IndexSet<Vec<u64>>,
}

impl Tables {
    fn stack(&mut self, sample: &Sample<'_>) -> u64 {
        let locations = self.dictionary.stack(sample);
        number(&mut self.stacks, locations)
    }

    /// The message `ProfilesDictionary`.
    fn encode(mut self) -> Message {
        let build_id_key = self.dictionary.string(BUILD_ID);
        let Self { dictionary, stacks } = &self;
        let mut encoded = Message::default();
        for table in [1, 2, 3, 4, 6, 7] {
            encoded.message(table, &Message::default());
        }
        let mut build_ids = IndexSet::new();
        for one in &dictionary.mappings {
            let mut mapping = Message::default();
            mapping.number(1, one.start).number(2, one.end).number(3, one.offset).number(4, one.path);
            if one.build_id != 0 {
                mapping.packed(5, [number(&mut build_ids, one.build_id)]);
            }
            encoded.message(1, &mapping);
        }
        for one in &dictionary.locations {
            let mut location = Message::default();
            location.number(1, one.mapping).number(2, one.address);
            for &(function, line) in &one.lines {
                let mut place = Message::default();
                place.number(1, function).number(2, line);
                location.message(3, &place);
            }
            encoded.message(2, &location);
        }
        for one in &dictionary.functions {
            let mut function = Message::default();
            function.number(1, one.name).number(2, one.name).number(3, one.file);
            encoded.message(3, &function);
        }
        let strings: Vec<_> = dictionary.strings().collect();
        for text in &strings {
            encoded.text(5, text);
        }
        for build_id in build_ids {
            let mut attribute = Message::default();
            attribute.number(1, build_id_key).message(2, &text_value(strings[build_id as usize]));
            encoded.message(6, &attribute);
        }
        for locations in stacks {
            let mut stack = Message::default();
            stack.packed(1, locations.iter().copied());
            encoded.message(7, &stack);
        }
        encoded
    }
}
