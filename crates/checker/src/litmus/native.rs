//! A litmus test on this processor: the same threads, many times, at random offsets from each other.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use super::program::{Expression, Fault, FaultKind, Final, Operator, Program, Step, Update, Value, Width};
use super::test::Test;

/// Copies of the test that run between two meetings of its threads.
const COPIES: usize = 512;
/// A thread starts up to so many iterations of an empty loop later than another.
const MOST_OFFSET: u64 = 64;
/// Polls of a word before a wait lets others run.
const POLLS_BEFORE_YIELD: u32 = 1_000;
/// Polls of a word after which a wait counts as one that never ends.
const MOST_POLLS: u32 = 1_000_000;

/// A location, on a line of its own.
#[repr(align(128))]
struct Location(AtomicI64);

/// How often each end was seen.
pub type Outcomes = BTreeMap<Final, u64>;

/// Runs a test at least `iterations` times, or until the time is over, and counts how it ends. A run in which a wait did not end is
/// not counted, and neither are the runs that were to follow it in its round.
///
/// # Errors
/// When an access has no meaning, such as one at a value that is no address, and for transactions, which are not run.
///
/// # Panics
/// When the system gives no threads.
pub fn run(test: &Test, iterations: u64, seed: u64, time: Option<Duration>) -> Result<Outcomes, Fault> {
    let program = &test.program;
    if let Some(fault) = first_transaction(program) {
        return Err(fault);
    }
    let threads = program.threads.len();
    let copies = (0..COPIES)
        .map(|_| program.memory.iter().map(|&value| Location(AtomicI64::new(value))).collect::<Vec<_>>())
        .collect::<Vec<_>>();
    let meeting = Meeting { arrived: AtomicUsize::new(0), threads };
    let rounds = iterations.div_ceil(COPIES as u64);
    let is_over = AtomicBool::new(false);
    let watch = Watch { until: time.map(|time| Instant::now() + time), ends_round: AtomicBool::new(false) };
    // How the copies of a round ended, by thread.
    let ends: Vec<Mutex<Vec<End>>> = (0..threads).map(|_| Mutex::default()).collect();
    std::thread::scope(|scope| {
        let (meeting, copies, ends, is_over, watch) = (&meeting, &copies, &ends, &is_over, &watch);
        let workers = (0..threads).map(|thread| {
            scope.spawn(move || {
                let mut random = seed.wrapping_mul(2).wrapping_add(2 * thread as u64 + 1);
                let mut counted = Ok(Outcomes::new());
                for _ in 0..rounds {
                    meeting.wait();
                    let runs = copies.iter().map(|memory| {
                        stagger(&mut random);
                        let mut registers = program.registers[thread].clone();
                        run_thread(program, thread, (memory, watch), &mut registers).map(|()| registers)
                    });
                    let runs = runs.collect();
                    *ends[thread].lock().expect("no worker panics") = runs;
                    meeting.wait();
                    if thread == 0 {
                        count_round(test, ends, take_memory(copies, program), &mut counted);
                        is_over.store(watch.is_late() || counted.is_err(), Ordering::Relaxed);
                        watch.ends_round.store(false, Ordering::Relaxed);
                    }
                    meeting.wait();
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
                counted
            })
        });
        let workers: Vec<_> = workers.collect();
        let counted = workers.into_iter().map(|worker| worker.join().expect("no worker panics"));
        counted.collect::<Vec<_>>().swap_remove(0)
    })
}

/// Counts how the copies of a round ended, the threads' ends with what memory held then.
fn count_round(
    test: &Test,
    ends: &[Mutex<Vec<End>>],
    memory: Vec<Vec<Value>>,
    counted: &mut Result<Outcomes, Fault>,
) {
    let mut ends: Vec<_> = ends
        .iter()
        .map(|ends| std::mem::take(&mut *ends.lock().expect("no worker panics")).into_iter())
        .collect();
    for memory in memory {
        let of_copy = ends.iter_mut().map(|ends| ends.next().expect("an end of each copy"));
        match of_copy.collect::<Vec<_>>().into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(registers) => {
                let end = Final { registers, memory };
                if let Ok(outcomes) = counted
                    && test.filter.holds(&end)
                {
                    *outcomes.entry(test.program.without_scratch(end)).or_default() += 1;
                }
            }
            Err(Stuck::Waiting) => {}
            Err(Stuck::Fault(fault)) => *counted = Err(fault),
        }
    }
}

fn first_transaction(program: &Program) -> Option<Fault> {
    let is_part = |step: &Step| matches!(step, Step::Begin { .. } | Step::Commit);
    let mut threads = program.threads.iter().enumerate();
    threads.find_map(|(thread, steps)| {
        let step = steps.iter().position(is_part)?;
        Some(Fault { thread, step, address: 0, kind: FaultKind::Transaction })
    })
}

/// What the locations hold; puts back what they held at the start.
fn take_memory(copies: &[Vec<Location>], program: &Program) -> Vec<Vec<Value>> {
    let take = |memory: &Vec<Location>| {
        let locations = memory.iter().zip(&program.memory).enumerate();
        let value = |(number, (location, &first)): (usize, (&Location, &Value))| {
            program.held(number, location.0.swap(first, Ordering::Relaxed))
        };
        locations.map(value).collect()
    };
    copies.iter().map(take).collect()
}

/// Tells a thread that runs for long when to stop.
struct Watch {
    until: Option<Instant>,
    /// In some copy of this round a wait did not end.
    ends_round: AtomicBool,
}

impl Watch {
    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn ends_round(&self) -> bool {
        self.ends_round.load(Ordering::Relaxed)
    }

    /// Whether a thread that has waited for some time is to wait no longer.
    fn ends_wait(&self) -> bool {
        self.ends_round() || self.is_late()
    }

    /// The wait does not end: no copy that follows in this round is run.
    fn end_round(&self) -> Stuck {
        self.ends_round.store(true, Ordering::Relaxed);
        Stuck::Waiting
    }
}

/// Where the threads wait for each other.
struct Meeting {
    arrived: AtomicUsize,
    threads: usize,
}

impl Meeting {
    fn wait(&self) {
        let meeting = self.arrived.fetch_add(1, Ordering::AcqRel) / self.threads;
        let mut polls = 0;
        while self.arrived.load(Ordering::Acquire) / self.threads == meeting {
            let _ = pause(&mut polls);
        }
    }
}

/// Lets some time pass between two polls; whether others had their turn.
fn pause(polls: &mut u32) -> bool {
    *polls += 1;
    let yields = polls.is_multiple_of(POLLS_BEFORE_YIELD);
    if yields {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
    yields
}

/// A random pause (xorshift).
fn stagger(random: &mut u64) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    for _ in 0..*random % MOST_OFFSET {
        std::hint::black_box(());
    }
}

/// What a thread's registers hold at the end of one copy.
type End = Result<Vec<Value>, Stuck>;

enum Stuck {
    Waiting,
    Fault(Fault),
}

/// Steps of one thread after which it counts as one that never ends.
const MOST_STEPS: u32 = 1_000_000;
/// Steps after which others may run.
const STEPS_BEFORE_YIELD: u32 = 10_000;

/// One thread in one copy of the test's memory.
struct Running<'a> {
    program: &'a Program,
    thread: usize,
    memory: &'a [Location],
    watch: &'a Watch,
    registers: &'a mut [Value],
}

fn run_thread(
    program: &Program,
    thread: usize,
    (memory, watch): (&[Location], &Watch),
    registers: &mut [Value],
) -> Result<(), Stuck> {
    if watch.ends_round() {
        return Err(Stuck::Waiting);
    }
    let mut running = Running { program, thread, memory, watch, registers };
    let steps = &program.threads[thread];
    let (mut number, mut taken) = (0, 0_u32);
    while let Some(step) = steps.get(number) {
        if let Step::Jump { when, to } = step {
            let backward = *to <= number;
            number = if when.value(running.registers) != 0 { *to } else { number + 1 };
            taken += 1;
            if taken == MOST_STEPS {
                return Err(watch.end_round());
            }
            if taken.is_multiple_of(STEPS_BEFORE_YIELD) {
                if watch.ends_wait() {
                    return Err(watch.end_round());
                }
                if backward {
                    std::thread::yield_now();
                }
            }
            continue;
        }
        running.step(number, step)?;
        number += 1;
    }
    Ok(())
}

impl<'a> Running<'a> {
    #[inline]
    fn at(&self, step: usize, address: &Expression, width: Width) -> Result<&'a AtomicI64, Stuck> {
        let address = address.value(self.registers);
        match self.program.location(address, width) {
            Ok(location) => Ok(&self.memory[location].0),
            Err(kind) => Err(Stuck::Fault(Fault { thread: self.thread, step, address, kind })),
        }
    }

    #[inline]
    fn step(&mut self, number: usize, step: &Step) -> Result<(), Stuck> {
        match step {
            Step::Set { register, value } => self.registers[*register] = value.value(self.registers),
            Step::Load { register, address, width, ordering } => {
                let word = self.at(number, address, *width)?;
                self.registers[*register] = width.truncate(word.load(ordering.unwrap_or(Ordering::Relaxed)));
            }
            Step::Store { address, value, width, ordering } => {
                let word = self.at(number, address, *width)?;
                let value = width.truncate(value.value(self.registers));
                word.store(value, ordering.unwrap_or(Ordering::Relaxed));
            }
            Step::ReadModifyWrite { found, wrote, address, update, value, width, ordering } => {
                let word = self.at(number, address, *width)?;
                let operand = width.truncate(value.value(self.registers));
                let old = modify(word, update, operand, *width, *ordering, self.registers);
                if let Some(wrote) = wrote {
                    self.registers[*wrote] = Value::from(old.is_ok());
                }
                self.registers[*found] = width.truncate(old.unwrap_or_else(|found| found));
            }
            Step::Fence(ordering) => fence(*ordering),
            // A weak compare-and-exchange may do what a strong one does.
            Step::Choose { register } => self.registers[*register] = 0,
            Step::Await { register, address, width, ordering, until } => {
                let word = self.at(number, address, *width)?;
                let mut polls = 0;
                loop {
                    self.registers[*register] = width.truncate(word.load(*ordering));
                    if until.value(self.registers) != 0 {
                        break;
                    }
                    let waited_long = pause(&mut polls);
                    if polls == MOST_POLLS || waited_long && self.watch.ends_wait() {
                        return Err(self.watch.end_round());
                    }
                }
            }
            Step::Check { holds, otherwise } => {
                if holds.value(self.registers) == 0 {
                    let (thread, kind) = (self.thread, *otherwise);
                    return Err(Stuck::Fault(Fault { thread, step: number, address: 0, kind }));
                }
            }
            Step::Jump { .. } | Step::Begin { .. } | Step::Commit => {
                unreachable!("taken, or refused, by the one who calls")
            }
        }
        Ok(())
    }
}

/// What was there; an error when a comparison failed.
fn modify(
    word: &AtomicI64,
    update: &Update,
    operand: Value,
    width: Width,
    ordering: Ordering,
    registers: &[Value],
) -> Result<Value, Value> {
    match update {
        Update::Exchange => Ok(word.swap(operand, ordering)),
        Update::With(Operator::Add) if width == Width::Long => Ok(word.fetch_add(operand, ordering)),
        Update::With(operator) => {
            let join = |old| Some(width.truncate(operator.apply(old, operand)));
            word.fetch_update(ordering, Ordering::Relaxed, join)
        }
        Update::CompareExchange { expected, failure } => {
            let expected = width.truncate(expected.value(registers));
            word.compare_exchange(expected, operand, ordering, *failure)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a thread that counts for ever; gives how far it came.
    fn count(watch: &Watch) -> i64 {
        let test =
            Test::parse("X86 A\n{ x=0; }\n P0 ;\n L0: INC [x] ;\n JMP L0 ;\nexists (x=0)").expect("a test");
        let memory = [Location(AtomicI64::new(0))];
        let mut registers = test.program.registers[0].clone();
        let end = run_thread(&test.program, 0, (&memory, watch), &mut registers);
        assert!(matches!(end, Err(Stuck::Waiting)));
        memory[0].0.load(Ordering::Relaxed)
    }

    #[test]
    fn a_thread_that_never_ends_ends_with_the_time_and_ends_its_round() {
        let watch = |until| Watch { until, ends_round: AtomicBool::new(false) };
        let late = watch(Some(Instant::now()));
        assert_eq!(count(&late), i64::from(STEPS_BEFORE_YIELD));
        let unlimited = watch(None);
        assert_eq!(count(&unlimited), i64::from(MOST_STEPS));
        for watch in [late, unlimited] {
            assert!(watch.ends_round());
            assert_eq!(count(&watch), 0, "what follows in the round is not run");
        }
    }
}
