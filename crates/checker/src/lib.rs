//! Exploration of all executions under weak memory models, and litmus tests.
