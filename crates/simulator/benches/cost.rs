//! What simulating costs, by accesses and by cores: `cargo bench -p contend-simulator --bench cost`.
//!
//! Rates are by the processor time of the one thread that simulates, in seconds and in cycles of the host's time stamp counter,
//! by which computers can be compared; `cost LOCK CORES MS` makes one row. The accesses of a row are those that simulated
//! threads made; polls that a parked waiter was spared are not among them.

use contend_simulator::{Hardware, Report, Simulated, Simulation};
use machine::{Home, Integer, Machine, Ordering::Relaxed, Placed, Plan, Word};
use workloads::{Load, catalogue};

/// 16 sockets of 64 cores, with times as those of a present server.
const MACHINE: &str = r#"
    name = "cost"
    description = "16 x 64 cores"
    frequency = { value = 2.5, unit = "GHz", source = "assumed" }
    [topology]
    sockets = 16
    cores_per_die = 64
    source = "assumed"
    [transfer]
    same_l3 = { value = 40, unit = "ns", source = "assumed" }
    cross_socket = { value = 150, unit = "ns", source = "assumed" }
    [handover]
    waiter = { value = 0.5, unit = "transfers", source = "assumed" }
    wake = { value = 5000, unit = "ns", source = "assumed" }
    back_off_delay = { value = 1000, unit = "ns", source = "assumed" }
    [coherence]
    protocol = "MESI"
"#;

/// Accesses of a row that makes a given number of them.
const ACCESSES: u64 = 8_000_000;

fn main() {
    let file = topology::MachineFile::parse(MACHINE).expect("a constant machine file");
    let hardware = Hardware::new(&file).expect("a machine of 1,024 cores");
    // `cargo bench` adds a word of its own.
    let arguments = std::env::args().skip(1).filter(|word| word != "--bench").collect::<Vec<_>>();
    if let [lock, cores, ms] = &arguments[..] {
        let number = |text: &String| text.parse::<u64>().expect("a number");
        header();
        return row(lock, &hardware, || contended(lock, number(cores) as usize, number(ms) * 1_000_000));
    }
    println!("By the share of accesses that the cores' own caches answer, on 8 cores:\n");
    header();
    row("all of them", &hardware, || mixed(8, ACCESSES, u64::MAX));
    for of in [64, 16, 8, 4, 2] {
        row(&format!("{} of {of}", of - 1), &hardware, || mixed(8, ACCESSES, of));
    }
    println!("\nBy simulated time, the counter under ticket on 16 cores:\n");
    header();
    for ms in [1, 4, 16, 64] {
        row(&format!("{ms} ms"), &hardware, || contended("ticket", 16, ms * 1_000_000));
    }
    for lock in ["ticket", "mcs"] {
        println!("\nBy cores, the counter under {lock} for 4 ms:\n");
        header();
        for cores in (0..=10).map(|power| 1 << power) {
            row(&format!("{cores} cores"), &hardware, || contended(lock, cores, 4_000_000));
        }
    }
}

/// Threads that add to a word of their own; every so many accesses they add to one that all share.
fn mixed(threads: u64, accesses: u64, shared_every: u64) {
    type M = Simulated;
    type Counter = Placed<<M as Machine>::U64, M>;
    let counter = || Counter::new(<M as Machine>::U64::ZERO, Home::Node(0));
    let shared = counter();
    let own = (0..threads).map(|_| counter()).collect::<Vec<_>>();
    M::run(&Plan::threads(threads as usize), &|thread| {
        for access in 1..=accesses / threads {
            let word = if access % shared_every == 0 { &shared } else { &own[thread] };
            word.fetch_add(1, Relaxed);
            M::note(machine::Event::Operation);
        }
    });
}

fn contended(lock: &str, threads: usize, duration_ns: u64) {
    let counter = catalogue::find("counter").expect("a workload of the catalogue");
    let load = Load { threads, duration_ns, home: Home::Node(0), ..Load::default() };
    catalogue::run::<Simulated>(counter, lock, &load).expect("a lock of the catalogue");
}

fn header() {
    println!(
        "| {:<12} | {:>10} | {:>9} | {:>10} | {:>12} | {:>8} | {:>12} | {:>10} | {:>13} | {:>12} | {:>8} |",
        "",
        "accesses",
        "misses",
        "events",
        "spared polls",
        "s",
        "accesses/s",
        "events/s",
        "cycles/access",
        "cycles/event",
        "peak MiB"
    );
    println!("|{:-<14}|{}", "", " -: |".repeat(10));
}

fn row(name: &str, hardware: &Hardware, body: impl FnOnce()) {
    let (started, began, stamp) = (thread_seconds(), std::time::Instant::now(), time_stamp());
    let report = match Simulation::new(hardware).run(body) {
        Ok(((), report)) => report,
        Err(stopped) => return println!("{name}: {stopped}"),
    };
    let seconds = thread_seconds() - started;
    // Cycles while the thread ran: the counter goes on while it does not.
    let cycles = time_stamp().wrapping_sub(stamp) as f64 * seconds / began.elapsed().as_secs_f64();
    let Report { all_lines, totals, .. } = report;
    let accesses = all_lines.accesses();
    println!(
        "| {name:<12} | {accesses:>10} | {:>9} | {:>10} | {:>12} | {seconds:>8.3} | {:>10.1} M | {:>8.1} M | {:>13.0} | {:>12.0} | {:>8.1} |",
        all_lines.all_misses(),
        totals.events,
        totals.elided_polls,
        accesses as f64 / seconds / 1e6,
        totals.events as f64 / seconds / 1e6,
        cycles / accesses as f64,
        cycles / totals.events as f64,
        peak_mib(),
    );
}

/// Processor time of this thread.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The host's time stamp counter; zero where there is none for programs.
fn time_stamp() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a counter.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// The most memory that this process has had so far.
fn peak_mib() -> f64 {
    // SAFETY: a structure of integers, which the call fills.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: a structure of integers, which the call fills.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    usage.ru_maxrss as f64 / 1024.0
}
