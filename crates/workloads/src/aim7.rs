//! Users of AIM7, as the locks of a kernel see them: which shared locks the calls of a mix's jobs take, and how often.
//!
//! The mixes and their weights are published; what each job calls is counted from what it does. Which locks a call takes is Linux 3.7's,
//! recalled: the directory that all users share has a sleeping mutex, and all inodes of the file system are in one list. Every spin lock
//! here is the lock that the load names, as the patches whose plateaus are published exchanged all spin locks of the kernel at once.

mod mixes;

pub use mixes::{JobMix, MIXES};

use locks::{KernelMutex, RawLock};
use machine::{Event, Home, Machine, Placed, Run};

use crate::list::{add, delete, empty, ends_empty};
use crate::random::Random;
use crate::section::{Tally, critical};
use crate::{Load, SharedLine};

/// What a call does that other users can be in the way of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Opens a name in the directory that all users share: its mutex, then a reference to the directory's entry under its lock.
    Open,
    /// Makes a name there and removes it: the mutex twice, and the lock of the list of inodes as often, once within the mutex.
    Name,
    /// Starts a process and waits for its end: the lock of the table of processes twice.
    Process,
    /// Takes pages and gives them back: the lock of the memory node's free pages, once for as many pages as a core keeps.
    Pages,
    /// Makes a socket and closes it: the lock of the table of sockets twice.
    Socket,
}

const CALLS: [Call; 5] = [Call::Open, Call::Name, Call::Process, Call::Pages, Call::Socket];

/// Pages that a core takes from its node at once.
const PAGES_AT_ONCE: u32 = 31;

/// Memory nodes, each with a lock for its free pages; users go round them.
const NODES: usize = 8;

/// What the section of a spin lock does besides touching lines, cycles; and what one of the directory's mutex does.
const WORK: u64 = 50;
const DIRECTORY_WORK: u64 = 1_000;

/// Cycles of a job without waiting, where the load does not say how far calls are apart: 16 ms at 2.27 GHz, which is what the best
/// plateau of `fserver` leaves each of 80 cores.
const CYCLES_OF_JOB: f64 = 36e6;

/// Users make their first calls within so many cycles of each other, since the time between two calls may be longer than a run.
const START_WITHIN: u64 = 20_000;

/// The calls of one job.
fn calls_of(job: &str) -> [(Call, u32); 3] {
    use Call::{Name, Open, Pages, Process, Socket};
    const NONE: (Call, u32) = (Open, 0);
    // Pages taken and given back.
    let pages = |pages: u32| (Pages, 2 * pages.div_ceil(PAGES_AT_ONCE));
    match job {
        "creat_clo" => [(Open, 999), (Name, 1), NONE],
        "link_test" => [(Name, 64), NONE, NONE],
        "disk_src" => [(Open, 75), (Name, 75), NONE],
        "dir_rtns_1" => [(Open, 1), NONE, NONE],
        "fifo_test" => [(Name, 1), (Open, 1), NONE],
        // A page for each 4 KiB of 1,000 blocks of 1 KiB, or of half as many.
        "sync_disk_rw" | "sync_disk_wrt" | "sync_disk_cp" => [(Name, 1), (Open, 1), pages(125)],
        "disk_rd" | "disk_dio_rd" => [(Open, 1), NONE, NONE],
        name if name.starts_with("disk_") || name == "sync_disk_update" => [(Name, 1), (Open, 1), pages(250)],
        // A process has some 60 pages of its own, and some 200 after an exec.
        "fork_test" => [(Process, 100), pages(100 * 60), NONE],
        "exec_test" => [(Process, 5), (Open, 5), pages(5 * 200)],
        "shell_rtns_1" | "shell_rtns_2" | "shell_rtns_3" => [(Process, 10), (Open, 30), pages(10 * 200)],
        "page_test" => [pages(100 * 16), NONE, NONE],
        "mem_rtns_1" | "sort_rtns_1" | "sieve" | "ram_copy" | "shared_memory" => [pages(64), NONE, NONE],
        "tcp_test" | "udp_test" | "dgram_pipe" | "stream_pipe" => [(Socket, 2), NONE, NONE],
        _ => [NONE; 3],
    }
}

impl JobMix {
    /// The calls of each kind in as many jobs as the weights sum up to.
    fn calls(&self) -> [u64; CALLS.len()] {
        let mut all = [0; CALLS.len()];
        for &(weight, job) in &self.weights {
            for (call, count) in calls_of(job) {
                all[call as usize] += u64::from(weight) * u64::from(count);
            }
        }
        all
    }

    /// Cycles from one such call of a user to the next, on average, if a job takes so many without waiting.
    ///
    /// # Panics
    /// The mix makes no such call.
    #[must_use]
    pub fn think_cycles(&self, cycles_of_job: f64) -> u64 {
        let calls: u64 = self.calls().iter().sum();
        assert!(calls > 0, "{} makes no call that takes a shared lock", self.name);
        (cycles_of_job * f64::from(self.sum_of_weights()) / calls as f64) as u64
    }
}

/// A lock with a line that its sections write.
struct Guarded<M: Machine, L: Sync> {
    lock: Placed<L, M>,
    line: Placed<SharedLine<M>, M>,
    tally: Tally,
}

impl<M: Machine, L: RawLock<M>> Guarded<M, L> {
    fn new(home: Home) -> Self {
        Self {
            lock: Placed::new(L::NEW, home),
            line: Placed::new(SharedLine::NEW, home),
            tally: Tally::default(),
        }
    }

    fn section(&self, work: u64, mut body: impl FnMut()) {
        critical::<M, _>(&*self.lock, &self.tally, || {
            self.line.touch();
            body();
            M::delay(work);
        });
    }
}

/// Makes the calls of a mix for ever, in a random order and with think time between them.
pub(crate) fn run<M: Machine, L: RawLock<M>>(load: &Load<'_>, mix: &JobMix) -> Run {
    let directory = Guarded::<M, KernelMutex<M>>::new(load.home);
    let [entry, inodes, processes, sockets] = [(); 4].map(|()| Guarded::<M, L>::new(load.home));
    let nodes: Vec<_> = (0..NODES).map(|_| Guarded::<M, L>::new(load.home)).collect();
    let list = empty::<M>(load.threads);
    let calls = mix.calls();
    let all: u64 = calls.iter().sum();
    let think = load.think_cycles.unwrap_or_else(|| mix.think_cycles(CYCLES_OF_JOB));
    let work = load.section_cycles.unwrap_or(WORK);
    let run = M::run(&load.plan(), &|thread| {
        let mut random = Random::of_thread(load.seed, thread);
        let mine = thread + 1;
        M::delay(random.below(START_WITHIN));
        while M::running() {
            let works = [(); 2].map(|()| random.time(work, load.section_spread));
            match draw(&calls, random.below(all)) {
                Call::Open => {
                    directory.section(DIRECTORY_WORK, || {});
                    entry.section(works[0], || {});
                }
                Call::Name => {
                    directory.section(DIRECTORY_WORK, || inodes.section(works[0], || add::<M>(&list, mine)));
                    directory.section(DIRECTORY_WORK, || {});
                    inodes.section(works[1], || delete::<M>(&list, mine));
                }
                Call::Process => works.into_iter().for_each(|work| processes.section(work, || {})),
                Call::Pages => nodes[thread % NODES].section(works[0], || {}),
                Call::Socket => works.into_iter().for_each(|work| sockets.section(work, || {})),
            }
            M::delay(random.time(think, load.think_spread));
            M::note(Event::Operation);
        }
    });
    directory.tally.add_up();
    [&entry, &inodes, &processes, &sockets].into_iter().chain(&nodes).for_each(|one| one.tally.add_up());
    ends_empty::<M>(&list);
    run
}

/// The call that a number below their sum falls on.
fn draw(calls: &[u64; CALLS.len()], mut number: u64) -> Call {
    for (call, &count) in CALLS.into_iter().zip(calls) {
        if number < count {
            return call;
        }
        number -= count;
    }
    unreachable!("the number is below the sum")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_makes_the_calls_of_its_jobs() {
        let short = JobMix::find("short").unwrap();
        // 20 each of dgram_pipe, stream_pipe, tcp_test and udp_test with 2 sockets; ram_copy and shared_memory with 64 pages.
        assert_eq!(short.calls(), [0, 0, 0, 20 * 2 * 6, 20 * 4 * 2]);
        assert_eq!(short.think_cycles(1e6), 1_000_000 * 340 / 400);
        assert_eq!(JobMix::find("all_utime").unwrap().calls(), [0; 5], "arithmetic alone");
    }

    #[test]
    fn a_number_falls_on_each_call_as_often_as_it_is_made() {
        let calls = [2, 0, 1, 0, 3];
        let drawn = |call| (0..6).filter(|&number| draw(&calls, number) == call).count() as u64;
        assert_eq!(CALLS.map(drawn), calls);
    }
}
