//! The crate may have another name, or be reached through another crate.
#![deny(warnings)]

extern crate ruststream as renamed;

mod shared {
    pub mod broker {
        pub use ruststream as messages;
    }
}

#[renamed::subscriber(crate = renamed, address = "a", prefetch = 3)]
async fn by_name(_: renamed::Bytes) {}

#[renamed::subscriber(crate = crate::shared::broker::messages, address = "b", ordered_by = key)]
async fn by_path(_: renamed::Bytes) -> Result<(), Problem> {
    Err(Problem)
}

fn key(_: &renamed::Delivery) -> u8 {
    0
}

#[derive(Debug, renamed::Failure)]
#[failure(retry, crate = shared::broker::messages)]
struct Problem;

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("problem")
    }
}

fn main() {}
