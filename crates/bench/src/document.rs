//! Every benchmark, in one document.

use super::findings::{Findings, Goal};
use super::timing::Bench;
use session::host::{processor_name, today};
use session::interrupt;
use session::progress::Progress;
use session::progress::shown_duration;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// A part of the document.
#[derive(Debug, Clone, Copy)]
struct Chapter {
    /// What it is called.
    title: &'static str,
    /// The benchmark that fills it, with its arguments.
    words: &'static str,
    /// The locks that it is run with, where those are not the benchmark's own.
    locks: Option<&'static str>,
    /// About how long it takes with three runs on two cores. Only the estimate of what is left comes from that, and it is
    /// corrected by what the chapters before it took.
    seconds: f64,
}

const fn chapter(title: &'static str, words: &'static str, seconds: f64) -> Chapter {
    Chapter { title, words, locks: None, seconds }
}

impl Chapter {
    const fn of(self, locks: &'static str) -> Self {
        Self { locks: Some(locks), ..self }
    }

    /// What follows `contend bench`.
    fn arguments(&self, runs: u32) -> String {
        let locks = self.locks.map(|locks| format!(" --lock {locks}")).unwrap_or_default();
        format!("{}{locks} --runs {runs}", self.words)
    }
}

/// Locks that sleep, ours and those that people use, for goals with more threads than cores.
const BLOCKING: &str = "rw,futex,posix-mutex,posix-adaptive,posix-rwlock,std-mutex,std-rwlock,parking-lot-mutex,\
                        parking-lot-rwlock,tbb-mutex,tbb-rw,absl-mutex,nsync-mu";

/// Locks that readers share.
const SHARED: &str = "rw,rw-naive,rw-queued,posix-rwlock,std-rwlock,parking-lot-rwlock,spin-rwlock,ck-rwlock,ck-pflock,\
                      tbb-spin-rw,tbb-queuing-rw,tbb-rw,absl-mutex,nsync-mu";

/// A lock of each kind, for what is about loads and not about locks.
const FEW: &str = "ttas,ticket,mcs,rw,futex,posix-mutex,std-mutex,parking-lot-mutex";

/// Every lock where a goal is about every lock; the other loads with those that they are about. A spinning lock of another
/// library with more threads than cores may take minutes: 3 s are enough to say so.
const FULL: [Chapter; 12] = [
    chapter("Cost", "cost", 15.0),
    chapter("Ping-pong", "ping-pong", 15.0),
    chapter("Throughput by threads", "throughput --threads 1,2,8,64 --time-limit 3s", 250.0),
    chapter(
        "Locks that sleep, with more threads than cores",
        "throughput --threads 8,64 --section empty,1us --think 0,10us --time-limit 3s",
        100.0,
    )
    .of(BLOCKING),
    chapter(
        "Reads and writes, with more threads than cores",
        "throughput --threads 8,64 --reads 50,90,99,100 --time-limit 3s",
        100.0,
    )
    .of(BLOCKING),
    chapter(
        "Reads and writes, a thread on each core",
        "throughput --threads 2 --reads 50,99 --duration 20ms --time-limit 3s",
        6.0,
    )
    .of(SHARED),
    chapter(
        "Throughput by think time",
        "throughput --threads 2 --section 1us --think 0,1us,10us,100us --duration 20ms --time-limit 3s",
        6.0,
    )
    .of(FEW),
    chapter("Cache lines", "cacheline --acquisitions 200000", 30.0),
    chapter("fops", "fops", 5.0),
    chapter("mempop", "mempop", 5.0),
    chapter("pfind", "pfind", 5.0),
    chapter("An unmodified program's pair", "pair", 20.0),
];

/// A lock of ours that spins, one that queues, one that sleeps and the C library's: what is quick.
const FEWEST: &str = "ticket,mcs,rw,posix-mutex";

/// Every kind of table with the fewest locks and short runs.
const QUICK: [Chapter; 8] = [
    chapter("Cost", "cost", 2.0).of(FEWEST),
    chapter("Ping-pong", "ping-pong", 2.0).of(FEWEST),
    chapter("Throughput by threads", "throughput --threads 1,2,8 --duration 5ms --time-limit 1s", 2.0)
        .of(FEWEST),
    chapter("Cache lines", "cacheline --threads 1,2 --acquisitions 20000 --time-limit 1s", 1.0).of(FEWEST),
    chapter("fops", "fops --threads 1,2 --duration 20ms", 2.0),
    chapter("mempop", "mempop --threads 1,2 --duration 20ms", 2.0),
    chapter("pfind", "pfind --threads 1,2 --duration 20ms", 2.0),
    chapter("An unmodified program's pair", "pair --use mutex", 2.0).of("futex"),
];

/// What the quick document does without, in words.
fn left_out() -> String {
    let titles = |chapters: &[Chapter]| chapters.iter().map(|chapter| chapter.title).collect::<Vec<_>>();
    let quick = titles(&QUICK);
    let chapters: Vec<_> = titles(&FULL).into_iter().filter(|title| !quick.contains(title)).collect();
    format!(
        "all locks but {}, more than 8 threads, and the chapters \"{}\"",
        FEWEST.replace(',', ", "),
        chapters.join("\", \"")
    )
}

/// What the command was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// Where the document goes.
    pub path: &'a Path,
    /// Runs of each after the warm-up.
    pub runs: u32,
    /// A few locks, short runs.
    pub quick: bool,
}

impl Plan<'_> {
    fn chapters(&self) -> &'static [Chapter] {
        if self.quick { &QUICK } else { &FULL }
    }

    fn command(&self) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        format!("contend bench --output {} --runs {}{quick}", self.path.display(), self.runs)
    }
}

/// A chapter and what came of it.
struct MeasuredChapter {
    title: &'static str,
    command: String,
    findings: anyhow::Result<Findings>,
}

impl MeasuredChapter {
    fn markdown(&self) -> String {
        let shown = match &self.findings {
            Ok(findings) => findings.markdown(),
            Err(error) => format!("Not measured: {error:#}.\n"),
        };
        format!("## {}\n\n`{}`\n\n{shown}\n", self.title, self.command)
    }

    fn has_failed(&self) -> bool {
        self.findings.as_ref().map_or(true, Findings::has_failed)
    }

    fn json(&self) -> serde_json::Value {
        let mut chapter = match &self.findings {
            Ok(findings) => findings.json(),
            Err(error) => serde_json::json!({ "failure": format!("{error:#}") }),
        };
        chapter["title"] = self.title.into();
        chapter["command"] = self.command.as_str().into();
        chapter
    }
}

/// How long the chapters that are left will take.
struct Estimate {
    started: Instant,
    /// Seconds that the chapters so far were said to take, and those that are left.
    passed: f64,
    left: f64,
    /// Real seconds of a said one, as long as nothing is measured.
    factor: f64,
}

impl Estimate {
    fn new(chapters: &[Chapter], runs: u32) -> Self {
        let left = chapters.iter().map(|chapter| chapter.seconds).sum();
        // A run more is the warm-up.
        Self { started: Instant::now(), passed: 0.0, left, factor: f64::from(runs + 1) / 4.0 }
    }

    fn left(&self, elapsed: Duration) -> Duration {
        let factor = if self.passed > 0.0 { elapsed.as_secs_f64() / self.passed } else { self.factor };
        Duration::from_secs_f64(factor * self.left)
    }

    /// The time that is left with this chapter and without it; counts it as passed.
    fn begin(&mut self, chapter: &Chapter) -> (Duration, Duration) {
        let elapsed = self.started.elapsed();
        let with = self.left(elapsed);
        self.left -= chapter.seconds;
        let without = self.left(elapsed);
        self.passed += chapter.seconds;
        (with, without)
    }
}

/// A document, and what stands in it.
#[derive(Debug)]
pub struct Document {
    /// The text, in Markdown.
    pub text: String,
    /// The same for a script.
    pub json: serde_json::Value,
    /// How long it took to measure.
    pub took: Duration,
    /// How many benchmarks were begun, and how many there are: fewer after an interrupt.
    pub begun: (usize, usize),
    /// What could not be measured, or was found wrong: the titles of the benchmarks.
    pub failed: Vec<&'static str>,
}

/// What a document is made with.
pub trait Benchmarks {
    /// Runs the benchmark that these words name, as they follow `contend bench`.
    ///
    /// # Errors
    ///
    /// It could not be measured.
    fn run(&self, bench: &Bench, words: &str) -> anyhow::Result<Findings>;

    /// The document is the quick one, which does without this.
    fn left_out(&self, what: &str);

    /// A chapter begins: its number, how many there are, its title, and the time that is left.
    fn chapter(&self, number: usize, of: usize, title: &str, left: Duration);
}

/// Runs every benchmark.
pub fn measure(plan: &Plan<'_>, progress: &'static dyn Progress, benchmarks: &dyn Benchmarks) -> Document {
    let chapters = plan.chapters();
    if plan.quick {
        benchmarks.left_out(&left_out());
    }
    let mut bench = Bench::new(progress);
    let mut estimate = Estimate::new(chapters, plan.runs);
    let mut measured = Vec::new();
    for (number, chapter) in chapters.iter().enumerate().take_while(|_| !interrupt::came()) {
        let (left, later) = estimate.begin(chapter);
        benchmarks.chapter(number + 1, chapters.len(), chapter.title, left);
        bench.later = later;
        let words = chapter.arguments(plan.runs);
        measured.push(MeasuredChapter {
            title: chapter.title,
            command: format!("contend bench {words}"),
            findings: benchmarks.run(&bench, &words),
        });
    }
    let took = estimate.started.elapsed();
    Document {
        text: document(&bench, plan, &measured, took),
        json: json(plan, &measured),
        took,
        begun: (measured.len(), chapters.len()),
        failed: measured.iter().filter(|chapter| chapter.has_failed()).map(|chapter| chapter.title).collect(),
    }
}

/// What follows `contend bench` in each chapter of every document, for a test of the command line, which parses it.
pub fn words() -> impl Iterator<Item = String> {
    FULL.iter().chain(&QUICK).map(|chapter| chapter.arguments(3))
}

fn goals(measured: &[MeasuredChapter]) -> Vec<Goal> {
    measured
        .iter()
        .filter_map(|chapter| chapter.findings.as_ref().ok())
        .flat_map(|f| f.goals.clone())
        .collect()
}

fn document(bench: &Bench, plan: &Plan<'_>, measured: &[MeasuredChapter], took: Duration) -> String {
    let chapters: String = measured.iter().map(MeasuredChapter::markdown).collect();
    let document = format!(
        "# Benchmarks\n\n\
         Written by `{}` on {}, on {} with {} cores ({:.2} GHz cycle counter), in {}.\n\n\
         {}{}\
         Values are medians of {} interleaved rounds, with the least and the greatest in parentheses. Ratios and multiples \
         are taken within one round of one machine; absolute times hold for that machine alone. Every run counts under its \
         lock, and a lock whose counter does not add up has no figures but says so. Every run is a child of one process, \
         so that a lock that takes too long can be ended: its cell says `over` so many seconds.\n\n\
         ## Goals\n\n{}{chapters}",
        plan.command(),
        today(),
        processor_name(),
        bench.cores(),
        bench.ghz,
        shown_duration(took),
        if interrupt::came() {
            format!("**Cut short** in benchmark {} of {}. ", measured.len(), plan.chapters().len())
        } else {
            String::new()
        },
        if plan.quick {
            format!(
                "**Quick: short runs, good for seeing that it works, not for figures.** Left out: {}. ",
                left_out()
            )
        } else {
            String::new()
        },
        plan.runs,
        goals_markdown(&goals(measured)),
    );
    document.trim_end().to_owned() + "\n"
}

/// The goals, each claim with a table of its own.
fn goals_markdown(goals: &[Goal]) -> String {
    let missed = |goals: &[Goal]| goals.iter().filter(|goal| goal.verdict() == "missed").count();
    let mut shown = format!(
        "{} of {} are missed. `met within noise` means that a round met it, or missed it by less than 1 %, and the \
         median did not, where the goal allows for noise.\n\n",
        missed(goals),
        goals.len()
    );
    let mut claims: Vec<String> = Vec::new();
    for claim in goals.iter().map(Goal::claim) {
        if !claims.contains(&claim) {
            claims.push(claim);
        }
    }
    for claim in claims {
        let of_claim: Vec<Goal> = goals.iter().filter(|goal| goal.claim() == claim).cloned().collect();
        let _ = writeln!(
            shown,
            "### {claim}\n\n{} of {} missed.\n\n{}",
            missed(&of_claim),
            of_claim.len(),
            Findings::goals_of_claim(&of_claim).markdown()
        );
    }
    shown
}

fn json(plan: &Plan<'_>, measured: &[MeasuredChapter]) -> serde_json::Value {
    serde_json::json!({
        "command": plan.command(),
        "cut_short": interrupt::came(),
        "machine": processor_name(),
        "date": today(),
        "goals": Findings::goals_table(&goals(measured)).json(),
        "chapters": measured.iter().map(MeasuredChapter::json).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::report::Spread;
    use machine::Topology;
    use session::progress::Unwatched;

    fn goal(median: f64) -> Goal {
        Goal {
            goal: "g",
            subject: "a|b".into(),
            figure: Spread { low: median, median, high: median },
            bound: 1.0,
            at_least: false,
            noise_counts: false,
        }
    }

    #[test]
    fn lost_goals_are_counted_and_shown() {
        let bench =
            Bench { ghz: 2.5, topology: Topology::default(), later: Duration::ZERO, progress: &Unwatched };
        let plan = Plan { path: Path::new("docs/benchmarks.md"), runs: 5, quick: false };
        let failed = MeasuredChapter {
            title: "Cost",
            command: "contend bench cost".into(),
            findings: Err(anyhow::anyhow!("no cores")),
        };
        let text = document(&bench, &plan, &[failed], Duration::from_secs(61));
        assert!(text.contains("`contend bench --output docs/benchmarks.md --runs 5`"), "{text}");
        assert!(text.contains("in 1:01 min") && text.contains("Not measured: no cores."), "{text}");
        let text = goals_markdown(&[goal(0.9), goal(1.1)]);
        assert!(text.starts_with("1 of 2 are missed") && text.contains("| a\\|b |"), "{text}");
        assert!(text.contains("### g: at most 1") && text.contains("1 of 2 missed"), "{text}");
        assert!(text.contains("| missed |") && text.contains("| met |"), "{text}");
    }

    #[test]
    fn the_time_left_is_corrected_by_what_passed() {
        let chapters = [10.0, 30.0].map(|seconds| chapter("t", "", seconds));
        let mut estimate = Estimate::new(&chapters, 3);
        let (with, without) = estimate.begin(&chapters[0]);
        assert_eq!((with.as_secs(), without.as_secs()), (40, 30));
        assert_eq!(estimate.left(Duration::from_secs(20)).as_secs(), 60, "it took twice as long as said");
    }

    #[test]
    fn the_quick_document_has_every_benchmark_and_says_what_it_does_without() {
        let benchmarks = |chapters: &[Chapter]| {
            let mut words: Vec<_> =
                chapters.iter().filter_map(|chapter| chapter.words.split(' ').next()).collect();
            words.dedup();
            words
        };
        assert_eq!(benchmarks(&QUICK), benchmarks(&FULL));
        assert!(
            left_out().contains("all locks but ticket, mcs") && left_out().contains("\"Locks that sleep")
        );
        assert!(!left_out().contains("fops"));
        let seconds: f64 = QUICK.iter().map(|chapter| chapter.seconds).sum();
        assert!(seconds <= 30.0, "it is said to take {seconds} s");
    }

    #[test]
    fn every_chapter_names_locks_that_there_are() {
        for chapter in FULL.iter().chain(&QUICK) {
            for name in chapter.locks.unwrap_or("ticket").split(',') {
                assert!(super::super::contenders::find(name).is_some(), "{}: {name}", chapter.title);
            }
        }
    }
}
