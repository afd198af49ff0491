//! A separate way to the final states of a program: all combinations of who reads from whom and of write orders are
//! enumerated, and each is judged by the models' conditions, written down as the literature states them. It shares
//! nothing with the explorer but the programs.

use std::collections::BTreeSet;

use contend_checker::Model;
use contend_checker::litmus::program::{Expression, Final, Program, Step, Update, Value, Width, location_at};
use machine::Ordering;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EventKind {
    Read,
    Write,
    Fence,
}

#[derive(Clone, Debug)]
struct Event {
    thread: usize,
    kind: EventKind,
    location: usize,
    ordering: Ordering,
    /// Half of a read-modify-write that wrote, or a compare-and-exchange that failed.
    locked: bool,
    /// The other half.
    partner: Option<usize>,
    /// The step of the thread, and of a compare-and-exchange whether it is taken to succeed.
    step: usize,
    succeeds: bool,
    /// The number of the transaction that it is in.
    transaction: Option<usize>,
    /// It stands where a transaction begins or commits.
    boundary: bool,
}

/// A relation: row by row the set of events that follow.
type Relation = Vec<u64>;

/// What the model allows: the final states, and how many executions lead there.
#[derive(Default)]
pub(crate) struct Allowed {
    pub(crate) states: BTreeSet<Final>,
    pub(crate) executions: u64,
}

/// What each model allows, in the order of [`Model::ALL`]. The program has no branches, and at most 64 events.
pub(crate) fn finals(program: &Program) -> [Allowed; 4] {
    let exchanges = program.threads.iter().flatten().filter(|step| is_compare(step)).count();
    let mut states = <[Allowed; 4]>::default();
    for guess in 0..1_u32 << exchanges {
        let events = events_of(program, guess);
        let reads = (0..events.len()).filter(|&e| events[e].kind == EventKind::Read).collect::<Vec<_>>();
        each_source(program, &events, &reads, &mut vec![None; events.len()], &mut states);
    }
    states
}

fn is_compare(step: &Step) -> bool {
    matches!(step, Step::ReadModifyWrite { update: Update::CompareExchange { .. }, .. })
}

fn place(address: &Expression) -> usize {
    let Expression::Constant(address) = address else { panic!("addresses are constant here") };
    location_at(*address).expect("an address")
}

fn events_of(program: &Program, guess: u32) -> Vec<Event> {
    let mut events = Vec::new();
    let mut exchanges = 0;
    let mut transactions = 0;
    let mut transaction = None;
    for (thread, steps) in program.threads.iter().enumerate() {
        for (number, step) in steps.iter().enumerate() {
            let event = |kind, location, ordering| Event {
                thread,
                kind,
                location,
                ordering,
                locked: false,
                partner: None,
                step: number,
                succeeds: true,
                transaction,
                boundary: false,
            };
            match step {
                Step::Load { address, ordering, .. } => {
                    events.push(event(EventKind::Read, place(address), ordering.unwrap()));
                }
                Step::Await { address, ordering, .. } => {
                    events.push(event(EventKind::Read, place(address), *ordering));
                }
                Step::Store { address, ordering, .. } => {
                    events.push(event(EventKind::Write, place(address), ordering.unwrap()));
                }
                Step::Fence(ordering) => events.push(event(EventKind::Fence, usize::MAX, *ordering)),
                Step::ReadModifyWrite { address, update, ordering, .. } => {
                    let mut succeeds = true;
                    let mut read_ordering = *ordering;
                    if let Update::CompareExchange { failure, .. } = update {
                        succeeds = guess & (1 << exchanges) != 0;
                        exchanges += 1;
                        if !succeeds {
                            read_ordering = *failure;
                        }
                    }
                    let read = events.len();
                    let half = |kind, ordering| Event {
                        locked: true,
                        succeeds,
                        ..event(kind, place(address), ordering)
                    };
                    events.push(half(EventKind::Read, read_ordering));
                    if succeeds {
                        events[read].partner = Some(read + 1);
                        events.push(Event { partner: Some(read), ..half(EventKind::Write, *ordering) });
                    } else if *ordering == Ordering::SeqCst {
                        // Locked all the same; only the machines with buffers look at it.
                        events[read].partner = None;
                    }
                }
                Step::Begin { aborted: None } | Step::Commit => {
                    let fence = event(EventKind::Fence, usize::MAX, Ordering::Relaxed);
                    events.push(Event { transaction: None, boundary: true, ..fence });
                    transactions += usize::from(*step != Step::Commit);
                    transaction = (*step != Step::Commit).then_some(transactions);
                }
                Step::Set { .. }
                | Step::Check { .. }
                | Step::Jump { .. }
                | Step::Choose { .. }
                | Step::Begin { .. } => {
                    panic!("programs are straight here")
                }
            }
        }
    }
    events
}

fn each_source(
    program: &Program,
    events: &[Event],
    reads: &[usize],
    sources: &mut Vec<Option<usize>>,
    states: &mut [Allowed; 4],
) {
    let Some((&read, rest)) = reads.split_first() else {
        if let Some((values, registers)) = evaluate(program, events, sources) {
            each_order(
                program,
                events,
                sources,
                &values,
                &registers,
                0,
                &mut vec![Vec::new(); program.memory.len()],
                states,
            );
        }
        return;
    };
    sources[read] = None;
    each_source(program, events, rest, sources, states);
    for (write, event) in events.iter().enumerate() {
        if event.kind == EventKind::Write
            && event.location == events[read].location
            && !(event.thread == events[read].thread && write > read)
        {
            sources[read] = Some(write);
            each_source(program, events, rest, sources, states);
        }
    }
    sources[read] = None;
}

/// The values of all events and the registers at the end, unless the reads depend on themselves, a wait is not
/// satisfied, or a guess about a compare-and-exchange was wrong.
fn evaluate(
    program: &Program,
    events: &[Event],
    sources: &[Option<usize>],
) -> Option<(Vec<Value>, Vec<Vec<Value>>)> {
    let mut values = vec![None; events.len()];
    let mut registers = program.registers.clone();
    let mut next = program
        .threads
        .iter()
        .enumerate()
        .map(|(thread, _)| events.iter().position(|event| event.thread == thread).unwrap_or(events.len()))
        .collect::<Vec<_>>();
    loop {
        let mut moved = false;
        for thread in 0..program.threads.len() {
            while let Some(event) = events.get(next[thread]).filter(|event| event.thread == thread) {
                let at = next[thread];
                let read = |at: usize, values: &[Option<Value>]| match sources[at] {
                    None => Some(program.memory[events[at].location]),
                    Some(write) => values[write],
                };
                let registers = &mut registers[thread];
                match (&program.threads[thread][event.step], event.kind) {
                    (_, EventKind::Fence) => values[at] = Some(0),
                    (Step::Load { register, .. }, _) => {
                        let Some(value) = read(at, &values) else { break };
                        registers[*register] = value;
                        values[at] = Some(value);
                    }
                    (Step::Await { register, until, .. }, _) => {
                        let Some(value) = read(at, &values) else { break };
                        registers[*register] = value;
                        if until.value(registers) == 0 {
                            return None;
                        }
                        values[at] = Some(value);
                    }
                    (Step::Store { value, .. }, _) => {
                        values[at] = Some(Width::Word.truncate(value.value(registers)));
                    }
                    (Step::ReadModifyWrite { found, wrote, update, value, .. }, EventKind::Read) => {
                        let Some(old) = read(at, &values) else { break };
                        let new = updated(update, old, value.value(registers), event.succeeds, registers)?;
                        registers[*found] = old;
                        if let Some(wrote) = wrote {
                            registers[*wrote] = Value::from(event.succeeds);
                        }
                        values[at] = Some(old);
                        if let Some(write) = event.partner {
                            values[write] = Some(Width::Word.truncate(new));
                        }
                    }
                    (_, EventKind::Write) => {} // the second half, already known
                    _ => unreachable!(),
                }
                next[thread] += 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    let values = values.into_iter().collect::<Option<Vec<_>>>()?;
    Some((values, registers))
}

/// What a read-modify-write that found `old` writes, or would; nothing if the guess about its success was wrong.
fn updated(
    update: &Update,
    old: Value,
    operand: Value,
    succeeds: bool,
    registers: &[Value],
) -> Option<Value> {
    match update {
        Update::Exchange => Some(operand),
        Update::With(operator) => {
            let [old, operand] = [old, operand].map(Expression::Constant);
            Some(Expression::binary(*operator, old, operand).value(registers))
        }
        Update::CompareExchange { expected, .. } => {
            ((expected.value(registers) == old) == succeeds).then_some(operand)
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn each_order(
    program: &Program,
    events: &[Event],
    sources: &[Option<usize>],
    values: &[Value],
    registers: &[Vec<Value>],
    location: usize,
    orders: &mut Vec<Vec<usize>>,
    states: &mut [Allowed; 4],
) {
    if location == program.memory.len() {
        let last = |location: usize| {
            orders[location].last().map_or(program.memory[location], |&write| values[write])
        };
        for (allowed, is_allowed) in states.iter_mut().zip(judge(events, sources, orders)) {
            if is_allowed {
                allowed.executions += 1;
                allowed.states.insert(Final {
                    registers: registers.to_vec(),
                    memory: (0..program.memory.len()).map(last).collect(),
                });
            }
        }
        return;
    }
    let writes = (0..events.len())
        .filter(|&event| events[event].kind == EventKind::Write && events[event].location == location)
        .collect::<Vec<_>>();
    permutations(&writes, &mut Vec::new(), &mut |order| {
        orders[location] = order.to_vec();
        each_order(program, events, sources, values, registers, location + 1, orders, states);
    });
}

fn permutations(left: &[usize], chosen: &mut Vec<usize>, each: &mut dyn FnMut(&[usize])) {
    if left.is_empty() {
        each(chosen);
    }
    for (index, &one) in left.iter().enumerate() {
        let mut rest = left.to_vec();
        rest.remove(index);
        chosen.push(one);
        permutations(&rest, chosen, each);
        chosen.pop();
    }
}

fn relation(count: usize, related: impl Fn(usize, usize) -> bool) -> Relation {
    (0..count).map(|a| (0..count).filter(|&b| related(a, b)).fold(0, |row, b| row | 1 << b)).collect()
}

fn union(a: &Relation, b: &Relation) -> Relation {
    a.iter().zip(b).map(|(a, b)| a | b).collect()
}

fn then(a: &Relation, b: &Relation) -> Relation {
    let row = |row: &u64| (0..b.len()).filter(|&n| row & (1 << n) != 0).fold(0, |sum, n| sum | b[n]);
    a.iter().map(row).collect()
}

fn closure(a: &Relation) -> Relation {
    let mut closed = a.clone();
    for middle in 0..closed.len() {
        for from in 0..closed.len() {
            if closed[from] & (1 << middle) != 0 {
                closed[from] |= closed[middle];
            }
        }
    }
    closed
}

fn acyclic(a: &Relation) -> bool {
    closure(a).iter().enumerate().all(|(n, row)| row & (1 << n) == 0)
}

fn optional(a: &Relation) -> Relation {
    a.iter().enumerate().map(|(n, row)| row | 1 << n).collect()
}

/// `r \ t`, before and after which there may be a step of `t`.
fn strong_lift(r: &Relation, t: &Relation) -> Relation {
    let across = r.iter().zip(t).map(|(r, t)| r & !t).collect();
    then(&then(&optional(t), &across), &optional(t))
}

/// `r \ t` between two steps of `t`.
fn weak_lift(r: &Relation, t: &Relation) -> Relation {
    let across = r.iter().zip(t).map(|(r, t)| r & !t).collect();
    then(&then(t, &across), t)
}

/// An execution, and the relations between its events of which every model is made.
struct Execution<'a> {
    events: &'a [Event],
    together: Relation,
    po: Relation,
    rf: Relation,
    co: Relation,
    fr: Relation,
    com: Relation,
}

/// Whether each model allows the execution.
fn judge(events: &[Event], sources: &[Option<usize>], orders: &[Vec<usize>]) -> [bool; 4] {
    let count = events.len();
    let position =
        |write: usize| orders[events[write].location].iter().position(|&w| w == write).unwrap() + 1;
    let read_position = |read: usize| sources[read].map_or(0, position);
    let is = |event: usize, kind: EventKind| events[event].kind == kind;
    let same_location = |a: usize, b: usize| same_location(events, a, b);
    let po = relation(count, |a, b| events[a].thread == events[b].thread && a < b);
    let rf = relation(count, |a, b| is(b, EventKind::Read) && sources[b] == Some(a));
    let co = relation(count, |a, b| {
        is(a, EventKind::Write) && is(b, EventKind::Write) && same_location(a, b) && position(a) < position(b)
    });
    let fr = relation(count, |a, b| {
        is(a, EventKind::Read)
            && is(b, EventKind::Write)
            && same_location(a, b)
            && read_position(a) < position(b)
    });
    let com = union(&union(&rf, &co), &fr);
    let po_loc = relation(count, |a, b| po[a] & (1 << b) != 0 && same_location(a, b));
    // The same read and write of a read-modify-write have nothing between them.
    let atomic = (0..count).all(|read| match events[read].partner {
        Some(write) if is(read, EventKind::Read) => position(write) == read_position(read) + 1,
        _ => true,
    });
    if !atomic || !acyclic(&union(&po_loc, &com)) || !acyclic(&union(&po, &rf)) {
        return [false; 4];
    }
    let together = relation(count, |a, b| {
        events[a].transaction.is_some() && events[a].transaction == events[b].transaction
    });
    if !acyclic(&strong_lift(&com, &together)) || !acyclic(&strong_lift(&union(&po, &rf), &together)) {
        return [false; 4];
    }
    let execution = Execution { events, together, po, rf, co, fr, com };
    Model::ALL.map(|model| match model {
        Model::Sc => execution.is_ordered(&union(&execution.po, &execution.com)),
        Model::Tso | Model::Pso => execution.is_ordered(&execution.of_store_buffers(model)),
        Model::Ra => execution.is_allowed_by_ra(),
    })
}

fn same_location(events: &[Event], a: usize, b: usize) -> bool {
    events[a].kind != EventKind::Fence && events[a].location == events[b].location
}

fn releases(event: &Event) -> bool {
    matches!(event.ordering, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

fn acquires(event: &Event) -> bool {
    matches!(event.ordering, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
}

impl Execution<'_> {
    fn is(&self, event: usize, kind: EventKind) -> bool {
        self.events[event].kind == kind
    }

    fn relation(&self, related: impl Fn(usize, usize) -> bool) -> Relation {
        relation(self.events.len(), related)
    }

    /// Whether `b` comes after `a` in its thread.
    fn follows(&self, a: usize, b: usize) -> bool {
        self.po[a] & (1 << b) != 0
    }

    /// Whether transactions can be at one place of the order.
    fn is_ordered(&self, order: &Relation) -> bool {
        acyclic(order) && acyclic(&strong_lift(order, &self.together))
    }

    /// Whether nothing of a thread passes the event.
    fn is_full_fence(&self, model: Model, e: usize) -> bool {
        let event = &self.events[e];
        self.is(e, EventKind::Fence) && event.ordering == Ordering::SeqCst
            || event.boundary
            || event.locked && (model == Model::Tso || step_is_seq_cst(self.events, e))
    }

    /// The order of memory where stores wait in a buffer.
    fn of_store_buffers(&self, model: Model) -> Relation {
        let events = self.events;
        // A store that is seq_cst is followed by a full fence.
        let drained = |a: usize, b: usize| {
            let seq_cst = |e: usize| self.is(e, EventKind::Write) && events[e].ordering == Ordering::SeqCst;
            let between = |e: usize| self.is_full_fence(model, e) && e > a || seq_cst(e);
            self.is_full_fence(model, a)
                || self.is_full_fence(model, b)
                || self.follows(a, b) && (a..b).any(between)
        };
        let barrier = |a: usize, b: usize| {
            self.is(b, EventKind::Write) && releases(&events[b])
                || (a + 1..b).any(|e| releases(&events[e]) && self.is(e, EventKind::Fence))
        };
        let stays = |a: usize, b: usize| match (events[a].kind, events[b].kind) {
            _ if drained(a, b) => true,
            (EventKind::Fence, _) | (_, EventKind::Fence) => false,
            (EventKind::Read, _) => true,
            // What writes memory directly is over before anything later.
            (EventKind::Write, _) if events[a].locked => true,
            (EventKind::Write, EventKind::Write) => {
                model == Model::Tso || same_location(events, a, b) || barrier(a, b)
            }
            (EventKind::Write, EventKind::Read) => {
                events[b].locked && events[b].partner.is_some() && same_location(events, a, b)
            }
        };
        let kept = self.relation(|a, b| self.follows(a, b) && stays(a, b));
        let rfe = self.relation(|a, b| self.rf[a] & (1 << b) != 0 && events[a].thread != events[b].thread);
        union(&kept, &union(&union(&rfe, &self.co), &self.fr))
    }

    /// Which release each acquisition synchronises with.
    fn synchronises_with(&self) -> Relation {
        let events = self.events;
        let rmw = self.relation(|a, b| self.is(a, EventKind::Read) && events[a].partner == Some(b));
        // Release sequences of C++20: read-modify-writes alone continue one.
        let sequence = optional(&closure(&then(&self.rf, &rmw)));
        let fence_before = self.relation(|a, b| {
            let is_release = self.is(a, EventKind::Fence) && releases(&events[a]);
            self.follows(a, b) && is_release && self.is(b, EventKind::Write)
        });
        let released = union(
            &self.relation(|a, b| a == b && self.is(a, EventKind::Write) && releases(&events[a])),
            &fence_before,
        );
        let fence_after = self.relation(|a, b| {
            let is_acquire = self.is(b, EventKind::Fence) && acquires(&events[b]);
            self.follows(a, b) && self.is(a, EventKind::Read) && is_acquire
        });
        let acquired = union(
            &self.relation(|a, b| a == b && self.is(a, EventKind::Read) && acquires(&events[a])),
            &fence_after,
        );
        then(&then(&then(&released, &sequence), &self.rf), &acquired)
    }

    fn is_allowed_by_ra(&self) -> bool {
        let Self { events, together, po, rf, co, fr, com } = self;
        let synchronised = closure(&union(po, &self.synchronises_with()));
        let conflicts = weak_lift(&union(com, &then(co, rf)), together);
        let whole = strong_lift(&union(&synchronised, &conflicts), together);
        let hb = closure(&union(&synchronised, &whole));
        if !acyclic(&hb) {
            return false;
        }
        let eco = closure(com);
        let coherent = then(&hb, &optional(&eco)).iter().enumerate().all(|(n, row)| row & (1 << n) == 0);
        if !coherent {
            return false;
        }
        let seq_cst = |e: usize| events[e].ordering == Ordering::SeqCst;
        let po_elsewhere = self.relation(|a, b| self.follows(a, b) && !same_location(events, a, b));
        let hb_loc = self.relation(|a, b| hb[a] & (1 << b) != 0 && same_location(events, a, b));
        let scb = union(
            &union(po, &then(&then(&po_elsewhere, &hb), &po_elsewhere)),
            &union(&hb_loc, &union(co, fr)),
        );
        let access = self.relation(|a, b| a == b && seq_cst(a) && !self.is(a, EventKind::Fence));
        let fence = self.relation(|a, b| a == b && seq_cst(a) && self.is(a, EventKind::Fence));
        let from = union(&access, &then(&fence, &optional(&hb)));
        let to = union(&access, &then(&optional(&hb), &fence));
        let base = then(&then(&from, &scb), &to);
        let between = union(&hb, &then(&then(&hb, &eco), &hb));
        let fences = then(&then(&fence, &between), &fence);
        acyclic(&union(&base, &fences))
    }
}

fn step_is_seq_cst(events: &[Event], event: usize) -> bool {
    // Of a failed exchange the program's ordering of success counts: such programs only use one for both here.
    events[event].ordering == Ordering::SeqCst
}
