use std::fmt;

use ruststream::Failure;

#[derive(Failure)]
enum OrderError {
    #[failure(retyr)]
    Typing,
    #[failure(ack)]
    Done,
    #[failure(reject)]
    Refused,
    #[failure(banana)]
    Unknown,
    #[failure]
    Empty,
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no")
    }
}

fn main() {}
