//! Who is measured: our locks and those of other libraries.

use locks::catalogue::{self, Family, LOCKS, Lock, Visitor};
use locks::{RawRwLock, TryLock};
use machine::{Machine, Native, Patient};
use peers::{PEERS, Peer};
use session::names;
use workloads::exclusion::{Called, CalledQueue, CalledShared, Exclusion, Own, OwnShared, Queue};

/// A lock to be measured.
#[derive(Debug, Clone, Copy)]
pub enum Contender {
    /// One of the catalogue.
    Own(&'static Lock),
    /// Ours whose nodes are the caller's. It is in no catalogue, since a release by name has no node to give.
    McsQueue,
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
            Self::McsQueue => MCS_QUEUE,
            Self::Peer(peer) => peer.name,
        }
    }

    /// Whose it is.
    pub fn library(&self) -> &'static str {
        match self {
            Self::Own(_) | Self::McsQueue => "contend",
            Self::Peer(peer) => peer.library,
        }
    }

    /// Whether it is one of ours.
    pub fn is_ours(&self) -> bool {
        !matches!(self, Self::Peer(_))
    }

    /// Why it cannot be measured here.
    pub fn missing(&self) -> Option<&'static str> {
        match self {
            Self::Own(_) | Self::McsQueue => None,
            Self::Peer(peer) => peer.missing,
        }
    }

    /// The lock of the catalogue with the same algorithm, or for other libraries' locks that sleep the same use: itself where it is
    /// in the catalogue.
    pub fn same_as(&self) -> Option<&'static Lock> {
        match self {
            Self::Own(lock) => Some(lock),
            Self::McsQueue => catalogue::find("mcs"),
            Self::Peer(peer) => peer.same_as.and_then(catalogue::find),
        }
    }

    /// How its hand-over grows with the waiters, where that is known.
    pub fn family(&self) -> Option<Family> {
        self.same_as().map(|lock| lock.family)
    }

    /// Whether readers share it.
    pub fn shares(&self) -> bool {
        match self {
            Self::Own(lock) => lock.shared,
            Self::McsQueue => false,
            Self::Peer(peer) => peer.shared,
        }
    }

    /// Whether its waiters sleep.
    pub fn blocks(&self) -> bool {
        match self {
            Self::Own(lock) => lock.family.sleeps(),
            Self::McsQueue => false,
            Self::Peer(peer) => peer.blocks,
        }
    }

    /// How its waiters wait with so many threads on so many cores: one of ours is patient where threads share cores, as programs have
    /// it. One that spins would not end otherwise, and one that sleeps spins, too, while a thread that is about to enter has no core.
    /// Every other lock waits as made.
    pub fn wait(&self, threads: usize, cores: usize) -> Wait {
        if self.is_ours() && threads > cores { Wait::Patient } else { Wait::Pure }
    }

    /// In a few words, how it waits when it waits so.
    pub fn wait_in_words(&self, wait: Wait) -> &'static str {
        match wait {
            _ if self.blocks() => "sleeps",
            Wait::Patient => "spins, yields, then sleeps",
            Wait::Pure => "spins",
        }
    }

    /// Measures it; none where it is missing.
    pub fn measure<V: Measure>(&self, wait: Wait, measure: V) -> Option<V::Output> {
        match (self, wait) {
            (Self::Peer(peer), _) => peers::visit(peer.name, Foreign(measure)),
            (_, Wait::Pure) => self.measure_on::<Native, V>(measure),
            (_, Wait::Patient) => self.measure_on::<Patient, V>(measure),
        }
    }

    /// Measures a lock of ours on a machine of any kind; none for the others, which know this one alone.
    pub fn measure_on<M: Machine, V: Measure>(&self, measure: V) -> Option<V::Output> {
        match self {
            Self::Own(lock) => catalogue::visit::<M, _>(lock.name, Inlined(measure)),
            Self::McsQueue => Some(measure.measure::<M, Queue<M>>()),
            Self::Peer(_) => None,
        }
    }

    /// Measures a lock of ours behind function calls, as C libraries are reached; none for the others.
    pub fn measure_called<V: Measure>(&self, measure: V) -> Option<V::Output> {
        match self {
            Self::Own(lock) => catalogue::visit::<Native, _>(lock.name, ThroughCalls(measure)),
            Self::McsQueue => Some(measure.measure::<Native, CalledQueue<Native>>()),
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
/// A name that no lock has.
pub fn select(names: &[String]) -> anyhow::Result<Vec<Contender>> {
    if names.is_empty() {
        let peers = PEERS.iter().map(Contender::Peer);
        return Ok(LOCKS.iter().map(Contender::Own).chain([Contender::McsQueue]).chain(peers).collect());
    }
    let mut chosen: Vec<Contender> = Vec::new();
    for name in names {
        names::note_renamed(name);
        let Some(contender) = find(name) else {
            let others: Vec<_> = PEERS.iter().map(|peer| peer.name).collect();
            let known = LOCKS.iter().map(|lock| lock.name).chain([MCS_QUEUE]).chain(others.iter().copied());
            let listed = format!(
                "`contend locks` lists ours, besides which there is {MCS_QUEUE}; of other libraries there are {}",
                others.join(", ")
            );
            return Err(names::unknown("lock", name, known, &listed).into());
        };
        if chosen.iter().all(|other| other.name() != contender.name()) {
            chosen.push(contender);
        }
    }
    Ok(chosen)
}

/// The name of the lock whose nodes are the caller's, as C has it.
const MCS_QUEUE: &str = "mcs-queue";

/// The lock of this name, ours or another library's.
pub fn find(name: &str) -> Option<Contender> {
    let ours = catalogue::find(name).map(Contender::Own);
    let queue = (name == MCS_QUEUE).then_some(Contender::McsQueue);
    ours.or(queue).or_else(|| peers::find(name).map(Contender::Peer))
}

/// A lock that does not exclude, which every benchmark has to notice.
#[cfg(test)]
pub mod open {
    use workloads::client::Wrong;
    use workloads::exclusion::Exclusion;

    /// Lets every thread in.
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
        assert_eq!(all.len(), LOCKS.len() + 1 + PEERS.len());
    }

    #[test]
    fn only_locks_of_ours_become_patient() {
        let wait = |name: &str, threads| find(name).unwrap().wait(threads, 2);
        assert_eq!(wait("ticket", 2), Wait::Pure);
        assert_eq!(wait("ticket", 3), Wait::Patient);
        assert_eq!(wait("adaptive", 2), Wait::Pure);
        assert_eq!(wait("adaptive", 64), Wait::Patient);
        assert_eq!(wait("posix-spin", 64), Wait::Pure);
    }
}
