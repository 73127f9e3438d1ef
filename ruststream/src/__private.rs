//! What generated code needs. Not for use by hand; it may change in any release.

pub use inventory;

pub use crate::extract::Extract;
pub use crate::extract::Incoming;
pub use crate::extract::Rejection;
pub use crate::handler::Slot;
pub use crate::handler::Typed;
pub use crate::handler::Verdict;
pub use crate::registration::*;
