//! What is checked besides the locks of the catalogue: locks that are acquired in a way of their own, what threads wait on, and what they
//! share where no lock scales.

use super::waiting::{
    all_permits_but_those_taken, barrier_for_none, first_comes_first, guard_is_notified,
    guard_waits_until_it_is_so, guard_waits_while, guards_bring_permits_back, no_permit_comes,
    no_wake_up_comes, once_is_completed, once_panics_among_three, once_panics_late, one_of_each_size,
    one_of_two_leaves, one_of_two_waits_again, one_permit_is_tried, one_waits_twice, rounds_wrap,
    three_notifications, two_permits_at_once, wakers_do_not_look,
};
use super::{gated, refusals};
use checker::Checked;
use locks::catalogue::{LOCKS, Lock};
use locks::{RtMutex, Ww};
use machine::Run;
use workloads::client::transactions::{
    all_at_once, one_alone, one_gives_up, one_goes_in_front, opposite, ring, same_order, two_and_one_alone,
    younger_dies,
};
use workloads::client::{Chosen, Wrong, scalable, waiting};

/// They are named as locks are; only `CLIENTS` suit those that are none.
pub const OBJECTS: &[Lock] = &[
    object(RT, "the owner runs with the highest priority of those that wait", true),
    object(
        WW,
        "many locks in any order, and of those that would wait for each other the younger gives way",
        true,
    ),
    object("condvar", "condition variable", false),
    object("semaphore", "counting semaphore", false),
    object("barrier", "barrier", false),
    object("once", "something that is done once", false),
    object("wait-table", "a table of waits on addresses", false),
    object(
        "upgradable",
        "a gate in front of a reader-writer lock, for readers that become the writer",
        false,
    ),
    object("seq-lock", "a value of a few words that readers read again when a writer came between", false),
    object("counter", "a counter with a shard for each thread", false),
    object("read-mostly", "a value with a reader-writer lock for each thread", false),
];

const RT: &str = "rt-mutex";
pub(super) const WW: &str = "ww-mutex";

const fn object(name: &'static str, summary: &'static str, timed: bool) -> Lock {
    Lock {
        name,
        summary,
        timed,
        shared: false,
        owner_releases: true,
        opaque: true,
        wraps: false,
        bounds_readers: false,
        promises: false,
        ..LOCKS[0]
    }
}

/// Whether it is one of [`OBJECTS`] that is no lock, and has no other clients than its own.
pub(super) fn is_no_lock(lock: &Lock) -> bool {
    ![RT, WW].contains(&lock.name) && OBJECTS.iter().any(|object| object.name == lock.name)
}

/// Whether it is one of [`OBJECTS`].
pub(super) fn is_object(lock: &Lock) -> bool {
    OBJECTS.iter().any(|object| object.name == lock.name)
}

/// Runs a client of locks with one of [`OBJECTS`]; none if it is none, or cannot do that.
pub(super) fn run(chosen: Chosen, lock: &Lock) -> Option<Result<Run, Wrong>> {
    use locks::catalogue::Visitor as _;
    match lock.name {
        RT => chosen.timed::<RtMutex<Checked>>(lock),
        WW => chosen.timed::<Ww<Checked>>(lock),
        _ => None,
    }
}

/// A client of one of [`OBJECTS`].
pub(super) struct ObjectClient {
    pub(super) name: &'static str,
    /// Which it is of.
    pub(super) of: &'static str,
    pub(super) threads: usize,
    pub(super) run: fn() -> Result<(), String>,
}

const fn client(
    of: &'static str,
    name: &'static str,
    threads: usize,
    run: fn() -> Result<(), String>,
) -> ObjectClient {
    ObjectClient { name, of, threads, run }
}

/// All of them.
pub(super) const CLIENTS: [ObjectClient; 77] = [
    client("condvar", "notified", 2, waiting::one_is_notified::<Checked>),
    client("condvar", "all-notified", 3, waiting::all_are_notified::<Checked>),
    client("condvar", "times-out", 2, waiting::one_times_out::<Checked>),
    client("condvar", "is-freed", 2, waiting::it_is_freed::<Checked>),
    client("semaphore", "one-permit", 2, waiting::one_permit::<Checked>),
    client("semaphore", "permits-come", 3, waiting::permits_come::<Checked>),
    client("semaphore", "permit-or-not", 2, waiting::one_gives_up::<Checked>),
    client("semaphore", "nothing-then-permit", 2, waiting::nothing_then_a_permit::<Checked>),
    client("barrier", "rounds", 2, waiting::two_rounds::<Checked>),
    client("barrier", "pairs", 4, waiting::more_than_the_barrier_is_for::<Checked>),
    client("barrier", "three", 3, waiting::all_of_three::<Checked>),
    client("semaphore", "room-for-one", 2, waiting::room_for_one_permit::<Checked>),
    client("semaphore", "no-permit", 2, no_permit_comes),
    client("semaphore", "all-permits", 2, all_permits_but_those_taken),
    client("once", "once", 3, waiting::once::<Checked>),
    client("once", "panics", 2, waiting::once_panics::<Checked>),
    client("once", "panics-late", 2, once_panics_late),
    client("once", "completed", 2, once_is_completed),
    client("wait-table", "woken", 2, waiting::table_wakes::<Checked>),
    client("wait-table", "one-by-one", 3, waiting::table_wakes_one_by_one::<Checked>),
    client("wait-table", "two-words", 3, waiting::table_wakes_two::<Checked>),
    client("wait-table", "three-wait", 4, waiting::table_of_three::<Checked>),
    client("wait-table", "woken-or-not", 2, waiting::table_waiter_gives_up::<Checked>),
    client("wait-table", "not-woken", 2, no_wake_up_comes),
    client("wait-table", "waits-twice", 2, one_waits_twice),
    client("wait-table", "waits-again", 3, one_of_two_waits_again),
    client("wait-table", "grows", 2, waiting::table_grows::<Checked>),
    client("wait-table", "grows-twice", 2, waiting::table_grows_twice::<Checked>),
    client(WW, "wait-die-same-order", 2, same_order::<false, Checked>),
    client(WW, "wound-wait-same-order", 2, same_order::<true, Checked>),
    client(WW, "wait-die-younger", 2, younger_dies::<Checked>),
    client(WW, "wait-die-opposite", 2, opposite::<false, Checked>),
    client(WW, "wound-wait-opposite", 2, opposite::<true, Checked>),
    client(WW, "wait-die-alone", 2, one_alone::<false, Checked>),
    client(WW, "wait-die-set", 2, all_at_once::<false, Checked>),
    client(WW, "wound-wait-set", 2, all_at_once::<true, Checked>),
    client(WW, "wound-wait-gives-up", 2, one_gives_up::<true, Checked>),
    client(WW, "wound-wait-in-front", 3, one_goes_in_front::<true, Checked>),
    client(WW, "wait-die-ring", 3, ring::<false, Checked>),
    client(WW, "wait-die-bystander", 3, two_and_one_alone::<false, Checked>),
    client(WW, "wait-die-tries", 2, refusals::refused_then_tries),
    client(WW, "wait-die-goes-without", 2, refusals::refused_goes_without),
    client(WW, "wound-wait-times-out", 2, refusals::times_out_and_goes_on),
    client(WW, "wound-wait-holds-nothing", 3, refusals::one_holds_nothing),
    client("semaphore", "one-of-two-leaves", 3, one_of_two_leaves),
    client("semaphore", "permits-at-once", 3, two_permits_at_once),
    client("semaphore", "permit-tried", 2, one_permit_is_tried),
    client("once", "panics-among-three", 3, once_panics_among_three),
    client("barrier", "rounds-wrap", 2, rounds_wrap),
    client("condvar", "guard-notified", 2, guard_is_notified),
    client("condvar", "three-notifications", 3, three_notifications),
    client("upgradable", "gated-tries", 2, gated::tries),
    client("upgradable", "gated-times-out", 2, gated::times_out),
    client("upgradable", "gated-gives-up", 2, gated::gives_up),
    client("upgradable", "gated-reader-leaves", 3, gated::reader_leaves),
    client("upgradable", "gated-writer-leaves", 3, gated::writer_leaves),
    client("upgradable", "gated-downgrades", 3, gated::downgrades),
    client("upgradable", "gated-freed", 2, gated::is_freed),
    client("wait-table", "first-come", 3, first_comes_first),
    client("wait-table", "no-look", 2, wakers_do_not_look),
    client("wait-table", "one-of-each-size", 3, one_of_each_size),
    client("semaphore", "permit-guards", 2, guards_bring_permits_back),
    client("barrier", "for-none", 1, barrier_for_none),
    client("condvar", "waits-while", 2, guard_waits_while),
    client("condvar", "waits-until-so", 2, guard_waits_until_it_is_so),
    client("upgradable", "stays-upgradable", 2, gated::keeps_its_upgradable_hold),
    client("upgradable", "upgrade-gives-up", 2, gated::upgrade_gives_up),
    client("upgradable", "second-gives-up", 2, gated::second_gives_up),
    client("seq-lock", "reads-whole", 2, scalable::reads_are_whole::<Checked>),
    client("seq-lock", "updates", 2, scalable::updates_add_up::<Checked>),
    client("seq-lock", "tries-whole", 2, scalable::tries_are_whole::<Checked>),
    client("counter", "counts", 3, scalable::counts_add_up::<Checked>),
    client("counter", "sums-grow", 2, scalable::sums_grow::<Checked>),
    client("read-mostly", "beside-writer", 3, scalable::readers_beside_a_writer::<Checked>),
    client("read-mostly", "writers-meet", 2, scalable::writers_meet::<Checked>),
    client("read-mostly", "readers-meet", 2, scalable::readers_meet::<Checked, 2>),
    client("read-mostly", "one-shard", 2, scalable::readers_meet::<Checked, 1>),
];
