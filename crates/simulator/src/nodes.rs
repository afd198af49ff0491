//! What belongs to a thread in the simulation's memory: a small pool of queue nodes, and what its waits have learned.

use std::alloc::Layout;
use std::ptr::NonNull;

use machine::{Home, LINE_BYTES, THREAD_MEMORY};

use crate::arena::SimulatedMemory;

/// Queue nodes of a thread that have names.
pub(crate) const NAMED_NODES: u32 = 4;

/// The nodes and the memory of all threads. A pool outlives its thread, as a later one with the same number uses it again.
#[derive(Default)]
pub(crate) struct NodePools {
    /// By thread: the pool's offset and which of its nodes are taken.
    pools: Vec<Option<(usize, u32)>>,
    /// By line: the thread whose pool it is in, plus one; zero for lines of no pool.
    owners: Vec<u32>,
    /// Nodes without a name that no thread uses.
    spare: Vec<usize>,
    /// By thread: its memory's offset.
    memories: Vec<Option<usize>>,
}

impl NodePools {
    /// Whether there is a free node for a thread in memory that has been made.
    pub(crate) fn has_free(&self, thread: u32) -> bool {
        let pool = self.pools.get(thread as usize).copied().flatten();
        pool.is_some_and(|(_, taken)| taken != (1 << NAMED_NODES) - 1) || !self.spare.is_empty()
    }

    /// A free node of a thread, and its name if it is one of the pool.
    pub(crate) fn take(&mut self, arena: &mut SimulatedMemory, thread: u32) -> (NonNull<u8>, Option<u32>) {
        let (pool, taken) = self.pool(arena, thread);
        if let Some(index) = (0..NAMED_NODES).find(|index| *taken >> index & 1 == 0) {
            *taken |= 1 << index;
            return (arena.at(*pool + index as usize * LINE_BYTES), Some(thread * NAMED_NODES + index));
        }
        let offset = self.spare.pop().unwrap_or_else(|| arena.alloc(lines(1), Home::FirstTouch));
        (arena.at(offset), None)
    }

    /// Gives back the node at an offset.
    pub(crate) fn give(&mut self, offset: usize) {
        let line = offset / LINE_BYTES;
        let Some(owner) = self.owners.get(line).and_then(|owner| owner.checked_sub(1)) else {
            return self.spare.push(offset);
        };
        if let Some(Some((pool, taken))) = self.pools.get_mut(owner as usize) {
            *taken &= !(1 << (line - *pool / LINE_BYTES));
        }
    }

    /// The node with a name.
    pub(crate) fn named(&mut self, arena: &mut SimulatedMemory, name: u32) -> NonNull<u8> {
        let (pool, _) = self.pool(arena, name / NAMED_NODES);
        arena.at(*pool + (name % NAMED_NODES) as usize * LINE_BYTES)
    }

    /// The memory of a thread; a later one with the same number finds what the former left there.
    pub(crate) fn memory(&mut self, arena: &mut SimulatedMemory, thread: u32) -> NonNull<u8> {
        let index = thread as usize;
        if index >= self.memories.len() {
            self.memories.resize(index + 1, None);
        }
        let offset = *self.memories[index].get_or_insert_with(|| arena.alloc(memory(), Home::FirstTouch));
        arena.at(offset)
    }

    fn pool(&mut self, arena: &mut SimulatedMemory, thread: u32) -> &mut (usize, u32) {
        let index = thread as usize;
        if index >= self.pools.len() {
            self.pools.resize(index + 1, None);
        }
        self.pools[index].get_or_insert_with(|| {
            let offset = arena.alloc(lines(NAMED_NODES as usize), Home::FirstTouch);
            let first = offset / LINE_BYTES;
            let end = first + NAMED_NODES as usize;
            if end > self.owners.len() {
                self.owners.resize(end, 0);
            }
            self.owners[first..end].fill(thread + 1);
            (offset, 0)
        })
    }
}

fn lines(count: usize) -> Layout {
    Layout::from_size_align(count * LINE_BYTES, LINE_BYTES).expect("a few lines are a valid layout")
}

fn memory() -> Layout {
    Layout::from_size_align(THREAD_MEMORY * size_of::<u64>(), LINE_BYTES)
        .expect("some cells are a valid layout")
}
