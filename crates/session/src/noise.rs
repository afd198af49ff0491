//! How busy the machine was with other work while something was timed.
//!
//! What ran meanwhile decides, not the load average, which the build before has left behind. `/proc/stat` is read by hand: `procfs`
//! reads the counts of each interrupt, too.

mod descendants;
mod throttled;

use crate::host::allowed_cores;
use crate::signals;
use rustix::param::clock_ticks_per_second;
use std::fs;
use std::time::{Duration, Instant};
use throttled::Throttled;

/// The shares of all cores' time up to which timings are not doubted.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Limits {
    /// Of other programs.
    pub others_share: f64,
    /// Of a hypervisor.
    pub stolen_share: f64,
    /// Of a control group's CPU quota.
    pub throttled_share: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { others_share: 0.05, stolen_share: 0.01, throttled_share: 0.001 }
    }
}

impl Limits {
    /// The same share for each.
    pub fn all(share: f64) -> Self {
        Self { others_share: share, stolen_share: share, throttled_share: share }
    }
}

/// Time on the cores that this process may use since the machine started, in clock ticks, as `/proc/stat` counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    idle: u64,
    stolen: u64,
}

impl Ticks {
    /// Reads the lines of these cores in `/proc/stat`, and the first one, of all cores, where they have none.
    fn parse(stat: &str, allowed: &[u32]) -> Option<Self> {
        let line_of = |line: &str| {
            let (core, fields) = line.strip_prefix("cpu")?.split_once(' ')?;
            Some((core.parse::<u32>().ok(), Self::of_line(fields)?))
        };
        let mut lines = stat.lines().map_while(line_of);
        let (_, all) = lines.next().filter(|(core, _)| core.is_none())?;
        let of_allowed = lines.filter(|(core, _)| core.is_some_and(|core| allowed.contains(&core)));
        Some(of_allowed.map(|(_, ticks)| ticks).reduce(Self::plus).unwrap_or(all))
    }

    /// Reads the fields of a line: user, nice, system, idle, iowait, irq, softirq, steal; guests' time is part of user's.
    fn of_line(fields: &str) -> Option<Self> {
        let fields: Vec<u64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let &[user, nice, system, idle, waiting, hard, soft, stolen, ..] = fields.as_slice() else {
            return None;
        };
        Some(Self { busy: user + nice + system + hard + soft, idle: idle + waiting, stolen })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            busy: self.busy + other.busy,
            idle: self.idle + other.idle,
            stolen: self.stolen + other.stolen,
        }
    }

    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?, &allowed_cores())
    }
}

/// A watch on the machine that runs while something is timed.
#[derive(Debug)]
pub struct Watch {
    ticks: Option<Ticks>,
    own_cpu: Duration,
    began: Instant,
    throttled: Throttled,
    continued: u64,
}

impl Watch {
    /// Starts watching.
    pub fn start() -> Self {
        Self {
            ticks: Ticks::now(),
            own_cpu: own_cpu(),
            began: Instant::now(),
            throttled: Throttled::until_now(),
            continued: signals::continued(),
        }
    }

    /// What happened since. Where the kernel does not tell, nothing is assumed.
    pub fn stop(&self) -> Noise {
        let own = own_cpu().saturating_sub(self.own_cpu);
        let of_machine = match (self.ticks, Ticks::now()) {
            (Some(before), Some(after)) => {
                Noise::between(before, after, own, clock_ticks_per_second() as f64)
            }
            _ => Noise::default(),
        };
        Noise {
            throttled_share: self.throttled_share(),
            was_stopped: signals::continued() != self.continued,
            ..of_machine
        }
    }

    fn throttled_share(&self) -> Option<f64> {
        let throttled = Throttled::until_now().since(&self.throttled)?;
        // It is counted on every core where the group had work.
        let of_cores = self.began.elapsed().as_secs_f64() * allowed_cores().len().max(1) as f64;
        let share = throttled.as_secs_f64() / of_cores;
        (share > 0.0).then(|| share.min(1.0))
    }
}

/// What else the machine did.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Noise {
    /// Share of all cores' time that programs used which were not being timed.
    pub others_share: Option<f64>,
    /// Share of all cores' time that a hypervisor gave to other work.
    pub stolen_share: Option<f64>,
    /// Share of the usable cores' time for which a control group's CPU quota held the program back; none if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_share: Option<f64>,
    /// Whether the command was stopped for a time, as by Ctrl-Z: a run that ended meanwhile seems longer than it was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_stopped: bool,
}

impl Noise {
    fn between(before: Ticks, after: Ticks, own: Duration, ticks_per_second: f64) -> Self {
        let busy = after.busy.saturating_sub(before.busy) as f64;
        let stolen = after.stolen.saturating_sub(before.stolen) as f64;
        let all = busy + stolen + after.idle.saturating_sub(before.idle) as f64;
        if all == 0.0 {
            return Self::default();
        }
        let others = (busy - own.as_secs_f64() * ticks_per_second).max(0.0);
        Self { others_share: Some(others / all), stolen_share: Some(stolen / all), ..Self::default() }
    }

    /// The noise of a longer time of which this was `part`, if the rest is quiet.
    #[must_use]
    pub fn diluted(self, part: f64) -> Self {
        let diluted = |share: Option<f64>| share.map(|share| share * part);
        Self {
            others_share: diluted(self.others_share),
            stolen_share: diluted(self.stolen_share),
            throttled_share: diluted(self.throttled_share),
            was_stopped: self.was_stopped,
        }
    }

    /// Why timings taken meanwhile should not be trusted, with what to do; nothing if they may be.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings_over(&Limits::default())
    }

    /// As [`Self::warnings`], with other limits.
    pub fn warnings_over(&self, limits: &Limits) -> Vec<String> {
        let advice = |(what, advice)| format!("{what}: {advice}");
        self.disturbances_and_advice(limits).into_iter().map(advice).collect()
    }

    /// What disturbed timings meanwhile.
    pub fn disturbances(&self) -> Vec<String> {
        self.disturbances_over(&Limits::default())
    }

    /// As [`Self::disturbances`], with other limits.
    pub fn disturbances_over(&self, limits: &Limits) -> Vec<String> {
        self.disturbances_and_advice(limits).into_iter().map(|(what, _)| what).collect()
    }

    fn disturbances_and_advice(&self, limits: &Limits) -> Vec<(String, &'static str)> {
        let mut all = Vec::new();
        if let Some(share) = self.others_share.filter(|&share| share > limits.others_share) {
            let what = format!("other programs used {:.0} % of the cores meanwhile", 100.0 * share);
            all.push((what, "stop them and measure again"));
        }
        if let Some(share) = self.stolen_share.filter(|&share| share > limits.stolen_share) {
            let what = format!("the hypervisor took {:.1} % of the cores' time away", 100.0 * share);
            all.push((what, "measure on a quieter host"));
        }
        if let Some(share) = self.throttled_share.filter(|&share| share > limits.throttled_share) {
            let what = format!(
                "the control group's CPU quota held the program back for {:.1} % of its cores' time",
                100.0 * share
            );
            all.push((what, "raise the container's CPU limit, or measure outside of it"));
        }
        if self.was_stopped {
            all.push(("the command was stopped for a time".into(), "measure again, and let it run"));
        }
        all
    }
}

fn own_cpu() -> Duration {
    cpu_of(libc::RUSAGE_SELF) + cpu_of_started()
}

/// CPU time of what this process has started, and of what that has: the children that it has waited for, and all that descends from it.
pub fn cpu_of_started() -> Duration {
    cpu_of(libc::RUSAGE_CHILDREN) + descendants::cpu()
}

/// What those have used whom `who` means to getrusage.
fn usage_of(who: libc::c_int) -> libc::rusage {
    // SAFETY: all-zero is a valid rusage, and the pointer is valid for the call.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &raw mut usage);
        usage
    }
}

/// How often the threads of this process have slept, and how often they have lost their core otherwise: preempted, or by a yield.
pub fn switches() -> [u64; 2] {
    let usage = usage_of(libc::RUSAGE_SELF);
    [usage.ru_nvcsw, usage.ru_nivcsw].map(|times| u64::try_from(times).unwrap_or(0))
}

/// CPU time of those whom `who` means to getrusage.
pub fn cpu_of(who: libc::c_int) -> Duration {
    let usage = usage_of(who);
    let duration = |time: libc::timeval| {
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or(0),
            1000 * u32::try_from(time.tv_usec).unwrap_or(0),
        )
    };
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counts_are_read() {
        let stat = "cpu  100 10 50 1000 40 5 5 30 7 0\ncpu0 1 2 3\n";
        let all = Some(Ticks { busy: 170, idle: 1040, stolen: 30 });
        assert_eq!(Ticks::parse(stat, &[0]), all);
        assert_eq!(Ticks::parse("cpu  1 2 3\n", &[0]), None);
        assert_eq!(Ticks::parse("", &[0]), None);
        assert_eq!(Ticks::parse("intr 5\n", &[0]), None);
    }

    #[test]
    fn other_programs_count_on_the_cores_that_may_be_used() {
        let stat = "cpu  170 0 0 340 0 0 0 0 0 0\ncpu0 100 0 0 10 0 0 0 0 0 0\ncpu1 30 0 0 300 0 0 0 2 0 0\n\
                    cpu10 40 0 0 30 0 0 0 0 0 0\nintr 1 2\n";
        let ticks = |busy, idle, stolen| Some(Ticks { busy, idle, stolen });
        assert_eq!(Ticks::parse(stat, &[1]), ticks(30, 300, 2));
        assert_eq!(Ticks::parse(stat, &[0, 10]), ticks(140, 40, 0));
        assert_eq!(Ticks::parse(stat, &[7]), ticks(170, 340, 0), "where the kernel shows none of them");
    }

    #[test]
    fn a_quota_that_holds_back_is_named() {
        let noise = Noise { throttled_share: Some(0.42), ..Noise::default() };
        let told = noise.warnings().join("");
        assert!(told.contains("quota held the program back for 42.0 %"), "{told}");
        assert_eq!(Noise { throttled_share: Some(0.0001), ..Noise::default() }.disturbances().len(), 0);
    }

    #[test]
    fn what_a_limit_allows_is_no_disturbance() {
        let noise = Noise { others_share: Some(0.2), stolen_share: Some(0.03), ..Noise::default() };
        assert_eq!(noise.disturbances().len(), 2);
        assert_eq!(noise.disturbances_over(&Limits::all(0.1)).len(), 1, "the hypervisor took less");
        assert!(noise.disturbances_over(&Limits::all(0.2)).is_empty());
        assert!(noise.diluted(0.25).disturbances().is_empty(), "a quarter of the time alone was busy");
        assert_eq!(noise.diluted(0.5).disturbances().len(), 2);
        let stopped = Noise { was_stopped: true, ..noise };
        assert_eq!(stopped.diluted(0.01).disturbances().len(), 1, "a stop stays one, however much follows");
    }

    #[test]
    fn own_time_is_not_noise() {
        let before = Ticks { busy: 0, idle: 0, stolen: 0 };
        let after = Ticks { busy: 150, idle: 45, stolen: 5 };
        let noise = Noise::between(before, after, Duration::from_secs(1), 100.0);
        assert_eq!(noise.others_share, Some(0.25));
        assert_eq!(noise.stolen_share, Some(0.025));
        assert_eq!(noise.warnings().len(), 2);
        let quiet = Noise::between(before, after, Duration::from_secs(2), 100.0);
        assert_eq!(quiet.others_share, Some(0.0), "ticks are coarser than the clock of CPU time");
        assert_eq!(Noise::between(before, before, Duration::ZERO, 100.0), Noise::default());
    }
}
