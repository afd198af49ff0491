//! Litmus tests: small programs in herd's format, and what each model says about them.
//!
//! ```
//! use contend_checker::Model;
//! use contend_checker::litmus::Test;
//!
//! let test = Test::parse(
//!     "X86 SB
//!      { x=0; y=0; }
//!       P0         | P1         ;
//!       MOV [x],$1 | MOV [y],$1 ;
//!       MOV EAX,[y]| MOV EAX,[x];
//!      exists (0:EAX=0 /\\ 1:EAX=0)",
//! )?;
//! assert!(!test.judge(Model::Sc).is_allowed());
//! assert!(test.judge(Model::Tso).is_allowed());
//! # Ok::<(), contend_checker::litmus::ParseError>(())
//! ```

mod builder;
mod c;
mod condition;
mod explore;
mod initial;
mod loops;
mod memory;
pub mod native;
pub mod program;
mod register;
mod test;
mod token;
mod types;
mod x86;

pub use builder::Dialect;
pub use condition::{Condition, Observable, Quantifier};
pub use explore::{Finals, Limits};
pub use test::{Judgement, Test};
pub use token::{At, ParseError, Trouble};
