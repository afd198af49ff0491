//! Bounded exponential back-off: each failed attempt waits twice as long as the one before.
//!
//! Source: Anderson 1990.

/// The first delay: about the cost of moving a line between two cores of one die.
const SHORTEST_CYCLES: u64 = 128;

/// The longest delay: about a hundred hand-overs. A longer one would leave the lock idle while all waiters are away.
const LONGEST_CYCLES: u64 = 16_384;

/// The delays of one wait.
pub(crate) struct Backoff {
    next_cycles: u64,
}

impl Backoff {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self { next_cycles: SHORTEST_CYCLES }
    }

    /// The delay after one more failed attempt.
    #[inline]
    pub(crate) fn grow(&mut self) -> u64 {
        let cycles = self.next_cycles;
        self.next_cycles = (cycles * 2).min(LONGEST_CYCLES);
        cycles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_bound() {
        let mut backoff = Backoff::new();
        let delays = core::array::from_fn::<_, 10, _>(|_| backoff.grow());
        assert_eq!(delays, [128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 16_384, 16_384]);
    }
}
