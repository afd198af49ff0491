//! The mixes: which jobs a user does, and how often each.

use std::sync::LazyLock;

/// A mix of jobs.
#[derive(Debug, PartialEq, Eq)]
pub struct JobMix {
    /// Its name.
    pub name: &'static str,
    /// What it stands for.
    pub about: &'static str,
    /// The jobs by name, each with its weight.
    pub weights: Vec<(u32, &'static str)>,
}

impl JobMix {
    /// The mix of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        MIXES.iter().find(|mix| mix.name == name)
    }

    /// All weights together.
    #[must_use]
    pub fn sum_of_weights(&self) -> u32 {
        self.weights.iter().map(|(weight, _)| weight).sum()
    }

    /// The weight of a job, if the mix has it.
    #[must_use]
    pub fn weight(&self, job: &str) -> Option<u32> {
        self.weights.iter().find(|(_, name)| *name == job).map(|&(weight, _)| weight)
    }
}

/// All of them.
pub static MIXES: LazyLock<Vec<JobMix>> = LazyLock::new(|| read(include_str!("../../data/aim7.txt")));

/// Reads the carried file, which says how it is written.
fn read(text: &'static str) -> Vec<JobMix> {
    let mut mixes: Vec<JobMix> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((name, about)) = line.split_once(": ") {
            mixes.push(JobMix { name, about, weights: Vec::new() });
        } else if let Some(mix) = mixes.last_mut() {
            let weighted = |job: &'static str| job.trim().split_once(' ').expect("a weight and a job");
            let jobs = line.split(',').map(weighted);
            mix.weights.extend(jobs.map(|(weight, job)| (weight.parse::<u32>().expect("a number"), job)));
        }
    }
    mixes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The totals that the workfiles name. That of `disk` is wrong there, and two have a copy of the one of `alltests`.
    const TOTALS: [(&str, u32); 14] = [
        ("all_utime", 170),
        ("alltests", 1000),
        ("compute", 820),
        ("custom", 410),
        ("dbase", 550),
        ("disk", 400),
        ("five_sec", 220),
        ("fserver", 595),
        ("high_systime", 260),
        ("long", 180),
        ("new_dbase", 570),
        ("new_fserver", 580),
        ("shared", 780),
        ("short", 340),
    ];

    #[test]
    fn every_mix_names_each_job_once_and_its_weights_sum_up() {
        let totals = MIXES.iter().map(|mix| (mix.name, mix.sum_of_weights()));
        assert_eq!(totals.collect::<Vec<_>>(), TOTALS);
        for mix in MIXES.iter() {
            let mut names = BTreeSet::new();
            assert!(mix.weights.iter().all(|(_, name)| names.insert(name)), "{}", mix.name);
        }
    }
}
