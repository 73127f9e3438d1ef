//! Attacks on the framework: random faults with exact accounts, and hostile input by hand.

mod accounting;
mod chance;
mod handlers;
mod messages;
mod record;
mod stops;
mod windows;
