//! Progress bars and warnings on standard error.

use crate::output::tell;
use indicatif::{ProgressBar, ProgressStyle};
use report::Screen;
use session::progress::{Progress, Steps, Work, shown_duration};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
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

/// Says every 10 s how far long work is, until it is dropped, where standard error is no terminal and shows no bar.
pub(crate) struct Lines {
    /// Hangs up at the end.
    ends: Option<Sender<()>>,
    says: Option<JoinHandle<()>>,
}

impl Lines {
    const EVERY: Duration = Duration::from_secs(10);

    /// The first line comes when the work has taken so long. A step may take longer: its line is said by a thread of its own.
    pub(crate) fn new(how_far: impl Fn() -> String + Send + 'static) -> Self {
        if std::io::stderr().is_terminal() {
            return Self { ends: None, says: None };
        }
        let (ends, ended) = mpsc::channel();
        let say = move || {
            while ended.recv_timeout(Self::EVERY) == Err(RecvTimeoutError::Timeout) {
                tell(&how_far());
            }
        };
        // Without the thread the work is done all the same.
        let says = std::thread::Builder::new().name("progress".into()).spawn(say).ok();
        Self { ends: Some(ends), says }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        drop(self.ends.take());
        self.says.take().map(JoinHandle::join);
    }
}

/// How far a benchmark or a simulation is and how long it will take: a bar on a terminal, else a line now and then.
struct Runs {
    bar: Bar,
    way: Arc<Way>,
    _lines: Lines,
}

/// What of the steps is behind and what is left.
struct Way {
    steps: usize,
    done: AtomicUsize,
    started: Instant,
    later: Duration,
}

impl Runs {
    fn new(steps: usize, called: &'static str, later: Duration) -> Self {
        let way = Arc::new(Way { steps, done: AtomicUsize::new(0), started: Instant::now(), later });
        let of_lines = Arc::clone(&way);
        let how_far = move || {
            let done = of_lines.done.load(Ordering::Relaxed);
            format!("{done} of {} {called}, {}", of_lines.steps.max(done), of_lines.left())
        };
        Self {
            bar: Bar(bar(steps, &format!("{called}, {{elapsed}}, {{wide_msg}}"))),
            way,
            _lines: Lines::new(how_far),
        }
    }
}

impl Way {
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
        self.bar.0.set_message(format!("{}: {name}", self.way.left()));
    }

    fn done(&self) {
        self.bar.done();
        self.way.done.fetch_add(1, Ordering::Relaxed);
        self.bar.0.set_message(self.way.left());
    }
}

/// Tells on standard error why timings should not be trusted.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        tell(&format!("warning: {warning}"));
    }
}
