//! Wound/wait mutexes: transactions exclude each other, all come to their ends, and the oldest is never refused.

use contend_checker::checked::{Accessed, Change, nodes_out};
use contend_checker::{Bound, Checked, Exploration, Model, Mutation, Report, Search, Violation, explore};
use locks::source::FILES;
use locks::{RawLock, Ww, WwClass, WwContext, WwError, WwMutex};
use machine::{Deadline, Home, Machine, Placed, PlainCell, Plan, Timeout};
use workloads::client::{self, Shape};

type Cell = <Checked as Machine>::Cell<u32>;
type Class = WwClass<Checked>;

/// The mutexes that there are.
const MUTEXES: usize = 3;

fn placed<T: Sync>(value: T) -> Placed<T, Checked> {
    Placed::new(value, Home::FirstTouch)
}

/// What threads do, and whether it came out right.
type Client = fn() -> Result<(), String>;

/// What a thread does.
#[derive(Clone, Copy)]
enum Does {
    /// Takes these in this order, in a transaction.
    Transaction(&'static [usize]),
    /// Takes these all at once.
    All([usize; 2]),
    /// Takes this one without a context.
    Alone(usize),
}
use Does::{All, Alone, Transaction};

const fn class(wounds: bool) -> Class {
    if wounds { Class::wound_wait() } else { Class::wait_die() }
}

/// Every thread counts in each mutex that it holds.
fn threads_do(class: Class, threads: &[&[Does]]) -> Result<(), String> {
    let class = placed(class);
    let mutexes = [(); MUTEXES].map(|()| placed(WwMutex::<Cell, Checked>::new(&class, Cell::ZERO)));
    let count = |cell: &Cell| cell.set(cell.get() + 1);
    Checked::run(&Plan::threads(threads.len()), &|thread| {
        for &does in threads[thread] {
            match does {
                Alone(mutex) => count(&mutexes[mutex].lock()),
                All(two) => {
                    let held = class.lock_all(two.map(|mutex| &*mutexes[mutex]));
                    held.iter().for_each(|held| count(held));
                }
                Transaction(order) => {
                    let mut calls = 0;
                    class.transaction(|transaction| {
                        calls += 1;
                        assert!(calls == 1 || transaction.stamp() != 1, "the oldest was refused");
                        let mut held = [const { None }; MUTEXES];
                        for (&mutex, guard) in order.iter().zip(&mut held) {
                            *guard = Some(transaction.lock(&mutexes[mutex])?);
                        }
                        held.iter().flatten().for_each(|held| count(held));
                        Ok(())
                    });
                }
            }
        }
    });
    let times = |mutex: usize| {
        let of = |does: &Does| match does {
            Transaction(order) => order.contains(&mutex),
            All(two) => two.contains(&mutex),
            Alone(one) => *one == mutex,
        };
        threads.iter().flat_map(|thread| thread.iter()).filter(|does| of(does)).count()
    };
    for (number, mutex) in mutexes.iter().enumerate() {
        let held = mutex.try_lock().ok_or("a mutex is held at the end")?;
        if held.get() as usize != times(number) {
            return Err(format!("{} instead of {} in mutex {number}", held.get(), times(number)));
        }
    }
    if nodes_out() == 0 { Ok(()) } else { Err(format!("{} nodes are not freed", nodes_out())) }
}

/// Two take two mutexes in opposite orders.
fn opposite<const WOUNDS: bool>() -> Result<(), String> {
    threads_do(class(WOUNDS), &[&[Transaction(&[0, 1])], &[Transaction(&[1, 0])]])
}

/// The same, and one of them once more.
fn again<const WOUNDS: bool>() -> Result<(), String> {
    threads_do(class(WOUNDS), &[&[Transaction(&[0, 1]), Transaction(&[1])], &[Transaction(&[1, 0])]])
}

/// The same, by sets.
fn all_at_once<const WOUNDS: bool>() -> Result<(), String> {
    threads_do(class(WOUNDS), &[&[All([0, 1])], &[All([1, 0])]])
}

/// One in a transaction, one without.
fn one_alone<const WOUNDS: bool>() -> Result<(), String> {
    threads_do(class(WOUNDS), &[&[Transaction(&[0, 1])], &[Alone(1), Alone(0)]])
}

/// An older one comes when a younger one waits already: it goes in front.
fn one_goes_in_front<const WOUNDS: bool>() -> Result<(), String> {
    threads_do(class(WOUNDS), &[&[Transaction(&[0])], &[Transaction(&[0, 1])], &[Transaction(&[1, 0])]])
}

/// Three in a ring.
fn ring<const WOUNDS: bool>() -> Result<(), String> {
    let orders: [&[Does]; 3] = [&[Transaction(&[0, 1])], &[Transaction(&[1, 2])], &[Transaction(&[2, 0])]];
    threads_do(class(WOUNDS), &orders)
}

/// Two in transactions, and one without among the waiters.
fn two_and_one_alone<const WOUNDS: bool>() -> Result<(), String> {
    threads_do(class(WOUNDS), &[&[Transaction(&[0, 1])], &[Transaction(&[1, 0])], &[Alone(0)]])
}

/// The second mutex is perhaps given up; a refusal that comes at the same time is another answer.
fn one_gives_up<const WOUNDS: bool>() -> Result<(), String> {
    let class = placed(class(WOUNDS));
    let mutexes = [(); 2].map(|()| placed(Ww::<Checked>::NEW));
    let value = placed(Cell::ZERO);
    Checked::run(&Plan::threads(2), &|thread| {
        let context = WwContext::new(&class);
        let (first, second) = (&mutexes[thread], &mutexes[1 - thread]);
        first.acquire_in(&context, Timeout::NONE).expect("it holds nothing");
        let soon = Timeout::at(Deadline::after_ns::<Checked>(1_000));
        match second.acquire_in(&context, soon) {
            Ok(()) => {
                value.set(value.get() + 1);
                // SAFETY: acquired above.
                unsafe { second.release() };
            }
            Err(error) => assert!(error != WwError::AlreadyHeld),
        }
        // SAFETY: acquired above.
        unsafe { first.release() };
    });
    let is_idle = mutexes.iter().all(|mutex| mutex.is_idle());
    if is_idle && nodes_out() == 0 { Ok(()) } else { Err("something is left".to_owned()) }
}

/// Without contexts, as any mutex.
fn exclusive() -> Result<(), String> {
    let shape = Shape { threads: 2, acquisitions: 2 };
    client::exclusive::<Ww<Checked>, Checked>(shape).map(drop).map_err(|wrong| wrong.to_string())
}

fn timed() -> Result<(), String> {
    let shape = Shape { threads: 2, acquisitions: 2 };
    client::timed::<Ww<Checked>, Checked>(shape).map(drop).map_err(|wrong| wrong.to_string())
}

/// Two threads, so that all of them are explored under each model. The small ones first.
const CLIENTS: [(&str, Client); 8] = [
    ("wait-die, one alone", one_alone::<false>),
    ("wound-wait, one alone", one_alone::<true>),
    ("timed", timed),
    ("exclusive", exclusive),
    ("wait-die, opposite", opposite::<false>),
    ("wound-wait, opposite", opposite::<true>),
    ("wait-die, one gives up", one_gives_up::<false>),
    ("wound-wait, one gives up", one_gives_up::<true>),
];

/// Two threads that do more.
const LARGER: [(&str, Client); 4] = [
    ("wait-die, again", again::<false>),
    ("wound-wait, again", again::<true>),
    ("wait-die, all at once", all_at_once::<false>),
    ("wound-wait, all at once", all_at_once::<true>),
];

/// Three threads, which have millions of states: they are followed as far as a test may take.
const OF_THREE: [(&str, Client); 6] = [
    ("wait-die, one goes in front", one_goes_in_front::<false>),
    ("wound-wait, one goes in front", one_goes_in_front::<true>),
    ("wait-die, ring", ring::<false>),
    ("wound-wait, ring", ring::<true>),
    ("wait-die, two and one alone", two_and_one_alone::<false>),
    ("wound-wait, two and one alone", two_and_one_alone::<true>),
];

/// States of three threads that are looked at.
const MOST_STATES: usize = 30_000;
/// The same where a mistake is looked for, and before that the access in which it is made.
const MOST_STATES_TO_A_MISTAKE: usize = 1_000_000;
const MOST_STATES_TO_AN_ACCESS: usize = 100_000;

fn explored(model: Model, mutation: Option<Mutation>, most_states: Option<usize>, client: Client) -> Report {
    let search = Search::States;
    explore(&Exploration { search, mutation, most_states, ..Exploration::of(model) }, &client)
}

fn is_right(name: &str, model: Model, most_states: Option<usize>, client: Client) {
    let report = explored(model, None, most_states, client);
    let found = report.counterexample.as_ref().map(ToString::to_string);
    assert!(found.is_none(), "{name} under {model}: {found:?}");
    let is_cut_off = most_states.is_some() && report.bound == Some(Bound::States);
    assert!(report.complete || is_cut_off, "{name} under {model}: {:?}", report.bound);
}

#[test]
fn two_come_to_their_ends_under_every_model() {
    for model in Model::ALL {
        for (name, client) in CLIENTS {
            is_right(name, model, None, client);
        }
    }
    for (name, client) in LARGER {
        is_right(name, Model::Sc, None, client);
    }
}

#[test]
fn three_come_to_their_ends_as_far_as_they_are_followed() {
    for (name, client) in OF_THREE {
        is_right(name, Model::Sc, Some(MOST_STATES), client);
    }
}

/// The accesses of the lock, by these clients.
fn accesses(clients: &[(&str, Client)], model: Model) -> Vec<Accessed> {
    let search = Search::States;
    let most_states = Some(MOST_STATES_TO_AN_ACCESS);
    let noting = Exploration { note_accesses: true, search, most_states, ..Exploration::of(model) };
    let mut all: Vec<Accessed> = Vec::new();
    for access in clients.iter().flat_map(|(_, client)| explore(&noting, client).accesses) {
        let is_ours = access.site.file().ends_with("src/ww.rs");
        if is_ours && !all.iter().any(|other| other.same(&access)) {
            all.push(access);
        }
    }
    all
}

#[test]
fn every_ordering_is_needed() {
    let of = |mutation, client| explored(Model::Ra, Some(mutation), None, client).counterexample;
    let found = |mutation| CLIENTS.iter().any(|&(_, client)| of(mutation, client).is_some());
    let all = accesses(&CLIENTS, Model::Ra);
    let orderings = all.iter().flat_map(Accessed::mutations).filter(|mutation| mutation.to.is_of_ordering());
    let (needed, survivors): (Vec<_>, Vec<_>) = orderings.partition(|&mutation| found(mutation));
    assert!(survivors.is_empty(), "{}", survivors.iter().map(|one| format!("{one}\n")).collect::<String>());
    assert!(needed.len() >= 10, "{} orderings", needed.len());
}

/// The mutation of the access whose line in `ww.rs` has this text.
fn mutation(clients: &[(&str, Client)], text: &str, to: Change) -> Mutation {
    let (_, source) = FILES.iter().find(|(name, _)| *name == "ww.rs").expect("it is there");
    let all = accesses(clients, Model::Sc);
    let line = |access: &Accessed| source.lines().nth(access.site.line() as usize - 1).expect("a line");
    let mutations = all.iter().filter(|access| line(access).contains(text)).flat_map(Accessed::mutations);
    let mut mutations = mutations.filter(|mutation| mutation.to == to);
    let mutation = mutations.next().unwrap_or_else(|| panic!("no access has {text}"));
    assert!(mutations.next().is_none(), "{text} is not the only one");
    mutation
}

/// What a lock with this mistake does.
fn wrong(client: Client, text: &str, to: Change) -> Option<Violation> {
    let mutation = mutation(&[("", client)], text, to);
    explored(Model::Sc, Some(mutation), Some(MOST_STATES_TO_A_MISTAKE), client)
        .counterexample
        .map(|found| found.violation)
}

fn is_endless(client: Client, text: &str, to: Change) {
    let found = wrong(client, text, to);
    assert!(matches!(found, Some(Violation::EndlessWait { .. })), "{text}: {found:?}");
}

#[test]
fn a_waiter_that_is_not_woken_is_found() {
    is_endless(one_alone::<false>, "M::wake(told, 1)", Change::Dropped);
}

#[test]
fn a_wounded_one_that_does_not_give_way_is_a_deadlock() {
    is_endless(opposite::<true>, "self.told.fetch_or(what, Release)", Change::Dropped);
}

#[test]
fn a_younger_one_that_waits_instead_of_dying_is_a_deadlock() {
    is_endless(opposite::<false>, "let holds_locks = node.held.get() != 0", Change::ReadsZero);
}

/// An older one that holds a lock waits behind a younger one, which gets the other lock and waits for the older one's.
#[test]
fn a_waiter_out_of_order_is_a_deadlock() {
    is_endless(one_goes_in_front::<true>, "match waiter.stamp.get()", Change::ReadsZero);
}
