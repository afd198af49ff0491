//! For how long the CPU quota of a control group has held this process's group back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// For how long each group that this process is in was held back so far, on all cores together: its own and those above, each by its own
/// quota. None where no group has counts of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Throttled(BTreeMap<PathBuf, Duration>);

impl Throttled {
    pub(super) fn until_now() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::read(&groups, Path::new("/sys/fs/cgroup"))
    }

    /// The same by the text of `/proc/self/cgroup` and where the groups are mounted.
    fn read(groups: &str, mounted: &Path) -> Self {
        let Some((roots, path)) = groups.lines().find_map(of_cpu) else { return Self::default() };
        let path = Path::new(path.trim_start_matches('/'));
        let files = roots.iter().flat_map(|root| {
            let at = mounted.join(root);
            path.ancestors().map(move |group| at.join(group).join("cpu.stat"))
        });
        Self(
            files
                .filter_map(|file| Some((file.clone(), counted(&fs::read_to_string(file).ok()?)?)))
                .collect(),
        )
    }

    /// The time of the group that was held back for longest since then.
    pub(super) fn since(&self, before: &Self) -> Option<Duration> {
        let more = |(group, now): (&PathBuf, &Duration)| now.checked_sub(*before.0.get(group)?);
        self.0.iter().filter_map(more).max()
    }
}

/// Where the hierarchy that has the CPU controller may be mounted, and the group in it. With both versions mounted, it is version 1's if
/// that has it: its line comes first.
fn of_cpu(line: &str) -> Option<([&str; 2], &str)> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let is_version_2 = controllers.is_empty();
    let has_cpu = controllers.split(',').any(|controller| controller == "cpu");
    (is_version_2 || has_cpu)
        .then_some((if is_version_2 { ["", "unified"] } else { [controllers, "cpu"] }, path))
}

/// The time of a `cpu.stat`: version 2 counts microseconds, version 1 nanoseconds.
fn counted(stat: &str) -> Option<Duration> {
    stat.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_usec", count) => count.parse().ok().map(Duration::from_micros),
        ("throttled_time", count) => count.parse().ok().map(Duration::from_nanos),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, group: &str, stat: &str) {
        let directory = root.join(group);
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join("cpu.stat"), stat).expect("a file");
    }

    #[test]
    fn both_versions_are_read_and_a_group_above_may_have_the_quota() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        write(root, "a/b", "usage_usec 5\nnr_throttled 0\nthrottled_usec 0\n");
        write(root, "a", "usage_usec 5\nnr_throttled 2\nthrottled_usec 1500\n");
        let before = Throttled::read("0::/a/b\n", root);
        assert_eq!(before.0.values().max(), Some(&Duration::from_micros(1500)));
        write(root, "a/b", "throttled_usec 600\n");
        let since = Throttled::read("0::/a/b\n", root).since(&before);
        assert_eq!(since, Some(Duration::from_micros(600)), "though the group above had more before");
        write(root, "a", "throttled_usec 3500\n");
        assert_eq!(Throttled::read("0::/a/b\n", root).since(&before), Some(Duration::from_micros(2000)));
        assert_eq!(Throttled::read("0::/elsewhere\n", root).since(&before), None);
        write(root, "cpu,cpuacct/a", "nr_periods 9\nnr_throttled 2\nthrottled_time 7000\n");
        let groups = "5:cpuset:/\n4:cpu,cpuacct:/a\n0::/a/b\n";
        let counts: Vec<_> = Throttled::read(groups, root).0.into_values().collect();
        assert_eq!(counts, [Duration::from_nanos(7000)]);
        assert_eq!(Throttled::read("5:cpuset:/\n", root), Throttled::default());
    }
}
