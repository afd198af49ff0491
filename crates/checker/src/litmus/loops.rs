//! Loops of a thread: where they start, and whether an iteration of one did anything.
//!
//! A thread that comes back to the start of a loop with the same values in the registers that still matter, and has
//! written nothing since, has only waited: leaving the iteration out gives an execution that ends in the same way, because
//! reads and fences only ever forbid. So such an iteration is one assumption, as a wait is in a lock, and not a path of its own.

use super::program::{Expression, Step, Update, Value};

/// The loops of one thread, and how far it has come in them.
#[derive(Clone, Debug)]
pub(super) struct Loops {
    /// Of each step, which start of a loop it is.
    start_at: Vec<Option<usize>>,
    starts: Vec<Start>,
}

/// A step that is jumped back to.
#[derive(Clone, Debug)]
struct Start {
    /// Registers that are read before they are written, from here on.
    live: Vec<usize>,
    /// The last step that jumps back to it.
    end: usize,
    iterations: usize,
    last: Option<Arrival>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Arrival {
    values: Vec<Value>,
    reads: usize,
    writes: usize,
}

/// What comes of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Iteration {
    /// Nothing has changed since the last one, before the read of this number.
    Waited { first_read: usize },
    /// So many iterations are over. The loop reaches to the step `end`.
    Done { number: usize, end: usize },
    /// No loop starts there.
    NoLoop,
}

impl Loops {
    /// The loops of a thread whose scratch registers mean nothing at its end.
    pub(super) fn of((steps, scratch): (&Vec<Step>, &Vec<usize>)) -> Self {
        let mut start_at = vec![None; steps.len()];
        let mut starts = Vec::new();
        let backward = steps.iter().enumerate();
        let backward =
            backward.filter_map(|(from, step)| Some((from, step.target().filter(|&to| to <= from)?)));
        for (from, to) in backward {
            let start = *start_at[to].get_or_insert_with(|| {
                starts.push((to, from));
                starts.len() - 1
            });
            starts[start].1 = from;
        }
        let live = if starts.is_empty() { Vec::new() } else { live_before(steps, scratch) };
        let starts = starts.iter().map(|&(to, end)| {
            let live = (0..live[to].len()).filter(|&register| live[to][register]).collect();
            Start { live, end, iterations: 0, last: None }
        });
        Self { start_at, starts: starts.collect() }
    }

    /// The thread starts anew.
    pub(super) fn start(&mut self) {
        for start in &mut self.starts {
            (start.iterations, start.last) = (0, None);
        }
    }

    /// The thread comes to a step, from the one that is said.
    pub(super) fn arrive(
        &mut self,
        step: usize,
        from: usize,
        registers: &[Value],
        reads: usize,
        writes: usize,
    ) -> Iteration {
        let Some(number) = self.start_at[step] else { return Iteration::NoLoop };
        let start = &mut self.starts[number];
        let values = start.live.iter().map(|&register| registers[register]).collect::<Vec<_>>();
        if let Some(last) = &start.last
            && last.writes == writes
            && last.values == values
        {
            return Iteration::Waited { first_read: last.reads };
        }
        // Without an access since, an iteration only computes: it costs nothing, and a program that computes for ever is cut
        // off by the number of its iterations all the same.
        const ONLY_COMPUTES: usize = 1_000;
        let accessed = start.last.as_ref().is_none_or(|last| last.reads != reads || last.writes != writes);
        let comes_back = (step..=start.end).contains(&from) && start.last.is_some();
        start.iterations += match (comes_back, accessed) {
            (false, _) => 0,
            (true, true) => ONLY_COMPUTES,
            (true, false) => 1,
        };
        start.last = Some(Arrival { values, reads, writes });
        Iteration::Done { number: start.iterations / ONLY_COMPUTES, end: start.end }
    }
}

/// Of each step, which registers are read from there on before they are written. All but scratch ones are read at the end.
fn live_before(steps: &[Step], scratch: &[usize]) -> Vec<Vec<bool>> {
    let mut registers = scratch.iter().max().map_or(0, |&most| most + 1);
    steps.iter().for_each(|step| each_use(step, &mut |register| registers = registers.max(register + 1)));
    let mut at_end = vec![true; registers];
    scratch.iter().for_each(|&register| at_end[register] = false);
    let mut live = vec![vec![false; registers]; steps.len()];
    live.push(at_end);
    loop {
        let mut changed = false;
        for (number, step) in steps.iter().enumerate().rev() {
            let before = live_before_step(step, number, &live);
            changed |= before != live[number];
            live[number] = before;
        }
        if !changed {
            return live;
        }
    }
}

fn live_before_step(step: &Step, number: usize, live: &[Vec<bool>]) -> Vec<bool> {
    let mut before = live[number + 1].clone();
    match step {
        Step::Set { register, .. } | Step::Load { register, .. } | Step::Choose { register } => {
            before[*register] = false;
        }
        Step::ReadModifyWrite { found, wrote, .. } => {
            before[*found] = false;
            wrote.iter().for_each(|&wrote| before[wrote] = false);
        }
        Step::Jump { when: Expression::Constant(value), .. } if *value != 0 => before.fill(false),
        Step::Store { .. }
        | Step::Fence(_)
        | Step::Await { .. }
        | Step::Check { .. }
        | Step::Jump { .. }
        | Step::Begin { .. }
        | Step::Commit => {}
    }
    if let Some(to) = step.target() {
        before.iter_mut().zip(&live[to]).for_each(|(here, &there)| *here |= there);
    }
    each_read(step, &mut |register| before[register] = true);
    before
}

/// Calls `each` with the registers that a step reads.
fn each_read(step: &Step, each: &mut impl FnMut(usize)) {
    match step {
        Step::Set { value, .. } => value.each_register(each),
        Step::Load { address, .. } => address.each_register(each),
        Step::Store { address, value, .. } => {
            address.each_register(each);
            value.each_register(each);
        }
        Step::ReadModifyWrite { address, update, value, .. } => {
            address.each_register(each);
            value.each_register(each);
            if let Update::CompareExchange { expected, .. } = update {
                expected.each_register(each);
            }
        }
        Step::Await { address, until, .. } => {
            address.each_register(each);
            until.each_register(each);
        }
        Step::Check { holds: value, .. } | Step::Jump { when: value, .. } => value.each_register(each),
        Step::Fence(_) | Step::Choose { .. } | Step::Begin { .. } | Step::Commit => {}
    }
}

/// Calls `each` with the registers that a step reads or writes.
fn each_use(step: &Step, each: &mut impl FnMut(usize)) {
    each_read(step, each);
    match step {
        Step::Set { register, .. }
        | Step::Load { register, .. }
        | Step::Choose { register }
        | Step::Await { register, .. } => each(*register),
        Step::ReadModifyWrite { found, wrote, .. } => {
            each(*found);
            wrote.iter().for_each(|&wrote| each(wrote));
        }
        Step::Store { .. }
        | Step::Fence(_)
        | Step::Check { .. }
        | Step::Jump { .. }
        | Step::Begin { .. }
        | Step::Commit => {}
    }
}
