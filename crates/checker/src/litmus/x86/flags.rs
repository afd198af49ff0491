//! The flags, and what jumps and conditional moves make of them.

use crate::litmus::program::{Expression, Operator, Width};
use crate::litmus::token::Tokens;

/// Registers that stand for the flags of a thread: what the last arithmetic instruction found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flags {
    pub(super) zero: usize,
    pub(super) sign: usize,
    /// The signed order: sign and overflow differ.
    pub(super) less: usize,
    /// The carry, which is the unsigned order after a comparison.
    pub(super) below: usize,
}

impl Flags {
    /// The registers with their values after `a operator b`, both sign-extended.
    pub(super) fn after(
        self,
        operator: Operator,
        a: &Expression,
        b: &Expression,
        width: Width,
    ) -> [(usize, Expression); 4] {
        // 0 - x compares 0 with x.
        let (operator, a, b) = match operator {
            Operator::SubtractFrom => (Operator::Subtract, b, a),
            _ => (operator, a, b),
        };
        let of =
            |operator, a: &Expression, b: &Expression| Expression::binary(operator, a.clone(), b.clone());
        let nothing = Expression::Constant(0);
        let b = &b.clone().narrow(width);
        let result = of(operator, a, b).narrow(width);
        let sign = of(Operator::Less, &result, &nothing);
        let (less, below) = match operator {
            Operator::Subtract => (of(Operator::Less, a, b), of(Operator::Below, a, b)),
            Operator::Add => {
                let changed =
                    of(Operator::And, &of(Operator::Xor, a, &result), &of(Operator::Xor, b, &result));
                let overflow = of(Operator::Less, &changed, &nothing);
                (of(Operator::Xor, &sign, &overflow), of(Operator::Below, &result, a))
            }
            _ => (sign.clone(), nothing.clone()),
        };
        let zero = of(Operator::Equal, &result, &nothing);
        [(self.zero, zero), (self.sign, sign), (self.less, less), (self.below, below)]
    }
}

/// The conditions of jumps and moves: the letters, which flags, and whether the opposite is meant.
const CONDITIONS: [(&str, Test, bool); 26] = [
    ("e", Test::Zero, false),
    ("z", Test::Zero, false),
    ("ne", Test::Zero, true),
    ("nz", Test::Zero, true),
    ("s", Test::Sign, false),
    ("ns", Test::Sign, true),
    ("l", Test::Less, false),
    ("lt", Test::Less, false), // as herd has it
    ("nge", Test::Less, false),
    ("ge", Test::Less, true),
    ("nl", Test::Less, true),
    ("le", Test::AtMost, false),
    ("ng", Test::AtMost, false),
    ("g", Test::AtMost, true),
    ("gt", Test::AtMost, true), // as herd has it
    ("nle", Test::AtMost, true),
    ("b", Test::Below, false),
    ("c", Test::Below, false),
    ("nae", Test::Below, false),
    ("ae", Test::Below, true),
    ("nb", Test::Below, true),
    ("nc", Test::Below, true),
    ("be", Test::BelowOrEqual, false),
    ("na", Test::BelowOrEqual, false),
    ("a", Test::BelowOrEqual, true),
    ("nbe", Test::BelowOrEqual, true),
];

#[derive(Clone, Copy, Debug)]
enum Test {
    Zero,
    Sign,
    Less,
    AtMost,
    Below,
    BelowOrEqual,
}

/// The letters of the condition that an instruction's name ends with.
pub(super) fn condition_of(name: &str) -> Option<&str> {
    let letters =
        name.strip_prefix("cmov").or_else(|| name.strip_prefix("set")).or_else(|| name.strip_prefix('j'))?;
    CONDITIONS.iter().any(|(known, ..)| *known == letters).then_some(letters)
}

/// Whether the instruction of a cell looks at the flags.
pub(super) fn uses_flags(cell: &Tokens<'_>) -> bool {
    let mut cell = cell.clone();
    while cell.peek_at(1).is_some_and(|next| next.is(":")) {
        cell.next();
        cell.next();
    }
    cell.peek().is_some_and(|name| condition_of(&name.text.to_ascii_lowercase()).is_some())
}

/// Whether the condition of these letters holds.
pub(super) fn holds(letters: &str, flags: Flags) -> Expression {
    let Some((_, test, opposite)) = CONDITIONS.iter().find(|(known, ..)| *known == letters) else {
        return Expression::Constant(1);
    };
    let flag = Expression::Register;
    let either = |a, b| Expression::binary(Operator::Or, flag(a), flag(b));
    let holds = match test {
        Test::Zero => flag(flags.zero),
        Test::Sign => flag(flags.sign),
        Test::Less => flag(flags.less),
        Test::AtMost => either(flags.less, flags.zero),
        Test::Below => flag(flags.below),
        Test::BelowOrEqual => either(flags.below, flags.zero),
    };
    if *opposite { Expression::binary(Operator::Equal, holds, Expression::Constant(0)) } else { holds }
}
