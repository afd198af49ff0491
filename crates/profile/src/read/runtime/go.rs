//! The mutex and block profiles of Go programs.

mod proto;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use prost::Message as _;

use super::{LONGEST_NAME, Place, Runtime, RuntimeError, RuntimeWaits, Sums};
use crate::read::names::printable_up_to;
use proto::Profile as Message;

/// How a gzip file begins, as `net/http/pprof` and `runtime/pprof` write profiles.
pub(super) const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Bytes that a profile may unpack to. Two of them can be a message, which takes some 50 in memory.
pub(super) const LONGEST: u64 = 16 << 20;

/// Frames of a sample, and of all samples, that are looked at: Go's stacks have 128 at most. Each may be named with a byte.
const MOST_FRAMES: usize = 1 << 10;
const MOST_FRAMES_OF_ALL: usize = 1 << 23;

/// Reads one.
pub(super) fn open(path: &Path) -> Result<RuntimeWaits, RuntimeError> {
    let unreadable = |source| RuntimeError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    let unpacked = MultiGzDecoder::new(file).take(LONGEST + 1).read_to_end(&mut bytes);
    unpacked.map_err(|source| match source.kind() {
        ErrorKind::UnexpectedEof => RuntimeError::Truncated { path: path.to_owned() },
        _ => unreadable(source),
    })?;
    if bytes.len() as u64 > LONGEST {
        return Err(RuntimeError::TooLong { path: path.to_owned() });
    }
    parse(&bytes).map_err(|what| RuntimeError::OtherOfGo { path: path.to_owned(), what })
}

fn parse(bytes: &[u8]) -> Result<RuntimeWaits, String> {
    let message = Message::decode(bytes).map_err(|error| error.to_string())?;
    let text = |at: i64| usize::try_from(at).ok().and_then(|at| message.string_table.get(at));
    let kinds = message.sample_type.iter().map(|value| text(value.kind).map_or("", String::as_str));
    let kinds: Vec<&str> = kinds.collect();
    let place = |kind: &str| kinds.iter().position(|&known| known == kind);
    let (Some(contentions), Some(delay)) = (place("contentions"), place("delay")) else {
        let of = kinds.iter().map(|kind| printable_up_to(LONGEST_NAME, kind)).collect::<Vec<_>>();
        return Err(format!("it has samples of \"{}\"", of.join(", ")));
    };
    let functions: BTreeMap<u64, &proto::Function> = message.function.iter().map(|f| (f.id, f)).collect();
    let locations: BTreeMap<u64, &proto::Location> = message.location.iter().map(|l| (l.id, l)).collect();
    let mut sums = Sums::default();
    let mut left = MOST_FRAMES_OF_ALL;
    for sample in &message.sample {
        let value = |at: usize| sample.value.get(at).map_or(0, |&value| u64::try_from(value).unwrap_or(0));
        // A location has inlined functions first.
        let mut looked_at = 0;
        let lines = sample.location_id.iter().filter_map(|id| locations.get(id)).flat_map(|l| &l.line);
        let lines = lines.take(MOST_FRAMES.min(left)).inspect(|_| looked_at += 1);
        let frames = lines.filter_map(|line| Some((functions.get(&line.function_id)?, line.line)));
        let frames = frames.filter_map(|(function, line)| {
            Some(Frame { function: text(function.name)?, file: text(function.filename), line })
        });
        let frames: Vec<Frame<'_>> = frames.collect();
        left -= looked_at;
        let Some((way, behind, site)) = told_by(&frames) else { continue };
        let short = |text: &str| printable_up_to(LONGEST_NAME, text);
        let function = Rc::from(short(site.function));
        let file = site.file.map_or_else(String::new, |file| short(file));
        let source = Rc::from(format!("{file}:{}", site.line));
        let place = Place { way, class: None, behind, function, source };
        sums.add(place, value(contentions), value(delay) as f64, None);
    }
    let duration_ns = u64::try_from(message.duration_nanos).ok().filter(|&ns| ns > 0);
    let rows = sums.rows();
    Ok(RuntimeWaits { runtime: Runtime::Go, rows, duration_ns, threshold_ns: None, cut_off: false })
}

/// A frame of a stack, as the profile names it.
struct Frame<'a> {
    function: &'a str,
    file: Option<&'a String>,
    line: i64,
}

/// What the innermost functions wait for or release, and the first frame that is neither Go's runtime nor its package `sync`.
fn told_by<'f, 'a>(frames: &'f [Frame<'a>]) -> Option<(&'static str, bool, &'f Frame<'a>)> {
    let inside = |name: &str| {
        let package = name.split(['.', '(']).next().unwrap_or("");
        ["runtime", "sync", "internal/sync", "internal/poll"].contains(&package)
    };
    let site = frames.iter().find(|frame| !inside(frame.function)).or(frames.last())?;
    let innermost = frames.iter().take_while(|frame| inside(frame.function));
    // What a release is part of, such as the wait for a condition that begins with it, is no release.
    let told =
        innermost.filter_map(|frame| way_of(frame.function)).reduce(|inner, outer| match (inner, outer) {
            ((_, true), (_, false)) => inner,
            _ => outer,
        });
    let (way, behind) = told.unwrap_or(("other", false));
    Some((way, behind, site))
}

/// What a function of Go's runtime or of `sync` waits for, and whether it ends others' waits instead.
fn way_of(function: &str) -> Option<(&'static str, bool)> {
    let method = function.rsplit('.').next().unwrap_or(function);
    let of = |class: &str| function.contains(class);
    Some(match method {
        "Lock" | "lockSlow" if of("RWMutex") => ("rwlock write", false),
        "RLock" => ("rwlock read", false),
        "Unlock" if of("RWMutex") => ("rwlock write", true),
        "RUnlock" => ("rwlock read", true),
        "Lock" | "lockSlow" => ("mutex", false),
        "Unlock" | "unlockSlow" => ("mutex", true),
        "Wait" if of("Cond") => ("condition", false),
        "Wait" if of("WaitGroup") => ("wait group", false),
        "selectgo" | "block" => ("select", false),
        _ if method.starts_with("chanrecv") || method.starts_with("chansend") => ("channel", false),
        _ if function.starts_with("runtime.unlock") || function == "runtime._LostContendedRuntimeLock" => {
            ("runtime lock", true)
        }
        _ if function.starts_with("runtime.lock") => ("runtime lock", false),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_unpacked_fits_into_memory_as_messages() {
        let most = [
            size_of::<proto::Sample>(),
            size_of::<proto::Location>(),
            size_of::<proto::Function>(),
            size_of::<String>(),
        ];
        assert!(most.iter().all(|&bytes| LONGEST / 2 * bytes as u64 <= 1 << 29), "{most:?}");
    }

    /// A profile with one sample for each stack, innermost function first.
    fn profile(kinds: &[&str], stacks: &[(&[&str], [i64; 2])]) -> Vec<u8> {
        let mut message = Message { string_table: vec![String::new()], ..Message::default() };
        let mut string = |text: &str| {
            message.string_table.push(text.to_owned());
            message.string_table.len() as i64 - 1
        };
        let types: Vec<_> = kinds.iter().map(|kind| proto::ValueType { kind: string(kind) }).collect();
        let file = string("/src/cache.go");
        for (stack, values) in stacks {
            let mut sample = proto::Sample { location_id: Vec::new(), value: values.to_vec() };
            for (depth, name) in stack.iter().enumerate() {
                let id = message.function.len() as u64 + 1;
                message.string_table.push((*name).to_owned());
                let name = message.string_table.len() as i64 - 1;
                message.function.push(proto::Function { id, name, filename: file });
                let line = proto::Line { function_id: id, line: 10 + depth as i64 };
                message.location.push(proto::Location { id, line: vec![line] });
                sample.location_id.push(id);
            }
            message.sample.push(sample);
        }
        message.sample_type = types;
        message.encode_to_vec()
    }

    #[test]
    fn waits_are_told_by_the_first_line_of_the_program() {
        let bytes = profile(
            &["contentions", "delay"],
            &[
                (&["sync.(*Mutex).Lock", "main.quickLookup", "main.main"], [3, 600]),
                (&["sync.(*Mutex).Lock", "main.quickLookup", "main.other"], [1, 200]),
                (&["sync.(*Mutex).Unlock", "main.slowRebalance"], [4, 700]),
                (&["internal/sync.(*Mutex).lockSlow", "sync.(*RWMutex).Lock", "main.writer"], [1, 50]),
                (&["runtime.chanrecv1", "main.main"], [1, 20]),
                (&["sync.(*WaitGroup).Wait", "main.main"], [1, 10]),
                (&["runtime.unlock", "runtime.schedule"], [1, 5]),
                (&["sync.(*Mutex).Unlock", "sync.(*Cond).Wait", "main.consumer"], [1, 4]),
                (&["sync.(*Mutex).Unlock", "sync.(*RWMutex).Unlock", "main.writer"], [1, 3]),
                (&["runtime.unlock", "runtime.chansend", "runtime.chansend1", "main.producer"], [1, 2]),
            ],
        );
        let rows = parse(&bytes).unwrap().rows;
        let told: Vec<_> =
            rows.iter().map(|row| (row.way, row.behind, row.function.as_str(), row.waits)).collect();
        assert_eq!(
            told,
            [
                ("mutex", false, "main.quickLookup", 4),
                ("mutex", true, "main.slowRebalance", 4),
                ("rwlock write", false, "main.writer", 1),
                ("channel", false, "main.main", 1),
                ("wait group", false, "main.main", 1),
                ("runtime lock", true, "runtime.schedule", 1),
                ("mutex", true, "main.consumer", 1),
                ("rwlock write", true, "main.writer", 1),
                ("runtime lock", true, "main.producer", 1),
            ]
        );
        assert_eq!((rows[0].source.as_str(), rows[0].waited_ns), ("/src/cache.go:11", 800.0));
        assert!(rows[0].is_lock() && !rows[3].is_lock());
    }

    #[test]
    fn a_stack_that_names_a_long_location_again_and_again_is_cut() {
        let small = profile(&["contentions", "delay"], &[(&["main.main"], [1, 20])]);
        let mut message = Message::decode(&*small).unwrap();
        let lines = vec![message.location[0].line[0].clone(); 100_000];
        message.location[0].line = lines;
        message.sample[0].location_id = vec![1; 100_000];
        message.sample = vec![message.sample[0].clone(); 10];
        assert_eq!(parse(&message.encode_to_vec()).unwrap().rows[0].waits, 10);
    }

    #[test]
    fn other_profiles_and_bytes_that_lie_are_refused_or_empty() {
        let cpu = profile(&["samples", "cpu"], &[(&["main.main"], [1, 1])]);
        assert!(parse(&cpu).unwrap_err().contains("samples, cpu"));
        assert!(parse(&[0xff; 40]).is_err());
        let mut lying =
            Message::decode(&*profile(&["contentions", "delay"], &[(&["main\x1b[2J"], [1, 1])])).unwrap();
        lying.sample[0].location_id.push(999);
        lying.sample[0].value = vec![-5];
        let rows = parse(&lying.encode_to_vec()).unwrap().rows;
        assert_eq!((rows[0].waits, rows[0].way), (0, "other"));
        assert!(!rows[0].function.contains('\x1b'), "{rows:?}");
        lying.function[0].name = -1;
        lying.location[0].line[0].function_id = 77;
        assert_eq!(parse(&lying.encode_to_vec()).unwrap().rows, []);
    }
}
