//! How a delivery is settled. Pure: no clock, no I/O, no async.
//!
//! [`attempt`] counts (spec C1-C3), [`failure`] turns an error, a panic or a timeout into an outcome
//! (C8), [`decide`] turns an outcome into a [`Plan`] by the A, M and R tables of the specification,
//! and [`pace`] says how long an immediate retry is held back (C12). Protocol words do not occur.

pub mod attempt;
mod decide;
pub mod failure;
pub mod pace;
mod plan;

pub use decide::decide;
pub use decide::spent;
pub use plan::Decision;
pub use plan::Facts;
pub use plan::Plan;
pub use plan::Reason;
