// What each fuzz target does with its input. The tests do the same with the seeds.

/// The litmus reader; what it has read is judged under the strongest model, for a moment.
pub fn litmus(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(test) = checker::litmus::Test::parse(text) {
        let limits = checker::litmus::Limits { iterations: 1, executions: 20, ..Default::default() };
        let judged = test.judge_within(checker::Model::Sc, &limits);
        for state in &judged.finals.states {
            assert_eq!(test.project(state).len(), test.spoken_of().len());
        }
    }
}

/// The reader of machine files.
pub fn machine(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = topology::MachineFile::parse(text);
    }
}

/// The readers of sites and of lock names.
pub fn site(bytes: &[u8]) {
    let _ = pthread::site::Site::parse(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert!(text.starts_with(pthread::site::Site::without_number(text)));
        assert!(text.starts_with(pthread::request::Request::parse(text).name));
    }
}

/// The reader of replay traces, which reads what it writes.
pub fn trace(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(trace) = text.parse::<checker::ReplayTrace>() {
        assert_eq!(trace.to_string().parse::<checker::ReplayTrace>().as_ref(), Ok(&trace));
    }
}

/// The reader of profiles. Most of a profile is zeros, of which seeds hold none at their end.
pub fn profile(bytes: &[u8]) {
    const WHOLE_BYTES: usize = 1 << 20;
    let mut whole = bytes.to_vec();
    whole.resize(bytes.len().max(WHOLE_BYTES), 0);
    for bytes in [bytes, &whole[..]] {
        if let Ok(profile) = profile::Profile::parse("fuzzed.contend", bytes) {
            assert_eq!(profile.path(), std::path::Path::new("fuzzed.contend"));
        }
    }
}

/// The readers of measured curves; what they have read is extrapolated, and written and read again.
pub fn curve(bytes: &[u8]) {
    let own = [curve::format::read_json(bytes).ok(), curve::format::read_csv("fuzzed", bytes).ok()];
    let runs = std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| forecast::extrapolated::read_runs("fuzzed", text).ok());
    for curve in own.into_iter().flatten().flat_map(|series| series.curves).chain(runs) {
        if let Ok(extrapolated) = forecast::extrapolated::Extrapolated::new(curve, None) {
            assert!(extrapolated.json().is_object());
        }
    }
}
