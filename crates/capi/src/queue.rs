//! MCS with the caller's nodes.

use core::ffi::c_int;

use locks::{McsNode, McsQueue};
use machine::Patient;

use crate::busy_unless;

type Queue = McsQueue<Patient>;
type Node = McsNode<Patient>;

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_mcs_queue_lock(queue: *const Queue, node: *const Node) -> c_int {
    // SAFETY: the caller keeps both until it has unlocked.
    unsafe { (*queue).acquire(&*node) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_mcs_queue_trylock(queue: *const Queue, node: *const Node) -> c_int {
    // SAFETY: the caller keeps both until it has unlocked.
    busy_unless(unsafe { (*queue).try_acquire(&*node) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn contend_mcs_queue_unlock(queue: *const Queue, node: *const Node) -> c_int {
    // SAFETY: the caller locked with this node.
    unsafe { (*queue).release(&*node) };
    0
}
