//! The queueing model of a contended lock.
//!
//! A lock whose hand-over gets slower with every waiter does not level off as more cores use it: throughput rises,
//! peaks, and falls far below that of one core. The model of "Non-scalable locks are dangerous" (Boyd-Wickizer,
//! Kaashoek, Morris and Zeldovich, Linux Symposium 2012, section 3.2) says where. This crate holds that model and
//! what stands around it:
//!
//! - [`chain`]: the Markov chain itself: states, probabilities, throughput;
//! - [`handover`]: what a hand-over costs with k waiters, by family of lock, and the published variants of the model;
//! - [`lock`]: one lock and the cores that use it: a chain whose critical section grows as the lock changes cores;
//! - [`network`]: several locks;
//! - [`laws`]: Amdahl's law and its extension to critical sections, which the paper argues against;
//! - [`parameters`]: what a profile taken on few cores says of a lock;
//! - [`predict`]: from those and a machine's costs to a curve with a band and a verdict;
//! - [`fit`]: the hand-over cost that explains a measured figure;
//! - [`mod@extrapolate`]: from a few measured points of a curve to more cores, without a profile.
//!
//! Functions are pure: no clock, no thread, no file; the crate compiles to WebAssembly. Times are in one unit
//! throughout, cycles or nanoseconds, whichever the caller uses; names that end in `_ns` mean nanoseconds.
//!
//! ```
//! use contend_model::{Handover, LockModel, Variant, Service};
//!
//! // One memory-mapping lock of the paper: 121 cycles held, 1592 of think time, 200 more for every two waiters.
//! let lock = LockModel {
//!     think: 1592.0,
//!     service: Service::constant(121.0),
//!     handover: Handover::Ticket { waiter_cost: 200.0 },
//!     readers: None,
//!     variant: Variant::Waiters,
//! };
//! assert!(lock.at(6).unwrap().speedup > 4.7);
//! assert!(lock.at(48).unwrap().speedup < 0.4);
//! ```

pub mod chain;
pub mod extrapolate;
pub mod fit;
pub mod handover;
pub mod laws;
pub mod lock;
pub mod network;
pub mod parameters;
pub mod predict;

pub use chain::Chain;
pub use handover::{Contenders, Family, Handover, Variant, family_named};
pub use lock::{LockModel, Readers, Service, Steady};
pub use parameters::{End, Mean, Observed, Parameters};
pub use predict::{Prediction, Verdict};

pub use topology::MAX_CORES;

/// An input that no model can be made from.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A time, share or factor outside its range.
    #[error("{what} is {value}; it must be {must}")]
    Input {
        /// What the number is.
        what: &'static str,
        /// What was given.
        value: f64,
        /// What it has to be.
        must: &'static str,
    },
    /// No cores, or more than [`MAX_CORES`].
    #[error("{cores} cores; the model takes 1 to {MAX_CORES}")]
    Cores {
        /// What was given.
        cores: u64,
    },
}

/// `value` if it is finite and above zero.
fn positive(what: &'static str, value: f64) -> Result<f64, ModelError> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(ModelError::Input { what, value, must: "finite and more than 0" })
    }
}

/// `value` if it is finite and not negative.
fn not_negative(what: &'static str, value: f64) -> Result<f64, ModelError> {
    if value >= 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(ModelError::Input { what, value, must: "finite and not negative" })
    }
}

/// `value` if it lies in 0 to 1.
fn share(what: &'static str, value: f64) -> Result<f64, ModelError> {
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(ModelError::Input { what, value, must: "from 0 to 1" })
    }
}

/// `cores` if a model can have that many.
fn valid_cores(cores: u32) -> Result<u32, ModelError> {
    if (1..=MAX_CORES).contains(&cores) { Ok(cores) } else { Err(ModelError::Cores { cores: cores.into() }) }
}

/// ln Σ eˣ without overflow; minus infinity for nothing.
fn ln_sum(values: &[f64]) -> f64 {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    largest + values.iter().map(|x| (x - largest).exp()).sum::<f64>().ln()
}
