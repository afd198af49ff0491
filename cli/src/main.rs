//! The `contend` command: parses arguments, calls the rooms, prints.

fn main() {}
