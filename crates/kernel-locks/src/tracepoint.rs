//! Tracepoints as tracefs describes them: the identifier, and where the fields lie in an event.

use std::io;
use std::path::{Path, PathBuf};

use crate::Missing;

/// Where tracefs is mounted: first its own place, then where kernels had it before 4.1.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The file system that describes the tracepoints.
#[derive(Debug, Clone)]
pub struct Tracefs(PathBuf);

impl Tracefs {
    /// The one of this machine.
    pub fn of_this_machine() -> Self {
        let mounted = PLACES.into_iter().find(|place| Path::new(place).join("events").exists());
        Self::at(mounted.unwrap_or(PLACES[0]))
    }

    /// One that is mounted elsewhere.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// A tracepoint by its subsystem and name, `lock:contention_begin`.
    ///
    /// # Errors
    ///
    /// [`Missing`]: no tracefs, not readable, or no such tracepoint.
    pub fn tracepoint(&self, name: &'static str) -> Result<Described, Missing> {
        let path = self.0.join("events").join(name.replacen(':', "/", 1)).join("format");
        let text = std::fs::read_to_string(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound if self.0.join("events").exists() => Missing::Tracepoint(name),
            io::ErrorKind::NotFound => Missing::Tracefs(self.0.clone()),
            _ => Missing::Unreadable { path: path.clone(), error: source },
        })?;
        match Tracepoint::parse(&text) {
            Ok(tracepoint) => Ok(Described { tracepoint, path }),
            Err(what) => Err(Missing::Format { path, what }),
        }
    }
}

/// A tracepoint of this machine.
#[derive(Debug, Clone)]
pub struct Described {
    tracepoint: Tracepoint,
    path: PathBuf,
}

impl Described {
    /// The number by which perf_event_open knows it, and with which its events begin.
    pub fn id(&self) -> u64 {
        self.tracepoint.id
    }

    /// A field that is a number of up to eight bytes.
    ///
    /// # Errors
    ///
    /// [`Missing::Format`]: there is none of that name, or it is none.
    pub fn number(&self, name: &str) -> Result<Field, Missing> {
        self.tracepoint.number(name).map_err(|what| Missing::Format { path: self.path.clone(), what })
    }
}

/// A tracepoint: what its `format` file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracepoint {
    /// The number by which perf_event_open knows it, and with which its events begin.
    pub id: u64,
    fields: Vec<(String, Field)>,
}

/// Where a number lies in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    size: usize,
}

impl Tracepoint {
    /// Reads a `format` file.
    ///
    /// # Errors
    ///
    /// What is not as it should be.
    pub fn parse(text: &str) -> Result<Self, String> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"));
        let id = id.and_then(|id| id.trim().parse().ok()).ok_or("there is no line `ID:` with a number")?;
        let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("field:"));
        let fields = lines.map(|line| {
            parse_field(line).ok_or_else(|| format!("`field:{line}` has no name, offset: and size:"))
        });
        Ok(Self { id, fields: fields.collect::<Result<_, _>>()? })
    }

    /// A field that is a number of up to eight bytes.
    ///
    /// # Errors
    ///
    /// There is none of that name, or it is none.
    pub fn number(&self, name: &str) -> Result<Field, String> {
        let known = self.fields.iter().find(|(known, _)| known == name);
        let (_, field) = known.ok_or_else(|| format!("there is no field `{name}`"))?;
        match field.size {
            1 | 2 | 4 | 8 => Ok(*field),
            size => Err(format!("the field `{name}` has {size} bytes, which is no number")),
        }
    }
}

/// The declaration of C comes first, then parts of the form `key:value`, each ended by a semicolon.
fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?;
    let name = declaration.split('[').next()?.rsplit([' ', '*']).next().filter(|name| !name.is_empty())?;
    let (mut offset, mut size) = (None, None);
    for (key, value) in parts.filter_map(|part| part.split_once(':')) {
        match key {
            "offset" => offset = value.parse().ok(),
            "size" => size = value.parse().ok(),
            _ => {}
        }
    }
    Some((name.to_owned(), Field { offset: offset?, size: size? }))
}

impl Field {
    /// The number in an event, without its sign; none where the event ends before it.
    pub fn read(self, event: &[u8]) -> Option<u64> {
        let bytes = event.get(self.offset..self.offset.checked_add(self.size)?)?;
        let mut word = [0; 8];
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "name: contention_begin
ID: 408
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;
\tfield:unsigned int flags;\toffset:16;\tsize:4;\tsigned:0;
\tfield:char comm[16];\toffset:20;\tsize:16;\tsigned:0;
\tfield:void *near;\toffset:36;\tsize:8;\tsigned:0;

print fmt: \"%p (flags=%s)\", REC->lock_addr, __print_flags(REC->flags, \"|\", { (1U << 0), \"SPIN\" })
";

    #[test]
    fn fields_are_where_the_format_says() {
        let begin = Tracepoint::parse(BEGIN).unwrap();
        assert_eq!(begin.id, 408);
        let event: Vec<u8> = (0..64).collect();
        let read = |name| begin.number(name).unwrap().read(&event).unwrap();
        assert_eq!(read("common_type"), 0x0100);
        assert_eq!(read("lock_addr"), 0x0f0e_0d0c_0b0a_0908);
        assert_eq!(read("flags"), 0x1312_1110);
        assert_eq!(read("near"), 0x2b2a_2928_2726_2524);
        // Another kernel may have them elsewhere.
        let moved = BEGIN.replace("offset:16;\tsize:4", "offset:24;\tsize:8");
        let flags = Tracepoint::parse(&moved).unwrap().number("flags").unwrap();
        assert_eq!(flags.read(&event), Some(0x1f1e_1d1c_1b1a_1918));
        assert_eq!(flags.read(&event[..31]), None, "the event ends before the field does");
    }

    #[test]
    fn what_is_no_format_is_told() {
        let begin = Tracepoint::parse(BEGIN).unwrap();
        assert!(begin.number("comm").unwrap_err().contains("16 bytes"));
        assert!(begin.number("ret").unwrap_err().contains("`ret`"));
        for (text, part) in [
            ("", "ID:"),
            ("ID: many\n", "ID:"),
            ("ID: 4\n\tfield:int a;\tsize:4;\n", "offset:"),
            ("ID: 4\n\tfield:;\toffset:0;\tsize:4;\n", "no name"),
        ] {
            let error = Tracepoint::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let tracefs = Tracefs::at(directory.path());
        let missing = || tracefs.tracepoint("lock:contention_begin").unwrap_err();
        assert!(matches!(missing(), Missing::Tracefs(_)), "{}", missing());
        let events = directory.path().join("events/lock/contention_begin");
        std::fs::create_dir_all(&events).unwrap();
        assert!(matches!(missing(), Missing::Tracepoint("lock:contention_begin")), "{}", missing());
        std::fs::write(events.join("format"), "ID: none").unwrap();
        assert!(matches!(missing(), Missing::Format { .. }), "{}", missing());
        std::fs::write(events.join("format"), BEGIN).unwrap();
        assert_eq!(tracefs.tracepoint("lock:contention_begin").unwrap().id(), 408);
    }
}
