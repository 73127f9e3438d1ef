//! What `#[derive(Failure)]` takes.
#![deny(warnings)]

use std::fmt;
use std::time::Duration;

use ruststream::Failure;
use ruststream::Outcome;

const SOON: &str = "1s500ms";

#[derive(Debug, Failure)]
enum Problem<T> {
    #[failure(retry)]
    Unit,
    #[failure(retry_after = SOON)]
    Tuple(T, u8),
    #[failure(drop)]
    Named { value: T },
    #[failure(dead_letter)]
    Last,
    #[cfg(any())]
    #[failure(retry)]
    Absent(Missing),
}

impl<T: fmt::Debug> fmt::Display for Problem<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[derive(Debug, Failure)]
enum Never {}

impl fmt::Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

#[derive(Debug, Failure)]
#[failure(dead_letter)]
struct Broken<'a>(&'a str);

impl fmt::Display for Broken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

fn main() {
    assert_eq!(Problem::<u8>::Unit.outcome(), Outcome::Retry);
    assert_eq!(Problem::Tuple(1, 2).outcome(), Outcome::RetryAfter(Duration::from_millis(1500)));
    assert_eq!(Problem::Named { value: 1 }.outcome(), Outcome::Drop);
    assert_eq!(Problem::<u8>::Last.outcome(), Outcome::DeadLetter);
    assert_eq!(Broken("x").outcome(), Outcome::DeadLetter);
    let _: Option<Never> = None;
}
