//! Routines of libraries: numbers, equations, strings, sorting, jumps.

use super::jobs::{Job, Session, Source::Assumed, Source::Public};
use std::arch::naked_asm;
use std::hint::black_box;
use std::io;

#[rustfmt::skip] // a table
pub(super) const JOBS: &[Job] = &[
    Job { name: "array_rtns", does: "20 systems of 5 to 100 linear equations solved", source: Public, run: array_rtns },
    Job { name: "jmp_test", does: "1,000 jumps by setjmp and longjmp", source: Public, run: jmp_test },
    Job { name: "matrix_rtns", does: "100 points transformed by 4 x 4 matrices", source: Public, run: matrix_rtns },
    Job { name: "new_raph", does: "200 zeros found by Newton and Raphson's method", source: Public, run: new_raph },
    Job { name: "num_rtns_1", does: "100 rounds of exponentials, logarithms, powers, roots, remainders and roundings", source: Public, run: num_rtns_1 },
    Job { name: "series_1", does: "100 sines by their series, compared with the library's", source: Public, run: series_1 },
    Job { name: "trig_rtns", does: "10,000 rounds of trigonometric and hyperbolic functions", source: Public, run: trig_rtns },
    Job { name: "sieve", does: "the primes below 1,000,000 sieved 5 times", source: Public, run: sieve },
    Job { name: "sort_rtns_1", does: "10,000 numbers sorted up, down and up, and 2,000 looked up by bisection; twice", source: Public, run: sort_rtns_1 },
    Job { name: "string_rtns", does: "100 rounds of conversions, classes of characters, copies, comparisons and searches", source: Assumed, run: string_rtns },
];

/// A number from -10 to 10.
fn argument(session: &mut Session) -> f64 {
    session.below(2_000_001) as f64 / 100_000.0 - 10.0
}

/// A number from just above 0 to 20.
fn positive(session: &mut Session) -> f64 {
    argument(session) + 10.000_1
}

fn wrong(what: &str) -> io::Error {
    io::Error::other(format!("{what} is wrong"))
}

/// The solution of a system of linear equations, each of which is a row with its right side last, by elimination. The largest
/// element of a column is the pivot.
fn solve(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let size = rows.len();
    for column in 0..size {
        let largest = |&a: &usize, &b: &usize| rows[a][column].abs().total_cmp(&rows[b][column].abs());
        let pivot = (column..size).max_by(largest).unwrap_or(column);
        rows.swap(column, pivot);
        let scaled: Vec<f64> = rows[column].iter().map(|value| value / rows[column][column]).collect();
        for (number, row) in rows.iter_mut().enumerate() {
            let factor = row[column];
            if number != column {
                row.iter_mut().zip(&scaled).for_each(|(value, of_pivot)| *value -= factor * of_pivot);
            }
        }
        rows[column] = scaled;
    }
    rows.into_iter().map(|row| row[size]).collect()
}

unsafe extern "C" {
    fn _setjmp();
    fn longjmp();
}

/// Where setjmp keeps registers: no smaller than the C library's `jmp_buf` on any architecture.
type JumpBuffer = [u64; 64];

/// Saves its place by setjmp and jumps back to it by longjmp, as often as `times` says.
///
/// All of it is assembly, since the compiler knows no function that returns twice: what it sees is one call that returns once. There
/// is no frame of Rust between the two ends of a jump. setjmp is called anew for each jump, so that the registers that longjmp puts back
/// are as they are.
///
/// # Safety
///
/// `times` is not zero.
#[unsafe(naked)]
unsafe extern "C" fn jump(buffer: &mut JumpBuffer, times: u64) {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "push rbx",
        "push rbp",
        "sub rsp, 8",
        "mov rbx, rdi",
        "mov rbp, rsi",
        "2:",
        "mov rdi, rbx",
        "call {setjmp}",
        "test eax, eax",
        "jnz 3f",
        "mov rdi, rbx",
        "mov esi, 1",
        "call {longjmp}",
        "ud2",
        "3:",
        "dec rbp",
        "jnz 2b",
        "add rsp, 8",
        "pop rbp",
        "pop rbx",
        "ret",
        setjmp = sym _setjmp,
        longjmp = sym longjmp,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "stp x19, x20, [sp, #16]",
        "mov x29, sp",
        "mov x19, x0",
        "mov x20, x1",
        "2:",
        "mov x0, x19",
        "bl {setjmp}",
        "cbnz w0, 3f",
        "mov x0, x19",
        "mov w1, #1",
        "bl {longjmp}",
        "3:",
        "subs x20, x20, #1",
        "b.ne 2b",
        "ldp x19, x20, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "ret",
        setjmp = sym _setjmp,
        longjmp = sym longjmp,
    );
}

fn jmp_test(session: &mut Session) -> io::Result<()> {
    let mut buffer: JumpBuffer = [0; 64];
    // SAFETY: at least one time.
    unsafe { jump(&mut buffer, session.times(1_000).into()) };
    Ok(())
}

fn array_rtns(session: &mut Session) -> io::Result<()> {
    for turn in 0..session.times(20) as usize {
        let size = 5 + 5 * (turn % 20);
        let rows: Vec<Vec<f64>> =
            (0..size).map(|_| (0..=size).map(|_| positive(session)).collect()).collect();
        let solution = solve(rows.clone());
        let error = |row: &Vec<f64>| {
            let left: f64 = row.iter().zip(&solution).map(|(factor, value)| factor * value).sum();
            (left - row[size]).abs()
        };
        if !rows.iter().all(|row| error(row) < 0.5) {
            return Err(wrong("the solution of a system of equations"));
        }
    }
    Ok(())
}

fn matrix_rtns(session: &mut Session) -> io::Result<()> {
    const SCREEN: [f64; 4] = [1280.0, 1024.0, 8192.0, 1.0];
    for _ in 0..session.times(100) {
        let point = [(); 4].map(|()| argument(session));
        let matrix = [(); 4].map(|()| [(); 4].map(|()| argument(session)));
        let moved = black_box(matrix).map(|row| row.iter().zip(&point).map(|(a, b)| a * b).sum::<f64>());
        let seen: Vec<i32> = moved.iter().zip(SCREEN).map(|(at, scale)| (at * scale) as i32).collect();
        black_box(seen);
    }
    Ok(())
}

/// Of 1000 sin x cos x, which has a zero at each multiple of a quarter turn.
fn new_raph(session: &mut Session) -> io::Result<()> {
    const TRIES: usize = 100;
    for number in 0..session.times(200) {
        let mut at = 0.05 * f64::from(number);
        let found = (0..TRIES).any(|_| {
            let (sine, cosine) = black_box(at).sin_cos();
            let next = at - sine * cosine / (cosine * cosine - sine * sine);
            let moved = (next - at).abs();
            at = next;
            moved < 1e-12
        });
        if !found {
            return Err(wrong("the method of Newton and Raphson"));
        }
    }
    Ok(())
}

fn num_rtns_1(session: &mut Session) -> io::Result<()> {
    for _ in 0..session.times(100) {
        let [a, b, c] = [(); 3].map(|()| black_box(argument(session)));
        let [p, q, r] = [(); 3].map(|()| black_box(positive(session)));
        black_box(a.exp().floor() + p.log10().ceil());
        black_box((q.ln().trunc(), q.ln().fract()));
        black_box(b * 2_f64.powi(a.abs() as i32) + (c * 5.0 % r).abs());
        black_box(p.powf(b).sqrt());
        black_box((session.random.next().cast_signed() >> 1).abs());
    }
    Ok(())
}

fn series_1(session: &mut Session) -> io::Result<()> {
    for _ in 0..session.times(100) {
        let x = black_box(argument(session) / 10.0);
        let (mut sine, mut term, mut factor) = (x, x, 1.0);
        loop {
            term *= -(x * x) / ((factor + 1.0) * (factor + 2.0));
            factor += 2.0;
            let next = sine + term;
            if next == sine {
                break;
            }
            sine = next;
        }
        if (sine - x.sin()).abs() > 1e-4 {
            return Err(wrong("the series of the sine"));
        }
    }
    Ok(())
}

fn trig_rtns(session: &mut Session) -> io::Result<()> {
    for _ in 0..session.times(10_000) {
        let [a, b, c, d] = [(); 4].map(|()| black_box(argument(session)));
        black_box(a.sin().asin().cos().acos());
        black_box(b.tan().atan().tanh());
        black_box(c.sinh().atan2(d.cosh()));
    }
    Ok(())
}

fn sieve(session: &mut Session) -> io::Result<()> {
    const END: usize = 1_000_000;
    const PRIMES: usize = 78_498;
    let mut is_prime = vec![true; END];
    for _ in 0..session.times(5) {
        is_prime.fill(true);
        is_prime[..2].fill(false);
        for number in 2..END {
            if is_prime[number] {
                (2 * number..END).step_by(number).for_each(|multiple| is_prime[multiple] = false);
            }
        }
    }
    let primes = is_prime.iter().filter(|&&is_prime| is_prime).count();
    if primes == PRIMES { Ok(()) } else { Err(wrong("the number of primes")) }
}

fn sort_rtns_1(session: &mut Session) -> io::Result<()> {
    const NUMBERS: i32 = 10_000;
    let mut numbers: Vec<i32> = (0..NUMBERS).collect();
    for _ in 0..session.times(2) {
        numbers.sort_by(|a, b| black_box(a).cmp(b));
        numbers.sort_by(|a, b| black_box(b).cmp(a));
        numbers.sort_by(|a, b| black_box(a).cmp(b));
        // Half of what is looked up is not there.
        let found =
            (0..2 * NUMBERS).step_by(10).filter(|number| black_box(&numbers).binary_search(number).is_ok());
        if found.count() != NUMBERS as usize / 10 {
            return Err(wrong("what is found by bisection"));
        }
    }
    Ok(())
}

fn string_rtns(session: &mut Session) -> io::Result<()> {
    const LETTERS: &str =
        " \t\n0123456789 the quick brown fox jumps over THE LAZY DOG .,;:!@#$%^&*()_-+=|\\\"'`[]}{";
    const QUESTION: &str = "What is the name of it?";
    const LONGEST: usize = 1_024;
    for turn in 0..session.times(100) {
        let number = black_box(f64::from(turn) / 1_000.0);
        let back: f64 = number.to_string().parse().map_err(io::Error::other)?;
        let whole: i64 = format!("{}", (back * 1_000.0) as i64).parse().map_err(io::Error::other)?;
        let classes = black_box(LETTERS).bytes().cycle().take(LONGEST).map(|byte| {
            let is = [
                byte.is_ascii_alphanumeric(),
                byte.is_ascii_control(),
                byte.is_ascii_digit(),
                byte.is_ascii_graphic(),
                byte.is_ascii_punctuation(),
                byte.is_ascii_whitespace(),
                byte.is_ascii_uppercase(),
            ];
            is.iter().filter(|&&is| is).count()
                + usize::from(byte.to_ascii_uppercase() == byte.to_ascii_lowercase())
        });
        black_box((whole, classes.sum::<usize>()));
        let mut text = String::with_capacity(LONGEST);
        while text.len() + QUESTION.len() < LONGEST {
            text.push_str(black_box(QUESTION));
            black_box(text.starts_with(QUESTION) && text == QUESTION);
        }
        black_box((text.find("name of nothing"), text.rfind('?'), text.find(['x', 'y', 'z'])));
    }
    Ok(())
}
