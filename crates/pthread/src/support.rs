//! Pthread support: which kinds of pthread object a lock can replace, and with what help of the preload library.

use crate::object::ObjectKind;

/// What a lock algorithm can do by itself, as far as the pthread functions ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Bytes of its state.
    pub bytes: usize,
    /// Readers can share it.
    pub shared: bool,
    /// Its waiters can give up at a deadline.
    pub timed: bool,
}

/// How a lock comes to an ability that the pthread functions need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ability {
    /// The algorithm has it.
    Native,
    /// The preload library puts it around the algorithm: a timed acquisition is a sequence of attempts and sleeps.
    Emulated,
}

/// How a lock replaces a kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Support {
    /// Acquiring until a deadline.
    pub timed: Ability,
    /// Its state lies in the program's own object; else in the side table of the library, to which the object refers.
    pub inline: bool,
}

impl Support {
    /// How a lock with these abilities replaces objects of this kind; `None` if it cannot.
    #[must_use]
    pub const fn new(lock: Abilities, kind: ObjectKind) -> Option<Self> {
        if !kind.accepts(lock.shared) {
            return None;
        }
        let timed = if lock.timed { Ability::Native } else { Ability::Emulated };
        Some(Self { timed, inline: lock.bytes <= kind.inline_bytes() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: Abilities = Abilities { bytes: 16, shared: false, timed: false };

    #[test]
    fn readers_share_reader_writer_locks_alone() {
        let supported =
            |shared| ObjectKind::ALL.map(|kind| Support::new(Abilities { shared, ..LOCK }, kind).is_some());
        assert_eq!(supported(false), [true, false, true]);
        assert_eq!(supported(true), [true, true, false]);
    }

    #[test]
    fn states_lie_in_the_object_where_they_fit() {
        let inline = |bytes, kind| Support::new(Abilities { bytes, ..LOCK }, kind).unwrap().inline;
        assert!(inline(16, ObjectKind::Mutex) && !inline(24, ObjectKind::Mutex));
        assert!(!inline(4, ObjectKind::Spin));
    }

    #[test]
    fn waits_until_a_deadline_are_emulated_where_the_algorithm_has_none() {
        let timed = |timed| Support::new(Abilities { timed, ..LOCK }, ObjectKind::Mutex).unwrap().timed;
        assert_eq!([timed(true), timed(false)], [Ability::Native, Ability::Emulated]);
    }
}
