use ruststream::Failure;

#[derive(Failure)]
#[failure(retry)]
struct OrderError;

fn main() {}
