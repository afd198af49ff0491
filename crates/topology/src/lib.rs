//! What a machine is made of and what that costs.
//!
//! - [`machine_file`]: the file that describes a machine, and the costs that the model takes from it;
//! - [`carried`]: the files that contend carries, and where the file of the machine you are on lies;
//! - [`source`]: what stands behind a number of a file;
//! - [`range`](mod@range): a number that is known to lie between two others.
//!
//! The model and the simulator read the same files and know nothing of each other.

pub mod carried;
pub mod machine_file;
pub mod range;
pub mod source;

pub use machine_file::MachineFile;
pub use range::Range;
pub use source::{Basis, Source};

/// The most cores that a machine has.
pub const MAX_CORES: u32 = 4096;
