//! The mixes of AIM7 by name, and the jobs of a user.

use super::jobs::{self, Job};
use session::names;
use session::usage::UsageError;
use workloads::aim7::{JobMix, MIXES};

/// The error of a name that no mix has, or the mixes of these names, of which `all` is all.
///
/// # Errors
///
/// A name that no mix has.
pub fn select(names: &[String]) -> Result<Vec<&'static JobMix>, UsageError> {
    let mut selected: Vec<&'static JobMix> = Vec::new();
    for name in names {
        let named: Vec<&'static JobMix> =
            MIXES.iter().filter(|mix| mix.name == name || name == "all").collect();
        if named.is_empty() {
            let known = MIXES.iter().map(|mix| mix.name).chain(["all"]);
            return Err(names::unknown("mix", name, known, "`contend bench aim7 --list` lists them"));
        }
        for mix in named {
            if !selected.iter().any(|other| other.name == mix.name) {
                selected.push(mix);
            }
        }
    }
    Ok(selected)
}

/// So many jobs of a user, by their shares of the weights: the whole parts, and the largest fractions until there are enough.
pub(super) fn jobs_of_user(mix: &JobMix, count: u32) -> Vec<&'static Job> {
    let of_mix: Vec<(u32, &'static Job)> =
        mix.weights.iter().map(|&(weight, name)| (weight, jobs::find(name))).collect();
    let all = mix.sum_of_weights();
    let exact = |weight: u32| f64::from(weight) * f64::from(count) / f64::from(all);
    let mut counts: Vec<usize> = of_mix.iter().map(|&(weight, _)| exact(weight) as usize).collect();
    let mut by_fraction: Vec<usize> = (0..of_mix.len()).collect();
    by_fraction.sort_by(|&a, &b| exact(of_mix[b].0).fract().total_cmp(&exact(of_mix[a].0).fract()));
    let missing = count as usize - counts.iter().sum::<usize>();
    by_fraction.into_iter().take(missing).for_each(|place| counts[place] += 1);
    of_mix.iter().zip(counts).flat_map(|(&(_, job), count)| std::iter::repeat_n(job, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_in_a_mix() {
        for job in jobs::all() {
            assert!(MIXES.iter().any(|mix| mix.weight(job.name).is_some()), "{}", job.name);
        }
    }

    #[test]
    fn a_user_has_its_number_of_jobs_by_their_weights() {
        for mix in MIXES.iter() {
            assert_eq!(
                [1, 100, 1_234].map(|count| jobs_of_user(mix, count).len()),
                [1, 100, 1_234],
                "{}",
                mix.name
            );
        }
        let fserver = select(&["fserver".into()]).unwrap()[0];
        let count = |name| jobs_of_user(fserver, 100).iter().filter(|job| job.name == name).count();
        // 40, 20 and 5 of 595.
        assert_eq!((count("udp_test"), count("creat_clo"), count("sync_disk_cp")), (7, 3, 1));
    }

    #[test]
    fn mixes_are_selected_once_and_unknown_names_get_the_nearest() {
        let names = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|&name| name.to_owned()).collect();
            select(&given).map(|mixes| mixes.iter().map(|mix| mix.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["short", "dbase", "short"]).unwrap(), ["short", "dbase"]);
        assert_eq!(names(&["all"]).unwrap().len(), MIXES.len());
        assert!(names(&["fservr"]).unwrap_err().to_string().contains("`fserver`"));
    }
}
