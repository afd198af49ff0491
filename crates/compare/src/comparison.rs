//! One program under several locks: the runs, what they say of each lock, and the tables and drawings of it.

use super::rounds::{self, End, Failure, LockRuns, Metric, Trial, measure};
use super::statistics::{self, Better, NoRatio, Verdict, ratios, ratios_or_why};
use super::trial;
use anyhow::Context as _;
use launch::{GLIBC, Launch, Library, Swapped, Swaps, TIME_SLICE, support};
use locks::catalogue::Lock;
use profile::tally::SharedTally;
use pthread::object::ObjectKind;
use report::page::{Page, Unfolded};
use report::{Cell, Column, RangePlot, Table, text};
use session::ensure_usage;
use session::interrupt;
use session::names;
use session::noise::{Limits, Noise, Watch};
use session::progress::{Progress, Work};
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

/// The verdict on a lock that replaced none of the program's.
const NOTHING_SWAPPED: &str = "no difference seen: nothing swapped";

/// The library's start takes at least so long, in seconds, even where noise hides it.
const LEAST_START_S: f64 = 0.000_5;

/// Differences in wall time up to so many starts of the preload library are not a lock's.
const STARTS: f64 = 3.0;

/// Without a time limit of the user's: glibc, which the others are compared with, may take so long, and every other lock so many times
/// what glibc took to warm up, but at least the least limit.
const GLIBC_LIMIT: Duration = Duration::from_secs(600);
const LIMIT_FACTOR: u32 = 10;
const LEAST_LIMIT: Duration = Duration::from_secs(30);

/// A program, and the locks that it is compared under.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// What takes the place of the program's locks.
    pub library: Library,
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// The reference, then the others, as [`candidates`] has them.
    pub locks: Vec<String>,
    /// Runs of each after the warm-up.
    pub runs: u32,
    /// What is compared.
    pub metric: Metric,
    /// When a run is ended; without it ten times what glibc took to warm up.
    pub time_limit: Option<Duration>,
    /// How busy the machine may be without a warning.
    pub noise_limits: Limits,
    /// Holders of swapped locks ask the kernel not to take their core away.
    pub time_slice: bool,
}

/// What came of the runs, and what it was measured under.
#[derive(Debug)]
pub struct Compared<'a> {
    /// What was asked for.
    pub asked: Comparison<'a>,
    /// What is known of each lock.
    pub rows: Vec<LockRuns>,
    /// What became of the program's lock objects in the last run of each row; none where nothing was to be swapped.
    pub swapped: Vec<Option<Swapped>>,
    /// What the start of a program costs because the preload library is loaded, in seconds; 0 where that does not count.
    pub start_s: f64,
    /// What else the machine did.
    pub noise: Noise,
    /// The runs were ended by an interrupt.
    pub cut_short: bool,
}

/// The reference, then the locks asked for, each once.
///
/// # Errors
///
/// An unknown lock or kind of object, or a lock that cannot replace the kind.
pub fn candidates(asked: &[String]) -> anyhow::Result<Vec<String>> {
    let mut names = vec![GLIBC.to_owned()];
    if asked.is_empty() {
        let supported = |lock: &&Lock| {
            lock.group.is_for_use() && ObjectKind::ALL.into_iter().any(|kind| support(lock, kind).is_some())
        };
        names.extend(locks::catalogue::LOCKS.iter().filter(supported).map(|lock| lock.name.to_owned()));
    }
    for name in asked {
        swaps(name).map_err(|wrong| anyhow::anyhow!("--lock {name}: {wrong}"))?;
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    Ok(names)
}

/// What a candidate swaps: `NAME`, `KIND=NAME`, or several of them joined by `+`.
///
/// # Errors
///
/// As [`Swaps::parse`] says.
pub fn swaps(candidate: &str) -> Result<Swaps, String> {
    Swaps::parse(&candidate.replace('+', ","))
}

impl<'a> Comparison<'a> {
    /// Runs the program: every lock once to warm up, then in rounds. After an interrupt that was noted it ends with what is
    /// finished.
    ///
    /// # Errors
    ///
    /// The program cannot be started, or the library cannot be loaded into it.
    pub fn run(self, progress: &dyn Progress) -> anyhow::Result<Compared<'a>> {
        self.check_program()?;
        self.check_time_slice()?;
        let start_s = match self.metric {
            Metric::WallTime => self.start_cost()?,
            Metric::Captured { .. } => 0.0,
        };
        let watch = Watch::start();
        let mut swapped: Vec<Option<Swapped>> = self.locks.iter().map(|_| None).collect();
        let runs = self.runs as usize;
        let steps = progress.start(Work::Runs { later: Duration::ZERO }, self.locks.len() * (runs + 1));
        let mut limit = self.time_limit.unwrap_or(GLIBC_LIMIT);
        let rows = measure(&self.locks, runs, &self.metric, |number, round| {
            let lock = &self.locks[number];
            let stage = if round == 0 { "warm-up".into() } else { format!("round {round}") };
            steps.begin(&format!("{stage}, {lock}"));
            let (trial, counted) = self.run_once(lock, limit)?;
            if interrupt::came() {
                return Ok(None); // the program may have been killed before it made a lock
            }
            swapped[number] = counted;
            steps.done();
            if number == 0 && round == 0 && self.time_limit.is_none() {
                anyhow::ensure!(
                    trial.end != End::TimedOut,
                    "the program took longer than {} minutes with its own locks: say with --time-limit how long a run may take",
                    GLIBC_LIMIT.as_secs() / 60
                );
                limit = (trial.elapsed * LIMIT_FACTOR).max(LEAST_LIMIT);
            }
            Ok(Some(trial))
        })?;
        drop(steps);
        Ok(Compared {
            asked: self,
            rows,
            swapped,
            start_s,
            noise: watch.stop(),
            cut_short: interrupt::came(),
        })
    }

    /// Fails before any run where the program is one whose locks cannot be swapped.
    fn check_program(&self) -> anyhow::Result<()> {
        let (program, arguments) = self.command.split_first().context("no program was given after `--`")?;
        let swaps_any = |lock: &String| swaps(lock).is_ok_and(|swaps| !swaps.is_empty());
        if self.locks.iter().any(swaps_any) {
            Launch::new(self.library, program, arguments).check()?;
        }
        Ok(())
    }

    /// Fails before any run where holders are to ask for extended time slices and cannot: what a program writes is not shown, and
    /// the line with which the preload library says so would be lost in it.
    fn check_time_slice(&self) -> anyhow::Result<()> {
        let Some(swaps) = self.first_swaps().filter(|swaps| swaps.time_slice) else { return Ok(()) };
        let Some(command) = self.nothing(swaps)? else { return Ok(()) };
        let output = trial::run(command, LEAST_LIMIT)?.output;
        let complaint = format!("contend: {TIME_SLICE}: `1` ");
        let refusal = output.lines().find_map(|line| line.strip_prefix(&complaint));
        ensure_usage!(
            refusal.is_none(),
            "--time-slice {}: compare without it",
            refusal.unwrap_or_default().trim_end_matches("; left out")
        );
        Ok(())
    }

    /// What a candidate swaps in these runs.
    fn swaps_of(&self, candidate: &str) -> Result<Swaps, String> {
        Ok(Swaps { time_slice: self.time_slice, ..swaps(candidate)? })
    }

    /// What the first candidate swaps that swaps anything.
    fn first_swaps(&self) -> Option<Swaps> {
        let mut all = self.locks.iter().filter_map(|lock| self.swaps_of(lock).ok());
        all.find(|swaps| !swaps.is_empty())
    }

    /// A command that does nothing, with these swaps. None where the library cannot be loaded into this command, as where that has
    /// capabilities of its own.
    fn nothing(&self, swaps: Swaps) -> anyhow::Result<Option<Command>> {
        let exe = std::env::current_exe().context("cannot find the command itself")?;
        let arguments = [OsString::from("--version")];
        Ok(Launch::new(self.library, exe.as_os_str(), &arguments).swaps(swaps).command().ok())
    }

    /// Runs the program once under a lock, and tells what became of its lock objects; the reference runs untouched.
    fn run_once(&self, lock: &str, limit: Duration) -> anyhow::Result<(Trial, Option<Swapped>)> {
        let (program, arguments) = self.command.split_first().context("no program was given after `--`")?;
        let swaps = self.swaps_of(lock).map_err(anyhow::Error::msg)?;
        let launch = Launch::new(self.library, program, arguments).swaps(swaps.clone());
        if swaps.is_empty() {
            return Ok((trial::run(launch.command()?, limit)?, None));
        }
        let tally = SharedTally::new(false).context("cannot make memory to count in")?;
        let trial = trial::run(launch.counted(&tally).command()?, limit)?;
        Ok((trial, Some(Swapped::read(&tally))))
    }

    /// What loading the preload library adds to the start of a program, in seconds: the difference of the medians of a few
    /// runs of this command, which do nothing, with and without it. 0 if no lock is swapped.
    fn start_cost(&self) -> anyhow::Result<f64> {
        const RUNS: usize = 9;
        let Some(swapped) = self.first_swaps() else { return Ok(0.0) };
        let mut seconds = [Vec::new(), Vec::new()];
        for round in 0..RUNS {
            for way in rounds::order(2, round) {
                let swaps = if way == 0 { Swaps::default() } else { swapped.clone() };
                // Without such a command nothing is known but that there is a start.
                let Some(command) = self.nothing(swaps)? else { return Ok(LEAST_START_S) };
                seconds[way].push(trial::run(command, LEAST_LIMIT)?.elapsed.as_secs_f64());
            }
        }
        let [without, with] =
            seconds.map(|seconds| statistics::spread(&seconds).map_or(0.0, |all| all.median));
        Ok((with - without).max(LEAST_START_S))
    }

    /// The program and its arguments in a line.
    pub fn command_line(&self) -> String {
        let words = self.command.iter().map(|word| text::printable(&word.to_string_lossy()));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// What the metric is called, with its unit.
fn metric_name(metric: &Metric) -> &'static str {
    match metric {
        Metric::WallTime => "time s",
        Metric::Captured { .. } => "metric",
    }
}

impl Compared<'_> {
    /// Whether a lock that was to be swapped in replaced no lock of the program: then there is nothing to compare.
    fn touched_nothing(&self, number: usize) -> bool {
        self.swapped[number].as_ref().is_some_and(|swapped| !swapped.any())
    }

    /// Why a lock replaced nothing, if so.
    fn why_untouched(&self, number: usize) -> Option<String> {
        let swapped = self.swapped[number].as_ref().filter(|_| self.touched_nothing(number))?;
        let swaps = swaps(&self.rows[number].lock).ok()?;
        Some(swapped.warnings(&swaps, None, true).join("; "))
    }

    /// Why the values of a lock and of glibc have no ratio, if both have values.
    fn why_no_ratio(&self, number: usize) -> Option<String> {
        let [reference, row] = [&self.rows[0], &self.rows[number]];
        let why = ratios_or_why(&reference.values, &row.values, self.asked.metric.better()).err()?;
        let NoRatio::Value { of_reference, round, value } = why else { return None };
        let whose = if of_reference { "glibc's" } else { "its" };
        Some(format!(
            "{whose} value is {} in round {round}, of which there is no ratio: compare a number that is above 0 in every run",
            text::short(value)
        ))
    }

    /// Which locks are not compared with glibc, and why, in lines that several of them may share: those that replaced nothing, and those
    /// whose values have no ratio.
    pub fn not_compared(&self) -> Vec<String> {
        let mut by_reason: Vec<(String, Vec<&str>)> = Vec::new();
        for (number, row) in self.rows.iter().enumerate().filter(|(_, row)| row.lock != GLIBC) {
            let Some(reason) = self.why_untouched(number).or_else(|| self.why_no_ratio(number)) else {
                continue;
            };
            match by_reason.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, locks)) => locks.push(&row.lock),
                None => by_reason.push((reason, vec![&row.lock])),
            }
        }
        let line =
            |(reason, locks): (String, Vec<&str>)| format!("Not compared: {}: {reason}.", locks.join(", "));
        by_reason.into_iter().map(line).collect()
    }

    /// The verdict on a lock; none on glibc itself, or without a value of both.
    fn verdict(&self, row: &LockRuns) -> Option<Verdict> {
        let reference = self.rows.first().filter(|reference| reference.lock != row.lock)?;
        statistics::verdict(&reference.values, &row.values, self.asked.metric.better(), STARTS * self.start_s)
    }

    /// A row for each lock.
    pub fn table(&self) -> Table {
        let key = if matches!(self.asked.metric, Metric::WallTime) { "elapsed_s" } else { "metric" };
        let mut table = Table::new([
            Column::text("lock", "lock"),
            Column::spread(key, metric_name(&self.asked.metric)),
            Column::spread("times_glibc", "times as good as glibc").kept(),
            Column::text("verdict", "verdict").kept(),
            Column::number("cores_busy", "cores busy").detail(),
            Column::text("failure", "failure").kept().only_if_any(),
        ]);
        for (number, row) in self.rows.iter().enumerate() {
            let ratios = ratios(&self.rows[0].values, &row.values, self.asked.metric.better());
            let verdict = match self.verdict(row) {
                Some(_) if self.touched_nothing(number) => Some(NOTHING_SWAPPED),
                verdict => verdict.map(Verdict::name),
            };
            table.row([
                Cell::from(row.lock.as_str()),
                row.spread().into(),
                ratios.filter(|_| row.lock != GLIBC && !self.touched_nothing(number)).into(),
                verdict.into(),
                statistics::spread(&row.cores_busy).map(|busy| busy.median).into(),
                self.why_incomplete(row).into(),
            ]);
        }
        table
    }

    /// Why a row lacks values, in words.
    fn why_incomplete(&self, row: &LockRuns) -> Option<String> {
        match row.failure {
            Some(failure) => Some(describe(failure)),
            None if row.values.is_empty() && self.cut_short => Some("not run: cut short".into()),
            None if row.values.is_empty() => Some("not run, since glibc failed".into()),
            None => None,
        }
    }

    /// How to read the table.
    pub fn explanation(&self) -> String {
        let direction = match self.asked.metric.better() {
            Better::Lower => "lower is better",
            Better::Higher => "higher is better",
        };
        let mut text = format!(
            "{} each, interleaved after a warm-up: median (least to greatest); {direction}. Ratios are taken within \
             a round. Equal programs come out as better or worse in fewer than one of 100 comparisons.",
            text::counted(self.finished() as u64, "run")
        );
        let tried = self.tried();
        if tried > 1 {
            text += &format!(
                " That is for each lock: of {tried} locks one comes out so by chance in up to {tried} of 100 calls."
            );
        }
        if self.finished() < statistics::LEAST_RUNS {
            let least = statistics::LEAST_RUNS;
            let is_asked = (self.asked.runs as usize) < least;
            let remedy = if is_asked { format!(": --runs {least} or more") } else { String::new() };
            text += &format!(" Fewer than {least} runs cannot tell a difference from chance{remedy}.");
        }
        if self.start_s > 0.0 {
            text += &format!(
                " Loading contend's library takes about {} ms at the start of a program: differences under {} ms are \
                 not judged.",
                text::short(1e3 * self.start_s),
                text::short(1e3 * STARTS * self.start_s)
            );
        }
        text
    }

    /// What to do: the lock that came out best, if one is better than glibc, with how to keep it.
    pub fn instruction(&self) -> Option<String> {
        let better = self.rows.iter().enumerate().filter(|&(number, row)| {
            let runs_well = row.failure.is_none() && !self.touched_nothing(number);
            runs_well && self.verdict(row) == Some(Verdict::Better)
        });
        let gains = better.filter_map(|(number, row)| {
            Some((number, ratios(&self.rows[0].values, &row.values, self.asked.metric.better())?))
        });
        let (number, gain) = gains.max_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
        let row = &self.rows[number];
        let has_readers =
            self.swapped[number].as_ref().is_some_and(|all| all.of(ObjectKind::Rwlock).swapped > 0);
        let good = locks::catalogue::find(&row.lock)
            .map_or(String::new(), |lock| format!(" For good: {}.", names::types_of(lock, has_readers)));
        // What `compare` writes as one lock, `run` takes as a list.
        let list = row.lock.replace('+', ",");
        let program: Vec<_> = self.asked.command.iter().map(|word| word.to_string_lossy()).collect();
        let words = ["contend", "run"].into_iter().chain(self.time_slice_flag());
        let words = words.chain(["--lock", &list, "--"]).chain(program.iter().map(|word| &**word));
        Some(format!(
            "What to do: `{}`, which gives {} times ({} to {}) what glibc does. Use it: {}.{good}{}",
            text::printable(&row.lock),
            text::short(gain.median),
            text::short(gain.low),
            text::short(gain.high),
            text::command_line(words),
            self.confirmation(&row.lock),
        ))
    }

    /// The flag that makes another command line do as these runs did.
    fn time_slice_flag(&self) -> Option<&'static str> {
        self.asked.time_slice.then_some("--time-slice")
    }

    /// How to confirm the best of several locks, which may be the best by chance.
    fn confirmation(&self, lock: &str) -> String {
        let tried = self.tried();
        let flag = self.time_slice_flag().map_or_else(String::new, |flag| format!("{flag} "));
        let asked = format!("contend compare {flag}--lock {} --runs 10 -- …", text::printable(lock));
        if tried > 1 { format!(" Chosen among {tried}: confirm it by `{asked}`.") } else { String::new() }
    }

    /// Runs that were finished of the lock that has the most: fewer than were asked for after an interrupt, or where glibc failed.
    fn finished(&self) -> usize {
        self.rows.iter().map(|row| row.values.iter().flatten().count()).max().unwrap_or(0)
    }

    /// Locks that were compared with glibc's.
    fn tried(&self) -> usize {
        self.rows.len().saturating_sub(1)
    }

    /// Medians and ranges of the locks.
    pub fn plot(&self) -> RangePlot {
        let axis = self.asked.metric.regex().unwrap_or("wall time s");
        let mut plot = RangePlot::new(self.asked.command_line(), axis, self.asked.metric.better());
        for row in &self.rows {
            plot.row(row.lock.as_str(), row.spread());
        }
        plot
    }

    /// Why the runs should not be trusted, with what to do; nothing if they may be.
    pub fn warnings(&self) -> Vec<String> {
        self.noise.warnings_over(&self.asked.noise_limits)
    }

    /// Table, plot and remarks for a browser. Each lock unfolds to its runs.
    pub fn page(&self) -> Page {
        let mut page = Page::new(&format!("{} under several locks", self.asked.command_line()));
        page = page.paragraphs(&self.instruction().unwrap_or_default());
        for warning in self.warnings() {
            page = page.warning(&warning);
        }
        let runs = |row: &LockRuns| Unfolded {
            lists: vec![
                (
                    "Runs, in order".into(),
                    row.values.iter().map(|value| value.map_or("no value".into(), text::short)).collect(),
                ),
                ("What the program wrote last".into(), row.output_tail.lines().map(str::to_owned).collect()),
            ],
            ..Unfolded::default()
        };
        page = page.ranges(&self.plot());
        page = page.rows("Locks", &self.table(), &[("verdict", "verdict")], self.rows.iter().map(runs));
        page = page.paragraphs(&self.explanation());
        page.paragraphs(&self.not_compared().join("\n"))
    }

    /// Of each lock, how many objects of each kind it replaced.
    fn swapped_json(&self) -> serde_json::Value {
        let of_row = |(row, swapped): (&LockRuns, &Option<Swapped>)| {
            let swapped = swapped.as_ref()?;
            let kinds = ObjectKind::ALL.map(|kind| (kind.name(), serde_json::json!(swapped.of(kind))));
            Some((
                row.lock.clone(),
                serde_json::Value::Object(kinds.map(|(k, v)| (k.to_owned(), v)).into_iter().collect()),
            ))
        };
        serde_json::Value::Object(self.rows.iter().zip(&self.swapped).filter_map(of_row).collect())
    }

    /// Rows, every run's value and the noise meanwhile.
    pub fn json(&self) -> serde_json::Value {
        let values: serde_json::Map<_, _> =
            self.rows.iter().map(|row| (row.lock.clone(), serde_json::json!(row.values))).collect();
        let failed = self.rows.iter().filter(|row| row.failure.is_some());
        let output_tails: serde_json::Map<_, _> =
            failed.map(|row| (row.lock.clone(), row.output_tail.as_str().into())).collect();
        serde_json::json!({
            "command": self.asked.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>(),
            "runs": self.asked.runs,
            "cut_short": self.cut_short,
            "time_slice": self.asked.time_slice,
            "metric": { "regex": self.asked.metric.regex(), "better": self.asked.metric.better() },
            "start_s": self.start_s,
            "rows": self.table().json(),
            "values": values,
            "output_tails": output_tails,
            "not_compared": self.not_compared(),
            "swapped": self.swapped_json(),
            "noise": self.noise,
            "noise_limits": self.asked.noise_limits,
            "warnings": self.warnings(),
        })
    }
}

/// A failure in words.
pub fn describe((failure, round): (Failure, usize)) -> String {
    let when = if round == 0 { "in the warm-up".to_owned() } else { format!("in round {round}") };
    match failure {
        Failure::Exited(code) => format!("exit code {code} {when}"),
        Failure::Killed(signal) => format!("killed by signal {signal} {when}"),
        Failure::TimedOut => format!("timed out {when}"),
        Failure::NoMetric => format!("printed no metric {when}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex_lite::Regex;
    use report::{Screen, every_screen};

    fn compared(metric: Metric, rows: Vec<LockRuns>, command: &[OsString]) -> Compared<'_> {
        let locks = rows.iter().map(|row| row.lock.clone()).collect();
        let swapped = rows.iter().map(|_| None).collect();
        let asked = Comparison {
            library: Library(&[]),
            command,
            locks,
            runs: 5,
            metric,
            time_limit: None,
            noise_limits: Limits::default(),
            time_slice: false,
        };
        Compared { asked, rows, swapped, start_s: 0.0, noise: Noise::default(), cut_short: false }
    }

    fn rows() -> Vec<LockRuns> {
        let row = |lock: &str, values: &[f64], failure| LockRuns {
            lock: lock.into(),
            values: values.iter().map(|&value| Some(value)).collect(),
            cores_busy: values.iter().map(|_| 1.9).collect(),
            failure,
            output_tail: String::new(),
        };
        vec![
            row("glibc", &[4.0, 5.0, 6.0, 5.0, 5.0], None),
            row("mcs", &[0.5, 0.5, 1.0, 0.5, 0.5], None),
            row("ticket", &[], Some((Failure::TimedOut, 0))),
        ]
    }

    #[test]
    fn rows_say_how_many_times_as_good_or_why_not() {
        let json = compared(Metric::WallTime, rows(), &[]).table().json();
        assert_eq!(json[1]["times_glibc"], serde_json::json!({"median": 10.0, "low": 6.0, "high": 10.0}));
        assert_eq!(json[1]["verdict"], "better");
        assert_eq!(json[0]["verdict"], serde_json::Value::Null, "nothing is compared with itself");
        assert_eq!(json[2]["failure"], "timed out in the warm-up");
        assert_eq!(json[2]["elapsed_s"], serde_json::Value::Null);
        let regex = Regex::new("(x)").unwrap();
        let captured =
            compared(Metric::Captured { regex, better: Better::Higher, per_second: false }, rows(), &[])
                .table()
                .json();
        assert_eq!(captured[1]["verdict"], "worse");
    }

    #[test]
    fn as_many_runs_are_told_as_were_finished() {
        let told = |finished: usize, asked: u32| {
            let mut rows = rows();
            rows.iter_mut().for_each(|row| row.values.truncate(finished));
            let mut compared = compared(Metric::WallTime, rows, &[]);
            compared.asked.runs = asked;
            compared.explanation()
        };
        let cut_short = told(2, 5);
        assert!(cut_short.starts_with("2 runs each"), "{cut_short}");
        assert!(cut_short.contains("Fewer than 5 runs cannot tell a difference from chance."), "{cut_short}");
        assert!(told(2, 2).contains("from chance: --runs 5 or more."), "{}", told(2, 2));
        let all = told(5, 5);
        assert!(all.starts_with("5 runs each") && !all.contains("Fewer than"), "{all}");
    }

    #[test]
    fn the_end_is_an_instruction_where_a_lock_is_better() {
        let command = ["./server".into()];
        let instruction = compared(Metric::WallTime, rows(), &command).instruction().unwrap();
        for words in
            ["`mcs`, which gives 10.0 times (6.00 to 10.0)", "run --lock mcs -- ./server", "Mutex<T, Mcs>"]
        {
            assert!(instruction.contains(words), "{instruction}");
        }
        let all = rows();
        let tried = all.len() - 1;
        let confirm =
            format!("Chosen among {tried}: confirm it by `contend compare --lock mcs --runs 10 -- …`.");
        assert_eq!(instruction.contains(&confirm), tried > 1, "{instruction}");
        let [glibc, mcs, ..] = &all[..] else { panic!("two rows") };
        let one = compared(Metric::WallTime, vec![glibc.clone(), mcs.clone()], &command);
        assert!(
            !one.instruction().unwrap().contains("confirm") && !one.explanation().contains("for each lock")
        );
        let regex = Regex::new("(x)").unwrap();
        let worse =
            compared(Metric::Captured { regex, better: Better::Higher, per_second: false }, rows(), &command);
        assert_eq!(worse.instruction(), None);
        let mut crashed = rows();
        crashed[1].failure = Some((Failure::Killed(11), 5));
        assert_eq!(
            compared(Metric::WallTime, crashed, &command).instruction(),
            None,
            "fast until it crashed"
        );
    }

    #[test]
    fn what_was_compared_with_extended_time_slices_is_used_and_confirmed_with_them() {
        let command = ["./server".into()];
        let mut compared = compared(Metric::WallTime, rows(), &command);
        compared.asked.time_slice = true;
        let instruction = compared.instruction().unwrap();
        for words in
            ["contend run --time-slice --lock mcs -- ./server", "contend compare --time-slice --lock mcs "]
        {
            assert!(instruction.contains(words), "{instruction}");
        }
        let swapped = compared.asked.swaps_of("mutex=mcs").unwrap();
        assert!(swapped.time_slice && !swapped.is_empty());
        assert!(compared.asked.swaps_of(GLIBC).unwrap().is_empty(), "glibc's own locks ask for nothing");
    }

    #[test]
    fn a_value_that_has_no_ratio_is_said_with_its_round() {
        let row = |lock: &str, values: [f64; 2]| LockRuns {
            values: values.map(Some).to_vec(),
            ..LockRuns::new(lock)
        };
        let regex = Regex::new("(x)").unwrap();
        let higher = Metric::Captured { regex, better: Better::Higher, per_second: false };
        let said = |metric: Metric, rows: &[LockRuns]| compared(metric, rows.to_vec(), &[]).not_compared();
        let stopped = [row("glibc", [3.0, 0.0]), row("mcs", [1.0, 1.0]), row("ticket", [1.0, 2.0])];
        assert_eq!(
            said(higher.clone(), &stopped),
            [
                "Not compared: mcs, ticket: glibc's value is 0 in round 2, of which there is no ratio: compare a number that is above 0 \
                 in every run."
            ]
        );
        let json = compared(higher.clone(), stopped.to_vec(), &[]).json();
        assert_eq!(json["not_compared"].as_array().map(Vec::len), Some(1), "{json}");
        assert_eq!(json["rows"][1]["failure"], serde_json::Value::Null, "the program did not fail");
        let no_time = said(Metric::WallTime, &[row("glibc", [1.0, 1.0]), row("mcs", [0.0, 1.0])]);
        assert!(no_time[0].starts_with("Not compared: mcs: its value is 0 in round 1"), "{no_time:?}");
        let does_nothing = said(higher, &[row("glibc", [1.0, 1.0]), row("mcs", [0.0, 0.0])]);
        assert!(does_nothing.is_empty(), "0 times as good is a ratio: {does_nothing:?}");
        assert!(said(Metric::WallTime, &rows()).is_empty(), "a lock that failed has a failure");
    }

    #[test]
    fn a_program_whose_locks_cannot_be_swapped_is_refused_before_any_run() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("static");
        let mut elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        elf.truncate(4096);
        elf[56..58].copy_from_slice(&[0, 0]); // no segments: no dynamic linker
        std::fs::write(&program, elf).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let command = [program.into_os_string()];
        let regex = Regex::new("(x)").unwrap();
        let metric = Metric::Captured { regex, better: Better::Higher, per_second: false };
        let asked = Comparison {
            library: Library(&[]),
            command: &command,
            locks: candidates(&["mcs".into()]).unwrap(),
            runs: 1,
            metric,
            time_limit: None,
            noise_limits: Limits::default(),
            time_slice: false,
        };
        let error = asked.run(&session::progress::Unwatched).unwrap_err();
        assert!(format!("{error:#}").contains("is linked statically"), "{error:#}");
    }

    #[test]
    fn noise_up_to_the_limit_is_no_warning() {
        let command = ["./server".into()];
        let mut measured = compared(Metric::WallTime, rows(), &command);
        measured.noise.others_share = Some(0.3);
        assert_eq!(measured.json()["warnings"].as_array().map(Vec::len), Some(1));
        assert!(measured.page().html().contains("other programs used 30 % of the cores"));
        measured.asked.noise_limits = Limits::all(0.3);
        assert_eq!(measured.json()["warnings"], serde_json::json!([]));
        assert!(!measured.page().html().contains("other programs used"));
    }

    #[test]
    fn glibc_comes_first_and_nothing_twice() {
        let names =
            |asked: &[&str]| candidates(&asked.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["ticket", "glibc", "ticket"]).unwrap(), ["glibc", "ticket"]);
        let all = names(&[]).unwrap();
        assert!(all.contains(&"mcs".to_owned()) && all.contains(&"rw".to_owned()));
        assert!(!all.iter().any(|name| name.starts_with("glibc-")), "what glibc does is there already");
        assert_eq!(names(&["glibc-mutex"]).unwrap()[1], "glibc-mutex", "unless it is asked for");
        assert_eq!(names(&["mutex=ticket+rwlock=rw"]).unwrap()[1], "mutex=ticket+rwlock=rw");
        let error = names(&["<b>"]).unwrap_err().to_string();
        assert!(error.contains("`<b>`") && error.contains("contend locks"));
    }

    #[test]
    fn a_comparison_on_every_screen() {
        let command = ["./server", "--threads", "8"].map(OsString::from);
        let ops = || {
            let regex = Regex::new("ops: ([0-9]+)").expect("a regular expression");
            Metric::Captured { regex, better: Better::Higher, per_second: false }
        };
        let failed = compared(ops(), rows(), &command);
        let fine = compared(ops(), rows().into_iter().take(2).collect(), &command);
        let text = |screen: Screen| {
            let explanation = screen.fit(&failed.explanation());
            format!("{}\n{}\n{explanation}\n", fine.table().terminal(screen), failed.table().terminal(screen))
        };
        insta::assert_snapshot!(every_screen(&["glibc", "mcs", "ticket"], text));
    }
}
