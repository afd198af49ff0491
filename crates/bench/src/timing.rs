//! The clock of the benchmarks, and rounds that are interleaved.

use super::contenders::Contender;
use super::limited::OVER;
use ::report::{Cell as TableCell, Column, Spread, text};
use compare::calibrate::time;
use compare::statistics;
use machine::{Machine as _, Native, Place, Topology};
use session::host::{allowed_cores, hardware_threads};
use session::interrupt;
use session::progress::{Progress, Steps, Work};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Reads the cycle counter after everything before is done and before anything after begins.
#[inline]
pub fn stamp() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: present on every x86-64.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        let now = core::arch::x86_64::_rdtsc();
        core::arch::x86_64::_mm_lfence();
        now
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: a barrier for this core's own instructions has no other effect.
        let settle = || unsafe { std::arch::asm!("isb", options(nostack, preserves_flags)) };
        settle();
        let now = Native::now();
        settle();
        now
    }
}

/// Cycles between two [`stamp`]s with nothing between them, on average.
pub fn stamp_cycles() -> f64 {
    const STAMPS: u32 = 1_000;
    let batch = |_| {
        let first = stamp();
        let last = (0..STAMPS).fold(first, |_, _| stamp());
        (last - first) as f64 / f64::from(STAMPS)
    };
    let batches: Vec<f64> = (0..20).map(batch).collect();
    statistics::spread(&batches).map_or(0.0, |spread| spread.median)
}

/// The cycle counter and the cores that may be used.
#[derive(Debug, Clone)]
pub struct Bench {
    /// Cycles of the cycle counter in a nanosecond.
    pub ghz: f64,
    /// The places of the hardware threads that this process may use, die by die: first one of each core, then the second ones.
    pub topology: Topology,
    /// What is measured after this benchmark takes about so long.
    pub later: Duration,
    /// Who waits for it.
    pub progress: &'static dyn Progress,
}

impl Bench {
    /// Looks at the machine.
    pub fn new(progress: &'static dyn Progress) -> Self {
        let allowed = allowed_cores();
        let mut places: Vec<Place> = Native::topology().places;
        places.retain(|place| allowed.contains(&place.core));
        let places = cores_first(places, hardware_threads);
        let ghz = statistics::spread(&time::counter_ghz()).map_or(1.0, |spread| spread.median);
        Self { ghz, topology: Topology { places }, later: Duration::ZERO, progress }
    }

    /// So many runs begin.
    pub fn start(&self, runs: usize) -> Box<dyn Steps> {
        self.progress.start(Work::Runs { later: self.later }, runs)
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.topology.places.len().max(1)
    }

    /// The core of each of so many threads: die by die, and from the first again when they are used up.
    pub fn pinned(&self, threads: usize) -> Vec<u32> {
        let cores: Vec<u32> = self.topology.places.iter().map(|place| place.core).collect();
        cores.iter().copied().cycle().take(if cores.is_empty() { 0 } else { threads }).collect()
    }

    /// Two different cores, next to each other, where there are two.
    pub fn neighbours(&self) -> Option<[u32; 2]> {
        match self.topology.places[..] {
            [first, second, ..] => Some([first.core, second.core]),
            _ => None,
        }
    }

    /// Numbers of threads, doubling from one to the cores that there are.
    pub fn up_to_cores(&self) -> Vec<usize> {
        doublings(self.cores())
    }
}

/// Numbers that double from one to `most`, and that.
pub(crate) fn doublings(most: usize) -> Vec<usize> {
    (0..).map(|power| 1 << power).take_while(|&n| n < most).chain([most]).collect()
}

/// One hardware thread of each core, die by die, then the second ones: between two threads of one core a line
/// goes no way.
fn cores_first(mut places: Vec<Place>, threads_of: impl Fn(u32) -> Vec<u32>) -> Vec<Place> {
    let number_in_core = numbers_in_cores(&places, threads_of);
    places.sort_by_cached_key(|place| (number_in_core(place.core), place.socket, place.die, place.core));
    places
}

/// The first usable hardware thread of each core, and the other ones.
pub(crate) fn by_core(topology: &Topology, threads_of: impl Fn(u32) -> Vec<u32>) -> [Topology; 2] {
    let number_in_core = numbers_in_cores(&topology.places, threads_of);
    let is_first = |place: &Place| number_in_core(place.core) == 0;
    let (first, others): (Vec<Place>, Vec<Place>) = topology.places.iter().copied().partition(is_first);
    [first, others].map(|places| Topology { places })
}

/// Which of its core's usable hardware threads each place is.
fn numbers_in_cores<F>(places: &[Place], threads_of: F) -> impl Fn(u32) -> usize + use<F>
where
    F: Fn(u32) -> Vec<u32>,
{
    let usable: Vec<u32> = places.iter().map(|place| place.core).collect();
    move |core| threads_of(core).into_iter().filter(|&other| other < core && usable.contains(&other)).count()
}

/// What a lock, or another thing that is measured, came to, round by round.
#[derive(Debug)]
pub struct Rounds<S, T> {
    /// What is measured.
    pub of: S,
    /// One value a round; none in the warm-up, and none at all after a failure: what was quick enough does not stand for the rest.
    pub values: Vec<T>,
    /// Why values are missing.
    pub failure: Option<String>,
}

/// What one lock came to.
pub type LockRounds<T> = Rounds<Contender, T>;

impl<S, T> Rounds<S, T> {
    /// No round yet.
    pub fn new(of: S) -> Self {
        Self { of, values: Vec::new(), failure: None }
    }

    /// One figure of every round.
    pub fn figures(&self, figure: impl Fn(&T) -> f64) -> Vec<f64> {
        self.values.iter().map(figure).collect()
    }

    /// Median and range of one figure.
    pub fn spread(&self, figure: impl Fn(&T) -> f64) -> Option<Spread> {
        statistics::spread(&self.figures(figure))
    }

    /// Median and range for a table, or `over 3 s`.
    pub fn cell(&self, figure: impl Fn(&T) -> f64) -> TableCell {
        let over = self.failure.as_deref().filter(|failure| failure.starts_with(OVER));
        match (self.spread(figure), over) {
            (Some(spread), _) => spread.into(),
            (None, over) => over.into(),
        }
    }
}

/// The column of failures, for a table in which [`Rounds::cell`] says `over 3 s`: any other failure is shown on every screen.
pub(super) fn failure_column<'a, S: 'a, T: 'a>(mut rows: impl Iterator<Item = &'a Rounds<S, T>>) -> Column {
    let is_other =
        |row: &Rounds<S, T>| row.failure.as_ref().is_some_and(|failure| !failure.starts_with(OVER));
    let column = Column::text("failure", "failure").only_if_any();
    if rows.any(is_other) { column.kept() } else { column.detail() }
}

/// Measures each lock once to warm up and then so many times, as [`in_rounds`] does. A lock that is missing is never measured.
pub fn interleaved<T>(
    contenders: &[Contender],
    runs: u32,
    progress: &dyn Steps,
    measure: impl FnMut(&Contender) -> Option<Result<T, String>>,
) -> Vec<LockRounds<T>> {
    let row = |&of: &Contender| Rounds {
        failure: of.missing().map(|why| format!("not built: {why}")),
        ..Rounds::new(of)
    };
    let mut rows: Vec<LockRounds<T>> = contenders.iter().map(row).collect();
    in_rounds(&mut rows, 0..=runs, progress, |contender| contender.name().to_owned(), measure);
    rows
}

/// Measures each row in turn (A B C A B C …), so that a machine that gets slower does so for all. Round 0 is a warm-up, whose value
/// does not count. A row that fails is not measured again; a round without a value leaves a gap.
pub fn in_rounds<S, T>(
    rows: &mut [Rounds<S, T>],
    rounds: RangeInclusive<u32>,
    progress: &dyn Steps,
    label: impl Fn(&S) -> String,
    mut measure: impl FnMut(&S) -> Option<Result<T, String>>,
) {
    for round in rounds {
        for row in &mut *rows {
            if row.failure.is_none() && !interrupt::came() {
                progress.begin(&label(&row.of));
                let measured = measure(&row.of);
                if interrupt::came() {
                    continue; // the interrupt may have reached the run too
                }
                match measured {
                    Some(Ok(value)) if round > 0 => row.values.push(value),
                    Some(Ok(_)) | None => {}
                    Some(Err(failure)) => {
                        row.values.clear();
                        row.failure = Some(failure);
                    }
                }
            }
            progress.done();
        }
    }
    for row in rows.iter_mut().filter(|row| row.values.is_empty() && row.failure.is_none()) {
        row.failure = Some(if interrupt::came() {
            CUT_SHORT.into()
        } else {
            "no value in any round: its threads never ran together".into()
        });
    }
}

/// What a row says that has no value because of an interrupt.
pub const CUT_SHORT: &str = "not measured: cut short";

/// A time in a message, with a unit that fits.
pub fn shown_ns(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", text::short(ns as f64 / 1e3)),
        _ => format!("{} ms", text::short(ns as f64 / 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::select;
    use session::progress::Unwatched;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn bench(cores: u32) -> Bench {
        let place = |core| Place { core, ..Place::default() };
        Bench {
            ghz: 2.0,
            topology: Topology { places: (0..cores).map(place).collect() },
            later: Duration::ZERO,
            progress: &Unwatched,
        }
    }

    #[test]
    fn threads_go_round_the_cores_and_counts_end_with_all_of_them() {
        assert_eq!(bench(3).pinned(5), [0, 1, 2, 0, 1]);
        assert_eq!(bench(1).up_to_cores(), [1]);
        assert_eq!(bench(2).up_to_cores(), [1, 2]);
        assert_eq!(bench(12).up_to_cores(), [1, 2, 4, 8, 12]);
        assert_eq!(bench(1).neighbours(), None);
    }

    /// Numbered as Linux does on most machines with two sockets, and as some hypervisors do.
    #[test]
    fn hardware_threads_of_one_core_are_used_when_all_cores_are() {
        let places = |sockets: [u32; 4]| {
            let place = |(core, socket)| Place { core, socket, die: socket, ..Place::default() };
            (0..).zip(sockets).map(place).collect::<Vec<_>>()
        };
        let order = |places, threads: fn(u32) -> Vec<u32>| {
            cores_first(places, threads).iter().map(|place: &Place| place.core).collect::<Vec<_>>()
        };
        assert_eq!(order(places([0, 1, 0, 1]), |core| vec![core % 2, core % 2 + 2]), [0, 1, 2, 3]);
        assert_eq!(order(places([0, 0, 1, 1]), |core| vec![core / 2 * 2, core / 2 * 2 + 1]), [0, 2, 1, 3]);
        let mut second_only = places([0, 0, 1, 1]);
        second_only.remove(0);
        assert_eq!(order(second_only, |core| vec![core / 2 * 2, core / 2 * 2 + 1]), [1, 2, 3]);
        assert_eq!(order(places([0, 0, 1, 1]), |core| vec![core]), [0, 1, 2, 3]);
    }

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Steps for Counted {
        fn done(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_failure_that_no_figure_tells_is_shown_on_every_screen() {
        let shown = |failure: &str| {
            let rows = [Rounds::<_, u32> { failure: Some(failure.into()), ..Rounds::new(1) }];
            format!("{:?}", failure_column(rows.iter())).contains("Kept")
        };
        assert!(shown("lost") && !shown("over 3 s"));
    }

    #[test]
    fn rounds_are_interleaved_and_a_failure_ends_a_row() {
        let contenders = select(&["ticket".into(), "posix-mutex".into()]).unwrap();
        let progress = Counted::default();
        let mut order = Vec::new();
        let rows = interleaved(&contenders, 3, &progress, |contender| {
            order.push(contender.name());
            let late = order.len() > 4 && contender.name() == "ticket";
            Some(if late { Err("wrong".into()) } else { Ok(order.len()) })
        });
        let [one, other] = ["ticket", "posix-mutex"];
        assert_eq!(order, [one, other, one, other, one, other, other]);
        assert!(
            rows[0].values.is_empty() && rows[0].failure.as_deref() == Some("wrong"),
            "not the one that was in time"
        );
        assert_eq!(rows[1].values, [4, 6, 7]);
        assert_eq!(progress.0.load(Ordering::Relaxed), 8, "what is left out is done too");
    }
}
