//! What handing a lock over costs on this machine, measured, and the machine file that it makes.

mod coherence;
mod placement;
pub mod time;

pub use placement::Placement;

use anyhow::Context as _;
use machine::{Machine as _, Native, Place};
use report::{Cell, Column, Screen, Spread, Table};
use session::host::{allowed_cores, hardware_threads, processor_name, today};
use session::progress::{Progress, Work};
use time::middle;
use topology::machine_file::{Figure, FigureUnit, HandoverFigures, Topology, Transfer};
use topology::{MachineFile, Source};

/// The cores that measurements may use: one hardware thread of each, in the order in which machines are filled (die by
/// die, socket by socket).
pub struct Cores {
    places: Vec<Place>,
    /// Two hardware threads of one core.
    siblings: Option<[u32; 2]>,
    topology: Topology,
}

impl Cores {
    /// The cores that this process may use.
    ///
    /// # Errors
    ///
    /// There is one core only.
    pub fn usable() -> anyhow::Result<Self> {
        let all = Native::topology().places;
        let allowed = allowed_cores();
        let threads: Vec<_> = all.iter().map(|place| (*place, hardware_threads(place.core))).collect();
        let every = one_thread_of_each(&threads, |_| true);
        let mut places = one_thread_of_each(&threads, |core| allowed.contains(&core));
        places.sort_by_key(|place| (place.socket, place.die, place.core));
        anyhow::ensure!(
            places.len() > 1,
            "this process may use {} core; a line's way between cores needs two (see `taskset -p $$`, or the \
             container's settings)",
            places.len()
        );
        let siblings = threads.iter().find_map(|(_, threads)| match threads[..] {
            [first, second, ..] if allowed.contains(&first) && allowed.contains(&second) => {
                Some([first, second])
            }
            _ => None,
        });
        let threads_per_core = threads.iter().map(|(_, threads)| threads.len()).max().unwrap_or(1);
        Ok(Self { topology: topology_of(&every, threads_per_core as u32), places, siblings })
    }

    /// Pairs of cores of one distance, a few of them spread over the machine.
    fn pairs(&self, apart: impl Fn(&Place, &Place) -> bool) -> Vec<[u32; 2]> {
        const MOST: usize = 4;
        let mut pairs = Vec::new();
        for (index, first) in self.places.iter().enumerate() {
            let partners = self.places[index + 1..].iter().filter(|second| apart(first, second));
            pairs.extend(partners.map(|second| [first.core, second.core]));
        }
        let step = pairs.len().div_ceil(MOST).max(1);
        pairs.into_iter().step_by(step).collect()
    }

    /// The cores that contenders for a lock are measured on: those of the first die if they are enough to fit a slope,
    /// else all.
    fn contenders(&self) -> Vec<u32> {
        const ENOUGH: usize = 3;
        let of_first_die: Vec<u32> = self
            .places
            .iter()
            .filter(|place| place.die == self.places[0].die)
            .map(|place| place.core)
            .collect();
        if of_first_die.len() >= ENOUGH {
            of_first_die
        } else {
            self.places.iter().map(|place| place.core).collect()
        }
    }
}

/// Of each core, whose hardware threads are told with each of them, the first one that may be used.
fn one_thread_of_each(threads: &[(Place, Vec<u32>)], usable: impl Fn(u32) -> bool) -> Vec<Place> {
    let first = |threads: &[u32]| threads.iter().copied().find(|&thread| usable(thread));
    let of_each = threads.iter().filter(|(place, threads)| first(threads) == Some(place.core));
    of_each.map(|(place, _)| *place).collect()
}

/// Counts sockets, dies and cores. A machine whose dies differ is described by its largest.
fn topology_of(cores: &[Place], threads_per_core: u32) -> Topology {
    let distinct = |mut numbers: Vec<u32>| {
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let sockets = distinct(cores.iter().map(|place| place.socket).collect());
    let dies_of = |socket: u32| {
        distinct(cores.iter().filter(|place| place.socket == socket).map(|place| place.die).collect()).len()
    };
    let cores_of =
        |of: &Place| cores.iter().filter(|place| (place.socket, place.die) == (of.socket, of.die)).count();
    Topology {
        sockets: sockets.len().max(1) as u32,
        dies_per_socket: sockets.iter().map(|&socket| dies_of(socket)).max().unwrap_or(1) as u32,
        cores_per_die: cores.iter().map(cores_of).max().unwrap_or(1) as u32,
        threads_per_core: threads_per_core.max(1),
        source: Source::cited("/sys/devices/system/cpu, as the kernel (or a hypervisor) shows it"),
    }
}

/// A distance between cores: what it is called, and what a line transfer takes, if the machine has it.
struct Tier {
    name: &'static str,
    transfer_ns: Option<Spread>,
}

/// Everything that was measured.
pub struct Calibration {
    /// When and on what.
    source: Source,
    counter_ghz: Spread,
    /// Threads of one core, cores of one die, dies of one socket, sockets.
    tiers: [Tier; 4],
    local_atomic_ns: Spread,
    lone_ticket_ns: Spread,
    /// Cores that want a ticket lock, and the time from one acquisition to the next.
    contended_ns: Vec<(u32, Spread)>,
    wake_ns: Spread,
    /// What a call that wakes a sleeper on another core takes the waker.
    wake_call_ns: Spread,
    context_switch_ns: Spread,
    pause_ns: Spread,
    cached_load_ns: Spread,
    memory_ns: Spread,
    system_call_ns: Spread,
    /// That the cores did not stay where they are, in words.
    moved: Option<String>,
}

impl Calibration {
    /// Measures: a few seconds.
    ///
    /// # Errors
    ///
    /// A quantity that could not be timed; a thread that the system refused to start.
    pub fn take(cores: &Cores, progress: &dyn Progress) -> anyhow::Result<Self> {
        session::threads::or_refused(|| Self::measured(cores, progress))?
    }

    fn measured(cores: &Cores, progress: &dyn Progress) -> anyhow::Result<Self> {
        let contenders = cores.contenders();
        let sizes = contender_counts(contenders.len());
        let progress = progress.start(Work::Quantities, 14 + sizes.len());
        let take = |what: &'static str, sample: Vec<f64>| {
            progress.done();
            middle(&sample).with_context(|| {
                format!("{what} could not be timed: the cores never ran together; stop other programs and try again")
            })
        };
        let mut placement = Placement::of(Some(cores));
        placement.sample();
        let first = cores.places[0].core;
        let tier = |name, pairs: Vec<[u32; 2]>| {
            progress.done();
            Tier {
                name,
                transfer_ns: middle(&pairs.into_iter().flat_map(time::transfer_ns).collect::<Vec<_>>()),
            }
        };
        let tiers = [
            tier("threads of one core", cores.siblings.into_iter().collect()),
            tier("cores of one last-level cache", cores.pairs(|a, b| a.die == b.die)),
            tier("caches of one socket", cores.pairs(|a, b| a.socket == b.socket && a.die != b.die)),
            tier("sockets", cores.pairs(|a, b| a.socket != b.socket)),
        ];
        let neighbours = [first, cores.places[1].core];
        let contended_ns = sizes.iter().map(|&size| {
            let time = take("contenders for a lock", time::contended_ticket_ns(&contenders[..size]))?;
            Ok((size as u32, time))
        });
        let contended_ns = contended_ns.collect::<anyhow::Result<_>>()?;
        let wake_ups = time::wake_ups(neighbours);
        let mut measured = Self {
            source: Source::cited(format!(
                "measured by contend calibrate on {} on {}",
                today(),
                processor_name()
            )),
            counter_ghz: take("the cycle counter", time::counter_ghz())?,
            tiers,
            local_atomic_ns: take("an atomic operation", time::local_atomic_ns(first))?,
            lone_ticket_ns: take("a lock alone", time::lone_ticket_ns(first))?,
            contended_ns,
            wake_ns: take("a wake-up", wake_ups.latency_ns)?,
            wake_call_ns: take("a call that wakes a sleeper", wake_ups.call_ns)?,
            context_switch_ns: take("a context switch", time::context_switch_ns(first))?,
            pause_ns: take("a spin-loop hint", time::pause_ns(first))?,
            cached_load_ns: take("a load in the own cache", time::cached_load_ns(first))?,
            memory_ns: take("memory", time::memory_ns(first))?,
            system_call_ns: take("a system call", time::system_call_ns(first))?,
            moved: None,
        };
        placement.sample();
        measured.moved = placement.moved();
        if let (Some(_), Some(seen)) = (&measured.moved, placement.transfer_ns())
            && let Some(nearest) = measured.tiers[1..].iter_mut().find_map(|tier| tier.transfer_ns.as_mut())
        {
            (nearest.low, nearest.high) = (nearest.low.min(seen.low), nearest.high.max(seen.high));
        }
        Ok(measured)
    }

    /// What was wrong with the machine meanwhile, in words.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.moved
            .iter()
            .map(|moved| format!("{moved}; calibrate again before a prediction matters"))
            .collect()
    }

    fn figure(&self, spread: Spread, unit: FigureUnit, what: &str) -> Figure {
        let Spread { low, median, high } = spread;
        let source = self.source.detailed(what);
        Figure { value: rounded(median), low: Some(rounded(low)), high: Some(rounded(high)), unit, source }
    }

    /// The machine file that the measurements make.
    ///
    /// # Errors
    ///
    /// No line transfer could be measured.
    pub fn machine(&self, name: &str, cores: &Cores) -> anyhow::Result<MachineFile> {
        let transfer = |index: usize| {
            let Tier { name, transfer_ns } = &self.tiers[index];
            transfer_ns.map(|spread| self.figure(spread, FigureUnit::Nanoseconds, name))
        };
        let back_off_delay = Figure {
            value: 1000.0,
            low: Some(200.0),
            high: Some(10_000.0),
            unit: FigureUnit::Nanoseconds,
            source: Source::assumed("common settings of exponential back-off"),
        };
        let topology = cores.topology.clone();
        let coherence = self.coherence(topology.cores());
        Ok(MachineFile {
            name: name.into(),
            description: format!("{}, {} cores", processor_name(), topology.cores()),
            frequency: Some(self.figure(self.counter_ghz, FigureUnit::Gigahertz, "the cycle counter")),
            topology,
            transfer: Transfer {
                smt_sibling: transfer(0),
                same_l3: transfer(1),
                same_socket: transfer(2),
                cross_socket: transfer(3),
            },
            handover: HandoverFigures {
                waiter: self.waiter()?,
                wake: self.figure(self.wake_ns, FigureUnit::Nanoseconds, "a futex wake-up of another core"),
                back_off_delay,
            },
            coherence: Some(coherence),
            transactions: None,
        })
    }

    /// The line transfer between the nearest cores that were measured; hardware threads of one core only if there are
    /// no others.
    fn nearest_transfer(&self) -> Option<Spread> {
        let cores = self.tiers[1..].iter().find_map(|tier| tier.transfer_ns);
        cores.or(self.tiers[0].transfer_ns)
    }

    /// c in line transfers between the cores that it was measured on, so that it can follow a growing distance.
    fn waiter(&self) -> anyhow::Result<Figure> {
        let transfer = self.nearest_transfer().context("no line transfer could be measured")?;
        let of = |end: fn(&Spread) -> f64| {
            let times: Vec<_> = self.contended_ns.iter().map(|(cores, time)| (*cores, end(time))).collect();
            Some(time::waiter_cost_ns(&times)? / transfer.median)
        };
        let Some(median) = of(|time| time.median) else {
            return Ok(self.assumed_waiter());
        };
        let ends = [of(|time| time.low), of(|time| time.high)].into_iter().flatten();
        let (low, high) = ends.fold((median, median), |(low, high), end| (low.min(end), high.max(end)));
        let most = self.contended_ns.last().map_or(0, |(cores, _)| *cores);
        let what =
            format!("slope of a ticket lock's acquisitions with 2 to {most} cores, t_k = s + c(k-1)/2");
        Ok(self.figure(Spread { low, median, high }, FigureUnit::Transfers, &what))
    }

    /// What is taken for c when no slope can be measured: a whole line transfer for each waiter, down to a tenth.
    fn assumed_waiter(&self) -> Figure {
        let why = if self.contended_ns.len() < 2 {
            "what a second waiter adds needs a third core"
        } else {
            "the time did not rise with the waiters measured"
        };
        Figure {
            value: 1.0,
            low: Some(0.1),
            high: Some(1.0),
            unit: FigureUnit::Transfers,
            source: Source::assumed(format_args!(
                "a whole line transfer, or as little as a tenth where one cache answers all; {why}"
            )),
        }
    }

    /// Every measurement as a row.
    pub fn table(&self) -> Table {
        let mut table = Table::new([
            Column::text("measurement", "measurement"),
            Column::spread("value", "median (middle 80 %)"),
            Column::text("unit", "unit"),
        ]);
        let mut row = |what: String, value: Spread, unit: &str| {
            table.row([Cell::from(what), value.into(), unit.into()]);
        };
        for Tier { name, transfer_ns } in &self.tiers {
            if let Some(spread) = transfer_ns {
                row(format!("line transfer between {name}"), *spread, "ns");
            }
        }
        row("atomic addition in the own cache".into(), self.local_atomic_ns, "ns");
        row("ticket lock, acquire and release, alone".into(), self.lone_ticket_ns, "ns");
        for (cores, spread) in &self.contended_ns {
            row(format!("ticket lock, from owner to owner, {} waiting", cores - 1), *spread, "ns");
        }
        row("wake-up of a sleeper on another core".into(), self.wake_ns, "ns");
        row("call that wakes a sleeper on another core".into(), self.wake_call_ns, "ns");
        row("context switch by futex on one core".into(), self.context_switch_ns, "ns");
        row("spin-loop hint".into(), self.pause_ns, "ns");
        row("load in the own cache".into(), self.cached_load_ns, "ns");
        row("a line from memory".into(), self.memory_ns, "ns");
        row("system call".into(), self.system_call_ns, "ns");
        row("cycle counter".into(), self.counter_ghz, "GHz");
        table
    }
}

/// How many cores contend: 2, 3, 4, 6, 8, 12, … up to all.
fn contender_counts(cores: usize) -> Vec<usize> {
    let steps = (1..).flat_map(|power| [1 << power, 3 << (power - 1)]);
    let mut sizes: Vec<usize> = steps.take_while(|&size| size < cores).filter(|&size| size > 1).collect();
    sizes.push(cores);
    sizes
}

/// The machine file as text: what the model and the simulator take, and below as comments all that was measured.
///
/// # Errors
///
/// The measurements contradict each other.
pub fn file_text(machine: &MachineFile, measured: &Calibration) -> anyhow::Result<String> {
    let fields = toml::to_string(machine).context("the measurements do not make a machine file")?;
    let mut text = format!(
        "# Written by `contend calibrate`. Ranges are the middle 80 % of what was measured.\n{fields}"
    );
    text.push_str("\n# All measurements:\n");
    for line in measured.table().terminal(Screen::FILE).lines() {
        text.push_str(format!("# {line}").trim_end());
        text.push('\n');
    }
    MachineFile::parse(&text)
        .context("the measurements make no sense; measure again on a machine at rest")?;
    Ok(text)
}

/// Four significant digits, as more would not be true.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::report::every_screen;
    use session::progress::Unwatched;

    fn spread(median: f64) -> Spread {
        Spread { low: 0.9 * median, median, high: 1.2 * median }
    }

    fn measured(contended_ns: Vec<(u32, Spread)>) -> Calibration {
        let tier = |name, ns: Option<f64>| Tier { name, transfer_ns: ns.map(spread) };
        Calibration {
            source: Source::cited("measured by contend calibrate on 2026-01-31 on A \"CPU\""),
            counter_ghz: spread(2.6),
            tiers: [tier("a", None), tier("b", Some(50.0)), tier("c", None), tier("d", Some(200.0))],
            local_atomic_ns: spread(2.0),
            lone_ticket_ns: spread(4.0),
            contended_ns,
            wake_ns: spread(4000.0),
            wake_call_ns: spread(2_000.0),
            context_switch_ns: spread(900.0),
            pause_ns: spread(10.0),
            cached_load_ns: spread(1.5),
            memory_ns: spread(90.0),
            system_call_ns: spread(200.0),
            moved: None,
        }
    }

    fn cores(places: Vec<Place>) -> Cores {
        Cores { topology: topology_of(&places, 1), places, siblings: None }
    }

    fn two_sockets() -> Cores {
        let place = |core| Place { socket: core / 8, die: core / 4, core, node: 0 };
        cores((0..16).map(place).collect())
    }

    #[test]
    fn topology_counts_what_is_there() {
        let topology = two_sockets().topology;
        assert_eq!((topology.sockets, topology.dies_per_socket, topology.cores_per_die), (2, 2, 4));
        assert_eq!(topology_of(&[], 0).cores(), 1);
    }

    #[test]
    fn a_core_whose_first_thread_may_not_be_used_has_another() {
        let threads: Vec<_> =
            (0..4).map(|core| (Place { core, ..Place::default() }, vec![core % 2, core % 2 + 2])).collect();
        let cores = |usable: &[u32]| -> Vec<u32> {
            one_thread_of_each(&threads, |core| usable.contains(&core))
                .iter()
                .map(|place| place.core)
                .collect()
        };
        assert_eq!(cores(&[0, 1, 2, 3]), [0, 1]);
        assert_eq!(cores(&[1, 2]), [1, 2]);
        assert_eq!(cores(&[1, 3]), [1]);
    }

    #[test]
    fn pairs_are_of_one_distance_and_few() {
        let cores = two_sockets();
        let pairs = cores.pairs(|a, b| a.socket != b.socket);
        assert!(!pairs.is_empty() && pairs.len() <= 4 && pairs.iter().all(|[a, b]| a / 8 != b / 8));
        assert!(cores.pairs(|a, b| a.core == b.core).is_empty());
        assert_eq!(cores.contenders(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_machine_file_of_measurements_is_valid_and_names_its_source() {
        let line = |k: u32| (k, spread(60.0 + 20.0 * f64::from(k - 1) / 2.0));
        let measured = measured(vec![line(2), line(3), line(4)]);
        let machine = measured.machine("x", &two_sockets()).unwrap();
        let read = MachineFile::parse(&file_text(&machine, &measured).unwrap()).unwrap();
        assert_eq!(read, machine);
        let coherence = read.coherence.as_ref().unwrap();
        assert_eq!(coherence.serial_read.as_ref().unwrap().value, 10.0);
        assert!(coherence.hit.as_ref().unwrap().source.as_str().starts_with("measured by contend calibrate"));
        let waiter = &read.handover.waiter;
        assert!(
            (waiter.value - 0.4).abs() < 1e-3 && waiter.source.basis().is_evidence(),
            "20 ns of a 50 ns transfer: {waiter:?}"
        );
        assert!(read.transfer.cross_socket.unwrap().source.as_str().contains("on 2026-01-31 on A \"CPU\""));
    }

    #[test]
    fn a_second_waiter_that_was_not_measured_is_assumed() {
        let waiter = measured(vec![(2, spread(70.0))]).waiter().unwrap();
        assert!(
            !waiter.source.basis().is_evidence() && waiter.source.as_str().contains("third core"),
            "{waiter:?}"
        );
        let falling = measured(vec![(2, spread(70.0)), (3, spread(60.0))]).waiter().unwrap();
        assert!(!falling.source.basis().is_evidence() && falling.source.as_str().contains("did not rise"));
    }

    #[test]
    fn a_machine_file_of_measurements_can_be_simulated() {
        for contended_ns in [vec![(2, spread(60.0))], vec![(2, spread(60.0)), (4, spread(80.0))]] {
            let measured = measured(contended_ns);
            let machine = measured.machine("x", &two_sockets()).unwrap();
            let read = MachineFile::parse(&file_text(&machine, &measured).unwrap()).unwrap();
            let hardware = simulator::Hardware::new(&read).unwrap();
            assert_eq!(hardware.cores(), 16);
            let counter = workloads::catalogue::find("counter").unwrap();
            let setup = simulate::Setup {
                duration_ns: 100_000,
                ..simulate::Setup::new(&hardware, counter, "ticket").on_first(16)
            };
            assert!(simulate::sweep(&[setup], &Unwatched).unwrap()[0].throughput() > 0.0);
        }
    }

    #[test]
    fn contended_ns_grow_to_all_cores() {
        assert_eq!(contender_counts(2), [2]);
        assert_eq!(contender_counts(3), [2, 3]);
        assert_eq!(contender_counts(20), [2, 3, 4, 6, 8, 12, 16, 20]);
    }

    #[test]
    fn the_measurements_on_every_screen() {
        let spread = |median: f64| Spread { low: 0.9 * median, median, high: 1.25 * median };
        let tier = |name, transfer_ns| Tier { name, transfer_ns };
        let measured = Calibration {
            source: Source::cited("measured"),
            counter_ghz: spread(2.45),
            tiers: [
                tier("threads of one core", None),
                tier("cores of one last-level cache", Some(spread(24.0))),
                tier("caches of one socket", None),
                tier("sockets", Some(spread(140.0))),
            ],
            local_atomic_ns: spread(4.5),
            lone_ticket_ns: spread(6.0),
            contended_ns: vec![(2, spread(60.0)), (4, spread(180.0))],
            wake_ns: spread(5_200.0),
            wake_call_ns: spread(5_000.0),
            context_switch_ns: spread(1_500.0),
            pause_ns: spread(14.0),
            cached_load_ns: spread(1.2),
            memory_ns: spread(85.0),
            system_call_ns: spread(120.0),
            moved: None,
        };
        insta::assert_snapshot!(every_screen(&[], |screen| measured.table().terminal(screen)));
    }
}
