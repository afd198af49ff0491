//! For how long the CPU quota of a control group has held this process's group back.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// So far, on all cores together; none where no group of this process has counts of it.
pub(super) fn until_now() -> Option<Duration> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    throttled(&groups, Path::new("/sys/fs/cgroup"))
}

/// The same by the text of `/proc/self/cgroup` and where the groups are mounted. The quota may be that of a group above.
fn throttled(groups: &str, mounted: &Path) -> Option<Duration> {
    let (roots, path) = groups.lines().find_map(of_cpu)?;
    let path = Path::new(path.trim_start_matches('/'));
    let counts = roots.iter().flat_map(|root| {
        let at = mounted.join(root);
        path.ancestors().map(move |group| at.join(group).join("cpu.stat"))
    });
    counts.filter_map(|file| counted(&fs::read_to_string(file).ok()?)).max()
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
        assert_eq!(throttled("0::/a/b\n", root), Some(Duration::from_micros(1500)));
        assert_eq!(throttled("0::/elsewhere\n", root), None);
        write(root, "cpu,cpuacct/a", "nr_periods 9\nnr_throttled 2\nthrottled_time 7000\n");
        let groups = "5:cpuset:/\n4:cpu,cpuacct:/a\n0::/a/b\n";
        assert_eq!(throttled(groups, root), Some(Duration::from_nanos(7000)));
        assert_eq!(throttled("5:cpuset:/\n", root), None);
    }
}
