//! Threads in the assembly of x86, in both orders of operands.
//!
//! `X86` files write `MOV [x],$1` with the destination first, `X86_64` files `movq $1,(x)` with the destination last. An instruction
//! that has brackets, or percent signs, as only the other kind has them is read as that kind.

mod flags;
mod instruction;
mod operand;

use std::collections::HashMap;

use super::builder::{Builder, ends_threads};
use super::program::{Expression, Step};
use super::token::{At, ParseError, Token, Tokens};
use flags::{Flags, uses_flags};
use instruction::Instruction;

/// Reads the table of threads: a column a thread, a row an instruction of each.
pub(super) fn threads(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<(), ParseError> {
    header(tokens, builder)?;
    let mut columns = vec![Vec::new(); builder.program.threads.len()];
    let mut unended = None;
    while !tokens.is_empty() && !ends_threads(tokens) {
        let ended = tokens.has(";");
        let mut row = tokens.until(";");
        for column in &mut columns {
            let cell = row.until("|");
            if !cell.is_empty() {
                column.push(cell);
            }
        }
        if !row.is_empty() {
            return Err(ParseError::new(row.at(), "the row has more columns than there are threads"));
        }
        unended = (!ended).then(|| tokens.unexpected("`;` after the row"));
    }
    for (thread, cells) in columns.into_iter().enumerate() {
        let flags = cells.iter().any(uses_flags).then(|| {
            let mut fresh = || builder.fresh_register(thread);
            Flags { zero: fresh(), sign: fresh(), less: fresh(), below: fresh() }
        });
        let mut column =
            Column { builder, thread, flags, labels: HashMap::new(), jumps: Vec::new(), lock: None };
        for cell in cells {
            column.cell(cell)?;
        }
        column.resolve()?;
    }
    // What is wrong within the row says more.
    unended.map_or(Ok(()), Err)
}

/// `P0 | P1 ;`
fn header(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<(), ParseError> {
    let mut header = tokens.until(";");
    while !header.is_empty() {
        let at = header.at();
        let name = header.next().map_or("", |name| &name.text);
        let wanted = format!("P{}", builder.program.threads.len());
        if name != wanted {
            return Err(ParseError::new(at, format!("expected `{wanted}`, found `{name}`")));
        }
        builder.add_thread(builder.program.threads.len(), at)?;
        if !header.is_empty() {
            header.expect("|")?;
        }
    }
    if builder.program.threads.is_empty() {
        return Err(tokens.unexpected("`P0` and the other threads"));
    }
    Ok(())
}

/// One thread while it is read.
struct Column<'a> {
    builder: &'a mut Builder,
    thread: usize,
    /// None when no instruction looks at them.
    flags: Option<Flags>,
    /// The step that each stands before. There may be any number of them before one step.
    labels: HashMap<&'a str, usize>,
    /// Jumps, with the label that they go to; none for the end of the thread.
    jumps: Vec<(usize, Option<&'a Token>)>,
    /// The prefix `lock` on a line of its own, for the next instruction.
    lock: Option<At>,
}

impl<'a> Column<'a> {
    fn cell(&mut self, mut cell: Tokens<'a>) -> Result<(), ParseError> {
        while cell.peek_at(1).is_some_and(|next| next.is(":")) {
            let label = cell.next().expect("peeked");
            cell.next();
            let step = self.builder.next_step(self.thread);
            if self.labels.insert(label.text.as_str(), step).is_some() {
                let message = format!("the label `{}` is there twice in thread {}", label.text, self.thread);
                return Err(ParseError::new(label.at, message));
            }
        }
        if cell.is_empty() { Ok(()) } else { Instruction::read(cell, self) }
    }

    fn push(&mut self, step: Step, at: At) -> Result<(), ParseError> {
        self.builder.push(self.thread, step, at)
    }

    /// A jump whose target is set later.
    fn jump(&mut self, when: Expression, at: At) -> Result<usize, ParseError> {
        let number = self.builder.next_step(self.thread);
        self.push(Step::Jump { when, to: number + 1 }, at)?;
        Ok(number)
    }

    /// Lets a jump go to the step that comes next.
    fn land(&mut self, jump: usize) {
        self.builder.set_target(self.thread, jump, self.builder.next_step(self.thread));
    }

    /// Lets every jump to a label go there, at the end of the thread.
    fn resolve(&mut self) -> Result<(), ParseError> {
        if let Some(at) = self.lock {
            return Err(ParseError::new(at, "no instruction comes after `lock`"));
        }
        for (jump, label) in std::mem::take(&mut self.jumps) {
            let target = match label {
                None => self.builder.next_step(self.thread),
                Some(label) => match self.labels.get(label.text.as_str()) {
                    Some(&step) => step,
                    None => {
                        let message = format!("thread {} has no label `{}`", self.thread, label.text);
                        return Err(ParseError::new(label.at, message));
                    }
                },
            };
            self.builder.set_target(self.thread, jump, target);
        }
        Ok(())
    }
}
