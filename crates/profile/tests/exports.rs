//! Exports, read back by libraries that others wrote for the formats.

use std::sync::Arc;

use contend_profile::read::{
    Call, Module, Profile, SiteStack, SiteUse, SourceLine, to_folded, to_otel, to_pprof,
};
use contend_profile::session::{Overwrite, Recording};
use contend_profile::{LockKind, LockRow, LockTable, ObjectKind, Usage};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::profiles::v1development::{ProfilesData, ProfilesDictionary};
use prost::Message as _;

/// A table of a lock with a caller, of one whose names are text like any other, and of one that no thread waited for.
fn table() -> LockTable {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    Recording::create(&path, 0, 1, Overwrite::Profiles).unwrap();
    let mut table = Profile::open(&path).unwrap().table(&Default::default());
    table.header.command = vec!["/usr/bin/server".into(), "--users".into(), "8".into()];
    table.header.elapsed_ns = 2e9;
    let caller = Call {
        address: 0x40_1138,
        lines: vec![line("inlined", "file.h", 3), line("the caller", "file.c", 17)],
        module: Some(Arc::new(Module {
            start: 0x40_1000,
            end: 0x40_3000,
            offset: 0x1000,
            path: "/bin/program".into(),
            build_id: "c0ffee".into(),
        })),
    };
    let generated = Call { address: 0x7000_0000, lines: vec![], module: None };
    table.rows = vec![
        row("the lock", 0x1000, vec![caller.clone()], 300, 70_000.0),
        row("we;ird\nlock 7", 0x2000, vec![caller, generated], 1, 30_000.0),
        row("at rest", 0x3000, vec![], 0, 0.0),
    ];
    table
}

fn line(function: &str, file: &str, line: u32) -> SourceLine {
    SourceLine { function: function.into(), file: file.into(), line }
}

fn row(name: &str, address: u64, calls: Vec<Call>, contended: u64, waited_ns: f64) -> LockRow {
    let mut exclusive = Usage { contended, ..Usage::default() };
    exclusive.wait.total_ns = waited_ns;
    LockRow {
        calls: calls.into(),
        pid: 1,
        address,
        threads: 1,
        exclusive,
        acquisitions_per_operation: Some(0.0),
        critical_section_ns: Some(0.0),
        share: Some(0.0),
        ..LockRow::new(name, LockKind::Object(ObjectKind::Mutex))
    }
}

/// pprof's `profile.proto`, as far as it is read here.
mod pprof {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(crate) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(crate) sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub(crate) mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub(crate) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(crate) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(crate) string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub(crate) time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub(crate) duration_nanos: i64,
        #[prost(int64, tag = "14")]
        pub(crate) default_sample_type: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(crate) kind: i64,
        #[prost(int64, tag = "2")]
        pub(crate) unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(crate) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(crate) value: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Mapping {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(uint64, tag = "2")]
        pub(crate) memory_start: u64,
        #[prost(uint64, tag = "3")]
        pub(crate) memory_limit: u64,
        #[prost(uint64, tag = "4")]
        pub(crate) file_offset: u64,
        #[prost(int64, tag = "5")]
        pub(crate) filename: i64,
        #[prost(int64, tag = "6")]
        pub(crate) build_id: i64,
        #[prost(bool, tag = "7")]
        pub(crate) has_functions: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Location {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(uint64, tag = "2")]
        pub(crate) mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub(crate) address: u64,
        #[prost(message, repeated, tag = "4")]
        pub(crate) line: Vec<Line>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Line {
        #[prost(uint64, tag = "1")]
        pub(crate) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(crate) line: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Function {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(int64, tag = "2")]
        pub(crate) name: i64,
        #[prost(int64, tag = "4")]
        pub(crate) filename: i64,
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn a_sample_of_pprof_leads_to_the_locks_name_and_its_callers_addresses_files_and_lines() {
    let table = table();
    let profile = pprof::Profile::decode(&to_pprof(&table)[..]).unwrap();
    let text = |index: i64| profile.string_table[index as usize].as_str();
    assert_eq!(text(0), "");
    let measures: Vec<_> = profile.sample_type.iter().map(|of| (text(of.kind), text(of.unit))).collect();
    assert_eq!(measures, [("contentions", "count"), ("delay", "nanoseconds")]);
    let sample = &profile.sample[0];
    assert_eq!((&sample.location_id[..], &sample.value[..]), (&[1, 2][..], &[300, 70_000][..]));
    let ids = |ids: Vec<u64>| assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    ids(profile.location.iter().map(|location| location.id).collect());
    ids(profile.function.iter().map(|function| function.id).collect());
    let names: Vec<_> = profile.function.iter().map(|function| text(function.name)).collect();
    assert_eq!(names[..3], ["the lock", "inlined", "the caller"]);
    assert_eq!(text(profile.function[2].filename), "file.c");
    let call = &profile.location[1];
    assert_eq!((call.mapping_id, call.address), (1, 0x40_1138));
    let lines: Vec<_> = call.line.iter().map(|line| (line.function_id, line.line)).collect();
    assert_eq!(lines, [(2, 3), (3, 17)], "functions and lines, the inlined one first");
    let [mapping] = &profile.mapping[..] else { panic!("one mapping") };
    let range = (mapping.id, mapping.memory_start, mapping.memory_limit, mapping.file_offset);
    assert_eq!((range, mapping.has_functions), ((1, 0x40_1000, 0x40_3000, 0x1000), true));
    assert_eq!([text(mapping.filename), text(mapping.build_id)], ["/bin/program", "c0ffee"]);
    assert_eq!(profile.time_nanos as u64, table.header.started_realtime_ns);
    assert_eq!(profile.duration_nanos, 2_000_000_000);
}

/// pprof takes the first mapping for the program, and its name for the profile's.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn the_first_mapping_of_pprof_is_the_programs() {
    let mut table = table();
    let part = |path: &str, start: u64| {
        let (path, build_id) = (path.to_owned(), String::new());
        Arc::new(Module { start, end: start + 0x1000, offset: 0, path, build_id })
    };
    let call = |module| Call { address: 0x7100, lines: vec![], module: Some(module) };
    let first = |table: &LockTable| {
        let profile = pprof::Profile::decode(&to_pprof(table)[..]).unwrap();
        let name = profile.string_table[profile.mapping[0].filename as usize].clone();
        let ids: Vec<_> = profile.mapping.iter().map(|mapping| mapping.id).collect();
        assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
        (name, profile.mapping[0].memory_start, ids.len())
    };
    table.program = Some(part("/bin/server", 0x40_0000));
    table.rows = vec![row("a", 1, vec![call(part("/lib/libc.so.6", 0x7000))], 1, 1.0)];
    assert_eq!(first(&table), ("/bin/server".to_owned(), 0x40_0000, 2));
    let calls = vec![call(part("/lib/libc.so.6", 0x7000)), call(part("/bin/server", 0x40_1000))];
    table.rows.push(row("b", 2, calls, 1, 1.0));
    assert_eq!(first(&table), ("/bin/server".to_owned(), 0x40_1000, 2), "the part that is called");
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn opentelemetrys_own_schema_reads_the_profile_back() {
    let table = table();
    let data = ProfilesData::decode(&to_otel(&table)[..]).unwrap();
    let dictionary = data.dictionary.as_ref().unwrap();
    every_table_begins_with_the_entry_for_none(dictionary);
    let [of_program] = &data.resource_profiles[..] else { panic!("one resource") };
    let attributes = &of_program.resource.as_ref().unwrap().attributes;
    let attributes: Vec<_> = attributes.iter().map(|one| (one.key.as_str(), value(&one.value))).collect();
    assert_eq!(
        attributes,
        [("service.name", "server"), ("process.command_line", "/usr/bin/server --users 8")]
    );
    let [by_contend] = &of_program.scope_profiles[..] else { panic!("one scope") };
    assert_eq!(by_contend.scope.as_ref().unwrap().name, "contend");
    let text = |index: i32| dictionary.string_table[index as usize].as_str();
    let [contentions, delay] = &by_contend.profiles[..] else { panic!("two profiles") };
    for (profile, measure, values) in [
        (contentions, ("contentions", "count"), [300, 1]),
        (delay, ("delay", "nanoseconds"), [70_000, 30_000]),
    ] {
        let kind = profile.sample_type.as_ref().unwrap();
        assert_eq!((text(kind.type_strindex), text(kind.unit_strindex)), measure);
        assert_eq!(profile.time_unix_nano, table.header.started_realtime_ns);
        assert_eq!(profile.duration_nano, 2_000_000_000);
        let found: Vec<_> = profile.samples.iter().flat_map(|sample| sample.values.clone()).collect();
        assert_eq!(found, values, "a lock that nobody waited for is left out");
        let stack = stack_of(dictionary, profile.samples[0].stack_index);
        assert_eq!(stack, ["the lock :0", "inlined file.h:3", "the caller file.c:17"]);
        let stack = stack_of(dictionary, profile.samples[1].stack_index);
        assert_eq!(stack, ["we;ird\nlock 7 :0", "inlined file.h:3", "the caller file.c:17"]);
    }
    let [_, mapping] = &dictionary.mapping_table[..] else { panic!("one mapping") };
    let range = (mapping.memory_start, mapping.memory_limit, mapping.file_offset);
    assert_eq!((range, text(mapping.filename_strindex)), ((0x40_1000, 0x40_3000, 0x1000), "/bin/program"));
    let attribute = &dictionary.attribute_table[mapping.attribute_indices[0] as usize];
    assert_eq!(
        (text(attribute.key_strindex), value(&attribute.value)),
        ("process.executable.build_id.gnu", "c0ffee")
    );
}

fn every_table_begins_with_the_entry_for_none(dictionary: &ProfilesDictionary) {
    assert_eq!(dictionary.mapping_table[0], Default::default());
    assert_eq!(dictionary.location_table[0], Default::default());
    assert_eq!(dictionary.function_table[0], Default::default());
    assert_eq!(dictionary.link_table[..], [Default::default()]);
    assert_eq!(dictionary.string_table[0], "");
    assert_eq!(dictionary.attribute_table[0], Default::default());
    assert_eq!(dictionary.stack_table[0], Default::default());
}

fn value(value: &Option<opentelemetry_proto::tonic::common::v1::AnyValue>) -> &str {
    match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        other => panic!("{other:?} is no text"),
    }
}

/// Functions, files and lines of a stack.
fn stack_of(dictionary: &ProfilesDictionary, stack: i32) -> Vec<String> {
    let text = |index: i32| &dictionary.string_table[index as usize];
    let locations = &dictionary.stack_table[stack as usize].location_indices;
    let lines = locations.iter().flat_map(|&location| &dictionary.location_table[location as usize].lines);
    lines
        .map(|line| {
            let function = &dictionary.function_table[line.function_index as usize];
            format!("{} {}:{}", text(function.name_strindex), text(function.filename_strindex), line.line)
        })
        .collect()
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn a_flame_graph_has_every_lock_over_its_callers_with_the_time_waited() {
    let folded = to_folded(&table(), |sample| sample.waited_ns);
    assert_eq!(
        folded, "0x70000000;the caller;inlined;we:ird lock_7 30000\nthe caller;inlined;the lock 70000\n",
        "outermost first, and locks that nobody waited for are left out"
    );
    let mut svg = Vec::new();
    let mut options = inferno::flamegraph::Options::default();
    options.count_name = "ns".into();
    inferno::flamegraph::from_lines(&mut options, folded.lines(), &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    let mut titles: Vec<_> = svg
        .split("<title>")
        .skip(1)
        .map(|title| title.split("</title>").next().unwrap().split(" ns,").next().unwrap())
        .collect();
    titles.sort_unstable();
    assert_eq!(
        titles,
        [
            "0x70000000 (30,000", "all (100,000", "inlined (30,000", "inlined (70,000", "the caller (30,000",
            "the caller (70,000", "the lock (70,000", "we:ird lock_7 (30,000",
        ]
    );
    let contended = to_folded(&table(), |sample| sample.contended as f64);
    assert!(contended.ends_with(";the lock 300\n"), "{contended}");
}

/// The lock is waited for in `get` and, for less than is known in all, in `put`, each behind `rebalance`.
fn with_call_sites() -> LockTable {
    let mut table = table();
    let site = |function: &str, address, waits, waited_ns, behind_ns| SiteUse {
        function: function.into(),
        waits,
        waited_ns,
        behind_ns,
        calls: vec![Call { address, lines: vec![line(function, "pool.c", 9)], module: None }],
        ..SiteUse::default()
    };
    table.rows[0].call_sites = vec![
        site("rebalance", 0x52, 0, 0.0, 64_000.4),
        site("get", 0x50, 200, 50_000.6, 0.0),
        site("put", 0x51, 90, 15_000.0, 1_000.0),
    ];
    table.rows.truncate(1);
    table
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn a_lock_with_call_sites_has_a_sample_for_each_that_add_up_to_its_figures() {
    let profile = pprof::Profile::decode(&to_pprof(&with_call_sites())[..]).unwrap();
    let text = |index: i64| profile.string_table[index as usize].as_str();
    let measures: Vec<_> = profile.sample_type.iter().map(|of| (text(of.kind), text(of.unit))).collect();
    assert_eq!(measures, [("contentions", "count"), ("delay", "nanoseconds"), ("behind", "nanoseconds")]);
    assert_eq!(text(profile.default_sample_type), "delay", "and not the last one");
    let name = |location: u64| {
        let function = profile.location[location as usize - 1].line.last().unwrap().function_id;
        text(profile.function[function as usize - 1].name)
    };
    let samples = profile.sample.iter();
    let samples: Vec<(Vec<&str>, &[i64])> = samples
        .map(|sample| (sample.location_id.iter().copied().map(name).collect(), &sample.value[..]))
        .collect();
    assert_eq!(
        samples,
        [
            (vec!["the lock", "rebalance"], &[0, 0, 64_000][..]),
            (vec!["the lock", "get"], &[200, 50_001, 0]),
            (vec!["the lock", "put"], &[90, 15_000, 1_000]),
            (vec!["the lock", "the caller"], &[10, 4_999, 0]),
        ],
        "what no call site has stays with the calls that made the lock"
    );
}

#[test]
fn a_call_site_has_its_waits_by_stack() {
    let mut table = with_call_sites();
    let get = &mut table.rows[0].call_sites[1];
    let stack = |request: &str, waits, waited_ns| {
        let outer = Call { address: 0x60, lines: vec![line(request, "serve.c", 5)], module: None };
        let calls = vec![get.calls[0].clone(), outer];
        SiteStack { calls, waits, waited_ns, behind_ns: 0.0 }
    };
    get.stacks = vec![stack("login", 150, 30_000.4), stack("search", 40, 15_000.4)];
    let waited = to_folded(&table, |sample| sample.waited_ns);
    for line in ["login;get;the lock 30001\n", "search;get;the lock 15000\n", "get;the lock 5000\n"] {
        assert!(waited.contains(line), "{line}: {waited}");
    }
    let contended = to_folded(&table, |sample| sample.contended as f64);
    assert!(
        contended.contains("search;get;the lock 40\n") && contended.contains("get;the lock 10\n"),
        "{contended}"
    );
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn call_sites_that_claim_more_than_the_lock_has_get_what_there_is() {
    let mut table = with_call_sites();
    for (site, waited_ns) in table.rows[0].call_sites.iter_mut().zip([f64::NAN, f64::INFINITY, -1.0]) {
        (site.waits, site.waited_ns, site.behind_ns) = (u64::MAX, waited_ns, f64::INFINITY);
    }
    let profile = pprof::Profile::decode(&to_pprof(&table)[..]).unwrap();
    let sum = |value: usize| profile.sample.iter().map(|sample| sample.value[value]).sum::<i64>();
    assert_eq!((sum(0), sum(1)), (300, 70_000));
    ProfilesData::decode(&to_otel(&table)[..]).unwrap();
    to_folded(&table, |sample| sample.behind_ns);
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no files")]
fn who_is_waited_behind_is_a_profile_of_opentelemetry_and_a_weight_of_folded_stacks() {
    let table = with_call_sites();
    let data = ProfilesData::decode(&to_otel(&table)[..]).unwrap();
    let dictionary = data.dictionary.as_ref().unwrap();
    let [contentions, delay, behind] = &data.resource_profiles[0].scope_profiles[0].profiles[..] else {
        panic!("three profiles")
    };
    let values = |profile: &opentelemetry_proto::tonic::profiles::v1development::Profile| -> Vec<_> {
        profile.samples.iter().flat_map(|sample| sample.values.clone()).collect()
    };
    assert_eq!(
        [contentions, delay, behind].map(values),
        [vec![200, 90, 10], vec![50_001, 15_000, 4_999], vec![64_000, 1_000]]
    );
    let stack = stack_of(dictionary, behind.samples[0].stack_index);
    assert_eq!(stack, ["the lock :0", "rebalance pool.c:9"]);
    assert_eq!(to_folded(&table, |sample| sample.behind_ns), "put;the lock 1000\nrebalance;the lock 64000\n");
}
