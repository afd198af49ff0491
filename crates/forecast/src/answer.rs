//! The forecast: what was measured, carried on by the simulated program, with its error's distribution and a verdict on each row.

use crate::advice::{Adviser, how_to_swap};
use crate::anchor::Anchor;
use crate::question::{MeasuredPoint, Question, Void};
use crate::simulated_program::{self, Plan, Run, Simulated, SimulatedPoint, Stage, doublings};
use crate::subject::{self, Besides, Subject};
use crate::uncertainty::{CALIBRATED, Calibration, Known, LEARNT, Widths};
use crate::verdict::{Verdict, outcome};
use crate::void::LeftOut;
use crate::{AS_IT_IS, Alternative, advice, family_of};
use model::Family;
use profile::{LockKind, LockTable};
use pthread::site::Site;
use report::text;
use serde::Serialize;
use session::ensure_usage;
use session::progress::Progress;
use simulator::{MAX_CORES, MAX_DIES, MAX_THREADS};
use std::path::PathBuf;
use topology::carried::{self, TYPICAL};
use topology::machine_file::Topology;
use topology::{MachineFile, Range};
use what_if::{Case, Change, Gain, Sliders};

/// What becomes of a program.
#[derive(Debug, Clone, Serialize)]
pub struct Forecast {
    /// The profiles.
    pub profiles: Vec<PathBuf>,
    /// The lock in question.
    pub lock: String,
    /// The machine that is forecast for, with the cores that were asked for.
    pub machine: String,
    /// What it is.
    pub description: String,
    /// Its cores.
    pub cores: u32,
    /// Numbers of threads, ascending; 1 among them.
    pub threads: Vec<u32>,
    /// The baseline, then each candidate.
    pub rows: Vec<Row>,
    /// The share of the loss at the most measured threads that the locks explain; the rest is lost in what threads share outside of
    /// locks, or is the simulation's error. None where little was lost, or nothing measured.
    pub explained_by_locks: Option<f64>,
    /// Changes to the program and what each gives: what `contend run` does first, then other numbers of threads, then changes of the
    /// source, of each the greatest gain first.
    pub advice: Vec<Gain>,
    /// What the profile says of the lock, as the model takes it.
    pub parameters: model::Parameters,
    /// What the rows say of the simulated program before anything measured is taken in.
    pub simulated: Simulated,
    /// Reservations.
    pub notes: Vec<String>,
    /// What a page's sliders start from.
    #[serde(skip)]
    pub(crate) sliders: Option<Sliders>,
    /// The measured rate to which everything is relative, that of one thread, in the unit of the measurements.
    #[serde(skip)]
    pub(crate) one_thread: f64,
    /// The threads that [`explained_by_locks`](Self::explained_by_locks) is of.
    #[serde(skip)]
    pub(crate) explained_at: Option<u32>,
    /// Threads at a time of each profile that is a point of it, with the threads that it had, where these are others.
    #[serde(skip)]
    pub(crate) profiled: Vec<(u32, u64)>,
}

/// The program with one lock.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The candidate; none for the baseline.
    pub lock: Option<String>,
    /// The lock of the catalogue whose code was simulated.
    pub code: String,
    /// Throughput relative to one thread of the baseline, at each number of threads.
    pub points: Vec<Point>,
    /// What becomes of it.
    pub verdict: Verdict,
}

/// Throughput relative to one thread of the baseline, with the range that four of five cases lie in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Threads.
    pub threads: u32,
    /// The forecast, or what was measured.
    pub value: f64,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// Whether this was measured.
    pub measured: bool,
    /// Whether seeds of the simulated program disagree by more than twice.
    pub unstable: bool,
}

impl Point {
    /// How many times as much this is as `before`, where the errors of both have nothing in common.
    pub(crate) fn over(self, before: Self) -> Range {
        what_if::case::over(self.into(), before.into())
    }

    /// As sliders are given it.
    fn with_range(self) -> what_if::ForecastPoint {
        (self.threads, [self.value, self.low, self.high])
    }
}

impl From<Point> for curve::Point {
    fn from(Point { threads: cores, value, low, high, .. }: Point) -> Self {
        Self { cores, value, low, high }
    }
}

impl Forecast {
    /// The row of a candidate; of the baseline without one.
    #[must_use]
    pub fn row(&self, lock: Option<&str>) -> Option<&Row> {
        self.rows.iter().find(|row| row.lock.as_deref() == lock)
    }
}

impl Row {
    /// The point at so many threads.
    #[must_use]
    pub fn at(&self, threads: u32) -> Option<Point> {
        self.points.iter().find(|point| point.threads == threads).copied()
    }

    /// On how many threads it does most, as far as the seeds agree.
    pub(crate) fn peak(&self) -> Option<u32> {
        let told = self.points.iter().filter(|point| point.measured || !point.unstable);
        told.max_by(|a, b| a.value.total_cmp(&b.value)).map(|point| point.threads)
    }

    /// What tables call it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.lock.as_deref().unwrap_or(AS_IT_IS)
    }
}

/// Answers a question.
///
/// # Errors
///
/// Files that cannot be read or are no profiles; a lock that is not there; a machine that cannot be simulated.
pub fn forecast(question: &Question, progress: &dyn Progress) -> anyhow::Result<Result<Forecast, Void>> {
    let tables = match subject::open(&question.profiles)? {
        Ok(tables) => tables,
        Err(void) => return Ok(Err(void)),
    };
    let profiled_on = profiled_on(question, &tables);
    let transfer_ns = profiled_on.costs().transfer_ns(2);
    let besides =
        Besides { cores_used: None, stretch: question.stretch.or_else(|| stretch(question, &tables)) };
    let subject =
        match Subject::new(&tables, question.site.as_deref(), transfer_ns, besides, &question.profiles[0])? {
            Ok(subject) => subject,
            Err(void) => return Ok(Err(void)),
        };
    let mut measured =
        if question.measured.is_empty() { subject.shown.clone() } else { question.measured.clone() };
    let too_many = not_simulated(&mut measured);
    let (machine, threads) = target(question, &measured);
    let plan = Plan::of(&threads, question.seed);
    let stage = Stage::new(&subject.blueprint, &machine, &profiled_on, &plan)?;
    let candidates = question.alternatives(subject.row.kind)?;
    let simulate = |stage: &Stage, plan: &Plan| {
        simulated_program::run(&subject.blueprint, &candidates, stage, plan, progress)
    };
    let simulated = simulate(&stage, &plan)?;
    let here = match where_measured(question.seed, &subject, &measured, [&profiled_on, &machine])? {
        Some((stage, plan)) => simulate(&stage, &plan)?,
        None => simulated.clone(),
    };
    let one_thread = Anchor::one_thread(&measured, &here.runs[0]);
    let frame = Frame {
        cores: machine.topology.cores(),
        measured_cores: profiled_on.topology.cores(),
        from: question.from,
        most: most_by_locks(&subject),
        widths: LEARNT,
        calibration: CALIBRATED,
    };
    let (rows, baseline) = frame.rows(&simulated, &here, &measured);
    ensure_forecast(&question.measured, &rows)?;
    let explained = baseline.explained_by_locks(frame.measured_cores);
    let explained_by_locks = explained.map(|(_, share)| share);
    if let Some(void) = left_out(&tables, explained_by_locks) {
        return Ok(Err(void));
    }
    let mut notes = subject.notes.clone();
    notes.extend(simulated.doubts.iter().filter(|doubt| !subject.notes.contains(doubt)).cloned());
    notes.extend(unstable(&simulated).into_iter().chain(too_many));
    let case = case(&subject, &machine, &plan);
    let adviser = Adviser::new(&subject, &case, &stage, &rows);
    let advice = match &question.what_if {
        _ if !question.advice => Vec::new(),
        Some(change) => adviser.worth(std::slice::from_ref(change))?,
        None => {
            adviser.worth(&changes(&rows, &candidates, subject.row.kind, subject.parameters.read_share))?
        }
    };
    // One point is no curve for a change to move.
    let sliders = (plan.threads.len() > 1).then(|| sliders(case, &frame, &rows, &candidates));
    Ok(Ok(Forecast {
        profiles: question.profiles.clone(),
        lock: subject.name.clone(),
        machine: machine.name.clone(),
        description: machine.description,
        cores: frame.cores,
        threads: plan.threads,
        explained_by_locks,
        rows,
        advice,
        parameters: subject.parameters,
        simulated,
        notes,
        sliders,
        one_thread,
        explained_at: explained.map(|(threads, _)| threads),
        profiled: if question.measured.is_empty() { at_a_time(&tables, &measured) } else { Vec::new() },
    }))
}

/// What a page asks by: the changes, and the forecasts that they move.
fn sliders(case: Case, frame: &Frame, rows: &[Row], candidates: &[Alternative]) -> Sliders {
    let points = |row: &Row| row.points.iter().copied().map(Point::with_range).collect();
    let of_locks = rows.iter().filter_map(|row| Some((row.lock.clone()?, points(row)))).collect();
    Sliders::new(case, frame.cores, replacements(candidates), points(&rows[0]), of_locks)
}

/// How many times as long the profiled run on the fewest threads took as without recording, where operations were counted in both.
fn stretch(question: &Question, tables: &[LockTable]) -> Option<f64> {
    let header = tables.iter().map(|table| &table.header).min_by_key(|header| subject::threads_of(header))?;
    let recorded = header.operations? as f64 / (header.elapsed_ns / 1e9);
    let is_same =
        |point: &&MeasuredPoint| point.lock.is_none() && point.threads == subject::threads_of(header);
    let unrecorded = question.measured.iter().find(is_same)?.rate;
    (question.in_operations && recorded > 0.0).then_some(unrecorded / recorded)
}

/// The measured points that are profiles of more threads than ran or waited for a lock at a time, but for a main thread that waits for the
/// others: each with its number of threads.
fn at_a_time(tables: &[LockTable], measured: &[MeasuredPoint]) -> Vec<(u32, u64)> {
    let numbers = tables.iter().map(|table| (subject::threads_of(&table.header), table.header.threads));
    let is_told = |&(ran, threads): &(u32, u64)| {
        threads > u64::from(ran) + 1 && measured.iter().any(|point| point.threads == ran)
    };
    let mut told: Vec<_> = numbers.filter(is_told).collect();
    told.sort_unstable();
    told.dedup();
    told
}

/// Takes out what was measured on more threads than a simulation runs; what to say of it.
fn not_simulated(measured: &mut Vec<MeasuredPoint>) -> Option<String> {
    let most = measured.iter().map(|point| point.threads).max()?;
    measured.retain(|point| point.threads as usize <= MAX_THREADS);
    (most as usize > MAX_THREADS).then(|| {
        format!(
            "what was measured on {most} threads at a time is left out: a simulation runs {MAX_THREADS} at most"
        )
    })
}

/// Each lock that was measured is a row.
fn ensure_forecast(measured: &[MeasuredPoint], rows: &[Row]) -> anyhow::Result<()> {
    let without = measured.iter().find(|point| !rows.iter().any(|row| row.lock == point.lock));
    let names: Vec<&str> = rows.iter().filter_map(|row| row.lock.as_deref()).collect();
    ensure_usage!(
        without.is_none(),
        "--measured: the curve of `{}` has no row of its own: name it as a row of the forecast ({}), or leave it out of the file",
        text::printable(without.and_then(|point| point.lock.as_deref()).unwrap_or("")),
        names.join("; ")
    );
    Ok(())
}

/// Why there is no forecast where the recorded locks explain less than half of what was measured to be lost, and others were left to the C
/// library.
fn left_out(tables: &[LockTable], explained_by_locks: Option<f64>) -> Option<Void> {
    let is_loss_unexplained = explained_by_locks.is_some_and(|share| share < 0.5);
    tables.iter().find_map(|table| LeftOut::of(table, is_loss_unexplained)).map(|left_out| left_out.void())
}

/// The machine that was profiled and measured on. Where nothing is known of it, it has at least the cores that the profiles tell.
fn profiled_on(question: &Question, tables: &[LockTable]) -> MachineFile {
    let cores = tables.iter().filter_map(|table| u32::try_from(table.header.cores).ok()).max().unwrap_or(0);
    let mut machine = question.profiled_on.clone();
    if machine.name != TYPICAL
        || cores == 0
        || cores as usize > MAX_CORES
        || cores == machine.topology.cores()
    {
        return machine;
    }
    let topology = Topology { sockets: 1, dies_per_socket: 1, cores_per_die: cores, ..machine.topology };
    machine.topology = topology;
    machine
}

/// The machine with the cores that were asked for, and the numbers of threads that run on it.
fn target(question: &Question, measured: &[MeasuredPoint]) -> (MachineFile, Vec<u32>) {
    /// More of them in a row are shown by a few; a list stays.
    const SINGLY: usize = 12;
    let most = question.cores.last().copied().unwrap_or(1);
    let first = question.cores.first().copied().unwrap_or(1);
    let are_in_a_row = question.cores.len() == (most - first.min(most) + 1) as usize;
    let (machine, mut threads) = if question.threads.is_empty() {
        let cores = &question.cores;
        let threads = if cores.len() > SINGLY && are_in_a_row { doublings(most) } else { cores.clone() };
        (with_cores(&question.machine, most), threads)
    } else {
        (question.machine.clone(), question.threads.clone())
    };
    let last = threads.iter().copied().max().unwrap_or(1);
    threads.extend(measured.iter().map(|point| point.threads).filter(|&threads| threads <= last));
    (machine, threads)
}

/// A machine with at least so many cores: more dies of its kind, as far apart as those of a machine that has them. The dies have fewer
/// cores where a simulation would take them only so.
#[must_use]
pub fn with_cores(machine: &MachineFile, cores: u32) -> MachineFile {
    /// Where a machine shows fewer cores in a die, it is one of which a hypervisor gave a few.
    const DIE: u32 = 8;
    if cores <= machine.topology.cores() {
        return machine.clone();
    }
    let mut larger = machine.clone();
    let (sockets, of_its_kind) =
        (machine.topology.sockets.max(1), machine.topology.cores_per_die.max(DIE).min(cores));
    let dies_of = |per_die: u32| cores.div_ceil(per_die * sockets).max(1);
    let is_simulated = |&per_die: &u32| {
        let dies = dies_of(per_die) * sockets;
        dies as usize <= MAX_DIES && (dies * per_die) as usize <= MAX_CORES
    };
    let per_die = (1..=of_its_kind).rev().find(is_simulated).unwrap_or(of_its_kind);
    let dies = dies_of(per_die);
    (larger.topology.cores_per_die, larger.topology.dies_per_socket) = (per_die, dies);
    let far = carried::machine("single-192");
    if larger.transfer.same_socket.is_none() && dies > 1 {
        larger.transfer.same_socket.clone_from(&far.transfer.same_socket);
    }
    larger.name = format!("{}, extended to {} cores", machine.name, larger.topology.cores());
    larger.description = format!(
        "{}; extended: {} x {dies} dies of {per_die} cores, whose distance is taken from {}",
        machine.description, larger.topology.sockets, far.name
    );
    larger
}

/// How the simulated program is run where the measurements were made; none where nothing was measured on several threads, or that machine is
/// the target, whose runs there are.
fn where_measured(
    seed: u64,
    subject: &Subject,
    measured: &[MeasuredPoint],
    [profiled_on, target]: [&MachineFile; 2],
) -> anyhow::Result<Option<(Stage, Plan)>> {
    let threads: Vec<u32> =
        measured.iter().map(|point| point.threads).filter(|&threads| threads > 1).collect();
    if threads.is_empty() || profiled_on == target {
        return Ok(None);
    }
    let plan = Plan { ends: false, ..Plan::of(&threads, seed) };
    Ok(Some((Stage::new(&subject.blueprint, profiled_on, profiled_on, &plan)?, plan)))
}

/// The most throughput that critical sections which exclude each other leave, relative to one thread.
pub(crate) fn most_by_locks(subject: &Subject) -> f64 {
    /// How much shorter than measured a critical section may be.
    const SHORTER: f64 = 0.6;
    let blueprint = &subject.blueprint;
    let operation_ns = blueprint.operation_ns();
    let of_lock = |hot: &simulated_program::Hot| {
        let held_ns = hot.visits * hot.mean_exclusive_ns() * SHORTER;
        if held_ns > 0.0 { f64::from(hot.copies) * operation_ns / held_ns } else { f64::INFINITY }
    };
    blueprint.locks.iter().map(of_lock).fold(f64::INFINITY, f64::min).max(1.0)
}

/// What all rows of a forecast have in common.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// Of the target.
    pub(crate) cores: u32,
    /// Of the machine that was measured on.
    pub(crate) measured_cores: u32,
    /// Verdicts tell of so many threads and more.
    pub(crate) from: u32,
    /// The most that the locks allow.
    pub(crate) most: f64,
    pub(crate) widths: Widths,
    pub(crate) calibration: Calibration,
}

impl Frame {
    /// A row for each run, fixed by what was measured; and what fixes the baseline.
    pub(crate) fn rows(
        &self,
        simulated: &Simulated,
        here: &Simulated,
        measured: &[MeasuredPoint],
    ) -> (Vec<Row>, Anchor) {
        let here_of = |lock: Option<&str>| here.runs.iter().find(|run| run.name.as_deref() == lock);
        let anchor = |lock: Option<&str>, one: f64| {
            Anchor::new(measured, lock, here_of(lock), one, self.measured_cores)
        };
        // Everything is relative to one thread: measured, or where that was not, carried back from the fewest threads measured.
        let one = Anchor::one_thread(measured, &here.runs[0]);
        let baseline = anchor(None, one);
        let rows = simulated.runs.iter().map(|run| {
            let own = anchor(run.name.as_deref(), one);
            let lock = run.name.as_deref();
            let by = if own.is_empty() { baseline.of_another(here_of(lock)) } else { own.clone() };
            self.allowing(measured, lock, one).row(run, &by, &own)
        });
        (rows.collect(), baseline)
    }

    /// The same with at least the throughput that was measured of the baseline and of this lock: more than what the profile says that the
    /// locks allow shows that they allow more.
    fn allowing(&self, measured: &[MeasuredPoint], lock: Option<&str>, one: f64) -> Self {
        let of_both = measured.iter().filter(|point| point.lock.is_none() || point.lock.as_deref() == lock);
        Self { most: of_both.map(|point| point.rate / one).fold(self.most, f64::max), ..*self }
    }

    /// Lock, threads and forecast of each point whose error can be learnt, with what decides about it.
    pub(crate) fn forecasts(
        &self,
        simulated: &Simulated,
        measured: &[MeasuredPoint],
    ) -> Vec<(Option<String>, u32, f64, Known)> {
        let one = Anchor::one_thread(measured, &simulated.runs[0]);
        let baseline = Anchor::new(measured, None, simulated.runs.first(), one, self.measured_cores);
        let of_run = |run: &Run| {
            let by = baseline.of_another(Some(run));
            let frame = self.allowing(measured, run.name.as_deref(), one);
            let points = run.points.iter().filter_map(|&point| {
                let shown = baseline.at(point.threads).filter(|_| run.name.is_none());
                let drawn = frame.drawn(run, point, &by, shown.as_ref());
                Some((run.name.clone(), point.threads, drawn.point.value, drawn.known?))
            });
            points.collect::<Vec<_>>()
        };
        simulated.runs.iter().flat_map(of_run).collect()
    }

    fn row(&self, run: &Run, by: &Anchor, own: &Anchor) -> Row {
        let drawn: Vec<Drawn> = run
            .points
            .iter()
            .map(|&point| self.drawn(run, point, by, own.at(point.threads).as_ref()))
            .collect();
        let threads: Vec<u32> = drawn.iter().map(|one| one.point.threads).collect();
        let curves = self.curves(&drawn);
        let anchored = by.holds();
        let first = threads.iter().position(|&threads| threads >= self.from).unwrap_or(0);
        let told: Vec<Vec<f64>> = curves.iter().map(|curve| curve[first..].to_vec()).collect();
        let mut verdict = Verdict::of(&threads[first..], &told, |drawn| self.calibration.of(drawn, anchored));
        let shown: Vec<_> = drawn.iter().filter(|one| one.point.measured).collect();
        verdict.anchored = anchored;
        if shown.len() > 1 {
            let values: Vec<f64> = shown.iter().map(|one| one.point.value).collect();
            let threads: Vec<u32> = shown.iter().map(|one| one.point.threads).collect();
            let (kind, at) = outcome(&threads, &values);
            let all_measured = shown.len() == drawn.len();
            let collapsed = kind == crate::verdict::Kind::Collapses;
            if all_measured || collapsed && fell_apart(&shown) && !exceeds(&drawn, &values) {
                verdict.measured = true;
                (verdict.kind, verdict.probability) = (kind, 1.0);
                verdict.at = crate::verdict::Threads { low: at, likely: at, high: at };
                verdict.collapses = f64::from(u8::from(collapsed));
            }
        }
        let points = drawn.iter().enumerate().map(|(place, one)| {
            let mut values: Vec<f64> = curves.iter().map(|curve| curve[place]).collect();
            values.sort_by(f64::total_cmp);
            let quantile = |share: f64| values[(share * (values.len() - 1) as f64).round() as usize];
            if one.point.measured {
                return one.point;
            }
            Point {
                low: quantile(0.1).min(one.point.value),
                high: quantile(0.9).max(one.point.value),
                ..one.point
            }
        });
        Row { lock: run.name.clone(), code: run.lock.clone(), points: points.collect(), verdict }
    }

    /// Whether what was measured on so many threads stands on the target: these have a core each on both, or the target has as many cores.
    fn stands(&self, threads: u32) -> bool {
        threads <= self.cores.min(self.measured_cores) || self.cores == self.measured_cores
    }

    /// A point before its error is drawn.
    fn drawn(
        &self,
        run: &Run,
        point: SimulatedPoint,
        by: &Anchor,
        measured: Option<&MeasuredPoint>,
    ) -> Drawn {
        let threads = point.threads;
        let oversubscribed = threads > self.cores;
        if let Some(&MeasuredPoint { rate, low, high, .. }) = measured.filter(|_| self.stands(threads)) {
            // Threads do not do more than so many times the work of one, unless that itself was measured.
            let high = high.min(rate.max(f64::from(threads)));
            let point = Point { threads, value: rate, low, high, measured: true, unstable: false };
            return Drawn { point, known: None, sigma: 0.0, most: f64::INFINITY };
        }
        let on_cores = threads.min(self.cores);
        let sleeps = catalogue_sleeps(&run.lock);
        let last = by.last_threads();
        let known = Known {
            oversubscribed,
            sleeps,
            simulated: point.width(),
            anchored: by.holds(),
            doublings: f64::from(on_cores).log2() - f64::from(last.min(on_cores)).log2(),
        };
        /// Under another lock one thread does nearly the same.
        const ONE_THREAD: f64 = 0.05;
        let (known, sigma) = match (threads, &run.name) {
            (1, None) => (None, 0.0),
            (1, Some(_)) => (None, ONE_THREAD),
            _ => (Some(known), self.widths.sigma(&known)),
        };
        let most = f64::from(on_cores).min(self.most);
        let value = (point.value * by.correction(threads, self.cores)).min(most);
        let point =
            Point { threads, value, low: value, high: value, measured: false, unstable: point.is_unstable() };
        Drawn { point, known, sigma, most }
    }

    /// Curves drawn alike from the error's distribution: one part that all threads share, and one that tilts the curve.
    fn curves(&self, drawn: &[Drawn]) -> Vec<Vec<f64>> {
        const LEVELS: usize = 41;
        const TILTS: usize = 11;
        /// The parts' shares of the standard deviation; the tilt is from -1 to 1, and its mean square a third.
        const LEVEL: f64 = 0.99;
        const TILT: f64 = 0.2;
        let free: Vec<f64> = drawn
            .iter()
            .filter(|one| one.sigma > 0.0 && one.point.threads > 1)
            .map(|one| f64::from(one.point.threads).ln())
            .collect();
        let (first, last) = (free.first().copied().unwrap_or(0.0), free.last().copied().unwrap_or(0.0));
        let place = |threads: u32| {
            if last > first { 2.0 * (f64::from(threads).ln() - first) / (last - first) - 1.0 } else { 0.0 }
        };
        let levels = crate::uncertainty::normal_quantiles(LEVELS);
        let tilts = crate::uncertainty::normal_quantiles(TILTS);
        let draws = levels.iter().flat_map(|level| tilts.iter().map(move |tilt| (level, tilt)));
        draws
            .map(|(level, tilt)| {
                let value = |one: &Drawn| {
                    let off = one.sigma * (LEVEL * level + TILT * tilt * place(one.point.threads));
                    (one.point.value * off.exp()).min(one.most)
                };
                drawn.iter().map(value).collect()
            })
            .collect()
    }
}

/// Whether the measured ranges of peak and fall leave no doubt of the fall.
fn fell_apart(shown: &[&Drawn]) -> bool {
    let peak = shown.iter().max_by(|a, b| a.point.value.total_cmp(&b.point.value));
    peak.is_some_and(|peak| {
        let after = shown.iter().filter(|one| one.point.threads > peak.point.threads);
        after.map(|one| one.point.high).fold(f64::INFINITY, f64::min) < 0.95 * peak.point.low
    })
}

/// Whether more is forecast than the most of what was measured: then a fall of that is not the end.
fn exceeds(drawn: &[Drawn], measured: &[f64]) -> bool {
    let peak = measured.iter().copied().fold(0.0, f64::max);
    drawn.iter().any(|one| !one.point.measured && one.point.value > peak)
}

struct Drawn {
    point: Point,
    /// What decides about its error; none where that is not learnt.
    known: Option<Known>,
    /// Standard deviation of the logarithm of its error.
    sigma: f64,
    /// More cannot be.
    most: f64,
}

/// Whether waiters of a lock of the catalogue sleep in the end, on their own: an oversubscribed queue of others stalls behind a
/// preempted waiter, however the preload library has it wait.
pub(crate) fn catalogue_sleeps(lock: &str) -> bool {
    lock.contains("glibc-mutex")
        || lock.contains("glibc-rwlock")
        || matches!(family_of(lock), Some(Family::Blocking | Family::BackOffThenSleep))
}

/// What to say of figures whose seeds disagree.
fn unstable(simulated: &Simulated) -> Option<String> {
    let runs = simulated.runs.iter().filter_map(|run| {
        let threads: Vec<String> = run
            .points
            .iter()
            .filter(|point| point.is_unstable())
            .map(|point| point.threads.to_string())
            .collect();
        let name = run.name.as_deref().unwrap_or(AS_IT_IS);
        (!threads.is_empty()).then(|| format!("{name} at {}", threads.join(", ")))
    });
    let all: Vec<String> = runs.collect();
    (!all.is_empty()).then(|| {
        format!(
            "unstable: of {} seeds of the simulated program some do more than {} times what others do: {}",
            simulated.seeds,
            session::seeds::UNSTABLE,
            all.join("; ")
        )
    })
}

/// The case that changes are asked of.
pub(crate) fn case(subject: &Subject, machine: &MachineFile, plan: &Plan) -> Case {
    // The locks of one site are replaced together: a name with the number of one of them is none that `--only` takes.
    let site = Site::without_number(&subject.row.name);
    Case {
        site: site.to_owned(),
        family: subject.observed.family,
        parameters: subject.parameters.clone(),
        costs: machine.costs(),
        variant: model::Variant::default(),
        cores: plan.threads.clone(),
        threads: plan.threads.last().copied().unwrap_or(1),
        how: how_to_swap(site, &subject.row),
    }
}

/// The changes to try where none was asked for: the best candidates among them that can be put in the place of a lock of this kind.
fn changes(rows: &[Row], candidates: &[Alternative], kind: LockKind, read_share: Option<f64>) -> Vec<Change> {
    /// Of the locks only the best are tried again.
    const BEST: usize = 2;
    let end = |row: &Row| row.points.last().map_or(0.0, |point| point.value);
    let mut others: Vec<&Row> = rows.iter().filter(|row| row.lock.is_some()).collect();
    others.sort_by(|a, b| end(b).total_cmp(&end(a)));
    // What eliding gives is not known of a program whose conflicts are not.
    let of_row = |row: &&Row| {
        let is_of_row = |one: &&Alternative| Some(&one.name) == row.lock.as_ref();
        candidates.iter().find(|one| is_of_row(one) && advice::can_be_tried(one, kind)).cloned()
    };
    let best: Vec<_> = others.iter().filter_map(of_row).take(BEST).collect();
    let own = &rows[0];
    let falls = own.verdict.collapses >= 0.5;
    advice::candidates(&best, own.peak().filter(|_| falls), read_share > Some(0.5))
}

/// The locks that a page offers to put in the lock's place: what eliding gives has two ends, which a preview does not know.
fn replacements(candidates: &[Alternative]) -> Vec<Alternative> {
    candidates.iter().filter(|one| one.elided.is_none()).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Kind;
    use profile::ObjectKind;

    /// A program whose 4 threads share two cores here, and have one each on the target.
    #[test]
    fn what_was_measured_on_shared_cores_does_not_stand_where_there_are_more() {
        let simulated = |[one, two, four]: [f64; 3]| program(&[(1, one), (2, two), (4, four)]);
        let measured: Vec<MeasuredPoint> = [(1, 1.0), (2, 1.9), (4, 0.6)]
            .map(|(threads, rate)| MeasuredPoint::of(None, curve::Point::exact(threads, rate)))
            .to_vec();
        let frame = |cores| Frame {
            cores,
            measured_cores: 2,
            from: 1,
            most: f64::INFINITY,
            widths: LEARNT,
            calibration: CALIBRATED,
        };
        let there = simulated([1.0, 2.0, 4.0]);
        let (rows, _) = frame(64).rows(&there, &simulated([1.0, 2.0, 1.2]), &measured);
        let four = rows[0].at(4).unwrap();
        assert!(!four.measured && four.value > 2.0, "{four:?}");
        assert!(!rows[0].verdict.measured && rows[0].at(2).unwrap().measured, "{:?}", rows[0].verdict);
        // On as many cores, it stands.
        let (rows, _) = frame(2).rows(&there, &there, &measured);
        assert!(rows[0].at(4).unwrap().measured && rows[0].verdict.measured);
    }

    fn frame(most: f64) -> Frame {
        Frame { cores: 64, measured_cores: 64, from: 1, most, widths: LEARNT, calibration: CALIBRATED }
    }

    /// The program as it is, with this throughput at these numbers of threads.
    fn program(values: &[(u32, f64)]) -> Simulated {
        let point = |&(threads, value): &(u32, f64)| SimulatedPoint {
            threads,
            value,
            low: value,
            high: value,
            ends: [value; 2],
        };
        let run = Run {
            name: None,
            lock: "glibc-mutex".into(),
            points: values.iter().map(point).collect(),
            limited_by: None,
            waiting: Vec::new(),
        };
        Simulated { locks: Vec::new(), runs: vec![run], seed: 1, seeds: 1, doubts: Vec::new() }
    }

    /// A profile says that its lock allows twice the work of one thread; four threads were seen to do 3.8 times as much.
    #[test]
    fn what_was_measured_is_not_cut_at_what_the_profile_says_that_locks_allow() {
        let simulated = program(&[(1, 1.0), (4, 2.5), (8, 2.6)]);
        let measured: Vec<MeasuredPoint> = [(1, 1.0), (4, 3.8)]
            .map(|(threads, rate)| MeasuredPoint::of(None, curve::Point::exact(threads, rate)))
            .to_vec();
        let frame = frame(2.0);
        let (rows, _) = frame.rows(&simulated, &simulated, &measured);
        assert!(rows[0].verdict.kind != Kind::Collapses, "{:?}", rows[0].verdict);
        assert!(rows[0].at(8).unwrap().high >= 3.8, "{:?}", rows[0].at(8));
        let learnt = frame.forecasts(&simulated, &measured);
        assert!(learnt.iter().any(|&(_, threads, value, _)| threads == 8 && value >= 3.8), "{learnt:?}");
        // Nothing was measured that says otherwise.
        let (rows, _) = frame.rows(&simulated, &simulated, &[]);
        assert!(rows[0].at(8).unwrap().high <= 2.0, "{:?}", rows[0].at(8));
    }

    #[test]
    fn the_forecast_goes_through_what_was_measured_and_on_as_the_ratio_from_there() {
        let simulated = program(&[(1, 1.0), (2, 1.0), (4, 0.8), (8, 0.4)]);
        let measured: Vec<MeasuredPoint> = [(1, 200.0), (2, 300.0), (4, 240.0)]
            .map(|(threads, rate)| MeasuredPoint::of(None, curve::Point::exact(threads, rate)))
            .to_vec();
        let (rows, _) = frame(f64::INFINITY).rows(&simulated, &simulated, &measured);
        let at = |threads| rows[0].at(threads).unwrap();
        assert_eq!([1, 2, 4].map(|threads| at(threads).value), [1.0, 1.5, 1.2]);
        assert!([1, 2, 4].iter().all(|&threads| at(threads).measured) && !at(8).measured);
        assert!((at(8).value - 0.6).abs() < 1e-9, "half of what was measured on four: {:?}", at(8));
        assert!(at(8).low < 0.6 && at(8).high > 0.6);
    }

    #[test]
    fn no_range_holds_what_cannot_be() {
        let simulated = program(&[(1, 1.0), (2, 1.9), (4, 3.9), (64, 40.0), (128, 60.0)]);
        let points = |most| {
            let (rows, _) = frame(most).rows(&simulated, &simulated, &[]);
            rows[0].points.clone()
        };
        for point in points(f64::INFINITY) {
            let cores = f64::from(point.threads.min(64));
            assert!(point.low > 0.0 && point.value <= cores && point.high <= cores, "{point:?}");
        }
        assert!(points(f64::INFINITY)[3].high > 50.0, "the error allows more");
        assert!(points(5.0).iter().all(|point| point.high <= 5.0), "one section at a time");
    }

    #[test]
    fn seeds_that_disagree_are_said_and_not_averaged() {
        let mut simulated = program(&[(1, 1.0), (2, 2.0), (4, 2.5)]);
        (simulated.runs[0].points[2].low, simulated.runs[0].points[2].high) = (2.4, 28.6);
        simulated.seeds = 5;
        let (rows, _) = frame(f64::INFINITY).rows(&simulated, &simulated, &[]);
        assert_eq!([2, 4].map(|threads| rows[0].at(threads).unwrap().unstable), [false, true]);
        assert_eq!(rows[0].peak(), Some(2), "what the seeds do not agree on is no peak");
        let said = unstable(&simulated).expect("five seeds do 2.4 to 28.6 times the work");
        assert!(said.starts_with("unstable: of 5 seeds") && said.ends_with("as it is at 4"), "{said}");
        assert_eq!(unstable(&program(&[(1, 1.0), (2, 2.0)])), None);
    }

    #[test]
    fn a_verdict_tells_of_the_threads_that_it_is_asked_of() {
        let simulated = program(&[(1, 1.0), (2, 0.4), (4, 0.4), (8, 0.4)]);
        let verdict = |from| {
            let frame = Frame { from, ..frame(f64::INFINITY) };
            frame.rows(&simulated, &simulated, &[]).0[0].verdict
        };
        assert_eq!((verdict(1).kind, verdict(1).at.likely), (Kind::Collapses, 2));
        assert!(verdict(4).collapses < 0.5 && verdict(4).at.low >= 4, "{:?}", verdict(4));
    }

    #[test]
    fn what_was_measured_on_more_threads_than_are_simulated_is_left_out() {
        let point = |threads| MeasuredPoint::of(None, curve::Point::exact(threads, 1.0));
        let mut measured = vec![point(1), point(4_096), point(5_000)];
        let note = not_simulated(&mut measured).expect("one is left out");
        assert!(note.contains("5000 threads") && measured.len() == 2, "{note}");
        assert_eq!(not_simulated(&mut measured), None);
    }

    fn question(machine: &str) -> Question {
        Question {
            profiles: Vec::new(),
            measured: Vec::new(),
            in_operations: true,
            stretch: None,
            machine: carried::machine(TYPICAL),
            profiled_on: carried::machine(machine),
            cores: vec![64],
            threads: Vec::new(),
            from: 1,
            candidates: None,
            site: None,
            seed: 1,
            what_if: None,
            advice: false,
        }
    }

    #[test]
    fn recording_is_taken_back_by_operations_that_were_counted_without_it() {
        let header = profile::TableHeader {
            threads: 1,
            concurrency: 1.0,
            elapsed_ns: 2e9,
            operations: Some(1_000),
            ..profile::TableHeader::default()
        };
        let table =
            |header| LockTable { header, rows: Vec::new(), striped: Vec::new(), kernel: None, program: None };
        let measured = [1, 2].map(|threads| MeasuredPoint::of(None, curve::Point::exact(threads, 600.0)));
        let asked = Question { measured: measured.to_vec(), ..question(TYPICAL) };
        let tables = [table(header.clone())];
        assert_eq!(stretch(&asked, &tables), Some(1.2));
        assert_eq!(stretch(&Question { in_operations: false, ..asked.clone() }, &tables), None);
        assert_eq!(stretch(&Question { measured: measured[1..].to_vec(), ..asked.clone() }, &tables), None);
        assert_eq!(stretch(&asked, &[table(profile::TableHeader { operations: None, ..header })]), None);
    }

    /// A mutex promises most; readers cannot share it.
    #[test]
    fn no_mutex_is_advised_for_a_reader_writer_lock() {
        let verdict = Verdict::of(&[1, 2], &[vec![1.0, 0.5]], |drawn| drawn);
        let row = |lock: Option<&str>, value: f64| Row {
            lock: lock.map(str::to_owned),
            code: String::new(),
            points: vec![Point {
                threads: 2,
                value,
                low: value,
                high: value,
                measured: false,
                unstable: false,
            }],
            verdict,
        };
        let rows = [
            row(None, 1.0),
            row(Some("back-off"), 4.0),
            row(Some("mcs"), 3.0),
            row(Some("rw"), 2.0),
            row(Some("ticket"), 1.5),
        ];
        let names = ["back-off", "mcs", "rw", "ticket"].map(str::to_owned);
        let candidates = crate::alternatives(&names).unwrap();
        let locks = |kind| {
            let all = changes(&rows, &candidates, LockKind::Object(kind), None);
            all.into_iter().filter_map(|change| Some(change.lock?.name)).collect::<Vec<_>>()
        };
        assert_eq!(locks(ObjectKind::Rwlock), ["rw"]);
        assert_eq!(locks(ObjectKind::Mutex), ["back-off", "mcs"]);
        let usual = |kind| question(TYPICAL).alternatives(LockKind::Object(kind)).unwrap();
        let is_shared = |one: &Alternative| advice::can_be_tried(one, LockKind::Object(ObjectKind::Rwlock));
        assert!(usual(ObjectKind::Rwlock).iter().all(is_shared));
        assert_eq!(usual(ObjectKind::Mutex).len(), Family::ALL.len());
    }

    /// A profile tells the locks that one call made apart by numbers, and `contend run` takes them all together.
    #[test]
    fn one_of_several_locks_of_a_site_is_tried_by_the_name_of_all() {
        let mut table = crate::void::tests::table_beside_left_out(0.0);
        table.header.untouched = profile::read::Untouched::default();
        let mut costly = profile::LockRow { name: "cold#2".into(), ..table.rows[0].clone() };
        costly.exclusive.wait = profile::Times { count: 10, total_ns: 1e6, ..profile::Times::default() };
        table.rows.push(costly);
        let file = std::path::Path::new("p.contend");
        let subject = Subject::new(&[table], None, Range::exact(50.0), Besides::default(), file);
        let subject = subject.unwrap().unwrap();
        assert_eq!((&*subject.row.name, &*subject.name), ("cold#2", "cold, 2 locks"));
        let case = case(&subject, &carried::machine(TYPICAL), &Plan::of(&[2], 1));
        assert_eq!(case.site, "cold");
        assert!(case.how["mcs"].contains("contend run --only cold=mcs -- CMD"), "{}", case.how["mcs"]);
        assert!(launch::parse_site("cold=mcs").is_ok() && launch::parse_site("cold#2=mcs").is_err());
    }

    /// The table has a question mark in its place.
    #[test]
    fn a_number_of_threads_on_which_the_seeds_disagree_is_not_advised() {
        let point = |(threads, value): (u32, f64)| Point {
            threads,
            value,
            low: value,
            high: value,
            measured: false,
            unstable: threads == 4,
        };
        let values = [1.0, 1.5, 3.0, 0.5];
        let points: Vec<Point> = [1, 2, 4, 8].into_iter().zip(values).map(point).collect();
        let verdict = Verdict::of(&[1, 2, 4, 8], &[values.to_vec()], |drawn| drawn);
        let row = Row { lock: None, code: String::new(), points, verdict };
        let all = changes(&[row], &[], LockKind::Object(ObjectKind::Mutex), None);
        assert_eq!(all.iter().find_map(|change| change.threads), Some(2));
    }

    #[test]
    fn a_machine_of_which_nothing_is_known_has_the_cores_that_profiles_tell() {
        let header = profile::TableHeader { cores: 2, ..profile::TableHeader::default() };
        let table = LockTable { header, rows: Vec::new(), striped: Vec::new(), kernel: None, program: None };
        let cores = |machine, tables: &[LockTable]| profiled_on(&question(machine), tables).topology.cores();
        assert_eq!(cores(TYPICAL, std::slice::from_ref(&table)), 2);
        assert_eq!(cores(TYPICAL, &[]), 64);
        assert_eq!(cores("altra-q80", &[table]), 80);
    }

    #[test]
    fn profiles_of_more_threads_than_ran_at_a_time_are_told() {
        let table = |threads: u64, concurrency: f64| {
            let header = profile::TableHeader { threads, concurrency, ..profile::TableHeader::default() };
            LockTable { header, rows: Vec::new(), striped: Vec::new(), kernel: None, program: None }
        };
        let measured = [1, 4, 13].map(|threads| MeasuredPoint::of(None, curve::Point::exact(threads, 1.0)));
        // One thread, and four beside the main thread, are as many as were asked for.
        let tables = [table(1, 1.0), table(5, 4.0), table(32, 13.2)];
        assert_eq!(at_a_time(&tables, &measured), [(13, 32)]);
        assert_eq!(at_a_time(&tables, &measured[..2]), []);
    }

    #[test]
    fn a_gain_is_as_uncertain_as_both_of_its_sides() {
        let point = |value: f64, low: f64, high: f64| Point {
            threads: 64,
            value,
            low,
            high,
            measured: false,
            unstable: false,
        };
        let wide = point(4.0, 2.0, 8.0);
        let Range { low, likely, high } = wide.over(point(2.0, 2.0, 2.0));
        assert!((low - 1.0).abs() < 1e-9 && (likely - 2.0).abs() < 1e-9 && (high - 4.0).abs() < 1e-9);
        let both = wide.over(point(2.0, 1.0, 4.0));
        assert!(both.low < low && both.high > high, "{both:?}");
    }

    #[test]
    fn a_list_of_cores_stays_and_a_long_range_is_shown_by_a_few() {
        let threads = |cores: Vec<u32>| target(&Question { cores, ..question(TYPICAL) }, &[]).1;
        let list: Vec<u32> = [1, 2].into_iter().chain((4..=48).step_by(4)).collect();
        assert_eq!(threads(list.clone()), list);
        assert_eq!(threads((1..=16).collect()), [1, 2, 4, 8, 12, 16]);
    }

    #[test]
    fn a_measured_lock_without_a_row_is_refused() {
        let measured = |lock| [MeasuredPoint::of(Some(lock), curve::Point::exact(2, 0.6))];
        let verdict = Verdict::of(&[1, 2], &[vec![1.0, 0.5]], |drawn| drawn);
        let rows = [Row { lock: Some("mcs".into()), code: "mcs".into(), points: Vec::new(), verdict }];
        assert!(ensure_forecast(&measured("mcs"), &rows).is_ok());
        let error = ensure_forecast(&measured("elided"), &rows).unwrap_err().to_string();
        assert!(error.contains("`elided`") && error.contains("(mcs)"), "{error}");
    }

    #[test]
    fn a_carried_machine_is_extended_to_as_many_cores_as_a_simulation_takes() {
        for name in carried::names() {
            let Some(Ok(machine)) = carried::find(name) else { continue };
            let larger = with_cores(&machine, MAX_CORES as u32);
            assert_eq!(
                simulator::Hardware::new(&larger).map(|hardware| hardware.cores()),
                Ok(MAX_CORES),
                "{name}"
            );
        }
    }

    #[test]
    fn a_machine_with_enough_cores_stays_and_one_that_is_extended_keeps_its_dies() {
        let machine = carried::machine("epyc-9654x2");
        assert_eq!(with_cores(&machine, machine.topology.cores()), machine);
        let larger = with_cores(&machine, 2 * machine.topology.cores());
        assert_eq!(larger.topology.cores_per_die, machine.topology.cores_per_die);
        assert_eq!(larger.topology.cores(), 2 * machine.topology.cores());
    }

    #[test]
    fn a_loss_that_the_recorded_locks_do_not_explain_is_not_carried_on_beside_what_was_left_out() {
        let tables = [crate::void::tests::table_beside_left_out(0.0)];
        assert!(
            left_out(&tables, Some(0.2)).is_some_and(|void| void.reason.starts_with("1 mutex was left to"))
        );
        assert_eq!(left_out(&tables, Some(0.8)), None);
        assert_eq!(left_out(&tables, None), None, "little was lost, or nothing measured");
    }
}
