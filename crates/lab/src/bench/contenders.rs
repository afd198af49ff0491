//! Who is measured: our locks and those of other libraries.

use crate::names;
use locks::catalogue::{self, Family, LOCKS, Lock, Visitor};
use locks::{RawRwLock, TryLock};
use machine::{Machine, Native, Patient};
use peers::{PEERS, Peer};
use workloads::exclusion::{Called, CalledShared, Exclusion, Own, OwnShared};

/// A lock to be measured.
#[derive(Debug, Clone, Copy)]
pub enum Contender {
    /// One of ours.
    Own(&'static Lock),
    /// Another library's.
    Peer(&'static Peer),
}

/// How the waiters of a lock of ours pass their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// As the algorithm says, for as long as it takes.
    Pure,
    /// After a bound they yield, then sleep: what more threads than cores need.
    Patient,
}

/// A measurement of any lock.
pub trait Measure {
    /// What it gives.
    type Output;
    /// Measures locks of the type, on threads of the machine.
    fn measure<M: Machine, S: Exclusion>(self) -> Self::Output;
}

impl Contender {
    /// The name that commands take.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Own(lock) => lock.name,
            Self::Peer(peer) => peer.name,
        }
    }

    /// Whose it is.
    pub fn library(&self) -> &'static str {
        match self {
            Self::Own(_) => "contend",
            Self::Peer(peer) => peer.library,
        }
    }

    /// Why it cannot be measured here.
    pub fn missing(&self) -> Option<&'static str> {
        match self {
            Self::Own(_) => None,
            Self::Peer(peer) => peer.missing,
        }
    }

    /// How its hand-over grows with the waiters, where that is known: of another library's lock by the lock of ours with the
    /// same algorithm or use.
    pub fn family(&self) -> Option<Family> {
        match self {
            Self::Own(lock) => Some(lock.family),
            Self::Peer(peer) => peer.same_as.and_then(catalogue::find).map(|lock| lock.family),
        }
    }

    /// Whether readers share it.
    pub fn shares(&self) -> bool {
        match self {
            Self::Own(lock) => lock.shared,
            Self::Peer(peer) => peer.shared,
        }
    }

    /// Whether its waiters sleep.
    pub fn blocks(&self) -> bool {
        match self {
            Self::Own(lock) => lock.family.sleeps(),
            Self::Peer(peer) => peer.blocks,
        }
    }

    /// How its waiters wait with so many threads on so many cores: one of ours that spins becomes patient where threads
    /// share cores, since it would not end otherwise; everybody else waits as made.
    pub fn wait(&self, threads: usize, cores: usize) -> Wait {
        match self {
            Self::Own(_) if threads > cores && !self.blocks() => Wait::Patient,
            _ => Wait::Pure,
        }
    }

    /// In a few words, how it waits when it waits so.
    pub fn wait_in_words(&self, wait: Wait) -> &'static str {
        match wait {
            Wait::Patient => "spins, yields, then sleeps",
            Wait::Pure if self.blocks() => "sleeps",
            Wait::Pure => "spins",
        }
    }

    /// Measures it; none where it is missing.
    pub fn measure<V: Measure>(&self, wait: Wait, measure: V) -> Option<V::Output> {
        match (self, wait) {
            (Self::Own(_), Wait::Pure) => self.measure_on::<Native, V>(measure),
            (Self::Own(_), Wait::Patient) => self.measure_on::<Patient, V>(measure),
            (Self::Peer(peer), _) => peers::visit(peer.name, Foreign(measure)),
        }
    }

    /// Measures a lock of ours on a machine of any kind; none for the others, which know this one alone.
    pub fn measure_on<M: Machine, V: Measure>(&self, measure: V) -> Option<V::Output> {
        match self {
            Self::Own(lock) => catalogue::visit::<M, _>(lock.name, Inlined(measure)),
            Self::Peer(_) => None,
        }
    }

    /// Measures a lock of ours behind function calls, as C libraries are reached; none for the others.
    pub fn measure_called<V: Measure>(&self, measure: V) -> Option<V::Output> {
        match self {
            Self::Own(lock) => catalogue::visit::<Native, _>(lock.name, ThroughCalls(measure)),
            Self::Peer(_) => None,
        }
    }
}

struct Foreign<V>(V);

impl<V: Measure> peers::Visitor for Foreign<V> {
    type Output = V::Output;

    fn visit<P: Exclusion>(self, _: &'static Peer) -> V::Output {
        self.0.measure::<Native, P>()
    }
}

struct Inlined<V>(V);

impl<M: Machine, V: Measure> Visitor<M> for Inlined<V> {
    type Output = V::Output;

    fn tried<L: TryLock<M>>(self, _: &Lock) -> V::Output {
        self.0.measure::<M, Own<L, M>>()
    }

    fn shared<L: RawRwLock<M> + TryLock<M>>(self, _: &Lock) -> V::Output {
        self.0.measure::<M, OwnShared<L, M>>()
    }
}

struct ThroughCalls<V>(V);

impl<M: Machine, V: Measure> Visitor<M> for ThroughCalls<V> {
    type Output = V::Output;

    fn tried<L: TryLock<M>>(self, _: &Lock) -> V::Output {
        self.0.measure::<M, Called<L, M>>()
    }

    fn shared<L: RawRwLock<M> + TryLock<M>>(self, _: &Lock) -> V::Output {
        self.0.measure::<M, CalledShared<L, M>>()
    }
}

/// The locks of these names, each once; without names all that a benchmark of locks is about.
///
/// # Errors
///
/// A name that nobody has.
pub fn select(names: &[String]) -> anyhow::Result<Vec<Contender>> {
    if names.is_empty() {
        let peers = PEERS.iter().filter(|peer| !SEMAPHORES.contains(&peer.name)).map(Contender::Peer);
        return Ok(LOCKS.iter().map(Contender::Own).chain(peers).collect());
    }
    let mut chosen: Vec<Contender> = Vec::new();
    for name in names {
        let found = find(name);
        let Some(contender) = found else {
            let others: Vec<_> = PEERS.iter().map(|peer| peer.name).collect();
            let known = LOCKS.iter().map(|lock| lock.name).chain(others.iter().copied());
            let listed =
                format!("`contend locks` lists ours; of other libraries there are {}", others.join(", "));
            return Err(names::unknown("lock", name, known, &listed).into());
        };
        if chosen.iter().all(|other| other.name() != contender.name()) {
            chosen.push(contender);
        }
    }
    Ok(chosen)
}

/// The peers that are semaphores, which have a benchmark of their own.
pub const SEMAPHORES: [&str; 2] = ["posix-semaphore", "sysv-semaphore"];

/// The lock of this name, ours or another library's.
pub fn find(name: &str) -> Option<Contender> {
    catalogue::find(name).map(Contender::Own).or_else(|| peers::find(name).map(Contender::Peer))
}

/// A lock that does not exclude, which every benchmark has to notice.
#[cfg(test)]
pub mod open {
    use workloads::client::Wrong;
    use workloads::exclusion::Exclusion;

    /// Lets everybody in.
    pub struct Open;

    impl Exclusion for Open {
        fn new() -> Self {
            Self
        }

        fn exclusive<R>(&self, section: impl FnOnce() -> R) -> R {
            section()
        }
    }

    /// What a benchmark says of it. Threads that do not meet in one run, on a busy machine, do so in another.
    pub fn caught(run: impl Fn() -> Option<Wrong>) -> Wrong {
        (0..200).find_map(|_| run()).expect("two hundred runs of threads that exclude each other by chance")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(asked: &[&str]) -> Result<Vec<&'static str>, String> {
        let asked: Vec<_> = asked.iter().map(|name| (*name).to_owned()).collect();
        let chosen = select(&asked).map_err(|error| error.to_string())?;
        Ok(chosen.iter().map(Contender::name).collect())
    }

    #[test]
    fn names_choose_once_and_unknown_ones_are_told_the_others() {
        assert_eq!(names(&["ticket", "posix-mutex", "ticket"]).unwrap(), ["ticket", "posix-mutex"]);
        let message = names(&["tickets"]).unwrap_err();
        assert!(message.contains("contend locks") && message.contains("std-mutex"), "{message}");
        let all = names(&[]).unwrap();
        assert_eq!(all.len(), LOCKS.len() + PEERS.len() - SEMAPHORES.len());
    }

    #[test]
    fn only_locks_of_ours_that_spin_become_patient() {
        let wait = |name: &str, threads| find(name).unwrap().wait(threads, 2);
        assert_eq!(wait("ticket", 2), Wait::Pure);
        assert_eq!(wait("ticket", 3), Wait::Patient);
        assert_eq!(wait("futex", 64), Wait::Pure);
        assert_eq!(wait("posix-spin", 64), Wait::Pure);
    }
}
