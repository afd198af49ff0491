//! Values with their types: the conversions of C11 6.3.1, and what operators make of them.
//!
//! Where C leaves it open what a sum of signed numbers is that overflows, it wraps, as with `-fwrapv` and as in atomic arithmetic.

use machine::Ordering;

use super::Thread;
use crate::litmus::program::{Expression, FaultKind, Number, Operator, Step, Value, Width};
use crate::litmus::token::{At, ParseError};
use crate::litmus::types::Type;

/// A value with its type, to which it has been converted.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub(super) value: Expression,
    pub(super) kind: Type,
}

impl Typed {
    pub(super) const fn int(value: Expression) -> Self {
        Self { value, kind: Type::INT }
    }

    /// A constant as it is written, which has the first of these types that holds it (C11 6.4.4.1).
    pub(super) fn constant(written: &str, value: Value) -> Self {
        let is_digit = |letter: char| letter.is_ascii_hexdigit() || matches!(letter, 'x' | 'X');
        let suffix = written.trim_start_matches(is_digit);
        let (is_unsigned, is_long) = (suffix.contains(['u', 'U']), suffix.contains(['l', 'L']));
        let may_be_unsigned = is_unsigned || written.starts_with('0');
        let fits = |most: u64| value as u64 <= most;
        let number = if !is_long && !is_unsigned && fits(i32::MAX as u64) {
            Number::Signed(Width::Word)
        } else if !is_long && may_be_unsigned && fits(u32::MAX.into()) {
            Number::Unsigned(Width::Word)
        } else if !is_unsigned && fits(i64::MAX as u64) {
            Number::Signed(Width::Long)
        } else {
            Number::Unsigned(Width::Long)
        };
        Self { value: Expression::Constant(value), kind: Type::of(number) }
    }

    pub(super) fn number(&self) -> Number {
        self.kind.number()
    }

    /// Converted as by a cast or an assignment.
    pub(super) fn convert(self, to: Type) -> Self {
        let holds = to.number().holds_all_of(self.number());
        let value = if holds { self.value } else { self.value.convert(to.number()) };
        Self { value, kind: to }
    }

    fn promoted(self) -> Self {
        let to = promoted(self.number());
        self.convert(Type::of(to))
    }

    /// `!value`
    pub(super) fn logical_not(self) -> Self {
        Self::int(joined(Operator::Equal, self.value, Expression::Constant(0)))
    }

    /// 1 if it is not zero, otherwise 0.
    pub(super) fn truth(self) -> Expression {
        joined(Operator::Unequal, self.value, Expression::Constant(0))
    }

    /// `~value`
    pub(super) fn complement(self) -> Self {
        let Self { value, kind } = self.promoted();
        let value = joined(Operator::Xor, value, Expression::Constant(-1));
        Self { value: value.convert(kind.number()), kind }
    }

    /// `-value`
    pub(super) fn minus(self) -> Self {
        let Self { value, kind } = self.promoted();
        let value = joined(Operator::Subtract, Expression::Constant(0), value);
        Self { value: value.convert(kind.number()), kind }
    }

    /// `+value`
    pub(super) fn plus(self) -> Self {
        self.promoted()
    }

    /// How what it points to is accessed that says no order: atomically and seq_cst, or plainly.
    pub(super) fn ordering(&self) -> Option<Ordering> {
        self.kind.points_to_atomic().then_some(Ordering::SeqCst)
    }
}

/// The integer promotions.
fn promoted(number: Number) -> Number {
    if number.width() < Width::Word { Number::Signed(Width::Word) } else { number }
}

/// The type that both operands are converted to by the usual arithmetic conversions.
pub(super) fn common(a: Number, b: Number) -> Number {
    let (a, b) = (promoted(a), promoted(b));
    if a == b || a.width() > b.width() {
        a
    } else if a.width() < b.width() {
        b
    } else {
        Number::Unsigned(a.width())
    }
}

/// Two expressions joined, at once if both are constants.
fn joined(operator: Operator, a: Expression, b: Expression) -> Expression {
    let is_known = matches!((&a, &b), (Expression::Constant(_), Expression::Constant(_)));
    let both = Expression::binary(operator, a, b);
    if is_known { Expression::Constant(both.value(&[])) } else { both }
}

/// The operator of a read-modify-write for this sign, whatever the sign of the numbers: only the bits that are kept depend on the
/// operands' bits.
pub(super) fn fetch_operator(sign: &str) -> Option<Operator> {
    Some(match sign {
        "+" => Operator::Add,
        "-" => Operator::Subtract,
        "*" => Operator::Multiply,
        "&" => Operator::And,
        "|" => Operator::Or,
        "^" => Operator::Xor,
        _ => return None,
    })
}

/// A number of elements of this type, in bytes.
pub(super) fn scaled(count: Typed, element: Type, at: At) -> Result<Typed, ParseError> {
    if !element.is_said() {
        let message = "this pointer counts elements of a type that nothing says: declare what it points to";
        return Err(ParseError::unsupported(at, message));
    }
    let Typed { value, kind } = count.convert(Type::LONG);
    let bytes = Expression::Constant(element.number().width().bytes());
    Ok(Typed { value: joined(Operator::Multiply, value, bytes), kind })
}

impl Thread<'_, '_> {
    /// Two values joined by an operator that always looks at both.
    pub(super) fn join(
        &mut self,
        sign: &str,
        left: Typed,
        right: Typed,
        at: At,
    ) -> Result<Typed, ParseError> {
        match (sign, left.kind.is_pointer(), right.kind.is_pointer()) {
            ("+", true, false) | ("-", true, false) => sum(sign, left, right, at),
            ("+", false, true) => sum(sign, right, left, at),
            ("+" | "-", true, true) => {
                Err(ParseError::unsupported(at, "the sum or difference of two pointers is not supported"))
            }
            ("<<" | ">>", ..) => self.shift(sign, left.promoted(), right.promoted(), at),
            _ => self.join_numbers(sign, left, right, at),
        }
    }

    /// Goes on only if the value is not zero: otherwise C gives no meaning to what follows.
    fn check(&mut self, holds: Expression, at: At) -> Result<(), ParseError> {
        match holds {
            Expression::Constant(value) if value != 0 => Ok(()),
            holds => self.push(Step::Check { holds, otherwise: FaultKind::Undefined }, at),
        }
    }

    fn shift(&mut self, sign: &str, left: Typed, right: Typed, at: At) -> Result<Typed, ParseError> {
        let number = left.number();
        let bits = Expression::Constant(number.width().bits());
        self.check(joined(Operator::Below, right.value.clone(), bits), at)?;
        let operator = match (sign, number) {
            ("<<", _) => Operator::ShiftLeft,
            (_, Number::Signed(_)) => Operator::ShiftRightSigned,
            _ => Operator::ShiftRight,
        };
        let value = joined(operator, left.value, right.value).convert(number);
        Ok(Typed { value, kind: left.kind })
    }

    fn join_numbers(&mut self, sign: &str, left: Typed, right: Typed, at: At) -> Result<Typed, ParseError> {
        let number = common(left.number(), right.number());
        let kind = Type::of(number);
        let (a, b) = (left.convert(kind).value, right.convert(kind).value);
        let is_signed = matches!(number, Number::Signed(_));
        if let Some(value) = compared(sign, is_signed, &a, &b) {
            return Ok(Typed::int(value));
        }
        if matches!(sign, "/" | "%") {
            self.check(joined(Operator::Unequal, b.clone(), Expression::Constant(0)), at)?;
        }
        let operator = match (sign, is_signed) {
            ("/", true) => Operator::Divide,
            ("/", false) => Operator::DivideUnsigned,
            ("%", true) => Operator::Remainder,
            ("%", false) => Operator::RemainderUnsigned,
            _ => fetch_operator(sign).ok_or_else(|| {
                ParseError::unsupported(at, format!("the operator `{sign}` is not supported"))
            })?,
        };
        Ok(Typed { value: joined(operator, a, b).convert(number), kind })
    }
}

/// A pointer moved by so many elements of what it points to.
fn sum(sign: &str, pointer: Typed, count: Typed, at: At) -> Result<Typed, ParseError> {
    let operator = if sign == "+" { Operator::Add } else { Operator::Subtract };
    let bytes = scaled(count, pointer.kind.pointed_to(), at)?.value;
    Ok(Typed { value: joined(operator, pointer.value, bytes), kind: pointer.kind })
}

/// Two numbers of one type compared; none if the sign is of another operator.
fn compared(sign: &str, is_signed: bool, a: &Expression, b: &Expression) -> Option<Expression> {
    let of = |operator, a: &Expression, b: &Expression| joined(operator, a.clone(), b.clone());
    let less = if is_signed { Operator::Less } else { Operator::Below };
    let not = |value| joined(Operator::Equal, value, Expression::Constant(0));
    Some(match sign {
        "==" => of(Operator::Equal, a, b),
        "!=" => of(Operator::Unequal, a, b),
        "<" => of(less, a, b),
        ">" => of(less, b, a),
        "<=" => not(of(less, b, a)),
        ">=" => not(of(less, a, b)),
        _ => return None,
    })
}
