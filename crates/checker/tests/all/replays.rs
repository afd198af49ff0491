//! Every counterexample is an execution that can be run again, with the same verdict; and one that is no execution of
//! the code as it is says so, instead of a verdict.

use contend_checker::checked::Accessed;
use contend_checker::{
    Checked, Counterexample, Exploration, MAX_STEPS, Model, Mutation, ReplayTrace, Search, explore, replay,
    shorten,
};
use locks::catalogue::LOCKS;
use machine::Ordering::Relaxed;
use machine::{Home, Integer, Machine, Placed, PlainCell, Plan, Word};
use workloads::client::{self, ClientKind, Shape};

/// Of the mistakes of logic, which are many, each client has one in so many tried.
const ONE_IN: usize = 30;

/// A client of a lock.
#[derive(Clone, Copy, Debug)]
struct Client {
    lock: &'static str,
    kind: ClientKind,
    shape: Shape,
}

impl Client {
    fn run(self) -> Result<(), String> {
        let ran =
            client::run::<Checked>(self.lock, self.kind, self.shape).expect("the lock has such a client");
        ran.map(drop).map_err(|wrong| wrong.to_string())
    }

    fn explore(self, exploration: &Exploration) -> Option<Counterexample> {
        explore(exploration, &|| self.run()).counterexample
    }

    /// Every weakened ordering, and one in so many of the mistakes of logic, others for each client.
    fn mutations(self, number: usize) -> impl Iterator<Item = Mutation> {
        let noting =
            Exploration { note_accesses: true, most_executions: Some(2_000), ..Exploration::of(Model::Ra) };
        let accesses = explore(&noting, &|| self.run()).accesses;
        let all = accesses.iter().flat_map(Accessed::mutations).collect::<Vec<_>>();
        let (orderings, logic) =
            all.into_iter().partition::<Vec<_>, _>(|mutation| mutation.to.is_of_ordering());
        orderings.into_iter().chain(logic.into_iter().skip(number % ONE_IN).step_by(ONE_IN))
    }

    /// Runs a counterexample again from the text that is printed of it.
    fn replay(
        self,
        text: &str,
        model: Model,
        mutation: Option<Mutation>,
    ) -> Result<Option<Counterexample>, String> {
        let trace = text.parse::<ReplayTrace>().expect("a trace reads back what it writes");
        let report = replay(model, trace, mutation, &|| self.run());
        report.map(|report| report.counterexample).map_err(|divergence| divergence.to_string())
    }
}

/// The locks of the ordinary tests, which stand for their kinds. `tests/all` sets CONTEND_TESTS=all, and every lock has its turn, in a
/// release build.
const FEW: [&str; 5] = ["ticket", "mcs", "anderson", "rw", "adaptive"];

fn all_locks() -> bool {
    !cfg!(debug_assertions) && std::env::var_os("CONTEND_TESTS").is_some_and(|tests| tests == "all")
}

/// Clients of the locks, small enough that all of their weakened orderings can be tried.
fn clients() -> impl Iterator<Item = Client> {
    let tested = LOCKS.iter().filter(|lock| all_locks() || FEW.contains(&lock.name));
    tested.flat_map(|lock| {
        // All clients of `adaptive` would take half of the test's time.
        let few = [ClientKind::Exclusive, ClientKind::Tried, ClientKind::Mixed];
        let fits = move |kind| kind != ClientKind::Nested && (lock.name != "adaptive" || few.contains(&kind));
        let kinds = ClientKind::ALL.into_iter().filter(move |&kind| fits(kind) && kind.suits(lock));
        kinds.map(|kind| Client { lock: lock.name, kind, shape: Shape { threads: 2, acquisitions: 1 } })
    })
}

#[test]
fn every_counterexample_of_a_wrong_lock_runs_again_and_not_on_the_lock_as_it_is() {
    let (mut found, mut of_logic, mut parted) = (0, 0, 0);
    for (number, client) in clients().enumerate() {
        for mutation in client.mutations(number) {
            for (model, search) in [
                (Model::Ra, Search::Executions),
                (Model::Ra, Search::States),
                (Model::Pso, Search::Executions),
                (Model::Pso, Search::States),
            ] {
                let exploration = Exploration {
                    search,
                    mutation: Some(mutation),
                    most_executions: Some(3_000),
                    most_states: Some(10_000),
                    ..Exploration::of(model)
                };
                let Some(first) = client.explore(&exploration) else { continue };
                let context = format!("{client:?} with {mutation} under {model} by {search:?}");
                assert!(!first.rows.is_empty(), "{context}: {} cannot be told", first.violation);
                let shorter = Exploration { search: Search::Executions, ..exploration };
                let short = shorten(&shorter, first.clone(), &|| client.run());
                for one in [first, short] {
                    let text = one.trace.to_string();
                    let again = client.replay(&text, model, Some(mutation));
                    let again = again.unwrap_or_else(|why| panic!("{context}: {why}: {text}"));
                    let again = again.unwrap_or_else(|| {
                        panic!("{context}: {} and nothing wrong again in {text}", one.violation)
                    });
                    assert_eq!(again.violation, one.violation, "{context}: {text}");
                    assert_eq!(again.rows.last(), one.rows.last(), "{context}: {text}");
                    assert_eq!(again.rows.len(), one.rows.len(), "{context}: {text}");
                    // The lock as it is verified: it has no wrong execution, whatever a trace says.
                    match client.replay(&text, model, None) {
                        Ok(None) => {}
                        Ok(Some(wrong)) => {
                            panic!("{context}: {} on the lock as it is: {text}", wrong.violation)
                        }
                        Err(_) => parted += 1,
                    }
                }
                found += 1;
                of_logic += usize::from(!mutation.to.is_of_ordering());
            }
        }
    }
    assert!(found > 400, "{found} found");
    assert!(of_logic > 200, "{of_logic} mistakes of logic found");
    assert!(parted > 50, "{parted} parted");
}

/// One thread goes on past the steps that a thread may take; the last of these makes the other one go wrong.
#[test]
fn a_thread_that_takes_all_its_steps_holds_nobody_up() {
    // Two steps come before, and an addition is two.
    const LAST: u32 = (MAX_STEPS / 2 - 1) as u32;
    let client = || {
        let word = Placed::<_, Checked>::new(<Checked as Machine>::U32::ZERO, Home::FirstTouch);
        let cell = Placed::<<Checked as Machine>::Cell<u32>, Checked>::new(PlainCell::ZERO, Home::FirstTouch);
        Checked::run(&Plan::threads(2), &|thread| {
            if thread == 0 {
                if word.load(Relaxed) == LAST {
                    cell.set(1);
                }
                return;
            }
            cell.set(2);
            word.load(Relaxed);
            for _ in 0..=LAST {
                word.fetch_add(1, Relaxed);
            }
        });
        Ok(())
    };
    let exploration = Exploration { search: Search::Executions, ..Exploration::of(Model::Ra) };
    let found = explore(&exploration, &client).counterexample.expect("a race with the first step");
    let text = found.trace.to_string();
    assert!(text.contains(&format!("1/{MAX_STEPS}")), "{text}");
    let trace = text.parse().expect("a trace reads back what it writes");
    let again = replay(Model::Ra, trace, None, &client).expect("it is an execution of this code");
    assert_eq!(again.counterexample.expect("the race again").violation, found.violation);
}

/// A wrong execution of a ticket lock that publishes nothing, and its text.
fn relaxed_ticket() -> (Client, Mutation, String) {
    let client =
        Client { lock: "ticket", kind: ClientKind::Exclusive, shape: Shape { threads: 2, acquisitions: 1 } };
    let wrong = |mutation| {
        let found =
            client.explore(&Exploration { mutation: Some(mutation), ..Exploration::of(Model::Ra) })?;
        Some((client, mutation, found.trace.to_string()))
    };
    client.mutations(0).find_map(wrong).expect("an ordering that the lock needs")
}

#[test]
fn what_does_not_fit_the_code_says_where_they_part() {
    let (client, mutation, text) = relaxed_ticket();
    let part =
        |client: Client, text: &str, model| client.replay(text, model, Some(mutation)).expect_err("parts");

    let more = Client { shape: Shape { threads: 3, acquisitions: 1 }, ..client };
    assert!(part(more, &text, Model::Ra).contains("it has 2 threads, the client 3"));

    // Thread 0 draws its number in its second step, after the announcement.
    let unread = text.replacen("0,1=i", "0,2=i", 1).replacen("1=i", "2=i", 1);
    let why = part(client, &unread, Model::Ra);
    assert!(why.contains("part at step 2 of thread 0 (ticket.rs:"), "{why}");
    assert!(why.ends_with("it neither reads nor chooses where the code does"), "{why}");

    let unwritten = text.replacen("1=i", "1=1.0", 1);
    let why = part(client, &unwritten, Model::Ra);
    assert!(why.contains("part at step 2 of thread 0 (ticket.rs:"), "{why}");
    assert!(
        why.ends_with("it reads what event 0 of thread 1 writes, which is no write of this word"),
        "{why}"
    );

    let longer = text.replacen("0/", "0/1", 1);
    let why = client.replay(&longer, Model::Ra, None).expect_err("parts");
    assert!(why.ends_with("it goes on where the code waits or ends"), "{why}");

    let other = Client { lock: "mcs", ..client };
    assert!(part(other, &text, Model::Ra).contains("they part at step"));
}
