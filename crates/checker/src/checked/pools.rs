//! The pools of queue nodes.

use std::panic::Location as Site;
use std::ptr::NonNull;

use machine::Ordering;

use super::arena::{NAMED_NODES, NodeLocations, NodeType, POOL_NODES};
use super::session::{Session, State};
use crate::graph::{EventKind, LocationId, MAX_THREADS};

impl Session {
    /// Marks a node as taken or freed.
    fn mark_node(&self, life: LocationId, kind: EventKind, site: &'static Site<'static>) {
        let thread = self.thread().expect("only threads take nodes");
        self.with(State::attempt_changes);
        self.answered(|state| state.engine().node(thread, life, kind, Some(site)));
    }

    pub(super) fn allocate_node(
        &self,
        of: NodeType,
        site: &'static Site<'static>,
    ) -> (NonNull<u8>, Option<u32>) {
        // No thread has the last number, so that the client's own may use its pool.
        let thread = self.thread().unwrap_or(MAX_THREADS - 1);
        for index in 0..POOL_NODES {
            let (node, locations) = self.with(|state| state.arena.node(of, thread, index));
            if self.claim(locations, site) {
                let nameless = self.with(|state| state.nameless == Some(thread));
                let is_named = index < NAMED_NODES && !nameless;
                let name = thread * NAMED_NODES + index;
                return (node, is_named.then_some(name as u32));
            }
        }
        assert!(
            self.thread().is_some(),
            "the client's own thread holds more than {POOL_NODES} queue nodes at once"
        );
        self.cannot_follow()
    }

    /// Takes a node unless a thread has it.
    fn claim(&self, node: NodeLocations, site: &'static Site<'static>) -> bool {
        if self.thread().is_none() {
            return self.with(|state| {
                let is_free = state.settled(node.taken) == 0;
                state.settle(node.taken, 1);
                is_free
            });
        }
        let (_, taken) = self.load_hidden(node.taken, Ordering::Acquire, site, None);
        if taken == 0 {
            self.store_hidden(node.taken, 1, Ordering::Relaxed, site);
            self.mark_node(node.life, EventKind::Take, site);
        }
        taken == 0
    }

    pub(super) fn free_node(&self, address: usize, site: &'static Site<'static>) {
        let locations = self.with(|state| state.arena.node_of(address));
        if self.thread().is_none() {
            let was_taken = self.with(|state| state.settled(locations.taken)) != 0;
            assert!(was_taken, "the client's own thread frees a queue node that is in its pool");
            return self.settle(locations.taken, 0);
        }
        self.mark_node(locations.life, EventKind::Free, site);
        self.store_hidden(locations.taken, 0, Ordering::Release, site);
    }

    /// How many nodes are out of their pools while the client's own thread runs alone.
    pub(super) fn nodes_out(&self) -> usize {
        self.with(|state| state.arena.taken().filter(|&taken| state.settled(taken) != 0).count())
    }
}
