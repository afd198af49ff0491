//! The profile file: records, container, symbol names, lock table.
