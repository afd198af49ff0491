//! Machine files by name: those that contend carries, and that of the machine you are on.

use crate::machine_file::{MachineFile, MachineFileError, Transactions};
use std::path::PathBuf;

/// The name of the calibrated machine.
pub const THIS: &str = "this-machine";

/// The name that it had before, which is accepted for one more release.
pub const THIS_BEFORE: &str = "this";

/// The name of the machine of which everything is assumed, in wide ranges.
pub const TYPICAL: &str = "typical";

/// The machines that contend carries, as name and file.
pub const CARRIED: [(&str, &str); 15] = [
    ("opteron-8x6", include_str!("../machines/opteron-8x6.toml")),
    ("dl580", include_str!("../machines/dl580.toml")),
    ("dl980", include_str!("../machines/dl980.toml")),
    ("cs900x8", include_str!("../machines/cs900x8.toml")),
    ("cs900x16", include_str!("../machines/cs900x16.toml")),
    ("xeon-e5-4650v2x4", include_str!("../machines/xeon-e5-4650v2x4.toml")),
    ("xeon-e5-2680v4x2", include_str!("../machines/xeon-e5-2680v4x2.toml")),
    ("xeon-8360yx2", include_str!("../machines/xeon-8360yx2.toml")),
    ("epyc-7763x2", include_str!("../machines/epyc-7763x2.toml")),
    ("epyc-9654x2", include_str!("../machines/epyc-9654x2.toml")),
    ("sapphire-rapids-x4", include_str!("../machines/sapphire-rapids-x4.toml")),
    ("single-192", include_str!("../machines/single-192.toml")),
    ("graviton3", include_str!("../machines/graviton3.toml")),
    ("altra-q80", include_str!("../machines/altra-q80.toml")),
    (TYPICAL, include_str!("../machines/typical.toml")),
];

/// The names that stand for a machine.
pub fn names() -> impl Iterator<Item = &'static str> {
    CARRIED.iter().map(|(name, _)| *name).chain([THIS])
}

/// The carried machine of that name; none if there is none.
///
/// # Errors
///
/// A carried file that is wrong, which a test rules out.
pub fn find(name: &str) -> Option<Result<MachineFile, MachineFileError>> {
    let (_, text) = CARRIED.iter().find(|(known, _)| *known == name)?;
    Some(MachineFile::parse(text))
}

/// The carried machine of a name that stands in code.
///
/// # Panics
///
/// When there is none.
pub fn machine(name: &str) -> MachineFile {
    let found = find(name).unwrap_or_else(|| panic!("contend carries no machine `{name}`"));
    found.unwrap_or_else(|error| panic!("{error}"))
}

/// The transactional memory of a machine that has one, for machines that have none.
pub fn transactions() -> Transactions {
    machine("xeon-e5-2680v4x2").transactions.expect("its file has the table")
}

/// Where `contend calibrate` leaves the machine file of the machine it runs on: `contend/this-machine.toml` in the user's
/// directory of configurations. `None` where the environment names neither that nor a home.
pub fn this_path() -> Option<PathBuf> {
    Some(configurations()?.join("this-machine.toml"))
}

/// Where it is read: a file that was written under the name of before counts until there is one of today's.
pub fn calibrated_path() -> Option<PathBuf> {
    let (now, before) = (this_path()?, configurations()?.join("this.toml"));
    Some(if !now.exists() && before.exists() { before } else { now })
}

fn configurations() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let configurations = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(configurations.join("contend"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_carried_machine_is_valid_and_named_like_its_file() {
        for (name, _) in CARRIED {
            let machine = machine(name);
            assert_eq!(machine.name, name);
            let costs = machine.costs();
            assert!(costs.transfer_ns(2).likely <= costs.transfer_ns(machine.topology.cores()).likely);
        }
    }
}
