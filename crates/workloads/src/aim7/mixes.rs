//! The mixes: which jobs a user does, and how often each.
//!
//! Names and weights are those of the workfiles of re-AIM 7, which calls the weights hits.

/// A mix of jobs.
#[derive(Debug, PartialEq, Eq)]
pub struct JobMix {
    /// Its name.
    pub name: &'static str,
    /// What it stands for.
    pub about: &'static str,
    /// The jobs by name, each with its weight.
    pub weights: &'static [(u32, &'static str)],
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
#[rustfmt::skip] // tables
pub const MIXES: &[JobMix] = &[
    JobMix {
        name: "all_utime",
        about: "Arithmetic alone: all of the time is the users'",
        weights: &[
            (20, "add_double"), (15, "add_float"), (10, "add_long"), (10, "add_int"), (5, "add_short"), (10, "jmp_test"),
            (10, "div_double"), (10, "div_float"), (10, "div_long"), (10, "div_int"), (10, "div_short"), (10, "mul_double"),
            (10, "mul_float"), (10, "mul_long"), (10, "mul_int"), (10, "mul_short"),
        ],
    },
    JobMix {
        name: "alltests",
        about: "All jobs but those with O_DIRECT",
        weights: &[
            (30, "add_double"), (30, "add_float"), (30, "add_long"), (30, "add_int"), (30, "add_short"), (10, "creat_clo"),
            (10, "array_rtns"), (10, "brk_test"), (10, "dgram_pipe"), (10, "dir_rtns_1"), (10, "div_double"), (10, "div_float"),
            (10, "div_long"), (10, "div_int"), (10, "div_short"), (20, "exec_test"), (10, "fork_test"), (10, "jmp_test"),
            (10, "link_test"), (10, "matrix_rtns"), (10, "mem_rtns_1"), (10, "mem_rtns_2"), (10, "misc_rtns_1"),
            (20, "mul_double"), (20, "mul_float"), (20, "mul_long"), (20, "mul_int"), (20, "mul_short"), (10, "new_raph"),
            (10, "num_rtns_1"), (10, "page_test"), (10, "pipe_cpy"), (10, "ram_copy"), (10, "series_1"), (10, "shared_memory"),
            (20, "shell_rtns_1"), (10, "signal_test"), (30, "sieve"), (50, "string_rtns"), (10, "fifo_test"),
            (10, "sort_rtns_1"), (10, "stream_pipe"), (10, "tcp_test"), (10, "trig_rtns"), (10, "udp_test"),
            (10, "shell_rtns_2"), (10, "shell_rtns_3"), (20, "disk_rr"), (20, "disk_rw"), (20, "disk_rd"), (20, "disk_wrt"),
            (20, "disk_cp"), (20, "disk_brr"), (20, "disk_brw"), (20, "disk_brd"), (20, "disk_bwrt"), (20, "disk_bcp"),
            (20, "sync_disk_rw"), (20, "sync_disk_wrt"), (20, "sync_disk_cp"), (20, "sync_disk_update"), (20, "disk_src"),
        ],
    },
    JobMix {
        name: "compute",
        about: "A server for computations",
        weights: &[
            (50, "add_double"), (30, "add_int"), (30, "add_long"), (10, "array_rtns"), (10, "disk_cp"), (30, "disk_rd"),
            (10, "disk_src"), (20, "disk_wrt"), (40, "div_double"), (30, "div_int"), (50, "matrix_rtns"), (40, "mem_rtns_1"),
            (40, "mem_rtns_2"), (50, "mul_double"), (30, "mul_int"), (30, "mul_long"), (40, "new_raph"), (40, "num_rtns_1"),
            (50, "page_test"), (40, "series_1"), (10, "shared_memory"), (30, "sieve"), (20, "stream_pipe"), (30, "string_rtns"),
            (40, "trig_rtns"), (20, "udp_test"),
        ],
    },
    JobMix {
        name: "custom",
        about: "Files, messages and processes",
        weights: &[
            (10, "creat_clo"), (10, "dgram_pipe"), (10, "dir_rtns_1"), (10, "fork_test"), (10, "link_test"),
            (10, "misc_rtns_1"), (10, "page_test"), (10, "pipe_cpy"), (10, "shared_memory"), (10, "signal_test"), (30, "sieve"),
            (10, "fifo_test"), (10, "stream_pipe"), (10, "tcp_test"), (10, "udp_test"), (20, "disk_rr"), (20, "disk_rw"),
            (20, "disk_rd"), (20, "disk_wrt"), (20, "disk_cp"), (20, "disk_brr"), (20, "disk_brw"), (20, "disk_brd"),
            (20, "disk_bwrt"), (20, "disk_bcp"), (20, "sync_disk_rw"), (20, "disk_src"),
        ],
    },
    JobMix {
        name: "dbase",
        about: "A large database",
        weights: &[
            (20, "add_int"), (20, "add_long"), (20, "add_short"), (40, "disk_rd"), (40, "disk_rr"), (10, "div_int"),
            (10, "div_long"), (10, "div_short"), (10, "jmp_test"), (40, "mem_rtns_1"), (40, "mem_rtns_2"), (10, "mul_int"),
            (10, "mul_long"), (10, "mul_short"), (40, "page_test"), (20, "ram_copy"), (40, "shared_memory"), (30, "sieve"),
            (30, "sort_rtns_1"), (10, "stream_pipe"), (30, "string_rtns"), (30, "sync_disk_rw"), (30, "sync_disk_update"),
        ],
    },
    JobMix {
        name: "disk",
        about: "All jobs on files",
        weights: &[
            (20, "disk_rr"), (20, "disk_brr"), (20, "disk_dio_rr"), (20, "disk_rw"), (20, "disk_brw"), (20, "disk_dio_rw"),
            (20, "sync_disk_rw"), (20, "disk_rd"), (20, "disk_brd"), (20, "disk_dio_rd"), (20, "disk_wrt"), (20, "disk_bwrt"),
            (20, "disk_dio_wrt"), (20, "sync_disk_wrt"), (20, "disk_cp"), (20, "disk_bcp"), (20, "disk_dio_cp"),
            (20, "sync_disk_cp"), (20, "sync_disk_update"), (20, "disk_src"),
        ],
    },
    JobMix {
        name: "five_sec",
        about: "Jobs that took some 5 s each on a Pentium III",
        weights: &[
            (20, "add_short"), (20, "dir_rtns_1"), (20, "disk_cp"), (20, "disk_rd"), (20, "disk_rr"), (20, "disk_rw"),
            (20, "disk_src"), (20, "disk_wrt"), (20, "link_test"), (20, "page_test"), (20, "signal_test"),
        ],
    },
    JobMix {
        name: "fserver",
        about: "A file server",
        weights: &[
            (20, "add_int"), (20, "add_long"), (20, "add_short"), (20, "creat_clo"), (20, "dir_rtns_1"), (30, "disk_cp"),
            (30, "disk_rd"), (30, "disk_rr"), (30, "disk_rw"), (30, "disk_src"), (30, "disk_wrt"), (10, "div_int"),
            (10, "div_long"), (10, "div_short"), (10, "jmp_test"), (20, "link_test"), (40, "mem_rtns_1"), (10, "mem_rtns_2"),
            (20, "misc_rtns_1"), (10, "mul_int"), (10, "mul_long"), (10, "mul_short"), (20, "ram_copy"), (10, "signal_test"),
            (30, "sort_rtns_1"), (30, "string_rtns"), (5, "sync_disk_cp"), (5, "sync_disk_rw"), (5, "sync_disk_wrt"),
            (10, "tcp_test"), (40, "udp_test"),
        ],
    },
    JobMix {
        name: "high_systime",
        about: "Jobs that spend most of their time in the kernel",
        weights: &[
            (20, "creat_clo"), (20, "brk_test"), (10, "dgram_pipe"), (10, "dir_rtns_1"), (20, "exec_test"), (10, "fork_test"),
            (20, "link_test"), (10, "misc_rtns_1"), (20, "page_test"), (30, "pipe_cpy"), (10, "shared_memory"),
            (20, "shell_rtns_1"), (10, "signal_test"), (10, "stream_pipe"), (10, "tcp_test"), (10, "udp_test"),
            (10, "shell_rtns_2"), (10, "shell_rtns_3"),
        ],
    },
    JobMix {
        name: "long",
        about: "Jobs that took longer than 5 s on a Pentium III",
        weights: &[
            (10, "add_double"), (10, "add_float"), (10, "add_int"), (10, "add_long"), (10, "brk_test"), (10, "div_double"),
            (10, "div_float"), (10, "div_int"), (10, "div_long"), (10, "div_short"), (10, "mem_rtns_1"), (10, "mul_double"),
            (10, "mul_float"), (10, "shell_rtns_1"), (10, "shell_rtns_2"), (10, "shell_rtns_3"), (10, "sort_rtns_1"),
            (10, "trig_rtns"),
        ],
    },
    JobMix {
        name: "new_dbase",
        about: "A large database with fewer synchronous writes",
        weights: &[
            (20, "add_int"), (20, "add_long"), (20, "add_short"), (40, "disk_rd"), (40, "disk_rr"), (10, "div_int"),
            (10, "div_long"), (10, "div_short"), (10, "jmp_test"), (40, "mem_rtns_1"), (40, "mem_rtns_2"), (10, "mul_int"),
            (10, "mul_long"), (10, "mul_short"), (40, "page_test"), (20, "ram_copy"), (40, "shared_memory"), (30, "sieve"),
            (30, "sort_rtns_1"), (10, "stream_pipe"), (30, "string_rtns"), (10, "sync_disk_rw"), (10, "sync_disk_update"),
            (30, "disk_brw"), (30, "disk_bcp"),
        ],
    },
    JobMix {
        name: "new_fserver",
        about: "A file server without synchronous writes",
        weights: &[
            (20, "add_int"), (20, "add_long"), (20, "add_short"), (20, "creat_clo"), (20, "dir_rtns_1"), (30, "disk_cp"),
            (30, "disk_rd"), (30, "disk_rr"), (30, "disk_rw"), (30, "disk_src"), (30, "disk_wrt"), (10, "div_int"),
            (10, "div_long"), (10, "div_short"), (10, "jmp_test"), (20, "link_test"), (40, "mem_rtns_1"), (10, "mem_rtns_2"),
            (20, "misc_rtns_1"), (10, "mul_int"), (10, "mul_long"), (10, "mul_short"), (20, "ram_copy"), (10, "signal_test"),
            (30, "sort_rtns_1"), (30, "string_rtns"), (10, "tcp_test"), (40, "udp_test"),
        ],
    },
    JobMix {
        name: "shared",
        about: "A system that many users share",
        weights: &[
            (30, "add_double"), (30, "add_float"), (30, "add_int"), (30, "add_long"), (30, "add_short"), (10, "array_rtns"),
            (10, "brk_test"), (10, "creat_clo"), (10, "dgram_pipe"), (10, "dir_rtns_1"), (20, "disk_cp"), (20, "disk_rd"),
            (20, "disk_rr"), (20, "disk_rw"), (20, "disk_src"), (20, "disk_wrt"), (10, "div_double"), (10, "div_float"),
            (10, "div_int"), (10, "div_long"), (10, "div_short"), (20, "exec_test"), (10, "fork_test"), (10, "jmp_test"),
            (10, "link_test"), (10, "matrix_rtns"), (10, "mem_rtns_1"), (10, "mem_rtns_2"), (10, "misc_rtns_1"),
            (20, "mul_double"), (20, "mul_float"), (20, "mul_int"), (20, "mul_long"), (20, "mul_short"), (10, "new_raph"),
            (10, "num_rtns_1"), (10, "page_test"), (10, "pipe_cpy"), (10, "ram_copy"), (10, "series_1"), (10, "shared_memory"),
            (20, "shell_rtns_1"), (10, "sieve"), (10, "signal_test"), (10, "sort_rtns_1"), (10, "stream_pipe"),
            (30, "string_rtns"), (10, "sync_disk_cp"), (10, "sync_disk_rw"), (10, "sync_disk_wrt"), (10, "tcp_test"),
            (10, "trig_rtns"), (10, "udp_test"),
        ],
    },
    JobMix {
        name: "short",
        about: "Jobs that are done quickly",
        weights: &[
            (20, "dgram_pipe"), (20, "jmp_test"), (20, "matrix_rtns"), (20, "mem_rtns_2"), (20, "misc_rtns_1"), (20, "mul_int"),
            (20, "mul_long"), (20, "mul_short"), (20, "new_raph"), (20, "num_rtns_1"), (20, "pipe_cpy"), (20, "ram_copy"),
            (20, "series_1"), (20, "shared_memory"), (20, "stream_pipe"), (20, "tcp_test"), (20, "udp_test"),
        ],
    },
];

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
        for mix in MIXES {
            let mut names = BTreeSet::new();
            assert!(mix.weights.iter().all(|(_, name)| names.insert(name)), "{}", mix.name);
        }
    }
}
