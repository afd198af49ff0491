//! Progress bars and warnings on standard error.

use crate::arguments;
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
            Work::Quantities => Box::new(Runs::new(steps, "measurements", Duration::ZERO)),
            Work::Runs { later } => Box::new(Runs::new(steps, "runs", later)),
        }
    }
}

/// Says now and then how far long work is, until it is dropped, where standard error is no terminal and shows no bar.
pub(crate) struct Lines {
    /// Hangs up at the end.
    ends: Option<Sender<()>>,
    says: Option<JoinHandle<()>>,
}

impl Lines {
    /// How often a line comes: every 10 s, or as often as the Python package asks for, which draws a bar of them.
    fn every() -> Duration {
        let asked = std::env::var("CONTEND_PROGRESS_EVERY").ok();
        asked.and_then(|text| arguments::duration(&text).ok()).unwrap_or(Duration::from_secs(10))
    }

    /// The first line comes when the work has taken so long. A step may take longer: its line is said by a thread of its own.
    pub(crate) fn new(how_far: impl Fn() -> String + Send + 'static) -> Self {
        if std::io::stderr().is_terminal() {
            return Self { ends: None, says: None };
        }
        Self::said(Self::every(), move || tell(&how_far()))
    }

    fn said(every: Duration, say: impl Fn() + Send + 'static) -> Self {
        let (ends, ended) = mpsc::channel();
        let say = move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                say();
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

/// How far a measurement or a simulation is and how long it will take: a bar on a terminal, which is cleared at the end, else a line now
/// and then.
struct Runs {
    bar: ProgressBar,
    way: Arc<Way>,
    _lines: Lines,
}

/// What of the steps is behind and what is left.
pub(crate) struct Way {
    steps: usize,
    done: AtomicUsize,
    called: &'static str,
    started: Instant,
    later: Duration,
}

impl Runs {
    fn new(steps: usize, called: &'static str, later: Duration) -> Self {
        let way = Way::new(steps, called, later);
        Self { bar: bar(steps, &format!("{called}, {{elapsed}}, {{wide_msg}}")), _lines: way.lines(), way }
    }
}

impl Way {
    /// Of so many steps, which are called so. What comes after them takes `later`.
    pub(crate) fn new(steps: usize, called: &'static str, later: Duration) -> Arc<Self> {
        Arc::new(Self { steps, done: AtomicUsize::new(0), called, started: Instant::now(), later })
    }

    /// A step is over.
    pub(crate) fn done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Lines that tell how far it is.
    pub(crate) fn lines(self: &Arc<Self>) -> Lines {
        let way = Arc::clone(self);
        Lines::new(move || way.text())
    }

    fn text(&self) -> String {
        let done = self.done.load(Ordering::Relaxed);
        format!("{done} of {} {}, {}", self.steps.max(done), self.called, self.left())
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
        self.bar.set_message(format!("{}: {name}", self.way.left()));
    }

    fn done(&self) {
        self.bar.inc(1);
        self.way.done();
        self.bar.set_message(self.way.left());
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Tells on standard error why timings should not be trusted.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        tell(&format!("warning: {warning}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_every_interval_until_the_end() {
        let (said, hears) = mpsc::channel();
        let way = Way::new(3, "measurements", Duration::ZERO);
        let of_lines = Arc::clone(&way);
        let lines = Lines::said(Duration::from_millis(1), move || {
            let _ = said.send(of_lines.text());
        });
        assert_eq!(hears.recv().expect("a line"), "0 of 3 measurements, about to start");
        for _ in 0..3 {
            way.done();
        }
        let last = "3 of 3 measurements, about 0:00 min left";
        hears.iter().find(|line| line == last).expect("a line of the end");
        drop(lines);
        // The one who says lines is gone: what is left of them ends.
        assert!(hears.iter().all(|line| line == last));
    }
}
