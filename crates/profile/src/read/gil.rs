//! CPython's global interpreter lock among the locks of a program.

use serde::Serialize;

use super::table::{LockId, LockKind, LockRow};
use pthread::object::ObjectKind;

/// The variable in which CPython keeps the lock of its main interpreter; it is exported, so that stripped builds name it, too.
const VARIABLE: &str = "_PyRuntime";

/// CPython's global interpreter lock: a flag that threads wait for by a condition variable, whose mutex is in the lock table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gil {
    /// The row of that mutex.
    #[serde(skip)]
    pub lock: LockId,
    /// Its name.
    pub name: String,
    /// How long threads waited for the interpreter, ns.
    pub waited_ns: f64,
    /// The part that this makes of the threads' time, 0 to 1.
    pub share: f64,
}

impl Gil {
    /// The mutex in the interpreter's state with which threads waited longest for a condition. The state has one more pair of the kind,
    /// by which a thread that gives the interpreter up sees that another one has it: that is soon.
    pub(super) fn among(rows: &[LockRow], threads_ns: f64) -> Option<Self> {
        let waits = |row: &&LockRow| row.exclusive.condition_waits > 0 && is_of_interpreter(row);
        let row =
            rows.iter().filter(waits).max_by(|a, b| a.all_condition_ns().total_cmp(&b.all_condition_ns()))?;
        let waited_ns = row.all_condition_ns();
        let share = if threads_ns > 0.0 { (waited_ns / threads_ns).min(1.0) } else { 0.0 };
        Some(Self { lock: row.id, name: row.name.clone(), waited_ns, share })
    }
}

fn is_of_interpreter(row: &LockRow) -> bool {
    let rest = row.name.strip_prefix(VARIABLE);
    row.kind == LockKind::Object(ObjectKind::Mutex) && rest.is_some_and(|rest| rest.starts_with(['+', '.']))
}

#[cfg(test)]
mod tests {
    use super::super::striped::tests::row as any_row;
    use super::super::table::Usage;
    use super::*;

    #[test]
    fn it_is_the_mutex_of_the_interpreter_with_the_longest_condition_waits() {
        let row = |name: &str, number, condition_ns| LockRow {
            id: LockId { section: 1, number },
            name: name.into(),
            exclusive: Usage { condition_waits: 3, condition_ns, ..Usage::default() },
            kind: LockKind::Object(ObjectKind::Mutex),
            ..any_row()
        };
        let rows =
            [row("_PyRuntime+0x210", 1, 5.0), row("_PyRuntime+0x1b8", 2, 50.0), row("queue_lock", 3, 900.0)];
        let gil = Gil::among(&rows, 200.0).expect("it is there");
        assert_eq!((gil.lock.number, gil.waited_ns, gil.share), (2, 50.0, 0.25));
        assert_eq!(Gil::among(&rows[2..], 200.0), None);
        let lookalike = [row("_PyRuntimeState_lock", 1, 5.0)];
        assert_eq!(Gil::among(&lookalike, 200.0), None);
    }
}
