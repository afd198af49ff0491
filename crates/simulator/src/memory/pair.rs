//! The other line of an aligned pair of lines, which comes along with a line where the machine file says so.
//!
//! Processors with such a prefetcher ask for both lines when one of them is not in the core's caches. The second line costs
//! its requester nothing here, and takes neither home nor link: what it changes is who has it. So a core that goes through
//! memory finds every second line, and a core that writes one line of a pair has to ask for it again after another core has
//! asked for the other line: two locks on such a pair disturb each other.

use super::Memory;
use crate::NOBODY;
use crate::clock::Clock;
use crate::directory::State;

impl Memory {
    /// Gives a core the other line of the pair to read, unless a request for that is under way or it has no place in memory yet.
    pub(super) fn fetch_pair(&mut self, clock: &mut Clock, line: u32, core: u32, die: usize) {
        let now = clock.now;
        let other = line ^ 1;
        let entry = self.lines.get(other);
        let is_asked_for = entry.pending != 0 || !entry.at_home.is_empty() || !entry.in_die.is_empty();
        // A core whose line arrives just now writes it after this: it must not be shared before.
        let moves = entry.home_free > now || entry.banks.iter().any(|bank| bank.busy.max(bank.until) >= now);
        if !entry.has_home() || entry.has(core) || is_asked_for || moves {
            return;
        }
        if entry.banks.is_empty() {
            self.first_use(other, die);
        }
        let entry = self.lines.get(other);
        entry.share(self.hardware.protocol, core, die);
        if entry.state == State::Exclusive {
            return;
        }
        let writer = std::mem::replace(&mut entry.writer, NOBODY);
        if writer != NOBODY {
            self.leaves(clock, writer, other, false, now);
        }
    }
}
