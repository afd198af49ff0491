//! The list of those that wait for one of Linux's sleeping locks: a ring of nodes in the order of their arrival.
//!
//! | word            | written by                  | meaning                                                     |
//! |-----------------|-----------------------------|-------------------------------------------------------------|
//! | `first`         | the thread with the list    | the first of the list; null: the list is empty              |
//! | node `next`     | the same; out of the list, the thread that took it out | the one behind it; of the last, the first |
//! | node `before`   | the thread with the list    | the one in front of it; null: it is out of the list         |
//!
//! Every function is for the thread with the list: each lock has a bit for that in its word.

use core::ptr::{from_ref, null_mut};

use machine::{Machine, PlainCell};

/// The neighbours of a node.
pub(crate) struct Links<M: Machine, N: 'static> {
    next: M::Cell<*mut N>,
    before: M::Cell<*mut N>,
}

impl<M: Machine, N: 'static> Links<M, N> {
    /// Whether the node is in a list. A node that was never in one has what the one before it in its memory has left.
    pub(crate) fn are_in_list(&self) -> bool {
        !self.before.get().is_null()
    }

    /// The one behind it.
    pub(crate) fn next(&self) -> &'static N {
        neighbour(&self.next)
    }

    /// Sets the one behind it, of a node that was taken out together with that one.
    pub(crate) fn lead_to(&self, next: &'static N) {
        self.next.set(address(next));
    }
}

/// A node of a list.
pub(crate) trait Linked<M: Machine>: Sized + 'static {
    /// Its neighbours.
    fn links(&self) -> &Links<M, Self>;
}

/// The list.
pub(crate) struct Ring<M: Machine, N: Linked<M>> {
    first: M::Cell<*mut N>,
}

fn address<N>(node: &'static N) -> *mut N {
    from_ref(node).cast_mut()
}

fn neighbour<N>(link: &impl PlainCell<*mut N>) -> &'static N {
    // SAFETY: null, or set from a `&'static` by a function of this file.
    unsafe { link.get().as_ref() }.expect("a node in the list has neighbours")
}

impl<M: Machine, N: Linked<M>> Ring<M, N> {
    /// An empty list. All bytes of it are zeros.
    pub(crate) const NEW: Self = Self { first: M::Cell::ZERO };

    pub(crate) fn is_empty(&self) -> bool {
        self.first.get().is_null()
    }

    pub(crate) fn first(&self) -> Option<&'static N> {
        // SAFETY: null, or set from a `&'static` by a function of this file.
        unsafe { self.first.get().as_ref() }
    }

    pub(crate) fn last(&self) -> Option<&'static N> {
        self.first().map(|first| neighbour(&first.links().before))
    }

    pub(crate) fn is_first(&self, node: &'static N) -> bool {
        self.first.get() == address(node)
    }

    /// Who comes after a node of the list.
    pub(crate) fn after(&self, node: &'static N) -> Option<&'static N> {
        Some(node.links().next()).filter(|next| !self.is_first(next))
    }

    /// Who comes before a node of the list.
    pub(crate) fn before(&self, node: &'static N) -> Option<&'static N> {
        if self.is_first(node) { None } else { Some(neighbour(&node.links().before)) }
    }

    /// Puts the node at the end.
    pub(crate) fn push(&self, node: &'static N) {
        let Some(first) = self.first() else {
            node.links().next.set(address(node));
            node.links().before.set(address(node));
            self.first.set(address(node));
            return;
        };
        Self::link(node, first); // the ring's end is in front of its first
    }

    /// Puts the node in front of all.
    pub(crate) fn push_first(&self, node: &'static N) {
        self.push(node);
        self.first.set(address(node));
    }

    /// Puts the node in front of `behind`, which is in the list.
    pub(crate) fn insert(&self, node: &'static N, behind: &'static N) {
        if self.is_first(behind) {
            return self.push_first(node);
        }
        Self::link(node, behind);
    }

    fn link(node: &'static N, behind: &'static N) {
        let before = neighbour(&behind.links().before);
        node.links().next.set(address(behind));
        node.links().before.set(address(before));
        behind.links().before.set(address(node));
        before.links().next.set(address(node));
    }

    /// Takes the node out of the list, in which it is.
    pub(crate) fn remove(&self, node: &'static N) {
        let (next, before) = (node.links().next(), neighbour(&node.links().before));
        node.links().before.set(null_mut());
        if address(next) == address(node) {
            self.first.set(null_mut());
            return;
        }
        next.links().before.set(address(before));
        before.links().next.set(address(next));
        if self.is_first(node) {
            self.first.set(address(next));
        }
    }
}
