//! Progress bars and warnings on standard error.

use indicatif::{ProgressBar, ProgressStyle};
use report::Screen;
use session::progress::{Progress, Steps, Work, shown_duration};
use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A bar of so many steps, followed by `words`, a template of indicatif. Hidden where standard error is no terminal.
pub(crate) fn bar(steps: usize, words: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!("{{bar:20}} {{pos}}/{{len}} {words}"))
        .expect("templates are constants of this command");
    let style = if Screen::stderr().is_ascii() { style.progress_chars("#-") } else { style };
    ProgressBar::new(steps as u64).with_style(style)
}

/// Shows a bar for every piece of work.
#[derive(Debug)]
pub(crate) struct Bars;

/// The one who watches all measurements of the command.
pub(crate) static BARS: Bars = Bars;

impl Progress for Bars {
    fn start(&self, work: Work, steps: usize) -> Box<dyn Steps> {
        match work {
            Work::Simulations => Box::new(Runs::new(steps, "simulations", Duration::ZERO)),
            Work::Quantities => Box::new(Bar(bar(steps, "measurements"))),
            Work::Runs { later } => Box::new(Runs::new(steps, "runs", later)),
        }
    }
}

/// A bar that is cleared at the end.
struct Bar(ProgressBar);

impl Steps for Bar {
    fn done(&self) {
        self.0.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Says how far long work is in a line now and then, where standard error is no terminal and shows no bar.
pub(crate) struct Lines(Mutex<Instant>);

impl Lines {
    const EVERY: Duration = Duration::from_secs(10);

    /// The first line comes when the work has taken so long.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    /// Writes how far the work is, if it is time for a line.
    pub(crate) fn say(&self, how_far: impl FnOnce() -> String) {
        let mut last = self.0.lock().expect("no holder panics");
        if !std::io::stderr().is_terminal() && last.elapsed() >= Self::EVERY {
            *last = Instant::now();
            eprintln!("contend: {}", how_far());
        }
    }
}

/// How far a benchmark or a simulation is and how long it will take: a bar on a terminal, else a line now and then.
struct Runs {
    bar: Bar,
    steps: usize,
    /// What the steps are called.
    called: &'static str,
    done: AtomicUsize,
    started: Instant,
    lines: Lines,
    later: Duration,
}

impl Runs {
    fn new(steps: usize, called: &'static str, later: Duration) -> Self {
        Self {
            bar: Bar(bar(steps, &format!("{called}, {{elapsed}}, {{wide_msg}}"))),
            steps,
            called,
            done: AtomicUsize::new(0),
            started: Instant::now(),
            lines: Lines::new(),
            later,
        }
    }

    /// How long it will take, if what is left takes as long as what was done.
    fn left(&self) -> String {
        let done = self.done.load(Ordering::Relaxed);
        if done == 0 {
            return "about to start".into();
        }
        let left =
            self.started.elapsed().mul_f64(self.steps.saturating_sub(done) as f64 / done as f64) + self.later;
        format!("about {} left", shown_duration(left))
    }
}

impl Steps for Runs {
    fn begin(&self, name: &str) {
        self.bar.0.set_message(format!("{}: {name}", self.left()));
    }

    fn done(&self) {
        self.bar.done();
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        self.bar.0.set_message(self.left());
        self.lines.say(|| format!("{done} of {} {}, {}", self.steps.max(done), self.called, self.left()));
    }
}

/// Tells on standard error why timings should not be trusted.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        eprint!("{}", Screen::stderr().fit(&format!("contend: warning: {warning}\n")));
    }
}
