//! The terminal: taken for a screen, and given back as it was, however the command ends.

use anyhow::Context as _;
use ratatui::DefaultTerminal;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by a signal that ends the command.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// The terminal as long as the screen has it: keys come unseen and one by one, and what was there before is kept aside. Dropped,
/// or at a panic, it is as it was.
#[derive(Debug)]
pub(super) struct Taken(pub(super) DefaultTerminal);

impl Taken {
    /// Takes the terminal.
    ///
    /// # Errors
    ///
    /// Standard input or output is none.
    pub(super) fn take() -> anyhow::Result<Self> {
        anyhow::ensure!(
            std::io::stdin().is_terminal() && std::io::stdout().is_terminal(),
            "a screen needs a terminal: --batch prints tables to anything else"
        );
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
            // SAFETY: the handler sets a flag.
            unsafe { session::signals::handle(signal, stop) };
        }
        let taken = ratatui::try_init();
        if taken.is_err() {
            ratatui::restore(); // as far as it got
        }
        taken.map(Self).context("cannot use the terminal")
    }

    /// Whether a signal has come that ends the command. A terminal that is closed sends one.
    pub(super) fn is_stopped() -> bool {
        STOPPED.load(Ordering::Relaxed)
    }
}

extern "C" fn stop(_signal: libc::c_int) {
    /// How long ending may take, should the terminal that is closed keep the command from it.
    const ENDING_S: libc::c_uint = 10;
    STOPPED.store(true, Ordering::Relaxed);
    // SAFETY: allowed in a handler. The alarm ends the process, unless that has ended before.
    unsafe { libc::alarm(ENDING_S) };
}

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore(); // a terminal that is gone needs nothing
    }
}
