//! Counting operations in a program's output, while it passes through.

use anyhow::Context as _;
use regex_lite::Regex;
use std::io::{Read, Write};

/// Longer lines are searched in parts, so that a program that writes no line ends does not fill the memory.
const LONGEST_LINE: usize = 1 << 20;

/// Copies everything from `from` to `to`, line by line, and returns the operations that the last line with a match
/// tells: the number in the regular expression's first group, or the first number in the match.
///
/// Goes on reading when `to` takes no more, so that the program does not block.
pub fn pass_through(mut from: impl Read, mut to: impl Write, regex: &Regex) -> anyhow::Result<Option<u64>> {
    let (mut found, mut line, mut buffer) = (None, Vec::new(), [0; 16 << 10]);
    let mut writable = true;
    loop {
        let length = match from.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("cannot read what the program writes"),
        };
        if length == 0 {
            break;
        }
        writable = writable && to.write_all(&buffer[..length]).and_then(|()| to.flush()).is_ok();
        for part in buffer[..length].split_inclusive(|&byte| byte == b'\n') {
            line.extend_from_slice(part);
            if part.ends_with(b"\n") || line.len() > LONGEST_LINE {
                found = operations_in(regex, &line).or(found);
                line.clear();
            }
        }
    }
    Ok(operations_in(regex, &line).or(found))
}

fn operations_in(regex: &Regex, line: &[u8]) -> Option<u64> {
    // What has no number is most of what programs write, and need not be searched.
    line.iter().find(|byte| byte.is_ascii_digit())?;
    let line = String::from_utf8_lossy(line);
    let captures = regex.captures(&line)?;
    let text = captures.get(1).or_else(|| captures.get(0))?.as_str().as_bytes();
    let first = text.iter().position(u8::is_ascii_digit)?;
    let number: String = text[first..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b',' | b'_' | b'\''))
        .filter(|byte| byte.is_ascii_digit() || **byte == b'.')
        .map(|&byte| char::from(byte))
        .collect();
    let operations: f64 = number.trim_end_matches('.').parse().ok()?;
    (operations >= 0.5).then(|| operations.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(regex: &str, output: &str) -> (Option<u64>, String) {
        let mut passed = Vec::new();
        let found = pass_through(output.as_bytes(), &mut passed, &Regex::new(regex).unwrap()).unwrap();
        (found, String::from_utf8(passed).unwrap())
    }

    #[test]
    fn the_last_match_counts_and_everything_passes() {
        let output = "events: 10\nnoise\nevents: 1,234 (all)\nlast";
        assert_eq!(count(r"events: ([\d,]+)", output), (Some(1234), output.to_owned()));
        assert_eq!(count("events.*", output).0, Some(1234));
        assert_eq!(count("missing", output).0, None);
        assert_eq!(count("last", output).0, None, "a match without a number counts nothing");
        assert_eq!(count(r"rate (\S+)", "rate 2.6").0, Some(3));
    }

    #[test]
    fn a_program_is_read_to_its_end_when_nobody_listens() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let regex = Regex::new(r"n=(\d+)").unwrap();
        let output = format!("{}\nn=7\n", "x".repeat(3 << 20));
        assert_eq!(pass_through(output.as_bytes(), Closed, &regex).unwrap(), Some(7));
    }
}
