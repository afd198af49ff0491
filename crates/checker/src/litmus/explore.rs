//! A program under a model: every execution, and how each ends.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use machine::Ordering;

use super::loops::{Iteration, Loops};
use super::program::{Expression, Fault, FaultKind, Final, Program, Step, Update, Value, Width};
use crate::consistency::{Transaction, happens_before};
use crate::explorer::{Access, Explorer, Stop};
use crate::graph::{Compare, EventId, LocationId};
use crate::model::{Model, Strength};

/// What an exploration may cost. Whatever ends it early makes it a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many iterations of a loop a thread may take that change something; the loop's condition may end it once more. An
    /// iteration that only reads, and leaves the thread as it was, is a wait and not counted.
    pub iterations: usize,
    /// Executions.
    pub executions: u64,
    /// How long.
    pub time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { iterations: 4, executions: 20_000_000, time: None }
    }
}

/// All ends of a program under a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finals {
    /// The ends, each once.
    pub states: BTreeSet<Final>,
    /// How many executions.
    pub counts: crate::Counts,
    /// Two plain accesses were not ordered: the program has no meaning in C.
    pub race: bool,
    /// A step without meaning: the program cannot be judged.
    pub fault: Option<Fault>,
    /// The exploration stopped before its end.
    pub bounded: bool,
    /// It did so because a loop took too many iterations.
    pub unrolled: bool,
}

/// Steps of a thread in one execution at most, those without an access counted: more is a loop within loops.
const MOST_STEPS_TAKEN: usize = 100_000;
/// Final states at most: they are kept until the end.
const MOST_STATES: usize = 500_000;
/// Events between two reads of the clock.
const EVENTS_PER_CLOCK: usize = 5_000;

impl Program {
    /// Explores all executions under the model and collects how they end.
    #[must_use]
    pub fn explore(&self, model: Model) -> Finals {
        self.explore_within(model, &Limits::default())
    }

    /// The same, but no further than the limits.
    #[must_use]
    pub fn explore_within(&self, model: Model, limits: &Limits) -> Finals {
        let mut explorer = Explorer::new(model, self.threads.len());
        for (location, &value) in self.memory.iter().enumerate() {
            explorer.set_initial(location as LocationId, value as u64);
        }
        let mut finals = Finals::default();
        let mut registers = self.registers.clone();
        let mut loops = self.threads.iter().zip(&self.scratch_or_none()).map(Loops::of).collect::<Vec<_>>();
        let has_transactions = self.threads.iter().flatten().any(|step| matches!(step, Step::Begin { .. }));
        let started = Instant::now();
        explorer.deadline = limits.time.map(|time| started + time);
        let mut unclocked = EVENTS_PER_CLOCK;
        while finals.fault.is_none() && explorer.begin() {
            let looks_at_clock = unclocked >= EVENTS_PER_CLOCK;
            unclocked = if looks_at_clock { 0 } else { unclocked };
            let too_long = |limit| looks_at_clock && started.elapsed() > limit;
            let too_many = explorer.counts.all() >= limits.executions || finals.states.len() >= MOST_STATES;
            if too_many || limits.time.is_some_and(too_long) {
                finals.bounded = true;
                break;
            }
            let first = explorer.half_done();
            let others = (0..self.threads.len()).filter(|&thread| first != Some(thread));
            // The thread that a revisit left inside a read-modify-write finishes that before the others run.
            for thread in first.into_iter().chain(others) {
                registers[thread].clone_from(&self.registers[thread]);
                let mut run = Running {
                    program: self,
                    thread,
                    registers: &mut registers[thread],
                    explorer: &mut explorer,
                    loops: &mut loops[thread],
                    most_iterations: limits.iterations,
                    reads: Vec::new(),
                    writes: 0,
                    tests_for_exit: None,
                    transaction: None,
                    fault: &mut finals.fault,
                    unrolled: &mut finals.unrolled,
                };
                let _ = run.steps(&self.threads[thread]);
            }
            unclocked += explorer.graph.events();
            let is_finished = explorer.finish();
            // An execution that ends early is the beginning of a consistent one, and its races are races of that one. Only when
            // it has ended is it known which of its parts are transactions.
            finals.race = finals.race || (is_finished || !has_transactions) && has_race(&explorer);
            if is_finished {
                finals.states.insert(
                    self.without_scratch(Final {
                        registers: registers.clone(),
                        memory: (0..self.memory.len())
                            .map(|location| {
                                self.held(location, explorer.last_value(location as LocationId) as Value)
                            })
                            .collect(),
                    }),
                );
            }
            // A wait that never ends is no final state, and no error of a litmus test either.
            explorer.violation = None;
        }
        finals.counts = explorer.counts;
        finals.bounded |= explorer.cut_off | explorer.is_late | explorer.is_full | finals.unrolled;
        finals
    }

    fn scratch_or_none(&self) -> Vec<Vec<usize>> {
        let mut scratch = self.scratch.clone();
        scratch.resize(self.threads.len(), Vec::new());
        scratch
    }
}

/// Whether two accesses of one location, of which one is plain and one writes, are not ordered.
fn has_race(explorer: &Explorer) -> bool {
    let graph = &explorer.graph;
    let with_transactions =
        (!explorer.transactions.is_empty()).then(|| happens_before(graph, &explorer.transactions));
    let ordered = |a: EventId, b: EventId| match &with_transactions {
        Some(happens_before) => happens_before(a, b),
        None => graph.event(b).happened.has(a),
    };
    let conflicts = |a: EventId, b: EventId| {
        let (first, second) = (graph.event(a), graph.event(b));
        a.thread != b.thread
            && (first.is_write() || second.is_write())
            && (first.strength.has(Strength::PLAIN) || second.strength.has(Strength::PLAIN))
            && !ordered(a, b)
            && !ordered(b, a)
    };
    graph.locations.iter().any(|accesses| {
        let all = || accesses.reads.iter().chain(&accesses.writes).copied();
        all().any(|a| all().any(|b| conflicts(a, b)))
    })
}

/// A transaction that a thread is in.
struct Begun {
    /// How many events of the thread came before it.
    first: usize,
    /// How many of its parts are still to end.
    depth: usize,
}

/// One thread of a program in one execution.
struct Running<'a> {
    program: &'a Program,
    thread: usize,
    registers: &'a mut [Value],
    explorer: &'a mut Explorer,
    loops: &'a mut Loops,
    most_iterations: usize,
    /// What it has read so far.
    reads: Vec<EventId>,
    /// How often it has written.
    writes: usize,
    /// The steps of a loop that has had its iterations. Its condition may still end it, so it is left without a write or not
    /// followed any further.
    tests_for_exit: Option<RangeInclusive<usize>>,
    transaction: Option<Begun>,
    fault: &'a mut Option<Fault>,
    unrolled: &'a mut bool,
}

impl Running<'_> {
    fn ordering(&self, ordering: Option<Ordering>, of_moves: Ordering) -> Ordering {
        match ordering.unwrap_or(Ordering::Relaxed) {
            Ordering::Relaxed if self.program.moves_order && self.explorer.model == Model::Ra => of_moves,
            ordering => ordering,
        }
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Stop> {
        self.loops.start();
        let (mut number, mut before) = (0, 0);
        let mut taken = 0;
        while let Some(step) = steps.get(number) {
            self.iterate(number, before)?;
            before = number;
            taken += 1;
            if taken > MOST_STEPS_TAKEN {
                return self.cut_off();
            }
            number = match step {
                Step::Jump { when, to } if self.value(when) != 0 => *to,
                Step::Jump { .. } => number + 1,
                Step::Begin { aborted } => self.begin(*aborted)?.unwrap_or(number + 1),
                Step::Store { .. } | Step::ReadModifyWrite { .. } if self.tests_for_exit.is_some() => {
                    return self.cut_off();
                }
                step => {
                    self.step(number, step)?;
                    number + 1
                }
            };
        }
        match self.transaction {
            None => Ok(()),
            Some(_) => self.explorer.wait(self.thread, &[], true, "has not committed its transaction"),
        }
    }

    /// Begins a transaction; gives the step to go on at if it aborts.
    fn begin(&mut self, aborted: Option<usize>) -> Result<Option<usize>, Stop> {
        if let Some(begun) = &mut self.transaction {
            begun.depth += 1;
            return Ok(None);
        }
        if aborted.is_some() && self.explorer.choose(self.thread, 2, None)? == 1 {
            return Ok(aborted);
        }
        self.fence_of_transaction()?;
        self.transaction = Some(Begun { first: self.explorer.steps_of(self.thread), depth: 1 });
        Ok(None)
    }

    fn commit(&mut self, number: usize) -> Result<(), Stop> {
        let Some(mut begun) = self.transaction.take() else {
            return self.give_up(number, 0, FaultKind::CommitAlone);
        };
        begun.depth -= 1;
        if begun.depth > 0 {
            self.transaction = Some(begun);
            return Ok(());
        }
        let events = begun.first..self.explorer.steps_of(self.thread);
        self.explorer.transactions.push(Transaction { thread: self.thread, events });
        self.fence_of_transaction()
    }

    /// Processors order as by a locked instruction where a transaction begins and where it commits; C orders transactions by what
    /// they have in common.
    fn fence_of_transaction(&mut self) -> Result<(), Stop> {
        match self.explorer.model {
            Model::Sc | Model::Tso | Model::Pso => self.explorer.fence(self.thread, Ordering::SeqCst, None),
            Model::Ra => Ok(()),
        }
    }

    /// Ends the execution where a thread goes in a circle.
    fn iterate(&mut self, number: usize, before: usize) -> Result<(), Stop> {
        self.tests_for_exit.take_if(|steps| !steps.contains(&number));
        match self.loops.arrive(number, before, self.registers, self.reads.len(), self.writes) {
            // The iteration did nothing but read: another one does only if it reads something else.
            Iteration::Waited { first_read } => {
                let reads = &self.reads[first_read..];
                self.explorer.wait(self.thread, reads, false, "waits for a value")
            }
            Iteration::Done { number: done, .. } if done > self.most_iterations => self.cut_off(),
            Iteration::Done { number: done, end } if done == self.most_iterations => {
                // A loop around this one that has had its iterations reaches further.
                self.tests_for_exit.get_or_insert(number..=end);
                Ok(())
            }
            Iteration::Done { .. } | Iteration::NoLoop => Ok(()),
        }
    }

    /// The thread is followed no further. The others are: what they write may give its earlier reads other values.
    fn cut_off(&mut self) -> Result<(), Stop> {
        *self.unrolled = true;
        self.explorer.wait(self.thread, &[], true, "is followed no further")
    }

    fn value(&self, expression: &Expression) -> Value {
        expression.value(self.registers)
    }

    /// The step has no meaning: the program cannot be judged.
    fn give_up<T>(&mut self, step: usize, address: Value, kind: FaultKind) -> Result<T, Stop> {
        self.fault.get_or_insert(Fault { thread: self.thread, step, address, kind });
        self.explorer.give_up()
    }

    fn access(
        &mut self,
        step: usize,
        (address, width): (&Expression, Width),
        ordering: Ordering,
        strength: Strength,
    ) -> Result<Access, Stop> {
        let address = self.value(address);
        match self.program.location(address, width) {
            Ok(location) => Ok(Access {
                thread: self.thread,
                location: location as LocationId,
                strength,
                ordering,
                site: None,
                compare: None,
            }),
            Err(kind) => self.give_up(step, address, kind),
        }
    }

    fn step(&mut self, number: usize, step: &Step) -> Result<(), Stop> {
        let model = self.explorer.model;
        match step {
            Step::Set { register, value } => self.registers[*register] = self.value(value),
            Step::Load { register, address, width, ordering } => {
                let plain = Strength::PLAIN.when(ordering.is_none());
                let ordering = self.ordering(*ordering, Ordering::Acquire);
                let strength = model.load(ordering).with(plain);
                let access = self.access(number, (address, *width), ordering, strength)?;
                let (read, value) = self.explorer.read(access, None)?;
                self.reads.push(read);
                self.registers[*register] = width.truncate(value as Value);
            }
            Step::Store { address, value, width, ordering } => {
                let value = width.truncate(self.value(value));
                let plain = Strength::PLAIN.when(ordering.is_none());
                let ordering = self.ordering(*ordering, Ordering::Release);
                let strength = model.store(ordering).with(plain);
                let access = self.access(number, (address, *width), ordering, strength)?;
                self.writes += 1;
                self.explorer.write(access, value as u64, None)?;
                if model.fence_after_store(ordering) {
                    self.explorer.add_fence(self.thread, Strength::FULL, ordering, None)?;
                }
            }
            Step::ReadModifyWrite { .. } => self.read_modify_write(number, step)?,
            Step::Fence(ordering) => self.explorer.fence(self.thread, *ordering, None)?,
            Step::Choose { register } => {
                self.registers[*register] = self.explorer.choose(self.thread, 2, None)? as Value;
            }
            Step::Await { register, address, width, ordering, until } => {
                let strength = model.load(*ordering);
                let access = self.access(number, (address, *width), *ordering, strength)?;
                let registers = &mut *self.registers;
                let mut wanted = |value: u64| {
                    registers[*register] = width.truncate(value as Value);
                    until.value(registers) != 0
                };
                let (read, value) = self.explorer.read(access, Some(&mut wanted))?;
                self.reads.push(read);
                if !wanted(value) {
                    return self.explorer.wait(self.thread, &[read], false, "waits for a value");
                }
            }
            Step::Check { holds, otherwise } => {
                if self.value(holds) == 0 {
                    return self.give_up(number, 0, *otherwise);
                }
            }
            Step::Commit => self.commit(number)?,
            Step::Jump { .. } | Step::Begin { .. } => unreachable!("taken by the one who calls"),
        }
        Ok(())
    }

    fn read_modify_write(&mut self, number: usize, step: &Step) -> Result<(), Stop> {
        let Step::ReadModifyWrite { found, wrote, address, update, value, width, ordering } = step else {
            unreachable!("called for read-modify-writes")
        };
        let model = self.explorer.model;
        let operand = self.value(value);
        let expected = match update {
            Update::CompareExchange { expected, .. } => Some(width.truncate(self.value(expected))),
            _ => None,
        };
        let success = model.rmw_read(*ordering);
        let mut access = self.access(number, (address, *width), *ordering, success)?;
        if let (Update::CompareExchange { failure, .. }, Some(expected)) = (update, expected) {
            let failure = model.failed_exchange(*ordering, *failure);
            access.compare = Some(Compare { expected: expected as u64, success, failure });
        }
        let (read, old) = self.explorer.read(access, None)?;
        self.reads.push(read);
        let old = width.truncate(old as Value);
        let new = match update {
            Update::Exchange => Some(operand),
            Update::With(operator) => Some(operator.apply(old, operand)),
            Update::CompareExchange { .. } => (expected == Some(old)).then_some(operand),
        };
        if let Some(new) = new {
            let access = Access { strength: model.rmw_write(*ordering), compare: None, ..access };
            self.writes += 1;
            self.explorer.write(access, width.truncate(new) as u64, Some(read))?;
        }
        self.registers[*found] = old;
        if let Some(wrote) = wrote {
            self.registers[*wrote] = Value::from(new.is_some());
        }
        Ok(())
    }
}
