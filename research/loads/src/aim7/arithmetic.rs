//! Additions, multiplications and divisions of each type, one after the other: all of the time is the user's.

use super::jobs::{Job, Session, Source::Public};
use std::f64::consts::PI;
use std::hint::black_box;
use std::io;

/// Operations in a turn.
const OPERATIONS: u32 = 12;

/// Each operation waits for the result of the one before. The operands undo each other, so that values neither grow nor
/// vanish, and are hidden from the compiler, which would otherwise do several operations as one.
fn chain<T: Copy>(
    session: &Session,
    turns: u32,
    first: T,
    operands: [T; 2],
    operation: impl Fn(T, T) -> T,
) -> io::Result<()> {
    let mut value = first;
    for _ in 0..session.times(turns) {
        for _ in 0..OPERATIONS / 2 {
            value = operation(value, black_box(operands[0]));
            value = operation(value, black_box(operands[1]));
        }
    }
    black_box(value);
    Ok(())
}

/// A job that goes through so many turns.
macro_rules! job {
    ($name:literal, $does:literal, $turns:literal, $first:expr, $operands:expr, $operation:expr) => {
        Job {
            name: $name,
            does: $does,
            source: Public,
            run: |session| chain(session, $turns, $first, $operands, $operation),
        }
    };
}

#[rustfmt::skip] // a table
pub(super) const JOBS: &[Job] = &[
    job!("add_double", "18 million additions of doubles", 1_500_000, 0.0, [PI, -PI], |a, b| a + b),
    job!("add_float", "12 million additions of floats", 1_000_000, 0.0, [3.5_f32, -3.5], |a, b| a + b),
    job!("add_long", "60 million additions of longs", 5_000_000, 0, [3_i64, -3], i64::wrapping_add),
    job!("add_int", "60 million additions of ints", 5_000_000, 0, [3_i32, -3], i32::wrapping_add),
    job!("add_short", "24 million additions of shorts", 2_000_000, 0, [3_i16, -3], i16::wrapping_add),
    job!("mul_double", "12 million multiplications of doubles", 1_000_000, 1.0, [PI, 1.0 / PI], |a, b| a * b),
    job!("mul_float", "12 million multiplications of floats", 1_000_000, 1.0, [4.0_f32, 0.25], |a, b| a * b),
    job!("mul_long", "240,000 multiplications of longs", 20_000, 12_345_678, [1_i64, 1], i64::wrapping_mul),
    job!("mul_int", "240,000 multiplications of ints", 20_000, 12_345_678, [1_i32, 1], i32::wrapping_mul),
    job!("mul_short", "300,000 multiplications of shorts", 25_000, 1_234, [1_i16, 1], i16::wrapping_mul),
    job!("div_double", "3 million divisions of doubles", 250_000, 1.0, [PI, 1.0 / PI], |a, b| a / b),
    job!("div_float", "3 million divisions of floats", 250_000, 1.0, [4.0_f32, 0.25], |a, b| a / b),
    job!("div_long", "900,000 divisions of longs", 75_000, 12_345_678, [1_i64, 1], i64::wrapping_div),
    job!("div_int", "900,000 divisions of ints", 75_000, 12_345_678, [1_i32, 1], i32::wrapping_div),
    job!("div_short", "900,000 divisions of shorts", 75_000, 1_234, [1_i16, 1], i16::wrapping_div),
];
