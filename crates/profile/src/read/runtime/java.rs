//! Waits in recordings of Java's Flight Recorder: for monitors, which the JVM records itself, and for the locks of
//! `java.util.concurrent`, whose threads park.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::rc::Rc;

use super::jfr::{Broken, Chunk, HEADER, Header, Object};
use super::{LONGEST_NAME, Place, Runtime, RuntimeError, RuntimeWaits, Sums};
use crate::read::names::printable_up_to;

const ENTER: &str = "jdk.JavaMonitorEnter";
const WAIT: &str = "jdk.JavaMonitorWait";
const PARK: &str = "jdk.ThreadPark";
const SETTING: &str = "jdk.ActiveSetting";
/// Classes of constants that lead from an event to names.
const LEAD_TO_NAMES: [&str; 5] =
    ["jdk.types.StackTrace", "jdk.types.Method", "jdk.types.Symbol", "java.lang.Class", "java.lang.Thread"];
/// Bytes of a chunk: the JVM begins another one after 12 MB, unless it is told otherwise.
const LONGEST_CHUNK: u64 = 1 << 30;

/// Reads one.
pub(super) fn open(path: &Path) -> Result<RuntimeWaits, RuntimeError> {
    let unreadable = |source| RuntimeError::Unreadable { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut told = Told::default();
    let mut first = true;
    loop {
        match next_chunk(&mut file).map_err(unreadable)? {
            Next::End => break,
            Next::Chunk(header, bytes) => match told.take_in(header, &bytes) {
                Ok(()) => {}
                Err(Broken(what)) if first => {
                    return Err(RuntimeError::OtherOfJava { path: path.to_owned(), what });
                }
                Err(_) => told.cut_off = true,
            },
            Next::Cut(what) if first => {
                return Err(RuntimeError::OtherOfJava { path: path.to_owned(), what });
            }
            Next::Cut(_) => told.cut_off = true,
        }
        if told.cut_off {
            break;
        }
        first = false;
    }
    let Told { sums, duration_ns, threshold_ns, cut_off } = told;
    Ok(RuntimeWaits {
        runtime: Runtime::Java,
        rows: sums.rows(),
        duration_ns: Some(duration_ns),
        threshold_ns: threshold_ns.filter(|&ns| ns > 0.0),
        cut_off,
    })
}

enum Next {
    Chunk(Header, Vec<u8>),
    End,
    /// The rest is no whole chunk, and why.
    Cut(&'static str),
}

fn next_chunk(file: &mut File) -> std::io::Result<Next> {
    let mut bytes = vec![0; HEADER];
    match file.read(&mut bytes[..1])? {
        0 => return Ok(Next::End),
        _ => match file.read_exact(&mut bytes[1..]) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Ok(Next::Cut("it ends within the header of a chunk"));
            }
            read => read?,
        },
    }
    let begin = bytes.as_slice().try_into().expect("as long as a header");
    let Some(header) = Header::of(begin) else { return Ok(Next::Cut("a chunk of it has another header")) };
    if !header.is_whole() || header.length > LONGEST_CHUNK {
        return Ok(Next::Cut("it is still being written, or its program was killed"));
    }
    let rest = header.length - HEADER as u64;
    file.take(rest).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < header.length {
        return Ok(Next::Cut("it ends within a chunk"));
    }
    Ok(Next::Chunk(header, bytes))
}

/// What the chunks tell.
#[derive(Debug, Default)]
struct Told {
    sums: Sums,
    duration_ns: u64,
    threshold_ns: Option<f64>,
    cut_off: bool,
}

impl Told {
    fn take_in(&mut self, header: Header, bytes: &[u8]) -> Result<(), Broken> {
        let chunk = Chunk::new(bytes, header, &LEAD_TO_NAMES)?;
        let ns_per_tick = 1e9 / header.ticks_per_s;
        let of_locks = [ENTER, PARK].map(|class| chunk.class(class));
        self.duration_ns = self.duration_ns.saturating_add(header.duration_ns);
        chunk.for_each_event(&[ENTER, WAIT, PARK, SETTING], |class, event| {
            if class == SETTING {
                let about = event.field("id").and_then(Object::number);
                if about.is_some() && of_locks.contains(&about) {
                    self.set(event);
                }
                return;
            }
            let ticks = event.field("duration").and_then(Object::number).unwrap_or(0).max(0) as f64;
            if let Some((place, owner)) = place(class, event) {
                self.sums.add(place, 1, ticks * ns_per_tick, owner);
            }
        })
    }

    /// Takes in a setting of an event of waits for locks: what is shorter than the highest threshold may be missing.
    fn set(&mut self, setting: Object<'_>) {
        let text = |name| setting.field(name).and_then(Object::text);
        let ns = match text("name") {
            Some("threshold") => text("value").and_then(span_ns),
            // async-profiler's: a number of ns.
            Some("lock") => text("value").and_then(|ns| span_ns(&format!("{ns} ns"))),
            _ => None,
        };
        if let Some(ns) = ns {
            self.threshold_ns = Some(self.threshold_ns.map_or(ns, |known| known.max(ns)));
        }
    }
}

/// A span of time as settings have it: `20 ms`.
fn span_ns(text: &str) -> Option<f64> {
    let (number, unit) = text.trim().split_once(' ')?;
    let ns = match unit.trim() {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        "d" => 86400e9,
        _ => return None,
    };
    number.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0).map(|number| number * ns)
}

/// A frame of a stack: its class, its method, its line.
struct Frame<'c> {
    class: &'c str,
    method: &'c str,
    line: i64,
}

impl Frame<'_> {
    /// Whether it is of the runtime's own library.
    fn is_inside(&self) -> bool {
        ["java/", "jdk/", "sun/", "java.", "jdk.", "sun."]
            .iter()
            .any(|package| self.class.starts_with(package))
    }
}

/// The name of a class or a method. That of a class has slashes or dots.
fn name_of(named: Object<'_>) -> Option<&str> {
    let name = named.field("name")?;
    name.text().or_else(|| name.field("string")?.text())
}

/// The frames of an event's stack, the innermost first.
fn frames(event: Object<'_>) -> Vec<Frame<'_>> {
    let stack = event.field("stackTrace").map_or(Vec::new(), |stack| stack.list("frames"));
    stack.into_iter().filter_map(frame).collect()
}

fn frame(frame: Object<'_>) -> Option<Frame<'_>> {
    let method = frame.field("method")?;
    let class = method.field("type").and_then(name_of).unwrap_or_default();
    let line = frame.field("lineNumber").and_then(Object::number).unwrap_or(0);
    Some(Frame { class, method: name_of(method)?, line })
}

/// Where an event waited and for what, and the thread that it says held it.
fn place(class: &str, event: Object<'_>) -> Option<(Place, Option<Rc<str>>)> {
    let frames = frames(event);
    let site = frames.iter().find(|frame| !frame.is_inside()).or(frames.last())?;
    let waited_for =
        event.field(if class == PARK { "parkedClass" } else { "monitorClass" }).and_then(name_of);
    let way = match class {
        ENTER => "monitor",
        WAIT => "condition",
        _ => way_of_park(waited_for.unwrap_or_default(), &frames),
    };
    let dotted = |name: &str| Rc::from(printable_up_to(LONGEST_NAME, name).replace('/', "."));
    let name = |thread: Object<'_>| {
        let of = |name| thread.field(name).and_then(Object::text);
        Some(Rc::from(printable_up_to(LONGEST_NAME, of("javaName").or_else(|| of("osName"))?)))
    };
    // Code without a table of lines has none.
    let source = if site.line > 0 { format!("{}:{}", site.class, site.line) } else { site.class.to_owned() };
    let place = Place {
        way,
        class: waited_for.map(dotted),
        behind: false,
        function: dotted(&format!("{}.{}", site.class, site.method)),
        source: dotted(&source),
    };
    Some((place, event.field("previousOwner").and_then(name)))
}

/// What a thread waits for that parks, by the class of what it parks for and by the calls that led there.
fn way_of_park(class: &str, frames: &[Frame<'_>]) -> &'static str {
    let class = class.rsplit(['/', '.']).next().unwrap_or(class);
    let outer = class.split('$').next().unwrap_or(class);
    let inside = || frames.iter().take_while(|frame| frame.is_inside());
    let reads =
        || inside().any(|frame| frame.class.ends_with("ReadLock") || frame.method.contains("eadLock"));
    match outer {
        _ if class.ends_with("ConditionObject") => "condition",
        "ReentrantLock" => "mutex",
        "ReentrantReadWriteLock" | "StampedLock" if reads() => "rwlock read",
        "ReentrantReadWriteLock" | "StampedLock" => "rwlock write",
        "Semaphore" => "semaphore",
        "CountDownLatch" => "latch",
        "ForkJoinPool" => "idle worker",
        "CompletableFuture" | "FutureTask" => "future",
        "SynchronousQueue" | "LinkedTransferQueue" => "queue",
        _ => "park",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame<'c>(class: &'c str, method: &'c str) -> Frame<'c> {
        Frame { class, method, line: 1 }
    }

    #[test]
    fn spans_of_settings_are_read() {
        for (text, ns) in
            [("20 ms", Some(20e6)), ("0 ns", Some(0.0)), ("1 s", Some(1e9)), ("soon", None), ("-1 ms", None)]
        {
            assert_eq!(span_ns(text), ns, "{text}");
        }
    }

    #[test]
    fn what_is_parked_for_is_told_by_its_class_and_the_calls() {
        let park = frame("java/util/concurrent/locks/LockSupport", "park");
        let read = frame("java/util/concurrent/locks/ReentrantReadWriteLock$ReadLock", "lock");
        let own = frame("com/example/ReadLockUser", "readLock");
        for (class, frames, way) in [
            ("java/util/concurrent/locks/ReentrantLock$NonfairSync", [&park, &own], "mutex"),
            ("java/util/concurrent/locks/ReentrantReadWriteLock$NonfairSync", [&park, &read], "rwlock read"),
            ("java/util/concurrent/locks/ReentrantReadWriteLock$FairSync", [&park, &own], "rwlock write"),
            (
                "java/util/concurrent/locks/AbstractQueuedSynchronizer$ConditionObject",
                [&park, &own],
                "condition",
            ),
            ("java.util.concurrent.Semaphore$NonfairSync", [&park, &own], "semaphore"),
            ("", [&park, &own], "park"),
        ] {
            let frames =
                frames.map(|frame| Frame { class: frame.class, method: frame.method, line: frame.line });
            assert_eq!(way_of_park(class, &frames), way, "{class}");
        }
    }
}
