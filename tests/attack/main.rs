//! Attacks on the framework: random faults with exact accounts, and hostile input by hand.

mod accounting;
mod busy;
mod chance;
mod handlers;
mod messages;
mod record;
mod stops;
mod threads;
mod windows;
