//! Every workload by name.

use locks::TryLock;
use locks::catalogue::{self as lock_catalogue, Lock, Visitor};
use machine::{Machine, Run};

use crate::aim7::{self, JobMix};
use crate::mount_table::Held;
use crate::section::Section;
use crate::transactional::{self, Exclusion, Table};
use crate::{Load, dentry, false_sharing, fserver, ipc, list, mount_table, section, series};

/// What a workload's threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A critical section and think time.
    Section(Section),
    /// List add and delete.
    List(Exclusion),
    /// A hash look-up, which holds this.
    MountTable(Held),
    /// A reference count under the lock.
    Dentry,
    /// A reference count in one word with the lock.
    Lockref,
    /// Users of a file server, with several locks.
    Fserver,
    /// Users of AIM7 that make the calls of this mix.
    JobMix(&'static str),
    /// Two locks, one behind the other.
    Series,
    /// Counters that share lines, or not.
    FalseSharing {
        /// Whether each has a line of its own.
        padded: bool,
    },
    /// Counters under one lock, of each thread or of all.
    TransactionalCounters {
        /// Of a hundred sections, those that add to the counter of all.
        shared_percent: u32,
    },
    /// Lines of a table under one lock.
    TransactionalTable(Table),
    /// Entries into a kernel by pairs of threads.
    Ipc(Exclusion),
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The name that commands take.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Where its numbers are from.
    pub source: &'static str,
    /// What its threads do.
    pub body: Body,
}

impl Workload {
    /// Whether the workload uses the lock that it is given.
    #[must_use]
    pub fn uses_lock(&self) -> bool {
        !matches!(
            self.body,
            Body::MountTable(Held::Nothing)
                | Body::Lockref
                | Body::FalseSharing { .. }
                | Body::Ipc(Exclusion::None)
                | Body::List(Exclusion::None)
        )
    }

    /// Whether a load's length of the section is looked at.
    #[must_use]
    pub fn has_section(&self) -> bool {
        !matches!(self.body, Body::Lockref | Body::FalseSharing { .. })
    }

    /// Whether an operation has several sections under one lock, so that one acquisition can hold it for more of them.
    #[must_use]
    pub fn can_be_batched(&self) -> bool {
        matches!(self.body, Body::Section(section) if section.sections() > 1)
    }

    /// Acquisitions of one operation, where that is fixed.
    #[must_use]
    pub fn acquisitions(&self) -> u64 {
        match self.body {
            Body::Section(section) => section.acquisitions,
            Body::Dentry => 2,
            Body::Fserver => 2,
            Body::Series => 1,
            Body::List(exclusion) => 2 * u64::from(exclusion != Exclusion::None),
            Body::MountTable(held) => u64::from(held != Held::Nothing),
            Body::TransactionalCounters { .. } | Body::TransactionalTable(_) => 1,
            Body::Ipc(exclusion) => u64::from(exclusion != Exclusion::None),
            Body::Lockref | Body::FalseSharing { .. } | Body::JobMix(_) => 0,
        }
    }
}

/// Cycles of an uncontended acquire and release of the ticket lock (fig. 11 of the paper: 21.1 + 2.4), which the
/// paper's single-core profiles include.
const LOCK_CYCLES: u64 = 24;

const fn benchmark(operation: u64, acquisitions: u64, section: u64, lines: usize, beside_lock: bool) -> Body {
    let think = operation / acquisitions - section - LOCK_CYCLES;
    // A touched line is a store that hits when one core runs alone.
    let touched = (lines + beside_lock as usize) as u64 * 3;
    let work_cycles = section.saturating_sub(touched);
    Body::Section(Section { work_cycles, think_cycles: think, lines, beside_lock, acquisitions, batch: 1 })
}

/// The same sections, so many of them for each acquisition.
const fn batched(body: Body, batch: u64) -> Body {
    match body {
        Body::Section(section) => {
            Body::Section(Section { acquisitions: section.acquisitions / batch, batch, ..section })
        }
        other => other,
    }
}

/// Exim's acquisitions of an anonymous mapping's lock.
const EXIM: Body = benchmark(1_156_000, 58, 165, 1, true);

/// A mix of AIM7.
const fn job_mix(name: &'static str, summary: &'static str, mix: &'static str) -> Workload {
    Workload {
        name,
        summary,
        source: "re-AIM 7's workfiles; which locks its calls take is Linux 3.7's, recalled, and all times are assumed",
        body: Body::JobMix(mix),
    }
}

/// Every workload, in the order in which tables show them.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "counter",
        summary: "one lock, a chosen critical section and think time",
        source: "defaults are arbitrary",
        body: Body::Section(Section { work_cycles: 200, think_cycles: 2_000, lines: 1, ..Section::EMPTY }),
    },
    Workload {
        name: "fig10",
        summary: "one lock, 4 shared lines updated, no think time",
        source: "Boyd-Wickizer et al. 2012, section 4.2",
        body: Body::Section(Section { lines: 4, ..Section::EMPTY }),
    },
    Workload {
        name: "cacheline",
        summary: "acquire and release in a tight loop",
        source: "Bueso and Norton 2014",
        body: Body::Section(Section::EMPTY),
    },
    Workload {
        name: "fops",
        summary: "open and close one file: a directory entry's lock and count, 4 times an operation",
        source: "fig. 3; 450 and 852 cycles read per operation (see fault 2 in research/papers/published/README.md)",
        body: benchmark(503, 4, 92, 0, true),
    },
    Workload {
        name: "fops-per-acquire",
        summary: "fops with the other reading of its section's growth: two more lines an acquisition",
        source: "fig. 3; 450 and 852 cycles read per acquisition (see fault 2 in research/papers/published/README.md)",
        body: benchmark(503, 4, 92, 2, true),
    },
    Workload {
        name: "mempop",
        summary: "map memory and touch it: an anonymous mapping's lock, beside the list that it guards, 4 times an operation",
        source: "fig. 3: 121 cycles alone; the list's head lies beside the lock (Linux 2.6.39, recalled), its last entry elsewhere",
        body: benchmark(6_852, 4, 121, 1, true),
    },
    Workload {
        name: "pfind",
        summary: "search files: a page cache's lock, beside the tree that it guards, 5,000 cycles an acquisition",
        source: "fig. 3 with the acquisitions corrected (see fault 1 in research/papers/published/README.md); the tree's root lies beside the lock (Linux 2.6.39, recalled), a node elsewhere",
        body: benchmark(5_000, 1, 350, 1, true),
    },
    Workload {
        name: "exim",
        summary: "deliver mail: an anonymous mapping's lock, 58 times a message",
        source: "fig. 3: 165 cycles alone; lines as mempop's, whose lock is of the same kind",
        body: EXIM,
    },
    Workload {
        name: "exim-batched",
        summary: "exim with its 58 sections in two acquisitions: a chain of mappings is gone through under one",
        source: "Linux 3.0 holds the lock along a chain; that there are two, one at a fork and one at an exit, is assumed",
        body: batched(EXIM, 29),
    },
    Workload {
        name: "files-lock",
        summary: "list add and delete under one global lock",
        source: "Bueso and Norton 2014; times are assumed",
        body: Body::List(Exclusion::OneLock),
    },
    Workload {
        name: "files-lock-fine",
        summary: "the same with a list and a lock for each core",
        source: "Linux 2.6.36 to 3.12: lglock; times are assumed",
        body: Body::List(Exclusion::LockOfEach),
    },
    Workload {
        name: "files-lock-unlocked",
        summary: "the same without any lock, which a list of one core does not need while no other core comes for it",
        source: "times are assumed",
        body: Body::List(Exclusion::None),
    },
    Workload {
        name: "series",
        summary: "a section under the lock, then one under a ticket lock, which is the same whatever the first",
        source: "the hypothesis of LKML 2013 that relieving one lock bunches tasks at the next; all times are assumed",
        body: Body::Series,
    },
    Workload {
        name: "fserver",
        summary: "open and close files: the lock of the list of open files, besides a ticket lock for mounts and a sleeping mutex",
        source: "Bueso and Norton 2014: AIM7 fserver before and after mcs_files_lock; all times are assumed",
        body: Body::Fserver,
    },
    job_mix("aim7-alltests", "users of AIM7: all its jobs but those with O_DIRECT", "alltests"),
    job_mix("aim7-custom", "users of AIM7: files, messages and processes", "custom"),
    job_mix("aim7-disk", "users of AIM7: all jobs on files", "disk"),
    job_mix(
        "aim7-high-systime",
        "users of AIM7: jobs that spend most of their time in the kernel",
        "high_systime",
    ),
    job_mix("aim7-new-fserver", "users of AIM7: a file server without synchronous writes", "new_fserver"),
    job_mix("aim7-shared", "users of AIM7: a system that many users share", "shared"),
    job_mix("aim7-short", "users of AIM7: jobs that are done quickly", "short"),
    Workload {
        name: "mount-table",
        summary: "a hash look-up under one lock",
        source: "the lecture on the paper: lookup_mnt; times are assumed",
        body: Body::MountTable(Held::Table),
    },
    Workload {
        name: "mount-table-fine",
        summary: "the same look-up under a lock of the name's bucket; most names are in one",
        source: "times are assumed",
        body: Body::MountTable(Held::Bucket),
    },
    Workload {
        name: "mount-table-lockless",
        summary: "the same look-up without the lock; it still counts references",
        source: "times are assumed",
        body: Body::MountTable(Held::Nothing),
    },
    Workload {
        name: "dentry",
        summary: "a reference count under the lock beside it",
        source: "Bueso and Norton 2014; times are assumed",
        body: Body::Dentry,
    },
    Workload {
        name: "dentry-lockref",
        summary: "the same count in one word with the lock, changed by compare-and-swap",
        source: "Bueso and Norton 2014; times are assumed",
        body: Body::Lockref,
    },
    Workload {
        name: "false-sharing",
        summary: "counters of single threads that share lines",
        source: "times are assumed",
        body: Body::FalseSharing { padded: false },
    },
    Workload {
        name: "false-sharing-padded",
        summary: "the same counters on lines of their own",
        source: "times are assumed",
        body: Body::FalseSharing { padded: true },
    },
    Workload {
        name: "tm-counters",
        summary: "under one lock: counters of single threads, and in 10 % of the sections one of all",
        source: "times are assumed",
        body: Body::TransactionalCounters { shared_percent: 10 },
    },
    Workload {
        name: "tm-counters-apart",
        summary: "the same without the counter of all: as transactions no two sections conflict",
        source: "times are assumed",
        body: Body::TransactionalCounters { shared_percent: 0 },
    },
    Workload {
        name: "tm-counters-one",
        summary: "the same with the counter of all alone: as transactions any two sections conflict",
        source: "times are assumed",
        body: Body::TransactionalCounters { shared_percent: 100 },
    },
    Workload {
        name: "tm-table",
        summary: "a table of 4,096 lines under one lock: a section reads 4 of them, or in 10 % changes them",
        source: "times and sizes are assumed",
        body: Body::TransactionalTable(Table { lines: 4, ..TABLE }),
    },
    Workload {
        name: "tm-table-writes",
        summary: "the same table, where every section changes 4 lines",
        source: "times and sizes are assumed",
        body: Body::TransactionalTable(Table { lines: 4, writes_percent: 100, ..TABLE }),
    },
    Workload {
        name: "tm-table-long",
        summary: "the same table with 256 lines a section, which half fill a cache of 32 KiB",
        source: "times and sizes are assumed",
        body: Body::TransactionalTable(Table { lines: 256, ..TABLE }),
    },
    Workload {
        name: "tm-table-past-cache",
        summary: "the same table with 1,024 lines a section, more than such a cache keeps",
        source: "times and sizes are assumed",
        body: Body::TransactionalTable(Table { lines: 1_024, ..TABLE }),
    },
    Workload {
        name: "ipc",
        summary: "messages between the two threads of a core: an entry into the kernel under one big lock, 0.3 µs at 2.4 GHz",
        source: "the lecture on transactional memory: entries of 0.3 µs on 1 to 8 cores; think time and lines are assumed",
        body: Body::Ipc(Exclusion::OneLock),
    },
    Workload {
        name: "ipc-fine",
        summary: "the same with a lock for each pair of threads",
        source: "as ipc",
        body: Body::Ipc(Exclusion::LockOfEach),
    },
    Workload {
        name: "ipc-unlocked",
        summary: "the same without any lock, which pairs that have nothing in common do not need",
        source: "as ipc",
        body: Body::Ipc(Exclusion::None),
    },
];

/// A table in which two short sections seldom meet.
const TABLE: Table = Table { buckets: 4_096, writes_percent: 10, lines: 1, apart: 1 };

/// The workload of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

/// Runs a workload with the lock of this name; none if there is no such lock.
///
/// # Panics
/// When the lock did not exclude: the critical sections of every workload are counted, and have to add up.
pub fn run<M: Machine>(workload: &Workload, lock: &str, load: &Load<'_>) -> Option<Run> {
    lock_catalogue::visit::<M, _>(lock, Runner { workload, load })
}

struct Runner<'a> {
    workload: &'a Workload,
    load: &'a Load<'a>,
}

impl<M: Machine> Visitor<M> for Runner<'_> {
    type Output = Run;

    fn tried<L: TryLock<M>>(self, _: &Lock) -> Run {
        match self.workload.body {
            Body::Section(section) => section::run::<M, L>(&section, self.load),
            Body::Fserver => fserver::run::<M, L>(self.load),
            Body::JobMix(name) => {
                let mix = JobMix::find(name).expect("the catalogue names mixes that there are");
                aim7::run::<M, L>(self.load, mix)
            }
            Body::Series => series::run::<M, L>(self.load),
            Body::List(exclusion) => list::run::<M, L>(self.load, exclusion),
            Body::MountTable(held) => mount_table::run::<M, L>(self.load, held),
            Body::Dentry => dentry::run::<M, L>(self.load),
            Body::Lockref => dentry::run_lockref::<M>(self.load),
            Body::Ipc(exclusion) => ipc::run_pairs::<M, L>(self.load, exclusion),
            Body::FalseSharing { padded } => false_sharing::run::<M>(self.load, padded),
            Body::TransactionalCounters { shared_percent } => {
                transactional::run_counters::<M, L>(self.load, shared_percent)
            }
            Body::TransactionalTable(table) => transactional::run_table::<M, L>(&table, self.load),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use machine::Native;

    use super::*;

    /// A lock that does not exclude.
    struct Open;

    // SAFETY: a lock that does not exclude; only clients use it, which hand out no reference.
    unsafe impl locks::RawLock<Native> for Open {
        const NEW: Self = Self;
        fn acquire(&self) {}
        unsafe fn release(&self) {}
    }

    // SAFETY: a lock that does not exclude; only clients use it, which hand out no reference.
    unsafe impl TryLock<Native> for Open {
        fn try_acquire(&self) -> bool {
            true
        }
    }

    #[test]
    fn every_workload_that_uses_a_lock_notices_one_that_does_not_exclude() {
        let load = Load {
            threads: 3,
            duration_ns: 2_000_000,
            section_cycles: Some(5_000),
            think_cycles: Some(100),
            ..Load::default()
        };
        let lock = lock_catalogue::find("tas").unwrap();
        // Of a lock for each pair of threads there is nothing to notice: no two threads come for one.
        let of_one_thread = |workload: &&Workload| {
            [Body::Ipc, Body::List].map(|body| body(Exclusion::LockOfEach)).contains(&workload.body)
        };
        for workload in WORKLOADS.iter().filter(|one| one.uses_lock() && !of_one_thread(one)) {
            let runner = || Runner { workload, load: &load };
            let run = || Visitor::<Native>::tried::<Open>(runner(), lock);
            // Threads that do not meet in one run, on a busy computer, do so in another.
            let caught = (0..200).any(|_| catch_unwind(AssertUnwindSafe(run)).is_err());
            assert!(caught, "{} did not notice", workload.name);
        }
    }
}
