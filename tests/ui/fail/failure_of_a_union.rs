use ruststream::Failure;

#[derive(Failure)]
#[failure(retry)]
union OrderError {
    number: u32,
}

fn main() {}
