//! The clients that a lock is checked with: those that every machine runs, and those that only checking needs.

use super::contracts::{self, Contract, Queued};
use super::objects;
use checker::Checked;
use checker::checked::{nodes_out, on_dies, wakes, without_names};
use locks::catalogue::{self, Family, Lock, Visitor};
use locks::{Anderson, DowngradeLock, RawLock, RawRwLock, TryLock};
use machine::Ordering::Relaxed;
use machine::{Home, Integer, LINE_BYTES, Machine, Placed, PlainCell, Plan, Run, Timeout, Word};
use workloads::client::{self, Chosen, ClientKind, Shape, Wrong};

/// What the threads of a client do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// As on every machine.
    Of(ClientKind),
    /// Attempts that may give up, or tries, with a thread whose queue nodes have no names.
    Nameless,
    /// [`ClientKind::GivenUp`] with a holder whose queue nodes have no names.
    NamelessHolder,
    /// [`ClientKind::GivenUp`] where those of the waiter that gives up have none.
    NamelessLeaver,
    /// [`ClientKind::Tried`] by one thread, which must not wake any thread.
    Alone,
    /// [`ClientKind::Tried`] with threads on two dies.
    Dies,
    /// Readers that need not wait for writers that wait stay inside until all of them are, while writers come.
    PreferredMeeting,
    /// Threads park until another one has something for them, as on a condition variable.
    Parked,
    /// An object whose count of references stands beside its lock.
    References,
    /// An object that is marked dead unless a thread has a reference.
    Dying,
    /// References that are dropped unless they are the last.
    NotLast,
    /// Space for one reference more.
    ManyReferences,
    /// The count of references stays what it is while the lock is held.
    HeldCount,
    /// The thread that counts to the end frees the lock after its release.
    Freed,
    /// The lock is dropped while the last to use it may have given up.
    Dropped,
    /// Holders ask on which side they hold the lock.
    AskedSide,
    /// Holders try the lock that they hold.
    TriedAgain,
    /// A reader that enters by a try lets those in that sleep.
    LetIn,
    /// A writer that sleeps behind readers keeps new ones out.
    KeptOut,
    /// Two queue up, and are let in in this order.
    InOrder(Queued),
    /// One of what is no lock of the catalogue, by its place among `objects::CLIENTS`.
    Object(u8),
}

impl Client {
    const OWN: [Self; 22] = [
        Self::Alone,
        Self::Dies,
        Self::Nameless,
        Self::NamelessHolder,
        Self::NamelessLeaver,
        Self::PreferredMeeting,
        Self::Parked,
        Self::References,
        Self::Dying,
        Self::NotLast,
        Self::ManyReferences,
        Self::HeldCount,
        Self::Freed,
        Self::Dropped,
        Self::AskedSide,
        Self::TriedAgain,
        Self::LetIn,
        Self::KeptOut,
        Self::InOrder(Queued::Writers),
        Self::InOrder(Queued::ReaderFirst),
        Self::InOrder(Queued::WriterFirst),
        Self::InOrder(Queued::BehindReader),
    ];

    /// Every one.
    pub fn all() -> impl Iterator<Item = Self> {
        let objects = (0..objects::CLIENTS.len() as u8).map(Self::Object);
        ClientKind::ALL.into_iter().map(Self::Of).chain(Self::OWN).chain(objects)
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
            Self::PreferredMeeting => "preferred-meeting",
            Self::Parked => "parked",
            Self::References => "references",
            Self::Dying => "dying",
            Self::NotLast => "not-last",
            Self::ManyReferences => "many-references",
            Self::HeldCount => "held-count",
            Self::Freed => "freed",
            Self::Dropped => "dropped",
            Self::AskedSide => "asked-side",
            Self::TriedAgain => "tried-again",
            Self::LetIn => "let-in",
            Self::KeptOut => "kept-out",
            Self::InOrder(Queued::Writers) => "in-order",
            Self::InOrder(Queued::ReaderFirst) => "reader-first",
            Self::InOrder(Queued::WriterFirst) => "writer-first",
            Self::InOrder(Queued::BehindReader) => "behind-reader",
            Self::Object(number) => objects::CLIENTS[number as usize].name,
        }
    }

    /// Whether the lock can do that.
    pub fn suits(self, lock: &Lock) -> bool {
        if !lock.opaque {
            return self == Self::Of(ClientKind::Effects);
        }
        match self {
            Self::Object(number) => objects::CLIENTS[number as usize].of == lock.name,
            _ if objects::is_no_lock(lock) => false,
            Self::InOrder(queued) => queued.suits(lock),
            Self::Of(kind) => kind.suits(lock),
            _ if objects::is_object(lock) => false,
            Self::Nameless => lock.family == Family::Queue,
            Self::NamelessHolder | Self::NamelessLeaver => lock.family == Family::Queue && lock.timed,
            Self::Alone => true,
            Self::Dies => matches!(lock.name, "hclh" | "hmcs"),
            Self::PreferredMeeting => lock.shared,
            Self::Parked => true,
            Self::References | Self::Dying | Self::NotLast | Self::ManyReferences | Self::HeldCount => {
                lock.name == "lockref"
            }
            Self::Freed => !lock.is_elided() && lock.bytes <= LINE_BYTES,
            Self::Dropped => matches!(lock.name, "clh-timed" | "osq"),
            Self::AskedSide => lock.shared && !lock.is_elided(),
            Self::TriedAgain => lock.is_elided(),
            Self::LetIn | Self::KeptOut => matches!(lock.name, "rw" | "adaptive"),
        }
    }

    /// How many threads it has where that is not a matter of its size.
    pub const fn threads(self) -> Option<usize> {
        match self {
            Self::Object(number) => Some(objects::CLIENTS[number as usize].threads),
            Self::Alone => Some(1),
            Self::InOrder(_) | Self::LetIn | Self::KeptOut => Some(3),
            _ => None,
        }
    }

    /// Threads that do the same, whatever their number, as bits.
    pub fn alike(self, shape: Shape) -> u32 {
        const EVEN: u32 = 0x5555_5555;
        match self {
            Self::Of(ClientKind::Exclusive) | Self::Freed | Self::TriedAgain => u32::MAX,
            Self::AskedSide | Self::HeldCount => !1,
            Self::Of(ClientKind::Tried | ClientKind::Mixed) => EVEN,
            // In a second round the ones have other deadlines than the others, or another role.
            Self::Of(ClientKind::Timed | ClientKind::WritersLeave) if shape.acquisitions == 1 => EVEN & 0b101,
            // Every third thread writes.
            Self::Of(ClientKind::Shared) => {
                (0..u32::BITS).filter(|thread| thread % 3 != 0).fold(0, |all, thread| all | 1 << thread)
            }
            // All but the last, which writes where there are three.
            Self::Of(ClientKind::Meeting) if shape.threads > 2 => (1 << (shape.threads - 1)) - 1,
            _ => 0,
        }
    }

    /// Whether some thread of it holds the lock, in some execution, while it is promised to a waiter: the first thread has to come
    /// back twice for that.
    pub fn sees_promises(self, shape: Shape) -> bool {
        self == Self::Of(ClientKind::Promised) && shape.threads > 1 && shape.acquisitions > 1
    }

    /// Runs it once on the checked machine. A queue node that is not back in its pool at the end is wrong, too.
    pub fn run(self, lock: &Lock, shape: Shape) -> Result<(), String> {
        let run = match self {
            Self::Parked => {
                parked_at(lock, shape)?;
                return nodes_are_back();
            }
            Self::PreferredMeeting => {
                preferred_meeting_at(lock, shape)?;
                return nodes_are_back();
            }
            Self::Object(number) => {
                (objects::CLIENTS[number as usize].run)()?;
                return nodes_are_back();
            }
            Self::Freed
            | Self::Dropped
            | Self::AskedSide
            | Self::TriedAgain
            | Self::LetIn
            | Self::KeptOut
            | Self::InOrder(_) => {
                let contract = match self {
                    Self::Freed => Contract::Freed,
                    Self::Dropped => Contract::Dropped,
                    Self::AskedSide => Contract::AskedSide,
                    Self::LetIn => Contract::LetIn,
                    Self::KeptOut => Contract::KeptOut,
                    Self::InOrder(queued) => Contract::InOrder(queued),
                    _ => Contract::TriedAgain,
                };
                contracts::hold(contract, lock, shape)?;
                return nodes_are_back();
            }
            Self::HeldCount => {
                contracts::held_count(shape)?;
                return nodes_are_back();
            }
            Self::References => Some(client::references::<Checked>(shape)),
            Self::Dying => Some(client::dying::<Checked>(shape)),
            Self::NotLast => Some(client::not_last::<Checked>(shape)),
            Self::ManyReferences => Some(client::many_references::<Checked>(shape)),
            Self::Alone => run_kind(ClientKind::Tried, lock, Shape { threads: 1, ..shape }),
            Self::Dies => {
                on_dies(2);
                run_kind(ClientKind::Tried, lock, shape)
            }
            Self::Nameless => {
                without_names(0);
                run_kind(if lock.timed { ClientKind::Timed } else { ClientKind::Tried }, lock, shape)
            }
            Self::NamelessHolder | Self::NamelessLeaver => {
                without_names(usize::from(self == Self::NamelessLeaver));
                run_kind(ClientKind::GivenUp, lock, shape)
            }
            Self::Of(kind) => run_kind(kind, lock, shape),
        };
        run.ok_or_else(|| format!("{} has no such client", lock.name))?.map_err(|wrong| wrong.to_string())?;
        if self == Self::Alone && wakes() > 0 {
            return Err(format!("a thread that no other waits for wakes {} times", wakes()));
        }
        nodes_are_back()
    }
}

/// What is asked of a lock that no thread uses any more.
pub(super) fn nodes_are_back() -> Result<(), String> {
    match nodes_out() {
        0 => Ok(()),
        nodes => Err(format!(
            "no thread uses the lock any more, but {nodes} of its queue nodes are not back in their pool"
        )),
    }
}

/// An array lock with two slots: the one of the catalogue has so many that small clients never come to use a slot again,
/// which is what its orderings are for.
type FewSlots = Anderson<Checked, 2>;

fn run_kind(kind: ClientKind, lock: &Lock, shape: Shape) -> Option<Result<Run, Wrong>> {
    if lock.name == "anderson" {
        return Chosen { kind, shape }.tried::<FewSlots>(lock);
    }
    objects::run(Chosen { kind, shape }, lock).or_else(|| client::run::<Checked>(lock.name, kind, shape))
}

fn parked_at(lock: &Lock, shape: Shape) -> Result<(), String> {
    if lock.name == "anderson" {
        return parked::<FewSlots>(shape);
    }
    let known = catalogue::visit::<Checked, _>(lock.name, Park(shape));
    known.unwrap_or_else(|| Err(format!("no lock is called {:?}", lock.name)))
}

/// Fails as soon as a holder sees that the lock is promised to a waiter.
pub fn never_promised_at(lock: &Lock, shape: Shape) -> Result<(), String> {
    let known = catalogue::visit::<Checked, _>(lock.name, NeverPromised(shape));
    known.ok_or_else(|| format!("no lock is called {:?}", lock.name))
}

/// The first thread acquires once more than the others, as in [`ClientKind::Promised`].
fn never_promised<L: RawLock<Checked>>(shape: Shape) {
    let lock = Placed::<L, Checked>::new(L::NEW, Home::FirstTouch);
    Checked::run(&Plan::threads(shape.threads), &|thread| {
        let rounds = if thread == 0 { shape.acquisitions + 1 } else { shape.acquisitions.div_ceil(2) };
        for _ in 0..rounds {
            lock.acquire();
            assert!(!lock.is_promised(), "a holder saw a promise");
            // SAFETY: acquired above.
            unsafe { lock.release() };
        }
    });
}

/// Runs [`never_promised`] with whatever lock it visits.
struct NeverPromised(Shape);

impl Visitor<Checked> for NeverPromised {
    type Output = ();

    fn tried<L: TryLock<Checked>>(self, _: &Lock) {
        never_promised::<L>(self.0);
    }
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
            (0..shape.acquisitions).for_each(|_| take_one(&counter));
            return;
        }
        for _ in 0..shape.acquisitions {
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

    fn tried<L: TryLock<Checked>>(self, _: &Lock) -> Self::Output {
        parked::<L>(self.0)
    }
}

/// A reader-writer lock, and what its readers and writers tell each other by.
struct MeetingPlace<L> {
    lock: L,
    written: <Checked as Machine>::Cell<u64>,
    /// How many threads are in the lock or on their way, in all rounds.
    came: <Checked as Machine>::U32,
    met: <Checked as Machine>::U32,
}

/// The last thread writes, and the one before it where there are four; all others read, and stay inside until all of them
/// are. They say that they read already, so that only a writer that is in may keep them out. In each round the last thread
/// comes first, then the other writer, then the readers, each when the one before is about to wait or to leave; but the first
/// reader comes when the last thread has released, so that it may overtake those who sleep.
fn preferred_meeting<L: RawRwLock<Checked>>(shape: Shape) -> Result<(), String> {
    let place = MeetingPlace { lock: L::NEW, written: PlainCell::ZERO, came: Word::ZERO, met: Word::ZERO };
    let place = Placed::<_, Checked>::new(place, Home::FirstTouch);
    let MeetingPlace { lock, written, came, met } = &*place;
    let writers = if shape.threads < 4 { 1 } else { 2 };
    let readers = shape.threads.saturating_sub(writers);
    // Of each round: the last thread when it is inside and when it has released, and others as they come.
    let all = shape.threads as u32;
    Checked::run(&Plan::threads(shape.threads), &|thread| {
        let turn = (shape.threads - thread) as u32;
        for round in 0..shape.acquisitions {
            let before = round * all + if thread == 0 { all } else { turn - 1 };
            if turn > 1 {
                Checked::spin_until(came, Relaxed, |came| came >= before);
            }
            if turn > 1 && thread > 0 {
                came.fetch_add(1, Relaxed);
            }
            if thread < readers {
                lock.acquire_shared(true);
                let found = written.get();
                met.fetch_add(1, Relaxed);
                Checked::spin_until(met, Relaxed, |met| met >= readers as u32 * (round + 1));
                assert_eq!(written.get(), found, "a writer was inside beside readers");
                // SAFETY: acquired above.
                unsafe { lock.release_shared() };
                continue;
            }
            lock.acquire();
            written.set(written.get() + 1);
            if turn == 1 {
                came.fetch_add(1, Relaxed);
            }
            // SAFETY: acquired above.
            unsafe { lock.release() };
            if turn == 1 {
                came.fetch_add(1, Relaxed);
            }
        }
    });
    match written.get() {
        sum if sum == writers as u64 * u64::from(shape.acquisitions) => {}
        some => return Err(format!("writers wrote {some} times")),
    }
    lock.acquire();
    // SAFETY: acquired above.
    unsafe { lock.release() };
    if lock.is_idle() { Ok(()) } else { Err(Wrong::NotIdle.to_string()) }
}

fn preferred_meeting_at(lock: &Lock, shape: Shape) -> Result<(), String> {
    let known = catalogue::visit::<Checked, _>(lock.name, Meet(shape));
    known.flatten().unwrap_or_else(|| Err(format!("{} has no such client", lock.name)))
}

/// Runs [`preferred_meeting`] with whatever lock it visits, if that can be shared.
struct Meet(Shape);

impl Visitor<Checked> for Meet {
    type Output = Option<Result<(), String>>;

    fn tried<L: TryLock<Checked>>(self, _: &Lock) -> Self::Output {
        None
    }

    fn shared<L: DowngradeLock<Checked> + TryLock<Checked>>(self, _: &Lock) -> Self::Output {
        Some(preferred_meeting::<L>(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::plan::Task;
    use checker::{Exploration, Model, Search};
    use locks::catalogue::LOCKS;

    /// Explores a client by states, the first so many.
    fn report(lock: &'static Lock, client: Client, threads: usize, most_states: usize) -> checker::Report {
        let task = Task { lock, client, shape: Shape { threads, acquisitions: 1 }, model: Model::Sc };
        let most_states = Some(most_states);
        task.explore(&Exploration { search: Search::States, most_states, ..Exploration::of(Model::Sc) })
    }

    /// A client with threads that do the same has the same verdict, and fewer states, where that is made use of.
    #[test]
    fn clients_of_which_threads_are_alike_have_the_same_verdict() {
        use ClientKind::{Exclusive, Meeting, Mixed, Shared, Timed, Tried, WritersLeave};
        for (lock, kind) in [
            ("ticket4", Exclusive),
            ("mcs", Tried),
            ("clh-timed", Timed),
            ("osq", Mixed),
            ("rw-naive", Shared),
            ("rw-naive", Meeting),
            ("rw-naive", WritersLeave),
        ] {
            let lock = catalogue::find(lock).expect("a lock");
            let (client, shape) = (Client::Of(kind), Shape { threads: 3, acquisitions: 1 });
            let task = Task { lock, client, shape, model: Model::Sc };
            let explored = |alike, mutation| {
                task.explore(&Exploration {
                    search: Search::States,
                    alike,
                    mutation,
                    note_accesses: true,
                    most_states: Some(100_000),
                    ..Exploration::of(Model::Sc)
                })
            };
            let (plain, alike) = (explored(0, None), explored(client.alike(shape), None));
            assert!(plain.is_verified() && alike.is_verified(), "{task}");
            assert!(
                alike.counts.states < plain.counts.states,
                "{task}: {:?} {:?}",
                alike.counts,
                plain.counts
            );
            let mutations = plain.accesses.iter().flat_map(checker::checked::Accessed::mutations);
            for mutation in mutations.step_by(9) {
                let [plain, alike] = [0, client.alike(shape)].map(|alike| explored(alike, Some(mutation)));
                let is_cut_off = plain.bound.is_some() || alike.bound.is_some();
                let fails = [plain, alike].map(|report| report.counterexample.is_some());
                assert!(is_cut_off || fails[0] == fails[1], "{task} with {mutation}: {fails:?}");
            }
        }
    }

    /// `anderson` promises its waiters nothing, so that the client has nothing to see.
    #[test]
    fn a_lock_that_promises_is_seen_to_and_one_that_does_not_is_found() {
        let client = Client::Of(ClientKind::Promised);
        let shape = Shape { threads: 2, acquisitions: 2 };
        for (lock, promises) in [("anderson", false), ("kernel-mutex", true), ("tp-futex", true)] {
            let task = Task { lock: catalogue::find(lock).expect("a lock"), client, shape, model: Model::Sc };
            let report = Exploration { search: Search::States, ..Exploration::of(Model::Sc) };
            let report = task.explore(&report);
            assert_eq!(report.is_verified(), promises, "{task}");
            let found = report.counterexample.map(|found| found.violation.to_string()).unwrap_or_default();
            assert_eq!(found.contains("never was in any execution"), !promises, "{task}: {found}");
        }
    }

    /// Each in some execution, since those in which a thread does not queue up are left out.
    #[test]
    fn who_queues_up_first_is_let_in_first() {
        let locks = LOCKS.iter().chain(objects::OBJECTS);
        let all = Client::OWN.into_iter().filter(|client| matches!(client, Client::InOrder(_)));
        let suited = locks.flat_map(|lock| all.clone().map(move |client| (lock, client)));
        for (lock, client) in suited.filter(|(lock, client)| client.suits(lock)) {
            let report = report(lock, client, 3, 200_000);
            let found = report.counterexample.as_ref().map(ToString::to_string).unwrap_or_default();
            assert!(report.is_verified(), "{} {}: {:?} {found}", lock.name, client.name(), report.bound);
            assert!(report.counts.explored > 0, "{} {}: no execution", lock.name, client.name());
        }
    }

    #[test]
    fn readers_that_are_preferred_meet_under_every_lock_that_is_shared() {
        for lock in LOCKS.iter().filter(|lock| Client::PreferredMeeting.suits(lock)) {
            for threads in [3, 4] {
                let report = report(lock, Client::PreferredMeeting, threads, 10_000);
                let found = report.counterexample.map(|found| found.to_string());
                assert!(found.is_none(), "{} {threads}: {}", lock.name, found.unwrap_or_default());
            }
        }
    }
}
