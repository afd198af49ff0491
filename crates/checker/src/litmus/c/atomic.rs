//! `atomic { … }`, a transaction, and `aborted { … }` behind it.
//!
//! An abort leaves no trace, so one that comes late is one that comes at once. Without `aborted` a transaction that aborts is begun
//! again until it commits, which is to say that it commits. A block within another one is a part of it.

use super::Thread;
use crate::litmus::program::{Expression, Step};
use crate::litmus::token::{At, ParseError, Tokens};

impl<'t> Thread<'_, 't> {
    pub(super) fn atomic(&mut self, tokens: &mut Tokens<'t>) -> Result<(), ParseError> {
        let at = tokens.expect("atomic")?;
        if self.transaction.is_some() {
            self.block(tokens)?;
            return match aborted(tokens) {
                Some(at) => Err(ParseError::unsupported(
                    at,
                    "an atomic block within another one is a part of it and does not abort alone; \
                     `aborted` belongs behind the outer one",
                )),
                None => Ok(()),
            };
        }
        let begin = self.next_step();
        self.push(Step::Begin { aborted: None }, at)?;
        self.transaction = Some(begin);
        self.block(tokens)?;
        self.push(Step::Commit, at)?;
        self.transaction = None;
        if let Some(at) = aborted(tokens) {
            let end = self.jump(Expression::Constant(1), at)?;
            self.land(&[begin]);
            self.block(tokens)?;
            self.land(&[end]);
        }
        Ok(())
    }

    /// Refuses a jump between places in different transactions, or in one and in none.
    pub(super) fn stay_inside(
        &self,
        word: &str,
        at: At,
        from: Option<usize>,
        to: Option<usize>,
    ) -> Result<(), ParseError> {
        if from == to {
            return Ok(());
        }
        let (crosses, remedy) = match from {
            Some(_) => ("leaves", "let the block end, and decide behind it"),
            None => ("enters", "put the label before the block"),
        };
        let message = format!("`{word}` {crosses} an atomic block, which is not supported: {remedy}");
        Err(ParseError::unsupported(at, message))
    }
}

/// Takes `aborted` if `{` follows; gives where it stands.
fn aborted(tokens: &mut Tokens<'_>) -> Option<At> {
    let at = tokens.at();
    let begins_block = tokens.peek_at(1).is_some_and(|next| next.is("{"));
    (begins_block && tokens.take("aborted")).then_some(at)
}
