//! The kinds of pthread object that a lock can replace, their sizes, and where in their bytes a lock state may lie.

/// A kind of pthread object. The numbers are those by which profile files name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum ObjectKind {
    /// `pthread_mutex_t`, and C11's `mtx_t`.
    Mutex = 1,
    /// `pthread_spinlock_t`.
    Spin = 2,
    /// `pthread_rwlock_t`.
    Rwlock = 3,
}

/// Bytes of an object that a lock state may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlineSpace {
    /// Where they begin, in bytes from the start of the object; a multiple of 8.
    pub offset: usize,
    /// How many there are; a multiple of 8.
    pub bytes: usize,
}

/// Where the preload library keeps what in a `pthread_mutex_t`, in bytes from its start.
pub mod mutex {
    use super::InlineSpace;

    /// Bytes of the object on this architecture.
    pub const BYTES: usize = if cfg!(target_arch = "aarch64") { 48 } else { 40 };
    /// The first of the spaces for a lock state; also the reference to a slot of the side table.
    pub const STATE: usize = 8;
    /// glibc's `__kind`.
    pub const KIND: usize = 16;
    /// Whose the object is: two bytes that glibc does not use.
    pub const TAG: usize = if cfg!(target_arch = "aarch64") { 18 } else { 22 };
    /// The generation of the last acquisition.
    pub const GENERATION: usize = 20;
    /// What the recorder keeps in the object; a lock state of 9 to 16 bytes where nothing is recorded.
    pub const TRACE: usize = 24;

    pub(super) const SPACES: [InlineSpace; 2] =
        [InlineSpace { offset: STATE, bytes: 8 }, InlineSpace { offset: TRACE, bytes: 16 }];
}

/// Where the preload library keeps what in a `pthread_rwlock_t`, in bytes from its start.
pub mod rwlock {
    use super::InlineSpace;

    /// Bytes of the object.
    pub const BYTES: usize = 56;
    /// The space for a lock state; also the reference to a slot of the side table.
    pub const STATE: usize = 0;
    /// glibc's `__cur_writer`.
    pub const WRITER: usize = 24;
    /// glibc's `__shared`.
    pub const SHARED: usize = 28;
    /// What the recorder keeps in the object.
    pub const TRACE: usize = 32;
    /// glibc's `__flags`.
    pub const FLAGS: usize = 48;
    /// Whose the object is.
    pub const TAG: usize = 52;
    /// The generation of the last acquisition.
    pub const GENERATION: usize = 54;

    pub(super) const SPACES: [InlineSpace; 1] = [InlineSpace { offset: STATE, bytes: 16 }];
}

impl ObjectKind {
    /// All kinds, in the order in which tables show them.
    pub const ALL: [Self; 3] = [Self::Mutex, Self::Rwlock, Self::Spin];

    /// The name that commands take and print.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Rwlock => "rwlock",
            Self::Spin => "spin",
        }
    }

    /// This many of them, in a sentence, after the number.
    #[must_use]
    pub const fn counted(self, number: u64) -> &'static str {
        match self {
            Self::Mutex if number == 1 => "mutex",
            Self::Rwlock if number == 1 => "reader-writer lock",
            Self::Spin if number == 1 => "spin lock",
            _ => self.plural(),
        }
    }

    /// Several of them, in a sentence.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Mutex => "mutexes",
            Self::Rwlock => "reader-writer locks",
            Self::Spin => "spin locks",
        }
    }

    /// The kind that a command calls by this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind that a profile file calls by this number.
    #[must_use]
    pub fn by_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u32 == number)
    }

    /// Its place in [`ALL`](Self::ALL), and in any array with an element for each kind.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Mutex => 0,
            Self::Rwlock => 1,
            Self::Spin => 2,
        }
    }

    /// Bytes of such an object on this architecture.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Mutex => mutex::BYTES,
            Self::Rwlock => rwlock::BYTES,
            Self::Spin => 4,
        }
    }

    /// Where in the object a lock state may lie, smaller spaces first. The recorder takes one of a mutex for itself.
    #[must_use]
    pub const fn inline_spaces(self, recorded: bool) -> &'static [InlineSpace] {
        match self {
            Self::Mutex if recorded => mutex::SPACES.split_at(1).0,
            Self::Mutex => &mutex::SPACES,
            Self::Rwlock => &rwlock::SPACES,
            Self::Spin => &[],
        }
    }

    /// Bytes of the largest lock state that lies in the object while nothing is recorded.
    #[must_use]
    pub const fn inline_bytes(self) -> usize {
        match self.inline_spaces(false) {
            [] => 0,
            [.., largest] => largest.bytes,
        }
    }

    /// Whether locks that readers share, or those that they do not, can replace this kind. A mutex takes the exclusive
    /// side of a reader-writer lock.
    #[must_use]
    pub const fn accepts(self, shared: bool) -> bool {
        match self {
            Self::Mutex => true,
            Self::Rwlock => shared,
            Self::Spin => !shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_and_places_are_those_of_one_kind() {
        for kind in ObjectKind::ALL {
            assert_eq!(ObjectKind::by_name(kind.name()), Some(kind));
            assert_eq!(ObjectKind::by_number(kind as u32), Some(kind));
            assert_eq!(ObjectKind::ALL[kind.index()], kind);
        }
        assert_eq!(ObjectKind::by_name("barrier"), None);
        assert_eq!(ObjectKind::by_number(0), None);
    }

    #[test]
    fn spaces_lie_in_the_object_and_grow() {
        for kind in ObjectKind::ALL {
            for recorded in [false, true] {
                let spaces = kind.inline_spaces(recorded);
                assert!(spaces.iter().all(|space| space.offset + space.bytes <= kind.bytes()));
                assert!(spaces.iter().all(|space| space.offset % 8 == 0 && space.bytes % 8 == 0));
                assert!(spaces.is_sorted_by_key(|space| space.bytes));
            }
        }
    }
}
