//! Programs that must not compile: safe code that would read or write what is not its own. Each stands beside one that
//! differs in what makes it wrong alone and does compile, so that it is not refused for another reason.
//!
//! A node that no pool has given, which would write past it:
//!
//! ```compile_fail,E0133
//! use contend_machine::{Machine, Native, Node, Word};
//! struct Mine(<Native as Machine>::U64);
//! // SAFETY: one word.
//! unsafe impl Node<Native> for Mine {}
//! static MINE: Mine = Mine(Word::ZERO);
//! Native::free_node(&MINE);
//! ```
//!
//! ```
//! use contend_machine::{Machine, Native, Node};
//! struct Mine(<Native as Machine>::U64);
//! // SAFETY: one word.
//! unsafe impl Node<Native> for Mine {}
//! let taken = Native::allocate_node::<Mine>();
//! // SAFETY: taken above.
//! unsafe { Native::free_node(taken.node) };
//! ```
//!
//! A name that no node has:
//!
//! ```compile_fail,E0133
//! use contend_machine::{Machine, Native, Node};
//! struct Mine(<Native as Machine>::U64);
//! // SAFETY: one word.
//! unsafe impl Node<Native> for Mine {}
//! Native::named_node::<Mine>(123_456);
//! ```
//!
//! ```
//! use contend_machine::{Machine, Native, Node};
//! struct Mine(<Native as Machine>::U64);
//! // SAFETY: one word.
//! unsafe impl Node<Native> for Mine {}
//! let taken = Native::allocate_node::<Mine>();
//! // SAFETY: the name of a node.
//! let named = unsafe { Native::named_node::<Mine>(taken.name.unwrap()) };
//! assert!(std::ptr::eq(named, taken.node));
//! ```
//!
//! A cell of three bytes, of which the hardware reads eight or four:
//!
//! ```compile_fail,E0080
//! use contend_machine::{Machine, Native, Plain, PlainCell};
//! #[derive(Clone, Copy, Debug, PartialEq)]
//! struct Bytes([u8; 3]);
//! // SAFETY: bytes.
//! unsafe impl Plain for Bytes {
//!     const ZERO: Self = Self([0; 3]);
//!     fn to_bits(self) -> u64 {
//!         0
//!     }
//!     fn from_bits(_: u64) -> Self {
//!         Self::ZERO
//!     }
//! }
//! let cell: <Native as Machine>::Cell<Bytes> = PlainCell::ZERO;
//! cell.get();
//! ```
//!
//! ```
//! use contend_machine::{Machine, Native, Plain, PlainCell};
//! #[derive(Clone, Copy, Debug, PartialEq)]
//! struct Bytes([u8; 1]);
//! // SAFETY: bytes.
//! unsafe impl Plain for Bytes {
//!     const ZERO: Self = Self([0; 1]);
//!     fn to_bits(self) -> u64 {
//!         0
//!     }
//!     fn from_bits(_: u64) -> Self {
//!         Self::ZERO
//!     }
//! }
//! let cell: <Native as Machine>::Cell<Bytes> = PlainCell::ZERO;
//! cell.get();
//! ```
//!
//! Eight bytes that may lie across the end of a word:
//!
//! ```compile_fail,E0080
//! use contend_machine::{Machine, Native, Plain, PlainCell};
//! #[derive(Clone, Copy, Debug, PartialEq)]
//! struct Bytes([u8; 8]);
//! // SAFETY: bytes.
//! unsafe impl Plain for Bytes {
//!     const ZERO: Self = Self([0; 8]);
//!     fn to_bits(self) -> u64 {
//!         0
//!     }
//!     fn from_bits(_: u64) -> Self {
//!         Self::ZERO
//!     }
//! }
//! let cell: <Native as Machine>::Cell<Bytes> = PlainCell::ZERO;
//! cell.set(Bytes::ZERO);
//! ```
//!
//! A symbol that is more assembly:
//!
//! ```compile_fail,E0080
//! contend_machine::thread_block!(fn mine -> u64, symbol = "mine\n.globl main");
//! fn main() {}
//! ```
//!
//! ```
//! contend_machine::thread_block!(fn mine -> u64, symbol = "mine");
//! fn main() {}
//! ```
