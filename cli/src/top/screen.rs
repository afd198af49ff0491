//! The screen: looks at the program, keys, and what they change.

use super::end::End;
use super::sort::Sort;
use super::terminal::Taken;
use super::view::{Then, View};
use crate::interrupt::CUT_SHORT;
use anyhow::Context as _;
use crossterm::event::{self, Event, KeyEventKind};
use profile::read::live::{LiveTable, Watch};
use report::Screen;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How soon a signal is noticed.
const PATIENCE: Duration = Duration::from_millis(100);

/// Shows the screen until the user, or a signal, ends it.
pub(super) fn run(
    mut watch: Watch,
    first: LiveTable,
    interval: Duration,
    sort: Sort,
) -> anyhow::Result<ExitCode> {
    let mut view = View::new(first, sort, Screen::stdout().is_ascii());
    let mut end = End::of(&watch);
    let mut taken = Taken::take()?;
    let mut next = Instant::now() + interval;
    loop {
        taken.0.draw(|frame| view.draw(frame)).context("cannot draw on the terminal")?;
        // What is drawn stays until a key, another size, or another table.
        loop {
            if Taken::is_stopped() {
                return Ok(ExitCode::from(CUT_SHORT));
            }
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() || (!view.has_ended() && end.has_come()) {
                next = Instant::now() + interval;
                if !view.has_ended() {
                    view.look(watch.look()?);
                    break;
                }
            }
            if !event::poll(left.min(PATIENCE)).or_else(unless_stopped)? {
                continue;
            }
            match event::read().context("cannot read keys")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match view.press(key) {
                    Then::Draw => break,
                    Then::Nothing => {}
                    Then::Quit => return Ok(ExitCode::SUCCESS),
                },
                Event::Resize(..) => break,
                _ => {}
            }
        }
    }
}

/// That keys cannot be read is no error where the terminal was closed, of which a signal tells.
fn unless_stopped(error: std::io::Error) -> anyhow::Result<bool> {
    std::thread::sleep(PATIENCE);
    if Taken::is_stopped() { Ok(false) } else { Err(error).context("cannot read keys") }
}
