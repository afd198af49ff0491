//! Counting operations in a program's output, while it passes through.

use anyhow::Context as _;
use regex_lite::Regex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longer lines are searched in parts, so that a program that writes no line ends does not fill the memory.
const LONGEST_LINE: usize = 1 << 20;

/// How long output is waited for after the program's end, when something that it started still holds the stream.
const LINGER: Duration = Duration::from_secs(1);
/// So often it is looked at whether the program has ended.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Bytes that are read after that time: a pipe holds no more of what the program itself wrote.
const MOST_IN_PIPE: usize = 1 << 20;

/// What was read of a stream.
#[derive(Debug, Default)]
pub struct Passed {
    /// The operations that the last line with a match tells.
    pub operations: Option<f64>,
    /// Why not everything could be passed on, other than that it has no reader any more.
    pub unwritten: Option<io::Error>,
    /// The program has ended and something that it started still holds the stream, of which no more is passed on.
    pub is_held: bool,
}

/// Copies everything from `from` to `to`, line by line, until its end, or until the program has ended and nothing more comes for a
/// while; finds operations meanwhile, as [`operations_in`] reads them.
///
/// Goes on reading when `to` takes no more, so that the program does not block.
///
/// # Errors
///
/// The stream cannot be read.
pub fn pass_through(
    mut from: impl Read + AsFd,
    mut to: impl Write,
    regex: &Regex,
    has_ended: &AtomicBool,
) -> anyhow::Result<Passed> {
    let (mut passed, mut line, mut buffer) = (Passed::default(), Vec::new(), [0; 16 << 10]);
    let mut end = End::default();
    let mut writable = true;
    loop {
        if end.has_come(&from, has_ended) {
            passed.is_held = true;
            break;
        }
        let length = match from.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("cannot read what the program writes"),
        };
        if length == 0 {
            break;
        }
        end.bytes += length;
        if writable && let Err(error) = to.write_all(&buffer[..length]).and_then(|()| to.flush()) {
            writable = false;
            passed.unwritten = Some(error).filter(|error| error.kind() != ErrorKind::BrokenPipe);
        }
        for part in buffer[..length].split_inclusive(|&byte| byte == b'\n') {
            line.extend_from_slice(part);
            if part.ends_with(b"\n") || line.len() > LONGEST_LINE {
                passed.operations = operations_of_line(regex, &line).or(passed.operations);
                line.clear();
            }
        }
    }
    passed.operations = operations_of_line(regex, &line).or(passed.operations);
    Ok(passed)
}

/// The end of a program whose stream something else may hold.
#[derive(Default)]
struct End {
    since: Option<Instant>,
    /// Bytes that were read since.
    bytes: usize,
}

impl End {
    /// Waits until there is something to read, and returns false; or until the program has ended and nothing comes any more.
    fn has_come(&mut self, stream: &impl AsFd, has_ended: &AtomicBool) -> bool {
        loop {
            let ready = poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&LOOK));
            if self.since.is_none() && has_ended.load(Ordering::Relaxed) {
                *self = Self { since: Some(Instant::now()), bytes: 0 };
            }
            let is_late = self.since.is_some_and(|since| since.elapsed() >= LINGER);
            match ready {
                Ok(0) if is_late => return true,
                Ok(1..) => return is_late && self.bytes > MOST_IN_PIPE,
                Ok(0) | Err(_) => {}
            }
        }
    }
}

/// As [`operations_in`], of a line's bytes.
fn operations_of_line(regex: &Regex, line: &[u8]) -> Option<f64> {
    // What has no number is most of what programs write, and need not be searched.
    line.iter().find(|byte| byte.is_ascii_digit())?;
    operations_in(regex, &String::from_utf8_lossy(line))
}

/// The operations that a program says it did: the number in the regular expression's first group, of the last match that has one.
/// Matches lie within a line, so that `^` and `$` are its ends.
pub fn operations_in(regex: &Regex, output: &str) -> Option<f64> {
    let of_line = |line| regex.captures_iter(line).filter_map(|found| number(found.get(1)?.as_str())).last();
    output.lines().filter_map(of_line).filter(|&operations| operations >= 0.5).last()
}

/// The number that a text is, or else the first one in it; `,`, `_` and `'` separate thousands.
fn number(text: &str) -> Option<f64> {
    let plain = |text: &str| text.replace([',', '_', '\''], "");
    let finite = |number: &f64| number.is_finite();
    if let Some(number) = plain(text.trim()).parse().ok().filter(finite) {
        return Some(number);
    }
    let rest = &text[text.find(|letter: char| letter.is_ascii_digit())?..];
    let is_of_number = |letter: char| {
        letter.is_ascii_digit() || matches!(letter, '.' | ',' | '_' | '\'' | 'e' | 'E' | '+' | '-')
    };
    let rest = plain(&rest[..rest.find(|letter| !is_of_number(letter)).unwrap_or(rest.len())]);
    // All of these letters are single bytes.
    let longest = (1..=rest.len()).rev().find_map(|length| rest[..length].parse().ok());
    longest.filter(finite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::PipeReader;

    /// A stream with this in it, and no more.
    fn stream(text: &str) -> PipeReader {
        let (reader, mut writer) = io::pipe().unwrap();
        let text = text.to_owned();
        std::thread::spawn(move || writer.write_all(text.as_bytes()));
        reader
    }

    fn count(regex: &str, output: &str) -> (Option<f64>, String) {
        let (mut copy, regex) = (Vec::new(), Regex::new(regex).unwrap());
        let passed = pass_through(stream(output), &mut copy, &regex, &AtomicBool::new(false)).unwrap();
        assert_eq!(passed.operations, operations_in(&regex, output), "as the whole output is read");
        (passed.operations, String::from_utf8(copy).unwrap())
    }

    #[test]
    fn the_last_match_counts_and_everything_passes() {
        let output = "events: 10\nnoise\nevents: 1,234 (all)\nlast";
        assert_eq!(count(r"events: ([\d,]+)", output), (Some(1234.0), output.to_owned()));
        assert_eq!(count("events(.*)", output).0, Some(1234.0));
        assert_eq!(count(r"^events: (\d+)$", output).0, Some(10.0), "the ends of a line");
        assert_eq!(count(r"(\d+)$", "1\r\n2 ").0, Some(1.0));
        assert_eq!(count("(missing)", output).0, None);
        assert_eq!(count("(last)", output).0, None, "a match without a number counts nothing");
        assert_eq!(count(r"n=(\d+)", "n=3 n=4\nn=0\n").0, Some(4.0), "nothing was done in the last line");
    }

    #[test]
    fn numbers_are_read_as_programs_write_them() {
        for (text, value) in [
            ("1.23457e+06", Some(1_234_570.0)),
            (" 1_000'000 ", Some(1e6)),
            ("(1,234)", Some(1234.0)),
            ("1234;", Some(1234.0)),
            ("2e3/s", Some(2000.0)),
            ("12 events", Some(12.0)),
            ("7 e", Some(7.0)),
            ("3.", Some(3.0)),
            ("-2.5", Some(-2.5)),
            ("n/a", None),
            ("inf", None),
            ("1e999", None),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
    }

    /// What takes nothing, for a reason.
    struct Closed(ErrorKind);
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_program_is_read_to_its_end_when_nobody_listens() {
        let regex = Regex::new(r"n=(\d+)").unwrap();
        let output = format!("{}\nn=7\n", "x".repeat(3 << 20));
        for (kind, is_told) in [(ErrorKind::BrokenPipe, false), (ErrorKind::StorageFull, true)] {
            let passed =
                pass_through(stream(&output), Closed(kind), &regex, &AtomicBool::new(false)).unwrap();
            assert_eq!((passed.operations, passed.unwritten.is_some()), (Some(7.0), is_told));
        }
    }

    #[test]
    fn a_stream_that_another_process_holds_is_left_after_the_programs_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"n=7\n").unwrap();
        let regex = Regex::new(r"n=(\d+)").unwrap();
        let passed = pass_through(reader, io::sink(), &regex, &AtomicBool::new(true)).unwrap();
        assert!(passed.is_held && passed.operations == Some(7.0), "{passed:?}");
    }
}
