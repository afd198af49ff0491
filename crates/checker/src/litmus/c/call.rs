//! The functions of C's atomics, and those of the Linux kernel's that have the same meaning.
//!
//! The kernel's read-modify-writes that name no order stand between two full fences, a `cmpxchg` that fails, too, which orders nothing
//! in the kernel's own model; `smp_rmb` and `smp_wmb` become fences that acquire and release, which order at least as much. Its dependencies have no counterpart here.

use machine::Ordering;

use super::Thread;
use super::expression::{Operand, Typed};
use crate::litmus::initial::Levels;
use crate::litmus::program::{Expression, Operator, Step, Update, Width};
use crate::litmus::token::{At, ParseError, Token, Tokens};

/// The order of an access, and whether a full fence stands on both sides of it.
type Order = (Ordering, bool);

impl<'t> Thread<'_, 't> {
    pub(super) fn call(&mut self, tokens: &mut Tokens<'t>) -> Result<Typed, ParseError> {
        let function = tokens.name("a function")?;
        tokens.expect("(")?;
        let result = self.body(function, tokens)?;
        tokens.expect(")")?;
        Ok(Typed::plain(result.unwrap_or(Expression::Constant(0))))
    }

    fn body(
        &mut self,
        function: &'t Token,
        tokens: &mut Tokens<'t>,
    ) -> Result<Option<Expression>, ParseError> {
        let name = function.text.as_str();
        let explicit = name.ends_with("_explicit");
        let stem = name.strip_suffix("_explicit").unwrap_or(name);
        if let Some(ordering) = fence_of(stem) {
            return self.push(Step::Fence(ordering), function.at).map(|()| None);
        }
        match stem {
            "atomic_thread_fence" => {
                let ordering = ordering(tokens)?;
                if ordering != Ordering::Relaxed {
                    self.push(Step::Fence(ordering), function.at)?;
                }
                Ok(None)
            }
            "atomic_signal_fence" => ordering(tokens).map(|_| None),
            "barrier" => Ok(None),
            "atomic_load" => self.read_call(tokens, function, |tokens| argument(tokens, explicit)),
            "READ_ONCE" | "rcu_dereference" | "atomic_read" => {
                self.read_call(tokens, function, |_| Ok(Ordering::Relaxed))
            }
            "smp_load_acquire" | "atomic_read_acquire" => {
                self.read_call(tokens, function, |_| Ok(Ordering::Acquire))
            }
            "atomic_store" => self.write_call(tokens, function, |tokens| argument(tokens, explicit)),
            "WRITE_ONCE" | "atomic_init" | "atomic_set" => {
                self.write_call(tokens, function, |_| Ok(Ordering::Relaxed))
            }
            "smp_store_release" | "rcu_assign_pointer" | "atomic_set_release" => {
                self.write_call(tokens, function, |_| Ok(Ordering::Release))
            }
            "smp_store_mb" => {
                self.write_call(tokens, function, |_| Ok(Ordering::Relaxed))?;
                self.push(Step::Fence(Ordering::SeqCst), function.at).map(|()| None)
            }
            "atomic_inc" | "atomic_dec" => {
                let address = self.address(function, tokens)?;
                let by = Expression::Constant(if stem == "atomic_inc" { 1 } else { -1 });
                let order = (Ordering::Relaxed, false);
                self.modify(address, Update::With(Operator::Add), by, order, function.at).map(|_| None)
            }
            "atomic_compare_exchange_strong" => {
                self.compare_exchange(function, tokens, explicit, false).map(Some)
            }
            "atomic_compare_exchange_weak" => {
                self.compare_exchange(function, tokens, explicit, true).map(Some)
            }
            _ => self.read_modify_write(function, stem, explicit, tokens).map(Some),
        }
    }

    fn read_call(
        &mut self,
        tokens: &mut Tokens<'t>,
        function: &Token,
        ordering: impl FnOnce(&mut Tokens<'t>) -> Result<Ordering, ParseError>,
    ) -> Result<Option<Expression>, ParseError> {
        let at = function.at;
        let address = self.address(function, tokens)?;
        let ordering = ordering(tokens)?;
        if matches!(ordering, Ordering::Release | Ordering::AcqRel) {
            return Err(ParseError::unsupported(at, "a load does not release"));
        }
        self.load(address, Some(ordering), at).map(Some)
    }

    fn write_call(
        &mut self,
        tokens: &mut Tokens<'t>,
        function: &Token,
        ordering: impl FnOnce(&mut Tokens<'t>) -> Result<Ordering, ParseError>,
    ) -> Result<Option<Expression>, ParseError> {
        let at = function.at;
        let address = self.address(function, tokens)?;
        tokens.expect(",")?;
        let value = self.expression(tokens)?.value;
        let ordering = ordering(tokens)?;
        if matches!(ordering, Ordering::Acquire | Ordering::AcqRel) {
            return Err(ParseError::unsupported(at, "a store does not acquire"));
        }
        self.store(address, value, Some(ordering), at).map(|()| None)
    }

    /// `atomic_exchange`, `atomic_fetch_…`, and the kernel's `xchg` and `cmpxchg`.
    fn read_modify_write(
        &mut self,
        function: &Token,
        stem: &str,
        explicit: bool,
        tokens: &mut Tokens<'t>,
    ) -> Result<Expression, ParseError> {
        let kernel = ["xchg", "cmpxchg", "atomic_xchg", "atomic_cmpxchg"].into_iter().find_map(|name| {
            let order = kernel_order(stem.strip_prefix(name)?)?;
            Some((name.contains("cmpxchg"), order))
        });
        // None for a compare-and-exchange, which has another value still to be read.
        let update = match (kernel, stem) {
            (Some((true, _)), _) => None,
            (Some((false, _)), _) | (None, "atomic_exchange") => Some(Update::Exchange),
            (None, "atomic_fetch_add") => Some(Update::With(Operator::Add)),
            (None, "atomic_fetch_sub") => Some(Update::With(Operator::Subtract)),
            (None, "atomic_fetch_and") => Some(Update::With(Operator::And)),
            (None, "atomic_fetch_or") => Some(Update::With(Operator::Or)),
            (None, "atomic_fetch_xor") => Some(Update::With(Operator::Xor)),
            (None, _) => {
                let message = format!("the function `{}` is not supported", function.text);
                return Err(ParseError::unsupported(function.at, message));
            }
        };
        let address = self.address(function, tokens)?;
        tokens.expect(",")?;
        let value = self.expression(tokens)?.value;
        let order = match kernel {
            Some((_, order)) => order,
            None => (argument(tokens, explicit)?, false),
        };
        let Some(update) = update else {
            tokens.expect(",")?;
            let new = self.expression(tokens)?.value;
            let update = Update::CompareExchange { expected: value, failure: Ordering::Relaxed };
            return self.modify(address, update, new, order, function.at);
        };
        self.modify(address, update, value, order, function.at)
    }

    /// A read-modify-write; gives what it found.
    pub(super) fn modify(
        &mut self,
        address: Expression,
        update: Update,
        value: Expression,
        (ordering, between_fences): Order,
        at: At,
    ) -> Result<Expression, ParseError> {
        let found = self.builder.fresh_register(self.thread);
        let (wrote, width) = (None, Width::Long);
        if between_fences {
            self.push(Step::Fence(Ordering::SeqCst), at)?;
        }
        self.push(Step::ReadModifyWrite { found, wrote, address, update, value, width, ordering }, at)?;
        if between_fences {
            self.push(Step::Fence(Ordering::SeqCst), at)?;
        }
        Ok(Expression::Register(found))
    }

    /// The expected value lies in a local or where a pointer points to, which gets what was found when the exchange fails. A weak
    /// one may fail whatever it finds: then it is a load with the order of a failure.
    fn compare_exchange(
        &mut self,
        function: &Token,
        tokens: &mut Tokens<'t>,
        explicit: bool,
        is_weak: bool,
    ) -> Result<Expression, ParseError> {
        let at = function.at;
        let address = self.address(function, tokens)?;
        tokens.expect(",")?;
        let takes_address = tokens.take("&");
        // What is expected is read and written as any other variable.
        let plain = |pointer: Typed| Operand::Memory(Typed { atomic: Levels::NONE, ..pointer });
        let holder = match self.operand(tokens)? {
            Operand::Value(pointer) => plain(pointer),
            Operand::Local(_, pointer) if pointer.is_pointer && !takes_address => plain(pointer),
            place @ Operand::Memory(_) if !takes_address => plain(self.read(place, at)?),
            holder => holder,
        };
        let expected = self.read(holder.clone(), at)?.value;
        tokens.expect(",")?;
        let value = self.expression(tokens)?.value;
        let ordering = argument(tokens, explicit)?;
        let failure = argument(tokens, explicit)?;
        if matches!(failure, Ordering::Release | Ordering::AcqRel) {
            return Err(ParseError::unsupported(at, "an exchange that fails does not release"));
        }
        let found = self.builder.fresh_register(self.thread);
        let wrote = self.builder.fresh_register(self.thread);
        let update = Update::CompareExchange { expected, failure };
        let width = Width::Long;
        let failed =
            if is_weak { Some(self.fail((found, wrote), address.clone(), failure, at)?) } else { None };
        let step =
            Step::ReadModifyWrite { found, wrote: Some(wrote), address, update, value, width, ordering };
        self.push(step, at)?;
        let done = self.jump(Expression::Register(wrote), at)?;
        self.land(failed.as_slice());
        self.write(holder, Expression::Register(found), at)?;
        self.land(&[done]);
        Ok(Expression::Register(wrote))
    }

    /// Lets a weak compare-and-exchange fail, or goes on to the exchange; gives the jump to where it has failed.
    fn fail(
        &mut self,
        (found, wrote): (usize, usize),
        address: Expression,
        failure: Ordering,
        at: At,
    ) -> Result<usize, ParseError> {
        let choice = self.builder.fresh_register(self.thread);
        self.push(Step::Choose { register: choice }, at)?;
        let goes_on = self.jump_unless(Expression::Register(choice), at)?;
        let load = Step::Load { register: found, address, width: Width::Long, ordering: Some(failure) };
        self.push(load, at)?;
        self.push(Step::Set { register: wrote, value: Expression::Constant(0) }, at)?;
        let failed = self.jump(Expression::Constant(1), at)?;
        self.land(&[goes_on]);
        Ok(failed)
    }

    /// The address that the first argument gives: as a value, `x`, `&x`, `x + 1` or, where a pointer lies, `*p` and `p[1]`; or that
    /// of what some of the kernel's macros are given itself, `*x` and `x[1]`.
    fn address(&mut self, function: &Token, tokens: &mut Tokens<'t>) -> Result<Expression, ParseError> {
        if !takes_what_lies_there(&function.text) {
            return Ok(self.expression(tokens)?.value);
        }
        let at = tokens.at();
        if tokens.take("*") {
            return Ok(self.unary(tokens)?.value);
        }
        let is_element = tokens.peek_at(1).is_some_and(|next| next.is("["));
        if is_element {
            return match self.operand(tokens)? {
                Operand::Memory(address) => Ok(address.value),
                _ => Err(ParseError::new(at, "an address is wanted")),
            };
        }
        Ok(self.expression(tokens)?.value)
    }
}

/// Whether a function is given what it accesses, and not its address: `READ_ONCE(*x)`, but `smp_load_acquire(x)`.
fn takes_what_lies_there(name: &str) -> bool {
    matches!(name, "READ_ONCE" | "WRITE_ONCE" | "rcu_dereference" | "rcu_assign_pointer" | "smp_store_mb")
}

/// The kernel's fences.
fn fence_of(name: &str) -> Option<Ordering> {
    match name {
        "smp_mb" | "smp_mb__before_atomic" | "smp_mb__after_atomic" | "mb" => Some(Ordering::SeqCst),
        "smp_wmb" => Some(Ordering::Release),
        "smp_rmb" => Some(Ordering::Acquire),
        _ => None,
    }
}

/// What the end of a kernel function's name says of its order.
fn kernel_order(suffix: &str) -> Option<Order> {
    match suffix {
        "" => Some((Ordering::SeqCst, true)),
        "_relaxed" => Some((Ordering::Relaxed, false)),
        "_acquire" => Some((Ordering::Acquire, false)),
        "_release" => Some((Ordering::Release, false)),
        _ => None,
    }
}

fn argument(tokens: &mut Tokens<'_>, explicit: bool) -> Result<Ordering, ParseError> {
    if !explicit {
        return Ok(Ordering::SeqCst);
    }
    tokens.expect(",")?;
    ordering(tokens)
}

fn ordering(tokens: &mut Tokens<'_>) -> Result<Ordering, ParseError> {
    let token = tokens.name("a memory order")?;
    let name = token.text.strip_prefix("memory_order_").or_else(|| token.text.strip_prefix("mo_"));
    match name.unwrap_or(&token.text) {
        "relaxed" => Ok(Ordering::Relaxed),
        // Stronger than consume, as every compiler has it.
        "acquire" | "consume" => Ok(Ordering::Acquire),
        "release" => Ok(Ordering::Release),
        "acq_rel" => Ok(Ordering::AcqRel),
        "seq_cst" => Ok(Ordering::SeqCst),
        _ => Err(ParseError::new(token.at, format!("`{}` is no memory order", token.text))),
    }
}
