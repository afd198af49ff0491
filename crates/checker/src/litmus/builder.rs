//! A litmus test while it is read: what the readers of its parts add to.

use super::memory::Memory;
use super::program::{Program, Step, Width};
use super::register::{register, width_named};
use super::token::{At, ParseError, Tokens};
use super::types::Type;
use crate::MAX_THREADS;

/// The language of a test's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Assembly of x86, with registers of four bytes.
    X86,
    /// Assembly of x86, with registers of eight bytes.
    X86_64,
    /// C with its atomics.
    C,
}

/// A test while it is read.
#[derive(Debug)]
pub(super) struct Builder {
    pub(super) dialect: Dialect,
    pub(super) program: Program,
    pub(super) registers: Vec<Vec<String>>,
    /// Of each thread in C the types of its registers, where something declares them.
    types: Vec<Vec<Option<Type>>>,
    pub(super) memory: Memory,
    /// Where each step stands.
    pub(super) places: Vec<Vec<At>>,
}

/// Registers that a thread names at most.
const MOST_REGISTERS: usize = 256;

/// Steps of a thread at most, far more than fit into an execution.
const MOST_STEPS_WRITTEN: usize = 2_000;

/// What the names of registers begin with that only the translation needs.
const SCRATCH: char = '%';

impl Builder {
    pub(super) fn new(dialect: Dialect) -> Self {
        let program = Program { moves_order: dialect != Dialect::C, ..Program::default() };
        let (registers, types, places) = (Vec::new(), Vec::new(), Vec::new());
        Self { dialect, program, registers, types, memory: Memory::default(), places }
    }

    pub(super) fn add_thread(&mut self, thread: usize, at: At) -> Result<(), ParseError> {
        if thread >= MAX_THREADS {
            let message = format!("thread {thread} is too many: {MAX_THREADS} at most");
            return Err(ParseError::unsupported(at, message));
        }
        self.know_registers_of(thread);
        self.program.threads.resize(thread + 1, Vec::new());
        self.places.resize(thread + 1, Vec::new());
        Ok(())
    }

    fn know_registers_of(&mut self, thread: usize) {
        while self.registers.len() <= thread {
            self.registers.push(Vec::new());
            self.types.push(Vec::new());
            self.program.registers.push(Vec::new());
            self.program.scratch.push(Vec::new());
        }
    }

    /// Adds a step to a thread.
    pub(super) fn push(&mut self, thread: usize, step: Step, at: At) -> Result<(), ParseError> {
        if self.program.threads[thread].len() == MOST_STEPS_WRITTEN {
            let message = format!("thread {thread} has more than {MOST_STEPS_WRITTEN} steps");
            return Err(ParseError::unsupported(at, message));
        }
        self.program.threads[thread].push(step);
        self.places[thread].push(at);
        Ok(())
    }

    /// The number that the next step of a thread gets.
    pub(super) fn next_step(&self, thread: usize) -> usize {
        self.program.threads[thread].len()
    }

    /// Lets a jump that was pushed before go somewhere, or a transaction when it aborts.
    pub(super) fn set_target(&mut self, thread: usize, jump: usize, target: usize) {
        match &mut self.program.threads[thread][jump] {
            Step::Jump { to, .. } => *to = target,
            Step::Begin { aborted } => *aborted = Some(target),
            _ => {}
        }
    }

    /// The register of this name, made known if it was not.
    pub(super) fn register_named(&mut self, thread: usize, name: &str, at: At) -> Result<usize, ParseError> {
        let name = match self.dialect {
            Dialect::X86 | Dialect::X86_64 => match register(name) {
                Some((name, _)) => name,
                None => return Err(ParseError::new(at, format!("`{name}` is no register of x86"))),
            },
            Dialect::C => name.to_owned(),
        };
        self.know_registers_of(thread);
        if let Some(known) = self.registers[thread].iter().position(|known| *known == name) {
            return Ok(known);
        }
        let named = self.registers[thread].len() - self.program.scratch[thread].len();
        if named == MOST_REGISTERS {
            let message = format!("more than {MOST_REGISTERS} registers in thread {thread}");
            return Err(ParseError::unsupported(at, message));
        }
        Ok(self.add_register(thread, name))
    }

    fn add_register(&mut self, thread: usize, name: String) -> usize {
        self.registers[thread].push(name);
        self.types[thread].push(None);
        self.program.registers[thread].push(0);
        self.registers[thread].len() - 1
    }

    /// Gives a register of C a type, which it keeps: one name is one register.
    pub(super) fn declare_register(
        &mut self,
        thread: usize,
        register: usize,
        kind: Type,
        at: At,
    ) -> Result<(), ParseError> {
        if self.types[thread][register].is_some_and(|before| before.number() != kind.number()) {
            let message = format!(
                "`{}` is declared twice in thread {thread}, with different types: give one of them another name",
                self.registers[thread][register]
            );
            return Err(ParseError::unsupported(at, message));
        }
        self.types[thread][register] = Some(kind);
        let held = &mut self.program.registers[thread][register];
        *held = kind.number().convert(*held);
        Ok(())
    }

    /// The type that a declaration gives a register of C.
    pub(super) fn type_of_register(&self, thread: usize, register: usize) -> Option<Type> {
        self.types[thread][register]
    }

    /// How wide a register of this name is: as much of it as the name means on a processor, or its type holds in C.
    pub(super) fn width_of_register(&self, thread: usize, register: usize, name: &str) -> Width {
        let named = if self.dialect == Dialect::C { None } else { width_named(name) };
        let declared = self.types[thread][register].map(|kind| kind.number().width());
        named.or(declared).unwrap_or(Width::Long)
    }

    /// Whether the thread or the initial state names this register.
    pub(super) fn knows_register(&self, thread: usize, name: &str) -> bool {
        self.registers.get(thread).is_some_and(|known| known.iter().any(|known| known == name))
    }

    /// A register that no program names.
    pub(super) fn fresh_register(&mut self, thread: usize) -> usize {
        self.know_registers_of(thread);
        let number = self.registers[thread].len();
        self.program.scratch[thread].push(number);
        self.add_register(thread, format!("{SCRATCH}{number}"))
    }

    pub(super) fn lay_memory(&mut self) -> Result<Vec<String>, ParseError> {
        let laid = self.memory.lay()?;
        self.program.cells = laid.cells;
        self.program.memory = laid.initial;
        Ok(laid.names)
    }
}

/// Whether the threads end here: a condition that names no quantifier begins with a parenthesis, and no thread does.
pub(super) fn ends_threads(tokens: &Tokens<'_>) -> bool {
    starts_condition(tokens) || tokens.peek().is_some_and(|token| token.is("("))
}

/// Whether a word comes next that ends the threads. `not` is an instruction, too.
pub(super) fn starts_condition(tokens: &Tokens<'_>) -> bool {
    tokens.peek().is_some_and(|token| match token.text.as_str() {
        "exists" | "forall" | "locations" | "filter" | "final" | "cond" => true,
        "~" | "not" => tokens.peek_at(1).is_some_and(|next| next.is("exists")),
        _ => false,
    })
}
