use std::fmt;

use ruststream::Failure;

#[derive(Failure)]
enum OrderError {
    #[failure(retry_after = "0s")]
    Zero,
    #[failure(retry_after = "5")]
    NoUnit,
    #[failure(retry_after = 5)]
    Number,
    #[failure(retry_after)]
    Nothing,
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no")
    }
}

fn main() {}
