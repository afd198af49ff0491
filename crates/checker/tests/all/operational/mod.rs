//! A separate way to the final states of a program: a processor with store buffers, or without, in which a transaction is one
//! step. All orders of steps are tried. It shares nothing with the explorer or the axioms but the programs.

use std::collections::{BTreeSet, VecDeque};

use contend_checker::litmus::program::{Expression, Final, Program, Step, Update, Value, Width};
use machine::Ordering;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Thread {
    next: usize,
    registers: Vec<Value>,
    /// Stores that have not reached memory, the oldest first.
    buffer: VecDeque<(usize, Value)>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    threads: Vec<Thread>,
    memory: Vec<Value>,
}

/// The final states under total store order, or under sequential consistency if stores are not buffered.
pub(crate) fn finals(program: &Program, buffered: bool) -> BTreeSet<Final> {
    let threads = program.registers.iter().map(|registers| Thread {
        next: 0,
        registers: registers.clone(),
        buffer: VecDeque::new(),
    });
    let start = State { threads: threads.collect(), memory: program.memory.clone() };
    let mut seen = BTreeSet::from([start.clone()]);
    let mut open = vec![start];
    let mut finals = BTreeSet::new();
    while let Some(state) = open.pop() {
        let machine = Machine { program, buffered };
        let over =
            |(thread, steps): (&Thread, &Vec<Step>)| thread.next == steps.len() && thread.buffer.is_empty();
        if state.threads.iter().zip(&program.threads).all(over) {
            let registers = state.threads.iter().map(|thread| thread.registers.clone()).collect();
            finals.insert(program.without_scratch(Final { registers, memory: state.memory.clone() }));
        }
        for thread in 0..program.threads.len() {
            for next in machine.successors(&state, thread) {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
    }
    finals
}

struct Machine<'a> {
    program: &'a Program,
    buffered: bool,
}

impl Machine<'_> {
    fn successors(&self, state: &State, number: usize) -> Vec<State> {
        let mut all = Vec::new();
        let mut drained = state.clone();
        if let Some((location, value)) = drained.threads[number].buffer.pop_front() {
            drained.memory[location] = value;
            all.push(drained);
        }
        let thread = &state.threads[number];
        match self.program.threads[number].get(thread.next) {
            None => {}
            Some(Step::Begin { aborted }) => {
                if let Some(to) = aborted {
                    let mut next = state.clone();
                    next.threads[number].next = *to;
                    all.push(next);
                }
                if thread.buffer.is_empty() {
                    all.extend(self.transaction(state.clone(), number));
                }
            }
            Some(_) => all.extend(self.step(state.clone(), number, self.buffered)),
        }
        all
    }

    /// The state after the transaction that comes next; none if it waits for ever.
    fn transaction(&self, mut state: State, number: usize) -> Option<State> {
        let mut depth = 0;
        loop {
            match &self.program.threads[number][state.threads[number].next] {
                Step::Begin { .. } => depth += 1,
                Step::Commit => depth -= 1,
                _ => {
                    state = self.step(state, number, false)?;
                    continue;
                }
            }
            state.threads[number].next += 1;
            if depth == 0 {
                return Some(state);
            }
        }
    }

    /// The state after the next step; none if it cannot be taken now.
    fn step(&self, mut state: State, number: usize, buffered: bool) -> Option<State> {
        let State { threads, memory } = &mut state;
        let Thread { next, registers, buffer } = &mut threads[number];
        let step = &self.program.threads[number][*next];
        *next += 1;
        let place = |address: &Expression, width: Width, registers: &[Value]| {
            self.program.location(address.value(registers), width).expect("an address")
        };
        match step {
            Step::Set { register, value } => registers[*register] = value.value(registers),
            Step::Jump { when, to } => {
                if when.value(registers) != 0 {
                    *next = *to;
                }
            }
            Step::Load { register, address, width, .. } => {
                let location = place(address, *width, registers);
                registers[*register] = newest(buffer, memory, location);
            }
            Step::Await { register, address, width, until, .. } => {
                let location = place(address, *width, registers);
                registers[*register] = newest(buffer, memory, location);
                if until.value(registers) == 0 {
                    return None;
                }
            }
            Step::Store { address, value, width, ordering } => {
                let location = place(address, *width, registers);
                let value = width.truncate(value.value(registers));
                // One that is seq_cst has a full fence behind it: it is over when it has reached memory.
                if buffered && *ordering != Some(Ordering::SeqCst) {
                    buffer.push_back((location, value));
                } else if buffer.is_empty() {
                    memory[location] = value;
                } else {
                    return None;
                }
            }
            Step::Check { holds, .. } => assert!(holds.value(registers) != 0, "the program has no meaning"),
            Step::Fence(Ordering::SeqCst) if !buffer.is_empty() => return None,
            Step::Fence(_) => {}
            Step::ReadModifyWrite { .. } if !buffer.is_empty() => return None,
            Step::ReadModifyWrite { found, wrote, address, update, value, width, .. } => {
                let location = place(address, *width, registers);
                let (old, operand) = (memory[location], value.value(registers));
                let new = match update {
                    Update::Exchange => Some(operand),
                    Update::With(operator) => {
                        let (old, operand) = (Expression::Constant(old), Expression::Constant(operand));
                        Some(Expression::binary(*operator, old, operand).value(&[]))
                    }
                    Update::CompareExchange { expected, .. } => {
                        (expected.value(registers) == old).then_some(operand)
                    }
                };
                if let Some(new) = new {
                    memory[location] = width.truncate(new);
                }
                registers[*found] = old;
                if let Some(wrote) = wrote {
                    registers[*wrote] = Value::from(new.is_some());
                }
            }
            Step::Choose { .. } => unreachable!("only the C of a litmus test chooses"),
            Step::Begin { .. } | Step::Commit => unreachable!("transactions are steps of their own"),
        }
        Some(state)
    }
}

/// What a load finds: the newest store of its own thread, or what is in memory.
fn newest(buffer: &VecDeque<(usize, Value)>, memory: &[Value], location: usize) -> Value {
    let own = buffer.iter().rev().find(|(other, _)| *other == location);
    own.map_or(memory[location], |&(_, value)| value)
}
