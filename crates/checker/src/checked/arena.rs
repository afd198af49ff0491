//! The memory of the checked machine: its offsets are the locations, so that an execution can be run again exactly.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::TypeId;
use std::ptr::NonNull;

use machine::LINE_BYTES;

use crate::graph::{LocationId, MAX_THREADS};

/// What the client's own thread allocates before it runs the others.
const MAIN_BYTES: usize = 64 << 10;
/// What each other thread allocates.
const THREAD_BYTES: usize = 4 << 10;
/// All queue nodes.
const NODE_BYTES: usize = 128 << 10;
const NODES_START: usize = MAIN_BYTES + MAX_THREADS * THREAD_BYTES;
const ARENA_BYTES: usize = NODES_START + NODE_BYTES;

/// Queue nodes in a thread's pool that have names.
pub(super) const NAMED_NODES: usize = 4;
/// Queue nodes in a thread's pool.
pub(super) const POOL_NODES: usize = 8;
const POOL_BYTES: usize = MAX_THREADS * POOL_NODES * LINE_BYTES;

/// No location has been named here yet.
const UNNAMED: LocationId = LocationId::MAX;

/// The locations that stand for a queue node as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeLocations {
    /// Its freeing and taking.
    pub(super) life: LocationId,
    /// The flag by which its pool knows whether a thread has it.
    pub(super) taken: LocationId,
}

/// A type of queue node.
#[derive(Clone, Copy)]
pub(super) struct NodeType {
    id: TypeId,
    /// Without path and parameters. Nodes are called by it, since which type comes first differs from execution to execution.
    name: &'static str,
}

impl NodeType {
    pub(super) fn of<T: 'static>() -> Self {
        let path = std::any::type_name::<T>();
        let path = path.split_once('<').map_or(path, |(path, _)| path);
        Self { id: TypeId::of::<T>(), name: path.rsplit_once("::").map_or(path, |(_, name)| name) }
    }
}

/// The pools of all threads for one type of node.
struct Pools {
    of: NodeType,
    start: usize,
    /// Those that were used: most never are, and every location makes graphs larger.
    nodes: Vec<Option<NodeLocations>>,
}

impl Pools {
    /// What tables call a node of these pools.
    fn node_name(&self, index: usize) -> String {
        format!("{}{}.{}", self.of.name, index / POOL_NODES, index % POOL_NODES)
    }
}

/// Memory, and the numbers of the locations in it.
pub(super) struct ClientMemory {
    memory: NonNull<u8>,
    /// By byte.
    names: Vec<LocationId>,
    used: Vec<usize>,
    /// By location: its offset; none for those that stand for something else.
    pub(super) offsets: Vec<Option<u32>>,
    /// By location: what its name in tables is.
    queues: Vec<(LocationId, LocationId)>,
    pools: Vec<Pools>,
    nodes_used: usize,
}

fn layout() -> Layout {
    Layout::from_size_align(ARENA_BYTES, 4096).expect("a constant layout")
}

impl ClientMemory {
    pub(super) fn new() -> Self {
        // SAFETY: not of size zero.
        let memory = unsafe { alloc_zeroed(layout()) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout()) };
        Self {
            memory,
            names: vec![UNNAMED; ARENA_BYTES],
            used: vec![0; MAX_THREADS + 1],
            offsets: Vec::new(),
            queues: Vec::new(),
            pools: Vec::new(),
            nodes_used: 0,
        }
    }

    /// Forgets what was allocated, not what locations are called.
    pub(super) fn reset_main(&mut self) {
        self.used.fill(0);
    }

    /// Forgets what threads allocated.
    pub(super) fn reset_threads(&mut self) {
        self.used[..MAX_THREADS].fill(0);
    }

    /// Memory for a thread, or for the client's own when there is none; none if the thread has too little left.
    ///
    /// # Panics
    /// When the client's own has.
    pub(super) fn alloc(&mut self, thread: Option<usize>, layout: Layout) -> Option<NonNull<u8>> {
        let (start, bytes) = match thread {
            Some(thread) => (MAIN_BYTES + thread * THREAD_BYTES, THREAD_BYTES),
            None => (0, MAIN_BYTES),
        };
        let used = &mut self.used[thread.unwrap_or(MAX_THREADS)];
        let offset = used.next_multiple_of(layout.align().max(LINE_BYTES));
        if offset + layout.size() > bytes {
            assert!(
                thread.is_some(),
                "the checked machine has {bytes} bytes for the client; make it smaller"
            );
            return None;
        }
        *used = offset + layout.size();
        Some(self.at(start + offset))
    }

    /// Bytes that a thread has.
    pub(super) fn allocated(&self, thread: usize) -> usize {
        self.used[thread]
    }

    /// A thread has no more bytes than it had.
    pub(super) fn set_allocated(&mut self, thread: usize, bytes: usize) {
        self.used[thread] = bytes;
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset < ARENA_BYTES);
        // SAFETY: inside the arena.
        unsafe { self.memory.add(offset) }
    }

    fn fresh(&mut self, offset: Option<usize>) -> LocationId {
        let name = self.offsets.len() as LocationId;
        assert!(name < UNNAMED, "the client uses more than {UNNAMED} locations");
        self.offsets.push(offset.map(|offset| offset as u32));
        name
    }

    /// The location at an address, and the node that it lies in if it was not known before.
    #[inline]
    pub(super) fn location(&mut self, address: usize) -> (LocationId, Option<LocationId>) {
        let offset = address.wrapping_sub(self.memory.as_ptr() as usize);
        match self.names.get(offset) {
            Some(&name) if name != UNNAMED => (name, None),
            Some(_) => {
                let name = self.fresh(Some(offset));
                self.names[offset] = name;
                (name, self.node_at(offset).map(|node| node.life))
            }
            None => panic!(
                "a word or cell lies outside the checked machine's memory: put shared objects into Placed::new"
            ),
        }
    }

    fn node_at(&mut self, offset: usize) -> Option<NodeLocations> {
        let inside = |pools: &Pools| (pools.start..pools.start + POOL_BYTES).contains(&offset);
        let number = self.pools.iter().position(inside)?;
        Some(self.locations_of(number, (offset - self.pools[number].start) / LINE_BYTES))
    }

    fn locations_of(&mut self, pools: usize, node: usize) -> NodeLocations {
        if let Some(known) = self.pools[pools].nodes[node] {
            return known;
        }
        let new = NodeLocations { life: self.fresh(None), taken: self.fresh(None) };
        *self.pools[pools].nodes[node].insert(new)
    }

    /// The location that stands for the sleepers of a futex word.
    pub(super) fn queue_of(&mut self, word: LocationId) -> LocationId {
        if let Some(&(_, queue)) = self.queues.iter().find(|(of, _)| *of == word) {
            return queue;
        }
        let queue = self.fresh(None);
        self.queues.push((word, queue));
        queue
    }

    /// The node of a thread's pool for nodes of type `of`.
    pub(super) fn node(&mut self, of: NodeType, thread: usize, index: usize) -> (NonNull<u8>, NodeLocations) {
        let number = thread * POOL_NODES + index;
        let known = self.pools.iter().position(|pools| pools.of.id == of.id);
        let known = known.unwrap_or_else(|| {
            assert!(
                self.nodes_used + POOL_BYTES <= NODE_BYTES,
                "the client uses too many types of queue nodes"
            );
            let start = NODES_START + self.nodes_used;
            self.nodes_used += POOL_BYTES;
            let nodes = vec![None; MAX_THREADS * POOL_NODES];
            self.pools.push(Pools { of, start, nodes });
            self.pools.len() - 1
        });
        let locations = self.locations_of(known, number);
        (self.at(self.pools[known].start + number * LINE_BYTES), locations)
    }

    /// The flags by which pools know whether a thread has a node.
    pub(super) fn taken(&self) -> impl Iterator<Item = LocationId> {
        self.pools.iter().flat_map(|pools| &pools.nodes).flatten().map(|node| node.taken)
    }

    /// The locations of the node at an address.
    pub(super) fn node_of(&mut self, address: usize) -> NodeLocations {
        let offset = address.wrapping_sub(self.memory.as_ptr() as usize);
        self.node_at(offset).expect("a node that is freed came out of a pool")
    }

    /// What a location is called in tables.
    pub(crate) fn name(&self, location: LocationId) -> String {
        if let Some((word, _)) = self.queues.iter().find(|(_, queue)| *queue == location) {
            return format!("sleepers of {}", self.name(*word));
        }
        for pools in &self.pools {
            let known = pools.nodes.iter().enumerate();
            for (index, node) in known.filter_map(|(index, node)| Some((index, node.as_ref()?))) {
                let name = || pools.node_name(index);
                if node.life == location {
                    return name();
                }
                if node.taken == location {
                    return format!("{}.taken", name());
                }
            }
        }
        let Some(Some(offset)) = self.offsets.get(location as usize) else { return format!("[{location}]") };
        self.name_at(*offset as usize)
    }

    fn name_at(&self, offset: usize) -> String {
        for pools in &self.pools {
            if (pools.start..pools.start + POOL_BYTES).contains(&offset) {
                let inside = offset - pools.start;
                return format!("{}+{}", pools.node_name(inside / LINE_BYTES), inside % LINE_BYTES);
            }
        }
        format!("{}+{}", object_name(offset / LINE_BYTES), offset % LINE_BYTES)
    }

    /// A value as tables show it: an address by its name.
    pub(crate) fn show(&self, value: u64) -> String {
        let offset = (value as usize).wrapping_sub(self.memory.as_ptr() as usize);
        if offset < ARENA_BYTES { format!("&{}", self.name_at(offset)) } else { value.to_string() }
    }
}

/// Objects are called A, B, C and so on, by the line that they start on.
fn object_name(line: usize) -> String {
    match u8::try_from(line) {
        Ok(line) if line < 26 => char::from(b'A' + line).to_string(),
        _ => format!("line{line}"),
    }
}

impl Drop for ClientMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.memory.as_ptr(), layout()) };
    }
}
