//! Amdahl's law and its extension to critical sections.
//!
//! Both say that throughput levels off; neither can say that it falls. They stand beside the model since the paper
//! argues against predicting from the share of time in critical sections alone (section 3.4).

/// Amdahl's law (1967): the speed-up on `cores` cores with a share `sequential` of the work that only one core does.
pub fn amdahl(sequential: f64, cores: u32) -> f64 {
    1.0 / (sequential + (1.0 - sequential) / f64::from(cores))
}

/// The software of Eyerman and Eeckhout, as shares of the time on one core. The three shares make up 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CriticalSections {
    /// Work that only one core does.
    pub sequential: f64,
    /// Parallel work in critical sections.
    pub critical: f64,
    /// The chance that two threads in critical sections contend: 1 with one lock, less with several.
    pub contention: f64,
}

impl CriticalSections {
    /// The speed-up on `cores` cores: Eyerman and Eeckhout, "Modeling critical sections in Amdahl's law and its
    /// implications for multicore design" (ISCA 2010). The run takes the longer of two estimates: that of the
    /// average thread, which waits when it meets another in a critical section, and that of the slowest, whose
    /// contended sections all come one after another.
    pub fn speedup(self, cores: u32) -> f64 {
        let n = f64::from(cores);
        if cores == 1 {
            return 1.0;
        }
        let think = (1.0 - self.sequential - self.critical).max(0.0);
        let parallel = self.critical + think;
        // The chance that another thread is in a critical section at a time.
        let busy = if parallel > 0.0 { self.critical / parallel } else { 0.0 };
        let met = busy * self.contention;
        let average = self.critical * met + (self.critical * (1.0 - met) + think) / n;
        let slowest =
            self.critical * self.contention + (self.critical * (1.0 - self.contention) + think) / (2.0 * n);
        1.0 / (self.sequential + average.max(slowest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amdahl_tends_to_the_inverse_of_the_sequential_share() {
        assert_eq!(amdahl(0.02, 1), 1.0);
        assert!((amdahl(0.02, 1 << 30) - 50.0).abs() < 1e-3);
        assert_eq!(amdahl(0.0, 48), 48.0);
    }

    #[test]
    fn without_contention_critical_sections_are_amdahls_parallel_work() {
        let program = CriticalSections { sequential: 0.1, critical: 0.3, contention: 0.0 };
        for cores in [1, 2, 16] {
            assert!((program.speedup(cores) - amdahl(0.1, cores)).abs() < 1e-12);
        }
    }

    #[test]
    fn one_lock_that_all_contend_for_is_sequential_in_the_limit() {
        let program = CriticalSections { sequential: 0.0, critical: 0.05, contention: 1.0 };
        assert!((program.speedup(1 << 30) - 20.0).abs() < 1e-3);
    }

    #[test]
    fn few_and_large_sections_change_regime() {
        // Sections met rarely: the average thread decides on few cores, the slowest on many.
        let program = CriticalSections { sequential: 0.0, critical: 0.1, contention: 0.5 };
        let average = |n: f64| 0.1 * 0.1 * 0.5 + (0.1 * 0.95 + 0.9) / n;
        let slowest = |n: f64| 0.1 * 0.5 + (0.1 * 0.5 + 0.9) / (2.0 * n);
        assert!((program.speedup(4) - 1.0 / average(4.0)).abs() < 1e-12);
        assert!((program.speedup(64) - 1.0 / slowest(64.0)).abs() < 1e-12);
    }

    #[test]
    fn neither_law_falls_with_cores() {
        let program = CriticalSections { sequential: 0.01, critical: 0.2, contention: 0.7 };
        let speedups: Vec<f64> = (1..200).map(|cores| program.speedup(cores)).collect();
        assert!(speedups.is_sorted());
    }
}
