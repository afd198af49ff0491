//! How a command ends that was interrupted: what is finished is printed, marked as cut short.

pub(crate) use session::interrupt::{came, keep};

use crate::output::tell;
use std::process::ExitCode;

/// What a command exits with that was cut short: 128 and the number of SIGINT, as shells have it.
pub(crate) const CUT_SHORT: u8 = 128 + 2;

/// Says on standard error that what was printed is not all, if so, and gives the exit code: `otherwise` if the command
/// came to its end.
pub(crate) fn exit_code(finished: &str, otherwise: ExitCode) -> ExitCode {
    if !came() {
        return otherwise;
    }
    say(finished);
    ExitCode::from(CUT_SHORT)
}

/// The same where the process must end here and now.
pub(crate) fn exit(finished: &str) -> ! {
    say(finished);
    std::process::exit(CUT_SHORT.into())
}

fn say(finished: &str) {
    tell(&format!("cut short by an interrupt: {finished}"));
}
