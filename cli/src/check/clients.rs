//! The clients that a lock is checked with: those that every machine runs, and two that only checking needs.

use checker::Checked;
use locks::catalogue::{self, Lock, Visitor};
use locks::{Anderson, RawLock, RawRwLock, TimedLock, TimedRwLock, TryLock};
use machine::Ordering::Relaxed;
use machine::{Home, Integer, Limit, Machine, Placed, PlainCell, Plan, Word};
use workloads::client::{self, Kind, Shape};

/// What the threads of a client do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// As on every machine.
    Of(Kind),
    /// Threads park until another one has something for them, as on a condition variable.
    Parked,
    /// An object whose count of references stands beside its lock.
    References,
}

impl Client {
    /// Every one.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().map(Self::Of).chain([Self::Parked, Self::References])
    }

    /// What it is called on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Of(Kind::Exclusive) => "exclusive",
            Self::Of(Kind::Tried) => "tried",
            Self::Of(Kind::Timed) => "timed",
            Self::Of(Kind::Cancelled) => "cancelled",
            Self::Of(Kind::Shared) => "shared",
            Self::Of(Kind::Nested) => "nested",
            Self::Of(Kind::PassedOn) => "passed-on",
            Self::Parked => "parked",
            Self::References => "references",
        }
    }

    /// Reads the name of a client.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        Self::all().find(|client| client.name() == name).ok_or_else(|| {
            let names = Self::all().map(Self::name).collect::<Vec<_>>().join(", ");
            format!("no client is called {name:?}; there are {names}")
        })
    }

    /// Whether the lock can do that.
    pub(super) fn suits(self, lock: &Lock) -> bool {
        match self {
            Self::Of(kind) => kind.suits(lock),
            Self::Parked => true,
            Self::References => lock.name == "lockref",
        }
    }

    /// Whether all its threads do the same, whatever their number.
    pub(super) fn is_alike(self) -> bool {
        self == Self::Of(Kind::Exclusive)
    }

    /// Runs it once on the checked machine.
    pub(super) fn run(self, lock: &str, shape: Shape) -> Result<(), String> {
        let run = match self {
            Self::Parked => return parked_at(lock, shape),
            Self::References => Some(client::references::<Checked>(shape)),
            Self::Of(kind) if lock == "anderson" => Some(with_few_slots(kind, shape)),
            Self::Of(kind) => client::run::<Checked>(lock, kind, shape),
        };
        match run {
            Some(result) => result.map(drop).map_err(|wrong| wrong.to_string()),
            None => Err(format!("{lock} has no such client")),
        }
    }
}

/// An array lock with two slots: the one of the catalogue has so many that small clients never come to use a slot again,
/// which is what its orderings are for.
type FewSlots = Anderson<Checked, 2>;

fn with_few_slots(kind: Kind, shape: Shape) -> Result<machine::Run, client::Wrong> {
    match kind {
        Kind::Tried => client::tried::<FewSlots, Checked>(shape),
        Kind::Nested => client::nested::<FewSlots, Checked>(shape),
        Kind::PassedOn => client::passed_on::<FewSlots, Checked>(shape),
        _ => client::exclusive::<FewSlots, Checked>(shape),
    }
}

fn parked_at(lock: &str, shape: Shape) -> Result<(), String> {
    if lock == "anderson" {
        return parked::<FewSlots>(shape);
    }
    let known = catalogue::visit::<Checked, _>(lock, Park(shape));
    known.unwrap_or_else(|| Err(format!("no lock is called {lock:?}")))
}

/// What a lock protects while threads wait for it on another word.
struct Counter<L> {
    lock: L,
    things: <Checked as Machine>::Cell<u64>,
    /// Changes whenever there is a new thing.
    news: <Checked as Machine>::U32,
}

/// The last thread brings a thing for every other one, in every round; the others park until there is one.
fn parked<L: RawLock<Checked>>(shape: Shape) -> Result<(), String> {
    let counter = Counter { lock: L::NEW, things: PlainCell::ZERO, news: Word::ZERO };
    let counter = Placed::<_, Checked>::new(counter, Home::FirstTouch);
    let takers = shape.threads.saturating_sub(1);
    Checked::run(&Plan::threads(shape.threads), &|thread| {
        if thread < takers {
            (0..shape.rounds).for_each(|_| take_one(&counter));
            return;
        }
        for _ in 0..shape.rounds {
            counter.lock.acquire();
            counter.things.set(counter.things.get() + takers as u64);
            // SAFETY: acquired above.
            unsafe { counter.lock.release() };
            counter.news.fetch_add(1, Relaxed);
            Checked::wake(&raw const counter.news, u32::MAX);
        }
    });
    match counter.things.get() {
        0 => Ok(()),
        left => Err(format!("{left} things were brought and not taken")),
    }
}

fn take_one<L: RawLock<Checked>>(counter: &Counter<L>) {
    counter.lock.acquire();
    while counter.things.get() == 0 {
        let news = counter.news.load(Relaxed);
        // SAFETY: acquired above.
        unsafe { counter.lock.release() };
        Checked::sleep_while(&counter.news, news, Limit::NONE);
        counter.lock.acquire();
    }
    counter.things.set(counter.things.get() - 1);
    // SAFETY: acquired above.
    unsafe { counter.lock.release() };
}

/// Runs [`parked`] with whatever lock it visits.
struct Park(Shape);

impl Visitor<Checked> for Park {
    type Output = Result<(), String>;

    fn exclusive<L: RawLock<Checked>>(self, _: &Lock) -> Self::Output {
        parked::<L>(self.0)
    }

    fn tried<L: TryLock<Checked>>(self, _: &Lock) -> Self::Output {
        parked::<L>(self.0)
    }

    fn timed<L: TimedLock<Checked>>(self, _: &Lock) -> Self::Output {
        parked::<L>(self.0)
    }

    fn shared<L: RawRwLock<Checked> + TryLock<Checked>>(self, _: &Lock) -> Self::Output {
        parked::<L>(self.0)
    }

    fn timed_shared<L: TimedRwLock<Checked>>(self, _: &Lock) -> Self::Output {
        parked::<L>(self.0)
    }
}
