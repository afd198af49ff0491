//! CPU time of the processes that descend from this one and that it has not waited for: those that run, and those that a program has left
//! behind, which come to this process where it is a subreaper (`launch::spawn_group` makes it one).

use rustix::param::clock_ticks_per_second;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// A process by its line in `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    id: u32,
    parent: u32,
    /// Its CPU time and that of the children that it has waited for, in clock ticks.
    ticks: u64,
}

impl Process {
    fn parse(stat: &str) -> Option<Self> {
        // The name may have any characters in it.
        let (id, rest) = stat.split_once(" (")?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        // State, parent, nine that do not matter here, and user and system time: its own, and its children's.
        let times = fields.get(11..15)?.iter().map(|field| field.parse::<u64>());
        let ticks = times.sum::<Result<u64, _>>().ok()?;
        Some(Self { id: id.parse().ok()?, parent: fields[1].parse().ok()?, ticks })
    }
}

pub(super) fn cpu() -> Duration {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    // One that has ended meanwhile has no line.
    let stat = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("stat")).ok();
    let is_process = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit();
    let all = entries.filter(is_process).filter_map(|entry| Process::parse(&stat(entry)?));
    let ticks = ticks_below(std::process::id(), all);
    Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64)
}

/// The ticks of all that descend from a process.
fn ticks_below(ancestor: u32, all: impl Iterator<Item = Process>) -> u64 {
    let mut children: BTreeMap<u32, Vec<Process>> = BTreeMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let (mut ticks, mut left) = (0, vec![ancestor]);
    while let Some(parent) = left.pop() {
        // Taken out, so that numbers that are used again while the lines are read lead round in no circle.
        for child in children.remove(&parent).unwrap_or_default() {
            ticks += child.ticks;
            left.push(child.id);
        }
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_process_is_called() {
        let line = "42 (a) S 7 (b) S 9 9 9 0 -1 64 1 2 3 4 10 20 300 4000 20 0 1 0 5 6\n";
        assert_eq!(Process::parse(line), Some(Process { id: 42, parent: 9, ticks: 4330 }));
        assert_eq!(Process::parse("42 (a) S 9 9\n"), None);
    }

    #[test]
    fn descendants_count_and_others_do_not() {
        let process = |id, parent, ticks| Process { id, parent, ticks };
        let all = [
            process(1, 0, 1),
            process(5, 1, 20),
            process(6, 5, 300),
            process(7, 6, 4_000),
            process(8, 1, 50_000),
        ];
        assert_eq!(ticks_below(5, all.into_iter()), 4_300);
        // Numbers that were used again while they were read.
        assert_eq!(ticks_below(5, [process(6, 5, 1), process(5, 6, 2)].into_iter()), 3);
    }
}
