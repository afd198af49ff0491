//! Whether the tests are the ordinary ones, which a newcomer waits for, or those of `tests/all`.

/// Whether these are the tests of `tests/all`, which sets `CONTEND_TESTS=all`.
pub(crate) fn are_all() -> bool {
    std::env::var_os("CONTEND_TESTS").is_some_and(|tests| tests == "all")
}
