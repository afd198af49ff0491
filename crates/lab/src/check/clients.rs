//! The clients that a lock is checked with: those that every machine runs, and those that only checking needs.

use checker::Checked;
use checker::checked::{nodes_out, on_dies, wakes, without_names};
use locks::catalogue::{self, Family, Lock, Visitor};
use locks::{Anderson, DowngradeLock, RawLock, TimedLock, TimedRwLock, TryLock};
use machine::Ordering::Relaxed;
use machine::{Home, Integer, Machine, Placed, PlainCell, Plan, Run, Timeout, Word};
use workloads::client::{self, Chosen, Kind, Shape, Wrong};

/// What the threads of a client do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// As on every machine.
    Of(Kind),
    /// Attempts that may give up, or tries, with a thread whose queue nodes have no names.
    Nameless,
    /// [`Kind::GivenUp`] with a holder whose queue nodes have no names.
    NamelessHolder,
    /// [`Kind::GivenUp`] where those of the waiter that gives up have none.
    NamelessLeaver,
    /// [`Kind::Tried`] by one thread, which must not wake anybody.
    Alone,
    /// [`Kind::Tried`] with threads on two dies.
    Dies,
    /// Threads park until another one has something for them, as on a condition variable.
    Parked,
    /// An object whose count of references stands beside its lock.
    References,
    /// An object that is marked dead unless somebody has a reference.
    Dying,
    /// References that are dropped unless they are the last.
    NotLast,
    /// Room for one reference more.
    ManyReferences,
}

impl Client {
    const OWN: [Self; 10] = [
        Self::Alone,
        Self::Dies,
        Self::Nameless,
        Self::NamelessHolder,
        Self::NamelessLeaver,
        Self::Parked,
        Self::References,
        Self::Dying,
        Self::NotLast,
        Self::ManyReferences,
    ];

    /// Every one.
    pub fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().map(Self::Of).chain(Self::OWN)
    }

    /// What it is called on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Of(kind) => kind.name(),
            Self::Nameless => "nameless",
            Self::NamelessHolder => "nameless-holder",
            Self::NamelessLeaver => "nameless-leaver",
            Self::Alone => "alone",
            Self::Dies => "dies",
            Self::Parked => "parked",
            Self::References => "references",
            Self::Dying => "dying",
            Self::NotLast => "not-last",
            Self::ManyReferences => "many-references",
        }
    }

    /// Whether the lock can do that.
    pub fn suits(self, lock: &Lock) -> bool {
        match self {
            Self::Of(kind) => kind.suits(lock),
            Self::Nameless => lock.family == Family::Queue && lock.tries,
            Self::NamelessHolder | Self::NamelessLeaver => lock.family == Family::Queue && lock.timed,
            Self::Alone => lock.tries,
            Self::Dies => lock.name == "hclh",
            Self::Parked => true,
            Self::References | Self::Dying | Self::NotLast | Self::ManyReferences => lock.name == "lockref",
        }
    }

    /// Whether all its threads do the same, whatever their number.
    pub fn is_alike(self) -> bool {
        self == Self::Of(Kind::Exclusive)
    }

    /// Runs it once on the checked machine. A queue node that is not back in its pool at the end is wrong, too.
    pub fn run(self, lock: &Lock, shape: Shape) -> Result<(), String> {
        let run = match self {
            Self::Parked => return parked_at(lock, shape),
            Self::References => Some(client::references::<Checked>(shape)),
            Self::Dying => Some(client::dying::<Checked>(shape)),
            Self::NotLast => Some(client::not_last::<Checked>(shape)),
            Self::ManyReferences => Some(client::many_references::<Checked>(shape)),
            Self::Alone => run_kind(Kind::Tried, lock, Shape { threads: 1, ..shape }),
            Self::Dies => {
                on_dies(2);
                run_kind(Kind::Tried, lock, shape)
            }
            Self::Nameless => {
                without_names(0);
                run_kind(if lock.timed { Kind::Timed } else { Kind::Tried }, lock, shape)
            }
            Self::NamelessHolder | Self::NamelessLeaver => {
                without_names(usize::from(self == Self::NamelessLeaver));
                run_kind(Kind::GivenUp, lock, shape)
            }
            Self::Of(kind) => run_kind(kind, lock, shape),
        };
        run.ok_or_else(|| format!("{} has no such client", lock.name))?.map_err(|wrong| wrong.to_string())?;
        if self == Self::Alone && wakes() > 0 {
            return Err(format!("a thread that nobody waits for wakes {} times", wakes()));
        }
        match nodes_out() {
            0 => Ok(()),
            nodes => Err(format!(
                "nobody uses the lock any more, but {nodes} of its queue nodes are not back in their pool"
            )),
        }
    }
}

/// An array lock with two slots: the one of the catalogue has so many that small clients never come to use a slot again,
/// which is what its orderings are for.
type FewSlots = Anderson<Checked, 2>;

fn run_kind(kind: Kind, lock: &Lock, shape: Shape) -> Option<Result<Run, Wrong>> {
    if lock.name == "anderson" {
        return Chosen { kind, shape }.tried::<FewSlots>(lock);
    }
    client::run::<Checked>(lock.name, kind, shape)
}

fn parked_at(lock: &Lock, shape: Shape) -> Result<(), String> {
    if lock.name == "anderson" {
        return parked::<FewSlots>(shape);
    }
    let known = catalogue::visit::<Checked, _>(lock.name, Park(shape));
    known.unwrap_or_else(|| Err(format!("no lock is called {:?}", lock.name)))
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
        0 => {}
        left => return Err(format!("{left} things were brought and not taken")),
    }
    counter.lock.acquire();
    // SAFETY: acquired above.
    unsafe { counter.lock.release() };
    if counter.lock.is_idle() { Ok(()) } else { Err(Wrong::NotIdle.to_string()) }
}

fn take_one<L: RawLock<Checked>>(counter: &Counter<L>) {
    counter.lock.acquire();
    while counter.things.get() == 0 {
        let news = counter.news.load(Relaxed);
        // SAFETY: acquired above.
        unsafe { counter.lock.release() };
        Checked::sleep_while(&counter.news, news, Timeout::NONE);
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

    fn shared<L: DowngradeLock<Checked> + TryLock<Checked>>(self, _: &Lock) -> Self::Output {
        parked::<L>(self.0)
    }

    fn timed_shared<L: TimedRwLock<Checked> + DowngradeLock<Checked>>(self, _: &Lock) -> Self::Output {
        parked::<L>(self.0)
    }
}
