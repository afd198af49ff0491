//! The wait table loses no wake-up, and does where a fence is missing.

use contend_checker::checked::Accessed;
use contend_checker::{Checked, Exploration, Model, Mutation, Report, Search, Violation, explore};
use locks::{Qspin, Spacing, WaitTable};
use machine::Ordering::{Acquire, Relaxed, Release};
use machine::{Deadline, Home, Integer, Machine, Placed, Plan, Slept, Timeout, Word};

type U32 = <Checked as Machine>::U32;
type Table = WaitTable<Checked, Qspin<Checked>>;

fn table() -> Table {
    WaitTable::with_buckets(1, Spacing::Line, Home::FirstTouch)
}

/// Waits until the word has this value.
fn await_value(table: &Table, word: &U32, value: u32) {
    loop {
        let now = word.load(Acquire);
        if now == value {
            break;
        }
        table.wait(word, now, Timeout::NONE);
    }
}

fn set(table: &Table, word: &U32, value: u32) -> u32 {
    word.store(value, Release);
    table.wake(table.key(word), 1)
}

/// One waits for what another one does.
fn one_waits() -> Result<(), String> {
    let (table, word) = (table(), Placed::<_, Checked>::new(U32::ZERO, Home::FirstTouch));
    Checked::run(&Plan::threads(2), &|thread| match thread {
        0 => await_value(&table, &word, 1),
        _ => {
            set(&table, &word, 1);
        }
    });
    nobody_is_left(&table, &word)
}

/// Two wait on words of one bucket, and each is woken by its own.
fn two_wait() -> Result<(), String> {
    let table = table();
    let words = [(); 2].map(|()| Placed::<_, Checked>::new(U32::ZERO, Home::FirstTouch));
    Checked::run(&Plan::threads(3), &|thread| match thread {
        2 => {
            set(&table, &words[0], 1);
            set(&table, &words[1], 1);
        }
        _ => await_value(&table, &words[thread], 1),
    });
    nobody_is_left(&table, &words[1])
}

/// Who gives up and who is woken are told apart, and a wake-up goes to whoever is still there.
fn one_gives_up() -> Result<(), String> {
    let (table, word) = (table(), Placed::<_, Checked>::new(U32::ZERO, Home::FirstTouch));
    let counts = Placed::<_, Checked>::new([U32::ZERO, U32::ZERO], Home::FirstTouch);
    Checked::run(&Plan::threads(2), &|thread| match thread {
        0 => {
            let deadline = Deadline::after_ns::<Checked>(1_000);
            if table.wait(&word, 0, Timeout::at(deadline)) == Slept::Woken {
                counts[0].fetch_add(1, Relaxed);
            }
        }
        _ => {
            counts[1].fetch_add(set(&table, &word, 1), Relaxed);
        }
    });
    let [woken, told] = [0, 1].map(|side| counts[side].load(Relaxed));
    if woken != told {
        return Err(format!("{told} were woken, and {woken} woke up"));
    }
    nobody_is_left(&table, &word)
}

/// The table grows before the wake-up.
fn it_grows() -> Result<(), String> {
    let table = Table::with_buckets(8, Spacing::Line, Home::FirstTouch);
    let word = Placed::<_, Checked>::new(U32::ZERO, Home::FirstTouch);
    Checked::run(&Plan::threads(2), &|thread| match thread {
        0 => await_value(&table, &word, 1),
        _ => {
            table.grow(4);
            set(&table, &word, 1);
        }
    });
    match table.buckets() {
        16 => nobody_is_left(&table, &word),
        buckets => Err(format!("it has {buckets} buckets")),
    }
}

/// Both let it grow.
fn both_grow() -> Result<(), String> {
    let table = Table::with_buckets(8, Spacing::Line, Home::FirstTouch);
    Checked::run(&Plan::threads(2), &|_| table.grow(4));
    if table.buckets() == 16 { Ok(()) } else { Err(format!("it has {} buckets", table.buckets())) }
}

fn nobody_is_left(table: &Table, word: &U32) -> Result<(), String> {
    match table.wake(table.key(word), u32::MAX) {
        0 => Ok(()),
        left => Err(format!("{left} are left in the table")),
    }
}

/// From state to state, but for release-acquire: there only executions know what a sequentially consistent fence orders.
fn explored(model: Model, mutation: Option<Mutation>, client: &dyn Fn() -> Result<(), String>) -> Report {
    let search = if model == Model::Ra { Search::Executions } else { Search::States };
    explore(&Exploration { search, mutation, ..Exploration::of(model) }, client)
}

fn is_right(name: &str, model: Model, client: &dyn Fn() -> Result<(), String>) {
    let report = explored(model, None, client);
    let found = report.counterexample.as_ref().map(|found| &found.violation);
    assert!(report.is_verified(), "{name} under {model}: {found:?}");
}

/// What threads do, and whether it came out right.
type Client = fn() -> Result<(), String>;

/// Two threads at a time, so that all of them are explored under each model.
const CLIENTS: [(&str, Client); 4] = [
    ("one waits", one_waits),
    ("one gives up", one_gives_up),
    ("it grows", it_grows),
    ("both grow", both_grow),
];

#[test]
fn no_wake_up_is_lost() {
    for model in Model::ALL {
        for (name, client) in CLIENTS {
            is_right(name, model, &client);
        }
    }
    is_right("two wait", Model::Sc, &two_wait);
}

/// Each ordering of the table is needed, its fences among them: without one of these a wake-up is lost.
#[test]
fn whatever_is_weaker_is_found() {
    let of_table = |access: &Accessed| access.site.file().ends_with("src/wait_table.rs");
    let noting = Exploration { note_accesses: true, ..Exploration::of(Model::Ra) };
    let accesses = |client: Client| explore(&noting, &client).accesses;
    let mut all: Vec<Accessed> = Vec::new();
    for access in CLIENTS.into_iter().flat_map(|(_, client)| accesses(client)) {
        if of_table(&access) && !all.iter().any(|other| other.same(&access)) {
            all.push(access);
        }
    }
    // What buckets hold at first is written by no access: the orderings that publish them, where they lie, are not seen here.
    let seen = all.iter().filter(|access| !access.is_address);
    let orderings = seen.flat_map(Accessed::mutations).filter(|mutation| mutation.to.is_of_ordering());
    let mut lost = 0;
    for mutation in orderings {
        let found = CLIENTS
            .into_iter()
            .find_map(|(_, client)| explored(Model::Ra, Some(mutation), &client).counterexample);
        let found = found.unwrap_or_else(|| panic!("{mutation} is not found"));
        lost += usize::from(matches!(found.violation, Violation::EndlessWait { .. }));
    }
    assert!(lost >= 2, "{lost} lose a wake-up: one for each fence");
}
