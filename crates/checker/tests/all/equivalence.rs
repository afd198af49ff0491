//! The explorer and a separate axiomatic enumeration give the same final states, for random small programs; and the
//! explorer visits every execution graph exactly once, which is what its reduction promises. Programs with transactions also end
//! as on a machine that takes a transaction in one step.

use crate::axiomatic;
use crate::operational;

use crate::random::Random;
use contend_checker::Model;
use contend_checker::litmus::program::{Expression, Operator, Program, Step, Update, Width, address_of};
use machine::Ordering;

const REGISTERS: usize = 5;

fn random_step(random: &mut Random, register: usize, locations: u64) -> Step {
    use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
    let address = Expression::Constant(address_of(random.below(locations) as usize));
    let constant = Expression::Constant(1 + random.below(2) as i64);
    let value = if random.below(4) == 0 && register > 0 {
        Expression::Register(random.below(register as u64) as usize)
    } else {
        constant.clone()
    };
    let width = Width::Word;
    match random.below(12) {
        0..=3 => {
            Step::Load { register, address, width, ordering: Some(random.pick(&[Relaxed, Acquire, SeqCst])) }
        }
        4..=7 => {
            Step::Store { address, value, width, ordering: Some(random.pick(&[Relaxed, Release, SeqCst])) }
        }
        8 | 9 => {
            let update = match random.below(3) {
                0 => Update::Exchange,
                1 => Update::With(Operator::Add),
                _ => {
                    let ordering = random.pick(&[Relaxed, Acquire, SeqCst]);
                    return Step::ReadModifyWrite {
                        found: register,
                        wrote: None,
                        address,
                        update: Update::CompareExchange {
                            expected: Expression::Constant(random.below(2) as i64),
                            failure: ordering,
                        },
                        value,
                        width,
                        ordering,
                    };
                }
            };
            let ordering = random.pick(&[Relaxed, Acquire, Release, AcqRel, SeqCst]);
            Step::ReadModifyWrite { found: register, wrote: None, address, update, value, width, ordering }
        }
        10 => Step::Fence(random.pick(&[Acquire, Release, AcqRel, SeqCst, SeqCst])),
        _ => {
            let until = Expression::binary(Operator::Equal, Expression::Register(register), constant);
            Step::Await {
                register,
                address,
                width,
                ordering: random.pick(&[Relaxed, Acquire, SeqCst]),
                until,
            }
        }
    }
}

fn random_program(random: &mut Random) -> Program {
    let threads = 2 + random.below(2) as usize;
    let locations = 1 + random.below(3);
    let mut budget = 6;
    let mut program = Program { memory: vec![0; locations as usize], ..Program::default() };
    for _ in 0..threads {
        let steps = (1 + random.below(3)).min(budget);
        budget -= steps;
        program.threads.push((0..steps).map(|step| random_step(random, step as usize, locations)).collect());
        program.registers.push(vec![0; REGISTERS]);
    }
    program
}

/// Makes transactions of parts of the threads.
fn with_transactions(random: &mut Random, mut program: Program) -> Program {
    for steps in &mut program.threads {
        if random.below(4) != 0 {
            let first = random.below(steps.len() as u64 + 1) as usize;
            let end = first + random.below((steps.len() - first) as u64 + 1) as usize;
            steps.insert(end, Step::Commit);
            steps.insert(first, Step::Begin { aborted: None });
        }
    }
    program
}

fn compare(seed: u64, programs: usize, make: impl Fn(&mut Random) -> Program) {
    let mut random = Random(seed);
    for number in 0..programs {
        let program = make(&mut random);
        for (model, expected) in Model::ALL.into_iter().zip(axiomatic::finals(&program)) {
            let explored = program.explore(model);
            let context = || format!("program {number} of seed {seed} under {model}: {:#?}", program.threads);
            assert!(!explored.bounded, "{}", context());
            assert_eq!(explored.states, expected.states, "{}", context());
            // Every execution came up, and none of them twice: the reduction is complete and optimal.
            assert_eq!(explored.counts.explored, expected.executions, "{}", context());
        }
    }
}

#[test]
fn ten_thousand_random_programs_end_as_the_axioms_say_first_half() {
    compare(0x9e37_79b9_7f4a_7c15, 5_000, random_program);
}

#[test]
fn ten_thousand_random_programs_end_as_the_axioms_say_second_half() {
    compare(0x2545_f491_4f6c_dd1d, 5_000, random_program);
}

#[test]
fn random_programs_with_transactions_end_as_the_axioms_say() {
    compare(0x7a11_0c47_10af_5eed, 5_000, |random| {
        let program = random_program(random);
        with_transactions(random, program)
    });
}

#[test]
fn random_programs_with_transactions_end_as_on_a_machine_that_takes_them_in_one_step() {
    let mut random = Random(0xdead_10cc_7a11_0c47);
    for number in 0..3_000 {
        let program = random_program(&mut random);
        let program = with_transactions(&mut random, program);
        for (model, buffered) in [(Model::Sc, false), (Model::Tso, true)] {
            let (explored, expected) =
                (program.explore(model).states, operational::finals(&program, buffered));
            assert_eq!(explored, expected, "program {number} under {model}: {:#?}", program.threads);
        }
    }
}
