//! The MQTT driver against a server that the test plays, packet by packet.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod leaving;
mod log;
mod rig;
mod server;
mod sessions;
