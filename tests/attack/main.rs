//! Attacks on the framework: random faults with exact accounts, and hostile input by hand.

mod accounting;
mod chance;
mod record;
mod windows;
