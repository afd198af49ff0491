//! What a lock is asked for by: its name in the catalogue, and for reader-writer locks who goes first.

/// What follows the name of a reader-writer lock whose readers are to wait for writers that wait, whatever attribute the program
/// gives its objects.
pub const WRITERS_FIRST: &str = ":writers";

/// A lock as a user asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Its name in the catalogue.
    pub name: &'a str,
    /// Readers wait for writers that wait. If not, the program's attribute says who goes first.
    pub writers_first: bool,
}

impl<'a> Request<'a> {
    /// Reads `NAME` or `NAME:writers`. Whether there is such a lock, and whether it has readers, is not known here.
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        match text.strip_suffix(WRITERS_FIRST) {
            Some(name) => Self { name, writers_first: true },
            None => Self { name: text, writers_first: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_says_who_goes_first() {
        assert_eq!(Request::parse("rw"), Request { name: "rw", writers_first: false });
        assert_eq!(Request::parse("rw-naive:writers"), Request { name: "rw-naive", writers_first: true });
        assert!(!Request::parse("rw-writers").writers_first);
    }
}
