//! The arguments of the benchmarks, and what they mean to the benchmarks and loads.

use crate::arguments::{self, Numbers, PlacementName, Span, duration_between, percent};
use crate::machines;
use bench::{Bench, cacheline, cost, ping_pong, regimes, throughput};
use clap::ValueEnum;
use loads::{aim7, exim, futex, kernel};
use session::ensure_usage;
use simulator::Hardware;
use std::path::PathBuf;
use std::time::Duration;

/// The arguments that benchmarks of locks share.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    /// Locks of `contend locks`, and of other libraries, such as posix-mutex, std-rwlock or parking-lot-mutex
    /// [default: all]
    #[arg(long, value_name = "LOCK,…", value_delimiter = ',')]
    pub(crate) lock: Vec<String>,

    /// Runs of each lock after the warm-up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) runs: u32,

    /// End a single run of a lock after so long; its row then says so
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration_between("10ms", "24h"))]
    pub(crate) time_limit: Duration,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// Where the findings go, beside the terminal.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Output {
    /// Print tables, goals and the noise meanwhile as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Draw the main figures into this file as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

impl Common {
    fn options(&self) -> bench::Common {
        bench::Common { lock: self.lock.clone(), runs: self.runs, limit: self.time_limit }
    }
}

/// What threads do under a lock, and how many there are: lists that are multiplied.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Loads {
    /// Threads
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8,16,32,64",
        value_parser = Numbers::between(1, 4096))]
    pub(crate) threads: Vec<Numbers>,

    /// The critical section: `empty`, so many shared lines changed (`4-lines`), or so long (`1us`, `500cycles`)
    #[arg(long, value_name = "SECTION,…", value_delimiter = ',', default_value = "4-lines", value_parser = arguments::Section::parse)]
    pub(crate) section: Vec<arguments::Section>,

    /// Mean think time between a release and the next acquisition (`10us`, `500cycles`), exponentially distributed
    #[arg(long, value_name = "SPAN,…", value_delimiter = ',', default_value = "0", value_parser = Span::parse)]
    pub(crate) think: Vec<Span>,

    /// How many of a hundred sections read; a lock that readers cannot share is acquired as for a write
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', default_value = "0", value_parser = percent)]
    pub(crate) reads: Vec<u32>,

    /// How long each run lasts; longer where threads share cores, so that each of them gets its turns
    #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = duration_between("1ms", "60s"))]
    pub(crate) duration: Duration,
}

impl Loads {
    fn options(&self, common: &Common, bench: &Bench) -> throughput::Options {
        let section = |&section: &arguments::Section| match section {
            arguments::Section::Lines(lines) => throughput::Section::Lines(lines),
            arguments::Section::Span(span) => throughput::Section::Nanoseconds(span.ns(bench.ghz)),
        };
        throughput::Options {
            common: common.options(),
            threads: Numbers::all(&self.threads),
            section: self.section.iter().map(section).collect(),
            think_ns: self.think.iter().map(|think| think.ns(bench.ghz)).collect(),
            reads: self.reads.clone(),
            duration: self.duration,
        }
    }
}

/// What acquiring and releasing costs when no thread waits, and what it costs to get a lock from another core
///
/// Columns, in cycles of the cycle counter:
///   pair            acquisition and release in a loop of one core, a counter incremented inside
///   reading         the same as a reader, where readers share
///   through calls   a pair by a function call for each, which is how C libraries are reached
///   acquire         a single acquisition, everything before it finished
///   release         a single release, likewise
///   shared acquire  an acquisition of a free lock that another core released last
///   hand-over       from a release to the acquisition of the core that waits
/// The published columns are fig. 11 of "Non-scalable locks are dangerous" (2012), on another machine.
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  contend bench cost
  contend bench cost --lock ticket,ck-ticket,spin-ticket --runs 11
  contend bench cost --json | jq '.tables.cost[] | {lock, pair_cycles}'"
)]
pub(crate) struct Cost {
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Cost {
    pub(crate) fn options(&self) -> cost::Options {
        cost::Options { common: self.common.options() }
    }
}

/// One lock under load: acquisitions a second, waits, fairness and CPU time, by threads.
///
/// Every thread is pinned; with more threads than cores they share cores in turn, and our locks spin
/// up to a bound, then yield and sleep. Acquisitions are counted in runs of their own, without a clock inside; waits
/// are timed in others, every one of them.
///
/// Lists are multiplied: two sections and three think times are six loads.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend bench throughput --lock mcs,futex,posix-mutex
  contend bench throughput --section empty,4-lines,1us --think 0,1us,100us --threads 2
  contend bench throughput --lock rw,posix-rwlock,std-rwlock --reads 0,50,90,99,100
  contend bench throughput --threads 1,2,4,8,16,32,64 --svg threads.svg
  contend bench throughput --json | jq '.tables.throughput[] | {lock, threads, acquisitions_per_s}'")]
pub(crate) struct Throughput {
    #[command(flatten)]
    pub(crate) common: Common,

    #[command(flatten)]
    pub(crate) loads: Loads,
}

impl Throughput {
    pub(crate) fn options(&self, bench: &Bench) -> throughput::Options {
        self.loads.options(&self.common, bench)
    }
}

/// Which lock to start with: every lock in every regime, compared with the best one there.
///
/// A regime is a number of threads, a critical section, a think time and a share of reads on a machine. You see, for each lock,
/// in which share of the regimes it is within 10 % of the best, its median and its worst ratio to the best, and where that
/// is; and the lock to take in each coarse situation, by a rule that is printed with it. `--svg` draws the map: a
/// cell for each regime with the name of its best lock, coloured by that lock's family.
///
/// In regimes with reads the locks take part that readers share, and those others that were best in some regime without reads;
/// if you name locks, all of them. All regimes on this machine take about 10 minutes with two cores.
///
/// With --simulated the locks' own code runs on simulated machines, where the same seed gives the same result: with the
/// sections empty, 4-lines and 1us, the think times 0, 1us and 10us, and the reads 0 and 90 %, which takes
/// less than 20 minutes on two cores.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("runs", |runs| runs.default_value("3").default_value_if("simulated", "true", "1")
        .help("Runs of each lock after the warm-up; with --simulated runs with one seed after the other, without a warm-up \
               [with --simulated: 1]")),
    mut_arg("time_limit", |limit| limit.default_value("300ms")
        .help("End a single run of a lock after so long; it then has the ratio 0 there. Simulated runs are not ended")),
    mut_arg("threads", |threads| threads.default_value("1,2,4,8,64")
        .default_value_if("simulated", "true", None)
        .help("Threads [with --simulated: as many as cores, and twice as many]")),
    mut_arg("section", |section| section.default_value("empty,4-lines,1us,10us")
        .default_value_if("simulated", "true", "empty,4-lines,1us")),
    mut_arg("think", |think| think.default_value("0,1us,10us,100us")
        .default_value_if("simulated", "true", "0,1us,10us")),
    mut_arg("reads", |reads| reads.default_value("0,50,90,99,100").default_value_if("simulated", "true", "0,90")),
    mut_arg("duration", |duration| duration.value_parser(duration_between("1us", "60s")).default_value("4ms").default_value_if("simulated", "true", "2ms")
        .help("How long each run lasts; longer where threads share cores, and where section and think time are long \
               [with --simulated: 2ms]")),
    after_help = "Examples:
  contend bench regimes --svg regimes.svg
  contend bench regimes --threads 1,2,8 --section empty,1us --think 0,10us --reads 0,90
  contend bench regimes --lock mcs,futex,posix-mutex,std-mutex --reads 0
  contend bench regimes --simulated --machine opteron-8x6 --cores 8,48 --lock ticket,mcs,futex
  contend bench regimes -o regimes.md             # a page, with the map in regimes.svg beside it
  contend bench regimes --json | jq '.tables.cells[] | select(.standing == \"best\") | {threads, section, think_ns, lock}'")]
pub(crate) struct Regimes {
    #[command(flatten)]
    pub(crate) common: Common,

    #[command(flatten)]
    pub(crate) loads: Loads,

    /// Run on simulated machines, not on this one
    #[arg(long)]
    pub(crate) simulated: bool,

    /// Simulated machines: names of `contend machines`, or machine files
    #[arg(
        long,
        value_name = "MACHINE,…",
        value_delimiter = ',',
        requires = "simulated",
        default_value = "opteron-8x6,dl580,epyc-9654x2"
    )]
    pub(crate) machine: Vec<String>,

    /// Cores to run on, on each simulated machine that has as many
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "simulated", default_value = "2,8,24,48,96,192",
        value_parser = Numbers::between(1, simulator::MAX_CORES as u32))]
    pub(crate) cores: Vec<Numbers>,

    /// Random seed of simulated runs
    #[arg(long, value_name = "N", default_value_t = 1, requires = "simulated")]
    pub(crate) seed: u64,

    /// Write a page with decisions, tables and map into this file, and the map beside it as SVG
    ///
    /// Where the runs were disturbed there is no page: the exit code is 3.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl Regimes {
    /// # Errors
    ///
    /// Cycles, where they are not of this machine.
    pub(crate) fn options(&self, bench: &Bench) -> anyhow::Result<throughput::Options> {
        let sections = self.loads.section.iter().filter_map(|section| match *section {
            arguments::Section::Span(span) => Some(span),
            arguments::Section::Lines(_) => None,
        });
        let mut spans = sections.chain(self.loads.think.iter().copied());
        let cycles = spans.any(|span| matches!(span, Span::Cycles(1..)));
        ensure_usage!(
            !(self.simulated && cycles),
            "cycles are of one machine, and simulated ones differ: write a time, such as 500ns or 1us"
        );
        Ok(self.loads.options(&self.common, bench))
    }

    /// The simulated machines; none without `--simulated`.
    ///
    /// # Errors
    ///
    /// A machine that there is not, or that cannot be simulated.
    pub(crate) fn machines(&self) -> anyhow::Result<Option<regimes::Machines>> {
        if !self.simulated {
            return Ok(None);
        }
        let load = |name: &String| Ok(Hardware::new(&machines::load(name)?)?);
        let hardware = self.machine.iter().map(load).collect::<anyhow::Result<Vec<_>>>()?;
        for (number, one) in hardware.iter().enumerate() {
            let again = hardware[..number].iter().any(|other| other.name == one.name);
            ensure_usage!(!again, "two machines are called {}: give one of the files another name", one.name);
        }
        Ok(Some(regimes::Machines { hardware, cores: Numbers::all(&self.cores), seed: self.seed }))
    }
}

/// One line between two cores, and each lock's hand-over as a multiple of it.
///
/// The floor is a hand-over between two cores that take turns without any lock, timed as the locks' are: of one line, or of two for
/// locks whose release first reads where the waiter polls, as in MCS and its kin. Beside it stands half the round trip of a word
/// that both store to in turn, each waiting by reading, and the same by compare-and-swap alone, as the public core-to-core
/// matrices time it. A hand-over is the time from a release to the acquisition of a core that was waiting; the more cores want the
/// lock, the longer it takes a lock that does not scale.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend bench ping-pong
  contend bench ping-pong --threads 2,4,8,16 --lock ticket,mcs
  contend bench ping-pong --json | jq '.tables.handover[] | {lock, threads, times_floor}'")]
pub(crate) struct PingPong {
    #[command(flatten)]
    pub(crate) common: Common,

    /// Numbers of threads, one a core, that want the lock: at least 2, and at most as many as there are cores [default: 2, 4, 8, … all]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = Numbers::between(2, 4096))]
    pub(crate) threads: Vec<Numbers>,
}

impl PingPong {
    pub(crate) fn options(&self) -> ping_pong::Options {
        ping_pong::Options { common: self.common.options(), threads: Numbers::all(&self.threads) }
    }
}

/// A lock acquired and released in a tight loop on chosen cores, and contention for lines without a lock.
///
/// As "Cacheline contention" of Bueso and Norton (2014): one thread a core, each acquiring and releasing so often; the figure is
/// operations a second of one core, with its fall against two cores and against the row before.
///
/// Without a lock, every thread adds to: one word; a field of its own on one line (of 8 fields, so that there is no row with more
/// threads); a line of its own next to the others' (which processors fetch in pairs); a line of its own far from them. And all but one use a lock, while that one adds to
/// a hot field beside the lock, or far from it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend bench cacheline --lock ticket,mcs
  contend bench cacheline --placement fill-first,round-robin --nodes 0,1 --memory-node 1
  contend bench cacheline --threads 2,4,8,15,30 --json | jq '.tables.cacheline'")]
pub(crate) struct Cacheline {
    #[command(flatten)]
    pub(crate) common: Common,

    /// Numbers of threads, one a core [default: 1, 2, 4, … as many as there are cores]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = Numbers::between(1, 4096))]
    pub(crate) threads: Vec<Numbers>,

    /// In which order the nodes' cores are taken
    #[arg(long, value_name = "ORDER,…", value_delimiter = ',', default_value = "fill-first")]
    pub(crate) placement: Vec<PlacementName>,

    /// The memory nodes whose cores are used [default: all]
    #[arg(long, value_name = "NODE,…", value_delimiter = ',', value_parser = Numbers::between(0, 1023))]
    pub(crate) nodes: Vec<Numbers>,

    /// The memory node that the lock and the lines lie on [default: that of --nodes if it is one, else where the command was started]
    #[arg(long, value_name = "NODE")]
    pub(crate) memory_node: Option<u32>,

    /// Acquisitions of each thread; without a lock, additions
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) acquisitions: u32,
}

impl Cacheline {
    pub(crate) fn options(&self) -> cacheline::Options {
        cacheline::Options {
            common: self.common.options(),
            threads: Numbers::all(&self.threads),
            placement: self.placement.iter().map(|&placement| placement.into()).collect(),
            nodes: Numbers::all(&self.nodes),
            memory_node: self.memory_node,
            acquisitions: self.acquisitions,
        }
    }
}

/// The arguments of loads on the kernel.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Kernel {
    /// Runs of each number of threads after the warm-up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) runs: u32,

    /// Threads, each pinned to a core [default: 1, 2, 4, … all cores]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = Numbers::between(1, 4096))]
    pub(crate) threads: Vec<Numbers>,

    /// How long each run lasts
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = duration_between("1ms", "60s"))]
    pub(crate) duration: Duration,

    #[command(flatten)]
    pub(crate) output: Output,
}

impl Kernel {
    pub(crate) fn options(&self) -> kernel::Options {
        kernel::Options { runs: self.runs, threads: Numbers::all(&self.threads), duration: self.duration }
    }
}

/// Messages that a mail server delivers: the kernel's locks for files, memory and processes.
///
/// The server is exim (on Debian exim4-daemon-light), with a configuration of its own, as a user without privileges, on loopback and
/// tmpfs. Each client is pinned, and sends short messages to a recipient of its own, ten a connection. Counted are
/// deliveries, not acceptances; at the end every accepted message has been delivered once, or the row says how many are lost or
/// there twice.
///
/// No privileges are needed. Where the system allows it, the command and the server are in namespaces of their own, for mounts, the
/// network and processes, so that no other process sees their files and connections, and nothing is left of them however the command ends. A
/// line under the table says which.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend bench exim                              # 18 s for each number of clients
  contend bench exim --threads 1,2,4 --runs 3 --duration 5s
  contend profile --kernel -a -o exim.contend -- contend bench exim --threads 2
  contend bench exim --json | jq '.tables.exim[] | {clients, delivered_per_s}'")]
pub(crate) struct Exim {
    /// Runs of each number of clients, each with a server of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,

    /// Clients, each a thread pinned to a core [default: 1, 2, 4, … all cores]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = Numbers::between(1, 4096))]
    threads: Vec<Numbers>,

    /// How long clients send before anything is counted
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration_between("1ms", "10m"))]
    warm_up: Duration,

    /// How long deliveries are counted
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration_between("10ms", "1h"))]
    duration: Duration,

    #[command(flatten)]
    pub(crate) output: Output,
}

impl Exim {
    pub(crate) fn options(&self) -> exim::Options {
        exim::Options {
            runs: self.runs,
            threads: Numbers::all(&self.threads),
            warm_up: self.warm_up,
            duration: self.duration,
        }
    }
}

/// Waits and wake-ups on the running kernel's futexes, with our wait table beside them.
///
/// The loads are those of `perf bench futex`, with its options and defaults, but for the length of a run, which is repeated:
///   hash            every thread waits on futexes of its own that do not hold what it expects: operations a second
///   wake            one thread wakes all others, which sleep on one futex: time until all are woken
/// A row says so where the kernel lacks what it needs: futexes by memory node came with Linux 6.16, as did tables of a
/// process's own.
#[derive(Debug, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:
  contend bench futex hash                        # as perf bench futex hash
  contend bench futex hash --threads 1,2,64 --futexes 32 --buckets 16
  contend bench futex wake --threads 64 --at-once 4
  contend bench futex wake --json | jq '.tables.futex[] | {threads, us}'"
)]
pub(crate) struct Futex {
    /// What the threads do
    #[arg(value_name = "LOAD")]
    load: FutexLoad,

    /// Runs of each number of threads after the warm-up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,

    /// Threads, without the one that wakes, each pinned to a core [default: 1, 2, 4, … all cores]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = Numbers::between(1, 4096))]
    threads: Vec<Numbers>,

    /// hash: how long each run lasts
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = duration_between("1ms", "60s"))]
    duration: Duration,

    /// hash: futexes of each thread [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    futexes: Option<u32>,

    /// wake: threads that are woken by one call [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    at_once: Option<u32>,

    /// Use futexes that processes can share
    #[arg(long)]
    shared: bool,

    /// Buckets of a table of futexes that this process has for itself, a power of two, or 0 for the one of all processes; the wait
    /// table has as many [default: what the kernel thinks right; for the wait table 256 a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    buckets: Option<u32>,

    #[command(flatten)]
    pub(crate) output: Output,
}

/// The argument of `futex`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FutexLoad {
    /// Waits that return at once
    Hash,
    /// One thread wakes all others
    Wake,
}

impl Futex {
    pub(crate) fn load(&self) -> futex::Load {
        match self.load {
            FutexLoad::Hash => futex::Load::Hash,
            FutexLoad::Wake => futex::Load::Wake,
        }
    }

    /// # Errors
    ///
    /// An option that the load does not look at.
    pub(crate) fn options(&self) -> anyhow::Result<futex::Options> {
        let load = self.load;
        for (option, is_given, loads) in [
            ("--futexes", self.futexes.is_some(), &[FutexLoad::Hash][..]),
            ("--at-once", self.at_once.is_some(), &[FutexLoad::Wake]),
        ] {
            ensure_usage!(
                !is_given || loads.contains(&load),
                "{option} says nothing to `{}`: `contend bench futex --help` has what it is for",
                self.load().name()
            );
        }
        Ok(futex::Options {
            runs: self.runs,
            threads: Numbers::all(&self.threads),
            duration: self.duration,
            futexes: self.futexes.unwrap_or(1_024) as usize,
            at_once: self.at_once.unwrap_or(1),
            shared: self.shared,
            buckets: self.buckets,
        })
    }
}

/// The job mixes of the AIM7 multi-user suite: jobs a minute by users, which are processes.
///
/// Every user does 100 jobs of its mix, or --jobs, in a random order: files and directories (on tmpfs, where there is one), processes, messages, memory, arithmetic,
/// routines of libraries. The jobs are written anew and a tenth as large as AIM7's, so that a mix takes some seconds. First, users
/// are added until three more numbers of them get no more done, or there are no more; then all these numbers are measured in turn.
/// You see jobs a minute, CPU time, and the plateau: median and range over the last third of the numbers of users.
///
/// The mixes are all_utime, alltests, compute, custom, dbase, disk, five_sec, fserver, high_systime, long, new_dbase, new_fserver,
/// shared and short; --list says what each stands for, and what each job does.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  contend bench aim7 --mix fserver,high_systime
  contend bench aim7 --mix all --svg aim7.svg     # a plateau for every mix (some minutes)
  contend bench aim7 --mix short,disk --jobs 5000
  contend bench aim7 --mix shared --users 1..16 --json | jq '.tables.plateaus'
  contend profile --kernel -- contend bench aim7 --mix fserver --users 32")]
pub(crate) struct Aim7 {
    /// Mixes by name, or all
    #[arg(long, value_name = "MIX,…", value_delimiter = ',', default_value = "fserver")]
    mix: Vec<String>,

    /// Numbers of users, such as 1..16 or 1,2,4,8; fewer where throughput falls or levels off [default: 1, 2, 4, … 16 a core]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = Numbers::between(1, 4096))]
    users: Vec<Numbers>,

    /// Runs of each number of users after the warm-up
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,

    /// Jobs of each user in a run: AIM7's 100, or more for a mix that is done in no time, such as short or disk
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    jobs: u32,

    /// Decides the order of each user's jobs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// List the mixes and the jobs, and run none
    #[arg(long, conflicts_with_all = ["mix", "users", "jobs", "runs", "seed", "svg"])]
    pub(crate) list: bool,

    #[command(flatten)]
    pub(crate) output: Output,
}

impl Aim7 {
    pub(crate) fn options(&self) -> aim7::Options {
        aim7::Options {
            mix: self.mix.clone(),
            users: Numbers::all(&self.users),
            jobs: self.jobs,
            runs: self.runs,
            seed: self.seed,
        }
    }
}

/// The arguments of `aim7-user`.
#[derive(Debug, clap::Args)]
pub(crate) struct Aim7User {
    mix: String,
    jobs: u32,
    seed: u64,
    /// The process that started it.
    parent: u32,
}

impl Aim7User {
    /// Is a user.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        aim7::select(std::slice::from_ref(&self.mix))?
            .into_iter()
            .try_for_each(|mix| aim7::user(aim7::Task { mix, jobs: self.jobs, seed: self.seed }, self.parent))
    }
}
