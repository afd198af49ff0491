//! A recording as async-profiler writes it (`-e lock -f app.jfr`). Its classes, fields and the lengths of its numbers are those of its
//! `jfrMetadata.cpp` and `flightRecorder.cpp`, which differ from the JDK's: the lock's threshold is a setting `lock` in ns, no thread that
//! held a monitor is told, lengths are padded, and events have other fields.

use contend_profile::read::{Runtime, RuntimeWaits};

const METADATA: u64 = 0;
const CONSTANTS: u64 = 1;
const STRING: u64 = 20;
const CLASS: u64 = 21;
const THREAD: u64 = 22;
const STACK_TRACE: u64 = 26;
const STACK_FRAME: u64 = 27;
const METHOD: u64 = 28;
const SYMBOL: u64 = 30;
const INT: u64 = 10;
const LONG: u64 = 11;
const BOOLEAN: u64 = 4;
const BYTE: u64 = 8;
const MONITOR_ENTER: u64 = 104;
const THREAD_PARK: u64 = 105;
const ACTIVE_SETTING: u64 = 109;

/// Ticks are those of the processor: two to the nanosecond.
const TICKS_PER_S: u64 = 2_000_000_000;

#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn var(&mut self, mut number: u64) -> &mut Self {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.0.push(3); // UTF-8
        self.var(text.len() as u64);
        self.0.extend(text.bytes());
        self
    }

    /// A record with its length before it, in five bytes where it may be long.
    fn record(&mut self, padded: bool, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        if padded {
            let length = inner.0.len() as u64 + 5;
            self.0.extend((0..5).map(|i| (length >> (7 * i)) as u8 & 0x7f | if i < 4 { 0x80 } else { 0 }));
        } else {
            self.0.push(u8::try_from(inner.0.len() + 1).expect("a short record"));
        }
        self.0.extend(inner.0);
    }
}

/// An element of the description.
struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    children: Vec<Element>,
}

fn class(name: &str, id: u64, fields: &[(&'static str, u64, &str)]) -> Element {
    let field = |&(name, class, how): &(&'static str, u64, &str)| {
        let mut attributes = vec![("name", name.to_owned()), ("class", class.to_string())];
        match how {
            "pool" => attributes.push(("constantPool", "true".into())),
            "list" => attributes.push(("dimension", "1".into())),
            _ => {}
        }
        Element { name: "field", attributes, children: Vec::new() }
    };
    let attributes = vec![("id", id.to_string()), ("name", name.to_owned())];
    Element { name: "class", attributes, children: fields.iter().map(field).collect() }
}

fn classes() -> Vec<Element> {
    let event = [("startTime", LONG, ""), ("duration", LONG, "")];
    let of_thread = [("eventThread", THREAD, "pool"), ("stackTrace", STACK_TRACE, "pool")];
    let enter = [("monitorClass", CLASS, "pool"), ("previousOwner", THREAD, "pool"), ("address", LONG, "")];
    let park =
        [("parkedClass", CLASS, "pool"), ("timeout", LONG, ""), ("until", LONG, ""), ("address", LONG, "")];
    let setting = [("startTime", LONG, ""), ("id", LONG, ""), ("name", STRING, ""), ("value", STRING, "")];
    vec![
        class("boolean", BOOLEAN, &[]),
        class("byte", BYTE, &[]),
        class("int", INT, &[]),
        class("long", LONG, &[]),
        class("java.lang.String", STRING, &[]),
        class("java.lang.Class", CLASS, &[("name", SYMBOL, "pool"), ("modifiers", INT, "")]),
        class(
            "java.lang.Thread",
            THREAD,
            &[
                ("osName", STRING, ""),
                ("osThreadId", LONG, ""),
                ("javaName", STRING, ""),
                ("javaThreadId", LONG, ""),
            ],
        ),
        class(
            "jdk.types.StackTrace",
            STACK_TRACE,
            &[("truncated", BOOLEAN, ""), ("frames", STACK_FRAME, "list")],
        ),
        class(
            "jdk.types.StackFrame",
            STACK_FRAME,
            &[
                ("method", METHOD, "pool"),
                ("lineNumber", INT, ""),
                ("bytecodeIndex", INT, ""),
                ("type", BYTE, ""),
            ],
        ),
        class(
            "jdk.types.Method",
            METHOD,
            &[
                ("type", CLASS, "pool"),
                ("name", SYMBOL, "pool"),
                ("descriptor", SYMBOL, "pool"),
                ("modifiers", INT, ""),
                ("hidden", BOOLEAN, ""),
            ],
        ),
        class("jdk.types.Symbol", SYMBOL, &[("string", STRING, "")]),
        class("jdk.JavaMonitorEnter", MONITOR_ENTER, &[&event[..], &of_thread, &enter].concat()),
        class("jdk.ThreadPark", THREAD_PARK, &[&event[..], &of_thread, &park].concat()),
        class("jdk.ActiveSetting", ACTIVE_SETTING, &setting),
    ]
}

fn describe(to: &mut Bytes) {
    let metadata = Element { name: "metadata", attributes: Vec::new(), children: classes() };
    let root = Element { name: "root", attributes: Vec::new(), children: vec![metadata] };
    let mut texts: Vec<String> = Vec::new();
    let mut body = Bytes::default();
    element(&root, &mut texts, &mut body);
    to.record(true, |to| {
        to.var(METADATA).var(1).var(0).var(0x7fff_ffff).var(texts.len() as u64);
        for text in &texts {
            to.text(text);
        }
        to.0.extend(body.0);
    });
}

fn element(of: &Element, texts: &mut Vec<String>, to: &mut Bytes) {
    let mut number = |text: &str| {
        let known = texts.iter().position(|known| known == text);
        known.unwrap_or_else(|| {
            texts.push(text.to_owned());
            texts.len() - 1
        }) as u64
    };
    to.var(number(of.name)).var(of.attributes.len() as u64);
    for (key, value) in &of.attributes {
        let (key, value) = (number(key), number(value));
        to.var(key).var(value);
    }
    to.var(of.children.len() as u64);
    for child in &of.children {
        element(child, texts, to);
    }
}

/// Numbers of constants are high where a recording goes on in another chunk.
const BASE: u64 = 0x100_0000;

const SYMBOLS: [&str; 9] = [
    "java/lang/Object",
    "java/util/concurrent/locks/ReentrantLock$NonfairSync",
    "Cache",
    "get",
    "()V",
    "Journal",
    "note",
    "jdk/internal/misc/Unsafe",
    "park",
];

/// What events lead to: classes are 1 to 5, stacks 1 and 2. Cache.get waits in this line.
fn constants(to: &mut Bytes, line: u64) {
    to.record(true, |to| {
        to.var(CONSTANTS).var(1).var(0).var(0).var(1).var(5);
        to.var(THREAD).var(1).var(4711).text("worker").var(4711).text("worker").var(31);
        // In Cache.get, and parked in Journal.note.
        to.var(STACK_TRACE).var(2);
        to.var(1).var(0).var(1).var(1).var(line).var(7).var(1);
        to.var(2).var(0).var(2).var(3).var(0).var(0).var(3).var(2).var(88).var(9).var(1);
        to.var(METHOD).var(3);
        for (method, class, name) in [(1, 3, 3), (2, 4, 6), (3, 5, 8)] {
            to.var(method).var(class).var(BASE | name).var(BASE | 4).var(1).var(0);
        }
        to.var(CLASS).var(5);
        for (class, name) in [(1, 0), (2, 1), (3, 2), (4, 5), (5, 7)] {
            to.var(class).var(BASE | name).var(0);
        }
        to.var(SYMBOL).var(SYMBOLS.len() as u64);
        for (number, symbol) in (0..).zip(SYMBOLS) {
            to.var(BASE | number).text(symbol);
        }
    });
}

/// A recording of two waits for a monitor and one for a lock of `java.util.concurrent`, all of at least 10 µs.
fn recording(line: u64) -> Vec<u8> {
    let mut body = Bytes::default();
    describe(&mut body);
    for (name, value) in [("enabled", "true"), ("lock", "10000")] {
        body.record(true, |to| {
            to.var(ACTIVE_SETTING).var(1).var(MONITOR_ENTER).text(name).text(value);
        });
    }
    for ticks in [3_000_000, 1_000_000] {
        body.record(false, |to| {
            to.var(MONITOR_ENTER).var(5).var(ticks).var(4711).var(1).var(1).var(0).var(0x7f00_1234);
        });
    }
    body.record(false, |to| {
        to.var(THREAD_PARK).var(9).var(2_000_000).var(4711).var(2).var(2).var(0);
        to.0.extend([0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80]); // the least of all numbers
        to.var(0x7f00_5678);
    });
    let begin = 68;
    let constants_at = begin + body.0.len();
    constants(&mut body, line);
    let mut chunk = b"FLR\0\0\x02\0\0".to_vec();
    let numbers =
        [(begin + body.0.len()) as u64, constants_at as u64, begin as u64, 0, 60_000_000_000, 1, TICKS_PER_S];
    chunk.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
    chunk.extend(1_u32.to_be_bytes()); // numbers are packed
    chunk.extend(body.0);
    chunk
}

#[test]
fn waits_are_those_that_async_profiler_wrote() {
    let directory = tempfile::tempdir().expect("a folder");
    let path = directory.path().join("app.jfr");
    // A recording goes on in a second chunk.
    std::fs::write(&path, recording(41).repeat(2)).expect("a file");
    assert_eq!(RuntimeWaits::whose(&path), Some(Runtime::Java));
    let waits = RuntimeWaits::open(Runtime::Java, &path).expect("a recording");
    assert_eq!((waits.threshold_ns, waits.cut_off), (Some(10_000.0), false), "{waits:?}");
    assert_eq!(waits.duration_ns, Some(120_000_000_000));
    let told: Vec<_> = waits
        .rows
        .iter()
        .map(|row| (row.way, &*row.function, &*row.source, row.waits, row.waited_ns, row.class.as_deref()))
        .collect();
    let lock = "java.util.concurrent.locks.ReentrantLock$NonfairSync";
    assert_eq!(
        told,
        [
            ("monitor", "Cache.get", "Cache:41", 4, 4e6, Some("java.lang.Object")),
            ("mutex", "Journal.note", "Journal:88", 2, 2e6, Some(lock)),
        ]
    );
    assert!(waits.rows.iter().all(|row| row.behind_thread.is_none() && row.is_lock()), "{waits:?}");
}

/// Neither native code nor a class that was compiled without lines has one: the JVM writes -1 as an `int` then.
#[test]
fn a_wait_in_a_class_without_lines_is_told_by_the_class() {
    let directory = tempfile::tempdir().expect("a folder");
    let path = directory.path().join("app.jfr");
    for line in [0, u64::from(u32::MAX)] {
        std::fs::write(&path, recording(line)).expect("a file");
        let waits = RuntimeWaits::open(Runtime::Java, &path).expect("a recording");
        let told: Vec<_> = waits.rows.iter().map(|row| (&*row.function, &*row.source)).collect();
        assert_eq!(told, [("Cache.get", "Cache"), ("Journal.note", "Journal:88")], "line {line:#x}");
    }
}
