//! The functions of C's atomics, and those of the Linux kernel's that have the same meaning.
//!
//! The kernel's read-modify-writes that name no order stand between two full fences, a `cmpxchg` that fails, too, which orders nothing
//! in the kernel's own model; `smp_rmb` and `smp_wmb` become fences that acquire and release, which order at least as much. Its dependencies have no counterpart here.

use machine::Ordering;

use super::Thread;
use super::arithmetic::Typed;
use super::expression::{Operand, found, stored};
use super::kernel::{self, Order};
use crate::litmus::program::{Expression, Number, Operator, Step, Update};
use crate::litmus::token::{At, ParseError, Token, Tokens};

impl<'t> Thread<'_, 't> {
    pub(super) fn call(&mut self, tokens: &mut Tokens<'t>) -> Result<Typed, ParseError> {
        let function = tokens.name("a function")?;
        tokens.expect("(")?;
        let result = self.body(function, tokens)?;
        tokens.expect(")")?;
        Ok(result.unwrap_or(Typed::int(Expression::Constant(0))))
    }

    fn body(&mut self, function: &'t Token, tokens: &mut Tokens<'t>) -> Result<Option<Typed>, ParseError> {
        let name = function.text.as_str();
        let explicit = name.ends_with("_explicit");
        let stem = name.strip_suffix("_explicit").unwrap_or(name);
        if let Some(ordering) = kernel::fence_of(stem) {
            return self.push(Step::Fence(ordering), function.at).map(|()| None);
        }
        if let Some(operation) = kernel::Operation::named(name) {
            return self.kernel_operation(function, operation, tokens);
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
            "atomic_store" => {
                self.write_call(tokens, function, |tokens| argument(tokens, explicit).map(Some))
            }
            // It initialises, and is no atomic access (C11 7.17.2.2).
            "atomic_init" => self.write_call(tokens, function, |_| Ok(None)),
            "WRITE_ONCE" | "atomic_set" => self.write_call(tokens, function, |_| Ok(Some(Ordering::Relaxed))),
            "smp_store_release" | "rcu_assign_pointer" | "atomic_set_release" => {
                self.write_call(tokens, function, |_| Ok(Some(Ordering::Release)))
            }
            "smp_store_mb" => {
                self.write_call(tokens, function, |_| Ok(Some(Ordering::Relaxed)))?;
                self.push(Step::Fence(Ordering::SeqCst), function.at).map(|()| None)
            }
            "atomic_flag_test_and_set" => {
                let address = self.address(function, tokens)?;
                let order = (argument(tokens, explicit)?, false);
                let set = Typed::int(Expression::Constant(1));
                self.modify(&address, Update::Exchange, set, order, function.at).map(Some)
            }
            "atomic_flag_clear" => {
                let address = self.address(function, tokens)?;
                let ordering = argument(tokens, explicit)?;
                self.write_at(&address, Typed::int(Expression::Constant(0)), Some(ordering), function.at)
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
    ) -> Result<Option<Typed>, ParseError> {
        let at = function.at;
        let address = self.address(function, tokens)?;
        let ordering = ordering(tokens)?;
        if matches!(ordering, Ordering::Release | Ordering::AcqRel) {
            return Err(ParseError::unsupported(at, "a load does not release"));
        }
        self.load(&address, Some(ordering), at).map(Some)
    }

    fn write_call(
        &mut self,
        tokens: &mut Tokens<'t>,
        function: &Token,
        ordering: impl FnOnce(&mut Tokens<'t>) -> Result<Option<Ordering>, ParseError>,
    ) -> Result<Option<Typed>, ParseError> {
        let address = self.address(function, tokens)?;
        tokens.expect(",")?;
        let value = self.expression(tokens)?;
        let ordering = ordering(tokens)?;
        self.write_at(&address, value, ordering, function.at)
    }

    fn write_at(
        &mut self,
        address: &Typed,
        value: Typed,
        ordering: Option<Ordering>,
        at: At,
    ) -> Result<Option<Typed>, ParseError> {
        if matches!(ordering, Some(Ordering::Acquire | Ordering::AcqRel)) {
            return Err(ParseError::unsupported(at, "a store does not acquire"));
        }
        self.store(address, value, ordering, at).map(|()| None)
    }

    /// `atomic_exchange`, `atomic_fetch_…`, and the kernel's `xchg` and `cmpxchg`.
    fn read_modify_write(
        &mut self,
        function: &Token,
        stem: &str,
        explicit: bool,
        tokens: &mut Tokens<'t>,
    ) -> Result<Typed, ParseError> {
        let at = function.at;
        if let Some(order) = kernel::exchange_of(&function.text) {
            let address = self.address(function, tokens)?;
            tokens.expect(",")?;
            let value = self.expression(tokens)?;
            let (update, value) = if stem.contains("cmpxchg") {
                tokens.expect(",")?;
                let expected = value.convert(address.kind.pointed_to()).value;
                let update = Update::CompareExchange { expected, failure: Ordering::Relaxed };
                (update, self.expression(tokens)?)
            } else {
                (Update::Exchange, value)
            };
            return self.modify(&address, update, value, order, at);
        }
        let update = match stem {
            "atomic_exchange" => Update::Exchange,
            "atomic_fetch_add" => Update::With(Operator::Add),
            "atomic_fetch_sub" => Update::With(Operator::Subtract),
            "atomic_fetch_and" => Update::With(Operator::And),
            "atomic_fetch_or" => Update::With(Operator::Or),
            "atomic_fetch_xor" => Update::With(Operator::Xor),
            _ => {
                let message = format!("the function `{}` is not supported", function.text);
                return Err(ParseError::unsupported(at, message));
            }
        };
        let first = self.expression(tokens)?;
        tokens.expect(",")?;
        let second = self.expression(tokens)?;
        let is_fetch = matches!(update, Update::With(_));
        // The kernel has what is added before the location.
        let is_kernel = is_fetch && !explicit && !first.kind.is_pointer() && second.kind.is_pointer();
        let (address, value) = if is_kernel { (second, first) } else { (first, second) };
        let address = self.pointer(address, at)?;
        if is_fetch && address.kind.pointed_to().is_pointer() {
            let message = format!(
                "`{}` of a pointer is not supported: some compilers count in bytes and others in elements",
                function.text
            );
            return Err(ParseError::unsupported(at, message));
        }
        let order = if is_kernel { kernel::FULL } else { (argument(tokens, explicit)?, false) };
        self.modify(&address, update, value, order, at)
    }

    /// A read-modify-write; gives what it found.
    pub(super) fn modify(
        &mut self,
        address: &Typed,
        update: Update,
        value: Typed,
        (ordering, between_fences): Order,
        at: At,
    ) -> Result<Typed, ParseError> {
        let kind = address.kind.pointed_to();
        if kind.number() == Number::Bool && matches!(update, Update::With(_)) {
            let message = "C has no arithmetic of an atomic `bool` in one step: exchange its value, or compare and \
                           exchange it";
            return Err(ParseError::unsupported(at, message));
        }
        let register = self.builder.fresh_register(self.thread);
        if between_fences {
            self.push(Step::Fence(Ordering::SeqCst), at)?;
        }
        let step = Step::ReadModifyWrite {
            found: register,
            wrote: None,
            address: address.value.clone(),
            update,
            value: stored(value, kind),
            width: kind.number().width(),
            ordering,
        };
        self.push(step, at)?;
        if between_fences {
            self.push(Step::Fence(Ordering::SeqCst), at)?;
        }
        Ok(found(register, kind))
    }

    /// The expected value lies in a local or where a pointer points to, which gets what was found when the exchange fails. A weak
    /// one may fail whatever it finds: then it is a load with the order of a failure.
    fn compare_exchange(
        &mut self,
        function: &Token,
        tokens: &mut Tokens<'t>,
        explicit: bool,
        is_weak: bool,
    ) -> Result<Typed, ParseError> {
        let at = function.at;
        let address = self.address(function, tokens)?;
        let kind = address.kind.pointed_to();
        tokens.expect(",")?;
        let takes_address = tokens.take("&");
        let holder = match self.operand(tokens)? {
            Operand::Value(pointer) => self.plain(pointer, at)?,
            Operand::Local(_, pointer) if pointer.kind.is_pointer() && !takes_address => {
                self.plain(pointer, at)?
            }
            place @ Operand::Memory(_) if !takes_address => {
                let pointer = self.read(place, at)?;
                self.plain(pointer, at)?
            }
            Operand::Memory(pointer) => self.plain(pointer, at)?,
            local @ Operand::Local(..) => local,
        };
        let expected = self.read(holder.clone(), at)?.convert(kind).value;
        tokens.expect(",")?;
        let value = self.expression(tokens)?;
        let ordering = argument(tokens, explicit)?;
        let failure = argument(tokens, explicit)?;
        if matches!(failure, Ordering::Release | Ordering::AcqRel) {
            return Err(ParseError::unsupported(at, "an exchange that fails does not release"));
        }
        let register = self.builder.fresh_register(self.thread);
        let wrote = self.builder.fresh_register(self.thread);
        let failed = if is_weak { Some(self.fail((register, wrote), &address, failure, at)?) } else { None };
        let step = Step::ReadModifyWrite {
            found: register,
            wrote: Some(wrote),
            address: address.value,
            update: Update::CompareExchange { expected, failure },
            value: stored(value, kind),
            width: kind.number().width(),
            ordering,
        };
        self.push(step, at)?;
        let done = self.jump(Expression::Register(wrote), at)?;
        self.land(failed.as_slice());
        self.write(holder, found(register, kind), at)?;
        self.land(&[done]);
        Ok(Typed::int(Expression::Register(wrote)))
    }

    /// What a pointer points to, read and written as any other variable.
    fn plain(&self, pointer: Typed, at: At) -> Result<Operand, ParseError> {
        let Typed { value, kind } = self.pointer(pointer, at)?;
        Ok(Operand::Memory(Typed { value, kind: kind.plain() }))
    }

    /// Lets a weak compare-and-exchange fail, or goes on to the exchange; gives the jump to where it has failed.
    fn fail(
        &mut self,
        (found, wrote): (usize, usize),
        address: &Typed,
        failure: Ordering,
        at: At,
    ) -> Result<usize, ParseError> {
        let choice = self.builder.fresh_register(self.thread);
        self.push(Step::Choose { register: choice }, at)?;
        let goes_on = self.jump_unless(Expression::Register(choice), at)?;
        let (width, address) = (address.kind.pointed_to().number().width(), address.value.clone());
        self.push(Step::Load { register: found, address, width, ordering: Some(failure) }, at)?;
        self.push(Step::Set { register: wrote, value: Expression::Constant(0) }, at)?;
        let failed = self.jump(Expression::Constant(1), at)?;
        self.land(&[goes_on]);
        Ok(failed)
    }

    /// The address that the first argument gives: as a value, `x`, `&x`, `x + 1` or, where a pointer lies, `*p` and `p[1]`; or that
    /// of what some of the kernel's macros are given itself, `*x` and `x[1]`.
    pub(super) fn address(&mut self, function: &Token, tokens: &mut Tokens<'t>) -> Result<Typed, ParseError> {
        let at = tokens.at();
        let lies_there = takes_what_lies_there(&function.text);
        let pointer = if lies_there && tokens.take("*") {
            self.unary(tokens)?
        } else if lies_there && tokens.peek_at(1).is_some_and(|next| next.is("[")) {
            match self.operand(tokens)? {
                Operand::Memory(address) => address,
                _ => return Err(ParseError::new(at, "an address is wanted")),
            }
        } else {
            self.expression(tokens)?
        };
        self.pointer(pointer, at)
    }
}

/// Whether a function is given what it accesses, and not its address: `READ_ONCE(*x)`, but `smp_load_acquire(x)`.
fn takes_what_lies_there(name: &str) -> bool {
    matches!(name, "READ_ONCE" | "WRITE_ONCE" | "rcu_dereference" | "rcu_assign_pointer" | "smp_store_mb")
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
