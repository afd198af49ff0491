//! A litmus test on this processor: the same threads, many times, at random offsets from each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering, fence};

use super::program::{Expression, Final, Operator, Step, Update, Value, location_at};
use super::test::Test;

/// Copies of the test that run between two meetings of its threads.
const COPIES: usize = 512;
/// A thread starts up to so many turns of an empty loop later than another.
const MOST_OFFSET: u64 = 64;
/// Looks at a word before a wait lets others run.
const LOOKS_BEFORE_YIELD: u32 = 1_000;
/// Looks at a word after which a wait counts as one that never ends.
const MOST_LOOKS: u32 = 1_000_000;

/// A location, on a line of its own.
#[repr(align(128))]
struct Location(AtomicI64);

/// How often each end was seen.
pub type Outcomes = BTreeMap<Final, u64>;

/// Why a test cannot run on a processor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("thread {thread} follows the value {address}, which is no address of a location")]
pub struct WildPointer {
    /// Which thread.
    pub thread: usize,
    /// What it followed.
    pub address: Value,
}

/// Runs a test at least `iterations` times and counts how it ends. A run in which a wait did not end is not counted.
///
/// # Errors
/// When a thread follows a value that is no address.
///
/// # Panics
/// When the system gives no threads.
pub fn run(test: &Test, iterations: u64, seed: u64) -> Result<Outcomes, WildPointer> {
    let program = &test.program;
    let threads = program.threads.len();
    let copies = (0..COPIES)
        .map(|_| program.memory.iter().map(|&value| Location(AtomicI64::new(value))).collect::<Vec<_>>())
        .collect::<Vec<_>>();
    let meeting = Meeting { arrived: AtomicUsize::new(0), threads };
    let rounds = iterations.div_ceil(COPIES as u64);
    let mut outcomes = Outcomes::new();
    std::thread::scope(|scope| {
        let (meeting, copies) = (&meeting, &copies);
        let workers = (0..threads).map(|thread| {
            scope.spawn(move || {
                let mut random = seed.wrapping_mul(2).wrapping_add(2 * thread as u64 + 1);
                let mut all = Vec::new();
                for _ in 0..rounds {
                    let mut ends = Vec::with_capacity(COPIES);
                    meeting.wait();
                    for memory in copies {
                        stagger(&mut random);
                        let mut registers = program.registers[thread].clone();
                        let run = steps(&program.threads[thread], memory, &mut registers);
                        ends.push(run.map(|()| registers));
                    }
                    meeting.wait();
                    let memory = (thread == 0).then(|| take_memory(copies, &program.memory));
                    all.push((ends, memory));
                    meeting.wait();
                }
                all
            })
        });
        let mut workers = workers.collect::<Vec<_>>().into_iter();
        let workers = workers.by_ref().map(|worker| worker.join().expect("a worker does not panic"));
        let all = workers.collect::<Vec<_>>();
        for round in 0..rounds as usize {
            let memory = all[0][round].1.as_ref().expect("the first thread looks at memory");
            for (copy, memory) in memory.iter().enumerate() {
                let mut registers = Vec::new();
                for (thread, rounds) in all.iter().enumerate() {
                    match &rounds[round].0[copy] {
                        Ok(values) => registers.push(values.clone()),
                        Err(Stuck::Waiting) => break,
                        Err(Stuck::Wild(address)) => return Err(WildPointer { thread, address: *address }),
                    }
                }
                if registers.len() == threads {
                    let end = Final { registers, memory: memory.clone() };
                    if test.filter.holds(&end) {
                        *outcomes.entry(test.without_scratch(end)).or_default() += 1;
                    }
                }
            }
        }
        Ok(outcomes)
    })
}

/// What the locations hold; puts back what they held at the start.
fn take_memory(copies: &[Vec<Location>], initial: &[Value]) -> Vec<Vec<Value>> {
    let take = |memory: &Vec<Location>| {
        memory
            .iter()
            .zip(initial)
            .map(|(location, &first)| location.0.swap(first, Ordering::Relaxed))
            .collect()
    };
    copies.iter().map(take).collect()
}

/// Where the threads wait for each other.
struct Meeting {
    arrived: AtomicUsize,
    threads: usize,
}

impl Meeting {
    fn wait(&self) {
        let meeting = self.arrived.fetch_add(1, Ordering::AcqRel) / self.threads;
        let mut looks = 0;
        while self.arrived.load(Ordering::Acquire) / self.threads == meeting {
            pause(&mut looks);
        }
    }
}

fn pause(looks: &mut u32) {
    *looks += 1;
    if looks.is_multiple_of(LOOKS_BEFORE_YIELD) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
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

enum Stuck {
    Waiting,
    Wild(Value),
}

fn at<'a>(memory: &'a [Location], address: &Expression, registers: &[Value]) -> Result<&'a AtomicI64, Stuck> {
    let address = address.value(registers);
    let location = location_at(address).and_then(|location| memory.get(location));
    location.map(|location| &location.0).ok_or(Stuck::Wild(address))
}

fn steps(steps: &[Step], memory: &[Location], registers: &mut [Value]) -> Result<(), Stuck> {
    for step in steps {
        match step {
            Step::Set { register, value } => registers[*register] = value.value(registers),
            Step::Load { register, address, width, ordering } => {
                let ordering = ordering.unwrap_or(Ordering::Relaxed);
                registers[*register] = width.truncate(at(memory, address, registers)?.load(ordering));
            }
            Step::Store { address, value, width, ordering } => {
                let value = width.truncate(value.value(registers));
                at(memory, address, registers)?.store(value, ordering.unwrap_or(Ordering::Relaxed));
            }
            Step::ReadModifyWrite { found, wrote, address, update, value, width, ordering } => {
                let word = at(memory, address, registers)?;
                let operand = width.truncate(value.value(registers));
                let ordering = *ordering;
                let old = match update {
                    Update::Exchange => Ok(word.swap(operand, ordering)),
                    Update::With(Operator::Add) => Ok(word.fetch_add(operand, ordering)),
                    Update::With(operator) => {
                        let join = |old| {
                            let (a, b) = (Expression::Constant(old), Expression::Constant(operand));
                            Some(width.truncate(Expression::binary(*operator, a, b).value(&[])))
                        };
                        word.fetch_update(ordering, Ordering::Relaxed, join)
                    }
                    Update::CompareExchange { expected, failure } => {
                        let expected = width.truncate(expected.value(registers));
                        word.compare_exchange(expected, operand, ordering, *failure)
                    }
                };
                if let Some(wrote) = wrote {
                    registers[*wrote] = Value::from(old.is_ok());
                }
                registers[*found] = width.truncate(old.unwrap_or_else(|found| found));
            }
            Step::Fence(ordering) => fence(*ordering),
            Step::Await { register, address, width, ordering, until } => {
                let word = at(memory, address, registers)?;
                let mut looks = 0;
                loop {
                    registers[*register] = width.truncate(word.load(*ordering));
                    if until.value(registers) != 0 {
                        break;
                    }
                    if looks == MOST_LOOKS {
                        return Err(Stuck::Waiting);
                    }
                    pause(&mut looks);
                }
            }
            Step::If { condition, then, otherwise } => {
                let branch = if condition.value(registers) != 0 { then } else { otherwise };
                self::steps(branch, memory, registers)?;
            }
        }
    }
    Ok(())
}
