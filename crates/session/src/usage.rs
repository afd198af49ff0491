//! Arguments that cannot be used, which is another thing than work that failed.

/// An argument that is wrong, whether it was seen while the command line was read or only beside a profile or a machine. The
/// command exits with 2, as it does for what the parser of arguments refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError(String);

impl UsageError {
    /// The error with what is wrong and what to do.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl std::fmt::Display for UsageError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Returns from the function with a [`UsageError`] of this message unless the condition holds.
#[macro_export]
macro_rules! ensure_usage {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::usage::UsageError::new(format!($($message)+)).into());
        }
    };
}
