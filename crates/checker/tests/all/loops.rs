//! A loop that only reads is a wait: random programs end in the same ways whether they wait in one step or in a loop of
//! several, and whether a loop's iterations are left out or followed.

use crate::random::Random;
use contend_checker::Model;
use contend_checker::litmus::Limits;
use contend_checker::litmus::program::{Expression, Operator, Program, Step, Update, Width, address_of};
use machine::Ordering;

const LOCATIONS: u64 = 2;
const WIDTH: Width = Width::Word;

fn constant(value: i64) -> Expression {
    Expression::Constant(value)
}

/// A step without a wait; the result goes to a register of its own.
fn plain_step(random: &mut Random, register: usize) -> Step {
    use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
    let address = constant(address_of(random.below(LOCATIONS) as usize));
    let value = constant(random.pick(&[1, 1, 1, 2]));
    match random.below(8) {
        0..=2 => {
            let ordering = Some(random.pick(&[Relaxed, Acquire, SeqCst]));
            Step::Load { register, address, width: WIDTH, ordering }
        }
        3..=5 => {
            let ordering = Some(random.pick(&[Relaxed, Release, SeqCst]));
            Step::Store { address, value, width: WIDTH, ordering }
        }
        6 => Step::ReadModifyWrite {
            found: register,
            wrote: None,
            address,
            update: Update::Exchange,
            value,
            width: WIDTH,
            ordering: random.pick(&[Relaxed, AcqRel, SeqCst]),
        },
        _ => Step::Fence(random.pick(&[Acquire, Release, SeqCst])),
    }
}

/// The same program twice: once with steps that wait, once with loops that do.
fn twins(random: &mut Random) -> [Program; 2] {
    let threads = 2 + random.below(2) as usize;
    let mut twins = [(); 2].map(|()| Program { memory: vec![0; LOCATIONS as usize], ..Program::default() });
    for thread in 0..threads {
        let steps = 1 + random.below(if threads == 2 { 3 } else { 2 }) as usize;
        let wait_before = (thread == 0 || random.below(4) == 0).then(|| random.below(steps as u64) as usize);
        let mut bodies = [Vec::new(), Vec::new()];
        for step in 0..steps {
            if wait_before == Some(step) {
                let location = random.below(LOCATIONS) as usize;
                let ordering = random.pick(&[Ordering::Relaxed, Ordering::Acquire, Ordering::SeqCst]);
                let wanted = random.pick(&[1, 1, 1, 2]);
                let until =
                    Expression::binary(Operator::Equal, Expression::Register(steps), constant(wanted));
                let (register, address, width) = (steps, constant(address_of(location)), WIDTH);
                bodies[0].push(Step::Await {
                    register,
                    address: address.clone(),
                    width,
                    ordering,
                    until: until.clone(),
                });
                let start = bodies[1].len();
                bodies[1].push(Step::Load { register, address, width, ordering: Some(ordering) });
                let again = Expression::binary(Operator::Equal, until, constant(0));
                bodies[1].push(Step::Jump { when: again, to: start });
            }
            let plain = plain_step(random, step);
            bodies.iter_mut().for_each(|body| body.push(plain.clone()));
        }
        for (twin, body) in twins.iter_mut().zip(bodies) {
            twin.threads.push(body);
            twin.registers.push(vec![0; steps + 1]);
        }
    }
    twins
}

#[test]
fn a_loop_that_reads_one_location_ends_as_a_wait_does() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut states = 0;
    for number in 0..3_000 {
        let [waits, loops] = twins(&mut random);
        for model in Model::ALL {
            let (expected, found) = (waits.explore(model), loops.explore(model));
            assert!(!found.bounded, "program {number} under {model}: {:#?}", loops.threads);
            assert_eq!(found.states, expected.states, "program {number} under {model}: {:#?}", loops.threads);
            states += found.states.len();
        }
    }
    assert!(states > 6_000, "{states} states: most programs wait for ever");
}

/// A loop that reads both locations until they differ, and counts its iterations if that is wanted.
fn waits_for_two(random: &mut Random, counting: bool) -> Program {
    let mut program = Program { memory: vec![0; LOCATIONS as usize], ..Program::default() };
    let load = |register, location| Step::Load {
        register,
        address: constant(address_of(location)),
        width: WIDTH,
        ordering: Some(Ordering::Acquire),
    };
    let sum = Expression::binary(Operator::Add, Expression::Register(2), constant(1));
    let same = Expression::binary(Operator::Equal, Expression::Register(0), Expression::Register(1));
    let waiter = vec![
        load(0, 0),
        load(1, 1),
        Step::Set { register: 2, value: if counting { sum } else { constant(0) } },
        Step::Jump { when: same, to: 0 },
        plain_step(random, 3),
    ];
    let other = |random: &mut Random| (0..2).map(|step| plain_step(random, step)).collect::<Vec<_>>();
    program.threads = vec![waiter, other(random), other(random)];
    program.registers = vec![vec![0; 4]; 3];
    program
}

#[test]
fn turns_that_are_left_out_change_no_end() {
    let mut random = Random(0x0fed_cba9_8765_4321);
    let limits = Limits { iterations: 6, ..Limits::default() };
    for number in 0..300 {
        let seed = random.below(u64::MAX / 2) | 1;
        let [left_out, followed] = [false, true].map(|counting| waits_for_two(&mut Random(seed), counting));
        for model in Model::ALL {
            let short = left_out.explore(model);
            assert!(!short.bounded, "program {number} under {model}");
            // The counter makes every iteration another one: they are followed until the limit.
            let long = followed.explore_within(model, &limits);
            let without_counter = long.states.into_iter().map(|mut end| {
                end.registers[0][2] = 0;
                end
            });
            let long = without_counter.collect::<std::collections::BTreeSet<_>>();
            assert_eq!(short.states, long, "program {number} under {model}: {:#?}", left_out.threads);
        }
    }
}
