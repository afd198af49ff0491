//! What the file of the command was given by `setcap`, as `contend attach` advises it for a user who is not root.

use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Gives up the capabilities that the command has by its file. A process with more of them than the programs that it starts is closed to
/// these: they could not open what it shares with them under `/proc`.
pub fn give_up() {
    let has_some = capabilities(None).is_ok_and(|sets| !sets.permitted.is_empty());
    if geteuid().is_root() || !has_some {
        return;
    }
    let none = CapabilitySet::empty();
    let given_up =
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none });
    if given_up.is_ok() {
        let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    }
}
