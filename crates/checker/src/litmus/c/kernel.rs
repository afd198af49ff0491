//! The Linux kernel's fences and read-modify-writes.

use machine::Ordering;

use super::Thread;
use super::arithmetic::Typed;
use crate::litmus::program::{Expression, Operator, Update, Value};
use crate::litmus::token::{ParseError, Token, Tokens};

/// The order of an access, and whether a full fence stands on both sides of it.
pub(super) type Order = (Ordering, bool);

/// The order of a read-modify-write that gives a value and names no order.
pub(super) const FULL: Order = (Ordering::SeqCst, true);

/// The kernel's fences.
pub(super) fn fence_of(name: &str) -> Option<Ordering> {
    match name {
        "smp_mb" | "smp_mb__before_atomic" | "smp_mb__after_atomic" | "mb" => Some(Ordering::SeqCst),
        "smp_wmb" => Some(Ordering::Release),
        "smp_rmb" => Some(Ordering::Acquire),
        _ => None,
    }
}

/// The order of an exchange, or of a compare-and-exchange, of this name.
pub(super) fn exchange_of(name: &str) -> Option<Order> {
    let names = ["xchg", "cmpxchg", "atomic_xchg", "atomic_cmpxchg"];
    names.iter().find_map(|stem| order_of(name.strip_prefix(stem)?))
}

/// What the end of a function's name says of its order.
fn order_of(suffix: &str) -> Option<Order> {
    match suffix {
        "" => Some(FULL),
        "_relaxed" => Some((Ordering::Relaxed, false)),
        "_acquire" => Some((Ordering::Acquire, false)),
        "_release" => Some((Ordering::Release, false)),
        _ => None,
    }
}

/// A read-modify-write that computes, such as `atomic_add_return(v, x)`: what it joins with stands before the location.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    operator: Operator,
    /// What it joins with, if no argument says it.
    by: Option<Value>,
    /// It joins with the complement of its argument.
    is_inverted: bool,
    order: Order,
    gives: Gives,
}

/// What the function gives.
#[derive(Clone, Copy, Debug)]
enum Gives {
    Nothing,
    Old,
    New,
    WhetherZero,
    WhetherNegative,
}

/// The words for what is computed, with what it is joined with if the word says it.
const OPERATIONS: [(&str, Operator, Option<Value>); 8] = [
    ("add", Operator::Add, None),
    ("sub", Operator::Subtract, None),
    ("inc", Operator::Add, Some(1)),
    ("dec", Operator::Subtract, Some(1)),
    ("andnot", Operator::And, None),
    ("and", Operator::And, None),
    ("or", Operator::Or, None),
    ("xor", Operator::Xor, None),
];

impl Operation {
    /// The operation of this name. `atomic_fetch_add` and its like are none: C has them, too.
    pub(super) fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix("atomic_")?;
        let fetched = name.strip_prefix("fetch_");
        let name = fetched.unwrap_or(name);
        let (word, operator, by) = OPERATIONS.into_iter().find(|(word, ..)| name.starts_with(word))?;
        let suffix = &name[word.len()..];
        let is_sum = matches!(operator, Operator::Add | Operator::Subtract);
        let is_of_c = by.is_none() && word != "andnot";
        let (gives, order) = if fetched.is_some() {
            (Gives::Old, order_of(suffix).filter(|_| !(is_of_c && suffix.is_empty()))?)
        } else if suffix.is_empty() {
            (Gives::Nothing, (Ordering::Relaxed, false))
        } else if let Some(suffix) = suffix.strip_prefix("_return").filter(|_| is_sum) {
            (Gives::New, order_of(suffix)?)
        } else if suffix == "_and_test" && is_sum && word != "add" {
            (Gives::WhetherZero, FULL)
        } else {
            let suffix = suffix.strip_prefix("_negative").filter(|_| word == "add")?;
            (Gives::WhetherNegative, order_of(suffix)?)
        };
        Some(Self { operator, by, is_inverted: word == "andnot", order, gives })
    }
}

impl<'t> Thread<'_, 't> {
    pub(super) fn kernel_operation(
        &mut self,
        function: &Token,
        operation: Operation,
        tokens: &mut Tokens<'t>,
    ) -> Result<Option<Typed>, ParseError> {
        let Operation { operator, by, is_inverted, order, gives } = operation;
        let by = match by {
            Some(by) => Typed::int(Expression::Constant(by)),
            None => {
                let by = self.expression(tokens)?;
                tokens.expect(",")?;
                if is_inverted { by.complement() } else { by }
            }
        };
        let address = self.address(function, tokens)?;
        let old = self.modify(&address, Update::With(operator), by.clone(), order, function.at)?;
        let kind = old.kind;
        let value = Expression::binary(operator, old.value.clone(), by.value).convert(kind.number());
        let new = Typed { value, kind };
        Ok(match gives {
            Gives::Nothing => None,
            Gives::Old => Some(old),
            Gives::New => Some(new),
            Gives::WhetherZero => Some(new.logical_not()),
            Gives::WhetherNegative => {
                let zero = Typed::int(Expression::Constant(0));
                Some(self.join("<", new, zero, function.at)?)
            }
        })
    }
}
