//! One simulated machine from its start to its report.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use serde_json::Value;

use crate::engine::{Engine, Options, enter};
use crate::hardware::Hardware;
use crate::report::Report;
use crate::stopped::Stopped;

/// A machine about to run.
#[derive(Clone, Debug)]
pub struct Simulation {
    hardware: Hardware,
    options: Options,
}

/// How a stopped simulation leaves the body that ran it.
pub(crate) struct Unwound(pub(crate) Box<Stopped>);

impl Simulation {
    /// A simulation of this hardware with default options.
    #[must_use]
    pub fn new(hardware: &Hardware) -> Self {
        Self { hardware: hardware.clone(), options: Options::default() }
    }

    /// With these options.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// With this seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Runs `body`, which uses [`Simulated`](crate::Simulated) as its machine and must not keep anything of it.
    ///
    /// # Errors
    /// Exclusion was violated, or nothing could go on.
    ///
    /// # Panics
    /// When `body` does, or a thread that it ran.
    pub fn run<T>(&self, body: impl FnOnce() -> T) -> Result<(T, Report), Box<Stopped>> {
        self.traced(body).map(|(value, report, _)| (value, report))
    }

    /// As [`Simulation::run`]; gives a trace too, of as many records as the options say, in the Trace Event Format
    /// that Perfetto and Chrome read.
    ///
    /// # Errors
    /// As [`Simulation::run`].
    ///
    /// # Panics
    /// As [`Simulation::run`].
    pub fn traced<T>(&self, body: impl FnOnce() -> T) -> Result<(T, Report, Value), Box<Stopped>> {
        let mut engine = Box::new(Engine::new(self.hardware.clone(), self.options.clone()));
        let outcome = {
            let _entered = enter(&raw mut *engine);
            catch_unwind(AssertUnwindSafe(body))
        };
        match outcome {
            Ok(value) => {
                let trace =
                    if self.options.trace_records > 0 { engine.trace.to_chrome() } else { Value::Null };
                Ok((value, engine.report(), trace))
            }
            Err(payload) => match payload.downcast::<Unwound>() {
                Ok(unwound) => Err(unwound.0),
                Err(payload) => resume_unwind(payload),
            },
        }
    }
}
