//! Transactions of the checked machine.
//!
//! A transaction begins in each of these ways: it aborts at once, with each of the causes, or it commits, and then no other thread
//! takes a step before that. That is all there is: an abort leaves no trace, so that one that comes later, or because of another
//! thread, is one that comes at once; and one that commits takes effect as a whole. Which of its beginnings led to a conflict is left
//! open, as a transaction may abort for no reason. A transaction that asks for an abort, waits, sleeps or wakes others does not commit:
//! the way that begins so is left, and the one stands for it that begins with that abort.
//!
//! It is a full fence at its beginning, and each access in it is a read-modify-write that acquires and releases, of what there is if
//! nothing is written; at the end each word that lies in no queue node comes once more. So it comes as a whole before or after every access of others to the same
//! word, transaction or not, and synchronises with it (strong isolation). Transactions that have cells in common and no word race.
//!
//! [`Search::States`](crate::Search::States) explores this under the models of processors that may have transactions; where they cannot
//! be followed, that is a bound of the exploration.

use std::panic::Location as Site;

use machine::transaction::{LOCK_HELD, NESTED};
use machine::{Abort, Ordering};

use super::Bound;
use super::session::Session;
use crate::graph::LocationId;
use crate::model::Model;
use crate::walker::Key;

/// What a transaction may abort with, whatever it does.
const ABORTS: [Abort; 5] = [
    Abort::CONFLICT,
    Abort::CAPACITY,
    Abort::INTERRUPTED,
    Abort::explicit(LOCK_HELD),
    Abort::explicit(NESTED),
];

/// Words that a transaction may use.
const MOST_WORDS: usize = 16;

/// What a thread is in the middle of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transaction {
    /// How many transactions it is in, each within the one before.
    depth: u32,
    words: [LocationId; MOST_WORDS],
    count: usize,
}

impl Transaction {
    /// Notes that it has used a word; false if there are too many.
    fn note(&mut self, word: LocationId) -> bool {
        if self.words[..self.count].contains(&word) {
            return true;
        }
        let has_space = self.count < MOST_WORDS;
        if has_space {
            self.words[self.count] = word;
            self.count += 1;
        }
        has_space
    }

    pub(super) fn add_to(&self, key: &mut Key) {
        key.add(u64::from(self.depth) << 32 | self.count as u64);
        self.words[..self.count].iter().for_each(|&word| key.add(word.into()));
    }
}

impl Session {
    pub(super) fn in_transaction(&self) -> bool {
        self.with(|state| state.transaction.depth != 0)
    }

    /// Whether transactions can be followed; if not, the exploration does not see everything.
    pub(super) fn has_transactions(&self) -> bool {
        let replays = self.trace.is_some();
        self.with(|state| {
            let has = state.model != Model::Ra && (state.is_scheduled() || replays);
            if !has && state.thread.is_some() {
                state.bound.get_or_insert(Bound::Unfollowed);
            }
            has && state.thread.is_some()
        })
    }

    pub(super) fn begin_transaction(&self, site: &'static Site<'static>) -> Result<(), Abort> {
        if !self.has_transactions() {
            return Err(Abort::UNAVAILABLE);
        }
        if !self.in_transaction() {
            if let Some(way) = self.choose(1 + ABORTS.len() as u64, site).checked_sub(1) {
                return Err(ABORTS[way as usize]);
            }
            let thread = self.thread().expect("only threads choose");
            self.answered(|state| state.engine().begin_transaction(thread, Some(site)));
        }
        self.with(|state| state.transaction.depth += 1);
        Ok(())
    }

    pub(super) fn commit_transaction(&self, site: &'static Site<'static>) {
        let transaction = self.with(|state| state.transaction);
        if transaction.depth == 1 {
            for &word in &transaction.words[..transaction.count] {
                self.update_hidden(word, site, |value| value);
            }
            self.with(|state| state.engine().commit_transaction());
        }
        self.with(|state| match transaction.depth {
            1 => state.transaction = Transaction::default(),
            _ => state.transaction.depth -= 1,
        });
    }

    /// The way that the transaction has begun in is left.
    pub(super) fn abort_transaction(&self, code: u8) -> ! {
        assert!(self.in_transaction(), "a transaction is aborted outside of any, with the code {code}");
        assert!(
            ABORTS.contains(&Abort::explicit(code)),
            "the checked machine explores transactions that abort with the codes {LOCK_HELD} and {NESTED}, not with {code}"
        );
        self.leave();
    }

    /// A system call aborts the transaction that it is made in.
    pub(super) fn calls_kernel(&self) {
        if self.in_transaction() {
            self.leave();
        }
    }

    /// Nothing comes of what the thread has begun.
    pub(super) fn leave(&self) -> ! {
        self.with(|state| state.engine().leave());
        self.never_goes_on()
    }

    /// An access in a transaction; gives what was there before.
    pub(super) fn access_in_transaction(
        &self,
        address: usize,
        site: &'static Site<'static>,
        update: impl Fn(u64) -> u64,
    ) -> u64 {
        self.read_modify_write(address, Ordering::AcqRel, site, update)
    }

    /// The ordering of an update, which is noted if it is part of a transaction.
    pub(super) fn updates(&self, address: usize, ordering: Ordering) -> Ordering {
        self.with(|state| {
            if state.transaction.depth == 0 {
                return ordering;
            }
            let word = state.location(address);
            // A queue node may be another one's by the end.
            let lies_in_node = state.engine().node_of(word).is_some();
            if !lies_in_node && !state.transaction.note(word) {
                state.bound.get_or_insert(Bound::Unfollowed);
            }
            Ordering::AcqRel
        })
    }
}
