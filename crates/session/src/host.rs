//! This computer, as reports name it, and the cores of it that this process may use.

use crate::usage::UsageError;
use anyhow::Context as _;
use curve::text;
use machine::{Machine as _, Native};
use procfs::Current as _;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::time::SystemTime;

/// The last core that a set of them has bits for.
pub const LAST_CORE: u32 = CpuSet::MAX_CPU as u32 - 1;

/// The cores that this process may run on; all of them where the kernel does not say.
pub fn allowed_cores() -> Vec<u32> {
    match sched_getaffinity(None) {
        Ok(set) => (0..=LAST_CORE).filter(|&core| set.is_set(core as usize)).collect(),
        Err(_) => Native::topology().places.iter().map(|place| place.core).collect(),
    }
}

/// The numbers of the hardware threads of this one's core, ascending; itself alone where the kernel does not say.
#[must_use]
pub fn hardware_threads(core: u32) -> Vec<u32> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let list = std::fs::read_to_string(path).unwrap_or_default();
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    });
    let threads: Vec<u32> = ranges.flatten().collect();
    if threads.is_empty() { vec![core] } else { threads }
}

/// The cores that this process may use: of the hardware threads of a core one counts, and a control group's quota is a bound.
#[must_use]
pub fn cores() -> u32 {
    let allowed = allowed_cores();
    let is_first =
        |core: &&u32| hardware_threads(**core).iter().find(|other| allowed.contains(other)) == Some(*core);
    let whole = allowed.iter().filter(is_first).count();
    let usable = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    whole.min(usable).max(1) as u32
}

/// Binds this process, and so every program that it starts, to cores.
///
/// # Errors
///
/// The machine does not have them, or this process may not use them.
pub fn run_on(cores: &[u32]) -> anyhow::Result<()> {
    let allowed = allowed_cores();
    if let Some(missing) = cores.iter().find(|core| !allowed.contains(core)) {
        return Err(UsageError::new(format!(
            "this machine has no core {missing} that this process may use: it has {}",
            ranges(&allowed)
        ))
        .into());
    }
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core as usize);
    }
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on the cores {cores:?} alone"))?;
    // The kernel leaves out what it cannot give, as long as one core is left.
    let given = allowed_cores();
    let missing: Vec<_> = cores.iter().filter(|core| !given.contains(core)).collect();
    anyhow::ensure!(missing.is_empty(), "the machine has no cores {missing:?} that this process may use");
    Ok(())
}

/// Ascending numbers in words, such as `0 to 3, 8`.
fn ranges(numbers: &[u32]) -> String {
    let of_range = |range: &[u32]| match range {
        [first, .., last] => format!("{first} to {last}"),
        alone => alone.first().map_or_else(String::new, u32::to_string),
    };
    let ranges = numbers.chunk_by(|one, next| one + 1 == *next).map(of_range);
    ranges.collect::<Vec<_>>().join(", ")
}

/// The processor's name as `/proc/cpuinfo` gives it.
pub fn processor_name() -> String {
    let processors = procfs::CpuInfo::current().ok();
    let name = processors.as_ref().and_then(|processors| processors.model_name(0));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |name| text::printable(name.trim()))
}

/// The date in UTC, such as `2026-01-31`.
pub fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_is_not_there_is_a_wrong_argument() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0 to 3, 8, 10 to 11");
        let before = allowed_cores();
        let error = run_on(&[before[0], LAST_CORE]).expect_err("no test runs on so many cores");
        assert!(error.is::<UsageError>() && error.to_string().contains("has no core 1023"), "{error}");
        assert_eq!(allowed_cores(), before);
    }
}
