use std::fmt;

use ruststream::Failure;

#[derive(Failure)]
enum OrderError {
    #[failure(retry, drop)]
    Busy,
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no")
    }
}

fn main() {}
