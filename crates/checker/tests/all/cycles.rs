//! Thousands of generated litmus tests, each with a verdict that follows from how it was made.
//!
//! As the diy tool does (Alglave, Maranget, Sarkar, Sewell 2010), a test is made from a critical cycle: inside a thread
//! an access follows another in program order, between threads one reads from the other (`Rfe`), is overwritten by it
//! (`Fre`) or comes before it in the order of the location's writes (`Wse`). The condition asks whether all of these hold
//! at once. Sequential consistency never lets them. Under x86-TSO they can hold if, and only if, some thread has a
//! store before a load of another location with nothing between that drains its buffer.

use crate::axiomatic;

use std::fmt::Write;

use contend_checker::Model;
use contend_checker::litmus::Test;
use contend_checker::litmus::program::{
    Expression, Final, Operator, Program, Step, Update, Width, address_of,
};
use machine::Ordering;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

use Direction::{Read, Write as Store};

/// What stands between the two accesses of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    Nothing,
    Mfence,
    Lfence,
    Sfence,
    /// A locked instruction on a location of its own.
    LockedInc,
    /// A load of the first access's location: it takes the value from the store buffer.
    OwnLoad,
}

/// One thread with two accesses of different locations.
#[derive(Clone, Copy, Debug)]
struct Pair {
    first: Direction,
    second: Direction,
    between: Between,
    first_locked: bool,
    second_locked: bool,
}

impl Pair {
    /// Whether TSO keeps the two in order.
    fn is_ordered(self) -> bool {
        let drains = matches!(self.between, Between::Mfence | Between::LockedInc);
        !(self.first == Store && self.second == Read) || drains || self.first_locked || self.second_locked
    }
}

/// One access of a generated test.
#[derive(Clone, Copy, Debug)]
struct Access {
    direction: Direction,
    location: usize,
    /// What a store writes, and what the condition wants a load to find.
    value: i64,
    locked: bool,
}

#[derive(Clone, Copy, Debug)]
enum Item {
    Access(Access),
    Fence(Between),
    /// A load that the condition says nothing of.
    Free(usize),
}

/// A test: what each thread does, and which locations end with the value 2.
#[derive(Clone, Debug, Default)]
struct Cycle {
    threads: Vec<Vec<Item>>,
    locations: usize,
    end_with_two: Vec<usize>,
    allowed_by_tso: bool,
}

impl Cycle {
    /// The pairs one after another, the last before the first. Between two of them lies one location; where
    /// `through_third` says so, a store followed by a load is seen through a third thread's store.
    fn of(pairs: &[Pair], through_third: &[bool]) -> Self {
        let mut cycle = Self { locations: pairs.len(), ..Self::default() };
        // Location n lies between the pairs n - 1 and n.
        let mut first_values = vec![0; pairs.len()];
        let mut second_values = vec![0; pairs.len()];
        let mut thirds = Vec::new();
        for (number, pair) in pairs.iter().enumerate() {
            let next = (number + 1) % pairs.len();
            let (from, to) = (pair.second, pairs[next].first);
            let (before, after) = match (from, to) {
                // Wse Rfe with a third thread, or Rfe alone.
                (Store, Read) if through_third[number] => {
                    thirds.push((next, 2));
                    cycle.end_with_two.push(next);
                    (1, 2)
                }
                (Store, Read) => (1, 1),
                // Wse
                (Store, Store) => {
                    cycle.end_with_two.push(next);
                    (1, 2)
                }
                // Fre
                (Read, Store) => (0, 1),
                // Fre Rfe, through a third thread's store.
                (Read, Read) => {
                    thirds.push((next, 1));
                    (0, 1)
                }
            };
            (second_values[number], first_values[next]) = (before, after);
        }
        for (number, pair) in pairs.iter().enumerate() {
            let next = (number + 1) % pairs.len();
            let access = |direction, location, value, locked| {
                Item::Access(Access { direction, location, value, locked })
            };
            let mut thread = vec![access(pair.first, number, first_values[number], pair.first_locked)];
            match pair.between {
                Between::Nothing => {}
                Between::OwnLoad => thread.push(Item::Free(number)),
                fence => thread.push(Item::Fence(fence)),
            }
            thread.push(access(pair.second, next, second_values[number], pair.second_locked));
            cycle.threads.push(thread);
        }
        for (location, value) in thirds {
            let store = Access { direction: Store, location, value, locked: false };
            cycle.threads.push(vec![Item::Access(store)]);
        }
        cycle.allowed_by_tso = !pairs.iter().all(|pair| pair.is_ordered());
        cycle
    }

    /// The test as a file: in one spelling of x86 or the other.
    fn text(&self, source_first: bool) -> String {
        let columns = self.threads.iter().enumerate().map(|(thread, items)| {
            let mut rows = Vec::new();
            for (number, item) in items.iter().enumerate() {
                rows.extend(item.instructions(source_first, thread, number));
            }
            rows
        });
        let columns = columns.collect::<Vec<_>>();
        let mut text =
            String::from(if source_first { "X86_64 A\n\"generated\"\nCom=Rf Fr\n{\n" } else { "X86 A\n{\n" });
        if source_first {
            for location in 0..self.locations {
                let _ = write!(text, "uint64_t v{location}; ");
            }
        }
        text += "}\n";
        let header = (0..columns.len()).map(|thread| format!(" P{thread} ")).collect::<Vec<_>>();
        text += &(header.join("|") + ";\n");
        for row in 0..columns.iter().map(Vec::len).max().unwrap_or(0) {
            let cells = columns.iter().map(|column| column.get(row).cloned().unwrap_or_default());
            text += &(cells.collect::<Vec<_>>().join(" | ") + " ;\n");
        }
        let mut wanted =
            self.end_with_two.iter().map(|location| format!("v{location}=2")).collect::<Vec<_>>();
        for (thread, number, access) in self.reads() {
            let register = REGISTERS[number].to_lowercase();
            let register =
                if source_first { format!("r{register}") } else { format!("E{}", REGISTERS[number]) };
            wanted.push(format!("{thread}:{register}={}", access.value));
        }
        text + &format!("exists ({})\n", wanted.join(" /\\ "))
    }

    /// The loads that the condition speaks of, with their threads and places.
    fn reads(&self) -> impl Iterator<Item = (usize, usize, Access)> {
        self.threads.iter().enumerate().flat_map(|(thread, items)| {
            items.iter().enumerate().filter_map(move |(number, item)| match item {
                Item::Access(access) if access.direction == Read => Some((thread, number, *access)),
                _ => None,
            })
        })
    }

    /// The test as steps, without its text.
    fn program(&self) -> Program {
        let steps = |(thread, items): (usize, &Vec<Item>)| {
            let step = |(number, item): (usize, &Item)| item.step(self.locations + thread, number);
            items.iter().enumerate().map(step).collect()
        };
        Program {
            threads: self.threads.iter().enumerate().map(steps).collect(),
            registers: vec![vec![0; REGISTERS.len()]; self.threads.len()],
            memory: vec![0; self.locations + self.threads.len()],
            moves_order: true,
            ..Program::default()
        }
    }

    fn holds(&self, end: &Final) -> bool {
        self.end_with_two.iter().all(|&location| end.memory[location] == 2)
            && self.reads().all(|(thread, number, access)| end.registers[thread][number] == access.value)
    }
}

/// The registers by the place of the access in its thread.
const REGISTERS: [&str; 4] = ["AX", "BX", "CX", "DX"];

impl Item {
    fn instructions(self, source_first: bool, thread: usize, number: usize) -> Vec<String> {
        let register = REGISTERS[number];
        let of = |intel: String, att: String| if source_first { att.to_lowercase() } else { intel };
        let (e, r) = (format!("E{register}"), format!("%r{register}"));
        let load = |location| of(format!("MOV {e},[v{location}]"), format!("movq (v{location}),{r}"));
        let set = |value| of(format!("MOV {e},${value}"), format!("movq ${value},{r}"));
        match self {
            Self::Free(location) => vec![load(location)],
            Self::Fence(Between::LockedInc) => {
                vec![of(format!("LOCK INC [own{thread}]"), format!("lock incq (own{thread})"))]
            }
            Self::Fence(Between::Mfence) => vec![of("MFENCE".into(), "mfence".into())],
            Self::Fence(Between::Lfence) => vec![of("LFENCE".into(), "lfence".into())],
            Self::Fence(_) => vec![of("SFENCE".into(), "sfence".into())],
            Self::Access(Access { direction, location: l, value, locked }) => match (direction, locked) {
                (Read, false) => vec![load(l)],
                (Store, false) => vec![of(format!("MOV [v{l}],${value}"), format!("movq ${value},(v{l})"))],
                (Store, true) => {
                    vec![set(value), of(format!("XCHG [v{l}],{e}"), format!("xchgq {r},(v{l})"))]
                }
                (Read, true) => {
                    vec![set(0), of(format!("LOCK XADD [v{l}],{e}"), format!("lock xaddq {r},(v{l})"))]
                }
            },
        }
    }

    fn step(self, own: usize, register: usize) -> Step {
        let at = |location: usize| Expression::Constant(address_of(location));
        let (width, relaxed) = (Width::Word, Some(Ordering::Relaxed));
        let locked = |location, update, value| Step::ReadModifyWrite {
            found: register,
            wrote: None,
            address: at(location),
            update,
            value: Expression::Constant(value),
            width,
            ordering: Ordering::SeqCst,
        };
        let load = |location| Step::Load { register, address: at(location), width, ordering: relaxed };
        match self {
            Self::Free(location) => load(location),
            Self::Fence(Between::LockedInc) => locked(own, Update::With(Operator::Add), 1),
            Self::Fence(Between::Mfence) => Step::Fence(Ordering::SeqCst),
            Self::Fence(_) => Step::Fence(Ordering::AcqRel),
            Self::Access(Access { direction, location, value, locked: is_locked }) => {
                match (direction, is_locked) {
                    (Read, false) => load(location),
                    (Read, true) => locked(location, Update::With(Operator::Add), 0),
                    (Store, true) => locked(location, Update::Exchange, value),
                    (Store, false) => {
                        let value = Expression::Constant(value);
                        Step::Store { address: at(location), value, width, ordering: relaxed }
                    }
                }
            }
        }
    }
}

const DIRECTIONS: [(Direction, Direction); 4] = [(Store, Store), (Store, Read), (Read, Store), (Read, Read)];

/// Threads of every kind that `between` and `locked` give.
fn pairs(between: &[Between], locked: &[(bool, bool)]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (first, second) in DIRECTIONS {
        for &between in between {
            for &(first_locked, second_locked) in locked {
                // A load of one's own store says something only after a store in the buffer.
                if between != Between::OwnLoad || first == Store && !first_locked {
                    pairs.push(Pair { first, second, between, first_locked, second_locked });
                }
            }
        }
    }
    pairs
}

/// Cycles of two threads of all kinds, and of three with fewer.
fn cycles() -> Vec<Cycle> {
    use Between::{Lfence, LockedInc, Mfence, Nothing, OwnLoad, Sfence};
    let mut cycles = Vec::new();
    let every = [Nothing, Mfence, Lfence, Sfence, LockedInc, OwnLoad];
    let all = pairs(&every, &[(false, false), (true, false), (false, true)]);
    for (number, &a) in all.iter().enumerate() {
        // The other order is the same cycle.
        for &b in &all[number..] {
            let third = [a.second == Store && b.first == Read && number % 3 == 0, false];
            cycles.push(Cycle::of(&[a, b], &third));
        }
    }
    let few = pairs(&[Nothing, Mfence], &[(false, false)]);
    let locked = pairs(&[Nothing], &[(true, false)]);
    for &a in few.iter().chain(&locked) {
        for &b in &few {
            for &c in &few {
                cycles.push(Cycle::of(&[a, b, c], &[false; 3]));
            }
        }
    }
    cycles
}

#[test]
fn generated_cycles_are_allowed_exactly_when_a_store_may_wait_past_a_load() {
    let cycles = cycles();
    let allowed = cycles.iter().filter(|cycle| cycle.allowed_by_tso).count();
    println!("{} cycles, {allowed} of them allowed by TSO", cycles.len());
    assert!(cycles.len() >= 2_000 && allowed >= 300, "{} cycles, {allowed} allowed", cycles.len());
    for (number, cycle) in cycles.iter().enumerate() {
        let text = cycle.text(number % 2 == 0);
        let test = Test::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let tso = test.judge(Model::Tso);
        assert!(!tso.finals.bounded && tso.finals.fault.is_none(), "{text}");
        assert_eq!(tso.is_allowed(), cycle.allowed_by_tso, "{text}");
        assert!(!test.judge(Model::Sc).is_allowed(), "{text}");
        // The axioms, enumerated from steps that never were text.
        if number % 7 == 0 || cycle.threads.len() == 2 && number % 3 == 0 {
            let [sc, tso, ..] = axiomatic::finals(&cycle.program());
            assert_eq!(tso.states.iter().any(|end| cycle.holds(end)), cycle.allowed_by_tso, "{text}");
            assert!(!sc.states.iter().any(|end| cycle.holds(end)), "{text}");
        }
    }
}
