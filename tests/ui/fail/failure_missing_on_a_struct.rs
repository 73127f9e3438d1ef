use std::fmt;

use ruststream::Failure;

#[derive(Failure)]
struct OrderError;

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no")
    }
}

fn main() {}
